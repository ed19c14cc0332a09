/* Texture fetches: every format, geometry, addressing mode and filter. */
#include "tests/ptx/tex_help.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 200 };

static const CUarray_format all_formats[] = {
    CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_UNSIGNED_INT32,
    CU_AD_FORMAT_SIGNED_INT8,   CU_AD_FORMAT_SIGNED_INT16,   CU_AD_FORMAT_SIGNED_INT32,
    CU_AD_FORMAT_HALF,          CU_AD_FORMAT_FLOAT};

static const char *const mode_names[] = {"wrap", "clamp", "mirror", "border"};

/* Coordinates from a bit before the image to a bit behind it, on 1024ths of a texel that are no ties
 * of the weights. Sizes are powers of two, so that nothing is rounded on the way. */
static void coordinates(float *in, const unsigned size[3], unsigned dims, bool normalised,
                        uint32_t *seed)
{
    for (unsigned t = 0; t < COUNT; t++) {
        for (unsigned d = 0; d < dims; d++) {
            int span = 3 * (int)size[d];
            int step = (int)(pt_random(seed) % (unsigned)(span * 256)) - (int)size[d] * 256;
            float x = (float)(step * 4 + 1) / 1024.0f;
            in[t * TX_WORDS + d] = normalised ? x / (float)size[d] : x;
        }
    }
}

static float as_float(uint32_t w)
{
    float f;
    memcpy(&f, &w, 4);
    return f;
}

/* Compares a thread's words; sums of weighted texels may be rounded differently. */
static void expect(const char *what, const tx_image_t *image, const tx_how_t *how, unsigned thread,
                   const float *at, const uint32_t *got, const tx_value_t *want)
{
    for (unsigned c = 0; c < image->shape.channels; c++) {
        bool fine = tx_is_float(image, how)
                        ? fabs(as_float(got[c]) - want->v[c]) <= 2e-6 * (1 + fabs(want->v[c]))
                        : got[c] == want->w[c];
        if (!fine)
            fail_msg(
                "%s, format %d x %u, %s, thread %u at (%g, %g, %g), channel %u: got %g (0x%x), "
                "expected %g (0x%x)",
                what, (int)image->shape.format, image->shape.channels, mode_names[how->address],
                thread, at[0], at[1], at[2], c, as_float(got[c]), got[c], want->v[c], want->w[c]);
    }
}

static const char *result_type(const tx_image_t *image, const tx_how_t *how)
{
    return tx_is_float(image, how)                           ? "f32"
           : image->shape.format >= CU_AD_FORMAT_SIGNED_INT8 ? "s32"
                                                             : "u32";
}

/* One object, all threads: a kernel of its own. */
static void compare(const tx_shape_t *shape, const tx_how_t *how, const char *geometry,
                    const char *operands, unsigned dims, bool part)
{
    static float in[COUNT * TX_WORDS];
    static uint32_t out[COUNT * 4];
    tx_image_t image;
    char text[256];
    uint32_t seed = 12345 + shape->width + shape->channels;
    unsigned size[3];
    tx_make(&image, shape, seed);
    CUtexObject object = tx_object(&image, how);
    tx_size(&image, 0, size);
    coordinates(in, size, dims, how->normalised, &seed);
    for (unsigned t = 0; t < COUNT; t++) /* layers: some are out of range */
        ((int *)in)[t * TX_WORDS + 3] = (int)(t % 9) - 2;
    snprintf(text, sizeof text, "tex.%s.v4.%s.f32 {%%o0, %%o1, %%o2, %%o3}, [%%t, %s];", geometry,
             result_type(&image, how), operands);
    tx_run("", text, object, in, COUNT, part, out);
    for (unsigned t = 0; t < COUNT; t++) {
        const float *at = &in[t * TX_WORDS];
        if (part && t % 3 == 0) {
            assert_int_equal(out[t * 4], UINT32_MAX);
            continue;
        }
        int layer = ((int *)in)[t * TX_WORDS + 3], most = (int)shape->depth - 1;
        layer = layer < 0 || !(shape->flags & 1) ? 0 : layer > most ? most : layer;
        tx_value_t want = tx_fetch(&image, how, 0, dims, at, (unsigned)layer);
        expect(text, &image, how, t, at, &out[t * 4], &want);
    }
    tx_drop(object);
    tx_free(&image);
}

/* Every way to address and filter. */
static void every_way(const tx_shape_t *shape, const char *geometry, const char *operands,
                      unsigned dims, bool as_integer)
{
    tx_image_t probe = {.shape = *shape};
    for (unsigned k = 0; k < 16; k++) {
        tx_how_t how = {.address = (CUaddress_mode)(k & 3),
                        .linear = k & 4,
                        .normalised = k & 8,
                        .as_integer = as_integer,
                        .border = {1.0f, 3.0f, 0.0f, 2.0f}};
        if (how.linear && !tx_is_float(&probe, &how))
            continue;
        compare(shape, &how, geometry, operands, dims, k % 3 == 1);
    }
}

static void test_formats(void **state)
{
    (void)state;
    for (unsigned f = 0; f < sizeof all_formats / sizeof all_formats[0]; f++) {
        for (unsigned channels = 1; channels <= 4; channels *= 2) {
            tx_shape_t shape = {all_formats[f], channels, 32, 16, 0, 0, 0};
            every_way(&shape, "2d", "{%f0, %f1}", 2, false);
            if (tx_channel_bytes(all_formats[f]) < 4 && all_formats[f] != CU_AD_FORMAT_HALF)
                every_way(&shape, "2d", "{%f0, %f1}", 2, true);
        }
    }
}

static void test_geometries(void **state)
{
    static const CUarray_format some[] = {CU_AD_FORMAT_FLOAT, CU_AD_FORMAT_UNSIGNED_INT8,
                                          CU_AD_FORMAT_SIGNED_INT32};
    (void)state;
    for (unsigned k = 0; k < 3; k++) {
        CUarray_format f = some[k];
        unsigned channels = 4u >> k;
        every_way(&(tx_shape_t){f, channels, 64, 0, 0, 0, 0}, "1d", "{%f0}", 1, false);
        every_way(&(tx_shape_t){f, channels, 8, 16, 4, 0, 0}, "3d", "{%f0, %f1, %f2, %f2}", 3,
                  false);
        every_way(&(tx_shape_t){f, channels, 16, 0, 5, 1, 0}, "a1d", "{%r3, %f0}", 1, false);
        every_way(&(tx_shape_t){f, channels, 16, 8, 5, 1, 0}, "a2d", "{%r3, %f0, %f1, %f1}", 2,
                  false);
    }
}

/* The edges themselves, huge ones, infinities and NaN: nothing is touched outside the image. */
static void test_edges(void **state)
{
    static const float values[] = {0.0f,  -0.0f,  1.0f,  -1.0f, 2.0f,      0.5f,     -0.5f,
                                   0.25f, 1e9f,   -1e9f, 1e30f, -1e30f,    INFINITY, -INFINITY,
                                   NAN,   1e-40f, 32.0f, 31.5f, 31.96875f, 33.0f};
    enum { VALUES = sizeof values / sizeof values[0] };
    static float in[VALUES * VALUES * TX_WORDS];
    static uint32_t out[VALUES * VALUES * 4];
    tx_image_t image;
    (void)state;
    tx_make(&image, &(tx_shape_t){CU_AD_FORMAT_FLOAT, 1, 32, 32, 0, 0, 0}, 7);
    for (unsigned t = 0; t < VALUES * VALUES; t++) {
        in[t * TX_WORDS] = values[t % VALUES];
        in[t * TX_WORDS + 1] = values[t / VALUES];
    }
    for (unsigned k = 0; k < 16; k++) {
        tx_how_t how = {.address = (CUaddress_mode)(k & 3), .linear = k & 4, .normalised = k & 8};
        CUtexObject object = tx_object(&image, &how);
        tx_run("", "tex.2d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%t, {%f0, %f1}];", object, in,
               VALUES * VALUES, false, out);
        for (unsigned t = 0; t < VALUES * VALUES; t++) {
            const float *at = &in[t * TX_WORDS];
            if (fabsf(at[0]) <= 33 && fabsf(at[1]) <= 33) {
                tx_value_t want = tx_fetch(&image, &how, 0, 2, at, 0);
                expect("edge", &image, &how, t, at, &out[t * 4], &want);
            } else { /* far away: some texel, or the border */
                assert_true(fabsf(as_float(out[t * 4])) <= 2.0f);
            }
        }
        tx_drop(object);
    }
    tx_free(&image);
}

/* Sizes that are no powers of two: weights may differ by one step. */
static void test_odd_sizes(void **state)
{
    static float in[COUNT * TX_WORDS];
    static uint32_t out[COUNT * 4];
    tx_image_t image;
    uint32_t seed = 99;
    (void)state;
    tx_make(&image, &(tx_shape_t){CU_AD_FORMAT_FLOAT, 2, 37, 21, 0, 0, 0}, 3);
    for (unsigned t = 0; t < COUNT; t++) {
        in[t * TX_WORDS] = (float)(pt_random(&seed) % 10000) / 4000.0f - 0.7f;
        in[t * TX_WORDS + 1] = (float)(pt_random(&seed) % 10000) / 4000.0f - 0.7f;
    }
    for (unsigned mode = 0; mode < 4; mode++) {
        tx_how_t how = {.address = (CUaddress_mode)mode, .linear = true, .normalised = true};
        CUtexObject object = tx_object(&image, &how);
        tx_run("", "tex.2d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%t, {%f0, %f1}];", object, in, COUNT,
               false, out);
        for (unsigned t = 0; t < COUNT; t++) {
            tx_value_t want = tx_fetch(&image, &how, 0, 2, &in[t * TX_WORDS], 0);
            for (unsigned c = 0; c < 2; c++)
                assert_true(fabs(as_float(out[t * 4 + c]) - want.v[c]) <= 2 * 4.0 / 256);
        }
        tx_drop(object);
    }
    tx_free(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_geometries),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_odd_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
