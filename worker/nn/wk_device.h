/* wk_device.h - one GPU as the layers use it: context, stream, kernels and memory over a driver table.
 *
 * All work goes to one stream, in order. A wk_device_t belongs to one thread at a time: its context is
 * current on the thread that opened it (wk_device_bind for another). CUDA failures become statuses:
 * GB_ERR_NO_MEMORY (out of device memory), GB_ERR_LOST (the device, its session or its link is gone,
 * or a kernel failed: nothing more will work), GB_ERR_UNSUPPORTED; gb_why() names device and call. */
#ifndef WK_DEVICE_H
#define WK_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "common/core/gb_status.h"
#include "common/cuda/gb_driver.h"

typedef struct {
    const gb_driver_t *driver;
    const gb_cuda_table_t *cu; /* the driver's table */
    int ordinal;
    CUdevice device;
    CUcontext context;
    CUstream stream;
    CUmodule module; /* the kernels of worker/kernels */
    char name[128];
} wk_device_t;

/* A launch that can be repeated: the arguments are one struct of wk_kernels.h. */
typedef struct {
    CUfunction function;
    unsigned grid[3], block[2];
    _Alignas(8) unsigned char args[160];
} wk_launch_t;

/* Number of devices that the driver shows; cuInit included. */
gb_status_t wk_device_count(const gb_driver_t *driver, int *out);

/* Opens device `ordinal` and loads the kernels. Close it with wk_device_close. */
gb_status_t wk_device_open(const gb_driver_t *driver, int ordinal, wk_device_t *out);
void wk_device_close(wk_device_t *device);

/* Makes the device's context current on the calling thread. */
gb_status_t wk_device_bind(const wk_device_t *device);

/* Status of a CUDA result; `what` says what was tried, e.g. "a kernel launch". */
gb_status_t wk_device_check(const wk_device_t *device, CUresult result, const char *what);

/* Device memory of `bytes` (at least 1), filled with zeroes. */
gb_status_t wk_device_alloc(wk_device_t *device, size_t bytes, CUdeviceptr *out);
/* 0 is fine. */
void wk_device_free(wk_device_t *device, CUdeviceptr memory);

/* Copies, in stream order. To the device: host memory may be reused on return. To the host: waits. */
gb_status_t wk_device_upload(wk_device_t *device, CUdeviceptr to, const void *from, size_t bytes);
gb_status_t wk_device_download(wk_device_t *device, void *to, CUdeviceptr from, size_t bytes);

/* Waits for everything enqueued. */
gb_status_t wk_device_wait(wk_device_t *device);

/* Prepares a launch of kernel `name` with `args` copied; size at most sizeof(out->args). */
gb_status_t wk_launch_make(wk_device_t *device, const char *name, const unsigned grid[3],
                           unsigned block_x, unsigned block_y, const void *args, size_t size,
                           wk_launch_t *out);

/* Enqueues it. */
gb_status_t wk_launch_run(wk_device_t *device, wk_launch_t *launch);

#endif
