/* Entry points: nodes of graphs. Every kind of node has an adder, a getter, a setter and a setter in an
 * executable graph; they differ in how the work is made and shown. */
#include <string.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/cpu/driver/cpu_graph_exec.h"
#include "gpu-proxy/cpu/driver/cpu_graph_nodes.h"
#include "gpu-proxy/cpu/driver/cpu_memory.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"

/* ---- making works; all with the graph lock held ---- */

/* The context that a handle means, NULL the current one; with a reference. */
static CUresult context_of(CUcontext handle, cpu_context_t **context)
{
    if (handle)
        return cpu_context_get(handle, context);
    CUresult result = cpu_thread_context(context);
    if (!result)
        cpu_object_ref(&(*context)->object);
    return result;
}

static CUresult make_kernel(const CUDA_KERNEL_NODE_PARAMS *params, cpu_work_t *work)
{
    cpu_context_t *context;
    CUresult result = params ? context_of(params->ctx, &context) : CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        result = cpu_work_kernel(context, params, work);
        cpu_object_put(&context->object);
    }
    return result;
}

static CUresult make_copy(const CUDA_MEMCPY3D *copy, CUcontext ctx, cpu_work_t *work)
{
    cpu_context_t *context;
    CUresult result = copy ? context_of(ctx, &context) : CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        result = cpu_work_copy(context, copy, work);
        cpu_object_put(&context->object);
    }
    return result;
}

static CUresult make_fill(const CUDA_MEMSET_NODE_PARAMS *fill, CUcontext ctx, cpu_work_t *work)
{
    cpu_context_t *context;
    CUresult result = fill ? context_of(ctx, &context) : CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        result = cpu_work_fill(context, fill, work);
        cpu_object_put(&context->object);
    }
    return result;
}

static CUresult make_host(const CUDA_HOST_NODE_PARAMS *host, cpu_work_t *work)
{
    return host ? cpu_work_host(host, work) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult make_child(CUgraph handle, cpu_work_t *work)
{
    cpu_graph_t *graph;
    CUresult result = cpu_graph_get(handle, &graph);
    if (result)
        return result;
    cpu_work_empty(work);
    result = cpu_graph_has_memory(graph) ? CUDA_ERROR_NOT_SUPPORTED
                                         : cpu_graph_clone(graph, true, &work->child);
    if (!result) {
        work->type = CU_GRAPH_NODE_TYPE_GRAPH;
        work->child->owned = true;
    }
    cpu_object_put(&graph->object);
    return result;
}

static bool good_value(const CUstreamBatchMemOpParams *op)
{
    bool wide = op->operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
                op->operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
    unsigned bytes = wide ? 8 : 4;
    switch (op->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return op->waitValue.address % bytes == 0 && /* both have the address in one place */
               cpu_memory_covers(CPU_MEMORY_ANY, op->waitValue.address, bytes);
    case CU_STREAM_MEM_OP_BARRIER:
        return true;
    default:
        return false;
    }
}

static CUresult make_values(const CUDA_BATCH_MEM_OP_NODE_PARAMS *p, cpu_work_t *work)
{
    cpu_context_t *context;
    if (!p || !p->count || p->count > 256 || !p->paramArray || p->flags)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < p->count; i++)
        if (!good_value(&p->paramArray[i]))
            return CUDA_ERROR_INVALID_VALUE;
    CUresult result = context_of(p->ctx, &context);
    if (!result) {
        result = cpu_work_values(context, p->paramArray, p->count, work);
        cpu_object_put(&context->object);
    }
    return result;
}

/* ---- adding and setting ---- */

/* `made` is what came of making the work. */
static CUresult add(CUresult made, cpu_work_t *work, CUgraph graph, const CUgraphNode *dependencies,
                    size_t count, CUgraphNode *out)
{
    return made ? made : cpu_graph_add_work(graph, work, dependencies, count, out);
}

static CUresult set(CUresult made, cpu_work_t *work, CUgraphNode handle)
{
    cpu_graph_node_t *node;
    if (made)
        return made;
    CUresult result = cpu_graph_node_get(handle, &node);
    if (!result && node->work.type != work->type) {
        cpu_object_put(&node->object);
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (result) {
        cpu_work_drop(work);
        return result;
    }
    cpu_work_keep_attributes(work, &node->work);
    cpu_work_drop(&node->work);
    node->work = *work;
    cpu_object_put(&node->object);
    return CUDA_SUCCESS;
}

static CUresult set_exec(CUresult made, cpu_work_t *work, CUgraphExec handle, CUgraphNode of)
{
    cpu_graph_node_t *node;
    cpu_exec_t *exec;
    if (made)
        return made;
    CUresult result = cpu_graph_node_get(of, &node);
    if (!result) {
        result = cpu_exec_get(handle, &exec);
        if (!result) {
            result = cpu_exec_set(exec, node->id, work); /* takes the work over */
            cpu_object_put(&exec->object);
            cpu_object_put(&node->object);
            return result;
        }
        cpu_object_put(&node->object);
    }
    cpu_work_drop(work);
    return result;
}

/* The lock, then a node of this kind, with a reference; on an error without either. */
static CUresult enter_node(CUgraphNode handle, CUgraphNodeType type, cpu_graph_node_t **node)
{
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    result = cpu_graph_node_get(handle, node);
    if (!result && (*node)->work.type != type) {
        cpu_object_put(&(*node)->object);
        result = CUDA_ERROR_INVALID_VALUE;
    }
    return result ? cpu_graph_leave(result) : CUDA_SUCCESS;
}

static CUresult leave_node(cpu_graph_node_t *node, CUresult result)
{
    cpu_object_put(&node->object);
    return cpu_graph_leave(result);
}

/* ---- kernels ---- */

CUresult cuGraphAddKernelNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                                 const CUgraphNode *dependencies, size_t numDependencies,
                                 const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    cpu_work_t work;
    CUresult result = cpu_graph_enter();
    return result ? result
                  : cpu_graph_leave(add(make_kernel(nodeParams, &work), &work, hGraph, dependencies,
                                        numDependencies, phGraphNode));
}

CUresult cuGraphKernelNodeSetParams_v2(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    cpu_work_t work;
    CUresult result = cpu_graph_enter();
    return result ? result : cpu_graph_leave(set(make_kernel(nodeParams, &work), &work, hNode));
}

CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec hGraphExec, CUgraphNode hNode,
                                           const CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    cpu_work_t work;
    CUresult result = cpu_graph_enter();
    return result ? result
                  : cpu_graph_leave(
                        set_exec(make_kernel(nodeParams, &work), &work, hGraphExec, hNode));
}

CUresult cuGraphKernelNodeGetParams_v2(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS *nodeParams)
{
    cpu_graph_node_t *node;
    CUresult result = enter_node(hNode, CU_GRAPH_NODE_TYPE_KERNEL, &node);
    if (result)
        return result;
    if (!nodeParams)
        return leave_node(node, CUDA_ERROR_INVALID_VALUE);
    const cpu_kernel_work_t *k = &node->work.kernel;
    *nodeParams = (CUDA_KERNEL_NODE_PARAMS){
        .func = k->func,
        .gridDimX = k->shape.grid[0],
        .gridDimY = k->shape.grid[1],
        .gridDimZ = k->shape.grid[2],
        .blockDimX = k->shape.block[0],
        .blockDimY = k->shape.block[1],
        .blockDimZ = k->shape.block[2],
        .sharedMemBytes = k->shape.dynamic_shared,
        .kernelParams = k->pointers,
        .kern = k->kern,
        .ctx = (CUcontext)(uintptr_t)node->work.context->object.handle,
    };
    return leave_node(node, CUDA_SUCCESS);
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                       const CUkernelNodeAttrValue *value)
{
    cpu_graph_node_t *node;
    CUresult result = enter_node(hNode, CU_GRAPH_NODE_TYPE_KERNEL, &node);
    if (result)
        return result;
    result = value ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!result && attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
        node->work.kernel.shape.cooperative = value->cooperative != 0;
    else if (!result && attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        node->work.kernel.priority = value->priority;
    else if (!result)
        result = CUDA_ERROR_INVALID_VALUE;
    return leave_node(node, result);
}

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode hNode, CUkernelNodeAttrID attr,
                                       CUkernelNodeAttrValue *value_out)
{
    cpu_graph_node_t *node;
    CUresult result = enter_node(hNode, CU_GRAPH_NODE_TYPE_KERNEL, &node);
    if (result)
        return result;
    result = value_out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!result && attr == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
        value_out->cooperative = node->work.kernel.shape.cooperative;
    else if (!result && attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
        value_out->priority = node->work.kernel.priority;
    else if (!result)
        result = CUDA_ERROR_INVALID_VALUE;
    return leave_node(node, result);
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

CUresult cuGraphAddMemcpyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                              const CUgraphNode *dependencies, size_t numDependencies,
                              const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    cpu_work_t work;
    CUresult result = cpu_graph_enter();
    return result ? result
                  : cpu_graph_leave(add(make_copy(copyParams, ctx, &work), &work, hGraph,
                                        dependencies, numDependencies, phGraphNode));
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode hNode, const CUDA_MEMCPY3D *nodeParams)
{
    cpu_work_t work;
    CUresult result = cpu_graph_enter();
    return result ? result : cpu_graph_leave(set(make_copy(nodeParams, NULL, &work), &work, hNode));
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_MEMCPY3D *copyParams, CUcontext ctx)
{
    cpu_work_t work;
    CUresult result = cpu_graph_enter();
    return result ? result
                  : cpu_graph_leave(
                        set_exec(make_copy(copyParams, ctx, &work), &work, hGraphExec, hNode));
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode hNode, CUDA_MEMCPY3D *nodeParams)
{
    cpu_graph_node_t *node;
    CUresult result = enter_node(hNode, CU_GRAPH_NODE_TYPE_MEMCPY, &node);
    if (result)
        return result;
    if (nodeParams)
        *nodeParams = node->work.copy.copy;
    return leave_node(node, nodeParams ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* ---- fills ---- */

CUresult cuGraphAddMemsetNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                              const CUgraphNode *dependencies, size_t numDependencies,
                              const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    cpu_work_t work;
    CUresult result = cpu_graph_enter();
    return result ? result
                  : cpu_graph_leave(add(make_fill(memsetParams, ctx, &work), &work, hGraph,
                                        dependencies, numDependencies, phGraphNode));
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode hNode, const CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
    cpu_work_t work;
    CUresult result = cpu_graph_enter();
    return result ? result : cpu_graph_leave(set(make_fill(nodeParams, NULL, &work), &work, hNode));
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_MEMSET_NODE_PARAMS *memsetParams, CUcontext ctx)
{
    cpu_work_t work;
    CUresult result = cpu_graph_enter();
    return result ? result
                  : cpu_graph_leave(
                        set_exec(make_fill(memsetParams, ctx, &work), &work, hGraphExec, hNode));
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode hNode, CUDA_MEMSET_NODE_PARAMS *nodeParams)
{
    cpu_graph_node_t *node;
    CUresult result = enter_node(hNode, CU_GRAPH_NODE_TYPE_MEMSET, &node);
    if (result)
        return result;
    if (nodeParams)
        *nodeParams = node->work.fill.fill;
    return leave_node(node, nodeParams ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* ---- host functions ---- */

CUresult cuGraphAddHostNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                            const CUgraphNode *dependencies, size_t numDependencies,
                            const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    cpu_work_t work;
    CUresult result = cpu_graph_enter();
    return result ? result
                  : cpu_graph_leave(add(make_host(nodeParams, &work), &work, hGraph, dependencies,
                                        numDependencies, phGraphNode));
}

CUresult cuGraphHostNodeSetParams(CUgraphNode hNode, const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    cpu_work_t work;
    CUresult result = cpu_graph_enter();
    return result ? result : cpu_graph_leave(set(make_host(nodeParams, &work), &work, hNode));
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                      const CUDA_HOST_NODE_PARAMS *nodeParams)
{
    cpu_work_t work;
    CUresult result = cpu_graph_enter();
    return result
               ? result
               : cpu_graph_leave(set_exec(make_host(nodeParams, &work), &work, hGraphExec, hNode));
}

CUresult cuGraphHostNodeGetParams(CUgraphNode hNode, CUDA_HOST_NODE_PARAMS *nodeParams)
{
    cpu_graph_node_t *node;
    CUresult result = enter_node(hNode, CU_GRAPH_NODE_TYPE_HOST, &node);
    if (result)
        return result;
    if (nodeParams)
        *nodeParams = node->work.host;
    return leave_node(node, nodeParams ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* ---- empty nodes and child graphs ---- */

CUresult cuGraphAddEmptyNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                             const CUgraphNode *dependencies, size_t numDependencies)
{
    cpu_work_t work;
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    cpu_work_empty(&work);
    return cpu_graph_leave(
        add(CUDA_SUCCESS, &work, hGraph, dependencies, numDependencies, phGraphNode));
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                  const CUgraphNode *dependencies, size_t numDependencies,
                                  CUgraph childGraph)
{
    cpu_work_t work;
    CUresult result = cpu_graph_enter();
    return result ? result
                  : cpu_graph_leave(add(make_child(childGraph, &work), &work, hGraph, dependencies,
                                        numDependencies, phGraphNode));
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode hNode, CUgraph *phGraph)
{
    cpu_graph_node_t *node;
    CUresult result = enter_node(hNode, CU_GRAPH_NODE_TYPE_GRAPH, &node);
    if (result)
        return result;
    if (phGraph)
        *phGraph = (CUgraph)(uintptr_t)node->work.child->object.handle;
    return leave_node(node, phGraph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuGraphExecChildGraphNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            CUgraph childGraph)
{
    cpu_graph_node_t *node;
    cpu_graph_t *graph;
    cpu_exec_t *exec;
    CUresult result = enter_node(hNode, CU_GRAPH_NODE_TYPE_GRAPH, &node);
    if (result)
        return result;
    result = cpu_exec_get(hGraphExec, &exec);
    if (!result) {
        result = cpu_graph_get(childGraph, &graph);
        if (!result) {
            result = cpu_exec_set_child(exec, node->id, graph);
            cpu_object_put(&graph->object);
        }
        cpu_object_put(&exec->object);
    }
    return leave_node(node, result);
}

/* ---- events ---- */

static CUresult add_event(CUgraphNodeType type, CUgraphNode *out, CUgraph graph,
                          const CUgraphNode *dependencies, size_t count, CUevent event)
{
    cpu_work_t work;
    CUresult result = cpu_graph_enter();
    return result ? result
                  : cpu_graph_leave(add(cpu_work_event(type, event, &work), &work, graph,
                                        dependencies, count, out));
}

static CUresult set_event(CUgraphNodeType type, CUgraphNode node, CUevent event)
{
    cpu_work_t work;
    CUresult result = cpu_graph_enter();
    return result ? result : cpu_graph_leave(set(cpu_work_event(type, event, &work), &work, node));
}

static CUresult set_exec_event(CUgraphNodeType type, CUgraphExec exec, CUgraphNode node,
                               CUevent event)
{
    cpu_work_t work;
    CUresult result = cpu_graph_enter();
    return result
               ? result
               : cpu_graph_leave(set_exec(cpu_work_event(type, event, &work), &work, exec, node));
}

static CUresult get_event(CUgraphNodeType type, CUgraphNode handle, CUevent *event)
{
    cpu_graph_node_t *node;
    CUresult result = enter_node(handle, type, &node);
    if (result)
        return result;
    if (event)
        *event = (CUevent)(uintptr_t)node->work.event->object.handle;
    return leave_node(node, event ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                   const CUgraphNode *dependencies, size_t numDependencies,
                                   CUevent event)
{
    return add_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, phGraphNode, hGraph, dependencies,
                     numDependencies, event);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                 const CUgraphNode *dependencies, size_t numDependencies,
                                 CUevent event)
{
    return add_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, phGraphNode, hGraph, dependencies,
                     numDependencies, event);
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
    return set_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, hNode, event);
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode hNode, CUevent event)
{
    return set_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, hNode, event);
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            CUevent event)
{
    return set_exec_event(CU_GRAPH_NODE_TYPE_EVENT_RECORD, hGraphExec, hNode, event);
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec hGraphExec, CUgraphNode hNode, CUevent event)
{
    return set_exec_event(CU_GRAPH_NODE_TYPE_WAIT_EVENT, hGraphExec, hNode, event);
}

/* ---- values in memory ---- */

CUresult cuGraphAddBatchMemOpNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                  const CUgraphNode *dependencies, size_t numDependencies,
                                  const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
    cpu_work_t work;
    CUresult result = cpu_graph_enter();
    return result ? result
                  : cpu_graph_leave(add(make_values(nodeParams, &work), &work, hGraph, dependencies,
                                        numDependencies, phGraphNode));
}

CUresult cuGraphBatchMemOpNodeSetParams(CUgraphNode hNode,
                                        const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
    cpu_work_t work;
    CUresult result = cpu_graph_enter();
    return result ? result : cpu_graph_leave(set(make_values(nodeParams, &work), &work, hNode));
}

CUresult cuGraphExecBatchMemOpNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                            const CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams)
{
    cpu_work_t work;
    CUresult result = cpu_graph_enter();
    return result ? result
                  : cpu_graph_leave(
                        set_exec(make_values(nodeParams, &work), &work, hGraphExec, hNode));
}

CUresult cuGraphBatchMemOpNodeGetParams(CUgraphNode hNode,
                                        CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams_out)
{
    cpu_graph_node_t *node;
    CUresult result = enter_node(hNode, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP, &node);
    if (result)
        return result;
    if (nodeParams_out)
        *nodeParams_out = (CUDA_BATCH_MEM_OP_NODE_PARAMS){
            .ctx = (CUcontext)(uintptr_t)node->work.context->object.handle,
            .count = node->work.values.count,
            .paramArray = node->work.values.ops};
    return leave_node(node, nodeParams_out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* ---- any kind ---- */

/* With the lock held. */
static CUresult make_any(CUgraphNodeParams *p, cpu_work_t *work)
{
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    switch (p->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL: {
        CUDA_KERNEL_NODE_PARAMS kernel;
        _Static_assert(sizeof(kernel) == sizeof(p->kernel), "the same under two names");
        memcpy(&kernel, &p->kernel, sizeof(kernel));
        return make_kernel(&kernel, work);
    }
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return make_copy(&p->memcpy.copyParams, p->memcpy.copyCtx, work);
    case CU_GRAPH_NODE_TYPE_MEMSET: {
        CUDA_MEMSET_NODE_PARAMS fill = {p->memset.dst,         p->memset.pitch, p->memset.value,
                                        p->memset.elementSize, p->memset.width, p->memset.height};
        return make_fill(&fill, p->memset.ctx, work);
    }
    case CU_GRAPH_NODE_TYPE_HOST: {
        CUDA_HOST_NODE_PARAMS host = {p->host.fn, p->host.userData};
        return make_host(&host, work);
    }
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return make_child(p->graph.graph, work);
    case CU_GRAPH_NODE_TYPE_EMPTY:
        cpu_work_empty(work);
        return CUDA_SUCCESS;
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return cpu_work_event(p->type, p->eventWait.event, work);
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return cpu_work_event(p->type, p->eventRecord.event, work);
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP: {
        CUDA_BATCH_MEM_OP_NODE_PARAMS values = {p->memOp.ctx, p->memOp.count, p->memOp.paramArray,
                                                p->memOp.flags};
        return make_values(&values, work);
    }
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC: {
        CUDA_MEM_ALLOC_NODE_PARAMS alloc;
        _Static_assert(sizeof(alloc) == sizeof(p->alloc), "the same under two names");
        memcpy(&alloc, &p->alloc, sizeof(alloc));
        CUresult result = cpu_work_mem_alloc(&alloc, work);
        p->alloc.dptr = result ? p->alloc.dptr : alloc.dptr;
        return result;
    }
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return cpu_work_mem_free(p->free.dptr, work);
    default:
        return (unsigned)p->type > CU_GRAPH_NODE_TYPE_CONDITIONAL ? CUDA_ERROR_INVALID_VALUE
                                                                  : CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuGraphAddNode_v2(CUgraphNode *phGraphNode, CUgraph hGraph,
                           const CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
                           size_t numDependencies, CUgraphNodeParams *nodeParams)
{
    cpu_work_t work;
    (void)dependencyData; /* edges have no data here */
    CUresult result = cpu_graph_enter();
    return result ? result
                  : cpu_graph_leave(add(make_any(nodeParams, &work), &work, hGraph, dependencies,
                                        numDependencies, phGraphNode));
}

/* What these do is settled when they are made. */
static bool is_memory(const CUgraphNodeParams *p)
{
    return p && (p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC || p->type == CU_GRAPH_NODE_TYPE_MEM_FREE);
}

CUresult cuGraphNodeSetParams(CUgraphNode hNode, CUgraphNodeParams *nodeParams)
{
    cpu_work_t work;
    if (is_memory(nodeParams))
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = cpu_graph_enter();
    return result ? result : cpu_graph_leave(set(make_any(nodeParams, &work), &work, hNode));
}

CUresult cuGraphExecNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                  CUgraphNodeParams *nodeParams)
{
    cpu_work_t work;
    if (is_memory(nodeParams))
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = cpu_graph_enter();
    return result
               ? result
               : cpu_graph_leave(set_exec(make_any(nodeParams, &work), &work, hGraphExec, hNode));
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType *type)
{
    cpu_graph_node_t *node;
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    result = cpu_graph_node_get(hNode, &node);
    if (!result) {
        if (type)
            *type = node->work.type;
        result = type ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        cpu_object_put(&node->object);
    }
    return cpu_graph_leave(result);
}

/* Calls for one node of an executable graph. */
static CUresult enable(CUgraphExec handle, CUgraphNode of, bool set_it, bool *enabled)
{
    cpu_exec_t *exec;
    cpu_graph_node_t *node;
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    result = cpu_exec_get(handle, &exec);
    if (result)
        return cpu_graph_leave(result);
    result = cpu_graph_node_get(of, &node);
    if (!result) {
        result = set_it ? cpu_exec_enable(exec, node->id, *enabled)
                        : cpu_exec_enabled(exec, node->id, enabled);
        cpu_object_put(&node->object);
    }
    cpu_object_put(&exec->object);
    return cpu_graph_leave(result);
}

CUresult cuGraphNodeSetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int isEnabled)
{
    bool enabled = isEnabled != 0;
    return enable(hGraphExec, hNode, true, &enabled);
}

CUresult cuGraphNodeGetEnabled(CUgraphExec hGraphExec, CUgraphNode hNode, unsigned int *isEnabled)
{
    bool enabled;
    if (!isEnabled)
        return cpu_thread_refuse(CUDA_ERROR_INVALID_VALUE);
    CUresult result = enable(hGraphExec, hNode, false, &enabled);
    if (!result)
        *isEnabled = enabled;
    return result;
}
