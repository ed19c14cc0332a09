/* Graphs and stream capture where driver and runtime differ in names only. */
#include "gpu-proxy/runtime/rt_state.h"

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                       const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                       cudaGraph_t childGraph)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphAddChildGraphNode(pGraphNode, graph, pDependencies,
                                                                  numDependencies, childGraph));
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                     const cudaGraphNode_t *to, const cudaGraphEdgeData *edgeData,
                                     size_t numDependencies)
{
    int error = rt_enter();
    return rt_result(
        error ? error
              : (int)rt_cu->cuGraphAddDependencies_v2(graph, from, to, edgeData, numDependencies));
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                  const cudaGraphNode_t *pDependencies, size_t numDependencies)
{
    int error = rt_enter();
    return rt_result(
        error ? error
              : (int)rt_cu->cuGraphAddEmptyNode(pGraphNode, graph, pDependencies, numDependencies));
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                        const cudaGraphNode_t *pDependencies,
                                        size_t numDependencies, cudaEvent_t event)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphAddEventRecordNode(pGraphNode, graph, pDependencies,
                                                                   numDependencies, event));
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                      const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                      cudaEvent_t event)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphAddEventWaitNode(pGraphNode, graph, pDependencies,
                                                                 numDependencies, event));
}

cudaError_t cudaGraphAddMemFreeNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                    const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                    void *dptr)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphAddMemFreeNode(pGraphNode, graph, pDependencies,
                                                               numDependencies, (CUdeviceptr)dptr));
}

cudaError_t cudaGraphChildGraphNodeGetGraph(cudaGraphNode_t node, cudaGraph_t *pGraph)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuGraphChildGraphNodeGetGraph(node, pGraph));
}

cudaError_t cudaGraphClone(cudaGraph_t *pGraphClone, cudaGraph_t originalGraph)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuGraphClone(pGraphClone, originalGraph));
}

cudaError_t cudaGraphCreate(cudaGraph_t *pGraph, unsigned int flags)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuGraphCreate(pGraph, flags));
}

cudaError_t cudaGraphDebugDotPrint(cudaGraph_t graph, const char *path, unsigned int flags)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuGraphDebugDotPrint(graph, path, flags));
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuGraphDestroy(graph));
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuGraphDestroyNode(node));
}

cudaError_t cudaGraphEventRecordNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event_out)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuGraphEventRecordNodeGetEvent(node, event_out));
}

cudaError_t cudaGraphEventRecordNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuGraphEventRecordNodeSetEvent(node, event));
}

cudaError_t cudaGraphEventWaitNodeGetEvent(cudaGraphNode_t node, cudaEvent_t *event_out)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuGraphEventWaitNodeGetEvent(node, event_out));
}

cudaError_t cudaGraphEventWaitNodeSetEvent(cudaGraphNode_t node, cudaEvent_t event)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuGraphEventWaitNodeSetEvent(node, event));
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuGraphExecDestroy(graphExec));
}

cudaError_t cudaGraphExecEventRecordNodeSetEvent(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                                 cudaEvent_t event)
{
    int error = rt_enter();
    return rt_result(
        error ? error : (int)rt_cu->cuGraphExecEventRecordNodeSetEvent(hGraphExec, hNode, event));
}

cudaError_t cudaGraphExecEventWaitNodeSetEvent(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                               cudaEvent_t event)
{
    int error = rt_enter();
    return rt_result(
        error ? error : (int)rt_cu->cuGraphExecEventWaitNodeSetEvent(hGraphExec, hNode, event));
}

cudaError_t cudaGraphExecGetFlags(cudaGraphExec_t graphExec, unsigned long long *flags)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuGraphExecGetFlags(graphExec, (uint64_t *)flags));
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
                                cudaGraphExecUpdateResultInfo *resultInfo)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphExecUpdate_v2(hGraphExec, hGraph, resultInfo));
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t *from, cudaGraphNode_t *to,
                              cudaGraphEdgeData *edgeData, size_t *numEdges)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphGetEdges_v2(graph, from, to, edgeData, numEdges));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *numNodes)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuGraphGetNodes(graph, nodes, numNodes));
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *pRootNodes,
                                  size_t *pNumRootNodes)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphGetRootNodes(graph, pRootNodes, pNumRootNodes));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                          unsigned long long flags)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphInstantiateWithFlags(pGraphExec, graph, flags));
}

cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                           cudaGraphInstantiateParams *instantiateParams)
{
    int error = rt_enter();
    return rt_result(
        error ? error
              : (int)rt_cu->cuGraphInstantiateWithParams(pGraphExec, graph, instantiateParams));
}

cudaError_t cudaGraphKernelNodeCopyAttributes(cudaGraphNode_t hDst, cudaGraphNode_t hSrc)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuGraphKernelNodeCopyAttributes(hDst, hSrc));
}

cudaError_t cudaGraphKernelNodeGetAttribute(cudaGraphNode_t hNode, cudaKernelNodeAttrID attr,
                                            cudaKernelNodeAttrValue *value_out)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphKernelNodeGetAttribute(hNode, attr, value_out));
}

cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t hNode, cudaKernelNodeAttrID attr,
                                            const cudaKernelNodeAttrValue *value)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuGraphKernelNodeSetAttribute(hNode, attr, value));
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuGraphLaunch(graphExec, stream));
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *pNode, cudaGraphNode_t originalNode,
                                     cudaGraph_t clonedGraph)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphNodeFindInClone(pNode, originalNode, clonedGraph));
}

cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *pDependencies,
                                         cudaGraphEdgeData *edgeData, size_t *pNumDependencies)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphNodeGetDependencies_v2(node, pDependencies,
                                                                       edgeData, pNumDependencies));
}

cudaError_t cudaGraphNodeGetDependentNodes(cudaGraphNode_t node, cudaGraphNode_t *pDependentNodes,
                                           cudaGraphEdgeData *edgeData, size_t *pNumDependentNodes)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphNodeGetDependentNodes_v2(
                                 node, pDependentNodes, edgeData, pNumDependentNodes));
}

cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                    unsigned int *isEnabled)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphNodeGetEnabled(hGraphExec, hNode, isEnabled));
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *pType)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphNodeGetType(node, (CUgraphNodeType *)pType));
}

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t hGraphExec, cudaGraphNode_t hNode,
                                    unsigned int isEnabled)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphNodeSetEnabled(hGraphExec, hNode, isEnabled));
}

cudaError_t cudaGraphRemoveDependencies(cudaGraph_t graph, const cudaGraphNode_t *from,
                                        const cudaGraphNode_t *to,
                                        const cudaGraphEdgeData *edgeData, size_t numDependencies)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphRemoveDependencies_v2(graph, from, to, edgeData,
                                                                      numDependencies));
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuGraphUpload(graphExec, stream));
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    int error = rt_enter();
    return rt_result(
        error ? error : (int)rt_cu->cuStreamBeginCapture_v2(stream, (CUstreamCaptureMode)mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *pGraph)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuStreamEndCapture(stream, pGraph));
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
                                     enum cudaStreamCaptureStatus *captureStatus_out,
                                     unsigned long long *id_out, cudaGraph_t *graph_out,
                                     const cudaGraphNode_t **dependencies_out,
                                     const cudaGraphEdgeData **edgeData_out,
                                     size_t *numDependencies_out)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuStreamGetCaptureInfo_v3(
                                 stream, (CUstreamCaptureStatus *)captureStatus_out,
                                 (uint64_t *)id_out, graph_out, dependencies_out, edgeData_out,
                                 numDependencies_out));
}

cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t stream, cudaGraphNode_t *dependencies,
                                                const cudaGraphEdgeData *dependencyData,
                                                size_t numDependencies, unsigned int flags)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuStreamUpdateCaptureDependencies_v2(
                                 stream, dependencies, dependencyData, numDependencies, flags));
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    int error = rt_enter();
    return rt_result(
        error ? error : (int)rt_cu->cuThreadExchangeStreamCaptureMode((CUstreamCaptureMode *)mode));
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                 unsigned long long flags)
{
    return cudaGraphInstantiateWithFlags(pGraphExec, graph, flags);
}

/* The stream that an upload may use is a member of the parameters. */
cudaError_t cudaGraphInstantiateWithParams_ptsz(cudaGraphExec_t *pGraphExec, cudaGraph_t graph,
                                                cudaGraphInstantiateParams *instantiateParams)
{
    if (instantiateParams && !instantiateParams->hUploadStream)
        instantiateParams->hUploadStream = cudaStreamPerThread;
    return cudaGraphInstantiateWithParams(pGraphExec, graph, instantiateParams);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *pCaptureStatus)
{
    int error = rt_enter();
    return rt_result(
        error ? error
              : (int)rt_cu->cuStreamIsCapturing(stream, (CUstreamCaptureStatus *)pCaptureStatus));
}

cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph,
                                          const cudaGraphNode_t *dependencies,
                                          const cudaGraphEdgeData *dependencyData,
                                          size_t numDependencies, enum cudaStreamCaptureMode mode)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuStreamBeginCaptureToGraph(
                                 stream, graph, dependencies, dependencyData, numDependencies,
                                 (CUstreamCaptureMode)mode));
}

cudaError_t cudaGraphExecChildGraphNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                                 cudaGraph_t childGraph)
{
    int error = rt_enter();
    return rt_result(
        error ? error
              : (int)rt_cu->cuGraphExecChildGraphNodeSetParams(hGraphExec, node, childGraph));
}

/* ---- user objects ---- */

cudaError_t cudaUserObjectCreate(cudaUserObject_t *object_out, void *ptr, cudaHostFn_t destroy,
                                 unsigned int initialRefcount, unsigned int flags)
{
    int error = rt_enter();
    return rt_result(
        error ? error
              : (int)rt_cu->cuUserObjectCreate(object_out, ptr, destroy, initialRefcount, flags));
}

cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned int count)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuUserObjectRetain(object, count));
}

cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned int count)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuUserObjectRelease(object, count));
}

cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                      unsigned int count, unsigned int flags)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphRetainUserObject(graph, object, count, flags));
}

cudaError_t cudaGraphReleaseUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                       unsigned int count)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuGraphReleaseUserObject(graph, object, count));
}
