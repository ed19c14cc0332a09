/* Entry points of what CUDA itself answers with CUDA_ERROR_NOT_SUPPORTED where this library runs: after the
 * errors that come first. Part of both of our libcuda.so.1. */
#include <stddef.h>
#include <unistd.h>

#include "gb_cuda_api.h"

/* Locally unique identifiers are a matter of Windows. */
CUresult cuDeviceGetLuid(char *luid, unsigned int *deviceNodeMask, CUdevice dev)
{
    CUdevice device;
    CUresult result = cuDeviceGet(&device, dev);
    if (result)
        return result;
    return luid && deviceNodeMask ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
}

/* CUDA 12 has taken the profiler of configuration files away. */
CUresult cuProfilerInitialize(const char *configFile, const char *outputFile,
                              CUoutput_mode outputMode)
{
    (void)configFile;
    (void)outputFile;
    (void)outputMode;
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* The devices say that they have no DMA buffers (CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED). */
CUresult cuMemGetHandleForAddressRange(void *handle, CUdeviceptr dptr, size_t size,
                                       CUmemRangeHandleType handleType, unsigned long long flags)
{
    enum { MAPPING_TYPES = 1 };
    size_t page = (size_t)sysconf(_SC_PAGESIZE), all;
    CUdeviceptr base;
    CUresult result = cuMemGetAddressRange_v2(&base, &all, dptr);
    if (result && result != CUDA_ERROR_NOT_FOUND)
        return result;
    if (result || !handle || !size || dptr % page || size % page || size > all - (dptr - base) ||
        handleType != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || flags & ~(unsigned)MAPPING_TYPES)
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_ERROR_NOT_SUPPORTED;
}
