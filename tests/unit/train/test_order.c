/* Shares of an epoch: every sample exactly once, with any number of workers; the same seed, the same
 * order. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "worker/train/wk_order.h"

static void test_iterations(void **state)
{
    (void)state;
    assert_int_equal(wk_order_iterations(60000, 128), 469);
    assert_int_equal(wk_order_iterations(60000, 60000), 1);
    assert_int_equal(wk_order_iterations(60000, 70000), 1);
    assert_int_equal(wk_order_iterations(1, 1), 1);
}

static void test_iterations_cover_a_share(void **state)
{
    (void)state;
    static const uint32_t worlds[] = {1, 2, 3, 7, 128};
    for (size_t w = 0; w < sizeof(worlds) / sizeof(*worlds); w++) {
        uint32_t world = worlds[w], iterations = wk_order_iterations(60000, 128), seen = 0;
        for (uint32_t rank = 0; rank < world; rank++) {
            uint32_t count = (uint32_t)(60000ull * (rank + 1) / world - 60000ull * rank / world);
            uint32_t widest = wk_order_widest(count, iterations);
            assert_int_equal(wk_order_start(count, iterations, 0), 0);
            assert_int_equal(wk_order_start(count, iterations, iterations), count);
            for (uint32_t t = 0; t < iterations; t++) {
                uint32_t size =
                    wk_order_start(count, iterations, t + 1) - wk_order_start(count, iterations, t);
                assert_in_range(size, widest - 1, widest);
                seen += size;
            }
        }
        assert_int_equal(seen, 60000);
    }
}

static void test_shuffle_is_a_permutation(void **state)
{
    (void)state;
    enum { COUNT = 1000, FIRST = 500 };
    uint32_t order[COUNT], again[COUNT], moved = 0;
    uint8_t seen[COUNT] = {0};
    wk_order_shuffle(7, 3, FIRST, COUNT, order);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_in_range(order[i], FIRST, FIRST + COUNT - 1);
        assert_int_equal(seen[order[i] - FIRST]++, 0);
        moved += order[i] != FIRST + i;
    }
    assert_true(moved > COUNT * 9 / 10);
    wk_order_shuffle(7, 3, FIRST, COUNT, again);
    assert_memory_equal(order, again, sizeof(order));
    wk_order_shuffle(7, 4, FIRST, COUNT, again);
    assert_memory_not_equal(order, again, sizeof(order));
    wk_order_shuffle(8, 3, FIRST, COUNT, again);
    assert_memory_not_equal(order, again, sizeof(order));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_iterations),
        cmocka_unit_test(test_iterations_cover_a_share),
        cmocka_unit_test(test_shuffle_is_a_permutation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
