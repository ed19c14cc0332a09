/* Entry points: CUDA arrays and mipmapped arrays, and linear copies to and from them. */
#include <string.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/cpu/driver/cpu_array.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"

/* ---- arrays ---- */

CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
    cpu_context_t *context;
    cpu_array_t *array;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!pHandle || !pAllocateArray)
        return CUDA_ERROR_INVALID_VALUE;
    result = cpu_array_open(context, pAllocateArray, &array);
    if (!result)
        *pHandle = (CUarray)array->object.handle;
    return result;
}

CUresult cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray)
{
    if (!pAllocateArray)
        return cuArray3DCreate_v2(pHandle, NULL);
    CUDA_ARRAY3D_DESCRIPTOR d = {.Width = pAllocateArray->Width,
                                 .Height = pAllocateArray->Height,
                                 .Format = pAllocateArray->Format,
                                 .NumChannels = pAllocateArray->NumChannels};
    return cuArray3DCreate_v2(pHandle, &d);
}

static CUresult enter(CUarray handle, cpu_array_t **array)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    return result ? result : cpu_array_get(handle, array);
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
    cpu_array_t *array;
    CUresult result = enter(hArray, &array);
    if (result)
        return result;
    if (pArrayDescriptor)
        *pArrayDescriptor = array->descriptor;
    else
        result = CUDA_ERROR_INVALID_VALUE;
    cpu_object_put(&array->object);
    return result;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
    CUDA_ARRAY3D_DESCRIPTOR d;
    CUresult result = cuArray3DGetDescriptor_v2(&d, hArray);
    if (result)
        return result;
    if (!pArrayDescriptor)
        return CUDA_ERROR_INVALID_VALUE;
    *pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR){d.Width, d.Height, d.Format, d.NumChannels};
    return CUDA_SUCCESS;
}

/* Freeing waits for what may use the texels. */
CUresult cuArrayDestroy(CUarray hArray)
{
    cpu_array_t *array;
    CUresult result = enter(hArray, &array);
    if (result)
        return result;
    if (array->is_level) {
        result = CUDA_ERROR_INVALID_HANDLE;
    } else {
        cpu_sched_wait_context(&array->context->lanes);
        result = cpu_array_close(array);
    }
    cpu_object_put(&array->object);
    return result;
}

/* What follows is about planar, sparse and deferred arrays, of which there are none here. */
static CUresult no_such_array(CUarray handle)
{
    cpu_array_t *array;
    CUresult result = enter(handle, &array);
    if (result)
        return result;
    cpu_object_put(&array->object);
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuArrayGetPlane(CUarray *pPlaneArray, CUarray hArray, unsigned int planeIdx)
{
    (void)pPlaneArray;
    (void)planeIdx;
    return no_such_array(hArray);
}

CUresult cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties, CUarray array)
{
    (void)sparseProperties;
    return no_such_array(array);
}

CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
                                      CUarray array, CUdevice device)
{
    cpu_device_t *found;
    (void)memoryRequirements;
    CUresult result = cpu_device_get(device, &found);
    return result ? result : no_such_array(array);
}

/* ---- mipmapped arrays ---- */

CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle,
                                const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                unsigned int numMipmapLevels)
{
    cpu_context_t *context;
    cpu_mipmap_t *mipmap;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!pHandle || !pMipmappedArrayDesc)
        return CUDA_ERROR_INVALID_VALUE;
    result = cpu_mipmap_open(context, pMipmappedArrayDesc, numMipmapLevels, &mipmap);
    if (!result)
        *pHandle = (CUmipmappedArray)mipmap->object.handle;
    return result;
}

static CUresult enter_mipmap(CUmipmappedArray handle, cpu_mipmap_t **mipmap)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    return result ? result : cpu_mipmap_get(handle, mipmap);
}

CUresult cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray,
                                  unsigned int level)
{
    cpu_mipmap_t *mipmap;
    CUresult result = enter_mipmap(hMipmappedArray, &mipmap);
    if (result)
        return result;
    if (!pLevelArray || level >= mipmap->levels)
        result = CUDA_ERROR_INVALID_VALUE;
    else
        *pLevelArray = (CUarray)mipmap->level[level]->object.handle;
    cpu_object_put(&mipmap->object);
    return result;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
    cpu_mipmap_t *mipmap;
    CUresult result = enter_mipmap(hMipmappedArray, &mipmap);
    if (result)
        return result;
    cpu_sched_wait_context(&mipmap->context->lanes);
    result = cpu_mipmap_close(mipmap);
    cpu_object_put(&mipmap->object);
    return result;
}

static CUresult no_such_mipmap(CUmipmappedArray handle)
{
    cpu_mipmap_t *mipmap;
    CUresult result = enter_mipmap(handle, &mipmap);
    if (result)
        return result;
    cpu_object_put(&mipmap->object);
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties,
                                             CUmipmappedArray mipmap)
{
    (void)sparseProperties;
    return no_such_mipmap(mipmap);
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
                                               CUmipmappedArray mipmap, CUdevice device)
{
    cpu_device_t *found;
    (void)memoryRequirements;
    CUresult result = cpu_device_get(device, &found);
    return result ? result : no_such_mipmap(mipmap);
}

/* ---- linear copies: of one-dimensional arrays ---- */

static CUresult check_linear(CUarray handle)
{
    cpu_array_t *array;
    CUresult result = enter(handle, &array);
    if (result)
        return result;
    if (array->descriptor.Height || array->descriptor.Depth)
        result = CUDA_ERROR_INVALID_VALUE;
    cpu_object_put(&array->object);
    return result;
}

static CUDA_MEMCPY3D one_row(size_t bytes)
{
    return (CUDA_MEMCPY3D){.WidthInBytes = bytes, .Height = 1, .Depth = 1};
}

static void from_array(CUDA_MEMCPY3D *copy, CUarray array, size_t offset)
{
    copy->srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy->srcArray = array;
    copy->srcXInBytes = offset;
}

static void to_array(CUDA_MEMCPY3D *copy, CUarray array, size_t offset)
{
    copy->dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy->dstArray = array;
    copy->dstXInBytes = offset;
}

CUresult cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray, size_t srcOffset,
                         size_t ByteCount)
{
    CUDA_MEMCPY3D copy = one_row(ByteCount);
    CUresult result = check_linear(dstArray);
    if (!result)
        result = check_linear(srcArray);
    to_array(&copy, dstArray, dstOffset);
    from_array(&copy, srcArray, srcOffset);
    return result ? result : cuMemcpy3DAsync_v2(&copy, NULL);
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray, size_t srcOffset,
                         size_t ByteCount)
{
    CUDA_MEMCPY3D copy = one_row(ByteCount);
    CUresult result = check_linear(srcArray);
    from_array(&copy, srcArray, srcOffset);
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = dstDevice;
    return result ? result : cuMemcpy3DAsync_v2(&copy, NULL);
}

CUresult cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset, CUdeviceptr srcDevice,
                         size_t ByteCount)
{
    CUDA_MEMCPY3D copy = one_row(ByteCount);
    CUresult result = check_linear(dstArray);
    to_array(&copy, dstArray, dstOffset);
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = srcDevice;
    return result ? result : cuMemcpy3DAsync_v2(&copy, NULL);
}

static CUresult to_host(void *dst, CUarray array, size_t offset, size_t bytes, CUDA_MEMCPY3D *copy)
{
    *copy = one_row(bytes);
    from_array(copy, array, offset);
    copy->dstMemoryType = CU_MEMORYTYPE_HOST;
    copy->dstHost = dst;
    return check_linear(array);
}

static CUresult from_host(CUarray array, size_t offset, const void *src, size_t bytes,
                          CUDA_MEMCPY3D *copy)
{
    *copy = one_row(bytes);
    to_array(copy, array, offset);
    copy->srcMemoryType = CU_MEMORYTYPE_HOST;
    copy->srcHost = src;
    return check_linear(array);
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
