/* Entry points: texture and surface references. */
#include <string.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/cpu/driver/cpu_memory.h"
#include "gpu-proxy/cpu/driver/cpu_module.h"
#include "gpu-proxy/cpu/driver/cpu_texref.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"

enum { OVERRIDE_FORMAT = 1 };

static CUresult enter(cpu_texture_kind_t kind, const void *handle, cpu_texref_t **ref)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    return result ? result : cpu_texref_get(kind, handle, ref);
}

/* ---- finding and making them ---- */

static CUresult find(CUmodule handle, const char *name, cpu_texture_kind_t kind, uint64_t *found)
{
    cpu_context_t *context;
    cpu_module_t *module;
    CUresult result = cpu_thread_context(&context);
    if (!result)
        result = cpu_module_get(handle, &module);
    if (result)
        return result;
    result = name ? cpu_module_reference(module, name, kind, found) : CUDA_ERROR_INVALID_VALUE;
    cpu_object_put(&module->object);
    return result;
}

CUresult cuModuleGetTexRef(CUtexref *pTexRef, CUmodule hmod, const char *name)
{
    uint64_t found;
    CUresult result = find(hmod, name, CPU_TEXTURE, &found);
    if (!result && !pTexRef)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *pTexRef = (CUtexref)found;
    return result;
}

CUresult cuModuleGetSurfRef(CUsurfref *pSurfRef, CUmodule hmod, const char *name)
{
    uint64_t found;
    CUresult result = find(hmod, name, CPU_SURFACE, &found);
    if (!result && !pSurfRef)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *pSurfRef = (CUsurfref)found;
    return result;
}

CUresult cuTexRefCreate(CUtexref *pTexRef)
{
    cpu_context_t *context;
    cpu_texref_t *ref;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!pTexRef)
        return CUDA_ERROR_INVALID_VALUE;
    result = cpu_texref_open(context, CPU_TEXTURE, &ref);
    if (result)
        return result;
    *pTexRef = (CUtexref)ref->object.handle;
    cpu_object_put(&ref->object);
    return CUDA_SUCCESS;
}

CUresult cuTexRefDestroy(CUtexref hTexRef)
{
    cpu_texref_t *ref;
    CUresult result = enter(CPU_TEXTURE, hTexRef, &ref);
    if (result)
        return result;
    cpu_sched_wait_context(&ref->context->lanes);
    cpu_texref_close(ref);
    cpu_object_put(&ref->object);
    return CUDA_SUCCESS;
}

/* ---- binding ---- */

/* The reference and a copy of its binding to be changed. */
static CUresult begin(CUtexref handle, cpu_texref_t **ref, cpu_binding_t *binding)
{
    CUresult result = enter(CPU_TEXTURE, handle, ref);
    if (!result)
        *binding = cpu_texref_binding(*ref);
    return result;
}

static CUresult end(cpu_texref_t *ref, const cpu_binding_t *binding)
{
    CUresult result = cpu_texref_bind(ref, binding);
    cpu_object_put(&ref->object);
    return result;
}

static CUresult refuse(cpu_texref_t *ref)
{
    cpu_object_put(&ref->object);
    return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuTexRefSetArray(CUtexref hTexRef, CUarray hArray, unsigned int Flags)
{
    cpu_texref_t *ref;
    cpu_binding_t binding;
    CUDA_ARRAY3D_DESCRIPTOR d;
    CUresult result = begin(hTexRef, &ref, &binding);
    if (result)
        return result;
    if (Flags != OVERRIDE_FORMAT)
        return refuse(ref);
    result = cuArray3DGetDescriptor_v2(&d, hArray);
    if (result) {
        cpu_object_put(&ref->object);
        return result;
    }
    memset(&binding.resource, 0, sizeof(binding.resource));
    binding.resource.resType = CU_RESOURCE_TYPE_ARRAY;
    binding.resource.res.array.hArray = hArray;
    binding.format = d.Format;
    binding.channels = (int)d.NumChannels;
    binding.bound = true;
    return end(ref, &binding);
}

CUresult cuTexRefSetMipmappedArray(CUtexref hTexRef, CUmipmappedArray hMipmappedArray,
                                   unsigned int Flags)
{
    cpu_texref_t *ref;
    cpu_binding_t binding;
    CUresult result = begin(hTexRef, &ref, &binding);
    if (result)
        return result;
    if (Flags != OVERRIDE_FORMAT)
        return refuse(ref);
    memset(&binding.resource, 0, sizeof(binding.resource));
    binding.resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    binding.resource.res.mipmap.hMipmappedArray = hMipmappedArray;
    binding.bound = true;
    return end(ref, &binding);
}

/* The format of what is bound to linear memory may change afterwards. */
static void set_linear_format(cpu_binding_t *binding)
{
    if (binding->resource.resType != CU_RESOURCE_TYPE_LINEAR)
        return;
    binding->resource.res.linear.format = binding->format;
    binding->resource.res.linear.numChannels = (unsigned)binding->channels;
}

CUresult cuTexRefSetAddress_v2(size_t *ByteOffset, CUtexref hTexRef, CUdeviceptr dptr, size_t bytes)
{
    cpu_texref_t *ref;
    cpu_binding_t binding;
    uint64_t offset = dptr % CPU_TEX_ALIGN;
    CUresult result = begin(hTexRef, &ref, &binding);
    if (result)
        return result;
    if ((offset && !ByteOffset) || !bytes ||
        !cpu_memory_covers(CPU_MEMORY_ANY, dptr - offset, bytes + offset))
        return refuse(ref);
    memset(&binding.resource, 0, sizeof(binding.resource));
    binding.resource.resType = CU_RESOURCE_TYPE_LINEAR;
    binding.resource.res.linear.devPtr = dptr - offset;
    binding.resource.res.linear.sizeInBytes = bytes + offset;
    binding.bound = true;
    set_linear_format(&binding);
    if (ByteOffset)
        *ByteOffset = offset;
    return end(ref, &binding);
}

static bool covers_rows(CUdeviceptr at, const CUDA_ARRAY_DESCRIPTOR *d, size_t pitch,
                        unsigned texel)
{
    return d->Width && d->Height && d->Width <= CPU_TEX_2D_LINEAR_WIDTH &&
           d->Height <= CPU_TEX_2D_LINEAR_HEIGHT && pitch <= CPU_TEX_2D_LINEAR_PITCH &&
           pitch >= d->Width * texel &&
           cpu_memory_covers(CPU_MEMORY_ANY, at, (d->Height - 1) * pitch + d->Width * texel);
}

CUresult cuTexRefSetAddress2D_v3(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR *desc,
                                 CUdeviceptr dptr, size_t Pitch)
{
    cpu_texref_t *ref;
    cpu_binding_t binding;
    cpu_tex_image_t image;
    bool is_float;
    CUresult result = begin(hTexRef, &ref, &binding);
    if (result)
        return result;
    if (!desc || dptr % CPU_TEX_ALIGN || Pitch % CPU_TEX_PITCH_ALIGN ||
        cpu_array_format(desc->Format, desc->NumChannels, &image, &is_float) ||
        !covers_rows(dptr, desc, Pitch, image.bytes))
        return refuse(ref);
    memset(&binding.resource, 0, sizeof(binding.resource));
    binding.resource.resType = CU_RESOURCE_TYPE_PITCH2D;
    binding.resource.res.pitch2D.devPtr = dptr;
    binding.resource.res.pitch2D.format = desc->Format;
    binding.resource.res.pitch2D.numChannels = desc->NumChannels;
    binding.resource.res.pitch2D.width = desc->Width;
    binding.resource.res.pitch2D.height = desc->Height;
    binding.resource.res.pitch2D.pitchInBytes = Pitch;
    binding.format = desc->Format;
    binding.channels = (int)desc->NumChannels;
    binding.bound = true;
    return end(ref, &binding);
}

CUresult cuTexRefSetFormat(CUtexref hTexRef, CUarray_format fmt, int NumPackedComponents)
{
    cpu_texref_t *ref;
    cpu_binding_t binding;
    cpu_tex_image_t image;
    bool is_float;
    CUresult result = begin(hTexRef, &ref, &binding);
    if (result)
        return result;
    if (cpu_array_format(fmt, (unsigned)NumPackedComponents, &image, &is_float))
        return refuse(ref);
    binding.format = fmt;
    binding.channels = NumPackedComponents;
    set_linear_format(&binding);
    return end(ref, &binding);
}

/* ---- how it is read ---- */

CUresult cuTexRefSetAddressMode(CUtexref hTexRef, int dim, CUaddress_mode am)
{
    cpu_texref_t *ref;
    cpu_binding_t binding;
    CUresult result = begin(hTexRef, &ref, &binding);
    if (result)
        return result;
    if (dim < 0 || dim > 2 || (int)am < 0 || am > CU_TR_ADDRESS_MODE_BORDER)
        return refuse(ref);
    binding.texture.addressMode[dim] = am;
    return end(ref, &binding);
}

static bool is_filter(CUfilter_mode fm)
{
    return fm == CU_TR_FILTER_MODE_POINT || fm == CU_TR_FILTER_MODE_LINEAR;
}

CUresult cuTexRefSetFilterMode(CUtexref hTexRef, CUfilter_mode fm)
{
    cpu_texref_t *ref;
    cpu_binding_t binding;
    CUresult result = begin(hTexRef, &ref, &binding);
    if (result)
        return result;
    if (!is_filter(fm))
        return refuse(ref);
    binding.texture.filterMode = fm;
    return end(ref, &binding);
}

CUresult cuTexRefSetMipmapFilterMode(CUtexref hTexRef, CUfilter_mode fm)
{
    cpu_texref_t *ref;
    cpu_binding_t binding;
    CUresult result = begin(hTexRef, &ref, &binding);
    if (result)
        return result;
    if (!is_filter(fm))
        return refuse(ref);
    binding.texture.mipmapFilterMode = fm;
    return end(ref, &binding);
}

CUresult cuTexRefSetMipmapLevelBias(CUtexref hTexRef, float bias)
{
    cpu_texref_t *ref;
    cpu_binding_t binding;
    CUresult result = begin(hTexRef, &ref, &binding);
    if (result)
        return result;
    binding.texture.mipmapLevelBias = bias;
    return end(ref, &binding);
}

CUresult cuTexRefSetMipmapLevelClamp(CUtexref hTexRef, float minMipmapLevelClamp,
                                     float maxMipmapLevelClamp)
{
    cpu_texref_t *ref;
    cpu_binding_t binding;
    CUresult result = begin(hTexRef, &ref, &binding);
    if (result)
        return result;
    binding.texture.minMipmapLevelClamp = minMipmapLevelClamp;
    binding.texture.maxMipmapLevelClamp = maxMipmapLevelClamp;
    return end(ref, &binding);
}

CUresult cuTexRefSetMaxAnisotropy(CUtexref hTexRef, unsigned int maxAniso)
{
    cpu_texref_t *ref;
    cpu_binding_t binding;
    CUresult result = begin(hTexRef, &ref, &binding);
    if (result)
        return result;
    binding.texture.maxAnisotropy = maxAniso;
    return end(ref, &binding);
}

CUresult cuTexRefSetBorderColor(CUtexref hTexRef, float *pBorderColor)
{
    cpu_texref_t *ref;
    cpu_binding_t binding;
    CUresult result = begin(hTexRef, &ref, &binding);
    if (result)
        return result;
    if (!pBorderColor)
        return refuse(ref);
    memcpy(binding.texture.borderColor, pBorderColor, sizeof(binding.texture.borderColor));
    return end(ref, &binding);
}

CUresult cuTexRefSetFlags(CUtexref hTexRef, unsigned int Flags)
{
    cpu_texref_t *ref;
    cpu_binding_t binding;
    CUresult result = begin(hTexRef, &ref, &binding);
    if (result)
        return result;
    if (Flags & ~0x73u)
        return refuse(ref);
    binding.texture.flags = Flags;
    return end(ref, &binding);
}

/* ---- asking ---- */

static CUresult peek(CUtexref handle, cpu_binding_t *binding)
{
    cpu_texref_t *ref;
    CUresult result = begin(handle, &ref, binding);
    if (!result)
        cpu_object_put(&ref->object);
    return result;
}

CUresult cuTexRefGetAddress_v2(CUdeviceptr *pdptr, CUtexref hTexRef)
{
    cpu_binding_t b;
    CUresult result = peek(hTexRef, &b);
    if (result)
        return result;
    if (!pdptr || !b.bound || b.resource.resType < CU_RESOURCE_TYPE_LINEAR)
        return CUDA_ERROR_INVALID_VALUE;
    *pdptr = b.resource.resType == CU_RESOURCE_TYPE_LINEAR ? b.resource.res.linear.devPtr
                                                           : b.resource.res.pitch2D.devPtr;
    return CUDA_SUCCESS;
}

CUresult cuTexRefGetArray(CUarray *phArray, CUtexref hTexRef)
{
    cpu_binding_t b;
    CUresult result = peek(hTexRef, &b);
    if (result)
        return result;
    if (!phArray || !b.bound || b.resource.resType != CU_RESOURCE_TYPE_ARRAY)
        return CUDA_ERROR_INVALID_VALUE;
    *phArray = b.resource.res.array.hArray;
    return CUDA_SUCCESS;
}

CUresult cuTexRefGetMipmappedArray(CUmipmappedArray *phMipmappedArray, CUtexref hTexRef)
{
    cpu_binding_t b;
    CUresult result = peek(hTexRef, &b);
    if (result)
        return result;
    if (!phMipmappedArray || !b.bound || b.resource.resType != CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
        return CUDA_ERROR_INVALID_VALUE;
    *phMipmappedArray = b.resource.res.mipmap.hMipmappedArray;
    return CUDA_SUCCESS;
}

CUresult cuTexRefGetAddressMode(CUaddress_mode *pam, CUtexref hTexRef, int dim)
{
    cpu_binding_t b;
    CUresult result = peek(hTexRef, &b);
    if (result)
        return result;
    if (!pam || dim < 0 || dim > 2)
        return CUDA_ERROR_INVALID_VALUE;
    *pam = b.texture.addressMode[dim];
    return CUDA_SUCCESS;
}

CUresult cuTexRefGetFilterMode(CUfilter_mode *pfm, CUtexref hTexRef)
{
    cpu_binding_t b;
    CUresult result = peek(hTexRef, &b);
    if (!result && !pfm)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *pfm = b.texture.filterMode;
    return result;
}

CUresult cuTexRefGetFormat(CUarray_format *pFormat, int *pNumChannels, CUtexref hTexRef)
{
    cpu_binding_t b;
    CUresult result = peek(hTexRef, &b);
    if (!result && (!pFormat || !pNumChannels))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        *pFormat = b.format;
        *pNumChannels = b.channels;
    }
    return result;
}

CUresult cuTexRefGetMipmapFilterMode(CUfilter_mode *pfm, CUtexref hTexRef)
{
    cpu_binding_t b;
    CUresult result = peek(hTexRef, &b);
    if (!result && !pfm)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *pfm = b.texture.mipmapFilterMode;
    return result;
}

CUresult cuTexRefGetMipmapLevelBias(float *pbias, CUtexref hTexRef)
{
    cpu_binding_t b;
    CUresult result = peek(hTexRef, &b);
    if (!result && !pbias)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *pbias = b.texture.mipmapLevelBias;
    return result;
}

CUresult cuTexRefGetMipmapLevelClamp(float *pminMipmapLevelClamp, float *pmaxMipmapLevelClamp,
                                     CUtexref hTexRef)
{
    cpu_binding_t b;
    CUresult result = peek(hTexRef, &b);
    if (!result && (!pminMipmapLevelClamp || !pmaxMipmapLevelClamp))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        *pminMipmapLevelClamp = b.texture.minMipmapLevelClamp;
        *pmaxMipmapLevelClamp = b.texture.maxMipmapLevelClamp;
    }
    return result;
}

CUresult cuTexRefGetMaxAnisotropy(int *pmaxAniso, CUtexref hTexRef)
{
    cpu_binding_t b;
    CUresult result = peek(hTexRef, &b);
    if (!result && !pmaxAniso)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *pmaxAniso = (int)b.texture.maxAnisotropy;
    return result;
}

CUresult cuTexRefGetBorderColor(float *pBorderColor, CUtexref hTexRef)
{
    cpu_binding_t b;
    CUresult result = peek(hTexRef, &b);
    if (!result && !pBorderColor)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        memcpy(pBorderColor, b.texture.borderColor, sizeof(b.texture.borderColor));
    return result;
}

CUresult cuTexRefGetFlags(unsigned int *pFlags, CUtexref hTexRef)
{
    cpu_binding_t b;
    CUresult result = peek(hTexRef, &b);
    if (!result && !pFlags)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *pFlags = b.texture.flags;
    return result;
}

/* ---- surfaces ---- */

CUresult cuSurfRefSetArray(CUsurfref hSurfRef, CUarray hArray, unsigned int Flags)
{
    cpu_texref_t *ref;
    cpu_texture_t surface;
    cpu_object_t *resource;
    cpu_binding_t binding = {.bound = true, .resource = {.resType = CU_RESOURCE_TYPE_ARRAY}};
    CUresult result = enter(CPU_SURFACE, hSurfRef, &ref);
    if (result)
        return result;
    binding.resource.res.array.hArray = hArray;
    result = Flags ? CUDA_ERROR_INVALID_VALUE
                   : cpu_surface_describe(&binding.resource, &surface, &resource);
    if (!result) {
        cpu_object_put(resource);
        result = cpu_texref_bind(ref, &binding);
    }
    cpu_object_put(&ref->object);
    return result;
}

CUresult cuSurfRefGetArray(CUarray *phArray, CUsurfref hSurfRef)
{
    cpu_texref_t *ref;
    CUresult result = enter(CPU_SURFACE, hSurfRef, &ref);
    if (result)
        return result;
    cpu_binding_t b = cpu_texref_binding(ref);
    cpu_object_put(&ref->object);
    if (!phArray || !b.bound)
        return CUDA_ERROR_INVALID_VALUE;
    *phArray = b.resource.res.array.hArray;
    return CUDA_SUCCESS;
}

/* ---- in the form of CUDA 2, with addresses of 32 bits (common/cuda/gb_cuda_narrow.c) ---- */

CUresult cuTexRefGetAddress(CUdeviceptr_v1 *pdptr, CUtexref hTexRef)
{
    CUdeviceptr at = 0;
    CUresult result = cuTexRefGetAddress_v2(pdptr ? &at : NULL, hTexRef);
    if (!result && at > UINT32_MAX)
        result = CUDA_ERROR_INVALID_CONTEXT;
    if (!result)
        *pdptr = (CUdeviceptr_v1)at;
    return result;
}

CUresult cuTexRefSetAddress(unsigned int *ByteOffset, CUtexref hTexRef, CUdeviceptr_v1 dptr,
                            unsigned int bytes)
{
    size_t offset = 0;
    CUresult result = cuTexRefSetAddress_v2(ByteOffset ? &offset : NULL, hTexRef, dptr, bytes);
    if (!result && ByteOffset)
        *ByteOffset = (unsigned)offset; /* less than the alignment of textures */
    return result;
}

CUresult cuTexRefSetAddress2D(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR_v1 *desc,
                              CUdeviceptr_v1 dptr, unsigned int Pitch)
{
    if (!desc)
        return cuTexRefSetAddress2D_v3(hTexRef, NULL, dptr, Pitch);
    CUDA_ARRAY_DESCRIPTOR wide = {desc->Width, desc->Height, desc->Format, desc->NumChannels};
    return cuTexRefSetAddress2D_v3(hTexRef, &wide, dptr, Pitch);
}
