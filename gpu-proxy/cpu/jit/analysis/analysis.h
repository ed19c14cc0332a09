/* analysis.h - what the code generator knows about a kernel before it emits anything.
 *
 * flow.c     nodes (blocks with one kind of end), their order, loops, postdominators
 * spin.c     loops in which lanes may wait for other threads
 * live.c     registers live at the start of each node
 * alike.c    comparisons and other results that are uniform where the operands are not
 * forms.c    how each register varies over the lanes of a strip and over the strips of a group
 * pace.c     what differs from CTA to CTA: loops that stride over the grid
 * regions.c  which branches may split a group, and what that forces on registers
 *
 * Nodes are numbered in execution order: topological without back-edges, every loop contiguous.
 * A group always runs the lowest node that has waiting lanes, and a loop's next iteration begins when
 * no lane waits inside the loop. So while node b runs, other lanes wait only at later nodes, or at the
 * header of a loop around b. Deferred loops are the exception: lanes that may wait for each other spin
 * there. Their next iteration begins only when no lane waits anywhere else, so that those that have
 * left the loop can do what the others wait for. So lanes that have passed such a loop may be far
 * ahead; where a warp must be together (sync) they wait for those behind. */
#ifndef CPU_ANALYSIS_H
#define CPU_ANALYSIS_H

#include "gpu-proxy/cpu/jit/arena.h"
#include "gpu-proxy/cpu/jit/cpu_code.h"
#include "gpu-proxy/cpu/ptx/ptx_ir.h"

#define CPU_NODE_EXIT (UINT32_MAX - 1) /* successor: the thread ends */
#define CPU_NO_LOOP UINT32_MAX

typedef enum {
    CPU_END_JUMP = 0, /* succ[0] */
    CPU_END_BRANCH,   /* guard (^ negated) ? succ[0] : succ[1] */
    CPU_END_BARRIER   /* succ[0], behind the barrier (or exchange) `last` */
} cpu_end_t;

/* Does the node begin with an instruction for which the lanes of a warp wait for each other? Nodes are
 * cut there only in kernels with spin loops: in others, lanes come together anyway. */
typedef enum {
    CPU_SYNC_NONE = 0,
    CPU_SYNC_SOME, /* those in its member mask */
    CPU_SYNC_ALL   /* all that have not ended */
} cpu_sync_t;

typedef struct {
    uint32_t first, count; /* instructions, without the one that ends the node */
    uint32_t last;         /* the ending instruction, or PTX_NONE */
    uint8_t end;           /* cpu_end_t */
    uint8_t negated;
    uint8_t sync;   /* cpu_sync_t */
    uint32_t guard; /* predicate register of a BRANCH */
    uint32_t succ[2];
    uint32_t loop;  /* innermost, or CPU_NO_LOOP */
    uint32_t ipdom; /* immediate postdominator, or CPU_NODE_EXIT */
} cpu_node_t;

typedef struct {
    uint32_t header, last; /* nodes [header, last] */
    uint32_t parent;       /* or CPU_NO_LOOP */
    bool deferred;         /* lanes may wait here for what other lanes do behind it */
} cpu_loop_t;

/* Value of lane l: base + l * stride + scale * extend(index + l * step), where base (as wide as the
 * register) and index (32 bits) are scalars and the inner sum wraps at 32 bits. scale = 0: no inner
 * sum. So both parts are exact whatever wraps. */
typedef enum { CPU_FORM_NONE = 0, CPU_FORM_AFFINE, CPU_FORM_VARYING } cpu_form_tag_t;

typedef struct {
    uint8_t tag;
    bool sign; /* extend by sign */
    int32_t step;
    int64_t stride;
    int64_t scale;
} cpu_form_t;

/* A number is `rest` modulo the power of two `modulus` (at most 1 << 31). */
typedef struct {
    uint64_t modulus, rest;
} cpu_rest_t;

typedef struct {
    cpu_form_t form;
    bool per_strip; /* differs between the strips of a group */
    bool forced;    /* must keep values of lanes that wait elsewhere: varying, blended */
    uint32_t defs;
    cpu_rest_t rest; /* of the base */
    uint64_t high;   /* no lane is above, unsigned; UINT64_MAX: unknown. Integers of 32 bits */
    bool is_constant;
    uint64_t constant; /* the only definition is a mov of this */
} cpu_value_t;

/* How much larger a register is in the next CTA of a row, and in a grid that has one more. */
enum { CPU_PACE_CTA = 0, CPU_PACE_GRID, CPU_PACES };
enum { CPU_PACE_NONE = 0, CPU_PACE_KNOWN, CPU_PACE_UNKNOWN };

typedef struct {
    uint8_t tag[CPU_PACES]; /* NONE: without a value so far */
    int64_t by[CPU_PACES];
} cpu_pace_t;

typedef struct {
    unsigned width;  /* W */
    unsigned strips; /* G */
    uint32_t layout; /* cpu_layout_t */
    cpu_shape_t shape;
} cpu_config_t;

typedef struct {
    cpu_arena_t *arena;
    const ptx_module_t *module;
    const ptx_function_t *f;
    cpu_config_t config;
    bool scalar;         /* one thread at a time: lanes of a warp meet by leaving the function */
    bool exchanges;      /* and there are instructions at which they do */
    const char *trouble; /* why it cannot be compiled, or NULL */

    uint32_t node_count;
    cpu_node_t *nodes;
    uint32_t loop_count;
    cpu_loop_t *loops;
    const ptx_instr_t **given; /* per register: what loads the parameter that it is; or NULL */
    cpu_bits_t *live_in;       /* per node: registers */
    cpu_value_t *values;       /* per register */
    cpu_pace_t *paces;         /* per register */
    bool *divergent;           /* per node: its branch may split the group */
    bool *crowded;             /* per node: other lanes may wait elsewhere while it runs */
    bool *thinned;             /* per node: lanes of the group may have ended before */
    bool *held;                /* per sync node: lanes may wait there for lanes that are behind */
    bool any_divergent;
    unsigned max_live; /* largest number of varying registers alive at once */
} cpu_analysis_t;

/* Control flow, liveness: independent of config. */
void cpu_analyse_flow(cpu_analysis_t *a);
bool cpu_analyse_spin(cpu_analysis_t *a); /* a part of it: loops[].deferred; are there any? */
void cpu_analyse_given(cpu_analysis_t *a);
void cpu_analyse_live(cpu_analysis_t *a); /* but of those that are given: after cpu_analyse_given */
/* Forms and regions under a->config; may be called again with another one. */
void cpu_analyse_forms(cpu_analysis_t *a);

/* Parts of it. */
void cpu_forms_propagate(cpu_analysis_t *a);
bool cpu_regions_update(cpu_analysis_t *a); /* true if something new was found */
void cpu_facts_compute(cpu_analysis_t *a);  /* align, high, constants */

/* Varying registers alive where node b begins; those of 64 bits count twice. */
unsigned cpu_live_vectors(const cpu_analysis_t *a, uint32_t b);
/* Paces, which need a->values. */
void cpu_analyse_paces(cpu_analysis_t *a);
cpu_pace_t cpu_operand_pace(const cpu_analysis_t *a, const ptx_operand_t *o);
int64_t cpu_pace_of(const cpu_analysis_t *a, const ptx_operand_t *o,
                    unsigned which); /* 0: unknown */
/* Does an iteration of the loop go on by what grows with the grid? */
bool cpu_loop_strides_grid(const cpu_analysis_t *a, uint32_t loop);

bool cpu_form_uniform(const cpu_form_t *form);
bool cpu_form_equal(const cpu_form_t *x, const cpu_form_t *y);
static inline bool cpu_form_affine(const cpu_form_t *form)
{
    return form->tag == CPU_FORM_AFFINE;
}

/* How an operand varies: registers, immediates, special registers, addresses of variables. */
cpu_form_t cpu_operand_form(const cpu_analysis_t *a, const ptx_operand_t *o);
bool cpu_operand_per_strip(const cpu_analysis_t *a, const ptx_operand_t *o);
cpu_rest_t cpu_operand_rest(const cpu_analysis_t *a, const ptx_operand_t *o); /* of the base */
uint64_t cpu_operand_align(const cpu_analysis_t *a, const ptx_operand_t *o);
uint64_t cpu_operand_high(const cpu_analysis_t *a, const ptx_operand_t *o);
/* Integer constant known at compile time. */
bool cpu_operand_constant(const cpu_analysis_t *a, const ptx_operand_t *o, uint64_t *value);

/* The form that an instruction gives its destinations (never forced), also used when emitting it. */
cpu_form_t cpu_instr_form(const cpu_analysis_t *a, const ptx_instr_t *i);
/* The smallest power of two such that all lanes lie between two neighbouring multiples of it; 0: not
 * known. */
uint64_t cpu_lanes_block(const cpu_analysis_t *a, const ptx_operand_t *x, const cpu_form_t *form);
bool cpu_compare_is_uniform(const cpu_analysis_t *a, const ptx_instr_t *i); /* a setp */
bool cpu_max_is_bound(const cpu_analysis_t *a,
                      const ptx_instr_t *i); /* max(x, c) is c in all lanes */
/* or that adds, because the bits are disjoint. */
bool cpu_or_is_add(const cpu_analysis_t *a, const ptx_instr_t *i);

/* Calls visit(reg) for each register written / read, guards included. */
typedef void (*cpu_reg_visit_fn)(void *context, uint32_t reg);
void cpu_visit_defs(const ptx_function_t *f, const ptx_instr_t *i, cpu_reg_visit_fn visit,
                    void *context);
void cpu_visit_uses(const ptx_function_t *f, const ptx_instr_t *i, cpu_reg_visit_fn visit,
                    void *context);

bool cpu_sreg_needs_warp(uint32_t sreg);
bool cpu_instr_needs_warp(const ptx_instr_t *i);
/* Does it work thread by thread, by means of exchange.h? */
bool cpu_instr_exchanges(const ptx_instr_t *i);
/* Do lanes wait for each other there? Then which source names them. */
bool cpu_instr_syncs_warp(const ptx_instr_t *i, unsigned *members);

static inline uint32_t cpu_reg_bits(const ptx_function_t *f, uint32_t reg)
{
    ptx_type_t t = (ptx_type_t)f->regs[reg].type;
    return t == PTX_PRED ? 1 : ptx_type_size(t) * 8;
}

#endif
