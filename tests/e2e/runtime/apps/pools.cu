// Stream-ordered allocation and memory pools.
#include "check.h"
#include <cstdint>

__global__ void fill(int *x, int n, int v)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = v;
}

// The pool that a device allocates from, and who may use what comes from it.
static void current(cudaStream_t s)
{
    cudaMemPool_t standard, now, own;
    cudaMemPoolProps props = {};
    cudaMemLocation here = {cudaMemLocationTypeDevice, 0};
    cudaMemAccessFlags access = cudaMemAccessFlagsProtNone;
    cudaMemAccessDesc wish = {here, cudaMemAccessFlagsProtReadWrite};
    uint64_t used = 1;
    int *x;
    OK(cudaDeviceGetDefaultMemPool(&standard, 0));
    OK(cudaMemGetDefaultMemPool(&now, &here, cudaMemAllocationTypePinned));
    EXPECT(now == standard);
    OK(cudaDeviceGetMemPool(&now, 0));
    EXPECT(now == standard);
    props.allocType = cudaMemAllocationTypePinned;
    props.location = here;
    OK(cudaMemPoolCreate(&own, &props));
    OK(cudaDeviceSetMemPool(0, own));
    OK(cudaMemGetMemPool(&now, &here, cudaMemAllocationTypePinned));
    EXPECT(now == own);
    OK(cudaMallocAsync(&x, 4096, s));
    OK(cudaMemPoolGetAttribute(own, cudaMemPoolAttrUsedMemCurrent, &used));
    EXPECT(used >= 4096);
    OK(cudaFreeAsync(x, s));
    OK(cudaMemSetMemPool(&here, cudaMemAllocationTypePinned, standard));
    OK(cudaDeviceGetMemPool(&now, 0));
    EXPECT(now == standard);
    OK(cudaMemPoolGetAccess(&access, own, &here));
    EXPECT(access == cudaMemAccessFlagsProtReadWrite);
    OK(cudaMemPoolSetAccess(own, &wish, 1));
    wish.flags = cudaMemAccessFlagsProtNone; // its own device keeps it
    EXPECT(cudaMemPoolSetAccess(own, &wish, 1) != cudaSuccess);
    EXPECT(cudaDeviceGetMemPool(&now, 99) == cudaErrorInvalidDevice);
    EXPECT(cudaDeviceSetMemPool(0, nullptr) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
    OK(cudaStreamSynchronize(s));
    OK(cudaMemPoolDestroy(own));
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
    current(s);
    return 0;
}
