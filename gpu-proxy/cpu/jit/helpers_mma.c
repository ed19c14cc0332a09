/* Matrix products of a warp. This file is compiled for x86-64-v3: whoever runs kernels has that.
 *
 * Products of small floats (f16, bf16, tf32, fp8) and of integers go through one core on f32, where the
 * products are exact: sums of f32 are rounded one after the other, and those of integers (below 2^24)
 * not at all. Its operands are quads: 4 columns of k that a tile's 4 lanes hold. A register of e
 * elements gives e quads, the first, second... element of each lane; as A and B are taken apart in the
 * same way, it does not matter that a quad's columns are not neighbours. */
#include "gpu-proxy/cpu/jit/helpers_lane.h"
#include "gpu-proxy/cpu/jit/matrix.h"
#include "gpu-proxy/cpu/jit/matrix_help.h"
#include "gpu-proxy/cpu/jit/small_float.h"

#include <immintrin.h>
#include <math.h>
#include <string.h>

enum { MAX_QUADS = 16, MAX_K = 256 };

/* ---- from registers to quads ---- */

/* Element j of 8 lanes of a register, as f32. */
static inline __m256 element_f32(uint32_t elem, const uint32_t *lanes, unsigned j)
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

static inline void make_left(uint32_t elem, uint8_t *slots, unsigned first, unsigned halves,
                             unsigned blocks, left_t *out)
{
    unsigned e = cpu_elem_count(elem);
    for (unsigned b = 0; b < blocks; b++) {
        for (unsigned h = 0; h < halves; h++) {
            const uint32_t *lanes = cpu_packet_slot(slots, first + b * halves + h);
            for (unsigned j = 0; j < e; j++) {
                for (unsigned r = 0; r < 4; r++) {
                    _mm256_store_ps(out->rows[b * e + j][h * 4 + r],
                                    element_f32(elem, lanes + 8 * r, j));
                }
            }
        }
    }
}

/* Lanes hold n * 4 + k; wanted are, for each k, 4 even and 4 odd n. */
static inline void make_right(uint32_t elem, uint8_t *slots, unsigned first, unsigned blocks,
                              right_t *out)
{
    unsigned e = cpu_elem_count(elem);
    for (unsigned b = 0; b < blocks; b++) {
        const uint32_t *lanes = cpu_packet_slot(slots, first + b);
        for (unsigned j = 0; j < e; j++) {
            __m128 n[8];
            for (unsigned p = 0; p < 4; p++) {
                __m256 two = element_f32(elem, lanes + 8 * p, j);
                n[2 * p] = _mm256_castps256_ps128(two);
                n[2 * p + 1] = _mm256_extractf128_ps(two, 1);
            }
            _MM_TRANSPOSE4_PS(n[0], n[2], n[4], n[6]);
            _MM_TRANSPOSE4_PS(n[1], n[3], n[5], n[7]);
            for (unsigned k = 0; k < 4; k++) {
                _mm_store_ps(out->even[b * e + j][k], n[2 * k]);
                _mm_store_ps(out->odd[b * e + j][k], n[2 * k + 1]);
            }
        }
    }
}

/* ---- the core ---- */

/* acc[even or odd n][two rows by two] += A * B, for 8 rows. */
static inline __attribute__((always_inline)) void
multiply(const left_t *a, unsigned half, const right_t *b, unsigned quads, __m256 acc[2][4])
{
    for (unsigned q = 0; q < quads; q++) {
#define STEP(k)                                                                                    \
    do {                                                                                           \
        __m256 even = _mm256_broadcast_ps((const __m128 *)(const void *)b->even[q][k]);            \
        __m256 odd = _mm256_broadcast_ps((const __m128 *)(const void *)b->odd[q][k]);              \
        for (unsigned r = 0; r < 4; r++) {                                                         \
            __m256 v = _mm256_permute_ps(_mm256_load_ps(a->rows[q][half * 4 + r]), (k) * 0x55);    \
            acc[0][r] = _mm256_fmadd_ps(v, even, acc[0][r]);                                       \
            acc[1][r] = _mm256_fmadd_ps(v, odd, acc[1][r]);                                        \
        }                                                                                          \
    } while (0)
        STEP(0);
        STEP(1);
        STEP(2);
        STEP(3);
#undef STEP
    }
}

/* ---- accumulators ---- */

static inline void read_f32(uint8_t *slots, unsigned slot, __m256 acc[2][4])
{
    for (unsigned odd = 0; odd < 2; odd++) {
        const float *from = cpu_packet_slot(slots, slot + odd);
        for (unsigned r = 0; r < 4; r++) {
            acc[odd][r] = _mm256_load_ps(from + 8 * r);
        }
    }
}

static inline void write_f32(uint8_t *slots, unsigned slot, __m256 acc[2][4])
{
    for (unsigned odd = 0; odd < 2; odd++) {
        float *to = cpu_packet_slot(slots, slot + odd);
        for (unsigned r = 0; r < 4; r++) {
            _mm256_store_ps(to + 8 * r, acc[odd][r]);
        }
    }
}

static inline void read_f16(uint8_t *slots, unsigned slot, __m256 acc[2][4])
{
    const uint32_t *from = cpu_packet_slot(slots, slot);
    for (unsigned r = 0; r < 4; r++) {
        acc[0][r] = element_f32(CPU_ELEM_F16, from + 8 * r, 0);
        acc[1][r] = element_f32(CPU_ELEM_F16, from + 8 * r, 1);
    }
}

static inline void write_f16(uint8_t *slots, unsigned slot, __m256 acc[2][4])
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
static inline void write_s32(uint8_t *slots, unsigned c, unsigned d, bool saturate,
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
static inline void tile(const cpu_matrix_t *x, uint8_t *slots, const left_t *a, unsigned half,
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

static void through_f32(const cpu_matrix_t *x, uint8_t *slots)
{
    unsigned rows = x->m == 8 ? 8 : 16, halves = rows / 8, e = cpu_elem_count(x->a);
    unsigned blocks = x->k / (4 * e), quads = x->k / 4;
    unsigned c_unit = x->c == CPU_ELEM_F16 ? 1 : 2, d_unit = x->d == CPU_ELEM_F16 ? 1 : 2;
    right_t b[4];
    for (unsigned n = 0; n < x->n / 8; n++) {
        make_right(x->b, slots, CPU_MATRIX_B + n * blocks, blocks, &b[n]);
    }
    for (unsigned m = 0; m < x->m / rows; m++) {
        left_t a;
        make_left(x->a, slots, CPU_MATRIX_A + m * halves * blocks, halves, blocks, &a);
        for (unsigned n = 0; n < x->n / 8; n++) {
            for (unsigned h = 0; h < halves; h++) {
                unsigned at = (m * (x->n / 8) + n) * halves + h;
                tile(x, slots, &a, h, &b[n], quads, CPU_MATRIX_C + at * c_unit,
                     CPU_MATRIX_D + at * d_unit);
            }
        }
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
        through_f32(x, slots);
    }
}
