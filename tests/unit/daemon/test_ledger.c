/* Who may hold how much device memory: over all sessions of a device, and of a lease. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gpu-proxy/daemon/px_ledger.h"

#define MIB(n) ((uint64_t)(n) << 20)

typedef struct {
    px_share_t one, two, three;
    px_share_t *all[4];
    uint64_t memory[PX_DEVICES];
} fixture_t;

static px_account_answer_t want(fixture_t *f, px_share_t *mine, uint32_t ordinal, uint64_t bytes)
{
    px_account_wish_t wish = {1, ordinal, bytes};
    return px_ledger_decide(f->all, 4, mine, f->memory, &wish);
}

static fixture_t fresh(void)
{
    fixture_t f = {.one = {.lease = 1}, .two = {.lease = 1}, .three = {.lease = 2}};
    return f;
}

static void use(fixture_t *f)
{
    f->all[0] = &f->one;
    f->all[1] = NULL; /* one whose share could not be made */
    f->all[2] = &f->two;
    f->all[3] = &f->three;
}

static void the_device_is_for_all(void **state)
{
    fixture_t f = fresh();
    (void)state;
    use(&f);
    f.memory[0] = MIB(256);
    px_account_answer_t a = want(&f, &f.one, 0, MIB(200));
    assert_int_equal(a.granted, MIB(200));
    assert_int_equal(a.left, MIB(56));
    a = want(&f, &f.three, 0, MIB(57));
    assert_int_equal(a.granted, 0);
    assert_int_equal(a.left, MIB(56));
    assert_int_equal(want(&f, &f.three, 0, MIB(56)).granted, MIB(56));
    a = want(&f, &f.one, 0, MIB(201)); /* what it has it keeps */
    assert_int_equal(a.granted, MIB(200));
    assert_int_equal(a.left, 0);
    assert_int_equal(want(&f, &f.one, 0, MIB(100)).left, MIB(100));
    assert_int_equal(want(&f, &f.two, 0, MIB(100)).granted, MIB(100));
    assert_int_equal(want(&f, &f.one, 1, MIB(999)).granted, MIB(999)); /* a driver that counts */
}

static void a_lease_is_for_its_sessions(void **state)
{
    fixture_t f = fresh();
    (void)state;
    use(&f);
    f.one.quota = f.two.quota = MIB(64);
    f.three.quota = MIB(32);
    assert_int_equal(want(&f, &f.one, 0, MIB(40)).granted, MIB(40));
    px_account_answer_t a = want(&f, &f.two, 0, MIB(25));
    assert_int_equal(a.granted, 0);
    assert_int_equal(a.left, MIB(24));
    assert_int_equal(want(&f, &f.two, 0, MIB(24)).granted, MIB(24));
    assert_int_equal(want(&f, &f.two, 1, MIB(64)).granted, MIB(64)); /* on each device */
    assert_int_equal(want(&f, &f.three, 0, MIB(33)).granted, 0);
    assert_int_equal(want(&f, &f.three, 0, MIB(32)).granted, MIB(32));
}

/* What a session has of memory whose maker is gone takes room like its own, and is not given up with it. */
static void kept_memory_counts(void **state)
{
    fixture_t f = fresh();
    (void)state;
    use(&f);
    f.memory[0] = MIB(256);
    f.one.quota = f.two.quota = MIB(64);
    f.one.kept[0] = MIB(50);
    px_account_answer_t a = want(&f, &f.one, 0, MIB(15));
    assert_int_equal(a.granted, 0);
    assert_int_equal(a.left, MIB(14));
    assert_int_equal(want(&f, &f.two, 0, MIB(15)).granted, 0);
    assert_int_equal(want(&f, &f.two, 0, MIB(10)).granted, MIB(10));
    assert_int_equal(want(&f, &f.one, 0, 0).left, MIB(4));
    assert_int_equal(want(&f, &f.three, 0, MIB(197)).granted, 0);
    assert_int_equal(want(&f, &f.three, 0, MIB(196)).granted, MIB(196));
    f.one.kept[0] = 0;
    assert_int_equal(want(&f, &f.one, 0, MIB(50)).granted, MIB(50));
}

static void nonsense_gets_nothing(void **state)
{
    fixture_t f = fresh();
    (void)state;
    use(&f);
    f.memory[PX_DEVICES - 1] = MIB(1);
    assert_int_equal(want(&f, &f.one, PX_DEVICES, 1).granted, 0);
    assert_int_equal(want(&f, &f.one, UINT32_MAX, 1).granted, 0);
    assert_int_equal(want(&f, &f.one, PX_DEVICES - 1, UINT64_MAX).granted, 0);
    assert_int_equal(want(&f, &f.one, PX_DEVICES - 1, UINT64_MAX).left, MIB(1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_device_is_for_all),
        cmocka_unit_test(a_lease_is_for_its_sessions),
        cmocka_unit_test(kept_memory_counts),
        cmocka_unit_test(nonsense_gets_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
