/* Conversions of packed formats of 8, 6 and 4 bits, two to a register; and cvt.pack. */
#include "gpu-proxy/cpu/jit/gen_float.h"

#include <stdlib.h>

#define B gen->b

typedef struct {
    unsigned mantissa, exponent, bias;
    unsigned spacing; /* bits from one value of a register to the next */
    uint32_t largest; /* magnitude */
    uint32_t nan;     /* magnitude; 0: there is none */
} format_t;

static const format_t *format_of(unsigned type)
{
    static const format_t e4m3 = {3, 4, 7, 8, 0x7e, 0x7f}, e5m2 = {2, 5, 15, 8, 0x7b, 0x7f};
    static const format_t e2m3 = {3, 2, 1, 8, 0x1f, 0}, e3m2 = {2, 3, 3, 8, 0x1f, 0};
    static const format_t e2m1 = {1, 2, 1, 4, 0x07, 0};
    switch (type) {
    case PTX_E4M3X2:
        return &e4m3;
    case PTX_E5M2X2:
        return &e5m2;
    case PTX_E2M3X2:
        return &e2m3;
    case PTX_E3M2X2:
        return &e3m2;
    case PTX_E2M1X2:
        return &e2m1;
    default:
        return NULL;
    }
}

bool gen_is_tiny(unsigned ptx_type)
{
    return format_of(ptx_type) != NULL;
}

static val_t pick(cpu_gen_t *gen, val_t p, val_t x, val_t y)
{
    return LLVMBuildSelect(B, p, x, y, "");
}

static double power_of_two(int n)
{
    return n < 0 ? 1.0 / (double)(1ull << -n) : (double)(1ull << n);
}

/* Magnitude bits (i32) of the nearest value, even on a tie, limited to the largest. */
static val_t encode(cpu_gen_t *gen, val_t x, const format_t *f)
{
    unsigned cut = 23 - f->mantissa;
    int least = 1 - (int)f->bias; /* exponent of the smallest normal number */
    val_t a = gen_call1(gen, "llvm.fabs", x), w = gen_bitcast(gen, a, gen->i32);
    val_t odd = LLVMBuildAnd(B, LLVMBuildLShr(B, w, gen_like(w, cut), ""), gen_like(w, 1), "");
    val_t normal = LLVMBuildAdd(B, w, gen_like(w, (1u << (cut - 1)) - 1), "");
    normal = LLVMBuildLShr(B, LLVMBuildAdd(B, normal, odd, ""), gen_like(w, cut), "");
    normal = LLVMBuildSub(B, normal, gen_like(w, (127 - f->bias) << f->mantissa), "");
    /* Subnormal ones: the last bit of this sum is the last bit of the format. */
    val_t magic = gen_flike(a, power_of_two(least + (int)cut));
    val_t small = gen_bitcast(gen, LLVMBuildFAdd(B, a, magic, ""), gen->i32);
    small = LLVMBuildSub(B, small, gen_bitcast(gen, magic, gen->i32), "");
    val_t is_small = LLVMBuildFCmp(B, LLVMRealOLT, a, gen_flike(a, power_of_two(least)), "");
    val_t top = gen_flike(a, power_of_two((1 << f->exponent) - (int)f->bias));
    val_t beyond = LLVMBuildFCmp(B, LLVMRealOGE, a, top, "");
    val_t r =
        gen_call2(gen, "llvm.umin", pick(gen, is_small, small, normal), gen_like(w, f->largest));
    return pick(gen, beyond, gen_like(w, f->largest), r);
}

static val_t to_tiny(cpu_gen_t *gen, val_t x, const format_t *f)
{
    if ((gen->i->flags & PTX_F_RELU) != 0) {
        x = gen_relu(gen, x);
    }
    val_t r = encode(gen, x, f), w = gen_bitcast(gen, x, gen->i32);
    val_t sign = LLVMBuildLShr(B, w, gen_like(w, 31), "");
    sign = LLVMBuildShl(B, sign, gen_like(w, f->mantissa + f->exponent), "");
    val_t nan = LLVMBuildFCmp(B, LLVMRealUNO, x, x, "");
    return pick(gen, nan, gen_like(w, f->nan != 0 ? f->nan : f->largest),
                LLVMBuildOr(B, r, sign, ""));
}

/* The value with these bits (i32) as f32: through f16, whose exponent has another bias. */
static val_t from_tiny(cpu_gen_t *gen, val_t v, const format_t *f)
{
    unsigned bits = f->mantissa + f->exponent;
    val_t magnitude = LLVMBuildAnd(B, v, gen_like(v, (1u << bits) - 1), "");
    val_t h = LLVMBuildShl(B, magnitude, gen_like(v, 10 - f->mantissa), "");
    h = LLVMBuildTrunc(B, h, gen_same(h, gen->i16), "");
    val_t x = gen_to_f32(gen, h, PTX_F16);
    x = LLVMBuildFMul(B, x, gen_flike(x, power_of_two(15 - (int)f->bias)), "");
    if (f->nan != 0 && f->exponent < 5) { /* e5m2 has them where f16 has */
        val_t is = LLVMBuildICmp(B, LLVMIntEQ, magnitude, gen_like(v, f->nan), "");
        val_t nan = gen_bitcast(gen, gen_like(v, 0x7fffffff), gen->f32);
        x = pick(gen, is, nan, x);
    }
    val_t sign = LLVMBuildShl(B, v, gen_like(v, 31 - bits), "");
    return gen_call2(gen, "llvm.copysign", x, gen_bitcast(gen, sign, gen->f32));
}

/* Both f32 of the source, the upper one first. */
static void read_pair(cpu_gen_t *gen, bool vec, val_t v[2])
{
    if (gen->i->type2 == PTX_F32) {
        v[0] = gen_src(gen, 0, PTX_F32, vec);
        v[1] = gen_src(gen, 1, PTX_F32, vec);
        return;
    }
    val_t w = gen_src(gen, 0, PTX_B32, vec);
    for (unsigned n = 0; n < 2; n++) {
        val_t h = n == 0 ? LLVMBuildLShr(B, w, gen_like(w, 16), "") : w;
        v[n] = gen_to_f32(gen, LLVMBuildTrunc(B, h, gen_same(h, gen->i16), ""), PTX_F16);
    }
}

void gen_convert_tiny(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    const format_t *to = format_of(i->type), *from = format_of(i->type2);
    val_t v[2];
    if (to != NULL) {
        read_pair(gen, vec, v);
        val_t hi = to_tiny(gen, v[0], to), lo = to_tiny(gen, v[1], to);
        hi = LLVMBuildShl(B, hi, gen_like(hi, to->spacing), "");
        val_t r = LLVMBuildOr(B, hi, lo, "");
        unsigned type = to->spacing == 4 ? PTX_B8 : PTX_B16;
        r = LLVMBuildTrunc(B, r, gen_same(r, to->spacing == 4 ? gen->i8 : gen->i16), "");
        gen_write(gen, ptx_dst(gen->f, i, 0), r, type);
        return;
    }
    val_t w = gen_src(gen, 0, from->spacing == 4 ? PTX_B8 : PTX_B16, vec);
    w = LLVMBuildZExt(B, w, gen_same(w, gen->i32), "");
    for (unsigned n = 0; n < 2; n++) {
        val_t x = n == 0 ? LLVMBuildLShr(B, w, gen_like(w, from->spacing), "") : w;
        x = from_tiny(gen, x, from);
        x = i->flags & PTX_F_RELU ? gen_relu(gen, x) : x;
        v[n] = gen_round_half(gen, x, PTX_F16, PTX_ROUND_RN);
        v[n] = LLVMBuildZExt(B, v[n], gen_same(v[n], gen->i32), "");
    }
    val_t r = LLVMBuildOr(B, LLVMBuildShl(B, v[0], gen_like(w, 16), ""), v[1], "");
    gen_write(gen, ptx_dst(gen->f, i, 0), r, PTX_B32);
}

/* cvt.pack.sat.TYPE.s32 d, a, b: both limited to a type of 16 bits, a above b. With smaller types
 * (which are no types elsewhere: see the mnemonic) c goes above them. */
void gen_pack(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    const char *type = i->mnemonic + sizeof("cvt.pack.sat.") - 1;
    unsigned bits = (unsigned)strtoul(type + 1, NULL, 10);
    bool sign = type[0] == 's';
    int64_t high = ((int64_t)1 << (sign ? bits - 1 : bits)) - 1, low = sign ? -high - 1 : 0;
    val_t r = NULL;
    for (unsigned n = 0; n < 2; n++) {
        val_t x = gen_src(gen, n, PTX_S32, vec);
        x = gen_call2(gen, "llvm.smax", x, gen_like(x, (uint64_t)low));
        x = gen_call2(gen, "llvm.smin", x, gen_like(x, (uint64_t)high));
        x = LLVMBuildAnd(B, x, gen_like(x, ((uint64_t)1 << bits) - 1), "");
        r = n == 0 ? LLVMBuildShl(B, x, gen_like(x, bits), "") : LLVMBuildOr(B, r, x, "");
    }
    if (i->src_count > 2) {
        val_t c = gen_src(gen, 2, PTX_B32, vec);
        r = LLVMBuildOr(B, r, LLVMBuildShl(B, c, gen_like(c, (uint64_t)2 * bits), ""), "");
    }
    gen_write(gen, ptx_dst(gen->f, i, 0), r, PTX_B32);
}
