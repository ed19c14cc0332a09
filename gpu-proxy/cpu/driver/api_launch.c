/* Entry points: functions, their attributes, occupancy and launches. */
#include "common/cuda/gb_cuda_shape.h"
#include "gb_cuda_api.h"
#include "gpu-proxy/cpu/driver/cpu_capture.h"
#include "gpu-proxy/cpu/driver/cpu_launch.h"
#include "gpu-proxy/cpu/driver/cpu_library.h"
#include "gpu-proxy/cpu/driver/cpu_stream.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"

static CUresult enter(CUfunction handle, cpu_function_t **function)
{
    cpu_context_t *context;
    CUresult result = cpu_thread_context(&context);
    return result ? result : cpu_function_get(context, handle, function);
}

static CUresult leave(cpu_function_t *function, CUresult result)
{
    cpu_object_put(&function->object);
    return result;
}

/* ---- functions ---- */

static uint64_t const_bytes(const ptx_module_t *ptx)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < ptx->var_count; i++)
        bytes += ptx->vars[i].space == PTX_SPACE_CONST ? ptx->vars[i].size : 0;
    return bytes;
}

static CUresult get_attribute(const cpu_function_t *function, CUfunction_attribute attribute,
                              int *value)
{
    const ptx_function_t *ptx = function->ptx;
    const ptx_module_t *module = function->module->image->ptx;
    int asked = atomic_load(&((cpu_function_t *)function)->max_dynamic_shared);
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
        *value = cpu_function_max_threads(function);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
        *value = (int)cpu_function_static_shared(function);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
        *value = (int)const_bytes(module);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
        *value = (int)ptx->local_size;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS: /* as many as a GPU would give at full occupancy */
        *value = ptx->reg_count < 32 ? (int)ptx->reg_count : 32;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
        *value = (int)module->sm;
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        *value =
            asked >= 0 ? asked : CPU_SHARED_DEFAULT - (int)cpu_function_static_shared(function);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        *value = atomic_load(&((cpu_function_t *)function)->carveout);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
        *value = (int)ptx->req_cluster[attribute - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
        return CUDA_SUCCESS;
    default:
        if ((int)attribute < 0 || attribute >= CU_FUNC_ATTRIBUTE_MAX)
            return CUDA_ERROR_INVALID_VALUE;
        *value = 0;
        return CUDA_SUCCESS;
    }
}

static CUresult set_attribute(cpu_function_t *function, CUfunction_attribute attribute, int value)
{
    switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
        if (value < 0 || (uint64_t)value + cpu_function_static_shared(function) > CPU_SHARED_MOST)
            return CUDA_ERROR_INVALID_VALUE;
        atomic_store(&function->max_dynamic_shared, value);
        return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
        if (value < -1 || value > 100)
            return CUDA_ERROR_INVALID_VALUE;
        atomic_store(&function->carveout, value);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuFuncGetAttribute(int *pi, CUfunction_attribute attrib, CUfunction hfunc)
{
    cpu_function_t *function;
    CUresult result = enter(hfunc, &function);
    if (result)
        return result;
    return leave(function, pi ? get_attribute(function, attrib, pi) : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuFuncSetAttribute(CUfunction hfunc, CUfunction_attribute attrib, int value)
{
    cpu_function_t *function;
    CUresult result = enter(hfunc, &function);
    return result ? result : leave(function, set_attribute(function, attrib, value));
}

/* A kernel's attributes are those of its function in the device's current or primary context; here
 * they are the same in every context. */
static CUresult enter_kernel(CUkernel kernel, CUdevice dev, cpu_function_t **function)
{
    cpu_device_t *device;
    CUresult result = cpu_device_get(dev, &device);
    return result ? result : enter((CUfunction)kernel, function);
}

CUresult cuKernelGetAttribute(int *pi, CUfunction_attribute attrib, CUkernel kernel, CUdevice dev)
{
    cpu_function_t *function;
    CUresult result = enter_kernel(kernel, dev, &function);
    if (result)
        return result;
    return leave(function, pi ? get_attribute(function, attrib, pi) : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuKernelSetAttribute(CUfunction_attribute attrib, int val, CUkernel kernel, CUdevice dev)
{
    cpu_function_t *function;
    CUresult result = enter_kernel(kernel, dev, &function);
    return result ? result : leave(function, set_attribute(function, attrib, val));
}

CUresult cuFuncSetCacheConfig(CUfunction hfunc, CUfunc_cache config)
{
    cpu_function_t *function;
    CUresult result = enter(hfunc, &function);
    if (result)
        return result;
    bool good = (int)config >= 0 && config <= CU_FUNC_CACHE_PREFER_EQUAL;
    if (good)
        atomic_store(&function->cache_config, (int)config);
    return leave(function, good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuKernelSetCacheConfig(CUkernel kernel, CUfunc_cache config, CUdevice dev)
{
    cpu_device_t *device;
    CUresult result = cpu_device_get(dev, &device);
    return result ? result : cuFuncSetCacheConfig((CUfunction)kernel, config);
}

CUresult cuFuncSetSharedMemConfig(CUfunction hfunc, CUsharedconfig config)
{
    cpu_function_t *function;
    CUresult result = enter(hfunc, &function);
    if (result)
        return result;
    bool good = (int)config >= 0 && config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE;
    return leave(function, good ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuFuncGetModule(CUmodule *hmod, CUfunction hfunc)
{
    cpu_function_t *function;
    CUresult result = enter(hfunc, &function);
    if (result)
        return result;
    if (hmod)
        *hmod = (CUmodule)function->module->object.handle;
    return leave(function, hmod ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuFuncGetName(const char **name, CUfunction hfunc)
{
    cpu_function_t *function;
    CUresult result = enter(hfunc, &function);
    if (result)
        return result;
    if (name)
        *name = function->ptx->name;
    return leave(function, name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction function)
{
    cpu_function_t *found;
    CUresult result = enter(function, &found);
    if (result)
        return result;
    if (state)
        *state = CU_FUNCTION_LOADING_STATE_LOADED;
    return leave(found, state ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

CUresult cuFuncLoad(CUfunction function)
{
    cpu_function_t *found;
    CUresult result = enter(function, &found);
    return result ? result : leave(found, CUDA_SUCCESS);
}

/* ---- occupancy: of blocks under way; a core runs one of them at a time ---- */

static CUresult blocks_per_core(const cpu_function_t *function, int block_size, size_t dynamic,
                                int *blocks)
{
    if (block_size <= 0)
        return CUDA_ERROR_INVALID_VALUE;
    *blocks = cpu_launch_blocks_per_core(function, block_size, dynamic);
    return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *numBlocks, CUfunction func,
                                                              int blockSize, size_t dynamicSMemSize,
                                                              unsigned int flags)
{
    cpu_function_t *function;
    CUresult result = enter(func, &function);
    if (result)
        return result;
    if (!numBlocks || (flags & ~1u))
        return leave(function, CUDA_ERROR_INVALID_VALUE);
    return leave(function, blocks_per_core(function, blockSize, dynamicSMemSize, numBlocks));
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *numBlocks, CUfunction func, int blockSize,
                                                     size_t dynamicSMemSize)
{
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(numBlocks, func, blockSize,
                                                                dynamicSMemSize, 0);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *dynamicSmemSize, CUfunction func,
                                                 int numBlocks, int blockSize)
{
    cpu_function_t *function;
    CUresult result = enter(func, &function);
    if (result)
        return result;
    uint64_t fixed = cpu_function_static_shared(function);
    if (!dynamicSmemSize || numBlocks <= 0 || blockSize <= 0 ||
        numBlocks > cpu_launch_blocks_per_core(function, blockSize, 0))
        return leave(function, CUDA_ERROR_INVALID_VALUE);
    uint64_t share = CPU_SHARED_OF_CORE / (uint64_t)numBlocks;
    share = share < CPU_SHARED_MOST ? share : CPU_SHARED_MOST;
    *dynamicSmemSize = fixed < share ? share - fixed : 0;
    return leave(function, CUDA_SUCCESS);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *minGridSize, int *blockSize,
                                                   CUfunction func,
                                                   CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                                   size_t dynamicSMemSize, int blockSizeLimit,
                                                   unsigned int flags)
{
    cpu_function_t *function;
    CUresult result = enter(func, &function);
    if (result)
        return result;
    if (!minGridSize || !blockSize || blockSizeLimit < 0 || (flags & ~1u))
        return leave(function, CUDA_ERROR_INVALID_VALUE);
    int most = cpu_function_max_threads(function), best = 0, best_blocks = 0;
    if (blockSizeLimit && blockSizeLimit < most)
        most = blockSizeLimit;
    for (int size = most; size > 0; size = size > 32 ? (size - 1) / 32 * 32 : 0) {
        size_t dynamic =
            blockSizeToDynamicSMemSize ? blockSizeToDynamicSMemSize(size) : dynamicSMemSize;
        int blocks = cpu_launch_blocks_per_core(function, size, dynamic);
        if (blocks * size > best_blocks * best) {
            best = size;
            best_blocks = blocks;
        }
    }
    *blockSize = best;
    *minGridSize = cpu_sched_seats() * best_blocks;
    return leave(function, CUDA_SUCCESS);
}

CUresult cuOccupancyMaxPotentialBlockSize(int *minGridSize, int *blockSize, CUfunction func,
                                          CUoccupancyB2DSize blockSizeToDynamicSMemSize,
                                          size_t dynamicSMemSize, int blockSizeLimit)
{
    return cuOccupancyMaxPotentialBlockSizeWithFlags(minGridSize, blockSize, func,
                                                     blockSizeToDynamicSMemSize, dynamicSMemSize,
                                                     blockSizeLimit, 0);
}

/* ---- launches ---- */

/* Handles of libraries' kernels stay kernels, so that they mean a function in any context. */
static CUresult capture(cpu_function_t *function, CUfunction handle, cpu_stream_t *stream,
                        const cpu_shape_of_launch_t *shape, void **params, void **extra)
{
    cpu_work_t work;
    bool of_library = (uint64_t)(uintptr_t)handle != function->object.handle;
    CUresult result =
        cpu_work_launch(function, of_library ? NULL : handle, shape, params, extra, &work);
    if (result)
        return result;
    work.kernel.kern = of_library ? (CUkernel)handle : NULL;
    return cpu_capture_work(stream, &work);
}

static CUresult launch(CUfunction f, CUstream handle, const cpu_shape_of_launch_t *shape,
                       void **params, void **extra)
{
    cpu_context_t *context;
    cpu_stream_t *stream;
    cpu_function_t *function;
    CUresult result = cpu_thread_context(&context);
    if (!result)
        result = cpu_stream_get(context, handle, &stream);
    if (result)
        return result;
    result = cpu_function_get(context, f, &function);
    if (!result) {
        bool captured;
        result = cpu_capture_enter(stream, &captured);
        if (!result && captured)
            result = capture(function, f, stream, shape, params, extra);
        else if (!result)
            result = cpu_launch(function, stream, shape, params, extra);
        cpu_object_put(&function->object);
    }
    cpu_object_put(&stream->object);
    return result;
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                        unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                        unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                        void **kernelParams, void **extra)
{
    cpu_shape_of_launch_t shape = {
        {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes, false};
    return launch(f, hStream, &shape, kernelParams, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                   unsigned int gridDimZ, unsigned int blockDimX,
                                   unsigned int blockDimY, unsigned int blockDimZ,
                                   unsigned int sharedMemBytes, CUstream hStream,
                                   void **kernelParams)
{
    cpu_shape_of_launch_t shape = {
        {gridDimX, gridDimY, gridDimZ}, {blockDimX, blockDimY, blockDimZ}, sharedMemBytes, true};
    return launch(f, hStream, &shape, kernelParams, NULL);
}

/* Hints are dropped; what would change the meaning of the launch and is not done is an error. */
static CUresult read_attributes(const CUlaunchConfig *config, cpu_shape_of_launch_t *shape)
{
    if (config->numAttrs && !config->attrs)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttributeValue *value = &config->attrs[i].value;
        CUresult result = CUDA_SUCCESS;
        switch ((int)config->attrs[i].id) {
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
            shape->cooperative = value->cooperative != 0;
            break;
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            result = gb_cluster_check(value);
            break;
        case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
        case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
        case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
            return CUDA_ERROR_NOT_SUPPORTED;
        default:
            break;
        }
        if (result)
            return result;
    }
    return CUDA_SUCCESS;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **kernelParams,
                          void **extra)
{
    if (!config)
        return cpu_thread_refuse_here(CUDA_ERROR_INVALID_VALUE);
    cpu_shape_of_launch_t shape = {{config->gridDimX, config->gridDimY, config->gridDimZ},
                                   {config->blockDimX, config->blockDimY, config->blockDimZ},
                                   config->sharedMemBytes,
                                   false};
    CUresult result = read_attributes(config, &shape);
    return result ? result : launch(f, config->hStream, &shape, kernelParams, extra);
}
