#include "tests/unit/registry/cluster_help.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gable.pb-c.h"
#include "server/admin/ps_admin.h"

void help_server_create(help_server_t *server)
{
    memset(server, 0, sizeof *server);
    strcpy(server->folder, "/tmp/gable-registry-XXXXXX");
    assert_non_null(mkdtemp(server->folder));
}

void help_server_start(help_server_t *server)
{
    char checkpoints[128];
    ps_registry_config_t config = {.state_dir = server->folder,
                                   .share = 1,
                                   .ttl_ms = 15000,
                                   .heartbeat_ms = 60000,
                                   .lost_ms = 300,
                                   .return_ms = 2000};
    assert_int_equal(ps_registry_create(&config, &server->registry), GB_OK);
    snprintf(checkpoints, sizeof checkpoints, "%s/checkpoints", server->folder);
    ps_params_config_t params = {.listen = "127.0.0.1:0",
                                 .checkpoint_dir = checkpoints,
                                 .threads = 1,
                                 .context = server->registry,
                                 .on_leave = ps_registry_on_leave,
                                 .on_checkpoint = ps_registry_on_checkpoint};
    assert_int_equal(ps_params_start(&params, &server->params), GB_OK);
    assert_int_equal(
        ps_registry_start(server->registry, server->params, ps_params_endpoint(server->params)),
        GB_OK);
    gb_rpc_server_config_t rpc = {.listen = "127.0.0.1:0", .tls = server->tls};
    assert_int_equal(gb_rpc_server_create(&rpc, &server->server), GB_OK);
    assert_int_equal(ps_registry_serve(server->registry, server->server), GB_OK);
    assert_int_equal(ps_admin_serve(server->registry, server->server), GB_OK);
    assert_int_equal(gb_rpc_server_start(server->server), GB_OK);
    sprintf(server->target, "127.0.0.1:%d", gb_rpc_server_port(server->server));
}

void help_server_stop(help_server_t *server)
{
    ps_registry_stop(server->registry);
    gb_rpc_server_stop(server->server, 200);
    gb_rpc_server_destroy(server->server);
    ps_params_stop(server->params);
    ps_registry_destroy(server->registry);
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
    (void)info;
    (void)type;
    (void)ftw;
    return remove(path);
}

void help_server_destroy(help_server_t *server)
{
    help_server_stop(server);
    nftw(server->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

gb_cluster_t *help_connect(const help_server_t *server, const char *name)
{
    gb_cluster_config_t config = {.server = server->target, .name = name, .timeout_ms = 10000};
    gb_cluster_t *cluster = NULL;
    assert_int_equal(gb_cluster_connect(&config, &cluster), GB_OK);
    return cluster;
}

/* ---- fake proxies ---- */

static void count(help_proxy_t *proxy, int *counter)
{
    pthread_mutex_lock(&proxy->lock);
    (*counter)++;
    pthread_cond_broadcast(&proxy->changed);
    pthread_mutex_unlock(&proxy->lock);
}

static void answer(help_proxy_t *proxy, uint64_t lease)
{
    Gable__V1__ProxyMessage message = GABLE__V1__PROXY_MESSAGE__INIT;
    Gable__V1__GrantResult result = GABLE__V1__GRANT_RESULT__INIT;
    pthread_mutex_lock(&proxy->lock);
    help_answer_t what = proxy->answer;
    pthread_mutex_unlock(&proxy->lock);
    if (what == HELP_SILENT)
        return;
    result.lease = lease;
    result.accepted = what == HELP_ACCEPT;
    result.reason = "no room";
    message.message_case = GABLE__V1__PROXY_MESSAGE__MESSAGE_GRANTED;
    message.granted = &result;
    gb_rpc_stream_send(proxy->stream, &message.base);
}

static void take_grant(help_proxy_t *proxy, const Gable__V1__Grant *grant)
{
    pthread_mutex_lock(&proxy->lock);
    proxy->lease = grant->lease;
    if (grant->key.len == sizeof proxy->key)
        memcpy(proxy->key, grant->key.data, sizeof proxy->key);
    pthread_mutex_unlock(&proxy->lock);
    count(proxy, &proxy->grants);
    answer(proxy, grant->lease);
}

static void take_kill(help_proxy_t *proxy, uint64_t session)
{
    Gable__V1__ProxyMessage message = GABLE__V1__PROXY_MESSAGE__INIT;
    Gable__V1__KillResult result = GABLE__V1__KILL_RESULT__INIT;
    count(proxy, &proxy->kills);
    result.session = session;
    result.found = 1;
    message.message_case = GABLE__V1__PROXY_MESSAGE__MESSAGE_KILLED;
    message.killed = &result;
    gb_rpc_stream_send(proxy->stream, &message.base);
}

static void take_message(help_proxy_t *proxy, const Gable__V1__ServerMessage *message)
{
    switch ((int)message->message_case) {
    case GABLE__V1__SERVER_MESSAGE__MESSAGE_WELCOME:
        proxy->welcome_grants = (int)message->welcome->n_grants;
        for (size_t i = 0; i < message->welcome->n_grants; i++)
            take_grant(proxy, message->welcome->grants[i]);
        count(proxy, &proxy->welcomed);
        break;
    case GABLE__V1__SERVER_MESSAGE__MESSAGE_GRANT:
        take_grant(proxy, message->grant);
        break;
    case GABLE__V1__SERVER_MESSAGE__MESSAGE_REVOKE:
        count(proxy, &proxy->revokes);
        break;
    case GABLE__V1__SERVER_MESSAGE__MESSAGE_KILL:
        take_kill(proxy, message->kill->session);
        break;
    }
}

static void *proxy_main(void *arg)
{
    help_proxy_t *proxy = arg;
    ProtobufCMessage *message;
    while ((proxy->end = gb_rpc_stream_recv(proxy->stream, &message)) == GB_OK) {
        take_message(proxy, (Gable__V1__ServerMessage *)message);
        gb_rpc_message_free(message);
    }
    count(proxy, &proxy->ended);
    return NULL;
}

static void say_hello(help_proxy_t *proxy, int devices)
{
    Gable__V1__DeviceInfo infos[8], *list[8];
    Gable__V1__ProxyMessage message = GABLE__V1__PROXY_MESSAGE__INIT;
    Gable__V1__ProxyHello hello = GABLE__V1__PROXY_HELLO__INIT;
    for (int i = 0; i < devices; i++) {
        gable__v1__device_info__init(&infos[i]);
        infos[i].index = (uint32_t)i;
        infos[i].name = "fake";
        infos[i].memory_bytes = (uint64_t)4 << 30;
        list[i] = &infos[i];
    }
    hello.protocol = 1;
    hello.name = (char *)proxy->name;
    hello.data_endpoint = "127.0.0.1:9";
    hello.driver = "null";
    hello.n_devices = (size_t)devices;
    hello.devices = list;
    message.message_case = GABLE__V1__PROXY_MESSAGE__MESSAGE_HELLO;
    message.hello = &hello;
    assert_int_equal(gb_rpc_stream_send(proxy->stream, &message.base), GB_OK);
}

void help_proxy_answer(help_proxy_t *proxy, help_answer_t what)
{
    pthread_mutex_lock(&proxy->lock);
    proxy->answer = what;
    pthread_mutex_unlock(&proxy->lock);
}

void help_proxy_wait(help_proxy_t *proxy, const int *counter, int value)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    pthread_mutex_lock(&proxy->lock);
    while (*counter < value && !pthread_cond_timedwait(&proxy->changed, &proxy->lock, &until)) {
    }
    int reached = *counter >= value;
    pthread_mutex_unlock(&proxy->lock);
    assert_true(reached);
}

help_proxy_t *help_proxy_start(const help_server_t *server, const char *name, int devices,
                               help_answer_t what)
{
    help_proxy_t *proxy = calloc(1, sizeof *proxy);
    proxy->name = name;
    proxy->answer = what;
    pthread_mutex_init(&proxy->lock, NULL);
    pthread_cond_init(&proxy->changed, NULL);
    assert_int_equal(gb_rpc_client_open(server->target, NULL, &proxy->client), GB_OK);
    assert_int_equal(gb_rpc_stream_open(proxy->client, &gable__v1__cluster__descriptor, "Attach",
                                        10000, &proxy->stream),
                     GB_OK);
    say_hello(proxy, devices);
    assert_int_equal(pthread_create(&proxy->thread, NULL, proxy_main, proxy), 0);
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 10;
    pthread_mutex_lock(&proxy->lock);
    while (!proxy->welcomed && !proxy->ended &&
           !pthread_cond_timedwait(&proxy->changed, &proxy->lock, &until)) {
    }
    pthread_mutex_unlock(&proxy->lock);
    return proxy;
}

void help_proxy_session(help_proxy_t *proxy, uint64_t session, uint64_t lease)
{
    Gable__V1__SessionInfo info = GABLE__V1__SESSION_INFO__INIT, *list[] = {&info};
    Gable__V1__ProxyMessage message = GABLE__V1__PROXY_MESSAGE__INIT;
    Gable__V1__Heartbeat beat = GABLE__V1__HEARTBEAT__INIT;
    info.id = session;
    info.lease = lease;
    info.pid = 4711;
    info.memory_bytes = 1 << 20;
    info.peer = "somewhere";
    beat.n_sessions = 1;
    beat.sessions = list;
    message.message_case = GABLE__V1__PROXY_MESSAGE__MESSAGE_HEARTBEAT;
    message.heartbeat = &beat;
    assert_int_equal(gb_rpc_stream_send(proxy->stream, &message.base), GB_OK);
}

void help_proxy_vanish(help_proxy_t *proxy)
{
    gb_rpc_stream_cancel(proxy->stream);
    pthread_join(proxy->thread, NULL);
    gb_rpc_stream_close(proxy->stream);
    gb_rpc_client_close(proxy->client);
    pthread_mutex_destroy(&proxy->lock);
    pthread_cond_destroy(&proxy->changed);
    free(proxy);
}
