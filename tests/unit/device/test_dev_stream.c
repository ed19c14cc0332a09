/* Streams, events, values in memory, host functions, and the order between them. */
#include "device_test.h"

#include <pthread.h>
#include <stdatomic.h>

static CUdeviceptr word(uint32_t value)
{
    CUdeviceptr at;
    at = memory_of_both(8);
    OK(cu->cuMemsetD32_v2(at, value, 2));
    OK(cu->cuCtxSynchronize_v2(NULL));
    return at;
}

static uint32_t peek(CUdeviceptr at)
{
    return __atomic_load_n((uint32_t *)at, __ATOMIC_ACQUIRE);
}

static void poke(CUdeviceptr at, uint32_t value)
{
    __atomic_store_n((uint32_t *)at, value, __ATOMIC_RELEASE);
}

static void streams_are_made_and_ended(void **state)
{
    CUstream a, b;
    CUcontext context;
    unsigned flags;
    int priority;
    unsigned long long id_a, id_b;
    OK(cu->cuStreamCreate(&a, CU_STREAM_DEFAULT));
    OK(cu->cuStreamCreateWithPriority(&b, CU_STREAM_NON_BLOCKING, -100));
    OK(cu->cuStreamGetFlags(b, &flags));
    assert_int_equal(flags, CU_STREAM_NON_BLOCKING);
    OK(cu->cuStreamGetPriority(b, &priority));
    assert_int_equal(priority, -5);
    OK(cu->cuStreamGetId(a, &id_a));
    OK(cu->cuStreamGetId(b, &id_b));
    assert_true(id_a != id_b);
    OK(cu->cuStreamGetCtx(a, &context));
    assert_ptr_equal(context, *state);
    OK(cu->cuStreamQuery(a));
    OK(cu->cuStreamSynchronize(a));
    OK(cu->cuStreamSynchronize(NULL));
    OK(cu->cuStreamSynchronize(CU_STREAM_PER_THREAD));
    OK(cu->cuStreamDestroy_v2(a));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuStreamDestroy_v2(a));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuStreamSynchronize(a));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuStreamDestroy_v2(NULL));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuStreamQuery((CUstream)state));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuStreamCreate(&a, 6));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuStreamCreate(NULL, 0));
    OK(cu->cuStreamDestroy_v2(b));
}

static void waiting_for_a_value_holds_only_its_stream(void **state)
{
    CUstream waiting, other;
    CUdeviceptr flag = word(0), result = word(0);
    (void)state;
    OK(cu->cuStreamCreate(&waiting, CU_STREAM_NON_BLOCKING));
    OK(cu->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cu->cuStreamWaitValue32_v2(waiting, flag, 5, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cu->cuMemsetD32Async(result, 1, 1, waiting));
    OK(cu->cuMemsetD32Async(result + 4, 2, 1, other));
    OK(cu->cuStreamSynchronize(other));
    FAILS(CUDA_ERROR_NOT_READY, cu->cuStreamQuery(waiting));
    assert_int_equal(peek(result), 0);
    OK(cu->cuStreamWriteValue32_v2(other, flag, 4, 0));
    OK(cu->cuStreamSynchronize(other));
    FAILS(CUDA_ERROR_NOT_READY, cu->cuStreamQuery(waiting));
    OK(cu->cuStreamWriteValue32_v2(other, flag, 6, 0));
    OK(cu->cuStreamSynchronize(waiting));
    assert_int_equal(peek(result), 1);
    OK(cu->cuStreamDestroy_v2(waiting));
    OK(cu->cuStreamDestroy_v2(other));
}

static void values_written_by_the_host_are_seen(void **state)
{
    CUstream stream;
    CUdeviceptr flag = word(0);
    (void)state;
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    for (uint32_t i = 1; i <= 20; i++) {
        OK(cu->cuStreamWaitValue32_v2(stream, flag, i, CU_STREAM_WAIT_VALUE_EQ));
        FAILS(CUDA_ERROR_NOT_READY, cu->cuStreamQuery(stream));
        poke(flag, i);
        OK(cu->cuStreamSynchronize(stream));
    }
    OK(cu->cuStreamDestroy_v2(stream));
}

static void values_are_compared_as_cuda_says(void **state)
{
    CUstream stream;
    CUdeviceptr flag = word(0);
    (void)state;
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    /* GEQ is cyclic. */
    poke(flag, 3);
    OK(cu->cuStreamWaitValue32_v2(stream, flag, 0xfffffff0u, CU_STREAM_WAIT_VALUE_GEQ));
    OK(cu->cuStreamSynchronize(stream));
    OK(cu->cuStreamWaitValue32_v2(stream, flag, 6, CU_STREAM_WAIT_VALUE_AND));
    OK(cu->cuStreamSynchronize(stream));
    OK(cu->cuStreamWaitValue32_v2(stream, flag, 0xfffffff0u, CU_STREAM_WAIT_VALUE_NOR));
    OK(cu->cuStreamSynchronize(stream));
    poke(flag, 0xf);
    OK(cu->cuStreamWaitValue32_v2(stream, flag, 0xfffffff0u, CU_STREAM_WAIT_VALUE_NOR));
    FAILS(CUDA_ERROR_NOT_READY, cu->cuStreamQuery(stream));
    poke(flag, 0xe);
    OK(cu->cuStreamSynchronize(stream));
    OK(cu->cuStreamWriteValue64_v2(stream, flag, 0x1122334455667788ull, 0));
    OK(cu->cuStreamWaitValue64_v2(stream, flag, 0x1122334455667788ull, CU_STREAM_WAIT_VALUE_EQ));
    OK(cu->cuStreamSynchronize(stream));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuStreamWaitValue32_v2(stream, flag + 2, 0, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuStreamWaitValue64_v2(stream, flag + 4, 0, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuStreamWaitValue32_v2(stream, 0, 0, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuStreamWriteValue32_v2(stream, (CUdeviceptr)&flag, 0, 0));
    OK(cu->cuStreamDestroy_v2(stream));
}

static void events_order_streams(void **state)
{
    CUstream a, b;
    CUevent event;
    CUdeviceptr flag = word(0), value = word(0);
    (void)state;
    OK(cu->cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
    OK(cu->cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
    OK(cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cu->cuEventQuery(event)); /* never recorded: complete */
    OK(cu->cuStreamWaitEvent(b, event, 0));
    OK(cu->cuStreamQuery(b));
    OK(cu->cuStreamWaitValue32_v2(a, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cu->cuMemsetD32Async(value, 1, 1, a));
    OK(cu->cuEventRecord(event, a));
    OK(cu->cuStreamWaitEvent(b, event, 0));
    OK(cu->cuMemcpyDtoDAsync_v2(value + 4, value, 4, b));
    FAILS(CUDA_ERROR_NOT_READY, cu->cuEventQuery(event));
    FAILS(CUDA_ERROR_NOT_READY, cu->cuStreamQuery(b));
    poke(flag, 1);
    OK(cu->cuStreamSynchronize(b));
    OK(cu->cuEventSynchronize(event));
    OK(cu->cuEventQuery(event));
    assert_int_equal(peek(value + 4), 1);
    OK(cu->cuEventDestroy_v2(event));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuEventDestroy_v2(event));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuStreamWaitEvent(a, event, 0));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuEventRecord(event, a));
    OK(cu->cuStreamDestroy_v2(a));
    OK(cu->cuStreamDestroy_v2(b));
}

static void events_measure_time(void **state)
{
    CUevent start, end, untimed;
    CUdeviceptr flag = word(0);
    CUstream stream;
    float ms = -1;
    (void)state;
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu->cuEventCreate(&start, 0));
    OK(cu->cuEventCreate(&end, CU_EVENT_BLOCKING_SYNC));
    OK(cu->cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuEventElapsedTime_v2(&ms, start, end));
    OK(cu->cuEventRecord(start, stream));
    OK(cu->cuStreamWaitValue32_v2(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cu->cuEventRecord(end, stream));
    OK(cu->cuEventRecord(untimed, stream));
    FAILS(CUDA_ERROR_NOT_READY, cu->cuEventElapsedTime_v2(&ms, start, end));
    uint64_t begin = gb_now_ns();
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    poke(flag, 1);
    OK(cu->cuEventSynchronize(end));
    double most = (double)(gb_now_ns() - begin) * 1e-6 + 1000;
    OK(cu->cuEventElapsedTime_v2(&ms, start, end));
    assert_true(ms >= 19.9f && ms <= most);
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuEventElapsedTime_v2(&ms, start, untimed));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuEventElapsedTime_v2(NULL, start, end));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuEventCreate(&end, 99));
    OK(cu->cuStreamDestroy_v2(stream));
}

static void default_stream_waits_and_is_waited_for(void **state)
{
    CUstream blocking, free_stream;
    CUdeviceptr flag = word(0), a = word(0), b = word(0);
    (void)state;
    OK(cu->cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cu->cuStreamCreate(&free_stream, CU_STREAM_NON_BLOCKING));
    OK(cu->cuStreamWaitValue32_v2(blocking, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cu->cuMemsetD32Async(a, 1, 1, blocking));
    OK(cu->cuMemcpyDtoDAsync_v2(a + 4, a, 4, NULL)); /* default: after the blocking stream */
    OK(cu->cuMemsetD32Async(a, 2, 1, blocking));     /* after the default stream */
    OK(cu->cuMemsetD32Async(b, 3, 1, free_stream));  /* waits for nobody */
    OK(cu->cuStreamSynchronize(free_stream));
    assert_int_equal(peek(b), 3);
    FAILS(CUDA_ERROR_NOT_READY, cu->cuStreamQuery(NULL));
    assert_int_equal(peek(a), 0);
    poke(flag, 1);
    OK(cu->cuStreamSynchronize(NULL)); /* includes the blocking stream */
    OK(cu->cuStreamSynchronize(blocking));
    assert_int_equal(peek(a), 2);
    assert_int_equal(peek(a + 4), 1);
    OK(cu->cuStreamDestroy_v2(blocking));
    OK(cu->cuStreamDestroy_v2(free_stream));
}

/* The others' work is done, the value is not there yet: the device must not look for it all the time. */
static void default_stream_waits_for_a_value(void **state)
{
    CUstream blocking, other;
    CUdeviceptr before = word(0), flag = word(0), result = word(0);
    (void)state;
    OK(cu->cuStreamCreate(&blocking, CU_STREAM_DEFAULT));
    OK(cu->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cu->cuStreamWaitValue32_v2(blocking, before, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cu->cuStreamWaitValue32_v2(NULL, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cu->cuMemsetD32Async(result, 1, 1, NULL));
    OK(cu->cuStreamWriteValue32_v2(other, before, 1, 0));
    OK(cu->cuStreamSynchronize(blocking));
    OK(cu->cuMemsetD32Async(result + 4, 2, 1, other));
    OK(cu->cuStreamSynchronize(other));
    FAILS(CUDA_ERROR_NOT_READY, cu->cuStreamQuery(NULL));
    assert_int_equal(peek(result), 0);
    OK(cu->cuStreamWriteValue32_v2(other, flag, 1, 0));
    OK(cu->cuStreamSynchronize(NULL));
    assert_int_equal(peek(result), 1);
    OK(cu->cuStreamDestroy_v2(blocking));
    OK(cu->cuStreamDestroy_v2(other));
}

static void synchronous_copy_follows_blocking_streams(void **state)
{
    CUstream stream;
    CUdeviceptr a = word(0);
    uint32_t value;
    const size_t big = 8 << 20;
    CUdeviceptr block;
    (void)state;
    OK(cu->cuMemAlloc_v2(&block, big));
    OK(cu->cuStreamCreate(&stream, CU_STREAM_DEFAULT));
    for (uint32_t i = 1; i < 50; i++) {
        OK(cu->cuMemsetD32Async(block, i, big / 4, stream));
        OK(cu->cuMemcpyDtoDAsync_v2(a, block + big - 4, 4, stream));
        OK(cu->cuMemcpyDtoH_v2(&value, a, 4));
        assert_int_equal(value, i);
    }
    OK(cu->cuStreamDestroy_v2(stream));
}

static void destroyed_stream_finishes_its_work(void **state)
{
    CUstream stream;
    CUdeviceptr flag = word(0), a = word(0);
    (void)state;
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu->cuStreamWaitValue32_v2(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cu->cuMemsetD32Async(a, 9, 1, stream));
    OK(cu->cuStreamDestroy_v2(stream));
    assert_int_equal(peek(a), 0);
    poke(flag, 1);
    OK(cu->cuCtxSynchronize_v2(NULL));
    assert_int_equal(peek(a), 9);
}

static void context_ends_with_streams_that_wait(void **state)
{
    CUcontext context;
    CUstream stream;
    CUdeviceptr flag;
    (void)state;
    OK(cu->cuCtxCreate_v2(&context, 0, 0));
    flag = word(0);
    OK(cu->cuStreamCreate(&stream, 0));
    OK(cu->cuStreamWaitValue32_v2(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cu->cuMemsetD32Async(flag + 4, 1, 1, stream));
    OK(cu->cuCtxDestroy_v2(context));
}

static atomic_int order;
static atomic_int seen_first, seen_second;
static CUresult inside;

static void first_function(void *data)
{
    int count;
    *(int *)data = 1;
    inside = cu->cuDeviceGetCount(&count) ? CUDA_SUCCESS : cu->cuStreamSynchronize(NULL);
    seen_first = ++order;
}

static void second_function(CUstream stream, CUresult status, void *data)
{
    (void)stream;
    *(CUresult *)data = status;
    seen_second = ++order;
}

static void host_functions_run_in_order(void **state)
{
    CUstream stream;
    CUdeviceptr flag = word(0);
    int touched = 0;
    CUresult status = CUDA_ERROR_UNKNOWN;
    (void)state;
    order = seen_first = seen_second = 0;
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu->cuStreamWaitValue32_v2(stream, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cu->cuLaunchHostFunc(stream, first_function, &touched));
    OK(cu->cuStreamAddCallback(stream, second_function, &status, 0));
    assert_int_equal(order, 0);
    poke(flag, 1);
    OK(cu->cuStreamSynchronize(stream));
    assert_int_equal(touched, 1);
    assert_int_equal(status, CUDA_SUCCESS);
    assert_int_equal(seen_first, 1);
    assert_int_equal(seen_second, 2);
    assert_int_equal(inside, CUDA_ERROR_NOT_PERMITTED);
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuLaunchHostFunc(stream, NULL, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuStreamAddCallback(stream, second_function, NULL, 1));
    OK(cu->cuStreamDestroy_v2(stream));
}

static atomic_int gate;

static void wait_at_the_gate(void *data)
{
    (void)data;
    while (!gate)
        nanosleep(&(struct timespec){0, 100000}, NULL);
}

static void slow_host_function_does_not_stop_other_streams(void **state)
{
    CUstream slow, fast;
    CUdeviceptr a = word(0);
    (void)state;
    gate = 0;
    OK(cu->cuStreamCreate(&slow, CU_STREAM_NON_BLOCKING));
    OK(cu->cuStreamCreate(&fast, CU_STREAM_NON_BLOCKING));
    OK(cu->cuLaunchHostFunc(slow, wait_at_the_gate, NULL));
    for (uint32_t i = 1; i < 100; i++)
        OK(cu->cuMemsetD32Async(a, i, 1, fast));
    OK(cu->cuStreamSynchronize(fast));
    assert_int_equal(peek(a), 99);
    FAILS(CUDA_ERROR_NOT_READY, cu->cuStreamQuery(slow));
    gate = 1;
    OK(cu->cuStreamSynchronize(slow));
    OK(cu->cuStreamDestroy_v2(slow));
    OK(cu->cuStreamDestroy_v2(fast));
}

static void *per_thread(void *context)
{
    unsigned long long *id = malloc(sizeof(*id));
    if (cu->cuCtxSetCurrent(context) || cu->cuStreamGetId(CU_STREAM_PER_THREAD, id))
        *id = 0;
    return id;
}

static void every_thread_has_a_default_stream_of_its_own(void **state)
{
    pthread_t thread;
    unsigned long long own, again, *other, legacy;
    OK(cu->cuStreamGetId(CU_STREAM_PER_THREAD, &own));
    OK(cu->cuStreamGetId(CU_STREAM_PER_THREAD, &again));
    OK(cu->cuStreamGetId(CU_STREAM_LEGACY, &legacy));
    assert_int_equal(own, again);
    assert_true(own != legacy);
    pthread_create(&thread, NULL, per_thread, *state);
    pthread_join(thread, (void **)&other);
    assert_true(*other != 0 && *other != own);
    free(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(streams_are_made_and_ended),
        IN_CONTEXT(waiting_for_a_value_holds_only_its_stream),
        IN_CONTEXT(values_written_by_the_host_are_seen),
        IN_CONTEXT(values_are_compared_as_cuda_says),
        IN_CONTEXT(events_order_streams),
        IN_CONTEXT(events_measure_time),
        IN_CONTEXT(default_stream_waits_and_is_waited_for),
        IN_CONTEXT(default_stream_waits_for_a_value),
        IN_CONTEXT(synchronous_copy_follows_blocking_streams),
        IN_CONTEXT(destroyed_stream_finishes_its_work),
        IN_CONTEXT(context_ends_with_streams_that_wait),
        IN_CONTEXT(host_functions_run_in_order),
        IN_CONTEXT(slow_host_function_does_not_stop_other_streams),
        IN_CONTEXT(every_thread_has_a_default_stream_of_its_own),
    };
    return cmocka_run_group_tests(tests, device_setup, NULL);
}
