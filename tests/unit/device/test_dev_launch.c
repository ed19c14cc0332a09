/* Launching kernels: parameters, shapes, errors at the call, streams side by side. */
#include "device_kernels.h"

static void kernels_compute(void **state)
{
    CUfunction function = kernel("count_up");
    CUdeviceptr out;
    enum { N = 100003 };
    uint32_t *host = malloc(N * 4), bias = 17, n = N - 3;
    (void)state;
    OK(cu->cuMemAlloc_v2(&out, N * 4));
    OK(cu->cuMemsetD32_v2(out, 0, N));
    void *params[] = {&out, &bias, &n};
    static const unsigned blocks[] = {1, 32, 96, 100, 256, 1024};
    for (size_t b = 0; b < sizeof(blocks) / sizeof(blocks[0]); b++) {
        bias = 17 + (uint32_t)b;
        OK(cu->cuLaunchKernel(function, (N + blocks[b] - 1) / blocks[b], 1, 1, blocks[b], 1, 1, 0,
                              NULL, params, NULL));
        OK(cu->cuMemcpyDtoH_v2(host, out, N * 4));
        for (uint32_t i = 0; i < N; i++)
            assert_int_equal(host[i], i < n ? i + bias : 0);
    }
    OK(cu->cuMemFree_v2(out));
    free(host);
}

/* Whatever the order, each block of a grid runs once, with its own number. */
static void every_block_runs_once(void **state)
{
    static const char ptx[] =
        ".version 7.0\n.target sm_70\n.address_size 64\n"
        ".visible .entry count(.param .u64 out)\n{\n.reg .b32 %r<9>;\n.reg .b64 %rd<4>;\n"
        "ld.param.u64 %rd1, [out];\nmov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ctaid.y;\n"
        "mov.u32 %r3, %ctaid.z;\nmov.u32 %r4, %nctaid.x;\nmov.u32 %r5, %nctaid.y;\n"
        "mad.lo.s32 %r6, %r3, %r5, %r2;\nmad.lo.s32 %r6, %r6, %r4, %r1;\n"
        "mul.wide.u32 %rd2, %r6, 4;\nadd.s64 %rd3, %rd1, %rd2;\n"
        "red.global.add.u32 [%rd3], 1;\nret;\n}\n";
    static const unsigned grids[][3] = {{1, 1, 1}, {7, 1, 1}, {1, 9, 1},
                                        {5, 4, 2}, {3, 7, 3}, {16, 6, 1}};
    enum { MOST = 128 };
    CUmodule module;
    CUfunction function;
    CUdeviceptr out;
    uint32_t host[MOST];
    (void)state;
    OK(cu->cuModuleLoadData(&module, ptx));
    OK(cu->cuModuleGetFunction(&function, module, "count"));
    OK(cu->cuMemAlloc_v2(&out, sizeof(host)));
    void *params[] = {&out};
    for (size_t g = 0; g < sizeof(grids) / sizeof(grids[0]); g++) {
        const unsigned *n = grids[g];
        OK(cu->cuMemsetD32_v2(out, 0, MOST));
        OK(cu->cuLaunchKernel(function, n[0], n[1], n[2], 1, 1, 1, 0, NULL, params, NULL));
        OK(cu->cuMemcpyDtoH_v2(host, out, sizeof(host)));
        for (uint32_t i = 0; i < MOST; i++)
            assert_int_equal(host[i], i < n[0] * n[1] * n[2]);
    }
    OK(cu->cuMemFree_v2(out));
}

static void parameters_come_in_both_forms(void **state)
{
    CUfunction function = kernel("gather");
    CUdeviceptr out;
    uint64_t result = 0, d[2] = {99, 1000000000000};
    uint8_t a = 200;
    uint16_t b = 50000;
    uint32_t c = 4000000000u;
    (void)state;
    OK(cu->cuMemAlloc_v2(&out, 8));
    void *params[] = {&out, &a, &b, &c, d};
    OK(run_one(function, params));
    OK(cu->cuMemcpyDtoH_v2(&result, out, 8));
    assert_int_equal(result, 200 + 50000 + 4000000000ull + 1000000000000ull);
    struct {
        uint64_t out;
        uint8_t a;
        uint16_t b;
        uint32_t c;
        uint64_t d[2];
    } packed = {out, 1, 2, 3, {0, 4}};
    size_t size = sizeof(packed);
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    OK(cu->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    OK(cu->cuMemcpyDtoH_v2(&result, out, 8));
    assert_int_equal(result, 10);
    size = sizeof(packed) - 8;
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, params, extra));
    FAILS(CUDA_ERROR_INVALID_VALUE, run_one(function, NULL));
    params[2] = NULL;
    FAILS(CUDA_ERROR_INVALID_VALUE, run_one(function, params));
    OK(cu->cuCtxSynchronize_v2(NULL));
}

static void shared_memory_is_as_large_as_asked(void **state)
{
    CUfunction function = kernel("reverse");
    CUdeviceptr data;
    uint32_t host[512];
    (void)state;
    OK(cu->cuMemAlloc_v2(&data, sizeof(host)));
    for (uint32_t i = 0; i < 512; i++)
        host[i] = i;
    OK(cu->cuMemcpyHtoD_v2(data, host, sizeof(host)));
    void *params[] = {&data};
    OK(cu->cuLaunchKernel(function, 4, 1, 1, 128, 1, 1, 512, NULL, params, NULL));
    OK(cu->cuMemcpyDtoH_v2(host, data, sizeof(host)));
    for (uint32_t i = 0; i < 512; i++)
        assert_int_equal(host[i], i / 128 * 128 + 127 - i % 128);
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuLaunchKernel(function, 1, 1, 1, 128, 1, 1, 60000, NULL, params, NULL));
    OK(cu->cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000));
    OK(cu->cuLaunchKernel(function, 4, 1, 1, 128, 1, 1, 60000, NULL, params, NULL));
    OK(cu->cuCtxSynchronize_v2(NULL));
}

static void wrong_shapes_are_refused_at_the_call(void **state)
{
    CUfunction function = kernel("nothing"), bounded = kernel("bounded");
    CUfunction bad = (CUfunction)0x5555;
    (void)state;
#define LAUNCH(f, gx, gy, gz, bx, by, bz)                                                          \
    cu->cuLaunchKernel(f, gx, gy, gz, bx, by, bz, 0, NULL, NULL, NULL)
    FAILS(CUDA_ERROR_INVALID_VALUE, LAUNCH(function, 0, 1, 1, 1, 1, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, LAUNCH(function, 1, 1, 1, 1, 0, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, LAUNCH(function, 1, 1, 1, 1025, 1, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, LAUNCH(function, 1, 1, 1, 64, 64, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, LAUNCH(function, 1, 1, 1, 1, 1, 65));
    FAILS(CUDA_ERROR_INVALID_VALUE, LAUNCH(function, 1, 65536, 1, 1, 1, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, LAUNCH(function, 0x80000000u, 1, 1, 1, 1, 1));
    FAILS(CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, LAUNCH(bounded, 1, 1, 1, 65, 1, 1));
    FAILS(CUDA_ERROR_INVALID_HANDLE, LAUNCH(bad, 1, 1, 1, 1, 1, 1));
    FAILS(CUDA_ERROR_INVALID_HANDLE, LAUNCH(NULL, 1, 1, 1, 1, 1, 1));
    FAILS(CUDA_ERROR_INVALID_HANDLE,
          cu->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, (CUstream)0x77, NULL, NULL));
    /* None of these sticks. */
    OK(LAUNCH(function, 3, 2, 2, 8, 4, 2));
    OK(LAUNCH(bounded, 1, 1, 1, 64, 1, 1));
    OK(cu->cuCtxSynchronize_v2(NULL));
}

static void every_thread_of_every_block_runs_once(void **state)
{
    CUmodule module;
    CUfunction function;
    CUdeviceptr total;
    uint32_t value;
    (void)state;
    OK(cu->cuModuleLoadData(&module, device_kernels));
    OK(cu->cuModuleGetFunction(&function, module, "add_up"));
    OK(cu->cuModuleGetGlobal_v2(&total, NULL, module, "total"));
    OK(cu->cuLaunchKernel(function, 7, 5, 3, 16, 3, 2, 0, NULL, NULL, NULL));
    OK(cu->cuLaunchKernel(function, 1000, 1, 1, 33, 1, 1, 0, NULL, NULL, NULL));
    OK(cu->cuLaunchKernel(function, 100000, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    OK(cu->cuMemcpyDtoH_v2(&value, total, 4));
    assert_int_equal(value, 5 + 7 * 5 * 3 * 96 + 33000 + 100000);
}

static void launches_of_a_stream_run_in_order(void **state)
{
    CUfunction function = kernel("count_up");
    CUstream stream;
    CUdeviceptr out;
    enum { N = 4096 };
    uint32_t n = N, host[N];
    (void)state;
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu->cuMemAlloc_v2(&out, N * 4));
    for (uint32_t bias = 0; bias < 500; bias++) {
        void *params[] = {&out, &bias, &n};
        OK(cu->cuLaunchKernel(function, N / 64, 1, 1, 64, 1, 1, 0, stream, params, NULL));
    }
    OK(cu->cuStreamSynchronize(stream));
    OK(cu->cuMemcpyDtoH_v2(host, out, sizeof(host)));
    for (uint32_t i = 0; i < N; i++)
        assert_int_equal(host[i], i + 499);
    OK(cu->cuStreamDestroy_v2(stream));
}

static void streams_run_side_by_side(void **state)
{
    CUfunction until = kernel("until"), add = kernel("add_at");
    CUstream a, b;
    CUdeviceptr words;
    uint32_t value;
    (void)state;
    words = memory_of_both(64);
    OK(cu->cuMemsetD32_v2(words, 0, 16));
    OK(cu->cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cu->cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    void *flag[] = {&words};
    CUdeviceptr second = words + 4;
    void *count[] = {&second};
    OK(cu->cuLaunchKernel(until, 1, 1, 1, 1, 1, 1, 0, a, flag, NULL));
    OK(cu->cuLaunchKernel(add, 10, 1, 1, 64, 1, 1, 0, b, count, NULL));
    OK(cu->cuStreamSynchronize(b));
    OK(cu->cuMemcpyDtoHAsync_v2(&value, second, 4, b));
    assert_int_equal(value, 640);
    FAILS(CUDA_ERROR_NOT_READY, cu->cuStreamQuery(a));
    OK(cu->cuMemsetD32Async(words, 1, 1, b));
    OK(cu->cuStreamSynchronize(a));
    OK(cu->cuStreamDestroy_v2(a));
    OK(cu->cuStreamDestroy_v2(b));
}

static void a_waiting_stream_is_woken_by_a_kernel(void **state)
{
    CUfunction add = kernel("add_at");
    CUstream a, b;
    CUdeviceptr words;
    (void)state;
    words = memory_of_both(64);
    OK(cu->cuMemsetD32_v2(words, 0, 16));
    OK(cu->cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cu->cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    void *params[] = {&words};
    OK(cu->cuStreamWaitValue32_v2(a, words, 100, CU_STREAM_WAIT_VALUE_EQ));
    OK(cu->cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, a, params, NULL));
    for (int i = 0; i < 100; i++)
        OK(cu->cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, b, params, NULL));
    OK(cu->cuStreamSynchronize(a));
    assert_int_equal(*(uint32_t *)words, 101);
    OK(cu->cuStreamDestroy_v2(a));
    OK(cu->cuStreamDestroy_v2(b));
}

static void launches_take_a_configuration(void **state)
{
    CUfunction add = kernel("add_at");
    CUdeviceptr words;
    (void)state;
    words = memory_of_both(64);
    OK(cu->cuMemsetD32_v2(words, 0, 16));
    void *params[] = {&words};
    CUlaunchAttribute attributes[2] = {{.id = CU_LAUNCH_ATTRIBUTE_PRIORITY},
                                       {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE}};
    CUlaunchConfig config = {2, 1, 1, 32, 1, 1, 0, NULL, attributes, 1};
    OK(cu->cuLaunchKernelEx(&config, add, params, NULL));
    attributes[1].value.cooperative = 1;
    config.numAttrs = 2;
    OK(cu->cuLaunchKernelEx(&config, add, params, NULL));
    config.gridDimX = 65; /* 32 of a core can be under way at the same time */
    FAILS(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
          cu->cuLaunchKernelEx(&config, add, params, NULL));
    config.gridDimX = 2;
    attributes[1] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                        .value.clusterDim = {1, 1, 1}};
    OK(cu->cuLaunchKernelEx(&config, add, params, NULL)); /* as every block is */
    attributes[1].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
    FAILS(CUDA_ERROR_NOT_SUPPORTED, cu->cuLaunchKernelEx(&config, add, params, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuLaunchKernelEx(NULL, add, params, NULL));
    OK(cu->cuCtxSynchronize_v2(NULL));
    assert_int_equal(*(uint32_t *)words, 192);
    OK(cu->cuLaunchCooperativeKernel(add, 2, 1, 1, 64, 1, 1, 0, NULL, params));
    OK(cu->cuCtxSynchronize_v2(NULL));
    assert_int_equal(*(uint32_t *)words, 320);
}

static void library_kernels_launch_in_any_context(void **state)
{
    CUlibrary library;
    CUkernel add;
    CUdeviceptr words;
    CUcontext other;
    (void)state;
    OK(cu->cuLibraryLoadData(&library, device_kernels, NULL, NULL, 0, NULL, NULL, 0));
    OK(cu->cuLibraryGetKernel(&add, library, "add_at"));
    for (int i = 0; i < 2; i++) {
        if (i)
            OK(cu->cuCtxCreate_v2(&other, 0, 0));
        words = memory_of_both(4);
        OK(cu->cuMemsetD32_v2(words, 0, 1));
        void *params[] = {&words};
        OK(cu->cuLaunchKernel((CUfunction)add, 4, 1, 1, 8, 1, 1, 0, NULL, params, NULL));
        OK(cu->cuCtxSynchronize_v2(NULL));
        assert_int_equal(*(uint32_t *)words, 32);
    }
    OK(cu->cuCtxDestroy_v2(other));
    OK(cu->cuLibraryUnload(library));
}

/* Blocks that wait are parked: the later ones run on the same threads, of both launches. */
static void blocks_wait_for_later_ones(void **state)
{
    enum { BLOCKS = 300 };
    CUfunction after = kernel("after_next");
    CUstream streams[2];
    CUdeviceptr words[2];
    (void)state;
    for (int i = 0; i < 2; i++) {
        OK(cu->cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        words[i] = memory_of_both(BLOCKS * 4);
        OK(cu->cuMemsetD32_v2(words[i], 0, BLOCKS));
    }
    for (int i = 0; i < 2; i++) {
        void *params[] = {&words[i]};
        OK(cu->cuLaunchKernel(after, BLOCKS, 1, 1, 40, 1, 1, 0, streams[i], params, NULL));
    }
    OK(cu->cuCtxSynchronize_v2(NULL));
    for (int i = 0; i < 2; i++) {
        for (int b = 0; b < BLOCKS; b++)
            assert_int_equal(((uint32_t *)words[i])[b], BLOCKS - b);
        OK(cu->cuStreamDestroy_v2(streams[i]));
        OK(cu->cuMemFree_v2(words[i]));
    }
}

/* A fault in another stream ends them too; then the context can be ended. */
static void a_fault_ends_blocks_that_wait(void **state)
{
    CUcontext context;
    CUstream one, two;
    CUdeviceptr word;
    (void)state;
    OK(cu->cuCtxCreate_v2(&context, 0, 0));
    CUfunction wait = kernel("until");
    CUfunction fail = kernel("give_up");
    OK(cu->cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    OK(cu->cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    OK(cu->cuMemAlloc_v2(&word, 4));
    OK(cu->cuMemsetD32_v2(word, 0, 1));
    void *params[] = {&word};
    OK(cu->cuLaunchKernel(wait, 100, 1, 1, 64, 1, 1, 0, one, params, NULL));
    OK(cu->cuLaunchKernel(fail, 1, 1, 1, 1, 1, 1, 0, two, NULL, NULL));
    FAILS(CUDA_ERROR_LAUNCH_FAILED, cu->cuCtxSynchronize_v2(NULL));
    OK(cu->cuCtxDestroy_v2(context));
}

static void functions_stay_in_their_context(void **state)
{
    CUfunction function = kernel("nothing");
    CUcontext other;
    CUstream stream;
    (void)state;
    OK(cu->cuCtxCreate_v2(&other, 0, 0));
    FAILS(CUDA_ERROR_INVALID_HANDLE, run_one(function, NULL));
    OK(cu->cuStreamCreate(&stream, 0));
    FAILS(CUDA_ERROR_INVALID_HANDLE,
          cu->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, NULL, NULL));
    OK(cu->cuCtxDestroy_v2(other));
    OK(run_one(function, NULL));
}

static void kernels_reach_host_memory_that_is_known(void **state)
{
    CUfunction add = kernel("add_at");
    static uint32_t registered[1024];
    uint32_t *pinned;
    CUdeviceptr at;
    (void)state;
    void *params[] = {&at};
    OK(cu->cuMemHostAlloc((void **)&pinned, 64, 0));
    *pinned = 1;
    at = (CUdeviceptr)pinned;
    OK(cu->cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    OK(cu->cuMemHostRegister_v2(registered, sizeof(registered), 0));
    int same; /* are the program's own addresses the device's? */
    OK(cu->cuDeviceGetAttribute(&same, CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM,
                                0));
    assert_true(same || device_is_remote());
    OK(cu->cuMemHostGetDevicePointer_v2(&at, &registered[1023], 0));
    if (same)
        assert_int_equal(at, (CUdeviceptr)&registered[1023]);
    OK(cu->cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, NULL, params, NULL));
    OK(cu->cuCtxSynchronize_v2(NULL));
    assert_int_equal(*pinned, 33);
    assert_int_equal(registered[1023], 32);
    OK(cu->cuMemHostUnregister(registered));
    OK(cu->cuMemFreeHost(pinned));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(kernels_compute),
        IN_CONTEXT(every_block_runs_once),
        IN_CONTEXT(parameters_come_in_both_forms),
        IN_CONTEXT(shared_memory_is_as_large_as_asked),
        IN_CONTEXT(wrong_shapes_are_refused_at_the_call),
        IN_CONTEXT(every_thread_of_every_block_runs_once),
        IN_CONTEXT(launches_of_a_stream_run_in_order),
        IN_CONTEXT(streams_run_side_by_side),
        IN_CONTEXT(a_waiting_stream_is_woken_by_a_kernel),
        IN_CONTEXT(launches_take_a_configuration),
        IN_CONTEXT(library_kernels_launch_in_any_context),
        IN_CONTEXT(blocks_wait_for_later_ones),
        IN_CONTEXT(a_fault_ends_blocks_that_wait),
        IN_CONTEXT(functions_stay_in_their_context),
        IN_CONTEXT(kernels_reach_host_memory_that_is_known),
    };
    return cmocka_run_group_tests(tests, device_setup, NULL);
}
