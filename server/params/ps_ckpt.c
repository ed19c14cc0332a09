/* A checkpoint's life: capture by the owners, then the writer's queue. Files: ps_ckpt_file.c. */
#include "server/params/ps_ckpt.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "common/core/gb_log.h"
#include "server/params/ps_ckpt_file.h"
#include "server/params/ps_server.h"

static uint32_t own_chunks(const ps_job_t *job)
{
    uint32_t count = 0;
    for (uint32_t c = 0; c < job->plan.chunk_count; c++)
        count += job->plan.chunks[c].shard == job->shard;
    return count;
}

gb_status_t ps_ckpt_new(ps_params_t *ps, ps_job_t *job, uint64_t clock, uint32_t epoch,
                        ps_ckpt_t **out)
{
    ps_ckpt_t *ckpt = calloc(1, sizeof(*ckpt));
    if (!ckpt)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    atomic_init(&ckpt->refs, 1);
    ckpt->ps = ps;
    ckpt->job = ps_job_ref(job);
    ckpt->clock = clock;
    ckpt->epoch = epoch;
    pthread_mutex_init(&ckpt->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&ckpt->changed, &attr);
    pthread_condattr_destroy(&attr);
    *out = ckpt;
    return GB_OK;
}

gb_status_t ps_ckpt_arm(ps_ckpt_t *ckpt)
{
    pthread_mutex_lock(&ckpt->lock);
    if (!ckpt->armed) {
        ckpt->chunks = calloc(ckpt->job->plan.chunk_count, sizeof(*ckpt->chunks));
        atomic_store(&ckpt->remaining, own_chunks(ckpt->job));
        ckpt->armed = ckpt->chunks != NULL;
    }
    int armed = ckpt->armed;
    pthread_mutex_unlock(&ckpt->lock);
    return armed ? GB_OK : gb_fail(GB_ERR_NO_MEMORY, "out of memory");
}

ps_ckpt_t *ps_ckpt_ref(ps_ckpt_t *ckpt)
{
    atomic_fetch_add(&ckpt->refs, 1);
    return ckpt;
}

static void release_chunks(ps_ckpt_t *ckpt)
{
    for (uint32_t c = 0; ckpt->chunks && c < ckpt->job->plan.chunk_count; c++) {
        ps_buf_unref(ckpt->chunks[c].weights);
        ps_buf_unref(ckpt->chunks[c].velocity);
        ckpt->chunks[c].weights = ckpt->chunks[c].velocity = NULL;
    }
}

void ps_ckpt_unref(ps_ckpt_t *ckpt)
{
    if (!ckpt || atomic_fetch_sub(&ckpt->refs, 1) != 1)
        return;
    release_chunks(ckpt);
    free(ckpt->chunks);
    pthread_cond_destroy(&ckpt->changed);
    pthread_mutex_destroy(&ckpt->lock);
    ps_job_unref(ckpt->job);
    free(ckpt);
}

static void finish(ps_ckpt_t *ckpt, gb_status_t status)
{
    pthread_mutex_lock(&ckpt->lock);
    ckpt->done = 1;
    ckpt->status = status;
    pthread_cond_broadcast(&ckpt->changed);
    pthread_mutex_unlock(&ckpt->lock);
}

static void enqueue(ps_ckpt_t *ckpt)
{
    ps_params_t *ps = ckpt->ps;
    ps_ckpt_ref(ckpt);
    pthread_mutex_lock(&ps->writer_lock);
    ckpt->next = NULL;
    *ps->writer_end = ckpt;
    ps->writer_end = &ckpt->next;
    pthread_cond_signal(&ps->writer_wake);
    pthread_mutex_unlock(&ps->writer_lock);
}

void ps_ckpt_capture(ps_ckpt_t *ckpt, const ps_chunk_t *chunk)
{
    if (chunk) {
        ckpt->chunks[chunk->id].weights = ps_buf_ref(chunk->weights);
        ckpt->chunks[chunk->id].velocity = ps_buf_ref(chunk->velocity);
    } else {
        atomic_store(&ckpt->late, 1);
    }
    if (atomic_fetch_sub(&ckpt->remaining, 1) != 1)
        return;
    if (atomic_load(&ckpt->late))
        finish(ckpt, GB_ERR_AGAIN);
    else
        enqueue(ckpt);
}

gb_status_t ps_ckpt_wait(ps_ckpt_t *ckpt, uint32_t timeout_ms)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += timeout_ms / 1000;
    until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&ckpt->lock);
    int error = 0;
    while (!ckpt->done && error != ETIMEDOUT)
        error = pthread_cond_timedwait(&ckpt->changed, &ckpt->lock, &until);
    gb_status_t st = ckpt->done ? ckpt->status : GB_ERR_TIMEOUT;
    pthread_mutex_unlock(&ckpt->lock);
    if (st == GB_ERR_TIMEOUT)
        return gb_fail(st, "job %s did not reach clock %llu in time", ckpt->job->name,
                       (unsigned long long)ckpt->clock);
    if (st != GB_OK && st != GB_ERR_AGAIN)
        return gb_fail(st, "the checkpoint of job %s could not be written", ckpt->job->name);
    return st;
}

static void write_one(ps_params_t *ps, ps_ckpt_t *ckpt)
{
    ps_job_t *job = ckpt->job;
    gb_status_t st = ps_ckpt_file_write(ps, ckpt);
    release_chunks(ckpt);
    if (st == GB_OK) {
        pthread_mutex_lock(&job->lock);
        job->epoch = ckpt->epoch;
        job->checkpoint_clock = ckpt->clock;
        pthread_mutex_unlock(&job->lock);
        gb_log(GB_LOG_INFO, "job %s: checkpoint at clock %llu in %s", job->name,
               (unsigned long long)ckpt->clock, ckpt->path);
        if (ps->config.on_checkpoint)
            ps->config.on_checkpoint(ps->config.context, job->name, ckpt->clock, ckpt->epoch,
                                     ckpt->path);
    } else {
        gb_log(GB_LOG_ERROR, "job %s: no checkpoint at clock %llu: %s", job->name,
               (unsigned long long)ckpt->clock, gb_why());
    }
    finish(ckpt, st);
}

static void *writer(void *arg)
{
    ps_params_t *ps = arg;
    pthread_mutex_lock(&ps->writer_lock);
    for (;;) {
        while (!ps->writer_queue && !ps->writer_stop)
            pthread_cond_wait(&ps->writer_wake, &ps->writer_lock);
        ps_ckpt_t *ckpt = ps->writer_queue;
        if (!ckpt)
            break;
        ps->writer_queue = ckpt->next;
        if (!ps->writer_queue)
            ps->writer_end = &ps->writer_queue;
        pthread_mutex_unlock(&ps->writer_lock);
        write_one(ps, ckpt);
        ps_ckpt_unref(ckpt);
        pthread_mutex_lock(&ps->writer_lock);
    }
    pthread_mutex_unlock(&ps->writer_lock);
    return NULL;
}

gb_status_t ps_ckpt_writer_start(ps_params_t *ps)
{
    ps->writer_end = &ps->writer_queue;
    int error = pthread_create(&ps->writer, NULL, writer, ps);
    return error == 0 ? GB_OK : gb_fail_errno(GB_ERR_IO, error, "cannot start a thread");
}

void ps_ckpt_writer_stop(ps_params_t *ps)
{
    pthread_mutex_lock(&ps->writer_lock);
    ps->writer_stop = 1;
    pthread_cond_signal(&ps->writer_wake);
    pthread_mutex_unlock(&ps->writer_lock);
    pthread_join(ps->writer, NULL);
}
