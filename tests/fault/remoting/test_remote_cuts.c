/* Connections that are cut in the middle of work: what was begun goes on over a new one, and the results
 * are the same bit for bit. On the software device. */
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
#include "tests/e2e/remoting/relay.h"
#include "tests/e2e/remoting/saxpy_ptx.h"

enum { MIB = 1 << 20, BIG = 24 * MIB, LAUNCHES = 10000, FLOATS = 256 };

static const gb_cuda_table_t *cuda;
static CUcontext context;
static CUfunction saxpy;

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
    CUmodule module;
    MUST(gb_driver_open(GABLE_BUILD_DIR "/lib/gable/remote/libcuda.so.1", &driver) == GB_OK);
    cuda = &driver->table;
    MUST(cuda->cuInit(0) == CUDA_SUCCESS);
    MUST(cuda->cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    MUST(cuda->cuCtxSetCurrent(context) == CUDA_SUCCESS);
    MUST(cuda->cuModuleLoadData(&module, saxpy_ptx) == CUDA_SUCCESS);
    MUST(cuda->cuModuleGetFunction(&saxpy, module, "saxpy") == CUDA_SUCCESS);
}

/* ---- work whose result is known ---- */

static void fill(uint8_t *bytes, size_t size, uint32_t seed)
{
    for (size_t i = 0; i < size; i++) {
        seed = seed * 1664525u + 1013904223u;
        bytes[i] = (uint8_t)(seed >> 24);
    }
}

/* A large copy there and back, the program's own memory changed as soon as CUDA allows it. */
static void copy_both_ways(uint32_t seed)
{
    uint8_t *out = malloc(BIG), *in = malloc(BIG), *sent = malloc(BIG);
    CUdeviceptr p;
    fill(out, BIG, seed);
    memcpy(sent, out, BIG);
    MUST(cuda->cuMemAlloc_v2(&p, BIG) == CUDA_SUCCESS);
    MUST(cuda->cuMemcpyHtoD_v2(p, sent, BIG) == CUDA_SUCCESS);
    memset(sent, 0xee, BIG);
    memset(in, 0, BIG);
    MUST(cuda->cuMemcpyDtoH_v2(in, p, BIG) == CUDA_SUCCESS);
    MUST(memcmp(in, out, BIG) == 0);
    MUST(cuda->cuMemFree_v2(p) == CUDA_SUCCESS);
    free(out);
    free(in);
    free(sent);
}

/* Every launch adds 1 to all of y: one too many or too few shows. */
static void launch_many(void)
{
    float x[FLOATS], y[FLOATS], a = 1;
    unsigned n = FLOATS;
    CUdeviceptr dx, dy;
    void *args[] = {&dy, &dx, &a, &n};
    for (int i = 0; i < FLOATS; i++)
        x[i] = 1;
    MUST(cuda->cuMemAlloc_v2(&dx, sizeof(x)) == CUDA_SUCCESS);
    MUST(cuda->cuMemAlloc_v2(&dy, sizeof(y)) == CUDA_SUCCESS);
    MUST(cuda->cuMemcpyHtoD_v2(dx, x, sizeof(x)) == CUDA_SUCCESS);
    MUST(cuda->cuMemsetD32_v2(dy, 0, FLOATS) == CUDA_SUCCESS);
    for (int i = 0; i < LAUNCHES; i++)
        MUST(cuda->cuLaunchKernel(saxpy, 2, 1, 1, FLOATS / 2, 1, 1, 0, NULL, args, NULL) ==
             CUDA_SUCCESS);
    MUST(cuda->cuMemcpyDtoH_v2(y, dy, sizeof(y)) == CUDA_SUCCESS);
    for (int i = 0; i < FLOATS; i++)
        MUST(y[i] == (float)LAUNCHES);
    MUST(cuda->cuMemFree_v2(dx) == CUDA_SUCCESS);
    MUST(cuda->cuMemFree_v2(dy) == CUDA_SUCCESS);
}

/* A graph of launches is one small frame each time: it must run as often as it was launched. */
static void launch_graphs(void)
{
    enum { GRAPHS = 500 };
    float x[FLOATS], y[FLOATS], a = 1;
    unsigned n = FLOATS;
    CUdeviceptr dx, dy;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    void *args[] = {&dy, &dx, &a, &n};
    for (int i = 0; i < FLOATS; i++)
        x[i] = 1;
    MUST(cuda->cuMemAlloc_v2(&dx, sizeof(x)) == CUDA_SUCCESS);
    MUST(cuda->cuMemAlloc_v2(&dy, sizeof(y)) == CUDA_SUCCESS);
    MUST(cuda->cuMemcpyHtoD_v2(dx, x, sizeof(x)) == CUDA_SUCCESS);
    MUST(cuda->cuMemsetD32_v2(dy, 0, FLOATS) == CUDA_SUCCESS);
    MUST(cuda->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS);
    MUST(cuda->cuCtxSynchronize() == CUDA_SUCCESS);
    MUST(cuda->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
    for (int i = 0; i < 4; i++)
        MUST(cuda->cuLaunchKernel(saxpy, 2, 1, 1, FLOATS / 2, 1, 1, 0, stream, args, NULL) ==
             CUDA_SUCCESS);
    MUST(cuda->cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
    MUST(cuda->cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
    for (int i = 0; i < GRAPHS; i++)
        MUST(cuda->cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
    MUST(cuda->cuStreamSynchronize(stream) == CUDA_SUCCESS);
    MUST(cuda->cuMemcpyDtoH_v2(y, dy, sizeof(y)) == CUDA_SUCCESS);
    for (int i = 0; i < FLOATS; i++)
        MUST(y[i] == 4.f * GRAPHS);
}

static void *copy_thread(void *arg)
{
    MUST(cuda->cuCtxSetCurrent(context) == CUDA_SUCCESS);
    copy_both_ways((uint32_t)(uintptr_t)arg);
    return NULL;
}

static void *launch_thread(void *arg)
{
    (void)arg;
    MUST(cuda->cuCtxSetCurrent(context) == CUDA_SUCCESS);
    launch_many();
    return NULL;
}

/* Two large copies and 10,000 launches at once. */
static void work_at_once(void)
{
    pthread_t threads[3];
    MUST(pthread_create(&threads[0], NULL, copy_thread, (void *)11) == 0);
    MUST(pthread_create(&threads[1], NULL, copy_thread, (void *)12) == 0);
    MUST(pthread_create(&threads[2], NULL, launch_thread, NULL) == 0);
    for (int i = 0; i < 3; i++)
        MUST(pthread_join(threads[i], NULL) == 0);
}

/* Runs `body` in a child that finds the proxy; 1 if it ends with 0 in time. */
static int in_child(const proxy_t *proxy, const char *endpoint, const char *line,
                    void (*body)(void))
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        alarm(120);
        setenv("GABLE_PROXIES", endpoint ? endpoint : proxy->endpoint, 1);
        setenv("GABLE_LINK_EMULATE", line, 1);
        setenv("GABLE_LOG", "error", 1);
        if (*proxy->key)
            setenv("GABLE_KEY_FILE", proxy->key, 1);
        start();
        body();
        exit(0);
    }
    waitpid(child, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* How often the proxy passed a new connection to a session. */
static int resumptions(const proxy_t *proxy)
{
    char line[512];
    int count = 0;
    FILE *log = fopen(proxy->log, "r");
    while (log && fgets(line, sizeof(line), log))
        count += strstr(line, "is resumed from") != NULL;
    if (log)
        fclose(log);
    return count;
}

/* ---- cut again and again, on every kind of socket ---- */

static void all_work(void)
{
    copy_both_ways(1);
    launch_many();
    launch_graphs();
    work_at_once();
}

static void test_cut_again_and_again(void **state)
{
    static const proxy_link_t links[] = {PROXY_UNIX, PROXY_TCP, PROXY_TLS};
    (void)state;
    for (int i = 0; i < 3; i++) {
        proxy_t proxy;
        proxy_start_on(&proxy, "cpu", links[i], NULL, NULL);
        assert_true(in_child(&proxy, NULL, "cut=3M", all_work));
        assert_true(resumptions(&proxy) >= 30); /* 144 MiB of copies in pieces of 3 */
        proxy_stop(&proxy);
    }
}

/* ---- one cut for a time, in the middle ---- */

typedef struct {
    relay_t *relay;
    void (*change)(relay_t *, int);
    int ms;
    uint64_t at; /* bytes passed */
} cut_t;

static void *cut_main(void *arg)
{
    cut_t *c = arg;
    uint64_t end = gb_now_ns() + 60000000000ull;
    while (relay_up(c->relay) + relay_down(c->relay) < c->at && gb_now_ns() < end)
        poll(NULL, 0, 1);
    c->change(c->relay, 1);
    poll(NULL, 0, c->ms);
    c->change(c->relay, 0);
    return NULL;
}

static void one_copy(void)
{
    copy_both_ways(5);
}

/* Queued launches, and then nothing is called while the line is cut: what was on its way must not be lost,
 * and the session must not be given up. */
static void queue_and_idle(void)
{
    float x[FLOATS], y[FLOATS], a = 1;
    unsigned n = FLOATS;
    CUdeviceptr dx, dy;
    void *args[] = {&dy, &dx, &a, &n};
    for (int i = 0; i < FLOATS; i++)
        x[i] = 1;
    MUST(cuda->cuMemAlloc_v2(&dx, sizeof(x)) == CUDA_SUCCESS);
    MUST(cuda->cuMemAlloc_v2(&dy, sizeof(y)) == CUDA_SUCCESS);
    MUST(cuda->cuMemcpyHtoD_v2(dx, x, sizeof(x)) == CUDA_SUCCESS);
    MUST(cuda->cuMemsetD32_v2(dy, 0, FLOATS) == CUDA_SUCCESS);
    for (int i = 0; i < LAUNCHES; i++)
        MUST(cuda->cuLaunchKernel(saxpy, 2, 1, 1, FLOATS / 2, 1, 1, 0, NULL, args, NULL) ==
             CUDA_SUCCESS);
    poll(NULL, 0, 3000);
    MUST(cuda->cuMemcpyDtoH_v2(y, dy, sizeof(y)) == CUDA_SUCCESS);
    for (int i = 0; i < FLOATS; i++)
        MUST(y[i] == (float)LAUNCHES);
}

static void cut_for_a_time(void (*change)(relay_t *, int), int ms, void (*body)(void), uint64_t at)
{
    proxy_t proxy;
    char path[96], endpoint[112];
    pthread_t thread;
    proxy_start(&proxy, "cpu");
    snprintf(path, sizeof(path), "%s/relay", proxy.folder);
    snprintf(endpoint, sizeof(endpoint), "unix:%s", path);
    relay_t *relay = relay_start(path, proxy.endpoint + 5);
    cut_t cut = {.relay = relay, .change = change, .ms = ms, .at = at};
    assert_int_equal(pthread_create(&thread, NULL, cut_main, &cut), 0);
    uint64_t begin = gb_now_ns();
    /* the line does nothing, but says that it is a network */
    assert_true(in_child(&proxy, endpoint, "rtt=10us", body));
    assert_true(gb_now_ns() - begin >= (uint64_t)ms * 1000000u); /* it was in the middle */
    pthread_join(thread, NULL);
    assert_int_equal(resumptions(&proxy) > 0, change == relay_refuse);
    relay_stop(relay);
    proxy_stop(&proxy);
}

static void test_silence_for_half_a_second(void **state)
{
    (void)state;
    cut_for_a_time(relay_hold, 500, one_copy, 10 * MIB);
    cut_for_a_time(relay_hold, 500, launch_many, 300000);
}

static void test_silence_for_five_seconds(void **state)
{
    (void)state;
    cut_for_a_time(relay_hold, 5000, one_copy, 30 * MIB);
}

static void test_reset_within_the_grace(void **state)
{
    (void)state;
    cut_for_a_time(relay_refuse, 500, one_copy, 10 * MIB);
    cut_for_a_time(relay_refuse, 500, one_copy, 30 * MIB);
    cut_for_a_time(relay_refuse, 500, launch_many, 300000);
    cut_for_a_time(relay_refuse, 500, queue_and_idle, 800000);
}

/* ---- cut for good ---- */

static relay_t *last_relay;

static void *blocked_call(void *arg)
{
    (void)arg;
    MUST(cuda->cuCtxSetCurrent(context) == CUDA_SUCCESS);
    CUresult result = CUDA_SUCCESS;
    CUdeviceptr p;
    while (!result) {
        result = cuda->cuMemAlloc_v2(&p, 1000);
        if (!result)
            result = cuda->cuMemFree_v2(p);
    }
    return (void *)(uintptr_t)result;
}

static void until_it_is_lost(void)
{
    pthread_t threads[3];
    CUdeviceptr p;
    for (int i = 0; i < 3; i++)
        MUST(pthread_create(&threads[i], NULL, blocked_call, NULL) == 0);
    for (int i = 0; i < 3; i++) {
        void *result;
        MUST(pthread_join(threads[i], &result) == 0);
        MUST((uintptr_t)result == CUDA_ERROR_DEVICE_UNAVAILABLE);
    }
    uint64_t begin = gb_now_ns();
    MUST(cuda->cuMemAlloc_v2(&p, 4) == CUDA_ERROR_DEVICE_UNAVAILABLE);
    MUST(cuda->cuCtxSynchronize() == CUDA_ERROR_DEVICE_UNAVAILABLE);
    MUST(gb_now_ns() - begin < 1000000000ull);
}

static void *cut_for_good(void *arg)
{
    (void)arg;
    while (relay_up(last_relay) < 200000)
        poll(NULL, 0, 1);
    relay_refuse(last_relay, 1);
    return NULL;
}

static void test_cut_for_good(void **state)
{
    proxy_t proxy;
    char path[96], endpoint[112];
    pthread_t thread;
    (void)state;
    proxy_start_on(&proxy, "cpu", PROXY_UNIX, "--session-timeout", "2");
    snprintf(path, sizeof(path), "%s/relay", proxy.folder);
    snprintf(endpoint, sizeof(endpoint), "unix:%s", path);
    last_relay = relay_start(path, proxy.endpoint + 5);
    assert_int_equal(pthread_create(&thread, NULL, cut_for_good, NULL), 0);
    uint64_t begin = gb_now_ns();
    assert_true(in_child(&proxy, endpoint, "rtt=10us", until_it_is_lost));
    assert_true(gb_now_ns() - begin < 10000000000ull);
    pthread_join(thread, NULL);
    assert_true(process_gone(proxy_session(&proxy, 0), 3000));
    relay_stop(last_relay);
    proxy_stop(&proxy);
}

/* The session has died: nobody waits for a timeout. */
static proxy_t *killed_proxy;

static void kill_own_session(void)
{
    CUdeviceptr p;
    MUST(kill(proxy_session(killed_proxy, 0), SIGKILL) == 0);
    uint64_t begin = gb_now_ns();
    CUresult result = CUDA_SUCCESS;
    while (!result)
        result = cuda->cuMemAlloc_v2(&p, 4);
    MUST(result == CUDA_ERROR_DEVICE_UNAVAILABLE);
    MUST(gb_now_ns() - begin < 2000000000ull);
}

static void test_session_killed_over_tcp(void **state)
{
    proxy_t proxy;
    (void)state;
    proxy_start_on(&proxy, "cpu", PROXY_TCP, NULL, NULL);
    killed_proxy = &proxy;
    assert_true(in_child(&proxy, NULL, "", kill_own_session));
    proxy_stop(&proxy);
}

/* ---- silence ---- */

/* A program that does nothing for long keeps its session; one that is stopped loses it. */
static void idle_then_stopped(void)
{
    CUdeviceptr p;
    poll(NULL, 0, 4000); /* four times the timeout */
    MUST(cuda->cuMemAlloc_v2(&p, 4) == CUDA_SUCCESS);
    MUST(cuda->cuMemsetD8_v2(p, 1, 4) == CUDA_SUCCESS);
    MUST(cuda->cuCtxSynchronize() == CUDA_SUCCESS);
    MUST(raise(SIGSTOP) == 0);
    MUST(cuda->cuMemAlloc_v2(&p, 4) == CUDA_ERROR_DEVICE_UNAVAILABLE);
}

static void test_stopped_client(void **state)
{
    static const proxy_link_t links[] = {PROXY_UNIX, PROXY_TCP};
    (void)state;
    for (int i = 0; i < 2; i++) {
        proxy_t proxy;
        int status;
        proxy_start_on(&proxy, "cpu", links[i], "--session-timeout", "1");
        pid_t child = fork();
        if (child == 0) {
            alarm(60);
            setenv("GABLE_PROXIES", proxy.endpoint, 1);
            start();
            idle_then_stopped();
            exit(0);
        }
        assert_int_equal(waitpid(child, &status, WUNTRACED), child);
        assert_true(WIFSTOPPED(status));
        assert_true(process_gone(proxy_session(&proxy, 0), 4000));
        assert_int_equal(kill(child, SIGCONT), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        proxy_stop(&proxy);
    }
}

/* A call waits for honest work for as long as it takes; at a session that is stopped it ends in time. */
static proxy_t *stopped_proxy;

static void nap(void *arg)
{
    poll(arg, 0, 3000); /* three times the timeout */
}

static void wait_at_stopped_session(void)
{
    CUstream stream;
    MUST(cuda->cuStreamCreate(&stream, 0) == CUDA_SUCCESS);
    MUST(cuda->cuLaunchHostFunc(stream, nap, NULL) == CUDA_SUCCESS);
    MUST(cuda->cuStreamSynchronize(stream) == CUDA_SUCCESS);
    MUST(cuda->cuCtxSynchronize() == CUDA_SUCCESS);
    MUST(kill(proxy_session(stopped_proxy, 0), SIGSTOP) == 0);
    uint64_t begin = gb_now_ns();
    CUresult result = CUDA_SUCCESS;
    while (!result) /* the signal may not have come to all its threads yet */
        result = cuda->cuCtxSynchronize();
    MUST(result == CUDA_ERROR_DEVICE_UNAVAILABLE);
    MUST(gb_now_ns() - begin < 4000000000ull);
    MUST(cuda->cuCtxSynchronize() == CUDA_ERROR_DEVICE_UNAVAILABLE);
}

static void test_stopped_session(void **state)
{
    static const proxy_link_t links[] = {PROXY_UNIX, PROXY_TCP, PROXY_TLS};
    (void)state;
    for (int i = 0; i < 3; i++) {
        proxy_t proxy;
        proxy_start_on(&proxy, "cpu", links[i], "--session-timeout", "1");
        stopped_proxy = &proxy;
        assert_true(in_child(&proxy, NULL, "", wait_at_stopped_session));
        assert_int_equal(kill(proxy_session(&proxy, 0), SIGCONT), 0);
        proxy_stop(&proxy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_again_and_again),
        cmocka_unit_test(test_silence_for_half_a_second),
        cmocka_unit_test(test_silence_for_five_seconds),
        cmocka_unit_test(test_reset_within_the_grace),
        cmocka_unit_test(test_cut_for_good),
        cmocka_unit_test(test_session_killed_over_tcp),
        cmocka_unit_test(test_stopped_client),
        cmocka_unit_test(test_stopped_session),
    };
    need_compiler("cpu");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
