/* Threads, warps and blocks that wait for each other: every kernel of spin.cu must end, and give what
 * a machine gives on which all of them make progress. A kernel that hangs is ended by ctest. */
#include "tests/ptx/pt_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const char spin_ptx[];

enum { MOST = 1 << 16 };

static CUmodule module;
static CUdeviceptr words, counts, outs; /* 4 * MOST bytes each */
static int32_t host[MOST];

/* PT_SPIN names the PTX that another compiler made of spin.cu. */
static int load(void **state)
{
    const char *path = getenv("PT_SPIN");
    (void)state;
    if (path) {
        char *text = calloc(1, 1 << 20);
        FILE *f = fopen(path, "rb");
        if (!f || !text || fread(text, 1, (1 << 20) - 1, f) == 0)
            fail_msg("%s cannot be read", path);
        fclose(f);
        module = pt_load(text);
        free(text);
    } else {
        module = pt_load(spin_ptx);
    }
    words = pt_upload(NULL, sizeof host);
    counts = pt_upload(NULL, sizeof host);
    outs = pt_upload(NULL, sizeof host);
    return 0;
}

static void clear(void)
{
    PT_CHECK(pt_cuda()->cuMemsetD32_v2(words, 0, MOST));
    PT_CHECK(pt_cuda()->cuMemsetD32_v2(counts, 0, MOST));
    PT_CHECK(pt_cuda()->cuMemsetD32_v2(outs, 0, MOST));
}

static void run(const char *kernel, unsigned blocks, unsigned threads, void **params)
{
    pt_launch(pt_function(module, kernel), (pt_dim_t){blocks, 1, 1}, (pt_dim_t){threads, 1, 1}, 0,
              params);
}

static void expect(const char *what, unsigned at, int32_t got, int32_t want)
{
    if (got != want)
        fail_msg("%s: [%u] is %d, must be %d", what, at, got, want);
}

static void test_locks(void **state)
{
    static const char *const KERNELS[] = {"lock_before", "lock_inside",   "lock_goto",
                                          "lock_or",     "lock_ticket",   "lock_backoff",
                                          "lock_nested", "lock_semaphore"};
    static const unsigned SHAPES[][2] = {{1, 1}, {1, 32}, {1, 40}, {3, 128}, {8, 64}, {2, 500}};
    (void)state;
    for (size_t k = 0; k < sizeof KERNELS / sizeof KERNELS[0]; k++) {
        for (size_t s = 0; s < sizeof SHAPES / sizeof SHAPES[0]; s++) {
            void *params[] = {&words, &counts};
            clear();
            run(KERNELS[k], SHAPES[s][0], SHAPES[s][1], params);
            pt_download(host, counts, 4);
            expect(KERNELS[k], SHAPES[s][1], host[0], (int32_t)(SHAPES[s][0] * SHAPES[s][1]));
        }
    }
}

static void test_lock_rounds(void **state)
{
    enum { BLOCKS = 3, THREADS = 96, ALL = BLOCKS * THREADS };
    int32_t rounds = 0;
    void *params[] = {&words, &counts, &outs};
    (void)state;
    clear();
    run("lock_rounds", BLOCKS, THREADS, params);
    pt_download(host, outs, ALL * 4);
    for (int i = 0; i < ALL; i++) {
        int32_t sum = 3 * i;
        for (int r = 0; r < 1 + i % 3; r++, rounds++)
            sum += r * i;
        expect("lock_rounds", (unsigned)i, host[i], sum);
    }
    pt_download(host, counts, 4);
    expect("lock_rounds", 0, host[0], rounds);
}

static void test_many_locks(void **state)
{
    enum { ALL = 4 * 160 };
    int32_t want[7] = {0};
    void *params[] = {&words, &counts};
    (void)state;
    clear();
    run("lock_many", 4, 160, params);
    for (int i = 0; i < ALL; i++) {
        want[i % 7]++;
        want[(i % 7 + 1 + i % 5) % 7]++;
    }
    pt_download(host, counts, sizeof want);
    for (unsigned i = 0; i < 7; i++)
        expect("lock_many", i, host[i], want[i]);
}

static void test_loads_between_loops(void **state)
{
    enum { ALL = 3 * 70 };
    void *params[] = {&words, &counts, &outs};
    (void)state;
    clear();
    for (int i = 0; i < ALL; i++)
        host[i] = i * 5 + 1;
    PT_CHECK(pt_cuda()->cuMemcpyHtoD_v2(outs + ALL * 4, host, ALL * 4));
    run("lock_then_wait", 3, 70, params);
    pt_download(host, outs, 3 * ALL * 4);
    for (int i = 0; i < ALL; i++) {
        expect("lock_then_wait", (unsigned)i, host[i], i * 5 + 1);
        expect("lock_then_wait, turns", (unsigned)i, host[2 * ALL + i], 1);
    }
}

static void test_warp_meets_behind_lock(void **state)
{
    enum { ALL = 2 * 128 };
    void *params[] = {&words, &counts, &outs};
    (void)state;
    clear();
    run("lock_then_warp", 2, 128, params);
    pt_download(host, outs, ALL * 4);
    for (int i = 0; i < ALL; i++)
        expect("lock_then_warp", (unsigned)i, host[i], (i ^ 5) * 3 + 1000 + 1);
}

static void test_leader_waits(void **state)
{
    static const unsigned THREADS[] = {64, 256, 1024};
    void *params[] = {&words, &counts, &outs};
    (void)state;
    for (size_t s = 0; s < sizeof THREADS / sizeof THREADS[0]; s++) {
        clear();
        run("leader_waits", 1, THREADS[s], params);
        pt_download(host, outs, THREADS[s] * 4);
        for (unsigned i = 0; i < THREADS[s] - 32; i++)
            expect("leader_waits", i, host[i], (int32_t)((i % 32 + i / 32) % 32 * 7 + 1));
    }
}

static void test_warps_of_a_block(void **state)
{
    static const unsigned THREADS[] = {32, 64, 100, 1024};
    void *params[] = {&outs};
    (void)state;
    for (size_t s = 0; s < sizeof THREADS / sizeof THREADS[0]; s++) {
        unsigned warps = (THREADS[s] + 31) / 32;
        clear();
        run("warps_chain", 3, THREADS[s], params);
        pt_download(host, outs, 3 * THREADS[s] * 4);
        for (unsigned i = 0; i < 3 * THREADS[s]; i++)
            expect("warps_chain", i, host[i], (int32_t)(warps - 1 - i % THREADS[s] / 32));
    }
}

static void test_threads_of_a_block(void **state)
{
    static const unsigned THREADS[] = {2, 32, 47, 128, 1024};
    void *params[] = {&words, &outs};
    (void)state;
    for (size_t s = 0; s < sizeof THREADS / sizeof THREADS[0]; s++) {
        unsigned n = THREADS[s];
        clear();
        run("threads_chain", 2, n, params);
        pt_download(host, outs, 2 * n * 4);
        for (unsigned i = 0; i < 2 * n; i++)
            expect("threads_chain", i, host[i], (int32_t)(n - 1 - i % n));
    }
}

static void test_ping_pong(void **state)
{
    int32_t rounds = 1000;
    void *params[] = {&rounds, &outs};
    (void)state;
    clear();
    run("ping_pong", 2, 160, params);
    pt_download(host, outs, 2 * 160 * 4);
    for (unsigned i = 0; i < 2 * 160; i++)
        expect("ping_pong", i, host[i], 2 * rounds);
}

/* Many more blocks than threads of the device, and all must be there. */
static void test_grid_barrier_by_hand(void **state)
{
    static const unsigned SHAPES[][2] = {{2, 32}, {16, 256}, {64, 64}, {300, 40}};
    int32_t rounds = 5;
    void *params[] = {&rounds, &words, &outs};
    (void)state;
    for (size_t s = 0; s < sizeof SHAPES / sizeof SHAPES[0]; s++) {
        unsigned n = SHAPES[s][0] * SHAPES[s][1];
        clear();
        run("grid_rounds", SHAPES[s][0], SHAPES[s][1], params);
        pt_download(host, outs, 2 * n * 4);
        for (unsigned i = 0; i < n; i++)
            expect("grid_rounds", i, host[n + i], rounds);
    }
}

static void test_blocks_backwards(void **state)
{
    void *params[] = {&words, &outs};
    (void)state;
    clear();
    run("blocks_backwards", 200, 96, params);
    pt_download(host, outs, 200 * 96 * 4);
    for (unsigned i = 0; i < 200 * 96; i++)
        expect("blocks_backwards", i, host[i], (int32_t)(199 - i / 96));
}

static void test_blocks_poll(void **state)
{
    void *params[] = {&words, &outs};
    (void)state;
    clear();
    run("blocks_poll", 12, 96, params);
    pt_download(host, outs, 12 * 96 * 4);
    for (unsigned i = 0; i < 12 * 96; i++)
        expect("blocks_poll", i, host[i], (int32_t)(11 - i / 96));
}

static void test_look_back(void **state)
{
    static const int32_t SIZES[] = {1, 127, 128, 5000, 60000};
    uint32_t seed = 5;
    (void)state;
    for (size_t s = 0; s < sizeof SIZES / sizeof SIZES[0]; s++) {
        int32_t n = SIZES[s], sum = 0;
        CUdeviceptr tickets = pt_upload(NULL, 4);
        void *params[] = {&n, &counts, &outs, &words, &tickets};
        clear();
        for (int32_t i = 0; i < n; i++)
            host[i] = (int32_t)(pt_random(&seed) % 100);
        PT_CHECK(pt_cuda()->cuMemcpyHtoD_v2(counts, host, (size_t)n * 4));
        run("look_back", (unsigned)(n + 127) / 128, 128, params);
        int32_t *got = malloc((size_t)n * 4);
        pt_download(got, outs, (size_t)n * 4);
        for (int32_t i = 0; i < n; i++) {
            sum += host[i];
            expect("look_back", (unsigned)i, got[i], sum);
        }
        free(got);
        pt_free(tickets);
    }
}

static void test_last_block(void **state)
{
    void *params[] = {&counts, &words, &outs};
    (void)state;
    clear();
    run("last_block", 100, 64, params);
    pt_download(host, outs, 4);
    expect("last_block", 0, host[0], 99 * 100 / 2 * 3 + 100);
}

static void test_ring(void **state)
{
    int32_t items = 50, sum = 0;
    void *params[] = {&items, &words, &outs};
    (void)state;
    clear();
    run("ring", 40, 32, params);
    pt_download(host, outs, 20 * 4);
    for (int32_t i = 0; i < items; i++)
        sum += i * i;
    for (unsigned i = 0; i < 20; i++)
        expect("ring", i, host[i], sum);
}

static void test_queue(void **state)
{
    int32_t n = 20000;
    void *params[] = {&n, &words, &outs};
    (void)state;
    clear();
    run("queue", 6, 200, params);
    pt_download(host, outs, (size_t)n * 4);
    for (int32_t i = 0; i < n; i++)
        expect("queue", (unsigned)i, host[i], i * 2 + 1);
}

static void test_fence_poll(void **state)
{
    void *params[] = {&words, &outs};
    (void)state;
    clear();
    run("fence_poll", 1, 64, params);
    pt_download(host, outs, 64 * 4);
    for (unsigned i = 0; i < 64; i++)
        expect("fence_poll", i, host[i], 1);
}

/* A kernel that fills the device waits for one in another stream, that is launched later. */
static void test_streams(void **state)
{
    const gb_cuda_table_t *cu = pt_cuda();
    CUstream one, two;
    int32_t value = 5;
    void *waits[] = {&words, &value, &outs}, *sets[] = {&words, &value};
    (void)state;
    clear();
    PT_CHECK(cu->cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    PT_CHECK(cu->cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    PT_CHECK(cu->cuLaunchKernel(pt_function(module, "wait_for"), 50, 1, 1, 64, 1, 1, 0, one, waits,
                                NULL));
    PT_CHECK(
        cu->cuLaunchKernel(pt_function(module, "set_flag"), 1, 1, 1, 1, 1, 1, 0, two, sets, NULL));
    PT_CHECK(cu->cuStreamSynchronize(one));
    PT_CHECK(cu->cuStreamSynchronize(two));
    pt_download(host, outs, 50 * 64 * 4);
    for (unsigned i = 0; i < 50 * 64; i++)
        expect("wait_for", i, host[i], value);
    PT_CHECK(cu->cuStreamDestroy_v2(one));
    PT_CHECK(cu->cuStreamDestroy_v2(two));
}

/* A kernel waits for a word in memory that the host writes. */
static void test_host(void **state)
{
    const gb_cuda_table_t *cu = pt_cuda();
    int32_t value = 7;
    void *flag;
    CUdeviceptr at;
    (void)state;
    clear();
    PT_CHECK(cu->cuMemHostAlloc(&flag, 64, CU_MEMHOSTALLOC_DEVICEMAP));
    PT_CHECK(cu->cuMemHostGetDevicePointer_v2(&at, flag, 0));
    *(volatile int32_t *)flag = 0;
    void *params[] = {&at, &value, &outs};
    PT_CHECK(cu->cuLaunchKernel(pt_function(module, "wait_for"), 20, 1, 1, 64, 1, 1, 0, NULL,
                                params, NULL));
    assert_int_equal(cu->cuStreamQuery(NULL), CUDA_ERROR_NOT_READY);
    __atomic_store_n((int32_t *)flag, value, __ATOMIC_RELEASE);
    PT_CHECK(cu->cuStreamSynchronize(NULL));
    pt_download(host, outs, 20 * 64 * 4);
    for (unsigned i = 0; i < 20 * 64; i++)
        expect("wait_for", i, host[i], value);
    PT_CHECK(cu->cuMemFreeHost(flag));
}

/* Nobody ever writes the flag: the context can be ended all the same. The last test: its memory and
 * module go with the context. */
static void test_endless(void **state)
{
    int32_t value = 1;
    void *params[] = {&words, &value, &outs};
    (void)state;
    clear();
    PT_CHECK(pt_cuda()->cuLaunchKernel(pt_function(module, "wait_for"), 100, 1, 1, 64, 1, 1, 0,
                                       NULL, params, NULL));
    pt_new_context();
    CUdeviceptr p = pt_upload(NULL, 4);
    pt_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_locks),
        cmocka_unit_test(test_lock_rounds),
        cmocka_unit_test(test_many_locks),
        cmocka_unit_test(test_loads_between_loops),
        cmocka_unit_test(test_warp_meets_behind_lock),
        cmocka_unit_test(test_leader_waits),
        cmocka_unit_test(test_warps_of_a_block),
        cmocka_unit_test(test_threads_of_a_block),
        cmocka_unit_test(test_ping_pong),
        cmocka_unit_test(test_grid_barrier_by_hand),
        cmocka_unit_test(test_blocks_backwards),
        cmocka_unit_test(test_blocks_poll),
        cmocka_unit_test(test_look_back),
        cmocka_unit_test(test_last_block),
        cmocka_unit_test(test_ring),
        cmocka_unit_test(test_queue),
        cmocka_unit_test(test_fence_poll),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_endless),
    };
    return cmocka_run_group_tests(tests, load, NULL);
}
