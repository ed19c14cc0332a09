/* Memory that program and kernels share over the network: managed, page-locked, registered.
 * usage: test_remote_shared cpu */
#include "tests/e2e/remoting/remote.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { N = 300000 }; /* floats: some 290 pages */

static void run(CUdeviceptr y, CUdeviceptr x, float a, unsigned n)
{
    void *args[] = {&y, &x, &a, &n};
    OK(cuda->cuLaunchKernel(saxpy, (n + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, args, NULL));
}

static float *managed(size_t count)
{
    CUdeviceptr at;
    OK(cuda->cuMemAllocManaged(&at, count * sizeof(float), CU_MEM_ATTACH_GLOBAL));
    return (float *)(uintptr_t)at;
}

static CUdeviceptr address(const void *at)
{
    return (CUdeviceptr)(uintptr_t)at;
}

/* Each side sees what the other has written, also where it has written a part of a page only. */
static void both_sides_see_each_other(void **state)
{
    float *x = managed(N), *y = managed(N);
    (void)state;
    for (unsigned i = 0; i < N; i++) {
        x[i] = (float)(i % 1000);
        y[i] = 1;
    }
    run(address(y), address(x), 2, N);
    OK(cuda->cuCtxSynchronize());
    for (unsigned i = 0; i < N; i++)
        assert_true(y[i] == 1 + 2 * (float)(i % 1000));
    x[5] = 7;
    y[N - 1] = 100;
    run(address(y), address(x), 1, N);
    OK(cuda->cuStreamSynchronize(NULL));
    assert_true(y[5] == 11 + 7 && y[4] == 9 + 4);
    assert_true(y[N - 1] == 100 + (float)((N - 1) % 1000));
    OK(cuda->cuMemFree_v2(address(x)));
    OK(cuda->cuMemFree_v2(address(y)));
}

/* Copies and fills by the driver count as the device's. */
static void copies_are_seen(void **state)
{
    float *m = managed(N), *host = numbers(N), got[2];
    CUdeviceptr d;
    (void)state;
    OK(cuda->cuMemAlloc_v2(&d, N * 4));
    m[0] = 3;
    OK(cuda->cuMemcpyHtoD_v2(address(m) + 4, host, (N - 1) * 4));
    assert_true(m[0] == 3 && m[1] == 0 && m[500] == 499);
    m[1] = 8;
    OK(cuda->cuMemcpyDtoD_v2(d, address(m), N * 4));
    OK(cuda->cuCtxSynchronize()); /* such a copy does not wait for itself */
    m[1] = 9;
    OK(cuda->cuMemcpyDtoH_v2(got, d, sizeof(got)));
    assert_true(got[0] == 3 && got[1] == 8);
    OK(cuda->cuMemcpyDtoH_v2(m + 100, d, sizeof(got))); /* the host's side of a copy */
    assert_true(m[100] == 3 && m[101] == 8 && m[102] == 101);
    OK(cuda->cuMemcpyHtoD_v2(d, m + 1, 4));
    OK(cuda->cuMemcpy(address(got), d, 4));
    assert_true(got[0] == 9);
    OK(cuda->cuMemsetD8_v2(address(m), 0, 8));
    assert_true(m[0] == 0 && m[1] == 0 && m[2] == 1);
    OK(cuda->cuMemFree_v2(d));
    OK(cuda->cuMemFree_v2(address(m)));
    free(host);
}

/* Page-locked memory is found among a kernel's parameters; registered memory has another address. */
static void host_memory_is_reached(void **state)
{
    float *pinned, *plain = numbers(N);
    CUdeviceptr device;
    (void)state;
    OK(cuda->cuMemHostAlloc((void **)&pinned, N * 4, 0));
    for (unsigned i = 0; i < N; i++)
        pinned[i] = 1;
    OK(cuda->cuMemHostRegister_v2(plain, N * 4, 0));
    OK(cuda->cuMemHostGetDevicePointer_v2(&device, plain, 0));
    run(address(pinned), device, 1, N);
    OK(cuda->cuCtxSynchronize());
    assert_true(pinned[0] == 1 && pinned[999] == 1000 && pinned[N - 1] == 1 + (N - 1) % 1000);
    plain[3] = 50;
    run(device, address(pinned), 1, N);
    OK(cuda->cuCtxSynchronize());
    assert_true(plain[3] == 54 && plain[10] == 21);
    OK(cuda->cuMemHostUnregister(plain));
    OK(cuda->cuMemFreeHost(pinned));
    free(plain);
}

static volatile sig_atomic_t own_faults;
static char *own_page;

static void on_fault(int number, siginfo_t *info, void *unused)
{
    (void)unused;
    if (info->si_addr != own_page)
        _exit(number);
    own_faults++;
    mprotect(own_page, 4096, PROT_READ | PROT_WRITE);
}

/* A handler that the program has, or puts in place later, keeps what is its own. */
static void own_handlers_go_on(void **state)
{
    struct sigaction own = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO}, before;
    (void)state;
    own_page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    float *m = managed(N);
    sigaction(SIGSEGV, &own, &before);
    /* The next call that changes pages puts the library's handler in front again. */
    OK(cuda->cuMemsetD32_v2(address(m), 0, N));
    assert_true(m[7] == 0);
    *(volatile char *)own_page = 1;
    assert_int_equal(own_faults, 1);
    m[8] = 2;
    assert_true(m[8] == 2);
    OK(cuda->cuMemFree_v2(address(m)));
    sigaction(SIGSEGV, &before, NULL);
    munmap(own_page, 4096);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_sides_see_each_other),
        cmocka_unit_test(copies_are_seen),
        cmocka_unit_test(host_memory_is_reached),
        cmocka_unit_test(own_handlers_go_on),
    };
    proxy_t proxy;
    remote_open(argc, argv, &proxy);
    int failed = cmocka_run_group_tests(tests, remote_set_up, NULL);
    proxy_stop(&proxy);
    return failed;
}
