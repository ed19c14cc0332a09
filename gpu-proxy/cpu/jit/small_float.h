/* small_float.h - f16, bf16, e4m3 and e5m2 as bits, to and from f32. No LLVM.
 *
 * Conversions to f32 are exact. Those from f32 round to nearest even; a NaN becomes PTX's canonical
 * one (0x7fff). The result of one addition or multiplication of two f16 (bf16) in f32, rounded so, is
 * the correctly rounded result: f32 has more than twice their digits. */
#ifndef CPU_SMALL_FLOAT_H
#define CPU_SMALL_FLOAT_H

#include <stdint.h>
#include <string.h>

static inline float cpu_float_of_bits(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static inline uint32_t cpu_bits_of_float(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits;
}

static inline float cpu_from_f16(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 0x3ff;
    if (e == 31) {
        return cpu_float_of_bits(sign | 0x7f800000 | m << 13);
    }
    if (e == 0) { /* subnormal: m * 2^-24 */
        float f = (float)m * 0x1p-24f;
        return sign != 0 ? -f : f;
    }
    return cpu_float_of_bits(sign | (e + 112) << 23 | m << 13);
}

static inline uint16_t cpu_to_f16(float f)
{
    uint32_t bits = cpu_bits_of_float(f), magnitude = bits & 0x7fffffff;
    uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    if (magnitude > 0x7f800000) {
        return 0x7fff;
    }
    if (magnitude >= 0x477ff000) { /* 65520 and above */
        return sign | 0x7c00;
    }
    if (magnitude < 0x38800000) { /* below 2^-14: the sum has the result in its low digits */
        float aligned = cpu_float_of_bits(magnitude) + 0.5f;
        return (uint16_t)(sign | (cpu_bits_of_float(aligned) - 0x3f000000));
    }
    uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (rounded - 0x38000000) >> 13);
}

static inline float cpu_from_bf16(uint16_t h)
{
    return cpu_float_of_bits((uint32_t)h << 16);
}

static inline uint16_t cpu_to_bf16(float f)
{
    uint32_t bits = cpu_bits_of_float(f);
    if ((bits & 0x7fffffff) > 0x7f800000) {
        return 0x7fff;
    }
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* 1 sign, 4 exponent, 3 mantissa bits; no infinities, NaN is s1111111. */
static inline float cpu_from_e4m3(uint8_t v)
{
    uint32_t sign = (uint32_t)(v & 0x80) << 24, e = v >> 3 & 15, m = v & 7;
    if ((v & 0x7f) == 0x7f) {
        return cpu_float_of_bits(0x7fffffff);
    }
    if (e == 0) { /* m * 2^-9 */
        float f = (float)m * 0x1p-9f;
        return sign != 0 ? -f : f;
    }
    return cpu_float_of_bits(sign | (e + 120) << 23 | m << 20);
}

/* The upper half of an f16. */
static inline float cpu_from_e5m2(uint8_t v)
{
    return cpu_from_f16((uint16_t)(v << 8));
}

#endif
