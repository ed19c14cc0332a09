/* Copies of boxes, and fills. */
#include "gpu-proxy/runtime/rt_copy.h"
#include "gpu-proxy/runtime/rt_state.h"

static CUdeviceptr device_ptr(const void *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

int rt_array_element(CUarray array, size_t *bytes)
{
    CUDA_ARRAY3D_DESCRIPTOR d;
    CUresult result = rt_cu->cuArray3DGetDescriptor_v2(&d, array);
    if (result)
        return (int)result;
    switch (d.Format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        *bytes = d.NumChannels;
        return 0;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        *bytes = 2 * (size_t)d.NumChannels;
        return 0;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        *bytes = 4 * (size_t)d.NumChannels;
        return 0;
    default:
        return cudaErrorNotSupported;
    }
}

/* Positions count elements of each side, bytes for pointers; the extent counts elements of the array
 * that takes part, else bytes. */
int rt_copy_3d(const struct cudaMemcpy3DParms *p, CUDA_MEMCPY3D *out)
{
    CUmemorytype src, dst;
    size_t from = 1, to = 1;
    if (!p || (p->srcArray && p->srcPtr.ptr) || (p->dstArray && p->dstPtr.ptr))
        return cudaErrorInvalidValue;
    int error = rt_copy_kind(p->kind, &src, &dst);
    if (!error && p->srcArray)
        error = rt_array_element(p->srcArray, &from);
    if (!error && p->dstArray)
        error = rt_array_element(p->dstArray, &to);
    if (error)
        return error;
    CUDA_MEMCPY3D c = {.srcXInBytes = p->srcPos.x * from,
                       .srcY = p->srcPos.y,
                       .srcZ = p->srcPos.z,
                       .srcMemoryType = p->srcArray ? CU_MEMORYTYPE_ARRAY : src,
                       .srcArray = p->srcArray,
                       .srcPitch = p->srcPtr.pitch,
                       .srcHeight = p->srcPtr.ysize,
                       .dstXInBytes = p->dstPos.x * to,
                       .dstY = p->dstPos.y,
                       .dstZ = p->dstPos.z,
                       .dstMemoryType = p->dstArray ? CU_MEMORYTYPE_ARRAY : dst,
                       .dstArray = p->dstArray,
                       .dstPitch = p->dstPtr.pitch,
                       .dstHeight = p->dstPtr.ysize,
                       .WidthInBytes = p->extent.width * (p->srcArray ? from : to),
                       .Height = p->extent.height,
                       .Depth = p->extent.depth};
    if (src == CU_MEMORYTYPE_HOST)
        c.srcHost = p->srcPtr.ptr;
    else
        c.srcDevice = device_ptr(p->srcPtr.ptr);
    if (dst == CU_MEMORYTYPE_HOST)
        c.dstHost = p->dstPtr.ptr;
    else
        c.dstDevice = device_ptr(p->dstPtr.ptr);
    *out = c;
    return 0;
}

int rt_copy_1d(void *dst, const void *src, size_t count, enum cudaMemcpyKind kind,
               CUDA_MEMCPY3D *out)
{
    struct cudaMemcpy3DParms p = {
        .srcPtr = {(void *)(uintptr_t)src, count, count, 1},
        .dstPtr = {dst, count, count, 1},
        .extent = {count, 1, 1},
        .kind = kind,
    };
    return rt_copy_3d(&p, out);
}

static int is_empty(struct cudaExtent e)
{
    return e.width == 0 || e.height == 0 || e.depth == 0;
}

cudaError_t cudaMemcpy3D(const struct cudaMemcpy3DParms *p)
{
    CUDA_MEMCPY3D c;
    int error = rt_enter();
    if (!error)
        error = rt_copy_3d(p, &c);
    if (!error && !is_empty(p->extent))
        error = (int)rt_cu->cuMemcpy3D_v2(&c);
    return rt_result(error);
}

cudaError_t cudaMemcpy3DAsync(const struct cudaMemcpy3DParms *p, cudaStream_t stream)
{
    CUDA_MEMCPY3D c;
    int error = rt_enter();
    if (!error)
        error = rt_copy_3d(p, &c);
    if (!error && !is_empty(p->extent))
        error = (int)rt_cu->cuMemcpy3DAsync_v2(&c, stream);
    return rt_result(error);
}

static int copy_3d_peer(const struct cudaMemcpy3DPeerParms *p, CUDA_MEMCPY3D_PEER *out)
{
    CUDA_MEMCPY3D c;
    CUcontext to, from;
    if (!p)
        return cudaErrorInvalidValue;
    struct cudaMemcpy3DParms q = {p->srcArray, p->srcPos, p->srcPtr, p->dstArray,
                                  p->dstPos,   p->dstPtr, p->extent, cudaMemcpyDeviceToDevice};
    if (p->srcDevice < 0 || p->srcDevice >= rt_device_count() || p->dstDevice < 0 ||
        p->dstDevice >= rt_device_count())
        return cudaErrorInvalidDevice;
    int error = rt_copy_3d(&q, &c);
    if (!error)
        error = rt_primary_context(p->dstDevice, &to);
    if (!error)
        error = rt_primary_context(p->srcDevice, &from);
    if (error)
        return error;
    *out = (CUDA_MEMCPY3D_PEER){
        .srcXInBytes = c.srcXInBytes,
        .srcY = c.srcY,
        .srcZ = c.srcZ,
        .srcMemoryType = c.srcMemoryType,
        .srcDevice = c.srcDevice,
        .srcArray = c.srcArray,
        .srcContext = from,
        .srcPitch = c.srcPitch,
        .srcHeight = c.srcHeight,
        .dstXInBytes = c.dstXInBytes,
        .dstY = c.dstY,
        .dstZ = c.dstZ,
        .dstMemoryType = c.dstMemoryType,
        .dstDevice = c.dstDevice,
        .dstArray = c.dstArray,
        .dstContext = to,
        .dstPitch = c.dstPitch,
        .dstHeight = c.dstHeight,
        .WidthInBytes = c.WidthInBytes,
        .Height = c.Height,
        .Depth = c.Depth,
    };
    return 0;
}

cudaError_t cudaMemcpy3DPeer(const struct cudaMemcpy3DPeerParms *p)
{
    CUDA_MEMCPY3D_PEER c;
    int error = rt_enter();
    if (!error)
        error = copy_3d_peer(p, &c);
    if (!error && !is_empty(p->extent))
        error = (int)rt_cu->cuMemcpy3DPeer(&c);
    return rt_result(error);
}

cudaError_t cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream)
{
    CUDA_MEMCPY3D_PEER c;
    int error = rt_enter();
    if (!error)
        error = copy_3d_peer(p, &c);
    if (!error && !is_empty(p->extent))
        error = (int)rt_cu->cuMemcpy3DPeerAsync(&c, stream);
    return rt_result(error);
}

/* ---- fills ---- */

cudaError_t cudaMemset(void *devPtr, int value, size_t count)
{
    int error = rt_enter();
    if (!error && count)
        error = (int)rt_cu->cuMemsetD8_v2(device_ptr(devPtr), (unsigned char)value, count);
    return rt_result(error);
}

cudaError_t cudaMemsetAsync(void *devPtr, int value, size_t count, cudaStream_t stream)
{
    int error = rt_enter();
    if (!error && count)
        error =
            (int)rt_cu->cuMemsetD8Async(device_ptr(devPtr), (unsigned char)value, count, stream);
    return rt_result(error);
}

cudaError_t cudaMemset2D(void *devPtr, size_t pitch, int value, size_t width, size_t height)
{
    int error = rt_enter();
    if (!error && width && height)
        error = (int)rt_cu->cuMemsetD2D8_v2(device_ptr(devPtr), pitch, (unsigned char)value, width,
                                            height);
    return rt_result(error);
}

cudaError_t cudaMemset2DAsync(void *devPtr, size_t pitch, int value, size_t width, size_t height,
                              cudaStream_t stream)
{
    int error = rt_enter();
    if (!error && width && height)
        error = (int)rt_cu->cuMemsetD2D8Async(device_ptr(devPtr), pitch, (unsigned char)value,
                                              width, height, stream);
    return rt_result(error);
}

/* Slices whose rows follow one another are one fill; else slice by slice. */
static int fill_3d(struct cudaPitchedPtr p, int value, struct cudaExtent e, int async,
                   cudaStream_t stream)
{
    int error = rt_enter();
    if (error || is_empty(e))
        return error;
    if (e.width > p.pitch || (e.depth > 1 && e.height > p.ysize))
        return cudaErrorInvalidValue;
    size_t slices = e.height == p.ysize ? 1 : e.depth;
    size_t rows = e.height == p.ysize ? e.height * e.depth : e.height;
    for (size_t z = 0; z < slices && !error; z++) {
        CUdeviceptr at = device_ptr(p.ptr) + z * p.ysize * p.pitch;
        error =
            (int)(async ? rt_cu->cuMemsetD2D8Async(at, p.pitch, (unsigned char)value, e.width, rows,
                                                   stream)
                        : rt_cu->cuMemsetD2D8_v2(at, p.pitch, (unsigned char)value, e.width, rows));
    }
    return error;
}

cudaError_t cudaMemset3D(struct cudaPitchedPtr pitchedDevPtr, int value, struct cudaExtent extent)
{
    return rt_result(fill_3d(pitchedDevPtr, value, extent, 0, NULL));
}

cudaError_t cudaMemset3DAsync(struct cudaPitchedPtr pitchedDevPtr, int value,
                              struct cudaExtent extent, cudaStream_t stream)
{
    return rt_result(fill_3d(pitchedDevPtr, value, extent, 1, stream));
}
