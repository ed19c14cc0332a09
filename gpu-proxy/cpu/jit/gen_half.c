/* f16 and bf16, alone and in pairs. Values travel as bits; arithmetic is that of f32, which is wide
 * enough that a sum or a product rounded twice is rounded right. A fused multiply-add is not: its sum
 * is rounded to odd first. A pair of f16 is one vector of twice as many elements; the halves of a pair
 * of bf16 are f32 values already, save for a shift or a mask. */
#include "gpu-proxy/cpu/jit/gen_float.h"

#define B gen->b

bool gen_is_half(unsigned ptx_type)
{
    return ptx_type == PTX_F16 || ptx_type == PTX_BF16 || ptx_type == PTX_F16X2 ||
           ptx_type == PTX_BF16X2;
}

static bool is_brain(unsigned type)
{
    return type == PTX_BF16 || type == PTX_BF16X2;
}

static bool is_pair(unsigned type)
{
    return type == PTX_F16X2 || type == PTX_BF16X2;
}

/* How many values a register of this type becomes. */
static unsigned part_count(unsigned type)
{
    return type == PTX_BF16X2 ? 2 : 1;
}

static val_t to_f64(cpu_gen_t *gen, val_t x)
{
    return LLVMBuildFPExt(B, x, gen_same(x, gen->f64), "");
}

/* i32 words to vectors of their i16 halves, low first. */
static val_t halves(cpu_gen_t *gen, val_t w)
{
    unsigned n = gen_is_vector(w) ? LLVMGetVectorSize(LLVMTypeOf(w)) : 1;
    return LLVMBuildBitCast(B, w, LLVMVectorType(gen->i16, 2 * n), "");
}

static val_t words(cpu_gen_t *gen, val_t parts)
{
    unsigned n = LLVMGetVectorSize(LLVMTypeOf(parts)) / 2;
    return LLVMBuildBitCast(B, parts, n == 1 ? gen->i32 : LLVMVectorType(gen->i32, n), "");
}

static void unpack(cpu_gen_t *gen, val_t bits, unsigned type, val_t *out)
{
    if (type == PTX_F16X2) {
        bits = halves(gen, bits);
    }
    if (type == PTX_BF16X2) {
        out[0] = gen_bitcast(gen, LLVMBuildShl(B, bits, gen_like(bits, 16), ""), gen->f32);
        out[1] = gen_bitcast(gen, LLVMBuildAnd(B, bits, gen_like(bits, 0xffff0000), ""), gen->f32);
    } else {
        out[0] = gen_to_f32(gen, bits, is_brain(type) ? PTX_BF16 : PTX_F16);
    }
}

/* Subnormal f16 to zero, sign kept: as f32 on the way in, as bits on the way out. */
static val_t flush_in(cpu_gen_t *gen, val_t x)
{
    val_t small =
        LLVMBuildFCmp(B, LLVMRealOLT, gen_call1(gen, "llvm.fabs", x), gen_flike(x, 0x1p-14), "");
    val_t zero = gen_call2(gen, "llvm.copysign", gen_flike(x, 0.0), x);
    return LLVMBuildSelect(B, small, zero, x, "");
}

static val_t flush_out(cpu_gen_t *gen, val_t bits)
{
    val_t exponent = LLVMBuildAnd(B, bits, gen_like(bits, 0x7c00), "");
    val_t small = LLVMBuildICmp(B, LLVMIntEQ, exponent, gen_like(bits, 0), "");
    val_t zero = LLVMBuildAnd(B, bits, gen_like(bits, 0x8000), "");
    return LLVMBuildSelect(B, small, zero, bits, "");
}

/* f32 (rounded to the type) back to one register. */
static val_t pack(cpu_gen_t *gen, val_t const *v, unsigned type, bool ftz)
{
    val_t lo = gen_from_f32(gen, v[0], is_brain(type) ? PTX_BF16 : PTX_F16, false);
    if (ftz && !is_brain(type)) {
        lo = flush_out(gen, lo);
    }
    if (type == PTX_F16X2) {
        return words(gen, lo);
    }
    if (type == PTX_BF16X2) {
        val_t hi = gen_from_f32(gen, v[1], PTX_BF16, false);
        lo = LLVMBuildZExt(B, lo, gen_same(lo, gen->i32), "");
        hi = LLVMBuildZExt(B, hi, gen_same(hi, gen->i32), "");
        return LLVMBuildOr(B, lo, LLVMBuildShl(B, hi, gen_like(hi, 16), ""), "");
    }
    return lo;
}

/* ---- fused multiply-add ---- */

/* s + error, rounded to odd: toward zero, with the last bit set if something was cut off. */
static val_t to_odd(cpu_gen_t *gen, val_t s, val_t error)
{
    val_t zero = gen_flike(s, 0.0), bits = gen_bitcast(gen, s, gen->i32);
    val_t inexact = LLVMBuildFCmp(B, LLVMRealONE, error, zero, "");
    val_t signs = LLVMBuildXor(B, bits, gen_bitcast(gen, error, gen->i32), "");
    val_t beyond =
        LLVMBuildAnd(B, inexact, LLVMBuildICmp(B, LLVMIntSLT, signs, gen_like(signs, 0), ""), "");
    bits = LLVMBuildSub(B, bits, LLVMBuildZExt(B, beyond, LLVMTypeOf(bits), ""), "");
    bits = LLVMBuildOr(B, bits, LLVMBuildZExt(B, inexact, LLVMTypeOf(bits), ""), "");
    return gen_bitcast(gen, bits, gen->f32);
}

static val_t sum_error(cpu_gen_t *gen, val_t x, val_t y, val_t s)
{
    val_t t = LLVMBuildFSub(B, s, x, "");
    val_t a = LLVMBuildFSub(B, x, LLVMBuildFSub(B, s, t, ""), "");
    return LLVMBuildFAdd(B, a, LLVMBuildFSub(B, y, t, ""), "");
}

/* The product of two f16 is exact in f32, and nothing overflows. */
static val_t fused_f16(cpu_gen_t *gen, val_t x, val_t y, val_t z)
{
    val_t p = LLVMBuildFMul(B, x, y, ""), s = LLVMBuildFAdd(B, p, z, "");
    return to_odd(gen, s, sum_error(gen, p, z, s));
}

/* bf16 has the range of f32, so f64 is needed for the product and the sum. */
static val_t fused_bf16(cpu_gen_t *gen, val_t x, val_t y, val_t z)
{
    val_t p = LLVMBuildFMul(B, to_f64(gen, x), to_f64(gen, y), "");
    val_t w = to_f64(gen, z), s = LLVMBuildFAdd(B, p, w, "");
    return gen_odd_f32(gen, s, sum_error(gen, p, w, s));
}

val_t gen_odd_f32(cpu_gen_t *gen, val_t s, val_t error)
{
    val_t r = gen_directed(gen, s, error, PTX_ROUND_RZ);
    val_t inexact = LLVMBuildFCmp(B, LLVMRealONE, to_f64(gen, r), s, "");
    if (error != NULL) {
        val_t rest = LLVMBuildFCmp(B, LLVMRealONE, error, gen_flike(s, 0.0), "");
        inexact = LLVMBuildOr(B, inexact, rest, "");
    }
    val_t bits = gen_bitcast(gen, r, gen->i32);
    bits = LLVMBuildOr(B, bits, LLVMBuildZExt(B, inexact, LLVMTypeOf(bits), ""), "");
    return gen_bitcast(gen, bits, gen->f32);
}

/* ---- instructions ---- */

static val_t compute(cpu_gen_t *gen, val_t const *v)
{
    const ptx_instr_t *i = gen->i;
    switch (i->op) {
    case PTX_OP_ADD:
        return LLVMBuildFAdd(B, v[0], v[1], "");
    case PTX_OP_SUB:
        return LLVMBuildFSub(B, v[0], v[1], "");
    case PTX_OP_MUL:
        return LLVMBuildFMul(B, v[0], v[1], "");
    case PTX_OP_FMA:
    case PTX_OP_MAD:
        return is_brain(i->type) ? fused_bf16(gen, v[0], v[1], v[2])
                                 : fused_f16(gen, v[0], v[1], v[2]);
    case PTX_OP_MIN:
    case PTX_OP_MAX:
        return gen_extreme(gen, v, i->src_count);
    case PTX_OP_EX2:
    case PTX_OP_TANH:
        return gen_math(gen, i->op, v[0]);
    default:
        gen_fail(gen, i->mnemonic);
        return v[0];
    }
}

val_t gen_relu(cpu_gen_t *gen, val_t x)
{
    val_t negative = LLVMBuildICmp(B, LLVMIntSLT, gen_bitcast(gen, x, gen->i32),
                                   gen_like(gen_bitcast(gen, x, gen->i32), 0), "");
    val_t number = LLVMBuildFCmp(B, LLVMRealORD, x, x, "");
    val_t nan = gen_bitcast(gen, gen_like(gen_bitcast(gen, x, gen->i32), 0x7fffffff), gen->f32);
    val_t r = LLVMBuildSelect(B, negative, gen_flike(x, 0.0), x, "");
    return LLVMBuildSelect(B, number, r, nan, "");
}

/* neg and abs touch the sign alone. */
static void change_sign(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    val_t x = gen_src(gen, 0, i->type, vec);
    uint64_t sign = is_pair(i->type) ? 0x80008000 : 0x8000;
    if ((i->flags & PTX_F_FTZ) != 0 && !is_brain(i->type)) {
        x = is_pair(i->type) ? words(gen, flush_out(gen, halves(gen, x))) : flush_out(gen, x);
    }
    x = i->op == PTX_OP_ABS ? LLVMBuildAnd(B, x, gen_like(x, ~sign), "")
                            : LLVMBuildXor(B, x, gen_like(x, sign), "");
    gen_write(gen, ptx_dst(gen->f, i, 0), x, is_pair(i->type) ? PTX_B32 : PTX_B16);
}

void gen_half(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    bool ftz = (i->flags & PTX_F_FTZ) != 0;
    val_t v[3][2] = {{NULL}}, r[2] = {NULL, NULL};
    if (i->op == PTX_OP_NEG || i->op == PTX_OP_ABS) {
        change_sign(gen, vec);
        return;
    }
    for (unsigned n = 0; n < i->src_count && n < 3; n++) {
        unpack(gen, gen_src(gen, n, i->type, vec), i->type, v[n]);
    }
    for (unsigned k = 0; k < part_count(i->type); k++) {
        val_t args[3] = {v[0][k], v[1][k], v[2][k]};
        for (unsigned n = 0; n < i->src_count && n < 3; n++) {
            if (ftz) {
                args[n] = is_brain(i->type) ? gen_flush(gen, args[n]) : flush_in(gen, args[n]);
            }
        }
        r[k] = compute(gen, args);
        if ((i->flags & PTX_F_SAT) != 0) {
            r[k] = gen_saturate(gen, r[k]);
        }
        if ((i->flags & PTX_F_RELU) != 0) {
            r[k] = gen_relu(gen, r[k]);
        }
        if (ftz && is_brain(i->type)) {
            r[k] = gen_flush(gen, r[k]);
        }
    }
    gen_write(gen, ptx_dst(gen->f, i, 0), pack(gen, r, i->type, ftz),
              is_pair(i->type) ? PTX_B32 : PTX_B16);
}

void gen_half_operands(cpu_gen_t *gen, unsigned ptx_type, bool vec, val_t x[2], val_t y[2])
{
    unsigned one = is_brain(ptx_type) ? PTX_BF16 : PTX_F16;
    bool ftz = (gen->i->flags & PTX_F_FTZ) != 0;
    for (unsigned n = 0; n < 2; n++) {
        val_t *out = n == 0 ? x : y;
        val_t bits = gen_src(gen, n, ptx_type, vec);
        if (is_pair(ptx_type)) { /* each half as a vector of its own: a predicate per lane */
            val_t hi = LLVMBuildLShr(B, bits, gen_like(bits, 16), "");
            out[1] = gen_to_f32(gen, LLVMBuildTrunc(B, hi, gen_same(hi, gen->i16), ""), one);
            bits = LLVMBuildTrunc(B, bits, gen_same(bits, gen->i16), "");
        }
        out[0] = gen_to_f32(gen, bits, one);
        for (unsigned k = 0; ftz && k < (is_pair(ptx_type) ? 2u : 1u); k++) {
            out[k] = is_brain(ptx_type) ? gen_flush(gen, out[k]) : flush_in(gen, out[k]);
        }
    }
}
