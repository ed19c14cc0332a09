#include "gpu-proxy/runtime/rt_state.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/core/gb_log.h"
#include "common/cuda/gb_driver.h"
#include "gpu-proxy/runtime/rt_default.h"

typedef struct {
    _Atomic(CUcontext) context; /* NULL: not retained */
    _Atomic unsigned resets;    /* a context that was current before the last one is gone */
} rt_primary_t;

static struct {
    pthread_once_t once;
    int error;
    int devices;
    rt_primary_t *primary;
    pthread_mutex_t lock; /* retaining and resetting */
} state = {.once = PTHREAD_ONCE_INIT, .lock = PTHREAD_MUTEX_INITIALIZER};

/* The context that the runtime itself has made current on a thread, to tell it from the program's. */
typedef struct {
    int device;
    CUcontext context;
    unsigned resets;
    cudaError_t last;
} rt_thread_t;

static __thread rt_thread_t self;

const gb_cuda_table_t *rt_cu;

static int open_driver(void)
{
    const gb_driver_t *driver;
    if (gb_driver_open("libcuda.so.1", &driver) != GB_OK) {
        gb_log(GB_LOG_WARN, "%s", gb_why());
        return cudaErrorInsufficientDriver;
    }
    rt_cu = &driver->table;
    CUresult result = rt_cu->cuInit(0);
    if (!result)
        result = rt_cu->cuDeviceGetCount(&state.devices);
    if (result)
        return (int)result;
    if (state.devices == 0)
        return cudaErrorNoDevice;
    state.primary = calloc((size_t)state.devices, sizeof(*state.primary));
    return state.primary ? cudaSuccess : cudaErrorMemoryAllocation;
}

static void init_once(void)
{
    state.error = open_driver();
}

int rt_init(void)
{
    pthread_once(&state.once, init_once);
    return state.error;
}

int rt_device_count(void)
{
    return state.devices;
}

int rt_primary_context(int device, CUcontext *context)
{
    rt_primary_t *p = &state.primary[device];
    CUcontext known = atomic_load_explicit(&p->context, memory_order_acquire);
    CUresult result = CUDA_SUCCESS;
    if (!known) {
        pthread_mutex_lock(&state.lock);
        known = atomic_load(&p->context);
        if (!known) {
            CUdevice handle;
            result = rt_cu->cuDeviceGet(&handle, device);
            if (!result)
                result = rt_cu->cuDevicePrimaryCtxRetain(&known, handle);
            if (!result)
                atomic_store_explicit(&p->context, known, memory_order_release);
        }
        pthread_mutex_unlock(&state.lock);
    }
    if (!result)
        *context = known;
    return (int)result;
}

/* True if `now` is a context that lives: the program's, or ours and not reset since. */
static int usable(CUcontext now)
{
    if (now == NULL)
        return 0;
    return now != self.context ||
           self.resets ==
               atomic_load_explicit(&state.primary[self.device].resets, memory_order_relaxed);
}

static int make_current(int device)
{
    CUcontext context;
    unsigned resets = atomic_load(&state.primary[device].resets);
    int error = rt_primary_context(device, &context);
    if (error)
        return error;
    CUresult result = rt_cu->cuCtxSetCurrent(context);
    if (result)
        return (int)result;
    self.device = device;
    self.context = context;
    self.resets = resets;
    return cudaSuccess;
}

int rt_enter(void)
{
    int error = rt_init();
    if (error)
        return error;
    CUcontext now = NULL;
    CUresult result = rt_cu->cuCtxGetCurrent(&now);
    if (result)
        return (int)result;
    return usable(now) ? cudaSuccess : make_current(self.device);
}

int rt_device(void)
{
    CUcontext now = NULL;
    CUdevice device;
    if (rt_cu->cuCtxGetCurrent(&now) == CUDA_SUCCESS && now && now != self.context &&
        rt_cu->cuCtxGetDevice(&device) == CUDA_SUCCESS)
        return device;
    return self.device;
}

cudaError_t cudaSetDevice(int device)
{
    int error = rt_init();
    if (!error && (device < 0 || device >= state.devices))
        error = cudaErrorInvalidDevice;
    return rt_result(error ? error : make_current(device));
}

cudaError_t cudaGetDevice(int *device)
{
    int error = rt_init();
    if (!error && !device)
        error = cudaErrorInvalidValue;
    if (!error)
        *device = rt_device();
    return rt_result(error);
}

/* Everything of the device's primary context goes: allocations, streams, events, loaded kernels. */
cudaError_t cudaDeviceReset(void)
{
    int error = rt_init();
    if (error)
        return rt_result(error);
    int device = rt_device();
    rt_primary_t *p = &state.primary[device];
    CUdevice handle;
    pthread_mutex_lock(&state.lock);
    CUresult result = rt_cu->cuDeviceGet(&handle, device);
    if (!result && atomic_load(&p->context)) {
        rt_cu->cuCtxSynchronize();
        rt_cu->cuCtxSetCurrent(NULL);
        result = rt_cu->cuDevicePrimaryCtxReset_v2(handle);
        atomic_store(&p->context, NULL);
        atomic_fetch_add(&p->resets, 1);
    }
    pthread_mutex_unlock(&state.lock);
    self.last = cudaSuccess;
    return rt_result((int)result);
}

/* ---- the last error ---- */

cudaError_t rt_result(int error)
{
    if (error)
        self.last = (cudaError_t)error;
    return (cudaError_t)error;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t last = self.last;
    self.last = cudaSuccess;
    return last;
}

cudaError_t cudaPeekAtLastError(void)
{
    return self.last;
}

cudaError_t rt_not_supported(int *told, const char *name)
{
    if (!__atomic_exchange_n(told, 1, __ATOMIC_RELAXED))
        gb_log(GB_LOG_WARN, "%s is not supported: cudaErrorNotSupported is returned", name);
    return rt_result(cudaErrorNotSupported);
}

const cudaLaunchConfig_t *rt_thread_config(const cudaLaunchConfig_t *config,
                                           cudaLaunchConfig_t *own)
{
    if (!config)
        return NULL;
    *own = *config;
    own->stream = rt_thread_stream(config->stream);
    return own;
}
