/* Entry points: nodes that allocate and free memory, and what devices keep for them. */
#include "gb_cuda_api.h"
#include "gpu-proxy/cpu/driver/cpu_graph_memory.h"
#include "gpu-proxy/cpu/driver/cpu_graph_nodes.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"

CUresult cuGraphAddMemAllocNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                                const CUgraphNode *dependencies, size_t numDependencies,
                                CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams)
{
    cpu_work_t work;
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    result = cpu_work_mem_alloc(nodeParams, &work);
    return cpu_graph_leave(
        result ? result
               : cpu_graph_add_work(hGraph, &work, dependencies, numDependencies, phGraphNode));
}

CUresult cuGraphAddMemFreeNode(CUgraphNode *phGraphNode, CUgraph hGraph,
                               const CUgraphNode *dependencies, size_t numDependencies,
                               CUdeviceptr dptr)
{
    cpu_work_t work;
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    result = cpu_work_mem_free(dptr, &work);
    return cpu_graph_leave(
        result ? result
               : cpu_graph_add_work(hGraph, &work, dependencies, numDependencies, phGraphNode));
}

/* The memory of a node of this kind. */
static CUresult memory_of(CUgraphNode handle, CUgraphNodeType type, cpu_graph_node_t **node)
{
    CUresult result = cpu_graph_node_get(handle, node);
    if (!result && (*node)->work.type != type) {
        cpu_object_put(&(*node)->object);
        result = CUDA_ERROR_INVALID_VALUE;
    }
    return result;
}

CUresult cuGraphMemAllocNodeGetParams(CUgraphNode hNode, CUDA_MEM_ALLOC_NODE_PARAMS *params_out)
{
    cpu_graph_node_t *node;
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    result = params_out ? memory_of(hNode, CU_GRAPH_NODE_TYPE_MEM_ALLOC, &node)
                        : CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        *params_out = node->work.memory->params;
        cpu_object_put(&node->object);
    }
    return cpu_graph_leave(result);
}

CUresult cuGraphMemFreeNodeGetParams(CUgraphNode hNode, CUdeviceptr *dptr_out)
{
    cpu_graph_node_t *node;
    CUresult result = cpu_graph_enter();
    if (result)
        return result;
    result =
        dptr_out ? memory_of(hNode, CU_GRAPH_NODE_TYPE_MEM_FREE, &node) : CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        *dptr_out = node->work.memory->base;
        cpu_object_put(&node->object);
    }
    return cpu_graph_leave(result);
}

/* ---- of devices ---- */

CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    cpu_device_t *found;
    CUresult result = cpu_device_get(device, &found);
    if (result)
        return result;
    return value ? cpu_graph_memory_attribute(found->index, attr, value) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attr, void *value)
{
    cpu_device_t *found;
    CUresult result = cpu_device_get(device, &found);
    if (result)
        return result;
    return value ? cpu_graph_memory_reset(found->index, attr, *(const uint64_t *)value)
                 : CUDA_ERROR_INVALID_VALUE;
}

/* Memory of a graph goes with the graph: there is nothing to give back earlier. */
CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    cpu_device_t *found;
    return cpu_device_get(device, &found);
}
