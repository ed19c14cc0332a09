/* gb_cluster.c - connection to ps-server and the lists for people. */
#include "common/rpc/gb_cluster_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/core/gb_log.h"

enum { PROTOCOL = 1, DEFAULT_TIMEOUT_MS = 5000, RECONNECT_MS = 300 };

void gb_cluster_copy(char *out, size_t size, const char *text)
{
    snprintf(out, size, "%s", text ? text : "");
}

void *gb_cluster_list(size_t count, size_t size)
{
    void *list = calloc(count ? count : 1, size);
    if (!list)
        gb_fail(GB_ERR_NO_MEMORY, "no memory for a list of %zu", count);
    return list;
}

void gb_cluster_machine(char *out, size_t size)
{
    out[0] = 0;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (!file)
        return;
    if (fgets(out, (int)size, file))
        out[strcspn(out, "\n")] = 0;
    fclose(file);
}

gb_status_t gb_cluster_call(gb_cluster_t *cluster, const ProtobufCServiceDescriptor *service,
                            const char *method, const void *in, int timeout_ms, void *out)
{
    gb_status_t status = gb_rpc_client_call(cluster->client, service, method, in, timeout_ms, out);
    /* An idle channel does not notice that the server was restarted: its first call then fails on the
     * old connection. No call of the cluster does harm when it is made twice. */
    if (status == GB_ERR_UNREACHABLE && gb_rpc_client_wait(cluster->client, RECONNECT_MS) == GB_OK)
        status = gb_rpc_client_call(cluster->client, service, method, in, timeout_ms, out);
    if (status == GB_ERR_TIMEOUT)
        return GB_ERR_UNREACHABLE;
    return status;
}

static void default_name(char *out, size_t size)
{
    char host[64] = "localhost";
    gethostname(host, sizeof host - 1);
    snprintf(out, size, "%s@%s:%d", gb_log_program(), host, (int)getpid());
}

static gb_status_t say_hello(gb_cluster_t *cluster)
{
    Gable__V1__HelloRequest request = GABLE__V1__HELLO_REQUEST__INIT;
    Gable__V1__HelloReply *reply;
    request.protocol = PROTOCOL;
    request.client = cluster->name;
    gb_status_t status = gb_cluster_call(cluster, &gable__v1__cluster__descriptor, "Hello",
                                         &request, cluster->timeout_ms, &reply);
    if (status == GB_OK) {
        uint32_t protocol = reply->protocol;
        gb_rpc_message_free(&reply->base);
        if (protocol != PROTOCOL)
            return gb_fail(GB_ERR_VERSION,
                           "the server at %s speaks protocol %u, this program %d: install the same "
                           "version on both",
                           cluster->server, protocol, PROTOCOL);
        return GB_OK;
    }
    if (status == GB_ERR_UNSUPPORTED)
        return gb_fail(status, "%s is no ps-server: give the address of its control port",
                       cluster->server);
    if (status != GB_ERR_UNREACHABLE)
        return status;
    /* gRPC does not say why: find out whether it is the certificates. */
    gb_status_t reason = gb_rpc_tls_diagnose(cluster->tls, cluster->server, cluster->timeout_ms);
    if (reason == GB_OK)
        return gb_fail(status, "the server at %s does not answer in time", cluster->server);
    return reason;
}

gb_status_t gb_cluster_connect(const gb_cluster_config_t *config, gb_cluster_t **out)
{
    gb_cluster_t *cluster = calloc(1, sizeof *cluster);
    if (!cluster)
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for a connection");
    gb_status_t status = GB_OK;
    gb_cluster_copy(cluster->server, sizeof cluster->server, config->server);
    if (config->name)
        gb_cluster_copy(cluster->name, sizeof cluster->name, config->name);
    else
        default_name(cluster->name, sizeof cluster->name);
    cluster->timeout_ms = config->timeout_ms > 0 ? config->timeout_ms : DEFAULT_TIMEOUT_MS;
    if (config->tls_dir && *config->tls_dir)
        status = gb_rpc_tls_load(config->tls_dir, &cluster->tls);
    if (status == GB_OK)
        status = gb_rpc_client_open(cluster->server, cluster->tls, &cluster->client);
    if (status == GB_OK)
        status = say_hello(cluster);
    if (status != GB_OK) {
        gb_cluster_close(cluster);
        return status;
    }
    *out = cluster;
    return GB_OK;
}

void gb_cluster_close(gb_cluster_t *cluster)
{
    if (!cluster)
        return;
    gb_rpc_client_close(cluster->client);
    gb_rpc_tls_free(cluster->tls);
    free(cluster);
}

void gb_cluster_free(void *list)
{
    free(list);
}

/* ---- lists ---- */

static gb_status_t ask_admin(gb_cluster_t *cluster, const char *method, const void *in, void *out)
{
    return gb_cluster_call(cluster, &gable__v1__admin__descriptor, method, in, cluster->timeout_ms,
                           out);
}

gb_status_t gb_cluster_status(gb_cluster_t *cluster, gb_cluster_status_t *out)
{
    Gable__V1__Empty request = GABLE__V1__EMPTY__INIT;
    Gable__V1__StatusReply *reply;
    gb_status_t status = ask_admin(cluster, "Status", &request, &reply);
    if (status != GB_OK)
        return status;
    memset(out, 0, sizeof *out);
    gb_cluster_copy(out->version, sizeof out->version, reply->version);
    gb_cluster_copy(out->data_endpoint, sizeof out->data_endpoint, reply->data_endpoint);
    out->uptime_ms = reply->uptime_ms;
    out->generation = reply->generation;
    out->proxies = reply->proxies;
    out->devices = reply->devices;
    out->devices_free = reply->devices_free;
    out->leases = reply->leases;
    out->sessions = reply->sessions;
    out->jobs_running = reply->jobs_running;
    out->tls = (uint32_t)reply->tls;
    gb_rpc_message_free(&reply->base);
    return GB_OK;
}

static void fill_device(const Gable__V1__DeviceState *from, gb_cluster_device_t *out)
{
    snprintf(out->id, sizeof out->id, "%.63s/%u", from->proxy, from->info->index);
    gb_cluster_copy(out->name, sizeof out->name, from->info->name);
    gb_cluster_copy(out->endpoint, sizeof out->endpoint, from->endpoint);
    gb_cluster_copy(out->driver, sizeof out->driver, from->driver);
    out->memory_total = from->info->memory_bytes;
    out->memory_used = from->memory_used_bytes;
    out->capability = from->info->capability;
    out->multiprocessors = from->info->multiprocessors;
    out->clock_khz = from->info->clock_khz;
    out->leases = from->leases;
    out->leases_max = from->leases_max;
    out->sessions = from->sessions;
}

gb_status_t gb_cluster_devices(gb_cluster_t *cluster, gb_cluster_device_t **out, uint32_t *count)
{
    Gable__V1__Empty request = GABLE__V1__EMPTY__INIT;
    Gable__V1__DevicesReply *reply;
    gb_status_t status = ask_admin(cluster, "Devices", &request, &reply);
    if (status != GB_OK)
        return status;
    gb_cluster_device_t *list = gb_cluster_list(reply->n_devices, sizeof *list);
    status = list ? GB_OK : GB_ERR_NO_MEMORY;
    if (list) {
        uint32_t n = 0;
        for (size_t i = 0; i < reply->n_devices; i++)
            if (reply->devices[i]->info)
                fill_device(reply->devices[i], &list[n++]);
        *out = list;
        *count = n;
    }
    gb_rpc_message_free(&reply->base);
    return status;
}

static void fill_session(const Gable__V1__SessionState *from, gb_cluster_session_t *out)
{
    out->id = from->info->id;
    out->lease = from->info->lease;
    gb_cluster_copy(out->proxy, sizeof out->proxy, from->proxy);
    gb_cluster_copy(out->client, sizeof out->client, from->client);
    gb_cluster_copy(out->peer, sizeof out->peer, from->info->peer);
    out->memory_used = from->info->memory_bytes;
    out->age_ms = from->info->age_ms;
    out->pid = from->info->pid;
    size_t at = 0;
    for (size_t i = 0; i < from->n_devices && at + 12 < sizeof out->devices; i++)
        at += (size_t)snprintf(out->devices + at, sizeof out->devices - at, "%s%u", i ? "," : "",
                               from->devices[i]);
}

gb_status_t gb_cluster_sessions(gb_cluster_t *cluster, gb_cluster_session_t **out, uint32_t *count)
{
    Gable__V1__Empty request = GABLE__V1__EMPTY__INIT;
    Gable__V1__SessionsReply *reply;
    gb_status_t status = ask_admin(cluster, "Sessions", &request, &reply);
    if (status != GB_OK)
        return status;
    gb_cluster_session_t *list = gb_cluster_list(reply->n_sessions, sizeof *list);
    status = list ? GB_OK : GB_ERR_NO_MEMORY;
    if (list) {
        uint32_t n = 0;
        for (size_t i = 0; i < reply->n_sessions; i++)
            if (reply->sessions[i]->info)
                fill_session(reply->sessions[i], &list[n++]);
        *out = list;
        *count = n;
    }
    gb_rpc_message_free(&reply->base);
    return status;
}

gb_status_t gb_cluster_session_kill(gb_cluster_t *cluster, uint64_t id)
{
    Gable__V1__KillSessionRequest request = GABLE__V1__KILL_SESSION_REQUEST__INIT;
    request.id = id;
    Gable__V1__Empty *reply;
    gb_status_t status = ask_admin(cluster, "KillSession", &request, &reply);
    if (status == GB_OK)
        gb_rpc_message_free(&reply->base);
    return status;
}

static void fill_param(const Gable__V1__ParamInfo *from, gb_cluster_param_t *out)
{
    gb_cluster_copy(out->job, sizeof out->job, from->job);
    gb_cluster_copy(out->name, sizeof out->name, from->name);
    gb_cluster_copy(out->type, sizeof out->type, from->type);
    out->elements = 1;
    size_t at = 0;
    for (size_t i = 0; i < from->n_shape; i++) {
        out->elements *= from->shape[i];
        if (at < sizeof out->shape)
            at += (size_t)snprintf(out->shape + at, sizeof out->shape - at, "%s%llu", i ? "x" : "",
                                   (unsigned long long)from->shape[i]);
    }
    out->bytes = out->elements * 4;
    out->version = from->version;
    out->norm = from->norm;
}

gb_status_t gb_cluster_params(gb_cluster_t *cluster, const char *job, gb_cluster_param_t **out,
                              uint32_t *count)
{
    Gable__V1__ParamsRequest request = GABLE__V1__PARAMS_REQUEST__INIT;
    request.job = (char *)(job ? job : "");
    Gable__V1__ParamsReply *reply;
    gb_status_t status = ask_admin(cluster, "Params", &request, &reply);
    if (status != GB_OK)
        return status;
    gb_cluster_param_t *list = gb_cluster_list(reply->n_params, sizeof *list);
    status = list ? GB_OK : GB_ERR_NO_MEMORY;
    if (list) {
        for (size_t i = 0; i < reply->n_params; i++)
            fill_param(reply->params[i], &list[i]);
        *out = list;
        *count = (uint32_t)reply->n_params;
    }
    gb_rpc_message_free(&reply->base);
    return status;
}

static void fill_job(const Gable__V1__JobInfo *from, gb_cluster_job_t *out)
{
    out->id = from->id;
    gb_cluster_copy(out->name, sizeof out->name, from->name);
    gb_cluster_copy(out->model, sizeof out->model, from->model);
    gb_cluster_copy(out->mode, sizeof out->mode, from->mode);
    gb_cluster_copy(out->state, sizeof out->state, from->state);
    out->epoch = from->epoch;
    out->epochs = from->epochs;
    out->members = from->members;
    out->generation = from->generation;
    out->clock = from->clock;
    out->loss = from->loss;
    out->accuracy = from->accuracy;
    out->samples_per_second = from->samples_per_second;
    out->age_ms = from->age_ms;
}

gb_status_t gb_cluster_jobs(gb_cluster_t *cluster, gb_cluster_job_t **out, uint32_t *count)
{
    Gable__V1__ListJobsRequest request = GABLE__V1__LIST_JOBS_REQUEST__INIT;
    Gable__V1__ListJobsReply *reply;
    gb_status_t status = gb_cluster_call(cluster, &gable__v1__jobs__descriptor, "List", &request,
                                         cluster->timeout_ms, &reply);
    if (status != GB_OK)
        return status;
    gb_cluster_job_t *list = gb_cluster_list(reply->n_jobs, sizeof *list);
    status = list ? GB_OK : GB_ERR_NO_MEMORY;
    if (list) {
        for (size_t i = 0; i < reply->n_jobs; i++)
            fill_job(reply->jobs[i], &list[i]);
        *out = list;
        *count = (uint32_t)reply->n_jobs;
    }
    gb_rpc_message_free(&reply->base);
    return status;
}
