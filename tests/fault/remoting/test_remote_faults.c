/* Processes that die: session, client, proxy; and fork. On the `null` driver, which needs no compiler.
 * Each case runs in a child of its own, because the client library has one state per process. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/core/gb_clock.h"
#include "common/cuda/gb_driver.h"
#include "tests/e2e/remoting/proxy.h"
#include "tests/e2e/remoting/saxpy_ptx.h"

enum { PATIENCE_MS = 5000 };

static const gb_cuda_table_t *cuda;
static CUcontext context;

/* In children: ends the process with a message. */
#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

static void start(void)
{
    const gb_driver_t *driver;
    MUST(gb_driver_open(GABLE_BUILD_DIR "/lib/gable/remote/libcuda.so.1", &driver) == GB_OK);
    cuda = &driver->table;
    MUST(cuda->cuInit(0) == CUDA_SUCCESS);
    MUST(cuda->cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    MUST(cuda->cuCtxSetCurrent(context) == CUDA_SUCCESS);
}

/* Runs `body` in a child that finds the proxies; 1 if it ends with 0 in time. */
static int in_child(const char *endpoints, void (*body)(void *), void *arg)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        setenv("GABLE_PROXIES", endpoints, 1);
        body(arg);
        exit(0);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* ---- the session dies ---- */

static void *keep_calling(void *arg)
{
    CUdeviceptr p;
    (void)arg;
    MUST(cuda->cuCtxSetCurrent(context) == CUDA_SUCCESS);
    for (;;) {
        CUresult result = cuda->cuMemAlloc_v2(&p, 1000);
        if (result)
            return (void *)(uintptr_t)result;
        cuda->cuMemFree_v2(p);
    }
}

static void session_killed(void *arg)
{
    proxy_t *proxy = arg;
    pthread_t threads[3];
    CUdeviceptr p;
    start();
    for (int i = 0; i < 3; i++)
        MUST(pthread_create(&threads[i], NULL, keep_calling, NULL) == 0);
    uint64_t begin = gb_now_ns();
    MUST(kill(proxy_session(proxy, 0), SIGKILL) == 0);
    for (int i = 0; i < 3; i++) {
        void *result;
        MUST(pthread_join(threads[i], &result) == 0);
        MUST((uintptr_t)result == CUDA_ERROR_DEVICE_UNAVAILABLE);
    }
    /* for ever, at once, for every kind of call */
    MUST(cuda->cuMemAlloc_v2(&p, 4) == CUDA_ERROR_DEVICE_UNAVAILABLE);
    MUST(cuda->cuCtxSynchronize() == CUDA_ERROR_DEVICE_UNAVAILABLE);
    MUST(cuda->cuStreamQuery(NULL) == CUDA_ERROR_DEVICE_UNAVAILABLE);
    MUST(gb_now_ns() - begin < PATIENCE_MS * 1000000ull);
}

static void test_session_killed(void **state)
{
    proxy_t proxy;
    (void)state;
    proxy_start(&proxy, "null");
    assert_true(in_child(proxy.endpoint, session_killed, &proxy));
    proxy_stop(&proxy);
}

/* Only queued calls: the loss shows at one of the next. */
static void only_queued_calls(void *arg)
{
    CUstream stream;
    start();
    MUST(cuda->cuStreamCreate(&stream, 0) == CUDA_SUCCESS);
    MUST(cuda->cuStreamSynchronize(stream) == CUDA_SUCCESS);
    MUST(kill(proxy_session(arg, 0), SIGKILL) == 0);
    uint64_t end = gb_now_ns() + PATIENCE_MS * 1000000ull;
    CUresult result = CUDA_SUCCESS;
    CUevent event;
    MUST(cuda->cuEventCreate(&event, 0) == CUDA_SUCCESS || 1);
    while (!result && gb_now_ns() < end)
        result = cuda->cuEventRecord(event, stream);
    MUST(result == CUDA_ERROR_DEVICE_UNAVAILABLE);
}

static void test_only_queued_calls(void **state)
{
    proxy_t proxy;
    (void)state;
    proxy_start(&proxy, "null");
    assert_true(in_child(proxy.endpoint, only_queued_calls, &proxy));
    proxy_stop(&proxy);
}

/* ---- the proxy dies: its sessions go along, the other proxy's do not ---- */

static void proxy_killed(void *arg)
{
    proxy_t *proxies = arg;
    CUcontext second;
    CUdeviceptr p;
    int count = 0;
    start();
    MUST(cuda->cuDeviceGetCount(&count) == CUDA_SUCCESS && count == 2);
    MUST(cuda->cuDevicePrimaryCtxRetain(&second, 1) == CUDA_SUCCESS);
    MUST(kill(proxies[0].pid, SIGKILL) == 0);
    uint64_t end = gb_now_ns() + PATIENCE_MS * 1000000ull;
    CUresult result = CUDA_SUCCESS;
    while (!result && gb_now_ns() < end)
        result = cuda->cuCtxSynchronize();
    MUST(result == CUDA_ERROR_DEVICE_UNAVAILABLE);
    MUST(cuda->cuCtxSetCurrent(second) == CUDA_SUCCESS);
    MUST(cuda->cuMemAlloc_v2(&p, 4) == CUDA_SUCCESS);
    MUST(cuda->cuCtxSynchronize() == CUDA_SUCCESS);
}

static void test_proxy_killed(void **state)
{
    proxy_t proxies[2];
    char both[256];
    (void)state;
    proxy_start(&proxies[0], "null");
    proxy_start(&proxies[1], "null");
    snprintf(both, sizeof(both), "%s,%s", proxies[0].endpoint, proxies[1].endpoint);
    assert_true(in_child(both, proxy_killed, proxies));
    proxy_stop(&proxies[0]);
    proxy_stop(&proxies[1]);
}

/* ---- the client dies ---- */

static void client_to_be_killed(void *arg)
{
    CUdeviceptr p;
    (void)arg;
    start();
    MUST(cuda->cuMemAlloc_v2(&p, 1 << 20) == CUDA_SUCCESS);
    for (;;)
        pause();
}

static void test_client_killed(void **state)
{
    proxy_t proxy;
    (void)state;
    proxy_start(&proxy, "null");
    pid_t client = fork();
    if (client == 0) {
        alarm(30);
        setenv("GABLE_PROXIES", proxy.endpoint, 1);
        client_to_be_killed(NULL);
    }
    pid_t session = proxy_session(&proxy, 0);
    assert_int_equal(kill(client, SIGKILL), 0);
    waitpid(client, NULL, 0);
    assert_true(process_gone(session, 2000));
    proxy_stop(&proxy);
}

/* ---- fork: the child is told, and its end does not touch the parent's session ---- */

static void forking(void *arg)
{
    CUdeviceptr p;
    int status = -1, count;
    (void)arg;
    start();
    pid_t child = fork();
    if (child == 0) {
        CUcontext now;
        MUST(cuda->cuInit(0) == CUDA_ERROR_NOT_INITIALIZED);
        MUST(cuda->cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED);
        MUST(cuda->cuMemAlloc_v2(&p, 4) == CUDA_ERROR_NOT_INITIALIZED);
        MUST(cuda->cuCtxGetCurrent(&now) == CUDA_ERROR_NOT_INITIALIZED);
        MUST(cuda->cuCtxSynchronize() == CUDA_ERROR_NOT_INITIALIZED);
        exit(0); /* with all exit handlers and destructors */
    }
    waitpid(child, &status, 0);
    MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    MUST(cuda->cuMemAlloc_v2(&p, 4) == CUDA_SUCCESS);
    MUST(cuda->cuCtxSynchronize() == CUDA_SUCCESS);
}

static void test_fork(void **state)
{
    proxy_t proxy;
    (void)state;
    proxy_start(&proxy, "null");
    assert_true(in_child(proxy.endpoint, forking, NULL));
    /* The session ends with its parent, although... */
    assert_true(process_gone(proxy_session(&proxy, 0), 2000));
    proxy_stop(&proxy);
}

/* ... a forked child may live on with a copy of the socket. */
static void fork_and_leave(void *arg)
{
    int *ends = arg;
    start();
    if (fork() == 0) {
        char byte;
        alarm(30);
        close(ends[1]); /* its end comes when the test closes the other copies */
        MUST(read(ends[0], &byte, 1) >= 0);
        _exit(0);
    }
}

static void test_forked_child_survives(void **state)
{
    proxy_t proxy;
    int ends[2];
    (void)state;
    assert_int_equal(pipe(ends), 0);
    proxy_start(&proxy, "null");
    assert_true(in_child(proxy.endpoint, fork_and_leave, ends));
    assert_true(process_gone(proxy_session(&proxy, 0), 2000));
    close(ends[1]);
    close(ends[0]);
    proxy_stop(&proxy);
}

/* ---- starting ---- */

static void nobody_there(void *arg)
{
    const gb_driver_t *driver;
    (void)arg;
    MUST(gb_driver_open(GABLE_BUILD_DIR "/lib/gable/remote/libcuda.so.1", &driver) == GB_OK);
    uint64_t begin = gb_now_ns();
    MUST(driver->table.cuInit(0) == CUDA_ERROR_DEVICE_UNAVAILABLE);
    MUST(driver->table.cuInit(0) == CUDA_ERROR_DEVICE_UNAVAILABLE);
    MUST(gb_now_ns() - begin < PATIENCE_MS * 1000000ull);
}

static void no_proxies_named(void *arg)
{
    const gb_driver_t *driver;
    (void)arg;
    unsetenv("GABLE_PROXIES");
    MUST(gb_driver_open(GABLE_BUILD_DIR "/lib/gable/remote/libcuda.so.1", &driver) == GB_OK);
    MUST(driver->table.cuInit(0) == CUDA_ERROR_NO_DEVICE);
}

static void test_starting(void **state)
{
    (void)state;
    assert_true(in_child("unix:/nonexistent/socket", nobody_there, NULL));
    assert_true(in_child("", no_proxies_named, NULL));
}

/* ---- several proxies, one list ---- */

static void devices_of_two(void *arg)
{
    CUcontext contexts[2];
    CUdeviceptr p[2];
    CUstream foreign;
    CUuuid uuid;
    int ordinal, count = 0;
    (void)arg;
    start();
    MUST(cuda->cuDeviceGetCount(&count) == CUDA_SUCCESS && count == 2);
    for (int i = 0; i < 2; i++) {
        MUST(cuda->cuDeviceGetUuid_v2(&uuid, i) == CUDA_SUCCESS);
        MUST(cuda->cuDevicePrimaryCtxRetain(&contexts[i], i) == CUDA_SUCCESS);
        MUST(cuda->cuCtxSetCurrent(contexts[i]) == CUDA_SUCCESS);
        MUST(cuda->cuMemAlloc_v2(&p[i], 100) == CUDA_SUCCESS);
    }
    MUST(p[0] != p[1] && contexts[0] != contexts[1]);
    for (int i = 0; i < 2; i++) {
        MUST(cuda->cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p[i]) ==
             CUDA_SUCCESS);
        MUST(ordinal == i);
    }
    MUST(cuda->cuStreamCreate(&foreign, 0) == CUDA_SUCCESS); /* on device 1 */
    MUST(cuda->cuCtxSetCurrent(contexts[0]) == CUDA_SUCCESS);
    MUST(cuda->cuStreamSynchronize(foreign) == CUDA_SUCCESS);
    MUST(cuda->cuMemsetD8Async(p[0], 0, 100, foreign) == CUDA_ERROR_INVALID_VALUE);
    MUST(cuda->cuMemFree_v2(p[1]) == CUDA_SUCCESS);
    MUST(cuda->cuMemFree_v2(p[0]) == CUDA_SUCCESS);
}

static void visible(void *arg)
{
    int count = -1;
    const char **setting = arg;
    const gb_driver_t *driver;
    setenv("CUDA_VISIBLE_DEVICES", setting[0], 1);
    MUST(gb_driver_open(GABLE_BUILD_DIR "/lib/gable/remote/libcuda.so.1", &driver) == GB_OK);
    CUresult result = driver->table.cuInit(0);
    int want = atoi(setting[1]);
    MUST(result == (want ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE));
    if (want)
        MUST(driver->table.cuDeviceGetCount(&count) == CUDA_SUCCESS && count == want);
}

static void test_two_proxies(void **state)
{
    proxy_t proxies[2];
    char both[256];
    static const char *const settings[][2] = {{"1", "1"},       {"1,0", "2"},   {"", "0"},
                                              {"-1", "0"},      {"0,9,1", "1"}, {"0,0", "0"},
                                              {"GPU-6761", "1"}};
    (void)state;
    proxy_start(&proxies[0], "null");
    proxy_start(&proxies[1], "null");
    snprintf(both, sizeof(both), "%s,%s", proxies[0].endpoint, proxies[1].endpoint);
    assert_true(in_child(both, devices_of_two, NULL));
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
        assert_true(in_child(both, visible, (void *)(uintptr_t)settings[i]));
    proxy_stop(&proxies[0]);
    proxy_stop(&proxies[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_session_killed), cmocka_unit_test(test_only_queued_calls),
        cmocka_unit_test(test_proxy_killed),   cmocka_unit_test(test_client_killed),
        cmocka_unit_test(test_fork),           cmocka_unit_test(test_forked_child_survives),
        cmocka_unit_test(test_starting),       cmocka_unit_test(test_two_proxies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
