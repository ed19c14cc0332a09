#!/usr/bin/env python3
"""CUDA C compiled at run time by NVRTC, on a machine without a GPU, and run on the software device.
Skipped (77) where there is no NVRTC."""

import ctypes
import glob
import os
import sys

SOURCE = b"""
template <typename T> __device__ T square(T x) { return x * x; }
extern "C" __global__ void sums(const float *x, float *out, int n)
{
    __shared__ float part[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    part[threadIdx.x] = i < n ? square(x[i]) : 0.0f;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        if (threadIdx.x < s)
            part[threadIdx.x] += part[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        atomicAdd(out, part[0]);
}
"""


def main():
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    found = sorted(glob.glob(os.path.join(home, "lib64", "libnvrtc.so.*")))
    if not found:
        print(f"skipped: no libnvrtc.so in {home}/lib64")
        return 77
    rtc = ctypes.CDLL(found[0])
    cu = ctypes.CDLL(os.path.join(os.environ["GABLE_BUILD_DIR"], "lib/gable/cpu/libcuda.so.1"))
    pointer, size, u64 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64

    def check(result, what):
        if result:
            sys.exit(f"nvrtc.py: {what} gives {result}")

    program = pointer()
    check(rtc.nvrtcCreateProgram(ctypes.byref(program), SOURCE, b"sums.cu", 0, None, None), "create")
    options = (ctypes.c_char_p * 1)(b"--gpu-architecture=compute_75")
    check(rtc.nvrtcCompileProgram(program, 1, options), "compile")
    length = size()
    check(rtc.nvrtcGetPTXSize(program, ctypes.byref(length)), "size")
    ptx = ctypes.create_string_buffer(length.value)
    check(rtc.nvrtcGetPTX(program, ptx), "ptx")

    context, module, function = pointer(), pointer(), pointer()
    check(cu.cuInit(0), "cuInit")
    check(cu.cuCtxCreate_v2(ctypes.byref(context), 0, 0), "cuCtxCreate")
    check(cu.cuModuleLoadData(ctypes.byref(module), ptx), "cuModuleLoadData")
    check(cu.cuModuleGetFunction(ctypes.byref(function), module, b"sums"), "cuModuleGetFunction")
    n = ctypes.c_int(3000)
    x, out = u64(), u64()
    check(cu.cuMemAlloc_v2(ctypes.byref(x), size(4 * n.value)), "cuMemAlloc")
    check(cu.cuMemAlloc_v2(ctypes.byref(out), size(4)), "cuMemAlloc")
    data = (ctypes.c_float * n.value)(*[i % 10 for i in range(n.value)])
    check(cu.cuMemcpyHtoD_v2(x, data, size(4 * n.value)), "cuMemcpyHtoD")
    check(cu.cuMemsetD32_v2(out, 0, size(1)), "cuMemset")
    params = (pointer * 3)(ctypes.addressof(x), ctypes.addressof(out), ctypes.addressof(n))
    check(cu.cuLaunchKernel(function, 12, 1, 1, 256, 1, 1, 0, None, params, None), "cuLaunchKernel")
    result = ctypes.c_float()
    check(cu.cuMemcpyDtoH_v2(ctypes.byref(result), out, size(4)), "cuMemcpyDtoH")
    want = sum((i % 10) ** 2 for i in range(n.value))
    if result.value != want:
        sys.exit(f"nvrtc.py: {result.value} in place of {want}")
    return 0


sys.exit(main())
