/* What a program built by nvcc does, on the software device. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/runtime/rt_program.h"

#define OK(call) assert_int_equal(call, cudaSuccess)

enum { N = 10000 };

static float *numbers(int n)
{
    float *p = malloc((size_t)n * sizeof(*p));
    for (int i = 0; i < n; i++)
        p[i] = (float)i;
    return p;
}

static void vector_add(void **state)
{
    (void)state;
    float *h = numbers(N), *a, *b, *c;
    int n = N;
    OK(cudaMalloc((void **)&a, N * 4));
    OK(cudaMalloc((void **)&b, N * 4));
    OK(cudaMalloc((void **)&c, N * 4));
    OK(cudaMemcpy(a, h, N * 4, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(b, a, N * 4, cudaMemcpyDeviceToDevice));
    OK(rt_launch((void *)rt_add, (dim3){(N + 255) / 256, 1, 1}, (dim3){256, 1, 1}, 0, NULL,
                 (void *[]){&a, &b, &c, &n}));
    OK(cudaGetLastError());
    OK(cudaMemcpy(h, c, N * 4, cudaMemcpyDefault));
    for (int i = 0; i < N; i++)
        assert_true(h[i] == 2.0f * (float)i);
    OK(cudaLaunchKernel((void *)rt_add, (dim3){(N + 63) / 64, 1, 1}, (dim3){64, 1, 1},
                        (void *[]){&c, &c, &a, &n}, 0, NULL));
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(h, a, N * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < N; i++)
        assert_true(h[i] == 4.0f * (float)i);
    OK(cudaFree(a));
    OK(cudaFree(b));
    OK(cudaFree(c));
    OK(cudaFree(NULL));
    free(h);
}

static void symbols(void **state)
{
    (void)state;
    const float factors[4] = {1, 2, 3, 4};
    float *h = numbers(64), *x;
    int n = 64, count = 0;
    size_t bytes = 0;
    void *address = NULL;
    OK(cudaMemcpyToSymbol(rt_factors, factors, sizeof(factors), 0, cudaMemcpyHostToDevice));
    OK(cudaMalloc((void **)&x, 256));
    OK(cudaMemcpy(x, h, 256, cudaMemcpyHostToDevice));
    OK(cudaLaunchKernel((void *)rt_scale, (dim3){2, 1, 1}, (dim3){32, 1, 1}, (void *[]){&x, &n}, 0,
                        NULL));
    OK(cudaMemcpy(h, x, 256, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++)
        assert_true(h[i] == (float)i * factors[i & 3]);
    OK(cudaLaunchKernel((void *)rt_count, (dim3){1, 1, 1}, (dim3){32, 1, 1}, NULL, 0, NULL));
    OK(cudaMemcpyFromSymbol(&count, &rt_counter, 4, 0, cudaMemcpyDeviceToHost));
    assert_int_equal(count, 6);
    OK(cudaGetSymbolSize(&bytes, rt_factors));
    assert_int_equal(bytes, 16);
    OK(cudaGetSymbolAddress(&address, &rt_counter));
    OK(cudaMemset(address, 0, 4));
    OK(cudaMemcpyFromSymbolAsync(&count, &rt_counter, 4, 0, cudaMemcpyDeviceToHost, NULL));
    OK(cudaStreamSynchronize(NULL));
    assert_int_equal(count, 0);
    OK(cudaFree(x));
    free(h);
}

static void streams_and_events(void **state)
{
    (void)state;
    cudaStream_t s;
    cudaEvent_t begin, end;
    float *x, ms = -1;
    OK(cudaStreamCreateWithFlags(&s, 1));
    OK(cudaEventCreate(&begin));
    OK(cudaEventCreate(&end));
    OK(cudaMalloc((void **)&x, 1 << 20));
    OK(cudaEventRecord(begin, s));
    OK(cudaMemsetAsync(x, 0, 1 << 20, s));
    OK(cudaEventRecord(end, s));
    OK(cudaStreamWaitEvent(NULL, end, 0));
    OK(cudaEventSynchronize(end));
    OK(cudaEventQuery(end));
    OK(cudaEventElapsedTime(&ms, begin, end));
    assert_true(ms >= 0);
    OK(cudaStreamQuery(s));
    OK(cudaFree(x));
    OK(cudaEventDestroy(begin));
    OK(cudaEventDestroy(end));
    OK(cudaStreamDestroy(s));
}

static void count_call(cudaStream_t stream, cudaError_t status, void *user)
{
    (void)stream;
    *(int *)user += status == cudaSuccess;
}

static void count_host(void *user)
{
    *(int *)user += 10;
}

static void callbacks(void **state)
{
    (void)state;
    cudaStream_t s;
    int calls = 0;
    OK(cudaStreamCreate(&s));
    OK(cudaStreamAddCallback(s, count_call, &calls, 0));
    OK(cudaLaunchHostFunc(s, count_host, &calls));
    OK(cudaStreamSynchronize(s));
    assert_int_equal(calls, 11);
    OK(cudaStreamDestroy(s));
}

static void two_dimensions(void **state)
{
    (void)state;
    char *d, h[8][20], back[8][10];
    size_t pitch;
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 20; x++)
            h[y][x] = (char)(y * 20 + x);
    OK(cudaMallocPitch((void **)&d, &pitch, 10, 8));
    assert_true(pitch >= 10);
    OK(cudaMemset2D(d, pitch, 7, 10, 8));
    OK(cudaMemcpy2D(d, pitch, &h[0][5], 20, 9, 8, cudaMemcpyHostToDevice));
    OK(cudaMemcpy2D(back, 10, d, pitch, 10, 8, cudaMemcpyDeviceToHost));
    for (int y = 0; y < 8; y++)
        for (int x = 0; x < 10; x++)
            assert_int_equal(back[y][x], x < 9 ? h[y][x + 5] : 7);
    OK(cudaFree(d));
}

static void boxes(void **state)
{
    (void)state;
    struct cudaPitchedPtr d;
    unsigned char h[4 * 3 * 16], back[sizeof(h)];
    for (size_t i = 0; i < sizeof(h); i++)
        h[i] = (unsigned char)i;
    OK(cudaMalloc3D(&d, (struct cudaExtent){16, 3, 4}));
    OK(cudaMemset3D(d, 0, (struct cudaExtent){16, 3, 4}));
    struct cudaMemcpy3DParms in = {.srcPtr = {h, 16, 16, 3},
                                   .dstPtr = d,
                                   .extent = {16, 3, 4},
                                   .kind = cudaMemcpyHostToDevice};
    OK(cudaMemcpy3D(&in));
    struct cudaMemcpy3DParms out = {.srcPtr = d,
                                    .srcPos = {4, 1, 2},
                                    .dstPtr = {back, 16, 16, 3},
                                    .extent = {8, 2, 2},
                                    .kind = cudaMemcpyDeviceToHost};
    memset(back, 0, sizeof(back));
    OK(cudaMemcpy3D(&out));
    for (int z = 0; z < 2; z++)
        for (int y = 0; y < 2; y++)
            for (int x = 0; x < 8; x++)
                assert_int_equal(back[(z * 3 + y) * 16 + x], h[((z + 2) * 3 + y + 1) * 16 + x + 4]);
    OK(cudaFree(d.ptr));
}

static void devices(void **state)
{
    (void)state;
    struct cudaDeviceProp p;
    int count = 0, device = -1, value = 0, version = 0;
    char bus[32];
    OK(cudaGetDeviceCount(&count));
    assert_true(count >= 1);
    OK(cudaSetDevice(count - 1));
    OK(cudaGetDevice(&device));
    assert_int_equal(device, count - 1);
    OK(cudaGetDeviceProperties(&p, device));
    assert_true(p.name[0] && p.warpSize == 32 && p.maxThreadsPerBlock == 1024 &&
                p.totalGlobalMem > 0 && p.multiProcessorCount > 0 && p.major >= 7);
    OK(cudaDeviceGetAttribute(&value, (enum cudaDeviceAttr)10, device));
    assert_int_equal(value, 32);
    OK(cudaDeviceGetPCIBusId(bus, sizeof(bus), device));
    OK(cudaDeviceGetByPCIBusId(&value, bus));
    assert_int_equal(value, device);
    OK(cudaRuntimeGetVersion(&version));
    assert_int_equal(version, 13000);
    OK(cudaDriverGetVersion(&version));
    assert_true(version >= 13000);
    OK(cudaSetDevice(0));
}

static void kinds_of_pointers(void **state)
{
    (void)state;
    struct cudaPointerAttributes a;
    void *device, *host, *mapped;
    int local;
    OK(cudaMalloc(&device, 100));
    OK(cudaPointerGetAttributes(&a, device));
    assert_int_equal(a.type, cudaMemoryTypeDevice);
    assert_ptr_equal(a.devicePointer, device);
    OK(cudaMallocHost(&host, 100));
    OK(cudaPointerGetAttributes(&a, host));
    assert_int_equal(a.type, cudaMemoryTypeHost);
    assert_ptr_equal(a.hostPointer, host);
    OK(cudaHostGetDevicePointer(&mapped, host, 0));
    OK(cudaPointerGetAttributes(&a, &local));
    assert_int_equal(a.type, cudaMemoryTypeUnregistered);
    OK(cudaFreeHost(host));
    OK(cudaFree(device));
}

static void functions(void **state)
{
    (void)state;
    struct cudaFuncAttributes a;
    int blocks = 0;
    const char *name = NULL;
    OK(cudaFuncGetAttributes(&a, (void *)rt_add));
    assert_int_equal(a.maxThreadsPerBlock, 1024);
    OK(cudaFuncGetName(&name, (void *)rt_add));
    assert_string_equal(name, "rt_add");
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, (void *)rt_add, 128, 0));
    assert_true(blocks >= 1);
    OK(cudaFuncSetAttribute((void *)rt_add, cudaFuncAttributeMaxDynamicSharedMemorySize, 65536));
    OK(cudaFuncGetAttributes(&a, (void *)rt_add));
    assert_int_equal(a.maxDynamicSharedSizeBytes, 65536);
}

static void reset(void **state)
{
    (void)state;
    int count = -1;
    OK(cudaLaunchKernel((void *)rt_count, (dim3){1, 1, 1}, (dim3){32, 1, 1}, NULL, 0, NULL));
    OK(cudaDeviceReset());
    OK(cudaMemcpyFromSymbol(&count, &rt_counter, 4, 0, cudaMemcpyDeviceToHost));
    assert_int_equal(count, 5); /* a new context begins with the initial values */
    OK(cudaLaunchKernel((void *)rt_count, (dim3){1, 1, 1}, (dim3){32, 1, 1}, NULL, 0, NULL));
    OK(cudaMemcpyFromSymbol(&count, &rt_counter, 4, 0, cudaMemcpyDeviceToHost));
    assert_int_equal(count, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(vector_add),
                                       cmocka_unit_test(symbols),
                                       cmocka_unit_test(streams_and_events),
                                       cmocka_unit_test(callbacks),
                                       cmocka_unit_test(two_dimensions),
                                       cmocka_unit_test(boxes),
                                       cmocka_unit_test(devices),
                                       cmocka_unit_test(kinds_of_pointers),
                                       cmocka_unit_test(functions),
                                       cmocka_unit_test(reset)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
