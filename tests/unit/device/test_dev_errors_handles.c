/* Errors that come from handles: NULL, destroyed, and those of another context; and launches and modules
 * that cannot be. */
#include "error_rows.h"

typedef struct {
    CUcontext context;
    CUstream stream;
    CUevent event;
    CUmodule module;
    CUfunction function, bounded, gather;
    CUlibrary library;
    CUkernel kernel;
    CUarray array;
    CUmipmappedArray mipmap;
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec;
    CUmemoryPool pool;
    CUuserObject user;
} things_t;

static void no_destructor(void *data)
{
    (void)data;
}

static void make_things(things_t *t)
{
    CUDA_ARRAY_DESCRIPTOR flat = {16, 16, CU_AD_FORMAT_FLOAT, 1};
    CUDA_ARRAY3D_DESCRIPTOR deep = {16, 16, 16, CU_AD_FORMAT_FLOAT, 1, 0};
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    OK(cu->cuCtxCreate_v2(&t->context, 0, 0));
    OK(cu->cuStreamCreate(&t->stream, 0));
    OK(cu->cuEventCreate(&t->event, 0));
    OK(cu->cuModuleLoadData(&t->module, device_kernels));
    OK(cu->cuModuleGetFunction(&t->function, t->module, "nothing"));
    OK(cu->cuModuleGetFunction(&t->bounded, t->module, "bounded"));
    OK(cu->cuModuleGetFunction(&t->gather, t->module, "gather"));
    OK(cu->cuLibraryLoadData(&t->library, device_kernels, NULL, NULL, 0, NULL, NULL, 0));
    OK(cu->cuLibraryGetKernel(&t->kernel, t->library, "nothing"));
    OK(cu->cuArrayCreate_v2(&t->array, &flat));
    OK(cu->cuMipmappedArrayCreate(&t->mipmap, &deep, 2));
    OK(cu->cuGraphCreate(&t->graph, 0));
    OK(cu->cuGraphAddEmptyNode(&t->node, t->graph, NULL, 0));
    OK(cu->cuGraphInstantiateWithFlags(&t->exec, t->graph, 0));
    OK(cu->cuMemPoolCreate(&t->pool, &props));
    OK(cu->cuUserObjectCreate(&t->user, t, no_destructor, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
}

static void end_things(const things_t *t)
{
    OK(cu->cuStreamDestroy_v2(t->stream));
    OK(cu->cuEventDestroy_v2(t->event));
    OK(cu->cuModuleUnload(t->module));
    OK(cu->cuLibraryUnload(t->library));
    OK(cu->cuArrayDestroy(t->array));
    OK(cu->cuMipmappedArrayDestroy(t->mipmap));
    OK(cu->cuGraphExecDestroy(t->exec));
    OK(cu->cuGraphDestroy(t->graph));
    OK(cu->cuMemPoolDestroy(t->pool));
    OK(cu->cuUserObjectRelease(t->user, 1));
}

/* All calls that use a handle, with one that names nothing (any more). */
static void check_gone(const things_t *t)
{
    CUfunction f;
    CUkernel k;
    CUmodule m;
    CUlibrary l;
    CUcontext c;
    CUdevice device;
    CUarray level;
    CUDA_ARRAY_DESCRIPTOR flat;
    CUDA_ARRAY3D_DESCRIPTOR deep;
    CUfunctionLoadingState loaded;
    CUstreamAttrValue value = {0};
    CUstreamCaptureStatus capturing;
    CUgraph g;
    CUgraphExec x;
    CUgraphNode n;
    CUgraphNodeType type;
    CUdeviceptr at;
    const char *name;
    size_t size, other;
    unsigned count;
    unsigned long long id;
    uint64_t number;
    int i, j;
    float ms;
    char text[64] = "";
    OK(cu->cuMemAlloc_v2(&at, 64));
    const error_row_t rows[] = {
        /* streams */
        ROW(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(t->stream)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuStreamQuery(t->stream)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy_v2(t->stream)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuStreamGetPriority(t->stream, &i)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuStreamGetFlags(t->stream, &count)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuStreamGetId(t->stream, &id)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuStreamGetCtx(t->stream, &c)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuStreamGetDevice(t->stream, &device)),
        ROW(CUDA_ERROR_INVALID_HANDLE,
            cuStreamGetAttribute(t->stream, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value)),
        ROW(CUDA_ERROR_INVALID_HANDLE,
            cuStreamSetAttribute(t->stream, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuStreamCopyAttributes(NULL, t->stream)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuStreamWaitEvent(t->stream, t->event, 0)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuStreamWaitEvent(NULL, t->event, 0)),
        ROW(CUDA_ERROR_INVALID_HANDLE,
            cuStreamAddCallback(t->stream, (CUstreamCallback)1, NULL, 0)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuLaunchHostFunc(t->stream, (CUhostFn)1, NULL)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuStreamWaitValue32_v2(t->stream, at, 0, 0)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuStreamWriteValue32_v2(t->stream, at, 0, 0)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuStreamIsCapturing(t->stream, &capturing)),
        ROW(CUDA_ERROR_INVALID_HANDLE,
            cuStreamBeginCapture_v2(t->stream, CU_STREAM_CAPTURE_MODE_GLOBAL)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuStreamEndCapture(t->stream, &g)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuMemcpyHtoDAsync_v2(at, text, 4, t->stream)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuMemcpyDtoHAsync_v2(text, at, 4, t->stream)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuMemcpyDtoDAsync_v2(at, at, 4, t->stream)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuMemcpyAsync(at, at, 4, t->stream)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuMemsetD8Async(at, 0, 4, t->stream)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuMemsetD16Async(at, 0, 4, t->stream)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuMemsetD32Async(at, 0, 4, t->stream)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuMemsetD2D32Async(at, 16, 0, 4, 4, t->stream)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuMemAllocAsync(&at, 4, t->stream)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuMemFreeAsync(at, t->stream)),
        /* events */
        ROW(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(t->event, NULL)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(NULL, NULL)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuEventRecordWithFlags(t->event, NULL, 0)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(t->event)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(NULL)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuEventSynchronize(t->event)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuEventDestroy_v2(t->event)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime_v2(&ms, t->event, t->event)),
        /* modules and functions */
        ROW(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(t->module)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(NULL)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunction(&f, t->module, "nothing")),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunctionCount(&count, t->module)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuModuleEnumerateFunctions(&f, 1, t->module)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuModuleGetGlobal_v2(&at, &size, t->module, "total")),
        ROW(CUDA_ERROR_INVALID_HANDLE,
            cuFuncGetAttribute(&i, CU_FUNC_ATTRIBUTE_NUM_REGS, t->function)),
        ROW(CUDA_ERROR_INVALID_HANDLE,
            cuFuncSetAttribute(t->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuFuncSetCacheConfig(t->function, CU_FUNC_CACHE_PREFER_L1)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuFuncSetSharedMemConfig(t->function, 0)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuFuncGetModule(&m, t->function)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuFuncGetName(&name, t->function)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuFuncGetParamInfo(t->function, 0, &size, &other)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuFuncIsLoaded(&loaded, t->function)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuFuncLoad(t->function)),
        ROW(CUDA_ERROR_INVALID_HANDLE,
            cuLaunchKernel(t->function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL)),
        ROW(CUDA_ERROR_INVALID_HANDLE,
            cuLaunchCooperativeKernel(t->function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL)),
        ROW(CUDA_ERROR_INVALID_HANDLE,
            cuOccupancyMaxActiveBlocksPerMultiprocessor(&i, t->function, 32, 0)),
        ROW(CUDA_ERROR_INVALID_HANDLE,
            cuOccupancyMaxPotentialBlockSize(&i, &j, t->function, NULL, 0, 0)),
        ROW(CUDA_ERROR_INVALID_HANDLE,
            cuOccupancyAvailableDynamicSMemPerBlock(&size, t->function, 1, 32)),
        /* libraries and kernels */
        ROW(CUDA_ERROR_INVALID_HANDLE, cuLibraryUnload(t->library)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuLibraryGetKernel(&k, t->library, "nothing")),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuLibraryGetKernelCount(&count, t->library)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuLibraryEnumerateKernels(&k, 1, t->library)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuLibraryGetModule(&m, t->library)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuLibraryGetGlobal(&at, &size, t->library, "total")),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuKernelGetFunction(&f, t->kernel)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuKernelGetLibrary(&l, t->kernel)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuKernelGetName(&name, t->kernel)),
        ROW(CUDA_ERROR_INVALID_HANDLE,
            cuKernelGetAttribute(&i, CU_FUNC_ATTRIBUTE_NUM_REGS, t->kernel, 0)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuKernelGetParamInfo(t->kernel, 0, &size, &other)),
        ROW(CUDA_ERROR_INVALID_HANDLE,
            cuKernelSetCacheConfig(t->kernel, CU_FUNC_CACHE_PREFER_L1, 0)),
        /* arrays */
        ROW(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(t->array)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuArrayGetDescriptor_v2(&flat, t->array)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuArray3DGetDescriptor_v2(&deep, t->array)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuMemcpyAtoH_v2(text, t->array, 0, 4)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuMemcpyHtoA_v2(t->array, 0, text, 4)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuMemcpyAtoD_v2(at, t->array, 0, 4)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuMemcpyDtoA_v2(t->array, 0, at, 4)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuMemcpyAtoA_v2(t->array, 0, t->array, 0, 4)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuMipmappedArrayDestroy(t->mipmap)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuMipmappedArrayGetLevel(&level, t->mipmap, 0)),
        /* graphs, pools and user objects */
        ROW(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(t->graph)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuGraphClone(&g, t->graph)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuGraphAddEmptyNode(&n, t->graph, NULL, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuGraphGetNodes(t->graph, &n, &size)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&x, t->graph, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuGraphNodeGetType(t->node, &type)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuGraphDestroyNode(t->node)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuGraphLaunch(t->exec, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuGraphUpload(t->exec, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuGraphExecDestroy(t->exec)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuGraphExecGetFlags(t->exec, &number)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(t->pool)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemPoolTrimTo(t->pool, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuMemPoolGetAttribute(t->pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &number)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemAllocFromPoolAsync(&at, 64, t->pool, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuDeviceSetMemPool(0, t->pool)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuUserObjectRelease(t->user, 1)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuUserObjectRetain(t->user, 1)),
    };
    CHECK(rows);
    OK(cu->cuMemFree_v2(at));
}

static void things_that_are_destroyed(void **state)
{
    things_t things;
    (void)state;
    make_things(&things);
    end_things(&things);
    check_gone(&things);
    OK(cu->cuCtxDestroy_v2(things.context));
}

/* Their context is gone: so are they. */
static void things_of_a_context_that_is_destroyed(void **state)
{
    things_t t;
    CUdeviceptr at;
    CUfunction f;
    make_things(&t);
    OK(cu->cuMemAlloc_v2(&at, 64));
    OK(cu->cuCtxDestroy_v2(t.context));
    OK(cu->cuCtxSetCurrent(*state));
    const error_row_t rows[] = {
        ROW(CUDA_ERROR_INVALID_HANDLE, cuStreamSynchronize(t.stream)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy_v2(t.stream)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuEventQuery(t.event)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuEventDestroy_v2(t.event)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuModuleGetFunction(&f, t.module, "nothing")),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(t.module)),
        ROW(CUDA_ERROR_INVALID_HANDLE,
            cuLaunchKernel(t.function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuArrayDestroy(t.array)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuMipmappedArrayDestroy(t.mipmap)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemFree_v2(at)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuMemsetD8_v2(at, 0, 4)),
        ROW(CUDA_SUCCESS, cuLibraryUnload(t.library)), /* belongs to no context */
        ROW(CUDA_SUCCESS, cuGraphExecDestroy(t.exec)),
        ROW(CUDA_SUCCESS, cuGraphDestroy(t.graph)),
        ROW(CUDA_SUCCESS, cuMemPoolDestroy(t.pool)),
        ROW(CUDA_SUCCESS, cuUserObjectRelease(t.user, 1)),
    };
    CHECK(rows);
}

/* Two contexts: what is of one is not for streams of the other. */
static void things_of_another_context(void **state)
{
    things_t mine, other;
    float ms;
    (void)state;
    make_things(&other);
    make_things(&mine);
    OK(cu->cuEventRecord(mine.event, mine.stream));
    const error_row_t rows[] = {
        ROW(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(other.event, mine.stream)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuEventRecord(mine.event, other.stream)),
        ROW(CUDA_ERROR_INVALID_HANDLE,
            cuLaunchKernel(other.function, 1, 1, 1, 1, 1, 1, 0, mine.stream, NULL, NULL)),
        ROW(CUDA_ERROR_INVALID_HANDLE,
            cuLaunchKernel(mine.function, 1, 1, 1, 1, 1, 1, 0, other.stream, NULL, NULL)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuEventElapsedTime_v2(&ms, other.event, mine.event)),
        ROW(CUDA_SUCCESS,
            cuStreamWaitEvent(other.stream, mine.event, 0)), /* this is what they are for */
        ROW(CUDA_SUCCESS, cuStreamSynchronize(other.stream)),
        ROW(CUDA_SUCCESS, cuEventSynchronize(mine.event)),
    };
    CHECK(rows);
    end_things(&mine);
    OK(cu->cuCtxDestroy_v2(mine.context));
    OK(cu->cuCtxSetCurrent(other.context));
    end_things(&other);
    OK(cu->cuCtxDestroy_v2(other.context));
}

static void launches(void **state)
{
    things_t t;
    void *params[8] = {NULL}, *extra[] = {CU_LAUNCH_PARAM_END};
    CUlaunchConfig config = {1, 1, 1, 1, 1, 1, 0, NULL, NULL, 1};
    CUlaunchAttribute two = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                             .value.clusterDim = {2, 1, 1}};
    CUlaunchAttribute none = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                              .value.clusterDim = {0, 1, 1}};
    CUlaunchConfig twos = {2, 1, 1, 1, 1, 1, 0, NULL, &two, 1},
                   nones = {2, 1, 1, 1, 1, 1, 0, NULL, &none, 1};
    CUlaunchConfig plain = {2, 1, 1, 1, 1, 1, 0, NULL, NULL, 0},
                   flat = {2, 1, 1, 1, 0, 1, 0, NULL, NULL, 0};
    CUlaunchConfig vast = {2, 1, 1, UINT32_MAX, UINT32_MAX, UINT32_MAX, 0, NULL, NULL, 0};
    CUdeviceptr at;
    CUfunction f;
    CUmodule m;
    size_t size;
    int i, j;
    (void)state;
    make_things(&t);
#define LAUNCH(gx, gy, gz, bx, by, bz, shared)                                                     \
    cuLaunchKernel(t.function, gx, gy, gz, bx, by, bz, shared, t.stream, NULL, NULL)
    const error_row_t rows[] = {
        ROW(CUDA_ERROR_INVALID_VALUE, LAUNCH(0, 1, 1, 1, 1, 1, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, LAUNCH(1, 0, 1, 1, 1, 1, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, LAUNCH(1, 1, 0, 1, 1, 1, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, LAUNCH(1, 1, 1, 0, 1, 1, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, LAUNCH(1, 1, 1, 1, 0, 1, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, LAUNCH(1, 1, 1, 1, 1, 0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, LAUNCH(0x80000000u, 1, 1, 1, 1, 1, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, LAUNCH(1, 65536, 1, 1, 1, 1, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, LAUNCH(1, 1, 65536, 1, 1, 1, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, LAUNCH(1, 1, 1, 1025, 1, 1, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, LAUNCH(1, 1, 1, 1, 1025, 1, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, LAUNCH(1, 1, 1, 1, 1, 65, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, LAUNCH(1, 1, 1, 64, 64, 1, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, LAUNCH(1, 1, 1, UINT32_MAX, UINT32_MAX, 1, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE, LAUNCH(1, 1, 1, 1, 1, 1, 49153)),
        ROW(CUDA_ERROR_INVALID_VALUE, LAUNCH(1, 1, 1, 1, 1, 1, UINT32_MAX)),
        ROW(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
            cuLaunchKernel(t.bounded, 1, 1, 1, 65, 1, 1, 0, t.stream, NULL, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuLaunchKernel(t.gather, 1, 1, 1, 1, 1, 1, 0, t.stream, NULL, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuLaunchKernel(t.gather, 1, 1, 1, 1, 1, 1, 0, t.stream, params, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuLaunchKernel(t.gather, 1, 1, 1, 1, 1, 1, 0, t.stream, params, extra)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuLaunchKernel(t.gather, 1, 1, 1, 1, 1, 1, 0, t.stream, NULL, extra)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx(NULL, t.function, NULL, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx(&config, t.function, NULL, NULL)),
        ROW(CUDA_ERROR_INVALID_CLUSTER_SIZE, cuLaunchKernelEx(&twos, t.function, NULL, NULL)),
        ROW(CUDA_ERROR_INVALID_CLUSTER_SIZE, cuLaunchKernelEx(&nones, t.function, NULL, NULL)),
        ROW(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
            cuLaunchCooperativeKernel(t.function, 100000, 1, 1, 1, 1, 1, 0, t.stream, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuFuncGetAttribute(NULL, 0, t.function)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuFuncGetAttribute(&i, 99, t.function)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuFuncSetAttribute(t.function, CU_FUNC_ATTRIBUTE_NUM_REGS, 1)), /* read only */
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuFuncSetAttribute(t.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                               1 << 20)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuFuncSetAttribute(t.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -2)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuFuncSetCacheConfig(t.function, (CUfunc_cache)9)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuFuncGetModule(NULL, t.function)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuFuncGetName(NULL, t.function)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(t.gather, 99, &size, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuFuncGetParamInfo(t.gather, 0, NULL, &size)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuOccupancyMaxActiveBlocksPerMultiprocessor(NULL, t.function, 32, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuOccupancyMaxActiveBlocksPerMultiprocessor(&i, t.function, 0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuOccupancyMaxActiveBlocksPerMultiprocessor(&i, t.function, -1, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&i, t.function, 32, 0, 8)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuOccupancyMaxPotentialBlockSize(NULL, &j, t.function, NULL, 0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuOccupancyMaxPotentialBlockSize(&i, NULL, t.function, NULL, 0, 0)),
        ROW(CUDA_ERROR_INVALID_VALUE,
            cuOccupancyAvailableDynamicSMemPerBlock(NULL, t.function, 1, 32)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveClusters(NULL, t.function, &plain)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveClusters(&i, t.function, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveClusters(&i, t.function, &config)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveClusters(&i, t.function, &flat)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxActiveClusters(&i, t.function, &vast)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuOccupancyMaxActiveClusters(&i, NULL, &plain)),
        ROW(CUDA_ERROR_INVALID_CLUSTER_SIZE,
            cuOccupancyMaxActiveClusters(&i, t.function, &plain)), /* none is said */
        ROW(CUDA_ERROR_INVALID_CLUSTER_SIZE, cuOccupancyMaxActiveClusters(&i, t.function, &twos)),
        ROW(CUDA_ERROR_INVALID_CLUSTER_SIZE, cuOccupancyMaxActiveClusters(&i, t.function, &nones)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxPotentialClusterSize(NULL, t.function, &plain)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxPotentialClusterSize(&i, t.function, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxPotentialClusterSize(&i, t.function, &flat)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuOccupancyMaxPotentialClusterSize(&i, t.function, &vast)),
        ROW(CUDA_ERROR_INVALID_HANDLE, cuOccupancyMaxPotentialClusterSize(&i, NULL, &plain)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuModuleGetFunction(NULL, t.module, "nothing")),
        ROW(CUDA_ERROR_INVALID_VALUE, cuModuleGetFunction(&f, t.module, NULL)),
        ROW(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&f, t.module, "")),
        ROW(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&f, t.module, "missing")),
        ROW(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&f, t.module, "total")), /* a variable */
        ROW(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal_v2(&at, &size, t.module, "missing")),
        ROW(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal_v2(&at, &size, t.module, "nothing")),
        ROW(CUDA_ERROR_INVALID_VALUE, cuModuleGetGlobal_v2(&at, &size, t.module, NULL)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuModuleLoad(NULL, "/nonexistent")),
        ROW(CUDA_ERROR_INVALID_VALUE, cuModuleLoad(&m, NULL)),
        ROW(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&m, "/nonexistent")),
        ROW(CUDA_ERROR_INVALID_VALUE, cuModuleLoadData(NULL, device_kernels)),
        ROW(CUDA_ERROR_INVALID_VALUE, cuModuleLoadData(&m, NULL)),
        ROW(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&m, ".version 7.0\n.target sm_70\nwhat?\n")),
        ROW(CUDA_ERROR_INVALID_PTX, cuModuleLoadData(&m, "no image at all")),
        ROW(CUDA_ERROR_INVALID_VALUE, cuLibraryGetKernel(NULL, t.library, "nothing")),
        ROW(CUDA_ERROR_INVALID_VALUE, cuLibraryGetKernel((CUkernel *)&f, t.library, NULL)),
        ROW(CUDA_ERROR_NOT_FOUND, cuLibraryGetKernel((CUkernel *)&f, t.library, "missing")),
        ROW(CUDA_ERROR_NOT_FOUND, cuLibraryGetGlobal(&at, &size, t.library, "missing")),
        ROW(CUDA_ERROR_NOT_FOUND, cuLibraryGetUnifiedFunction((void **)&f, t.library, "nothing")),
        ROW(CUDA_ERROR_FILE_NOT_FOUND,
            cuLibraryLoadFromFile((CUlibrary *)&m, "/nonexistent", NULL, NULL, 0, NULL, NULL, 0)),
    };
    CHECK(rows);
    OK(cu->cuStreamSynchronize(t.stream)); /* nothing of that has stuck */
    end_things(&t);
    OK(cu->cuCtxDestroy_v2(t.context));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(things_that_are_destroyed),
        IN_CONTEXT(things_of_a_context_that_is_destroyed),
        IN_CONTEXT(things_of_another_context),
        IN_CONTEXT(launches),
    };
    setenv("GABLE_LOG", "error", 1);
    return cmocka_run_group_tests(tests, device_setup, NULL);
}
