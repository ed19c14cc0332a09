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

/* The upper half of f32 bits, the rest rounded away. */
static val_t bf16_bits(cpu_gen_t *gen, val_t x, unsigned round)
{
    val_t w = gen_bitcast(gen, x, gen->i32), r = w;
    if (round == PTX_ROUND_RM || round == PTX_ROUND_RP) {
        val_t rest = LLVMBuildAnd(B, w, gen_like(w, 0xffff), "");
        LLVMIntPredicate side = round == PTX_ROUND_RM ? LLVMIntSLT : LLVMIntSGE;
        val_t away = LLVMBuildAnd(B, LLVMBuildICmp(B, LLVMIntNE, rest, gen_like(w, 0), ""),
                                  LLVMBuildICmp(B, side, w, gen_like(w, 0), ""), "");
        r = LLVMBuildAdd(B, w, LLVMBuildSelect(B, away, gen_like(w, 0x10000), gen_like(w, 0), ""),
                         "");
    } else if (round != PTX_ROUND_RZ) {
        val_t odd = LLVMBuildAnd(B, LLVMBuildLShr(B, w, gen_like(w, 16), ""), gen_like(w, 1), "");
        r = LLVMBuildAdd(B, w, LLVMBuildAdd(B, odd, gen_like(w, 0x7fff), ""), "");
    }
    val_t nan = LLVMBuildFCmp(B, LLVMRealUNO, x, x, "");
    r = LLVMBuildSelect(B, nan, gen_like(w, 0x7fff0000), r, "");
    r = LLVMBuildLShr(B, r, gen_like(r, 16), "");
    return LLVMBuildTrunc(B, r, gen_same(r, gen->i16), "");
}

/* To nearest first, then a step where that lies on the wrong side. */
static val_t f16_bits(cpu_gen_t *gen, val_t x, unsigned round)
{
    val_t h = LLVMBuildFPTrunc(B, x, gen_same(x, gen->half), "");
    val_t bits = gen_bitcast(gen, h, gen->i16);
    if (round != PTX_ROUND_RZ && round != PTX_ROUND_RM && round != PTX_ROUND_RP) {
        return bits;
    }
    val_t back = LLVMBuildFPExt(B, h, LLVMTypeOf(x), ""), wrong;
    val_t less = LLVMBuildSub(B, bits, gen_like(bits, 1), "");
    val_t more = LLVMBuildAdd(B, bits, gen_like(bits, 1), "");
    val_t negative = LLVMBuildICmp(B, LLVMIntSLT, bits, gen_like(bits, 0), "");
    if (round == PTX_ROUND_RZ) {
        wrong = LLVMBuildFCmp(B, LLVMRealOGT, gen_call1(gen, "llvm.fabs", back),
                              gen_call1(gen, "llvm.fabs", x), "");
    } else if (round == PTX_ROUND_RM) {
        wrong = LLVMBuildFCmp(B, LLVMRealOGT, back, x, "");
        less = LLVMBuildSelect(B, negative, more, less, "");
    } else {
        wrong = LLVMBuildFCmp(B, LLVMRealOLT, back, x, "");
        less = LLVMBuildSelect(B, negative, less, more, "");
    }
    return LLVMBuildSelect(B, wrong, less, bits, "");
}

val_t gen_round_half(cpu_gen_t *gen, val_t x, unsigned ptx_type, unsigned round)
{
    return ptx_type == PTX_BF16 ? bf16_bits(gen, x, round) : f16_bits(gen, x, round);
}

val_t gen_from_f32(cpu_gen_t *gen, val_t x, unsigned ptx_type, bool toward_zero)
{
    return gen_round_half(gen, x, ptx_type, toward_zero ? PTX_ROUND_RZ : PTX_ROUND_RN);
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

static bool is_directed(unsigned round)
{
    return round == PTX_ROUND_RZ || round == PTX_ROUND_RM || round == PTX_ROUND_RP;
}

/* An integer as an f64 and what that lacks. */
static val_t int_to_pair(cpu_gen_t *gen, val_t x, bool sign, val_t *error)
{
    type_t t = gen_same(x, gen->f64);
    *error = NULL;
    if (LLVMGetIntTypeWidth(gen_element(x)) < 64) {
        return sign ? LLVMBuildSIToFP(B, x, t, "") : LLVMBuildUIToFP(B, x, t, "");
    }
    /* both parts are exact */
    val_t low = LLVMBuildAnd(B, x, gen_like(x, 0xfff), ""), high = LLVMBuildSub(B, x, low, "");
    val_t h = sign ? LLVMBuildSIToFP(B, high, t, "") : LLVMBuildUIToFP(B, high, t, "");
    val_t l = LLVMBuildUIToFP(B, low, t, ""), s = LLVMBuildFAdd(B, h, l, "");
    *error = LLVMBuildFSub(B, l, LLVMBuildFSub(B, s, h, ""), "");
    val_t small = LLVMBuildICmp(B, LLVMIntEQ, high, gen_like(high, 0), "");
    *error = LLVMBuildSelect(B, small, gen_flike(s, 0.0), *error, "");
    return s;
}

/* s + error to f64: a step if s lies on the wrong side. */
static val_t directed64(cpu_gen_t *gen, val_t s, val_t error, unsigned round)
{
    if (error == NULL) {
        return s;
    }
    val_t zero = gen_flike(s, 0.0), bits = gen_bitcast(gen, s, gen->i64);
    val_t negative = LLVMBuildICmp(B, LLVMIntSLT, bits, gen_like(bits, 0), "");
    val_t above = LLVMBuildFCmp(B, LLVMRealOLT, error, zero, "");
    val_t below = LLVMBuildFCmp(B, LLVMRealOGT, error, zero, "");
    val_t in = LLVMBuildSub(B, bits, gen_like(bits, 1), "");
    val_t out = LLVMBuildAdd(B, bits, gen_like(bits, 1), ""), wrong, to;
    if (round == PTX_ROUND_RZ) {
        wrong = LLVMBuildSelect(B, negative, below, above, "");
        to = in;
    } else {
        bool down = round == PTX_ROUND_RM;
        wrong = down ? above : below;
        to = LLVMBuildSelect(B, negative, down ? out : in, down ? in : out, "");
    }
    return gen_bitcast(gen, LLVMBuildSelect(B, wrong, to, bits, ""), gen->f64);
}

/* To f32 or f64; to f32 rounded to odd if `odd`, so that another rounding may follow. */
static val_t int_to_float(cpu_gen_t *gen, val_t x, unsigned from, unsigned to, unsigned round,
                          bool odd)
{
    bool sign = ptx_type_is_signed((ptx_type_t)from);
    if (!is_directed(round) && !odd) {
        type_t t = gen_same(x, to == PTX_F64 ? gen->f64 : gen->f32);
        return sign ? LLVMBuildSIToFP(B, x, t, "") : LLVMBuildUIToFP(B, x, t, "");
    }
    val_t error, s = int_to_pair(gen, x, sign, &error);
    return odd             ? gen_odd_f32(gen, s, error)
           : to == PTX_F64 ? directed64(gen, s, error, round)
                           : gen_directed(gen, s, error, round);
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

/* tf32: f32 without the last 13 bits. */
static val_t to_tf32(cpu_gen_t *gen, val_t x, unsigned round)
{
    val_t w = gen_bitcast(gen, x, gen->i32), r = w;
    if (round == PTX_ROUND_RNA) {
        r = LLVMBuildAdd(B, w, gen_like(w, 0x1000), "");
    } else if (round != PTX_ROUND_RZ) {
        val_t odd = LLVMBuildAnd(B, LLVMBuildLShr(B, w, gen_like(w, 13), ""), gen_like(w, 1), "");
        r = LLVMBuildAdd(B, w, LLVMBuildAdd(B, odd, gen_like(w, 0xfff), ""), "");
    }
    r = LLVMBuildAnd(B, r, gen_like(w, 0xffffe000), "");
    val_t nan = LLVMBuildFCmp(B, LLVMRealUNO, x, x, "");
    return LLVMBuildSelect(B, nan, gen_like(w, 0x7fffffff), r, "");
}

/* .satfinite: infinities become the largest number. */
static val_t make_finite(cpu_gen_t *gen, val_t bits, uint64_t infinity, uint64_t largest)
{
    uint64_t sign = largest < 0x10000 ? 0x8000 : 0x80000000;
    val_t magnitude = LLVMBuildAnd(B, bits, gen_like(bits, ~sign), "");
    val_t is = LLVMBuildICmp(B, LLVMIntEQ, magnitude, gen_like(bits, infinity), "");
    val_t most = LLVMBuildOr(B, LLVMBuildAnd(B, bits, gen_like(bits, sign), ""),
                             gen_like(bits, largest), "");
    return LLVMBuildSelect(B, is, most, bits, "");
}

/* f32 to the bits of f16, bf16 or tf32, with all that the instruction says. */
static val_t narrow(cpu_gen_t *gen, val_t x, unsigned to)
{
    const ptx_instr_t *i = gen->i;
    bool limited = (i->flags & PTX_F_SATFINITE) != 0;
    if ((i->flags & PTX_F_SAT) != 0) {
        x = gen_saturate(gen, x);
    }
    if ((i->flags & PTX_F_RELU) != 0) {
        x = gen_relu(gen, x);
    }
    if (to == PTX_TF32) {
        val_t w = to_tf32(gen, x, i->round);
        return limited ? make_finite(gen, w, 0x7f800000, 0x7f7fe000) : w;
    }
    val_t bits = gen_round_half(gen, x, to, i->round);
    return !limited         ? bits
           : to == PTX_BF16 ? make_finite(gen, bits, 0x7f80, 0x7f7f)
                            : make_finite(gen, bits, 0x7c00, 0x7bff);
}

/* To f32 or f64. */
static val_t float_to_float(cpu_gen_t *gen, val_t x, unsigned from, unsigned to, unsigned round)
{
    if (to == PTX_F64) {
        return gen_element(x) == gen->f64 ? x : LLVMBuildFPExt(B, x, gen_same(x, gen->f64), "");
    }
    if (from == PTX_F64) {
        return is_directed(round) ? gen_directed(gen, x, NULL, round)
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
        v[n] = LLVMBuildZExt(B, narrow(gen, x, half), gen_same(x, gen->i32), "");
    }
    val_t r = LLVMBuildOr(B, LLVMBuildShl(B, v[0], gen_like(v[0], 16), ""), v[1], "");
    gen_write(gen, ptx_dst(gen->f, i, 0), r, PTX_B32);
}

/* Results of fewer than 32 bits of precision: through f32. */
static void convert_small(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    val_t x = gen_src(gen, 0, i->type2, vec);
    if (i->type2 == PTX_F32 && (i->flags & PTX_F_FTZ) != 0) {
        x = gen_flush(gen, x);
    }
    if (!is_float(i->type2)) {
        x = int_to_float(gen, x, i->type2, PTX_F32, i->round, true);
    } else {
        x = integral(gen, to_single(gen, x, i->type2), i->round);
        x = i->type2 == PTX_F64 ? gen_odd_f32(gen, x, NULL) : x;
    }
    gen_write(gen, ptx_dst(gen->f, i, 0), narrow(gen, x, i->type),
              i->type == PTX_TF32 ? PTX_B32 : PTX_B16);
}

void gen_convert(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    bool ftz = (i->flags & PTX_F_FTZ) != 0, sat = (i->flags & PTX_F_SAT) != 0;
    if (gen_is_tiny(i->type) || gen_is_tiny(i->type2)) {
        gen_convert_tiny(gen, vec);
        return;
    }
    if (i->type == PTX_F16X2 || i->type == PTX_BF16X2) {
        convert_pair(gen, vec);
        return;
    }
    if (i->type == PTX_F16 || i->type == PTX_BF16 || i->type == PTX_TF32) {
        convert_small(gen, vec);
        return;
    }
    val_t x = gen_src(gen, 0, i->type2, vec), r;
    if (ftz && i->type2 == PTX_F32) {
        x = gen_flush(gen, x);
    }
    if (is_float(i->type2)) {
        x = to_single(gen, x, i->type2);
    }
    if (is_float(i->type2) && is_float(i->type)) {
        r = float_to_float(gen, integral(gen, x, i->round), i->type2, i->type, i->round);
    } else if (is_float(i->type2)) {
        r = float_to_int(gen, x, i->type, i->round);
    } else if (is_float(i->type)) {
        r = int_to_float(gen, x, i->type2, i->type, i->round, false);
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
