/* Warps, barriers and atomic operations, compared with plain C. */
#include "tests/unit/jit/jit_rig.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t ONE[3] = {1, 1, 1};

static uint64_t base(void)
{
    return (uintptr_t)rig_memory();
}

static uint32_t *words(void)
{
    return (uint32_t *)(void *)rig_memory();
}

#define OWN "mul.wide.u32 %rd1, %r0, 4;\nadd.s64 %rd1, %rd1, %rd0;\n"

static cpu_run_t run(const char *decl, const char *body, uint32_t x, uint32_t y, unsigned width)
{
    rig_t rig;
    uint32_t block[3] = {x, y, 1};
    uint64_t p = base();
    char *text = rig_kernel(decl, body);
    rig_clear();
    rig_begin(&rig, text, "k", rig_exact(x, y, 1), width);
    cpu_run_t r = rig_run(&rig, ONE, block, &p, 0);
    rig_end(&rig);
    free(text);
    return r;
}

/* Shapes in which a warp is a row, part of a row, or several rows. */
static const uint32_t SHAPES[][2] = {{64, 1}, {32, 3}, {16, 6}, {48, 2}, {40, 1}};
enum { SHAPE_COUNT = sizeof SHAPES / sizeof SHAPES[0] };

static void shuffles(void **state)
{
    (void)state;
    const char *body = OWN
        "mul.lo.s32 %r10, %r4, 5;\nshfl.sync.down.b32 %r11|%p1, %r10, 3, 31, -1;\n"
        "st.global.u32 [%rd1], %r11;\nselp.u32 %r12, 1, 0, %p1;\nst.global.u32 [%rd1+1024], %r12;\n"
        "shfl.sync.bfly.b32 %r13, %r10, 16, 31, -1;\nst.global.u32 [%rd1+2048], %r13;\n"
        "shfl.sync.up.b32 %r14|%p2, %r10, 2, 0x1800, -1;\nst.global.u32 [%rd1+3072], %r14;\n"
        "mov.u32 %r16, %laneid;\nmul.lo.s32 %r15, %r16, 7;\nand.b32 %r15, %r15, 31;\n"
        "shfl.sync.idx.b32 %r17, %r10, %r15, 31, -1;\nst.global.u32 [%rd1+4096], %r17;\n";
    for (unsigned s = 0; s < SHAPE_COUNT; s++) {
        uint32_t n = SHAPES[s][0] * SHAPES[s][1];
        assert_int_equal(run("", body, SHAPES[s][0], SHAPES[s][1], 0), CPU_RUN_OK);
        for (uint32_t t = 0; t < n; t++) {
            uint32_t lane = t % 32, warp = t - lane;
            if (warp + 32 > n) {
                continue; /* reads from lanes that do not exist */
            }
            assert_int_equal(words()[t], 5 * (lane + 3 < 32 ? t + 3 : t));
            assert_int_equal(words()[256 + t], lane + 3 < 32);
            assert_int_equal(words()[512 + t], 5 * (warp + (lane ^ 16)));
            assert_int_equal(words()[768 + t], 5 * (lane % 8 >= 2 ? t - 2 : t));
            assert_int_equal(words()[1024 + t], 5 * (warp + lane * 7 % 32));
        }
    }
}

static void votes(void **state)
{
    (void)state;
    const char *body = OWN
        "and.b32 %r10, %r4, 3;\nsetp.eq.u32 %p0, %r10, 1;\nvote.sync.ballot.b32 %r11, %p0, -1;\n"
        "st.global.u32 [%rd1], %r11;\nvote.sync.any.pred %p1, %p0, -1;\n"
        "vote.sync.all.pred %p2, %p0, -1;\nselp.u32 %r12, 1, 0, %p1;\nselp.u32 %r13, 2, 0, %p2;\n"
        "add.s32 %r12, %r12, %r13;\nst.global.u32 [%rd1+1024], %r12;\n"
        "match.any.sync.b32 %r14, %r10, -1;\nst.global.u32 [%rd1+2048], %r14;\n"
        "setp.ne.u32 %p3, %r10, 2;\n@%p3 bra $E;\nactivemask.b32 %r15;\n"
        "st.global.u32 [%rd1+3072], %r15;\n$E:\n";
    for (unsigned s = 0; s < SHAPE_COUNT; s++) {
        uint32_t n = SHAPES[s][0] * SHAPES[s][1];
        assert_int_equal(run("", body, SHAPES[s][0], SHAPES[s][1], 0), CPU_RUN_OK);
        for (uint32_t t = 0; t < n; t++) {
            uint32_t in_warp = n - t / 32 * 32 >= 32 ? 32 : n % 32;
            uint32_t all = in_warp == 32 ? UINT32_MAX : (1u << in_warp) - 1;
            assert_int_equal(words()[t], 0x22222222u & all);
            assert_int_equal(words()[256 + t], 1);
            assert_int_equal(words()[512 + t], (0x11111111u << t % 4) & all);
            assert_int_equal(words()[768 + t], t % 4 == 2 ? 0x44444444u & all : 0);
        }
    }
}

static void atomics(void **state)
{
    (void)state;
    const char *body = "atom.global.add.u32 %r10, [%rd0], 1;\nmul.wide.u32 %rd1, %r10, 4;\n"
                       "add.s64 %rd1, %rd1, %rd0;\nst.global.u32 [%rd1+1024], 7;\n"
                       "red.global.max.s32 [%rd0+4], %r4;\nred.global.min.u32 [%rd0+8], %r4;\n"
                       "mov.f32 %f1, 0f3F000000;\nred.global.add.f32 [%rd0+12], %f1;\n"
                       "cvt.u64.u32 %rd2, %r4;\natom.global.add.u64 %rd3, [%rd0+16], %rd2;\n"
                       "atom.global.inc.u32 %r11, [%rd0+24], 9;\n"
                       "mov.f64 %d1, 0d3FD0000000000000;\nred.global.add.f64 [%rd0+32], %d1;\n"
                       "mov.u32 %r12, s;\nred.shared.add.u32 [%r12], 2;\nbar.sync "
                       "0;\nld.shared.u32 %r13, [%r12];\n"
                       "st.global.u32 [%rd0+40], %r13;\n";
    const char *decl = ".shared .align 4 .b8 s[4];";
    for (unsigned w = 0; w < 2; w++) {
        float f;
        double d;
        uint64_t sum;
        /* the counters of shared memory start with what is there: clear it first */
        char cleared[2048];
        snprintf(cleared, sizeof cleared,
                 "mov.u32 %%r12, s;\nst.shared.u32 [%%r12], 0;\nbar.sync 0;\n%s", body);
        assert_int_equal(run(decl, cleared, 50, 3, w), CPU_RUN_OK);
        assert_int_equal(words()[0], 150);
        for (unsigned n = 0; n < 160; n++) {
            assert_int_equal(words()[256 + n], n < 150 ? 7 : 0);
        }
        assert_int_equal(words()[1], 149);
        assert_int_equal(words()[2], 0);
        memcpy(&f, &words()[3], 4);
        assert_true(f == 75.0f);
        memcpy(&sum, &words()[4], 8);
        assert_int_equal(sum, 150 * 149 / 2);
        assert_int_equal(words()[6], 0);
        memcpy(&d, &words()[8], 8);
        assert_true(d == 37.5);
        assert_int_equal(words()[10], 300);
    }
}

static void compare_and_swap_loop(void **state)
{
    (void)state;
    const char *body = "ld.global.u32 %r10, [%rd0];\n$L:\nadd.s32 %r11, %r10, %r4;\n"
                       "atom.global.cas.b32 %r12, [%rd0], %r10, %r11;\n"
                       "setp.ne.s32 %p0, %r12, %r10;\nmov.u32 %r10, %r12;\n@%p0 bra $L;\n";
    for (unsigned w = 0; w < 2; w++) {
        assert_int_equal(run("", body, 100, 1, w), CPU_RUN_OK);
        assert_int_equal(words()[0], 4950);
    }
}

static void barrier_results(void **state)
{
    (void)state;
    const char *body = OWN
        "setp.lt.u32 %p0, %r4, 20;\nbar.red.popc.u32 %r10, 0, %p0;\nst.global.u32 [%rd1], %r10;\n"
        "bar.red.and.pred %p1, 0, %p0;\nbar.red.or.pred %p2, 0, %p0;\nselp.u32 %r11, 1, 0, %p1;\n"
        "selp.u32 %r12, 2, 0, %p2;\nadd.s32 %r11, %r11, %r12;\nst.global.u32 [%rd1+1024], %r11;\n";
    for (unsigned w = 0; w < 2; w++) {
        assert_int_equal(run("", body, 90, 1, w), CPU_RUN_OK);
        for (unsigned t = 0; t < 90; t++) {
            assert_int_equal(words()[t], 20);
            assert_int_equal(words()[256 + t], 2);
        }
    }
}

static void threads_that_ended_are_not_waited_for(void **state)
{
    (void)state;
    const char *body = OWN "setp.ge.u32 %p0, %r4, 70;\n@%p0 ret;\nmov.u32 %r10, s;\n"
                           "shl.b32 %r11, %r4, 2;\nadd.s32 %r11, %r11, %r10;\n"
                           "st.shared.u32 [%r11], %r4;\nbar.sync 0;\nsub.s32 %r12, 69, %r4;\n"
                           "shl.b32 %r12, %r12, 2;\nadd.s32 %r12, %r12, %r10;\n"
                           "ld.shared.u32 %r13, [%r12];\nst.global.u32 [%rd1], %r13;\n";
    for (unsigned w = 0; w < 2; w++) {
        assert_int_equal(run(".shared .align 4 .b8 s[400];", body, 96, 1, w), CPU_RUN_OK);
        for (unsigned t = 0; t < 96; t++) {
            assert_int_equal(words()[t], t < 70 ? 69 - t : 0);
        }
    }
}

/* Two halves of the block meet at barriers of their own; the producer only arrives. */
static void named_barriers(void **state)
{
    (void)state;
    const char *body =
        OWN "mov.u32 %r10, s;\nsetp.lt.u32 %p0, %r4, 64;\n@%p0 bra $P;\n"
            "bar.sync 1, 128;\nsub.s32 %r11, %r4, 64;\nshl.b32 %r11, %r11, 2;\n"
            "add.s32 %r11, %r11, %r10;\nld.shared.u32 %r12, [%r11];\nst.global.u32 [%rd1], %r12;\n"
            "ret;\n$P:\nshl.b32 %r11, %r4, 2;\nadd.s32 %r11, %r11, %r10;\nadd.s32 %r13, %r4, 500;\n"
            "st.shared.u32 [%r11], %r13;\nbar.arrive 1, 128;\n";
    assert_int_equal(run(".shared .align 4 .b8 s[256];", body, 128, 1, 0), CPU_RUN_OK);
    for (unsigned t = 64; t < 128; t++) {
        assert_int_equal(words()[t], t - 64 + 500);
    }
}

static void barrier_in_divergent_loop(void **state)
{
    (void)state;
    /* every thread passes the barrier a number of times that is the same for all, at two places */
    const char *body =
        OWN "mov.u32 %r10, 0;\nand.b32 %r12, %r4, 1;\nsetp.eq.u32 %p1, %r12, 0;\n$L:\n"
            "@%p1 bra $A;\nadd.s32 %r11, %r11, 1;\nbar.sync 0;\nbra $J;\n$A:\n"
            "add.s32 %r11, %r11, 2;\nbar.sync 0;\n$J:\nadd.s32 %r10, %r10, 1;\n"
            "setp.lt.u32 %p0, %r10, 5;\n@%p0 bra $L;\nst.global.u32 [%rd1], %r11;\n";
    for (unsigned w = 0; w < 2; w++) {
        char text[1024];
        snprintf(text, sizeof text, "mov.u32 %%r11, 0;\n%s", body);
        assert_int_equal(run("", text, 40, 2, w), CPU_RUN_OK);
        for (unsigned t = 0; t < 80; t++) {
            assert_int_equal(words()[t], t % 2 ? 5 : 10);
        }
    }
}

static void cancel_ends_an_endless_kernel(void **state)
{
    (void)state;
    for (unsigned w = 0; w < 2; w++) {
        rig_t rig;
        uint32_t block[3] = {32, 1, 1};
        uint64_t p = base();
        char *text = rig_kernel("", "$L:\nadd.s32 %r10, %r10, 1;\nbra $L;\n");
        rig_begin(&rig, text, "k", rig_exact(32, 1, 1), w);
        rig.cancel = 1;
        assert_int_equal(rig_run(&rig, ONE, block, &p, 0), CPU_RUN_CANCELLED);
        rig_end(&rig);
        free(text);
    }
}

static void trap_and_stuck_barriers(void **state)
{
    (void)state;
    for (unsigned w = 0; w < 2; w++) {
        rig_t rig;
        uint32_t block[3] = {40, 1, 1};
        uint64_t p = base();
        char *text = rig_kernel("", "setp.eq.u32 %p0, %r4, 33;\n@%p0 trap;\n");
        rig_begin(&rig, text, "k", rig_exact(40, 1, 1), w);
        assert_int_equal(rig_run(&rig, ONE, block, &p, 0), CPU_RUN_FAULT);
        assert_int_equal(rig.launch.fault.code, CPU_FAULT_TRAP);
        assert_int_equal(rig.launch.fault.tid[0], 33);
        rig_end(&rig);
        free(text);
    }
    /* 96 threads are awaited, 64 exist */
    assert_int_equal(run("", "bar.sync 1, 96;\n", 64, 1, 0), CPU_RUN_FAULT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffles),
        cmocka_unit_test(votes),
        cmocka_unit_test(atomics),
        cmocka_unit_test(compare_and_swap_loop),
        cmocka_unit_test(barrier_results),
        cmocka_unit_test(threads_that_ended_are_not_waited_for),
        cmocka_unit_test(named_barriers),
        cmocka_unit_test(barrier_in_divergent_loop),
        cmocka_unit_test(cancel_ends_an_endless_kernel),
        cmocka_unit_test(trap_and_stuck_barriers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
