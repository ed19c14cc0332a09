/* Entry points: memory, events, pools and physical memory of several processes. */
#include <string.h>

#include "common/cuda/gb_cuda_shape.h"
#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_capture.h"
#include "gpu-proxy/client/rc_ipc.h"
#include "gpu-proxy/client/rc_pool.h"

/* ---- memory ---- */

/* Memory of a pool is exported by its pool. */
CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
    rc_call_t call;
    rc_block_t block;
    rc_ipc_handle_t handle;
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    if (!pHandle || !rc_block_find(dptr, &block) || block.kind != RC_BLOCK_DEVICE || block.arena)
        return CUDA_ERROR_INVALID_VALUE;
    result = rc_ipc_export(&call, &block, RC_IPC_MEMORY, &handle);
    if (!result)
        *(rc_ipc_handle_t *)pHandle = handle;
    return result;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
    rc_call_t call;
    rc_ipc_handle_t facts;
    uint64_t address;
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    if (!pdptr || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    result = rc_capture_unsafe();
    if (result)
        return result;
    /* Of another proxy's device the current context's session knows nothing. */
    if (!rc_ipc_read(&handle, RC_IPC_MEMORY, &facts) || !rc_ipc_device(&facts, NULL))
        return CUDA_ERROR_INVALID_HANDLE;
    if (!rc_ipc_device(&facts, call.session))
        return CUDA_ERROR_MAP_FAILED;
    result = rc_ipc_open(&call, call.context->context_.device, &facts, &address);
    if (!result)
        *pdptr = address;
    return result;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    rc_call_t call;
    CUresult result = rc_begin_in_context(&call);
    return result ? result : rc_ipc_close(dptr, RC_IPC_MEMORY);
}

/* ---- events ---- */

CUresult cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)
{
    rc_call_t call;
    uint64_t number, token[2];
    CUresult result = rc_begin(&call);
    if (!result)
        result = rc_use_event(&call, event, &number);
    if (!result && (!pHandle || !(call.event->event.flags & CU_EVENT_INTERPROCESS)))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = rc_ask(&call, GB_OP_cuIpcGetEventHandle, &number, 1, token, 2);
    if (result)
        return result;
    rc_ipc_handle_t handle = rc_ipc_handle(RC_IPC_EVENT, call.owner->context_.device);
    handle.token[0] = token[0];
    handle.token[1] = token[1];
    *(rc_ipc_handle_t *)pHandle = handle;
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
    rc_call_t call;
    rc_ipc_handle_t facts;
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    if (!phEvent)
        return CUDA_ERROR_INVALID_VALUE;
    if (!rc_ipc_read(&handle, RC_IPC_EVENT, &facts))
        return CUDA_ERROR_INVALID_HANDLE;
    rc_object_t *event = rc_object_new(RC_EVENT, call.session, call.context);
    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    event->event.flags = CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING;
    uint64_t args[3] = {event->number, facts.token[0], facts.token[1]};
    result = rc_ask(&call, GB_OP_cuIpcOpenEventHandle, args, 3, NULL, 0);
    if (!result)
        *phEvent = rc_handle(event);
    else if (rc_object_kill(event))
        rc_object_free(event);
    return result;
}

/* ---- pools ---- */

CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
                                          CUmemAllocationHandleType handleType,
                                          unsigned long long flags)
{
    rc_pool_t *found;
    CUresult result = rc_check();
    if (!result && (!handle_out || flags))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = gb_export_type_check(handleType);
    if (!result)
        result = rc_pool_get(pool, &found);
    if (result)
        return result;
    rc_ipc_handle_t handle = rc_ipc_handle(RC_IPC_POOL, rc_pool_device(found));
    result = rc_pool_name(found, RC_POOL_SHAREABLE, handle.token);
    int fd = result ? -1 : rc_ipc_to_file(&handle);
    if (!result && fd < 0)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    if (!result)
        *(int *)handle_out = fd;
    return result;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
                                            CUmemAllocationHandleType handleType,
                                            unsigned long long flags)
{
    rc_ipc_handle_t facts;
    rc_pool_t *pool;
    CUresult result = rc_check();
    if (!result && (!pool_out || flags))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = gb_export_type_check(handleType);
    if (!result && !rc_ipc_from_file((int)(intptr_t)handle, RC_IPC_POOL, &facts))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    rc_device_t *device = rc_ipc_device(&facts, NULL);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    result = rc_pool_import(device, facts.token, &pool);
    if (!result)
        *pool_out = rc_pool_handle(pool);
    return result;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
    rc_call_t call;
    rc_block_t block;
    rc_pool_t *pool;
    uint64_t name[2];
    rc_ipc_handle_t handle;
    CUresult result = rc_begin(&call);
    if (!result &&
        (!shareData_out || !rc_block_find(ptr, &block) || !block.arena || block.range.start != ptr))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = rc_pool_get(rc_pool_of(&block), &pool);
    if (!result)
        result = rc_pool_name(pool, RC_POOL_SHAREABLE, name);
    if (!result)
        result = rc_ipc_export(&call, &block, RC_IPC_POOL_POINTER, &handle);
    if (result)
        return result;
    _Static_assert(sizeof(name) == sizeof(handle.owner), "a pool's name in place of a device's");
    memcpy(handle.owner, name, sizeof(name));
    memcpy(shareData_out, &handle, sizeof(handle));
    return CUDA_SUCCESS;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
                                CUmemPoolPtrExportData *shareData)
{
    rc_call_t call;
    rc_ipc_handle_t facts;
    rc_pool_t *found;
    uint64_t name[2], address;
    CUresult result = rc_begin_in_context(&call);
    if (!result && (!ptr_out || !shareData || !rc_ipc_read(shareData, RC_IPC_POOL_POINTER, &facts)))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = rc_pool_get(pool, &found);
    if (!result)
        result = rc_pool_name(found, RC_POOL_IMPORTED, name);
    if (!result && memcmp(facts.owner, name, sizeof(name)) != 0)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result && rc_pool_device(found)->session != call.session)
        result = CUDA_ERROR_MAP_FAILED;
    if (!result)
        result = rc_ipc_open(&call, call.context->context_.device, &facts, &address);
    if (!result)
        *ptr_out = address;
    return result;
}
