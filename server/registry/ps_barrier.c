/* ps_barrier.c - the barrier before each epoch.
 *
 * A member arrives with BeginEpoch and stays arrived although its call may end and be repeated. When
 * every active member has arrived (and, before the first epoch, as many as the job wants) the epoch
 * gets its plan: members by worker number, ranks 0.., the shard is told who makes up the sums from
 * that clock on. A plan stands until the next barrier, so that a lost answer can be asked for again. */
#include "server/registry/ps_state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_log.h"

enum { MAX_WAIT_MS = 10000, RETURN_MS = 30000 };

void ps_barrier_answer_waiting(ps_member_t *member, gb_status_t status, const char *why)
{
    if (!member->waiting)
        return;
    gb_rpc_call_fail(member->waiting, status, "%s", why);
    gb_rpc_call_release(member->waiting);
    member->waiting = NULL;
}

static int is_complete(const ps_job_t *job)
{
    return job->epoch >= job->epochs;
}

static void reply_plan(const ps_job_t *job, const ps_member_t *member, gb_rpc_call_t *call)
{
    Gable__V1__BeginEpochReply reply = GABLE__V1__BEGIN_EPOCH_REPLY__INIT;
    reply.ready = 1;
    reply.complete = is_complete(job);
    reply.epoch = job->epoch;
    reply.generation = job->generation;
    reply.rank = member->rank;
    reply.world = job->world;
    reply.clock_begin = (uint64_t)job->epoch * job->iterations;
    reply.sample_first = job->samples * member->rank / job->world;
    reply.sample_count = job->samples * (member->rank + 1) / job->world - reply.sample_first;
    reply.arrived = reply.expected = job->world;
    gb_rpc_call_reply(call, &reply.base);
}

/* Members that must be there, and are. */
static uint32_t count_arrived(const ps_job_t *job, uint32_t *expected)
{
    uint32_t arrived = 0, active = 0, missing = 0;
    for (ps_member_t *member = job->members; member; member = member->next) {
        arrived += (uint32_t)member->arrived;
        active += (uint32_t)member->active;
        missing += (uint32_t)(member->active && !member->arrived);
    }
    *expected = arrived + missing;
    if (!job->begun && *expected < job->workers)
        *expected = job->workers;
    return arrived;
}

static void reply_not_yet(const ps_job_t *job, gb_rpc_call_t *call)
{
    Gable__V1__BeginEpochReply reply = GABLE__V1__BEGIN_EPOCH_REPLY__INIT;
    reply.arrived = count_arrived(job, &reply.expected);
    gb_rpc_call_reply(call, &reply.base);
}

/* ---- passing ---- */

static gb_status_t tell_shard(ps_registry_t *registry, ps_job_t *job)
{
    uint32_t workers[PS_MAX_WORKERS], count = 0;
    uint64_t clock = (uint64_t)job->epoch * job->iterations;
    for (ps_member_t *member = job->members; member && count < PS_MAX_WORKERS;
         member = member->next)
        if (member->in_plan)
            workers[count++] = member->worker;
    gb_status_t status = ps_params_set_members(registry->params, job->exchange, job->generation,
                                               clock, workers, count);
    if (status == GB_OK)
        status = ps_params_checkpoint_at(registry->params, job->exchange, clock + job->iterations,
                                         job->epoch + 1);
    return status;
}

static void make_plan(ps_job_t *job)
{
    uint32_t rank = 0;
    for (ps_member_t *member = job->members; member; member = member->next) {
        member->in_plan = member->arrived;
        member->rank = member->arrived ? rank++ : 0;
        member->active = member->active || member->arrived;
        member->arrived = 0;
    }
    job->world = rank;
    job->planned = 1;
}

static void pass(ps_registry_t *registry, ps_job_t *job)
{
    if (job->planned)
        job->epoch++; /* everybody has trained the planned one to its end */
    make_plan(job);
    gb_status_t status = is_complete(job) ? GB_OK : tell_shard(registry, job);
    if (status != GB_OK) {
        char why[PS_WHY];
        snprintf(why, sizeof why, "the shard refuses the epoch: %.100s", gb_why());
        gb_log(GB_LOG_ERROR, "job %s: %s", job->name, why);
        job->planned = 0;
        for (ps_member_t *member = job->members; member; member = member->next) {
            member->in_plan = 0;
            ps_barrier_answer_waiting(member, GB_ERR_INTERNAL, why);
        }
        return;
    }
    job->state = PS_JOB_RUNNING;
    job->begun = 1;
    job->dirty = !is_complete(job);
    gb_log(GB_LOG_INFO, "job %s: %s %u of %u with %u workers", job->name,
           is_complete(job) ? "done, epoch" : "epoch", job->epoch, job->epochs, job->world);
    ps_job_save(registry, job);
    for (ps_member_t *member = job->members; member; member = member->next)
        if (member->in_plan && member->waiting) {
            reply_plan(job, member, member->waiting);
            gb_rpc_call_release(member->waiting);
            member->waiting = NULL;
        }
}

void ps_barrier_try(ps_registry_t *registry, ps_job_t *job)
{
    uint32_t expected;
    uint32_t arrived = count_arrived(job, &expected);
    if (arrived && arrived >= expected)
        pass(registry, job);
}

/* ---- arriving ---- */

/* Does the member ask again for the plan that is out? Either it knows the plan's epoch, or it repeats
 * the words it arrived with: a newcomer does, when the barrier passed between two of its calls. */
static int asks_again(const ps_job_t *job, const ps_member_t *member,
                      const Gable__V1__BeginEpochRequest *request)
{
    if (!job->planned || !member->in_plan || member->arrived)
        return 0;
    if (request->done == member->asked_done && request->generation == member->asked_generation)
        return 1;
    return request->generation == job->generation &&
           (request->done == job->epoch || is_complete(job));
}

/* In bsp the clock moves only with a member's own gradients: one that asks for the plan after that has
 * lost its way in the epoch, and clocks do not go back within a generation. */
static int has_moved_on(ps_registry_t *registry, const ps_job_t *job)
{
    ps_params_info_t info;
    if (is_complete(job) || ps_params_info(registry->params, job->exchange, &info) != GB_OK)
        return 0;
    return info.clock > (uint64_t)job->epoch * job->iterations;
}

/* In this generation, can the member have trained what it says? Newcomers and those who come from
 * before a restart take any place. */
static int fits(const ps_job_t *job, const ps_member_t *member,
                const Gable__V1__BeginEpochRequest *request)
{
    if (!job->planned || !member->in_plan || request->generation != job->generation)
        return 1;
    return request->done == job->epoch + 1;
}

void ps_barrier_begin(ps_registry_t *registry, gb_rpc_call_t *call,
                      const Gable__V1__BeginEpochRequest *request)
{
    ps_job_t *job = ps_job_find(registry, request->job);
    ps_member_t *member = job ? ps_member_find(job, request->worker) : NULL;
    if (!member || member->lease != request->lease ||
        !ps_lease_find_own(registry, request->lease, call)) {
        gb_rpc_call_fail(call, GB_ERR_NOT_FOUND,
                         "this worker is no member of the job any more: join again");
        return;
    }
    member->missing_since = 0;
    if (asks_again(job, member, request)) {
        if (!has_moved_on(registry, job)) {
            reply_plan(job, member, call);
            return;
        }
        gb_rpc_call_fail(call, GB_ERR_NOT_FOUND,
                         "the epoch went on without this worker: join again");
        ps_member_drop(registry, job, member, "wants to repeat an epoch that has moved on");
        ps_job_after_change(registry, job);
        return;
    }
    if (!fits(job, member, request)) {
        gb_rpc_call_fail(call, GB_ERR_INVALID, "epoch %u cannot be done: the job is in epoch %u",
                         request->done, job->epoch);
        return;
    }
    ps_barrier_answer_waiting(member, GB_ERR_CANCELLED, "asked again on another connection");
    member->arrived = 1;
    member->asked_done = request->done;
    member->asked_generation = request->generation;
    member->waiting = call;
    gb_rpc_call_hold(call);
    uint32_t wait = request->wait_ms < MAX_WAIT_MS ? request->wait_ms : MAX_WAIT_MS;
    member->waiting_until = ps_now_ms() + wait;
    ps_barrier_try(registry, job);
}

/* Members of before a restart that have not come back. One may be a worker that joined twice, because
 * the first answer was lost with the server: its lease lives, and nobody will ever come. A worker that
 * is only late is told so and joins again. */
static void drop_missing(ps_registry_t *registry, ps_job_t *job, uint64_t now)
{
    uint32_t patience = registry->config.return_ms ? registry->config.return_ms : RETURN_MS;
    int changed = 0;
    ps_member_t *next;
    for (ps_member_t *member = job->members; member; member = next) {
        next = member->next;
        if (!member->missing_since || now - member->missing_since < patience)
            continue;
        ps_member_drop(registry, job, member, "has not come back since the server's restart");
        changed = 1;
    }
    if (changed)
        ps_job_after_change(registry, job);
}

void ps_barrier_tick(ps_registry_t *registry, uint64_t now)
{
    for (ps_job_t *job = registry->jobs; job; job = job->next)
        drop_missing(registry, job, now);
    for (ps_job_t *job = registry->jobs; job; job = job->next)
        for (ps_member_t *member = job->members; member; member = member->next) {
            if (!member->waiting || member->waiting_until > now)
                continue;
            reply_not_yet(job, member->waiting);
            gb_rpc_call_release(member->waiting);
            member->waiting = NULL;
        }
}
