/* Streams and events: made without a round trip, so their arguments are checked here. */
#include <string.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_capture.h"
#include "gpu-proxy/client/rc_peer.h"

static _Atomic uint64_t next_stream_id = 16;

CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
    rc_call_t call;
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    if (!phStream || (flags & ~(unsigned)CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_INVALID_VALUE;
    if (priority) { /* beyond the range is as far as it goes */
        int least, greatest;
        result = cuCtxGetStreamPriorityRange(&least, &greatest);
        if (result)
            return result;
        priority = priority > least ? least : priority < greatest ? greatest : priority;
    }
    rc_object_t *stream = rc_object_new(RC_STREAM, call.session, call.context);
    if (!stream)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->stream.flags = flags;
    stream->stream.priority = priority;
    stream->stream.id = atomic_fetch_add(&next_stream_id, 1);
    uint64_t args[3] = {stream->number, flags, (uint64_t)(int64_t)priority};
    result = rc_post(&call, GB_OP_cuStreamCreateWithPriority, args, 3);
    if (!result)
        *phStream = rc_handle(stream);
    else if (rc_object_kill(stream))
        rc_object_free(stream);
    return result;
}

CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
    return cuStreamCreateWithPriority(phStream, Flags, 0);
}

CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
    rc_call_t call;
    unsigned known = CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING;
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    if (!phEvent || (Flags & ~(known | CU_EVENT_INTERPROCESS)))
        return CUDA_ERROR_INVALID_VALUE;
    if ((Flags & CU_EVENT_INTERPROCESS) && !(Flags & CU_EVENT_DISABLE_TIMING))
        return CUDA_ERROR_INVALID_VALUE;
    const int32_t *facts = call.context->context_.device->info.attributes;
    if ((Flags & CU_EVENT_INTERPROCESS) && !facts[CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED])
        return CUDA_ERROR_NOT_SUPPORTED;
    rc_object_t *event = rc_object_new(RC_EVENT, call.session, call.context);
    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    event->event.flags = Flags;
    uint64_t args[2] = {event->number, Flags};
    result = rc_post(&call, GB_OP_cuEventCreate, args, 2);
    if (!result)
        *phEvent = rc_handle(event);
    else if (rc_object_kill(event))
        rc_object_free(event);
    return result;
}

/* An event of another session: its stream signals to ours. It never comes into a capture: a graph has the
 * nodes of one session. */
static CUresult wait_elsewhere(rc_call_t *call, uint64_t stream, rc_object_t *event, unsigned flags)
{
    int captured;
    if (flags)
        return flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL ? CUDA_ERROR_INVALID_VALUE
                                                         : CUDA_ERROR_ILLEGAL_STATE;
    CUresult result = rc_capture_enter(call, &captured);
    if (!result && (captured || event->event.captured))
        result = CUDA_ERROR_NOT_SUPPORTED;
    if (result || !atomic_load(&event->event.recorded))
        return result;
    return rc_peer_wait(call, stream, event, &result) ? result
                                                      : cuEventSynchronize(rc_handle(event));
}

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
    uint64_t args[3] = {0, 0, Flags};
    rc_call_t call;
    CUresult result = rc_begin(&call);
    if (!result)
        result = rc_use_stream(&call, hStream, &args[0]);
    rc_object_t *event = rc_object_get(RC_EVENT, hEvent);
    if (!result && !event)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result && event->session != call.session)
        return wait_elsewhere(&call, args[0], event, Flags);
    if (!result)
        result = rc_use_event(&call, hEvent, &args[1]);
    return result ? result : rc_post(&call, GB_OP_cuStreamWaitEvent, args, 3);
}

/* ---- answered from the stream's own facts; the default streams have flags 0, priority 0 ---- */

static CUresult find(CUstream stream, rc_call_t *call, rc_object_t **out)
{
    uint64_t wire;
    CUresult result = rc_begin(call);
    if (!result)
        result = rc_use_stream(call, stream, &wire);
    if (!result)
        *out = rc_object_get(RC_STREAM, stream);
    return result;
}

CUresult cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
    rc_call_t call;
    rc_object_t *stream;
    CUresult result = find(hStream, &call, &stream);
    if (result)
        return result;
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = stream ? stream->stream.flags : 0;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetPriority(CUstream hStream, int *priority)
{
    rc_call_t call;
    rc_object_t *stream;
    CUresult result = find(hStream, &call, &stream);
    if (result)
        return result;
    if (!priority)
        return CUDA_ERROR_INVALID_VALUE;
    *priority = stream ? stream->stream.priority : 0;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
    rc_call_t call;
    rc_object_t *stream;
    CUresult result = find(hStream, &call, &stream);
    if (result)
        return result;
    if (!streamId)
        return CUDA_ERROR_INVALID_VALUE;
    /* The thread's own default stream is another in every thread. */
    uint64_t special = hStream == CU_STREAM_PER_THREAD ? (call.lane->id + 1ull) << 32 : 1;
    *streamId = stream ? stream->stream.id : special;
    return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
    rc_call_t call;
    rc_object_t *stream;
    CUresult result = find(hStream, &call, &stream);
    if (result)
        return result;
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    *pctx = rc_handle(stream ? stream->context : call.context);
    return CUDA_SUCCESS;
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
    rc_call_t call;
    rc_object_t *stream;
    CUresult result = find(hStream, &call, &stream);
    if (result)
        return result;
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = (stream ? stream->context : call.context)->context_.ordinal;
    return CUDA_SUCCESS;
}
