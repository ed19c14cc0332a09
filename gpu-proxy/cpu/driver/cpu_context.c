#include "gpu-proxy/cpu/driver/cpu_context.h"

#include <stdlib.h>

#include "gpu-proxy/cpu/driver/cpu_event.h"
#include "gpu-proxy/cpu/driver/cpu_guard.h"
#include "gpu-proxy/cpu/driver/cpu_memory.h"
#include "gpu-proxy/cpu/driver/cpu_graph_memory.h"
#include "gpu-proxy/cpu/driver/cpu_ipc.h"
#include "gpu-proxy/cpu/driver/cpu_mempool.h"
#include "gpu-proxy/cpu/driver/cpu_module.h"
#include "gpu-proxy/cpu/driver/cpu_stream.h"
#include "gpu-proxy/cpu/driver/cpu_texture.h"

static void destroy(cpu_object_t *object)
{
    cpu_context_t *context = (cpu_context_t *)object;
    cpu_console_destroy(&context->console);
    cpu_kernel_heap_destroy(&context->heap);
    pthread_mutex_destroy(&context->lock);
    free(context);
}

CUresult cpu_context_open(cpu_device_t *device, unsigned flags, bool primary,
                          cpu_context_t **context)
{
    static _Atomic uint64_t ids;
    cpu_context_t *made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cpu_object_init(&made->object, CPU_KIND_CONTEXT, destroy);
    pthread_mutex_init(&made->lock, NULL);
    cpu_console_init(&made->console);
    cpu_kernel_heap_init(&made->heap);
    made->device = device;
    made->flags = flags;
    made->primary = primary;
    made->id = atomic_fetch_add(&ids, 1) + 1;
    made->limits[CU_LIMIT_STACK_SIZE] = 1024;
    made->limits[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    made->limits[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    made->limits[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    made->limits[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    made->limits[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
    CUresult result = cpu_stream_open(made, CU_STREAM_DEFAULT, 0, &made->lanes.legacy);
    if (!result && !cpu_handle_add(&made->object))
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        if (made->lanes.legacy)
            cpu_stream_close(made->lanes.legacy);
        cpu_object_put(&made->object);
        return result;
    }
    cpu_guard_install(true);
    *context = made;
    return CUDA_SUCCESS;
}

/* Whether an object is one of the context's, for the sweep of the handle table. */
static int belongs(const cpu_object_t *object, const void *context)
{
    switch (object->kind) {
    case CPU_KIND_STREAM:
        return ((const cpu_stream_t *)object)->context == context;
    case CPU_KIND_EVENT:
        return ((const cpu_event_t *)object)->context == context;
    case CPU_KIND_MODULE:
    case CPU_KIND_FUNCTION:
        return cpu_module_context(object) == context;
    case CPU_KIND_ARRAY:
        return ((const cpu_array_t *)object)->context == context;
    case CPU_KIND_MIPMAP:
        return ((const cpu_mipmap_t *)object)->context == context;
    case CPU_KIND_TEXREF:
        return ((const cpu_texref_t *)object)->context == context;
    case CPU_KIND_TEXTURE:
        return ((const cpu_texture_object_t *)object)->context == context;
    default:
        return 0;
    }
}

bool cpu_context_close(cpu_context_t *context)
{
    if (atomic_exchange(&context->dead, true))
        return false;
    cpu_sched_cancel(&context->lanes);
    cpu_console_flush(&context->console);
    cpu_object_put(cpu_handle_remove(CPU_KIND_CONTEXT, context->object.handle));
    cpu_module_close_all(context);
    cpu_handle_sweep(belongs, context);
    cpu_stream_close(context->lanes.legacy);
    cpu_mempool_forget_context(context);
    cpu_ipc_forget_context(context);
    cpu_graph_memory_forget_context(context);
    cpu_memory_free_context(context);
    return true;
}

CUresult cpu_context_state(const cpu_context_t *context)
{
    if (!cpu_context_alive(context))
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    return atomic_load_explicit(&context->lanes.fault, memory_order_acquire);
}

CUresult cpu_context_get(CUcontext handle, cpu_context_t **context)
{
    cpu_context_t *found =
        (cpu_context_t *)cpu_handle_get(CPU_KIND_CONTEXT, (uint64_t)(uintptr_t)handle);
    if (!found)
        return CUDA_ERROR_INVALID_CONTEXT;
    *context = found;
    return CUDA_SUCCESS;
}

CUresult cpu_primary_retain(cpu_device_t *device, cpu_context_t **context)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&device->lock);
    if (!device->primary)
        result = cpu_context_open(device, device->primary_flags, true, &device->primary);
    if (!result) {
        device->primary_retains++;
        cpu_object_ref(&device->primary->object);
        *context = device->primary;
    }
    pthread_mutex_unlock(&device->lock);
    return result;
}

static void end_primary(cpu_context_t *context)
{
    if (!context)
        return;
    cpu_context_close(context);
    cpu_object_put(&context->object);
}

CUresult cpu_primary_release(cpu_device_t *device)
{
    cpu_context_t *last = NULL;
    pthread_mutex_lock(&device->lock);
    CUresult result = device->primary_retains ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    if (!result && --device->primary_retains == 0) {
        last = device->primary;
        device->primary = NULL;
    }
    pthread_mutex_unlock(&device->lock);
    end_primary(last);
    return result;
}

void cpu_primary_reset(cpu_device_t *device)
{
    pthread_mutex_lock(&device->lock);
    cpu_context_t *last = device->primary;
    device->primary = NULL; /* who retains it again gets a new one; the count stays */
    pthread_mutex_unlock(&device->lock);
    end_primary(last);
}
