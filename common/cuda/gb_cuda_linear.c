/* Entry points: linear copies to and from one-dimensional arrays, each made as the copy of a box with one
 * row. Part of both of our libcuda.so.1. */
#include "gb_cuda_api.h"

static CUDA_MEMCPY3D one_row(size_t bytes)
{
    return (CUDA_MEMCPY3D){.WidthInBytes = bytes, .Height = 1, .Depth = 1};
}

static CUresult check_linear(CUarray handle)
{
    CUDA_ARRAY3D_DESCRIPTOR d;
    CUresult result = cuArray3DGetDescriptor_v2(&d, handle);
    return !result && (d.Height || d.Depth) ? CUDA_ERROR_INVALID_VALUE : result;
}

static CUresult from_array(CUDA_MEMCPY3D *copy, CUarray array, size_t offset)
{
    copy->srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy->srcArray = array;
    copy->srcXInBytes = offset;
    return check_linear(array);
}

static CUresult to_array(CUDA_MEMCPY3D *copy, CUarray array, size_t offset)
{
    copy->dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy->dstArray = array;
    copy->dstXInBytes = offset;
    return check_linear(array);
}

/* ---- within the device: nothing here waits, as CUDA has it ---- */

static CUresult between_arrays(CUarray dst, size_t dst_offset, CUarray src, size_t src_offset,
                               size_t bytes, CUstream stream)
{
    CUDA_MEMCPY3D copy = one_row(bytes);
    CUresult result = to_array(&copy, dst, dst_offset);
    if (!result)
        result = from_array(&copy, src, src_offset);
    return result ? result : cuMemcpy3DAsync_v2(&copy, stream);
}

static CUresult to_device(CUdeviceptr dst, CUarray src, size_t offset, size_t bytes,
                          CUstream stream)
{
    CUDA_MEMCPY3D copy = one_row(bytes);
    CUresult result = from_array(&copy, src, offset);
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = dst;
    return result ? result : cuMemcpy3DAsync_v2(&copy, stream);
}

static CUresult from_device(CUarray dst, size_t offset, CUdeviceptr src, size_t bytes,
                            CUstream stream)
{
    CUDA_MEMCPY3D copy = one_row(bytes);
    CUresult result = to_array(&copy, dst, offset);
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = src;
    return result ? result : cuMemcpy3DAsync_v2(&copy, stream);
}

CUresult cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset,
                         size_t ByteCount)
{
    return between_arrays(dstArray, dstOffset, srcArray, srcOffset, ByteCount, NULL);
}

CUresult cuMemcpyAtoA_v2_ptds(CUarray dstArray, size_t dstOffset, CUarray srcArray,
                              size_t srcOffset, size_t ByteCount)
{
    return between_arrays(dstArray, dstOffset, srcArray, srcOffset, ByteCount,
                          CU_STREAM_PER_THREAD);
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset,
                         size_t ByteCount)
{
    return to_device(dstDevice, srcArray, srcOffset, ByteCount, NULL);
}

CUresult cuMemcpyAtoD_v2_ptds(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset,
                              size_t ByteCount)
{
    return to_device(dstDevice, srcArray, srcOffset, ByteCount, CU_STREAM_PER_THREAD);
}

CUresult cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice,
                         size_t ByteCount)
{
    return from_device(dstArray, dstOffset, srcDevice, ByteCount, NULL);
}

CUresult cuMemcpyDtoA_v2_ptds(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice,
                              size_t ByteCount)
{
    return from_device(dstArray, dstOffset, srcDevice, ByteCount, CU_STREAM_PER_THREAD);
}

/* ---- from and to the program's memory ---- */

static CUresult to_host(void *dst, CUarray array, size_t offset, size_t bytes, CUDA_MEMCPY3D *copy)
{
    *copy = one_row(bytes);
    copy->dstMemoryType = CU_MEMORYTYPE_HOST;
    copy->dstHost = dst;
    return from_array(copy, array, offset);
}

static CUresult from_host(CUarray array, size_t offset, const void *src, size_t bytes,
                          CUDA_MEMCPY3D *copy)
{
    *copy = one_row(bytes);
    copy->srcMemoryType = CU_MEMORYTYPE_HOST;
    copy->srcHost = src;
    return to_array(copy, array, offset);
}

CUresult cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount)
{
    CUDA_MEMCPY3D copy;
    CUresult result = to_host(dstHost, srcArray, srcOffset, ByteCount, &copy);
    return result ? result : cuMemcpy3D_v2(&copy);
}

CUresult cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset, size_t ByteCount,
                              CUstream hStream)
{
    CUDA_MEMCPY3D copy;
    CUresult result = to_host(dstHost, srcArray, srcOffset, ByteCount, &copy);
    return result ? result : cuMemcpy3DAsync_v2(&copy, hStream);
}

CUresult cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset, const void *srcHost, size_t ByteCount)
{
    CUDA_MEMCPY3D copy;
    CUresult result = from_host(dstArray, dstOffset, srcHost, ByteCount, &copy);
    return result ? result : cuMemcpy3D_v2(&copy);
}

CUresult cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset, const void *srcHost,
                              size_t ByteCount, CUstream hStream)
{
    CUDA_MEMCPY3D copy;
    CUresult result = from_host(dstArray, dstOffset, srcHost, ByteCount, &copy);
    return result ? result : cuMemcpy3DAsync_v2(&copy, hStream);
}
