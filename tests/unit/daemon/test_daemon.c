/* A proxy's daemon in this process, with real session processes that run fake_session.c. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/link/gb_link.h"
#include "common/link/gb_socket.h"
#include "gpu-proxy/daemon/px_daemon.h"
#include "gpu-proxy/session/px_locker.h"

enum { LEASE = 0xabcdef, EXPIRED = 0xdead, PREAMBLE_MS = 300 };

typedef struct {
    char folder[64];
    char path[96];
    px_grants_t *grants;
    px_daemon_t *daemon;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ready;
    gb_status_t status;
    gb_endpoint_t tcp;
    gb_endpoint_t local;
} proxy_t;

static char cache[] = "/tmp/gable-cache-XXXXXX"; /* the proxy's GABLE_CPU_CACHE */
static const gb_key_t KEY = {{9, 8, 7, 6, 5, 4, 3, 2, 1}};

static uint64_t in_seconds(double seconds)
{
    return gb_now_ns() + (uint64_t)(seconds * 1e9);
}

/* The daemon's thread starts the sessions, so it makes the daemon as well. */
static void *proxy_main(void *arg)
{
    proxy_t *p = arg;
    px_daemon_config_t config = {.data_listen = "127.0.0.1:0",
                                 .unix_path = p->path,
                                 .advertise = "",
                                 .driver = "null",
                                 .session_timeout_s = 15,
                                 .preamble_ms = PREAMBLE_MS,
                                 .half_open_limit = 4,
                                 .session_limit = 4,
                                 .spare_sessions = 1};
    px_daemon_t *daemon = NULL;
    gb_status_t st = px_daemon_create(&config, p->grants, &daemon);
    pthread_mutex_lock(&p->lock);
    p->status = st;
    p->daemon = daemon;
    if (st != GB_OK)
        print_error("daemon: %s\n", gb_why());
    pthread_cond_signal(&p->ready);
    pthread_mutex_unlock(&p->lock);
    if (st == GB_OK)
        st = px_daemon_run(daemon);
    px_daemon_destroy(daemon);
    return NULL;
}

static int proxy_start(void **state)
{
    proxy_t *p = calloc(1, sizeof *p);
    char text[GB_ENDPOINT_TEXT];
    px_grant_t grant = {.lease = LEASE, .key = KEY, .device_count = 2, .memory = 12345};
    px_grant_t expired = {.lease = EXPIRED, .key = KEY, .expires_ms = 1};
    snprintf(p->folder, sizeof p->folder, "/tmp/gable-test-XXXXXX");
    assert_non_null(mkdtemp(p->folder));
    snprintf(p->path, sizeof p->path, "%s/proxy", p->folder);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->ready, NULL);
    p->status = GB_ERR_BUSY;
    assert_int_equal(px_grants_create(&p->grants), GB_OK);
    assert_int_equal(px_grants_add(p->grants, &grant), GB_OK);
    assert_int_equal(px_grants_add(p->grants, &expired), GB_OK);
    assert_int_equal(pthread_create(&p->thread, NULL, proxy_main, p), 0);
    pthread_mutex_lock(&p->lock);
    while (p->status == GB_ERR_BUSY)
        pthread_cond_wait(&p->ready, &p->lock);
    pthread_mutex_unlock(&p->lock);
    assert_int_equal(p->status, GB_OK);
    snprintf(text, sizeof text, "unix:%s", p->path);
    assert_int_equal(gb_endpoint_parse(text, 0, &p->local), GB_OK);
    assert_int_equal(gb_endpoint_parse(px_daemon_data_endpoint(p->daemon), 0, &p->tcp), GB_OK);
    *state = p;
    return 0;
}

static int proxy_stop(void **state)
{
    proxy_t *p = *state;
    px_daemon_stop(p->daemon);
    pthread_join(p->thread, NULL);
    px_grants_destroy(p->grants);
    assert_int_equal(rmdir(p->folder), 0); /* the socket file is gone */
    free(p);
    return 0;
}

static gb_status_t dial_as(const gb_endpoint_t *to, uint64_t lease, const gb_key_t *key,
                           uint64_t session, gb_link_t **out)
{
    gb_credential_t c = {
        .service = GB_SERVICE_SESSION, .lease = lease, .key = *key, .session = session};
    return gb_link_dial(to, &c, in_seconds(10), out);
}

static gb_link_t *dial(const gb_endpoint_t *to, uint64_t session)
{
    gb_link_t *link = NULL;
    gb_status_t st = dial_as(to, LEASE, &KEY, session, &link);
    if (st != GB_OK)
        print_error("dial: %s\n", gb_why());
    assert_int_equal(st, GB_OK);
    return link;
}

typedef struct {
    int64_t pid;
    int64_t device_count;
    int64_t quota;
} facts_t;

static facts_t ask_facts(gb_link_t *link)
{
    facts_t f;
    assert_int_equal(gb_link_send(link, "f", 1), GB_OK);
    assert_int_equal(gb_link_recv(link, &f, sizeof f, in_seconds(10)), GB_OK);
    return f;
}

static size_t session_count(proxy_t *p)
{
    return px_daemon_sessions(p->daemon, NULL, 0);
}

/* Polls until the number of sessions is `count` or the time is over; returns the seconds it took. */
static double wait_sessions(proxy_t *p, size_t count, double limit)
{
    uint64_t start = gb_now_ns();
    uint64_t end = in_seconds(limit);
    while (session_count(p) != count && gb_now_ns() < end)
        usleep(2000);
    assert_int_equal(session_count(p), count);
    return (double)(gb_now_ns() - start) / 1e9;
}

static void the_probe_lists_devices(void **state)
{
    proxy_t *p = *state;
    const px_inventory_t *v = px_daemon_inventory(p->daemon);
    assert_string_equal(v->driver_kind, "null");
    assert_int_equal(v->device_count, 1);
    assert_string_equal(v->devices[0].name, "Fake device");
    assert_int_equal(v->devices[0].cc_major, 8);
}

static void sessions_serve_and_end(void **state)
{
    proxy_t *p = *state;
    const gb_endpoint_t *ways[2] = {&p->local, &p->tcp};
    for (int i = 0; i < 2; i++) {
        gb_link_t *link = dial(ways[i], 100);
        px_session_info_t info;
        uint64_t memory = 4711;
        char answer;
        int64_t descriptors;
        assert_int_equal(gb_link_is_encrypted(link), i);
        facts_t f = ask_facts(link);
        assert_int_equal(f.device_count, 2);
        assert_int_equal(f.quota, 12345);
        assert_int_equal(px_daemon_sessions(p->daemon, &info, 1), 1);
        assert_int_equal(info.pid, f.pid);
        assert_int_equal(info.id, 100);
        assert_int_equal(info.lease, LEASE);

        assert_int_equal(gb_link_send(link, "d", 1), GB_OK);
        assert_int_equal(gb_link_recv(link, &descriptors, 8, in_seconds(10)), GB_OK);
        assert_in_range(descriptors, 7, 7); /* 0, 1, 2, control, client, account, lockers */

        assert_int_equal(gb_link_send(link, "m", 1), GB_OK);
        assert_int_equal(gb_link_send(link, &memory, sizeof memory), GB_OK);
        assert_int_equal(gb_link_recv(link, &answer, 1, in_seconds(10)), GB_OK);
        for (uint64_t end = in_seconds(5); info.memory != memory && gb_now_ns() < end;)
            px_daemon_sessions(p->daemon, &info, 1);
        assert_int_equal(info.memory, memory);

        gb_link_close(link);
        wait_sessions(p, 0, 5);
        assert_int_equal(kill((pid_t)f.pid, 0), -1);
    }
}

static void a_stuck_session_ends_with_its_client(void **state)
{
    proxy_t *p = *state;
    gb_link_t *link = dial(&p->tcp, 1);
    assert_int_equal(gb_link_send(link, "h", 1), GB_OK);
    wait_sessions(p, 1, 5);
    gb_link_close(link);
    assert_true(wait_sessions(p, 0, 5) < 2.0);
}

static void a_session_is_confined(void **state)
{
    proxy_t *p = *state;
    int64_t codes[3];
    gb_link_t *link = dial(&p->tcp, 1);
    assert_int_equal(gb_link_send(link, "x", 1), GB_OK);
    assert_int_equal(gb_link_recv(link, codes, sizeof codes, in_seconds(10)), GB_OK);
    assert_int_equal(codes[0], EPERM);
    assert_int_equal(codes[1], EPERM);
    assert_int_equal(codes[2], 0);
    ask_facts(link); /* and it works all the same */
    gb_link_close(link);
    wait_sessions(p, 0, 5);
}

static void a_session_can_be_killed(void **state)
{
    proxy_t *p = *state;
    char byte;
    gb_link_t *link = dial(&p->local, 55);
    gb_link_t *other = dial(&p->local, 56);
    ask_facts(link);
    assert_int_equal(px_daemon_session_kill(p->daemon, 54), GB_ERR_NOT_FOUND);
    assert_int_equal(px_daemon_session_kill(p->daemon, 55), GB_OK);
    assert_int_equal(gb_link_recv(link, &byte, 1, in_seconds(5)), GB_ERR_LOST);
    wait_sessions(p, 1, 5);
    ask_facts(other);
    gb_link_close(link);
    gb_link_close(other);
    wait_sessions(p, 0, 5);
}

static void a_crash_ends_that_session_only(void **state)
{
    proxy_t *p = *state;
    char byte;
    gb_link_t *link = dial(&p->local, 1);
    gb_link_t *other = dial(&p->tcp, 2);
    assert_int_equal(gb_link_send(link, "c", 1), GB_OK);
    assert_int_equal(gb_link_recv(link, &byte, 1, in_seconds(5)), GB_ERR_LOST);
    wait_sessions(p, 1, 5);
    ask_facts(other);
    gb_link_close(link);
    gb_link_close(other);
    wait_sessions(p, 0, 5);
}

static void revocation_and_expiry_end_sessions(void **state)
{
    proxy_t *p = *state;
    char byte;
    px_grant_t grant = {.lease = 77, .key = KEY};
    gb_link_t *link;
    assert_int_equal(px_grants_add(p->grants, &grant), GB_OK);
    assert_int_equal(dial_as(&p->local, 77, &KEY, 1, &link), GB_OK);
    ask_facts(link);
    assert_int_equal(px_grants_revoke(p->grants, 77), GB_OK);
    assert_int_equal(gb_link_recv(link, &byte, 1, in_seconds(2)), GB_ERR_LOST);
    gb_link_close(link);
    wait_sessions(p, 0, 5);

    grant.expires_ms = gb_wall_ms() + 700;
    assert_int_equal(px_grants_add(p->grants, &grant), GB_OK);
    assert_int_equal(dial_as(&p->local, 77, &KEY, 2, &link), GB_OK);
    assert_int_equal(gb_link_recv(link, &byte, 1, in_seconds(4)), GB_ERR_LOST);
    assert_true(gb_wall_ms() >= grant.expires_ms);
    gb_link_close(link);
    wait_sessions(p, 0, 5);
}

static void strangers_are_refused(void **state)
{
    proxy_t *p = *state;
    gb_link_t *link = NULL;
    gb_key_t wrong = KEY;
    gb_key_t zero = {{0}};
    const gb_endpoint_t *ways[2] = {&p->local, &p->tcp};
    wrong.bytes[31] ^= 1;
    gb_link_t *honest = dial(&p->tcp, 1);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(dial_as(ways[i], LEASE, &wrong, 2, &link), GB_ERR_UNAUTHORISED);
        assert_int_equal(dial_as(ways[i], LEASE + 1, &KEY, 2, &link), GB_ERR_UNAUTHORISED);
        assert_int_equal(dial_as(ways[i], EXPIRED, &KEY, 2, &link), GB_ERR_UNAUTHORISED);
        assert_int_equal(dial_as(ways[i], 0, &zero, 2, &link), GB_ERR_UNAUTHORISED);
        assert_int_equal(dial_as(ways[i], LEASE, &KEY, 1, &link), GB_ERR_EXISTS);
    }
    gb_credential_t plain = {
        .service = GB_SERVICE_SESSION, .lease = LEASE, .key = KEY, .session = 2, .insecure = 1};
    assert_int_equal(gb_link_dial(&p->tcp, &plain, in_seconds(5), &link), GB_ERR_UNSUPPORTED);
    gb_credential_t shard = {.service = GB_SERVICE_SHARD, .lease = LEASE, .key = KEY, .session = 2};
    assert_int_equal(gb_link_dial(&p->tcp, &shard, in_seconds(5), &link), GB_ERR_INVALID);
    assert_int_equal(session_count(p), 1);
    ask_facts(honest);
    gb_link_close(honest);
    wait_sessions(p, 0, 5);
}

static gb_status_t come_as_peer(const gb_endpoint_t *to, gb_service_t service, const gb_key_t *key,
                                uint64_t session, gb_link_t **out)
{
    gb_credential_t c = {.service = service,
                         .lease = LEASE,
                         .key = *key,
                         .session = session,
                         .connection = 5 << 16 | 2};
    return gb_link_dial(to, &c, in_seconds(10), out);
}

/* Another session of the client dials with the key of the pair, which opens nothing else. */
static void sessions_dial_each_other(void **state)
{
    proxy_t *p = *state;
    const gb_endpoint_t *ways[2] = {&p->local, &p->tcp};
    gb_key_t key, foreign;
    gb_link_t *link = NULL, *honest = dial(&p->tcp, 1);
    ask_facts(honest);
    assert_int_equal(gb_peer_key(&KEY, LEASE, 1, 5 << 16, &key), GB_OK);
    assert_int_equal(gb_peer_key(&KEY, LEASE, 1, 6 << 16, &foreign), GB_OK);
    for (int i = 0; i < 2; i++) {
        uint32_t connection = 0;
        assert_int_equal(come_as_peer(ways[i], GB_SERVICE_PEER, &key, 1, &link), GB_OK);
        assert_int_equal(gb_link_recv(link, &connection, sizeof connection, in_seconds(5)), GB_OK);
        assert_int_equal(connection, 5 << 16 | 2);
        assert_int_equal(gb_link_is_encrypted(link), i);
        gb_link_close(link);
        assert_int_equal(come_as_peer(ways[i], GB_SERVICE_PEER, &KEY, 1, &link),
                         GB_ERR_UNAUTHORISED);
        assert_int_equal(come_as_peer(ways[i], GB_SERVICE_PEER, &foreign, 1, &link),
                         GB_ERR_UNAUTHORISED);
        assert_int_equal(come_as_peer(ways[i], GB_SERVICE_SESSION, &key, 1, &link),
                         GB_ERR_UNAUTHORISED);
        assert_int_equal(come_as_peer(ways[i], GB_SERVICE_PEER, &key, 2, &link),
                         GB_ERR_UNAUTHORISED);
    }
    assert_int_equal(gb_peer_key(&KEY, LEASE, 2, 5 << 16, &key), GB_OK);
    assert_int_equal(come_as_peer(&p->tcp, GB_SERVICE_PEER, &key, 2, &link), GB_ERR_NOT_FOUND);
    assert_int_equal(session_count(p), 1);
    ask_facts(honest);
    gb_link_close(honest);
    wait_sessions(p, 0, 5);
}

/* Reads until the proxy closes; returns the seconds it took. */
static double wait_closed(int fd)
{
    char sink[256];
    uint64_t start = gb_now_ns();
    for (;;) {
        ssize_t n = recv(fd, sink, sizeof sink, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN))
            break;
        assert_int_equal(gb_socket_wait(fd, GB_SOCKET_IN, in_seconds(5)), GB_OK);
    }
    close(fd);
    return (double)(gb_now_ns() - start) / 1e9;
}

static void garbage_and_slow_clients(void **state)
{
    proxy_t *p = *state;
    int fd[8];
    uint8_t preamble[GB_PREAMBLE_SIZE];
    gb_preamble_t facts = {.service = GB_SERVICE_SESSION, .lease = LEASE, .nonce = {1}};
    gb_link_t *honest = dial(&p->tcp, 1);
    assert_int_equal(gb_preamble_encode(&facts, &KEY, preamble), GB_OK);

    /* garbage is refused at its first bytes */
    assert_int_equal(gb_socket_connect(&p->tcp, in_seconds(5), &fd[0]), GB_OK);
    assert_int_equal(send(fd[0], "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    assert_true(wait_closed(fd[0]) < PREAMBLE_MS / 1e3);
    /* another version by name */
    preamble[8] = 9;
    assert_int_equal(gb_socket_connect(&p->tcp, in_seconds(5), &fd[0]), GB_OK);
    assert_int_equal(send(fd[0], preamble, sizeof preamble, MSG_NOSIGNAL), sizeof preamble);
    assert_int_equal(gb_socket_wait(fd[0], GB_SOCKET_IN, in_seconds(5)), GB_OK);
    assert_int_equal(recv(fd[0], preamble, GB_ANSWER_SIZE, MSG_WAITALL), GB_ANSWER_SIZE);
    assert_int_equal(gb_answer_decode(preamble, "there"), GB_ERR_VERSION);
    close(fd[0]);
    /* half a preamble, then nothing: closed at the deadline */
    assert_int_equal(gb_socket_connect(&p->local, in_seconds(5), &fd[0]), GB_OK);
    assert_int_equal(send(fd[0], "GABLELNK....", 12, MSG_NOSIGNAL), 12);
    double slow = wait_closed(fd[0]);
    assert_true(slow > PREAMBLE_MS / 2e3 && slow < 4.0);
    /* more silent connections than there are places: the oldest make room, nobody is locked out */
    for (int i = 0; i < 8; i++)
        assert_int_equal(gb_socket_connect(&p->tcp, in_seconds(5), &fd[i]), GB_OK);
    gb_link_t *second = dial(&p->tcp, 2);
    ask_facts(second);
    for (int i = 0; i < 8; i++)
        wait_closed(fd[i]);
    ask_facts(honest);
    gb_link_close(honest);
    gb_link_close(second);
    wait_sessions(p, 0, 5);
}

/* A preamble without the key behind it fails the handshake; a second time it starts nothing. */
static void a_recorded_preamble_is_worth_nothing(void **state)
{
    proxy_t *p = *state;
    uint8_t preamble[GB_PREAMBLE_SIZE];
    uint8_t answer[GB_ANSWER_SIZE];
    gb_preamble_t facts = {
        .service = GB_SERVICE_SESSION, .security = GB_SECURITY_TLS, .lease = LEASE, .session = 9};
    const gb_status_t expected[2] = {GB_OK, GB_ERR_UNAUTHORISED};
    int fd;
    memset(facts.nonce, 7, sizeof facts.nonce);
    assert_int_equal(gb_preamble_encode(&facts, &KEY, preamble), GB_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(gb_socket_connect(&p->tcp, in_seconds(5), &fd), GB_OK);
        assert_int_equal(send(fd, preamble, sizeof preamble, MSG_NOSIGNAL), sizeof preamble);
        assert_int_equal(gb_socket_wait(fd, GB_SOCKET_IN, in_seconds(5)), GB_OK);
        assert_int_equal(recv(fd, answer, sizeof answer, MSG_WAITALL), sizeof answer);
        assert_int_equal(gb_answer_decode(answer, "there"), expected[i]);
        assert_int_equal(session_count(p), i == 0);
        if (i == 0)
            assert_int_equal(send(fd, "f not a TLS handshake", 21, MSG_NOSIGNAL), 21);
        wait_closed(fd);
        wait_sessions(p, 0, 5);
    }
}

static void the_session_limit_holds(void **state)
{
    proxy_t *p = *state;
    gb_link_t *link[4];
    gb_link_t *extra = NULL;
    for (int i = 0; i < 4; i++)
        link[i] = dial(&p->local, 10 + (uint64_t)i);
    assert_int_equal(dial_as(&p->local, LEASE, &KEY, 99, &extra), GB_ERR_LIMIT);
    gb_link_close(link[0]);
    wait_sessions(p, 3, 5);
    link[0] = dial(&p->local, 99);
    for (int i = 0; i < 4; i++) {
        ask_facts(link[i]);
        gb_link_close(link[i]);
    }
    wait_sessions(p, 0, 5);
}

typedef struct {
    int64_t status;
    char text[8], data[PX_LOCKER_DATA];
} found_t;

static found_t ask_locker(gb_link_t *link, char what, unsigned char token)
{
    px_token_t full = {{token}};
    found_t found;
    assert_int_equal(gb_link_send(link, &what, 1), GB_OK);
    assert_int_equal(gb_link_send(link, &full, sizeof full), GB_OK);
    assert_int_equal(gb_link_recv(link, &found, sizeof found, in_seconds(10)), GB_OK);
    return found;
}

/* What one session leaves, others of its tenant find, as long as it is there. */
static void sessions_leave_things_for_each_other(void **state)
{
    proxy_t *p = *state;
    gb_link_t *link[3];
    px_grant_t other = {.lease = 7200, .key = KEY};
    assert_int_equal(px_grants_add(p->grants, &other), GB_OK);
    link[0] = dial(&p->local, 10);
    link[1] = dial(&p->tcp, 11);
    assert_int_equal(dial_as(&p->local, 7200, &KEY, 12, &link[2]), GB_OK);
    assert_int_equal(ask_locker(link[1], 'g', 1).status, GB_ERR_NOT_FOUND);
    assert_int_equal(ask_locker(link[0], 'p', 1).status, GB_OK);
    assert_int_equal(ask_locker(link[0], 'p', 2).status, GB_OK);
    assert_int_equal(ask_locker(link[1], 'p', 2).status, GB_ERR_EXISTS);
    for (int i = 0; i < 2; i++) { /* any number of times, and itself too */
        found_t found = ask_locker(link[i], 'g', 1);
        assert_int_equal(found.status, GB_OK);
        assert_string_equal(found.text, "a file");
        assert_string_equal(found.data, "beside it");
    }
    assert_int_equal(ask_locker(link[2], 'g', 1).status, GB_ERR_NOT_FOUND); /* a stranger */
    assert_int_equal(ask_locker(link[2], 't', 1).status, GB_ERR_NOT_FOUND);
    assert_int_equal(ask_locker(link[1], 't', 1).status, GB_ERR_NOT_FOUND); /* not its own */
    assert_int_equal(ask_locker(link[0], 't', 1).status, GB_OK);
    assert_int_equal(ask_locker(link[0], 't', 1).status, GB_ERR_NOT_FOUND);
    assert_int_equal(ask_locker(link[1], 'g', 1).status, GB_ERR_NOT_FOUND);
    assert_int_equal(ask_locker(link[1], 'g', 2).status, GB_OK);
    gb_link_close(link[0]);
    wait_sessions(p, 2, 5);
    assert_int_equal(ask_locker(link[1], 'g', 2).status, GB_ERR_NOT_FOUND);
    gb_link_close(link[1]);
    gb_link_close(link[2]);
    wait_sessions(p, 0, 5);
    assert_int_equal(px_grants_revoke(p->grants, 7200), GB_OK);
}

/* Tenants that are known by name share among all their leases, and with nobody else. */
static void tenants_share_by_name(void **state)
{
    proxy_t *p = *state;
    static const char *const tenants[] = {"anna", "anna", "bert"};
    gb_link_t *link[3];
    for (int i = 0; i < 3; i++) {
        px_grant_t grant = {.lease = 7300 + (uint64_t)i, .key = KEY};
        snprintf(grant.tenant, sizeof grant.tenant, "%s", tenants[i]);
        assert_int_equal(px_grants_add(p->grants, &grant), GB_OK);
        assert_int_equal(dial_as(&p->local, grant.lease, &KEY, 1, &link[i]), GB_OK);
    }
    assert_int_equal(ask_locker(link[0], 'p', 9).status, GB_OK);
    assert_int_equal(ask_locker(link[1], 'g', 9).status, GB_OK);
    assert_int_equal(ask_locker(link[2], 'g', 9).status, GB_ERR_NOT_FOUND);
    for (int i = 0; i < 3; i++)
        gb_link_close(link[i]);
    wait_sessions(p, 0, 5);
    for (int i = 0; i < 3; i++)
        assert_int_equal(px_grants_revoke(p->grants, 7300 + (uint64_t)i), GB_OK);
}

/* Nobody fills the daemon up. */
static void lockers_are_bounded(void **state)
{
    proxy_t *p = *state;
    gb_link_t *link = dial(&p->local, 1);
    for (int i = 0; i < PX_LOCKER_ITEMS; i++) {
        px_token_t token = {{1, (uint8_t)i, (uint8_t)(i >> 8)}};
        found_t found;
        assert_int_equal(gb_link_send(link, "p", 1), GB_OK);
        assert_int_equal(gb_link_send(link, &token, sizeof token), GB_OK);
        assert_int_equal(gb_link_recv(link, &found, sizeof found, in_seconds(10)), GB_OK);
        if (found.status != GB_OK) /* a small limit of descriptors came first */
            break;
    }
    assert_int_not_equal(ask_locker(link, 'p', 77).status, GB_OK);
    gb_link_close(link);
    wait_sessions(p, 0, 5);
    link = dial(&p->local, 1);
    assert_int_equal(ask_locker(link, 'p', 77).status, GB_OK);
    gb_link_close(link);
    wait_sessions(p, 0, 5);
}

/* Where the session of that lease caches kernels. */
static void ask_cache(const proxy_t *p, uint64_t lease, char out[256])
{
    gb_link_t *link = NULL;
    assert_int_equal(dial_as(&p->local, lease, &KEY, lease, &link), GB_OK);
    assert_int_equal(gb_link_send(link, "k", 1), GB_OK);
    assert_int_equal(gb_link_recv(link, out, 256, in_seconds(10)), GB_OK);
    gb_link_close(link);
}

/* Kernels are native code: what one tenant leaves must not run in another's session. */
static void every_tenant_has_a_cache_of_its_own(void **state)
{
    proxy_t *p = *state;
    static const char *const tenants[] = {"anna", "bert", "anna", "../../etc", ""};
    char where[5][256], expected[256];
    struct stat info;
    for (int i = 0; i < 5; i++) {
        px_grant_t grant = {.lease = 7000 + (uint64_t)i, .key = KEY};
        snprintf(grant.tenant, sizeof grant.tenant, "%s", tenants[i]);
        assert_int_equal(px_grants_add(p->grants, &grant), GB_OK);
        ask_cache(p, grant.lease, where[i]);
        wait_sessions(p, 0, 5);
        snprintf(expected, sizeof expected, "%s/tenant-", cache);
        assert_memory_equal(where[i], expected, strlen(expected));
        assert_null(strchr(where[i] + strlen(expected), '/'));
        assert_int_equal(stat(where[i], &info), 0);
        assert_int_equal(info.st_mode & 0777, 0700);
    }
    assert_string_equal(where[0], where[2]);
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < i; k++)
            if (!(i == 2 && k == 0))
                assert_string_not_equal(where[i], where[k]);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(px_grants_revoke(p->grants, 7000 + (uint64_t)i), GB_OK);
        (void)rmdir(where[i]);
    }
}

/* Folders of tenants long unseen go, with the kernels in them, and nothing else does. */
static void caches_of_tenants_are_bounded(void **state)
{
    proxy_t *p = *state;
    char path[320], own[256];
    int left = 0;
    for (int i = 0; i < 20; i++) {
        /* the higher the number, the longer ago */
        const struct timespec times[2] = {{1000000 - i, 0}, {1000000 - i, 0}};
        snprintf(path, sizeof path, "%s/tenant-%d", cache, i);
        assert_int_equal(mkdir(path, 0700), 0);
        snprintf(path, sizeof path, "%s/tenant-%d/%s", cache, i, i == 19 ? "letter" : "x.kernel");
        int file = creat(path, 0600);
        assert_true(file >= 0);
        close(file);
        snprintf(path, sizeof path, "%s/tenant-%d", cache, i);
        assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
    }
    px_grant_t grant = {.lease = 7100, .key = KEY, .tenant = "anna"};
    assert_int_equal(px_grants_add(p->grants, &grant), GB_OK);
    ask_cache(p, 7100, own);
    wait_sessions(p, 0, 5);
    for (int i = 0; i < 20; i++) {
        snprintf(path, sizeof path, "%s/tenant-%d", cache, i);
        left += access(path, F_OK) == 0;
    }
    assert_int_equal(left, 20); /* the oldest has something of its own: then none goes */
    snprintf(path, sizeof path, "%s/tenant-19/letter", cache);
    assert_int_equal(unlink(path), 0);
    *strrchr(path, '/') = 0;
    const struct timespec oldest[2] = {{1, 0}, {1, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, oldest, 0), 0);
    ask_cache(p, 7100, own);
    wait_sessions(p, 0, 5);
    for (int i = 0; i < 20; i++) {
        snprintf(path, sizeof path, "%s/tenant-%d", cache, i);
        assert_int_equal(access(path, F_OK) == 0, i < 15);
    }
    assert_int_equal(access(own, F_OK), 0);
    for (int i = 0; i < 15; i++) {
        snprintf(path, sizeof path, "%s/tenant-%d/x.kernel", cache, i);
        assert_int_equal(unlink(path), 0);
        *strrchr(path, '/') = 0;
        assert_int_equal(rmdir(path), 0);
    }
    assert_int_equal(px_grants_revoke(p->grants, 7100), GB_OK);
    assert_int_equal(rmdir(own), 0);
}

static void sessions_end_with_the_daemon(void **state)
{
    void *own;
    proxy_t *p;
    (void)state;
    assert_int_equal(proxy_start(&own), 0);
    p = own;
    gb_link_t *link = dial(&p->tcp, 1);
    pid_t pid = (pid_t)ask_facts(link).pid;
    assert_int_equal(gb_link_send(link, "h", 1), GB_OK);
    assert_int_equal(proxy_stop(&own), 0);
    assert_int_equal(kill(pid, 0), -1);
    gb_link_close(link);
}

/* What the sessions' drivers may have left of tenants' folders. */
static void remove_cache(void)
{
    char path[512];
    DIR *dir = opendir(cache);
    for (struct dirent *item = dir ? readdir(dir) : NULL; item; item = readdir(dir)) {
        snprintf(path, sizeof path, "%s/%s", cache, item->d_name);
        if (item->d_name[0] != '.')
            (void)rmdir(path);
    }
    if (dir)
        closedir(dir);
    (void)rmdir(cache);
}

static void block_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGCHLD);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_probe_lists_devices),
        cmocka_unit_test(sessions_serve_and_end),
        cmocka_unit_test(a_stuck_session_ends_with_its_client),
        cmocka_unit_test(a_session_is_confined),
        cmocka_unit_test(a_session_can_be_killed),
        cmocka_unit_test(a_crash_ends_that_session_only),
        cmocka_unit_test(revocation_and_expiry_end_sessions),
        cmocka_unit_test(strangers_are_refused),
        cmocka_unit_test(sessions_dial_each_other),
        cmocka_unit_test(garbage_and_slow_clients),
        cmocka_unit_test(a_recorded_preamble_is_worth_nothing),
        cmocka_unit_test(the_session_limit_holds),
        cmocka_unit_test(sessions_leave_things_for_each_other),
        cmocka_unit_test(tenants_share_by_name),
        cmocka_unit_test(lockers_are_bounded),
        cmocka_unit_test(every_tenant_has_a_cache_of_its_own),
        cmocka_unit_test(caches_of_tenants_are_bounded),
        cmocka_unit_test(sessions_end_with_the_daemon),
    };
    block_signals(); /* before the first thread */
    setenv("GABLE_HOME", GABLE_BUILD_DIR "/tests/fake-home", 1);
    if (!mkdtemp(cache) || setenv("GABLE_CPU_CACHE", cache, 1))
        return 1;
    int failed = cmocka_run_group_tests_name("daemon", tests, proxy_start, proxy_stop);
    remove_cache();
    return failed;
}
