/* Loops that stride over the grid, and loops with barriers: what they compute, over grids and ends that fit
 * no vector, where they must fault, and that they fetch ahead while loops that come back to what they read,
 * or go on by short steps, do not. */
#include "tests/ptx/kernel_help.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

/* Which elements a thread sums. */
typedef enum {
    EACH,  /* its own of every grid */
    PAIRS, /* two neighbours of every grid of pairs */
    ROWS,  /* its own of every block */
    WHOLE, /* its own of every grid that is there as a whole */
    SHORT  /* every 32nd from its own on, while the whole grid has such */
} way_t;

/* out[thread] = the sum of x[i] over i = thread, thread + step, ... below n, as each kind of loop has it */
typedef struct {
    const char *name, *body;
    way_t way;
    bool fetches; /* there is something to fetch ahead */
} kind_t;

static const kind_t kinds[] = {
    {"index",
     "Loop: setp.ge.s32 %p1, %r5, %r2; @%p1 bra End;\n"
     "mul.wide.s32 %d4, %r5, 4; add.s64 %d5, %d1, %d4; ld.global.u32 %r8, [%d5];\n"
     "add.s32 %r9, %r9, %r8; add.s32 %r5, %r5, %r7; bra Loop;\n",
     EACH, true},
    {"pointer", /* as compilers reduce it */
     "mul.wide.s32 %d4, %r5, 4; add.s64 %d5, %d1, %d4; mul.wide.s32 %d6, %r7, 4;\n"
     "setp.ge.s32 %p1, %r5, %r2; @%p1 bra End;\n"
     "Loop: ld.global.u32 %r8, [%d5]; add.s32 %r9, %r9, %r8; add.s64 %d5, %d5, %d6;\n"
     "add.s32 %r5, %r5, %r7; setp.lt.s32 %p1, %r5, %r2; @%p1 bra Loop;\n",
     EACH, true},
    {"shift", /* the block's length is a power of two, and known */
     "shl.b32 %r10, %r3, 7; or.b32 %r5, %r10, %r1; mov.u32 %r11, %nctaid.x; shl.b32 %r7, %r11, 7;\n"
     "Loop: setp.ge.s32 %p1, %r5, %r2; @%p1 bra End;\n"
     "mul.wide.s32 %d4, %r5, 4; add.s64 %d5, %d1, %d4; ld.global.u32 %r8, [%d5];\n"
     "add.s32 %r9, %r9, %r8; add.s32 %r5, %r5, %r7; bra Loop;\n",
     EACH, true},
    {"down", /* from the last of them to the first */
     "sub.s32 %r10, %r2, 1; sub.s32 %r10, %r10, %r5; div.s32 %r10, %r10, %r7;\n"
     "setp.ge.s32 %p1, %r5, %r2; @%p1 bra End; mad.lo.s32 %r10, %r10, %r7, %r5;\n"
     "Loop: mul.wide.s32 %d4, %r10, 4; add.s64 %d5, %d1, %d4; ld.global.u32 %r8, [%d5];\n"
     "add.s32 %r9, %r9, %r8; sub.s32 %r10, %r10, %r7; setp.ge.s32 %p1, %r10, 0; @%p1 bra Loop;\n",
     EACH, false},
    {"pairs", /* two neighbours a thread, summed; the others are skipped */
     "Loop: shl.b32 %r10, %r5, 1; add.s32 %r11, %r10, 1; setp.ge.s32 %p1, %r11, %r2; @%p1 bra "
     "End;\n"
     "mul.wide.s32 %d4, %r10, 4; add.s64 %d5, %d1, %d4; ld.global.v2.u32 {%r8, %r12}, [%d5];\n"
     "add.s32 %r9, %r9, %r8; add.s32 %r9, %r9, %r12; add.s32 %r5, %r5, %r7; bra Loop;\n",
     PAIRS, true},
    {"rows", /* every CTA reads the same rows: not grid-stride, and in the caches */
     "mov.u32 %r5, %r1; mov.u32 %r7, %ntid.x;\n"
     "Loop: setp.ge.s32 %p1, %r5, %r2; @%p1 bra End;\n"
     "mul.wide.s32 %d4, %r5, 4; add.s64 %d5, %d1, %d4; ld.global.u32 %r8, [%d5];\n"
     "add.s32 %r9, %r9, %r8; add.s32 %r5, %r5, %r7; bra Loop;\n",
     ROWS, false},
    {"barriers", /* the next grid's part is fetched while this one is summed */
     "mov.u32 %r10, %r7; shl.b32 %r13, %r1, 2; mov.u32 %r14, s; add.s32 %r13, %r13, %r14;\n"
     "Loop: setp.gt.s32 %p1, %r10, %r2; @%p1 bra End;\n"
     "mul.wide.s32 %d4, %r5, 4; add.s64 %d5, %d1, %d4; ld.global.u32 %r8, [%d5];\n"
     "st.shared.u32 [%r13], %r8; bar.sync 0; ld.shared.u32 %r8, [%r13]; bar.sync 0;\n"
     "add.s32 %r9, %r9, %r8; add.s32 %r5, %r5, %r7; add.s32 %r10, %r10, %r7; bra Loop;\n",
     WHOLE, true},
    {"short", /* the processor fetches ahead by itself */
     "mov.u32 %r10, %r7; shl.b32 %r13, %r1, 2; mov.u32 %r14, s; add.s32 %r13, %r13, %r14;\n"
     "Loop: setp.gt.s32 %p1, %r10, %r2; @%p1 bra End;\n"
     "mul.wide.s32 %d4, %r5, 4; add.s64 %d5, %d1, %d4; ld.global.u32 %r8, [%d5];\n"
     "st.shared.u32 [%r13], %r8; bar.sync 0; ld.shared.u32 %r8, [%r13]; bar.sync 0;\n"
     "add.s32 %r9, %r9, %r8; add.s32 %r5, %r5, 32; add.s32 %r10, %r10, 32; bra Loop;\n",
     SHORT, false},
};

static CUmodule load(const kind_t *k)
{
    char text[4096];
    snprintf(
        text, sizeof text,
        HEAD
        ".visible .entry k(.param .u64 x, .param .u64 out, .param .u32 n)\n{\n"
        ".shared .align 4 .b8 s[4096]; .reg .b32 %%r<20>; .reg .b64 %%d<12>; .reg .pred %%p<4>;\n"
        "ld.param.u64 %%d1, [x]; ld.param.u64 %%d2, [out]; ld.param.u32 %%r2, [n];\n"
        "mov.u32 %%r1, %%tid.x; mov.u32 %%r3, %%ctaid.x; mov.u32 %%r4, %%ntid.x;\n"
        "mad.lo.s32 %%r5, %%r3, %%r4, %%r1; mov.u32 %%r6, %%nctaid.x;\n"
        "mul.lo.s32 %%r7, %%r6, %%r4; mov.u32 %%r9, 0; mul.wide.s32 %%d8, %%r5, 4;\n"
        "add.s64 %%d8, %%d2, %%d8;\n%s"
        "End: st.global.u32 [%%d8], %%r9; ret;\n}\n",
        k->body);
    return pt_load(text);
}

static uint32_t expected(const kind_t *k, const uint32_t *x, uint32_t n, unsigned block,
                         unsigned grid, unsigned thread)
{
    uint32_t sum = 0, all = block * grid;
    for (uint32_t i = k->way == ROWS ? thread % block : thread;; i += k->way == ROWS    ? block
                                                                      : k->way == SHORT ? 32
                                                                                        : all) {
        bool there = k->way == PAIRS                      ? 2 * i + 1 < n
                     : k->way == WHOLE || k->way == SHORT ? i - thread + all <= n
                                                          : i < n;
        if (!there)
            return sum;
        sum += k->way == PAIRS ? x[2 * i] + x[2 * i + 1] : x[i];
    }
}

static void check(const kind_t *k, CUfunction f, uint32_t n, unsigned block, unsigned grid)
{
    kt_array_t x = kt_ints(n, n + block, 0, 1 << 30), out = kt_zeros((size_t)block * grid);
    int32_t *want = calloc((size_t)block * grid, 4);
    for (unsigned t = 0; t < block * grid; t++)
        want[t] = (int32_t)expected(k, x.u, n, block, grid, t);
    void *params[] = {&x.device, &out.device, &n};
    pt_launch(f, kt_dim(grid, 1, 1), kt_dim(block, 1, 1), 0, params);
    kt_fetch(&out);
    kt_expect_ints(k->name, &out, want);
    free(want);
    kt_free(&x);
    kt_free(&out);
}

static void test_sums(void **state)
{
    static const unsigned blocks[] = {128, 32, 96, 1000, 7}, grids[] = {1, 3, 40};
    static const uint32_t sizes[] = {1, 127, 4096, 50001};
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        CUmodule module = load(&kinds[k]);
        unsigned shapes = strcmp(kinds[k].name, "shift") == 0 ? 1 : 5;
        for (unsigned c = 0; c < shapes * 3 * 4; c++)
            check(&kinds[k], pt_function(module, "k"), sizes[c % 4], blocks[c / 12],
                  grids[c / 4 % 3]);
        pt_unload(module);
    }
}

/* The array ends where its memory does; fetching ahead must not reach behind it, reading must fault. */
static void test_end_of_memory(void **state)
{
    enum { BYTES = 1 << 20 };
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        CUmodule module = load(&kinds[k]);
        CUdeviceptr x = pt_upload(NULL, BYTES), out = pt_upload(NULL, 128 * 4 * 4);
        uint32_t n = BYTES / 4;
        void *params[] = {&x, &out, &n};
        pt_launch(pt_function(module, "k"), kt_dim(4, 1, 1), kt_dim(128, 1, 1), 0, params);
        n *= 64; /* behind all that is allocated near by */
        assert_int_equal(
            pt_run(pt_function(module, "k"), kt_dim(4, 1, 1), kt_dim(128, 1, 1), 0, params),
            CUDA_ERROR_ILLEGAL_ADDRESS);
        pt_new_context();
    }
}

static char *listing_of(const kind_t *k)
{
    char path[] = "/tmp/test_ptx_ahead_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    setenv("GABLE_JIT_ASM", path, 1);
    CUmodule module = load(k);
    check(k, pt_function(module, "k"), 1000, 128, 2);
    pt_unload(module);
    unsetenv("GABLE_JIT_ASM");
    off_t size = lseek(fd, 0, SEEK_END);
    char *text = calloc((size_t)size + 1, 1);
    assert_true(size > 0 && pread(fd, text, (size_t)size, 0) == size);
    close(fd);
    unlink(path);
    return text;
}

static void test_what_is_fetched(void **state)
{
    const char *width = getenv("GABLE_CPU_WIDTH"), *driver = getenv("PT_DRIVER");
    (void)state;
    if ((width != NULL && strcmp(width, "1") == 0) || driver != NULL)
        skip(); /* thread by thread, or by another device: nothing is fetched ahead */
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        char *text = listing_of(&kinds[k]);
        bool fetches = strstr(text, "prefetch") != NULL;
        free(text);
        if (fetches != kinds[k].fetches)
            fail_msg("%s: must %s", kinds[k].name, kinds[k].fetches ? "fetch ahead" : "not");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_fetched),
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_end_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
