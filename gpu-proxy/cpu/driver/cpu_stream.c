#include "gpu-proxy/cpu/driver/cpu_stream.h"

#include <stdlib.h>

#include "gpu-proxy/cpu/driver/cpu_thread.h"

static void destroy(cpu_object_t *object)
{
    cpu_stream_t *stream = (cpu_stream_t *)object;
    cpu_sched_unlink(stream);
    cpu_object_put(&stream->context->object);
    free(stream);
}

CUresult cpu_stream_open(cpu_context_t *context, unsigned flags, int priority,
                         cpu_stream_t **stream)
{
    cpu_stream_t *made = cpu_object_memory(sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cpu_object_init(&made->object, CPU_KIND_STREAM, destroy);
    cpu_object_ref(&context->object);
    made->context = context;
    made->lanes = &context->lanes;
    made->flags = flags;
    made->priority = priority;
    cpu_sched_attach(made);
    *stream = made;
    return CUDA_SUCCESS;
}

void cpu_stream_close(cpu_stream_t *stream)
{
    cpu_sched_detach(stream);
    cpu_object_put(&stream->object);
}

CUresult cpu_stream_get(cpu_context_t *context, CUstream handle, cpu_stream_t **stream)
{
    if (handle == NULL || handle == CU_STREAM_LEGACY) {
        cpu_object_ref(&context->lanes.legacy->object);
        *stream = context->lanes.legacy;
        return CUDA_SUCCESS;
    }
    if (handle == CU_STREAM_PER_THREAD)
        return cpu_thread_stream(context, stream);
    cpu_stream_t *found =
        (cpu_stream_t *)cpu_handle_get(CPU_KIND_STREAM, (uint64_t)(uintptr_t)handle);
    if (!found)
        return CUDA_ERROR_INVALID_HANDLE;
    CUresult result = found->context == context ? CUDA_SUCCESS : cpu_context_state(found->context);
    if (result) {
        cpu_object_put(&found->object);
        return result;
    }
    *stream = found;
    return CUDA_SUCCESS;
}
