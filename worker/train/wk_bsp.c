#include "worker/train/wk_bsp.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/core/gb_clock.h"
#include "server/client/gbx.h"
#include "worker/train/wk_order.h"

/* How long one call waits before the member looks after its GPU again. */
#define LOOK_MS 1000
#define RETRY_MS 200
#define DRAIN_MS 20000
#define MAX_RESTARTS_WITHOUT_PROGRESS 8

typedef struct {
    wk_trainer_t *trainer;
    const wk_cluster_t *cluster;
    const wk_config_t *config;
    wk_progress_t *progress;
    gb_job_t *job;
    gbx_t *gbx;
    int broken;          /* the exchange must be opened anew */
    uint32_t generation; /* that the exchange was opened with */
    gb_epoch_t plan;
    uint64_t clock; /* of the weights at the running iteration */
    uint32_t valid; /* samples of the running iteration */
    uint64_t start_ns;
    wk_result_t last;
} member_t;

static void note(member_t *m, const char *text)
{
    if (m->progress)
        wk_progress_note(m->progress, "%s", text);
}

/* ---- the device and the lease must be there, whatever else is tried ---- */

static gb_status_t look_after(member_t *m)
{
    if (m->trainer->stop && *m->trainer->stop)
        return gb_fail(GB_ERR_CANCELLED, "interrupted");
    gb_status_t status = wk_device_wait(&m->trainer->device);
    if (status != GB_OK)
        return status;
    status = gb_cluster_lease_state(m->cluster->lease);
    return status == GB_ERR_LOST ? status : GB_OK;
}

/* ---- exchange ---- */

static gb_status_t fill_config(member_t *m, gbx_shard_t *shards, gbx_config_t *out)
{
    uint32_t count;
    const gb_cluster_shard_t *from = gb_cluster_lease_shards(m->cluster->lease, &count);
    if (count == 0 || count > GBX_MAX_SHARDS)
        return gb_fail(GB_ERR_INVALID,
                       "the lease names %u parameter shards: start a ps-server with "
                       "--role=all",
                       count);
    for (uint32_t i = 0; i < count; i++) {
        shards[i].endpoint = from[i].endpoint;
        memcpy(shards[i].key, from[i].key, sizeof(shards[i].key));
    }
    *out = (gbx_config_t){.shards = shards,
                          .shard_count = count,
                          .lease = gb_cluster_lease_id(m->cluster->lease),
                          .insecure = m->config->insecure,
                          .job = gb_job_exchange(m->job),
                          .worker = gb_job_worker(m->job),
                          .generation = m->plan.generation};
    return GB_OK;
}

static gb_status_t declare(member_t *m)
{
    const wk_model_t *model = m->trainer->model;
    gbx_tensor_t tensors[WK_MAX_TENSORS] = {{0}};
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        const wk_tensor_t *from = &model->tensors[t];
        tensors[t].name = from->name;
        tensors[t].dims = from->rank;
        for (uint32_t i = 0; i < from->rank; i++)
            tensors[t].shape[i] = from->shape[i];
        tensors[t].weights = wk_net_params(m->trainer->net) + from->offset * sizeof(float);
        tensors[t].gradients = wk_net_grads(m->trainer->net) + from->offset * sizeof(float);
    }
    return gbx_declare(m->gbx, tensors, model->tensor_count, GBX_SLAB);
}

/* Opens the exchange for the plan's generation and brings the job's weights to the device. */
static gb_status_t connect_exchange(member_t *m)
{
    gbx_shard_t shards[GBX_MAX_SHARDS];
    gbx_config_t config;
    gb_status_t status = fill_config(m, shards, &config);
    if (status != GB_OK)
        return status;
    if (m->gbx) {
        status = gbx_reopen(m->gbx, &config);
    } else {
        status = gbx_open(&m->trainer->device.driver->table, &config, &m->gbx);
        if (status == GB_OK)
            status = declare(m);
        if (status != GB_OK && m->gbx) {
            gbx_close(m->gbx);
            m->gbx = NULL;
        }
    }
    /* The job may still have no weights: then it takes those of its first worker. */
    if (status == GB_OK && m->plan.clock_begin == 0)
        status = wk_trainer_reset(m->trainer);
    uint64_t clock = 0;
    if (status == GB_OK)
        status = gbx_init(m->gbx, m->trainer->device.stream, &clock);
    if (status == GB_OK && clock != m->plan.clock_begin)
        status = gb_fail(GB_ERR_CANCELLED,
                         "the job has weights of clock %llu, the epoch begins at "
                         "%llu: retried",
                         (unsigned long long)clock, (unsigned long long)m->plan.clock_begin);
    if (status != GB_OK)
        return status;
    m->broken = 0;
    m->generation = m->plan.generation;
    return GB_OK;
}

static gb_status_t prepare(member_t *m, uint32_t iterations)
{
    if (m->plan.sample_count < iterations)
        return gb_fail(GB_ERR_INVALID,
                       "a batch of %lld is too small for %u workers: use a larger --batch",
                       (long long)m->config->batch, m->plan.world);
    gb_status_t status = GB_OK;
    if (!m->gbx || m->broken || m->generation != m->plan.generation)
        status = connect_exchange(m);
    if (status != GB_OK)
        return status;
    return wk_net_resize(m->trainer->net,
                         wk_order_widest((uint32_t)m->plan.sample_count, iterations));
}

/* ---- hooks of the trainer ---- */

static gb_status_t before_step(void *context, uint32_t t, uint32_t valid)
{
    member_t *m = context;
    m->clock = m->plan.clock_begin + t;
    m->valid = valid;
    return GB_OK;
}

/* Too much in flight: let it drain once, then try again. */
static gb_status_t drained(member_t *m, gb_status_t status)
{
    return status == GB_ERR_BUSY ? gbx_wait(m->gbx, DRAIN_MS) : status;
}

static gb_status_t push(void *context, uint32_t first, uint32_t count)
{
    member_t *m = context;
    CUstream stream = m->trainer->device.stream;
    gb_status_t status = gbx_push(m->gbx, stream, m->clock, m->valid, first, count);
    if (status != GB_ERR_BUSY)
        return status;
    status = drained(m, status);
    return status == GB_OK ? gbx_push(m->gbx, stream, m->clock, m->valid, first, count) : status;
}

static gb_status_t pull(void *context, uint32_t t, uint32_t valid)
{
    member_t *m = context;
    CUstream stream = m->trainer->device.stream;
    uint32_t count = m->trainer->model->tensor_count;
    (void)t;
    (void)valid;
    gb_status_t status = gbx_pull(m->gbx, stream, m->clock + 1, 0, count);
    if (status != GB_ERR_BUSY)
        return status;
    status = drained(m, status);
    return status == GB_OK ? gbx_pull(m->gbx, stream, m->clock + 1, 0, count) : status;
}

static gb_status_t check_exchange(void *context)
{
    member_t *m = context;
    gbx_state_t state;
    gb_status_t status = gbx_status(m->gbx, &state);
    if (status == GB_OK && state.poison != GBX_RUNNING)
        status = gb_fail(GB_ERR_CANCELLED, "%s", state.why);
    if (status == GB_OK && gb_cluster_lease_state(m->cluster->lease) == GB_ERR_LOST)
        status = GB_ERR_LOST;
    return status;
}

/* ---- epochs ---- */

static gb_status_t join(member_t *m, uint32_t iterations)
{
    const wk_config_t *c = m->config;
    char optimizer[128];
    snprintf(optimizer, sizeof(optimizer), "sgd lr=%.9g momentum=%.9g lr_step=%u lr_gamma=%.9g",
             c->lr, c->momentum, iterations, wk_config_lr_gamma(c));
    gb_job_spec_t spec = {.name = c->job,
                          .model = m->trainer->model->name,
                          .optimizer = optimizer,
                          .mode = "bsp",
                          .samples = m->trainer->train.count,
                          .batch = (uint32_t)c->batch,
                          .iterations = iterations,
                          .epochs = (uint32_t)c->epochs,
                          .workers = (uint32_t)(c->workers * c->gpus)};
    return gb_job_join(m->cluster->cluster, m->cluster->lease, &spec, &m->job);
}

static void pause_ms(long ms)
{
    struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

/* Arrives at the barrier and waits: for the other members without limit, for a server that is away as
 * long as the configuration says. Joins again if the server has dropped this member. */
static gb_status_t begin_epoch(member_t *m, uint32_t iterations, uint32_t done)
{
    uint64_t patience = (uint64_t)(m->config->server_wait * 1e9), away_since = 0;
    int told = 0;
    for (;;) {
        gb_status_t status = m->job ? GB_OK : join(m, iterations);
        if (status == GB_OK)
            status = gb_job_begin_epoch(m->job, done, LOOK_MS, &m->plan);
        if (status == GB_OK)
            return GB_OK;
        if (status == GB_ERR_NOT_FOUND && m->job) {
            gb_job_abandon(m->job);
            m->job = NULL;
            m->broken = 1;
            continue;
        }
        if (status != GB_ERR_TIMEOUT && status != GB_ERR_UNREACHABLE)
            return status;
        uint64_t now = gb_now_ns();
        away_since = status == GB_ERR_TIMEOUT ? 0 : away_since ? away_since : now;
        if (away_since && now - away_since >= patience)
            return gb_fail(
                GB_ERR_UNREACHABLE,
                "%s has been away for %.0f s: start ps-server again and then this worker "
                "(or give a longer --server-wait)",
                m->config->server, m->config->server_wait);
        if (!told)
            note(m, away_since ? "the server is away: waiting for it"
                               : "waiting for the other workers");
        told = 1;
        status = look_after(m);
        if (status != GB_OK)
            return status;
        if (away_since)
            pause_ms(RETRY_MS);
    }
}

static gb_status_t train(member_t *m, uint32_t iterations)
{
    wk_hooks_t hooks = {
        .context = m, .before = before_step, .ready = push, .after = pull, .check = check_exchange};
    wk_share_t share = {.epoch = m->plan.epoch,
                        .epochs = (uint32_t)m->config->epochs,
                        .first = (uint32_t)m->plan.sample_first,
                        .count = (uint32_t)m->plan.sample_count,
                        .iterations = iterations,
                        .world = m->plan.world};
    wk_result_t result = {0};
    gb_status_t status = wk_trainer_epoch(m->trainer, &share, &hooks, m->progress, &result);
    if (status == GB_OK)
        status = wk_trainer_test(m->trainer, &result.accuracy);
    if (status != GB_OK)
        return status;
    m->last = result;
    if (m->progress)
        wk_progress_epoch(m->progress, m->plan.epoch, result.loss, result.accuracy,
                          result.rate * m->plan.world, result.seconds);
    gb_job_report_t report = {.epoch = m->plan.epoch,
                              .loss = result.loss,
                              .accuracy = result.accuracy,
                              .samples_per_second = result.rate,
                              .seconds = result.seconds};
    gb_job_report(m->job, &report); /* a lost report costs nothing */
    return GB_OK;
}

/* After a failed epoch: GB_OK if the job can go on from the server's checkpoint. */
static gb_status_t recover(member_t *m, gb_status_t status)
{
    char why[256];
    gbx_state_t state = {.poison = GBX_LOST};
    snprintf(why, sizeof(why), "%s", gb_why());
    gb_status_t alive = look_after(m);
    if (alive != GB_OK)
        return alive;
    if (m->gbx && gbx_status(m->gbx, &state) != GB_OK)
        state.poison = GBX_LOST;
    int exchange = status == GB_ERR_LOST || status == GB_ERR_CANCELLED ||
                   status == GB_ERR_UNREACHABLE || status == GB_ERR_TIMEOUT ||
                   status == GB_ERR_CLOSED || status == GB_ERR_NOT_FOUND;
    if (state.poison == GBX_RUNNING && !exchange)
        return gb_fail(status, "%s", why);
    if (state.poison == GBX_REFUSED || state.poison == GBX_DEVICE)
        return gb_fail(GB_ERR_LOST, "%s", state.why);
    m->broken = 1;
    note(m, "the parameter server does not answer: going back to its last checkpoint");
    pause_ms(RETRY_MS);
    return GB_OK;
}

static gb_status_t run(member_t *m, uint32_t *epochs)
{
    uint32_t iterations = wk_order_iterations(m->trainer->train.count, (uint32_t)m->config->batch);
    uint32_t done = 0, restarts = 0;
    for (;;) {
        gb_status_t status = begin_epoch(m, iterations, done);
        if (status != GB_OK)
            return status;
        if (m->plan.complete)
            break;
        if (!m->start_ns)
            m->start_ns = gb_now_ns();
        status = prepare(m, iterations);
        if (status == GB_OK)
            status = train(m, iterations);
        if (status == GB_OK) {
            done = m->plan.epoch + 1;
            restarts = 0;
            continue;
        }
        if (++restarts > MAX_RESTARTS_WITHOUT_PROGRESS)
            return status;
        done = m->plan.epoch;
        status = recover(m, status);
        if (status != GB_OK)
            return status;
    }
    *epochs = done;
    return GB_OK;
}

gb_status_t wk_bsp_run(wk_trainer_t *trainer, const wk_cluster_t *cluster,
                       const wk_config_t *config, wk_progress_t *progress, wk_bsp_result_t *out)
{
    member_t m = {.trainer = trainer, .cluster = cluster, .config = config, .progress = progress};
    uint32_t epochs = 0;
    char why[256];
    gb_status_t status = run(&m, &epochs);
    if (status == GB_OK) {
        *out = (wk_bsp_result_t){.last = m.last, .epochs = epochs, .world = m.plan.world};
        out->last.total = m.start_ns ? (double)(gb_now_ns() - m.start_ns) * 1e-9 : 0;
    }
    /* What follows may fail as well; the first reason is the one to tell. */
    snprintf(why, sizeof(why), "%s", gb_why());
    if (m.job)
        gb_job_finish(m.job, status != GB_OK);
    gbx_close(m.gbx);
    return status == GB_OK ? GB_OK : gb_fail(status, "%s", why);
}
