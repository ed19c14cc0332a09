/* Kernels and variables for the tests of the runtime. */
#include "common/cuda/gb_device.cuh"

extern "C" {

__device__ int rt_counter = 5;
__constant__ float rt_factors[4];

__global__ void rt_add(const float *a, const float *b, float *c, int n)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n)
        c[i] = a[i] + b[i];
}

__global__ void rt_scale(float *x, int n)
{
    int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n)
        x[i] *= rt_factors[i & 3];
}

__global__ void rt_count(void)
{
    if (threadIdx.x == 0)
        rt_counter += 1;
}

__global__ void rt_touch(int *p)
{
    *p = 1;
}
}
