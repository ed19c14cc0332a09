/* Entry points: stream capture. */
#include "gb_cuda_api.h"
#include "gpu-proxy/cpu/driver/cpu_capture.h"
#include "gpu-proxy/cpu/driver/cpu_graph_nodes.h"
#include "gpu-proxy/cpu/driver/cpu_stream.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"

enum { SET_DEPENDENCIES = 1 }; /* CU_STREAM_SET_CAPTURE_DEPENDENCIES; 0 adds */

static CUresult enter(CUstream handle, cpu_stream_t **stream)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    return result ? result : cpu_stream_get(context, handle, stream);
}

static CUresult leave(cpu_stream_t *stream, CUresult result)
{
    cpu_object_put(&stream->object);
    return result;
}

CUresult cuStreamBeginCapture_v2(CUstream hStream, CUstreamCaptureMode mode)
{
    cpu_stream_t *stream;
    CUresult result = enter(hStream, &stream);
    if (result)
        return result;
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return leave(stream, CUDA_ERROR_INVALID_VALUE);
    cpu_graph_lock();
    result = cpu_capture_begin(stream, mode, NULL, NULL, 0);
    cpu_graph_unlock();
    return leave(stream, result);
}

static CUresult begin_in(cpu_stream_t *stream, CUgraph handle, const CUgraphNode *dependencies,
                         size_t count, CUstreamCaptureMode mode)
{
    cpu_graph_t *graph;
    cpu_graph_node_t **nodes;
    CUresult result = cpu_graph_get(handle, &graph);
    if (result)
        return result;
    result = cpu_nodes_get(dependencies, count, &nodes);
    if (!result) {
        for (size_t i = 0; !result && i < count; i++)
            result = nodes[i]->graph == graph ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
        if (!result)
            result = cpu_capture_begin(stream, mode, graph, nodes, count);
        cpu_nodes_put(nodes, count);
    }
    cpu_object_put(&graph->object);
    return result;
}

CUresult cuStreamBeginCaptureToGraph(CUstream hStream, CUgraph hGraph,
                                     const CUgraphNode *dependencies,
                                     const CUgraphEdgeData *dependencyData, size_t numDependencies,
                                     CUstreamCaptureMode mode)
{
    cpu_stream_t *stream;
    (void)dependencyData; /* edges have no data here */
    CUresult result = enter(hStream, &stream);
    if (result)
        return result;
    if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return leave(stream, CUDA_ERROR_INVALID_VALUE);
    cpu_graph_lock();
    result = begin_in(stream, hGraph, dependencies, numDependencies, mode);
    cpu_graph_unlock();
    return leave(stream, result);
}

CUresult cuStreamEndCapture(CUstream hStream, CUgraph *phGraph)
{
    cpu_stream_t *stream;
    cpu_graph_t *graph = NULL;
    CUresult result = enter(hStream, &stream);
    if (result)
        return result;
    if (!phGraph)
        return leave(stream, CUDA_ERROR_INVALID_VALUE);
    cpu_graph_lock();
    result = cpu_capture_end(stream, &graph);
    *phGraph = graph ? (CUgraph)(uintptr_t)graph->object.handle : NULL;
    if (graph)
        cpu_object_put(&graph->object);
    cpu_graph_unlock();
    return leave(stream, result);
}

CUresult cuStreamIsCapturing(CUstream hStream, CUstreamCaptureStatus *captureStatus)
{
    return cuStreamGetCaptureInfo_v3(hStream, captureStatus, NULL, NULL, NULL, NULL, NULL);
}

CUresult cuStreamGetCaptureInfo_v3(CUstream hStream, CUstreamCaptureStatus *captureStatus_out,
                                   uint64_t *id_out, CUgraph *graph_out,
                                   const CUgraphNode **dependencies_out,
                                   const CUgraphEdgeData **edgeData_out,
                                   size_t *numDependencies_out)
{
    cpu_stream_t *stream;
    cpu_capture_info_t info;
    CUresult result = enter(hStream, &stream);
    if (result)
        return result;
    if (!captureStatus_out)
        return leave(stream, CUDA_ERROR_INVALID_VALUE);
    cpu_graph_lock();
    result = cpu_capture_info(stream, &info);
    if (!result) {
        *captureStatus_out = info.status;
        if (id_out && info.status)
            *id_out = info.id;
        if (graph_out && info.status)
            *graph_out = (CUgraph)(uintptr_t)info.graph->object.handle;
        if (dependencies_out && info.status)
            *dependencies_out = info.tips;
        if (edgeData_out) /* NULL: all edges are plain */
            *edgeData_out = NULL;
        if (numDependencies_out && info.status)
            *numDependencies_out = info.tip_count;
    }
    cpu_graph_unlock();
    return leave(stream, result);
}

CUresult cuStreamUpdateCaptureDependencies_v2(CUstream hStream, CUgraphNode *dependencies,
                                              const CUgraphEdgeData *dependencyData,
                                              size_t numDependencies, unsigned int flags)
{
    cpu_stream_t *stream;
    cpu_graph_node_t **nodes;
    (void)dependencyData;
    CUresult result = enter(hStream, &stream);
    if (result)
        return result;
    if (flags > SET_DEPENDENCIES)
        return leave(stream, CUDA_ERROR_INVALID_VALUE);
    cpu_graph_lock();
    result = cpu_nodes_get(dependencies, numDependencies, &nodes);
    if (!result) {
        result = cpu_capture_set_tips(stream, nodes, numDependencies, flags == SET_DEPENDENCIES);
        cpu_nodes_put(nodes, numDependencies);
    }
    cpu_graph_unlock();
    return leave(stream, result);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    if (!cpu_driver())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return CUDA_ERROR_INVALID_VALUE;
    *mode = cpu_capture_exchange_mode(*mode);
    return CUDA_SUCCESS;
}
