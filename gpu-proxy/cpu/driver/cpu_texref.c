#include "gpu-proxy/cpu/driver/cpu_texref.h"

#include <stdlib.h>
#include <string.h>

static void destroy(cpu_object_t *object)
{
    cpu_texref_t *ref = (cpu_texref_t *)object;
    if (ref->number)
        cpu_texture_remove(ref->number);
    if (ref->resource)
        cpu_object_put(ref->resource);
    pthread_mutex_destroy(&ref->lock);
    cpu_object_put(&ref->context->object);
    free(ref);
}

CUresult cpu_texref_open(cpu_context_t *context, cpu_texture_kind_t kind, cpu_texref_t **ref)
{
    const cpu_texture_t nothing = {.image = {.levels = 0}};
    cpu_texref_t *made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cpu_object_init(&made->object, CPU_KIND_TEXREF, destroy);
    pthread_mutex_init(&made->lock, NULL);
    cpu_object_ref(&context->object);
    made->context = context;
    made->kind = kind;
    made->binding.format = CU_AD_FORMAT_FLOAT;
    made->binding.channels = 1;
    for (int i = 0; i < 3; i++)
        made->binding.texture.addressMode[i] = CU_TR_ADDRESS_MODE_CLAMP;
    made->number = cpu_texture_add(kind, &nothing, NULL);
    if (!made->number || !cpu_handle_add(&made->object)) {
        cpu_object_put(&made->object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *ref = made;
    return CUDA_SUCCESS;
}

void cpu_texref_close(cpu_texref_t *ref)
{
    cpu_object_put(cpu_handle_remove(CPU_KIND_TEXREF, ref->object.handle));
}

CUresult cpu_texref_get(cpu_texture_kind_t kind, const void *handle, cpu_texref_t **ref)
{
    cpu_texref_t *found = (cpu_texref_t *)cpu_handle_get(CPU_KIND_TEXREF, (uintptr_t)handle);
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result =
        found->kind == kind ? cpu_context_state(found->context) : CUDA_ERROR_INVALID_HANDLE;
    if (result)
        cpu_object_put(&found->object);
    else
        *ref = found;
    return result;
}

cpu_binding_t cpu_texref_binding(cpu_texref_t *ref)
{
    pthread_mutex_lock(&ref->lock);
    cpu_binding_t binding = ref->binding;
    pthread_mutex_unlock(&ref->lock);
    return binding;
}

static CUresult describe(const cpu_texref_t *ref, const cpu_binding_t *binding,
                         cpu_texture_t *texture, cpu_object_t **resource)
{
    memset(texture, 0, sizeof(*texture));
    *resource = NULL;
    if (!binding->bound)
        return CUDA_SUCCESS;
    return ref->kind == CPU_SURFACE ? cpu_surface_describe(&binding->resource, texture, resource)
                                    : cpu_texture_describe(&binding->resource, &binding->texture,
                                                           NULL, texture, resource);
}

/* Whether the thing that is bound exists, apart from how it is read. */
static CUresult check_resource(const cpu_binding_t *binding)
{
    cpu_array_t *array;
    cpu_mipmap_t *mipmap;
    CUresult result = CUDA_SUCCESS;
    if (binding->resource.resType == CU_RESOURCE_TYPE_ARRAY) {
        result = cpu_array_get(binding->resource.res.array.hArray, &array);
        if (!result)
            cpu_object_put(&array->object);
    } else if (binding->resource.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) {
        result = cpu_mipmap_get(binding->resource.res.mipmap.hMipmappedArray, &mipmap);
        if (!result)
            cpu_object_put(&mipmap->object);
    }
    return result;
}

CUresult cpu_texref_bind(cpu_texref_t *ref, const cpu_binding_t *binding)
{
    cpu_texture_t texture;
    cpu_object_t *resource, *old;
    if (describe(ref, binding, &texture, &resource)) {
        CUresult result = check_resource(binding);
        if (result)
            return result;
        texture.image.levels = 0; /* not usable as it is */
    }
    /* A launch sees the state that the reference has when it is called. */
    cpu_sched_wait_context(&ref->context->lanes);
    pthread_mutex_lock(&ref->lock);
    ref->binding = *binding;
    old = ref->resource;
    ref->resource = resource;
    cpu_texture_set(ref->number, &texture);
    pthread_mutex_unlock(&ref->lock);
    if (old)
        cpu_object_put(old);
    return CUDA_SUCCESS;
}
