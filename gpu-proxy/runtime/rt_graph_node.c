/* Nodes whose parameters the runtime describes in its own way: kernels by host function, copies by
 * kind and symbol. */
#include "gpu-proxy/runtime/rt_copy.h"
#include "gpu-proxy/runtime/rt_module.h"
#include "gpu-proxy/runtime/rt_state.h"

#include <string.h>

_Static_assert(sizeof(struct cudaHostNodeParams) == sizeof(CUDA_HOST_NODE_PARAMS) &&
                   sizeof(struct cudaMemsetParams) == sizeof(CUDA_MEMSET_NODE_PARAMS) &&
                   sizeof(struct cudaMemAllocNodeParams) == sizeof(CUDA_MEM_ALLOC_NODE_PARAMS),
               "these parameters are passed on as they come");

/* rt_enter, and the context that copies and fills belong to. */
static int enter(const void *params, CUcontext *context)
{
    int error = rt_enter();
    if (!error && !params)
        error = cudaErrorInvalidValue;
    return error ? error : (int)rt_cu->cuCtxGetCurrent(context);
}

/* ---- kernels ---- */

static int kernel_in(const struct cudaKernelNodeParams *p, CUDA_KERNEL_NODE_PARAMS *out)
{
    CUkernel kernel;
    CUcontext context;
    int error = enter(p, &context);
    if (!error)
        error = rt_kernel_of(p->func, &kernel);
    if (!error)
        *out = (CUDA_KERNEL_NODE_PARAMS){.gridDimX = p->gridDim.x,
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

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                   const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                   const struct cudaKernelNodeParams *pNodeParams)
{
    CUDA_KERNEL_NODE_PARAMS p;
    int error = kernel_in(pNodeParams, &p);
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphAddKernelNode_v2(pGraphNode, graph, pDependencies,
                                                                 numDependencies, &p));
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                         const struct cudaKernelNodeParams *pNodeParams)
{
    CUDA_KERNEL_NODE_PARAMS p;
    int error = kernel_in(pNodeParams, &p);
    return rt_result(error ? error : (int)rt_cu->cuGraphKernelNodeSetParams_v2(node, &p));
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                             const struct cudaKernelNodeParams *pNodeParams)
{
    CUDA_KERNEL_NODE_PARAMS p;
    int error = kernel_in(pNodeParams, &p);
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphExecKernelNodeSetParams_v2(hGraphExec, node, &p));
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node,
                                         struct cudaKernelNodeParams *pNodeParams)
{
    CUDA_KERNEL_NODE_PARAMS p;
    int error = rt_enter();
    if (!error && !pNodeParams)
        error = cudaErrorInvalidValue;
    if (!error)
        error = (int)rt_cu->cuGraphKernelNodeGetParams_v2(node, &p);
    if (!error)
        *pNodeParams =
            (struct cudaKernelNodeParams){.func = p.kern ? rt_kernel_name(p.kern) : (void *)p.func,
                                          .gridDim = {p.gridDimX, p.gridDimY, p.gridDimZ},
                                          .blockDim = {p.blockDimX, p.blockDimY, p.blockDimZ},
                                          .sharedMemBytes = p.sharedMemBytes,
                                          .kernelParams = p.kernelParams,
                                          .extra = p.extra};
    return rt_result(error);
}

/* ---- copies ---- */

typedef struct {
    CUDA_MEMCPY3D copy;
    CUcontext context;
} node_copy_t;

static int copy_in(const struct cudaMemcpy3DParms *p, node_copy_t *out)
{
    int error = enter(p, &out->context);
    return error ? error : rt_copy_3d(p, &out->copy);
}

static int copy_1d_in(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
                      node_copy_t *out)
{
    int error = enter(&count, &out->context);
    return error ? error : rt_copy_1d(dst, src, count, kind, &out->copy);
}

/* `symbol` is the destination if `to`, else the source; `other` is the other side. */
static int copy_symbol_in(const void *symbol, void *other, size_t count, size_t offset,
                          enum cudaMemcpyKind kind, int to, node_copy_t *out)
{
    CUdeviceptr address;
    size_t bytes;
    int error = enter(&count, &out->context);
    if (!error)
        error = rt_symbol_of(symbol, &address, &bytes);
    if (!error && (offset > bytes || count > bytes - offset))
        error = cudaErrorInvalidValue;
    if (error)
        return error;
    char *part = (char *)(uintptr_t)address + offset;
    return to ? rt_copy_1d(part, other, count, kind, &out->copy)
              : rt_copy_1d(other, part, count, kind, &out->copy);
}

static int add_copy(int error, cudaGraphNode_t *node, cudaGraph_t graph,
                    const cudaGraphNode_t *dependencies, size_t count, const node_copy_t *c)
{
    return error ? error
                 : (int)rt_cu->cuGraphAddMemcpyNode(node, graph, dependencies, count, &c->copy,
                                                    c->context);
}

static int set_copy(int error, cudaGraphNode_t node, const node_copy_t *c)
{
    return error ? error : (int)rt_cu->cuGraphMemcpyNodeSetParams(node, &c->copy);
}

static int set_exec_copy(int error, cudaGraphExec_t exec, cudaGraphNode_t node,
                         const node_copy_t *c)
{
    return error ? error
                 : (int)rt_cu->cuGraphExecMemcpyNodeSetParams(exec, node, &c->copy, c->context);
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                   const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                   const struct cudaMemcpy3DParms *pCopyParams)
{
    node_copy_t c;
    int error = copy_in(pCopyParams, &c);
    return rt_result(add_copy(error, pGraphNode, graph, pDependencies, numDependencies, &c));
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                     const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                     void *dst, const void *src, size_t count,
                                     enum cudaMemcpyKind kind)
{
    node_copy_t c;
    int error = copy_1d_in(dst, src, count, kind, &c);
    return rt_result(add_copy(error, pGraphNode, graph, pDependencies, numDependencies, &c));
}

cudaError_t cudaGraphAddMemcpyNodeToSymbol(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                           const cudaGraphNode_t *pDependencies,
                                           size_t numDependencies, const void *symbol,
                                           const void *src, size_t count, size_t offset,
                                           enum cudaMemcpyKind kind)
{
    node_copy_t c;
    int error = copy_symbol_in(symbol, (void *)(uintptr_t)src, count, offset, kind, 1, &c);
    return rt_result(add_copy(error, pGraphNode, graph, pDependencies, numDependencies, &c));
}

cudaError_t cudaGraphAddMemcpyNodeFromSymbol(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                             const cudaGraphNode_t *pDependencies,
                                             size_t numDependencies, void *dst, const void *symbol,
                                             size_t count, size_t offset, enum cudaMemcpyKind kind)
{
    node_copy_t c;
    int error = copy_symbol_in(symbol, dst, count, offset, kind, 0, &c);
    return rt_result(add_copy(error, pGraphNode, graph, pDependencies, numDependencies, &c));
}

cudaError_t cudaGraphMemcpyNodeSetParams(cudaGraphNode_t node,
                                         const struct cudaMemcpy3DParms *pNodeParams)
{
    node_copy_t c;
    int error = copy_in(pNodeParams, &c);
    return rt_result(set_copy(error, node, &c));
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *dst, const void *src,
                                           size_t count, enum cudaMemcpyKind kind)
{
    node_copy_t c;
    int error = copy_1d_in(dst, src, count, kind, &c);
    return rt_result(set_copy(error, node, &c));
}

cudaError_t cudaGraphMemcpyNodeSetParamsToSymbol(cudaGraphNode_t node, const void *symbol,
                                                 const void *src, size_t count, size_t offset,
                                                 enum cudaMemcpyKind kind)
{
    node_copy_t c;
    int error = copy_symbol_in(symbol, (void *)(uintptr_t)src, count, offset, kind, 1, &c);
    return rt_result(set_copy(error, node, &c));
}

cudaError_t cudaGraphMemcpyNodeSetParamsFromSymbol(cudaGraphNode_t node, void *dst,
                                                   const void *symbol, size_t count, size_t offset,
                                                   enum cudaMemcpyKind kind)
{
    node_copy_t c;
    int error = copy_symbol_in(symbol, dst, count, offset, kind, 0, &c);
    return rt_result(set_copy(error, node, &c));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                             const struct cudaMemcpy3DParms *pNodeParams)
{
    node_copy_t c;
    int error = copy_in(pNodeParams, &c);
    return rt_result(set_exec_copy(error, hGraphExec, node, &c));
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                               void *dst, const void *src, size_t count,
                                               enum cudaMemcpyKind kind)
{
    node_copy_t c;
    int error = copy_1d_in(dst, src, count, kind, &c);
    return rt_result(set_exec_copy(error, hGraphExec, node, &c));
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsToSymbol(cudaGraphExec_t hGraphExec,
                                                     cudaGraphNode_t node, const void *symbol,
                                                     const void *src, size_t count, size_t offset,
                                                     enum cudaMemcpyKind kind)
{
    node_copy_t c;
    int error = copy_symbol_in(symbol, (void *)(uintptr_t)src, count, offset, kind, 1, &c);
    return rt_result(set_exec_copy(error, hGraphExec, node, &c));
}

cudaError_t cudaGraphExecMemcpyNodeSetParamsFromSymbol(cudaGraphExec_t hGraphExec,
                                                       cudaGraphNode_t node, void *dst,
                                                       const void *symbol, size_t count,
                                                       size_t offset, enum cudaMemcpyKind kind)
{
    node_copy_t c;
    int error = copy_symbol_in(symbol, dst, count, offset, kind, 0, &c);
    return rt_result(set_exec_copy(error, hGraphExec, node, &c));
}

static void pointer_out(CUmemorytype type, const void *host, CUdeviceptr device, size_t pitch,
                        size_t height, struct cudaPitchedPtr *out)
{
    if (type == CU_MEMORYTYPE_ARRAY)
        return;
    out->ptr = type == CU_MEMORYTYPE_HOST ? (void *)(uintptr_t)host : (void *)(uintptr_t)device;
    out->pitch = pitch;
    out->xsize = pitch;
    out->ysize = height;
}

static enum cudaMemcpyKind kind_out(CUmemorytype src, CUmemorytype dst)
{
    if (src == CU_MEMORYTYPE_UNIFIED || dst == CU_MEMORYTYPE_UNIFIED)
        return cudaMemcpyDefault;
    if (src == CU_MEMORYTYPE_HOST)
        return dst == CU_MEMORYTYPE_HOST ? cudaMemcpyHostToHost : cudaMemcpyHostToDevice;
    return dst == CU_MEMORYTYPE_HOST ? cudaMemcpyDeviceToHost : cudaMemcpyDeviceToDevice;
}

static int copy_out(const CUDA_MEMCPY3D *c, struct cudaMemcpy3DParms *out)
{
    struct cudaMemcpy3DParms p = {0};
    size_t from = 1, to = 1;
    int error = 0;
    if (c->srcMemoryType == CU_MEMORYTYPE_ARRAY)
        error = rt_array_element(p.srcArray = c->srcArray, &from);
    if (!error && c->dstMemoryType == CU_MEMORYTYPE_ARRAY)
        error = rt_array_element(p.dstArray = c->dstArray, &to);
    if (error)
        return error;
    pointer_out(c->srcMemoryType, c->srcHost, c->srcDevice, c->srcPitch, c->srcHeight, &p.srcPtr);
    pointer_out(c->dstMemoryType, c->dstHost, c->dstDevice, c->dstPitch, c->dstHeight, &p.dstPtr);
    p.srcPos = (struct cudaPos){c->srcXInBytes / from, c->srcY, c->srcZ};
    p.dstPos = (struct cudaPos){c->dstXInBytes / to, c->dstY, c->dstZ};
    p.extent = (struct cudaExtent){c->WidthInBytes / (p.srcArray ? from : to), c->Height, c->Depth};
    p.kind = kind_out(c->srcMemoryType, c->dstMemoryType);
    *out = p;
    return 0;
}

cudaError_t cudaGraphMemcpyNodeGetParams(cudaGraphNode_t node,
                                         struct cudaMemcpy3DParms *pNodeParams)
{
    CUDA_MEMCPY3D c;
    int error = rt_enter();
    if (!error && !pNodeParams)
        error = cudaErrorInvalidValue;
    if (!error)
        error = (int)rt_cu->cuGraphMemcpyNodeGetParams(node, &c);
    return rt_result(error ? error : copy_out(&c, pNodeParams));
}

/* ---- fills, host functions, allocations ---- */

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                   const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                   const struct cudaMemsetParams *pMemsetParams)
{
    CUcontext context;
    int error = enter(pMemsetParams, &context);
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphAddMemsetNode(
                                 pGraphNode, graph, pDependencies, numDependencies,
                                 (const CUDA_MEMSET_NODE_PARAMS *)(const void *)pMemsetParams,
                                 context));
}

cudaError_t cudaGraphMemsetNodeSetParams(cudaGraphNode_t node,
                                         const struct cudaMemsetParams *pNodeParams)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphMemsetNodeSetParams(
                                 node, (const CUDA_MEMSET_NODE_PARAMS *)(const void *)pNodeParams));
}

cudaError_t cudaGraphMemsetNodeGetParams(cudaGraphNode_t node, struct cudaMemsetParams *pNodeParams)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphMemsetNodeGetParams(
                                 node, (CUDA_MEMSET_NODE_PARAMS *)(void *)pNodeParams));
}

cudaError_t cudaGraphExecMemsetNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                             const struct cudaMemsetParams *pNodeParams)
{
    CUcontext context;
    int error = enter(pNodeParams, &context);
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphExecMemsetNodeSetParams(
                                 hGraphExec, node,
                                 (const CUDA_MEMSET_NODE_PARAMS *)(const void *)pNodeParams,
                                 context));
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                 const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                 const struct cudaHostNodeParams *pNodeParams)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphAddHostNode(
                                 pGraphNode, graph, pDependencies, numDependencies,
                                 (const CUDA_HOST_NODE_PARAMS *)(const void *)pNodeParams));
}

cudaError_t cudaGraphHostNodeGetParams(cudaGraphNode_t node, struct cudaHostNodeParams *pNodeParams)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphHostNodeGetParams(
                                 node, (CUDA_HOST_NODE_PARAMS *)(void *)pNodeParams));
}

cudaError_t cudaGraphHostNodeSetParams(cudaGraphNode_t node,
                                       const struct cudaHostNodeParams *pNodeParams)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphHostNodeSetParams(
                                 node, (const CUDA_HOST_NODE_PARAMS *)(const void *)pNodeParams));
}

cudaError_t cudaGraphExecHostNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                           const struct cudaHostNodeParams *pNodeParams)
{
    int error = rt_enter();
    return rt_result(
        error ? error
              : (int)rt_cu->cuGraphExecHostNodeSetParams(
                    hGraphExec, node, (const CUDA_HOST_NODE_PARAMS *)(const void *)pNodeParams));
}

cudaError_t cudaGraphAddMemAllocNode(cudaGraphNode_t *pGraphNode, cudaGraph_t graph,
                                     const cudaGraphNode_t *pDependencies, size_t numDependencies,
                                     struct cudaMemAllocNodeParams *nodeParams)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphAddMemAllocNode(
                                 pGraphNode, graph, pDependencies, numDependencies,
                                 (CUDA_MEM_ALLOC_NODE_PARAMS *)(void *)nodeParams));
}

cudaError_t cudaGraphMemAllocNodeGetParams(cudaGraphNode_t node,
                                           struct cudaMemAllocNodeParams *params_out)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuGraphMemAllocNodeGetParams(
                                 node, (CUDA_MEM_ALLOC_NODE_PARAMS *)(void *)params_out));
}

cudaError_t cudaGraphMemFreeNodeGetParams(cudaGraphNode_t node, void *dptr_out)
{
    int error = rt_enter();
    return rt_result(
        error ? error : (int)rt_cu->cuGraphMemFreeNodeGetParams(node, (CUdeviceptr *)dptr_out));
}
