/* Every entry point with arguments that mean nothing: an error, never a crash, and the device goes on. */
#include "device_kernels.h"

#include <stdio.h>
#include <sys/mman.h>

#include "gb_cuda_table.h"

typedef CUresult (*any_t)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                          uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

static CUresult call(any_t function, uint64_t x)
{
    return function(x, x, x, x, x, x, x, x, x, x, x, x);
}

static int in_list(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(*list, name) == 0)
            return 1;
    return 0;
}

/* The device still does its work. */
static void still_works(void)
{
    CUdeviceptr word;
    uint32_t value = 0;
    OK(cu->cuMemAlloc_v2(&word, 4));
    OK(cu->cuMemsetD32_v2(word, 41, 1));
    OK(cu->cuMemcpyDtoH_v2(&value, word, 4));
    assert_int_equal(value, 41);
    OK(cu->cuMemFree_v2(word));
}

static void nothing_but_zeros(void **state)
{
    /* Legal with zeros. */
    static const char *const fine[] = {"cuInit",
                                       "cuCtxSetCurrent",
                                       "cuCtxSynchronize_v2",
                                       "cuCtxSynchronize",
                                       "cuCtxSetFlags",
                                       "cuCtxGetStreamPriorityRange",
                                       "cuCtxSetCacheConfig",
                                       "cuCtxSetSharedMemConfig",
                                       "cuCtxSetLimit",
                                       "cuCtxResetPersistingL2Cache",
                                       "cuStreamCopyAttributes", /* onto itself */
                                       "cuDevicePrimaryCtxReset_v2",
                                       "cuDevicePrimaryCtxSetFlags_v2",
                                       "cuStreamQuery",
                                       "cuStreamSynchronize",
                                       "cuDeviceGraphMemTrim",
                                       "cuProfilerStart",
                                       "cuProfilerStop",
                                       "cuMemFree",
                                       "cuMemFree_v2",
                                       "cuMemFreeHost",
                                       "cuCtxPopCurrent_v2",
                                       NULL};
    const any_t *functions = (const any_t *)cu;
    for (int i = 0; i < GB_CUDA_TABLE_COUNT; i++) {
        OK(cu->cuCtxSetCurrent(*state));
        CUresult result = call(functions[i], 0);
        if (!in_list(gb_cuda_table_names[i], fine) &&
            strncmp(gb_cuda_table_names[i], "cuMemcpy", 8) &&
            strncmp(gb_cuda_table_names[i], "cuMemset", 8) && result == CUDA_SUCCESS)
            fail_msg("%s says that all zeros are fine", gb_cuda_table_names[i]);
    }
    OK(cu->cuCtxSetCurrent(*state));
    still_works();
}

static void addresses_for_everything(void **state)
{
    /* Host to host of any size is the program's own affair. */
    static const char *const skipped[] = {"cuMemcpy", "cuMemcpyAsync", NULL};
    const any_t *functions = (const any_t *)cu;
    enum { ROOM = 1 << 20 };
    void *room = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(room, MAP_FAILED);
    for (int i = 0; i < GB_CUDA_TABLE_COUNT; i++) {
        if (in_list(gb_cuda_table_names[i], skipped))
            continue;
        memset(room, 0, ROOM);
        OK(cu->cuCtxSetCurrent(*state));
        (void)call(functions[i], (uint64_t)room + ROOM / 2);
    }
    OK(cu->cuCtxSetCurrent(*state));
    still_works();
    munmap(room, ROOM);
}

/* Handles of one kind given as another. */
static void handles_of_the_wrong_kind(void **state)
{
    CUmodule module;
    CUfunction function;
    CUstream stream;
    CUevent event;
    OK(cu->cuModuleLoadData(&module, device_kernels));
    OK(cu->cuModuleGetFunction(&function, module, "nothing"));
    OK(cu->cuStreamCreate(&stream, 0));
    OK(cu->cuEventCreate(&event, 0));
    void *handles[] = {*state, module, function, stream, event};
    for (int i = 0; i < 5; i++) {
        void *h = handles[i];
        if (h != *state)
            FAILS(CUDA_ERROR_INVALID_CONTEXT, cu->cuCtxSetCurrent(h));
        if (h != module)
            FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuModuleUnload(h));
        if (h != stream)
            FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuStreamSynchronize(h));
        if (h != event)
            FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuEventSynchronize(h));
        if (h != function)
            FAILS(CUDA_ERROR_INVALID_HANDLE,
                  cu->cuLaunchKernel(h, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    }
    still_works();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(nothing_but_zeros),
        IN_CONTEXT(addresses_for_everything),
        IN_CONTEXT(handles_of_the_wrong_kind),
    };
    setenv("GABLE_LOG", "error", 1);
    return cmocka_run_group_tests(tests, device_setup, NULL);
}
