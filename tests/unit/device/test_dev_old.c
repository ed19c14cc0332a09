/* Calls in the form that older versions of CUDA had: programs built with those get them by name, and from
 * cuGetProcAddress when they ask for that version. */
#include "device_kernels.h"

#include <dlfcn.h>

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
    void *library = dlopen(GABLE_BUILD_DIR "/lib/gable/cpu/libcuda.so.1", RTLD_NOW);
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
    };
    return cmocka_run_group_tests(tests, device_setup, NULL);
}
