/* Memory that the client's program and kernels use at the same addresses (gpu-proxy/client/rc_shared.h). The
 * client chooses the addresses; here device memory is mapped there, and pages are carried to and fro on a
 * stream of their own, so that they wait for nobody. */
#include "gpu-proxy/session/px_shared.h"

#include <stdlib.h>
#include <string.h>

typedef struct px_shared {
    struct px_shared *next;
    uint64_t base, size;
    CUmemGenericAllocationHandle memory;
    uint32_t context; /* number of the one it belongs to; 0 = that is gone */
    px_heap_t *heap;  /* of the device: it counts there */
} segment_t;

static void unmap(px_session_t *s, segment_t *segment)
{
    s->cuda->cuMemUnmap(segment->base, segment->size);
    s->cuda->cuMemRelease(segment->memory);
    s->cuda->cuMemAddressFree(segment->base, segment->size);
    px_heap_uncharge(segment->heap, segment->size);
    free(segment);
}

/* At exactly these addresses, or not at all. */
static CUresult map(px_call_t *call, segment_t *segment, CUdevice device)
{
    const gb_cuda_table_t *cuda = call->cuda;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    CUdeviceptr got = 0;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = cuda->cuMemAddressReserve(&got, segment->size, 0, segment->base, 0);
    if (result)
        return result;
    result = got == segment->base ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result)
        result = cuda->cuMemCreate(&segment->memory, segment->size, &prop, 0);
    if (result)
        goto err_free;
    result = cuda->cuMemMap(got, segment->size, 0, segment->memory, 0);
    if (result)
        goto err_release;
    result = cuda->cuMemSetAccess(got, segment->size, &access, 1);
    if (!result)
        return CUDA_SUCCESS;
    cuda->cuMemUnmap(got, segment->size);
err_release:
    cuda->cuMemRelease(segment->memory);
err_free:
    cuda->cuMemAddressFree(got, segment->size);
    return result;
}

static CUresult charge_and_map(px_call_t *call, segment_t *segment)
{
    CUresult result = px_heap_charge(segment->heap, segment->size);
    if (result)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = map(call, segment, call->session->devices[call->context->device].ordinal);
    if (result)
        px_heap_uncharge(segment->heap, segment->size);
    return result;
}

/* u64 base, u64 size, u64 context */
CUresult px_shared_map(px_call_t *call)
{
    px_session_t *s = call->session;
    if (!call->context || call->context->number != call->args[2] ||
        !s->devices[call->context->device].heap)
        return CUDA_ERROR_INVALID_CONTEXT;
    segment_t *segment = calloc(1, sizeof(*segment));
    if (!segment)
        return CUDA_ERROR_OUT_OF_MEMORY;
    segment->base = call->args[0];
    segment->size = call->args[1];
    segment->context = call->context->number;
    segment->heap = s->devices[call->context->device].heap;
    CUresult result = CUDA_SUCCESS;
    if (!call->context->pages)
        result = call->cuda->cuStreamCreate(&call->context->pages, CU_STREAM_NON_BLOCKING);
    if (!result)
        result = charge_and_map(call, segment);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && !call->may_block) {
        free(segment);
        return PX_WOULD_BLOCK;
    }
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        /* What was freed may still be in use, or be kept for the next allocation. */
        result = px_device_drain(call, call->context->device);
        px_heap_trim(segment->heap);
        if (!result)
            result = charge_and_map(call, segment);
    }
    if (result) {
        free(segment);
        return result;
    }
    pthread_mutex_lock(&s->lock);
    segment->next = s->shared;
    s->shared = segment;
    pthread_mutex_unlock(&s->lock);
    px_report_memory(s);
    return CUDA_SUCCESS;
}

/* u64 base, u64 size; nothing uses it any more */
CUresult px_shared_unmap(px_call_t *call)
{
    px_session_t *s = call->session;
    pthread_mutex_lock(&s->lock);
    segment_t **at = &s->shared;
    while (*at && (*at)->base != call->args[0])
        at = &(*at)->next;
    segment_t *found = *at;
    if (found) {
        *at = found->next;
        unmap(s, found);
    }
    pthread_mutex_unlock(&s->lock);
    px_report_memory(s);
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void px_shared_orphan(px_session_t *s, const px_context_t *context)
{
    pthread_mutex_lock(&s->lock);
    for (segment_t *segment = s->shared; segment; segment = segment->next)
        if (segment->context == context->number)
            segment->context = 0;
    pthread_mutex_unlock(&s->lock);
}

void px_shared_sweep(px_session_t *s)
{
    pthread_mutex_lock(&s->lock);
    for (segment_t **at = &s->shared; *at;) {
        segment_t *segment = *at;
        if (segment->context) {
            at = &segment->next;
            continue;
        }
        *at = segment->next;
        unmap(s, segment);
    }
    pthread_mutex_unlock(&s->lock);
    px_report_memory(s);
}

void px_shared_free(px_session_t *s)
{
    while (s->shared) {
        segment_t *segment = s->shared;
        s->shared = segment->next;
        unmap(s, segment);
    }
}

/* px_wire_copy_t, then the bytes of pages that the program has written */
CUresult px_shared_up(px_call_t *call)
{
    const px_wire_copy_t *copy = (const void *)call->payload;
    CUstream stream = call->context ? call->context->pages : NULL;
    if (!stream)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (copy->size > call->frame.length - sizeof(*copy))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = call->cuda->cuMemcpyHtoDAsync_v2(copy->dst, call->payload + sizeof(*copy),
                                                       copy->size, stream);
    /* Short: the stream has nothing else to do. Whoever is launched next, on any stream, sees them. */
    return result ? result : call->cuda->cuStreamSynchronize(stream);
}

/* px_wire_copy_t -> pieces */
CUresult px_shared_down(px_call_t *call)
{
    const px_wire_copy_t *copy = (const void *)call->payload;
    if (!call->context || !call->context->pages)
        return CUDA_ERROR_INVALID_CONTEXT;
    return px_copy_down(call, copy, call->context->pages);
}
