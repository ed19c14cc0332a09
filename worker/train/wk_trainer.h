/* wk_trainer.h - one GPU's part of a training run: device, data, model, and how an epoch goes.
 *
 * The modes differ in what happens around a step; they give it as hooks. One thread per trainer. */
#ifndef WK_TRAINER_H
#define WK_TRAINER_H

#include <stdint.h>

#include "worker/data/wk_dataset.h"
#include "worker/nn/wk_net.h"
#include "worker/train/wk_progress.h"

typedef struct {
    const wk_model_t *model;
    wk_device_t device;
    wk_net_t *net;
    wk_resident_t train, test;
    uint32_t *order; /* train.count, scratch */
    uint64_t seed;
    volatile const int *stop; /* set from outside: give up (GB_ERR_CANCELLED) */
} wk_trainer_t;

/* What part of an epoch to train. */
typedef struct {
    uint32_t epoch, epochs;
    uint32_t first, count; /* share of the training samples */
    uint32_t iterations;
    uint32_t world; /* workers in step with this one; rates are shown for all of them */
} wk_share_t;

typedef struct {
    void *context;
    wk_net_ready_t ready; /* gradients of some tensors are complete; or NULL */
    /* Before the gradients of iteration t with `valid` samples are computed; or NULL. */
    gb_status_t (*before)(void *context, uint32_t t, uint32_t valid);
    /* After them: updates the weights, or has them updated. */
    gb_status_t (*after)(void *context, uint32_t t, uint32_t valid);
    /* At every reading of the loss, at most 50 steps apart; or NULL. */
    gb_status_t (*check)(void *context);
} wk_hooks_t;

typedef struct {
    double loss;     /* mean over the share's samples */
    double accuracy; /* on the test set */
    double rate;     /* samples per second, of this GPU */
    double seconds;  /* of training the epoch */
    double total;    /* seconds of all epochs with their tests; set at the end of a run */
} wk_result_t;

/* Opens device `ordinal`, uploads the data, prepares the model for `batch` samples a step with initial
 * weights by `seed`. *out must not move; on failure it is all zeroes. Free it with wk_trainer_free. */
gb_status_t wk_trainer_make(const gb_driver_t *driver, int ordinal, const wk_model_t *model,
                            const wk_dataset_t *data, uint32_t batch, uint64_t seed,
                            wk_trainer_t *out);
void wk_trainer_free(wk_trainer_t *trainer);

/* Writes the initial weights to the device. */
gb_status_t wk_trainer_reset(wk_trainer_t *trainer);

/* Trains the share; fills loss, rate and seconds of *out. GB_ERR_INVALID if the loss is no number any more.
 * `progress` may be NULL. */
gb_status_t wk_trainer_epoch(wk_trainer_t *trainer, const wk_share_t *share,
                             const wk_hooks_t *hooks, wk_progress_t *progress, wk_result_t *out);

/* Share of right answers on the test set, 0 to 1. */
gb_status_t wk_trainer_test(wk_trainer_t *trainer, double *accuracy);

/* Writes the weights to a safetensors file. */
gb_status_t wk_trainer_save(wk_trainer_t *trainer, const char *path);

#endif
