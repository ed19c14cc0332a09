#include "gpu-proxy/cpu/driver/cpu_event.h"

#include <stdlib.h>

#include "common/core/gb_clock.h"
#include "gpu-proxy/cpu/driver/cpu_cells.h"

typedef struct {
    cpu_op_t op;
    cpu_event_t *event; /* referenced; NULL for a bare wait */
    uint64_t serial;
} mark_op_t;

/* Under the engine's lock. A record that a later one has overtaken leaves no time. */
static void stamp(cpu_op_t *op)
{
    const mark_op_t *mark = (const mark_op_t *)op;
    if (mark->event && atomic_load(&mark->event->serial) == mark->serial)
        atomic_store(&mark->event->time_ns, gb_now_ns());
}

static void release(cpu_op_t *op)
{
    mark_op_t *mark = (mark_op_t *)op;
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
    cpu_object_put(&event->context->object);
    pthread_mutex_destroy(&event->lock);
    free(event);
}

CUresult cpu_event_open(cpu_context_t *context, unsigned flags, cpu_event_t **event)
{
    cpu_event_t *made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
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
    if (!mark)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cpu_op_init(&mark->op, &mark_ops, 0, 0);
    cpu_object_ref(&event->object);
    mark->event = event;
    mark->serial = serial;
    return cpu_sched_submit(stream, &mark->op, seq);
}

/* With the event's lock held. In an idle stream there is nothing to queue. */
static CUresult record(cpu_event_t *event, cpu_stream_t *stream, uint64_t *seq)
{
    uint64_t serial = atomic_fetch_add(&event->serial, 1) + 1;
    if (!cpu_sched_idle(stream, seq))
        return submit_record(event, serial, stream, seq);
    atomic_store(&event->time_ns, gb_now_ns());
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

CUresult cpu_event_wait_in(cpu_event_t *event, cpu_stream_t *stream)
{
    cpu_point_t point;
    CUresult result = CUDA_SUCCESS;
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
