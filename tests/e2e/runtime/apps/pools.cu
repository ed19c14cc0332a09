// Stream-ordered allocation and memory pools.
#include "check.h"
#include <cstdint>

__global__ void fill(int *x, int n, int v)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = v;
}

int main()
{
    cudaStream_t s;
    int *x, *y, h[256];
    OK(cudaStreamCreate(&s));
    OK(cudaMallocAsync(&x, sizeof(h), s));
    fill<<<1, 256, 0, s>>>(x, 256, 3);
    OK(cudaMemcpyAsync(h, x, sizeof(h), cudaMemcpyDeviceToHost, s));
    OK(cudaFreeAsync(x, s));
    OK(cudaStreamSynchronize(s));
    EXPECT(h[0] == 3 && h[255] == 3);

    cudaMemPool_t pool;
    cudaMemPoolProps props = {};
    props.allocType = cudaMemAllocationTypePinned;
    props.location.type = cudaMemLocationTypeDevice;
    OK(cudaMemPoolCreate(&pool, &props));
    uint64_t keep = UINT64_MAX, used = 1;
    OK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    OK(cudaMallocFromPoolAsync(&y, 1 << 20, pool, s));
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    EXPECT(used >= 1 << 20);
    OK(cudaFreeAsync(y, s));
    OK(cudaStreamSynchronize(s));
    OK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
    EXPECT(used == 0);
    OK(cudaMemPoolTrimTo(pool, 0));
    OK(cudaMemPoolDestroy(pool));
    return 0;
}
