#include "gpu-proxy/runtime/rt_state.h"

#include <stdlib.h>

cudaError_t cudaStreamCreate(cudaStream_t *pStream)
{
    return cudaStreamCreateWithFlags(pStream, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *pStream, unsigned int flags)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuStreamCreate(pStream, flags));
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *pStream, unsigned int flags, int priority)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuStreamCreateWithPriority(pStream, flags, priority));
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    int error = rt_enter();
    if (!error && (!stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread))
        error = cudaErrorInvalidResourceHandle;
    return rt_result(error ? error : (int)rt_cu->cuStreamDestroy_v2(stream));
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuStreamQuery(stream));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuStreamSynchronize(stream));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuStreamWaitEvent(stream, event, flags));
}

cudaError_t cudaStreamGetPriority(cudaStream_t hStream, int *priority)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuStreamGetPriority(hStream, priority));
}

cudaError_t cudaStreamGetFlags(cudaStream_t hStream, unsigned int *flags)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuStreamGetFlags(hStream, flags));
}

cudaError_t cudaStreamGetId(cudaStream_t hStream, unsigned long long *streamId)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuStreamGetId(hStream, streamId));
}

cudaError_t cudaStreamGetDevice(cudaStream_t hStream, int *device)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuStreamGetDevice(hStream, device));
}

cudaError_t cudaStreamGetAttribute(cudaStream_t hStream, cudaStreamAttrID attr,
                                   cudaStreamAttrValue *value_out)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuStreamGetAttribute(hStream, attr, value_out));
}

cudaError_t cudaStreamSetAttribute(cudaStream_t hStream, cudaStreamAttrID attr,
                                   const cudaStreamAttrValue *value)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuStreamSetAttribute(hStream, attr, value));
}

cudaError_t cudaStreamCopyAttributes(cudaStream_t dst, cudaStream_t src)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuStreamCopyAttributes(dst, src));
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *devPtr, size_t length,
                                     unsigned int flags)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuStreamAttachMemAsync(
                                 stream, (CUdeviceptr)(uintptr_t)devPtr, length, flags));
}

/* The driver's callback differs in the type of its second argument only, and both are numbers. */
typedef struct {
    cudaStreamCallback_t callback;
    void *user;
} callback_t;

static void call_back(CUstream stream, CUresult status, void *user)
{
    callback_t call = *(callback_t *)user;
    free(user);
    call.callback(stream, (cudaError_t)status, call.user);
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback,
                                  void *userData, unsigned int flags)
{
    int error = rt_enter();
    if (!error && (!callback || flags))
        error = cudaErrorInvalidValue;
    if (error)
        return rt_result(error);
    callback_t *call = malloc(sizeof(*call));
    if (!call)
        return rt_result(cudaErrorMemoryAllocation);
    *call = (callback_t){callback, userData};
    CUresult result = rt_cu->cuStreamAddCallback(stream, call_back, call, 0);
    if (result)
        free(call);
    return rt_result((int)result);
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuEventCreate(event, flags));
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuEventDestroy_v2(event));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuEventRecord(event, stream));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuEventRecordWithFlags(event, stream, flags));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuEventQuery(event));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuEventSynchronize(event));
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuEventElapsedTime_v2(ms, start, end));
}
