"""docs/coverage-driver.md: what of the driver API is done, remotely and on the software device, and which
test calls it."""

import proofs

WORDS = {
    "reply": "`reply`: one round trip",
    "async": "`async`: no round trip",
    "cached": "`cached`: answered from the device snapshot",
    "local": "`local`: answered by the client",
    "composed": "`composed`: made of other calls",
    "unsupported": "not done: returns CUDA_ERROR_NOT_SUPPORTED",
}


def class_of(sym):
    """The class of a call, and what it costs."""
    if sym.cls == "custom":
        return "`async`: no round trip" if sym.queued else "`reply`: one round trip"
    return WORDS[sym.cls]


def state(cat, sym):
    if sym.kind == "like":
        return f"same as `{sym.target}`"
    if sym.kind == "thread":
        target = cat.symbols[sym.target]
        word = "not done" if target.cls == "unsupported" else "done"
        return f"{word}: per-thread default stream over `{sym.target}`"
    if sym.kind == "bare":
        return WORDS["unsupported"]
    return class_of(sym)


def is_done(cat, sym):
    while sym.kind in ("like", "thread"):
        sym = cat.symbols[sym.target]
    return sym.kind == "function" and sym.cls != "unsupported"


def on_device(cat, sym, device):
    while sym.kind in ("like", "thread"):
        sym = cat.symbols[sym.target]
    return sym.name in device


def coverage(cat):
    out = ["# Coverage of the CUDA driver API\n\n",
           "<!-- Made by proto/scanner from proto/cuda.api: change the catalogue instead. -->\n\n",
           "All 637 functions of CUDA 13.0's `libcuda.so.1` are exported by the remote library and by the\n"
           "software device; one that is not done returns `CUDA_ERROR_NOT_SUPPORTED` and is logged once by name.\n"
           "The `thread` variants (`_ptsz`, `_ptds`) and older names of one function are listed under it. The\n"
           "last column names a test whose source calls the function.\n\n",
           "| tier | what it is | base names | remote | software device |\n|---|---|---|---|---|\n"]
    device, tests = proofs.defined_by_device(), proofs.Tests("tests", "coverage-driver.md")
    what = {1: "training through the driver API", 2: "applications in the style of the runtime",
            3: "graphs, pools, virtual memory, IPC", 4: "graphics, texture references and other rarities"}
    for tier in (1, 2, 3, 4):
        entries = [e for e in cat.entries if e.tier == tier]
        done = sum(any(is_done(cat, s) for s in e.symbols) for e in entries)
        here = sum(any(on_device(cat, s, device) for s in e.symbols) for e in entries)
        out.append(f"| {tier} | {what[tier]} | {len(entries)} | {done} | {here} |\n")
    section = None
    for entry in cat.entries:
        if entry.section != section:
            section = entry.section
            out.append(f"\n## {section}\n\n| tier | symbol | since | remote | software device | test |\n"
                       "|---|---|---|---|---|---|\n")
        for sym in entry.symbols:
            major, minor = sym.version // 1000, sym.version % 1000 // 10
            here = "yes" if on_device(cat, sym, device) else "no"
            out.append(f"| {entry.tier} | `{sym.name}` | {major}.{minor} | {state(cat, sym)} | {here} | "
                       f"{tests.of(sym.name)} |\n")
    return "".join(out)
