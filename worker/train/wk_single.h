/* wk_single.h - mode single: one GPU, optimizer and data on the device, no server in the loop. */
#ifndef WK_SINGLE_H
#define WK_SINGLE_H

#include "worker/train/wk_progress.h"
#include "worker/train/wk_trainer.h"

typedef struct {
    uint32_t epochs, batch;
    float lr, momentum;
    float lr_gamma; /* factor of lr after each epoch; 0 counts as 1 */
} wk_single_config_t;

/* Trains all epochs, testing after each; *out is the last epoch's result. */
gb_status_t wk_single_run(wk_trainer_t *trainer, const wk_single_config_t *config,
                          wk_progress_t *progress, wk_result_t *out);

/* One epoch without the test. */
gb_status_t wk_single_epoch(wk_trainer_t *trainer, const wk_single_config_t *config, uint32_t epoch,
                            wk_progress_t *progress, wk_result_t *out);

#endif
