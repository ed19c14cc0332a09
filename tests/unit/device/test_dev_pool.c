/* Memory pools, stream-ordered allocation, and what programs say about managed memory. */
#include "device_kernels.h"

static uint64_t counter(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    uint64_t value = 0;
    OK(cu->cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

static CUmemoryPool new_pool(size_t most)
{
    CUmemoryPool pool;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0},
                            .maxSize = most};
    OK(cu->cuMemPoolCreate(&pool, &props));
    return pool;
}

/* The free comes after the work that is queued before it, although the stream has to wait. */
static void frees_are_in_stream_order(void **state)
{
    CUstream stream, other;
    CUdeviceptr data, flag;
    CUfunction function = kernel("count_up");
    CUmemoryPool pool;
    uint32_t host[64], bias = 3, n = 64;
    (void)state;
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cu->cuDeviceGetDefaultMemPool(&pool, 0));
    uint64_t before = counter(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    OK(cu->cuMemAlloc_v2(&flag, 4));
    OK(cu->cuMemsetD32_v2(flag, 0, 1));
    OK(cu->cuMemAllocAsync(&data, sizeof(host), stream));
    OK(cu->cuStreamWaitValue32_v2(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    void *params[] = {&data, &bias, &n};
    OK(cu->cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, stream, params, NULL));
    void *pinned;
    OK(cu->cuMemHostAlloc(&pinned, sizeof(host), 0));
    OK(cu->cuMemcpyDtoHAsync_v2(pinned, data, sizeof(host), stream));
    OK(cu->cuMemFreeAsync(data, stream));
    assert_true(counter(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) > before);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFreeAsync(data, stream)); /* twice */
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFree_v2(data));
    OK(cu->cuStreamWriteValue32_v2(other, flag, 1, 0));
    OK(cu->cuStreamSynchronize(stream));
    for (uint32_t i = 0; i < 64; i++)
        assert_int_equal(((uint32_t *)pinned)[i], i + 3);
    assert_true(BECOMES(counter(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT) == before));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemFreeAsync(data, stream));
    OK(cu->cuMemFreeHost(pinned));
    OK(cu->cuMemFree_v2(flag));
}

static void pools_count(void **state)
{
    CUmemoryPool pool = new_pool(1 << 20), got;
    CUdeviceptr a, b;
    CUmemAccess_flags access = 0;
    uint64_t keep = UINT64_MAX, zero = 0, one = 1;
    int flag = -1;
    (void)state;
    OK(cu->cuMemAllocFromPoolAsync(&a, 600 << 10, pool, NULL));
    FAILS(CUDA_ERROR_OUT_OF_MEMORY, cu->cuMemAllocFromPoolAsync(&b, 600 << 10, pool, NULL));
    OK(cu->cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
    assert_ptr_equal(got, pool);
    assert_int_equal(counter(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 600 << 10);
    OK(cu->cuMemFree_v2(a)); /* an ordinary free will do, too */
    assert_int_equal(counter(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    assert_int_equal(counter(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 600 << 10);
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &one));
    OK(cu->cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &zero));
    assert_int_equal(counter(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH), 0);
    OK(cu->cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    assert_true(counter(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) == keep);
    OK(cu->cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &flag));
    assert_int_equal(flag, 1);
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &flag));
    OK(cu->cuMemPoolGetAccess(&access, pool, &(CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, 0}));
    assert_int_equal(access, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    OK(cu->cuMemPoolTrimTo(pool, 0));
    OK(cu->cuDeviceSetMemPool(0, pool));
    OK(cu->cuDeviceGetMemPool(&got, 0));
    assert_ptr_equal(got, pool);
    OK(cu->cuMemAllocAsync(&a, 4096, NULL));
    OK(cu->cuPointerGetAttribute(&got, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, a));
    assert_ptr_equal(got, pool);
    OK(cu->cuMemPoolDestroy(pool)); /* the memory stays, and the device has its own pool again */
    OK(cu->cuMemsetD8_v2(a, 1, 4096));
    OK(cu->cuMemFreeAsync(a, NULL));
    OK(cu->cuStreamSynchronize(NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemPoolDestroy(pool));
    OK(cu->cuDeviceGetDefaultMemPool(&got, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemPoolDestroy(got));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemAllocAsync(NULL, 4, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemAllocAsync(&a, 0, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemPoolCreate(&got, NULL));
}

/* A context that ends takes its allocations and queued frees with it. */
static void contexts_end(void **state)
{
    CUcontext context;
    CUdeviceptr p, flag;
    CUmemoryPool pool;
    CUstream stream;
    (void)state;
    OK(cu->cuDeviceGetDefaultMemPool(&pool, 0));
    uint64_t before = counter(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT);
    OK(cu->cuCtxCreate_v2(&context, 0, 0));
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu->cuMemAlloc_v2(&flag, 4));
    OK(cu->cuMemsetD32_v2(flag, 0, 1));
    OK(cu->cuMemAllocAsync(&p, 4096, stream));
    OK(cu->cuMemAllocAsync(&p, 4096, stream));
    OK(cu->cuStreamWaitValue32_v2(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cu->cuMemFreeAsync(p, stream));
    OK(cu->cuCtxDestroy_v2(context));
    assert_int_equal(counter(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), before);
}

static int read_mostly(CUdeviceptr p, size_t bytes)
{
    int value = -7;
    OK(cu->cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, bytes));
    return value;
}

static void advice_is_remembered(void **state)
{
    CUdeviceptr p, plain;
    CUmemLocation device = {CU_MEM_LOCATION_TYPE_DEVICE, 0}, host = {CU_MEM_LOCATION_TYPE_HOST, 0};
    int value = -7, list[3];
    enum { PAGE = 65536, BYTES = 4 * PAGE };
    (void)state;
    OK(cu->cuMemAllocManaged(&p, BYTES, CU_MEM_ATTACH_GLOBAL));
    assert_int_equal(read_mostly(p, BYTES), 0);
    OK(cu->cuMemAdvise_v2(p + PAGE, 2 * PAGE, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
    assert_int_equal(read_mostly(p + PAGE, 2 * PAGE), 1);
    assert_int_equal(read_mostly(p + PAGE, PAGE), 1);
    assert_int_equal(read_mostly(p, BYTES), 0); /* not all of it */
    OK(cu->cuMemAdvise_v2(p, BYTES, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
    assert_int_equal(read_mostly(p, BYTES), 1);
    OK(cu->cuMemAdvise_v2(p + 2 * PAGE, PAGE, CU_MEM_ADVISE_UNSET_READ_MOSTLY, device));
    assert_int_equal(read_mostly(p, 2 * PAGE), 1);
    assert_int_equal(read_mostly(p + 2 * PAGE, PAGE), 0);
    OK(cu->cuMemAdvise_v2(p, BYTES, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, host));
    OK(cu->cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION, p, BYTES));
    assert_int_equal(value, CU_DEVICE_CPU);
    OK(cu->cuMemAdvise_v2(p, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
    OK(cu->cuMemAdvise_v2(p, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY, host));
    OK(cu->cuMemRangeGetAttribute(list, sizeof(list), CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY, p,
                                  BYTES));
    assert_true(list[0] == 0 && list[1] == CU_DEVICE_CPU && list[2] == CU_DEVICE_INVALID);
    OK(cu->cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION, p,
                                  BYTES));
    assert_int_equal(value, CU_DEVICE_INVALID);
    OK(cu->cuMemPrefetchAsync_v2(p, BYTES, device, 0, NULL));
    void *data[] = {&value, list};
    size_t sizes[] = {4, 4};
    CUmem_range_attribute which[] = {CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
                                     CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY};
    OK(cu->cuMemRangeGetAttributes(data, sizes, which, 2, p, PAGE));
    assert_true(value == 0 && list[0] == 1);
    FAILS(CUDA_ERROR_INVALID_DEVICE,
          cu->cuMemAdvise_v2(p, BYTES, CU_MEM_ADVISE_SET_ACCESSED_BY,
                             (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, 99}));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuMemRangeGetAttribute(&value, 8, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, p, BYTES));
    OK(cu->cuMemAlloc_v2(&plain, 4096));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, plain, 4096));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuMemAdvise_v2(plain, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
    OK(cu->cuMemFree_v2(p));
    OK(cu->cuMemAllocManaged(&p, BYTES, CU_MEM_ATTACH_GLOBAL));
    assert_int_equal(read_mostly(p, BYTES), 0); /* new memory, no advice */
    OK(cu->cuMemFree_v2(p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(frees_are_in_stream_order),
        IN_CONTEXT(pools_count),
        IN_CONTEXT(contexts_end),
        IN_CONTEXT(advice_is_remembered),
    };
    return cmocka_run_group_tests(tests, device_setup, NULL);
}
