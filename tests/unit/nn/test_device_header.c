/* The device header compiles to PTX, and gable_embed() puts the text into a program. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

extern const char header_ptx[], header_ptx_end[];

static void test_text_is_embedded_whole(void **state)
{
    (void)state;
    assert_true((uintptr_t)header_ptx_end > (uintptr_t)header_ptx);
    assert_int_equal(*header_ptx_end, 0);
    assert_int_equal(strlen(header_ptx), header_ptx_end - header_ptx);
}

static void test_kernel_uses_what_it_names(void **state)
{
    static const char *const parts[] = {
        ".target sm_70", ".entry header_all", "ld.global.v4.f32", "bar.sync",   "shfl.sync.bfly",
        "vote.sync",     "activemask.b32",    "ex2.approx.f32",   "lg2.approx", "sqrt.rn.f32",
        "rsqrt.approx",  "fma.rn.f32",        "popc.b32",         ".shared",    ".maxntid",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        if (!strstr(header_ptx, parts[i]))
            fail_msg("the PTX lacks '%s'", parts[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_is_embedded_whole),
        cmocka_unit_test(test_kernel_uses_what_it_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
