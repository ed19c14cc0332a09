#include "gpu-proxy/client/rc_exec.h"

#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/client/rc_cell.h"
#include "gpu-proxy/client/rc_graph_memory.h"
#include "gpu-proxy/client/rc_host.h"

enum { NOWHERE = UINT32_MAX };

/* ---- what travels ---- */

/* The session gets nodes one by one, so that no graph is too large for a frame. */
typedef struct {
    rc_call_t *call;
    rc_exec_t *of;
    uint32_t exec;
    uint32_t count;      /* nodes sent so far */
    uint32_t hosted;     /* of them have a cell */
    rc_node_t *where;    /* that could not be sent */
    uint32_t deps[2048]; /* of one node: more are gathered in empty nodes */
    uint32_t dep_count;
} writer_t;

static CUresult put(writer_t *w, const rc_work_t *work, uint64_t token, uint32_t *position)
{
    struct {
        px_wire_node_t node;
        uint32_t deps[2048];
    } head;
    rc_work_body_t body;
    CUresult result = rc_work_encode(work, token, &body);
    if (result)
        return result;
    uint32_t deps = w->dep_count, padded = px_wire_pad(deps * 4);
    if (w->count >= PX_WIRE_GRAPH_NODES)
        return CUDA_ERROR_OUT_OF_MEMORY;
    head.node = (px_wire_node_t){.exec = w->exec,
                                 .position = w->count,
                                 .type = body.type,
                                 .deps = deps,
                                 .body = (uint32_t)(body.head_size + body.tail_size),
                                 .priority = body.priority};
    memcpy(head.deps, w->deps, deps * 4);
    if (deps & 1)
        head.deps[deps] = 0;
    /* The fixed part of the body rides with the head, so that two parts are enough. */
    uint8_t *flat = NULL;
    size_t size = sizeof(head.node) + padded;
    const void *a = &head;
    if (body.head_size) {
        flat = malloc(size + body.head_size);
        if (!flat)
            return CUDA_ERROR_OUT_OF_MEMORY;
        memcpy(flat, &head, size);
        memcpy(flat + size, body.head, body.head_size);
        a = flat;
    }
    result = rc_post_bytes(w->call, PX_OP_GRAPH_NODE, a, size + body.head_size, body.tail,
                           body.tail_size);
    free(flat);
    *position = w->count++;
    w->dep_count = 0;
    return result;
}

/* One more dependency of the next node. */
static CUresult depend(writer_t *w, uint32_t on)
{
    if (w->dep_count + 1 == sizeof(w->deps) / sizeof(w->deps[0])) {
        rc_work_t gather;
        uint32_t position;
        rc_work_empty(&gather);
        CUresult result = put(w, &gather, 0, &position);
        if (result)
            return result;
        w->deps[w->dep_count++] = position;
    }
    w->deps[w->dep_count++] = on;
    return CUDA_SUCCESS;
}

static CUresult put_graph(writer_t *w, const rc_graph_t *graph, uint32_t beginning);

/* A child: its nodes between an empty node that stands for its beginning and one for its end. */
static CUresult put_child(writer_t *w, rc_node_t *node)
{
    const rc_graph_t *child = node->work.child;
    rc_work_t empty;
    rc_work_empty(&empty);
    CUresult result = put(w, &empty, 0, &node->first);
    if (!result)
        result = put_graph(w, child, node->first);
    if (!result)
        result = depend(w, node->first);
    for (size_t i = 0; !result && i < child->nodes.count; i++)
        if (child->nodes.nodes[i]->before.count == 0)
            result = depend(w, child->nodes.nodes[i]->last);
    return result ? result : put(w, &empty, 0, &node->last);
}

static CUresult put_node(writer_t *w, rc_node_t *node, uint32_t beginning)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t k = 0; !result && k < node->after.count; k++)
        result = depend(w, node->after.nodes[k]->last);
    if (!result && node->after.count == 0 && beginning != NOWHERE)
        result = depend(w, beginning);
    if (result)
        return result;
    if (node->work.type == CU_GRAPH_NODE_TYPE_GRAPH)
        return put_child(w, node);
    if (rc_cell_needed(&node->work)) {
        if (!w->of->cells)
            w->of->cells = rc_cells_open(w->call->session, w->of->object);
        result = w->of->cells ? rc_cell_open(w->of->cells, &node->cell) : CUDA_ERROR_OUT_OF_MEMORY;
        if (result)
            return result;
        w->hosted++;
    }
    result = put(w, &node->work, node->cell ? rc_cell_token(node->cell) : 0, &node->first);
    node->last = node->first;
    if (node->cell)
        rc_cell_set_position(node->cell, node->first);
    return result;
}

static CUresult put_graph(writer_t *w, const rc_graph_t *graph, uint32_t beginning)
{
    rc_node_t **order = malloc((graph->nodes.count + 1) * sizeof(*order));
    CUresult result = order ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (order)
        rc_graph_order(graph, order);
    for (size_t i = 0; !result && i < graph->nodes.count; i++) {
        result = put_node(w, order[i], beginning);
        if (result && !w->where)
            w->where = order[i];
    }
    free(order);
    return result;
}

/* Sends all nodes, then instantiates and waits for the answer. */
static CUresult send_graph(rc_call_t *call, rc_exec_t *exec, rc_node_t **where)
{
    writer_t *w = calloc(1, sizeof(*w));
    if (!w)
        return CUDA_ERROR_OUT_OF_MEMORY;
    w->call = call;
    w->of = exec;
    w->exec = exec->object->number;
    /* What launches do to memory is settled here. */
    uint64_t args[3] = {w->exec, 0,
                        exec->flags & ~(uint64_t)CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH};
    CUresult result = put_graph(w, exec->graph, NOWHERE);
    args[1] = w->count;
    if (!result) {
        result = rc_ask(call, GB_OP_cuGraphInstantiateWithFlags, args, 3, NULL, 0);
    } else {
        *where = w->where;
        if (w->count > 0) /* forget what has been sent */
            rc_post(call, GB_OP_cuGraphExecDestroy, args, 1);
    }
    exec->hosted = w->hosted;
    free(w);
    if (!result)
        exec->session = call->session;
    return result;
}

/* ---- memory of graphs ---- */

typedef struct rc_memory_steps {
    size_t count,
        instances; /* the first `instances` have been looked at when it was instantiated */
    rc_memory_step_t steps[];
} steps_t;

/* In the order of the launch; an allocation is for one executable graph at a time. Graphs with memory are no
 * children. */
static CUresult take_memory(rc_exec_t *exec)
{
    size_t n = exec->graph->nodes.count;
    if (!rc_graph_has_memory(exec->graph))
        return CUDA_SUCCESS;
    steps_t *steps = calloc(1, sizeof(*steps) + n * sizeof(steps->steps[0]));
    rc_node_t **order = malloc((n + 1) * sizeof(*order));
    exec->steps = steps;
    if (!steps || !order) {
        free(order);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    rc_graph_order(exec->graph, order);
    for (size_t i = 0; i < n; i++) {
        const rc_work_t *work = &order[i]->work;
        if (work->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || work->type == CU_GRAPH_NODE_TYPE_MEM_FREE)
            steps->steps[steps->count++] =
                (rc_memory_step_t){work->memory, work->type == CU_GRAPH_NODE_TYPE_MEM_FREE};
    }
    free(order);
    for (; steps->instances < steps->count; steps->instances++) {
        const rc_memory_step_t *step = &steps->steps[steps->instances];
        if (!step->frees && step->memory->instances)
            return CUDA_ERROR_NOT_SUPPORTED;
        step->memory->instances += !step->frees;
    }
    return CUDA_SUCCESS;
}

static void drop_memory(rc_exec_t *exec)
{
    for (size_t i = 0; exec->steps && i < exec->steps->instances; i++)
        if (!exec->steps->steps[i].frees)
            exec->steps->steps[i].memory->instances--;
    free(exec->steps);
}

/* ---- beginning and end ---- */

/* All nodes that have a context have the same. */
static CUresult find_context(const rc_graph_t *graph, CUcontext *context, uint64_t *bad)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; !result && i < graph->nodes.count; i++) {
        const rc_work_t *work = &graph->nodes.nodes[i]->work;
        if (work->type == CU_GRAPH_NODE_TYPE_GRAPH)
            result = find_context(work->child, context, bad);
        else if (work->context && *context && work->context != *context)
            result = CUDA_ERROR_NOT_SUPPORTED;
        else if (work->context)
            *context = work->context;
        if (result)
            *bad = graph->nodes.nodes[i]->id; /* of the outermost graph in the end */
    }
    return result;
}

/* The call goes to the session of the graph's context. */
static CUresult aim(rc_call_t *call, CUcontext handle)
{
    rc_object_t *context = rc_object_get(RC_CONTEXT, handle);
    if (!context)
        return CUDA_ERROR_INVALID_CONTEXT;
    call->context = call->owner = context;
    call->session = context->session;
    return CUDA_SUCCESS;
}

static CUresult open_at(rc_call_t *call, rc_exec_t *exec, rc_node_t **where)
{
    rc_object_t *context = NULL;
    CUresult result = CUDA_SUCCESS;
    if (exec->context) {
        result = aim(call, exec->context);
        context = call->context;
    }
    if (result)
        return result;
    exec->object = rc_object_new(RC_EXEC, context ? context->session : NULL, context);
    if (!exec->object)
        return CUDA_ERROR_OUT_OF_MEMORY;
    exec->object->exec = exec;
    return context ? send_graph(call, exec, where) : CUDA_SUCCESS;
}

CUresult rc_exec_open(rc_call_t *call, const rc_graph_t *graph, uint64_t flags, rc_exec_t **exec,
                      rc_node_t **bad)
{
    uint64_t id = 0;
    rc_node_t *where = NULL;
    rc_exec_t *made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    made->flags = flags;
    CUresult result = rc_graph_clone(graph, 0, &made->graph);
    if (!result)
        result = find_context(made->graph, &made->context, &id);
    if (!result)
        result = take_memory(made);
    if (!result)
        result = open_at(call, made, &where);
    if (where)
        id = where->id;
    if (bad)
        *bad = id ? rc_graph_find(graph, id, 1) : NULL;
    if (!result) {
        *exec = made;
        return CUDA_SUCCESS;
    }
    rc_object_t *object = made->object;
    if (object && rc_object_kill(object))
        rc_object_free(object);
    rc_exec_free(call, made, 0);
    return result;
}

CUresult rc_exec_get(CUgraphExec handle, rc_exec_t **exec)
{
    rc_object_t *object = rc_object_get(RC_EXEC, handle);
    *exec = object ? object->exec : NULL;
    return object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult rc_exec_free(rc_call_t *call, rc_exec_t *exec, int tell)
{
    rc_cells_t *cells = exec->cells;
    CUresult result = CUDA_SUCCESS;
    drop_memory(exec);
    if (exec->graph)
        rc_graph_end(exec->graph);
    if (tell && exec->session && !cells) {
        uint64_t number = exec->object->number;
        rc_call_t there = {.lane = call->lane,
                           .session = exec->session,
                           .owner = exec->object->context,
                           .dropped = exec->object};
        result = rc_post(&there, GB_OP_cuGraphExecDestroy, &number, 1);
    } else if (tell && !exec->session) {
        rc_object_free(exec->object);
    }
    if (cells)
        rc_cells_close(cells, call ? call->lane : NULL, tell && exec->session);
    free(exec);
    return result;
}

void rc_exec_dropped(rc_object_t *object)
{
    rc_graph_lock();
    rc_exec_free(NULL, object->exec, 0);
    rc_graph_unlock();
}

CUresult rc_exec_settle(rc_call_t *call, rc_exec_t *exec)
{
    rc_node_t *where = NULL;
    if (exec->session)
        return exec->session == call->session ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
    return send_graph(call, exec, &where);
}

/* ---- launching ---- */

static CUresult push_cells(const rc_graph_t *graph)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; !result && i < graph->nodes.count; i++) {
        const rc_node_t *node = graph->nodes.nodes[i];
        if (node->cell)
            result = rc_cell_push(node->cell, &node->work, !node->disabled);
        else if (node->work.type == CU_GRAPH_NODE_TYPE_GRAPH)
            result = push_cells(node->work.child);
    }
    return result;
}

CUresult rc_exec_launch(rc_call_t *call, rc_exec_t *exec, uint64_t stream)
{
    uint64_t args[2] = {exec->object->number, stream};
    CUresult result = CUDA_SUCCESS;
    if (exec->steps)
        result = rc_graph_memory_launch(
            exec->steps->steps, exec->steps->count,
            (exec->flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH) != 0);
    if (!result && exec->hosted)
        result = push_cells(exec->graph);
    if (!result && exec->hosted)
        result = rc_host_expect(call->session, exec->hosted);
    return result ? result : rc_post(call, GB_OP_cuGraphLaunch, args, 2);
}

/* ---- changing ---- */

/* Tells the session what a node does from now on. */
static CUresult send_work(rc_call_t *call, const rc_exec_t *exec, const rc_node_t *node,
                          const rc_work_t *work)
{
    rc_work_body_t body;
    uint8_t head[sizeof(px_wire_node_t) + sizeof(body.values)];
    CUresult result = rc_work_encode(work, node->cell ? rc_cell_token(node->cell) : 0, &body);
    if (result || !exec->session || body.type == CU_GRAPH_NODE_TYPE_HOST)
        return result; /* what the client does it knows at each launch */
    px_wire_node_t wire = {.exec = exec->object->number,
                           .position = node->first,
                           .type = body.type,
                           .body = (uint32_t)(body.head_size + body.tail_size),
                           .priority = body.priority};
    if (exec->context)
        result = aim(call, exec->context);
    else
        call->session = exec->session;
    if (result)
        return result;
    memcpy(head, &wire, sizeof(wire));
    memcpy(head + sizeof(wire), body.head, body.head_size);
    return rc_post_bytes(call, GB_OP_cuGraphExecNodeSetParams, head, sizeof(wire) + body.head_size,
                         body.tail, body.tail_size);
}

/* A copy stays between the same kinds of memory. */
static int same_sides(const rc_work_t *is, const rc_work_t *new)
{
    rc_copy_sides_t a, b;
    if (is->type != CU_GRAPH_NODE_TYPE_MEMCPY || rc_work_sides(is, &a) || rc_work_sides(new, &b))
        return 1; /* memory that is gone tells nothing; the new one is looked at when it is sent */
    return a.dst_host == b.dst_host && a.src_host == b.src_host;
}

/* Takes the work over if it succeeds. */
static CUresult set_node(rc_call_t *call, rc_exec_t *exec, rc_node_t *node, rc_work_t *work)
{
    CUresult result = CUDA_SUCCESS;
    if (!node || node->work.type != work->type || work->type == CU_GRAPH_NODE_TYPE_GRAPH ||
        (work->context && exec->context && work->context != exec->context))
        return CUDA_ERROR_INVALID_VALUE;
    if (!same_sides(&node->work, work))
        return CUDA_ERROR_INVALID_VALUE;
    if (!rc_work_same(&node->work, work))
        result = send_work(call, exec, node, work);
    if (result)
        return result;
    rc_work_drop(&node->work);
    node->work = *work;
    return CUDA_SUCCESS;
}

CUresult rc_exec_set(rc_call_t *call, rc_exec_t *exec, uint64_t id, rc_work_t *work)
{
    rc_node_t *node = rc_graph_find(exec->graph, id, 1);
    if (node)
        rc_work_keep_attributes(work, &node->work);
    CUresult result = set_node(call, exec, node, work);
    if (result)
        rc_work_drop(work);
    return result;
}

static CUgraphExecUpdateResult compare_nodes(const rc_node_t *is, const rc_node_t *new)
{
    if (is->work.type != new->work.type)
        return CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    if (is->after.count != new->after.count)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t k = 0; k < is->after.count; k++)
        if (is->after.nodes[k]->index != new->after.nodes[k]->index)
            return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if ((is->work.type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ||
         is->work.type == CU_GRAPH_NODE_TYPE_MEM_FREE) &&
        is->work.memory != new->work.memory)
        return CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    if (is->work.context != new->work.context)
        return CU_GRAPH_EXEC_UPDATE_ERROR_UNSUPPORTED_FUNCTION_CHANGE;
    return CU_GRAPH_EXEC_UPDATE_SUCCESS;
}

/* The first difference in shape; child graphs are compared with their nodes. */
static CUgraphExecUpdateResult compare(const rc_graph_t *is, const rc_graph_t *new,
                                       const rc_node_t **where)
{
    if (is->nodes.count != new->nodes.count)
        return CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (size_t i = 0; i < is->nodes.count; i++) {
        const rc_node_t *a = is->nodes.nodes[i], *b = new->nodes.nodes[i];
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
static CUresult take_over(rc_call_t *call, rc_exec_t *exec, const rc_graph_t *is,
                          const rc_graph_t *new)
{
    CUresult result = CUDA_SUCCESS;
    for (size_t i = 0; !result && i < is->nodes.count; i++) {
        rc_node_t *a = is->nodes.nodes[i], *b = new->nodes.nodes[i];
        rc_work_t work;
        if (a->work.type == CU_GRAPH_NODE_TYPE_GRAPH) {
            result = take_over(call, exec, a->work.child, b->work.child);
            continue;
        }
        result = rc_work_clone(&b->work, &work);
        if (!result) {
            result = set_node(call, exec, a, &work);
            if (result)
                rc_work_drop(&work);
        }
    }
    return result;
}

CUresult rc_exec_set_child(rc_call_t *call, rc_exec_t *exec, uint64_t id, const rc_graph_t *graph)
{
    const rc_node_t *where, *node = rc_graph_find(exec->graph, id, 1);
    if (!node || node->work.type != CU_GRAPH_NODE_TYPE_GRAPH ||
        compare(node->work.child, graph, &where) != CU_GRAPH_EXEC_UPDATE_SUCCESS)
        return CUDA_ERROR_INVALID_VALUE;
    return take_over(call, exec, node->work.child, graph);
}

CUresult rc_exec_update(rc_call_t *call, rc_exec_t *exec, const rc_graph_t *graph,
                        CUgraphExecUpdateResultInfo *info)
{
    const rc_node_t *where = NULL;
    CUgraphExecUpdateResult found = compare(exec->graph, graph, &where);
    CUresult result =
        found ? CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE : take_over(call, exec, exec->graph, graph);
    if (result && !found)
        found = CU_GRAPH_EXEC_UPDATE_ERROR;
    *info = (CUgraphExecUpdateResultInfo){
        .result = found, .errorNode = where && where->object ? rc_handle(where->object) : NULL};
    return result;
}

/* ---- nodes that are left out ---- */

CUresult rc_exec_enable(rc_call_t *call, rc_exec_t *exec, uint64_t id, int enabled)
{
    rc_node_t *node = rc_graph_find(exec->graph, id, 1);
    if (!node || (node->work.type != CU_GRAPH_NODE_TYPE_KERNEL &&
                  node->work.type != CU_GRAPH_NODE_TYPE_MEMCPY &&
                  node->work.type != CU_GRAPH_NODE_TYPE_MEMSET))
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t args[3] = {exec->object->number, node->first, (uint64_t)enabled};
    CUresult result = aim(call, exec->context); /* such nodes have one */
    if (!result)
        result = rc_post(call, GB_OP_cuGraphNodeSetEnabled, args, 3);
    if (!result)
        node->disabled = !enabled;
    return result;
}

CUresult rc_exec_enabled(const rc_exec_t *exec, uint64_t id, int *enabled)
{
    const rc_node_t *node = rc_graph_find(exec->graph, id, 1);
    if (!node)
        return CUDA_ERROR_INVALID_VALUE;
    *enabled = !node->disabled;
    return CUDA_SUCCESS;
}
