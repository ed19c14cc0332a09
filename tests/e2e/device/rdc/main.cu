// A program in two separately compiled parts: functions, variables, constants and private names that
// cross from one to the other.
#include <cstdio>

extern __device__ int counter;
extern __constant__ int factors[4];
extern __device__ int scale(int x);
typedef int (*function_t)(int);
extern __device__ function_t chosen;
static __device__ int bias = 10;
static __device__ __noinline__ int helper(int x)
{
    return x + bias;
}

__global__ void kernel(int *x)
{
    int i = threadIdx.x;
    x[i] = helper(scale(i)) * factors[i & 3] + chosen(i);
    atomicAdd(&counter, 1);
}

int count();

int main()
{
    int *x, host[64], wrong = 0;
    if (cudaMalloc(&x, sizeof host) != cudaSuccess)
        return 2;
    kernel<<<1, 64>>>(x);
    if (cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost) != cudaSuccess)
        return 3;
    for (int i = 0; i < 64; i++)
        wrong += host[i] != (i * 3 + 20 + 10) * ((i & 3) + 1) - i;
    wrong += count() != 64;
    printf(wrong ? "FAILED %d\n" : "PASSED\n", wrong);
    return wrong != 0;
}
