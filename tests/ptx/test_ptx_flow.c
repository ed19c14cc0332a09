/* Control flow and guards, written as PTX that compilers would not write: a small program per case,
 * against a C function of the thread's number and input. */
#include "tests/ptx/pt_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name;
    const char *code; /* %r9 from %r1 (tid) and %r3 (input); %d4 points at a private word (0) */
    uint32_t (*ref)(uint32_t tid, uint32_t x);
} case_t;

static uint32_t ref_guards(uint32_t tid, uint32_t x)
{
    uint32_t r = 100;
    if (tid & 1)
        r += x;
    else
        r -= x;
    uint32_t word = tid & 1 ? r : 0;
    if (!(tid & 1))
        word += 3;
    return r * 5 + word;
}

static uint32_t ref_two_predicates(uint32_t tid, uint32_t x)
{
    bool both = (int32_t)x < 50 && (tid & 2), other = !((int32_t)x < 50) && (tid & 2);
    return (both ? 1u : 0) + (other ? 2u : 0);
}

static uint32_t ref_exits(uint32_t tid, uint32_t x)
{
    return tid % 5 == 0 ? 7 : tid % 3 == 0 ? 8 : x;
}

/* A loop with two entries to its tail and an exit in its middle */
static uint32_t ref_middle_exit(uint32_t tid, uint32_t x)
{
    uint32_t n = 0, v = x % 64 + tid;
    for (;;) {
        n++;
        if (v < 10)
            return n * 1000 + v;
        if (v & 1) {
            v = v - 3;
            if (v % 5 == 0)
                continue;
            n += 2;
        } else {
            v = v / 2;
        }
        v += 1;
    }
}

static uint32_t ref_nested(uint32_t tid, uint32_t x)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < (tid & 3) + 1; i++) {
        for (uint32_t j = i; j < (x & 7); j++) {
            if ((i + j) & 1)
                sum += j * 3;
            else
                sum ^= i + j;
        }
        sum = sum * 2 + 1;
    }
    return sum;
}

/* Values that step from lane to lane, kept over a divergent loop */
static uint32_t ref_kept(uint32_t tid, uint32_t x)
{
    uint32_t at = tid * 4, n = 0;
    while (n < (x & 15)) {
        at += 8;
        n++;
    }
    return at + tid + n;
}

static uint32_t ref_pack(uint32_t tid, uint32_t x)
{
    uint64_t d = (uint64_t)x << 32 | tid;
    uint32_t low = (uint32_t)d, high = (uint32_t)(d >> 32);
    return (low & 0xffff) << 16 | (high & 0xffff);
}

static uint32_t ref_swap(uint32_t tid, uint32_t x)
{
    uint32_t a = tid, b = x;
    for (uint32_t i = 0; i < (tid & 7); i++) {
        uint32_t t = a;
        a = b;
        b = t + 1;
    }
    return a * 31 + b;
}

static const case_t cases[] = {
    {"guards",
     "and.b32 %r4, %r1, 1; setp.ne.u32 %p1, %r4, 0; mov.u32 %r9, 100;\n"
     "@%p1 add.s32 %r9, %r9, %r3; @!%p1 sub.s32 %r9, %r9, %r3;\n"
     "@%p1 st.global.u32 [%d4], %r9; mov.u32 %r5, 9999;\n"
     "@!%p1 atom.global.add.u32 %r6, [%d4], 3; @%p1 ld.global.u32 %r5, [%d4];\n"
     "ld.global.u32 %r7, [%d4]; mad.lo.s32 %r9, %r9, 5, %r7;",
     ref_guards},
    {"two predicates",
     "and.b32 %r4, %r1, 2; setp.ne.u32 %p3, %r4, 0;\n"
     "setp.lt.and.s32 %p1|%p2, %r3, 50, %p3; mov.u32 %r9, 0;\n"
     "@%p1 add.s32 %r9, %r9, 1; @%p2 add.s32 %r9, %r9, 2;",
     ref_two_predicates},
    {"exits",
     "rem.u32 %r4, %r1, 5; setp.eq.u32 %p1, %r4, 0; mov.u32 %r9, 7;\n"
     "st.global.u32 [%d5], %r9; @%p1 exit;\n"
     "rem.u32 %r4, %r1, 3; setp.eq.u32 %p2, %r4, 0; mov.u32 %r9, 8;\n"
     "st.global.u32 [%d5], %r9; @%p2 ret; mov.u32 %r9, %r3;",
     ref_exits},
    {"exit in the middle of a loop",
     "mov.u32 %r4, 0; and.b32 %r5, %r3, 63; add.s32 %r5, %r5, %r1;\n"
     "Head: add.s32 %r4, %r4, 1; setp.lt.u32 %p1, %r5, 10; @%p1 bra Out;\n"
     "and.b32 %r6, %r5, 1; setp.eq.u32 %p2, %r6, 0; @%p2 bra Even;\n"
     "sub.s32 %r5, %r5, 3; rem.u32 %r6, %r5, 5; setp.eq.u32 %p3, %r6, 0; @%p3 bra Head;\n"
     "add.s32 %r4, %r4, 2; bra.uni Tail;\n"
     "Even: shr.u32 %r5, %r5, 1;\nTail: add.s32 %r5, %r5, 1; bra.uni Head;\n"
     "Out: mad.lo.s32 %r9, %r4, 1000, %r5;",
     ref_middle_exit},
    {"nested loops",
     "mov.u32 %r9, 0; and.b32 %r4, %r1, 3; add.s32 %r4, %r4, 1; mov.u32 %r5, 0;\n"
     "and.b32 %r6, %r3, 7;\n"
     "Outer: setp.ge.u32 %p1, %r5, %r4; @%p1 bra Out; mov.u32 %r7, %r5;\n"
     "Inner: setp.ge.u32 %p2, %r7, %r6; @%p2 bra Next; add.s32 %r8, %r5, %r7;\n"
     "and.b32 %r10, %r8, 1; setp.ne.u32 %p3, %r10, 0; @!%p3 bra Even;\n"
     "mad.lo.s32 %r9, %r7, 3, %r9; bra.uni Step;\nEven: xor.b32 %r9, %r9, %r8;\n"
     "Step: add.s32 %r7, %r7, 1; bra.uni Inner;\n"
     "Next: shl.b32 %r9, %r9, 1; add.s32 %r9, %r9, 1; add.s32 %r5, %r5, 1; bra.uni Outer;\nOut:",
     ref_nested},
    {"stepping values over a loop",
     "shl.b32 %r4, %r1, 2; mov.u32 %r5, 0; and.b32 %r6, %r3, 15; setp.eq.u32 %p1, %r6, 0;\n"
     "@%p1 bra Out;\nHead: add.s32 %r4, %r4, 8; add.s32 %r5, %r5, 1;\n"
     "setp.lt.u32 %p2, %r5, %r6; @%p2 bra Head;\nOut: add.s32 %r9, %r4, %r1; add.s32 %r9, %r9, "
     "%r5;",
     ref_kept},
    {"packing",
     "mov.b64 %d6, {%r1, %r3}; mov.b64 {%r4, %r5}, %d6; mov.b32 {%h1, %h2}, %r4;\n"
     "mov.b32 {%h3, _}, %r5; mov.b32 %r9, {%h3, %h1};",
     ref_pack},
    {"values that change places",
     "mov.u32 %r4, %r1; mov.u32 %r5, %r3; mov.u32 %r6, 0; and.b32 %r7, %r1, 7;\n"
     "Head: setp.ge.u32 %p1, %r6, %r7; @%p1 bra Out; mov.u32 %r8, %r4; mov.u32 %r4, %r5;\n"
     "add.s32 %r5, %r8, 1; add.s32 %r6, %r6, 1; bra.uni Head;\nOut: mad.lo.s32 %r9, %r4, 31, %r5;",
     ref_swap},
};

static void make_program(char *text, size_t size, const char *code)
{
    int n =
        snprintf(text, size,
                 ".version 7.0\n.target sm_70\n.address_size 64\n"
                 ".visible .entry k(.param .u64 in, .param .u64 out, .param .u64 words)\n{\n"
                 ".reg .b16 %%h<8>; .reg .b32 %%r<20>; .reg .b64 %%d<12>; .reg .pred %%p<8>;\n"
                 "ld.param.u64 %%d1, [in]; ld.param.u64 %%d5, [out]; ld.param.u64 %%d4, [words];\n"
                 "mov.u32 %%r1, %%tid.x; mov.u32 %%r2, %%tid.y; mov.u32 %%r3, %%ntid.x;\n"
                 "mad.lo.s32 %%r1, %%r2, %%r3, %%r1; mul.wide.u32 %%d3, %%r1, 4;\n"
                 "add.s64 %%d1, %%d1, %%d3; add.s64 %%d5, %%d5, %%d3; add.s64 %%d4, %%d4, %%d3;\n"
                 "ld.global.u32 %%r3, [%%d1];\n%s\nst.global.u32 [%%d5], %%r9; ret;\n}\n",
                 code);
    assert_true(n > 0 && (size_t)n < size);
}

static void test_cases(void **state)
{
    static const pt_dim_t blocks[] = {{1, 1, 1}, {33, 1, 1}, {128, 1, 1}, {16, 8, 1}, {5, 21, 1}};
    enum { MOST = 128 };
    uint32_t in[MOST], out[MOST], seed = 3;
    (void)state;
    for (unsigned i = 0; i < MOST; i++)
        in[i] = pt_random(&seed) % 200;
    CUdeviceptr d_in = pt_upload(in, sizeof in);
    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        char text[4096];
        make_program(text, sizeof text, cases[c].code);
        CUmodule module = pt_load(text);
        for (size_t b = 0; b < sizeof blocks / sizeof blocks[0]; b++) {
            CUdeviceptr d_out = pt_upload(NULL, sizeof out), words = pt_upload(NULL, sizeof out);
            pt_dim_t one = {1, 1, 1};
            void *params[] = {&d_in, &d_out, &words};
            pt_launch(pt_function(module, "k"), one, blocks[b], 0, params);
            pt_download(out, d_out, sizeof out);
            for (unsigned i = 0; i < blocks[b].x * blocks[b].y; i++) {
                if (out[i] != cases[c].ref(i, in[i]))
                    fail_msg("%s, block %u x %u: thread %u gives %u, must be %u", cases[c].name,
                             blocks[b].x, blocks[b].y, i, out[i], cases[c].ref(i, in[i]));
            }
            pt_free(d_out);
            pt_free(words);
        }
        pt_unload(module);
    }
    pt_free(d_in);
}

/* A kernel of so many parts that the compiler keeps registers and masks in memory */
static void test_many_parts(void **state)
{
    enum { PARTS = 150, THREADS = 100, TEXT = 32768 };
    static char code[TEXT], text[TEXT + 2048];
    uint32_t in[THREADS], out[THREADS], seed = 5;
    int n = snprintf(code, sizeof code, "mov.u32 %%r9, 1; mov.u32 %%r5, 7;\n");
    (void)state;
    for (unsigned k = 0; k < PARTS; k++)
        n += snprintf(code + n, sizeof code - (size_t)n,
                      "and.b32 %%r4, %%r3, %u; setp.eq.u32 %%p1, %%r4, 0; @%%p1 bra A%u;\n"
                      "mad.lo.s32 %%r9, %%r9, 3, %%r5; bra B%u;\nA%u: xor.b32 %%r5, %%r5, %u;\n"
                      "B%u: add.s32 %%r9, %%r9, %%r1;\n",
                      1u << k % 8, k, k, k, k, k);
    assert_true((size_t)n < sizeof code);
    n = snprintf(text, sizeof text,
                 ".version 7.0\n.target sm_70\n.address_size 64\n"
                 ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
                 ".reg .b32 %%r<20>; .reg .b64 %%d<12>; .reg .pred %%p<8>;\n"
                 "ld.param.u64 %%d1, [in]; ld.param.u64 %%d5, [out]; mov.u32 %%r1, %%tid.x;\n"
                 "mul.wide.u32 %%d3, %%r1, 4; add.s64 %%d1, %%d1, %%d3; add.s64 %%d5, %%d5, %%d3;\n"
                 "ld.global.u32 %%r3, [%%d1];\n%s\nst.global.u32 [%%d5], %%r9; ret;\n}\n",
                 code);
    assert_true((size_t)n < sizeof text);
    for (unsigned i = 0; i < THREADS; i++)
        in[i] = pt_random(&seed) % 256;
    CUmodule module = pt_load(text);
    CUdeviceptr d_in = pt_upload(in, sizeof in), d_out = pt_upload(NULL, sizeof out);
    pt_dim_t one = {1, 1, 1}, block = {THREADS, 1, 1};
    void *params[] = {&d_in, &d_out};
    pt_launch(pt_function(module, "k"), one, block, 0, params);
    pt_download(out, d_out, sizeof out);
    for (unsigned i = 0; i < THREADS; i++) {
        uint32_t r = 1, x = 7;
        for (unsigned k = 0; k < PARTS; k++) {
            if (in[i] & 1u << k % 8)
                r = r * 3 + x;
            else
                x ^= k;
            r += i;
        }
        assert_int_equal(out[i], r);
    }
    pt_free(d_in);
    pt_free(d_out);
    pt_unload(module);
}

/* Named barriers: the first 64 threads meet at one, the others at another, twice each; a producer
 * arrives without waiting. */
static void test_named_barriers(void **state)
{
    static const char code[] =
        ".shared .align 4 .b8 s[512]; mov.u32 %r4, s; shl.b32 %r5, %r1, 2; add.s32 %r4, %r4, %r5;\n"
        "setp.lt.u32 %p1, %r1, 64; mul.lo.s32 %r6, %r1, 3; st.shared.u32 [%r4], %r6;\n"
        "@!%p1 bra Others;\n"
        "bar.sync 1, 64; xor.b32 %r7, %r1, 63; shl.b32 %r7, %r7, 2; mov.u32 %r8, s;\n"
        "add.s32 %r7, %r7, %r8; ld.shared.u32 %r9, [%r7]; bar.sync 1, 64;\n"
        "add.s32 %r9, %r9, 1; st.shared.u32 [%r4], %r9; bar.arrive 3, 128; bra.uni Done;\n"
        "Others: bar.sync 2, 64; ld.shared.u32 %r9, [%r4]; bar.sync 3, 128;\n"
        "ld.shared.u32 %r10, [%r4+-256]; add.s32 %r9, %r9, %r10;\nDone:";
    char text[4096];
    uint32_t in[128] = {0}, out[128];
    (void)state;
    make_program(text, sizeof text, code);
    CUmodule module = pt_load(text);
    CUdeviceptr d_in = pt_upload(in, sizeof in), d_out = pt_upload(NULL, sizeof out);
    pt_dim_t one = {1, 1, 1}, block = {128, 1, 1};
    void *params[] = {&d_in, &d_out, &d_in};
    pt_launch(pt_function(module, "k"), one, block, 0, params);
    pt_download(out, d_out, sizeof out);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(out[i], (63 - i) * 3 + 1);
    for (unsigned i = 64; i < 128; i++)
        assert_int_equal(out[i], i * 3 + (63 - (i - 64)) * 3 + 1);
    pt_free(d_in);
    pt_free(d_out);
    pt_unload(module);
}

/* Special registers that are not positions, and instructions that only have to do no harm. */
static void test_special(void **state)
{
    static const char code[] =
        "mov.u64 %d6, %clock64; mov.u32 %r4, %clock; membar.gl; fence.acq_rel.gpu; nanosleep.u32 "
        "20;\n"
        "mov.u64 %d7, %clock64; mov.u64 %d8, %globaltimer; setp.ge.u64 %p1, %d7, %d6;\n"
        "setp.ne.u64 %p2, %d8, 0; mov.u32 %r5, %smid; mov.u32 %r6, %nsmid; setp.lt.u32 %p3, %r5, "
        "%r6;\n"
        "mov.u32 %r7, %laneid; and.b32 %r8, %r1, 31; setp.eq.u32 %p4, %r7, %r8;\n"
        "mov.u32 %r10, %nctaid.y; mov.u32 %r11, WARP_SZ; add.s32 %r9, %r10, %r11;\n"
        "@%p1 add.s32 %r9, %r9, 1000; @%p2 add.s32 %r9, %r9, 2000; @%p3 add.s32 %r9, %r9, 4000;\n"
        "@%p4 add.s32 %r9, %r9, 8000; prefetch.global.L2 [%d1]; bar.warp.sync 0xffffffff;";
    char text[4096];
    uint32_t in[64] = {0}, out[64];
    (void)state;
    make_program(text, sizeof text, code);
    CUmodule module = pt_load(text);
    CUdeviceptr d_in = pt_upload(in, sizeof in), d_out = pt_upload(NULL, sizeof out);
    pt_dim_t grid = {1, 3, 1}, block = {64, 1, 1};
    void *params[] = {&d_in, &d_out, &d_in};
    pt_launch(pt_function(module, "k"), grid, block, 0, params);
    pt_download(out, d_out, sizeof out);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(out[i], 3 + 32 + 15000);
    pt_free(d_in);
    pt_free(d_out);
    pt_unload(module);
}

/* ---- branches on equality with what steps from lane to lane ---- */

typedef struct {
    const char *step; /* sets %d7 to what steps, %d8 to what it is compared with (from %d6) */
    const char *branch;
    int32_t stride;
    bool wide;
} equal_t;

static const equal_t equals[] = {
    {"cvt.u64.u32 %d7, %r1; mov.u64 %d8, %d6;", "setp.eq.s64 %p1, %d7, %d8; @%p1 bra Equal;", 1, 1},
    {"cvt.u32.u64 %r5, %d6;", "setp.eq.s32 %p1, %r1, %r5; @%p1 bra Equal;", 1, 0},
    {"cvt.u32.u64 %r5, %d6;", "setp.ne.b32 %p1, %r5, %r1; @!%p1 bra Equal;", 1, 0},
    {"cvt.u32.u64 %r5, %d6; mul.lo.s32 %r6, %r1, -3;",
     "setp.ne.u32 %p1, %r6, %r5; not.pred %p2, %p1; @%p2 bra Equal;", -3, 0},
    {"cvt.u32.u64 %r5, %d6; mad.lo.s32 %r6, %r1, 5, 0;",
     "setp.eq.u32 %p1, %r5, %r6; @%p1 bra Equal;", 5, 0},
    {"cvt.u32.u64 %r5, %d6; shl.b32 %r6, %r1, 30;", "setp.eq.b32 %p1, %r5, %r6; @%p1 bra Equal;",
     1 << 30, 0},
};

static void test_equality(void **state)
{
    static const int64_t limits[] = {0,       1,        7,          31,        32,        33,
                                     127,     128,      -1,         -3,        -96,       -5,
                                     1 << 30, 3u << 30, 0x1fffffff, INT32_MIN, 635,       64,
                                     100,     384,      UINT32_MAX, 1ll << 32, INT64_MIN, -381};
    static const pt_dim_t blocks[] = {{128, 1, 1}, {100, 1, 1}, {8, 1, 1}};
    (void)state;
    for (size_t c = 0; c < sizeof equals / sizeof equals[0]; c++) {
        char text[2048];
        const equal_t *e = &equals[c];
        snprintf(text, sizeof text,
                 ".version 7.0\n.target sm_70\n.address_size 64\n"
                 ".visible .entry k(.param .u64 out, .param .u64 n)\n{\n"
                 ".reg .b32 %%r<20>; .reg .b64 %%d<12>; .reg .pred %%p<8>;\n"
                 "ld.param.u64 %%d1, [out]; ld.param.u64 %%d6, [n]; mov.u32 %%r1, %%tid.x;\n"
                 "mul.wide.u32 %%d2, %%r1, 4; add.s64 %%d1, %%d1, %%d2; mov.u32 %%r9, 5;\n%s\n%s\n"
                 "mul.lo.s32 %%r9, %%r1, 7; bra.uni Out;\nEqual: add.s32 %%r9, %%r1, 1000;\n"
                 "Out: st.global.u32 [%%d1], %%r9; ret;\n}\n",
                 e->step, e->branch);
        CUmodule module = pt_load(text);
        for (size_t k = 0; k < sizeof limits / sizeof limits[0] * 3; k++) {
            uint32_t out[128];
            pt_dim_t one = {1, 1, 1}, block = blocks[k % 3];
            int64_t limit = limits[k / 3];
            CUdeviceptr d_out = pt_upload(NULL, sizeof out);
            void *params[] = {&d_out, &limit};
            pt_launch(pt_function(module, "k"), one, block, 0, params);
            pt_download(out, d_out, sizeof out);
            for (uint32_t i = 0; i < block.x; i++) {
                bool equal =
                    e->wide ? (int64_t)i == limit : i * (uint32_t)e->stride == (uint32_t)limit;
                if (out[i] != (equal ? i + 1000 : i * 7))
                    fail_msg("case %zu, limit %lld: thread %u has %u", c, (long long)limit, i,
                             out[i]);
            }
            pt_free(d_out);
        }
        pt_unload(module);
    }
}

/* ---- parameters that are read late, by some of the lanes only, and behind barriers ---- */

static void test_late_parameters(void **state)
{
    static const char text[] =
        ".version 7.0\n.target sm_70\n.address_size 64\n"
        ".visible .entry k(.param .u64 out, .param .u32 a, .param .f32 b, .param .u32 rounds,\n"
        ".param .u16 c)\n{\n"
        ".reg .b16 %h<4>; .reg .b32 %r<20>; .reg .b64 %d<12>; .reg .f32 %f<4>; .reg .pred %p<8>;\n"
        ".shared .align 4 .b8 s[512];\n"
        "mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 3; setp.eq.u32 %p1, %r2, 1; mov.u32 %r9, %r1;\n"
        "mov.u32 %r8, 0; mov.u64 %d2, s; mul.wide.u32 %d3, %r1, 4; add.s64 %d2, %d2, %d3;\n"
        "@%p1 bra Some;\nld.param.f32 %f1, [b]; cvt.rzi.u32.f32 %r3, %f1;\n"
        "add.u32 %r9, %r9, %r3; bra.uni Join;\n"
        "Some: ld.param.u32 %r4, [a]; mad.lo.u32 %r9, %r4, 3, %r9;\n"
        "Join: ld.param.u32 %r5, [rounds]; ld.param.u16 %h1, [c]; cvt.u32.u16 %r7, %h1;\n"
        "Again: st.shared.u32 [%d2], %r9; bar.sync 0;\n"
        "xor.b32 %r6, %r1, 1; mul.wide.u32 %d4, %r6, 4; mov.u64 %d5, s; add.s64 %d4, %d5, %d4;\n"
        "ld.shared.u32 %r10, [%d4]; bar.sync 0; mad.lo.u32 %r9, %r10, 5, %r7;\n"
        "@%p1 add.u32 %r9, %r9, %r4; add.u32 %r8, %r8, 1; setp.lt.u32 %p2, %r8, %r5;\n"
        "@%p2 bra Again;\n@!%p1 add.u32 %r9, %r9, %r3;\n"
        "ld.param.u64 %d1, [out]; add.s64 %d6, %d1, %d3; st.global.u32 [%d6], %r9; ret;\n}\n";
    enum { THREADS = 128 };
    uint32_t out[THREADS], now[THREADS], next[THREADS], a = 77, rounds = 3;
    uint16_t c = 40000;
    float b = 1234.5f;
    (void)state;
    CUmodule module = pt_load(text);
    CUdeviceptr d_out = pt_upload(NULL, sizeof out);
    void *params[] = {&d_out, &a, &b, &rounds, &c};
    pt_launch(pt_function(module, "k"), (pt_dim_t){1, 1, 1}, (pt_dim_t){THREADS, 1, 1}, 0, params);
    pt_download(out, d_out, sizeof out);
    for (uint32_t i = 0; i < THREADS; i++)
        now[i] = i + ((i & 3) == 1 ? 3 * a : 1234);
    for (uint32_t k = 0; k < rounds; k++) {
        for (uint32_t i = 0; i < THREADS; i++)
            next[i] = now[i ^ 1] * 5 + c + ((i & 3) == 1 ? a : 0);
        memcpy(now, next, sizeof now);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        assert_int_equal(out[i], now[i] + ((i & 3) == 1 ? 0 : 1234));
    pt_free(d_out);
    pt_unload(module);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),          cmocka_unit_test(test_many_parts),
        cmocka_unit_test(test_named_barriers), cmocka_unit_test(test_special),
        cmocka_unit_test(test_equality),       cmocka_unit_test(test_late_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
