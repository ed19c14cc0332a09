/* Kernels of the sample programs. */
#include "common/cuda/gb_device.cuh"

extern "C" __global__ void saxpy(unsigned n, float a, const float *x, float *y)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}

extern "C" __global__ void fill(unsigned n, unsigned start, unsigned step, unsigned *out)
{
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        out[i] = start + i * step;
}

/* Adds `add` to every element; a chain of these shows the order of launches. */
extern "C" __global__ void affine(unsigned n, unsigned mul, unsigned add, unsigned *data)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        data[i] = data[i] * mul + add;
}

/* Sum of n words into *out, with shuffles, shared memory and one atomic per block. */
extern "C" __global__ void sum(unsigned n, const unsigned *in, unsigned *out)
{
    __shared__ unsigned partial[32];
    unsigned total = 0;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        total += in[i];
    for (int d = 16; d > 0; d >>= 1)
        total += __shfl_down_sync(0xffffffffu, total, d);
    if (threadIdx.x % 32 == 0)
        partial[threadIdx.x / 32] = total;
    __syncthreads();
    if (threadIdx.x < 32) {
        total = threadIdx.x < blockDim.x / 32 ? partial[threadIdx.x] : 0;
        for (int d = 16; d > 0; d >>= 1)
            total += __shfl_down_sync(0xffffffffu, total, d);
        if (threadIdx.x == 0)
            atomicAdd(out, total);
    }
}

/* 64 bins of n bytes; counts in shared memory first. */
extern "C" __global__ void histogram(unsigned n, const unsigned char *in, unsigned *bins)
{
    __shared__ unsigned local[64];
    if (threadIdx.x < 64)
        local[threadIdx.x] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&local[in[i] >> 2], 1u);
    __syncthreads();
    if (threadIdx.x < 64)
        atomicAdd(&bins[threadIdx.x], local[threadIdx.x]);
}

/* c = a * b for n x n matrices, 16 x 16 tiles; n need not be a multiple of 16. */
extern "C" __global__ void matmul(int n, const float *a, const float *b, float *c)
{
    __shared__ float ta[16][16], tb[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    float acc = 0;
    for (int k = 0; k < n; k += 16) {
        int ka = k + threadIdx.x, kb = k + threadIdx.y;
        ta[threadIdx.y][threadIdx.x] = row < n && ka < n ? a[row * n + ka] : 0;
        tb[threadIdx.y][threadIdx.x] = kb < n && col < n ? b[kb * n + col] : 0;
        __syncthreads();
        for (int i = 0; i < 16; i++)
            acc += ta[threadIdx.y][i] * tb[i][threadIdx.x];
        __syncthreads();
    }
    if (row < n && col < n)
        c[row * n + col] = acc;
}

__constant__ unsigned scale[4] = {1, 10, 100, 1000};
__device__ unsigned counter;

/* Uses a constant table and a global variable of the module. */
extern "C" __global__ void count(unsigned which)
{
    atomicAdd(&counter, scale[which & 3]);
}

/* Steps until a value of the Collatz sequence is 1: lanes diverge. */
extern "C" __global__ void collatz(unsigned n, unsigned *steps)
{
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    unsigned long long v = i + 1;
    unsigned s = 0;
    while (v != 1) {
        v = v & 1 ? 3 * v + 1 : v >> 1;
        s++;
    }
    steps[i] = s;
}
