#include "gpu-proxy/client/rc_call.h"

#include <string.h>

#include "common/cuda/gb_cuda_error.h"
#include "gpu-proxy/client/rc_capture.h"
#include "gpu-proxy/client/rc_pool.h"
#include "gpu-proxy/client/rc_shared.h"

CUresult rc_begin_after_fault(rc_call_t *call)
{
    CUresult result = rc_check();
    if (result)
        return result;
    rc_lane_t *lane = rc_lane();
    if (!lane)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (lane->in_host)
        return CUDA_ERROR_NOT_PERMITTED;
    memset(call, 0, sizeof(*call));
    call->lane = lane;
    CUcontext current = rc_lane_current(lane);
    if (!current)
        return CUDA_SUCCESS;
    call->context = rc_object_get(RC_CONTEXT, current);
    if (!call->context)
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    call->session = call->context->session;
    return atomic_load_explicit(&call->session->lost, memory_order_relaxed) ? RC_LOST
                                                                            : CUDA_SUCCESS;
}

CUresult rc_begin(rc_call_t *call)
{
    CUresult result = rc_begin_after_fault(call);
    if (result || !call->context)
        return result;
    return (CUresult)atomic_load_explicit(&call->context->context_.fault, memory_order_relaxed);
}

CUresult rc_begin_in_context(rc_call_t *call)
{
    CUresult result = rc_begin(call);
    return !result && !call->context ? CUDA_ERROR_INVALID_CONTEXT : result;
}

/* All handles and all memory of a call must live at one session; it is the one called. */
CUresult rc_belongs(rc_call_t *call, const rc_object_t *object)
{
    if (call->place && call->place != object->session)
        return CUDA_ERROR_INVALID_VALUE;
    if (call->owner && call->owner->session != object->session)
        return CUDA_ERROR_INVALID_HANDLE;
    call->owner = object->context;
    call->session = object->session;
    return CUDA_SUCCESS;
}

CUresult rc_use_stream(rc_call_t *call, CUstream stream, uint64_t *wire)
{
    uint64_t value = (uint64_t)(uintptr_t)stream;
    call->stream = stream;
    call->on_stream = 1;
    if (value <= 2) {
        if (!call->context)
            return CUDA_ERROR_INVALID_CONTEXT;
        call->stream_context = call->context;
        *wire = value;
        return rc_belongs(
            call, &(rc_object_t){.session = call->context->session, .context = call->context});
    }
    rc_object_t *object = rc_object_get(RC_STREAM, stream);
    if (!object)
        return CUDA_ERROR_INVALID_HANDLE;
    call->stream_context = object->context;
    *wire = object->number;
    return rc_belongs(call, object);
}

CUresult rc_use_event(rc_call_t *call, CUevent event, uint64_t *wire)
{
    rc_object_t *object = rc_object_get(RC_EVENT, event);
    if (!object)
        return CUDA_ERROR_INVALID_HANDLE;
    call->event = object;
    *wire = object->number;
    return rc_belongs(call, object);
}

CUresult rc_use_function(rc_call_t *call, CUfunction function, uint64_t *wire)
{
    rc_object_t *object;
    CUresult result = rc_function_of(call, function, &object);
    if (result)
        return result;
    *wire = object->function.function->wire;
    return rc_belongs(call, object);
}

CUresult rc_use_range(rc_call_t *call, CUdeviceptr address, uint64_t count, uint64_t unit,
                      uint64_t *wire)
{
    rc_block_t block;
    *wire = address;
    if (count > UINT64_MAX / unit || address % unit)
        return CUDA_ERROR_INVALID_VALUE;
    if (count == 0)
        return CUDA_SUCCESS;
    uint64_t size = count * unit;
    if (!rc_block_find(address, &block) || block.kind == RC_BLOCK_REGISTERED)
        return CUDA_ERROR_INVALID_VALUE;
    if (size > block.range.size - (address - block.range.start) &&
        rc_block_reach(address, size) < size)
        return CUDA_ERROR_INVALID_VALUE;
    rc_session_t *place = block.context ? block.context->session : block.device->session;
    if (block.kind == RC_BLOCK_HOST) {
        CUresult result = rc_shared_open(address);
        if (result)
            return result;
    }
    if ((call->owner && call->owner->session != place) || (call->place && call->place != place))
        return CUDA_ERROR_INVALID_VALUE;
    call->place = place;
    return CUDA_SUCCESS;
}

CUresult rc_use_rows(rc_call_t *call, CUdeviceptr address, uint64_t pitch, uint64_t width,
                     uint64_t unit, uint64_t height, uint64_t *wire)
{
    uint64_t row, before;
    *wire = address;
    if (!width || !height)
        return CUDA_SUCCESS;
    if (__builtin_mul_overflow(width, unit, &row) || address % unit ||
        (height > 1 && (pitch < row || pitch % unit)) ||
        __builtin_mul_overflow(height - 1, pitch, &before) || before + row < row)
        return CUDA_ERROR_INVALID_VALUE;
    return rc_use_range(call, address, before + row, 1, wire);
}

static CUresult drop(rc_call_t *call, rc_object_t *object)
{
    if (!object || !rc_object_kill(object))
        return CUDA_ERROR_INVALID_HANDLE;
    call->dropped = object;
    return CUDA_SUCCESS;
}

CUresult rc_drop_stream(rc_call_t *call, CUstream stream)
{
    return drop(call, rc_object_get(RC_STREAM, stream));
}

CUresult rc_drop_event(rc_call_t *call, CUevent event)
{
    return drop(call, rc_object_get(RC_EVENT, event));
}

/* The context that the frame runs in: the current one if the call goes to its session, else the one
 * that the handles belong to. */
static const rc_object_t *context_of(const rc_call_t *call)
{
    if (call->context && call->context->session == call->session)
        return call->context;
    return call->owner;
}

/* What a record tells later: that there was one, and which memory was freed before it. */
static void note_record(const rc_call_t *call)
{
    rc_object_t *event = call->event;
    uint64_t stream = (uint64_t)(uintptr_t)call->stream;
    atomic_store_explicit(&event->event.recorded, 1, memory_order_relaxed);
    /* Other processes record theirs too: that one is complete then says nothing about this stream. */
    int known = stream != 2 && !(event->event.flags & CU_EVENT_INTERPROCESS);
    atomic_store_explicit(&event->event.mark, known ? rc_pool_mark() : 0, memory_order_relaxed);
    atomic_store_explicit(&event->event.stream, stream ? stream : 1, memory_order_relaxed);
}

CUresult rc_post_bytes(rc_call_t *call, uint16_t op, const void *a, size_t a_size, const void *b,
                       size_t b_size)
{
    if (!call->session)
        return CUDA_ERROR_INVALID_CONTEXT;
    /* Events are recorded in streams of their own context. */
    if ((op == GB_OP_cuEventRecord || op == GB_OP_cuEventRecordWithFlags) && call->event &&
        call->event->context != call->stream_context)
        return CUDA_ERROR_INVALID_HANDLE;
    if (call->on_stream && rc_capture_any()) {
        int done;
        CUresult taken = rc_capture_post(call, op, a, a_size, &done);
        if (done)
            return taken;
    }
    rc_shared_before(call->session, call->lane, op);
    CUresult result =
        rc_send(call->session, call->lane, context_of(call), op, a, a_size, b, b_size);
    if (call->event && (op == GB_OP_cuEventRecord || op == GB_OP_cuEventRecordWithFlags))
        note_record(call);
    /* Only now may the number be used again: what uses it will be behind this frame. */
    if (call->dropped)
        rc_object_free(call->dropped);
    return result;
}

CUresult rc_post_bulk(rc_call_t *call, uint16_t op, const void *a, size_t a_size, const void *b,
                      size_t b_size)
{
    if (!call->session)
        return CUDA_ERROR_INVALID_CONTEXT;
    rc_shared_before(call->session, call->lane, op);
    return rc_send_bulk(call->session, call->lane, context_of(call), op, a, a_size, b, b_size);
}

/* The flags say "external" only where a capture makes a node of it. */
static CUresult check_event_flags(rc_call_t *call, unsigned flags)
{
    int captured;
    if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = rc_capture_enter(call, &captured);
    return !result && !captured ? CUDA_ERROR_ILLEGAL_STATE : result;
}

CUresult rc_post_reference(rc_call_t *call, uint16_t op, const void *a, size_t a_size,
                           const void *b, size_t b_size, uint64_t *until)
{
    if (!call->session)
        return CUDA_ERROR_INVALID_CONTEXT;
    return rc_send_reference(call->session, call->lane, context_of(call), op, a, a_size, b, b_size,
                             until);
}

/* What a record or a wait means for an event of several processes is decided when the call is made: another
 * process may be told of it as soon as it has returned. */
static int is_seen_elsewhere(const rc_call_t *call, uint16_t op)
{
    return (op == GB_OP_cuEventRecord || op == GB_OP_cuEventRecordWithFlags ||
            op == GB_OP_cuStreamWaitEvent) &&
           call->event && (call->event->event.flags & CU_EVENT_INTERPROCESS) &&
           !call->event->event.captured;
}

/* Comes back when the session has done all that was sent before. */
static CUresult settle_event(const rc_call_t *call)
{
    rc_waiter_t waiter = {0};
    uint64_t number = call->event->number;
    CUresult result =
        rc_send_and_wait(call->session, call->lane, context_of(call), GB_OP_cuEventQuery, &number,
                         sizeof(number), NULL, 0, &waiter);
    rc_waiter_done(&waiter);
    return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
}

CUresult rc_post(rc_call_t *call, uint16_t op, const uint64_t *args, unsigned count)
{
    _Static_assert(CU_EVENT_RECORD_EXTERNAL == (int)CU_EVENT_WAIT_EXTERNAL, "one check for both");
    if ((op == GB_OP_cuEventRecordWithFlags || op == GB_OP_cuStreamWaitEvent) && args[2]) {
        CUresult result = check_event_flags(call, (unsigned)args[2]);
        if (result)
            return result;
    }
    CUresult result = rc_post_bytes(call, op, args, count * sizeof(*args), NULL, 0);
    return result || !is_seen_elsewhere(call, op) ? result : settle_event(call);
}

/* Faults stick to the context that the call ran in. */
static void stick(rc_call_t *call, CUresult result, int late)
{
    rc_object_t *context =
        call->context && call->context->session == call->session ? call->context : call->owner;
    int none = 0;
    if (context && (late || gb_cuda_error_sticks(result)))
        atomic_compare_exchange_strong(&context->context_.fault, &none, (int)result);
}

CUresult rc_ask_bytes(rc_call_t *call, uint16_t op, const void *a, size_t a_size, const void *b,
                      size_t b_size, rc_waiter_t *waiter)
{
    if (!call->session)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (rc_capture_any()) {
        CUresult refused = rc_capture_ask(call, op);
        if (refused)
            return refused;
    }
    uint64_t mark = rc_pool_mark();
    rc_shared_before(call->session, call->lane, op);
    CUresult result = rc_send_and_wait(call->session, call->lane, context_of(call), op, a, a_size,
                                       b, b_size, waiter);
    rc_shared_after(call->session, op, result);
    if (result)
        stick(call, result, waiter->late);
    else
        rc_pool_passed(call, op, mark);
    return result;
}

CUresult rc_ask(rc_call_t *call, uint16_t op, const uint64_t *args, unsigned count, uint64_t *outs,
                unsigned out_count)
{
    rc_waiter_t waiter = {0};
    CUresult result = rc_ask_bytes(call, op, args, count * sizeof(*args), NULL, 0, &waiter);
    if (!result && waiter.more_size < out_count * sizeof(*outs)) {
        rc_session_lose(call->session, "a reply is too short");
        result = RC_LOST;
    }
    if (!result && out_count)
        memcpy(outs, rc_waiter_bytes(&waiter), out_count * sizeof(*outs));
    rc_waiter_done(&waiter);
    return result;
}
