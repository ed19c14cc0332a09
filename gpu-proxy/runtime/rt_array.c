/* CUDA arrays, mipmapped arrays, textures and surfaces. */
#include "gpu-proxy/runtime/rt_state.h"

/* From gb_cuda.h's point of view these are flags of CUDA_TEXTURE_DESC. */
enum {
    READ_AS_INTEGER = 0x01,
    NORMALIZED_COORDINATES = 0x02,
    SRGB = 0x10,
    NO_TRILINEAR_OPTIMIZATION = 0x20,
    SEAMLESS_CUBEMAP = 0x40
};

/* ---- formats ---- */

static int channels_of(const struct cudaChannelFormatDesc *d, unsigned *channels)
{
    const int bits[4] = {d->x, d->y, d->z, d->w};
    unsigned n = 0;
    while (n < 4 && bits[n])
        n++;
    for (unsigned i = 0; i < 4; i++)
        if (bits[i] != (i < n ? bits[0] : 0))
            return cudaErrorInvalidChannelDescriptor;
    *channels = n;
    return n == 0 || n == 3 ? cudaErrorInvalidChannelDescriptor : 0;
}

static int format_of(const struct cudaChannelFormatDesc *d, CUarray_format *format,
                     unsigned *channels)
{
    static const struct {
        enum cudaChannelFormatKind kind;
        int bits;
        CUarray_format format;
    } known[] = {{cudaChannelFormatKindUnsigned, 8, CU_AD_FORMAT_UNSIGNED_INT8},
                 {cudaChannelFormatKindUnsigned, 16, CU_AD_FORMAT_UNSIGNED_INT16},
                 {cudaChannelFormatKindUnsigned, 32, CU_AD_FORMAT_UNSIGNED_INT32},
                 {cudaChannelFormatKindSigned, 8, CU_AD_FORMAT_SIGNED_INT8},
                 {cudaChannelFormatKindSigned, 16, CU_AD_FORMAT_SIGNED_INT16},
                 {cudaChannelFormatKindSigned, 32, CU_AD_FORMAT_SIGNED_INT32},
                 {cudaChannelFormatKindFloat, 16, CU_AD_FORMAT_HALF},
                 {cudaChannelFormatKindFloat, 32, CU_AD_FORMAT_FLOAT}};
    int error = channels_of(d, channels);
    for (size_t i = 0; !error && i < sizeof(known) / sizeof(known[0]); i++) {
        if (known[i].kind == d->f && known[i].bits == d->x) {
            *format = known[i].format;
            return 0;
        }
    }
    return error ? error : cudaErrorInvalidChannelDescriptor;
}

static int desc_of(CUarray_format format, unsigned channels, struct cudaChannelFormatDesc *out)
{
    int bits;
    enum cudaChannelFormatKind kind = cudaChannelFormatKindUnsigned;
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        bits = 8;
        break;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        bits = 16;
        break;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        bits = 32;
        break;
    default:
        return cudaErrorInvalidChannelDescriptor;
    }
    if (format == CU_AD_FORMAT_HALF || format == CU_AD_FORMAT_FLOAT)
        kind = cudaChannelFormatKindFloat;
    else if (format == CU_AD_FORMAT_SIGNED_INT8 || format == CU_AD_FORMAT_SIGNED_INT16 ||
             format == CU_AD_FORMAT_SIGNED_INT32)
        kind = cudaChannelFormatKindSigned;
    *out = (struct cudaChannelFormatDesc){bits, channels > 1 ? bits : 0, channels > 2 ? bits : 0,
                                          channels > 3 ? bits : 0, kind};
    return 0;
}

struct cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w,
                                                   enum cudaChannelFormatKind f)
{
    return (struct cudaChannelFormatDesc){x, y, z, w, f};
}

/* ---- arrays ---- */

static int describe(const struct cudaChannelFormatDesc *desc, struct cudaExtent extent,
                    unsigned flags, CUDA_ARRAY3D_DESCRIPTOR *out)
{
    CUarray_format format;
    unsigned channels;
    if (!desc)
        return cudaErrorInvalidValue;
    int error = format_of(desc, &format, &channels);
    if (!error)
        *out = (CUDA_ARRAY3D_DESCRIPTOR){.Width = extent.width,
                                         .Height = extent.height,
                                         .Depth = extent.depth,
                                         .Format = format,
                                         .NumChannels = channels,
                                         .Flags = flags};
    return error;
}

cudaError_t cudaMalloc3DArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
                              struct cudaExtent extent, unsigned int flags)
{
    CUDA_ARRAY3D_DESCRIPTOR d;
    int error = rt_enter();
    if (!error)
        error = describe(desc, extent, flags, &d);
    return rt_result(error ? error : (int)rt_cu->cuArray3DCreate_v2(array, &d));
}

cudaError_t cudaMallocArray(cudaArray_t *array, const struct cudaChannelFormatDesc *desc,
                            size_t width, size_t height, unsigned int flags)
{
    return cudaMalloc3DArray(array, desc, (struct cudaExtent){width, height, 0}, flags);
}

cudaError_t cudaFreeArray(cudaArray_t array)
{
    int error = rt_enter();
    if (!error && array)
        error = (int)rt_cu->cuArrayDestroy(array);
    return rt_result(error);
}

static int read_array(cudaArray_const_t array, CUDA_ARRAY3D_DESCRIPTOR *d,
                      struct cudaChannelFormatDesc *desc)
{
    int error = rt_enter();
    if (!error)
        error = (int)rt_cu->cuArray3DGetDescriptor_v2(d, (CUarray)(uintptr_t)array);
    return error ? error : desc_of(d->Format, d->NumChannels, desc);
}

cudaError_t cudaArrayGetInfo(struct cudaChannelFormatDesc *desc, struct cudaExtent *extent,
                             unsigned int *flags, cudaArray_t array)
{
    CUDA_ARRAY3D_DESCRIPTOR d;
    struct cudaChannelFormatDesc c;
    int error = read_array(array, &d, &c);
    if (error)
        return rt_result(error);
    if (desc)
        *desc = c;
    if (extent)
        *extent = (struct cudaExtent){d.Width, d.Height, d.Depth};
    if (flags)
        *flags = d.Flags;
    return cudaSuccess;
}

cudaError_t cudaGetChannelDesc(struct cudaChannelFormatDesc *desc, cudaArray_const_t array)
{
    CUDA_ARRAY3D_DESCRIPTOR d;
    struct cudaChannelFormatDesc c;
    int error = desc ? read_array(array, &d, &c) : (int)cudaErrorInvalidValue;
    if (!error)
        *desc = c;
    return rt_result(error);
}

static int requirements(CUresult result, const CUDA_ARRAY_MEMORY_REQUIREMENTS *r,
                        struct cudaArrayMemoryRequirements *out)
{
    if (!result)
        *out = (struct cudaArrayMemoryRequirements){.size = r->size, .alignment = r->alignment};
    return (int)result;
}

cudaError_t cudaArrayGetMemoryRequirements(struct cudaArrayMemoryRequirements *memoryRequirements,
                                           cudaArray_t array, int device)
{
    CUDA_ARRAY_MEMORY_REQUIREMENTS r;
    int error = rt_enter();
    if (!error && !memoryRequirements)
        error = cudaErrorInvalidValue;
    return rt_result(error ? error
                           : requirements(rt_cu->cuArrayGetMemoryRequirements(&r, array, device),
                                          &r, memoryRequirements));
}

cudaError_t
cudaMipmappedArrayGetMemoryRequirements(struct cudaArrayMemoryRequirements *memoryRequirements,
                                        cudaMipmappedArray_t mipmap, int device)
{
    CUDA_ARRAY_MEMORY_REQUIREMENTS r;
    int error = rt_enter();
    if (!error && !memoryRequirements)
        error = cudaErrorInvalidValue;
    return rt_result(
        error ? error
              : requirements(rt_cu->cuMipmappedArrayGetMemoryRequirements(&r, mipmap, device), &r,
                             memoryRequirements));
}

cudaError_t cudaArrayGetPlane(cudaArray_t *pPlaneArray, cudaArray_t hArray, unsigned int planeIdx)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuArrayGetPlane(pPlaneArray, hArray, planeIdx));
}

static int sparse(CUresult result, const CUDA_ARRAY_SPARSE_PROPERTIES *p,
                  struct cudaArraySparseProperties *out)
{
    if (!result)
        *out = (struct cudaArraySparseProperties){
            {p->tileExtent.width, p->tileExtent.height, p->tileExtent.depth},
            p->miptailFirstLevel,
            p->miptailSize,
            p->flags,
            {0}};
    return (int)result;
}

cudaError_t cudaArrayGetSparseProperties(struct cudaArraySparseProperties *sparseProperties,
                                         cudaArray_t array)
{
    CUDA_ARRAY_SPARSE_PROPERTIES p;
    int error = rt_enter();
    if (!error && !sparseProperties)
        error = cudaErrorInvalidValue;
    return rt_result(
        error ? error : sparse(rt_cu->cuArrayGetSparseProperties(&p, array), &p, sparseProperties));
}

cudaError_t
cudaMipmappedArrayGetSparseProperties(struct cudaArraySparseProperties *sparseProperties,
                                      cudaMipmappedArray_t mipmap)
{
    CUDA_ARRAY_SPARSE_PROPERTIES p;
    int error = rt_enter();
    if (!error && !sparseProperties)
        error = cudaErrorInvalidValue;
    return rt_result(error ? error
                           : sparse(rt_cu->cuMipmappedArrayGetSparseProperties(&p, mipmap), &p,
                                    sparseProperties));
}

cudaError_t cudaMallocMipmappedArray(cudaMipmappedArray_t *mipmappedArray,
                                     const struct cudaChannelFormatDesc *desc,
                                     struct cudaExtent extent, unsigned int numLevels,
                                     unsigned int flags)
{
    CUDA_ARRAY3D_DESCRIPTOR d;
    int error = rt_enter();
    if (!error)
        error = describe(desc, extent, flags, &d);
    return rt_result(error ? error
                           : (int)rt_cu->cuMipmappedArrayCreate(mipmappedArray, &d, numLevels));
}

cudaError_t cudaFreeMipmappedArray(cudaMipmappedArray_t mipmappedArray)
{
    int error = rt_enter();
    if (!error && mipmappedArray)
        error = (int)rt_cu->cuMipmappedArrayDestroy(mipmappedArray);
    return rt_result(error);
}

cudaError_t cudaGetMipmappedArrayLevel(cudaArray_t *levelArray,
                                       cudaMipmappedArray_const_t mipmappedArray,
                                       unsigned int level)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuMipmappedArrayGetLevel(
                                 levelArray, (CUmipmappedArray)(uintptr_t)mipmappedArray, level));
}

/* ---- resources ---- */

static int resource_in(const struct cudaResourceDesc *r, CUDA_RESOURCE_DESC *out)
{
    CUDA_RESOURCE_DESC d = {.flags = r->flags};
    int error = 0;
    switch (r->resType) {
    case cudaResourceTypeArray:
        d.resType = CU_RESOURCE_TYPE_ARRAY;
        d.res.array.hArray = r->res.array.array;
        break;
    case cudaResourceTypeMipmappedArray:
        d.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
        d.res.mipmap.hMipmappedArray = r->res.mipmap.mipmap;
        break;
    case cudaResourceTypeLinear:
        d.resType = CU_RESOURCE_TYPE_LINEAR;
        d.res.linear.devPtr = (CUdeviceptr)(uintptr_t)r->res.linear.devPtr;
        d.res.linear.sizeInBytes = r->res.linear.sizeInBytes;
        error = format_of(&r->res.linear.desc, &d.res.linear.format, &d.res.linear.numChannels);
        break;
    case cudaResourceTypePitch2D:
        d.resType = CU_RESOURCE_TYPE_PITCH2D;
        d.res.pitch2D.devPtr = (CUdeviceptr)(uintptr_t)r->res.pitch2D.devPtr;
        d.res.pitch2D.width = r->res.pitch2D.width;
        d.res.pitch2D.height = r->res.pitch2D.height;
        d.res.pitch2D.pitchInBytes = r->res.pitch2D.pitchInBytes;
        error = format_of(&r->res.pitch2D.desc, &d.res.pitch2D.format, &d.res.pitch2D.numChannels);
        break;
    default:
        return cudaErrorInvalidValue;
    }
    if (!error)
        *out = d;
    return error;
}

static int resource_out(const CUDA_RESOURCE_DESC *d, struct cudaResourceDesc *out)
{
    struct cudaResourceDesc r = {.flags = d->flags};
    int error = 0;
    switch (d->resType) {
    case CU_RESOURCE_TYPE_ARRAY:
        r.resType = cudaResourceTypeArray;
        r.res.array.array = d->res.array.hArray;
        break;
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
        r.resType = cudaResourceTypeMipmappedArray;
        r.res.mipmap.mipmap = d->res.mipmap.hMipmappedArray;
        break;
    case CU_RESOURCE_TYPE_LINEAR:
        r.resType = cudaResourceTypeLinear;
        r.res.linear.devPtr = (void *)(uintptr_t)d->res.linear.devPtr;
        r.res.linear.sizeInBytes = d->res.linear.sizeInBytes;
        error = desc_of(d->res.linear.format, d->res.linear.numChannels, &r.res.linear.desc);
        break;
    default:
        r.resType = cudaResourceTypePitch2D;
        r.res.pitch2D.devPtr = (void *)(uintptr_t)d->res.pitch2D.devPtr;
        r.res.pitch2D.width = d->res.pitch2D.width;
        r.res.pitch2D.height = d->res.pitch2D.height;
        r.res.pitch2D.pitchInBytes = d->res.pitch2D.pitchInBytes;
        error = desc_of(d->res.pitch2D.format, d->res.pitch2D.numChannels, &r.res.pitch2D.desc);
    }
    if (!error)
        *out = r;
    return error;
}

static CUDA_TEXTURE_DESC texture_in(const struct cudaTextureDesc *t)
{
    CUDA_TEXTURE_DESC d = {
        .filterMode = (CUfilter_mode)t->filterMode,
        .flags = (t->readMode == 0 ? READ_AS_INTEGER : 0u) |
                 (t->normalizedCoords ? NORMALIZED_COORDINATES : 0u) | (t->sRGB ? SRGB : 0u) |
                 (t->disableTrilinearOptimization ? NO_TRILINEAR_OPTIMIZATION : 0u) |
                 (t->seamlessCubemap ? SEAMLESS_CUBEMAP : 0u),
        .maxAnisotropy = t->maxAnisotropy,
        .mipmapFilterMode = (CUfilter_mode)t->mipmapFilterMode,
        .mipmapLevelBias = t->mipmapLevelBias,
        .minMipmapLevelClamp = t->minMipmapLevelClamp,
        .maxMipmapLevelClamp = t->maxMipmapLevelClamp,
    };
    for (int i = 0; i < 3; i++)
        d.addressMode[i] = (CUaddress_mode)t->addressMode[i];
    for (int i = 0; i < 4; i++)
        d.borderColor[i] = t->borderColor[i];
    return d;
}

static struct cudaTextureDesc texture_out(const CUDA_TEXTURE_DESC *d)
{
    struct cudaTextureDesc t = {
        .filterMode = (int)d->filterMode,
        .readMode = !(d->flags & READ_AS_INTEGER),
        .sRGB = (d->flags & SRGB) != 0,
        .normalizedCoords = (d->flags & NORMALIZED_COORDINATES) != 0,
        .maxAnisotropy = d->maxAnisotropy,
        .mipmapFilterMode = (int)d->mipmapFilterMode,
        .mipmapLevelBias = d->mipmapLevelBias,
        .minMipmapLevelClamp = d->minMipmapLevelClamp,
        .maxMipmapLevelClamp = d->maxMipmapLevelClamp,
        .disableTrilinearOptimization = (d->flags & NO_TRILINEAR_OPTIMIZATION) != 0,
        .seamlessCubemap = (d->flags & SEAMLESS_CUBEMAP) != 0,
    };
    for (int i = 0; i < 3; i++)
        t.addressMode[i] = (int)d->addressMode[i];
    for (int i = 0; i < 4; i++)
        t.borderColor[i] = d->borderColor[i];
    return t;
}

/* The two have the same fields; only the format's type differs in name. */
_Static_assert(sizeof(struct cudaResourceViewDesc) == sizeof(CUDA_RESOURCE_VIEW_DESC),
               "views are passed on as they come");

cudaError_t cudaCreateTextureObject(cudaTextureObject_t *pTexObject,
                                    const struct cudaResourceDesc *pResDesc,
                                    const struct cudaTextureDesc *pTexDesc,
                                    const struct cudaResourceViewDesc *pResViewDesc)
{
    CUDA_RESOURCE_DESC r;
    int error = rt_enter();
    if (!error && (!pResDesc || !pTexDesc))
        error = cudaErrorInvalidValue;
    if (!error)
        error = resource_in(pResDesc, &r);
    if (error)
        return rt_result(error);
    CUDA_TEXTURE_DESC t = texture_in(pTexDesc);
    return rt_result((int)rt_cu->cuTexObjectCreate(
        pTexObject, &r, &t, (const CUDA_RESOURCE_VIEW_DESC *)(const void *)pResViewDesc));
}

cudaError_t cudaDestroyTextureObject(cudaTextureObject_t texObject)
{
    int error = rt_enter();
    if (!error && texObject)
        error = (int)rt_cu->cuTexObjectDestroy(texObject);
    return rt_result(error);
}

cudaError_t cudaGetTextureObjectResourceDesc(struct cudaResourceDesc *pResDesc,
                                             cudaTextureObject_t texObject)
{
    CUDA_RESOURCE_DESC r;
    int error = rt_enter();
    if (!error && !pResDesc)
        error = cudaErrorInvalidValue;
    if (!error)
        error = (int)rt_cu->cuTexObjectGetResourceDesc(&r, texObject);
    return rt_result(error ? error : resource_out(&r, pResDesc));
}

cudaError_t cudaGetTextureObjectTextureDesc(struct cudaTextureDesc *pTexDesc,
                                            cudaTextureObject_t texObject)
{
    CUDA_TEXTURE_DESC t;
    int error = rt_enter();
    if (!error && !pTexDesc)
        error = cudaErrorInvalidValue;
    if (!error)
        error = (int)rt_cu->cuTexObjectGetTextureDesc(&t, texObject);
    if (!error)
        *pTexDesc = texture_out(&t);
    return rt_result(error);
}

cudaError_t cudaGetTextureObjectResourceViewDesc(struct cudaResourceViewDesc *pResViewDesc,
                                                 cudaTextureObject_t texObject)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuTexObjectGetResourceViewDesc(
                                 (CUDA_RESOURCE_VIEW_DESC *)(void *)pResViewDesc, texObject));
}

cudaError_t cudaCreateSurfaceObject(cudaSurfaceObject_t *pSurfObject,
                                    const struct cudaResourceDesc *pResDesc)
{
    CUDA_RESOURCE_DESC r;
    int error = rt_enter();
    if (!error && !pResDesc)
        error = cudaErrorInvalidValue;
    if (!error)
        error = resource_in(pResDesc, &r);
    return rt_result(error ? error : (int)rt_cu->cuSurfObjectCreate(pSurfObject, &r));
}

cudaError_t cudaDestroySurfaceObject(cudaSurfaceObject_t surfObject)
{
    int error = rt_enter();
    if (!error && surfObject)
        error = (int)rt_cu->cuSurfObjectDestroy(surfObject);
    return rt_result(error);
}

cudaError_t cudaGetSurfaceObjectResourceDesc(struct cudaResourceDesc *pResDesc,
                                             cudaSurfaceObject_t surfObject)
{
    CUDA_RESOURCE_DESC r;
    int error = rt_enter();
    if (!error && !pResDesc)
        error = cudaErrorInvalidValue;
    if (!error)
        error = (int)rt_cu->cuSurfObjectGetResourceDesc(&r, surfObject);
    return rt_result(error ? error : resource_out(&r, pResDesc));
}

cudaError_t cudaDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements,
                                                 const struct cudaChannelFormatDesc *fmtDesc,
                                                 int device)
{
    CUarray_format format;
    unsigned channels;
    int error = rt_enter();
    if (!error && !fmtDesc)
        error = cudaErrorInvalidValue;
    if (!error)
        error = format_of(fmtDesc, &format, &channels);
    return rt_result(error ? error
                           : (int)rt_cu->cuDeviceGetTexture1DLinearMaxWidth(
                                 maxWidthInElements, format, channels, device));
}
