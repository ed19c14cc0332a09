#include "tests/ptx/tex_help.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t tx_channel_bytes(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    default:
        return 4;
    }
}

bool tx_is_float(const tx_image_t *image, const tx_how_t *how)
{
    CUarray_format f = image->shape.format;
    return f == CU_AD_FORMAT_FLOAT || f == CU_AD_FORMAT_HALF ||
           (tx_channel_bytes(f) < 4 && !how->as_integer);
}

void tx_size(const tx_image_t *image, unsigned level, unsigned size[3])
{
    const tx_shape_t *s = &image->shape;
    bool volume = s->depth && !(s->flags & 5);
    size[0] = s->width >> level ? s->width >> level : 1;
    size[1] = s->height >> level ? s->height >> level : 1;
    size[2] = !s->depth ? 1 : !volume ? s->depth : s->depth >> level ? s->depth >> level : 1;
}

static void fill(tx_image_t *image, uint8_t *to, size_t bytes, uint32_t *state)
{
    if (image->shape.format == CU_AD_FORMAT_FLOAT) {
        for (size_t i = 0; i < bytes / 4; i++)
            ((float *)to)[i] = (float)(int)(pt_random(state) % 4001) / 1000.0f - 2.0f;
    } else if (image->shape.format == CU_AD_FORMAT_HALF) { /* finite ones of either sign */
        for (size_t i = 0; i < bytes / 2; i++)
            ((uint16_t *)to)[i] =
                (uint16_t)(pt_random(state) % 0x4400 | (pt_random(state) & 0x8000));
    } else {
        for (size_t i = 0; i < bytes; i++)
            to[i] = (uint8_t)(pt_random(state) >> 7);
    }
}

static void upload(const tx_image_t *image, unsigned level, CUarray array)
{
    unsigned size[3];
    tx_size(image, level, size);
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = image->data[level],
                          .srcPitch = size[0] * image->texel,
                          .srcHeight = size[1],
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                          .dstArray = array,
                          .WidthInBytes = size[0] * image->texel,
                          .Height = size[1],
                          .Depth = size[2]};
    PT_CHECK(pt_cuda()->cuMemcpy3D_v2(&copy));
}

void tx_make(tx_image_t *image, const tx_shape_t *shape, uint32_t seed)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {shape->width,  shape->height,   shape->depth,
                                 shape->format, shape->channels, shape->flags};
    unsigned levels = shape->levels ? shape->levels : 1;
    memset(image, 0, sizeof *image);
    image->shape = *shape;
    image->texel = tx_channel_bytes(shape->format) * shape->channels;
    if (shape->levels)
        PT_CHECK(pt_cuda()->cuMipmappedArrayCreate(&image->mipmap, &d, levels));
    else
        PT_CHECK(pt_cuda()->cuArray3DCreate_v2(&image->array, &d));
    for (unsigned l = 0; l < levels; l++) {
        unsigned size[3];
        CUarray array = image->array;
        tx_size(image, l, size);
        size_t bytes = (size_t)size[0] * size[1] * size[2] * image->texel;
        image->data[l] = malloc(bytes);
        fill(image, image->data[l], bytes, &seed);
        if (shape->levels)
            PT_CHECK(pt_cuda()->cuMipmappedArrayGetLevel(&array, image->mipmap, l));
        upload(image, l, array);
    }
}

void tx_free(tx_image_t *image)
{
    if (image->mipmap)
        PT_CHECK(pt_cuda()->cuMipmappedArrayDestroy(image->mipmap));
    else
        PT_CHECK(pt_cuda()->cuArrayDestroy(image->array));
    for (unsigned l = 0; l < TX_LEVELS; l++)
        free(image->data[l]);
}

CUtexObject tx_object(const tx_image_t *image, const tx_how_t *how)
{
    CUtexObject object;
    CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY};
    CUDA_TEXTURE_DESC d = {
        .addressMode = {how->address, how->address, how->address},
        .filterMode = how->linear ? CU_TR_FILTER_MODE_LINEAR : CU_TR_FILTER_MODE_POINT,
        .mipmapFilterMode = how->mip_linear ? CU_TR_FILTER_MODE_LINEAR : CU_TR_FILTER_MODE_POINT,
        .mipmapLevelBias = how->bias,
        .minMipmapLevelClamp = how->min_level,
        .maxMipmapLevelClamp = how->max_level};
    d.flags = (how->as_integer ? 1u : 0) | (how->normalised ? 2u : 0) | (how->srgb ? 0x10u : 0) |
              (how->seamless ? 0x40u : 0);
    memcpy(d.borderColor, how->border, sizeof d.borderColor);
    if (image->mipmap) {
        resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
        resource.res.mipmap.hMipmappedArray = image->mipmap;
    } else {
        resource.res.array.hArray = image->array;
    }
    PT_CHECK(pt_cuda()->cuTexObjectCreate(&object, &resource, &d, NULL));
    return object;
}

void tx_drop(CUtexObject object)
{
    PT_CHECK(pt_cuda()->cuTexObjectDestroy(object));
}

/* ---- the reference ---- */

static double half_value(uint16_t h)
{
    int exponent = h >> 10 & 31, fraction = h & 1023;
    double v = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
    return h & 0x8000 ? -v : v;
}

static double srgb(double c)
{
    return c <= 0.04045 ? c / 12.92 : pow((c + 0.055) / 1.055, 2.4);
}

static void read_channel(const tx_image_t *image, const uint8_t *at, double *v, uint32_t *w)
{
    int16_t s;
    uint16_t u;
    float f;
    memcpy(&u, at, tx_channel_bytes(image->shape.format) == 1 ? 1 : 2);
    memcpy(&s, at, tx_channel_bytes(image->shape.format) == 1 ? 1 : 2);
    switch (image->shape.format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
        *v = *at / 255.0;
        *w = *at;
        break;
    case CU_AD_FORMAT_SIGNED_INT8:
        *v = fmax((int8_t)*at / 127.0, -1);
        *w = (uint32_t)(int8_t)*at;
        break;
    case CU_AD_FORMAT_UNSIGNED_INT16:
        *v = u / 65535.0;
        *w = u;
        break;
    case CU_AD_FORMAT_SIGNED_INT16:
        *v = fmax(s / 32767.0, -1);
        *w = (uint32_t)s;
        break;
    case CU_AD_FORMAT_HALF:
        *v = half_value(u);
        break;
    case CU_AD_FORMAT_FLOAT:
        memcpy(&f, at, 4);
        *v = f;
        break;
    default:
        memcpy(w, at, 4);
    }
}

/* An index brought into [0, n) as the mode says; false: border. */
static bool bring_in(long *i, long n, CUaddress_mode mode)
{
    if (*i >= 0 && *i < n)
        return true;
    switch (mode) {
    case CU_TR_ADDRESS_MODE_WRAP:
        *i = (*i % n + n) % n;
        return true;
    case CU_TR_ADDRESS_MODE_MIRROR:
        *i = (*i % (2 * n) + 2 * n) % (2 * n);
        *i = *i < n ? *i : 2 * n - 1 - *i;
        return true;
    case CU_TR_ADDRESS_MODE_CLAMP:
        *i = *i < 0 ? 0 : n - 1;
        return true;
    default:
        return false;
    }
}

/* Wrap and mirror need normalised coordinates. */
static CUaddress_mode mode_of(const tx_how_t *how)
{
    return !how->normalised && how->address != CU_TR_ADDRESS_MODE_BORDER ? CU_TR_ADDRESS_MODE_CLAMP
                                                                         : how->address;
}

tx_value_t tx_texel(const tx_image_t *image, const tx_how_t *how, unsigned level, const long at[3])
{
    tx_value_t r = {{0}, {0}};
    unsigned size[3];
    long i[3] = {at[0], at[1], at[2]};
    bool inside = true;
    tx_size(image, level, size);
    for (int d = 0; d < 3; d++)
        inside &= bring_in(&i[d], size[d], mode_of(how));
    for (unsigned c = 0; c < image->shape.channels; c++) {
        if (!inside) {
            r.v[c] = how->border[c];
            r.w[c] = (uint32_t)(int32_t)how->border[c];
            continue;
        }
        size_t n = ((size_t)i[2] * size[1] + (size_t)i[1]) * size[0] + (size_t)i[0];
        read_channel(image,
                     image->data[level] + n * image->texel +
                         c * tx_channel_bytes(image->shape.format),
                     &r.v[c], &r.w[c]);
        if (how->srgb && c < 3)
            r.v[c] = srgb(r.v[c]);
    }
    return r;
}

/* A coordinate in texels, by the guide's words. */
static double in_texels(float x, unsigned n, const tx_how_t *how)
{
    if (!how->normalised)
        return x;
    float whole = floorf(x), part = x - whole;
    if (how->address == CU_TR_ADDRESS_MODE_WRAP)
        x = part;
    else if (how->address == CU_TR_ADDRESS_MODE_MIRROR)
        x = fmodf(whole, 2) != 0 ? 1 - part : part;
    return x * (float)n;
}

tx_value_t tx_fetch(const tx_image_t *image, const tx_how_t *how, unsigned level, unsigned dims,
                    const float *at, unsigned slice)
{
    unsigned size[3];
    long first[3] = {0, 0, slice};
    double weight[3] = {0, 0, 0};
    tx_value_t sum = {{0}, {0}};
    tx_size(image, level, size);
    for (unsigned d = 0; d < dims; d++) {
        double x = in_texels(at[d], size[d], how) - (how->linear ? 0.5 : 0);
        first[d] = (long)floor(x);
        weight[d] = round((x - floor(x)) * 256) / 256; /* 8 bits behind the point */
    }
    if (!how->linear)
        return tx_texel(image, how, level, first);
    for (unsigned k = 0; k < 1u << dims; k++) {
        long i[3];
        double w = 1;
        for (unsigned d = 0; d < 3; d++) {
            unsigned second = d < dims ? k >> d & 1 : 0;
            i[d] = first[d] + (long)second;
            w *= d >= dims ? 1 : second ? weight[d] : 1 - weight[d];
        }
        tx_value_t t = tx_texel(image, how, level, i);
        for (int c = 0; c < 4; c++)
            sum.v[c] += w * t.v[c];
    }
    return sum;
}

tx_value_t tx_fetch_level(const tx_image_t *image, const tx_how_t *how, float level, unsigned dims,
                          const float *at, unsigned slice)
{
    double l = fmin(fmax(level + how->bias, how->min_level), how->max_level);
    l = fmin(fmax(l, 0), image->shape.levels - 1);
    if (!how->mip_linear)
        return tx_fetch(image, how, (unsigned)floor(l + 0.5), dims, at, slice);
    unsigned low = (unsigned)l;
    double w = round((l - low) * 256) / 256;
    tx_value_t r = tx_fetch(image, how, low, dims, at, slice);
    if (w > 0) {
        tx_value_t s = tx_fetch(image, how, low + 1, dims, at, slice);
        for (int c = 0; c < 4; c++)
            r.v[c] = (1 - w) * r.v[c] + w * s.v[c];
    }
    return r;
}

/* ---- running ---- */

static const char frame[] =
    ".version 8.0\n.target sm_80\n.address_size 64\n%s"
    ".visible .entry k(.param .u64 tex, .param .u64 in, .param .u64 out, .param .u32 count,\n"
    "                  .param .u32 part)\n{\n"
    ".reg .pred %%p<8>; .reg .b16 %%h<9>; .reg .b32 %%o<9>; .reg .f32 %%f<9>;\n"
    ".reg .b32 %%r<20>; .reg .b64 %%a<9>; .reg .b64 %%t; .reg .f32 %%e<4>;\n"
    "mov.u32 %%r10, %%ctaid.x; mov.u32 %%r11, %%ntid.x; mov.u32 %%r12, %%tid.x;\n"
    "mad.lo.u32 %%r13, %%r10, %%r11, %%r12; ld.param.u32 %%r14, [count];\n"
    "setp.ge.u32 %%p1, %%r13, %%r14; @%%p1 bra END;\n"
    "ld.param.u64 %%t, [tex]; ld.param.u64 %%a1, [in]; ld.param.u64 %%a2, [out];\n"
    "cvta.to.global.u64 %%a1, %%a1; cvta.to.global.u64 %%a2, %%a2;\n"
    "mad.wide.u32 %%a1, %%r13, 32, %%a1; mad.wide.u32 %%a2, %%r13, 16, %%a2;\n"
    "ld.global.v4.b32 {%%r0, %%r1, %%r2, %%r3}, [%%a1];\n"
    "ld.global.v4.b32 {%%r4, %%r5, %%r6, %%r7}, [%%a1+16];\n"
    "mov.b32 %%f0, %%r0; mov.b32 %%f1, %%r1; mov.b32 %%f2, %%r2; mov.b32 %%f3, %%r3;\n"
    "mov.b32 %%f4, %%r4; mov.b32 %%f5, %%r5; mov.b32 %%f6, %%r6; mov.b32 %%f7, %%r7;\n"
    "mov.b32 %%o0, -1; mov.b32 %%o1, -1; mov.b32 %%o2, -1; mov.b32 %%o3, -1;\n"
    "ld.param.u32 %%r15, [part]; rem.u32 %%r16, %%r13, 3; setp.eq.u32 %%p2, %%r16, %%r15;\n"
    "@%%p2 bra STORE;\n"
    "%s\n"
    "STORE: st.global.v4.b32 [%%a2], {%%o0, %%o1, %%o2, %%o3};\n"
    "END: ret;\n}\n";

/* Kernels that ran before, so that each is compiled once. */
static struct {
    char *text;
    CUmodule module;
} kept[12];
static unsigned kept_next;

void tx_forget(void)
{
    for (unsigned i = 0; i < sizeof kept / sizeof kept[0]; i++) {
        free(kept[i].text);
        kept[i].text = NULL;
    }
}

static CUmodule module_of(const char *text)
{
    for (unsigned i = 0; i < sizeof kept / sizeof kept[0]; i++)
        if (kept[i].text && strcmp(kept[i].text, text) == 0)
            return kept[i].module;
    unsigned n = kept_next++ % (sizeof kept / sizeof kept[0]);
    if (kept[n].text)
        pt_unload(kept[n].module);
    free(kept[n].text);
    kept[n].text = strdup(text);
    kept[n].module = pt_load(text);
    return kept[n].module;
}

CUresult tx_try(const char *declarations, const char *instruction, uint64_t handle, const void *in,
                unsigned count, bool part, uint32_t *out)
{
    static char text[16384];
    unsigned which = part ? 0 : 7;
    snprintf(text, sizeof text, frame, declarations, instruction);
    CUdeviceptr source = pt_upload(in, (size_t)count * TX_WORDS * 4);
    CUdeviceptr target = pt_upload(NULL, (size_t)count * 16);
    void *params[] = {&handle, &source, &target, &count, &which};
    CUresult result = pt_run(pt_function(module_of(text), "k"), (pt_dim_t){(count + 63) / 64, 1, 1},
                             (pt_dim_t){64, 1, 1}, 0, params);
    if (result != CUDA_SUCCESS)
        return result;
    pt_download(out, target, (size_t)count * 16);
    pt_free(source);
    pt_free(target);
    return result;
}

void tx_run(const char *declarations, const char *instruction, uint64_t handle, const void *in,
            unsigned count, bool part, uint32_t *out)
{
    PT_CHECK(tx_try(declarations, instruction, handle, in, count, part, out));
}
