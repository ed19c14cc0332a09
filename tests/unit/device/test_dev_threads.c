/* Many threads, with streams and contexts of their own and shared ones. */
#include "device_kernels.h"

#include <pthread.h>

enum { THREADS = 16, ROUNDS = 20, WORDS = 1024 };

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
        TRY(cu->cuCtxCreate_v2(&own, 0, 0));
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

static void run_all(CUcontext context)
{
    pthread_t threads[THREADS];
    job_t jobs[THREADS];
    for (uint32_t i = 0; i < THREADS; i++) {
        jobs[i] = (job_t){context, i, NULL};
        pthread_create(&threads[i], NULL, work, &jobs[i]);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (uint32_t i = 0; i < THREADS; i++)
        if (jobs[i].failed)
            fail_msg("thread %u: %s", i, jobs[i].failed);
}

static void threads_share_a_context(void **state)
{
    run_all(*state);
}

static void threads_have_contexts_of_their_own(void **state)
{
    (void)state;
    run_all(NULL);
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
    OK(cu->cuMemAlloc_v2(&word, 4));
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(threads_share_a_context),
        IN_CONTEXT(threads_have_contexts_of_their_own),
        IN_CONTEXT(long_chains_of_events_do_not_lock_up),
    };
    return cmocka_run_group_tests(tests, device_setup, NULL);
}
