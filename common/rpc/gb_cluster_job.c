/* gb_cluster_job.c - a worker's membership in a job. */
#include "common/rpc/gb_cluster_internal.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/gb_clock.h"

enum { POLL_MS = 2000, RETRY_MS = 500 };

struct gb_job {
    gb_cluster_t *cluster;
    uint64_t lease;
    uint64_t id;
    uint32_t worker;
    uint32_t generation;
    char exchange[GB_CLUSTER_NAME_SIZE];
};

static gb_status_t ask(gb_cluster_t *cluster, const char *method, const void *in, int timeout_ms,
                       void *out)
{
    return gb_cluster_call(cluster, &gable__v1__jobs__descriptor, method, in, timeout_ms, out);
}

gb_status_t gb_job_join(gb_cluster_t *cluster, gb_cluster_lease_t *lease, const gb_job_spec_t *spec,
                        gb_job_t **out)
{
    Gable__V1__JoinRequest request = GABLE__V1__JOIN_REQUEST__INIT;
    request.name = (char *)spec->name;
    request.model = (char *)(spec->model ? spec->model : "");
    request.optimizer = (char *)(spec->optimizer ? spec->optimizer : "");
    request.mode = (char *)(spec->mode ? spec->mode : "bsp");
    request.samples = spec->samples;
    request.batch = spec->batch;
    request.iterations = spec->iterations;
    request.epochs = spec->epochs;
    request.workers = spec->workers;
    request.lease = gb_cluster_lease_id(lease);
    request.client = cluster->name;
    gb_job_t *job = calloc(1, sizeof *job);
    if (!job)
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for a job");
    Gable__V1__JoinReply *reply;
    gb_status_t status = ask(cluster, "Join", &request, cluster->timeout_ms, &reply);
    if (status != GB_OK) {
        free(job);
        return status;
    }
    job->cluster = cluster;
    job->lease = request.lease;
    job->id = reply->job;
    job->worker = reply->worker;
    job->generation = reply->generation;
    gb_cluster_copy(job->exchange, sizeof job->exchange, reply->exchange);
    gb_rpc_message_free(&reply->base);
    *out = job;
    return GB_OK;
}

uint64_t gb_job_id(const gb_job_t *job)
{
    return job->id;
}

uint32_t gb_job_worker(const gb_job_t *job)
{
    return job->worker;
}

const char *gb_job_exchange(const gb_job_t *job)
{
    return job->exchange;
}

uint32_t gb_job_generation(const gb_job_t *job)
{
    return job->generation;
}

static void take_plan(gb_job_t *job, const Gable__V1__BeginEpochReply *reply, gb_epoch_t *out)
{
    memset(out, 0, sizeof *out);
    out->complete = (uint32_t)reply->complete;
    out->epoch = reply->epoch;
    out->generation = reply->generation;
    out->rank = reply->rank;
    out->world = reply->world;
    out->clock_begin = reply->clock_begin;
    out->sample_first = reply->sample_first;
    out->sample_count = reply->sample_count;
    job->generation = reply->generation;
}

static int left_ms(uint64_t end)
{
    uint64_t now = gb_now_ns();
    return now >= end ? 0 : (int)((end - now) / 1000000u) + 1;
}

gb_status_t gb_job_begin_epoch(gb_job_t *job, uint32_t done, int wait_ms, gb_epoch_t *out)
{
    uint64_t end = gb_now_ns() + (uint64_t)(wait_ms > 0 ? wait_ms : 0) * 1000000u;
    for (;;) {
        Gable__V1__BeginEpochRequest request = GABLE__V1__BEGIN_EPOCH_REQUEST__INIT;
        Gable__V1__BeginEpochReply *reply;
        int left = left_ms(end);
        request.job = job->id;
        request.worker = job->worker;
        request.lease = job->lease;
        request.generation = job->generation;
        request.done = done;
        request.wait_ms = (uint32_t)(left < POLL_MS ? left : POLL_MS);
        gb_status_t status = ask(job->cluster, "BeginEpoch", &request,
                                 (int)request.wait_ms + job->cluster->timeout_ms, &reply);
        if (status == GB_OK) {
            int ready = reply->ready;
            uint32_t arrived = reply->arrived, expected = reply->expected;
            if (ready)
                take_plan(job, reply, out);
            gb_rpc_message_free(&reply->base);
            if (ready)
                return GB_OK;
            if (!left_ms(end))
                return gb_fail(GB_ERR_TIMEOUT,
                               "%u of %u workers have arrived at the epoch: start the others",
                               arrived, expected);
            continue;
        }
        left = left_ms(end);
        if (status != GB_ERR_UNREACHABLE || !left)
            return status;
        gb_rpc_client_wait(job->cluster->client, left < RETRY_MS ? left : RETRY_MS);
    }
}

gb_status_t gb_job_report(gb_job_t *job, const gb_job_report_t *report)
{
    Gable__V1__ReportRequest request = GABLE__V1__REPORT_REQUEST__INIT;
    Gable__V1__Empty *reply;
    request.job = job->id;
    request.worker = job->worker;
    request.lease = job->lease;
    request.epoch = report->epoch;
    request.loss = report->loss;
    request.accuracy = report->accuracy;
    request.samples_per_second = report->samples_per_second;
    request.seconds = report->seconds;
    gb_status_t status = ask(job->cluster, "Report", &request, job->cluster->timeout_ms, &reply);
    if (status == GB_OK)
        gb_rpc_message_free(&reply->base);
    return status;
}

gb_status_t gb_job_finish(gb_job_t *job, int failed)
{
    Gable__V1__FinishRequest request = GABLE__V1__FINISH_REQUEST__INIT;
    Gable__V1__Empty *reply;
    request.job = job->id;
    request.worker = job->worker;
    request.lease = job->lease;
    request.failed = failed;
    gb_status_t status = ask(job->cluster, "Finish", &request, job->cluster->timeout_ms, &reply);
    if (status == GB_OK)
        gb_rpc_message_free(&reply->base);
    free(job);
    return status;
}

void gb_job_abandon(gb_job_t *job)
{
    free(job);
}
