/* Getting in, and being refused: listeners, keys, versions, wrong ports, deadlines. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/link/gb_socket.h"
#include "tests/unit/link/test_support.h"

typedef struct {
    gb_listener_t *listener;
    int allow_plain;
    const gb_key_t *handshake_key; /* another one than the preamble's, to spoil the handshake */
    int spoil_nonce;
    gb_status_t status;
} server_t;

static void *serve_one(void *arg)
{
    server_t *s = arg;
    int fd;
    char peer[GB_PEER_TEXT];
    gb_preamble_t facts;
    gb_key_t key;
    gb_link_t *link = NULL;
    s->status = gb_listener_accept(s->listener, in_seconds(10), &fd, peer);
    if (s->status != GB_OK)
        return NULL;
    if (!s->handshake_key) {
        s->status = gb_link_accept(fd, in_seconds(10), GB_SERVICE_SESSION, s->allow_plain,
                                   test_lookup, NULL, &facts, &link);
    } else {
        s->status = gb_preamble_accept(fd, in_seconds(10), GB_SERVICE_SESSION, test_lookup, NULL,
                                       &facts, &key);
        assert_int_equal(s->status, GB_OK);
        assert_int_equal(gb_preamble_answer(fd, GB_OK), GB_OK);
        facts.nonce[3] ^= s->spoil_nonce ? 1 : 0;
        s->status = gb_link_adopt(fd, &facts, s->handshake_key, in_seconds(10), &link);
    }
    gb_link_close(link);
    return NULL;
}

static gb_status_t dial_once(server_t *s, gb_credential_t *c)
{
    pthread_t thread;
    gb_link_t *link = NULL;
    pthread_create(&thread, NULL, serve_one, s);
    gb_status_t st = gb_link_dial(gb_listener_endpoint(s->listener), c, in_seconds(10), &link);
    pthread_join(thread, NULL);
    gb_link_close(link);
    return st;
}

static void refusals(void **state)
{
    (void)state;
    server_t s = {listener_open(LINE_TCP), .status = GB_OK};
    gb_credential_t good = {.service = GB_SERVICE_SESSION, .lease = TEST_LEASE, .key = test_key};
    gb_credential_t c = good;
    assert_int_equal(dial_once(&s, &c), GB_OK);
    assert_int_equal(s.status, GB_OK);
    c.key.bytes[5] ^= 1;
    assert_int_equal(dial_once(&s, &c), GB_ERR_UNAUTHORISED);
    assert_int_equal(s.status, GB_ERR_UNAUTHORISED);
    c = good;
    c.lease++;
    assert_int_equal(dial_once(&s, &c), GB_ERR_UNAUTHORISED);
    c = good;
    c.service = GB_SERVICE_SHARD;
    assert_int_equal(dial_once(&s, &c), GB_ERR_INVALID);
    c = good;
    c.insecure = 1;
    assert_int_equal(dial_once(&s, &c), GB_ERR_UNSUPPORTED);
    s.allow_plain = 1;
    assert_int_equal(dial_once(&s, &c), GB_OK);
    gb_listener_close(s.listener);
}

/* Whoever gets past the preamble (a replay) still fails the handshake, and so does a false server. */
static void handshake_with_another_key(void **state)
{
    (void)state;
    gb_key_t other = test_key;
    other.bytes[0] ^= 1;
    server_t s = {listener_open(LINE_TCP), .handshake_key = &other};
    gb_credential_t c = {.service = GB_SERVICE_SESSION, .lease = TEST_LEASE, .key = test_key};
    assert_int_equal(dial_once(&s, &c), GB_ERR_UNAUTHORISED);
    assert_int_equal(s.status, GB_ERR_UNAUTHORISED);

    /* the right key, but the handshake of another preamble */
    s.handshake_key = &test_key;
    assert_int_equal(dial_once(&s, &c), GB_OK);
    s.spoil_nonce = 1;
    assert_int_equal(dial_once(&s, &c), GB_ERR_UNAUTHORISED);
    gb_listener_close(s.listener);
}

static void nobody_there(void **state)
{
    (void)state;
    gb_credential_t c = {.service = GB_SERVICE_SESSION};
    gb_link_t *link = NULL;
    gb_endpoint_t e;
    gb_listener_t *l = listener_open(LINE_TCP);
    e = *gb_listener_endpoint(l);
    gb_listener_close(l); /* its port is free now */
    assert_int_equal(gb_link_dial(&e, &c, in_seconds(5), &link), GB_ERR_UNREACHABLE);
    assert_int_equal(gb_endpoint_parse("unix:/nonexistent/socket", 0, &e), GB_OK);
    assert_int_equal(gb_link_dial(&e, &c, in_seconds(5), &link), GB_ERR_UNREACHABLE);
    assert_int_equal(gb_endpoint_parse("no-such-host.invalid:1", 0, &e), GB_OK);
    assert_int_equal(gb_link_dial(&e, &c, in_seconds(5), &link), GB_ERR_UNREACHABLE);
}

/* A peer that takes the connection and says nothing, or something else. */
static void wrong_peers(void **state)
{
    (void)state;
    gb_credential_t c = {.service = GB_SERVICE_SESSION};
    gb_link_t *link = NULL;
    gb_listener_t *l = listener_open(LINE_TCP);
    uint64_t start = gb_now_ns();
    assert_int_equal(gb_link_dial(gb_listener_endpoint(l), &c, in_seconds(0.1), &link),
                     GB_ERR_TIMEOUT);
    assert_true(gb_now_ns() - start < 2000000000ull);
    gb_listener_close(l);

    gb_key_t key;
    gb_preamble_t facts;
    int sv[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
    assert_int_equal(write(sv[1], "SSH-2.0-OpenSSH\r\n", 17), 17);
    assert_int_equal(gb_preamble_accept(sv[0], in_seconds(5), GB_SERVICE_SESSION, test_lookup, NULL,
                                        &facts, &key),
                     GB_ERR_PROTOCOL);
    close(sv[0]);
    close(sv[1]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sv), 0);
    assert_int_equal(write(sv[1], "GABLE", 5), 5);
    assert_int_equal(gb_preamble_accept(sv[0], in_seconds(0.05), GB_SERVICE_SESSION, test_lookup,
                                        NULL, &facts, &key),
                     GB_ERR_TIMEOUT);
    close(sv[1]);
    assert_int_equal(gb_preamble_accept(sv[0], in_seconds(5), GB_SERVICE_SESSION, test_lookup, NULL,
                                        &facts, &key),
                     GB_ERR_LOST);
    close(sv[0]);
    uint8_t answer[GB_ANSWER_SIZE] = "HTTP/1.1 400 Bad";
    assert_int_equal(gb_answer_decode(answer, "there"), GB_ERR_PROTOCOL);
}

/* Every bit of a preamble is under the proof. */
static void every_flipped_bit_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[GB_PREAMBLE_SIZE];
    gb_preamble_t facts = {
        .service = GB_SERVICE_SHARD, .security = 1, .lease = TEST_LEASE, .session = 5};
    gb_preamble_t out;
    gb_key_t key;
    assert_int_equal(gb_preamble_encode(&facts, &test_key, bytes), GB_OK);
    assert_int_equal(gb_preamble_verify(bytes, GB_SERVICE_SHARD, test_lookup, NULL, &out, &key),
                     GB_OK);
    for (int bit = 0; bit < 8 * GB_PREAMBLE_SIZE; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_int_not_equal(
            gb_preamble_verify(bytes, GB_SERVICE_SHARD, test_lookup, NULL, &out, &key), GB_OK);
        bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

static void port_in_use(void **state)
{
    (void)state;
    for (line_t line = LINE_UNIX; line <= LINE_TCP; line++) {
        gb_listener_t *first = listener_open(line);
        gb_listener_t *second = NULL;
        assert_int_equal(gb_listener_open(gb_listener_endpoint(first), 1, &second), GB_ERR_EXISTS);
        assert_non_null(strstr(gb_why(), "in use"));
        gb_listener_close(first);
    }
}

static void stale_socket_files(void **state)
{
    (void)state;
    char folder[] = "/tmp/gable-test-XXXXXX";
    char text[64];
    gb_endpoint_t e;
    gb_listener_t *l;
    struct stat sb;
    assert_non_null(mkdtemp(folder));
    snprintf(text, sizeof text, "unix:%s/s", folder);
    assert_int_equal(gb_endpoint_parse(text, 0, &e), GB_OK);
    assert_int_equal(gb_listener_open(&e, 0, &l), GB_OK);
    assert_int_equal(stat(e.name, &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0666);
    gb_listener_close(l);
    /* as a killed process leaves it: a socket file that nobody listens on */
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    snprintf(un.sun_path, sizeof un.sun_path, "%.100s", e.name);
    int dead = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(dead, (struct sockaddr *)&un, sizeof un), 0);
    close(dead);
    gb_listener_t *again;
    assert_int_equal(gb_listener_open(&e, 1, &again), GB_OK);
    assert_int_equal(stat(e.name, &sb), 0);
    assert_int_equal(sb.st_mode & 0777, 0600);
    gb_listener_close(again);
    assert_int_equal(stat(e.name, &sb), -1);
    /* a file that is no socket is never removed */
    int fd = open(e.name, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(gb_listener_open(&e, 1, &again), GB_ERR_EXISTS);
    assert_int_equal(unlink(e.name), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void *accept_main(void *arg)
{
    server_t *s = arg;
    int fd;
    char peer[GB_PEER_TEXT];
    s->status = gb_listener_accept(s->listener, GB_NEVER, &fd, peer);
    return NULL;
}

static void shutdown_ends_accept(void **state)
{
    (void)state;
    for (line_t line = LINE_UNIX; line <= LINE_TCP; line++) {
        server_t s = {listener_open(line), .status = GB_OK};
        pthread_t thread;
        pthread_create(&thread, NULL, accept_main, &s);
        gb_listener_shutdown(s.listener);
        pthread_join(thread, NULL);
        assert_int_equal(s.status, GB_ERR_CANCELLED);
        gb_listener_close(s.listener);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refusals),
        cmocka_unit_test(handshake_with_another_key),
        cmocka_unit_test(nobody_there),
        cmocka_unit_test(wrong_peers),
        cmocka_unit_test(every_flipped_bit_is_refused),
        cmocka_unit_test(port_in_use),
        cmocka_unit_test(stale_socket_files),
        cmocka_unit_test(shutdown_ends_accept),
    };
    return cmocka_run_group_tests_name("dial", tests, NULL, NULL);
}
