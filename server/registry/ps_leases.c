/* ps_leases.c - leases: placing, granting, renewing, ending. */
#include "server/registry/ps_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_log.h"
#include "common/lease/gb_lease.h"
#include "server/scheduler/sc_place.h"

enum {
    GRANT_WAIT_MS = 3000,    /* for the proxies' answers */
    RETURN_GRACE_MS = 15000, /* after a restart of the server, for holders to renew */
    MIN_TTL_MS = 1000,
    MAX_TTL_MS = 24 * 3600 * 1000,
    MAX_CANDIDATES = 4096,
};

static const char SHARD_NAME[] = "shard0";

ps_lease_t *ps_lease_find(ps_registry_t *registry, uint64_t id)
{
    for (ps_lease_t *lease = registry->leases; lease; lease = lease->next)
        if (lease->id == id)
            return lease;
    return NULL;
}

ps_lease_t *ps_lease_find_own(ps_registry_t *registry, uint64_t id, const gb_rpc_call_t *call)
{
    ps_lease_t *lease = ps_lease_find(registry, id);
    if (!lease || (gb_rpc_call_roles(call) & GB_ROLE_ADMIN) ||
        !strcmp(lease->owner, gb_rpc_call_name(call)))
        return lease;
    gb_log(GB_LOG_WARN, "%s asked for a lease of %s", gb_rpc_call_name(call), lease->owner);
    return NULL;
}

static int part_has(const ps_part_t *part, const char *proxy, uint32_t device)
{
    if (strcmp(part->proxy, proxy))
        return 0;
    for (uint32_t i = 0; i < part->device_count; i++)
        if (part->devices[i] == device)
            return 1;
    return 0;
}

static int lease_has(const ps_lease_t *lease, const char *proxy, uint32_t device)
{
    for (uint32_t i = 0; i < lease->part_count; i++)
        if (part_has(&lease->parts[i], proxy, device))
            return 1;
    return 0;
}

uint32_t ps_lease_on_device(ps_registry_t *registry, const char *proxy, uint32_t device)
{
    uint32_t count = 0;
    for (ps_lease_t *lease = registry->leases; lease; lease = lease->next)
        count += (uint32_t)lease_has(lease, proxy, device);
    return count;
}

static void lease_free(ps_lease_t *lease)
{
    if (lease->waiting)
        gb_rpc_call_release(lease->waiting);
    gb_wipe(&lease->master, sizeof lease->master);
    free(lease->parts);
    free(lease);
}

/* ---- placing ---- */

static uint64_t memory_left(ps_registry_t *registry, const ps_proxy_t *proxy, uint32_t place)
{
    const ps_device_t *device = &proxy->devices[place];
    uint64_t left = device->memory;
    for (ps_lease_t *lease = registry->leases; lease; lease = lease->next)
        if (lease_has(lease, proxy->name, device->index))
            left -= lease->memory < left ? lease->memory : left;
    return left;
}

static uint32_t list_candidates(ps_registry_t *registry, sc_device_t *out)
{
    uint32_t count = 0;
    for (ps_proxy_t *proxy = registry->proxies; proxy; proxy = proxy->next) {
        if (!proxy->stream)
            continue;
        for (uint32_t i = 0; i < proxy->device_count && count < MAX_CANDIDATES; i++) {
            sc_device_t *device = &out[count++];
            device->proxy = proxy->name;
            device->index = proxy->devices[i].index;
            device->leases = ps_lease_on_device(registry, proxy->name, device->index);
            device->leases_max = registry->config.share;
            device->memory = memory_left(registry, proxy, i);
        }
    }
    return count;
}

static gb_status_t add_device(ps_lease_t *lease, const sc_device_t *device)
{
    ps_part_t *part = NULL;
    for (uint32_t i = 0; i < lease->part_count; i++)
        if (!strcmp(lease->parts[i].proxy, device->proxy))
            part = &lease->parts[i];
    if (!part) {
        if (lease->part_count == PS_LEASE_PARTS)
            return gb_fail(GB_ERR_LIMIT, "a lease spans at most %d machines", PS_LEASE_PARTS);
        part = &lease->parts[lease->part_count++];
        snprintf(part->proxy, sizeof part->proxy, "%.63s", device->proxy);
    }
    part->devices[part->device_count++] = device->index;
    return GB_OK;
}

static gb_status_t place(ps_registry_t *registry, const Gable__V1__AcquireRequest *request,
                         ps_lease_t *lease)
{
    if (!request->gpus)
        return GB_OK;
    sc_request_t wanted = {request->gpus, request->memory_bytes,
                           *request->device ? request->device : NULL};
    sc_device_t *devices = calloc(MAX_CANDIDATES, sizeof *devices);
    uint32_t *chosen = calloc(MAX_CANDIDATES, sizeof *chosen);
    gb_status_t status = GB_OK;
    if (!devices || !chosen)
        status = gb_fail(GB_ERR_NO_MEMORY, "no memory to place a lease");
    if (status == GB_OK)
        status = sc_place(&wanted, devices, list_candidates(registry, devices), chosen);
    for (uint32_t i = 0; status == GB_OK && i < request->gpus; i++)
        status = add_device(lease, &devices[chosen[i]]);
    free(devices);
    free(chosen);
    return status;
}

/* ---- telling the holder ---- */

static void fill_proxy(ps_registry_t *registry, const ps_lease_t *lease, ps_part_t *part,
                       gb_key_t *key, Gable__V1__LeaseProxy *out)
{
    gable__v1__lease_proxy__init(out);
    const ps_proxy_t *proxy = ps_proxy_find(registry, part->proxy);
    if (gb_lease_derive_key(&lease->master, lease->id, "proxy", part->proxy, key) == GB_OK) {
        out->key.data = key->bytes;
        out->key.len = sizeof key->bytes;
    }
    out->name = part->proxy;
    if (proxy) {
        out->data_endpoint = (char *)proxy->data_endpoint;
        out->unix_endpoint = (char *)proxy->unix_endpoint;
        out->machine = (char *)proxy->machine;
    }
    out->devices = part->devices;
    out->n_devices = part->device_count;
}

static void reply_lease(ps_registry_t *registry, ps_lease_t *lease, gb_rpc_call_t *call)
{
    Gable__V1__Lease reply = GABLE__V1__LEASE__INIT;
    Gable__V1__LeaseProxy proxies[PS_LEASE_PARTS], *proxy_list[PS_LEASE_PARTS];
    gb_key_t keys[PS_LEASE_PARTS], shard_key;
    for (uint32_t i = 0; i < lease->part_count; i++) {
        fill_proxy(registry, lease, &lease->parts[i], &keys[i], &proxies[i]);
        proxy_list[i] = &proxies[i];
    }
    Gable__V1__LeaseShard shard = GABLE__V1__LEASE_SHARD__INIT, *shard_list[] = {&shard};
    if (gb_lease_derive_key(&lease->master, lease->id, "shard", SHARD_NAME, &shard_key) == GB_OK) {
        shard.endpoint = registry->endpoint;
        shard.key.data = shard_key.bytes;
        shard.key.len = sizeof shard_key.bytes;
        reply.n_shards = 1;
        reply.shards = shard_list;
    }
    reply.id = lease->id;
    reply.ttl_ms = lease->ttl_ms;
    reply.memory_bytes = lease->memory;
    reply.n_proxies = lease->part_count;
    reply.proxies = proxy_list;
    gb_rpc_call_reply(call, &reply.base);
    gb_wipe(keys, sizeof keys);
    gb_wipe(&shard_key, sizeof shard_key);
}

/* ---- granting ---- */

static gb_status_t grant_shard(ps_registry_t *registry, const ps_lease_t *lease)
{
    gb_key_t key;
    gb_status_t status = gb_lease_derive_key(&lease->master, lease->id, "shard", SHARD_NAME, &key);
    /* No expiry of its own: the registry is the judge, and tells. */
    if (status == GB_OK)
        status = ps_params_grant(registry->params, lease->id, key.bytes, 0);
    gb_wipe(&key, sizeof key);
    return status;
}

static void grant_proxies(ps_registry_t *registry, ps_lease_t *lease)
{
    for (uint32_t i = 0; i < lease->part_count; i++)
        if (!lease->parts[i].granted)
            ps_proxy_grant(registry, lease, &lease->parts[i]);
}

static int all_granted(const ps_lease_t *lease)
{
    for (uint32_t i = 0; i < lease->part_count; i++)
        if (!lease->parts[i].granted)
            return 0;
    return 1;
}

static void answer_acquire(ps_registry_t *registry, ps_lease_t *lease)
{
    gb_rpc_call_t *call = lease->waiting;
    lease->waiting = NULL;
    lease->expires_at = ps_now_ms() + lease->ttl_ms;
    reply_lease(registry, lease, call);
    gb_rpc_call_release(call);
}

void ps_lease_granted(ps_registry_t *registry, const char *proxy, uint64_t id, int accepted,
                      const char *why)
{
    ps_lease_t *lease = ps_lease_find(registry, id);
    if (!lease)
        return;
    if (!accepted) {
        char text[PS_WHY];
        snprintf(text, sizeof text, "proxy %s refused the lease: %.80s", proxy, why);
        ps_lease_end(registry, lease, text);
        return;
    }
    for (uint32_t i = 0; i < lease->part_count; i++)
        if (!strcmp(lease->parts[i].proxy, proxy))
            lease->parts[i].granted = 1;
    if (lease->waiting && all_granted(lease))
        answer_acquire(registry, lease);
}

void ps_lease_proxy_gone(ps_registry_t *registry, const char *proxy)
{
    char why[PS_WHY];
    snprintf(why, sizeof why, "proxy %s is gone", proxy);
    ps_lease_t *next;
    for (ps_lease_t *lease = registry->leases; lease; lease = next) {
        next = lease->next;
        for (uint32_t i = 0; i < lease->part_count; i++)
            if (!strcmp(lease->parts[i].proxy, proxy)) {
                ps_lease_end(registry, lease, why);
                break;
            }
    }
}

/* ---- ending ---- */

static void unlink_lease(ps_registry_t *registry, ps_lease_t *lease)
{
    ps_lease_t **link = &registry->leases;
    while (*link != lease)
        link = &(*link)->next;
    *link = lease->next;
}

void ps_lease_end(ps_registry_t *registry, ps_lease_t *lease, const char *why)
{
    gb_log(GB_LOG_INFO, "lease %016llx of %s ends: %s", (unsigned long long)lease->id,
           lease->client, why);
    unlink_lease(registry, lease);
    ps_ended_t *ended = &registry->ended[registry->ended_next++ % PS_ENDED_LEASES];
    ended->id = lease->id;
    snprintf(ended->why, sizeof ended->why, "%s", why);
    for (uint32_t i = 0; i < lease->part_count; i++)
        ps_proxy_revoke(registry, lease->parts[i].proxy, lease->id, why);
    ps_job_lease_ended(registry, lease->id, why);
    ps_params_revoke(registry->params, lease->id);
    ps_store_lease_delete(registry->store, lease->id);
    if (lease->waiting)
        gb_rpc_call_fail(lease->waiting, GB_ERR_BUSY, "%s: try again", why);
    lease_free(lease);
}

void ps_lease_tick(ps_registry_t *registry, uint64_t now)
{
    ps_lease_t *next;
    for (ps_lease_t *lease = registry->leases; lease; lease = next) {
        next = lease->next;
        if (lease->waiting && lease->waiting_until <= now)
            ps_lease_end(registry, lease, "a proxy did not answer the grant");
        else if (!lease->waiting && lease->expires_at <= now)
            ps_lease_end(registry, lease, "expired: its holder did not renew it");
    }
}

static gb_status_t why_no_lease(ps_registry_t *registry, uint64_t id)
{
    for (uint32_t i = 0; i < PS_ENDED_LEASES; i++)
        if (id && registry->ended[i].id == id)
            return gb_fail(GB_ERR_NOT_FOUND, "the lease is over: %s", registry->ended[i].why);
    return gb_fail(GB_ERR_NOT_FOUND, "the server knows no such lease");
}

/* ---- the service ---- */

static ps_lease_t *make_lease(ps_registry_t *registry, const Gable__V1__AcquireRequest *request,
                              const char *owner)
{
    ps_lease_t *lease = calloc(1, sizeof *lease);
    if (lease)
        lease->parts = calloc(PS_LEASE_PARTS, sizeof *lease->parts);
    if (!lease || !lease->parts) {
        free(lease);
        gb_fail(GB_ERR_NO_MEMORY, "no memory for a lease");
        return NULL;
    }
    uint32_t ttl = request->ttl_ms ? request->ttl_ms : registry->config.ttl_ms;
    lease->ttl_ms = ttl < MIN_TTL_MS ? MIN_TTL_MS : ttl > MAX_TTL_MS ? MAX_TTL_MS : ttl;
    lease->memory = request->memory_bytes;
    lease->id = request->id;
    snprintf(lease->client, sizeof lease->client, "%s", request->client);
    snprintf(lease->owner, sizeof lease->owner, "%s", owner);
    snprintf(lease->job, sizeof lease->job, "%s", request->job);
    return lease;
}

/* The call is answered when all proxies have taken the grant, or in vain after a while. */
static void await_grants(ps_registry_t *registry, ps_lease_t *lease, gb_rpc_call_t *call)
{
    lease->waiting = call;
    gb_rpc_call_hold(call);
    lease->waiting_until = ps_now_ms() + GRANT_WAIT_MS;
    grant_proxies(registry, lease);
    if (all_granted(lease))
        answer_acquire(registry, lease);
}

/* The answer to the first request did not reach its holder, who asks again. */
static gb_status_t acquire_again(ps_registry_t *registry, ps_lease_t *lease,
                                 const Gable__V1__AcquireRequest *request, gb_rpc_call_t *call)
{
    if (strcmp(lease->owner, gb_rpc_call_name(call)) || strcmp(lease->client, request->client))
        return gb_fail(GB_ERR_EXISTS, "that lease belongs to another: ask with another id");
    if (lease->waiting) {
        gb_rpc_call_fail(lease->waiting, GB_ERR_CANCELLED, "asked again on another connection");
        gb_rpc_call_release(lease->waiting);
    }
    await_grants(registry, lease, call);
    return GB_OK;
}

static gb_status_t acquire(ps_registry_t *registry, const Gable__V1__AcquireRequest *request,
                           gb_rpc_call_t *call)
{
    ps_lease_t *known = request->id ? ps_lease_find(registry, request->id) : NULL;
    if (known)
        return acquire_again(registry, known, request, call);
    ps_lease_t *lease = make_lease(registry, request, gb_rpc_call_name(call));
    if (!lease)
        return GB_ERR_NO_MEMORY;
    gb_status_t status = place(registry, request, lease);
    while (status == GB_OK && (!lease->id || ps_lease_find(registry, lease->id)))
        status = gb_random(&lease->id, sizeof lease->id);
    if (status == GB_OK)
        status = gb_lease_master_key(&lease->master);
    if (status == GB_OK)
        status = grant_shard(registry, lease);
    if (status != GB_OK) {
        lease_free(lease);
        return status;
    }
    lease->next = registry->leases;
    registry->leases = lease;
    ps_store_lease_put(registry->store, lease);
    gb_log(GB_LOG_INFO, "lease %016llx: %u devices for %s", (unsigned long long)lease->id,
           request->gpus, lease->client);
    await_grants(registry, lease, call);
    return GB_OK;
}

static void handle_acquire(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in)
{
    ps_registry_t *registry = ctx;
    pthread_mutex_lock(&registry->lock);
    gb_status_t status = acquire(registry, (const Gable__V1__AcquireRequest *)in, call);
    pthread_mutex_unlock(&registry->lock);
    if (status != GB_OK)
        gb_rpc_call_fail(call, status, "%s", gb_why());
}

static void handle_renew(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in)
{
    ps_registry_t *registry = ctx;
    uint64_t id = ((const Gable__V1__RenewRequest *)in)->id;
    Gable__V1__RenewReply reply = GABLE__V1__RENEW_REPLY__INIT;
    pthread_mutex_lock(&registry->lock);
    ps_lease_t *lease = ps_lease_find_own(registry, id, call);
    if (lease) {
        lease->expires_at = ps_now_ms() + lease->ttl_ms;
        reply.ttl_ms = lease->ttl_ms;
    } else {
        why_no_lease(registry, id);
    }
    pthread_mutex_unlock(&registry->lock);
    if (lease)
        gb_rpc_call_reply(call, &reply.base);
    else
        gb_rpc_call_fail(call, GB_ERR_NOT_FOUND, "%s", gb_why());
}

static void handle_release(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in)
{
    ps_registry_t *registry = ctx;
    Gable__V1__Empty reply = GABLE__V1__EMPTY__INIT;
    pthread_mutex_lock(&registry->lock);
    ps_lease_t *lease =
        ps_lease_find_own(registry, ((const Gable__V1__ReleaseRequest *)in)->id, call);
    if (lease)
        ps_lease_end(registry, lease, "released");
    pthread_mutex_unlock(&registry->lock);
    gb_rpc_call_reply(call, &reply.base);
}

static void handle_get(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in)
{
    ps_registry_t *registry = ctx;
    uint64_t id = ((const Gable__V1__GetLeaseRequest *)in)->id;
    pthread_mutex_lock(&registry->lock);
    ps_lease_t *lease = ps_lease_find_own(registry, id, call);
    if (lease)
        reply_lease(registry, lease, call);
    else
        gb_rpc_call_fail(call, why_no_lease(registry, id), "%s", gb_why());
    pthread_mutex_unlock(&registry->lock);
}

enum { HOLDERS = GB_ROLE_WORKER | GB_ROLE_ADMIN };

const gb_rpc_method_t PS_LEASES_METHODS[] = {
    {"Acquire", HOLDERS, 0, handle_acquire, NULL},
    {"Renew", HOLDERS, 0, handle_renew, NULL},
    {"Release", HOLDERS, 0, handle_release, NULL},
    {"Get", HOLDERS, 0, handle_get, NULL},
    {NULL},
};

/* ---- restart ---- */

static void take_loaded(void *arg, ps_lease_t *lease)
{
    ps_registry_t *registry = arg;
    lease->next = registry->leases;
    registry->leases = lease;
    lease->expires_at =
        ps_now_ms() + (lease->ttl_ms > RETURN_GRACE_MS ? lease->ttl_ms : RETURN_GRACE_MS);
}

gb_status_t ps_lease_load(ps_registry_t *registry)
{
    gb_status_t status = ps_store_leases(registry->store, take_loaded, registry);
    uint32_t count = 0;
    for (ps_lease_t *lease = registry->leases; status == GB_OK && lease; lease = lease->next) {
        status = grant_shard(registry, lease);
        count++;
    }
    if (count)
        gb_log(GB_LOG_INFO, "%u leases from before the restart are kept", count);
    return status;
}

void ps_lease_free_all(ps_registry_t *registry)
{
    while (registry->leases) {
        ps_lease_t *lease = registry->leases;
        registry->leases = lease->next;
        lease_free(lease);
    }
}
