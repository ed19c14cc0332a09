/* Launches. A chevron is three calls: the configuration is pushed, the stub that nvcc made packs the
 * arguments, pops it, and launches. The configurations nest per thread. */
#include "gpu-proxy/runtime/rt_module.h"
#include "gpu-proxy/runtime/rt_state.h"

#include <string.h>

enum { DEPTH = 64 };

typedef struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} config_t;

static __thread struct {
    config_t stack[DEPTH];
    int depth;
} pushed;

unsigned int __cudaPushCallConfiguration(dim3 gridDim, dim3 blockDim, size_t sharedMem,
                                         struct CUstream_st *stream)
{
    if (pushed.depth == DEPTH)
        return 1;
    pushed.stack[pushed.depth++] = (config_t){gridDim, blockDim, sharedMem, stream};
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *gridDim, dim3 *blockDim, size_t *sharedMem,
                                       void *stream)
{
    if (pushed.depth == 0)
        return rt_result(cudaErrorMissingConfiguration);
    config_t *top = &pushed.stack[--pushed.depth];
    *gridDim = top->grid;
    *blockDim = top->block;
    *sharedMem = top->shared;
    *(cudaStream_t *)stream = top->stream;
    return cudaSuccess;
}

/* What the driver calls an invalid value is an invalid configuration if the lengths are to blame. */
static int launch_error(CUresult result, dim3 grid, dim3 block)
{
    CUdevice device;
    int most = 0;
    if (result != CUDA_ERROR_INVALID_VALUE)
        return (int)result;
    if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z)
        return cudaErrorInvalidConfiguration;
    static const CUdevice_attribute lengths[] = {
        CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,       CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
        CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z,       CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
        CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,      CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z,
        CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK};
    const uint64_t asked[] = {
        grid.x, grid.y, grid.z, block.x, block.y, block.z, (uint64_t)block.x * block.y * block.z};
    if (rt_cu->cuCtxGetDevice(&device))
        return (int)result;
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
        if (!rt_cu->cuDeviceGetAttribute(&most, lengths[i], device) && asked[i] > (uint64_t)most)
            return cudaErrorInvalidConfiguration;
    return (int)result;
}

static int launch(CUkernel kernel, dim3 grid, dim3 block, void **args, size_t shared,
                  cudaStream_t stream)
{
    if (shared > UINT32_MAX)
        return cudaErrorInvalidValue;
    CUresult result = rt_cu->cuLaunchKernel((CUfunction)kernel, grid.x, grid.y, grid.z, block.x,
                                            block.y, block.z, (unsigned)shared, stream, args, NULL);
    return result ? launch_error(result, grid, block) : 0;
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 gridDim, dim3 blockDim, void **args,
                               size_t sharedMem, cudaStream_t stream)
{
    int error = rt_enter();
    if (!error && !kernel)
        error = cudaErrorInvalidDeviceFunction;
    return rt_result(error ? error : launch(kernel, gridDim, blockDim, args, sharedMem, stream));
}

cudaError_t cudaLaunchKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args,
                             size_t sharedMem, cudaStream_t stream)
{
    CUkernel kernel;
    int error = rt_enter();
    if (!error)
        error = rt_kernel_of(func, &kernel);
    return rt_result(error ? error : launch(kernel, gridDim, blockDim, args, sharedMem, stream));
}

cudaError_t cudaLaunchCooperativeKernel(const void *func, dim3 gridDim, dim3 blockDim, void **args,
                                        size_t sharedMem, cudaStream_t stream)
{
    CUkernel kernel;
    int error = rt_enter();
    if (!error)
        error = rt_kernel_of(func, &kernel);
    if (!error && sharedMem > UINT32_MAX)
        error = cudaErrorInvalidValue;
    if (error)
        return rt_result(error);
    CUresult result = rt_cu->cuLaunchCooperativeKernel(
        (CUfunction)kernel, gridDim.x, gridDim.y, gridDim.z, blockDim.x, blockDim.y, blockDim.z,
        (unsigned)sharedMem, stream, args);
    return rt_result(result ? launch_error(result, gridDim, blockDim) : 0);
}

static CUlaunchConfig config_of(const cudaLaunchConfig_t *config)
{
    return (CUlaunchConfig){.gridDimX = config->gridDim.x,
                            .gridDimY = config->gridDim.y,
                            .gridDimZ = config->gridDim.z,
                            .blockDimX = config->blockDim.x,
                            .blockDimY = config->blockDim.y,
                            .blockDimZ = config->blockDim.z,
                            .sharedMemBytes = (unsigned)config->dynamicSmemBytes,
                            .hStream = config->stream,
                            .attrs = config->attrs,
                            .numAttrs = config->numAttrs};
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *func, void **args)
{
    CUkernel kernel;
    int error = rt_enter();
    if (!error && (!config || config->dynamicSmemBytes > UINT32_MAX))
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_kernel_of(func, &kernel);
    if (error)
        return rt_result(error);
    CUlaunchConfig c = config_of(config);
    CUresult result = rt_cu->cuLaunchKernelEx(&c, (CUfunction)kernel, args, NULL);
    return rt_result(result ? launch_error(result, config->gridDim, config->blockDim) : 0);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void *userData)
{
    int error = rt_enter();
    return rt_result(error ? error : (int)rt_cu->cuLaunchHostFunc(stream, fn, userData));
}

/* ---- occupancy of clusters: that is asked with a launch's configuration ---- */

static int clusters(int largest, int *out, const void *func, const cudaLaunchConfig_t *config)
{
    CUfunction function;
    int error = rt_enter();
    if (!error && (!out || !config || config->dynamicSmemBytes > UINT32_MAX))
        error = cudaErrorInvalidValue;
    if (!error)
        error = rt_function_of(func, &function);
    if (error)
        return error;
    CUlaunchConfig c = config_of(config);
    CUresult result = largest ? rt_cu->cuOccupancyMaxPotentialClusterSize(out, function, &c)
                              : rt_cu->cuOccupancyMaxActiveClusters(out, function, &c);
    return result ? launch_error(result, config->gridDim, config->blockDim) : 0;
}

cudaError_t cudaOccupancyMaxActiveClusters(int *numClusters, const void *func,
                                           const cudaLaunchConfig_t *launchConfig)
{
    return rt_result(clusters(0, numClusters, func, launchConfig));
}

cudaError_t cudaOccupancyMaxPotentialClusterSize(int *clusterSize, const void *func,
                                                 const cudaLaunchConfig_t *launchConfig)
{
    return rt_result(clusters(1, clusterSize, func, launchConfig));
}
