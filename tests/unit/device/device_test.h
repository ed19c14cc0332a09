/* device_test.h - what every test of the software device begins with: its library, opened by path. */
#ifndef DEVICE_TEST_H
#define DEVICE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/core/gb_clock.h"
#include "common/cuda/gb_driver.h"

#define OK(call) assert_int_equal((call), CUDA_SUCCESS)
#define FAILS(error, call) assert_int_equal((call), (error))

static const gb_cuda_table_t *cu;

/* Whether the device is behind the remote client: tests/e2e/remoting runs these programs over it. What
 * can only be seen in the device's own process is left out then. */
static inline int device_is_remote(void)
{
    return getenv("GABLE_TEST_DRIVER") != NULL;
}

/* Opens the library and initialises it. */
static inline int device_setup(void **state)
{
    const gb_driver_t *driver;
    const char *path = getenv("GABLE_TEST_DRIVER");
    (void)state;
    setenv("GABLE_CPU_THREADS", "2", 0);
    setenv("GABLE_CPU_MEMORY", "256M", 0);
    if (!path)
        path = GABLE_BUILD_DIR "/lib/gable/cpu/libcuda.so.1";
    if (gb_driver_open(path, &driver) != GB_OK)
        return -1;
    cu = &driver->table;
    return cu->cuInit(0) == CUDA_SUCCESS ? 0 : -1;
}

/* Memory of the device that the test looks at directly: on the software device in this process that is any,
 * elsewhere managed memory. */
static inline CUdeviceptr memory_of_both(size_t bytes)
{
    CUdeviceptr at = 0;
    if (device_is_remote())
        OK(cu->cuMemAllocManaged(&at, bytes, CU_MEM_ATTACH_GLOBAL));
    else
        OK(cu->cuMemAlloc_v2(&at, bytes));
    return at;
}

/* For each test: a context of its own, current. */
static inline int context_setup(void **state)
{
    CUcontext context;
    if (cu->cuCtxCreate_v2(&context, 0, 0) != CUDA_SUCCESS)
        return -1;
    *state = context;
    return 0;
}

static inline int context_teardown(void **state)
{
    return cu->cuCtxDestroy_v2(*state) == CUDA_SUCCESS ? 0 : -1;
}

#define IN_CONTEXT(test) cmocka_unit_test_setup_teardown(test, context_setup, context_teardown)

/* Whether `condition` becomes true within ten seconds. */
#define BECOMES(condition)                                                                         \
    ({                                                                                             \
        uint64_t give_up = gb_now_ns() + 10000000000u;                                             \
        while (!(condition) && gb_now_ns() < give_up)                                              \
            nanosleep(&(struct timespec){0, 100000}, NULL);                                        \
        (condition);                                                                               \
    })

#endif
