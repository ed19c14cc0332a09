/* ps_registry.c - life of the registry, its clock, and events from the parameter shard.
 *
 * The shard's callbacks run on its own threads while we may be waiting for the shard with our lock
 * held: so they only queue an event, and the clock's thread acts on it. */
#include "server/registry/ps_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"

enum { TICK_MS = 200 };

uint64_t ps_now_ms(void)
{
    return gb_now_ns() / 1000000u;
}

gb_status_t ps_registry_create(const ps_registry_config_t *config, ps_registry_t **out)
{
    ps_registry_t *registry = calloc(1, sizeof *registry);
    if (!registry)
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for the registry");
    registry->config = *config;
    if (!registry->config.share)
        registry->config.share = 1;
    gb_status_t status = ps_store_open(config->state_dir, &registry->store, &registry->generation);
    if (status != GB_OK) {
        free(registry);
        return status;
    }
    registry->begun_at = ps_now_ms();
    registry->next_job = 1;
    pthread_mutex_init(&registry->lock, NULL);
    pthread_mutex_init(&registry->event_lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&registry->event_wake, &attr);
    pthread_condattr_destroy(&attr);
    *out = registry;
    return GB_OK;
}

/* ---- events of the shard ---- */

void ps_registry_on_leave(void *context, const char *job, uint32_t worker, const char *why)
{
    ps_registry_t *registry = context;
    ps_event_t *event = calloc(1, sizeof *event);
    if (!event)
        return; /* the member's lease will expire instead */
    snprintf(event->job, sizeof event->job, "%s", job);
    snprintf(event->why, sizeof event->why, "%s", why);
    event->worker = worker;
    pthread_mutex_lock(&registry->event_lock);
    ps_event_t **end = &registry->events;
    while (*end)
        end = &(*end)->next;
    *end = event;
    pthread_cond_signal(&registry->event_wake);
    pthread_mutex_unlock(&registry->event_lock);
}

void ps_registry_on_checkpoint(void *context, const char *job, uint64_t clock, uint32_t epoch,
                               const char *path)
{
    (void)context;
    gb_log(GB_LOG_DEBUG, "job %s: checkpoint of epoch %u (clock %llu): %s", job, epoch,
           (unsigned long long)clock, path);
}

/* Waits for an event or the next tick; 0: quit. */
static int next_events(ps_registry_t *registry, ps_event_t **out)
{
    uint64_t end = gb_now_ns() + TICK_MS * 1000000ull;
    struct timespec until = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
    pthread_mutex_lock(&registry->event_lock);
    while (!registry->events && !registry->quit &&
           !pthread_cond_timedwait(&registry->event_wake, &registry->event_lock, &until)) {
    }
    *out = registry->events;
    registry->events = NULL;
    int quit = registry->quit;
    pthread_mutex_unlock(&registry->event_lock);
    return !quit;
}

static void act_on(ps_registry_t *registry, ps_event_t *events)
{
    while (events) {
        ps_event_t *event = events;
        events = event->next;
        ps_job_worker_left(registry, event->job, event->worker, event->why);
        free(event);
    }
}

static void *clock_main(void *arg)
{
    ps_registry_t *registry = arg;
    ps_event_t *events;
    while (next_events(registry, &events)) {
        pthread_mutex_lock(&registry->lock);
        uint64_t now = ps_now_ms();
        act_on(registry, events);
        ps_proxy_tick(registry, now);
        ps_lease_tick(registry, now);
        ps_barrier_tick(registry, now);
        pthread_mutex_unlock(&registry->lock);
    }
    while (events) {
        ps_event_t *event = events;
        events = event->next;
        free(event);
    }
    return NULL;
}

/* ---- start and end ---- */

gb_status_t ps_registry_start(ps_registry_t *registry, ps_params_t *params, const char *endpoint)
{
    pthread_mutex_lock(&registry->lock);
    registry->params = params;
    snprintf(registry->endpoint, sizeof registry->endpoint, "%s", endpoint);
    gb_status_t status = ps_lease_load(registry);
    if (status == GB_OK)
        status = ps_job_load(registry);
    pthread_mutex_unlock(&registry->lock);
    if (status != GB_OK)
        return status;
    if (pthread_create(&registry->clock, NULL, clock_main, registry))
        return gb_fail(GB_ERR_LIMIT, "cannot start a thread");
    registry->running = 1;
    return GB_OK;
}

static void answer_everybody(ps_registry_t *registry)
{
    for (ps_job_t *job = registry->jobs; job; job = job->next)
        for (ps_member_t *member = job->members; member; member = member->next)
            ps_barrier_answer_waiting(member, GB_ERR_UNREACHABLE, "the server is stopping");
    for (ps_lease_t *lease = registry->leases; lease; lease = lease->next) {
        if (!lease->waiting)
            continue;
        gb_rpc_call_fail(lease->waiting, GB_ERR_UNREACHABLE, "the server is stopping");
        gb_rpc_call_release(lease->waiting);
        lease->waiting = NULL;
    }
    while (registry->kills) {
        ps_kill_t *kill = registry->kills;
        registry->kills = kill->next;
        gb_rpc_call_fail(kill->call, GB_ERR_UNREACHABLE, "the server is stopping");
        gb_rpc_call_release(kill->call);
        free(kill);
    }
    for (ps_proxy_t *proxy = registry->proxies; proxy; proxy = proxy->next) {
        if (!proxy->stream)
            continue;
        gb_rpc_call_finish(proxy->stream);
        gb_rpc_call_release(proxy->stream);
        proxy->stream = NULL;
    }
}

void ps_registry_stop(ps_registry_t *registry)
{
    if (!registry->running)
        return;
    registry->running = 0;
    pthread_mutex_lock(&registry->event_lock);
    registry->quit = 1;
    pthread_cond_signal(&registry->event_wake);
    pthread_mutex_unlock(&registry->event_lock);
    pthread_join(registry->clock, NULL);
    pthread_mutex_lock(&registry->lock);
    answer_everybody(registry);
    pthread_mutex_unlock(&registry->lock);
}

void ps_registry_destroy(ps_registry_t *registry)
{
    if (!registry)
        return;
    ps_registry_stop(registry);
    ps_job_free_all(registry);
    ps_lease_free_all(registry);
    ps_proxy_free_all(registry);
    ps_store_close(registry->store);
    pthread_mutex_destroy(&registry->lock);
    pthread_mutex_destroy(&registry->event_lock);
    pthread_cond_destroy(&registry->event_wake);
    free(registry);
}

gb_status_t ps_registry_serve(ps_registry_t *registry, gb_rpc_server_t *server)
{
    gb_status_t status =
        gb_rpc_server_add(server, &gable__v1__cluster__descriptor, PS_CLUSTER_METHODS, registry);
    if (status == GB_OK)
        status =
            gb_rpc_server_add(server, &gable__v1__leases__descriptor, PS_LEASES_METHODS, registry);
    if (status == GB_OK)
        status = gb_rpc_server_add(server, &gable__v1__jobs__descriptor, PS_JOBS_METHODS, registry);
    return status;
}
