/* Entry points: copies of boxes, to and from arrays, and between devices. */
#include "common/cuda/gb_cuda_shape.h"
#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_box.h"
#include "gpu-proxy/client/rc_capture.h"

static CUresult copy_3d(const CUDA_MEMCPY3D *copy, CUstream stream, int may_queue)
{
    rc_call_t call;
    rc_box_t box;
    uint64_t wire;
    CUresult result = rc_begin_in_context(&call);
    if (!result)
        result = rc_use_stream(&call, stream, &wire);
    if (!result)
        result = rc_box_describe(copy, &box);
    int captured = 0;
    if (!result)
        result = rc_capture_enter(&call, &captured);
    if (!result && captured) {
        rc_work_t work;
        result = rc_work_copy(&call, copy, NULL, &work);
        return result ? result : rc_capture_work(&call, &work);
    }
    return result ? result : rc_box_copy(&box, stream, may_queue);
}

/* The synchronous ones: copies to the host are done when they return, and those from it have left the
 * program's memory. */

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
    return copy_3d(pCopy, hStream, 1);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy)
{
    return copy_3d(pCopy, NULL, 0);
}

static CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream stream, int may_queue)
{
    if (!c)
        return copy_3d(NULL, stream, 0);
    CUDA_MEMCPY3D box = gb_box_of_rows(c);
    return copy_3d(&box, stream, may_queue);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
    return copy_2d(pCopy, hStream, 1);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)
{
    return copy_2d(pCopy, NULL, 0);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)
{
    return copy_2d(pCopy, NULL, 0);
}

/* The contexts of a peer copy follow from the addresses. */
static CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *c, CUstream stream)
{
    if (!c)
        return copy_3d(NULL, stream, 0);
    CUDA_MEMCPY3D box = gb_box_of_peer(c);
    return copy_3d(&box, stream, 0); /* between devices */
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
    return copy_3d_peer(pCopy, hStream);
}

static CUresult check_peer(CUcontext handle)
{
    return rc_object_get(RC_CONTEXT, handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

/* Between two proxies it comes after all that both contexts were given before, and is done when it returns. */
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy)
{
    const rc_object_t *dst = pCopy ? rc_object_get(RC_CONTEXT, pCopy->dstContext) : NULL;
    const rc_object_t *src = pCopy ? rc_object_get(RC_CONTEXT, pCopy->srcContext) : NULL;
    if (!dst || !src || dst->session == src->session)
        return copy_3d_peer(pCopy, NULL);
    CUresult result = cuCtxSynchronize_v2(pCopy->dstContext);
    if (!result)
        result = cuCtxSynchronize_v2(pCopy->srcContext);
    if (!result)
        result = copy_3d_peer(pCopy, NULL);
    return result ? result : cuStreamSynchronize(NULL);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                           CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
    rc_call_t call;
    CUresult result = rc_begin_in_context(&call);
    if (!result)
        result = check_peer(dstContext);
    if (!result)
        result = check_peer(srcContext);
    return result ? result : cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, hStream);
}

/* It begins when both contexts have done what they were given before. */
CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                      CUcontext srcContext, size_t ByteCount)
{
    rc_call_t call;
    CUresult result = rc_begin_in_context(&call);
    if (!result)
        result = cuCtxSynchronize_v2(dstContext);
    if (!result)
        result = cuCtxSynchronize_v2(srcContext);
    if (!result)
        result = cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, NULL);
    return result ? result : cuStreamSynchronize(NULL);
}
