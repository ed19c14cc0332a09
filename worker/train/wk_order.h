/* wk_order.h - which samples a worker takes when. Pure functions. */
#ifndef WK_ORDER_H
#define WK_ORDER_H

#include <stdint.h>

/* Iterations of an epoch of `samples` with a global batch of `batch`: rounded up. */
uint32_t wk_order_iterations(uint32_t samples, uint32_t batch);

/* Start of iteration `t` in a share of `count` samples: all iterations get count / iterations samples,
 * give or take one. Iteration t owns [wk_order_start(t), wk_order_start(t + 1)). */
uint32_t wk_order_start(uint32_t count, uint32_t iterations, uint32_t t);

/* Most samples that an iteration of such a share can have. */
uint32_t wk_order_widest(uint32_t count, uint32_t iterations);

/* Fills order[0..count) with first .. first + count - 1, shuffled for (seed, epoch). */
void wk_order_shuffle(uint64_t seed, uint32_t epoch, uint32_t first, uint32_t count,
                      uint32_t *order);

#endif
