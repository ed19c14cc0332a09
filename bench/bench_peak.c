#include "bench/bench_peak.h"

#include <pthread.h>
#include <stdint.h>

#include "common/core/gb_clock.h"

#define MAX_THREADS 256
#define LANES 16
#define CHAINS 12 /* independent sums: covers the latency of the units */
#define ROUNDS 2000000

typedef float vector_t __attribute__((vector_size(LANES * sizeof(float))));

/* Both versions are the same code; the compiler fuses a * b + c where the target has FMA. */
#define PEAK_LOOP                                                                                  \
    vector_t sum[CHAINS], a, b;                                                                    \
    for (int i = 0; i < LANES; i++) {                                                              \
        a[i] = 0.999f;                                                                             \
        b[i] = 0.001f;                                                                             \
    }                                                                                              \
    for (int c = 0; c < CHAINS; c++)                                                               \
        sum[c] = a;                                                                                \
    for (int r = 0; r < ROUNDS; r++)                                                               \
        for (int c = 0; c < CHAINS; c++)                                                           \
            sum[c] = sum[c] * a + b;                                                               \
    float total = 0;                                                                               \
    for (int c = 0; c < CHAINS; c++)                                                               \
        total += sum[c][0];                                                                        \
    return total;

__attribute__((target("avx512f,prefer-vector-width=512"),
               optimize("O3,fp-contract=fast"))) static float
loop_avx512(void)
{
    PEAK_LOOP
}

__attribute__((target("avx2,fma"), optimize("O3,fp-contract=fast"))) static float loop_avx2(void)
{
    PEAK_LOOP
}

static void *run(void *out)
{
    volatile float *result = out;
    *result = __builtin_cpu_supports("avx512f") ? loop_avx512() : loop_avx2();
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
        double flops = 2.0 * LANES * CHAINS * ROUNDS * started / seconds;
        best = flops > best ? flops : best;
    }
    return best;
}
