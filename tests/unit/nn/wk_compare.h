/* wk_compare.h - runs training steps on a device and in the plain C reference, and compares. */
#ifndef WK_COMPARE_H
#define WK_COMPARE_H

#include <stdint.h>

#include "worker/nn/wk_device.h"
#include "worker/nn/wk_model.h"

/* Trains `steps` steps of `batch` random samples (the last step has `last` valid ones) on both sides
 * from the same weights and compares loss, right answers, every gradient and every weight.
 * Gradients may differ by 1e-4 of the largest gradient of their tensor (sums of up to 100,352 terms in
 * another order), losses by 1e-4 relative. Prints and returns the number of differences. */
int wk_compare_steps(wk_device_t *device, const wk_model_t *model, uint32_t batch, uint32_t last,
                     uint32_t steps);

#endif
