#include "gpu-proxy/cpu/driver/cpu_array.h"

#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/driver/cpu_memory.h"

enum { ROW_ALIGN = 64 };

typedef struct {
    CUarray_format format;
    uint8_t texel, channels; /* channels: 0 if the format does not say */
    bool is_float;
} format_t;

static const format_t formats[] = {
    {CU_AD_FORMAT_UNSIGNED_INT8, CPU_TEXEL_U8, 0, false},
    {CU_AD_FORMAT_UNSIGNED_INT16, CPU_TEXEL_U16, 0, false},
    {CU_AD_FORMAT_UNSIGNED_INT32, CPU_TEXEL_U32, 0, false},
    {CU_AD_FORMAT_SIGNED_INT8, CPU_TEXEL_S8, 0, false},
    {CU_AD_FORMAT_SIGNED_INT16, CPU_TEXEL_S16, 0, false},
    {CU_AD_FORMAT_SIGNED_INT32, CPU_TEXEL_S32, 0, false},
    {CU_AD_FORMAT_HALF, CPU_TEXEL_F16, 0, false},
    {CU_AD_FORMAT_FLOAT, CPU_TEXEL_F32, 0, false},
    {CU_AD_FORMAT_UNORM_INT8X1, CPU_TEXEL_U8, 1, true},
    {CU_AD_FORMAT_UNORM_INT8X2, CPU_TEXEL_U8, 2, true},
    {CU_AD_FORMAT_UNORM_INT8X4, CPU_TEXEL_U8, 4, true},
    {CU_AD_FORMAT_UNORM_INT16X1, CPU_TEXEL_U16, 1, true},
    {CU_AD_FORMAT_UNORM_INT16X2, CPU_TEXEL_U16, 2, true},
    {CU_AD_FORMAT_UNORM_INT16X4, CPU_TEXEL_U16, 4, true},
    {CU_AD_FORMAT_SNORM_INT8X1, CPU_TEXEL_S8, 1, true},
    {CU_AD_FORMAT_SNORM_INT8X2, CPU_TEXEL_S8, 2, true},
    {CU_AD_FORMAT_SNORM_INT8X4, CPU_TEXEL_S8, 4, true},
    {CU_AD_FORMAT_SNORM_INT16X1, CPU_TEXEL_S16, 1, true},
    {CU_AD_FORMAT_SNORM_INT16X2, CPU_TEXEL_S16, 2, true},
    {CU_AD_FORMAT_SNORM_INT16X4, CPU_TEXEL_S16, 4, true},
};

static unsigned channel_bytes(unsigned texel)
{
    static const uint8_t bytes[] = {
        [CPU_TEXEL_U8] = 1,  [CPU_TEXEL_U16] = 2, [CPU_TEXEL_U32] = 4, [CPU_TEXEL_S8] = 1,
        [CPU_TEXEL_S16] = 2, [CPU_TEXEL_S32] = 4, [CPU_TEXEL_F16] = 2, [CPU_TEXEL_F32] = 4,
    };
    return bytes[texel];
}

/* Formats that CUDA has and this device does not: compressed and planar ones. */
static bool is_foreign(CUarray_format format)
{
    return (format >= CU_AD_FORMAT_BC1_UNORM && format <= CU_AD_FORMAT_Y410) ||
           (format >= CU_AD_FORMAT_NV12 && format <= CU_AD_FORMAT_YUV444_16bit_SemiPlanar) ||
           format == CU_AD_FORMAT_UNORM_INT_101010_2;
}

CUresult cpu_array_format(CUarray_format format, unsigned channels, cpu_tex_image_t *image,
                          bool *is_float)
{
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        const format_t *f = &formats[i];
        if (f->format != format)
            continue;
        if ((channels != 1 && channels != 2 && channels != 4) ||
            (f->channels && f->channels != channels))
            return CUDA_ERROR_INVALID_VALUE;
        image->texel = f->texel;
        image->channels = (uint8_t)channels;
        image->bytes = (uint8_t)(channel_bytes(f->texel) * channels);
        *is_float = f->is_float;
        return CUDA_SUCCESS;
    }
    return is_foreign(format) ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

static bool fits(uint64_t width, uint64_t max_width, uint64_t height, uint64_t max_height,
                 uint64_t depth, uint64_t max_depth)
{
    return width <= max_width && height <= max_height && depth <= max_depth;
}

/* The table of cuArray3DCreate. */
static bool shape_fits(const CUDA_ARRAY3D_DESCRIPTOR *d)
{
    bool layered = d->Flags & CPU_ARRAY_LAYERED, surface = d->Flags & CPU_ARRAY_SURFACE;
    uint64_t width = d->Width, height = d->Height, depth = d->Depth;
    if (!width)
        return false;
    if (d->Flags & CPU_ARRAY_CUBE)
        return width == height && depth && depth % 6 == 0 && (layered || depth == 6) &&
               fits(width, CPU_TEX_LAYERED, height, CPU_TEX_LAYERED, depth,
                    CPU_TEX_CUBE_LAYERS / 6 * 6);
    if (layered)
        return depth &&
               fits(width, CPU_TEX_LAYERED, height, CPU_TEX_LAYERED, depth, CPU_TEX_LAYERS);
    if (depth)
        return height && fits(width, CPU_TEX_3D, height, CPU_TEX_3D, depth, CPU_TEX_3D);
    if (!height)
        return width <= (surface ? (uint64_t)CPU_SURF_1D : (uint64_t)CPU_TEX_1D);
    if (d->Flags & CPU_ARRAY_GATHER)
        return fits(width, CPU_TEX_LAYERED, height, CPU_TEX_LAYERED, 0, 0);
    return fits(width, CPU_TEX_2D_WIDTH, height, CPU_TEX_2D_HEIGHT, 0, 0);
}

static CUresult check(const CUDA_ARRAY3D_DESCRIPTOR *d, cpu_tex_image_t *image)
{
    bool is_float;
    memset(image, 0, sizeof(*image));
    CUresult result = cpu_array_format(d->Format, d->NumChannels, image, &is_float);
    if (result)
        return result;
    if (d->Flags & (CPU_ARRAY_SPARSE | CPU_ARRAY_DEFERRED))
        return CUDA_ERROR_NOT_SUPPORTED;
    if ((d->Flags & ~(unsigned)CPU_ARRAY_FLAGS) || !shape_fits(d))
        return CUDA_ERROR_INVALID_VALUE;
    image->layered = d->Flags & CPU_ARRAY_LAYERED;
    image->cube = d->Flags & CPU_ARRAY_CUBE;
    image->dimensions = d->Depth && !image->layered && !image->cube ? 3 : d->Height ? 2 : 1;
    image->levels = 1;
    return CUDA_SUCCESS;
}

static uint64_t round_up(uint64_t value, uint64_t align)
{
    return (value + align - 1) / align * align;
}

/* Lays the rows out and takes memory for them. */
static CUresult take_memory(cpu_array_t *array)
{
    cpu_tex_level_t *l = &array->image.level[0];
    const CUDA_ARRAY3D_DESCRIPTOR *d = &array->descriptor;
    l->width = (uint32_t)d->Width;
    l->height = d->Height ? (uint32_t)d->Height : 1;
    l->depth = d->Depth ? (uint32_t)d->Depth : 1;
    l->row = round_up((uint64_t)l->width * array->image.bytes, ROW_ALIGN);
    l->slice = l->row * l->height;
    CUresult result = cpu_memory_alloc(CPU_MEMORY_ARRAY, array->context->device->index,
                                       array->context, l->slice * l->depth, 0, &array->memory);
    l->data = (uint8_t *)array->memory;
    return result;
}

static void destroy_array(cpu_object_t *object)
{
    cpu_array_t *array = (cpu_array_t *)object;
    if (array->memory)
        (void)cpu_memory_free(CPU_MEMORY_ARRAY, array->memory);
    cpu_object_put(&array->context->object);
    free(array);
}

CUresult cpu_array_open(cpu_context_t *context, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                        cpu_array_t **array)
{
    cpu_tex_image_t image;
    CUresult result = check(descriptor, &image);
    if (result)
        return result;
    cpu_array_t *made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cpu_object_init(&made->object, CPU_KIND_ARRAY, destroy_array);
    cpu_object_ref(&context->object);
    made->context = context;
    made->descriptor = *descriptor;
    made->image = image;
    result = take_memory(made);
    if (!result && !cpu_handle_add(&made->object))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    cpu_object_put(&made->object); /* the handle table has its own */
    if (!result)
        *array = made;
    return result;
}

CUresult cpu_array_close(cpu_array_t *array)
{
    cpu_object_t *entered = cpu_handle_remove(CPU_KIND_ARRAY, array->object.handle);
    cpu_object_put(entered);
    return entered ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

static void destroy_mipmap(cpu_object_t *object)
{
    cpu_mipmap_t *mipmap = (cpu_mipmap_t *)object;
    for (uint32_t i = 0; i < mipmap->levels; i++)
        cpu_object_put(&mipmap->level[i]->object);
    cpu_object_put(&mipmap->context->object);
    free(mipmap);
}

static size_t halved(size_t size, unsigned level)
{
    return !size ? 0 : size >> level ? size >> level : 1;
}

/* Down to one texel at most. */
static uint32_t levels_of(const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned asked)
{
    bool volume = d->Depth && !(d->Flags & (CPU_ARRAY_LAYERED | CPU_ARRAY_CUBE));
    size_t longest = d->Width > d->Height ? d->Width : d->Height;
    uint32_t most = 1;
    longest = volume && d->Depth > longest ? d->Depth : longest;
    while (longest >>= 1)
        most++;
    return asked < 1 ? 1 : asked < most ? asked : most;
}

static CUresult open_levels(cpu_mipmap_t *mipmap, uint32_t count)
{
    const CUDA_ARRAY3D_DESCRIPTOR *d = &mipmap->descriptor;
    bool volume = !(d->Flags & (CPU_ARRAY_LAYERED | CPU_ARRAY_CUBE));
    for (uint32_t i = 0; i < count; i++) {
        CUDA_ARRAY3D_DESCRIPTOR level = *d;
        cpu_array_t *array;
        level.Width = halved(d->Width, i);
        level.Height = halved(d->Height, i);
        level.Depth = volume ? halved(d->Depth, i) : d->Depth;
        CUresult result = cpu_array_open(mipmap->context, &level, &array);
        if (result)
            return result;
        array->is_level = true;
        cpu_object_ref(&array->object);
        mipmap->level[mipmap->levels++] = array;
    }
    return CUDA_SUCCESS;
}

static void close_levels(cpu_mipmap_t *mipmap)
{
    for (uint32_t i = 0; i < mipmap->levels; i++)
        (void)cpu_array_close(mipmap->level[i]);
}

CUresult cpu_mipmap_open(cpu_context_t *context, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                         unsigned levels, cpu_mipmap_t **mipmap)
{
    cpu_tex_image_t image;
    CUresult result = check(descriptor, &image);
    if (result)
        return result;
    if (descriptor->Width > CPU_TEX_LAYERED || descriptor->Height > CPU_TEX_LAYERED)
        return CUDA_ERROR_INVALID_VALUE;
    cpu_mipmap_t *made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cpu_object_init(&made->object, CPU_KIND_MIPMAP, destroy_mipmap);
    cpu_object_ref(&context->object);
    made->context = context;
    made->descriptor = *descriptor;
    result = open_levels(made, levels_of(descriptor, levels));
    if (!result && !cpu_handle_add(&made->object))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result)
        close_levels(made);
    cpu_object_put(&made->object);
    if (!result)
        *mipmap = made;
    return result;
}

CUresult cpu_mipmap_close(cpu_mipmap_t *mipmap)
{
    cpu_object_t *entered = cpu_handle_remove(CPU_KIND_MIPMAP, mipmap->object.handle);
    if (!entered)
        return CUDA_ERROR_INVALID_HANDLE;
    close_levels(mipmap);
    cpu_object_put(entered);
    return CUDA_SUCCESS;
}

CUresult cpu_array_get(CUarray handle, cpu_array_t **array)
{
    cpu_array_t *found = (cpu_array_t *)cpu_handle_get(CPU_KIND_ARRAY, (uint64_t)(uintptr_t)handle);
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = cpu_context_state(found->context);
    if (result)
        cpu_object_put(&found->object);
    else
        *array = found;
    return result;
}

CUresult cpu_mipmap_get(CUmipmappedArray handle, cpu_mipmap_t **mipmap)
{
    cpu_mipmap_t *found =
        (cpu_mipmap_t *)cpu_handle_get(CPU_KIND_MIPMAP, (uint64_t)(uintptr_t)handle);
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = cpu_context_state(found->context);
    if (result)
        cpu_object_put(&found->object);
    else
        *mipmap = found;
    return result;
}
