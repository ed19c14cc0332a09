// Streams, events, callbacks, pinned and mapped memory.
#include "check.h"

__global__ void fill(int *x, int n, int value)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        x[i] = value;
}

__global__ void add(int *x, const int *y, int n)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        x[i] += y[i];
}

static void CUDART_CB note(cudaStream_t, cudaError_t status, void *user)
{
    *static_cast<int *>(user) = status == cudaSuccess ? 42 : -1;
}

int main()
{
    const int n = 1 << 18, k = 4;
    cudaStream_t s[k];
    cudaEvent_t done[k], begin, end;
    int *x[k], *host, seen = 0;
    OK(cudaMallocHost(&host, n * sizeof(int)));
    OK(cudaEventCreate(&begin));
    OK(cudaEventCreate(&end));
    int least, greatest;
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    EXPECT(greatest <= least);
    for (int i = 0; i < k; i++) {
        OK(cudaStreamCreateWithPriority(&s[i], cudaStreamNonBlocking, i ? least : greatest));
        OK(cudaEventCreateWithFlags(&done[i], cudaEventDisableTiming));
        OK(cudaMalloc(&x[i], n * sizeof(int)));
    }
    OK(cudaEventRecord(begin, s[0]));
    for (int i = 0; i < k; i++) {
        fill<<<16, 256, 0, s[i]>>>(x[i], n, i + 1);
        OK(cudaEventRecord(done[i], s[i]));
        if (i)
            OK(cudaStreamWaitEvent(s[0], done[i], 0));
    }
    for (int i = 1; i < k; i++)
        add<<<16, 256, 0, s[0]>>>(x[0], x[i], n);
    OK(cudaMemcpyAsync(host, x[0], n * sizeof(int), cudaMemcpyDeviceToHost, s[0]));
    OK(cudaStreamAddCallback(s[0], note, &seen, 0));
    OK(cudaEventRecord(end, s[0]));
    OK(cudaEventSynchronize(end));
    float ms;
    OK(cudaEventElapsedTime(&ms, begin, end));
    EXPECT(ms > 0);
    EXPECT(seen == 42);
    for (int i = 0; i < n; i++)
        EXPECT(host[i] == 10);
    OK(cudaStreamQuery(s[0]));

    int *mapped, *on_device;
    OK(cudaHostAlloc(&mapped, 1000 * sizeof(int), cudaHostAllocMapped));
    OK(cudaHostGetDevicePointer(&on_device, mapped, 0));
    fill<<<1, 128>>>(on_device, 1000, 5);
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 1000; i++)
        EXPECT(mapped[i] == 5);

    static int plain[1000];
    OK(cudaHostRegister(plain, sizeof(plain), cudaHostRegisterMapped));
    OK(cudaHostGetDevicePointer(&on_device, plain, 0));
    fill<<<1, 128>>>(on_device, 1000, 6);
    OK(cudaDeviceSynchronize());
    EXPECT(plain[0] == 6 && plain[999] == 6);
    OK(cudaHostUnregister(plain));
    return 0;
}
