/* Memory: every type in every space, vectors, addresses that wrap, initialised data, faults, and
 * modules that are refused. */
#include "tests/ptx/pt_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

enum { THREADS = 75 };

static const pt_dim_t one = {1, 1, 1}, block = {THREADS, 1, 1};

/* ---- every type in every space ---- */

typedef struct {
    const char *space;   /* of the accesses in between; "" is generic */
    const char *declare; /* in the kernel */
    const char *base;    /* sets %d4 (or %r4 extended) to the thread's own place */
} space_t;

/* %r1 is tid.x. Places are 16 bytes apart. */
static const space_t spaces[] = {
    {".global", "", "mul.wide.u32 %d5, %r1, 16; add.s64 %d4, %d3, %d5;"},
    {".shared", ".shared .align 16 .b8 s[1600];",
     "mov.u64 %d4, s; mul.wide.u32 %d5, %r1, 16; add.s64 %d4, %d4, %d5;"},
    {".local", ".local .align 16 .b8 l[64];",
     "mov.u64 %d4, l; and.b32 %r2, %r1, 3; mul.wide.u32 %d5, %r2, 16; add.s64 %d4, %d4, %d5;"},
    {"", "", "mul.wide.u32 %d5, %r1, 16; add.s64 %d4, %d3, %d5;"},
    {"", ".shared .align 16 .b8 s[1600];",
     "mov.u64 %d4, s; cvta.shared.u64 %d4, %d4; mul.wide.u32 %d5, %r1, 16; add.s64 %d4, %d4, %d5;"},
    {"", ".local .align 16 .b8 l[16];", "mov.u64 %d4, l; cvta.local.u64 %d4, %d4;"},
    {".volatile.global", "", "mul.wide.u32 %d5, %r1, 16; add.s64 %d4, %d3, %d5;"},
};

typedef struct {
    const char *type;
    char reg; /* of ld and st */
    unsigned bytes;
    bool is_signed;
} access_t;

static const access_t accesses[] = {
    {"u8", 'h', 1, false},  {"s8", 'h', 1, true},   {"b8", 'r', 1, false},  {"s8", 'r', 1, true},
    {"u16", 'h', 2, false}, {"s16", 'r', 2, true},  {"u16", 'r', 2, false}, {"u32", 'r', 4, false},
    {"s32", 'd', 4, true},  {"u32", 'd', 4, false}, {"u64", 'd', 8, false}, {"s8", 'd', 1, true},
    {"f32", 'f', 4, false}, {"f64", 'g', 8, false}};

/* Brings the loaded register into %d6, extended as the load did it. */
static const char *widen(char reg)
{
    switch (reg) {
    case 'h':
        return "cvt.u64.u16 %d6, %h2;";
    case 'r':
        return "cvt.u64.u32 %d6, %r7;";
    case 'f':
        return "mov.b32 %r7, %f2; cvt.u64.u32 %d6, %r7;";
    case 'g':
        return "mov.b64 %d6, %g2;";
    default:
        return "mov.b64 %d6, %d7;";
    }
}

/* Takes the low bits of the input word in %d2 into the register that is stored. */
static const char *narrow(char reg)
{
    switch (reg) {
    case 'h':
        return "cvt.u16.u64 %h1, %d2;";
    case 'r':
        return "cvt.u32.u64 %r6, %d2;";
    case 'f':
        return "cvt.u32.u64 %r6, %d2; mov.b32 %f1, %r6;";
    case 'g':
        return "mov.b64 %g1, %d2;";
    default:
        return "mov.b64 %d8, %d2;";
    }
}

static const char *stored(char reg)
{
    return reg == 'h'   ? "%h1"
           : reg == 'r' ? "%r6"
           : reg == 'f' ? "%f1"
           : reg == 'g' ? "%g1"
                        : "%d8";
}

static const char *loaded(char reg)
{
    return reg == 'h'   ? "%h2"
           : reg == 'r' ? "%r7"
           : reg == 'f' ? "%f2"
           : reg == 'g' ? "%g2"
                        : "%d7";
}

static void make_access(char *text, size_t size, const space_t *s, const access_t *a)
{
    char what[64], sem[16] = "";
    const char *space = s->space;
    if (strncmp(space, ".volatile", 9) == 0) {
        snprintf(sem, sizeof sem, ".volatile");
        space += 9;
    }
    snprintf(what, sizeof what, "%s%s.%s", sem, space, a->type);
    snprintf(text, size,
             HEAD
             ".visible .entry k(.param .u64 in, .param .u64 out, .param .u64 scratch)\n{\n"
             ".reg .b16 %%h<4>; .reg .b32 %%r<10>; .reg .b64 %%d<14>; .reg .f32 %%f<4>;\n"
             ".reg .f64 %%g<4>; %s\n"
             "ld.param.u64 %%d1, [in]; ld.param.u64 %%d9, [out]; ld.param.u64 %%d3, [scratch];\n"
             "mov.u32 %%r1, %%tid.x; mul.wide.u32 %%d10, %%r1, 8; add.s64 %%d1, %%d1, %%d10;\n"
             "add.s64 %%d9, %%d9, %%d10; ld.global.u64 %%d2, [%%d1];\n"
             "%s\n%s\nst%s [%%d4+8], %s;\nld%s %s, [%%d4+8];\n%s\nst.global.u64 [%%d9], %%d6;\n"
             "ret;\n}\n",
             s->declare, s->base, narrow(a->reg), what, stored(a->reg), what, loaded(a->reg),
             widen(a->reg));
}

static uint64_t expected(const access_t *a, uint64_t value)
{
    unsigned bits = a->bytes * 8, reg = a->reg == 'h'                    ? 16
                                        : a->reg == 'r' || a->reg == 'f' ? 32
                                                                         : 64;
    if (bits < 64)
        value = a->is_signed ? (uint64_t)((int64_t)(value << (64 - bits)) >> (64 - bits))
                             : value & (((uint64_t)1 << bits) - 1);
    return reg < 64 ? value & (((uint64_t)1 << reg) - 1) : value;
}

static void check_access(const space_t *s, const access_t *a, const uint64_t *in)
{
    char text[2048];
    uint64_t out[THREADS];
    make_access(text, sizeof text, s, a);
    CUmodule module = pt_load(text);
    CUdeviceptr d_in = pt_upload(in, THREADS * 8), d_out = pt_upload(NULL, THREADS * 8);
    CUdeviceptr scratch = pt_upload(NULL, THREADS * 16);
    void *params[] = {&d_in, &d_out, &scratch};
    pt_launch(pt_function(module, "k"), one, block, 0, params);
    pt_download(out, d_out, sizeof out);
    for (int i = 0; i < THREADS; i++) {
        if (out[i] != expected(a, in[i]))
            fail_msg("'%s' (%s) .%s in %c: thread %d stores %llx, loads %llx", s->space, s->declare,
                     a->type, a->reg, i, (unsigned long long)in[i], (unsigned long long)out[i]);
    }
    pt_free(d_in);
    pt_free(d_out);
    pt_free(scratch);
    pt_unload(module);
}

static void test_types_and_spaces(void **state)
{
    uint64_t in[THREADS];
    uint32_t seed = 5;
    (void)state;
    for (int i = 0; i < THREADS; i++)
        in[i] = (uint64_t)pt_random(&seed) << 32 | pt_random(&seed);
    for (size_t s = 0; s < sizeof spaces / sizeof spaces[0]; s++) {
        for (size_t a = 0; a < sizeof accesses / sizeof accesses[0]; a++)
            check_access(&spaces[s], &accesses[a], in);
    }
}

/* Reverses the elements of vectors of every width and type. */
static void test_vectors(void **state)
{
    static const struct {
        const char *type;
        char reg;
        unsigned bytes, count;
    } cases[] = {{"b8", 'h', 1, 4},  {"u16", 'h', 2, 2}, {"u16", 'h', 2, 4}, {"b32", 'r', 4, 2},
                 {"f32", 'f', 4, 4}, {"u32", 'r', 4, 4}, {"f64", 'g', 8, 2}, {"b64", 'd', 8, 2}};
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        unsigned n = cases[c].count, size = n * cases[c].bytes;
        char text[2048], forward[64] = "", back[64] = "";
        for (unsigned i = 0; i < n; i++) {
            sprintf(forward + strlen(forward), "%s%%%c%u", i ? ", " : "", cases[c].reg, 10 + i);
            sprintf(back + strlen(back), "%s%%%c%u", i ? ", " : "", cases[c].reg, 9 + n - i);
        }
        snprintf(text, sizeof text,
                 HEAD
                 ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
                 ".reg .b16 %%h<20>; .reg .b32 %%r<20>; .reg .b64 %%d<20>; .reg .f32 %%f<20>;\n"
                 ".reg .f64 %%g<20>; .shared .align 16 .b8 s[1600];\n"
                 "ld.param.u64 %%d1, [in]; ld.param.u64 %%d2, [out]; mov.u32 %%r1, %%tid.x;\n"
                 "mul.wide.u32 %%d3, %%r1, %u; add.s64 %%d1, %%d1, %%d3;\n"
                 "add.s64 %%d2, %%d2, %%d3; mul.lo.s32 %%r2, %%r1, 16; mov.u32 %%r3, s;\n"
                 "add.s32 %%r2, %%r2, %%r3;\n"
                 "ld.global.v%u.%s {%s}, [%%d1];\nst.shared.v%u.%s [%%r2], {%s};\n"
                 "ld.shared.v%u.%s {%s}, [%%r2];\nst.global.v%u.%s [%%d2], {%s};\nret;\n}\n",
                 size, n, cases[c].type, forward, n, cases[c].type, forward, n, cases[c].type,
                 forward, n, cases[c].type, back);
        uint8_t in[THREADS * 16], out[THREADS * 16];
        for (unsigned i = 0; i < sizeof in; i++)
            in[i] = (uint8_t)(i * 7 + 3);
        CUmodule module = pt_load(text);
        CUdeviceptr d_in = pt_upload(in, sizeof in), d_out = pt_upload(NULL, sizeof out);
        void *params[] = {&d_in, &d_out};
        pt_launch(pt_function(module, "k"), one, block, 0, params);
        pt_download(out, d_out, sizeof out);
        for (unsigned i = 0; i < THREADS * n; i++) {
            unsigned from = (i / n * n + n - 1 - i % n) * cases[c].bytes;
            assert_memory_equal(out + i * cases[c].bytes, in + from, cases[c].bytes);
        }
        pt_free(d_in);
        pt_free(d_out);
        pt_unload(module);
    }
}

/* ---- values that step from lane to lane, and wrap ---- */

static uint64_t step_unsigned(uint32_t tid, uint32_t n)
{
    return tid + n;
}

static uint64_t step_signed(uint32_t tid, uint32_t n)
{
    return (uint64_t)(int64_t)(int32_t)(tid + n);
}

static uint64_t step_wide(uint32_t tid, uint32_t n)
{
    return (uint64_t)(uint32_t)(tid * 3 + n) * 12;
}

static uint64_t step_wide_signed(uint32_t tid, uint32_t n)
{
    return (uint64_t)((int64_t)(int32_t)(n - tid * 5) * -4);
}

static uint64_t step_mask(uint32_t tid, uint32_t n)
{
    return ((tid + n) & 31) * 16 + ((tid + n) >> 5);
}

static uint64_t step_divide(uint32_t tid, uint32_t n)
{
    return (uint64_t)((tid + n) / 7) << 32 | (tid + n) % 7;
}

static uint64_t step_shift(uint32_t tid, uint32_t n)
{
    uint32_t v = (tid << 30) + n;
    return (uint64_t)(int64_t)((int32_t)v >> 3) + ((uint64_t)v << 5);
}

/* Each code computes %d9 from %r1 (tid.x) and %r2 (a parameter). */
static const struct {
    const char *code;
    uint64_t (*ref)(uint32_t tid, uint32_t n);
} step_cases[] = {
    {"add.s32 %r3, %r1, %r2; cvt.u64.u32 %d9, %r3;", step_unsigned},
    {"add.s32 %r3, %r1, %r2; cvt.s64.s32 %d9, %r3;", step_signed},
    {"mad.lo.s32 %r3, %r1, 3, %r2; mul.wide.u32 %d9, %r3, 12;", step_wide},
    {"mul.lo.s32 %r3, %r1, 5; sub.s32 %r3, %r2, %r3; mul.wide.s32 %d9, %r3, -4;", step_wide_signed},
    {"add.s32 %r3, %r1, %r2; and.b32 %r4, %r3, 31; shr.u32 %r5, %r3, 5;\n"
     "mad.lo.s32 %r4, %r4, 16, %r5; cvt.u64.u32 %d9, %r4;",
     step_mask},
    {"add.s32 %r3, %r1, %r2; div.u32 %r4, %r3, 7; rem.u32 %r5, %r3, 7;\n"
     "mov.b64 %d9, {%r5, %r4};",
     step_divide},
    {"shl.b32 %r3, %r1, 30; add.s32 %r3, %r3, %r2; shr.s32 %r4, %r3, 3; cvt.s64.s32 %d9, %r4;\n"
     "cvt.u64.u32 %d8, %r3; shl.b64 %d8, %d8, 5; add.s64 %d9, %d9, %d8;",
     step_shift},
};

static void test_steps(void **state)
{
    static const uint32_t starts[] = {0, 5, 0x7fffffe0, 0xffffffd5, 0x80000000, 1000000};
    (void)state;
    for (size_t c = 0; c < sizeof step_cases / sizeof step_cases[0]; c++) {
        char text[2048];
        snprintf(text, sizeof text,
                 HEAD ".visible .entry k(.param .u64 out, .param .u32 n)\n{\n"
                      ".reg .b32 %%r<10>; .reg .b64 %%d<12>;\n"
                      "ld.param.u64 %%d1, [out]; ld.param.u32 %%r2, [n]; mov.u32 %%r1, %%tid.x;\n"
                      "mul.wide.u32 %%d2, %%r1, 8; add.s64 %%d1, %%d1, %%d2;\n%s\n"
                      "st.global.u64 [%%d1], %%d9; ret;\n}\n",
                 step_cases[c].code);
        CUmodule module = pt_load(text);
        CUdeviceptr d_out = pt_upload(NULL, THREADS * 8);
        for (size_t k = 0; k < sizeof starts / sizeof starts[0]; k++) {
            uint64_t out[THREADS];
            uint32_t n = starts[k];
            void *params[] = {&d_out, &n};
            pt_launch(pt_function(module, "k"), one, block, 0, params);
            pt_download(out, d_out, sizeof out);
            for (uint32_t i = 0; i < THREADS; i++) {
                if (out[i] != step_cases[c].ref(i, n))
                    fail_msg("%s: thread %u, n %x: %llx, must be %llx", step_cases[c].code, i, n,
                             (unsigned long long)out[i],
                             (unsigned long long)step_cases[c].ref(i, n));
            }
        }
        pt_free(d_out);
        pt_unload(module);
    }
}

/* ---- what is stored between two loads of a pair that lies side by side ---- */

static void test_store_between(void **state)
{
    static const char text[] =
        HEAD ".visible .entry k(.param .u64 out, .param .u32 n)\n{\n"
             ".reg .b32 %r<10>; .reg .b64 %d<12>; .reg .pred %p<2>; .local .align 16 .b8 l[16];\n"
             "ld.param.u64 %d1, [out]; ld.param.u32 %r2, [n]; mov.u32 %r1, %tid.x;\n"
             "mul.wide.u32 %d2, %r1, 8; add.s64 %d1, %d1, %d2; cvt.u64.u32 %d3, %r1;\n"
             "mov.u64 %d8, l; cvta.local.u64 %d4, %d8; st.u64 [%d4], %d3; st.u64 [%d4+8], %d1;\n"
             "Again: ld.u64 %d5, [%d4]; mad.lo.u64 %d5, %d5, 3, %d3; st.u64 [%d4+8], %d5;\n"
             "ld.u64 %d6, [%d4+8]; st.u64 [%d4], %d6; sub.u32 %r2, %r2, 1;\n"
             "setp.ne.u32 %p1, %r2, 0; @%p1 bra Again;\n"
             "ld.u64 %d7, [%d4]; st.global.u64 [%d1], %d7; ret;\n}\n";
    uint64_t out[THREADS];
    uint32_t n = 6;
    (void)state;
    CUmodule module = pt_load(text);
    CUdeviceptr d_out = pt_upload(NULL, sizeof out);
    void *params[] = {&d_out, &n};
    pt_launch(pt_function(module, "k"), one, block, 0, params);
    pt_download(out, d_out, sizeof out);
    for (uint32_t i = 0; i < THREADS; i++) {
        uint64_t want = i;
        for (uint32_t k = 0; k < n; k++)
            want = want * 3 + i;
        assert_int_equal(out[i], want);
    }
    pt_free(d_out);
    pt_unload(module);
}

/* ---- several such pairs, read in turn; reached through generic addresses ---- */

static void test_pairs_in_turn(void **state)
{
    static const char text[] =
        HEAD ".visible .entry k(.param .u64 out)\n{\n"
             ".reg .b32 %r<20>; .reg .b64 %d<12>; .shared .align 16 .b8 s[3000];\n"
             ".local .align 16 .b8 l[32];\n"
             "ld.param.u64 %d1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %d2, %r1, 8;\n"
             "mul.wide.u32 %d5, %r1, 4; mov.u64 %d7, s; cvta.shared.u64 %d8, %d7;\n"
             "add.s64 %d3, %d8, %d2; add.s64 %d6, %d8, %d5; mov.u64 %d9, l;\n"
             "cvta.local.u64 %d4, %d9; add.s64 %d10, %d1, %d5;\n"
             "add.u32 %r2, %r1, 100; add.u32 %r3, %r1, 200; add.u32 %r4, %r1, 300;\n"
             "st.u32 [%d3], %r1; st.u32 [%d3+4], %r2; st.u32 [%d3+1000], %r3;\n"
             "st.u32 [%d4], %r3; st.u32 [%d4+8], %r4; st.u32 [%d6+2000], %r2; bar.sync 0;\n"
             "ld.u32 %r5, [%d3]; ld.u32 %r6, [%d4]; ld.u32 %r7, [%d6+2000]; ld.u32 %r8, [%d3+4];\n"
             "ld.u32 %r9, [%d4+8]; mad.lo.u32 %r10, %r5, 3, %r6; mad.lo.u32 %r10, %r10, 5, %r7;\n"
             "mad.lo.u32 %r10, %r10, 7, %r8; mad.lo.u32 %r10, %r10, 9, %r9;\n"
             "st.global.u32 [%d10], %r10; ret;\n}\n";
    static const unsigned lengths[] = {8, 64, THREADS, 96};
    (void)state;
    CUmodule module = pt_load(text);
    for (size_t k = 0; k < sizeof lengths / sizeof lengths[0]; k++) {
        uint32_t out[96];
        CUdeviceptr d_out = pt_upload(NULL, sizeof out);
        void *params[] = {&d_out};
        pt_launch(pt_function(module, "k"), one, (pt_dim_t){lengths[k], 1, 1}, 0, params);
        pt_download(out, d_out, sizeof out);
        for (uint32_t i = 0; i < lengths[k]; i++) {
            uint32_t want = i * 3 + i + 200;
            want = (want * 5 + i + 100) * 7 + i + 100;
            assert_int_equal(out[i], want * 9 + i + 300);
        }
        pt_free(d_out);
    }
    pt_unload(module);
}

/* ---- initialised data ---- */

static void test_data(void **state)
{
    static const char text[] = HEAD
        ".global .align 4 .u32 cells[4] = {1, 2, 3, 4};\n"
        ".const .align 4 .f32 weights[3] = {0.5, 0f40000000, -1.25};\n"
        ".global .align 8 .u64 pointers[3] = {generic(cells)+8, cells, 77};\n"
        ".visible .global .align 4 .u32 counter;\n"
        ".visible .entry k(.param .u64 out)\n{\n"
        ".reg .b32 %r<10>; .reg .b64 %d<10>; .reg .f32 %f<4>;\n"
        "ld.param.u64 %d1, [out]; ld.global.u64 %d2, [pointers]; ld.u32 %r1, [%d2];\n"
        "ld.global.u64 %d3, [pointers+8]; ld.global.u32 %r2, [%d3+12];\n"
        "ld.global.u64 %d4, [pointers+16]; cvt.u32.u64 %r3, %d4;\n"
        "ld.const.f32 %f1, [weights+4]; cvt.rzi.s32.f32 %r4, %f1;\n"
        "mov.u64 %d5, weights; cvta.const.u64 %d5, %d5; ld.f32 %f2, [%d5+8];\n"
        "mov.b32 %r5, %f2; ld.global.u32 %r6, [counter]; add.s32 %r7, %r6, 1;\n"
        "st.global.u32 [counter], %r7;\n"
        "st.global.v4.u32 [%d1], {%r1, %r2, %r3, %r4}; st.global.v2.u32 [%d1+16], {%r5, %r6};\n"
        "ret;\n}\n";
    (void)state;
    CUmodule module = pt_load(text);
    CUdeviceptr d_out = pt_upload(NULL, 24), counter;
    size_t bytes;
    uint32_t out[6], value = 41;
    void *params[] = {&d_out};
    PT_CHECK(pt_cuda()->cuModuleGetGlobal_v2(&counter, &bytes, module, "counter"));
    assert_int_equal(bytes, 4);
    PT_CHECK(pt_cuda()->cuMemcpyHtoD_v2(counter, &value, 4));
    pt_launch(pt_function(module, "k"), one, one, 0, params);
    pt_download(out, d_out, sizeof out);
    pt_download(&value, counter, 4);
    assert_int_equal(out[0], 3);
    assert_int_equal(out[1], 4);
    assert_int_equal(out[2], 77);
    assert_int_equal(out[3], 2);
    assert_int_equal(out[4], 0xbfa00000);
    assert_int_equal(out[5], 41);
    assert_int_equal(value, 42);
    pt_free(d_out);
    pt_unload(module);
}

/* Structures by value, and static and dynamic shared memory side by side. */
static void test_params_and_shared(void **state)
{
    static const char text[] = HEAD
        ".extern .shared .align 16 .b8 dyn[];\n"
        ".visible .entry k(.param .align 8 .b8 s[24], .param .u8 tag, .param .u64 out)\n{\n"
        ".reg .b32 %r<10>; .reg .b64 %d<10>; .reg .b16 %h<4>; .shared .align 4 .u32 fixed[75];\n"
        "ld.param.u64 %d1, [out]; ld.param.u32 %r1, [s]; ld.param.u64 %d2, [s+8];\n"
        "ld.param.s16 %r2, [s+18]; ld.param.u8 %h1, [tag]; cvt.u32.u16 %r3, %h1;\n"
        "mov.u32 %r4, %tid.x; shl.b32 %r5, %r4, 2; mov.u32 %r6, fixed; add.s32 %r6, %r6, %r5;\n"
        "mov.u32 %r7, dyn; add.s32 %r7, %r7, %r5; st.shared.u32 [%r6], %r4;\n"
        "add.s32 %r8, %r4, 1000; st.shared.u32 [%r7], %r8; bar.sync 0;\n"
        "ld.shared.u32 %r8, [%r6]; ld.shared.u32 %r9, [%r7]; add.s32 %r8, %r8, %r9;\n"
        "add.s32 %r8, %r8, %r1; add.s32 %r8, %r8, %r2; add.s32 %r8, %r8, %r3;\n"
        "cvt.u32.u64 %r9, %d2; add.s32 %r8, %r8, %r9;\n"
        "mul.wide.u32 %d3, %r4, 4; add.s64 %d1, %d1, %d3; st.global.u32 [%d1], %r8; ret;\n}\n";
    struct {
        uint32_t a, pad;
        uint64_t b;
        int16_t c[4];
    } s = {100000, 0, 7, {0, -9, 0, 0}};
    uint8_t tag = 200;
    uint32_t out[THREADS];
    (void)state;
    CUmodule module = pt_load(text);
    CUdeviceptr d_out = pt_upload(NULL, sizeof out);
    void *params[] = {&s, &tag, &d_out};
    pt_launch(pt_function(module, "k"), one, block, THREADS * 4, params);
    pt_download(out, d_out, sizeof out);
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(out[i], i + i + 1000 + 100000 - 9 + 200 + 7);
    pt_free(d_out);
    pt_unload(module);
}

/* ---- faults ---- */

static void expect_fault(const char *access, uint64_t where, CUresult want)
{
    char text[1024];
    snprintf(text, sizeof text,
             HEAD ".visible .entry k(.param .u64 p, .param .u32 at)\n{\n"
                  ".reg .b32 %%r<6>; .reg .b64 %%d<6>; .reg .pred %%q<2>; .shared .u32 s[16];\n"
                  "ld.param.u64 %%d1, [p]; ld.param.u32 %%r2, [at]; mov.u32 %%r1, %%tid.x;\n"
                  "setp.ne.u32 %%q1, %%r1, %%r2; @%%q1 bra Done;\n%s\nDone: ret;\n}\n",
             access);
    CUmodule module = pt_load(text);
    uint32_t at = 40;
    void *params[] = {&where, &at};
    CUresult got = pt_run(pt_function(module, "k"), one, block, 0, params);
    if (got != want)
        fail_msg("%s at %llx gives %d, must be %d", access, (unsigned long long)where, (int)got,
                 (int)want);
    if (want != CUDA_SUCCESS) {
        /* The context is lost, and says so from now on. */
        CUdeviceptr ptr;
        assert_int_equal(pt_cuda()->cuMemAlloc_v2(&ptr, 16), want);
        pt_new_context();
    } else {
        pt_unload(module);
    }
}

static void test_faults(void **state)
{
    (void)state;
    CUdeviceptr ptr = pt_upload(NULL, 4096);
    expect_fault("ld.global.u32 %r3, [%d1];", ptr, CUDA_SUCCESS);
    expect_fault("ld.global.u32 %r3, [%d1+4092];", ptr, CUDA_SUCCESS);
    expect_fault("ld.global.u32 %r3, [%d1]; st.global.u32 [%d1], %r3;", 0,
                 CUDA_ERROR_ILLEGAL_ADDRESS);
    ptr = pt_upload(NULL, 4096);
    expect_fault("ld.global.u32 %r3, [%d1]; st.global.u32 [%d1], %r3;", ptr + 2,
                 CUDA_ERROR_MISALIGNED_ADDRESS);
    ptr = pt_upload(NULL, 4096);
    expect_fault("st.global.v4.u32 [%d1], {%r1, %r1, %r1, %r1};", ptr + 8,
                 CUDA_ERROR_MISALIGNED_ADDRESS);
    ptr = pt_upload(NULL, 4096);
    expect_fault("st.global.u32 [%d1], %r1;", ptr + ((uint64_t)1 << 40),
                 CUDA_ERROR_ILLEGAL_ADDRESS);
    ptr = pt_upload(NULL, 4096);
    pt_free(ptr);
    expect_fault("atom.global.add.u32 %r3, [%d1], 1;", 64, CUDA_ERROR_ILLEGAL_ADDRESS);
    expect_fault("st.u32 [%d1], %r1;", 0xdead0000beef0000, CUDA_ERROR_ILLEGAL_ADDRESS);
    expect_fault("ld.shared.u32 %r3, [%d1]; st.shared.u32 [%d1], %r3;", 1 << 24,
                 CUDA_ERROR_ILLEGAL_ADDRESS);
    expect_fault("trap;", 0, CUDA_ERROR_LAUNCH_FAILED);
}

/* ---- what is not covered ---- */

static void test_refused(void **state)
{
    static const struct {
        const char *body, *say;
    } cases[] = {
        {"wibble.u32 %r1, %r2;", "line 7: unknown opcode 'wibble.u32'"},
        {"tex.2dms.v4.f32.s32 {%f1, %f2, %f3, %f4}, [%d1, {%r1, %r1, %r2, %r2}];", "line 7"},
        {"add.u32 %r1, %r2;", "line 7: operand 3 of 'add.u32' is missing"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[1024], log[2048];
        snprintf(text, sizeof text,
                 HEAD ".visible .entry k()\n{\n.reg .b32 %%r<4>; .reg .f32 %%f<6>; .reg .b64 "
                      "%%d<4>;\n%s\nret;\n}\n",
                 cases[i].body);
        assert_null(pt_try_load(text, log, sizeof log));
        if (!strstr(log, cases[i].say))
            fail_msg("%s: %s", cases[i].body, log);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types_and_spaces),
        cmocka_unit_test(test_vectors),
        cmocka_unit_test(test_steps),
        cmocka_unit_test(test_store_between),
        cmocka_unit_test(test_pairs_in_turn),
        cmocka_unit_test(test_data),
        cmocka_unit_test(test_params_and_shared),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_faults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
