/* Errors that come from the state of the process and the thread: no cuInit, no current context, one that
 * is destroyed, a stream that is captured, a call inside a host function. */
#include "error_rows.h"

#include "gb_cuda_table.h"

typedef CUresult (*any_t)(uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t,
                          uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);

/* Runs before cuInit: all calls but these few say so, whatever their arguments are. */
static int nothing_works_before_init(void)
{
    static const char *const works[] = {
        "cuInit",           "cuDriverGetVersion", "cuGetErrorName",     "cuGetErrorString",
        "cuGetExportTable", "cuGetProcAddress",   "cuGetProcAddress_v2"};
    const any_t *functions = (const any_t *)cu;
    int wrong = 0;
    for (int i = 0; i < GB_CUDA_TABLE_COUNT; i++) {
        const char *name = gb_cuda_table_names[i];
        int skip = 0;
        for (size_t k = 0; k < sizeof(works) / sizeof(works[0]); k++)
            skip |= strcmp(works[k], name) == 0;
        if (skip)
            continue;
        CUresult result = functions[i](0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
        if (result != CUDA_ERROR_NOT_INITIALIZED && result != CUDA_ERROR_NOT_SUPPORTED) {
            fprintf(stderr, "%s before cuInit: %d instead of 3\n", name, (int)result);
            wrong++;
        }
    }
    return wrong;
}

static int setup(void **state)
{
    const gb_driver_t *driver;
    const char *path = getenv("GABLE_TEST_DRIVER");
    (void)state;
    setenv("GABLE_CPU_THREADS", "2", 0);
    setenv("GABLE_CPU_MEMORY", "256M", 0);
    setenv("GABLE_LOG", "error", 1);
    if (!path)
        path = GABLE_BUILD_DIR "/lib/gable/cpu/libcuda.so.1";
    if (gb_driver_open(path, &driver) != GB_OK)
        return -1;
    cu = &driver->table;
    return nothing_works_before_init() || cu->cuInit(1) != CUDA_ERROR_INVALID_VALUE ||
           cu->cuInit(0) != CUDA_SUCCESS;
}

/* Everything that CUDA does in the current context, with arguments that are good otherwise. */
static void without_a_context(void **state)
{
    CUcontext context;
    CUmodule module;
    CUlibrary library;
    CUstream stream;
    CUevent event;
    CUarray array;
    CUdeviceptr d = 0x1000;
    CUipcMemHandle ipc = {0};
    CUipcEventHandle ipc_event = {0};
    CUdevice device;
    CUfunc_cache cache;
    CUsharedconfig shared;
    CUdeviceptr ptr;
    size_t size, pitch, total;
    char room[64];
    void *host;
    unsigned flags;
    int low, high;
    CUDA_ARRAY_DESCRIPTOR flat = {16, 16, CU_AD_FORMAT_FLOAT, 1};
    CUDA_ARRAY3D_DESCRIPTOR deep = {16, 16, 16, CU_AD_FORMAT_FLOAT, 1, 0};
    CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = room,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = room,
                          .WidthInBytes = 4,
                          .Height = 1};
    CUDA_MEMCPY3D box = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                         .srcHost = room,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = room,
                         .WidthInBytes = 4,
                         .Height = 1,
                         .Depth = 1};
    CUmipmappedArray mipmap;
    (void)state;
    OK(cu->cuCtxSetCurrent(NULL));
    const error_row_t rows[] = {
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetDevice(&device)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxPopCurrent_v2(&context)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxSynchronize()),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetFlags(&flags)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetFlags(0)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetLimit(&size, CU_LIMIT_STACK_SIZE)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 1024)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetCacheConfig(&cache)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_L1)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetSharedMemConfig(&shared)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetSharedMemConfig(0)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetStreamPriorityRange(&low, &high)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxResetPersistingL2Cache()),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxAttach(&context, 0)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuFlushGPUDirectRDMAWrites(0, 100)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuOccupancyMaxActiveClusters(&low, NULL, NULL)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuOccupancyMaxPotentialClusterSize(&low, NULL, NULL)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuIpcGetMemHandle(&ipc, d)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenMemHandle_v2(&ptr, ipc, 1)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuIpcCloseMemHandle(d)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuIpcOpenEventHandle(&event, ipc_event)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemGetHandleForAddressRange(&low, d, 4096, 1, 0)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuModuleLoad(&module, "/nonexistent")),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuModuleLoadData(&module, device_kernels)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuModuleLoadDataEx(&module, device_kernels, 0, NULL, NULL)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuModuleLoadFatBinary(&module, device_kernels)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemAlloc_v2(&ptr, 64)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemAllocPitch_v2(&ptr, &pitch, 64, 2, 4)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemAllocManaged(&ptr, 64, CU_MEM_ATTACH_GLOBAL)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemFree_v2(d)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemGetInfo_v2(&size, &total)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemGetAddressRange_v2(&ptr, &size, d)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemAllocHost_v2(&host, 64)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemHostAlloc(&host, 64, 0)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemFreeHost(room)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemHostRegister_v2(room, 64, 0)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemHostUnregister(room)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemHostGetDevicePointer_v2(&ptr, room, 0)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemHostGetFlags(&flags, room)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemcpy(d, d, 4)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyAsync(d, d, 4, NULL)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyHtoD_v2(d, room, 4)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyDtoH_v2(room, d, 4)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyDtoD_v2(d, d, 4)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyHtoDAsync_v2(d, room, 4, NULL)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyDtoHAsync_v2(room, d, 4, NULL)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemcpyDtoDAsync_v2(d, d, 4, NULL)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemcpy2D_v2(&copy)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemcpy2DUnaligned_v2(&copy)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemcpy2DAsync_v2(&copy, NULL)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemcpy3D_v2(&box)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemcpy3DAsync_v2(&box, NULL)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemsetD8_v2(d, 0, 4)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemsetD16_v2(d, 0, 4)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemsetD32_v2(d, 0, 4)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemsetD8Async(d, 0, 4, NULL)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemsetD16Async(d, 0, 4, NULL)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemsetD32Async(d, 0, 4, NULL)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemsetD2D8_v2(d, 16, 0, 4, 4)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemsetD2D16_v2(d, 16, 0, 4, 4)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemsetD2D32_v2(d, 16, 0, 4, 4)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemsetD2D32Async(d, 16, 0, 4, 4, NULL)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuArrayCreate_v2(&array, &flat)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuArray3DCreate_v2(&array, &deep)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMipmappedArrayCreate(&mipmap, &deep, 2)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuStreamCreate(&stream, 0)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuStreamCreateWithPriority(&stream, 0, 0)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuStreamSynchronize(NULL)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuStreamQuery(NULL)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuStreamWaitEvent(NULL, (CUevent)16, 0)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuEventCreate(&event, 0)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuLaunchHostFunc(NULL, (CUhostFn)1, NULL)),
        ROW(CUDA_ERROR_INVALID_CONTEXT,
            cuLaunchKernel((CUfunction)16, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL)),
        ROW(CUDA_ERROR_INVALID_CONTEXT,
            cuLaunchCooperativeKernel((CUfunction)16, 1, 1, 1, 1, 1, 1, 0, NULL, NULL)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemAllocAsync(&ptr, 64, NULL)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuMemFreeAsync(d, NULL)),
        ROW(CUDA_SUCCESS, cuCtxGetCurrent(&context)), /* none is an answer */
        ROW(CUDA_SUCCESS, cuCtxSetCurrent(NULL)),
        ROW(CUDA_SUCCESS,
            cuLibraryLoadData(&library, device_kernels, NULL, NULL, 0, NULL, NULL, 0)),
        ROW(CUDA_SUCCESS, cuLibraryUnload(library)),
    };
    CHECK(rows);
    assert_null(context);
}

static void with_a_context_that_is_destroyed(void **state)
{
    CUcontext context, primary;
    CUstream stream, none;
    CUdeviceptr ptr;
    CUdevice device;
    CUmodule module;
    size_t size, total;
    (void)state;
    OK(cu->cuCtxCreate_v2(&context, 0, 0));
    OK(cu->cuStreamCreate(&stream, 0));
    OK(cu->cuCtxPushCurrent_v2(context));
    OK(cu->cuCtxDestroy_v2(context)); /* leaves it current one level below */
    const error_row_t rows[] = {
        ROW(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemAlloc_v2(&ptr, 64)),
        ROW(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemGetInfo_v2(&size, &total)),
        ROW(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuStreamCreate(&none, 0)),
        ROW(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuStreamSynchronize(NULL)),
        ROW(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuCtxSynchronize()),
        ROW(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuModuleLoadData(&module, device_kernels)),
        ROW(CUDA_ERROR_CONTEXT_IS_DESTROYED, cuMemsetD8_v2(4096, 0, 4)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy_v2(context)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(context)),
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxPushCurrent_v2(context)),
        ROW(CUDA_SUCCESS, cuCtxPopCurrent_v2(&primary)), /* leaving it is possible */
        ROW(CUDA_ERROR_INVALID_CONTEXT, cuCtxGetDevice(&device)),
    };
    CHECK(rows);
}

/* What a captured stream cannot take; each makes the capture invalid, so each has one of its own. */
static void in_a_captured_stream(void **state)
{
    enum { CALLS = 7 };
    CUstream stream;
    CUevent event;
    CUdeviceptr ptr;
    (void)state;
    OK(cu->cuEventCreate(&event, 0));
    for (int i = 0; i < CALLS; i++) {
        CUgraph graph = NULL;
        CUresult result = CUDA_SUCCESS, expected = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
        OK(cu->cuStreamCreate(&stream, CU_STREAM_DEFAULT));
        OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
        switch (i) {
        case 0:
            result = cu->cuStreamSynchronize(stream);
            break;
        case 1:
            result = cu->cuStreamQuery(stream);
            break;
        case 2:
            result = cu->cuMemAlloc_v2(&ptr, 64);
            break;
        case 3:
            result = cu->cuCtxSynchronize();
            break;
        case 4:
            result = cu->cuStreamAddCallback(stream, (CUstreamCallback)1, NULL, 0);
            break;
        case 5: /* the default stream would have to wait for the captured one */
            result = cu->cuLaunchHostFunc(NULL, (CUhostFn)1, NULL);
            expected = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
            break;
        default:
            result = cu->cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL);
            break;
        }
        if (result != expected)
            fail_msg("call %d in a capture: %d instead of %d", i, (int)result, (int)expected);
        result = cu->cuStreamEndCapture(stream, &graph);
        if (i < CALLS - 1 && (result != CUDA_ERROR_STREAM_CAPTURE_INVALIDATED || graph))
            fail_msg("the capture with call %d ends with %d", i, (int)result);
        if (graph)
            OK(cu->cuGraphDestroy(graph));
        OK(cu->cuStreamDestroy_v2(stream));
    }
    OK(cu->cuEventDestroy_v2(event));
}

static CUresult inside[4];

static void call_inside(void *user)
{
    CUdeviceptr ptr;
    size_t size, total;
    CUcontext context;
    inside[0] = cu->cuMemAlloc_v2(&ptr, 64);
    inside[1] = cu->cuMemGetInfo_v2(&size, &total);
    inside[2] = cu->cuStreamSynchronize(NULL);
    inside[3] = cu->cuCtxGetCurrent(&context);
    *(int *)user = 1;
}

static void inside_a_host_function(void **state)
{
    int called = 0;
    (void)state;
    OK(cu->cuLaunchHostFunc(NULL, call_inside, &called));
    OK(cu->cuStreamSynchronize(NULL));
    assert_int_equal(called, 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(inside[i], CUDA_ERROR_NOT_PERMITTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_a_context),
        cmocka_unit_test(with_a_context_that_is_destroyed),
        IN_CONTEXT(in_a_captured_stream),
        IN_CONTEXT(inside_a_host_function),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
