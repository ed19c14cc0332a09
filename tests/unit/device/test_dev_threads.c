/* Many threads, with streams and contexts of their own and shared ones, on as many devices as there are
 * (GABLE_CPU_DEVICES). */
#include "device_kernels.h"

#include <pthread.h>
#include <stdatomic.h>

enum { THREADS = 16, ROUNDS = 20, WORDS = 1024 };

static int device_count;

typedef struct {
    CUcontext context; /* shared; NULL: make one's own */
    uint32_t number;
    const char *failed;
} job_t;

#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((call) != CUDA_SUCCESS) {                                                              \
            job->failed = #call;                                                                   \
            return NULL;                                                                           \
        }                                                                                          \
    } while (0)

/* Copies, kernels and events in a stream, checked word by word. */
static void *work(void *argument)
{
    job_t *job = argument;
    CUcontext own = NULL;
    CUmodule module;
    CUfunction function;
    CUstream stream;
    CUevent event;
    CUdeviceptr memory;
    uint32_t *host = malloc(WORDS * 4), n = WORDS;
    if (job->context)
        TRY(cu->cuCtxSetCurrent(job->context));
    else
        TRY(cu->cuCtxCreate_v2(&own, 0, (int)job->number % device_count));
    TRY(cu->cuModuleLoadData(&module, device_kernels));
    TRY(cu->cuModuleGetFunction(&function, module, "count_up"));
    TRY(cu->cuStreamCreate(&stream, job->number % 2 ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    TRY(cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint32_t bias = job->number * 1000 + round;
        TRY(cu->cuMemAlloc_v2(&memory, WORDS * 4));
        void *params[] = {&memory, &bias, &n};
        TRY(cu->cuMemsetD32Async(memory, 0, WORDS, stream));
        TRY(cu->cuLaunchKernel(function, WORDS / 32, 1, 1, 32, 1, 1, 0, stream, params, NULL));
        TRY(cu->cuEventRecord(event, stream));
        TRY(cu->cuEventSynchronize(event));
        TRY(cu->cuMemcpyDtoHAsync_v2(host, memory, WORDS * 4, stream));
        TRY(cu->cuStreamSynchronize(stream));
        for (uint32_t i = 0; i < WORDS; i++) {
            if (host[i] != i + bias) {
                job->failed = "wrong numbers";
                return NULL;
            }
        }
        TRY(cu->cuMemFree_v2(memory));
    }
    TRY(cu->cuEventDestroy_v2(event));
    TRY(cu->cuStreamDestroy_v2(stream));
    TRY(cu->cuModuleUnload(module));
    if (own)
        TRY(cu->cuCtxDestroy_v2(own));
    free(host);
    return NULL;
}

static void note(void *user)
{
    atomic_fetch_add((atomic_uint *)user, 1);
}

/* Allocations in streams, a captured graph, host functions, events between two streams, the thread's own
 * default stream, and attributes that other threads ask for too. */
static void *work_in_streams(void *argument)
{
    job_t *job = argument;
    CUcontext own;
    CUmodule module;
    CUfunction function;
    CUstream stream, other;
    CUevent event;
    CUgraph graph;
    CUgraphExec exec;
    CUdeviceptr memory, total;
    CUmemoryPool pool;
    atomic_uint notes = 0;
    uint32_t *host, n = WORDS, bias = job->number;
    TRY(cu->cuCtxCreate_v2(&own, 0, (int)job->number % device_count));
    TRY(cu->cuModuleLoadData(&module, device_kernels));
    TRY(cu->cuModuleGetFunction(&function, module, "count_up"));
    TRY(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    TRY(cu->cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    TRY(cu->cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    TRY(cu->cuMemHostAlloc((void **)&host, WORDS * 4, 0));
    TRY(cu->cuMemAlloc_v2(&total, WORDS * 4));
    TRY(cu->cuDeviceGetMemPool(&pool, (int)job->number % device_count));
    TRY(cu->cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    TRY(cu->cuMemAllocAsync(&memory, WORDS * 4, stream));
    void *params[] = {&memory, &bias, &n};
    TRY(cu->cuLaunchKernel(function, WORDS / 32, 1, 1, 32, 1, 1, 0, stream, params, NULL));
    TRY(cu->cuMemcpyDtoDAsync_v2(total, memory, WORDS * 4, stream));
    TRY(cu->cuMemFreeAsync(memory, stream));
    TRY(cu->cuStreamEndCapture(stream, &graph));
    TRY(cu->cuGraphInstantiateWithFlags(&exec, graph, 0));
    for (uint32_t round = 0; round < ROUNDS; round++) {
        TRY(cu->cuMemAllocFromPoolAsync(&memory, WORDS * 4, pool, stream));
        TRY(cu->cuMemsetD32Async(total, 0, WORDS, stream));
        TRY(cu->cuGraphLaunch(exec, stream));
        TRY(cu->cuMemcpyDtoDAsync_v2(memory, total, WORDS * 4, stream));
        TRY(cu->cuEventRecord(event, stream));
        TRY(cu->cuStreamWaitEvent(other, event, 0));
        TRY(cu->cuMemcpyDtoHAsync_v2(host, memory, WORDS * 4, other));
        TRY(cu->cuLaunchHostFunc(other, note, &notes));
        TRY(cu->cuStreamSynchronize(other));
        TRY(cu->cuMemFreeAsync(memory, stream));
        TRY(cu->cuMemsetD32Async(total, 1, 1, CU_STREAM_PER_THREAD));
        TRY(cu->cuStreamSynchronize(CU_STREAM_PER_THREAD));
        if (host[0] != bias || host[WORDS - 1] != WORDS - 1 + bias) {
            job->failed = "wrong numbers";
            return NULL;
        }
    }
    if (atomic_load(&notes) != ROUNDS)
        job->failed = "host functions";
    TRY(cu->cuGraphExecDestroy(exec));
    TRY(cu->cuGraphDestroy(graph));
    TRY(cu->cuStreamSynchronize(stream));
    TRY(cu->cuMemFreeHost(host));
    TRY(cu->cuCtxDestroy_v2(own));
    return NULL;
}

static void run_threads(CUcontext context, void *(*run)(void *))
{
    pthread_t threads[THREADS];
    job_t jobs[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        jobs[i] = (job_t){context, i, NULL};
        pthread_create(&threads[i], NULL, run, &jobs[i]);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < THREADS; i++)
        if (jobs[i].failed)
            fail_msg("thread %u: %s", i, jobs[i].failed);
}

static void threads_share_a_context(void **state)
{
    run_threads(*state, work);
}

static void threads_have_contexts_of_their_own(void **state)
{
    (void)state;
    run_threads(NULL, work);
}

static void threads_have_streams_and_graphs(void **state)
{
    (void)state;
    run_threads(NULL, work_in_streams);
}

/* ---- one cooperative kernel on all devices ---- */

/* The launch waits for what all streams have before, and all streams wait for it. */
static void a_kernel_runs_on_all_devices(void **state)
{
    enum { MOST = 16 };
    CUcontext contexts[MOST];
    CUstream streams[MOST];
    CUdeviceptr words[MOST], flag;
    CUfunction functions[MOST];
    CUDA_LAUNCH_PARAMS list[MOST];
    void *params[MOST][1];
    uint32_t got;
    int value;
    (void)state;
    if (device_is_remote())
        skip();
    for (int i = 0; i < device_count; i++) {
        OK(cu->cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COOPERATIVE_MULTI_DEVICE_LAUNCH,
                                    i));
        assert_int_equal(value, 1);
        OK(cu->cuCtxCreate_v2(&contexts[i], 0, i));
        functions[i] = kernel("add_at");
        OK(cu->cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        OK(cu->cuMemAlloc_v2(&words[i], 8));
        OK(cu->cuMemsetD32_v2(words[i], 0, 2));
        OK(cu->cuCtxSynchronize_v2(NULL));
        params[i][0] = &words[i];
        list[i] = (CUDA_LAUNCH_PARAMS){.function = functions[i],
                                       .gridDimX = 4,
                                       .gridDimY = 1,
                                       .gridDimZ = 1,
                                       .blockDimX = 64,
                                       .blockDimY = 1,
                                       .blockDimZ = 1,
                                       .hStream = streams[i],
                                       .kernelParams = params[i]};
    }
    flag = words[device_count - 1] + 4;
    OK(cu->cuStreamWaitValue32_v2(streams[device_count - 1], flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(cu->cuLaunchCooperativeKernelMultiDevice(list, (unsigned)device_count, 0));
    FAILS(CUDA_ERROR_NOT_READY, cu->cuStreamQuery(streams[0])); /* the last stream waits */
    OK(cu->cuMemsetD32_v2(flag, 1, 1));
    for (int i = 0; i < device_count; i++) {
        OK(cu->cuStreamSynchronize(streams[i]));
        OK(cu->cuMemcpyDtoH_v2(&got, words[i], 4));
        assert_int_equal(got, 4 * 64);
    }
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuLaunchCooperativeKernelMultiDevice(NULL, 1, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuLaunchCooperativeKernelMultiDevice(list, 0, 0));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuLaunchCooperativeKernelMultiDevice(list, 1, 4));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuLaunchCooperativeKernelMultiDevice(list, (unsigned)device_count + 1, 0));
    list[0].hStream = NULL;
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuLaunchCooperativeKernelMultiDevice(list, 1, 0));
    list[0].hStream = streams[0];
    list[0].gridDimX = 1 << 20;
    FAILS(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
          cu->cuLaunchCooperativeKernelMultiDevice(list, 1, 0));
    if (device_count > 1) { /* not of one shape; twice on one device */
        list[0].gridDimX = 3;
        FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuLaunchCooperativeKernelMultiDevice(list, 2, 0));
        list[0].gridDimX = 4;
        list[1] = list[0];
        FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuLaunchCooperativeKernelMultiDevice(list, 2, 0));
    }
    for (int i = device_count - 1; i >= 0; i--)
        OK(cu->cuCtxDestroy_v2(contexts[i]));
}

/* A ring of streams, each waiting for the event of the one before. */
static void long_chains_of_events_do_not_lock_up(void **state)
{
    enum { STREAMS = 8, LINKS = 400 };
    CUstream streams[STREAMS];
    CUevent events[STREAMS];
    CUfunction add = kernel("add_at");
    CUdeviceptr word;
    (void)state;
    word = memory_of_both(4);
    OK(cu->cuMemsetD32_v2(word, 0, 1));
    OK(cu->cuCtxSynchronize_v2(NULL));
    void *params[] = {&word};
    for (int i = 0; i < STREAMS; i++) {
        OK(cu->cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        OK(cu->cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
    }
    for (int i = 0; i < LINKS; i++) {
        CUstream stream = streams[i % STREAMS];
        OK(cu->cuStreamWaitEvent(stream, events[(i + STREAMS - 1) % STREAMS], 0));
        OK(cu->cuLaunchKernel(add, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
        OK(cu->cuEventRecord(events[i % STREAMS], stream));
    }
    OK(cu->cuStreamSynchronize(streams[(LINKS - 1) % STREAMS]));
    assert_int_equal(*(uint32_t *)word, LINKS);
    for (int i = 0; i < STREAMS; i++) {
        OK(cu->cuEventDestroy_v2(events[i]));
        OK(cu->cuStreamDestroy_v2(streams[i]));
    }
}

static int setup(void **state)
{
    return device_setup(state) || cu->cuDeviceGetCount(&device_count) != CUDA_SUCCESS;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(threads_share_a_context),
        IN_CONTEXT(threads_have_streams_and_graphs),
        IN_CONTEXT(a_kernel_runs_on_all_devices),
        IN_CONTEXT(threads_have_contexts_of_their_own),
        IN_CONTEXT(long_chains_of_events_do_not_lock_up),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
