/* Loads, stores, spaces, and every way an address can be wrong. */
#include "tests/unit/jit/jit_rig.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t ONE[3] = {1, 1, 1};

static cpu_run_t run_shape(const char *decl, const char *body, uint32_t x, uint32_t y,
                           unsigned width, uint64_t p, cpu_fault_t *fault)
{
    rig_t rig;
    uint32_t block[3] = {x, y, 1};
    char *text = rig_kernel(decl, body);
    rig_begin(&rig, text, "k", rig_exact(x, y, 1), width);
    cpu_run_t r = rig_run(&rig, ONE, block, &p, 0);
    if (fault != NULL) {
        *fault = rig.launch.fault;
    }
    rig_end(&rig);
    free(text);
    return r;
}

static uint64_t base(void)
{
    return (uintptr_t)rig_memory();
}

static uint32_t *words(void)
{
    return (uint32_t *)(void *)rig_memory();
}

/* Body that makes %rd1 the address of the thread's own word. */
#define OWN "mul.wide.u32 %rd1, %r0, 4;\nadd.s64 %rd1, %rd1, %rd0;\n"

static void good_accesses(void **state)
{
    (void)state;
    for (unsigned w = 0; w < 2; w++) {
        rig_clear();
        assert_int_equal(run_shape("", OWN "st.global.u32 [%rd1], %r0;\n", 100, 1, w, base(), NULL),
                         CPU_RUN_OK);
        for (uint32_t n = 0; n < 200; n++) {
            assert_int_equal(words()[n], n < 100 ? n : 0);
        }
    }
}

static void expect_fault(const char *body, uint32_t x, uint32_t y, uint64_t p, int code,
                         uint64_t address, uint32_t tx, uint32_t ty)
{
    for (unsigned w = 0; w < 2; w++) {
        cpu_fault_t f = {0};
        rig_clear();
        assert_int_equal(run_shape("", body, x, y, w, p, &f), CPU_RUN_FAULT);
        assert_int_equal(f.code, code);
        assert_int_equal(f.address, address);
        assert_int_equal(f.tid[0], tx);
        assert_int_equal(f.tid[1], ty);
    }
}

static void faults(void **state)
{
    (void)state;
    uint64_t end = base() + RIG_WINDOW;
    /* strip that sticks out at the end: the first lane outside is named */
    expect_fault(OWN "st.global.u32 [%rd1], 1;\n", 64, 1, end - 40, CPU_FAULT_ADDRESS, end, 10, 0);
    expect_fault(OWN "ld.global.u32 %r10, [%rd1];\n", 64, 1, end - 40, CPU_FAULT_ADDRESS, end, 10,
                 0);
    expect_fault(OWN "ld.global.u32 %r10, [%rd1+-4];\nld.global.u32 %r11, [%rd1];\n", 64, 1, base(),
                 CPU_FAULT_ADDRESS, base() - 4, 0, 0);
    expect_fault(OWN "ld.global.u32 %r10, [%rd1+1];\n", 64, 1, base(), CPU_FAULT_MISALIGNED,
                 base() + 1, 0, 0);
    expect_fault("ld.global.v4.u32 {%r10,%r11,%r12,%r13}, [%rd0+8];\n", 64, 1, base(),
                 CPU_FAULT_MISALIGNED, base() + 8, 0, 0);
    expect_fault("ld.global.u64 %rd2, [%rd0];\n", 8, 1, 0, CPU_FAULT_ADDRESS, 0, 0, 0);
    /* the process's own heap is not the device's memory */
    uint64_t mine = (uintptr_t)&mine;
    expect_fault("st.global.u32 [%rd0], 1;\n", 8, 1, mine, CPU_FAULT_ADDRESS, mine, 0, 0);
    /* only lanes that are active count */
    expect_fault("setp.ne.u32 %p0, %tid.y, 2;\n@%p0 bra $E;\nsetp.ne.u32 %p1, %tid.x, 3;\n"
                 "@%p1 bra $E;\nld.global.u32 %r10, [%rd0];\n$E:\n",
                 16, 4, 64, CPU_FAULT_ADDRESS, 64, 3, 2);
    /* shared memory: outside, and misaligned */
    expect_fault("mov.u32 %r10, 4;\nld.shared.u32 %r11, [%r10];\n", 8, 1, base(), CPU_FAULT_ADDRESS,
                 4, 0, 0);
    /* scattered */
    expect_fault("mul.lo.s32 %r10, %r0, %r0;\nmul.wide.u32 %rd1, %r10, 4096;\n"
                 "add.s64 %rd1, %rd1, %rd0;\nst.global.u8 [%rd1], 1;\n",
                 64, 1, base(), CPU_FAULT_ADDRESS, base() + 46 * 46 * 4096, 46, 0);
}

static void masked_lanes_do_not_fault(void **state)
{
    (void)state;
    /* lanes from 10 on lie outside, but are not active */
    const char *body = OWN "setp.ge.u32 %p0, %r0, 10;\n@%p0 bra $E;\nld.global.u32 %r10, [%rd1];\n"
                           "add.s32 %r10, %r10, 5;\nst.global.u32 [%rd1], %r10;\n$E:\n";
    for (unsigned w = 0; w < 2; w++) {
        rig_clear();
        assert_int_equal(run_shape("", body, 64, 1, w, base() + RIG_WINDOW - 40, NULL), CPU_RUN_OK);
        assert_int_equal(words()[RIG_WINDOW / 4 - 1], 5);
        assert_int_equal(words()[RIG_WINDOW / 4 - 11], 0);
    }
    const char *guarded = OWN "setp.lt.u32 %p0, %r0, 10;\n@%p0 ld.global.u32 %r10, [%rd1];\n"
                              "@%p0 st.global.u32 [%rd1+-40], 9;\n";
    for (unsigned w = 0; w < 2; w++) {
        assert_int_equal(run_shape("", guarded, 64, 1, w, base() + RIG_WINDOW - 40, NULL),
                         CPU_RUN_OK);
        assert_int_equal(words()[RIG_WINDOW / 4 - 11], 9);
    }
}

/* 32-bit indices that wrap inside a strip go to both ends of what they index. */
static void index_wraps(void **state)
{
    (void)state;
    const char *body = "sub.u32 %r10, %r0, 20;\nmul.wide.s32 %rd1, %r10, 4;\n"
                       "add.s64 %rd1, %rd1, %rd0;\nst.global.u32 [%rd1], %r0;\n"
                       /* unsigned: lanes below 20 wrap to the top, and are folded back */
                       "cvt.u64.u32 %rd2, %r10;\nand.b64 %rd2, %rd2, 255;\nshl.b64 %rd2, %rd2, 2;\n"
                       "add.s64 %rd2, %rd2, %rd0;\nst.global.u32 [%rd2+4096], %r0;\n"
                       /* as a 64-bit number */
                       "cvt.u64.u32 %rd3, %r10;\nmul.wide.u32 %rd4, %r0, 8;\n"
                       "add.s64 %rd4, %rd4, %rd0;\nst.global.u64 [%rd4+8192], %rd3;\n";
    for (unsigned w = 0; w < 2; w++) {
        rig_clear();
        assert_int_equal(run_shape("", body, 64, 1, w, base() + 1024, NULL), CPU_RUN_OK);
        uint32_t *at = words() + 256;
        for (int32_t n = 0; n < 64; n++) {
            assert_int_equal(at[n - 20], n);
            assert_int_equal(at[1024 + ((n - 20) & 255)], n);
            uint64_t v;
            memcpy(&v, &at[2048 + 2 * n], 8);
            assert_int_equal(v, (uint32_t)(n - 20));
        }
    }
    /* the wrapped lanes' addresses are 16 GiB away: that is what the fault says */
    for (unsigned w = 0; w < 2; w++) {
        cpu_fault_t f = {0};
        const char *wild = "sub.u32 %r10, %r0, 20;\nmul.wide.u32 %rd1, %r10, 4;\n"
                           "add.s64 %rd1, %rd1, %rd0;\nst.global.u32 [%rd1], %r0;\n";
        assert_int_equal(run_shape("", wild, 64, 1, w, base(), &f), CPU_RUN_FAULT);
        assert_int_equal(f.address, base() + 4 * (uint64_t)(uint32_t)-20);
        assert_int_equal(f.tid[0], 0);
    }
}

static void vectors_and_small_types(void **state)
{
    (void)state;
    const char *body =
        "mul.wide.u32 %rd1, %r0, 16;\nadd.s64 %rd1, %rd1, %rd0;\n"
        "add.s32 %r10, %r0, 1;\nadd.s32 %r11, %r0, 2;\nadd.s32 %r12, %r0, 3;\n"
        "st.global.v4.u32 [%rd1], {%r0,%r10,%r11,%r12};\n"
        "ld.global.v2.u32 {%r13,%r14}, [%rd1+8];\nadd.s32 %r13, %r13, %r14;\n"
        "mul.wide.u32 %rd2, %r0, 4;\nadd.s64 %rd2, %rd2, %rd0;\nst.global.u32 [%rd2+4096], %r13;\n"
        "cvt.u64.u32 %rd3, %r0;\nadd.s64 %rd3, %rd3, %rd0;\nsub.s32 %r15, 100, %r0;\n"
        "st.global.u8 [%rd3+8192], %r15;\nld.global.s8 %r16, [%rd3+8192];\n"
        "st.global.u32 [%rd2+12288], %r16;\n"
        "ld.global.u8 %h1, [%rd3+8192];\nmul.wide.u32 %rd4, %r0, 2;\nadd.s64 %rd4, %rd4, %rd0;\n"
        "st.global.b16 [%rd4+16384], %h1;\n";
    for (unsigned w = 0; w < 2; w++) {
        rig_clear();
        assert_int_equal(run_shape("", body, 200, 1, w, base(), NULL), CPU_RUN_OK);
        for (uint32_t n = 0; n < 200; n++) {
            for (uint32_t e = 0; e < 4; e++) {
                assert_int_equal(words()[n * 4 + e], n + e);
            }
            assert_int_equal(words()[1024 + n], 2 * n + 5);
            assert_int_equal(rig_memory()[8192 + n], (uint8_t)(100 - n));
            assert_int_equal((int32_t)words()[3072 + n], (int8_t)(100 - n));
            assert_int_equal(rig_memory()[16384 + 2 * n], (uint8_t)(100 - n));
        }
    }
}

static void spaces(void **state)
{
    (void)state;
    /* each thread's frame is its own; generic addresses reach shared and local memory too */
    const char *body = OWN
        "mov.u64 %rd5, l;\ncvta.local.u64 %rd6, %rd5;\nmul.lo.s32 %r10, %r0, 3;\n"
        "st.local.u32 [%rd5+4], %r10;\nst.u32 [%rd6+8], %r0;\nld.local.u32 %r11, [%rd5+8];\n"
        "ld.u32 %r12, [%rd6+4];\nadd.s32 %r11, %r11, %r12;\nst.global.u32 [%rd1], %r11;\n"
        "and.b32 %r13, %r4, 7;\nmul.wide.u32 %rd7, %r13, 4;\nadd.s64 %rd8, %rd5, %rd7;\n"
        "st.local.u32 [%rd8], 77;\nld.local.u32 %r14, [%rd8];\nst.global.u32 [%rd1+4096], %r14;\n"
        "mov.u64 %rd9, s;\nmul.wide.u32 %rd10, %r4, 4;\nadd.s64 %rd9, %rd9, %rd10;\n"
        "st.shared.u32 [%rd9], %r10;\ncvta.shared.u64 %rd11, %rd9;\nbar.sync 0;\n"
        "ld.u32 %r15, [%rd11];\nst.global.u32 [%rd1+8192], %r15;\n";
    char *text = malloc(strlen(body) + 64);
    assert_non_null(text);
    strcpy(text, ".local .align 4 .b8 l[32];\n");
    strcat(text, body);
    for (unsigned w = 0; w < 2; w++) {
        rig_clear();
        assert_int_equal(run_shape(".shared .align 4 .b8 s[400];", text, 100, 1, w, base(), NULL),
                         CPU_RUN_OK);
        for (uint32_t n = 0; n < 100; n++) {
            assert_int_equal(words()[n], 4 * n);
            assert_int_equal(words()[1024 + n], 77);
            assert_int_equal(words()[2048 + n], 3 * n);
        }
    }
    free(text);
}

static void dynamic_shared(void **state)
{
    (void)state;
    const char *body = OWN "mov.u32 %r10, d;\nshl.b32 %r11, %r4, 2;\nadd.s32 %r11, %r11, %r10;\n"
                           "st.shared.u32 [%r11], %r4;\nbar.sync 0;\nsub.s32 %r12, %r2, %r4;\n"
                           "shl.b32 %r12, %r12, 2;\nadd.s32 %r12, %r12, %r10;\n"
                           "ld.shared.u32 %r13, [%r12+-4];\nst.global.u32 [%rd1], %r13;\n";
    for (unsigned w = 0; w < 2; w++) {
        rig_t rig;
        uint32_t block[3] = {96, 1, 1};
        uint64_t p = base();
        char *text =
            rig_kernel(".shared .align 4 .b8 s[20];\n.extern .shared .align 16 .b8 d[];", body);
        rig_clear();
        rig_begin(&rig, text, "k", rig_exact(96, 1, 1), w);
        assert_int_equal(cpu_code_header(rig.code)->uses_dynamic, 1);
        assert_int_equal(rig_run(&rig, ONE, block, &p, 96 * 4), CPU_RUN_OK);
        for (uint32_t n = 0; n < 96; n++) {
            assert_int_equal(words()[n], 95 - n);
        }
        assert_int_equal(rig_run(&rig, ONE, block, &p, 95 * 4), CPU_RUN_FAULT);
        assert_int_equal(rig.launch.fault.code, CPU_FAULT_ADDRESS);
        rig_end(&rig);
        free(text);
    }
}

static void other_ranges(void **state)
{
    (void)state;
    static _Alignas(64) uint32_t outside[64];
    cpu_range_t ranges[1] = {{(uintptr_t)outside, sizeof outside}};
    for (unsigned w = 0; w < 2; w++) {
        rig_t rig;
        uint32_t block[3] = {64, 1, 1};
        uint64_t p = (uintptr_t)outside;
        char *text = rig_kernel("", OWN "ld.global.u32 %r10, [%rd1];\nadd.s32 %r10, %r10, %r0;\n"
                                        "st.global.u32 [%rd1], %r10;\n");
        memset(outside, 0, sizeof outside);
        rig_begin(&rig, text, "k", rig_exact(64, 1, 1), w);
        rig.launch.ranges = ranges;
        rig.launch.range_count = 1;
        assert_int_equal(rig_run(&rig, ONE, block, &p, 0), CPU_RUN_OK);
        for (uint32_t n = 0; n < 64; n++) {
            assert_int_equal(outside[n], n);
        }
        rig_end(&rig);
        free(text);
    }
}

static void globals_by_table(void **state)
{
    (void)state;
    rig_t rig;
    uint64_t p = base(), table[1] = {base() + 4096};
    uint32_t block[3] = {4, 1, 1};
    char *text = rig_kernel(".global .align 4 .b8 counts[64];",
                            "mov.u64 %rd2, counts;\nst.global.u32 [%rd2+8], 42;\n"
                            "st.global.u32 [counts+12], 43;\n");
    rig_clear();
    rig_begin(&rig, text, "k", rig_exact(4, 1, 1), 0);
    assert_int_equal(cpu_code_header(rig.code)->symbol_count, 1);
    assert_string_equal(cpu_code_symbol(rig.code, 0), "counts");
    rig.launch.globals = table;
    assert_int_equal(rig_run(&rig, ONE, block, &p, 0), CPU_RUN_OK);
    assert_int_equal(words()[1026], 42);
    assert_int_equal(words()[1027], 43);
    rig_end(&rig);
    free(text);
}

/* Every fourth word, three of the four: in the window, up to its very end, and in another range. */
static void spaced_loads(void **state)
{
    (void)state;
    enum { THREADS = 64, WORDS = THREADS * 4 - 1 };
    static _Alignas(64) uint32_t outside[WORDS];
    cpu_range_t ranges[1] = {{(uintptr_t)outside, sizeof outside}};
    const char *body = "ld.global.u64 %rd2, [%rd0];\nmul.wide.u32 %rd1, %r4, 16;\n"
                       "add.s64 %rd1, %rd1, %rd2;\nld.global.u32 %r10, [%rd1+4];\n"
                       "ld.global.u32 %r11, [%rd1];\nld.global.u32 %r12, [%rd1+8];\n"
                       "mad.lo.s32 %r10, %r11, 3, %r10;\nmad.lo.s32 %r10, %r12, 7, %r10;\n"
                       "mul.wide.u32 %rd3, %r4, 4;\nadd.s64 %rd3, %rd3, %rd0;\n"
                       "st.global.u32 [%rd3+64], %r10;\n";
    uint64_t places[4] = {base() + 65536, base() + RIG_WINDOW - sizeof outside, (uintptr_t)outside,
                          base() + RIG_WINDOW - sizeof outside + 4};
    for (unsigned w = 0; w < 2; w++) {
        for (unsigned k = 0; k < 4; k++) {
            rig_t rig;
            uint32_t block[3] = {THREADS, 1, 1};
            uint64_t p = base(), data = places[k];
            uint32_t *x = (uint32_t *)(uintptr_t)data;
            char *text = rig_kernel("", body);
            rig_clear();
            memcpy(rig_memory(), &data, 8);
            for (uint32_t n = 0; n < WORDS - (k == 3); n++) {
                x[n] = n * n;
            }
            rig_begin(&rig, text, "k", rig_exact(THREADS, 1, 1), w);
            rig.launch.ranges = ranges;
            rig.launch.range_count = 1;
            cpu_run_t r = rig_run(&rig, ONE, block, &p, 0);
            assert_int_equal(r, k == 3 ? CPU_RUN_FAULT : CPU_RUN_OK);
            for (uint32_t t = 0; k < 3 && t < THREADS; t++) {
                uint32_t n = 4 * t;
                assert_int_equal(words()[16 + t],
                                 n * n * 3 + (n + 1) * (n + 1) + 7 * (n + 2) * (n + 2));
            }
            if (k == 3) {
                assert_int_equal(rig.launch.fault.address, base() + RIG_WINDOW);
                assert_int_equal(rig.launch.fault.tid[0], THREADS - 1);
            }
            rig_end(&rig);
            free(text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_accesses),
        cmocka_unit_test(faults),
        cmocka_unit_test(masked_lanes_do_not_fault),
        cmocka_unit_test(index_wraps),
        cmocka_unit_test(vectors_and_small_types),
        cmocka_unit_test(spaces),
        cmocka_unit_test(dynamic_shared),
        cmocka_unit_test(other_ranges),
        cmocka_unit_test(globals_by_table),
        cmocka_unit_test(spaced_loads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
