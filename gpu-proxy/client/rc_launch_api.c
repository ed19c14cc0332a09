/* Launches. All that CUDA reports at the call is found here; the frame then needs no answer. */
#include <string.h>

#include "common/cuda/gb_cuda_shape.h"
#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_capture.h"
#include "gpu-proxy/client/rc_launch.h"
#include "gpu-proxy/client/rc_shared.h"

CUresult rc_launch_check(const rc_object_t *context, const px_wire_launch_t *l, rc_function_t *f)
{
    const int32_t *limit = context->context_.device->info.attributes;
    uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
    for (int i = 0; i < 3; i++)
        if (l->grid[i] == 0 || l->block[i] == 0 ||
            l->grid[i] > (uint32_t)limit[CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i] ||
            l->block[i] > (uint32_t)limit[CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i])
            return CUDA_ERROR_INVALID_VALUE;
    if (threads > (uint64_t)limit[CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK])
        return CUDA_ERROR_INVALID_VALUE;
    int most = atomic_load(&f->attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK]);
    if (most > 0 && threads > (uint64_t)most)
        return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    int fixed = atomic_load(&f->attributes[CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES]);
    int dynamic = atomic_load(&f->attributes[CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES]);
    int64_t room = (int64_t)limit[CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK] - fixed;
    if (dynamic > room)
        room = dynamic;
    return (int64_t)l->shared > room ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* The `extra` form: parameters that the program has packed itself. */
static CUresult read_extra(const rc_function_t *f, void **extra, const void **bytes, uint32_t *size)
{
    const void *buffer = NULL;
    size_t length = 0;
    for (; *extra != CU_LAUNCH_PARAM_END; extra += 2) {
        if (*extra == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[1];
        else if (*extra == CU_LAUNCH_PARAM_BUFFER_SIZE)
            length = extra[1] ? *(size_t *)extra[1] : 0;
        else
            return CUDA_ERROR_INVALID_VALUE;
    }
    if (length > PX_WIRE_PARAMS || length < f->param_bytes || (length && !buffer))
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = buffer;
    *size = (uint32_t)length;
    return CUDA_SUCCESS;
}

/* Packs the values that kernelParams points to. */
static CUresult pack(const rc_function_t *f, void **values, uint8_t *packed)
{
    if (f->param_count && !values)
        return CUDA_ERROR_INVALID_VALUE;
    for (uint32_t i = 0; i < f->param_count; i++) {
        if (!values[i])
            return CUDA_ERROR_INVALID_VALUE;
        memcpy(packed + f->params[i].offset, values[i], f->params[i].size);
    }
    return CUDA_SUCCESS;
}

CUresult rc_launch_pack(const rc_function_t *f, void **values, void **extra, void *buffer,
                        const void **bytes, uint32_t *size)
{
    if (values && extra)
        return CUDA_ERROR_INVALID_VALUE;
    *bytes = buffer;
    *size = f->param_bytes;
    if (extra)
        return read_extra(f, extra, bytes, size);
    memset(buffer, 0, f->param_bytes);
    return pack(f, values, buffer);
}

/* The launch as a node of a graph. */
static CUresult capture(rc_call_t *call, CUfunction handle, rc_object_t *function,
                        const px_wire_launch_t *l, const void *bytes)
{
    rc_work_t work;
    CUresult result = rc_work_launch(call->context, function->function.function, l, bytes, &work);
    if (result)
        return result;
    if (rc_object_get(RC_FUNCTION, handle))
        work.kernel.func = handle;
    else
        work.kernel.kern = (CUkernel)(uintptr_t)handle;
    return rc_capture_work(call, &work);
}

/* All blocks must be on the device at once. What the session says about a shape is kept. */
static CUresult check_cooperative(rc_call_t *call, const px_wire_launch_t *l, rc_function_t *f)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    uint64_t threads = (uint64_t)l->block[0] * l->block[1] * l->block[2];
    uint64_t blocks = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2], most = 0;
    const int32_t *facts = call->context->context_.device->info.attributes;
    pthread_mutex_lock(&lock);
    int known = f->together.threads == threads && f->together.shared == l->shared;
    if (known)
        most = f->together.most;
    pthread_mutex_unlock(&lock);
    if (!known) {
        uint64_t args[3] = {f->wire, threads, l->shared};
        CUresult result =
            rc_ask(call, GB_OP_cuOccupancyMaxActiveBlocksPerMultiprocessor, args, 3, &most, 1);
        if (result) /* a driver that knows no such limit has none */
            return result == CUDA_ERROR_NOT_SUPPORTED ? CUDA_SUCCESS : result;
        most = (uint64_t)(uint32_t)most * (uint64_t)facts[CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT];
        pthread_mutex_lock(&lock);
        f->together.threads = threads;
        f->together.shared = l->shared;
        f->together.most = most;
        pthread_mutex_unlock(&lock);
    }
    return blocks > most ? CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE : CUDA_SUCCESS;
}

static CUresult launch(CUfunction handle, px_wire_launch_t *l, CUstream stream, void **values,
                       void **extra)
{
    rc_call_t call;
    rc_object_t *object;
    uint64_t wire;
    CUresult result = rc_begin_in_context(&call);
    if (!result)
        result = rc_function_of(&call, handle, &object);
    if (!result && object->context != call.context)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result)
        result = rc_use_stream(&call, stream, &wire);
    if (!result && call.owner != call.context)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (result)
        return result;
    rc_function_t *f = object->function.function;
    result = rc_launch_check(call.context, l, f);
    if (result)
        return result;
    if (l->cooperative)
        result = check_cooperative(&call, l, f);
    if (result)
        return result;
    l->function = f->wire;
    l->stream = (uint32_t)wire;
    uint8_t small[512] __attribute__((aligned(16)));
    uint8_t large[PX_WIRE_PARAMS] __attribute__((aligned(16)));
    const void *bytes;
    result = rc_launch_pack(f, values, extra, f->param_bytes <= sizeof(small) ? small : large,
                            &bytes, &l->params);
    if (!result)
        result = rc_shared_open_all(bytes, l->params);
    if (result)
        return result;
    if (rc_capture_any()) {
        int captured;
        result = rc_capture_look(&call, &captured);
        if (result || captured)
            return result ? result : capture(&call, handle, object, l, bytes);
    }
    return rc_post_bytes(&call, GB_OP_cuLaunchKernel, l, sizeof(*l), bytes, l->params);
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                        unsigned int gridDimZ, unsigned int blockDimX, unsigned int blockDimY,
                        unsigned int blockDimZ, unsigned int sharedMemBytes, CUstream hStream,
                        void **kernelParams, void **extra)
{
    px_wire_launch_t l = {.grid = {gridDimX, gridDimY, gridDimZ},
                          .block = {blockDimX, blockDimY, blockDimZ},
                          .shared = sharedMemBytes};
    return launch(f, &l, hStream, kernelParams, extra);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX, unsigned int gridDimY,
                                   unsigned int gridDimZ, unsigned int blockDimX,
                                   unsigned int blockDimY, unsigned int blockDimZ,
                                   unsigned int sharedMemBytes, CUstream hStream,
                                   void **kernelParams)
{
    px_wire_launch_t l = {.grid = {gridDimX, gridDimY, gridDimZ},
                          .block = {blockDimX, blockDimY, blockDimZ},
                          .shared = sharedMemBytes,
                          .cooperative = 1};
    return launch(f, &l, hStream, kernelParams, NULL);
}

/* Attributes that change what a kernel may rely on must not be dropped; the others are advice. */
static CUresult read_attributes(const CUlaunchConfig *config, px_wire_launch_t *l)
{
    for (unsigned i = 0; i < config->numAttrs; i++) {
        const CUlaunchAttribute *a = &config->attrs[i];
        CUresult result = CUDA_SUCCESS;
        switch (a->id) {
        case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
            l->cooperative = a->value.cooperative != 0;
            break;
        case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
            result = gb_cluster_check(&a->value);
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
    CUresult result = rc_check();
    if (result)
        return result;
    if (!config || (config->numAttrs && !config->attrs))
        return CUDA_ERROR_INVALID_VALUE;
    px_wire_launch_t l = {.grid = {config->gridDimX, config->gridDimY, config->gridDimZ},
                          .block = {config->blockDimX, config->blockDimY, config->blockDimZ},
                          .shared = config->sharedMemBytes};
    result = read_attributes(config, &l);
    return result ? result : launch(f, &l, config->hStream, kernelParams, extra);
}
