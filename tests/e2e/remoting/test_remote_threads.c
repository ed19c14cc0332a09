/* Several threads of one program on the remote client: lanes, order, hand-over.
 * usage: test_remote_threads null|cpu */
#include "tests/e2e/remoting/remote.h"

#include <pthread.h>
#include <stdlib.h>

enum { THREADS = 4, ROUNDS = 30 };

static void *worker(void *arg)
{
    unsigned n = 2000 + (unsigned)(uintptr_t)arg * 17;
    float a = 1, *x = numbers(n), *y = malloc(n * sizeof(*y));
    CUdeviceptr dx, dy;
    CUcontext before;
    CUstream stream;
    CUresult result = cuda->cuCtxGetCurrent(&before);
    if (before) /* of another thread */
        return (void *)1;
    if (!result)
        result = cuda->cuCtxSetCurrent(context);
    for (int round = 0; round < ROUNDS && !result; round++) {
        CUresult (*const steps)(CUdeviceptr *, size_t) = cuda->cuMemAlloc_v2;
        result = steps(&dx, n * 4);
        result = result ? result : steps(&dy, n * 4);
        result = result ? result : cuda->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
        result = result ? result : cuda->cuMemcpyHtoDAsync_v2(dx, x, n * 4, stream);
        result = result ? result : cuda->cuMemsetD32Async(dy, 0, n, stream);
        void *args[] = {&dy, &dx, &a, &n};
        for (int k = 0; k < 5 && !result; k++)
            result = cuda->cuLaunchKernel(saxpy, (n + 127) / 128, 1, 1, 128, 1, 1, 0, stream, args,
                                          NULL);
        result = result ? result : cuda->cuMemcpyDtoHAsync_v2(y, dy, n * 4, stream);
        for (unsigned i = 0; real && i < n && !result; i++)
            if (y[i] != 5 * x[i])
                result = CUDA_ERROR_UNKNOWN;
        result = result ? result : cuda->cuStreamDestroy_v2(stream);
        result = result ? result : cuda->cuMemFree_v2(dx);
        result = result ? result : cuda->cuMemFree_v2(dy);
    }
    free(x);
    free(y);
    return (void *)(uintptr_t)result;
}

static void threads(void **state)
{
    (void)state;
    pthread_t all[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&all[i], NULL, worker, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(all[i], &result);
        assert_int_equal((uintptr_t)result, 0);
    }
}

static void *nothing_much(void *arg)
{
    CUcontext current;
    (void)arg;
    cuda->cuCtxSetCurrent(context);
    cuda->cuCtxGetCurrent(&current);
    return (void *)(uintptr_t)cuda->cuStreamQuery(CU_STREAM_PER_THREAD);
}

/* More threads than there are lanes, one after the other. */
static void many_threads(void **state)
{
    (void)state;
    for (int i = 0; i < 600; i++) {
        pthread_t thread;
        void *result;
        assert_int_equal(pthread_create(&thread, NULL, nothing_much, NULL), 0);
        pthread_join(thread, &result);
        assert_int_equal((uintptr_t)result, 0);
    }
}

/* What one thread has queued is seen by another thread's copy, once told: no flush in between. */
typedef struct {
    CUdeviceptr p;
    unsigned want, got;
    CUresult result;
} handover_t;

static void *read_back(void *arg)
{
    handover_t *h = arg;
    h->result = cuda->cuCtxSetCurrent(context);
    if (!h->result)
        h->result = cuda->cuMemcpyDtoH_v2(&h->got, h->p, 4);
    return NULL;
}

static void handed_over(void **state)
{
    (void)state;
    handover_t h = {0};
    OK(cuda->cuMemAlloc_v2(&h.p, 4));
    for (unsigned i = 1; i <= 50; i++) {
        pthread_t thread;
        h.want = i;
        OK(cuda->cuMemsetD32Async(h.p, i, 1, NULL));
        assert_int_equal(pthread_create(&thread, NULL, read_back, &h), 0);
        pthread_join(thread, NULL);
        OK(h.result);
        assert_true(!real || h.got == i);
    }
    OK(cuda->cuMemFree_v2(h.p));
}

/* A wait that blocks one thread leaves the others going: the second thread ends the first one's wait. */
static void *wait_for_flag(void *arg)
{
    (void)arg;
    CUresult result = cuda->cuCtxSetCurrent(context);
    return (void *)(uintptr_t)(result ? result : cuda->cuStreamSynchronize(*(CUstream *)arg));
}

static void other_lanes_go_on(void **state)
{
    (void)state;
    CUstream waiting, writing;
    CUdeviceptr flag;
    pthread_t thread;
    void *result;
    OK(cuda->cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
    OK(cuda->cuStreamCreate(&writing, CU_STREAM_NON_BLOCKING));
    OK(cuda->cuMemAlloc_v2(&flag, 4));
    OK(cuda->cuMemsetD32Async(flag, 0, 1, writing));
    OK(cuda->cuStreamSynchronize(writing));
    OK(cuda->cuStreamWaitValue32_v2(waiting, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    assert_int_equal(pthread_create(&thread, NULL, wait_for_flag, &waiting), 0);
    for (int i = 0; i < 20; i++)
        OK(cuda->cuStreamSynchronize(writing));
    OK(cuda->cuStreamWriteValue32_v2(writing, flag, 1, 0));
    pthread_join(thread, &result);
    assert_int_equal((uintptr_t)result, 0);
    OK(cuda->cuStreamDestroy_v2(waiting));
    OK(cuda->cuStreamDestroy_v2(writing));
    OK(cuda->cuMemFree_v2(flag));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads),
        cmocka_unit_test(many_threads),
        cmocka_unit_test(handed_over),
        cmocka_unit_test(other_lanes_go_on),
    };
    proxy_t proxy;
    remote_open(argc, argv, &proxy);
    int failed = cmocka_run_group_tests(tests, remote_set_up, NULL);
    proxy_stop(&proxy);
    return failed;
}
