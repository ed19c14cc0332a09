/* Entry points: initialisation and devices. */
#include <stdio.h>
#include <unistd.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/cpu/driver/cpu_array.h"
#include "gpu-proxy/cpu/driver/cpu_driver.h"
#include "gpu-proxy/cpu/driver/cpu_launch.h"
#include "gpu-proxy/cpu/driver/cpu_memory.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"

enum { CAPABILITY_MAJOR = 8, CAPABILITY_MINOR = 0, MAX_PITCH = INT32_MAX };

CUresult cuInit(unsigned int Flags)
{
    return cpu_driver_init(Flags);
}

CUresult cuDriverGetVersion(int *driverVersion)
{
    if (!driverVersion)
        return CUDA_ERROR_INVALID_VALUE;
    *driverVersion = GB_CUDA_VERSION;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    cpu_device_t *found;
    if (!device)
        return cpu_thread_refuse(CUDA_ERROR_INVALID_VALUE);
    CUresult result = cpu_device_get(ordinal, &found);
    if (!result)
        *device = ordinal;
    return result;
}

CUresult cuDeviceGetCount(int *count)
{
    cpu_driver_t *driver = cpu_driver();
    if (!driver)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!count)
        return CUDA_ERROR_INVALID_VALUE;
    *count = driver->device_count;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
    cpu_device_t *device;
    CUresult result = cpu_device_get(dev, &device);
    if (result)
        return result;
    if (!name || len <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(name, (size_t)len, "%s", device->name);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
    cpu_device_t *device;
    CUresult result = cpu_device_get(dev, &device);
    if (result)
        return result;
    if (!uuid)
        return CUDA_ERROR_INVALID_VALUE;
    *uuid = device->uuid;
    return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
    cpu_device_t *device;
    CUresult result = cpu_device_get(dev, &device);
    if (result)
        return result;
    if (!major || !minor)
        return CUDA_ERROR_INVALID_VALUE;
    *major = CAPABILITY_MAJOR;
    *minor = CAPABILITY_MINOR;
    return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
    cpu_device_t *device;
    uint64_t used, limit;
    CUresult result = cpu_device_get(dev, &device);
    if (result)
        return result;
    if (!bytes)
        return CUDA_ERROR_INVALID_VALUE;
    cpu_memory_usage(device->index, &used, &limit);
    *bytes = limit;
    return CUDA_SUCCESS;
}

/* Attributes that are not 0. */
static const struct {
    CUdevice_attribute attribute;
    int value;
} fixed[] = {
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, CPU_MAX_THREADS},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, CPU_MAX_THREADS},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, CPU_MAX_THREADS},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, CPU_MAX_BLOCK_Z},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, INT32_MAX},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, CPU_MAX_GRID_YZ},
    {CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, CPU_MAX_GRID_YZ},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, CPU_SHARED_DEFAULT},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, CPU_SHARED_MOST},
    {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, CPU_SHARED_OF_CORE},
    {CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
    {CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
    {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
    {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR},
    {CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS,
     CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST},
    {CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING,
     CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES},
    {CU_DEVICE_ATTRIBUTE_MAX_PITCH, MAX_PITCH},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
    {CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, CPU_TEX_ALIGN},
    {CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, CPU_TEX_PITCH_ALIGN},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, CPU_TEX_1D},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH, CPU_TEX_1D_LINEAR},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH, CPU_TEX_LAYERED},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, CPU_TEX_2D_WIDTH},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, CPU_TEX_2D_HEIGHT},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH, CPU_TEX_2D_LINEAR_WIDTH},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, CPU_TEX_2D_LINEAR_HEIGHT},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH, CPU_TEX_2D_LINEAR_PITCH},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH, CPU_TEX_LAYERED},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT, CPU_TEX_LAYERED},
    {CU_DEVICE_ATTRIBUTE_CAN_TEX2D_GATHER, 1},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH, CPU_TEX_LAYERED},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT, CPU_TEX_LAYERED},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, CPU_TEX_3D},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, CPU_TEX_3D},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, CPU_TEX_3D},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH, CPU_TEX_LAYERED},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS, CPU_TEX_LAYERS},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH, CPU_TEX_LAYERED},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT, CPU_TEX_LAYERED},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS, CPU_TEX_LAYERS},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH, CPU_TEX_LAYERED},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH, CPU_TEX_LAYERED},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS, CPU_TEX_CUBE_LAYERS},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH, CPU_SURF_1D},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH, CPU_TEX_2D_WIDTH},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT, CPU_TEX_2D_HEIGHT},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH, CPU_TEX_3D},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT, CPU_TEX_3D},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH, CPU_TEX_3D},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH, CPU_TEX_LAYERED},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS, CPU_TEX_LAYERS},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH, CPU_TEX_LAYERED},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT, CPU_TEX_LAYERED},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS, CPU_TEX_LAYERS},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH, CPU_TEX_LAYERED},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH, CPU_TEX_LAYERED},
    {CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS, CPU_TEX_CUBE_LAYERS},
    {CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
    {CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
    {CU_DEVICE_ATTRIBUTE_INTEGRATED, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 64},
    {CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, CPU_THREADS_OF_CORE},
    {CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, CPU_BLOCKS_OF_CORE},
    {CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 2},
    {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CAPABILITY_MAJOR},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, CAPABILITY_MINOR},
    {CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
    {CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
    {CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_MEM_OPS_V1, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR_V1, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
    {CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH, 1},
    {CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
    {CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
};

static int kilohertz(void)
{
    unsigned khz = 0;
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "re");
    if (file) {
        if (fscanf(file, "%u", &khz) != 1)
            khz = 0;
        fclose(file);
    }
    return khz ? (int)khz : 2000000;
}

static int measured_attribute(const cpu_device_t *device, CUdevice_attribute attribute)
{
    long cache;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        return cpu_sched_seats();
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        return kilohertz();
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
        return cache > 0 && cache < INT32_MAX ? (int)cache : 1 << 20;
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID: /* invented, but unique */
        return device->ordinal;
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
        return 0xcafe;
    case CU_DEVICE_ATTRIBUTE_NUMA_ID:
    case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
        return -1;
    default:
        return 0; /* in range, and not done here */
    }
}

CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
    cpu_device_t *device;
    CUresult result = cpu_device_get(dev, &device);
    if (result)
        return result;
    if (!pi || (int)attrib < 1 || attrib >= CU_DEVICE_ATTRIBUTE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    for (size_t i = 0; i < sizeof(fixed) / sizeof(fixed[0]); i++) {
        if (fixed[i].attribute == attrib) {
            *pi = fixed[i].value;
            return CUDA_SUCCESS;
        }
    }
    *pi = measured_attribute(device, attrib);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
    cpu_device_t *device;
    CUresult result = cpu_device_get(dev, &device);
    if (result)
        return result;
    if (!prop)
        return CUDA_ERROR_INVALID_VALUE;
    *prop = (CUdevprop){.maxThreadsPerBlock = CPU_MAX_THREADS,
                        .maxThreadsDim = {CPU_MAX_THREADS, CPU_MAX_THREADS, CPU_MAX_BLOCK_Z},
                        .maxGridSize = {INT32_MAX, CPU_MAX_GRID_YZ, CPU_MAX_GRID_YZ},
                        .sharedMemPerBlock = CPU_SHARED_DEFAULT,
                        .totalConstantMemory = 65536,
                        .SIMDWidth = 32,
                        .memPitch = MAX_PITCH,
                        .regsPerBlock = 65536,
                        .clockRate = kilohertz(),
                        .textureAlign = 512};
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
    cpu_device_t *device;
    CUresult result = cpu_device_get(dev, &device);
    if (result)
        return result;
    if (!pciBusId || len <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    snprintf(pciBusId, (size_t)len, "%04x:00:%02x.0", 0xcafe, device->ordinal);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
    cpu_driver_t *driver = cpu_driver();
    unsigned domain = 0, bus, number, function = 0;
    if (!driver)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (!dev || !pciBusId)
        return CUDA_ERROR_INVALID_VALUE;
    if (sscanf(pciBusId, "%x:%x:%x.%x", &domain, &bus, &number, &function) < 3)
        return CUDA_ERROR_INVALID_VALUE;
    for (int i = 0; i < driver->device_count; i++) {
        if (domain == 0xcafe && bus == 0 && driver->devices[i].ordinal == (int)number) {
            *dev = i;
            return CUDA_SUCCESS;
        }
    }
    return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
    cpu_device_t *device;
    CUresult result = cpu_device_get(dev, &device);
    if (!result)
        result = cpu_device_get(peerDev, &device);
    if (result)
        return result;
    if (!canAccessPeer)
        return CUDA_ERROR_INVALID_VALUE;
    *canAccessPeer = dev != peerDev;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                 CUdevice dstDevice)
{
    cpu_device_t *device;
    CUresult result = cpu_device_get(srcDevice, &device);
    if (!result)
        result = cpu_device_get(dstDevice, &device);
    if (result)
        return result;
    if (!value || srcDevice == dstDevice || (int)attrib < 1 || (int)attrib > 5)
        return srcDevice == dstDevice ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE;
    *value = attrib == CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED ||
             attrib == CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED;
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int *pi, CUexecAffinityType type, CUdevice dev)
{
    cpu_device_t *device;
    CUresult result = cpu_device_get(dev, &device);
    if (result)
        return result;
    if (!pi || type >= CU_EXEC_AFFINITY_TYPE_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    *pi = 0;
    return CUDA_SUCCESS;
}

/* The same for every format. */
CUresult cuDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements, CUarray_format format,
                                            unsigned numChannels, CUdevice dev)
{
    cpu_device_t *device;
    cpu_tex_image_t image;
    bool is_float;
    CUresult result = cpu_device_get(dev, &device);
    if (!result)
        result = cpu_array_format(format, numChannels, &image, &is_float);
    if (result)
        return result;
    if (!maxWidthInElements)
        return CUDA_ERROR_INVALID_VALUE;
    *maxWidthInElements = CPU_TEX_1D_LINEAR;
    return CUDA_SUCCESS;
}
