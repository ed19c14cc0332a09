/* wk_kernels.cu - every layer forward and backward, the input gather and the optimizer.
 *
 * A thread keeps a tile of independent sums in registers; the tile's sizes are the template arguments
 * and stand in the kernel's name. Where a tile sticks out, indices are clamped for reading and stores
 * are guarded by conditions that are the same for the whole thread block. No atomics: every sum has a
 * fixed order, so that a seed gives the same bits on every run. */
#include "common/cuda/gb_device.cuh"
#include "worker/kernels/wk_kernels.h"

#define L WK_LANES

/* Block of 32 samples that this thread works on. */
GB_DEVICE int sample_block(int groups)
{
    return (int)(blockIdx.x % (unsigned)groups) * blockDim.y + threadIdx.y;
}

/* Tile of the grid's x direction. */
GB_DEVICE int tile_index(int groups)
{
    return (int)(blockIdx.x / (unsigned)groups);
}

/* ---- input ---- */

extern "C" __global__ void wk_gather(wk_gather_args_t a)
{
    int block = sample_block(a.groups), quad = tile_index(a.groups);
    int n = block * L + threadIdx.x;
    unsigned pixels = 0;
    bool real = n < a.valid;
    if (real) {
        const unsigned char *image = a.images + (size_t)a.order[n] * a.image_stride;
        pixels = *(const unsigned *)(image + blockIdx.y * a.image_row + quad * 4);
    }
    float *y =
        a.y + (long long)block * a.y_n + (int)blockIdx.y * a.y_row + quad * 4 * L + threadIdx.x;
    float scale = real ? a.scale : 0.0f, shift = real ? a.shift : 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++)
        y[i * L] = fmaf((float)(pixels >> (8 * i) & 255), scale, shift);
}

/* For images whose rows are no multiple of four pixels: one pixel a thread. */
extern "C" __global__ void wk_gather_single(wk_gather_args_t a)
{
    int block = sample_block(a.groups), column = tile_index(a.groups);
    int n = block * L + threadIdx.x;
    float v = 0.0f;
    if (n < a.valid) {
        const unsigned char *image = a.images + (size_t)a.order[n] * a.image_stride;
        v = fmaf((float)image[blockIdx.y * a.image_row + column], a.scale, a.shift);
    }
    a.y[(long long)block * a.y_n + (int)blockIdx.y * a.y_row + column * L + threadIdx.x] = v;
}

extern "C" __global__ void wk_gather_rows(wk_gather_rows_args_t a)
{
    int p = blockIdx.x * L + threadIdx.x, n = blockIdx.y;
    if (p >= a.pixels)
        return;
    float v = 0.0f;
    if (n < a.valid)
        v = fmaf((float)a.images[(size_t)a.order[n] * a.image_stride + p], a.scale, a.shift);
    a.y[((long long)blockIdx.x * a.samples + n) * L + threadIdx.x] = v;
}

/* ---- convolution ---- */

/* The sums of one row of taps: KW columns of the kernel, weights DIR apart. */
template <int TO, int TX, int KW, int DIR>
GB_DEVICE void conv_taps(const float *x, const float *const *w, int k, float (*sum)[TX])
{
#pragma unroll
    for (int j = 0; j < KW; j++) {
        float weight[TO];
#pragma unroll
        for (int o = 0; o < TO; o++)
            weight[o] = w[o][k + j * DIR];
#pragma unroll
        for (int t = 0; t < TX; t++) {
            float v = x[(t + j) * L];
#pragma unroll
            for (int o = 0; o < TO; o++)
                sum[o][t] = fmaf(weight[o], v, sum[o][t]);
        }
    }
}

/* All taps of TO outputs from `first` on; `x` is the window's first row and column. */
template <int TO, int TX, int K, int DIR>
GB_DEVICE void conv_sums(const wk_conv_args_t &a, const float *window, int first, float (*sum)[TX])
{
    int row = blockIdx.y, kernel = K ? K : a.kernel;
    int i0 = max(0, a.row_first - row), i1 = min(kernel, a.row_end - row);
    const float *w[TO];
#pragma unroll
    for (int o = 0; o < TO; o++) {
        int out = min(first + o, a.outs - 1);
        w[o] = a.w + (long long)out * a.w_o;
        float start = a.bias ? a.bias[out] : 0.0f;
#pragma unroll
        for (int t = 0; t < TX; t++)
            sum[o][t] = start;
    }
    for (int c = 0; c < a.channels; c++) {
        const float *x = window + (long long)c * a.x_c + (long long)i0 * a.x_row;
        int k = c * a.w_c + i0 * a.w_i;
        for (int i = i0; i < i1; i++) {
            if (K) {
                conv_taps<TO, TX, K, DIR>(x, w, k, sum);
            } else {
                for (int j = 0; j < kernel; j++)
                    conv_taps<TO, TX, 1, 1>(x + j * L, w, k + j * a.w_j, sum);
            }
            x += a.x_row;
            k += a.w_i;
        }
    }
}

template <int TO, int TX>
GB_DEVICE void conv_store(const wk_conv_args_t &a, int block, int first, int q,
                          const float (*sum)[TX])
{
    int row = blockIdx.y;
#pragma unroll
    for (int o = 0; o < TO; o++) {
        if (first + o >= a.outs)
            break;
        float *y = a.y + (long long)block * a.y_n + (long long)(first + o) * a.y_c + row * a.y_row +
                   q * L + threadIdx.x;
        const float *mask = a.mask + (long long)block * a.mask_n +
                            (long long)(first + o) * a.mask_c + row * a.mask_row + q * L +
                            threadIdx.x;
#pragma unroll
        for (int t = 0; t < TX; t++) {
            float v = sum[o][t];
            if (a.relu)
                v = fmaxf(v, 0.0f);
            if (a.mask)
                v = mask[t * L] > 0.0f ? v : 0.0f;
            y[t * L] = v;
        }
    }
}

template <int TO, int TX, int K, int DIR> GB_DEVICE void conv(const wk_conv_args_t &a)
{
    int block = sample_block(a.groups);
    /* The last tile of a row is moved to the left, so that it ends with the row. */
    int q = min(tile_index(a.groups) * TX, a.width - TX);
    int begin = (int)blockIdx.z * a.span, end = min(begin + a.span, a.outs);
    const float *window =
        a.x + (long long)block * a.x_n + (long long)blockIdx.y * a.x_row + q * L + (int)threadIdx.x;
    for (int first = begin; first < end; first += TO) {
        float sum[TO][TX];
        conv_sums<TO, TX, K, DIR>(a, window, first, sum);
        conv_store<TO, TX>(a, block, first, q, sum);
    }
}

#define WK_CONV(TO, TX, K)                                                                         \
    extern "C" __global__ __launch_bounds__(128) void wk_conv_##TO##x##TX##_k##K(wk_conv_args_t a) \
    {                                                                                              \
        conv<TO, TX, K, 1>(a);                                                                     \
    }
#define WK_CONV_BACK(TO, TX, K)                                                                    \
    extern "C" __global__ __launch_bounds__(128) void wk_conv_##TO##x##TX##_k##K##_back(           \
        wk_conv_args_t a)                                                                          \
    {                                                                                              \
        conv<TO, TX, K, -1>(a);                                                                    \
    }
#define WK_CONV_BOTH(TO, TX)                                                                       \
    WK_CONV(TO, TX, 3)                                                                             \
    WK_CONV_BACK(TO, TX, 3)                                                                        \
    WK_CONV(TO, TX, 5)                                                                             \
    WK_CONV_BACK(TO, TX, 5)
WK_CONV_BOTH(1, 1)
WK_CONV_BOTH(2, 4)
WK_CONV_BOTH(2, 5)
WK_CONV(1, 1, 0)
WK_CONV(2, 4, 0)

/* Adds up value[0..COUNT) over the thread block (32, B), in a fixed order; COUNT is at most 32. Thread
 * (k, 0) holds the total of value[k] at the end. */
template <int COUNT> GB_DEVICE float block_totals(const float *value)
{
    __shared__ float part[COUNT][4][L];
    int lane = threadIdx.x;
    __syncthreads(); /* an earlier call may still read */
#pragma unroll
    for (int k = 0; k < COUNT; k++)
        part[k][threadIdx.y][lane] = value[k];
    __syncthreads();
    if (threadIdx.y == 0) {
        for (int y = 1; y < (int)blockDim.y; y++) {
#pragma unroll
            for (int k = 0; k < COUNT; k++)
                part[k][0][lane] += part[k][y][lane];
        }
    }
    __syncthreads();
    if (threadIdx.y == 0 && lane < L / 2) {
#pragma unroll
        for (int k = 0; k < COUNT; k++)
            part[k][0][lane] += part[k][0][lane + L / 2];
    }
    __syncthreads();
    float total = 0.0f;
    if (threadIdx.y == 0 && lane < COUNT) {
        for (int i = 0; i < L / 2; i++)
            total += part[lane][0][i];
    }
    return total;
}

template <int TO> GB_DEVICE void conv_db(const wk_conv_dw_args_t &a)
{
    float sum[TO];
    int first = blockIdx.z * TO;
#pragma unroll
    for (int o = 0; o < TO; o++)
        sum[o] = 0.0f;
    for (int round = 0; round < a.groups; round++) {
        int block = round * blockDim.y + threadIdx.y;
        for (int r = 0; r < a.rows; r++) {
            const float *dy[TO];
#pragma unroll
            for (int o = 0; o < TO; o++)
                dy[o] = a.dy + (long long)block * a.dy_n +
                        (long long)min(first + o, a.outs - 1) * a.dy_c + r * a.dy_row +
                        (int)threadIdx.x;
            for (int q = 0; q < a.width; q++) {
#pragma unroll
                for (int o = 0; o < TO; o++)
                    sum[o] += dy[o][q * L];
            }
        }
    }
    float total = block_totals<TO>(sum);
    int o = threadIdx.x;
    if (threadIdx.y == 0 && o < TO && first + o < a.outs)
        a.db[first + o] = total;
}

/* One row i of the kernel, KW taps from column j0 on, of TO filters. */
template <int TO, int KW>
GB_DEVICE void conv_dw_row(const wk_conv_dw_args_t &a, int c, int first, int i, int j0)
{
    float sum[TO * KW];
#pragma unroll
    for (int k = 0; k < TO * KW; k++)
        sum[k] = 0.0f;
    for (int round = 0; round < a.groups; round++) {
        int block = round * blockDim.y + threadIdx.y;
        for (int r = 0; r < a.rows; r++) {
            const float *x = a.x + (long long)block * a.x_n + (long long)c * a.x_c +
                             (long long)(r + i) * a.x_row + j0 * L + (int)threadIdx.x;
            const float *dy[TO];
#pragma unroll
            for (int o = 0; o < TO; o++)
                dy[o] = a.dy + (long long)block * a.dy_n +
                        (long long)min(first + o, a.outs - 1) * a.dy_c + (long long)r * a.dy_row +
                        (int)threadIdx.x;
#pragma unroll 2
            for (int q = 0; q < a.width; q++) {
                float g[TO];
#pragma unroll
                for (int o = 0; o < TO; o++)
                    g[o] = dy[o][q * L];
#pragma unroll
                for (int j = 0; j < KW; j++) {
                    float v = x[(q + j) * L];
#pragma unroll
                    for (int o = 0; o < TO; o++)
                        sum[o * KW + j] = fmaf(g[o], v, sum[o * KW + j]);
                }
            }
        }
    }
    float total = block_totals<TO * KW>(sum);
    int o = threadIdx.x / KW, j = threadIdx.x % KW;
    if (threadIdx.y == 0 && o < TO && first + o < a.outs)
        a.dw[(((long long)(first + o) * a.channels + c) * a.kernel + i) * a.kernel + j0 + j] =
            total;
}

/* The rows of a K x K kernel one after the other, while dy and x are in the cache. */
template <int TO, int K> GB_DEVICE void conv_dw(const wk_conv_dw_args_t &a)
{
    int c = blockIdx.y, first = blockIdx.z * TO;
    if (c == a.channels) {
        conv_db<TO>(a);
        return;
    }
    for (int i = 0; i < K; i++)
        conv_dw_row<TO, K>(a, c, first, i, 0);
}

extern "C" __global__ __launch_bounds__(128) void wk_conv_dw_5(wk_conv_dw_args_t a)
{
    conv_dw<2, 5>(a);
}
extern "C" __global__ __launch_bounds__(128) void wk_conv_dw_3(wk_conv_dw_args_t a)
{
    conv_dw<4, 3>(a);
}
/* Kernels of any size, a tap at a time. */
extern "C" __global__ __launch_bounds__(128) void wk_conv_dw_any(wk_conv_dw_args_t a)
{
    int c = blockIdx.y, first = blockIdx.z * 4;
    if (c < a.channels) {
        for (int j = 0; j < a.kernel; j++)
            conv_dw_row<4, 1>(a, c, first, blockIdx.x, j);
    } else if (blockIdx.x == 0) {
        conv_db<4>(a);
    }
}

/* ---- max-pooling ---- */

/* SIZE is the window; 0 takes it from the arguments. */
template <int SIZE> GB_DEVICE void pool(const wk_pool_args_t &a)
{
    int block = sample_block(a.groups), row = blockIdx.y, c = blockIdx.z;
    int size = SIZE ? SIZE : a.size, lane = threadIdx.x;
    const float *x = a.x + (long long)block * a.x_n + (long long)c * a.x_c +
                     (long long)row * size * a.x_row + lane;
    float *y =
        a.y + (long long)block * a.y_n + (long long)c * a.y_c + (long long)row * a.y_row + lane;
    unsigned char *which =
        a.which + (((long long)block * gridDim.z + c) * gridDim.y + row) * a.width * L + lane;
    for (int q = 0; q < a.width; q++) {
        float best = x[0];
        int place = 0;
        for (int i = 0; i < size; i++) {
            for (int j = 0; j < size; j++) {
                float v = x[i * a.x_row + j * L];
                place = v > best ? i * size + j : place;
                best = fmaxf(v, best);
            }
        }
        *y = a.relu ? fmaxf(best, 0.0f) : best;
        *which = (unsigned char)place;
        x += size * L;
        y += L;
        which += L;
    }
}

template <int SIZE> GB_DEVICE void pool_dx(const wk_pool_dx_args_t &a)
{
    int block = sample_block(a.groups), row = blockIdx.y, c = blockIdx.z;
    int size = SIZE ? SIZE : a.size, lane = threadIdx.x;
    const float *dy =
        a.dy + (long long)block * a.dy_n + (long long)c * a.dy_c + (long long)row * a.dy_row + lane;
    const float *y =
        a.y + (long long)block * a.y_n + (long long)c * a.y_c + (long long)row * a.y_row + lane;
    float *dx = a.dx + (long long)block * a.dx_n + (long long)c * a.dx_c +
                (long long)row * size * a.dx_row + lane;
    const unsigned char *which =
        a.which + (((long long)block * gridDim.z + c) * gridDim.y + row) * a.width * L + lane;
    for (int q = 0; q < a.width; q++) {
        float g = *dy;
        int place = *which;
        if (a.mask)
            g = *y > 0.0f ? g : 0.0f;
        for (int i = 0; i < size; i++)
            for (int j = 0; j < size; j++)
                dx[i * a.dx_row + j * L] = place == i * size + j ? g : 0.0f;
        dx += size * L;
        dy += L;
        y += L;
        which += L;
    }
}

extern "C" __global__ void wk_pool(wk_pool_args_t a)
{
    pool<0>(a);
}
extern "C" __global__ void wk_pool_2(wk_pool_args_t a)
{
    pool<2>(a);
}
extern "C" __global__ void wk_pool_dx(wk_pool_dx_args_t a)
{
    pool_dx<0>(a);
}
extern "C" __global__ void wk_pool_dx_2(wk_pool_dx_args_t a)
{
    pool_dx<2>(a);
}

/* ---- linear ---- */

#define DEPTH_PART 128 /* of x, in the cache at a time */

/* Stores sums; after the last part of the depth they are results. */
template <int T>
GB_DEVICE void linear_store(const wk_linear_args_t &a, long long at, int rows, bool last,
                            const float *sum)
{
    float *y = a.y + at;
    const float *mask = a.mask + at;
#pragma unroll
    for (int t = 0; t < T; t++) {
        if (t >= rows)
            break;
        float v = sum[t];
        if (last && a.relu)
            v = fmaxf(v, 0.0f);
        if (last && a.mask)
            v = mask[t * L] > 0.0f ? v : 0.0f;
        y[t * L] = v;
    }
}

/* Sums so far: the bias at first, then what the part before has stored. */
template <int T>
GB_DEVICE void linear_load(const wk_linear_args_t &a, long long at, int first, int rows, bool begin,
                           float *sum)
{
    const float *y = a.y + at;
#pragma unroll
    for (int t = 0; t < T; t++) {
        int row = min(t, rows - 1);
        sum[t] = !begin ? y[row * L] : a.bias ? a.bias[first + row] : 0.0f;
    }
}

/* Steps of the depth are written out by eights with constant offsets: few address registers, and few
 * checks where addresses are checked. */
template <int T, int STEPS>
GB_DEVICE void linear_steps(const float *x, const float *const *w, float *sum)
{
#pragma unroll
    for (int u = 0; u < STEPS; u++) {
        float v = x[u * L];
#pragma unroll
        for (int t = 0; t < T; t++)
            sum[t] = fmaf(w[t][u], v, sum[t]);
    }
}

template <int T>
GB_DEVICE void linear_sums(const wk_linear_args_t &a, const float *x, int first, int rows, int b0,
                           int b1, float *sum)
{
    const float *w[T];
#pragma unroll
    for (int t = 0; t < T; t++)
        w[t] = a.w + (long long)(first + min(t, rows - 1)) * a.w_stride + b0;
    x += (long long)b0 * L;
    int b = b0;
#pragma unroll 1
    for (; b + 8 <= b1; b += 8) {
        linear_steps<T, 8>(x, w, sum);
        x += 8 * L;
#pragma unroll
        for (int t = 0; t < T; t++)
            w[t] += 8;
    }
#pragma unroll 1
    for (; b < b1; b++) {
        linear_steps<T, 1>(x, w, sum);
        x += L;
#pragma unroll
        for (int t = 0; t < T; t++)
            w[t]++;
    }
}

template <int T>
GB_DEVICE void linear_dx_sums(const wk_linear_args_t &a, const float *x, int first, int rows,
                              int b0, int b1, float *sum)
{
    const float *w = a.w + (long long)b0 * a.w_stride + first;
    int b = b0;
    x += (long long)b0 * L;
#pragma unroll 1
    for (; rows >= T && b + 8 <= b1; b += 8) {
#pragma unroll
        for (int u = 0; u < 8; u++) {
            float v = x[u * L];
#pragma unroll
            for (int t = 0; t < T; t++)
                sum[t] = fmaf(w[t], v, sum[t]);
            w += a.w_stride;
        }
        x += 8 * L;
    }
#pragma unroll 1
    for (; b < b1; b++) {
        float v = *x;
#pragma unroll
        for (int t = 0; t < T; t++)
            sum[t] = fmaf(w[min(t, rows - 1)], v, sum[t]);
        w += a.w_stride;
        x += L;
    }
}

template <int T, bool DX> GB_DEVICE void linear(const wk_linear_args_t &a)
{
    int block = sample_block(a.groups);
    int begin = tile_index(a.groups) * a.span, end = min(begin + a.span, a.outs);
    const float *x = a.x + (long long)block * a.depth * L + threadIdx.x;
    for (int b0 = 0; b0 < a.depth; b0 += DEPTH_PART) {
        int b1 = min(b0 + DEPTH_PART, a.depth);
        for (int first = begin; first < end; first += T) {
            float sum[T];
            int rows = end - first;
            long long at = ((long long)block * a.outs + first) * L + threadIdx.x;
            linear_load<T>(a, at, first, rows, b0 == 0, sum);
            if (DX)
                linear_dx_sums<T>(a, x, first, rows, b0, b1, sum);
            else
                linear_sums<T>(a, x, first, rows, b0, b1, sum);
            linear_store<T>(a, at, rows, b1 == a.depth, sum);
        }
    }
}

template <int T> GB_DEVICE void linear_dw(const wk_linear_dw_args_t &a)
{
    int i = blockIdx.x * L + threadIdx.x;
    int begin = (int)blockIdx.y * a.span, end = min(begin + a.span, a.outs);
    for (int first = begin; first < end; first += T) {
        const float *x = a.xt + (long long)blockIdx.x * a.blocks * L * L + threadIdx.x;
        const float *dy = a.dy + (long long)first * L;
        float sum[T];
#pragma unroll
        for (int t = 0; t < T; t++)
            sum[t] = 0.0f;
        for (int block = 0; block < a.blocks; block++) {
#pragma unroll 1
            for (int n = 0; n < L; n += 8) {
#pragma unroll
                for (int u = 0; u < 8; u++) {
                    float v = x[u * L];
#pragma unroll
                    for (int t = 0; t < T; t++)
                        sum[t] = fmaf(dy[t * L + u], v, sum[t]);
                }
                x += 8 * L;
                dy += 8;
            }
            dy += (long long)(a.outs - 1) * L;
        }
        if (i <= a.inputs) {
            float *to = i < a.inputs ? a.dw + (long long)first * a.inputs + i : a.db + first;
            long long step = i < a.inputs ? a.inputs : 1;
#pragma unroll
            for (int t = 0; t < T; t++) {
                if (first + t >= end)
                    break;
                to[t * step] = sum[t];
            }
        }
    }
}

#define WK_LINEAR(T)                                                                               \
    extern "C" __global__ __launch_bounds__(128) void wk_linear_##T(wk_linear_args_t a)            \
    {                                                                                              \
        linear<T, false>(a);                                                                       \
    }                                                                                              \
    extern "C" __global__ __launch_bounds__(128) void wk_linear_dx_##T(wk_linear_args_t a)         \
    {                                                                                              \
        linear<T, true>(a);                                                                        \
    }                                                                                              \
    extern "C" __global__ __launch_bounds__(32) void wk_linear_dw_##T(wk_linear_dw_args_t a)       \
    {                                                                                              \
        linear_dw<T>(a);                                                                           \
    }
WK_LINEAR(4)
WK_LINEAR(5)
WK_LINEAR(6)
WK_LINEAR(7)
WK_LINEAR(8)

extern "C" __global__ __launch_bounds__(256) void wk_transpose(wk_transpose_args_t a)
{
    __shared__ float tile[L][L + 1];
    int lane = threadIdx.x, f0 = blockIdx.x * L, block = blockIdx.y;
    for (int k = threadIdx.y; k < L; k += 8) {
        int f = min(f0 + k, a.features - 1);
        tile[k][lane] = a.x[((long long)block * a.features + f) * L + lane];
    }
    __syncthreads();
    if (f0 + lane >= a.features)
        return;
    for (int k = threadIdx.y; k < L; k += 8)
        a.y[((long long)blockIdx.x * a.samples + block * L + k) * L + lane] = tile[lane][k];
}

extern "C" __global__ void wk_copy(wk_copy_args_t a)
{
    int block = sample_block(a.groups), at = tile_index(a.groups) * L + threadIdx.x;
    const float *x =
        a.x + (long long)block * a.x_n + (long long)blockIdx.z * a.x_c + (int)blockIdx.y * a.x_row;
    float *y =
        a.y + (long long)block * a.y_n + (long long)blockIdx.z * a.y_c + (int)blockIdx.y * a.y_row;
    y[at] = x[at];
}

/* ---- loss ---- */

extern "C" __global__ __launch_bounds__(128) void wk_softmax(wk_softmax_args_t a)
{
    float sums[2] = {0.0f, 0.0f};
    for (int round = 0; round < a.groups; round++) {
        int block = round * blockDim.y + threadIdx.y, n = block * L + threadIdx.x;
        const float *z = a.z + (long long)block * a.classes * L + threadIdx.x;
        float *dz = a.dz + (long long)block * a.classes * L + threadIdx.x;
        bool real = n < a.valid;
        int label = real ? a.labels[a.order[n]] : 0;
        float top = z[0], chosen = z[0];
        int best = 0;
        for (int c = 1; c < a.classes; c++) {
            float v = z[c * L];
            best = v > top ? c : best;
            top = fmaxf(v, top);
            chosen = c == label ? v : chosen;
        }
        float total = 0.0f;
        for (int c = 0; c < a.classes; c++)
            total += expf(z[c * L] - top);
        float scale = real ? a.scale : 0.0f, inverse = 1.0f / total;
        for (int c = 0; c < a.classes; c++) {
            float p = expf(z[c * L] - top) * inverse;
            dz[c * L] = (p - (c == label ? 1.0f : 0.0f)) * scale;
        }
        sums[0] += real ? logf(total) + top - chosen : 0.0f;
        sums[1] += real && best == label ? 1.0f : 0.0f;
    }
    float mine = block_totals<2>(sums);
    if (threadIdx.y == 0 && threadIdx.x < 2)
        a.total[threadIdx.x] += mine;
}

/* ---- optimizer ---- */

extern "C" __global__ __launch_bounds__(256) void wk_sgd(wk_sgd_args_t a)
{
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= a.count)
        return;
    float v = fmaf(a.momentum, a.v[i], a.g[i]);
    a.v[i] = v;
    a.w[i] = fmaf(-a.lr, v, a.w[i]);
}
