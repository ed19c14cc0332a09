/* Wrong calls: prints the code of each. None may crash, and none of these may stick. */
#include <stdint.h>

#include "app.h"

static void report(const char *what, CUresult r)
{
    printf("%-34s %d\n", what, (int)r);
}

static void before_init(void)
{
    int n;
    CUcontext ctx;
    CUdeviceptr p;
    report("count before cuInit", cuDeviceGetCount(&n));
    report("context before cuInit", cuCtxGetCurrent(&ctx));
    report("alloc before cuInit", cuMemAlloc_v2(&p, 4));
    report("cuInit(1)", cuInit(1));
}

static void devices(void)
{
    CUdevice dev;
    int v;
    char name[8];
    report("device -1", cuDeviceGet(&dev, -1));
    report("device 99", cuDeviceGet(&dev, 99));
    report("device into NULL", cuDeviceGet(NULL, 0));
    report("count into NULL", cuDeviceGetCount(NULL));
    report("attribute of device 99", cuDeviceGetAttribute(&v, 1, 99));
    report("attribute 100000", cuDeviceGetAttribute(&v, (CUdevice_attribute)100000, 0));
    report("attribute into NULL", cuDeviceGetAttribute(NULL, 1, 0));
    report("name of length 8", cuDeviceGetName(name, 8, 0));
    report("name into NULL", cuDeviceGetName(NULL, 8, 0));
    report("context on device 99", cuDevicePrimaryCtxRetain(&(CUcontext){0}, 99));
}

static void without_context(void)
{
    CUdeviceptr p;
    CUstream s;
    report("alloc without context", cuMemAlloc_v2(&p, 4));
    report("stream without context", cuStreamCreate(&s, 0));
    report("synchronise without context", cuCtxSynchronize());
    report("garbage context", cuCtxSetCurrent((CUcontext)(uintptr_t)0x1234567));
}

static void memory(void)
{
    CUdeviceptr p = app_alloc(1000);
    size_t free_bytes;
    char host[16] = {0};
    report("alloc 0", cuMemAlloc_v2(&(CUdeviceptr){0}, 0));
    report("alloc into NULL", cuMemAlloc_v2(NULL, 4));
    report("alloc 2^60", cuMemAlloc_v2(&(CUdeviceptr){0}, (size_t)1 << 60));
    report("alloc SIZE_MAX", cuMemAlloc_v2(&(CUdeviceptr){0}, SIZE_MAX));
    report("info into NULL, NULL", cuMemGetInfo_v2(NULL, NULL));
    report("info into one NULL", cuMemGetInfo_v2(&free_bytes, NULL));
    report("copy of SIZE_MAX", cuMemcpyHtoD_v2(p, host, SIZE_MAX));
    report("copy beyond the end", cuMemcpyDtoH_v2(host, p + 4096 * 4096, 16));
    report("copy to address 8", cuMemcpyHtoD_v2(8, host, 8));
    report("copy from NULL", cuMemcpyHtoD_v2(p, NULL, 8));
    report("copy of 0 bytes", cuMemcpyHtoD_v2(p, host, 0));
    report("memset misaligned", cuMemsetD32_v2(p + 1, 0, 1));
    report("free of the middle", cuMemFree_v2(p + 256));
    report("free", cuMemFree_v2(p));
    report("free again", cuMemFree_v2(p));
    report("free of 0", cuMemFree_v2(0));
    report("free of garbage", cuMemFree_v2(0x123456789abcull));
}

static void modules(CUmodule mod)
{
    CUmodule m;
    CUfunction f;
    CUdeviceptr p;
    size_t size;
    report("unknown function", cuModuleGetFunction(&f, mod, "no_such_kernel"));
    report("function of NULL module", cuModuleGetFunction(&f, NULL, "fill"));
    report("function of garbage module",
           cuModuleGetFunction(&f, (CUmodule)(uintptr_t)0x7654321, "fill"));
    report("function with NULL name", cuModuleGetFunction(&f, mod, NULL));
    report("unknown variable", cuModuleGetGlobal_v2(&p, &size, mod, "no_such_variable"));
    report("module of nonsense", cuModuleLoadData(&m, "this is not PTX"));
    report("module of bad PTX",
           cuModuleLoadData(&m, ".version 7.0\n.target sm_70\n"
                                ".address_size 64\n"
                                ".visible .entry k() { frobnicate.u32 %r1; }"));
    report("module from NULL", cuModuleLoadData(&m, NULL));
    report("module file missing", cuModuleLoad(&m, "/nonexistent/module.ptx"));
    report("unload garbage", cuModuleUnload((CUmodule)(uintptr_t)0x7654321));
}

static void launches(CUfunction f)
{
    unsigned n = 0, a = 0, b = 0;
    CUdeviceptr p = 0;
    void *params[] = {&n, &a, &b, &p};
    report("grid of 0", cuLaunchKernel(f, 0, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    report("block of 0", cuLaunchKernel(f, 1, 1, 1, 0, 1, 1, 0, NULL, params, NULL));
    report("block of 4096", cuLaunchKernel(f, 1, 1, 1, 4096, 1, 1, 0, NULL, params, NULL));
    report("block z of 65", cuLaunchKernel(f, 1, 1, 1, 1, 1, 65, 0, NULL, params, NULL));
    report("grid y of 65536", cuLaunchKernel(f, 1, 65536, 1, 32, 1, 1, 0, NULL, params, NULL));
    report("shared memory of 1 GB",
           cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 1 << 30, NULL, params, NULL));
    report("NULL function", cuLaunchKernel(NULL, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    report("NULL parameters", cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL));
    report("launch", cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
}

static void streams_and_events(void)
{
    CUstream garbage = (CUstream)(uintptr_t)0x7654320, s;
    CUevent e, f;
    float ms;
    report("synchronise garbage stream", cuStreamSynchronize(garbage));
    report("destroy garbage stream", cuStreamDestroy_v2(garbage));
    report("destroy NULL stream", cuStreamDestroy_v2(NULL));
    report("stream into NULL", cuStreamCreate(NULL, 0));
    report("stream flags 77", cuStreamCreate(&s, 77));
    report("garbage event", cuEventQuery((CUevent)(uintptr_t)0x7654320));
    report("event into NULL", cuEventCreate(NULL, 0));
    app_check(cuEventCreate(&e, 0), "cuEventCreate");
    app_check(cuEventCreate(&f, 0), "cuEventCreate");
    report("elapsed of unrecorded events", cuEventElapsedTime(&ms, e, f));
    report("record garbage event", cuEventRecord((CUevent)(uintptr_t)0x7654320, NULL));
    report("destroy event", cuEventDestroy_v2(e));
    report("destroyed event", cuEventRecord(e, NULL));
    app_check(cuEventDestroy_v2(f), "cuEventDestroy");
    app_check(cuStreamCreate(&s, 0), "cuStreamCreate");
    report("destroy stream", cuStreamDestroy_v2(s));
    report("destroyed stream", cuStreamSynchronize(s));
}

static void strings(void)
{
    const char *text;
    report("name of error 2", cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &text));
    printf("%s\n", text);
    report("name of error 12345", cuGetErrorName((CUresult)12345, &text));
    report("name into NULL", cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, NULL));
}

int main(void)
{
    before_init();
    app_check(cuInit(0), "cuInit");
    devices();
    without_context();
    CUcontext ctx;
    CUmodule mod = app_open(0, &ctx);
    memory();
    modules(mod);
    launches(app_kernel(mod, "fill"));
    streams_and_events();
    strings();
    report("still working", cuCtxSynchronize());
    return 0;
}
