/* cpu_array.h - CUDA arrays and mipmapped arrays: texels in rows, in memory that programs have no
 * address of. Thread-safe; objects keep their context and their memory until the last reference. */
#ifndef CPU_ARRAY_H
#define CPU_ARRAY_H

#include "gpu-proxy/cpu/driver/cpu_context.h"
#include "gpu-proxy/cpu/driver/cpu_handle.h"
#include "gpu-proxy/cpu/jit/texture.h"

/* Flags of an array (CUDA's numbers). */
enum {
    CPU_ARRAY_LAYERED = 0x01,
    CPU_ARRAY_SURFACE = 0x02,
    CPU_ARRAY_CUBE = 0x04,
    CPU_ARRAY_GATHER = 0x08,
    CPU_ARRAY_FLAGS = 0x0f, /* those that are known; sparse and deferred ones are not done */
    CPU_ARRAY_SPARSE = 0x40,
    CPU_ARRAY_DEFERRED = 0x80,
};

/* Limits on sizes, as the device's attributes give them. */
enum {
    CPU_TEX_1D = 131072,
    CPU_TEX_1D_LINEAR = 1 << 28,
    CPU_TEX_2D_WIDTH = 131072,
    CPU_TEX_2D_HEIGHT = 65536,
    CPU_TEX_2D_LINEAR_WIDTH = 131072,
    CPU_TEX_2D_LINEAR_HEIGHT = 65000,
    CPU_TEX_2D_LINEAR_PITCH = 2097120,
    CPU_TEX_3D = 16384,
    CPU_TEX_LAYERED = 32768, /* width and height; also of cube, gathered and mipmapped ones */
    CPU_TEX_LAYERS = 2048,
    CPU_TEX_CUBE_LAYERS = 2046,
    CPU_SURF_1D = 32768,
    CPU_TEX_ALIGN = 512,      /* of addresses */
    CPU_TEX_PITCH_ALIGN = 32, /* of rows */
};

typedef struct {
    cpu_object_t object;
    cpu_context_t *context; /* referenced */
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    cpu_tex_image_t image; /* one level */
    uint64_t memory;
    bool is_level; /* of a mipmapped array, which ends it */
} cpu_array_t;

typedef struct {
    cpu_object_t object;
    cpu_context_t *context; /* referenced */
    CUDA_ARRAY3D_DESCRIPTOR descriptor;
    uint32_t levels;
    cpu_array_t *level[CPU_TEX_LEVELS]; /* referenced */
} cpu_mipmap_t;

/* Sets texel, channels and bytes; *is_float if integers of the format are always read as floats.
 * CUDA_ERROR_INVALID_VALUE, or CUDA_ERROR_NOT_SUPPORTED for planar and compressed ones. */
CUresult cpu_array_format(CUarray_format format, unsigned channels, cpu_tex_image_t *image,
                          bool *is_float);

/* A new array, entered in the handle table. Errors as cuArray3DCreate. */
CUresult cpu_array_open(cpu_context_t *context, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                        cpu_array_t **array);
CUresult cpu_mipmap_open(cpu_context_t *context, const CUDA_ARRAY3D_DESCRIPTOR *descriptor,
                         unsigned levels, cpu_mipmap_t **mipmap);

/* With a reference; CUDA_ERROR_INVALID_HANDLE or the state of its context. */
CUresult cpu_array_get(CUarray handle, cpu_array_t **array);
CUresult cpu_mipmap_get(CUmipmappedArray handle, cpu_mipmap_t **mipmap);

/* Takes the handle away. The caller has waited for what may use it. */
CUresult cpu_array_close(cpu_array_t *array);
CUresult cpu_mipmap_close(cpu_mipmap_t *mipmap);

#endif
