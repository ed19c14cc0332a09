/* Entry points: memory, pools and events of several processes. */
#include <string.h>
#include <unistd.h>

#include "common/cuda/gb_cuda_shape.h"
#include "gb_cuda_api.h"
#include "gpu-proxy/cpu/driver/cpu_capture.h"
#include "gpu-proxy/cpu/driver/cpu_event.h"
#include "gpu-proxy/cpu/driver/cpu_ipc.h"
#include "gpu-proxy/cpu/driver/cpu_memory.h"
#include "gpu-proxy/cpu/driver/cpu_mempool.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"
#include "gpu-proxy/cpu/driver/cpu_vmm.h"

/* ---- memory ---- */

/* Memory of a pool is exported by its pool. */
CUresult cuIpcGetMemHandle(CUipcMemHandle *pHandle, CUdeviceptr dptr)
{
    cpu_context_t *context;
    cpu_ipc_handle_t handle;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!pHandle || cpu_mempool_of(dptr))
        return CUDA_ERROR_INVALID_VALUE;
    result = cpu_ipc_export(dptr, CPU_IPC_MEMORY, &handle);
    if (!result)
        memcpy(pHandle, &handle, sizeof(handle));
    return result;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pdptr, CUipcMemHandle handle, unsigned int Flags)
{
    cpu_context_t *context;
    cpu_ipc_handle_t facts;
    uint64_t base;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!pdptr || Flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
        return CUDA_ERROR_INVALID_VALUE;
    result = cpu_capture_unsafe();
    if (!result)
        result = cpu_ipc_read(&handle, CPU_IPC_MEMORY, &facts);
    if (!result)
        result = cpu_ipc_open(context, &facts, &base);
    if (!result)
        *pdptr = base;
    return result;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr dptr)
{
    cpu_context_t *context;
    cpu_memory_t memory;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!cpu_memory_find(dptr, &memory) || memory.kind != CPU_MEMORY_IMPORTED)
        return CUDA_ERROR_INVALID_VALUE;
    cpu_sched_wait_context(&memory.context->lanes); /* nothing may use it any more */
    return cpu_ipc_close(dptr);
}

/* ---- events ---- */

CUresult cuIpcGetEventHandle(CUipcEventHandle *pHandle, CUevent event)
{
    cpu_context_t *context;
    cpu_event_t *found;
    CUresult result = cpu_thread_peek(&context);
    if (!result)
        result = cpu_event_get(event, &found);
    if (result)
        return result;
    if (!pHandle || !found->shared)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        cpu_ipc_handle_t handle = cpu_ipc_handle(CPU_IPC_EVENT, cpu_ipc_event_file(found->shared));
        memcpy(pHandle, &handle, sizeof(handle));
    }
    cpu_object_put(&found->object);
    return result;
}

CUresult cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
    cpu_context_t *context;
    cpu_ipc_handle_t facts;
    cpu_ipc_event_t *shared;
    cpu_event_t *event;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!phEvent)
        return CUDA_ERROR_INVALID_VALUE;
    result = cpu_ipc_read(&handle, CPU_IPC_EVENT, &facts);
    if (!result)
        result = cpu_ipc_event_open(&facts.file, &shared);
    if (!result)
        result = cpu_event_open(context, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING, shared,
                                &event);
    if (result)
        return result;
    uint64_t entered = cpu_handle_add(&event->object);
    cpu_object_put(&event->object);
    if (!entered)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *phEvent = (CUevent)(uintptr_t)entered;
    return CUDA_SUCCESS;
}

/* ---- file descriptors: physical memory ---- */

CUresult cuMemExportToShareableHandle(void *shareableHandle, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType handleType,
                                      unsigned long long flags)
{
    cpu_context_t *context;
    cpu_physical_t *physical;
    CUresult result = cpu_thread_peek(&context);
    if (result)
        return result;
    if (!shareableHandle || flags)
        return CUDA_ERROR_INVALID_VALUE;
    result = gb_export_type_check(handleType);
    if (!result)
        result = cpu_vmm_get(handle, &physical);
    if (result)
        return result;
    result = cpu_vmm_export(physical, (int *)shareableHandle);
    cpu_object_put(&physical->object);
    return result;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *osHandle,
                                        CUmemAllocationHandleType shHandleType)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_peek(&context);
    if (result)
        return result;
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    result = gb_export_type_check(shHandleType);
    return result ? result : cpu_vmm_import((int)(intptr_t)osHandle, handle);
}

/* ---- file descriptors: pools ---- */

CUresult cuMemPoolExportToShareableHandle(void *handle_out, CUmemoryPool pool,
                                          CUmemAllocationHandleType handleType,
                                          unsigned long long flags)
{
    cpu_context_t *context;
    cpu_mempool_t *found;
    CUresult result = cpu_thread_peek(&context);
    if (result)
        return result;
    if (!handle_out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    result = gb_export_type_check(handleType);
    if (!result)
        result = cpu_mempool_get(pool, &found);
    if (result)
        return result;
    result = cpu_mempool_export(found, (int *)handle_out);
    cpu_object_put(&found->object);
    return result;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *pool_out, void *handle,
                                            CUmemAllocationHandleType handleType,
                                            unsigned long long flags)
{
    cpu_context_t *context;
    cpu_mempool_t *pool;
    CUresult result = cpu_thread_peek(&context);
    if (result)
        return result;
    if (!pool_out || flags)
        return CUDA_ERROR_INVALID_VALUE;
    result = gb_export_type_check(handleType);
    if (!result)
        result = cpu_mempool_import((int)(intptr_t)handle, &pool);
    if (result)
        return result;
    *pool_out = (CUmemoryPool)(uintptr_t)pool->object.handle;
    cpu_object_put(&pool->object);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *shareData_out, CUdeviceptr ptr)
{
    cpu_context_t *context;
    cpu_ipc_handle_t handle;
    CUresult result = cpu_thread_peek(&context);
    if (result)
        return result;
    if (!shareData_out)
        return CUDA_ERROR_INVALID_VALUE;
    result = cpu_mempool_export_pointer(ptr, &handle);
    if (!result)
        memcpy(shareData_out, &handle, sizeof(handle));
    return result;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *ptr_out, CUmemoryPool pool,
                                CUmemPoolPtrExportData *shareData)
{
    cpu_context_t *context;
    cpu_ipc_handle_t handle;
    cpu_mempool_t *found;
    uint64_t base;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!ptr_out || !shareData || cpu_ipc_read(shareData, CPU_IPC_POOL_POINTER, &handle))
        return CUDA_ERROR_INVALID_VALUE;
    result = cpu_mempool_get(pool, &found);
    if (result)
        return result;
    result = cpu_mempool_import_pointer(found, context, &handle, &base);
    cpu_object_put(&found->object);
    if (!result)
        *ptr_out = base;
    return result;
}
