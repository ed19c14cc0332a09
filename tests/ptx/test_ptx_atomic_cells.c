/* Atomic operations of many threads on few cells: on one whose address every thread knows, and on three
 * whose numbers differ between neighbours; with all threads or some, with the old values read or not.
 * Threads may take their turns in any order: the cells' last values do not depend on it, and old values
 * must be those of some order. */
#include "tests/ptx/pt_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_THREADS = 96, CELLS = 3 };

typedef struct {
    const char *op, *type;
    bool is_signed;
    unsigned bytes;
} case_t;

static const case_t cases[] = {
    {"add", "u32", false, 4}, {"add", "u64", false, 8}, {"min", "u32", false, 4},
    {"min", "s32", true, 4},  {"min", "u64", false, 8}, {"min", "s64", true, 8},
    {"max", "u32", false, 4}, {"max", "s32", true, 4},  {"max", "u64", false, 8},
    {"max", "s64", true, 8},  {"and", "b32", false, 4}, {"and", "b64", false, 8},
    {"or", "b32", false, 4},  {"or", "b64", false, 8},  {"xor", "b32", false, 4},
    {"xor", "b64", false, 8},
};

typedef enum { OLD_NONE, OLD_UNREAD, OLD_READ } old_t; /* red; atom; atom and its result stored */

typedef struct {
    const case_t *c;
    const char *space; /* "global", "shared" */
    old_t old;
    bool spread;   /* three cells; else one */
    bool same;     /* every thread brings the same value */
    bool odd_only; /* a guard leaves out the others */
    pt_dim_t block;
} setting_t;

/* Operands are 64 bits wide in memory; the cells as wide as the operation. */
static void make_kernel(char *text, size_t size, const setting_t *s)
{
    const char *reg = s->c->bytes == 8 ? "d" : "r", *bits = s->c->bytes == 8 ? "b64" : "b32";
    bool shared = strcmp(s->space, "shared") == 0;
    size_t n = (size_t)snprintf(
        text, size,
        ".version 7.0\n.target sm_70\n.address_size 64\n"
        ".visible .entry k(.param .u64 in, .param .u64 cells, .param .u64 out, .param .u64 "
        "one)\n{\n"
        ".reg .b32 %%r<20>; .reg .b64 %%d<30>; .reg .pred %%p<4>; .shared .align 8 .b8 s[%d];\n"
        "ld.param.u64 %%d1, [in]; ld.param.u64 %%d2, [cells]; ld.param.u64 %%d3, [out];\n"
        "mov.u32 %%r1, %%tid.x; mov.u32 %%r2, %%tid.y; mov.u32 %%r3, %%ntid.x;\n"
        "mad.lo.u32 %%r1, %%r2, %%r3, %%r1; mul.wide.u32 %%d4, %%r1, 8;\n"
        "add.s64 %%d1, %%d1, %%d4; add.s64 %%d3, %%d3, %%d4;\n"
        "and.b32 %%r4, %%r1, 1; setp.ne.u32 %%p1, %%r4, 0; setp.lt.u32 %%p2, %%r1, %d;\n"
        "rem.u32 %%r5, %%r1, %d; mul.wide.u32 %%d5, %%r5, %u;\n"
        "mul.wide.u32 %%d6, %%r1, %u; add.s64 %%d7, %%d2, %%d6; mov.u64 %%d8, s;\n"
        "add.s64 %%d9, %%d8, %%d6;\n"
        "ld.global.u64 %%d20, [%%d1]; cvt.u32.u64 %%r10, %%d20;\n",
        CELLS * 8, CELLS, CELLS, s->c->bytes, s->c->bytes);
    if (s->same)
        n += (size_t)snprintf(text + n, size - n,
                              "ld.param.u64 %%d20, [one]; cvt.u32.u64 %%r10, %%d20;\n");
    if (shared)
        n += (size_t)snprintf(text + n, size - n,
                              "@%%p2 ld.global.%s %%%s11, [%%d7]; @%%p2 st.shared.%s [%%d9], "
                              "%%%s11;\nbar.sync 0;\n",
                              bits, reg, bits, reg);
    const char *base = shared ? "%d8" : "%d2", *guard = s->odd_only ? "@%p1 " : "";
    if (s->spread)
        n += (size_t)snprintf(text + n, size - n, "add.s64 %%d10, %s, %%d5;\n", base);
    else
        n += (size_t)snprintf(text + n, size - n, "mov.u64 %%d10, %s;\n", base);
    const char *value = s->c->bytes == 8 ? "%d20" : "%r10";
    if (s->old == OLD_NONE)
        n += (size_t)snprintf(text + n, size - n, "%sred.%s.%s.%s [%%d10], %s;\n", guard, s->space,
                              s->c->op, s->c->type, value);
    else
        n += (size_t)snprintf(text + n, size - n, "%satom.%s.%s.%s %%%s12, [%%d10], %s;\n", guard,
                              s->space, s->c->op, s->c->type, reg, value);
    if (s->old == OLD_READ)
        n += (size_t)snprintf(text + n, size - n, "%sst.global.%s [%%d3], %%%s12;\n", guard, bits,
                              reg);
    if (shared)
        n += (size_t)snprintf(text + n, size - n,
                              "bar.sync 0;\n@%%p2 ld.shared.%s %%%s13, [%%d9]; @%%p2 "
                              "st.global.%s [%%d7], %%%s13;\n",
                              bits, reg, bits, reg);
    n += (size_t)snprintf(text + n, size - n, "ret;\n}\n");
    assert_true(n < size);
}

static uint64_t cut(const case_t *c, uint64_t v)
{
    return c->bytes == 8 ? v : (uint32_t)v;
}

static uint64_t apply(const case_t *c, uint64_t old, uint64_t v)
{
    bool less = c->is_signed && c->bytes == 8 ? (int64_t)v < (int64_t)old
                : c->is_signed                ? (int32_t)v < (int32_t)old
                                              : v < old;
    switch (c->op[1]) {
    case 'd':
        return cut(c, old + v);
    case 'i':
        return less ? v : old;
    case 'a':
        return less ? old : v;
    case 'n':
        return old & v;
    case 'r':
        return old | v;
    default:
        return old ^ v;
    }
}

static uint64_t cell_at(const case_t *c, const uint8_t *cells, unsigned n)
{
    uint64_t v = 0;
    memcpy(&v, cells + n * c->bytes, c->bytes);
    return v;
}

/* Some thread saw the first value, another what that one left, and so on to the last value. Only for
 * operations whose values tell threads apart: add of numbers above 0. */
static void check_chain(const setting_t *s, unsigned cell, const uint64_t *in, const uint64_t *out,
                        unsigned threads, uint64_t first, uint64_t last)
{
    bool done[MOST_THREADS] = {0};
    uint64_t now = first;
    for (bool found = true; found;) {
        found = false;
        for (unsigned t = 0; t < threads; t++) {
            if (done[t] || (s->odd_only && t % 2 == 0) || (s->spread && t % CELLS != cell) ||
                cut(s->c, out[t]) != now)
                continue;
            done[t] = found = true;
            now = apply(s->c, now, cut(s->c, in[t]));
            break;
        }
    }
    assert_int_equal(now, last);
}

static void check(const setting_t *s)
{
    char text[4096];
    uint64_t in[MOST_THREADS], out[MOST_THREADS] = {0}, one = 0x10000003u;
    uint8_t first[CELLS * 8], last[CELLS * 8];
    unsigned threads = s->block.x * s->block.y;
    uint32_t seed = 7;
    for (unsigned t = 0; t < threads; t++)
        in[t] = (uint64_t)pt_random(&seed) << 32 | pt_random(&seed) | 1;
    for (unsigned n = 0; n < sizeof first; n++)
        first[n] = (uint8_t)pt_random(&seed);
    make_kernel(text, sizeof text, s);
    CUmodule module = pt_load(text);
    CUdeviceptr d_in = pt_upload(in, sizeof in), d_out = pt_upload(out, sizeof out);
    CUdeviceptr d_cells = pt_upload(first, sizeof first);
    void *params[] = {&d_in, &d_cells, &d_out, &one};
    pt_launch(pt_function(module, "k"), (pt_dim_t){1, 1, 1}, s->block, 0, params);
    pt_download(last, d_cells, sizeof last);
    pt_download(out, d_out, sizeof out);
    for (unsigned t = 0; s->same && t < threads; t++)
        in[t] = one;
    for (unsigned cell = 0; cell < CELLS; cell++) {
        uint64_t want = cell_at(s->c, first, cell), got = cell_at(s->c, last, cell);
        for (unsigned t = 0; t < threads; t++)
            if ((t % 2 || !s->odd_only) && (s->spread ? t % CELLS == cell : cell == 0))
                want = apply(s->c, want, cut(s->c, in[t]));
        if (got != want)
            fail_msg("%s.%s.%s old %d spread %d same %d odd %d block %u,%u cell %u: 0x%llx, not "
                     "0x%llx",
                     s->space, s->c->op, s->c->type, s->old, s->spread, s->same, s->odd_only,
                     s->block.x, s->block.y, cell, (unsigned long long)got,
                     (unsigned long long)want);
        if (s->old == OLD_READ && s->c->op[1] == 'd')
            check_chain(s, cell, in, out, threads, cell_at(s->c, first, cell), got);
    }
    pt_free(d_in);
    pt_free(d_out);
    pt_free(d_cells);
    pt_unload(module);
}

static void check_all(const char *space)
{
    static const pt_dim_t blocks[] = {{64, 1, 1}, {75, 1, 1}, {16, 6, 1}};
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++)
        for (unsigned choice = c % 3; choice < 24; choice += 3) { /* a third of them each */
            setting_t s = {&cases[c],      space,       (old_t)(choice / 2 % 3),     choice % 2,
                           choice / 6 % 2, choice / 12, blocks[(choice / 3 + c) % 3]};
            check(&s);
        }
}

static void test_global(void **state)
{
    (void)state;
    check_all("global");
}

static void test_shared(void **state)
{
    (void)state;
    check_all("shared");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_global),
        cmocka_unit_test(test_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
