#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/session/px_gate.h"
#include "gpu-proxy/session/px_ipc.h"
#include "gpu-proxy/session/px_shared.h"

px_object_t *px_table_at(px_table_t *table, uint32_t number, int make)
{
    uint32_t index = number / PX_SEGMENT;
    if (index >= PX_SEGMENTS)
        return NULL;
    px_object_t *segment = atomic_load_explicit(&table->segments[index], memory_order_acquire);
    if (!segment && make) {
        px_object_t *made = calloc(PX_SEGMENT, sizeof(*made));
        if (made && !atomic_compare_exchange_strong(&table->segments[index], &segment, made))
            free(made); /* another lane was first: segment is its */
        else
            segment = made;
    }
    return segment ? &segment[number % PX_SEGMENT] : NULL;
}

static void *get_from(px_table_t *table, px_kind_t kind, uint64_t number)
{
    px_object_t *object = number <= UINT32_MAX ? px_table_at(table, (uint32_t)number, 0) : NULL;
    if (!object || atomic_load_explicit(&object->kind, memory_order_acquire) != kind)
        return NULL;
    return atomic_load_explicit(&object->handle, memory_order_relaxed);
}

void *px_object_get(px_session_t *session, px_kind_t kind, uint64_t number)
{
    return get_from(kind == PX_FUNCTION ? &session->functions : &session->objects, kind, number);
}

CUresult px_object_put(px_call_t *call, px_kind_t kind, uint64_t number, void *handle)
{
    px_session_t *s = call->session;
    px_table_t *table = kind == PX_FUNCTION ? &s->functions : &s->objects;
    if (number < PX_WIRE_FIRST_OBJECT || number > UINT32_MAX)
        return CUDA_ERROR_INVALID_HANDLE;
    px_object_t *object = px_table_at(table, (uint32_t)number, 1);
    if (!object)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (atomic_load(&object->kind) != PX_NONE)
        return CUDA_ERROR_INVALID_HANDLE;
    atomic_store_explicit(&object->handle, handle, memory_order_relaxed);
    object->context = call->context ? call->context->number : 0;
    atomic_store_explicit(&object->kind, kind, memory_order_release);
    return CUDA_SUCCESS;
}

void *px_object_take(px_session_t *session, px_kind_t kind, uint64_t number)
{
    void *handle = px_object_get(session, kind, number);
    if (handle) {
        px_table_t *table = kind == PX_FUNCTION ? &session->functions : &session->objects;
        px_object_t *object = px_table_at(table, (uint32_t)number, 0);
        atomic_store_explicit(&object->kind, PX_NONE, memory_order_release);
    }
    return handle;
}

/* The lane's own default stream in its context: CUDA's is tied to the thread, and threads here are
 * not the client's. */
static CUstream own_stream(px_call_t *call)
{
    px_lane_t *lane = call->lane;
    CUstream stream = NULL;
    for (int i = 0; i < lane->own_count; i++)
        if (lane->own[i].context == call->context)
            return lane->own[i].stream;
    if (!call->context || lane->own_count == (int)(sizeof(lane->own) / sizeof(lane->own[0])) ||
        call->cuda->cuStreamCreate(&stream, CU_STREAM_DEFAULT)) {
        call->bad = CUDA_ERROR_INVALID_CONTEXT;
        return NULL;
    }
    lane->own[lane->own_count].context = call->context;
    lane->own[lane->own_count++].stream = stream;
    return stream;
}

CUstream px_stream(px_call_t *call, uint64_t number)
{
    if (number < 2)
        return (CUstream)(uintptr_t)number;
    if (number == 2)
        return own_stream(call);
    void *handle = px_object_get(call->session, PX_STREAM, number);
    if (!handle)
        call->bad = CUDA_ERROR_INVALID_HANDLE;
    return handle;
}

CUevent px_event(px_call_t *call, uint64_t number)
{
    void *handle = px_object_get(call->session, PX_EVENT, number);
    if (!handle)
        call->bad = CUDA_ERROR_INVALID_HANDLE;
    return handle;
}

CUfunction px_function(px_call_t *call, uint64_t number)
{
    void *handle = px_object_get(call->session, PX_FUNCTION, number);
    if (!handle)
        call->bad = CUDA_ERROR_INVALID_HANDLE;
    return handle;
}

CUstream px_take_stream(px_call_t *call, uint64_t number)
{
    void *handle = px_object_take(call->session, PX_STREAM, number);
    if (handle)
        px_staging_stream_gone(call->session->staging, handle);
    else
        call->bad = CUDA_ERROR_INVALID_HANDLE;
    return handle;
}

CUevent px_take_event(px_call_t *call, uint64_t number)
{
    void *handle = px_object_take(call->session, PX_EVENT, number);
    if (handle)
        px_ipc_event_gone(call->session, handle);
    if (!handle)
        call->bad = CUDA_ERROR_INVALID_HANDLE;
    return handle;
}

px_lane_t *px_lane(px_session_t *session, uint32_t id)
{
    if (id >= PX_LANES)
        return NULL;
    if (!session->lanes[id]) {
        session->lanes[id] = calloc(1, sizeof(px_lane_t));
        if (session->lanes[id])
            session->lanes[id]->id = id;
    }
    return session->lanes[id];
}

void px_lane_end(px_session_t *session, px_lane_t *lane)
{
    for (int i = 0; i < lane->own_count; i++) {
        px_staging_stream_gone(session->staging, lane->own[i].stream);
        session->cuda->cuStreamDestroy_v2(lane->own[i].stream);
    }
    free(lane->image);
    uint32_t id = lane->id;
    memset(lane, 0, sizeof(*lane));
    lane->id = id;
}

static void table_free(px_table_t *table)
{
    for (int i = 0; i < PX_SEGMENTS; i++)
        free(atomic_load(&table->segments[i]));
}

/* What contexts have not taken with them: those that are left at the end, and what needs none. */
static void objects_free(px_session_t *s)
{
    for (int i = 0; i < PX_SEGMENTS; i++) {
        px_object_t *segment = atomic_load(&s->objects.segments[i]);
        for (int k = 0; segment && k < PX_SEGMENT; k++)
            if (atomic_load(&segment[k].kind) == PX_GRAPH)
                px_graph_forget(s, atomic_load(&segment[k].handle));
            else if (atomic_load(&segment[k].kind) == PX_LINK)
                px_link_forget(s, atomic_load(&segment[k].handle));
            else if (atomic_load(&segment[k].kind) == PX_PHYSICAL)
                px_physical_forget(s, atomic_load(&segment[k].handle));
            else if (atomic_load(&segment[k].kind) == PX_MODULE)
                px_module_forget(s, atomic_load(&segment[k].handle));
    }
}

void px_session_free(px_session_t *s)
{
    px_exchange_end(s);
    px_ipc_end(s);
    px_vmm_destroy(s);
    objects_free(s);
    px_images_free(s);
    for (int i = 0; s->lanes && i < PX_LANES; i++) {
        if (s->lanes[i])
            free(s->lanes[i]->image);
        free(s->lanes[i]);
    }
    px_shared_free(s);
    for (int i = 0; i < s->device_count; i++)
        px_heap_destroy(s->devices[i].heap);
    px_downs_free(s);
    px_staging_destroy(s->staging);
    for (int i = 0; i < s->context_count; i++) {
        px_gates_forget(s->contexts[i]->gates);
        free(s->contexts[i]);
    }
    table_free(&s->objects);
    table_free(&s->functions);
    pthread_mutex_destroy(&s->send_lock);
    pthread_mutex_destroy(&s->role_lock);
    pthread_mutex_destroy(&s->host_lock);
    pthread_cond_destroy(&s->host_done);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->locker_lock);
    pthread_cond_destroy(&s->role_free);
    pthread_cond_destroy(&s->finished);
    free(s->buffer);
    free(s->lanes);
    free(s->devices);
    free(s);
}
