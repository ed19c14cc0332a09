// The other half of main.cu.
__device__ int counter;
__constant__ int factors[4] = {1, 2, 3, 4};
static __device__ int bias = 20;
static __device__ __noinline__ int helper(int x)
{
    return x + bias;
}
__device__ int scale(int x)
{
    return helper(x * 3);
}
typedef int (*function_t)(int);
static __device__ int negate(int x)
{
    return -x;
}
__device__ function_t chosen = negate;

int count()
{
    int n = -1;
    cudaMemcpyFromSymbol(&n, counter, sizeof n);
    return n;
}
