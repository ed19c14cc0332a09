/* Stream capture. */
#include <stdlib.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_capture.h"

enum { SET_DEPENDENCIES = 1 }; /* CU_STREAM_SET_CAPTURE_DEPENDENCIES; 0 adds */

/* The call's stream, then the lock; on an error without it. */
static CUresult enter(CUstream handle, rc_call_t *call)
{
    uint64_t wire;
    CUresult result = rc_begin_in_context(call);
    if (!result)
        result = rc_use_stream(call, handle, &wire);
    if (!result)
        rc_graph_lock();
    return result;
}

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
    rc_call_t call;
    CUresult result = enter(hStream, &call);
    if (result)
        return result;
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return rc_graph_leave(CUDA_ERROR_INVALID_VALUE);
    return rc_graph_leave(rc_capture_begin(&call, mode, NULL, NULL, 0));
}

static CUresult begin_in(rc_call_t *call, CUgraph handle, const CUgraphNode *dependencies,
                         size_t count, CUstreamCaptureMode mode)
{
    rc_graph_t *graph;
    rc_node_t **nodes;
    CUresult result = rc_graph_get(handle, &graph);
    if (!result)
        result = rc_nodes_get(dependencies, count, &nodes);
    if (result)
        return result;
    for (size_t i = 0; !result && i < count; i++)
        result = nodes[i]->graph == graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = rc_capture_begin(call, mode, graph, nodes, count);
    free(nodes);
    return result;
}

CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                     const CUgraphNode *dependencies,
                                     const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                     CUstreamCaptureMode mode)
{
    rc_call_t call;
    (void)dependencyData; /* edges have no data here */
    CUresult result = enter(hStream, &call);
    if (result)
        return result;
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return rc_graph_leave(CUDA_ERROR_INVALID_VALUE);
    return rc_graph_leave(begin_in(&call, hGraph, dependencies, numDependencies, mode));
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
    rc_call_t call;
    rc_graph_t *graph = NULL;
    CUresult result = enter(hStream, &call);
    if (result)
        return result;
    if (!phGraph)
        return rc_graph_leave(CUDA_ERROR_INVALID_VALUE);
    result = rc_capture_end(&call, &graph);
    *phGraph = graph ? rc_handle(graph->object) : NULL;
    return rc_graph_leave(result);
}

CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                   uint64_t *id_out, CUgraph *graph_out,
                                   const CUgraphNode **dependencies_out,
                                   const CUgraphEdgeData **edgeData_out,
                                   size_t *numDependencies_out)
{
    rc_call_t call;
    rc_capture_info_t info;
    CUresult result = enter(hStream, &call);
    if (result)
        return result;
    if (!captureStatus_out)
        return rc_graph_leave(CUDA_ERROR_INVALID_VALUE);
    result = rc_capture_info(&call, &info);
    if (result)
        return rc_graph_leave(result);
    *captureStatus_out = info.status;
    if (id_out && info.status)
        *id_out = info.id;
    if (graph_out && info.status)
        *graph_out = info.graph ? rc_handle(info.graph->object) : NULL;
    if (dependencies_out && info.status)
        *dependencies_out = info.tips;
    if (edgeData_out) /* NULL: all edges are plain */
        *edgeData_out = NULL;
    if (numDependencies_out && info.status)
        *numDependencies_out = info.tip_count;
    return rc_graph_leave(CUDA_SUCCESS);
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
    return cuStreamGetCaptureInfo_v3(hStream, captureStatus, NULL, NULL, NULL, NULL, NULL);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
                                              const CUgraphEdgeData *dependencyData,
                                              size_t numDependencies, unsigned int flags)
{
    rc_call_t call;
    rc_node_t **nodes;
    (void)dependencyData;
    CUresult result = enter(hStream, &call);
    if (result)
        return result;
    if (flags > SET_DEPENDENCIES)
        return rc_graph_leave(CUDA_ERROR_INVALID_VALUE);
    result = rc_nodes_get(dependencies, numDependencies, &nodes);
    if (!result) {
        result = rc_capture_set_tips(&call, nodes, numDependencies, flags == SET_DEPENDENCIES);
        free(nodes);
    }
    return rc_graph_leave(result);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUresult result = rc_check();
    if (result)
        return result;
    if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = rc_capture_exchange_mode(*mode);
    return CUDA_SUCCESS;
}
