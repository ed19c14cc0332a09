/* The keeper: one thread that notices workers who vanished and makes them leave. It is the only one
 * that calls on_leave, so that the registry's disk never holds up an owner thread. */
#include <errno.h>
#include <time.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"
#include "server/params/ps_leave.h"
#include "server/params/ps_server.h"

/* Lets one worker of one job leave, if there is one that must. */
static int keep_job(ps_params_t *ps, ps_job_t *job, uint64_t *next)
{
    uint32_t worker;
    int goodbye;
    uint64_t due;
    if (!ps_job_take_leaver(job, gb_now_ns(), (uint64_t)ps->config.grace_ms * 1000000u, &worker,
                            &goodbye, &due)) {
        *next = due < *next ? due : *next;
        return 0;
    }
    const char *why = goodbye ? "said goodbye" : "its connection was lost";
    gb_log(GB_LOG_INFO, "job %s: worker %u leaves: %s", job->name, worker, why);
    ps_leave_everywhere(ps, job, worker);
    if (ps->config.on_leave)
        ps->config.on_leave(ps->config.context, job->name, worker, why);
    return 1;
}

/* One round over all jobs. Returns when to look again. */
static uint64_t keep_all(ps_params_t *ps)
{
    uint64_t next = UINT64_MAX;
    pthread_mutex_lock(&ps->lock);
    ps_job_t *job = ps->jobs ? ps_job_ref(ps->jobs) : NULL;
    pthread_mutex_unlock(&ps->lock);
    while (job) {
        while (keep_job(ps, job, &next))
            ;
        pthread_mutex_lock(&ps->lock);
        /* A job removed meanwhile has no successor any more: the next kick starts over. */
        ps_job_t *following = job->next ? ps_job_ref(job->next) : NULL;
        pthread_mutex_unlock(&ps->lock);
        ps_job_unref(job);
        job = following;
    }
    return next;
}

static void wait_kick(ps_params_t *ps, uint64_t next)
{
    struct timespec until = {(time_t)(next / 1000000000u), (long)(next % 1000000000u)};
    int error = 0;
    while (!ps->keeper_kicked && !ps->keeper_stop && error != ETIMEDOUT) {
        if (next == UINT64_MAX)
            error = pthread_cond_wait(&ps->keeper_wake, &ps->keeper_lock);
        else
            error = pthread_cond_timedwait(&ps->keeper_wake, &ps->keeper_lock, &until);
    }
    ps->keeper_kicked = 0;
}

static void *keeper(void *arg)
{
    ps_params_t *ps = arg;
    uint64_t next = UINT64_MAX;
    pthread_mutex_lock(&ps->keeper_lock);
    while (!ps->keeper_stop) {
        wait_kick(ps, next);
        if (ps->keeper_stop)
            break;
        pthread_mutex_unlock(&ps->keeper_lock);
        next = keep_all(ps);
        pthread_mutex_lock(&ps->keeper_lock);
    }
    pthread_mutex_unlock(&ps->keeper_lock);
    return NULL;
}

gb_status_t ps_keeper_start(ps_params_t *ps)
{
    int error = pthread_create(&ps->keeper, NULL, keeper, ps);
    return error == 0 ? GB_OK : gb_fail_errno(GB_ERR_IO, error, "cannot start a thread");
}

void ps_keeper_stop(ps_params_t *ps)
{
    pthread_mutex_lock(&ps->keeper_lock);
    ps->keeper_stop = 1;
    pthread_cond_signal(&ps->keeper_wake);
    pthread_mutex_unlock(&ps->keeper_lock);
    pthread_join(ps->keeper, NULL);
}

void ps_keeper_kick(ps_params_t *ps)
{
    pthread_mutex_lock(&ps->keeper_lock);
    ps->keeper_kicked = 1;
    pthread_cond_signal(&ps->keeper_wake);
    pthread_mutex_unlock(&ps->keeper_lock);
}
