#include "worker/train/wk_order.h"

#include "worker/nn/wk_rng.h"

uint32_t wk_order_iterations(uint32_t samples, uint32_t batch)
{
    return (uint32_t)(((uint64_t)samples + batch - 1) / batch);
}

uint32_t wk_order_start(uint32_t count, uint32_t iterations, uint32_t t)
{
    return (uint32_t)((uint64_t)count * t / iterations);
}

uint32_t wk_order_widest(uint32_t count, uint32_t iterations)
{
    return (uint32_t)(((uint64_t)count + iterations - 1) / iterations);
}

void wk_order_shuffle(uint64_t seed, uint32_t epoch, uint32_t first, uint32_t count,
                      uint32_t *order)
{
    for (uint32_t i = 0; i < count; i++)
        order[i] = first + i;
    for (uint32_t i = count; i > 1; i--) {
        uint32_t j = wk_rng_below(seed, WK_RNG_SHUFFLE + epoch, i, i);
        uint32_t keep = order[i - 1];
        order[i - 1] = order[j];
        order[j] = keep;
    }
}
