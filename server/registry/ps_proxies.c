/* ps_proxies.c - the proxies' streams: hello, heartbeats, grants and kills down.
 *
 * A proxy is known by its name. One that loses its stream is "away": its devices are no longer
 * offered, but its leases live on for lost_ms, in which it may come back and get its grants again. */
#include "server/registry/ps_state.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_log.h"
#include "common/lease/gb_lease.h"

enum { PROTOCOL = 1, KILL_WAIT_MS = 3000, MAX_SESSIONS = 4096, SILENT_BEATS = 5 };

ps_proxy_t *ps_proxy_find(ps_registry_t *registry, const char *name)
{
    for (ps_proxy_t *proxy = registry->proxies; proxy; proxy = proxy->next)
        if (!strcmp(proxy->name, name))
            return proxy;
    return NULL;
}

static ps_proxy_t *find_by_stream(ps_registry_t *registry, gb_rpc_call_t *call)
{
    for (ps_proxy_t *proxy = registry->proxies; proxy; proxy = proxy->next)
        if (proxy->stream == call)
            return proxy;
    return NULL;
}

/* ---- messages down ---- */

static void send_down(ps_proxy_t *proxy, Gable__V1__ServerMessage *message)
{
    if (gb_rpc_call_send(proxy->stream, &message->base) != GB_OK)
        gb_log(GB_LOG_WARN, "proxy %s: %s", proxy->name, gb_why());
}

/* Fills a grant; its key lies in *key. */
static gb_status_t fill_grant(const ps_lease_t *lease, const ps_part_t *part, gb_key_t *key,
                              Gable__V1__Grant *out)
{
    gb_status_t status = gb_lease_derive_key(&lease->master, lease->id, "proxy", part->proxy, key);
    if (status != GB_OK)
        return status;
    gable__v1__grant__init(out);
    out->lease = lease->id;
    out->key.data = key->bytes;
    out->key.len = sizeof key->bytes;
    out->n_devices = part->device_count;
    out->devices = (uint32_t *)part->devices;
    out->memory_bytes = lease->memory;
    out->client = (char *)lease->client;
    out->owner = (char *)lease->owner;
    return GB_OK;
}

void ps_proxy_grant(ps_registry_t *registry, const ps_lease_t *lease, const ps_part_t *part)
{
    ps_proxy_t *proxy = ps_proxy_find(registry, part->proxy);
    Gable__V1__ServerMessage message = GABLE__V1__SERVER_MESSAGE__INIT;
    Gable__V1__Grant grant;
    gb_key_t key;
    if (!proxy || !proxy->stream || fill_grant(lease, part, &key, &grant) != GB_OK)
        return;
    message.message_case = GABLE__V1__SERVER_MESSAGE__MESSAGE_GRANT;
    message.grant = &grant;
    send_down(proxy, &message);
    gb_wipe(&key, sizeof key);
}

void ps_proxy_revoke(ps_registry_t *registry, const char *name, uint64_t lease, const char *why)
{
    ps_proxy_t *proxy = ps_proxy_find(registry, name);
    if (!proxy || !proxy->stream)
        return;
    Gable__V1__ServerMessage message = GABLE__V1__SERVER_MESSAGE__INIT;
    Gable__V1__Revoke revoke = GABLE__V1__REVOKE__INIT;
    revoke.lease = lease;
    revoke.reason = (char *)why;
    message.message_case = GABLE__V1__SERVER_MESSAGE__MESSAGE_REVOKE;
    message.revoke = &revoke;
    send_down(proxy, &message);
}

/* ---- killing sessions ---- */

static ps_proxy_t *find_session(ps_registry_t *registry, uint64_t id)
{
    for (ps_proxy_t *proxy = registry->proxies; proxy; proxy = proxy->next)
        for (uint32_t i = 0; proxy->stream && i < proxy->session_count; i++)
            if (proxy->sessions[i].id == id)
                return proxy;
    return NULL;
}

gb_status_t ps_proxy_kill(ps_registry_t *registry, uint64_t session, gb_rpc_call_t *call)
{
    ps_proxy_t *proxy = find_session(registry, session);
    if (!proxy)
        return gb_fail(GB_ERR_NOT_FOUND, "no session %016llx: see `gable sessions`",
                       (unsigned long long)session);
    ps_kill_t *kill = calloc(1, sizeof *kill);
    if (!kill)
        return gb_fail(GB_ERR_NO_MEMORY, "no memory");
    kill->call = call;
    kill->session = session;
    kill->until = ps_now_ms() + KILL_WAIT_MS;
    kill->next = registry->kills;
    registry->kills = kill;
    gb_rpc_call_hold(call);
    Gable__V1__ServerMessage message = GABLE__V1__SERVER_MESSAGE__INIT;
    Gable__V1__Kill order = GABLE__V1__KILL__INIT;
    order.session = session;
    message.message_case = GABLE__V1__SERVER_MESSAGE__MESSAGE_KILL;
    message.kill = &order;
    send_down(proxy, &message);
    gb_log(GB_LOG_INFO, "session %016llx on %s: killed on request", (unsigned long long)session,
           proxy->name);
    return GB_OK;
}

/* Answers every kill of that session (or, with `now`, those that waited too long). */
static void finish_kills(ps_registry_t *registry, uint64_t session, int found, uint64_t now)
{
    ps_kill_t **link = &registry->kills;
    while (*link) {
        ps_kill_t *kill = *link;
        if (now ? kill->until > now : kill->session != session) {
            link = &kill->next;
            continue;
        }
        Gable__V1__Empty reply = GABLE__V1__EMPTY__INIT;
        if (now)
            gb_rpc_call_fail(kill->call, GB_ERR_BUSY, "the proxy does not answer: try again");
        else if (found)
            gb_rpc_call_reply(kill->call, &reply.base);
        else
            gb_rpc_call_fail(kill->call, GB_ERR_NOT_FOUND, "the session has just ended");
        gb_rpc_call_release(kill->call);
        *link = kill->next;
        free(kill);
    }
}

/* ---- messages up ---- */

static int name_is_good(const char *name)
{
    size_t size = strlen(name);
    for (size_t i = 0; i < size; i++)
        if (!isalnum((unsigned char)name[i]) && !strchr("._:-", name[i]))
            return 0;
    return size > 0 && size < PS_NAME;
}

static void take_devices(ps_proxy_t *proxy, const Gable__V1__ProxyHello *hello)
{
    memset(proxy->devices, 0, sizeof proxy->devices);
    proxy->device_count = (uint32_t)hello->n_devices;
    for (uint32_t i = 0; i < proxy->device_count; i++) {
        const Gable__V1__DeviceInfo *from = hello->devices[i];
        ps_device_t *device = &proxy->devices[i];
        device->index = from->index;
        snprintf(device->name, sizeof device->name, "%s", from->name);
        snprintf(device->uuid, sizeof device->uuid, "%s", from->uuid);
        device->memory = from->memory_bytes;
        device->capability = from->capability;
        device->multiprocessors = from->multiprocessors;
        device->clock_khz = from->clock_khz;
    }
}

static gb_status_t check_hello(ps_registry_t *registry, const Gable__V1__ProxyHello *hello)
{
    if (hello->protocol != PROTOCOL)
        return gb_fail(GB_ERR_VERSION,
                       "the proxy speaks protocol %u, this server %d: install the same version",
                       hello->protocol, PROTOCOL);
    if (!name_is_good(hello->name))
        return gb_fail(GB_ERR_INVALID,
                       "'%.80s' is no name for a proxy: use at most 63 letters, digits, . _ : -",
                       hello->name);
    if (hello->n_devices > PS_PROXY_DEVICES)
        return gb_fail(GB_ERR_LIMIT, "%zu devices on one proxy, at most %d", hello->n_devices,
                       PS_PROXY_DEVICES);
    const ps_proxy_t *old = ps_proxy_find(registry, hello->name);
    if (old && old->stream && ps_now_ms() - old->heard_at < 2u * registry->config.heartbeat_ms)
        return gb_fail(GB_ERR_EXISTS, "a proxy called %s is already here: choose another --name",
                       hello->name);
    return GB_OK;
}

static void drop_stream(ps_proxy_t *proxy)
{
    gb_rpc_call_t *stream = proxy->stream;
    proxy->stream = NULL;
    if (stream)
        gb_rpc_call_release(stream);
}

static size_t count_parts(ps_registry_t *registry, const char *proxy)
{
    size_t count = 0;
    for (ps_lease_t *lease = registry->leases; lease; lease = lease->next)
        for (uint32_t i = 0; i < lease->part_count; i++)
            count += !strcmp(lease->parts[i].proxy, proxy);
    return count;
}

/* All grants of a proxy go into its welcome, so that it also forgets those that ended meanwhile. */
static gb_status_t welcome(ps_registry_t *registry, ps_proxy_t *proxy)
{
    size_t count = count_parts(registry, proxy->name), n = 0;
    Gable__V1__Grant *grants = calloc(count + 1, sizeof *grants);
    Gable__V1__Grant **list = calloc(count + 1, sizeof *list);
    gb_key_t *keys = calloc(count + 1, sizeof *keys);
    gb_status_t status = GB_OK;
    if (!grants || !list || !keys)
        status = gb_fail(GB_ERR_NO_MEMORY, "no memory for %zu grants", count);
    for (ps_lease_t *lease = registry->leases; status == GB_OK && lease; lease = lease->next)
        for (uint32_t i = 0; status == GB_OK && i < lease->part_count; i++)
            if (!strcmp(lease->parts[i].proxy, proxy->name)) {
                list[n] = &grants[n];
                status = fill_grant(lease, &lease->parts[i], &keys[n], &grants[n]);
                n++;
            }
    if (status == GB_OK) {
        Gable__V1__ServerMessage message = GABLE__V1__SERVER_MESSAGE__INIT;
        Gable__V1__Welcome text = GABLE__V1__WELCOME__INIT;
        text.heartbeat_ms = registry->config.heartbeat_ms;
        text.generation = registry->generation;
        text.n_grants = n;
        text.grants = list;
        message.message_case = GABLE__V1__SERVER_MESSAGE__MESSAGE_WELCOME;
        message.welcome = &text;
        send_down(proxy, &message);
    }
    if (keys)
        gb_wipe(keys, count * sizeof *keys);
    free(keys);
    free(list);
    free(grants);
    return status;
}

static void take_hello(ps_registry_t *registry, gb_rpc_call_t *call,
                       const Gable__V1__ProxyHello *hello)
{
    gb_status_t status = check_hello(registry, hello);
    ps_proxy_t *proxy = status == GB_OK ? ps_proxy_find(registry, hello->name) : NULL;
    if (status == GB_OK && !proxy) {
        proxy = calloc(1, sizeof *proxy);
        if (proxy) {
            proxy->next = registry->proxies;
            registry->proxies = proxy;
        } else {
            status = gb_fail(GB_ERR_NO_MEMORY, "no memory for a proxy");
        }
    }
    if (status != GB_OK) {
        gb_log(GB_LOG_WARN, "refused a proxy from %s: %s", gb_rpc_call_peer(call), gb_why());
        gb_rpc_call_fail(call, status, "%s", gb_why());
        return;
    }
    drop_stream(proxy);
    snprintf(proxy->name, sizeof proxy->name, "%.63s", hello->name);
    snprintf(proxy->data_endpoint, sizeof proxy->data_endpoint, "%s", hello->data_endpoint);
    snprintf(proxy->unix_endpoint, sizeof proxy->unix_endpoint, "%s", hello->unix_endpoint);
    snprintf(proxy->machine, sizeof proxy->machine, "%s", hello->machine);
    snprintf(proxy->driver, sizeof proxy->driver, "%s", hello->driver);
    take_devices(proxy, hello);
    proxy->stream = call;
    gb_rpc_call_hold(call);
    proxy->heard_at = ps_now_ms();
    proxy->away_at = 0;
    gb_log(GB_LOG_INFO, "proxy %s is here with %u devices (%s)", proxy->name, proxy->device_count,
           proxy->driver);
    if (welcome(registry, proxy) != GB_OK)
        gb_rpc_call_fail(call, GB_ERR_NO_MEMORY, "%s", gb_why());
}

static void take_heartbeat(ps_proxy_t *proxy, const Gable__V1__Heartbeat *beat)
{
    uint32_t count = beat->n_sessions < MAX_SESSIONS ? (uint32_t)beat->n_sessions : MAX_SESSIONS;
    ps_session_t *list = calloc(count ? count : 1, sizeof *list);
    if (!list)
        return; /* the old list stands until the next one */
    uint64_t now = ps_now_ms();
    for (uint32_t i = 0; i < count; i++) {
        const Gable__V1__SessionInfo *from = beat->sessions[i];
        list[i].id = from->id;
        list[i].lease = from->lease;
        list[i].pid = from->pid;
        list[i].memory = from->memory_bytes;
        list[i].begun_at = now - (from->age_ms < now ? from->age_ms : now);
        snprintf(list[i].peer, sizeof list[i].peer, "%s", from->peer);
    }
    free(proxy->sessions);
    proxy->sessions = list;
    proxy->session_count = count;
}

static void remove_proxy(ps_registry_t *registry, ps_proxy_t *proxy)
{
    ps_proxy_t **link = &registry->proxies;
    while (*link != proxy)
        link = &(*link)->next;
    *link = proxy->next;
    ps_lease_proxy_gone(registry, proxy->name);
    drop_stream(proxy);
    free(proxy->sessions);
    free(proxy);
}

static void say_goodbye(ps_registry_t *registry, ps_proxy_t *proxy)
{
    gb_log(GB_LOG_INFO, "proxy %s says goodbye", proxy->name);
    gb_rpc_call_finish(proxy->stream);
    remove_proxy(registry, proxy);
}

static void take_message(ps_registry_t *registry, gb_rpc_call_t *call,
                         const Gable__V1__ProxyMessage *message)
{
    if (message->message_case == GABLE__V1__PROXY_MESSAGE__MESSAGE_HELLO) {
        take_hello(registry, call, message->hello);
        return;
    }
    ps_proxy_t *proxy = find_by_stream(registry, call);
    if (!proxy) {
        gb_rpc_call_fail(call, GB_ERR_INVALID, "the first message must be a hello");
        return;
    }
    proxy->heard_at = ps_now_ms();
    if (message->message_case == GABLE__V1__PROXY_MESSAGE__MESSAGE_HEARTBEAT)
        take_heartbeat(proxy, message->heartbeat);
    else if (message->message_case == GABLE__V1__PROXY_MESSAGE__MESSAGE_GRANTED)
        ps_lease_granted(registry, proxy->name, message->granted->lease, message->granted->accepted,
                         message->granted->reason);
    else if (message->message_case == GABLE__V1__PROXY_MESSAGE__MESSAGE_KILLED)
        finish_kills(registry, message->killed->session, message->killed->found, 0);
    else if (message->message_case == GABLE__V1__PROXY_MESSAGE__MESSAGE_GOODBYE)
        say_goodbye(registry, proxy);
}

static void handle_attach(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in)
{
    ps_registry_t *registry = ctx;
    if (!in) { /* goodbye */
        gb_rpc_call_finish(call);
        return;
    }
    pthread_mutex_lock(&registry->lock);
    take_message(registry, call, (const Gable__V1__ProxyMessage *)in);
    pthread_mutex_unlock(&registry->lock);
}

static void handle_attach_closed(void *ctx, gb_rpc_call_t *call)
{
    ps_registry_t *registry = ctx;
    pthread_mutex_lock(&registry->lock);
    ps_proxy_t *proxy = find_by_stream(registry, call);
    if (proxy) {
        gb_log(GB_LOG_WARN, "proxy %s: stream lost, waiting %u ms for it to come back", proxy->name,
               registry->config.lost_ms);
        drop_stream(proxy);
        proxy->away_at = ps_now_ms();
    }
    pthread_mutex_unlock(&registry->lock);
}

static void handle_hello(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in)
{
    ps_registry_t *registry = ctx;
    const Gable__V1__HelloRequest *request = (const void *)in;
    if (request->protocol != PROTOCOL) {
        gb_rpc_call_fail(call, GB_ERR_VERSION,
                         "this server speaks protocol %d, the caller %u: install the same version",
                         PROTOCOL, request->protocol);
        return;
    }
    Gable__V1__HelloReply reply = GABLE__V1__HELLO_REPLY__INIT;
    reply.protocol = PROTOCOL;
    reply.server_version = GABLE_VERSION;
    reply.generation = registry->generation;
    gb_rpc_call_reply(call, &reply.base);
}

const gb_rpc_method_t PS_CLUSTER_METHODS[] = {
    {"Hello", GB_ROLE_ALL, 0, handle_hello, NULL},
    {"Attach", GB_ROLE_PROXY, 1, handle_attach, handle_attach_closed},
    {NULL},
};

/* ---- time ---- */

static int is_gone(ps_registry_t *registry, ps_proxy_t *proxy, uint64_t now)
{
    if (proxy->stream)
        return 0;
    return now - proxy->away_at >= registry->config.lost_ms;
}

void ps_proxy_tick(ps_registry_t *registry, uint64_t now)
{
    finish_kills(registry, 0, 0, now);
    ps_proxy_t *next;
    for (ps_proxy_t *proxy = registry->proxies; proxy; proxy = next) {
        next = proxy->next;
        if (proxy->stream && now - proxy->heard_at > SILENT_BEATS * registry->config.heartbeat_ms) {
            gb_log(GB_LOG_WARN, "proxy %s is silent: dropped", proxy->name);
            gb_rpc_call_fail(proxy->stream, GB_ERR_TIMEOUT, "no heartbeat for too long");
            drop_stream(proxy);
            proxy->away_at = now;
        }
        if (!is_gone(registry, proxy, now))
            continue;
        gb_log(GB_LOG_WARN, "proxy %s is gone, and its %u devices", proxy->name,
               proxy->device_count);
        remove_proxy(registry, proxy);
    }
}

void ps_proxy_free_all(ps_registry_t *registry)
{
    while (registry->proxies) {
        ps_proxy_t *proxy = registry->proxies;
        registry->proxies = proxy->next;
        drop_stream(proxy);
        free(proxy->sessions);
        free(proxy);
    }
}
