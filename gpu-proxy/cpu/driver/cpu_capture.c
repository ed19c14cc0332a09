#include "gpu-proxy/cpu/driver/cpu_capture.h"

#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/driver/cpu_context.h"

struct cpu_capture {
    struct cpu_capture *next; /* of those under way */
    atomic_uint refs;         /* members and events */
    cpu_graph_t *graph;       /* referenced; NULL when it is over */
    uint64_t id;
    CUstreamCaptureMode mode;
    cpu_stream_t *origin; /* a member */
    pthread_t thread;     /* that began it */
    bool invalid;
    cpu_captured_t *members;
};

/* Of a captured stream, or of an event that was recorded in one. */
struct cpu_captured {
    cpu_captured_t *next; /* member of the capture */
    cpu_capture_t *capture;
    cpu_stream_t *stream; /* referenced; NULL: of an event */
    cpu_nodes_t tips;
    CUgraphNode *handles; /* of the tips, for who asks */
};

atomic_int cpu_capture_count;
static cpu_capture_t *captures;
static uint64_t ids;
static __thread CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

/* ---- captures and members ---- */

static void put_capture(cpu_capture_t *capture)
{
    if (atomic_fetch_sub(&capture->refs, 1) == 1)
        free(capture);
}

static void free_captured(cpu_captured_t *c)
{
    put_capture(c->capture);
    free(c->tips.nodes);
    free(c->handles);
    free(c);
}

static cpu_captured_t *new_captured(cpu_capture_t *capture, const cpu_nodes_t *tips)
{
    cpu_captured_t *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->capture = capture;
    atomic_fetch_add(&capture->refs, 1);
    for (size_t i = 0; i < tips->count; i++) {
        if (!cpu_nodes_add(&c->tips, tips->nodes[i])) {
            free_captured(c);
            return NULL;
        }
    }
    return c;
}

static CUresult join(cpu_capture_t *capture, cpu_stream_t *stream, const cpu_nodes_t *tips)
{
    cpu_captured_t *c = new_captured(capture, tips);
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cpu_object_ref(&stream->object);
    c->stream = stream;
    c->next = capture->members;
    capture->members = c;
    stream->captured = c;
    return CUDA_SUCCESS;
}

/* Members become ordinary streams again; events keep what says that they were captured. */
static void finish(cpu_capture_t *capture)
{
    atomic_fetch_add(&capture->refs, 1);
    for (cpu_capture_t **at = &captures; *at; at = &(*at)->next) {
        if (*at == capture) {
            *at = capture->next;
            break;
        }
    }
    while (capture->members) {
        cpu_captured_t *c = capture->members;
        capture->members = c->next;
        c->stream->captured = NULL;
        cpu_object_put(&c->stream->object);
        free_captured(c);
    }
    capture->graph = NULL;
    atomic_fetch_sub(&cpu_capture_count, 1);
    put_capture(capture);
}

static bool is_blocking(const cpu_stream_t *stream)
{
    return !(stream->flags & CU_STREAM_NON_BLOCKING);
}

/* The default stream would have to wait for members that are blocking streams of its context. */
static CUresult implicit(const cpu_stream_t *legacy)
{
    CUresult result = CUDA_SUCCESS;
    for (cpu_capture_t *capture = captures; capture; capture = capture->next) {
        for (cpu_captured_t *c = capture->members; c; c = c->next) {
            if (c->stream->context == legacy->context && is_blocking(c->stream)) {
                capture->invalid = true;
                result = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
            }
        }
    }
    return result;
}

CUresult cpu_capture_look(cpu_stream_t *stream, bool *captured)
{
    CUresult result = CUDA_SUCCESS;
    cpu_graph_lock();
    cpu_captured_t *c = stream->captured;
    if (c)
        result = c->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    else if (stream == stream->lanes->legacy)
        result = implicit(stream);
    *captured = c != NULL;
    cpu_graph_unlock();
    return result;
}

CUresult cpu_capture_work(cpu_stream_t *stream, cpu_work_t *work)
{
    cpu_graph_node_t *node;
    cpu_graph_lock();
    cpu_captured_t *c = stream->captured;
    CUresult result;
    if (!c || c->capture->invalid) {
        cpu_work_drop(work);
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    } else {
        result = cpu_graph_add(c->capture->graph, work, c->tips.nodes, c->tips.count, true, &node);
        if (!result) {
            c->tips.count = 0;
            result = cpu_nodes_add(&c->tips, node) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
        }
        c->capture->invalid |= result != CUDA_SUCCESS;
    }
    cpu_graph_unlock();
    return result;
}

CUresult cpu_capture_refuse(cpu_stream_t *stream)
{
    CUresult result = CUDA_SUCCESS;
    if (atomic_load(&cpu_capture_count) == 0)
        return CUDA_SUCCESS;
    cpu_graph_lock();
    cpu_captured_t *c = stream->captured;
    if (c) {
        result = c->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                     : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        c->capture->invalid = true;
    } else if (stream == stream->lanes->legacy) {
        result = implicit(stream);
    }
    cpu_graph_unlock();
    return result;
}

CUresult cpu_capture_unsafe(void)
{
    CUresult result = CUDA_SUCCESS;
    if (atomic_load(&cpu_capture_count) == 0 || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    cpu_graph_lock();
    for (cpu_capture_t *capture = captures; capture; capture = capture->next) {
        bool own = pthread_equal(capture->thread, pthread_self()) &&
                   capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        bool others = thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                      capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (own || others) {
            capture->invalid = true;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    cpu_graph_unlock();
    return result;
}

CUstreamCaptureMode cpu_capture_exchange_mode(CUstreamCaptureMode mode)
{
    CUstreamCaptureMode old = thread_mode;
    thread_mode = mode;
    return old;
}

/* ---- events ---- */

void cpu_captured_free(cpu_captured_t *captured)
{
    if (captured)
        free_captured(captured);
}

static void forget_event(cpu_event_t *event)
{
    cpu_captured_free(atomic_exchange(&event->captured, NULL));
}

bool cpu_capture_owns(const cpu_event_t *event)
{
    return atomic_load(&event->captured) != NULL;
}

/* An external record or wait is a node, which does to the event what a stream would. */
static CUresult event_node(cpu_stream_t *stream, cpu_event_t *event, CUgraphNodeType type)
{
    cpu_work_t work;
    cpu_work_empty(&work);
    work.type = type;
    work.event = event;
    work.context = event->context;
    cpu_object_ref(&event->object);
    cpu_object_ref(&event->context->object);
    return cpu_capture_work(stream, &work);
}

CUresult cpu_capture_record(cpu_stream_t *stream, cpu_event_t *event, unsigned flags, bool *done)
{
    CUresult result = cpu_capture_enter(stream, done);
    if (!result && *done && (flags & CU_EVENT_RECORD_EXTERNAL))
        return event_node(stream, event, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    if (!result && (flags & CU_EVENT_RECORD_EXTERNAL))
        return CUDA_ERROR_ILLEGAL_STATE;
    if (!result && !*done && cpu_capture_owns(event)) {
        cpu_graph_lock();
        forget_event(event);
        cpu_graph_unlock();
    }
    if (result || !*done)
        return result;
    cpu_graph_lock();
    cpu_captured_t *c = stream->captured, *own = c ? new_captured(c->capture, &c->tips) : NULL;
    if (own) {
        forget_event(event);
        atomic_store(&event->captured, own);
    }
    cpu_graph_unlock();
    return own ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult invalidate(cpu_captured_t *c, CUresult why)
{
    c->capture->invalid = true;
    return why;
}

/* The event's tips are added to the stream's, which joins the capture if it is in none. */
static CUresult wait_for_tips(cpu_stream_t *stream, const cpu_captured_t *from)
{
    cpu_captured_t *c = stream->captured;
    if (!from->capture->graph)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (from->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!c)
        return stream == stream->lanes->legacy
                   ? invalidate((cpu_captured_t *)from, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
                   : join(from->capture, stream, &from->tips);
    if (c->capture != from->capture) {
        from->capture->invalid = true;
        return invalidate(c, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    for (size_t i = 0; i < from->tips.count; i++)
        if (!cpu_nodes_has(&c->tips, from->tips.nodes[i]) &&
            !cpu_nodes_add(&c->tips, from->tips.nodes[i]))
            return invalidate(c, CUDA_ERROR_OUT_OF_MEMORY);
    return CUDA_SUCCESS;
}

CUresult cpu_capture_wait(cpu_stream_t *stream, cpu_event_t *event, unsigned flags, bool *done)
{
    bool captured;
    CUresult result = cpu_capture_enter(stream, &captured);
    *done = captured;
    if (!result && captured && (flags & CU_EVENT_WAIT_EXTERNAL))
        return event_node(stream, event, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    if (!result && (flags & CU_EVENT_WAIT_EXTERNAL))
        return CUDA_ERROR_ILLEGAL_STATE;
    if (result || (!captured && !cpu_capture_owns(event)))
        return result;
    cpu_graph_lock();
    const cpu_captured_t *from = atomic_load(&event->captured);
    if (from) {
        *done = true;
        result = wait_for_tips(stream, from);
    } else if (stream->captured && atomic_load(&event->serial)) {
        result = invalidate(stream->captured, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    }
    cpu_graph_unlock();
    return result;
}

/* ---- beginning and ending ---- */

CUresult cpu_capture_begin(cpu_stream_t *stream, CUstreamCaptureMode mode, cpu_graph_t *graph,
                           cpu_graph_node_t *const *tips, size_t count)
{
    cpu_nodes_t first = {(cpu_graph_node_t **)(uintptr_t)tips, count, count};
    if (stream == stream->lanes->legacy)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (stream->captured)
        return CUDA_ERROR_ILLEGAL_STATE;
    cpu_capture_t *capture = calloc(1, sizeof(*capture));
    if (!capture)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (graph) {
        cpu_object_ref(&graph->object);
    } else {
        graph = cpu_graph_new();
        if (!graph || !cpu_handle_add(&graph->object))
            goto err_graph;
    }
    capture->graph = graph;
    capture->id = ++ids;
    capture->mode = mode;
    capture->origin = stream;
    capture->thread = pthread_self();
    atomic_init(&capture->refs, 1);
    if (join(capture, stream, &first))
        goto err_graph;
    put_capture(capture); /* the member's reference is the one that counts */
    capture->next = captures;
    captures = capture;
    atomic_fetch_add(&cpu_capture_count, 1);
    return CUDA_SUCCESS;
err_graph:
    if (graph)
        cpu_object_put(&graph->object);
    free(capture);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Every node must come before the origin's end: what a member did and nobody waited for is lost. */
static bool is_joined(const cpu_capture_t *capture)
{
    const cpu_nodes_t *tips = &capture->origin->captured->tips;
    for (const cpu_captured_t *c = capture->members; c; c = c->next) {
        for (size_t i = 0; i < c->tips.count; i++) {
            const cpu_graph_node_t *node = c->tips.nodes[i];
            if (node->before.count == 0 && !cpu_nodes_has(tips, node))
                return false;
        }
    }
    return true;
}

CUresult cpu_capture_end(cpu_stream_t *stream, cpu_graph_t **graph)
{
    cpu_captured_t *c = stream->captured;
    if (!c)
        return CUDA_ERROR_ILLEGAL_STATE;
    cpu_capture_t *capture = c->capture;
    if (capture->origin != stream)
        return invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        !pthread_equal(capture->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    CUresult result = capture->invalid     ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                      : is_joined(capture) ? CUDA_SUCCESS
                                           : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    cpu_graph_t *made = capture->graph;
    finish(capture);
    if (result) {
        cpu_graph_end(made);
        cpu_object_put(&made->object);
        made = NULL;
    }
    *graph = made;
    return result;
}

void cpu_capture_forget_stream(cpu_stream_t *stream)
{
    if (atomic_load(&cpu_capture_count) == 0)
        return;
    cpu_graph_lock();
    if (stream->captured)
        stream->captured->capture->invalid = true;
    if (stream->captured && stream->captured->capture->origin == stream) {
        cpu_graph_t *graph = stream->captured->capture->graph;
        finish(stream->captured->capture);
        cpu_graph_end(graph);
        cpu_object_put(&graph->object);
    }
    cpu_graph_unlock();
}

/* Events that were recorded in it are not asked for their nodes once it is invalid. */
void cpu_capture_forget_nodes(const cpu_graph_t *graph)
{
    for (cpu_capture_t *capture = captures; capture; capture = capture->next) {
        if (capture->graph != graph)
            continue;
        capture->invalid = true;
        for (cpu_captured_t *c = capture->members; c; c = c->next)
            c->tips.count = 0;
    }
}

/* ---- asking ---- */

CUresult cpu_capture_info(cpu_stream_t *stream, cpu_capture_info_t *info)
{
    cpu_captured_t *c = stream->captured;
    memset(info, 0, sizeof(*info));
    if (!c)
        return stream == stream->lanes->legacy ? implicit(stream) : CUDA_SUCCESS;
    info->status = c->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    info->id = c->capture->id;
    info->graph = c->capture->graph;
    CUgraphNode *handles = realloc(c->handles, (c->tips.count + 1) * sizeof(*handles));
    if (!handles)
        return CUDA_ERROR_OUT_OF_MEMORY;
    c->handles = handles;
    for (size_t i = 0; i < c->tips.count; i++)
        handles[i] = (CUgraphNode)(uintptr_t)c->tips.nodes[i]->object.handle;
    info->tips = handles;
    info->tip_count = c->tips.count;
    return CUDA_SUCCESS;
}

CUresult cpu_capture_set_tips(cpu_stream_t *stream, cpu_graph_node_t *const *tips, size_t count,
                              bool replace)
{
    cpu_captured_t *c = stream->captured;
    if (!c)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (c->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    for (size_t i = 0; i < count; i++)
        if (tips[i]->graph != c->capture->graph)
            return CUDA_ERROR_INVALID_VALUE;
    c->tips.count = replace ? 0 : c->tips.count;
    for (size_t i = 0; i < count; i++)
        if (!cpu_nodes_has(&c->tips, tips[i]) && !cpu_nodes_add(&c->tips, tips[i]))
            return invalidate(c, CUDA_ERROR_OUT_OF_MEMORY);
    return CUDA_SUCCESS;
}
