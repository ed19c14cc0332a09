/* The shard as the registry sees it: start, stop, jobs, members. Reports: ps_report.c. */
#include "server/params/ps_params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/core/gb_log.h"
#include "server/params/ps_leave.h"
#include "server/params/ps_server.h"
#include "server/params/ps_view.h"

/* ---- start and stop ---- */

static uint32_t default_threads(void)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    long threads = cpus / 2;
    return (uint32_t)(threads < 1 ? 1 : threads > PS_MAX_OWNERS ? PS_MAX_OWNERS : threads);
}

static gb_status_t take_config(ps_params_t *ps, const ps_params_config_t *config)
{
    ps->config = *config;
    ps->config.listen = NULL;
    ps->config.checkpoint_dir = NULL;
    if (config->threads > PS_MAX_OWNERS)
        return gb_fail(GB_ERR_INVALID, "at most %d owner threads are possible", PS_MAX_OWNERS);
    if (!ps->config.threads)
        ps->config.threads = default_threads();
    if (!ps->config.keep)
        ps->config.keep = 3;
    if (!ps->config.grace_ms)
        ps->config.grace_ms = 1000;
    if (!ps->config.silence_ms)
        ps->config.silence_ms = 15000;
    if (config->checkpoint_dir && !(ps->config.checkpoint_dir = strdup(config->checkpoint_dir)))
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    return GB_OK;
}

static gb_status_t open_port(ps_params_t *ps, const char *listen)
{
    gb_endpoint_t endpoint;
    gb_status_t st = gb_endpoint_parse(listen, 7073, &endpoint);
    if (st == GB_OK)
        st = gb_listener_open(&endpoint, 0, &ps->listener);
    if (st == GB_OK)
        gb_endpoint_format(gb_listener_endpoint(ps->listener), ps->endpoint);
    return st;
}

static void init_locks(ps_params_t *ps)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&ps->lock, NULL);
    pthread_cond_init(&ps->changed, NULL);
    pthread_mutex_init(&ps->keeper_lock, NULL);
    pthread_cond_init(&ps->keeper_wake, &attr);
    pthread_mutex_init(&ps->writer_lock, NULL);
    pthread_cond_init(&ps->writer_wake, NULL);
    pthread_condattr_destroy(&attr);
}

static void free_all(ps_params_t *ps)
{
    while (ps->jobs) {
        ps_job_t *job = ps->jobs;
        ps->jobs = job->next;
        ps_job_unref(job);
    }
    gb_listener_close(ps->listener);
    ps_grants_destroy(ps->grants);
    pthread_cond_destroy(&ps->writer_wake);
    pthread_mutex_destroy(&ps->writer_lock);
    pthread_cond_destroy(&ps->keeper_wake);
    pthread_mutex_destroy(&ps->keeper_lock);
    pthread_cond_destroy(&ps->changed);
    pthread_mutex_destroy(&ps->lock);
    free((char *)(uintptr_t)ps->config.checkpoint_dir);
    free(ps);
}

static void stop_owners(ps_params_t *ps)
{
    while (ps->owner_count > 0)
        ps_owner_stop(&ps->owners[--ps->owner_count]);
}

gb_status_t ps_params_start(const ps_params_config_t *config, ps_params_t **out)
{
    ps_params_t *ps = aligned_alloc(64, (sizeof(*ps) + 63) / 64 * 64);
    if (!ps)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    memset(ps, 0, sizeof(*ps));
    init_locks(ps);
    gb_status_t st = take_config(ps, config);
    if (st == GB_OK)
        st = ps_grants_create(config->insecure, &ps->grants);
    if (st == GB_OK)
        st = open_port(ps, config->listen);
    if (st != GB_OK)
        goto err_free;
    uint32_t started = 0;
    for (; started < ps->config.threads && st == GB_OK; started++) {
        st = ps_owner_start(ps, started, &ps->owners[started]);
        if (st == GB_OK)
            ps->owner_count++;
    }
    if (st == GB_OK)
        st = ps_ckpt_writer_start(ps);
    if (st != GB_OK)
        goto err_owners;
    st = ps_keeper_start(ps);
    if (st != GB_OK)
        goto err_writer;
    st = ps_accept_start(ps);
    if (st != GB_OK)
        goto err_keeper;
    *out = ps;
    return GB_OK;

err_keeper:
    ps_keeper_stop(ps);
err_writer:
    ps_ckpt_writer_stop(ps);
err_owners:
    stop_owners(ps);
err_free:
    free_all(ps);
    return st;
}

void ps_params_stop(ps_params_t *ps)
{
    if (!ps)
        return;
    ps_accept_stop(ps);
    ps_keeper_stop(ps); /* before the owners: it calls them */
    uint32_t owners = ps->owner_count;
    stop_owners(ps);
    ps_ckpt_writer_stop(ps); /* after the owners: they may have completed a checkpoint */
    gb_log(GB_LOG_DEBUG, "shard stopped, %u owner threads", owners);
    free_all(ps);
}

const char *ps_params_endpoint(const ps_params_t *ps)
{
    return ps->endpoint;
}

/* ---- leases ---- */

gb_status_t ps_params_grant(ps_params_t *ps, uint64_t lease, const uint8_t key[PS_KEY_BYTES],
                            uint64_t expires_ms)
{
    return ps_grants_add(ps->grants, lease, key, expires_ms);
}

static void cut_lease(ps_owner_t *owner, void *arg)
{
    const uint64_t *lease = arg;
    for (ps_conn_t *conn = owner->conns; conn; conn = conn->next) {
        if (conn->lease != *lease || conn->dead)
            continue;
        ps_conn_error(conn, GBX_OP_NOTICE, 0, GBX_REFUSED, "the lease was revoked");
        conn->gone = PS_GONE_LOST; /* so that the worker leaves its jobs */
    }
}

gb_status_t ps_params_revoke(ps_params_t *ps, uint64_t lease)
{
    gb_status_t st = ps_grants_remove(ps->grants, lease);
    if (st == GB_OK)
        ps_owners_call(ps, cut_lease, &lease);
    return st;
}

/* ---- jobs ---- */

ps_job_t *ps_params_find_job(ps_params_t *ps, const char *name)
{
    pthread_mutex_lock(&ps->lock);
    ps_job_t *job = ps->jobs;
    while (job && strcmp(job->name, name) != 0)
        job = job->next;
    if (job)
        ps_job_ref(job);
    pthread_mutex_unlock(&ps->lock);
    return job;
}

static gb_status_t need_job(ps_params_t *ps, const char *name, ps_job_t **out)
{
    *out = ps_params_find_job(ps, name);
    return *out ? GB_OK : gb_fail(GB_ERR_NOT_FOUND, "this shard knows no job %s", name);
}

gb_status_t ps_params_job_create(ps_params_t *ps, const ps_params_job_t *config, uint64_t *clock,
                                 uint32_t *epoch)
{
    ps_job_t *job;
    gb_status_t st = ps_job_new(config, &job);
    if (st == GB_OK && config->restore) {
        st = ps_ckpt_find(ps, job);
        if (st != GB_OK)
            ps_job_unref(job);
    }
    if (st != GB_OK)
        return st;
    uint64_t start = job->restore_clock;
    uint32_t start_epoch = job->epoch;
    pthread_mutex_lock(&ps->lock);
    for (ps_job_t *other = ps->jobs; other && st == GB_OK; other = other->next) {
        if (strcmp(other->name, job->name) == 0)
            st = gb_fail(GB_ERR_EXISTS, "job %s exists", job->name);
    }
    if (st == GB_OK) {
        job->next = ps->jobs;
        ps->jobs = job;
    }
    pthread_mutex_unlock(&ps->lock);
    if (st != GB_OK) {
        ps_job_unref(job);
        return st;
    }
    if (clock)
        *clock = start;
    if (epoch)
        *epoch = start_epoch;
    return GB_OK;
}

static void remove_view(ps_owner_t *owner, void *arg)
{
    ps_view_t *view = ps_view_find(owner, arg);
    if (!view)
        return;
    for (ps_conn_t *conn = owner->conns; conn; conn = conn->next) {
        if (conn->view != view)
            continue;
        ps_conn_error(conn, GBX_OP_NOTICE, 0, GBX_REFUSED, "the job was removed");
        ps_conn_flush(conn);
        ps_conn_kill(conn, PS_GONE_TOLD, "the job was removed");
        conn->view = NULL;
    }
    ps_view_t **at = &owner->views;
    while (*at != view)
        at = &(*at)->next;
    *at = view->next;
    ps_view_free(view);
}

gb_status_t ps_params_job_remove(ps_params_t *ps, const char *name)
{
    pthread_mutex_lock(&ps->lock);
    ps_job_t **at = &ps->jobs;
    while (*at && strcmp((*at)->name, name) != 0)
        at = &(*at)->next;
    ps_job_t *job = *at;
    if (job) {
        *at = job->next;
        job->next = NULL;
    }
    pthread_mutex_unlock(&ps->lock);
    if (!job)
        return gb_fail(GB_ERR_NOT_FOUND, "this shard knows no job %s", name);
    atomic_store(&job->removed, 1);
    ps_owners_call(ps, remove_view, job);
    ps_job_unref(job);
    return GB_OK;
}

/* ---- members ---- */

typedef struct {
    ps_job_t *job;
    uint64_t clock_begin;
    const uint32_t *workers;
    uint32_t count, raised; /* the new generation, or 0 */
    pthread_mutex_t lock;
    gb_status_t status;
    char why[256];
} members_call_t;

static void set_members(ps_owner_t *owner, void *arg)
{
    members_call_t *call = arg;
    ps_view_t *view = ps_view_get(owner, call->job);
    gb_status_t st = GB_ERR_NO_MEMORY;
    if (view && call->raised)
        ps_view_new_generation(view, call->raised);
    if (view)
        st = ps_view_set_members(view, call->clock_begin, call->workers, call->count);
    if (st == GB_OK)
        return;
    pthread_mutex_lock(&call->lock);
    call->status = st;
    snprintf(call->why, sizeof(call->why), "%s", gb_why());
    pthread_mutex_unlock(&call->lock);
}

gb_status_t ps_params_set_members(ps_params_t *ps, const char *name, uint32_t generation,
                                  uint64_t clock_begin, const uint32_t *workers, uint32_t count)
{
    ps_job_t *job;
    gb_status_t st = need_job(ps, name, &job);
    if (st != GB_OK)
        return st;
    uint32_t now = atomic_load(&job->generation);
    if (count > PS_MAX_WORKERS || generation < now) {
        ps_job_unref(job);
        return gb_fail(GB_ERR_INVALID, "job %s: %u workers of generation %u, it is %u now", name,
                       count, generation, now);
    }
    members_call_t call = {.job = job,
                           .clock_begin = clock_begin,
                           .workers = workers,
                           .count = count,
                           .raised = generation > now ? generation : 0};
    pthread_mutex_init(&call.lock, NULL);
    atomic_store(&job->generation, generation);
    ps_owners_call(ps, set_members, &call);
    pthread_mutex_destroy(&call.lock);
    ps_job_unref(job);
    return call.status == GB_OK ? GB_OK : gb_fail(call.status, "%s", call.why);
}

typedef struct {
    ps_job_t *job;
    uint32_t worker;
} leave_call_t;

static void leave(ps_owner_t *owner, void *arg)
{
    const leave_call_t *call = arg;
    ps_view_t *view = ps_view_find(owner, call->job);
    if (view)
        ps_view_leave(view, call->worker);
}

void ps_leave_everywhere(ps_params_t *ps, ps_job_t *job, uint32_t worker)
{
    leave_call_t call = {job, worker};
    ps_owners_call(ps, leave, &call);
}

gb_status_t ps_params_leave(ps_params_t *ps, const char *name, uint32_t worker)
{
    ps_job_t *job;
    gb_status_t st = need_job(ps, name, &job);
    if (st != GB_OK)
        return st;
    ps_leave_everywhere(ps, job, worker);
    ps_job_unref(job);
    return GB_OK;
}
