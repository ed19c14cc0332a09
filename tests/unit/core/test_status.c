/* Statuses have names; reasons belong to the thread; errno maps to the status a caller can act on. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/core/gb_status.h"

static void every_status_has_a_name(void **state)
{
    (void)state;
    for (int i = 0; i < GB_STATUS_COUNT; i++)
        assert_true(strlen(gb_status_name((gb_status_t)i)) > 1);
    assert_string_equal(gb_status_name((gb_status_t)9999), "unknown status");
}

static void *other_thread(void *arg)
{
    (void)arg;
    gb_fail(GB_ERR_IO, "another thread's reason");
    return NULL;
}

static void reasons_are_per_thread(void **state)
{
    (void)state;
    assert_int_equal(gb_fail(GB_ERR_BUSY, "device %d is taken", 3), GB_ERR_BUSY);
    pthread_t t;
    assert_int_equal(pthread_create(&t, NULL, other_thread, NULL), 0);
    pthread_join(t, NULL);
    assert_string_equal(gb_why(), "device 3 is taken");
}

static void errno_maps_to_a_status(void **state)
{
    (void)state;
    assert_int_equal(gb_fail_errno(GB_ERR_IO, ECONNREFUSED, "x"), GB_ERR_UNREACHABLE);
    assert_int_equal(gb_fail_errno(GB_ERR_IO, EADDRINUSE, "x"), GB_ERR_EXISTS);
    assert_int_equal(gb_fail_errno(GB_ERR_IO, ENOENT, "cannot open y"), GB_ERR_NOT_FOUND);
    assert_non_null(strstr(gb_why(), "cannot open y: No such file"));
    assert_int_equal(gb_fail_errno(GB_ERR_INVALID, ENOENT, "x"), GB_ERR_INVALID);
}

static void long_reasons_are_cut(void **state)
{
    (void)state;
    char text[2000];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = 0;
    gb_fail(GB_ERR_IO, "%s", text);
    assert_true(strlen(gb_why()) < sizeof text - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_name),
        cmocka_unit_test(reasons_are_per_thread),
        cmocka_unit_test(errno_maps_to_a_status),
        cmocka_unit_test(long_reasons_are_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
