/* The rows of bench/kernels. */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench/kernels_plain.h"
#include "bench/kernels_row.h"
#include "common/core/gb_log.h"

enum {
    N = 512,           /* matrices */
    STREAM = 16 << 20, /* floats: twice the largest cache of the machines that we know */
    ROWS = 1024,
    SOFTMAX_COLUMNS = 1024,
    LAYERNORM_COLUMNS = 768,
    PIXELS = 512, /* width and height */
    LIMIT = 256,
    SAMPLES = 4 << 20,
    BINS = 256,
};

static const float FACTOR = 0.75f;

/* ---- filling ---- */

static uint32_t next_random(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return *state >> 8;
}

static void fill_floats(float *x, size_t bytes, uint32_t seed)
{
    for (size_t i = 0; i < bytes / sizeof(*x); i++)
        x[i] = (float)next_random(&seed) * 0x1p-23f - 1.0f;
}

static void fill_random(const row_t *row, void **buffers)
{
    for (int i = 0; i < ROW_BUFFERS; i++)
        if (row->bytes[i] && (i != row->result || row->keeps))
            fill_floats(buffers[i], row->bytes[i], (uint32_t)i + 1);
}

static void fill_samples(const row_t *row, void **buffers)
{
    uint8_t *x = buffers[0];
    uint32_t seed = 1;
    for (size_t i = 0; i < row->bytes[0]; i++)
        x[i] = (uint8_t)(next_random(&seed) >> 9);
}

static void fill_nothing(const row_t *row, void **buffers)
{
    (void)row;
    (void)buffers;
}

/* ---- what must come out ---- */

static double expect_matmul(const row_t *row, void **b)
{
    plain_matmul(N, b[0], b[1], b[2]);
    return row->work;
}

static double expect_saxpy(const row_t *row, void **b)
{
    plain_saxpy(STREAM, FACTOR, b[0], b[1]);
    return row->work;
}

static double expect_copy(const row_t *row, void **b)
{
    memcpy(b[1], b[0], row->bytes[0]);
    return row->work;
}

static double expect_sum(const row_t *row, void **b)
{
    *(float *)b[1] = (float)plain_sum(STREAM, b[0]);
    return row->work;
}

static double expect_softmax(const row_t *row, void **b)
{
    plain_softmax(ROWS, SOFTMAX_COLUMNS, b[0], b[1]);
    return row->work;
}

static double expect_layernorm(const row_t *row, void **b)
{
    plain_layernorm(ROWS, LAYERNORM_COLUMNS, b[0], b[1], b[2], b[3]);
    return row->work;
}

static double expect_mandelbrot(const row_t *row, void **b)
{
    (void)row;
    return (double)plain_mandelbrot(PIXELS, PIXELS, LIMIT, b[0]);
}

static double expect_histogram(const row_t *row, void **b)
{
    plain_histogram(SAMPLES, b[0], b[1]);
    return row->work;
}

/* ---- references ---- */

typedef void (*sgemm_fn)(int order, int trans_a, int trans_b, int m, int n, int k, float alpha,
                         const float *a, int lda, const float *b, int ldb, float beta, float *c,
                         int ldc);

static sgemm_fn sgemm;

/* OpenBLAS on one core, if it is installed. */
static void find_openblas(void)
{
    setenv("OPENBLAS_NUM_THREADS", "1", 1);
    void *library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library)
        *(void **)&sgemm = dlsym(library, "cblas_sgemm");
}

static void reference_matmul(const row_t *row, void **b)
{
    enum { ROW_MAJOR = 101, NO_TRANSPOSE = 111 };
    (void)row;
    sgemm(ROW_MAJOR, NO_TRANSPOSE, NO_TRANSPOSE, N, N, N, 1, b[0], N, b[1], N, 0, b[2], N);
}

/* Moves half of the bytes that the row's reference_work counts: each is read and written. */
static void reference_memcpy(const row_t *row, void **b)
{
    memcpy(b[ROW_BUFFERS - 1], b[0], row->bytes[0]);
}

/* ---- the table ---- */

static row_arg_t integer(int value)
{
    return (row_arg_t){.kind = 'i', .integer = value};
}

static row_arg_t number(float value)
{
    return (row_arg_t){.kind = 'f', .number = value};
}

static row_arg_t buffer(int index)
{
    return (row_arg_t){.kind = 'b', .integer = index};
}

static const size_t MATRIX_BYTES = sizeof(float) * N * N, STREAM_BYTES = sizeof(float) * STREAM;

static row_t matmul_row(const char *name, unsigned gx, unsigned gy, unsigned bx, unsigned by)
{
    return (row_t){.name = name,
                   .unit = "GFLOP/s",
                   .work = 2.0 * N * N * N,
                   .reference_work = 2.0 * N * N * N,
                   .grid = {gx, gy, 1},
                   .block = {bx, by, 1},
                   .args = {integer(N), buffer(0), buffer(1), buffer(2)},
                   .bytes = {MATRIX_BYTES, MATRIX_BYTES, MATRIX_BYTES},
                   .result = 2,
                   .tolerance = 1e-4,
                   .fill = fill_random,
                   .expect = expect_matmul,
                   .reference = sgemm ? reference_matmul : NULL,
                   .floor = FLOOR_FLOPS};
}

/* Buffer 3 is the target of the reference's memcpy. */
static row_t stream_row(const char *name, double (*expect)(const row_t *, void **), double bytes)
{
    return (row_t){.name = name,
                   .unit = "GB/s",
                   .work = bytes,
                   .reference_work = 2.0 * (double)STREAM_BYTES,
                   .grid = {STREAM / 256, 1, 1},
                   .block = {256, 1, 1},
                   .bytes = {STREAM_BYTES, STREAM_BYTES, 0, STREAM_BYTES},
                   .result = 1,
                   .tolerance = 1e-6,
                   .fill = fill_random,
                   .expect = expect,
                   .reference = reference_memcpy,
                   .floor = FLOOR_MEMCPY};
}

static row_t saxpy_row(void)
{
    row_t row = stream_row("saxpy", expect_saxpy, 3.0 * (double)STREAM_BYTES);
    memcpy(row.args, (row_arg_t[]){integer(STREAM), number(FACTOR), buffer(0), buffer(1)},
           4 * sizeof(row_arg_t));
    row.keeps = 1;
    return row;
}

static row_t copy_row(const char *name)
{
    row_t row = stream_row(name, expect_copy, 2.0 * (double)STREAM_BYTES);
    memcpy(row.args, (row_arg_t[]){integer(STREAM), buffer(0), buffer(1)}, 3 * sizeof(row_arg_t));
    return row;
}

static row_t reduction_row(void)
{
    row_t row = stream_row("reduction", expect_sum, (double)STREAM_BYTES);
    memcpy(row.args, (row_arg_t[]){integer(STREAM), buffer(0), buffer(1)}, 3 * sizeof(row_arg_t));
    row.bytes[1] = sizeof(float);
    row.grid[0] = 1024;
    row.tolerance = 1e-3;
    return row;
}

static row_t softmax_row(void)
{
    const size_t bytes = sizeof(float) * ROWS * SOFTMAX_COLUMNS;
    return (row_t){.name = "softmax",
                   .unit = "Gelem/s",
                   .work = ROWS * SOFTMAX_COLUMNS,
                   .reference_work = ROWS * SOFTMAX_COLUMNS,
                   .grid = {ROWS / 4, 1, 1},
                   .block = {128, 1, 1},
                   .args = {integer(ROWS), integer(SOFTMAX_COLUMNS), buffer(0), buffer(1)},
                   .bytes = {bytes, bytes},
                   .result = 1,
                   .tolerance = 1e-5,
                   .fill = fill_random,
                   .expect = expect_softmax,
                   .reference_is_expect = 1};
}

static row_t layernorm_row(void)
{
    const size_t bytes = sizeof(float) * ROWS * LAYERNORM_COLUMNS,
                 line = sizeof(float) * LAYERNORM_COLUMNS;
    return (row_t){.name = "layernorm",
                   .unit = "Gelem/s",
                   .work = ROWS * LAYERNORM_COLUMNS,
                   .reference_work = ROWS * LAYERNORM_COLUMNS,
                   .grid = {ROWS / 4, 1, 1},
                   .block = {128, 1, 1},
                   .args = {integer(ROWS), integer(LAYERNORM_COLUMNS), buffer(0), buffer(1),
                            buffer(2), buffer(3)},
                   .bytes = {bytes, line, line, bytes},
                   .result = 3,
                   .tolerance = 1e-4,
                   .fill = fill_random,
                   .expect = expect_layernorm,
                   .reference_is_expect = 1};
}

/* The kernel fuses multiplications and additions, the loop does not: at the set's edge some pixels
 * leave a few rounds earlier or later. */
static row_t mandelbrot_row(void)
{
    return (row_t){.name = "mandelbrot",
                   .unit = "Giter/s",
                   .grid = {PIXELS / 16, PIXELS / 16, 1},
                   .block = {16, 16, 1},
                   .args = {integer(PIXELS), integer(PIXELS), integer(LIMIT), buffer(0)},
                   .bytes = {sizeof(int) * PIXELS * PIXELS},
                   .result = 0,
                   .type = RESULT_INTEGERS,
                   .wrong = 0.02,
                   .fill = fill_nothing,
                   .expect = expect_mandelbrot,
                   .reference_is_expect = 1};
}

static row_t histogram_row(void)
{
    return (row_t){.name = "histogram",
                   .unit = "Gelem/s",
                   .work = SAMPLES,
                   .reference_work = SAMPLES,
                   .grid = {64, 1, 1},
                   .block = {BINS, 1, 1},
                   .args = {integer(SAMPLES), buffer(0), buffer(1)},
                   .bytes = {SAMPLES, sizeof(uint32_t) * BINS},
                   .result = 1,
                   .type = RESULT_INTEGERS,
                   .fill = fill_samples,
                   .expect = expect_histogram,
                   .reference_is_expect = 1};
}

row_t *bench_rows(void)
{
    static row_t rows[16];
    int n = 0;
    find_openblas();
    rows[n++] = matmul_row("naive", N / 32, N / 8, 32, 8);
    rows[n++] = matmul_row("tile16", N / 16, N / 16, 16, 16);
    rows[n++] = matmul_row("tile32", N / 32, N / 32, 32, 32);
    rows[n++] = matmul_row("reg4", N / 64, N / 64, 16, 16);
    rows[n++] = matmul_row("reg8", N / 128, N / 128, 256, 1);
    rows[n++] = saxpy_row();
    rows[n++] = reduction_row();
    rows[n++] = copy_row("copy");
    rows[n++] = copy_row("copy_streaming");
    rows[n++] = softmax_row();
    rows[n++] = layernorm_row();
    rows[n++] = mandelbrot_row();
    rows[n++] = histogram_row();
    return rows;
}

/* ---- buffers ---- */

enum { HUGE_PAGE = 2 << 20 };

void bench_row_buffers(const row_t *row, void **buffers)
{
    for (int i = 0; i < ROW_BUFFERS; i++) {
        size_t bytes = (row->bytes[i] + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
        buffers[i] = row->bytes[i] ? aligned_alloc(HUGE_PAGE, bytes) : NULL;
        if (row->bytes[i] && !buffers[i]) {
            gb_complain("out of memory: a row needs up to 700 MiB");
            exit(1);
        }
        if (buffers[i]) {
            madvise(buffers[i], bytes, MADV_HUGEPAGE); /* as the device's own memory has them */
            memset(buffers[i], 0, row->bytes[i]);
        }
    }
    row->fill(row, buffers);
}

void bench_row_free(const row_t *row, void **buffers)
{
    (void)row;
    for (int i = 0; i < ROW_BUFFERS; i++) {
        free(buffers[i]);
        buffers[i] = NULL;
    }
}

int bench_row_check(const row_t *row, const void *got, const void *expected, const char *whose)
{
    size_t count = row->bytes[row->result] / 4, wrong = 0, first = 0;
    for (size_t i = 0; i < count; i++) {
        int right;
        if (row->type == RESULT_INTEGERS) {
            right = ((const uint32_t *)got)[i] == ((const uint32_t *)expected)[i];
        } else {
            double x = (double)((const float *)got)[i], y = (double)((const float *)expected)[i];
            right = fabs(x - y) <= row->tolerance * fmax(1.0, fabs(y));
        }
        if (!right && !wrong++)
            first = i;
    }
    if ((double)wrong <= row->wrong * (double)count)
        return 1;
    gb_complain("%s: %s: %zu of %zu results are wrong, the first is number %zu: run the tests",
                row->name, whose, wrong, count, first);
    return 0;
}
