/* Matrix products of a warp. This file is compiled for x86-64-v3: whoever runs kernels has that.
 *
 * Products of small floats (f16, bf16, tf32, fp8) and of integers go through one core on f32, where the
 * products are exact: sums of f32 are rounded one after the other, and those of integers (below 2^24)
 * not at all. Its operands are quads: 4 columns of k. It does not matter which 4, as long as A and B are
 * taken apart in the same way: elements of 8 and 16 bits in the order of k, others as the lanes have
 * them, the first element of each of the 4 lanes of a row, then the second... */
#include "gpu-proxy/cpu/jit/helpers_lane.h"
#include "gpu-proxy/cpu/jit/matrix.h"
#include "gpu-proxy/cpu/jit/matrix_help.h"
#include "gpu-proxy/cpu/jit/small_float.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

enum { MAX_QUADS = 16 };

/* Types are constants in here once it is inlined. */
#define INLINE inline __attribute__((always_inline))

/* Element j of 8 lanes of a register, as f32. */
static INLINE __m256 element_f32(uint32_t elem, const uint32_t *lanes, unsigned j)
{
    __m256i v = _mm256_load_si256((const void *)lanes);
    switch (elem) {
    case CPU_ELEM_F16: {
        v = j != 0 ? _mm256_srli_epi32(v, 16) : _mm256_and_si256(v, _mm256_set1_epi32(0xffff));
        __m128i low = _mm256_castsi256_si128(v), high = _mm256_extracti128_si256(v, 1);
        return _mm256_cvtph_ps(_mm_packus_epi32(low, high));
    }
    case CPU_ELEM_BF16:
        return _mm256_castsi256_ps(j != 0 ? _mm256_and_si256(v, _mm256_set1_epi32((int)0xffff0000))
                                          : _mm256_slli_epi32(v, 16));
    case CPU_ELEM_TF32: /* the low 13 bits are not looked at */
        return _mm256_castsi256_ps(_mm256_and_si256(v, _mm256_set1_epi32((int)0xffffe000)));
    case CPU_ELEM_S8:
    case CPU_ELEM_S4: {
        int bits = elem == CPU_ELEM_S8 ? 8 : 4;
        v = _mm256_sllv_epi32(v, _mm256_set1_epi32(32 - bits - bits * (int)j));
        return _mm256_cvtepi32_ps(_mm256_srav_epi32(v, _mm256_set1_epi32(32 - bits)));
    }
    case CPU_ELEM_U8:
    case CPU_ELEM_U4: {
        int bits = elem == CPU_ELEM_U8 ? 8 : 4;
        v = _mm256_srlv_epi32(v, _mm256_set1_epi32(bits * (int)j));
        return _mm256_cvtepi32_ps(_mm256_and_si256(v, _mm256_set1_epi32((1 << bits) - 1)));
    }
    default: {
        float f[8];
        for (unsigned l = 0; l < 8; l++) {
            uint8_t byte = (uint8_t)(lanes[l] >> (8 * j));
            f[l] = elem == CPU_ELEM_E4M3 ? cpu_from_e4m3(byte) : cpu_from_e5m2(byte);
        }
        return _mm256_loadu_ps(f);
    }
    }
}

/* Quad q of A: rows two by two, 8 floats each; of 8 or 16 rows. */
typedef struct {
    _Alignas(32) float rows[MAX_QUADS][8][8];
} left_t;

/* Quad q of B: for each of its 4 columns of k the values of even and of odd n. */
typedef struct {
    _Alignas(32) float even[MAX_QUADS][4][4], odd[MAX_QUADS][4][4];
} right_t;

/* Operands of the last product, behind the slots: the next one often has one of them again. */
typedef struct {
    left_t a[2];
    right_t b[4];
} kept_t;
_Static_assert(sizeof(kept_t) == CPU_PACKET_KEPT, "the size of the function's buffer");

/* Elements 8c to 8c + 7 of a row of a tile (types of 8 and 16 bits), as f32. */
static INLINE __m256 eight_f32(uint32_t elem, const uint8_t *row, unsigned c)
{
    switch (elem) {
    case CPU_ELEM_F16:
        return _mm256_cvtph_ps(_mm_load_si128((const void *)row));
    case CPU_ELEM_BF16: {
        __m256i v = _mm256_cvtepu16_epi32(_mm_load_si128((const void *)row));
        return _mm256_castsi256_ps(_mm256_slli_epi32(v, 16));
    }
    case CPU_ELEM_S8:
        return _mm256_cvtepi32_ps(
            _mm256_cvtepi8_epi32(_mm_loadl_epi64((const void *)(row + 8 * c))));
    default: /* U8 */
        return _mm256_cvtepi32_ps(
            _mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)(row + 8 * c))));
    }
}

static INLINE bool in_order(uint32_t elem)
{
    return elem == CPU_ELEM_F16 || elem == CPU_ELEM_BF16 || elem == CPU_ELEM_S8 ||
           elem == CPU_ELEM_U8;
}

/* Four rows of 8 become 8 columns of 4: column c in the low half of out[c], c + 4 in the high. */
static INLINE void transpose_two(const __m256 in[4], __m256 out[4])
{
    __m256 a = _mm256_unpacklo_ps(in[0], in[1]), b = _mm256_unpackhi_ps(in[0], in[1]);
    __m256 c = _mm256_unpacklo_ps(in[2], in[3]), d = _mm256_unpackhi_ps(in[2], in[3]);
    out[0] = _mm256_shuffle_ps(a, c, 0x44);
    out[1] = _mm256_shuffle_ps(a, c, 0xee);
    out[2] = _mm256_shuffle_ps(b, d, 0x44);
    out[3] = _mm256_shuffle_ps(b, d, 0xee);
}

/* A tile of B: 8 columns of 16 bytes. */
static INLINE void tile_right_in_order(uint32_t elem, const uint8_t *tile, unsigned quad,
                                       right_t *out)
{
    for (unsigned c = 0; c < cpu_elem_count(elem) / 2; c++) {
        for (unsigned odd = 0; odd < 2; odd++) {
            __m256 n[4], k[4];
            for (unsigned p = 0; p < 4; p++) {
                n[p] = eight_f32(elem, tile + 16 * (2 * p + odd), c);
            }
            transpose_two(n, k);
            float(*low)[4] = odd ? out->odd[quad + 2 * c] : out->even[quad + 2 * c];
            float(*high)[4] = odd ? out->odd[quad + 2 * c + 1] : out->even[quad + 2 * c + 1];
            for (unsigned p = 0; p < 4; p++) {
                _mm_store_ps(low[p], _mm256_castps256_ps128(k[p]));
                _mm_store_ps(high[p], _mm256_extractf128_ps(k[p], 1));
            }
        }
    }
}

/* Lanes hold n * 4 + k; wanted are, for each k, 4 even and 4 odd n. */
static INLINE void tile_right_by_lanes(uint32_t elem, const uint32_t *lanes, unsigned quad,
                                       right_t *out)
{
    for (unsigned j = 0; j < cpu_elem_count(elem); j++) {
        __m128 n[8];
        for (unsigned p = 0; p < 4; p++) {
            __m256 two = element_f32(elem, lanes + 8 * p, j);
            n[2 * p] = _mm256_castps256_ps128(two);
            n[2 * p + 1] = _mm256_extractf128_ps(two, 1);
        }
        _MM_TRANSPOSE4_PS(n[0], n[2], n[4], n[6]);
        _MM_TRANSPOSE4_PS(n[1], n[3], n[5], n[7]);
        for (unsigned k = 0; k < 4; k++) {
            _mm_store_ps(out->even[quad + j][k], n[2 * k]);
            _mm_store_ps(out->odd[quad + j][k], n[2 * k + 1]);
        }
    }
}

static INLINE void make_right(uint32_t elem, uint8_t *slots, unsigned first, unsigned blocks,
                              right_t *out)
{
    for (unsigned b = 0; b < blocks; b++) {
        unsigned quad = b * cpu_elem_count(elem);
        if (in_order(elem)) {
            tile_right_in_order(elem, cpu_packet_slot(slots, first + b), quad, out);
        } else {
            tile_right_by_lanes(elem, cpu_packet_slot(slots, first + b), quad, out);
        }
    }
}

/* A tile of A: 8 rows of 16 bytes; `quad` its first. */
static INLINE void tile_left(uint32_t elem, const uint8_t *tile, unsigned quad, unsigned half,
                             left_t *out)
{
    unsigned e = cpu_elem_count(elem);
    for (unsigned r = 0; r < 4; r++) {
        for (unsigned c = 0; in_order(elem) && c < e / 2; c++) {
            __m256 even = eight_f32(elem, tile + 32 * r, c);
            __m256 odd = eight_f32(elem, tile + 32 * r + 16, c);
            _mm256_store_ps(out->rows[quad + 2 * c][half * 4 + r],
                            _mm256_permute2f128_ps(even, odd, 0x20));
            _mm256_store_ps(out->rows[quad + 2 * c + 1][half * 4 + r],
                            _mm256_permute2f128_ps(even, odd, 0x31));
        }
        for (unsigned j = 0; !in_order(elem) && j < e; j++) {
            _mm256_store_ps(out->rows[quad + j][half * 4 + r],
                            element_f32(elem, (const uint32_t *)(const void *)(tile + 32 * r), j));
        }
    }
}

static INLINE void make_left(uint32_t elem, uint8_t *slots, unsigned first, unsigned halves,
                             unsigned blocks, left_t *out)
{
    for (unsigned b = 0; b < blocks; b++) {
        for (unsigned h = 0; h < halves; h++) {
            tile_left(elem, cpu_packet_slot(slots, first + b * halves + h),
                      b * cpu_elem_count(elem), h, out);
        }
    }
}

/* ---- the core ---- */

/* Column k of a quad: acc[even or odd n][two rows by two] += A * B, for 8 rows. */
static INLINE void column(const float (*rows)[8], const float *even, const float *odd, const int k,
                          __m256 acc[2][4])
{
    __m256 b0 = _mm256_broadcast_ps((const __m128 *)(const void *)even);
    __m256 b1 = _mm256_broadcast_ps((const __m128 *)(const void *)odd);
#pragma GCC unroll 4
    for (unsigned r = 0; r < 4; r++) {
        __m256 v = _mm256_load_ps(rows[r]);
        v = k == 0   ? _mm256_permute_ps(v, 0x00)
            : k == 1 ? _mm256_permute_ps(v, 0x55)
            : k == 2 ? _mm256_permute_ps(v, 0xaa)
                     : _mm256_permute_ps(v, 0xff);
        acc[0][r] = _mm256_fmadd_ps(v, b0, acc[0][r]);
        acc[1][r] = _mm256_fmadd_ps(v, b1, acc[1][r]);
    }
}

static INLINE void multiply(const left_t *a, unsigned half, const right_t *b, unsigned quads,
                            __m256 acc[2][4])
{
    __m256 own[2][4]; /* in registers for the whole loop */
    memcpy(own, acc, sizeof own);
    for (unsigned q = 0; q < quads; q++) {
        const float(*rows)[8] = &a->rows[q][half * 4];
        column(rows, b->even[q][0], b->odd[q][0], 0, own);
        column(rows, b->even[q][1], b->odd[q][1], 1, own);
        column(rows, b->even[q][2], b->odd[q][2], 2, own);
        column(rows, b->even[q][3], b->odd[q][3], 3, own);
    }
    memcpy(acc, own, sizeof own);
}

/* ---- accumulators ---- */

static INLINE void read_f32(uint8_t *slots, unsigned slot, __m256 acc[2][4])
{
#pragma GCC unroll 2
    for (unsigned odd = 0; odd < 2; odd++) {
        const float *from = cpu_packet_slot(slots, slot + odd);
#pragma GCC unroll 4
        for (unsigned r = 0; r < 4; r++) {
            acc[odd][r] = _mm256_load_ps(from + 8 * r);
        }
    }
}

static INLINE void write_f32(uint8_t *slots, unsigned slot, __m256 acc[2][4])
{
#pragma GCC unroll 2
    for (unsigned odd = 0; odd < 2; odd++) {
        float *to = cpu_packet_slot(slots, slot + odd);
#pragma GCC unroll 4
        for (unsigned r = 0; r < 4; r++) {
            _mm256_store_ps(to + 8 * r, acc[odd][r]);
        }
    }
}

static INLINE void read_f16(uint8_t *slots, unsigned slot, __m256 acc[2][4])
{
    const uint32_t *from = cpu_packet_slot(slots, slot);
    for (unsigned r = 0; r < 4; r++) {
        acc[0][r] = element_f32(CPU_ELEM_F16, from + 8 * r, 0);
        acc[1][r] = element_f32(CPU_ELEM_F16, from + 8 * r, 1);
    }
}

static INLINE void write_f16(uint8_t *slots, unsigned slot, __m256 acc[2][4])
{
    uint32_t *to = cpu_packet_slot(slots, slot);
    for (unsigned r = 0; r < 4; r++) {
        __m128i low = _mm256_cvtps_ph(acc[0][r], _MM_FROUND_TO_NEAREST_INT);
        __m128i high = _mm256_cvtps_ph(acc[1][r], _MM_FROUND_TO_NEAREST_INT);
        __m256i v = _mm256_slli_epi32(_mm256_cvtepu16_epi32(high), 16);
        v = _mm256_or_si256(v, _mm256_cvtepu16_epi32(low));
        _mm256_store_si256((void *)(to + 8 * r), v);
    }
}

static int32_t add_s32(int32_t x, int32_t y, bool saturate)
{
    int32_t sum;
    if (!__builtin_add_overflow(x, y, &sum) || !saturate) {
        return sum;
    }
    return y < 0 ? INT32_MIN : INT32_MAX;
}

/* d = c + the exact sums of products. */
static INLINE void write_s32(uint8_t *slots, unsigned c, unsigned d, bool saturate,
                             __m256 acc[2][4])
{
    for (unsigned odd = 0; odd < 2; odd++) {
        const int32_t *from = cpu_packet_slot(slots, c + odd);
        int32_t *to = cpu_packet_slot(slots, d + odd);
        for (unsigned r = 0; r < 4; r++) {
            __m256i sum = _mm256_cvtps_epi32(acc[odd][r]);
            if (!saturate) {
                sum = _mm256_add_epi32(sum, _mm256_load_si256((const void *)(from + 8 * r)));
                _mm256_store_si256((void *)(to + 8 * r), sum);
                continue;
            }
            int32_t lanes[8];
            _mm256_storeu_si256((void *)lanes, sum);
            for (unsigned l = 0; l < 8; l++) {
                to[8 * r + l] = add_s32(from[8 * r + l], lanes[l], true);
            }
        }
    }
}

/* One tile of 8 rows and 8 columns: `slot_c`, `slot_d` its first registers. */
static INLINE void tile(const cpu_matrix_t *x, uint8_t *slots, const left_t *a, unsigned half,
                        const right_t *b, unsigned quads, unsigned slot_c, unsigned slot_d)
{
    __m256 acc[2][4];
    if (x->c == CPU_ELEM_F32) {
        read_f32(slots, slot_c, acc);
    } else if (x->c == CPU_ELEM_F16) {
        read_f16(slots, slot_c, acc);
    } else {
        for (unsigned r = 0; r < 8; r++) {
            acc[r / 4][r % 4] = _mm256_setzero_ps();
        }
    }
    multiply(a, half, b, quads, acc);
    if (x->d == CPU_ELEM_F32) {
        write_f32(slots, slot_d, acc);
    } else if (x->d == CPU_ELEM_F16) {
        write_f16(slots, slot_d, acc);
    } else {
        write_s32(slots, slot_c, slot_d, x->flags & CPU_MATRIX_SATURATE, acc);
    }
}

static INLINE void through_f32(const cpu_matrix_t *x, uint8_t *slots, uint32_t elem_a,
                               uint32_t elem_b)
{
    unsigned rows = x->m == 8 ? 8 : 16, halves = rows / 8, e = cpu_elem_count(elem_a);
    unsigned blocks = x->k / (4 * e), quads = x->k / 4;
    unsigned c_unit = x->c == CPU_ELEM_F16 ? 1 : 2, d_unit = x->d == CPU_ELEM_F16 ? 1 : 2;
    kept_t *kept = cpu_packet_slot(slots, CPU_PACKET_SLOTS);
    for (unsigned n = 0; n < x->n / 8 && !x->keep_b; n++) {
        make_right(elem_b, slots, CPU_MATRIX_B + n * blocks, blocks, &kept->b[n]);
    }
    for (unsigned m = 0; m < x->m / rows && !x->keep_a; m++) {
        make_left(elem_a, slots, CPU_MATRIX_A + m * halves * blocks, halves, blocks, &kept->a[m]);
    }
    for (unsigned m = 0; m < x->m / rows; m++) {
        for (unsigned n = 0; n < x->n / 8; n++) {
            for (unsigned h = 0; h < halves; h++) {
                unsigned at = (m * (x->n / 8) + n) * halves + h;
                tile(x, slots, &kept->a[m], h, &kept->b[n], quads, CPU_MATRIX_C + at * c_unit,
                     CPU_MATRIX_D + at * d_unit);
            }
        }
    }
}

/* Each with its types built in: the usual ones, then whatever there is. */
static void multiply_f16(const cpu_matrix_t *x, uint8_t *slots)
{
    through_f32(x, slots, CPU_ELEM_F16, CPU_ELEM_F16);
}

static void multiply_bf16(const cpu_matrix_t *x, uint8_t *slots)
{
    through_f32(x, slots, CPU_ELEM_BF16, CPU_ELEM_BF16);
}

static void multiply_tf32(const cpu_matrix_t *x, uint8_t *slots)
{
    through_f32(x, slots, CPU_ELEM_TF32, CPU_ELEM_TF32);
}

static void multiply_s8(const cpu_matrix_t *x, uint8_t *slots)
{
    through_f32(x, slots, CPU_ELEM_S8, CPU_ELEM_S8);
}

static void multiply_others(const cpu_matrix_t *x, uint8_t *slots)
{
    through_f32(x, slots, x->a, x->b);
}

static void multiply_small(const cpu_matrix_t *x, uint8_t *slots)
{
    if (x->a == CPU_ELEM_F16) {
        multiply_f16(x, slots);
    } else if (x->a == CPU_ELEM_BF16) {
        multiply_bf16(x, slots);
    } else if (x->a == CPU_ELEM_TF32) {
        multiply_tf32(x, slots);
    } else if (x->a == CPU_ELEM_S8 && x->b == CPU_ELEM_S8) {
        multiply_s8(x, slots);
    } else {
        multiply_others(x, slots);
    }
}

/* ---- f64, and single bits ---- */

static void through_f64(const cpu_matrix_t *x, uint8_t *slots)
{
    unsigned halves = x->m / 8;
    for (unsigned row = 0; row < x->m; row++) {
        unsigned h = row / 8, lane = row % 8 * 4;
        for (unsigned n = 0; n < 8; n++) {
            unsigned reg = h * 2 + n % 2, at = lane + n / 2;
            double sum = ((const double *)cpu_packet_slot(slots, CPU_MATRIX_C + reg))[at];
            for (unsigned k = 0; k < x->k; k++) {
                const double *a = cpu_packet_slot(slots, CPU_MATRIX_A + k / 4 * halves + h);
                const double *b = cpu_packet_slot(slots, CPU_MATRIX_B + k / 4);
                sum = fma(a[lane + k % 4], b[n * 4 + k % 4], sum);
            }
            ((double *)cpu_packet_slot(slots, CPU_MATRIX_D + reg))[at] = sum;
        }
    }
}

static void through_bits(const cpu_matrix_t *x, uint8_t *slots)
{
    unsigned halves = x->m / 8;
    bool both = x->flags & CPU_MATRIX_AND;
    for (unsigned row = 0; row < x->m; row++) {
        unsigned h = row / 8, lane = row % 8 * 4;
        for (unsigned n = 0; n < 8; n++) {
            unsigned reg = h * 2 + n % 2, at = lane + n / 2, count = 0;
            for (unsigned w = 0; w < x->k / 32; w++) {
                const uint32_t *a = cpu_packet_slot(slots, CPU_MATRIX_A + w / 4 * halves + h);
                const uint32_t *b = cpu_packet_slot(slots, CPU_MATRIX_B + w / 4);
                uint32_t va = a[lane + w % 4], vb = b[n * 4 + w % 4];
                count += (unsigned)__builtin_popcount(both ? va & vb : va ^ vb);
            }
            int32_t c = ((const int32_t *)cpu_packet_slot(slots, CPU_MATRIX_C + reg))[at];
            ((int32_t *)cpu_packet_slot(slots, CPU_MATRIX_D + reg))[at] =
                add_s32(c, (int32_t)count, x->flags & CPU_MATRIX_SATURATE);
        }
    }
}

/* ---- mma.m8n8k4: lanes 4q to 4q + 3 and 16 more each make a product ---- */

static unsigned quad_lane(unsigned q, unsigned line)
{
    return q * 4 + line % 4 + (line >= 4 ? 16 : 0);
}

/* Element (line, k) of A, or of B with its columns as lines: `across` where a lane has one k of 4
 * lines, else it has 4 k of one line. */
static float quad_operand(uint8_t *slots, unsigned first, bool across, unsigned q, unsigned line,
                          unsigned k)
{
    unsigned lane = across ? q * 4 + k + (line >= 4 ? 16 : 0) : quad_lane(q, line);
    unsigned i = across ? line % 4 : k;
    const uint16_t *v = cpu_packet_slot(slots, first + i / 2);
    return cpu_from_f16(v[lane * 2 + i % 2]);
}

typedef struct {
    unsigned lane, i;
} place_t;

static place_t quad_place(uint32_t elem, unsigned q, unsigned row, unsigned col)
{
    unsigned high = row >= 4 ? 16 : 0;
    if (elem == CPU_ELEM_F16) {
        return (place_t){quad_lane(q, row), col};
    }
    return (place_t){q * 4 + (row & 1) + (col & 2) + high, (row & 2) | (col & 4) | (col & 1)};
}

static void through_quads(const cpu_matrix_t *x, uint8_t *slots)
{
    for (unsigned at = 0; at < 4 * 64; at++) {
        unsigned q = at / 64, row = at / 8 % 8, col = at % 8;
        place_t c = quad_place(x->c, q, row, col), d = quad_place(x->d, q, row, col);
        float sum;
        if (x->c == CPU_ELEM_F16) {
            const uint16_t *v = cpu_packet_slot(slots, CPU_MATRIX_C + c.i / 2);
            sum = cpu_from_f16(v[c.lane * 2 + c.i % 2]);
        } else {
            sum = ((const float *)cpu_packet_slot(slots, CPU_MATRIX_C + c.i))[c.lane];
        }
        for (unsigned k = 0; k < 4; k++) {
            sum += quad_operand(slots, CPU_MATRIX_A, x->a_col, q, row, k) *
                   quad_operand(slots, CPU_MATRIX_B, !x->b_col, q, col, k);
        }
        if (x->d == CPU_ELEM_F16) {
            uint16_t *v = cpu_packet_slot(slots, CPU_MATRIX_D + d.i / 2);
            v[d.lane * 2 + d.i % 2] = cpu_to_f16(sum);
        } else {
            ((float *)cpu_packet_slot(slots, CPU_MATRIX_D + d.i))[d.lane] = sum;
        }
    }
}

void cpu_matrix_multiply(const cpu_matrix_t *x, uint8_t *slots)
{
    if (x->op == CPU_MATRIX_QUADS) {
        through_quads(x, slots);
    } else if (x->a == CPU_ELEM_F64) {
        through_f64(x, slots);
    } else if (x->a == CPU_ELEM_B1) {
        through_bits(x, slots);
    } else {
        multiply_small(x, slots);
    }
}
