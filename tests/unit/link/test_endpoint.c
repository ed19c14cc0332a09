/* Endpoint texts: forms, refusals, round trip, and what counts as this machine only. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "common/link/gb_endpoint.h"

static void forms(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *name;
        const char *formatted;
        int kind;
        int port;
        int device;
        int local;
    } good[] = {
        {"host:7072", "host", "host:7072", GB_ENDPOINT_TCP, 7072, -1, 0},
        {"host", "host", "host:99", GB_ENDPOINT_TCP, 99, -1, 0},
        {"host/1", "host", "host:99/1", GB_ENDPOINT_TCP, 99, 1, 0},
        {"10.0.0.1:1/15", "10.0.0.1", "10.0.0.1:1/15", GB_ENDPOINT_TCP, 1, 15, 0},
        {"127.0.0.1:0", "127.0.0.1", "127.0.0.1:0", GB_ENDPOINT_TCP, 0, -1, 1},
        {"127.example.org:5", "127.example.org", "127.example.org:5", GB_ENDPOINT_TCP, 5, -1, 0},
        {"localhost:5", "localhost", "localhost:5", GB_ENDPOINT_TCP, 5, -1, 1},
        {"[::1]:5/2", "::1", "[::1]:5/2", GB_ENDPOINT_TCP, 5, 2, 1},
        {"[fe80::1]", "fe80::1", "[fe80::1]:99", GB_ENDPOINT_TCP, 99, -1, 0},
        {"0.0.0.0:5", "0.0.0.0", "0.0.0.0:5", GB_ENDPOINT_TCP, 5, -1, 0},
        {"unix:/run/x", "/run/x", "unix:/run/x", GB_ENDPOINT_UNIX, 0, -1, 1},
        {"unix:a:b/c#3", "a:b/c", "unix:a:b/c#3", GB_ENDPOINT_UNIX, 0, 3, 1},
    };
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        gb_endpoint_t e;
        char text[GB_ENDPOINT_TEXT];
        assert_int_equal(gb_endpoint_parse(good[i].text, 99, &e), GB_OK);
        assert_string_equal(e.name, good[i].name);
        assert_int_equal(e.kind, good[i].kind);
        assert_int_equal(e.port, good[i].port);
        assert_int_equal(e.device, good[i].device);
        assert_int_equal(gb_endpoint_is_local(&e), good[i].local);
        assert_string_equal(gb_endpoint_format(&e, text), good[i].formatted);
    }
}

static void refusals(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",         ":7072",     "host:",    "host:x",  "host:65536",
        "host:-1",  "host:1/",   "host:1/x", "[::1",    "[]:1",
        "a b:1",    "host:1/-1", "unix:",    "unix:#1", "unix:/a#x",
        "host:1:2", "a,b:1",     "[::1]x",   "host:1 ", "host:000000000001",
        "unix",     "[[1]",
    };
    static char longest[400];
    gb_endpoint_t e = {.port = 5};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(gb_endpoint_parse(bad[i], 99, &e), GB_ERR_INVALID);
    assert_int_equal(gb_endpoint_parse("host", 0, &e), GB_ERR_INVALID);
    memset(longest, 'a', sizeof longest - 1);
    assert_int_equal(gb_endpoint_parse(longest, 99, &e), GB_ERR_INVALID);
    memcpy(longest, "unix:", 5);
    assert_int_equal(gb_endpoint_parse(longest, 99, &e), GB_ERR_INVALID);
    assert_int_equal(e.port, 5); /* written on success only */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forms),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests_name("endpoint", tests, NULL, NULL);
}
