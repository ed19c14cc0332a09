#include "tests/e2e/remoting/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const gb_cuda_table_t *cuda;
int real;
CUcontext context;
CUmodule module;
CUfunction saxpy;

int remote_set_up(void **state)
{
    (void)state;
    OK(cuda->cuInit(0));
    OK(cuda->cuInit(0));
    OK(cuda->cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuda->cuCtxSetCurrent(context));
    OK(cuda->cuModuleLoadData(&module, saxpy_ptx));
    OK(cuda->cuModuleGetFunction(&saxpy, module, "saxpy"));
    return 0;
}

float *numbers(unsigned n)
{
    float *x = malloc(n * sizeof(*x));
    for (unsigned i = 0; i < n; i++)
        x[i] = (float)(i % 1000);
    return x;
}

void remote_open(int argc, char **argv, proxy_t *proxy)
{
    const gb_driver_t *driver;
    const char *kind = argc > 1 ? argv[1] : "null";
    need_compiler(kind);
    real = strcmp(kind, "null") != 0;
    proxy_start(proxy, kind);
    setenv("GABLE_PROXIES", proxy->endpoint, 1);
    if (gb_driver_open(GABLE_BUILD_DIR "/lib/gable/remote/libcuda.so.1", &driver)) {
        fprintf(stderr, "test: %s\n", gb_why());
        exit(1);
    }
    cuda = &driver->table;
}
