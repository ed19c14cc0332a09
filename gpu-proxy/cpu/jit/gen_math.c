/* PTX's approximate functions of f32 as polynomials, within PTX's error bounds:
 * ex2 2 ulp, lg2 2^-22 absolute in [0.5, 2] and 2 ulp elsewhere, sin and cos 2^-20.5 absolute in
 * [-pi, pi], tanh 2^-11 relative. */
#include "gpu-proxy/cpu/jit/gen_float.h"

#define B gen->b

static val_t fma_c(cpu_gen_t *gen, val_t x, val_t y, double c)
{
    return gen_call3(gen, "llvm.fma", x, y, gen_flike(x, c));
}

/* c[0] + x * (c[1] + x * (...)) */
static val_t polynomial(cpu_gen_t *gen, val_t x, const double *c, unsigned n)
{
    val_t p = gen_flike(x, c[n - 1]);
    for (unsigned k = n - 1; k-- > 0;) {
        p = fma_c(gen, p, x, c[k]);
    }
    return p;
}

static val_t as_int(cpu_gen_t *gen, val_t x)
{
    return gen_bitcast(gen, x, gen->i32);
}

static val_t as_float(cpu_gen_t *gen, val_t x)
{
    return gen_bitcast(gen, x, gen->f32);
}

/* 2^n for integers (i32) of normal numbers. */
static val_t power_of_two(cpu_gen_t *gen, val_t n)
{
    n = LLVMBuildAdd(B, n, gen_like(n, 127), "");
    return as_float(gen, LLVMBuildShl(B, n, gen_like(n, 23), ""));
}

static val_t clamp(cpu_gen_t *gen, val_t x, double low, double high)
{
    val_t lo = gen_flike(x, low), hi = gen_flike(x, high);
    x = LLVMBuildSelect(B, LLVMBuildFCmp(B, LLVMRealOGT, x, lo, ""), x, lo, "");
    return LLVMBuildSelect(B, LLVMBuildFCmp(B, LLVMRealOLT, x, hi, ""), x, hi, "");
}

static val_t keep_nan(cpu_gen_t *gen, val_t x, val_t r)
{
    return LLVMBuildSelect(B, LLVMBuildFCmp(B, LLVMRealUNO, x, x, ""), x, r, "");
}

/* Adding 1.5 * 2^23 leaves the nearest integer in the low bits. */
static const double ROUNDER = 12582912.0;

static const double EX2[] = {1.0,          6.9314718e-1, 2.4022651e-1, 5.5504109e-2,
                             9.6181291e-3, 1.3333558e-3, 1.5403530e-4};

/* AVX-512 has instructions for the fraction and for the power of two, exact at every edge. */
static val_t ex2_16(cpu_gen_t *gen, val_t x, val_t unused)
{
    enum { NEAREST = 8 /* imm8 of vreduce: to even, no exceptions */ };
    val_t all = LLVMConstInt(gen->i16, UINT16_MAX, 0), current = LLVMConstInt(gen->i32, 4, 0);
    val_t mode = LLVMConstInt(gen->i32, NEAREST, 0);
    (void)unused;
    val_t part = gen_call(gen, "llvm.x86.avx512.mask.reduce.ps.512", NULL, 0,
                          (val_t[]){x, mode, x, all, current}, 5);
    val_t whole = gen_call1(gen, "llvm.roundeven", x);
    val_t p = polynomial(gen, part, EX2, 7);
    return gen_call(gen, "llvm.x86.avx512.mask.scalef.ps.512", NULL, 0,
                    (val_t[]){p, whole, p, all, current}, 5);
}

static val_t ex2(cpu_gen_t *gen, val_t x)
{
    if (gen_has_zmm(gen, x)) {
        return gen_by_zmm(gen, ex2_16, x, x);
    }
    val_t c = clamp(gen, x, -160.0, 129.0);
    val_t t = LLVMBuildFAdd(B, c, gen_flike(c, ROUNDER), "");
    val_t whole = LLVMBuildFSub(B, t, gen_flike(c, ROUNDER), "");
    val_t n = LLVMBuildSub(B, as_int(gen, t), as_int(gen, gen_flike(c, ROUNDER)), "");
    val_t p = polynomial(gen, LLVMBuildFSub(B, c, whole, ""), EX2, 7);
    /* in two steps, so that subnormal and infinite results come out right */
    val_t half = LLVMBuildAShr(B, n, gen_like(n, 1), "");
    val_t rest = LLVMBuildSub(B, n, half, "");
    p = LLVMBuildFMul(B, p, power_of_two(gen, half), "");
    p = LLVMBuildFMul(B, p, power_of_two(gen, rest), "");
    return keep_nan(gen, x, p);
}

/* log2 of x = 2^e * m, m around 1: with s = (m - 1) / (m + 1), 2 / ln 2 * (s + s^3/3 + ...). */
static val_t lg2(cpu_gen_t *gen, val_t x)
{
    static const double C[] = {2.8853900817779268, 0.9617966939259756, 0.5770780163555854,
                               0.4121985831111324, 0.3205988979753252};
    val_t small = LLVMBuildFCmp(B, LLVMRealOLT, x, gen_flike(x, 0x1p-126), "");
    val_t scaled = LLVMBuildFMul(B, x, gen_flike(x, 0x1p24), "");
    val_t y = LLVMBuildSelect(B, small, scaled, x, "");
    val_t bits = as_int(gen, y);
    /* so that m lies in [sqrt(1/2), sqrt(2)) */
    val_t shifted = LLVMBuildSub(B, bits, gen_like(bits, 0x3f3504f3), "");
    val_t e = LLVMBuildAShr(B, shifted, gen_like(bits, 23), "");
    val_t m = as_float(gen, LLVMBuildSub(B, bits, LLVMBuildShl(B, e, gen_like(e, 23), ""), ""));
    e = LLVMBuildSub(B, e, LLVMBuildSelect(B, small, gen_like(e, 24), gen_like(e, 0), ""), "");
    val_t one = gen_flike(m, 1.0);
    val_t s = LLVMBuildFDiv(B, LLVMBuildFSub(B, m, one, ""), LLVMBuildFAdd(B, m, one, ""), "");
    val_t p = polynomial(gen, LLVMBuildFMul(B, s, s, ""), C, 5);
    val_t r = gen_call3(gen, "llvm.fma", s, p, LLVMBuildSIToFP(B, e, LLVMTypeOf(x), ""));
    val_t zero = gen_flike(x, 0.0),
          infinite = gen_bitcast(gen, gen_like(bits, 0x7f800000), gen->f32);
    val_t nan = gen_bitcast(gen, gen_like(bits, 0x7fffffff), gen->f32);
    r = LLVMBuildSelect(B, LLVMBuildFCmp(B, LLVMRealOEQ, x, infinite, ""), infinite, r, "");
    r = LLVMBuildSelect(B, LLVMBuildFCmp(B, LLVMRealOEQ, x, zero, ""),
                        LLVMBuildFNeg(B, infinite, ""), r, "");
    r = LLVMBuildSelect(B, LLVMBuildFCmp(B, LLVMRealOLT, x, zero, ""), nan, r, "");
    return keep_nan(gen, x, r);
}

/* Reduces to [-pi/4, pi/4] and a quadrant; the product is taken in three parts. */
static val_t sine(cpu_gen_t *gen, val_t x, unsigned quadrants)
{
    static const double S[] = {-1.6666654611e-1, 8.3321608736e-3, -1.9515295891e-4};
    static const double C[] = {4.166664568298827e-2, -1.388731625493765e-3, 2.443315711809948e-5};
    val_t t = fma_c(gen, x, gen_flike(x, 0.63661977236758134), ROUNDER);
    val_t k = LLVMBuildFSub(B, t, gen_flike(x, ROUNDER), "");
    val_t q = LLVMBuildAdd(B, as_int(gen, t), gen_like(as_int(gen, t), quadrants), "");
    val_t r = gen_call3(gen, "llvm.fma", k, gen_flike(x, -1.57079601287841797), x);
    r = gen_call3(gen, "llvm.fma", k, gen_flike(x, -3.1391647326017846e-7), r);
    r = gen_call3(gen, "llvm.fma", k, gen_flike(x, -5.3903025299577648e-15), r);
    val_t z = LLVMBuildFMul(B, r, r, "");
    val_t s = LLVMBuildFMul(B, LLVMBuildFMul(B, z, r, ""), polynomial(gen, z, S, 3), "");
    s = LLVMBuildFAdd(B, s, r, "");
    val_t c = LLVMBuildFMul(B, LLVMBuildFMul(B, z, z, ""), polynomial(gen, z, C, 3), "");
    c = LLVMBuildFAdd(B, fma_c(gen, z, gen_flike(z, -0.5), 1.0), c, "");
    val_t odd =
        LLVMBuildICmp(B, LLVMIntNE, LLVMBuildAnd(B, q, gen_like(q, 1), ""), gen_like(q, 0), "");
    val_t v = LLVMBuildSelect(B, odd, c, s, "");
    val_t sign = LLVMBuildShl(B, LLVMBuildAnd(B, q, gen_like(q, 2), ""), gen_like(q, 30), "");
    return as_float(gen, LLVMBuildXor(B, as_int(gen, v), sign, ""));
}

/* Small arguments by an odd polynomial, others by 1 - 2 / (e^2|x| + 1). */
static val_t tanh_of(cpu_gen_t *gen, val_t x)
{
    static const double T[] = {-0.33333284, 0.13325748, -0.05318453, 0.01763649};
    val_t a = gen_call1(gen, "llvm.fabs", x);
    val_t e =
        ex2(gen, LLVMBuildFMul(B, clamp(gen, a, 0.0, 20.0), gen_flike(x, 2.8853900817779268), ""));
    val_t one = gen_flike(x, 1.0);
    val_t big = LLVMBuildFSub(
        B, one, LLVMBuildFDiv(B, gen_flike(x, 2.0), LLVMBuildFAdd(B, e, one, ""), ""), "");
    big = gen_call2(gen, "llvm.copysign", big, x);
    val_t z = LLVMBuildFMul(B, x, x, "");
    val_t small = LLVMBuildFMul(B, LLVMBuildFMul(B, z, x, ""), polynomial(gen, z, T, 4), "");
    small = LLVMBuildFAdd(B, small, x, "");
    val_t near = LLVMBuildFCmp(B, LLVMRealOLT, a, gen_flike(x, 0.625), "");
    return keep_nan(gen, x, LLVMBuildSelect(B, near, small, big, ""));
}

val_t gen_math(cpu_gen_t *gen, unsigned op, val_t x)
{
    switch (op) {
    case PTX_OP_EX2:
        return ex2(gen, x);
    case PTX_OP_LG2:
        return lg2(gen, x);
    case PTX_OP_SIN:
        return sine(gen, x, 0);
    case PTX_OP_COS:
        return sine(gen, x, 1);
    default:
        return tanh_of(gen, x);
    }
}
