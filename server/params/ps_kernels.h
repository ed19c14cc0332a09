/* ps_kernels.h - the arithmetic of the shard: weighted sums of gradients and optimizer steps.
 *
 * Vectorised for the CPU at hand (AVX-512, AVX2 or plain), with the same bits on all of them: every
 * element is computed by the same operations in the same order, without fused multiply-add. Pure
 * functions, thread-safe. */
#ifndef PS_KERNELS_H
#define PS_KERNELS_H

#include <stdint.h>

#include "server/params/ps_params.h"

/* One optimizer step's constants. */
typedef struct {
    float lr, momentum, weight_decay;
    int nesterov;
} ps_step_t;

/* The constants at a clock: applies the schedule. */
ps_step_t ps_step_at(const ps_optimizer_t *optimizer, uint64_t clock);

/* Elements of a block: what ps_apply works on at once, so that the mean stays in the first cache. */
enum { PS_BLOCK = 2048 };

/* mean = sum over i of scale[i] * gradient[i], in that order; scale[i] is samples_i / all samples,
 * rounded to float; a gradient of scale 0 is skipped. Then one SGD step from (weights, velocity) to
 * (weights_out, velocity_out), which may be the same arrays. velocity may be NULL if momentum is 0. */
void ps_apply(const ps_step_t *step, uint32_t elements, uint32_t count,
              const float *const *gradient, const float *scale, const float *weights,
              float *weights_out, const float *velocity, float *velocity_out);

/* Name of the variant in use: "avx512", "avx2" or "plain". */
const char *ps_kernels_name(void);

#endif
