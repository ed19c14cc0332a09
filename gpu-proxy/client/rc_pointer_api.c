/* Attributes of pointers: all known here. */
#include "common/cuda/gb_cuda_shape.h"
#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_pool.h"

/* One attribute of known memory. CUDA_ERROR_INVALID_VALUE: this memory does not have it. */
static CUresult get(const rc_block_t *block, CUpointer_attribute attribute, CUdeviceptr ptr,
                    void *data)
{
    int host = block->kind == RC_BLOCK_HOST || block->kind == RC_BLOCK_REGISTERED;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data = block->context ? rc_handle(block->context) : NULL;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        if (block->kind == RC_BLOCK_REGISTERED)
            return CUDA_ERROR_INVALID_VALUE; /* kernels do not reach it */
        *(CUdeviceptr *)data = ptr;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!host && !rc_block_is_managed(block))
            return CUDA_ERROR_INVALID_VALUE;
        *(void **)data = (void *)(uintptr_t)ptr;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *(unsigned long long *)data = block->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)data = (unsigned)rc_block_is_managed(block);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data =
            block->context ? block->context->context_.ordinal : (int)(block->device - rc.devices);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *(CUdeviceptr *)data = block->range.start;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *(size_t *)data = block->range.size;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(int *)data = block->kind != RC_BLOCK_REGISTERED;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(int *)data = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(int *)data = block->kind == RC_BLOCK_DEVICE && !block->arena;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        *(int *)data = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)data = CU_MEM_HANDLE_TYPE_NONE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = rc_pool_of(block);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    rc_block_t block;
    CUresult result = rc_check();
    if (result)
        return result;
    if (!data || !gb_pointer_attribute_known(attribute) || !rc_block_find(ptr, &block))
        return CUDA_ERROR_INVALID_VALUE;
    return get(&block, attribute, ptr, data);
}

CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
                                void **data, CUdeviceptr ptr)
{
    rc_block_t block;
    CUresult result = rc_check();
    if (result)
        return result;
    if (!numAttributes || !attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < numAttributes; i++)
        if (!data[i] || !gb_pointer_attribute_known(attributes[i]))
            return CUDA_ERROR_INVALID_VALUE;
    int found = rc_block_find(ptr, &block);
    for (unsigned i = 0; i < numAttributes; i++)
        if (!found || get(&block, attributes[i], ptr, data[i]))
            gb_pointer_attribute_clear(attributes[i], data[i]);
    return CUDA_SUCCESS;
}

/* Copies and fills are synchronous where it matters already. */
CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    rc_call_t call;
    rc_block_t block;
    CUresult result = rc_begin_in_context(&call);
    if (result)
        return result;
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS || !rc_block_find(ptr, &block) ||
        block.kind != RC_BLOCK_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}
