// What nvcc turns into PTX of every kind: library functions, cooperative groups, textures, printf,
// assertions, half precision, managed and initialised data, warp operations, inline assembly.
#include <cassert>
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace cg = cooperative_groups;

struct record_t {
    int number;
    double value;
    const char *name;
};

__constant__ float coefficients[16] = {1, 2, 3, 4.5f};
__device__ int counter;
__device__ __managed__ int managed[4];
__device__ record_t table[3] = {{1, 2.5, "abc"}, {2, 3.5, "def"}, {0, 0, nullptr}};
extern __shared__ float dynamic[];

__device__ float twice(float x)
{
    return x * 2;
}
__device__ float plus_three(float x)
{
    return x + 3;
}
__device__ float (*functions[2])(float) = {twice, plus_three};

__global__ void calls(float *x, int k)
{
    x[threadIdx.x] = functions[k & 1](x[threadIdx.x]);
}

__global__ void __launch_bounds__(256, 2) reduction(const float *__restrict__ x, float *y, int n)
{
    __shared__ float s[256];
    float sum = 0;
    for (int i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256)
        sum += x[i];
    s[threadIdx.x] = sum;
    __syncthreads();
    for (int o = 128; o; o >>= 1) {
        if (threadIdx.x < o)
            s[threadIdx.x] += s[threadIdx.x + o];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        atomicAdd(y, s[0]);
}

__global__ void warp(int *x)
{
    int v = x[threadIdx.x], all;
    v += __shfl_down_sync(~0u, v, 1) + __shfl_xor_sync(~0u, v, 3);
    unsigned b = __ballot_sync(~0u, v > 3), m = __match_all_sync(~0u, v, &all);
    x[threadIdx.x] = v + b + m + all + __any_sync(~0u, v) + __popc(b) + __clz(v) + __brev(v) +
                     __ffs(v) + __byte_perm(v, b, 0x1234);
}

__global__ void branches(int *x)
{
    switch (x[threadIdx.x]) {
    case 0:
        x[1] = 5;
        break;
    case 1:
        x[2] = x[7] * 3;
        break;
    case 2:
        x[0] /= x[4];
        break;
    case 3:
        x[6] %= 5;
        break;
    case 4:
        atomicCAS(x, 1, 2);
        break;
    case 5:
        atomicMin(x, 3);
        break;
    case 6:
        __threadfence();
        x[9] = 1;
        break;
    case 7:
        printf("%d %f\n", x[0], (double)x[1]);
        break;
    default:
        assert(x[0] == 3);
    }
}

__global__ void precisions(__half *x, __nv_bfloat16 *y, double *d)
{
    x[0] = x[0] * x[1] + x[2];
    y[0] = y[0] + y[1];
    d[0] = sin(d[0]) + exp(d[1]) / sqrt(d[2]);
    __half2 *z = (__half2 *)x;
    z[0] = __hfma2(z[0], z[1], z[2]);
}

__global__ void textures(cudaTextureObject_t t, float *y)
{
    y[threadIdx.x] = tex2D<float>(t, threadIdx.x, 1.5f) + dynamic[threadIdx.x] +
                     coefficients[threadIdx.x & 15] + expf(y[0]) + tanhf(y[1]) + powf(y[2], y[3]) +
                     __fdividef(y[4], y[5]);
    managed[1]++;
    counter++;
    y[8] = (float)table[threadIdx.x].value + table[1].name[0];
}

__global__ void groups(float *x)
{
    cg::grid_group grid = cg::this_grid();
    x[0] = 1;
    grid.sync();
    x[1] = 2;
    auto tile = cg::tiled_partition<32>(cg::this_thread_block());
    x[2] = cg::reduce(tile, x[3], cg::plus<float>());
}

__global__ void local(int *x, int n)
{
    int a[32];
    for (int i = 0; i < 32; i++)
        a[i] = x[i];
    a[n] = 3;
    x[n] = a[x[0] & 31];
    x[3] = (int)clock64();
    asm volatile("{ .reg .pred p; setp.eq.s32 p, %0, 0; @p bra L1; L1: }" ::"r"(n));
    int *m = (int *)malloc(4);
    *m = n;
    x[5] = *m;
    free(m);
}
