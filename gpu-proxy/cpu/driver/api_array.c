/* Entry points: CUDA arrays and mipmapped arrays. */
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
