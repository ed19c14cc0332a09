/* gb_rpc_health.c - grpc.health.v1 */
#include "common/rpc/gb_rpc_internal.h"

#include <string.h>

#include "grpc/health/v1/health.pb-c.h"

static int has_service(const gb_rpc_server_t *server, const char *name)
{
    for (uint32_t i = 0; i < server->service_count; i++)
        if (!strcmp(server->services[i], name))
            return 1;
    return !*name;
}

static void check(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in)
{
    gb_rpc_server_t *server = ctx;
    const Grpc__Health__V1__HealthCheckRequest *request = (const void *)in;
    if (!has_service(server, request->service)) {
        gb_rpc_call_fail(call, GB_ERR_NOT_FOUND, "no service %.100s here", request->service);
        return;
    }
    Grpc__Health__V1__HealthCheckResponse reply = GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__INIT;
    reply.status = atomic_load(&server->serving)
                       ? GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__SERVING
                       : GRPC__HEALTH__V1__HEALTH_CHECK_RESPONSE__SERVING_STATUS__NOT_SERVING;
    gb_rpc_call_reply(call, &reply.base);
}

/* Monitoring needs no role of the cluster's, only a certificate of its CA. */
static const gb_rpc_method_t METHODS[] = {{"Check", GB_ROLE_ALL, 0, check, NULL}, {NULL}};

gb_status_t gb_rpc_health_add(gb_rpc_server_t *server)
{
    return gb_rpc_server_add(server, &grpc__health__v1__health__descriptor, METHODS, server);
}

void gb_rpc_health_set_serving(gb_rpc_server_t *server, int serving)
{
    atomic_store(&server->serving, serving);
}
