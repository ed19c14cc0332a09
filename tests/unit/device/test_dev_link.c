/* Fat binaries and linking, to the point where a kernel has run: files that nvcc made, images made
 * here, options and logs. */
#include "device_test.h"

#include <elf.h>
#include <stdio.h>
#include <unistd.h>

#define DATA GABLE_SOURCE_DIR "/tests/ptx/data/"
#define HEAD ".version 7.0\n.target sm_70\n.address_size 64\n"

enum { N = 8 };

static void *read_data(const char *name, size_t *size)
{
    char path[512];
    snprintf(path, sizeof(path), DATA "%s", name);
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("cannot open %s", path);
    char *bytes = malloc(1 << 20);
    *size = fread(bytes, 1, 1 << 20, file);
    fclose(file);
    return bytes;
}

/* Runs `name` over 0, 1, 2... and returns what becomes of each. */
static void run(CUmodule module, const char *name, int32_t out[N])
{
    CUfunction function;
    CUdeviceptr memory;
    for (int i = 0; i < N; i++)
        out[i] = i;
    OK(cu->cuModuleGetFunction(&function, module, name));
    OK(cu->cuMemAlloc_v2(&memory, N * 4));
    OK(cu->cuMemcpyHtoD_v2(memory, out, N * 4));
    void *params[] = {&memory};
    OK(cu->cuLaunchKernel(function, 1, 1, 1, N, 1, 1, 0, NULL, params, NULL));
    OK(cu->cuMemcpyDtoH_v2(out, memory, N * 4));
    OK(cu->cuMemFree_v2(memory));
}

static void expect_shift(CUmodule module)
{
    int32_t out[N];
    run(module, "shift", out);
    for (int i = 0; i < N; i++)
        assert_int_equal(out[i], i + 7 + 1000);
    OK(cu->cuModuleUnload(module));
}

static void expect_scale(CUmodule module)
{
    int32_t out[N];
    run(module, "scale", out);
    for (int i = 0; i < N; i++)
        assert_int_equal(out[i], i * (1 + (i & 3)) + 7 + 100);
}

static void fat_binaries_of_every_kind(void **state)
{
    static const char *const names[] = {"part_b_raw.fatbin", "part_b_speed.fatbin",
                                        "part_b_size.fatbin", "part_b_several.fatbin"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        CUmodule module;
        CUlibrary library;
        CUkernel kernel;
        size_t size;
        char path[512];
        void *image = read_data(names[i], &size);
        struct {
            uint32_t magic, version;
            const void *data, *extra;
        } wrapper = {0x466243b1, 1, image, NULL};
        OK(cu->cuModuleLoadData(&module, image));
        expect_shift(module);
        OK(cu->cuModuleLoadFatBinary(&module, image));
        expect_shift(module);
        OK(cu->cuModuleLoadFatBinary(&module, &wrapper));
        expect_shift(module);
        snprintf(path, sizeof(path), DATA "%s", names[i]);
        OK(cu->cuModuleLoad(&module, path));
        expect_shift(module);
        OK(cu->cuLibraryLoadData(&library, &wrapper, NULL, NULL, 0, NULL, NULL, 0));
        OK(cu->cuLibraryGetKernel(&kernel, library, "shift"));
        OK(cu->cuLibraryUnload(library));
        free(image);
    }
}

static void code_for_a_gpu_only(void **state)
{
    CUmodule module;
    size_t size;
    (void)state;
    uint8_t *image = read_data("part_b_sass.fatbin", &size);
    FAILS(CUDA_ERROR_NO_BINARY_FOR_GPU, cu->cuModuleLoadData(&module, image));
    FAILS(CUDA_ERROR_NO_BINARY_FOR_GPU, cu->cuModuleLoad(&module, DATA "part_b_sass.fatbin"));
    const uint8_t *cubin = memmem(image, size, ELFMAG, SELFMAG);
    assert_non_null(cubin);
    FAILS(CUDA_ERROR_NO_BINARY_FOR_GPU, cu->cuModuleLoadData(&module, cubin));
    free(image);
}

/* Cut anywhere, a file is an error and nothing else. */
static void cut_files(void **state)
{
    CUmodule module;
    size_t size;
    char path[] = "/tmp/gable-cut-XXXXXX";
    (void)state;
    uint8_t *image = read_data("part_b_several.fatbin", &size);
    int file = mkstemp(path);
    assert_true(file >= 0);
    for (size_t n = 1; n < size; n += n < 200 ? 1 : 97) {
        assert_int_equal(ftruncate(file, 0), 0);
        assert_int_equal(pwrite(file, image, n, 0), n);
        CUresult result = cu->cuModuleLoad(&module, path);
        if (result != CUDA_ERROR_INVALID_IMAGE && result != CUDA_ERROR_INVALID_PTX)
            fail_msg("%zu bytes give %d", n, (int)result);
    }
    close(file);
    unlink(path);
    free(image);
}

static void put(uint8_t *p, uint64_t value, unsigned bytes)
{
    memcpy(p, &value, bytes);
}

/* A fat binary of raw texts. */
static void make_image(uint8_t *out, const uint32_t *sm, const char *const *texts, int count)
{
    size_t at = 16;
    for (int i = 0; i < count; i++) {
        size_t size = strlen(texts[i]) + 1;
        memset(out + at, 0, 64);
        put(out + at, 1, 2);
        put(out + at + 2, 0x101, 2);
        put(out + at + 4, 64, 4);
        put(out + at + 8, size, 8);
        put(out + at + 28, sm[i], 4);
        put(out + at + 40, 0x11, 8);
        memcpy(out + at + 64, texts[i], size);
        at += 64 + size;
    }
    put(out, 0xba55ed50, 4);
    put(out + 4, 1, 2);
    put(out + 6, 16, 2);
    put(out + 8, at - 16, 8);
}

static void the_best_text_that_is_covered(void **state)
{
    static const uint32_t sm[] = {80, 75, 70};
    static const char *const texts[] = {
        HEAD ".visible .entry k() { eighty.u32; ret; }",
        HEAD ".visible .entry k() { ret; } .visible .entry seventy_five() { ret; }",
        HEAD ".visible .entry k() { ret; } .visible .entry seventy() { ret; }"};
    static const char *const bad[] = {HEAD ".visible .entry k() { one.u32; ret; }",
                                      HEAD ".visible .entry k() { two.u32; ret; }"};
    uint8_t image[2048];
    CUmodule module;
    CUfunction function;
    char log[512];
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)sizeof(log)};
    (void)state;
    make_image(image, sm, texts, 3);
    OK(cu->cuModuleLoadDataEx(&module, image, 2, options, values));
    assert_string_equal(log, "");
    assert_int_equal((uintptr_t)values[1], 0);
    OK(cu->cuModuleGetFunction(&function, module, "seventy_five"));
    OK(cu->cuModuleUnload(module));
    /* If none is, the log is about the best. */
    make_image(image, sm, bad, 2);
    values[1] = (void *)sizeof(log);
    FAILS(CUDA_ERROR_INVALID_PTX, cu->cuModuleLoadDataEx(&module, image, 2, options, values));
    assert_string_equal(log, "ptx: line 4: unknown opcode 'one.u32'\n");
    assert_int_equal((uintptr_t)values[1], strlen(log) + 1);
}

static CUlinkState new_link(void)
{
    CUlinkState link;
    OK(cu->cuLinkCreate_v2(0, NULL, NULL, &link));
    return link;
}

static void add_file(CUlinkState link, CUjitInputType type, const char *name)
{
    char path[512];
    snprintf(path, sizeof(path), DATA "%s", name);
    OK(cu->cuLinkAddFile_v2(link, type, path, 0, NULL, NULL));
}

static void objects_and_libraries_are_linked(void **state)
{
    CUlinkState link = new_link();
    CUmodule module;
    CUfunction function;
    CUdeviceptr at;
    size_t size, bytes;
    void *image;
    int32_t seven = 0;
    (void)state;
    add_file(link, CU_JIT_INPUT_OBJECT, "part_a.object");
    add_file(link, CU_JIT_INPUT_LIBRARY, "part_b.a");
    OK(cu->cuLinkComplete(link, &image, &size));
    assert_int_equal(((const char *)image)[size - 1], 0);
    assert_int_equal(strlen(image) + 1, size);
    OK(cu->cuModuleLoadData(&module, image));
    OK(cu->cuLinkDestroy(link));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuLinkDestroy(link));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuLinkComplete(link, &image, &size));
    expect_scale(module);
    OK(cu->cuModuleGetGlobal_v2(&at, &bytes, module, "offset"));
    assert_int_equal(bytes, 4);
    OK(cu->cuMemcpyDtoH_v2(&seven, at, 4));
    assert_int_equal(seven, 7);
    OK(cu->cuModuleGetFunction(&function, module, "shift"));
    expect_shift(module);
}

/* The same from memory, PTX and fat binary. */
static void data_is_linked(void **state)
{
    static const char user[] =
        HEAD ".extern .global .u32 offset;\n.global .u32 calls = 100;\n"
             ".visible .entry scale(.param .u64 x) { .reg .b64 %d; .reg .b32 %r<5>;\n"
             "ld.param.b64 %d, [x]; mov.u32 %r1, %tid.x; mul.wide.u32 %d, %r1, 4;\n"
             "ld.param.b64 %d, [x]; mad.wide.u32 %d, %r1, 4, %d; and.b32 %r2, %r1, 3;\n"
             "add.u32 %r2, %r2, 1; mul.lo.u32 %r2, %r2, %r1; ld.global.u32 %r3, [offset];\n"
             "ld.global.u32 %r4, [calls]; add.u32 %r2, %r2, %r3; add.u32 %r2, %r2, %r4;\n"
             "st.global.u32 [%d], %r2; ret; }";
    CUlinkState link = new_link();
    CUmodule module;
    size_t size;
    void *image, *part = read_data("part_b_rdc.fatbin", &size);
    (void)state;
    OK(cu->cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)user, sizeof(user), "user", 0, NULL,
                            NULL));
    OK(cu->cuLinkAddData_v2(link, CU_JIT_INPUT_FATBINARY, part, size, "part", 0, NULL, NULL));
    free(part);
    OK(cu->cuLinkComplete(link, &image, NULL));
    OK(cu->cuModuleLoadData(&module, image));
    expect_scale(module);
    OK(cu->cuModuleUnload(module));
    /* What is linked goes in again, as the cubin that it stands for. */
    CUlinkState again = new_link();
    OK(cu->cuLinkAddData_v2(again, CU_JIT_INPUT_CUBIN, image, strlen(image) + 1, "cubin", 0, NULL,
                            NULL));
    OK(cu->cuLinkDestroy(link));
    OK(cu->cuLinkComplete(again, &image, &size));
    OK(cu->cuModuleLoadData(&module, image));
    OK(cu->cuLinkDestroy(again));
    expect_scale(module);
    expect_shift(module);
}

/* Functions of another module: by name, by address, in registers as old PTX has it, and the device's
 * own; private functions of one name stay apart. */
static void functions_are_linked(void **state)
{
    static char user[] =
        HEAD ".extern .func (.param .b32 r) twice (.param .b32 a);\n"
             ".extern .func (.reg .u32 r) old (.reg .u32 a, .reg .u32 b);\n"
             ".extern .func (.param .b32 r) vprintf (.param .b64 f, .param .b64 a);\n"
             ".extern .global .u64 table[2];\n"
             ".func (.param .b32 r) helper (.param .b32 a) { .reg .b32 %x; ld.param.b32 %x, [a];\n"
             "add.u32 %x, %x, 1; st.param.b32 [r], %x; ret; }\n"
             ".visible .entry k(.param .u64 x) { .reg .b64 %d<3>; .reg .b32 %r<6>;\n"
             ".param .b32 p, q, s, t, u, v; ld.param.b64 %d0, [x]; mov.u32 %r1, %tid.x;\n"
             "mad.wide.u32 %d0, %r1, 4, %d0;\n"
             "st.param.b32 [p], %r1; call (q), twice, (p); ld.param.b32 %r2, [q];\n"
             "call (%r3), old, (%r1, 5);\n"
             "st.param.b32 [s], %r3; call (t), helper, (s); ld.param.b32 %r3, [t];\n"
             "ld.global.u64 %d1, [table+8]; st.param.b32 [u], %r1;\n"
             "proto: .callprototype (.param .b32 _) _ (.param .b32 _);\n"
             "call (v), %d1, (u), proto; ld.param.b32 %r4, [v];\n"
             "mul.lo.u32 %r2, %r2, 100; add.u32 %r2, %r2, %r3; mad.lo.u32 %r2, %r4, 10000, %r2;\n"
             "st.global.u32 [%d0], %r2; ret; }";
    static char giver[] = HEAD
        ".func (.param .b32 r) helper (.param .b32 a) { .reg .b32 %x; ld.param.b32 %x, [a];\n"
        "add.u32 %x, %x, %x; st.param.b32 [r], %x; ret; }\n"
        ".visible .func (.param .b32 r) twice (.param .b32 a) { .reg .b32 %x; .param .b32 p, q;\n"
        "ld.param.b32 %x, [a]; st.param.b32 [p], %x; call (q), helper, (p);\n"
        "ld.param.b32 %x, [q]; st.param.b32 [r], %x; ret; }\n"
        ".visible .func (.reg .u32 r) old (.reg .u32 a, .reg .u32 b)\n"
        "{ mul.lo.u32 r, a, b; }\n"
        ".visible .global .u64 table[2] = {0, helper};";
    CUlinkState link = new_link();
    CUmodule module;
    void *image;
    int32_t out[N];
    (void)state;
    OK(cu->cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, user, sizeof(user), "user", 0, NULL, NULL));
    OK(cu->cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, giver, sizeof(giver), "giver", 0, NULL, NULL));
    OK(cu->cuLinkComplete(link, &image, NULL));
    OK(cu->cuModuleLoadData(&module, image));
    OK(cu->cuLinkDestroy(link));
    run(module, "k", out);
    for (int i = 0; i < N; i++)
        assert_int_equal(out[i], 2 * i * 10000 + 2 * i * 100 + (5 * i + 1));
    OK(cu->cuModuleUnload(module));
}

/* What a program of separately compiled parts registers: nvlink's product and the parts. */
static void parts_of_a_wrapper(void **state)
{
    CUmodule module;
    size_t size;
    uint8_t *object = read_data("part_a.object", &size);
    const void *part_a = memmem(object, size, "\x50\xed\x55\xba", 4);
    void *part_b = read_data("part_b_rdc.fatbin", &size);
    void *linked = read_data("part_b_sass.fatbin", &size);
    const void *parts[] = {part_a, part_b, NULL};
    struct {
        uint32_t magic, version;
        const void *data;
        const void *const *extra;
    } wrapper = {0x466243b1, 2, linked, parts};
    (void)state;
    assert_non_null(part_a);
    OK(cu->cuModuleLoadFatBinary(&module, &wrapper));
    expect_scale(module);
    expect_shift(module);
    parts[1] = NULL;
    FAILS(CUDA_ERROR_INVALID_PTX, cu->cuModuleLoadData(&module, &wrapper));
    free(object);
    free(part_b);
    free(linked);
}

static void errors_go_to_the_log(void **state)
{
    static const char lacks[] =
        HEAD ".extern .global .u32 x;\n.extern .func f ();\n"
             ".visible .entry k() { .reg .u64 %d; mov.u64 %d, x; call f; ret; }";
    char error[256], info[64];
    CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                              CU_JIT_INFO_LOG_BUFFER,  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                              CU_JIT_LOG_VERBOSE,      CU_JIT_WALL_TIME};
    void *values[] = {error, (void *)sizeof(error), info, (void *)sizeof(info), (void *)1, NULL};
    static const char rest[] = HEAD ".visible .global .u32 x;\n.visible .global .u32 y;";
    CUlinkState link;
    void *image;
    size_t size;
    float ms;
    (void)state;
    OK(cu->cuLinkCreate_v2(6, options, values, &link));
    FAILS(CUDA_ERROR_INVALID_PTX,
          cu->cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)"bad", 4, "bad.ptx", 0, NULL, NULL));
    static const char first[] = "bad.ptx: ptx: line 1: expected a directive before 'bad'\n";
    assert_string_equal(error, first);
    assert_int_equal((uintptr_t)values[1], sizeof(first));
    OK(cu->cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)lacks, sizeof(lacks), NULL, 0, NULL,
                            NULL));
    FAILS(CUDA_ERROR_INVALID_PTX, cu->cuLinkComplete(link, &image, &size));
    assert_string_equal(error + strlen(first), "link: undefined function 'f', used in <input>\n"
                                               "link: undefined variable 'x', used in <input>\n");
    assert_int_equal((uintptr_t)values[1], strlen(error) + 1);
    OK(cu->cuLinkDestroy(link));
    values[1] = (void *)sizeof(error);
    values[3] = (void *)sizeof(info);
    OK(cu->cuLinkCreate_v2(6, options, values, &link));
    OK(cu->cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, (void *)rest, sizeof(rest), "rest", 0, NULL,
                            NULL));
    OK(cu->cuLinkComplete(link, &image, &size));
    assert_string_equal(error, "");
    assert_string_equal(info, "linked 1 modules\n");
    assert_int_equal((uintptr_t)values[1], 0);
    assert_int_equal((uintptr_t)values[3], strlen(info) + 1);
    memcpy(&ms, &values[5], sizeof(ms));
    assert_true(ms > 0 && ms < 10000);
    OK(cu->cuLinkDestroy(link));
}

static void wrong_arguments(void **state)
{
    static const struct {
        CUjit_option option;
        uintptr_t value;
        CUresult load, link, input;
    } table[] = {
        {CU_JIT_OPTIMIZATION_LEVEL, 4, 0, 0, 0},
        {CU_JIT_OPTIMIZATION_LEVEL, 5, 1, 1, 1},
        {CU_JIT_TARGET, 90, 0, 0, 1},
        {CU_JIT_TARGET, 0x1005a, 0, 0, 1},
        {CU_JIT_TARGET, 91, 1, 1, 1},
        {CU_JIT_TARGET, 0x10046, 1, 1, 1},
        {CU_JIT_TARGET_FROM_CUCONTEXT, 0, 0, 0, 1},
        {CU_JIT_FALLBACK_STRATEGY, 1, 0, 1, 1},
        {CU_JIT_FALLBACK_STRATEGY, 2, 1, 1, 1},
        {CU_JIT_CACHE_MODE, 2, 0, 0, 0},
        {CU_JIT_CACHE_MODE, 3, 1, 1, 1},
        {CU_JIT_MAX_REGISTERS, 32, 0, 0, 0},
        {CU_JIT_GENERATE_DEBUG_INFO, 1, 0, 0, 0},
        {CU_JIT_GENERATE_LINE_INFO, 1, 0, 0, 0},
        {CU_JIT_WALL_TIME, 0, 0, 0, 1},
        {CU_JIT_INFO_LOG_BUFFER, 0, 0, 0, 1},
        {CU_JIT_GLOBAL_SYMBOL_COUNT, 2, 801, 801, 801},
        {CU_JIT_NUM_OPTIONS, 0, 1, 1, 1},
        {(CUjit_option)-1, 0, 1, 1, 1},
    };
    static char text[] = HEAD ".visible .global .u32 x;";
    CUlinkState link, other;
    CUmodule module;
    void *image;
    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        CUjit_option option = table[i].option;
        void *value = (void *)table[i].value;
        FAILS(table[i].load, cu->cuModuleLoadDataEx(&module, text, 1, &option, &value));
        value = (void *)table[i].value;
        FAILS(table[i].link, cu->cuLinkCreate_v2(1, &option, &value, &other));
        if (!table[i].link)
            OK(cu->cuLinkDestroy(other));
        link = new_link();
        value = (void *)table[i].value;
        FAILS(table[i].input, cu->cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, text, sizeof(text), "t",
                                                   1, &option, &value));
        OK(cu->cuLinkDestroy(link));
    }
    CUjit_option both[] = {CU_JIT_TARGET, CU_JIT_THREADS_PER_BLOCK};
    void *values[] = {(void *)90, (void *)64};
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuModuleLoadDataEx(&module, text, 2, both, values));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuModuleLoadDataEx(&module, text, 1, NULL, NULL));
    link = new_link();
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuLinkAddData_v2(link, CU_JIT_NUM_INPUT_TYPES, text,
                                                         sizeof(text), NULL, 0, NULL, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, NULL, 4, NULL, 0, NULL, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE,
          cu->cuLinkAddData_v2(link, CU_JIT_INPUT_PTX, text, 0, NULL, 0, NULL, NULL));
    FAILS(CUDA_ERROR_NO_BINARY_FOR_GPU,
          cu->cuLinkAddData_v2(link, CU_JIT_INPUT_NVVM, text, sizeof(text), NULL, 0, NULL, NULL));
    FAILS(CUDA_ERROR_NO_BINARY_FOR_GPU,
          cu->cuLinkAddFile_v2(link, CU_JIT_INPUT_FATBINARY, DATA "part_b_sass.fatbin", 0, NULL,
                               NULL));
    FAILS(CUDA_ERROR_FILE_NOT_FOUND,
          cu->cuLinkAddFile_v2(link, CU_JIT_INPUT_PTX, "/nowhere/x.ptx", 0, NULL, NULL));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuLinkComplete(link, NULL, NULL));
    FAILS(CUDA_ERROR_INVALID_PTX, cu->cuLinkComplete(link, &image, NULL));
    OK(cu->cuLinkDestroy(link));
    FAILS(CUDA_ERROR_INVALID_VALUE, cu->cuLinkCreate_v2(0, NULL, NULL, NULL));
    FAILS(CUDA_ERROR_INVALID_HANDLE, cu->cuLinkDestroy((CUlinkState)text));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_CONTEXT(fat_binaries_of_every_kind),
        IN_CONTEXT(code_for_a_gpu_only),
        IN_CONTEXT(cut_files),
        IN_CONTEXT(the_best_text_that_is_covered),
        IN_CONTEXT(objects_and_libraries_are_linked),
        IN_CONTEXT(data_is_linked),
        IN_CONTEXT(functions_are_linked),
        IN_CONTEXT(parts_of_a_wrapper),
        IN_CONTEXT(errors_go_to_the_log),
        IN_CONTEXT(wrong_arguments),
    };
    setenv("GABLE_LOG", "error", 1);
    setenv("GABLE_CPU_CACHE", "off", 1);
    return cmocka_run_group_tests(tests, device_setup, NULL);
}
