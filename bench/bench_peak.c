#include "bench/bench_peak.h"

#include <pthread.h>
#include <stdint.h>

#include "common/core/gb_clock.h"

#define MAX_THREADS 256
#define ROUNDS 4000000
#define CHAINS 12 /* independent sums: covers the latency of the units */

typedef float wide_t __attribute__((vector_size(64)));
typedef float narrow_t __attribute__((vector_size(32)));

/* One loop for each vector type; the compiler fuses a * b + c where the target has FMA. Every chain
 * starts elsewhere: equal ones would be computed once. */
#define PEAK_LOOP(type)                                                                            \
    type a = {0}, b = {0}, sum[CHAINS];                                                            \
    a += 0.999f;                                                                                   \
    b += 0.001f;                                                                                   \
    _Pragma("GCC unroll 16") for (int c = 0; c < CHAINS; c++) sum[c] = a + (float)c;               \
    for (int r = 0; r < ROUNDS; r++)                                                               \
        _Pragma("GCC unroll 16") for (int c = 0; c < CHAINS; c++) sum[c] = sum[c] * a + b;         \
    _Pragma("GCC unroll 16") for (int c = 1; c < CHAINS; c++) sum[0] += sum[c];                    \
    return sum[0][0];

__attribute__((target("avx512f,prefer-vector-width=512"),
               optimize("O3,fp-contract=fast"))) static float
loop_wide(void)
{
    PEAK_LOOP(wide_t)
}

__attribute__((target("avx2,fma"), optimize("O3,fp-contract=fast"))) static float loop_narrow(void)
{
    PEAK_LOOP(narrow_t)
}

static int lanes(void)
{
    return __builtin_cpu_supports("avx512f") ? 16 : 8;
}

static void *run(void *out)
{
    volatile float *result = out;
    *result = lanes() == 16 ? loop_wide() : loop_narrow();
    return NULL;
}

double bench_peak_flops(int threads)
{
    pthread_t ids[MAX_THREADS];
    float results[MAX_THREADS];
    double best = 0;
    threads = threads < 1 ? 1 : threads > MAX_THREADS ? MAX_THREADS : threads;
    for (int attempt = 0; attempt < 3; attempt++) {
        uint64_t start = gb_now_ns();
        int started = 0;
        while (started < threads &&
               pthread_create(&ids[started], NULL, run, &results[started]) == 0)
            started++;
        for (int i = 0; i < started; i++)
            pthread_join(ids[i], NULL);
        double seconds = (double)(gb_now_ns() - start) * 1e-9;
        double flops = 2.0 * lanes() * CHAINS * ROUNDS * started / seconds;
        best = flops > best ? flops : best;
    }
    return best;
}
