/* Settings from the environment, each in a process of its own, and what a child after fork() gets. */
#include "device_kernels.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs `body` in a child with the settings "NAME=value ..."; its return value is the child's code. */
static int with_settings(const char *settings, int (*body)(void))
{
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        char *copy = strdup(settings), *rest = copy;
        for (char *item; (item = strsep(&rest, " ")) != NULL;)
            if (*item)
                putenv(item);
        _exit(body());
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* 100 + the number of devices, or the error of cuInit. */
static int count_devices(void)
{
    int count = 0;
    const gb_driver_t *driver;
    if (gb_driver_open(GABLE_BUILD_DIR "/lib/gable/cpu/libcuda.so.1", &driver) != GB_OK)
        return 99;
    cu = &driver->table;
    if (cu->cuDeviceGetCount(&count) != CUDA_ERROR_NOT_INITIALIZED)
        return 98;
    CUresult result = cu->cuInit(0);
    if (result)
        return (int)result > 90 ? (int)result - 50 : (int)result;
    return cu->cuDeviceGetCount(&count) ? 97 : 100 + count;
}

static void devices_are_chosen(void **state)
{
    (void)state;
    assert_int_equal(with_settings("", count_devices), 101);
    assert_int_equal(with_settings("GABLE_CPU_DEVICES=3", count_devices), 103);
    assert_int_equal(with_settings("GABLE_CPU_DEVICES=3 CUDA_VISIBLE_DEVICES=2,0", count_devices),
                     102);
    assert_int_equal(with_settings("GABLE_CPU_DEVICES=3 CUDA_VISIBLE_DEVICES=0,9,1", count_devices),
                     101);
    assert_int_equal(with_settings("GABLE_CPU_DEVICES=3 CUDA_VISIBLE_DEVICES=1,1", count_devices),
                     50); /* no device */
    assert_int_equal(with_settings("CUDA_VISIBLE_DEVICES=", count_devices), 50);
    assert_int_equal(with_settings("CUDA_VISIBLE_DEVICES=-1", count_devices), 50);
}

static void nonsense_is_refused(void **state)
{
    (void)state;
    assert_int_equal(with_settings("GABLE_CPU_THREADS=zero", count_devices), 1);
    assert_int_equal(with_settings("GABLE_CPU_THREADS=0", count_devices), 1);
    assert_int_equal(with_settings("GABLE_CPU_DEVICES=17", count_devices), 1);
    assert_int_equal(with_settings("GABLE_CPU_MEMORY=12", count_devices), 1);
    assert_int_equal(with_settings("GABLE_CPU_SPEED=0.5", count_devices), 1);
    assert_int_equal(with_settings("GABLE_CPU_CHECKS=maybe", count_devices), 1);
    assert_int_equal(with_settings("GABLE_CPU_TARGET=sparc", count_devices), 50);
}

static int order_of_devices(void)
{
    CUuuid first, second;
    int domain;
    void *none = NULL;
    if (device_setup(&none) || cu->cuDeviceGetUuid_v2(&first, 0) ||
        cu->cuDeviceGetUuid_v2(&second, 1) ||
        cu->cuDeviceGetAttribute(&domain, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, 0))
        return 1;
    return domain == 2 && memcmp(&first, &second, sizeof(first)) != 0 ? 0 : 2;
}

static void visible_devices_are_reordered(void **state)
{
    (void)state;
    assert_int_equal(
        with_settings("GABLE_CPU_DEVICES=3 CUDA_VISIBLE_DEVICES=2,0", order_of_devices), 0);
}

/* Two devices: memory of their own, and peer access. */
static int two_devices(void)
{
    CUcontext a, b;
    CUdeviceptr on_a, on_b;
    CUdevice device;
    size_t free_a, free_b, total;
    int value, ordinal;
    uint32_t word = 0;
    void *none = NULL;
    if (device_setup(&none) || cu->cuCtxCreate_v2(&a, 0, 0) || cu->cuMemAlloc_v2(&on_a, 1 << 20) ||
        cu->cuMemsetD32_v2(on_a, 123, 4) || cu->cuMemGetInfo_v2(&free_a, &total) ||
        cu->cuCtxCreate_v2(&b, 0, 1) || cu->cuMemGetInfo_v2(&free_b, &total) ||
        cu->cuMemAlloc_v2(&on_b, 64) || cu->cuCtxGetDevice(&device) || device != 1)
        return 1;
    if (free_a + (1 << 20) != free_b)
        return 2;
    if (cu->cuDeviceCanAccessPeer(&value, 0, 1) || !value || cu->cuCtxEnablePeerAccess(a, 0) ||
        cu->cuCtxEnablePeerAccess(a, 0) != CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED ||
        cu->cuCtxDisablePeerAccess(a) ||
        cu->cuCtxDisablePeerAccess(a) != CUDA_ERROR_PEER_ACCESS_NOT_ENABLED)
        return 3;
    if (cu->cuMemcpyPeer(on_b, b, on_a, a, 16) || cu->cuMemcpyDtoH_v2(&word, on_b, 4) ||
        word != 123)
        return 4;
    if (cu->cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, on_b) ||
        ordinal != 1)
        return 5;
    return cu->cuCtxDestroy_v2(b) || cu->cuCtxDestroy_v2(a) ? 6 : 0;
}

static void devices_have_memory_of_their_own(void **state)
{
    (void)state;
    assert_int_equal(with_settings("GABLE_CPU_DEVICES=2", two_devices), 0);
}

/* The child of a program that uses the device is told so, and can still fork and exec. */
static int fork_inside(void)
{
    CUcontext context;
    CUdeviceptr pointer;
    void *none = NULL;
    int status, count;
    if (device_setup(&none) || cu->cuCtxCreate_v2(&context, 0, 0) ||
        cu->cuMemAlloc_v2(&pointer, 64) || cu->cuMemsetD32Async(pointer, 1, 16, NULL))
        return 1;
    pid_t pid = fork();
    if (pid == 0)
        _exit(cu->cuMemAlloc_v2(&pointer, 64) == CUDA_ERROR_NOT_INITIALIZED &&
                      cu->cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                      cu->cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED
                  ? 0
                  : 1);
    if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status))
        return 2;
    return cu->cuCtxSynchronize_v2(NULL) || cu->cuMemFree_v2(pointer) ? 3 : 0;
}

static void a_forked_child_starts_without_a_driver(void **state)
{
    (void)state;
    assert_int_equal(with_settings("", fork_inside), 0);
}

/* Ten times the ratio of time to processor time of some work on one thread. */
static int time_per_work(void)
{
    CUcontext context;
    CUdeviceptr memory;
    void *none = NULL;
    struct timespec before, after;
#ifdef GABLE_SANITIZED
    enum { BYTES = 4 << 20 };
#else
    enum { BYTES = 64 << 20 };
#endif
    if (device_setup(&none) || cu->cuCtxCreate_v2(&context, 0, 0) ||
        cu->cuMemAlloc_v2(&memory, BYTES))
        return 1;
    uint64_t start = gb_now_ns();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    for (int i = 0; i < 5; i++)
        if (cu->cuMemsetD32_v2(memory, 0x1234567, BYTES / 4) || cu->cuCtxSynchronize_v2(NULL))
            return 2;
    double wall = (double)(gb_now_ns() - start);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    double busy =
        (double)(after.tv_sec - before.tv_sec) * 1e9 + (double)(after.tv_nsec - before.tv_nsec);
    double ratio = wall / busy * 10;
    return ratio > 250 ? 250 : (int)ratio;
}

static void a_slowed_down_device_is_slower(void **state)
{
    (void)state;
    /* Other programs on the machine can only make the ratio larger. */
    assert_true(with_settings("GABLE_CPU_THREADS=1 GABLE_CPU_SPEED=8", time_per_work) >= 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(devices_are_chosen),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(visible_devices_are_reordered),
        cmocka_unit_test(devices_have_memory_of_their_own),
        cmocka_unit_test(a_forked_child_starts_without_a_driver),
        cmocka_unit_test(a_slowed_down_device_is_slower),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
