/* Entry points: attributes of streams. All are hints but the priority; they are kept and told. */
#include "gb_cuda_api.h"
#include "gpu-proxy/cpu/driver/cpu_memory.h"
#include "gpu-proxy/cpu/driver/cpu_pool.h"
#include "gpu-proxy/cpu/driver/cpu_stream.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"

static CUresult enter(CUstream handle, cpu_stream_t **stream)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    return result ? result : cpu_stream_get(context, handle, stream);
}

static CUresult get(const cpu_stream_t *stream, CUstreamAttrID attr, CUstreamAttrValue *value)
{
    switch (attr) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        value->accessPolicyWindow = stream->hints.window;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        value->syncPolicy = stream->hints.policy ? stream->hints.policy : CU_SYNC_POLICY_AUTO;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        value->priority = stream->priority;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        value->memSyncDomainMap = stream->hints.domains;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        value->memSyncDomain = stream->hints.domain;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult set(cpu_stream_t *stream, CUstreamAttrID attr, const CUstreamAttrValue *value)
{
    switch (attr) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
        stream->hints.window = value->accessPolicyWindow;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
        if (value->syncPolicy < CU_SYNC_POLICY_AUTO ||
            value->syncPolicy > CU_SYNC_POLICY_BLOCKING_SYNC)
            return CUDA_ERROR_INVALID_VALUE;
        stream->hints.policy = value->syncPolicy;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
        if (value->priority > CPU_PRIORITY_LEAST || value->priority < CPU_PRIORITY_GREATEST)
            return CUDA_ERROR_INVALID_VALUE;
        stream->priority = value->priority;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
        stream->hints.domains = value->memSyncDomainMap;
        return CUDA_SUCCESS;
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        stream->hints.domain = value->memSyncDomain;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuStreamGetAttribute(CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value_out)
{
    cpu_stream_t *stream;
    CUresult result = enter(hStream, &stream);
    if (result)
        return result;
    cpu_engine_lock();
    result = value_out ? get(stream, attr, value_out) : CUDA_ERROR_INVALID_VALUE;
    cpu_engine_unlock();
    cpu_object_put(&stream->object);
    return result;
}

CUresult cuStreamSetAttribute(CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value)
{
    cpu_stream_t *stream;
    CUresult result = enter(hStream, &stream);
    if (result)
        return result;
    cpu_engine_lock();
    result = value ? set(stream, attr, value) : CUDA_ERROR_INVALID_VALUE;
    cpu_engine_unlock();
    cpu_object_put(&stream->object);
    return result;
}

CUresult cuStreamCopyAttributes(CUstream dst, CUstream src)
{
    cpu_stream_t *from, *to;
    CUresult result = enter(src, &from);
    if (result)
        return result;
    result = enter(dst, &to);
    if (!result) {
        cpu_engine_lock();
        if (from->context == to->context) {
            to->hints = from->hints;
            to->priority = from->priority;
        } else {
            result = CUDA_ERROR_INVALID_VALUE;
        }
        cpu_engine_unlock();
        cpu_object_put(&to->object);
    }
    cpu_object_put(&from->object);
    return result;
}

/* Managed memory is everyone's all the time here. */
CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
                                unsigned int flags)
{
    cpu_stream_t *stream;
    cpu_memory_t memory;
    CUresult result = enter(hStream, &stream);
    if (result)
        return result;
    bool known = cpu_memory_find(dptr, &memory) && (memory.kind & CPU_MEMORY_ALL_MANAGED) &&
                 memory.node.base == dptr;
    if (!known || (length && length != memory.asked) ||
        (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST &&
         flags != CU_MEM_ATTACH_SINGLE))
        result = CUDA_ERROR_INVALID_VALUE;
    cpu_object_put(&stream->object);
    return result;
}
