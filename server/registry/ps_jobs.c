/* ps_jobs.c - the job table: joining, reporting, finishing, leaving, restart.
 *
 * A job's name stands for one run at a time. A run that is finished makes room for a new one of that
 * name; a run whose members all went (or that failed) is resumed by whoever joins it with the same
 * settings: from its newest checkpoint, under a new generation, because clocks never go back within
 * one. */
#include "server/registry/ps_state.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_log.h"

enum { MAX_NAME = 40 }; /* leaves room for a run's number in `exchange` */

const char *ps_job_state_name(ps_job_state_t state)
{
    static const char *const NAMES[] = {"waiting", "running", "finished", "failed"};
    return (unsigned)state < 4 ? NAMES[state] : "unknown";
}

ps_job_t *ps_job_find(ps_registry_t *registry, uint64_t id)
{
    for (ps_job_t *job = registry->jobs; job; job = job->next)
        if (job->id == id)
            return job;
    return NULL;
}

/* The newest run of that name. */
static ps_job_t *find_by_name(ps_registry_t *registry, const char *name)
{
    ps_job_t *found = NULL;
    for (ps_job_t *job = registry->jobs; job; job = job->next)
        if (!strcmp(job->name, name) && (!found || job->id > found->id))
            found = job;
    return found;
}

ps_member_t *ps_member_find(ps_job_t *job, uint32_t worker)
{
    for (ps_member_t *member = job->members; member; member = member->next)
        if (member->worker == worker)
            return member;
    return NULL;
}

uint32_t ps_job_live(const ps_job_t *job)
{
    uint32_t count = 0;
    for (ps_member_t *member = job->members; member; member = member->next)
        count++;
    return count;
}

void ps_job_save(ps_registry_t *registry, const ps_job_t *job)
{
    ps_store_job_put(registry->store, job);
}

static void add_job(ps_registry_t *registry, ps_job_t *job)
{
    ps_job_t **end = &registry->jobs;
    while (*end)
        end = &(*end)->next;
    *end = job;
    if (job->id >= registry->next_job)
        registry->next_job = job->id + 1;
}

/* ---- the shard's side of a job ---- */

/* (Re)makes the job on the shard; with `restore` its epoch comes from the newest checkpoint. */
static gb_status_t make_on_shard(ps_registry_t *registry, ps_job_t *job, int restore)
{
    ps_params_job_t description = {
        .name = job->exchange, .generation = job->generation, .restore = restore};
    uint64_t clock = 0;
    uint32_t epoch = 0;
    gb_status_t status = ps_optimizer_parse(job->optimizer, &description.optimizer);
    if (status != GB_OK)
        return status;
    ps_params_info_t info;
    if (ps_params_info(registry->params, job->exchange, &info) == GB_OK)
        ps_params_job_remove(registry->params, job->exchange);
    status = ps_params_job_create(registry->params, &description, &clock, &epoch);
    if (status != GB_OK)
        return status;
    job->epoch = (uint32_t)(clock / job->iterations);
    job->planned = 0;
    job->dirty = 0;
    if (restore)
        gb_log(GB_LOG_INFO, "job %s goes on from clock %llu (epoch %u) as generation %u", job->name,
               (unsigned long long)clock, job->epoch, job->generation);
    return GB_OK;
}

/* Back to the newest checkpoint; nobody must be in the job. */
static gb_status_t rewind_job(ps_registry_t *registry, ps_job_t *job)
{
    job->generation++;
    gb_status_t status = make_on_shard(registry, job, 1);
    if (status == GB_OK)
        ps_job_save(registry, job);
    return status;
}

/* ---- members ---- */

static void member_free(ps_member_t *member)
{
    if (member->waiting)
        gb_rpc_call_release(member->waiting);
    free(member);
}

void ps_member_drop(ps_registry_t *registry, ps_job_t *job, ps_member_t *member, const char *why)
{
    gb_log(GB_LOG_INFO, "job %s: worker %u (%s) leaves: %s", job->name, member->worker,
           member->client, why);
    ps_member_t **link = &job->members;
    while (*link != member)
        link = &(*link)->next;
    *link = member->next;
    ps_barrier_answer_waiting(member, GB_ERR_NOT_FOUND, why);
    ps_params_leave(registry->params, job->exchange, member->worker);
    ps_store_member_delete(registry->store, job->id, member->worker);
    member_free(member);
}

void ps_job_after_change(ps_registry_t *registry, ps_job_t *job)
{
    if (job->members) {
        ps_barrier_try(registry, job);
        return;
    }
    if (job->state == PS_JOB_RUNNING || job->state == PS_JOB_WAITING) {
        job->state = job->finished ? PS_JOB_FINISHED : PS_JOB_FAILED;
        gb_log(GB_LOG_INFO, "job %s: %s", job->name, ps_job_state_name(job->state));
    }
    ps_job_save(registry, job);
}

void ps_job_lease_ended(ps_registry_t *registry, uint64_t lease, const char *why)
{
    char text[PS_WHY];
    snprintf(text, sizeof text, "its lease is over: %.100s", why);
    for (ps_job_t *job = registry->jobs; job; job = job->next) {
        int changed = 0;
        ps_member_t *next;
        for (ps_member_t *member = job->members; member; member = next) {
            next = member->next;
            if (member->lease != lease)
                continue;
            ps_member_drop(registry, job, member, text);
            changed = 1;
        }
        if (changed)
            ps_job_after_change(registry, job);
    }
}

void ps_job_worker_left(ps_registry_t *registry, const char *name, uint32_t worker, const char *why)
{
    ps_job_t *job = registry->jobs;
    while (job && strcmp(job->exchange, name))
        job = job->next;
    ps_member_t *member = job ? ps_member_find(job, worker) : NULL;
    if (!member)
        return;
    ps_member_drop(registry, job, member, why);
    ps_job_after_change(registry, job);
}

/* ---- joining ---- */

static gb_status_t check_join(ps_registry_t *registry, const gb_rpc_call_t *call,
                              const Gable__V1__JoinRequest *request)
{
    size_t size = strlen(request->name);
    for (size_t i = 0; i < size; i++)
        if (!isalnum((unsigned char)request->name[i]) && !strchr("._-", request->name[i]))
            size = 0;
    if (!size || size > MAX_NAME || request->name[0] == '.')
        return gb_fail(GB_ERR_INVALID,
                       "'%.80s' is no name for a job: use at most 40 letters, digits, . _ -",
                       request->name);
    if (!request->samples || !request->batch || !request->iterations || !request->epochs)
        return gb_fail(GB_ERR_INVALID,
                       "job %s: samples, batch, iterations and epochs must be "
                       "at least 1",
                       request->name);
    if (strcmp(request->mode, "bsp"))
        return gb_fail(GB_ERR_UNSUPPORTED, "mode '%.20s' is not served: use bsp", request->mode);
    if (strlen(request->model) >= PS_NAME || strlen(request->optimizer) >= 256)
        return gb_fail(GB_ERR_INVALID, "job %s: model or optimizer text too long", request->name);
    if (!ps_lease_find_own(registry, request->lease, call))
        return gb_fail(GB_ERR_NOT_FOUND, "the lease is over: acquire a new one");
    ps_optimizer_t optimizer;
    return ps_optimizer_parse(request->optimizer, &optimizer);
}

static gb_status_t same_settings(const ps_job_t *job, const Gable__V1__JoinRequest *request)
{
    if (strcmp(job->model, request->model))
        return gb_fail(GB_ERR_INVALID, "job %s trains model %s, not %s: choose another --job",
                       job->name, job->model, request->model);
    if (job->samples != request->samples)
        return gb_fail(GB_ERR_INVALID, "job %s has %llu samples, not %llu: same data everywhere",
                       job->name, (unsigned long long)job->samples,
                       (unsigned long long)request->samples);
    if (job->batch != request->batch || job->iterations != request->iterations)
        return gb_fail(
            GB_ERR_INVALID,
            "job %s has batch %u and %u iterations, not %u and %u: give the same --batch "
            "or choose another --job",
            job->name, job->batch, job->iterations, request->batch, request->iterations);
    if (strcmp(job->optimizer, request->optimizer))
        return gb_fail(GB_ERR_INVALID,
                       "job %s uses optimizer '%s', not '%s': give the same options or choose "
                       "another --job",
                       job->name, job->optimizer, request->optimizer);
    return GB_OK;
}

static gb_status_t new_job(ps_registry_t *registry, const Gable__V1__JoinRequest *request,
                           ps_job_t **out)
{
    ps_job_t *job = calloc(1, sizeof *job);
    if (!job)
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for a job");
    job->id = registry->next_job;
    snprintf(job->name, sizeof job->name, "%s", request->name);
    snprintf(job->model, sizeof job->model, "%s", request->model);
    snprintf(job->mode, sizeof job->mode, "%s", request->mode);
    snprintf(job->optimizer, sizeof job->optimizer, "%s", request->optimizer);
    job->samples = request->samples;
    job->batch = request->batch;
    job->iterations = request->iterations;
    job->epochs = request->epochs;
    job->workers = request->workers ? request->workers : 1;
    /* A further run of a name must not find the weights and checkpoints of the one before. */
    const ps_job_t *before = find_by_name(registry, request->name);
    if (before)
        snprintf(job->exchange, sizeof job->exchange, "%.40s.%llu", job->name,
                 (unsigned long long)job->id);
    else
        snprintf(job->exchange, sizeof job->exchange, "%s", job->name);
    job->generation = 1;
    job->next_worker = 1;
    job->loss = job->accuracy = NAN;
    job->begun_at = ps_now_ms();
    gb_status_t status = make_on_shard(registry, job, 0);
    if (status != GB_OK) {
        free(job);
        return status;
    }
    if (before)
        ps_params_job_remove(registry->params, before->exchange);
    add_job(registry, job);
    gb_log(GB_LOG_INFO, "job %s: new run %llu of %s", job->name, (unsigned long long)job->id,
           job->model);
    *out = job;
    return GB_OK;
}

/* The run that the request joins. */
static gb_status_t choose_job(ps_registry_t *registry, const Gable__V1__JoinRequest *request,
                              ps_job_t **out)
{
    ps_job_t *job = find_by_name(registry, request->name);
    if (!job || job->state == PS_JOB_FINISHED)
        return new_job(registry, request, out);
    gb_status_t status = same_settings(job, request);
    if (job->members) {
        if (status == GB_OK)
            *out = job;
        return status;
    }
    if (status != GB_OK) /* nobody is in it: the newcomer's settings count */
        return new_job(registry, request, out);
    job->epochs = request->epochs;
    job->workers = request->workers ? request->workers : 1;
    job->finished = 0;
    job->state = PS_JOB_WAITING;
    *out = job;
    return job->dirty || job->planned ? rewind_job(registry, job) : GB_OK;
}

static gb_status_t add_member(ps_registry_t *registry, ps_job_t *job,
                              const Gable__V1__JoinRequest *request, ps_member_t **out)
{
    ps_member_t *member = calloc(1, sizeof *member);
    if (!member)
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for a member");
    member->worker = job->next_worker++;
    member->lease = request->lease;
    member->loss = NAN;
    snprintf(member->client, sizeof member->client, "%s", request->client);
    ps_member_t **end = &job->members;
    while (*end)
        end = &(*end)->next;
    *end = member;
    ps_job_save(registry, job);
    ps_store_member_put(registry->store, job->id, member);
    gb_log(GB_LOG_INFO, "job %s: worker %u (%s) joins", job->name, member->worker, member->client);
    *out = member;
    return GB_OK;
}

static gb_status_t join(ps_registry_t *registry, const gb_rpc_call_t *call,
                        const Gable__V1__JoinRequest *request, Gable__V1__JoinReply *reply)
{
    ps_job_t *job = NULL;
    ps_member_t *member = NULL;
    gb_status_t status = check_join(registry, call, request);
    if (status == GB_OK)
        status = choose_job(registry, request, &job);
    if (status == GB_OK && ps_job_live(job) >= PS_MAX_WORKERS)
        status = gb_fail(GB_ERR_LIMIT, "job %s has %d workers already", job->name, PS_MAX_WORKERS);
    if (status == GB_OK)
        status = add_member(registry, job, request, &member);
    if (status != GB_OK)
        return status;
    reply->job = job->id;
    reply->worker = member->worker;
    reply->generation = job->generation;
    reply->exchange = job->exchange;
    return GB_OK;
}

/* ---- the service ---- */

static void handle_join(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in)
{
    ps_registry_t *registry = ctx;
    Gable__V1__JoinReply reply = GABLE__V1__JOIN_REPLY__INIT;
    pthread_mutex_lock(&registry->lock);
    gb_status_t status = join(registry, call, (const Gable__V1__JoinRequest *)in, &reply);
    pthread_mutex_unlock(&registry->lock);
    if (status == GB_OK)
        gb_rpc_call_reply(call, &reply.base);
    else
        gb_rpc_call_fail(call, status, "%s", gb_why());
}

static void handle_begin(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in)
{
    ps_registry_t *registry = ctx;
    pthread_mutex_lock(&registry->lock);
    ps_barrier_begin(registry, call, (const Gable__V1__BeginEpochRequest *)in);
    pthread_mutex_unlock(&registry->lock);
}

static ps_member_t *find_member(ps_registry_t *registry, const gb_rpc_call_t *call, uint64_t id,
                                uint32_t worker, uint64_t lease, ps_job_t **job)
{
    *job = ps_job_find(registry, id);
    ps_member_t *member = *job ? ps_member_find(*job, worker) : NULL;
    if (!member || member->lease != lease || !ps_lease_find_own(registry, lease, call))
        return NULL;
    return member;
}

static void mean_loss(ps_job_t *job)
{
    double sum = 0;
    uint32_t count = 0;
    for (ps_member_t *member = job->members; member; member = member->next)
        if (!isnan(member->loss)) {
            sum += member->loss;
            count++;
        }
    if (count)
        job->loss = sum / count;
}

static void handle_report(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in)
{
    ps_registry_t *registry = ctx;
    const Gable__V1__ReportRequest *request = (const void *)in;
    Gable__V1__Empty reply = GABLE__V1__EMPTY__INIT;
    ps_job_t *job;
    pthread_mutex_lock(&registry->lock);
    ps_member_t *member =
        find_member(registry, call, request->job, request->worker, request->lease, &job);
    if (member) {
        member->loss = request->loss;
        member->samples_per_second = request->samples_per_second;
        mean_loss(job);
        if (!isnan(request->accuracy))
            job->accuracy = request->accuracy;
        gb_log(GB_LOG_INFO, "job %s: worker %u epoch %u loss %.4f accuracy %.4f %.0f samples/s",
               job->name, member->worker, request->epoch, request->loss, request->accuracy,
               request->samples_per_second);
        gb_rpc_call_reply(call, &reply.base);
    } else {
        gb_rpc_call_fail(call, GB_ERR_NOT_FOUND, "not a member of that job: join again");
    }
    pthread_mutex_unlock(&registry->lock);
}

/* A member that has trained its last epoch also ends that epoch for the job. */
static void count_finished(ps_job_t *job)
{
    job->finished++;
    if (job->planned && job->epoch + 1 >= job->epochs)
        job->epoch = job->epochs;
}

static void handle_finish(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in)
{
    ps_registry_t *registry = ctx;
    const Gable__V1__FinishRequest *request = (const void *)in;
    Gable__V1__Empty reply = GABLE__V1__EMPTY__INIT;
    ps_job_t *job;
    pthread_mutex_lock(&registry->lock);
    ps_member_t *member =
        find_member(registry, call, request->job, request->worker, request->lease, &job);
    if (member) {
        if (!request->failed)
            count_finished(job);
        ps_member_drop(registry, job, member, request->failed ? "gave up" : "finished");
        ps_job_after_change(registry, job);
    }
    pthread_mutex_unlock(&registry->lock);
    gb_rpc_call_reply(call, &reply.base);
}

static void fill_info(const ps_job_t *job, Gable__V1__JobInfo *out)
{
    gable__v1__job_info__init(out);
    out->id = job->id;
    out->name = (char *)job->name;
    out->model = (char *)job->model;
    out->mode = (char *)job->mode;
    out->state = (char *)ps_job_state_name(job->state);
    out->epoch = job->epoch;
    out->epochs = job->epochs;
    out->generation = job->generation;
    out->clock = (uint64_t)job->epoch * job->iterations;
    out->loss = job->loss;
    out->accuracy = job->accuracy;
    out->age_ms = ps_now_ms() - job->begun_at;
    for (ps_member_t *member = job->members; member; member = member->next) {
        out->members++;
        out->samples_per_second += member->samples_per_second;
    }
}

static void handle_list(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in)
{
    ps_registry_t *registry = ctx;
    (void)in;
    pthread_mutex_lock(&registry->lock);
    size_t count = 0, n = 0;
    for (ps_job_t *job = registry->jobs; job; job = job->next)
        count++;
    Gable__V1__JobInfo *infos = calloc(count + 1, sizeof *infos);
    Gable__V1__JobInfo **list = calloc(count + 1, sizeof *list);
    for (ps_job_t *job = registry->jobs; infos && list && job; job = job->next) {
        fill_info(job, &infos[n]);
        list[n] = &infos[n];
        n++;
    }
    Gable__V1__ListJobsReply reply = GABLE__V1__LIST_JOBS_REPLY__INIT;
    reply.n_jobs = n;
    reply.jobs = list;
    if (infos && list)
        gb_rpc_call_reply(call, &reply.base);
    else
        gb_rpc_call_fail(call, GB_ERR_NO_MEMORY, "no memory for the list");
    pthread_mutex_unlock(&registry->lock);
    free(list);
    free(infos);
}

enum { MEMBERS = GB_ROLE_WORKER | GB_ROLE_ADMIN };

const gb_rpc_method_t PS_JOBS_METHODS[] = {
    {"Join", MEMBERS, 0, handle_join, NULL},     {"BeginEpoch", MEMBERS, 0, handle_begin, NULL},
    {"Report", MEMBERS, 0, handle_report, NULL}, {"Finish", MEMBERS, 0, handle_finish, NULL},
    {"List", MEMBERS, 0, handle_list, NULL},     {NULL},
};

/* ---- restart ---- */

static void take_member(void *arg, ps_member_t *member)
{
    ps_job_t *job = arg;
    member->active = 1;
    member->missing_since = ps_now_ms();
    member->loss = NAN;
    ps_member_t **end = &job->members;
    while (*end)
        end = &(*end)->next;
    *end = member;
}

static void take_job(void *arg, ps_job_t *job)
{
    ps_registry_t *registry = arg;
    job->begun_at = ps_now_ms();
    add_job(registry, job);
}

/* Members whose lease did not survive are gone. */
static void forget_strays(ps_registry_t *registry, ps_job_t *job)
{
    ps_member_t **link = &job->members;
    while (*link) {
        ps_member_t *member = *link;
        if (ps_lease_find(registry, member->lease)) {
            link = &member->next;
            continue;
        }
        ps_store_member_delete(registry->store, job->id, member->worker);
        *link = member->next;
        member_free(member);
    }
}

gb_status_t ps_job_load(ps_registry_t *registry)
{
    gb_status_t status = ps_store_jobs(registry->store, take_job, registry);
    for (ps_job_t *job = registry->jobs; status == GB_OK && job; job = job->next) {
        if (job->state == PS_JOB_FINISHED || job != find_by_name(registry, job->name))
            continue;
        status = ps_store_members(registry->store, job->id, take_member, job);
        forget_strays(registry, job);
        job->state = job->members ? PS_JOB_WAITING : PS_JOB_FAILED;
        if (status == GB_OK && rewind_job(registry, job) != GB_OK) {
            /* One job that cannot go on must not keep the cluster down. */
            gb_log(GB_LOG_ERROR, "job %s cannot be resumed: %s", job->name, gb_why());
            while (job->members)
                ps_member_drop(registry, job, job->members, "the job cannot be resumed");
            job->state = PS_JOB_FAILED;
        }
    }
    return status;
}

void ps_job_free_all(ps_registry_t *registry)
{
    while (registry->jobs) {
        ps_job_t *job = registry->jobs;
        registry->jobs = job->next;
        while (job->members) {
            ps_member_t *member = job->members;
            job->members = member->next;
            member_free(member);
        }
        free(job);
    }
}
