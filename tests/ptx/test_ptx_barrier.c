/* Barriers as the PTX manual has them for sm_70 and up: threads arrive one by one, also in divergent
 * code; those that have ended are not waited for; barriers with a count take that many threads; who
 * arrives without waiting goes on; reductions give their result to all. */
#include "tests/ptx/pt_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1024 };

/* %r1 is the thread, %r2 the block's length, %r4 points at the thread's cell of s, %r5 at s; %r9 is
 * the result, which every thread that comes to the end stores. */
static CUmodule load(const char *code)
{
    static char text[16384];
    int n = snprintf(text, sizeof text,
                     ".version 7.0\n.target sm_70\n.address_size 64\n"
                     ".visible .entry k(.param .u64 out)\n{\n"
                     ".shared .align 4 .b8 s[8192];\n"
                     ".reg .b32 %%r<32>; .reg .b64 %%d<4>; .reg .pred %%p<8>;\n"
                     "ld.param.u64 %%d1, [out]; mov.u32 %%r1, %%tid.x; mov.u32 %%r2, %%ntid.x;\n"
                     "mul.wide.u32 %%d2, %%r1, 4; add.s64 %%d1, %%d1, %%d2; mov.u32 %%r5, s;\n"
                     "shl.b32 %%r4, %%r1, 2; add.s32 %%r4, %%r4, %%r5; mov.u32 %%r9, 0;\n"
                     "%s\nst.global.u32 [%%d1], %%r9; ret;\n}\n",
                     code);
    assert_true(n > 0 && (size_t)n < sizeof text);
    return pt_load(text);
}

static CUresult run(const char *code, unsigned threads, uint32_t *out)
{
    CUmodule module = load(code);
    CUdeviceptr d = pt_upload(NULL, MOST * 4);
    void *params[] = {&d};
    CUresult result =
        pt_run(pt_function(module, "k"), (pt_dim_t){1, 1, 1}, (pt_dim_t){threads, 1, 1}, 0, params);
    if (result == CUDA_SUCCESS) {
        pt_download(out, d, MOST * 4);
        pt_free(d);
        pt_unload(module);
    }
    return result;
}

typedef uint32_t (*expect_fn)(uint32_t thread, uint32_t threads);

static void check(const char *what, const char *code, const unsigned *blocks, unsigned count,
                  expect_fn want)
{
    uint32_t out[MOST];
    for (unsigned b = 0; b < count; b++) {
        PT_CHECK(run(code, blocks[b], out));
        for (uint32_t t = 0; t < blocks[b]; t++)
            if (out[t] != want(t, blocks[b]))
                fail_msg("%s, %u threads: thread %u gives %u, must be %u", what, blocks[b], t,
                         out[t], want(t, blocks[b]));
    }
}

static const unsigned ANY[] = {1, 2, 31, 32, 33, 64, 100, 256, 1000, 1024};
enum { ANY_COUNT = sizeof ANY / sizeof ANY[0] };

/* Odd and even threads wait at barriers of their own, which are the same barrier; then each reads what
 * the last thread but its own number has left, and again behind a second pair. */
static uint32_t both_sides(uint32_t t, uint32_t n)
{
    uint32_t first = (n - 1 - t) * 3 + ((n - 1 - t) & 1);
    return first + (t & 1 ? 1000 : 2000) + (n - 1 - t) * 7;
}

static void test_divergent(void **state)
{
    static const char CODE[] =
        "and.b32 %r6, %r1, 1; setp.ne.u32 %p1, %r6, 0; mad.lo.s32 %r7, %r1, 3, %r6;\n"
        "sub.s32 %r8, %r2, %r1; sub.s32 %r8, %r8, 1; shl.b32 %r8, %r8, 2; add.s32 %r8, %r8, %r5;\n"
        "st.shared.u32 [%r4], %r7; mul.lo.s32 %r10, %r1, 7; @%p1 bra Odd;\n"
        "bar.sync 0; ld.shared.u32 %r9, [%r8]; add.s32 %r9, %r9, 2000; bar.sync 0;\n"
        "st.shared.u32 [%r4], %r10; bra.uni Met;\n"
        "Odd: bar.sync 0; ld.shared.u32 %r9, [%r8]; add.s32 %r9, %r9, 1000; bar.sync 0;\n"
        "st.shared.u32 [%r4], %r10;\n"
        "Met: bar.sync 0; ld.shared.u32 %r11, [%r8]; add.s32 %r9, %r9, %r11;";
    (void)state;
    check("divergent", CODE, ANY, ANY_COUNT, both_sides);
}

static uint32_t with_exits(uint32_t t, uint32_t n)
{
    uint32_t other = n - 1 - t;
    return t % 3 == 0 ? 0 : other % 3 == 0 ? 5 : other + 100;
}

/* Threads that have ended before are not waited for; a word of theirs is as they left it. */
static void test_early_exit(void **state)
{
    static const char CODE[] =
        "mov.u32 %r6, 5; st.shared.u32 [%r4], %r6; bar.sync 0;\n"
        "rem.u32 %r7, %r1, 3; setp.eq.u32 %p1, %r7, 0; @%p1 exit;\n"
        "add.s32 %r6, %r1, 100; st.shared.u32 [%r4], %r6; bar.sync 0;\n"
        "sub.s32 %r8, %r2, %r1; sub.s32 %r8, %r8, 1; shl.b32 %r8, %r8, 2; add.s32 %r8, %r8, %r5;\n"
        "ld.shared.u32 %r9, [%r8]; bar.sync 0;";
    (void)state;
    check("early exit", CODE, ANY, ANY_COUNT, with_exits);
}

/* Each thread takes part in as many rounds as its number modulo 5, plus one, and leaves; in each round
 * a thread counts the neighbour to its right (of its own five) if that is still there. */
static uint32_t leaving(uint32_t t, uint32_t n)
{
    uint32_t seen = 0;
    for (uint32_t round = 0; round <= t % 5; round++) {
        uint32_t other = t + 1 < n ? t + 1 : 0;
        seen = seen * 2 + (other % 5 >= round);
    }
    return seen;
}

static void test_loops_of_different_length(void **state)
{
    static const char CODE[] =
        "rem.u32 %r6, %r1, 5; mov.u32 %r7, 0; add.s32 %r8, %r1, 1; setp.lt.u32 %p1, %r8, %r2;\n"
        "selp.b32 %r8, %r8, 0, %p1; shl.b32 %r8, %r8, 2; add.s32 %r8, %r8, %r5;\n"
        "Round: add.s32 %r10, %r7, 1; st.shared.u32 [%r4], %r10; bar.sync 0;\n"
        "ld.shared.u32 %r11, [%r8]; setp.ge.u32 %p2, %r11, %r10; selp.b32 %r12, 1, 0, %p2;\n"
        "shl.b32 %r9, %r9, 1; add.s32 %r9, %r9, %r12; bar.sync 0;\n"
        "add.s32 %r7, %r7, 1; setp.le.u32 %p3, %r7, %r6; @%p3 bra Round;";
    (void)state;
    check("rounds", CODE, ANY, ANY_COUNT, leaving);
}

static uint32_t reductions(uint32_t t, uint32_t n)
{
    uint32_t odd = n / 2, first = n > 3;
    (void)t;
    return odd * 8 + (n == 1 ? 0 : 4) + (first ? 0 : 2) + 1;
}

/* How many are odd; is any odd; are all below 3; is none beyond the block (negated). */
static void test_reductions(void **state)
{
    static const char CODE[] =
        "and.b32 %r6, %r1, 1; setp.ne.u32 %p1, %r6, 0; setp.lt.u32 %p2, %r1, 3;\n"
        "setp.ge.u32 %p3, %r1, %r2; bar.red.popc.u32 %r7, 0, %p1; bar.red.or.pred %p4, 0, %p1;\n"
        "bar.red.and.pred %p5, 0, %p2; bar.red.and.pred %p6, 0, !%p3;\n"
        "selp.b32 %r10, 4, 0, %p4; selp.b32 %r11, 2, 0, %p5; selp.b32 %r12, 1, 0, %p6;\n"
        "mad.lo.s32 %r9, %r7, 8, %r10; add.s32 %r9, %r9, %r11; add.s32 %r9, %r9, %r12;";
    (void)state;
    check("reductions", CODE, ANY, ANY_COUNT, reductions);
}

/* Reductions on both sides of a branch are one reduction. */
static uint32_t red_sides(uint32_t t, uint32_t n)
{
    return n - (n + 3) / 4 + (t & 1 ? 1000 : 2000);
}

static void test_divergent_reduction(void **state)
{
    static const char CODE[] =
        "and.b32 %r6, %r1, 1; setp.ne.u32 %p1, %r6, 0; and.b32 %r7, %r1, 3;\n"
        "setp.ne.u32 %p2, %r7, 0; @%p1 bra Odd;\n"
        "bar.red.popc.u32 %r9, 0, %p2; add.s32 %r9, %r9, 2000; bra.uni Met;\n"
        "Odd: bar.red.popc.u32 %r9, 0, %p2; add.s32 %r9, %r9, 1000;\nMet: bar.sync 0;";
    (void)state;
    check("divergent reduction", CODE, ANY, ANY_COUNT, red_sides);
}

/* Warp w meets itself w + 1 times at barrier w + 1, then all meet. */
static uint32_t own_barriers(uint32_t t, uint32_t n)
{
    (void)n;
    return (t / 32 + 1) * 32 + t / 32;
}

static void test_numbers_in_registers(void **state)
{
    static const unsigned BLOCKS[] = {32, 64, 256, 448};
    static const char CODE[] =
        "shr.u32 %r6, %r1, 5; add.s32 %r7, %r6, 1; mov.u32 %r8, 0; mov.u32 %r10, 32;\n"
        "Round: bar.sync %r7, %r10; add.s32 %r8, %r8, 1; setp.lt.u32 %p1, %r8, %r7;\n"
        "@%p1 bra Round; bar.sync 0; mad.lo.s32 %r9, %r8, 32, %r6;";
    (void)state;

    check("own barriers", CODE, BLOCKS, 4, own_barriers);
}

/* A block that ends in the middle of a warp: the last warp counts as a whole one. */
static uint32_t partial_warp(uint32_t t, uint32_t n)
{
    return n - 1 - t;
}

static void test_partial_warp(void **state)
{
    static const unsigned BLOCKS[] = {33, 48, 63, 64};
    static const char CODE[] =
        "st.shared.u32 [%r4], %r1; bar.sync 1, 64; sub.s32 %r8, %r2, %r1; sub.s32 %r8, %r8, 1;\n"
        "shl.b32 %r8, %r8, 2; add.s32 %r8, %r8, %r5; ld.shared.u32 %r9, [%r8]; bar.sync 2, 64;";
    (void)state;

    check("partial warp", CODE, BLOCKS, 4, partial_warp);
}

/* Two warps fill a buffer of two halves, two empty it: barriers 1 and 2 say that a half is full, 3 and
 * 4 that it is empty; who says so does not wait. */
static uint32_t pipeline(uint32_t t, uint32_t n)
{
    uint32_t sum = 0;
    (void)n;
    for (uint32_t round = 0; t >= 64 && round < 6; round++)
        sum += round * 100 + (t - 64);
    return sum;
}

static void test_pipeline(void **state)
{
    static const unsigned BLOCKS[] = {128};
    static const char CODE[] =
        "mov.u32 %r6, 0; setp.ge.u32 %p1, %r1, 64; @%p1 bra Take;\n"
        "Make: and.b32 %r7, %r6, 1; add.s32 %r8, %r7, 1; add.s32 %r10, %r7, 3;\n"
        "setp.lt.u32 %p2, %r6, 2; @%p2 bra Fill; bar.sync %r10, 128;\n"
        "Fill: mad.lo.s32 %r11, %r6, 100, %r1; mad.lo.s32 %r12, %r7, 256, %r4;\n"
        "st.shared.u32 [%r12], %r11; bar.arrive %r8, 128;\n"
        "add.s32 %r6, %r6, 1; setp.lt.u32 %p3, %r6, 6; @%p3 bra Make; bra.uni Done;\n"
        "Take: and.b32 %r7, %r6, 1; add.s32 %r8, %r7, 1; add.s32 %r10, %r7, 3;\n"
        "bar.sync %r8, 128; mad.lo.s32 %r12, %r7, 256, %r4; ld.shared.u32 %r11, [%r12+-256];\n"
        "add.s32 %r9, %r9, %r11; setp.ge.u32 %p2, %r6, 4; @%p2 bra Next; bar.arrive %r10, 128;\n"
        "Next: add.s32 %r6, %r6, 1; setp.lt.u32 %p3, %r6, 6; @%p3 bra Take;\nDone:";
    (void)state;

    check("pipeline", CODE, BLOCKS, 1, pipeline);
}

/* Half of the threads of each of two warps meet: 32 threads, counted one by one. */
static uint32_t halves(uint32_t t, uint32_t n)
{
    (void)n;
    return t % 32 < 16 ? (t ^ 32) * 5 : 77;
}

static void test_halves_of_warps(void **state)
{
    static const unsigned BLOCKS[] = {64};
    static const char CODE[] =
        "and.b32 %r6, %r1, 31; setp.ge.u32 %p1, %r6, 16; mov.u32 %r9, 77; @%p1 bra Done;\n"
        "mul.lo.s32 %r7, %r1, 5; st.shared.u32 [%r4], %r7; barrier.sync 1, 32;\n"
        "xor.b32 %r8, %r4, 128; ld.shared.u32 %r9, [%r8];\nDone:";
    (void)state;

    check("halves", CODE, BLOCKS, 1, halves);
}

/* A barrier that is never complete ends the kernel with an error, not the program. */
static void test_deadlock(void **state)
{
    uint32_t out[MOST];
    (void)state;

    assert_int_equal(run("bar.sync 1, 64;", 32, out), CUDA_ERROR_LAUNCH_FAILED);
    pt_new_context();
    assert_int_equal(run("setp.lt.u32 %p1, %r1, 16; @%p1 bra A; bar.sync 2, 64; bra.uni B;\n"
                         "A: bar.sync 3, 64;\nB:",
                         64, out),
                     CUDA_ERROR_LAUNCH_FAILED);
    pt_new_context();
}

/* ---- warps in step, and out of it ---- */

/* %r8: the cell of the thread to the right, in a circle. */
#define RIGHT                                                                                      \
    "mov.u32 %r7, 0; add.s32 %r8, %r1, 1; setp.lt.u32 %p1, %r8, %r2;\n"                            \
    "selp.b32 %r8, %r8, 0, %p1; shl.b32 %r8, %r8, 2; add.s32 %r8, %r8, %r5;\n"

enum { MANY_ROUNDS = 2500, SOME_ROUNDS = 40, WIDE_SIDE = 7 };

static uint32_t many_rounds(uint32_t t, uint32_t n)
{
    uint32_t right = (t + 1) % n, v = 0;
    for (uint32_t round = 0; round < MANY_ROUNDS; round++) {
        v = v * 3 + round + right;
    }
    return v;
}

/* More barriers than a block passes without looking up. */
static void test_many_rounds(void **state)
{
    static const unsigned BLOCKS[] = {33, 64, 256, 1000};
    (void)state;
    check("many rounds",
          RIGHT "Round: add.s32 %r10, %r7, %r1; st.shared.u32 [%r4], %r10; bar.sync 0;\n"
                "ld.shared.u32 %r11, [%r8]; mad.lo.s32 %r9, %r9, 3, %r11; bar.sync 0;\n"
                "add.s32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 2500; @%p2 bra Round;",
          BLOCKS, sizeof BLOCKS / sizeof BLOCKS[0], many_rounds);
}

static uint32_t sides_of_warps(uint32_t t, uint32_t n)
{
    uint32_t other = n - 1 - t;
    return other * 3 + (t >> WIDE_SIDE & 1 ? 1000 : 2000) + other * 7;
}

/* Whole warps wait at other barriers than their neighbours; all meet behind. */
static void test_sides_of_warps(void **state)
{
    static const char CODE[] =
        "shr.u32 %r6, %r1, 7; and.b32 %r6, %r6, 1; setp.ne.u32 %p1, %r6, 0;\n"
        "mul.lo.s32 %r7, %r1, 3; sub.s32 %r8, %r2, %r1; sub.s32 %r8, %r8, 1;\n"
        "shl.b32 %r8, %r8, 2; add.s32 %r8, %r8, %r5; bar.sync 0;\n"
        "st.shared.u32 [%r4], %r7; mul.lo.s32 %r10, %r1, 7; @%p1 bra Odd;\n"
        "bar.sync 0; ld.shared.u32 %r9, [%r8]; add.s32 %r9, %r9, 2000; bar.sync 0;\n"
        "st.shared.u32 [%r4], %r10; bra.uni Met;\n"
        "Odd: bar.sync 0; ld.shared.u32 %r9, [%r8]; add.s32 %r9, %r9, 1000; bar.sync 0;\n"
        "st.shared.u32 [%r4], %r10;\n"
        "Met: bar.sync 0; ld.shared.u32 %r11, [%r8]; add.s32 %r9, %r9, %r11; bar.sync 0;";
    (void)state;
    check("sides of warps", CODE, ANY, ANY_COUNT, sides_of_warps);
}

static uint32_t half_leaves(uint32_t t, uint32_t n)
{
    uint32_t right = (t + 1) % n, v = 0;
    for (uint32_t round = 0; round < SOME_ROUNDS; round++) {
        v = v * 3 + (right * 2 < n ? round + right : right);
    }
    return t * 2 < n ? v : 0;
}

/* Behind the first barrier the upper half of the block ends. */
static void test_half_leaves(void **state)
{
    (void)state;
    check("half leaves",
          RIGHT "st.shared.u32 [%r4], %r1; shl.b32 %r6, %r1, 1; bar.sync 0;\n"
                "setp.ge.u32 %p3, %r6, %r2; @%p3 exit;\n"
                "Round: add.s32 %r10, %r7, %r1; st.shared.u32 [%r4], %r10; bar.sync 0;\n"
                "ld.shared.u32 %r11, [%r8]; mad.lo.s32 %r9, %r9, 3, %r11; bar.sync 0;\n"
                "add.s32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 40; @%p2 bra Round;",
          ANY, ANY_COUNT, half_leaves);
}

static uint32_t one_apart(uint32_t t, uint32_t n)
{
    uint32_t right = (t + 1) % n, v = 0;
    for (uint32_t round = 0; round < SOME_ROUNDS; round++) {
        v = v * 3 + round + right + (round * 29 % n == t ? 100000 : 0);
    }
    return v;
}

/* In each round another thread waits at a barrier of its own, and its warp goes on in parts. */
static void test_one_apart(void **state)
{
    (void)state;
    check("one apart",
          RIGHT "Round: mul.lo.s32 %r6, %r7, 29; rem.u32 %r6, %r6, %r2; mov.u32 %r12, 0;\n"
                "setp.eq.u32 %p1, %r6, %r1; add.s32 %r10, %r7, %r1; st.shared.u32 [%r4], %r10;\n"
                "@%p1 bra Alone; bar.sync 0; bra.uni Met;\n"
                "Alone: bar.sync 0; mov.u32 %r12, 100000;\n"
                "Met: ld.shared.u32 %r11, [%r8]; add.s32 %r11, %r11, %r12;\n"
                "mad.lo.s32 %r9, %r9, 3, %r11; bar.sync 0;\n"
                "add.s32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 40; @%p2 bra Round;",
          ANY, ANY_COUNT, one_apart);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_divergent),
        cmocka_unit_test(test_early_exit),
        cmocka_unit_test(test_loops_of_different_length),
        cmocka_unit_test(test_reductions),
        cmocka_unit_test(test_divergent_reduction),
        cmocka_unit_test(test_numbers_in_registers),
        cmocka_unit_test(test_partial_warp),
        cmocka_unit_test(test_pipeline),
        cmocka_unit_test(test_halves_of_warps),
        cmocka_unit_test(test_many_rounds),
        cmocka_unit_test(test_sides_of_warps),
        cmocka_unit_test(test_half_leaves),
        cmocka_unit_test(test_one_apart),
        cmocka_unit_test(test_deadlock),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
