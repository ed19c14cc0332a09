/* cpu_capture.h - stream capture: operations become nodes of a graph in place of being queued.
 *
 * A capture begins in one stream and spreads to those that wait for its events. Each member has tips:
 * the nodes that its next one comes after. An event recorded in a member takes the tips with it. All
 * state is under cpu_graph_lock; where nothing is captured anywhere, an operation pays one load. */
#ifndef CPU_CAPTURE_H
#define CPU_CAPTURE_H

#include "gpu-proxy/cpu/driver/cpu_graph.h"

typedef struct cpu_capture cpu_capture_t;

extern atomic_int cpu_capture_count; /* captures under way in the process */

/* Is the stream captured, so that the operation is to be given to cpu_capture_work? Errors:
 * CUDA_ERROR_STREAM_CAPTURE_INVALIDATED; CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, the default stream is
 * used while a stream is captured that it would have to wait for. Takes the lock itself. */
CUresult cpu_capture_look(cpu_stream_t *stream, bool *captured);

static inline CUresult cpu_capture_enter(cpu_stream_t *stream, bool *captured)
{
    *captured = false;
    if (atomic_load_explicit(&cpu_capture_count, memory_order_relaxed) == 0)
        return CUDA_SUCCESS;
    return cpu_capture_look(stream, captured);
}

/* Adds a node to the stream's capture; takes over the work, also when it fails. Takes the lock. */
CUresult cpu_capture_work(cpu_stream_t *stream, cpu_work_t *work);

/* A call that a captured stream cannot take (waiting for it, asking whether it is done): the capture
 * becomes invalid. CUDA_SUCCESS if the stream is not captured. Takes the lock. */
CUresult cpu_capture_refuse(cpu_stream_t *stream);

/* A call that is unsafe while the calling thread, or in global mode any thread, captures: allocating,
 * waiting for the context. Takes the lock. */
CUresult cpu_capture_unsafe(void);

/* A record of an event in a captured stream, and a wait for one. *done says that it was one for a
 * capture. Take the lock. */
CUresult cpu_capture_record(cpu_stream_t *stream, cpu_event_t *event, unsigned flags, bool *done);
CUresult cpu_capture_wait(cpu_stream_t *stream, cpu_event_t *event, unsigned flags, bool *done);

/* Was the event last recorded in a captured stream? */
bool cpu_capture_owns(const cpu_event_t *event);

/* The stream is destroyed. Takes the lock. */
void cpu_capture_forget_stream(cpu_stream_t *stream);

/* A node of the graph is destroyed, or all of it: a capture into it becomes invalid. With cpu_graph_lock
 * held. */
void cpu_capture_forget_nodes(const cpu_graph_t *graph);

/* ---- for the entry points; with cpu_graph_lock held ---- */

/* `graph` NULL: a new one. */
CUresult cpu_capture_begin(cpu_stream_t *stream, CUstreamCaptureMode mode, cpu_graph_t *graph,
                           cpu_graph_node_t *const *tips, size_t count);
/* The graph, with a reference; NULL with an error. The capture is over in any case but for
 * CUDA_ERROR_ILLEGAL_STATE, _STREAM_CAPTURE_UNMATCHED and _STREAM_CAPTURE_WRONG_THREAD. */
CUresult cpu_capture_end(cpu_stream_t *stream, cpu_graph_t **graph);

typedef struct {
    CUstreamCaptureStatus status;
    uint64_t id;
    cpu_graph_t *graph;
    const CUgraphNode *tips; /* until the stream's next operation */
    size_t tip_count;
} cpu_capture_info_t;
CUresult cpu_capture_info(cpu_stream_t *stream, cpu_capture_info_t *info);
CUresult cpu_capture_set_tips(cpu_stream_t *stream, cpu_graph_node_t *const *tips, size_t count,
                              bool replace);

/* The calling thread's mode for unsafe calls; returns the old one. */
CUstreamCaptureMode cpu_capture_exchange_mode(CUstreamCaptureMode mode);

#endif
