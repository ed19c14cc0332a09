"""What both CUDA libraries, the session and our own programs use: prototypes, the driver table,
default definitions, the resolver's table and the version script."""

BANNER = "/* Made by proto/scanner from proto/cuda.api: change the catalogue instead. */\n"


def c_params(params, names=True):
    if params is None or not params:
        return "void"
    return ", ".join(p.decl if names else p.ctype for p in params)


def api_header(cat):
    out = [BANNER, "#ifndef GB_CUDA_API_H\n#define GB_CUDA_API_H\n\n",
           '#include "common/cuda/gb_cuda.h"\n\n#pragma GCC visibility push(default)\n']
    for sym in cat.ordered():
        params = cat.signature(sym)
        if params is not None:
            out.append(f"CUresult {sym.name}({c_params(params)});\n")
    out.append("#pragma GCC visibility pop\n\n#endif\n")
    return "".join(out)


def table_header(cat):
    out = [BANNER, "#ifndef GB_CUDA_TABLE_H\n#define GB_CUDA_TABLE_H\n\n",
           '#include "common/cuda/gb_cuda.h"\n\n',
           "/* One pointer per driver function of tiers 1 to 3, named after the exported symbol.\n"
           " * A table filled by gb_driver_open has no NULL: missing symbols answer\n"
           " * CUDA_ERROR_NOT_SUPPORTED. */\n",
           "typedef struct gb_cuda_table {\n"]
    functions = cat.functions()
    for sym in functions:
        out.append(f"    CUresult (*{sym.name})({c_params(sym.params)});\n")
    out.append("} gb_cuda_table_t;\n\n")
    out.append(f"#define GB_CUDA_TABLE_COUNT {len(functions)}\n\n")
    out.append("/* Names of the entries, in the order of the pointers. */\n"
               "extern const char *const gb_cuda_table_names[GB_CUDA_TABLE_COUNT];\n"
               "/* An older name of the same function, for drivers that lack the newer; NULL = none. */\n"
               "extern const char *const gb_cuda_table_older[GB_CUDA_TABLE_COUNT];\n\n#endif\n")
    return "".join(out)


def table_source(cat):
    out = [BANNER, '#include "gb_cuda_table.h"\n\n',
           "const char *const gb_cuda_table_names[GB_CUDA_TABLE_COUNT] = {\n"]
    out += [f'    "{s.name}",\n' for s in cat.functions()]
    older = {s.target: s.name for s in cat.ordered() if s.kind == "like"}
    out.append("};\n\nconst char *const gb_cuda_table_older[GB_CUDA_TABLE_COUNT] = {\n")
    out += [f'    "{older[s.name]}",\n' if s.name in older else "    0,\n"
            for s in cat.functions()]
    out.append("};\n\n_Static_assert(sizeof(gb_cuda_table_t) == GB_CUDA_TABLE_COUNT * sizeof(void *), "
               '"the table is pointers only");\n')
    return "".join(out)


def ops_header(cat):
    out = [BANNER, "#ifndef GB_CUDA_OPS_H\n#define GB_CUDA_OPS_H\n\n#include <stdint.h>\n\n",
           "/* Operation numbers of the CUDA calls that travel. */\ntypedef enum {\n"]
    travelling = sorted((s for s in cat.functions() if s.op is not None), key=lambda s: s.op)
    out += [f"    GB_OP_{s.name} = {s.op},\n" for s in travelling]
    top = travelling[-1].op
    out.append(f"    GB_OP_CALL_END = {top + 1},\n}} gb_op_t;\n\n")
    out.append("/* Name of a call's operation, NULL if the number is none. */\n"
               "const char *gb_op_name(uint16_t op);\n"
               "/* True if the call may wait for the device. */\n"
               "int gb_op_blocking(uint16_t op);\n\n#endif\n")
    return "".join(out)


def ops_source(cat):
    travelling = sorted((s for s in cat.functions() if s.op is not None), key=lambda s: s.op)
    out = [BANNER, '#include "gb_cuda_ops.h"\n\n#include <stddef.h>\n\n',
           "static const struct {\n    const char *name;\n    int blocking;\n"
           "} ops[GB_OP_CALL_END] = {\n"]
    out += [f'    [{s.op}] = {{"{s.name}", {int(s.blocking)}}},\n' for s in travelling]
    out.append("};\n\nconst char *gb_op_name(uint16_t op)\n{\n"
               "    return op < GB_OP_CALL_END ? ops[op].name : NULL;\n}\n\n"
               "int gb_op_blocking(uint16_t op)\n{\n"
               "    return op < GB_OP_CALL_END && ops[op].blocking;\n}\n")
    return "".join(out)


def thread_call(cat, sym):
    """Body of a per-thread variant: the NULL stream is the calling thread's own."""
    target = cat.symbols[sym.target]
    params = cat.signature(sym)
    if sym.sync:
        args = ", ".join([p.name for p in params] + ["CU_STREAM_PER_THREAD"])
        return (f"    CUresult result = {target.name}({args});\n"
                f"    return result ? result : {sym.sync}(CU_STREAM_PER_THREAD);\n")
    lines, args = [], []
    for p in params:
        if p.ctype == "CUstream":
            args.append(f"gb_cuda_thread_stream({p.name})")
        elif p.ctype == "const CUlaunchConfig *":
            lines.append(f"    CUlaunchConfig own;\n    if ({p.name}) {{\n        own = *{p.name};\n"
                         "        own.hStream = gb_cuda_thread_stream(own.hStream);\n"
                         f"        {p.name} = &own;\n    }}\n")
            args.append(p.name)
        else:
            args.append(p.name)
    return "".join(lines) + f"    return {target.name}({', '.join(args)});\n"


def defaults_source(cat):
    """A weak definition of every exported name; real ones are strong symbols in other files."""
    out = [BANNER, '#include "gb_cuda_api.h"\n#include "common/cuda/gb_cuda_default.h"\n\n',
           "#define DEFAULT __attribute__((weak, visibility(\"default\")))\n",
           '#pragma GCC diagnostic ignored "-Wunused-parameter"\n\n']
    for sym in cat.ordered():
        params = cat.signature(sym)
        if params is None:
            out.append(f"DEFAULT CUresult {sym.name}(void);\n")
        out.append(f"DEFAULT CUresult {sym.name}({c_params(params)})\n{{\n")
        if sym.kind == "thread":
            out.append(thread_call(cat, sym))
        elif sym.kind == "like":
            args = ", ".join(p.name for p in params)
            out.append(f"    return {sym.target}({args});\n")
        else:
            out.append("    static int told;\n"
                       f'    return gb_cuda_not_supported(&told, "{sym.name}");\n')
        out.append("}\n\n")
    return "".join(out)


def resolver_source(cat):
    """Candidates per base name, oldest first, legacy before per-thread at the same version."""
    out = [BANNER, '#include "gb_cuda_api.h"\n#include "common/cuda/gb_cuda_default.h"\n\n',
           "#pragma GCC visibility push(default)\n"]
    for sym in cat.ordered():
        if cat.signature(sym) is None:
            out.append(f"CUresult {sym.name}(void);\n")
    out.append("#pragma GCC visibility pop\n\n#define F(f) ((void (*)(void))(f))\n\n"
               "const gb_cuda_symbol_t gb_cuda_symbols[] = {\n")
    count = 0
    for entry in sorted(cat.entries, key=lambda e: e.base):
        for sym in sorted(entry.symbols, key=lambda s: (s.per_thread, s.version)):
            out.append(f'    {{"{entry.base}", {sym.version}, {int(sym.per_thread)}, '
                       f"F({sym.name})}},\n")
            count += 1
    out.append(f"}};\n\nconst unsigned gb_cuda_symbol_count = {count};\n")
    return "".join(out)


def version_script(cat):
    names = "".join(f"        {s.name};\n" for s in sorted(cat.ordered(), key=lambda s: s.name))
    return ("/* Made by proto/scanner from proto/cuda.api. */\n"
            "{\n    global:\n" + names + "    local:\n        *;\n};\n")
