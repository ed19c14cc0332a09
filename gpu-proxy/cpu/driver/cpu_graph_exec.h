/* cpu_graph_exec.h - executable graphs.
 *
 * Instantiation copies the graph, puts child graphs in the place of their nodes, orders the nodes and
 * spreads them over lanes: a lane is a sequence of nodes that follow each other anyway. The first lane
 * is the stream that the graph is launched in, the others are streams of its own; where a node depends
 * on one of another lane, it waits for it there. Launches of one executable graph follow each other.
 * Thread-safe. */
#ifndef CPU_GRAPH_EXEC_H
#define CPU_GRAPH_EXEC_H

#include "gpu-proxy/cpu/driver/cpu_graph.h"

typedef struct {
    cpu_graph_node_t *node; /* of `plan` */
    uint32_t lane;
    uint32_t wait_first, wait_count; /* in `waits`: steps of other lanes that it waits for */
    bool watched;                    /* a step of another lane waits for it */
    uint64_t seq;                    /* of the launch under way: when it is complete in its lane */
} cpu_step_t;

typedef struct cpu_exec {
    cpu_object_t object;
    pthread_mutex_t lock; /* of all that follows; taken after the graph lock */
    uint64_t flags;
    cpu_graph_t *graph; /* as instantiated: what parameters are set in, and what updates compare */
    cpu_graph_t *plan;  /* without child graphs; nodes keep the ids of `graph` where they are its */
    cpu_context_t *context; /* referenced; NULL: no node needs one */
    cpu_step_t *steps;
    size_t count;
    uint32_t *waits;
    cpu_stream_t **lanes; /* lane 0 is NULL: the stream of the launch */
    uint32_t lane_count;
    cpu_point_t last; /* the end of the last launch; stream NULL: none */
    /* What a launch does to memory of graphs, in order; the memory is referenced by nodes of `plan`. */
    cpu_graph_memory_step_t *memory;
    size_t memory_count;
    size_t instances; /* of its allocations, that it is the one executable graph of */
} cpu_exec_t;

/* With cpu_graph_lock held. *bad (may be NULL) is the node that is to blame, or NULL.
 * CUDA_ERROR_NOT_SUPPORTED: nodes of several contexts, or allocations that another executable graph
 * makes too. */
CUresult cpu_exec_open(const cpu_graph_t *graph, uint64_t flags, cpu_exec_t **exec,
                       const cpu_graph_node_t **bad);

CUresult cpu_exec_get(CUgraphExec handle, cpu_exec_t **exec);

/* Queues the whole graph in the stream. */
CUresult cpu_exec_launch(cpu_exec_t *exec, cpu_stream_t *stream);

/* Replaces what the node with this id does; takes over the work, also when it fails. With
 * cpu_graph_lock held. CUDA_ERROR_INVALID_VALUE: no such node, or of another type. */
CUresult cpu_exec_set(cpu_exec_t *exec, uint64_t id, cpu_work_t *work);

/* Takes over the parameters of a graph of a child's shape. With cpu_graph_lock held.
 * CUDA_ERROR_INVALID_VALUE: no such child, or another shape. */
CUresult cpu_exec_set_child(cpu_exec_t *exec, uint64_t id, const cpu_graph_t *graph);

/* Takes over the parameters of a graph of the same shape. With cpu_graph_lock held.
 * CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE: it has another shape; *info says how. */
CUresult cpu_exec_update(cpu_exec_t *exec, const cpu_graph_t *graph,
                         CUgraphExecUpdateResultInfo *info);

/* With cpu_graph_lock held. */
CUresult cpu_exec_enable(cpu_exec_t *exec, uint64_t id, bool enabled);
CUresult cpu_exec_enabled(cpu_exec_t *exec, uint64_t id, bool *enabled);

#endif
