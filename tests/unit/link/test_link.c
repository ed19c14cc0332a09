/* Links of every kind: what is sent arrives, in both directions at once, and ends are noticed. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/frame/gb_frame.h"
#include "tests/unit/link/test_support.h"

enum { MiB = 1024 * 1024 };

static void facts_arrive(void **state)
{
    (void)state;
    for (line_t line = 0; line < LINE_COUNT; line++) {
        ends_t e = ends_open(line);
        assert_int_equal(e.facts.lease, TEST_LEASE);
        assert_int_equal(e.facts.session, 77);
        assert_int_equal(e.facts.connection, 3);
        assert_int_equal(gb_link_is_encrypted(e.client), line == LINE_TLS);
        assert_int_equal(gb_link_is_encrypted(e.server), line == LINE_TLS);
        assert_int_equal(gb_link_is_shared(e.client), line == LINE_SHARED);
        assert_int_equal(gb_link_is_shared(e.server), line == LINE_SHARED);
        ends_close(&e);
    }
}

static void ping_pong(void **state)
{
    (void)state;
    for (line_t line = 0; line < LINE_COUNT; line++) {
        ends_t e = ends_open(line);
        char text[8];
        for (int i = 0; i < 50; i++) {
            struct iovec v[3] = {{"he", 2}, {"", 0}, {"llo", 3}};
            assert_int_equal(gb_link_sendv(e.client, v, 3), GB_OK);
            assert_int_equal(gb_link_recv(e.server, text, 5, in_seconds(5)), GB_OK);
            assert_memory_equal(text, "hello", 5);
            assert_int_equal(gb_link_send(e.server, "you", 3), GB_OK);
            assert_int_equal(gb_link_recv(e.client, text, 3, in_seconds(5)), GB_OK);
            assert_memory_equal(text, "you", 3);
        }
        assert_int_equal(gb_link_counters(e.client).sent, 250);
        assert_int_equal(gb_link_counters(e.client).received, 150);
        size_t got;
        assert_int_equal(gb_link_recv_some(e.client, text, 8, 0, &got), GB_ERR_AGAIN);
        assert_int_equal(gb_link_recv_some(e.client, text, 8, in_seconds(0.01), &got),
                         GB_ERR_TIMEOUT);
        assert_false(gb_link_has_pending(e.client));
        ends_close(&e);
    }
}

typedef struct {
    gb_link_t *link;
    uint8_t *bytes;
    size_t size;
    gb_status_t status;
} transfer_t;

static void *send_main(void *arg)
{
    transfer_t *t = arg;
    size_t at = 0;
    t->status = GB_OK;
    /* uneven pieces, a small one before each large one, as frames are */
    for (size_t n = 16; at < t->size && t->status == GB_OK; n = n * 7 % 300007 + 1) {
        size_t first = n < t->size - at ? n : t->size - at;
        size_t second = t->size - at - first < 100000 ? t->size - at - first : 100000;
        struct iovec v[2] = {{t->bytes + at, first}, {t->bytes + at + first, second}};
        t->status = gb_link_sendv(t->link, v, 2);
        at += first + second;
    }
    return NULL;
}

static void *recv_main(void *arg)
{
    transfer_t *t = arg;
    t->status = gb_link_recv(t->link, t->bytes, t->size, in_seconds(60));
    return NULL;
}

/* Both directions at the same time: four threads on two links. */
static void bulk_both_ways(void **state)
{
    (void)state;
#ifdef GABLE_SANITIZED
    const size_t size = 6 * MiB + 12345;
#else
    const size_t size = 24 * MiB + 12345;
#endif
    uint8_t *out[2] = {malloc(size), malloc(size)};
    uint8_t *in[2] = {malloc(size), malloc(size)};
    fill_bytes(out[0], size, 1);
    fill_bytes(out[1], size, 2);
    for (line_t line = 0; line < LINE_COUNT; line++) {
        ends_t e = ends_open(line);
        transfer_t t[4] = {{e.client, out[0], size, 0},
                           {e.server, out[1], size, 0},
                           {e.server, in[0], size, 0},
                           {e.client, in[1], size, 0}};
        pthread_t thread[4];
        memset(in[0], 0, size);
        memset(in[1], 0, size);
        for (int i = 0; i < 4; i++)
            pthread_create(&thread[i], NULL, i < 2 ? send_main : recv_main, &t[i]);
        for (int i = 0; i < 4; i++) {
            pthread_join(thread[i], NULL);
            assert_int_equal(t[i].status, GB_OK);
        }
        assert_memory_equal(in[0], out[0], size);
        assert_memory_equal(in[1], out[1], size);
        ends_close(&e);
    }
    for (int i = 0; i < 2; i++) {
        free(out[i]);
        free(in[i]);
    }
}

typedef struct {
    gb_link_t *link;
    uint8_t *bytes;
    size_t have;
    size_t size;
} drain_t;

static gb_status_t drain(void *arg)
{
    drain_t *d = arg;
    size_t n;
    gb_status_t st = GB_OK;
    while (d->have < d->size && st == GB_OK) {
        st = gb_link_recv_some(d->link, d->bytes + d->have, d->size - d->have, 0, &n);
        if (st == GB_OK)
            d->have += n;
    }
    return st == GB_ERR_AGAIN ? GB_OK : st;
}

static void *send_and_drain(void *arg)
{
    transfer_t *t = arg;
    drain_t d = {t->link, malloc(t->size), 0, t->size};
    gb_link_set_stall(t->link, drain, &d);
    t->status = gb_link_send(t->link, t->bytes, t->size);
    if (t->status == GB_OK)
        t->status = gb_link_recv(t->link, d.bytes + d.have, d.size - d.have, in_seconds(60));
    if (t->status == GB_OK && memcmp(d.bytes, t->bytes, t->size))
        t->status = GB_ERR_INTERNAL;
    free(d.bytes);
    return NULL;
}

/* Two peers that both write far more than any socket holds, with one thread each. */
static void who_cannot_write_reads(void **state)
{
    (void)state;
    const size_t size = 16 * MiB;
    uint8_t *bytes = malloc(size);
    fill_bytes(bytes, size, 3);
    for (line_t line = 0; line < LINE_COUNT; line++) {
        ends_t e = ends_open(line);
        transfer_t t[2] = {{e.client, bytes, size, 0}, {e.server, bytes, size, 0}};
        pthread_t thread[2];
        for (int i = 0; i < 2; i++)
            pthread_create(&thread[i], NULL, send_and_drain, &t[i]);
        for (int i = 0; i < 2; i++) {
            pthread_join(thread[i], NULL);
            assert_int_equal(t[i].status, GB_OK);
        }
        ends_close(&e);
    }
    free(bytes);
}

static void silence_ends_a_send(void **state)
{
    (void)state;
    const size_t size = 32 * MiB;
    uint8_t *bytes = calloc(1, size);
    for (line_t line = 0; line < LINE_COUNT; line++) {
        ends_t e = ends_open(line);
        gb_link_set_silence(e.client, 200);
        uint64_t start = gb_now_ns();
        assert_int_equal(gb_link_send(e.client, bytes, size), GB_ERR_TIMEOUT);
        assert_true(gb_now_ns() - start > 150000000ull);
        assert_int_equal(gb_link_send(e.client, bytes, 1), GB_ERR_LOST);
        ends_close(&e);
    }
    free(bytes);
}

static void try_send_never_waits(void **state)
{
    (void)state;
    const size_t size = 32 * MiB;
    uint8_t *out = malloc(size);
    uint8_t *in = malloc(size);
    fill_bytes(out, size, 4);
    for (line_t line = 0; line < LINE_COUNT; line++) {
        ends_t e = ends_open(line);
        size_t sent = 0;
        size_t have = 0;
        struct iovec v = {out, size};
        assert_int_equal(gb_link_try_sendv(e.client, &v, 1, &sent), GB_OK);
        assert_true(sent > 0 && sent < size);
        while (have < size) {
            size_t n = 0;
            v = (struct iovec){out + sent, size - sent};
            gb_status_t st = gb_link_try_sendv(e.client, &v, 1, &n);
            assert_true(st == GB_OK || st == GB_ERR_AGAIN);
            sent += n;
            st = gb_link_flush(e.client, 0);
            assert_true(st == GB_OK || st == GB_ERR_AGAIN);
            st = gb_link_recv_some(e.server, in + have, size - have, 0, &n);
            assert_true(st == GB_OK || st == GB_ERR_AGAIN);
            have += st == GB_OK ? n : 0;
        }
        assert_int_equal(sent, size);
        assert_false(gb_link_unsent(e.client));
        assert_memory_equal(in, out, size);
        ends_close(&e);
    }
    free(out);
    free(in);
}

static void end_of_peer(void **state)
{
    (void)state;
    for (line_t line = 0; line < LINE_COUNT; line++) {
        ends_t e = ends_open(line);
        uint8_t byte[16];
        /* what was sent before the end still arrives */
        assert_int_equal(gb_link_send(e.client, "last", 4), GB_OK);
        gb_link_close(e.client);
        assert_int_equal(gb_link_recv(e.server, byte, 4, in_seconds(5)), GB_OK);
        assert_int_equal(gb_link_recv(e.server, byte, 1, in_seconds(5)), GB_ERR_LOST);
        assert_int_equal(gb_link_recv(e.server, byte, 1, in_seconds(5)), GB_ERR_LOST);
        gb_link_close(e.server);
    }
}

static void goodbye_is_a_frame(void **state)
{
    (void)state;
    for (line_t line = 0; line < LINE_COUNT; line++) {
        ends_t e = ends_open(line);
        uint8_t header[GB_FRAME_HEADER];
        gb_frame_t frame;
        assert_int_equal(gb_link_goodbye(e.client), GB_OK);
        assert_int_equal(gb_link_recv(e.server, header, sizeof header, in_seconds(5)), GB_OK);
        assert_int_equal(gb_frame_decode(header, 0, &frame), GB_OK);
        assert_int_equal(frame.operation, GB_OP_GOODBYE);
        assert_int_equal(gb_link_recv(e.server, header, 1, in_seconds(5)), GB_ERR_LOST);
        /* the other direction is still open */
        assert_int_equal(gb_link_send(e.server, "x", 1), GB_OK);
        assert_int_equal(gb_link_recv(e.client, header, 1, in_seconds(5)), GB_OK);
        ends_close(&e);
    }
}

static void shutdown_wakes_a_receiver(void **state)
{
    (void)state;
    for (line_t line = 0; line < LINE_COUNT; line++) {
        ends_t e = ends_open(line);
        uint8_t byte;
        transfer_t t = {e.client, &byte, 1, 0};
        pthread_t thread;
        pthread_create(&thread, NULL, recv_main, &t);
        gb_link_shutdown(e.client);
        pthread_join(thread, NULL);
        assert_int_equal(t.status, GB_ERR_LOST);
        ends_close(&e);
    }
}

typedef struct {
    gb_link_t *link;
    gb_status_t status;
    uint64_t cpu_ns; /* while it waited */
} idler_t;

static uint64_t thread_cpu_ns(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t), 0);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void *idle_main(void *arg)
{
    idler_t *i = arg;
    uint8_t byte;
    uint64_t before = thread_cpu_ns();
    i->status = gb_link_recv(i->link, &byte, 1, GB_NEVER);
    i->cpu_ns = thread_cpu_ns() - before;
    return NULL;
}

/* Who waits polls a moment, and then sleeps until the byte is there. */
static void idle_uses_no_cpu(void **state)
{
    (void)state;
    for (line_t line = 0; line < LINE_COUNT; line++) {
        ends_t e = ends_open(line);
        pthread_t thread;
        idler_t i = {.link = e.client};
        assert_int_equal(pthread_create(&thread, NULL, idle_main, &i), 0);
        poll(NULL, 0, 200);
        assert_int_equal(gb_link_send(e.server, "x", 1), GB_OK);
        pthread_join(thread, NULL);
        assert_int_equal(i.status, GB_OK);
        assert_true(i.cpu_ns < 20000000u);
        ends_close(&e);
    }
}

static void waiting(void **state)
{
    (void)state;
    for (line_t line = 0; line < LINE_SHARED; line++) { /* memory: see test_link_shm */
        ends_t e = ends_open(line);
        int wake[2];
        int ready = 0;
        char text[8];
        size_t got;
        const int both = GB_LINK_READABLE | GB_LINK_WRITABLE;
        assert_int_equal(pipe(wake), 0);
        assert_int_equal(gb_link_wait(e.client, GB_LINK_READABLE, wake[0], 0, &ready),
                         GB_ERR_AGAIN);
        assert_int_equal(gb_link_wait(e.client, both, -1, GB_NEVER, &ready), GB_OK);
        assert_int_equal(ready, GB_LINK_WRITABLE);
        assert_int_equal(write(wake[1], "x", 1), 1);
        assert_int_equal(gb_link_wait(e.client, GB_LINK_READABLE, wake[0], GB_NEVER, &ready),
                         GB_OK);
        assert_int_equal(ready, GB_LINK_WAKE);
        assert_int_equal(gb_link_send(e.server, "abcd", 4), GB_OK);
        assert_int_equal(gb_link_wait(e.client, GB_LINK_READABLE, -1, in_seconds(5), &ready),
                         GB_OK);
        assert_int_equal(ready, GB_LINK_READABLE);
        /* a part is taken: the rest waits inside the link, not in the socket */
        assert_int_equal(gb_link_recv_some(e.client, text, 1, in_seconds(5), &got), GB_OK);
        assert_true(gb_link_has_pending(e.client));
        assert_int_equal(gb_link_wait(e.client, GB_LINK_READABLE, -1, 0, &ready), GB_OK);
        assert_int_equal(gb_link_recv(e.client, text, 3, 0), GB_OK);
        assert_false(gb_link_has_pending(e.client));
        close(wake[0]);
        close(wake[1]);
        ends_close(&e);
    }
}

static void damaged_tls_is_lost(void **state)
{
    (void)state;
    ends_t e = ends_open(LINE_TLS);
    uint8_t byte;
    assert_int_equal(send(gb_link_fd(e.client), "rubbish", 7, MSG_NOSIGNAL), 7);
    assert_int_equal(gb_link_recv(e.server, &byte, 1, in_seconds(5)), GB_ERR_LOST);
    assert_int_equal(gb_link_recv(e.server, &byte, 1, in_seconds(5)), GB_ERR_LOST);
    assert_int_equal(gb_link_send(e.server, "x", 1), GB_ERR_LOST);
    ends_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(facts_arrive),
        cmocka_unit_test(ping_pong),
        cmocka_unit_test(bulk_both_ways),
        cmocka_unit_test(who_cannot_write_reads),
        cmocka_unit_test(silence_ends_a_send),
        cmocka_unit_test(try_send_never_waits),
        cmocka_unit_test(end_of_peer),
        cmocka_unit_test(goodbye_is_a_frame),
        cmocka_unit_test(shutdown_wakes_a_receiver),
        cmocka_unit_test(idle_uses_no_cpu),
        cmocka_unit_test(waiting),
        cmocka_unit_test(damaged_tls_is_lost),
    };
    return cmocka_run_group_tests_name("link", tests, NULL, NULL);
}
