/* Entry points: copies and fills. */
#include "common/cuda/gb_cuda_shape.h"
#include "gb_cuda_api.h"
#include "gpu-proxy/cpu/driver/cpu_box.h"
#include "gpu-proxy/cpu/driver/cpu_capture.h"
#include "gpu-proxy/cpu/driver/cpu_context.h"
#include "gpu-proxy/cpu/driver/cpu_copy.h"
#include "gpu-proxy/cpu/driver/cpu_memory.h"
#include "gpu-proxy/cpu/driver/cpu_stream.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"

static CUresult enter(CUstream handle, cpu_stream_t **stream)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    return result ? result : cpu_stream_get(context, handle, stream);
}

static bool is_device(uint64_t address, uint64_t bytes)
{
    return cpu_memory_covers(CPU_MEMORY_ANY, address, bytes);
}

/* How a copy is queued: what touches pageable memory must not read or write it later than the call
 * allows. */
static cpu_copy_mode_t mode_of(uint64_t dst, uint64_t src, bool async)
{
    if (cpu_is_pageable(dst))
        return CPU_COPY_WAIT;
    if (cpu_is_pageable(src))
        return CPU_COPY_STAGED;
    return async ? CPU_COPY_ASYNC : CPU_COPY_WAIT;
}

/* A captured stream gets a node in place of the copy: its memory is read and written when it runs. */
static CUresult queue_box(cpu_stream_t *stream, const cpu_box_t *box, const CUDA_MEMCPY3D *copy,
                          cpu_copy_mode_t mode)
{
    bool captured;
    cpu_work_t work;
    CUresult result = cpu_capture_enter(stream, &captured);
    if (!result && captured) {
        result = cpu_work_copy(stream->context, copy, &work);
        return result ? result : cpu_capture_work(stream, &work);
    }
    return result ? result : cpu_copy(stream, box, mode);
}

/* A captured copy's node has it as a box of one row. */
static CUresult queue_linear(cpu_stream_t *stream, const cpu_box_t *box, cpu_copy_mode_t mode)
{
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .srcDevice = box->src,
                          .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                          .dstDevice = box->dst,
                          .WidthInBytes = box->width,
                          .Height = 1,
                          .Depth = 1};
    return queue_box(stream, box, &copy, mode);
}

/* Either side may be given as any kind of memory; `device_dst` and `device_src` say which must be
 * the device's. */
static CUresult linear(uint64_t dst, bool device_dst, uint64_t src, bool device_src, size_t bytes,
                       CUstream handle, bool async)
{
    cpu_stream_t *stream;
    CUresult result = enter(handle, &stream);
    if (result)
        return result;
    cpu_box_t box = {dst, src, bytes, bytes, bytes, bytes, bytes, 1, 1};
    if (bytes == 0)
        result = CUDA_SUCCESS;
    else if (!dst || !src || (device_dst && !is_device(dst, bytes)) ||
             (device_src && !is_device(src, bytes)))
        result = CUDA_ERROR_INVALID_VALUE;
    else
        result = queue_linear(stream, &box, async ? mode_of(dst, src, true) : CPU_COPY_WAIT);
    cpu_object_put(&stream->object);
    return result;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
    return linear(dstDevice, true, (uint64_t)srcHost, false, ByteCount, NULL, false);
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
                              CUstream hStream)
{
    return linear(dstDevice, true, (uint64_t)srcHost, false, ByteCount, hStream, true);
}

CUresult cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
    return linear((uint64_t)dstHost, false, srcDevice, true, ByteCount, NULL, false);
}

CUresult cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                              CUstream hStream)
{
    return linear((uint64_t)dstHost, false, srcDevice, true, ByteCount, hStream, true);
}

/* Between device memory CUDA does not wait. */
CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
    return linear(dstDevice, true, srcDevice, true, ByteCount, NULL, true);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                              CUstream hStream)
{
    return linear(dstDevice, true, srcDevice, true, ByteCount, hStream, true);
}

/* Unified addresses: at least one side must be known memory. */
static CUresult unified(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream, bool async)
{
    bool device_dst = !cpu_is_pageable(dst), device_src = !cpu_is_pageable(src);
    if (bytes && !device_dst && !device_src && (!dst || !src))
        return CUDA_ERROR_INVALID_VALUE;
    return linear(dst, device_dst, src, device_src, bytes, stream, async);
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
    return unified(dst, src, ByteCount, NULL, false);
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
    return unified(dst, src, ByteCount, hStream, true);
}

/* Both contexts must live; the copy itself is like any other. */
static CUresult check_peers(CUcontext one, CUcontext other)
{
    cpu_context_t *context;
    CUcontext handles[2] = {one, other};
    for (int i = 0; i < 2; i++) {
        CUresult result = cpu_context_get(handles[i], &context);
        if (result)
            return result;
        result = cpu_context_state(context);
        /* What the peer has under way may write the source. */
        if (!result)
            cpu_sched_wait_context(&context->lanes);
        cpu_object_put(&context->object);
        if (result)
            return result;
    }
    return CUDA_SUCCESS;
}

CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                      CUcontext srcContext, size_t ByteCount)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (!result)
        result = check_peers(dstContext, srcContext);
    return result ? result : linear(dstDevice, true, srcDevice, true, ByteCount, NULL, false);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                           CUcontext srcContext, size_t ByteCount, CUstream hStream)
{
    cpu_context_t *one, *other;
    CUresult result = cpu_thread_context(&one);
    if (!result)
        result = cpu_context_get(dstContext, &one);
    if (result)
        return result;
    result = cpu_context_get(srcContext, &other);
    if (!result) {
        result = linear(dstDevice, true, srcDevice, true, ByteCount, hStream, true);
        cpu_object_put(&other->object);
    }
    cpu_object_put(&one->object);
    return result;
}

/* ---- boxes ---- */

static CUresult copy_3d(const CUDA_MEMCPY3D *c, CUstream handle, bool async)
{
    cpu_stream_t *stream;
    cpu_side_t dst, src;
    cpu_box_t box;
    CUresult result = enter(handle, &stream);
    if (result)
        return result;
    result = cpu_box_describe(c, &dst, &src, &box);
    if (!result) {
        result =
            queue_box(stream, &box, c, async ? mode_of(box.dst, box.src, true) : CPU_COPY_WAIT);
        cpu_side_drop(&dst);
        cpu_side_drop(&src);
    }
    cpu_object_put(&stream->object);
    return result;
}

static CUresult copy_2d(const CUDA_MEMCPY2D *c, CUstream stream, bool async)
{
    if (!c)
        return cpu_thread_refuse_here(CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMCPY3D box = gb_box_of_rows(c);
    return copy_3d(&box, stream, async);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)
{
    return copy_2d(pCopy, NULL, false);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)
{
    return copy_2d(pCopy, NULL, false);
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
    return copy_2d(pCopy, hStream, true);
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy)
{
    return copy_3d(pCopy, NULL, false);
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
    return copy_3d(pCopy, hStream, true);
}

static CUresult copy_3d_peer(const CUDA_MEMCPY3D_PEER *c, CUstream stream, bool async)
{
    if (!c)
        return cpu_thread_refuse_here(CUDA_ERROR_INVALID_VALUE);
    CUDA_MEMCPY3D box = gb_box_of_peer(c);
    return copy_3d(&box, stream, async);
}

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy)
{
    return copy_3d_peer(pCopy, NULL, false);
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
    return copy_3d_peer(pCopy, hStream, true);
}

/* ---- fills ---- */

static CUresult queue_fill(cpu_stream_t *stream, const cpu_fill_t *f, bool wait)
{
    bool captured;
    cpu_work_t work;
    CUresult result = cpu_capture_enter(stream, &captured);
    if (!result && captured) {
        CUDA_MEMSET_NODE_PARAMS node = {
            f->dst, f->pitch, f->value, f->element, f->width / f->element, f->height};
        result = cpu_work_fill(stream->context, &node, &work);
        return result ? result : cpu_capture_work(stream, &work);
    }
    return result ? result : cpu_fill(stream, f, wait);
}

/* Fills of memory that the host sees too (page-locked, managed) are waited for, as CUDA says. */
static CUresult fill(CUdeviceptr dst, size_t pitch, uint32_t value, unsigned element, size_t width,
                     size_t height, CUstream handle, bool async)
{
    cpu_stream_t *stream;
    cpu_memory_t memory;
    cpu_fill_t f = {
        .dst = dst, .pitch = pitch, .height = height, .value = value, .element = element};
    CUresult result = enter(handle, &stream);
    if (result)
        return result;
    if (!width || !height)
        goto out;
    result = CUDA_ERROR_INVALID_VALUE;
    size_t last_rows;
    if (__builtin_mul_overflow(width, (size_t)element, &f.width) || dst % element ||
        (height > 1 && (pitch < f.width || pitch % element)) ||
        __builtin_mul_overflow(height - 1, pitch, &last_rows) ||
        !is_device(dst, last_rows + f.width))
        goto out;
    if (height == 1)
        f.pitch = f.width;
    bool host = cpu_memory_find(dst, &memory) && memory.kind != CPU_MEMORY_DEVICE;
    result = queue_fill(stream, &f, !async && host);
out:
    cpu_object_put(&stream->object);
    return result;
}

CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
    return fill(dstDevice, 0, uc, 1, N, 1, NULL, false);
}

CUresult cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N)
{
    return fill(dstDevice, 0, us, 2, N, 1, NULL, false);
}

CUresult cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
    return fill(dstDevice, 0, ui, 4, N, 1, NULL, false);
}

CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream)
{
    return fill(dstDevice, 0, uc, 1, N, 1, hStream, true);
}

CUresult cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream)
{
    return fill(dstDevice, 0, us, 2, N, 1, hStream, true);
}

CUresult cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream)
{
    return fill(dstDevice, 0, ui, 4, N, 1, hStream, true);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
                         size_t Height)
{
    return fill(dstDevice, dstPitch, uc, 1, Width, Height, NULL, false);
}

CUresult cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width,
                          size_t Height)
{
    return fill(dstDevice, dstPitch, us, 2, Width, Height, NULL, false);
}

CUresult cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width,
                          size_t Height)
{
    return fill(dstDevice, dstPitch, ui, 4, Width, Height, NULL, false);
}

CUresult cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
                           size_t Height, CUstream hStream)
{
    return fill(dstDevice, dstPitch, uc, 1, Width, Height, hStream, true);
}

CUresult cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width,
                            size_t Height, CUstream hStream)
{
    return fill(dstDevice, dstPitch, us, 2, Width, Height, hStream, true);
}

CUresult cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width,
                            size_t Height, CUstream hStream)
{
    return fill(dstDevice, dstPitch, ui, 4, Width, Height, hStream, true);
}
