/* Allocation, copies, pointers. */
#include <stdlib.h>
#include <string.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_ipc.h"
#include "gpu-proxy/client/rc_box.h"
#include "gpu-proxy/client/rc_capture.h"
#include "gpu-proxy/client/rc_down.h"
#include "gpu-proxy/client/rc_graph_memory.h"
#include "gpu-proxy/client/rc_pool.h"
#include "gpu-proxy/client/rc_shared.h"

enum { PITCH_ALIGN = 512 };

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    rc_call_t call;
    uint64_t size = bytesize, address = 0;
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    if (!dptr || bytesize == 0)
        return CUDA_ERROR_INVALID_VALUE;
    result = rc_capture_unsafe();
    if (result)
        return result;
    result = rc_ask(&call, GB_OP_cuMemAlloc_v2, &size, 1, &address, 1);
    if (!result)
        result = rc_block_add(RC_BLOCK_DEVICE, address, size, call.context, 0);
    if (!result)
        *dptr = address;
    return result;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                            unsigned int ElementSizeBytes)
{
    rc_call_t call;
    size_t bytes, pitch = (WidthInBytes + PITCH_ALIGN - 1) & ~(size_t)(PITCH_ALIGN - 1);
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    if (!pPitch || !WidthInBytes || !Height || WidthInBytes > (size_t)1 << 40 ||
        Height > (size_t)1 << 40 ||
        (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
        return CUDA_ERROR_INVALID_VALUE;
    if (__builtin_mul_overflow(pitch, Height, &bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = cuMemAlloc_v2(dptr, bytes);
    if (!result)
        *pPitch = pitch;
    return result;
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    rc_call_t call;
    rc_block_t block;
    CUresult result = rc_begin_in_context(&call);
    if (result || dptr == 0)
        return result;
    result = rc_capture_unsafe();
    if (result)
        return result;
    if (rc_block_take(RC_BLOCK_MANAGED, dptr, &block))
        return rc_shared_release(&block);
    if (rc_graph_memory_free(dptr, &result))
        return result;
    if (!rc_block_take(RC_BLOCK_DEVICE, dptr, &block))
        return rc_ipc_close(dptr, RC_IPC_POOL_POINTER); /* of another process's pool, or an error */
    if (block.arena) { /* it is used again when the whole device has come past this point */
        rc_pool_free(&call, &block);
        return CUDA_SUCCESS;
    }
    call.session = block.device->session;
    call.owner = block.context;
    uint64_t args[2] = {dptr, block.device->index}, left[2];
    int seen = rc_ipc_forget_exported(dptr);
    result = rc_post(&call, GB_OP_cuMemFree_v2, args, 2);
    /* Any answer will do: what was sent before has been done then. */
    return result || !seen ? result : rc_ask(&call, GB_OP_cuMemGetInfo_v2, NULL, 0, left, 2);
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    rc_call_t call;
    uint64_t outs[2];
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    if (!free || !total)
        return CUDA_ERROR_INVALID_VALUE;
    result = rc_ask(&call, GB_OP_cuMemGetInfo_v2, NULL, 0, outs, 2);
    if (!result) {
        *free = outs[0];
        *total = outs[1];
    }
    return result;
}

/* ---- copies ---- */

static CUresult use_copy(rc_call_t *call, CUstream stream, px_wire_copy_t *copy)
{
    CUresult result = rc_begin(call);
    return result ? result : rc_use_stream(call, stream, &copy->stream);
}

enum { REFER_FROM = 4 << 20 }; /* bytes of a copy that are not copied once more */

/* A copy whose device memory may belong to another session than the stream. */
static CUresult copy_between(CUdeviceptr dst, CUmemorytype dst_type, CUdeviceptr src,
                             CUmemorytype src_type, size_t bytes, CUstream stream)
{
    rc_box_t box;
    CUDA_MEMCPY3D row = rc_box_row(bytes);
    row.dstMemoryType = dst_type;
    row.srcMemoryType = src_type;
    row.dstDevice = dst;
    row.srcDevice = src;
    row.dstHost = (void *)(uintptr_t)dst;
    row.srcHost = (const void *)(uintptr_t)src;
    CUresult result = rc_box_describe(&row, &box);
    return result ? result : rc_box_copy(&box, stream, 0);
}

static CUresult copy_row(CUdeviceptr dst, CUdeviceptr src, size_t bytes, CUstream stream)
{
    return copy_between(dst, CU_MEMORYTYPE_DEVICE, src, CU_MEMORYTYPE_DEVICE, bytes, stream);
}

/* Is it memory of another session than the call's? */
static int is_elsewhere(const rc_call_t *call, CUdeviceptr address)
{
    rc_block_t block;
    return rc.session_count > 1 && rc_block_find(address, &block) &&
           rc_block_session(&block) != call->session;
}

/* The bytes have left this process, or a copy of them waits in the batch, when it returns. */
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
                              CUstream hStream)
{
    rc_call_t call;
    px_wire_copy_t copy = {0};
    uint64_t dst;
    CUresult result = use_copy(&call, hStream, &copy);
    if (!result && srcHost && is_elsewhere(&call, dstDevice))
        return copy_between(dstDevice, CU_MEMORYTYPE_DEVICE, (CUdeviceptr)(uintptr_t)srcHost,
                            CU_MEMORYTYPE_HOST, ByteCount, hStream);
    if (!result)
        result = rc_use_range(&call, dstDevice, ByteCount, 1, &dst);
    if (!result && ByteCount && !srcHost)
        result = CUDA_ERROR_INVALID_VALUE;
    int captured = 0;
    if (!result)
        result = rc_capture_enter(&call, &captured);
    if (!result && captured)
        return rc_capture_copy(&call, dstDevice, (uint64_t)(uintptr_t)srcHost, ByteCount);
    if (!result && ByteCount && rc_shared_is_open((uint64_t)(uintptr_t)srcHost))
        return copy_row(dstDevice, (CUdeviceptr)(uintptr_t)srcHost, ByteCount, hStream);
    rc_down_settle((uint64_t)(uintptr_t)srcHost, ByteCount);
    if (!result && ByteCount <= RC_SHARED_SEEN)
        result = rc_shared_open_copied(dst, srcHost, ByteCount);
    const uint8_t *from = srcHost;
    uint64_t until = 0;
    for (size_t done = 0; done < ByteCount && !result; done += copy.size) {
        size_t left = ByteCount - done;
        copy.dst = dst + done;
        copy.size = left < PX_WIRE_PIECE ? left : PX_WIRE_PIECE;
        /* Of a large copy all but the end is sent again from the program's own memory, after a cut. The
         * end is long enough that the session acknowledges what is before it. */
        result = ByteCount >= REFER_FROM && left > 2 * PX_WIRE_PIECE
                     ? rc_post_reference(&call, GB_OP_cuMemcpyHtoDAsync_v2, &copy, sizeof(copy),
                                         from + done, copy.size, &until)
                 : copy.size <= PX_WIRE_INLINE
                     ? rc_post_bytes(&call, GB_OP_cuMemcpyHtoDAsync_v2, &copy, sizeof(copy),
                                     from + done, copy.size)
                     : rc_post_bulk(&call, GB_OP_cuMemcpyHtoDAsync_v2, &copy, sizeof(copy),
                                    from + done, copy.size);
    }
    return until && !result ? rc_settle(call.session, until) : result;
}

/* What kernels share is copied by the device: done before it may change here. */
static CUresult finish(CUresult result, uint64_t host)
{
    return result || !rc_shared_is_open(host) ? result : cuStreamSynchronize(NULL);
}

/* As for pageable memory everywhere: it may return once the bytes are staged. */
CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount)
{
    return finish(cuMemcpyHtoDAsync_v2(dstDevice, srcHost, ByteCount, NULL),
                  (uint64_t)(uintptr_t)srcHost);
}

/* To page-locked memory the copy may be left to the stream. */
static CUresult copy_down(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream,
                          int may_queue)
{
    rc_call_t call;
    px_wire_copy_t copy = {0};
    rc_waiter_t waiter = {.dst = dstHost, .dst_size = ByteCount};
    CUresult result = use_copy(&call, hStream, &copy);
    if (!result && dstHost && is_elsewhere(&call, srcDevice))
        return copy_between((CUdeviceptr)(uintptr_t)dstHost, CU_MEMORYTYPE_HOST, srcDevice,
                            CU_MEMORYTYPE_DEVICE, ByteCount, hStream);
    if (!result)
        result = rc_use_range(&call, srcDevice, ByteCount, 1, &copy.src);
    if (!result && ByteCount && !dstHost)
        result = CUDA_ERROR_INVALID_VALUE;
    int captured = 0, queued = 0;
    if (!result)
        result = rc_capture_enter(&call, &captured);
    if (!result && captured)
        return rc_capture_copy(&call, (uint64_t)(uintptr_t)dstHost, srcDevice, ByteCount);
    if (result || ByteCount == 0)
        return result;
    if (rc_shared_is_open((uint64_t)(uintptr_t)dstHost))
        return copy_row((CUdeviceptr)(uintptr_t)dstHost, srcDevice, ByteCount, hStream);
    copy.size = ByteCount;
    if (may_queue)
        result = rc_down_post(&call, &copy, dstHost, &queued);
    if (result || queued)
        return result;
    result = rc_ask_bytes(&call, GB_OP_cuMemcpyDtoHAsync_v2, &copy, sizeof(copy), NULL, 0, &waiter);
    rc_waiter_done(&waiter);
    return result;
}

CUresult cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                              CUstream hStream)
{
    return copy_down(dstHost, srcDevice, ByteCount, hStream, 1);
}

CUresult cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
    return finish(copy_down(dstHost, srcDevice, ByteCount, NULL, 0), (uint64_t)(uintptr_t)dstHost);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount,
                              CUstream hStream)
{
    rc_call_t call;
    px_wire_copy_t copy = {.dst = dstDevice, .src = srcDevice};
    CUresult result = use_copy(&call, hStream, &copy);
    if (result || ByteCount == 0)
        return result;
    rc_call_t here = call;
    result = rc_use_range(&here, dstDevice, ByteCount, 1, &copy.dst);
    if (!result)
        result = rc_use_range(&here, srcDevice, ByteCount, 1, &copy.src);
    int captured = 0;
    CUresult entered = rc_capture_enter(&call, &captured);
    if (entered || captured) /* what it looks at, it looks at itself */
        return entered ? entered : rc_capture_copy(&call, dstDevice, srcDevice, ByteCount);
    if (result)
        return copy_row(dstDevice, srcDevice, ByteCount, hStream);
    copy.size = ByteCount;
    return rc_post_bytes(&call, GB_OP_cuMemcpyDtoDAsync_v2, &copy, sizeof(copy), NULL, 0);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount)
{
    return cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, NULL);
}

/* The direction follows from the addresses: a device's is in a window and never a host's. */
static CUresult copy_any(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream,
                         int may_queue)
{
    CUresult result = rc_check();
    if (result)
        return result;
    int to_device = rc_is_device_address(dst), from_device = rc_is_device_address(src);
    if (to_device && from_device)
        return cuMemcpyDtoDAsync_v2(dst, src, ByteCount, hStream);
    if (to_device)
        return cuMemcpyHtoDAsync_v2(dst, (const void *)(uintptr_t)src, ByteCount, hStream);
    if (from_device)
        return copy_down((void *)(uintptr_t)dst, src, ByteCount, hStream, may_queue);
    if (ByteCount && (!dst || !src))
        return CUDA_ERROR_INVALID_VALUE;
    result = cuStreamSynchronize(hStream);
    if (!result && ByteCount > 0) { /* without bytes the places may be NULL */
        rc_down_settle(src, ByteCount);
        rc_down_settle(dst, ByteCount);
        memmove((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, ByteCount);
    }
    return result;
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream)
{
    return copy_any(dst, src, ByteCount, hStream, 1);
}

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
    return finish(finish(copy_any(dst, src, ByteCount, NULL, 0), dst), src);
}

/* Nothing tells a finished memset from a queued one, so the synchronous ones are queued too, but for those
 * of memory that the host sees. */
CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
    return finish(cuMemsetD8Async(dstDevice, uc, N, NULL), dstDevice);
}

CUresult cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N)
{
    return finish(cuMemsetD16Async(dstDevice, us, N, NULL), dstDevice);
}

CUresult cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
    return finish(cuMemsetD32Async(dstDevice, ui, N, NULL), dstDevice);
}

CUresult cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width,
                         size_t Height)
{
    return finish(cuMemsetD2D8Async(dstDevice, dstPitch, uc, Width, Height, NULL), dstDevice);
}

CUresult cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width,
                          size_t Height)
{
    return finish(cuMemsetD2D16Async(dstDevice, dstPitch, us, Width, Height, NULL), dstDevice);
}

CUresult cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width,
                          size_t Height)
{
    return finish(cuMemsetD2D32Async(dstDevice, dstPitch, ui, Width, Height, NULL), dstDevice);
}

/* ---- pointers ---- */

CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    rc_call_t call;
    rc_block_t block;
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    if (!rc_block_find(dptr, &block))
        return CUDA_ERROR_NOT_FOUND;
    if (pbase)
        *pbase = block.range.start;
    if (psize)
        *psize = block.range.size;
    return CUDA_SUCCESS;
}
