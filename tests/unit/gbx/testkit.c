#include "tests/unit/gbx/testkit.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"

const kit_model_t kit_lenet = {
    .count = 10,
    .values = {150, 6, 2400, 16, 48000, 120, 10080, 84, 840, 10},
    .slab = 1,
};

/* chunks of 16 KiB: 4096 values */
const kit_model_t kit_mixed = {
    .count = 9,
    .values = {10, 5000, 64, 4096, 1, 9000, 100, 200, 63},
    .chunk_bytes = 16384,
};

/* ---- shard ---- */

static void must(gb_status_t st, const char *what)
{
    if (st == GB_OK)
        return;
    fprintf(stderr, "testkit: %s: %s: %s\n", what, gb_status_name(st), gb_why());
    abort();
}

static void on_leave(void *context, const char *job, uint32_t worker, const char *why)
{
    kit_shard_t *shard = context;
    (void)job;
    (void)why;
    pthread_mutex_lock(&shard->lock);
    shard->left++;
    shard->last_left = worker;
    pthread_mutex_unlock(&shard->lock);
}

static void on_checkpoint(void *context, const char *job, uint64_t clock, uint32_t epoch,
                          const char *path)
{
    kit_shard_t *shard = context;
    (void)job;
    (void)clock;
    (void)epoch;
    (void)path;
    pthread_mutex_lock(&shard->lock);
    shard->checkpoints++;
    pthread_mutex_unlock(&shard->lock);
}

void kit_shard_start(kit_shard_t *shard, const kit_shard_config_t *config)
{
    char folder[64], listen[96];
    if (config->folder) {
        snprintf(folder, sizeof(folder), "%s", config->folder);
    } else {
        snprintf(folder, sizeof(folder), "/tmp/gable-kit-XXXXXX");
        if (!mkdtemp(folder))
            abort();
    }
    memset(shard, 0, sizeof(*shard));
    pthread_mutex_init(&shard->lock, NULL);
    memcpy(shard->folder, folder, sizeof(folder));
    snprintf(listen, sizeof(listen), "unix:%s/shard.sock", folder);
    ps_params_config_t ps = {.listen = config->listen ? config->listen : listen,
                             .checkpoint_dir = shard->folder,
                             .threads = config->threads,
                             .grace_ms = config->grace_ms,
                             .silence_ms = config->silence_ms,
                             .keep = config->keep,
                             .context = shard,
                             .on_leave = on_leave,
                             .on_checkpoint = on_checkpoint};
    must(ps_params_start(&ps, &shard->ps), "start");
    snprintf(shard->endpoint, sizeof(shard->endpoint), "%s", ps_params_endpoint(shard->ps));
    for (int i = 0; i < 32; i++)
        shard->key[i] = (uint8_t)(i * 7 + 1);
    shard->lease = 0x1234;
    must(ps_params_grant(shard->ps, shard->lease, shard->key, 0), "grant");
}

static void remove_tree(const char *path)
{
    DIR *dir = opendir(path);
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        char name[512];
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
        if (unlink(name) != 0)
            remove_tree(name);
    }
    if (dir)
        closedir(dir);
    rmdir(path);
}

void kit_shard_stop(kit_shard_t *shard, int remove_folder)
{
    ps_params_stop(shard->ps);
    shard->ps = NULL;
    if (remove_folder)
        remove_tree(shard->folder);
    pthread_mutex_destroy(&shard->lock);
}

uint64_t kit_job(kit_shard_t *shard, uint32_t generation, const ps_optimizer_t *optimizer,
                 int restore)
{
    uint64_t clock;
    uint32_t epoch;
    ps_params_job_t job = {
        .name = "job", .generation = generation, .optimizer = *optimizer, .restore = restore};
    must(ps_params_job_create(shard->ps, &job, &clock, &epoch), "job");
    return clock;
}

void kit_members(kit_shard_t *shard, uint32_t generation, uint64_t clock, uint32_t count)
{
    uint32_t ids[PS_MAX_WORKERS];
    for (uint32_t i = 0; i < count; i++)
        ids[i] = i + 1;
    must(ps_params_set_members(shard->ps, "job", generation, clock, ids, count), "members");
}

/* ---- worker ---- */

static uint64_t place(const kit_model_t *model, uint64_t at)
{
    uint64_t align = model->slab ? 64 : 1;
    return (at + align - 1) / align * align;
}

void kit_worker_config(kit_worker_t *worker, gbx_config_t *config, gbx_shard_t *shard)
{
    *shard = (gbx_shard_t){.endpoint = worker->shard->endpoint};
    memcpy(shard->key, worker->shard->key, sizeof(shard->key));
    *config = (gbx_config_t){.shards = shard,
                             .shard_count = 1,
                             .lease = worker->shard->lease,
                             .job = "job",
                             .worker = worker->id,
                             .generation = worker->generation,
                             .silence_ms = 20000,
                             .chunk_bytes = worker->model->chunk_bytes};
}

void kit_worker_open(kit_worker_t *worker, kit_shard_t *shard, const kit_model_t *model,
                     uint32_t id, uint32_t samples, uint32_t generation)
{
    const gb_cuda_table_t *cuda = fake_cuda_table();
    memset(worker, 0, sizeof(*worker));
    worker->model = model;
    worker->shard = shard;
    worker->id = id;
    worker->samples = samples;
    worker->generation = generation;
    for (uint32_t t = 0; t < model->count; t++) {
        worker->total = place(model, worker->total);
        worker->tensor_at[t] = worker->total;
        worker->total += model->values[t];
    }
    cuda->cuStreamCreate(&worker->stream, 0);
    cuda->cuMemAlloc_v2(&worker->weights, worker->total * 4);
    cuda->cuMemAlloc_v2(&worker->gradients, worker->total * 4);
    gbx_config_t config;
    gbx_shard_t where;
    kit_worker_config(worker, &config, &where);
    must(gbx_open(cuda, &config, &worker->gbx), "open");
    gbx_tensor_t tensors[KIT_MAX_TENSORS];
    char names[KIT_MAX_TENSORS][16];
    for (uint32_t t = 0; t < model->count; t++) {
        snprintf(names[t], sizeof(names[t]), "t%u", t);
        tensors[t] = (gbx_tensor_t){.name = names[t],
                                    .dims = 1,
                                    .shape = {model->values[t]},
                                    .weights = worker->weights + worker->tensor_at[t] * 4,
                                    .gradients = worker->gradients + worker->tensor_at[t] * 4};
    }
    must(gbx_declare(worker->gbx, tensors, model->count, model->slab ? GBX_SLAB : 0), "declare");
}

void kit_worker_close(kit_worker_t *worker)
{
    const gb_cuda_table_t *cuda = fake_cuda_table();
    gbx_close(worker->gbx);
    cuda->cuStreamSynchronize(worker->stream);
    cuda->cuStreamDestroy_v2(worker->stream);
    cuda->cuMemFree_v2(worker->weights);
    cuda->cuMemFree_v2(worker->gradients);
}

static float initial(uint64_t i, uint32_t seed)
{
    uint64_t x = (i + 1) * 0x9e3779b97f4a7c15ull + seed;
    x ^= x >> 29;
    x *= 0xbf58476d1ce4e5b9ull;
    x ^= x >> 32;
    return (float)(int64_t)(x & 0xffff) / 65536.0f - 0.5f;
}

void kit_worker_fill(kit_worker_t *worker, uint32_t seed)
{
    float *w = (float *)(uintptr_t)worker->weights;
    uint64_t i = 0;
    for (uint32_t t = 0; t < worker->model->count; t++) {
        for (uint64_t k = 0; k < worker->model->values[t]; k++)
            w[worker->tensor_at[t] + k] = initial(i++, seed);
    }
}

float kit_gradient(float w, uint64_t i, uint32_t id, uint64_t clock)
{
    float noise = (float)((i * 31 + id * 7 + clock * 13) % 17) - 8.0f;
    return 0.1f * w + 0.013f * noise;
}

typedef struct {
    kit_worker_t *worker;
    uint64_t clock;
} kernel_t;

static void kernel(void *arg)
{
    kernel_t *k = arg;
    kit_worker_t *worker = k->worker;
    const float *w = (const float *)(uintptr_t)worker->weights;
    float *g = (float *)(uintptr_t)worker->gradients;
    uint64_t i = 0;
    for (uint32_t t = 0; t < worker->model->count; t++) {
        for (uint64_t n = 0; n < worker->model->values[t]; n++, i++) {
            uint64_t at = worker->tensor_at[t] + n;
            g[at] = kit_gradient(w[at], i, worker->id, k->clock);
        }
    }
    worker->kernel_clock++;
    free(k);
}

void kit_worker_steps(kit_worker_t *worker, uint64_t clock, uint32_t steps, int layered)
{
    uint32_t count = worker->model->count;
    for (uint32_t s = 0; s < steps; s++, clock++) {
        kernel_t *k = malloc(sizeof(*k));
        *k = (kernel_t){worker, clock};
        fake_cuda_launch(worker->stream, kernel, k);
        gb_status_t st = GB_OK;
        if (layered) {
            for (uint32_t t = count; t > 0 && st == GB_OK; t--)
                st = gbx_push(worker->gbx, worker->stream, clock, worker->samples, t - 1, 1);
            if (st == GB_OK)
                st = gbx_pull(worker->gbx, worker->stream, clock + 1, 0, count);
        } else {
            st = gbx_push_pull(worker->gbx, worker->stream, clock, worker->samples);
        }
        if (st != GB_OK)
            return; /* poisoned: the test looks at the status */
    }
}

/* ---- reference ---- */

void kit_reference_init(kit_reference_t *ref, const kit_model_t *model, uint32_t seed)
{
    ref->total = 0;
    for (uint32_t t = 0; t < model->count; t++)
        ref->total += model->values[t];
    ref->weights = calloc(ref->total, sizeof(float));
    ref->velocity = calloc(ref->total, sizeof(float));
    for (uint64_t i = 0; i < ref->total; i++)
        ref->weights[i] = initial(i, seed);
}

void kit_reference_step(kit_reference_t *ref, const ps_optimizer_t *o, uint64_t clock,
                        const uint32_t *ids, const uint32_t *samples, uint32_t count)
{
    uint64_t total = 0;
    float lr = o->lr;
    if (o->schedule == PS_LR_STEP)
        lr = (float)((double)lr * pow((double)o->lr_gamma, (double)(clock / o->lr_step)));
    for (uint32_t k = 0; k < count; k++)
        total += samples[k];
    for (uint64_t i = 0; i < ref->total; i++) {
        float w = ref->weights[i], mean = 0;
        for (uint32_t k = 0; k < count; k++) {
            float scale = (float)((double)samples[k] / (double)total);
            float part = scale * kit_gradient(w, i, ids[k], clock);
            mean = k == 0 ? part : mean + part;
        }
        if (o->weight_decay != 0)
            mean = mean + o->weight_decay * w;
        float step = mean;
        if (o->momentum != 0) {
            float v = o->momentum * ref->velocity[i] + mean;
            ref->velocity[i] = v;
            step = o->nesterov ? mean + o->momentum * v : v;
        }
        ref->weights[i] = w - lr * step;
    }
}

void kit_reference_free(kit_reference_t *ref)
{
    free(ref->weights);
    free(ref->velocity);
}

int kit_same(const kit_worker_t *worker, const kit_reference_t *ref)
{
    const float *w = (const float *)(uintptr_t)worker->weights;
    uint64_t i = 0;
    for (uint32_t t = 0; t < worker->model->count; t++) {
        uint64_t n = worker->model->values[t];
        if (memcmp(w + worker->tensor_at[t], ref->weights + i, n * sizeof(float)) != 0) {
            fprintf(stderr, "testkit: worker %u differs in tensor %u: %.9g, expected %.9g\n",
                    worker->id, t, (double)w[worker->tensor_at[t]], (double)ref->weights[i]);
            return 0;
        }
        i += n;
    }
    return 1;
}

int kit_wait(int (*condition)(void *arg), void *arg, int seconds)
{
    uint64_t end = gb_now_ns() + (uint64_t)seconds * 1000000000u;
    struct timespec nap = {0, 2000000};
    while (!condition(arg)) {
        if (gb_now_ns() > end)
            return 0;
        nanosleep(&nap, NULL);
    }
    return 1;
}
