#include "worker/nn/wk_device.h"

#include <stdio.h>
#include <string.h>

extern const char wk_kernels_ptx[];

static const char *result_name(const gb_cuda_table_t *cu, CUresult result)
{
    const char *name = NULL;
    if (cu->cuGetErrorName(result, &name) == CUDA_SUCCESS && name)
        return name;
    return "unknown error";
}

gb_status_t wk_device_check(const wk_device_t *device, CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return GB_OK;
    const char *name = result_name(device->cu, result);
    switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
        return gb_fail(
            GB_ERR_NO_MEMORY,
            "GPU %d (%s) has no memory left for %s (%s): use a smaller --batch or another "
            "device",
            device->ordinal, device->name, what, name);
    case CUDA_ERROR_NOT_SUPPORTED:
        return gb_fail(GB_ERR_UNSUPPORTED, "GPU %d (%s) cannot do %s (%s): use another driver",
                       device->ordinal, device->name, what, name);
    default:
        return gb_fail(
            GB_ERR_LOST,
            "GPU %d (%s) was lost at %s (%s, %d): see the log of its gpu-proxy and start "
            "again",
            device->ordinal, device->name, what, name, (int)result);
    }
}

static gb_status_t driver_failure(const gb_driver_t *driver, CUresult result)
{
    const char *name = result_name(&driver->table, result);
    if (driver->kind == GB_DRIVER_REMOTE)
        return gb_fail(
            GB_ERR_UNREACHABLE,
            "no remote GPU answers (%s): check that gpu-proxy runs and that GABLE_LEASE or "
            "GABLE_PROXIES names it",
            name);
    return gb_fail(GB_ERR_UNSUPPORTED, "%s does not start (%s): use --driver cpu or another driver",
                   driver->path, name);
}

gb_status_t wk_device_count(const gb_driver_t *driver, int *out)
{
    int count = 0;
    CUresult result = driver->table.cuInit(0);
    if (result == CUDA_SUCCESS)
        result = driver->table.cuDeviceGetCount(&count);
    if (result != CUDA_SUCCESS)
        return driver_failure(driver, result);
    if (count == 0)
        return driver_failure(driver, CUDA_ERROR_NO_DEVICE);
    *out = count;
    return GB_OK;
}

static gb_status_t load_kernels(wk_device_t *d)
{
    char log[512] = "";
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof(log)};
    CUresult result = d->cu->cuModuleLoadDataEx(&d->module, wk_kernels_ptx, 2, options, values);
    log[sizeof(log) - 1] = 0;
    log[strcspn(log, "\n")] = 0;
    if (result == CUDA_ERROR_INVALID_PTX || result == CUDA_ERROR_NO_BINARY_FOR_GPU)
        return gb_fail(GB_ERR_UNSUPPORTED,
                       "GPU %d (%s) does not take the kernels (%s%s%s): use "
                       "another device",
                       d->ordinal, d->name, result_name(d->cu, result), *log ? ": " : "", log);
    return wk_device_check(d, result, "loading the kernels");
}

gb_status_t wk_device_open(const gb_driver_t *driver, int ordinal, wk_device_t *out)
{
    wk_device_t d = {.driver = driver, .cu = &driver->table, .ordinal = ordinal, .name = "?"};
    gb_status_t status;
    CUresult result = d.cu->cuInit(0);
    if (result == CUDA_SUCCESS)
        result = d.cu->cuDeviceGet(&d.device, ordinal);
    if (result != CUDA_SUCCESS)
        return driver_failure(driver, result);
    d.cu->cuDeviceGetName(d.name, sizeof(d.name), d.device);
    d.name[sizeof(d.name) - 1] = 0;
    status = wk_device_check(&d, d.cu->cuDevicePrimaryCtxRetain(&d.context, d.device),
                             "making a context");
    if (status != GB_OK)
        return status;
    status = wk_device_bind(&d);
    if (status != GB_OK)
        goto err_release;
    status = wk_device_check(&d, d.cu->cuStreamCreate(&d.stream, CU_STREAM_NON_BLOCKING),
                             "making a stream");
    if (status != GB_OK)
        goto err_release;
    status = load_kernels(&d);
    if (status != GB_OK)
        goto err_stream;
    *out = d;
    return GB_OK;

err_stream:
    d.cu->cuStreamDestroy_v2(d.stream);
err_release:
    d.cu->cuDevicePrimaryCtxRelease_v2(d.device);
    return status;
}

void wk_device_close(wk_device_t *d)
{
    if (!d->cu)
        return;
    d->cu->cuModuleUnload(d->module);
    d->cu->cuStreamDestroy_v2(d->stream);
    d->cu->cuCtxSetCurrent(NULL);
    d->cu->cuDevicePrimaryCtxRelease_v2(d->device);
    memset(d, 0, sizeof(*d));
}

gb_status_t wk_device_bind(const wk_device_t *d)
{
    return wk_device_check(d, d->cu->cuCtxSetCurrent(d->context), "choosing the context");
}

gb_status_t wk_device_alloc(wk_device_t *d, size_t bytes, CUdeviceptr *out)
{
    CUdeviceptr memory = 0;
    size_t words = (bytes + 3) / 4;
    gb_status_t status =
        wk_device_check(d, d->cu->cuMemAlloc_v2(&memory, words ? words * 4 : 4), "an allocation");
    if (status != GB_OK)
        return status;
    status = wk_device_check(d, d->cu->cuMemsetD32Async(memory, 0, words ? words : 1, d->stream),
                             "clearing memory");
    if (status != GB_OK) {
        d->cu->cuMemFree_v2(memory);
        return status;
    }
    *out = memory;
    return GB_OK;
}

void wk_device_free(wk_device_t *d, CUdeviceptr memory)
{
    if (memory)
        d->cu->cuMemFree_v2(memory);
}

gb_status_t wk_device_upload(wk_device_t *d, CUdeviceptr to, const void *from, size_t bytes)
{
    return wk_device_check(d, d->cu->cuMemcpyHtoDAsync_v2(to, from, bytes, d->stream),
                           "a copy to the device");
}

gb_status_t wk_device_download(wk_device_t *d, void *to, CUdeviceptr from, size_t bytes)
{
    gb_status_t status = wk_device_check(d, d->cu->cuMemcpyDtoHAsync_v2(to, from, bytes, d->stream),
                                         "a copy from the device");
    return status == GB_OK ? wk_device_wait(d) : status;
}

gb_status_t wk_device_wait(wk_device_t *d)
{
    return wk_device_check(d, d->cu->cuStreamSynchronize(d->stream), "waiting for the device");
}

gb_status_t wk_launch_make(wk_device_t *d, const char *name, const unsigned grid[3],
                           unsigned block_x, unsigned block_y, const void *args, size_t size,
                           wk_launch_t *out)
{
    wk_launch_t launch = {.grid = {grid[0], grid[1], grid[2]}, .block = {block_x, block_y}};
    if (size > sizeof(launch.args))
        return gb_fail(GB_ERR_INTERNAL, "arguments of %s are too large: report this", name);
    memcpy(launch.args, args, size);
    gb_status_t status =
        wk_device_check(d, d->cu->cuModuleGetFunction(&launch.function, d->module, name), name);
    if (status == GB_OK)
        *out = launch;
    return status;
}

gb_status_t wk_launch_run(wk_device_t *d, wk_launch_t *launch)
{
    void *params[] = {launch->args};
    return wk_device_check(d,
                           d->cu->cuLaunchKernel(launch->function, launch->grid[0], launch->grid[1],
                                                 launch->grid[2], launch->block[0],
                                                 launch->block[1], 1, 0, d->stream, params, NULL),
                           "a kernel launch");
}
