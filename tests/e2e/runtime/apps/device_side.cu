// On the device: printf, new and delete, recursion, virtual functions, assert that holds.
#include "check.h"
#include <cassert>

struct shape {
    __device__ virtual float area() const = 0;
    __device__ virtual ~shape() {}
};
struct square : shape {
    float a;
    __device__ square(float x) : a(x) {}
    __device__ float area() const override
    {
        return a * a;
    }
};
struct circle : shape {
    float r;
    __device__ circle(float x) : r(x) {}
    __device__ float area() const override
    {
        return 3 * r * r;
    }
};

__device__ __noinline__ int fibonacci(int n)
{
    return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

__global__ void run(float *areas, int *fib)
{
    int i = threadIdx.x;
    shape *s;
    if (i & 1)
        s = new circle(i);
    else
        s = new square(i);
    areas[i] = s->area();
    delete s;
    fib[i] = fibonacci(i % 12);
    assert(fib[i] >= 0);
    if (i < 3)
        printf("thread %d of block %d: area %.1f, fib %d, %s\n", i, blockIdx.x, areas[i], fib[i],
               i & 1 ? "circle" : "square");
}

int main()
{
    float *areas, a[32];
    int *fib, f[32];
    OK(cudaDeviceSetLimit(cudaLimitStackSize, 16384));
    OK(cudaMalloc(&areas, sizeof(a)));
    OK(cudaMalloc(&fib, sizeof(f)));
    run<<<1, 32>>>(areas, fib);
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(a, areas, sizeof(a), cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(f, fib, sizeof(f), cudaMemcpyDeviceToHost));
    const int want[12] = {0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89};
    for (int i = 0; i < 32; i++)
        EXPECT(a[i] == (i & 1 ? 3.0f : 1.0f) * i * i && f[i] == want[i % 12]);
    return 0;
}
