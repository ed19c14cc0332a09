#include "tests/ptx/pt_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const gb_driver_t *driver; /* opened once; tests have one thread */
static CUcontext context;

void pt_check(CUresult result, const char *call, const char *file, int line)
{
    if (result == CUDA_SUCCESS)
        return;
    const char *name = NULL;
    if (driver)
        driver->table.cuGetErrorName(result, &name);
    print_error("%s gives %d (%s)\n", call, (int)result, name ? name : "?");
    _fail(file, line);
}

static void make_context(void)
{
    CUdevice device;
    PT_CHECK(driver->table.cuDeviceGet(&device, 0));
    PT_CHECK(driver->table.cuCtxCreate_v2(&context, 0, device));
}

const gb_cuda_table_t *pt_cuda(void)
{
    if (!driver) {
        const char *choice = getenv("PT_DRIVER");
        if (gb_driver_choose(choice ? choice : "cpu", &driver) != GB_OK)
            fail_msg("%s", gb_why());
        PT_CHECK(driver->table.cuInit(0));
        make_context();
    }
    return &driver->table;
}

void pt_new_context(void)
{
    driver->table.cuCtxDestroy_v2(context);
    make_context();
}

CUmodule pt_try_load(const char *ptx, char *log, size_t size)
{
    CUmodule module = NULL;
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)size};
    log[0] = 0;
    CUresult result = pt_cuda()->cuModuleLoadDataEx(&module, ptx, 2, options, values);
    if (result != CUDA_SUCCESS)
        assert_int_equal(result, CUDA_ERROR_INVALID_PTX);
    return result == CUDA_SUCCESS ? module : NULL;
}

CUmodule pt_load(const char *ptx)
{
    char log[4096];
    CUmodule module = pt_try_load(ptx, log, sizeof log);
    if (!module)
        fail_msg("the module is refused: %s", log);
    return module;
}

void pt_unload(CUmodule module)
{
    PT_CHECK(pt_cuda()->cuModuleUnload(module));
}

CUfunction pt_function(CUmodule module, const char *name)
{
    CUfunction f;
    PT_CHECK(pt_cuda()->cuModuleGetFunction(&f, module, name));
    return f;
}

CUresult pt_run(CUfunction f, pt_dim_t grid, pt_dim_t block, unsigned shared, void **params)
{
    CUresult result = pt_cuda()->cuLaunchKernel(f, grid.x, grid.y, grid.z, block.x, block.y,
                                                block.z, shared, NULL, params, NULL);
    return result == CUDA_SUCCESS ? pt_cuda()->cuStreamSynchronize(NULL) : result;
}

void pt_launch(CUfunction f, pt_dim_t grid, pt_dim_t block, unsigned shared, void **params)
{
    PT_CHECK(pt_run(f, grid, block, shared, params));
}

CUdeviceptr pt_upload(const void *data, size_t bytes)
{
    CUdeviceptr ptr;
    PT_CHECK(pt_cuda()->cuMemAlloc_v2(&ptr, bytes));
    if (data)
        PT_CHECK(pt_cuda()->cuMemcpyHtoD_v2(ptr, data, bytes));
    else
        PT_CHECK(pt_cuda()->cuMemsetD8_v2(ptr, 0, bytes));
    return ptr;
}

void pt_download(void *out, CUdeviceptr from, size_t bytes)
{
    PT_CHECK(pt_cuda()->cuMemcpyDtoH_v2(out, from, bytes));
}

void pt_free(CUdeviceptr ptr)
{
    PT_CHECK(pt_cuda()->cuMemFree_v2(ptr));
}

uint32_t pt_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8 ^ *state << 9;
}
