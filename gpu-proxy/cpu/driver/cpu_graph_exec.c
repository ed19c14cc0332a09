#include "gpu-proxy/cpu/driver/cpu_graph_exec.h"

#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/driver/cpu_stream.h"

enum { NO_LANE = UINT32_MAX };

/* ---- the plan: child graphs take their nodes' places ---- */

/* The nodes of a child that nothing comes before, or after. */
static CUresult join(cpu_graph_node_t *from, cpu_graph_node_t *to)
{
    return cpu_nodes_has(&to->after, from) ? CUDA_SUCCESS : cpu_graph_connect(from, to);
}

/* Copies the child's nodes into the plan, between two empty nodes that stand for its beginning and its
 * end; the end takes over the edges to what follows. */
static CUresult expand(cpu_graph_t *plan, cpu_graph_node_t *node)
{
    const cpu_graph_t *child = node->work.child;
    size_t first = plan->nodes.count;
    cpu_graph_node_t *end;
    cpu_work_t work;
    cpu_work_empty(&work);
    CUresult result = cpu_graph_add(plan, &work, &node, 1, false, &end);
    while (!result && node->before.count > 1) { /* the end itself is one of them */
        cpu_graph_node_t *next =
            node->before.nodes[0] == end ? node->before.nodes[1] : node->before.nodes[0];
        result = cpu_graph_disconnect(node, next);
        if (!result)
            result = join(end, next);
    }
    for (size_t i = 0; !result && i < child->nodes.count; i++) {
        cpu_graph_node_t *copy;
        result = cpu_work_clone(&child->nodes.nodes[i]->work, &work);
        if (!result)
            result = cpu_graph_add(plan, &work, &node, 1, false, &copy);
        if (result)
            break;
        copy->id = child->nodes.nodes[i]->id;
        copy->disabled = child->nodes.nodes[i]->disabled;
    }
    for (size_t i = 0; !result && i < child->nodes.count; i++) {
        const cpu_graph_node_t *of = child->nodes.nodes[i];
        cpu_graph_node_t *copy = plan->nodes.nodes[first + 1 + i];
        for (size_t k = 0; !result && k < of->after.count; k++)
            result = join(plan->nodes.nodes[first + 1 + of->after.nodes[k]->index], copy);
        if (!result)
            result = join(copy, end);
    }
    cpu_work_drop(&node->work);
    return result;
}

static CUresult make_plan(const cpu_graph_t *graph, cpu_graph_t **plan)
{
    CUresult result = cpu_graph_clone(graph, false, plan);
    for (size_t i = 0; !result && i < (*plan)->nodes.count; i++)
        if ((*plan)->nodes.nodes[i]->work.type == CU_GRAPH_NODE_TYPE_GRAPH)
            result = expand(*plan, (*plan)->nodes.nodes[i]);
    return result;
}

/* ---- lanes ---- */

typedef struct {
    uint32_t *lane_of; /* by node index */
    uint32_t *step_of;
    const cpu_graph_node_t **tails; /* of each lane */
} lanes_t;

/* A node goes on in the lane of a dependency that ends there. */
static uint32_t lane_for(const cpu_graph_node_t *node, const lanes_t *l, uint32_t *lane_count)
{
    for (size_t k = 0; k < node->after.count; k++) {
        uint32_t lane = l->lane_of[node->after.nodes[k]->index];
        if (l->tails[lane] == node->after.nodes[k])
            return lane;
    }
    return (*lane_count)++;
}

static void place(cpu_exec_t *exec, cpu_graph_node_t *const *order, lanes_t *l)
{
    uint32_t waits = 0;
    for (size_t i = 0; i < exec->count; i++) {
        cpu_graph_node_t *node = order[i];
        cpu_step_t *step = &exec->steps[i];
        *step = (cpu_step_t){.node = node, .wait_first = waits};
        step->lane = lane_for(node, l, &exec->lane_count);
        l->lane_of[node->index] = step->lane;
        l->step_of[node->index] = (uint32_t)i;
        l->tails[step->lane] = node;
        for (size_t k = 0; k < node->after.count; k++) {
            uint32_t before = node->after.nodes[k]->index;
            if (l->lane_of[before] == step->lane)
                continue;
            exec->steps[l->step_of[before]].watched = true;
            exec->waits[waits++] = l->step_of[before];
        }
        step->wait_count = waits - step->wait_first;
    }
}

static size_t count_edges(const cpu_graph_t *graph)
{
    size_t edges = 0;
    for (size_t i = 0; i < graph->nodes.count; i++)
        edges += graph->nodes.nodes[i]->after.count;
    return edges;
}

static CUresult lay_out(cpu_exec_t *exec)
{
    size_t n = exec->count = exec->plan->nodes.count;
    cpu_graph_node_t **order = malloc((n + 1) * sizeof(*order));
    lanes_t l = {malloc((n + 1) * sizeof(uint32_t)), malloc((n + 1) * sizeof(uint32_t)),
                 calloc(n + 1, sizeof(*l.tails))};
    exec->steps = calloc(n + 1, sizeof(*exec->steps));
    exec->waits = malloc((count_edges(exec->plan) + 1) * sizeof(*exec->waits));
    bool fine = order && l.lane_of && l.step_of && l.tails && exec->steps && exec->waits;
    if (fine) {
        cpu_graph_order(exec->plan, order);
        place(exec, order, &l);
        exec->lanes = calloc(exec->lane_count + 1, sizeof(*exec->lanes));
        fine = exec->lanes != NULL;
    }
    free(order);
    free(l.lane_of);
    free(l.step_of);
    free(l.tails);
    return fine ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* All nodes that have a context have the same. */
static CUresult find_context(cpu_exec_t *exec, const cpu_graph_node_t **bad)
{
    for (size_t i = 0; i < exec->plan->nodes.count; i++) {
        const cpu_graph_node_t *node = exec->plan->nodes.nodes[i];
        if (!node->work.context)
            continue;
        if (exec->context && exec->context != node->work.context) {
            *bad = node;
            return CUDA_ERROR_NOT_SUPPORTED;
        }
        if (!exec->context) {
            exec->context = node->work.context;
            cpu_object_ref(&exec->context->object);
        }
    }
    return CUDA_SUCCESS;
}

/* ---- memory ---- */

static bool is_memory(const cpu_graph_node_t *node)
{
    return node->work.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
           node->work.type == CU_GRAPH_NODE_TYPE_MEM_FREE;
}

/* The steps in the order of the launch; an allocation is for one executable graph at a time. */
static CUresult take_memory(cpu_exec_t *exec)
{
    exec->memory = calloc(exec->count + 1, sizeof(*exec->memory));
    if (!exec->memory)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < exec->count; i++) {
        const cpu_graph_node_t *node = exec->steps[i].node;
        if (is_memory(node))
            exec->memory[exec->memory_count++] = (cpu_graph_memory_step_t){
                node->work.memory, node->work.type == CU_GRAPH_NODE_TYPE_MEM_FREE};
    }
    while (exec->instances < exec->memory_count) {
        const cpu_graph_memory_step_t *step = &exec->memory[exec->instances];
        if (!step->frees && !cpu_graph_memory_instantiate(step->memory))
            return CUDA_ERROR_NOT_SUPPORTED;
        exec->instances++;
    }
    return CUDA_SUCCESS;
}

static void drop_memory(cpu_exec_t *exec)
{
    for (size_t i = 0; i < exec->instances; i++)
        if (!exec->memory[i].frees)
            cpu_graph_memory_end_instance(exec->memory[i].memory);
    free(exec->memory);
}

/* The memory stays until the launch is done, whatever becomes of the graphs. */
static CUresult hold_memory(const cpu_exec_t *exec, cpu_stream_t *stream)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; !result && i < exec->memory_count; i++)
        result = cpu_graph_memory_hold(exec->memory[i].memory, stream);
    return result;
}

static void destroy(cpu_object_t *object)
{
    cpu_exec_t *exec = (cpu_exec_t *)object;
    drop_memory(exec);
    for (uint32_t i = 1; exec->lanes && i < exec->lane_count; i++)
        if (exec->lanes[i])
            cpu_stream_close(exec->lanes[i]);
    if (exec->last.stream)
        cpu_object_put(&exec->last.stream->object);
    cpu_graph_t *graphs[] = {exec->graph, exec->plan};
    for (int i = 0; i < 2; i++) {
        if (graphs[i]) {
            cpu_graph_end(graphs[i]);
            cpu_object_put(&graphs[i]->object);
        }
    }
    if (exec->context)
        cpu_object_put(&exec->context->object);
    pthread_mutex_destroy(&exec->lock);
    free(exec->steps);
    free(exec->waits);
    free(exec->lanes);
    free(exec);
}

CUresult cpu_exec_open(const cpu_graph_t *graph, uint64_t flags, cpu_exec_t **exec,
                       const cpu_graph_node_t **bad)
{
    const cpu_graph_node_t *blamed = NULL;
    cpu_exec_t *made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cpu_object_init(&made->object, CPU_KIND_EXEC, destroy);
    pthread_mutex_init(&made->lock, NULL);
    made->flags = flags;
    CUresult result = cpu_graph_clone(graph, false, &made->graph);
    if (!result)
        result = make_plan(made->graph, &made->plan);
    if (!result)
        result = find_context(made, &blamed);
    if (!result)
        result = lay_out(made);
    if (!result)
        result = take_memory(made);
    if (bad)
        *bad = blamed ? cpu_graph_find(graph, blamed->id) : NULL;
    if (result) {
        cpu_object_put(&made->object);
        return result;
    }
    *exec = made;
    return CUDA_SUCCESS;
}

CUresult cpu_exec_get(CUgraphExec handle, cpu_exec_t **exec)
{
    *exec = (cpu_exec_t *)cpu_handle_get(CPU_KIND_EXEC, (uint64_t)(uintptr_t)handle);
    return *exec ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- launching ---- */

static cpu_stream_t *lane_stream(const cpu_exec_t *exec, uint32_t lane, cpu_stream_t *stream)
{
    return lane == 0 ? stream : exec->lanes[lane];
}

static CUresult open_lanes(cpu_exec_t *exec, cpu_stream_t *stream)
{
    for (uint32_t i = 1; i < exec->lane_count; i++) {
        CUresult result = exec->lanes[i] ? CUDA_SUCCESS
                                         : cpu_stream_open(stream->context, CU_STREAM_NON_BLOCKING,
                                                           stream->priority, &exec->lanes[i]);
        if (result)
            return result;
    }
    return CUDA_SUCCESS;
}

/* Launches that are queued together: of one lane, and nobody waits for one of them yet. */
typedef struct {
    cpu_stream_t *stream;
    cpu_op_t *first, *last;
} pending_t;

static CUresult flush(pending_t *pending)
{
    cpu_op_t *first = pending->first;
    pending->first = NULL;
    return first ? cpu_launch_submit(pending->stream, first, pending->last, NULL) : CUDA_SUCCESS;
}

static CUresult add_launch(pending_t *pending, const cpu_kernel_work_t *kernel, cpu_stream_t *lane)
{
    cpu_op_t *op;
    CUresult result = cpu_work_make_launch(kernel, lane, &op);
    if (!result && pending->first && pending->stream != lane)
        result = flush(pending);
    if (result)
        return result;
    op->next = NULL;
    if (pending->first)
        pending->last->next = op;
    else
        pending->first = op;
    pending->last = op;
    pending->stream = lane;
    return CUDA_SUCCESS;
}

/* What a step of another lane waits for. */
static CUresult wait_for_others(cpu_exec_t *exec, const cpu_step_t *step, cpu_stream_t *stream)
{
    CUresult result = CUDA_SUCCESS;
    for (uint32_t k = 0; !result && k < step->wait_count; k++) {
        const cpu_step_t *other = &exec->steps[exec->waits[step->wait_first + k]];
        cpu_point_t point = {lane_stream(exec, other->lane, stream), other->seq};
        result = cpu_event_join(lane_stream(exec, step->lane, stream), &point, 1);
    }
    return result;
}

/* Before its first step a lane waits for all that the launch's stream has before. */
static CUresult run_step(cpu_exec_t *exec, cpu_step_t *step, cpu_stream_t *stream,
                         uint64_t beginning, bool first, pending_t *pending)
{
    cpu_stream_t *lane = lane_stream(exec, step->lane, stream);
    bool joins = (first && lane != stream) || step->wait_count;
    bool kernel = step->node->work.type == CU_GRAPH_NODE_TYPE_KERNEL && !step->node->disabled;
    CUresult result = joins || !kernel ? flush(pending) : CUDA_SUCCESS;
    if (!result && first && lane != stream)
        result = cpu_event_join(lane, &(cpu_point_t){stream, beginning}, 1);
    if (!result)
        result = wait_for_others(exec, step, stream);
    if (!result && kernel)
        result = add_launch(pending, &step->node->work.kernel, lane);
    else if (!result && !step->node->disabled)
        result = cpu_work_submit(&step->node->work, lane);
    if (!result && step->watched) {
        result = flush(pending);
        step->seq = cpu_stream_last(lane);
    }
    return result;
}

/* The launch's stream goes on when every lane has come to its end. */
static CUresult join_lanes(cpu_exec_t *exec, cpu_stream_t *stream)
{
    CUresult result = CUDA_SUCCESS;
    for (uint32_t i = 1; !result && i < exec->lane_count; i++) {
        cpu_point_t point = {exec->lanes[i], cpu_stream_last(exec->lanes[i])};
        result = cpu_event_join(stream, &point, 1);
    }
    return result;
}

static CUresult launch(cpu_exec_t *exec, cpu_stream_t *stream)
{
    CUresult result = CUDA_SUCCESS;
    uint64_t seen = 1; /* lanes that have begun, the first 64 of them */
    if (exec->context && exec->context != stream->context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (exec->last.stream && exec->last.stream != stream)
        result = cpu_event_join(stream, &exec->last, 1);
    if (!result)
        result = open_lanes(exec, stream);
    if (!result && exec->memory_count)
        result = cpu_graph_memory_launch(
            exec->memory, exec->memory_count,
            (exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0);
    if (result)
        return result;
    uint64_t beginning = cpu_stream_last(stream);
    pending_t pending = {0};
    for (size_t i = 0; !result && i < exec->count; i++) {
        cpu_step_t *step = &exec->steps[i];
        bool first = step->lane >= 64 || !(seen >> step->lane & 1);
        seen |= step->lane < 64 ? 1ull << step->lane : 0;
        result = run_step(exec, step, stream, beginning, first, &pending);
    }
    CUresult flushed = flush(&pending);
    result = result ? result : flushed;
    if (!result)
        result = join_lanes(exec, stream);
    if (!result)
        result = hold_memory(exec, stream);
    cpu_object_ref(&stream->object);
    if (exec->last.stream)
        cpu_object_put(&exec->last.stream->object);
    exec->last = (cpu_point_t){stream, cpu_stream_last(stream)};
    return result;
}

CUresult cpu_exec_launch(cpu_exec_t *exec, cpu_stream_t *stream)
{
    pthread_mutex_lock(&exec->lock);
    CUresult result = launch(exec, stream);
    pthread_mutex_unlock(&exec->lock);
    return result;
}

/* ---- changing ---- */

static void replace(cpu_graph_node_t *node, cpu_work_t *work)
{
    cpu_work_drop(&node->work);
    node->work = *work;
}

/* In both copies: one is compared and captured, the other one runs. */
static CUresult set_locked(cpu_exec_t *exec, uint64_t id, cpu_work_t *work)
{
    cpu_graph_node_t *kept = cpu_graph_find(exec->graph, id), *run = cpu_graph_find(exec->plan, id);
    cpu_work_t copy;
    if (!run || run->work.type != work->type || !cpu_work_same_sides(&run->work, work) ||
        (work->context && exec->context && work->context != exec->context))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = cpu_work_clone(work, &copy);
    if (result)
        return result;
    if (kept)
        replace(kept, &copy);
    else
        cpu_work_drop(&copy);
    replace(run, work);
    return CUDA_SUCCESS;
}

CUresult cpu_exec_set(cpu_exec_t *exec, uint64_t id, cpu_work_t *work)
{
    pthread_mutex_lock(&exec->lock);
    const cpu_graph_node_t *old = cpu_graph_find(exec->plan, id);
    if (old)
        cpu_work_keep_attributes(work, &old->work);
    CUresult result = set_locked(exec, id, work);
    pthread_mutex_unlock(&exec->lock);
    if (result)
        cpu_work_drop(work);
    return result;
}

static CUgraphExecUpdateResult compare_nodes(const cpu_graph_node_t *is,
                                             const cpu_graph_node_t *new)
{
    if (is->work.type != new->work.type)
        return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (is->after.count != new->after.count)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t k = 0; k < is->after.count; k++)
        if (is->after.nodes[k]->index != new->after.nodes[k]->index)
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if (is_memory(is) && is->work.memory != new->work.memory)
        return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    if (is->work.context != new->work.context)
        return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

/* The first difference in shape; child graphs are compared with their nodes. */
static CUgraphExecUpdateResult compare(const cpu_graph_t *is, const cpu_graph_t *new,
                                       const cpu_graph_node_t **where)
{
    if (is->nodes.count != new->nodes.count)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < is->nodes.count; i++) {
        const cpu_graph_node_t *a = is->nodes.nodes[i], *b = new->nodes.nodes[i];
        CUgraphExecUpdateResult found = compare_nodes(a, b);
        if (!found && a->work.type == CU_GRAPH_NODE_TYPE_GRAPH)
            found = compare(a->work.child, b->work.child, where);
        if (found) {
            *where = b;
            return found;
        }
    }
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

/* The graphs have the same shape. */
static CUresult take_over(cpu_exec_t *exec, const cpu_graph_t *is, const cpu_graph_t *new)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; !result && i < is->nodes.count; i++) {
        const cpu_graph_node_t *a = is->nodes.nodes[i], *b = new->nodes.nodes[i];
        cpu_work_t work;
        if (a->work.type == CU_GRAPH_NODE_TYPE_GRAPH) {
            result = take_over(exec, a->work.child, b->work.child);
            continue;
        }
        result = cpu_work_clone(&b->work, &work);
        if (!result) {
            result = set_locked(exec, a->id, &work);
            if (result)
                cpu_work_drop(&work);
        }
    }
    return result;
}

CUresult cpu_exec_set_child(cpu_exec_t *exec, uint64_t id, const cpu_graph_t *graph)
{
    const cpu_graph_node_t *where;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&exec->lock);
    const cpu_graph_node_t *node = cpu_graph_find(exec->graph, id);
    if (node && node->work.type == CU_GRAPH_NODE_TYPE_GRAPH &&
        compare(node->work.child, graph, &where) == CU_GRAPH_EXEC_UPDATE_SUCCESS)
        result = take_over(exec, node->work.child, graph);
    pthread_mutex_unlock(&exec->lock);
    return result;
}

CUresult cpu_exec_update(cpu_exec_t *exec, const cpu_graph_t *graph,
                         CUgraphExecUpdateResultInfo *info)
{
    const cpu_graph_node_t *where = NULL;
    pthread_mutex_lock(&exec->lock);
    CUgraphExecUpdateResult found = compare(exec->graph, graph, &where);
    CUresult result =
        found ? CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE : take_over(exec, exec->graph, graph);
    pthread_mutex_unlock(&exec->lock);
    if (result && !found)
        found = CU_GRAPH_EXEC_UPDATE_ERROR;
    *info = (CUgraphExecUpdateResultInfo){
        .result = found, .errorNode = where ? (CUgraphNode)(uintptr_t)where->object.handle : NULL};
    return result;
}

CUresult cpu_exec_enable(cpu_exec_t *exec, uint64_t id, bool enabled)
{
    pthread_mutex_lock(&exec->lock);
    cpu_graph_node_t *node = cpu_graph_find(exec->plan, id);
    bool can = node && (node->work.type == CU_GRAPH_NODE_TYPE_KERNEL ||
                        node->work.type == CU_GRAPH_NODE_TYPE_MEMCPY ||
                        node->work.type == CU_GRAPH_NODE_TYPE_MEMSET);
    if (can)
        node->disabled = !enabled;
    pthread_mutex_unlock(&exec->lock);
    return can ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cpu_exec_enabled(cpu_exec_t *exec, uint64_t id, bool *enabled)
{
    pthread_mutex_lock(&exec->lock);
    cpu_graph_node_t *node = cpu_graph_find(exec->plan, id);
    if (node)
        *enabled = !node->disabled;
    pthread_mutex_unlock(&exec->lock);
    return node ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
