/* Stream-ordered allocation and memory pools: the driver's, under other names. */
#include "gpu-proxy/runtime/rt_state.h"

_Static_assert(sizeof(struct cudaMemPoolProps) == sizeof(CUmemPoolProps) &&
                   sizeof(struct cudaMemAccessDesc) == sizeof(CUmemAccessDesc) &&
                   sizeof(struct cudaMemLocation) == sizeof(CUmemLocation),
               "descriptions of pools are passed on as they come");

cudaError_t cudaMallocAsync(void **devPtr, size_t size, cudaStream_t hStream)
{
    CUdeviceptr p = 0;
    int error = rt_enter();
    if (!error && !devPtr)
        error = cudaErrorInvalidValue;
    if (!error && size)
        error = (int)rt_cu->cuMemAllocAsync(&p, size, hStream);
    if (!error)
        *devPtr = (void *)(uintptr_t)p;
    return rt_result(error);
}

cudaError_t cudaMallocFromPoolAsync(void **ptr, size_t size, cudaMemPool_t memPool,
                                    cudaStream_t stream)
{
    CUdeviceptr p = 0;
    int error = rt_enter();
    if (!error && !ptr)
        error = cudaErrorInvalidValue;
    if (!error && size)
        error = (int)rt_cu->cuMemAllocFromPoolAsync(&p, size, memPool, stream);
    if (!error)
        *ptr = (void *)(uintptr_t)p;
    return rt_result(error);
}

cudaError_t cudaFreeAsync(void *devPtr, cudaStream_t hStream)
{
    int error = rt_enter();
    if (!error && devPtr)
        error = (int)rt_cu->cuMemFreeAsync((CUdeviceptr)(uintptr_t)devPtr, hStream);
    return rt_result(error);
}

static int device_of(int ordinal, CUdevice *device)
{
    int error = rt_init();
    if (!error && (ordinal < 0 || ordinal >= rt_device_count()))
        error = cudaErrorInvalidDevice;
    return error ? error : (int)rt_cu->cuDeviceGet(device, ordinal);
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *memPool, int device)
{
    CUdevice handle;
    int error = device_of(device, &handle);
    return rt_result(error ? error : (int)rt_cu->cuDeviceGetDefaultMemPool(memPool, handle));
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t *memPool, int device)
{
    CUdevice handle;
    int error = device_of(device, &handle);
    return rt_result(error ? error : (int)rt_cu->cuDeviceGetMemPool(memPool, handle));
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t memPool)
{
    CUdevice handle;
    int error = device_of(device, &handle);
    return rt_result(error ? error : (int)rt_cu->cuDeviceSetMemPool(handle, memPool));
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *memPool, const struct cudaMemPoolProps *poolProps)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuMemPoolCreate(
                                 memPool, (const CUmemPoolProps *)(const void *)poolProps));
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t memPool)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuMemPoolDestroy(memPool));
}

/* ---- between processes ---- */

cudaError_t cudaMemPoolExportToShareableHandle(void *shareableHandle, cudaMemPool_t memPool,
                                               enum cudaMemAllocationHandleType handleType,
                                               unsigned int flags)
{
    int error = rt_enter();
    return rt_result(
        error ? error
              : (int)rt_cu->cuMemPoolExportToShareableHandle(
                    shareableHandle, memPool, (CUmemAllocationHandleType)handleType, flags));
}

cudaError_t cudaMemPoolImportFromShareableHandle(cudaMemPool_t *memPool, void *shareableHandle,
                                                 enum cudaMemAllocationHandleType handleType,
                                                 unsigned int flags)
{
    int error = rt_enter();
    return rt_result(
        error ? error
              : (int)rt_cu->cuMemPoolImportFromShareableHandle(
                    memPool, shareableHandle, (CUmemAllocationHandleType)handleType, flags));
}

cudaError_t cudaMemPoolExportPointer(struct cudaMemPoolPtrExportData *exportData, void *ptr)
{
    int error = rt_enter();
    return rt_result(
        error ? error
              : (int)rt_cu->cuMemPoolExportPointer((CUmemPoolPtrExportData *)(void *)exportData,
                                                   (CUdeviceptr)(uintptr_t)ptr));
}

cudaError_t cudaMemPoolImportPointer(void **ptr, cudaMemPool_t memPool,
                                     struct cudaMemPoolPtrExportData *exportData)
{
    CUdeviceptr p;
    int error = rt_enter();
    if (!error && !ptr)
        error = cudaErrorInvalidValue;
    if (!error)
        error = (int)rt_cu->cuMemPoolImportPointer(&p, memPool,
                                                   (CUmemPoolPtrExportData *)(void *)exportData);
    if (!error)
        *ptr = (void *)(uintptr_t)p;
    return rt_result(error);
}

/* ---- what pools keep and tell ---- */

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t minBytesToKeep)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuMemPoolTrimTo(memPool, minBytesToKeep));
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
{
    int error = rt_enter();
    return rt_result(
        error ? error
              : (int)rt_cu->cuMemPoolSetAttribute(memPool, (CUmemPool_attribute)attr, value));
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t memPool, enum cudaMemPoolAttr attr, void *value)
{
    int error = rt_enter();
    return rt_result(
        error ? error
              : (int)rt_cu->cuMemPoolGetAttribute(memPool, (CUmemPool_attribute)attr, value));
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t memPool, const struct cudaMemAccessDesc *descList,
                                 size_t count)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuMemPoolSetAccess(
                                 memPool, (const CUmemAccessDesc *)(const void *)descList, count));
}

cudaError_t cudaMemPoolGetAccess(enum cudaMemAccessFlags *flags, cudaMemPool_t memPool,
                                 struct cudaMemLocation *location)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuMemPoolGetAccess((CUmemAccess_flags *)flags, memPool,
                                                            (CUmemLocation *)(void *)location));
}

cudaError_t cudaDeviceGetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attr,
                                           void *value)
{
    CUdevice handle;
    int error = device_of(device, &handle);
    return rt_result(error ? error
                           : (int)rt_cu->cuDeviceGetGraphMemAttribute(
                                 handle, (CUgraphMem_attribute)attr, value));
}

cudaError_t cudaDeviceSetGraphMemAttribute(int device, enum cudaGraphMemAttributeType attr,
                                           void *value)
{
    CUdevice handle;
    int error = device_of(device, &handle);
    return rt_result(error ? error
                           : (int)rt_cu->cuDeviceSetGraphMemAttribute(
                                 handle, (CUgraphMem_attribute)attr, value));
}

cudaError_t cudaDeviceGraphMemTrim(int device)
{
    CUdevice handle;
    int error = device_of(device, &handle);
    return rt_result(error ? error : (int)rt_cu->cuDeviceGraphMemTrim(handle));
}

static CUmemLocation *location_of(struct cudaMemLocation *location)
{
    return (CUmemLocation *)(void *)location;
}

cudaError_t cudaMemGetDefaultMemPool(cudaMemPool_t *memPool, struct cudaMemLocation *location,
                                     enum cudaMemAllocationType type)
{
    int error = rt_init();
    return rt_result(error ? error
                           : (int)rt_cu->cuMemGetDefaultMemPool(memPool, location_of(location),
                                                                (CUmemAllocationType)type));
}

cudaError_t cudaMemGetMemPool(cudaMemPool_t *memPool, struct cudaMemLocation *location,
                              enum cudaMemAllocationType type)
{
    int error = rt_init();
    return rt_result(error ? error
                           : (int)rt_cu->cuMemGetMemPool(memPool, location_of(location),
                                                         (CUmemAllocationType)type));
}

cudaError_t cudaMemSetMemPool(struct cudaMemLocation *location, enum cudaMemAllocationType type,
                              cudaMemPool_t memPool)
{
    int error = rt_init();
    return rt_result(error ? error
                           : (int)rt_cu->cuMemSetMemPool(location_of(location),
                                                         (CUmemAllocationType)type, memPool));
}
