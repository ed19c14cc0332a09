/* alloca, stacksave, stackrestore: a thread's own memory of a size that it computes. */
#include "tests/ptx/call_help.h"

/* Sum of (i * 7 + tid) over an array of x + 1 elements, written first and read backwards. */
static const char C_PLAIN[] =
    "add.u32 %r4, %r3, 1; mul.wide.u32 %d6, %r4, 4; alloca.u64 %d7, %d6, 16; mov.u32 %r5, 0;\n"
    "mov.u64 %d8, %d7;\nFill: mad.lo.u32 %r6, %r5, 7, %r1; st.local.u32 [%d8], %r6;\n"
    "add.u64 %d8, %d8, 4; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, %r4; @%p1 bra Fill;\n"
    "cvta.local.u64 %d9, %d7; mov.u32 %r9, 0;\n"
    "Sum: add.u32 %r5, %r5, -1; mul.wide.u32 %d6, %r5, 4; add.u64 %d8, %d9, %d6;\n"
    "ld.u32 %r6, [%d8]; add.u32 %r9, %r9, %r6; setp.ne.u32 %p1, %r5, 0; @%p1 bra Sum;";

static uint32_t ref_plain(uint32_t tid, uint32_t x)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i <= x; i++)
        sum += i * 7 + tid;
    return sum;
}

/* 32-bit results, and one that a predicate leaves out */
static const char C_NARROW[] =
    "alloca.u32 %r4, 8; setp.gt.u32 %p1, %r3, 7; mov.u32 %r5, 0; @%p1 alloca.u32 %r5, 4, 8;\n"
    "st.local.u32 [%r4+4], %r1; mov.u32 %r9, 0; @%p1 st.local.u32 [%r5], %r3;\n"
    "@%p1 ld.local.u32 %r9, [%r5]; ld.local.u32 %r6, [%r4+4]; mad.lo.u32 %r9, %r6, 100, %r9;";

static uint32_t ref_narrow(uint32_t tid, uint32_t x)
{
    return tid * 100 + (x > 7 ? x : 0);
}

/* More than the stack holds, if it were not given back: by stackrestore, in a loop */
static const char C_LOOP[] =
    "mov.u32 %r5, 0; mov.u32 %r9, 0;\nAgain: stacksave.u64 %d6; alloca.u64 %d7, 400;\n"
    "add.u32 %r6, %r5, %r1; st.local.u32 [%d7+396], %r6; alloca.u64 %d8, 400;\n"
    "st.local.u32 [%d8], %r3; ld.local.u32 %r6, [%d7+396]; add.u32 %r9, %r9, %r6;\n"
    "stackrestore.u64 %d6; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 50; @%p1 bra Again;";

static uint32_t ref_loop(uint32_t tid, uint32_t x)
{
    (void)x;
    return 50 * tid + 49 * 50 / 2;
}

/* By the function's return: spliced (one call), there once (many), and recursive. */
#define OWN                                                                                        \
    "{ .reg .b32 %r<9>; .reg .b64 %d<4>; .reg .pred %p<2>; ld.param.u32 %r1, [n];\n"               \
    "alloca.u64 %d1, 200; st.local.u32 [%d1+196], %r1; mul.lo.u32 %r2, %r1, 3;\n"

static const char F_SPLICED[] =
    ".func (.param .b32 ret) own(.param .b32 n)\n" OWN
    "ld.local.u32 %r3, [%d1+196]; add.u32 %r2, %r2, %r3; st.param.b32 [ret], %r2; ret; }\n";

static const char C_SPLICED[] =
    "mov.u32 %r5, 0; mov.u32 %r9, 0;\nAgain: add.u32 %r6, %r3, %r5; call (%r7), own, (%r6);\n"
    "add.u32 %r9, %r9, %r7; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 20; @%p1 bra Again;";

static uint32_t ref_spliced(uint32_t tid, uint32_t x)
{
    (void)tid;
    return 4 * (20 * x + 19 * 20 / 2);
}

static const char F_DEEP[] =
    ".func (.param .b32 ret) deep(.param .b32 n)\n" OWN
    "setp.eq.u32 %p1, %r1, 0; @%p1 bra Done; add.u32 %r4, %r1, -1; call (%r5), deep, (%r4);\n"
    "ld.local.u32 %r3, [%d1+196]; add.u32 %r2, %r3, %r5; add.u32 %r4, %r1, -1;\n"
    "setp.gt.u32 %p1, %r4, 2; @%p1 bra Done; call (%r5), deep, (0); add.u32 %r2, %r2, %r5;\n"
    "Done: st.param.b32 [ret], %r2; ret; }\n";

static uint32_t deep(uint32_t n)
{
    uint32_t sum = n == 0 ? 0 : n + deep(n - 1);
    return n != 0 && n - 1 <= 2 ? sum + deep(0) : sum;
}

static uint32_t ref_deep(uint32_t tid, uint32_t x)
{
    return deep(x % 3) + deep(tid % 3);
}

static const char C_DEEP[] =
    "rem.u32 %r4, %r3, 3; rem.u32 %r5, %r1, 3; call (%r6), deep, (%r4); call (%r7), deep, (%r5);\n"
    "add.u32 %r9, %r6, %r7;";

static const call_case_t cases[] = {
    {"plain", "", C_PLAIN, ref_plain},       {"narrow", "", C_NARROW, ref_narrow},
    {"loop", "", C_LOOP, ref_loop},          {"spliced", F_SPLICED, C_SPLICED, ref_spliced},
    {"recursive", F_DEEP, C_DEEP, ref_deep},
};

static void test_values(void **state)
{
    (void)state;
    call_check(cases, sizeof cases / sizeof cases[0], 60);
}

static void overflows(const char *code)
{
    assert_int_equal(call_run("", code, NULL), CUDA_ERROR_HARDWARE_STACK_ERROR);
    pt_new_context();
}

static void test_overflow(void **state)
{
    uint32_t out[64];
    (void)state;
    /* A thread gets what the limit says, and some more, since registers lie there too. */
    PT_CHECK(pt_cuda()->cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024));
    assert_int_equal(call_run("",
                              "alloca.u64 %d6, 1024; st.local.u32 [%d6+1020], %r1;\n"
                              "ld.local.u32 %r9, [%d6+1020];",
                              out),
                     CUDA_SUCCESS);
    for (unsigned i = 0; i < 64; i++)
        assert_int_equal(out[i], i);
    overflows("alloca.u64 %d6, 4096; mov.u32 %r9, 0;");
    overflows("alloca.u64 %d6, 1000; alloca.u64 %d6, 1000; alloca.u64 %d6, 1000; mov.u32 %r9, 0;");
    overflows("alloca.u64 %d6, 0xffffffffffffffff; mov.u32 %r9, 0;");
    overflows("mov.u64 %d6, 0x7fffffffffffff00; stackrestore.u64 %d6; alloca.u64 %d6, 1;\n"
              "mov.u32 %r9, 0;");
    /* One thread of 64 is enough. */
    overflows("setp.eq.u32 %p1, %r1, 63; selp.b64 %d6, 5000, 16, %p1; alloca.u64 %d7, %d6;\n"
              "mov.u32 %r9, 0;");
    PT_CHECK(pt_cuda()->cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 8192));
    assert_int_equal(call_run("",
                              "alloca.u64 %d6, 8000; st.local.u32 [%d6+7996], %r1;\n"
                              "ld.local.u32 %r9, [%d6+7996];",
                              out),
                     CUDA_SUCCESS);
    assert_int_equal(out[63], 63);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
