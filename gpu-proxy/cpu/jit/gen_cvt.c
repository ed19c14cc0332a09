/* cvt: between integers, floats and small floats, with PTX's rounding and saturation. */
#include "gpu-proxy/cpu/jit/gen_float.h"

#include <math.h>

#define B gen->b

static bool is_float(unsigned type)
{
    return ptx_type_is_float((ptx_type_t)type);
}

static unsigned bits_of(unsigned type)
{
    return ptx_type_size((ptx_type_t)type) * 8;
}

/* ---- f16 and bf16 as bits ---- */

val_t gen_to_f32(cpu_gen_t *gen, val_t bits, unsigned ptx_type)
{
    if (ptx_type == PTX_BF16) {
        val_t w = LLVMBuildZExt(B, bits, gen_same(bits, gen->i32), "");
        return gen_bitcast(gen, LLVMBuildShl(B, w, gen_like(w, 16), ""), gen->f32);
    }
    return LLVMBuildFPExt(B, gen_bitcast(gen, bits, gen->half), gen_same(bits, gen->f32), "");
}

static val_t bf16_bits(cpu_gen_t *gen, val_t x, bool toward_zero)
{
    val_t w = gen_bitcast(gen, x, gen->i32), r = w;
    if (!toward_zero) {
        val_t odd = LLVMBuildAnd(B, LLVMBuildLShr(B, w, gen_like(w, 16), ""), gen_like(w, 1), "");
        r = LLVMBuildAdd(B, w, LLVMBuildAdd(B, odd, gen_like(w, 0x7fff), ""), "");
    }
    val_t nan = LLVMBuildFCmp(B, LLVMRealUNO, x, x, "");
    r = LLVMBuildSelect(B, nan, gen_like(w, 0x7fff0000), r, "");
    r = LLVMBuildLShr(B, r, gen_like(r, 16), "");
    return LLVMBuildTrunc(B, r, gen_same(r, gen->i16), "");
}

val_t gen_from_f32(cpu_gen_t *gen, val_t x, unsigned ptx_type, bool toward_zero)
{
    if (ptx_type == PTX_BF16) {
        return bf16_bits(gen, x, toward_zero);
    }
    val_t h = LLVMBuildFPTrunc(B, x, gen_same(x, gen->half), "");
    val_t bits = gen_bitcast(gen, h, gen->i16);
    if (toward_zero) { /* one step back if the magnitude has grown */
        val_t back = LLVMBuildFPExt(B, h, LLVMTypeOf(x), "");
        val_t more = LLVMBuildFCmp(B, LLVMRealOGT, gen_call1(gen, "llvm.fabs", back),
                                   gen_call1(gen, "llvm.fabs", x), "");
        val_t less = LLVMBuildSub(B, bits, gen_like(bits, 1), "");
        bits = LLVMBuildSelect(B, more, less, bits, "");
    }
    return bits;
}

/* ---- rounding to an integral value ---- */

static val_t integral(cpu_gen_t *gen, val_t x, unsigned round)
{
    switch (round) {
    case PTX_ROUND_RNI:
        return gen_call1(gen, "llvm.roundeven", x);
    case PTX_ROUND_RZI:
        return gen_call1(gen, "llvm.trunc", x);
    case PTX_ROUND_RMI:
        return gen_call1(gen, "llvm.floor", x);
    case PTX_ROUND_RPI:
        return gen_call1(gen, "llvm.ceil", x);
    default:
        return x;
    }
}

/* fptosi.sat and fptoui.sat of vectors: LLVM would do them lane by lane. What does not fit is replaced
 * before the conversion, and the result corrected: the largest number above the range, 0 for NaN. */
static val_t saturated(cpu_gen_t *gen, val_t x, type_t type, bool sign)
{
    unsigned bits = LLVMGetIntTypeWidth(LLVMGetElementType(type));
    val_t low = gen_flike(x, sign ? -ldexp(1, (int)bits - 1) : 0);
    val_t end = gen_flike(x, ldexp(1, (int)(sign ? bits - 1 : bits)));
    val_t below_end = LLVMBuildFCmp(B, LLVMRealOLT, x, end, "");
    val_t fits = LLVMBuildAnd(B, LLVMBuildFCmp(B, LLVMRealOGE, x, low, ""), below_end, "");
    val_t in = LLVMBuildSelect(B, fits, x, low, "");
    val_t r = sign ? LLVMBuildFPToSI(B, in, type, "") : LLVMBuildFPToUI(B, in, type, "");
    uint64_t largest = UINT64_MAX >> (64 - bits + (sign ? 1 : 0));
    val_t above = LLVMBuildFCmp(B, LLVMRealOGE, x, end, "");
    r = LLVMBuildSelect(B, above, gen_like(r, largest), r, "");
    val_t nan = LLVMBuildFCmp(B, LLVMRealUNO, x, x, "");
    return sign ? LLVMBuildSelect(B, nan, gen_like(r, 0), r, "") : r;
}

static val_t float_to_int(cpu_gen_t *gen, val_t x, unsigned type, unsigned round)
{
    x = integral(gen, x, round);
    bool sign = ptx_type_is_signed((ptx_type_t)type);
    type_t t = gen_same(x, gen_int(gen, bits_of(type)));
    if (gen_is_vector(x)) {
        return saturated(gen, x, t, sign);
    }
    type_t over[2] = {t, LLVMTypeOf(x)};
    return gen_call(gen, sign ? "llvm.fptosi.sat" : "llvm.fptoui.sat", over, 2, &x, 1);
}

static val_t int_to_float(cpu_gen_t *gen, val_t x, unsigned from, unsigned to, unsigned round)
{
    bool sign = ptx_type_is_signed((ptx_type_t)from);
    bool directed = round == PTX_ROUND_RZ || round == PTX_ROUND_RM || round == PTX_ROUND_RP;
    bool by_f64 = directed && to == PTX_F32;
    type_t t = gen_same(x, to == PTX_F64 || by_f64 ? gen->f64 : gen->f32);
    val_t r = sign ? LLVMBuildSIToFP(B, x, t, "") : LLVMBuildUIToFP(B, x, t, "");
    return by_f64 ? gen_directed(gen, r, NULL, round) : r;
}

/* Integers: with sat the result is clamped to the range of the destination. */
static val_t int_to_int(cpu_gen_t *gen, val_t x, unsigned from, unsigned to, bool sat)
{
    unsigned f = bits_of(from), t = bits_of(to);
    bool sf = ptx_type_is_signed((ptx_type_t)from), st = ptx_type_is_signed((ptx_type_t)to);
    if (sat) {
        uint64_t high = st        ? ((uint64_t)1 << (t - 1)) - 1
                        : t == 64 ? UINT64_MAX
                                  : ((uint64_t)1 << t) - 1;
        if (sf) {
            int64_t low = st ? -(int64_t)high - 1 : 0;
            if (f > t || (f == t && !st)) {
                x = gen_call2(gen, "llvm.smax", x, gen_like(x, (uint64_t)low));
            } else if (!st) {
                x = gen_call2(gen, "llvm.smax", x, gen_like(x, 0));
            }
            if (f > t) {
                x = gen_call2(gen, "llvm.smin", x, gen_like(x, high));
            }
        } else if (f > t || (f == t && st)) {
            x = gen_call2(gen, "llvm.umin", x, gen_like(x, high));
        }
    }
    type_t type = gen_same(x, gen_int(gen, t));
    if (t < f) {
        return LLVMBuildTrunc(B, x, type, "");
    }
    return t == f ? x : sf ? LLVMBuildSExt(B, x, type, "") : LLVMBuildZExt(B, x, type, "");
}

/* ---- float to float ---- */

static val_t to_single(cpu_gen_t *gen, val_t x, unsigned from)
{
    return from == PTX_F16 || from == PTX_BF16 ? gen_to_f32(gen, x, from) : x;
}

static val_t float_to_float(cpu_gen_t *gen, val_t x, unsigned from, unsigned to, unsigned round)
{
    bool small_to = to == PTX_F16 || to == PTX_BF16;
    x = integral(gen, to_single(gen, x, from), round);
    if (small_to) {
        if (from == PTX_F64) { /* round to odd first, so that two roundings are as good as one */
            val_t r = gen_directed(gen, x, NULL, PTX_ROUND_RZ);
            val_t back = LLVMBuildFPExt(B, r, LLVMTypeOf(x), "");
            val_t inexact = LLVMBuildFCmp(B, LLVMRealONE, back, x, "");
            val_t w = gen_bitcast(gen, r, gen->i32);
            w = LLVMBuildOr(B, w, LLVMBuildZExt(B, inexact, LLVMTypeOf(w), ""), "");
            x = gen_bitcast(gen, w, gen->f32);
        }
        return gen_from_f32(gen, x, to, round == PTX_ROUND_RZ);
    }
    if (to == PTX_F64) {
        return gen_element(x) == gen->f64 ? x : LLVMBuildFPExt(B, x, gen_same(x, gen->f64), "");
    }
    if (from == PTX_F64) {
        bool directed = round == PTX_ROUND_RZ || round == PTX_ROUND_RM || round == PTX_ROUND_RP;
        return directed ? gen_directed(gen, x, NULL, round)
                        : LLVMBuildFPTrunc(B, x, gen_same(x, gen->f32), "");
    }
    return x;
}

/* cvt.rn.f16x2.f32 d, a, b: a goes to the upper half. */
static void convert_pair(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    unsigned half = i->type == PTX_BF16X2 ? PTX_BF16 : PTX_F16;
    val_t v[2];
    for (unsigned n = 0; n < 2; n++) {
        val_t x = gen_src(gen, n, PTX_F32, vec);
        v[n] = gen_from_f32(gen, x, half, i->round == PTX_ROUND_RZ);
        v[n] = LLVMBuildZExt(B, v[n], gen_same(x, gen->i32), "");
    }
    val_t r = LLVMBuildOr(B, LLVMBuildShl(B, v[0], gen_like(v[0], 16), ""), v[1], "");
    gen_write(gen, ptx_dst(gen->f, i, 0), r, PTX_B32);
}

void gen_convert(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    bool ftz = (i->flags & PTX_F_FTZ) != 0, sat = (i->flags & PTX_F_SAT) != 0;
    if (i->type == PTX_F16X2 || i->type == PTX_BF16X2) {
        convert_pair(gen, vec);
        return;
    }
    val_t x = gen_src(gen, 0, i->type2, vec), r;
    if (ftz && i->type2 == PTX_F32) {
        x = gen_flush(gen, x);
    }
    if (is_float(i->type2) && is_float(i->type)) {
        r = float_to_float(gen, x, i->type2, i->type, i->round);
    } else if (is_float(i->type2)) {
        r = float_to_int(gen, to_single(gen, x, i->type2), i->type, i->round);
    } else if (is_float(i->type)) {
        bool small = i->type == PTX_F16 || i->type == PTX_BF16;
        r = int_to_float(gen, x, i->type2, small ? PTX_F32 : i->type, i->round);
        r = small ? gen_from_f32(gen, r, i->type, i->round == PTX_ROUND_RZ) : r;
    } else {
        r = int_to_int(gen, x, i->type2, i->type, sat);
    }
    if (ftz && i->type == PTX_F32) {
        r = gen_flush(gen, r);
    }
    if (sat && (i->type == PTX_F32 || i->type == PTX_F64)) {
        r = gen_saturate(gen, r);
    }
    gen_write(gen, ptx_dst(gen->f, i, 0), r, i->type);
}
