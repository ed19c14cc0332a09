/* Memory pools and stream-ordered allocation. */
#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_capture.h"
#include "gpu-proxy/client/rc_graph_memory.h"
#include "gpu-proxy/client/rc_ipc.h"
#include "gpu-proxy/client/rc_pool.h"

/* The call's stream, and whether it is captured. */
static CUresult enter(CUstream handle, rc_call_t *call, int *captured)
{
    uint64_t wire;
    CUresult result = rc_begin_in_context(call);
    if (!result)
        result = rc_use_stream(call, handle, &wire);
    return result ? result : rc_capture_enter(call, captured);
}

/* A captured allocation is a node of the graph, and its memory the graph's. */
static CUresult capture_alloc(rc_call_t *call, const rc_pool_t *pool, size_t bytes,
                              uint64_t *address)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {CU_MEM_LOCATION_TYPE_DEVICE,
                                   (int)(rc_pool_device(pool) - rc.devices)}},
        .bytesize = bytes};
    rc_work_t work;
    CUresult result = rc_work_mem_alloc(call, &params, &work);
    if (!result)
        result = rc_capture_work(call, &work);
    if (!result)
        *address = params.dptr;
    return result;
}

/* Only memory of graphs can be freed by one. */
static CUresult capture_free(rc_call_t *call, CUdeviceptr dptr)
{
    rc_work_t work;
    rc_graph_lock();
    CUresult result = rc_graph_leave(rc_work_mem_free(dptr, &work));
    return result ? result : rc_capture_work(call, &work);
}

static CUresult alloc(rc_call_t *call, int captured, rc_pool_t *pool, size_t bytes,
                      CUdeviceptr *dptr)
{
    uint64_t address, name[2];
    if (!dptr || !bytes || !rc_pool_name(pool, RC_POOL_IMPORTED, name) ||
        rc_pool_device(pool) != call->stream_context->context_.device)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = captured ? capture_alloc(call, pool, bytes, &address)
                               : rc_pool_alloc(call, pool, bytes, &address);
    if (!result)
        *dptr = address;
    return result;
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    rc_call_t call;
    rc_pool_t *pool;
    int captured;
    CUresult result = enter(hStream, &call, &captured);
    if (!result)
        result = rc_pool_current(call.stream_context->context_.device, &pool);
    return result ? result : alloc(&call, captured, pool, bytesize, dptr);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                 CUstream hStream)
{
    rc_call_t call;
    rc_pool_t *found;
    int captured;
    CUresult result = enter(hStream, &call, &captured);
    if (!result)
        result = rc_pool_get(pool, &found);
    return result ? result : alloc(&call, captured, found, bytesize, dptr);
}

/* Memory of no pool is freed by the session, behind all work that was queued before. */
CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
    rc_call_t call;
    rc_block_t block;
    int captured;
    CUresult result = enter(hStream, &call, &captured);
    if (result)
        return result;
    if (captured)
        return capture_free(&call, dptr);
    if (rc_graph_memory_free(dptr, &result))
        return result;
    if (!rc_block_take(RC_BLOCK_DEVICE, dptr, &block))
        return rc_ipc_close_in(dptr, hStream); /* of another process's pool, or an error */
    if (block.arena) {
        rc_pool_free(&call, &block);
        return CUDA_SUCCESS;
    }
    uint64_t args[2] = {dptr, block.device->index};
    call.session = block.device->session;
    call.owner = block.context;
    return rc_post(&call, GB_OP_cuMemFree_v2, args, 2);
}

/* ---- pools ---- */

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    rc_pool_t *made;
    CUresult result = rc_check();
    if (result)
        return result;
    if (!pool || !poolProps || poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (poolProps->handleTypes & ~CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    rc_device_t *device = rc_device(poolProps->location.id);
    if (!device)
        return CUDA_ERROR_INVALID_DEVICE;
    result = rc_pool_open(device, poolProps->maxSize, poolProps->handleTypes != 0, &made);
    if (!result)
        *pool = rc_pool_handle(made);
    return result;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    CUresult result = rc_check();
    return result ? result : rc_pool_close(pool);
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
    rc_call_t call;
    rc_pool_t *found;
    CUresult result = rc_begin(&call);
    if (!result)
        result = rc_pool_get(pool, &found);
    return result ? result : rc_pool_trim(&call, found, minBytesToKeep);
}

static CUresult find(CUmemoryPool handle, const void *value, rc_pool_t **pool)
{
    CUresult result = rc_check();
    if (!result && !value)
        result = CUDA_ERROR_INVALID_VALUE;
    return result ? result : rc_pool_get(handle, pool);
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    rc_pool_t *found;
    CUresult result = find(pool, value, &found);
    return result ? result : rc_pool_attribute(found, attr, value);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    rc_pool_t *found;
    CUresult result = find(pool, value, &found);
    return result ? result : rc_pool_set_attribute(found, attr, value);
}

/* Whether a device can reach another one's memory. */
static CUresult reaches(rc_device_t *pool, const CUmemLocation *location, int *can)
{
    CUdevice own = (CUdevice)(pool - rc.devices);
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (!rc_device(location->id))
        return CUDA_ERROR_INVALID_DEVICE;
    *can = 1;
    return location->id == own ? CUDA_SUCCESS : cuDeviceCanAccessPeer(can, location->id, own);
}

/* Devices that can reach the memory always do; only the pool's own device cannot lose it. */
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    rc_pool_t *found;
    int can;
    CUresult result = find(pool, count ? map : (const void *)"", &found);
    for (size_t i = 0; !result && i < count; i++) {
        result = reaches(rc_pool_device(found), &map[i].location, &can);
        if (!result && rc_device(map[i].location.id) == rc_pool_device(found) &&
            map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            result = CUDA_ERROR_INVALID_DEVICE;
        if (!result && !can && map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE)
            result = CUDA_ERROR_INVALID_DEVICE;
    }
    return result;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
    rc_pool_t *found;
    int can;
    CUresult result = rc_check();
    if (!result && (!flags || !location))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = find(memPool, flags, &found);
    if (!result)
        result = reaches(rc_pool_device(found), location, &can);
    if (!result)
        *flags = can ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return result;
}

/* ---- of devices ---- */

static CUresult pool_of(CUdevice dev, CUmemoryPool *out,
                        CUresult (*find_pool)(rc_device_t *, rc_pool_t **))
{
    rc_pool_t *pool;
    CUresult result = rc_check();
    if (result)
        return result;
    rc_device_t *device = rc_device(dev);
    if (!device || !out)
        return device ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_DEVICE;
    result = find_pool(device, &pool);
    if (!result)
        *out = rc_pool_handle(pool);
    return result;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
    return pool_of(dev, pool_out, rc_pool_default);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    return pool_of(dev, pool, rc_pool_current);
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    rc_pool_t *found;
    CUresult result = rc_check();
    if (!result && !rc_device(dev))
        result = CUDA_ERROR_INVALID_DEVICE;
    if (!result)
        result = rc_pool_get(pool, &found);
    return result ? result : rc_pool_set_current(rc_device(dev), found);
}

/* Pools of the host's memory are not there. */
static CUresult of_location(const CUmemLocation *location, CUmemAllocationType type,
                            CUdevice *device)
{
    CUresult result = rc_check();
    if (!result && (!location || type != CU_MEM_ALLOCATION_TYPE_PINNED))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    *device = location->id;
    return CUDA_SUCCESS;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location,
                                CUmemAllocationType type)
{
    CUdevice device;
    CUresult result = of_location(location, type, &device);
    return result ? result : cuDeviceGetDefaultMemPool(pool_out, device);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    CUdevice device;
    CUresult result = of_location(location, type, &device);
    return result ? result : cuDeviceGetMemPool(pool, device);
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    CUdevice device;
    CUresult result = of_location(location, type, &device);
    return result ? result : cuDeviceSetMemPool(device, pool);
}
