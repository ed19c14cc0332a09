/* Warp instructions, barriers that count, and atomics, with all lanes and with some of them. */
#include "tests/ptx/pt_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD ".version 7.0\n.target sm_80\n.address_size 64\n"

enum { THREADS = 96, WARPS = THREADS / 32 };

/* Runs `code`, which computes %r9 and %r8 from %r1 (tid), %r2 (lane) and %r3 (its input), in the
 * lanes whose bit is set in `lanes`; other lanes leave their two results alone. */
static void run(const char *code, uint32_t lanes, const uint32_t *in, uint32_t (*out)[2],
                unsigned threads)
{
    char text[4096];
    snprintf(text, sizeof text,
             HEAD
             ".visible .entry k(.param .u64 in, .param .u64 out, .param .u32 lanes)\n{\n"
             ".reg .b32 %%r<20>; .reg .b64 %%d<10>; .reg .pred %%p<8>;\n"
             "ld.param.u64 %%d1, [in]; ld.param.u64 %%d2, [out]; ld.param.u32 %%r5, [lanes];\n"
             "mov.u32 %%r1, %%tid.x; mov.u32 %%r2, %%laneid; mul.wide.u32 %%d3, %%r1, 4;\n"
             "add.s64 %%d1, %%d1, %%d3; ld.global.u32 %%r3, [%%d1]; mul.wide.u32 %%d3, %%r1, 8;\n"
             "add.s64 %%d2, %%d2, %%d3; shr.u32 %%r6, %%r5, %%r2; and.b32 %%r6, %%r6, 1;\n"
             "setp.eq.u32 %%p7, %%r6, 0; mov.u32 %%r8, 0; @%%p7 bra Done;\n%s\n"
             "st.global.v2.u32 [%%d2], {%%r9, %%r8};\nDone: ret;\n}\n",
             code);
    CUmodule module = pt_load(text);
    CUdeviceptr d_in = pt_upload(in, threads * 4), d_out = pt_upload(NULL, threads * 8);
    void *params[] = {&d_in, &d_out, &lanes};
    pt_dim_t one = {1, 1, 1}, block = {threads, 1, 1};
    pt_launch(pt_function(module, "k"), one, block, 0, params);
    pt_download(out, d_out, threads * 8);
    pt_free(d_in);
    pt_free(d_out);
    pt_unload(module);
}

static void fill(uint32_t *in, unsigned n, uint32_t limit)
{
    uint32_t seed = 77;
    for (unsigned i = 0; i < n; i++)
        in[i] = limit ? pt_random(&seed) % limit : pt_random(&seed);
}

/* The source lane of shfl, and whether it is within bounds, by the manual's pseudo-code. */
static unsigned source_lane(const char *mode, unsigned lane, unsigned b, unsigned c,
                            uint32_t *inside)
{
    unsigned clamp = c & 31, segment = c >> 8 & 31;
    int max = (int)((lane & segment) | (clamp & ~segment)), min = (int)(lane & segment);
    int j = 0, ok = 0;
    b &= 31;
    if (strcmp(mode, "up") == 0) {
        j = (int)lane - (int)b;
        ok = j >= max;
    } else if (strcmp(mode, "down") == 0) {
        j = (int)(lane + b);
        ok = j <= max;
    } else if (strcmp(mode, "bfly") == 0) {
        j = (int)(lane ^ b);
        ok = j <= max;
    } else {
        j = min | (int)(b & ~segment);
        ok = j <= max;
    }
    *inside = ok != 0;
    return ok ? (unsigned)j : lane;
}

static void check_shuffle(const char *mode, unsigned width, const char *b_code, unsigned b_kind)
{
    uint32_t in[THREADS], out[THREADS][2];
    char code[512];
    unsigned c = (32 - width) << 8 | (strcmp(mode, "up") == 0 ? 0 : 31);
    fill(in, THREADS, 0);
    snprintf(
        code, sizeof code,
        "%s\nshfl.sync.%s.b32 %%r9|%%p1, %%r3, %%r7, %u, 0xffffffff;\nselp.u32 %%r8, 1, 0, %%p1;",
        b_code, mode, c);
    run(code, 0xffffffff, in, out, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        unsigned lane = i % 32, b = b_kind == 100 ? (lane * 7 + 3) & 31 : b_kind;
        uint32_t inside;
        unsigned from = source_lane(mode, lane, b, c, &inside);
        if (out[i][0] != in[i - lane + from] || out[i][1] != inside)
            fail_msg("shfl.%s width %u, b %u: thread %u gets %x %u, must be %x %u", mode, width, b,
                     i, out[i][0], out[i][1], in[i - lane + from], inside);
    }
}

static void test_shuffles(void **state)
{
    static const char *const modes[] = {"up", "down", "bfly", "idx"};
    static const unsigned widths[] = {32, 16, 8, 4, 1}, deltas[] = {0, 1, 5, 16, 31};
    (void)state;
    for (unsigned m = 0; m < 4; m++) {
        for (unsigned w = 0; w < 5; w++) {
            char code[64];
            snprintf(code, sizeof code, "mov.u32 %%r7, %u;", deltas[w]);
            check_shuffle(modes[m], widths[w], code, deltas[w]);
        }
        /* A lane-dependent source. */
        check_shuffle(modes[m], 32, "mad.lo.s32 %r7, %r2, 7, 3; and.b32 %r7, %r7, 31;", 100);
        check_shuffle(modes[m], 8, "mad.lo.s32 %r7, %r2, 7, 3; and.b32 %r7, %r7, 31;", 100);
    }
}

static void test_partial_shuffle(void **state)
{
    uint32_t in[40], out[40][2];
    (void)state;
    fill(in, 40, 0);
    /* The second warp has eight lanes; the first runs with half of its own. */
    run("shfl.sync.bfly.b32 %r9|%p1, %r3, 3, 31, 0x0000ffff;\nselp.u32 %r8, 1, 0, %p1;", 0xffff, in,
        out, 32);
    for (unsigned i = 0; i < 32; i++)
        assert_int_equal(out[i][0], i < 16 ? in[i ^ 3] : 0);
    run("setp.ge.u32 %p2, %r1, 32; mov.u32 %r9, 5; @!%p2 bra Skip;\n"
        "shfl.sync.idx.b32 %r9, %r3, 6, 31, 0x000000ff;\nSkip:",
        0xffffffff, in, out, 40);
    for (unsigned i = 0; i < 40; i++)
        assert_int_equal(out[i][0], i < 32 ? 5 : in[38]);
}

static uint32_t ballot(const uint32_t *in, unsigned warp, uint32_t lanes)
{
    uint32_t bits = 0;
    for (unsigned l = 0; l < 32; l++)
        bits |= (in[32 * warp + l] & 1) << l;
    return bits & lanes;
}

static void test_votes(void **state)
{
    static const uint32_t masks[] = {0xffffffff, 0x0000ffff, 0x80000001, 0x55555555};
    uint32_t in[THREADS], out[THREADS][2];
    (void)state;
    fill(in, THREADS, 0);
    for (unsigned i = 32; i < 64; i++)
        in[i] |= 1; /* a warp where all agree */
    for (unsigned m = 0; m < 4; m++) {
        uint32_t lanes = masks[m];
        run("and.b32 %r7, %r3, 1; setp.ne.u32 %p1, %r7, 0;\n"
            "vote.sync.ballot.b32 %r9, %p1, %r5;\n"
            "vote.sync.all.pred %p2, %p1, %r5; vote.sync.any.pred %p3, %p1, %r5;\n"
            "vote.sync.uni.pred %p4, %p1, %r5; vote.sync.any.pred %p5, !%p1, %r5;\n"
            "selp.u32 %r10, 1, 0, %p2; selp.u32 %r11, 2, 0, %p3; selp.u32 %r12, 4, 0, %p4;\n"
            "selp.u32 %r13, 8, 0, %p5; add.s32 %r8, %r10, %r11; add.s32 %r8, %r8, %r12;\n"
            "add.s32 %r8, %r8, %r13;",
            lanes, in, out, THREADS);
        for (unsigned i = 0; i < THREADS; i++) {
            uint32_t bits = ballot(in, i / 32, lanes);
            uint32_t flags = (bits == lanes ? 1 : 0) | (bits ? 2 : 0) |
                             (bits == 0 || bits == lanes ? 4 : 0) | (bits != lanes ? 8 : 0);
            bool runs = lanes >> (i % 32) & 1;
            assert_int_equal(out[i][0], runs ? bits : 0);
            assert_int_equal(out[i][1], runs ? flags : 0);
        }
    }
}

static void test_match(void **state)
{
    uint32_t in[THREADS], out[THREADS][2];
    (void)state;
    fill(in, THREADS, 5);
    for (unsigned i = 64; i < THREADS; i++)
        in[i] = 9;
    run("match.any.sync.b32 %r9, %r3, 0xffffffff;\n"
        "match.all.sync.b32 %r8|%p1, %r3, 0xffffffff;\n@%p1 add.s32 %r8, %r8, 1;",
        0xffffffff, in, out, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        uint32_t same = 0;
        for (unsigned l = 0; l < 32; l++)
            same |= (uint32_t)(in[i / 32 * 32 + l] == in[i]) << l;
        assert_int_equal(out[i][0], same);
        assert_int_equal(out[i][1], 0); /* all ones and 1, or none and 0 */
    }
}

static void test_lanes(void **state)
{
    uint32_t in[THREADS], out[THREADS][2];
    (void)state;
    fill(in, THREADS, 100);
    run("activemask.b32 %r9; mov.u32 %r8, %lanemask_lt;", 0x0ff000f0, in, out, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        bool runs = 0x0ff000f0 >> (i % 32) & 1;
        assert_int_equal(out[i][0], runs ? 0x0ff000f0 : 0);
        assert_int_equal(out[i][1], runs ? (1u << (i % 32)) - 1 : 0);
    }
    run("redux.sync.add.s32 %r9, %r3, 0xffffffff; redux.sync.max.u32 %r8, %r3, 0xffffffff;",
        0xffffffff, in, out, THREADS);
    for (unsigned w = 0; w < WARPS; w++) {
        uint32_t sum = 0, max = 0;
        for (unsigned l = 0; l < 32; l++) {
            sum += in[32 * w + l];
            max = in[32 * w + l] > max ? in[32 * w + l] : max;
        }
        for (unsigned l = 0; l < 32; l++) {
            assert_int_equal(out[32 * w + l][0], sum);
            assert_int_equal(out[32 * w + l][1], max);
        }
    }
}

/* ---- several sets of members in one warp: each lane names the lanes with its own label ---- */

typedef struct {
    uint32_t members, sum, min, votes, same, first;
} set_t;

/* What the lanes of thread i's warp that have its label (in % 3), of those in `lanes`, find out. */
static set_t expect_set(const uint32_t *in, unsigned i, uint32_t lanes)
{
    set_t s = {.min = UINT32_MAX};
    bool all = true, any = false, same = true;
    for (unsigned l = 32; l-- > 0;) {
        uint32_t v = in[i / 32 * 32 + l];
        if (v % 3 != in[i] % 3 || !(lanes >> l & 1))
            continue;
        s.members |= 1u << l;
        s.sum += v;
        s.min = v < s.min ? v : s.min;
        s.first = l;
        all &= v & 1;
        any |= v & 1;
        same &= v == in[i];
    }
    s.votes = (all ? 1 : 0) | (any ? 2 : 0) | (all || !any ? 4 : 0);
    s.same = same ? s.members + 1 : 0;
    return s;
}

#define LABEL "rem.u32 %r7, %r3, 3; match.any.sync.b32 %r4, %r7, %r5;\n"
#define ODD "and.b32 %r7, %r3, 1; setp.ne.u32 %p1, %r7, 0;\n"

static void check_sets(const uint32_t *in, uint32_t lanes)
{
    uint32_t out[THREADS][2], odd[THREADS][2], same[THREADS][2], first[THREADS][2];
    run(LABEL "redux.sync.add.s32 %r9, %r3, %r4; redux.sync.min.u32 %r8, %r3, %r4;", lanes, in, out,
        THREADS);
    run(LABEL ODD "vote.sync.ballot.b32 %r9, %p1, %r4; vote.sync.all.pred %p2, %p1, %r4;\n"
                  "vote.sync.any.pred %p3, %p1, %r4; vote.sync.uni.pred %p4, %p1, %r4;\n"
                  "selp.u32 %r10, 1, 0, %p2; selp.u32 %r11, 2, 0, %p3; selp.u32 %r12, 4, 0, %p4;\n"
                  "add.s32 %r8, %r10, %r11; add.s32 %r8, %r8, %r12;",
        lanes, in, odd, THREADS);
    run(LABEL "match.all.sync.b32 %r8|%p1, %r3, %r4;\n@%p1 add.s32 %r8, %r8, 1;\n"
              "shr.u32 %r10, %r3, 2; match.any.sync.b32 %r9, %r10, %r4;",
        lanes, in, same, THREADS);
    run(LABEL "elect.sync %r9|%p1, %r4; selp.u32 %r8, 1, 0, %p1;", lanes, in, first, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        set_t want = expect_set(in, i, lanes);
        uint32_t odds = 0, quarter = 0;
        if (!(lanes >> (i % 32) & 1))
            continue;
        for (unsigned l = 0; l < 32; l++) {
            odds |= (in[i / 32 * 32 + l] & 1) << l;
            quarter |= (uint32_t)(in[i / 32 * 32 + l] / 4 == in[i] / 4) << l;
        }
        assert_int_equal(out[i][0], want.sum);
        assert_int_equal(out[i][1], want.min);
        assert_int_equal(odd[i][0], odds & want.members);
        assert_int_equal(odd[i][1], want.votes);
        assert_int_equal(same[i][0], quarter & want.members);
        assert_int_equal(same[i][1], want.same);
        assert_int_equal(first[i][0], want.first);
        assert_int_equal(first[i][1], want.first == i % 32);
    }
}

static void test_sets(void **state)
{
    uint32_t in[THREADS];
    (void)state;
    fill(in, THREADS, 40);
    for (unsigned i = 32; i < 64; i++)
        in[i] = i % 3; /* sets in which all bring the same */
    check_sets(in, 0xffffffff);
    check_sets(in, 0x7ff000f3);
}

/* ---- atomics ---- */

typedef struct {
    const char *op, *type;
    uint64_t start;
    uint64_t (*apply)(uint64_t old, uint64_t v);
    bool wide, is_float;
} atomic_t;

static uint64_t do_add(uint64_t old, uint64_t v)
{
    return old + v;
}

static uint64_t do_and(uint64_t old, uint64_t v)
{
    return old & (v | 0xffffff00);
}

static uint64_t do_or(uint64_t old, uint64_t v)
{
    return old | v;
}

static uint64_t do_xor(uint64_t old, uint64_t v)
{
    return old ^ v;
}

static uint64_t do_min_s32(uint64_t old, uint64_t v)
{
    return (int32_t)v < (int32_t)old ? v : old;
}

static uint64_t do_max_s32(uint64_t old, uint64_t v)
{
    return (int32_t)v > (int32_t)old ? v : old;
}

static uint64_t do_min_u32(uint64_t old, uint64_t v)
{
    return (uint32_t)v < (uint32_t)old ? v : old;
}

static uint64_t do_max_u64(uint64_t old, uint64_t v)
{
    return v > old ? v : old;
}

static uint64_t do_inc(uint64_t old, uint64_t v)
{
    return (uint32_t)old >= (uint32_t)v ? 0 : old + 1;
}

static uint64_t do_dec(uint64_t old, uint64_t v)
{
    return (uint32_t)old == 0 || (uint32_t)old > (uint32_t)v ? v : old - 1;
}

static uint64_t do_fadd(uint64_t old, uint64_t v)
{
    uint32_t a = (uint32_t)old, b = (uint32_t)v;
    float x, y;
    memcpy(&x, &a, 4);
    memcpy(&y, &b, 4);
    x += y;
    memcpy(&a, &x, 4);
    return a;
}

static uint64_t do_dadd(uint64_t old, uint64_t v)
{
    double x, y;
    memcpy(&x, &old, 8);
    memcpy(&y, &v, 8);
    x += y;
    memcpy(&old, &x, 8);
    return old;
}

/* Operations whose end does not depend on the order: inc and dec get the same bound everywhere. */
static const atomic_t atomics[] = {
    {"add", "u32", 5, do_add, false, false},
    {"add", "s32", 5, do_add, false, false},
    {"add", "u64", 1ull << 40, do_add, true, false},
    {"and", "b32", 0xffffffff, do_and, false, false},
    {"or", "b32", 0, do_or, false, false},
    {"or", "b64", 0, do_or, true, false},
    {"xor", "b32", 1, do_xor, false, false},
    {"min", "s32", 7, do_min_s32, false, false},
    {"max", "s32", (uint32_t)-50, do_max_s32, false, false},
    {"min", "u32", 0xffffffff, do_min_u32, false, false},
    {"max", "u64", 3, do_max_u64, true, false},
    {"inc", "u32", 3, do_inc, false, false},
    {"dec", "u32", 3, do_dec, false, false},
    {"add", "f32", 0, do_fadd, false, true},
    {"add", "f64", 0, do_dadd, true, true},
};

/* The operand of thread i: small whole numbers, also as floats, so that sums are exact. */
static uint64_t operand(const atomic_t *a, unsigned i)
{
    uint64_t v = i * 5 % 23;
    if (a->is_float) {
        double d = (double)v;
        float f = (float)v;
        uint32_t bits;
        memcpy(&v, &d, 8);
        memcpy(&bits, &f, 4);
        return a->wide ? v : bits;
    }
    return a->apply == do_inc || a->apply == do_dec ? 10 : a->apply == do_and ? v | 0xffffff00 : v;
}

static void check_atomic(const atomic_t *a, const char *space, bool red)
{
    char text[4096], code[256];
    const char *reg = a->is_float ? (a->wide ? "%g" : "%f") : a->wide ? "%d" : "%r";
    const char *move = a->is_float ? (a->wide ? "mov.b64 %g8, %d8;" : "mov.b32 %f8, %r8;") : "";
    unsigned bytes = a->wide ? 8 : 4, threads = 75;
    bool shared = strcmp(space, ".shared") == 0;
    snprintf(code, sizeof code, red ? "red%s.%s.%s [%%d4], %s8;" : "atom%s.%s.%s %s9, [%%d4], %s8;",
             space, a->op, a->type, reg, reg);
    snprintf(text, sizeof text,
             HEAD ".visible .entry k(.param .u64 in, .param .u64 cell, .param .u32 skip)\n{\n"
                  ".reg .b32 %%r<12>; .reg .b64 %%d<12>; .reg .f32 %%f<12>; .reg .f64 %%g<12>;\n"
                  ".reg .pred %%p<4>; .shared .align 8 .b8 s[8];\n"
                  "ld.param.u64 %%d1, [in]; ld.param.u64 %%d3, [cell]; ld.param.u32 %%r3, [skip];\n"
                  "mov.u32 %%r1, %%tid.x; mul.wide.u32 %%d2, %%r1, 8; add.s64 %%d1, %%d1, %%d2;\n"
                  "ld.global.u64 %%d8, [%%d1]; cvt.u32.u64 %%r8, %%d8; %s\n"
                  "setp.ne.u32 %%p1, %%r1, 0; mov.u64 %%d4, %s; @%%p1 bra Ready;\n"
                  "ld.global.b%u %%%c10, [%%d3]; st%s.b%u [%%d4], %%%c10;\n"
                  "Ready: bar.sync 0; rem.u32 %%r4, %%r1, 3; setp.eq.u32 %%p2, %%r4, %%r3;\n"
                  "@%%p2 bra Over;\n%s\nOver: bar.sync 0; @%%p1 bra Done;\n"
                  "ld%s.b%u %%%c10, [%%d4]; st.global.b%u [%%d3], %%%c10;\nDone: ret;\n}\n",
             move, shared ? "s" : "%d3", bytes * 8, a->wide ? 'd' : 'r', space, bytes * 8,
             a->wide ? 'd' : 'r', code, space, bytes * 8, a->wide ? 'd' : 'r', bytes * 8,
             a->wide ? 'd' : 'r');
    uint64_t in[75], want = a->start, got = 0;
    uint32_t leave_out = 1;
    for (unsigned i = 0; i < threads; i++) {
        in[i] = operand(a, i);
        if (i % 3 != leave_out)
            want = a->apply(want, in[i]);
    }
    CUmodule module = pt_load(text);
    CUdeviceptr d_in = pt_upload(in, sizeof in), cell = pt_upload(&a->start, 8);
    void *params[] = {&d_in, &cell, &leave_out};
    pt_dim_t one = {1, 1, 1}, block = {threads, 1, 1};
    pt_launch(pt_function(module, "k"), one, block, 0, params);
    pt_download(&got, cell, bytes);
    if (!a->wide)
        want = (uint32_t)want;
    if (got != want)
        fail_msg("%s%s.%s.%s gives %llx, must be %llx", red ? "red" : "atom", space, a->op, a->type,
                 (unsigned long long)got, (unsigned long long)want);
    pt_free(d_in);
    pt_free(cell);
    pt_unload(module);
}

static void test_atomics(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof atomics / sizeof atomics[0]; i++) {
        check_atomic(&atomics[i], ".global", false);
        check_atomic(&atomics[i], ".shared", false);
        check_atomic(&atomics[i], ".global", true);
        check_atomic(&atomics[i], "", i % 2 == 0);
    }
}

/* Old values: each ticket is given out once; exchanges and compare-and-swaps form one chain. */
static void test_old_values(void **state)
{
    static const char text[] =
        HEAD ".visible .entry k(.param .u64 cells, .param .u64 out)\n{\n"
             ".reg .b32 %r<12>; .reg .b64 %d<8>; .reg .pred %p<4>;\n"
             "ld.param.u64 %d1, [cells]; ld.param.u64 %d2, [out]; mov.u32 %r1, %tid.x;\n"
             "mov.u32 %r6, %ctaid.x; mov.u32 %r7, %ntid.x; mad.lo.s32 %r1, %r6, %r7, %r1;\n"
             "mul.wide.u32 %d3, %r1, 8; add.s64 %d2, %d2, %d3; add.s32 %r2, %r1, 1;\n"
             "atom.global.add.u32 %r3, [%d1], 1; atom.global.exch.b32 %r4, [%d1+4], %r2;\n"
             "st.global.v2.u32 [%d2], {%r3, %r4};\n"
             "Again: ld.volatile.global.u32 %r8, [%d1+8]; add.s32 %r9, %r8, %r2;\n"
             "atom.global.cas.b32 %r10, [%d1+8], %r8, %r9; setp.ne.u32 %p1, %r10, %r8;\n"
             "@%p1 bra Again; ret;\n}\n";
    enum { N = 150 };
    uint32_t cells[3] = {0}, out[N][2], seen[N] = {0}, given[N + 1] = {0};
    (void)state;
    CUmodule module = pt_load(text);
    CUdeviceptr d_cells = pt_upload(cells, sizeof cells), d_out = pt_upload(NULL, sizeof out);
    void *params[] = {&d_cells, &d_out};
    pt_dim_t grid = {2, 1, 1}, block = {75, 1, 1};
    pt_launch(pt_function(module, "k"), grid, block, 0, params);
    pt_download(cells, d_cells, sizeof cells);
    pt_download(out, d_out, sizeof out);
    assert_int_equal(cells[0], N);
    assert_int_equal(cells[2], N * (N + 1) / 2);
    for (unsigned i = 0; i < N; i++) {
        assert_in_range(out[i][0], 0, N - 1);
        assert_int_equal(seen[out[i][0]]++, 0);
        assert_in_range(out[i][1], 0, N);
        assert_int_equal(given[out[i][1]]++, 0);
    }
    assert_int_equal(given[cells[1]], 0); /* the last one put in was given to nobody */
    pt_free(d_cells);
    pt_free(d_out);
    pt_unload(module);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shuffles), cmocka_unit_test(test_partial_shuffle),
        cmocka_unit_test(test_votes),    cmocka_unit_test(test_match),
        cmocka_unit_test(test_lanes),    cmocka_unit_test(test_sets),
        cmocka_unit_test(test_atomics),  cmocka_unit_test(test_old_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
