#include "gpu-proxy/cpu/driver/cpu_graph_nodes.h"

#include <stdlib.h>

#include "gpu-proxy/cpu/driver/cpu_thread.h"

CUresult cpu_graph_enter(void)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_peek(&context);
    if (!result)
        cpu_graph_lock();
    return result;
}

CUresult cpu_graph_leave(CUresult result)
{
    cpu_graph_unlock();
    return result;
}

CUresult cpu_nodes_get(const CUgraphNode *handles, size_t count, cpu_graph_node_t ***nodes)
{
    if (count && !handles)
        return CUDA_ERROR_INVALID_VALUE;
    cpu_graph_node_t **found = calloc(count + 1, sizeof(*found));
    if (!found)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        CUresult result = cpu_graph_node_get(handles[i], &found[i]);
        if (result) {
            cpu_nodes_put(found, i);
            return result;
        }
    }
    *nodes = found;
    return CUDA_SUCCESS;
}

void cpu_nodes_put(cpu_graph_node_t **nodes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        cpu_object_put(&nodes[i]->object);
    free(nodes);
}

CUresult cpu_graph_add_work(CUgraph handle, cpu_work_t *work, const CUgraphNode *dependencies,
                            size_t count, CUgraphNode *out)
{
    cpu_graph_t *graph;
    cpu_graph_node_t **after, *node;
    CUresult result = out ? cpu_graph_get(handle, &graph) : CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        result = cpu_nodes_get(dependencies, count, &after);
        if (!result) {
            result = cpu_graph_add(graph, work, after, count, true, &node);
            if (!result)
                *out = (CUgraphNode)(uintptr_t)node->object.handle;
            cpu_nodes_put(after, count);
            cpu_object_put(&graph->object);
            return result;
        }
        cpu_object_put(&graph->object);
    }
    cpu_work_drop(work);
    return result;
}
