#include "bench/kernels_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"

extern const char kernels_ptx[], kernels_first_ptx[]; /* gable_embed */

static const gb_cuda_table_t *cu;
static CUstream stream;

static void need(CUresult result, const char *what)
{
    const char *name = "?";
    if (result == CUDA_SUCCESS)
        return;
    cu->cuGetErrorName(result, &name);
    gb_complain("%s: %s: run the device's tests", what, name);
    exit(1);
}

#define NEED(call) need(cu->call, #call)

void device_open(int threads, const char *target)
{
    const gb_driver_t *driver;
    CUcontext context;
    char text[32];
    snprintf(text, sizeof(text), "%d", threads);
    setenv("GABLE_CPU_THREADS", text, 1);
    if (target) {
        snprintf(text, sizeof(text), "x86-64-%s", target);
        setenv("GABLE_CPU_TARGET", text, 1);
    }
    if (gb_driver_choose("cpu", &driver) != GB_OK) {
        gb_complain("%s", gb_why());
        exit(1);
    }
    cu = &driver->table;
    NEED(cuInit(0));
    NEED(cuCtxCreate_v2(&context, 0, 0));
    NEED(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
}

void device_row_open(const row_t *row, void **buffers, device_row_t *out)
{
    memset(out, 0, sizeof(*out));
    NEED(cuModuleLoadData(&out->module, kernels_ptx));
    NEED(cuModuleGetFunction(&out->function, out->module, row->name));
    for (int i = 0; i < ROW_BUFFERS; i++) {
        if (row->bytes[i]) {
            NEED(cuMemAlloc_v2(&out->memory[i], row->bytes[i]));
            NEED(cuMemcpyHtoD_v2(out->memory[i], buffers[i], row->bytes[i]));
        }
    }
}

void device_row_run(const row_t *row, const device_row_t *d, int count)
{
    void *params[ROW_ARGS];
    CUdeviceptr memory[ROW_BUFFERS];
    row_arg_t args[ROW_ARGS];
    memcpy(memory, d->memory, sizeof(memory));
    memcpy(args, row->args, sizeof(args));
    for (int i = 0; i < ROW_ARGS && args[i].kind; i++)
        params[i] = args[i].kind == 'b'   ? (void *)&memory[args[i].integer]
                    : args[i].kind == 'i' ? (void *)&args[i].integer
                                          : (void *)&args[i].number;
    const unsigned *g = row->grid, *b = row->block;
    for (int i = 0; i < count; i++)
        NEED(cuLaunchKernel(d->function, g[0], g[1], g[2], b[0], b[1], b[2], 0, stream, params,
                            NULL));
    NEED(cuStreamSynchronize(stream));
}

void device_row_read(const row_t *row, const device_row_t *d, void *result)
{
    NEED(cuMemcpyDtoH_v2(result, d->memory[row->result], row->bytes[row->result]));
}

void device_row_close(device_row_t *d)
{
    for (int i = 0; i < ROW_BUFFERS; i++)
        if (d->memory[i])
            NEED(cuMemFree_v2(d->memory[i]));
    NEED(cuModuleUnload(d->module));
}

double device_first_launch(void)
{
    enum { COUNT = 1000, BLOCK = 256 };
    static float x[COUNT], w[COUNT], out[3];
    CUmodule module;
    CUfunction function;
    CUdeviceptr dx, dw, dout;
    int n = COUNT;
    float a = 0.5f, sum = 0, square = 0;
    for (int i = 0; i < COUNT; i++) {
        x[i] = (float)(i % 17) - 8;
        w[i] = (float)(i % 5);
        sum += a * x[i] * w[i];
        square += a * x[i] * a * x[i];
    }
    NEED(cuMemAlloc_v2(&dx, sizeof(x)));
    NEED(cuMemAlloc_v2(&dw, sizeof(w)));
    NEED(cuMemAlloc_v2(&dout, sizeof(out)));
    NEED(cuMemcpyHtoD_v2(dx, x, sizeof(x)));
    NEED(cuMemcpyHtoD_v2(dw, w, sizeof(w)));
    void *params[] = {&n, &a, &dx, &dw, &dout};
    uint64_t start = gb_now_ns();
    NEED(cuModuleLoadData(&module, kernels_first_ptx));
    NEED(cuModuleGetFunction(&function, module, "first"));
    NEED(cuLaunchKernel(function, 1, 1, 1, BLOCK, 1, 1, 0, stream, params, NULL));
    NEED(cuStreamSynchronize(stream));
    double ns = (double)(gb_now_ns() - start);
    NEED(cuMemcpyDtoH_v2(out, dout, sizeof(out)));
    if (fabsf(out[0] - sum) > 1e-2f || fabsf(out[1] - sqrtf(square / COUNT)) > 1e-4f ||
        out[2] < 4.0f || out[2] > 4.0f) {
        gb_complain("the first kernel's results are wrong: run the device's tests");
        exit(1);
    }
    return ns;
}

double device_empty_launch(int count)
{
    static CUfunction function;
    if (!function) {
        CUmodule module;
        NEED(cuModuleLoadData(&module, kernels_first_ptx));
        NEED(cuModuleGetFunction(&function, module, "nothing"));
        NEED(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
        NEED(cuStreamSynchronize(stream));
    }
    uint64_t start = gb_now_ns();
    for (int i = 0; i < count; i++) {
        NEED(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, NULL, NULL));
        NEED(cuStreamSynchronize(stream));
    }
    return (double)(gb_now_ns() - start) / count;
}
