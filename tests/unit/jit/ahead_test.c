/* Loops whose addresses are checked before their iterations run: what faults must still fault, with
 * the right code and address, in the iteration in which it does, and nothing else may. */
#include "tests/unit/jit/jit_rig.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LANES = 32, WORDS = RIG_WINDOW / 4 };

static uint32_t *words(void)
{
    return (uint32_t *)rig_memory();
}

static uint64_t address_of(int64_t word)
{
    return (uintptr_t)rig_memory() + (uint64_t)(word * 4);
}

typedef struct {
    cpu_run_t result;
    cpu_fault_t fault;
} outcome_t;

/* One CTA of LANES threads; width 0 is the JIT's own choice. */
static outcome_t run_width(const char *body, uint64_t p, unsigned width)
{
    rig_t rig;
    char *text = rig_kernel("", body);
    rig_begin(&rig, text, "k", rig_exact(LANES, 1, 1), width);
    outcome_t o = {.result =
                       rig_run(&rig, (uint32_t[]){1, 1, 1}, (uint32_t[]){LANES, 1, 1}, &p, 0)};
    o.fault = rig.launch.fault;
    rig_end(&rig);
    free(text);
    return o;
}

static outcome_t run(const char *body, uint64_t p)
{
    return run_width(body, p, 0);
}

static void expect_fault(outcome_t o, int32_t code, uint64_t address)
{
    assert_int_equal(o.result, CPU_RUN_FAULT);
    assert_int_equal(o.fault.code, code);
    assert_int_equal(o.fault.address, address);
}

/* Stores the iteration's number to p[thread] and goes on LANES words, `n` times. */
#define STORE_ROWS(n)                                                                              \
    "mov.u32 %r5, %tid.x;\nmul.wide.u32 %rd1, %r5, 4;\n"                                           \
    "add.s64 %rd1, %rd1, %rd0;\nmov.u32 %r10, 0;\n"                                                \
    "$L:\nadd.s32 %r11, %r10, 7;\nst.global.u32 [%rd1], %r11;\nadd.s64 %rd1, %rd1, 128;\n"         \
    "add.s32 %r10, %r10, 1;\nsetp.lt.u32 %p1, %r10, " n ";\n@%p1 bra $L;\n"

static void every_row_is_stored(void **state)
{
    (void)state;
    rig_clear();
    assert_int_equal(run(STORE_ROWS("5000"), address_of(0)).result, CPU_RUN_OK);
    for (uint32_t n = 0; n < 5000; n++) {
        assert_int_equal(words()[n * LANES], n + 7);
        assert_int_equal(words()[n * LANES + LANES - 1], n + 7);
    }
    assert_int_equal(words()[5000 * LANES], 0);
}

static void the_last_row_may_end_with_the_memory(void **state)
{
    (void)state;
    rig_clear();
    assert_int_equal(run(STORE_ROWS("10"), address_of(WORDS - 10 * LANES)).result, CPU_RUN_OK);
    assert_int_equal(words()[WORDS - 1], 16);
}

static void only_the_last_iteration_is_outside(void **state)
{
    (void)state;
    rig_clear();
    /* the last row lies half outside: its first lane that does is the one that faults */
    outcome_t o = run(STORE_ROWS("10"), address_of(WORDS - 10 * LANES + LANES / 2));
    expect_fault(o, CPU_FAULT_ADDRESS, address_of(WORDS));
    assert_int_equal(o.fault.tid[0], LANES / 2);
    assert_int_equal(o.fault.write, 1);
    assert_int_equal(words()[WORDS - LANES / 2 - 1], 15);
}

/* Sums p[-1], p[-2]... until a word is 0: nothing says how long it will be. */
static void stops_where_the_data_say(void **state)
{
    (void)state;
    const char *body =
        "mov.u32 %r20, 0;\nmov.u64 %rd1, %rd0;\n"
        "$L:\nld.global.u32 %r11, [%rd1];\nadd.s32 %r20, %r20, %r11;\n"
        "add.s64 %rd1, %rd1, -4;\nsetp.ne.u32 %p1, %r11, 0;\n@%p1 bra $L;\n"
        "mov.u32 %r5, %tid.x;\nmul.wide.u32 %rd2, %r5, 4;\nadd.s64 %rd2, %rd2, %rd0;\n"
        "st.global.u32 [%rd2+4], %r20;\n";
    rig_clear();
    for (uint32_t n = 1; n <= 100; n++) {
        words()[n] = n;
    }
    assert_int_equal(run(body, address_of(100)).result,
                     CPU_RUN_OK); /* word 0 is the first there is */
    assert_int_equal(words()[101], 5050);
    assert_int_equal(words()[100 + LANES], 5050);
    words()[0] = 1;
    expect_fault(run(body, address_of(100)), CPU_FAULT_ADDRESS, address_of(-1));
}

/* A condition in the middle leaves the loop before the counter does. */
static void leaves_in_the_middle(void **state)
{
    (void)state;
    const char *body =
        "mov.u32 %r10, 0;\nmov.u64 %rd1, %rd0;\n"
        "$L:\nld.global.u32 %r11, [%rd1];\nsetp.eq.u32 %p1, %r11, 9;\n@%p1 bra $E;\n"
        "st.global.u32 [%rd1+4], 9;\nadd.s64 %rd1, %rd1, 4;\nadd.s32 %r10, %r10, 1;\n"
        "setp.lt.s32 %p2, %r10, 1000;\n@%p2 bra $L;\n$E:\n";
    rig_clear();
    assert_int_equal(run(body, address_of(WORDS - 2)).result, CPU_RUN_OK);
    assert_int_equal(words()[WORDS - 1], 9);
}

static void no_iteration_at_all(void **state)
{
    (void)state;
    const char *body = "ld.global.u32 %r12, [%rd0];\nmov.u32 %r10, 0;\nmov.u64 %rd1, 8;\n"
                       "$L:\nsetp.ge.s32 %p1, %r10, %r12;\n@%p1 bra $E;\n"
                       "st.global.u32 [%rd1], 1;\nadd.s64 %rd1, %rd1, 4;\nadd.s32 %r10, %r10, 1;\n"
                       "bra $L;\n$E:\nst.global.u32 [%rd0+4], 5;\n";
    rig_clear();
    assert_int_equal(run(body, address_of(0)).result, CPU_RUN_OK);
    assert_int_equal(words()[1], 5);
    words()[0] = 1;
    expect_fault(run(body, address_of(0)), CPU_FAULT_ADDRESS, 8);
}

/* index = start, start + 1...; reads base + 4 * index, where the third index has wrapped. */
static void indices_that_wrap(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        uint32_t start;
        int64_t first, wrapped;
    } CASES[] = {
        {"s32", 0x7ffffffe, 0x7ffffffe, -(int64_t)0x80000000},
        {"u32", 0xfffffffe, 0xfffffffe, 0},
    };
    for (unsigned c = 0; c < 2; c++) {
        char body[600];
        snprintf(body, sizeof body,
                 "mov.u32 %%r11, %u;\nmov.u32 %%r10, 0;\n$L:\nmul.wide.%s %%rd1, %%r11, 4;\n"
                 "add.s64 %%rd1, %%rd1, %%rd0;\nld.global.u32 %%r12, [%%rd1];\n"
                 "add.s32 %%r11, %%r11, 1;\nadd.s32 %%r10, %%r10, 1;\n"
                 "setp.lt.s32 %%p1, %%r10, 4;\n@%%p1 bra $L;\n",
                 CASES[c].start, CASES[c].type);
        uint64_t base = address_of(1000) - (uint64_t)CASES[c].first * 4;
        expect_fault(run(body, base), CPU_FAULT_ADDRESS, base + (uint64_t)CASES[c].wrapped * 4);
    }
}

/* A 32-bit address in shared memory that wraps is outside, however the offset brings it back. */
static void shared_addresses_that_wrap(void **state)
{
    (void)state;
    const char *body = "mov.u32 %r11, 8;\nmov.u32 %r10, 0;\n$L:\nst.shared.u32 [%r11+8], %r10;\n"
                       "add.s32 %r11, %r11, -4;\nadd.s32 %r10, %r10, 1;\n"
                       "setp.lt.s32 %p1, %r10, 4;\n@%p1 bra $L;\n";
    rig_t rig;
    uint64_t p = address_of(0);
    char *text = rig_kernel(".shared .align 4 .b8 s[64];", body);
    rig_begin(&rig, text, "k", rig_exact(LANES, 1, 1), 0);
    uint32_t grid[3] = {1, 1, 1}, block[3] = {LANES, 1, 1};
    assert_int_equal(rig_run(&rig, grid, block, &p, 64), CPU_RUN_FAULT);
    assert_int_equal(rig.launch.fault.code, CPU_FAULT_ADDRESS);
    assert_int_equal(rig.launch.fault.address, (uint64_t)0xfffffffc + 8);
    rig_end(&rig);
    free(text);
}

/* p[0] holds the step in bytes; three stores. */
static outcome_t store_with_step(uint64_t step, uint64_t at)
{
    memcpy(rig_memory(), &step, 8);
    memcpy(rig_memory() + 8, &at, 8);
    return run("ld.global.u64 %rd2, [%rd0];\nld.global.u64 %rd1, [%rd0+8];\nmov.u32 %r10, 0;\n$L:\n"
               "st.global.u32 [%rd1], 3;\nadd.s64 %rd1, %rd1, %rd2;\nadd.s32 %r10, %r10, 1;\n"
               "setp.ne.s32 %p1, %r10, 3;\n@%p1 bra $L;\n",
               address_of(0));
}

static void steps_of_all_kinds(void **state)
{
    (void)state;
    rig_clear();
    assert_int_equal(store_with_step(0, address_of(10)).result, CPU_RUN_OK);
    assert_int_equal(store_with_step((uint64_t)-4, address_of(WORDS - 1)).result, CPU_RUN_OK);
    assert_int_equal(words()[WORDS - 3], 3);
    assert_int_equal(words()[WORDS - 4], 0);
    expect_fault(store_with_step((uint64_t)-8, address_of(3)), CPU_FAULT_ADDRESS, address_of(-1));
    expect_fault(store_with_step(6, address_of(20)), CPU_FAULT_MISALIGNED, address_of(20) + 6);
    expect_fault(store_with_step(4, address_of(20) + 2), CPU_FAULT_MISALIGNED, address_of(20) + 2);
    /* twice this step comes back to where it began */
    expect_fault(store_with_step((uint64_t)1 << 63, address_of(20)), CPU_FAULT_ADDRESS,
                 address_of(20) + ((uint64_t)1 << 63));
    expect_fault(store_with_step((uint64_t)1 << 41, address_of(20)), CPU_FAULT_ADDRESS,
                 address_of(20) + ((uint64_t)1 << 41));
}

/* Two ranges with a hole between them, none of them the window: a loop may run in each, not across. */
static void ranges_beside_the_window(void **state)
{
    (void)state;
    enum { HALF = 4096 };
    char *text = rig_kernel("", STORE_ROWS("8"));
    for (unsigned c = 0; c < 3; c++) {
        cpu_range_t ranges[2] = {{address_of(0), HALF * 4}, {address_of(HALF + 1), HALF * 4}};
        uint64_t at[3] = {address_of(HALF - 8 * LANES), address_of(HALF + 1),
                          address_of(HALF - 7 * LANES)};
        rig_t rig;
        rig_clear();
        rig_begin(&rig, text, "k", rig_exact(LANES, 1, 1), 0);
        /* rig_run gives the window; this asks for none of it */
        cpu_launch_t *l = &rig.launch;
        cpu_scratch_t s = cpu_code_scratch(rig.code, (uint32_t[]){LANES, 1, 1}, 0);
        assert_true(s.shared_bytes + s.local_bytes + s.context_bytes == 0);
        *l = (cpu_launch_t){.helpers = cpu_helpers(),
                            .params = (const uint8_t *)&at[c],
                            .param_bytes = 8,
                            .cancel = &rig.cancel,
                            .ranges = ranges,
                            .range_count = 2,
                            .grid = {1, 1, 1},
                            .block = {LANES, 1, 1}};
        cpu_run_t r = cpu_code_run_cta(rig.code, l);
        if (c < 2) {
            assert_int_equal(r, CPU_RUN_OK);
            assert_int_equal(words()[(at[c] - address_of(0)) / 4 + 8 * LANES - 1], 14);
        } else {
            assert_int_equal(r, CPU_RUN_FAULT);
            assert_int_equal(l->fault.address, address_of(HALF));
        }
        rig_end(&rig);
    }
    free(text);
}

/* ---- random loops against the oracle ---- */

typedef struct {
    uint32_t seed;
    char text[8192];
    size_t used;
} maker_t;

static uint32_t pick(maker_t *m, uint32_t n)
{
    m->seed = m->seed * 1664525u + 1013904223u;
    return (m->seed >> 10) % n;
}

__attribute__((format(printf, 2, 3))) static void emit(maker_t *m, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    m->used += (size_t)vsnprintf(m->text + m->used, sizeof m->text - m->used, format, args);
    va_end(args);
    assert_true(m->used < sizeof m->text);
}

/* A number near something that wraps or ends, or a small one. */
static int32_t number(maker_t *m)
{
    static const int32_t NEAR[] = {0, 0, 0, 0, 100, 1 << 20, INT32_MAX, INT32_MIN};
    return (int32_t)((uint32_t)NEAR[pick(m, 8)] + pick(m, 16) - 4);
}

/* Reads through pointers, indices and products; writes to the thread's own row. */
static void make_loop(maker_t *m)
{
    static const char *const CMP[] = {"lt.s32", "le.s32", "gt.s32", "ge.s32", "ne.s32",
                                      "lt.u32", "le.u32", "gt.u32", "ne.u32", "ge.u32"};
    static const char *const SIGN[] = {"s32", "u32"};
    uint32_t start = pick(m, 3) == 0 ? pick(m, 100) : 0;
    int32_t step = (int32_t)pick(m, 7) - 3;
    emit(m,
         "mov.u32 %%r5, %%tid.x;\nmov.u32 %%r20, 1;\nmul.wide.u32 %%rd9, %%r5, 512;\n"
         "add.s64 %%rd9, %%rd9, %%rd0;\nmov.u32 %%r10, %u;\nmov.u32 %%r19, 0;\n",
         start);
    emit(m, "add.s32 %%r11, %%r5, %d;\n", number(m));
    emit(m,
         "mul.wide.u32 %%rd1, %%r5, 4;\nadd.s64 %%rd1, %%rd1, %%rd0;\nadd.s64 %%rd1, %%rd1, %d;\n",
         (int)pick(m, 40) * 4);
    emit(m, "ld.global.u32 %%r13, [%%rd0];\nadd.s32 %%r13, %%r13, %d;\n", (int)pick(m, 9) - 4);
    emit(m, "$L:\n");
    unsigned count = 1 + pick(m, 4);
    for (unsigned n = 0; n < count; n++) {
        switch (pick(m, 6)) {
        case 0:
            emit(m, "add.s64 %%rd1, %%rd1, %d;\n", ((int)pick(m, 9) - 4) * 4);
            break;
        case 1:
            emit(m, "ld.global.u32 %%r12, [%%rd1+%d];\nmad.lo.s32 %%r20, %%r20, 31, %%r12;\n",
                 ((int)pick(m, 9) - 2) * 4);
            break;
        case 2:
            emit(m,
                 "mul.wide.%s %%rd2, %%r11, 4;\nadd.s64 %%rd3, %%rd2, %%rd0;\n"
                 "ld.global.u32 %%r12, [%%rd3];\nmad.lo.s32 %%r20, %%r20, 31, %%r12;\n",
                 SIGN[pick(m, 2)]);
            break;
        case 3:
            emit(m, "add.s32 %%r11, %%r11, %%r13;\n");
            break;
        case 4:
            emit(m,
                 "mad.lo.s32 %%r14, %%r10, %u, %%r5;\nmad.wide.%s %%rd4, %%r14, 4, %%rd0;\n"
                 "ld.global.u32 %%r12, [%%rd4+4];\nmad.lo.s32 %%r20, %%r20, 31, %%r12;\n",
                 pick(m, 40), SIGN[pick(m, 2)]);
            break;
        default:
            emit(m, "mul.wide.u32 %%rd5, %%r19, 4;\nadd.s64 %%rd5, %%rd5, %%rd9;\n"
                    "st.global.u32 [%%rd5+65536], %%r20;\n");
        }
    }
    if (pick(m, 3) == 0) {
        emit(m, "setp.eq.u32 %%p2, %%r19, %u;\n@%%p2 bra $E;\n", pick(m, 40));
    }
    emit(m, "add.s32 %%r19, %%r19, 1;\nsetp.gt.u32 %%p3, %%r19, 100;\n@%%p3 bra $E;\n");
    emit(m, "add.s32 %%r10, %%r10, %d;\nsetp.%s %%p1, %%r10, %d;\n@%s%%p1 bra $L;\n$E:\n", step,
         CMP[pick(m, 10)], number(m), pick(m, 4) == 0 ? "!" : "");
    emit(m, "mul.wide.u32 %%rd5, %%r5, 4;\nadd.s64 %%rd5, %%rd5, %%rd0;\n"
            "st.global.u32 [%%rd5+131072], %%r20;\n");
}

static void random_loops_like_the_oracle(void **state)
{
    (void)state;
    enum { BYTES = 131072 + LANES * 4 };
    const char *wanted = getenv("JIT_RANDOM_KERNELS");
    uint32_t kernels = wanted != NULL ? (uint32_t)atoi(wanted) * 4 : 40, faults = 0;
    uint8_t *first = malloc(BYTES);
    assert_non_null(first);
    for (uint32_t seed = 1; seed <= kernels; seed++) {
        maker_t m = {.seed = seed * 2654435761u + 99};
        make_loop(&m);
        outcome_t o[2];
        for (unsigned k = 0; k < 2; k++) {
            rig_clear();
            for (uint32_t n = 1; n < 8192; n++) {
                words()[n] = n * 2654435761u;
            }
            o[k] = run_width(m.text, address_of(0), k == 0 ? 1 : 0);
            if (k == 0) {
                memcpy(first, rig_memory(), BYTES);
            }
        }
        faults += o[0].result != CPU_RUN_OK;
        if (o[0].result != o[1].result ||
            (o[0].result != CPU_RUN_OK && o[0].fault.code != o[1].fault.code) ||
            (o[0].result == CPU_RUN_OK && memcmp(first, rig_memory(), BYTES) != 0)) {
            fail_msg("seed %u: result %d, oracle %d\n%s", seed, o[1].result, o[0].result, m.text);
        }
    }
    free(first);
    assert_true(faults > 0 && faults < kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_stored),
        cmocka_unit_test(the_last_row_may_end_with_the_memory),
        cmocka_unit_test(only_the_last_iteration_is_outside),
        cmocka_unit_test(stops_where_the_data_say),
        cmocka_unit_test(leaves_in_the_middle),
        cmocka_unit_test(no_iteration_at_all),
        cmocka_unit_test(indices_that_wrap),
        cmocka_unit_test(shared_addresses_that_wrap),
        cmocka_unit_test(steps_of_all_kinds),
        cmocka_unit_test(ranges_beside_the_window),
        cmocka_unit_test(random_loops_like_the_oracle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
