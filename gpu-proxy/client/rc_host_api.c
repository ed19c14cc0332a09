/* Memory that the program and kernels use at the same addresses: managed and page-locked. */
#include <string.h>
#include <sys/mman.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_capture.h"
#include "gpu-proxy/client/rc_down.h"
#include "gpu-proxy/client/rc_mirror.h"
#include "gpu-proxy/client/rc_shared.h"

/* Nothing may use it any more, at the session either, before its pages are used again. */
CUresult rc_shared_release(const rc_block_t *block)
{
    CUresult result = CUDA_SUCCESS;
    rc_down_settle(block->range.start, block->range.size);
    if (rc_shared_is_open(block->range.start))
        result = cuCtxSynchronize_v2(rc_handle(block->context));
    if (block->kind == RC_BLOCK_MANAGED)
        rc_hints_drop(block->range.start, block->range.size);
    rc_shared_free(block->range.start);
    return result;
}

CUresult cuMemAllocManaged(CUdeviceptr *dptr, size_t bytesize, unsigned int flags)
{
    rc_call_t call;
    uint64_t address;
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    if (!dptr || bytesize == 0 || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST))
        return CUDA_ERROR_INVALID_VALUE;
    result = rc_shared_alloc(&call, bytesize, 1, &address);
    if (result)
        return result;
    result = rc_block_add(RC_BLOCK_MANAGED, address, bytesize, call.context, flags);
    if (result)
        rc_shared_free(address);
    else
        *dptr = address;
    return result;
}

/* ---- page-locked memory ---- */

CUresult cuMemHostAlloc(void **pp, size_t bytesize, unsigned int Flags)
{
    rc_call_t call;
    unsigned known =
        CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    if (!pp || bytesize == 0 || (Flags & ~known))
        return CUDA_ERROR_INVALID_VALUE;
    result = rc_capture_unsafe();
    if (result)
        return result;
    if (bytesize > SIZE_MAX / 2)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t address;
    result = rc_shared_alloc(&call, bytesize, 0, &address);
    if (result)
        return result;
    result = rc_block_add(RC_BLOCK_HOST, address, bytesize, call.context, Flags);
    if (result)
        rc_shared_free(address);
    else
        *pp = (void *)(uintptr_t)address;
    return result;
}

CUresult cuMemAllocHost_v2(void **pp, size_t bytesize)
{
    return cuMemHostAlloc(pp, bytesize, CU_MEMHOSTALLOC_DEVICEMAP);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *pdptr, void *p, unsigned int Flags)
{
    rc_call_t call;
    rc_block_t block;
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    uint64_t address = (uint64_t)(uintptr_t)p;
    if (!pdptr || Flags || !rc_block_find(address, &block) ||
        (block.kind != RC_BLOCK_HOST && block.kind != RC_BLOCK_REGISTERED))
        return CUDA_ERROR_INVALID_VALUE;
    rc_down_settle(block.range.start, block.range.size);
    if (block.kind == RC_BLOCK_REGISTERED) {
        result = rc_mirror_open(&call, &block, pdptr);
        if (!result)
            *pdptr += address - block.range.start;
        return result;
    }
    result = rc_shared_open(address);
    if (!result)
        *pdptr = address;
    return result;
}

CUresult cuMemFreeHost(void *p)
{
    rc_block_t block;
    rc_call_t call;
    CUresult result = rc_begin_in_context(&call);
    if (result || !p)
        return result;
    if (!rc_block_take(RC_BLOCK_HOST, (uint64_t)(uintptr_t)p, &block))
        return CUDA_ERROR_INVALID_VALUE;
    return rc_shared_release(&block);
}

/* Whether all pages of the range exist. */
static int is_mapped(uint64_t base, uint64_t bytes)
{
    enum { PAGE = 4096, PAGES = 4096 };
    unsigned char resident[PAGES];
    uint64_t at = base & ~(uint64_t)(PAGE - 1), end = base + bytes;
    for (; at < end; at += (uint64_t)PAGE * PAGES) {
        uint64_t part = end - at < (uint64_t)PAGE * PAGES ? end - at : (uint64_t)PAGE * PAGES;
        if (mincore((void *)(uintptr_t)at, part, resident))
            return 0;
    }
    return 1;
}

/* Nothing is locked: copies read the program's memory here anyway. Kernels reach a copy of it once its device
 * address is asked for. */
CUresult cuMemHostRegister_v2(void *p, size_t bytesize, unsigned int Flags)
{
    rc_call_t call;
    uint64_t base = (uint64_t)(uintptr_t)p;
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    if (!p || !bytesize || (Flags & ~15u) || base + bytesize < base || rc_is_device_address(base) ||
        !is_mapped(base, bytesize))
        return CUDA_ERROR_INVALID_VALUE;
    if (rc_block_overlaps(base, bytesize))
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    return rc_block_add(RC_BLOCK_REGISTERED, base, bytesize, call.context, Flags);
}

CUresult cuMemHostUnregister(void *p)
{
    rc_call_t call;
    rc_block_t block;
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    if (!p)
        return CUDA_ERROR_INVALID_VALUE;
    if (!rc_block_take(RC_BLOCK_REGISTERED, (uint64_t)(uintptr_t)p, &block))
        return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    rc_down_settle(block.range.start, block.range.size);
    return rc_mirror_close(&block);
}

CUresult cuMemHostGetFlags(unsigned int *pFlags, void *p)
{
    rc_call_t call;
    rc_block_t block;
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    if (!pFlags || !rc_block_find((uint64_t)(uintptr_t)p, &block) || block.kind != RC_BLOCK_HOST)
        return CUDA_ERROR_INVALID_VALUE;
    *pFlags = block.flags | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
}
