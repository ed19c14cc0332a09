/* cvt between all types: sign and zero extension, truncation, saturation, every rounding. */
#include "tests/ptx/pt_device.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>
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
        /* Directed rounding of 64-bit integers is refused at load. */
        for (unsigned r = 0; r < (strcmp(types[from] + 1, "64") == 0 ? 1u : 4u); r++)
            add_cvt(ref_from_int, rounds[r], "f32", types[from]);
        add_cvt(ref_from_int, ".rn", "f64", types[from]);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_int),
        cmocka_unit_test(test_from_int),
        cmocka_unit_test(test_to_int),
        cmocka_unit_test(test_float),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
