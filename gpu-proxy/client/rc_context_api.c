/* Contexts: the stacks of current contexts live here, the session knows what each frame needs. */
#include <string.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_ipc.h"
#include "gpu-proxy/client/rc_array.h"
#include "gpu-proxy/client/rc_capture.h"
#include "gpu-proxy/client/rc_down.h"
#include "gpu-proxy/client/rc_graph_memory.h"
#include "gpu-proxy/client/rc_host.h"
#include "gpu-proxy/client/rc_peer.h"
#include "gpu-proxy/client/rc_pool.h"
#include "gpu-proxy/client/rc_shared.h"

static _Atomic uint64_t next_id = 1;

static rc_object_t *new_context(rc_device_t *device, int primary, unsigned flags)
{
    rc_object_t *context = rc_object_new(RC_CONTEXT, device->session, NULL);
    if (context) {
        context->context_.device = device;
        context->context_.ordinal = (int)(device - rc.devices);
        context->context_.primary = primary;
        context->context_.flags = flags;
        context->context_.id = atomic_fetch_add(&next_id, 1);
    }
    return context;
}

/* The session must not wait for this side when it ends the context: what its streams have for host functions
 * and page-locked memory comes first. After a fault nothing does. */
static void let_come(rc_object_t *context)
{
    rc_lane_t *lane = rc_lane();
    rc_waiter_t waiter = {0};
    if (!lane || !rc_host_busy(context->session))
        return;
    (void)rc_send_and_wait(context->session, lane, context, GB_OP_cuCtxSynchronize, NULL, 0, NULL,
                           0, &waiter);
    rc_waiter_done(&waiter);
}

/* Everything that belongs to the context ends with it. */
static void forget(rc_object_t *context)
{
    rc_capture_forget_context(context);
    rc_objects_drop(context);
    rc_down_forget_context(context);
    rc_blocks_drop(context);
    rc_textures_drop(context);
    rc_pool_forget_context(context);
    rc_graph_memory_forget_context(context);
    rc_shared_drop(context);
    rc_ipc_drop(context);
}

static void end_context(rc_object_t *context)
{
    if (rc_object_kill(context)) {
        forget(context);
        rc_object_free(context);
    }
}

/* A call that needs no current context and goes to a device's session. */
static CUresult begin_at(rc_call_t *call, rc_session_t *session)
{
    CUresult result = rc_check();
    if (result)
        return result;
    memset(call, 0, sizeof(*call));
    call->lane = rc_lane();
    call->session = session;
    if (!call->lane)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return atomic_load(&session->lost) ? RC_LOST : CUDA_SUCCESS;
}

static CUresult make(rc_device_t *device, int primary, unsigned flags, rc_object_t **out)
{
    rc_call_t call;
    CUresult result = begin_at(&call, device->session);
    if (result)
        return result;
    rc_object_t *context = new_context(device, primary, flags);
    if (!context)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t args[3] = {context->number, device->index, flags};
    result = rc_ask(&call, primary ? GB_OP_cuDevicePrimaryCtxRetain : GB_OP_cuCtxCreate_v4, args, 3,
                    NULL, 0);
    if (result)
        end_context(context);
    else
        *out = context;
    return result;
}

/* ---- primary contexts ---- */

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev)
{
    CUresult result = rc_check();
    if (result)
        return result;
    rc_device_t *device = rc_device(dev);
    if (!device || !pctx)
        return device ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&device->lock);
    if (!device->primary)
        result = make(device, 1, device->flags, &device->primary);
    if (!result) {
        device->retains++;
        *pctx = rc_handle(device->primary);
    }
    pthread_mutex_unlock(&device->lock);
    return result;
}

/* The last release. There is no context if a reset has ended it. */
static CUresult release(rc_device_t *device)
{
    rc_call_t call;
    rc_object_t *context = device->primary;
    CUresult result = begin_at(&call, device->session);
    if (!context)
        return result;
    device->primary = NULL;
    if (!result)
        let_come(context);
    rc_peer_settle(context);
    uint64_t number = context->number;
    int mine = rc_object_kill(context);
    forget(context);
    if (!result) {
        call.dropped = mine ? context : NULL;
        result = rc_post(&call, GB_OP_cuDevicePrimaryCtxRelease_v2, &number, 1);
    }
    return result;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice dev)
{
    CUresult result = rc_check();
    if (result)
        return result;
    rc_device_t *device = rc_device(dev);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&device->lock);
    if (device->retains == 0) {
        result = CUDA_ERROR_INVALID_CONTEXT;
    } else if (--device->retains == 0) {
        result = release(device);
    }
    pthread_mutex_unlock(&device->lock);
    return result;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice dev, unsigned int flags)
{
    CUresult result = rc_check();
    if (result)
        return result;
    rc_device_t *device = rc_device(dev);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&device->lock);
    device->flags = flags;
    if (device->primary)
        device->primary->context_.flags = flags;
    pthread_mutex_unlock(&device->lock);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active)
{
    CUresult result = rc_check();
    if (result)
        return result;
    rc_device_t *device = rc_device(dev);
    if (!device || !flags || !active)
        return device ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&device->lock);
    *flags = device->flags;
    *active = device->primary != NULL;
    pthread_mutex_unlock(&device->lock);
    return CUDA_SUCCESS;
}

/* Ends the context; who retains it again gets a new one. It does not release: the count stays. */
CUresult cuDevicePrimaryCtxReset_v2(CUdevice dev)
{
    rc_call_t call;
    CUresult result = rc_check();
    if (result)
        return result;
    rc_device_t *device = rc_device(dev);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    pthread_mutex_lock(&device->lock);
    result = begin_at(&call, device->session);
    if (!result && device->primary)
        rc_peer_settle(device->primary);
    if (!result) {
        uint64_t args[2] = {device->index, device->primary ? device->primary->number : 0};
        if (device->primary)
            let_come(device->primary);
        result = rc_ask(&call, GB_OP_cuDevicePrimaryCtxReset_v2, args, 2, NULL, 0);
        if (device->primary)
            end_context(device->primary);
        device->primary = NULL;
    }
    pthread_mutex_unlock(&device->lock);
    return result;
}

/* ---- contexts of the program's own ---- */

CUresult cuCtxCreate_v4(CUcontext *pctx, CUctxCreateParams *ctxCreateParams, unsigned int flags,
                        CUdevice dev)
{
    rc_object_t *context;
    CUresult result = rc_check();
    if (result)
        return result;
    rc_device_t *device = rc_device(dev);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!pctx || (flags & ~(unsigned)CU_CTX_FLAGS_MASK))
        return CUDA_ERROR_INVALID_VALUE;
    if (ctxCreateParams && (ctxCreateParams->numExecAffinityParams || ctxCreateParams->cigParams))
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    rc_lane_t *lane = rc_lane();
    if (!lane)
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = make(device, 0, flags, &context);
    if (result)
        return result;
    result = rc_lane_push(lane, rc_handle(context));
    if (!result)
        *pctx = rc_handle(context);
    return result;
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *paramsArray, int numParams,
                        unsigned int flags, CUdevice dev)
{
    CUctxCreateParams params = {.execAffinityParams = paramsArray,
                                .numExecAffinityParams = numParams};
    return cuCtxCreate_v4(pctx, &params, flags, dev);
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev)
{
    return cuCtxCreate_v4(pctx, NULL, flags, dev);
}

CUresult cuCtxDestroy_v2(CUcontext ctx)
{
    rc_call_t call;
    CUresult result = rc_check();
    if (result)
        return result;
    rc_object_t *context = rc_object_get(RC_CONTEXT, ctx);
    if (!context || context->context_.primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    rc_lane_t *lane = rc_lane();
    if (!lane)
        return CUDA_ERROR_OUT_OF_MEMORY;
    let_come(context);
    rc_peer_settle(context);
    if (!rc_object_kill(context))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (rc_lane_current(lane) == ctx)
        lane->depth--;
    forget(context);
    result = begin_at(&call, context->session);
    uint64_t number = context->number;
    if (!result)
        result = rc_ask(&call, GB_OP_cuCtxDestroy_v2, &number, 1, NULL, 0);
    rc_object_free(context);
    return result;
}

static CUresult lane_of(rc_lane_t **out)
{
    CUresult result = rc_check();
    if (result)
        return result;
    *out = rc_lane();
    if (!*out)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return (*out)->in_host ? CUDA_ERROR_NOT_PERMITTED : CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext ctx)
{
    rc_lane_t *lane;
    CUresult result = lane_of(&lane);
    if (result)
        return result;
    if (ctx && !rc_object_get(RC_CONTEXT, ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    if (lane->depth)
        lane->depth--;
    return ctx ? rc_lane_push(lane, ctx) : CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *pctx)
{
    rc_lane_t *lane;
    CUresult result = lane_of(&lane);
    if (result)
        return result;
    if (!pctx)
        return CUDA_ERROR_INVALID_VALUE;
    *pctx = rc_lane_current(lane);
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent_v2(CUcontext ctx)
{
    rc_lane_t *lane;
    CUresult result = lane_of(&lane);
    if (result)
        return result;
    if (!rc_object_get(RC_CONTEXT, ctx))
        return CUDA_ERROR_INVALID_CONTEXT;
    return rc_lane_push(lane, ctx);
}

CUresult cuCtxPopCurrent_v2(CUcontext *pctx)
{
    rc_lane_t *lane;
    CUresult result = lane_of(&lane);
    if (result)
        return result;
    if (!lane->depth)
        return CUDA_ERROR_INVALID_CONTEXT;
    if (pctx)
        *pctx = rc_lane_current(lane);
    lane->depth--;
    return CUDA_SUCCESS;
}

/* The named context, or the current one for NULL. */
static CUresult context_for(CUcontext ctx, rc_object_t **out)
{
    rc_lane_t *lane;
    CUresult result = lane_of(&lane);
    if (result)
        return result;
    if (!ctx)
        ctx = rc_lane_current(lane);
    *out = ctx ? rc_object_get(RC_CONTEXT, ctx) : NULL;
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx)
{
    rc_object_t *context;
    CUresult result = context_for(ctx, &context);
    if (result)
        return result;
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = context->context_.ordinal;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device)
{
    return cuCtxGetDevice_v2(device, NULL);
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
    rc_object_t *context;
    CUresult result = context_for(NULL, &context);
    if (result)
        return result;
    if (!flags)
        return CUDA_ERROR_INVALID_VALUE;
    *flags = context->context_.flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *ctxId)
{
    rc_object_t *context;
    CUresult result = context_for(ctx, &context);
    if (result)
        return result;
    if (!ctxId)
        return CUDA_ERROR_INVALID_VALUE;
    *ctxId = context->context_.id;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version)
{
    rc_object_t *context;
    CUresult result = context_for(ctx, &context);
    if (result)
        return result;
    if (!version)
        return CUDA_ERROR_INVALID_VALUE;
    *version = 3020;
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize(void)
{
    rc_call_t call;
    CUresult result = rc_begin_in_context(&call);
    return result ? result : rc_ask(&call, GB_OP_cuCtxSynchronize, NULL, 0, NULL, 0);
}

CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
    if (!ctx)
        return cuCtxSynchronize();
    CUresult result = cuCtxPushCurrent_v2(ctx);
    if (result)
        return result;
    result = cuCtxSynchronize();
    cuCtxPopCurrent_v2(NULL);
    return result;
}

CUresult cuProfilerStart(void)
{
    return rc_check();
}

CUresult cuProfilerStop(void)
{
    return rc_check();
}
