/* A CUDA program on a string: commands on stdin, one line of answer each, through the remote libcuda.
 * The tests of the proxy kill it, starve it and take its GPU away. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cuda/gb_driver.h"

enum { COPY_BYTES = 3 << 20 };

static const char ENDLESS[] = ".version 6.0\n.target sm_50\n.address_size 64\n"
                              ".visible .entry endless()\n{\nloop:\n\tbra.uni loop;\n}\n";

static CUresult init(const gb_cuda_table_t *t)
{
    CUdevice device;
    CUcontext context;
    CUresult r = t->cuInit(0);
    if (r == CUDA_SUCCESS)
        r = t->cuDeviceGet(&device, 0);
    if (r == CUDA_SUCCESS)
        r = t->cuDevicePrimaryCtxRetain(&context, device);
    return r == CUDA_SUCCESS ? t->cuCtxSetCurrent(context) : r;
}

static CUresult copy(const gb_cuda_table_t *t)
{
    static unsigned char out[COPY_BYTES];
    static unsigned char back[COPY_BYTES];
    CUdeviceptr at;
    for (size_t i = 0; i < COPY_BYTES; i++)
        out[i] = (unsigned char)(i * 2654435761u >> 13);
    memset(back, 0, sizeof back);
    CUresult r = t->cuMemAlloc_v2(&at, COPY_BYTES);
    if (r == CUDA_SUCCESS)
        r = t->cuMemcpyHtoD_v2(at, out, COPY_BYTES);
    if (r == CUDA_SUCCESS)
        r = t->cuMemcpyDtoH_v2(back, at, COPY_BYTES);
    if (r == CUDA_SUCCESS)
        r = t->cuMemFree_v2(at);
    if (r == CUDA_SUCCESS && memcmp(out, back, COPY_BYTES))
        return CUDA_ERROR_UNKNOWN;
    return r;
}

static CUresult spin(const gb_cuda_table_t *t)
{
    CUmodule module;
    CUfunction function;
    CUresult r = t->cuModuleLoadData(&module, ENDLESS);
    if (r == CUDA_SUCCESS)
        r = t->cuModuleGetFunction(&function, module, "endless");
    if (r == CUDA_SUCCESS)
        r = t->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
    /* a question that needs an answer: the launch has reached the device's queue */
    return r == CUDA_SUCCESS && t->cuStreamQuery(NULL) == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : r;
}

static CUresult run(const gb_cuda_table_t *t, const char *command)
{
    CUdeviceptr at;
    if (!strcmp(command, "init"))
        return init(t);
    if (!strcmp(command, "copy"))
        return copy(t);
    if (!strcmp(command, "spin"))
        return spin(t);
    if (!strcmp(command, "sync"))
        return t->cuCtxSynchronize();
    if (!strncmp(command, "alloc ", 6))
        return t->cuMemAlloc_v2(&at, strtoull(command + 6, NULL, 10));
    return CUDA_ERROR_INVALID_VALUE;
}

int main(void)
{
    static const gb_driver_t *driver; /* stays reachable: a driver is never unloaded */
    char command[128];
    if (gb_driver_choose("remote", &driver) != GB_OK) {
        fprintf(stderr, "proxy_client: %s\n", gb_why());
        return 1;
    }
    while (fgets(command, sizeof command, stdin)) {
        command[strcspn(command, "\n")] = 0;
        printf("%s %d\n", command, (int)run(&driver->table, command));
        fflush(stdout);
    }
    return 0;
}
