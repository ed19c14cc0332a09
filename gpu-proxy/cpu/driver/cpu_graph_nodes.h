/* cpu_graph_nodes.h - what the entry points for graphs, their nodes and captures share. */
#ifndef CPU_GRAPH_NODES_H
#define CPU_GRAPH_NODES_H

#include "gpu-proxy/cpu/driver/cpu_graph.h"

/* CUDA_ERROR_NOT_INITIALIZED or _NOT_PERMITTED, or the graph lock is held. */
CUresult cpu_graph_enter(void);

/* Leaves the lock and passes the result on. */
CUresult cpu_graph_leave(CUresult result);

/* Adds a node that the program sees; takes over the work, also when it fails. With the lock held. */
CUresult cpu_graph_add_work(CUgraph graph, cpu_work_t *work, const CUgraphNode *dependencies,
                            size_t count, CUgraphNode *node);

/* The nodes behind handles, with references, in memory of their own. With the lock held. */
CUresult cpu_nodes_get(const CUgraphNode *handles, size_t count, cpu_graph_node_t ***nodes);
void cpu_nodes_put(cpu_graph_node_t **nodes, size_t count);

#endif
