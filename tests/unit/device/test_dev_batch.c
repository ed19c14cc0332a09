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

/* Extents and offsets count elements of the array that takes part, of whatever format. */
static void boxes_of_arrays(void **state)
{
    enum { WIDTH = 8, HEIGHT = 4 };
    static const struct {
        CUarray_format format;
        unsigned channels, bytes;
    } all[] = {{CU_AD_FORMAT_UNSIGNED_INT8, 4, 4}, {CU_AD_FORMAT_HALF, 2, 4},
               {CU_AD_FORMAT_FLOAT, 4, 16},        {CU_AD_FORMAT_UNORM_INT8X1, 1, 1},
               {CU_AD_FORMAT_SNORM_INT8X4, 4, 4},  {CU_AD_FORMAT_UNORM_INT16X2, 2, 4}};
    CUstream stream = new_stream();
    (void)state;
    for (size_t f = 0; f < sizeof(all) / sizeof(all[0]); f++) {
        const CUDA_ARRAY_DESCRIPTOR d = {WIDTH, HEIGHT, all[f].format, all[f].channels};
        unsigned pitch = WIDTH * all[f].bytes, corner = 2 * all[f].bytes;
        uint8_t in[WIDTH * HEIGHT * 16], out[WIDTH * HEIGHT * 16] = {0};
        CUdeviceptr device;
        CUarray array;
        for (unsigned i = 0; i < sizeof(in); i++)
            in[i] = (uint8_t)(i * 7 + 1);
        OK(cu->cuMemAlloc_v2(&device, sizeof(in)));
        OK(cu->cuMemcpyHtoD_v2(device, in, sizeof(in)));
        OK(cu->cuArrayCreate_v2(&array, &d));
        CUDA_MEMCPY3D_BATCH_OP boxes[2] = {
            {.src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER,
                     .op.ptr = {device, WIDTH, HEIGHT, {0}}},
             .dst = {.type = CU_MEMCPY_OPERAND_TYPE_ARRAY, .op.array = {array, {0, 0, 0}}},
             .extent = {WIDTH, HEIGHT, 1},
             .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM},
            {.src = {.type = CU_MEMCPY_OPERAND_TYPE_ARRAY, .op.array = {array, {2, 1, 0}}},
             .dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr = {device, 3, 2, {0}}},
             .extent = {3, 2, 1},
             .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM}};
        OK(cu->cuMemcpy3DBatchAsync_v2(1, &boxes[0], 0, stream));
        OK(cu->cuStreamSynchronize(stream));
        OK(cu->cuMemsetD8_v2(device, 0, sizeof(in)));
        OK(cu->cuMemcpy3DBatchAsync_v2(1, &boxes[1], 0, stream));
        OK(cu->cuStreamSynchronize(stream));
        OK(cu->cuMemcpyDtoH_v2(out, device, sizeof(out)));
        for (unsigned row = 0; row < 2; row++)
            assert_memory_equal(out + row * 3 * all[f].bytes, in + (row + 1) * pitch + corner,
                                3 * all[f].bytes);
        assert_int_equal(out[6 * all[f].bytes], 0);
        OK(cu->cuArrayDestroy(array));
        OK(cu->cuMemFree_v2(device));
    }
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
        IN_CONTEXT(boxes_of_arrays),
        IN_CONTEXT(hints_in_batches),
    };
    return cmocka_run_group_tests(tests, device_setup, NULL);
}
