/* Allocation on the device and of host memory, and what a pointer points at. */
#include "gpu-proxy/runtime/rt_state.h"

static CUdeviceptr device_ptr(const void *p)
{
    return (CUdeviceptr)(uintptr_t)p;
}

cudaError_t cudaMalloc(void **devPtr, size_t size)
{
    CUdeviceptr p = 0;
    int error = rt_enter();
    if (!error && !devPtr)
        error = cudaErrorInvalidValue;
    if (!error && size)
        error = (int)rt_cu->cuMemAlloc_v2(&p, size);
    if (!error)
        *devPtr = (void *)(uintptr_t)p;
    return rt_result(error);
}

cudaError_t cudaFree(void *devPtr)
{
    int error = rt_enter(); /* cudaFree(NULL) is the customary way to make a context */
    if (!error && devPtr)
        error = (int)rt_cu->cuMemFree_v2(device_ptr(devPtr));
    return rt_result(error);
}

cudaError_t cudaMallocManaged(void **devPtr, size_t size, unsigned int flags)
{
    CUdeviceptr p = 0;
    int error = rt_enter();
    if (!error && (!devPtr || !size))
        error = cudaErrorInvalidValue;
    if (!error)
        error = (int)rt_cu->cuMemAllocManaged(&p, size, flags);
    if (!error)
        *devPtr = (void *)(uintptr_t)p;
    return rt_result(error);
}

static int malloc_pitch(CUdeviceptr *p, size_t *pitch, size_t width, size_t height)
{
    *p = 0;
    *pitch = 0;
    return width && height ? (int)rt_cu->cuMemAllocPitch_v2(p, pitch, width, height, 4) : 0;
}

cudaError_t cudaMallocPitch(void **devPtr, size_t *pitch, size_t width, size_t height)
{
    CUdeviceptr p;
    size_t bytes;
    int error = rt_enter();
    if (!error && (!devPtr || !pitch))
        error = cudaErrorInvalidValue;
    if (!error)
        error = malloc_pitch(&p, &bytes, width, height);
    if (!error) {
        *devPtr = (void *)(uintptr_t)p;
        *pitch = bytes;
    }
    return rt_result(error);
}

cudaError_t cudaMalloc3D(struct cudaPitchedPtr *pitchedDevPtr, struct cudaExtent extent)
{
    CUdeviceptr p;
    size_t bytes, rows;
    int error = rt_enter();
    if (!error && (!pitchedDevPtr || __builtin_mul_overflow(extent.height, extent.depth, &rows)))
        error = cudaErrorInvalidValue;
    if (!error)
        error = malloc_pitch(&p, &bytes, extent.width, rows);
    if (!error)
        *pitchedDevPtr =
            (struct cudaPitchedPtr){(void *)(uintptr_t)p, bytes, extent.width, extent.height};
    return rt_result(error);
}

cudaError_t cudaMallocHost(void **ptr, size_t size)
{
    return cudaHostAlloc(ptr, size, 0);
}

cudaError_t cudaHostAlloc(void **pHost, size_t size, unsigned int flags)
{
    int error = rt_enter();
    if (!error && !pHost)
        error = cudaErrorInvalidValue;
    if (!error && !size)
        *pHost = NULL;
    else if (!error)
        error = (int)rt_cu->cuMemHostAlloc(pHost, size, flags);
    return rt_result(error);
}

cudaError_t cudaFreeHost(void *ptr)
{
    int error = rt_enter();
    if (!error && ptr)
        error = (int)rt_cu->cuMemFreeHost(ptr);
    return rt_result(error);
}

cudaError_t cudaHostRegister(void *ptr, size_t size, unsigned int flags)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuMemHostRegister_v2(ptr, size, flags));
}

cudaError_t cudaHostUnregister(void *ptr)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuMemHostUnregister(ptr));
}

cudaError_t cudaHostGetDevicePointer(void **pDevice, void *pHost, unsigned int flags)
{
    CUdeviceptr p;
    int error = rt_enter();
    if (!error && !pDevice)
        error = cudaErrorInvalidValue;
    if (!error)
        error = (int)rt_cu->cuMemHostGetDevicePointer_v2(&p, pHost, flags);
    if (!error)
        *pDevice = (void *)(uintptr_t)p;
    return rt_result(error);
}

cudaError_t cudaHostGetFlags(unsigned int *pFlags, void *pHost)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuMemHostGetFlags(pFlags, pHost));
}

cudaError_t cudaMemGetInfo(size_t *free, size_t *total)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuMemGetInfo_v2(free, total));
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *ptr)
{
    CUmemorytype type = 0;
    CUdeviceptr device = 0;
    void *host = NULL;
    unsigned managed = 0;
    int ordinal = -2;
    CUpointer_attribute what[] = {
        CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_IS_MANAGED,
        CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void *values[] = {&type, &device, &host, &managed, &ordinal};
    int error = rt_enter();
    if (!error && !attributes)
        error = cudaErrorInvalidValue;
    if (!error)
        error = (int)rt_cu->cuPointerGetAttributes(5, what, values, device_ptr(ptr));
    if (error)
        return rt_result(error);
    *attributes = (struct cudaPointerAttributes){
        .type = managed                        ? cudaMemoryTypeManaged
                : type == CU_MEMORYTYPE_HOST   ? cudaMemoryTypeHost
                : type == CU_MEMORYTYPE_DEVICE ? cudaMemoryTypeDevice
                                               : cudaMemoryTypeUnregistered,
        .device = type ? ordinal : -2,
        .devicePointer = (void *)(uintptr_t)device,
        .hostPointer = type ? host : (void *)(uintptr_t)ptr};
    return cudaSuccess;
}

/* ---- managed memory: hints ---- */

static CUmemLocation location_of(struct cudaMemLocation l)
{
    return (CUmemLocation){.type = (CUmemLocationType)l.type, .id = l.id};
}

cudaError_t cudaMemAdvise(const void *devPtr, size_t count, enum cudaMemoryAdvise advice,
                          struct cudaMemLocation location)
{
    int error = rt_enter();
    return rt_result(error
                         ? error
                         : (int)rt_cu->cuMemAdvise_v2(device_ptr(devPtr), count,
                                                      (CUmem_advise)advice, location_of(location)));
}

cudaError_t cudaMemPrefetchAsync(const void *devPtr, size_t count, struct cudaMemLocation location,
                                 unsigned int flags, cudaStream_t stream)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuMemPrefetchAsync_v2(
                                 device_ptr(devPtr), count, location_of(location), flags, stream));
}

cudaError_t cudaMemRangeGetAttribute(void *data, size_t dataSize,
                                     enum cudaMemRangeAttribute attribute, const void *devPtr,
                                     size_t count)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuMemRangeGetAttribute(data, dataSize,
                                                                (CUmem_range_attribute)attribute,
                                                                device_ptr(devPtr), count));
}

cudaError_t cudaMemRangeGetAttributes(void **data, size_t *dataSizes,
                                      enum cudaMemRangeAttribute *attributes, size_t numAttributes,
                                      const void *devPtr, size_t count)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuMemRangeGetAttributes(
                                 data, dataSizes, (CUmem_range_attribute *)attributes,
                                 numAttributes, device_ptr(devPtr), count));
}

/* ---- between processes ---- */

cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *handle, void *devPtr)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuIpcGetMemHandle(handle, device_ptr(devPtr)));
}

cudaError_t cudaIpcOpenMemHandle(void **devPtr, cudaIpcMemHandle_t handle, unsigned int flags)
{
    CUdeviceptr p;
    int error = rt_enter();
    if (!error && !devPtr)
        error = cudaErrorInvalidValue;
    if (!error)
        error = (int)rt_cu->cuIpcOpenMemHandle_v2(&p, handle, flags);
    if (!error)
        *devPtr = (void *)(uintptr_t)p;
    return rt_result(error);
}

cudaError_t cudaIpcCloseMemHandle(void *devPtr)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuIpcCloseMemHandle(device_ptr(devPtr)));
}

cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *handle, cudaEvent_t event)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuIpcGetEventHandle(handle, event));
}

cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *event, cudaIpcEventHandle_t handle)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuIpcOpenEventHandle(event, handle));
}
