/* Atomic operations on small floats, vectors and 128 bits, and every plain type and mode: one cell per
 * thread (edge values, old values), and all threads on one cell. Expected values follow the PTX ISA's
 * sections on atom and red. */
#include "tests/ptx/pt_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD ".version 8.3\n.target sm_90\n.address_size 64\n"

enum { THREADS = 75, MOST = 16 };

static const pt_dim_t one = {1, 1, 1}, block = {THREADS, 1, 1};

/* ---- small floats, by their definition ---- */

static double small_value(unsigned v, unsigned exponent_bits, unsigned digits)
{
    unsigned bias = (1u << (exponent_bits - 1)) - 1, e = v >> digits & ((1u << exponent_bits) - 1);
    unsigned m = v & ((1u << digits) - 1);
    double sign = v >> (exponent_bits + digits) & 1 ? -1 : 1;
    if (e == (1u << exponent_bits) - 1)
        return m ? NAN : sign * INFINITY;
    if (e == 0)
        return sign * ldexp(m, 1 - (int)bias - (int)digits);
    return sign * ldexp(m + (1u << digits), (int)e - (int)bias - (int)digits);
}

/* To nearest, ties to even. */
static unsigned small_bits(double x, unsigned exponent_bits, unsigned digits)
{
    unsigned sign = signbit(x) ? 1u << (exponent_bits + digits) : 0;
    int bias = (1 << (exponent_bits - 1)) - 1, e;
    if (isnan(x))
        return 0x7fff;
    x = fabs(x);
    if (x == 0)
        return sign;
    if (isinf(x))
        return sign | ((1u << exponent_bits) - 1) << digits;
    frexp(x, &e);
    int scale = e - 1 < 1 - bias ? 1 - bias : e - 1;
    double q = nearbyint(ldexp(x, (int)digits - scale));
    unsigned bits = (unsigned)q + ((unsigned)(scale + bias - 1) << digits);
    unsigned infinity = ((1u << exponent_bits) - 1) << digits;
    return sign | (bits > infinity ? infinity : bits);
}

typedef enum { U32, S32, U64, S64, B16, B32, B64, F16, BF16, F32, F64 } kind_t;

static double real_of(kind_t kind, uint64_t v)
{
    float f;
    double d;
    uint32_t low = (uint32_t)v;
    switch (kind) {
    case F16:
        return small_value((unsigned)v, 5, 10);
    case BF16:
        return small_value((unsigned)v, 8, 7);
    case F32:
        memcpy(&f, &low, 4);
        return (double)f;
    default:
        memcpy(&d, &v, 8);
        return d;
    }
}

static uint64_t bits_of(kind_t kind, double x)
{
    float f = (float)x;
    uint32_t low;
    uint64_t all;
    switch (kind) {
    case F16:
        return small_bits(x, 5, 10);
    case BF16:
        return small_bits(x, 8, 7);
    case F32:
        memcpy(&low, &f, 4);
        return low;
    default:
        memcpy(&all, &x, 8);
        return all;
    }
}

static unsigned kind_bytes(kind_t kind)
{
    return kind == B16 || kind == F16 || kind == BF16                 ? 2
           : kind == U64 || kind == S64 || kind == B64 || kind == F64 ? 8
                                                                      : 4;
}

/* ---- what an operation does to one element ---- */

static uint64_t apply_real(const char *op, kind_t kind, uint64_t old, uint64_t v)
{
    double x = real_of(kind, old), y = real_of(kind, v);
    if (strcmp(op, "add") == 0)
        return bits_of(kind, x + y);
    bool max = strcmp(op, "max") == 0;
    if (isnan(x) || isnan(y))
        return isnan(x) && isnan(y) ? bits_of(kind, NAN) : isnan(x) ? v : old;
    bool less = x < y || (x == y && signbit(x) && !signbit(y));
    return less != max ? old : v;
}

static uint64_t apply(const char *op, kind_t kind, uint64_t old, uint64_t v, uint64_t w)
{
    if (kind >= F16 && strcmp(op, "exch") != 0)
        return apply_real(op, kind, old, v);
    int64_t a = kind == S32 ? (int32_t)old : (int64_t)old,
            b = kind == S32 ? (int32_t)v : (int64_t)v;
    bool sign = kind == S32 || kind == S64;
    bool less = sign ? b < a : v < old;
    switch (op[0] * 256 + op[1]) {
    case 'a' * 256 + 'd':
        return old + v;
    case 'm' * 256 + 'i':
        return less ? v : old;
    case 'm' * 256 + 'a':
        return less ? old : v;
    case 'a' * 256 + 'n':
        return old & v;
    case 'o' * 256 + 'r':
        return old | v;
    case 'x' * 256 + 'o':
        return old ^ v;
    case 'e' * 256 + 'x':
        return v;
    case 'c' * 256 + 'a':
        return old == v ? w : old;
    case 'i' * 256 + 'n':
        return old >= v ? 0 : old + 1;
    default:
        return old == 0 || old > v ? v : old - 1;
    }
}

/* ---- the cases ---- */

typedef struct {
    const char *op, *words; /* "add", ".noftz.v4.f16x2" */
    kind_t kind;            /* of the parts that are computed by themselves */
    char reg;               /* of an element: h r d f g */
    unsigned elements;      /* operands in { } */
    unsigned parts;         /* of `kind` in all */
    bool only_global, has_red;
} case_t;

static const case_t cases[] = {
    {"add", ".u32", U32, 'r', 1, 1, false, true},
    {"add", ".s32", S32, 'r', 1, 1, false, true},
    {"add", ".u64", U64, 'd', 1, 1, false, true},
    {"min", ".u32", U32, 'r', 1, 1, false, true},
    {"min", ".s32", S32, 'r', 1, 1, false, true},
    {"min", ".u64", U64, 'd', 1, 1, false, true},
    {"min", ".s64", S64, 'd', 1, 1, false, true},
    {"max", ".u32", U32, 'r', 1, 1, false, true},
    {"max", ".s32", S32, 'r', 1, 1, false, true},
    {"max", ".u64", U64, 'd', 1, 1, false, true},
    {"max", ".s64", S64, 'd', 1, 1, false, true},
    {"inc", ".u32", U32, 'r', 1, 1, false, true},
    {"dec", ".u32", U32, 'r', 1, 1, false, true},
    {"and", ".b32", B32, 'r', 1, 1, false, true},
    {"or", ".b32", B32, 'r', 1, 1, false, true},
    {"xor", ".b32", B32, 'r', 1, 1, false, true},
    {"and", ".b64", B64, 'd', 1, 1, false, true},
    {"or", ".b64", B64, 'd', 1, 1, false, true},
    {"xor", ".b64", B64, 'd', 1, 1, false, true},
    {"exch", ".b32", B32, 'r', 1, 1, false, false},
    {"exch", ".b64", B64, 'd', 1, 1, false, false},
    {"cas", ".b16", B16, 'h', 1, 1, false, false},
    {"cas", ".b32", B32, 'r', 1, 1, false, false},
    {"cas", ".b64", B64, 'd', 1, 1, false, false},
    {"add", ".f32", F32, 'f', 1, 1, false, true},
    {"add", ".f64", F64, 'g', 1, 1, false, true},
    {"add", ".noftz.f16", F16, 'h', 1, 1, false, true},
    {"add", ".noftz.bf16", BF16, 'h', 1, 1, false, true},
    {"add", ".noftz.f16x2", F16, 'r', 1, 2, false, true},
    {"add", ".noftz.bf16x2", BF16, 'r', 1, 2, false, true},
    {"add", ".v2.f32", F32, 'f', 2, 2, true, true},
    {"add", ".v4.f32", F32, 'f', 4, 4, true, true},
    {"add", ".noftz.v2.f16", F16, 'h', 2, 2, true, true},
    {"add", ".noftz.v8.f16", F16, 'h', 8, 8, true, true},
    {"min", ".noftz.v4.f16", F16, 'h', 4, 4, true, true},
    {"max", ".noftz.v8.bf16", BF16, 'h', 8, 8, true, true},
    {"add", ".noftz.v2.f16x2", F16, 'r', 2, 4, true, true},
    {"max", ".noftz.v4.f16x2", F16, 'r', 4, 8, true, true},
    {"min", ".noftz.v4.bf16x2", BF16, 'r', 4, 8, true, true},
    {"add", ".noftz.v4.bf16x2", BF16, 'r', 4, 8, true, true},
};

static void list(char *out, char reg, unsigned first, unsigned n)
{
    out[0] = 0;
    for (unsigned k = 0; k < n; k++)
        sprintf(out + strlen(out), "%s%%%c%u", k ? ", " : n > 1 ? "{" : "", reg, first + k);
    if (n > 1)
        strcat(out, "}");
}

static const char *memory_type(char reg)
{
    return reg == 'h'   ? "b16"
           : reg == 'f' ? "f32"
           : reg == 'g' ? "f64"
           : reg == 'd' ? "b64"
                        : "b32";
}

static unsigned reg_bytes(char reg)
{
    return reg == 'h' ? 2 : reg == 'd' || reg == 'g' ? 8 : 4;
}

/* Loads or stores `n` registers from `first` on at [base + offset]. */
static void move(char *text, const char *what, const case_t *c, unsigned first, const char *base,
                 unsigned offset)
{
    for (unsigned k = 0; k < c->elements; k++) {
        unsigned at = offset + k * reg_bytes(c->reg);
        if (what[0] == 'l')
            sprintf(text + strlen(text), "ld%s.%s %%%c%u, [%s+%u];\n", what + 2,
                    memory_type(c->reg), c->reg, first + k, base, at);
        else
            sprintf(text + strlen(text), "st%s.%s [%s+%u], %%%c%u;\n", what + 2,
                    memory_type(c->reg), base, at, c->reg, first + k);
    }
}

/* One cell per thread (step 16) or one for all (step 0). Threads with a bit in `skip` do nothing; the
 * cell is copied to shared memory and back where the operation is to run there. */
static void make_kernel(char *text, size_t size, const case_t *c, const char *space, bool red)
{
    char d[128], a[128], b[128] = "", comma[4] = "";
    bool shared = strstr(space, ".shared") != NULL, cas = strcmp(c->op, "cas") == 0;
    list(d, c->reg, 10, c->elements);
    list(a, c->reg, 20, c->elements);
    if (cas) {
        strcpy(comma, ", ");
        list(b, c->reg, 30, c->elements);
    }
    snprintf(
        text, size,
        HEAD
        ".visible .entry k(.param .u64 in, .param .u64 cells, .param .u64 out, .param .u32 step,\n"
        ".param .u32 skip)\n{\n"
        ".reg .b16 %%h<40>; .reg .b32 %%r<40>; .reg .b64 %%d<40>; .reg .f32 %%f<40>;\n"
        ".reg .f64 %%g<40>; .reg .pred %%p<4>; .shared .align 16 .b8 s[%d];\n"
        "ld.param.u64 %%d1, [in]; ld.param.u64 %%d2, [cells]; ld.param.u64 %%d3, [out];\n"
        "ld.param.u32 %%r2, [step]; ld.param.u32 %%r3, [skip]; mov.u32 %%r1, %%tid.x;\n"
        "mul.wide.u32 %%d4, %%r1, 32; add.s64 %%d1, %%d1, %%d4;\n"
        "mul.wide.u32 %%d5, %%r1, 16; add.s64 %%d3, %%d3, %%d5;\n"
        "mul.lo.u32 %%r4, %%r1, %%r2; cvt.u64.u32 %%d6, %%r4; add.s64 %%d2, %%d2, %%d6;\n"
        "mov.u64 %%d7, s; add.s64 %%d7, %%d7, %%d6; mov.u64 %%d8, %s;\n"
        "and.b32 %%r5, %%r1, 31; shr.u32 %%r6, %%r3, %%r5; and.b32 %%r6, %%r6, 1;\n"
        "setp.ne.u32 %%p1, %%r6, 0;\n",
        THREADS * 16, shared ? "%d7" : "%d2");
    if (shared) {
        move(text, "ld.global", c, 10, "%d2", 0);
        move(text, "st.shared", c, 10, "%d7", 0);
        strcat(text, "bar.sync 0;\n");
    }
    strcat(text, "@%p1 bra Over;\n");
    move(text, "ld.global", c, 20, "%d1", 0);
    move(text, "ld.global", c, 30, "%d1", 16);
    sprintf(text + strlen(text), red ? "red%s.%s%s " : "atom%s.%s%s ", space, c->op, c->words);
    sprintf(text + strlen(text), red ? "[%%d8], %s;\n" : "%s, [%%d8], ", red ? a : d);
    if (!red)
        sprintf(text + strlen(text), "%s%s%s;\n", a, comma, b);
    if (!red)
        move(text, "st.global", c, 10, "%d3", 0);
    strcat(text, "Over:\n");
    if (shared) {
        strcat(text, "bar.sync 0;\n");
        move(text, "ld.shared", c, 10, "%d7", 0);
        move(text, "st.global", c, 10, "%d2", 0);
    }
    strcat(text, "ret;\n}\n");
}

/* ---- running ---- */

typedef struct {
    uint8_t in[THREADS][32]; /* the two sources */
    uint8_t cells[THREADS][MOST], out[THREADS][MOST];
} data_t;

static uint64_t part(const case_t *c, const uint8_t *from, unsigned n)
{
    uint64_t v = 0;
    memcpy(&v, from + n * kind_bytes(c->kind), kind_bytes(c->kind));
    return v;
}

static void set_part(const case_t *c, uint8_t *to, unsigned n, uint64_t v)
{
    memcpy(to + n * kind_bytes(c->kind), &v, kind_bytes(c->kind));
}

static bool same(const case_t *c, uint64_t got, uint64_t want)
{
    if (c->kind >= F16 && isnan(real_of(c->kind, want)) && c->op[0] != 'e')
        return isnan(real_of(c->kind, got));
    return got == want;
}

static void launch(const case_t *c, const char *space, bool red, data_t *t, uint32_t step,
                   uint32_t skip)
{
    char text[8192];
    make_kernel(text, sizeof text, c, space, red);
    CUmodule module = pt_load(text);
    CUdeviceptr in = pt_upload(t->in, sizeof t->in), cells = pt_upload(t->cells, sizeof t->cells);
    CUdeviceptr out = pt_upload(t->out, sizeof t->out);
    void *params[] = {&in, &cells, &out, &step, &skip};
    pt_launch(pt_function(module, "k"), one, block, 0, params);
    pt_download(t->cells, cells, sizeof t->cells);
    pt_download(t->out, out, sizeof t->out);
    pt_free(in);
    pt_free(cells);
    pt_free(out);
    pt_unload(module);
}

static const uint32_t edges16[] = {0,      0x8000, 1,      0x8001, 0x3c00, 0xbc00, 0x7bff, 0xfbff,
                                   0x7c00, 0xfc00, 0x7e00, 0x3555, 0x0400, 0x03ff, 0x4248, 0xc900,
                                   0x3f80, 0x7f7f, 0x0080, 0x7f80, 0xff80, 0x2c01, 0x6bff};

static uint64_t edge(const case_t *c, uint32_t *seed)
{
    static const double reals[] = {0.0,   -0.0, 1.5,      -2.25,     1e-40,
                                   -3e38, 1e10, INFINITY, -INFINITY, 0.1};
    uint32_t r = pt_random(seed);
    if (kind_bytes(c->kind) == 2)
        return edges16[r % (sizeof edges16 / sizeof edges16[0])];
    if (c->kind >= F32)
        return bits_of(c->kind, reals[r % 10]);
    uint64_t wide = (uint64_t)pt_random(seed) << 32 | pt_random(seed);
    return r % 4 == 0   ? r % 7
           : r % 4 == 1 ? UINT64_MAX - r % 5
           : r % 4 == 2 ? wide
                        : 1ull << (r % 64);
}

static void fill(const case_t *c, data_t *t, uint32_t seed)
{
    memset(t, 0, sizeof *t);
    for (unsigned i = 0; i < THREADS; i++) {
        for (unsigned n = 0; n < c->parts; n++) {
            set_part(c, t->in[i], n, edge(c, &seed));
            set_part(c, t->in[i] + 16, n, edge(c, &seed));
            set_part(c, t->cells[i], n, edge(c, &seed));
            if (strcmp(c->op, "cas") == 0 && i % 3 != 0) /* else few would be swapped */
                set_part(c, t->in[i], n, part(c, t->cells[i], n));
        }
    }
}

/* A cell for each thread: what it becomes and what is given back. */
static void own_cells(const case_t *c, const char *space, bool red)
{
    data_t t, before;
    uint32_t skip = 0x40010006;
    fill(c, &t, (uint32_t)(c - cases) + 5);
    before = t;
    launch(c, space, red, &t, 16, skip);
    for (unsigned i = 0; i < THREADS; i++) {
        bool runs = (skip >> (i % 32) & 1) == 0;
        for (unsigned n = 0; n < c->parts; n++) {
            unsigned bytes = kind_bytes(c->kind);
            uint64_t low = bytes == 8 ? UINT64_MAX : (1ull << bytes * 8) - 1;
            uint64_t old = part(c, before.cells[i], n), v = part(c, before.in[i], n);
            uint64_t want = apply(c->op, c->kind, old, v, part(c, before.in[i] + 16, n)) & low;
            uint64_t got = part(c, t.cells[i], n), back = part(c, t.out[i], n);
            if (!same(c, got, runs ? want : old) || (back != (runs && !red ? old : 0)))
                fail_msg("%s%s.%s%s: thread %u, part %u: %llx and %llx leave %llx (must be %llx), "
                         "give %llx",
                         red ? "red" : "atom", space, c->op, c->words, i, n,
                         (unsigned long long)old, (unsigned long long)v, (unsigned long long)got,
                         (unsigned long long)(runs ? want : old), (unsigned long long)back);
        }
    }
}

/* One cell for all: small whole numbers, so that no order rounds. */
static void one_cell(const case_t *c, const char *space, bool red)
{
    data_t t;
    memset(&t, 0, sizeof t);
    uint64_t want[MOST] = {0};
    for (unsigned i = 0; i < THREADS; i++) {
        for (unsigned n = 0; n < c->parts; n++) {
            uint64_t v = c->op[0] == 'i' || c->op[0] == 'd' ? 20 : (i * 7 + n) % 4;
            v = c->kind >= F16 ? bits_of(c->kind, (double)v) : v;
            set_part(c, t.in[i], n, v);
            if (i % 32 != 3)
                want[n] = apply(c->op, c->kind, want[n], v, 0);
        }
    }
    launch(c, space, red, &t, 0, 1u << 3);
    for (unsigned n = 0; n < c->parts; n++) {
        if (part(c, t.cells[0], n) != want[n])
            fail_msg("%s%s.%s%s on one cell: part %u is %llx, must be %llx", red ? "red" : "atom",
                     space, c->op, c->words, n, (unsigned long long)part(c, t.cells[0], n),
                     (unsigned long long)want[n]);
    }
}

/* Every space, semantics and scope occurs with some case; every case in two places, with or without
 * its old value. */
static void each_case(void (*check)(const case_t *, const char *, bool))
{
    static const char *const spaces[] = {".global",
                                         ".shared",
                                         "",
                                         ".relaxed.gpu.global",
                                         ".acq_rel.cta.shared",
                                         ".acquire.sys",
                                         ".release.cluster",
                                         ".shared::cta",
                                         ".shared::cluster"};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const case_t *c = &cases[k];
        check(c, c->only_global ? ".global" : spaces[k % 9], false);
        if (c->has_red) { /* red has no acquire */
            check(c, k % 2 || c->only_global ? ".relaxed.gpu.global" : ".shared", true);
        }
    }
}

static void test_own_cells(void **state)
{
    (void)state;
    each_case(own_cells);
}

static bool depends_on_order(const case_t *c)
{
    return strcmp(c->op, "cas") == 0 || strcmp(c->op, "exch") == 0;
}

static void check_shared_cell(const case_t *c, const char *space, bool red)
{
    if (!depends_on_order(c))
        one_cell(c, space, red);
}

static void test_one_cell(void **state)
{
    (void)state;
    each_case(check_shared_cell);
}

/* ---- 128 bits ---- */

/* Each thread swaps its own pair in, by exch or by cas in a loop: every pair is given back once. */
static void wide(const char *code)
{
    char text[2048];
    snprintf(text, sizeof text,
             HEAD
             ".visible .entry k(.param .u64 cell, .param .u64 out)\n{\n"
             ".reg .b32 %%r<8>; .reg .b64 %%d<20>; .reg .b128 %%q<8>; .reg .pred %%p<4>;\n"
             "ld.param.u64 %%d1, [cell]; ld.param.u64 %%d2, [out]; mov.u32 %%r1, %%tid.x;\n"
             "mul.wide.u32 %%d3, %%r1, 16; add.s64 %%d2, %%d2, %%d3; cvt.u64.u32 %%d4, %%r1;\n"
             "add.s64 %%d4, %%d4, 1; shl.b64 %%d5, %%d4, 40; mov.b128 %%q1, {%%d4, %%d5};\n"
             "%s\nmov.b128 {%%d6, %%d7}, %%q2; st.global.v2.b64 [%%d2], {%%d6, %%d7};\nret;\n}\n",
             code);
    CUmodule module = pt_load(text);
    CUdeviceptr cell = pt_upload(NULL, 16), out = pt_upload(NULL, THREADS * 16);
    uint64_t got[THREADS][2], last[2];
    unsigned seen[THREADS + 1] = {0};
    void *params[] = {&cell, &out};
    pt_launch(pt_function(module, "k"), one, block, 0, params);
    pt_download(got, out, sizeof got);
    pt_download(last, cell, sizeof last);
    for (unsigned i = 0; i <= THREADS; i++) {
        const uint64_t *v = i < THREADS ? got[i] : last;
        assert_true(v[0] <= THREADS);
        assert_int_equal(v[1], v[0] << 40);
        seen[v[0]]++;
    }
    for (unsigned i = 0; i <= THREADS; i++)
        assert_int_equal(seen[i], 1);
    pt_free(cell);
    pt_free(out);
    pt_unload(module);
}

static void test_wide(void **state)
{
    (void)state;
    wide("atom.global.exch.b128 %q2, [%d1], %q1;");
    wide("atom.relaxed.gpu.exch.b128 %q2, [%d1], %q1;");
    /* a wrong guess first, then with what was found */
    wide("mov.b64 %d10, 77; mov.b128 %q3, {%d10, %d10};\n"
         "Again: atom.global.cas.b128 %q2, [%d1], %q3, %q1;\n"
         "mov.b128 {%d10, %d11}, %q3; mov.b128 {%d12, %d13}, %q2; mov.b128 %q3, {%d12, %d13};\n"
         "setp.ne.u64 %p1, %d10, %d12; setp.ne.or.u64 %p1, %d11, %d13, %p1; @%p1 bra Again;");
}

/* Values of 128 bits through every space. */
static void test_wide_moves(void **state)
{
    static const char text[] = HEAD
        ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
        ".reg .b32 %r<8>; .reg .b64 %d<20>; .reg .b128 %q<8>; .shared .align 16 .b8 s[1600];\n"
        ".local .align 16 .b8 l[32];\n"
        "ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out]; mov.u32 %r1, %tid.x;\n"
        "mul.wide.u32 %d3, %r1, 16; add.s64 %d1, %d1, %d3; add.s64 %d2, %d2, %d3;\n"
        "mov.u32 %r2, s; cvt.u32.u64 %r3, %d3; add.s32 %r2, %r2, %r3;\n"
        "ld.global.b128 %q1, [%d1]; st.shared.b128 [%r2], %q1; bar.sync 0;\n"
        "xor.b32 %r4, %r1, 1; min.u32 %r4, %r4, 74; mov.u32 %r5, s; mad.lo.u32 %r5, %r4, 16, %r5;\n"
        "ld.shared.b128 %q2, [%r5]; st.local.b128 [l+16], %q2; ld.local.b128 %q3, [l+16];\n"
        "mov.b128 %q4, %q3; mov.b128 {%d4, %d5}, %q4; mov.b128 %q5, {%d5, %d4};\n"
        "st.global.b128 [%d2], %q5; ret;\n}\n";
    (void)state;
    uint64_t in[THREADS][2], out[THREADS][2];
    uint32_t seed = 3;
    for (unsigned i = 0; i < 2 * THREADS; i++)
        in[i / 2][i % 2] = (uint64_t)pt_random(&seed) << 32 | pt_random(&seed);
    CUmodule module = pt_load(text);
    CUdeviceptr d_in = pt_upload(in, sizeof in), d_out = pt_upload(NULL, sizeof out);
    void *params[] = {&d_in, &d_out};
    pt_launch(pt_function(module, "k"), one, block, 0, params);
    pt_download(out, d_out, sizeof out);
    for (unsigned i = 0; i < THREADS; i++) {
        unsigned from = (i ^ 1) < THREADS ? i ^ 1 : THREADS - 1;
        assert_int_equal(out[i][0], in[from][1]);
        assert_int_equal(out[i][1], in[from][0]);
    }
    pt_free(d_in);
    pt_free(d_out);
    pt_unload(module);
}

/* ---- what PTX does not have is refused, with its line ---- */

static void test_refused(void **state)
{
    static const char *const bad[] = {
        "atom.global.min.f32 %f1, [%d1], %f2;",
        "atom.global.max.noftz.f16 %h1, [%d1], %h2;",
        "atom.global.exch.b16 %h1, [%d1], %h2;",
        "atom.global.max.v2.f32 {%f1, %f2}, [%d1], {%f3, %f4};",
        "atom.shared.add.v2.f32 {%f1, %f2}, [%d1], {%f3, %f4};",
        "atom.global.inc.u64 %d2, [%d1], %d3;",
        "multimem.red.relaxed.sys.global.add.u32 [%d1], %r1;",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[1024], log[2048];
        snprintf(text, sizeof text,
                 HEAD ".visible .entry k()\n{\n.reg .b32 %%r<4>; .reg .f32 %%f<6>; .reg .b64 "
                      "%%d<4>; .reg .b16 %%h<4>;\n%s\nret;\n}\n",
                 bad[i]);
        if (pt_try_load(text, log, sizeof log))
            fail_msg("'%s' is accepted", bad[i]);
        if (!strstr(log, "line 7"))
            fail_msg("%s: %s", bad[i], log);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_cells), cmocka_unit_test(test_one_cell),
        cmocka_unit_test(test_wide),      cmocka_unit_test(test_wide_moves),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
