/* Floating-point instructions: exact ones bit by bit, approximations within the error that the PTX
 * ISA manual allows. */
#include "tests/ptx/pt_device.h"

#include <fenv.h>
#include <immintrin.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/ptx/pt_row.h"

/* Denormal operands and results become zeros of the same sign under .ftz. */
static float flush(const pt_op_t *op, float v)
{
    return op->ftz && fpclassify(v) == FP_SUBNORMAL ? copysignf(0.0f, v) : v;
}

static float arg(const pt_op_t *op, uint64_t bits)
{
    return flush(op, pt_f32(bits));
}

static uint64_t finish32(const pt_op_t *op, float v)
{
    v = flush(op, v);
    if (op->sat)
        v = isnan(v) || v <= 0.0f ? 0.0f : v > 1.0f ? 1.0f : v;
    return pt_bits32(v);
}

typedef enum { ADD, SUB, MUL, DIV, FMA, SQRT, RCP } kind_t;

static float compute32(kind_t kind, float a, float b, float c)
{
    volatile float x = a, y = b, z = c, r;
    switch (kind) {
    case ADD:
        r = x + y;
        break;
    case SUB:
        r = x - y;
        break;
    case MUL:
        r = x * y;
        break;
    case DIV:
        r = x / y;
        break;
    case FMA:
        r = fmaf(x, y, z);
        break;
    case SQRT:
        r = sqrtf(x);
        break;
    default:
        r = 1.0f / x;
        break;
    }
    return r;
}

static double compute64(kind_t kind, double a, double b, double c)
{
    volatile double x = a, y = b, z = c, r;
    switch (kind) {
    case ADD:
        r = x + y;
        break;
    case SUB:
        r = x - y;
        break;
    case MUL:
        r = x * y;
        break;
    case DIV:
        r = x / y;
        break;
    case FMA:
        r = fma(x, y, z);
        break;
    case SQRT:
        r = sqrt(x);
        break;
    default:
        r = 1.0 / x;
        break;
    }
    return r;
}

static uint64_t compute(kind_t kind, const pt_op_t *op, const uint64_t *in)
{
    uint64_t result;
    fesetround(op->round);
    if (op->bits == 64)
        result = pt_bits64(compute64(kind, pt_f64(in[0]), pt_f64(in[1]), pt_f64(in[2])));
    else
        result = finish32(op, compute32(kind, arg(op, in[0]), arg(op, in[1]), arg(op, in[2])));
    fesetround(FE_TONEAREST);
    return result;
}

static uint64_t ref_add(const pt_op_t *op, const uint64_t *in)
{
    return compute(ADD, op, in);
}

static uint64_t ref_sub(const pt_op_t *op, const uint64_t *in)
{
    return compute(SUB, op, in);
}

static uint64_t ref_mul(const pt_op_t *op, const uint64_t *in)
{
    return compute(MUL, op, in);
}

static uint64_t ref_div(const pt_op_t *op, const uint64_t *in)
{
    return compute(DIV, op, in);
}

static uint64_t ref_fma(const pt_op_t *op, const uint64_t *in)
{
    return compute(FMA, op, in);
}

static uint64_t ref_sqrt(const pt_op_t *op, const uint64_t *in)
{
    return compute(SQRT, op, in);
}

static uint64_t ref_rcp(const pt_op_t *op, const uint64_t *in)
{
    return compute(RCP, op, in);
}

static uint64_t ref_neg(const pt_op_t *op, const uint64_t *in)
{
    return op->bits == 64 ? pt_bits64(-pt_f64(in[0])) : finish32(op, -arg(op, in[0]));
}

static uint64_t ref_abs(const pt_op_t *op, const uint64_t *in)
{
    return op->bits == 64 ? pt_bits64(fabs(pt_f64(in[0]))) : finish32(op, fabsf(arg(op, in[0])));
}

/* One NaN gives the other operand; -0 is less than +0. */
static double least(double a, double b)
{
    if (isnan(a))
        return b;
    if (isnan(b))
        return a;
    return a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}

static uint64_t ref_min(const pt_op_t *op, const uint64_t *in)
{
    return op->bits == 64 ? pt_bits64(least(pt_f64(in[0]), pt_f64(in[1])))
                          : pt_bits32((float)least(arg(op, in[0]), arg(op, in[1])));
}

static uint64_t ref_max(const pt_op_t *op, const uint64_t *in)
{
    return op->bits == 64 ? pt_bits64(-least(-pt_f64(in[0]), -pt_f64(in[1])))
                          : pt_bits32((float)-least(-arg(op, in[0]), -arg(op, in[1])));
}

/* copysign d, a, b: the sign of a, the magnitude of b */
static uint64_t ref_copysign(const pt_op_t *op, const uint64_t *in)
{
    return op->bits == 64 ? pt_bits64(copysign(pt_f64(in[1]), pt_f64(in[0])))
                          : pt_bits32(copysignf(pt_f32(in[1]), pt_f32(in[0])));
}

static void test_exact(void **state)
{
    static const char *const rounds[] = {"rn", "rz", "rm", "rp"};
    static const char *const flags[] = {"", ".ftz", ".sat", ".ftz.sat"};
    (void)state;
    for (unsigned r = 0; r < 4; r++) {
        for (unsigned k = 0; k < 4; k++) {
            pt_add("f=ff", ref_add, "add.%s%s.f32", rounds[r], flags[k]);
            pt_add("f=ff", ref_mul, "mul.%s%s.f32", rounds[r], flags[k]);
            pt_add("f=fff", ref_fma, "fma.%s%s.f32", rounds[r], flags[k]);
        }
        pt_add("f=ff", ref_sub, "sub.%s.f32", rounds[r]);
        pt_add("f=fff", ref_fma, "mad.%s.f32", rounds[r]);
        for (unsigned k = 0; k < 2; k++) {
            pt_add("f=ff", ref_div, "div.%s%s.f32", rounds[r], flags[k]);
            pt_add("f=f", ref_sqrt, "sqrt.%s%s.f32", rounds[r], flags[k]);
            pt_add("f=f", ref_rcp, "rcp.%s%s.f32", rounds[r], flags[k]);
        }
    }
    pt_add("f=ff", ref_add, "add.f32");
    pt_add("f=ff", ref_sub, "sub.ftz.f32");
    pt_add("f=ff", ref_mul, "mul.f32");
    pt_add("f=f", ref_neg, "neg.f32");
    pt_add("f=f", ref_neg, "neg.ftz.f32");
    pt_add("f=f", ref_abs, "abs.f32");
    pt_add("f=f", ref_abs, "abs.ftz.f32");
    pt_add("f=ff", ref_min, "min.f32");
    pt_add("f=ff", ref_max, "max.f32");
    pt_add("f=ff", ref_min, "min.ftz.f32");
    pt_add("f=ff", ref_copysign, "copysign.f32");
    pt_run_rows();
}

static void test_double(void **state)
{
    static const char *const rounds[] = {"rn", "rz", "rm", "rp"};
    (void)state;
    for (unsigned r = 0; r < 4; r++) {
        pt_add("g=gg", ref_add, "add.%s.f64", rounds[r]);
        pt_add("g=gg", ref_sub, "sub.%s.f64", rounds[r]);
        pt_add("g=gg", ref_mul, "mul.%s.f64", rounds[r]);
        pt_add("g=gg", ref_div, "div.%s.f64", rounds[r]);
        pt_add("g=ggg", ref_fma, "fma.%s.f64", rounds[r]);
        pt_add("g=ggg", ref_fma, "mad.%s.f64", rounds[r]);
        pt_add("g=g", ref_sqrt, "sqrt.%s.f64", rounds[r]);
        pt_add("g=g", ref_rcp, "rcp.%s.f64", rounds[r]);
    }
    pt_add("g=gg", ref_add, "add.f64");
    pt_add("g=gg", ref_mul, "mul.f64");
    pt_add("g=gg", ref_copysign, "copysign.f64");
    pt_add("g=g", ref_neg, "neg.f64");
    pt_add("g=g", ref_abs, "abs.f64");
    pt_add("g=gg", ref_min, "min.f64");
    pt_add("g=gg", ref_max, "max.f64");
    pt_run_rows();
}

/* ---- two values in one register, and operands of a smaller type ---- */

/* The same on both halves. */
static uint64_t pairs(kind_t kind, const pt_op_t *op, const uint64_t *in)
{
    pt_op_t one = *op;
    one.bits = 32;
    uint64_t low[3], high[3];
    for (unsigned i = 0; i < 3; i++) {
        low[i] = in[i] & UINT32_MAX;
        high[i] = in[i] >> 32;
    }
    return compute(kind, &one, low) | compute(kind, &one, high) << 32;
}

static uint64_t ref_add_pair(const pt_op_t *op, const uint64_t *in)
{
    return pairs(ADD, op, in);
}

static uint64_t ref_mul_pair(const pt_op_t *op, const uint64_t *in)
{
    return pairs(MUL, op, in);
}

static uint64_t ref_fma_pair(const pt_op_t *op, const uint64_t *in)
{
    return pairs(FMA, op, in);
}

static void add_pair(const char *shape, pt_ref_t ref, const char *name)
{
    pt_row_t *row = pt_add(shape, ref, "%s.f32x2", name);
    row->result = 'F';
    for (char *c = row->sources; *c; c++)
        *c = 'F';
}

static void test_pairs(void **state)
{
    static const char *const rounds[] = {"rn", "rz", "rm", "rp"};
    char name[16];
    (void)state;
    for (unsigned r = 0; r < 8; r++) {
        const char *ftz = r < 4 ? "" : ".ftz";
        snprintf(name, sizeof name, "add.%s%s", rounds[r % 4], ftz);
        add_pair("d=dd", ref_add_pair, name);
        snprintf(name, sizeof name, "mul.%s%s", rounds[r % 4], ftz);
        add_pair("d=dd", ref_mul_pair, name);
        snprintf(name, sizeof name, "fma.%s%s", rounds[r % 4], ftz);
        add_pair("d=ddd", ref_fma_pair, name);
    }
    pt_run_rows();
}

/* All operands but the last are f16 or bf16. */
static uint64_t mixed(kind_t kind, const pt_op_t *op, const uint64_t *in)
{
    uint64_t wide[3] = {in[0], in[1], in[2]};
    char small = strstr(op->mnemonic, "bf16") ? 'B' : 'H';
    pt_op_t one = *op;
    one.bits = 32;
    for (unsigned i = 0; i < (kind == FMA ? 2u : 1u); i++)
        wide[i] = pt_bits32((float)pt_half(in[i], small));
    return compute(kind, &one, wide);
}

static uint64_t ref_add_mixed(const pt_op_t *op, const uint64_t *in)
{
    return mixed(ADD, op, in);
}

static uint64_t ref_sub_mixed(const pt_op_t *op, const uint64_t *in)
{
    return mixed(SUB, op, in);
}

static uint64_t ref_fma_mixed(const pt_op_t *op, const uint64_t *in)
{
    return mixed(FMA, op, in);
}

static void test_mixed(void **state)
{
    static const char *const words[] = {"", ".rz", ".rm", ".rp.sat", ".rn.sat"};
    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        const char *type = i % 2 ? "bf16" : "f16", *kinds = i % 2 ? "BBf" : "HHf";
        pt_row_t *row = pt_add("f=hf", ref_add_mixed, "add%s.f32.%s", words[i / 2], type);
        snprintf(row->sources, sizeof row->sources, "%s", kinds + 1);
        row = pt_add("f=hf", ref_sub_mixed, "sub%s.f32.%s", words[i / 2], type);
        snprintf(row->sources, sizeof row->sources, "%s", kinds + 1);
        row = pt_add("f=hhf", ref_fma_mixed, "fma%s.f32.%s", i < 2 ? ".rn" : words[i / 2], type);
        snprintf(row->sources, sizeof row->sources, "%s", kinds);
    }
    pt_run_rows();
}

/* ---- approximations ---- */

static uint64_t ref_ex2(const pt_op_t *op, const uint64_t *in)
{
    return finish32(op, (float)exp2((double)arg(op, in[0])));
}

static uint64_t ref_lg2(const pt_op_t *op, const uint64_t *in)
{
    return finish32(op, (float)log2((double)arg(op, in[0])));
}

static uint64_t ref_sin(const pt_op_t *op, const uint64_t *in)
{
    return finish32(op, (float)sin((double)arg(op, in[0])));
}

static uint64_t ref_cos(const pt_op_t *op, const uint64_t *in)
{
    return finish32(op, (float)cos((double)arg(op, in[0])));
}

static uint64_t ref_tanh(const pt_op_t *op, const uint64_t *in)
{
    return finish32(op, (float)tanh((double)arg(op, in[0])));
}

static uint64_t ref_rsqrt(const pt_op_t *op, const uint64_t *in)
{
    return finish32(op, (float)(1.0 / sqrt((double)arg(op, in[0]))));
}

/* The manual leaves the rest to the device. */
static bool far_from_zero(const uint64_t *in)
{
    float v = pt_f32(in[0]);
    return isfinite(v) && fabsf(v) > 300.0f;
}

/* div.approx: for divisors in [2^-126, 2^126] */
static bool odd_divisor(const uint64_t *in)
{
    float v = fabsf(pt_f32(in[1]));
    return v != 0 && (v < 0x1p-126f || v > 0x1p126f);
}

static void within(pt_row_t *row, pt_compare_t compare, double tolerance)
{
    row->compare = compare;
    row->tolerance = tolerance;
}

static void add_approximation(pt_ref_t ref, const char *name, pt_compare_t compare,
                              double tolerance, bool (*is_open)(const uint64_t *))
{
    pt_row_t *row = pt_add("f=f", ref, "%s.f32", name);
    within(row, compare, tolerance);
    row->is_open = is_open;
    row = pt_add("f=f", ref, "%s.ftz.f32", name);
    within(row, compare, tolerance);
    row->is_open = is_open;
}

/* approx.ftz.f64: 20 bits of the mantissa of either, the lower word is not looked at. */
static uint64_t upper_word(uint64_t bits)
{
    double v = pt_f64(bits & 0xffffffff00000000);
    return pt_bits64(fpclassify(v) == FP_SUBNORMAL ? copysign(0.0, v) : v);
}

static uint64_t ref_gross_rcp(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    double r = 1.0 / pt_f64(upper_word(in[0]));
    return pt_bits64(fpclassify(r) == FP_SUBNORMAL ? copysign(0.0, r) : r);
}

static uint64_t ref_gross_rsqrt(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return pt_bits64(1.0 / sqrt(pt_f64(upper_word(in[0]))));
}

static uint64_t ref_rsqrt64(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return pt_bits64(1.0 / sqrt(pt_f64(in[0])));
}

static uint64_t ref_zero(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    (void)in;
    return 0;
}

static void test_gross(void **state)
{
    (void)state;
    within(pt_add("g=g", ref_gross_rcp, "rcp.approx.ftz.f64"), PT_RATIO, 0x1p-19);
    within(pt_add("g=g", ref_gross_rsqrt, "rsqrt.approx.ftz.f64"), PT_RATIO, 0x1p-19);
    within(pt_add("g=g", ref_rsqrt64, "rsqrt.approx.f64"), PT_ULP, 2);
    pt_row_t *row = pt_add("w=g", ref_zero, "rcp.approx.ftz.f64 rsqrt.approx.ftz.f64");
    row->body = "rcp.approx.ftz.f64 %g4, %g1; rsqrt.approx.ftz.f64 %g5, %g1; mov.b64 %d5, %g4;"
                "mov.b64 %d6, %g5; or.b64 %d5, %d5, %d6; cvt.u32.u64 %w0, %d5;";
    pt_run_rows();
}

static void test_approximations(void **state)
{
    (void)state;
    add_approximation(ref_ex2, "ex2.approx", PT_ULP, 3, NULL);
    add_approximation(ref_lg2, "lg2.approx", PT_ULP, 4, NULL);
    add_approximation(ref_rcp, "rcp.approx", PT_ULP, 1, NULL);
    add_approximation(ref_rsqrt, "rsqrt.approx", PT_ULP, 3, NULL);
    add_approximation(ref_sqrt, "sqrt.approx", PT_ULP, 2, NULL);
    add_approximation(ref_sin, "sin.approx", PT_ABS, 0x1p-14, far_from_zero);
    add_approximation(ref_cos, "cos.approx", PT_ABS, 0x1p-14, far_from_zero);
    within(pt_add("f=f", ref_tanh, "tanh.approx.f32"), PT_ABS, 0x1p-10);
    within(pt_add("f=ff", ref_div, "div.full.f32"), PT_ULP, 2);
    within(pt_add("f=ff", ref_div, "div.full.ftz.f32"), PT_ULP, 2);
    pt_row_t *row = pt_add("f=ff", ref_div, "div.approx.f32");
    within(row, PT_ULP, 2);
    row->is_open = odd_divisor;
    row = pt_add("f=ff", ref_div, "div.approx.ftz.f32");
    within(row, PT_ULP, 2);
    row->is_open = odd_divisor;
    /* In the first quadrant the errors are smaller. */
    row = pt_add("f=f", ref_sin, "sin.approx.f32");
    within(row, PT_ABS, 0x1p-20);
    snprintf(row->sources, sizeof row->sources, "n");
    row = pt_add("f=f", ref_cos, "cos.approx.f32");
    within(row, PT_ABS, 0x1p-20);
    snprintf(row->sources, sizeof row->sources, "n");
    pt_run_rows();
}

/* ---- comparisons ---- */

static int order(const pt_op_t *op, const uint64_t *in)
{
    double a = op->bits2 == 64 ? pt_f64(in[0]) : (double)arg(op, in[0]);
    double b = op->bits2 == 64 ? pt_f64(in[1]) : (double)arg(op, in[1]);
    return isnan(a) || isnan(b) ? 2 : a < b ? -1 : a > b;
}

#define ORDERED(name, condition)                                                                   \
    static uint64_t ref_##name(const pt_op_t *op, const uint64_t *in)                              \
    {                                                                                              \
        int o = order(op, in);                                                                     \
        return condition;                                                                          \
    }
ORDERED(eq, o == 0)
ORDERED(ne, o == -1 || o == 1)
ORDERED(lt, o == -1)
ORDERED(le, o == -1 || o == 0)
ORDERED(gt, o == 1)
ORDERED(ge, o == 1 || o == 0)
ORDERED(equ, o == 0 || o == 2)
ORDERED(neu, o != 0)
ORDERED(ltu, o == -1 || o == 2)
ORDERED(leu, o != 1)
ORDERED(gtu, o == 1 || o == 2)
ORDERED(geu, o != -1)
ORDERED(num, o != 2)
ORDERED(nan, o == 2)
ORDERED(set_gt_bits, o == 1 ? UINT32_MAX : 0)
ORDERED(set_neu_float, o != 0 ? 0x3f800000 : 0)

static uint64_t ref_slct(const pt_op_t *op, const uint64_t *in)
{
    float c = arg(op, in[2]);
    return c >= 0.0f ? in[0] : in[1];
}

/* An f32 that is subnormal is none as f64: it is looked at as it is. */
#define CLASS(op, in) ((op)->bits == 64 ? fpclassify(pt_f64((in)[0])) : fpclassify(pt_f32((in)[0])))

static uint64_t ref_finite(const pt_op_t *op, const uint64_t *in)
{
    return CLASS(op, in) != FP_INFINITE && CLASS(op, in) != FP_NAN;
}

static uint64_t ref_infinite(const pt_op_t *op, const uint64_t *in)
{
    return CLASS(op, in) == FP_INFINITE;
}

static uint64_t ref_number(const pt_op_t *op, const uint64_t *in)
{
    return CLASS(op, in) != FP_NAN;
}

static uint64_t ref_notanumber(const pt_op_t *op, const uint64_t *in)
{
    return CLASS(op, in) == FP_NAN;
}

static uint64_t ref_normal(const pt_op_t *op, const uint64_t *in)
{
    return CLASS(op, in) == FP_NORMAL;
}

static uint64_t ref_subnormal(const pt_op_t *op, const uint64_t *in)
{
    return CLASS(op, in) == FP_SUBNORMAL;
}

static void test_comparisons(void **state)
{
    static const struct {
        const char *name;
        pt_ref_t ref;
    } table[] = {{"eq", ref_eq},   {"ne", ref_ne},   {"lt", ref_lt},   {"le", ref_le},
                 {"gt", ref_gt},   {"ge", ref_ge},   {"equ", ref_equ}, {"neu", ref_neu},
                 {"ltu", ref_ltu}, {"leu", ref_leu}, {"gtu", ref_gtu}, {"geu", ref_geu},
                 {"num", ref_num}, {"nan", ref_nan}};
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        pt_add("p=ff", table[i].ref, "setp.%s.f32", table[i].name);
        pt_add("p=ff", table[i].ref, "setp.%s.ftz.f32", table[i].name);
        pt_add("p=gg", table[i].ref, "setp.%s.f64", table[i].name);
    }
    pt_add("w=ff", ref_set_gt_bits, "set.gt.u32.f32");
    pt_add("f=ff", ref_set_neu_float, "set.neu.f32.f32");
    pt_add("f=fff", ref_slct, "slct.f32.f32");
    pt_add("w=wwf", ref_slct, "slct.ftz.u32.f32");
    pt_add("p=f", ref_finite, "testp.finite.f32");
    pt_add("p=g", ref_finite, "testp.finite.f64");
    pt_add("p=f", ref_infinite, "testp.infinite.f32");
    pt_add("p=g", ref_infinite, "testp.infinite.f64");
    pt_add("p=f", ref_number, "testp.number.f32");
    pt_add("p=g", ref_number, "testp.number.f64");
    pt_add("p=f", ref_notanumber, "testp.notanumber.f32");
    pt_add("p=g", ref_notanumber, "testp.notanumber.f64");
    pt_add("p=f", ref_normal, "testp.normal.f32");
    pt_add("p=g", ref_normal, "testp.normal.f64");
    pt_add("p=f", ref_subnormal, "testp.subnormal.f32");
    pt_add("p=g", ref_subnormal, "testp.subnormal.f64");
    pt_run_rows();
}

/* What the program sets for itself (a mathematical library may, or -ffast-math) is not the device's
 * business: neither that of the thread that opens it nor that of the one that launches. */
static void test_mode_of_the_host(void **state)
{
    unsigned before = _mm_getcsr(), odd = before | 0x8040 | 3 << 13; /* FTZ, DAZ, toward zero */
    const struct {
        float x, y, sum;
    } cases[] = {{0x1p-130f, 0x1p-131f, 0x1.8p-130f}, {1.0f, 0x1.8p-24f, 1.0f + 0x1p-23f}};
    (void)state;
    _mm_setcsr(odd);
    CUmodule module =
        pt_load(".version 7.0\n.target sm_70\n.address_size 64\n"
                ".visible .entry sum(.param .u64 p)\n{\n.reg .b64 %d<2>; .reg .f32 %f<4>;\n"
                "ld.param.u64 %d1, [p]; ld.global.f32 %f1, [%d1]; ld.global.f32 %f2, [%d1+4];\n"
                "add.rn.f32 %f3, %f1, %f2; st.global.f32 [%d1+8], %f3; ret;\n}\n");
    for (unsigned i = 0; i < 2; i++) {
        float in[3] = {cases[i].x, cases[i].y, 0}, out[3];
        CUdeviceptr p = pt_upload(in, sizeof in);
        void *params[] = {&p};
        pt_launch(pt_function(module, "sum"), (pt_dim_t){1, 1, 1}, (pt_dim_t){1, 1, 1}, 0, params);
        pt_download(out, p, sizeof out);
        pt_free(p);
        assert_memory_equal(&out[2], &cases[i].sum, sizeof out[2]);
    }
    assert_int_equal(_mm_getcsr() & ~0x3fu, odd & ~0x3fu);
    pt_unload(module);
    _mm_setcsr(before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mode_of_the_host),
        cmocka_unit_test(test_gross),
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_double),
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_mixed),
        cmocka_unit_test(test_approximations),
        cmocka_unit_test(test_comparisons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
