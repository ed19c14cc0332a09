/* Floating point arithmetic of f32 and f64: IEEE, with PTX's rounding, ftz and sat. */
#include "gpu-proxy/cpu/jit/gen_float.h"

#include <math.h>

#define B gen->b

val_t gen_flush(cpu_gen_t *gen, val_t x)
{
    bool single = gen_element(x) == gen->f32;
    val_t tiny = gen_flike(x, single ? 0x1p-126 : 0x1p-1022);
    val_t small = LLVMBuildFCmp(B, LLVMRealOLT, gen_call1(gen, "llvm.fabs", x), tiny, "");
    val_t zero = gen_call2(gen, "llvm.copysign", gen_flike(x, 0.0), x);
    return LLVMBuildSelect(B, small, zero, x, "");
}

/* To [0, 1]; NaN becomes 0. */
val_t gen_saturate(cpu_gen_t *gen, val_t x)
{
    val_t zero = gen_flike(x, 0.0), one = gen_flike(x, 1.0);
    val_t above = LLVMBuildFCmp(B, LLVMRealOGT, x, zero, "");
    x = LLVMBuildSelect(B, above, x, zero, "");
    val_t below = LLVMBuildFCmp(B, LLVMRealOLT, x, one, "");
    return LLVMBuildSelect(B, below, x, one, "");
}

static val_t to_f64(cpu_gen_t *gen, val_t x)
{
    return gen_element(x) == gen->f64 ? x : LLVMBuildFPExt(B, x, gen_same(x, gen->f64), "");
}

/* The f32 next to r, one step toward minus infinity, plus infinity or zero. */
static val_t step(cpu_gen_t *gen, val_t r, unsigned round)
{
    val_t bits = gen_bitcast(gen, r, gen->i32);
    val_t zero = LLVMBuildFCmp(B, LLVMRealOEQ, r, gen_flike(r, 0.0), "");
    val_t negative = LLVMBuildICmp(B, LLVMIntSLT, bits, gen_like(bits, 0), "");
    val_t out = LLVMBuildAdd(B, bits, gen_like(bits, 1), "");
    val_t in = LLVMBuildSub(B, bits, gen_like(bits, 1), "");
    val_t v;
    if (round == PTX_ROUND_RZ) {
        v = in;
    } else {
        bool down = round == PTX_ROUND_RM;
        v = LLVMBuildSelect(B, negative, down ? out : in, down ? in : out, "");
        v = LLVMBuildSelect(B, zero, gen_like(bits, down ? 0x80000001u : 1), v, "");
    }
    return gen_bitcast(gen, v, gen->f32);
}

/* s + error (both f64, |error| below half an ulp of s) to f32, in the direction asked for. */
val_t gen_directed(cpu_gen_t *gen, val_t s, val_t error, unsigned round)
{
    val_t r = LLVMBuildFPTrunc(B, s, gen_same(s, gen->f32), "");
    val_t back = to_f64(gen, r), zero = gen_flike(s, 0.0);
    val_t above = LLVMBuildFCmp(B, LLVMRealOGT, back, s, "");
    val_t below = LLVMBuildFCmp(B, LLVMRealOLT, back, s, "");
    if (error != NULL) {
        val_t same = LLVMBuildFCmp(B, LLVMRealOEQ, back, s, "");
        val_t minus = LLVMBuildFCmp(B, LLVMRealOLT, error, zero, "");
        val_t plus = LLVMBuildFCmp(B, LLVMRealOGT, error, zero, "");
        above = LLVMBuildOr(B, above, LLVMBuildAnd(B, same, minus, ""), "");
        below = LLVMBuildOr(B, below, LLVMBuildAnd(B, same, plus, ""), "");
    }
    val_t wrong;
    if (round == PTX_ROUND_RM) {
        wrong = above;
    } else if (round == PTX_ROUND_RP) {
        wrong = below;
    } else {
        val_t positive = LLVMBuildFCmp(B, LLVMRealOGT, back, zero, "");
        wrong = LLVMBuildSelect(B, positive, above, below, "");
        val_t nothing = LLVMBuildFCmp(B, LLVMRealOEQ, back, zero, "");
        wrong = LLVMBuildAnd(B, wrong, LLVMBuildNot(B, nothing, ""), "");
    }
    return LLVMBuildSelect(B, wrong, step(gen, r, round), r, "");
}

static val_t part_of(cpu_gen_t *gen, val_t v, unsigned half)
{
    uint32_t at[GEN_ZMM];
    for (unsigned l = 0; l < GEN_ZMM; l++) {
        at[l] = half * GEN_ZMM + l;
    }
    return LLVMBuildShuffleVector(B, v, LLVMGetPoison(LLVMTypeOf(v)), gen_iota(gen, at, GEN_ZMM),
                                  "");
}

bool gen_has_zmm(const cpu_gen_t *gen, val_t x)
{
    return gen->avx512 && gen_is_vector(x) && gen->W % GEN_ZMM == 0 &&
           LLVMGetVectorSize(LLVMTypeOf(x)) == gen->W; /* pairs have twice as many */
}

val_t gen_by_zmm(cpu_gen_t *gen, val_t (*f)(cpu_gen_t *, val_t, val_t), val_t x, val_t y)
{
    uint32_t at[2 * GEN_ZMM];
    if (gen->W == GEN_ZMM) {
        return f(gen, x, y);
    }
    for (unsigned l = 0; l < 2 * GEN_ZMM; l++) {
        at[l] = l;
    }
    val_t low = f(gen, part_of(gen, x, 0), part_of(gen, y, 0));
    val_t high = f(gen, part_of(gen, x, 1), part_of(gen, y, 1));
    return LLVMBuildShuffleVector(B, low, high, gen_iota(gen, at, 2 * GEN_ZMM), "");
}

static bool is_directed(const ptx_instr_t *i)
{
    return i->round == PTX_ROUND_RZ || i->round == PTX_ROUND_RM || i->round == PTX_ROUND_RP;
}

/* One NaN gives the other operand, unless it signals; -0 is below +0. */
static val_t vrange(cpu_gen_t *gen, val_t x, val_t y)
{
    enum { MIN = 4, MAX = 5 /* with the sign of the larger or smaller one */ };
    val_t all = LLVMConstInt(gen->i16, UINT16_MAX, 0), current = LLVMConstInt(gen->i32, 4, 0);
    val_t mode = LLVMConstInt(gen->i32, gen->i->op == PTX_OP_MAX ? MAX : MIN, 0);
    return gen_call(gen, "llvm.x86.avx512.mask.range.ps.512", NULL, 0,
                    (val_t[]){x, y, mode, x, all, current}, 6);
}

/* A signalling NaN becomes a quiet one, all else stays. With its rounding said the sum is not taken for
 * one that changes nothing. */
static val_t quieted(cpu_gen_t *gen, val_t x, val_t minus_zero)
{
    enum { NEAREST = 8 };
    return gen_call(gen, "llvm.x86.avx512.add.ps.512", NULL, 0,
                    (val_t[]){x, minus_zero, LLVMConstInt(gen->i32, NEAREST, 0)}, 3);
}

/* Is it constant, and such that what compares as larger (or smaller) is the result: a number, and not the
 * zero that yields to the other one? */
static bool is_plain_limit(val_t v, bool max)
{
    bool vector = gen_is_vector(v), plain = LLVMIsConstant(v);
    for (unsigned l = 0; plain && l < (vector ? LLVMGetVectorSize(LLVMTypeOf(v)) : 1); l++) {
        val_t e = vector ? LLVMGetAggregateElement(v, l) : v;
        LLVMBool lost;
        double d = e != NULL && LLVMIsAConstantFP(e) ? LLVMConstRealGetDouble(e, &lost) : NAN;
        plain = !isnan(d) && (d != 0 || signbit(d) != max);
    }
    return plain;
}

/* `quiet`: bit per operand that is certainly no signalling NaN. */
static val_t extreme(cpu_gen_t *gen, val_t x, val_t y, bool max, unsigned quiet)
{
    LLVMRealPredicate beyond = max ? LLVMRealOGT : LLVMRealOLT;
    bool nan = (gen->i->flags & PTX_F_NAN) != 0;
    if (!nan && is_plain_limit(x, max)) {
        val_t swap = x;
        x = y;
        y = swap;
    }
    if (!nan && is_plain_limit(y, max)) { /* a NaN does not compare, and gives the limit */
        return LLVMBuildSelect(B, LLVMBuildFCmp(B, beyond, x, y, ""), x, y, "");
    }
    if (gen_has_zmm(gen, x) && gen_element(x) == gen->f32 && !nan) {
        val_t zero = gen_flike(x, -0.0);
        x = quiet & 1 ? x : gen_by_zmm(gen, quieted, x, zero);
        y = quiet & 2 ? y : gen_by_zmm(gen, quieted, y, zero);
        return gen_by_zmm(gen, vrange, x, y);
    }
    bool single = gen_element(x) == gen->f32;
    type_t bits = single ? gen->i32 : gen->i64;
    val_t more = LLVMBuildSelect(B, LLVMBuildFCmp(B, beyond, x, y, ""), x, y, "");
    val_t r = LLVMBuildSelect(B, LLVMBuildFCmp(B, LLVMRealUNO, y, y, ""), x, more, "");
    val_t xb = gen_bitcast(gen, x, bits), yb = gen_bitcast(gen, y, bits);
    val_t both = max ? LLVMBuildAnd(B, xb, yb, "") : LLVMBuildOr(B, xb, yb, "");
    val_t same = LLVMBuildFCmp(B, LLVMRealOEQ, x, y, "");
    r = LLVMBuildSelect(B, same, gen_bitcast(gen, both, gen_element(x)), r, "");
    if (nan) {
        val_t no = LLVMBuildFCmp(B, LLVMRealUNO, x, y, "");
        val_t canonical = gen_like(xb, single ? 0x7fffffffu : 0x7fffffffffffffffu);
        r = LLVMBuildSelect(B, no, gen_bitcast(gen, canonical, gen_element(x)), r, "");
    }
    return r;
}

val_t gen_extreme(cpu_gen_t *gen, val_t const *v, unsigned count)
{
    bool max = gen->i->op == PTX_OP_MAX, by_sign = (gen->i->flags & PTX_F_XORSIGN) != 0;
    bool magnitudes = (gen->i->flags & PTX_F_ABS) != 0;
    val_t r = NULL, sign = NULL;
    unsigned first = 0;
    for (unsigned n = 0; n < count; n++) {
        val_t x = v[n];
        if (by_sign) { /* the sign is that of the product */
            val_t bits = gen_bitcast(gen, x, gen_element(x) == gen->f32 ? gen->i32 : gen->i64);
            sign = sign == NULL ? bits : LLVMBuildXor(B, sign, bits, "");
        }
        x = magnitudes ? gen_call1(gen, "llvm.fabs", x) : x;
        bool quiet = gen->i->type == PTX_F32 && gen_source_is_quiet(gen, n);
        r = r == NULL ? x : extreme(gen, r, x, max, first | (quiet ? 2u : 0));
        first = quiet || n > 0;
    }
    return by_sign ? gen_call2(gen, "llvm.copysign", r, gen_bitcast(gen, sign, gen_element(r))) : r;
}

static val_t reciprocal_root(cpu_gen_t *gen, val_t x)
{
    return LLVMBuildFDiv(B, gen_flike(x, 1.0), gen_call1(gen, "llvm.sqrt", x), "");
}

/* approx.ftz.f64 looks at the upper half of its operand and gives the upper half of its result. */
static bool is_gross(const cpu_gen_t *gen)
{
    return gen->i->type == PTX_F64 && (gen->i->flags & PTX_F_APPROX) != 0 &&
           (gen->i->flags & PTX_F_FTZ) != 0;
}

static val_t upper(cpu_gen_t *gen, val_t x)
{
    val_t bits = gen_bitcast(gen, x, gen->i64);
    bits = LLVMBuildAnd(B, bits, gen_like(bits, 0xffffffff00000000), "");
    return gen_bitcast(gen, bits, gen->f64);
}

static val_t compute(cpu_gen_t *gen, val_t const *v)
{
    const ptx_instr_t *i = gen->i;
    val_t x = v[0], y = v[1];
    if (is_directed(i)) {
        return gen_rounded(gen, i->op, i->round, v);
    }
    switch (i->op) {
    case PTX_OP_ADD:
        return LLVMBuildFAdd(B, x, y, "");
    case PTX_OP_SUB:
        return LLVMBuildFSub(B, x, y, "");
    case PTX_OP_MUL:
        return LLVMBuildFMul(B, x, y, "");
    case PTX_OP_DIV:
        return LLVMBuildFDiv(B, x, y, "");
    case PTX_OP_FMA:
    case PTX_OP_MAD:
        return gen_call3(gen, "llvm.fma", x, y, v[2]);
    case PTX_OP_RCP:
        if (is_gross(gen)) {
            return upper(gen, LLVMBuildFDiv(B, gen_flike(x, 1.0), upper(gen, x), ""));
        }
        return LLVMBuildFDiv(B, gen_flike(x, 1.0), x, "");
    case PTX_OP_SQRT:
        return gen_call1(gen, "llvm.sqrt", x);
    case PTX_OP_RSQRT:
        if (is_gross(gen)) {
            return upper(gen, reciprocal_root(gen, upper(gen, x)));
        }
        return reciprocal_root(gen, x);
    case PTX_OP_ABS:
        return gen_call1(gen, "llvm.fabs", x);
    case PTX_OP_NEG:
        return LLVMBuildFNeg(B, x, "");
    case PTX_OP_MIN:
    case PTX_OP_MAX:
        return gen_extreme(gen, v, i->src_count);
    case PTX_OP_COPYSIGN:
        return gen_call2(gen, "llvm.copysign", y, x);
    case PTX_OP_SIN:
    case PTX_OP_COS:
    case PTX_OP_LG2:
    case PTX_OP_EX2:
    case PTX_OP_TANH:
        return gen_math(gen, i->op, x);
    default:
        gen_fail(gen, i->mnemonic);
        return x;
    }
}

/* Operand n: f16 and bf16 in mixed precision, two f32 in one register in f32x2. */
static val_t operand(cpu_gen_t *gen, unsigned n, bool vec)
{
    const ptx_instr_t *i = gen->i;
    if (i->type == PTX_F32X2) {
        val_t pair = gen_src(gen, n, PTX_B64, vec);
        return LLVMBuildBitCast(B, pair, LLVMVectorType(gen->f32, vec ? 2 * gen->W : 2), "");
    }
    if (gen_is_half(i->type2) && n + 1u < i->src_count) {
        return gen_to_f32(gen, gen_src(gen, n, i->type2, vec), i->type2);
    }
    return gen_src(gen, n, i->type, vec);
}

void gen_floating(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    bool ftz = (i->flags & PTX_F_FTZ) != 0, pair = i->type == PTX_F32X2;
    val_t v[3] = {NULL, NULL, NULL};
    for (unsigned n = 0; n < i->src_count && n < 3; n++) {
        v[n] = operand(gen, n, vec);
        if (ftz) {
            v[n] = gen_flush(gen, v[n]);
        }
    }
    val_t r = compute(gen, v);
    if (ftz) {
        r = gen_flush(gen, r);
    }
    if ((i->flags & PTX_F_SAT) != 0) {
        r = gen_saturate(gen, r);
    }
    if (pair) {
        r = LLVMBuildBitCast(B, r, gen_shape(gen, gen->i64, vec), "");
    }
    gen_write(gen, ptx_dst(gen->f, i, 0), r, pair ? PTX_B64 : i->type);
}
