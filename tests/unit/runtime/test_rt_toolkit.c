/* Every enumerator, size and offset of our runtime types against the toolkit's. The signatures were
 * compared when rt_signatures.c compiled. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/cuda/facts.h"

static void same_facts(void **state)
{
    (void)state;
    assert_int_equal(facts_ours_count, facts_toolkit_count);
    assert_true(facts_ours_count > 250);
    for (unsigned i = 0; i < facts_ours_count; i++) {
        assert_string_equal(facts_ours[i].what, facts_toolkit[i].what);
        if (facts_ours[i].value != facts_toolkit[i].value)
            fail_msg("%s is %lld here and %lld in the toolkit", facts_ours[i].what,
                     facts_ours[i].value, facts_toolkit[i].value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_facts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
