/* An ordinary program on the CUDA driver API, linked with -lcuda: adds two vectors and checks the sum.
 * Ends with 0 and "PASSED", or with 1 and the name of the error. */
#include <stdio.h>
#include <stdlib.h>

#include "gb_cuda_api.h"

static const char ptx[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry add(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)\n"
    "{\n"
    "    .reg .pred %p<2>;\n    .reg .u32 %r<6>;\n    .reg .u64 %rd<8>;\n    .reg .f32 %f<4>;\n"
    "    ld.param.u64 %rd1, [a];\n    ld.param.u64 %rd2, [b];\n    ld.param.u64 %rd3, [c];\n"
    "    ld.param.u32 %r1, [n];\n"
    "    mov.u32 %r2, %ctaid.x;\n    mov.u32 %r3, %ntid.x;\n    mov.u32 %r4, %tid.x;\n"
    "    mad.lo.s32 %r5, %r2, %r3, %r4;\n    setp.ge.u32 %p1, %r5, %r1;\n    @%p1 bra END;\n"
    "    mul.wide.u32 %rd4, %r5, 4;\n    add.u64 %rd5, %rd1, %rd4;\n    add.u64 %rd6, %rd2, %rd4;\n"
    "    add.u64 %rd7, %rd3, %rd4;\n    ld.global.f32 %f1, [%rd5];\n    ld.global.f32 %f2, "
    "[%rd6];\n"
    "    add.f32 %f3, %f1, %f2;\n    st.global.f32 [%rd7], %f3;\n"
    "END:\n    ret;\n}\n";

static void check(CUresult result, const char *what)
{
    const char *name = "?";
    if (result == CUDA_SUCCESS)
        return;
    cuGetErrorName(result, &name);
    printf("%s: %s\n", what, name);
    exit(1);
}

#define CHECK(call) check(call, #call)

enum { N = 50000 };

int main(void)
{
    static float a[N], b[N], c[N];
    CUdevice device;
    CUcontext context;
    CUmodule module;
    CUfunction add;
    CUdeviceptr da, db, dc;
    int n = N;
    for (int i = 0; i < N; i++) {
        a[i] = (float)i;
        b[i] = 2.0f * (float)i;
    }
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuCtxCreate_v2(&context, 0, device));
    CHECK(cuModuleLoadData(&module, ptx));
    CHECK(cuModuleGetFunction(&add, module, "add"));
    CHECK(cuMemAlloc_v2(&da, sizeof(a)));
    CHECK(cuMemAlloc_v2(&db, sizeof(b)));
    CHECK(cuMemAlloc_v2(&dc, sizeof(c)));
    CHECK(cuMemcpyHtoD_v2(da, a, sizeof(a)));
    CHECK(cuMemcpyHtoD_v2(db, b, sizeof(b)));
    void *params[] = {&da, &db, &dc, &n};
    CHECK(cuLaunchKernel(add, (N + 255) / 256, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    CHECK(cuMemcpyDtoH_v2(c, dc, sizeof(c)));
    for (int i = 0; i < N; i++) {
        if (c[i] != 3.0f * (float)i) {
            printf("wrong sum at %d\n", i);
            return 1;
        }
    }
    CHECK(cuCtxDestroy_v2(context));
    puts("PASSED");
    return 0;
}
