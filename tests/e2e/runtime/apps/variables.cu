// Global, constant and managed variables; templates; a table of function pointers.
#include "check.h"

__device__ int counter;
__constant__ float weights[3];
__managed__ int shared_total = 7;
__device__ double grid[4][4];

template <typename T, int SCALE> __global__ void scale(T *x, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = x[i] * SCALE + T(weights[i % 3]);
}

__global__ void count()
{
    atomicAdd(&counter, 1);
    if (threadIdx.x < 16 && blockIdx.x == 0)
        grid[threadIdx.x / 4][threadIdx.x % 4] = threadIdx.x * 0.5;
}

__global__ void add_up()
{
    shared_total += counter;
}

typedef float (*unary_t)(float);
__device__ float twice(float x)
{
    return 2 * x;
}
__device__ float square(float x)
{
    return x * x;
}
__device__ unary_t table[2] = {twice, square};

__global__ void apply(float *x, int which)
{
    x[threadIdx.x] = table[which](x[threadIdx.x]);
}

int main()
{
    float w[3] = {1, 2, 3};
    OK(cudaMemcpyToSymbol(weights, w, sizeof(w)));
    double *x, h[100];
    OK(cudaMalloc(&x, sizeof(h)));
    for (int i = 0; i < 100; i++)
        h[i] = i;
    OK(cudaMemcpy(x, h, sizeof(h), cudaMemcpyHostToDevice));
    scale<double, 3><<<2, 64>>>(x, 100);
    OK(cudaGetLastError());
    OK(cudaMemcpy(h, x, sizeof(h), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 100; i++)
        EXPECT(h[i] == 3 * i + w[i % 3]);

    count<<<8, 32>>>();
    add_up<<<1, 1>>>();
    OK(cudaDeviceSynchronize());
    EXPECT(shared_total == 7 + 8 * 32);
    shared_total = 1;
    add_up<<<1, 1>>>();
    OK(cudaDeviceSynchronize());
    EXPECT(shared_total == 1 + 8 * 32);
    int c;
    OK(cudaMemcpyFromSymbol(&c, counter, sizeof(c)));
    EXPECT(c == 256);
    double part[2];
    OK(cudaMemcpyFromSymbol(part, grid, sizeof(part), 5 * sizeof(double)));
    EXPECT(part[0] == 2.5 && part[1] == 3.0);

    float *f, g[4] = {1, 2, 3, 4};
    OK(cudaMalloc(&f, sizeof(g)));
    OK(cudaMemcpy(f, g, sizeof(g), cudaMemcpyHostToDevice));
    apply<<<1, 4>>>(f, 0);
    apply<<<1, 4>>>(f, 1);
    OK(cudaMemcpy(g, f, sizeof(g), cudaMemcpyDeviceToHost));
    EXPECT(g[0] == 4 && g[1] == 16 && g[2] == 36 && g[3] == 64);
    return 0;
}
