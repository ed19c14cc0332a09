/* exit_program driver|runtime WAY [LIBRARY]: a program linked with the CUDA libraries that calls them at its end,
 * from the place that WAY names. Each call must give success or say that the library has ended, which the status
 * tells: 10 + the number of places that have called, plus 10 for each of these that came too late. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gb_cuda_api.h"
#include "rt_api.h"
#include "tests/e2e/remoting/saxpy_ptx.h"
#include "tests/fault/remoting/exit_library.h"

enum { BYTES = 8 << 20, FILLS = 40, THREADS = 4 };

static int places, late; /* that have called; of these after the end */
static int runtime;      /* its functions are called, not the driver's */
static CUcontext context;
static CUdeviceptr memory;
static CUstream stream;
static CUevent event;
static CUfunction spin;
static CUmodule module;
static CUdeviceptr flag;
static void *pinned;

static void fail(const char *what, int result)
{
    fprintf(stderr, "exit_program: %s gives %d\n", what, result);
    _exit(1);
}

#define NEED(call)                                                                                 \
    do {                                                                                           \
        int result_ = (int)(call);                                                                 \
        if (result_)                                                                               \
            fail(#call, result_);                                                                  \
    } while (0)

/* cudaErrorCudartUnloading has the number of CUDA_ERROR_DEINITIALIZED. */
#define LATE(call)                                                                                 \
    do {                                                                                           \
        int result_ = (int)(call);                                                                 \
        if (result_ && result_ != CUDA_ERROR_DEINITIALIZED && result_ != CUDA_ERROR_NOT_READY)     \
            fail(#call, result_);                                                                  \
        *over |= result_ == CUDA_ERROR_DEINITIALIZED;                                              \
    } while (0)

static void make(void)
{
    void *made;
    NEED(cuInit(0));
    NEED(cuDevicePrimaryCtxRetain(&context, 0));
    NEED(cuCtxSetCurrent(context));
    NEED(cuModuleLoadData(&module, saxpy_ptx));
    NEED(cuModuleGetFunction(&spin, module, "spin"));
    NEED(cuMemAlloc_v2(&flag, 4));
    NEED(cuMemsetD32_v2(flag, 0, 1));
    if (runtime) {
        NEED(cudaMalloc(&made, BYTES));
        memory = (CUdeviceptr)(uintptr_t)made;
        NEED(cudaMallocHost(&pinned, BYTES));
        NEED(cudaStreamCreate((cudaStream_t *)&stream));
        NEED(cudaEventCreate((cudaEvent_t *)&event));
    } else {
        NEED(cuMemAlloc_v2(&memory, BYTES));
        NEED(cuMemHostAlloc(&pinned, BYTES, 0));
        NEED(cuStreamCreate(&stream, 0));
        NEED(cuEventCreate(&event, 0));
    }
}

static void queue_work(void)
{
    for (int i = 0; i < FILLS; i++)
        if (runtime)
            NEED(cudaMemsetAsync((void *)(uintptr_t)memory, i, BYTES, (cudaStream_t)stream));
        else
            NEED(cuMemsetD8Async(memory, (unsigned char)i, BYTES, stream));
}

static void queue_without_end(void)
{
    void *args[] = {&flag};
    NEED(cuLaunchKernel(spin, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
    queue_work();
}

/* What destructors do: look, wait, copy, free. `waits`: the work comes to an end. */
static void call_driver(int *over, int waits)
{
    CUdeviceptr more = 0;
    CUcontext now;
    char name[64];
    int value;
    unsigned type;
    LATE(cuInit(0));
    LATE(cuDeviceGetCount(&value));
    LATE(cuDeviceGetName(name, sizeof(name), 0));
    LATE(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
    LATE(cuCtxGetCurrent(&now));
    LATE(cuCtxSetCurrent(context));
    LATE(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory));
    LATE(cuMemAlloc_v2(&more, 4096));
    LATE(cuMemsetD8Async(memory, 1, BYTES, stream));
    LATE(cuEventRecord(event, stream));
    LATE(cuEventQuery(event));
    LATE(cuStreamQuery(stream));
    if (waits) {
        LATE(cuMemcpyDtoHAsync_v2(pinned, memory, BYTES, stream));
        LATE(cuMemcpyHtoD_v2(memory, name, sizeof(name)));
        LATE(cuStreamSynchronize(stream));
        LATE(cuCtxSynchronize());
    }
    if (!*over)
        LATE(cuMemFree_v2(more));
}

static void call_runtime(int *over, int waits)
{
    void *more = NULL, *there = (void *)(uintptr_t)memory;
    char bytes[64] = {0};
    int value;
    struct cudaPointerAttributes attributes;
    LATE(cudaGetDeviceCount(&value));
    LATE(cudaSetDevice(0));
    LATE(cudaDeviceGetAttribute(&value, (int)CU_DEVICE_ATTRIBUTE_WARP_SIZE, 0));
    LATE(cudaPointerGetAttributes(&attributes, there));
    LATE(cudaMalloc(&more, 4096));
    LATE(cudaMemsetAsync(there, 1, BYTES, (cudaStream_t)stream));
    LATE(cudaEventRecord((cudaEvent_t)event, (cudaStream_t)stream));
    LATE(cudaStreamQuery((cudaStream_t)stream));
    if (waits) {
        LATE(cudaMemcpyAsync(pinned, there, BYTES, cudaMemcpyDeviceToHost, (cudaStream_t)stream));
        LATE(cudaMemcpy(there, bytes, sizeof(bytes), cudaMemcpyHostToDevice));
        LATE(cudaStreamSynchronize((cudaStream_t)stream));
        LATE(cudaDeviceSynchronize());
    }
    if (!*over)
        LATE(cudaFree(more));
}

static void call(int waits)
{
    int over = 0;
    if (runtime)
        call_runtime(&over, waits);
    else
        call_driver(&over, waits);
    places++;
    late += over;
}

/* The last destructor gives back what there is. */
static void call_and_free(void)
{
    int over[1] = {0};
    call(1);
    if (runtime) {
        LATE(cudaEventDestroy((cudaEvent_t)event));
        LATE(cudaStreamDestroy((cudaStream_t)stream));
        LATE(cudaFreeHost(pinned));
        LATE(cudaFree((void *)(uintptr_t)memory));
        LATE(cudaDeviceReset());
    } else {
        LATE(cuEventDestroy_v2(event));
        LATE(cuStreamDestroy_v2(stream));
        LATE(cuMemFreeHost(pinned));
        LATE(cuMemFree_v2(memory));
        LATE(cuModuleUnload(module));
        LATE(cuDevicePrimaryCtxRelease_v2(0));
    }
    _exit(10 + places + 10 * late);
}

static void call_waiting(void)
{
    call(1);
}

static void call_only(void)
{
    call(0);
}

static int calls_in_destructor;

__attribute__((destructor)) static void leave(void)
{
    if (calls_in_destructor)
        call(1);
}

/* ---- exit() while other threads are inside ---- */

static void *work(void *arg)
{
    unsigned char bytes[4096] = {0};
    (void)arg;
    if (cuCtxSetCurrent(context))
        return NULL;
    for (;;) { /* until the process ends, or the library has */
        CUdeviceptr p;
        if (cuMemAlloc_v2(&p, sizeof(bytes)) || cuMemcpyHtoD_v2(p, bytes, sizeof(bytes)) ||
            cuMemcpyDtoH_v2(bytes, p, sizeof(bytes)) || cuMemFree_v2(p))
            return NULL;
    }
}

static void *leave_from_here(void *arg)
{
    (void)arg;
    exit(77); /* the last destructor sets the status */
}

static void exit_from_a_thread(void)
{
    pthread_t threads[THREADS], last;
    queue_without_end();
    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, NULL) || pthread_detach(threads[i]))
            fail("pthread_create", 0);
    if (atexit(call_only) || pthread_create(&last, NULL, leave_from_here, NULL) ||
        pthread_detach(last))
        fail("pthread_create", 0);
    if (runtime)
        cudaStreamSynchronize((cudaStream_t)stream);
    else
        cuStreamSynchronize(stream);
    for (;;)
        pause();
}

static void report(void)
{
    call(0);
    _exit(10 + places + 10 * late);
}

/* A plugin with CUDA in its destructor goes in the middle of the work, and then the program. */
static void close_a_plugin(const char *path)
{
    void *plugin = dlmopen(LM_ID_BASE, path, RTLD_NOW | RTLD_LOCAL);
    void (*set)(void (*)(void)) = NULL;
    if (plugin)
        *(void **)&set = dlsym(plugin, "exit_library_set");
    if (!set)
        fail(dlerror(), 0);
    set(call_waiting);
    queue_work();
    if (dlclose(plugin) || places != 1)
        fail("dlclose", places);
}

int main(int argc, char **argv)
{
    const char *way = argc > 2 ? argv[2] : "";
    runtime = argc > 1 && !strcmp(argv[1], "runtime");
    alarm(30);
    if (!strcmp(way, "atexit") && atexit(call_waiting)) /* called after the one below */
        return 1;
    make();
    if (!strcmp(way, "thread")) {
        exit_library_set(report);
        exit_from_a_thread();
    }
    exit_library_set(call_and_free);
    if (!strcmp(way, "plugin"))
        close_a_plugin(argv[3]);
    if (!strcmp(way, "atexit") && atexit(call_waiting))
        return 1;
    calls_in_destructor = !strcmp(way, "destructor");
    queue_work();
    return 0;
}
