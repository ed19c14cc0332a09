/* Video instructions: parts of words, saturation, secondary operations, merging, vmad, and two or four
 * elements side by side, after the pseudo-code of the PTX ISA manual. */
#include "tests/ptx/pt_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/ptx/pt_row.h"

/* How an operand is written in the bodies: a part, "" for all of it. */
typedef struct {
    const char *d, *a, *b;
} parts_t;

/* The mnemonic, and behind a blank the parts: "vadd.s32.u32.s32.sat h0 b3 h1" */
static parts_t read_parts(const char *text, char copy[96])
{
    parts_t p = {"", "", ""};
    snprintf(copy, 96, "%s", text);
    char *save, *word = strtok_r(copy, " ", &save);
    const char **out[] = {&p.d, &p.a, &p.b};
    for (unsigned n = 0; n < 3 && (word = strtok_r(NULL, " ", &save)) != NULL; n++)
        *out[n] = strcmp(word, "-") == 0 ? "" : word;
    return p;
}

static bool has(const pt_op_t *op, const char *word)
{
    const char *at = strstr(op->mnemonic, word);
    return at && strchr(". ", at[strlen(word)]) != NULL;
}

/* Is type n (0: the first) of the mnemonic signed? */
static bool type_signed(const pt_op_t *op, unsigned n)
{
    const char *p = op->mnemonic;
    for (unsigned k = 0; (p = strpbrk(p, "us")) != NULL; p++) {
        if (p[-(p > op->mnemonic)] == '.' && strncmp(p + 1, "32", 2) == 0 && k++ == n)
            return *p == 's';
    }
    return false;
}

static int64_t part(uint64_t word, const char *sel, bool sign)
{
    unsigned bits = sel[0] == 0 ? 32 : sel[0] == 'b' ? 8 : 16;
    uint64_t v = word >> (sel[0] ? (unsigned)(sel[1] - '0') * bits : 0);
    return sign ? pt_signed(v, bits) : (int64_t)pt_low(v, bits);
}

static int64_t clamped(int64_t v, unsigned bits, bool sign)
{
    int64_t high = ((int64_t)1 << (sign ? bits - 1 : bits)) - 1, low = sign ? -high - 1 : 0;
    return v > high ? high : v < low ? low : v;
}

static bool compared(const pt_op_t *op, int64_t a, int64_t b)
{
    return has(op, ".eq")   ? a == b
           : has(op, ".ne") ? a != b
           : has(op, ".lt") ? a < b
           : has(op, ".le") ? a <= b
           : has(op, ".gt") ? a > b
                            : a >= b;
}

static bool is(const pt_op_t *op, const char *name)
{
    return strncmp(op->mnemonic, name, strlen(name)) == 0;
}

static __int128 operated(const pt_op_t *op, int64_t a, int64_t b)
{
    if (is(op, "vadd"))
        return a + b;
    if (is(op, "vsub"))
        return a - b;
    if (is(op, "vabsdiff"))
        return llabs(a - b);
    if (is(op, "vmin"))
        return a < b ? a : b;
    if (is(op, "vmax"))
        return a > b ? a : b;
    if (is(op, "vset"))
        return compared(op, a, b);
    if (is(op, "vavrg"))
        return a + b >= 0 ? (a + b + 1) >> 1 : (a + b) >> 1;
    int64_t n = has(op, ".wrap") ? b & 31 : b > 32 ? 32 : b;
    return is(op, "vshl") ? (__int128)a * ((__int128)1 << n) : a >> n;
}

static uint64_t merged(const char *sel, uint64_t v, uint64_t c)
{
    unsigned bits = sel[0] == 'b' ? 8 : 16, at = (unsigned)(sel[1] - '0') * bits;
    uint64_t mask = pt_low(UINT64_MAX, bits) << at;
    return (v << at & mask) | (c & ~mask);
}

static uint64_t ref_scalar(const pt_op_t *op, const uint64_t *in)
{
    char copy[96];
    parts_t p = read_parts(op->mnemonic, copy);
    bool set = is(op, "vset"), sign_d = !set && type_signed(op, 0);
    int64_t a = part(in[0], p.a, type_signed(op, set ? 0 : 1));
    int64_t b = part(in[1], p.b, type_signed(op, set ? 1 : 2));
    __int128 t = operated(op, a, b);
    if (has(op, ".sat")) {
        unsigned bits = p.d[0] == 0 ? 32 : p.d[0] == 'b' ? 8 : 16;
        t = clamped(t > INT64_MAX ? INT64_MAX : (int64_t)t, bits, sign_d);
    }
    int64_t v = sign_d ? pt_signed((uint64_t)t, 32) : (int64_t)pt_low((uint64_t)t, 32);
    int64_t c = sign_d ? pt_signed(in[2], 32) : (int64_t)pt_low(in[2], 32);
    if (has(op, ".add"))
        return (uint64_t)(v + c);
    if (has(op, ".min"))
        return (uint64_t)(v < c ? v : c);
    if (has(op, ".max"))
        return (uint64_t)(v > c ? v : c);
    return p.d[0] ? merged(p.d, (uint64_t)t, in[2]) : (uint64_t)t;
}

/* d, a, b, c: "d.h0, a.b3, b, c"; parts as in read_parts. */
static void add_scalar(const char *text)
{
    static char bodies[200][128];
    static unsigned used;
    char copy[96], *body = bodies[used++];
    parts_t p = read_parts(text, copy);
    bool third = p.d[0] || strstr(text, ".add") || strstr(text, ".min ") || strstr(text, ".max ") ||
                 (strlen(text) > 4 && (strcmp(text + strlen(text) - 4, ".min") == 0 ||
                                       strcmp(text + strlen(text) - 4, ".max") == 0));
    snprintf(body, 128, "%s %%w0%s%s, %%w1%s%s, %%w2%s%s%s;", copy, p.d[0] ? "." : "", p.d,
             p.a[0] ? "." : "", p.a, p.b[0] ? "." : "", p.b, third ? ", %w3" : "");
    pt_row_t *row = pt_add("w=www", ref_scalar, "%s", text);
    row->body = body;
    if (strncmp(text, "vsh", 3) == 0)
        row->sources[1] = 's';
}

static void test_scalar(void **state)
{
    static const char *const names[] = {"vadd", "vsub", "vabsdiff", "vmin", "vmax"};
    static const char *const types[] = {".u32.u32.u32", ".s32.s32.s32", ".s32.u32.s32",
                                        ".u32.s32.u32"};
    static const char *const rest[] = {"",          ".sat",      ".sat h0 b3 h1",
                                       " b2 h0 b1", ".sat - h1", ".sat b0 - b3",
                                       ".add",      ".sat.min",  ".max - b1 h0"};
    char text[64];
    (void)state;
    for (unsigned n = 0; n < 5; n++) {
        for (unsigned r = 0; r < 9; r++) {
            snprintf(text, sizeof text, "%s%s%s", names[n], types[(n + r) % 4], rest[r]);
            add_scalar(text);
            if (r < 2) {
                snprintf(text, sizeof text, "%s%s%s", names[n], types[(n + r + 2) % 4], rest[r]);
                add_scalar(text);
            }
        }
    }
    pt_run_rows();
}

static void test_shifts_and_sets(void **state)
{
    static const char *const shifts[] = {"vshl.u32.u32.u32.clamp",
                                         "vshl.s32.s32.u32.sat.clamp",
                                         "vshl.u32.u32.u32.sat.wrap",
                                         "vshl.u32.u32.u32.sat.clamp",
                                         "vshl.s32.u32.u32.sat.clamp.add",
                                         "vshr.u32.u32.u32.clamp",
                                         "vshr.s32.s32.u32.wrap",
                                         "vshr.u32.s32.u32.sat.clamp.max",
                                         "vshr.s32.s32.u32.sat.clamp h1 h0 b1"};
    static const char *const cmps[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    char text[64];
    (void)state;
    for (unsigned i = 0; i < sizeof shifts / sizeof shifts[0]; i++)
        add_scalar(shifts[i]);
    for (unsigned i = 0; i < 6; i++) {
        snprintf(text, sizeof text, "vset.%s.%s.%s%s", i % 2 ? "s32" : "u32", i % 3 ? "s32" : "u32",
                 cmps[i],
                 i == 1   ? " b2 h0 b3"
                 : i == 4 ? ".add"
                          : "");
        add_scalar(text);
    }
    pt_run_rows();
}

/* ---- vmad ---- */

/* "vmad.s32.u32.s32.sat.shr7 abc": the letters say what is negated. */
static uint64_t ref_mad(const pt_op_t *op, const uint64_t *in)
{
    const char *signs = strrchr(op->mnemonic, ' ') ? strrchr(op->mnemonic, ' ') : "";
    bool ab = (strchr(signs, 'a') != NULL) != (strchr(signs, 'b') != NULL);
    bool c_minus = strchr(signs, 'c') != NULL;
    bool sign = type_signed(op, 1) || type_signed(op, 2) || ab || c_minus;
    __int128 t =
        (__int128)part(in[0], "", type_signed(op, 1)) * part(in[1], "", type_signed(op, 2));
    uint32_t c = (uint32_t)in[2];
    int lsb = 0;
    if (has(op, ".po")) {
        lsb = 1;
    } else if (ab) {
        t = ~t;
        lsb = 1;
    } else if (c_minus) {
        c = ~c;
        lsb = 1;
    }
    /* ~c of a negated c is sign-extended as the manual says */
    t += (sign ? (__int128)(int32_t)c : (__int128)c) + lsb;
    t >>= has(op, ".shr7") ? 7 : has(op, ".shr15") ? 15 : 0;
    if (has(op, ".sat")) {
        if (sign)
            t = clamped((int64_t)t, 32, true);
        else
            t = (uint64_t)t > UINT32_MAX ? UINT32_MAX : t;
    }
    return (uint64_t)t;
}

static void test_mad(void **state)
{
    static const struct {
        const char *name, *body;
    } rows[] = {
        {"vmad.u32.u32.u32", "vmad.u32.u32.u32 %w0, %w1, %w2, %w3;"},
        {"vmad.s32.s32.s32.sat", "vmad.s32.s32.s32.sat %w0, %w1, %w2, %w3;"},
        {"vmad.u32.u32.u32.sat", "vmad.u32.u32.u32.sat %w0, %w1, %w2, %w3;"},
        {"vmad.s32.s32.u32.shr7", "vmad.s32.s32.u32.shr7 %w0, %w1, %w2, %w3;"},
        {"vmad.s32.u32.s32.sat.shr15", "vmad.s32.u32.s32.sat.shr15 %w0, %w1, %w2, %w3;"},
        {"vmad.u32.u32.u32.po", "vmad.u32.u32.u32.po %w0, %w1, %w2, %w3;"},
        {"vmad.s32.s32.s32 a", "vmad.s32.s32.s32 %w0, -%w1, %w2, %w3;"},
        {"vmad.s32.s32.s32.sat b", "vmad.s32.s32.s32.sat %w0, %w1, -%w2, %w3;"},
        {"vmad.s32.s32.s32.shr7 c", "vmad.s32.s32.s32.shr7 %w0, %w1, %w2, -%w3;"},
    };
    (void)state;
    for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        pt_row_t *row = pt_add("w=www", ref_mad, "%s", rows[i].name);
        row->body = rows[i].body;
    }
    pt_run_rows();
}

/* ---- two and four elements ---- */

static uint64_t ref_simd(const pt_op_t *op, const uint64_t *in)
{
    char copy[96];
    parts_t p = read_parts(op->mnemonic, copy);
    unsigned parts = op->mnemonic[strcspn(op->mnemonic, ".") - 1] == '2' ? 2 : 4, bits = 32 / parts;
    bool set = is(op, "vset"), sign_d = !set && type_signed(op, 0), adds = has(op, ".add");
    bool sign_a = type_signed(op, set ? 0 : 1), sign_b = type_signed(op, set ? 1 : 2);
    uint64_t pair = in[1] << 32 | in[0], out = in[2];
    const char *a = p.a[0] ? p.a : parts == 2 ? "h10" : "b3210";
    const char *b = p.b[0] ? p.b : parts == 2 ? "h32" : "b7654";
    for (unsigned n = 0; n < parts; n++) {
        if (p.d[0] && !strchr(p.d + 1, (int)('0' + n)))
            continue;
        uint64_t x = pair >> (unsigned)(a[parts - n] - '0') * bits;
        uint64_t y = pair >> (unsigned)(b[parts - n] - '0') * bits;
        int64_t t = (int64_t)operated(op, sign_a ? pt_signed(x, bits) : (int64_t)pt_low(x, bits),
                                      sign_b ? pt_signed(y, bits) : (int64_t)pt_low(y, bits));
        if (has(op, ".sat"))
            t = clamped(t, bits, sign_d);
        uint64_t mask = pt_low(UINT64_MAX, bits) << n * bits;
        out = adds ? out + (uint64_t)t : (out & ~mask) | ((uint64_t)t << n * bits & mask);
    }
    return out;
}

static void add_simd(const char *text)
{
    static char bodies[128][128];
    static unsigned used;
    char copy[96], *body = bodies[used++];
    parts_t p = read_parts(text, copy);
    snprintf(body, 128, "%s %%w0%s%s, %%w1%s%s, %%w2%s%s, %%w3;", copy, p.d[0] ? "." : "", p.d,
             p.a[0] ? "." : "", p.a, p.b[0] ? "." : "", p.b);
    pt_row_t *row = pt_add("w=www", ref_simd, "%s", text);
    row->body = body;
    snprintf(row->sources, sizeof row->sources, "%s", used % 2 ? "MMw" : "wwM");
}

static void test_simd(void **state)
{
    static const char *const names[] = {"vadd", "vsub", "vabsdiff", "vmin", "vmax", "vavrg"};
    static const char *const types[] = {".u32.u32.u32", ".s32.s32.s32", ".s32.u32.s32",
                                        ".u32.s32.u32"};
    static const char *const two[] = {"", ".sat", ".sat h1 h03 h21", ".add h0"};
    static const char *const four[] = {"", ".sat", ".sat b20 b0246 b7531", ".add b310"};
    static const char *const cmps[] = {"eq", "ne", "lt", "le", "gt", "ge"};
    char text[64];
    (void)state;
    for (unsigned n = 0; n < 6; n++) {
        for (unsigned r = 0; r < 4; r++) {
            snprintf(text, sizeof text, "%s2%s%s", names[n], types[(n + r) % 4], two[r]);
            add_simd(text);
            snprintf(text, sizeof text, "%s4%s%s", names[n], types[(n + r + 1) % 4], four[r]);
            add_simd(text);
        }
        snprintf(text, sizeof text, "vset2.u32.s32.%s%s", cmps[n], n % 2 ? ".add" : "");
        add_simd(text);
        snprintf(text, sizeof text, "vset4.s32.s32.%s%s", cmps[n], n % 2 ? "" : ".add b210");
        add_simd(text);
    }
    pt_run_rows();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_scalar),
        cmocka_unit_test(test_shifts_and_sets),
        cmocka_unit_test(test_mad),
        cmocka_unit_test(test_simd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
