/* Texels: from memory to words and back. */
#include "gpu-proxy/cpu/jit/texture.h"

#include <math.h>
#include <string.h>

static uint32_t bits_of(float f)
{
    uint32_t w;
    memcpy(&w, &f, 4);
    return w;
}

static float float_of(uint32_t w)
{
    float f;
    memcpy(&f, &w, 4);
    return f;
}

float cpu_half_to_float(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31;
    uint32_t fraction = half & 1023;
    if (exponent == 31) {
        return float_of(sign | 0x7f800000 | fraction << 13);
    }
    if (exponent == 0) { /* zero or subnormal: exact in f32 */
        float v = (float)fraction * 0x1p-24f;
        return sign != 0 ? -v : v;
    }
    return float_of(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t cpu_float_to_half(float value)
{
    uint32_t w = bits_of(value), sign = w >> 16 & 0x8000;
    float a = fabsf(value);
    if (isnan(value)) {
        return 0x7fff;
    }
    if (a >= 65520.0f) {
        return (uint16_t)(sign | 0x7c00);
    }
    if (a < 0x1p-14f) { /* units of 2^-24; the sum rounds to nearest even */
        return (uint16_t)(sign | (bits_of(a + 0.5f) - bits_of(0.5f)));
    }
    w = (w & 0x7fffffff) - (112u << 23);
    w += 0xfff + (w >> 13 & 1);
    return (uint16_t)(sign | w >> 13);
}

/* A colour as it is stored, to linear light. */
static float srgb_to_linear(float c)
{
    return c <= 0.04045f ? c / 12.92f : powf((c + 0.055f) / 1.055f, 2.4f);
}

static float snorm(int32_t v, float most)
{
    float f = (float)v / most;
    return f < -1.0f ? -1.0f : f;
}

static uint32_t read_channel(unsigned texel, bool to_float, const uint8_t *at)
{
    uint16_t h;
    uint32_t w;
    switch (texel) {
    case CPU_TEXEL_U8:
        return to_float ? bits_of((float)*at / 255.0f) : *at;
    case CPU_TEXEL_S8:
        return to_float ? bits_of(snorm((int8_t)*at, 127.0f)) : (uint32_t)(int32_t)(int8_t)*at;
    case CPU_TEXEL_U16:
        memcpy(&h, at, 2);
        return to_float ? bits_of((float)h / 65535.0f) : h;
    case CPU_TEXEL_S16:
        memcpy(&h, at, 2);
        return to_float ? bits_of(snorm((int16_t)h, 32767.0f)) : (uint32_t)(int32_t)(int16_t)h;
    case CPU_TEXEL_F16:
        memcpy(&h, at, 2);
        return bits_of(cpu_half_to_float(h));
    default:
        memcpy(&w, at, 4);
        return w;
    }
}

void cpu_texel_read(const cpu_tex_image_t *image, const cpu_tex_sampler_t *sampler,
                    const uint8_t *at, uint32_t out[4])
{
    unsigned step = image->bytes / image->channels;
    memset(out, 0, 4 * sizeof out[0]);
    for (unsigned c = 0; c < image->channels; c++) {
        out[c] = read_channel(image->texel, sampler->to_float, at + c * step);
        if (sampler->srgb && c < 3) {
            out[c] = bits_of(srgb_to_linear(float_of(out[c])));
        }
    }
}

float cpu_texel_scale(const cpu_tex_image_t *image, const cpu_tex_sampler_t *sampler)
{
    static const float scales[] = {[CPU_TEXEL_U8] = 255.0f,
                                   [CPU_TEXEL_U16] = 65535.0f,
                                   [CPU_TEXEL_S8] = 127.0f,
                                   [CPU_TEXEL_S16] = 32767.0f,
                                   [CPU_TEXEL_F32] = 1.0f};
    return sampler->to_float && !sampler->srgb ? scales[image->texel] : 1.0f;
}

void cpu_texel_raw(const cpu_tex_image_t *image, const cpu_tex_sampler_t *sampler,
                   const uint8_t *at, float out[4])
{
    float scale = cpu_texel_scale(image, sampler);
    cpu_tex_sampler_t plain = {.to_float = sampler->to_float && scale == 1.0f,
                               .srgb = sampler->srgb};
    bool is_signed = image->texel == CPU_TEXEL_S8 || image->texel == CPU_TEXEL_S16;
    uint32_t words[4];
    cpu_texel_read(image, &plain, at, words);
    for (unsigned c = 0; c < 4; c++) {
        if (scale == 1.0f) {
            out[c] = float_of(words[c]);
        } else { /* the lowest signed number stands for -1 like the one above it */
            out[c] = is_signed ? fmaxf((float)(int32_t)words[c], -scale) : (float)words[c];
        }
    }
}

/* An integer or float word to an integer of the texel, saturated. Floats go to [0, 1] or [-1, 1]. */
static int64_t saturate(uint32_t word, bool is_float, bool is_signed, int64_t low, int64_t high)
{
    if (is_float) {
        float f = float_of(word), least = is_signed ? -1.0f : 0.0f;
        f = f >= least ? (f <= 1.0f ? f : 1.0f) : least; /* NaN: the least */
        return llrint((double)f * (double)high);
    }
    int64_t v = is_signed ? (int64_t)(int32_t)word : (int64_t)word;
    return v < low ? low : v > high ? high : v;
}

static void write_channel(unsigned texel, uint32_t word, bool is_float, uint8_t *at)
{
    static const struct {
        int64_t low, high;
        bool is_signed;
    } ranges[] = {
        [CPU_TEXEL_U8] = {0, 255, false},         [CPU_TEXEL_U16] = {0, 65535, false},
        [CPU_TEXEL_U32] = {0, UINT32_MAX, false}, [CPU_TEXEL_S8] = {-128, 127, true},
        [CPU_TEXEL_S16] = {-32768, 32767, true},  [CPU_TEXEL_S32] = {INT32_MIN, INT32_MAX, true},
    };
    uint16_t h;
    int64_t v;
    switch (texel) {
    case CPU_TEXEL_F32:
        memcpy(at, &word, 4);
        return;
    case CPU_TEXEL_F16:
        h = cpu_float_to_half(float_of(word));
        memcpy(at, &h, 2);
        return;
    default:
        v = saturate(word, is_float, ranges[texel].is_signed, ranges[texel].low,
                     ranges[texel].high);
        memcpy(at, &v,
               texel == CPU_TEXEL_U8 || texel == CPU_TEXEL_S8     ? 1
               : texel == CPU_TEXEL_U16 || texel == CPU_TEXEL_S16 ? 2
                                                                  : 4);
    }
}

void cpu_texel_write(const cpu_tex_image_t *image, const uint32_t in[4], bool is_float, uint8_t *at)
{
    unsigned step = image->bytes / image->channels;
    for (unsigned c = 0; c < image->channels; c++) {
        write_channel(image->texel, in[c], is_float, at + c * step);
    }
}
