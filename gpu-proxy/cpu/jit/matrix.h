/* matrix.h - wmma, mma, ldmatrix, stmatrix and movmatrix: how they are described (see packet.h), and
 * how matrices lie in the registers of a warp.
 *
 * Everything is made of tiles of 8 rows by 4 lanes. A register holds one tile: lane l has row l / 4 (of
 * B and of its kind: column l / 4), and its 32 or 64 bits are e neighbouring elements, l % 4 * e and on.
 * A of 16 rows: registers 2n and 2n + 1 are rows 0-7 and 8-15 of the n-th block of 4e columns. B: the
 * n-th register is the n-th block of 4e rows, of 8 columns. C and D: lane l has columns l % 4 * 2 and the
 * next, in registers 0 and 1 for rows 0-7, 2 and 3 for rows 8-15; f16 has both columns in one register.
 * That is PTX's layout of mma. The fragments of wmma may lie as we like: they are fragments of mma side
 * by side, 16 rows each (8 where the matrix has 8), 8 columns each; registers beyond that are copies. */
#ifndef CPU_MATRIX_H
#define CPU_MATRIX_H

#include "gpu-proxy/cpu/jit/packet.h"

typedef enum {
    CPU_MATRIX_MMA = 0, /* wmma.mma too */
    CPU_MATRIX_QUADS,   /* mma.m8n8k4 on f16: four products, one for each pair of quads of lanes */
    CPU_MATRIX_LOAD,    /* wmma.load */
    CPU_MATRIX_STORE,   /* wmma.store */
    CPU_MATRIX_LDMATRIX,
    CPU_MATRIX_STMATRIX,
    CPU_MATRIX_MOVE /* movmatrix */
} cpu_matrix_op_t;

typedef enum {
    CPU_ELEM_NONE = 0,
    CPU_ELEM_F16,
    CPU_ELEM_BF16,
    CPU_ELEM_TF32,
    CPU_ELEM_F32,
    CPU_ELEM_F64,
    CPU_ELEM_S8,
    CPU_ELEM_U8,
    CPU_ELEM_S4,
    CPU_ELEM_U4,
    CPU_ELEM_B1,
    CPU_ELEM_S32,
    CPU_ELEM_E4M3,
    CPU_ELEM_E5M2
} cpu_elem_t;

enum { CPU_MATRIX_SATURATE = 1, CPU_MATRIX_AND = 2 /* b1: and.popc, else xor.popc */ };

/* Slots: registers of A from 0, of B from 8, of C from 16, of D from 24 on. Loads and stores: data from 0
 * on, addresses in slot 32, the stride (32 bits) in 33. */
enum {
    CPU_MATRIX_A = 0,
    CPU_MATRIX_B = 8,
    CPU_MATRIX_C = 16,
    CPU_MATRIX_D = 24,
    CPU_MATRIX_ADDRESS = 32,
    CPU_MATRIX_STRIDE = 33
};

typedef struct {
    uint32_t op; /* cpu_matrix_op_t */
    uint32_t m, n, k;
    uint32_t a, b, c, d; /* cpu_elem_t; loads and stores: the element in `a` */
    uint32_t a_col, b_col;
    uint32_t flags;
    uint32_t part; /* loads, stores: 'a', 'b', 'c' or 'd' */
    uint32_t col;  /* column-major in memory; ldmatrix, stmatrix: transposed */
    uint32_t has_stride;
    uint32_t space;
    uint32_t a_regs, b_regs, c_regs, d_regs; /* loads, stores, ldmatrix: registers in a_regs */
    /* set by the code generator: the operand is that of the product before, and not in its slots */
    uint32_t keep_a, keep_b;
} cpu_matrix_t;

/* Describes the instruction; false: not covered. */
bool cpu_matrix_parse(const ptx_function_t *f, const ptx_instr_t *i, cpu_matrix_t *out);

static inline unsigned cpu_elem_bits(uint32_t elem)
{
    switch (elem) {
    case CPU_ELEM_F64:
        return 64;
    case CPU_ELEM_TF32:
    case CPU_ELEM_F32:
    case CPU_ELEM_S32:
        return 32;
    case CPU_ELEM_F16:
    case CPU_ELEM_BF16:
        return 16;
    case CPU_ELEM_S4:
    case CPU_ELEM_U4:
        return 4;
    case CPU_ELEM_B1:
        return 1;
    default:
        return 8;
    }
}

/* Elements of a register. */
static inline unsigned cpu_elem_count(uint32_t elem)
{
    return elem == CPU_ELEM_F64 ? 1 : 32 / cpu_elem_bits(elem);
}

/* Registers that a matrix needs. */
static inline unsigned cpu_regs_of_a(uint32_t m, uint32_t k, uint32_t elem)
{
    return m / 8 * (k / (4 * cpu_elem_count(elem)));
}

static inline unsigned cpu_regs_of_b(uint32_t n, uint32_t k, uint32_t elem)
{
    return n / 8 * (k / (4 * cpu_elem_count(elem)));
}

static inline unsigned cpu_regs_of_c(uint32_t m, uint32_t n, uint32_t elem)
{
    return m / 8 * (n / 8) * (elem == CPU_ELEM_F16 ? 1 : 2);
}

#endif
