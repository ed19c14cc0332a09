/* Entry points: graphs as a whole, their edges, executable graphs, user objects. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/cpu/driver/cpu_capture.h"
#include "gpu-proxy/cpu/driver/cpu_graph_exec.h"
#include "gpu-proxy/cpu/driver/cpu_graph_nodes.h"
#include "gpu-proxy/cpu/driver/cpu_stream.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"

/* ---- graphs ---- */

CUresult cuGraphCreate(CUgraph *phGraph, unsigned int flags)
{
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    cpu_graph_t *graph = phGraph && !flags ? cpu_graph_new() : NULL;
    if (!graph)
        return cpu_graph_leave(phGraph && !flags ? CUDA_ERROR_OUT_OF_MEMORY
                                                 : CUDA_ERROR_INVALID_VALUE);
    uint64_t handle = cpu_handle_add(&graph->object);
    if (handle)
        *phGraph = (CUgraph)(uintptr_t)handle;
    cpu_object_put(&graph->object);
    return cpu_graph_leave(handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuGraphDestroy(CUgraph hGraph)
{
    cpu_graph_t *graph;
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    result = cpu_graph_get(hGraph, &graph);
    if (result)
        return cpu_graph_leave(result);
    if (graph->owned)
        result = CUDA_ERROR_INVALID_VALUE;
    else
        cpu_graph_end(graph);
    cpu_object_put(&graph->object);
    return cpu_graph_leave(result);
}

CUresult cuGraphClone(CUgraph *phGraphClone, CUgraph originalGraph)
{
    cpu_graph_t *graph, *copy;
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    result = cpu_graph_get(originalGraph, &graph);
    if (result)
        return cpu_graph_leave(result);
    result = !phGraphClone                 ? CUDA_ERROR_INVALID_VALUE
             : cpu_graph_has_memory(graph) ? CUDA_ERROR_NOT_SUPPORTED
                                           : cpu_graph_clone(graph, true, &copy);
    if (!result) {
        *phGraphClone = (CUgraph)(uintptr_t)copy->object.handle;
        cpu_object_put(&copy->object);
    }
    cpu_object_put(&graph->object);
    return cpu_graph_leave(result);
}

/* Writes as many handles as there is room for, the rest as NULL; without room, tells the number. */
static CUresult list(const cpu_nodes_t *nodes, bool roots, CUgraphNode *out, size_t *count)
{
    size_t found = 0, room = out && count ? *count : 0;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < nodes->count; i++) {
        if (roots && nodes->nodes[i]->after.count)
            continue;
        if (found < room)
            out[found] = (CUgraphNode)(uintptr_t)nodes->nodes[i]->object.handle;
        found++;
    }
    for (size_t i = found; i < room; i++)
        out[i] = NULL;
    if (!out || found < room)
        *count = found;
    return CUDA_SUCCESS;
}

static CUresult list_graph(CUgraph handle, bool roots, CUgraphNode *out, size_t *count)
{
    cpu_graph_t *graph;
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    result = cpu_graph_get(handle, &graph);
    if (!result) {
        result = list(&graph->nodes, roots, out, count);
        cpu_object_put(&graph->object);
    }
    return cpu_graph_leave(result);
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode *nodes, size_t *numNodes)
{
    return list_graph(hGraph, false, nodes, numNodes);
}

CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode *rootNodes, size_t *numRootNodes)
{
    return list_graph(hGraph, true, rootNodes, numRootNodes);
}

/* All edges of this device are of the one kind that has no data. */
static void clear_edges(CUgraphEdgeData *edges, size_t count)
{
    if (edges)
        memset(edges, 0, count * sizeof(*edges));
}

static CUresult list_of_node(CUgraphNode handle, bool before, CUgraphNode *out,
                             CUgraphEdgeData *edges, size_t *count)
{
    cpu_graph_node_t *node;
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    result = cpu_graph_node_get(handle, &node);
    if (!result) {
        if (out && count)
            clear_edges(edges, *count);
        result = list(before ? &node->before : &node->after, false, out, count);
        cpu_object_put(&node->object);
    }
    return cpu_graph_leave(result);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode hNode, CUgraphNode *dependencies,
                                       CUgraphEdgeData *edgeData, size_t *numDependencies)
{
    return list_of_node(hNode, false, dependencies, edgeData, numDependencies);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode hNode, CUgraphNode *dependentNodes,
                                         CUgraphEdgeData *edgeData, size_t *numDependentNodes)
{
    return list_of_node(hNode, true, dependentNodes, edgeData, numDependentNodes);
}

static CUresult list_edges(const cpu_graph_t *graph, CUgraphNode *from, CUgraphNode *to,
                           CUgraphEdgeData *edges, size_t *count)
{
    size_t found = 0, room;
    if (!count || !from != !to)
        return CUDA_ERROR_INVALID_VALUE;
    room = from ? *count : 0;
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const cpu_graph_node_t *node = graph->nodes.nodes[i];
        for (size_t k = 0; k < node->before.count; k++, found++) {
            if (found < room) {
                from[found] = (CUgraphNode)(uintptr_t)node->object.handle;
                to[found] = (CUgraphNode)(uintptr_t)node->before.nodes[k]->object.handle;
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
    cpu_graph_t *graph;
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    result = cpu_graph_get(hGraph, &graph);
    if (!result) {
        result = list_edges(graph, from, to, edgeData, numEdges);
        cpu_object_put(&graph->object);
    }
    return cpu_graph_leave(result);
}

/* ---- edges ---- */

static bool plain_edges(const CUgraphEdgeData *edges, size_t count)
{
    static const CUgraphEdgeData plain;
    for (size_t i = 0; edges && i < count; i++)
        if (memcmp(&edges[i], &plain, sizeof(plain)) != 0)
            return false;
    return true;
}

static CUresult change_edge(const cpu_graph_t *graph, CUgraphNode from, CUgraphNode to,
                            CUresult (*change)(cpu_graph_node_t *, cpu_graph_node_t *))
{
    cpu_graph_node_t *a, *b;
    CUresult result = cpu_graph_node_get(from, &a);
    if (result)
        return result;
    result = cpu_graph_node_get(to, &b);
    if (!result) {
        result = a->graph == graph ? change(a, b) : CUDA_ERROR_INVALID_VALUE;
        cpu_object_put(&b->object);
    }
    cpu_object_put(&a->object);
    return result;
}

static CUresult change_edges(CUgraph handle, const CUgraphNode *from, const CUgraphNode *to,
                             const CUgraphEdgeData *edges, size_t count,
                             CUresult (*change)(cpu_graph_node_t *, cpu_graph_node_t *))
{
    cpu_graph_t *graph;
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    result = cpu_graph_get(handle, &graph);
    if (result)
        return cpu_graph_leave(result);
    if (count && (!from || !to))
        result = CUDA_ERROR_INVALID_VALUE;
    else if (!plain_edges(edges, count))
        result = CUDA_ERROR_NOT_SUPPORTED;
    for (size_t i = 0; !result && i < count; i++)
        result = change_edge(graph, from[i], to[i], change);
    cpu_object_put(&graph->object);
    return cpu_graph_leave(result);
}

CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *edgeData, size_t numDependencies)
{
    return change_edges(hGraph, from, to, edgeData, numDependencies, cpu_graph_connect);
}

static CUresult disconnect(cpu_graph_node_t *from, cpu_graph_node_t *to)
{
    return from->graph && cpu_graph_has_memory(from->graph) ? CUDA_ERROR_NOT_SUPPORTED
                                                            : cpu_graph_disconnect(from, to);
}

CUresult cuGraphRemoveDependencies_v2(CUgraph hGraph, const CUgraphNode *from,
                                      const CUgraphNode *to, const CUgraphEdgeData *edgeData,
                                      size_t numDependencies)
{
    return change_edges(hGraph, from, to, edgeData, numDependencies, disconnect);
}

CUresult cuGraphDestroyNode(CUgraphNode hNode)
{
    cpu_graph_node_t *node;
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    result = cpu_graph_node_get(hNode, &node);
    if (!result) {
        if (cpu_graph_has_memory(node->graph))
            result = CUDA_ERROR_NOT_SUPPORTED;
        else
            cpu_graph_remove(node);
        cpu_object_put(&node->object);
    }
    return cpu_graph_leave(result);
}

CUresult cuGraphNodeFindInClone(CUgraphNode *phNode, CUgraphNode hOriginalNode,
                                CUgraph hClonedGraph)
{
    cpu_graph_node_t *node, *found = NULL;
    cpu_graph_t *graph;
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    result = cpu_graph_node_get(hOriginalNode, &node);
    if (result)
        return cpu_graph_leave(result);
    result = cpu_graph_get(hClonedGraph, &graph);
    if (!result) {
        if (phNode && graph->origin == node->graph->number)
            found = cpu_graph_find(graph, node->id);
        if (found)
            *phNode = (CUgraphNode)(uintptr_t)found->object.handle;
        result = found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        cpu_object_put(&graph->object);
    }
    cpu_object_put(&node->object);
    return cpu_graph_leave(result);
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

static void draw(const cpu_graph_t *graph, FILE *file)
{
    fprintf(file, "digraph graph_%llu {\n", (unsigned long long)graph->number);
    for (size_t i = 0; i < graph->nodes.count; i++) {
        const cpu_graph_node_t *node = graph->nodes.nodes[i];
        const char *name = node->work.type == CU_GRAPH_NODE_TYPE_KERNEL
                               ? node->work.kernel.function->ptx->name
                               : "";
        fprintf(file, "  node_%u [shape=box label=\"%u %s %s\"];\n", node->index, node->index,
                type_names[node->work.type], name);
        for (size_t k = 0; k < node->before.count; k++)
            fprintf(file, "  node_%u -> node_%u;\n", node->index, node->before.nodes[k]->index);
    }
    fprintf(file, "}\n");
}

CUresult cuGraphDebugDotPrint(CUgraph hGraph, const char *path, unsigned int flags)
{
    cpu_graph_t *graph;
    (void)flags; /* say what more to show */
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    result = cpu_graph_get(hGraph, &graph);
    if (result)
        return cpu_graph_leave(result);
    FILE *file = path ? fopen(path, "w") : NULL;
    if (file)
        draw(graph, file);
    if (!file || fclose(file) != 0)
        result = path ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_ERROR_INVALID_VALUE;
    cpu_object_put(&graph->object);
    return cpu_graph_leave(result);
}

/* ---- executable graphs ---- */

enum {
    KNOWN_FLAGS = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                  CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD | CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH |
                  CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY
};

static CUresult instantiate(CUgraphExec *out, CUgraph handle, uint64_t flags, CUgraphNode *bad)
{
    cpu_graph_t *graph;
    cpu_exec_t *exec;
    const cpu_graph_node_t *blamed = NULL;
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    result = cpu_graph_get(handle, &graph);
    if (result)
        return cpu_graph_leave(result);
    if (!out || (flags & ~(uint64_t)KNOWN_FLAGS))
        result = CUDA_ERROR_INVALID_VALUE;
    else if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
        result = CUDA_ERROR_NOT_SUPPORTED;
    else
        result = cpu_exec_open(graph, flags, &exec, &blamed);
    if (!result) {
        uint64_t made = cpu_handle_add(&exec->object);
        cpu_object_put(&exec->object);
        *out = (CUgraphExec)(uintptr_t)made;
        result = made ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    } else if (blamed && bad) {
        *bad = (CUgraphNode)(uintptr_t)blamed->object.handle;
    }
    cpu_object_put(&graph->object);
    return cpu_graph_leave(result);
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
    if (!instantiateParams)
        return cpu_thread_refuse(CUDA_ERROR_INVALID_VALUE);
    instantiateParams->hErrNode_out = NULL;
    CUresult result = instantiate(phGraphExec, hGraph, instantiateParams->flags,
                                  &instantiateParams->hErrNode_out);
    instantiateParams->result_out = !result ? CUDA_GRAPH_INSTANTIATE_SUCCESS
                                    : instantiateParams->hErrNode_out
                                        ? CUDA_GRAPH_INSTANTIATE_MULTIPLE_CTXS_NOT_SUPPORTED
                                        : CUDA_GRAPH_INSTANTIATE_ERROR;
    return result;
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec)
{
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    cpu_object_t *object = cpu_handle_remove(CPU_KIND_EXEC, (uint64_t)(uintptr_t)hGraphExec);
    if (object)
        cpu_object_put(object);
    return cpu_graph_leave(object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuGraphExecGetFlags(CUgraphExec hGraphExec, uint64_t *flags)
{
    cpu_exec_t *exec;
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    result = cpu_exec_get(hGraphExec, &exec);
    if (!result) {
        if (flags)
            *flags = exec->flags;
        result = flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        cpu_object_put(&exec->object);
    }
    return cpu_graph_leave(result);
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                              CUgraphExecUpdateResultInfo *resultInfo)
{
    cpu_exec_t *exec;
    cpu_graph_t *graph;
    CUgraphExecUpdateResultInfo info = {.result = CU_GRAPH_EXEC_UPDATE_ERROR};
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    result = cpu_exec_get(hGraphExec, &exec);
    if (result)
        return cpu_graph_leave(result);
    result = cpu_graph_get(hGraph, &graph);
    if (!result) {
        result = cpu_exec_update(exec, graph, &info);
        cpu_object_put(&graph->object);
    }
    if (resultInfo)
        *resultInfo = info;
    cpu_object_put(&exec->object);
    return cpu_graph_leave(result);
}

/* A captured launch is a child graph. */
static CUresult capture_launch(cpu_exec_t *exec, cpu_stream_t *stream)
{
    cpu_work_t work;
    cpu_work_empty(&work);
    cpu_graph_lock();
    CUresult result = cpu_graph_clone(exec->graph, true, &work.child);
    cpu_graph_unlock();
    if (result)
        return result;
    work.type = CU_GRAPH_NODE_TYPE_GRAPH;
    work.child->owned = true;
    return cpu_capture_work(stream, &work);
}

static CUresult launch(CUgraphExec handle, CUstream hStream, bool upload)
{
    cpu_context_t *context;
    cpu_stream_t *stream;
    cpu_exec_t *exec;
    bool captured;
    CUresult result = cpu_thread_context(&context);
    if (!result)
        result = cpu_exec_get(handle, &exec);
    if (result)
        return result;
    result = cpu_stream_get(context, hStream, &stream);
    if (!result) {
        result = cpu_capture_enter(stream, &captured);
        if (!result && captured)
            result = upload ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : capture_launch(exec, stream);
        else if (!result && !upload) /* there is nothing to upload: code and parameters are here */
            result = cpu_exec_launch(exec, stream);
        cpu_object_put(&stream->object);
    }
    cpu_graph_lock(); /* the last reference takes the graphs with it */
    cpu_object_put(&exec->object);
    cpu_graph_unlock();
    return result;
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream)
{
    return launch(hGraphExec, hStream, false);
}

CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream)
{
    return launch(hGraphExec, hStream, true);
}

/* ---- user objects ---- */

static void destroy_user(cpu_object_t *object)
{
    free(object);
}

CUresult cuUserObjectCreate(CUuserObject *object_out, void *ptr, CUhostFn destroy,
                            unsigned int initialRefcount, unsigned int flags)
{
    if (!object_out || !destroy || !initialRefcount || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return cpu_thread_refuse(CUDA_ERROR_INVALID_VALUE);
    cpu_user_t *user = calloc(1, sizeof(*user));
    if (!user)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cpu_object_init(&user->object, CPU_KIND_USER, destroy_user);
    user->destroy = destroy;
    user->data = ptr;
    user->count = initialRefcount;
    uint64_t handle = cpu_handle_add(&user->object);
    cpu_object_put(&user->object);
    if (!handle)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *object_out = (CUuserObject)(uintptr_t)handle;
    return CUDA_SUCCESS;
}

/* Calls `act` on the object, and on the graph if there is one. */
static CUresult with_user(CUgraph graph_handle, CUuserObject handle, unsigned count, unsigned flags,
                          CUresult (*act)(cpu_graph_t *, cpu_user_t *, unsigned, bool))
{
    cpu_user_t *user;
    cpu_graph_t *graph = NULL;
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    result = cpu_user_get(handle, &user);
    if (result)
        return cpu_graph_leave(result);
    if (!count || flags > CU_GRAPH_USER_OBJECT_MOVE)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && graph_handle)
        result = cpu_graph_get(graph_handle, &graph);
    if (!result)
        result = act(graph, user, count, flags == CU_GRAPH_USER_OBJECT_MOVE);
    if (graph)
        cpu_object_put(&graph->object);
    cpu_object_put(&user->object);
    return cpu_graph_leave(result);
}

static CUresult retain(cpu_graph_t *graph, cpu_user_t *user, unsigned count, bool move)
{
    (void)graph, (void)move;
    user->count += count;
    return CUDA_SUCCESS;
}

static CUresult release(cpu_graph_t *graph, cpu_user_t *user, unsigned count, bool move)
{
    (void)graph, (void)move;
    return cpu_user_release(user, count);
}

static CUresult hold(cpu_graph_t *graph, cpu_user_t *user, unsigned count, bool move)
{
    return graph ? cpu_graph_hold(graph, user, count, move) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult let_go(cpu_graph_t *graph, cpu_user_t *user, unsigned count, bool move)
{
    (void)move;
    return graph ? cpu_graph_let_go(graph, user, count) : CUDA_ERROR_INVALID_VALUE;
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
