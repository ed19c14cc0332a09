/* rc_capture.h - stream capture at the client: operations become nodes of a graph in place of frames, so
 * that capturing costs no round trip and its errors are the call's own.
 *
 * A capture begins in one stream and spreads to those that wait for its events. Each member has tips: the
 * nodes that its next one comes after. An event recorded in a member takes the tips with it. All state is
 * under rc_graph_lock, which the functions take themselves unless they say otherwise; where nothing is
 * captured anywhere, an operation pays one load. */
#ifndef RC_CAPTURE_H
#define RC_CAPTURE_H

#include "gpu-proxy/client/rc_graph.h"

/* Captures under way, and events that were recorded in captured streams. */
extern atomic_int rc_capture_count;

static inline int rc_capture_any(void)
{
    return atomic_load_explicit(&rc_capture_count, memory_order_relaxed) != 0;
}

/* Is the call's stream captured, so that its operation is to be given to rc_capture_work? Errors:
 * CUDA_ERROR_STREAM_CAPTURE_INVALIDATED; CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, the default stream is used
 * while a stream is captured that it would have to wait for. */
CUresult rc_capture_look(rc_call_t *call, int *captured);

static inline CUresult rc_capture_enter(rc_call_t *call, int *captured)
{
    *captured = 0;
    return rc_capture_any() ? rc_capture_look(call, captured) : CUDA_SUCCESS;
}

/* Adds a node to the capture of the call's stream; takes over the work, also when it fails. */
CUresult rc_capture_work(rc_call_t *call, rc_work_t *work);

/* A copy of the call's stream as a node. */
CUresult rc_capture_copy(rc_call_t *call, uint64_t dst, uint64_t src, size_t size);

/* A frame that is about to be queued; *done: it must not be, the result is the call's. */
CUresult rc_capture_post(rc_call_t *call, uint16_t op, const void *payload, size_t size, int *done);

/* A call that is about to wait for an answer: fails if it is none that a captured stream or event takes
 * (waiting for it, asking whether it is done); the stream's capture becomes invalid. */
CUresult rc_capture_ask(rc_call_t *call, uint16_t op);

/* An operation that cannot be captured: the capture of the call's stream becomes invalid. */
CUresult rc_capture_refuse(rc_call_t *call);

/* A call that is unsafe while the calling thread, or in global mode any thread, captures: allocating,
 * freeing, waiting for the context. */
CUresult rc_capture_unsafe(void);

/* The thread's lane, or the context, is gone. */
void rc_capture_forget_lane(const rc_lane_t *lane);
void rc_capture_forget_context(const rc_object_t *context);

/* ---- with rc_graph_lock held ---- */

/* A node of the graph, or all of it, is destroyed: a capture into it becomes invalid. */
void rc_capture_forget_nodes(const rc_graph_t *graph);
void rc_capture_forget_graph(const rc_graph_t *graph);

/* `graph` NULL: a new one. */
CUresult rc_capture_begin(rc_call_t *call, CUstreamCaptureMode mode, rc_graph_t *graph,
                          rc_node_t *const *tips, size_t count);
/* NULL with an error. The capture is over in any case but for CUDA_ERROR_ILLEGAL_STATE,
 * _STREAM_CAPTURE_UNMATCHED and _STREAM_CAPTURE_WRONG_THREAD. */
CUresult rc_capture_end(rc_call_t *call, rc_graph_t **graph);

typedef struct {
    CUstreamCaptureStatus status;
    uint64_t id;
    rc_graph_t *graph;       /* NULL: destroyed */
    const CUgraphNode *tips; /* until the stream's next operation */
    size_t tip_count;
} rc_capture_info_t;
CUresult rc_capture_info(rc_call_t *call, rc_capture_info_t *info);
CUresult rc_capture_set_tips(rc_call_t *call, rc_node_t *const *tips, size_t count, int replace);

/* The calling thread's mode for unsafe calls; returns the old one. */
CUstreamCaptureMode rc_capture_exchange_mode(CUstreamCaptureMode mode);

#endif
