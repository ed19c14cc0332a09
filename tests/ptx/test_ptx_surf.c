/* Surfaces: loads, stores and reductions of every geometry, width and boundary mode. */
#include "tests/ptx/tex_help.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 150, LAYERED = 1, SURFACE = 2, CUBE = 4 };

static uint32_t in[COUNT * TX_WORDS];
static uint32_t out[COUNT * 4];

static CUsurfObject surface_of(const tx_image_t *image)
{
    CUsurfObject object;
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
    resource.res.array.hArray = image->array;
    PT_CHECK(pt_cuda()->cuSurfObjectCreate(&object, &resource));
    return object;
}

static size_t image_bytes(const tx_image_t *image)
{
    unsigned size[3];
    tx_size(image, 0, size);
    return (size_t)size[0] * size[1] * size[2] * image->texel;
}

static void download(const tx_image_t *image, void *to)
{
    unsigned size[3];
    tx_size(image, 0, size);
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                          .srcArray = image->array,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = to,
                          .dstPitch = size[0] * image->texel,
                          .dstHeight = size[1],
                          .WidthInBytes = size[0] * image->texel,
                          .Height = size[1],
                          .Depth = size[2]};
    PT_CHECK(pt_cuda()->cuMemcpy3D_v2(&copy));
}

static long clamped(long i, long n)
{
    return i < 0 ? 0 : i >= n ? n - 1 : i;
}

/* Offset of the element at these coordinates (x in elements of `size` bytes); -1: outside. */
static long offset_of(const tx_image_t *image, const long at[3], unsigned size, bool clamp)
{
    unsigned n[3];
    long i[3] = {at[0], at[1], at[2]};
    tx_size(image, 0, n);
    const long limit[3] = {(long)(n[0] * image->texel / size), n[1], n[2]};
    for (int d = 0; d < 3; d++) {
        if (clamp)
            i[d] = clamped(i[d], limit[d]);
        if (i[d] < 0 || i[d] >= limit[d])
            return -1;
    }
    return ((i[2] * n[1] + i[1]) * (long)n[0]) * (long)image->texel + i[0] * size;
}

typedef struct {
    const char *name, *operands; /* x in bytes is %r0 */
    tx_shape_t shape;
    int y, z; /* where the tests' coordinates 1 and 2 go: dimension, or -1 */
} geometry_t;

static const geometry_t geometries[] = {
    {"1d", "{%r0}", {CU_AD_FORMAT_UNSIGNED_INT32, 4, 24, 0, 0, SURFACE, 0}, -1, -1},
    {"2d", "{%r0, %r1}", {CU_AD_FORMAT_UNSIGNED_INT32, 4, 12, 9, 0, SURFACE, 0}, 1, -1},
    {"3d", "{%r0, %r1, %r2, %r2}", {CU_AD_FORMAT_UNSIGNED_INT32, 4, 6, 5, 4, SURFACE, 0}, 1, 2},
    {"a1d", "{%r2, %r0}", {CU_AD_FORMAT_UNSIGNED_INT32, 4, 12, 0, 5, LAYERED | SURFACE, 0}, -1, 2},
    {"a2d",
     "{%r2, %r0, %r1, %r1}",
     {CU_AD_FORMAT_UNSIGNED_INT32, 4, 6, 6, 6, LAYERED | CUBE | SURFACE, 0},
     1,
     2},
};

static const struct {
    const char *suffix, *load, *store, *before, *after;
    unsigned size;
} widths[] = {
    {"b8", "{%h0}", "{%h4}", "cvt.u16.u32 %h4, %r4;", "cvt.u32.u16 %o0, %h0;", 1},
    {"v2.b8", "{%h0, %h1}", "{%h4, %h5}", "cvt.u16.u32 %h4, %r4; cvt.u16.u32 %h5, %r5;",
     "cvt.u32.u16 %o0, %h0; cvt.u32.u16 %o1, %h1;", 2},
    {"v4.b8", "{%h0, %h1, %h2, %h3}", "{%h4, %h5, %h6, %h7}",
     "cvt.u16.u32 %h4, %r4; cvt.u16.u32 %h5, %r5; cvt.u16.u32 %h6, %r6; cvt.u16.u32 %h7, %r7;",
     "cvt.u32.u16 %o0, %h0; cvt.u32.u16 %o1, %h1; cvt.u32.u16 %o2, %h2; cvt.u32.u16 %o3, %h3;", 4},
    {"b16", "{%h0}", "{%h4}", "cvt.u16.u32 %h4, %r4;", "cvt.u32.u16 %o0, %h0;", 2},
    {"v4.b16", "{%h0, %h1, %h2, %h3}", "{%h4, %h5, %h6, %h7}",
     "cvt.u16.u32 %h4, %r4; cvt.u16.u32 %h5, %r5; cvt.u16.u32 %h6, %r6; cvt.u16.u32 %h7, %r7;",
     "cvt.u32.u16 %o0, %h0; cvt.u32.u16 %o1, %h1; cvt.u32.u16 %o2, %h2; cvt.u32.u16 %o3, %h3;", 8},
    {"b32", "{%o0}", "{%r4}", "", "", 4},
    {"v2.b32", "{%o0, %o1}", "{%r4, %r5}", "", "", 8},
    {"v4.b32", "{%o0, %o1, %o2, %o3}", "{%r4, %r5, %r6, %r7}", "", "", 16},
    {"b64", "{%a3}", "{%a4}", "mov.b64 %a4, {%r4, %r5};", "mov.b64 {%o0, %o1}, %a3;", 8},
    {"v2.b64", "{%a3, %a4}", "{%a5, %a6}", "mov.b64 %a5, {%r4, %r5}; mov.b64 %a6, {%r6, %r7};",
     "mov.b64 {%o0, %o1}, %a3; mov.b64 {%o2, %o3}, %a4;", 16},
};

enum { WIDTHS = sizeof widths / sizeof widths[0] };

/* Elements of a vector, and words of the output that carry one. */
static void shape_of(unsigned w, unsigned *count, unsigned *bytes)
{
    const char *s = widths[w].suffix;
    *count = s[0] == 'v' ? (unsigned)(s[1] - '0') : 1;
    *bytes = widths[w].size / *count;
}

/* Coordinates around and inside the image. Values depend on nothing else: threads that store to the same
 * place store the same. */
static void place_threads(const geometry_t *g, unsigned size)
{
    tx_image_t probe = {.shape = g->shape, .texel = 16};
    unsigned n[3];
    tx_size(&probe, 0, n);
    long w = (long)(n[0] * 16 / size);
    for (unsigned t = 0; t < COUNT; t++) {
        int *at = (int *)&in[t * TX_WORDS];
        at[0] = (int)((long)t % (w + 4) - 2) * (int)size;
        at[1] = (int)(t / (unsigned)(w + 4) % (n[1] + 2)) - 1;
        at[2] = (int)(t / 11 % (n[2] + 2)) - 1;
        for (unsigned k = 4; k < 8; k++)
            in[t * TX_WORDS + k] = (unsigned)(at[0] + 64) * 0x01030507u + k * 0x00110000u +
                                   (g->y < 0 ? 0 : (unsigned)at[1] * 0x00050301u) +
                                   (g->z < 0 ? 0 : (unsigned)at[2] * 0x07000b00u);
    }
}

static void coordinates_of(const geometry_t *g, unsigned thread, unsigned size, long at[3])
{
    const int *i = (const int *)&in[thread * TX_WORDS];
    at[0] = i[0] / (int)size;
    at[1] = g->y < 0 ? 0 : i[1];
    at[2] = g->z < 0 ? 0 : i[2];
}

static void expect_load(const geometry_t *g, const tx_image_t *image, unsigned w, bool clamp,
                        unsigned thread)
{
    unsigned count, bytes;
    uint8_t want[16] = {0};
    long at[3];
    shape_of(w, &count, &bytes);
    coordinates_of(g, thread, widths[w].size, at);
    long from = offset_of(image, at, widths[w].size, clamp);
    if (from >= 0)
        memcpy(want, image->data[0] + from, widths[w].size);
    for (unsigned c = 0; c < count; c++) {
        uint64_t value = 0, got = 0;
        memcpy(&value, want + c * bytes, bytes);
        memcpy(&got, &out[thread * 4 + c * (bytes == 8 ? 2 : 1)], bytes == 8 ? 8 : 4);
        if (got != value)
            fail_msg("suld.b.%s.%s thread %u element %u: got %llx, expected %llx", g->name,
                     widths[w].suffix, thread, c, (unsigned long long)got,
                     (unsigned long long)value);
    }
}

static void test_loads(void **state)
{
    char text[512];
    (void)state;
    for (unsigned k = 0; k < sizeof geometries / sizeof geometries[0]; k++) {
        const geometry_t *g = &geometries[k];
        tx_image_t image;
        tx_make(&image, &g->shape, 60 + k);
        CUsurfObject object = surface_of(&image);
        for (unsigned w = 0; w < WIDTHS; w++) {
            bool clamp = (w + k) & 1;
            place_threads(g, widths[w].size);
            snprintf(text, sizeof text, "suld.b.%s.%s.%s %s, [%%t, %s];\n%s", g->name,
                     widths[w].suffix, clamp ? "clamp" : "zero", widths[w].load, g->operands,
                     widths[w].after);
            tx_run("", text, object, in, COUNT, w % 3 == 0, out);
            for (unsigned t = 0; t < COUNT; t++)
                if (w % 3 || t % 3)
                    expect_load(g, &image, w, clamp, t);
        }
        PT_CHECK(pt_cuda()->cuSurfObjectDestroy(object));
        tx_free(&image);
    }
}

static void test_stores(void **state)
{
    char text[512];
    (void)state;
    for (unsigned k = 0; k < sizeof geometries / sizeof geometries[0]; k++) {
        const geometry_t *g = &geometries[k];
        for (unsigned w = 0; w < WIDTHS; w++) {
            tx_image_t image;
            unsigned count, bytes;
            tx_make(&image, &g->shape, 80 + k);
            CUsurfObject object = surface_of(&image);
            uint8_t *got = malloc(image_bytes(&image));
            shape_of(w, &count, &bytes);
            place_threads(g, widths[w].size);
            snprintf(text, sizeof text, "%s\nsust.b.%s.%s.zero [%%t, %s], %s;", widths[w].before,
                     g->name, widths[w].suffix, g->operands, widths[w].store);
            tx_run("", text, object, in, COUNT, false, out);
            for (unsigned t = 0; t < COUNT; t++) {
                long at[3];
                coordinates_of(g, t, widths[w].size, at);
                long to = offset_of(&image, at, widths[w].size, false);
                for (unsigned c = 0; c < count && to >= 0; c++)
                    memcpy(image.data[0] + to + c * bytes,
                           &in[t * TX_WORDS + 4 + c * (bytes == 8 ? 2 : 1)], bytes);
            }
            download(&image, got);
            assert_memory_equal(got, image.data[0], image_bytes(&image));
            free(got);
            PT_CHECK(pt_cuda()->cuSurfObjectDestroy(object));
            tx_free(&image);
        }
    }
}

/* The nearest place takes what is outside. */
static void test_clamped_store(void **state)
{
    tx_image_t image;
    uint32_t got[8 * 4];
    (void)state;
    tx_make(&image, &(tx_shape_t){CU_AD_FORMAT_UNSIGNED_INT32, 1, 8, 4, 0, SURFACE, 0}, 1);
    CUsurfObject object = surface_of(&image);
    int *at = (int *)in;
    at[0] = -400, at[1] = 100, in[4] = 0xabcd;
    tx_run("", "sust.b.2d.b32.clamp [%t, {%r0, %r1}], {%r4};", object, in, 1, false, out);
    download(&image, got);
    assert_int_equal(got[3 * 8], 0xabcd);
    PT_CHECK(pt_cuda()->cuSurfObjectDestroy(object));
    tx_free(&image);
}

/* ---- sust.p ---- */

static const struct {
    CUarray_format format;
    const char *type;
    uint32_t value, want; /* a word to a channel, in its low bytes */
} conversions[] = {
    {CU_AD_FORMAT_UNSIGNED_INT8, "u32", 300, 255},
    {CU_AD_FORMAT_UNSIGNED_INT8, "b32", 17, 17},
    {CU_AD_FORMAT_SIGNED_INT8, "s32", (uint32_t)-300, 0x80},
    {CU_AD_FORMAT_SIGNED_INT8, "s32", (uint32_t)-3, 0xfd},
    {CU_AD_FORMAT_UNSIGNED_INT16, "u32", 70000, 65535},
    {CU_AD_FORMAT_SIGNED_INT16, "s32", 70000, 0x7fff},
    {CU_AD_FORMAT_UNSIGNED_INT32, "u32", 0xfedcba98, 0xfedcba98},
    {CU_AD_FORMAT_HALF, "f32", 0x3fc00000, 0x3e00}, /* 1.5 */
    {CU_AD_FORMAT_HALF, "f32", 0x3f802000, 0x3c01}, /* 1 + 2^-10 */
    {CU_AD_FORMAT_HALF, "f32", 0x3f801000, 0x3c00}, /* a tie, to even */
    {CU_AD_FORMAT_HALF, "f32", 0x33800000, 0x0001}, /* 2^-24 */
    {CU_AD_FORMAT_HALF, "f32", 0x477fefff, 0x7bff}, /* just below 65520 */
    {CU_AD_FORMAT_HALF, "f32", 0xc7800000, 0xfc00}, /* -65536: infinity */
    {CU_AD_FORMAT_FLOAT, "f32", 0xc0490fdb, 0xc0490fdb},
};

static void test_formatted_stores(void **state)
{
    (void)state;
    for (unsigned k = 0; k < sizeof conversions / sizeof conversions[0]; k++) {
        tx_image_t image;
        uint8_t got[8 * 4 * 4];
        char text[160];
        unsigned size = (unsigned)tx_channel_bytes(conversions[k].format);
        tx_make(&image, &(tx_shape_t){conversions[k].format, 1, 8, 4, 0, SURFACE, 0}, 1);
        CUsurfObject object = surface_of(&image);
        in[0] = 5, in[1] = 2, in[4] = conversions[k].value; /* x in texels */
        snprintf(text, sizeof text, "sust.p.2d.%s.trap [%%t, {%%r0, %%r1}], {%%r4};",
                 conversions[k].type);
        tx_run("", text, object, in, 1, false, out);
        memcpy(image.data[0] + (2 * 8 + 5) * size, &conversions[k].want, size);
        download(&image, got);
        assert_memory_equal(got, image.data[0], image_bytes(&image));
        PT_CHECK(pt_cuda()->cuSurfObjectDestroy(object));
        tx_free(&image);
    }
}

/* ---- sured ---- */

static void test_reductions(void **state)
{
    static const struct {
        const char *text;
        uint64_t start, want; /* all threads on one cell, thread t with t * 3 + 1 */
        unsigned size;
    } table[] = {
        {"sured.b.add.1d.u32.trap [%t, {%r0}], %r4;", 5, 5 + 3 * (COUNT * (COUNT - 1) / 2) + COUNT,
         4},
        {"sured.b.max.1d.s32.trap [%t, {%r0}], %r4;", (uint32_t)-9, 3 * (COUNT - 1) + 1, 4},
        {"sured.b.min.1d.u32.trap [%t, {%r0}], %r4;", 0xffffffff, 1, 4},
        {"sured.b.min.1d.s32.trap [%t, {%r0}], %r4;", 0xffffffff, 0xffffffff, 4},
        {"sured.b.or.1d.b32.trap [%t, {%r0}], %r4;", 0x80000000, 0x800001ff, 4},
        {"sured.b.and.1d.b32.trap [%t, {%r0}], %r4;", 0xffffffff, 0, 4},
        {"sured.b.add.1d.u64.trap [%t, {%r0}], %a3;", 0xffffffff,
         0xffffffff + 3 * (uint64_t)(COUNT * (COUNT - 1) / 2) + COUNT, 8},
    };
    (void)state;
    for (unsigned t = 0; t < COUNT; t++) {
        in[t * TX_WORDS] = 16;
        in[t * TX_WORDS + 4] = t * 3 + 1;
    }
    for (unsigned k = 0; k < sizeof table / sizeof table[0]; k++) {
        tx_image_t image;
        char text[256];
        uint8_t got[64];
        tx_make(&image, &(tx_shape_t){CU_AD_FORMAT_UNSIGNED_INT32, 2, 8, 0, 0, SURFACE, 0}, 1);
        memcpy(image.data[0] + 16, &table[k].start, table[k].size);
        PT_CHECK(pt_cuda()->cuMemcpyHtoA_v2(image.array, 0, image.data[0], 64));
        CUsurfObject object = surface_of(&image);
        snprintf(text, sizeof text, "cvt.u64.u32 %%a3, %%r4;\n%s", table[k].text);
        tx_run("", text, object, in, COUNT, false, out);
        memcpy(image.data[0] + 16, &table[k].want, table[k].size);
        download(&image, got);
        assert_memory_equal(got, image.data[0], 64);
        PT_CHECK(pt_cuda()->cuSurfObjectDestroy(object));
        tx_free(&image);
    }
}

/* ---- questions and faults ---- */

static void test_questions(void **state)
{
    static const struct {
        const char *text;
        uint32_t want;
    } table[] = {{"suq.width.b32 %o0, [%t];", 12},
                 {"suq.height.b32 %o0, [%t];", 7},
                 {"suq.depth.b32 %o0, [%t];", 3},
                 {"suq.channel_data_type.b32 %o0, [%t];", 0x10d8}, /* SIGNED_INT16 */
                 {"suq.channel_order.b32 %o0, [%t];", 0x10b5}};    /* RGBA */
    tx_image_t image;
    (void)state;
    tx_make(&image, &(tx_shape_t){CU_AD_FORMAT_SIGNED_INT16, 4, 12, 7, 3, SURFACE, 0}, 1);
    CUsurfObject object = surface_of(&image);
    for (unsigned k = 0; k < sizeof table / sizeof table[0]; k++) {
        tx_run("", table[k].text, object, in, 3, false, out);
        assert_int_equal(out[0], table[k].want);
        assert_int_equal(out[8], table[k].want);
    }
    PT_CHECK(pt_cuda()->cuSurfObjectDestroy(object));
    tx_free(&image);
}

static void test_traps(void **state)
{
    static const struct {
        int x, y;
        CUresult want;
    } table[] = {{28, 3, CUDA_SUCCESS},
                 {32, 3, CUDA_ERROR_LAUNCH_FAILED},
                 {-4, 3, CUDA_ERROR_LAUNCH_FAILED},
                 {0, 4, CUDA_ERROR_LAUNCH_FAILED},
                 {0, -1, CUDA_ERROR_LAUNCH_FAILED},
                 {2, 0, CUDA_ERROR_MISALIGNED_ADDRESS}};
    static const char *const texts[] = {"suld.b.2d.b32.trap {%o0}, [%t, {%r0, %r1}];",
                                        "sust.b.2d.b32.trap [%t, {%r0, %r1}], {%r4};"};
    (void)state;
    for (unsigned k = 0; k < 2 * sizeof table / sizeof table[0]; k++) {
        tx_image_t image;
        tx_make(&image, &(tx_shape_t){CU_AD_FORMAT_FLOAT, 1, 8, 4, 0, SURFACE, 0}, 1);
        CUsurfObject object = surface_of(&image);
        ((int *)in)[0] = table[k / 2].x;
        ((int *)in)[1] = table[k / 2].y;
        assert_int_equal(tx_try("", texts[k & 1], object, in, 1, false, out), table[k / 2].want);
        pt_new_context();
        tx_forget();
        for (unsigned l = 0; l < TX_LEVELS; l++)
            free(image.data[l]);
    }
}

/* What a kernel writes through a surface the next one reads through a texture. */
static void test_write_then_fetch(void **state)
{
    tx_image_t image;
    tx_how_t how = {.address = CU_TR_ADDRESS_MODE_CLAMP, .linear = true};
    (void)state;
    tx_make(&image, &(tx_shape_t){CU_AD_FORMAT_FLOAT, 1, 16, 8, 0, SURFACE, 0}, 1);
    CUsurfObject surface = surface_of(&image);
    CUtexObject texture = tx_object(&image, &how);
    for (unsigned t = 0; t < 128; t++) {
        float value = (float)(t % 16) + 100 * (float)(t / 16);
        in[t * TX_WORDS] = t % 16 * 4;
        in[t * TX_WORDS + 1] = t / 16;
        memcpy(&in[t * TX_WORDS + 4], &value, 4);
    }
    tx_run("", "sust.b.2d.b32.trap [%t, {%r0, %r1}], {%r4};", surface, in, 128, false, out);
    for (unsigned t = 0; t < 100; t++) {
        float x = (float)(t % 10) + 1, y = (float)(t / 15) + 1; /* halfway between four texels */
        memcpy(&in[t * TX_WORDS], &x, 4);
        memcpy(&in[t * TX_WORDS + 1], &y, 4);
    }
    tx_run("", "tex.2d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%t, {%f0, %f1}];", texture, in, 100, false,
           out);
    for (unsigned t = 0; t < 100; t++) {
        float got;
        memcpy(&got, &out[t * 4], 4);
        assert_true(got == (float)(t % 10) + 0.5f + 100 * ((float)(t / 15) + 0.5f));
    }
    tx_drop(texture);
    PT_CHECK(pt_cuda()->cuSurfObjectDestroy(surface));
    tx_free(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loads),         cmocka_unit_test(test_stores),
        cmocka_unit_test(test_clamped_store), cmocka_unit_test(test_formatted_stores),
        cmocka_unit_test(test_reductions),    cmocka_unit_test(test_questions),
        cmocka_unit_test(test_traps),         cmocka_unit_test(test_write_then_fetch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
