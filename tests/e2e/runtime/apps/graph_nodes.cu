// Nodes described by one structure, memory of graphs by hand and captured, and boxes copied in batches.
#include "check.h"
#include <cstring>

enum { N = 1000 };

__global__ void fill(int *x, int n, int v)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] = v + i;
}

static void CUDART_CB bump(void *user)
{
    ++*static_cast<int *>(user);
}

static cudaGraphNodeParams kernel_params(void **args)
{
    cudaGraphNodeParams p = {};
    p.type = cudaGraphNodeTypeKernel;
    p.kernel.func = (void *)fill;
    p.kernel.gridDim = dim3(4);
    p.kernel.blockDim = dim3(256);
    p.kernel.kernelParams = args;
    return p;
}

// allocate -> fill -> copy to the host -> host function -> free
static void any_kind()
{
    int host[N], calls = 0, n = N, v = 10;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaGraphNode_t alloc, run, back, tell, give;
    OK(cudaGraphCreate(&graph, 0));
    cudaGraphNodeParams a = {};
    a.type = cudaGraphNodeTypeMemAlloc;
    a.alloc.poolProps.allocType = cudaMemAllocationTypePinned;
    a.alloc.poolProps.location.type = cudaMemLocationTypeDevice;
    a.alloc.bytesize = sizeof(host);
    OK(cudaGraphAddNode(&alloc, graph, nullptr, nullptr, 0, &a));
    int *memory = (int *)a.alloc.dptr;
    EXPECT(memory != nullptr);
    void *args[] = {&memory, &n, &v};
    cudaGraphNodeParams k = kernel_params(args);
    OK(cudaGraphAddNode(&run, graph, &alloc, nullptr, 1, &k));
    cudaGraphNodeParams c = {};
    c.type = cudaGraphNodeTypeMemcpy;
    c.memcpy.copyParams.srcPtr = make_cudaPitchedPtr(memory, sizeof(host), N, 1);
    c.memcpy.copyParams.dstPtr = make_cudaPitchedPtr(host, sizeof(host), N, 1);
    c.memcpy.copyParams.extent = make_cudaExtent(sizeof(host), 1, 1);
    c.memcpy.copyParams.kind = cudaMemcpyDeviceToHost;
    OK(cudaGraphAddNode(&back, graph, &run, nullptr, 1, &c));
    cudaGraphNodeParams h = {};
    h.type = cudaGraphNodeTypeHost;
    h.host.fn = bump;
    h.host.userData = &calls;
    OK(cudaGraphAddNode(&tell, graph, &back, nullptr, 1, &h));
    OK(cudaGraphAddMemFreeNode(&give, graph, &tell, 1, memory));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 3; i++)
        OK(cudaGraphLaunch(exec, 0));
    OK(cudaStreamSynchronize(0));
    EXPECT(calls == 3 && host[0] == 10 && host[N - 1] == 10 + N - 1);
    v = 50;
    OK(cudaGraphExecNodeSetParams(exec, run, &k));
    OK(cudaGraphLaunch(exec, 0));
    OK(cudaStreamSynchronize(0));
    EXPECT(host[7] == 57);
    unsigned long long used = 1, high = 0;
    OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemCurrent, &used));
    OK(cudaDeviceGetGraphMemAttribute(0, cudaGraphMemAttrUsedMemHigh, &high));
    EXPECT(used == 0 && high >= sizeof(host));
    OK(cudaDeviceGraphMemTrim(0));
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
}

static void captured()
{
    int *memory, *out, host[N];
    cudaStream_t s;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaStreamCreate(&s));
    OK(cudaMalloc(&out, sizeof(host)));
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    OK(cudaMallocAsync(&memory, sizeof(host), s));
    fill<<<4, 256, 0, s>>>(memory, N, 3);
    OK(cudaMemcpyAsync(out, memory, sizeof(host), cudaMemcpyDeviceToDevice, s));
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphInstantiate(&exec, graph, cudaGraphInstantiateFlagAutoFreeOnLaunch));
    OK(cudaGraphLaunch(exec, s));
    OK(cudaGraphLaunch(exec, s)); // frees what the first one has left
    OK(cudaMemcpyAsync(host, memory, sizeof(host), cudaMemcpyDeviceToHost, s));
    OK(cudaFreeAsync(memory, s));
    OK(cudaStreamSynchronize(s));
    EXPECT(host[0] == 3 && host[N - 1] == N + 2);
    EXPECT(cudaFreeAsync(memory, s) == cudaErrorInvalidValue);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
    OK(cudaFree(out));
    OK(cudaStreamDestroy(s));
}

static void boxes()
{
    int host[16], got[16] = {};
    int *device;
    cudaStream_t s;
    for (int i = 0; i < 16; i++)
        host[i] = i;
    OK(cudaStreamCreate(&s));
    OK(cudaMalloc(&device, sizeof(host)));
    cudaMemcpy3DBatchOp ops[1] = {};
    ops[0].src.type = ops[0].dst.type = cudaMemcpyOperandTypePointer;
    ops[0].src.op.ptr.ptr = host;
    ops[0].dst.op.ptr.ptr = device;
    ops[0].extent = make_cudaExtent(sizeof(host), 1, 1);
    ops[0].srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    OK(cudaMemcpy3DBatchAsync(1, ops, 0, s));
    OK(cudaStreamSynchronize(s));
    OK(cudaMemcpy(got, device, sizeof(got), cudaMemcpyDeviceToHost));
    EXPECT(std::memcmp(host, got, sizeof(got)) == 0);
    OK(cudaFree(device));
    OK(cudaStreamDestroy(s));
}

int main()
{
    any_kind();
    captured();
    boxes();
    return 0;
}
