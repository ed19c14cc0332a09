#include "tests/unit/rpc/rpc_help.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/ca.h"
#include "gable.pb-c.h"

/* Answers with the caller's name. */
static void status_handler(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in)
{
    (void)ctx;
    (void)in;
    Gable__V1__StatusReply reply = GABLE__V1__STATUS_REPLY__INIT;
    reply.version = (char *)gb_rpc_call_name(call);
    reply.devices = gb_rpc_call_roles(call);
    gb_rpc_call_reply(call, &reply.base);
}

static void kill_handler(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in)
{
    (void)ctx;
    gb_rpc_call_fail(call, GB_ERR_NOT_FOUND, "no session %llu",
                     (unsigned long long)((const Gable__V1__KillSessionRequest *)in)->id);
}

/* Never answers; the kept call is released when it is over. */
static void sessions_handler(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in)
{
    (void)ctx;
    (void)in;
    gb_rpc_call_hold(call);
}

static void sessions_closed(void *ctx, gb_rpc_call_t *call)
{
    (void)ctx;
    gb_rpc_call_release(call);
}

/* For each heartbeat a Kill with the number of its sessions; ends with the client's goodbye. */
static void attach_handler(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in)
{
    (void)ctx;
    const Gable__V1__ProxyMessage *message = (const void *)in;
    if (!in || message->message_case == GABLE__V1__PROXY_MESSAGE__MESSAGE_GOODBYE) {
        gb_rpc_call_finish(call);
        return;
    }
    Gable__V1__ServerMessage answer = GABLE__V1__SERVER_MESSAGE__INIT;
    Gable__V1__Kill order = GABLE__V1__KILL__INIT;
    order.session = message->heartbeat->n_sessions;
    answer.message_case = GABLE__V1__SERVER_MESSAGE__MESSAGE_KILL;
    answer.kill = &order;
    gb_rpc_call_send(call, &answer.base);
}

static const gb_rpc_method_t ADMIN[] = {
    {"Status", GB_ROLE_ADMIN | GB_ROLE_WORKER, 0, status_handler, NULL},
    {"KillSession", GB_ROLE_ADMIN, 0, kill_handler, NULL},
    {"Sessions", GB_ROLE_ADMIN, 0, sessions_handler, sessions_closed},
    {NULL},
};
static const gb_rpc_method_t CLUSTER[] = {
    {"Attach", GB_ROLE_PROXY | GB_ROLE_ADMIN, 1, attach_handler, NULL},
    {NULL},
};

gb_rpc_server_t *help_server(const gb_rpc_tls_t *tls, char *target)
{
    gb_rpc_server_config_t config = {.listen = "127.0.0.1:0", .tls = tls};
    gb_rpc_server_t *server;
    assert_int_equal(gb_rpc_server_create(&config, &server), GB_OK);
    assert_int_equal(gb_rpc_server_add(server, &gable__v1__admin__descriptor, ADMIN, NULL), GB_OK);
    assert_int_equal(gb_rpc_server_add(server, &gable__v1__cluster__descriptor, CLUSTER, NULL),
                     GB_OK);
    assert_int_equal(gb_rpc_health_add(server), GB_OK);
    assert_int_equal(gb_rpc_server_start(server), GB_OK);
    sprintf(target, "127.0.0.1:%d", gb_rpc_server_port(server));
    return server;
}

void help_folder(char *out)
{
    strcpy(out, "/tmp/gable-rpc-XXXXXX");
    assert_non_null(mkdtemp(out));
}

static int remove_one(const char *path, const struct stat *info, int type, struct FTW *ftw)
{
    (void)info;
    (void)type;
    (void)ftw;
    return remove(path);
}

void help_remove(const char *folder)
{
    nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

void help_ca(const char *folder, const char *ca)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, ca);
    assert_int_equal(ca_create(path, ca, 86400), GB_OK);
}

void help_issue(const char *folder, const char *ca, const char *name, uint32_t role,
                int64_t lifetime_s)
{
    char ca_path[256], path[256];
    snprintf(ca_path, sizeof ca_path, "%s/%s", folder, ca);
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ca_request_t request = {.ca_dir = ca_path,
                            .out = path,
                            .name = name,
                            .role = role,
                            .hosts = "",
                            .lifetime_s = lifetime_s};
    assert_int_equal(ca_issue(&request), GB_OK);
}

gb_rpc_tls_t *help_load(const char *folder, const char *name)
{
    char path[256];
    gb_rpc_tls_t *tls = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(gb_rpc_tls_load(path, &tls), GB_OK);
    return tls;
}
