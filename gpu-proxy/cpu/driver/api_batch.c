/* Entry points: many hints in one call. */
#include "gb_cuda_api.h"
#include "gpu-proxy/cpu/driver/cpu_advice.h"
#include "gpu-proxy/cpu/driver/cpu_memory.h"
#include "gpu-proxy/cpu/driver/cpu_stream.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"

/* The default stream takes no batches. */
static CUresult check_stream(CUstream handle)
{
    cpu_context_t *context;
    cpu_stream_t *stream;
    CUresult result = cpu_thread_context(&context);
    if (!result && (!handle || handle == CU_STREAM_LEGACY))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = cpu_stream_get(context, handle, &stream);
    if (!result)
        cpu_object_put(&stream->object);
    return result;
}

static CUresult check_ranges(const CUdeviceptr *pointers, const size_t *sizes, size_t count,
                             unsigned long long flags, CUstream stream)
{
    CUresult result = check_stream(stream);
    if (!result && (!count || !pointers || !sizes || flags))
        result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; !result && i < count; i++)
        if (!sizes[i] || !cpu_memory_covers(CPU_MEMORY_ALL_MANAGED, pointers[i], sizes[i]))
            result = CUDA_ERROR_INVALID_VALUE;
    return result;
}

CUresult cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                 CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,
                                 size_t numPrefetchLocs, unsigned long long flags, CUstream hStream)
{
    CUresult result = check_ranges(dptrs, sizes, count, flags, hStream);
    if (!result && (!numPrefetchLocs || numPrefetchLocs > count || !prefetchLocs ||
                    !prefetchLocIdxs || prefetchLocIdxs[0] != 0))
        result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0, k = 0; !result && i < count; i++) {
        while (k + 1 < numPrefetchLocs && prefetchLocIdxs[k + 1] <= i)
            k++;
        result = cpu_advice_prefetched(dptrs[i], sizes[i], &prefetchLocs[k]);
    }
    return result;
}

/* What is discarded may be read as anything until it is written: also as what it was. */
CUresult cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                unsigned long long flags, CUstream hStream)
{
    return check_ranges(dptrs, sizes, count, flags, hStream);
}

CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
                                           CUmemLocation *prefetchLocs, size_t *prefetchLocIdxs,
                                           size_t numPrefetchLocs, unsigned long long flags,
                                           CUstream hStream)
{
    return cuMemPrefetchBatchAsync(dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
                                   numPrefetchLocs, flags, hStream);
}
