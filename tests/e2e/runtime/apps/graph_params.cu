// Nodes that are asked for their parameters and given others, in graphs and in executable ones; edges, events,
// user objects, and captures that go on in a graph.
#include "check.h"
#include <cstring>
#include <unistd.h>

enum { N = 64, BYTES = N * 4 };

__constant__ int factors[N];
__device__ int results[N];

__global__ void scale(int *x, int by)
{
    x[threadIdx.x] = by * factors[threadIdx.x] + x[threadIdx.x];
}

__global__ void put(int *x, int v)
{
    x[threadIdx.x] = v;
}

static int *device, *second, host[N], source[N];
static cudaStream_t s;

static void CUDART_CB bump(void *user)
{
    ++*static_cast<int *>(user);
}

static void CUDART_CB bump_ten(void *user)
{
    *static_cast<int *>(user) += 10;
}

static cudaGraphExec_t made(cudaGraph_t graph)
{
    cudaGraphExec_t exec;
    OK(cudaGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

static void launch(cudaGraphExec_t exec)
{
    OK(cudaGraphLaunch(exec, s));
    OK(cudaStreamSynchronize(s));
}

static cudaGraphNodeType type_of(cudaGraphNode_t node)
{
    cudaGraphNodeType type;
    OK(cudaGraphNodeGetType(node, &type));
    return type;
}

static void kernels()
{
    cudaGraph_t graph;
    cudaGraphNode_t node, next;
    int by = 2, v = 5;
    void *args[] = {&device, &by}, *put_args[] = {&device, &v};
    cudaKernelNodeParams p = {}, got;
    OK(cudaGraphCreate(&graph, 0));
    p.func = (void *)put, p.gridDim = dim3(1), p.blockDim = dim3(N), p.kernelParams = put_args;
    OK(cudaGraphAddKernelNode(&node, graph, nullptr, 0, &p));
    OK(cudaGraphKernelNodeGetParams(node, &got));
    EXPECT(got.blockDim.x == N && got.gridDim.x == 1 && *(int *)got.kernelParams[1] == 5);
    cudaGraphNode_t before = node;
    p.func = (void *)scale, p.kernelParams = args;
    OK(cudaGraphAddKernelNode(&next, graph, &before, 1, &p));
    by = 3;
    OK(cudaGraphKernelNodeSetParams(next, &p));
    cudaKernelNodeAttrValue value, seen;
    std::memset(&value, 0, sizeof(value));
    value.priority = 0;
    OK(cudaGraphKernelNodeSetAttribute(next, cudaLaunchAttributePriority, &value));
    OK(cudaGraphKernelNodeCopyAttributes(node, next));
    OK(cudaGraphKernelNodeGetAttribute(node, cudaLaunchAttributePriority, &seen));
    EXPECT(seen.priority == 0);
    EXPECT(type_of(next) == cudaGraphNodeTypeKernel);
    for (int i = 0; i < N; i++)
        source[i] = i;
    OK(cudaMemcpyToSymbol(factors, source, BYTES));
    cudaGraphExec_t exec = made(graph);
    launch(exec);
    OK(cudaMemcpy(host, device, BYTES, cudaMemcpyDeviceToHost));
    EXPECT(host[0] == 5 && host[10] == 35);
    unsigned on = 7;
    OK(cudaGraphNodeSetEnabled(exec, next, 0));
    OK(cudaGraphNodeGetEnabled(exec, next, &on));
    EXPECT(on == 0);
    launch(exec);
    OK(cudaMemcpy(host, device, BYTES, cudaMemcpyDeviceToHost));
    EXPECT(host[10] == 5);
    cudaGraphNodeParams any = {};
    any.type = cudaGraphNodeTypeKernel;
    any.kernel.func = (void *)put, any.kernel.gridDim = dim3(1), any.kernel.blockDim = dim3(N);
    any.kernel.kernelParams = put_args;
    v = 8;
    OK(cudaGraphNodeSetParams(node, &any)); // the executable graph has its own
    launch(exec);
    OK(cudaMemcpy(host, device, BYTES, cudaMemcpyDeviceToHost));
    EXPECT(host[10] == 5);
    OK(cudaGraphExecDestroy(exec));
    exec = made(graph);
    launch(exec);
    OK(cudaMemcpy(host, device, BYTES, cudaMemcpyDeviceToHost));
    EXPECT(host[10] == 38);
    cudaMemsetParams wrong;
    EXPECT(cudaGraphMemsetNodeGetParams(node, &wrong) == cudaErrorInvalidValue);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    (void)cudaGetLastError();
}

static void fills()
{
    cudaGraph_t graph;
    cudaGraphNode_t node;
    cudaMemsetParams p = {}, got;
    OK(cudaGraphCreate(&graph, 0));
    p.dst = device, p.elementSize = 4, p.width = N, p.height = 1, p.value = 11;
    OK(cudaGraphAddMemsetNode(&node, graph, nullptr, 0, &p));
    OK(cudaGraphMemsetNodeGetParams(node, &got));
    EXPECT(got.dst == device && got.value == 11 && got.width == N && got.elementSize == 4);
    p.value = 12;
    OK(cudaGraphMemsetNodeSetParams(node, &p));
    cudaGraphExec_t exec = made(graph);
    launch(exec);
    OK(cudaMemcpy(host, device, BYTES, cudaMemcpyDeviceToHost));
    EXPECT(host[N - 1] == 12);
    p.value = 13;
    OK(cudaGraphExecMemsetNodeSetParams(exec, node, &p));
    launch(exec);
    OK(cudaMemcpy(host, device, BYTES, cudaMemcpyDeviceToHost));
    EXPECT(host[N - 1] == 13);
    p.elementSize = 3;
    EXPECT(cudaGraphMemsetNodeSetParams(node, &p) == cudaErrorInvalidValue);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    (void)cudaGetLastError();
}

static cudaMemcpy3DParms row(void *to, void *from, cudaMemcpyKind kind)
{
    cudaMemcpy3DParms p = {};
    p.srcPtr = make_cudaPitchedPtr(from, BYTES, BYTES, 1);
    p.dstPtr = make_cudaPitchedPtr(to, BYTES, BYTES, 1);
    p.extent = make_cudaExtent(BYTES, 1, 1);
    p.kind = kind;
    return p;
}

static void copies()
{
    cudaGraph_t graph;
    cudaGraphNode_t up, down, to, from;
    cudaMemcpy3DParms p = row(device, source, cudaMemcpyHostToDevice), got;
    int other[N];
    for (int i = 0; i < N; i++)
        source[i] = 100 + i, other[i] = 200 + i;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddMemcpyNode(&up, graph, nullptr, 0, &p));
    OK(cudaGraphMemcpyNodeGetParams(up, &got));
    EXPECT(got.srcPtr.ptr == source && got.dstPtr.ptr == device && got.extent.width == BYTES);
    EXPECT(got.kind == cudaMemcpyHostToDevice && got.srcArray == nullptr);
    OK(cudaGraphAddMemcpyNodeToSymbol(&to, graph, &up, 1, results, device, BYTES / 2, 0,
                                      cudaMemcpyDeviceToDevice));
    OK(cudaGraphAddMemcpyNodeFromSymbol(&from, graph, &to, 1, second, results, BYTES / 2, 0,
                                        cudaMemcpyDeviceToDevice));
    OK(cudaGraphAddMemcpyNode1D(&down, graph, &from, 1, host, second, BYTES / 2,
                                cudaMemcpyDeviceToHost));
    cudaGraphExec_t exec = made(graph);
    std::memset(host, 0, BYTES);
    launch(exec);
    EXPECT(host[0] == 100 && host[N / 2 - 1] == 100 + N / 2 - 1 && host[N / 2] == 0);

    p = row(device, other, cudaMemcpyHostToDevice);
    OK(cudaGraphExecMemcpyNodeSetParams(exec, up, &p));
    OK(cudaGraphExecMemcpyNodeSetParamsToSymbol(exec, to, results, device + 1, BYTES / 2, 0,
                                                cudaMemcpyDeviceToDevice));
    OK(cudaGraphExecMemcpyNodeSetParamsFromSymbol(exec, from, second, results, BYTES / 4, 4,
                                                  cudaMemcpyDeviceToDevice));
    OK(cudaGraphExecMemcpyNodeSetParams1D(exec, down, host + 4, second, BYTES / 4,
                                          cudaMemcpyDeviceToHost));
    std::memset(host, 0, BYTES);
    launch(exec);
    EXPECT(host[3] == 0 && host[4] == 202 && host[4 + N / 4 - 1] == 202 + N / 4 - 1);
    EXPECT(host[4 + N / 4] == 0);
    OK(cudaGraphExecDestroy(exec));

    // The graph itself is as it was, until it is told.
    p = row(device, other, cudaMemcpyHostToDevice);
    OK(cudaGraphMemcpyNodeSetParams(up, &p));
    OK(cudaGraphMemcpyNodeSetParamsToSymbol(to, results, device, BYTES / 2, 0,
                                            cudaMemcpyDeviceToDevice));
    OK(cudaGraphMemcpyNodeSetParamsFromSymbol(from, second, results, BYTES / 2, 0,
                                              cudaMemcpyDeviceToDevice));
    OK(cudaGraphMemcpyNodeSetParams1D(down, host + 1, second, 8, cudaMemcpyDeviceToHost));
    exec = made(graph);
    std::memset(host, 0, BYTES);
    launch(exec);
    EXPECT(host[0] == 0 && host[1] == 200 && host[2] == 201 && host[3] == 0);
    EXPECT(cudaGraphMemcpyNodeSetParamsToSymbol(to, results, device, BYTES, 4,
                                                cudaMemcpyDeviceToDevice) == cudaErrorInvalidValue);
    EXPECT(cudaGraphMemcpyNodeSetParamsToSymbol(to, host, device, 4, 0, cudaMemcpyDeviceToDevice) ==
           cudaErrorInvalidSymbol);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    (void)cudaGetLastError();
}

static void hosts_and_events()
{
    cudaGraph_t graph;
    cudaGraphNode_t call, record, wait, empty;
    cudaEvent_t a, b, got_event;
    int first = 0, other = 0;
    cudaHostNodeParams p = {bump, &first}, got;
    OK(cudaEventCreate(&a));
    OK(cudaEventCreate(&b));
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddEmptyNode(&empty, graph, nullptr, 0));
    OK(cudaGraphAddHostNode(&call, graph, &empty, 1, &p));
    OK(cudaGraphHostNodeGetParams(call, &got));
    EXPECT(got.fn == bump && got.userData == &first);
    OK(cudaGraphAddEventRecordNode(&record, graph, &call, 1, a));
    OK(cudaGraphAddEventWaitNode(&wait, graph, &record, 1, a));
    OK(cudaGraphEventRecordNodeGetEvent(record, &got_event));
    EXPECT(got_event == a);
    OK(cudaGraphEventWaitNodeGetEvent(wait, &got_event));
    EXPECT(got_event == a);
    EXPECT(type_of(empty) == cudaGraphNodeTypeEmpty && type_of(call) == cudaGraphNodeTypeHost);
    EXPECT(type_of(record) == cudaGraphNodeTypeEventRecord &&
           type_of(wait) == cudaGraphNodeTypeWaitEvent);
    cudaGraphExec_t exec = made(graph);
    launch(exec);
    EXPECT(first == 1 && cudaEventQuery(a) == cudaSuccess);
    OK(cudaGraphExecEventRecordNodeSetEvent(exec, record, b));
    OK(cudaGraphExecEventWaitNodeSetEvent(exec, wait, b));
    p.userData = &other, p.fn = bump_ten;
    OK(cudaGraphExecHostNodeSetParams(exec, call, &p));
    launch(exec);
    float ms = -1;
    OK(cudaEventElapsedTime(&ms, a, b));
    EXPECT(ms >= 0 && first == 1 && other == 10);
    OK(cudaGraphEventRecordNodeSetEvent(record, b));
    OK(cudaGraphEventWaitNodeSetEvent(wait, b));
    OK(cudaGraphEventRecordNodeGetEvent(record, &got_event));
    EXPECT(got_event == b);
    OK(cudaGraphHostNodeSetParams(call, &p));
    OK(cudaGraphHostNodeGetParams(call, &got));
    EXPECT(got.fn == bump_ten && got.userData == &other);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaEventDestroy(a));
    OK(cudaEventDestroy(b));
}

static void memory()
{
    cudaGraph_t graph;
    cudaGraphNode_t alloc, set, give;
    cudaMemAllocNodeParams p = {}, got;
    void *freed = nullptr;
    OK(cudaGraphCreate(&graph, 0));
    p.poolProps.allocType = cudaMemAllocationTypePinned;
    p.poolProps.location.type = cudaMemLocationTypeDevice;
    p.bytesize = 5000;
    OK(cudaGraphAddMemAllocNode(&alloc, graph, nullptr, 0, &p));
    OK(cudaGraphMemAllocNodeGetParams(alloc, &got));
    EXPECT(got.dptr == p.dptr && got.bytesize >= 5000);
    cudaMemsetParams m = {};
    m.dst = p.dptr, m.elementSize = 1, m.width = 5000, m.height = 1;
    OK(cudaGraphAddMemsetNode(&set, graph, &alloc, 1, &m));
    OK(cudaGraphAddMemFreeNode(&give, graph, &set, 1, p.dptr));
    OK(cudaGraphMemFreeNodeGetParams(give, &freed));
    EXPECT(freed == p.dptr);
    cudaGraphExec_t exec = made(graph);
    launch(exec);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    unsigned long long high = 1, zero = 0;
    OK(cudaDeviceSetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &zero));
    OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &high));
    EXPECT(high == 0);
}

static size_t edges_of(cudaGraph_t graph)
{
    size_t count = 0;
    OK(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
    return count;
}

static void edges()
{
    cudaGraph_t graph, clone;
    cudaGraphNode_t n[4], from[4], to[4], found;
    size_t count = 4;
    OK(cudaGraphCreate(&graph, 0));
    for (auto &node : n)
        OK(cudaGraphAddEmptyNode(&node, graph, nullptr, 0));
    cudaGraphNode_t a[] = {n[0], n[0], n[1]}, b[] = {n[1], n[2], n[3]};
    OK(cudaGraphAddDependencies(graph, a, b, nullptr, 3));
    EXPECT(cudaGraphAddDependencies(graph, a, b, nullptr, 1) ==
           cudaErrorInvalidValue); // it is there
    OK(cudaGraphGetEdges(graph, from, to, nullptr, &count));
    EXPECT(count == 3 && from[0] == n[0]);
    count = 4;
    OK(cudaGraphGetRootNodes(graph, from, &count));
    EXPECT(count == 1 && from[0] == n[0]);
    count = 4;
    OK(cudaGraphNodeGetDependencies(n[3], from, nullptr, &count));
    EXPECT(count == 1 && from[0] == n[1]);
    count = 4;
    OK(cudaGraphNodeGetDependentNodes(n[0], to, nullptr, &count));
    EXPECT(count == 2 && to[0] != to[1]);
    OK(cudaGraphClone(&clone, graph));
    OK(cudaGraphNodeFindInClone(&found, n[3], clone));
    EXPECT(found != n[3]);
    count = 4;
    OK(cudaGraphNodeGetDependencies(found, from, nullptr, &count));
    EXPECT(count == 1 && from[0] != n[1]);
    OK(cudaGraphRemoveDependencies(graph, a + 1, b + 1, nullptr, 1));
    EXPECT(edges_of(graph) == 2 && edges_of(clone) == 3);
    OK(cudaGraphDestroyNode(n[1]));
    EXPECT(edges_of(graph) == 0);
    count = 0;
    OK(cudaGraphGetNodes(graph, nullptr, &count));
    EXPECT(count == 3);
    EXPECT(cudaGraphNodeFindInClone(&found, n[3], graph) == cudaErrorInvalidValue);
    OK(cudaGraphDestroy(clone));
    OK(cudaGraphDestroy(graph));
    (void)cudaGetLastError();
}

static void children()
{
    cudaGraph_t child, outer, inside, changed;
    cudaGraphNode_t node, call;
    int calls = 0, tens = 0;
    cudaHostNodeParams p = {bump, &calls}, q = {bump_ten, &tens};
    OK(cudaGraphCreate(&child, 0));
    OK(cudaGraphAddHostNode(&call, child, nullptr, 0, &p));
    OK(cudaGraphCreate(&outer, 0));
    OK(cudaGraphAddChildGraphNode(&node, outer, nullptr, 0, child));
    OK(cudaGraphChildGraphNodeGetGraph(node, &inside));
    EXPECT(inside != child && type_of(node) == cudaGraphNodeTypeGraph);
    cudaGraphExec_t exec;
    cudaGraphInstantiateParams how = {};
    how.flags = cudaGraphInstantiateFlagUpload;
    how.uploadStream = s;
    OK(cudaGraphInstantiateWithParams(&exec, outer, &how));
    EXPECT(how.result_out == cudaGraphInstantiateSuccess);
    unsigned long long flags = 0;
    OK(cudaGraphExecGetFlags(exec, &flags));
    EXPECT(flags == cudaGraphInstantiateFlagUpload || flags == 0);
    OK(cudaGraphUpload(exec, s));
    launch(exec);
    EXPECT(calls == 1);
    OK(cudaGraphCreate(&changed, 0));
    OK(cudaGraphAddHostNode(&call, changed, nullptr, 0, &q));
    OK(cudaGraphExecChildGraphNodeSetParams(exec, node, changed));
    launch(exec);
    EXPECT(calls == 1 && tens == 10);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(outer));
    OK(cudaGraphDestroy(child));
    OK(cudaGraphDestroy(changed));
}

static void drawn()
{
    cudaGraph_t graph;
    cudaGraphNode_t a, b;
    int calls = 0;
    cudaHostNodeParams p = {bump, &calls};
    char path[] = "/tmp/gable-dot-XXXXXX", text[4096] = {};
    int fd = mkstemp(path);
    EXPECT(fd >= 0);
    close(fd);
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddEmptyNode(&a, graph, nullptr, 0));
    OK(cudaGraphAddHostNode(&b, graph, &a, 1, &p));
    OK(cudaGraphDebugDotPrint(graph, path, cudaGraphDebugDotFlagsVerbose));
    FILE *file = fopen(path, "r");
    EXPECT(file && fread(text, 1, sizeof(text) - 1, file) > 0);
    fclose(file);
    unlink(path);
    EXPECT(std::strstr(text, "digraph") && std::strstr(text, "->"));
    OK(cudaGraphDestroy(graph));
}

static void objects()
{
    cudaUserObject_t object;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    int ended = 0;
    OK(cudaUserObjectCreate(&object, &ended, bump, 2, cudaUserObjectNoDestructorSync));
    OK(cudaUserObjectRetain(object, 1));
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphRetainUserObject(graph, object, 1, cudaGraphUserObjectMove));
    OK(cudaGraphRetainUserObject(graph, object, 1, 0));
    OK(cudaGraphReleaseUserObject(graph, object, 1));
    EXPECT(cudaUserObjectCreate(&object, &ended, bump, 0, cudaUserObjectNoDestructorSync) ==
           cudaErrorInvalidValue);
    OK(cudaUserObjectRelease(object, 2));
    exec = made(graph);
    OK(cudaGraphDestroy(graph));
    launch(exec);
    EXPECT(*(volatile int *)&ended == 0); // the executable graph has it still
    OK(cudaGraphExecDestroy(exec));
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 1000 && !*(volatile int *)&ended; i++)
        usleep(1000); // it is called on a thread of the driver's
    EXPECT(ended == 1);
    (void)cudaGetLastError();
}

static void captures()
{
    cudaGraph_t graph, same;
    cudaGraphNode_t first, extra;
    const cudaGraphNode_t *last;
    cudaStreamCaptureStatus status;
    size_t count = 0;
    unsigned long long id = 0;
    int calls = 0;
    cudaHostNodeParams p = {bump, &calls};
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddHostNode(&first, graph, nullptr, 0, &p));
    OK(cudaStreamBeginCaptureToGraph(s, graph, &first, nullptr, 1, cudaStreamCaptureModeRelaxed));
    OK(cudaStreamGetCaptureInfo(s, &status, &id, &same, &last, nullptr, &count));
    EXPECT(status == cudaStreamCaptureStatusActive && id != 0 && same == graph);
    EXPECT(count == 1 && last[0] == first);
    put<<<1, N, 0, s>>>(device, 77);
    OK(cudaStreamGetCaptureInfo(s, &status, nullptr, nullptr, &last, nullptr, &count));
    EXPECT(count == 1 && last[0] != first && type_of(last[0]) == cudaGraphNodeTypeKernel);
    OK(cudaGraphAddHostNode(&extra, graph, last, 1, &p));
    OK(cudaStreamUpdateCaptureDependencies(s, &extra, nullptr, 1,
                                           cudaStreamSetCaptureDependencies));
    OK(cudaMemcpyAsync(host, device, BYTES, cudaMemcpyDeviceToHost, s));
    cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal;
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    EXPECT(mode == cudaStreamCaptureModeGlobal);
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    EXPECT(mode == cudaStreamCaptureModeThreadLocal);
    OK(cudaStreamEndCapture(s, &same));
    EXPECT(same == graph);
    OK(cudaStreamGetCaptureInfo(s, &status, &id, nullptr, nullptr, nullptr, nullptr));
    EXPECT(status == cudaStreamCaptureStatusNone);
    EXPECT(cudaStreamUpdateCaptureDependencies(s, &extra, nullptr, 1, 0) == cudaErrorIllegalState);
    cudaGraphExec_t exec = made(graph);
    launch(exec);
    EXPECT(calls == 2 && host[N - 1] == 77);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    (void)cudaGetLastError();
}

int main()
{
    OK(cudaStreamCreate(&s));
    OK(cudaMalloc(&device, BYTES));
    OK(cudaMalloc(&second, BYTES));
    kernels();
    fills();
    copies();
    hosts_and_events();
    memory();
    edges();
    children();
    drawn();
    objects();
    captures();
    return 0;
}
