/* tex_lanes.h - vectors of CPU_TEX_LANES lanes for tex_fast.c: 8 with AVX2, 16 with AVX-512. */
#ifndef CPU_TEX_LANES_H
#define CPU_TEX_LANES_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

enum { LANES = CPU_TEX_LANES };

typedef float vf __attribute__((vector_size(LANES * 4)));
typedef int32_t vi __attribute__((vector_size(LANES * 4)));
typedef uint32_t vu __attribute__((vector_size(LANES * 4)));

static inline vf vf_all(float x)
{
    return x - (vf){0};
}

static inline vi vi_all(int32_t x)
{
    return x - (vi){0};
}

static inline vi vi_load(const uint32_t *p)
{
    vi v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void vi_store(uint32_t *p, vi v)
{
    memcpy(p, &v, sizeof v);
}

/* Comparisons give all ones or zeros. */
static inline vi vi_select(vi c, vi x, vi y)
{
    return (x & c) | (y & ~c);
}

static inline vf vf_select(vi c, vf x, vf y)
{
    return (vf)vi_select(c, (vi)x, (vi)y);
}

#if CPU_TEX_LANES == 16

static inline vf vf_floor(vf x)
{
    return (vf)_mm512_roundscale_ps((__m512)x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
}

static inline vf vf_fma(vf a, vf b, vf c)
{
    return (vf)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}

static inline vi vi_of(vf x)
{
    return (vi)_mm512_cvttps_epi32((__m512)x);
}

static inline vf vf_of(vi x)
{
    return (vf)_mm512_cvtepi32_ps((__m512i)x);
}

static inline vi vi_min(vi a, vi b)
{
    return (vi)_mm512_min_epi32((__m512i)a, (__m512i)b);
}

static inline vi vi_max(vi a, vi b)
{
    return (vi)_mm512_max_epi32((__m512i)a, (__m512i)b);
}

static inline bool vi_same(vi a, vi b)
{
    return _mm512_cmpneq_epi32_mask((__m512i)a, (__m512i)b) == 0;
}

/* The 32-bit words at these byte offsets. */
static inline vi gather(const uint8_t *base, vi offset)
{
    return (vi)_mm512_i32gather_epi32((__m512i)offset, base, 1);
}

/* The word at each offset and the one behind it. */
static inline void gather_pairs(const uint8_t *base, vi offset, vi out[2])
{
    const __m512i even =
        _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
    __m512i low = _mm512_i32gather_epi64(_mm512_castsi512_si256((__m512i)offset), base, 1);
    __m512i high = _mm512_i32gather_epi64(_mm512_extracti64x4_epi64((__m512i)offset, 1), base, 1);
    out[0] = (vi)_mm512_permutex2var_epi32(low, even, high);
    out[1] = (vi)_mm512_permutex2var_epi32(low, _mm512_add_epi32(even, _mm512_set1_epi32(1)), high);
}

static inline vi load_bytes(const uint8_t *p)
{
    return (vi)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p));
}

static inline vi load_halves(const uint8_t *p)
{
    return (vi)_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
}

static inline vf from_half(vi v)
{
    return (vf)_mm512_cvtph_ps(_mm512_cvtepi32_epi16((__m512i)v));
}

#else

static inline vf vf_floor(vf x)
{
    return (vf)_mm256_floor_ps((__m256)x);
}

static inline vf vf_fma(vf a, vf b, vf c)
{
    return (vf)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}

static inline vi vi_of(vf x)
{
    return (vi)_mm256_cvttps_epi32((__m256)x);
}

static inline vf vf_of(vi x)
{
    return (vf)_mm256_cvtepi32_ps((__m256i)x);
}

static inline vi vi_min(vi a, vi b)
{
    return (vi)_mm256_min_epi32((__m256i)a, (__m256i)b);
}

static inline vi vi_max(vi a, vi b)
{
    return (vi)_mm256_max_epi32((__m256i)a, (__m256i)b);
}

static inline bool vi_same(vi a, vi b)
{
    return _mm256_movemask_epi8(_mm256_cmpeq_epi32((__m256i)a, (__m256i)b)) == -1;
}

static inline vi gather(const uint8_t *base, vi offset)
{
    return (vi)_mm256_i32gather_epi32((const int *)base, (__m256i)offset, 1);
}

static inline void gather_pairs(const uint8_t *base, vi offset, vi out[2])
{
    const long long *from = (const long long *)base;
    __m256i low = _mm256_i32gather_epi64(from, _mm256_castsi256_si128((__m256i)offset), 1);
    __m256i high = _mm256_i32gather_epi64(from, _mm256_extracti128_si256((__m256i)offset, 1), 1);
    __m256 a = _mm256_castsi256_ps(low), b = _mm256_castsi256_ps(high);
    __m256i even = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0x88));
    __m256i odd = _mm256_castps_si256(_mm256_shuffle_ps(a, b, 0xdd));
    out[0] = (vi)_mm256_permute4x64_epi64(even, 0xd8); /* lanes in order again */
    out[1] = (vi)_mm256_permute4x64_epi64(odd, 0xd8);
}

static inline vi load_bytes(const uint8_t *p)
{
    return (vi)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
}

static inline vi load_halves(const uint8_t *p)
{
    return (vi)_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
}

static inline vf from_half(vi v)
{
    __m256i low = _mm256_packus_epi32((__m256i)v, _mm256_setzero_si256());
    low = _mm256_permute4x64_epi64(low, 0x08); /* both halves' words together */
    return (vf)_mm256_cvtph_ps(_mm256_castsi256_si128(low));
}

#endif

/* 0, 1, 2, ... */
static inline vi vi_iota(void)
{
    vi v;
    for (int32_t l = 0; l < LANES; l++) {
        v[l] = l;
    }
    return v;
}

#endif
