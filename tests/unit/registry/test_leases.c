/* Leases: placing, granting, ending, and what survives a restart. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/ca.h"
#include "common/core/gb_clock.h"
#include "gable.pb-c.h"
#include "tests/unit/registry/cluster_help.h"

typedef struct {
    help_server_t server;
    help_proxy_t *a, *b;
    gb_cluster_t *cluster;
} fixture_t;

static int set_up(void **state)
{
    fixture_t *f = calloc(1, sizeof *f);
    help_server_create(&f->server);
    help_server_start(&f->server);
    f->a = help_proxy_start(&f->server, "a", 1, HELP_ACCEPT);
    f->b = help_proxy_start(&f->server, "b", 1, HELP_ACCEPT);
    f->cluster = help_connect(&f->server, "tester");
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture_t *f = *state;
    gb_cluster_close(f->cluster);
    if (f->a)
        help_proxy_vanish(f->a);
    if (f->b)
        help_proxy_vanish(f->b);
    help_server_destroy(&f->server);
    free(f);
    return 0;
}

static gb_cluster_lease_t *acquire(fixture_t *f, uint32_t gpus)
{
    gb_lease_request_t request = {.gpus = gpus};
    gb_cluster_lease_t *lease = NULL;
    assert_int_equal(gb_cluster_lease_acquire(f->cluster, &request, &lease), GB_OK);
    return lease;
}

static void nap(void)
{
    struct timespec t = {0, 20000000};
    nanosleep(&t, NULL);
}

static void wait_free(fixture_t *f, uint32_t wanted)
{
    uint64_t end = gb_now_ns() + 10000000000u;
    gb_cluster_status_t status = {.devices_free = ~0u};
    while (gb_now_ns() < end && status.devices_free != wanted) {
        assert_int_equal(gb_cluster_status(f->cluster, &status), GB_OK);
        nap();
    }
    assert_int_equal(status.devices_free, wanted);
}

static void test_two_leases_two_gpus(void **state)
{
    fixture_t *f = *state;
    gb_cluster_lease_t *first = acquire(f, 1), *second = acquire(f, 1), *third = NULL;
    /* Each proxy got one grant, with the key that the holder has. */
    help_proxy_wait(f->a, &f->a->grants, 1);
    help_proxy_wait(f->b, &f->b->grants, 1);
    assert_int_not_equal(f->a->lease, f->b->lease);
    gb_cluster_lease_t *on_a = gb_cluster_lease_id(first) == f->a->lease ? first : second;
    const gb_lease_t *facts = gb_cluster_lease_get(on_a);
    assert_int_equal(facts->proxy_count, 1);
    assert_int_equal(facts->shard_count, 1);
    assert_memory_equal(facts->proxies[0].key.bytes, f->a->key, 32);
    assert_int_equal(gb_cluster_lease_gpus(on_a), 1);
    gb_lease_request_t request = {.gpus = 1};
    assert_int_equal(gb_cluster_lease_acquire(f->cluster, &request, &third), GB_ERR_LIMIT);
    assert_non_null(strstr(gb_why(), "1 GPU asked, 0 of 2 free"));
    gb_cluster_lease_release(first);
    gb_cluster_lease_release(second);
    help_proxy_wait(f->a, &f->a->revokes, 1);
    help_proxy_wait(f->b, &f->b->revokes, 1);
    wait_free(f, 2);
}

static void test_keys_differ(void **state)
{
    fixture_t *f = *state;
    gb_cluster_lease_t *lease = acquire(f, 2);
    const gb_lease_t *facts = gb_cluster_lease_get(lease);
    assert_int_equal(facts->proxy_count, 2);
    assert_memory_not_equal(facts->proxies[0].key.bytes, facts->proxies[1].key.bytes, 32);
    assert_memory_not_equal(facts->proxies[0].key.bytes, facts->shards[0].key.bytes, 32);
    gb_cluster_lease_release(lease);
}

static void test_shards_only(void **state)
{
    fixture_t *f = *state;
    gb_cluster_lease_t *lease = acquire(f, 0);
    uint32_t count;
    gb_cluster_lease_shards(lease, &count);
    assert_int_equal(count, 1);
    assert_int_equal(gb_cluster_lease_gpus(lease), 0);
    gb_cluster_lease_release(lease);
}

/* Nobody renews a lease that was asked for by hand. */
static void test_expires(void **state)
{
    fixture_t *f = *state;
    gb_rpc_client_t *client;
    Gable__V1__AcquireRequest request = GABLE__V1__ACQUIRE_REQUEST__INIT;
    Gable__V1__RenewRequest renew = GABLE__V1__RENEW_REQUEST__INIT;
    ProtobufCMessage *reply;
    request.gpus = 2;
    request.ttl_ms = 1000;
    assert_int_equal(gb_rpc_client_open(f->server.target, NULL, &client), GB_OK);
    assert_int_equal(gb_rpc_client_call(client, &gable__v1__leases__descriptor, "Acquire",
                                        &request.base, 10000, &reply),
                     GB_OK);
    renew.id = ((Gable__V1__Lease *)reply)->id;
    gb_rpc_message_free(reply);
    wait_free(f, 0);
    wait_free(f, 2);
    assert_int_equal(gb_rpc_client_call(client, &gable__v1__leases__descriptor, "Renew",
                                        &renew.base, 10000, &reply),
                     GB_ERR_NOT_FOUND);
    assert_non_null(strstr(gb_why(), "expired"));
    gb_rpc_client_close(client);
}

static void test_renewed_lease_lives(void **state)
{
    fixture_t *f = *state;
    gb_lease_request_t request = {.gpus = 1, .ttl_ms = 1000};
    gb_cluster_lease_t *lease;
    assert_int_equal(gb_cluster_lease_acquire(f->cluster, &request, &lease), GB_OK);
    uint64_t end = gb_now_ns() + 2500000000u; /* two and a half lives */
    while (gb_now_ns() < end) {
        assert_int_equal(gb_cluster_lease_state(lease), GB_OK);
        nap();
    }
    gb_cluster_lease_release(lease);
}

static void test_lost_proxy_ends_its_leases(void **state)
{
    fixture_t *f = *state;
    gb_lease_request_t request = {.gpus = 1, .ttl_ms = 1000, .device = "a/0"};
    gb_cluster_lease_t *lease;
    assert_int_equal(gb_cluster_lease_acquire(f->cluster, &request, &lease), GB_OK);
    help_proxy_vanish(f->a);
    f->a = NULL;
    uint64_t end = gb_now_ns() + 10000000000u;
    while (gb_now_ns() < end && gb_cluster_lease_state(lease) != GB_ERR_LOST)
        nap();
    assert_int_equal(gb_cluster_lease_state(lease), GB_ERR_LOST);
    assert_non_null(strstr(gb_why(), "proxy a is gone"));
    gb_cluster_lease_release(lease);
    gb_cluster_device_t *devices;
    uint32_t count;
    assert_int_equal(gb_cluster_devices(f->cluster, &devices, &count), GB_OK);
    assert_int_equal(count, 1);
    assert_string_equal(devices[0].id, "b/0");
    gb_cluster_free(devices);
}

/* A proxy that comes back in time gets its grants again, and the lease never notices. */
static void test_proxy_comes_back(void **state)
{
    fixture_t *f = *state;
    gb_cluster_lease_t *lease = acquire(f, 2);
    /* Its name is taken until the server has seen the old stream go. */
    for (int tries = 0; tries < 100; tries++) {
        help_proxy_vanish(f->a);
        f->a = help_proxy_start(&f->server, "a", 1, HELP_ACCEPT);
        if (f->a->welcomed)
            break;
    }
    assert_int_equal(f->a->welcome_grants, 1);
    assert_int_equal(f->a->lease, gb_cluster_lease_id(lease));
    assert_int_equal(gb_cluster_lease_state(lease), GB_OK);
    gb_cluster_lease_release(lease);
}

static void test_proxy_that_refuses(void **state)
{
    fixture_t *f = *state;
    help_proxy_answer(f->a, HELP_REFUSE);
    gb_lease_request_t request = {.gpus = 2};
    gb_cluster_lease_t *lease;
    assert_int_equal(gb_cluster_lease_acquire(f->cluster, &request, &lease), GB_ERR_BUSY);
    assert_non_null(strstr(gb_why(), "proxy a refused the lease: no room"));
    wait_free(f, 2);
}

static void test_proxy_that_does_not_answer(void **state)
{
    fixture_t *f = *state;
    help_proxy_answer(f->b, HELP_SILENT);
    gb_lease_request_t request = {.gpus = 2};
    gb_cluster_lease_t *lease;
    assert_int_equal(gb_cluster_lease_acquire(f->cluster, &request, &lease), GB_ERR_BUSY);
    help_proxy_wait(f->a, &f->a->revokes, 1);
    wait_free(f, 2);
}

static void test_name_is_taken(void **state)
{
    fixture_t *f = *state;
    help_proxy_t *twin = help_proxy_start(&f->server, "a", 1, HELP_ACCEPT);
    help_proxy_wait(twin, &twin->ended, 1);
    assert_int_equal(twin->end, GB_ERR_EXISTS);
    help_proxy_vanish(twin);
    twin = help_proxy_start(&f->server, "bad/name", 1, HELP_ACCEPT);
    help_proxy_wait(twin, &twin->ended, 1);
    assert_int_equal(twin->end, GB_ERR_INVALID);
    help_proxy_vanish(twin);
}

static void test_sessions_and_kill(void **state)
{
    fixture_t *f = *state;
    gb_lease_request_t request = {.gpus = 1, .device = "b/0"};
    gb_cluster_lease_t *lease;
    gb_cluster_session_t *sessions = NULL;
    uint32_t count = 0;
    assert_int_equal(gb_cluster_lease_acquire(f->cluster, &request, &lease), GB_OK);
    help_proxy_session(f->b, 0xabcdef, gb_cluster_lease_id(lease));
    uint64_t end = gb_now_ns() + 10000000000u;
    while (!count && gb_now_ns() < end) {
        gb_cluster_free(sessions);
        assert_int_equal(gb_cluster_sessions(f->cluster, &sessions, &count), GB_OK);
        nap();
    }
    assert_int_equal(count, 1);
    assert_int_equal(sessions[0].id, 0xabcdef);
    assert_string_equal(sessions[0].client, "tester");
    assert_string_equal(sessions[0].devices, "0");
    assert_string_equal(sessions[0].proxy, "b");
    gb_cluster_free(sessions);
    assert_int_equal(gb_cluster_session_kill(f->cluster, 0xabcdef), GB_OK);
    help_proxy_wait(f->b, &f->b->kills, 1);
    assert_int_equal(gb_cluster_session_kill(f->cluster, 1), GB_ERR_NOT_FOUND);
    gb_cluster_lease_release(lease);
}

/* kill -9 and restart look the same to the state folder: what counts was written before. */
static void test_restart_keeps_leases(void **state)
{
    fixture_t *f = *state;
    Gable__V1__AcquireRequest request = GABLE__V1__ACQUIRE_REQUEST__INIT;
    Gable__V1__GetLeaseRequest get = GABLE__V1__GET_LEASE_REQUEST__INIT;
    gb_rpc_client_t *client;
    ProtobufCMessage *reply;
    uint8_t key[32];
    request.gpus = 2;
    assert_int_equal(gb_rpc_client_open(f->server.target, NULL, &client), GB_OK);
    assert_int_equal(gb_rpc_client_call(client, &gable__v1__leases__descriptor, "Acquire",
                                        &request.base, 10000, &reply),
                     GB_OK);
    get.id = ((Gable__V1__Lease *)reply)->id;
    memcpy(key, ((Gable__V1__Lease *)reply)->shards[0]->key.data, 32);
    gb_rpc_message_free(reply);
    gb_rpc_client_close(client);
    gb_cluster_close(f->cluster);
    help_proxy_vanish(f->a);
    help_proxy_vanish(f->b);
    help_server_stop(&f->server);

    help_server_start(&f->server);
    f->a = help_proxy_start(&f->server, "a", 1, HELP_ACCEPT);
    f->b = help_proxy_start(&f->server, "b", 1, HELP_ACCEPT);
    f->cluster = help_connect(&f->server, "tester");
    assert_int_equal(f->a->welcome_grants, 1);
    assert_int_equal(f->b->welcome_grants, 1);
    gb_cluster_status_t status;
    assert_int_equal(gb_cluster_status(f->cluster, &status), GB_OK);
    assert_int_equal(status.generation, 2);
    assert_int_equal(status.leases, 1);
    assert_int_equal(status.devices_free, 0);
    assert_int_equal(gb_rpc_client_open(f->server.target, NULL, &client), GB_OK);
    assert_int_equal(
        gb_rpc_client_call(client, &gable__v1__leases__descriptor, "Get", &get.base, 10000, &reply),
        GB_OK);
    assert_memory_equal(((Gable__V1__Lease *)reply)->shards[0]->key.data, key, 32);
    gb_rpc_message_free(reply);
    gb_rpc_client_close(client);
}

static gb_status_t acquire_raw(fixture_t *f, const Gable__V1__AcquireRequest *request,
                               int timeout_ms, uint64_t *id)
{
    gb_rpc_client_t *client;
    ProtobufCMessage *reply;
    assert_int_equal(gb_rpc_client_open(f->server.target, NULL, &client), GB_OK);
    gb_status_t status = gb_rpc_client_call(client, &gable__v1__leases__descriptor, "Acquire",
                                            &request->base, timeout_ms, &reply);
    if (status == GB_OK) {
        *id = ((Gable__V1__Lease *)reply)->id;
        gb_rpc_message_free(reply);
    }
    gb_rpc_client_close(client);
    return status;
}

/* An answer may get lost: who asks again gets the lease that is already his, not a second one. */
static void test_repeat_is_harmless(void **state)
{
    fixture_t *f = *state;
    Gable__V1__AcquireRequest request = GABLE__V1__ACQUIRE_REQUEST__INIT;
    gb_cluster_status_t status;
    uint64_t id = 0;
    request.gpus = 2;
    request.id = 0x1234;
    request.client = (char *)"one";
    help_proxy_answer(f->a, HELP_SILENT);
    assert_int_equal(acquire_raw(f, &request, 300, &id), GB_ERR_TIMEOUT);
    help_proxy_answer(f->a, HELP_ACCEPT);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(acquire_raw(f, &request, 10000, &id), GB_OK);
        assert_int_equal(id, 0x1234);
    }
    assert_int_equal(gb_cluster_status(f->cluster, &status), GB_OK);
    assert_int_equal(status.leases, 1);
    assert_int_equal(status.devices_free, 0);
    request.client = (char *)"two";
    assert_int_equal(acquire_raw(f, &request, 10000, &id), GB_ERR_EXISTS);
}

/* Makes a node of the CA in FOLDER/ca and loads it. */
static gb_rpc_tls_t *make_node(const char *folder, const char *name, uint32_t role)
{
    char ca[128], out[128];
    gb_rpc_tls_t *tls = NULL;
    snprintf(ca, sizeof ca, "%s/ca", folder);
    snprintf(out, sizeof out, "%s/%s", folder, name);
    ca_request_t request = {
        .ca_dir = ca, .out = out, .name = name, .role = role, .hosts = "", .lifetime_s = 3600};
    assert_int_equal(ca_issue(&request), GB_OK);
    assert_int_equal(gb_rpc_tls_load(out, &tls), GB_OK);
    return tls;
}

static gb_status_t call_as(const char *target, gb_rpc_tls_t *tls, const char *method,
                           const void *request, uint64_t *id)
{
    gb_rpc_client_t *client;
    ProtobufCMessage *reply;
    assert_int_equal(gb_rpc_client_open(target, tls, &client), GB_OK);
    gb_status_t status =
        gb_rpc_client_call(client, &gable__v1__leases__descriptor, method, request, 10000, &reply);
    if (status == GB_OK) {
        if (id)
            *id = ((Gable__V1__Lease *)reply)->id;
        gb_rpc_message_free(reply);
    }
    gb_rpc_client_close(client);
    return status;
}

/* Ids stand in lists: knowing one must not open another's lease, which has keys in it. */
static void test_lease_belongs_to_a_certificate(void **state)
{
    (void)state;
    help_server_t server;
    char ca[128];
    uint64_t id = 0;
    help_server_create(&server);
    snprintf(ca, sizeof ca, "%s/ca", server.folder);
    assert_int_equal(ca_create(ca, "ca", 3600), GB_OK);
    gb_rpc_tls_t *own = make_node(server.folder, "server", GB_ROLE_SERVER);
    gb_rpc_tls_t *alice = make_node(server.folder, "alice", GB_ROLE_WORKER);
    gb_rpc_tls_t *bob = make_node(server.folder, "bob", GB_ROLE_WORKER);
    gb_rpc_tls_t *root = make_node(server.folder, "root", GB_ROLE_ADMIN);
    server.tls = own;
    help_server_start(&server);
    Gable__V1__AcquireRequest acquire_request = GABLE__V1__ACQUIRE_REQUEST__INIT;
    Gable__V1__GetLeaseRequest get = GABLE__V1__GET_LEASE_REQUEST__INIT;
    Gable__V1__ReleaseRequest release = GABLE__V1__RELEASE_REQUEST__INIT;
    Gable__V1__RenewRequest renew = GABLE__V1__RENEW_REQUEST__INIT;
    assert_int_equal(call_as(server.target, alice, "Acquire", &acquire_request, &id), GB_OK);
    get.id = release.id = renew.id = id;
    assert_int_equal(call_as(server.target, bob, "Get", &get, NULL), GB_ERR_NOT_FOUND);
    assert_int_equal(call_as(server.target, bob, "Renew", &renew, NULL), GB_ERR_NOT_FOUND);
    assert_int_equal(call_as(server.target, bob, "Release", &release, NULL), GB_OK);
    assert_int_equal(call_as(server.target, alice, "Get", &get, NULL), GB_OK); /* still there */
    help_server_stop(&server);
    help_server_start(&server); /* also after a restart */
    assert_int_equal(call_as(server.target, bob, "Get", &get, NULL), GB_ERR_NOT_FOUND);
    assert_int_equal(call_as(server.target, alice, "Renew", &renew, NULL), GB_OK);
    assert_int_equal(call_as(server.target, root, "Get", &get, NULL), GB_OK);
    assert_int_equal(call_as(server.target, alice, "Release", &release, NULL), GB_OK);
    assert_int_equal(call_as(server.target, alice, "Get", &get, NULL), GB_ERR_NOT_FOUND);
    help_server_destroy(&server);
    gb_rpc_tls_free(own);
    gb_rpc_tls_free(alice);
    gb_rpc_tls_free(bob);
    gb_rpc_tls_free(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_two_leases_two_gpus, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_keys_differ, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_shards_only, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_expires, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_renewed_lease_lives, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lost_proxy_ends_its_leases, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_proxy_comes_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_proxy_that_refuses, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_proxy_that_does_not_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_name_is_taken, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sessions_and_kill, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_restart_keeps_leases, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_repeat_is_harmless, set_up, tear_down),
        cmocka_unit_test(test_lease_belongs_to_a_certificate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
