/* cpu_graph.h - graphs: nodes and the order between them.
 *
 * Graphs, nodes, executable graphs and user objects have handles like everything else. All of this
 * file's functions want cpu_graph_lock held, unless they say otherwise: graphs are built rarely, and
 * launching does not need it. */
#ifndef CPU_GRAPH_H
#define CPU_GRAPH_H

#include "gpu-proxy/cpu/driver/cpu_work.h"

typedef struct cpu_graph_node cpu_graph_node_t;

/* Nodes that a node comes after, in the order in which the edges were made. */
typedef struct {
    cpu_graph_node_t **nodes;
    size_t count, capacity;
} cpu_nodes_t;

struct cpu_graph_node {
    cpu_object_t object;
    cpu_graph_t *graph; /* NULL: the graph or the node is destroyed */
    uint64_t id;        /* a clone's nodes have the ids of the original's */
    uint32_t index;     /* in the graph */
    uint32_t mark;      /* scratch of walks */
    cpu_work_t work;
    cpu_nodes_t after;  /* dependencies */
    cpu_nodes_t before; /* dependents */
    bool disabled;      /* in an executable graph */
};

typedef struct cpu_user {
    cpu_object_t object;
    CUhostFn destroy;
    void *data;
    uint64_t count; /* references that the program and graphs hold; the object's own count is 1 */
} cpu_user_t;

typedef struct {
    cpu_user_t *user; /* referenced */
    unsigned count;
} cpu_held_t;

struct cpu_graph {
    cpu_object_t object;
    uint64_t origin;   /* of which graph it is a clone: that one's `number`; else 0 */
    uint64_t number;   /* unique */
    cpu_nodes_t nodes; /* each with the graph's reference */
    cpu_held_t *held;
    size_t held_count;
    bool owned; /* a child: destroyed with its node, and not by itself */
};

void cpu_graph_lock(void);
void cpu_graph_unlock(void);

/* A new, empty graph; the caller has the only reference. */
cpu_graph_t *cpu_graph_new(void);

/* Ends the graph: its nodes' handles go. Drops no reference. */
void cpu_graph_end(cpu_graph_t *graph);

/* The objects behind handles, with a reference. CUDA_ERROR_INVALID_VALUE if there is none. */
CUresult cpu_graph_get(CUgraph handle, cpu_graph_t **graph);
CUresult cpu_graph_node_get(CUgraphNode handle, cpu_graph_node_t **node);

/* Adds a node behind others of the same graph, with a handle if `visible`; takes over the work, also
 * when it fails. CUDA_ERROR_INVALID_VALUE: a dependency is of another graph or named twice; memory
 * is freed twice. */
CUresult cpu_graph_add(cpu_graph_t *graph, cpu_work_t *work, cpu_graph_node_t *const *after,
                       size_t count, bool visible, cpu_graph_node_t **node);

/* Whether it has nodes that allocate or free memory: then it keeps its nodes and edges, and cannot be
 * cloned or be a child. */
bool cpu_graph_has_memory(const cpu_graph_t *graph);

/* Takes a node out, with its edges. */
void cpu_graph_remove(cpu_graph_node_t *node);

/* CUDA_ERROR_INVALID_VALUE: not of one graph, the same node, there already, or a cycle. */
CUresult cpu_graph_connect(cpu_graph_node_t *from, cpu_graph_node_t *to);
CUresult cpu_graph_disconnect(cpu_graph_node_t *from, cpu_graph_node_t *to);

/* A deep copy, whose nodes keep index and id; handles if `visible`. */
CUresult cpu_graph_clone(const cpu_graph_t *graph, bool visible, cpu_graph_t **copy);

/* The node of that id, or NULL. */
cpu_graph_node_t *cpu_graph_find(const cpu_graph_t *graph, uint64_t id);

/* Every node after all that it depends on; `order` has room for all. */
void cpu_graph_order(const cpu_graph_t *graph, cpu_graph_node_t **order);

/* Room for one more. */
bool cpu_nodes_add(cpu_nodes_t *nodes, cpu_graph_node_t *node);
bool cpu_nodes_has(const cpu_nodes_t *nodes, const cpu_graph_node_t *node);

/* ---- user objects ---- */

CUresult cpu_user_get(CUuserObject handle, cpu_user_t **user);

/* Drops `count` references; the last one calls the destructor, for which the lock is left. */
CUresult cpu_user_release(cpu_user_t *user, unsigned count);

CUresult cpu_graph_hold(cpu_graph_t *graph, cpu_user_t *user, unsigned count, bool move);
CUresult cpu_graph_let_go(cpu_graph_t *graph, cpu_user_t *user, unsigned count);

#endif
