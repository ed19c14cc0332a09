/* Entry points: one cooperative kernel on several devices. */
#include <string.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/cpu/driver/cpu_capture.h"
#include "gpu-proxy/cpu/driver/cpu_event.h"
#include "gpu-proxy/cpu/driver/cpu_launch.h"
#include "gpu-proxy/cpu/driver/cpu_stream.h"
#include "gpu-proxy/cpu/driver/cpu_thread.h"

/* CUDA_COOPERATIVE_LAUNCH_MULTI_DEVICE_NO_PRE_LAUNCH_SYNC, _NO_POST_LAUNCH_SYNC */
enum { NO_SYNC_BEFORE = 1, NO_SYNC_AFTER = 2 };

typedef struct {
    cpu_function_t *function; /* referenced */
    cpu_stream_t *stream;     /* referenced */
} part_t;

static void put_parts(part_t *parts, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (parts[i].function)
            cpu_object_put(&parts[i].function->object);
        if (parts[i].stream)
            cpu_object_put(&parts[i].stream->object);
    }
}

static cpu_shape_of_launch_t shape_of(const CUDA_LAUNCH_PARAMS *p)
{
    return (cpu_shape_of_launch_t){{p->gridDimX, p->gridDimY, p->gridDimZ},
                                   {p->blockDimX, p->blockDimY, p->blockDimZ},
                                   p->sharedMemBytes,
                                   true};
}

/* No default streams: the program names one of each device. */
static CUresult find_part(cpu_context_t *context, const CUDA_LAUNCH_PARAMS *p, part_t *part)
{
    if (!p->hStream || p->hStream == CU_STREAM_LEGACY || p->hStream == CU_STREAM_PER_THREAD)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = cpu_stream_get(context, p->hStream, &part->stream);
    if (!result)
        result = cpu_function_get(part->stream->context, p->function, &part->function);
    if (!result && part->function->module->context != part->stream->context)
        result = CUDA_ERROR_INVALID_HANDLE;
    if (!result)
        result = cpu_capture_refuse(part->stream);
    return result;
}

static bool is_same_launch(const CUDA_LAUNCH_PARAMS *a, const CUDA_LAUNCH_PARAMS *b)
{
    return a->gridDimX == b->gridDimX && a->gridDimY == b->gridDimY && a->gridDimZ == b->gridDimZ &&
           a->blockDimX == b->blockDimX && a->blockDimY == b->blockDimY &&
           a->blockDimZ == b->blockDimZ && a->sharedMemBytes == b->sharedMemBytes;
}

/* The same kernel in the same shape, on different devices. */
static CUresult check_parts(const CUDA_LAUNCH_PARAMS *list, const part_t *parts, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        cpu_shape_of_launch_t shape = shape_of(&list[i]);
        CUresult result = cpu_launch_check(parts[i].function, &shape);
        if (result)
            return result;
        if (!is_same_launch(&list[0], &list[i]) ||
            strcmp(parts[0].function->ptx->name, parts[i].function->ptx->name) != 0)
            return CUDA_ERROR_INVALID_VALUE;
        for (unsigned k = 0; k < i; k++)
            if (parts[k].stream->context->device == parts[i].stream->context->device)
                return CUDA_ERROR_INVALID_VALUE;
    }
    return CUDA_SUCCESS;
}

/* Every stream waits for what all of them have now. */
static CUresult join_all(const part_t *parts, unsigned count)
{
    cpu_point_t points[CPU_MAX_DEVICES];
    CUresult result = CUDA_SUCCESS;
    for (unsigned i = 0; i < count; i++)
        points[i] = (cpu_point_t){parts[i].stream, cpu_stream_last(parts[i].stream)};
    for (unsigned i = 0; !result && i < count; i++)
        result = cpu_event_join(parts[i].stream, points, count);
    return result;
}

CUresult cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *launchParamsList,
                                              unsigned int numDevices, unsigned int flags)
{
    cpu_context_t *context;
    part_t parts[CPU_MAX_DEVICES] = {{0}};
    CUresult result = cpu_thread_context(&context);
    if (result)
        return result;
    if (!launchParamsList || !numDevices || (flags & ~(unsigned)(NO_SYNC_BEFORE | NO_SYNC_AFTER)) ||
        numDevices > (unsigned)cpu_driver()->device_count)
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; !result && i < numDevices; i++)
        result = find_part(context, &launchParamsList[i], &parts[i]);
    if (!result)
        result = check_parts(launchParamsList, parts, numDevices);
    if (!result && !(flags & NO_SYNC_BEFORE))
        result = join_all(parts, numDevices);
    for (unsigned i = 0; !result && i < numDevices; i++) {
        cpu_shape_of_launch_t shape = shape_of(&launchParamsList[i]);
        result = cpu_launch(parts[i].function, parts[i].stream, &shape,
                            launchParamsList[i].kernelParams, NULL);
    }
    if (!result && !(flags & NO_SYNC_AFTER))
        result = join_all(parts, numDevices);
    put_parts(parts, numDevices);
    return result;
}
