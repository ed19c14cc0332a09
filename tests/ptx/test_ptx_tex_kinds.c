/* The less plain fetches: cube maps, mipmaps, gathers, integer coordinates, linear memory, packed halves,
 * handles that differ, references and samplers of the module, questions, and what faults. */
#include "tests/ptx/tex_help.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 150 };

static float in[COUNT * TX_WORDS];
static uint32_t out[COUNT * 4];

static float as_float(uint32_t w)
{
    float f;
    memcpy(&f, &w, 4);
    return f;
}

static void near(uint32_t got, double want, double tolerance, const char *what, unsigned thread)
{
    if (!(fabs(as_float(got) - want) <= tolerance))
        fail_msg("%s, thread %u: got %g, expected %g", what, thread, as_float(got), want);
}

/* On 1024ths of a texel that are no ties of the weights. */
static float coordinate(uint32_t *seed, unsigned size, int low, int high)
{
    int step = (int)(pt_random(seed) % (unsigned)((high - low) * 256)) + low * 256;
    return (float)(step * 4 + 1) / 1024.0f * (float)size / (float)size;
}

/* ---- cube maps: the guide's table of faces ---- */

typedef struct {
    int major;  /* axis */
    float sign; /* of the major axis */
    int s, t;   /* axes */
    float s_sign, t_sign;
} face_t;

static const face_t faces[6] = {{0, 1, 2, 1, -1, -1}, {0, -1, 2, 1, 1, -1}, {1, 1, 0, 2, 1, 1},
                                {1, -1, 0, 2, 1, -1}, {2, 1, 0, 1, 1, -1},  {2, -1, 0, 1, -1, -1}};

/* A direction that hits the face at s and t in [0, 1], from a distance that is a power of two. */
static void direction(unsigned face, float s, float t, float scale, float *d)
{
    const face_t *f = &faces[face];
    d[f->major] = f->sign * scale;
    d[f->s] = f->s_sign * (2 * s - 1) * scale;
    d[f->t] = f->t_sign * (2 * t - 1) * scale;
}

static void cube(bool layered, bool linear)
{
    enum { N = 16, LAYERS = 3 };
    tx_image_t image;
    tx_how_t how = {.linear = linear, .normalised = true, .address = CU_TR_ADDRESS_MODE_CLAMP};
    unsigned slice[COUNT];
    float at[COUNT][2];
    uint32_t seed = 5;
    tx_make(
        &image,
        &(tx_shape_t){CU_AD_FORMAT_FLOAT, 2, N, N, layered ? 6 * LAYERS : 6, layered ? 5u : 4u, 0},
        21);
    CUtexObject object = tx_object(&image, &how);
    for (unsigned t = 0; t < COUNT; t++) {
        unsigned face = t % 6, layer = layered ? t / 6 % LAYERS : 0;
        at[t][0] = coordinate(&seed, N, 0, N) / N;
        at[t][1] = coordinate(&seed, N, 0, N) / N;
        slice[t] = layer * 6 + face;
        direction(face, at[t][0], at[t][1], t & 1 ? 2.0f : 0.25f, &in[t * TX_WORDS]);
        ((uint32_t *)in)[t * TX_WORDS + 3] = layer;
    }
    tx_run("",
           layered ? "tex.acube.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%t, {%r3, %f0, %f1, %f2}];"
                   : "tex.cube.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%t, {%f0, %f1, %f2, %f2}];",
           object, in, COUNT, false, out);
    for (unsigned t = 0; t < COUNT; t++) {
        tx_value_t want = tx_fetch(&image, &how, 0, 2, at[t], slice[t]);
        near(out[t * 4], want.v[0], 1e-5, "cube", t);
        near(out[t * 4 + 1], want.v[1], 1e-5, "cube", t);
    }
    tx_drop(object);
    tx_free(&image);
}

static void test_cubes(void **state)
{
    (void)state;
    for (unsigned k = 0; k < 4; k++)
        cube(k & 1, k & 2);
}

/* A map whose texels are a smooth function of the direction has no seams where it filters over them;
 * without that flag its edges are a texel flat. */
static void test_seamless(void **state)
{
    enum { N = 8, BYTES = 6 * N * N * 4 };
    CUDA_ARRAY3D_DESCRIPTOR d = {N, N, 6, CU_AD_FORMAT_FLOAT, 1, 4};
    static float texels[6][N][N];
    CUarray array;
    double worst[2] = {0, 0};
    (void)state;
    for (unsigned f = 0; f < 6; f++)
        for (unsigned j = 0; j < N; j++)
            for (unsigned i = 0; i < N; i++) {
                float v[3];
                direction(f, ((float)i + 0.5f) / N, ((float)j + 0.5f) / N, 1, v);
                texels[f][j][i] = v[0] / sqrtf(v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
            }
    PT_CHECK(pt_cuda()->cuArray3DCreate_v2(&array, &d));
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = texels,
                          .srcPitch = N * 4,
                          .srcHeight = N,
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                          .dstArray = array,
                          .WidthInBytes = N * 4,
                          .Height = N,
                          .Depth = 6};
    PT_CHECK(pt_cuda()->cuMemcpy3D_v2(&copy));
    for (unsigned t = 0; t < COUNT; t++) /* just beside the edges, two of three at a corner */
        direction(t % 6, t & 1 ? 0.001f : 0.999f, t % 3 ? 0.001f : (float)t / COUNT, 1,
                  &in[t * TX_WORDS]);
    for (unsigned k = 0; k < 2; k++) {
        CUtexObject object;
        CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
        CUDA_TEXTURE_DESC how = {.addressMode = {1, 1, 1}, .filterMode = 1, .flags = k ? 0x42 : 2};
        resource.res.array.hArray = array;
        PT_CHECK(pt_cuda()->cuTexObjectCreate(&object, &resource, &how, NULL));
        tx_run("", "tex.cube.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%t, {%f0, %f1, %f2, %f2}];", object,
               in, COUNT, false, out);
        for (unsigned t = 0; t < COUNT; t++) {
            const float *v = &in[t * TX_WORDS];
            double want = v[0] / sqrt((double)v[0] * v[0] + v[1] * v[1] + v[2] * v[2]);
            worst[k] = fmax(worst[k], fabs(as_float(out[t * 4]) - want));
        }
        tx_drop(object);
    }
    assert_true(worst[1] < 0.02);
    assert_true(worst[0] > 0.05);
    PT_CHECK(pt_cuda()->cuArrayDestroy(array));
}

/* ---- mipmaps ---- */

static void test_levels(void **state)
{
    static const float levels[] = {0, 0.25f, 0.5f, 0.75f, 1, 1.375f, 2, 3.9f, 7, -1, 100};
    tx_image_t image;
    uint32_t seed = 77;
    (void)state;
    tx_make(&image, &(tx_shape_t){CU_AD_FORMAT_FLOAT, 4, 32, 16, 0, 0, 5}, 8);
    for (unsigned k = 0; k < 8; k++) {
        tx_how_t how = {.linear = k & 1,
                        .mip_linear = k & 2,
                        .normalised = true,
                        .address = CU_TR_ADDRESS_MODE_WRAP,
                        .bias = k & 4 ? 0.5f : 0,
                        .min_level = k & 4 ? 0.75f : 0,
                        .max_level = k & 4 ? 3.0f : 10};
        CUtexObject object = tx_object(&image, &how);
        for (unsigned t = 0; t < COUNT; t++) {
            in[t * TX_WORDS] = coordinate(&seed, 32, -32, 64) / 32;
            in[t * TX_WORDS + 1] = coordinate(&seed, 16, -16, 32) / 16;
            in[t * TX_WORDS + 2] = levels[t % (sizeof levels / sizeof levels[0])];
        }
        tx_run("", "tex.level.2d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%t, {%f0, %f1}], %f2;", object,
               in, COUNT, k == 3, out);
        for (unsigned t = 0; t < COUNT; t++) {
            const float *at = &in[t * TX_WORDS];
            tx_value_t want = tx_fetch_level(&image, &how, at[2], 2, at, 0);
            for (unsigned c = 0; c < 4 && !(k == 3 && t % 3 == 0); c++)
                near(out[t * 4 + c], want.v[c], 1e-5, "level", t);
        }
        /* without a level: the first one that the clamp allows */
        tx_run("", "tex.2d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%t, {%f0, %f1}];", object, in, COUNT,
               false, out);
        how.bias = 0;
        for (unsigned t = 0; t < COUNT; t++) {
            tx_value_t want = tx_fetch_level(&image, &how, 0, 2, &in[t * TX_WORDS], 0);
            near(out[t * 4], want.v[0], 1e-5, "base", t);
        }
        tx_drop(object);
    }
    tx_free(&image);
}

/* Gradients of 2^n texels ask for level n; the longer of the two counts. */
static void test_gradients(void **state)
{
    tx_image_t image;
    uint32_t seed = 78;
    tx_how_t how = {.linear = true, .normalised = true, .max_level = 10};
    (void)state;
    tx_make(&image, &(tx_shape_t){CU_AD_FORMAT_FLOAT, 1, 32, 16, 0, 0, 5}, 8);
    CUtexObject object = tx_object(&image, &how);
    for (unsigned t = 0; t < COUNT; t++) {
        float *at = &in[t * TX_WORDS], length = (float)(1u << t % 5);
        at[0] = coordinate(&seed, 32, 0, 32) / 32;
        at[1] = coordinate(&seed, 16, 0, 16) / 16;
        at[2] = t & 1 ? length / 32 : 0;
        at[3] = t & 1 ? 0 : length / 16;
        at[4] = at[5] = 1.0f / 256;
    }
    tx_run("",
           "tex.grad.2d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%t, {%f0, %f1}], {%f2, %f3}, {%f4, %f5};",
           object, in, COUNT, false, out);
    for (unsigned t = 0; t < COUNT; t++) {
        tx_value_t want = tx_fetch_level(&image, &how, (float)(t % 5), 2, &in[t * TX_WORDS], 0);
        near(out[t * 4], want.v[0], 1e-5, "gradient", t);
    }
    tx_drop(object);
    tx_free(&image);
}

/* ---- gathers: the four texels that a linear filter would blend ---- */

static void test_gather(void **state)
{
    static const char components[] = "rgba";
    tx_image_t image;
    uint32_t seed = 79;
    char text[160];
    (void)state;
    tx_make(&image, &(tx_shape_t){CU_AD_FORMAT_FLOAT, 4, 16, 8, 0, 8, 0}, 9);
    for (unsigned k = 0; k < 8; k++) {
        tx_how_t how = {.linear = k & 1, .normalised = k & 2, .address = (CUaddress_mode)(k >> 1)};
        tx_how_t point = how;
        CUtexObject object = tx_object(&image, &how);
        unsigned c = k % 4;
        point.linear = false;
        for (unsigned t = 0; t < COUNT; t++) {
            in[t * TX_WORDS] = coordinate(&seed, 16, -8, 24) / (how.normalised ? 16 : 1);
            in[t * TX_WORDS + 1] = coordinate(&seed, 8, -4, 12) / (how.normalised ? 8 : 1);
        }
        snprintf(text, sizeof text,
                 "tld4.%c.2d.v4.f32.f32 {%%o0, %%o1, %%o2, %%o3}, [%%t, {%%f0, %%f1}];",
                 components[c]);
        tx_run("", text, object, in, COUNT, false, out);
        for (unsigned t = 0; t < COUNT; t++) {
            /* lower left, lower right, upper right, upper left */
            static const int step[4][2] = {{-1, 1}, {1, 1}, {1, -1}, {-1, -1}};
            for (unsigned n = 0; n < 4; n++) {
                float at[2] = {
                    in[t * TX_WORDS] + (float)step[n][0] * 0.5f / (how.normalised ? 16 : 1),
                    in[t * TX_WORDS + 1] + (float)step[n][1] * 0.5f / (how.normalised ? 8 : 1)};
                tx_value_t want = tx_fetch(&image, &point, 0, 2, at, 0);
                near(out[t * 4 + n], want.v[c], 0, text, t);
            }
        }
        tx_drop(object);
    }
    tx_free(&image);
}

/* ---- integer coordinates, offsets, packed halves ---- */

static void test_integer_coordinates(void **state)
{
    tx_image_t image;
    (void)state;
    tx_make(&image, &(tx_shape_t){CU_AD_FORMAT_SIGNED_INT16, 2, 16, 8, 4, 0, 0}, 10);
    for (unsigned mode = 1; mode < 4; mode += 2) {
        tx_how_t how = {.address = (CUaddress_mode)mode, .as_integer = true, .border = {5, -7}};
        CUtexObject object = tx_object(&image, &how);
        for (unsigned t = 0; t < COUNT; t++) {
            int *at = (int *)&in[t * TX_WORDS];
            at[0] = (int)(t % 20) - 2;
            at[1] = (int)(t / 7 % 12) - 2;
            at[2] = (int)(t / 3 % 6) - 1;
        }
        tx_run("", "tex.3d.v4.s32.s32 {%o0, %o1, %o2, %o3}, [%t, {%r0, %r1, %r2, %r2}];", object,
               in, COUNT, false, out);
        for (unsigned t = 0; t < COUNT; t++) {
            const int *at = (const int *)&in[t * TX_WORDS];
            const long index[3] = {at[0], at[1], at[2]};
            tx_value_t want = tx_texel(&image, &how, 0, index);
            assert_int_equal(out[t * 4], want.w[0]);
            assert_int_equal(out[t * 4 + 1], want.w[1]);
        }
        tx_drop(object);
    }
    tx_free(&image);
}

static void test_offsets(void **state)
{
    tx_image_t image;
    tx_how_t how = {.address = CU_TR_ADDRESS_MODE_CLAMP};
    (void)state;
    tx_make(&image, &(tx_shape_t){CU_AD_FORMAT_FLOAT, 1, 16, 8, 0, 0, 0}, 11);
    CUtexObject object = tx_object(&image, &how);
    for (unsigned t = 0; t < COUNT; t++) {
        in[t * TX_WORDS] = (float)(t % 16) + 0.5f;
        in[t * TX_WORDS + 1] = (float)(t / 16 % 8) + 0.5f;
        ((int *)in)[t * TX_WORDS + 2] = (int)(t % 7) - 3;
        ((int *)in)[t * TX_WORDS + 3] = (int)(t % 5) - 2;
    }
    tx_run("", "tex.2d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%t, {%f0, %f1}], {%r2, %r3};", object, in,
           COUNT, false, out);
    for (unsigned t = 0; t < COUNT; t++) {
        const long at[3] = {(long)(t % 16) + (long)(t % 7) - 3,
                            (long)(t / 16 % 8) + (long)(t % 5) - 2, 0};
        near(out[t * 4], tx_texel(&image, &how, 0, at).v[0], 0, "offset", t);
    }
    tx_drop(object);
    tx_free(&image);
}

static void test_halves(void **state)
{
    tx_image_t image;
    tx_how_t how = {.address = CU_TR_ADDRESS_MODE_CLAMP};
    (void)state;
    tx_make(&image, &(tx_shape_t){CU_AD_FORMAT_HALF, 4, 16, 8, 0, 0, 0}, 12);
    CUtexObject object = tx_object(&image, &how);
    for (unsigned t = 0; t < COUNT; t++) {
        in[t * TX_WORDS] = (float)(t % 16) + 0.5f;
        in[t * TX_WORDS + 1] = (float)(t / 16 % 8) + 0.5f;
    }
    const uint16_t *texels = (const uint16_t *)image.data[0];
    tx_run("", "tex.2d.v2.f16x2.f32 {%o0, %o1}, [%t, {%f0, %f1}];", object, in, COUNT, false, out);
    for (unsigned t = 0; t < COUNT; t++)
        assert_memory_equal(&out[t * 4], texels + (size_t)t % (16 * 8) * 4, 8);
    tx_run(
        "",
        "tex.2d.v4.f16.f32 {%h0, %h1, %h2, %h3}, [%t, {%f0, %f1}];\n"
        "cvt.u32.u16 %o0, %h0; cvt.u32.u16 %o1, %h1; cvt.u32.u16 %o2, %h2; cvt.u32.u16 %o3, %h3;",
        object, in, COUNT, false, out);
    for (unsigned t = 0; t < COUNT; t++)
        for (unsigned c = 0; c < 4; c++)
            assert_int_equal(out[t * 4 + c], texels[t % (16 * 8) * 4 + c]);
    tx_drop(object);
    tx_free(&image);
}

/* ---- memory of the program's ---- */

static CUtexObject over_memory(CUDA_RESOURCE_DESC *resource, unsigned flags, bool linear)
{
    CUtexObject object;
    CUDA_TEXTURE_DESC how = {.addressMode = {1, 1, 1}, .filterMode = linear, .flags = flags};
    PT_CHECK(pt_cuda()->cuTexObjectCreate(&object, resource, &how, NULL));
    return object;
}

static void test_linear_memory(void **state)
{
    enum { N = 100 };
    static const CUarray_format formats[] = {CU_AD_FORMAT_FLOAT, CU_AD_FORMAT_UNSIGNED_INT8,
                                             CU_AD_FORMAT_SIGNED_INT16, CU_AD_FORMAT_SIGNED_INT32};
    uint8_t bytes[N * 16];
    uint32_t seed = 3;
    (void)state;
    for (unsigned i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(pt_random(&seed) >> 5);
    CUdeviceptr memory = pt_upload(bytes, sizeof bytes);
    for (unsigned t = 0; t < COUNT; t++)
        ((int *)in)[t * TX_WORDS] = t == 149 ? INT32_MAX : t == 148 ? INT32_MIN : (int)t - 20;
    for (unsigned k = 0; k < 12; k++) {
        CUarray_format format = formats[k % 4];
        unsigned channels = 1u << k / 4, size = (unsigned)tx_channel_bytes(format);
        CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR};
        resource.res.linear.devPtr = memory;
        resource.res.linear.format = format;
        resource.res.linear.numChannels = channels;
        resource.res.linear.sizeInBytes = (size_t)N * channels * size;
        CUtexObject object = over_memory(&resource, 1, false);
        tx_run("", "tex.1d.v4.s32.s32 {%o0, %o1, %o2, %o3}, [%t, {%r0}];", object, in, COUNT, k & 1,
               out);
        for (unsigned t = 0; t < COUNT; t++) {
            int i = ((int *)in)[t * TX_WORDS];
            for (unsigned c = 0; c < channels && !((k & 1) && t % 3 == 0); c++) {
                int32_t want = 0;
                if (i >= 0 && i < N) { /* outside: 0 */
                    memcpy(&want, bytes + ((size_t)i * channels + c) * size, size);
                    want = format == CU_AD_FORMAT_SIGNED_INT16 ? (int16_t)want : want;
                }
                assert_int_equal((int32_t)out[t * 4 + c], want);
            }
        }
        tx_drop(object);
    }
    pt_free(memory);
}

static void test_pitched_memory(void **state)
{
    enum { W = 20, H = 7, PITCH = 96 };
    static float texels[H][PITCH / 4];
    uint32_t seed = 4;
    (void)state;
    for (unsigned y = 0; y < H; y++)
        for (unsigned x = 0; x < PITCH / 4; x++)
            texels[y][x] = x < W ? (float)(pt_random(&seed) % 1000) : NAN;
    CUdeviceptr memory = pt_upload(texels, sizeof texels);
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_PITCH2D};
    resource.res.pitch2D.devPtr = memory;
    resource.res.pitch2D.format = CU_AD_FORMAT_FLOAT;
    resource.res.pitch2D.numChannels = 1;
    resource.res.pitch2D.width = W;
    resource.res.pitch2D.height = H;
    resource.res.pitch2D.pitchInBytes = PITCH;
    CUtexObject object = over_memory(&resource, 0, true);
    for (unsigned t = 0; t < COUNT; t++) {
        in[t * TX_WORDS] = coordinate(&seed, W, -3, W + 3);
        in[t * TX_WORDS + 1] = coordinate(&seed, H, -3, H + 3);
    }
    tx_run("", "tex.2d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%t, {%f0, %f1}];", object, in, COUNT,
           false, out);
    for (unsigned t = 0; t < COUNT; t++) {
        double x = in[t * TX_WORDS] - 0.5, y = in[t * TX_WORDS + 1] - 0.5, sum = 0;
        double a = round((x - floor(x)) * 256) / 256, b = round((y - floor(y)) * 256) / 256;
        for (int k = 0; k < 4; k++) {
            int i = (int)floor(x) + (k & 1), j = (int)floor(y) + (k >> 1);
            i = i < 0 ? 0 : i >= W ? W - 1 : i;
            j = j < 0 ? 0 : j >= H ? H - 1 : j;
            sum += (k & 1 ? a : 1 - a) * (k >> 1 ? b : 1 - b) * texels[j][i];
        }
        near(out[t * 4], sum, 1e-3, "pitch", t);
    }
    tx_drop(object);
    pt_free(memory);
}

/* ---- handles ---- */

static void test_handles_that_differ(void **state)
{
    tx_image_t images[3];
    CUtexObject objects[3];
    tx_how_t how = {.address = CU_TR_ADDRESS_MODE_CLAMP};
    (void)state;
    for (unsigned k = 0; k < 3; k++) {
        tx_make(&images[k], &(tx_shape_t){CU_AD_FORMAT_FLOAT, 1, 32, 0, 0, 0, 0}, 40 + k);
        objects[k] = tx_object(&images[k], &how);
    }
    for (unsigned t = 0; t < COUNT; t++) {
        memcpy(&in[t * TX_WORDS], &objects[t * 7 % 3], 8);
        in[t * TX_WORDS + 2] = (float)(t % 32);
    }
    tx_run("", "mov.b64 %a3, {%r0, %r1}; tex.1d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%a3, {%f2}];", 0,
           in, COUNT, true, out);
    for (unsigned t = 0; t < COUNT; t++)
        if (t % 3)
            near(out[t * 4], ((float *)images[t * 7 % 3].data[0])[t % 32], 0, "handle", t);
    for (unsigned k = 0; k < 3; k++) {
        tx_drop(objects[k]);
        tx_free(&images[k]);
    }
}

static void test_questions(void **state)
{
    static const struct {
        const char *text;
        uint32_t want;
    } questions[] = {{"txq.width.b32 %o0, [%t];", 32},
                     {"txq.height.b32 %o0, [%t];", 16},
                     {"txq.array_size.b32 %o0, [%t];", 5},
                     {"txq.channel_data_type.b32 %o0, [%t];", 0x10d3}, /* UNORM_INT16 */
                     {"txq.channel_order.b32 %o0, [%t];", 0x10b2},     /* RG */
                     {"txq.normalized_coords.b32 %o0, [%t];", 1},
                     {"txq.num_mipmap_levels.b32 %o0, [%t];", 1},
                     {"txq.filter_mode.b32 %o0, [%t];", 1},
                     {"txq.addr_mode_0.b32 %o0, [%t];", 1}, /* mirror */
                     {"txq.level.width.b32 %o0, [%t], 0;", 32},
                     {"istypep.texref %p5, %t; selp.b32 %o0, 1, 0, %p5;", 1},
                     {"istypep.surfref %p5, %t; selp.b32 %o0, 1, 0, %p5;", 0}};
    tx_image_t image;
    tx_how_t how = {.linear = true, .normalised = true, .address = CU_TR_ADDRESS_MODE_MIRROR};
    (void)state;
    tx_make(&image, &(tx_shape_t){CU_AD_FORMAT_UNSIGNED_INT16, 2, 32, 16, 5, 1, 0}, 50);
    CUtexObject object = tx_object(&image, &how);
    for (unsigned k = 0; k < sizeof questions / sizeof questions[0]; k++) {
        tx_run("", questions[k].text, object, in, COUNT, k & 1, out);
        for (unsigned t = 0; t < COUNT; t++)
            if (!(k & 1 && t % 3 == 0) && out[t * 4] != questions[k].want)
                fail_msg("%s gives 0x%x, expected 0x%x", questions[k].text, out[t * 4],
                         questions[k].want);
    }
    tx_drop(object);
    tx_free(&image);
}

/* The arrays went with their context. */
static void forget_texels(tx_image_t *image)
{
    for (unsigned l = 0; l < TX_LEVELS; l++)
        free(image->data[l]);
}

static void test_wild_handles(void **state)
{
    static const char fetch[] = "tex.1d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%t, {%f0}];";
    static const char load[] = "suld.b.1d.b32.zero %o0, [%t, {%r0}];";
    tx_image_t image;
    tx_how_t how = {.address = CU_TR_ADDRESS_MODE_CLAMP};
    uint64_t wild[5] = {0, 1, 0xdeadbeefcafe, UINT64_MAX, 0};
    (void)state;
    tx_make(&image, &(tx_shape_t){CU_AD_FORMAT_FLOAT, 1, 32, 0, 0, 0, 0}, 1);
    wild[4] = tx_object(&image, &how);
    tx_run("", fetch, wild[4], in, COUNT, false, out);
    tx_drop(wild[4]); /* gone */
    for (unsigned k = 0; k < 5; k++) {
        assert_int_equal(tx_try("", fetch, wild[k], in, COUNT, false, out),
                         CUDA_ERROR_ILLEGAL_ADDRESS);
        pt_new_context();
        tx_forget();
        assert_int_equal(tx_try("", load, wild[k], in, COUNT, false, out),
                         CUDA_ERROR_ILLEGAL_ADDRESS);
        pt_new_context();
        tx_forget();
    }
    forget_texels(&image);
    tx_make(&image, &(tx_shape_t){CU_AD_FORMAT_FLOAT, 1, 32, 0, 0, 0, 0}, 1);
    CUtexObject object = tx_object(&image, &how); /* a texture is no surface */
    assert_int_equal(tx_try("", load, object, in, COUNT, false, out), CUDA_ERROR_ILLEGAL_ADDRESS);
    pt_new_context();
    tx_forget();
    forget_texels(&image);
}

/* What is not covered is refused with its line. */
static void test_refused(void **state)
{
    static const char *const lines[] = {
        "tex.2dms.v4.f32.s32 {%o0, %o1, %o2, %o3}, [%t, {%r0, %r1, %r2, %r3}];",
        "tex.2d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%t, {%f0, %f1}], {%r0, %r1}, %f3;",
        "txq.num_fish.b32 %o0, [%t];", "tld4.r.1d.v4.f32.f32 {%o0, %o1, %o2, %o3}, [%t, {%f0}];"};
    (void)state;
    for (unsigned k = 0; k < sizeof lines / sizeof lines[0]; k++) {
        char text[512], log[1024];
        snprintf(
            text, sizeof text,
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 a)\n{\n"
            ".reg .b32 %%o<4>; .reg .b32 %%r<4>; .reg .f32 %%f<4>; .reg .b64 %%t;\n"
            "ld.param.u64 %%t, [a];\n%s\nret;\n}\n",
            lines[k]);
        assert_null(pt_try_load(text, log, sizeof log));
        assert_non_null(strstr(log, "8"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cubes),
        cmocka_unit_test(test_seamless),
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_integer_coordinates),
        cmocka_unit_test(test_offsets),
        cmocka_unit_test(test_halves),
        cmocka_unit_test(test_linear_memory),
        cmocka_unit_test(test_pitched_memory),
        cmocka_unit_test(test_handles_that_differ),
        cmocka_unit_test(test_questions),
        cmocka_unit_test(test_wild_handles),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
