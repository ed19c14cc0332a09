/* Arrays and mipmapped arrays. The session makes them; what they are like is known here. */
#include <stdlib.h>
#include <string.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_array.h"

CUresult rc_use_array(rc_call_t *call, CUarray array, uint64_t *wire)
{
    rc_object_t *object = rc_object_get(RC_ARRAY, array);
    if (!object)
        return CUDA_ERROR_INVALID_HANDLE;
    *wire = object->number;
    return rc_belongs(call, object);
}

CUresult rc_use_mipmap(rc_call_t *call, CUmipmappedArray mipmap, uint64_t *wire)
{
    rc_object_t *object = rc_object_get(RC_MIPMAP, mipmap);
    if (!object)
        return CUDA_ERROR_INVALID_HANDLE;
    *wire = object->number;
    return rc_belongs(call, object);
}

static void give_up(rc_object_t *object)
{
    if (rc_object_kill(object))
        rc_object_free(object);
}

/* ---- arrays ---- */

CUresult cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray)
{
    rc_call_t call;
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    if (!pHandle || !pAllocateArray)
        return CUDA_ERROR_INVALID_VALUE;
    rc_object_t *array = rc_object_new(RC_ARRAY, call.session, call.context);
    if (!array)
        return CUDA_ERROR_OUT_OF_MEMORY;
    const CUDA_ARRAY3D_DESCRIPTOR *d = pAllocateArray;
    array->array.descriptor = *d;
    uint64_t args[] = {array->number, d->Width,       d->Height, d->Depth,
                       d->Format,     d->NumChannels, d->Flags};
    result = rc_ask(&call, GB_OP_cuArray3DCreate_v2, args, 7, NULL, 0);
    if (result)
        give_up(array);
    else
        *pHandle = rc_handle(array);
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

static CUresult find_array(CUarray handle, rc_call_t *call, rc_object_t **out)
{
    CUresult result = rc_begin_in_context(call);
    if (result)
        return result;
    *out = rc_object_get(RC_ARRAY, handle);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
    rc_call_t call;
    rc_object_t *array;
    CUresult result = find_array(hArray, &call, &array);
    if (!result && !pArrayDescriptor)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *pArrayDescriptor = array->array.descriptor;
    return result;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray)
{
    CUDA_ARRAY3D_DESCRIPTOR d;
    CUresult result = cuArray3DGetDescriptor_v2(&d, hArray);
    if (!result && !pArrayDescriptor)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR){d.Width, d.Height, d.Format, d.NumChannels};
    return result;
}

/* It waits for what may use the texels, as everywhere. */
CUresult cuArrayDestroy(CUarray hArray)
{
    rc_call_t call;
    rc_object_t *array;
    uint64_t number;
    CUresult result = find_array(hArray, &call, &array);
    if (!result)
        result = rc_use_array(&call, hArray, &number);
    if (!result && (array->array.is_level || !rc_object_kill(array)))
        result = CUDA_ERROR_INVALID_HANDLE;
    if (result)
        return result;
    result = rc_ask(&call, GB_OP_cuArrayDestroy, &number, 1, NULL, 0);
    rc_object_free(array);
    return result;
}

/* Planar, sparse and deferred arrays cannot be made over the network. */
static CUresult no_such_array(CUarray handle)
{
    rc_call_t call;
    rc_object_t *array;
    CUresult result = find_array(handle, &call, &array);
    return result ? result : CUDA_ERROR_INVALID_VALUE;
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
    (void)memoryRequirements;
    CUresult result = rc_check();
    if (!result && !rc_device(device))
        result = CUDA_ERROR_INVALID_DEVICE;
    return result ? result : no_such_array(array);
}

/* ---- mipmapped arrays ---- */

/* Down to one texel at most. */
static unsigned levels_of(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned asked)
{
    int volume = d->Depth && !(d->Flags & (RC_ARRAY_LAYERED | RC_ARRAY_CUBE));
    size_t longest = d->Width > d->Height ? d->Width : d->Height;
    unsigned most = 1;
    longest = volume && d->Depth > longest ? d->Depth : longest;
    while (longest >>= 1)
        most++;
    most = most < 32 ? most : 32;
    return asked < 1 ? 1 : asked < most ? asked : most;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *pHandle,
                                const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                unsigned int numMipmapLevels)
{
    rc_call_t call;
    const CUDA_ARRAY3D_DESCRIPTOR *d = pMipmappedArrayDesc;
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    if (!pHandle || !d)
        return CUDA_ERROR_INVALID_VALUE;
    struct rc_mipmap *mipmap = calloc(1, sizeof(*mipmap));
    rc_object_t *object = mipmap ? rc_object_new(RC_MIPMAP, call.session, call.context) : NULL;
    if (!object) {
        free(mipmap);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    mipmap->descriptor = *d;
    mipmap->levels = levels_of(d, numMipmapLevels);
    pthread_mutex_init(&mipmap->lock, NULL);
    object->mipmap = mipmap;
    uint64_t args[] = {object->number, d->Width,       d->Height, d->Depth,
                       d->Format,      d->NumChannels, d->Flags,  numMipmapLevels};
    result = rc_ask(&call, GB_OP_cuMipmappedArrayCreate, args, 8, NULL, 0);
    if (!result) {
        *pHandle = rc_handle(object);
    } else if (rc_object_kill(object)) {
        rc_mipmap_free(mipmap);
        rc_object_free(object);
    }
    return result;
}

void rc_mipmap_free(struct rc_mipmap *mipmap)
{
    pthread_mutex_destroy(&mipmap->lock);
    free(mipmap);
}

static CUresult find_mipmap(CUmipmappedArray handle, rc_call_t *call, rc_object_t **out)
{
    CUresult result = rc_begin_in_context(call);
    if (result)
        return result;
    *out = rc_object_get(RC_MIPMAP, handle);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static size_t halved(size_t size, unsigned level)
{
    return !size ? 0 : size >> level ? size >> level : 1;
}

/* With the mipmap's lock held. */
static CUresult make_level(rc_call_t *call, rc_object_t *object, unsigned level)
{
    struct rc_mipmap *mipmap = object->mipmap;
    rc_object_t *array = rc_object_new(RC_ARRAY, object->session, object->context);
    if (!array)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUDA_ARRAY3D_DESCRIPTOR d = mipmap->descriptor;
    int volume = !(d.Flags & (RC_ARRAY_LAYERED | RC_ARRAY_CUBE));
    d.Width = halved(d.Width, level);
    d.Height = halved(d.Height, level);
    d.Depth = volume ? halved(d.Depth, level) : d.Depth;
    array->array.descriptor = d;
    array->array.is_level = 1;
    uint64_t args[3] = {0, level, array->number};
    CUresult result = rc_use_mipmap(call, rc_handle(object), &args[0]);
    if (!result)
        result = rc_ask(call, GB_OP_cuMipmappedArrayGetLevel, args, 3, NULL, 0);
    if (result)
        give_up(array);
    else
        mipmap->level[level] = rc_handle(array);
    return result;
}

CUresult cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray,
                                  unsigned int level)
{
    rc_call_t call;
    rc_object_t *object;
    CUresult result = find_mipmap(hMipmappedArray, &call, &object);
    if (!result && (!pLevelArray || level >= object->mipmap->levels))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    pthread_mutex_lock(&object->mipmap->lock);
    if (!object->mipmap->level[level])
        result = make_level(&call, object, level);
    if (!result)
        *pLevelArray = object->mipmap->level[level];
    pthread_mutex_unlock(&object->mipmap->lock);
    return result;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray)
{
    rc_call_t call;
    rc_object_t *object, *levels[32];
    uint64_t args[33];
    unsigned count = 0;
    CUresult result = find_mipmap(hMipmappedArray, &call, &object);
    if (!result)
        result = rc_use_mipmap(&call, hMipmappedArray, &args[0]);
    if (!result && !rc_object_kill(object))
        result = CUDA_ERROR_INVALID_HANDLE;
    if (result)
        return result;
    for (unsigned i = 0; i < object->mipmap->levels; i++) {
        rc_object_t *level = rc_object_get(RC_ARRAY, object->mipmap->level[i]);
        if (level && rc_object_kill(level)) {
            levels[count++] = level;
            args[count] = level->number;
        }
    }
    result = rc_ask(&call, GB_OP_cuMipmappedArrayDestroy, args, count + 1, NULL, 0);
    while (count > 0)
        rc_object_free(levels[--count]);
    rc_mipmap_free(object->mipmap);
    rc_object_free(object);
    return result;
}

static CUresult no_such_mipmap(CUmipmappedArray handle)
{
    rc_call_t call;
    rc_object_t *object;
    CUresult result = find_mipmap(handle, &call, &object);
    return result ? result : CUDA_ERROR_INVALID_VALUE;
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
    (void)memoryRequirements;
    CUresult result = rc_check();
    if (!result && !rc_device(device))
        result = CUDA_ERROR_INVALID_DEVICE;
    return result ? result : no_such_mipmap(mipmap);
}
