/* Attributes of streams, and calls that do many things at once. */
#include "device_test.h"

static CUstream new_stream(void)
{
    CUstream stream;
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

static void streams_keep_attributes(void **state)
{
    CUstream a = new_stream(), b = new_stream();
    CUstreamAttrValue value = {.syncPolicy = CU_SYNC_POLICY_YIELD}, got = {{0}};
    int priority;
    (void)state;
    OK(cu->cuStreamGetAttribute(a, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &got));
    assert_int_equal(got.syncPolicy, CU_SYNC_POLICY_AUTO);
    OK(cu->cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    value.priority = -2;
    OK(cu->cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    value.priority = -100;
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuStreamSetAttribute(a, CU_LAUNCH_ATTRIBUTE_PRIORITY, &value));
    OK(cu->cuStreamCopyAttributes(b, a));
    OK(cu->cuStreamGetAttribute(b, CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY, &got));
    assert_int_equal(got.syncPolicy, CU_SYNC_POLICY_YIELD);
    OK(cu->cuStreamGetPriority(b, &priority));
    assert_int_equal(priority, -2);
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuStreamGetAttribute(b, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &got));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuStreamGetAttribute(b, CU_LAUNCH_ATTRIBUTE_PRIORITY, NULL));
    FAILS(CUDA_ERROR_INVALID_HANDLE,
          cu->cuStreamGetAttribute((CUstream)(uintptr_t)77, CU_LAUNCH_ATTRIBUTE_PRIORITY, &got));
}

static void copies_in_batches(void **state)
{
    enum { N = 5, BYTES = 1000 };
    CUstream stream = new_stream();
    CUdeviceptr device, src[N], dst[N];
    size_t sizes[N], first = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    uint8_t *host, back[N * BYTES];
    (void)state;
    OK(cu->cuMemAlloc_v2(&device, N * BYTES));
    OK(cu->cuMemHostAlloc((void **)&host, N * BYTES, 0));
    for (int i = 0; i < N * BYTES; i++)
        host[i] = (uint8_t)(i * 7);
    for (int i = 0; i < N; i++) {
        src[i] = (CUdeviceptr)(uintptr_t)(host + i * BYTES);
        dst[i] = device + (CUdeviceptr)(N - 1 - i) * BYTES;
        sizes[i] = BYTES;
    }
    OK(cu->cuMemcpyBatchAsync_v2(dst, src, sizes, N, &attributes, &first, 1, stream));
    OK(cu->cuStreamSynchronize(stream));
    OK(cu->cuMemcpyDtoH_v2(back, device, sizeof(back)));
    for (int i = 0; i < N; i++)
        assert_memory_equal(back + (N - 1 - i) * BYTES, host + i * BYTES, BYTES);
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuMemcpyBatchAsync_v2(dst, src, sizes, N, &attributes, &first, 1, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuMemcpyBatchAsync_v2(dst, src, sizes, N, NULL, NULL, 0, stream));
    first = 1;
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuMemcpyBatchAsync_v2(dst, src, sizes, N, &attributes, &first, 1, stream));
    CUDA_MEMCPY3D_BATCH_OP box = {
        .src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {device, 10, 4, {0}}},
        .dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {device + 1000, 20, 4, {0}}},
        .extent = {10, 4, 2},
        .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    OK(cu->cuMemcpy3DBatchAsync_v2(1, &box, 0, stream));
    OK(cu->cuStreamSynchronize(stream));
    uint8_t after[N * BYTES];
    OK(cu->cuMemcpyDtoH_v2(after, device, sizeof(after)));
    for (int row = 0; row < 8; row++)
        assert_memory_equal(after + 1000 + row * 20, back + row * 10, 10);
    OK(cu->cuMemFree_v2(device));
    OK(cu->cuMemFreeHost(host));
}

static void hints_in_batches(void **state)
{
    CUstream stream = new_stream();
    CUdeviceptr p[2], plain;
    size_t sizes[2] = {4096, 4096}, from[2] = {0, 1};
    CUmemLocation where[2] = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, {CU_MEM_LOCATION_TYPE_HOST, 0}};
    int got = -9;
    (void)state;
    for (int i = 0; i < 2; i++)
        OK(cu->cuMemAllocManaged(&p[i], 4096, CU_MEM_ATTACH_GLOBAL));
    OK(cu->cuMemPrefetchBatchAsync(p, sizes, 2, where, from, 2, 0, stream));
    OK(cu->cuMemRangeGetAttribute(&got, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p[0],
                                  4096));
    assert_int_equal(got, 0);
    OK(cu->cuMemRangeGetAttribute(&got, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p[1],
                                  4096));
    assert_int_equal(got, CU_DEVICE_CPU);
    OK(cu->cuMemDiscardBatchAsync(p, sizes, 2, 0, stream));
    OK(cu->cuStreamAttachMemAsync(stream, p[0], 0, CU_MEM_ATTACH_SINGLE));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuStreamAttachMemAsync(stream, p[0], 0, 9));
    OK(cu->cuMemAlloc_v2(&plain, 4096));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemDiscardBatchAsync(&plain, sizes, 1, 0, stream));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuStreamAttachMemAsync(stream, plain, 0, CU_MEM_ATTACH_SINGLE));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(streams_keep_attributes),
        IN_CONTEXT(copies_in_batches),
        IN_CONTEXT(hints_in_batches),
    };
    return cmocka_run_group_tests(tests, device_setup, NULL);
}
