#include "worker/train/wk_run.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_log.h"
#include "worker/data/wk_dataset.h"
#include "worker/nn/wk_model.h"
#include "worker/train/wk_bsp.h"
#include "worker/train/wk_cluster.h"
#include "worker/train/wk_order.h"
#include "worker/train/wk_single.h"
#include "worker/train/wk_trainer.h"
#include "worker/train/wk_weights.h"

#define MAX_MEMBERS 64

/* Everything of a run that outlives one step of it. */
typedef struct {
    wk_config_t config;
    volatile const int *stop;
    wk_model_t model;
    wk_dataset_t data;
    wk_cluster_t cluster;
    const gb_driver_t *driver;
    wk_progress_t progress;
    wk_bsp_result_t result;
} run_t;

/* One GPU of this worker; in mode bsp each has its own thread. */
typedef struct {
    run_t *run;
    int ordinal;
    pthread_t thread;
    wk_bsp_result_t result;
    gb_status_t status;
    char why[256];
} gpu_t;

static gb_status_t run_gpu(gpu_t *g)
{
    run_t *r = g->run;
    const wk_config_t *c = &r->config;
    wk_trainer_t trainer;
    uint32_t members = c->mode == WK_MODE_BSP ? (uint32_t)(c->workers * c->gpus) : 1;
    uint32_t batch = (uint32_t)((c->batch + members - 1) / members);
    gb_status_t status = wk_trainer_make(r->driver, g->ordinal, &r->model, &r->data, batch,
                                         (uint64_t)c->seed, &trainer);
    if (status != GB_OK)
        return status;
    trainer.stop = r->stop;
    wk_progress_t *progress = g->ordinal == 0 ? &r->progress : NULL;
    if (c->mode == WK_MODE_BSP) {
        status = wk_bsp_run(&trainer, &r->cluster, c, progress, &g->result);
    } else {
        wk_single_config_t single = {.epochs = (uint32_t)c->epochs,
                                     .batch = (uint32_t)c->batch,
                                     .lr = (float)c->lr,
                                     .momentum = (float)c->momentum,
                                     .lr_gamma = (float)wk_config_lr_gamma(c)};
        g->result.epochs = single.epochs;
        g->result.world = 1;
        status = wk_single_run(&trainer, &single, progress, &g->result.last);
    }
    if (status == GB_OK && g->ordinal == 0 && c->out)
        status = wk_trainer_save(&trainer, c->out);
    wk_trainer_free(&trainer);
    return status;
}

static void *gpu_thread(void *context)
{
    gpu_t *g = context;
    g->status = run_gpu(g);
    if (g->status != GB_OK)
        snprintf(g->why, sizeof(g->why), "%s", gb_why()); /* it belongs to this thread */
    return NULL;
}

static gb_status_t run_gpus(run_t *r)
{
    gpu_t gpus[MAX_MEMBERS] = {{0}};
    int count = (int)r->config.gpus, started = 0;
    gb_status_t status = GB_OK;
    for (; started < count; started++) {
        gpu_t *g = &gpus[started];
        *g = (gpu_t){.run = r, .ordinal = started};
        int error = pthread_create(&g->thread, NULL, gpu_thread, g);
        if (error) {
            status = gb_fail_errno(GB_ERR_NO_MEMORY, error, "no thread for GPU %d", started);
            break;
        }
    }
    for (int i = 0; i < started; i++) {
        pthread_join(gpus[i].thread, NULL);
        if (status == GB_OK && gpus[i].status != GB_OK)
            status = gb_fail(gpus[i].status, "%s", gpus[i].why);
    }
    if (status == GB_OK)
        r->result = gpus[0].result;
    return status;
}

static void print_json(const run_t *r)
{
    const wk_config_t *c = &r->config;
    unsigned workers = r->result.world / (unsigned)c->gpus;
    printf("{\"model\":\"%s\",\"mode\":\"%s\",\"epochs\":%u,\"workers\":%u,\"gpus\":%u,"
           "\"test_accuracy\":%.4f,\"seconds\":%.2f,\"weights\":",
           r->model.name, c->mode == WK_MODE_BSP ? "bsp" : "single", r->result.epochs,
           workers ? workers : 1, r->result.world, r->result.last.accuracy, r->result.last.total);
    if (c->out) {
        putchar('"');
        for (const char *p = c->out; *p; p++) {
            if (*p == '"' || *p == '\\')
                putchar('\\');
            putchar(*p);
        }
        puts("\"}");
    } else {
        puts("null}");
    }
    fflush(stdout);
}

static gb_status_t prepare(run_t *r)
{
    wk_config_t *c = &r->config;
    gb_status_t status = c->out ? wk_weights_check(c->out) : GB_OK;
    if (status == GB_OK)
        status = wk_model_load(c->model, &r->model);
    if (status == GB_OK)
        status = wk_dataset_load(c->data, r->model.classes, &r->data);
    if (status != GB_OK)
        return status;
    if (!c->job)
        c->job = r->model.name;
    if (c->server) {
        uint32_t gpus = strcmp(c->driver, "remote") == 0 ? (uint32_t)c->gpus : 0;
        status = wk_cluster_open(c, gpus, &r->cluster);
    }
    if (status == GB_OK)
        status = wk_cluster_driver(&r->cluster, c->driver, &r->driver);
    return status;
}

/* Bad input is the user's to correct, everything else went wrong while running. */
static int exit_code(gb_status_t status)
{
    switch (status) {
    case GB_OK:
        return 0;
    case GB_ERR_INVALID:
    case GB_ERR_FORMAT:
    case GB_ERR_NOT_FOUND:
        return 2;
    default:
        return 1;
    }
}

int wk_run(const wk_config_t *config, volatile const int *stop)
{
    run_t *r = calloc(1, sizeof(*r));
    if (!r) {
        gb_complain("no memory: free some");
        return 1;
    }
    r->config = *config;
    r->stop = stop;
    wk_progress_init(&r->progress, (uint32_t)config->epochs);
    gb_status_t status = prepare(r);
    if (status == GB_OK)
        status = run_gpus(r);
    if (r->progress.open)
        wk_progress_note(&r->progress, "%s", "");
    if (status != GB_OK)
        gb_complain("%s", gb_why());
    else if (config->json)
        print_json(r);
    wk_cluster_close(&r->cluster, r->driver);
    wk_dataset_free(&r->data);
    free(r);
    return exit_code(status);
}
