/* Entry points: access to the memory of other devices, and settings of contexts that are kept here. */
#include <string.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_call.h"

static CUresult find(CUdevice dev, rc_device_t **out)
{
    CUresult result = rc_check();
    if (result)
        return result;
    *out = rc_device(dev);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

/* Kernels reach the memory of devices of the same proxy if the driver there says so; never that of
 * another proxy. Copies between any two devices need no peer access. */
static int can_access(rc_device_t *from, rc_device_t *to)
{
    if (from == to || from->session != to->session)
        return 0;
    uint64_t bit = 1ull << (to->index & 63);
    pthread_mutex_lock(&from->lock);
    if (!(from->peers_known & bit)) {
        uint64_t args[2] = {from->index, to->index}, can = 0;
        rc_call_t call = {.lane = rc_lane(), .session = from->session};
        CUresult result = call.lane ? rc_ask(&call, GB_OP_cuDeviceCanAccessPeer, args, 2, &can, 1)
                                    : CUDA_ERROR_OUT_OF_MEMORY;
        if (!result)
            from->peers_known |= bit;
        if (!result && can)
            from->peers |= bit;
    }
    int can = (from->peers & bit) != 0;
    pthread_mutex_unlock(&from->lock);
    return can;
}

CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
    rc_device_t *a, *b;
    CUresult result = find(dev, &a);
    if (!result)
        result = find(peerDev, &b);
    if (result)
        return result;
    if (!canAccessPeer)
        return CUDA_ERROR_INVALID_VALUE;
    *canAccessPeer = can_access(a, b);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                 CUdevice dstDevice)
{
    rc_device_t *a, *b;
    CUresult result = find(srcDevice, &a);
    if (!result)
        result = find(dstDevice, &b);
    if (result)
        return result;
    if (!value || (int)attrib < 1 || a == b ||
        attrib > CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED)
        return a == b ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    *value = attrib == CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK ? 0 : can_access(a, b);
    return CUDA_SUCCESS;
}

/* The current context and its peer's bit. */
static CUresult find_peer(CUcontext handle, rc_call_t *call, rc_object_t **peer)
{
    CUresult result = rc_begin_in_context(call);
    if (result)
        return result;
    *peer = rc_object_get(RC_CONTEXT, handle);
    return *peer ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
    rc_call_t call;
    rc_object_t *peer;
    CUresult result = find_peer(peerContext, &call, &peer);
    if (result)
        return result;
    rc_device_t *own = call.context->context_.device, *other = peer->context_.device;
    if (Flags)
        return CUDA_ERROR_INVALID_VALUE;
    if (own == other)
        return CUDA_ERROR_INVALID_DEVICE;
    if (!can_access(own, other))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    uint64_t bit = 1ull << peer->context_.ordinal;
    uint64_t before = atomic_fetch_or(&call.context->context_.peers, bit);
    return before & bit ? CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED : CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext)
{
    rc_call_t call;
    rc_object_t *peer;
    CUresult result = find_peer(peerContext, &call, &peer);
    if (result)
        return result;
    uint64_t bit = 1ull << peer->context_.ordinal;
    uint64_t before = atomic_fetch_and(&call.context->context_.peers, ~bit);
    return before & bit ? CUDA_SUCCESS : CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
}

/* ---- settings ---- */

CUresult cuCtxSetFlags(unsigned int flags)
{
    rc_call_t call;
    CUresult result = rc_begin_in_context(&call);
    if (!result && (flags & ~(unsigned)CU_CTX_FLAGS_MASK))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        call.context->context_.flags = flags;
    return result;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *pConfig)
{
    rc_call_t call;
    CUresult result = rc_begin_in_context(&call);
    if (!result && !pConfig)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    CUsharedconfig kept = call.context->context_.shared_config;
    *pConfig = kept ? kept : CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    rc_call_t call;
    CUresult result = rc_begin_in_context(&call);
    if (!result && ((int)config < 0 || config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        call.context->context_.shared_config = config;
    return result;
}

CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)
{
    rc_call_t call;
    rc_object_t *function;
    CUresult result = rc_begin_in_context(&call);
    if (!result)
        result = rc_function_of(&call, hfunc, &function);
    if (!result && ((int)config < 0 || config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE))
        result = CUDA_ERROR_INVALID_VALUE;
    return result;
}

CUresult cuCtxResetPersistingL2Cache(void)
{
    rc_call_t call;
    return rc_begin_in_context(&call);
}

/* Contexts that were made without an affinity have none to tell. */
CUresult cuCtxGetExecAffinity(CUexecAffinityParam *pExecAffinity, CUexecAffinityType type)
{
    rc_call_t call;
    CUresult result = rc_begin_in_context(&call);
    if (!result && (!pExecAffinity || (unsigned)type >= CU_EXEC_AFFINITY_TYPE_MAX))
        result = CUDA_ERROR_INVALID_VALUE;
    return result ? result : CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

/* ---- the old way to count users of a context ---- */

CUresult cuCtxAttach(CUcontext *pctx, unsigned int flags)
{
    rc_call_t call;
    CUresult result = rc_begin_in_context(&call);
    if (!result && (!pctx || flags))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    atomic_fetch_add(&call.context->context_.attached, 1);
    *pctx = rc_handle(call.context);
    return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext ctx)
{
    rc_call_t call;
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    if (rc_handle(call.context) != ctx || call.context->context_.primary)
        return CUDA_ERROR_INVALID_CONTEXT;
    unsigned attached = atomic_load(&call.context->context_.attached);
    while (attached &&
           !atomic_compare_exchange_weak(&call.context->context_.attached, &attached, attached - 1))
        continue;
    return attached ? CUDA_SUCCESS : cuCtxDestroy_v2(ctx);
}
