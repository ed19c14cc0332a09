#include "server/params/ps_job.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_clock.h"

int ps_job_name_ok(const char *name)
{
    size_t n = name ? strlen(name) : 0;
    if (n == 0 || n >= PS_JOB_NAME || name[0] == '.')
        return 0;
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)name[i]) && !strchr("._-", name[i]))
            return 0;
    }
    return 1;
}

static gb_status_t check_optimizer(const ps_optimizer_t *o)
{
    if (o->kind != PS_SGD)
        return gb_fail(GB_ERR_UNSUPPORTED, "optimizer %d is not known to the shard", o->kind);
    if (!isfinite(o->lr) || !(o->momentum >= 0 && o->momentum < 1) || !isfinite(o->weight_decay) ||
        !isfinite(o->lr_gamma))
        return gb_fail(GB_ERR_INVALID, "learning rate, momentum or weight decay out of range");
    if (o->schedule == PS_LR_STEP && o->lr_step == 0)
        return gb_fail(GB_ERR_INVALID, "a step schedule needs a step of at least one clock");
    return GB_OK;
}

gb_status_t ps_job_new(const ps_params_job_t *config, ps_job_t **out)
{
    if (!ps_job_name_ok(config->name))
        return gb_fail(GB_ERR_INVALID, "a job's name is 1 to %d of A-Z a-z 0-9 . _ -",
                       PS_JOB_NAME - 1);
    gb_status_t st = check_optimizer(&config->optimizer);
    if (st != GB_OK)
        return st;
    ps_job_t *job = calloc(1, sizeof(*job));
    if (!job)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    atomic_init(&job->refs, 1);
    memcpy(job->name, config->name, strlen(config->name));
    job->optimizer = config->optimizer;
    atomic_init(&job->generation, config->generation);
    pthread_mutex_init(&job->lock, NULL);
    *out = job;
    return GB_OK;
}

ps_job_t *ps_job_ref(ps_job_t *job)
{
    atomic_fetch_add(&job->refs, 1);
    return job;
}

void ps_job_unref(ps_job_t *job)
{
    if (!job || atomic_fetch_sub(&job->refs, 1) != 1)
        return;
    gb_st_reader_close(job->restore);
    gbx_plan_free(&job->plan);
    free(job->plan_bytes);
    free(job->presences);
    pthread_mutex_destroy(&job->lock);
    free(job);
}

static gb_status_t declare_first(ps_job_t *job, const void *bytes, uint32_t size, uint32_t shard,
                                 uint32_t shards)
{
    gbx_plan_t plan;
    gb_status_t st = gbx_plan_decode(bytes, size, &plan);
    if (st != GB_OK)
        return st;
    job->plan_bytes = malloc(size);
    if (!job->plan_bytes) {
        gbx_plan_free(&plan);
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    }
    memcpy(job->plan_bytes, bytes, size);
    job->plan_size = size;
    job->plan = plan;
    job->shard = shard;
    job->shards = shards;
    return GB_OK;
}

gb_status_t ps_job_declare(ps_job_t *job, const void *bytes, uint32_t size, uint32_t shard,
                           uint32_t shards)
{
    gb_status_t st = GB_OK;
    pthread_mutex_lock(&job->lock);
    if (!job->plan_bytes)
        st = declare_first(job, bytes, size, shard, shards);
    else if (size != job->plan_size || memcmp(bytes, job->plan_bytes, size) != 0 ||
             shard != job->shard || shards != job->shards)
        st = gb_fail(GB_ERR_INVALID,
                     "the model or the list of shards differs from that of job %s: start every "
                     "worker with the same model",
                     job->name);
    pthread_mutex_unlock(&job->lock);
    return st;
}

static ps_presence_t *presence_find(ps_job_t *job, uint32_t worker)
{
    for (uint32_t i = 0; i < job->presence_count; i++) {
        if (job->presences[i].worker == worker)
            return &job->presences[i];
    }
    return NULL;
}

static ps_presence_t *presence_make(ps_job_t *job, uint32_t worker)
{
    ps_presence_t *presence = presence_find(job, worker);
    if (presence)
        return presence;
    if (job->presence_count == job->presence_cap) {
        uint32_t cap = job->presence_cap ? job->presence_cap * 2 : 8;
        ps_presence_t *grown = realloc(job->presences, cap * sizeof(*grown));
        if (!grown)
            return NULL;
        job->presences = grown;
        job->presence_cap = cap;
    }
    presence = &job->presences[job->presence_count++];
    *presence = (ps_presence_t){.worker = worker};
    return presence;
}

gb_status_t ps_job_came(ps_job_t *job, uint32_t worker, uint32_t all)
{
    pthread_mutex_lock(&job->lock);
    ps_presence_t *presence = presence_make(job, worker);
    if (presence) {
        presence->open++;
        presence->goodbye = 0;
        if (presence->open >= all)
            presence->lost_at = 0;
    }
    pthread_mutex_unlock(&job->lock);
    return presence ? GB_OK : gb_fail(GB_ERR_NO_MEMORY, "out of memory");
}

void ps_job_went(ps_job_t *job, uint32_t worker, ps_gone_t how)
{
    pthread_mutex_lock(&job->lock);
    ps_presence_t *presence = presence_find(job, worker);
    if (presence) {
        presence->open--;
        if (how == PS_GONE_GOODBYE)
            presence->goodbye = 1;
        else if (how == PS_GONE_LOST && !presence->lost_at)
            presence->lost_at = gb_now_ns();
        if (presence->open == 0 && !presence->lost_at && !presence->goodbye)
            *presence = job->presences[--job->presence_count];
    }
    pthread_mutex_unlock(&job->lock);
}

int ps_job_take_leaver(ps_job_t *job, uint64_t now, uint64_t grace_ns, uint32_t *worker,
                       int *goodbye, uint64_t *next)
{
    int found = 0;
    *next = UINT64_MAX;
    pthread_mutex_lock(&job->lock);
    for (uint32_t i = 0; i < job->presence_count && !found; i++) {
        ps_presence_t *presence = &job->presences[i];
        uint64_t due = presence->lost_at ? presence->lost_at + grace_ns : UINT64_MAX;
        if (!presence->goodbye && due > now) {
            *next = due < *next ? due : *next;
            continue;
        }
        found = 1;
        *worker = presence->worker;
        *goodbye = presence->goodbye;
        presence->goodbye = 0;
        presence->lost_at = 0;
        if (presence->open == 0)
            *presence = job->presences[--job->presence_count];
    }
    pthread_mutex_unlock(&job->lock);
    return found;
}
