/* param_exchange - what it costs to push a model's gradients and have its new weights on the device:
 * one worker over the software device in this process, one shard in this process, a Unix socket.
 *
 * Rows `lenet5` and `mlp`: microseconds per gbx_push_pull, from the call to the stream's end.
 *   floor = the same bytes there and back over a bare blocking Unix socket between two threads, same run
 * Row `apply`: GB/s of the shard's arithmetic (gradient, weights and velocity read, weights and velocity
 * written) for 4 MiB chunks and two workers.
 *   floor = memcpy of the same number of bytes, read and written
 * ratio = value over floor for times, floor over value for rates. Medians of interleaved rounds. */
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/bench_line.h"
#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"
#include "common/core/gb_opt.h"
#include "common/cuda/gb_driver.h"
#include "server/client/gbx.h"
#include "server/params/ps_kernels.h"
#include "server/params/ps_params.h"

enum { ROUNDS = 9, APPLY_VALUES = 1 << 20, MAX_TENSORS = 10 };

typedef struct {
    bool json, smoke;
} options_t;

typedef struct {
    const char *name;
    uint32_t count;
    uint64_t values[MAX_TENSORS];
    int repeats; /* exchanges in a round */
} model_t;

static const model_t models[] = {
    {"lenet5", 10, {150, 6, 2400, 16, 48000, 120, 10080, 84, 840, 10}, 40},
    {"mlp", 6, {784 * 512, 512, 512 * 512, 512, 5120, 10}, 10},
};

static void must(gb_status_t st, const char *what)
{
    if (st == GB_OK)
        return;
    gb_complain("%s: %s", what, gb_why());
    exit(1);
}

static void cuda_must(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    gb_complain("%s: CUDA error %d", what, (int)result);
    exit(1);
}

/* ---- floor: a bare socket ---- */

typedef struct {
    int fd;
    size_t bytes;
    uint8_t *memory;
} echo_t;

static int move_all(int fd, uint8_t *memory, size_t bytes, int sending)
{
    while (bytes > 0) {
        ssize_t n = sending ? send(fd, memory, bytes, MSG_NOSIGNAL) : recv(fd, memory, bytes, 0);
        if (n <= 0)
            return 0;
        memory += n;
        bytes -= (size_t)n;
    }
    return 1;
}

static void *echo_run(void *arg)
{
    echo_t *echo = arg;
    while (move_all(echo->fd, echo->memory, echo->bytes, 0) &&
           move_all(echo->fd, echo->memory, echo->bytes, 1))
        ;
    return NULL;
}

static double floor_us(size_t bytes, int repeats)
{
    int fds[2];
    pthread_t thread;
    uint8_t *memory = calloc(2, bytes);
    if (!memory || socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0)
        exit(1);
    echo_t echo = {fds[1], bytes, memory + bytes};
    pthread_create(&thread, NULL, echo_run, &echo);
    uint64_t start = 0;
    for (int i = -2; i < repeats; i++) {
        if (i == 0)
            start = gb_now_ns();
        if (!move_all(fds[0], memory, bytes, 1) || !move_all(fds[0], memory, bytes, 0))
            exit(1);
    }
    double us = (double)(gb_now_ns() - start) / 1000.0 / repeats;
    shutdown(fds[0], SHUT_RDWR);
    pthread_join(thread, NULL);
    close(fds[0]);
    close(fds[1]);
    free(memory);
    return us;
}

/* ---- exchange ---- */

typedef struct {
    const gb_cuda_table_t *cuda;
    CUstream stream;
    ps_params_t *ps;
    gbx_t *gbx;
    CUdeviceptr weights, gradients;
    uint64_t clock, total;
} bench_t;

static void open_shard(bench_t *b, const char *folder, const char *job)
{
    char listen[128];
    uint64_t clock;
    uint32_t epoch;
    const uint32_t worker = 1;
    snprintf(listen, sizeof(listen), "unix:%s/%s.sock", folder, job);
    ps_params_config_t config = {.listen = listen, .insecure = 1};
    ps_params_job_t description = {
        .name = job, .generation = 1, .optimizer = {.kind = PS_SGD, .lr = 0.01f, .momentum = 0.9f}};
    must(ps_params_start(&config, &b->ps), "shard");
    must(ps_params_job_create(b->ps, &description, &clock, &epoch), "job");
    must(ps_params_set_members(b->ps, job, 1, 0, &worker, 1), "members");
}

static void open_exchange(bench_t *b, const model_t *model)
{
    gbx_shard_t shard = {.endpoint = ps_params_endpoint(b->ps)};
    gbx_config_t config = {
        .shards = &shard, .shard_count = 1, .job = model->name, .worker = 1, .generation = 1};
    gbx_tensor_t tensors[MAX_TENSORS];
    char names[MAX_TENSORS][16];
    uint64_t places[MAX_TENSORS];
    b->total = 0;
    for (uint32_t t = 0; t < model->count; t++) {
        places[t] = (b->total + 63) / 64 * 64;
        b->total = places[t] + model->values[t];
    }
    cuda_must(b->cuda->cuMemAlloc_v2(&b->weights, b->total * 4), "memory");
    cuda_must(b->cuda->cuMemAlloc_v2(&b->gradients, b->total * 4), "memory");
    cuda_must(b->cuda->cuMemsetD32_v2(b->weights, 0, b->total), "memory");
    cuda_must(b->cuda->cuMemsetD32_v2(b->gradients, 0, b->total), "memory");
    for (uint32_t t = 0; t < model->count; t++) {
        snprintf(names[t], sizeof(names[t]), "t%u", t);
        tensors[t] = (gbx_tensor_t){.name = names[t],
                                    .dims = 1,
                                    .shape = {model->values[t]},
                                    .weights = b->weights + places[t] * 4,
                                    .gradients = b->gradients + places[t] * 4};
    }
    must(gbx_open(b->cuda, &config, &b->gbx), "exchange");
    must(gbx_declare(b->gbx, tensors, model->count, GBX_SLAB), "model");
    must(gbx_init(b->gbx, b->stream, &b->clock), "initial weights");
}

static double exchange_us(bench_t *b, int repeats)
{
    uint64_t start = 0;
    for (int i = -2; i < repeats; i++) {
        if (i == 0)
            start = gb_now_ns();
        must(gbx_push_pull(b->gbx, b->stream, b->clock++, 1), "push and pull");
        cuda_must(b->cuda->cuStreamSynchronize(b->stream), "synchronise");
    }
    return (double)(gb_now_ns() - start) / 1000.0 / repeats;
}

static void run_model(bench_t *b, const options_t *o, const char *folder, const model_t *model)
{
    double value[ROUNDS], floor[ROUNDS];
    int rounds = o->smoke ? 1 : ROUNDS, repeats = o->smoke ? 3 : model->repeats;
    open_shard(b, folder, model->name);
    open_exchange(b, model);
    for (int r = 0; r < rounds; r++) {
        value[r] = exchange_us(b, repeats);
        floor[r] = floor_us(b->total * 4, repeats);
    }
    double v = bench_median(value, rounds), f = bench_median(floor, rounds);
    bench_line(o->json, "param_exchange", model->name, v, "us", f, NAN, v / f);
    gbx_close(b->gbx);
    cuda_must(b->cuda->cuMemFree_v2(b->weights), "memory");
    cuda_must(b->cuda->cuMemFree_v2(b->gradients), "memory");
    ps_params_stop(b->ps);
}

/* ---- arithmetic ---- */

static double gb_s(double bytes, uint64_t ns)
{
    return bytes / (double)ns;
}

static void run_apply(const options_t *o)
{
    const ps_step_t step = {0.01f, 0.9f, 0, 0};
    const float scale[] = {0.5f, 0.5f};
    double value[ROUNDS], floor[ROUNDS];
    int rounds = o->smoke ? 1 : ROUNDS, repeats = o->smoke ? 2 : 20;
    float *memory = aligned_alloc(64, (size_t)APPLY_VALUES * 4 * 4);
    if (!memory)
        exit(1);
    memset(memory, 0, (size_t)APPLY_VALUES * 4 * 4);
    float *g1 = memory, *g2 = g1 + APPLY_VALUES, *w = g2 + APPLY_VALUES, *v = w + APPLY_VALUES;
    const float *gradients[] = {g1, g2};
    const double bytes = 6.0 * APPLY_VALUES * 4; /* four arrays read, two written */
    for (int r = 0; r < rounds; r++) {
        uint64_t start = gb_now_ns();
        for (int i = 0; i < repeats; i++)
            ps_apply(&step, APPLY_VALUES, 2, gradients, scale, w, w, v, v);
        value[r] = gb_s(bytes * repeats, gb_now_ns() - start);
        start = gb_now_ns();
        for (int i = 0; i < repeats; i++) { /* 1.5 times two arrays over two: the same traffic */
            memcpy(g1, w, (size_t)APPLY_VALUES * 8);
            memcpy(g1, w, (size_t)APPLY_VALUES * 4);
        }
        floor[r] = gb_s(bytes * repeats, gb_now_ns() - start);
    }
    double x = bench_median(value, rounds), f = bench_median(floor, rounds);
    bench_line(o->json, "param_exchange", "apply", x, "GB/s", f, NAN, f / x);
    free(memory);
}

static const gb_opt_t options[] = {
    {"json", GB_OPT_FLAG, offsetof(options_t, json), "false", NULL, NULL, "one JSON line a row"},
    {"smoke", GB_OPT_FLAG, offsetof(options_t, smoke), "false", NULL, NULL,
     "a short run that only shows that it works"},
    {NULL},
};

static const gb_opt_table_t table = {
    "param_exchange", "param_exchange [options]",
    "Measures pushing gradients to a parameter shard and pulling the new weights.", options};

int main(int argc, char **argv)
{
    options_t o;
    int first;
    gb_log_init("param_exchange", GB_LOG_ERROR);
    gb_status_t st = gb_opt_parse(&table, argc, argv, 0, &o, &first);
    if (st == GB_ERR_CANCELLED)
        return 0;
    if (st != GB_OK) {
        gb_complain("%s", gb_why());
        return 2;
    }
    char folder[] = "/tmp/gable-bench-XXXXXX";
    const gb_driver_t *driver;
    CUdevice device;
    CUcontext context;
    bench_t b = {0};
    if (!mkdtemp(folder))
        return 1;
    must(gb_driver_choose("cpu", &driver), "driver");
    b.cuda = &driver->table;
    cuda_must(b.cuda->cuInit(0), "init");
    cuda_must(b.cuda->cuDeviceGet(&device, 0), "device");
    cuda_must(b.cuda->cuDevicePrimaryCtxRetain(&context, device), "context");
    cuda_must(b.cuda->cuCtxSetCurrent(context), "context");
    cuda_must(b.cuda->cuStreamCreate(&b.stream, CU_STREAM_NON_BLOCKING), "stream");
    for (size_t m = 0; m < sizeof(models) / sizeof(models[0]); m++)
        run_model(&b, &o, folder, &models[m]);
    run_apply(&o);
    rmdir(folder);
    return 0;
}
