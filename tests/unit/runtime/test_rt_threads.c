/* Sixteen threads, each with its own stream, its own default stream and its own last error. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdlib.h>

#include "tests/unit/runtime/rt_program.h"

enum { THREADS = 16, ROUNDS = 20, N = 4096 };

static int add_on(cudaStream_t stream, float seed)
{
    static const dim3 grid = {N / 128, 1, 1}, block = {128, 1, 1};
    float *h = malloc(N * 4), *a = NULL, *b = NULL;
    int n = N, wrong = 0;
    for (int i = 0; i < N; i++)
        h[i] = seed + (float)i;
    wrong |= cudaMalloc((void **)&a, N * 4) | cudaMalloc((void **)&b, N * 4);
    wrong |= cudaMemcpyAsync(a, h, N * 4, cudaMemcpyHostToDevice, stream);
    wrong |= cudaLaunchKernel((void *)rt_add, grid, block, (void *[]){&a, &a, &b, &n}, 0, stream);
    wrong |= cudaMemcpyAsync(h, b, N * 4, cudaMemcpyDeviceToHost, stream);
    wrong |= cudaStreamSynchronize(stream);
    for (int i = 0; i < N; i++)
        wrong |= h[i] != 2 * (seed + (float)i);
    wrong |= cudaFree(a) | cudaFree(b);
    free(h);
    return wrong;
}

static void *work(void *arg)
{
    float seed = (float)(uintptr_t)arg;
    cudaStream_t own;
    intptr_t wrong = cudaStreamCreateWithFlags(&own, 1);
    for (int i = 0; i < ROUNDS && !wrong; i++) {
        wrong |= add_on(own, seed);
        wrong |= add_on(cudaStreamPerThread, seed + 0.5f);
    }
    wrong |= cudaStreamDestroy(own);
    wrong |= cudaMalloc(NULL, 1) != cudaErrorInvalidValue;
    wrong |= cudaGetLastError() != cudaErrorInvalidValue;
    wrong |= cudaGetLastError() != cudaSuccess;
    return (void *)wrong;
}

static void sixteen_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    void *wrong;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], &wrong);
        assert_null(wrong);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sixteen_threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
