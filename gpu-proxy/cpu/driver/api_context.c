/* Entry points: contexts, primary contexts, limits, and what has no effect on a CPU. */
#include <stdatomic.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/cpu/driver/cpu_capture.h"
#include "gpu-proxy/cpu/driver/cpu_context.h"
#include "gpu-proxy/cpu/driver/cpu_stream.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"

static CUcontext handle_of(const cpu_context_t *context)
{
    return (CUcontext)context->object.handle;
}

/* ---- primary contexts ---- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    cpu_device_t *device;
    cpu_context_t *context;
    CUresult result = cpu_device_get(dev, &device);
    if (result)
        return result;
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    result = cpu_primary_retain(device, &context);
    if (result)
        return result;
    *pctx = handle_of(context);
    cpu_object_put(&context->object);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    cpu_device_t *device;
    CUresult result = cpu_device_get(dev, &device);
    return result ? result : cpu_primary_release(device);
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    cpu_device_t *device;
    CUresult result = cpu_device_get(dev, &device);
    if (!result)
        cpu_primary_reset(device);
    return result;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
    cpu_device_t *device;
    CUresult result = cpu_device_get(dev, &device);
    if (result)
        return result;
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&device->lock);
    device->primary_flags = flags;
    if (device->primary) {
        pthread_mutex_lock(&device->primary->lock);
        device->primary->flags = flags;
        pthread_mutex_unlock(&device->primary->lock);
    }
    pthread_mutex_unlock(&device->lock);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    cpu_device_t *device;
    CUresult result = cpu_device_get(dev, &device);
    if (result)
        return result;
    if (!flags || !active)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&device->lock);
    *flags = device->primary_flags;
    *active = device->primary != NULL;
    pthread_mutex_unlock(&device->lock);
    return CUDA_SUCCESS;
}

/* ---- contexts of one's own ---- */

static CUresult create(CUcontext *pctx, unsigned flags, CUdevice dev)
{
    cpu_device_t *device;
    cpu_context_t *context, *unused;
    CUresult result = cpu_thread_peek(&unused);
    if (!result)
        result = cpu_device_get(dev, &device);
    if (result)
        return result;
    if (!pctx || (flags & ~(unsigned)CU_CTX_FLAGS_MASK))
        return CUDA_ERROR_INVALID_VALUE;
    result = cpu_context_open(device, flags, false, &context);
    if (result)
        return result;
    result = cpu_thread_push(context);
    if (result)
        cpu_context_close(context);
    else
        *pctx = handle_of(context);
    cpu_object_put(&context->object);
    return result;
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    return create(pctx, flags, dev);
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
                        unsigned int flags, CUdevice dev)
{
    if (paramsArray || numParams)
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create(pctx, flags, dev);
}

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
                        CUdevice dev)
{
    if (ctxCreateParams && (ctxCreateParams->numExecAffinityParams || ctxCreateParams->cigParams))
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    return create(pctx, flags, dev);
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    cpu_context_t *context, *current;
    CUresult result = cpu_thread_peek(&current);
    if (!result)
        result = cpu_context_get(ctx, &context);
    if (result)
        return result;
    if (context->primary || !cpu_context_close(context))
        result = CUDA_ERROR_INVALID_CONTEXT;
    else if (current == context)
        (void)cpu_thread_pop(NULL);
    cpu_object_put(&context->object);
    return result;
}

/* The calling thread's context counts its users; the last one that leaves ends it. Old: programs have
 * cuCtxDestroy. */
CUresult cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!pctx || flags)
        return CUDA_ERROR_INVALID_VALUE;
    atomic_fetch_add(&context->attached, 1);
    *pctx = handle_of(context);
    return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext ctx)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (handle_of(context) != ctx || context->primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    unsigned attached = atomic_load(&context->attached);
    while (attached && !atomic_compare_exchange_weak(&context->attached, &attached, attached - 1))
        continue;
    return attached ? CUDA_SUCCESS : cuCtxDestroy_v2(ctx);
}

/* Contexts that were made without an affinity have none to tell. */
CUresult cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!pExecAffinity || (unsigned)type >= CU_EXEC_AFFINITY_TYPE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

CUresult cuCtxGetCurrent(CUcontext *pctx)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_peek(&context);
    if (result)
        return result;
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    *pctx = context ? handle_of(context) : NULL;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_peek(&context);
    if (result)
        return result;
    if (!ctx)
        return cpu_thread_set(NULL);
    result = cpu_context_get(ctx, &context);
    if (result)
        return result;
    result = cpu_thread_set(context);
    cpu_object_put(&context->object);
    return result;
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_peek(&context);
    if (!result)
        result = cpu_context_get(ctx, &context);
    if (result)
        return result;
    result = cpu_thread_push(context);
    cpu_object_put(&context->object);
    return result;
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_peek(&context);
    return result ? result : cpu_thread_pop(pctx);
}

/* The context that a handle names, NULL the current one; with a reference, fit for use or not. */
static CUresult named_or_current(CUcontext ctx, cpu_context_t **context)
{
    CUresult result = cpu_thread_peek(context);
    if (result)
        return result;
    if (ctx)
        return cpu_context_get(ctx, context);
    if (!*context)
        return CUDA_ERROR_INVALID_CONTEXT;
    cpu_object_ref(&(*context)->object);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
    cpu_context_t *context;
    CUresult result = named_or_current(ctx, &context);
    if (result)
        return result;
    if (device)
        *device = context->device->index;
    cpu_object_put(&context->object);
    return device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    return cuCtxGetDevice_v2(device, NULL);
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
    cpu_context_t *context;
    CUresult result = named_or_current(ctx, &context);
    if (result)
        return result;
    result = cpu_context_state(context);
    if (!result)
        result = cpu_capture_unsafe();
    if (!result) {
        cpu_sched_wait_context(&context->lanes);
        result = cpu_context_state(context);
    }
    cpu_console_flush(&context->console);
    cpu_object_put(&context->object);
    return result;
}

CUresult cuCtxSynchronize(void)
{
    return cuCtxSynchronize_v2(NULL);
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
    cpu_context_t *context;
    CUresult result = named_or_current(ctx, &context);
    if (result)
        return result;
    cpu_object_put(&context->object);
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = 3020;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
    cpu_context_t *context;
    CUresult result = named_or_current(ctx, &context);
    if (result)
        return result;
    if (ctxId)
        *ctxId = context->id;
    cpu_object_put(&context->object);
    return ctxId ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&context->lock);
    *flags = context->flags;
    pthread_mutex_unlock(&context->lock);
    return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&context->lock);
    context->flags = flags;
    pthread_mutex_unlock(&context->lock);
    return CUDA_SUCCESS;
}

/* ---- limits and preferences: those of stack, printf and heap are what kernels get, the others are
 * kept and told ---- */

CUresult cuCtxGetLimit(size_t *pvalue, CUlimit limit)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!pvalue || (int)limit < 0 || limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if ((int)limit >= CPU_LIMITS)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    pthread_mutex_lock(&context->lock);
    *pvalue = context->limits[limit];
    pthread_mutex_unlock(&context->lock);
    return CUDA_SUCCESS;
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if ((int)limit < 0 || limit >= CU_LIMIT_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    if ((int)limit >= CPU_LIMITS)
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    if ((limit == CU_LIMIT_PRINTF_FIFO_SIZE && cpu_console_in_use(&context->console)) ||
        (limit == CU_LIMIT_MALLOC_HEAP_SIZE && cpu_kernel_heap_in_use(&context->heap)))
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&context->lock);
    context->limits[limit] = value;
    pthread_mutex_unlock(&context->lock);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *pconfig)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!pconfig)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&context->lock);
    *pconfig = context->cache_config;
    pthread_mutex_unlock(&context->lock);
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if ((int)config < 0 || config > CU_FUNC_CACHE_PREFER_EQUAL)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&context->lock);
    context->cache_config = config;
    pthread_mutex_unlock(&context->lock);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *pConfig)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!pConfig)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&context->lock);
    *pConfig =
        context->shared_config ? context->shared_config : CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    pthread_mutex_unlock(&context->lock);
    return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if ((int)config < 0 || config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&context->lock);
    context->shared_config = config;
    pthread_mutex_unlock(&context->lock);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (leastPriority)
        *leastPriority = CPU_PRIORITY_LEAST;
    if (greatestPriority)
        *greatestPriority = CPU_PRIORITY_GREATEST;
    return CUDA_SUCCESS;
}

/* ---- peer access: all devices share one address space; who may is only booked ---- */

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
    cpu_context_t *context, *peer;
    CUresult result = cpu_thread_context(&context);
    if (!result)
        result = cpu_context_get(peerContext, &peer);
    if (result)
        return result;
    uint32_t bit = 1u << peer->device->index;
    bool same = peer->device == context->device;
    cpu_object_put(&peer->object);
    if (Flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (same)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&context->lock);
    result = context->peers & bit ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS;
    context->peers |= bit;
    pthread_mutex_unlock(&context->lock);
    return result;
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext)
{
    cpu_context_t *context, *peer;
    CUresult result = cpu_thread_context(&context);
    if (!result)
        result = cpu_context_get(peerContext, &peer);
    if (result)
        return result;
    uint32_t bit = 1u << peer->device->index;
    cpu_object_put(&peer->object);
    pthread_mutex_lock(&context->lock);
    result = context->peers & bit ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    context->peers &= ~bit;
    pthread_mutex_unlock(&context->lock);
    return result;
}

/* ---- the profiler: there is none to tell ---- */

CUresult cuProfilerStart(void)
{
    cpu_context_t *context;
    return cpu_thread_context(&context);
}

CUresult cuProfilerStop(void)
{
    cpu_context_t *context;
    return cpu_thread_context(&context);
}

/* There is no such cache. */
CUresult cuCtxResetPersistingL2Cache(void)
{
    cpu_context_t *context;
    return cpu_thread_context(&context);
}

/* What a network card writes into this machine's memory is seen by all: a fence is all that is left to do. */
CUresult cuFlushGPUDirectRDMAWrites(CUflushGPUDirectRDMAWritesTarget target,
                                    CUflushGPUDirectRDMAWritesScope scope)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (target != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TARGET_CURRENT_CTX ||
        (scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_OWNER &&
         scope != CU_FLUSH_GPU_DIRECT_RDMA_WRITES_TO_ALL_DEVICES))
        return CUDA_ERROR_INVALID_VALUE;
    atomic_thread_fence(memory_order_seq_cst);
    return CUDA_SUCCESS;
}
