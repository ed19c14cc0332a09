#!/usr/bin/env python3
"""Makes C sources and documents from the catalogue of CUDA calls.

usage: scan.py CATALOGUE OUTPUT...     each output is chosen by its file name
       scan.py CATALOGUE --check FILE  ends with 1 if FILE is not what the catalogue gives
"""

import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import catalogue  # noqa: E402
import common_out  # noqa: E402
import check_out  # noqa: E402
import coverage_out  # noqa: E402
import remote_out  # noqa: E402
import runtime_out  # noqa: E402

OUTPUTS = {
    "gb_cuda_api.h": common_out.api_header,
    "gb_cuda_table.h": common_out.table_header,
    "gb_cuda_table.c": common_out.table_source,
    "gb_cuda_ops.h": common_out.ops_header,
    "gb_cuda_ops.c": common_out.ops_source,
    "cu_defaults.c": common_out.defaults_source,
    "cu_symbols.c": common_out.resolver_source,
    "cuda_facts.inc": check_out.facts,
    "cuda_signatures.c": check_out.signatures,
    "px_calls.c": remote_out.session_calls,
    "rc_stubs.c": remote_out.client_stubs,
    "libcuda.map": common_out.version_script,
    "coverage-driver.md": coverage_out.coverage,
}


def main(argv):
    if len(argv) < 3:
        sys.stderr.write(__doc__)
        return 2
    try:
        runtime = os.path.basename(argv[1]) == "cudart.api"
        cat = runtime_out.Runtime(argv[1]) if runtime else catalogue.Catalogue(argv[1])
    except catalogue.CatalogueError as error:
        sys.stderr.write(f"scan.py: {error}\n")
        return 1
    outputs = runtime_out.OUTPUTS if runtime else OUTPUTS
    check = argv[2] == "--check"
    for path in argv[3 if check else 2:]:
        name = os.path.basename(path)
        if name not in outputs:
            sys.stderr.write(f"scan.py: {name}: no such output: choose from {', '.join(outputs)}\n")
            return 2
        text = outputs[name](cat)
        if check:
            with open(path, encoding="utf-8") as f:
                if f.read() != text:
                    sys.stderr.write(f"scan.py: {path} is out of date: run {argv[0]} {argv[1]} {path}\n")
                    return 1
        else:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
