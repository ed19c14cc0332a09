/* app.h - what the sample programs share. They are plain driver-API programs: they link libcuda.so.1
 * and know nothing of Gable, so LD_LIBRARY_PATH decides where their kernels run. What they print must
 * not depend on that, nor on the number of devices. */
#ifndef APP_H
#define APP_H

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "gb_cuda_api.h"

extern const char app_ptx[]; /* app_kernels.cu, as PTX text */

/* Ends the program if a CUDA call failed. */
static inline void app_check(CUresult r, const char *what)
{
    if (r == CUDA_SUCCESS)
        return;
    const char *name = NULL;
    cuGetErrorName(r, &name);
    fprintf(stderr, "%s: %s (%d)\n", what, name ? name : "?", (int)r);
    exit(1);
}

/* A context on device `ordinal`, current in this thread, with the kernels loaded. */
static inline CUmodule app_open(int ordinal, CUcontext *ctx)
{
    CUdevice dev;
    CUmodule mod;
    app_check(cuInit(0), "cuInit");
    app_check(cuDeviceGet(&dev, ordinal), "cuDeviceGet");
    app_check(cuDevicePrimaryCtxRetain(ctx, dev), "cuDevicePrimaryCtxRetain");
    app_check(cuCtxSetCurrent(*ctx), "cuCtxSetCurrent");
    app_check(cuModuleLoadData(&mod, app_ptx), "cuModuleLoadData");
    return mod;
}

static inline CUfunction app_kernel(CUmodule mod, const char *name)
{
    CUfunction f;
    app_check(cuModuleGetFunction(&f, mod, name), name);
    return f;
}

static inline CUdeviceptr app_alloc(size_t bytes)
{
    CUdeviceptr p;
    app_check(cuMemAlloc_v2(&p, bytes), "cuMemAlloc");
    return p;
}

/* One-dimensional launch. */
static inline void app_launch(CUfunction f, unsigned grid, unsigned block, CUstream stream,
                              void **params)
{
    app_check(cuLaunchKernel(f, grid, 1, 1, block, 1, 1, 0, stream, params, NULL),
              "cuLaunchKernel");
}

#endif
