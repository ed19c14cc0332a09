#!/usr/bin/env python3
"""random_test.py: runs random programs on the host and on the software device, in vectors of several
widths, for AVX2 and thread by thread, and compares the bits.

    random_test.py --device build/release/lib/gable/cpu --seeds 1-10 [--keep FOLDER] [--nvcc]

A program that differs is kept with its PTX in the folder, and told with the command that repeats it.
Exit code: 0 all equal, 1 differences, 2 wrong usage, 77 no compiler here."""

import argparse
import ctypes
import os
import random
import shutil
import subprocess
import sys
import tempfile

import random_program

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
WORDS = 8
UNTOUCHED = 0xEEEEEEEE
VARIANTS = {
    "default": {},
    "avx2": {"GABLE_CPU_TARGET": "x86-64-v3"},
    "scalar": {"GABLE_CPU_WIDTH": "1"},
    "width 4": {"GABLE_CPU_WIDTH": "4"},
    "width 8": {"GABLE_CPU_WIDTH": "8"},
    "width 16": {"GABLE_CPU_WIDTH": "16"},
    "width 32": {"GABLE_CPU_WIDTH": "32"},
    "avx2 width 4": {"GABLE_CPU_TARGET": "x86-64-v3", "GABLE_CPU_WIDTH": "4"},
}


class Case:
    """One program, compiled for host and device, and what the host says."""

    def __init__(self, seed, folder, tools, options):
        self.seed = seed
        self.program = random_program.Program(seed)
        self.base = os.path.join(folder, f"random_{seed}")
        with open(self.base + ".cu", "w", encoding="utf-8") as f:
            f.write(self.program.text)
        choice = random.Random(seed + 1)
        level = choice.choice(["-O2"] * 4 + ["-O1", "-O3"])
        self.ptx = self.base + ".ptx"
        subprocess.run(device_command(tools, options, level, self.base + ".cu", self.ptx), check=True)
        subprocess.run([tools["host"], "-x", "c", "-std=gnu11", "-O1", "-ffp-contract=off", "-fwrapv",
                        "-w", "-shared", "-fPIC", f"-I{HERE}", self.base + ".cu", "-o",
                        self.base + ".so", "-lm"], check=True)
        x, y = self.program.block
        self.threads = x * y * self.program.blocks
        self.n = self.threads - choice.choice([0, 1, 5, 17])
        self.input = [choice.getrandbits(32) if choice.random() < 0.7 else choice.getrandbits(5)
                      for _ in range(256)]
        self.want = self.on_host()

    def on_host(self):
        library = ctypes.CDLL(self.base + ".so")
        out = (ctypes.c_uint32 * (WORDS * self.threads))(*[UNTOUCHED] * (WORDS * self.threads))
        x, y = self.program.block
        library.program(out, (ctypes.c_uint32 * 256)(*self.input), ctypes.c_uint32(self.n),
                        ctypes.c_uint32(self.program.blocks), ctypes.c_uint32(x * y))
        return list(out)


def device_command(tools, options, level, source, ptx):
    if options.nvcc:
        return [tools["nvcc"], "-w", "-std=c++17", "-arch=compute_75", "-fmad=false", f"-I{ROOT}",
                f"-I{HERE}", "-D__CUDA__", "-ptx", source, "-o", ptx]
    return [tools["device"], "-x", "cuda", "--cuda-path=/nonexistent", "-nocudainc", "-nocudalib",
            "--cuda-device-only", "--cuda-gpu-arch=sm_70", "--cuda-feature=+ptx70", "-fdeclspec",
            "-std=c++17", level, "-w", "-ffp-contract=off", f"-I{ROOT}", f"-I{HERE}", "-S", source,
            "-o", ptx]


class Device:
    """The software device of this process, through the driver API."""

    def __init__(self, folder):
        self.cuda = ctypes.CDLL(os.path.join(folder, "libcuda.so.1"))
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.call("cuInit", 0)
        self.call("cuDeviceGet", ctypes.byref(device), 0)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.call("cuCtxSetCurrent", context)

    def call(self, name, *args):
        result = getattr(self.cuda, name)(*args)
        if result:
            raise RuntimeError(f"{name} gives {result}")

    def upload(self, values):
        memory = ctypes.c_uint64()
        array = (ctypes.c_uint32 * len(values))(*values)
        size = ctypes.c_size_t(ctypes.sizeof(array))
        self.call("cuMemAlloc_v2", ctypes.byref(memory), size)
        self.call("cuMemcpyHtoD_v2", memory, array, size)
        return memory

    def run(self, case):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        with open(case.ptx, "rb") as f:
            self.call("cuModuleLoadData", ctypes.byref(module), f.read() + b"\0")
        self.call("cuModuleGetFunction", ctypes.byref(function), module, b"program")
        out = self.upload([UNTOUCHED] * (WORDS * case.threads))
        given = self.upload(case.input)
        n = ctypes.c_uint32(case.n)
        params = (ctypes.c_void_p * 3)(*[ctypes.addressof(p) for p in (out, given, n)])
        x, y = case.program.block
        self.call("cuLaunchKernel", function, case.program.blocks, 1, 1, x, y, 1, 0, None, params,
                  None)
        got = (ctypes.c_uint32 * (WORDS * case.threads))()
        self.call("cuMemcpyDtoH_v2", got, out, ctypes.c_size_t(ctypes.sizeof(got)))
        for memory in (out, given):
            self.call("cuMemFree_v2", memory)
        self.call("cuModuleUnload", module)
        return list(got)


def difference(case, got):
    bad = [k for k, (g, w) in enumerate(zip(got, case.want)) if g != w]
    if not bad:
        return None
    k = bad[0]
    return (f"{len(bad)} of {len(got)} words differ, the first in thread {k // WORDS}, word {k % WORDS}: "
            f"{got[k]:08x}, must be {case.want[k]:08x}")


def run_variant(name, cases, device):
    """A process for the variant: the device reads its settings once. Gives lines of trouble."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        os.environ.update(VARIANTS[name], GABLE_CPU_CACHE="off")
        with os.fdopen(write, "w") as report:
            world = Device(device)
            for case in cases:
                print(f"begin {case.seed}", file=report, flush=True)
                try:
                    trouble = difference(case, world.run(case))
                except RuntimeError as error:
                    trouble = f"{error}"
                    world = None
                print(f"end {trouble or ''}", file=report, flush=True)
                if world is None:
                    world = Device(device)  # a fault has ended the context
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as report:
        lines = report.read().splitlines()
    status = os.waitpid(child, 0)[1]
    return findings(name, lines, status)


def findings(name, lines, status):
    found, seed = [], None
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "begin":
            seed = int(rest)
        elif rest:
            found.append((seed, name, rest))
    if status != 0:
        found.append((seed, name, f"the process ended with status {status:#x}"))
    return found


def find_tools(options):
    tools = {"device": os.environ.get("GABLE_DEVICE_CLANG") or shutil.which("clang-19"),
             "host": shutil.which("gcc") or shutil.which("cc"),
             "nvcc": os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin/nvcc")}
    wanted = ["host", "nvcc" if options.nvcc else "device"]
    for tool in wanted:
        if not tools[tool] or not os.path.exists(tools[tool]):
            print(f"random_test.py: no compiler here ({tool}): nothing compared")
            sys.exit(77)
    return tools


def seeds_of(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", required=True, help="folder of the device's libcuda.so.1")
    parser.add_argument("--seeds", default="1-10", type=seeds_of, help="such as 7 or 1-10")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="comma-separated")
    parser.add_argument("--keep", help="folder for programs that differ")
    parser.add_argument("--nvcc", action="store_true", help="nvcc compiles for the device")
    options = parser.parse_args()
    options.variants = options.variants.split(",")
    unknown = [v for v in options.variants if v not in VARIANTS]
    if unknown:
        parser.error(f"no variant {unknown[0]}: there are {', '.join(VARIANTS)}")
    return options


def main():
    options = arguments()
    tools = find_tools(options)
    with tempfile.TemporaryDirectory() as folder:
        cases = [Case(seed, folder, tools, options) for seed in options.seeds]
        found = [f for name in options.variants
                 for f in run_variant(name, cases, options.device)]
        for seed, name, text in found:
            print(f"seed {seed}, {name}: {text}")
        if options.keep:
            os.makedirs(options.keep, exist_ok=True)
            for seed in {f[0] for f in found if f[0] is not None}:
                for end in (".cu", ".ptx"):
                    shutil.copy(os.path.join(folder, f"random_{seed}{end}"), options.keep)
    print(f"{len(cases)} programs, {len(options.variants)} variants, {len(found)} differences")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
