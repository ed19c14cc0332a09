/* Streams that outlive their connections: random cuts while both ends send and receive, what is kept, and
 * peers that say what cannot be. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "common/link/gb_durable.h"
#include "tests/unit/link/test_support.h"

enum { KIB = 1024, MIB = 1024 * 1024 };
#ifdef GABLE_SANITIZED
enum { BYTES = 6 * MIB };
#else
enum { BYTES = 40 * MIB };
#endif

/* Two ends: `a` dials, `b` is offered links by a switchboard thread, as a session is by its proxy. */
typedef struct {
    gb_durable_t *a, *b;
    pthread_mutex_t lock;
    pthread_cond_t change;
    gb_link_t *offered; /* to b */
    int over;
    atomic_int cuts;
    pthread_t operator, watcher;
} line_pair_t;

static gb_status_t dial(void *arg, uint64_t received, gb_link_t **link, uint64_t *peer_received)
{
    line_pair_t *p = arg;
    gb_link_t *mine, *theirs;
    assert_int_equal(gb_link_pair(&mine, &theirs), GB_OK);
    pthread_mutex_lock(&p->lock);
    p->offered = theirs;
    pthread_cond_broadcast(&p->change);
    pthread_mutex_unlock(&p->lock);
    gb_status_t status = gb_durable_exchange(mine, received, in_seconds(20), peer_received);
    *link = mine;
    return status;
}

static void *operate(void *arg)
{
    line_pair_t *p = arg;
    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (!p->offered && !p->over)
            pthread_cond_wait(&p->change, &p->lock);
        gb_link_t *link = p->offered;
        p->offered = NULL;
        if (!link)
            break;
        pthread_mutex_unlock(&p->lock);
        uint64_t received, peer_received;
        assert_int_equal(gb_durable_suspend(p->b, &received), GB_OK);
        if (gb_durable_exchange(link, received, in_seconds(20), &peer_received) == GB_OK) {
            atomic_fetch_add(&p->cuts, 1);
            assert_int_equal(gb_durable_resume(p->b, link, peer_received), GB_OK);
            (void)gb_durable_push(p->b, 0);
        } else {
            gb_link_close(link);
        }
        pthread_mutex_lock(&p->lock);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void *watch(void *arg);

static void pair_open(line_pair_t *p)
{
    gb_link_t *a, *b;
    memset(p, 0, sizeof(*p));
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->change, NULL);
    assert_int_equal(gb_link_pair(&a, &b), GB_OK);
    assert_int_equal(gb_durable_create(a, dial, p, &p->a), GB_OK);
    assert_int_equal(gb_durable_create(b, NULL, NULL, &p->b), GB_OK);
    assert_int_equal(gb_durable_keep(p->a), GB_OK);
    assert_int_equal(gb_durable_keep(p->b), GB_OK);
    assert_int_equal(pthread_create(&p->operator, NULL, operate, p), 0);
    assert_int_equal(pthread_create(&p->watcher, NULL, watch, p), 0);
}

static void pair_close(line_pair_t *p)
{
    pthread_mutex_lock(&p->lock);
    p->over = 1;
    pthread_cond_broadcast(&p->change);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->operator, NULL);
    pthread_join(p->watcher, NULL);
    gb_durable_free(p->a);
    gb_durable_free(p->b);
}

/* One direction. What the protocol above does with frames the test does by hand: the receiver tells the
 * sender how much it has. */
typedef struct {
    gb_durable_t *from, *to;
    uint8_t *out, *in;
    int refers;
} flow_t;

static void *send_all(void *arg)
{
    flow_t *f = arg;
    size_t at = 0;
    for (size_t n = 1; at < BYTES; n = n * 7 % 200003 + 1) {
        size_t first = n % 97, size = n < BYTES - at ? n : BYTES - at;
        first = first < size ? first : size;
        struct iovec v[2] = {{f->out + at, first}, {f->out + at + first, size - first}};
        assert_int_equal(gb_durable_wait_room(f->from, size), GB_OK);
        if (n % 3 == 0 && gb_durable_try_send(f->from, v[0].iov_base, first) == GB_OK)
            v[0].iov_len = 0;
        assert_int_equal(gb_durable_sendv(f->from, v, 2, f->refers ? 1 : -1), GB_OK);
        at += size;
    }
    return NULL;
}

static void *receive_all(void *arg)
{
    flow_t *f = arg;
    size_t at = 0;
    while (at < BYTES) {
        size_t got = 0, cap = BYTES - at < 100000 ? BYTES - at : 100000;
        assert_int_equal(gb_durable_recv_some(f->to, f->in + at, cap, GB_NEVER, &got), GB_OK);
        at += got;
        if (gb_durable_ack_due(f->to) || at == BYTES) {
            uint64_t received = gb_durable_received(f->to);
            gb_durable_ack_told(f->to, received);
            assert_int_equal(gb_durable_acked(f->from, received), GB_OK);
        }
    }
    return NULL;
}

/* Cuts whatever connection there is, at random times. */
static void *cut_often(void *arg)
{
    line_pair_t *p = arg;
    unsigned seed = 1;
    for (int i = 0; i < 60; i++) {
        seed = seed * 1103515245u + 12345u;
        poll(NULL, 0, (int)(seed >> 16) % 5);
        pthread_mutex_lock(&p->lock);
        int over = p->over;
        pthread_mutex_unlock(&p->lock);
        if (over)
            break;
        gb_durable_cut(i % 2 ? p->a : p->b);
    }
    return NULL;
}

/* Notices cuts for end `a` when it neither sends nor receives. */
static void *watch(void *arg)
{
    line_pair_t *p = arg;
    for (int over = 0; !over;) {
        poll(NULL, 0, 1);
        assert_int_equal(gb_durable_revive(p->a), GB_OK);
        assert_int_equal(gb_durable_push(p->a, 1), GB_OK);
        pthread_mutex_lock(&p->lock);
        over = p->over;
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
}

static void cuts_change_nothing(void **state)
{
    (void)state;
    line_pair_t p;
    pthread_t threads[5];
    uint8_t *out[2] = {malloc(BYTES), malloc(BYTES)}, *in[2] = {malloc(BYTES), malloc(BYTES)};
    fill_bytes(out[0], BYTES, 1);
    fill_bytes(out[1], BYTES, 2);
    pair_open(&p);
    flow_t flows[2] = {{p.a, p.b, out[0], in[0], 1}, {p.b, p.a, out[1], in[1], 0}};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_create(&threads[2 * i], NULL, send_all, &flows[i]), 0);
        assert_int_equal(pthread_create(&threads[2 * i + 1], NULL, receive_all, &flows[i]), 0);
    }
    assert_int_equal(pthread_create(&threads[4], NULL, cut_often, &p), 0);
    for (int i = 0; i < 5; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 2; i++) {
        assert_memory_equal(in[i], out[i], BYTES);
        assert_int_equal(gb_durable_sent(flows[i].from), BYTES);
        assert_int_equal(gb_durable_received(flows[i].to), BYTES);
    }
    assert_true(atomic_load(&p.cuts) > 5);
    pair_close(&p);
    for (int i = 0; i < 2; i++) {
        free(out[i]);
        free(in[i]);
    }
}

/* Without an acknowledgement no more than the limit is taken. */
static void what_is_kept_is_bounded(void **state)
{
    (void)state;
    gb_link_t *a, *b;
    gb_durable_t *d;
    static uint8_t piece[64 * KIB];
    uint8_t sink[64 * KIB];
    struct iovec v = {piece, sizeof(piece)};
    size_t taken = 0;
    assert_int_equal(gb_link_pair(&a, &b), GB_OK);
    assert_int_equal(gb_durable_create(a, NULL, NULL, &d), GB_OK);
    assert_true(gb_durable_room(d) == SIZE_MAX);
    assert_int_equal(gb_durable_acked(d, 0), GB_ERR_PROTOCOL); /* nobody asked for it */
    assert_int_equal(gb_durable_keep(d), GB_OK);
    while (gb_durable_room(d) >= sizeof(piece)) {
        assert_int_equal(gb_durable_sendv(d, &v, 1, -1), GB_OK);
        assert_int_equal(gb_link_recv(b, sink, sizeof(sink), in_seconds(5)), GB_OK);
        taken += sizeof(piece);
    }
    assert_int_equal(taken, GB_DURABLE_KEEP);
    assert_int_equal(gb_durable_sendv(d, &v, 1, -1), GB_ERR_LIMIT);
    assert_int_equal(gb_durable_acked(d, taken + 1), GB_ERR_PROTOCOL);
    assert_int_equal(gb_durable_acked(d, taken / 2 + 100), GB_OK);
    assert_true(gb_durable_room(d) >= taken / 2);
    assert_int_equal(gb_durable_acked(d, taken / 2), GB_ERR_PROTOCOL); /* less than before */
    assert_int_equal(gb_durable_acked(d, taken), GB_OK);
    assert_int_equal(gb_durable_room(d), GB_DURABLE_KEEP);
    gb_durable_free(d);
    gb_link_close(b);
}

/* All of it or nothing, and no waiting. */
static void what_would_wait_is_not_sent(void **state)
{
    (void)state;
    gb_link_t *a, *b;
    gb_durable_t *d;
    static uint8_t piece[4 * KIB], got[4 * KIB];
    unsigned sent = 0;
    assert_int_equal(gb_link_pair(&a, &b), GB_OK);
    assert_int_equal(gb_durable_create(a, NULL, NULL, &d), GB_OK);
    assert_int_equal(gb_durable_try_send(d, piece, sizeof(piece)),
                     GB_ERR_AGAIN); /* nothing is kept */
    assert_int_equal(gb_durable_keep(d), GB_OK);
    for (;; sent++) {
        fill_bytes(piece, sizeof(piece), sent);
        if (gb_durable_try_send(d, piece, sizeof(piece)) != GB_OK)
            break;
    }
    assert_true(sent > 0 && sent < GB_DURABLE_KEEP / sizeof(piece));
    assert_int_equal(gb_durable_sent(d), sent * sizeof(piece));
    assert_int_equal(gb_durable_unsent(d), 0);
    for (unsigned i = 0; i < sent; i++) {
        fill_bytes(piece, sizeof(piece), i);
        assert_int_equal(gb_link_recv(b, got, sizeof(got), in_seconds(5)), GB_OK);
        assert_memory_equal(got, piece, sizeof(piece));
    }
    assert_int_equal(gb_durable_try_send(d, piece, sizeof(piece)), GB_OK);
    uint64_t received;
    assert_int_equal(gb_durable_suspend(d, &received), GB_OK);
    assert_int_equal(gb_durable_try_send(d, piece, sizeof(piece)), GB_ERR_AGAIN);
    gb_durable_free(d);
    gb_link_close(b);
}

typedef struct {
    gb_durable_t *stream;
    uint64_t offset;
    gb_status_t status;
} confirmation_t;

static void *await_confirmation(void *arg)
{
    confirmation_t *c = arg;
    c->status = gb_durable_wait_confirmed(c->stream, c->offset);
    return NULL;
}

static void waiting_for_a_confirmation(void **state)
{
    (void)state;
    gb_link_t *a, *b;
    gb_durable_t *d;
    pthread_t thread;
    struct iovec v = {"hello", 5};
    assert_int_equal(gb_link_pair(&a, &b), GB_OK);
    assert_int_equal(gb_durable_create(a, NULL, NULL, &d), GB_OK);
    assert_int_equal(gb_durable_wait_confirmed(d, 5), GB_OK); /* nothing is kept */
    assert_int_equal(gb_durable_keep(d), GB_OK);
    for (int lost = 0; lost < 2; lost++) {
        assert_int_equal(gb_durable_sendv(d, &v, 1, 0), GB_OK);
        confirmation_t c = {.stream = d, .offset = gb_durable_sent(d)};
        assert_int_equal(pthread_create(&thread, NULL, await_confirmation, &c), 0);
        if (lost)
            gb_durable_lose(d);
        else
            assert_int_equal(gb_durable_acked(d, gb_durable_sent(d)), GB_OK);
        pthread_join(thread, NULL);
        assert_int_equal(c.status, lost ? GB_ERR_LOST : GB_OK);
    }
    gb_durable_free(d);
    gb_link_close(b);
}

static void a_peer_that_resumes_elsewhere(void **state)
{
    (void)state;
    gb_link_t *a, *b, *c, *e;
    gb_durable_t *d;
    uint64_t received;
    struct iovec v = {"hello", 5};
    assert_int_equal(gb_link_pair(&a, &b), GB_OK);
    assert_int_equal(gb_durable_create(a, NULL, NULL, &d), GB_OK);
    assert_int_equal(gb_durable_suspend(d, &received), GB_ERR_UNSUPPORTED);
    assert_int_equal(gb_durable_keep(d), GB_OK);
    assert_int_equal(gb_durable_sendv(d, &v, 1, -1), GB_OK);
    assert_int_equal(gb_link_pair(&c, &e), GB_OK);
    assert_int_equal(gb_durable_suspend(d, &received), GB_OK);
    assert_int_equal(received, 0);
    assert_int_equal(gb_durable_resume(d, c, 6), GB_ERR_PROTOCOL); /* it cannot have had six */
    gb_link_close(e);
    gb_durable_lose(d);
    assert_int_equal(gb_durable_sendv(d, &v, 1, -1), GB_ERR_LOST);
    char byte;
    assert_int_equal(gb_durable_recv(d, &byte, 1), GB_ERR_LOST);
    assert_int_equal(gb_durable_suspend(d, &received), GB_ERR_LOST);
    gb_durable_free(d);
    gb_link_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_change_nothing),
        cmocka_unit_test(what_is_kept_is_bounded),
        cmocka_unit_test(what_would_wait_is_not_sent),
        cmocka_unit_test(waiting_for_a_confirmation),
        cmocka_unit_test(a_peer_that_resumes_elsewhere),
    };
    return cmocka_run_group_tests_name("durable", tests, NULL, NULL);
}
