/* Checkpoints on request, and what the shard tells about its jobs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"
#include "server/params/ps_ckpt.h"
#include "server/params/ps_server.h"
#include "server/params/ps_view.h"

static gb_status_t need_job(ps_params_t *ps, const char *name, ps_job_t **out)
{
    *out = ps_params_find_job(ps, name);
    return *out ? GB_OK : gb_fail(GB_ERR_NOT_FOUND, "this shard knows no job %s", name);
}

/* ---- checkpoints ---- */

static void enter_ckpt(ps_owner_t *owner, void *arg)
{
    ps_ckpt_t *ckpt = arg;
    ps_view_t *view = ps_view_get(owner, ckpt->job);
    if (view)
        ps_view_ckpt(view, ckpt);
    else
        gb_log(GB_LOG_ERROR, "job %s: no checkpoint: %s", ckpt->job->name, gb_why());
}

gb_status_t ps_params_checkpoint_at(ps_params_t *ps, const char *name, uint64_t clock,
                                    uint32_t epoch)
{
    ps_job_t *job;
    ps_ckpt_t *ckpt;
    gb_status_t st = need_job(ps, name, &job);
    if (st != GB_OK)
        return st;
    if (!ps->config.checkpoint_dir)
        st = gb_fail(GB_ERR_UNSUPPORTED, "no folder for checkpoints is configured");
    if (st == GB_OK)
        st = ps_ckpt_new(ps, job, clock, epoch, &ckpt);
    ps_job_unref(job);
    if (st != GB_OK)
        return st;
    ps_owners_call(ps, enter_ckpt, ckpt);
    if (atomic_load(&ckpt->late))
        st = gb_fail(GB_ERR_INVALID, "job %s is past clock %llu", name, (unsigned long long)clock);
    ps_ckpt_unref(ckpt);
    return st;
}

typedef struct {
    ps_job_t *job;
    pthread_mutex_t lock;
    uint64_t newest, oldest;
    uint32_t chunks, unready, members, connections;
} look_t;

static void look(ps_owner_t *owner, void *arg)
{
    look_t *l = arg;
    const ps_view_t *view = ps_view_find(owner, l->job);
    if (!view)
        return;
    pthread_mutex_lock(&l->lock);
    for (uint32_t c = 0; c < view->chunk_count; c++) {
        uint64_t version = view->chunks[c].version;
        l->newest = version > l->newest ? version : l->newest;
        l->oldest = version < l->oldest ? version : l->oldest;
        l->unready += !view->chunks[c].ready;
    }
    l->chunks += view->chunk_count;
    const ps_segment_t *segment = ps_members_at(&view->members, UINT64_MAX);
    if (segment && segment->count > l->members)
        l->members = segment->count;
    for (const ps_conn_t *conn = owner->conns; conn; conn = conn->next)
        l->connections += conn->job == l->job && !conn->dead;
    pthread_mutex_unlock(&l->lock);
}

static look_t look_at(ps_params_t *ps, ps_job_t *job)
{
    look_t l = {.job = job, .oldest = UINT64_MAX};
    pthread_mutex_init(&l.lock, NULL);
    ps_owners_call(ps, look, &l);
    pthread_mutex_destroy(&l.lock);
    if (l.chunks == 0)
        l.oldest = l.newest = job->restore_clock;
    return l;
}

gb_status_t ps_params_checkpoint_now(ps_params_t *ps, const char *name, uint32_t epoch,
                                     uint32_t timeout_ms, char *path, uint32_t path_size)
{
    ps_job_t *job;
    gb_status_t st = need_job(ps, name, &job);
    if (st != GB_OK)
        return st;
    uint64_t end = gb_now_ns() + (uint64_t)timeout_ms * 1000000u;
    do {
        /* The job runs on: with several owner threads the newest clock may have passed before all of
         * them know of the checkpoint; then the next one is tried. */
        ps_ckpt_t *ckpt;
        look_t l = look_at(ps, job);
        st = l.chunks == 0 || l.unready > 0
                 ? gb_fail(GB_ERR_BUSY, "job %s has no weights yet", name)
                 : ps_ckpt_new(ps, job, l.newest, epoch, &ckpt);
        if (st != GB_OK)
            break;
        ps_owners_call(ps, enter_ckpt, ckpt);
        uint64_t now = gb_now_ns();
        st = ps_ckpt_wait(ckpt, now < end ? (uint32_t)((end - now) / 1000000u) : 0);
        if (st == GB_OK && path)
            snprintf(path, path_size, "%s", ckpt->path);
        ps_ckpt_unref(ckpt);
    } while (st == GB_ERR_AGAIN && gb_now_ns() < end);
    ps_job_unref(job);
    return st == GB_ERR_AGAIN ? gb_fail(GB_ERR_TIMEOUT, "job %s runs ahead of its checkpoint", name)
                              : st;
}

/* ---- reports ---- */

static void fill_info(ps_params_t *ps, ps_job_t *job, ps_params_info_t *out)
{
    look_t l = look_at(ps, job);
    memset(out, 0, sizeof(*out));
    memcpy(out->name, job->name, sizeof(out->name));
    out->generation = atomic_load(&job->generation);
    out->clock = l.oldest;
    out->chunks = l.chunks;
    out->members = l.members;
    out->connections = l.connections;
    pthread_mutex_lock(&job->lock);
    out->epoch = job->epoch;
    out->checkpoint_clock = job->checkpoint_clock;
    out->tensors = job->plan.tensor_count;
    for (uint32_t p = 0, c = 0; c < job->plan.chunk_count; c++) {
        for (uint32_t i = 0; i < job->plan.chunks[c].pieces; i++, p++) {
            if (job->plan.chunks[c].shard == job->shard)
                out->parameters += job->plan.pieces[p].values;
        }
    }
    pthread_mutex_unlock(&job->lock);
    out->bytes_pushed = atomic_load(&job->bytes_pushed);
    out->bytes_pulled = atomic_load(&job->bytes_pulled);
    out->pushes = atomic_load(&job->pushes);
    out->repeats = atomic_load(&job->repeats);
    out->dropped_halves = atomic_load(&job->dropped_halves);
}

gb_status_t ps_params_info(ps_params_t *ps, const char *name, ps_params_info_t *out)
{
    ps_job_t *job;
    gb_status_t st = need_job(ps, name, &job);
    if (st != GB_OK)
        return st;
    fill_info(ps, job, out);
    ps_job_unref(job);
    return GB_OK;
}

gb_status_t ps_params_each_job(ps_params_t *ps,
                               void (*each)(void *arg, const ps_params_info_t *info), void *arg)
{
    uint32_t count = 0, n = 0;
    pthread_mutex_lock(&ps->lock);
    for (ps_job_t *job = ps->jobs; job; job = job->next)
        count++;
    ps_job_t **jobs = calloc(count + 1, sizeof(*jobs));
    for (ps_job_t *job = ps->jobs; job && jobs; job = job->next)
        jobs[n++] = ps_job_ref(job);
    pthread_mutex_unlock(&ps->lock);
    if (!jobs)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    for (uint32_t i = 0; i < n; i++) {
        ps_params_info_t info;
        fill_info(ps, jobs[i], &info);
        each(arg, &info);
        ps_job_unref(jobs[i]);
    }
    free(jobs);
    return GB_OK;
}

typedef struct {
    ps_job_t *job;
    ps_buf_t **weights; /* by chunk id */
    uint64_t *versions;
} grab_t;

static void grab(ps_owner_t *owner, void *arg)
{
    grab_t *g = arg;
    const ps_view_t *view = ps_view_find(owner, g->job);
    for (uint32_t c = 0; view && c < view->chunk_count; c++) {
        const ps_chunk_t *chunk = &view->chunks[c];
        g->weights[chunk->id] = ps_buf_ref(chunk->weights);
        g->versions[chunk->id] = chunk->version;
    }
}

static void report_tensor(const grab_t *g, uint32_t index, ps_params_tensor_t *out)
{
    const gbx_plan_t *plan = &g->job->plan;
    const gbx_plan_tensor_t *tensor = &plan->tensors[index];
    double sum = 0;
    memset(out, 0, sizeof(*out));
    snprintf(out->name, sizeof(out->name), "%s", tensor->name);
    out->dims = tensor->dims;
    memcpy(out->shape, tensor->shape, sizeof(out->shape));
    out->version = UINT64_MAX;
    for (uint32_t c = tensor->first_chunk; c <= tensor->last_chunk; c++) {
        if (!g->weights[c])
            continue;
        out->version = g->versions[c] < out->version ? g->versions[c] : out->version;
        for (uint32_t i = 0; i < plan->chunks[c].pieces; i++) {
            const gbx_piece_t *piece = &plan->pieces[plan->chunks[c].first_piece + i];
            const float *w = g->weights[c]->data + piece->chunk_at;
            for (uint32_t k = 0; k < piece->values && piece->tensor == index; k++)
                sum += (double)w[k] * w[k];
        }
    }
    out->norm = sqrt(sum);
}

gb_status_t ps_params_each_tensor(ps_params_t *ps, const char *name,
                                  void (*each)(void *arg, const ps_params_tensor_t *tensor),
                                  void *arg)
{
    ps_job_t *job;
    gb_status_t st = need_job(ps, name, &job);
    if (st != GB_OK)
        return st;
    pthread_mutex_lock(&job->lock);
    uint32_t chunks = job->plan.chunk_count;
    pthread_mutex_unlock(&job->lock);
    grab_t g = {.job = job,
                .weights = calloc(chunks + 1, sizeof(ps_buf_t *)),
                .versions = calloc(chunks + 1, sizeof(uint64_t))};
    if (!g.weights || !g.versions)
        st = gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    if (st == GB_OK && chunks > 0) {
        ps_owners_call(ps, grab, &g);
        for (uint32_t i = 0; i < job->plan.tensor_count; i++) {
            ps_params_tensor_t tensor;
            report_tensor(&g, i, &tensor);
            if (tensor.version != UINT64_MAX)
                each(arg, &tensor);
        }
    }
    for (uint32_t c = 0; c < chunks && g.weights; c++)
        ps_buf_unref(g.weights[c]);
    free(g.weights);
    free(g.versions);
    ps_job_unref(job);
    return st;
}
