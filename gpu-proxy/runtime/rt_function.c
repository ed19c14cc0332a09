/* What a kernel needs and may have; occupancy. */
#include "gpu-proxy/runtime/rt_module.h"
#include "gpu-proxy/runtime/rt_state.h"

static int attribute(CUfunction function, CUfunction_attribute which, int *value)
{
    return (int)rt_cu->cuFuncGetAttribute(value, which, function);
}

static int read_attributes(CUfunction f, struct cudaFuncAttributes *out)
{
    int shared, constant, local;
    struct {
        CUfunction_attribute which;
        int *value;
    } all[] = {
        {CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, &shared},
        {CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES, &constant},
        {CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, &local},
        {CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, &out->maxThreadsPerBlock},
        {CU_FUNC_ATTRIBUTE_NUM_REGS, &out->numRegs},
        {CU_FUNC_ATTRIBUTE_PTX_VERSION, &out->ptxVersion},
        {CU_FUNC_ATTRIBUTE_BINARY_VERSION, &out->binaryVersion},
        {CU_FUNC_ATTRIBUTE_CACHE_MODE_CA, &out->cacheModeCA},
        {CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &out->maxDynamicSharedSizeBytes},
        {CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, &out->preferredShmemCarveout},
        {CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET, &out->clusterDimMustBeSet},
        {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH, &out->requiredClusterWidth},
        {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT, &out->requiredClusterHeight},
        {CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH, &out->requiredClusterDepth},
        {CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE,
         &out->clusterSchedulingPolicyPreference},
        {CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, &out->nonPortableClusterSizeAllowed},
    };
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        int error = attribute(f, all[i].which, all[i].value);
        if (error)
            return error;
    }
    out->sharedSizeBytes = (size_t)shared;
    out->constSizeBytes = (size_t)constant;
    out->localSizeBytes = (size_t)local;
    return 0;
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attr, const void *func)
{
    CUfunction f;
    struct cudaFuncAttributes a = {0};
    int error = rt_enter();
    if (!error && !attr)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_function_of(func, &f);
    if (!error)
        error = read_attributes(f, &a);
    if (!error)
        *attr = a;
    return rt_result(error);
}

cudaError_t cudaFuncSetAttribute(const void *func, enum cudaFuncAttribute attr, int value)
{
    CUfunction f;
    int error = rt_enter();
    if (!error)
        error = rt_function_of(func, &f);
    if (!error &&
        (attr < cudaFuncAttributeMaxDynamicSharedMemorySize || attr >= cudaFuncAttributeMax))
        error = cudaErrorInvalidValue;
    return rt_result(error ? error
                           : (int)rt_cu->cuFuncSetAttribute(f, (CUfunction_attribute)attr, value));
}

cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attr,
                                            int value, int device)
{
    CUdevice handle;
    int error = rt_init();
    if (!error && (device < 0 || device >= rt_device_count()))
        error = cudaErrorInvalidDevice;
    if (!error)
        error = (int)rt_cu->cuDeviceGet(&handle, device);
    return rt_result(error ? error
                           : (int)rt_cu->cuKernelSetAttribute((CUfunction_attribute)attr, value,
                                                              kernel, handle));
}

cudaError_t cudaFuncSetCacheConfig(const void *func, enum cudaFuncCache cacheConfig)
{
    CUfunction f;
    int error = rt_enter();
    if (!error)
        error = rt_function_of(func, &f);
    return rt_result(error ? error
                           : (int)rt_cu->cuFuncSetCacheConfig(f, (CUfunc_cache)cacheConfig));
}

cudaError_t cudaFuncSetSharedMemConfig(const void *func, enum cudaSharedMemConfig config)
{
    CUfunction f;
    int error = rt_enter();
    if (!error)
        error = rt_function_of(func, &f);
    return rt_result(error ? error
                           : (int)rt_cu->cuFuncSetSharedMemConfig(f, (CUsharedconfig)config));
}

cudaError_t cudaFuncGetName(const char **name, const void *func)
{
    CUfunction f;
    int error = rt_enter();
    if (!error && !name)
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_function_of(func, &f);
    return rt_result(error ? error : (int)rt_cu->cuFuncGetName(name, f));
}

cudaError_t cudaFuncGetParamInfo(const void *func, size_t paramIndex, size_t *paramOffset,
                                 size_t *paramSize)
{
    CUfunction f;
    int error = rt_enter();
    if (!error)
        error = rt_function_of(func, &f);
    return rt_result(error ? error
                           : (int)rt_cu->cuFuncGetParamInfo(f, paramIndex, paramOffset, paramSize));
}

/* ---- occupancy ---- */

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, const void *func,
                                                          int blockSize, size_t dynamicSMemSize)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize,
                                                                  dynamicSMemSize, 0);
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, const void *func,
                                                                   int blockSize,
                                                                   size_t dynamicSMemSize,
                                                                   unsigned int flags)
{
    CUfunction f;
    int error = rt_enter();
    if (!error)
        error = rt_function_of(func, &f);
    return rt_result(error ? error
                           : (int)rt_cu->cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
                                 numBlocks, f, blockSize, dynamicSMemSize, flags));
}

cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, const void *func,
                                                      int numBlocks, int blockSize)
{
    CUfunction f;
    int error = rt_enter();
    if (!error)
        error = rt_function_of(func, &f);
    return rt_result(error ? error
                           : (int)rt_cu->cuOccupancyAvailableDynamicSMemPerBlock(
                                 dynamicSmemSize, f, numBlocks, blockSize));
}
