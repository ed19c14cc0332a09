/* texture.h - textures and surfaces as compiled kernels see them: images, samplers, and the table
 * that makes a handle in a register into one of them.
 *
 * The device enters a copy of what an object is; a kernel's handle is looked up on every access, so a
 * stale, foreign or invented one is found out. Entries never move and their memory is never given
 * back, so looking one up takes no lock. Replacing or removing an entry while a kernel uses it is the
 * program's mistake and gives it the new texels or the old ones. All else is thread-safe. */
#ifndef CPU_TEXTURE_H
#define CPU_TEXTURE_H

#include <stdbool.h>
#include <stdint.h>

enum { CPU_TEX_LEVELS = 17 };

/* How a channel lies in memory. */
typedef enum {
    CPU_TEXEL_U8 = 0,
    CPU_TEXEL_U16,
    CPU_TEXEL_U32,
    CPU_TEXEL_S8,
    CPU_TEXEL_S16,
    CPU_TEXEL_S32,
    CPU_TEXEL_F16,
    CPU_TEXEL_F32
} cpu_texel_t;

/* CUDA's numbers. */
typedef enum {
    CPU_ADDRESS_WRAP = 0,
    CPU_ADDRESS_CLAMP,
    CPU_ADDRESS_MIRROR,
    CPU_ADDRESS_BORDER
} cpu_tex_address_t;

/* One mipmap level. Sizes in texels, 1 where the image has no such dimension. */
typedef struct {
    uint8_t *data;
    uint32_t width, height, depth; /* depth: slices of a 3-D image, or layers, or faces of cubes */
    uint64_t row, slice;           /* bytes from row to row and from slice to slice */
} cpu_tex_level_t;

typedef struct {
    uint8_t texel;      /* cpu_texel_t */
    uint8_t channels;   /* 1, 2 or 4 */
    uint8_t bytes;      /* of a texel */
    uint8_t dimensions; /* 1, 2 or 3; a cube map has 2 */
    bool layered, cube;
    bool fetch; /* linear memory: what is outside reads 0 */
    uint32_t levels;
    cpu_tex_level_t level[CPU_TEX_LEVELS];
} cpu_tex_image_t;

typedef struct {
    uint8_t address[3]; /* cpu_tex_address_t */
    bool linear;        /* filter; else point */
    bool mip_linear;
    bool normalised; /* coordinates in [0, 1) */
    bool to_float;   /* 8- and 16-bit integers are read as [0, 1] or [-1, 1] */
    bool srgb;       /* 8-bit unsigned colours are read as linear light */
    bool seamless;   /* cube maps filter over their edges */
    float bias, min_level, max_level;
    float border[4]; /* integer images: the nearest integer that fits */
} cpu_tex_sampler_t;

typedef struct {
    cpu_tex_image_t image;
    cpu_tex_sampler_t sampler;
} cpu_texture_t;

typedef enum { CPU_TEXTURE = 1, CPU_SURFACE, CPU_SAMPLER } cpu_texture_kind_t;

/* Enters an object; `owner` is the device's own. Returns its handle, 0 if memory is out. */
uint64_t cpu_texture_add(cpu_texture_kind_t kind, const cpu_texture_t *texture, void *owner);

/* Replaces what a live handle means. */
void cpu_texture_set(uint64_t handle, const cpu_texture_t *texture);

void cpu_texture_remove(uint64_t handle);

/* NULL if there is no such object of this kind. */
const cpu_texture_t *cpu_texture_at(cpu_texture_kind_t kind, uint64_t handle);
void *cpu_texture_owner(cpu_texture_kind_t kind, uint64_t handle);

/* ---- sampling, one lane at a time: the exact way ---- */

/* Where and how to read. Coordinates are floats, or integers for .s32. */
typedef struct {
    union {
        float f[3];
        int32_t i[3];
    } at;
    uint32_t layer;
    float level;        /* CPU_TEX_LEVEL */
    float dx[3], dy[3]; /* CPU_TEX_GRADIENT: of the coordinates */
    int32_t offset[3];  /* texels, added to the indices */
} cpu_tex_point_t;

typedef enum {
    CPU_TEX_BASE = 0,
    CPU_TEX_LEVEL,
    CPU_TEX_GRADIENT,
    CPU_TEX_GATHER,
} cpu_tex_how_t;

/* What an instruction asks for: constant in the code. */
typedef struct {
    uint8_t how;       /* cpu_tex_how_t */
    uint8_t geometry;  /* ptx_tex_geometry_t */
    uint8_t component; /* of a gather */
    bool integer;      /* coordinates are .s32 */
} cpu_tex_read_t;

/* Four words: floats, or integers if the image is not read as floats. Channels that the image lacks
 * read 0. Never touches memory outside the image. */
void cpu_tex_sample(const cpu_tex_image_t *image, const cpu_tex_sampler_t *sampler,
                    const cpu_tex_read_t *read, const cpu_tex_point_t *point, uint32_t out[4]);

/* A texel as it lies in memory to four words, without filtering (tex_texel.c). */
void cpu_texel_read(const cpu_tex_image_t *image, const cpu_tex_sampler_t *sampler,
                    const uint8_t *at, uint32_t out[4]);
/* What a filter blends: channels as floats that cpu_texel_scale has not divided yet. */
void cpu_texel_raw(const cpu_tex_image_t *image, const cpu_tex_sampler_t *sampler,
                   const uint8_t *at, float out[4]);
/* 255 for bytes read as [0, 1], and so on; 1 for what is a float as it is. */
float cpu_texel_scale(const cpu_tex_image_t *image, const cpu_tex_sampler_t *sampler);
/* sust.p: four words (floats if `is_float`) to a texel; what does not fit is saturated. */
void cpu_texel_write(const cpu_tex_image_t *image, const uint32_t in[4], bool is_float,
                     uint8_t *at);

float cpu_half_to_float(uint16_t half);
uint16_t cpu_float_to_half(float value);

#endif
