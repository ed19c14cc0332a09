/* Entry points: attributes of pointers. */
#include "common/cuda/gb_cuda_shape.h"
#include "gb_cuda_api.h"
#include "gpu-proxy/cpu/driver/cpu_context.h"
#include "gpu-proxy/cpu/driver/cpu_memory.h"
#include "gpu-proxy/cpu/driver/cpu_mempool.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"
#include "gpu-proxy/cpu/driver/cpu_vmm.h"

enum { HOST_KINDS = CPU_MEMORY_HOST | CPU_MEMORY_REGISTERED };

/* How the memory can be exported to other processes, besides cuIpcGetMemHandle. */
static unsigned long long handle_types(const cpu_memory_t *memory)
{
    cpu_physical_t *physical;
    cpu_mempool_t *pool;
    unsigned long long types = CU_MEM_HANDLE_TYPE_NONE;
    if (memory->kind == CPU_MEMORY_VIRTUAL && !cpu_vmm_at(memory->node.base, &physical)) {
        types = physical->properties.requestedHandleTypes;
        cpu_object_put(&physical->object);
    } else if (!cpu_mempool_get((CUmemoryPool)(uintptr_t)cpu_mempool_of(memory->node.base),
                                &pool)) {
        types = pool->fd >= 0 ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
        cpu_object_put(&pool->object);
    }
    return types;
}

/* One attribute of known memory. CUDA_ERROR_INVALID_VALUE: this memory does not have it. */
static CUresult get(const cpu_memory_t *memory, CUpointer_attribute attribute, CUdeviceptr ptr,
                    void *data)
{
    bool host = (memory->kind & HOST_KINDS) != 0;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        *(CUcontext *)data =
            memory->context ? (CUcontext)memory->context->object.handle : (CUcontext)NULL;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *(unsigned *)data = host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
        *(CUdeviceptr *)data = ptr;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
        if (!host && !(memory->kind & CPU_MEMORY_ALL_MANAGED))
            return CUDA_ERROR_INVALID_VALUE;
        *(void **)data = (void *)ptr;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        *(int *)data = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        *(unsigned long long *)data = memory->id;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *(unsigned *)data = (memory->kind & CPU_MEMORY_ALL_MANAGED) != 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *(int *)data = memory->device;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        *(CUdeviceptr *)data = memory->node.base;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
        *(size_t *)data = memory->asked;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        *(int *)data = 1;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
        *(int *)data = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *(int *)data = memory->kind == CPU_MEMORY_DEVICE && !cpu_mempool_of(memory->node.base);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
        *(int *)data = 0;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *(unsigned long long *)data = handle_types(memory);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *(CUmemoryPool *)data = (CUmemoryPool)(uintptr_t)cpu_mempool_of(memory->node.base);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    cpu_context_t *context;
    cpu_memory_t memory;
    CUresult result = cpu_thread_peek(&context);
    if (result)
        return result;
    if (!data || !gb_pointer_attribute_known(attribute) || !cpu_memory_find(ptr, &memory))
        return CUDA_ERROR_INVALID_VALUE;
    return get(&memory, attribute, ptr, data);
}

CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute *attributes,
                                void **data, CUdeviceptr ptr)
{
    cpu_context_t *context;
    cpu_memory_t memory;
    CUresult result = cpu_thread_peek(&context);
    if (result)
        return result;
    if (!numAttributes || !attributes || !data)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < numAttributes; i++)
        if (!data[i] || !gb_pointer_attribute_known(attributes[i]))
            return CUDA_ERROR_INVALID_VALUE;
    bool found = cpu_memory_find(ptr, &memory);
    for (unsigned i = 0; i < numAttributes; i++)
        if (!found || get(&memory, attributes[i], ptr, data[i]))
            gb_pointer_attribute_clear(attributes[i], data[i]);
    return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute, CUdeviceptr ptr)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    /* Copies and fills are synchronous where it matters already. */
    if (!value || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS ||
        !cpu_memory_covers(CPU_MEMORY_DEVICE, ptr, 1))
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}
