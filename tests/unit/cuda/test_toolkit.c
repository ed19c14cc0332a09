/* Every enumerator, size and offset of our CUDA header against the toolkit's. The signatures were
 * compared when cuda_signatures.c compiled. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "tests/unit/cuda/facts.h"

static void same_facts(void **state)
{
    (void)state;
    assert_int_equal(facts_ours_count, facts_toolkit_count);
    assert_true(facts_ours_count > 1000);
    for (unsigned i = 0; i < facts_ours_count; i++) {
        assert_string_equal(facts_ours[i].what, facts_toolkit[i].what);
        if (facts_ours[i].value != facts_toolkit[i].value)
            fail_msg("%s is %lld here and %lld in cuda.h", facts_ours[i].what, facts_ours[i].value,
                     facts_toolkit[i].value);
    }
}

/* Sizes that programs compiled elsewhere rely on, checked on every machine. */
static void known_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        long long value;
    } known[] = {{"sizeof CUlaunchConfig", 56},        {"sizeof CUlaunchAttribute", 72},
                 {"sizeof CUDA_MEMCPY3D_v2", 200},     {"sizeof CUDA_MEMCPY3D_PEER_v1", 200},
                 {"sizeof CUDA_MEMCPY2D_v2", 128},     {"sizeof CUipcMemHandle_v1", 64},
                 {"sizeof CUDA_TEXTURE_DESC_v1", 104}, {"sizeof CUDA_RESOURCE_DESC_v1", 144},
                 {"sizeof CUmemAccessDesc_v1", 12},    {"sizeof CUmemAllocationProp_v1", 32}};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        unsigned k = 0;
        while (k < facts_ours_count && strcmp(facts_ours[k].what, known[i].what) != 0)
            k++;
        if (k == facts_ours_count)
            fail_msg("no %s", known[i].what);
        assert_int_equal(facts_ours[k].value, known[i].value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_facts), cmocka_unit_test(known_sizes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
