/* With whom memory counts that sessions have left for each other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "gpu-proxy/daemon/px_grants.h"
#include "gpu-proxy/daemon/px_kept.h"

static const px_keeper_t maker = {1, 1}, second = {2, 1}, third = {3, 2};
static px_kept_t *kept;

static int begin(void **state)
{
    (void)state;
    kept = px_kept_create();
    return kept ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    px_kept_destroy(kept);
    return 0;
}

static uint64_t leave(const px_keeper_t *who, uint64_t number, uint64_t size)
{
    px_locker_memory_t memory = {.number = number, .size = size, .ordinal = 3};
    return px_kept_leave(kept, who, &memory);
}

static void add(void *arg, const px_keeper_t *who, uint32_t ordinal, uint64_t bytes)
{
    uint64_t *sums = arg;
    assert_int_equal(ordinal, 3);
    assert_true(who->lease == (who->session == 3 ? 2 : 1));
    sums[who->session] += bytes;
}

/* Bytes that count with the second and the third. */
static void expect(uint64_t with_second, uint64_t with_third)
{
    uint64_t sums[4] = {0};
    px_kept_count(kept, add, sums);
    assert_int_equal(sums[0] + sums[1], 0);
    assert_int_equal(sums[2], with_second);
    assert_int_equal(sums[3], with_third);
}

static void it_counts_with_its_maker_first(void **state)
{
    (void)state;
    uint64_t number = leave(&maker, 0, 100);
    assert_int_not_equal(number, 0);
    assert_int_equal(leave(&maker, number, 100), number); /* under another token */
    assert_true(px_kept_find(kept, number, &second));
    assert_true(px_kept_find(kept, number, &second));
    assert_true(px_kept_find(kept, number, &third));
    expect(0, 0);
    px_kept_take(kept, number);
    expect(0, 0);
    px_kept_take(kept, number); /* the maker has freed it */
    expect(100, 0);
    assert_true(px_kept_release(kept, number, &second));
    expect(100, 0);
    assert_true(px_kept_release(kept, number, &second));
    assert_false(px_kept_release(kept, number, &second));
    expect(0, 100);
    px_kept_end(kept, &second);
    expect(0, 100);
    px_kept_end(kept, &third);
    expect(0, 0);
    assert_false(px_kept_find(kept, number, &third)); /* it is forgotten */
}

static void numbers_are_the_makers(void **state)
{
    (void)state;
    uint64_t one = leave(&maker, 0, 100), two = leave(&maker, 0, 20);
    assert_int_not_equal(one, two);
    uint64_t other = leave(&second, one, 3); /* not its own: it has made another */
    assert_int_not_equal(other, one);
    assert_true(px_kept_find(kept, one, &third));
    assert_true(px_kept_find(kept, two, &third));
    assert_true(px_kept_find(kept, other, &third));
    px_kept_take(kept, two);
    px_kept_take(kept, other);
    expect(0, 23);
    assert_true(px_kept_release(kept, two, &third));
    expect(0, 3);
    assert_int_not_equal(leave(&maker, two, 20), two); /* forgotten: a new one */
}

static void nonsense(void **state)
{
    (void)state;
    px_locker_memory_t nowhere = {.size = 1, .ordinal = PX_DEVICES};
    assert_int_equal(px_kept_leave(kept, &maker, &nowhere), 0);
    assert_false(px_kept_find(kept, 77, &second));
    assert_false(px_kept_release(kept, 0, &second));
    px_kept_take(kept, 0);
    px_kept_take(kept, 77);
    uint64_t number = leave(&maker, 0, 1);
    assert_false(px_kept_release(kept, number, &second));
    for (uint64_t i = 0; i < 1000; i++) { /* many may have it */
        px_keeper_t who = {10 + i, 1};
        assert_true(px_kept_find(kept, number, &who));
    }
    px_kept_take(kept, number);
    for (uint64_t i = 0; i < 999; i++) {
        px_keeper_t who = {10 + i, 1};
        assert_true(px_kept_release(kept, number, &who));
    }
    assert_true(px_kept_find(kept, number, &second)); /* one has it still */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_counts_with_its_maker_first, begin, end),
        cmocka_unit_test_setup_teardown(numbers_are_the_makers, begin, end),
        cmocka_unit_test_setup_teardown(nonsense, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
