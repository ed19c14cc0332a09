/* gen_ahead.h - addresses of a loop's next iterations: gen_lines.c finds them, gen_ahead.c checks
 * them before the iterations run. */
#ifndef CPU_GEN_AHEAD_H
#define CPU_GEN_AHEAD_H

#include "gpu-proxy/cpu/jit/gen_state.h"

/* A loop without inner loops and barriers, and what is known of its next `last + 1` iterations. */
typedef struct gen_ahead {
    uint32_t header, end; /* nodes [header, end] */
    uint32_t latch;       /* the only node with an edge back, or CPU_NODE_EXIT */
    uint8_t *defs;        /* per register: definitions in the loop, at most 2 counted */
    uint64_t *def;        /* per register: place of the last of them */
    bool *covered;        /* per instruction: its addresses need no check */
    bool grid;            /* it strides over the grid: the next CTA reads what lies behind */
    bool busy;            /* an iteration takes longer than memory does */
    val_t *step;          /* per instruction: what its addresses grow by, i64; or NULL */
    val_t *far;           /* per instruction: how far from its address to fetch, i64; or NULL */
    block_t *quick;       /* per node: code without those checks */
    val_t credit;         /* slot of an i32: iterations that may run, the present one included */
    val_t last;           /* i64 */
    val_t fine;           /* i1: conditions under which the lines hold so far; NULL: none */
} gen_ahead_t;

/* Order of instructions within one iteration. */
static inline uint64_t gen_place(uint32_t node, uint32_t instr)
{
    return (uint64_t)node << 32 | instr;
}

/* An affine register at one place of the loop's n-th iteration from now:
 *   base + n * base_step and index + n * index_step
 * as gen_read would give them; see cpu_form_t. Steps are signed and do not wrap. */
typedef struct {
    bool known;
    val_t base, base_step;   /* as wide as the register */
    val_t index, index_step; /* i32; NULL: there is no inner sum */
} gen_line_t;

/* For strip gen->g, as code at the builder's place: the beginning of an iteration. */
gen_line_t gen_line(cpu_gen_t *gen, gen_ahead_t *h, const ptx_operand_t *o, uint64_t place,
                    unsigned bits);
/* Of an address in an affine register, without its offset: lane 0's, and (the result) what an
 * iteration adds; or NULL. */
val_t gen_line_address(cpu_gen_t *gen, gen_ahead_t *h, const ptx_operand_t *o, uint64_t place,
                       const cpu_form_t *form, val_t *first);
/* The header, latch and definitions of a loop, for gen_line. */
gen_ahead_t *gen_ahead_describe(cpu_gen_t *gen, uint32_t loop);
/* Adds a condition (i1). */
void gen_line_need(cpu_gen_t *gen, gen_ahead_t *h, val_t condition);
bool gen_line_still(const gen_line_t *line); /* the same in every iteration */
/* An index (i32 line part) stays within 32 bits over the iterations and lanes; as i64 it is then
 * *first + n * *step. */
void gen_line_widen(cpu_gen_t *gen, gen_ahead_t *h, val_t v, val_t step, bool sign, int64_t reach,
                    val_t *first, val_t *wide_step);

#endif
