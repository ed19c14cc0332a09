"""The two ends of the generated calls: stubs of the client, dispatch of the session.

A call carries one u64 for each input in the order of the signature; its reply one for each output.
Handles travel as the numbers that the client gave them."""

from common_out import BANNER, c_params

HANDLES = {"CUstream": "stream", "CUevent": "event", "CUfunction": "function"}


def travels(cat):
    return sorted((s for s in cat.functions() if s.op is not None), key=lambda s: s.op)


def inputs(sym):
    return [p for p in sym.params if p.direction == "in"]


def outputs(sym):
    return [p for p in sym.params if p.direction == "out"]


def session_function(sym):
    out = [f"static CUresult call_{sym.name}(px_call_t *call)\n{{\n"]
    for i, p in enumerate(inputs(sym)):
        if p.ctype in HANDLES:
            verb = "px_take_" if p.note == "releases" else "px_"
            out.append(f"    {p.ctype} {p.name} = {verb}{HANDLES[p.ctype]}(call, call->args[{i}]);\n")
        else:
            out.append(f"    {p.ctype} {p.name} = ({p.ctype})call->args[{i}];\n")
    for p in outputs(sym):
        out.append(f"    {p.ctype[:-1].strip()} {p.name} = 0;\n")
    out.append("    if (call->bad)\n        return call->bad;\n")
    args = ", ".join(("&" if p.direction == "out" else "") + p.name for p in sym.params)
    if sym.blocking:
        # Done already? Then it costs no change of threads; what kernels printed comes out with it.
        query = sym.name.replace("Synchronize", "Query")
        out.append("    if (!call->may_block) {\n"
                   f"        CUresult now = call->cuda->{query}({args});\n"
                   "        if (now)\n"
                   "            return now == CUDA_ERROR_NOT_READY ? PX_WOULD_BLOCK : now;\n    }\n")
    if not outputs(sym):
        out.append(f"    return call->cuda->{sym.name}({args});\n}}\n\n")
        return "".join(out)
    out.append(f"    CUresult result = call->cuda->{sym.name}({args});\n")
    for i, p in enumerate(outputs(sym)):
        out.append(f"    memcpy(&call->out[{i}], &{p.name}, sizeof({p.name}));\n")
    out.append(f"    call->outs = {len(outputs(sym))};\n    return result;\n}}\n\n")
    return "".join(out)


def session_calls(cat):
    out = [BANNER, '#include <string.h>\n\n#include "gpu-proxy/session/px_state.h"\n\n']
    for sym in travels(cat):
        if sym.cls == "custom":
            out.append(f"CUresult px_do_{sym.name}(px_call_t *call);\n")
    out.append("\n")
    for sym in travels(cat):
        if sym.cls != "custom":
            out.append(session_function(sym))
    out.append("const px_entry_t px_calls[GB_OP_CALL_END] = {\n")
    for sym in travels(cat):
        custom = sym.cls == "custom"
        run = f"px_do_{sym.name}" if custom else f"call_{sym.name}"
        args = sym.payload // 8 if custom else len(inputs(sym))
        out.append(f"    [{sym.op}] = {{{run}, {args}, {int(sym.queued)}, {int(sym.blocking)}}},\n")
    out.append("};\n")
    return "".join(out)


def client_stub(sym):
    out = [f"CUresult {sym.name}({c_params(sym.params)})\n{{\n"]
    count = len(inputs(sym))
    out.append(f"    uint64_t args[{max(count, 1)}] = {{0}};\n")
    if outputs(sym):
        out.append(f"    uint64_t outs[{len(outputs(sym))}] = {{0}};\n")
    # What reaches memory needs a current context, whatever the stream.
    memory = any(p.note_arg("range") or p.note_arg("rows") for p in inputs(sym))
    begin = "rc_begin_in_context" if memory else "rc_begin"
    out.append(f"    rc_call_t call;\n    CUresult result = {begin}(&call);\n")
    for p in outputs(sym):
        out.append(f"    if (!result && !{p.name})\n        result = CUDA_ERROR_INVALID_VALUE;\n")
    for i, p in enumerate(inputs(sym)):
        size = p.note_arg("range")
        if p.ctype in HANDLES:
            out.append(f"    if (!result)\n        result = rc_use_{HANDLES[p.ctype]}"
                       f"(&call, {p.name}, &args[{i}]);\n")
        elif p.note_arg("mask"):
            out.append(f"    if (!result && ({p.name} & ~({p.note_arg('mask')})))\n"
                       f"        result = CUDA_ERROR_INVALID_VALUE;\n    args[{i}] = {p.name};\n")
        elif p.note_arg("rows"):
            pitch, width, height = [x.strip() for x in p.note_arg("rows").split(",")]
            width, times = [x.strip() for x in (width + " * 1").split("*")[:2]]
            out.append(f"    if (!result)\n        result = rc_use_rows(&call, {p.name}, {pitch}, {width}, "
                       f"{times}, {height}, &args[{i}]);\n")
        elif size:
            scaled = size.replace(" ", "").split("*")
            times = scaled[1] if len(scaled) > 1 else "1"
            out.append(f"    if (!result)\n        result = rc_use_range(&call, {p.name}, {scaled[0]}, "
                       f"{times}, &args[{i}]);\n")
        elif p.ctype == "int":
            out.append(f"    args[{i}] = (uint64_t)(int64_t){p.name};\n")
        else:
            out.append(f"    args[{i}] = (uint64_t){p.name};\n")
    released = [p for p in inputs(sym) if p.note == "releases"]
    for p in released:
        out.append(f"    if (!result)\n        result = rc_drop_{HANDLES[p.ctype]}(&call, {p.name});\n")
    out.append("    if (result)\n        return result;\n")
    if sym.queued:
        out.append(f"    return rc_post(&call, GB_OP_{sym.name}, args, {count});\n}}\n\n")
        return "".join(out)
    outs = "outs" if outputs(sym) else "NULL"
    out.append(f"    result = rc_ask(&call, GB_OP_{sym.name}, args, {count}, {outs}, "
               f"{len(outputs(sym))});\n")
    for i, p in enumerate(outputs(sym)):
        out.append(f"    if (!result)\n        memcpy({p.name}, &outs[{i}], sizeof(*{p.name}));\n")
    out.append("    return result;\n}\n\n")
    return "".join(out)


def client_stubs(cat):
    out = [BANNER, '#include <string.h>\n\n#include "gb_cuda_api.h"\n#include "gb_cuda_ops.h"\n'
           '#include "gpu-proxy/client/rc_call.h"\n\n']
    for sym in travels(cat):
        if sym.cls in ("reply", "async"):
            out.append(client_stub(sym))
    return "".join(out)
