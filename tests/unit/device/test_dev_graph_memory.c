/* Memory that graphs allocate and free, by hand and captured. */
#include "device_kernels.h"

enum { N = 256 };

static CUDA_MEM_ALLOC_NODE_PARAMS allocation(size_t bytes)
{
    return (CUDA_MEM_ALLOC_NODE_PARAMS){.poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                                      .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}},
                                        .bytesize = bytes};
}

static uint64_t attribute(CUgraphMem_attribute what)
{
    uint64_t value = UINT64_MAX;
    OK(cu->cuDeviceGetGraphMemAttribute(0, what, &value));
    return value;
}

static void add_count_up(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, CUdeviceptr at,
                         uint32_t bias)
{
    uint32_t n = N;
    void *params[] = {&at, &bias, &n};
    CUDA_KERNEL_NODE_PARAMS k = {.func = kernel("count_up"),
                                 .gridDimX = 1,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = N,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = params};
    OK(cu->cuGraphAddKernelNode_v2(node, graph, after, 1, &k));
}

/* allocate -> kernel -> copy out -> free, launched several times at one address */
static void a_graph_has_memory_of_its_own(void **state)
{
    CUDA_MEM_ALLOC_NODE_PARAMS p = allocation(N * 4), got;
    CUgraph graph;
    CUgraphExec exec, second;
    CUgraphNode alloc, run, copy, give;
    CUgraphNodeType type;
    CUdeviceptr out, freed;
    uint32_t host[N];
    (void)state;
    OK(cu->cuMemAlloc_v2(&out, sizeof(host)));
    OK(cu->cuGraphCreate(&graph, 0));
    OK(cu->cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &p));
    assert_true(p.dptr != 0);
    add_count_up(&run, graph, &alloc, p.dptr, 3);
    CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                       .srcDevice = p.dptr,
                       .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                       .dstDevice = out,
                       .WidthInBytes = sizeof(host),
                       .Height = 1,
                       .Depth = 1};
    OK(cu->cuGraphAddMemcpyNode(&copy, graph, &run, 1, &c, NULL));
    OK(cu->cuGraphAddMemFreeNode(&give, graph, &copy, 1, p.dptr));
    OK(cu->cuGraphNodeGetType(alloc, &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    OK(cu->cuGraphMemAllocNodeGetParams(alloc, &got));
    assert_int_equal(got.dptr, p.dptr);
    assert_int_equal(got.bytesize, N * 4);
    OK(cu->cuGraphMemFreeNodeGetParams(give, &freed));
    assert_int_equal(freed, p.dptr);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphMemFreeNodeGetParams(alloc, &freed));
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    FAILS(CUDA_ERROR_NOT_SUPPORTED, cu->cuGraphInstantiateWithFlags(&second, graph, 0));
    for (int i = 0; i < 3; i++) {
        OK(cu->cuMemsetD32_v2(out, 0, N));
        OK(cu->cuGraphLaunch(exec, NULL));
        OK(cu->cuStreamSynchronize(NULL));
        OK(cu->cuMemcpyDtoH_v2(host, out, sizeof(host)));
        for (uint32_t k = 0; k < N; k++)
            assert_int_equal(host[k], k + 3);
    }
    assert_int_equal(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
    assert_int_equal(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), N * 4);
    assert_int_equal(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), N * 4);
    uint64_t one = 1, zero = 0;
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &one));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT, &zero));
    OK(cu->cuDeviceSetGraphMemAttribute(0, CU_GRAPH_MEM_ATTR_USED_MEM_HIGH, &zero));
    assert_int_equal(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_HIGH), 0);
    OK(cu->cuDeviceGraphMemTrim(0));
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphInstantiateWithFlags(&second, graph, 0)); /* the other one is gone */
    OK(cu->cuGraphExecDestroy(second));
    OK(cu->cuGraphDestroy(graph));
    assert_int_equal(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFree_v2(p.dptr));
    OK(cu->cuMemFree_v2(out));
}

/* What a graph leaves allocated can be used after it, even after its end, and is freed by others. */
static void memory_outlives_its_graph(void **state)
{
    CUDA_MEM_ALLOC_NODE_PARAMS p = allocation(N * 4);
    CUgraph graph, freeing;
    CUgraphExec exec, free_exec, automatic;
    CUgraphNode alloc, run, give;
    CUstream stream;
    uint32_t host[N];
    (void)state;
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu->cuGraphCreate(&graph, 0));
    OK(cu->cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &p));
    add_count_up(&run, graph, &alloc, p.dptr, 5);
    OK(cu->cuGraphCreate(&freeing, 0));
    OK(cu->cuGraphAddMemFreeNode(&give, freeing, NULL, 0, p.dptr));
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu->cuGraphInstantiateWithFlags(&free_exec, freeing, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphLaunch(free_exec, stream)); /* not allocated yet */
    OK(cu->cuGraphLaunch(exec, stream));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphLaunch(exec, stream)); /* allocated already */
    OK(cu->cuGraphLaunch(free_exec, stream));
    OK(cu->cuGraphLaunch(exec, stream));
    OK(cu->cuMemFreeAsync(p.dptr, stream));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFreeAsync(p.dptr, stream));
    OK(cu->cuGraphLaunch(exec, stream));
    OK(cu->cuStreamSynchronize(stream));
    OK(cu->cuMemFree_v2(p.dptr));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFree_v2(p.dptr));
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphInstantiateWithFlags(&automatic, graph,
                                       CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH));
    OK(cu->cuGraphLaunch(automatic, stream));
    OK(cu->cuGraphLaunch(automatic, stream)); /* frees by itself first */
    OK(cu->cuGraphExecDestroy(automatic));
    OK(cu->cuGraphExecDestroy(free_exec));
    OK(cu->cuGraphDestroy(freeing));
    OK(cu->cuGraphDestroy(graph));
    OK(cu->cuStreamSynchronize(stream));
    OK(cu->cuMemcpyDtoH_v2(host, p.dptr, sizeof(host)));
    assert_int_equal(host[N - 1], N - 1 + 5);
    assert_int_equal(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), N * 4);
    OK(cu->cuMemFree_v2(p.dptr));
    assert_int_equal(attribute(CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT), 0);
    assert_int_equal(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
    OK(cu->cuStreamDestroy_v2(stream));
}

/* A graph that is destroyed while it runs keeps its memory to the end. */
static void running_graphs_keep_their_memory(void **state)
{
    CUDA_MEM_ALLOC_NODE_PARAMS p = allocation(1 << 20);
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode alloc, run, give;
    CUstream stream;
    CUdeviceptr flag;
    (void)state;
    OK(cu->cuMemAlloc_v2(&flag, 4));
    OK(cu->cuMemsetD32_v2(flag, 0, 1));
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu->cuGraphCreate(&graph, 0));
    OK(cu->cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &p));
    add_count_up(&run, graph, &alloc, p.dptr, 5);
    OK(cu->cuGraphAddMemFreeNode(&give, graph, &run, 1, p.dptr));
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu->cuStreamWaitValue32_v2(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cu->cuGraphLaunch(exec, stream));
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
    OK(cu->cuMemsetD32_v2(flag, 1, 1));
    OK(cu->cuStreamSynchronize(stream)); /* the kernel has written to it: no error 700 */
    assert_int_equal(attribute(CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT), 0);
    OK(cu->cuStreamDestroy_v2(stream));
    OK(cu->cuMemFree_v2(flag));
}

static void captured_allocations_are_nodes(void **state)
{
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode nodes[4];
    CUgraphNodeType types[3];
    CUdeviceptr at, outside, out;
    CUfunction count = kernel("count_up");
    uint32_t bias = 9, n = N, host[N];
    size_t nodes_count = 4;
    (void)state;
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu->cuMemAlloc_v2(&out, sizeof(host)));
    OK(cu->cuMemAllocAsync(&outside, 64, stream));
    OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cu->cuMemAllocAsync(&at, N * 4, stream));
    void *params[] = {&at, &bias, &n};
    OK(cu->cuLaunchKernel(count, 1, 1, 1, N, 1, 1, 0, stream, params, NULL));
    OK(cu->cuMemcpyDtoDAsync_v2(out, at, sizeof(host), stream));
    OK(cu->cuMemFreeAsync(at, stream));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFreeAsync(outside, stream)); /* is of no graph */
    OK(cu->cuStreamEndCapture(stream, &graph));
    OK(cu->cuGraphGetNodes(graph, nodes, &nodes_count));
    assert_int_equal(nodes_count, 4);
    for (int i = 0; i < 3; i++)
        OK(cu->cuGraphNodeGetType(nodes[i == 2 ? 3 : i], &types[i]));
    assert_int_equal(types[0], CU_GRAPH_NODE_TYPE_MEM_ALLOC);
    assert_int_equal(types[1], CU_GRAPH_NODE_TYPE_KERNEL);
    assert_int_equal(types[2], CU_GRAPH_NODE_TYPE_MEM_FREE);
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu->cuGraphLaunch(exec, stream));
    OK(cu->cuGraphLaunch(exec, stream));
    OK(cu->cuStreamSynchronize(stream));
    OK(cu->cuMemcpyDtoH_v2(host, out, sizeof(host)));
    assert_int_equal(host[7], 16);
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
    OK(cu->cuMemFreeAsync(outside, stream));
    OK(cu->cuStreamDestroy_v2(stream));
    OK(cu->cuMemFree_v2(out));
}

static void graphs_with_memory_stay_as_they_are(void **state)
{
    CUDA_MEM_ALLOC_NODE_PARAMS p = allocation(N * 4), bad;
    CUgraphNodeParams any = {.type = CU_GRAPH_NODE_TYPE_MEM_ALLOC};
    CUgraph graph, clone, parent;
    CUgraphNode alloc, give, again, child, other;
    CUdeviceptr plain;
    (void)state;
    OK(cu->cuMemAlloc_v2(&plain, 64));
    OK(cu->cuGraphCreate(&graph, 0));
    OK(cu->cuGraphCreate(&parent, 0));
    OK(cu->cuGraphAddMemAllocNode(&alloc, graph, NULL, 0, &p));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphAddMemFreeNode(&give, graph, &alloc, 1, plain));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphAddMemFreeNode(&give, graph, &alloc, 1, p.dptr + 4));
    OK(cu->cuGraphAddMemFreeNode(&give, graph, &alloc, 1, p.dptr));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphAddMemFreeNode(&again, graph, &give, 1, p.dptr));
    FAILS(CUDA_ERROR_NOT_SUPPORTED, cu->cuGraphClone(&clone, graph));
    FAILS(CUDA_ERROR_NOT_SUPPORTED, cu->cuGraphAddChildGraphNode(&child, parent, NULL, 0, graph));
    FAILS(CUDA_ERROR_NOT_SUPPORTED, cu->cuGraphDestroyNode(give));
    FAILS(CUDA_ERROR_NOT_SUPPORTED,
          cu->cuGraphRemoveDependencies_v2(graph, &alloc, &give, NULL, 1));
    bad = allocation(0);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphAddMemAllocNode(&other, graph, NULL, 0, &bad));
    bad = allocation(64);
    bad.poolProps.location.id = 99;
    FAILS(CUDA_ERROR_INVALID_DEVICE, cu->cuGraphAddMemAllocNode(&other, graph, NULL, 0, &bad));
    bad = allocation((size_t)1 << 45);
    FAILS(CUDA_ERROR_OUT_OF_MEMORY, cu->cuGraphAddMemAllocNode(&other, graph, NULL, 0, &bad));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphAddMemAllocNode(&other, graph, NULL, 0, NULL));
    bad = allocation(128);
    memcpy(&any.alloc, &bad, sizeof(bad));
    OK(cu->cuGraphAddNode_v2(&other, graph, NULL, NULL, 0, &any));
    assert_true(any.alloc.dptr != 0 && any.alloc.dptr != p.dptr);
    FAILS(CUDA_ERROR_NOT_SUPPORTED, cu->cuGraphNodeSetParams(other, &any));
    OK(cu->cuGraphDestroy(graph));
    OK(cu->cuGraphDestroy(parent));
    OK(cu->cuMemFree_v2(plain));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(a_graph_has_memory_of_its_own),       IN_CONTEXT(memory_outlives_its_graph),
        IN_CONTEXT(running_graphs_keep_their_memory),    IN_CONTEXT(captured_allocations_are_nodes),
        IN_CONTEXT(graphs_with_memory_stay_as_they_are),
    };
    return cmocka_run_group_tests(tests, device_setup, NULL);
}
