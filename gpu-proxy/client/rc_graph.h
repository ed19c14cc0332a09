/* rc_graph.h - graphs at the client: nodes and the order between them.
 *
 * A session knows executable graphs only (proto/px_wire_graph.h), so that building, changing, cloning
 * and asking costs no frame. All of this file's functions want rc_graph_lock held, unless they say
 * otherwise; it is taken before a session's locks and before the handle lock. */
#ifndef RC_GRAPH_H
#define RC_GRAPH_H

#include "gpu-proxy/client/rc_work.h"

typedef struct rc_node rc_node_t;

/* Nodes that a node comes after, in the order in which the edges were made. */
typedef struct {
    rc_node_t **nodes;
    size_t count, room;
} rc_nodes_t;

struct rc_node {
    rc_object_t *object; /* its handle; NULL in executable graphs */
    rc_graph_t *graph;
    uint64_t id;    /* a clone's nodes have the ids of the original's */
    uint32_t index; /* in the graph */
    uint32_t mark;  /* scratch of walks */
    rc_work_t work;
    rc_nodes_t after;  /* dependencies */
    rc_nodes_t before; /* dependents */
    /* In an executable graph: */
    uint32_t first,
        last; /* positions at the session; a child graph has two, its beginning and end */
    struct rc_cell *cell; /* what is the client's to do (rc_cell.h) */
    int disabled;
};

/* What the program gives graphs to keep. */
typedef struct rc_user {
    rc_object_t *object; /* NULL once nobody holds it */
    CUhostFn destroy;
    void *data;
    uint64_t count; /* references of the program and of graphs */
    unsigned uses;  /* of this structure */
} rc_user_t;

typedef struct {
    rc_user_t *user;
    unsigned count;
} rc_held_t;

struct rc_graph {
    rc_object_t *object; /* its handle, or NULL */
    uint64_t number;     /* unique */
    uint64_t origin;     /* of which graph it is a clone: that one's number; else 0 */
    rc_nodes_t nodes;
    rc_held_t *held;
    size_t held_count;
    int owned; /* a child: destroyed with its node, and not by itself */
};

void rc_graph_lock(void);
void rc_graph_unlock(void);

/* What every entry point begins and ends with: rc_begin and the lock; *call may be NULL. */
CUresult rc_graph_enter(rc_call_t *call);
CUresult rc_graph_leave(CUresult result);

/* A new, empty graph; with a handle if `visible`. NULL: out of memory. */
rc_graph_t *rc_graph_new(int visible);

/* Ends the graph and its nodes, with their handles. */
void rc_graph_end(rc_graph_t *graph);

/* What a handle stands for. CUDA_ERROR_INVALID_VALUE if it is none. */
CUresult rc_graph_get(CUgraph handle, rc_graph_t **graph);
CUresult rc_node_get(CUgraphNode handle, rc_node_t **node);
CUresult rc_nodes_get(const CUgraphNode *handles, size_t count, rc_node_t ***nodes); /* free() */

/* Adds a node behind others of the same graph, with a handle if `visible`; takes over the work, also
 * when it fails. CUDA_ERROR_INVALID_VALUE: a dependency is of another graph or named twice. */
CUresult rc_graph_add(rc_graph_t *graph, rc_work_t *work, rc_node_t *const *after, size_t count,
                      int visible, rc_node_t **node);

/* Takes a node out, with its edges. */
void rc_graph_remove(rc_node_t *node);

/* CUDA_ERROR_INVALID_VALUE: not of one graph, the same node, there already, or a cycle. */
CUresult rc_graph_connect(rc_node_t *from, rc_node_t *to);
CUresult rc_graph_disconnect(rc_node_t *from, rc_node_t *to);

/* A deep copy, whose nodes keep index and id; handles if `visible`. */
CUresult rc_graph_clone(const rc_graph_t *graph, int visible, rc_graph_t **copy);

/* A graph that allocates or frees memory stays as it is. */
int rc_graph_has_memory(const rc_graph_t *graph);

/* The node of that id, in child graphs too if `deep`; or NULL. */
rc_node_t *rc_graph_find(const rc_graph_t *graph, uint64_t id, int deep);

/* Every node after all that it depends on; `order` has room for all. */
void rc_graph_order(const rc_graph_t *graph, rc_node_t **order);

int rc_nodes_add(rc_nodes_t *nodes, rc_node_t *node);
int rc_nodes_has(const rc_nodes_t *nodes, const rc_node_t *node);

/* ---- user objects ---- */

CUresult rc_user_get(CUuserObject handle, rc_user_t **user);
/* Drops `count` references; the last one calls the destructor, for which the lock is left. */
CUresult rc_user_release(rc_user_t *user, unsigned count);
CUresult rc_graph_hold(rc_graph_t *graph, rc_user_t *user, unsigned count, int move);
CUresult rc_graph_let_go(rc_graph_t *graph, rc_user_t *user, unsigned count);
void rc_user_put(rc_user_t *user);

#endif
