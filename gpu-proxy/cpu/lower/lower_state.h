/* lower_state.h - what the files of the pass share.
 *
 *   graph.c    which functions are reached, which are recursive, which are spliced in
 *   params.c   .param variables: registers or memory
 *   code.c     lists of instructions under construction
 *   flatten.c  a function with all that is spliced into it
 *   access.c   loads, stores and copies of .param variables
 *   calls.c    calls of functions that are there once
 *   alloca.c   alloca and its kin
 *   blocks.c   the finished list to blocks, reducible ones
 *
 * While a list is made, branches name labels (operand BLOCK, index = label) and the list holds
 * pseudo-instructions: LW_LABEL, and LW_CALL for a call that calls.c expands later. */
#ifndef CPU_LOWER_STATE_H
#define CPU_LOWER_STATE_H

#include "gpu-proxy/cpu/lower/lower.h"

enum { LW_LABEL = PTX_OP_COUNT, LW_CALL };

/* Bounds that no sane program reaches. */
enum { LW_MAX_INSTRS = 400000, LW_MAX_DEPTH = 64 };

/* A growing array in the arena. */
typedef struct {
    void *data;
    uint32_t count, capacity;
} lw_vec_t;

typedef struct {
    uint32_t offset;
    uint8_t size; /* 1, 2, 4 or 8 */
    bool stored;
} lw_piece_t;

/* A .param variable that is not a kernel's parameter. Variables that calls connect form a class. */
typedef struct {
    uint32_t parent; /* of the same class; itself at the root */
    bool known;
    bool memory;      /* at the root: address taken, or accesses overlap */
    lw_vec_t pieces;  /* at the root: lw_piece_t, disjoint */
    uint32_t ordinal; /* among the variables of its function */
    uint64_t place;   /* in memory: offset in its function's frame */
} lw_param_t;

typedef struct {
    bool reached, recursive, taken;
    bool inlined;        /* direct calls are spliced */
    bool called;         /* by a call that is not spliced: it is there once */
    uint32_t component;  /* strongly connected, of the call graph */
    uint32_t sites;      /* direct calls of it in the text */
    uint32_t size;       /* instructions, with all that is spliced in */
    uint32_t depth;      /* of splices */
    uint64_t frame;      /* bytes of its own variables */
    uint32_t param_vars; /* ordinals given */
    struct lw_root *root;
} lw_fn_t;

/* A body being copied: a function that is there once, or a splice. */
typedef struct {
    const ptx_function_t *f;
    struct lw_root *root;
    uint32_t reg_base;
    uint32_t *pieces; /* per ordinal: the first register of its pieces */
    uint64_t frame;   /* offset of its variables in the root's frame */
    uint32_t label_base;
    uint32_t ret_label; /* PTX_NONE: ret stays ret */
    uint32_t depth;
} lw_body_t;

/* The kernel, or a function that is there once. */
typedef struct lw_root {
    const ptx_function_t *f;
    lw_fn_t *fn;
    lw_body_t *body;
    lw_vec_t code; /* ptx_instr_t */
    uint32_t reg_first, reg_end;
    uint32_t entry, ret; /* labels */
    uint32_t selector;   /* register: which call to go back to */
    uint64_t frame;      /* bytes, with splices and saved registers */
    uint64_t need;       /* bytes of stack from its frame on; recursion apart */
    lw_vec_t returns;    /* uint32_t: labels behind its calls */
    uint64_t *save;      /* per register from reg_first: its place + 1; 0: none */
} lw_root_t;

/* A call that is not spliced. */
typedef struct {
    lw_body_t *body;
    const ptx_instr_t *i; /* of the body's function */
    uint32_t callee_reg;  /* PTX_NONE: direct */
    uint32_t target_count;
    const uint32_t *targets; /* functions */
    const uint64_t *saved;   /* set of registers, from the root's first; NULL: none */
} lw_site_t;

typedef struct {
    cpu_arena_t *arena;
    const ptx_module_t *module;
    const ptx_function_t *kernel;
    uint64_t stack_bytes;
    uint32_t *canonical; /* per function: itself, or what it is an alias of */
    lw_fn_t *fns;
    lw_param_t *params; /* per variable of the module */
    bool taken_known;
    lw_vec_t taken; /* uint32_t: functions whose address is taken somewhere */
    lw_vec_t order; /* uint32_t: reached functions, callees first */
    lw_vec_t roots; /* lw_root_t*, the kernel first */
    lw_vec_t sites; /* lw_site_t* */

    lw_vec_t regs, operands;
    uint32_t labels;
    uint32_t sp, ap, ap_end; /* registers */
    uint32_t line;           /* of what is being lowered */
    bool recursion, allocates;
    uint64_t limit; /* where the stack of frames ends */
    lw_vec_t *out;  /* where instructions go */
    const char *trouble;
    uint32_t trouble_line;
} lw_t;

/* ---- code.c ---- */
void *lw_push(lw_t *lw, lw_vec_t *vec, size_t item, uint32_t count);
uint32_t lw_reg(lw_t *lw, unsigned type, const char *name);
uint32_t lw_label(lw_t *lw);
void lw_here(lw_t *lw, uint32_t label);
void lw_trouble(lw_t *lw, const char *why);
unsigned lw_reg_bytes(const lw_t *lw, uint32_t reg);

ptx_operand_t lw_of_reg(uint32_t reg);
ptx_operand_t lw_of_imm(uint64_t value);

/* Appends an instruction; destinations first. Returns it for further settings. */
ptx_instr_t *lw_emit(lw_t *lw, unsigned op, unsigned type, const ptx_operand_t *operands,
                     unsigned dst_count, unsigned src_count);
void lw_mov(lw_t *lw, unsigned type, uint32_t to, ptx_operand_t from);
/* Unguarded, or under a predicate. */
void lw_bra(lw_t *lw, uint32_t label);
void lw_bra_if(lw_t *lw, uint32_t pred, bool negated, uint32_t label);
/* Goes to labels[n] where the register is keys[n]; keys ascend. What is between goes anywhere. */
void lw_tree(lw_t *lw, uint32_t reg, const uint64_t *keys, const uint32_t *labels, uint32_t count);

/* ---- graph.c ---- */
void lw_graph(lw_t *lw);
/* Functions that the call may reach. */
const uint32_t *lw_targets(lw_t *lw, const ptx_function_t *f, const ptx_instr_t *i,
                           uint32_t *count);

/* ---- params.c ---- */
void lw_params(lw_t *lw);
bool lw_is_param(const lw_t *lw, uint32_t var); /* not a kernel's parameter */
lw_param_t *lw_class(const lw_t *lw, uint32_t var);
unsigned lw_piece_type(unsigned size);

/* ---- flatten.c ---- */
lw_body_t *lw_body(lw_t *lw, const ptx_function_t *f, lw_root_t *root, uint64_t frame,
                   uint32_t depth);
void lw_flatten(lw_t *lw, lw_body_t *body);

/* A label behind what the guard of i leaves out; PTX_NONE without a guard. */
uint32_t lw_skip_unless(lw_t *lw, lw_body_t *body, const ptx_instr_t *i);

/* ---- alloca.c ---- */
/* Where the kernel starts. */
void lw_alloca_begin(lw_t *lw);
/* Around a body: what enter gives is leave's. */
uint32_t lw_alloca_enter(lw_t *lw, const lw_body_t *body);
void lw_alloca_leave(lw_t *lw, uint32_t note);
/* alloca, stacksave, stackrestore; false: the instruction is none of them. */
bool lw_alloca(lw_t *lw, lw_body_t *body, const ptx_instr_t *i);

/* ---- access.c ---- */
/* Local memory at an offset from the body's frame, as an operand of ld and st. */
ptx_operand_t lw_local(const lw_t *lw, const lw_root_t *root, uint64_t offset);
/* The place of a .param variable that lies in memory, from the root's frame. */
uint64_t lw_place(const lw_t *lw, const lw_body_t *body, uint32_t var);
void lw_param_access(lw_t *lw, lw_body_t *body, const ptx_instr_t *i);
/* Registers of a variable's pieces (or of the register operand) to `visit`. */
void lw_visit_pieces(const lw_t *lw, const lw_body_t *body, const ptx_operand_t *o,
                     void (*visit)(void *, uint32_t), void *context);
/* Actual argument to parameter, and result back. `shift`: where the callee's frame begins, from the
 * caller's. */
void lw_pass(lw_t *lw, lw_body_t *from, const ptx_operand_t *actual, lw_body_t *to, uint32_t formal,
             uint64_t shift);
void lw_fetch(lw_t *lw, lw_body_t *to, const ptx_operand_t *actual, lw_body_t *from,
              uint32_t formal, uint64_t shift);
/* The value of an argument as a 64-bit register. */
uint32_t lw_argument(lw_t *lw, lw_body_t *body, const ptx_operand_t *actual);
/* A 64-bit register to where a call's result goes. */
void lw_give(lw_t *lw, lw_body_t *body, const ptx_operand_t *actual, uint32_t value);
ptx_operand_t lw_remap(lw_t *lw, lw_body_t *body, const ptx_operand_t *o);

/* ---- calls.c ---- */
void lw_site(lw_t *lw, lw_body_t *body, const ptx_instr_t *i);
void lw_plan(lw_t *lw);                 /* what is saved, frames, stack */
uint64_t lw_stack_room(const lw_t *lw); /* bytes, where it cannot be computed */
void lw_expand(lw_t *lw);               /* all roots to lw->out */

/* ---- blocks.c ---- */
void lw_reduce(lw_t *lw, lw_vec_t *code);
void lw_finish(lw_t *lw, const lw_vec_t *code, ptx_function_t *f);

static inline ptx_instr_t *lw_at(const lw_vec_t *code, uint32_t n)
{
    return (ptx_instr_t *)code->data + n;
}

static inline ptx_operand_t *lw_operands(const lw_t *lw, const ptx_instr_t *i)
{
    return (ptx_operand_t *)lw->operands.data + i->operand_first;
}

#endif
