/* Arrays, mipmapped arrays, texture and surface objects. */
#include <string.h>

#include "gpu-proxy/session/px_state.h"

static CUDA_ARRAY3D_DESCRIPTOR descriptor(const uint64_t *args)
{
    return (CUDA_ARRAY3D_DESCRIPTOR){.Width = args[0],
                                     .Height = args[1],
                                     .Depth = args[2],
                                     .Format = (CUarray_format)args[3],
                                     .NumChannels = (unsigned)args[4],
                                     .Flags = (unsigned)args[5]};
}

CUarray px_array(px_call_t *call, uint64_t number)
{
    void *handle = px_object_get(call->session, PX_ARRAY, number);
    if (!handle)
        call->bad = CUDA_ERROR_INVALID_HANDLE;
    return handle;
}

static CUmipmappedArray mipmap_at(px_call_t *call, uint64_t number)
{
    void *handle = px_object_get(call->session, PX_MIPMAP, number);
    if (!handle)
        call->bad = CUDA_ERROR_INVALID_HANDLE;
    return handle;
}

/* u64 array, width, height, depth, format, channels, flags */
CUresult px_do_cuArray3DCreate_v2(px_call_t *call)
{
    CUDA_ARRAY3D_DESCRIPTOR d = descriptor(call->args + 1);
    CUarray array;
    CUresult result = call->cuda->cuArray3DCreate_v2(&array, &d);
    if (result)
        return result;
    result = px_object_put(call, PX_ARRAY, call->args[0], array);
    if (result)
        call->cuda->cuArrayDestroy(array);
    return result;
}

/* u64 array */
CUresult px_do_cuArrayDestroy(px_call_t *call)
{
    if (!call->may_block)
        return PX_WOULD_BLOCK;
    CUarray array = px_object_take(call->session, PX_ARRAY, call->args[0]);
    return array ? call->cuda->cuArrayDestroy(array) : CUDA_ERROR_INVALID_HANDLE;
}

/* u64 mipmap, width, height, depth, format, channels, flags, levels */
CUresult px_do_cuMipmappedArrayCreate(px_call_t *call)
{
    CUDA_ARRAY3D_DESCRIPTOR d = descriptor(call->args + 1);
    CUmipmappedArray mipmap;
    CUresult result = call->cuda->cuMipmappedArrayCreate(&mipmap, &d, (unsigned)call->args[7]);
    if (result)
        return result;
    result = px_object_put(call, PX_MIPMAP, call->args[0], mipmap);
    if (result)
        call->cuda->cuMipmappedArrayDestroy(mipmap);
    return result;
}

/* u64 mipmap, level, array */
CUresult px_do_cuMipmappedArrayGetLevel(px_call_t *call)
{
    CUmipmappedArray mipmap = mipmap_at(call, call->args[0]);
    CUarray array;
    if (call->bad)
        return call->bad;
    CUresult result = call->cuda->cuMipmappedArrayGetLevel(&array, mipmap, (unsigned)call->args[1]);
    return result ? result : px_object_put(call, PX_ARRAY, call->args[2], array);
}

/* u64 mipmap, then the arrays that stand for its levels */
CUresult px_do_cuMipmappedArrayDestroy(px_call_t *call)
{
    if (!call->may_block)
        return PX_WOULD_BLOCK;
    CUmipmappedArray mipmap = px_object_take(call->session, PX_MIPMAP, call->args[0]);
    if (!mipmap)
        return CUDA_ERROR_INVALID_HANDLE;
    for (uint32_t i = 1; i < call->frame.length / 8; i++)
        px_object_take(call->session, PX_ARRAY, call->args[i]);
    return call->cuda->cuMipmappedArrayDestroy(mipmap);
}

/* ---- textures and surfaces ---- */

static void read_resource(px_call_t *call, const px_wire_texture_t *wire, CUDA_RESOURCE_DESC *d)
{
    memcpy(d, wire->resource, sizeof(*d));
    if (d->resType == CU_RESOURCE_TYPE_ARRAY)
        d->res.array.hArray = px_array(call, (uint64_t)(uintptr_t)d->res.array.hArray);
    else if (d->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
        d->res.mipmap.hMipmappedArray =
            mipmap_at(call, (uint64_t)(uintptr_t)d->res.mipmap.hMipmappedArray);
}

/* px_wire_texture_t -> the driver's number */
CUresult px_do_cuTexObjectCreate(px_call_t *call)
{
    const px_wire_texture_t *wire = (const void *)call->payload;
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC texture;
    CUDA_RESOURCE_VIEW_DESC view;
    CUtexObject object = 0;
    read_resource(call, wire, &resource);
    memcpy(&texture, wire->texture, sizeof(texture));
    memcpy(&view, wire->view, sizeof(view));
    if (call->bad)
        return call->bad;
    CUresult result =
        call->cuda->cuTexObjectCreate(&object, &resource, &texture, wire->has_view ? &view : NULL);
    call->out[0] = object;
    call->outs = 1;
    return result;
}

/* px_wire_texture_t -> the driver's number */
CUresult px_do_cuSurfObjectCreate(px_call_t *call)
{
    const px_wire_texture_t *wire = (const void *)call->payload;
    CUDA_RESOURCE_DESC resource;
    CUsurfObject object = 0;
    read_resource(call, wire, &resource);
    if (call->bad)
        return call->bad;
    CUresult result = call->cuda->cuSurfObjectCreate(&object, &resource);
    call->out[0] = object;
    call->outs = 1;
    return result;
}

/* u64 number */
CUresult px_do_cuTexObjectDestroy(px_call_t *call)
{
    return call->may_block ? call->cuda->cuTexObjectDestroy(call->args[0]) : PX_WOULD_BLOCK;
}

/* u64 number */
CUresult px_do_cuSurfObjectDestroy(px_call_t *call)
{
    return call->may_block ? call->cuda->cuSurfObjectDestroy(call->args[0]) : PX_WOULD_BLOCK;
}
