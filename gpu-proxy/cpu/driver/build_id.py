"""Writes a header with the digest of the compiler's sources: usage: build_id.py OUT SOURCE...

Cached kernels are good only for the compiler that made them, so its identity is part of their key."""
import hashlib
import sys


def main(out, sources):
    digest = hashlib.sha256()
    for path in sorted(sources):
        with open(path, "rb") as source:
            digest.update(hashlib.sha256(source.read()).digest())
    with open(out, "w") as header:
        header.write("/* Made by gpu-proxy/cpu/driver/build_id.py. */\n"
                     "#ifndef CPU_BUILD_ID_H\n#define CPU_BUILD_ID_H\n\n"
                     f'#define CPU_BUILD_ID "{digest.hexdigest()}"\n\n#endif\n')


main(sys.argv[1], sys.argv[2:])
