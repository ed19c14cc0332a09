#!/usr/bin/env python3
"""embed.py INPUT OUTPUT.c NAME: a file's bytes as a C array, with its size."""
import sys


def main():
    source, target, name = sys.argv[1:4]
    data = open(source, "rb").read()
    with open(target, "w", encoding="ascii") as out:
        out.write("#include <stddef.h>\n")
        out.write(f"extern const unsigned char {name}[];\nextern const size_t {name}_size;\n")
        out.write(f"const unsigned char {name}[] = {{\n")
        for at in range(0, len(data), 16):
            out.write(",".join(str(b) for b in data[at : at + 16]) + ",\n")
        out.write(f"}};\nconst size_t {name}_size = {len(data)};\n")


main()
