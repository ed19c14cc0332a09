/* cp.async, cp.async.bulk and mbarrier, as the PTX ISA's sections on asynchronous copies and on
 * mbarrier say. */
#include "tests/ptx/pt_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD ".version 8.6\n.target sm_90\n.address_size 64\n"

enum { THREADS = 75 };

static const pt_dim_t one = {1, 1, 1}, block = {THREADS, 1, 1};

/* Loads `text`, runs its kernel k(in, out) and gives what it leaves in `out`. */
static void run(const char *text, pt_dim_t threads, const void *in, size_t in_bytes, void *out,
                size_t out_bytes)
{
    CUmodule module = pt_load(text);
    CUdeviceptr d_in = pt_upload(in, in_bytes), d_out = pt_upload(out, out_bytes);
    void *params[] = {&d_in, &d_out};
    pt_launch(pt_function(module, "k"), one, threads, 0, params);
    pt_download(out, d_out, out_bytes);
    pt_free(d_in);
    pt_free(d_out);
    pt_unload(module);
}

/* ---- cp.async ---- */

/* Every thread copies 16 bytes, in pieces of `bytes`, through shared memory that holds 0xee. %r7 is
 * tid modulo (bytes + 1), %p1 whether tid is odd; threads whose tid modulo 5 is 2 copy nothing. */
static void check_copy(const char *copy, unsigned bytes, bool sized, bool ignored)
{
    char text[4096], piece[512] = "";
    for (unsigned at = 0; at < 16; at += bytes) {
        char one_piece[128];
        snprintf(one_piece, sizeof one_piece, copy, at, at);
        strcat(piece, one_piece);
    }
    snprintf(text, sizeof text,
             HEAD
             ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
             ".reg .b32 %%r<12>; .reg .b64 %%d<12>; .reg .pred %%p<4>;\n"
             ".shared .align 16 .b8 s[%d];\n"
             "ld.param.u64 %%d1, [in]; ld.param.u64 %%d2, [out]; mov.u32 %%r1, %%tid.x;\n"
             "mul.wide.u32 %%d3, %%r1, 16; add.s64 %%d1, %%d1, %%d3; add.s64 %%d2, %%d2, %%d3;\n"
             "mov.u32 %%r2, s; mad.lo.u32 %%r2, %%r1, 16, %%r2; mov.u32 %%r3, 0xeeeeeeee;\n"
             "st.shared.v4.u32 [%%r2], {%%r3, %%r3, %%r3, %%r3}; rem.u32 %%r7, %%r1, %u;\n"
             "and.b32 %%r4, %%r1, 1; setp.ne.u32 %%p1, %%r4, 0; mov.b64 %%d4, 7;\n"
             "rem.u32 %%r5, %%r1, 5; setp.eq.u32 %%p2, %%r5, 2; @%%p2 bra Over;\n"
             "%s"
             "Over: cp.async.commit_group; cp.async.wait_group 0; cp.async.wait_all;\n"
             "ld.shared.v4.u32 {%%r3, %%r4, %%r5, %%r6}, [%%r2];\n"
             "st.global.v4.u32 [%%d2], {%%r3, %%r4, %%r5, %%r6}; ret;\n}\n",
             THREADS * 16, bytes + 1, piece);
    uint8_t in[THREADS][16], out[THREADS][16];
    for (unsigned i = 0; i < THREADS * 16; i++)
        in[i / 16][i % 16] = (uint8_t)(i * 11 + 1);
    run(text, block, in, sizeof in, out, sizeof out);
    for (unsigned i = 0; i < THREADS; i++) {
        for (unsigned k = 0; k < 16; k++) {
            unsigned taken = ignored && i % 2 ? 0 : sized ? i % (bytes + 1) : bytes;
            unsigned want = i % 5 == 2 ? 0xee : k % bytes < taken ? in[i][k] : 0;
            if (out[i][k] != want)
                fail_msg("%s: thread %u, byte %u: %x, must be %x", copy, i, k, out[i][k], want);
        }
    }
}

static void test_copies(void **state)
{
    (void)state;
    check_copy("cp.async.ca.shared.global [%%r2+%u], [%%d1+%u], 4;\n", 4, false, false);
    check_copy("cp.async.ca.shared::cta.global [%%r2+%u], [%%d1+%u], 8;\n", 8, false, false);
    check_copy("cp.async.ca.shared.global.L2::128B [%%r2+%u], [%%d1+%u], 16;\n", 16, false, false);
    check_copy("cp.async.cg.shared.global [%%r2+%u], [%%d1+%u], 16;\n", 16, false, false);
    check_copy("cp.async.ca.shared.global [%%r2+%u], [%%d1+%u], 4, %%r7;\n", 4, true, false);
    check_copy("cp.async.ca.shared.global.L2::256B [%%r2+%u], [%%d1+%u], 8, %%r7;\n", 8, true,
               false);
    check_copy("cp.async.cg.shared.global [%%r2+%u], [%%d1+%u], 16, %%r7;\n", 16, true, false);
    check_copy("cp.async.cg.shared.global.L2::cache_hint [%%r2+%u], [%%d1+%u], 16, %%r7, %%d4;\n",
               16, true, false);
    check_copy("cp.async.ca.shared.global.L2::cache_hint [%%r2+%u], [%%d1+%u], 4, %%d4;\n", 4,
               false, false);
    check_copy("cp.async.ca.shared.global [%%r2+%u], [%%d1+%u], 8, %%p1;\n", 8, false, true);
    check_copy("cp.async.cg.shared.global [%%r2+%u], [%%d1+%u], 16, %%p1;\n", 16, false, true);
}

/* Two stages: while one is used the next is on its way; neighbours read each other's elements. */
static void test_pipeline(void **state)
{
    enum { STEPS = 6 };
    static const char text[] = HEAD
        ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
        ".reg .b32 %r<20>; .reg .b64 %d<12>; .reg .pred %p<4>; .shared .align 16 .b8 s[600];\n"
        "ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out]; mov.u32 %r1, %tid.x;\n"
        "mul.wide.u32 %d3, %r1, 4; add.s64 %d1, %d1, %d3; add.s64 %d2, %d2, %d3;\n"
        "mov.u32 %r2, s; mad.lo.u32 %r3, %r1, 4, %r2; xor.b32 %r4, %r1, 1; min.u32 %r4, %r4, 74;\n"
        "mad.lo.u32 %r5, %r4, 4, %r2; mov.u32 %r6, 0; mov.u32 %r7, 0; mov.u32 %r8, 0;\n"
        "cp.async.ca.shared.global [%r3], [%d1], 4; cp.async.commit_group;\n"
        "Loop: add.s32 %r9, %r6, 1; setp.ge.u32 %p1, %r9, 6; @%p1 bra Last;\n"
        "add.s64 %d1, %d1, 300; xor.b32 %r10, %r7, 300; add.s32 %r11, %r3, %r10;\n"
        "cp.async.ca.shared.global [%r11], [%d1], 4;\n"
        "Last: cp.async.commit_group; cp.async.wait_group 1; bar.sync 0;\n"
        "add.s32 %r12, %r5, %r7; ld.shared.u32 %r13, [%r12]; mul.lo.u32 %r8, %r8, 3;\n"
        "add.s32 %r8, %r8, %r13; bar.sync 0; xor.b32 %r7, %r7, 300; mov.u32 %r6, %r9;\n"
        "setp.lt.u32 %p2, %r6, 6; @%p2 bra Loop; st.global.u32 [%d2], %r8; ret;\n}\n";
    (void)state;
    uint32_t in[STEPS][THREADS], out[THREADS], seed = 9;
    for (unsigned i = 0; i < STEPS * THREADS; i++)
        in[i / THREADS][i % THREADS] = pt_random(&seed);
    run(text, block, in, sizeof in, out, sizeof out);
    for (unsigned i = 0; i < THREADS; i++) {
        unsigned from = (i ^ 1) < THREADS ? i ^ 1 : THREADS - 1;
        uint32_t want = 0;
        for (unsigned k = 0; k < STEPS; k++)
            want = want * 3 + in[k][from];
        assert_int_equal(out[i], want);
    }
}

/* ---- mbarrier, one thread: every result of a sequence ---- */

/* `code` leaves results in %r10 to %r17 and %p1 to %p8 (stored behind them as bits). */
static void sequence(const char *code, const uint32_t *want, uint32_t want_preds)
{
    char text[4096];
    uint32_t out[9] = {0}, in = 0;
    snprintf(text, sizeof text,
             HEAD ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
                  ".reg .b32 %%r<30>; .reg .b64 %%d<12>; .reg .b64 %%s<12>; .reg .pred %%p<10>;\n"
                  ".shared .align 8 .b64 b; ld.param.u64 %%d2, [out]; mov.u32 %%r1, b;\n"
                  "mov.u64 %%d3, b; cvta.shared.u64 %%d3, %%d3;\n"
                  "%s\n"
                  "st.global.v4.u32 [%%d2], {%%r10, %%r11, %%r12, %%r13};\n"
                  "st.global.v4.u32 [%%d2+16], {%%r14, %%r15, %%r16, %%r17};\n"
                  "selp.u32 %%r20, 1, 0, %%p1; selp.u32 %%r21, 2, 0, %%p2; or.b32 %%r20, %%r20, "
                  "%%r21;\n"
                  "selp.u32 %%r21, 4, 0, %%p3; or.b32 %%r20, %%r20, %%r21;\n"
                  "selp.u32 %%r21, 8, 0, %%p4; or.b32 %%r20, %%r20, %%r21;\n"
                  "selp.u32 %%r21, 16, 0, %%p5; or.b32 %%r20, %%r20, %%r21;\n"
                  "selp.u32 %%r21, 32, 0, %%p6; or.b32 %%r20, %%r20, %%r21;\n"
                  "selp.u32 %%r21, 64, 0, %%p7; or.b32 %%r20, %%r20, %%r21;\n"
                  "selp.u32 %%r21, 128, 0, %%p8; or.b32 %%r20, %%r20, %%r21;\n"
                  "st.global.u32 [%%d2+32], %%r20; ret;\n}\n",
             code);
    run(text, one, &in, sizeof in, out, sizeof out);
    for (unsigned i = 0; want && i < 8; i++) {
        if (out[i] != want[i])
            fail_msg("%s: result %u is %u, must be %u", code, i, out[i], want[i]);
    }
    if (out[8] != want_preds)
        fail_msg("%s: predicates are %x, must be %x", code, out[8], want_preds);
}

static void test_phases(void **state)
{
    (void)state;
    /* A fresh barrier is in phase 0: the phase before it, of parity 1, is over. */
    sequence("mbarrier.init.shared.b64 [%r1], 2;\n"
             "mbarrier.test_wait.parity.shared.b64 %p1, [%r1], 0;\n"
             "mbarrier.test_wait.parity.shared.b64 %p2, [%r1], 1;\n"
             "mbarrier.arrive.shared.b64 %s1, [%r1];\n"
             "mbarrier.test_wait.shared.b64 %p3, [%r1], %s1;\n"
             "mbarrier.arrive.b64 %s2, [%d3];\n"
             "mbarrier.test_wait.shared::cta.b64 %p4, [%r1], %s1;\n"
             "mbarrier.test_wait.b64 %p5, [%d3], %s2;\n"
             "mbarrier.try_wait.parity.shared.b64 %p6, [%r1], 0;\n"
             "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p7, [%r1], 1, 100;\n"
             "mbarrier.arrive.release.cta.shared::cta.b64 %s3, [%r1];\n"
             "mbarrier.try_wait.acquire.cta.shared::cta.b64 %p8, [%r1], %s3;\n",
             NULL, 0x02 | 0x08 | 0x10 | 0x20);
    /* Arrivals of several at once; the next phase expects the same number again. */
    sequence("mbarrier.init.shared.b64 [%r1], 5;\n"
             "mbarrier.arrive.shared.b64 %s1, [%r1], 4;\n"
             "mbarrier.test_wait.shared.b64 %p1, [%r1], %s1;\n"
             "mbarrier.arrive.shared.b64 %s2, [%r1], 1;\n"
             "mbarrier.test_wait.shared.b64 %p2, [%r1], %s1;\n"
             "mov.u32 %r5, 5; mbarrier.arrive.shared.b64 %s3, [%r1], %r5;\n"
             "mbarrier.test_wait.parity.shared.b64 %p3, [%r1], 1;\n"
             "mbarrier.test_wait.parity.shared.b64 %p4, [%r1], 0;\n"
             "mbarrier.arrive.shared::cluster.b64 _, [%r1], 5;\n"
             "mbarrier.test_wait.parity.shared.b64 %p5, [%r1], 0; mbarrier.inval.shared.b64 [%r1];",
             NULL, 0x02 | 0x04 | 0x10);
    /* arrive_drop: later phases expect fewer. */
    sequence("mbarrier.init.shared.b64 [%r1], 3;\n"
             "mbarrier.arrive_drop.shared.b64 %s1, [%r1], 2;\n"
             "mbarrier.test_wait.shared.b64 %p1, [%r1], %s1;\n"
             "mbarrier.arrive.shared.b64 %s2, [%r1];\n"
             "mbarrier.test_wait.shared.b64 %p2, [%r1], %s1;\n"
             "mbarrier.arrive.shared.b64 %s3, [%r1];\n"
             "mbarrier.test_wait.shared.b64 %p3, [%r1], %s3;\n",
             NULL, 0x02 | 0x04);
}

static void test_pending(void **state)
{
    static const uint32_t want[8] = {7, 6, 4, 3, 0, 0, 0, 0};
    (void)state;
    /* The pending count is the one before the arrival. */
    sequence("mov.u32 %r14, 0; mov.u32 %r15, 0; mov.u32 %r16, 0; mov.u32 %r17, 0;\n"
             "mbarrier.init.shared.b64 [%r1], 7;\n"
             "mbarrier.arrive.noComplete.shared.b64 %s1, [%r1], 1;\n"
             "mbarrier.pending_count.b64 %r10, %s1;\n"
             "mbarrier.arrive.noComplete.release.cta.shared::cta.b64 %s2, [%r1], 2;\n"
             "mbarrier.pending_count.b64 %r11, %s2;\n"
             "mbarrier.arrive_drop.noComplete.shared.b64 %s3, [%r1], 1;\n"
             "mbarrier.pending_count.b64 %r12, %s3;\n"
             "mbarrier.arrive.noComplete.shared.b64 %s4, [%r1], 1;\n"
             "mbarrier.pending_count.b64 %r13, %s4;\n",
             want, 0);
}

static void test_transactions(void **state)
{
    (void)state;
    sequence("mbarrier.init.shared.b64 [%r1], 1;\n"
             "mbarrier.arrive.expect_tx.shared.b64 %s1, [%r1], 64;\n"
             "mbarrier.test_wait.shared.b64 %p1, [%r1], %s1;\n"
             "mbarrier.complete_tx.relaxed.cluster.shared::cta.b64 [%r1], 48;\n"
             "mbarrier.test_wait.shared.b64 %p2, [%r1], %s1;\n"
             "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 16;\n"
             "mbarrier.complete_tx.shared::cta.b64 [%r1], 16;\n"
             "mbarrier.test_wait.shared.b64 %p3, [%r1], %s1;\n"
             "mbarrier.complete_tx.shared::cta.b64 [%r1], 16;\n"
             "mbarrier.test_wait.shared.b64 %p4, [%r1], %s1;\n"
             /* completed before it is announced: the count may be negative for a while */
             "mbarrier.complete_tx.shared::cta.b64 [%r1], 32;\n"
             "mbarrier.test_wait.parity.shared.b64 %p5, [%r1], 1;\n"
             "mbarrier.arrive_drop.expect_tx.shared::cta.b64 %s2, [%r1], 32;\n"
             "mbarrier.test_wait.parity.shared.b64 %p6, [%r1], 1;\n",
             NULL, 0x08 | 0x20);
}

/* cp.async.mbarrier.arrive: with .noinc it is one of the arrivals counted on. */
static void test_copy_arrives(void **state)
{
    (void)state;
    sequence("mbarrier.init.shared.b64 [%r1], 2;\n"
             "cp.async.mbarrier.arrive.shared.b64 [%r1];\n"
             "mbarrier.arrive.shared.b64 %s1, [%r1];\n"
             "mbarrier.test_wait.shared.b64 %p1, [%r1], %s1;\n"
             "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r1];\n"
             "mbarrier.test_wait.shared.b64 %p2, [%r1], %s1;\n"
             "cp.async.mbarrier.arrive.noinc.b64 [%d3];\n"
             "mbarrier.arrive.shared.b64 %s2, [%r1];\n"
             "mbarrier.test_wait.shared.b64 %p3, [%r1], %s2;\n",
             NULL, 0x02 | 0x04);
}

/* ---- mbarrier, many threads ---- */

/* All arrive and spin until the phase is over, twice, and read what the others have stored. */
static void check_meeting(const char *wait)
{
    char text[4096];
    snprintf(text, sizeof text,
             HEAD
             ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
             ".reg .b32 %%r<12>; .reg .b64 %%d<12>; .reg .b64 %%s<4>; .reg .pred %%p<4>;\n"
             ".shared .align 8 .b64 b; .shared .align 16 .b8 s[%d];\n"
             "ld.param.u64 %%d1, [in]; ld.param.u64 %%d2, [out]; mov.u32 %%r1, %%tid.x;\n"
             "mul.wide.u32 %%d3, %%r1, 4; add.s64 %%d1, %%d1, %%d3; add.s64 %%d2, %%d2, %%d3;\n"
             "mov.u32 %%r2, s; mad.lo.u32 %%r2, %%r1, 4, %%r2; mov.u32 %%r9, b;\n"
             "setp.ne.u32 %%p1, %%r1, 0; @%%p1 bra Ready;\n"
             "mbarrier.init.shared.b64 [%%r9], %%ntid.x;\n"
             "Ready: bar.sync 0; ld.global.u32 %%r3, [%%d1]; mov.u32 %%r7, 0;\n"
             "Again: st.shared.u32 [%%r2], %%r3; mbarrier.arrive.shared.b64 %%s1, [%%r9];\n"
             "Wait: %s @!%%p2 bra Wait;\n"
             /* the lane that is 33 further on: another warp's */
             "add.s32 %%r4, %%r1, 33; rem.u32 %%r4, %%r4, %%ntid.x; mov.u32 %%r5, s;\n"
             "mad.lo.u32 %%r5, %%r4, 4, %%r5; ld.shared.u32 %%r6, [%%r5];\n"
             "mad.lo.u32 %%r3, %%r3, 5, %%r6; bar.sync 0; add.s32 %%r7, %%r7, 1;\n"
             "setp.lt.u32 %%p3, %%r7, 2; @%%p3 bra Again;\n"
             "st.global.u32 [%%d2], %%r3; ret;\n}\n",
             THREADS * 4, wait);
    uint32_t in[THREADS], out[THREADS], next[THREADS], seed = 21;
    for (unsigned i = 0; i < THREADS; i++)
        in[i] = pt_random(&seed);
    run(text, block, in, sizeof in, out, sizeof out);
    for (unsigned k = 0; k < 2; k++) {
        for (unsigned i = 0; i < THREADS; i++)
            next[i] = in[i] * 5 + in[(i + 33) % THREADS];
        memcpy(in, next, sizeof in);
    }
    assert_memory_equal(out, in, sizeof in);
}

static void test_meeting(void **state)
{
    (void)state;
    check_meeting("mbarrier.test_wait.shared.b64 %p2, [%r9], %s1;");
    check_meeting("mbarrier.try_wait.parity.shared.b64 %p2, [%r9], %r7;");
    check_meeting("mbarrier.try_wait.shared.b64 %p2, [%r9], %s1, 1000;");
}

/* ---- bulk copies ---- */

enum { WORDS = 320 };

/* One thread copies, all wait. %r2: shared array, %r3: another, %r9: the barrier. */
static void check_bulk(const char *code, uint32_t (*want)(uint32_t in, uint32_t out, unsigned i),
                       unsigned words)
{
    char text[4096];
    snprintf(text, sizeof text,
             HEAD
             ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
             ".reg .b32 %%r<12>; .reg .b64 %%d<12>; .reg .b64 %%s<4>; .reg .pred %%p<4>;\n"
             ".shared .align 8 .b64 b; .shared .align 128 .b8 s[%d];\n"
             ".shared .align 128 .b8 t[%d];\n"
             "ld.param.u64 %%d1, [in]; ld.param.u64 %%d2, [out]; mov.u32 %%r1, %%tid.x;\n"
             "mov.u32 %%r2, s; mov.u32 %%r3, t; mov.u32 %%r9, b; mov.u32 %%r8, %u;\n"
             "mov.b64 %%d4, 5; setp.ne.u32 %%p1, %%r1, 0; @%%p1 bra Wait;\n"
             "mbarrier.init.shared.b64 [%%r9], 1; fence.mbarrier_init.release.cluster;\n"
             "fence.proxy.async.shared::cta;\n"
             "mbarrier.arrive.expect_tx.shared.b64 %%s1, [%%r9], %%r8;\n"
             "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%%r2], [%%d1], "
             "%%r8, [%%r9];\n"
             "Spin: mbarrier.try_wait.parity.shared.b64 %%p2, [%%r9], 0; @!%%p2 bra Spin;\n"
             "%s\n"
             "cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;\n"
             "cp.async.bulk.wait_group 0;\nWait: bar.sync 0; ret;\n}\n",
             WORDS * 4, WORDS * 4, words * 4, code);
    uint32_t in[WORDS], out[WORDS], before[WORDS], seed = 33;
    for (unsigned i = 0; i < WORDS; i++) {
        in[i] = pt_random(&seed);
        before[i] = out[i] = pt_random(&seed);
    }
    run(text, block, in, sizeof in, out, sizeof out);
    for (unsigned i = 0; i < WORDS; i++) {
        uint32_t must = i < words ? want(in[i], before[i], i) : before[i];
        if (out[i] != must)
            fail_msg("%s: word %u is %x, must be %x", code, i, out[i], must);
    }
}

static uint32_t plain(uint32_t in, uint32_t out, unsigned i)
{
    (void)out;
    (void)i;
    return in;
}

static uint32_t added(uint32_t in, uint32_t out, unsigned i)
{
    (void)i;
    return in + out;
}

static uint32_t smallest(uint32_t in, uint32_t out, unsigned i)
{
    (void)i;
    return (int32_t)in < (int32_t)out ? in : out;
}

static uint32_t both(uint32_t in, uint32_t out, unsigned i)
{
    (void)i;
    return in & out;
}

static uint32_t doubled(uint32_t in, uint32_t out, unsigned i)
{
    (void)out;
    (void)i;
    return in + in;
}

static void test_bulk(void **state)
{
    (void)state;
    check_bulk("cp.async.bulk.prefetch.L2.global [%d1], %r8;\n"
               "cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r2], %r8;",
               plain, 300);
    check_bulk("cp.async.bulk.global.shared::cta.bulk_group.L2::cache_hint [%d2], [%r2], %r8, %d4;",
               plain, 4);
    /* to the other shared array and from there */
    check_bulk("mbarrier.arrive.expect_tx.shared.b64 %s1, [%r9], %r8;\n"
               "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r3], "
               "[%r2], %r8, [%r9];\n"
               "More: mbarrier.try_wait.shared.b64 %p2, [%r9], %s1; @!%p2 bra More;\n"
               "cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r3], %r8;",
               plain, 320);
    check_bulk("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d2], [%r2], %r8;",
               added, 100);
    check_bulk("cp.reduce.async.bulk.global.shared::cta.bulk_group.min.s32 [%d2], [%r2], %r8;",
               smallest, 320);
    check_bulk("cp.reduce.async.bulk.global.shared::cta.bulk_group.and.b64 [%d2], [%r2], %r8;",
               both, 320);
    check_bulk("mbarrier.arrive.expect_tx.shared.b64 %s1, [%r9], %r8;\n"
               "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r3], [%d1], %r8, "
               "[%r9];\n"
               "mbarrier.arrive.expect_tx.shared.b64 %s2, [%r9], %r8;\n"
               "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes.add."
               "u32 [%r3], [%r2], %r8, [%r9];\n"
               "cp.async.bulk.global.shared::cta.bulk_group [%d2], [%r3], %r8;",
               doubled, 320);
}

/* Sums of floats, of f16 pairs among them: small whole numbers are exact. */
static void test_bulk_floats(void **state)
{
    static const struct {
        const char *words;
        uint32_t a, b, sum;
    } cases[] = {{".add.f32", 0x40400000, 0x41100000, 0x41400000},        /* 3 + 9 */
                 {".add.noftz.f16", 0x42004880, 0x44003c00, 0x47004900},  /* 3 + 4, 9 + 1 */
                 {".add.noftz.bf16", 0x40404110, 0x40803f80, 0x40e04120}, /* the same */
                 {".max.bf16", 0x40404110, 0x40803f80, 0x40804110},
                 {".min.f16", 0x42004880, 0x44003c00, 0x42003c00}};
    (void)state;
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        char text[2048];
        snprintf(
            text, sizeof text,
            HEAD
            ".visible .entry k(.param .u64 in, .param .u64 out)\n{\n"
            ".reg .b32 %%r<8>; .reg .b64 %%d<8>; .shared .align 16 .b8 s[16];\n"
            "ld.param.u64 %%d1, [in]; ld.param.u64 %%d2, [out]; mov.u32 %%r1, s;\n"
            "ld.global.v4.u32 {%%r2, %%r3, %%r4, %%r5}, [%%d1];\n"
            "st.shared.v4.u32 [%%r1], {%%r2, %%r3, %%r4, %%r5};\n"
            "cp.reduce.async.bulk.global.shared::cta.bulk_group%s [%%d2], [%%r1], 16;\nret;\n}\n",
            cases[k].words);
        uint32_t in[4], out[4];
        for (unsigned i = 0; i < 4; i++) {
            in[i] = cases[k].a;
            out[i] = cases[k].b;
        }
        run(text, one, in, sizeof in, out, sizeof out);
        for (unsigned i = 0; i < 4; i++) {
            if (out[i] != cases[k].sum)
                fail_msg("%s: %x, must be %x", cases[k].words, out[i], cases[k].sum);
        }
    }
}

/* ---- faults and refusals ---- */

static void expect_fault(const char *code, CUresult want)
{
    char text[2048];
    snprintf(text, sizeof text,
             HEAD ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %%r<6>; .reg .b64 %%d<6>;\n"
                  ".shared .align 16 .b8 s[32]; ld.param.u64 %%d1, [p]; mov.u32 %%r1, s;\n%s\n"
                  "ret;\n}\n",
             code);
    CUmodule module = pt_load(text);
    CUdeviceptr p = pt_upload(NULL, 64);
    void *params[] = {&p};
    CUresult got = pt_run(pt_function(module, "k"), one, one, 0, params);
    if (got != want)
        fail_msg("%s gives %d, must be %d", code, (int)got, (int)want);
    pt_new_context();
}

static void test_faults(void **state)
{
    (void)state;
    expect_fault("cp.async.ca.shared.global [%r1], [%d1+60], 4;", CUDA_SUCCESS);
    expect_fault("add.s64 %d1, %d1, 0x10000000000; cp.async.ca.shared.global [%r1], [%d1], 4;",
                 CUDA_ERROR_ILLEGAL_ADDRESS);
    expect_fault("cp.async.ca.shared.global [%r1+4096], [%d1], 4;", CUDA_ERROR_ILLEGAL_ADDRESS);
    expect_fault("cp.async.ca.shared.global [%r1], [%d1+4], 8;", CUDA_ERROR_MISALIGNED_ADDRESS);
    expect_fault("mbarrier.init.shared.b64 [%r1+4], 1;", CUDA_ERROR_MISALIGNED_ADDRESS);
    /* nothing is read where the source is ignored */
    expect_fault("mov.b64 %d1, 0; cp.async.ca.shared.global [%r1], [%d1], 4, 0;", CUDA_SUCCESS);
}

static void test_refused(void **state)
{
    static const char *const bad[] = {
        "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r1], "
        "[%d1, {%r2}], [%r3];",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%r1], [%d1], 16, [%r3], %h1;",
        "wgmma.fence.sync.aligned;",
        "tcgen05.wait::ld.sync.aligned;",
        "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p1, %q1;",
    };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        char text[1024], log[2048];
        snprintf(text, sizeof text,
                 HEAD ".visible .entry k()\n{\n.reg .b32 %%r<4>; .reg .b16 %%h<6>; .reg .b64 "
                      "%%d<4>; .reg .pred %%p<3>; .reg .b128 %%q<3>;\n%s\nret;\n}\n",
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
        cmocka_unit_test(test_copies),       cmocka_unit_test(test_pipeline),
        cmocka_unit_test(test_phases),       cmocka_unit_test(test_pending),
        cmocka_unit_test(test_transactions), cmocka_unit_test(test_copy_arrives),
        cmocka_unit_test(test_meeting),      cmocka_unit_test(test_bulk),
        cmocka_unit_test(test_bulk_floats),  cmocka_unit_test(test_faults),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
