/* Memory pools over two proxies: what travels, and whose memory is used again when. */
#include <pthread.h>

#include "tests/e2e/remoting/graph_help.h"

static uint64_t counter(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    uint64_t value = 0;
    OK(cu->cuMemPoolGetAttribute(pool, attribute, &value));
    return value;
}

static CUmemoryPool new_pool(CUdevice device)
{
    CUmemoryPool pool;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    OK(cu->cuMemPoolCreate(&pool, &props));
    return pool;
}

static CUstream new_stream(void)
{
    CUstream stream;
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    return stream;
}

/* Once the pool has memory, neither allocating nor freeing sends a byte. */
static void allocations_send_nothing(void **state)
{
    CUmemoryPool pool = new_pool(0);
    CUstream stream = new_stream();
    CUdeviceptr p, first = 0;
    (void)state;
    OK(cu->cuMemAllocFromPoolAsync(&p, 1 << 20, pool, stream));
    OK(cu->cuMemFreeAsync(p, stream));
    OK(cu->cuStreamSynchronize(stream));
    uint64_t up = relay_up(relay);
    for (int i = 0; i < 1000; i++) {
        OK(cu->cuMemAllocFromPoolAsync(&p, 1 << 20, pool, stream));
        first = first ? first : p;
        assert_int_equal(p, first); /* in one stream the same memory serves again and again */
        OK(cu->cuMemFreeAsync(p, stream));
    }
    assert_int_equal(relay_up(relay), up);
    OK(cu->cuStreamSynchronize(stream));
    assert_int_equal(counter(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    assert_true(counter(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 1 << 20);
    OK(cu->cuMemPoolTrimTo(pool, 0));
    assert_int_equal(counter(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT), 0);
    OK(cu->cuMemPoolDestroy(pool));
}

/* Another stream gets freed memory only behind the work that comes before the free. */
static void other_streams_wait(void **state)
{
    CUmemoryPool pool = new_pool(0);
    CUstream a = new_stream(), b = new_stream(), c = new_stream();
    CUdeviceptr flag, p, q, r;
    uint32_t host[4] = {0};
    enum { BYTES = 3 << 20 }; /* one slab holds one of them */
    (void)state;
    OK(cu->cuMemAlloc_v2(&flag, 4));
    OK(cu->cuMemsetD32_v2(flag, 0, 1));
    OK(cu->cuCtxSynchronize());
    OK(cu->cuMemAllocFromPoolAsync(&p, BYTES, pool, a));
    OK(cu->cuStreamWaitValue32_v2(a, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cu->cuMemsetD32Async(p, 1, 4, a));
    OK(cu->cuMemFreeAsync(p, a));
    OK(cu->cuMemAllocFromPoolAsync(&q, BYTES, pool, b)); /* the same memory, behind a's work */
    assert_int_equal(p, q);
    OK(cu->cuMemsetD32Async(q, 2, 4, b));
    FAILS(CUDA_ERROR_NOT_READY, cu->cuStreamQuery(b));
    /* Without such dependencies new memory is taken. */
    int no = 0;
    OK(cu->cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES, &no));
    OK(cu->cuMemFreeAsync(q, b));
    OK(cu->cuMemAllocFromPoolAsync(&r, BYTES, pool, c));
    assert_true(r != q);
    OK(cu->cuStreamQuery(c));
    OK(cu->cuStreamWriteValue32_v2(c, flag, 1, 0));
    OK(cu->cuStreamSynchronize(b));
    OK(cu->cuMemAllocFromPoolAsync(&p, BYTES, pool,
                                   c)); /* b has come past the free: no need to wait */
    assert_int_equal(p, q);
    OK(cu->cuMemcpyDtoHAsync_v2(host, p, sizeof(host), c));
    assert_int_equal(host[3], 2);
    OK(cu->cuMemFreeAsync(p, c));
    OK(cu->cuMemFreeAsync(r, c));
    OK(cu->cuCtxSynchronize());
    OK(cu->cuMemPoolDestroy(pool));
    OK(cu->cuMemFree_v2(flag));
}

/* An event that was waited for says as much as the stream. */
static void events_tell_too(void **state)
{
    CUmemoryPool pool = new_pool(0);
    CUstream a = new_stream();
    CUevent event;
    CUdeviceptr p, q;
    (void)state;
    OK(cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cu->cuMemAllocFromPoolAsync(&p, 4096, pool, a));
    OK(cu->cuMemAllocFromPoolAsync(&q, 4096, pool, a));
    OK(cu->cuMemFreeAsync(p, a));
    OK(cu->cuEventRecord(event, a));
    OK(cu->cuEventSynchronize(event));
    assert_int_equal(counter(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 4096);
    OK(cu->cuEventRecord(event, a));
    OK(cu->cuMemFreeAsync(q, a));
    OK(cu->cuEventSynchronize(event)); /* of before the free */
    assert_int_equal(counter(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 4096);
    OK(cu->cuCtxSynchronize());
    assert_int_equal(counter(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
    OK(cu->cuEventDestroy_v2(event));
    OK(cu->cuMemPoolDestroy(pool));
}

/* The device is full: an error at the call; what other pools keep is taken back first. */
static void exhaustion(void **state)
{
    CUmemoryPool hoard = new_pool(0), pool = new_pool(0);
    uint64_t keep = UINT64_MAX;
    CUstream stream = new_stream();
    CUdeviceptr pieces[64], p;
    int count = 0;
    (void)state;
    OK(cu->cuMemPoolSetAttribute(hoard, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &keep));
    OK(cu->cuMemAllocFromPoolAsync(&p, 100 << 20, hoard, stream));
    OK(cu->cuMemFreeAsync(p, stream));
    OK(cu->cuStreamSynchronize(stream));
    assert_true(counter(hoard, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT) >= 100 << 20);
    CUresult result = CUDA_SUCCESS;
    while (count < 64 && !result) {
        result = cu->cuMemAllocFromPoolAsync(&pieces[count], 10 << 20, pool, stream);
        count += !result;
    }
    assert_int_equal(result, CUDA_ERROR_OUT_OF_MEMORY);
    assert_true(count >= 18); /* of 256 MiB */
    FAILS(CUDA_ERROR_OUT_OF_MEMORY, cu->cuMemAllocFromPoolAsync(&p, SIZE_MAX, pool, stream));
    OK(cu->cuMemFreeAsync(pieces[--count], stream));
    OK(cu->cuMemAllocFromPoolAsync(&pieces[count++], 10 << 20, pool, stream));
    while (count > 0)
        OK(cu->cuMemFreeAsync(pieces[--count], stream));
    OK(cu->cuStreamSynchronize(stream));
    OK(cu->cuMemPoolDestroy(pool));
    OK(cu->cuMemPoolDestroy(hoard));
    OK(cu->cuMemAlloc_v2(&p, 150 << 20)); /* all of it is back */
    OK(cu->cuMemFree_v2(p));
}

/* Pools belong to their device. */
static void second_device(void **state)
{
    CUcontext second;
    CUmemoryPool pool = new_pool(1), own;
    CUmemAccess_flags flags;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr p, q;
    uint32_t word = 0;
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuMemAllocFromPoolAsync(&p, 64, pool, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuDeviceSetMemPool(0, pool));
    OK(cu->cuCtxCreate_v2(&second, 0, 1));
    OK(cu->cuDeviceSetMemPool(1, pool));
    OK(cu->cuMemAllocAsync(&p, 64, NULL));
    OK(cu->cuPointerGetAttribute(&own, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, p));
    assert_ptr_equal(own, pool);
    OK(cu->cuMemAllocFromPoolAsync(&q, 64, pool, NULL));
    OK(cu->cuMemsetD32Async(p, 77, 16, NULL));
    OK(cu->cuMemcpyDtoDAsync_v2(q, p, 64, NULL));
    OK(cu->cuMemFreeAsync(p, NULL));
    OK(cu->cuMemcpyDtoH_v2(&word, q + 60, 4));
    assert_int_equal(word, 77);
    OK(cu->cuMemFreeAsync(q, NULL));
    /* Devices of two proxies do not reach each other's memory. */
    OK(cu->cuMemPoolGetAccess(&flags, pool, &access.location));
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_NONE);
    FAILS(CUDA_ERROR_INVALID_DEVICE, cu->cuMemPoolSetAccess(pool, &access, 1));
    OK(cu->cuCtxDestroy_v2(second));
    OK(cu->cuMemPoolDestroy(pool));
    OK(cu->cuCtxSetCurrent(*state));
}

enum { THREADS = 6, ROUNDS = 300 };

/* Every thread fills memory in its own stream, frees it and looks at what it copied out before. */
static void *churn(void *context)
{
    CUstream stream;
    if (cu->cuCtxSetCurrent(context) || cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
        return (void *)1;
    for (uint32_t i = 0; i < ROUNDS; i++) {
        CUdeviceptr p, q;
        uint32_t got[2], mark = (uint32_t)(uintptr_t)&stream + i;
        size_t words = 1000 + i * 37 % 5000;
        if (cu->cuMemAllocAsync(&p, words * 4, stream) || cu->cuMemAllocAsync(&q, 8, stream) ||
            cu->cuMemsetD32Async(p, mark, words, stream) ||
            cu->cuMemcpyDtoDAsync_v2(q, p, 4, stream) ||
            cu->cuMemcpyDtoDAsync_v2(q + 4, p + (words - 1) * 4, 4, stream) ||
            cu->cuMemFreeAsync(p, stream) || cu->cuMemcpyDtoHAsync_v2(got, q, 8, stream) ||
            got[0] != mark || got[1] != mark || cu->cuMemFreeAsync(q, stream))
            return (void *)2;
    }
    return (void *)(intptr_t)cu->cuStreamDestroy_v2(stream);
}

static void threads(void **state)
{
    pthread_t threads[THREADS];
    CUmemoryPool pool;
    OK(cu->cuDeviceGetDefaultMemPool(&pool, 0));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, churn, *state), 0);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_null(result);
    }
    OK(cu->cuCtxSynchronize());
    assert_int_equal(counter(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(allocations_send_nothing),
        IN_CONTEXT(other_streams_wait),
        IN_CONTEXT(events_tell_too),
        IN_CONTEXT(exhaustion),
        IN_CONTEXT(second_device),
        IN_CONTEXT(threads),
    };
    return OVER_TWO_PROXIES(tests);
}
