/* Calls in the form that older versions of CUDA had: programs built with those get them by name, and from
 * cuGetProcAddress when they ask for that version. */
#include "device_kernels.h"

#include <dlfcn.h>
#include <sys/mman.h>

enum { N = 64 };

static void versions_have_their_own_form(void **state)
{
    static const struct {
        const char *name;
        int old, new;
        const char *old_symbol, *new_symbol;
    } calls[] = {
        {"cuMemAdvise", 12000, 13000, "cuMemAdvise", "cuMemAdvise_v2"},
        {"cuMemPrefetchAsync", 12010, 13000, "cuMemPrefetchAsync", "cuMemPrefetchAsync_v2"},
        {"cuGraphAddKernelNode", 11080, 12000, "cuGraphAddKernelNode", "cuGraphAddKernelNode_v2"},
        {"cuGraphAddNode", 12020, 12030, "cuGraphAddNode", "cuGraphAddNode_v2"},
        {"cuGraphExecUpdate", 11080, 12000, "cuGraphExecUpdate", "cuGraphExecUpdate_v2"},
        {"cuStreamBeginCapture", 10000, 10010, "cuStreamBeginCapture", "cuStreamBeginCapture_v2"},
        {"cuStreamGetCaptureInfo", 11030, 12030, "cuStreamGetCaptureInfo_v2",
         "cuStreamGetCaptureInfo_v3"},
    };
    const char *path = getenv("GABLE_TEST_DRIVER");
    void *library = dlopen(path ? path : GABLE_BUILD_DIR "/lib/gable/cpu/libcuda.so.1", RTLD_NOW);
    (void)state;
    assert_non_null(library);
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        void *old, *new;
        OK(cu->cuGetProcAddress_v2(calls[i].name, &old, calls[i].old, 0, NULL));
        OK(cu->cuGetProcAddress_v2(calls[i].name, &new, calls[i].new, 0, NULL));
        assert_ptr_equal(old, dlsym(library, calls[i].old_symbol));
        assert_ptr_equal(new, dlsym(library, calls[i].new_symbol));
        assert_ptr_not_equal(old, new);
    }
    dlclose(library);
}

static void managed_memory(void **state)
{
    CUdeviceptr at, plain;
    int location = 99;
    (void)state;
    OK(cu->cuMemAllocManaged(&at, 4096, CU_MEM_ATTACH_GLOBAL));
    OK(cu->cuMemAlloc_v2(&plain, 64));
    OK(cu->cuMemAdvise(at, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, -1));
    OK(cu->cuMemRangeGetAttribute(&location, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at,
                                  4096));
    assert_int_equal(location, -1);
    OK(cu->cuMemAdvise(at, 4096, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0));
    OK(cu->cuMemRangeGetAttribute(&location, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, at,
                                  4096));
    assert_int_equal(location, 0);
    FAILS(CUDA_ERROR_INVALID_DEVICE, cu->cuMemAdvise(at, 4096, CU_MEM_ADVISE_SET_ACCESSED_BY, 99));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemAdvise(plain, 64, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
    OK(cu->cuMemPrefetchAsync(at, 4096, -1, NULL));
    OK(cu->cuMemRangeGetAttribute(&location, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, at,
                                  4096));
    assert_int_equal(location, -1);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemPrefetchAsync(plain, 64, 0, NULL));
    OK(cu->cuMemFree_v2(at));
    OK(cu->cuMemFree_v2(plain));
}

static void batches(void **state)
{
    CUdeviceptr at, from;
    CUstream stream;
    uint32_t words[4] = {1, 2, 3, 4}, got[4];
    size_t sizes[2] = {8, 8}, index = 0, failed = 7;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    (void)state;
    OK(cu->cuStreamCreate(&stream, 0));
    OK(cu->cuMemAlloc_v2(&from, sizeof(words)));
    OK(cu->cuMemAlloc_v2(&at, sizeof(words)));
    OK(cu->cuMemcpyHtoD_v2(from, words, sizeof(words)));
    CUdeviceptr dsts[2] = {at + 8, at}, srcs[2] = {from, from + 8};
    OK(cu->cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attributes, &index, 1, &failed, stream));
    OK(cu->cuStreamSynchronize(stream));
    OK(cu->cuMemcpyDtoH_v2(got, at, sizeof(got)));
    assert_int_equal(got[0], 3);
    assert_int_equal(got[3], 2);
    assert_int_equal(failed, 7);
    sizes[1] = 0;
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuMemcpyBatchAsync(dsts, srcs, sizes, 2, &attributes, &index, 1, &failed, stream));
    assert_true(failed == SIZE_MAX);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy3DBatchAsync(0, NULL, &failed, 0, stream));
    OK(cu->cuStreamDestroy_v2(stream));
    OK(cu->cuMemFree_v2(from));
    OK(cu->cuMemFree_v2(at));
}

static void graphs(void **state)
{
    CUfunction count = kernel("count_up");
    CUdeviceptr at;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode first, second, list[2], from[2], to[2], bad;
    CUgraphNodeParams empty = {.type = CU_GRAPH_NODE_TYPE_EMPTY};
    CUgraphExecUpdateResult outcome;
    uint32_t bias = 4, n = N, host[N];
    size_t found = 2;
    (void)state;
    OK(cu->cuMemAlloc_v2(&at, sizeof(host)));
    void *params[] = {&at, &bias, &n};
    CUDA_KERNEL_NODE_PARAMS_v1 k = {count, 1, 1, 1, N, 1, 1, 0, params, NULL}, got;
    OK(cu->cuGraphCreate(&graph, 0));
    OK(cu->cuGraphAddNode(&first, graph, NULL, 0, &empty));
    OK(cu->cuGraphAddKernelNode(&second, graph, NULL, 0, &k));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphAddKernelNode(&second, graph, NULL, 0, NULL));
    OK(cu->cuGraphAddDependencies(graph, &first, &second, 1));
    OK(cu->cuGraphNodeGetDependencies(second, list, &found));
    assert_int_equal(found, 1);
    assert_ptr_equal(list[0], first);
    found = 2;
    OK(cu->cuGraphNodeGetDependentNodes(first, list, &found));
    assert_int_equal(found, 1);
    assert_ptr_equal(list[0], second);
    found = 2;
    OK(cu->cuGraphGetEdges(graph, from, to, &found));
    assert_int_equal(found, 1);
    assert_ptr_equal(to[0], second);
    OK(cu->cuGraphKernelNodeGetParams(second, &got));
    assert_int_equal(got.blockDimX, N);
    assert_ptr_equal(got.func, count);
    bias = 5;
    OK(cu->cuGraphKernelNodeSetParams(second, &k));
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    bias = 6;
    OK(cu->cuGraphExecKernelNodeSetParams(exec, second, &k));
    OK(cu->cuGraphLaunch(exec, NULL));
    OK(cu->cuMemcpyDtoH_v2(host, at, sizeof(host)));
    assert_int_equal(host[3], 9);
    OK(cu->cuGraphExecUpdate(exec, graph, &bad, &outcome));
    assert_int_equal(outcome, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    OK(cu->cuGraphLaunch(exec, NULL));
    OK(cu->cuMemcpyDtoH_v2(host, at, sizeof(host)));
    assert_int_equal(host[3], 8); /* as in the graph */
    OK(cu->cuGraphRemoveDependencies(graph, &first, &second, 1));
    FAILS(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cu->cuGraphExecUpdate(exec, graph, &bad, &outcome));
    assert_int_equal(outcome, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
    OK(cu->cuMemFree_v2(at));
}

/* ---- CUDA 2: addresses and sizes of 32 bits ---- */

/* Device memory lies where they do not reach: nothing may seem to work, and nothing may stay behind. */
static void addresses_that_do_not_fit(void **state)
{
    CUdeviceptr wide;
    CUdeviceptr_v1 at = 77;
    unsigned pitch = 77, bytes = 77;
    size_t before, after, total;
    CUmodule module;
    char room[16] = "";
    (void)state;
    OK(cu->cuMemAlloc_v2(&wide, 64));
    assert_true(wide > UINT32_MAX);
    OK(cu->cuModuleLoadData(&module, device_kernels));
    OK(cu->cuMemGetInfo_v2(&before, &total));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cu->cuMemAlloc(&at, 1 << 20));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cu->cuMemAllocPitch(&at, &pitch, 100, 100, 4));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cu->cuModuleGetGlobal(&at, &bytes, module, "total"));
    assert_int_equal(at, 77);
    assert_int_equal(pitch, 77);
    assert_int_equal(bytes, 77);
    OK(cu->cuModuleGetGlobal(NULL, &bytes, module, "total"));
    assert_int_equal(bytes, 4);
    OK(cu->cuMemGetInfo_v2(&after, &total));
    assert_int_equal(after, before);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemAlloc(&at, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemAlloc(NULL, 64));
    FAILS(CUDA_ERROR_OUT_OF_MEMORY, cu->cuMemAlloc(&at, UINT32_MAX));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemAllocPitch(&at, NULL, 100, 100, 4));
    FAILS(CUDA_ERROR_NOT_FOUND, cu->cuModuleGetGlobal(&at, &bytes, module, "missing"));
    /* The lower half of a wide address is no address. */
    at = (CUdeviceptr_v1)wide;
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFree(at));
    OK(cu->cuMemFree(0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyHtoD(at, room, 16));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyHtoDAsync(at, room, 16, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyDtoH(room, at, 16));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyDtoHAsync(room, at, 16, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyDtoD(at, at, 16));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyDtoDAsync(at, at, 16, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemsetD8(at, 1, 16));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemsetD16(at, 1, 8));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemsetD32(at, 1, 4));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemsetD2D8(at, 8, 1, 8, 2));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemsetD2D16(at, 8, 1, 4, 2));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemsetD2D32(at, 8, 1, 2, 2));
    FAILS(CUDA_ERROR_NOT_FOUND, cu->cuMemGetAddressRange(&at, &bytes, at));
    OK(cu->cuModuleUnload(module));
    OK(cu->cuMemFree_v2(wide));
}

static void amounts_are_told_as_far_as_they_fit(void **state)
{
    unsigned free, total, all;
    size_t wide_free, wide_total;
    (void)state;
    OK(cu->cuMemGetInfo_v2(&wide_free, &wide_total));
    OK(cu->cuMemGetInfo(&free, &total));
    OK(cu->cuDeviceTotalMem(&all, 0));
    assert_int_equal(total, wide_total < UINT32_MAX ? wide_total : UINT32_MAX);
    assert_int_equal(free, wide_free < UINT32_MAX ? wide_free : UINT32_MAX);
    assert_int_equal(all, total);
}

/* Memory of the program that lies low has a device address that fits. */
static void low_memory(void **state)
{
    enum { BYTES = 1 << 16, HALF = BYTES / 2 };
    uint8_t *low =
        mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    CUdeviceptr_v1 at, base;
    unsigned size;
    uint8_t host[64];
    (void)state;
    if (low == MAP_FAILED)
        skip(); /* a sanitizer keeps that part of the address space */
    OK(cu->cuMemHostRegister_v2(low, BYTES, CU_MEMHOSTREGISTER_DEVICEMAP));
    if (device_is_remote()) { /* there it has another address, of the device */
        FAILS(CUDA_ERROR_INVALID_CONTEXT, cu->cuMemHostGetDevicePointer(&at, low, 0));
        OK(cu->cuMemHostUnregister(low));
        munmap(low, BYTES);
        return;
    }
    OK(cu->cuMemHostGetDevicePointer(&at, low, 0));
    assert_int_equal(at, (uintptr_t)low);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemHostGetDevicePointer(NULL, low, 0));
    for (unsigned i = 0; i < sizeof(host); i++)
        host[i] = (uint8_t)(i + 1);
    OK(cu->cuMemcpyHtoD(at, host, sizeof(host)));
    OK(cu->cuMemcpyDtoD(at + HALF, at, sizeof(host)));
    OK(cu->cuCtxSynchronize());
    assert_memory_equal(low + HALF, host, sizeof(host));
    OK(cu->cuMemsetD8(at, 0x11, 4));
    OK(cu->cuMemsetD16(at + 4, 0x2222, 2));
    OK(cu->cuMemsetD32(at + 8, 0x33333333, 1));
    OK(cu->cuMemsetD2D8(at + HALF, 16, 0x44, 2, 3));
    OK(cu->cuMemcpyDtoH(host, at, 16));
    static const uint8_t filled[12] = {0x11, 0x11, 0x11, 0x11, 0x22, 0x22,
                                       0x22, 0x22, 0x33, 0x33, 0x33, 0x33};
    assert_memory_equal(host, filled, sizeof(filled));
    assert_int_equal(host[12], 13);
    OK(cu->cuMemcpyDtoHAsync(host, at + HALF, sizeof(host), NULL));
    OK(cu->cuCtxSynchronize());
    for (unsigned i = 0; i < sizeof(host); i++)
        assert_int_equal(host[i], i % 16 < 2 && i < 48 ? 0x44 : i + 1);
    OK(cu->cuMemHostUnregister(low));
    FAILS(CUDA_ERROR_NOT_FOUND, cu->cuMemGetAddressRange(&base, &size, at));
    munmap(low, BYTES);
}

static void host_memory(void **state)
{
    void *host;
    CUdeviceptr_v1 at = 7;
    (void)state;
    OK(cu->cuMemAllocHost(&host, 4096));
    memset(host, 1, 4096);
    FAILS((uintptr_t)host > UINT32_MAX ? CUDA_ERROR_INVALID_CONTEXT : CUDA_SUCCESS,
          cu->cuMemHostGetDevicePointer(&at, host, 0));
    OK(cu->cuMemFreeHost(host));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemAllocHost(NULL, 4096));
}

static void boxes_and_arrays(void **state)
{
    enum { W = 16, H = 8, D = 4 };
    uint8_t from[W * H * D], to[W * H * D];
    CUDA_ARRAY_DESCRIPTOR_v1 flat = {W, H, CU_AD_FORMAT_UNSIGNED_INT8, 1}, flat_got = {0};
    CUDA_ARRAY3D_DESCRIPTOR_v1 deep = {W, H, D, CU_AD_FORMAT_UNSIGNED_INT8, 1, 0}, deep_got = {0};
    CUDA_ARRAY_DESCRIPTOR_v1 line = {W * H, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1};
    CUarray plane, cube, row, other;
    (void)state;
    for (unsigned i = 0; i < sizeof(from); i++)
        from[i] = (uint8_t)(i * 7 + 1);
    OK(cu->cuArrayCreate(&plane, &flat));
    OK(cu->cuArray3DCreate(&cube, &deep));
    OK(cu->cuArrayCreate(&row, &line));
    OK(cu->cuArrayCreate(&other, &line));
    OK(cu->cuArrayGetDescriptor(&flat_got, plane));
    assert_memory_equal(&flat_got, &flat, sizeof(flat));
    OK(cu->cuArray3DGetDescriptor(&deep_got, cube));
    assert_memory_equal(&deep_got, &deep, sizeof(deep));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuArrayCreate(&plane, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuArray3DCreate(&cube, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuArrayGetDescriptor(NULL, plane));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuArray3DGetDescriptor(NULL, cube));

    CUDA_MEMCPY2D_v1 in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = from,
                           .srcPitch = W,
                           .srcY = 1,
                           .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                           .dstArray = plane,
                           .dstXInBytes = 4,
                           .WidthInBytes = W - 4,
                           .Height = H - 1};
    CUDA_MEMCPY2D_v1 out = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                            .srcArray = plane,
                            .dstMemoryType = CU_MEMORYTYPE_HOST,
                            .dstHost = to,
                            .dstPitch = W,
                            .WidthInBytes = W,
                            .Height = H};
    OK(cu->cuMemcpy2D(&in));
    memset(to, 0, sizeof(to));
    OK(cu->cuMemcpy2DUnaligned(&out));
    for (int y = 0; y < H - 1; y++)
        assert_memory_equal(to + y * W + 4, from + (y + 1) * W, W - 4);
    memset(to, 0, sizeof(to));
    OK(cu->cuMemcpy2DAsync(&out, NULL));
    OK(cu->cuCtxSynchronize());
    assert_memory_equal(to + 4, from + W, W - 4);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy2D(NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy2DUnaligned(NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy2DAsync(NULL, NULL));

    CUDA_MEMCPY3D_v1 up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                           .srcHost = from,
                           .srcPitch = W,
                           .srcHeight = H,
                           .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                           .dstArray = cube,
                           .WidthInBytes = W,
                           .Height = H,
                           .Depth = D};
    CUDA_MEMCPY3D_v1 down = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                             .srcArray = cube,
                             .srcZ = 1,
                             .dstMemoryType = CU_MEMORYTYPE_HOST,
                             .dstHost = to,
                             .dstPitch = W,
                             .dstHeight = H,
                             .WidthInBytes = W,
                             .Height = H,
                             .Depth = D - 1};
    OK(cu->cuMemcpy3D(&up));
    OK(cu->cuMemcpy3DAsync(&down, NULL));
    OK(cu->cuCtxSynchronize());
    assert_memory_equal(to, from + W * H, W * H * (D - 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy3D(NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy3DAsync(NULL, NULL));

    OK(cu->cuMemcpyHtoA(row, 0, from, W * H));
    OK(cu->cuMemcpyAtoA(other, 8, row, 0, 64));
    memset(to, 0, sizeof(to));
    OK(cu->cuMemcpyAtoH(to, other, 8, 64));
    assert_memory_equal(to, from, 64);
    OK(cu->cuMemcpyHtoAAsync(row, 32, from, 32, NULL));
    OK(cu->cuMemcpyAtoHAsync(to, row, 32, 32, NULL));
    OK(cu->cuCtxSynchronize());
    assert_memory_equal(to, from, 32);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyAtoD(4096, row, 0, 16));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyDtoA(row, 0, 4096, 16));
    OK(cu->cuArrayDestroy(plane));
    OK(cu->cuArrayDestroy(cube));
    OK(cu->cuArrayDestroy(row));
    OK(cu->cuArrayDestroy(other));
}

static void captures(void **state)
{
    CUstream stream;
    CUstreamCaptureStatus status;
    CUgraph graph, same;
    CUgraphNode node;
    const CUgraphNode *tips;
    uint64_t id = 0, again = 0;
    size_t count = 9;
    (void)state;
    OK(cu->cuStreamCreate(&stream, 0));
    OK(cu->cuStreamGetCaptureInfo(stream, &status, &id));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
    OK(cu->cuStreamBeginCapture(stream));
    OK(cu->cuStreamGetCaptureInfo(stream, &status, &id));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cu->cuStreamGetCaptureInfo_v2(stream, &status, &again, &graph, &tips, &count));
    assert_int_equal(id, again);
    assert_int_equal(count, 0);
    OK(cu->cuGraphAddEmptyNode(&node, graph, NULL, 0));
    OK(cu->cuStreamUpdateCaptureDependencies(stream, &node, 1, 1 /* set */));
    OK(cu->cuStreamGetCaptureInfo_v2(stream, &status, NULL, NULL, &tips, &count));
    assert_int_equal(count, 1);
    assert_ptr_equal(tips[0], node);
    OK(cu->cuStreamEndCapture(stream, &same));
    assert_ptr_equal(same, graph);
    OK(cu->cuGraphDestroy(graph));
    OK(cu->cuStreamDestroy_v2(stream));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(versions_have_their_own_form),
        IN_CONTEXT(managed_memory),
        IN_CONTEXT(batches),
        IN_CONTEXT(graphs),
        IN_CONTEXT(captures),
        IN_CONTEXT(addresses_that_do_not_fit),
        IN_CONTEXT(amounts_are_told_as_far_as_they_fit),
        IN_CONTEXT(low_memory),
        IN_CONTEXT(host_memory),
        IN_CONTEXT(boxes_and_arrays),
    };
    return cmocka_run_group_tests(tests, device_setup, NULL);
}
