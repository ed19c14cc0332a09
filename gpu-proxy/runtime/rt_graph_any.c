/* Nodes of any kind, described by one structure. */
#include <string.h>

#include "gpu-proxy/runtime/rt_copy.h"
#include "gpu-proxy/runtime/rt_module.h"
#include "gpu-proxy/runtime/rt_state.h"

static int kernel_in(const struct cudaKernelNodeParamsV2 *p, CUDA_KERNEL_NODE_PARAMS_v3 *out)
{
    CUkernel kernel;
    int error = rt_kernel_of(p->func, &kernel);
    if (!error)
        *out = (CUDA_KERNEL_NODE_PARAMS_v3){.gridDimX = p->gridDim.x,
                                            .gridDimY = p->gridDim.y,
                                            .gridDimZ = p->gridDim.z,
                                            .blockDimX = p->blockDim.x,
                                            .blockDimY = p->blockDim.y,
                                            .blockDimZ = p->blockDim.z,
                                            .sharedMemBytes = p->sharedMemBytes,
                                            .kernelParams = p->kernelParams,
                                            .extra = p->extra,
                                            .kern = kernel};
    return error;
}

static void memset_in(const struct cudaMemsetParamsV2 *p, CUcontext context,
                      CUDA_MEMSET_NODE_PARAMS_v2 *out)
{
    *out = (CUDA_MEMSET_NODE_PARAMS_v2){.dst = (CUdeviceptr)(uintptr_t)p->dst,
                                        .pitch = p->pitch,
                                        .value = p->value,
                                        .elementSize = p->elementSize,
                                        .width = p->width,
                                        .height = p->height,
                                        .ctx = context};
}

static int params_in(const struct cudaGraphNodeParams *p, CUgraphNodeParams *out)
{
    CUcontext context;
    int error = rt_enter();
    if (!error && !p)
        error = cudaErrorInvalidValue;
    if (!error)
        error = (int)rt_cu->cuCtxGetCurrent(&context);
    if (error)
        return error;
    memset(out, 0, sizeof(*out));
    out->type = (CUgraphNodeType)p->type;
    switch (out->type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return kernel_in(&p->kernel, &out->kernel);
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        out->memcpy.copyCtx = context;
        return rt_copy_3d(&p->memcpy.copyParams, &out->memcpy.copyParams);
    case CU_GRAPH_NODE_TYPE_MEMSET:
        memset_in(&p->memset, context, &out->memset);
        return 0;
    default: /* the others are the same in both */
        _Static_assert(sizeof(p->reserved1) == sizeof(out->reserved1), "one layout");
        memcpy(out->reserved1, p->reserved1, sizeof(out->reserved1));
        return 0;
    }
}

/* Where an allocation lies. */
static void params_out(const CUgraphNodeParams *p, struct cudaGraphNodeParams *out)
{
    if (p->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC)
        out->alloc.dptr = (void *)(uintptr_t)p->alloc.dptr;
}

cudaError_t cudaGraphAddNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                             const cudaGraphNode_t *pDependencies,
                             const cudaGraphEdgeData *dependencyData, size_t numDependencies,
                             struct cudaGraphNodeParams *nodeParams)
{
    CUgraphNodeParams p;
    int error = params_in(nodeParams, &p);
    if (!error)
        error = (int)rt_cu->cuGraphAddNode_v2(pGraphNode, graph, pDependencies, dependencyData,
                                              numDependencies, &p);
    if (!error)
        params_out(&p, nodeParams);
    return rt_result(error);
}

cudaError_t cudaGraphNodeSetParams(cudaGraphNode_t node, struct cudaGraphNodeParams *nodeParams)
{
    CUgraphNodeParams p;
    int error = params_in(nodeParams, &p);
    return rt_result(error ? error : (int)rt_cu->cuGraphNodeSetParams(node, &p));
}

cudaError_t cudaGraphExecNodeSetParams(cudaGraphExec_t graphExec, cudaGraphNode_t node,
                                       struct cudaGraphNodeParams *nodeParams)
{
    CUgraphNodeParams p;
    int error = params_in(nodeParams, &p);
    return rt_result(error ? error : (int)rt_cu->cuGraphExecNodeSetParams(graphExec, node, &p));
}
