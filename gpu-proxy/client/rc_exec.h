/* rc_exec.h - executable graphs: the client's copy, which parameters are set in and updates compared
 * with, and the session's, which runs. With rc_graph_lock held, unless said otherwise. */
#ifndef RC_EXEC_H
#define RC_EXEC_H

#include "gpu-proxy/client/rc_graph.h"

typedef struct rc_exec {
    rc_object_t *object;
    uint64_t flags;
    rc_graph_t *graph;             /* its nodes have positions */
    CUcontext context;             /* of its nodes; NULL: none needs one */
    rc_session_t *session;         /* that has it; NULL: none yet, for a graph without a context */
    uint32_t hosted;               /* nodes whose work is the client's */
    struct rc_memory_steps *steps; /* what a launch does to memory of graphs; NULL: nothing */
    struct rc_cells *cells;        /* of those; NULL: none */
} rc_exec_t;

/* Copies the graph and sends it to the session of its context, whose answer is awaited. *bad (may be
 * NULL) is the node of `graph` that is to blame, or NULL. */
CUresult rc_exec_open(rc_call_t *call, const rc_graph_t *graph, uint64_t flags, rc_exec_t **exec,
                      rc_node_t **bad);
CUresult rc_exec_get(CUgraphExec handle, rc_exec_t **exec);
/* Ends it here and, if `tell`, at the session, which frees the slot of its handle; that is dead already. */
CUresult rc_exec_free(rc_call_t *call, rc_exec_t *exec, int tell);

/* Sends a graph without a context to the session of the call, if that has it not yet. */
CUresult rc_exec_settle(rc_call_t *call, rc_exec_t *exec);

/* Queues a launch in the stream of that number. */
CUresult rc_exec_launch(rc_call_t *call, rc_exec_t *exec, uint64_t stream);

/* Replaces what the node with this id does; takes over the work, also when it fails.
 * CUDA_ERROR_INVALID_VALUE: no such node, another type, another context. */
CUresult rc_exec_set(rc_call_t *call, rc_exec_t *exec, uint64_t id, rc_work_t *work);
/* The same for all nodes of a child, from a graph of the same shape. */
CUresult rc_exec_set_child(rc_call_t *call, rc_exec_t *exec, uint64_t id, const rc_graph_t *graph);
/* The same for all nodes. CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE: another shape; *info says how. */
CUresult rc_exec_update(rc_call_t *call, rc_exec_t *exec, const rc_graph_t *graph,
                        CUgraphExecUpdateResultInfo *info);

CUresult rc_exec_enable(rc_call_t *call, rc_exec_t *exec, uint64_t id, int enabled);
CUresult rc_exec_enabled(const rc_exec_t *exec, uint64_t id, int *enabled);

#endif
