/* Entry points in the form of CUDA 2, in which addresses and sizes have 32 bits. Part of both of our
 * libcuda.so.1.
 *
 * Each does what the present call does as long as that can be said in 32 bits. Contexts here are those of the
 * present API (cuCtxGetApiVersion), and device memory lies where 32 bits do not reach: for a call of the old
 * API in such a context CUDA has CUDA_ERROR_INVALID_CONTEXT, and that is what the calls return which would
 * have to return an address or a size that does not fit. Amounts of memory are told as far as they fit. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "gb_cuda_api.h"

static bool fits(uint64_t wide)
{
    return wide <= UINT32_MAX;
}

static unsigned most(size_t wide)
{
    return fits(wide) ? (unsigned)wide : UINT32_MAX;
}

/* ---- memory ---- */

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice dev)
{
    size_t wide = 0;
    CUresult result = cuDeviceTotalMem_v2(bytes ? &wide : NULL, dev);
    if (!result)
        *bytes = most(wide);
    return result;
}

CUresult cuMemGetInfo(unsigned int *free, unsigned int *total)
{
    size_t wide_free = 0, wide_total = 0;
    CUresult result = cuMemGetInfo_v2(free ? &wide_free : NULL, total ? &wide_total : NULL);
    if (!result && free)
        *free = most(wide_free);
    if (!result && total)
        *total = most(wide_total);
    return result;
}

/* Memory that has just been allocated: stays only if it can be named. */
static CUresult name_memory(CUdeviceptr at, CUdeviceptr_v1 *dptr)
{
    if (!fits(at)) {
        CUresult result = cuMemFree_v2(at);
        return result ? result : CUDA_ERROR_INVALID_CONTEXT;
    }
    *dptr = (CUdeviceptr_v1)at;
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr_v1 *dptr, unsigned int bytesize)
{
    CUdeviceptr at = 0;
    CUresult result = cuMemAlloc_v2(dptr ? &at : NULL, bytesize);
    return result ? result : name_memory(at, dptr);
}

CUresult cuMemAllocPitch(CUdeviceptr_v1 *dptr, unsigned int *pPitch, unsigned int WidthInBytes,
                         unsigned int Height, unsigned int ElementSizeBytes)
{
    CUdeviceptr at = 0;
    size_t pitch = 0;
    CUresult result = cuMemAllocPitch_v2(dptr ? &at : NULL, pPitch ? &pitch : NULL, WidthInBytes,
                                         Height, ElementSizeBytes);
    if (!result)
        result = name_memory(at, dptr);
    if (!result)
        *pPitch = (unsigned)pitch; /* Height rows of it lie below 4 GiB */
    return result;
}

CUresult cuMemAllocHost(void **pp, unsigned int bytesize)
{
    return cuMemAllocHost_v2(pp, bytesize);
}

CUresult cuMemFree(CUdeviceptr_v1 dptr)
{
    return cuMemFree_v2(dptr);
}

/* A range that is there; what is not asked for need not fit. */
static CUresult name_range(CUdeviceptr at, size_t size, CUdeviceptr_v1 *base, unsigned int *bytes)
{
    if ((base && !fits(at)) || (bytes && !fits(size)))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (base)
        *base = (CUdeviceptr_v1)at;
    if (bytes)
        *bytes = (unsigned)size;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr_v1 *pbase, unsigned int *psize, CUdeviceptr_v1 dptr)
{
    CUdeviceptr base = 0;
    size_t size = 0;
    CUresult result = cuMemGetAddressRange_v2(&base, &size, dptr);
    return result ? result : name_range(base, size, pbase, psize);
}

CUresult cuModuleGetGlobal(CUdeviceptr_v1 *dptr, unsigned int *bytes, CUmodule hmod,
                           const char *name)
{
    CUdeviceptr base = 0;
    size_t size = 0;
    CUresult result = cuModuleGetGlobal_v2(dptr ? &base : NULL, bytes ? &size : NULL, hmod, name);
    return result ? result : name_range(dptr ? base : 0, bytes ? size : 0, dptr, bytes);
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr_v1 *pdptr, void *p, unsigned int Flags)
{
    CUdeviceptr at = 0;
    CUresult result = cuMemHostGetDevicePointer_v2(pdptr ? &at : NULL, p, Flags);
    return result ? result : name_range(at, 0, pdptr, NULL);
}

/* ---- copies ---- */

CUresult cuMemcpyHtoD(CUdeviceptr_v1 dstDevice, const void *srcHost, unsigned int ByteCount)
{
    return cuMemcpyHtoD_v2(dstDevice, srcHost, ByteCount);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr_v1 dstDevice, const void *srcHost, unsigned int ByteCount,
                           CUstream hStream)
{
    return cuMemcpyHtoDAsync_v2(dstDevice, srcHost, ByteCount, hStream);
}

CUresult cuMemcpyDtoH(void *dstHost, CUdeviceptr_v1 srcDevice, unsigned int ByteCount)
{
    return cuMemcpyDtoH_v2(dstHost, srcDevice, ByteCount);
}

CUresult cuMemcpyDtoHAsync(void *dstHost, CUdeviceptr_v1 srcDevice, unsigned int ByteCount,
                           CUstream hStream)
{
    return cuMemcpyDtoHAsync_v2(dstHost, srcDevice, ByteCount, hStream);
}

CUresult cuMemcpyDtoD(CUdeviceptr_v1 dstDevice, CUdeviceptr_v1 srcDevice, unsigned int ByteCount)
{
    return cuMemcpyDtoD_v2(dstDevice, srcDevice, ByteCount);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr_v1 dstDevice, CUdeviceptr_v1 srcDevice,
                           unsigned int ByteCount, CUstream hStream)
{
    return cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount, hStream);
}

CUresult cuMemcpyDtoA(CUarray dstArray, unsigned int dstOffset, CUdeviceptr_v1 srcDevice,
                      unsigned int ByteCount)
{
    return cuMemcpyDtoA_v2(dstArray, dstOffset, srcDevice, ByteCount);
}

CUresult cuMemcpyAtoD(CUdeviceptr_v1 dstDevice, CUarray srcArray, unsigned int srcOffset,
                      unsigned int ByteCount)
{
    return cuMemcpyAtoD_v2(dstDevice, srcArray, srcOffset, ByteCount);
}

CUresult cuMemcpyAtoA(CUarray dstArray, unsigned int dstOffset, CUarray srcArray,
                      unsigned int srcOffset, unsigned int ByteCount)
{
    return cuMemcpyAtoA_v2(dstArray, dstOffset, srcArray, srcOffset, ByteCount);
}

CUresult cuMemcpyHtoA(CUarray dstArray, unsigned int dstOffset, const void *srcHost,
                      unsigned int ByteCount)
{
    return cuMemcpyHtoA_v2(dstArray, dstOffset, srcHost, ByteCount);
}

CUresult cuMemcpyHtoAAsync(CUarray dstArray, unsigned int dstOffset, const void *srcHost,
                           unsigned int ByteCount, CUstream hStream)
{
    return cuMemcpyHtoAAsync_v2(dstArray, dstOffset, srcHost, ByteCount, hStream);
}

CUresult cuMemcpyAtoH(void *dstHost, CUarray srcArray, unsigned int srcOffset,
                      unsigned int ByteCount)
{
    return cuMemcpyAtoH_v2(dstHost, srcArray, srcOffset, ByteCount);
}

CUresult cuMemcpyAtoHAsync(void *dstHost, CUarray srcArray, unsigned int srcOffset,
                           unsigned int ByteCount, CUstream hStream)
{
    return cuMemcpyAtoHAsync_v2(dstHost, srcArray, srcOffset, ByteCount, hStream);
}

static CUDA_MEMCPY2D widen_2d(const CUDA_MEMCPY2D_v1 *c)
{
    return (CUDA_MEMCPY2D){.srcXInBytes = c->srcXInBytes,
                           .srcY = c->srcY,
                           .srcMemoryType = c->srcMemoryType,
                           .srcHost = c->srcHost,
                           .srcDevice = c->srcDevice,
                           .srcArray = c->srcArray,
                           .srcPitch = c->srcPitch,
                           .dstXInBytes = c->dstXInBytes,
                           .dstY = c->dstY,
                           .dstMemoryType = c->dstMemoryType,
                           .dstHost = c->dstHost,
                           .dstDevice = c->dstDevice,
                           .dstArray = c->dstArray,
                           .dstPitch = c->dstPitch,
                           .WidthInBytes = c->WidthInBytes,
                           .Height = c->Height};
}

CUresult cuMemcpy2D(const CUDA_MEMCPY2D_v1 *pCopy)
{
    if (!pCopy)
        return cuMemcpy2D_v2(NULL);
    CUDA_MEMCPY2D wide = widen_2d(pCopy);
    return cuMemcpy2D_v2(&wide);
}

CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D_v1 *pCopy)
{
    if (!pCopy)
        return cuMemcpy2DUnaligned_v2(NULL);
    CUDA_MEMCPY2D wide = widen_2d(pCopy);
    return cuMemcpy2DUnaligned_v2(&wide);
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D_v1 *pCopy, CUstream hStream)
{
    if (!pCopy)
        return cuMemcpy2DAsync_v2(NULL, hStream);
    CUDA_MEMCPY2D wide = widen_2d(pCopy);
    return cuMemcpy2DAsync_v2(&wide, hStream);
}

static CUDA_MEMCPY3D widen_3d(const CUDA_MEMCPY3D_v1 *c)
{
    return (CUDA_MEMCPY3D){.srcXInBytes = c->srcXInBytes,
                           .srcY = c->srcY,
                           .srcZ = c->srcZ,
                           .srcLOD = c->srcLOD,
                           .srcMemoryType = c->srcMemoryType,
                           .srcHost = c->srcHost,
                           .srcDevice = c->srcDevice,
                           .srcArray = c->srcArray,
                           .reserved0 = c->reserved0,
                           .srcPitch = c->srcPitch,
                           .srcHeight = c->srcHeight,
                           .dstXInBytes = c->dstXInBytes,
                           .dstY = c->dstY,
                           .dstZ = c->dstZ,
                           .dstLOD = c->dstLOD,
                           .dstMemoryType = c->dstMemoryType,
                           .dstHost = c->dstHost,
                           .dstDevice = c->dstDevice,
                           .dstArray = c->dstArray,
                           .reserved1 = c->reserved1,
                           .dstPitch = c->dstPitch,
                           .dstHeight = c->dstHeight,
                           .WidthInBytes = c->WidthInBytes,
                           .Height = c->Height,
                           .Depth = c->Depth};
}

CUresult cuMemcpy3D(const CUDA_MEMCPY3D_v1 *pCopy)
{
    if (!pCopy)
        return cuMemcpy3D_v2(NULL);
    CUDA_MEMCPY3D wide = widen_3d(pCopy);
    return cuMemcpy3D_v2(&wide);
}

CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D_v1 *pCopy, CUstream hStream)
{
    if (!pCopy)
        return cuMemcpy3DAsync_v2(NULL, hStream);
    CUDA_MEMCPY3D wide = widen_3d(pCopy);
    return cuMemcpy3DAsync_v2(&wide, hStream);
}

/* ---- fills ---- */

CUresult cuMemsetD8(CUdeviceptr_v1 dstDevice, unsigned char uc, unsigned int N)
{
    return cuMemsetD8_v2(dstDevice, uc, N);
}

CUresult cuMemsetD16(CUdeviceptr_v1 dstDevice, unsigned short us, unsigned int N)
{
    return cuMemsetD16_v2(dstDevice, us, N);
}

CUresult cuMemsetD32(CUdeviceptr_v1 dstDevice, unsigned int ui, unsigned int N)
{
    return cuMemsetD32_v2(dstDevice, ui, N);
}

CUresult cuMemsetD2D8(CUdeviceptr_v1 dstDevice, unsigned int dstPitch, unsigned char uc,
                      unsigned int Width, unsigned int Height)
{
    return cuMemsetD2D8_v2(dstDevice, dstPitch, uc, Width, Height);
}

CUresult cuMemsetD2D16(CUdeviceptr_v1 dstDevice, unsigned int dstPitch, unsigned short us,
                       unsigned int Width, unsigned int Height)
{
    return cuMemsetD2D16_v2(dstDevice, dstPitch, us, Width, Height);
}

CUresult cuMemsetD2D32(CUdeviceptr_v1 dstDevice, unsigned int dstPitch, unsigned int ui,
                       unsigned int Width, unsigned int Height)
{
    return cuMemsetD2D32_v2(dstDevice, dstPitch, ui, Width, Height);
}

/* ---- arrays: no device has larger ones than 32 bits say ---- */

CUresult cuArrayCreate(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR_v1 *pAllocateArray)
{
    const CUDA_ARRAY_DESCRIPTOR_v1 *d = pAllocateArray;
    if (!d)
        return cuArrayCreate_v2(pHandle, NULL);
    CUDA_ARRAY_DESCRIPTOR wide = {d->Width, d->Height, d->Format, d->NumChannels};
    return cuArrayCreate_v2(pHandle, &wide);
}

CUresult cuArrayGetDescriptor(CUDA_ARRAY_DESCRIPTOR_v1 *pArrayDescriptor, CUarray hArray)
{
    CUDA_ARRAY_DESCRIPTOR d = {0};
    CUresult result = cuArrayGetDescriptor_v2(pArrayDescriptor ? &d : NULL, hArray);
    if (!result)
        *pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR_v1){(unsigned)d.Width, (unsigned)d.Height,
                                                       d.Format, d.NumChannels};
    return result;
}

CUresult cuArray3DCreate(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR_v1 *pAllocateArray)
{
    const CUDA_ARRAY3D_DESCRIPTOR_v1 *d = pAllocateArray;
    if (!d)
        return cuArray3DCreate_v2(pHandle, NULL);
    CUDA_ARRAY3D_DESCRIPTOR wide = {d->Width,  d->Height,      d->Depth,
                                    d->Format, d->NumChannels, d->Flags};
    return cuArray3DCreate_v2(pHandle, &wide);
}

CUresult cuArray3DGetDescriptor(CUDA_ARRAY3D_DESCRIPTOR_v1 *pArrayDescriptor, CUarray hArray)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {0};
    CUresult result = cuArray3DGetDescriptor_v2(pArrayDescriptor ? &d : NULL, hArray);
    if (!result)
        *pArrayDescriptor =
            (CUDA_ARRAY3D_DESCRIPTOR_v1){(unsigned)d.Width, (unsigned)d.Height, (unsigned)d.Depth,
                                         d.Format,          d.NumChannels,      d.Flags};
    return result;
}
