/* ps_admin.c - lists over the registry's tables. */
#include "server/admin/ps_admin.h"

#include <stdlib.h>
#include <string.h>

#include "server/registry/ps_state.h"

enum { READERS = GB_ROLE_ADMIN | GB_ROLE_WORKER };

static void no_memory(gb_rpc_call_t *call)
{
    gb_rpc_call_fail(call, GB_ERR_NO_MEMORY, "the server has no memory for the list");
}

/* ---- status ---- */

static void count_proxies(ps_registry_t *registry, Gable__V1__StatusReply *out)
{
    for (ps_proxy_t *proxy = registry->proxies; proxy; proxy = proxy->next) {
        if (!proxy->stream)
            continue;
        out->proxies++;
        out->sessions += proxy->session_count;
        for (uint32_t i = 0; i < proxy->device_count; i++) {
            out->devices++;
            out->devices_free +=
                ps_lease_on_device(registry, proxy->name, proxy->devices[i].index) <
                registry->config.share;
        }
    }
}

static void handle_status(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in)
{
    ps_registry_t *registry = ctx;
    Gable__V1__StatusReply reply = GABLE__V1__STATUS_REPLY__INIT;
    (void)in;
    pthread_mutex_lock(&registry->lock);
    reply.version = GABLE_VERSION;
    reply.data_endpoint = registry->endpoint;
    reply.uptime_ms = ps_now_ms() - registry->begun_at;
    reply.generation = registry->generation;
    reply.tls = *gb_rpc_call_name(call) != 0;
    count_proxies(registry, &reply);
    for (ps_lease_t *lease = registry->leases; lease; lease = lease->next)
        reply.leases++;
    for (ps_job_t *job = registry->jobs; job; job = job->next)
        reply.jobs_running += job->members != NULL;
    gb_rpc_call_reply(call, &reply.base);
    pthread_mutex_unlock(&registry->lock);
}

/* ---- devices ---- */

typedef struct {
    Gable__V1__DeviceState state;
    Gable__V1__DeviceInfo info;
} device_row_t;

static int session_uses(ps_registry_t *registry, const ps_proxy_t *proxy,
                        const ps_session_t *session, uint32_t index)
{
    const ps_lease_t *lease = ps_lease_find(registry, session->lease);
    for (uint32_t i = 0; lease && i < lease->part_count; i++)
        for (uint32_t d = 0; d < lease->parts[i].device_count; d++)
            if (!strcmp(lease->parts[i].proxy, proxy->name) && lease->parts[i].devices[d] == index)
                return 1;
    return 0;
}

static void fill_device(ps_registry_t *registry, ps_proxy_t *proxy, uint32_t place,
                        device_row_t *row)
{
    ps_device_t *device = &proxy->devices[place];
    gable__v1__device_state__init(&row->state);
    gable__v1__device_info__init(&row->info);
    row->info.index = device->index;
    row->info.name = device->name;
    row->info.uuid = device->uuid;
    row->info.memory_bytes = device->memory;
    row->info.capability = device->capability;
    row->info.multiprocessors = device->multiprocessors;
    row->info.clock_khz = device->clock_khz;
    row->state.info = &row->info;
    row->state.proxy = proxy->name;
    row->state.driver = proxy->driver;
    row->state.endpoint = *proxy->data_endpoint ? proxy->data_endpoint : proxy->unix_endpoint;
    row->state.leases = ps_lease_on_device(registry, proxy->name, device->index);
    row->state.leases_max = registry->config.share;
    for (uint32_t s = 0; s < proxy->session_count; s++)
        if (session_uses(registry, proxy, &proxy->sessions[s], device->index)) {
            row->state.sessions++;
            row->state.memory_used_bytes += proxy->sessions[s].memory;
        }
}

static int by_name(const void *a, const void *b)
{
    const device_row_t *x = *(device_row_t *const *)a, *y = *(device_row_t *const *)b;
    int order = strcmp(x->state.proxy, y->state.proxy);
    return order ? order : (x->info.index > y->info.index) - (x->info.index < y->info.index);
}

static void handle_devices(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in)
{
    ps_registry_t *registry = ctx;
    (void)in;
    pthread_mutex_lock(&registry->lock);
    size_t count = 0, n = 0;
    for (ps_proxy_t *proxy = registry->proxies; proxy; proxy = proxy->next)
        count += proxy->device_count;
    device_row_t *rows = calloc(count + 1, sizeof *rows);
    /* The row's first member is the message, so one array of pointers serves for both. */
    Gable__V1__DeviceState **list = calloc(count + 1, sizeof *list);
    for (ps_proxy_t *proxy = registry->proxies; rows && list && proxy; proxy = proxy->next)
        for (uint32_t i = 0; proxy->stream && i < proxy->device_count; i++) {
            fill_device(registry, proxy, i, &rows[n]);
            list[n] = &rows[n].state;
            n++;
        }
    if (rows && list) {
        qsort(list, n, sizeof *list, by_name);
        Gable__V1__DevicesReply reply = GABLE__V1__DEVICES_REPLY__INIT;
        reply.n_devices = n;
        reply.devices = list;
        gb_rpc_call_reply(call, &reply.base);
    } else {
        no_memory(call);
    }
    pthread_mutex_unlock(&registry->lock);
    free(list);
    free(rows);
}

/* ---- sessions ---- */

typedef struct {
    Gable__V1__SessionState state;
    Gable__V1__SessionInfo info;
} session_row_t;

static void fill_session(ps_registry_t *registry, ps_proxy_t *proxy, ps_session_t *session,
                         session_row_t *row)
{
    gable__v1__session_state__init(&row->state);
    gable__v1__session_info__init(&row->info);
    row->info.id = session->id;
    row->info.lease = session->lease;
    row->info.pid = session->pid;
    row->info.memory_bytes = session->memory;
    row->info.age_ms = ps_now_ms() - session->begun_at;
    row->info.peer = session->peer;
    row->state.info = &row->info;
    row->state.proxy = proxy->name;
    ps_lease_t *lease = ps_lease_find(registry, session->lease);
    if (!lease)
        return;
    row->state.client = lease->client;
    for (uint32_t i = 0; i < lease->part_count; i++)
        if (!strcmp(lease->parts[i].proxy, proxy->name)) {
            row->state.devices = lease->parts[i].devices;
            row->state.n_devices = lease->parts[i].device_count;
        }
}

static void handle_sessions(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in)
{
    ps_registry_t *registry = ctx;
    (void)in;
    pthread_mutex_lock(&registry->lock);
    size_t count = 0, n = 0;
    for (ps_proxy_t *proxy = registry->proxies; proxy; proxy = proxy->next)
        count += proxy->session_count;
    session_row_t *rows = calloc(count + 1, sizeof *rows);
    Gable__V1__SessionState **list = calloc(count + 1, sizeof *list);
    for (ps_proxy_t *proxy = registry->proxies; rows && list && proxy; proxy = proxy->next)
        for (uint32_t i = 0; proxy->stream && i < proxy->session_count; i++) {
            fill_session(registry, proxy, &proxy->sessions[i], &rows[n]);
            list[n] = &rows[n].state;
            n++;
        }
    if (rows && list) {
        Gable__V1__SessionsReply reply = GABLE__V1__SESSIONS_REPLY__INIT;
        reply.n_sessions = n;
        reply.sessions = list;
        gb_rpc_call_reply(call, &reply.base);
    } else {
        no_memory(call);
    }
    pthread_mutex_unlock(&registry->lock);
    free(list);
    free(rows);
}

static void handle_kill(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in)
{
    ps_registry_t *registry = ctx;
    pthread_mutex_lock(&registry->lock);
    gb_status_t status =
        ps_proxy_kill(registry, ((const Gable__V1__KillSessionRequest *)in)->id, call);
    pthread_mutex_unlock(&registry->lock);
    if (status != GB_OK)
        gb_rpc_call_fail(call, status, "%s", gb_why());
}

/* ---- parameters ---- */

typedef struct {
    Gable__V1__ParamInfo info;
    char job[PS_NAME];
    char name[128];
    uint64_t shape[8];
} param_row_t;

typedef struct {
    param_row_t **rows;
    size_t count, capacity;
    char job[PS_NAME];
    int failed;
} param_list_t;

static void take_tensor(void *arg, const ps_params_tensor_t *tensor)
{
    param_list_t *list = arg;
    if (list->count == list->capacity) {
        size_t capacity = list->capacity ? list->capacity * 2 : 64;
        param_row_t **rows = realloc(list->rows, capacity * sizeof *rows);
        if (!rows) {
            list->failed = 1;
            return;
        }
        list->rows = rows;
        list->capacity = capacity;
    }
    param_row_t *row = calloc(1, sizeof *row);
    if (!row) {
        list->failed = 1;
        return;
    }
    gable__v1__param_info__init(&row->info);
    memcpy(row->job, list->job, sizeof row->job);
    memcpy(row->name, tensor->name, sizeof row->name);
    row->name[sizeof row->name - 1] = 0;
    memcpy(row->shape, tensor->shape, sizeof row->shape);
    row->info.job = row->job;
    row->info.name = row->name;
    row->info.shape = row->shape;
    row->info.n_shape = tensor->dims < 8 ? tensor->dims : 8;
    row->info.type = "f32";
    row->info.version = tensor->version;
    row->info.norm = tensor->norm;
    list->rows[list->count++] = row;
}

/* Name and exchange of the newest runs, copied so that the norms are computed without the lock. */
typedef struct {
    char name[PS_NAME], exchange[PS_NAME];
} run_t;

static run_t *list_runs(ps_registry_t *registry, const char *wanted, size_t *out)
{
    size_t count = 0, n = 0;
    pthread_mutex_lock(&registry->lock);
    for (ps_job_t *job = registry->jobs; job; job = job->next)
        count++;
    run_t *runs = calloc(count + 1, sizeof *runs);
    for (ps_job_t *job = registry->jobs; runs && job; job = job->next) {
        if (*wanted && strcmp(wanted, job->name))
            continue;
        memcpy(runs[n].name, job->name, sizeof runs[n].name);
        memcpy(runs[n].exchange, job->exchange, sizeof runs[n].exchange);
        n++;
    }
    pthread_mutex_unlock(&registry->lock);
    *out = n;
    return runs;
}

static void reply_params(gb_rpc_call_t *call, param_list_t *list)
{
    Gable__V1__ParamInfo **pointers = calloc(list->count + 1, sizeof *pointers);
    if (!pointers || list->failed) {
        no_memory(call);
    } else {
        Gable__V1__ParamsReply reply = GABLE__V1__PARAMS_REPLY__INIT;
        for (size_t i = 0; i < list->count; i++)
            pointers[i] = &list->rows[i]->info;
        reply.n_params = list->count;
        reply.params = pointers;
        gb_rpc_call_reply(call, &reply.base);
    }
    free(pointers);
}

static void handle_params(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in)
{
    ps_registry_t *registry = ctx;
    const char *wanted = ((const Gable__V1__ParamsRequest *)in)->job;
    size_t count;
    run_t *runs = list_runs(registry, wanted, &count);
    if (!runs) {
        no_memory(call);
        return;
    }
    param_list_t list = {NULL};
    for (size_t i = 0; i < count; i++) {
        memcpy(list.job, runs[i].name, sizeof list.job);
        /* Earlier runs of a name are no longer on the shard; that is no error. */
        ps_params_each_tensor(registry->params, runs[i].exchange, take_tensor, &list);
    }
    if (*wanted && !count)
        gb_rpc_call_fail(call, GB_ERR_NOT_FOUND, "no job %.60s: see `gable jobs`", wanted);
    else
        reply_params(call, &list);
    for (size_t i = 0; i < list.count; i++)
        free(list.rows[i]);
    free(list.rows);
    free(runs);
}

static const gb_rpc_method_t METHODS[] = {
    {"Status", READERS, 0, handle_status, NULL},
    {"Devices", READERS, 0, handle_devices, NULL},
    {"Sessions", READERS, 0, handle_sessions, NULL},
    {"KillSession", GB_ROLE_ADMIN, 0, handle_kill, NULL},
    {"Params", READERS, 0, handle_params, NULL},
    {NULL},
};

gb_status_t ps_admin_serve(ps_registry_t *registry, gb_rpc_server_t *server)
{
    return gb_rpc_server_add(server, &gable__v1__admin__descriptor, METHODS, registry);
}
