/* When a busy poll is worth it: two ends that call each other, idle ones, long work, one core for both. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/link/gb_spin.h"

enum { MAX = 100000, NEVER = 1000000000 };

/* One wait for what comes `after` that time; a sleeper comes back `wake` later. Returns when it has it. */
static uint64_t wait_for(gb_spin_t *s, uint64_t after, uint64_t wake, uint64_t *polled)
{
    uint64_t budget = gb_spin_budget(s);
    if (budget > after) {
        *polled += after;
        gb_spin_hit(s, after);
        return after;
    }
    *polled += budget;
    if (budget)
        gb_spin_miss(s);
    gb_spin_slept(s, after + wake);
    return after + wake;
}

static void forget(gb_spin_t *s)
{
    uint64_t polled = 0;
    for (int i = 0; i < 100; i++)
        wait_for(s, NEVER, 0, &polled);
    assert_int_equal(gb_spin_budget(s), 0);
    assert_true(polled <= 2 * MAX); /* that is all that an idle connection ever costs */
}

static void idle_costs_nothing(void **state)
{
    gb_spin_t s;
    (void)state;
    gb_spin_init(&s, MAX);
    assert_int_equal(gb_spin_budget(&s), MAX);
    forget(&s);
}

static void none_where_there_is_none(void **state)
{
    gb_spin_t s;
    uint64_t polled = 0;
    (void)state;
    gb_spin_init(&s, 0);
    for (int i = 0; i < 10000; i++)
        wait_for(&s, 500, 5000, &polled);
    assert_int_equal(polled, 0);
}

/* Two ends that have both unlearnt it, on cores that take long to wake, must find each other awake after a
 * few calls, and stay so. */
static void two_sleepers_wake_each_other(void **state)
{
    (void)state;
    for (uint64_t wake = 5000; wake <= 45000; wake += 5000) {
        gb_spin_t client, session;
        uint64_t polled = 0, idle = NEVER, last = NEVER;
        gb_spin_init(&client, MAX);
        gb_spin_init(&session, MAX);
        forget(&client);
        forget(&session);
        for (int i = 0; i < 20; i++) {
            /* the session gets the call after `idle`; how long it took it to notice is the client's wait */
            uint64_t noticed = wait_for(&session, idle, wake, &polled) - idle;
            last = wait_for(&client, noticed + 500, wake, &polled);
            idle = last - noticed; /* from the session's answer to the client's next call */
        }
        assert_int_equal(last, 500);
    }
}

/* Both ends on one core: the answer comes only when the poll is over. */
static void one_core_is_noticed(void **state)
{
    gb_spin_t s;
    uint64_t polled = 0, all = 0;
    (void)state;
    gb_spin_init(&s, MAX);
    for (int i = 0; i < 20000; i++) {
        uint64_t budget = gb_spin_budget(&s);
        polled += budget;
        if (budget)
            gb_spin_miss(&s);
        gb_spin_slept(&s, budget + 10000);
        all += budget + 10000;
    }
    assert_true(polled * 100 <= all);
}

/* Work that takes about as long as the longest poll: most of the time nobody polls for it. */
static void long_work_is_slept_through(void **state)
{
    gb_spin_t s;
    uint64_t polled = 0;
    (void)state;
    for (uint64_t work = 60000; work < 2 * MAX; work += 10000) {
        gb_spin_init(&s, MAX);
        polled = 0;
        for (int i = 0; i < 20000; i++)
            wait_for(&s, work, 5000, &polled);
        assert_true(polled * 100 <= 20000 * work);
        /* and when the answers are quick again, so is the poll */
        for (int i = 0; i < 5000; i++)
            wait_for(&s, 1000, 5000, &polled);
        assert_int_equal(gb_spin_budget(&s), MAX);
    }
}

static void one_miss_is_no_reason(void **state)
{
    gb_spin_t s;
    uint64_t polled = 0;
    (void)state;
    gb_spin_init(&s, MAX);
    for (int i = 0; i < 100; i++) { /* bursts of calls with long pauses */
        wait_for(&s, NEVER, 50000, &polled);
        for (int k = 0; k < 10; k++)
            assert_int_equal(wait_for(&s, 1000, 50000, &polled), 1000);
    }
    assert_int_equal(gb_spin_budget(&s), MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_costs_nothing),           cmocka_unit_test(none_where_there_is_none),
        cmocka_unit_test(two_sleepers_wake_each_other), cmocka_unit_test(one_core_is_noticed),
        cmocka_unit_test(long_work_is_slept_through),   cmocka_unit_test(one_miss_is_no_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
