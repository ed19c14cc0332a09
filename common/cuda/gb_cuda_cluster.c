/* Entry points: how many clusters of blocks a device holds at once. A cluster has one block here, whatever
 * the device: launches refuse larger ones (gb_cluster_check), and so do these. Part of both of our
 * libcuda.so.1. */
#include <stdint.h>

#include "common/cuda/gb_cuda_shape.h"
#include "gb_cuda_api.h"

/* What is asked is about the context of the launch's stream, if it has one of its own. */
static CUresult enter(const CUlaunchConfig *config, bool *pushed)
{
    CUcontext context;
    CUdevice device;
    *pushed = false;
    if (!config)
        return cuCtxGetDevice(&device);
    if (!config->hStream || config->hStream == CU_STREAM_LEGACY ||
        config->hStream == CU_STREAM_PER_THREAD)
        return CUDA_SUCCESS;
    CUresult result = cuStreamGetCtx(config->hStream, &context);
    if (!result)
        result = cuCtxPushCurrent_v2(context);
    *pushed = !result;
    return result;
}

static CUresult leave(bool pushed, CUresult result)
{
    CUresult popped = pushed ? cuCtxPopCurrent_v2(NULL) : CUDA_SUCCESS;
    return result ? result : popped;
}

/* Blocks of the launch that a multiprocessor holds. */
static CUresult blocks_of(CUfunction func, const CUlaunchConfig *config, int *blocks)
{
    uint64_t area = (uint64_t)config->blockDimX * config->blockDimY, threads;
    if (__builtin_mul_overflow(area, (uint64_t)config->blockDimZ, &threads) || threads > INT32_MAX)
        return CUDA_ERROR_INVALID_VALUE;
    return cuOccupancyMaxActiveBlocksPerMultiprocessor(blocks, func, (int)threads,
                                                       config->sharedMemBytes);
}

static CUresult largest_cluster(CUfunction func, const CUlaunchConfig *config, int *size)
{
    int blocks;
    CUresult result = blocks_of(func, config, &blocks);
    if (!result)
        *size = blocks > 0;
    return result;
}

CUresult cuOccupancyMaxPotentialClusterSize(int *clusterSize, CUfunction func,
                                            const CUlaunchConfig *config)
{
    bool pushed;
    CUresult result = enter(config, &pushed);
    if (result)
        return result;
    if (!clusterSize || !config)
        return leave(pushed, CUDA_ERROR_INVALID_VALUE);
    return leave(pushed, largest_cluster(func, config, clusterSize));
}

/* The shape that the kernel was compiled for; 0: for none. */
static CUresult required_cluster(CUfunction func, unsigned required[3])
{
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < 3 && !result; i++)
        result = cuFuncGetAttribute(
            (int *)&required[i],
            (CUfunction_attribute)(CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH + i), func);
    return result;
}

/* The kernel's own shape or the launch's; where there are both they must agree, and one there must be. */
static CUresult check_cluster(CUfunction func, const CUlaunchConfig *config)
{
    unsigned required[3] = {0};
    CUresult result = required_cluster(func, required);
    bool given = required[0] != 0;
    if (!result && config->numAttrs && !config->attrs)
        result = CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < config->numAttrs && !result; i++) {
        const CUlaunchAttribute *a = &config->attrs[i];
        if (a->id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            continue;
        if (required[0] &&
            (a->value.clusterDim.x != required[0] || a->value.clusterDim.y != required[1] ||
             a->value.clusterDim.z != required[2]))
            return CUDA_ERROR_INVALID_CLUSTER_SIZE;
        result = gb_cluster_check(&a->value);
        given = true;
    }
    return !result && !given ? CUDA_ERROR_INVALID_CLUSTER_SIZE : result;
}

static CUresult clusters_at_once(CUfunction func, const CUlaunchConfig *config, int *clusters)
{
    int blocks = 0, processors = 0;
    CUdevice device;
    CUresult result = blocks_of(func, config, &blocks);
    if (!result)
        result = check_cluster(func, config);
    if (!result)
        result = cuCtxGetDevice(&device);
    if (!result)
        result =
            cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
    if (!result)
        *clusters = blocks * processors;
    return result;
}

CUresult cuOccupancyMaxActiveClusters(int *numClusters, CUfunction func,
                                      const CUlaunchConfig *config)
{
    bool pushed;
    CUresult result = enter(config, &pushed);
    if (result)
        return result;
    if (!numClusters || !config)
        return leave(pushed, CUDA_ERROR_INVALID_VALUE);
    return leave(pushed, clusters_at_once(func, config, numClusters));
}
