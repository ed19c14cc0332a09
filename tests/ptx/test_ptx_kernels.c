/* Whole kernels against plain C: what programs do, over block shapes that fit no vector. */
#include "tests/ptx/kernel_help.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const unsigned linear_blocks[] = {1, 7, 32, 33, 64, 100, 256, 1000};

static void test_saxpy(void **state)
{
    (void)state;
    for (unsigned b = 0; b < 8; b++) {
        int n = 3001;
        float a = 1.25f;
        kt_array_t x = kt_floats(n, 1), y = kt_floats(n, 2);
        float *want = malloc((size_t)n * 4);
        for (int i = 0; i < n; i++)
            want[i] = fmaf(a, x.f[i], y.f[i]);
        unsigned block = linear_blocks[b], grid = (n + block - 1) / block;
        void *params[] = {&n, &a, &x.device, &y.device};
        pt_launch(kt_kernel("saxpy"), kt_dim(grid, 1, 1), kt_dim(block, 1, 1), 0, params);
        kt_fetch(&y);
        kt_expect_floats("saxpy", &y, want, 0);
        free(want);
        kt_free(&x);
        kt_free(&y);
    }
}

static void test_grid_stride(void **state)
{
    (void)state;
    for (unsigned b = 0; b < 8; b++) {
        int n = 5000;
        kt_array_t x = kt_floats(n, 3), y = kt_zeros(n);
        float *want = malloc((size_t)n * 4);
        for (int i = 0; i < n; i++)
            want[i] = x.f[i] * 2.0f + 1.0f;
        void *params[] = {&n, &x.device, &y.device};
        pt_launch(kt_kernel("grid_stride"), kt_dim(3, 1, 1), kt_dim(linear_blocks[b], 1, 1), 0,
                  params);
        kt_fetch(&y);
        kt_expect_floats("grid_stride", &y, want, 1e-6f);
        free(want);
        kt_free(&x);
        kt_free(&y);
    }
}

static void matmul(const char *kernel, int n, pt_dim_t block, int tile)
{
    kt_array_t a = kt_floats((size_t)n * n, 4), b = kt_floats((size_t)n * n, 5);
    kt_array_t c = kt_zeros((size_t)n * n);
    float *want = malloc((size_t)n * n * 4);
    for (int i = 0; i < n; i++) {
        for (int j = 0; j < n; j++) {
            float sum = 0;
            for (int k = 0; k < n; k++)
                sum = fmaf(a.f[i * n + k], b.f[k * n + j], sum);
            want[i * n + j] = sum;
        }
    }
    int gx = tile ? (n + tile - 1) / tile : (n + (int)block.x - 1) / (int)block.x;
    int gy = tile ? gx : (n + (int)block.y - 1) / (int)block.y;
    void *params[] = {&n, &a.device, &b.device, &c.device};
    pt_launch(kt_kernel(kernel), kt_dim(gx, gy, 1), block, 0, params);
    kt_fetch(&c);
    kt_expect_floats(kernel, &c, want, 1e-6f);
    free(want);
    kt_free(&a);
    kt_free(&b);
    kt_free(&c);
}

static void test_matmul(void **state)
{
    (void)state;
    matmul("matmul_naive", 50, kt_dim(16, 16, 1), 0);
    matmul("matmul_naive", 64, kt_dim(32, 8, 1), 0);
    matmul("matmul_naive", 33, kt_dim(5, 7, 1), 0);
    matmul("matmul_naive", 40, kt_dim(1, 40, 1), 0);
    matmul("matmul_tile16", 64, kt_dim(16, 16, 1), 16);
    matmul("matmul_tile16", 75, kt_dim(16, 16, 1), 16);
    matmul("matmul_tile32", 96, kt_dim(32, 32, 1), 32);
    matmul("matmul_tile32", 70, kt_dim(32, 32, 1), 32);
    matmul("matmul_reg4", 128, kt_dim(16, 16, 1), 64);
}

static void test_reduce(void **state)
{
    (void)state;
    for (unsigned b = 0; b < 8; b++) {
        int n = 10007, want = 0;
        kt_array_t x = kt_ints(n, 6, -1000, 1000), sum = kt_zeros(1);
        for (int i = 0; i < n; i++)
            want += x.i[i];
        void *params[] = {&n, &x.device, &sum.device};
        pt_launch(kt_kernel("reduce_shared"), kt_dim(5, 1, 1), kt_dim(linear_blocks[b], 1, 1), 0,
                  params);
        kt_fetch(&sum);
        kt_expect_ints("reduce_shared", &sum, &want);
        kt_free(&x);
        kt_free(&sum);
    }
}

/* The order of the additions of a butterfly over 32 lanes. */
static float butterfly(const float *x)
{
    float v[32], w[32];
    memcpy(v, x, sizeof v);
    for (int o = 16; o > 0; o >>= 1) {
        for (int l = 0; l < 32; l++)
            w[l] = v[l] + v[l ^ o];
        memcpy(v, w, sizeof v);
    }
    return v[0];
}

static void test_reduce_shuffle(void **state)
{
    static const unsigned blocks[] = {32, 96, 256};
    (void)state;
    for (unsigned b = 0; b < 3; b++) {
        unsigned grid = 4, count = grid * blocks[b] / 32;
        int n = (int)(grid * blocks[b]) - 13;
        kt_array_t x = kt_floats(grid * blocks[b], 7), sum = kt_zeros(count);
        float *want = malloc(count * 4);
        for (unsigned i = (unsigned)n; i < grid * blocks[b]; i++)
            x.f[i] = 0;
        for (unsigned w = 0; w < count; w++)
            want[w] = butterfly(x.f + 32 * w);
        void *params[] = {&n, &x.device, &sum.device};
        pt_launch(kt_kernel("reduce_shuffle"), kt_dim(grid, 1, 1), kt_dim(blocks[b], 1, 1), 0,
                  params);
        kt_fetch(&sum);
        kt_expect_floats("reduce_shuffle", &sum, want, 0);
        free(want);
        kt_free(&x);
        kt_free(&sum);
    }
}

static void test_scan(void **state)
{
    (void)state;
    kt_array_t x = kt_ints(384, 8, -9, 9), out = kt_zeros(384);
    int32_t want[384];
    for (int i = 0; i < 384; i++)
        want[i] = (i % 32 ? want[i - 1] : 0) + x.i[i];
    void *params[] = {&x.device, &out.device};
    pt_launch(kt_kernel("scan_warp"), kt_dim(3, 1, 1), kt_dim(128, 1, 1), 0, params);
    kt_fetch(&out);
    kt_expect_ints("scan_warp", &out, want);
    kt_free(&x);
    kt_free(&out);
}

static void test_compact(void **state)
{
    (void)state;
    kt_array_t x = kt_ints(256, 9, -5, 5), out = kt_zeros(256), counts = kt_zeros(8);
    int32_t want[256] = {0}, want_counts[8] = {0};
    for (int i = 0; i < 256; i++) {
        if (x.i[i] > 0)
            want[i / 32 * 32 + want_counts[i / 32]++] = x.i[i];
    }
    void *params[] = {&x.device, &out.device, &counts.device};
    pt_launch(kt_kernel("compact_warp"), kt_dim(4, 1, 1), kt_dim(64, 1, 1), 0, params);
    kt_fetch(&out);
    kt_fetch(&counts);
    kt_expect_ints("compact_warp", &out, want);
    kt_expect_ints("compact_warp counts", &counts, want_counts);
    kt_free(&x);
    kt_free(&out);
    kt_free(&counts);
}

static void test_histogram(void **state)
{
    static const unsigned blocks[] = {33, 256, 100};
    (void)state;
    for (unsigned b = 0; b < 3; b++) {
        kt_array_t x = kt_ints(2500, 10, INT32_MIN / 2, INT32_MAX / 2), bins = kt_zeros(256);
        int32_t want[256] = {0};
        int n = 10000;
        for (int i = 0; i < n; i++)
            want[((const unsigned char *)x.data)[i]]++;
        void *params[] = {&n, &x.device, &bins.device};
        pt_launch(kt_kernel("histogram"), kt_dim(4, 1, 1), kt_dim(blocks[b], 1, 1), 0, params);
        kt_fetch(&bins);
        kt_expect_ints("histogram", &bins, want);
        kt_free(&x);
        kt_free(&bins);
    }
}

static int escape(float cx, float cy, int limit)
{
    float x = 0, y = 0;
    int i = 0;
    for (; i < limit; i++) {
        float xx = x * x, yy = y * y;
        if (xx + yy > 4.0f)
            break;
        y = fmaf(2.0f * x, y, cy);
        x = xx - yy + cx;
    }
    return i;
}

/* The compilers of the two sides may contract differently: points near the border may differ. */
static void test_mandelbrot(void **state)
{
    int w = 61, h = 43, limit = 100, off = 0;
    (void)state;
    kt_array_t out = kt_zeros((size_t)w * h);
    void *params[] = {&w, &h, &limit, &out.device};
    pt_launch(kt_kernel("mandelbrot"), kt_dim(4, 6, 1), kt_dim(16, 8, 1), 0, params);
    kt_fetch(&out);
    for (int y = 0; y < h; y++) {
        for (int x = 0; x < w; x++) {
            int want = escape(-2.0f + 3.0f * x / w, -1.5f + 3.0f * y / h, limit);
            off += out.i[y * w + x] != want;
        }
    }
    if (off > w * h / 50)
        fail_msg("mandelbrot: %d of %d differ", off, w * h);
    kt_free(&out);
}

static void test_early_exit(void **state)
{
    static const int sizes[][2] = {{64, 64}, {64, 50}, {33, 20}, {256, 1}, {100, 97}};
    (void)state;
    for (unsigned c = 0; c < 5; c++) {
        int block = sizes[c][0], n = sizes[c][1], rounds = 5, grid = 3;
        kt_array_t out = kt_zeros((size_t)grid * n);
        int32_t *want = calloc((size_t)grid * n, 4), s[256], t[256];
        for (int i = 0; i < n; i++)
            s[i] = i + 1;
        for (int r = 0; r < rounds; r++) {
            for (int i = 0; i < n; i++)
                t[i] = s[(i + 1) % n] + r;
            memcpy(s, t, sizeof s);
        }
        for (int i = 0; i < grid * n; i++)
            want[i] = s[i % n];
        void *params[] = {&n, &rounds, &out.device};
        pt_launch(kt_kernel("early_exit"), kt_dim(grid, 1, 1), kt_dim(block, 1, 1), 0, params);
        kt_fetch(&out);
        kt_expect_ints("early_exit", &out, want);
        free(want);
        kt_free(&out);
    }
}

static const pt_dim_t shapes[] = {{1, 1, 1},  {32, 1, 1}, {33, 1, 1}, {256, 1, 1}, {16, 16, 1},
                                  {32, 4, 1}, {8, 4, 2},  {5, 3, 7},  {1, 64, 1},  {3, 1, 40},
                                  {17, 5, 1}, {1, 1, 33}, {64, 3, 2}};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

static void test_loop_barriers(void **state)
{
    (void)state;
    for (unsigned c = 0; c < SHAPES; c++) {
        pt_dim_t b = shapes[c];
        int size = (int)(b.x * b.y * b.z), rounds = 6;
        kt_array_t out = kt_zeros(2 * (size_t)size);
        int32_t *s = calloc(2 * (size_t)size, 4), *t = calloc((size_t)size, 4);
        for (int i = 0; i < size; i++)
            s[i] = i * 3;
        for (int r = 0; r < rounds; r++) {
            for (int i = 0; i < size; i++) {
                if (r & 1)
                    t[(i + 1) % size] = s[i] + 1;
                else
                    t[i] = s[i] ^ s[size - 1 - i];
            }
            memcpy(s, t, (size_t)size * 4);
        }
        memcpy(s + size, s, (size_t)size * 4);
        void *params[] = {&rounds, &out.device};
        pt_launch(kt_kernel("loop_barriers"), kt_dim(2, 1, 1), b, (unsigned)size * 4, params);
        kt_fetch(&out);
        kt_expect_ints("loop_barriers", &out, s);
        free(s);
        free(t);
        kt_free(&out);
    }
}

static int32_t row_value(int x, int y)
{
    uint32_t v = 0;
    if (y & 1) {
        for (int i = 0; i < y + 3; i++)
            v += (uint32_t)(i * x);
    } else if (y % 3 == 0) {
        for (int i = 0; i < (x & 7); i++)
            v = v * 3 + (uint32_t)i;
    } else {
        v = (uint32_t)-x;
    }
    return (int32_t)((x + y) & 1 ? v ^ 0x55 : v);
}

static void test_rows_disagree(void **state)
{
    static const pt_dim_t blocks[] = {{16, 16, 1}, {32, 8, 1}, {8, 32, 1}, {5, 9, 1},
                                      {64, 4, 1},  {1, 50, 1}, {40, 6, 1}};
    (void)state;
    for (unsigned c = 0; c < 7; c++) {
        pt_dim_t b = blocks[c];
        size_t size = b.x * b.y;
        kt_array_t out = kt_zeros(2 * size);
        int32_t *want = malloc(2 * size * 4);
        for (size_t i = 0; i < 2 * size; i++)
            want[i] = row_value((int)(i % size % b.x), (int)(i % size / b.x));
        void *params[] = {&out.device};
        pt_launch(kt_kernel("rows_disagree"), kt_dim(2, 1, 1), b, 0, params);
        kt_fetch(&out);
        kt_expect_ints("rows_disagree", &out, want);
        free(want);
        kt_free(&out);
    }
}

static int32_t collatz_steps(int64_t v)
{
    int32_t count = 0;
    while (v != 1) {
        count++;
        if (v & 1) {
            v = 3 * v + 1;
            continue;
        }
        v >>= 1;
        if (count > 400)
            break;
    }
    return count;
}

static void test_collatz(void **state)
{
    (void)state;
    for (unsigned b = 1; b < 8; b++) {
        int n = 700;
        unsigned block = linear_blocks[b];
        kt_array_t out = kt_zeros((size_t)n);
        int32_t want[700];
        for (int i = 0; i < n; i++)
            want[i] = collatz_steps(i + 1);
        void *params[] = {&n, &out.device};
        pt_launch(kt_kernel("collatz"), kt_dim((n + block - 1) / block, 1, 1), kt_dim(block, 1, 1),
                  0, params);
        kt_fetch(&out);
        kt_expect_ints("collatz", &out, want);
        kt_free(&out);
    }
}

static int32_t chosen(int32_t value, int i)
{
    uint32_t v = (uint32_t)value;
    switch (v & 15) {
    case 0:
        v += 100;
        break;
    case 1:
        v *= 7;
        break;
    case 2:
        v -= (uint32_t)i; /* fall through */
    case 3:
        v ^= 0xff;
        break;
    case 4:
        v = 0 - v;
        break;
    case 5:
        for (uint32_t k = 0; (int32_t)k < ((int32_t)v >> 4 & 7); k++)
            v += k;
        break;
    case 6:
        v <<= 2;
        break;
    case 9:
        v = (uint32_t)((int32_t)v / 3);
        break;
    case 12:
        v = (uint32_t)((int32_t)v % 11);
        break;
    default:
        v = ~v;
        break;
    }
    return (int32_t)v;
}

static void test_choose(void **state)
{
    (void)state;
    for (unsigned b = 1; b < 8; b++) {
        int n = 1500;
        unsigned block = linear_blocks[b];
        kt_array_t x = kt_ints((size_t)n, 11, -1000000, 1000000), out = kt_zeros((size_t)n);
        int32_t want[1500];
        for (int i = 0; i < n; i++)
            want[i] = chosen(x.i[i], i);
        void *params[] = {&n, &x.device, &out.device};
        pt_launch(kt_kernel("choose"), kt_dim((n + block - 1) / block, 1, 1), kt_dim(block, 1, 1),
                  0, params);
        kt_fetch(&out);
        kt_expect_ints("choose", &out, want);
        kt_free(&x);
        kt_free(&out);
    }
}

static void test_indices(void **state)
{
    (void)state;
    for (unsigned c = 0; c < SHAPES; c++) {
        pt_dim_t b = shapes[c], g = {3, 2, 2};
        unsigned threads = b.x * b.y * b.z, total = threads * g.x * g.y * g.z;
        kt_array_t out = kt_zeros(4 * (size_t)total);
        int32_t *want = malloc(16 * (size_t)total);
        for (unsigned i = 0; i < total; i++) {
            unsigned t = i % threads, k = i / threads;
            want[4 * i] = (int32_t)(t % b.x | t / b.x % b.y << 10 | t / b.x / b.y << 20);
            want[4 * i + 1] = (int32_t)(k % g.x | k / g.x % g.y << 10 | k / g.x / g.y << 20);
            want[4 * i + 2] = (int32_t)(b.x | b.y << 10 | b.z << 20);
            want[4 * i + 3] = (int32_t)(g.x | g.y << 10 | g.z << 20);
        }
        void *params[] = {&out.device};
        pt_launch(kt_kernel("indices"), g, b, 0, params);
        kt_fetch(&out);
        kt_expect_ints("indices", &out, want);
        free(want);
        kt_free(&out);
    }
}

static void test_spin_lock(void **state)
{
    (void)state;
    kt_array_t lock = kt_zeros(1), counter = kt_zeros(1);
    int32_t want = 2 * 70;
    void *params[] = {&lock.device, &counter.device};
    pt_launch(kt_kernel("spin_lock"), kt_dim(2, 1, 1), kt_dim(70, 1, 1), 0, params);
    kt_fetch(&counter);
    kt_expect_ints("spin_lock", &counter, &want);
    kt_free(&lock);
    kt_free(&counter);
}

static int ascending(const void *a, const void *b)
{
    int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return x < y ? -1 : x > y;
}

static void test_local_array(void **state)
{
    (void)state;
    for (unsigned b = 1; b < 8; b++) {
        int n = 400;
        unsigned block = linear_blocks[b];
        kt_array_t x = kt_ints((size_t)n, 12, -100, 100), out = kt_zeros((size_t)n);
        int32_t want[400];
        for (int i = 0; i < n; i++) {
            int32_t a[16];
            for (int k = 0; k < 16; k++)
                a[k] = x.i[(i + k) % n];
            qsort(a, 16, sizeof a[0], ascending);
            want[i] = a[x.i[i] & 15];
        }
        void *params[] = {&n, &x.device, &out.device};
        pt_launch(kt_kernel("local_array"), kt_dim((n + block - 1) / block, 1, 1),
                  kt_dim(block, 1, 1), 0, params);
        kt_fetch(&out);
        kt_expect_ints("local_array", &out, want);
        kt_free(&x);
        kt_free(&out);
    }
}

static void test_last_block(void **state)
{
    int n = 256 * 9 - 5, want = 0;
    (void)state;
    kt_array_t x = kt_ints((size_t)n, 13, -1000, 1000), partial = kt_zeros(9);
    kt_array_t arrived = kt_zeros(1), sum = kt_zeros(1);
    for (int i = 0; i < n; i++)
        want += x.i[i];
    void *params[] = {&n, &x.device, &partial.device, &arrived.device, &sum.device};
    pt_launch(kt_kernel("last_block"), kt_dim(9, 1, 1), kt_dim(256, 1, 1), 0, params);
    kt_fetch(&sum);
    kt_expect_ints("last_block", &sum, &want);
    kt_free(&x);
    kt_free(&partial);
    kt_free(&arrived);
    kt_free(&sum);
}

static void test_block_votes(void **state)
{
    (void)state;
    for (unsigned b = 0; b < 8; b++) {
        unsigned block = linear_blocks[b], grid = 3, n = grid * block;
        kt_array_t x = kt_ints(n, 14, 0, 1), out = kt_zeros(3 * (size_t)n);
        int32_t *want = calloc(3 * (size_t)n, 4);
        for (unsigned i = 0; i < n; i++) {
            if (i / block == 1)
                x.i[i] = 1; /* a block where all agree */
        }
        PT_CHECK(pt_cuda()->cuMemcpyHtoD_v2(x.device, x.data, n * 4));
        for (unsigned i = 0; i < n; i++) {
            int count = 0;
            for (unsigned k = 0; k < block; k++)
                count += x.i[i / block * block + k];
            want[3 * i] = count;
            want[3 * i + 1] = count == (int)block;
            want[3 * i + 2] = count > 0;
        }
        void *params[] = {&x.device, &out.device};
        pt_launch(kt_kernel("block_votes"), kt_dim(grid, 1, 1), kt_dim(block, 1, 1), 0, params);
        kt_fetch(&out);
        kt_expect_ints("block_votes", &out, want);
        free(want);
        kt_free(&x);
        kt_free(&out);
    }
}

static void test_transpose(void **state)
{
    int w = 70, h = 45;
    (void)state;
    kt_array_t x = kt_floats((size_t)w * h, 15), out = kt_zeros((size_t)w * h);
    float *want = malloc((size_t)w * h * 4);
    for (int r = 0; r < h; r++) {
        for (int c = 0; c < w; c++)
            want[c * h + r] = x.f[r * w + c];
    }
    void *params[] = {&w, &h, &x.device, &out.device};
    pt_launch(kt_kernel("transpose"), kt_dim(3, 2, 1), kt_dim(32, 8, 1), 0, params);
    kt_fetch(&out);
    kt_expect_floats("transpose", &out, want, 0);
    free(want);
    kt_free(&x);
    kt_free(&out);
}

static void test_softmax(void **state)
{
    int rows = 13, columns = 77;
    (void)state;
    kt_array_t x = kt_floats((size_t)rows * columns, 16), out = kt_zeros((size_t)rows * columns);
    float *want = malloc((size_t)rows * columns * 4);
    for (int r = 0; r < rows; r++) {
        double top = -1e30, sum = 0;
        for (int i = 0; i < columns; i++)
            top = fmax(top, (double)x.f[r * columns + i]);
        for (int i = 0; i < columns; i++)
            sum += exp((double)x.f[r * columns + i] - top);
        for (int i = 0; i < columns; i++)
            want[r * columns + i] = (float)(exp((double)x.f[r * columns + i] - top) / sum);
    }
    void *params[] = {&rows, &columns, &x.device, &out.device};
    pt_launch(kt_kernel("softmax_rows"), kt_dim(4, 1, 1), kt_dim(128, 1, 1), 0, params);
    kt_fetch(&out);
    kt_expect_floats("softmax_rows", &out, want, 2e-6f);
    free(want);
    kt_free(&x);
    kt_free(&out);
}

static void test_divergent_warp(void **state)
{
    (void)state;
    kt_array_t x = kt_ints(128, 17, -99, 99), out = kt_zeros(128);
    int32_t want[128];
    for (int i = 0; i < 128; i++) {
        int lane = i % 32, warp = i - lane;
        uint32_t ballot = 0;
        for (int l = 0; l < 16; l++)
            ballot |= ((uint32_t)(x.i[warp + l] + x.i[warp + (l ^ 5)]) & 1u) << l;
        if (lane < 16)
            want[i] = (int32_t)((uint32_t)(x.i[i] + x.i[warp + (lane ^ 5)]) + ballot);
        else
            want[i] = lane & 1 ? (int32_t)0xaaaa0000 : x.i[i];
    }
    void *params[] = {&x.device, &out.device};
    pt_launch(kt_kernel("divergent_warp"), kt_dim(2, 1, 1), kt_dim(64, 1, 1), 0, params);
    kt_fetch(&out);
    kt_expect_ints("divergent_warp", &out, want);
    kt_free(&x);
    kt_free(&out);
}

static void test_same_address(void **state)
{
    (void)state;
    for (unsigned b = 0; b < 7; b++) {
        unsigned block = linear_blocks[b], n = 3 * block;
        kt_array_t cells = kt_zeros(9);
        int32_t want[9] = {0};
        for (unsigned i = 0; i < n; i++) {
            want[0] += (int32_t)i;
            want[3] |= (int32_t)(1u << (i & 31));
            want[4 + (i & 3)]++;
            want[8] ^= i & 1 ? (int32_t)i : 0;
        }
        want[1] = (int32_t)n - 1;
        want[2] = -((int32_t)n - 1);
        void *params[] = {&cells.device};
        pt_launch(kt_kernel("same_address"), kt_dim(3, 1, 1), kt_dim(block, 1, 1), 0, params);
        kt_fetch(&cells);
        kt_expect_ints("same_address", &cells, want);
        kt_free(&cells);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_saxpy),          cmocka_unit_test(test_grid_stride),
        cmocka_unit_test(test_matmul),         cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_reduce_shuffle), cmocka_unit_test(test_scan),
        cmocka_unit_test(test_compact),        cmocka_unit_test(test_histogram),
        cmocka_unit_test(test_mandelbrot),     cmocka_unit_test(test_early_exit),
        cmocka_unit_test(test_loop_barriers),  cmocka_unit_test(test_rows_disagree),
        cmocka_unit_test(test_collatz),        cmocka_unit_test(test_choose),
        cmocka_unit_test(test_indices),        cmocka_unit_test(test_spin_lock),
        cmocka_unit_test(test_local_array),    cmocka_unit_test(test_last_block),
        cmocka_unit_test(test_block_votes),    cmocka_unit_test(test_transpose),
        cmocka_unit_test(test_softmax),        cmocka_unit_test(test_divergent_warp),
        cmocka_unit_test(test_same_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
