/* Kernels of every kind on one device, checked against plain C. */
#include <stdint.h>
#include <string.h>

#include "app.h"

enum { N = 100003, M = 77 };

static void saxpy(CUmodule mod)
{
    static float x[N], y[N], z[N];
    for (int i = 0; i < N; i++) {
        x[i] = (float)(i % 1000) * 0.5f;
        y[i] = (float)(i % 777);
    }
    CUdeviceptr dx = app_alloc(sizeof x), dy = app_alloc(sizeof y);
    app_check(cuMemcpyHtoD_v2(dx, x, sizeof x), "cuMemcpyHtoD");
    app_check(cuMemcpyHtoD_v2(dy, y, sizeof y), "cuMemcpyHtoD");
    unsigned n = N;
    float a = 3;
    app_launch(app_kernel(mod, "saxpy"), (N + 255) / 256, 256, 0, (void *[]){&n, &a, &dx, &dy});
    app_check(cuMemcpyDtoH_v2(z, dy, sizeof z), "cuMemcpyDtoH");
    int wrong = 0;
    for (int i = 0; i < N; i++)
        wrong += z[i] != a * x[i] + y[i]; /* exact in fp32, with or without fma */
    printf("saxpy: %d wrong\n", wrong);
    app_check(cuMemFree_v2(dx), "cuMemFree");
    app_check(cuMemFree_v2(dy), "cuMemFree");
}

static void reduce(CUmodule mod)
{
    CUdeviceptr data = app_alloc(N * 4), out = app_alloc(4);
    unsigned n = N, start = 7, step = 3, total = 0, expected = 0;
    app_launch(app_kernel(mod, "fill"), 13, 128, 0, (void *[]){&n, &start, &step, &data});
    app_check(cuMemsetD32_v2(out, 0, 1), "cuMemsetD32");
    app_launch(app_kernel(mod, "sum"), 9, 256, 0, (void *[]){&n, &data, &out});
    app_check(cuMemcpyDtoH_v2(&total, out, 4), "cuMemcpyDtoH");
    for (unsigned i = 0; i < N; i++)
        expected += start + i * step;
    printf("sum: %u, expected %u\n", total, expected);
    app_check(cuMemFree_v2(data), "cuMemFree");
    app_check(cuMemFree_v2(out), "cuMemFree");
}

static void histogram(CUmodule mod)
{
    static unsigned char bytes[N];
    unsigned expected[64] = {0}, bins[64], n = N, wrong = 0;
    uint32_t seed = 1;
    for (int i = 0; i < N; i++) {
        seed = seed * 1664525u + 1013904223u;
        bytes[i] = (unsigned char)(seed >> 24);
        expected[bytes[i] >> 2]++;
    }
    CUdeviceptr in = app_alloc(N), out = app_alloc(sizeof bins);
    app_check(cuMemcpyHtoD_v2(in, bytes, N), "cuMemcpyHtoD");
    app_check(cuMemsetD8_v2(out, 0, sizeof bins), "cuMemsetD8");
    app_launch(app_kernel(mod, "histogram"), 6, 192, 0, (void *[]){&n, &in, &out});
    app_check(cuMemcpyDtoH_v2(bins, out, sizeof bins), "cuMemcpyDtoH");
    for (int i = 0; i < 64; i++)
        wrong += bins[i] != expected[i];
    printf("histogram: %u wrong\n", wrong);
    app_check(cuMemFree_v2(in), "cuMemFree");
    app_check(cuMemFree_v2(out), "cuMemFree");
}

static void matmul(CUmodule mod)
{
    static float a[M * M], b[M * M], c[M * M];
    for (int i = 0; i < M * M; i++) {
        a[i] = (float)(i % 13 - 6);
        b[i] = (float)(i % 7 - 3);
    }
    CUdeviceptr da = app_alloc(sizeof a), db = app_alloc(sizeof b), dc = app_alloc(sizeof c);
    app_check(cuMemcpyHtoD_v2(da, a, sizeof a), "cuMemcpyHtoD");
    app_check(cuMemcpyHtoD_v2(db, b, sizeof b), "cuMemcpyHtoD");
    int n = M, wrong = 0;
    app_check(cuLaunchKernel(app_kernel(mod, "matmul"), (M + 15) / 16, (M + 15) / 16, 1, 16, 16, 1,
                             0, NULL, (void *[]){&n, &da, &db, &dc}, NULL),
              "cuLaunchKernel");
    app_check(cuMemcpyDtoH_v2(c, dc, sizeof c), "cuMemcpyDtoH");
    for (int i = 0; i < M; i++)
        for (int j = 0; j < M; j++) {
            float expected = 0; /* small whole numbers: exact in any order */
            for (int k = 0; k < M; k++)
                expected += a[i * M + k] * b[k * M + j];
            wrong += c[i * M + j] != expected;
        }
    printf("matmul: %d wrong\n", wrong);
    app_check(cuMemFree_v2(da), "cuMemFree");
    app_check(cuMemFree_v2(db), "cuMemFree");
    app_check(cuMemFree_v2(dc), "cuMemFree");
}

static void variables(CUmodule mod)
{
    CUdeviceptr counter, scale;
    size_t size, scale_size;
    app_check(cuModuleGetGlobal_v2(&counter, &size, mod, "counter"), "cuModuleGetGlobal");
    app_check(cuModuleGetGlobal_v2(&scale, &scale_size, mod, "scale"), "cuModuleGetGlobal");
    unsigned value = 5;
    app_check(cuMemcpyHtoD_v2(counter, &value, 4), "cuMemcpyHtoD");
    CUfunction f = app_kernel(mod, "count");
    for (unsigned which = 0; which < 4; which++)
        app_launch(f, 2, 32, 0, (void *[]){&which});
    app_check(cuMemcpyDtoH_v2(&value, counter, 4), "cuMemcpyDtoH");
    printf("counter: %u of %zu bytes, table of %zu\n", value, size, scale_size);
    value = 2;
    app_check(cuMemcpyHtoD_v2(scale, &value, 4), "cuMemcpyHtoD");
    unsigned which = 0;
    /* The `extra` form passes the parameter block as it is. */
    size_t bytes = sizeof which;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &which, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    app_check(cuLaunchKernel(f, 1, 1, 1, 64, 1, 1, 0, NULL, NULL, extra), "cuLaunchKernel");
    app_check(cuMemcpyDtoH_v2(&value, counter, 4), "cuMemcpyDtoH");
    printf("counter: %u\n", value);
}

static void divergence(CUmodule mod)
{
    enum { COUNT = 5000 };
    static unsigned steps[COUNT];
    CUdeviceptr d = app_alloc(sizeof steps);
    unsigned n = COUNT, wrong = 0;
    app_launch(app_kernel(mod, "collatz"), (COUNT + 95) / 96, 96, 0, (void *[]){&n, &d});
    app_check(cuMemcpyDtoH_v2(steps, d, sizeof steps), "cuMemcpyDtoH");
    for (unsigned i = 0; i < COUNT; i++) {
        unsigned long long v = i + 1;
        unsigned s = 0;
        for (; v != 1; s++)
            v = v & 1 ? 3 * v + 1 : v >> 1;
        wrong += steps[i] != s;
    }
    printf("collatz: %u wrong, steps[26] = %u\n", wrong, steps[26]);
    app_check(cuMemFree_v2(d), "cuMemFree");
}

int main(void)
{
    CUcontext ctx;
    CUmodule mod = app_open(0, &ctx);
    saxpy(mod);
    reduce(mod);
    histogram(mod);
    matmul(mod);
    variables(mod);
    divergence(mod);
    app_check(cuModuleUnload(mod), "cuModuleUnload");
    app_check(cuDevicePrimaryCtxRelease_v2(0), "cuDevicePrimaryCtxRelease");
    return 0;
}
