#include "gpu-proxy/cpu/driver/cpu_event.h"

#include <stdlib.h>

#include "common/core/gb_clock.h"
#include "gpu-proxy/cpu/driver/cpu_cells.h"

typedef struct {
    cpu_op_t op;
    cpu_event_t *event; /* referenced; NULL for a bare wait */
    uint64_t serial;
    uint64_t shared_record; /* of an event that other processes see */
} mark_op_t;

/* Under the engine's lock. A record that a later one has overtaken leaves no time. */
static void stamp(cpu_op_t *op)
{
    const mark_op_t *mark = (const mark_op_t *)op;
    if (mark->event && atomic_load(&mark->event->serial) == mark->serial)
        atomic_store(&mark->event->time_ns, gb_now_ns());
    if (mark->event && mark->event->shared)
        cpu_ipc_event_complete(mark->event->shared, mark->shared_record);
}

/* A record that was skipped, because its context has failed, must not keep other processes waiting. */
static void release(cpu_op_t *op)
{
    mark_op_t *mark = (mark_op_t *)op;
    if (mark->event && mark->event->shared)
        cpu_ipc_event_complete(mark->event->shared, mark->shared_record);
    if (mark->event)
        cpu_object_put(&mark->event->object);
    cpu_cells_give(mark, sizeof(*mark));
}

static const cpu_op_ops_t mark_ops = {.name = "event", .instant = stamp, .release = release};

static void destroy(cpu_object_t *object)
{
    cpu_event_t *event = (cpu_event_t *)object;
    if (event->stream)
        cpu_object_put(&event->stream->object);
    cpu_captured_free(atomic_load(&event->captured));
    cpu_ipc_event_close(event->shared);
    cpu_object_put(&event->context->object);
    pthread_mutex_destroy(&event->lock);
    free(event);
}

CUresult cpu_event_open(cpu_context_t *context, unsigned flags, cpu_ipc_event_t *shared,
                        cpu_event_t **event)
{
    if ((flags & CU_EVENT_INTERPROCESS) && !shared) {
        CUresult result = cpu_ipc_event_make(&shared);
        if (result)
            return result;
    }
    cpu_event_t *made = calloc(1, sizeof(*made));
    if (!made) {
        cpu_ipc_event_close(shared);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->shared = shared;
    cpu_object_init(&made->object, CPU_KIND_EVENT, destroy);
    pthread_mutex_init(&made->lock, NULL);
    cpu_object_ref(&context->object);
    made->context = context;
    made->flags = flags;
    *event = made;
    return CUDA_SUCCESS;
}

CUresult cpu_event_get(CUevent handle, cpu_event_t **event)
{
    cpu_event_t *found = (cpu_event_t *)cpu_handle_get(CPU_KIND_EVENT, (uint64_t)(uintptr_t)handle);
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = cpu_context_state(found->context);
    if (result) {
        cpu_object_put(&found->object);
        return result;
    }
    *event = found;
    return CUDA_SUCCESS;
}

static CUresult submit_record(cpu_event_t *event, uint64_t serial, cpu_stream_t *stream,
                              uint64_t *seq)
{
    mark_op_t *mark = cpu_cells_take(sizeof(*mark));
    if (!mark) {
        if (event->shared)
            cpu_ipc_event_complete(event->shared, event->shared_record);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    cpu_op_init(&mark->op, &mark_ops, 0, 0);
    cpu_object_ref(&event->object);
    mark->event = event;
    mark->serial = serial;
    mark->shared_record = event->shared_record;
    return cpu_sched_submit(stream, &mark->op, seq);
}

/* With the event's lock held. In an idle stream there is nothing to queue. */
static CUresult record(cpu_event_t *event, cpu_stream_t *stream, uint64_t *seq)
{
    uint64_t serial = atomic_fetch_add(&event->serial, 1) + 1;
    if (event->shared)
        event->shared_record = cpu_ipc_event_record(event->shared);
    if (!cpu_sched_idle(stream, seq))
        return submit_record(event, serial, stream, seq);
    atomic_store(&event->time_ns, gb_now_ns());
    if (event->shared)
        cpu_ipc_event_complete(event->shared, event->shared_record);
    return CUDA_SUCCESS;
}

CUresult cpu_event_record(cpu_event_t *event, cpu_stream_t *stream)
{
    cpu_stream_t *old = NULL;
    uint64_t seq;
    pthread_mutex_lock(&event->lock);
    CUresult result = record(event, stream, &seq);
    if (!result && event->stream != stream) {
        cpu_object_ref(&stream->object);
        old = event->stream;
        event->stream = stream;
    }
    if (!result)
        event->seq = seq;
    pthread_mutex_unlock(&event->lock);
    if (old)
        cpu_object_put(&old->object);
    return result;
}

bool cpu_event_point(cpu_event_t *event, cpu_point_t *point)
{
    pthread_mutex_lock(&event->lock);
    bool recorded = event->stream != NULL;
    if (recorded) {
        cpu_object_ref(&event->stream->object);
        *point = (cpu_point_t){event->stream, event->seq};
    }
    pthread_mutex_unlock(&event->lock);
    return recorded;
}

CUresult cpu_event_barrier(cpu_stream_t *stream)
{
    mark_op_t *mark = cpu_cells_take(sizeof(*mark));
    if (!mark)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cpu_op_init(&mark->op, &mark_ops, 0, 0);
    mark->event = NULL;
    return cpu_sched_submit(stream, &mark->op, NULL);
}

CUresult cpu_event_join(cpu_stream_t *stream, const cpu_point_t *points, uint32_t count)
{
    mark_op_t *mark = cpu_cells_take(sizeof(*mark));
    if (!mark)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cpu_op_init(&mark->op, &mark_ops, 0, 0);
    mark->event = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (!cpu_op_wait_for(&mark->op, points[i].stream, points[i].seq)) {
            cpu_op_drop(&mark->op);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    return cpu_sched_submit(stream, &mark->op, NULL);
}

/* ---- events of several processes ---- */

/* Waits for a record that may be another process's. */
typedef struct {
    cpu_op_t op;
    cpu_event_t *event; /* referenced */
    uint64_t record;
} shared_wait_t;

static bool has_arrived(cpu_op_t *op)
{
    const shared_wait_t *wait = (const shared_wait_t *)op;
    return cpu_ipc_event_passed(wait->event->shared, wait->record);
}

static void do_nothing(cpu_op_t *op)
{
    (void)op;
}

static void release_wait(cpu_op_t *op)
{
    shared_wait_t *wait = (shared_wait_t *)op;
    cpu_object_put(&wait->event->object);
    cpu_cells_give(wait, sizeof(*wait));
}

static const cpu_op_ops_t wait_ops = {
    .name = "event wait", .ready = has_arrived, .instant = do_nothing, .release = release_wait};

static CUresult wait_shared_in(cpu_event_t *event, cpu_stream_t *stream)
{
    uint64_t record = cpu_ipc_event_last(event->shared);
    if (cpu_ipc_event_passed(event->shared, record))
        return CUDA_SUCCESS;
    shared_wait_t *wait = cpu_cells_take(sizeof(*wait));
    if (!wait)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cpu_op_init(&wait->op, &wait_ops, 0, 0);
    cpu_object_ref(&event->object);
    wait->event = event;
    wait->record = record;
    return cpu_sched_submit(stream, &wait->op, NULL);
}

/* Whether the last record of all is one of this process. */
static bool is_own(cpu_event_t *event)
{
    pthread_mutex_lock(&event->lock);
    bool own = !event->shared || event->shared_record == cpu_ipc_event_last(event->shared);
    pthread_mutex_unlock(&event->lock);
    return own;
}

void cpu_event_wait(cpu_event_t *event)
{
    cpu_point_t point;
    if (!is_own(event)) {
        cpu_ipc_event_wait(event->shared, cpu_ipc_event_last(event->shared));
    } else if (cpu_event_point(event, &point)) {
        cpu_sched_wait(point.stream, point.seq);
        cpu_object_put(&point.stream->object);
    }
}

CUresult cpu_event_wait_in(cpu_event_t *event, cpu_stream_t *stream)
{
    cpu_point_t point;
    CUresult result = CUDA_SUCCESS;
    if (event->shared)
        return wait_shared_in(event, stream);
    if (!cpu_event_point(event, &point))
        return CUDA_SUCCESS;
    if (point.stream != stream && !cpu_stream_passed(point.stream, point.seq))
        result = cpu_event_join(stream, &point, 1);
    cpu_object_put(&point.stream->object);
    return result;
}

CUresult cpu_event_query(cpu_event_t *event)
{
    cpu_point_t point;
    if (event->shared)
        return cpu_ipc_event_passed(event->shared, cpu_ipc_event_last(event->shared))
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_NOT_READY;
    if (!cpu_event_point(event, &point))
        return CUDA_SUCCESS;
    bool passed = cpu_stream_passed(point.stream, point.seq);
    cpu_object_put(&point.stream->object);
    return passed ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cpu_event_elapsed(cpu_event_t *start, cpu_event_t *end, float *ms)
{
    if ((start->flags | end->flags) & CU_EVENT_DISABLE_TIMING)
        return CUDA_ERROR_INVALID_HANDLE;
    if (start->context != end->context || !atomic_load(&start->serial) ||
        !atomic_load(&end->serial))
        return CUDA_ERROR_INVALID_HANDLE;
    if (cpu_event_query(start) || cpu_event_query(end))
        return CUDA_ERROR_NOT_READY;
    double ns = (double)atomic_load(&end->time_ns) - (double)atomic_load(&start->time_ns);
    *ms = (float)(ns * 1e-6);
    return CUDA_SUCCESS;
}
