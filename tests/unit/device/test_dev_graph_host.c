/* Graphs that read and write the program's memory and call its functions. */
#include "device_kernels.h"

enum { N = 256 };

static CUDA_MEMCPY3D copy_of(void *dst_host, CUdeviceptr dst, const void *src_host, CUdeviceptr src,
                             size_t bytes)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = src_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
                           .srcHost = src_host,
                           .srcDevice = src,
                           .dstMemoryType = dst_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
                           .dstHost = dst_host,
                           .dstDevice = dst,
                           .WidthInBytes = bytes,
                           .Height = 1,
                           .Depth = 1};
}

/* Holds a stream back until the word is written by another one. */
typedef struct {
    CUdeviceptr word;
    CUstream other;
} gate_t;

static gate_t close_gate(CUstream stream)
{
    gate_t gate;
    OK(cu->cuMemAlloc_v2(&gate.word, 4));
    OK(cu->cuMemsetD32_v2(gate.word, 0, 1));
    OK(cu->cuCtxSynchronize_v2(NULL));
    OK(cu->cuStreamCreate(&gate.other, CU_STREAM_NON_BLOCKING));
    OK(cu->cuStreamWaitValue32_v2(stream, gate.word, 1, CU_STREAM_WAIT_VALUE_EQ));
    return gate;
}

static void open_gate(gate_t *gate)
{
    OK(cu->cuStreamWriteValue32_v2(gate->other, gate->word, 1, 0));
}

static void end_gate(gate_t *gate)
{
    OK(cu->cuStreamDestroy_v2(gate->other));
    OK(cu->cuMemFree_v2(gate->word));
}

typedef struct {
    uint32_t *in, *out;
    int calls;
    uint32_t seen;
} plan_t;

/* Between the launches' copies: makes the next input of the last output. */
static void next_input(void *user)
{
    plan_t *plan = user;
    plan->calls++;
    plan->seen = plan->out ? plan->out[N - 1] : 0;
    for (int i = 0; plan->in && i < N; i++)
        plan->in[i] = plan->out[i] + 1;
}

/* host -> device -> host -> function that writes the host's memory -> device -> host: every step sees what
 * the one before it has done, in all launches. */
static void memory_is_used_when_its_node_runs(void **state)
{
    uint32_t a[N], b[N], c[N];
    plan_t plan = {a, b, 0, 0};
    CUdeviceptr data;
    CUstream stream;
    CUgraph graph;
    CUgraphNode up, down, call, up2, down2, here;
    CUgraphExec exec;
    (void)state;
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu->cuMemAlloc_v2(&data, sizeof(a)));
    OK(cu->cuGraphCreate(&graph, 0));
    CUDA_MEMCPY3D copy = copy_of(NULL, data, a, 0, sizeof(a));
    OK(cu->cuGraphAddMemcpyNode(&up, graph, NULL, 0, &copy, NULL));
    copy = copy_of(b, 0, NULL, data, sizeof(b));
    OK(cu->cuGraphAddMemcpyNode(&down, graph, &up, 1, &copy, NULL));
    CUDA_HOST_NODE_PARAMS host = {next_input, &plan};
    OK(cu->cuGraphAddHostNode(&call, graph, &down, 1, &host));
    copy = copy_of(NULL, data, a, 0, sizeof(a));
    OK(cu->cuGraphAddMemcpyNode(&up2, graph, &call, 1, &copy, NULL));
    copy = copy_of(c, 0, NULL, data, sizeof(c));
    OK(cu->cuGraphAddMemcpyNode(&down2, graph, &up2, 1, &copy, NULL));
    copy = copy_of(a, 0, c, 0, sizeof(c)); /* from host to host */
    OK(cu->cuGraphAddMemcpyNode(&here, graph, &down2, 1, &copy, NULL));
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    OK(cu->cuGraphDestroy(graph));
    for (uint32_t i = 0; i < N; i++)
        a[i] = i;
    for (int i = 0; i < 5; i++)
        OK(cu->cuGraphLaunch(exec, stream));
    OK(cu->cuStreamSynchronize(stream));
    assert_int_equal(plan.calls, 5);
    assert_int_equal(plan.seen, N - 1 + 4);
    for (uint32_t i = 0; i < N; i++) {
        assert_int_equal(b[i], i + 4);
        assert_int_equal(c[i], i + 5);
        assert_int_equal(a[i], i + 5);
    }
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuMemFree_v2(data));
    OK(cu->cuStreamDestroy_v2(stream));
}

/* A box with rows and layers apart on the host's side, both ways. */
static void boxes(void **state)
{
    enum { W = 40, H = 7, D = 3, PITCH = 64, ROWS = 9 };
    static uint8_t in[PITCH * ROWS * (D + 1)], out[PITCH * ROWS * (D + 1)];
    CUdeviceptr data;
    CUgraph graph;
    CUgraphNode up, down;
    CUgraphExec exec;
    (void)state;
    OK(cu->cuMemAlloc_v2(&data, 48 * 8 * D));
    for (size_t i = 0; i < sizeof(in); i++)
        in[i] = (uint8_t)(i * 7 + i / 251);
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = in,
                          .srcPitch = PITCH,
                          .srcHeight = ROWS,
                          .srcXInBytes = 5,
                          .srcY = 1,
                          .srcZ = 1,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = data,
                          .dstPitch = 48,
                          .dstHeight = 8,
                          .WidthInBytes = W,
                          .Height = H,
                          .Depth = D};
    OK(cu->cuGraphCreate(&graph, 0));
    OK(cu->cuGraphAddMemcpyNode(&up, graph, NULL, 0, &copy, NULL));
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = data;
    copy.srcPitch = 48;
    copy.srcHeight = 8;
    copy.srcXInBytes = copy.srcY = copy.srcZ = 0;
    copy.dstMemoryType = CU_MEMORYTYPE_HOST;
    copy.dstHost = out;
    copy.dstPitch = PITCH;
    copy.dstHeight = ROWS;
    copy.dstXInBytes = 5;
    copy.dstY = copy.dstZ = 1;
    OK(cu->cuGraphAddMemcpyNode(&down, graph, &up, 1, &copy, NULL));
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    memset(out, 0xee, sizeof(out));
    OK(cu->cuGraphLaunch(exec, NULL));
    OK(cu->cuStreamSynchronize(NULL));
    for (size_t i = 0; i < sizeof(in); i++) {
        size_t x = i % PITCH, y = i / PITCH % ROWS, z = i / PITCH / ROWS;
        int inside = x >= 5 && x < 5 + W && y >= 1 && y < 1 + H && z >= 1 && z < 1 + D;
        assert_int_equal(out[i], inside ? in[i] : 0xee);
    }
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
    OK(cu->cuMemFree_v2(data));
}

/* What is set after a launch is for the next one, although the first has not begun yet. */
static void changes_are_for_later_launches(void **state)
{
    uint32_t first[N], second[N], third[N];
    plan_t one = {0}, two = {0};
    CUdeviceptr data;
    CUstream stream;
    CUgraph graph;
    CUgraphNode down, call;
    CUgraphExec exec;
    (void)state;
    memset(first, 0, sizeof(first));
    memset(second, 0, sizeof(second));
    memset(third, 0, sizeof(third));
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu->cuMemAlloc_v2(&data, sizeof(first)));
    OK(cu->cuMemsetD32_v2(data, 7, N));
    OK(cu->cuGraphCreate(&graph, 0));
    CUDA_MEMCPY3D copy = copy_of(first, 0, NULL, data, sizeof(first));
    OK(cu->cuGraphAddMemcpyNode(&down, graph, NULL, 0, &copy, NULL));
    CUDA_HOST_NODE_PARAMS host = {next_input, &one};
    OK(cu->cuGraphAddHostNode(&call, graph, &down, 1, &host));
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    gate_t gate = close_gate(stream);
    OK(cu->cuGraphLaunch(exec, stream));
    copy = copy_of(second, 0, NULL, data, sizeof(second));
    OK(cu->cuGraphExecMemcpyNodeSetParams(exec, down, &copy, NULL));
    host = (CUDA_HOST_NODE_PARAMS){next_input, &two};
    OK(cu->cuGraphExecHostNodeSetParams(exec, call, &host));
    OK(cu->cuGraphLaunch(exec, stream));
    copy = copy_of(third, 0, NULL, data, sizeof(third));
    OK(cu->cuGraphExecMemcpyNodeSetParams(exec, down, &copy, NULL));
    OK(cu->cuGraphNodeSetEnabled(exec, down, 0));
    OK(cu->cuGraphLaunch(exec, stream));
    copy = copy_of(NULL, data, first, 0, sizeof(first));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphExecMemcpyNodeSetParams(exec, down, &copy, NULL));
    FAILS(CUDA_ERROR_NOT_READY, cu->cuStreamQuery(stream));
    assert_int_equal(one.calls, 0);
    open_gate(&gate);
    OK(cu->cuStreamSynchronize(stream));
    assert_int_equal(one.calls, 1);
    assert_int_equal(two.calls, 2);
    assert_int_equal(first[N - 1], 7);
    assert_int_equal(second[N - 1], 7);
    assert_int_equal(third[N - 1], 0);
    end_gate(&gate);
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
    OK(cu->cuMemFree_v2(data));
    OK(cu->cuStreamDestroy_v2(stream));
}

/* The executable graph is destroyed while its launches wait: they run to their end. */
static void launches_outlive_their_graph(void **state)
{
    static uint8_t in[3 << 20], out[3 << 20];
    plan_t plan = {0};
    CUdeviceptr data;
    CUstream stream;
    CUgraph graph;
    CUgraphNode up, down, call;
    CUgraphExec exec;
    (void)state;
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu->cuMemAlloc_v2(&data, sizeof(in)));
    OK(cu->cuGraphCreate(&graph, 0));
    CUDA_MEMCPY3D copy = copy_of(NULL, data, in, 0, sizeof(in));
    OK(cu->cuGraphAddMemcpyNode(&up, graph, NULL, 0, &copy, NULL));
    copy = copy_of(out, 0, NULL, data, sizeof(out));
    OK(cu->cuGraphAddMemcpyNode(&down, graph, &up, 1, &copy, NULL));
    CUDA_HOST_NODE_PARAMS host = {next_input, &plan};
    OK(cu->cuGraphAddHostNode(&call, graph, &down, 1, &host));
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    gate_t gate = close_gate(stream);
    for (int i = 0; i < 3; i++)
        OK(cu->cuGraphLaunch(exec, stream));
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
    for (size_t i = 0; i < sizeof(in); i++)
        in[i] = (uint8_t)(i * 3 + i / 4099);
    open_gate(&gate);
    OK(cu->cuStreamSynchronize(stream));
    assert_int_equal(plan.calls, 3);
    assert_memory_equal(in, out, sizeof(in));
    end_gate(&gate);
    OK(cu->cuMemFree_v2(data));
    OK(cu->cuStreamDestroy_v2(stream));
}

/* Host functions alone need no context, and run once for each launch, in order. */
static void note_order(void *user)
{
    uint32_t **at = user;
    **at = 1 + (uint32_t)(*at)[-1];
    ++*at;
}

static void functions_alone(void **state)
{
    static uint32_t order[201];
    uint32_t *at = order + 1;
    CUgraph graph, inner;
    CUgraphNode a, b, child;
    CUgraphExec exec;
    (void)state;
    memset(order, 0, sizeof(order));
    CUDA_HOST_NODE_PARAMS host = {note_order, &at};
    OK(cu->cuGraphCreate(&inner, 0));
    OK(cu->cuGraphAddHostNode(&a, inner, NULL, 0, &host));
    OK(cu->cuGraphCreate(&graph, 0));
    OK(cu->cuGraphAddChildGraphNode(&child, graph, NULL, 0, inner));
    OK(cu->cuGraphAddHostNode(&b, graph, &child, 1, &host));
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int i = 0; i < 100; i++)
        OK(cu->cuGraphLaunch(exec, NULL));
    OK(cu->cuCtxSynchronize_v2(NULL));
    assert_ptr_equal(at, order + 201);
    assert_int_equal(order[200], 200);
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
    OK(cu->cuGraphDestroy(inner));
}

/* Captured copies of every kind and page-locked memory, which a kernel in the same graph uses too. */
static void captured_copies(void **state)
{
    CUfunction function = kernel("count_up");
    uint32_t *pinned, pageable[N], bias = 5, n = N;
    CUdeviceptr data, there;
    CUstream stream;
    CUgraph graph;
    CUgraphExec exec;
    size_t nodes = 0;
    (void)state;
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu->cuMemAlloc_v2(&data, N * 4));
    OK(cu->cuMemHostAlloc((void **)&pinned, N * 4, CU_MEMHOSTALLOC_DEVICEMAP));
    OK(cu->cuMemHostGetDevicePointer_v2(&there, pinned, 0));
    void *params[] = {&there, &bias, &n};
    OK(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(cu->cuLaunchKernel(function, 1, 1, 1, N, 1, 1, 0, stream, params, NULL));
    OK(cu->cuMemcpyHtoDAsync_v2(data, pinned, N * 4, stream));
    OK(cu->cuMemcpyDtoHAsync_v2(pageable, data, N * 2, stream));
    CUDA_MEMCPY2D rest = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = data + N * 2,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = pageable + N / 2,
                          .WidthInBytes = N * 2,
                          .Height = 1};
    OK(cu->cuMemcpy2DAsync_v2(&rest, stream));
    OK(cu->cuMemsetD2D32Async(data, 16, 9, 2, 3, stream));
    OK(cu->cuMemcpyAsync((CUdeviceptr)(uintptr_t)pinned, data, 16, stream));
    OK(cu->cuStreamEndCapture(stream, &graph));
    OK(cu->cuGraphGetNodes(graph, NULL, &nodes));
    assert_int_equal(nodes, 6);
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int round = 0; round < 3; round++) {
        memset(pageable, 0, sizeof(pageable));
        memset(pinned, 0, N * 4);
        OK(cu->cuGraphLaunch(exec, stream));
        OK(cu->cuStreamSynchronize(stream));
        for (uint32_t i = 0; i < N; i++) {
            assert_int_equal(pageable[i], i + 5);
            assert_int_equal(pinned[i], i < 2 ? 9 : i + 5);
        }
    }
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
    OK(cu->cuMemFreeHost(pinned));
    OK(cu->cuMemFree_v2(data));
    OK(cu->cuStreamDestroy_v2(stream));
}

/* Copies from the program to an array, between arrays and back, by nodes and captured. */
static void arrays(void **state)
{
    enum { W = 12, H = 5 };
    CUarray a, b;
    CUDA_ARRAY_DESCRIPTOR shape = {W, H, CU_AD_FORMAT_UNSIGNED_INT32, 1};
    uint32_t in[H][W], out[H][W];
    CUgraph graph;
    CUgraphNode up, over;
    CUgraphExec exec;
    CUstream stream;
    (void)state;
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu->cuArrayCreate_v2(&a, &shape));
    OK(cu->cuArrayCreate_v2(&b, &shape));
    for (uint32_t y = 0; y < H; y++)
        for (uint32_t x = 0; x < W; x++)
            in[y][x] = 100 * y + x;
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = in,
                          .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                          .dstArray = a,
                          .WidthInBytes = W * 4,
                          .Height = H,
                          .Depth = 1};
    OK(cu->cuGraphCreate(&graph, 0));
    OK(cu->cuGraphAddMemcpyNode(&up, graph, NULL, 0, &copy, NULL));
    copy = (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                           .srcArray = a,
                           .srcXInBytes = 4,
                           .srcY = 1,
                           .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                           .dstArray = b,
                           .dstXInBytes = 8,
                           .dstY = 2,
                           .WidthInBytes = (W - 3) * 4,
                           .Height = H - 2,
                           .Depth = 1};
    OK(cu->cuGraphAddMemcpyNode(&over, graph, &up, 1, &copy, NULL));
    copy.WidthInBytes = W * 4;
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuGraphAddMemcpyNode(&over, graph, &up, 1, &copy, NULL));
    OK(cu->cuStreamBeginCaptureToGraph(stream, graph, &over, NULL, 1,
                                       CU_STREAM_CAPTURE_MODE_RELAXED));
    CUDA_MEMCPY2D down = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                          .srcArray = b,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = out,
                          .dstPitch = W * 4,
                          .WidthInBytes = W * 4,
                          .Height = H};
    OK(cu->cuMemcpy2DAsync_v2(&down, stream));
    OK(cu->cuStreamEndCapture(stream, &graph));
    OK(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (int round = 0; round < 2; round++) {
        memset(out, 0, sizeof(out));
        in[1][1] += 1000;
        OK(cu->cuGraphLaunch(exec, stream));
        OK(cu->cuStreamSynchronize(stream));
        for (uint32_t y = 2; y < H; y++)
            for (uint32_t x = 2; x < W - 1; x++)
                assert_int_equal(out[y][x], in[y - 1][x - 1]);
    }
    OK(cu->cuGraphExecDestroy(exec));
    OK(cu->cuGraphDestroy(graph));
    OK(cu->cuArrayDestroy(a));
    OK(cu->cuArrayDestroy(b));
    OK(cu->cuStreamDestroy_v2(stream));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(memory_is_used_when_its_node_runs),
        IN_CONTEXT(boxes),
        IN_CONTEXT(changes_are_for_later_launches),
        IN_CONTEXT(launches_outlive_their_graph),
        IN_CONTEXT(functions_alone),
        IN_CONTEXT(captured_copies),
        IN_CONTEXT(arrays),
    };
    return cmocka_run_group_tests(tests, device_setup, NULL);
}
