/* Devices: which there are, what they can, their limits and peers. */
#include "gpu-proxy/runtime/rt_state.h"

#include <stddef.h>
#include <string.h>

/* rt_init, and the device's handle for an ordinal. */
static int device_of(int ordinal, CUdevice *device)
{
    int error = rt_init();
    if (!error && (ordinal < 0 || ordinal >= rt_device_count()))
        error = cudaErrorInvalidDevice;
    return error ? error : (int)rt_cu->cuDeviceGet(device, ordinal);
}

cudaError_t cudaGetDeviceCount(int *count)
{
    if (!count)
        return rt_result(cudaErrorInvalidValue);
    int error = rt_init();
    *count = error ? 0 : rt_device_count();
    return rt_result(error);
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attr, int device)
{
    CUdevice handle;
    int error = device_of(device, &handle);
    return rt_result(
        error ? error : (int)rt_cu->cuDeviceGetAttribute(value, (CUdevice_attribute)attr, handle));
}

/* ---- properties ---- */

/* Which attribute a field of cudaDeviceProp shows; sizes are size_t fields. */
static const struct {
    unsigned short field;
    unsigned char wide;
    unsigned char attribute;
} fields[] = {
#define INT(name, attribute) {offsetof(struct cudaDeviceProp, name), 0, attribute}
#define SIZE(name, attribute) {offsetof(struct cudaDeviceProp, name), 1, attribute}
    SIZE(sharedMemPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK),
    INT(regsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
    INT(warpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE),
    SIZE(memPitch, CU_DEVICE_ATTRIBUTE_MAX_PITCH),
    INT(maxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK),
    INT(maxThreadsDim[0], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X),
    INT(maxThreadsDim[1], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y),
    INT(maxThreadsDim[2], CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z),
    INT(maxGridSize[0], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X),
    INT(maxGridSize[1], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y),
    INT(maxGridSize[2], CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z),
    SIZE(totalConstMem, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY),
    INT(major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
    INT(minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
    SIZE(textureAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT),
    SIZE(texturePitchAlignment, CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT),
    INT(multiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
    INT(integrated, CU_DEVICE_ATTRIBUTE_INTEGRATED),
    INT(canMapHostMemory, CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY),
    INT(maxTexture1D, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH),
    INT(maxTexture1DMipmap, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH),
    INT(maxTexture2D[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH),
    INT(maxTexture2D[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT),
    INT(maxTexture2DMipmap[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH),
    INT(maxTexture2DMipmap[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT),
    INT(maxTexture2DLinear[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_WIDTH),
    INT(maxTexture2DLinear[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_HEIGHT),
    INT(maxTexture2DLinear[2], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LINEAR_PITCH),
    INT(maxTexture2DGather[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_WIDTH),
    INT(maxTexture2DGather[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_GATHER_HEIGHT),
    INT(maxTexture3D[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH),
    INT(maxTexture3D[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT),
    INT(maxTexture3D[2], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH),
    INT(maxTexture3DAlt[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE),
    INT(maxTexture3DAlt[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE),
    INT(maxTexture3DAlt[2], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE),
    INT(maxTextureCubemap, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_WIDTH),
    INT(maxTexture1DLayered[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_WIDTH),
    INT(maxTexture1DLayered[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LAYERED_LAYERS),
    INT(maxTexture2DLayered[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH),
    INT(maxTexture2DLayered[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT),
    INT(maxTexture2DLayered[2], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS),
    INT(maxTextureCubemapLayered[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH),
    INT(maxTextureCubemapLayered[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS),
    INT(maxSurface1D, CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_WIDTH),
    INT(maxSurface2D[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_WIDTH),
    INT(maxSurface2D[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_HEIGHT),
    INT(maxSurface3D[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_WIDTH),
    INT(maxSurface3D[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_HEIGHT),
    INT(maxSurface3D[2], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE3D_DEPTH),
    INT(maxSurface1DLayered[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_WIDTH),
    INT(maxSurface1DLayered[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE1D_LAYERED_LAYERS),
    INT(maxSurface2DLayered[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_WIDTH),
    INT(maxSurface2DLayered[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_HEIGHT),
    INT(maxSurface2DLayered[2], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACE2D_LAYERED_LAYERS),
    INT(maxSurfaceCubemap, CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_WIDTH),
    INT(maxSurfaceCubemapLayered[0], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH),
    INT(maxSurfaceCubemapLayered[1], CU_DEVICE_ATTRIBUTE_MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS),
    SIZE(surfaceAlignment, CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT),
    INT(concurrentKernels, CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS),
    INT(ECCEnabled, CU_DEVICE_ATTRIBUTE_ECC_ENABLED),
    INT(pciBusID, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID),
    INT(pciDeviceID, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID),
    INT(pciDomainID, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID),
    INT(tccDriver, CU_DEVICE_ATTRIBUTE_TCC_DRIVER),
    INT(asyncEngineCount, CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT),
    INT(unifiedAddressing, CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING),
    INT(memoryBusWidth, CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH),
    INT(l2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
    INT(persistingL2CacheMaxSize, CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE),
    INT(maxThreadsPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
    INT(streamPrioritiesSupported, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED),
    INT(globalL1CacheSupported, CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED),
    INT(localL1CacheSupported, CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED),
    SIZE(sharedMemPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
    INT(regsPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR),
    INT(managedMemory, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY),
    INT(isMultiGpuBoard, CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD),
    INT(multiGpuBoardGroupID, CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID),
    INT(hostNativeAtomicSupported, CU_DEVICE_ATTRIBUTE_HOST_NATIVE_ATOMIC_SUPPORTED),
    INT(pageableMemoryAccess, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS),
    INT(concurrentManagedAccess, CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS),
    INT(computePreemptionSupported, CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED),
    INT(canUseHostPointerForRegisteredMem,
        CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM),
    INT(cooperativeLaunch, CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH),
    SIZE(sharedMemPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
    INT(pageableMemoryAccessUsesHostPageTables,
        CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES),
    INT(directManagedMemAccessFromHost, CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST),
    INT(maxBlocksPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR),
    INT(accessPolicyMaxWindowSize, CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE),
    SIZE(reservedSharedMemPerBlock, CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK),
    INT(hostRegisterSupported, CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED),
    INT(sparseCudaArraySupported, CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED),
    INT(hostRegisterReadOnlySupported, CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED),
    INT(timelineSemaphoreInteropSupported,
        CU_DEVICE_ATTRIBUTE_TIMELINE_SEMAPHORE_INTEROP_SUPPORTED),
    INT(memoryPoolsSupported, CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED),
    INT(gpuDirectRDMASupported, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_SUPPORTED),
    INT(gpuDirectRDMAFlushWritesOptions, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS),
    INT(gpuDirectRDMAWritesOrdering, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING),
    INT(memoryPoolSupportedHandleTypes, CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES),
    INT(deferredMappingCudaArraySupported,
        CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED),
    INT(ipcEventSupported, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED),
    INT(clusterLaunch, CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH),
    INT(unifiedFunctionPointers, CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS),
    INT(deviceNumaConfig, CU_DEVICE_ATTRIBUTE_NUMA_CONFIG),
    INT(deviceNumaId, CU_DEVICE_ATTRIBUTE_NUMA_ID),
    INT(mpsEnabled, CU_DEVICE_ATTRIBUTE_MPS_ENABLED),
    INT(hostNumaId, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID),
    INT(gpuPciDeviceID, CU_DEVICE_ATTRIBUTE_GPU_PCI_DEVICE_ID),
    INT(gpuPciSubsystemID, CU_DEVICE_ATTRIBUTE_GPU_PCI_SUBSYSTEM_ID),
    INT(hostNumaMultinodeIpcSupported, CU_DEVICE_ATTRIBUTE_HOST_NUMA_MULTINODE_IPC_SUPPORTED),
#undef INT
#undef SIZE
};

static CUresult read_fields(struct cudaDeviceProp *prop, CUdevice device)
{
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        int value = 0;
        CUresult result =
            rt_cu->cuDeviceGetAttribute(&value, (CUdevice_attribute)fields[i].attribute, device);
        if (result)
            return result;
        void *at = (char *)prop + fields[i].field;
        if (fields[i].wide)
            *(size_t *)at = (size_t)value;
        else
            *(int *)at = value;
    }
    return CUDA_SUCCESS;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *prop, int device)
{
    CUdevice handle;
    struct cudaDeviceProp p;
    memset(&p, 0, sizeof(p));
    int error = device_of(device, &handle);
    if (!error && !prop)
        error = cudaErrorInvalidValue;
    if (!error)
        error = (int)rt_cu->cuDeviceGetName(p.name, sizeof(p.name), handle);
    if (!error)
        error = (int)rt_cu->cuDeviceGetUuid_v2(&p.uuid, handle);
    if (!error)
        error = (int)rt_cu->cuDeviceTotalMem_v2(&p.totalGlobalMem, handle);
    if (!error)
        error = (int)read_fields(&p, handle);
    if (!error)
        *prop = p;
    return rt_result(error);
}

/* The device that meets most of what is asked: compute capability first, then memory. */
cudaError_t cudaChooseDevice(int *device, const struct cudaDeviceProp *prop)
{
    int error = rt_init(), best = 0, score = -1;
    if (!error && (!device || !prop))
        error = cudaErrorInvalidValue;
    for (int i = 0; !error && i < rt_device_count(); i++) {
        struct cudaDeviceProp p;
        error = cudaGetDeviceProperties(&p, i);
        int s = 4 * (p.major > prop->major || (p.major == prop->major && p.minor >= prop->minor)) +
                2 * (p.totalGlobalMem >= prop->totalGlobalMem) +
                (p.multiProcessorCount >= prop->multiProcessorCount);
        if (s > score) {
            score = s;
            best = i;
        }
    }
    if (!error)
        *device = best;
    return rt_result(error);
}

cudaError_t cudaSetValidDevices(int *device_arr, int len)
{
    int error = rt_init();
    if (!error && (len < 0 || (len && !device_arr)))
        error = cudaErrorInvalidValue;
    for (int i = 0; !error && i < len; i++)
        if (device_arr[i] < 0 || device_arr[i] >= rt_device_count())
            error = cudaErrorInvalidDevice;
    /* the list says which device a thread that never called cudaSetDevice may get */
    if (!error && len)
        error = cudaSetDevice(device_arr[0]);
    return rt_result(error);
}

cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags)
{
    CUdevice handle;
    CUcontext context;
    int error = device_of(device, &handle);
    if (!error && flags > 1)
        error = cudaErrorInvalidValue;
    if (!error && flags == 1) /* cudaInitDeviceFlagsAreValid */
        error = (int)rt_cu->cuDevicePrimaryCtxSetFlags_v2(handle, deviceFlags);
    return rt_result(error ? error : rt_primary_context(device, &context));
}

/* ---- the context of the device ---- */

cudaError_t cudaDeviceSynchronize(void)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuCtxSynchronize());
}

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    CUdevice handle;
    int error = rt_init();
    if (!error)
        error = device_of(rt_device(), &handle);
    return rt_result(error ? error : (int)rt_cu->cuDevicePrimaryCtxSetFlags_v2(handle, flags));
}

cudaError_t cudaGetDeviceFlags(unsigned int *flags)
{
    CUdevice handle;
    int active, error = rt_init();
    if (!error && !flags)
        error = cudaErrorInvalidValue;
    if (!error)
        error = device_of(rt_device(), &handle);
    return rt_result(error ? error
                           : (int)rt_cu->cuDevicePrimaryCtxGetState(handle, flags, &active));
}

cudaError_t cudaDeviceSetLimit(enum cudaLimit limit, size_t value)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuCtxSetLimit((CUlimit)limit, value));
}

cudaError_t cudaDeviceGetLimit(size_t *pValue, enum cudaLimit limit)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuCtxGetLimit(pValue, (CUlimit)limit));
}

cudaError_t cudaDeviceSetCacheConfig(enum cudaFuncCache cacheConfig)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuCtxSetCacheConfig((CUfunc_cache)cacheConfig));
}

cudaError_t cudaDeviceGetCacheConfig(enum cudaFuncCache *pCacheConfig)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuCtxGetCacheConfig((CUfunc_cache *)pCacheConfig));
}

cudaError_t cudaDeviceSetSharedMemConfig(enum cudaSharedMemConfig config)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuCtxSetSharedMemConfig((CUsharedconfig)config));
}

cudaError_t cudaDeviceGetSharedMemConfig(enum cudaSharedMemConfig *pConfig)
{
    int error = rt_enter();
    return rt_result(error ? error
                           : (int)rt_cu->cuCtxGetSharedMemConfig((CUsharedconfig *)pConfig));
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *leastPriority, int *greatestPriority)
{
    int error = rt_enter();
    return rt_result(
        error ? error : (int)rt_cu->cuCtxGetStreamPriorityRange(leastPriority, greatestPriority));
}

cudaError_t cudaCtxResetPersistingL2Cache(void)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuCtxResetPersistingL2Cache());
}

cudaError_t cudaDeviceFlushGPUDirectRDMAWrites(enum cudaFlushGPUDirectRDMAWritesTarget target,
                                               enum cudaFlushGPUDirectRDMAWritesScope scope)
{
    int error = rt_enter();
    return rt_result(
        error ? error
              : (int)rt_cu->cuFlushGPUDirectRDMAWrites((CUflushGPUDirectRDMAWritesTarget)target,
                                                       (CUflushGPUDirectRDMAWritesScope)scope));
}

/* ---- identity and peers ---- */

cudaError_t cudaDeviceGetPCIBusId(char *pciBusId, int len, int device)
{
    CUdevice handle;
    int error = device_of(device, &handle);
    return rt_result(error ? error : (int)rt_cu->cuDeviceGetPCIBusId(pciBusId, len, handle));
}

cudaError_t cudaDeviceGetByPCIBusId(int *device, const char *pciBusId)
{
    CUdevice handle;
    int error = rt_init();
    if (!error && !device)
        error = cudaErrorInvalidValue;
    if (!error)
        error = (int)rt_cu->cuDeviceGetByPCIBusId(&handle, pciBusId);
    if (!error)
        *device = handle; /* a device's handle is its ordinal */
    return rt_result(error);
}

cudaError_t cudaDeviceCanAccessPeer(int *canAccessPeer, int device, int peerDevice)
{
    CUdevice from, to;
    int error = device_of(device, &from);
    if (!error)
        error = device_of(peerDevice, &to);
    return rt_result(error ? error : (int)rt_cu->cuDeviceCanAccessPeer(canAccessPeer, from, to));
}

cudaError_t cudaDeviceGetP2PAttribute(int *value, enum cudaDeviceP2PAttr attr, int srcDevice,
                                      int dstDevice)
{
    CUdevice from, to;
    int error = device_of(srcDevice, &from);
    if (!error)
        error = device_of(dstDevice, &to);
    return rt_result(
        error ? error
              : (int)rt_cu->cuDeviceGetP2PAttribute(value, (CUdevice_P2PAttribute)attr, from, to));
}

static int peer_context(int device, CUcontext *context)
{
    int error = rt_enter();
    if (!error && (device < 0 || device >= rt_device_count()))
        error = cudaErrorInvalidDevice;
    return error ? error : rt_primary_context(device, context);
}

cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags)
{
    CUcontext peer;
    int error = peer_context(peerDevice, &peer);
    if (!error && peerDevice == rt_device())
        error = cudaErrorInvalidDevice;
    return rt_result(error ? error : (int)rt_cu->cuCtxEnablePeerAccess(peer, flags));
}

cudaError_t cudaDeviceDisablePeerAccess(int peerDevice)
{
    CUcontext peer;
    int error = peer_context(peerDevice, &peer);
    return rt_result(error ? error : (int)rt_cu->cuCtxDisablePeerAccess(peer));
}
