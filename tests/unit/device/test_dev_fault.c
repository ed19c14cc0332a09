/* What a kernel does wrong: the error, that it sticks to the context, and to nothing else. */
#include "device_kernels.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

/* Runs `name` on an address in a context of its own and expects `error` at the next
 * synchronisation and from then on. */
static void expect_fault(const char *name, CUdeviceptr at, CUresult error)
{
    CUcontext context;
    CUdeviceptr memory;
    CUstream stream;
    CUevent event;
    size_t bytes;
    OK(cu->cuCtxCreate_v2(&context, 0, 0));
    OK(cu->cuMemAlloc_v2(&memory, 1024));
    OK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cu->cuEventCreate(&event, 0));
    CUfunction function = kernel(name);
    void *params[] = {&at};
    OK(cu->cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    FAILS(error, cu->cuStreamSynchronize(stream));
    FAILS(error, cu->cuCtxSynchronize_v2(NULL));
    FAILS(error, cu->cuMemAlloc_v2(&memory, 4));
    FAILS(error, cu->cuMemGetInfo_v2(&bytes, &bytes));
    FAILS(error, cu->cuMemcpyDtoH_v2(&bytes, memory, 4));
    FAILS(error, cu->cuStreamQuery(stream));
    FAILS(error, cu->cuEventQuery(event));
    FAILS(error, run_one(function, params));
    OK(cu->cuCtxDestroy_v2(context));
    /* Another context is not touched. */
    OK(cu->cuCtxCreate_v2(&context, 0, 0));
    memory = memory_of_both(1024);
    params[0] = &memory;
    OK(run_one(kernel("poke"), params));
    OK(cu->cuCtxSynchronize_v2(NULL));
    assert_int_equal(*(uint32_t *)memory, 7);
    OK(cu->cuCtxDestroy_v2(context));
}

static void wild_addresses_are_found(void **state)
{
    uint32_t on_the_stack = 1, *heap = malloc(4);
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)state;
    *heap = 2;
    expect_fault("poke", 0, CUDA_ERROR_ILLEGAL_ADDRESS);
    expect_fault("poke", 16, CUDA_ERROR_ILLEGAL_ADDRESS);
    expect_fault("poke", 0xfffffffffffffff0ull, CUDA_ERROR_ILLEGAL_ADDRESS);
    /* Valid memory of the process is none of the device's. */
    expect_fault("poke", (CUdeviceptr)&on_the_stack, CUDA_ERROR_ILLEGAL_ADDRESS);
    expect_fault("poke", (CUdeviceptr)heap, CUDA_ERROR_ILLEGAL_ADDRESS);
    expect_fault("poke", (CUdeviceptr)page, CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(on_the_stack, 1);
    assert_int_equal(*heap, 2);
    free(heap);
    munmap(page, 4096);
}

static void freed_memory_is_wild(void **state)
{
    CUdeviceptr memory;
    (void)state;
    if (device_is_remote())
        skip(); /* a session keeps mappings for the next allocation */
    OK(cu->cuMemAlloc_v2(&memory, 8 << 20));
    OK(cu->cuMemFree_v2(memory));
    expect_fault("poke", memory + (4 << 20), CUDA_ERROR_ILLEGAL_ADDRESS);
}

static void misaligned_addresses_are_found(void **state)
{
    CUdeviceptr memory;
    (void)state;
    OK(cu->cuMemAlloc_v2(&memory, 64));
    expect_fault("poke", memory + 2, CUDA_ERROR_MISALIGNED_ADDRESS);
}

static void traps_are_launch_failures(void **state)
{
    (void)state;
    expect_fault("give_up", 0, CUDA_ERROR_LAUNCH_FAILED);
}

static void one_fault_of_many_blocks_ends_the_launch(void **state)
{
    CUcontext context;
    CUfunction function;
    CUdeviceptr memory;
    uint32_t bias = 0, n = 1u << 28;
    (void)state;
    OK(cu->cuCtxCreate_v2(&context, 0, 0));
    function = kernel("count_up");
    OK(cu->cuMemAlloc_v2(&memory, 1 << 20));
    void *params[] = {&memory, &bias, &n};
    OK(cu->cuLaunchKernel(function, n / 256, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
    FAILS(CUDA_ERROR_ILLEGAL_ADDRESS, cu->cuCtxSynchronize_v2(NULL));
    OK(cu->cuCtxDestroy_v2(context));
}

static void endless_kernels_end_with_their_context(void **state)
{
    CUcontext context;
    CUstream streams[4];
    (void)state;
    OK(cu->cuCtxCreate_v2(&context, 0, 0));
    CUfunction function = kernel("for_ever");
    for (int i = 0; i < 4; i++) {
        OK(cu->cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
        OK(cu->cuLaunchKernel(function, 100, 1, 1, 64, 1, 1, 0, streams[i], NULL, NULL));
    }
    FAILS(CUDA_ERROR_NOT_READY, cu->cuStreamQuery(streams[0]));
    uint64_t begin = gb_now_ns();
    OK(cu->cuCtxDestroy_v2(context));
    assert_true(gb_now_ns() - begin < 5000000000u);
}

static void *synchronise(void *context)
{
    if (cu->cuCtxSetCurrent(context))
        return (void *)1;
    return (void *)(uintptr_t)cu->cuCtxSynchronize_v2(NULL);
}

static void waiting_threads_are_told_of_the_end(void **state)
{
    CUcontext context;
    pthread_t thread;
    void *result;
    (void)state;
    OK(cu->cuCtxCreate_v2(&context, 0, 0));
    OK(run_one(kernel("for_ever"), NULL));
    pthread_create(&thread, NULL, synchronise, context);
    nanosleep(&(struct timespec){0, 20000000}, NULL);
    OK(cu->cuCtxDestroy_v2(context));
    pthread_join(thread, &result);
    assert_true((CUresult)(uintptr_t)result == CUDA_ERROR_CONTEXT_IS_DESTROYED ||
                (CUresult)(uintptr_t)result == CUDA_ERROR_INVALID_CONTEXT);
}

static volatile sig_atomic_t handled;
static sigjmp_buf back;

static void on_segv(int number)
{
    (void)number;
    handled++;
    siglongjmp(back, 1);
}

/* The program's own handler, installed before or after ours, gets what is the program's. */
static void the_programs_own_handler_still_works(void **state)
{
    struct sigaction mine = {.sa_handler = on_segv, .sa_flags = SA_NODEFER}, ours;
    volatile char *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)state;
    OK(run_one(kernel("nothing"), NULL));
    OK(cu->cuCtxSynchronize_v2(NULL));
    sigaction(SIGSEGV, &mine, &ours);
    if (sigsetjmp(back, 1) == 0)
        *nowhere = 1;
    assert_int_equal(handled, 1);
    sigaction(SIGSEGV, &ours, NULL);
    OK(run_one(kernel("nothing"), NULL));
    OK(cu->cuCtxSynchronize_v2(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(wild_addresses_are_found),
        IN_CONTEXT(freed_memory_is_wild),
        IN_CONTEXT(misaligned_addresses_are_found),
        IN_CONTEXT(traps_are_launch_failures),
        IN_CONTEXT(one_fault_of_many_blocks_ends_the_launch),
        IN_CONTEXT(endless_kernels_end_with_their_context),
        IN_CONTEXT(waiting_threads_are_told_of_the_end),
        IN_CONTEXT(the_programs_own_handler_still_works),
    };
    return cmocka_run_group_tests(tests, device_setup, NULL);
}
