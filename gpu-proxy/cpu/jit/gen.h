/* gen.h - from the analysed kernel to LLVM IR.
 *
 * gen_flow.c     the function: groups, masks, states; gen_parts.c: where lanes may part
 * gen_fast.c     nodes with every lane active; gen_masked.c: with masks
 * gen_value.c    registers and operands as scalars, affine pairs and vectors
 * gen_slot.c     where registers are kept
 * gen_instr.c    which generator an instruction belongs to; guards
 * gen_affine.c   instructions whose result is affine over the lanes
 * gen_int.c      integer arithmetic, logic, shifts, bits
 * gen_bits.c     logic by table, permutations, small dot products, masks; gen_carry.c: carry chains
 * gen_float.c    floating point arithmetic; gen_round.c: with directed rounding
 * gen_quiet.c    registers without signalling NaNs
 * gen_half.c     f16, bf16 and pairs of them
 * gen_math.c     approximations: ex2, lg2, sin, cos, tanh
 * gen_cvt.c      conversions; gen_tiny.c: of 8 bits and fewer
 * gen_video.c    video instructions
 * gen_bound.c    branches on the bound of a loop
 * gen_cmp.c      setp, set, selp, slct, moves
 * gen_mem.c      loads and stores; gen_spaced.c: of every second to fourth element
 * gen_addr.c     addresses and their checks; gen_verify.c: one check for several accesses;
 *                gen_slow.c: what happens when a check fails
 * gen_order.c    the order of a node's instructions
 * gen_home.c     registers that outlast a barrier
 * gen_ahead.c    loops whose addresses are checked ahead; gen_lines.c: how addresses go on
 * gen_tiles.c    loops with barriers fetch what their next iteration loads
 * gen_setup.c    launch values, strips and groups
 * gen_step.c     groups in step, from barrier to barrier
 * gen_barrier.c  leaving and coming back: at barriers; gen_yield.c: in spin loops; gen_context.c
 * gen_atom.c     atomic operations; gen_atom_fast.c: in line, without a helper; gen_narrow.c: at places
 *                that small numbers say
 * gen_sync.c     where the lanes of a warp wait for each other; gen_exchange.c: one by one
 * gen_warp.c     shuffles; gen_vote.c: votes, matches, reductions, elections
 * gen_special.c  clusters of one CTA, address windows, registers that say little
 * gen_packet.c   instructions that a helper does for a strip; gen_async.c: cp and
 *                mbarrier; gen_matrix.c: wmma, mma, ldmatrix, stmatrix, movmatrix
 * gen_tex.c      textures and surfaces
 *
 * Every instruction is generated for one strip at a time (gen->g), as scalar code where its result is
 * the same in all lanes, else on vectors of W lanes. The kernel's body is generated twice where lanes
 * can part: once for groups in which every lane is active (no masks), once with a mask per strip. The
 * first goes over to the second where lanes part, and back where all meet again. */
#ifndef CPU_GEN_H
#define CPU_GEN_H

#include "gpu-proxy/cpu/jit/analysis/analysis.h"
#include "gpu-proxy/cpu/jit/gaps.h"
#include "gpu-proxy/cpu/jit/helpers.h"
#include "gpu-proxy/cpu/jit/jit.h"

#include <llvm-c/Core.h>

typedef LLVMValueRef val_t;
typedef LLVMTypeRef type_t;
typedef LLVMBasicBlockRef block_t;

enum {
    GEN_MAX_STRIPS = CPU_MAX_STRIPS,
    GEN_MAX_EXTENTS = 64,
    GEN_MAX_VERIFIED = 32,
    GEN_TILE_NOTES = 4
};
enum { GEN_STRETCH_BYTES = 1024 }; /* the longest stretch of spaced elements */

typedef struct {
    uint64_t extent, align;
    bool shared;
    val_t limit;
} gen_limit_t;

/* Accesses through one register that one check has covered, in the node being generated. */
typedef struct {
    uint32_t reg;
    unsigned g, size, space;
    int64_t low, high; /* offsets of first lanes: [low, high] */
    bool write;
    val_t fine;    /* i1, or NULL: certainly fine from here on */
    val_t stretch; /* spaced accesses: where the first element of the lowest one is, or a copy */
    const ptx_instr_t *end; /* of these: where a copy may be old */
    unsigned copy;          /* and the number of the copy's buffer */
} gen_verified_t;

/* What a load of a loop with barriers has fetched for the next iteration. */
typedef struct {
    bool used;
    uint32_t node;
    unsigned g;
    uint32_t reg;
    int64_t offset;
} gen_tile_note_t;

typedef struct cpu_gen {
    const cpu_analysis_t *a;
    const ptx_function_t *f;
    const cpu_jit_options_t *options;
    cpu_arena_t *arena;
    cpu_jit_log_t *log;
    bool failed;
    bool avx512;
    unsigned W, G;

    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef b;
    val_t fn;
    block_t entry;
    type_t i1, i8, i16, i32, i64, half, f32, f64, ptr;

    /* of the launch */
    val_t launch, ctx, group, state;
    val_t params, globals, cancel, shared, shared_bytes, local, window_base, window_bytes;
    val_t ctaid[3], nctaid[3], ntid[3];
    val_t column[GEN_MAX_STRIPS], row_y[GEN_MAX_STRIPS], row_z[GEN_MAX_STRIPS];
    val_t linear[GEN_MAX_STRIPS]; /* linear number of lane 0's thread */
    val_t buffer;                 /* scratch of the function: addresses, then 64 bytes per lane */
    gen_limit_t limits[GEN_MAX_EXTENTS];
    unsigned limit_count;
    block_t setup; /* the end of the entry block: where launch values are read */

    /* per register and strip: allocas of the base or vector, and of the inner index; of registers that
     * pass, the value itself, written last */
    val_t *slots, *slots_index;
    val_t *inner, *inner_index; /* of homed registers, within loops without barriers; or NULL */
    val_t seen;                 /* alloca: see gen_keep_in_memory */
    bool *quiet;                /* per register: see gen_quiet.c; NULL: not looked at so far */
    bool *passing; /* per register: never alive where a node begins, so that it needs no alloca */
    /* per node and strip: allocas of waiting lanes; and of lanes behind a barrier */
    val_t *waiting, *arrived;

    /* what is being generated */
    const ptx_instr_t *i;
    uint32_t node;
    unsigned g;
    bool masked;
    val_t masks[GEN_MAX_STRIPS]; /* <W x i1> per strip, when masked */
    val_t mask;                  /* of the present instruction; NULL: every lane */
    bool once;                   /* the present instruction runs once for all strips */
    const ptx_instr_t *later;    /* not to be generated with its node; or NULL */
    val_t guard;                 /* of a pure instruction: where to keep the old value; or NULL */
    gen_verified_t verified[GEN_MAX_VERIFIED];
    unsigned verified_count;
    val_t copies[GEN_MAX_VERIFIED]; /* buffers for copies of stretches; NULL: not needed so far */
    const char **symbols;
    unsigned symbol_count;
    bool uses_local;
    val_t packet; /* slots of gen_packet.c, or NULL: not used so far */
    /* gen_matrix.c: the matrix product generated last, whose operands the helper still has */
    const ptx_instr_t *product;
    uint32_t product_node;
    unsigned product_g;
    bool product_masked;
    struct gen_flow *flow;
    struct gen_ahead **tiles; /* per loop with barriers; or NULL (gen_tiles.c) */
    gen_tile_note_t tile_notes[GEN_TILE_NOTES];
    unsigned tile_note;
    struct gen_ahead *ahead; /* the loop whose quick form is being generated, or NULL */
} cpu_gen_t;

/* Records that something cannot be compiled (once per compilation that matters). */
void gen_fail(cpu_gen_t *gen, const char *why);

/* ---- gen_flow.c ---- */
bool gen_function(cpu_gen_t *gen);
uint32_t gen_state_count(const cpu_gen_t *gen);
uint32_t gen_context_bytes(const cpu_gen_t *gen);
bool gen_spins(const cpu_gen_t *gen); /* in some loop threads may wait for others */
bool gen_steps(const cpu_gen_t *gen); /* groups of a CTA may run in step */
/* Leaves the function with a state if `failed` (i1) holds; goes on in a new block. */
void gen_return_if(cpu_gen_t *gen, val_t failed, val_t state);
block_t gen_block(cpu_gen_t *gen, const char *name);
void gen_goto(cpu_gen_t *gen, block_t block); /* br, and the builder moves there */
val_t gen_alloca(cpu_gen_t *gen, type_t type, unsigned align);
val_t gen_unlikely(cpu_gen_t *gen, val_t branch);

void gen_yield_hint(cpu_gen_t *gen); /* gen_yield.c: nanosleep */

/* gen_merge.c: keeps LLVM from what it does wrong; of the function behind the passes, for AVX-512 */
void gen_part_merges(cpu_gen_t *gen);

/* ---- gen_value.c ---- */
type_t gen_type(cpu_gen_t *gen, unsigned ptx_type);
type_t gen_int(cpu_gen_t *gen, unsigned bits);
type_t gen_vector(cpu_gen_t *gen, type_t element);
type_t gen_shape(cpu_gen_t *gen, type_t element, bool vec); /* the element, or a vector of it */
type_t gen_same(val_t v, type_t element); /* the element, or as many of it as v has */
bool gen_is_vector(val_t v);
type_t gen_element(val_t v);
val_t gen_const(cpu_gen_t *gen, type_t element, bool vec, uint64_t bits); /* integers */
val_t gen_float(cpu_gen_t *gen, type_t element, bool vec, double value);
val_t gen_like(val_t v, uint64_t bits); /* integer constant of v's type */
val_t gen_flike(val_t v, double value);
val_t gen_splat(cpu_gen_t *gen, val_t scalar);
val_t gen_lanes(cpu_gen_t *gen, type_t element, int64_t stride);
val_t gen_bitcast(cpu_gen_t *gen, val_t v, type_t element); /* keeps the shape */
val_t gen_call(cpu_gen_t *gen, const char *intrinsic, type_t *over, unsigned over_count,
               val_t *args, unsigned count);
val_t gen_call1(cpu_gen_t *gen, const char *intrinsic, val_t x);
val_t gen_call2(cpu_gen_t *gen, const char *intrinsic, val_t x, val_t y);
val_t gen_call3(cpu_gen_t *gen, const char *intrinsic, val_t x, val_t y, val_t z);
val_t gen_iota(cpu_gen_t *gen, const uint32_t *indices, unsigned count); /* constant <n x i32> */
val_t gen_bits(cpu_gen_t *gen, val_t mask);      /* <W x i1> to i32, zero-extended */
val_t gen_any(cpu_gen_t *gen, val_t mask);       /* <W x i1> to i1 */
val_t gen_mask_i32(cpu_gen_t *gen);              /* the present mask as i32 */
val_t gen_from_bits(cpu_gen_t *gen, val_t bits); /* i32 to <W x i1> */

/* An operand as a scalar (uniform operands only; of affine ones the base), or as a vector. */
val_t gen_rare_register(cpu_gen_t *gen, uint32_t sreg); /* special registers; gen_special.c */
val_t gen_var_address(cpu_gen_t *gen, uint32_t var);    /* i64, within its space */
val_t gen_read(cpu_gen_t *gen, const ptx_operand_t *o, unsigned ptx_type, bool vec);
val_t gen_src(cpu_gen_t *gen, unsigned n, unsigned ptx_type, bool vec);
val_t gen_base(cpu_gen_t *gen, const ptx_operand_t *o, type_t integer); /* affine: base */
val_t gen_index(cpu_gen_t *gen, const ptx_operand_t *o);                /* affine: i32 */
val_t gen_materialise(cpu_gen_t *gen, const cpu_form_t *form, val_t base, val_t index);
/* Stores a result: scalar or vector of the PTX type, extended to the register. */
void gen_write(cpu_gen_t *gen, const ptx_operand_t *dst, val_t v, unsigned ptx_type);
void gen_write_affine(cpu_gen_t *gen, const ptx_operand_t *dst, const cpu_form_t *form, val_t base,
                      val_t index);
type_t gen_reg_type(cpu_gen_t *gen, uint32_t reg);                     /* of the alloca */
val_t gen_thread_vector(cpu_gen_t *gen, val_t scalar, int64_t stride); /* i32 lanes */

/* ---- gen_slot.c: registers as they are kept, for strip gen->g ---- */
void gen_make_slots(cpu_gen_t *gen);
/* The alloca is to stay one: as if others saw it. */
void gen_keep_in_memory(cpu_gen_t *gen, val_t slot);
val_t gen_slot(cpu_gen_t *gen, uint32_t reg, unsigned g); /* not of registers that pass */
bool gen_uses_inner(const cpu_gen_t *gen, uint32_t reg);  /* in gen->node */
val_t gen_slot_index(cpu_gen_t *gen, uint32_t reg, unsigned g);
val_t gen_slot_load(cpu_gen_t *gen, type_t type, val_t slot);
void gen_slot_store(cpu_gen_t *gen, val_t v, val_t slot);
val_t gen_load_slot(cpu_gen_t *gen, uint32_t reg, type_t t);
void gen_store_slot(cpu_gen_t *gen, uint32_t reg, val_t v);
val_t gen_load_index(cpu_gen_t *gen, uint32_t reg);
void gen_store_index(cpu_gen_t *gen, uint32_t reg, val_t v);

/* ---- instructions: each generates gen->i for strip gen->g ---- */
void gen_instr(cpu_gen_t *gen, const ptx_instr_t *i); /* for all strips, with its guard */
bool gen_instr_is_pure(const ptx_instr_t *i);         /* only writes registers */
void gen_affine(cpu_gen_t *gen, const cpu_form_t *form);
void gen_integer(cpu_gen_t *gen, bool vec);
void gen_bits32(cpu_gen_t *gen, bool vec); /* lop3, prmt, dp4a, dp2a, fns, szext, bmsk */
void gen_video(cpu_gen_t *gen, bool vec);
void gen_carry(cpu_gen_t *gen, bool vec);
void gen_floating(cpu_gen_t *gen, bool vec);
void gen_convert(cpu_gen_t *gen, bool vec);
void gen_compare(cpu_gen_t *gen, bool vec);
LLVMIntPredicate gen_int_predicate(unsigned cmp, bool sign); /* gen_cmp.c */
void gen_move(cpu_gen_t *gen, bool vec);
void gen_special(cpu_gen_t *gen, bool vec);
void gen_load(cpu_gen_t *gen);
val_t gen_given(cpu_gen_t *gen, uint32_t reg);     /* a register that is a parameter */
enum { GEN_SECOND_CACHE = 2, GEN_ALL_CACHES = 3 }; /* how near a line is fetched */
void gen_prefetch(cpu_gen_t *gen, val_t pointer, unsigned near); /* what will be read */
void gen_store(cpu_gen_t *gen);
void gen_atomic(cpu_gen_t *gen);
bool gen_atomic_fast(cpu_gen_t *gen); /* false: not for this one */
void gen_warp(cpu_gen_t *gen);
void gen_vote(cpu_gen_t *gen);
void gen_runtime(cpu_gen_t *gen); /* gen_runtime.c */
void gen_asynchronous(cpu_gen_t *gen);
void gen_matrix(cpu_gen_t *gen);
void gen_texture(cpu_gen_t *gen); /* textures and surfaces: gen_tex.c */
void gen_trap(cpu_gen_t *gen);
void gen_fence(cpu_gen_t *gen);
void gen_barrier_arrive(cpu_gen_t *gen);

/* Floating-point pieces that several files need. */
val_t gen_flush(cpu_gen_t *gen, val_t x); /* subnormals to zero, sign kept */
val_t gen_saturate(cpu_gen_t *gen, val_t x);
val_t gen_math(cpu_gen_t *gen, unsigned op, val_t x);            /* f32 */
val_t gen_to_f32(cpu_gen_t *gen, val_t bits, unsigned ptx_type); /* from f16/bf16 bits (i16) */
val_t gen_from_f32(cpu_gen_t *gen, val_t x, unsigned ptx_type, bool toward_zero);
val_t gen_multiply(cpu_gen_t *gen, val_t x, val_t y); /* as gen->i's mode and type say */
val_t gen_divide(cpu_gen_t *gen, val_t x, val_t y, bool sign, bool remainder);

/* ---- gen_addr.c ---- */
typedef struct {
    const ptx_operand_t *o;
    cpu_form_t form; /* of the base register; uniform without one */
    val_t first;     /* i64: address in its space of lane 0, if the form is affine; else NULL */
    val_t whole;     /* i1: the inner sum does not wrap over the lanes; NULL: there is none */
    int64_t stride;  /* bytes from lane to lane, if affine and whole */
    unsigned space;  /* ptx_space_t */
    unsigned bytes, count; /* of an element; elements */
    bool write;
    bool covered; /* certainly fine: checked ahead */
} gen_addr_t;

/* What the function's buffer holds, in bytes. */
enum { BUFFER_ADDRESSES = 0, BUFFER_A = 256, BUFFER_B = 512, BUFFER_OLD = 768, BUFFER_DATA = 1024 };
enum { BUFFER_BYTES = BUFFER_DATA + 32 * 64 };

gen_addr_t gen_address(cpu_gen_t *gen, const ptx_operand_t *o, unsigned ptx_type, unsigned count,
                       bool write);
bool gen_address_uniform(const cpu_gen_t *gen, const gen_addr_t *a);
bool gen_address_contiguous(const cpu_gen_t *gen, const gen_addr_t *a);
/* Elements from lane to lane, if they are few and none between is far; else 0. */
unsigned gen_address_spacing(const cpu_gen_t *gen, const gen_addr_t *a);
/* Checked host pointer for a uniform access. */
val_t gen_checked_scalar(cpu_gen_t *gen, const gen_addr_t *a);
/* Checked pointer to the strip's elements in lane order; may be a copy of them. */
val_t gen_checked_strip(cpu_gen_t *gen, const gen_addr_t *a);
/* The same for a store of `values` (lane order): where the slow way has stored them already, control
 * goes to `done`. */
val_t gen_checked_store(cpu_gen_t *gen, const gen_addr_t *a, val_t values, block_t done);
/* Checked host addresses, <W x i64> or i64 if W is 1; harmless ones in inactive lanes. */
val_t gen_checked_lanes(cpu_gen_t *gen, const gen_addr_t *a);
val_t gen_addresses(cpu_gen_t *gen, const gen_addr_t *a); /* exact, in their space */
/* Checks such addresses of the active lanes. */
void gen_check_lanes(cpu_gen_t *gen, const gen_addr_t *a, val_t addresses);
uint32_t gen_access(const gen_addr_t *a);
/* ---- gen_narrow.c: places in the kernel's own shared memory that are base + scale * a small number */
typedef struct {
    val_t base;     /* i64 */
    uint64_t scale; /* 1, 2, 4 or 8 */
    unsigned bits;  /* of the numbers: 8 or 16 */
    val_t places;   /* the numbers, a vector of such integers */
} gen_narrow_t;

/* Are the lanes' addresses such, aligned and inside for sure? Then the access needs no check. */
bool gen_narrow_find(cpu_gen_t *gen, const gen_addr_t *a, gen_narrow_t *n);
/* ---- gen_verify.c: one check for several accesses ---- */
/* The check that covers the access; made here if it is the first of several. NULL: the caller must
 * check by itself. */
const gen_verified_t *gen_verify(cpu_gen_t *gen, const gen_addr_t *a);
void gen_verify_reset(cpu_gen_t *gen);                /* at the start of a node */
void gen_verify_forget(cpu_gen_t *gen, uint32_t reg); /* the register has a new value */
val_t gen_fast_check(cpu_gen_t *gen, const gen_addr_t *a, val_t address, uint64_t extent);
/* A spaced strip: one wide load for all accesses that a check covers, then a shuffle (gen_spaced.c).
 * False: do it lane by lane. */
bool gen_load_spaced(cpu_gen_t *gen, const gen_addr_t *a, type_t elem, val_t *out);
val_t gen_to_pointer(cpu_gen_t *gen, const gen_addr_t *a, val_t address);
/* ---- gen_slow.c: calls of the helpers that look at every lane; they leave the function on a fault */
/* check_strip, gather or scatter for an affine access; data is in the buffer. */
void gen_slow_strip(cpu_gen_t *gen, const gen_addr_t *a, size_t helper);
/* check_strip at several offsets from the base register. */
void gen_slow_offsets(cpu_gen_t *gen, const gen_addr_t *a, bool write, const int64_t *offsets,
                      unsigned count);
/* The elements of spaced accesses, as they lie in memory, to a buffer. */
void gen_slow_stretch(cpu_gen_t *gen, const gen_addr_t *a, const int64_t *offsets, unsigned count,
                      val_t copy);
void gen_slow_lanes(cpu_gen_t *gen, const gen_addr_t *a, val_t addresses);
val_t gen_address_base(cpu_gen_t *gen, const ptx_operand_t *o, bool vec); /* i64, without offset */
unsigned gen_address_bits(const cpu_gen_t *gen, const ptx_operand_t *o);
val_t gen_buffer(cpu_gen_t *gen, uint64_t offset);
val_t gen_offset(cpu_gen_t *gen, val_t pointer, uint64_t offset);
val_t gen_helper(cpu_gen_t *gen, size_t offset, type_t *type, val_t *args, unsigned count);
val_t gen_strip_number(cpu_gen_t *gen, unsigned g);       /* i32, as helpers want it */
unsigned gen_align(const cpu_gen_t *gen, unsigned bytes); /* that accesses may rely on */

#endif
