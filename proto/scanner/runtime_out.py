"""Reads proto/cudart.api (its head gives the grammar) and makes what libcudart.so.13 needs of it."""

import os
import re

import proofs
from catalogue import CatalogueError, logical_lines, split_params

BANNER = "/* Made by proto/scanner from proto/cudart.api: change the catalogue instead. */\n"


class Call:
    """One name: its result type, parameters [(type, name)] (None: not there), per-thread variant."""

    def __init__(self, name, ctype, params, variant, by, section):
        self.name, self.ctype, self.params = name, ctype, params
        self.variant, self.by, self.section = variant, by, section

    def decl(self, name):
        text = ", ".join(p[0] + ("" if p[0].endswith("*") else " ") + p[1] for p in self.params)
        space = "" if self.ctype.endswith("*") else " "
        return f"{self.ctype}{space}{name}({text or 'void'})"

    def names(self):
        return [self.name] + ([f"{self.name}_{self.variant}"] if self.variant else [])


class Runtime:
    def __init__(self, path):
        self.calls, section, seen = [], "", set()
        for number, text in logical_lines(path):
            if text.startswith("#"):
                m = re.match(r"# ---- (.*)", text)
                section = m.group(1).strip() if m else section
                continue
            call = parse(text, f"{path}:{number}", section)
            for name in call.names():
                if name in seen:
                    raise CatalogueError(f"{path}:{number}: {name} listed twice")
                seen.add(name)
            self.calls.append(call)


def parse(text, where, section):
    m = re.match(r"(?:([^()]*?)\s)??(\w+)(?:\s*\((.*)\))?(?:\s+(ptsz|ptds)(?:\s+(\S+))?)?$", text)
    if not m:
        raise CatalogueError(f"{where}: bad line {text!r}")
    ctype, name, params, variant, by = m.groups()
    if params is not None:
        params = [] if params == "void" else [param(p, where) for p in split_params(params)]
    elif ctype:
        raise CatalogueError(f"{where}: bad line {text!r}")
    return Call(name, (ctype or "cudaError_t").strip(), params, variant, by, section)


def param(text, where):
    m = re.match(r"(.*?)\s*(\w+)(\[\])?$", text.strip())
    if not m or not m.group(1):
        raise CatalogueError(f"{where}: bad parameter {text!r}")
    ctype = re.sub(r"\s*\*", " *", m.group(1)).replace("* *", "**").strip()
    return ctype + (" *" if m.group(3) else ""), m.group(2)


def api_header(cat):
    out = [BANNER, "#ifndef RT_API_H\n#define RT_API_H\n\n",
           '#include "gpu-proxy/runtime/rt_types.h"\n\n#pragma GCC visibility push(default)\n']
    for call in cat.calls:
        if call.params is not None:
            out += [f"{call.decl(name)};\n" for name in call.names()]
    out.append("#pragma GCC visibility pop\n\n#endif\n")
    return "".join(out)


def per_thread(call):
    """Definition of a per-thread variant that follows from the function."""
    args = []
    for ctype, name in call.params:
        args.append(f"rt_thread_stream({name})" if ctype == "cudaStream_t" else
                    f"rt_thread_config({name}, &own)" if ctype.startswith("const cudaLaunchConfig_t")
                    else name)
    own = "    cudaLaunchConfig_t own;\n" if "&own" in "".join(args) else ""
    body = f"    return {call.name}({', '.join(args)});\n"
    if call.variant == "ptds":
        args = ", ".join([p[1] for p in call.params] + ["cudaStreamPerThread"])
        body = (f"    cudaError_t error = {call.by}({args});\n"
                "    return error ? error : cudaStreamSynchronize(cudaStreamPerThread);\n")
    return f"{call.decl(call.name + '_' + call.variant)}\n{{\n{own}{body}}}\n\n"


def defaults_source(cat):
    out = [BANNER, '#include "gpu-proxy/runtime/rt_default.h"\n\n#include "rt_api.h"\n\n']
    for call in cat.calls:
        if call.params is None:
            for name in call.names():
                out.append(f"__attribute__((visibility(\"default\"))) cudaError_t {name}(void);\n"
                           f"cudaError_t {name}(void)\n{{\n    static int told;\n"
                           f'    return rt_not_supported(&told, "{name}");\n}}\n\n')
        elif call.variant and call.by != "-":
            out.append(per_thread(call))
    return "".join(out)


def version_script(cat):
    names = sorted(name for call in cat.calls for name in call.names())
    return ("/* Made by proto/scanner from proto/cudart.api. */\nlibcudart.so.13 {\n    global:\n" +
            "".join(f"        {name};\n" for name in names) + "    local:\n        *;\n};\n")


def names(cat):
    return "".join(f"{name}\n" for call in cat.calls for name in call.names())


def signatures(cat):
    """Compiled against a toolkit's headers: every prototype is the toolkit's own."""
    out = [BANNER, "#include <cuda_runtime_api.h>\n#include <cuda_profiler_api.h>\n\n"]
    for call in cat.calls:
        if call.params is not None and not call.name.startswith("__"):
            types = ", ".join(p[0] for p in call.params) or "void"
            out.append(f"_Static_assert(__builtin_types_compatible_p(__typeof__({call.name}), "
                       f'{call.ctype}({types})), "{call.name}");\n')
    return "".join(out)


def facts(_cat):
    """One FACT(text, value) per enumerator, structure size and field offset of rt_types.h."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "gpu-proxy", "runtime",
                        "rt_types.h")
    with open(path, encoding="utf-8") as f:
        text = re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    out = [BANNER]
    for body in re.findall(r"enum \w+ \{(.*?)\}", text, flags=re.S):
        out += [f'FACT("{n}", (long long){n})\n' for n in re.findall(r"(\w+)\s*=", body)
                if n != "cudaFuncAttributeMax"]
    structs = re.findall(r"\n(typedef )?struct (\w+) \{(.*?)\n\}\s*(\w*);", text, flags=re.S)
    for typedef, tag, body, name in structs:
        ctype = name if typedef else f"struct {tag}"
        out.append(f'FACT("sizeof {ctype}", (long long)sizeof({ctype}))\n')
        if "{" in body:
            continue
        for declaration in body.split(";"):
            for field in re.findall(r"[\s*](\w+)(?:\[\w+\])*(?=,|$)", declaration.strip()):
                out.append(f'FACT("{ctype}.{field}", (long long)offsetof({ctype}, {field}))\n')
    return "".join(out)


def coverage(cat):
    done = sum(len(c.names()) for c in cat.calls if c.params is not None)
    total = sum(len(c.names()) for c in cat.calls)
    out = ["# Coverage of the CUDA runtime API\n\n",
           "Generated from `proto/cudart.api`; do not edit.\n\n",
           f"`libcudart.so.13` exports {total} names; {done} do what CUDA says as far as the "
           "driver under it does ([coverage of the driver](coverage-driver.md)); the others return "
           "`cudaErrorNotSupported` and log their name once.\n"]
    tests = proofs.Tests("tests", "coverage-runtime.md")
    section = None
    for call in cat.calls:
        if call.section != section:
            section = call.section
            out.append(f"\n## {section}\n\n| function | state | per-thread variant | test |\n|---|---|---|---|\n")
        state = "yes" if call.params is not None else "not supported"
        variant = f"`_{call.variant}`" if call.variant else ""
        out.append(f"| `{call.name}` | {state} | {variant} | {tests.of(call.name)} |\n")
    return "".join(out)


OUTPUTS = {
    "rt_api.h": api_header,
    "rt_defaults.c": defaults_source,
    "libcudart.map": version_script,
    "cudart.names": names,
    "rt_signatures.c": signatures,
    "rt_facts.inc": facts,
    "coverage-runtime.md": coverage,
}
