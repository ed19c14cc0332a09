/* Nodes that allocate and free memory, and what devices keep for them. */
#include <stdlib.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_graph.h"
#include "gpu-proxy/client/rc_graph_memory.h"

/* Takes over the work, also when it fails. */
static CUresult add(CUgraphNode *out, CUgraph handle, const CUgraphNode *dependencies, size_t count,
                    rc_work_t *work)
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

CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                const CUgraphNode *dependencies, size_t numDependencies,
                                CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
    rc_call_t call;
    rc_work_t work;
    CUresult result = rc_begin(&call);
    if (!result)
        result = rc_work_mem_alloc(&call, nodeParams, &work);
    if (result)
        return result;
    rc_graph_lock();
    return rc_graph_leave(add(phGraphNode, hGraph, dependencies, numDependencies, &work));
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                               const CUgraphNode *dependencies, size_t numDependencies,
                               CUdeviceptr dptr)
{
    rc_work_t work;
    CUresult result = rc_graph_enter(NULL);
    if (result)
        return result;
    result = rc_work_mem_free(dptr, &work);
    if (!result)
        result = add(phGraphNode, hGraph, dependencies, numDependencies, &work);
    return rc_graph_leave(result);
}

static CUresult memory_of(CUgraphNode handle, CUgraphNodeType type, rc_graph_memory_t **memory)
{
    rc_node_t *node;
    CUresult result = rc_node_get(handle, &node);
    if (!result && node->work.type != type)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *memory = node->work.memory;
    return result;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
    rc_graph_memory_t *memory;
    CUresult result = rc_graph_enter(NULL);
    if (result)
        return result;
    result = params_out ? memory_of(hNode, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &memory)
                        : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *params_out = memory->params;
    return rc_graph_leave(result);
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
    rc_graph_memory_t *memory;
    CUresult result = rc_graph_enter(NULL);
    if (result)
        return result;
    result = dptr_out ? memory_of(hNode, CU_GRAPH_NODE_TYPE_MEM_FREE, &memory)
                      : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *dptr_out = memory->base;
    return rc_graph_leave(result);
}

/* ---- of devices ---- */

/* The lock, then the device; on an error without the lock. */
static CUresult enter_device(CUdevice handle, const void *value, rc_device_t **device)
{
    CUresult result = rc_check();
    if (result)
        return result;
    *device = rc_device(handle);
    if (!*device || !value)
        return *device ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    rc_graph_lock();
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    rc_device_t *found;
    CUresult result = enter_device(device, value, &found);
    return result ? result : rc_graph_leave(rc_graph_memory_attribute(found, attr, value));
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    rc_device_t *found;
    CUresult result = enter_device(device, value, &found);
    return result ? result
                  : rc_graph_leave(rc_graph_memory_reset(found, attr, *(const uint64_t *)value));
}

/* Memory of a graph goes with the graph: there is nothing to give back earlier. */
CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    rc_device_t *found;
    CUresult result = enter_device(device, "", &found);
    return result ? result : rc_graph_leave(CUDA_SUCCESS);
}
