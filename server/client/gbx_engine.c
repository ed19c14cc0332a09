/* The engine's life and state. */
#include "server/client/gbx_engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"
#include "server/client/gbx_queue.h"

void gbx_wake(int fd)
{
    uint64_t one = 1;
    while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
        ;
}

/* ---- poison ---- */

static void shut_lanes(gbx_engine_t *engine)
{
    for (uint32_t i = 0; i < engine->lane_count; i++)
        gb_link_shutdown(engine->lanes[i].link);
}

void gbx_engine_poison(gbx_engine_t *engine, gbx_poison_t code, const char *why)
{
    pthread_mutex_lock(&engine->lock);
    int first = atomic_load(&engine->poison) == GBX_RUNNING;
    if (first) {
        snprintf(engine->why, sizeof(engine->why), "%s", why);
        atomic_store(&engine->poison, (int)code);
        pthread_cond_broadcast(&engine->changed);
        shut_lanes(engine);
    }
    pthread_mutex_unlock(&engine->lock);
    if (!first)
        return;
    gb_log(GB_LOG_INFO, "exchange of job %s ended: %s", engine->config.job, why);
    gbx_wake(engine->sender_wake);
    gbx_wake(engine->receiver_wake);
}

void gbx_engine_cut(gbx_engine_t *engine)
{
    pthread_mutex_lock(&engine->lock);
    int first = !atomic_exchange(&engine->cut, 1);
    if (first)
        shut_lanes(engine);
    pthread_mutex_unlock(&engine->lock);
    if (!first)
        return;
    gbx_wake(engine->sender_wake);
    gbx_wake(engine->receiver_wake);
}

gb_status_t gbx_engine_poisoned(gbx_engine_t *engine)
{
    static const gb_status_t statuses[] = {
        [GBX_RUNNING] = GB_OK,
        [GBX_LOST] = GB_ERR_LOST,
        [GBX_GENERATION] = GB_ERR_CANCELLED,
        [GBX_EVICTED] = GB_ERR_CANCELLED,
        [GBX_REFUSED] = GB_ERR_INVALID,
        [GBX_DEVICE] = GB_ERR_INTERNAL,
    };
    char why[224];
    pthread_mutex_lock(&engine->lock);
    gb_status_t st = statuses[atomic_load(&engine->poison)];
    memcpy(why, engine->why, sizeof(why));
    pthread_mutex_unlock(&engine->lock);
    return st == GB_OK ? GB_OK : gb_fail(st, "%s", why);
}

int gbx_cuda_ok(gbx_engine_t *engine, CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return 1;
    char why[128];
    snprintf(why, sizeof(why), "CUDA error %d in the exchange: %s", (int)result, what);
    gbx_engine_poison(engine, GBX_DEVICE, why);
    return 0;
}

/* ---- configuration ---- */

static void free_config(gbx_config_t *config)
{
    for (uint32_t i = 0; config->shards && i < config->shard_count; i++)
        free((char *)(uintptr_t)config->shards[i].endpoint);
    free((void *)(uintptr_t)config->shards);
    free((char *)(uintptr_t)config->job);
    memset(config, 0, sizeof(*config));
}

static gb_status_t check_config(const gbx_config_t *config)
{
    if (!config->shards || config->shard_count == 0 || config->shard_count > GBX_MAX_SHARDS)
        return gb_fail(GB_ERR_INVALID, "an exchange needs 1 to %d shards", GBX_MAX_SHARDS);
    if (!config->job || strlen(config->job) >= 64)
        return gb_fail(GB_ERR_INVALID, "an exchange needs the name of its job");
    if (config->chunk_bytes % (4 * GBX_ALIGN) != 0 || config->chunk_bytes > 4u << 20)
        return gb_fail(GB_ERR_INVALID,
                       "chunks of %u bytes: multiples of %d up to 4 MiB are possible",
                       config->chunk_bytes, 4 * GBX_ALIGN);
    return GB_OK;
}

static gb_status_t copy_config(const gbx_config_t *config, gbx_config_t *out)
{
    gb_status_t st = check_config(config);
    if (st != GB_OK)
        return st;
    gbx_config_t copy = *config;
    gbx_shard_t *shards = calloc(config->shard_count, sizeof(*shards));
    copy.shards = shards;
    copy.job = strdup(config->job);
    if (!copy.silence_ms)
        copy.silence_ms = 15000;
    if (!copy.chunk_bytes)
        copy.chunk_bytes = 1u << 20;
    int ok = shards && copy.job;
    for (uint32_t i = 0; i < config->shard_count && ok; i++) {
        shards[i] = config->shards[i];
        shards[i].endpoint = strdup(config->shards[i].endpoint);
        ok = shards[i].endpoint != NULL;
    }
    if (!ok) {
        free_config(&copy);
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    }
    *out = copy;
    return GB_OK;
}

/* ---- threads ---- */

static void stop_threads(gbx_engine_t *engine)
{
    if (!engine->running)
        return;
    pthread_mutex_lock(&engine->lock);
    atomic_store(&engine->stop, 1);
    shut_lanes(engine);
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->lock);
    gbx_wake(engine->sender_wake);
    pthread_join(engine->sender, NULL);
    atomic_store(&engine->sent, atomic_load(&engine->head)); /* nobody looks at them any more */
    atomic_store(&engine->stop, 2);
    gbx_wake(engine->receiver_wake);
    pthread_join(engine->receiver, NULL);
    engine->running = 0;
}

static gb_status_t start_threads(gbx_engine_t *engine)
{
    atomic_store(&engine->stop, 0);
    int error = pthread_create(&engine->sender, NULL, gbx_sender_run, engine);
    if (error != 0)
        return gb_fail_errno(GB_ERR_IO, error, "cannot start a thread");
    error = pthread_create(&engine->receiver, NULL, gbx_receiver_run, engine);
    if (error != 0) {
        atomic_store(&engine->stop, 1);
        gbx_wake(engine->sender_wake);
        pthread_join(engine->sender, NULL);
        return gb_fail_errno(GB_ERR_IO, error, "cannot start a thread");
    }
    engine->running = 1;
    return GB_OK;
}

/* ---- open and close ---- */

static uint64_t silence_end(const gbx_engine_t *engine)
{
    return gb_now_ns() + (uint64_t)engine->config.silence_ms * 1000000u;
}

static void free_model(gbx_engine_t *engine)
{
    for (uint32_t i = 0; engine->tensors && i < engine->tensor_count; i++)
        free((char *)(uintptr_t)engine->tensors[i].name);
    free(engine->tensors);
    gbx_plan_free(&engine->plan);
    free(engine->chunks);
    free(engine->segments);
    free(engine->chunk_left);
    free(engine->tensor_pushed);
    engine->tensors = NULL;
    engine->chunks = NULL;
    engine->segments = NULL;
    engine->chunk_left = NULL;
    engine->tensor_pushed = NULL;
}

static void free_engine(gbx_engine_t *engine)
{
    free_model(engine);
    free_config(&engine->config);
    if (engine->sender_wake >= 0)
        close(engine->sender_wake);
    if (engine->receiver_wake >= 0)
        close(engine->receiver_wake);
    for (uint32_t i = 0; i < GBX_MAX_LANES; i++)
        pthread_mutex_destroy(&engine->lanes[i].send_lock);
    pthread_cond_destroy(&engine->changed);
    pthread_mutex_destroy(&engine->lock);
    free(engine);
}

static gb_status_t new_engine(const gb_cuda_table_t *cuda, const gbx_config_t *config,
                              gbx_engine_t **out)
{
    gbx_engine_t *engine = calloc(1, sizeof(*engine));
    if (!engine)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_mutex_init(&engine->lock, NULL);
    pthread_cond_init(&engine->changed, &attr);
    pthread_condattr_destroy(&attr);
    for (uint32_t i = 0; i < GBX_MAX_LANES; i++)
        pthread_mutex_init(&engine->lanes[i].send_lock, NULL);
    engine->cuda = cuda;
    engine->sender_wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    engine->receiver_wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    gb_status_t st = copy_config(config, &engine->config);
    if (st == GB_OK && (engine->sender_wake < 0 || engine->receiver_wake < 0))
        st = gb_fail_errno(GB_ERR_IO, errno, "cannot make an eventfd");
    if (st != GB_OK) {
        free_engine(engine);
        return st;
    }
    *out = engine;
    return GB_OK;
}

gb_status_t gbx_engine_open(const gb_cuda_table_t *cuda, const gbx_config_t *config,
                            gbx_engine_t **out)
{
    gbx_engine_t *engine = NULL;
    gb_status_t st = new_engine(cuda, config, &engine);
    if (st != GB_OK)
        return st;
    st = gbx_device_open(engine);
    if (st != GB_OK)
        goto err_engine;
    st = gbx_connect(engine, silence_end(engine));
    if (st != GB_OK)
        goto err_device;
    st = start_threads(engine);
    if (st != GB_OK)
        goto err_connect;
    *out = engine;
    return GB_OK;

err_connect:
    gbx_disconnect(engine);
err_device:
    gbx_device_close(engine);
err_engine:
    free_engine(engine);
    return st;
}

/* Every lane is told before any is cut. Who sends on one at the moment is let finish its frame, but not for long:
 * where the shard does not take it, the lane is cut in the middle of it anyway. Without a goodbye the other
 * workers would wait for this one until its grace is over. */
static void say_goodbye(gbx_engine_t *engine)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    pthread_mutex_lock(&engine->lock);
    for (uint32_t i = 0; i < engine->lane_count; i++) {
        if (pthread_mutex_timedlock(&engine->lanes[i].send_lock, &until) != 0)
            continue;
        gb_link_goodbye(engine->lanes[i].link);
        pthread_mutex_unlock(&engine->lanes[i].send_lock);
    }
    pthread_mutex_unlock(&engine->lock);
}

void gbx_engine_close(gbx_engine_t *engine)
{
    if (!engine)
        return;
    int goodbye = !gbx_engine_bad(engine);
    if (goodbye) {
        atomic_store(&engine->closing, 1);
        say_goodbye(engine);
        /* Streams that wait are released by the poison. */
        gbx_engine_poison(engine, GBX_LOST, "the exchange was closed");
    }
    stop_threads(engine);
    gbx_disconnect(engine);
    /* The thread that ends a session may have no context. */
    CUcontext own;
    int pushed = engine->cuda->cuCtxPushCurrent_v2(engine->context) == CUDA_SUCCESS;
    gbx_device_close(engine);
    if (pushed)
        engine->cuda->cuCtxPopCurrent_v2(&own);
    free_engine(engine);
}

/* ---- the model ---- */

static gb_status_t copy_tensors(gbx_engine_t *engine, const gbx_tensor_t *tensors, uint32_t count)
{
    engine->tensors = calloc(count, sizeof(*tensors));
    engine->tensor_pushed = calloc(count, 1);
    if (!engine->tensors || !engine->tensor_pushed)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    engine->tensor_count = count;
    for (uint32_t i = 0; i < count; i++) {
        engine->tensors[i] = tensors[i];
        engine->tensors[i].name = tensors[i].name ? strdup(tensors[i].name) : NULL;
        if (!engine->tensors[i].name)
            return gb_fail(GB_ERR_INVALID, "tensor %u has no name", i);
        if (tensors[i].weights % 4 || tensors[i].gradients % 4)
            return gb_fail(GB_ERR_INVALID, "tensor %s is not aligned to 4 bytes", tensors[i].name);
    }
    return GB_OK;
}

/* Makes the plan for the shards as they are now and has them agree. */
static gb_status_t agree(gbx_engine_t *engine)
{
    gbx_plan_free(&engine->plan);
    gb_status_t st =
        gbx_plan_make(engine->tensors, engine->tensor_count, engine->config.chunk_bytes / 4,
                      engine->owners, engine->config.shard_count, &engine->plan);
    if (st == GB_OK)
        st = gbx_device_map(engine);
    uint8_t *bytes = NULL;
    uint32_t size = 0;
    if (st == GB_OK)
        st = gbx_plan_encode(&engine->plan, &bytes, &size);
    if (st == GB_OK)
        st = gbx_control(engine, GBX_OP_DECLARE, engine->lane_count, bytes, size);
    free(bytes);
    return st;
}

gb_status_t gbx_engine_declare(gbx_engine_t *engine, const gbx_tensor_t *tensors, uint32_t count,
                               uint32_t flags)
{
    if (gbx_engine_bad(engine))
        return gbx_engine_poisoned(engine);
    if (engine->tensors)
        return gb_fail(GB_ERR_EXISTS, "the tensors were declared already");
    if (count == 0 || count > GBX_MAX_TENSORS)
        return gb_fail(GB_ERR_INVALID, "a model has 1 to %d tensors", GBX_MAX_TENSORS);
    engine->declare_flags = flags;
    gb_status_t st = copy_tensors(engine, tensors, count);
    if (st == GB_OK)
        st = agree(engine);
    if (st == GB_OK)
        st = gbx_device_stage(engine);
    if (st != GB_OK && !gbx_engine_bad(engine))
        free_model(engine);
    return st;
}

gb_status_t gbx_engine_init(gbx_engine_t *engine, CUstream stream, uint64_t *clock)
{
    if (!engine->tensors)
        return gb_fail(GB_ERR_INVALID, "declare the tensors first");
    gb_status_t st = gbx_control(engine, GBX_OP_CLAIM, 1, NULL, 0);
    if (st != GB_OK)
        return st;
    uint64_t start;
    int give = engine->mail[0];
    memcpy(&start, engine->mail + 8, sizeof(start));
    if (give)
        st = gbx_engine_give(engine, stream);
    else
        st = gbx_engine_pull(engine, stream, start, 0, engine->tensor_count);
    /* Others may take their time to give the weights: only silence ends the wait. */
    while (st == GB_OK && (st = gbx_engine_wait(engine, 1000)) == GB_ERR_TIMEOUT)
        st = GB_OK;
    if (st == GB_OK && give)
        st = gbx_control(engine, GBX_OP_READY, 1, NULL, 0);
    if (st != GB_OK)
        return st;
    atomic_store(&engine->clock, start);
    engine->push_open = 0;
    *clock = start;
    return GB_OK;
}

gb_status_t gbx_engine_reopen(gbx_engine_t *engine, const gbx_config_t *config)
{
    gbx_config_t fresh;
    gb_status_t st = copy_config(config, &fresh);
    if (st != GB_OK)
        return st;
    if (engine->chunks && fresh.chunk_bytes != engine->config.chunk_bytes) {
        free_config(&fresh);
        return gb_fail(GB_ERR_INVALID, "the chunk size cannot change");
    }
    gbx_engine_poison(engine, GBX_LOST, "the exchange is being reopened");
    stop_threads(engine);
    gbx_disconnect(engine);
    free_config(&engine->config);
    engine->config = fresh;
    engine->push_open = 0;
    engine->why[0] = 0;
    st = gbx_connect(engine, silence_end(engine));
    if (st != GB_OK) {
        snprintf(engine->why, sizeof(engine->why), "%s", gb_why());
        return st;
    }
    atomic_store(&engine->poison, GBX_RUNNING);
    atomic_store(&engine->cut, 0);
    st = start_threads(engine);
    if (st == GB_OK && engine->tensors)
        st = agree(engine);
    return st;
}

/* ---- state ---- */

gb_status_t gbx_engine_wait(gbx_engine_t *engine, uint32_t timeout_ms)
{
    uint64_t end = gb_now_ns() + (uint64_t)timeout_ms * 1000000u;
    struct timespec until = {(time_t)(end / 1000000000u), (long)(end % 1000000000u)};
    unsigned target = atomic_load(&engine->head);
    int error = 0;
    atomic_fetch_add(&engine->waiters, 1);
    pthread_mutex_lock(&engine->lock);
    while ((int)(atomic_load(&engine->done) - target) < 0 && !gbx_engine_bad(engine) &&
           error != ETIMEDOUT)
        error = pthread_cond_timedwait(&engine->changed, &engine->lock, &until);
    pthread_mutex_unlock(&engine->lock);
    atomic_fetch_sub(&engine->waiters, 1);
    if (gbx_engine_bad(engine))
        return gbx_engine_poisoned(engine);
    if ((int)(atomic_load(&engine->done) - target) < 0)
        return gb_fail(GB_ERR_TIMEOUT, "the exchange did not finish within %u ms", timeout_ms);
    /* Done means that the last copies are under way; the caller may look from another stream. */
    if (!gbx_cuda_ok(engine, engine->cuda->cuStreamSynchronize(engine->in_stream), "copy in"))
        return gbx_engine_poisoned(engine);
    return GB_OK;
}

gb_status_t gbx_engine_status(gbx_engine_t *engine, gbx_state_t *out)
{
    pthread_mutex_lock(&engine->lock);
    *out = (gbx_state_t){.poison = (gbx_poison_t)atomic_load(&engine->poison)};
    memcpy(out->why, engine->why, sizeof(out->why));
    pthread_mutex_unlock(&engine->lock);
    out->clock = atomic_load(&engine->clock);
    out->generation = atomic_load(&engine->generation);
    unsigned done = atomic_load(&engine->done);
    out->in_flight = atomic_load(&engine->head) - done;
    return GB_OK;
}

gb_status_t gbx_engine_counters(gbx_engine_t *engine, gbx_counters_t *out)
{
    gbx_counters_t counters = {
        .shard_sent = atomic_load(&engine->old_sent),
        .shard_received = atomic_load(&engine->old_received),
        .pushed = atomic_load(&engine->pushed),
        .pulled = atomic_load(&engine->pulled),
        .pushes = atomic_load(&engine->pushes),
        .pulls = atomic_load(&engine->pulls),
    };
    pthread_mutex_lock(&engine->lock); /* the lanes may be on their way out */
    for (uint32_t i = 0; i < engine->lane_count; i++) {
        gb_link_counters_t link = gb_link_counters(engine->lanes[i].link);
        counters.shard_sent += link.sent;
        counters.shard_received += link.received;
    }
    pthread_mutex_unlock(&engine->lock);
    *out = counters;
    return GB_OK;
}
