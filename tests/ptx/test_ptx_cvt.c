/* cvt between all types: sign and zero extension, truncation, saturation, every rounding. */
#include "tests/ptx/pt_device.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ptx/pt_row.h"

static char reg_of(const char *type)
{
    if (strcmp(type, "f32") == 0)
        return 'f';
    if (strcmp(type, "f64") == 0)
        return 'g';
    return strcmp(type + 1, "8") == 0 || strcmp(type + 1, "16") == 0 ? 'h'
           : strcmp(type + 1, "64") == 0                             ? 'd'
                                                                     : 'w';
}

static pt_row_t *add_cvt(pt_ref_t ref, const char *words, const char *to, const char *from)
{
    char shape[8];
    snprintf(shape, sizeof shape, "%c=%c", reg_of(to), reg_of(from));
    return pt_add(shape, ref, "cvt%s.%s.%s", words, to, from);
}

/* The register gets the value extended by the sign of the result's type. */
static uint64_t extended(const pt_op_t *op, uint64_t value)
{
    return op->is_signed ? (uint64_t)pt_signed(value, op->bits) : pt_low(value, op->bits);
}

static uint64_t ref_int(const pt_op_t *op, const uint64_t *in)
{
    __int128 v =
        op->is_signed2 ? (__int128)pt_signed(in[0], op->bits2) : (__int128)pt_low(in[0], op->bits2);
    if (op->sat) {
        __int128 high = ((__int128)1 << (op->bits - op->is_signed)) - 1;
        __int128 low = op->is_signed ? -high - 1 : 0;
        v = v > high ? high : v < low ? low : v;
    }
    return extended(op, (uint64_t)v);
}

/* sat: only where the manual gives it a meaning */
static void test_int(void **state)
{
    static const char *const types[] = {"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"};
    (void)state;
    for (unsigned to = 0; to < 8; to++) {
        for (unsigned from = 0; from < 8; from++) {
            add_cvt(ref_int, "", types[to], types[from]);
            if (to != from)
                add_cvt(ref_int, ".sat", types[to], types[from]);
        }
    }
    pt_run_rows();
}

static uint64_t ref_from_int(const pt_op_t *op, const uint64_t *in)
{
    uint64_t result;
    int64_t s = pt_signed(in[0], op->bits2);
    uint64_t u = pt_low(in[0], op->bits2);
    fesetround(op->round);
    if (op->bits == 32) {
        volatile float f = op->is_signed2 ? (float)s : (float)u;
        result = pt_bits32(f);
    } else {
        volatile double d = op->is_signed2 ? (double)s : (double)u;
        result = pt_bits64(d);
    }
    fesetround(FE_TONEAREST);
    return result;
}

static void test_from_int(void **state)
{
    static const char *const types[] = {"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"};
    static const char *const rounds[] = {".rn", ".rz", ".rm", ".rp"};
    (void)state;
    for (unsigned from = 0; from < 8; from++) {
        for (unsigned r = 0; r < 4; r++) {
            add_cvt(ref_from_int, rounds[r], "f32", types[from]);
            add_cvt(ref_from_int, rounds[r], "f64", types[from]);
        }
    }
    pt_run_rows();
}

static double rounded(const pt_op_t *op, double v)
{
    fesetround(op->round);
    volatile double r = nearbyint(v);
    fesetround(FE_TONEAREST);
    return r;
}

static double source(const pt_op_t *op, uint64_t bits)
{
    if (op->bits2 == 64)
        return pt_f64(bits);
    float v = pt_f32(bits);
    return op->ftz && fpclassify(v) == FP_SUBNORMAL ? copysign(0.0, v) : (double)v;
}

/* Out of range is the nearest limit; NaN is 0 (for 64-bit sources and results the sign bit alone). */
static uint64_t ref_to_int(const pt_op_t *op, const uint64_t *in)
{
    double v = source(op, in[0]);
    double high = ldexp(1, (int)(op->bits - op->is_signed)), low = op->is_signed ? -high : 0;
    uint64_t top =
        op->is_signed ? ((uint64_t)1 << (op->bits - 1)) - 1 : pt_low(UINT64_MAX, op->bits);
    if (isnan(v))
        return op->bits2 == 64 || op->bits == 64 ? (uint64_t)1 << (op->bits - 1) : 0;
    v = rounded(op, v);
    if (v >= high)
        return extended(op, top);
    if (v <= low)
        return extended(op, op->is_signed ? (uint64_t)1 << (op->bits - 1) : 0);
    return extended(op, op->is_signed ? (uint64_t)(int64_t)v : (uint64_t)v);
}

/* What a NaN gives as a 64-bit integer is not told alike by all manuals. */
static bool is_nan32(const uint64_t *in)
{
    return isnan(pt_f32(in[0]));
}

static bool is_nan64(const uint64_t *in)
{
    return isnan(pt_f64(in[0]));
}

static void test_to_int(void **state)
{
    static const char *const types[] = {"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"};
    static const char *const rounds[] = {".rni", ".rzi", ".rmi", ".rpi"};
    (void)state;
    for (unsigned to = 0; to < 8; to++) {
        bool wide = strcmp(types[to] + 1, "64") == 0;
        for (unsigned r = 0; r < 4; r++)
            add_cvt(ref_to_int, rounds[r], types[to], "f32")->is_open = wide ? is_nan32 : NULL;
        add_cvt(ref_to_int, ".rzi.ftz", types[to], "f32")->is_open = wide ? is_nan32 : NULL;
        add_cvt(ref_to_int, ".rzi", types[to], "f64")->is_open = is_nan64;
    }
    add_cvt(ref_to_int, ".rni.sat", "u8", "f32");
    add_cvt(ref_to_int, ".rmi.sat", "s16", "f32");
    pt_run_rows();
}

static uint64_t ref_float(const pt_op_t *op, const uint64_t *in)
{
    double v = source(op, in[0]);
    if (op->integral)
        v = rounded(op, v);
    fesetround(op->round);
    volatile float narrow = (float)v;
    fesetround(FE_TONEAREST);
    float f = narrow;
    if (op->ftz && fpclassify(f) == FP_SUBNORMAL)
        f = copysignf(0.0f, f);
    if (op->sat) {
        v = isnan(v) || v <= 0 ? 0.0 : v > 1 ? 1.0 : v;
        f = isnan(f) || f <= 0 ? 0.0f : f > 1 ? 1.0f : f;
    }
    return op->bits == 64 ? pt_bits64(v) : pt_bits32(f);
}

static void test_float(void **state)
{
    static const char *const rounds[] = {".rn", ".rz", ".rm", ".rp"};
    static const char *const integral[] = {".rni", ".rzi", ".rmi", ".rpi"};
    (void)state;
    for (unsigned r = 0; r < 4; r++) {
        add_cvt(ref_float, rounds[r], "f32", "f64");
        add_cvt(ref_float, integral[r], "f32", "f32");
        add_cvt(ref_float, integral[r], "f64", "f64");
    }
    add_cvt(ref_float, "", "f64", "f32");
    add_cvt(ref_float, ".ftz", "f64", "f32");
    add_cvt(ref_float, ".rn.ftz", "f32", "f64");
    add_cvt(ref_float, ".rni.ftz", "f32", "f32");
    add_cvt(ref_float, ".sat", "f32", "f32");
    add_cvt(ref_float, ".ftz.sat", "f32", "f32");
    add_cvt(ref_float, ".rzi.sat", "f32", "f32");
    pt_run_rows();
}

/* ---- f16, bf16 and tf32 ---- */

static bool has(const pt_op_t *op, const char *word)
{
    return strstr(op->mnemonic, word) != NULL;
}

/* Of the source, whatever its type: "cvt.rn.bf16.s64" */
static long double source_value(const pt_op_t *op, uint64_t bits)
{
    const char *type = strrchr(op->mnemonic, '.') + 1;
    float single = pt_f32(bits);
    if (type[0] == 's')
        return (long double)pt_signed(bits, (unsigned)atoi(type + 1));
    if (type[0] == 'u')
        return (long double)pt_low(bits, (unsigned)atoi(type + 1));
    if (strcmp(type, "f64") == 0)
        return pt_f64(bits);
    if (strcmp(type, "f32") == 0)
        return has(op, ".ftz") && fpclassify(single) == FP_SUBNORMAL ? copysignf(0, single)
                                                                     : single;
    return pt_half(bits & 0xffff, type[0] == 'b' ? 'B' : 'H');
}

static uint64_t narrowed(const pt_op_t *op, long double v, pt_format_t format)
{
    uint64_t infinity = (uint64_t)((1u << format.exponent) - 1) << format.mantissa;
    uint64_t sign = (uint64_t)1 << (format.mantissa + format.exponent);
    if (op->integral && !isnan(v)) {
        fesetround(op->round);
        volatile long double whole = nearbyintl(v);
        fesetround(FE_TONEAREST);
        v = whole;
    }
    if (op->sat)
        v = isnan(v) || v <= 0 ? 0 : v > 1 ? 1 : v;
    if (has(op, ".relu") && !isnan(v) && (v <= 0 || signbit(v)))
        v = 0;
    int round = has(op, ".rna") ? PT_AWAY : op->integral ? FE_TONEAREST : op->round;
    uint64_t bits = pt_round(v, 0, format, round);
    return has(op, ".satfinite") && (bits & ~sign) == infinity ? bits - 1 : bits;
}

static uint64_t ref_small(const pt_op_t *op, const uint64_t *in)
{
    bool brain = strstr(op->mnemonic, ".bf16.") != NULL;
    return narrowed(op, source_value(op, in[0]), brain ? pt_bf16 : pt_f16);
}

static uint64_t ref_small_pair(const pt_op_t *op, const uint64_t *in)
{
    pt_format_t format = has(op, ".bf16x2") ? pt_bf16 : pt_f16;
    return narrowed(op, source_value(op, in[0]), format) << 16 |
           narrowed(op, source_value(op, in[1]), format);
}

static uint64_t ref_tf32(const pt_op_t *op, const uint64_t *in)
{
    const pt_format_t format = {10, 8};
    long double v = source_value(op, in[0]);
    return isnan(v) ? 0x7fffffff : narrowed(op, v, format) << 13;
}

static void add_small(const char *words, const char *to, const char *from)
{
    static const char kinds[] = "HBfgwwdd";
    static const char *const types[] = {"f16", "bf16", "f32", "f64", "u32", "s32", "u64", "s64"};
    char shape[8], kind = 'h';
    for (unsigned i = 0; i < 8; i++)
        kind = strcmp(types[i], from) == 0 ? kinds[i] : kind;
    snprintf(shape, sizeof shape, "h=%c", kind == 'H' || kind == 'B' ? 'h' : kind);
    pt_row_t *row = pt_add(shape, ref_small, "cvt%s.%s.%s", words, to, from);
    row->sources[0] = kind;
    row->result = to[0] == 'b' ? 'B' : 'H';
}

static void test_small(void **state)
{
    static const char *const from[] = {"f16", "bf16", "f32", "f64", "u16", "s16",
                                       "u32", "s32",  "u64", "s64", "u8",  "s8"};
    static const char *const rounds[] = {".rn", ".rz", ".rm", ".rp"};
    static const char *const words[] = {".rn.relu", ".rz.relu", ".rn.satfinite", ".rz.satfinite",
                                        ".rn.relu.satfinite"};
    static const char *const integral[] = {".rni", ".rzi", ".rmi", ".rpi"};
    (void)state;
    for (unsigned to = 0; to < 2; to++) {
        const char *type = to ? "bf16" : "f16";
        for (unsigned f = 0; f < 12; f++) {
            for (unsigned r = 0; r < 4; r++) {
                if (f != to)
                    add_small(rounds[r], type, from[f]);
            }
        }
        for (unsigned w = 0; w < 5; w++)
            add_small(words[w], type, "f32");
        for (unsigned r = 0; r < 4; r++)
            add_small(integral[r], type, type);
        add_small(".rn.sat", type, "f32");
        add_small(".rz.sat", type, "f64");
        add_small(".rn.sat", type, "s32");
        add_small(".rn.ftz", type, "f32");
    }
    pt_run_rows();
}

static void test_small_pairs(void **state)
{
    static const char *const words[] = {".rn",      ".rz",           ".rn.relu",
                                        ".rz.relu", ".rn.satfinite", ".rz.relu.satfinite"};
    (void)state;
    for (unsigned w = 0; w < 6; w++) {
        pt_add("w=ff", ref_small_pair, "cvt%s.f16x2.f32", words[w])->result = 'X';
        pt_add("w=ff", ref_small_pair, "cvt%s.bf16x2.f32", words[w])->result = 'Y';
        pt_add("w=f", ref_tf32, "cvt%s.tf32.f32", words[w]);
    }
    pt_add("w=f", ref_tf32, "cvt.rna.tf32.f32");
    pt_add("w=f", ref_tf32, "cvt.rna.satfinite.tf32.f32");
    pt_run_rows();
}

static uint64_t ref_widened(const pt_op_t *op, const uint64_t *in)
{
    double v = (double)source_value(op, in[0]);
    if (op->sat)
        v = isnan(v) || v <= 0 ? 0 : v > 1 ? 1 : v;
    return op->bits == 64 ? pt_bits64(v) : pt_bits32((float)v);
}

static uint64_t ref_small_to_int(const pt_op_t *op, const uint64_t *in)
{
    uint64_t wide = pt_bits32((float)source_value(op, in[0]));
    pt_op_t single = *op;
    single.bits2 = 32;
    return ref_to_int(&single, &wide);
}

static bool is_nan_half(const uint64_t *in)
{
    return isnan(pt_half(in[0], 'H'));
}

static bool is_nan_brain(const uint64_t *in)
{
    return isnan(pt_half(in[0], 'B'));
}

static void test_from_small(void **state)
{
    static const char *const types[] = {"u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"};
    static const char *const rounds[] = {".rni", ".rzi", ".rmi", ".rpi"};
    (void)state;
    for (unsigned from = 0; from < 2; from++) {
        const char *type = from ? "bf16" : "f16";
        char kind = from ? 'B' : 'H';
        for (unsigned to = 0; to < 8; to++) {
            for (unsigned r = 0; r < 4; r++) {
                pt_row_t *row = add_cvt(ref_small_to_int, rounds[r], types[to], type);
                row->shape[2] = 'h';
                row->sources[0] = kind;
                if (strcmp(types[to] + 1, "64") == 0)
                    row->is_open = from ? is_nan_brain : is_nan_half;
            }
        }
        for (unsigned to = 0; to < 4; to++) {
            pt_row_t *row =
                add_cvt(ref_widened, to < 2 ? "" : ".sat", to % 2 ? "f64" : "f32", type);
            row->shape[2] = 'h';
            row->sources[0] = kind;
        }
    }
    pt_run_rows();
}

/* ---- formats of 8 bits and fewer ---- */

typedef struct {
    const char *name;
    unsigned mantissa, exponent, last; /* the largest magnitude's code */
    bool nan;
} tiny_t;

static const tiny_t tinies[] = {{"e4m3x2", 3, 4, 0x7e, true},
                                {"e5m2x2", 2, 5, 0x7b, true},
                                {"e2m3x2", 3, 2, 0x1f, false},
                                {"e3m2x2", 2, 3, 0x1f, false},
                                {"e2m1x2", 1, 2, 0x07, false}};

static const tiny_t *tiny_of(const pt_op_t *op)
{
    unsigned n = 0;
    while (!has(op, tinies[n].name))
        n++;
    return &tinies[n];
}

static double tiny_value(const tiny_t *t, unsigned code)
{
    int bias = (1 << (t->exponent - 1)) - 1, e = (int)(code >> t->mantissa);
    int m = (int)(code & ((1u << t->mantissa) - 1));
    if (code > t->last)
        return t->nan && (t->mantissa == 3 || m != 0) ? (double)NAN : (double)INFINITY;
    return e == 0 ? ldexp(m, 1 - bias - (int)t->mantissa)
                  : ldexp(m + (1 << t->mantissa), e - bias - (int)t->mantissa);
}

/* The nearest of all values; the even code on a tie; the largest beyond all. */
static uint64_t tiny_code(const pt_op_t *op, double v)
{
    const tiny_t *t = tiny_of(op);
    unsigned best = 0;
    if (isnan(v))
        return t->nan ? (t->mantissa == 3 ? 0x7f : 0x7f) : t->last;
    if (has(op, ".relu") && signbit(v))
        v = 0;
    for (unsigned code = 1; code <= t->last; code++) {
        double far = fabs(tiny_value(t, code) - fabs(v)),
               so_far = fabs(tiny_value(t, best) - fabs(v));
        if (far < so_far || (far == so_far && !isinf(v) && code % 2 == 0))
            best = code;
    }
    if (fabs(v) >= tiny_value(t, t->last))
        best = t->last;
    return best | (uint64_t)(signbit(v) != 0) << (t->mantissa + t->exponent);
}

static uint64_t ref_to_tiny(const pt_op_t *op, const uint64_t *in)
{
    bool halves = has(op, ".f16x2");
    double a = halves ? pt_half(in[0] >> 16, 'H') : (double)pt_f32(in[0]);
    double b = halves ? pt_half(in[0] & 0xffff, 'H') : (double)pt_f32(in[1]);
    return tiny_code(op, a) << (has(op, "e2m1x2") ? 4 : 8) | tiny_code(op, b);
}

static uint64_t widened(const pt_op_t *op, uint64_t code)
{
    const tiny_t *t = tiny_of(op);
    unsigned bits = t->mantissa + t->exponent;
    double v = tiny_value(t, (unsigned)code & ((1u << bits) - 1));
    v = code >> bits & 1 ? -v : v;
    if (has(op, ".relu") && !isnan(v) && signbit(v))
        v = 0;
    return pt_round(v, 0, pt_f16, FE_TONEAREST);
}

static uint64_t ref_from_tiny(const pt_op_t *op, const uint64_t *in)
{
    bool four = has(op, "e2m1x2");
    return widened(op, four ? in[0] >> 4 & 15 : in[0] >> 8 & 255) << 16 |
           widened(op, four ? in[0] & 15 : in[0] & 255);
}

static void test_tiny(void **state)
{
    static char bodies[5][4][160];
    (void)state;
    for (unsigned t = 0; t < 5; t++) {
        bool four = strcmp(tinies[t].name, "e2m1x2") == 0;
        const char *reg = four ? "%q1" : "%h5";
        for (unsigned relu = 0; relu < 2; relu++) {
            const char *word = relu ? ".relu" : "", *name = tinies[t].name;
            snprintf(bodies[t][relu], 160,
                     "{ .reg .b8 %%q1; cvt.rn.satfinite%s.%s.f32 %s, %%f1, %%f2; cvt.u16.u%s %%h0, "
                     "%s; }",
                     word, name, reg, four ? "8" : "16", reg);
            pt_row_t *row = pt_add("h=ff", ref_to_tiny, "cvt.rn.satfinite%s.%s.f32", word, name);
            row->body = bodies[t][relu];
            snprintf(bodies[t][2 + relu], 160,
                     "{ .reg .b8 %%q1; cvt.u%s.u16 %s, %%h1; cvt.rn%s.f16x2.%s %%w0, %s; }",
                     four ? "8" : "16", reg, word, name, reg);
            row = pt_add("w=h", ref_from_tiny, "cvt.rn%s.f16x2.%s", word, name);
            row->body = bodies[t][2 + relu];
            row->sources[0] = 'T';
            row->result = 'X';
        }
        if (t < 2) {
            pt_row_t *row = pt_add("h=w", ref_to_tiny, "cvt.rn.satfinite.%s.f16x2", tinies[t].name);
            row->sources[0] = 'X';
        }
    }
    pt_run_rows();
}

/* ---- cvt.pack ---- */

static uint64_t ref_pack(const pt_op_t *op, const uint64_t *in)
{
    const char *type = op->mnemonic + strlen("cvt.pack.sat.");
    unsigned bits = (unsigned)atoi(type + 1);
    int64_t high = ((int64_t)1 << (type[0] == 's' ? bits - 1 : bits)) - 1;
    int64_t low = type[0] == 's' ? -high - 1 : 0;
    uint64_t out = bits < 16 ? in[2] << 2 * bits : 0;
    for (unsigned n = 0; n < 2; n++) {
        int64_t v = pt_signed(in[n], 32);
        v = v > high ? high : v < low ? low : v;
        out |= pt_low((uint64_t)v, bits) << (n == 0 ? bits : 0);
    }
    return out;
}

static void test_pack(void **state)
{
    static const char *const types[] = {"u16", "s16", "u8", "s8", "u4", "s4", "u2", "s2"};
    (void)state;
    for (unsigned t = 0; t < 8; t++) {
        if (t < 2)
            pt_add("w=ww", ref_pack, "cvt.pack.sat.%s.s32", types[t]);
        else
            pt_add("w=www", ref_pack, "cvt.pack.sat.%s.s32.b32", types[t]);
    }
    pt_run_rows();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int),        cmocka_unit_test(test_from_int),
        cmocka_unit_test(test_to_int),     cmocka_unit_test(test_float),
        cmocka_unit_test(test_small),      cmocka_unit_test(test_small_pairs),
        cmocka_unit_test(test_from_small), cmocka_unit_test(test_tiny),
        cmocka_unit_test(test_pack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
