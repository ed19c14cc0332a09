/* Matrices between memory and the registers of a warp: wmma.load and store, ldmatrix, stmatrix and
 * movmatrix. How they lie in registers: matrix.h. Compiled for x86-64-v3, see helpers_mma.c. */
#include "gpu-proxy/cpu/jit/helpers_lane.h"
#include "gpu-proxy/cpu/jit/matrix.h"
#include "gpu-proxy/cpu/jit/matrix_help.h"

#include <immintrin.h>
#include <string.h>

enum { ROW_BYTES = 16, TILE_ROWS = 8 };

/* ---- ldmatrix, stmatrix, movmatrix: tiles of 8 rows of 16 bytes ---- */

/* Rows become columns, of 8 by 8 elements of 16 bits. */
static void transpose(const uint16_t *from, uint16_t *to)
{
    __m128i r[TILE_ROWS], p[TILE_ROWS], q[TILE_ROWS];
    for (unsigned k = 0; k < TILE_ROWS; k++) {
        r[k] = _mm_loadu_si128((const void *)(from + k * TILE_ROWS));
    }
    for (unsigned k = 0; k < 4; k++) { /* pairs of rows k and k + 4, element by element */
        p[2 * k] = _mm_unpacklo_epi16(r[k], r[k + 4]);
        p[2 * k + 1] = _mm_unpackhi_epi16(r[k], r[k + 4]);
    }
    for (unsigned k = 0; k < 4; k++) {
        q[2 * k] = _mm_unpacklo_epi16(p[k], p[k + 4]);
        q[2 * k + 1] = _mm_unpackhi_epi16(p[k], p[k + 4]);
    }
    for (unsigned k = 0; k < 4; k++) {
        __m256i two = _mm256_castsi128_si256(_mm_unpacklo_epi16(q[k], q[k + 4]));
        two = _mm256_inserti128_si256(two, _mm_unpackhi_epi16(q[k], q[k + 4]), 1);
        _mm256_store_si256((void *)(to + 2 * k * TILE_ROWS), two);
    }
}

/* The address of row r of the n-th tile is in lane 8n + r. */
static inline uint8_t *row_pointer(cpu_launch_t *l, const cpu_matrix_t *x, uint32_t strip,
                                   uint8_t *slots, unsigned lane, bool write)
{
    uint64_t address = ((const uint64_t *)cpu_packet_slot(slots, CPU_MATRIX_ADDRESS))[lane];
    uint8_t *p = cpu_lane_quick(l, address, ROW_BYTES, ROW_BYTES, x->space);
    return p != NULL
               ? p
               : cpu_lane_stretch(l, address, ROW_BYTES, ROW_BYTES, x->space, write, strip, lane);
}

/* Two rows at a time: what is loaded from slots is as wide (gen_packet.c). */
static void join_rows(uint8_t *reg, const uint8_t *even, const uint8_t *odd)
{
    __m256i v = _mm256_castsi128_si256(_mm_loadu_si128((const void *)even));
    v = _mm256_inserti128_si256(v, _mm_loadu_si128((const void *)odd), 1);
    _mm256_store_si256((void *)reg, v);
}

static int32_t load_rows(cpu_launch_t *l, const cpu_matrix_t *x, uint32_t strip, uint8_t *slots)
{
    for (unsigned n = 0; n < x->a_regs; n++) {
        uint8_t *reg = cpu_packet_slot(slots, n);
        _Alignas(32) uint8_t tile[TILE_ROWS * ROW_BYTES];
        for (unsigned r = 0; r < TILE_ROWS; r += 2) {
            const uint8_t *even = row_pointer(l, x, strip, slots, n * TILE_ROWS + r, false);
            const uint8_t *odd =
                even != NULL ? row_pointer(l, x, strip, slots, n * TILE_ROWS + r + 1, false) : NULL;
            if (odd == NULL) {
                return CPU_STATE_FAULT;
            }
            join_rows((x->col ? tile : reg) + r * ROW_BYTES, even, odd);
        }
        if (x->col) {
            transpose((const uint16_t *)(const void *)tile, (uint16_t *)(void *)reg);
        }
    }
    return 0;
}

static int32_t store_rows(cpu_launch_t *l, const cpu_matrix_t *x, uint32_t strip, uint8_t *slots)
{
    for (unsigned n = 0; n < x->a_regs; n++) {
        uint8_t *reg = cpu_packet_slot(slots, n);
        _Alignas(32) uint8_t turned[TILE_ROWS * ROW_BYTES];
        if (x->col) {
            transpose((const uint16_t *)(const void *)reg, (uint16_t *)(void *)turned);
            reg = turned;
        }
        for (unsigned r = 0; r < TILE_ROWS; r++) {
            uint8_t *row = row_pointer(l, x, strip, slots, n * TILE_ROWS + r, true);
            if (row == NULL) {
                return CPU_STATE_FAULT;
            }
            memcpy(row, reg + r * ROW_BYTES, ROW_BYTES);
        }
    }
    return 0;
}

static void turn(uint8_t *slots)
{
    transpose(cpu_packet_slot(slots, CPU_MATRIX_A), cpu_packet_slot(slots, CPU_MATRIX_D));
}

/* ---- wmma.load and store ---- */

/* A matrix in memory as lines (rows of A, C and D; columns of B) of elements: element e of line n is
 * at base + n * line + e * step, in bits. */
typedef struct {
    uint8_t *base;
    uint64_t line, step;
    unsigned lines, elements, bits;
    bool accumulator;
} view_t;

static void copy_bits(uint8_t *memory, uint8_t *reg, unsigned bytes, bool store)
{
    memcpy(store ? memory : reg, store ? reg : memory, bytes);
}

/* One element between memory and lane, register and place within it. */
static void copy_element(const view_t *v, unsigned line, unsigned e, uint8_t *slots, unsigned reg,
                         unsigned lane, unsigned at, unsigned reg_bytes, bool store)
{
    unsigned bytes = v->bits / 8;
    uint8_t *in_reg = (uint8_t *)cpu_packet_slot(slots, reg) + lane * reg_bytes + at * bytes;
    copy_bits(v->base + (line * v->line + e * v->step) / 8, in_reg, bytes, store);
}

/* A tile of 16-bit elements whose lines are neighbours in memory: turned around. */
static void move_turned(const view_t *v, unsigned line, unsigned e, uint8_t *reg)
{
    _Alignas(32) uint16_t rows[TILE_ROWS][TILE_ROWS];
    for (unsigned k = 0; k < TILE_ROWS; k++) {
        memcpy(rows[k], v->base + (line * v->line + (e + k) * v->step) / 8, ROW_BYTES);
    }
    transpose(rows[0], (uint16_t *)(void *)reg);
}

/* Lines of a tile whose elements are neighbours in memory: 16 bytes each (f64: 32). */
static void move_straight(const view_t *v, unsigned line, unsigned e, uint8_t *reg)
{
    unsigned bytes = v->bits == 64 ? 2 * ROW_BYTES : ROW_BYTES;
    for (unsigned r = 0; r < TILE_ROWS; r += 32 / bytes) {
        const uint8_t *from = v->base + ((line + r) * v->line + e * v->step) / 8;
        const uint8_t *next = bytes == ROW_BYTES ? from + v->line / 8 : from + ROW_BYTES;
        join_rows(reg + r * bytes, from, next);
    }
}

/* Any other tile, element by element. */
static void move_elements(const cpu_matrix_t *x, const view_t *v, unsigned line, unsigned first,
                          uint8_t *slots, unsigned reg)
{
    unsigned e = cpu_elem_count(x->a), reg_bytes = x->a == CPU_ELEM_F64 ? 8 : 4;
    for (unsigned r = 0; r < TILE_ROWS; r++) {
        for (unsigned k = 0; k < 4 * e; k++) {
            copy_element(v, line + r, first + k, slots, reg, r * 4 + k / e, k % e, reg_bytes,
                         false);
        }
    }
}

/* A and B: tiles of 8 lines by 4 lanes. */
static void move_operand(const cpu_matrix_t *x, const view_t *v, uint8_t *slots)
{
    unsigned wide = 4 * cpu_elem_count(x->a), blocks = v->elements / wide;
    unsigned halves = x->part == 'a' && x->m >= 16 ? 2 : 1;
    for (unsigned line = 0; line < v->lines; line += TILE_ROWS) {
        unsigned tile = line / TILE_ROWS / halves, half = line / TILE_ROWS % halves;
        for (unsigned b = 0; b < blocks; b++) {
            unsigned reg = (tile * blocks + b) * halves + half;
            if (v->step == v->bits) {
                move_straight(v, line, b * wide, cpu_packet_slot(slots, reg));
            } else if (v->bits == 16) {
                move_turned(v, line, b * wide, cpu_packet_slot(slots, reg));
            } else {
                move_elements(x, v, line, b * wide, slots, reg);
            }
        }
    }
}

/* f16 fragments of A and B have 8 registers: those beyond the matrix are copies of it. */
static void repeat(const cpu_matrix_t *x, const view_t *v, uint8_t *slots)
{
    unsigned own = v->lines / TILE_ROWS * (v->elements / (4 * cpu_elem_count(x->a)));
    for (unsigned n = own; n < x->a_regs; n++) {
        memcpy(cpu_packet_slot(slots, n), cpu_packet_slot(slots, n - own), CPU_PACKET_SLOT);
    }
}

/* C and D: tiles of 8 by 8; a lane has two neighbours of a row. */
static void move_accumulator(const cpu_matrix_t *x, const view_t *v, uint8_t *slots, bool store)
{
    unsigned rows = x->m == 8 ? 8 : 16, halves = rows / 8, columns = x->n / 8;
    unsigned reg_bytes = x->a == CPU_ELEM_F64 ? 8 : 4, unit = x->a == CPU_ELEM_F16 ? 1 : 2;
    for (unsigned row = 0; row < x->m; row++) {
        unsigned m = row / rows, half = row / 8 % halves, lane = row % 8 * 4;
        for (unsigned col = 0; col < x->n; col++) {
            unsigned tile = (m * columns + col / 8) * halves + half, odd = col % 2;
            copy_element(v, row, col, slots, tile * unit + (unit == 2 ? odd : 0),
                         lane + col % 8 / 2, unit == 2 ? 0 : odd, reg_bytes, store);
        }
    }
}

static uint64_t natural_stride(const view_t *v, bool lines_apart)
{
    return lines_apart ? v->elements : v->lines;
}

static bool find_memory(cpu_launch_t *l, const cpu_matrix_t *x, uint32_t mask, uint32_t strip,
                        uint8_t *slots, view_t *v)
{
    unsigned lane = mask != 0 ? (unsigned)__builtin_ctz(mask) : 0;
    uint64_t address = ((const uint64_t *)cpu_packet_slot(slots, CPU_MATRIX_ADDRESS))[lane];
    v->accumulator = x->part == 'c' || x->part == 'd';
    v->bits = cpu_elem_bits(x->a);
    v->lines = x->part == 'b' ? x->n : x->m;
    v->elements = v->accumulator ? x->n : x->k;
    /* are the elements of a line neighbours? */
    bool apart = (x->col != 0) == (x->part == 'b');
    uint64_t stride = x->has_stride
                          ? ((const uint32_t *)cpu_packet_slot(slots, CPU_MATRIX_STRIDE))[lane]
                          : natural_stride(v, apart);
    v->line = apart ? stride * v->bits : v->bits;
    v->step = apart ? v->bits : stride * v->bits;
    uint64_t last = (v->lines - 1) * v->line + (v->elements - 1) * v->step + v->bits;
    unsigned align = v->bits < 8 ? 4 : v->bits / 8;
    v->base = cpu_lane_stretch(l, address, last / 8, align, x->space, x->op == CPU_MATRIX_STORE,
                               strip, lane);
    return v->base != NULL;
}

static int32_t load_or_store(cpu_launch_t *l, const cpu_matrix_t *x, uint32_t mask, uint32_t strip,
                             uint8_t *slots)
{
    view_t v;
    if (!find_memory(l, x, mask, strip, slots, &v)) {
        return CPU_STATE_FAULT;
    }
    if (v.accumulator) {
        move_accumulator(x, &v, slots, x->op == CPU_MATRIX_STORE);
    } else {
        move_operand(x, &v, slots);
        repeat(x, &v, slots);
    }
    return 0;
}

int32_t cpu_help_matrix(cpu_launch_t *l, const void *what, uint32_t mask, uint32_t strip,
                        uint8_t *slots)
{
    const cpu_matrix_t *x = what;
    switch (x->op) {
    case CPU_MATRIX_MMA:
    case CPU_MATRIX_QUADS:
        cpu_matrix_multiply(x, slots);
        return 0;
    case CPU_MATRIX_LDMATRIX:
        return load_rows(l, x, strip, slots);
    case CPU_MATRIX_STMATRIX:
        return store_rows(l, x, strip, slots);
    case CPU_MATRIX_MOVE:
        turn(slots);
        return 0;
    default:
        return load_or_store(l, x, mask, strip, slots);
    }
}
