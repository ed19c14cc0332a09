/* Device memory that is counted over all sessions of a device: two clients of one proxy share it, and what one held
 * is there for the other as soon as it is dead.
 * usage: test_remote_memory            the test
 *        test_remote_memory hold MIB   a client that holds so much until its standard input ends
 *        test_remote_memory keep FD    one that opens memory that another has made, and has it until then */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/core/gb_clock.h"
#include "common/cuda/gb_driver.h"
#include "tests/e2e/remoting/proxy.h"

#define OK(call) assert_int_equal((call), CUDA_SUCCESS)
#define FAILS(call, error) assert_int_equal((call), (error))
#define MIB(n) ((size_t)(n) << 20)

enum { DEVICE = 256, SLACK = 36 }; /* MiB that the device has, and that a session may keep unused */

static const gb_cuda_table_t *cuda;
static const char *program;

static int open_device(void)
{
    const gb_driver_t *driver;
    CUcontext context;
    if (gb_driver_open(GABLE_BUILD_DIR "/lib/gable/remote/libcuda.so.1", &driver))
        return 0;
    cuda = &driver->table;
    return cuda->cuInit(0) == CUDA_SUCCESS &&
           cuda->cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
           cuda->cuCtxSetCurrent(context) == CUDA_SUCCESS;
}

/* Tells whether it has got what it wanted, and has it until it is told to end. */
static int serve(int got)
{
    char byte = got ? 'y' : 'n';
    if (write(1, &byte, 1) != 1)
        return 1;
    while (read(0, &byte, 1) > 0)
        continue;
    return 0;
}

static int hold(size_t mib)
{
    CUdeviceptr at;
    return serve(open_device() && cuda->cuMemAlloc_v2(&at, MIB(mib)) == CUDA_SUCCESS);
}

static int keep(intptr_t fd)
{
    CUmemGenericAllocationHandle memory;
    return serve(open_device() && cuda->cuMemImportFromShareableHandle(
                                      &memory, (void *)fd,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) == CUDA_SUCCESS);
}

typedef struct {
    pid_t pid;
    int in; /* closing it ends the process */
} holder_t;

/* Another client; it has its memory (or was refused it: *got = 0) when this returns. */
static holder_t start_as(const char *what, const char *value, int *got)
{
    int in[2], out[2];
    char byte = 0;
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(in[0], 0);
        dup2(out[1], 1);
        close(in[1]);
        close(out[0]);
        execl(program, program, what, value, (char *)NULL);
        _exit(127);
    }
    close(in[0]);
    close(out[1]);
    assert_int_equal(read(out[0], &byte, 1), 1);
    close(out[0]);
    *got = byte == 'y';
    return (holder_t){pid, in[1]};
}

static holder_t start(const char *mib, int *got)
{
    return start_as("hold", mib, got);
}

static void stop(const holder_t *holder)
{
    int status;
    close(holder->in);
    assert_int_equal(waitpid(holder->pid, &status, 0), holder->pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static size_t left(void)
{
    size_t free_bytes, total;
    OK(cuda->cuMemGetInfo_v2(&free_bytes, &total));
    assert_int_equal(total, MIB(DEVICE));
    return free_bytes;
}

/* Waits until so much is free; the milliseconds it took. */
static uint64_t until_free(size_t bytes)
{
    uint64_t begin = gb_now_ns();
    while (left() < bytes && gb_now_ns() - begin < 10000000000ull)
        continue;
    return (gb_now_ns() - begin) / 1000000;
}

static void clients_share_a_device(void **state)
{
    CUdeviceptr at, managed;
    int got;
    (void)state;
    assert_true(left() == MIB(DEVICE));
    holder_t holder = start("160", &got);
    assert_true(got);
    assert_true(left() <= MIB(DEVICE - 160) && left() >= MIB(DEVICE - 160 - SLACK));
    FAILS(cuda->cuMemAlloc_v2(&at, MIB(DEVICE - 160 + 1)), CUDA_ERROR_OUT_OF_MEMORY);
    FAILS(cuda->cuMemAllocManaged(&managed, MIB(DEVICE - 160 + 1), CU_MEM_ATTACH_GLOBAL),
          CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuda->cuMemAlloc_v2(&at, MIB(DEVICE - 160 - SLACK)));
    OK(cuda->cuMemFree_v2(at));
    FAILS(cuda->cuMemFree_v2(at), CUDA_ERROR_INVALID_VALUE); /* which changes no count */
    FAILS(cuda->cuMemFree_v2(at), CUDA_ERROR_INVALID_VALUE);
    OK(cuda->cuCtxSynchronize());
    stop(&holder);
    assert_true(until_free(MIB(DEVICE)) < 1500);
    OK(cuda->cuMemAlloc_v2(&at, MIB(DEVICE - 40)));
    holder = start("48", &got);
    assert_false(got);
    stop(&holder);
    OK(cuda->cuMemFree_v2(at));
    OK(cuda->cuCtxSynchronize());
    holder = start("200", &got); /* what is free is not kept from others */
    assert_true(got);
    stop(&holder);
}

static void killed_clients_leave_nothing(void **state)
{
    int got;
    (void)state;
    assert_true(until_free(MIB(DEVICE)) < 1500);
    for (int i = 0; i < 3; i++) {
        holder_t holder = start("200", &got);
        assert_true(got);
        assert_true(left() <= MIB(DEVICE - 200));
        kill(holder.pid, SIGKILL);
        assert_int_equal(waitpid(holder.pid, NULL, 0), holder.pid);
        close(holder.in);
        assert_true(until_free(MIB(DEVICE)) < 1500);
    }
}

/* Memory that its maker has freed counts as long as another process has it. */
static void shared_memory_outlives_its_maker(void **state)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE}};
    CUmemGenericAllocationHandle memory, more;
    char number[16];
    int fd, got;
    (void)state;
    assert_true(until_free(MIB(DEVICE)) < 1500);
    OK(cuda->cuMemCreate(&memory, MIB(160), &prop, 0));
    OK(cuda->cuMemExportToShareableHandle(&fd, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                          0));
    int inherited = fcntl(fd, F_DUPFD, 20);
    close(fd);
    snprintf(number, sizeof(number), "%d", inherited);
    holder_t one = start_as("keep", number, &got);
    assert_true(got);
    holder_t two = start_as("keep", number, &got);
    assert_true(got);
    assert_true(left() >= MIB(DEVICE - 160 - SLACK)); /* it is the same memory */
    for (int i = 0; i < 3; i++) {
        FAILS(cuda->cuMemCreate(&more, MIB(DEVICE - 160 + 2), &prop, 0), CUDA_ERROR_OUT_OF_MEMORY);
        if (i == 0)
            OK(cuda->cuMemRelease(memory));
        if (i == 1)
            stop(&one);
    }
    stop(&two);
    assert_true(until_free(MIB(DEVICE)) < 1500);
    close(inherited);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(clients_share_a_device),
        cmocka_unit_test(shared_memory_outlives_its_maker),
        cmocka_unit_test(killed_clients_leave_nothing),
    };
    proxy_t proxy;
    program = argv[0];
    if (argc == 3 && strcmp(argv[1], "hold") == 0)
        return hold((size_t)atoi(argv[2]));
    if (argc == 3 && strcmp(argv[1], "keep") == 0)
        return keep(atoi(argv[2]));
    setenv("GABLE_CPU_MEMORY", "256M", 1);
    proxy_start(&proxy, "cpu");
    setenv("GABLE_PROXIES", proxy.endpoint, 1);
    int failed = open_device() ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
    proxy_stop(&proxy);
    return failed;
}
