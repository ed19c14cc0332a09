"""Facts to compare with the toolkit's cuda.h where one is installed: the same expressions compiled
against our header and against NVIDIA's, and every signature of the catalogue checked by the compiler."""

import glob
import os
import re

from common_out import BANNER, c_params

HEADERS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "common", "cuda")


def header_text():
    text = ""
    for path in sorted(glob.glob(os.path.join(HEADERS, "gb_cuda_*.h"))):
        if os.path.basename(path) in ("gb_cuda_base.h", "gb_cuda_enums.h", "gb_cuda_structs.h",
                                      "gb_cuda_graph.h"):
            with open(path, encoding="utf-8") as f:
                text += re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S)
    return text


def facts(_cat):
    """One FACT(text, value) per enumerator, structure size and field offset."""
    text = header_text()
    out = [BANNER]
    for body in re.findall(r"typedef enum \w+ \{(.*?)\}", text, flags=re.S):
        for name in re.findall(r"(\w+)\s*=", body):
            out.append(f'FACT("{name}", (long long){name})\n')
    for macro in re.findall(r"#define (CU_\w+) 0x", text):
        out.append(f'FACT("{macro}", (long long){macro})\n')
    for kind, body, name in re.findall(r"typedef (struct|union) \w+ \{(.*?)\n\} (\w+);", text,
                                       flags=re.S):
        out.append(f'FACT("sizeof {name}", (long long)sizeof({name}))\n')
        if kind == "struct" and "{" not in body:
            for field in re.findall(r"(\w+)(?:\[\w+\])*;", body):
                out.append(f'FACT("{name}.{field}", (long long)offsetof({name}, {field}))\n')
    return "".join(out)


def signatures(cat):
    out = [BANNER, "#define __CUDA_API_VERSION_INTERNAL\n#include <cuda.h>\n"
           "#include <cudaProfiler.h>\n#include <stdint.h>\n\n"]
    for sym in cat.functions():
        params = c_params(sym.params, names=False)
        for p in sym.params:
            if "(*" in p.ctype:
                params = c_params(sym.params)
        out.append(f"_Static_assert(__builtin_types_compatible_p(__typeof__({sym.name}), "
                   f'CUresult({params})), "{sym.name}");\n')
    return "".join(out)
