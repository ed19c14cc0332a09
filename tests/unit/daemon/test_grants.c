/* The grants table: keys, expiry, revocation, and the descriptor that tells of changes. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "common/core/gb_clock.h"
#include "gpu-proxy/daemon/px_grants.h"

static px_grant_t grant_of(uint64_t lease, uint8_t first_key_byte)
{
    px_grant_t g = {.lease = lease, .device_count = 1, .memory = 1 << 20};
    g.key.bytes[0] = first_key_byte;
    return g;
}

static int told(px_grants_t *grants)
{
    uint64_t count;
    struct pollfd p = {px_grants_changed_fd(grants), POLLIN, 0};
    int n = poll(&p, 1, 0);
    if (n > 0)
        assert_int_equal(read(p.fd, &count, sizeof count), sizeof count);
    return n > 0;
}

static void add_find_revoke(void **state)
{
    (void)state;
    px_grants_t *grants;
    px_grant_t out;
    gb_key_t key;
    assert_int_equal(px_grants_create(&grants), GB_OK);
    assert_false(told(grants));
    for (uint64_t lease = 1; lease <= 100; lease++) {
        px_grant_t g = grant_of(lease, (uint8_t)lease);
        assert_int_equal(px_grants_add(grants, &g), GB_OK);
    }
    assert_true(told(grants));
    assert_int_equal(px_grants_count(grants), 100);
    assert_int_equal(px_grants_key(grants, 42, &key), GB_OK);
    assert_int_equal(key.bytes[0], 42);
    assert_int_equal(px_grants_revoke(grants, 42), GB_OK);
    assert_true(told(grants));
    assert_int_equal(px_grants_key(grants, 42, &key), GB_ERR_NOT_FOUND);
    assert_int_equal(px_grants_revoke(grants, 42), GB_ERR_NOT_FOUND);
    assert_false(told(grants));

    px_grant_t again = grant_of(7, 99); /* replaces */
    assert_int_equal(px_grants_add(grants, &again), GB_OK);
    assert_int_equal(px_grants_count(grants), 99);
    assert_int_equal(px_grants_find(grants, 7, &out), GB_OK);
    assert_int_equal(out.key.bytes[0], 99);

    px_grant_t two[2] = {grant_of(500, 5), grant_of(501, 6)};
    assert_int_equal(px_grants_replace(grants, two, 2), GB_OK);
    assert_int_equal(px_grants_count(grants), 2);
    assert_int_equal(px_grants_find(grants, 7, &out), GB_ERR_NOT_FOUND);
    assert_int_equal(px_grants_find(grants, 501, &out), GB_OK);
    px_grants_destroy(grants);
}

static void expiry(void **state)
{
    (void)state;
    px_grants_t *grants;
    px_grant_t out;
    assert_int_equal(px_grants_create(&grants), GB_OK);
    assert_int_equal(px_grants_next_expiry(grants), 0);
    px_grant_t past = grant_of(1, 1);
    px_grant_t far = grant_of(2, 2);
    px_grant_t near = grant_of(3, 3);
    uint64_t now = gb_wall_ms();
    past.expires_ms = now - 1;
    far.expires_ms = now + 200000;
    near.expires_ms = now + 100000;
    assert_int_equal(px_grants_add(grants, &past), GB_OK);
    assert_int_equal(px_grants_add(grants, &far), GB_OK);
    assert_int_equal(px_grants_add(grants, &near), GB_OK);
    assert_int_equal(px_grants_find(grants, 1, &out), GB_ERR_NOT_FOUND);
    assert_int_equal(px_grants_find(grants, 2, &out), GB_OK);
    assert_int_equal(px_grants_count(grants), 2);
    assert_int_equal(px_grants_next_expiry(grants), near.expires_ms);
    px_grants_destroy(grants);
}

static void limit(void **state)
{
    (void)state;
    px_grants_t *grants;
    assert_int_equal(px_grants_create(&grants), GB_OK);
    for (uint64_t lease = 1; lease <= PX_GRANTS; lease++) {
        px_grant_t g = grant_of(lease, 1);
        assert_int_equal(px_grants_add(grants, &g), GB_OK);
    }
    px_grant_t extra = grant_of(PX_GRANTS + 1, 1);
    assert_int_equal(px_grants_add(grants, &extra), GB_ERR_LIMIT);
    px_grant_t known = grant_of(5, 9);
    assert_int_equal(px_grants_add(grants, &known), GB_OK);
    known.expires_ms = 1; /* an expired one makes room */
    assert_int_equal(px_grants_add(grants, &known), GB_OK);
    assert_int_equal(px_grants_add(grants, &extra), GB_OK);
    px_grants_destroy(grants);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(add_find_revoke),
        cmocka_unit_test(expiry),
        cmocka_unit_test(limit),
    };
    return cmocka_run_group_tests_name("grants", tests, NULL, NULL);
}
