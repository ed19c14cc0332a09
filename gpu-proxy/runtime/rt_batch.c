/* Many copies or hints in one call. */
#include "gpu-proxy/runtime/rt_state.h"

_Static_assert(sizeof(struct cudaMemcpyAttributes) == sizeof(CUmemcpyAttributes) &&
                   sizeof(struct cudaMemLocation) == sizeof(CUmemLocation),
               "attributes and locations are passed on as they come");

/* Pointers and device addresses are the same bits. */
static CUdeviceptr *addresses(const void *pointers)
{
    return (CUdeviceptr *)(uintptr_t)pointers;
}

cudaError_t cudaMemcpyBatchAsync(void *const *dsts, const void *const *srcs, const size_t *sizes,
                                 size_t count, struct cudaMemcpyAttributes *attrs,
                                 size_t *attrsIdxs, size_t numAttrs, cudaStream_t stream)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuMemcpyBatchAsync_v2(addresses(dsts), addresses(srcs),
                                                               (size_t *)(uintptr_t)sizes, count,
                                                               (CUmemcpyAttributes *)(void *)attrs,
                                                               attrsIdxs, numAttrs, stream));
}

_Static_assert(sizeof(struct cudaMemcpy3DBatchOp) == sizeof(CUDA_MEMCPY3D_BATCH_OP),
               "operations are passed on as they come");

cudaError_t cudaMemcpy3DBatchAsync(size_t numOps, struct cudaMemcpy3DBatchOp *opList,
                                   unsigned long long flags, cudaStream_t stream)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuMemcpy3DBatchAsync_v2(
                                 numOps, (CUDA_MEMCPY3D_BATCH_OP *)(void *)opList, flags, stream));
}

cudaError_t cudaMemPrefetchBatchAsync(void **dptrs, size_t *sizes, size_t count,
                                      struct cudaMemLocation *prefetchLocs, size_t *prefetchLocIdxs,
                                      size_t numPrefetchLocs, unsigned long long flags,
                                      cudaStream_t stream)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuMemPrefetchBatchAsync(
                                 addresses(dptrs), sizes, count,
                                 (CUmemLocation *)(void *)prefetchLocs, prefetchLocIdxs,
                                 numPrefetchLocs, flags, stream));
}

cudaError_t cudaMemDiscardBatchAsync(void **dptrs, size_t *sizes, size_t count,
                                     unsigned long long flags, cudaStream_t stream)
{
    int error = rt_enter();
    return rt_result(
        error ? error
              : (int)rt_cu->cuMemDiscardBatchAsync(addresses(dptrs), sizes, count, flags, stream));
}

cudaError_t cudaMemDiscardAndPrefetchBatchAsync(void **dptrs, size_t *sizes, size_t count,
                                                struct cudaMemLocation *prefetchLocs,
                                                size_t *prefetchLocIdxs, size_t numPrefetchLocs,
                                                unsigned long long flags, cudaStream_t stream)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuMemDiscardAndPrefetchBatchAsync(
                                 addresses(dptrs), sizes, count,
                                 (CUmemLocation *)(void *)prefetchLocs, prefetchLocIdxs,
                                 numPrefetchLocs, flags, stream));
}
