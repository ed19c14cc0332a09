/* Errors: which, when, and how they are remembered. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>

#include "tests/unit/runtime/rt_program.h"

#define OK(call) assert_int_equal(call, cudaSuccess)

static void nobody(void) {}

static const dim3 ONE = {1, 1, 1};

static void names(void **state)
{
    (void)state;
    assert_string_equal(cudaGetErrorName(cudaSuccess), "cudaSuccess");
    assert_string_equal(cudaGetErrorString(cudaSuccess), "no error");
    assert_string_equal(cudaGetErrorName(cudaErrorInvalidDeviceFunction),
                        "cudaErrorInvalidDeviceFunction");
    assert_string_equal(cudaGetErrorString(cudaErrorInvalidValue), "invalid argument");
    assert_string_equal(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    assert_string_equal(cudaGetErrorName((cudaError_t)12345), "unrecognized error code");
    assert_string_equal(cudaGetErrorString((cudaError_t)12345), "unrecognized error code");
}

static void remembered_once(void **state)
{
    (void)state;
    OK(cudaGetLastError());
    assert_int_equal(cudaMalloc(NULL, 4), cudaErrorInvalidValue);
    assert_int_equal(cudaSetDevice(1000), cudaErrorInvalidDevice);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
    OK(cudaGetLastError());
}

static void *last_of_another_thread(void *out)
{
    *(cudaError_t *)out = cudaGetLastError();
    return NULL;
}

static void remembered_per_thread(void **state)
{
    (void)state;
    pthread_t thread;
    cudaError_t other = cudaErrorUnknown;
    assert_int_equal(cudaMalloc(NULL, 4), cudaErrorInvalidValue);
    assert_int_equal(pthread_create(&thread, NULL, last_of_another_thread, &other), 0);
    pthread_join(thread, NULL);
    OK(other);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
}

static void launches(void **state)
{
    (void)state;
    dim3 zero = {0, 1, 1}, big = {2048, 1, 1}, tall = {1, 1, 100};
    assert_int_equal(cudaLaunchKernel((void *)nobody, ONE, ONE, NULL, 0, NULL),
                     cudaErrorInvalidDeviceFunction);
    assert_int_equal(cudaLaunchKernel((void *)rt_count, zero, ONE, NULL, 0, NULL),
                     cudaErrorInvalidConfiguration);
    assert_int_equal(cudaLaunchKernel((void *)rt_count, ONE, big, NULL, 0, NULL),
                     cudaErrorInvalidConfiguration);
    assert_int_equal(cudaLaunchKernel((void *)rt_count, ONE, tall, NULL, 0, NULL),
                     cudaErrorInvalidConfiguration);
    assert_int_equal(cudaLaunchKernel((void *)rt_count, ONE, ONE, NULL, 1 << 30, NULL),
                     cudaErrorInvalidValue);
    dim3 g, b;
    size_t s;
    cudaStream_t on;
    assert_int_equal(__cudaPopCallConfiguration(&g, &b, &s, &on), cudaErrorMissingConfiguration);
    assert_int_equal(cudaGetLastError(), cudaErrorMissingConfiguration);
}

static void arguments(void **state)
{
    (void)state;
    struct cudaFuncAttributes a;
    void *p, *far = (void *)0x10;
    char host[8] = {0};
    assert_int_equal(cudaMemcpy(host, host, 8, (enum cudaMemcpyKind)9),
                     cudaErrorInvalidMemcpyDirection);
    assert_int_equal(cudaMemcpyToSymbol(rt_factors, host, 17, 0, cudaMemcpyHostToDevice),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpyToSymbol(rt_factors, host, 4, 13, cudaMemcpyHostToDevice),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpyToSymbol(rt_factors, host, 4, 0, cudaMemcpyDeviceToHost),
                     cudaErrorInvalidMemcpyDirection);
    assert_int_equal(cudaMemcpyToSymbol(host, host, 4, 0, cudaMemcpyHostToDevice),
                     cudaErrorInvalidSymbol);
    assert_int_equal(cudaFuncGetAttributes(&a, (void *)nobody), cudaErrorInvalidDeviceFunction);
    assert_int_equal(cudaFuncGetAttributes(NULL, (void *)rt_add), cudaErrorInvalidValue);
    assert_int_equal(cudaFree(far), cudaErrorInvalidValue);
    assert_int_equal(cudaMalloc(&p, (size_t)1 << 60), cudaErrorMemoryAllocation);
    assert_int_equal(cudaEventDestroy(NULL), cudaErrorInvalidResourceHandle);
    assert_int_equal(cudaStreamDestroy(NULL), cudaErrorInvalidResourceHandle);
    assert_int_equal(cudaMemcpy2D(host, 2, host, 8, 4, 1, cudaMemcpyHostToHost),
                     cudaErrorInvalidPitchValue);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidPitchValue);
}

/* An execution fault comes at the next synchronising call and stays until the device is reset. */
static void faults_stick(void **state)
{
    (void)state;
    int *wild = (int *)0x40;
    void *p;
    OK(cudaLaunchKernel((void *)rt_touch, ONE, ONE, (void *[]){&wild}, 0, NULL));
    assert_int_equal(cudaDeviceSynchronize(), 700);
    assert_int_equal(cudaGetLastError(), 700);
    assert_int_equal(cudaMalloc(&p, 4), 700);
    OK(cudaDeviceReset());
    OK(cudaMalloc(&p, 4));
    OK(cudaFree(p));
    OK(cudaGetLastError());
}

static void exported_tables_are_refused(void **state)
{
    (void)state;
    const void *table = &table;
    cudaUUID_t id = {{0}};
    assert_int_equal(cudaGetExportTable(&table, &id), cudaErrorInvalidValue);
    assert_ptr_equal(table, &table);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidValue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(names),
                                       cmocka_unit_test(remembered_once),
                                       cmocka_unit_test(launches),
                                       cmocka_unit_test(remembered_per_thread),
                                       cmocka_unit_test(arguments),
                                       cmocka_unit_test(faults_stick),
                                       cmocka_unit_test(exported_tables_are_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
