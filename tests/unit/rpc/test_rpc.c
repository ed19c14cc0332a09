/* One server and one client in a process: calls, streams, failures, the end. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/core/gb_clock.h"
#include "gable.pb-c.h"
#include "grpc/health/v1/health.pb-c.h"
#include "tests/unit/rpc/rpc_help.h"

typedef struct {
    gb_rpc_server_t *server;
    gb_rpc_client_t *client;
    char target[64];
} pair_t;

static int set_up(void **state)
{
    pair_t *pair = calloc(1, sizeof *pair);
    pair->server = help_server(NULL, pair->target);
    assert_int_equal(gb_rpc_client_open(pair->target, NULL, &pair->client), GB_OK);
    *state = pair;
    return 0;
}

static int tear_down(void **state)
{
    pair_t *pair = *state;
    gb_rpc_client_close(pair->client);
    gb_rpc_server_stop(pair->server, 1000);
    gb_rpc_server_destroy(pair->server);
    free(pair);
    return 0;
}

static gb_status_t ask(pair_t *pair, const char *method, const void *in, int timeout_ms,
                       ProtobufCMessage **out)
{
    return gb_rpc_client_call(pair->client, &gable__v1__admin__descriptor, method, in, timeout_ms,
                              out);
}

static void test_unary(void **state)
{
    pair_t *pair = *state;
    Gable__V1__Empty request = GABLE__V1__EMPTY__INIT;
    ProtobufCMessage *reply;
    assert_int_equal(ask(pair, "Status", &request, 5000, &reply), GB_OK);
    /* Without TLS there is no name, and every role. */
    assert_string_equal(((Gable__V1__StatusReply *)reply)->version, "");
    assert_int_equal(((Gable__V1__StatusReply *)reply)->devices, GB_ROLE_ALL);
    gb_rpc_message_free(reply);
}

static void test_error_carries_text(void **state)
{
    pair_t *pair = *state;
    Gable__V1__KillSessionRequest request = GABLE__V1__KILL_SESSION_REQUEST__INIT;
    ProtobufCMessage *reply;
    request.id = 77;
    assert_int_equal(ask(pair, "KillSession", &request, 5000, &reply), GB_ERR_NOT_FOUND);
    assert_string_equal(gb_why(), "no session 77");
}

static void test_unknown_method(void **state)
{
    pair_t *pair = *state;
    Gable__V1__Empty request = GABLE__V1__EMPTY__INIT;
    ProtobufCMessage *reply;
    uint64_t begin = gb_now_ns();
    assert_int_equal(ask(pair, "Devices", &request, 20000, &reply), GB_ERR_UNSUPPORTED);
    assert_true(gb_now_ns() - begin < 10000000000u); /* answered, not left to the deadline */
}

static void test_deadline(void **state)
{
    pair_t *pair = *state;
    Gable__V1__Empty request = GABLE__V1__EMPTY__INIT;
    ProtobufCMessage *reply;
    assert_int_equal(ask(pair, "Sessions", &request, 100, &reply), GB_ERR_TIMEOUT);
}

static void test_message_that_does_not_parse(void **state)
{
    pair_t *pair = *state;
    /* A StatusReply whose first field is text is no KillSessionRequest, whose first is a number. */
    Gable__V1__StatusReply request = GABLE__V1__STATUS_REPLY__INIT;
    ProtobufCMessage *reply;
    request.version = "text";
    assert_int_equal(ask(pair, "KillSession", &request, 5000, &reply), GB_ERR_INVALID);
}

static void send_heartbeat(gb_rpc_stream_t *stream, size_t sessions)
{
    Gable__V1__SessionInfo info = GABLE__V1__SESSION_INFO__INIT, *list[8];
    Gable__V1__ProxyMessage message = GABLE__V1__PROXY_MESSAGE__INIT;
    Gable__V1__Heartbeat beat = GABLE__V1__HEARTBEAT__INIT;
    for (size_t i = 0; i < sessions; i++)
        list[i] = &info;
    beat.n_sessions = sessions;
    beat.sessions = list;
    message.message_case = GABLE__V1__PROXY_MESSAGE__MESSAGE_HEARTBEAT;
    message.heartbeat = &beat;
    assert_int_equal(gb_rpc_stream_send(stream, &message.base), GB_OK);
}

static void test_stream(void **state)
{
    pair_t *pair = *state;
    gb_rpc_stream_t *stream;
    assert_int_equal(
        gb_rpc_stream_open(pair->client, &gable__v1__cluster__descriptor, "Attach", 5000, &stream),
        GB_OK);
    for (size_t i = 0; i < 8; i++)
        send_heartbeat(stream, i);
    ProtobufCMessage *reply;
    for (size_t i = 0; i < 8; i++) {
        assert_int_equal(gb_rpc_stream_recv(stream, &reply), GB_OK);
        assert_int_equal(((Gable__V1__ServerMessage *)reply)->kill->session, i);
        gb_rpc_message_free(reply);
    }
    Gable__V1__ProxyMessage message = GABLE__V1__PROXY_MESSAGE__INIT;
    Gable__V1__Empty goodbye = GABLE__V1__EMPTY__INIT;
    message.message_case = GABLE__V1__PROXY_MESSAGE__MESSAGE_GOODBYE;
    message.goodbye = &goodbye;
    assert_int_equal(gb_rpc_stream_send(stream, &message.base), GB_OK);
    assert_int_equal(gb_rpc_stream_recv(stream, &reply), GB_ERR_CLOSED);
    gb_rpc_stream_close(stream);
}

static void *cancel_main(void *arg)
{
    gb_rpc_stream_cancel(arg);
    return NULL;
}

static void test_stream_cancel_wakes_receiver(void **state)
{
    pair_t *pair = *state;
    gb_rpc_stream_t *stream;
    pthread_t thread;
    ProtobufCMessage *reply;
    assert_int_equal(
        gb_rpc_stream_open(pair->client, &gable__v1__cluster__descriptor, "Attach", 5000, &stream),
        GB_OK);
    assert_int_equal(pthread_create(&thread, NULL, cancel_main, stream), 0);
    assert_int_equal(gb_rpc_stream_recv(stream, &reply), GB_ERR_CANCELLED);
    pthread_join(thread, NULL);
    gb_rpc_stream_close(stream);
}

static void *caller_main(void *arg)
{
    Gable__V1__Empty request = GABLE__V1__EMPTY__INIT;
    for (int i = 0; i < 50; i++) {
        ProtobufCMessage *reply;
        if (ask(arg, "Status", &request, 20000, &reply) != GB_OK)
            return arg;
        gb_rpc_message_free(reply);
    }
    return NULL;
}

static void test_many_callers(void **state)
{
    pthread_t threads[6];
    for (int i = 0; i < 6; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, caller_main, *state), 0);
    for (int i = 0; i < 6; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        assert_null(failed);
    }
}

static void test_health(void **state)
{
    pair_t *pair = *state;
    Grpc__Health__V1__HealthCheckRequest request = GRPC__HEALTH__V1__HEALTH_CHECK_REQUEST__INIT;
    ProtobufCMessage *reply;
    static const struct {
        const char *service;
        gb_status_t status;
    } CASES[] = {{"", GB_OK}, {"gable.v1.Admin", GB_OK}, {"nothing.Here", GB_ERR_NOT_FOUND}};
    for (int i = 0; i < 3; i++) {
        request.service = (char *)CASES[i].service;
        gb_status_t status = gb_rpc_client_call(pair->client, &grpc__health__v1__health__descriptor,
                                                "Check", &request.base, 5000, &reply);
        assert_int_equal(status, CASES[i].status);
        if (status == GB_OK)
            gb_rpc_message_free(reply);
    }
    gb_rpc_health_set_serving(pair->server, 0);
    request.service = "";
    assert_int_equal(gb_rpc_client_call(pair->client, &grpc__health__v1__health__descriptor,
                                        "Check", &request.base, 5000, &reply),
                     GB_OK);
    assert_int_equal(((Grpc__Health__V1__HealthCheckResponse *)reply)->status,
                     GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING);
    gb_rpc_message_free(reply);
}

static void test_port_in_use(void **state)
{
    pair_t *pair = *state;
    gb_rpc_server_config_t config = {.listen = pair->target};
    gb_rpc_server_t *second;
    assert_int_equal(gb_rpc_server_create(&config, &second), GB_OK);
    assert_int_equal(gb_rpc_server_start(second), GB_ERR_EXISTS);
    assert_non_null(strstr(gb_why(), "is in use"));
    assert_non_null(strstr(gb_why(), pair->target));
    gb_rpc_server_destroy(second);
}

static void test_bad_addresses(void **state)
{
    (void)state;
    gb_rpc_client_t *client;
    assert_int_equal(gb_rpc_client_open("nowhere", NULL, &client), GB_ERR_INVALID);
    gb_rpc_server_config_t config = {.listen = "192.0.2.1:0"}; /* reserved: nobody has it */
    gb_rpc_server_t *server;
    assert_int_equal(gb_rpc_server_create(&config, &server), GB_OK);
    assert_int_equal(gb_rpc_server_start(server), GB_ERR_INVALID);
    gb_rpc_server_destroy(server);
}

static void test_unreachable(void **state)
{
    (void)state;
    char target[64];
    gb_rpc_server_t *server = help_server(NULL, target);
    gb_rpc_server_stop(server, 0);
    gb_rpc_server_destroy(server);
    gb_rpc_client_t *client;
    gb_rpc_stream_t *stream;
    Gable__V1__Empty request = GABLE__V1__EMPTY__INIT;
    ProtobufCMessage *reply;
    assert_int_equal(gb_rpc_client_open(target, NULL, &client), GB_OK);
    assert_int_equal(gb_rpc_client_call(client, &gable__v1__admin__descriptor, "Status",
                                        &request.base, 5000, &reply),
                     GB_ERR_UNREACHABLE);
    assert_non_null(strstr(gb_why(), target));
    assert_int_equal(
        gb_rpc_stream_open(client, &gable__v1__cluster__descriptor, "Attach", 1000, &stream),
        GB_ERR_UNREACHABLE);
    gb_rpc_client_close(client);
}

static int dial(const char *target)
{
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(strchr(target, ':') + 1)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    struct timeval limit = {10, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return fd;
}

static void test_garbage_is_closed(void **state)
{
    pair_t *pair = *state;
    char garbage[200], byte;
    memset(garbage, 0xa5, sizeof garbage);
    int fd = dial(pair->target);
    assert_int_equal(write(fd, garbage, sizeof garbage), sizeof garbage);
    assert_true(read(fd, &byte, 1) <= 0); /* closed or reset, with nothing said */
    close(fd);
    test_unary(state); /* others are not disturbed */
}

/* Calls that run are cancelled after the grace, and their keepers are told. */
static void test_stop_with_live_calls(void **state)
{
    (void)state;
    char target[64];
    gb_rpc_server_t *server = help_server(NULL, target);
    gb_rpc_client_t *client;
    gb_rpc_stream_t *stream;
    ProtobufCMessage *reply;
    assert_int_equal(gb_rpc_client_open(target, NULL, &client), GB_OK);
    assert_int_equal(
        gb_rpc_stream_open(client, &gable__v1__cluster__descriptor, "Attach", 5000, &stream),
        GB_OK);
    send_heartbeat(stream, 1);
    assert_int_equal(gb_rpc_stream_recv(stream, &reply), GB_OK);
    gb_rpc_message_free(reply);
    gb_rpc_server_stop(server, 50);
    gb_rpc_server_destroy(server);
    assert_int_not_equal(gb_rpc_stream_recv(stream, &reply), GB_OK);
    gb_rpc_stream_close(stream);
    gb_rpc_client_close(client);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_unary, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_error_carries_text, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_unknown_method, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_deadline, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_message_that_does_not_parse, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stream, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_stream_cancel_wakes_receiver, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_callers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_health, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_port_in_use, set_up, tear_down),
        cmocka_unit_test(test_bad_addresses),
        cmocka_unit_test(test_unreachable),
        cmocka_unit_test_setup_teardown(test_garbage_is_closed, set_up, tear_down),
        cmocka_unit_test(test_stop_with_live_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
