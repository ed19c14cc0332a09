/* The emulated line: delay, rate and cut are what was asked for, and the bytes stay right. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "common/link/gb_emulate.h"
#include "tests/unit/link/test_support.h"

static void texts(void **state)
{
    (void)state;
    gb_emulate_t e;
    assert_int_equal(gb_emulate_parse("rtt=1.5ms,bw=1Gbit,drop=0.01,cut=10M", &e), GB_OK);
    assert_int_equal(e.rtt_ns, 1500000);
    assert_true(e.bytes_per_s == 125e6);
    assert_true(e.drop == 0.01);
    assert_int_equal(e.cut, 10 << 20);
    static const char *const bad[] = {"rtt=1",   "rtt=xms",   "bw=1",      "bw=0bit",
                                      "drop=1",  "drop=-0.1", "cut=0",     "cut=x",
                                      "speed=9", "rtt=-1ms",  "rtt=nanms", "rtt=99s"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(gb_emulate_parse(bad[i], &e), GB_ERR_INVALID);
}

static double ping(ends_t *e)
{
    char byte;
    uint64_t start = gb_now_ns();
    assert_int_equal(gb_link_send(e->client, "x", 1), GB_OK);
    assert_int_equal(gb_link_recv(e->server, &byte, 1, in_seconds(10)), GB_OK);
    assert_int_equal(gb_link_send(e->server, "y", 1), GB_OK);
    assert_int_equal(gb_link_recv(e->client, &byte, 1, in_seconds(10)), GB_OK);
    return (double)(gb_now_ns() - start) / 1e9;
}

static void round_trip_time(void **state)
{
    (void)state;
    setenv("GABLE_LINK_EMULATE", "rtt=20ms", 1);
    for (line_t line = 0; line < LINE_COUNT; line++) {
        ends_t e = ends_open(line);
        double best = 1e9;
        for (int i = 0; i < 3; i++) {
            double t = ping(&e);
            assert_true(t >= 0.020);
            best = t < best ? t : best;
        }
        assert_true(best < 0.2);
        ends_close(&e);
    }
    unsetenv("GABLE_LINK_EMULATE");
}

static void *send_all(void *arg)
{
    ends_t *e = arg;
    const size_t size = 1 << 20;
    uint8_t *bytes = malloc(size);
    fill_bytes(bytes, size, 9);
    gb_status_t st = gb_link_send(e->client, bytes, size);
    free(bytes);
    return st == GB_OK ? NULL : e;
}

static void rate_and_losses(void **state)
{
    (void)state;
    const size_t size = 1 << 20;
    uint8_t *in = malloc(size);
    uint8_t *expected = malloc(size);
    fill_bytes(expected, size, 9);
    setenv("GABLE_LINK_EMULATE", "rtt=1ms,bw=80Mbit,drop=0.001", 1);
    ends_t e = ends_open(LINE_TLS);
    pthread_t thread;
    void *failed;
    uint64_t start = gb_now_ns();
    pthread_create(&thread, NULL, send_all, &e);
    assert_int_equal(gb_link_recv(e.server, in, size, in_seconds(20)), GB_OK);
    double seconds = (double)(gb_now_ns() - start) / 1e9;
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_memory_equal(in, expected, size);
    assert_true(seconds >= 0.104); /* 1 MiB at 10 MB/s */
    ends_close(&e);
    free(in);
    free(expected);
    unsetenv("GABLE_LINK_EMULATE");
}

static void cut(void **state)
{
    (void)state;
    setenv("GABLE_LINK_EMULATE", "cut=100K", 1);
    ends_t e = ends_open(LINE_TCP);
    uint8_t *in = malloc(1 << 20);
    pthread_t thread;
    pthread_create(&thread, NULL, send_all, &e);
    assert_int_equal(gb_link_recv(e.server, in, 1 << 20, in_seconds(20)), GB_ERR_LOST);
    pthread_join(thread, NULL);
    assert_int_equal(gb_link_recv(e.client, in, 1, in_seconds(5)), GB_ERR_LOST);
    free(in);
    ends_close(&e);
    unsetenv("GABLE_LINK_EMULATE");
}

static void bad_text_fails_the_dial(void **state)
{
    (void)state;
    gb_listener_t *l = listener_open(LINE_TCP);
    gb_credential_t c = {.service = GB_SERVICE_SHARD};
    gb_link_t *link;
    setenv("GABLE_LINK_EMULATE", "warp=9", 1);
    assert_int_equal(gb_link_dial(gb_listener_endpoint(l), &c, in_seconds(5), &link),
                     GB_ERR_INVALID);
    unsetenv("GABLE_LINK_EMULATE");
    gb_listener_close(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts),
        cmocka_unit_test(round_trip_time),
        cmocka_unit_test(rate_and_losses),
        cmocka_unit_test(cut),
        cmocka_unit_test(bad_text_fails_the_dial),
    };
    return cmocka_run_group_tests_name("emulate", tests, NULL, NULL);
}
