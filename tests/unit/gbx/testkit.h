/* testkit.h - a shard, workers over it and the plain C reference, for the tests of the exchange. */
#ifndef TESTKIT_H
#define TESTKIT_H

#include <pthread.h>
#include <stdint.h>

#include "server/client/gbx.h"
#include "server/params/ps_params.h"
#include "tests/unit/gbx/fake_cuda.h"

enum { KIT_MAX_TENSORS = 32 };

/* The model: tensors of these sizes, laid out with gaps or without. */
typedef struct {
    uint32_t count;
    uint64_t values[KIT_MAX_TENSORS];
    int slab;
    uint32_t chunk_bytes; /* 0 = default */
} kit_model_t;

extern const kit_model_t kit_lenet; /* LeNet-5's tensors, one slab */
extern const kit_model_t kit_mixed; /* small and cut tensors over several chunks */

typedef struct {
    ps_params_t *ps;
    char endpoint[300];
    char folder[64]; /* of checkpoints and the socket; removed by kit_shard_stop */
    uint8_t key[32];
    uint64_t lease;
    int left; /* workers for which on_leave was called */
    uint32_t last_left;
    int checkpoints; /* written */
    pthread_mutex_t lock;
} kit_shard_t;

typedef struct {
    const char *listen; /* NULL: a Unix socket */
    uint32_t threads, grace_ms, silence_ms, keep;
    const char *folder; /* of an earlier shard, to restart it; else NULL */
} kit_shard_config_t;

void kit_shard_start(kit_shard_t *shard, const kit_shard_config_t *config);
void kit_shard_stop(kit_shard_t *shard, int remove_folder);
/* Creates job "job"; returns its clock. */
uint64_t kit_job(kit_shard_t *shard, uint32_t generation, const ps_optimizer_t *optimizer,
                 int restore);
void kit_members(kit_shard_t *shard, uint32_t generation, uint64_t clock, uint32_t count);

/* A worker with a fake device. */
typedef struct {
    const kit_model_t *model;
    kit_shard_t *shard;
    uint32_t id, samples, generation;
    gbx_t *gbx;
    CUstream stream;
    CUdeviceptr weights, gradients;
    uint64_t tensor_at[KIT_MAX_TENSORS]; /* first value of each tensor in the allocations */
    uint64_t total;
    uint64_t kernel_clock; /* counts the kernels run */
} kit_worker_t;

/* Opens, declares; does not init. */
void kit_worker_open(kit_worker_t *worker, kit_shard_t *shard, const kit_model_t *model,
                     uint32_t id, uint32_t samples, uint32_t generation);
void kit_worker_config(kit_worker_t *worker, gbx_config_t *config, gbx_shard_t *shard);
void kit_worker_close(kit_worker_t *worker);
/* Initial weights of a seed. */
void kit_worker_fill(kit_worker_t *worker, uint32_t seed);
/* Enqueues `steps` bsp iterations from `clock`: gradient kernel, push, pull. `layered` pushes tensor by
 * tensor, last first. Does not wait. */
void kit_worker_steps(kit_worker_t *worker, uint64_t clock, uint32_t steps, int layered);

/* The gradient that worker `id` computes at a clock for value i of weight w. */
float kit_gradient(float w, uint64_t i, uint32_t id, uint64_t clock);

/* The plain reference: tensors one after the other without gaps. */
typedef struct {
    uint64_t total;
    float *weights, *velocity;
} kit_reference_t;
void kit_reference_init(kit_reference_t *ref, const kit_model_t *model, uint32_t seed);
/* One step with workers ids[], samples[], in that order (ascending ids). */
void kit_reference_step(kit_reference_t *ref, const ps_optimizer_t *optimizer, uint64_t clock,
                        const uint32_t *ids, const uint32_t *samples, uint32_t count);
void kit_reference_free(kit_reference_t *ref);

/* 1 if the worker's device weights have the reference's bits. */
int kit_same(const kit_worker_t *worker, const kit_reference_t *ref);

/* Waits until *condition(arg) holds, at most `seconds`. */
int kit_wait(int (*condition)(void *arg), void *arg, int seconds);

#endif
