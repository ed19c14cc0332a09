// What devices, streams, events and functions are asked and told besides the work itself.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include "check.h"
#include <cuda.h>
#include <cuda_profiler_api.h>
#include <cstring>

__global__ void add(int *x, int n, short by)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] += by;
}

__global__ void shared(int *x)
{
    extern __shared__ int room[];
    room[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = room[blockDim.x - 1 - threadIdx.x];
}

static void before_the_first_context()
{
    unsigned flags = 99;
    int order[] = {0}, bad[] = {99}, device = -1;
    EXPECT(cudaSetValidDevices(bad, 1) == cudaErrorInvalidDevice);
    OK(cudaSetValidDevices(order, 1));
    OK(cudaSetDeviceFlags(cudaDeviceScheduleBlockingSync | cudaDeviceMapHost));
    EXPECT(cudaSetDeviceFlags(0x40000000) == cudaErrorInvalidValue);
    (void)cudaGetLastError();
    EXPECT(cudaInitDevice(99, 0, 0) == cudaErrorInvalidDevice);
    OK(cudaInitDevice(0, 0, 0));
    OK(cudaSetDevice(0));
    OK(cudaGetDeviceFlags(&flags));
    EXPECT((flags & cudaDeviceScheduleMask) == cudaDeviceScheduleBlockingSync);
    EXPECT((flags & cudaDeviceMapHost) != 0);
    cudaDeviceProp wish;
    std::memset(&wish, 0, sizeof(wish));
    OK(cudaChooseDevice(&device, &wish));
    EXPECT(device >= 0);
    (void)cudaGetLastError();
}

static void limits()
{
    size_t stack, heap, fifo, now, free_bytes, total;
    OK(cudaDeviceGetLimit(&stack, cudaLimitStackSize));
    OK(cudaDeviceGetLimit(&heap, cudaLimitMallocHeapSize));
    OK(cudaDeviceGetLimit(&fifo, cudaLimitPrintfFifoSize));
    EXPECT(stack >= 1024 && heap > 0 && fifo > 0);
    OK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
    OK(cudaDeviceGetLimit(&now, cudaLimitStackSize));
    EXPECT(now >= 4096);
    EXPECT(cudaDeviceGetLimit(&now, (cudaLimit)77) != cudaSuccess);
    EXPECT(cudaDeviceGetLimit(nullptr, cudaLimitStackSize) == cudaErrorInvalidValue);
    OK(cudaMemGetInfo(&free_bytes, &total));
    EXPECT(free_bytes > 0 && free_bytes <= total);
    (void)cudaGetLastError();
}

static void preferences()
{
    cudaFuncCache cache;
    cudaSharedMemConfig banks;
    OK(cudaDeviceSetCacheConfig(cudaFuncCachePreferL1));
    OK(cudaDeviceGetCacheConfig(&cache));
    EXPECT(cache == cudaFuncCachePreferL1);
    OK(cudaDeviceSetCacheConfig(cudaFuncCachePreferNone));
    OK(cudaDeviceGetSharedMemConfig(&banks));
    EXPECT(banks == cudaSharedMemBankSizeFourByte || banks == cudaSharedMemBankSizeDefault);
    OK(cudaDeviceSetSharedMemConfig(cudaSharedMemBankSizeDefault));
    OK(cudaFuncSetCacheConfig((void *)add, cudaFuncCachePreferShared));
    OK(cudaFuncSetSharedMemConfig((void *)add, cudaSharedMemBankSizeFourByte));
    OK(cudaCtxResetPersistingL2Cache());
    cudaError_t flushed = cudaDeviceFlushGPUDirectRDMAWrites(
        cudaFlushGPUDirectRDMAWritesTargetCurrentDevice, cudaFlushGPUDirectRDMAWritesToOwner);
    int can = 0;
    OK(cudaDeviceGetAttribute(&can, cudaDevAttrGPUDirectRDMAFlushWritesOptions, 0));
    EXPECT((flushed == cudaSuccess) == ((can & cudaFlushGPUDirectRDMAWritesOptionHost) != 0));
    (void)cudaGetLastError();
    OK(cudaProfilerStart());
    OK(cudaProfilerStop());
    cudaChannelFormatDesc f = cudaCreateChannelDesc<float>();
    size_t most = 0;
    OK(cudaDeviceGetTexture1DLinearMaxWidth(&most, &f, 0));
    EXPECT(most >= 1 << 20);
}

static void peers()
{
    int count, value = -1;
    OK(cudaGetDeviceCount(&count));
    for (int i = 1; i < count; i++) {
        OK(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, i));
        int can = -1;
        OK(cudaDeviceCanAccessPeer(&can, 0, i));
        EXPECT(value == can);
    }
    EXPECT(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 99) ==
           cudaErrorInvalidDevice);
    EXPECT(cudaDeviceGetP2PAttribute(&value, cudaDevP2PAttrAccessSupported, 0, 0) ==
           cudaErrorInvalidDevice);
    (void)cudaGetLastError();
}

static void streams()
{
    cudaStream_t s, other;
    unsigned flags = 0;
    unsigned long long id = 0, other_id = 0;
    int least, greatest, priority = 77, device = -1;
    OK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    OK(cudaStreamCreateWithPriority(&s, cudaStreamNonBlocking, greatest));
    OK(cudaStreamCreate(&other));
    OK(cudaStreamGetFlags(s, &flags));
    EXPECT(flags == cudaStreamNonBlocking);
    OK(cudaStreamGetFlags(other, &flags));
    EXPECT(flags == cudaStreamDefault);
    OK(cudaStreamGetPriority(s, &priority));
    EXPECT(priority == greatest);
    OK(cudaStreamGetId(s, &id));
    OK(cudaStreamGetId(other, &other_id));
    EXPECT(id != other_id);
    OK(cudaStreamGetDevice(s, &device));
    EXPECT(device == 0);
    cudaStreamAttrValue v, got;
    std::memset(&v, 0, sizeof(v));
    v.syncPolicy = cudaSyncPolicyYield;
    OK(cudaStreamSetAttribute(s, cudaStreamAttributeSynchronizationPolicy, &v));
    OK(cudaStreamCopyAttributes(other, s));
    OK(cudaStreamGetAttribute(other, cudaStreamAttributeSynchronizationPolicy, &got));
    EXPECT(got.syncPolicy == cudaSyncPolicyYield);
    EXPECT(cudaStreamGetFlags(s, nullptr) == cudaErrorInvalidValue);
    cudaEvent_t e;
    OK(cudaEventCreateWithFlags(&e, cudaEventDisableTiming));
    OK(cudaEventRecordWithFlags(e, s, cudaEventRecordDefault));
    EXPECT(cudaEventRecordWithFlags(e, s, 77) == cudaErrorInvalidValue);
    OK(cudaEventSynchronize(e));
    OK(cudaEventDestroy(e));
    OK(cudaStreamDestroy(s));
    OK(cudaStreamDestroy(other));
    (void)cudaGetLastError();
}

static void functions()
{
    size_t offset = 0, size = 0, room = 0;
    int blocks = 0, *x, host[64];
    cudaKernel_t kernel;
    cudaFunction_t function;
    OK(cudaFuncGetParamInfo((void *)add, 2, &offset, &size));
    EXPECT(offset == 12 && size == 2);
    EXPECT(cudaFuncGetParamInfo((void *)add, 3, &offset, &size) == cudaErrorInvalidValue);
    OK(cudaGetKernel(&kernel, (void *)add));
    OK(cudaGetFuncBySymbol(&function, (void *)add));
    EXPECT(kernel != nullptr && function != nullptr);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, (void *)add, 64, 0,
                                                              cudaOccupancyDisableCachingOverride));
    EXPECT(blocks >= 1);
    OK(cudaOccupancyAvailableDynamicSMemPerBlock(&room, (void *)shared, 1, 64));
    EXPECT(room >= 16384);
    OK(cudaGetKernel(&kernel, (void *)shared));
    OK(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 8192,
                                       0));
    EXPECT(cudaKernelSetAttributeForDevice(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           1 << 30, 0) == cudaErrorInvalidValue);
    for (int i = 0; i < 64; i++)
        host[i] = i;
    OK(cudaMalloc(&x, sizeof(host)));
    OK(cudaMemcpy(x, host, sizeof(host), cudaMemcpyHostToDevice));
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(64);
    config.dynamicSmemBytes = sizeof(host);
    OK(cudaLaunchKernelEx(&config, shared, x));
    int n = 64;
    short by = 1000;
    void *args[] = {&x, &n, &by};
    config.dynamicSmemBytes = 0;
    OK(cudaLaunchKernelExC(&config, (void *)add, args));
    EXPECT(cudaLaunchKernelExC(nullptr, (void *)add, args) == cudaErrorInvalidValue);
    OK(cudaMemcpy(host, x, sizeof(host), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 64; i++)
        EXPECT(host[i] == 1063 - i);
    // A kernel's handle is launched as its symbol is.
    OK(cudaGetKernel(&kernel, (void *)add));
    OK(cudaLaunchKernel((void *)kernel, dim3(1), dim3(64), args, 0, 0));
    OK(cudaMemcpy(host, x, sizeof(host), cudaMemcpyDeviceToHost));
    EXPECT(host[0] == 2063);
    OK(cudaFree(x));
    (void)cudaGetLastError();
}

static void entry_points()
{
    void *entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    OK(cudaGetDriverEntryPointByVersion("cuDeviceGetCount", &entry, 12000, cudaEnableDefault,
                                        &found));
    EXPECT(found == cudaDriverEntryPointSuccess && entry != nullptr);
    int count = 0, devices = 0;
    EXPECT(((CUresult(*)(int *))entry)(&count) == CUDA_SUCCESS);
    OK(cudaGetDeviceCount(&devices));
    EXPECT(count == devices);
    OK(cudaGetDriverEntryPointByVersion("cuNothing", &entry, 12000, cudaEnableDefault, &found));
    EXPECT(found == cudaDriverEntryPointSymbolNotFound && entry == nullptr);
    OK(cudaGetDriverEntryPointByVersion("cuMemAllocAsync", &entry, 9000, cudaEnableDefault,
                                        &found));
    EXPECT(found == cudaDriverEntryPointVersionNotSufficent && entry == nullptr);
    (void)cudaGetLastError();
}

static void pinned()
{
    unsigned flags = 0;
    int *host, other;
    OK(cudaHostAlloc(&host, 4096, cudaHostAllocMapped | cudaHostAllocPortable));
    OK(cudaHostGetFlags(&flags, host));
    EXPECT((flags & cudaHostAllocMapped) != 0);
    EXPECT(cudaHostGetFlags(&flags, &other) == cudaErrorInvalidValue);
    OK(cudaFreeHost(host));
    (void)cudaGetLastError();
}

int main()
{
    before_the_first_context();
    limits();
    preferences();
    peers();
    streams();
    functions();
    entry_points();
    pinned();
    return 0;
}
