/* CUDA arrays: what can be made, and copies to, from and between them. */
#include "device_test.h"

enum { LAYERED = 1, SURFACE = 2, CUBE = 4 };

static CUarray make(size_t width, size_t height, size_t depth, CUarray_format format,
                    unsigned channels, unsigned flags)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {width, height, depth, format, channels, flags};
    CUarray array = NULL;
    OK(cu->cuArray3DCreate_v2(&array, &d));
    return array;
}

static CUresult try_make(size_t width, size_t height, size_t depth, CUarray_format format,
                         unsigned channels, unsigned flags)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {width, height, depth, format, channels, flags};
    CUarray array;
    CUresult result = cu->cuArray3DCreate_v2(&array, &d);
    if (result == CUDA_SUCCESS)
        OK(cu->cuArrayDestroy(array));
    return result;
}

static uint8_t pattern(size_t i)
{
    return (uint8_t)(i * 151 + (i >> 8) * 13);
}

static void shapes_that_cuda_has(void **state)
{
    const CUarray_format f = CU_AD_FORMAT_FLOAT, b = CU_AD_FORMAT_UNSIGNED_INT8;
    (void)state;
    OK(try_make(100, 0, 0, f, 1, 0));
    OK(try_make(131072, 0, 0, b, 1, 0));
    OK(try_make(100, 50, 0, f, 4, 0));
    OK(try_make(10, 20, 30, f, 2, SURFACE));
    OK(try_make(64, 0, 7, f, 1, LAYERED));
    OK(try_make(64, 32, 7, f, 1, LAYERED));
    OK(try_make(16, 16, 6, f, 1, CUBE));
    OK(try_make(16, 16, 12, f, 1, CUBE | LAYERED));
    FAILS(CUDA_ERROR_INVALID_VALUE, try_make(0, 0, 0, f, 1, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, try_make(131073, 0, 0, b, 1, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, try_make(32, 0, 8, f, 1, 0)); /* depth without height */
    FAILS(CUDA_ERROR_INVALID_VALUE, try_make(32, 8, 0, f, 1, LAYERED));
    FAILS(CUDA_ERROR_INVALID_VALUE, try_make(32, 8, 2049, b, 1, LAYERED));
    FAILS(CUDA_ERROR_INVALID_VALUE, try_make(16, 17, 6, f, 1, CUBE));
    FAILS(CUDA_ERROR_INVALID_VALUE, try_make(16, 16, 12, f, 1, CUBE));
    FAILS(CUDA_ERROR_INVALID_VALUE, try_make(16, 16, 7, f, 1, CUBE | LAYERED));
    FAILS(CUDA_ERROR_INVALID_VALUE, try_make(16, 16, 0, f, 3, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, try_make(16, 16, 0, (CUarray_format)7, 1, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, try_make(16, 16, 0, f, 1, 0x1000));
    FAILS(CUDA_ERROR_NOT_SUPPORTED, try_make(16, 16, 0, CU_AD_FORMAT_NV12, 3, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuArray3DCreate_v2(NULL, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuArrayCreate_v2(NULL, NULL));
}

static void arrays_tell_what_they_are(void **state)
{
    CUDA_ARRAY_DESCRIPTOR d2;
    CUDA_ARRAY3D_DESCRIPTOR d3;
    CUDA_ARRAY_DESCRIPTOR flat = {40, 30, CU_AD_FORMAT_HALF, 2};
    CUDA_ARRAY_SPARSE_PROPERTIES sparse;
    CUDA_ARRAY_MEMORY_REQUIREMENTS needs;
    CUarray plane, array = make(10, 20, 5, CU_AD_FORMAT_SIGNED_INT16, 4, LAYERED | SURFACE);
    (void)state;
    OK(cu->cuArray3DGetDescriptor_v2(&d3, array));
    assert_int_equal(d3.Width, 10);
    assert_int_equal(d3.Height, 20);
    assert_int_equal(d3.Depth, 5);
    assert_int_equal(d3.Format, CU_AD_FORMAT_SIGNED_INT16);
    assert_int_equal(d3.NumChannels, 4);
    assert_int_equal(d3.Flags, LAYERED | SURFACE);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuArray3DGetDescriptor_v2(NULL, array));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuArrayGetPlane(&plane, array, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuArrayGetSparseProperties(&sparse, array));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuArrayGetMemoryRequirements(&needs, array, 0));
    OK(cu->cuArrayDestroy(array));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuArrayDestroy(array));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuArray3DGetDescriptor_v2(&d3, array));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuArrayDestroy(NULL));
    OK(cu->cuArrayCreate_v2(&array, &flat));
    OK(cu->cuArrayGetDescriptor_v2(&d2, array));
    assert_memory_equal(&d2, &flat, sizeof(flat));
    OK(cu->cuArrayDestroy(array));
}

static void linear_copies(void **state)
{
    enum { N = 1000 };
    uint8_t from[N], to[N];
    CUarray a = make(N / 4, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0);
    CUarray b = make(N / 4, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0);
    CUarray flat = make(10, 10, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0);
    CUdeviceptr memory;
    CUstream stream;
    (void)state;
    for (size_t i = 0; i < N; i++)
        from[i] = pattern(i);
    OK(cu->cuMemAlloc_v2(&memory, N));
    OK(cu->cuStreamCreate(&stream, 0));
    OK(cu->cuMemcpyHtoA_v2(a, 0, from, N));
    OK(cu->cuMemcpyAtoA_v2(b, 40, a, 80, N - 80));
    OK(cu->cuMemcpyAtoA_v2(b, 0, a, 0, 40));
    OK(cu->cuMemcpyAtoD_v2(memory, b, 0, N));
    OK(cu->cuMemcpyDtoA_v2(a, 0, memory, N));
    memset(to, 0, N);
    OK(cu->cuMemcpyAtoH_v2(to, a, 0, N - 40));
    for (size_t i = 0; i < N - 40; i++)
        assert_int_equal(to[i], pattern(i < 40 ? i : i + 40));
    OK(cu->cuMemcpyHtoAAsync_v2(a, 4, from, 400, stream));
    OK(cu->cuMemcpyAtoHAsync_v2(to, a, 4, 400, stream));
    OK(cu->cuStreamSynchronize(stream));
    assert_memory_equal(to, from, 400);
    /* In the thread's own stream. */
    OK(cu->cuMemcpyHtoA_v2(a, 0, from, N));
    OK(cu->cuMemcpyAtoA_v2_ptds(b, 0, a, 0, N));
    OK(cu->cuMemcpyAtoD_v2_ptds(memory, b, 0, N));
    OK(cu->cuMemcpyDtoA_v2_ptds(a, 400, memory, 400));
    OK(cu->cuMemcpyAtoHAsync_v2(to, a, 0, N, CU_STREAM_PER_THREAD));
    OK(cu->cuStreamSynchronize(CU_STREAM_PER_THREAD));
    for (size_t i = 0; i < N; i++)
        assert_int_equal(to[i], pattern(i >= 400 && i < 800 ? i - 400 : i));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyAtoA_v2_ptds(b, 0, a, N, 4));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyAtoD_v2_ptds(memory, flat, 0, 4));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuMemcpyDtoA_v2_ptds(NULL, 0, memory, 4));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyHtoA_v2(a, 4, from, N));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyHtoA_v2(a, 2, from, 4)); /* half a texel */
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyHtoA_v2(a, ~(size_t)3, from, 8));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyAtoH_v2(NULL, a, 0, 8));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyAtoD_v2((CUdeviceptr)to, a, 0, 8));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpyAtoH_v2(to, flat, 0, 8)); /* not one-dimensional */
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuMemcpyAtoH_v2(to, (CUarray)memory, 0, 8));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuMemcpyHtoA_v2((CUarray)stream, 0, to, 8));
    OK(cu->cuStreamDestroy_v2(stream));
    OK(cu->cuMemFree_v2(memory));
    OK(cu->cuArrayDestroy(a));
    OK(cu->cuArrayDestroy(b));
    OK(cu->cuArrayDestroy(flat));
}

static void boxes_to_and_from_arrays(void **state)
{
    enum { W = 9, H = 6, D = 4, T = 8 }; /* texels of 8 bytes */
    uint8_t from[W * T * H * D], to[W * T * H * D];
    CUarray a = make(W, H, D, CU_AD_FORMAT_FLOAT, 2, 0),
            b = make(W, H, 0, CU_AD_FORMAT_FLOAT, 2, 0);
    (void)state;
    for (size_t i = 0; i < sizeof(from); i++)
        from[i] = pattern(i);
    CUDA_MEMCPY3D in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                        .srcHost = from,
                        .srcPitch = W * T,
                        .srcHeight = H,
                        .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                        .dstArray = a,
                        .WidthInBytes = W * T,
                        .Height = H,
                        .Depth = D};
    CUDA_MEMCPY2D across = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                            .srcArray = b,
                            .srcXInBytes = T,
                            .srcY = 2,
                            .dstMemoryType = CU_MEMORYTYPE_HOST,
                            .dstHost = to,
                            .dstPitch = 3 * T,
                            .WidthInBytes = 3 * T,
                            .Height = 2};
    OK(cu->cuMemcpy3D_v2(&in));
    CUDA_MEMCPY3D layer = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                           .srcArray = a,
                           .srcZ = 2,
                           .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                           .dstArray = b,
                           .WidthInBytes = W * T,
                           .Height = H,
                           .Depth = 1};
    OK(cu->cuMemcpy3DAsync_v2(&layer, NULL));
    OK(cu->cuMemcpy2D_v2(&across));
    for (size_t y = 0; y < 2; y++)
        assert_memory_equal(to + y * 3 * T, from + ((2 * H + y + 2) * W + 1) * T, 3 * T);
    across.srcY = 5;
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy2D_v2(&across)); /* a row too many */
    across.srcY = 0;
    across.srcXInBytes = 7 * T;
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy2DUnaligned_v2(&across));
    layer.srcZ = 4;
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy3D_v2(&layer));
    layer.srcZ = 0;
    layer.srcLOD = 1;
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemcpy3D_v2(&layer));
    OK(cu->cuArrayDestroy(a));
    across.srcXInBytes = 0;
    OK(cu->cuMemcpy2DAsync_v2(&across, NULL));
    OK(cu->cuArrayDestroy(b)); /* waits for the copy */
}

static void peers_copy_arrays(void **state)
{
    uint32_t from[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, to[12] = {0};
    CUarray a = make(4, 3, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0);
    CUDA_MEMCPY3D_PEER in = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                             .srcHost = from,
                             .srcPitch = 16,
                             .srcHeight = 3,
                             .srcContext = *state,
                             .dstMemoryType = CU_MEMORYTYPE_ARRAY,
                             .dstArray = a,
                             .dstContext = *state,
                             .WidthInBytes = 16,
                             .Height = 3,
                             .Depth = 1};
    CUDA_MEMCPY3D_PEER out = {.srcMemoryType = CU_MEMORYTYPE_ARRAY,
                              .srcArray = a,
                              .srcContext = *state,
                              .dstMemoryType = CU_MEMORYTYPE_HOST,
                              .dstHost = to,
                              .dstContext = *state,
                              .dstPitch = 16,
                              .dstHeight = 3,
                              .WidthInBytes = 16,
                              .Height = 3,
                              .Depth = 1};
    OK(cu->cuMemcpy3DPeer(&in));
    OK(cu->cuMemcpy3DPeerAsync(&out, NULL));
    OK(cu->cuStreamSynchronize(NULL));
    assert_memory_equal(to, from, sizeof(from));
    OK(cu->cuArrayDestroy(a));
}

static void mipmaps_have_levels(void **state)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {20, 9, 0, CU_AD_FORMAT_FLOAT, 1, 0}, level;
    CUDA_ARRAY3D_DESCRIPTOR layered = {8, 8, 5, CU_AD_FORMAT_FLOAT, 1, LAYERED};
    CUmipmappedArray mipmap;
    CUarray array, same;
    (void)state;
    OK(cu->cuMipmappedArrayCreate(&mipmap, &d, 99)); /* as many as there are: 20 10 5 2 1 */
    OK(cu->cuMipmappedArrayGetLevel(&array, mipmap, 4));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMipmappedArrayGetLevel(&array, mipmap, 5));
    OK(cu->cuMipmappedArrayGetLevel(&array, mipmap, 1));
    OK(cu->cuMipmappedArrayGetLevel(&same, mipmap, 1));
    assert_ptr_equal(array, same);
    OK(cu->cuArray3DGetDescriptor_v2(&level, array));
    assert_int_equal(level.Width, 10);
    assert_int_equal(level.Height, 4);
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuArrayDestroy(array)); /* ends with the whole */
    OK(cu->cuMipmappedArrayDestroy(mipmap));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuArray3DGetDescriptor_v2(&level, array));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuMipmappedArrayDestroy(mipmap));
    OK(cu->cuMipmappedArrayCreate(&mipmap, &layered, 2));
    OK(cu->cuMipmappedArrayGetLevel(&array, mipmap, 1));
    OK(cu->cuArray3DGetDescriptor_v2(&level, array));
    assert_int_equal(level.Width, 4);
    assert_int_equal(level.Depth, 5); /* layers do not shrink */
    OK(cu->cuMipmappedArrayDestroy(mipmap));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMipmappedArrayCreate(&mipmap, NULL, 1));
}

/* Memory counts against the device's, comes back, and all goes with the context. */
static void memory_comes_back(void **state)
{
    CUDA_ARRAY3D_DESCRIPTOR d = {8192, 4096, 0, CU_AD_FORMAT_FLOAT, 1, 0};
    size_t before, total, after;
    CUarray array;
    CUcontext other;
    (void)state;
    OK(cu->cuMemGetInfo_v2(&before, &total));
    for (int i = 0; i < 20; i++) { /* 128 of 256 MiB each time */
        OK(cu->cuArray3DCreate_v2(&array, &d));
        OK(cu->cuMemGetInfo_v2(&after, &total));
        assert_int_equal(before - after, (size_t)8192 * 4096 * 4);
        OK(cu->cuArrayDestroy(array));
    }
    d.Height = 32768;
    FAILS(CUDA_ERROR_OUT_OF_MEMORY, cu->cuArray3DCreate_v2(&array, &d));
    d.Height = 4096;
    OK(cu->cuCtxCreate_v2(&other, 0, 0));
    OK(cu->cuArray3DCreate_v2(&array, &d));
    OK(cu->cuCtxDestroy_v2(other));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuArrayDestroy(array));
    OK(cu->cuMemGetInfo_v2(&after, &total));
    assert_int_equal(before, after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(shapes_that_cuda_has), IN_CONTEXT(arrays_tell_what_they_are),
        IN_CONTEXT(linear_copies),        IN_CONTEXT(boxes_to_and_from_arrays),
        IN_CONTEXT(peers_copy_arrays),    IN_CONTEXT(mipmaps_have_levels),
        IN_CONTEXT(memory_comes_back),
    };
    return cmocka_run_group_tests(tests, device_setup, NULL);
}
