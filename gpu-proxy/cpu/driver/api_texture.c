/* Entry points: texture and surface objects. */
#include "gb_cuda_api.h"
#include "gpu-proxy/cpu/driver/cpu_texture.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"

CUresult cuTexObjectCreate(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc,
                           const CUDA_TEXTURE_DESC *pTexDesc,
                           const CUDA_RESOURCE_VIEW_DESC *pResViewDesc)
{
    cpu_context_t *context;
    cpu_texture_object_t facts = {.kind = CPU_TEXTURE};
    cpu_texture_t texture;
    uint64_t number;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!pTexObject || !pResDesc || !pTexDesc)
        return CUDA_ERROR_INVALID_VALUE;
    result = cpu_texture_describe(pResDesc, pTexDesc, pResViewDesc, &texture, &facts.resource);
    if (result)
        return result;
    facts.resource_desc = *pResDesc;
    facts.texture_desc = *pTexDesc;
    facts.has_view = pResViewDesc != NULL;
    if (pResViewDesc)
        facts.view_desc = *pResViewDesc;
    result = cpu_texture_open(context, &facts, &texture, &number);
    if (!result)
        *pTexObject = number;
    return result;
}

CUresult cuSurfObjectCreate(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc)
{
    cpu_context_t *context;
    cpu_texture_object_t facts = {.kind = CPU_SURFACE};
    cpu_texture_t surface;
    uint64_t number;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!pSurfObject || !pResDesc)
        return CUDA_ERROR_INVALID_VALUE;
    result = cpu_surface_describe(pResDesc, &surface, &facts.resource);
    if (result)
        return result;
    facts.resource_desc = *pResDesc;
    result = cpu_texture_open(context, &facts, &surface, &number);
    if (!result)
        *pSurfObject = number;
    return result;
}

static CUresult enter(cpu_texture_kind_t kind, uint64_t number, cpu_texture_object_t **object)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    return result ? result : cpu_texture_get(kind, number, object);
}

/* Kernels under way may use the object. */
static CUresult destroy(cpu_texture_kind_t kind, uint64_t number)
{
    cpu_texture_object_t *object;
    CUresult result = enter(kind, number, &object);
    if (result)
        return result;
    cpu_sched_wait_context(&object->context->lanes);
    result = cpu_texture_close(object);
    cpu_object_put(&object->object);
    return result;
}

CUresult cuTexObjectDestroy(CUtexObject texObject)
{
    return destroy(CPU_TEXTURE, texObject);
}

CUresult cuSurfObjectDestroy(CUsurfObject surfObject)
{
    return destroy(CPU_SURFACE, surfObject);
}

static CUresult resource_desc(cpu_texture_kind_t kind, uint64_t number, CUDA_RESOURCE_DESC *out)
{
    cpu_texture_object_t *object;
    CUresult result = enter(kind, number, &object);
    if (result)
        return result;
    if (out)
        *out = object->resource_desc;
    cpu_object_put(&object->object);
    return out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject)
{
    return resource_desc(CPU_TEXTURE, texObject, pResDesc);
}

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUsurfObject surfObject)
{
    return resource_desc(CPU_SURFACE, surfObject, pResDesc);
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject)
{
    cpu_texture_object_t *object;
    CUresult result = enter(CPU_TEXTURE, texObject, &object);
    if (result)
        return result;
    if (pTexDesc)
        *pTexDesc = object->texture_desc;
    cpu_object_put(&object->object);
    return pTexDesc ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *pResViewDesc,
                                        CUtexObject texObject)
{
    cpu_texture_object_t *object;
    CUresult result = enter(CPU_TEXTURE, texObject, &object);
    if (result)
        return result;
    if (!pResViewDesc || !object->has_view)
        result = CUDA_ERROR_INVALID_VALUE;
    else
        *pResViewDesc = object->view_desc;
    cpu_object_put(&object->object);
    return result;
}
