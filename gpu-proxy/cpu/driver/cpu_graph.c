#include "gpu-proxy/cpu/driver/cpu_graph.h"

#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/driver/cpu_capture.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t numbers; /* under the lock */

void cpu_graph_lock(void)
{
    pthread_mutex_lock(&lock);
}

void cpu_graph_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

/* ---- lists of nodes ---- */

bool cpu_nodes_add(cpu_nodes_t *nodes, cpu_graph_node_t *node)
{
    if (nodes->count == nodes->capacity) {
        size_t capacity = nodes->capacity ? 2 * nodes->capacity : 4;
        cpu_graph_node_t **wider = realloc(nodes->nodes, capacity * sizeof(*wider));
        if (!wider)
            return false;
        nodes->nodes = wider;
        nodes->capacity = capacity;
    }
    nodes->nodes[nodes->count++] = node;
    return true;
}

bool cpu_nodes_has(const cpu_nodes_t *nodes, const cpu_graph_node_t *node)
{
    for (size_t i = 0; i < nodes->count; i++)
        if (nodes->nodes[i] == node)
            return true;
    return false;
}

static void take_out(cpu_nodes_t *nodes, const cpu_graph_node_t *node)
{
    size_t kept = 0;
    for (size_t i = 0; i < nodes->count; i++)
        if (nodes->nodes[i] != node)
            nodes->nodes[kept++] = nodes->nodes[i];
    nodes->count = kept;
}

/* ---- nodes ---- */

static void destroy_node(cpu_object_t *object)
{
    cpu_graph_node_t *node = (cpu_graph_node_t *)object;
    cpu_work_drop(&node->work);
    free(node->after.nodes);
    free(node->before.nodes);
    free(node);
}

CUresult cpu_graph_node_get(CUgraphNode handle, cpu_graph_node_t **node)
{
    cpu_graph_node_t *found =
        (cpu_graph_node_t *)cpu_handle_get(CPU_KIND_NODE, (uint64_t)(uintptr_t)handle);
    if (found && !found->graph) {
        cpu_object_put(&found->object);
        found = NULL;
    }
    *node = found;
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static void drop_handle(cpu_kind_t kind, const cpu_object_t *object)
{
    if (object->handle)
        cpu_object_put(cpu_handle_remove(kind, object->handle));
}

/* The node no longer belongs to its graph, which drops its reference. */
static void let_go(cpu_graph_node_t *node)
{
    node->graph = NULL;
    drop_handle(CPU_KIND_NODE, &node->object);
    cpu_object_put(&node->object);
}

void cpu_graph_remove(cpu_graph_node_t *node)
{
    cpu_graph_t *graph = node->graph;
    cpu_capture_forget_nodes(graph);
    for (size_t i = 0; i < node->after.count; i++)
        take_out(&node->after.nodes[i]->before, node);
    for (size_t i = 0; i < node->before.count; i++)
        take_out(&node->before.nodes[i]->after, node);
    take_out(&graph->nodes, node);
    for (size_t i = node->index; i < graph->nodes.count; i++)
        graph->nodes.nodes[i]->index = (uint32_t)i;
    let_go(node);
}

static CUresult check_dependencies(const cpu_graph_t *graph, cpu_graph_node_t *const *after,
                                   size_t count)
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

static bool link_nodes(cpu_graph_node_t *from, cpu_graph_node_t *to)
{
    if (!cpu_nodes_add(&to->after, from))
        return false;
    if (cpu_nodes_add(&from->before, to))
        return true;
    to->after.count--;
    return false;
}

bool cpu_graph_has_memory(const cpu_graph_t *graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        CUgraphNodeType type = graph->nodes.nodes[i]->work.type;
        if (type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            return true;
    }
    return false;
}

static CUresult check_free(const cpu_graph_t *graph, const cpu_work_t *work)
{
    for (size_t i = 0; work->type == CU_GRAPH_NODE_TYPE_MEM_FREE && i < graph->nodes.count; i++) {
        const cpu_work_t *other = &graph->nodes.nodes[i]->work;
        if (other->type == CU_GRAPH_NODE_TYPE_MEM_FREE && other->memory == work->memory)
            return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

CUresult cpu_graph_add(cpu_graph_t *graph, cpu_work_t *work, cpu_graph_node_t *const *after,
                       size_t count, bool visible, cpu_graph_node_t **node)
{
    CUresult result = check_dependencies(graph, after, count);
    if (!result)
        result = check_free(graph, work);
    cpu_graph_node_t *made = result ? NULL : calloc(1, sizeof(*made));
    if (!made) {
        cpu_work_drop(work);
        return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
    }
    cpu_object_init(&made->object, CPU_KIND_NODE, destroy_node);
    made->work = *work;
    made->id = ++numbers;
    made->index = (uint32_t)graph->nodes.count;
    if (!cpu_nodes_add(&graph->nodes, made)) {
        cpu_object_put(&made->object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    made->graph = graph;
    bool fine = !visible || cpu_handle_add(&made->object) != 0;
    for (size_t i = 0; fine && i < count; i++)
        fine = link_nodes(after[i], made);
    if (!fine) {
        cpu_graph_remove(made);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *node = made;
    return CUDA_SUCCESS;
}

/* ---- edges ---- */

/* Is `to` reached from `from`? Marks are used up. */
static bool reaches(cpu_graph_node_t *from, const cpu_graph_node_t *to)
{
    if (from == to)
        return true;
    from->mark = 1;
    for (size_t i = 0; i < from->before.count; i++)
        if (!from->before.nodes[i]->mark && reaches(from->before.nodes[i], to))
            return true;
    return false;
}

static void clear_marks(const cpu_graph_t *graph)
{
    for (size_t i = 0; i < graph->nodes.count; i++)
        graph->nodes.nodes[i]->mark = 0;
}

CUresult cpu_graph_connect(cpu_graph_node_t *from, cpu_graph_node_t *to)
{
    if (from->graph != to->graph || from == to || cpu_nodes_has(&to->after, from))
        return CUDA_ERROR_INVALID_VALUE;
    clear_marks(from->graph);
    if (reaches(to, from))
        return CUDA_ERROR_INVALID_VALUE;
    return link_nodes(from, to) ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cpu_graph_disconnect(cpu_graph_node_t *from, cpu_graph_node_t *to)
{
    if (from->graph != to->graph || !cpu_nodes_has(&to->after, from))
        return CUDA_ERROR_INVALID_VALUE;
    take_out(&to->after, from);
    take_out(&from->before, to);
    return CUDA_SUCCESS;
}

/* Among nodes that are free to run, the one that was added first. Nodes are mostly added in order, so
 * that one pass over them mostly does. */
void cpu_graph_order(const cpu_graph_t *graph, cpu_graph_node_t **order)
{
    size_t done = 0;
    clear_marks(graph);
    while (done < graph->nodes.count) {
        for (size_t i = 0; i < graph->nodes.count; i++) {
            cpu_graph_node_t *node = graph->nodes.nodes[i];
            bool free_to_run = !node->mark;
            for (size_t k = 0; free_to_run && k < node->after.count; k++)
                free_to_run = node->after.nodes[k]->mark;
            if (free_to_run) {
                node->mark = 1;
                order[done++] = node;
            }
        }
    }
}

/* ---- graphs ---- */

static void destroy_graph(cpu_object_t *object)
{
    cpu_graph_t *graph = (cpu_graph_t *)object;
    free(graph->nodes.nodes);
    free(graph->held);
    free(graph);
}

cpu_graph_t *cpu_graph_new(void)
{
    cpu_graph_t *graph = calloc(1, sizeof(*graph));
    if (!graph)
        return NULL;
    cpu_object_init(&graph->object, CPU_KIND_GRAPH, destroy_graph);
    graph->number = ++numbers;
    return graph;
}

void cpu_graph_end(cpu_graph_t *graph)
{
    cpu_capture_forget_nodes(graph);
    drop_handle(CPU_KIND_GRAPH, &graph->object);
    while (graph->nodes.count) {
        cpu_graph_node_t *node = graph->nodes.nodes[--graph->nodes.count];
        node->after.count = node->before.count = 0;
        let_go(node);
    }
    while (graph->held_count) {
        cpu_held_t held = graph->held[--graph->held_count];
        cpu_user_release(held.user, held.count);
        cpu_object_put(&held.user->object);
    }
}

CUresult cpu_graph_get(CUgraph handle, cpu_graph_t **graph)
{
    *graph = (cpu_graph_t *)cpu_handle_get(CPU_KIND_GRAPH, (uint64_t)(uintptr_t)handle);
    return *graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult clone_nodes(const cpu_graph_t *graph, bool visible, cpu_graph_t *copy)
{
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const cpu_graph_node_t *node = graph->nodes.nodes[i];
        cpu_graph_node_t *made;
        cpu_work_t work;
        CUresult result = cpu_work_clone(&node->work, &work);
        if (!result)
            result = cpu_graph_add(copy, &work, NULL, 0, visible, &made);
        if (result)
            return result;
        made->id = node->id;
        made->disabled = node->disabled;
    }
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const cpu_nodes_t *after = &graph->nodes.nodes[i]->after;
        for (size_t k = 0; k < after->count; k++)
            if (!link_nodes(copy->nodes.nodes[after->nodes[k]->index], copy->nodes.nodes[i]))
                return CUDA_ERROR_OUT_OF_MEMORY;
    }
    return CUDA_SUCCESS;
}

CUresult cpu_graph_clone(const cpu_graph_t *graph, bool visible, cpu_graph_t **copy)
{
    cpu_graph_t *made = cpu_graph_new();
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->origin = graph->number;
    CUresult result = clone_nodes(graph, visible, made);
    for (size_t i = 0; !result && i < graph->held_count; i++)
        result = cpu_graph_hold(made, graph->held[i].user, graph->held[i].count, false);
    if (!result && visible && !cpu_handle_add(&made->object))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        cpu_graph_end(made);
        cpu_object_put(&made->object);
        return result;
    }
    *copy = made;
    return CUDA_SUCCESS;
}

cpu_graph_node_t *cpu_graph_find(const cpu_graph_t *graph, uint64_t id)
{
    for (size_t i = 0; i < graph->nodes.count; i++)
        if (graph->nodes.nodes[i]->id == id)
            return graph->nodes.nodes[i];
    return NULL;
}

/* ---- user objects ---- */

CUresult cpu_user_get(CUuserObject handle, cpu_user_t **user)
{
    *user = (cpu_user_t *)cpu_handle_get(CPU_KIND_USER, (uint64_t)(uintptr_t)handle);
    return *user ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cpu_user_release(cpu_user_t *user, unsigned count)
{
    if (count > user->count)
        return CUDA_ERROR_INVALID_VALUE;
    user->count -= count;
    if (user->count == 0) {
        drop_handle(CPU_KIND_USER, &user->object);
        CUhostFn destroy = user->destroy;
        user->destroy = NULL;
        if (destroy) { /* the program's own function: it may call CUDA */
            cpu_graph_unlock();
            destroy(user->data);
            cpu_graph_lock();
        }
    }
    return CUDA_SUCCESS;
}

static cpu_held_t *find_held(const cpu_graph_t *graph, const cpu_user_t *user)
{
    for (size_t i = 0; i < graph->held_count; i++)
        if (graph->held[i].user == user)
            return &graph->held[i];
    return NULL;
}

CUresult cpu_graph_hold(cpu_graph_t *graph, cpu_user_t *user, unsigned count, bool move)
{
    cpu_held_t *held = find_held(graph, user);
    if (move && count > user->count)
        return CUDA_ERROR_INVALID_VALUE;
    if (!held) {
        held = realloc(graph->held, (graph->held_count + 1) * sizeof(*held));
        if (!held)
            return CUDA_ERROR_OUT_OF_MEMORY;
        graph->held = held;
        held += graph->held_count++;
        *held = (cpu_held_t){user, 0};
        cpu_object_ref(&user->object);
    }
    held->count += count;
    user->count += move ? 0 : count;
    return CUDA_SUCCESS;
}

CUresult cpu_graph_let_go(cpu_graph_t *graph, cpu_user_t *user, unsigned count)
{
    cpu_held_t *held = find_held(graph, user);
    if (!held || count > held->count)
        return CUDA_ERROR_INVALID_VALUE;
    held->count -= count;
    if (held->count == 0) {
        *held = graph->held[--graph->held_count];
        CUresult result = cpu_user_release(user, count);
        cpu_object_put(&user->object);
        return result;
    }
    return cpu_user_release(user, count);
}
