/* Memory, copies and launches. */
#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/session/px_state.h"

enum {
    REACH_FROM = 16 << 10 /* bytes from which on a copy goes where it belongs at once, if it can */
};

uint64_t px_memory_used(px_session_t *s)
{
    uint64_t used = 0;
    for (int i = 0; i < s->device_count; i++)
        if (s->devices[i].heap)
            used += px_heap_used(s->devices[i].heap);
    return used;
}

void px_report_memory(px_session_t *s)
{
    if (s->config->used)
        s->config->used(s->config->used_arg, px_memory_used(s));
}

static px_heap_t *heap_of(px_call_t *call)
{
    return call->context ? call->session->devices[call->context->device].heap : NULL;
}

/* u64 bytes -> address */
CUresult px_do_cuMemAlloc_v2(px_call_t *call)
{
    px_heap_t *heap = heap_of(call);
    if (!heap)
        return CUDA_ERROR_INVALID_CONTEXT;
    uint32_t owner = call->context->number;
    CUresult result = px_heap_take(heap, call->args[0], owner, &call->out[0]);
    if (result == CUDA_ERROR_NOT_READY) {
        if (!call->may_block)
            return PX_WOULD_BLOCK;
        result = px_device_drain(call, call->context->device);
        if (!result)
            result = px_heap_take(heap, call->args[0], owner, &call->out[0]);
        if (result == CUDA_ERROR_NOT_READY)
            result = CUDA_ERROR_OUT_OF_MEMORY;
    }
    call->outs = 1;
    if (!result)
        px_report_memory(call->session);
    return result;
}

/* u64 address, u64 device */
CUresult px_do_cuMemFree_v2(px_call_t *call)
{
    px_session_t *s = call->session;
    if (call->args[1] >= (uint64_t)s->device_count || !s->devices[call->args[1]].heap)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = px_heap_give(s->devices[call->args[1]].heap, call->args[0]);
    if (!result)
        px_report_memory(s);
    return result;
}

CUresult px_do_cuMemGetInfo_v2(px_call_t *call)
{
    size_t left = 0, total = 0;
    px_heap_t *heap = heap_of(call);
    if (!heap)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult result = call->cuda->cuMemGetInfo_v2(&left, &total);
    if (result)
        return result;
    uint64_t quota = call->session->config->memory_quota;
    left += px_heap_spare(heap);
    if (quota && quota < total)
        total = quota;
    uint64_t used = px_heap_used(heap);
    if (used > total || left > total - used)
        left = used > total ? 0 : total - used;
    uint64_t allowed = px_heap_left(heap);
    if (left > allowed)
        left = allowed;
    call->out[0] = left;
    call->out[1] = total;
    call->outs = 2;
    return CUDA_SUCCESS;
}

/* Where the bytes of a copy can go at once: device memory that this process reaches, with nothing before
 * the copy that is still to be done. Nothing comes after it either while the dispatcher is here. */
static uint8_t *reach(px_call_t *call, const px_wire_copy_t *copy, CUstream stream)
{
    px_heap_t *heap = heap_of(call);
    if (!call->session->config->reachable || !heap || copy->size < REACH_FROM ||
        !px_heap_holds(heap, copy->dst, copy->size) || call->cuda->cuStreamQuery(stream) ||
        call->cuda->cuStreamQuery(NULL)) /* which stands for all that wait for each other */
        return NULL;
    return (uint8_t *)(uintptr_t)copy->dst;
}

/* px_wire_copy_t, then the bytes. Of a large piece only the beginning is here yet: the rest is received
 * straight into the staging memory, and always received, or the frames behind it would be lost. */
CUresult px_do_cuMemcpyHtoDAsync_v2(px_call_t *call)
{
    const px_wire_copy_t *copy = (const void *)call->payload;
    px_staging_t *staging = call->session->staging;
    size_t here = call->here - sizeof(*copy);
    CUstream stream = px_stream(call, copy->stream);
    uint8_t *at = NULL;
    CUresult result = call->context ? call->bad : CUDA_ERROR_INVALID_CONTEXT;
    if (!result && (copy->size > call->frame.length - sizeof(*copy) || copy->size > PX_WIRE_PIECE))
        result = CUDA_ERROR_INVALID_VALUE;
    uint8_t *reached = result ? NULL : reach(call, copy, stream);
    if (!result && !reached)
        result = px_staging_begin(staging, call->context, stream, copy->size, &at);
    if (result)
        return result; /* execute() receives the rest */
    at = reached ? reached : at;
    memcpy(at, call->payload + sizeof(*copy), here < copy->size ? here : copy->size);
    if (here < copy->size &&
        gb_durable_recv(call->session->stream, at + here, copy->size - here) != GB_OK)
        return CUDA_ERROR_UNKNOWN; /* the link is lost, which the next receive finds */
    if (here < copy->size)
        call->here = sizeof(*copy) + (size_t)copy->size;
    if (reached)
        return CUDA_SUCCESS;
    return px_staging_commit(staging, call->context, stream, copy->dst, copy->size);
}

/* px_wire_copy_t */
CUresult px_do_cuMemcpyDtoDAsync_v2(px_call_t *call)
{
    const px_wire_copy_t *copy = (const void *)call->payload;
    CUstream stream = px_stream(call, copy->stream);
    return call->bad ? call->bad
                     : call->cuda->cuMemcpyDtoDAsync_v2(copy->dst, copy->src, copy->size, stream);
}

static CUresult launch_cooperative(px_call_t *call, const px_wire_launch_t *l, CUfunction function,
                                   CUstream stream, void **extra)
{
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE};
    attribute.value.cooperative = 1;
    CUlaunchConfig config = {.gridDimX = l->grid[0],
                             .gridDimY = l->grid[1],
                             .gridDimZ = l->grid[2],
                             .blockDimX = l->block[0],
                             .blockDimY = l->block[1],
                             .blockDimZ = l->block[2],
                             .sharedMemBytes = l->shared,
                             .hStream = stream,
                             .attrs = &attribute,
                             .numAttrs = 1};
    return call->cuda->cuLaunchKernelEx(&config, function, NULL, extra);
}

/* px_wire_launch_t, then the parameters, packed */
CUresult px_do_cuLaunchKernel(px_call_t *call)
{
    const px_wire_launch_t *l = (const void *)call->payload;
    CUfunction function = px_function(call, l->function);
    CUstream stream = px_stream(call, l->stream);
    size_t params = l->params;
    if (call->bad || params > call->frame.length - sizeof(*l))
        return call->bad ? call->bad : CUDA_ERROR_INVALID_VALUE;
    void *packed = (void *)(uintptr_t)(call->payload + sizeof(*l));
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &params,
                     CU_LAUNCH_PARAM_END};
    if (l->cooperative)
        return launch_cooperative(call, l, function, stream, params ? extra : NULL);
    return call->cuda->cuLaunchKernel(function, l->grid[0], l->grid[1], l->grid[2], l->block[0],
                                      l->block[1], l->block[2], l->shared, stream, NULL,
                                      params ? extra : NULL);
}

/* u64 stream, u64 flags, u64 priority */
CUresult px_do_cuStreamCreateWithPriority(px_call_t *call)
{
    CUstream stream;
    CUresult result = call->cuda->cuStreamCreateWithPriority(&stream, (unsigned)call->args[1],
                                                             (int)(int64_t)call->args[2]);
    return result ? result : px_object_put(call, PX_STREAM, call->args[0], stream);
}

/* u64 stream, u64 event, u64 flags */
CUresult px_do_cuStreamWaitEvent(px_call_t *call)
{
    CUstream stream = px_stream(call, call->args[0]);
    CUevent event = px_event(call, call->args[1]);
    return call->bad ? call->bad
                     : call->cuda->cuStreamWaitEvent(stream, event, (unsigned)call->args[2]);
}

/* u64 event, u64 flags */
CUresult px_do_cuEventCreate(px_call_t *call)
{
    CUevent event;
    CUresult result = call->cuda->cuEventCreate(&event, (unsigned)call->args[1]);
    return result ? result : px_object_put(call, PX_EVENT, call->args[0], event);
}
