#include "gpu-proxy/cpu/driver/cpu_box.h"

#include "gpu-proxy/cpu/driver/cpu_memory.h"

static bool is_device(uint64_t address, uint64_t bytes)
{
    return cpu_memory_covers(CPU_MEMORY_ANY, address, bytes);
}

bool cpu_is_pageable(uint64_t address)
{
    cpu_memory_t memory;
    return !cpu_memory_find(address, &memory);
}

/* The array of a side, which says how its rows lie. */
static CUresult find_array(cpu_side_t *side)
{
    if (side->type != CU_MEMORYTYPE_ARRAY)
        return CUDA_SUCCESS;
    CUresult result = cpu_array_get(side->handle, &side->array);
    if (result)
        return result;
    const cpu_tex_level_t *level = &side->array->image.level[0];
    side->pitch = level->row;
    side->height = level->height;
    return CUDA_SUCCESS;
}

/* Whole texels inside the array. */
static CUresult place_in_array(const cpu_side_t *side, const cpu_box_t *box, uint64_t *address)
{
    const cpu_tex_image_t *image = &side->array->image;
    const cpu_tex_level_t *level = &image->level[0];
    uint64_t row = (uint64_t)level->width * image->bytes;
    if (side->x % image->bytes || box->width % image->bytes || side->x > row ||
        box->width > row - side->x || side->y > level->height ||
        box->height > level->height - side->y || side->z > level->depth ||
        box->depth > level->depth - side->z)
        return CUDA_ERROR_INVALID_VALUE;
    *address = (uint64_t)level->data + side->z * level->slice + side->y * level->row + side->x;
    return CUDA_SUCCESS;
}

/* The address of a side's first byte. */
static CUresult place(const cpu_side_t *side, const cpu_box_t *box, uint64_t *address)
{
    uint64_t base = side->type == CU_MEMORYTYPE_HOST ? side->host : side->device;
    if (side->type == CU_MEMORYTYPE_ARRAY)
        return place_in_array(side, box, address);
    if (side->type != CU_MEMORYTYPE_HOST && side->type != CU_MEMORYTYPE_DEVICE &&
        side->type != CU_MEMORYTYPE_UNIFIED)
        return CUDA_ERROR_INVALID_VALUE;
    uint64_t slice = side->pitch * side->height;
    uint64_t first = base + side->z * slice + side->y * side->pitch + side->x;
    uint64_t end = first + (box->depth - 1) * slice + (box->height - 1) * side->pitch + box->width;
    if (!base || end < first)
        return CUDA_ERROR_INVALID_VALUE;
    if ((side->type == CU_MEMORYTYPE_DEVICE ||
         (side->type == CU_MEMORYTYPE_UNIFIED && !cpu_is_pageable(first))) &&
        !is_device(first, end - first))
        return CUDA_ERROR_INVALID_VALUE;
    *address = first;
    return CUDA_SUCCESS;
}

static CUresult place_both(cpu_side_t *dst, cpu_side_t *src, cpu_box_t *box)
{
    cpu_side_t *sides[2] = {dst, src};
    CUresult result = find_array(dst);
    if (!result)
        result = find_array(src);
    if (result)
        return result;
    for (int i = 0; i < 2; i++) { /* 0 means "packed" */
        sides[i]->pitch = sides[i]->pitch ? sides[i]->pitch : box->width + sides[i]->x;
        sides[i]->height = sides[i]->height ? sides[i]->height : box->height + sides[i]->y;
    }
    if (!box->width || !box->height || !box->depth)
        return CUDA_SUCCESS;
    box->dst_pitch = dst->pitch;
    box->src_pitch = src->pitch;
    box->dst_slice = dst->pitch * dst->height;
    box->src_slice = src->pitch * src->height;
    if ((box->height > 1 && (dst->pitch < box->width || src->pitch < box->width)) ||
        dst->pitch > (size_t)1 << 40 || src->pitch > (size_t)1 << 40 ||
        (box->depth > 1 && (dst->height < box->height || src->height < box->height)))
        return CUDA_ERROR_INVALID_VALUE;
    result = place(dst, box, &box->dst);
    return result ? result : place(src, box, &box->src);
}

void cpu_side_drop(cpu_side_t *side)
{
    if (side->array)
        cpu_object_put(&side->array->object);
    side->array = NULL;
}

CUresult cpu_box_place(cpu_side_t *dst, cpu_side_t *src, size_t width, size_t height, size_t depth,
                       cpu_box_t *box)
{
    *box = (cpu_box_t){.width = width, .height = height, .depth = depth};
    CUresult result = place_both(dst, src, box);
    if (result) {
        cpu_side_drop(dst);
        cpu_side_drop(src);
    }
    return result;
}

CUresult cpu_box_describe(const CUDA_MEMCPY3D *c, cpu_side_t *dst, cpu_side_t *src, cpu_box_t *box)
{
    if (!c || c->srcLOD || c->dstLOD)
        return CUDA_ERROR_INVALID_VALUE;
    *dst =
        (cpu_side_t){c->dstMemoryType, (uint64_t)c->dstHost, c->dstDevice, c->dstXInBytes, c->dstY,
                     c->dstZ,          c->dstPitch,          c->dstHeight, c->dstArray,    NULL};
    *src =
        (cpu_side_t){c->srcMemoryType, (uint64_t)c->srcHost, c->srcDevice, c->srcXInBytes, c->srcY,
                     c->srcZ,          c->srcPitch,          c->srcHeight, c->srcArray,    NULL};
    return cpu_box_place(dst, src, c->WidthInBytes, c->Height, c->Depth, box);
}
