/* Entry points: streams, events, host functions and values in memory. */
#include <string.h>

#include "common/cuda/gb_beside_abi.h"
#include "common/cuda/gb_travel_abi.h"
#include "common/cuda/gb_cuda_default.h"
#include "gb_cuda_api.h"
#include "gpu-proxy/cpu/driver/cpu_ipc.h"
#include "gpu-proxy/cpu/driver/cpu_capture.h"
#include "gpu-proxy/cpu/driver/cpu_event.h"
#include "gpu-proxy/cpu/driver/cpu_host.h"
#include "gpu-proxy/cpu/driver/cpu_memory.h"
#include "gpu-proxy/cpu/driver/cpu_stream.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"
#include "gpu-proxy/cpu/driver/cpu_value.h"

/* The current context, then the stream that the handle means in it; with a reference. */
static CUresult enter(CUstream handle, cpu_stream_t **stream)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    return result ? result : cpu_stream_get(context, handle, stream);
}

static CUresult leave(cpu_stream_t *stream, CUresult result)
{
    cpu_object_put(&stream->object);
    return result;
}

CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
    cpu_context_t *context;
    cpu_stream_t *stream;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!phStream || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_INVALID_VALUE;
    if (priority > CPU_PRIORITY_LEAST)
        priority = CPU_PRIORITY_LEAST;
    if (priority < CPU_PRIORITY_GREATEST)
        priority = CPU_PRIORITY_GREATEST;
    result = cpu_stream_open(context, flags, priority, &stream);
    if (result)
        return result;
    uint64_t handle = cpu_handle_add(&stream->object);
    if (handle)
        *phStream = (CUstream)handle;
    else
        cpu_sched_detach(stream);
    return leave(stream, handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY);
}

CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
    return cuStreamCreateWithPriority(phStream, Flags, CPU_PRIORITY_LEAST);
}

CUresult cuStreamDestroy_v2(CUstream hStream)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_peek(&context);
    if (result)
        return result;
    cpu_object_t *object = cpu_handle_remove(CPU_KIND_STREAM, (uint64_t)(uintptr_t)hStream);
    if (!object)
        return CUDA_ERROR_INVALID_HANDLE;
    cpu_capture_forget_stream((cpu_stream_t *)object);
    cpu_stream_close((cpu_stream_t *)object);
    return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream hStream)
{
    cpu_stream_t *stream;
    CUresult result = enter(hStream, &stream);
    if (result)
        return result;
    result = cpu_capture_refuse(stream);
    if (result)
        return leave(stream, result);
    if (stream == stream->lanes->legacy)
        result = atomic_load(&stream->lanes->busy_blocking) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
    else if (!cpu_stream_passed(stream, cpu_stream_last(stream)))
        result = CUDA_ERROR_NOT_READY;
    CUresult state = cpu_context_state(stream->context);
    return leave(stream, state ? state : result);
}

CUresult cuStreamSynchronize(CUstream hStream)
{
    cpu_stream_t *stream;
    CUresult result = enter(hStream, &stream);
    if (result)
        return result;
    result = cpu_capture_refuse(stream);
    if (result)
        return leave(stream, result);
    /* The default stream is done when the blocking streams before it are, too. */
    if (stream == stream->lanes->legacy && atomic_load(&stream->lanes->busy_blocking))
        result = cpu_event_barrier(stream);
    cpu_sched_wait(stream, cpu_stream_last(stream));
    cpu_console_flush(&stream->context->console);
    CUresult state = cpu_context_state(stream->context);
    return leave(stream, state ? state : result);
}

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    cpu_stream_t *stream;
    cpu_event_t *event;
    if (Flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = enter(hStream, &stream);
    if (result)
        return result;
    result = cpu_event_get(hEvent, &event);
    if (result)
        return leave(stream, result);
    bool captured;
    result = cpu_capture_wait(stream, event, Flags, &captured);
    if (!result && !captured)
        result = cpu_event_wait_in(event, stream);
    cpu_object_put(&event->object);
    return leave(stream, result);
}

CUresult cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
    cpu_stream_t *stream;
    CUresult result = enter(hStream, &stream);
    if (result)
        return result;
    if (flags)
        *flags = stream->flags;
    return leave(stream, flags ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuStreamGetPriority(CUstream hStream, int *priority)
{
    cpu_stream_t *stream;
    CUresult result = enter(hStream, &stream);
    if (result)
        return result;
    if (priority)
        *priority = stream->priority;
    return leave(stream, priority ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
    cpu_stream_t *stream;
    CUresult result = enter(hStream, &stream);
    if (result)
        return result;
    if (streamId)
        *streamId = stream->id;
    return leave(stream, streamId ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
    cpu_stream_t *stream;
    CUresult result = enter(hStream, &stream);
    if (result)
        return result;
    if (pctx)
        *pctx = (CUcontext)stream->context->object.handle;
    return leave(stream, pctx ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx)
{
    CUresult result = cuStreamGetCtx(hStream, pCtx);
    if (!result && pGreenCtx)
        *pGreenCtx = NULL;
    return result;
}

CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
    cpu_stream_t *stream;
    CUresult result = enter(hStream, &stream);
    if (result)
        return result;
    if (device)
        *device = stream->context->device->index;
    return leave(stream, device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

/* ---- events ---- */

CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    cpu_context_t *context;
    cpu_event_t *event;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!phEvent || (Flags & ~7u))
        return CUDA_ERROR_INVALID_VALUE;
    if ((Flags & CU_EVENT_INTERPROCESS) && !(Flags & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_VALUE;
    result = cpu_event_open(context, Flags, NULL, &event);
    if (result)
        return result;
    uint64_t handle = cpu_handle_add(&event->object);
    cpu_object_put(&event->object);
    if (!handle)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *phEvent = (CUevent)handle;
    return CUDA_SUCCESS;
}

CUresult cuEventDestroy_v2(CUevent hEvent)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_peek(&context);
    if (result)
        return result;
    cpu_object_t *object = cpu_handle_remove(CPU_KIND_EVENT, (uint64_t)(uintptr_t)hEvent);
    cpu_object_put(object);
    return object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuEventRecordWithFlags(CUevent hEvent, CUstream hStream, unsigned int flags)
{
    cpu_stream_t *stream;
    cpu_event_t *event;
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = enter(hStream, &stream);
    if (result)
        return result;
    result = cpu_event_get(hEvent, &event);
    if (result)
        return leave(stream, result);
    bool captured = false;
    result = event->context == stream->context ? cpu_capture_record(stream, event, flags, &captured)
                                               : CUDA_ERROR_INVALID_HANDLE;
    if (!result && !captured)
        result = cpu_event_record(event, stream);
    cpu_object_put(&event->object);
    return leave(stream, result);
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
    return cuEventRecordWithFlags(hEvent, hStream, CU_EVENT_RECORD_DEFAULT);
}

/* Events need no current context. */
static CUresult enter_event(CUevent handle, cpu_event_t **event)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_peek(&context);
    return result ? result : cpu_event_get(handle, event);
}

CUresult cuEventQuery(CUevent hEvent)
{
    cpu_event_t *event;
    CUresult result = enter_event(hEvent, &event);
    if (result)
        return result;
    result = cpu_capture_owns(event) ? CUDA_ERROR_CAPTURED_EVENT : cpu_event_query(event);
    CUresult state = cpu_context_state(event->context);
    cpu_object_put(&event->object);
    return state ? state : result;
}

CUresult cuEventSynchronize(CUevent hEvent)
{
    cpu_event_t *event;
    CUresult result = enter_event(hEvent, &event);
    if (result)
        return result;
    if (cpu_capture_owns(event)) {
        cpu_object_put(&event->object);
        return CUDA_ERROR_CAPTURED_EVENT;
    }
    cpu_event_wait(event);
    cpu_console_flush(&event->context->console);
    result = cpu_context_state(event->context);
    cpu_object_put(&event->object);
    return result;
}

CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
    cpu_event_t *start, *end;
    if (!pMilliseconds)
        return cpu_thread_refuse(CUDA_ERROR_INVALID_VALUE);
    CUresult result = enter_event(hStart, &start);
    if (result)
        return result;
    result = cpu_event_get(hEnd, &end);
    if (!result) {
        result = cpu_event_elapsed(start, end, pMilliseconds);
        cpu_object_put(&end->object);
    }
    cpu_object_put(&start->object);
    return result;
}

/* ---- host functions ---- */

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
    cpu_stream_t *stream;
    CUresult result = enter(hStream, &stream);
    if (result)
        return result;
    bool captured;
    result = fn ? cpu_capture_enter(stream, &captured) : CUDA_ERROR_INVALID_VALUE;
    if (!result && captured) {
        cpu_work_t work;
        result = cpu_work_host(&(CUDA_HOST_NODE_PARAMS){fn, userData}, &work);
        return leave(stream, result ? result : cpu_capture_work(stream, &work));
    }
    return leave(stream, result ? result : cpu_host_launch(stream, fn, userData));
}

static CUresult launch_beside(CUstream handle, CUhostFn function, void *data)
{
    cpu_stream_t *stream;
    CUresult result = enter(handle, &stream);
    if (result)
        return result;
    result = function ? cpu_capture_refuse(stream) : CUDA_ERROR_INVALID_VALUE;
    return leave(stream, result ? result : cpu_host_beside(stream, function, data));
}

const void *gb_cuda_own_export_table(const CUuuid *id)
{
    static const gb_beside_table_t beside = {sizeof(beside), 1, launch_beside};
    static const gb_travel_table_t travel = {sizeof(travel), 1, cpu_ipc_descriptor, cpu_ipc_adopt};
    if (memcmp(id, &gb_beside_uuid, sizeof(*id)) == 0)
        return &beside;
    return memcmp(id, &gb_travel_uuid, sizeof(*id)) == 0 ? &travel : NULL;
}

CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData,
                             unsigned int flags)
{
    cpu_stream_t *stream;
    CUresult result = enter(hStream, &stream);
    if (result)
        return result;
    if (!callback || flags)
        return leave(stream, CUDA_ERROR_INVALID_VALUE);
    result = cpu_capture_refuse(stream); /* graphs have host functions, but no callbacks */
    return leave(stream, result ? result : cpu_host_callback(stream, hStream, callback, userData));
}

/* ---- values ---- */

/* Aligned, and in memory that the device may touch. */
static bool good_address(CUdeviceptr addr, unsigned bytes)
{
    return addr % bytes == 0 && cpu_memory_covers(CPU_MEMORY_ANY, addr, bytes);
}

/* Waits and writes have their fields in the same places. */
static CUresult capture_value(cpu_stream_t *stream, CUstreamBatchMemOpType operation,
                              CUdeviceptr addr, uint64_t value, unsigned flags)
{
    CUstreamBatchMemOpParams op = {
        .waitValue = {.operation = operation, .address = addr, .value64 = value, .flags = flags}};
    cpu_work_t work;
    CUresult result = cpu_work_values(stream->context, &op, 1, &work);
    return result ? result : cpu_capture_work(stream, &work);
}

static CUresult wait_value(CUstream handle, CUdeviceptr addr, uint64_t value, unsigned bytes,
                           unsigned flags)
{
    cpu_stream_t *stream;
    CUresult result = enter(handle, &stream);
    if (result)
        return result;
    if (flags & CU_STREAM_WAIT_VALUE_FLUSH)
        return leave(stream, CUDA_ERROR_NOT_SUPPORTED);
    if ((flags & ~3u) || !good_address(addr, bytes))
        return leave(stream, CUDA_ERROR_INVALID_VALUE);
    bool captured;
    result = cpu_capture_enter(stream, &captured);
    if (!result && captured)
        return leave(stream, capture_value(stream,
                                           bytes == 4 ? CU_STREAM_MEM_OP_WAIT_VALUE_32
                                                      : CU_STREAM_MEM_OP_WAIT_VALUE_64,
                                           addr, value, flags));
    return leave(stream, result ? result : cpu_value_wait(stream, addr, value, bytes, flags));
}

static CUresult write_value(CUstream handle, CUdeviceptr addr, uint64_t value, unsigned bytes,
                            unsigned flags)
{
    cpu_stream_t *stream;
    CUresult result = enter(handle, &stream);
    if (result)
        return result;
    if ((flags & ~1u) || !good_address(addr, bytes))
        return leave(stream, CUDA_ERROR_INVALID_VALUE);
    bool captured;
    result = cpu_capture_enter(stream, &captured);
    if (!result && captured)
        return leave(stream, capture_value(stream,
                                           bytes == 4 ? CU_STREAM_MEM_OP_WRITE_VALUE_32
                                                      : CU_STREAM_MEM_OP_WRITE_VALUE_64,
                                           addr, value, flags));
    return leave(stream, result ? result : cpu_value_write(stream, addr, value, bytes));
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, uint32_t value,
                                unsigned int flags)
{
    return wait_value(stream, addr, value, 4, flags);
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr, uint64_t value,
                                unsigned int flags)
{
    return wait_value(stream, addr, value, 8, flags);
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, uint32_t value,
                                 unsigned int flags)
{
    return write_value(stream, addr, value, 4, flags);
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, uint64_t value,
                                 unsigned int flags)
{
    return write_value(stream, addr, value, 8, flags);
}

static CUresult batch_one(CUstream stream, const CUstreamBatchMemOpParams *op)
{
    switch (op->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return wait_value(stream, op->waitValue.address, op->waitValue.value, 4,
                          op->waitValue.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return wait_value(stream, op->waitValue.address, op->waitValue.value64, 8,
                          op->waitValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return write_value(stream, op->writeValue.address, op->writeValue.value, 4,
                           op->writeValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return write_value(stream, op->writeValue.address, op->writeValue.value64, 8,
                           op->writeValue.flags);
    case CU_STREAM_MEM_OP_BARRIER: /* operations of a stream are ordered anyway */
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
                               CUstreamBatchMemOpParams *paramArray, unsigned int flags)
{
    if (!count || count > 256 || !paramArray || flags)
        return cpu_thread_refuse_here(CUDA_ERROR_INVALID_VALUE);
    for (unsigned i = 0; i < count; i++) {
        CUresult result = batch_one(stream, &paramArray[i]);
        if (result)
            return result;
    }
    return CUDA_SUCCESS;
}
