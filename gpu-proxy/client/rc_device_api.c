/* Devices: answered from the snapshot that came with the session. */
#include <stdio.h>
#include <string.h>

#include "common/cuda/gb_cuda_shape.h"
#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_array.h"

static CUresult find(CUdevice dev, rc_device_t **out)
{
    CUresult result = rc_check();
    if (result)
        return result;
    *out = rc_device(dev);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDriverGetVersion(int *driverVersion)
{
    if (!driverVersion)
        return CUDA_ERROR_INVALID_VALUE;
    /* Allowed before cuInit: then only this library's own limit is known. */
    int version = rc_check() == CUDA_SUCCESS ? rc.driver_version : GB_CUDA_VERSION;
    *driverVersion = version < GB_CUDA_VERSION ? version : GB_CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
    CUresult result = rc_check();
    if (result)
        return result;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = rc.device_count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    rc_device_t *d;
    CUresult result = find(ordinal, &d);
    if (result)
        return result;
    if (!device)
        return CUDA_ERROR_INVALID_VALUE;
    *device = ordinal;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
    rc_device_t *d;
    CUresult result = find(dev, &d);
    if (result)
        return result;
    if (!name || len <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)len, "%.*s", (int)sizeof(d->info.name), d->info.name);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    rc_device_t *d;
    CUresult result = find(dev, &d);
    if (result)
        return result;
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(uuid->bytes, d->info.uuid, sizeof(uuid->bytes));
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    rc_device_t *d;
    CUresult result = find(dev, &d);
    if (result)
        return result;
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = d->info.total_memory;
    return CUDA_SUCCESS;
}

/* The PCI place is made up from the ordinal, so that every remote device has one of its own. What the
 * client cannot do over the wire it does not claim. */
static int attribute(const rc_device_t *d, CUdevice_attribute attrib)
{
    switch (attrib) {
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
        return (int)(d - rc.devices) + 1;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
    case CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS:
    case CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES:
    case CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST:
    case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
    case CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH:
    case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_HOST_ALLOC_DMA_BUF_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
        return 0;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
    case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
    case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
        return 1;
    case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES: /* what its memory has */
        return d->info.attributes[CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED]
                   ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                   : 0;
    default:
        return d->info.attributes[attrib];
    }
}

CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    rc_device_t *d;
    CUresult result = find(dev, &d);
    if (result)
        return result;
    if (!pi || (int)attrib < 1 || attrib >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *pi = attribute(d, attrib);
    return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    rc_device_t *d;
    CUresult result = find(dev, &d);
    if (result)
        return result;
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    *major = d->info.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR];
    *minor = d->info.attributes[CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
    rc_device_t *d;
    CUresult result = find(dev, &d);
    if (result)
        return result;
    if (!pciBusId || len < 13)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(pciBusId, (size_t)len, "0000:%02x:00.0", (unsigned)dev + 1);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
    unsigned domain = 0, bus = 0, slot = 0;
    CUresult result = rc_check();
    if (result)
        return result;
    if (!dev || !pciBusId)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(pciBusId, "%x:%x:%x", &domain, &bus, &slot) != 3 &&
        (domain = 0, sscanf(pciBusId, "%x:%x", &bus, &slot) != 2))
        return CUDA_ERROR_INVALID_VALUE;
    if (domain || slot || bus == 0 || (int)bus > rc.device_count)
        return CUDA_ERROR_INVALID_DEVICE;
    *dev = (CUdevice)bus - 1;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
    rc_device_t *d;
    CUresult result = find(dev, &d);
    if (!result && !prop)
        result = CUDA_ERROR_INVALID_VALUE;
    if (result)
        return result;
    const int32_t *a = d->info.attributes;
    *prop = (CUdevprop){.maxThreadsPerBlock = a[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK],
                        .maxThreadsDim = {a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X],
                                          a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y],
                                          a[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z]},
                        .maxGridSize = {a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X],
                                        a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y],
                                        a[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z]},
                        .sharedMemPerBlock = a[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK],
                        .totalConstantMemory = a[CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY],
                        .SIMDWidth = a[CU_DEVICE_ATTRIBUTE_WARP_SIZE],
                        .memPitch = a[CU_DEVICE_ATTRIBUTE_MAX_PITCH],
                        .regsPerBlock = a[CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK],
                        .clockRate = a[CU_DEVICE_ATTRIBUTE_CLOCK_RATE],
                        .textureAlign = a[CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT]};
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev)
{
    rc_device_t *d;
    CUresult result = find(dev, &d);
    if (!result && (!pi || type >= CU_EXEC_AFFINITY_TYPE_MAX))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *pi = 0; /* contexts over the network take none */
    return result;
}

/* The same for every format. */
CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements, CUarray_format format,
                                            unsigned numChannels, CUdevice dev)
{
    rc_device_t *d;
    CUresult result = find(dev, &d);
    if (!result && (!maxWidthInElements || !gb_texel_bytes(format, numChannels)))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        *maxWidthInElements =
            (size_t)d->info.attributes[CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH];
    return result;
}
