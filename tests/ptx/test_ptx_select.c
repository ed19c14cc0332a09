/* Comparison, selection and movement: every comparison on every type, with all that may follow it. */
#include "tests/ptx/pt_device.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/ptx/pt_row.h"

static const char *const cmps[] = {"eq", "ne", "lt", "le", "gt", "ge"};
static const char *const more_cmps[] = {"equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};
static const char *const all_types[] = {"b16", "b32", "b64", "u16", "u32", "u64",
                                        "s16", "s32", "s64", "f32", "f64"};

/* The register of a type. */
static char reg_of(const char *type)
{
    if (strcmp(type, "pred") == 0)
        return 'p';
    if (type[0] == 'f')
        return strcmp(type, "f32") == 0 ? 'f' : 'g';
    return strcmp(type + 1, "16") == 0 ? 'h' : strcmp(type + 1, "64") == 0 ? 'd' : 'w';
}

static bool has(const pt_op_t *op, const char *word)
{
    const char *at = strstr(op->mnemonic, word);
    return at && strchr(". ", at[strlen(word)]) != NULL;
}

/* Order of two values of the last type: 0 less, 1 equal, 2 greater, 3 unordered. */
static unsigned order(const pt_op_t *op, const uint64_t *in)
{
    const char *type = strrchr(op->mnemonic, '.') + 1;
    unsigned bits = strcmp(type + 1, "16") == 0 ? 16 : strcmp(type + 1, "32") == 0 ? 32 : 64;
    bool by_value = has(op, ".lo") || has(op, ".ls") || has(op, ".hi") || has(op, ".hs");
    if (type[0] == 'f') {
        double x = bits == 64 ? pt_f64(in[0]) : (double)pt_f32(in[0]);
        double y = bits == 64 ? pt_f64(in[1]) : (double)pt_f32(in[1]);
        if (has(op, ".ftz") && bits == 32) {
            x = fabs(x) < 0x1p-126 ? 0 : x;
            y = fabs(y) < 0x1p-126 ? 0 : y;
        }
        return isnan(x) || isnan(y) ? 3 : x < y ? 0 : x == y ? 1 : 2;
    }
    if (type[0] == 's' && !by_value) {
        int64_t x = pt_signed(in[0], bits), y = pt_signed(in[1], bits);
        return x < y ? 0 : x == y ? 1 : 2;
    }
    uint64_t x = pt_low(in[0], bits), y = pt_low(in[1], bits);
    return x < y ? 0 : x == y ? 1 : 2;
}

static bool compared(const pt_op_t *op, const uint64_t *in)
{
    static const struct {
        const char *word;
        unsigned when; /* bit n: in order n */
    } table[] = {{".eq", 2},  {".ne", 5},   {".lt", 1},   {".le", 3},   {".gt", 4},   {".ge", 6},
                 {".lo", 1},  {".ls", 3},   {".hi", 4},   {".hs", 6},   {".equ", 10}, {".neu", 13},
                 {".ltu", 9}, {".leu", 11}, {".gtu", 12}, {".geu", 14}, {".num", 7},  {".nan", 8}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (has(op, table[i].word))
            return table[i].when >> order(op, in) & 1;
    }
    fail_msg("no comparison in %s", op->mnemonic);
    return false;
}

/* With the predicate that is bit 0 of the last source. */
static bool combined(const pt_op_t *op, bool t, uint64_t c)
{
    return has(op, ".and")   ? t && (c & 1)
           : has(op, ".or")  ? t || (c & 1)
           : has(op, ".xor") ? t != (c & 1)
                             : t;
}

static uint64_t ref_setp(const pt_op_t *op, const uint64_t *in)
{
    return compared(op, in);
}

/* p in bit 0, q in bit 1 */
static uint64_t ref_setp_two(const pt_op_t *op, const uint64_t *in)
{
    bool t = compared(op, in);
    return combined(op, t, in[2]) | (uint64_t)combined(op, !t, in[2]) << 1;
}

static uint64_t ref_set(const pt_op_t *op, const uint64_t *in)
{
    bool t = combined(op, compared(op, in), in[2]);
    return !t ? 0 : op->is_float ? 0x3f800000 : UINT32_MAX;
}

static void add_setp(const char *cmp, const char *words, const char *type)
{
    char shape[8];
    snprintf(shape, sizeof shape, "p=%c%c", reg_of(type), reg_of(type));
    pt_add(shape, ref_setp, "setp.%s%s.%s", cmp, words, type);
}

static void test_setp(void **state)
{
    static const char *const ints[] = {"u16", "u32", "u64", "s16", "s32", "s64"};
    static const char *const plain[] = {"lo", "ls", "hi", "hs"};
    (void)state;
    for (unsigned t = 0; t < 6; t++) {
        for (unsigned c = 0; c < 6; c++)
            add_setp(cmps[c], "", ints[t]);
        for (unsigned c = 0; c < 4 && t < 3; c++)
            add_setp(plain[c], "", ints[t]);
    }
    for (unsigned t = 0; t < 3; t++) {
        add_setp("eq", "", all_types[t]);
        add_setp("ne", "", all_types[t]);
    }
    pt_run_rows();
}

/* p|q and another predicate, which may be negated. */
static void test_setp_two(void **state)
{
    static char bodies[64][192];
    static const char *const bools[] = {"and", "or", "xor"};
    static const char *const types[] = {"s32", "f32", "f64", "u16", "s64"};
    unsigned n = 0;
    (void)state;
    for (unsigned t = 0; t < 5; t++) {
        for (unsigned b = 0; b < 6; b++) {
            const char *cmp = b < 3 ? "lt" : types[t][0] == 'f' ? "neu" : "ne";
            char r = reg_of(types[t]), shape[8];
            snprintf(
                bodies[n], sizeof bodies[n],
                "and.b32 %%w4, %%w3, 1; setp.%s.u32 %%p5, %%w4, 0;"
                "setp.%s.%s.%s %%p6|%%p7, %%%c1, %%%c2, %s%%p5;"
                "selp.u32 %%w4, 1, 0, %%p6; selp.u32 %%w5, 2, 0, %%p7; or.b32 %%w0, %%w4, %%w5;",
                b % 2 ? "eq" : "ne", cmp, bools[b % 3], types[t], r, r, b % 2 ? "!" : "");
            snprintf(shape, sizeof shape, "w=%c%cw", r, r);
            pt_row_t *row =
                pt_add(shape, ref_setp_two, "setp.%s.%s.%s", cmp, bools[b % 3], types[t]);
            row->body = bodies[n++];
        }
    }
    pt_run_rows();
}

static void add_set(const char *cmp, const char *words, const char *to, const char *from)
{
    char shape[8];
    bool two = words[0] && strcmp(words, ".ftz") != 0;
    snprintf(shape, sizeof shape, "%c=%c%c%s", reg_of(to), reg_of(from), reg_of(from),
             two ? "p" : "");
    pt_add(shape, ref_set, "set.%s%s.%s.%s", cmp, words, to, from);
}

static void test_set(void **state)
{
    static const char *const to[] = {"u32", "s32", "f32"};
    static const char *const from[] = {"u16", "s16", "u32", "s32", "u64", "s64", "f32", "f64"};
    static const char *const bools[] = {".and", ".or", ".xor"};
    (void)state;
    for (unsigned f = 0; f < 8; f++) {
        for (unsigned t = 0; t < 3; t++) {
            for (unsigned c = 0; c < 6; c++)
                add_set(cmps[c], "", to[t], from[f]);
            for (unsigned c = 0; c < 8 && f >= 6; c++)
                add_set(more_cmps[c], "", to[t], from[f]);
            for (unsigned b = 0; b < 3 && (f == 3 || f == 6); b++) {
                add_set("lt", bools[b], to[t], from[f]);
                if (f == 6)
                    add_set("equ", bools[b], to[t], from[f]);
            }
        }
    }
    add_set("lt", ".ftz", "u32", "f32");
    pt_run_rows();
}

/* ---- selection ---- */

static uint64_t ref_selp(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return in[2] ? in[0] : in[1];
}

static uint64_t ref_slct(const pt_op_t *op, const uint64_t *in)
{
    if (has(op, ".f32") && op->mnemonic[strlen(op->mnemonic) - 3] == 'f') {
        float c = pt_f32(in[2]);
        if (has(op, ".ftz") && fabsf(c) < 0x1p-126f)
            c = 0;
        return c >= 0 ? in[0] : in[1];
    }
    return pt_signed(in[2], 32) >= 0 ? in[0] : in[1];
}

static void test_selection(void **state)
{
    (void)state;
    for (unsigned t = 0; t < 11; t++) {
        char shape[8], r = reg_of(all_types[t]);
        snprintf(shape, sizeof shape, "%c=%c%cp", r, r, r);
        pt_add(shape, ref_selp, "selp.%s", all_types[t]);
        snprintf(shape, sizeof shape, "%c=%c%cw", r, r, r);
        pt_add(shape, ref_slct, "slct.%s.s32", all_types[t]);
        snprintf(shape, sizeof shape, "%c=%c%cf", r, r, r);
        pt_add(shape, ref_slct, "slct.%s.f32", all_types[t]);
        pt_add(shape, ref_slct, "slct.ftz.%s.f32", all_types[t]);
    }
    pt_run_rows();
}

/* ---- movement ---- */

static uint64_t ref_same(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return in[0];
}

static uint64_t ref_pair(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return in[0] | in[1] << 32;
}

static uint64_t ref_pair16(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return in[0] | in[1] << 16;
}

static uint64_t ref_four(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return in[3] | in[2] << 16 | in[1] << 32 | in[0] << 48;
}

static uint64_t ref_swapped(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return in[0] >> 32 | in[0] << 32;
}

static uint64_t ref_second16(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return in[0] >> 16 & 0xffff;
}

static uint64_t ref_third16(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return in[0] >> 32 & 0xffff;
}

static uint64_t ref_sum128(const pt_op_t *op, const uint64_t *in)
{
    (void)op;
    return in[0] ^ in[1] << 1;
}

static void add_body(const char *shape, pt_ref_t ref, const char *name, const char *body)
{
    pt_row_t *row = pt_add(shape, ref, "%s", name);
    row->body = body;
}

static void test_moves(void **state)
{
    (void)state;
    for (unsigned t = 0; t < 11; t++) {
        char shape[8];
        snprintf(shape, sizeof shape, "%c=%c", reg_of(all_types[t]), reg_of(all_types[t]));
        pt_add(shape, ref_same, "mov.%s", all_types[t]);
    }
    pt_add("p=p", ref_same, "mov.pred");
    add_body("d=ww", ref_pair, "mov.b64", "mov.b64 %d0, {%w1, %w2};");
    add_body("w=hh", ref_pair16, "mov.b32", "mov.b32 %w0, {%h1, %h2};");
    add_body("d=hhhh", ref_four, "mov.b64", "mov.b64 %d0, {%h4, %h3, %h2, %h1};");
    add_body("d=d", ref_swapped, "mov.b64", "mov.b64 {%w4, %w5}, %d1; mov.b64 %d0, {%w5, %w4};");
    add_body("h=w", ref_second16, "mov.b32", "mov.b32 {_, %h0}, %w1;");
    add_body("h=d", ref_third16, "mov.b64", "mov.b64 {%h4, _, %h0, %h5}, %d1;");
    add_body("d=dd", ref_sum128, "mov.b128",
             "{ .reg .b128 %q1; mov.b128 %q1, {%d1, %d2}; mov.b128 {%d5, %d6}, %q1;"
             "shl.b64 %d6, %d6, 1; xor.b64 %d0, %d5, %d6; }");
    pt_run_rows();
}

/* ---- minimum and maximum of f32 with everything ---- */

static double least(double a, double b)
{
    if (isnan(a))
        return b;
    if (isnan(b))
        return a;
    return a == b ? (signbit(a) ? a : b) : a < b ? a : b;
}

static uint64_t ref_extreme(const pt_op_t *op, const uint64_t *in)
{
    bool max = strncmp(op->mnemonic, "max", 3) == 0, by_sign = has(op, ".xorsign");
    unsigned count = strstr(op->mnemonic, " 3") ? 3 : 2;
    bool negative = false, nan = false;
    double r = (double)NAN;
    for (unsigned n = 0; n < count; n++) {
        double x = pt_f32(in[n]);
        if (has(op, ".ftz") && fabs(x) < 0x1p-126)
            x = copysign(0, x);
        negative ^= signbit(x) != 0;
        nan |= isnan(x);
        x = has(op, ".abs") ? fabs(x) : x;
        r = n == 0 ? x : max ? -least(-r, -x) : least(r, x);
    }
    r = by_sign ? copysign(r, negative ? -1 : 1) : r;
    return has(op, ".NaN") && nan ? 0x7fffffff : pt_bits32((float)r);
}

static void test_extremes(void **state)
{
    static const char *const words[] = {"", ".NaN", ".xorsign.abs", ".NaN.xorsign.abs"};
    static const char *const three[] = {"", ".NaN", ".abs", ".NaN.abs"};
    static char bodies[16][64];
    (void)state;
    for (unsigned i = 0; i < 16; i++) {
        const char *name = i & 1 ? "max" : "min", *ftz = i & 2 ? ".ftz" : "";
        pt_add("f=ff", ref_extreme, "%s%s%s.f32", name, ftz, words[i / 4]);
        pt_row_t *row = pt_add("f=fff", ref_extreme, "%s%s%s.f32 3", name, ftz, three[i / 4]);
        snprintf(bodies[i], sizeof bodies[i], "%s%s%s.f32 %%f0, %%f1, %%f2, %%f3;", name, ftz,
                 three[i / 4]);
        row->body = bodies[i];
    }
    pt_run_rows();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_setp),  cmocka_unit_test(test_setp_two),
        cmocka_unit_test(test_set),   cmocka_unit_test(test_selection),
        cmocka_unit_test(test_moves), cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
