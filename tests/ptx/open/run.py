#!/usr/bin/env python3
"""run.py FILE.ptx KERNEL [N]: runs KERNEL(unsigned *out, int n) with N threads in blocks of 64 and prints
`out`. The device is the libcuda.so.1 that LD_LIBRARY_PATH finds. See README.md."""

import ctypes
import sys

BLOCK = 64


def main(path, kernel, n=300):
    cuda = ctypes.CDLL("libcuda.so.1")

    def call(name, *args):
        result = getattr(cuda, name)(*args)
        if result:
            sys.exit(f"run.py: {name} gives {result}: see the log of the device")

    context, module, function = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    device, memory, count = ctypes.c_int(), ctypes.c_uint64(), ctypes.c_int(n)
    out = (ctypes.c_uint32 * n)()
    size = ctypes.c_size_t(ctypes.sizeof(out))
    with open(path, "rb") as f:
        text = f.read() + b"\0"
    call("cuInit", 0)
    call("cuDeviceGet", ctypes.byref(device), 0)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    call("cuModuleLoadData", ctypes.byref(module), text)
    call("cuModuleGetFunction", ctypes.byref(function), module, kernel.encode())
    call("cuMemAlloc_v2", ctypes.byref(memory), size)
    call("cuMemcpyHtoD_v2", memory, out, size)
    params = (ctypes.c_void_p * 2)(ctypes.addressof(memory), ctypes.addressof(count))
    call("cuLaunchKernel", function, (n + BLOCK - 1) // BLOCK, 1, 1, BLOCK, 1, 1, 0, None, params, None)
    call("cuMemcpyDtoH_v2", out, memory, size)
    print(" ".join(f"{x:x}" for x in out))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:4]))
