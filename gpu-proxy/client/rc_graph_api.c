/* Graphs as a whole, their edges, executable graphs, user objects. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_capture.h"
#include "gpu-proxy/client/rc_exec.h"

/* ---- graphs ---- */

CUresult cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
    CUresult result = rc_graph_enter(NULL);
    if (result)
        return result;
    if (!phGraph || flags)
        return rc_graph_leave(CUDA_ERROR_INVALID_VALUE);
    rc_graph_t *graph = rc_graph_new(1);
    if (graph)
        *phGraph = rc_handle(graph->object);
    return rc_graph_leave(graph ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuGraphDestroy(CUgraph hGraph)
{
    rc_graph_t *graph;
    CUresult result = rc_graph_enter(NULL);
    if (result)
        return result;
    result = rc_graph_get(hGraph, &graph);
    if (!result && graph->owned)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        rc_graph_end(graph);
    return rc_graph_leave(result);
}

CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
    rc_graph_t *graph, *copy;
    CUresult result = rc_graph_enter(NULL);
    if (result)
        return result;
    result = rc_graph_get(originalGraph, &graph);
    if (!result)
        result = !phGraphClone                ? CUDA_ERROR_INVALID_VALUE
                 : rc_graph_has_memory(graph) ? CUDA_ERROR_NOT_SUPPORTED
                                              : rc_graph_clone(graph, 1, &copy);
    if (!result)
        *phGraphClone = rc_handle(copy->object);
    return rc_graph_leave(result);
}

/* Writes as many handles as there is room for, the rest as NULL; without room, tells the number. */
static CUresult list(const rc_nodes_t *nodes, int roots, CUgraphNode *out, size_t *count)
{
    size_t found = 0, room = out && count ? *count : 0;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < nodes->count; i++) {
        if (roots && nodes->nodes[i]->after.count)
            continue;
        if (found < room)
            out[found] = rc_handle(nodes->nodes[i]->object);
        found++;
    }
    for (size_t i = found; i < room; i++)
        out[i] = NULL;
    if (!out || found < room)
        *count = found;
    return CUDA_SUCCESS;
}

static CUresult list_graph(CUgraph handle, int roots, CUgraphNode *out, size_t *count)
{
    rc_graph_t *graph;
    CUresult result = rc_graph_enter(NULL);
    if (result)
        return result;
    result = rc_graph_get(handle, &graph);
    if (!result)
        result = list(&graph->nodes, roots, out, count);
    return rc_graph_leave(result);
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
    return list_graph(hGraph, 0, nodes, numNodes);
}

CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
    return list_graph(hGraph, 1, rootNodes, numRootNodes);
}

/* All edges are of the one kind that has no data. */
static void clear_edges(CUgraphEdgeData *edges, size_t count)
{
    if (edges)
        memset(edges, 0, count * sizeof(*edges));
}

static CUresult list_of_node(CUgraphNode handle, int before, CUgraphNode *out,
                             CUgraphEdgeData *edges, size_t *count)
{
    rc_node_t *node;
    CUresult result = rc_graph_enter(NULL);
    if (result)
        return result;
    result = rc_node_get(handle, &node);
    if (!result) {
        if (out && count)
            clear_edges(edges, *count);
        result = list(before ? &node->before : &node->after, 0, out, count);
    }
    return rc_graph_leave(result);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
                                       CUgraphEdgeData *edgeData, size_t *numDependencies)
{
    return list_of_node(hNode, 0, dependencies, edgeData, numDependencies);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes,
                                         CUgraphEdgeData *edgeData, size_t *numDependentNodes)
{
    return list_of_node(hNode, 1, dependentNodes, edgeData, numDependentNodes);
}

static CUresult list_edges(const rc_graph_t *graph, CUgraphNode *from, CUgraphNode *to,
                           CUgraphEdgeData *edges, size_t *count)
{
    size_t found = 0, room;
    if (!count || !from != !to)
        return CUDA_ERROR_INVALID_VALUE;
    room = from ? *count : 0;
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const rc_node_t *node = graph->nodes.nodes[i];
        for (size_t k = 0; k < node->before.count; k++, found++) {
            if (found < room) {
                from[found] = rc_handle(node->object);
                to[found] = rc_handle(node->before.nodes[k]->object);
            }
        }
    }
    for (size_t i = found; i < room; i++)
        from[i] = to[i] = NULL;
    clear_edges(edges, room);
    if (!from || found < room)
        *count = found;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode *from, CUgraphNode *to,
                            CUgraphEdgeData *edgeData, size_t *numEdges)
{
    rc_graph_t *graph;
    CUresult result = rc_graph_enter(NULL);
    if (result)
        return result;
    result = rc_graph_get(hGraph, &graph);
    if (!result)
        result = list_edges(graph, from, to, edgeData, numEdges);
    return rc_graph_leave(result);
}

/* ---- edges ---- */

static int plain_edges(const CUgraphEdgeData *edges, size_t count)
{
    static const CUgraphEdgeData plain;
    for (size_t i = 0; edges && i < count; i++)
        if (memcmp(&edges[i], &plain, sizeof(plain)) != 0)
            return 0;
    return 1;
}

static CUresult change_edge(const rc_graph_t *graph, CUgraphNode from, CUgraphNode to,
                            CUresult (*change)(rc_node_t *, rc_node_t *))
{
    rc_node_t *a, *b;
    CUresult result = rc_node_get(from, &a);
    if (!result)
        result = rc_node_get(to, &b);
    if (result)
        return result;
    return a->graph == graph ? change(a, b) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult change_edges(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
                             const CUgraphEdgeData *edges, size_t count,
                             CUresult (*change)(rc_node_t *, rc_node_t *))
{
    rc_graph_t *graph;
    CUresult result = rc_graph_enter(NULL);
    if (result)
        return result;
    result = rc_graph_get(handle, &graph);
    if (!result && count && (!from || !to))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && !plain_edges(edges, count))
        result = CUDA_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; !result && i < count; i++)
        result = change_edge(graph, from[i], to[i], change);
    return rc_graph_leave(result);
}

CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *edgeData, size_t numDependencies)
{
    return change_edges(hGraph, from, to, edgeData, numDependencies, rc_graph_connect);
}

static CUresult disconnect(rc_node_t *from, rc_node_t *to)
{
    return rc_graph_has_memory(from->graph) ? CUDA_ERROR_NOT_SUPPORTED
                                            : rc_graph_disconnect(from, to);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
                                      const CUgraphNode *to, const CUgraphEdgeData *edgeData,
                                      size_t numDependencies)
{
    return change_edges(hGraph, from, to, edgeData, numDependencies, disconnect);
}

CUresult cuGraphDestroyNode(CUgraphNode hNode)
{
    rc_node_t *node;
    CUresult result = rc_graph_enter(NULL);
    if (result)
        return result;
    result = rc_node_get(hNode, &node);
    if (!result && rc_graph_has_memory(node->graph))
        result = CUDA_ERROR_NOT_SUPPORTED;
    if (!result)
        rc_graph_remove(node);
    return rc_graph_leave(result);
}

CUresult cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode,
                                CUgraph hClonedGraph)
{
    rc_node_t *node, *found = NULL;
    rc_graph_t *graph;
    CUresult result = rc_graph_enter(NULL);
    if (result)
        return result;
    result = rc_node_get(hOriginalNode, &node);
    if (!result)
        result = rc_graph_get(hClonedGraph, &graph);
    if (!result) {
        if (phNode && graph->origin == node->graph->number)
            found = rc_graph_find(graph, node->id, 0);
        if (found)
            *phNode = rc_handle(found->object);
        result = found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    return rc_graph_leave(result);
}

/* ---- a picture ---- */

static const char *const type_names[] = {
    [CU_GRAPH_NODE_TYPE_KERNEL] = "KERNEL",
    [CU_GRAPH_NODE_TYPE_MEMCPY] = "MEMCPY",
    [CU_GRAPH_NODE_TYPE_MEMSET] = "MEMSET",
    [CU_GRAPH_NODE_TYPE_HOST] = "HOST",
    [CU_GRAPH_NODE_TYPE_GRAPH] = "GRAPH",
    [CU_GRAPH_NODE_TYPE_EMPTY] = "EMPTY",
    [CU_GRAPH_NODE_TYPE_WAIT_EVENT] = "WAIT_EVENT",
    [CU_GRAPH_NODE_TYPE_EVENT_RECORD] = "EVENT_RECORD",
    [CU_GRAPH_NODE_TYPE_BATCH_MEM_OP] = "BATCH_MEM_OP",
    [CU_GRAPH_NODE_TYPE_MEM_ALLOC] = "MEM_ALLOC",
    [CU_GRAPH_NODE_TYPE_MEM_FREE] = "MEM_FREE",
};

static const char *kernel_name(const rc_work_t *work)
{
    rc_object_t *function = rc_object_get(RC_FUNCTION, work->kernel.func);
    const char *name = "";
    if (function)
        name = function->function.function->name;
    else if (work->kernel.kern)
        cuKernelGetName(&name, work->kernel.kern);
    return name;
}

static void draw(const rc_graph_t *graph, FILE *file)
{
    fprintf(file, "digraph graph_%llu {\n", (unsigned long long)graph->number);
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const rc_node_t *node = graph->nodes.nodes[i];
        const char *name =
            node->work.type == CU_GRAPH_NODE_TYPE_KERNEL ? kernel_name(&node->work) : "";
        fprintf(file, "  node_%u [shape=box label=\"%u %s %s\"];\n", node->index, node->index,
                type_names[node->work.type], name);
        for (size_t k = 0; k < node->before.count; k++)
            fprintf(file, "  node_%u -> node_%u;\n", node->index, node->before.nodes[k]->index);
    }
    fprintf(file, "}\n");
}

CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
    rc_graph_t *graph;
    (void)flags; /* say what more to show */
    CUresult result = rc_graph_enter(NULL);
    if (result)
        return result;
    result = rc_graph_get(hGraph, &graph);
    if (result)
        return rc_graph_leave(result);
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file)
        draw(graph, file);
    if (!file || fclose(file) != 0)
        result = path ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_ERROR_INVALID_VALUE;
    return rc_graph_leave(result);
}

/* ---- executable graphs ---- */

enum {
    KNOWN_FLAGS = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                  CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                  CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY
};

static CUresult instantiate(CUgraphExec *out, CUgraph handle, uint64_t flags, CUgraphNode *bad)
{
    rc_call_t call;
    rc_graph_t *graph;
    rc_exec_t *exec;
    rc_node_t *blamed = NULL;
    CUresult result = rc_graph_enter(&call);
    if (result)
        return result;
    result = rc_graph_get(handle, &graph);
    if (result)
        return rc_graph_leave(result);
    if (!out || (flags & ~(uint64_t)KNOWN_FLAGS))
        result = CUDA_ERROR_INVALID_VALUE;
    else if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
        result = CUDA_ERROR_NOT_SUPPORTED;
    else
        result = rc_exec_open(&call, graph, flags, &exec, &blamed);
    if (!result)
        *out = rc_handle(exec->object);
    else if (blamed && blamed->object && bad)
        *bad = rc_handle(blamed->object);
    return rc_graph_leave(result);
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *phGraphExec, CUgraph hGraph,
                                     unsigned long long flags)
{
    return instantiate(phGraphExec, hGraph, flags, NULL);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *phGraphExec, CUgraph hGraph, CUgraphNode *phErrorNode,
                               char *logBuffer, size_t bufferSize)
{
    if (logBuffer && bufferSize)
        *logBuffer = 0;
    return instantiate(phGraphExec, hGraph, 0, phErrorNode);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *phGraphExec, CUgraph hGraph,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams)
{
    CUresult result = rc_check();
    if (!result && !instantiateParams)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    instantiateParams->hErrNode_out = NULL;
    result = instantiate(phGraphExec, hGraph, instantiateParams->flags,
                         &instantiateParams->hErrNode_out);
    instantiateParams->result_out = !result ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                                    : instantiateParams->hErrNode_out
                                        ? CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED
                                        : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    rc_call_t call;
    rc_exec_t *exec;
    CUresult result = rc_graph_enter(&call);
    if (result)
        return result;
    result = rc_exec_get(hGraphExec, &exec);
    if (result || !rc_object_kill(exec->object))
        return rc_graph_leave(CUDA_ERROR_INVALID_VALUE);
    return rc_graph_leave(rc_exec_free(&call, exec, 1));
}

CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, uint64_t *flags)
{
    rc_exec_t *exec;
    CUresult result = rc_graph_enter(NULL);
    if (result)
        return result;
    result = rc_exec_get(hGraphExec, &exec);
    if (!result && !flags)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *flags = exec->flags;
    return rc_graph_leave(result);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                              CUgraphExecUpdateResultInfo *resultInfo)
{
    rc_call_t call;
    rc_exec_t *exec;
    rc_graph_t *graph;
    CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    CUresult result = rc_graph_enter(&call);
    if (result)
        return result;
    result = rc_exec_get(hGraphExec, &exec);
    if (result)
        return rc_graph_leave(result);
    result = rc_graph_get(hGraph, &graph);
    if (!result)
        result = rc_exec_update(&call, exec, graph, &info);
    if (resultInfo)
        *resultInfo = info;
    return rc_graph_leave(result);
}

/* A captured launch is a child graph. */
static CUresult capture_launch(rc_call_t *call, CUgraphExec handle)
{
    rc_exec_t *exec;
    rc_work_t work;
    rc_graph_lock();
    rc_work_empty(&work);
    CUresult result = rc_exec_get(handle, &exec);
    if (!result)
        result = rc_graph_clone(exec->graph, 1, &work.child);
    if (!result)
        work.child->owned = 1;
    rc_graph_unlock();
    if (result)
        return result;
    work.type = CU_GRAPH_NODE_TYPE_GRAPH;
    return rc_capture_work(call, &work);
}

static CUresult launch(CUgraphExec handle, CUstream stream, uint16_t op)
{
    rc_call_t call;
    rc_exec_t *exec;
    uint64_t args[2];
    int captured = 0;
    CUresult result = rc_begin_in_context(&call);
    if (!result)
        result = rc_use_stream(&call, stream, &args[1]);
    if (!result)
        result = rc_capture_enter(&call, &captured);
    if (result)
        return result;
    if (captured)
        return op == GB_OP_cuGraphUpload ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
                                         : capture_launch(&call, handle);
    call.on_stream = 0; /* looked at; what follows is queued under the lock */
    rc_graph_lock();
    result = rc_exec_get(handle, &exec);
    if (!result && exec->context && exec->context != rc_handle(call.owner))
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result)
        result = rc_exec_settle(&call, exec);
    if (!result) {
        args[0] = exec->object->number;
        result = op == GB_OP_cuGraphLaunch ? rc_exec_launch(&call, exec, args[1])
                                           : rc_post(&call, op, args, 2);
    }
    return rc_graph_leave(result);
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
    return launch(hGraphExec, hStream, GB_OP_cuGraphLaunch);
}

CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
    return launch(hGraphExec, hStream, GB_OP_cuGraphUpload);
}

/* ---- user objects ---- */

CUresult cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
                            unsigned int initialRefcount, unsigned int flags)
{
    CUresult result = rc_check();
    if (!result &&
        (!object_out || !destroy || !initialRefcount || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    rc_user_t *user = calloc(1, sizeof(*user));
    rc_object_t *object = user ? rc_object_new(RC_USER, NULL, NULL) : NULL;
    if (!object) {
        free(user);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *user = (rc_user_t){object, destroy, ptr, initialRefcount, 1};
    object->user = user;
    *object_out = rc_handle(object);
    return CUDA_SUCCESS;
}

/* Calls `act` on the object, and on the graph if there is one. */
static CUresult with_user(CUgraph graph_handle, CUuserObject handle, unsigned count, unsigned flags,
                          CUresult (*act)(rc_graph_t *, rc_user_t *, unsigned, int))
{
    rc_user_t *user;
    rc_graph_t *graph = NULL;
    CUresult result = rc_graph_enter(NULL);
    if (result)
        return result;
    result = rc_user_get(handle, &user);
    if (!result && (!count || flags > CU_GRAPH_USER_OBJECT_MOVE))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && graph_handle)
        result = rc_graph_get(graph_handle, &graph);
    if (!result) {
        user->uses++; /* the last release ends it */
        result = act(graph, user, count, flags == CU_GRAPH_USER_OBJECT_MOVE);
        rc_user_put(user);
    }
    return rc_graph_leave(result);
}

static CUresult retain(rc_graph_t *graph, rc_user_t *user, unsigned count, int move)
{
    (void)graph, (void)move;
    user->count += count;
    return CUDA_SUCCESS;
}

static CUresult release(rc_graph_t *graph, rc_user_t *user, unsigned count, int move)
{
    (void)graph, (void)move;
    return rc_user_release(user, count);
}

static CUresult hold(rc_graph_t *graph, rc_user_t *user, unsigned count, int move)
{
    return graph ? rc_graph_hold(graph, user, count, move) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult let_go(rc_graph_t *graph, rc_user_t *user, unsigned count, int move)
{
    (void)move;
    return graph ? rc_graph_let_go(graph, user, count) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
    return with_user(NULL, object, count, 0, retain);
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    return with_user(NULL, object, count, 0, release);
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                 unsigned int flags)
{
    return with_user(graph, object, count, flags, hold);
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
    return with_user(graph, object, count, 0, let_go);
}
