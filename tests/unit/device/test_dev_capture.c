/* Stream capture: what becomes a node, how it spreads, and what it forbids. */
#include <pthread.h>

#include "device_kernels.h"

enum { N = 64 };

static CUstream new_stream(void)
{
    CUstream stream;
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static size_t node_count(CUgraph graph)
{
    size_t count = 0;
    OK(cu->cuGraphGetNodes(graph, NULL, &count));
    return count;
}

static CUresult launch(CUfunction function, CUstream stream, void **params)
{
    return cu->cuLaunchKernel(function, 1, 1, 1, N, 1, 1, 0, stream, params, NULL);
}

static void note(void *user)
{
    ++*(int *)user;
}

static void operations_become_nodes(void **state)
{
    CUfunction function = kernel("count_up");
    CUstream stream = new_stream();
    CUdeviceptr data;
    CUstreamCaptureStatus status;
    uint32_t host[N], bias = 5, n = N;
    int calls = 0;
    (void)state;
    OK(cu->cuMemAlloc_v2(&data, sizeof(host)));
    OK(cu->cuMemsetD32_v2(data, 77, N));
    void *params[] = {&data, &bias, &n};
    memset(host, 0, sizeof(host));
    CUgraph graph;
    OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cu->cuStreamIsCapturing(stream, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cu->cuMemsetD32Async(data, 0, N, stream));
    OK(launch(function, stream, params));
    OK(cu->cuMemcpyDtoHAsync_v2(host, data, sizeof(host), stream));
    OK(cu->cuLaunchHostFunc(stream, note, &calls));
    OK(cu->cuStreamWriteValue32_v2(stream, data, 1234, 0));
    OK(cu->cuStreamEndCapture(stream, &graph));
    OK(cu->cuStreamIsCapturing(stream, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_NONE);
    assert_int_equal(node_count(graph), 5);
    OK(cu->cuCtxSynchronize_v2(NULL));
    assert_true(calls == 0 && host[3] == 0); /* nothing has run */
    CUgraphExec exec;
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 1; i <= 3; i++) {
        OK(cu->cuGraphLaunch(exec, stream));
        OK(cu->cuStreamSynchronize(stream));
        assert_int_equal(calls, i);
        for (uint32_t w = 0; w < N; w++)
            assert_int_equal(host[w], w + 5);
        OK(cu->cuMemcpyDtoH_v2(host, data, 4));
        assert_int_equal(host[0], 1234);
    }
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
}

/* Fork and join by events: one node before, two beside each other, one after. */
static void captures_spread_by_events(void **state)
{
    CUfunction function = kernel("add_at");
    CUstream a = new_stream(), b = new_stream();
    CUevent fork, join;
    CUdeviceptr total;
    CUgraph graph, seen;
    CUgraphNode nodes[4], list[4];
    const CUgraphNode *tips;
    size_t count, tip_count = 0;
    uint64_t id = 0;
    uint32_t sum;
    CUstreamCaptureStatus status;
    (void)state;
    OK(cu->cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    OK(cu->cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    OK(cu->cuMemAlloc_v2(&total, 4));
    OK(cu->cuMemsetD32_v2(total, 0, 1));
    void *params[] = {&total};
    OK(cu->cuStreamBeginCapture_v2(a, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    OK(launch(function, a, params));
    OK(cu->cuEventRecord(fork, a));
    OK(cu->cuStreamWaitEvent(b, fork, 0));
    OK(launch(function, a, params));
    OK(launch(function, b, params));
    OK(cu->cuEventRecord(join, b));
    FAILS(CUDA_ERROR_CAPTURED_EVENT, cu->cuEventQuery(join));
    FAILS(CUDA_ERROR_CAPTURED_EVENT, cu->cuEventSynchronize(join));
    OK(cu->cuStreamWaitEvent(a, join, 0));
    OK(cu->cuStreamGetCaptureInfo_v3(a, &status, &id, &seen, &tips, NULL, &tip_count));
    assert_true(status == CU_STREAM_CAPTURE_STATUS_ACTIVE && id != 0 && tip_count == 2);
    OK(launch(function, a, params));
    OK(cu->cuStreamEndCapture(a, &graph));
    assert_ptr_equal(graph, seen);
    count = 4;
    OK(cu->cuGraphGetNodes(graph, nodes, &count));
    assert_int_equal(count, 4);
    OK(cu->cuGraphNodeGetDependencies_v2(nodes[3], NULL, NULL, &count));
    assert_int_equal(count, 2);
    count = 4;
    OK(cu->cuGraphNodeGetDependencies_v2(nodes[2], list, NULL, &count));
    assert_true(count == 1 && list[0] == nodes[0]);
    CUgraphExec exec;
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu->cuGraphLaunch(exec, a));
    OK(cu->cuStreamSynchronize(a));
    OK(cu->cuMemcpyDtoH_v2(&sum, total, 4));
    assert_int_equal(sum, 4 * N);
    /* b is an ordinary stream again, and its event is of the past */
    OK(launch(function, b, params));
    FAILS(CUDA_ERROR_CAPTURED_EVENT, cu->cuStreamWaitEvent(a, join, 0));
    OK(cu->cuEventRecord(join, b));
    OK(cu->cuEventSynchronize(join));
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
}

static void a_captured_launch_is_a_child(void **state)
{
    CUfunction function = kernel("add_at");
    CUstream stream = new_stream();
    CUdeviceptr total;
    uint32_t sum;
    CUgraph inner, outer;
    CUgraphExec inner_exec, exec;
    CUgraphNode node;
    CUgraphNodeType type;
    size_t count = 1;
    (void)state;
    OK(cu->cuMemAlloc_v2(&total, 4));
    OK(cu->cuMemsetD32_v2(total, 0, 1));
    void *params[] = {&total};
    OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(launch(function, stream, params));
    OK(cu->cuStreamEndCapture(stream, &inner));
    OK(cu->cuGraphInstantiateWithFlags(&inner_exec, inner, 0));
    OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cu->cuGraphLaunch(inner_exec, stream));
    OK(cu->cuStreamEndCapture(stream, &outer));
    OK(cu->cuGraphGetNodes(outer, &node, &count));
    OK(cu->cuGraphNodeGetType(node, &type));
    assert_int_equal(type, CU_GRAPH_NODE_TYPE_GRAPH);
    OK(cu->cuGraphInstantiateWithFlags(&exec, outer, 0));
    OK(cu->cuGraphLaunch(exec, stream));
    OK(cu->cuStreamSynchronize(stream));
    OK(cu->cuMemcpyDtoH_v2(&sum, total, 4));
    assert_int_equal(sum, N);
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphExecDestroy(inner_exec));
    OK(cu->cuGraphDestroy(inner));
    OK(cu->cuGraphDestroy(outer));
}

/* Ends the capture of a stream that has been made invalid. */
static void expect_invalid(CUstream stream)
{
    CUgraph graph = (CUgraph)&graph;
    FAILS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, cu->cuStreamEndCapture(stream, &graph));
    assert_null(graph);
}

static void what_captures_forbid(void **state)
{
    CUstream stream = new_stream(), blocking, other = new_stream();
    CUfunction function = kernel("nothing");
    CUdeviceptr p;
    CUevent event;
    CUgraph graph;
    (void)state;
    OK(cu->cuStreamCreate(&blocking, 0));
    OK(cu->cuEventCreate(&event, 0));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
          cu->cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL));
    FAILS(CUDA_ERROR_ILLEGAL_STATE, cu->cuStreamEndCapture(stream, &graph));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuStreamBeginCapture_v2(stream, (CUstreamCaptureMode)5));

    OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    FAILS(CUDA_ERROR_ILLEGAL_STATE,
          cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu->cuStreamSynchronize(stream));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, launch(function, stream, NULL));
    expect_invalid(stream);

    OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu->cuStreamQuery(stream));
    expect_invalid(stream);

    OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu->cuMemAlloc_v2(&p, 4));
    expect_invalid(stream);

    OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu->cuCtxSynchronize_v2(NULL));
    expect_invalid(stream);

    /* relaxed: allowed */
    OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cu->cuMemAlloc_v2(&p, 4));
    OK(cu->cuStreamEndCapture(stream, &graph));
    OK(cu->cuGraphDestroy(graph));

    /* the default stream would have to wait for a blocking stream */
    OK(cu->cuStreamBeginCapture_v2(blocking, CU_STREAM_CAPTURE_MODE_RELAXED));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_IMPLICIT, launch(function, NULL, NULL));
    expect_invalid(blocking);
    /* but not for one that does not block */
    OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(launch(function, NULL, NULL));
    OK(cu->cuStreamEndCapture(stream, &graph));
    OK(cu->cuGraphDestroy(graph));

    /* an event from outside */
    OK(cu->cuEventRecord(event, other));
    OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_ISOLATION, cu->cuStreamWaitEvent(stream, event, 0));
    expect_invalid(stream);

    /* two captures do not merge */
    OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cu->cuStreamBeginCapture_v2(other, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cu->cuEventRecord(event, stream));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_MERGE, cu->cuStreamWaitEvent(other, event, 0));
    expect_invalid(stream);
    expect_invalid(other);

    /* a member that nobody waits for; a member cannot end the capture */
    OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cu->cuEventRecord(event, stream));
    OK(cu->cuStreamWaitEvent(other, event, 0));
    OK(launch(function, other, NULL));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_UNJOINED, cu->cuStreamEndCapture(stream, &graph));
    OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cu->cuEventRecord(event, stream));
    OK(cu->cuStreamWaitEvent(other, event, 0));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, cu->cuStreamEndCapture(other, &graph));
    expect_invalid(stream);
}

static void *end_elsewhere(void *stream)
{
    CUgraph graph;
    CUcontext context;
    if (cu->cuDevicePrimaryCtxRetain(&context, 0) || cu->cuCtxSetCurrent(context))
        return (void *)1;
    CUresult result = cu->cuStreamEndCapture(stream, &graph);
    cu->cuDevicePrimaryCtxRelease_v2(0);
    return (void *)(intptr_t)result;
}

static void captures_belong_to_threads(void **state)
{
    CUstream stream = new_stream();
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CUdeviceptr p;
    CUgraph graph;
    pthread_t thread;
    void *result;
    (void)state;
    OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    assert_int_equal(pthread_create(&thread, NULL, end_elsewhere, stream), 0);
    pthread_join(thread, &result);
    assert_int_equal((intptr_t)result, CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
    /* what this thread may do is its own choice */
    OK(cu->cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL);
    OK(cu->cuMemAlloc_v2(&p, 4));
    OK(cu->cuThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_RELAXED);
    OK(cu->cuStreamEndCapture(stream, &graph));
    OK(cu->cuGraphDestroy(graph));
}

/* Capture into a graph that has nodes, behind one of them; tips are set by hand. */
static void captures_into_graphs(void **state)
{
    CUfunction function = kernel("nothing");
    CUstream stream = new_stream();
    CUgraph graph, same;
    CUgraphNode root, far, list[2], nodes[4];
    size_t count;
    (void)state;
    OK(cu->cuGraphCreate(&graph, 0));
    OK(cu->cuGraphAddEmptyNode(&root, graph, NULL, 0));
    OK(cu->cuGraphAddEmptyNode(&far, graph, NULL, 0));
    OK(cu->cuStreamBeginCaptureToGraph(stream, graph, &root, NULL, 1,
                                       CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(launch(function, stream, NULL));
    OK(cu->cuStreamUpdateCaptureDependencies_v2(stream, &far, NULL, 1, 0));
    OK(launch(function, stream, NULL));
    OK(cu->cuStreamEndCapture(stream, &same));
    assert_ptr_equal(same, graph);
    count = 4;
    OK(cu->cuGraphGetNodes(graph, nodes, &count));
    assert_int_equal(count, 4);
    count = 2;
    OK(cu->cuGraphNodeGetDependencies_v2(nodes[2], list, NULL, &count));
    assert_true(count == 1 && list[0] == root);
    count = 2;
    OK(cu->cuGraphNodeGetDependencies_v2(nodes[3], list, NULL, &count));
    assert_true(count == 2 && list[0] == nodes[2] && list[1] == far);
    OK(cu->cuGraphDestroy(graph));
}

/* A node that the stream would go on from is destroyed, then the whole graph. */
static void destroyed_nodes_and_graphs(void **state)
{
    CUfunction function = kernel("nothing");
    CUstream stream = new_stream();
    CUgraph graph;
    CUgraphNode node;
    size_t count = 1;
    (void)state;
    OK(cu->cuGraphCreate(&graph, 0));
    OK(cu->cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0,
                                       CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(launch(function, stream, NULL));
    OK(cu->cuGraphGetNodes(graph, &node, &count));
    OK(cu->cuGraphDestroyNode(node));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, launch(function, stream, NULL));
    expect_invalid(stream);
    OK(cu->cuGraphCreate(&graph, 0));
    OK(cu->cuStreamBeginCaptureToGraph(stream, graph, NULL, NULL, 0,
                                       CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(launch(function, stream, NULL));
    OK(cu->cuGraphDestroy(graph));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, launch(function, stream, NULL));
    expect_invalid(stream);
    OK(cu->cuStreamSynchronize(stream));
}

/* A stream that is destroyed takes its capture with it. */
static void streams_end_with_their_captures(void **state)
{
    CUstream stream = new_stream();
    CUdeviceptr p;
    (void)state;
    OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cu->cuStreamDestroy_v2(stream));
    OK(cu->cuMemAlloc_v2(&p, 4)); /* nothing is captured any more */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(operations_become_nodes),         IN_CONTEXT(captures_spread_by_events),
        IN_CONTEXT(a_captured_launch_is_a_child),    IN_CONTEXT(what_captures_forbid),
        IN_CONTEXT(captures_belong_to_threads),      IN_CONTEXT(captures_into_graphs),
        IN_CONTEXT(streams_end_with_their_captures), IN_CONTEXT(destroyed_nodes_and_graphs),
    };
    return cmocka_run_group_tests(tests, device_setup, NULL);
}
