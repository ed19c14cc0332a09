/* Entry points: allocating, registering and asking about memory; virtual memory management. */
#include <sys/mman.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/cpu/driver/cpu_advice.h"
#include "gpu-proxy/cpu/driver/cpu_capture.h"
#include "gpu-proxy/cpu/driver/cpu_context.h"
#include "gpu-proxy/cpu/driver/cpu_memory.h"
#include "gpu-proxy/cpu/driver/cpu_mempool.h"
#include "gpu-proxy/cpu/driver/cpu_stream.h"
#include "gpu-proxy/cpu/driver/cpu_graph_memory.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"
#include "gpu-proxy/cpu/driver/cpu_vmm.h"

enum {
    DEVICE_KINDS = CPU_MEMORY_DEVICE | CPU_MEMORY_MANAGED,
    PITCH_ALIGN = 512,
    MAX_ACCESS_DESCRIPTIONS = 1024, /* more is a mistake */
};

static CUresult alloc(cpu_memory_kind_t kind, size_t bytes, unsigned flags, uint64_t *base)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!base)
        return CUDA_ERROR_INVALID_VALUE;
    result = cpu_capture_unsafe();
    if (result)
        return result;
    return cpu_memory_alloc(kind, context->device->index, context, bytes, flags, base);
}

CUresult cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize)
{
    uint64_t base;
    CUresult result = alloc(CPU_MEMORY_DEVICE, bytesize, 0, dptr ? &base : NULL);
    if (!result)
        *dptr = base;
    return result;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    uint64_t base;
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
        return cpu_thread_refuse_here(CUDA_ERROR_INVALID_VALUE);
    CUresult result = alloc(CPU_MEMORY_MANAGED, bytesize, flags, dptr ? &base : NULL);
    if (!result) {
        cpu_advice_forget(base, bytesize); /* of what lay there in a context that has ended */
        *dptr = base;
    }
    return result;
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes, size_t Height,
                            unsigned int ElementSizeBytes)
{
    if (!pPitch || !WidthInBytes || !Height || WidthInBytes > (size_t)1 << 40 ||
        Height > (size_t)1 << 40 ||
        (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16))
        return cpu_thread_refuse_here(CUDA_ERROR_INVALID_VALUE);
    size_t pitch = (WidthInBytes + PITCH_ALIGN - 1) & ~(size_t)(PITCH_ALIGN - 1), bytes;
    if (__builtin_mul_overflow(pitch, Height, &bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = cuMemAlloc_v2(dptr, bytes);
    if (!result)
        *pPitch = pitch;
    return result;
}

/* Freeing waits for the work of the context that made the memory, as CUDA does: nothing may use it
 * any more. */
static void settle(uint64_t base)
{
    cpu_memory_t memory;
    if (cpu_memory_find(base, &memory) && memory.context)
        cpu_sched_wait_context(&memory.context->lanes);
}

CUresult cuMemFree_v2(CUdeviceptr dptr)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (result || !dptr)
        return result;
    result = cpu_capture_unsafe();
    if (result)
        return result;
    cpu_graph_memory_t *graphs = cpu_graph_memory_at(dptr);
    if (graphs) {
        settle(dptr);
        result = cpu_graph_memory_launch(&(cpu_graph_memory_step_t){graphs, true}, 1, false);
        cpu_object_put(&graphs->object);
        return result;
    }
    unsigned kinds = DEVICE_KINDS;
    if (cpu_mempool_of(dptr))
        kinds |= CPU_MEMORY_IMPORTED;
    if (!cpu_mempool_forget(dptr))
        return CUDA_ERROR_INVALID_VALUE; /* its stream frees it */
    settle(dptr);
    cpu_memory_t memory;
    if (cpu_memory_find(dptr, &memory) && memory.kind == CPU_MEMORY_MANAGED &&
        memory.node.base == dptr)
        cpu_advice_forget(dptr, memory.node.size);
    return cpu_memory_free(kinds, dptr);
}

CUresult cuMemGetInfo_v2(size_t *free, size_t *total)
{
    cpu_context_t *context;
    uint64_t used, limit;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!free || !total)
        return CUDA_ERROR_INVALID_VALUE;
    cpu_memory_usage(context->device->index, &used, &limit);
    *free = limit - used;
    *total = limit;
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *pbase, size_t *psize, CUdeviceptr dptr)
{
    cpu_context_t *context;
    cpu_memory_t memory;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!cpu_memory_find(dptr, &memory) || memory.kind == CPU_MEMORY_REGISTERED)
        return CUDA_ERROR_NOT_FOUND;
    if (pbase)
        *pbase = memory.node.base;
    if (psize)
        *psize = memory.asked;
    return CUDA_SUCCESS;
}

/* ---- host memory ---- */

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    uint64_t base;
    if (Flags & ~7u)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = alloc(CPU_MEMORY_HOST, bytesize, Flags, pp ? &base : NULL);
    if (!result)
        *pp = (void *)base;
    return result;
}

CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
    return cuMemHostAlloc(pp, bytesize, CU_MEMHOSTALLOC_DEVICEMAP);
}

CUresult cuMemFreeHost(void *p)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (result || !p)
        return result;
    settle((uint64_t)p);
    return cpu_memory_free(CPU_MEMORY_HOST, (uint64_t)p);
}

/* Whether all pages of the range exist. */
static bool is_mapped(uint64_t base, uint64_t bytes)
{
    enum { PAGE = 4096, PAGES = 4096 };
    unsigned char resident[PAGES];
    uint64_t at = base & ~(uint64_t)(PAGE - 1), end = base + bytes;
    for (; at < end; at += (uint64_t)PAGE * PAGES) {
        uint64_t part = end - at < (uint64_t)PAGE * PAGES ? end - at : (uint64_t)PAGE * PAGES;
        if (mincore((void *)at, part, resident))
            return false;
    }
    return true;
}

CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
    cpu_context_t *context;
    uint64_t arena, bytes;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!p || !bytesize || (Flags & ~15u))
        return CUDA_ERROR_INVALID_VALUE;
    cpu_memory_arena(&arena, &bytes);
    if ((uint64_t)p + bytesize < (uint64_t)p ||
        ((uint64_t)p < arena + bytes && (uint64_t)p + bytesize > arena) ||
        !is_mapped((uint64_t)p, bytesize))
        return CUDA_ERROR_INVALID_VALUE;
    return cpu_memory_add(CPU_MEMORY_REGISTERED, context->device->index, context, (uint64_t)p,
                          bytesize, Flags);
}

CUresult cuMemHostUnregister(void *p)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    settle((uint64_t)p);
    return cpu_memory_remove(CPU_MEMORY_REGISTERED, (uint64_t)p)
               ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED
               : CUDA_SUCCESS;
}

/* Host memory that the device knows. */
static CUresult find_host(const void *p, cpu_memory_t *memory)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!cpu_memory_find((uint64_t)p, memory) ||
        !(memory->kind & (CPU_MEMORY_HOST | CPU_MEMORY_REGISTERED)))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    cpu_memory_t memory;
    if (!pdptr || Flags)
        return cpu_thread_refuse_here(CUDA_ERROR_INVALID_VALUE);
    CUresult result = find_host(p, &memory);
    if (!result)
        *pdptr = (CUdeviceptr)p;
    return result;
}

CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    cpu_memory_t memory;
    if (!pFlags)
        return cpu_thread_refuse_here(CUDA_ERROR_INVALID_VALUE);
    CUresult result = find_host(p, &memory);
    if (!result && memory.kind != CPU_MEMORY_HOST)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *pFlags = memory.flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return result;
}

/* Managed memory is the device's own, where it is: advice changes nothing. */
CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                        CUmemLocation location)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!count || (int)advice < 1 || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY ||
        !cpu_memory_covers(CPU_MEMORY_ALL_MANAGED, devPtr, count))
        return CUDA_ERROR_INVALID_VALUE;
    return cpu_advice_set(devPtr, count, advice, &location);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count, CUmemLocation location,
                               unsigned int flags, CUstream hStream)
{
    cpu_context_t *context;
    cpu_stream_t *stream;
    CUresult result = cpu_thread_context(&context);
    if (!result)
        result = cpu_stream_get(context, hStream, &stream);
    if (result)
        return result;
    cpu_object_put(&stream->object);
    if (!count || flags || !cpu_memory_covers(CPU_MEMORY_ALL_MANAGED, devPtr, count))
        return CUDA_ERROR_INVALID_VALUE;
    return cpu_advice_prefetched(devPtr, count, &location);
}

CUresult cuMemRangeGetAttribute(void *data, size_t dataSize, CUmem_range_attribute attribute,
                                CUdeviceptr devPtr, size_t count)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!data || !count || !cpu_memory_covers(CPU_MEMORY_ALL_MANAGED, devPtr, count))
        return CUDA_ERROR_INVALID_VALUE;
    return cpu_advice_get(devPtr, count, attribute, data, dataSize);
}

CUresult cuMemRangeGetAttributes(void **data, size_t *dataSizes, CUmem_range_attribute *attributes,
                                 size_t numAttributes, CUdeviceptr devPtr, size_t count)
{
    if (!data || !dataSizes || !attributes || !numAttributes)
        return cpu_thread_refuse_here(CUDA_ERROR_INVALID_VALUE);
    for (size_t i = 0; i < numAttributes; i++) {
        CUresult result =
            cuMemRangeGetAttribute(data[i], dataSizes[i], attributes[i], devPtr, count);
        if (result)
            return result;
    }
    return CUDA_SUCCESS;
}

/* ---- virtual memory management ---- */

static CUresult check_properties(const CUmemAllocationProp *prop, cpu_device_t **device)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_peek(&context);
    if (result)
        return result;
    if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
        prop->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    if (prop->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
        return CUDA_ERROR_NOT_SUPPORTED;
    return cpu_device_get(prop->location.id, device);
}

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option)
{
    cpu_device_t *device;
    CUresult result = check_properties(prop, &device);
    if (result)
        return result;
    if (!granularity || (int)option < 0 || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
        return CUDA_ERROR_INVALID_VALUE;
    *granularity = CPU_VMM_GRAIN;
    return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *ptr, size_t size, size_t alignment, CUdeviceptr addr,
                             unsigned long long flags)
{
    cpu_context_t *context;
    uint64_t base;
    CUresult result = cpu_thread_peek(&context);
    if (result)
        return result;
    if (!ptr || flags)
        return CUDA_ERROR_INVALID_VALUE;
    result = cpu_vmm_reserve(size, alignment, addr, &base);
    if (!result)
        *ptr = base;
    return result;
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_peek(&context);
    return result ? result : cpu_vmm_unreserve(ptr, size);
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags)
{
    cpu_device_t *device;
    CUresult result = check_properties(prop, &device);
    if (result)
        return result;
    if (!handle || flags)
        return CUDA_ERROR_INVALID_VALUE;
    return cpu_vmm_create(prop, device->index, size, handle);
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_peek(&context);
    return result ? result : cpu_vmm_release(handle);
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags)
{
    cpu_context_t *context;
    cpu_physical_t *physical;
    CUresult result = cpu_thread_peek(&context);
    if (result)
        return result;
    if (offset || flags)
        return CUDA_ERROR_INVALID_VALUE;
    result = cpu_vmm_get(handle, &physical);
    if (result)
        return result;
    result = cpu_vmm_map(ptr, size, physical);
    cpu_object_put(&physical->object);
    return result;
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_peek(&context);
    return result ? result : cpu_vmm_unmap(ptr, size);
}

/* All devices are this process: the widest access that anybody gets is the one that holds. */
CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count)
{
    cpu_context_t *context;
    cpu_device_t *device;
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    CUresult result = cpu_thread_peek(&context);
    if (result)
        return result;
    if (!desc || !count || count > MAX_ACCESS_DESCRIPTIONS)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        if (desc[i].location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
            cpu_device_get(desc[i].location.id, &device))
            return CUDA_ERROR_INVALID_DEVICE;
        if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
            desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READ &&
            desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
            return CUDA_ERROR_INVALID_VALUE;
        flags |= desc[i].flags;
    }
    return cpu_vmm_access(ptr, size, flags);
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location, CUdeviceptr ptr)
{
    cpu_context_t *context;
    CUmemAccess_flags found;
    CUresult result = cpu_thread_peek(&context);
    if (result)
        return result;
    if (!flags || !location)
        return CUDA_ERROR_INVALID_VALUE;
    result = cpu_vmm_get_access(ptr, &found);
    if (!result)
        *flags = found;
    return result;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *addr)
{
    cpu_context_t *context;
    cpu_physical_t *physical;
    CUresult result = cpu_thread_peek(&context);
    if (result)
        return result;
    if (!handle)
        return CUDA_ERROR_INVALID_VALUE;
    result = cpu_vmm_at((uint64_t)addr, &physical);
    if (result)
        return result;
    result = cpu_vmm_retain(physical, handle);
    cpu_object_put(&physical->object);
    return result;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                CUmemGenericAllocationHandle handle)
{
    cpu_context_t *context;
    cpu_physical_t *physical;
    CUresult result = cpu_thread_peek(&context);
    if (result)
        return result;
    if (!prop)
        return CUDA_ERROR_INVALID_VALUE;
    result = cpu_vmm_get(handle, &physical);
    if (result)
        return result;
    *prop = physical->properties;
    cpu_object_put(&physical->object);
    return CUDA_SUCCESS;
}
