/* Texture and surface objects. Their numbers are the driver's, because kernels get them as they are; two
 * sessions may give the same one, so the current context's session decides. */
#include <stdlib.h>
#include <string.h>

#include "common/cuda/gb_cuda_shape.h"
#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_array.h"

typedef struct {
    uint64_t number;
    int surface;
    const rc_session_t *session;
    rc_object_t *context;
    CUDA_RESOURCE_DESC resource;
    CUDA_TEXTURE_DESC texture;
    CUDA_RESOURCE_VIEW_DESC view;
    int has_view;
} texture_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static texture_t *textures;
static size_t texture_count, texture_room;

static CUresult keep(const texture_t *texture)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    if (texture_count == texture_room) {
        size_t room = texture_room * 2 + 16;
        texture_t *grown = realloc(textures, room * sizeof(*grown));
        if (grown) {
            textures = grown;
            texture_room = room;
        } else {
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    if (!result)
        textures[texture_count++] = *texture;
    pthread_mutex_unlock(&lock);
    return result;
}

/* Copies it out; with `take` it is gone afterwards. */
static int find(const rc_session_t *session, int surface, uint64_t number, int take, texture_t *out)
{
    int found = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < texture_count && !found; i++) {
        texture_t *t = &textures[i];
        found = t->session == session && t->surface == surface && t->number == number;
        if (found)
            *out = *t;
        if (found && take)
            *t = textures[--texture_count];
    }
    pthread_mutex_unlock(&lock);
    return found;
}

void rc_textures_drop(const rc_object_t *context)
{
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < texture_count; i++)
        if (textures[i].context == context)
            textures[i--] = textures[--texture_count];
    pthread_mutex_unlock(&lock);
}

/* Handles become numbers; what no driver takes is found here. */
static CUresult translate(rc_call_t *call, CUDA_RESOURCE_DESC *d)
{
    uint64_t number = 0;
    CUresult result = CUDA_SUCCESS;
    if (d->resType == CU_RESOURCE_TYPE_ARRAY) {
        result = rc_use_array(call, d->res.array.hArray, &number);
        d->res.array.hArray = (CUarray)(uintptr_t)number;
    } else if (d->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) {
        result = rc_use_mipmap(call, d->res.mipmap.hMipmappedArray, &number);
        d->res.mipmap.hMipmappedArray = (CUmipmappedArray)(uintptr_t)number;
    } else if (d->resType == CU_RESOURCE_TYPE_LINEAR) {
        result = rc_use_range(call, d->res.linear.devPtr, d->res.linear.sizeInBytes, 1, &number);
    } else if (d->resType == CU_RESOURCE_TYPE_PITCH2D) {
        uint64_t texel = gb_texel_bytes(d->res.pitch2D.format, d->res.pitch2D.numChannels);
        result = rc_use_rows(call, d->res.pitch2D.devPtr, d->res.pitch2D.pitchInBytes,
                             d->res.pitch2D.width * texel, 1, d->res.pitch2D.height, &number);
    }
    return result;
}

static CUresult make(rc_call_t *call, texture_t *t, uint64_t *out)
{
    px_wire_texture_t wire = {.has_view = (uint32_t)t->has_view};
    rc_waiter_t waiter = {0};
    CUDA_RESOURCE_DESC resource = t->resource;
    CUresult result = translate(call, &resource);
    if (result)
        return result;
    memcpy(wire.resource, &resource, sizeof(resource));
    memcpy(wire.texture, &t->texture, sizeof(t->texture));
    memcpy(wire.view, &t->view, sizeof(t->view));
    result = rc_ask_bytes(call, t->surface ? GB_OP_cuSurfObjectCreate : GB_OP_cuTexObjectCreate,
                          &wire, sizeof(wire), NULL, 0, &waiter);
    if (!result)
        memcpy(&t->number, rc_waiter_bytes(&waiter), sizeof(t->number));
    rc_waiter_done(&waiter);
    t->session = call->session;
    t->context = call->context;
    if (!result)
        result = keep(t);
    if (!result)
        *out = t->number;
    return result;
}

CUresult cuTexObjectCreate(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc,
                           const CUDA_TEXTURE_DESC *pTexDesc,
                           const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)
{
    rc_call_t call;
    uint64_t number;
    CUresult result = rc_begin_in_context(&call);
    if (!result && (!pTexObject || !pResDesc || !pTexDesc))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    texture_t t = {.resource = *pResDesc, .texture = *pTexDesc, .has_view = pResViewDesc != NULL};
    if (pResViewDesc)
        t.view = *pResViewDesc;
    result = make(&call, &t, &number);
    if (!result)
        *pTexObject = number;
    return result;
}

CUresult cuSurfObjectCreate(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc)
{
    rc_call_t call;
    uint64_t number;
    CUresult result = rc_begin_in_context(&call);
    if (!result && (!pSurfObject || !pResDesc))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    texture_t t = {.surface = 1, .resource = *pResDesc};
    result = make(&call, &t, &number);
    if (!result)
        *pSurfObject = number;
    return result;
}

static CUresult enter(int surface, uint64_t number, int take, rc_call_t *call, texture_t *out)
{
    CUresult result = rc_begin_in_context(call);
    if (!result && !find(call->session, surface, number, take, out))
        result = CUDA_ERROR_INVALID_VALUE;
    return result;
}

/* Kernels under way may use the object: the session waits for them. */
static CUresult destroy(int surface, uint64_t number)
{
    rc_call_t call;
    texture_t t;
    CUresult result = enter(surface, number, 1, &call, &t);
    return result ? result
                  : rc_ask(&call, surface ? GB_OP_cuSurfObjectDestroy : GB_OP_cuTexObjectDestroy,
                           &number, 1, NULL, 0);
}

CUresult cuTexObjectDestroy(CUtexObject texObject)
{
    return destroy(0, texObject);
}

CUresult cuSurfObjectDestroy(CUsurfObject surfObject)
{
    return destroy(1, surfObject);
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject)
{
    rc_call_t call;
    texture_t t;
    CUresult result = enter(0, texObject, 0, &call, &t);
    if (!result && !pResDesc)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *pResDesc = t.resource;
    return result;
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUsurfObject surfObject)
{
    rc_call_t call;
    texture_t t;
    CUresult result = enter(1, surfObject, 0, &call, &t);
    if (!result && !pResDesc)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *pResDesc = t.resource;
    return result;
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject)
{
    rc_call_t call;
    texture_t t;
    CUresult result = enter(0, texObject, 0, &call, &t);
    if (!result && !pTexDesc)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *pTexDesc = t.texture;
    return result;
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *pResViewDesc,
                                        CUtexObject texObject)
{
    rc_call_t call;
    texture_t t;
    CUresult result = enter(0, texObject, 0, &call, &t);
    if (!result && (!pResViewDesc || !t.has_view))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *pResViewDesc = t.view;
    return result;
}
