/* Atomic operations in line, of strips of several lanes.
 *
 * A CTA runs on one thread and nobody else reaches its shared memory, so an operation on shared memory
 * is a load, an operation and a store; elsewhere it is the processor's atomic instruction.
 *   - One address for all lanes, known at compile time: what lanes bring is summed up in the vector, and
 *     one operation goes to memory. The old values are sums over the lanes below.
 *   - Shared memory with every lane active: an operation for each lane, unrolled.
 *   - All else: a loop over the active lanes.
 * Lanes take their turn in order; the helper (gen_atom.c) does the same, and serves W = 1. */
#include "gpu-proxy/cpu/jit/gen.h"

#define B gen->b

typedef struct {
    const ptx_instr_t *i;
    gen_addr_t a;
    type_t type; /* of a value in memory */
    bool shared, old;
    val_t sources[2]; /* scalars where they are the same in all lanes, else vectors */
} atom_t;

static void look_for(void *context, uint32_t reg)
{
    uint32_t *wanted = context;
    *wanted = reg == *wanted ? PTX_NONE : *wanted;
}

/* Does any instruction read the result? */
static bool is_read(const cpu_gen_t *gen, const ptx_instr_t *i)
{
    if (i->op == PTX_OP_RED || i->dst_count == 0) {
        return false;
    }
    const ptx_operand_t *d = ptx_dst(gen->f, i, 0);
    uint32_t wanted = d->kind == PTX_OPERAND_REG ? d->index : PTX_NONE;
    if (wanted == PTX_NONE) {
        return d->kind != PTX_OPERAND_SINK;
    }
    for (uint32_t n = 0; n < gen->f->instr_count && wanted != PTX_NONE; n++) {
        cpu_visit_uses(gen->f, &gen->f->instrs[n], look_for, &wanted);
    }
    return wanted == PTX_NONE;
}

static bool is_signed(const atom_t *x)
{
    return ptx_type_is_signed((ptx_type_t)x->i->type);
}

static bool is_float(const atom_t *x)
{
    return ptx_type_is_float((ptx_type_t)x->i->type);
}

static val_t lane_of(cpu_gen_t *gen, val_t v, val_t lane)
{
    return gen_is_vector(v) ? LLVMBuildExtractElement(B, v, lane, "") : v;
}

/* ---- one operation on memory, of scalars ---- */

static val_t choose(cpu_gen_t *gen, LLVMIntPredicate p, val_t x, val_t y)
{
    return LLVMBuildSelect(B, LLVMBuildICmp(B, p, x, y, ""), x, y, "");
}

/* The new value of a cell. */
static val_t combine(cpu_gen_t *gen, const atom_t *x, val_t old, val_t v, val_t other)
{
    switch (x->i->mode) {
    case PTX_ATOM_ADD:
        return is_float(x) ? LLVMBuildFAdd(B, old, v, "") : LLVMBuildAdd(B, old, v, "");
    case PTX_ATOM_MIN:
        return choose(gen, is_signed(x) ? LLVMIntSLT : LLVMIntULT, v, old);
    case PTX_ATOM_MAX:
        return choose(gen, is_signed(x) ? LLVMIntSGT : LLVMIntUGT, v, old);
    case PTX_ATOM_AND:
        return LLVMBuildAnd(B, old, v, "");
    case PTX_ATOM_OR:
        return LLVMBuildOr(B, old, v, "");
    case PTX_ATOM_XOR:
        return LLVMBuildXor(B, old, v, "");
    case PTX_ATOM_EXCH:
        return v;
    case PTX_ATOM_CAS:
        return LLVMBuildSelect(B, LLVMBuildICmp(B, LLVMIntEQ, old, v, ""), other, old, "");
    case PTX_ATOM_INC: {
        val_t next = LLVMBuildAdd(B, old, gen_like(old, 1), "");
        return LLVMBuildSelect(B, LLVMBuildICmp(B, LLVMIntUGE, old, v, ""), gen_like(old, 0), next,
                               "");
    }
    default: { /* PTX_ATOM_DEC */
        val_t zero = LLVMBuildICmp(B, LLVMIntEQ, old, gen_like(old, 0), "");
        val_t above = LLVMBuildICmp(B, LLVMIntUGT, old, v, "");
        val_t next = LLVMBuildSub(B, old, gen_like(old, 1), "");
        return LLVMBuildSelect(B, LLVMBuildOr(B, zero, above, ""), v, next, "");
    }
    }
}

static LLVMAtomicRMWBinOp operation(const atom_t *x)
{
    switch (x->i->mode) {
    case PTX_ATOM_ADD:
        return is_float(x) ? LLVMAtomicRMWBinOpFAdd : LLVMAtomicRMWBinOpAdd;
    case PTX_ATOM_MIN:
        return is_signed(x) ? LLVMAtomicRMWBinOpMin : LLVMAtomicRMWBinOpUMin;
    case PTX_ATOM_MAX:
        return is_signed(x) ? LLVMAtomicRMWBinOpMax : LLVMAtomicRMWBinOpUMax;
    case PTX_ATOM_AND:
        return LLVMAtomicRMWBinOpAnd;
    case PTX_ATOM_OR:
        return LLVMAtomicRMWBinOpOr;
    case PTX_ATOM_XOR:
        return LLVMAtomicRMWBinOpXor;
    case PTX_ATOM_INC:
        return LLVMAtomicRMWBinOpUIncWrap;
    case PTX_ATOM_DEC:
        return LLVMAtomicRMWBinOpUDecWrap;
    default:
        return LLVMAtomicRMWBinOpXchg;
    }
}

/* Gives the old value. */
static val_t on_memory(cpu_gen_t *gen, const atom_t *x, val_t p, val_t v, val_t other)
{
    const LLVMAtomicOrdering order = LLVMAtomicOrderingSequentiallyConsistent;
    unsigned align = ptx_type_size((ptx_type_t)x->i->type);
    if (x->shared) {
        val_t old = LLVMBuildLoad2(B, x->type, p, "");
        LLVMSetAlignment(old, align);
        LLVMSetAlignment(LLVMBuildStore(B, combine(gen, x, old, v, other), p), align);
        return old;
    }
    if (x->i->mode == PTX_ATOM_CAS) {
        val_t pair = LLVMBuildAtomicCmpXchg(B, p, v, other, order, order, 0);
        return LLVMBuildExtractValue(B, pair, 0, "");
    }
    return LLVMBuildAtomicRMW(B, operation(x), p, v, order, 0);
}

/* ---- one address for all lanes ---- */

static bool can_join(const atom_t *x)
{
    switch (x->i->mode) {
    case PTX_ATOM_ADD:
        return !is_float(x); /* sums of floats depend on their order */
    case PTX_ATOM_MIN:
    case PTX_ATOM_MAX:
    case PTX_ATOM_AND:
    case PTX_ATOM_OR:
    case PTX_ATOM_XOR:
        return !x->old;
    default:
        return false;
    }
}

/* What a lane brings that changes nothing. */
static uint64_t neutral(const atom_t *x)
{
    unsigned bits = ptx_type_size((ptx_type_t)x->i->type) * 8;
    uint64_t ones = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1, top = ones / 2 + 1;
    switch (x->i->mode) {
    case PTX_ATOM_MIN:
        return is_signed(x) ? top - 1 : ones;
    case PTX_ATOM_MAX:
        return is_signed(x) ? top : 0;
    case PTX_ATOM_AND:
        return ones;
    default:
        return 0;
    }
}

static const char *reduction(const atom_t *x)
{
    switch (x->i->mode) {
    case PTX_ATOM_ADD:
        return "llvm.vector.reduce.add";
    case PTX_ATOM_MIN:
        return is_signed(x) ? "llvm.vector.reduce.smin" : "llvm.vector.reduce.umin";
    case PTX_ATOM_MAX:
        return is_signed(x) ? "llvm.vector.reduce.smax" : "llvm.vector.reduce.umax";
    case PTX_ATOM_AND:
        return "llvm.vector.reduce.and";
    case PTX_ATOM_OR:
        return "llvm.vector.reduce.or";
    default:
        return "llvm.vector.reduce.xor";
    }
}

/* Lane l gets v[0] + ... + v[l - 1]. */
static val_t sums_below(cpu_gen_t *gen, val_t v)
{
    val_t zero = LLVMConstNull(LLVMTypeOf(v)), sum = v;
    uint32_t at[32];
    for (unsigned by = 1; by < gen->W; by *= 2) {
        for (unsigned l = 0; l < gen->W; l++) {
            at[l] = l < by ? gen->W : l - by; /* the first of `zero`, or the lane below */
        }
        val_t below = LLVMBuildShuffleVector(B, sum, zero, gen_iota(gen, at, gen->W), "");
        sum = LLVMBuildAdd(B, sum, below, "");
    }
    return LLVMBuildSub(B, sum, v, "");
}

static val_t joined(cpu_gen_t *gen, const atom_t *x)
{
    val_t p = gen_checked_scalar(gen, &x->a), v = gen_splat(gen, x->sources[0]);
    if (!gen_is_vector(x->sources[0]) && gen->mask == NULL && !x->old &&
        x->i->mode != PTX_ATOM_ADD && x->i->mode != PTX_ATOM_XOR) {
        return on_memory(gen, x, p, x->sources[0], NULL);
    }
    if (gen->mask != NULL) {
        v = LLVMBuildSelect(B, gen->mask, v, gen_like(v, neutral(x)), "");
    }
    val_t old = on_memory(gen, x, p, gen_call1(gen, reduction(x), v), NULL);
    return x->old ? LLVMBuildAdd(B, gen_splat(gen, old), sums_below(gen, v), "") : NULL;
}

/* ---- lane by lane ---- */

enum { PAIR = 2, AT_ONCE = 8 };

/* The addresses of all lanes as offsets of 32 bits, which those inside of shared memory have. The way out of
 * the vector registers is narrow. AVX-512: two leave at a time. AVX2: through memory. */
static val_t narrowed(cpu_gen_t *gen, val_t at)
{
    at = LLVMBuildTrunc(B, at, gen_vector(gen, gen->i32), "");
    if (gen->avx512) {
        return LLVMBuildBitCast(B, at, LLVMVectorType(gen->i64, gen->W / 2), "");
    }
    val_t store = LLVMBuildStore(B, at, gen_buffer(gen, BUFFER_ADDRESSES));
    LLVMSetAlignment(store, 64);
    LLVMSetVolatile(store, 1); /* else they would be taken from the vector after all */
    return at;
}

/* Offsets of `count` lanes, as i64. From memory some come at a time: between the operations they would wait
 * for the addresses that these store to. */
static void take_offsets(cpu_gen_t *gen, val_t all, unsigned first, unsigned count, val_t *offsets)
{
    for (unsigned l = first; l < first + count && l < gen->W; l++) {
        val_t v;
        if (gen->avx512) {
            v = LLVMBuildExtractElement(B, all, LLVMConstInt(gen->i64, l / 2, 0), "");
            v = l % 2 == 0 ? LLVMBuildAnd(B, v, gen_like(v, UINT32_MAX), "")
                           : LLVMBuildLShr(B, v, gen_like(v, 32), "");
        } else {
            v = LLVMBuildLoad2(B, gen->i32, gen_buffer(gen, BUFFER_ADDRESSES + 4 * l), "");
            LLVMSetVolatile(v, 1);
            v = LLVMBuildZExt(B, v, gen->i64, "");
        }
        offsets[l - first] = v;
    }
}

/* Every lane active, and the lanes' places are small numbers: they come out many at a time, and are sure to be
 * right. */
static val_t narrow(cpu_gen_t *gen, const atom_t *x, const gen_narrow_t *n)
{
    unsigned each = n->bits == 8 ? 8 : 4; /* places of a word of 64 bits */
    val_t words = LLVMBuildBitCast(B, n->places, LLVMVectorType(gen->i64, gen->W / each), "");
    val_t old = LLVMGetPoison(gen_vector(gen, x->type)), word = NULL;
    val_t first = n->base, base = LLVMBuildGEP2(B, gen->i8, gen->shared, &first, 1, "");
    for (unsigned l = 0; l < gen->W; l++) {
        val_t lane = LLVMConstInt(gen->i64, l, 0);
        word = l % each != 0
                   ? word
                   : LLVMBuildExtractElement(B, words, LLVMConstInt(gen->i64, l / each, 0), "");
        val_t at = LLVMBuildLShr(B, word, gen_like(word, l % each * n->bits), "");
        at = LLVMBuildAnd(B, at, gen_like(at, ((uint64_t)1 << n->bits) - 1), "");
        at = LLVMBuildMul(B, at, gen_like(at, n->scale), "");
        val_t p = LLVMBuildGEP2(B, gen->i8, base, &at, 1, "");
        val_t other = x->sources[1] != NULL ? lane_of(gen, x->sources[1], lane) : NULL;
        val_t was = on_memory(gen, x, p, lane_of(gen, x->sources[0], lane), other);
        old = x->old ? LLVMBuildInsertElement(B, old, was, lane, "") : old;
    }
    return x->old ? old : NULL;
}

/* Every lane active. */
static val_t unrolled(cpu_gen_t *gen, const atom_t *x)
{
    val_t old = LLVMGetPoison(gen_vector(gen, x->type));
    val_t offsets[AT_ONCE];
    gen_narrow_t n;
    if (gen_narrow_find(gen, &x->a, &n)) {
        return narrow(gen, x, &n);
    }
    unsigned count = gen->avx512 ? PAIR : AT_ONCE;
    val_t at = gen_addresses(gen, &x->a);
    gen_check_lanes(gen, &x->a, at);
    at = narrowed(gen, at);
    for (unsigned l = 0; l < gen->W; l++) {
        if (l % count == 0) {
            take_offsets(gen, at, l, count, offsets);
        }
        val_t lane = LLVMConstInt(gen->i64, l, 0);
        val_t p = LLVMBuildGEP2(B, gen->i8, gen->shared, &offsets[l % count], 1, "");
        val_t v = lane_of(gen, x->sources[0], lane);
        val_t other = x->sources[1] != NULL ? lane_of(gen, x->sources[1], lane) : NULL;
        val_t was = on_memory(gen, x, p, v, other);
        old = x->old ? LLVMBuildInsertElement(B, old, was, lane, "") : old;
    }
    return x->old ? old : NULL;
}

/* A value of each lane, in the buffer; scalars stay what they are. */
static void put(cpu_gen_t *gen, val_t v, uint64_t offset)
{
    if (v != NULL && gen_is_vector(v)) {
        LLVMSetAlignment(LLVMBuildStore(B, v, gen_buffer(gen, offset)), 64);
    }
}

static val_t place(cpu_gen_t *gen, type_t type, uint64_t offset, val_t lane)
{
    return LLVMBuildGEP2(B, type, gen_buffer(gen, offset), &lane, 1, "");
}

static val_t take(cpu_gen_t *gen, const atom_t *x, val_t source, uint64_t offset, val_t lane)
{
    if (source == NULL || !gen_is_vector(source)) {
        return source;
    }
    return LLVMBuildLoad2(B, x->type, place(gen, x->type, offset, lane), "");
}

static val_t looped(cpu_gen_t *gen, const atom_t *x)
{
    val_t first = gen_mask_i32(gen);
    put(gen, gen_checked_lanes(gen, &x->a), BUFFER_ADDRESSES);
    put(gen, x->sources[0], BUFFER_A);
    put(gen, x->sources[1], BUFFER_B);
    block_t test = gen_block(gen, ""), turn = gen_block(gen, "lane"), done = gen_block(gen, "");
    block_t before = LLVMGetInsertBlock(B);
    gen_goto(gen, test);
    val_t left = LLVMBuildPhi(B, gen->i32, "");
    LLVMBuildCondBr(B, LLVMBuildICmp(B, LLVMIntNE, left, gen_like(left, 0), ""), turn, done);
    LLVMPositionBuilderAtEnd(B, turn);
    val_t args[2] = {left, LLVMConstInt(gen->i1, 1, 0)};
    val_t lane = gen_call(gen, "llvm.cttz", &gen->i32, 1, args, 2);
    lane = LLVMBuildZExt(B, lane, gen->i64, "");
    val_t p = LLVMBuildLoad2(B, gen->i64, place(gen, gen->i64, BUFFER_ADDRESSES, lane), "");
    p = LLVMBuildIntToPtr(B, p, gen->ptr, "");
    val_t v = take(gen, x, x->sources[0], BUFFER_A, lane);
    val_t other = take(gen, x, x->sources[1], BUFFER_B, lane);
    val_t old = on_memory(gen, x, p, v, other);
    if (x->old) {
        LLVMBuildStore(B, old, place(gen, x->type, BUFFER_OLD, lane));
    }
    val_t rest = LLVMBuildAnd(B, left, LLVMBuildSub(B, left, gen_like(left, 1), ""), "");
    LLVMAddIncoming(left, (val_t[]){first, rest}, (block_t[]){before, turn}, 2);
    LLVMBuildBr(B, test);
    LLVMPositionBuilderAtEnd(B, done);
    if (!x->old) {
        return NULL;
    }
    old = LLVMBuildLoad2(B, gen_vector(gen, x->type), gen_buffer(gen, BUFFER_OLD), "");
    LLVMSetAlignment(old, 64);
    return old;
}

static val_t source(cpu_gen_t *gen, unsigned n)
{
    const ptx_operand_t *o = ptx_src(gen->f, gen->i, n);
    cpu_form_t form = cpu_operand_form(gen->a, o);
    return gen_read(gen, o, gen->i->type, !cpu_form_uniform(&form));
}

bool gen_atomic_fast(cpu_gen_t *gen)
{
    enum { CELL = 4 };
    const ptx_instr_t *i = gen->i;
    unsigned bytes = ptx_type_size((ptx_type_t)i->type);
    if (gen->W == 1 || bytes < 4) {
        return false;
    }
    atom_t x = {.i = i,
                .a = gen_address(gen, ptx_src(gen->f, i, 0), i->type, 1, true),
                .type = gen_type(gen, i->type),
                .shared = i->space == PTX_SPACE_SHARED,
                .old = is_read(gen, i)};
    x.sources[0] = source(gen, 1);
    x.sources[1] = i->mode == PTX_ATOM_CAS ? source(gen, 2) : NULL;
    val_t old = gen_address_uniform(gen, &x.a) && can_join(&x)   ? joined(gen, &x)
                : x.shared && gen->mask == NULL && bytes == CELL ? unrolled(gen, &x)
                                                                 : looped(gen, &x);
    if (x.old) {
        old = gen_bitcast(gen, old, gen_int(gen, bytes * 8));
        gen_write(gen, ptx_dst(gen->f, i, 0), old, bytes == 4 ? PTX_U32 : PTX_U64);
    }
    return true;
}
