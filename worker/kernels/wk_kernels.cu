/* wk_kernels.cu - every layer forward and backward, the input gather and the optimizer.
 *
 * A thread keeps a tile of independent sums in registers; the tile's sizes are the template arguments
 * and stand in the kernel's name. Where a tile sticks out, indices are clamped for reading and stores
 * are guarded by conditions that are the same for the whole thread block. No atomics: every sum has a
 * fixed order, so that a seed gives the same bits on every run. */
#include "common/cuda/gb_device.cuh"
#include "worker/kernels/wk_kernels.h"

#define L WK_LANES

/* Block of samples that this thread works on. */
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

/* Adds up part[k][..][..] over the thread block (16, B) for each k, in a fixed order: half a warp's worth
 * of sums is left in part[k][0][0..16). Every thread has written its own place before. */
template <int COUNT> GB_DEVICE void block_add(float (*part)[WK_HEIGHT][L])
{
    int lane = threadIdx.x;
    __syncthreads();
    if (threadIdx.y == 0) {
        for (int k = 0; k < COUNT; k++) {
            float sum = part[k][0][lane];
            for (int y = 1; y < (int)blockDim.y; y++)
                sum += part[k][y][lane];
            part[k][0][lane] = sum;
        }
    }
    __syncthreads();
    if (threadIdx.y == 0 && lane < L / 2) {
        for (int k = 0; k < COUNT; k++)
            part[k][0][lane] += part[k][0][lane + L / 2];
    }
    __syncthreads();
}

/* What block_add has left for one k. */
GB_DEVICE float last_half(const float *part)
{
    float total = 0.0f;
    for (int i = 0; i < L / 2; i++)
        total += part[i];
    return total;
}

/* Adds up value[0..COUNT), COUNT at most 16; thread (k, 0) holds the total of value[k] at the end. */
template <int COUNT> GB_DEVICE float block_totals(const float *value)
{
    __shared__ float part[COUNT][WK_HEIGHT][L];
#pragma unroll
    for (int k = 0; k < COUNT; k++)
        part[k][threadIdx.y][threadIdx.x] = value[k];
    block_add<COUNT>(part);
    return threadIdx.y == 0 && threadIdx.x < COUNT ? last_half(part[threadIdx.x][0]) : 0.0f;
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

/* The products of STEPS columns. */
template <int TO, int KW, int STEPS>
GB_DEVICE void conv_dw_steps(const float *x, const float *const *dy, float *sum)
{
#pragma unroll
    for (int q = 0; q < STEPS; q++) {
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

/* Columns from q on, by STEPS; returns where it stopped. */
template <int TO, int KW, int STEPS>
GB_DEVICE int conv_dw_columns(int q, int width, const float **x, const float **dy, float *sum)
{
#pragma unroll 1
    for (; q + STEPS <= width; q += STEPS) {
        conv_dw_steps<TO, KW, STEPS>(*x, dy, sum);
        *x += STEPS * L;
#pragma unroll
        for (int o = 0; o < TO; o++)
            dy[o] += STEPS * L;
    }
    return q;
}

/* One row i of the kernel, KW taps from column j0 on, of TO filters: this thread's samples. */
template <int TO, int KW>
GB_DEVICE void conv_dw_row(const wk_conv_dw_args_t &a, int c, int first, int i, int j0, float *sum)
{
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
            int q = conv_dw_columns<TO, KW, 4>(0, a.width, &x, dy, sum);
            q = conv_dw_columns<TO, KW, 2>(q, a.width, &x, dy, sum);
            conv_dw_columns<TO, KW, 1>(q, a.width, &x, dy, sum);
        }
    }
}

/* The rows of a K x K kernel one after the other, without a barrier between them: a thread's dy and x
 * stay in the cache. */
template <int TO, int K> GB_DEVICE void conv_dw(const wk_conv_dw_args_t &a)
{
    __shared__ float part[K * TO * K][WK_HEIGHT][L];
    int c = blockIdx.y, first = blockIdx.z * TO;
    if (c == a.channels) {
        conv_db<TO>(a);
        return;
    }
    for (int i = 0; i < K; i++) {
        float sum[TO * K];
        conv_dw_row<TO, K>(a, c, first, i, 0, sum);
#pragma unroll
        for (int k = 0; k < TO * K; k++)
            part[i * TO * K + k][threadIdx.y][threadIdx.x] = sum[k];
    }
    block_add<K * TO * K>(part);
    if (threadIdx.y > 0)
        return;
    for (int k = threadIdx.x; k < K * TO * K; k += L) {
        int i = k / (TO * K), o = k / K % TO, j = k % K;
        if (first + o < a.outs)
            a.dw[(((long long)(first + o) * a.channels + c) * K + i) * K + j] =
                last_half(part[k][0]);
    }
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
    int c = blockIdx.y, first = blockIdx.z * 4, i = blockIdx.x / a.kernel,
        j = blockIdx.x % a.kernel;
    if (c == a.channels) {
        if (blockIdx.x == 0)
            conv_db<4>(a);
        return;
    }
    float sum[4];
    conv_dw_row<4, 1>(a, c, first, i, j, sum);
    float total = block_totals<4>(sum);
    int o = threadIdx.x;
    if (threadIdx.y == 0 && o < 4 && first + o < a.outs)
        a.dw[(((long long)(first + o) * a.channels + c) * a.kernel + i) * a.kernel + j] = total;
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

/* STEPS of the depth, written out with constant offsets: few address registers, and few checks where
 * addresses are checked. */
template <int T, int N, int STEPS>
GB_DEVICE int linear_depth(int b, int depth, const float **x, const float **w, float (*sum)[N])
{
#pragma unroll 1
    for (; b + STEPS <= depth; b += STEPS) {
#pragma unroll
        for (int u = 0; u < STEPS; u++) {
            float v[N];
#pragma unroll
            for (int n = 0; n < N; n++)
                v[n] = x[n][u * L];
#pragma unroll
            for (int t = 0; t < T; t++) {
                float weight = w[t][u];
#pragma unroll
                for (int n = 0; n < N; n++)
                    sum[t][n] = fmaf(weight, v[n], sum[t][n]);
            }
        }
#pragma unroll
        for (int n = 0; n < N; n++)
            x[n] += STEPS * L;
#pragma unroll
        for (int t = 0; t < T; t++)
            w[t] += STEPS;
    }
    return b;
}

/* Results of one block of samples. */
template <int T, int N>
GB_DEVICE void linear_store(const wk_linear_args_t &a, int block, int first, int n,
                            const float (*sum)[N])
{
    long long at = ((long long)block * a.outs + first) * L + threadIdx.x;
    float *y = a.y + at;
    const float *mask = a.mask + at;
#pragma unroll
    for (int t = 0; t < T; t++) {
        if (first + t >= a.outs)
            break;
        float v = sum[t][n];
        if (a.bias)
            v += a.bias[first + t];
        if (a.relu)
            v = fmaxf(v, 0.0f);
        if (a.mask)
            v = mask[t * L] > 0.0f ? v : 0.0f;
        y[t * L] = v;
    }
}

/* The last tile is moved back, so that it ends with the outputs: what two tiles compute is the same. */
template <int T, int N> GB_DEVICE void linear(const wk_linear_args_t &a)
{
    int block = sample_block(a.groups) * N;
    int first = max(0, min(tile_index(a.groups) * T, a.outs - T));
    const float *x[N], *w[T];
    float sum[T][N];
#pragma unroll
    for (int n = 0; n < N; n++)
        x[n] = a.x + (long long)(block + n) * a.depth * L + threadIdx.x;
#pragma unroll
    for (int t = 0; t < T; t++) {
        w[t] = a.w + (long long)min(first + t, a.outs - 1) * a.w_stride;
#pragma unroll
        for (int n = 0; n < N; n++)
            sum[t][n] = 0.0f;
    }
    int b = linear_depth<T, N, 8>(0, a.depth, x, w, sum);
    linear_depth<T, N, 1>(b, a.depth, x, w, sum);
#pragma unroll
    for (int n = 0; n < N; n++)
        linear_store<T, N>(a, block + n, first, n, sum);
}

#define WK_LINEAR(T, N)                                                                            \
    extern "C" __global__ __launch_bounds__(128) void wk_linear_##T##x##N(wk_linear_args_t a)      \
    {                                                                                              \
        linear<T, N>(a);                                                                           \
    }
WK_LINEAR(1, 1)
WK_LINEAR(8, 1)
WK_LINEAR(6, 2)

/* Gradients of outputs first .. first + T for feature i, if there is such a weight or bias. */
template <int T>
GB_DEVICE void linear_dw_store(const wk_linear_dw_args_t &a, int first, int i, const float *sum)
{
    if (i > a.inputs)
        return;
    float *to = i < a.inputs ? a.dw + (long long)first * a.inputs + i : a.db + first;
    long long step = i < a.inputs ? a.inputs : 1;
#pragma unroll
    for (int t = 0; t < T; t++) {
        if (first + t >= a.outs)
            break;
        to[t * step] = sum[t];
    }
}

template <int T> GB_DEVICE void linear_dw(const wk_linear_dw_args_t &a)
{
    int first = blockIdx.y * T, chunks = a.inputs / L + 1;
    /* Two chunks of features a thread; the last may be one that another thread has as well. */
    int chunk = min((int)blockIdx.x * 2, max(chunks - 2, 0)), next = min(chunk + 1, chunks - 1);
    const float *x0 = a.xt + (long long)chunk * a.blocks * L * L + threadIdx.x;
    const float *x1 = a.xt + (long long)next * a.blocks * L * L + threadIdx.x;
    const float *dy = a.dy + (long long)first * L;
    float sum0[T], sum1[T];
#pragma unroll
    for (int t = 0; t < T; t++)
        sum0[t] = sum1[t] = 0.0f;
    for (int block = 0; block < a.blocks; block++) {
#pragma unroll 1
        for (int n = 0; n < L; n += 8) {
#pragma unroll
            for (int u = 0; u < 8; u++) {
                float v0 = x0[u * L], v1 = x1[u * L];
#pragma unroll
                for (int t = 0; t < T; t++) {
                    float g = dy[t * L + u];
                    sum0[t] = fmaf(g, v0, sum0[t]);
                    sum1[t] = fmaf(g, v1, sum1[t]);
                }
            }
            x0 += 8 * L;
            x1 += 8 * L;
            dy += 8;
        }
        dy += (long long)(a.outs - 1) * L;
    }
    linear_dw_store<T>(a, first, chunk * L + threadIdx.x, sum0);
    linear_dw_store<T>(a, first, next * L + threadIdx.x, sum1);
}

extern "C" __global__ __launch_bounds__(16) void wk_linear_dw(wk_linear_dw_args_t a)
{
    linear_dw<6>(a);
}

extern "C" __global__ __launch_bounds__(128) void wk_transpose(wk_transpose_args_t a)
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

extern "C" __global__ __launch_bounds__(128) void wk_turn(wk_turn_args_t a)
{
    __shared__ float tile[L][L + 1];
    int lane = threadIdx.x, c0 = blockIdx.x * L, r0 = blockIdx.y * L;
    if (c0 + lane < a.columns) {
        for (int k = threadIdx.y; k < L; k += 8)
            tile[k][lane] = a.x[(long long)min(r0 + k, a.rows - 1) * a.columns + c0 + lane];
    }
    __syncthreads();
    if (r0 + lane >= a.rows)
        return;
    for (int k = threadIdx.y; k < L && c0 + k < a.columns; k += 8)
        a.y[(long long)(c0 + k) * a.y_row + r0 + lane] = tile[lane][k];
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
