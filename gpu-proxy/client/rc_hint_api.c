/* Entry points: what the program says about managed memory and about streams. It moves nothing here; it is
 * kept, and told to who asks. */
#include <stdlib.h>
#include <string.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_call.h"

/* ---- advice on managed memory: a range with the same advice all over is a span ---- */

typedef struct {
    int read_mostly;
    uint32_t accessed_by;                /* bit per device; the host is the highest */
    CUmemLocation preferred, prefetched; /* type 0: none */
} advice_t;

typedef struct {
    gb_range_t range;
    advice_t advice;
} span_t;

enum { HOST_BIT = 31 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static gb_ranges_t spans;

static int add_span(uint64_t start, uint64_t size, const advice_t *advice)
{
    span_t *span = calloc(1, sizeof(*span));
    if (!span)
        return 0;
    span->range.start = start;
    span->range.size = size;
    span->advice = *advice;
    gb_ranges_add(&spans, &span->range);
    return 1;
}

/* Makes a span begin at this address if one contains it. */
static int split_at(uint64_t address)
{
    gb_range_t *node = gb_ranges_find(&spans, address);
    if (!node || node->start == address)
        return 1;
    uint64_t end = node->start + node->size;
    gb_ranges_remove(&spans, node);
    node->size = address - node->start;
    gb_ranges_add(&spans, node);
    return add_span(address, end - address, &((span_t *)node)->advice);
}

static gb_range_t *span_from(uint64_t address)
{
    gb_range_t *node = gb_ranges_find(&spans, address);
    return node ? node : gb_ranges_above(&spans, address);
}

/* Spans cover the whole range afterwards, and none reaches out of it. */
static int cover(uint64_t start, uint64_t end)
{
    static const advice_t none;
    if (!split_at(start) || !split_at(end))
        return 0;
    for (uint64_t at = start; at < end;) {
        gb_range_t *next = span_from(at);
        uint64_t until = next && next->start < end ? next->start : end;
        if (until > at && !add_span(at, until - at, &none))
            return 0;
        at = until == end ? end : next->start + next->size;
    }
    return 1;
}

static void apply(advice_t *a, CUmem_advise advice, const CUmemLocation *location)
{
    unsigned bit =
        location->type == CU_MEM_LOCATION_TYPE_DEVICE ? (unsigned)location->id & 31 : HOST_BIT;
    switch (advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        a->read_mostly = advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
        break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        a->preferred = *location;
        break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        a->preferred = (CUmemLocation){0};
        break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
        a->accessed_by |= 1u << bit;
        break;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
        a->accessed_by &= ~(1u << bit);
        break;
    default: /* a prefetch */
        a->prefetched = *location;
    }
}

enum { PREFETCH = 0 }; /* beside the kinds of advice, which begin with 1 */

static CUresult change(uint64_t start, uint64_t size, CUmem_advise advice,
                       const CUmemLocation *location)
{
    pthread_mutex_lock(&lock);
    int fine = cover(start, start + size);
    for (gb_range_t *node = fine ? span_from(start) : NULL; node && node->start < start + size;
         node = gb_ranges_above(&spans, node->start))
        apply(&((span_t *)node)->advice, advice, location);
    pthread_mutex_unlock(&lock);
    return fine ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void rc_hints_drop(uint64_t start, uint64_t size)
{
    pthread_mutex_lock(&lock);
    gb_range_t *node = spans.root ? span_from(start) : NULL;
    while (node && node->start < start + size) {
        uint64_t at = node->start;
        gb_ranges_remove(&spans, node);
        free(node);
        node = gb_ranges_above(&spans, at);
    }
    pthread_mutex_unlock(&lock);
}

static CUresult check_location(const CUmemLocation *l)
{
    switch (l->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return rc_device(l->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static int is_managed(CUdeviceptr start, size_t size)
{
    rc_block_t block;
    return rc_block_find(start, &block) && rc_block_is_managed(&block) &&
           size <= block.range.size - (start - block.range.start);
}

CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                        CUmemLocation location)
{
    rc_call_t call;
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    if (!count || (int)advice < 1 || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY ||
        !is_managed(devPtr, count))
        return CUDA_ERROR_INVALID_VALUE;
    if (advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION || advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
        advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY)
        result = check_location(&location);
    return result ? result : change(devPtr, count, advice, &location);
}

static CUresult prefetched(CUdeviceptr start, size_t size, const CUmemLocation *location)
{
    CUresult result = check_location(location);
    return result ? result : change(start, size, (CUmem_advise)PREFETCH, location);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                               unsigned int flags, CUstream hStream)
{
    rc_call_t call;
    uint64_t wire;
    CUresult result = rc_begin_in_context(&call);
    if (!result)
        result = rc_use_stream(&call, hStream, &wire);
    if (result)
        return result;
    if (!count || flags || !is_managed(devPtr, count))
        return CUDA_ERROR_INVALID_VALUE;
    return prefetched(devPtr, count, &location);
}

static int same_location(const CUmemLocation *a, const CUmemLocation *b)
{
    return a->type == b->type && a->id == b->id;
}

/* What holds everywhere in the range: differing answers become "none". */
static advice_t common(uint64_t start, uint64_t end)
{
    static const advice_t none;
    advice_t all = none;
    uint64_t at = start;
    gb_range_t *node = gb_ranges_find(&spans, start);
    if (node)
        all = ((span_t *)node)->advice;
    for (; node && at < end; node = gb_ranges_find(&spans, at)) {
        const advice_t *a = &((span_t *)node)->advice;
        all.read_mostly &= a->read_mostly;
        all.accessed_by &= a->accessed_by;
        if (!same_location(&all.preferred, &a->preferred))
            all.preferred = none.preferred;
        if (!same_location(&all.prefetched, &a->prefetched))
            all.prefetched = none.prefetched;
        at = node->start + node->size;
    }
    return at >= end ? all : none;
}

/* As the older attributes have it: a device's ordinal, the host, or nothing. */
static int ordinal(const CUmemLocation *l)
{
    return l->type == CU_MEM_LOCATION_TYPE_DEVICE ? l->id
           : l->type                              ? CU_DEVICE_CPU
                                                  : CU_DEVICE_INVALID;
}

static CUresult list_accessed(const advice_t *a, int *data, size_t size)
{
    size_t room = size / sizeof(*data), n = 0;
    if (!room || size % sizeof(*data))
        return CUDA_ERROR_INVALID_VALUE;
    for (int bit = 0; bit < 32 && n < room; bit++)
        if (a->accessed_by >> bit & 1)
            data[n++] = bit == HOST_BIT ? CU_DEVICE_CPU : bit;
    while (n < room)
        data[n++] = CU_DEVICE_INVALID;
    return CUDA_SUCCESS;
}

static CUresult tell(const advice_t *a, CUmem_range_attribute attribute, int *out)
{
    switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        *out = a->read_mostly;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
        *out = ordinal(&a->preferred);
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        *out = ordinal(&a->prefetched);
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
        *out = (int)a->preferred.type;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
        *out = a->preferred.id;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
        *out = (int)a->prefetched.type;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
        *out = a->prefetched.id;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute,
                                CUdeviceptr devPtr, size_t count)
{
    rc_call_t call;
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    if (!data || !count || !is_managed(devPtr, count))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    advice_t a = common(devPtr, devPtr + count);
    pthread_mutex_unlock(&lock);
    if (attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY)
        return list_accessed(&a, data, dataSize);
    return dataSize == sizeof(int) ? tell(&a, attribute, data) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes,
                                 size_t numAttributes, CUdeviceptr devPtr, size_t count)
{
    CUresult result = rc_check();
    if (!result && (!data || !dataSizes || !attributes || !numAttributes))
        result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < numAttributes && !result; i++)
        result = cuMemRangeGetAttribute(data[i], dataSizes[i], attributes[i], devPtr, count);
    return result;
}

CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
                                unsigned int flags)
{
    rc_call_t call;
    rc_block_t block;
    uint64_t wire;
    CUresult result = rc_begin_in_context(&call);
    if (!result)
        result = rc_use_stream(&call, hStream, &wire);
    if (result)
        return result;
    if (!rc_block_find(dptr, &block) || !rc_block_is_managed(&block) || block.range.start != dptr ||
        (length && length != block.range.size) ||
        (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
         flags != CU_MEM_ATTACH_SINGLE))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* ---- the same in batches ---- */

static CUresult check_ranges(const CUdeviceptr *pointers, const size_t *sizes, size_t count,
                             unsigned long long flags, CUstream stream)
{
    CUresult result = rc_batch_stream(stream);
    if (!result && (!count || !pointers || !sizes || flags))
        result = CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; !result && i < count; i++)
        if (!sizes[i] || !is_managed(pointers[i], sizes[i]))
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
        result = prefetched(dptrs[i], sizes[i], &prefetchLocs[k]);
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

/* ---- attributes of streams ---- */

static CUresult find_stream(CUstream handle, rc_call_t *call, rc_hints_t **hints, int **priority)
{
    static int default_priority; /* of the default streams; read only */
    uint64_t wire;
    CUresult result = rc_begin_in_context(call);
    if (!result)
        result = rc_use_stream(call, handle, &wire);
    if (result)
        return result;
    rc_object_t *stream = rc_object_get(RC_STREAM, handle);
    *hints = stream ? &stream->stream.hints : &call->context->context_.hints;
    *priority = stream ? &stream->stream.priority : &default_priority;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value_out)
{
    rc_call_t call;
    rc_hints_t *hints;
    int *priority;
    CUresult result = find_stream(hStream, &call, &hints, &priority);
    if (!result && !value_out)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    pthread_mutex_lock(&lock);
    switch (attr) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        value_out->accessPolicyWindow = hints->window;
        break;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        value_out->syncPolicy = hints->policy ? hints->policy : CU_SYNC_POLICY_AUTO;
        break;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        value_out->priority = *priority;
        break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        value_out->memSyncDomainMap = hints->domains;
        break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        value_out->memSyncDomain = hints->domain;
        break;
    default:
        result = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value)
{
    rc_call_t call;
    rc_hints_t *hints;
    int *priority, least, greatest;
    CUresult result = find_stream(hStream, &call, &hints, &priority);
    if (!result && !value)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        result = cuCtxGetStreamPriorityRange(&least, &greatest);
    if (result)
        return result;
    pthread_mutex_lock(&lock);
    switch (attr) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        hints->window = value->accessPolicyWindow;
        break;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        if (value->syncPolicy < CU_SYNC_POLICY_AUTO ||
            value->syncPolicy > CU_SYNC_POLICY_BLOCKING_SYNC)
            result = CUDA_ERROR_INVALID_VALUE;
        else
            hints->policy = value->syncPolicy;
        break;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        if (value->priority > least || value->priority < greatest)
            result = CUDA_ERROR_INVALID_VALUE;
        else if (rc_object_get(RC_STREAM, hStream))
            *priority = value->priority;
        break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        hints->domains = value->memSyncDomainMap;
        break;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        hints->domain = value->memSyncDomain;
        break;
    default:
        result = CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuStreamCopyAttributes(CUstream dst, CUstream src)
{
    rc_call_t from, to;
    rc_hints_t *old, *own;
    int *old_priority, *own_priority;
    CUresult result = find_stream(src, &from, &old, &old_priority);
    if (!result)
        result = find_stream(dst, &to, &own, &own_priority);
    if (!result && from.owner != to.owner)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    pthread_mutex_lock(&lock);
    *own = *old;
    if (rc_object_get(RC_STREAM, dst))
        *own_priority = *old_priority;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}
