/* Matrices between memory and the registers of a warp: wmma.load and store, ldmatrix, stmatrix and
 * movmatrix. How they lie in registers: matrix.h. */
#include "gpu-proxy/cpu/jit/helpers_lane.h"
#include "gpu-proxy/cpu/jit/matrix.h"
#include "gpu-proxy/cpu/jit/matrix_help.h"

#include <string.h>

enum { ROW_BYTES = 16, TILE_ROWS = 8 };

/* ---- ldmatrix, stmatrix, movmatrix: tiles of 8 rows of 16 bytes ---- */

/* Rows become columns, of 8 by 8 elements of 16 bits. */
static void transpose(const uint16_t *from, uint16_t *to)
{
    for (unsigned r = 0; r < TILE_ROWS; r++) {
        for (unsigned c = 0; c < TILE_ROWS; c++) {
            to[c * TILE_ROWS + r] = from[r * TILE_ROWS + c];
        }
    }
}

/* The address of row r of the n-th tile is in lane 8n + r. */
static uint8_t *row_pointer(cpu_launch_t *l, const cpu_matrix_t *x, uint32_t strip, uint8_t *slots,
                            unsigned lane, bool write)
{
    uint64_t address = ((const uint64_t *)cpu_packet_slot(slots, CPU_MATRIX_ADDRESS))[lane];
    return cpu_lane_stretch(l, address, ROW_BYTES, ROW_BYTES, x->space, write, strip, lane);
}

static int32_t move_rows(cpu_launch_t *l, const cpu_matrix_t *x, uint32_t strip, uint8_t *slots)
{
    bool store = x->op == CPU_MATRIX_STMATRIX;
    for (unsigned n = 0; n < x->a_regs; n++) {
        uint8_t *reg = cpu_packet_slot(slots, n), turned[TILE_ROWS * ROW_BYTES];
        if (store && x->col) {
            transpose((const uint16_t *)(const void *)reg, (uint16_t *)(void *)turned);
            memcpy(reg, turned, sizeof turned);
        }
        for (unsigned r = 0; r < TILE_ROWS; r++) {
            uint8_t *row = row_pointer(l, x, strip, slots, n * TILE_ROWS + r, store);
            if (row == NULL) {
                return CPU_STATE_FAULT;
            }
            memcpy(store ? row : reg + r * ROW_BYTES, store ? reg + r * ROW_BYTES : row, ROW_BYTES);
        }
        if (!store && x->col) {
            transpose((const uint16_t *)(const void *)reg, (uint16_t *)(void *)turned);
            memcpy(reg, turned, sizeof turned);
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

/* A and B: blocks of 8 lines by 4 lanes. Where the elements of a line are neighbours in memory, the 4
 * lanes of a line are too. */
static void move_operand(const cpu_matrix_t *x, const view_t *v, uint8_t *slots)
{
    unsigned e = cpu_elem_count(x->a), reg_bytes = x->a == CPU_ELEM_F64 ? 8 : 4;
    unsigned blocks = v->elements / (4 * e), halves = x->part == 'a' && x->m >= 16 ? 2 : 1;
    for (unsigned line = 0; line < v->lines; line++) {
        unsigned tile = line / TILE_ROWS / halves, half = line / TILE_ROWS % halves;
        for (unsigned b = 0; b < blocks; b++) {
            unsigned reg = (tile * blocks + b) * halves + half, lane = line % TILE_ROWS * 4;
            if (v->step == v->bits) {
                uint8_t *from = v->base + (line * v->line + b * 4 * e * v->step) / 8;
                uint8_t *to = (uint8_t *)cpu_packet_slot(slots, reg) + lane * reg_bytes;
                memcpy(to, from, 4 * reg_bytes);
                continue;
            }
            for (unsigned k = 0; k < 4 * e; k++) {
                copy_element(v, line, b * 4 * e + k, slots, reg, lane + k / e, k % e, reg_bytes,
                             false);
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
    case CPU_MATRIX_STMATRIX:
        return move_rows(l, x, strip, slots);
    case CPU_MATRIX_MOVE:
        turn(slots);
        return 0;
    default:
        return load_or_store(l, x, mask, strip, slots);
    }
}
