/* wk_rng.h - counter-based random numbers: value i of stream s under a seed is a pure function of the
 * three, so that runs are the same on every machine and with any number of workers. Thread-safe. */
#ifndef WK_RNG_H
#define WK_RNG_H

#include <stdint.h>

/* Streams: what the numbers are for. A further index (tensor, epoch) is added to the base. */
#define WK_RNG_INIT 0x1000000000000000ull
#define WK_RNG_SHUFFLE 0x2000000000000000ull

/* 64 random bits. The mixer is the finaliser of SplitMix64, applied to each input in turn. */
static inline uint64_t wk_rng_bits(uint64_t seed, uint64_t stream, uint64_t index)
{
    uint64_t z = seed;
    const uint64_t parts[3] = {0, stream, index};
    for (int i = 0; i < 3; i++) {
        z = (z ^ parts[i]) + 0x9e3779b97f4a7c15ull;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
        z ^= z >> 31;
    }
    return z;
}

/* Uniform in [-limit, limit). */
static inline float wk_rng_uniform(uint64_t seed, uint64_t stream, uint64_t index, float limit)
{
    float unit = (float)(wk_rng_bits(seed, stream, index) >> 40) * 0x1p-24f;
    return (2.0f * unit - 1.0f) * limit;
}

/* Uniform in [0, bound). The bias of at most bound / 2^64 is of no consequence here. */
static inline uint32_t wk_rng_below(uint64_t seed, uint64_t stream, uint64_t index, uint32_t bound)
{
    return (uint32_t)(((unsigned __int128)wk_rng_bits(seed, stream, index) * bound) >> 64);
}

#endif
