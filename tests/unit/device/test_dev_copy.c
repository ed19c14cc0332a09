/* Copies and fills: directions, sizes, boxes, ranges. */
#include "device_test.h"

static uint8_t pattern(size_t i)
{
    return (uint8_t)(i * 131 + (i >> 8) * 17);
}

static void every_direction_and_size(void **state)
{
    static const size_t sizes[] = {1, 3, 255, 4096, 262143, 262144, 262145, 3 << 20, 17000001};
    const size_t most = 17000001;
    CUdeviceptr a, b;
    uint8_t *host = malloc(most), *back = malloc(most);
    void *pinned;
    (void)state;
    OK(cu->cuMemAlloc_v2(&a, most));
    OK(cu->cuMemAlloc_v2(&b, most));
    OK(cu->cuMemHostAlloc(&pinned, most, 0));
    for (size_t i = 0; i < most; i++)
        host[i] = pattern(i);
    for (size_t n = 0; n < sizeof(sizes) / sizeof(sizes[0]); n++) {
        size_t size = sizes[n];
        memset(back, 0, size);
        OK(cu->cuMemcpyHtoD_v2(a, host, size));
        OK(cu->cuMemcpyDtoD_v2(b, a, size));
        OK(cu->cuMemcpyDtoH_v2(back, b, size));
        assert_memory_equal(host, back, size);
        memset(pinned, 0, size);
        OK(cu->cuMemcpy((CUdeviceptr)pinned, b, size));
        assert_memory_equal(host, pinned, size);
        OK(cu->cuMemcpyHtoDAsync_v2(a, host + 1, size - 1, NULL));
        OK(cu->cuMemcpyDtoHAsync_v2(back, a, size - 1, NULL)); /* pageable: done on return */
        assert_memory_equal(host + 1, back, size - 1);
    }
    OK(cu->cuMemFree_v2(a));
    OK(cu->cuMemFree_v2(b));
    OK(cu->cuMemFreeHost(pinned));
    free(host);
    free(back);
}

static void pageable_source_is_read_before_the_call_returns(void **state)
{
    CUdeviceptr flag, data;
    CUstream stream;
    uint8_t *host = malloc(1 << 20);
    uint8_t seen[2];
    (void)state;
    OK(cu->cuMemAlloc_v2(&flag, 4));
    OK(cu->cuMemAlloc_v2(&data, 1 << 20));
    OK(cu->cuMemsetD32_v2(flag, 0, 1));
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu->cuStreamWaitValue32_v2(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    memset(host, 1, 1 << 20);
    OK(cu->cuMemcpyHtoDAsync_v2(data, host, 1 << 20, stream)); /* the stream waits, we do not */
    memset(host, 2, 1 << 20);
    OK(cu->cuMemsetD32_v2(flag, 1, 1));
    OK(cu->cuStreamSynchronize(stream));
    OK(cu->cuMemcpyDtoH_v2(&seen[0], data, 1));
    OK(cu->cuMemcpyDtoH_v2(&seen[1], data + (1 << 20) - 1, 1));
    assert_int_equal(seen[0], 1);
    assert_int_equal(seen[1], 1);
    OK(cu->cuStreamDestroy_v2(stream));
    free(host);
}

static void ranges_outside_an_allocation_are_refused(void **state)
{
    CUdeviceptr a;
    char host[2048];
    (void)state;
    OK(cu->cuMemAlloc_v2(&a, 1024));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyHtoD_v2(a + 512, host, 1024));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyDtoH_v2(host, a - 1, 2));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyDtoH_v2(host, 0, 2));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyDtoH_v2(NULL, a, 2));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyDtoD_v2(a, (CUdeviceptr)host, 16));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemsetD8_v2(a, 0, 1025));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemsetD32_v2(a + 2, 0, 1));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemsetD32_v2(a, 0, ~(size_t)0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemsetD16_v2(a + 1, 0, 1));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuMemsetD8Async(a, 0, 1, (CUstream)0x1234567));
    OK(cu->cuMemcpyDtoH_v2(host, a, 0));
    OK(cu->cuMemcpyHtoD_v2(a, host, 1024));
    OK(cu->cuMemFree_v2(a));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyHtoD_v2(a, host, 1));
}

static void fills_of_every_width(void **state)
{
    CUdeviceptr a;
    const size_t count = 1500000;
    uint32_t *words = malloc(count * 4);
    uint16_t *halves = (uint16_t *)words;
    (void)state;
    OK(cu->cuMemAlloc_v2(&a, count * 4));
    OK(cu->cuMemsetD32_v2(a, 0x12345678, count));
    OK(cu->cuMemcpyDtoH_v2(words, a, count * 4));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(words[i], 0x12345678);
    OK(cu->cuMemsetD16_v2(a, 0xbeef, count));
    OK(cu->cuMemcpyDtoH_v2(words, a, count * 4));
    assert_int_equal(halves[0], 0xbeef);
    assert_int_equal(halves[count - 1], 0xbeef);
    assert_int_equal(halves[count], 0x5678);
    OK(cu->cuMemsetD8_v2(a + 1, 0, 2));
    OK(cu->cuMemcpyDtoH_v2(words, a, 4));
    assert_int_equal(words[0], 0xbe0000ef);
    OK(cu->cuMemsetD2D32_v2(a, 400, 0x55, 10, 20));
    OK(cu->cuMemcpyDtoH_v2(words, a, 400 * 20));
    assert_int_equal(words[9], 0x55);
    assert_int_equal(words[10], 0xbeefbeef);
    assert_int_equal(words[1909], 0x55);
    assert_int_equal(words[1910], 0xbeefbeef);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemsetD2D32_v2(a, 39, 0, 10, 20));
    OK(cu->cuMemFree_v2(a));
    free(words);
}

static void boxes_keep_what_is_between_them(void **state)
{
    uint8_t from[40 * 30], to[50 * 30];
    CUdeviceptr a;
    size_t pitch;
    (void)state;
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = pattern(i);
    memset(to, 0xee, sizeof(to));
    OK(cu->cuMemAllocPitch_v2(&a, &pitch, 40, 30, 4));
    CUDA_MEMCPY2D in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = from,
                        .srcPitch = 40,
                        .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                        .dstDevice = a,
                        .dstPitch = pitch,
                        .WidthInBytes = 40,
                        .Height = 30};
    CUDA_MEMCPY2D out = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = a,
                         .srcPitch = pitch,
                         .srcXInBytes = 5,
                         .srcY = 2,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = to,
                         .dstPitch = 50,
                         .dstXInBytes = 7,
                         .dstY = 3,
                         .WidthInBytes = 20,
                         .Height = 10};
    OK(cu->cuMemcpy2D_v2(&in));
    OK(cu->cuMemcpy2D_v2(&out));
    for (size_t y = 0; y < 30; y++)
        for (size_t x = 0; x < 50; x++) {
            int inside = y >= 3 && y < 13 && x >= 7 && x < 27;
            assert_int_equal(to[y * 50 + x],
                             inside ? pattern((y - 3 + 2) * 40 + (x - 7 + 5)) : 0xee);
        }
    out.WidthInBytes = pitch + 1;
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy2D_v2(&out));
    out.WidthInBytes = 20;
    out.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuMemcpy2D_v2(&out));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy2D_v2(NULL));
    OK(cu->cuMemFree_v2(a));
}

static void boxes_have_layers(void **state)
{
    enum { W = 12, H = 5, D = 4 };
    uint8_t from[W * H * D], to[W * H * D];
    CUdeviceptr a;
    CUstream stream;
    (void)state;
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = pattern(i);
    memset(to, 0, sizeof(to));
    OK(cu->cuStreamCreate(&stream, 0));
    OK(cu->cuMemAlloc_v2(&a, 16 * 8 * D));
    CUDA_MEMCPY3D in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = from,
                        .srcPitch = W,
                        .srcHeight = H,
                        .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                        .dstDevice = a,
                        .dstPitch = 16,
                        .dstHeight = 8,
                        .WidthInBytes = W,
                        .Height = H,
                        .Depth = D};
    CUDA_MEMCPY3D out = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice = a,
                         .srcPitch = 16,
                         .srcHeight = 8,
                         .srcZ = 1,
                         .dstMemoryType = CU_MEMORYTYPE_HOST,
                         .dstHost = to,
                         .dstPitch = W,
                         .dstHeight = H,
                         .WidthInBytes = W,
                         .Height = H,
                         .Depth = D - 1};
    OK(cu->cuMemcpy3DAsync_v2(&in, stream));
    OK(cu->cuMemcpy3DAsync_v2(&out, stream));
    OK(cu->cuStreamSynchronize(stream));
    assert_memory_equal(to, from + W * H, W * H * (D - 1));
    OK(cu->cuStreamDestroy_v2(stream));
    OK(cu->cuMemFree_v2(a));
}

static void peers_copy(void **state)
{
    CUcontext other;
    CUdeviceptr a, b;
    uint32_t value = 0;
    OK(cu->cuMemAlloc_v2(&a, 64));
    OK(cu->cuMemsetD32_v2(a, 77, 16));
    OK(cu->cuCtxCreate_v2(&other, 0, 0));
    OK(cu->cuMemAlloc_v2(&b, 64));
    OK(cu->cuMemcpyPeer(b, other, a, *state, 64));
    OK(cu->cuMemcpyDtoH_v2(&value, b + 60, 4));
    assert_int_equal(value, 77);
    OK(cu->cuMemcpyPeerAsync(b, other, a, *state, 64, NULL));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cu->cuMemcpyPeer(b, (CUcontext)5, a, *state, 64));
    OK(cu->cuCtxDestroy_v2(other));
    FAILS(CUDA_ERROR_INVALID_CONTEXT, cu->cuMemcpyPeer(a, other, a, *state, 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(every_direction_and_size),
        IN_CONTEXT(pageable_source_is_read_before_the_call_returns),
        IN_CONTEXT(ranges_outside_an_allocation_are_refused),
        IN_CONTEXT(fills_of_every_width),
        IN_CONTEXT(boxes_keep_what_is_between_them),
        IN_CONTEXT(boxes_have_layers),
        IN_CONTEXT(peers_copy),
    };
    return cmocka_run_group_tests(tests, device_setup, NULL);
}
