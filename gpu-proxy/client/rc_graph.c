#include "gpu-proxy/client/rc_graph.h"

#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/client/rc_capture.h"
#include "gpu-proxy/client/rc_cell.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t numbers; /* under the lock */

void rc_graph_lock(void)
{
    pthread_mutex_lock(&lock);
}

void rc_graph_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

CUresult rc_graph_enter(rc_call_t *call)
{
    rc_call_t own;
    CUresult result = rc_begin(call ? call : &own);
    if (!result)
        rc_graph_lock();
    return result;
}

CUresult rc_graph_leave(CUresult result)
{
    rc_graph_unlock();
    return result;
}

/* ---- lists of nodes ---- */

int rc_nodes_add(rc_nodes_t *nodes, rc_node_t *node)
{
    if (nodes->count == nodes->room) {
        size_t room = nodes->room ? 2 * nodes->room : 4;
        rc_node_t **wider = realloc(nodes->nodes, room * sizeof(*wider));
        if (!wider)
            return 0;
        nodes->nodes = wider;
        nodes->room = room;
    }
    nodes->nodes[nodes->count++] = node;
    return 1;
}

int rc_nodes_has(const rc_nodes_t *nodes, const rc_node_t *node)
{
    for (size_t i = 0; i < nodes->count; i++)
        if (nodes->nodes[i] == node)
            return 1;
    return 0;
}

static void take_out(rc_nodes_t *nodes, const rc_node_t *node)
{
    size_t kept = 0;
    for (size_t i = 0; i < nodes->count; i++)
        if (nodes->nodes[i] != node)
            nodes->nodes[kept++] = nodes->nodes[i];
    nodes->count = kept;
}

/* ---- nodes ---- */

static void drop_handle(rc_object_t *object)
{
    if (object && rc_object_kill(object))
        rc_object_free(object);
}

static void node_free(rc_node_t *node)
{
    drop_handle(node->object);
    if (node->cell)
        rc_cell_close(node->cell);
    rc_work_drop(&node->work);
    free(node->after.nodes);
    free(node->before.nodes);
    free(node);
}

CUresult rc_node_get(CUgraphNode handle, rc_node_t **node)
{
    rc_object_t *object = rc_object_get(RC_NODE, handle);
    *node = object ? object->node : NULL;
    return object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult rc_nodes_get(const CUgraphNode *handles, size_t count, rc_node_t ***nodes)
{
    if ((count && !handles) || count > UINT32_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    rc_node_t **found = calloc(count + 1, sizeof(*found));
    if (!found)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        CUresult result = rc_node_get(handles[i], &found[i]);
        if (result) {
            free(found);
            return result;
        }
    }
    *nodes = found;
    return CUDA_SUCCESS;
}

void rc_graph_remove(rc_node_t *node)
{
    rc_graph_t *graph = node->graph;
    rc_capture_forget_nodes(graph);
    for (size_t i = 0; i < node->after.count; i++)
        take_out(&node->after.nodes[i]->before, node);
    for (size_t i = 0; i < node->before.count; i++)
        take_out(&node->before.nodes[i]->after, node);
    take_out(&graph->nodes, node);
    for (size_t i = node->index; i < graph->nodes.count; i++)
        graph->nodes.nodes[i]->index = (uint32_t)i;
    node_free(node);
}

static CUresult check_dependencies(const rc_graph_t *graph, rc_node_t *const *after, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (after[i]->graph != graph)
            return CUDA_ERROR_INVALID_VALUE;
        for (size_t k = 0; k < i; k++)
            if (after[k] == after[i])
                return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

static int link_nodes(rc_node_t *from, rc_node_t *to)
{
    if (!rc_nodes_add(&to->after, from))
        return 0;
    if (rc_nodes_add(&from->before, to))
        return 1;
    to->after.count--;
    return 0;
}

int rc_graph_has_memory(const rc_graph_t *graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        CUgraphNodeType type = graph->nodes.nodes[i]->work.type;
        if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            return 1;
    }
    return 0;
}

/* A graph frees a memory once. */
static CUresult check_free(const rc_graph_t *graph, const rc_work_t *work)
{
    for (size_t i = 0; work->type == CU_GRAPH_NODE_TYPE_MEM_FREE && i < graph->nodes.count; i++) {
        const rc_work_t *other = &graph->nodes.nodes[i]->work;
        if (other->type == CU_GRAPH_NODE_TYPE_MEM_FREE && other->memory == work->memory)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult rc_graph_add(rc_graph_t *graph, rc_work_t *work, rc_node_t *const *after, size_t count,
                      int visible, rc_node_t **node)
{
    CUresult result = check_dependencies(graph, after, count);
    if (!result)
        result = check_free(graph, work);
    rc_node_t *made = result ? NULL : calloc(1, sizeof(*made));
    if (!made) {
        rc_work_drop(work);
        return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->work = *work;
    made->id = ++numbers;
    made->index = (uint32_t)graph->nodes.count;
    if (!rc_nodes_add(&graph->nodes, made)) {
        node_free(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->graph = graph;
    if (visible) {
        made->object = rc_object_new(RC_NODE, NULL, NULL);
        if (made->object)
            made->object->node = made;
    }
    int fine = !visible || made->object != NULL;
    for (size_t i = 0; fine && i < count; i++)
        fine = link_nodes(after[i], made);
    if (!fine) {
        rc_graph_remove(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *node = made;
    return CUDA_SUCCESS;
}

/* ---- edges ---- */

static void clear_marks(const rc_graph_t *graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++)
        graph->nodes.nodes[i]->mark = 0;
}

/* Is `to` reached from `from`? `stack` has room for all nodes. */
static int reaches(rc_node_t *from, const rc_node_t *to, rc_node_t **stack)
{
    size_t depth = 0;
    clear_marks(from->graph);
    from->mark = 1;
    stack[depth++] = from;
    while (depth > 0) {
        const rc_node_t *node = stack[--depth];
        if (node == to)
            return 1;
        for (size_t i = 0; i < node->before.count; i++) {
            rc_node_t *next = node->before.nodes[i];
            if (!next->mark) {
                next->mark = 1;
                stack[depth++] = next;
            }
        }
    }
    return 0;
}

CUresult rc_graph_connect(rc_node_t *from, rc_node_t *to)
{
    if (from->graph != to->graph || from == to || rc_nodes_has(&to->after, from))
        return CUDA_ERROR_INVALID_VALUE;
    rc_node_t **stack = malloc(from->graph->nodes.count * sizeof(*stack));
    if (!stack)
        return CUDA_ERROR_OUT_OF_MEMORY;
    int cycle = reaches(to, from, stack);
    free(stack);
    if (cycle)
        return CUDA_ERROR_INVALID_VALUE;
    return link_nodes(from, to) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult rc_graph_disconnect(rc_node_t *from, rc_node_t *to)
{
    if (from->graph != to->graph || !rc_nodes_has(&to->after, from))
        return CUDA_ERROR_INVALID_VALUE;
    take_out(&to->after, from);
    take_out(&from->before, to);
    return CUDA_SUCCESS;
}

/* Among nodes that are free to run, the one that was added first. Nodes are mostly added in order, so
 * that one pass over them mostly does. */
void rc_graph_order(const rc_graph_t *graph, rc_node_t **order)
{
    size_t done = 0;
    clear_marks(graph);
    while (done < graph->nodes.count) {
        for (size_t i = 0; i < graph->nodes.count; i++) {
            rc_node_t *node = graph->nodes.nodes[i];
            int free_to_run = !node->mark;
            for (size_t k = 0; free_to_run && k < node->after.count; k++)
                free_to_run = (int)node->after.nodes[k]->mark;
            if (free_to_run) {
                node->mark = 1;
                order[done++] = node;
            }
        }
    }
}

/* ---- graphs ---- */

rc_graph_t *rc_graph_new(int visible)
{
    rc_graph_t *graph = calloc(1, sizeof(*graph));
    if (!graph)
        return NULL;
    graph->number = ++numbers;
    if (visible) {
        graph->object = rc_object_new(RC_GRAPH, NULL, NULL);
        if (!graph->object) {
            free(graph);
            return NULL;
        }
        graph->object->graph = graph;
    }
    return graph;
}

void rc_graph_end(rc_graph_t *graph)
{
    rc_capture_forget_graph(graph);
    drop_handle(graph->object);
    graph->object = NULL;
    while (graph->nodes.count)
        node_free(graph->nodes.nodes[--graph->nodes.count]);
    free(graph->nodes.nodes);
    while (graph->held_count) {
        rc_held_t held = graph->held[--graph->held_count];
        rc_user_release(held.user, held.count);
        rc_user_put(held.user);
    }
    free(graph->held);
    free(graph);
}

CUresult rc_graph_get(CUgraph handle, rc_graph_t **graph)
{
    rc_object_t *object = rc_object_get(RC_GRAPH, handle);
    *graph = object ? object->graph : NULL;
    return object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult clone_nodes(const rc_graph_t *graph, int visible, rc_graph_t *copy)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const rc_node_t *node = graph->nodes.nodes[i];
        rc_node_t *made;
        rc_work_t work;
        CUresult result = rc_work_clone(&node->work, &work);
        if (!result)
            result = rc_graph_add(copy, &work, NULL, 0, visible, &made);
        if (result)
            return result;
        made->id = node->id;
        made->disabled = node->disabled;
    }
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const rc_nodes_t *after = &graph->nodes.nodes[i]->after;
        for (size_t k = 0; k < after->count; k++)
            if (!link_nodes(copy->nodes.nodes[after->nodes[k]->index], copy->nodes.nodes[i]))
                return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CUresult rc_graph_clone(const rc_graph_t *graph, int visible, rc_graph_t **copy)
{
    rc_graph_t *made = rc_graph_new(visible);
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->origin = graph->number;
    CUresult result = clone_nodes(graph, visible, made);
    for (size_t i = 0; !result && i < graph->held_count; i++)
        result = rc_graph_hold(made, graph->held[i].user, graph->held[i].count, 0);
    if (result)
        rc_graph_end(made);
    else
        *copy = made;
    return result;
}

rc_node_t *rc_graph_find(const rc_graph_t *graph, uint64_t id, int deep)
{
    rc_node_t *found = NULL;
    for (size_t i = 0; !found && i < graph->nodes.count; i++)
        if (graph->nodes.nodes[i]->id == id)
            found = graph->nodes.nodes[i];
    for (size_t i = 0; deep && !found && i < graph->nodes.count; i++)
        if (graph->nodes.nodes[i]->work.type == CU_GRAPH_NODE_TYPE_GRAPH)
            found = rc_graph_find(graph->nodes.nodes[i]->work.child, id, 1);
    return found;
}

/* ---- user objects ---- */

CUresult rc_user_get(CUuserObject handle, rc_user_t **user)
{
    rc_object_t *object = rc_object_get(RC_USER, handle);
    *user = object ? object->user : NULL;
    return object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void rc_user_put(rc_user_t *user)
{
    if (--user->uses == 0)
        free(user);
}

CUresult rc_user_release(rc_user_t *user, unsigned count)
{
    if (count > user->count)
        return CUDA_ERROR_INVALID_VALUE;
    user->count -= count;
    if (user->count || !user->object)
        return CUDA_SUCCESS;
    drop_handle(user->object);
    user->object = NULL;
    rc_graph_unlock(); /* the program's own function: it may call CUDA */
    user->destroy(user->data);
    rc_graph_lock();
    rc_user_put(user); /* the handle's */
    return CUDA_SUCCESS;
}

static rc_held_t *find_held(const rc_graph_t *graph, const rc_user_t *user)
{
    for (size_t i = 0; i < graph->held_count; i++)
        if (graph->held[i].user == user)
            return &graph->held[i];
    return NULL;
}

CUresult rc_graph_hold(rc_graph_t *graph, rc_user_t *user, unsigned count, int move)
{
    rc_held_t *held = find_held(graph, user);
    if (move && count > user->count)
        return CUDA_ERROR_INVALID_VALUE;
    if (!held) {
        held = realloc(graph->held, (graph->held_count + 1) * sizeof(*held));
        if (!held)
            return CUDA_ERROR_OUT_OF_MEMORY;
        graph->held = held;
        held += graph->held_count++;
        *held = (rc_held_t){user, 0};
        user->uses++;
    }
    held->count += count;
    user->count += move ? 0 : count;
    return CUDA_SUCCESS;
}

CUresult rc_graph_let_go(rc_graph_t *graph, rc_user_t *user, unsigned count)
{
    rc_held_t *held = find_held(graph, user);
    if (!held || count > held->count)
        return CUDA_ERROR_INVALID_VALUE;
    held->count -= count;
    if (held->count)
        return rc_user_release(user, count);
    *held = graph->held[--graph->held_count];
    CUresult result = rc_user_release(user, count);
    rc_user_put(user);
    return result;
}
