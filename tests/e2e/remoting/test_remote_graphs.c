/* Graphs over two proxies: what travels, and graphs of the second device. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/e2e/remoting/graph_help.h"

enum { N = 64, NODES = 40, LAUNCHES = 1000 };

static CUDA_KERNEL_NODE_PARAMS one_block(CUfunction function, void **params)
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

/* A chain that adds N * NODES to a word. */
static CUgraphExec adding(CUdeviceptr word)
{
    CUfunction function = kernel("add_at");
    void *params[] = {&word};
    CUDA_KERNEL_NODE_PARAMS k = one_block(function, params);
    CUgraphNode last = NULL, node;
    CUgraph graph;
    CUgraphExec exec;
    OK(cu->cuGraphCreate(&graph, 0));
    for (int i = 0; i < NODES; i++) {
        OK(cu->cuGraphAddKernelNode_v2(&node, graph, &last, i > 0, &k));
        last = node;
    }
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu->cuGraphDestroy(graph));
    return exec;
}

/* A launch is one frame of 32 bytes, however many nodes the graph has, and needs no answer. */
static void a_launch_is_one_small_frame(void **state)
{
    CUdeviceptr word;
    CUstream stream;
    uint32_t sum = 0;
    (void)state;
    OK(cu->cuMemAlloc_v2(&word, 4));
    OK(cu->cuMemsetD32_v2(word, 0, 1));
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUgraphExec exec = adding(word);
    OK(cu->cuGraphLaunch(exec, stream));
    OK(cu->cuCtxSynchronize());
    uint64_t up = relay_up(relay), down = relay_down(relay);
    for (int i = 0; i < LAUNCHES; i++)
        OK(cu->cuGraphLaunch(exec, stream));
    OK(cu->cuStreamSynchronize(stream));
    up = relay_up(relay) - up;
    down = relay_down(relay) - down;
    OK(cu->cuMemcpyDtoH_v2(&sum, word, 4));
    assert_int_equal(sum, (LAUNCHES + 1) * N * NODES);
    assert_in_range(up, LAUNCHES * 32, LAUNCHES * 32 + 200);
    assert_in_range(down, 1, 200);
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuMemFree_v2(word));
}

/* Building and cloning a graph sends nothing; an update sends what has changed. */
static void only_changes_travel(void **state)
{
    CUfunction function = kernel("count_up");
    CUdeviceptr data;
    CUgraph graph;
    CUgraphNode nodes[NODES];
    CUgraphExec exec;
    CUgraphExecUpdateResultInfo info;
    uint32_t bias = 1, n = N, host[N];
    (void)state;
    OK(cu->cuMemAlloc_v2(&data, 4 * N * NODES));
    OK(cu->cuCtxSynchronize());
    uint64_t up = relay_up(relay);
    OK(cu->cuGraphCreate(&graph, 0));
    for (int i = 0; i < NODES; i++) {
        CUdeviceptr at = data + (CUdeviceptr)i * 4 * N;
        void *params[] = {&at, &bias, &n};
        CUDA_KERNEL_NODE_PARAMS k = one_block(function, params);
        OK(cu->cuGraphAddKernelNode_v2(&nodes[i], graph, NULL, 0, &k));
    }
    assert_int_equal(relay_up(relay), up);
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu->cuGraphLaunch(exec, NULL));
    OK(cu->cuCtxSynchronize());
    CUdeviceptr at = data + 7 * 4 * N;
    bias = 1000;
    void *params[] = {&at, &bias, &n};
    CUDA_KERNEL_NODE_PARAMS k = one_block(function, params);
    OK(cu->cuGraphKernelNodeSetParams_v2(nodes[7], &k));
    up = relay_up(relay);
    OK(cu->cuGraphExecUpdate_v2(exec, graph, &info));
    OK(cu->cuGraphLaunch(exec, NULL));
    OK(cu->cuMemcpyDtoH_v2(host, at, sizeof(host)));
    assert_int_equal(host[5], 1005);
    assert_in_range(relay_up(relay) - up, 100, 300);
    OK(cu->cuMemcpyDtoH_v2(host, data + 8 * 4 * N, sizeof(host)));
    assert_int_equal(host[5], 6);
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
    OK(cu->cuMemFree_v2(data));
}

/* Capturing sends nothing: the frames of the operations become nodes. */
static void captures_send_nothing(void **state)
{
    CUfunction function = kernel("add_at");
    CUdeviceptr words, word;
    CUstream stream, other;
    CUevent fork, join;
    CUgraph graph;
    CUgraphExec exec;
    CUstreamCaptureStatus status;
    size_t count = 0;
    uint32_t got[2];
    (void)state;
    OK(cu->cuMemAlloc_v2(&words, 8));
    OK(cu->cuStreamCreate(&stream, 0));
    OK(cu->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cu->cuEventCreate(&fork, 0));
    OK(cu->cuEventCreate(&join, 0));
    word = words + 4;
    void *params[] = {&words};
    OK(cu->cuCtxSynchronize());
    uint64_t up = relay_up(relay);
    OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cu->cuMemsetD8Async(words, 0, 8, stream));
    OK(cu->cuEventRecord(fork, stream));
    OK(cu->cuStreamWaitEvent(other, fork, 0));
    OK(cu->cuLaunchKernel(function, 1, 1, 1, N, 1, 1, 0, stream, params, NULL));
    OK(cu->cuStreamWriteValue32_v2(other, word, 7, 0));
    OK(cu->cuEventRecord(join, other));
    OK(cu->cuStreamWaitEvent(stream, join, 0));
    OK(cu->cuMemcpyDtoDAsync_v2(word, words, 4, stream));
    OK(cu->cuMemsetD16Async(words, 0x101, 2, stream));
    OK(cu->cuStreamIsCapturing(other, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cu->cuStreamEndCapture(stream, &graph));
    assert_int_equal(relay_up(relay), up);
    OK(cu->cuGraphGetNodes(graph, NULL, &count));
    assert_int_equal(count, 5);
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 3; i++)
        OK(cu->cuGraphLaunch(exec, stream));
    OK(cu->cuMemcpyDtoHAsync_v2(got, words, 8, stream));
    OK(cu->cuStreamSynchronize(stream));
    assert_int_equal(got[0], 0x1010101);
    assert_int_equal(got[1], N);
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
    OK(cu->cuStreamDestroy_v2(stream));
    OK(cu->cuStreamDestroy_v2(other));
    OK(cu->cuMemFree_v2(words));
}

/* The per-thread default stream is captured like any other, and each thread has its own. */
static void *thread_captures(void *context)
{
    CUgraph graph;
    CUstreamCaptureStatus status;
    if (cu->cuCtxSetCurrent(context) || cu->cuStreamIsCapturing(CU_STREAM_PER_THREAD, &status) ||
        status != CU_STREAM_CAPTURE_STATUS_NONE ||
        cu->cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED))
        return (void *)1;
    return (void *)(intptr_t)cu->cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph);
}

static void threads_capture_their_own_streams(void **state)
{
    CUgraph graph;
    CUstreamCaptureStatus status;
    CUdeviceptr word;
    pthread_t thread;
    void *result;
    OK(cu->cuMemAlloc_v2(&word, 4));
    OK(cu->cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED));
    assert_int_equal(pthread_create(&thread, NULL, thread_captures, *state), 0);
    pthread_join(thread, &result);
    assert_null(result);
    OK(cu->cuMemsetD32Async(word, 1, 1, CU_STREAM_PER_THREAD));
    OK(cu->cuStreamIsCapturing(CU_STREAM_PER_THREAD, &status));
    assert_int_equal(status, CU_STREAM_CAPTURE_STATUS_ACTIVE);
    OK(cu->cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph));
    OK(cu->cuGraphDestroy(graph));
    OK(cu->cuMemFree_v2(word));
}

/* A context that is destroyed takes its captures with it. */
static void contexts_end_their_captures(void **state)
{
    CUcontext other;
    CUstream stream;
    CUdeviceptr p;
    OK(cu->cuCtxCreate_v2(&other, 0, 0));
    OK(cu->cuStreamCreate(&stream, 0));
    OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cu->cuCtxSetCurrent(*state));
    FAILS(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cu->cuMemAlloc_v2(&p, 4));
    OK(cu->cuCtxDestroy_v2(other));
    OK(cu->cuMemAlloc_v2(&p, 4));
    OK(cu->cuMemFree_v2(p));
}

/* Graphs belong to the device of their nodes; those of two devices are no graph. */
static void graphs_of_two_devices(void **state)
{
    CUcontext second;
    CUdeviceptr words[2];
    CUgraphExec execs[2];
    CUgraph graph;
    CUgraphNode first, other;
    uint32_t sum;
    OK(cu->cuMemAlloc_v2(&words[0], 4));
    OK(cu->cuMemsetD32_v2(words[0], 0, 1));
    execs[0] = adding(words[0]);
    OK(cu->cuGraphCreate(&graph, 0));
    void *params[] = {&words[0]};
    CUDA_KERNEL_NODE_PARAMS k = one_block(kernel("add_at"), params);
    OK(cu->cuGraphAddKernelNode_v2(&first, graph, NULL, 0, &k));
    OK(cu->cuCtxCreate_v2(&second, 0, 1));
    OK(cu->cuMemAlloc_v2(&words[1], 4));
    OK(cu->cuMemsetD32_v2(words[1], 0, 1));
    execs[1] = adding(words[1]);
    OK(cu->cuGraphLaunch(execs[1], NULL));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuGraphLaunch(execs[0], NULL));
    OK(cu->cuMemcpyDtoH_v2(&sum, words[1], 4));
    assert_int_equal(sum, N * NODES);
    k = one_block(kernel("add_at"), params);
    OK(cu->cuGraphAddKernelNode_v2(&other, graph, &first, 1, &k));
    CUgraphExec exec;
    CUDA_GRAPH_INSTANTIATE_PARAMS how = {0};
    FAILS(CUDA_ERROR_NOT_SUPPORTED, cu->cuGraphInstantiateWithParams(&exec, graph, &how));
    assert_ptr_equal(how.hErrNode_out, other);
    /* A graph without a context runs in either. */
    CUgraph empty;
    OK(cu->cuGraphCreate(&empty, 0));
    OK(cu->cuGraphAddEmptyNode(&other, empty, NULL, 0));
    OK(cu->cuGraphInstantiateWithFlags(&exec, empty, 0));
    OK(cu->cuGraphLaunch(exec, NULL));
    OK(cu->cuCtxSynchronize());
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuCtxDestroy_v2(second)); /* its graph goes with it */
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphExecDestroy(execs[1]));
    OK(cu->cuCtxSetCurrent(*state));
    OK(cu->cuGraphLaunch(execs[0], NULL));
    OK(cu->cuMemcpyDtoH_v2(&sum, words[0], 4));
    assert_int_equal(sum, N * NODES);
    OK(cu->cuGraphExecDestroy(execs[0]));
    OK(cu->cuGraphDestroy(empty));
    OK(cu->cuGraphDestroy(graph));
}

/* What reaches across the proxies in other ways is refused where CUDA can say it, and the same work without a graph
 * is done. */
static void nodes_across_two_proxies(void **state)
{
    CUcontext second;
    CUdeviceptr here, there;
    CUevent events[2];
    CUstream streams[2];
    CUgraph graph;
    CUgraphNode node;
    CUgraphExec exec = NULL;
    CUstreamCaptureStatus capturing;
    uint32_t value = 0;
    OK(cu->cuMemAlloc_v2(&here, 4));
    OK(cu->cuMemsetD32_v2(here, 7, 1));
    OK(cu->cuEventCreate(&events[0], CU_EVENT_DISABLE_TIMING));
    OK(cu->cuStreamCreate(&streams[0], CU_STREAM_NON_BLOCKING));
    OK(cu->cuCtxCreate_v2(&second, 0, 1));
    OK(cu->cuMemAlloc_v2(&there, 4));
    OK(cu->cuEventCreate(&events[1], CU_EVENT_DISABLE_TIMING));
    OK(cu->cuStreamCreate(&streams[1], CU_STREAM_NON_BLOCKING));
    OK(cu->cuCtxSetCurrent(*state));

    /* A copy between them. */
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = here,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = there,
                          .WidthInBytes = 4,
                          .Height = 1,
                          .Depth = 1};
    OK(cu->cuGraphCreate(&graph, 0));
    FAILS(CUDA_ERROR_NOT_SUPPORTED, cu->cuGraphAddMemcpyNode(&node, graph, NULL, 0, &copy, *state));
    /* A fill of the other's memory; a wait for the other's event beside work of this one. */
    CUDA_MEMSET_NODE_PARAMS fill = {there, 0, 3, 4, 1, 1};
    FAILS(CUDA_ERROR_NOT_SUPPORTED, cu->cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, *state));
    fill.dst = here;
    OK(cu->cuGraphAddMemsetNode(&node, graph, NULL, 0, &fill, *state));
    OK(cu->cuGraphAddEventWaitNode(&node, graph, &node, 1, events[1]));
    FAILS(CUDA_ERROR_NOT_SUPPORTED, cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu->cuGraphDestroy(graph));

    /* The same by capture: the stream of the other device does not join, and is waited for by none. */
    OK(cu->cuEventRecord(events[1], streams[1]));
    OK(cu->cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cu->cuMemsetD32Async(here, 8, 1, streams[0]));
    OK(cu->cuEventRecord(events[0], streams[0]));
    FAILS(CUDA_ERROR_NOT_SUPPORTED, cu->cuStreamWaitEvent(streams[1], events[0], 0));
    FAILS(CUDA_ERROR_NOT_SUPPORTED, cu->cuStreamWaitEvent(streams[0], events[1], 0));
    OK(cu->cuStreamEndCapture(streams[0], &graph)); /* it has the fill, and nothing else */
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu->cuGraphLaunch(exec, streams[0]));
    OK(cu->cuStreamSynchronize(streams[0]));
    OK(cu->cuMemcpyDtoH_v2(&value, here, 4));
    assert_int_equal(value, 8);
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
    OK(cu->cuStreamBeginCapture_v2(streams[0], CU_STREAM_CAPTURE_MODE_GLOBAL));
    FAILS(CUDA_ERROR_NOT_SUPPORTED,
          cu->cuMemcpyPeerAsync(there, second, here, *state, 4, streams[0]));
    OK(cu->cuStreamIsCapturing(streams[0], &capturing));
    if (capturing == CU_STREAM_CAPTURE_STATUS_ACTIVE) {
        OK(cu->cuStreamEndCapture(streams[0], &graph));
        OK(cu->cuGraphDestroy(graph));
    }

    OK(cu->cuMemcpyPeerAsync(there, second, here, *state, 4, streams[0]));
    OK(cu->cuStreamSynchronize(streams[0]));
    OK(cu->cuMemcpyDtoH_v2(&value, there, 4));
    assert_int_equal(value, 8);
    OK(cu->cuCtxDestroy_v2(second));
    OK(cu->cuCtxSetCurrent(*state));
    OK(cu->cuStreamDestroy_v2(streams[0]));
    OK(cu->cuEventDestroy_v2(events[0]));
    OK(cu->cuMemFree_v2(here));
}

/* A node with more dependencies than one frame holds, and a graph larger than the batch. */
static void large_graphs(void **state)
{
    enum { WIDE = 5000 };
    CUgraphNode *nodes = malloc(WIDE * sizeof(*nodes)), end;
    CUdeviceptr word;
    CUgraph graph;
    CUgraphExec exec;
    uint32_t sum;
    (void)state;
    OK(cu->cuMemAlloc_v2(&word, 4));
    OK(cu->cuMemsetD32_v2(word, 0, 1));
    OK(cu->cuGraphCreate(&graph, 0));
    for (int i = 0; i < WIDE; i++)
        OK(cu->cuGraphAddEmptyNode(&nodes[i], graph, NULL, 0));
    void *params[] = {&word};
    CUDA_KERNEL_NODE_PARAMS k = one_block(kernel("add_at"), params);
    OK(cu->cuGraphAddKernelNode_v2(&end, graph, nodes, WIDE, &k));
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu->cuGraphLaunch(exec, NULL));
    OK(cu->cuMemcpyDtoH_v2(&sum, word, 4));
    assert_int_equal(sum, N);
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
    free(nodes);
}

/* What the client cannot know is told by the instantiation, and leaves the context usable. */
static void failed_instantiations(void **state)
{
    CUevent event;
    CUdeviceptr word;
    CUgraph graph;
    CUgraphNode set, wait, blamed = NULL;
    CUgraphExec exec;
    uint32_t value = 0;
    (void)state;
    OK(cu->cuMemAlloc_v2(&word, 4));
    OK(cu->cuEventCreate(&event, 0));
    OK(cu->cuGraphCreate(&graph, 0));
    CUDA_MEMSET_NODE_PARAMS fill = {word, 0, 3, 4, 1, 1};
    OK(cu->cuGraphAddMemsetNode(&set, graph, NULL, 0, &fill, NULL));
    OK(cu->cuGraphAddEventWaitNode(&wait, graph, &set, 1, event));
    OK(cu->cuEventDestroy_v2(event));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuGraphInstantiate_v2(&exec, graph, &blamed, NULL, 0));
    assert_ptr_equal(blamed, wait);
    OK(cu->cuGraphDestroyNode(wait));
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu->cuGraphLaunch(exec, NULL));
    OK(cu->cuMemcpyDtoH_v2(&value, word, 4));
    assert_int_equal(value, 3);
    OK(cu->cuMemFree_v2(word));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphExecMemsetNodeSetParams(exec, set, &fill, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu->cuCtxSynchronize());
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(a_launch_is_one_small_frame), IN_CONTEXT(only_changes_travel),
        IN_CONTEXT(captures_send_nothing),       IN_CONTEXT(threads_capture_their_own_streams),
        IN_CONTEXT(contexts_end_their_captures), IN_CONTEXT(graphs_of_two_devices),
        IN_CONTEXT(nodes_across_two_proxies),    IN_CONTEXT(large_graphs),
        IN_CONTEXT(failed_instantiations),
    };
    return OVER_TWO_PROXIES(tests);
}
