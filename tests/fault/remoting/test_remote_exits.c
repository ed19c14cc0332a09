/* Programs that end in the middle of their work, in every way that there is: the process ends cleanly and
 * its session with it. And what two sessions on one device leave each other. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>
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

#define SHIM GABLE_BUILD_DIR "/lib/gable/remote/libcuda.so.1"

enum { MIB = 1 << 20 };

static const gb_cuda_table_t *cuda;
static CUcontext context;
static CUfunction saxpy, spin;

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
    MUST(gb_driver_open(SHIM, &driver) == GB_OK);
    cuda = &driver->table;
    MUST(cuda->cuInit(0) == CUDA_SUCCESS);
    MUST(cuda->cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS);
    MUST(cuda->cuCtxSetCurrent(context) == CUDA_SUCCESS);
    MUST(cuda->cuModuleLoadData(&module, saxpy_ptx) == CUDA_SUCCESS);
    MUST(cuda->cuModuleGetFunction(&saxpy, module, "saxpy") == CUDA_SUCCESS);
    MUST(cuda->cuModuleGetFunction(&spin, module, "spin") == CUDA_SUCCESS);
}

/* A kernel that never ends, and calls queued behind it. */
static void work_without_end(void)
{
    CUdeviceptr flag;
    void *args[] = {&flag};
    MUST(cuda->cuMemAlloc_v2(&flag, MIB) == CUDA_SUCCESS);
    MUST(cuda->cuMemsetD32_v2(flag, 0, 1) == CUDA_SUCCESS);
    MUST(cuda->cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL) == CUDA_SUCCESS);
    for (int i = 0; i < 1000; i++)
        MUST(cuda->cuMemsetD8Async(flag, 0, 4, NULL) == CUDA_SUCCESS);
}

static void exit_in_the_middle(void)
{
    start();
    work_without_end();
    exit(0);
}

static void *wait_for_ever(void *arg)
{
    (void)arg;
    MUST(cuda->cuCtxSetCurrent(context) == CUDA_SUCCESS);
    cuda->cuCtxSynchronize();
    return NULL;
}

/* One thread waits in a call while another ends the program. */
static void *exit_main(void *arg)
{
    (void)arg;
    poll(NULL, 0, 100);
    exit(0);
}

static void exit_from_another_thread(void)
{
    pthread_t threads[2];
    start();
    work_without_end();
    MUST(pthread_create(&threads[0], NULL, wait_for_ever, NULL) == 0);
    MUST(pthread_create(&threads[1], NULL, exit_main, NULL) == 0);
    MUST(pthread_detach(threads[0]) == 0 && pthread_detach(threads[1]) == 0);
    cuda->cuCtxSynchronize();
    for (;;)
        pause();
}

static void return_with_a_thread_inside(void)
{
    pthread_t thread;
    start();
    work_without_end();
    MUST(pthread_create(&thread, NULL, wait_for_ever, NULL) == 0);
    MUST(pthread_detach(thread) == 0);
    poll(NULL, 0, 50);
    exit(0);
}

static void call_at_exit(void)
{
    CUdeviceptr p;
    CUresult result = cuda->cuMemAlloc_v2(&p, 100);
    MUST(result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED);
    result = cuda->cuCtxSynchronize();
    MUST(result == CUDA_SUCCESS || result == CUDA_ERROR_DEINITIALIZED);
}

/* What the CUDA runtime and C++ programs do. */
static void calls_at_exit(void)
{
    MUST(atexit(call_at_exit) == 0); /* before the library is loaded: runs after its own end */
    start();
    MUST(atexit(call_at_exit) == 0);
    exit(0);
}

static void abort_in_the_middle(void)
{
    start();
    work_without_end();
    signal(SIGTERM, SIG_DFL);
    raise(SIGTERM);
}

/* The library is closed in the middle of its work. It stays mapped: threads of it still run. */
static void dlclose_in_the_middle(void)
{
    void *library = dlopen(SHIM, RTLD_NOW);
    MUST(library);
    start();
    work_without_end();
    MUST(dlclose(library) == 0);
    CUdeviceptr p;
    MUST(cuda->cuMemAlloc_v2(&p, 4) == CUDA_SUCCESS);
    exit(0);
}

static void fork_and_exec(void)
{
    start();
    work_without_end();
    pid_t child = fork();
    if (child == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    int status = -1;
    MUST(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CUdeviceptr p;
    MUST(cuda->cuMemAlloc_v2(&p, 4) == CUDA_SUCCESS);
    exit(0);
}

static pid_t begin(const proxy_t *proxy, void (*body)(void))
{
    pid_t child = fork();
    if (child == 0) {
        alarm(30);
        setenv("GABLE_PROXIES", proxy->endpoint, 1);
        body();
        _exit(3);
    }
    return child;
}

static void test_ends(void **state)
{
    static const struct {
        void (*body)(void);
        int signal;
    } ways[] = {
        {exit_in_the_middle, 0}, {exit_from_another_thread, 0},  {return_with_a_thread_inside, 0},
        {calls_at_exit, 0},      {abort_in_the_middle, SIGTERM}, {dlclose_in_the_middle, 0},
        {fork_and_exec, 0}};
    static const proxy_link_t links[] = {PROXY_UNIX, PROXY_TCP};
    (void)state;
    for (int l = 0; l < 2; l++) {
        proxy_t proxy;
        proxy_start_on(&proxy, "cpu", links[l], NULL, NULL);
        for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
            int status = -1;
            pid_t child = begin(&proxy, ways[i].body);
            pid_t session = proxy_session(&proxy, (int)i);
            assert_int_equal(waitpid(child, &status, 0), child);
            if (ways[i].signal)
                assert_true(WIFSIGNALED(status) && WTERMSIG(status) == ways[i].signal);
            else
                assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
            assert_true(process_gone(session, 3000));
        }
        proxy_stop(&proxy);
    }
}

/* ---- two sessions on one device ---- */

static int results[2];

/* Reports how often a second's worth of the same work was done. */
static void compete(void)
{
    enum { FLOATS = 1 << 16 };
    unsigned n = FLOATS;
    float a = 1;
    CUdeviceptr dx, dy;
    void *args[] = {&dy, &dx, &a, &n};
    start();
    MUST(cuda->cuMemAlloc_v2(&dx, FLOATS * 4) == CUDA_SUCCESS);
    MUST(cuda->cuMemAlloc_v2(&dy, FLOATS * 4) == CUDA_SUCCESS);
    MUST(cuda->cuMemsetD32_v2(dx, 0, FLOATS) == CUDA_SUCCESS);
    MUST(cuda->cuMemsetD32_v2(dy, 0, FLOATS) == CUDA_SUCCESS);
    MUST(cuda->cuLaunchKernel(saxpy, 512, 1, 1, 128, 1, 1, 0, NULL, args, NULL) == CUDA_SUCCESS);
    MUST(cuda->cuCtxSynchronize() == CUDA_SUCCESS);
    char byte;
    MUST(write(results[1], &(int){-1}, sizeof(int)) == sizeof(int)); /* ready */
    MUST(read(0, &byte, 1) >= 0);
    int rounds = 0;
    for (uint64_t end = gb_now_ns() + 2000000000ull; gb_now_ns() < end; rounds++) {
        for (int i = 0; i < 20; i++)
            MUST(cuda->cuLaunchKernel(saxpy, 512, 1, 1, 128, 1, 1, 0, NULL, args, NULL) ==
                 CUDA_SUCCESS);
        MUST(cuda->cuCtxSynchronize() == CUDA_SUCCESS);
    }
    MUST(write(results[1], &rounds, sizeof(rounds)) == sizeof(rounds));
    exit(0);
}

static int next_result(void)
{
    int value = 0;
    assert_int_equal(read(results[0], &value, sizeof(value)), sizeof(value));
    return value;
}

/* Neither of two gets less than 40 % of what both get. */
static void test_fair_shares(void **state)
{
    proxy_t proxy;
    pid_t children[2];
    int go[2], counts[2], status;
    (void)state;
    proxy_start(&proxy, "cpu");
    assert_int_equal(pipe(results), 0);
    assert_int_equal(pipe(go), 0);
    dup2(go[0], 0);
    for (int i = 0; i < 2; i++)
        children[i] = begin(&proxy, compete);
    for (int i = 0; i < 2; i++)
        assert_int_equal(next_result(), -1);
    assert_int_equal(write(go[1], "go", 2), 2);
    for (int i = 0; i < 2; i++)
        counts[i] = next_result();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    print_message("shares: %d and %d rounds\n", counts[0], counts[1]);
    int least = counts[0] < counts[1] ? counts[0] : counts[1];
    assert_true(least * 10 >= 4 * (counts[0] + counts[1]));
    proxy_stop(&proxy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_fair_shares),
    };
    need_compiler("cpu");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
