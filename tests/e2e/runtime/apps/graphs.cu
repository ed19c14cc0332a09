// Graphs: captured and built by hand, updated, cloned, with host, memset, copy and child nodes.
#include "check.h"
#include <cstring>

__global__ void axpy(float a, const float *x, float *y, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] += a * x[i];
}

static void CUDART_CB bump(void *user)
{
    ++*static_cast<int *>(user);
}

int main()
{
    const int n = 1000;
    float *x, *y, h[n];
    cudaStream_t s;
    OK(cudaStreamCreate(&s));
    OK(cudaMalloc(&x, sizeof(h)));
    OK(cudaMalloc(&y, sizeof(h)));
    for (int i = 0; i < n; i++)
        h[i] = i;
    OK(cudaMemcpy(x, h, sizeof(h), cudaMemcpyHostToDevice));

    // captured
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    int calls = 0;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal));
    OK(cudaMemsetAsync(y, 0, sizeof(h), s));
    for (int i = 0; i < 3; i++)
        axpy<<<4, 256, 0, s>>>(2, x, y, n);
    OK(cudaLaunchHostFunc(s, bump, &calls));
    cudaStreamCaptureStatus status;
    OK(cudaStreamIsCapturing(s, &status));
    EXPECT(status == cudaStreamCaptureStatusActive);
    OK(cudaStreamEndCapture(s, &graph));
    size_t nodes = 0;
    OK(cudaGraphGetNodes(graph, nullptr, &nodes));
    EXPECT(nodes == 5);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    for (int i = 0; i < 10; i++)
        OK(cudaGraphLaunch(exec, s));
    OK(cudaStreamSynchronize(s));
    EXPECT(calls == 10);
    OK(cudaMemcpy(h, y, sizeof(h), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++)
        EXPECT(h[i] == 6 * i);

    // built by hand: two branches that meet
    cudaGraph_t g, clone;
    cudaGraphNode_t set, k1, k2, copy, child;
    OK(cudaGraphCreate(&g, 0));
    cudaMemsetParams m = {};
    m.dst = y, m.elementSize = 4, m.width = n, m.height = 1, m.value = 0;
    OK(cudaGraphAddMemsetNode(&set, g, nullptr, 0, &m));
    float a = 5;
    int count = n;
    void *args[] = {&a, &x, &y, &count};
    cudaKernelNodeParams k = {};
    k.func = (void *)axpy, k.gridDim = dim3(4), k.blockDim = dim3(256), k.kernelParams = args;
    OK(cudaGraphAddKernelNode(&k1, g, &set, 1, &k));
    a = 7; // parameters were copied
    OK(cudaGraphAddKernelNode(&k2, g, &k1, 1, &k));
    OK(cudaGraphAddMemcpyNode1D(&copy, g, &k2, 1, h, y, sizeof(h), cudaMemcpyDeviceToHost));
    OK(cudaGraphClone(&clone, g));
    OK(cudaGraphInstantiate(&exec, g, 0));
    OK(cudaGraphLaunch(exec, s));
    OK(cudaStreamSynchronize(s));
    for (int i = 0; i < n; i++)
        EXPECT(h[i] == 12 * i);
    a = 1;
    OK(cudaGraphExecKernelNodeSetParams(exec, k2, &k));
    OK(cudaGraphLaunch(exec, s));
    OK(cudaStreamSynchronize(s));
    for (int i = 0; i < n; i++)
        EXPECT(h[i] == 6 * i);

    // a child graph, and an update of the whole
    cudaGraph_t outer;
    OK(cudaGraphCreate(&outer, 0));
    OK(cudaGraphAddChildGraphNode(&child, outer, nullptr, 0, clone));
    cudaGraphExec_t outer_exec;
    OK(cudaGraphInstantiate(&outer_exec, outer, 0));
    std::memset(h, 0, sizeof(h));
    OK(cudaGraphLaunch(outer_exec, s));
    OK(cudaStreamSynchronize(s));
    for (int i = 0; i < n; i++)
        EXPECT(h[i] == 12 * i);
    cudaGraphExecUpdateResultInfo info;
    OK(cudaGraphExecUpdate(exec, clone, &info));
    EXPECT(info.result == cudaGraphExecUpdateSuccess);
    OK(cudaGraphLaunch(exec, s));
    OK(cudaStreamSynchronize(s));
    EXPECT(h[10] == 120);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphExecDestroy(outer_exec));
    OK(cudaGraphDestroy(g));
    OK(cudaGraphDestroy(clone));
    OK(cudaGraphDestroy(outer));
    OK(cudaGraphDestroy(graph));
    return 0;
}
