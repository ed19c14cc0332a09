/* Counters in shared memory that small numbers index: what is counted, in every way to get from the number
 * to the address; that those which are sure to be right go the short way, and that those which are not
 * are still checked. */
#include "tests/ptx/pt_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

enum { BLOCK = 128, ROUNDS = 5, THREADS = BLOCK, COUNT = BLOCK * ROUNDS, CELLS = 2048 };

/* Counts in[i], of 32 bits, in cell number cell(in[i], i) of s, and keeps what it found there. */
typedef struct {
    const char *name, *code; /* %r8: the number; %d9 becomes the address */
    uint32_t (*cell)(uint32_t number);
    bool narrow; /* goes the short way */
} way_t;

static uint32_t low_byte(uint32_t v)
{
    return v & 255;
}

static uint32_t high_byte(uint32_t v)
{
    return v >> 24;
}

static uint32_t half(uint32_t v)
{
    return v & 2047;
}

static uint32_t behind(uint32_t v)
{
    return (v & 255) + 37;
}

static uint32_t two(uint32_t v)
{
    return 2 * (v & 255) + 1;
}

static uint32_t low_five(uint32_t v)
{
    return v & 31;
}

static uint32_t cut(uint32_t v)
{
    return (v & 511) & 255;
}

static uint32_t wraps(uint32_t v)
{
    return (v & 255) % 16;
}

static const way_t ways[] = {
    {"and", "and.b32 %r10, %r8, 255; mul.wide.u32 %d5, %r10, 4; add.s64 %d9, %d8, %d5;", low_byte,
     true},
    {"shift",
     "shr.u32 %r10, %r8, 24; shl.b32 %r10, %r10, 2; cvt.u64.u32 %d5, %r10;"
     "add.s64 %d9, %d8, %d5;",
     high_byte, false}, /* the register is written twice */
    {"shift once",
     "shr.u32 %r10, %r8, 24; shl.b32 %r11, %r10, 2; cvt.u64.u32 %d5, %r11;"
     "add.s64 %d9, %d8, %d5;",
     high_byte, true},
    {"half", "and.b32 %r10, %r8, 2047; mad.wide.u32 %d9, %r10, 4, %d8;", half, true},
    {"short",
     "cvt.u16.u32 %h1, %r8; and.b16 %h2, %h1, 255; mul.wide.u16 %r10, %h2, 4;"
     "cvt.u64.u32 %d5, %r10; add.s64 %d9, %d5, %d8;",
     low_byte, true},
    {"behind",
     "and.b32 %r10, %r8, 255; add.s32 %r11, %r10, 37; mul.wide.u32 %d5, %r11, 4;"
     "add.s64 %d9, %d8, %d5;",
     behind, true},
    {"two",
     "and.b32 %r10, %r8, 255; mul.wide.u32 %d5, %r10, 8; add.s64 %d6, %d8, 4;"
     "add.s64 %d9, %d6, %d5;",
     two, true},
    {"changed", /* the number is another one when it is used */
     "and.b32 %r10, %r8, 255; mul.wide.u32 %d5, %r10, 4; add.s64 %d9, %d8, %d5;"
     "and.b32 %r10, %r8, 15;",
     low_byte, false},
    {"cut",
     "and.b32 %r10, %r8, 511; cvt.u16.u32 %h1, %r10; cvt.u32.u8 %r11, %h1;"
     "mul.wide.u32 %d5, %r11, 4; add.s64 %d9, %d8, %d5;",
     cut, true}, /* by what comes out of the cut, not by what goes in */
    {"wraps",
     "and.b32 %r10, %r8, 255; shl.b32 %r11, %r10, 30; shr.u32 %r12, %r11, 28;"
     "and.b32 %r13, %r10, 3; add.s32 %r14, %r12, %r13; sub.s32 %r14, %r14, %r12;"
     "and.b32 %r14, %r10, 15; mul.wide.u32 %d5, %r14, 4; add.s64 %d9, %d8, %d5;",
     wraps, false},
    {"free", /* only the program knows that it is small */
     "rem.u32 %r10, %r8, %r6; mul.wide.u32 %d5, %r10, 4; add.s64 %d9, %d8, %d5;", low_five, false},
};

static CUmodule load(const way_t *w, const char *operation)
{
    char text[4096];
    snprintf(text, sizeof text,
             HEAD ".visible .entry k(.param .u64 in, .param .u64 cells, .param .u64 old,\n"
                  ".param .u32 n, .param .u32 limit)\n{\n"
                  ".shared .align 4 .b8 before[64]; .shared .align 4 .b8 s[%u];\n"
                  ".reg .b32 %%r<20>; .reg .b64 %%d<20>; .reg .b16 %%h<8>; .reg .pred %%p<4>;\n"
                  "ld.param.u64 %%d1, [in]; ld.param.u64 %%d2, [cells]; ld.param.u64 %%d3, [old];\n"
                  "ld.param.u32 %%r2, [n]; ld.param.u32 %%r6, [limit]; mov.u32 %%r1, %%tid.x;\n"
                  "mov.u64 %%d8, s; mul.wide.u32 %%d10, %%r1, 4; add.s64 %%d11, %%d8, %%d10;\n"
                  "mov.u32 %%r3, %%r1; mov.u32 %%r15, 0;\n"
                  "Clear: st.shared.u32 [%%d11], %%r15; add.s64 %%d11, %%d11, %u;\n"
                  "add.s32 %%r3, %%r3, %u; setp.lt.u32 %%p1, %%r3, %u; @%%p1 bra Clear;\n"
                  "bar.sync 0; mov.u32 %%r3, %%r1;\n"
                  "Loop: setp.ge.s32 %%p1, %%r3, %%r2; @%%p1 bra Done;\n"
                  "mul.wide.s32 %%d12, %%r3, 4; add.s64 %%d13, %%d1, %%d12;\n"
                  "add.s64 %%d14, %%d3, %%d12; ld.global.u32 %%r8, [%%d13];\n%s\n%s\n"
                  "add.s32 %%r3, %%r3, %u; bra Loop;\n"
                  "Done: bar.sync 0; mov.u32 %%r3, %%r1; add.s64 %%d11, %%d8, %%d10;\n"
                  "add.s64 %%d15, %%d2, %%d10;\n"
                  "Out: ld.shared.u32 %%r9, [%%d11]; st.global.u32 [%%d15], %%r9;\n"
                  "add.s64 %%d11, %%d11, %u; add.s64 %%d15, %%d15, %u; add.s32 %%r3, %%r3, %u;\n"
                  "setp.lt.u32 %%p1, %%r3, %u; @%%p1 bra Out; ret;\n}\n",
             CELLS * 4, BLOCK * 4, BLOCK, CELLS, w->code, operation, BLOCK, BLOCK * 4, BLOCK * 4,
             BLOCK, CELLS);
    return pt_load(text);
}

static const char *const COUNT_ONLY = "red.shared.add.u32 [%d9], 1;";
static const char *const COUNT_OLD =
    "atom.shared.add.u32 %r9, [%d9], 1; st.global.u32 [%d14], %r9;";
static const char *const LARGEST = "red.shared.max.u32 [%d9], %r8;";
static const char *const NEXT = "red.shared.add.u32 [%d9+4], 1;";

typedef struct {
    uint32_t in[COUNT], old[COUNT], cells[CELLS];
} data_t;

static CUresult run(const way_t *w, const char *operation, data_t *d, uint32_t n)
{
    CUmodule module = load(w, operation);
    CUdeviceptr in = pt_upload(d->in, sizeof d->in), old = pt_upload(d->old, sizeof d->old);
    CUdeviceptr cells = pt_upload(NULL, sizeof d->cells);
    uint32_t limit = 32;
    void *params[] = {&in, &cells, &old, &n, &limit};
    CUresult result =
        pt_run(pt_function(module, "k"), (pt_dim_t){1, 1, 1}, (pt_dim_t){BLOCK, 1, 1}, 0, params);
    if (result == CUDA_SUCCESS) {
        pt_download(d->cells, cells, sizeof d->cells);
        pt_download(d->old, old, sizeof d->old);
        pt_free(in);
        pt_free(old);
        pt_free(cells);
        pt_unload(module);
    }
    return result;
}

static data_t *numbers(uint32_t seed, bool alike)
{
    data_t *d = calloc(1, sizeof *d);
    uint32_t state = seed;
    for (unsigned i = 0; i < COUNT; i++)
        d->in[i] = alike ? 0x07070707u + (i / 3 % 2) : pt_random(&state);
    return d;
}

/* All in one cell or two, and spread; ends in the middle of a strip or not. */
static void test_counts(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof ways / sizeof ways[0] * 4; k++) {
        const way_t *w = &ways[k / 4];
        data_t *d = numbers((uint32_t)k, k % 2 != 0);
        uint32_t n = k / 2 % 2 != 0 ? COUNT - 45 : COUNT, want[CELLS] = {0};
        for (uint32_t i = 0; i < n; i++)
            want[w->cell(d->in[i])]++;
        assert_int_equal(run(w, COUNT_ONLY, d, n), CUDA_SUCCESS);
        for (unsigned c = 0; c < CELLS; c++) {
            if (d->cells[c] != want[c])
                fail_msg("%s: cell %u: %u, must be %u", w->name, c, d->cells[c], want[c]);
        }
        free(d);
    }
}

/* Those who count in one cell find 0, 1, 2... there, in whatever order. */
static void test_what_was_there(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof ways / sizeof ways[0] * 2; k++) {
        const way_t *w = &ways[k / 2];
        data_t *d = numbers((uint32_t)k, k % 2 != 0);
        static bool found[CELLS][COUNT];
        memset(found, 0, sizeof found);
        assert_int_equal(run(w, COUNT_OLD, d, COUNT), CUDA_SUCCESS);
        for (unsigned i = 0; i < COUNT; i++) {
            uint32_t cell = w->cell(d->in[i]);
            if (d->old[i] >= d->cells[cell] || found[cell][d->old[i]])
                fail_msg("%s: thread %u found %u", w->name, i % BLOCK, d->old[i]);
            found[cell][d->old[i]] = true;
        }
        free(d);
    }
}

static void test_largest(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
        data_t *d = numbers((uint32_t)k, false);
        uint32_t want[CELLS] = {0};
        for (uint32_t i = 0; i < COUNT; i++) {
            uint32_t *cell = &want[ways[k].cell(d->in[i])];
            *cell = d->in[i] > *cell ? d->in[i] : *cell;
        }
        assert_int_equal(run(&ways[k], LARGEST, d, COUNT), CUDA_SUCCESS);
        assert_memory_equal(d->cells, want, sizeof want);
        free(d);
    }
}

/* One cell behind the last one: the largest number must fault, also where the others are right. */
static void test_faults(void **state)
{
    static const way_t last = {"last", "and.b32 %r10, %r8, 2047; mad.wide.u32 %d9, %r10, 4, %d8;",
                               half, false};
    static const way_t odd = {
        "odd", "and.b32 %r10, %r8, 255; cvt.u64.u32 %d5, %r10; add.s64 %d9, %d8, %d5;", half,
        false};
    (void)state;
    data_t *d = numbers(1, true);
    assert_int_equal(run(&last, NEXT, d, COUNT), CUDA_SUCCESS);
    assert_int_equal(d->cells[0x708] + d->cells[0x709], COUNT);
    d->in[COUNT / 2] = 2047;
    assert_int_equal(run(&last, NEXT, d, COUNT), CUDA_ERROR_ILLEGAL_ADDRESS);
    pt_new_context();
    d->in[COUNT / 2] = 0x0101;
    assert_int_equal(run(&odd, COUNT_ONLY, d, COUNT), CUDA_ERROR_MISALIGNED_ADDRESS);
    pt_new_context();
    free(d);
}

/* Counts with a scaled index in the address. */
static unsigned scaled_counts(const char *text)
{
    unsigned count = 0;
    for (const char *p = text; (p = strstr(p, "incl\t")) != NULL; p += 4) {
        const char *end = strchr(p, '\n');
        bool scaled = end != NULL && end - p > 3 &&
                      (memcmp(end - 3, ",4)", 3) == 0 || memcmp(end - 3, ",8)", 3) == 0);
        count += scaled;
    }
    return count;
}

/* The numbers are the index of an instruction's address, and not made to addresses before. */
static void test_short_way(void **state)
{
    const char *width = getenv("GABLE_CPU_WIDTH"), *driver = getenv("PT_DRIVER");
    (void)state;
    if ((width != NULL && strcmp(width, "1") == 0) || driver != NULL)
        skip();
    for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
        char path[] = "/tmp/test_ptx_narrow_XXXXXX";
        int fd = mkstemp(path);
        assert_true(fd >= 0);
        setenv("GABLE_JIT_ASM", path, 1);
        data_t *d = numbers(1, false);
        assert_int_equal(run(&ways[k], COUNT_ONLY, d, COUNT), CUDA_SUCCESS);
        unsetenv("GABLE_JIT_ASM");
        free(d);
        off_t size = lseek(fd, 0, SEEK_END);
        char *text = calloc((size_t)size + 1, 1);
        assert_true(size > 0 && pread(fd, text, (size_t)size, 0) == size);
        close(fd);
        unlink(path);
        bool narrow = scaled_counts(text) >= 4;
        free(text);
        if (narrow != ways[k].narrow)
            fail_msg("%s: must %s", ways[k].name, ways[k].narrow ? "go the short way" : "not");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counts),    cmocka_unit_test(test_what_was_there),
        cmocka_unit_test(test_largest),   cmocka_unit_test(test_faults),
        cmocka_unit_test(test_short_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
