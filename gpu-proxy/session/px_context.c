/* Contexts, and what synchronises a whole one. */
#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/session/px_shared.h"

CUresult px_make_current(px_call_t *call)
{
    /* Per thread: what is current now, and when that was set. */
    static _Thread_local CUcontext current;
    static _Thread_local unsigned epoch;
    if (!call->context)
        return CUDA_SUCCESS;
    CUcontext handle = atomic_load_explicit(&call->context->handle, memory_order_relaxed);
    unsigned now = atomic_load_explicit(&call->session->context_epoch, memory_order_acquire);
    if (!handle)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    if (handle == current && epoch == now)
        return CUDA_SUCCESS;
    CUresult result = call->cuda->cuCtxSetCurrent(handle);
    current = result ? NULL : handle;
    epoch = now;
    return result;
}

/* Makes the client's context `number`; replaces an entry of contexts[] that is dead. */
static CUresult enter(px_call_t *call, uint64_t number, int device, int primary, CUcontext handle)
{
    px_session_t *s = call->session;
    px_context_t *context = NULL;
    int slot = 0;
    while (slot < s->context_count && atomic_load(&s->contexts[slot]->handle))
        slot++;
    if (slot < s->context_count)
        context = s->contexts[slot];
    else if (slot < (int)(sizeof(s->contexts) / sizeof(s->contexts[0])))
        context = calloc(1, sizeof(*context));
    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = px_object_put(call, PX_CONTEXT, number, context);
    pthread_mutex_lock(&s->lock);
    if (slot == s->context_count) {
        s->contexts[slot] = context;
        s->context_count++;
    }
    if (!result) {
        context->number = (uint32_t)number;
        context->device = device;
        context->primary = primary;
        atomic_store(&context->late, 0);
        context->pages = NULL;
        context->gates = NULL;
        atomic_store(&context->handle, handle);
    }
    pthread_mutex_unlock(&s->lock);
    return result;
}

static px_device_slot_t *device_at(px_call_t *call, uint64_t index)
{
    return index < (uint64_t)call->session->device_count ? &call->session->devices[index] : NULL;
}

/* u64 context, u64 device, u64 flags */
CUresult px_do_cuDevicePrimaryCtxRetain(px_call_t *call)
{
    px_device_slot_t *slot = device_at(call, call->args[1]);
    CUcontext handle;
    if (!slot)
        return CUDA_ERROR_INVALID_DEVICE;
    /* The flags are advice about how the host waits; a driver that refuses them is none the worse. */
    call->cuda->cuDevicePrimaryCtxSetFlags_v2(slot->ordinal, (unsigned)call->args[2]);
    CUresult result = call->cuda->cuDevicePrimaryCtxRetain(&handle, slot->ordinal);
    if (result)
        return result;
    result = enter(call, call->args[0], (int)call->args[1], 1, handle);
    if (result)
        call->cuda->cuDevicePrimaryCtxRelease_v2(slot->ordinal);
    return result;
}

/* u64 context, u64 device, u64 flags */
CUresult px_do_cuCtxCreate_v4(px_call_t *call)
{
    px_device_slot_t *slot = device_at(call, call->args[1]);
    CUcontext handle, popped;
    if (!slot)
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult result =
        call->cuda->cuCtxCreate_v4(&handle, NULL, (unsigned)call->args[2], slot->ordinal);
    if (result == CUDA_ERROR_NOT_SUPPORTED) /* a driver before CUDA 12.5 */
        result = call->cuda->cuCtxCreate_v2(&handle, (unsigned)call->args[2], slot->ordinal);
    if (result)
        return result;
    /* It became current here, which means nothing: lanes say what is current. */
    call->cuda->cuCtxPopCurrent_v2(&popped);
    atomic_fetch_add(&call->session->context_epoch, 1);
    result = enter(call, call->args[0], (int)call->args[1], 0, handle);
    if (result)
        call->cuda->cuCtxDestroy_v2(handle);
    return result;
}

/* Forgets the context's objects and frees its memory; the driver destroys its own with it. */
void px_context_clear(px_session_t *s, px_context_t *context)
{
    px_peer_leave(s, context); /* first: streams still exist */
    px_staging_leave(s->staging, context);
    for (int i = 0; i < PX_SEGMENTS; i++) {
        px_object_t *segment = atomic_load(&s->objects.segments[i]);
        for (int k = 0; segment && k < PX_SEGMENT; k++) {
            px_object_t *object = &segment[k];
            unsigned kind = atomic_load(&object->kind);
            if (object->context != context->number || kind == PX_NONE || kind == PX_CONTEXT)
                continue;
            void *handle = atomic_load(&object->handle);
            atomic_store(&object->kind, PX_NONE);
            if (kind == PX_MODULE)
                px_module_forget(s, handle);
            if (kind == PX_LINK)
                px_link_forget(s, handle);
            if (kind == PX_GRAPH)
                px_graph_forget(s, handle);
        }
    }
    for (int i = 0; i < PX_LANES; i++) {
        px_lane_t *lane = s->lanes[i];
        for (int k = 0; lane && k < lane->own_count; k++)
            if (lane->own[k].context == context)
                lane->own[k--] = lane->own[--lane->own_count];
    }
    px_shared_orphan(s, context);
    if (s->devices[context->device].heap)
        px_heap_give_all(s->devices[context->device].heap, context->number);
    px_report_memory(s);
}

/* Ends the client's context; *handle is the driver's, which is left to the caller. */
static CUresult leave(px_call_t *call, uint64_t number, int primary, CUcontext *handle,
                      CUdevice *ordinal)
{
    px_session_t *s = call->session;
    px_context_t *context = px_object_get(s, PX_CONTEXT, number);
    if (!context || context->primary != primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    px_context_clear(s, context);
    for (int i = 0; i < PX_LANES; i++)
        if (s->lanes[i] && s->lanes[i]->context == context)
            s->lanes[i]->context = NULL;
    px_object_take(s, PX_CONTEXT, number);
    *handle = atomic_exchange(&context->handle, NULL);
    *ordinal = s->devices[context->device].ordinal;
    atomic_fetch_add(&s->context_epoch, 1);
    call->context = NULL; /* the result is the call's own, not a late one */
    return CUDA_SUCCESS;
}

/* u64 context; the client counts its retains, this is the last release */
CUresult px_do_cuDevicePrimaryCtxRelease_v2(px_call_t *call)
{
    CUcontext handle;
    CUdevice ordinal;
    CUresult result = leave(call, call->args[0], 1, &handle, &ordinal);
    if (!result)
        result = call->cuda->cuDevicePrimaryCtxRelease_v2(ordinal);
    px_shared_sweep(call->session);
    px_downs_sweep(call->session);
    return result;
}

/* u64 device, u64 context or 0; the client makes a new one when it retains it again */
CUresult px_do_cuDevicePrimaryCtxReset_v2(px_call_t *call)
{
    px_device_slot_t *slot = device_at(call, call->args[0]);
    CUcontext handle = NULL;
    CUdevice ordinal;
    if (!slot)
        return CUDA_ERROR_INVALID_DEVICE;
    if (call->args[1]) {
        CUresult result = leave(call, call->args[1], 1, &handle, &ordinal);
        if (result)
            return result;
    }
    CUresult result = call->cuda->cuDevicePrimaryCtxReset_v2(slot->ordinal);
    atomic_fetch_add(&call->session->context_epoch, 1);
    if (handle) /* a reset does not release */
        call->cuda->cuDevicePrimaryCtxRelease_v2(slot->ordinal);
    px_shared_sweep(call->session);
    px_downs_sweep(call->session);
    return result;
}

CUresult px_do_cuCtxDestroy_v2(px_call_t *call)
{
    CUcontext handle;
    CUdevice ordinal;
    CUresult result = leave(call, call->args[0], 0, &handle, &ordinal);
    if (!result)
        result = call->cuda->cuCtxDestroy_v2(handle);
    px_shared_sweep(call->session);
    px_downs_sweep(call->session);
    return result;
}

/* u64 device, u64 peer -> 1 if kernels of the first reach memory of the second. Memory in windows is
 * opened to its own device only, so that this is what one address space gives: on the software device. */
CUresult px_do_cuDeviceCanAccessPeer(px_call_t *call)
{
    px_device_slot_t *from = device_at(call, call->args[0]), *to = device_at(call, call->args[1]);
    int can = 0;
    if (!from || !to)
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult result = CUDA_SUCCESS;
    if (strcmp(call->session->config->driver_name, "gable-cpu") == 0)
        result = call->cuda->cuDeviceCanAccessPeer(&can, from->ordinal, to->ordinal);
    call->out[0] = (uint64_t)can;
    call->outs = 1;
    return result;
}

/* u64 context */
CUresult px_do_cuCtxSynchronize(px_call_t *call)
{
    px_session_t *s = call->session;
    if (!call->context)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (!call->may_block)
        return PX_WOULD_BLOCK;
    px_heap_t *heap = s->devices[call->context->device].heap;
    uint64_t mark = heap ? px_heap_mark(heap) : 0;
    int alone = 0;
    pthread_mutex_lock(&s->lock);
    for (int i = 0; i < s->context_count; i++)
        alone += s->contexts[i]->device == call->context->device &&
                 atomic_load(&s->contexts[i]->handle) != NULL;
    pthread_mutex_unlock(&s->lock);
    CUresult result = call->cuda->cuCtxSynchronize();
    if (!result && heap && alone == 1)
        px_heap_passed(heap, mark);
    return result;
}

CUresult px_device_drain(px_call_t *call, int device)
{
    px_session_t *s = call->session;
    px_heap_t *heap = s->devices[device].heap;
    uint64_t mark = heap ? px_heap_mark(heap) : 0;
    CUresult result = CUDA_SUCCESS;
    for (int i = 0;; i++) {
        CUcontext handle = NULL;
        pthread_mutex_lock(&s->lock);
        int more = i < s->context_count;
        if (more && s->contexts[i]->device == device)
            handle = atomic_load(&s->contexts[i]->handle);
        pthread_mutex_unlock(&s->lock);
        if (!more)
            break;
        if (handle && !result)
            result = call->cuda->cuCtxSetCurrent(handle);
        if (handle && !result)
            result = call->cuda->cuCtxSynchronize();
    }
    atomic_fetch_add(&s->context_epoch, 1); /* this thread's current context has changed */
    CUresult back = px_make_current(call);
    if (!result && heap)
        px_heap_passed(heap, mark);
    return result ? result : back;
}
