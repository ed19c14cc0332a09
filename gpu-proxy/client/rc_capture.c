#include "gpu-proxy/client/rc_capture.h"

#include <stdlib.h>
#include <string.h>

typedef struct rc_capture rc_capture_t;

/* A stream as captures know it: the lane tells the threads' own default streams apart. */
typedef struct {
    uint64_t handle;
    const rc_object_t *context;
    const rc_lane_t *lane; /* NULL but for those */
} place_t;

struct rc_capture {
    rc_capture_t *next; /* of those under way */
    unsigned refs;      /* members and events */
    rc_graph_t *graph;  /* NULL when it is over, or destroyed */
    int over;
    uint64_t id;
    CUstreamCaptureMode mode;
    place_t origin;   /* a member */
    pthread_t thread; /* that began it */
    int invalid;
    struct rc_captured *members;
};

/* Of a captured stream, or of an event that was recorded in one. */
typedef struct rc_captured {
    struct rc_captured *next; /* member of the capture, or of the list of events */
    rc_capture_t *capture;
    place_t stream;
    int blocking; /* the stream waits for the default stream, and that one for it */
    rc_nodes_t tips;
    CUgraphNode *handles; /* of the tips, for who asks */
} rc_captured_t;

atomic_int rc_capture_count;
static rc_capture_t *captures;
static rc_captured_t *events; /* all that belong to events */
static uint64_t ids;
static _Thread_local CUstreamCaptureMode thread_mode __attribute__((tls_model("initial-exec"))) =
    CU_STREAM_CAPTURE_MODE_GLOBAL;

/* ---- captures and members ---- */

static place_t place_of(const rc_call_t *call)
{
    uint64_t handle = (uint64_t)(uintptr_t)call->stream;
    int own = call->stream == CU_STREAM_PER_THREAD;
    return (place_t){handle == 0 ? 1 : handle, call->stream_context, own ? call->lane : NULL};
}

static int is_legacy(const rc_call_t *call)
{
    return call->stream == NULL || call->stream == CU_STREAM_LEGACY;
}

static int same(const place_t *a, const place_t *b)
{
    return a->handle == b->handle && a->context == b->context && a->lane == b->lane;
}

/* The member that is the call's stream, or NULL. */
static rc_captured_t *member_of(const rc_call_t *call)
{
    place_t place = place_of(call);
    for (rc_capture_t *capture = captures; capture; capture = capture->next)
        for (rc_captured_t *c = capture->members; c; c = c->next)
            if (same(&c->stream, &place))
                return c;
    return NULL;
}

static void put_capture(rc_capture_t *capture)
{
    if (--capture->refs == 0)
        free(capture);
}

static void free_captured(rc_captured_t *c)
{
    put_capture(c->capture);
    free(c->tips.nodes);
    free(c->handles);
    free(c);
}

static rc_captured_t *new_captured(rc_capture_t *capture, const rc_nodes_t *tips)
{
    rc_captured_t *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->capture = capture;
    capture->refs++;
    for (size_t i = 0; i < tips->count; i++) {
        if (!rc_nodes_add(&c->tips, tips->nodes[i])) {
            free_captured(c);
            return NULL;
        }
    }
    return c;
}

static CUresult join(rc_capture_t *capture, const rc_call_t *call, const rc_nodes_t *tips)
{
    rc_captured_t *c = new_captured(capture, tips);
    const rc_object_t *stream = rc_object_get(RC_STREAM, call->stream);
    if (!c)
        return CUDA_ERROR_OUT_OF_MEMORY;
    c->stream = place_of(call);
    c->blocking = !stream || !(stream->stream.flags & CU_STREAM_NON_BLOCKING);
    c->next = capture->members;
    capture->members = c;
    return CUDA_SUCCESS;
}

/* Members become ordinary streams again; events keep what says that they were captured. */
static void finish(rc_capture_t *capture)
{
    capture->refs++;
    for (rc_capture_t **at = &captures; *at; at = &(*at)->next) {
        if (*at == capture) {
            *at = capture->next;
            break;
        }
    }
    while (capture->members) {
        rc_captured_t *c = capture->members;
        capture->members = c->next;
        free_captured(c);
    }
    for (rc_captured_t *c = events; c; c = c->next)
        if (c->capture == capture)
            c->tips.count = 0;
    capture->graph = NULL;
    capture->over = 1;
    atomic_fetch_sub(&rc_capture_count, 1);
    put_capture(capture);
}

static CUresult invalidate(rc_captured_t *c, CUresult why)
{
    c->capture->invalid = 1;
    return why;
}

/* The default stream would have to wait for members that are blocking streams of its context. */
static CUresult implicit(const rc_call_t *call)
{
    CUresult result = CUDA_SUCCESS;
    for (rc_capture_t *capture = captures; capture; capture = capture->next)
        for (rc_captured_t *c = capture->members; c; c = c->next)
            if (c->stream.context == call->stream_context && c->blocking)
                result = invalidate(c, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    return result;
}

/* With the lock. */
static CUresult look(const rc_call_t *call, rc_captured_t **member)
{
    rc_captured_t *c = *member = member_of(call);
    if (c)
        return c->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED : CUDA_SUCCESS;
    return is_legacy(call) ? implicit(call) : CUDA_SUCCESS;
}

CUresult rc_capture_look(rc_call_t *call, int *captured)
{
    rc_captured_t *c;
    rc_graph_lock();
    CUresult result = look(call, &c);
    *captured = c != NULL;
    return rc_graph_leave(result);
}

CUresult rc_capture_work(rc_call_t *call, rc_work_t *work)
{
    rc_node_t *node;
    rc_graph_lock();
    rc_captured_t *c = member_of(call);
    if (!c || c->capture->invalid) {
        rc_work_drop(work);
        return rc_graph_leave(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
    }
    CUresult result = rc_graph_add(c->capture->graph, work, c->tips.nodes, c->tips.count, 1, &node);
    if (!result) {
        c->tips.count = 0;
        result = rc_nodes_add(&c->tips, node) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    return rc_graph_leave(result ? invalidate(c, result) : CUDA_SUCCESS);
}

CUresult rc_capture_refuse(rc_call_t *call)
{
    rc_graph_lock();
    rc_captured_t *c = member_of(call);
    CUresult result = CUDA_SUCCESS;
    if (c)
        result = invalidate(c, c->capture->invalid ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                                                   : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    else if (is_legacy(call))
        result = implicit(call);
    return rc_graph_leave(result);
}

CUresult rc_capture_unsafe(void)
{
    CUresult result = CUDA_SUCCESS;
    if (!rc_capture_any() || thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_SUCCESS;
    rc_graph_lock();
    for (rc_capture_t *capture = captures; capture; capture = capture->next) {
        int own = pthread_equal(capture->thread, pthread_self()) &&
                  capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        int others = thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                     capture->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (own || others) {
            capture->invalid = 1;
            result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        }
    }
    return rc_graph_leave(result);
}

CUstreamCaptureMode rc_capture_exchange_mode(CUstreamCaptureMode mode)
{
    CUstreamCaptureMode old = thread_mode;
    thread_mode = mode;
    return old;
}

/* ---- events ---- */

static void forget_event(rc_object_t *event)
{
    rc_captured_t *captured = event->event.captured;
    if (!captured)
        return;
    for (rc_captured_t **at = &events; *at; at = &(*at)->next) {
        if (*at == captured) {
            *at = captured->next;
            break;
        }
    }
    event->event.captured = NULL;
    free_captured(captured);
    atomic_fetch_sub(&rc_capture_count, 1);
}

void rc_capture_forget_event(rc_object_t *event)
{
    if (!rc_capture_any())
        return;
    rc_graph_lock();
    forget_event(event);
    rc_graph_unlock();
}

/* A record in a captured stream: the event takes the tips. */
static CUresult record(rc_captured_t *c, rc_object_t *event)
{
    rc_captured_t *own = new_captured(c->capture, &c->tips);
    if (!own)
        return CUDA_ERROR_OUT_OF_MEMORY;
    forget_event(event);
    own->next = events;
    events = own;
    event->event.captured = own;
    atomic_fetch_add(&rc_capture_count, 1);
    return CUDA_SUCCESS;
}

/* The event's tips are added to the stream's, which joins the capture if it is in none. */
static CUresult wait_for_tips(const rc_call_t *call, rc_captured_t *c, rc_captured_t *from)
{
    if (from->capture->over)
        return CUDA_ERROR_CAPTURED_EVENT;
    if (from->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!c)
        return is_legacy(call) ? invalidate(from, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
                               : join(from->capture, call, &from->tips);
    if (c->capture != from->capture) {
        from->capture->invalid = 1;
        return invalidate(c, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    for (size_t i = 0; i < from->tips.count; i++)
        if (!rc_nodes_has(&c->tips, from->tips.nodes[i]) &&
            !rc_nodes_add(&c->tips, from->tips.nodes[i]))
            return invalidate(c, CUDA_ERROR_OUT_OF_MEMORY);
    return CUDA_SUCCESS;
}

/* An external record or wait is a node, which does to the event what a stream would. */
static CUresult event_node(rc_call_t *call, CUgraphNodeType type)
{
    rc_work_t work;
    CUresult result = rc_work_event(type, rc_handle(call->event), &work);
    return result ? result : rc_capture_work(call, &work);
}

static CUresult post_record(rc_call_t *call, unsigned flags, int *done)
{
    rc_captured_t *c;
    rc_graph_lock();
    CUresult result = look(call, &c);
    *done = result || c;
    if (!result && c && (flags & CU_EVENT_RECORD_EXTERNAL)) {
        rc_graph_unlock();
        return event_node(call, CU_GRAPH_NODE_TYPE_EVENT_RECORD);
    }
    if (!result && c)
        result = record(c, call->event);
    else if (!result)
        forget_event(call->event);
    return rc_graph_leave(result);
}

static CUresult post_wait(rc_call_t *call, unsigned flags, int *done)
{
    rc_captured_t *c;
    rc_graph_lock();
    CUresult result = look(call, &c);
    *done = result || c;
    if (!result && c && (flags & CU_EVENT_WAIT_EXTERNAL)) {
        rc_graph_unlock();
        return event_node(call, CU_GRAPH_NODE_TYPE_WAIT_EVENT);
    }
    rc_captured_t *from = call->event->event.captured;
    if (!result && from) {
        *done = 1;
        result = wait_for_tips(call, c, from);
    } else if (!result && c && atomic_load(&call->event->event.recorded)) {
        result = invalidate(c, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
    }
    return rc_graph_leave(result);
}

/* ---- what is queued elsewhere ---- */

/* The stream is destroyed: it leaves its capture, which ends with it if it began there. */
static void forget_stream(rc_captured_t *c)
{
    rc_capture_t *capture = c->capture;
    capture->invalid = 1;
    if (!same(&capture->origin, &c->stream)) {
        for (rc_captured_t **at = &capture->members; *at; at = &(*at)->next) {
            if (*at == c) {
                *at = c->next;
                break;
            }
        }
        free_captured(c);
        return;
    }
    rc_graph_t *graph = capture->graph;
    finish(capture);
    if (graph)
        rc_graph_end(graph);
}

/* Every member whose stream is of this lane, or of this context. */
static void forget_members(const rc_lane_t *lane, const rc_object_t *context)
{
    int again = 1;
    if (!rc_capture_any())
        return;
    rc_graph_lock();
    while (again) {
        again = 0;
        for (rc_capture_t *capture = captures; capture && !again; capture = capture->next)
            for (rc_captured_t *c = capture->members; c && !again; c = c->next)
                if ((lane && c->stream.lane == lane) || (context && c->stream.context == context)) {
                    forget_stream(c);
                    again = 1;
                }
    }
    rc_graph_unlock();
}

void rc_capture_forget_lane(const rc_lane_t *lane)
{
    forget_members(lane, NULL);
}

void rc_capture_forget_context(const rc_object_t *context)
{
    forget_members(NULL, context);
}

void rc_capture_forget_nodes(const rc_graph_t *graph)
{
    for (rc_capture_t *capture = captures; capture; capture = capture->next) {
        if (capture->graph != graph)
            continue;
        capture->invalid = 1;
        for (rc_captured_t *c = capture->members; c; c = c->next)
            c->tips.count = 0;
        for (rc_captured_t *c = events; c; c = c->next)
            if (c->capture == capture)
                c->tips.count = 0;
    }
}

void rc_capture_forget_graph(const rc_graph_t *graph)
{
    rc_capture_forget_nodes(graph);
    for (rc_capture_t *capture = captures; capture; capture = capture->next)
        if (capture->graph == graph)
            capture->graph = NULL;
}

/* ---- beginning and ending ---- */

CUresult rc_capture_begin(rc_call_t *call, CUstreamCaptureMode mode, rc_graph_t *graph,
                          rc_node_t *const *tips, size_t count)
{
    rc_nodes_t first = {(rc_node_t **)(uintptr_t)tips, count, count};
    if (is_legacy(call))
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    if (member_of(call))
        return CUDA_ERROR_ILLEGAL_STATE;
    rc_capture_t *capture = calloc(1, sizeof(*capture));
    rc_graph_t *made = graph ? graph : rc_graph_new(1);
    if (!capture || !made)
        goto err;
    capture->refs = 1;
    capture->graph = made;
    capture->id = ++ids;
    capture->mode = mode;
    capture->origin = place_of(call);
    capture->thread = pthread_self();
    if (join(capture, call, &first))
        goto err;
    capture->refs--; /* the member's reference is the one that counts */
    capture->next = captures;
    captures = capture;
    atomic_fetch_add(&rc_capture_count, 1);
    return CUDA_SUCCESS;
err:
    if (made && !graph)
        rc_graph_end(made);
    free(capture);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Every node must come before the origin's end: what a member did and nobody waited for is lost. */
static int is_joined(const rc_capture_t *capture, const rc_captured_t *origin)
{
    for (const rc_captured_t *c = capture->members; c; c = c->next) {
        for (size_t i = 0; i < c->tips.count; i++) {
            const rc_node_t *node = c->tips.nodes[i];
            if (node->before.count == 0 && !rc_nodes_has(&origin->tips, node))
                return 0;
        }
    }
    return 1;
}

CUresult rc_capture_end(rc_call_t *call, rc_graph_t **graph)
{
    rc_captured_t *c = member_of(call);
    if (!c)
        return CUDA_ERROR_ILLEGAL_STATE;
    rc_capture_t *capture = c->capture;
    if (!same(&capture->origin, &c->stream))
        return invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        !pthread_equal(capture->thread, pthread_self()))
        return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    CUresult result = capture->invalid        ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
                      : is_joined(capture, c) ? CUDA_SUCCESS
                                              : CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    rc_graph_t *made = capture->graph;
    finish(capture);
    if (result && made)
        rc_graph_end(made);
    *graph = result ? NULL : made;
    return result;
}

/* ---- asking ---- */

CUresult rc_capture_info(rc_call_t *call, rc_capture_info_t *info)
{
    rc_captured_t *c = member_of(call);
    memset(info, 0, sizeof(*info));
    if (!c)
        return is_legacy(call) ? implicit(call) : CUDA_SUCCESS;
    info->status = c->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                       : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    info->id = c->capture->id;
    info->graph = c->capture->graph;
    CUgraphNode *handles = realloc(c->handles, (c->tips.count + 1) * sizeof(*handles));
    if (!handles)
        return CUDA_ERROR_OUT_OF_MEMORY;
    c->handles = handles;
    for (size_t i = 0; i < c->tips.count; i++)
        handles[i] = rc_handle(c->tips.nodes[i]->object);
    info->tips = handles;
    info->tip_count = c->tips.count;
    return CUDA_SUCCESS;
}

CUresult rc_capture_set_tips(rc_call_t *call, rc_node_t *const *tips, size_t count, int replace)
{
    rc_captured_t *c = member_of(call);
    if (!c)
        return CUDA_ERROR_ILLEGAL_STATE;
    if (c->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    for (size_t i = 0; i < count; i++)
        if (tips[i]->graph != c->capture->graph)
            return CUDA_ERROR_INVALID_VALUE;
    c->tips.count = replace ? 0 : c->tips.count;
    for (size_t i = 0; i < count; i++)
        if (!rc_nodes_has(&c->tips, tips[i]) && !rc_nodes_add(&c->tips, tips[i]))
            return invalidate(c, CUDA_ERROR_OUT_OF_MEMORY);
    return CUDA_SUCCESS;
}

/* ---- frames ---- */

CUresult rc_capture_copy(rc_call_t *call, uint64_t dst, uint64_t src, size_t size)
{
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .srcDevice = src,
                          .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .dstDevice = dst,
                          .WidthInBytes = size,
                          .Height = 1,
                          .Depth = 1};
    rc_work_t work;
    CUresult result = rc_work_copy(call, &copy, rc_handle(call->stream_context), &work);
    return result ? result : rc_capture_work(call, &work);
}

/* args: address, value, count, stream */
static CUresult capture_fill(rc_call_t *call, const uint64_t *args, unsigned element)
{
    CUDA_MEMSET_NODE_PARAMS fill = {.dst = args[0],
                                    .value = (unsigned)args[1],
                                    .elementSize = element,
                                    .width = args[2],
                                    .height = 1};
    rc_work_t work;
    if (args[2] == 0)
        return CUDA_SUCCESS;
    CUresult result = rc_work_fill(call, &fill, rc_handle(call->stream_context), &work);
    return result ? result : rc_capture_work(call, &work);
}

/* args: address, pitch, value, width, height, stream */
static CUresult capture_rows(rc_call_t *call, const uint64_t *args, unsigned element)
{
    CUDA_MEMSET_NODE_PARAMS fill = {.dst = args[0],
                                    .pitch = args[1],
                                    .value = (unsigned)args[2],
                                    .elementSize = element,
                                    .width = args[3],
                                    .height = args[4]};
    rc_work_t work;
    if (args[3] == 0 || args[4] == 0)
        return CUDA_SUCCESS;
    CUresult result = rc_work_fill(call, &fill, rc_handle(call->stream_context), &work);
    return result ? result : rc_capture_work(call, &work);
}

/* args: stream, address, value, flags */
static CUresult capture_value(rc_call_t *call, const uint64_t *args, CUstreamBatchMemOpType type)
{
    CUstreamBatchMemOpParams op = {
        .waitValue = {
            .operation = type, .address = args[1], .value64 = args[2], .flags = (unsigned)args[3]}};
    CUDA_BATCH_MEM_OP_NODE_PARAMS values = {rc_handle(call->stream_context), 1, &op, 0};
    rc_work_t work;
    CUresult result = rc_work_values(call, &values, &work);
    return result ? result : rc_capture_work(call, &work);
}

static CUresult capture_frame(rc_call_t *call, uint16_t op, const uint64_t *args)
{
    switch (op) {
    case GB_OP_cuMemsetD8Async:
        return capture_fill(call, args, 1);
    case GB_OP_cuMemsetD16Async:
        return capture_fill(call, args, 2);
    case GB_OP_cuMemsetD32Async:
        return capture_fill(call, args, 4);
    case GB_OP_cuMemsetD2D8Async:
        return capture_rows(call, args, 1);
    case GB_OP_cuMemsetD2D16Async:
        return capture_rows(call, args, 2);
    case GB_OP_cuMemsetD2D32Async:
        return capture_rows(call, args, 4);
    case GB_OP_cuStreamWaitValue64_v2:
        return capture_value(call, args, CU_STREAM_MEM_OP_WAIT_VALUE_64);
    case GB_OP_cuStreamWriteValue64_v2:
        return capture_value(call, args, CU_STREAM_MEM_OP_WRITE_VALUE_64);
    case GB_OP_cuStreamWaitValue32_v2:
        return capture_value(call, args, CU_STREAM_MEM_OP_WAIT_VALUE_32);
    case GB_OP_cuStreamWriteValue32_v2:
        return capture_value(call, args, CU_STREAM_MEM_OP_WRITE_VALUE_32);
    default:
        return rc_capture_refuse(call);
    }
}

CUresult rc_capture_post(rc_call_t *call, uint16_t op, const void *payload, size_t size, int *done)
{
    const uint64_t *args = payload;
    rc_captured_t *c;
    (void)size;
    if (op == GB_OP_cuEventRecord)
        return post_record(call, 0, done);
    if (op == GB_OP_cuEventRecordWithFlags)
        return post_record(call, (unsigned)args[2], done);
    if (op == GB_OP_cuStreamWaitEvent)
        return post_wait(call, (unsigned)args[2], done);
    rc_graph_lock();
    CUresult result = look(call, &c);
    if (op == GB_OP_cuStreamDestroy_v2) {
        if (c)
            forget_stream(c);
        result = CUDA_SUCCESS;
        c = NULL;
    }
    rc_graph_unlock();
    *done = result || c;
    return !result && c ? capture_frame(call, op, args) : result;
}

CUresult rc_capture_ask(rc_call_t *call, uint16_t op)
{
    CUresult result = CUDA_SUCCESS;
    if (op == GB_OP_cuCtxSynchronize)
        return rc_capture_unsafe();
    if (op == GB_OP_cuEventQuery || op == GB_OP_cuEventSynchronize) {
        rc_graph_lock();
        if (call->event->event.captured)
            result = CUDA_ERROR_CAPTURED_EVENT;
        return rc_graph_leave(result);
    }
    return call->on_stream ? rc_capture_refuse(call) : CUDA_SUCCESS;
}
