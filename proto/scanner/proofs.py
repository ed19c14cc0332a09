"""What the sources say about calls: which the software device defines, and which tests make them."""

import os
import re

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
# Defined for both libraries alike.
SHARED = os.path.join("common", "cuda")
DEVICE = os.path.join("gpu-proxy", "cpu", "driver")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def defined_by_device():
    """Names of the driver API that have a definition by hand in the software device."""
    names = set()
    for folder in (DEVICE, SHARED):
        for name in sorted(os.listdir(os.path.join(SOURCE, folder))):
            if name.endswith(".c"):
                text = read(os.path.join(SOURCE, folder, name))
                names.update(re.findall(r"^CUresult\s+(cu\w+)\(", text, flags=re.M))
    return names


class Tests:
    """The sources below a folder of tests, with the names of calls in each."""

    def __init__(self, folder, page):
        self.calls = {}
        # A page keeps the test it names while that one makes the call: a new test changes no other lines.
        text = read(os.path.join(SOURCE, "docs", page))
        self.named = dict(re.findall(r"^\|.*?`(cu\w+|__cuda\w+)`.*\| `(\w+)` \|$", text, flags=re.M))
        for root, folders, files in os.walk(os.path.join(SOURCE, folder)):
            folders.sort()
            for name in sorted(files):
                if name.endswith((".c", ".cu", ".py")) and "fuzz" not in root:
                    self.look_at(os.path.join(root, name), name)

    def look_at(self, path, name):
        stem = os.path.splitext(name)[0]
        for call in set(re.findall(r"\b(cu[A-Z]\w+|cuda[A-Z]\w+|__cuda\w+)\s*\(", read(path))):
            self.calls.setdefault(call, []).append(stem)

    def of(self, call):
        found = self.calls.get(call, [])
        if not found:
            return ""
        named = self.named.get(call)
        return f"`{named if named in found else found[0]}`"
