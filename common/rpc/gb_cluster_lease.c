/* gb_cluster_lease.c - a lease and the thread that keeps it alive. */
#include "common/rpc/gb_cluster_internal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"
#include "common/crypto/gb_crypto.h"

enum { RELEASE_MS = 2000 };

struct gb_cluster_lease {
    gb_cluster_t *cluster;
    uint64_t id;
    uint32_t ttl_ms;
    uint32_t gpus;
    gb_lease_t lease;
    gb_cluster_shard_t *shards;
    uint32_t shard_count;

    pthread_t renewer;
    int renewing;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    int quit;
    gb_status_t state;
    char why[256];
};

/* ---- making ---- */

/* The faster of a proxy's endpoints that this machine can use. */
static const char *choose_endpoint(const Gable__V1__LeaseProxy *proxy)
{
    char machine[64];
    struct stat info;
    gb_cluster_machine(machine, sizeof machine);
    const char *path = proxy->unix_endpoint + strlen("unix:");
    if (*machine && !strcmp(machine, proxy->machine) &&
        !strncmp(proxy->unix_endpoint, "unix:", 5) && !stat(path, &info) &&
        S_ISSOCK(info.st_mode) && !access(path, W_OK))
        return proxy->unix_endpoint;
    return *proxy->data_endpoint ? proxy->data_endpoint : proxy->unix_endpoint;
}

static gb_status_t take_key(ProtobufCBinaryData bytes, uint8_t *out)
{
    if (bytes.len != GB_CLUSTER_KEY_SIZE)
        return gb_fail(GB_ERR_PROTOCOL, "the server sent a key of %zu bytes", bytes.len);
    memcpy(out, bytes.data, GB_CLUSTER_KEY_SIZE);
    return GB_OK;
}

static gb_status_t take_proxy(gb_cluster_lease_t *lease, const Gable__V1__LeaseProxy *from,
                              uint64_t memory)
{
    gb_lease_proxy_t proxy = {.memory = memory};
    gb_status_t status = gb_endpoint_parse(choose_endpoint(from), 0, &proxy.endpoint);
    if (status == GB_OK)
        status = take_key(from->key, proxy.key.bytes);
    if (status == GB_OK && (!from->n_devices || from->n_devices > GB_LEASE_DEVICES))
        status = gb_fail(GB_ERR_PROTOCOL, "the server sent %zu devices", from->n_devices);
    for (size_t i = 0; status == GB_OK && i < from->n_devices; i++)
        proxy.devices[proxy.device_count++] = (int)from->devices[i];
    if (status == GB_OK)
        status = gb_lease_add_proxy(&lease->lease, &proxy);
    lease->gpus += (uint32_t)proxy.device_count;
    gb_wipe(&proxy.key, sizeof proxy.key);
    return status;
}

static gb_status_t take_shard(gb_cluster_lease_t *lease, const Gable__V1__LeaseShard *from)
{
    gb_lease_shard_t shard;
    memset(&shard, 0, sizeof shard);
    gb_status_t status = gb_endpoint_parse(from->endpoint, 0, &shard.endpoint);
    if (status == GB_OK)
        status = take_key(from->key, shard.key.bytes);
    if (status == GB_OK)
        status = gb_lease_add_shard(&lease->lease, &shard);
    if (status == GB_OK) {
        gb_cluster_shard_t *out = &lease->shards[lease->shard_count++];
        gb_cluster_copy(out->endpoint, sizeof out->endpoint, from->endpoint);
        memcpy(out->key, shard.key.bytes, sizeof out->key);
    }
    gb_wipe(&shard.key, sizeof shard.key);
    return status;
}

static gb_status_t take_lease(gb_cluster_lease_t *lease, const Gable__V1__Lease *from)
{
    lease->id = lease->lease.id = from->id;
    lease->ttl_ms = from->ttl_ms ? from->ttl_ms : 15000;
    lease->shards = gb_cluster_list(from->n_shards, sizeof *lease->shards);
    gb_status_t status = lease->shards ? GB_OK : GB_ERR_NO_MEMORY;
    for (size_t i = 0; status == GB_OK && i < from->n_proxies; i++)
        status = take_proxy(lease, from->proxies[i], from->memory_bytes);
    for (size_t i = 0; status == GB_OK && i < from->n_shards; i++)
        status = take_shard(lease, from->shards[i]);
    return status;
}

/* ---- renewal ---- */

static void set_state(gb_cluster_lease_t *lease, gb_status_t state, const char *why)
{
    pthread_mutex_lock(&lease->lock);
    lease->state = state;
    gb_cluster_copy(lease->why, sizeof lease->why, why);
    pthread_mutex_unlock(&lease->lock);
}

/* 0: the lease is over. */
static int renew_once(gb_cluster_lease_t *lease)
{
    Gable__V1__RenewRequest request = GABLE__V1__RENEW_REQUEST__INIT;
    Gable__V1__RenewReply *reply;
    request.id = lease->id;
    gb_status_t status = gb_cluster_call(lease->cluster, &gable__v1__leases__descriptor, "Renew",
                                         &request, lease->cluster->timeout_ms, &reply);
    if (status == GB_OK) {
        gb_rpc_message_free(&reply->base);
        set_state(lease, GB_OK, "");
        return 1;
    }
    if (status == GB_ERR_NOT_FOUND) {
        set_state(lease, GB_ERR_LOST, gb_why());
        gb_log(GB_LOG_WARN, "lease %016llx is over: %s", (unsigned long long)lease->id, gb_why());
        return 0;
    }
    set_state(lease, GB_ERR_UNREACHABLE, gb_why());
    return 1;
}

/* Waits; 1 if the lease is being released. */
static int wait_quit(gb_cluster_lease_t *lease, uint32_t ms)
{
    uint64_t end = gb_now_ns() + (uint64_t)ms * 1000000u;
    struct timespec until = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
    pthread_mutex_lock(&lease->lock);
    int timed_out = 0;
    while (!lease->quit && !timed_out)
        timed_out = pthread_cond_timedwait(&lease->wake, &lease->lock, &until) != 0;
    int quit = lease->quit;
    pthread_mutex_unlock(&lease->lock);
    return quit;
}

static void *renewer_main(void *arg)
{
    gb_cluster_lease_t *lease = arg;
    uint32_t pause = lease->ttl_ms / 3;
    while (!wait_quit(lease, pause)) {
        if (!renew_once(lease))
            return NULL;
        /* While the server is away try more often: it may wait for us to come back. */
        pause = lease->state == GB_OK ? lease->ttl_ms / 3 : 500;
    }
    return NULL;
}

static void init_waiting(gb_cluster_lease_t *lease)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&lease->lock, NULL);
    pthread_cond_init(&lease->wake, &attr);
    pthread_condattr_destroy(&attr);
}

/* ---- the interface ---- */

gb_status_t gb_cluster_lease_acquire(gb_cluster_t *cluster, const gb_lease_request_t *request,
                                     gb_cluster_lease_t **out)
{
    Gable__V1__AcquireRequest message = GABLE__V1__ACQUIRE_REQUEST__INIT;
    message.gpus = request->gpus;
    message.memory_bytes = request->memory;
    message.ttl_ms = request->ttl_ms;
    message.client = cluster->name;
    message.job = (char *)(request->job ? request->job : "");
    message.device = (char *)(request->device ? request->device : "");
    Gable__V1__Lease *reply;
    gb_status_t status = gb_random(&message.id, sizeof message.id);
    if (status == GB_OK)
        status = gb_cluster_call(cluster, &gable__v1__leases__descriptor, "Acquire", &message,
                                 cluster->timeout_ms, &reply);
    if (status != GB_OK)
        return status;
    gb_cluster_lease_t *lease = calloc(1, sizeof *lease);
    if (!lease) {
        gb_rpc_message_free(&reply->base);
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for a lease");
    }
    lease->cluster = cluster;
    init_waiting(lease);
    status = take_lease(lease, reply);
    gb_rpc_message_free(&reply->base);
    if (status == GB_OK && pthread_create(&lease->renewer, NULL, renewer_main, lease))
        status = gb_fail(GB_ERR_LIMIT, "cannot start a thread");
    if (status != GB_OK) {
        gb_cluster_lease_release(lease);
        return status;
    }
    lease->renewing = 1;
    *out = lease;
    return GB_OK;
}

/* What the server does not hear it learns by expiry. */
static void tell_release(gb_cluster_lease_t *lease)
{
    Gable__V1__ReleaseRequest request = GABLE__V1__RELEASE_REQUEST__INIT;
    Gable__V1__Empty *reply;
    request.id = lease->id;
    gb_status_t status = gb_cluster_call(lease->cluster, &gable__v1__leases__descriptor, "Release",
                                         &request, RELEASE_MS, &reply);
    if (status == GB_OK)
        gb_rpc_message_free(&reply->base);
    else
        gb_log(GB_LOG_INFO, "lease %016llx is left to expire: %s", (unsigned long long)lease->id,
               gb_why());
}

void gb_cluster_lease_release(gb_cluster_lease_t *lease)
{
    if (!lease)
        return;
    if (lease->renewing) {
        pthread_mutex_lock(&lease->lock);
        lease->quit = 1;
        pthread_cond_signal(&lease->wake);
        pthread_mutex_unlock(&lease->lock);
        pthread_join(lease->renewer, NULL);
    }
    if (lease->id && lease->state != GB_ERR_LOST)
        tell_release(lease);
    gb_lease_free(&lease->lease);
    if (lease->shards)
        gb_wipe(lease->shards, lease->shard_count * sizeof *lease->shards);
    free(lease->shards);
    pthread_mutex_destroy(&lease->lock);
    pthread_cond_destroy(&lease->wake);
    free(lease);
}

uint64_t gb_cluster_lease_id(const gb_cluster_lease_t *lease)
{
    return lease->id;
}

uint32_t gb_cluster_lease_gpus(const gb_cluster_lease_t *lease)
{
    return lease->gpus;
}

const gb_lease_t *gb_cluster_lease_get(const gb_cluster_lease_t *lease)
{
    return &lease->lease;
}

gb_status_t gb_cluster_lease_write(const gb_cluster_lease_t *lease, const char *path)
{
    return gb_lease_save(&lease->lease, path);
}

const gb_cluster_shard_t *gb_cluster_lease_shards(const gb_cluster_lease_t *lease, uint32_t *count)
{
    *count = lease->shard_count;
    return lease->shards;
}

gb_status_t gb_cluster_lease_state(gb_cluster_lease_t *lease)
{
    pthread_mutex_lock(&lease->lock);
    gb_status_t state = lease->state;
    if (state != GB_OK)
        gb_fail(state, "%s", lease->why);
    pthread_mutex_unlock(&lease->lock);
    return state;
}
