/* Graphs built by hand: nodes of every kind, edges, executable graphs and how they change. */
#include "device_kernels.h"

#include <stdio.h>
#include <unistd.h>

enum { N = 256 };

static CUDA_KERNEL_NODE_PARAMS count_up(CUfunction function, void **params)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = function,
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = N,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = params};
}

static CUDA_MEMCPY3D copy_of(CUdeviceptr dst, CUdeviceptr src, size_t bytes)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .srcDevice = src,
                           .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .dstDevice = dst,
                           .WidthInBytes = bytes,
                           .Height = 1,
                           .Depth = 1};
}

static void note(void *user)
{
    ++*(int *)user;
}

/* memset -> kernel -> copy to the host -> host function, launched three times */
static void a_chain_runs_in_order(void **state)
{
    CUfunction function = kernel("count_up");
    CUdeviceptr data;
    uint32_t host[N], bias = 7, n = N - 1;
    int calls = 0;
    (void)state;
    OK(cu->cuMemAlloc_v2(&data, sizeof(host)));
    CUgraph graph;
    CUgraphNode set, run, back, tell;
    OK(cu->cuGraphCreate(&graph, 0));
    CUDA_MEMSET_NODE_PARAMS fill = {data, 0, 99, 4, N, 1};
    OK(cu->cuGraphAddMemsetNode(&set, graph, NULL, 0, &fill, NULL));
    void *params[] = {&data, &bias, &n};
    CUDA_KERNEL_NODE_PARAMS k = count_up(function, params);
    OK(cu->cuGraphAddKernelNode_v2(&run, graph, &set, 1, &k));
    bias = 1000; /* the node has a copy */
    CUDA_MEMCPY3D copy = copy_of((CUdeviceptr)(uintptr_t)host, data, sizeof(host));
    OK(cu->cuGraphAddMemcpyNode(&back, graph, &run, 1, &copy, NULL));
    OK(cu->cuGraphAddHostNode(&tell, graph, &back, 1, &(CUDA_HOST_NODE_PARAMS){note, &calls}));
    CUgraphExec exec;
    CUstream stream;
    OK(cu->cuStreamCreate(&stream, 0));
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu->cuGraphUpload(exec, stream));
    for (int i = 1; i <= 3; i++) {
        memset(host, 0, sizeof(host));
        OK(cu->cuGraphLaunch(exec, i == 2 ? NULL : stream));
        OK(cu->cuCtxSynchronize_v2(NULL));
        assert_int_equal(calls, i);
        for (uint32_t w = 0; w < N; w++)
            assert_int_equal(host[w], w < n ? w + 7 : 99);
    }
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
    OK(cu->cuMemFree_v2(data));
}

/* Many branches from one node to one node: the sum is right only if the last one waits for all. */
static void branches_meet(void **state)
{
    enum { BRANCHES = 100 };
    CUfunction function = kernel("add_at");
    CUdeviceptr total;
    uint32_t sum = 0;
    (void)state;
    OK(cu->cuMemAlloc_v2(&total, 4));
    CUgraph graph;
    CUgraphNode set, end, branch[BRANCHES];
    OK(cu->cuGraphCreate(&graph, 0));
    OK(cu->cuGraphAddMemsetNode(&set, graph, NULL, 0,
                                &(CUDA_MEMSET_NODE_PARAMS){total, 0, 0, 4, 1, 1}, NULL));
    void *params[] = {&total};
    for (int i = 0; i < BRANCHES; i++) {
        CUDA_KERNEL_NODE_PARAMS k = count_up(function, params);
        OK(cu->cuGraphAddKernelNode_v2(&branch[i], graph, &set, 1, &k));
    }
    CUDA_MEMCPY3D copy = copy_of((CUdeviceptr)(uintptr_t)&sum, total, 4);
    OK(cu->cuGraphAddMemcpyNode(&end, graph, branch, BRANCHES, &copy, NULL));
    CUgraphExec exec;
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 5; i++) {
        OK(cu->cuGraphLaunch(exec, NULL));
        OK(cu->cuStreamSynchronize(NULL));
        assert_int_equal(sum, BRANCHES * N);
        sum = 0;
    }
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
}

static void edges_and_lists(void **state)
{
    CUgraph graph, other;
    CUgraphNode a, b, c, far, list[4], to[4];
    CUgraphNodeType type;
    size_t count = 0;
    (void)state;
    OK(cu->cuGraphCreate(&graph, 0));
    OK(cu->cuGraphCreate(&other, 0));
    OK(cu->cuGraphAddEmptyNode(&a, graph, NULL, 0));
    OK(cu->cuGraphAddEmptyNode(&b, graph, &a, 1));
    OK(cu->cuGraphAddEmptyNode(&c, graph, NULL, 0));
    OK(cu->cuGraphAddEmptyNode(&far, other, NULL, 0));
    OK(cu->cuGraphAddDependencies_v2(graph, &b, &c, NULL, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphAddDependencies_v2(graph, &c, &a, NULL, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphAddDependencies_v2(graph, &b, &c, NULL, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphAddDependencies_v2(graph, &a, &a, NULL, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphAddDependencies_v2(graph, &a, &far, NULL, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphAddEmptyNode(&far, graph, &far, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphAddEmptyNode(&far, graph, (CUgraphNode[]){a, a}, 2));
    OK(cu->cuGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 3);
    count = 4;
    OK(cu->cuGraphGetNodes(graph, list, &count));
    assert_int_equal(count, 3);
    assert_true(list[0] == a && list[1] == b && list[2] == c && list[3] == NULL);
    count = 4;
    OK(cu->cuGraphGetRootNodes(graph, list, &count));
    assert_true(count == 1 && list[0] == a);
    count = 4;
    OK(cu->cuGraphGetEdges_v2(graph, list, to, NULL, &count));
    assert_true(count == 2 && list[0] == a && to[0] == b && list[1] == b && to[1] == c);
    count = 4;
    OK(cu->cuGraphNodeGetDependencies_v2(c, list, NULL, &count));
    assert_true(count == 1 && list[0] == b);
    count = 4;
    OK(cu->cuGraphNodeGetDependentNodes_v2(a, list, NULL, &count));
    assert_true(count == 1 && list[0] == b);
    OK(cu->cuGraphNodeGetType(c, &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_EMPTY);
    OK(cu->cuGraphRemoveDependencies_v2(graph, &b, &c, NULL, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphRemoveDependencies_v2(graph, &b, &c, NULL, 1));
    OK(cu->cuGraphDestroyNode(b));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphDestroyNode(b));
    OK(cu->cuGraphGetEdges_v2(graph, NULL, NULL, NULL, &count));
    assert_int_equal(count, 0);
    OK(cu->cuGraphDestroy(graph));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphDestroy(graph));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphNodeGetType(a, &type));
    OK(cu->cuGraphDestroy(other));
}

/* A clone's nodes are found by the original's; a child runs in its node's place. */
static void clones_and_children(void **state)
{
    CUfunction function = kernel("add_at");
    CUdeviceptr total;
    uint32_t sum;
    (void)state;
    OK(cu->cuMemAlloc_v2(&total, 4));
    OK(cu->cuMemsetD32_v2(total, 0, 1));
    void *params[] = {&total};
    CUgraph inner, middle, outer, clone, of_node;
    CUgraphNode run, found, first, second;
    CUDA_KERNEL_NODE_PARAMS k = count_up(function, params), got;
    OK(cu->cuGraphCreate(&inner, 0));
    OK(cu->cuGraphAddKernelNode_v2(&run, inner, NULL, 0, &k));
    OK(cu->cuGraphClone(&clone, inner));
    OK(cu->cuGraphNodeFindInClone(&found, run, clone));
    assert_true(found != run);
    OK(cu->cuGraphKernelNodeGetParams_v2(found, &got));
    assert_true(got.func == function && got.blockDimX == N);
    assert_int_equal(*(CUdeviceptr *)got.kernelParams[0], total);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphNodeFindInClone(&found, run, inner));
    OK(cu->cuGraphCreate(&middle, 0));
    OK(cu->cuGraphAddChildGraphNode(&first, middle, NULL, 0, inner));
    OK(cu->cuGraphAddChildGraphNode(&second, middle, &first, 1, clone));
    OK(cu->cuGraphCreate(&outer, 0));
    OK(cu->cuGraphAddChildGraphNode(&first, outer, NULL, 0, middle));
    OK(cu->cuGraphAddChildGraphNode(&second, outer, NULL, 0, middle));
    OK(cu->cuGraphChildGraphNodeGetGraph(first, &of_node));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphDestroy(of_node));
    CUgraphExec exec;
    OK(cu->cuGraphInstantiateWithFlags(&exec, outer, 0));
    OK(cu->cuGraphDestroy(outer)); /* executable graphs have their own copy */
    OK(cu->cuGraphDestroy(middle));
    OK(cu->cuGraphDestroy(inner));
    OK(cu->cuGraphDestroy(clone));
    OK(cu->cuGraphLaunch(exec, NULL));
    OK(cu->cuMemcpyDtoH_v2(&sum, total, 4));
    assert_int_equal(sum, 4 * N);
    OK(cu->cuGraphExecDestroy(exec));
}

/* Parameters are set in the executable graph, in the graph, and by an update. */
static void graphs_change(void **state)
{
    CUfunction function = kernel("count_up");
    CUdeviceptr data, other;
    uint32_t host[N], bias = 1, n = N;
    unsigned enabled = 7;
    (void)state;
    OK(cu->cuMemAlloc_v2(&data, sizeof(host)));
    OK(cu->cuMemAlloc_v2(&other, sizeof(host)));
    OK(cu->cuMemsetD32_v2(other, 0, N));
    CUgraph graph, wider;
    CUgraphNode run, extra;
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo info;
    void *params[] = {&data, &bias, &n};
    CUDA_KERNEL_NODE_PARAMS k = count_up(function, params);
    OK(cu->cuGraphCreate(&graph, 0));
    OK(cu->cuGraphAddKernelNode_v2(&run, graph, NULL, 0, &k));
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    bias = 2;
    OK(cu->cuGraphExecKernelNodeSetParams_v2(exec, run, &k));
    OK(cu->cuGraphLaunch(exec, NULL));
    OK(cu->cuMemcpyDtoH_v2(host, data, sizeof(host)));
    assert_int_equal(host[3], 5);
    bias = 3;
    OK(cu->cuGraphKernelNodeSetParams_v2(run, &k)); /* does not reach what is instantiated */
    OK(cu->cuGraphLaunch(exec, NULL));
    OK(cu->cuMemcpyDtoH_v2(host, data, sizeof(host)));
    assert_int_equal(host[3], 5);
    OK(cu->cuGraphExecUpdate_v2(exec, graph, &info));
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_SUCCESS);
    OK(cu->cuGraphLaunch(exec, NULL));
    OK(cu->cuMemcpyDtoH_v2(host, data, sizeof(host)));
    assert_int_equal(host[3], 6);
    OK(cu->cuGraphNodeSetEnabled(exec, run, 0));
    OK(cu->cuGraphNodeGetEnabled(exec, run, &enabled));
    assert_int_equal(enabled, 0);
    OK(cu->cuMemsetD32_v2(data, 0, N));
    OK(cu->cuGraphLaunch(exec, NULL));
    OK(cu->cuMemcpyDtoH_v2(host, data, sizeof(host)));
    assert_int_equal(host[3], 0);
    OK(cu->cuGraphClone(&wider, graph));
    OK(cu->cuGraphAddEmptyNode(&extra, wider, NULL, 0));
    FAILS(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cu->cuGraphExecUpdate_v2(exec, wider, &info));
    assert_int_equal(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphExecKernelNodeSetParams_v2(exec, extra, &k));
    k.blockDimX = 5000;
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphExecKernelNodeSetParams_v2(exec, run, &k));
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
    OK(cu->cuGraphDestroy(wider));
}

/* Event nodes tie graphs to streams; values in memory are nodes, too. */
static void events_and_values(void **state)
{
    CUdeviceptr flag;
    CUevent before, after;
    CUgraph graph;
    CUgraphNode wait, write, mark;
    CUgraphExec exec;
    CUstream stream;
    uint32_t value = 0;
    CUevent got;
    (void)state;
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu->cuMemAlloc_v2(&flag, 8));
    OK(cu->cuMemsetD32_v2(flag, 0, 2));
    OK(cu->cuEventCreate(&before, 0));
    OK(cu->cuEventCreate(&after, 0));
    OK(cu->cuGraphCreate(&graph, 0));
    OK(cu->cuGraphAddEventWaitNode(&wait, graph, NULL, 0, before));
    CUstreamBatchMemOpParams op = {
        .writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = flag, .value = 42}};
    CUDA_BATCH_MEM_OP_NODE_PARAMS values = {NULL, 1, &op, 0};
    OK(cu->cuGraphAddBatchMemOpNode(&write, graph, &wait, 1, &values));
    OK(cu->cuGraphAddEventRecordNode(&mark, graph, &write, 1, after));
    OK(cu->cuGraphEventRecordNodeGetEvent(mark, &got));
    assert_ptr_equal(got, after);
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    /* The stream that records waits for a word that is written last. */
    OK(cu->cuStreamWaitValue32_v2(stream, flag + 4, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cu->cuEventRecord(before, stream));
    CUstream launcher;
    OK(cu->cuStreamCreate(&launcher, CU_STREAM_NON_BLOCKING));
    OK(cu->cuGraphLaunch(exec, launcher));
    FAILS(CUDA_ERROR_NOT_READY, cu->cuEventQuery(after));
    FAILS(CUDA_ERROR_NOT_READY, cu->cuStreamQuery(launcher));
    CUstream third;
    OK(cu->cuStreamCreate(&third, CU_STREAM_NON_BLOCKING));
    OK(cu->cuStreamWriteValue32_v2(third, flag + 4, 1, 0));
    OK(cu->cuEventSynchronize(after));
    OK(cu->cuMemcpyDtoH_v2(&value, flag, 4));
    assert_int_equal(value, 42);
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
}

/* What a kernel's parameters do not have stays when they are set, and reaches executable graphs with an
 * update. */
static void attributes_stay(void **state)
{
    CUfunction function = kernel("count_up");
    CUdeviceptr data;
    CUgraph graph;
    CUgraphNode run;
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo info;
    CUkernelNodeAttrValue value = {.cooperative = 1}, got;
    uint32_t host[N], bias = 1, n = N;
    (void)state;
    OK(cu->cuMemAlloc_v2(&data, sizeof(host)));
    void *params[] = {&data, &bias, &n};
    CUDA_KERNEL_NODE_PARAMS k = count_up(function, params);
    OK(cu->cuGraphCreate(&graph, 0));
    OK(cu->cuGraphAddKernelNode_v2(&run, graph, NULL, 0, &k));
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu->cuGraphKernelNodeSetAttribute(run, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value));
    value.priority = -1;
    OK(cu->cuGraphKernelNodeSetAttribute(run, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    bias = 2;
    OK(cu->cuGraphKernelNodeSetParams_v2(run, &k));
    OK(cu->cuGraphKernelNodeGetAttribute(run, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &got));
    assert_int_equal(got.cooperative, 1);
    OK(cu->cuGraphKernelNodeGetAttribute(run, CU_LAUNCH_ATTRIBUTE_PRIORITY, &got));
    assert_int_equal(got.priority, -1);
    OK(cu->cuGraphExecUpdate_v2(exec, graph, &info));
    OK(cu->cuGraphLaunch(exec, NULL));
    OK(cu->cuMemcpyDtoH_v2(host, data, sizeof(host)));
    assert_int_equal(host[3], 5);
    bias = 4;
    OK(cu->cuGraphExecKernelNodeSetParams_v2(exec, run, &k));
    OK(cu->cuGraphLaunch(exec, NULL));
    OK(cu->cuMemcpyDtoH_v2(host, data, sizeof(host)));
    assert_int_equal(host[3], 7);
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
}

static void free_user(void *user)
{
    *(int *)user = 1;
}

static void user_objects_live_with_their_graphs(void **state)
{
    CUuserObject object;
    CUgraph graph;
    CUgraphExec exec;
    int freed = 0;
    (void)state;
    OK(cu->cuGraphCreate(&graph, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuUserObjectCreate(&object, &freed, free_user, 1, 0));
    OK(cu->cuUserObjectCreate(&object, &freed, free_user, 1, CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(cu->cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu->cuGraphDestroy(graph));
    assert_int_equal(freed, 0);
    OK(cu->cuGraphExecDestroy(exec));
    assert_int_equal(freed, 1);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuUserObjectRelease(object, 1));
}

static void bad_arguments(void **state)
{
    CUgraph graph = NULL;
    CUgraphNode node;
    CUgraphExec exec;
    CUfunction function = kernel("count_up");
    CUDA_KERNEL_NODE_PARAMS k = count_up(function, NULL);
    CUDA_MEMCPY3D copy = copy_of(16, 32, 4);
    (void)state;
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphCreate(NULL, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphCreate(&graph, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu->cuGraphCreate(&graph, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphAddKernelNode_v2(&node, graph, NULL, 0, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &k));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphAddKernelNode_v2(NULL, graph, NULL, 0, &k));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphAddEmptyNode(&node, graph, NULL, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphAddHostNode(&node, graph, NULL, 0, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuGraphAddMemsetNode(&node, graph, NULL, 0,
                                   &(CUDA_MEMSET_NODE_PARAMS){64, 0, 0, 4, 1, 1}, NULL));
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphInstantiateWithFlags(&exec, graph, 1 << 20));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphLaunch((CUgraphExec)(uintptr_t)77, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphClone(NULL, graph));
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0)); /* an empty graph does nothing */
    OK(cu->cuGraphLaunch(exec, NULL));
    OK(cu->cuGraphExecDestroy(exec));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
}

static void pictures(void **state)
{
    char path[] = "/tmp/gable-graph-XXXXXX", text[512];
    CUgraph graph;
    CUgraphNode a, b;
    int fd = mkstemp(path);
    (void)state;
    assert_true(fd >= 0);
    close(fd);
    OK(cu->cuGraphCreate(&graph, 0));
    OK(cu->cuGraphAddEmptyNode(&a, graph, NULL, 0));
    OK(cu->cuGraphAddEmptyNode(&b, graph, &a, 1));
    OK(cu->cuGraphDebugDotPrint(graph, path, 0));
    FAILS(CUDA_ERROR_OPERATING_SYSTEM, cu->cuGraphDebugDotPrint(graph, "/nonexistent/x", 0));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = 0;
    fclose(file);
    unlink(path);
    assert_non_null(strstr(text, "digraph"));
    assert_non_null(strstr(text, "node_0 -> node_1"));
    OK(cu->cuGraphDestroy(graph));
}

static CUDA_KERNEL_NODE_PARAMS one_thread(CUfunction function, void **params)
{
    CUDA_KERNEL_NODE_PARAMS k = count_up(function, params);
    k.blockDimX = 1;
    return k;
}

/* Tiny kernels of a lane are run in a row; yet what another lane waits for is said at once: after `first`
 * comes a kernel that ends only when the other lane has gone on. */
static void lanes_do_not_wait_for_a_row(void **state)
{
    CUdeviceptr words;
    CUgraph graph;
    CUgraphExec exec;
    CUgraphNode first, waits, sets;
    CUstream stream;
    uint32_t got[2];
    (void)state;
    OK(cu->cuMemAlloc_v2(&words, sizeof(got)));
    OK(cu->cuMemsetD32_v2(words, 0, 2));
    CUdeviceptr begun = words + 4;
    void *at_flag[] = {&words}, *at_begun[] = {&begun};
    OK(cu->cuGraphCreate(&graph, 0));
    CUDA_KERNEL_NODE_PARAMS k = one_thread(kernel("add_at"), at_begun);
    OK(cu->cuGraphAddKernelNode_v2(&first, graph, NULL, 0, &k));
    k = one_thread(kernel("until"), at_flag);
    OK(cu->cuGraphAddKernelNode_v2(&waits, graph, &first, 1, &k));
    k = one_thread(kernel("add_at"), at_flag);
    OK(cu->cuGraphAddKernelNode_v2(&sets, graph, &first, 1, &k));
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (uint32_t i = 1; i <= 20; i++) {
        OK(cu->cuMemsetD32_v2(words, 0, 1));
        OK(cu->cuGraphLaunch(exec, stream));
        OK(cu->cuStreamSynchronize(stream));
        OK(cu->cuMemcpyDtoH_v2(got, words, sizeof(got)));
        assert_int_equal(got[0], 1);
    }
    assert_int_equal(got[1], 20);
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
    OK(cu->cuStreamDestroy_v2(stream));
    OK(cu->cuMemFree_v2(words));
}

/* A long chain of tiny kernels, launched again while it runs: each node once per launch, in order. */
static void long_chains_run_in_order(void **state)
{
    enum { NODES = 200, LAUNCHES = 30 };
    CUdeviceptr word;
    CUgraph graph;
    CUgraphExec exec;
    CUstream stream;
    CUfunction count = kernel("count_up"), add = kernel("add_at");
    uint32_t got, one = 1;
    (void)state;
    OK(cu->cuMemAlloc_v2(&word, 4));
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    void *count_params[] = {&word, &one, &one}, *add_params[] = {&word};
    OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(cu->cuLaunchKernel(count, 1, 1, 1, 32, 1, 1, 0, stream, count_params, NULL));
    for (int i = 0; i < NODES; i++)
        OK(cu->cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, add_params, NULL));
    OK(cu->cuStreamEndCapture(stream, &graph));
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < LAUNCHES; i++)
        OK(cu->cuGraphLaunch(exec, stream));
    OK(cu->cuStreamSynchronize(stream));
    OK(cu->cuMemcpyDtoH_v2(&got, word, 4));
    assert_int_equal(got, 1 + NODES);
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
    OK(cu->cuStreamDestroy_v2(stream));
    OK(cu->cuMemFree_v2(word));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(a_chain_runs_in_order),
        IN_CONTEXT(branches_meet),
        IN_CONTEXT(edges_and_lists),
        IN_CONTEXT(clones_and_children),
        IN_CONTEXT(graphs_change),
        IN_CONTEXT(events_and_values),
        IN_CONTEXT(attributes_stay),
        IN_CONTEXT(user_objects_live_with_their_graphs),
        IN_CONTEXT(bad_arguments),
        IN_CONTEXT(pictures),
        IN_CONTEXT(lanes_do_not_wait_for_a_row),
        IN_CONTEXT(long_chains_run_in_order),
    };
    return cmocka_run_group_tests(tests, device_setup, NULL);
}
