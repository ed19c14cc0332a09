#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/link/test_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const gb_key_t test_key = {{1, 2, 3, 4, 5, 6, 7, 8, 9}};

uint64_t in_seconds(double seconds)
{
    return gb_now_ns() + (uint64_t)(seconds * 1e9);
}

const char *line_name(line_t line)
{
    static const char *const names[] = {"unix", "tcp", "tls", "shared"};
    return names[line];
}

gb_status_t test_lookup(void *arg, uint64_t lease, gb_key_t *key)
{
    (void)arg;
    if (lease != TEST_LEASE)
        return gb_fail(GB_ERR_NOT_FOUND, "no such lease");
    *key = test_key;
    return GB_OK;
}

gb_listener_t *listener_open(line_t line)
{
    gb_endpoint_t endpoint;
    gb_listener_t *listener = NULL;
    char text[GB_ENDPOINT_TEXT] = "127.0.0.1:0";
    char folder[] = "/tmp/gable-test-XXXXXX";
    if (line == LINE_UNIX || line == LINE_SHARED) {
        assert_non_null(mkdtemp(folder));
        snprintf(text, sizeof text, "unix:%s/s", folder);
    }
    assert_int_equal(gb_endpoint_parse(text, 1, &endpoint), GB_OK);
    assert_int_equal(gb_listener_open(&endpoint, 1, &listener), GB_OK);
    return listener;
}

static void listener_discard(gb_listener_t *listener)
{
    gb_endpoint_t e = *gb_listener_endpoint(listener);
    gb_listener_close(listener);
    if (e.kind == GB_ENDPOINT_UNIX) {
        *strrchr(e.name, '/') = 0;
        assert_int_equal(rmdir(e.name), 0); /* and the socket file is gone */
    }
}

typedef struct {
    gb_listener_t *listener;
    ends_t *ends;
    gb_service_t service;
    gb_status_t status;
} acceptor_t;

static void *accept_main(void *arg)
{
    acceptor_t *a = arg;
    int fd;
    char peer[GB_PEER_TEXT];
    a->status = gb_listener_accept(a->listener, in_seconds(10), &fd, peer);
    if (a->status == GB_OK)
        a->status = gb_link_accept(fd, in_seconds(10), a->service, 1, test_lookup, NULL,
                                   &a->ends->facts, &a->ends->server);
    return NULL;
}

ends_t ends_open(line_t line)
{
    ends_t ends = {0};
    pthread_t thread;
    /* Sessions on the same machine share memory, nobody else does. */
    gb_service_t service = line == LINE_SHARED ? GB_SERVICE_SESSION : GB_SERVICE_SHARD;
    acceptor_t acceptor = {listener_open(line), &ends, service, GB_ERR_INTERNAL};
    gb_credential_t credential = {.service = service,
                                  .lease = TEST_LEASE,
                                  .key = test_key,
                                  .session = 77,
                                  .connection = 3,
                                  .insecure = line == LINE_TCP};
    assert_int_equal(pthread_create(&thread, NULL, accept_main, &acceptor), 0);
    gb_status_t st = gb_link_dial(gb_listener_endpoint(acceptor.listener), &credential,
                                  in_seconds(10), &ends.client);
    pthread_join(thread, NULL);
    if (st != GB_OK)
        print_error("dial: %s\n", gb_why());
    assert_int_equal(st, GB_OK);
    assert_int_equal(acceptor.status, GB_OK);
    listener_discard(acceptor.listener);
    return ends;
}

void ends_close(ends_t *ends)
{
    gb_link_close(ends->client);
    gb_link_close(ends->server);
}

void fill_bytes(uint8_t *bytes, size_t size, uint32_t seed)
{
    for (size_t i = 0; i < size; i++) {
        seed = seed * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(seed >> 24);
    }
}
