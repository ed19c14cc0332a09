/* The remote client against a real proxy: what calls do, and which errors they find.
 * usage: test_remote_calls null|cpu */
#include "tests/e2e/remoting/remote.h"

#include <stdlib.h>
#include <string.h>

static void expect(const float *y, unsigned n, float factor)
{
    for (unsigned i = 0; real && i < n; i++)
        if (y[i] != factor * (float)(i % 1000))
            fail_msg("element %u is %f", i, (double)y[i]);
}

/* All ways to launch, over a size that is no multiple of anything. */
static void launches(void **state)
{
    (void)state;
    unsigned n = 100003;
    float a = 2, *x = numbers(n), *y = calloc(n, sizeof(*y));
    CUdeviceptr dx, dy;
    OK(cuda->cuMemAlloc_v2(&dx, n * 4));
    OK(cuda->cuMemAlloc_v2(&dy, n * 4));
    OK(cuda->cuMemcpyHtoD_v2(dx, x, n * 4));
    OK(cuda->cuMemsetD32_v2(dy, 0, n));
    void *args[] = {&dy, &dx, &a, &n};
    unsigned grid = (n + 255) / 256;
    OK(cuda->cuLaunchKernel(saxpy, grid, 1, 1, 256, 1, 1, 0, NULL, args, NULL));
    struct {
        CUdeviceptr y, x;
        float a;
        unsigned n;
    } packed = {dy, dx, a, n};
    size_t size = sizeof(packed);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    OK(cuda->cuLaunchKernel(saxpy, grid, 1, 1, 256, 1, 1, 0, NULL, NULL, extra));
    CUlaunchConfig config = {.gridDimX = grid,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 256,
                             .blockDimY = 1,
                             .blockDimZ = 1};
    OK(cuda->cuLaunchKernelEx(&config, saxpy, args, NULL));
    OK(cuda->cuMemcpyDtoH_v2(y, dy, n * 4));
    expect(y, n, 6);
    OK(cuda->cuMemFree_v2(dx));
    OK(cuda->cuMemFree_v2(dy));
    free(x);
    free(y);
}

static void libraries(void **state)
{
    (void)state;
    unsigned n = 1000, count = 0;
    float a = 3, *x = numbers(n), y[1000];
    CUlibrary library;
    CUkernel kernel;
    CUfunction function;
    CUdeviceptr dx, dy, global;
    size_t bytes;
    const char *name;
    OK(cuda->cuLibraryLoadData(&library, saxpy_ptx, NULL, NULL, 0, NULL, NULL, 0));
    OK(cuda->cuLibraryGetKernel(&kernel, library, "saxpy"));
    FAILS(cuda->cuLibraryGetKernel(&kernel, library, "nothing"), CUDA_ERROR_NOT_FOUND);
    OK(cuda->cuLibraryGetKernelCount(&count, library));
    assert_int_equal(count, 3);
    OK(cuda->cuKernelGetName(&name, kernel));
    assert_string_equal(name, "saxpy");
    OK(cuda->cuKernelGetFunction(&function, kernel));
    if (real) {
        OK(cuda->cuLibraryGetGlobal(&global, &bytes, library, "counter"));
        assert_int_equal(bytes, 4);
        OK(cuda->cuMemcpyDtoH_v2(&count, global, 4));
        assert_int_equal(count, 7);
    }
    OK(cuda->cuMemAlloc_v2(&dx, n * 4));
    OK(cuda->cuMemAlloc_v2(&dy, n * 4));
    OK(cuda->cuMemcpy(dx, (CUdeviceptr)(uintptr_t)x, n * 4));
    OK(cuda->cuMemsetD8_v2(dy, 0, n * 4));
    void *args[] = {&dy, &dx, &a, &n};
    OK(cuda->cuLaunchKernel((CUfunction)kernel, 4, 1, 1, 256, 1, 1, 0, NULL, args, NULL));
    OK(cuda->cuMemcpy((CUdeviceptr)(uintptr_t)y, dy, n * 4));
    expect(y, n, 3);
    OK(cuda->cuLibraryUnload(library));
    FAILS(cuda->cuKernelGetName(&name, kernel), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuda->cuLibraryUnload(library), CUDA_ERROR_INVALID_HANDLE);
    OK(cuda->cuMemFree_v2(dx));
    OK(cuda->cuMemFree_v2(dy));
    free(x);
}

/* Sizes around the limits of inline copies and pieces. */
static void copies(void **state)
{
    (void)state;
    static const size_t sizes[] = {1,      7,      4096,   8191,   8192,    8193,
                                   262143, 262144, 262145, 524288, 1000003, 5000001};
    CUstream stream;
    OK(cuda->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        size_t n = sizes[i];
        uint8_t *in = malloc(n), *out = malloc(n);
        CUdeviceptr a, b;
        for (size_t k = 0; k < n; k++)
            in[k] = (uint8_t)(k * 31 + i);
        OK(cuda->cuMemAlloc_v2(&a, n));
        OK(cuda->cuMemAlloc_v2(&b, n));
        OK(cuda->cuMemcpyHtoDAsync_v2(a, in, n, stream));
        OK(cuda->cuMemcpyDtoDAsync_v2(b, a, n, stream));
        OK(cuda->cuMemcpyDtoHAsync_v2(out, b, n, stream));
        OK(cuda->cuStreamSynchronize(stream));
        assert_true(!real || memcmp(in, out, n) == 0);
        OK(cuda->cuMemFree_v2(a));
        OK(cuda->cuMemFree_v2(b));
        free(in);
        free(out);
    }
    OK(cuda->cuStreamDestroy_v2(stream));
}

static void streams_and_events(void **state)
{
    (void)state;
    CUstream a, b;
    CUevent from, to, untimed;
    CUcontext owner;
    CUdeviceptr p;
    float ms = -1;
    unsigned flags = 9, value = 0;
    OK(cuda->cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cuda->cuStreamCreateWithPriority(&b, 0, 0));
    OK(cuda->cuEventCreate(&from, 0));
    OK(cuda->cuEventCreate(&to, CU_EVENT_BLOCKING_SYNC));
    OK(cuda->cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    OK(cuda->cuMemAlloc_v2(&p, 64));
    OK(cuda->cuEventRecord(from, a));
    OK(cuda->cuMemsetD32Async(p, 5, 16, a));
    OK(cuda->cuEventRecord(to, a));
    OK(cuda->cuStreamWaitEvent(b, to, 0));
    OK(cuda->cuStreamWriteValue32_v2(b, p, 77, 0));
    OK(cuda->cuStreamWaitValue32_v2(a, p, 77, CU_STREAM_WAIT_VALUE_EQ));
    OK(cuda->cuStreamSynchronize(a));
    OK(cuda->cuEventSynchronize(to));
    OK(cuda->cuEventQuery(to));
    OK(cuda->cuEventElapsedTime_v2(&ms, from, to));
    assert_true(ms >= 0);
    OK(cuda->cuMemcpyDtoH_v2(&value, p, 4));
    assert_true(!real || value == 77);
    OK(cuda->cuStreamGetFlags(a, &flags));
    assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
    OK(cuda->cuStreamGetCtx(a, &owner));
    assert_ptr_equal(owner, context);
    OK(cuda->cuStreamQuery(CU_STREAM_PER_THREAD));
    OK(cuda->cuStreamSynchronize(CU_STREAM_LEGACY));
    OK(cuda->cuEventDestroy_v2(from));
    OK(cuda->cuEventDestroy_v2(to));
    OK(cuda->cuEventDestroy_v2(untimed));
    OK(cuda->cuStreamDestroy_v2(a));
    OK(cuda->cuStreamDestroy_v2(b));
    OK(cuda->cuMemFree_v2(p));
    FAILS(cuda->cuStreamDestroy_v2(a), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuda->cuEventQuery(to), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuda->cuStreamSynchronize(b), CUDA_ERROR_INVALID_HANDLE);
    OK(cuda->cuCtxSynchronize());
}

static void bad_handles(void **state)
{
    (void)state;
    void *rubbish[] = {(void *)3, (void *)0xdeadbeef, (void *)-1, &saxpy,
                       (void *)((uintptr_t)context ^ 1)};
    unsigned n = 1;
    float a = 1;
    CUdeviceptr p = 0;
    void *args[] = {&p, &p, &a, &n};
    int attribute;
    CUfunction f;
    for (size_t i = 0; i < sizeof(rubbish) / sizeof(rubbish[0]); i++) {
        void *bad = rubbish[i];
        FAILS(cuda->cuStreamSynchronize(bad), CUDA_ERROR_INVALID_HANDLE);
        FAILS(cuda->cuStreamDestroy_v2(bad), CUDA_ERROR_INVALID_HANDLE);
        FAILS(cuda->cuEventRecord(bad, NULL), CUDA_ERROR_INVALID_HANDLE);
        FAILS(cuda->cuEventDestroy_v2(bad), CUDA_ERROR_INVALID_HANDLE);
        FAILS(cuda->cuModuleUnload(bad), CUDA_ERROR_INVALID_HANDLE);
        FAILS(cuda->cuModuleGetFunction(&f, bad, "saxpy"), CUDA_ERROR_INVALID_HANDLE);
        FAILS(cuda->cuFuncGetAttribute(&attribute, 0, bad), CUDA_ERROR_INVALID_HANDLE);
        FAILS(cuda->cuLaunchKernel(bad, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL),
              CUDA_ERROR_INVALID_HANDLE);
        FAILS(cuda->cuLaunchKernel(saxpy, 1, 1, 1, 1, 1, 1, 0, bad, args, NULL),
              CUDA_ERROR_INVALID_HANDLE);
        FAILS(cuda->cuCtxSetCurrent(bad), CUDA_ERROR_INVALID_CONTEXT);
        FAILS(cuda->cuCtxDestroy_v2(bad), CUDA_ERROR_INVALID_CONTEXT);
        FAILS(cuda->cuMemFree_v2((CUdeviceptr)(uintptr_t)bad), CUDA_ERROR_INVALID_VALUE);
    }
    FAILS(cuda->cuCtxDestroy_v2(context), CUDA_ERROR_INVALID_CONTEXT); /* a primary one */
    FAILS(cuda->cuModuleGetFunction(&f, module, "nothing"), CUDA_ERROR_NOT_FOUND);
    FAILS(cuda->cuModuleGetFunction(&f, module, ""), CUDA_ERROR_NOT_FOUND);
}

static void null_pointers(void **state)
{
    (void)state;
    size_t size;
    CUdeviceptr p;
    FAILS(cuda->cuDeviceGetCount(NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuDeviceGetName(NULL, 10, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuDeviceGetAttribute(NULL, 1, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuDeviceTotalMem_v2(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuMemAlloc_v2(NULL, 10), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuMemAlloc_v2(&p, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuMemGetInfo_v2(NULL, &size), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuMemGetInfo_v2(&size, NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuMemHostAlloc(NULL, 10, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuStreamCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuEventCreate(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuModuleLoadData(NULL, saxpy_ptx), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuModuleLoadData(&module, NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuModuleGetFunction(NULL, module, "saxpy"), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuCtxGetCurrent(NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuCtxGetDevice(NULL), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuDevicePrimaryCtxRetain(NULL, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuPointerGetAttribute(NULL, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 16),
          CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuCtxGetLimit(NULL, CU_LIMIT_STACK_SIZE), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuLaunchKernel(saxpy, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL),
          CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuLaunchKernelEx(NULL, saxpy, NULL, NULL), CUDA_ERROR_INVALID_VALUE);
}

static void bad_values(void **state)
{
    (void)state;
    unsigned n = 1;
    float a = 1, host[4] = {0};
    CUdeviceptr p, q;
    CUstream stream;
    CUevent event;
    CUdevice device;
    int value;
    OK(cuda->cuMemAlloc_v2(&p, 1000));
    void *args[] = {&p, &p, &a, &n};
    FAILS(cuda->cuDeviceGet(&device, 99), CUDA_ERROR_INVALID_DEVICE);
    FAILS(cuda->cuDeviceGet(&device, -1), CUDA_ERROR_INVALID_DEVICE);
    FAILS(cuda->cuDeviceGetAttribute(&value, 0, 0), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuDeviceGetAttribute(&value, 100000, 0), CUDA_ERROR_INVALID_VALUE);
    /* grids and blocks */
    FAILS(cuda->cuLaunchKernel(saxpy, 0, 1, 1, 1, 1, 1, 0, NULL, args, NULL),
          CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuLaunchKernel(saxpy, 1, 1, 1, 0, 1, 1, 0, NULL, args, NULL),
          CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuLaunchKernel(saxpy, 1, 1, 1, 4096, 1, 1, 0, NULL, args, NULL),
          CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuLaunchKernel(saxpy, 1, 1, 1, 1024, 2, 1, 0, NULL, args, NULL),
          CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuLaunchKernel(saxpy, 1, 70000, 1, 1, 1, 1, 0, NULL, args, NULL),
          CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuLaunchKernel(saxpy, 1, 1, 1, 1, 1, 1, 1u << 30, NULL, args, NULL),
          CUDA_ERROR_INVALID_VALUE);
    /* ranges and overflow */
    FAILS(cuda->cuMemcpyHtoD_v2(p, host, SIZE_MAX), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuMemcpyHtoD_v2(p + 999, host, 2), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuMemcpyHtoD_v2(p, NULL, 4), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuMemcpyHtoD_v2(0, host, 4), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuMemcpyDtoH_v2(host, p + 1000, 1), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuMemcpyDtoH_v2(NULL, p, 4), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuMemcpyDtoD_v2(p, p + 600, 500), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuMemsetD32_v2(p, 0, SIZE_MAX / 2), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuMemsetD8_v2(p, 0, 1001), CUDA_ERROR_INVALID_VALUE);
    OK(cuda->cuMemcpyHtoD_v2(p, NULL, 0));
    OK(cuda->cuMemFree_v2(0));
    FAILS(cuda->cuMemFree_v2(p + 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuda->cuMemFree_v2(p));
    FAILS(cuda->cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuMemcpyHtoD_v2(p, host, 4), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuMemAlloc_v2(&q, (size_t)1 << 60), CUDA_ERROR_OUT_OF_MEMORY);
    FAILS(cuda->cuStreamCreate(&stream, 99), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuEventCreate(&event, 99), CUDA_ERROR_INVALID_VALUE);
    /* none of it sticks */
    OK(cuda->cuCtxSynchronize());
}

static void bad_modules(void **state)
{
    (void)state;
    static const char empty[16] = "\x50\xed\x55\xba\x01\x00\x10"; /* a fat binary of nothing */
    CUmodule m;
    char log[256] = "?";
    CUjit_option names[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)sizeof(log)};
    FAILS(cuda->cuModuleLoad(&m, "/nonexistent/file.ptx"), CUDA_ERROR_FILE_NOT_FOUND);
    if (!real)
        return;
    assert_int_not_equal(cuda->cuModuleLoadData(&m, "this is no PTX"), 0);
    assert_int_not_equal(cuda->cuModuleLoadData(&m, empty), 0);
    assert_int_not_equal(
        cuda->cuModuleLoadDataEx(&m, ".version 7.0\n.target sm_70\nrubbish", 2, names, values), 0);
    assert_string_not_equal(log, "?");
    OK(cuda->cuCtxSynchronize());
}

/* Images are sent once; of those that the session has dropped the client sends the bytes again. */
static void many_images(void **state)
{
    (void)state;
    if (real)
        return; /* the same, but with many megabytes of text to parse */
    enum { IMAGES = 18, PADDING = 4 << 20 };
    size_t size = sizeof(saxpy_ptx) + PADDING;
    char *image = malloc(size);
    CUmodule m;
    CUfunction f;
    for (int i = 0; i <= IMAGES; i++) {
        memcpy(image, saxpy_ptx, sizeof(saxpy_ptx) - 1);
        memset(image + sizeof(saxpy_ptx) - 1, ' ', PADDING);
        image[size - 2] = '\n';
        image[size - 1] = 0;
        image[sizeof(saxpy_ptx) + i % IMAGES] = '\n'; /* the last is the first again */
        OK(cuda->cuModuleLoadData(&m, image));
        OK(cuda->cuModuleGetFunction(&f, m, "saxpy"));
        OK(cuda->cuModuleUnload(m));
    }
    free(image);
}

static void pointers(void **state)
{
    (void)state;
    CUdeviceptr p, base;
    size_t size;
    void *host;
    unsigned type = 0;
    int ordinal = -1;
    OK(cuda->cuMemAlloc_v2(&p, 5000));
    assert_int_equal(p % 256, 0);
    OK(cuda->cuMemGetAddressRange_v2(&base, &size, p + 4999));
    assert_int_equal(base, p);
    assert_int_equal(size, 5000);
    OK(cuda->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, p + 1));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    OK(cuda->cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, p));
    assert_int_equal(ordinal, 0);
    FAILS(cuda->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      (CUdeviceptr)(uintptr_t)&type),
          CUDA_ERROR_INVALID_VALUE);
    OK(cuda->cuMemHostAlloc(&host, 12345, CU_MEMHOSTALLOC_PORTABLE));
    memset(host, 1, 12345);
    OK(cuda->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   (CUdeviceptr)(uintptr_t)host));
    assert_int_equal(type, CU_MEMORYTYPE_HOST);
    OK(cuda->cuMemFreeHost(host));
    FAILS(cuda->cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
    OK(cuda->cuMemFree_v2(p));
}

/* Freed memory is found again, however often. */
static void allocation_churn(void **state)
{
    (void)state;
    size_t before, after, total;
    CUdeviceptr held[64] = {0};
    OK(cuda->cuMemGetInfo_v2(&before, &total));
    uint32_t seed = 1;
    for (int i = 0; i < 4000; i++) {
        seed = seed * 1664525u + 1013904223u;
        CUdeviceptr *p = &held[(seed >> 8) % 64];
        OK(cuda->cuMemFree_v2(*p));
        *p = 0;
        OK(cuda->cuMemAlloc_v2(p, 1 + (seed >> 12) % (i % 16 ? 20000 : 3000000)));
    }
    for (int i = 0; i < 64; i++)
        OK(cuda->cuMemFree_v2(held[i]));
    OK(cuda->cuCtxSynchronize());
    OK(cuda->cuMemGetInfo_v2(&after, &total));
    assert_true(after <= total);
    assert_true(!real || before - after < total / 2);
}

static void own_contexts(void **state)
{
    (void)state;
    CUcontext own, top, other;
    CUdeviceptr p;
    CUstream stream;
    CUfunction f;
    CUmodule m;
    OK(cuda->cuCtxCreate_v2(&own, 0, 0));
    OK(cuda->cuCtxGetCurrent(&top));
    assert_ptr_equal(top, own);
    OK(cuda->cuMemAlloc_v2(&p, 100));
    OK(cuda->cuStreamCreate(&stream, 0));
    OK(cuda->cuModuleLoadData(&m, saxpy_ptx));
    OK(cuda->cuModuleGetFunction(&f, m, "saxpy"));
    /* a function of another context */
    unsigned n = 0;
    float a = 0;
    void *args[] = {&p, &p, &a, &n};
    FAILS(cuda->cuLaunchKernel(saxpy, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL),
          CUDA_ERROR_INVALID_HANDLE);
    OK(cuda->cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, args, NULL));
    OK(cuda->cuCtxSynchronize());
    OK(cuda->cuCtxPushCurrent_v2(context));
    OK(cuda->cuCtxPopCurrent_v2(&other));
    assert_ptr_equal(other, context);
    OK(cuda->cuCtxDestroy_v2(own));
    FAILS(cuda->cuStreamSynchronize(stream), CUDA_ERROR_INVALID_HANDLE);
    FAILS(cuda->cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
    FAILS(cuda->cuModuleUnload(m), CUDA_ERROR_INVALID_HANDLE);
    OK(cuda->cuCtxGetCurrent(&top));
    assert_ptr_equal(top, context);
    OK(cuda->cuCtxSetCurrent(NULL));
    FAILS(cuda->cuMemAlloc_v2(&p, 100), CUDA_ERROR_INVALID_CONTEXT);
    FAILS(cuda->cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuda->cuCtxSetCurrent(context));
}

/* A primary context that comes back works like the first, copies included. */
static void primary_context_again(void **state)
{
    (void)state;
    uint32_t in = 0, out = 0;
    CUdeviceptr p;
    for (uint32_t round = 1; round <= 3; round++) {
        OK(cuda->cuDevicePrimaryCtxRelease_v2(0));
        FAILS(cuda->cuMemAlloc_v2(&p, 4), CUDA_ERROR_CONTEXT_IS_DESTROYED);
        OK(cuda->cuDevicePrimaryCtxRetain(&context, 0));
        OK(cuda->cuCtxSetCurrent(context));
        OK(cuda->cuMemAlloc_v2(&p, 60000));
        in = round;
        OK(cuda->cuMemcpyHtoD_v2(p, &in, 4));
        OK(cuda->cuMemcpyDtoH_v2(&out, p, 4));
        assert_true(!real || out == round);
    }
    OK(cuda->cuDevicePrimaryCtxReset_v2(0));
    FAILS(cuda->cuMemAlloc_v2(&p, 4), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuda->cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuda->cuDevicePrimaryCtxRelease_v2(0)); /* the reset did not */
    OK(cuda->cuCtxSetCurrent(context));
    FAILS(cuda->cuMemFree_v2(p), CUDA_ERROR_INVALID_VALUE);
    OK(cuda->cuMemAlloc_v2(&p, 60000));
    OK(cuda->cuMemcpyHtoD_v2(p, &in, 4));
    OK(cuda->cuMemcpyDtoH_v2(&out, p, 4));
    assert_true(!real || out == in);
    OK(cuda->cuModuleLoadData(&module, saxpy_ptx));
    OK(cuda->cuModuleGetFunction(&saxpy, module, "saxpy"));
}

/* A fault sticks to its context. It comes last. */
static void faults_stick(void **state)
{
    (void)state;
    CUfunction wild;
    CUdeviceptr p = 0;
    void *args[] = {&p};
    if (!real)
        return;
    OK(cuda->cuModuleGetFunction(&wild, module, "wild"));
    OK(cuda->cuLaunchKernel(wild, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL));
    FAILS(cuda->cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    FAILS(cuda->cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
    FAILS(cuda->cuMemAlloc_v2(&p, 4), CUDA_ERROR_ILLEGAL_ADDRESS);
    FAILS(cuda->cuLaunchKernel(saxpy, 1, 1, 1, 1, 1, 1, 0, NULL, args, NULL),
          CUDA_ERROR_ILLEGAL_ADDRESS);
}

/* What the session copies through outlives the context in which it was first needed. */
static void copies_after_a_context_has_gone(void **state)
{
    enum { N = 5 << 20 };
    unsigned char *out = malloc(N), *back = malloc(N);
    (void)state;
    for (int i = 0; i < N; i++)
        out[i] = (unsigned char)(i * 7 + (i >> 11));
    OK(cuda->cuCtxSetCurrent(NULL));
    OK(cuda->cuDevicePrimaryCtxRelease_v2(0));
    for (int round = 0; round < 3; round++) {
        CUdeviceptr p;
        OK(cuda->cuDevicePrimaryCtxRetain(&context, 0));
        OK(cuda->cuCtxSetCurrent(context));
        OK(cuda->cuMemAlloc_v2(&p, N));
        OK(cuda->cuMemcpyHtoD_v2(p, out, N));
        memset(back, 0, N);
        OK(cuda->cuMemcpyDtoH_v2(back, p, N));
        if (real)
            assert_memory_equal(back, out, N);
        OK(cuda->cuMemFree_v2(p));
        OK(cuda->cuCtxSetCurrent(NULL));
        OK(cuda->cuDevicePrimaryCtxRelease_v2(0));
    }
    free(out);
    free(back);
    remote_set_up(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launches),
        cmocka_unit_test(libraries),
        cmocka_unit_test(copies),
        cmocka_unit_test(streams_and_events),
        cmocka_unit_test(bad_handles),
        cmocka_unit_test(null_pointers),
        cmocka_unit_test(bad_values),
        cmocka_unit_test(bad_modules),
        cmocka_unit_test(many_images),
        cmocka_unit_test(pointers),
        cmocka_unit_test(allocation_churn),
        cmocka_unit_test(own_contexts),
        cmocka_unit_test(primary_context_again),
        cmocka_unit_test(copies_after_a_context_has_gone),
        cmocka_unit_test(faults_stick),
    };
    proxy_t proxy;
    remote_open(argc, argv, &proxy);
    int failed = cmocka_run_group_tests(tests, remote_set_up, NULL);
    proxy_stop(&proxy);
    return failed;
}
