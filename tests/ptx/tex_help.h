/* tex_help.h - images, texture objects and the reference that texture tests compare with, written from
 * the CUDA programming guide's appendix on texture fetching and the PTX ISA manual. */
#ifndef TEX_HELP_H
#define TEX_HELP_H

#include "tests/ptx/pt_device.h"

enum { TX_LEVELS = 8, TX_WORDS = 8 };

typedef struct {
    CUarray_format format;
    unsigned channels;
    unsigned width, height, depth; /* 0: no such dimension; depth: layers of a layered one */
    unsigned flags;                /* of the array: 1 layered, 2 surface, 4 cube map, 8 gather */
    unsigned levels;               /* 0: no mipmap */
} tx_shape_t;

typedef struct {
    tx_shape_t shape;
    size_t texel;             /* bytes */
    uint8_t *data[TX_LEVELS]; /* packed */
    CUarray array;            /* of level 0, without mipmap */
    CUmipmappedArray mipmap;
} tx_image_t;

/* What a texture object is made with. */
typedef struct {
    CUaddress_mode address; /* of all dimensions */
    bool linear, mip_linear, normalised, as_integer, srgb, seamless;
    float bias, min_level, max_level;
    float border[4];
} tx_how_t;

typedef struct {
    double v[4];   /* read as floats */
    uint32_t w[4]; /* or as integers */
} tx_value_t;

size_t tx_channel_bytes(CUarray_format format);
bool tx_is_float(const tx_image_t *image, const tx_how_t *how);

/* Texels that are random, the same in every run. */
void tx_make(tx_image_t *image, const tx_shape_t *shape, uint32_t seed);
void tx_free(tx_image_t *image);
void tx_size(const tx_image_t *image, unsigned level, unsigned size[3]);

CUtexObject tx_object(const tx_image_t *image, const tx_how_t *how);
void tx_drop(CUtexObject object);

/* The texel at these indices, border where the mode says so. */
tx_value_t tx_texel(const tx_image_t *image, const tx_how_t *how, unsigned level, const long at[3]);

/* One fetch: `dims` coordinates, filtered; `slice` is the layer, already within bounds. */
tx_value_t tx_fetch(const tx_image_t *image, const tx_how_t *how, unsigned level, unsigned dims,
                    const float *at, unsigned slice);
/* The same over the levels. */
tx_value_t tx_fetch_level(const tx_image_t *image, const tx_how_t *how, float level, unsigned dims,
                          const float *at, unsigned slice);

/* Runs "INSTRUCTION" for `count` threads, of which thread t has the words in[t * TX_WORDS...] as
 * %f0 to %f7 and %r0 to %r7, and leaves four words in %o0 to %o3. %t is the handle. With `part` only
 * two of three threads take part; the others give four words of ones. */
void tx_run(const char *declarations, const char *instruction, uint64_t handle, const void *in,
            unsigned count, bool part, uint32_t *out);
/* The same where it may fail: the launch's result. */
CUresult tx_try(const char *declarations, const char *instruction, uint64_t handle, const void *in,
                unsigned count, bool part, uint32_t *out);
/* After pt_new_context: compiled kernels are gone. */
void tx_forget(void);

#endif
