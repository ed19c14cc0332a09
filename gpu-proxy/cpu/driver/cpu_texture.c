#include "gpu-proxy/cpu/driver/cpu_texture.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/driver/cpu_memory.h"

/* Between looking an object's number up and taking a reference nobody may remove it. */
static pthread_mutex_t numbers = PTHREAD_MUTEX_INITIALIZER;

/* ---- resources ---- */

static CUresult describe_array(CUarray handle, cpu_tex_image_t *image, bool *is_float,
                               cpu_object_t **resource)
{
    cpu_array_t *array;
    CUresult result = cpu_array_get(handle, &array);
    if (result)
        return result;
    *image = array->image;
    (void)cpu_array_format(array->descriptor.Format, array->descriptor.NumChannels, image,
                           is_float);
    *resource = &array->object;
    return CUDA_SUCCESS;
}

static CUresult describe_mipmap(CUmipmappedArray handle, cpu_tex_image_t *image, bool *is_float,
                                cpu_object_t **resource)
{
    cpu_mipmap_t *mipmap;
    CUresult result = cpu_mipmap_get(handle, &mipmap);
    if (result)
        return result;
    *image = mipmap->level[0]->image;
    image->levels = mipmap->levels;
    for (uint32_t i = 0; i < mipmap->levels; i++)
        image->level[i] = mipmap->level[i]->image.level[0];
    (void)cpu_array_format(mipmap->descriptor.Format, mipmap->descriptor.NumChannels, image,
                           is_float);
    *resource = &mipmap->object;
    return CUDA_SUCCESS;
}

static bool is_memory(uint64_t address, uint64_t bytes)
{
    return address && address % CPU_TEX_ALIGN == 0 &&
           cpu_memory_covers(CPU_MEMORY_ANY, address, bytes);
}

static CUresult describe_linear(const CUDA_RESOURCE_DESC *d, cpu_tex_image_t *image, bool *is_float)
{
    CUresult result =
        cpu_array_format(d->res.linear.format, d->res.linear.numChannels, image, is_float);
    if (result)
        return result;
    uint64_t texels = d->res.linear.sizeInBytes / image->bytes;
    if (!texels || texels > CPU_TEX_1D_LINEAR ||
        !is_memory(d->res.linear.devPtr, d->res.linear.sizeInBytes))
        return CUDA_ERROR_INVALID_VALUE;
    image->dimensions = 1;
    image->levels = 1;
    image->fetch = true;
    image->level[0] = (cpu_tex_level_t){.data = (uint8_t *)d->res.linear.devPtr,
                                        .width = (uint32_t)texels,
                                        .height = 1,
                                        .depth = 1,
                                        .row = texels * image->bytes,
                                        .slice = texels * image->bytes};
    return CUDA_SUCCESS;
}

static CUresult describe_pitch(const CUDA_RESOURCE_DESC *d, cpu_tex_image_t *image, bool *is_float)
{
    uint64_t width = d->res.pitch2D.width, height = d->res.pitch2D.height;
    uint64_t pitch = d->res.pitch2D.pitchInBytes;
    CUresult result =
        cpu_array_format(d->res.pitch2D.format, d->res.pitch2D.numChannels, image, is_float);
    if (result)
        return result;
    if (!width || !height || width > CPU_TEX_2D_LINEAR_WIDTH || height > CPU_TEX_2D_LINEAR_HEIGHT ||
        pitch > CPU_TEX_2D_LINEAR_PITCH || pitch % CPU_TEX_PITCH_ALIGN ||
        pitch < width * image->bytes ||
        !is_memory(d->res.pitch2D.devPtr, (height - 1) * pitch + width * image->bytes))
        return CUDA_ERROR_INVALID_VALUE;
    image->dimensions = 2;
    image->levels = 1;
    image->level[0] = (cpu_tex_level_t){.data = (uint8_t *)d->res.pitch2D.devPtr,
                                        .width = (uint32_t)width,
                                        .height = (uint32_t)height,
                                        .depth = 1,
                                        .row = pitch,
                                        .slice = pitch * height};
    return CUDA_SUCCESS;
}

static CUresult describe_image(const CUDA_RESOURCE_DESC *d, cpu_tex_image_t *image, bool *is_float,
                               cpu_object_t **resource)
{
    memset(image, 0, sizeof(*image));
    *resource = NULL;
    if (!d || d->flags)
        return CUDA_ERROR_INVALID_VALUE;
    switch (d->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
        return describe_array(d->res.array.hArray, image, is_float, resource);
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        return describe_mipmap(d->res.mipmap.hMipmappedArray, image, is_float, resource);
    case CU_RESOURCE_TYPE_LINEAR:
        return describe_linear(d, image, is_float);
    case CU_RESOURCE_TYPE_PITCH2D:
        return describe_pitch(d, image, is_float);
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* ---- views: a part of an array, perhaps read as another format of the same size ---- */

static bool view_format(CUresourceViewFormat format, cpu_tex_image_t *image)
{
    static const uint8_t texels[] = {CPU_TEXEL_U8,  CPU_TEXEL_S8,  CPU_TEXEL_U16, CPU_TEXEL_S16,
                                     CPU_TEXEL_U32, CPU_TEXEL_S32, CPU_TEXEL_F16, CPU_TEXEL_F32};
    static const uint8_t sizes[] = {1, 1, 2, 2, 4, 4, 2, 4};
    unsigned n = (unsigned)format - CU_RES_VIEW_FORMAT_UINT_1X8, channels = 1u << n % 3;
    if (sizes[n / 3] * channels != image->bytes)
        return false;
    image->texel = texels[n / 3];
    image->channels = (uint8_t)channels;
    return true;
}

static CUresult apply_view(const CUDA_RESOURCE_VIEW_DESC *v, cpu_tex_image_t *image, bool *is_float)
{
    const cpu_tex_level_t *whole = &image->level[0];
    if ((int)v->format < 0 || v->format > CU_RES_VIEW_FORMAT_UNSIGNED_BC7)
        return CUDA_ERROR_INVALID_VALUE;
    if (v->format >= CU_RES_VIEW_FORMAT_UNSIGNED_BC1)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (v->format != CU_RES_VIEW_FORMAT_NONE) {
        if (!view_format(v->format, image))
            return CUDA_ERROR_INVALID_VALUE;
        *is_float = false;
    }
    if (v->width != whole->width || (image->dimensions > 1 && v->height != whole->height) ||
        (image->dimensions > 2 && v->depth != whole->depth) ||
        v->lastMipmapLevel < v->firstMipmapLevel || v->lastMipmapLevel >= image->levels)
        return CUDA_ERROR_INVALID_VALUE;
    uint32_t levels = v->lastMipmapLevel - v->firstMipmapLevel + 1;
    memmove(image->level, image->level + v->firstMipmapLevel, levels * sizeof(image->level[0]));
    image->levels = levels;
    if (!image->layered)
        return CUDA_SUCCESS;
    uint32_t per = image->cube ? 6 : 1;
    if (v->lastLayer < v->firstLayer || v->lastLayer >= image->level[0].depth)
        return CUDA_ERROR_INVALID_VALUE;
    uint32_t layers = v->lastLayer - v->firstLayer + 1;
    if (v->firstLayer % per || layers % per)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < levels; i++) {
        image->level[i].data += image->level[i].slice * v->firstLayer;
        image->level[i].depth = layers;
    }
    return CUDA_SUCCESS;
}

/* ---- samplers ---- */

enum {
    READ_AS_INTEGER = 0x01,
    NORMALISED = 0x02,
    SRGB = 0x10,
    NO_TRILINEAR_OPTIMISATION = 0x20,
    SEAMLESS = 0x40,
    SAMPLER_FLAGS = READ_AS_INTEGER | NORMALISED | SRGB | NO_TRILINEAR_OPTIMISATION | SEAMLESS,
};

static bool is_filter(CUfilter_mode mode)
{
    return mode == CU_TR_FILTER_MODE_POINT || mode == CU_TR_FILTER_MODE_LINEAR;
}

static CUresult make_sampler(const CUDA_TEXTURE_DESC *d, const cpu_tex_image_t *image,
                             bool is_float, bool mipmapped, cpu_tex_sampler_t *s)
{
    if (!d || (d->flags & ~(unsigned)SAMPLER_FLAGS) || !is_filter(d->filterMode) ||
        (mipmapped && (!is_filter(d->mipmapFilterMode) || !(d->flags & NORMALISED))))
        return CUDA_ERROR_INVALID_VALUE;
    memset(s, 0, sizeof(*s));
    for (int i = 0; i < 3; i++) {
        if ((int)d->addressMode[i] < 0 || d->addressMode[i] > CU_TR_ADDRESS_MODE_BORDER)
            return CUDA_ERROR_INVALID_VALUE;
        s->address[i] = (uint8_t)d->addressMode[i];
    }
    bool narrow = image->texel == CPU_TEXEL_U8 || image->texel == CPU_TEXEL_U16 ||
                  image->texel == CPU_TEXEL_S8 || image->texel == CPU_TEXEL_S16;
    s->to_float = narrow && (is_float || !(d->flags & READ_AS_INTEGER));
    s->linear = d->filterMode == CU_TR_FILTER_MODE_LINEAR;
    if (s->linear && !s->to_float && image->texel < CPU_TEXEL_F16)
        return CUDA_ERROR_INVALID_VALUE; /* integers are not filtered */
    s->mip_linear = mipmapped && d->mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR;
    s->normalised = d->flags & NORMALISED;
    s->srgb = (d->flags & SRGB) && s->to_float && image->texel == CPU_TEXEL_U8;
    s->seamless = d->flags & SEAMLESS;
    if (mipmapped) {
        s->bias = d->mipmapLevelBias;
        s->min_level = d->minMipmapLevelClamp;
        s->max_level = d->maxMipmapLevelClamp;
    }
    memcpy(s->border, d->borderColor, sizeof(s->border));
    return CUDA_SUCCESS;
}

CUresult cpu_texture_describe(const CUDA_RESOURCE_DESC *resource_desc,
                              const CUDA_TEXTURE_DESC *texture_desc,
                              const CUDA_RESOURCE_VIEW_DESC *view, cpu_texture_t *texture,
                              cpu_object_t **resource)
{
    bool is_float = false;
    CUresult result = describe_image(resource_desc, &texture->image, &is_float, resource);
    if (!result && view)
        result =
            *resource ? apply_view(view, &texture->image, &is_float) : CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = make_sampler(texture_desc, &texture->image, is_float,
                              resource_desc->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY,
                              &texture->sampler);
    if (result) {
        cpu_object_put(*resource);
        *resource = NULL;
    }
    return result;
}

CUresult cpu_surface_describe(const CUDA_RESOURCE_DESC *resource_desc, cpu_texture_t *surface,
                              cpu_object_t **resource)
{
    bool is_float;
    *resource = NULL;
    if (!resource_desc || resource_desc->resType != CU_RESOURCE_TYPE_ARRAY)
        return CUDA_ERROR_INVALID_VALUE;
    memset(surface, 0, sizeof(*surface));
    CUresult result = describe_image(resource_desc, &surface->image, &is_float, resource);
    if (!result && !(((const cpu_array_t *)*resource)->descriptor.Flags & CPU_ARRAY_SURFACE)) {
        cpu_object_put(*resource);
        *resource = NULL;
        return CUDA_ERROR_INVALID_VALUE;
    }
    surface->sampler.to_float = !result && is_float;
    return result;
}

/* ---- objects ---- */

static void destroy(cpu_object_t *object)
{
    cpu_texture_object_t *texture = (cpu_texture_object_t *)object;
    pthread_mutex_lock(&numbers);
    if (texture->number)
        cpu_texture_remove(texture->number);
    pthread_mutex_unlock(&numbers);
    cpu_object_put(texture->resource);
    cpu_object_put(&texture->context->object);
    free(texture);
}

CUresult cpu_texture_open(cpu_context_t *context, const cpu_texture_object_t *facts,
                          const cpu_texture_t *texture, uint64_t *number)
{
    cpu_texture_object_t *made = calloc(1, sizeof(*made));
    if (!made) {
        cpu_object_put(facts->resource);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *made = *facts;
    cpu_object_init(&made->object, CPU_KIND_TEXTURE, destroy);
    cpu_object_ref(&context->object);
    made->context = context;
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (cpu_handle_add(&made->object)) {
        made->number = cpu_texture_add(made->kind, texture, made);
        if (made->number) {
            *number = made->number;
            result = CUDA_SUCCESS;
        } else {
            cpu_object_put(cpu_handle_remove(CPU_KIND_TEXTURE, made->object.handle));
        }
    }
    cpu_object_put(&made->object);
    return result;
}

CUresult cpu_texture_get(cpu_texture_kind_t kind, uint64_t number, cpu_texture_object_t **object)
{
    pthread_mutex_lock(&numbers);
    cpu_texture_object_t *found = cpu_texture_owner(kind, number);
    /* an object that is on its way out has no handle any more */
    cpu_object_t *held = found ? cpu_handle_get(CPU_KIND_TEXTURE, found->object.handle) : NULL;
    pthread_mutex_unlock(&numbers);
    if (!held)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = cpu_context_state(found->context);
    if (result)
        cpu_object_put(held);
    else
        *object = found;
    return result;
}

CUresult cpu_texture_close(cpu_texture_object_t *object)
{
    pthread_mutex_lock(&numbers);
    cpu_object_t *entered = cpu_handle_remove(CPU_KIND_TEXTURE, object->object.handle);
    if (entered)
        cpu_texture_remove(object->number);
    pthread_mutex_unlock(&numbers);
    cpu_object_put(entered);
    return entered ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
