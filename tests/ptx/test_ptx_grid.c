/* Cooperative launches: all blocks of a grid are there at the same time, and meet at a barrier. The
 * kernel is written as the device library of cooperative groups has it: a workspace in %envreg1 and 2,
 * block 0 adds what turns the counter's top bit.
 *
 * PT_GROUPS names the PTX of groups.cu, which needs the toolkit's compiler: then its kernels run. */
#include "tests/ptx/pt_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char PROGRAM[] =
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry steps(.param .u32 rounds, .param .u64 values)\n{\n"
    ".reg .b32 %r<40>; .reg .b64 %d<20>; .reg .pred %p<8>;\n"
    "ld.param.u32 %r1, [rounds]; ld.param.u64 %d1, [values];\n"
    "mov.u32 %r2, %envreg2; cvt.u64.u32 %d2, %r2; mov.u32 %r3, %envreg1; cvt.u64.u32 %d3, %r3;\n"
    "bfi.b64 %d4, %d3, %d2, 32, 32; setp.ne.s64 %p1, %d4, 0; @%p1 bra Begin; trap;\n"
    "Begin: add.s64 %d4, %d4, 4;\n"
    "mov.u32 %r4, %ntid.x; mov.u32 %r5, %ctaid.x; mov.u32 %r6, %tid.x; mov.u32 %r7, %nctaid.x;\n"
    "mad.lo.s32 %r8, %r4, %r5, %r6; mul.lo.s32 %r9, %r4, %r7;\n" /* me, all */
    "add.s32 %r10, %r8, 37; rem.u32 %r10, %r10, %r9; mov.u32 %r11, 0;\n"
    "setp.eq.s32 %p2, %r5, 0; mov.u32 %r12, -2147483647; sub.s32 %r12, %r12, %r7;\n"
    "selp.b32 %r13, %r12, 1, %p2; setp.ne.s32 %p3, %r6, 0;\n"
    "Round: setp.ge.u32 %p4, %r11, %r1; @%p4 bra Done;\n"
    "and.b32 %r14, %r11, 1; mad.lo.s32 %r15, %r14, %r9, %r10; mul.wide.u32 %d5, %r15, 4;\n"
    "add.s64 %d5, %d1, %d5; ld.volatile.global.u32 %r16, [%d5]; add.s32 %r16, %r16, 1;\n"
    "xor.b32 %r14, %r14, 1; mad.lo.s32 %r15, %r14, %r9, %r8; mul.wide.u32 %d5, %r15, 4;\n"
    "add.s64 %d5, %d1, %d5; st.global.u32 [%d5], %r16;\n"
    "barrier.sync 0; @%p3 bra Met;\n"
    "fence.acq_rel.gpu; atom.add.release.gpu.u32 %r17, [%d4], %r13;\n"
    "Spin: ld.acquire.gpu.u32 %r18, [%d4]; xor.b32 %r18, %r18, %r17; setp.gt.s32 %p5, %r18, -1;\n"
    "@%p5 bra Spin;\n"
    "Met: barrier.sync 0; add.s32 %r11, %r11, 1; bra.uni Round;\nDone: ret;\n}\n"
    ".visible .entry big(.param .u64 out)\n{\n"
    ".shared .align 4 .b8 room[32768]; .reg .b32 %r<4>; .reg .b64 %d<4>;\n"
    "mov.u32 %r1, 1; st.shared.u32 [room], %r1; ld.param.u64 %d1, [out];\n"
    "st.global.u32 [%d1], %r1; ret;\n}\n";

enum { ROUNDS = 6 };

static void check_steps(CUdeviceptr values, unsigned n, const char *what)
{
    uint32_t *got = malloc(n * 4);
    pt_download(got, values + (ROUNDS & 1 ? (CUdeviceptr)n * 4 : 0), n * 4);
    for (unsigned i = 0; i < n; i++)
        if (got[i] != ROUNDS)
            fail_msg("%s, %u threads: [%u] is %u, must be %u", what, n, i, got[i], ROUNDS);
    free(got);
}

static CUresult launch(CUfunction f, unsigned blocks, unsigned threads, void **params)
{
    CUresult result =
        pt_cuda()->cuLaunchCooperativeKernel(f, blocks, 1, 1, threads, 1, 1, 0, NULL, params);
    return result ? result : pt_cuda()->cuStreamSynchronize(NULL);
}

/* How many blocks of the kernel the device takes in a cooperative launch. */
static unsigned most_blocks(CUfunction f, unsigned threads)
{
    int cores, blocks;
    PT_CHECK(pt_cuda()->cuDeviceGetAttribute(&cores, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    PT_CHECK(pt_cuda()->cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, f, (int)threads, 0));
    return (unsigned)(cores * blocks);
}

static void test_grids(void **state)
{
    static const unsigned THREADS[] = {1, 32, 50, 256, 1024};
    uint32_t rounds = ROUNDS;
    CUmodule module = pt_load(PROGRAM);
    CUfunction f = pt_function(module, "steps");
    (void)state;
    for (size_t t = 0; t < sizeof THREADS / sizeof THREADS[0]; t++) {
        unsigned most = most_blocks(f, THREADS[t]);
        for (unsigned blocks = 1; blocks <= most; blocks = blocks * 2 + 1) {
            CUdeviceptr values = pt_upload(NULL, (size_t)blocks * THREADS[t] * 8);
            void *params[] = {&rounds, &values};
            PT_CHECK(launch(f, blocks, THREADS[t], params));
            check_steps(values, blocks * THREADS[t], "grid");
            pt_free(values);
        }
    }
    pt_unload(module);
}

static void test_largest(void **state)
{
    uint32_t rounds = ROUNDS;
    CUmodule module = pt_load(PROGRAM);
    CUfunction f = pt_function(module, "steps"), big = pt_function(module, "big");
    unsigned most = most_blocks(f, 64);
    CUdeviceptr values = pt_upload(NULL, ((size_t)most + 1) * 64 * 8);
    void *params[] = {&rounds, &values}, *out[] = {&values};
    (void)state;
    PT_CHECK(launch(f, most, 64, params));
    check_steps(values, most * 64, "largest");
    assert_int_equal(launch(f, most + 1, 64, params), CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    PT_CHECK(launch(big, most_blocks(big, 64), 64, out));
    assert_int_equal(launch(big, most_blocks(big, 64) + 1, 64, out),
                     CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE);
    pt_free(values);
    pt_unload(module);
}

/* Two grids at the same time, each with a barrier of its own; the second by a launch attribute. */
static void test_two_grids(void **state)
{
    const gb_cuda_table_t *cu = pt_cuda();
    uint32_t rounds = ROUNDS;
    unsigned blocks = 20;
    CUmodule module = pt_load(PROGRAM);
    CUfunction f = pt_function(module, "steps");
    CUdeviceptr a = pt_upload(NULL, blocks * 96 * 8), b = pt_upload(NULL, blocks * 96 * 8);
    void *first[] = {&rounds, &a}, *second[] = {&rounds, &b};
    CUstream one, two;
    (void)state;
    PT_CHECK(cu->cuStreamCreate(&one, CU_STREAM_NON_BLOCKING));
    PT_CHECK(cu->cuStreamCreate(&two, CU_STREAM_NON_BLOCKING));
    CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE};
    attribute.value.cooperative = 1;
    CUlaunchConfig config = {blocks, 1, 1, 96, 1, 1, 0, two, &attribute, 1};
    PT_CHECK(cu->cuLaunchCooperativeKernel(f, blocks, 1, 1, 96, 1, 1, 0, one, first));
    PT_CHECK(cu->cuLaunchKernelEx(&config, f, second, NULL));
    PT_CHECK(cu->cuStreamSynchronize(two));
    PT_CHECK(cu->cuStreamSynchronize(one));
    check_steps(a, blocks * 96, "first of two");
    check_steps(b, blocks * 96, "second of two");
    PT_CHECK(cu->cuStreamDestroy_v2(one));
    PT_CHECK(cu->cuStreamDestroy_v2(two));
    pt_free(a);
    pt_free(b);
    pt_unload(module);
}

/* ---- groups.cu ---- */

static CUmodule groups;

static int load_groups(void **state)
{
    const char *path = getenv("PT_GROUPS");
    (void)state;
    if (path) {
        char *text = calloc(1, 4 << 20);
        FILE *f = fopen(path, "rb");
        if (!f || !text || fread(text, 1, (4 << 20) - 1, f) == 0)
            fail_msg("%s cannot be read", path);
        fclose(f);
        groups = pt_load(text);
        free(text);
    }
    return 0;
}

static void needs_groups(void)
{
    if (!groups)
        skip();
}

static void run(const char *kernel, unsigned blocks, unsigned threads, void **params)
{
    pt_launch(pt_function(groups, kernel), (pt_dim_t){blocks, 1, 1}, (pt_dim_t){threads, 1, 1}, 0,
              params);
}

static void expect(const char *what, unsigned at, int32_t got, int32_t want)
{
    if (got != want)
        fail_msg("%s: [%u] is %d, must be %d", what, at, got, want);
}

static void test_tiles(void **state)
{
    enum { ALL = 2 * 96 };
    int32_t out[ALL * 4];
    (void)state;
    needs_groups();
    CUdeviceptr d = pt_upload(NULL, sizeof out);
    void *params[] = {&d};
    run("tiles", 2, 96, params);
    pt_download(out, d, sizeof out);
    for (int i = 0; i < ALL; i++) {
        int me = i % 96, base = me / 8 * 8, before = 0, label = 0;
        for (int k = base; k < me; k++)
            before += k;
        for (int k = me / 32 * 32; k < me / 32 * 32 + 32; k++)
            label += k % 3 == me % 3;
        expect("tile sum", (unsigned)i, out[i * 4], base * 8 + 28);
        expect("tile scan", (unsigned)i, out[i * 4 + 1], before);
        expect("coalesced", (unsigned)i, out[i * 4 + 2],
               me & 1 ? 16000 + me % 32 / 2 * 10 + 1 : -1);
        expect("labelled", (unsigned)i, out[i * 4 + 3], label);
    }
    pt_free(d);
}

static void test_group_steps(void **state)
{
    static const char *const KERNELS[] = {"grid_steps", "split_arrive"};
    uint32_t rounds = ROUNDS;
    (void)state;
    needs_groups();
    for (unsigned k = 0; k < 2; k++) {
        CUdeviceptr values = pt_upload(NULL, 24 * 100 * 8);
        void *params[] = {&rounds, &values};
        PT_CHECK(launch(pt_function(groups, KERNELS[k]), 24, 100, params));
        check_steps(values, 24 * 100, KERNELS[k]);
        pt_free(values);
    }
}

static void test_semaphores(void **state)
{
    int32_t count;
    (void)state;
    needs_groups();
    CUdeviceptr d = pt_upload(NULL, 4);
    void *params[] = {&d};
    run("semaphores", 6, 70, params);
    pt_download(&count, d, 4);
    expect("semaphores", 0, count, 6 * 70);
    pt_free(d);
}

static void test_block_barrier(void **state)
{
    int32_t rounds = 9, out[2 * 200];
    (void)state;
    needs_groups();
    CUdeviceptr d = pt_upload(NULL, sizeof out);
    void *params[] = {&rounds, &d};
    run("block_barrier", 2, 200, params);
    pt_download(out, d, sizeof out);
    for (int i = 0; i < 400; i++)
        expect("block_barrier", (unsigned)i, out[i], (i % 200 + rounds) % 200 + rounds);
    pt_free(d);
}

static void test_latch(void **state)
{
    int32_t out[3 * 100];
    (void)state;
    needs_groups();
    CUdeviceptr d = pt_upload(NULL, sizeof out);
    void *params[] = {&d};
    run("latch_and_wait", 3, 200, params);
    pt_download(out, d, sizeof out);
    for (int i = 0; i < 300; i++)
        expect("latch", (unsigned)i, out[i], (99 - i % 100) * (99 - i % 100));
    pt_free(d);
}

static void test_atomics(void **state)
{
    enum { ALL = 40 * 64 };
    int32_t out[2 + ALL];
    double sum;
    (void)state;
    needs_groups();
    CUdeviceptr d = pt_upload(NULL, sizeof out), s = pt_upload(NULL, sizeof sum);
    void *params[] = {&d, &s};
    run("atomics", 40, 64, params);
    pt_download(out, d, sizeof out);
    pt_download(&sum, s, sizeof sum);
    expect("atomics", 0, out[0], 2 * ALL);
    for (unsigned i = 0; i <= ALL; i++)
        expect("atomics", i, out[1 + i], 1);
    assert_true(sum == ALL * 0.5);
    pt_free(d);
    pt_free(s);
}

static void test_block_algorithms(void **state)
{
    enum { N = 4 * 512 };
    static int32_t in[N], scan[N], sums[16];
    uint32_t seed = 11;
    (void)state;
    needs_groups();
    for (int i = 0; i < N; i++)
        in[i] = (int32_t)(pt_random(&seed) % 2000) - 1000;
    CUdeviceptr d_in = pt_upload(in, sizeof in), d_scan = pt_upload(NULL, sizeof in),
                d_sums = pt_upload(NULL, sizeof sums);
    void *params[] = {&d_in, &d_scan, &d_sums};
    run("block_algorithms", 4, 128, params);
    pt_download(scan, d_scan, sizeof scan);
    pt_download(sums, d_sums, sizeof sums);
    for (int b = 0; b < 4; b++) {
        int32_t sum = 0, warp = 0;
        for (int i = 0; i < 512; i++) {
            sum += in[b * 512 + i];
            expect("block scan", (unsigned)(b * 512 + i), scan[b * 512 + i], sum);
            warp += i % 4 == 0 ? in[b * 512 + i] : 0;
            if (i % 128 == 127) {
                expect("warp sum", (unsigned)(b * 4 + i / 128), sums[b * 4 + i / 128], warp);
                warp = 0;
            }
        }
    }
    pt_free(d_in);
    pt_free(d_scan);
    pt_free(d_sums);
}

/* An ordinary launch has no workspace: the grid's barrier traps. The last test: the context is lost. */
static void test_ordinary_launch(void **state)
{
    uint32_t rounds = 1;
    CUmodule module = pt_load(PROGRAM);
    CUdeviceptr values = pt_upload(NULL, 2 * 64 * 8);
    void *params[] = {&rounds, &values};
    (void)state;
    assert_int_equal(
        pt_run(pt_function(module, "steps"), (pt_dim_t){2, 1, 1}, (pt_dim_t){64, 1, 1}, 0, params),
        CUDA_ERROR_LAUNCH_FAILED);
    pt_new_context();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grids),           cmocka_unit_test(test_largest),
        cmocka_unit_test(test_two_grids),       cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_group_steps),     cmocka_unit_test(test_semaphores),
        cmocka_unit_test(test_block_barrier),   cmocka_unit_test(test_latch),
        cmocka_unit_test(test_atomics),         cmocka_unit_test(test_block_algorithms),
        cmocka_unit_test(test_ordinary_launch),
    };
    return cmocka_run_group_tests(tests, load_groups, NULL);
}
