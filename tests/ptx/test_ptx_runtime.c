/* What kernels ask of the device: printf, assert, malloc and free; and calls as C++ makes them. What
 * they print is read from the process's own stdout and stderr. */
#include "tests/ptx/pt_device.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const char calls_ptx[];

enum { TEXT = 1 << 20 };

/* PT_CALLS names the PTX that another compiler made of calls.cu. */
static CUmodule load(void)
{
    const char *path = getenv("PT_CALLS");
    if (!path)
        return pt_load(calls_ptx);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char *text = calloc(1, TEXT * 4);
    assert_non_null(text);
    assert_true(fread(text, 1, TEXT * 4 - 1, f) > 0);
    fclose(f);
    CUmodule module = pt_load(text);
    free(text);
    return module;
}

static pt_dim_t linear(unsigned x)
{
    return (pt_dim_t){x, 1, 1};
}

/* ---- what the process writes ---- */

typedef struct {
    int fd, kept, file;
} capture_t;

static capture_t capture_begin(int fd)
{
    char name[] = "/tmp/gable-output-XXXXXX";
    fflush(NULL);
    capture_t c = {.fd = fd, .kept = dup(fd), .file = mkstemp(name)};
    assert_true(c.kept >= 0 && c.file >= 0);
    unlink(name);
    assert_int_equal(dup2(c.file, fd), fd);
    return c;
}

static char *capture_end(const capture_t *c)
{
    char *text = calloc(1, TEXT);
    assert_non_null(text);
    fflush(NULL);
    dup2(c->kept, c->fd);
    close(c->kept);
    assert_true(pread(c->file, text, TEXT - 1, 0) >= 0);
    close(c->file);
    return text;
}

static void test_conversions(void **state)
{
    static const char want[] =
        "plain text, 100%\n"
        "[-7] [   42] [42   ] [00042] [+42] [ 42] [7]\n"
        "[4000000000] [beef] [BEEF] [0xbeef] [10] [010] [00001234]\n"
        "[a] [  b] [c  ] [text] [   right] [left    ] [cu]\n"
        "[-5000000000] [-6000000000] [18446744073709551615] [123456789abcdef] [4464] [44] [1]\n"
        "[1.500000] [2.35] [     3.142] [2.5       ] [1.234568e+04] [1.200E-04] [0.0001] [1E+20] "
        "[0x1p+0]\n"
        "[    42] [3.14] [7   ] [from the host]\n"
        "[0x1234] [ 99.5%] [(null)]\n";
    static const int counts[] = {0, 7, 7, 7, 7, 9, 7, 3, 0, -1};
    int results[10] = {0};
    (void)state;
    CUmodule module = load();
    CUdeviceptr text = pt_upload("from the host", 14), out = pt_upload(NULL, sizeof results);
    void *params[] = {&text, &out};
    capture_t c = capture_begin(1);
    pt_launch(pt_function(module, "print_conversions"), linear(1), linear(1), 0, params);
    char *got = capture_end(&c);
    assert_string_equal(got, want);
    free(got);
    pt_download(results, out, sizeof results);
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(results[i], counts[i]);
    pt_free(text);
    pt_free(out);
    pt_unload(module);
}

/* Every line is there once and whole; in each thread's order. */
static void test_order(void **state)
{
    enum { BLOCKS = 20, THREADS = 70 };
    static int seen[BLOCKS][THREADS];
    int from = 99, lines = 0;
    (void)state;
    CUmodule module = load();
    void *params[] = {&from};
    capture_t c = capture_begin(1);
    pt_launch(pt_function(module, "print_order"), linear(BLOCKS), linear(THREADS), 0, params);
    char *got = capture_end(&c), *rest = got;
    memset(seen, 0, sizeof seen);
    for (char *line; (line = strsep(&rest, "\n")) != NULL && *line; lines++) {
        int block, thread, value = 0;
        char word[8];
        int n = sscanf(line, "block %d thread %d %7s %d", &block, &thread, word, &value);
        assert_true(n >= 3 && block >= 0 && block < BLOCKS && thread >= 0 && thread < THREADS);
        assert_int_equal(seen[block][thread], strcmp(word, "first") == 0 ? 0 : 1);
        assert_true(n == 3 || value == from);
        seen[block][thread]++;
    }
    int printing = 0;
    for (int t = 0; t < THREADS; t++)
        printing += t % 5 < 2;
    assert_int_equal(lines, 2 * printing * BLOCKS);
    free(got);
    pt_unload(module);
}

/* Nothing comes out before the program synchronises; what comes out then is in the order of launches. */
static void test_when(void **state)
{
    int lines = 1;
    (void)state;
    CUmodule module = load();
    const gb_cuda_table_t *cu = pt_cuda();
    CUfunction f = pt_function(module, "print_lines");
    void *params[] = {&lines};
    CUstream stream;
    PT_CHECK(cu->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    capture_t c = capture_begin(1);
    PT_CHECK(cu->cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, stream, params, NULL));
    while (cu->cuStreamQuery(stream) == CUDA_ERROR_NOT_READY) {
    }
    printf("before\n");
    PT_CHECK(cu->cuStreamSynchronize(stream));
    printf("after\n");
    char *got = capture_end(&c);
    assert_string_equal(got, "before\nline 00000 of a text that is as long as others\nafter\n");
    free(got);
    PT_CHECK(cu->cuStreamDestroy_v2(stream));
    pt_unload(module);
}

/* A full buffer loses its oldest lines, whole ones. */
static void test_overflow(void **state)
{
    enum { LINES = 400, FIFO = 4096 };
    int lines = LINES, expected = LINES - 1, count = 0;
    (void)state;
    pt_new_context();
    CUmodule module = load();
    PT_CHECK(pt_cuda()->cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, FIFO));
    void *params[] = {&lines};
    capture_t c = capture_begin(1);
    pt_launch(pt_function(module, "print_lines"), linear(1), linear(1), 0, params);
    char *got = capture_end(&c), *rest = got;
    int first = atoi(got + 5), last = first;
    for (char *line; (line = strsep(&rest, "\n")) != NULL && *line; count++)
        last = atoi(line + 5);
    assert_int_equal(strncmp(got, "line ", 5), 0);
    assert_int_equal(last, expected);
    assert_int_equal(count, last - first + 1);
    assert_true(count > FIFO / 64 && count <= FIFO / 47);
    /* The size is settled once something was printed. */
    assert_int_equal(pt_cuda()->cuCtxSetLimit(CU_LIMIT_PRINTF_FIFO_SIZE, 1 << 20),
                     CUDA_ERROR_INVALID_VALUE);
    free(got);
    pt_unload(module);
    pt_new_context();
}

static void test_assert(void **state)
{
    int values[100], n = 100;
    (void)state;
    for (int i = 0; i < n; i++)
        values[i] = 1 + i;
    pt_new_context();
    CUmodule module = load();
    CUdeviceptr d = pt_upload(values, sizeof values);
    void *params[] = {&d, &n};
    CUfunction f = pt_function(module, "check_positive");
    pt_launch(f, linear(4), linear(32), 0, params);
    values[37] = 0;
    PT_CHECK(pt_cuda()->cuMemcpyHtoD_v2(d, values, sizeof values));
    capture_t c = capture_begin(2);
    CUresult result = pt_run(f, linear(4), linear(32), 0, params);
    char *got = capture_end(&c);
    assert_int_equal(result, CUDA_ERROR_ASSERT);
    assert_int_equal(pt_cuda()->cuMemcpyHtoD_v2(d, values, sizeof values), CUDA_ERROR_ASSERT);
    const char *line = strstr(got, "calls.cu:");
    assert_non_null(line);
    assert_non_null(strstr(line, "check_positive"));
    assert_non_null(
        strstr(line, ": block: [1,0,0], thread: [5,0,0] Assertion `values[i] > 0` failed.\n"));
    free(got);
    pt_new_context();
}

static void test_lists(void **state)
{
    enum { THREADS = 150, LENGTH = 5 };
    int length = LENGTH, sums[THREADS];
    (void)state;
    CUmodule module = load();
    for (int round = 0; round < 3; round++) {
        CUdeviceptr heads = pt_upload(NULL, THREADS * 8), out = pt_upload(NULL, sizeof sums);
        void *build[] = {&heads, &length}, *sum[] = {&heads, &out}, *end[] = {&heads};
        pt_launch(pt_function(module, "list_build"), linear(3), linear(50), 0, build);
        pt_launch(pt_function(module, "list_sum"), linear(1), linear(THREADS), 0, sum);
        pt_launch(pt_function(module, "list_free"), linear(5), linear(30), 0, end);
        pt_download(sums, out, sizeof sums);
        for (int i = 0; i < THREADS; i++)
            assert_int_equal(sums[i], i * 100 * LENGTH + LENGTH * (LENGTH - 1) / 2);
        pt_free(heads);
        pt_free(out);
    }
    pt_unload(module);
}

static void test_heap_limit(void **state)
{
    int counts[3], bytes = 10000;
    (void)state;
    pt_new_context();
    PT_CHECK(pt_cuda()->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 1 << 20));
    CUmodule module = load();
    CUdeviceptr out = pt_upload(NULL, sizeof counts);
    void *params[] = {&bytes, &out};
    for (int round = 0; round < 4; round++) { /* nothing is lost from one to the next */
        pt_launch(pt_function(module, "heap_fill"), linear(1), linear(1), 0, params);
        pt_download(counts, out, sizeof counts);
        assert_in_range(counts[0], 90, 104);
        assert_int_equal(counts[1], 0);
        assert_int_equal(counts[2], 1);
    }
    bytes = 2 << 20;
    pt_launch(pt_function(module, "heap_fill"), linear(1), linear(1), 0, params);
    pt_download(counts, out, sizeof counts);
    assert_int_equal(counts[0], 0);
    assert_int_equal(pt_cuda()->cuCtxSetLimit(CU_LIMIT_MALLOC_HEAP_SIZE, 1 << 21),
                     CUDA_ERROR_INVALID_VALUE);
    pt_free(out);
    pt_unload(module);
    pt_new_context();
}

/* ---- functions ---- */

enum { MOST = 1000 };

static void run_both(const char *kernel, int n, const int *in, void *out, unsigned block)
{
    CUmodule module = load();
    CUdeviceptr d_in = pt_upload(in, (size_t)n * 4), d_out = pt_upload(NULL, (size_t)n * 4);
    void *params[] = {&d_in, &d_out, &n};
    pt_launch(pt_function(module, kernel), linear(((unsigned)n + block - 1) / block), linear(block),
              0, params);
    pt_download(out, d_out, (size_t)n * 4);
    pt_free(d_in);
    pt_free(d_out);
    pt_unload(module);
}

static void fill(int *in, int n)
{
    uint32_t seed = 11;
    for (int i = 0; i < n; i++)
        in[i] = (int)(pt_random(&seed) % 1000);
}

static void test_virtual(void **state)
{
    int in[MOST], out[MOST];
    (void)state;
    fill(in, 333);
    run_both("virtual_shapes", 333, in, out, 96);
    for (int i = 0; i < 333; i++) {
        bool square = in[i] % 2;
        int a = in[i] % 17, b = in[i] % 5, area = square ? a * a : a * b, sum = 0;
        for (int k = 0; k < in[i] % 4 + 1; k++)
            sum += square ? area * (k + 1) + i : area * (k + 1) * (k + 1) - i;
        assert_int_equal(out[i], sum);
    }
}

static int by_value(const void *x, const void *y)
{
    int a = *(const int *)x, b = *(const int *)y;
    return a < b ? -1 : a > b;
}

static void test_sort(void **state)
{
    enum { ROWS = 70 };
    static int rows[ROWS * 32], want[ROWS * 32];
    int n = ROWS;
    (void)state;
    fill(rows, ROWS * 32);
    memcpy(want, rows, sizeof rows);
    for (int i = 0; i < ROWS; i++)
        qsort(want + i * 32, 32, sizeof(int), by_value);
    CUmodule module = load();
    CUdeviceptr d = pt_upload(rows, sizeof rows);
    void *params[] = {&d, &n};
    pt_launch(pt_function(module, "sort_rows"), linear(2), linear(48), 0, params);
    pt_download(rows, d, sizeof rows);
    assert_memory_equal(rows, want, sizeof rows);
    pt_free(d);
    pt_unload(module);
}

static void host_apply(int *w, const int *f, short k, signed char c, bool twice)
{
    for (int n = 0; n < 40; n++)
        w[n] = (int)((unsigned)f[n] + (unsigned)(k * c));
    if (twice)
        w[c & 31] = (int)((unsigned)w[c & 31] * 2);
}

static void test_objects(void **state)
{
    int in[MOST], out[MOST];
    (void)state;
    fill(in, 200);
    run_both("function_objects", 200, in, out, 64);
    for (int i = 0; i < 200; i++) {
        int w[40], f[40], a = in[i];
        unsigned sum = 0;
        for (int k = 0; k < 40; k++)
            f[k] = (a + k) * (a & 7) + k * i;
        host_apply(w, f, (short)(a * 300), (signed char)a, i & 1);
        for (int k = 0; k < 40; k++)
            f[k] = w[k] ^ (k + i);
        host_apply(w, f, (short)-i, (signed char)(i * 7), (a & 2) != 0);
        for (int k = 0; k < 40; k++)
            sum = sum * 31 + (unsigned)w[k];
        assert_int_equal(out[i], (int)sum);
    }
}

static void test_pointers(void **state)
{
    int in[MOST];
    float out[MOST];
    (void)state;
    fill(in, 500);
    run_both("function_pointers", 500, in, out, 128);
    for (int i = 0; i < 500; i++) {
        float x = (float)(in[i] % 100);
        for (int k = 0; k < 3; k++) {
            int which = (in[i] + k) % 3;
            x = which == 0 ? x * 2 : which == 1 ? x + 1 : x * x;
        }
        assert_true(out[i] == x * x - x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conversions), cmocka_unit_test(test_order),
        cmocka_unit_test(test_when),        cmocka_unit_test(test_overflow),
        cmocka_unit_test(test_assert),      cmocka_unit_test(test_lists),
        cmocka_unit_test(test_heap_limit),  cmocka_unit_test(test_virtual),
        cmocka_unit_test(test_sort),        cmocka_unit_test(test_objects),
        cmocka_unit_test(test_pointers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
