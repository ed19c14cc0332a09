/* f16, bf16 and pairs of them: arithmetic rounded once, minimum and maximum, comparisons, and the
 * approximations within the errors that the PTX ISA manual allows. */
#include "tests/ptx/pt_device.h"

#include <fenv.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/ptx/pt_row.h"

typedef enum { ADD, SUB, MUL, FMA, MIN, MAX, NEG, ABS, EX2, TANH } kind_t;

/* What a mnemonic says, beyond pt_op_t. */
typedef struct {
    char kind; /* H or B */
    kind_t op;
    bool ftz, sat, relu, nan, by_sign;
} half_t;

/* The row being added is the one that is checked: references are told by its mnemonic alone. */
static half_t read_half(const char *m)
{
    static const char *const names[] = {"add", "sub", "mul", "fma", "min",
                                        "max", "neg", "abs", "ex2", "tanh"};
    half_t h = {.kind = strstr(m, "bf16") ? 'B' : 'H',
                .ftz = strstr(m, ".ftz") != NULL,
                .sat = strstr(m, ".sat") != NULL,
                .relu = strstr(m, ".relu") != NULL,
                .nan = strstr(m, ".NaN") != NULL,
                .by_sign = strstr(m, ".xorsign.abs") != NULL};
    for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strncmp(m, names[i], strlen(names[i])) == 0)
            h.op = (kind_t)i;
    }
    return h;
}

static double flush(const half_t *h, double v)
{
    double least = h->kind == 'B' ? 0x1p-126 : 0x1p-14;
    return h->ftz && fabs(v) < least ? copysign(0.0, v) : v;
}

/* One NaN gives the other operand, -0 is less than +0; .NaN gives NaN if one of them is. */
static double least(double a, double b)
{
    if (isnan(a))
        return b;
    if (isnan(b))
        return a;
    return a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}

static double extreme(const half_t *h, double a, double b)
{
    bool negative = (signbit(a) != 0) != (signbit(b) != 0);
    if (h->nan && (isnan(a) || isnan(b)))
        return (double)NAN;
    if (h->by_sign) {
        a = fabs(a);
        b = fabs(b);
    }
    double r = h->op == MIN ? least(a, b) : -least(-a, -b);
    return h->by_sign ? copysign(r, negative ? -1 : 1) : r;
}

/* The exact value as a sum of two: what the first does not hold is in the sign of *rest. */
static long double exact(const half_t *h, const double *x, int *rest)
{
    long double a = x[0], b = x[1], c = x[2], p, s, t, e;
    *rest = 0;
    switch (h->op) {
    case ADD:
    case SUB:
    case FMA:
        p = h->op == FMA ? a * b : a;
        c = h->op == FMA ? c : h->op == SUB ? -b : b;
        s = p + c;
        t = s - p;
        e = (p - (s - t)) + (c - t);
        *rest = e > 0 ? 1 : e < 0 ? -1 : 0;
        return s;
    case MUL:
        return a * b;
    case MIN:
    case MAX:
        return extreme(h, x[0], x[1]);
    case NEG:
        return -a;
    case ABS:
        return fabsl(a);
    case EX2:
        return exp2l(a);
    default:
        return tanhl(a);
    }
}

static uint64_t one(const half_t *h, const uint64_t *in)
{
    double x[3];
    int rest;
    pt_format_t format = h->kind == 'B' ? pt_bf16 : pt_f16;
    for (unsigned i = 0; i < 3; i++)
        x[i] = flush(h, pt_half(in[i] & 0xffff, h->kind));
    long double v = exact(h, x, &rest);
    if (h->sat)
        v = isnan(v) || v <= 0 ? 0 : v > 1 ? 1 : v;
    if (h->relu && !isnan(v) && (signbit(v) || v <= 0))
        v = 0;
    if (h->sat || h->relu)
        rest = v == 0 || v == 1 ? 0 : rest;
    uint64_t bits = pt_round(v, rest, format, FE_TONEAREST);
    double rounded = pt_half(bits, h->kind);
    return flush(h, rounded) == rounded || isnan(rounded)
               ? bits
               : bits & (uint64_t)1 << (format.mantissa + format.exponent);
}

static uint64_t ref_one(const pt_op_t *op, const uint64_t *in)
{
    half_t h = read_half(op->mnemonic);
    return one(&h, in);
}

static uint64_t ref_pair(const pt_op_t *op, const uint64_t *in)
{
    half_t h = read_half(op->mnemonic);
    uint64_t upper[3] = {in[0] >> 16, in[1] >> 16, in[2] >> 16};
    return one(&h, in) | one(&h, upper) << 16;
}

/* A row for the type and one for pairs of it. */
static void add(const char *name, const char *type, unsigned sources, pt_compare_t compare,
                double tolerance)
{
    bool brain = type[0] == 'b';
    for (unsigned pair = 0; pair < 2; pair++) {
        char shape[8] = "", kinds[8] = "";
        for (unsigned i = 0; i < sources; i++) {
            strcat(shape, pair ? "w" : "h");
            strcat(kinds, pair ? (brain ? "Y" : "X") : brain ? "B" : "H");
        }
        char whole[12];
        snprintf(whole, sizeof whole, "%c=%s", shape[0], shape);
        pt_row_t *row =
            pt_add(whole, pair ? ref_pair : ref_one, "%s.%s%s", name, type, pair ? "x2" : "");
        snprintf(row->sources, sizeof row->sources, "%s", kinds);
        row->result = kinds[0];
        row->compare = compare;
        row->tolerance = tolerance;
    }
}

static void test_arithmetic(void **state)
{
    static const char *const f16[] = {"add", "add.rn", "add.rn.ftz", "add.rn.sat", "add.ftz.sat",
                                      "sub", "sub.rn", "sub.rn.ftz", "sub.rn.sat", "sub.ftz.sat",
                                      "mul", "mul.rn", "mul.rn.ftz", "mul.rn.sat", "mul.ftz.sat"};
    static const char *const fused[] = {"fma.rn",         "fma.rn.ftz",  "fma.rn.sat",
                                        "fma.rn.ftz.sat", "fma.rn.relu", "fma.rn.ftz.relu"};
    (void)state;
    for (unsigned i = 0; i < sizeof f16 / sizeof f16[0]; i++)
        add(f16[i], "f16", 2, PT_EXACT, 0);
    for (unsigned i = 0; i < sizeof fused / sizeof fused[0]; i++)
        add(fused[i], "f16", 3, PT_EXACT, 0);
    add("neg", "f16", 1, PT_EXACT, 0);
    add("neg.ftz", "f16", 1, PT_EXACT, 0);
    add("abs", "f16", 1, PT_EXACT, 0);
    add("abs.ftz", "f16", 1, PT_EXACT, 0);
    pt_run_rows();
}

static void test_brain(void **state)
{
    (void)state;
    add("add.rn", "bf16", 2, PT_EXACT, 0);
    add("add", "bf16", 2, PT_EXACT, 0);
    add("sub.rn", "bf16", 2, PT_EXACT, 0);
    add("mul.rn", "bf16", 2, PT_EXACT, 0);
    add("fma.rn", "bf16", 3, PT_EXACT, 0);
    add("fma.rn.relu", "bf16", 3, PT_EXACT, 0);
    add("neg", "bf16", 1, PT_EXACT, 0);
    add("abs", "bf16", 1, PT_EXACT, 0);
    pt_run_rows();
}

static void test_extremes(void **state)
{
    static const char *const words[] = {"", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"};
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        char name[32];
        snprintf(name, sizeof name, "%s%s", i & 1 ? "max" : "min", words[i / 2]);
        add(name, "f16", 2, PT_EXACT, 0);
        add(name, "bf16", 2, PT_EXACT, 0);
        snprintf(name, sizeof name, "%s.ftz%s", i & 1 ? "max" : "min", words[i / 2]);
        add(name, "f16", 2, PT_EXACT, 0);
    }
    pt_run_rows();
}

static void test_approximations(void **state)
{
    (void)state;
    add("ex2.approx", "f16", 1, PT_RATIO, 0x1p-9);
    add("ex2.approx.ftz", "bf16", 1, PT_RATIO, 0x1p-7);
    add("tanh.approx", "f16", 1, PT_ABS, 0x1p-10);
    add("tanh.approx", "bf16", 1, PT_ABS, 0x1p-8);
    pt_run_rows();
}

/* ---- comparisons ---- */

static bool compare(const char *m, double a, double b)
{
    static const struct {
        char name[4];
        unsigned when; /* bit 0: less, 1: equal, 2: greater, 3: unordered */
    } table[] = {{"eq", 2},   {"ne", 5},   {"lt", 1},   {"le", 3},  {"gt", 4},
                 {"ge", 6},   {"equ", 10}, {"neu", 13}, {"ltu", 9}, {"leu", 11},
                 {"gtu", 12}, {"geu", 14}, {"num", 7},  {"nan", 8}};
    size_t length = strcspn(m, ".");
    unsigned is = isnan(a) || isnan(b) ? 8 : a < b ? 1 : a == b ? 2 : 4;
    for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strlen(table[i].name) == length && strncmp(table[i].name, m, length) == 0)
            return (table[i].when & is) != 0;
    }
    fail_msg("no comparison in %s", m);
    return false;
}

static bool compared(const char *m, const uint64_t *in, unsigned shift)
{
    half_t h = read_half(m);
    return compare(strchr(m, '.') + 1, flush(&h, pt_half(in[0] >> shift & 0xffff, h.kind)),
                   flush(&h, pt_half(in[1] >> shift & 0xffff, h.kind)));
}

static uint64_t ref_setp(const pt_op_t *op, const uint64_t *in)
{
    return compared(op->mnemonic, in, 0);
}

/* The body gives p in bit 0 and q in bit 1. */
static uint64_t ref_setp_pair(const pt_op_t *op, const uint64_t *in)
{
    return compared(op->mnemonic, in, 0) | (uint64_t)compared(op->mnemonic, in, 16) << 1;
}

static uint64_t ref_set(const pt_op_t *op, const uint64_t *in)
{
    bool lower = compared(op->mnemonic, in, 0), upper = compared(op->mnemonic, in, 16);
    bool is_float = strstr(op->mnemonic, ".f16.") || strstr(op->mnemonic, ".f16x2.f16x2");
    bool brain = strstr(op->mnemonic, ".bf16.") || strstr(op->mnemonic, ".bf16x2.bf16x2");
    uint64_t truth = brain ? 0x3f80 : is_float ? 0x3c00 : 0xffff;
    if (strstr(op->mnemonic, "x2"))
        return (lower ? truth : 0) | (upper ? truth << 16 : 0);
    return lower ? (truth == 0xffff ? UINT64_MAX : truth) : 0;
}

static void add_set(const char *cmp, const char *to, const char *from)
{
    bool brain = from[0] == 'b', pair = strstr(from, "x2") != NULL;
    bool narrow = strstr(to, "16") && !strstr(to, "x2");
    char shape[8];
    snprintf(shape, sizeof shape, "%c=%s", narrow ? 'h' : 'w', pair ? "ww" : "hh");
    pt_row_t *row = pt_add(shape, ref_set, "set.%s.%s.%s", cmp, to, from);
    snprintf(row->sources, sizeof row->sources, "%s",
             pair ? (brain ? "YY" : "XX") : (brain ? "BB" : "HH"));
}

static void test_comparisons(void **state)
{
    static const char *const names[] = {"eq",  "ne",  "lt",  "le",  "gt",  "ge",  "equ",
                                        "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
    static char bodies[2 * 14][160];
    (void)state;
    for (unsigned i = 0; i < 28; i++) {
        const char *type = i % 2 ? "bf16" : "f16", *name = names[i / 2];
        pt_row_t *row = pt_add("p=hh", ref_setp, "setp.%s.%s", name, type);
        snprintf(row->sources, sizeof row->sources, "%s", i % 2 ? "BB" : "HH");
        row = pt_add("w=ww", ref_setp_pair, "setp.%s.%sx2", name, type);
        snprintf(row->sources, sizeof row->sources, "%s", i % 2 ? "YY" : "XX");
        snprintf(bodies[i], sizeof bodies[i],
                 "setp.%s.%sx2 %%p5|%%p6, %%w1, %%w2; selp.u32 %%w3, 1, 0, %%p5;"
                 "selp.u32 %%w4, 2, 0, %%p6; or.b32 %%w0, %%w3, %%w4;",
                 name, type);
        row->body = bodies[i];
    }
    pt_row_t *row = pt_add("p=hh", ref_setp, "setp.eq.ftz.f16");
    snprintf(row->sources, sizeof row->sources, "HH");
    add_set("lt", "u16", "f16");
    add_set("geu", "s16", "bf16");
    add_set("eq", "u32", "f16");
    add_set("ne", "s32", "bf16");
    add_set("gt", "f16", "f16");
    add_set("le", "bf16", "bf16");
    add_set("lt", "f16x2", "f16x2");
    add_set("neu", "u32", "f16x2");
    add_set("gt", "bf16x2", "bf16x2");
    add_set("nan", "s32", "bf16x2");
    pt_run_rows();
}

static uint64_t ref_set_from_u32(const pt_op_t *op, const uint64_t *in)
{
    bool is_less = in[0] < in[1];
    return is_less ? (strstr(op->mnemonic, "bf16") ? 0x3f80 : 0x3c00) : 0;
}

static void test_sets(void **state)
{
    (void)state;
    pt_add("h=ww", ref_set_from_u32, "set.lt.f16.u32");
    pt_add("h=dd", ref_set_from_u32, "set.lt.f16.u64");
    pt_add("h=ww", ref_set_from_u32, "set.lt.bf16.u32");
    pt_run_rows();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_arithmetic),  cmocka_unit_test(test_brain),
        cmocka_unit_test(test_extremes),    cmocka_unit_test(test_approximations),
        cmocka_unit_test(test_comparisons), cmocka_unit_test(test_sets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
