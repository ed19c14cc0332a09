/* A worker without kernels over a real libcuda: gradients come from the host by copies in stream
 * order, the exchange moves them and the weights, the result must have the reference's bits.
 *
 *   exchange_device DRIVER ENDPOINT WORKER WORKERS STEPS [time]
 *
 * DRIVER as gb_driver_choose takes it. The shard's job is "job", generation 1, lease 0x1234 with the
 * test key. Prints one line with the exchange's counters; with `time`, microseconds per exchange. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_clock.h"
#include "common/cuda/gb_driver.h"
#include "server/client/gbx.h"

enum { TENSORS = 10, MAX_WORKERS = 8 };

static const uint64_t sizes[TENSORS] = {150, 6, 2400, 16, 48000, 120, 10080, 84, 840, 10};
static uint64_t places[TENSORS], total;

static void must(gb_status_t st, const char *what)
{
    if (st == GB_OK)
        return;
    fprintf(stderr, "exchange_device: %s: %s\n", what, gb_why());
    exit(1);
}

static void cuda_must(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return;
    fprintf(stderr, "exchange_device: %s: CUDA error %d\n", what, (int)result);
    exit(1);
}

static float gradient(uint64_t i, uint32_t worker, uint64_t clock)
{
    return 0.013f * ((float)((i * 31 + worker * 7 + clock * 13) % 17) - 8.0f);
}

static float initial(uint64_t i)
{
    return (float)((i * 2654435761u) % 1000) / 1000.0f - 0.5f;
}

static gbx_t *open_exchange(const gb_driver_t *driver, const char *endpoint, uint32_t worker,
                            CUdeviceptr weights, CUdeviceptr gradients)
{
    gbx_shard_t shard = {.endpoint = endpoint};
    for (int i = 0; i < GBX_KEY_BYTES; i++)
        shard.key[i] = (uint8_t)(i * 7 + 1);
    gbx_config_t config = {.shards = &shard,
                           .shard_count = 1,
                           .lease = 0x1234,
                           .job = "job",
                           .worker = worker,
                           .generation = 1};
    gbx_tensor_t tensors[TENSORS];
    char names[TENSORS][8];
    gbx_t *gbx;
    must(gbx_open(&driver->table, &config, &gbx), "open");
    for (uint32_t t = 0; t < TENSORS; t++) {
        snprintf(names[t], sizeof(names[t]), "t%u", t);
        tensors[t] = (gbx_tensor_t){.name = names[t],
                                    .dims = 1,
                                    .shape = {sizes[t]},
                                    .weights = weights + places[t] * 4,
                                    .gradients = gradients + places[t] * 4};
    }
    must(gbx_declare(gbx, tensors, TENSORS, GBX_SLAB), "declare");
    return gbx;
}

/* The shard's arithmetic: equal shares of all workers, SGD with momentum 0.9, rate 0.05. */
static float *reference(uint32_t workers, uint32_t steps)
{
    float *w = calloc(total, sizeof(float)), *v = calloc(total, sizeof(float));
    float scale = (float)(1.0 / (double)workers);
    for (uint32_t t = 0; t < TENSORS; t++) {
        for (uint64_t k = 0; k < sizes[t]; k++) {
            uint64_t i = places[t] + k;
            w[i] = initial(i);
            for (uint64_t c = 0; c < steps; c++) {
                float mean = scale * gradient(i, 1, c);
                for (uint32_t r = 2; r <= workers; r++)
                    mean = mean + scale * gradient(i, r, c);
                v[i] = 0.9f * v[i] + mean;
                w[i] = w[i] - 0.05f * v[i];
            }
        }
    }
    free(v);
    return w;
}

static void check_weights(const float *got, const float *want)
{
    for (uint32_t t = 0; t < TENSORS; t++) {
        if (memcmp(got + places[t], want + places[t], sizes[t] * 4) != 0) {
            fprintf(stderr, "exchange_device: tensor %u differs from the reference\n", t);
            exit(1);
        }
    }
}

static void measure(const gb_cuda_table_t *cuda, gbx_t *gbx, CUstream stream, uint64_t clock)
{
    enum { ROUNDS = 200 };
    uint64_t start = gb_now_ns();
    for (uint64_t c = 0; c < ROUNDS; c++) {
        must(gbx_push_pull(gbx, stream, clock + c, 1), "push and pull");
        cuda_must(cuda->cuStreamSynchronize(stream), "synchronise");
    }
    printf("exchange_us %.0f\n", (double)(gb_now_ns() - start) / 1000.0 / ROUNDS);
}

int main(int argc, char **argv)
{
    if (argc < 6)
        return 2;
    uint32_t worker = (uint32_t)atoi(argv[3]), workers = (uint32_t)atoi(argv[4]);
    uint32_t steps = (uint32_t)atoi(argv[5]);
    const gb_driver_t *driver;
    must(gb_driver_choose(argv[1], &driver), "driver");
    const gb_cuda_table_t *cuda = &driver->table;
    CUdevice device;
    CUcontext context;
    CUstream stream;
    CUdeviceptr weights, gradients;
    for (uint32_t t = 0; t < TENSORS; t++) {
        places[t] = (total + 63) / 64 * 64;
        total = places[t] + sizes[t];
    }
    cuda_must(cuda->cuInit(0), "init");
    cuda_must(cuda->cuDeviceGet(&device, 0), "device");
    cuda_must(cuda->cuDevicePrimaryCtxRetain(&context, device), "context");
    cuda_must(cuda->cuCtxSetCurrent(context), "context");
    cuda_must(cuda->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "stream");
    cuda_must(cuda->cuMemAlloc_v2(&weights, total * 4), "memory");
    cuda_must(cuda->cuMemAlloc_v2(&gradients, total * 4), "memory");
    float *host = calloc(total * (steps + 1), sizeof(float));
    for (uint64_t i = 0; i < total; i++)
        host[i] = initial(i);
    cuda_must(cuda->cuMemcpyHtoD_v2(weights, host, total * 4), "copy");

    gbx_t *gbx = open_exchange(driver, argv[2], worker, weights, gradients);
    uint64_t clock;
    must(gbx_init(gbx, stream, &clock), "init");
    /* All steps are enqueued without waiting: the order is the streams' business. */
    for (uint64_t c = 0; c < steps; c++) {
        float *g = host + total * (c + 1);
        for (uint64_t i = 0; i < total; i++)
            g[i] = gradient(i, worker, c);
        cuda_must(cuda->cuMemcpyHtoDAsync_v2(gradients, g, total * 4, stream), "copy");
        must(gbx_push_pull(gbx, stream, clock + c, 32), "push and pull");
    }
    cuda_must(cuda->cuMemcpyDtoHAsync_v2(host, weights, total * 4, stream), "copy");
    cuda_must(cuda->cuStreamSynchronize(stream), "synchronise");
    gbx_state_t state;
    must(gbx_status(gbx, &state), "status");
    if (state.poison != GBX_RUNNING) {
        fprintf(stderr, "exchange_device: %s\n", state.why);
        return 1;
    }
    float *want = reference(workers, steps);
    check_weights(host, want);
    free(want);
    gbx_counters_t counters;
    must(gbx_counters(gbx, &counters), "counters");
    printf("remote %d pushes %llu pulls %llu sent %llu received %llu\n", counters.remote,
           (unsigned long long)counters.pushes, (unsigned long long)counters.pulls,
           (unsigned long long)counters.shard_sent, (unsigned long long)counters.shard_received);
    if (argc > 6 && strcmp(argv[6], "time") == 0)
        measure(cuda, gbx, stream, clock + steps);
    gbx_close(gbx);
    free(host);
    return 0;
}
