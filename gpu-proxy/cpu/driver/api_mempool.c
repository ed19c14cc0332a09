/* Entry points: memory pools and stream-ordered allocation. */
#include "gb_cuda_api.h"
#include "gpu-proxy/cpu/driver/cpu_capture.h"
#include "gpu-proxy/cpu/driver/cpu_mempool.h"
#include "gpu-proxy/cpu/driver/cpu_stream.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"

static CUresult enter(CUstream handle, cpu_stream_t **stream)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    return result ? result : cpu_stream_get(context, handle, stream);
}

/* A captured allocation is a node of the graph, and its memory the graph's. */
static CUresult capture_alloc(cpu_stream_t *stream, const cpu_mempool_t *pool, size_t bytes,
                              uint64_t *base)
{
    CUDA_MEM_ALLOC_NODE_PARAMS params = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, pool->device}},
        .bytesize = bytes};
    cpu_work_t work;
    CUresult result = cpu_work_mem_alloc(&params, &work);
    if (!result)
        result = cpu_capture_work(stream, &work);
    if (!result)
        *base = params.dptr;
    return result;
}

/* Only memory of graphs can be freed by one. */
static CUresult capture_free(cpu_stream_t *stream, uint64_t base)
{
    cpu_work_t work;
    CUresult result = cpu_work_mem_free(base, &work);
    return result ? result : cpu_capture_work(stream, &work);
}

static CUresult alloc(cpu_stream_t *stream, cpu_mempool_t *pool, size_t bytes, CUdeviceptr *dptr)
{
    uint64_t base;
    bool captured;
    if (!dptr || !bytes || pool->imported || pool->device != stream->context->device->index)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = cpu_capture_enter(stream, &captured);
    if (!result)
        result = captured ? capture_alloc(stream, pool, bytes, &base)
                          : cpu_mempool_alloc(pool, stream->context, bytes, &base);
    if (!result)
        *dptr = base;
    return result;
}

CUresult cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream)
{
    cpu_stream_t *stream;
    cpu_mempool_t *pool;
    CUresult result = enter(hStream, &stream);
    if (result)
        return result;
    result = cpu_mempool_current(stream->context->device->index, &pool);
    if (!result) {
        result = alloc(stream, pool, bytesize, dptr);
        cpu_object_put(&pool->object);
    }
    cpu_object_put(&stream->object);
    return result;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                 CUstream hStream)
{
    cpu_stream_t *stream;
    cpu_mempool_t *found;
    CUresult result = enter(hStream, &stream);
    if (result)
        return result;
    result = cpu_mempool_get(pool, &found);
    if (!result) {
        result = alloc(stream, found, bytesize, dptr);
        cpu_object_put(&found->object);
    }
    cpu_object_put(&stream->object);
    return result;
}

/* Memory that a graph has allocated and not freed; what the stream has now may still use it. */
static CUresult free_graph_memory(cpu_graph_memory_t *memory, cpu_stream_t *stream)
{
    CUresult result = cpu_graph_memory_hold(memory, stream);
    return result ? result
                  : cpu_graph_memory_launch(&(cpu_graph_memory_step_t){memory, true}, 1, false);
}

CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream)
{
    cpu_stream_t *stream;
    bool captured;
    CUresult result = enter(hStream, &stream);
    if (result)
        return result;
    result = cpu_capture_enter(stream, &captured);
    cpu_graph_memory_t *memory = result || captured ? NULL : cpu_graph_memory_at(dptr);
    if (!result && captured)
        result = capture_free(stream, dptr);
    else if (memory)
        result = free_graph_memory(memory, stream);
    else if (!result)
        result = cpu_mempool_free_async(stream, dptr);
    if (memory)
        cpu_object_put(&memory->object);
    cpu_object_put(&stream->object);
    return result;
}

/* ---- pools ---- */

CUresult cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps)
{
    cpu_device_t *device;
    cpu_mempool_t *made;
    if (!cpu_driver())
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!pool || !poolProps || poolProps->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
        poolProps->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (poolProps->handleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    CUresult result = cpu_device_get(poolProps->location.id, &device);
    if (!result)
        result =
            cpu_mempool_open(device->index, poolProps->maxSize, poolProps->handleTypes != 0, &made);
    if (result)
        return result;
    *pool = (CUmemoryPool)(uintptr_t)made->object.handle;
    cpu_object_put(&made->object);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool)
{
    return cpu_driver() ? cpu_mempool_close(pool) : CUDA_ERROR_NOT_INITIALIZED;
}

/* Nothing is kept in reserve that could be given back. */
CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep)
{
    cpu_mempool_t *found;
    (void)minBytesToKeep;
    CUresult result = cpu_mempool_get(pool, &found);
    if (!result)
        cpu_object_put(&found->object);
    return result;
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    cpu_mempool_t *found;
    CUresult result =
        value ? cpu_mempool_get(pool, &found) : cpu_thread_refuse(CUDA_ERROR_INVALID_VALUE);
    if (result)
        return result;
    result = cpu_mempool_attribute(found, attr, value);
    cpu_object_put(&found->object);
    return result;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value)
{
    cpu_mempool_t *found;
    CUresult result =
        value ? cpu_mempool_get(pool, &found) : cpu_thread_refuse(CUDA_ERROR_INVALID_VALUE);
    if (result)
        return result;
    result = cpu_mempool_set_attribute(found, attr, value);
    cpu_object_put(&found->object);
    return result;
}

/* All devices of this driver reach all memory; only the pool's own device cannot lose it. */
CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count)
{
    cpu_mempool_t *found;
    cpu_device_t *device;
    CUresult result =
        map || !count ? cpu_mempool_get(pool, &found) : cpu_thread_refuse(CUDA_ERROR_INVALID_VALUE);
    if (result)
        return result;
    for (size_t i = 0; !result && i < count; i++) {
        if (map[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
            result = CUDA_ERROR_INVALID_VALUE;
        if (!result)
            result = cpu_device_get(map[i].location.id, &device);
        if (!result && device->index == found->device &&
            map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            result = CUDA_ERROR_INVALID_DEVICE;
    }
    cpu_object_put(&found->object);
    return result;
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool, CUmemLocation *location)
{
    cpu_mempool_t *found;
    cpu_device_t *device;
    if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return cpu_thread_refuse(CUDA_ERROR_INVALID_VALUE);
    CUresult result = cpu_device_get(location->id, &device);
    if (!result)
        result = cpu_mempool_get(memPool, &found);
    if (result)
        return result;
    *flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    cpu_object_put(&found->object);
    return CUDA_SUCCESS;
}

/* ---- of devices ---- */

static CUresult pool_of(CUdevice dev, CUmemoryPool *out,
                        CUresult (*find)(int device, cpu_mempool_t **pool))
{
    cpu_device_t *device;
    cpu_mempool_t *pool;
    CUresult result = cpu_device_get(dev, &device);
    if (!result && !out)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = find(device->index, &pool);
    if (result)
        return result;
    *out = (CUmemoryPool)(uintptr_t)pool->object.handle;
    cpu_object_put(&pool->object);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev)
{
    return pool_of(dev, pool_out, cpu_mempool_default);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev)
{
    return pool_of(dev, pool, cpu_mempool_current);
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool)
{
    cpu_device_t *device;
    cpu_mempool_t *found;
    CUresult result = cpu_device_get(dev, &device);
    if (!result)
        result = cpu_mempool_get(pool, &found);
    if (result)
        return result;
    result = cpu_mempool_set_current(device->index, found);
    cpu_object_put(&found->object);
    return result;
}

/* Pools of the host's memory are not there. */
static CUresult of_location(const CUmemLocation *location, CUmemAllocationType type,
                            CUdevice *device)
{
    if (!location || type != CU_MEM_ALLOCATION_TYPE_PINNED)
        return cpu_thread_refuse(CUDA_ERROR_INVALID_VALUE);
    if (location->type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_NOT_SUPPORTED;
    *device = location->id;
    return CUDA_SUCCESS;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location,
                                CUmemAllocationType type)
{
    CUdevice device = 0;
    CUresult result = of_location(location, type, &device);
    return result ? result : cuDeviceGetDefaultMemPool(pool_out, device);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type)
{
    CUdevice device = 0;
    CUresult result = of_location(location, type, &device);
    return result ? result : cuDeviceGetMemPool(pool, device);
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool)
{
    CUdevice device = 0;
    CUresult result = of_location(location, type, &device);
    return result ? result : cuDeviceSetMemPool(device, pool);
}
