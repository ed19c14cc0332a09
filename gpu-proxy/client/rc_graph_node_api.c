/* Nodes of graphs. Every kind of node has an adder, a getter, a setter and a setter in an executable
 * graph; they differ in how the work is made and shown. */
#include <stdlib.h>
#include <string.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_exec.h"

/* ---- adding and setting; `made` is what came of making the work ---- */

static CUresult add_locked(rc_work_t *work, CUgraph handle, const CUgraphNode *dependencies,
                           size_t count, CUgraphNode *out)
{
    rc_graph_t *graph;
    rc_node_t **after, *node;
    CUresult result = out ? rc_graph_get(handle, &graph) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = rc_nodes_get(dependencies, count, &after);
    if (result) {
        rc_work_drop(work);
        return result;
    }
    result = rc_graph_add(graph, work, after, count, 1, &node);
    if (!result)
        *out = rc_handle(node->object);
    free(after);
    return result;
}

static CUresult add(CUresult made, rc_work_t *work, CUgraph graph, const CUgraphNode *dependencies,
                    size_t count, CUgraphNode *out)
{
    if (made)
        return made;
    rc_graph_lock();
    return rc_graph_leave(add_locked(work, graph, dependencies, count, out));
}

static CUresult set_locked(rc_work_t *work, CUgraphNode handle)
{
    rc_node_t *node;
    CUresult result = rc_node_get(handle, &node);
    if (!result && node->work.type != work->type)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result) {
        rc_work_drop(work);
        return result;
    }
    rc_work_keep_attributes(work, &node->work);
    rc_work_drop(&node->work);
    node->work = *work;
    return CUDA_SUCCESS;
}

static CUresult set(CUresult made, rc_work_t *work, CUgraphNode handle)
{
    if (made)
        return made;
    rc_graph_lock();
    return rc_graph_leave(set_locked(work, handle));
}

static CUresult set_exec_locked(rc_call_t *call, rc_work_t *work, CUgraphExec handle,
                                CUgraphNode of)
{
    rc_node_t *node;
    rc_exec_t *exec;
    CUresult result = rc_node_get(of, &node);
    if (!result)
        result = rc_exec_get(handle, &exec);
    if (!result)
        return rc_exec_set(call, exec, node->id, work);
    rc_work_drop(work);
    return result;
}

static CUresult set_exec(CUresult made, rc_call_t *call, rc_work_t *work, CUgraphExec exec,
                         CUgraphNode of)
{
    if (made)
        return made;
    rc_graph_lock();
    return rc_graph_leave(set_exec_locked(call, work, exec, of));
}

/* The lock, then a node of this kind; on an error without the lock. */
static CUresult enter_node(CUgraphNode handle, CUgraphNodeType type, rc_node_t **node)
{
    CUresult result = rc_graph_enter(NULL);
    if (result)
        return result;
    result = rc_node_get(handle, node);
    if (!result && (*node)->work.type != type)
        result = CUDA_ERROR_INVALID_VALUE;
    return result ? rc_graph_leave(result) : CUDA_SUCCESS;
}

/* ---- kernels ---- */

static CUresult make_kernel(rc_call_t *call, const CUDA_KERNEL_NODE_PARAMS *params, rc_work_t *work)
{
    CUresult result = rc_begin(call);
    return result ? result : rc_work_kernel(call, params, work);
}

CUresult cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                                 const CUgraphNode *dependencies, size_t numDependencies,
                                 const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    rc_call_t call;
    rc_work_t work;
    return add(make_kernel(&call, nodeParams, &work), &work, hGraph, dependencies, numDependencies,
               phGraphNode);
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    rc_call_t call;
    rc_work_t work;
    return set(make_kernel(&call, nodeParams, &work), &work, hNode);
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                           const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    rc_call_t call;
    rc_work_t work;
    return set_exec(make_kernel(&call, nodeParams, &work), &call, &work, hGraphExec, hNode);
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    rc_node_t *node;
    CUresult result = enter_node(hNode, CU_GRAPH_NODE_TYPE_KERNEL, &node);
    if (result)
        return result;
    if (!nodeParams)
        return rc_graph_leave(CUDA_ERROR_INVALID_VALUE);
    const rc_kernel_work_t *k = &node->work.kernel;
    *nodeParams = (CUDA_KERNEL_NODE_PARAMS){
        .func = k->func,
        .gridDimX = k->launch.grid[0],
        .gridDimY = k->launch.grid[1],
        .gridDimZ = k->launch.grid[2],
        .blockDimX = k->launch.block[0],
        .blockDimY = k->launch.block[1],
        .blockDimZ = k->launch.block[2],
        .sharedMemBytes = k->launch.shared,
        .kernelParams = k->pointers,
        .kern = k->kern,
        .ctx = node->work.context,
    };
    return rc_graph_leave(CUDA_SUCCESS);
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                       const CUkernelNodeAttrValue *value)
{
    rc_node_t *node;
    CUresult result = enter_node(hNode, CU_GRAPH_NODE_TYPE_KERNEL, &node);
    if (result)
        return result;
    if (!value)
        result = CUDA_ERROR_INVALID_VALUE;
    else if (attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
        node->work.kernel.launch.cooperative = value->cooperative != 0;
    else if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        node->work.kernel.priority = value->priority;
    else
        result = CUDA_ERROR_INVALID_VALUE;
    return rc_graph_leave(result);
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                       CUkernelNodeAttrValue *value_out)
{
    rc_node_t *node;
    CUresult result = enter_node(hNode, CU_GRAPH_NODE_TYPE_KERNEL, &node);
    if (result)
        return result;
    if (!value_out)
        result = CUDA_ERROR_INVALID_VALUE;
    else if (attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
        value_out->cooperative = (int)node->work.kernel.launch.cooperative;
    else if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        value_out->priority = node->work.kernel.priority;
    else
        result = CUDA_ERROR_INVALID_VALUE;
    return rc_graph_leave(result);
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src)
{
    CUkernelNodeAttrValue cooperative, priority;
    CUresult result =
        cuGraphKernelNodeGetAttribute(src, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &cooperative);
    if (!result)
        result = cuGraphKernelNodeGetAttribute(src, CU_LAUNCH_ATTRIBUTE_PRIORITY, &priority);
    if (!result)
        result = cuGraphKernelNodeSetAttribute(dst, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &cooperative);
    return result ? result
                  : cuGraphKernelNodeSetAttribute(dst, CU_LAUNCH_ATTRIBUTE_PRIORITY, &priority);
}

/* ---- copies ---- */

static CUresult make_copy(rc_call_t *call, const CUDA_MEMCPY3D *copy, CUcontext ctx,
                          rc_work_t *work)
{
    CUresult result = rc_begin(call);
    return result ? result : rc_work_copy(call, copy, ctx, work);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                              const CUgraphNode *dependencies, size_t numDependencies,
                              const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    rc_call_t call;
    rc_work_t work;
    return add(make_copy(&call, copyParams, ctx, &work), &work, hGraph, dependencies,
               numDependencies, phGraphNode);
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
    rc_call_t call;
    rc_work_t work;
    return set(make_copy(&call, nodeParams, NULL, &work), &work, hNode);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    rc_call_t call;
    rc_work_t work;
    return set_exec(make_copy(&call, copyParams, ctx, &work), &call, &work, hGraphExec, hNode);
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
    rc_node_t *node;
    CUresult result = enter_node(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, &node);
    if (result)
        return result;
    if (nodeParams)
        *nodeParams = node->work.copy;
    return rc_graph_leave(nodeParams ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* ---- fills ---- */

static CUresult make_fill(rc_call_t *call, const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext ctx,
                          rc_work_t *work)
{
    CUresult result = rc_begin(call);
    return result ? result : rc_work_fill(call, fill, ctx, work);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                              const CUgraphNode *dependencies, size_t numDependencies,
                              const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    rc_call_t call;
    rc_work_t work;
    return add(make_fill(&call, memsetParams, ctx, &work), &work, hGraph, dependencies,
               numDependencies, phGraphNode);
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
    rc_call_t call;
    rc_work_t work;
    return set(make_fill(&call, nodeParams, NULL, &work), &work, hNode);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    rc_call_t call;
    rc_work_t work;
    return set_exec(make_fill(&call, memsetParams, ctx, &work), &call, &work, hGraphExec, hNode);
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
    rc_node_t *node;
    CUresult result = enter_node(hNode, CU_GRAPH_NODE_TYPE_MEMSET, &node);
    if (result)
        return result;
    if (nodeParams)
        *nodeParams = node->work.fill;
    return rc_graph_leave(nodeParams ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* ---- host functions ---- */

static CUresult make_host(rc_call_t *call, const CUDA_HOST_NODE_PARAMS *host, rc_work_t *work)
{
    CUresult result = rc_begin(call);
    return result ? result : rc_work_host(host, work);
}

CUresult cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                            const CUgraphNode *dependencies, size_t numDependencies,
                            const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    rc_call_t call;
    rc_work_t work;
    return add(make_host(&call, nodeParams, &work), &work, hGraph, dependencies, numDependencies,
               phGraphNode);
}

CUresult cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    rc_call_t call;
    rc_work_t work;
    return set(make_host(&call, nodeParams, &work), &work, hNode);
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                      const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    rc_call_t call;
    rc_work_t work;
    return set_exec(make_host(&call, nodeParams, &work), &call, &work, hGraphExec, hNode);
}

CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams)
{
    rc_node_t *node;
    CUresult result = enter_node(hNode, CU_GRAPH_NODE_TYPE_HOST, &node);
    if (result)
        return result;
    if (nodeParams)
        *nodeParams = node->work.host;
    return rc_graph_leave(nodeParams ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* ---- empty nodes and child graphs ---- */

CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                             const CUgraphNode *dependencies, size_t numDependencies)
{
    rc_call_t call;
    rc_work_t work;
    rc_work_empty(&work);
    return add(rc_begin(&call), &work, hGraph, dependencies, numDependencies, phGraphNode);
}

static CUresult make_child(CUgraph handle, rc_work_t *work)
{
    rc_graph_t *graph;
    CUresult result = rc_graph_enter(NULL);
    if (result)
        return result;
    rc_work_empty(work);
    result = rc_graph_get(handle, &graph);
    if (!result && rc_graph_has_memory(graph))
        result = CUDA_ERROR_NOT_SUPPORTED;
    if (!result)
        result = rc_graph_clone(graph, 1, &work->child);
    if (!result) {
        work->type = CU_GRAPH_NODE_TYPE_GRAPH;
        work->child->owned = 1;
    }
    return rc_graph_leave(result);
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                  const CUgraphNode *dependencies, size_t numDependencies,
                                  CUgraph childGraph)
{
    rc_work_t work;
    return add(make_child(childGraph, &work), &work, hGraph, dependencies, numDependencies,
               phGraphNode);
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
    rc_node_t *node;
    CUresult result = enter_node(hNode, CU_GRAPH_NODE_TYPE_GRAPH, &node);
    if (result)
        return result;
    if (phGraph)
        *phGraph = rc_handle(node->work.child->object);
    return rc_graph_leave(phGraph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

static CUresult set_child(CUgraphExec hExec, CUgraphNode hNode, CUgraph hChild)
{
    rc_call_t call;
    rc_node_t *node;
    rc_graph_t *graph;
    rc_exec_t *exec;
    CUresult result = rc_graph_enter(&call);
    if (result)
        return result;
    result = rc_node_get(hNode, &node);
    if (!result && node->work.type != CU_GRAPH_NODE_TYPE_GRAPH)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = rc_exec_get(hExec, &exec);
    if (!result)
        result = rc_graph_get(hChild, &graph);
    if (!result)
        result = rc_exec_set_child(&call, exec, node->id, graph);
    return rc_graph_leave(result);
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            CUgraph childGraph)
{
    return set_child(hGraphExec, hNode, childGraph);
}

/* ---- events ---- */

static CUresult make_event(rc_call_t *call, CUgraphNodeType type, CUevent event, rc_work_t *work)
{
    CUresult result = rc_begin(call);
    return result ? result : rc_work_event(type, event, work);
}

static CUresult get_event(CUgraphNodeType type, CUgraphNode handle, CUevent *event)
{
    rc_node_t *node;
    CUresult result = enter_node(handle, type, &node);
    if (result)
        return result;
    if (event)
        *event = node->work.event;
    return rc_graph_leave(event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                   const CUgraphNode *dependencies, size_t numDependencies,
                                   CUevent event)
{
    rc_call_t call;
    rc_work_t work;
    return add(make_event(&call, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, &work), &work, hGraph,
               dependencies, numDependencies, phGraphNode);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                 const CUgraphNode *dependencies, size_t numDependencies,
                                 CUevent event)
{
    rc_call_t call;
    rc_work_t work;
    return add(make_event(&call, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, &work), &work, hGraph,
               dependencies, numDependencies, phGraphNode);
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
    return get_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, hNode, event_out);
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode hNode, CUevent *event_out)
{
    return get_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, hNode, event_out);
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode hNode, CUevent event)
{
    rc_call_t call;
    rc_work_t work;
    return set(make_event(&call, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, &work), &work, hNode);
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event)
{
    rc_call_t call;
    rc_work_t work;
    return set(make_event(&call, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, &work), &work, hNode);
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            CUevent event)
{
    rc_call_t call;
    rc_work_t work;
    return set_exec(make_event(&call, CU_GRAPH_NODE_TYPE_EVENT_RECORD, event, &work), &call, &work,
                    hGraphExec, hNode);
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event)
{
    rc_call_t call;
    rc_work_t work;
    return set_exec(make_event(&call, CU_GRAPH_NODE_TYPE_WAIT_EVENT, event, &work), &call, &work,
                    hGraphExec, hNode);
}

/* ---- values in memory ---- */

static CUresult make_values(rc_call_t *call, const CUDA_BATCH_MEM_OP_NODE_PARAMS *values,
                            rc_work_t *work)
{
    CUresult result = rc_begin(call);
    return result ? result : rc_work_values(call, values, work);
}

CUresult cuGraphAddBatchMemOpNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                  const CUgraphNode *dependencies, size_t numDependencies,
                                  const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
    rc_call_t call;
    rc_work_t work;
    return add(make_values(&call, nodeParams, &work), &work, hGraph, dependencies, numDependencies,
               phGraphNode);
}

CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode,
                                        const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
    rc_call_t call;
    rc_work_t work;
    return set(make_values(&call, nodeParams, &work), &work, hNode);
}

CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
    rc_call_t call;
    rc_work_t work;
    return set_exec(make_values(&call, nodeParams, &work), &call, &work, hGraphExec, hNode);
}

CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode,
                                        CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams_out)
{
    rc_node_t *node;
    CUresult result = enter_node(hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, &node);
    if (result)
        return result;
    if (nodeParams_out)
        *nodeParams_out = (CUDA_BATCH_MEM_OP_NODE_PARAMS){.ctx = node->work.context,
                                                          .count = node->work.values.count,
                                                          .paramArray = node->work.values.ops};
    return rc_graph_leave(nodeParams_out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* ---- any kind ---- */

static CUresult make_any(rc_call_t *call, CUgraphNodeParams *p, rc_work_t *work)
{
    CUresult result = rc_begin(call);
    if (result || !p)
        return result ? result : CUDA_ERROR_INVALID_VALUE;
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
        CUDA_KERNEL_NODE_PARAMS kernel;
        _Static_assert(sizeof(kernel) == sizeof(p->kernel), "the same under two names");
        memcpy(&kernel, &p->kernel, sizeof(kernel));
        return rc_work_kernel(call, &kernel, work);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return rc_work_copy(call, &p->memcpy.copyParams, p->memcpy.copyCtx, work);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
        CUDA_MEMSET_NODE_PARAMS fill = {p->memset.dst,         p->memset.pitch, p->memset.value,
                                        p->memset.elementSize, p->memset.width, p->memset.height};
        return rc_work_fill(call, &fill, p->memset.ctx, work);
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
        CUDA_HOST_NODE_PARAMS host = {p->host.fn, p->host.userData};
        return rc_work_host(&host, work);
    }
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return make_child(p->graph.graph, work);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        rc_work_empty(work);
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return rc_work_event(p->type, p->eventWait.event, work);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return rc_work_event(p->type, p->eventRecord.event, work);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
        CUDA_BATCH_MEM_OP_NODE_PARAMS values = {p->memOp.ctx, p->memOp.count, p->memOp.paramArray,
                                                p->memOp.flags};
        return rc_work_values(call, &values, work);
    }
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
        CUDA_MEM_ALLOC_NODE_PARAMS alloc;
        _Static_assert(sizeof(alloc) == sizeof(p->alloc), "the same under two names");
        memcpy(&alloc, &p->alloc, sizeof(alloc));
        result = rc_work_mem_alloc(call, &alloc, work);
        p->alloc.dptr = result ? p->alloc.dptr : alloc.dptr;
        return result;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        rc_graph_lock();
        return rc_graph_leave(rc_work_mem_free(p->free.dptr, work));
    default:
        return (unsigned)p->type > CU_GRAPH_NODE_TYPE_CONDITIONAL ? CUDA_ERROR_INVALID_VALUE
                                                                  : CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                           const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
                           size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    rc_call_t call;
    rc_work_t work;
    (void)dependencyData; /* edges have no data here */
    return add(make_any(&call, nodeParams, &work), &work, hGraph, dependencies, numDependencies,
               phGraphNode);
}

/* What these do is settled when they are made. */
static int is_memory(const CUgraphNodeParams *p)
{
    return p && (p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || p->type == CU_GRAPH_NODE_TYPE_MEM_FREE);
}

CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    rc_call_t call;
    rc_work_t work;
    if (is_memory(nodeParams))
        return CUDA_ERROR_NOT_SUPPORTED;
    return set(make_any(&call, nodeParams, &work), &work, hNode);
}

CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                  CUgraphNodeParams *nodeParams)
{
    rc_call_t call;
    rc_work_t work;
    if (is_memory(nodeParams))
        return CUDA_ERROR_NOT_SUPPORTED;
    if (nodeParams && nodeParams->type == CU_GRAPH_NODE_TYPE_GRAPH)
        return set_child(hGraphExec, hNode, nodeParams->graph.graph);
    return set_exec(make_any(&call, nodeParams, &work), &call, &work, hGraphExec, hNode);
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
    rc_node_t *node;
    CUresult result = rc_graph_enter(NULL);
    if (result)
        return result;
    result = rc_node_get(hNode, &node);
    if (!result && !type)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *type = node->work.type;
    return rc_graph_leave(result);
}

/* ---- nodes that are left out ---- */

static CUresult find_both(CUgraphExec handle, CUgraphNode of, rc_exec_t **exec, rc_node_t **node)
{
    CUresult result = rc_exec_get(handle, exec);
    return result ? result : rc_node_get(of, node);
}

CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled)
{
    rc_call_t call;
    rc_exec_t *exec;
    rc_node_t *node;
    CUresult result = rc_graph_enter(&call);
    if (result)
        return result;
    result = find_both(hGraphExec, hNode, &exec, &node);
    if (!result)
        result = rc_exec_enable(&call, exec, node->id, isEnabled != 0);
    return rc_graph_leave(result);
}

CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled)
{
    rc_exec_t *exec;
    rc_node_t *node;
    int enabled = 0;
    CUresult result = rc_graph_enter(NULL);
    if (result)
        return result;
    result = find_both(hGraphExec, hNode, &exec, &node);
    if (!result && !isEnabled)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = rc_exec_enabled(exec, node->id, &enabled);
    if (!result)
        *isEnabled = (unsigned)enabled;
    return rc_graph_leave(result);
}
