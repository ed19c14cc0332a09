/* wk_kernels.cu - every layer forward and backward, the input gather and the optimizer.
 *
 * A thread keeps a tile of independent sums in registers; the tile's sizes are the template arguments
 * and stand in the kernel's name. Where a tile sticks out, indices are clamped for reading and stores
 * are guarded by conditions that are the same for the whole block. No atomics: every sum has a fixed
 * order, so that a seed gives the same bits on every run. */
#include "common/cuda/gb_device.cuh"
#include "worker/kernels/wk_kernels.h"

/* ---- input ---- */

extern "C" __global__ void wk_gather(wk_gather_args_t a)
{
    int n = threadIdx.x;
    unsigned quad = 0;
    bool real = n < a.valid;
    if (real) {
        const unsigned char *image = a.images + (size_t)a.order[n] * a.image_stride;
        quad = *(const unsigned *)(image + blockIdx.y * a.image_row + blockIdx.x * 4);
    }
    float *y = a.y + (size_t)blockIdx.y * a.y_row + (size_t)blockIdx.x * 4 * a.pitch + n;
    float scale = real ? a.scale : 0.0f, shift = real ? a.shift : 0.0f;
#pragma unroll
    for (int i = 0; i < 4; i++)
        y[(size_t)i * a.pitch] = fmaf((float)(quad >> (8 * i) & 255), scale, shift);
}

/* For images whose rows are no multiple of four pixels: one pixel a thread. */
extern "C" __global__ void wk_gather_single(wk_gather_args_t a)
{
    int n = threadIdx.x;
    float v = 0.0f;
    if (n < a.valid) {
        const unsigned char *image = a.images + (size_t)a.order[n] * a.image_stride;
        v = fmaf((float)image[blockIdx.y * a.image_row + blockIdx.x], a.scale, a.shift);
    }
    a.y[(size_t)blockIdx.y * a.y_row + (size_t)blockIdx.x * a.pitch + n] = v;
}

extern "C" __global__ void wk_gather_rows(wk_gather_rows_args_t a)
{
    int p = blockIdx.x * blockDim.x + threadIdx.x, n = blockIdx.y;
    if (p >= a.pixels)
        return;
    float v = 0.0f;
    if (n < a.valid)
        v = fmaf((float)a.images[(size_t)a.order[n] * a.image_stride + p], a.scale, a.shift);
    a.y[(size_t)n * a.y_row + p] = v;
}

/* ---- convolution ---- */

template <int TO, int TX> GB_DEVICE void conv(const wk_conv_args_t &a)
{
    int n = threadIdx.x, row = blockIdx.y, first = blockIdx.z * TO;
    /* The last tile of a row is moved to the left, so that it ends with the row. */
    int q = min((int)blockIdx.x * TX, a.width - TX);
    const float *w[TO];
    float sum[TO][TX];
#pragma unroll
    for (int o = 0; o < TO; o++) {
        int out = min(first + o, a.outs - 1);
        w[o] = a.w + (long long)out * a.w_o;
        float start = a.bias ? a.bias[out] : 0.0f;
#pragma unroll
        for (int t = 0; t < TX; t++)
            sum[o][t] = start;
    }
    int i0 = max(0, a.row_first - row), i1 = min(a.kernel, a.row_end - row);
    for (int c = 0; c < a.channels; c++) {
        for (int i = i0; i < i1; i++) {
            const float *x =
                a.x + (long long)c * a.x_c + (long long)(row + i) * a.x_row + q * a.pitch + n;
            int k = c * a.w_c + i * a.w_i;
            for (int j = 0; j < a.kernel; j++) {
                float v[TX];
#pragma unroll
                for (int t = 0; t < TX; t++)
                    v[t] = x[t * a.pitch];
#pragma unroll
                for (int o = 0; o < TO; o++) {
                    float weight = w[o][k];
#pragma unroll
                    for (int t = 0; t < TX; t++)
                        sum[o][t] = fmaf(weight, v[t], sum[o][t]);
                }
                x += a.pitch;
                k += a.w_j;
            }
        }
    }
#pragma unroll
    for (int o = 0; o < TO; o++) {
        if (first + o >= a.outs)
            break;
        long long at = (long long)(first + o) * a.y_c + (long long)row * a.y_row + q * a.pitch + n;
        long long mask_at =
            (long long)(first + o) * a.mask_c + (long long)row * a.mask_row + q * a.pitch + n;
#pragma unroll
        for (int t = 0; t < TX; t++) {
            float v = sum[o][t];
            if (a.relu)
                v = fmaxf(v, 0.0f);
            if (a.mask)
                v = a.mask[mask_at + t * a.pitch] > 0.0f ? v : 0.0f;
            a.y[at + t * a.pitch] = v;
        }
    }
}

#define WK_CONV(TO, TX)                                                                            \
    extern "C" __global__ void wk_conv_##TO##x##TX(wk_conv_args_t a)                               \
    {                                                                                              \
        conv<TO, TX>(a);                                                                           \
    }
WK_CONV(1, 1)
WK_CONV(4, 1)
WK_CONV(4, 2)
WK_CONV(2, 4)
WK_CONV(2, 7)
WK_CONV(3, 4)
WK_CONV(3, 5)
WK_CONV(3, 7)
WK_CONV(4, 4)
WK_CONV(4, 5)

/* Adds up value[0..COUNT) over the block's 128 threads, in a fixed order; thread k holds the total of
 * value[k] at the end. */
template <int COUNT> GB_DEVICE float block_totals(const float *value)
{
    __shared__ float part[COUNT][128];
    int t = threadIdx.x;
#pragma unroll
    for (int k = 0; k < COUNT; k++)
        part[k][t] = value[k];
#pragma unroll
    for (int half = 64; half >= 16; half /= 2) {
        __syncthreads();
        if (t < half) {
#pragma unroll
            for (int k = 0; k < COUNT; k++)
                part[k][t] += part[k][t + half];
        }
    }
    __syncthreads();
    float total = 0.0f;
    if (t < COUNT) {
        for (int i = 0; i < 16; i++)
            total += part[t][i];
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
    for (int r = 0; r < a.rows; r++) {
        for (int n = threadIdx.x; n < a.pitch; n += 128) {
            for (int q = 0; q < a.width; q++) {
#pragma unroll
                for (int o = 0; o < TO; o++) {
                    int out = min(first + o, a.outs - 1);
                    sum[o] +=
                        a.dy[(long long)out * a.dy_c + (long long)r * a.dy_row + q * a.pitch + n];
                }
            }
        }
    }
    float total = block_totals<TO>(sum);
    int o = threadIdx.x;
    if (o < TO && first + o < a.outs)
        a.db[first + o] = total;
}

/* K x K taps of TO filters at once: dy is read once, and each element meets K * K products. */
template <int TO, int K> GB_DEVICE void conv_dw(const wk_conv_dw_args_t &a)
{
    int c = blockIdx.y, first = blockIdx.z * TO;
    if (c == a.channels) {
        conv_db<TO>(a);
        return;
    }
    float sum[TO * K * K];
#pragma unroll
    for (int k = 0; k < TO * K * K; k++)
        sum[k] = 0.0f;
    for (int n = threadIdx.x; n < a.pitch; n += 128) {
        for (int r = 0; r < a.rows; r++) {
            const float *x[K], *dy[TO];
#pragma unroll
            for (int i = 0; i < K; i++)
                x[i] = a.x + (long long)c * a.x_c + (long long)(r + i) * a.x_row + n;
#pragma unroll
            for (int o = 0; o < TO; o++)
                dy[o] = a.dy + (long long)min(first + o, a.outs - 1) * a.dy_c +
                        (long long)r * a.dy_row + n;
            int at = 0;
            for (int q = 0; q < a.width; q++) {
                float g[TO];
#pragma unroll
                for (int o = 0; o < TO; o++)
                    g[o] = dy[o][at];
#pragma unroll
                for (int i = 0; i < K; i++) {
#pragma unroll
                    for (int j = 0; j < K; j++) {
                        float v = x[i][at + j * a.pitch];
#pragma unroll
                        for (int o = 0; o < TO; o++)
                            sum[(o * K + i) * K + j] = fmaf(g[o], v, sum[(o * K + i) * K + j]);
                    }
                }
                at += a.pitch;
            }
        }
    }
    float total = block_totals<TO * K * K>(sum);
    int o = threadIdx.x / (K * K), tap = threadIdx.x % (K * K);
    if (o < TO && first + o < a.outs)
        a.dw[((long long)(first + o) * a.channels + c) * (K * K) + tap] = total;
}

/* Kernels of any size, a tap at a time. */
template <int TO> GB_DEVICE void conv_dw_any(const wk_conv_dw_args_t &a)
{
    int c = blockIdx.y, first = blockIdx.z * TO;
    int i = blockIdx.x / a.kernel, j = blockIdx.x % a.kernel;
    if (c == a.channels) {
        if (blockIdx.x == 0)
            conv_db<TO>(a);
        return;
    }
    float sum[TO];
#pragma unroll
    for (int o = 0; o < TO; o++)
        sum[o] = 0.0f;
    for (int n = threadIdx.x; n < a.pitch; n += 128) {
        for (int r = 0; r < a.rows; r++) {
            const float *x =
                a.x + (long long)c * a.x_c + (long long)(r + i) * a.x_row + j * a.pitch + n;
            for (int q = 0; q < a.width; q++) {
                float v = x[q * a.pitch];
#pragma unroll
                for (int o = 0; o < TO; o++)
                    sum[o] = fmaf(a.dy[(long long)min(first + o, a.outs - 1) * a.dy_c +
                                       (long long)r * a.dy_row + q * a.pitch + n],
                                  v, sum[o]);
            }
        }
    }
    float total = block_totals<TO>(sum);
    int o = threadIdx.x;
    if (o < TO && first + o < a.outs)
        a.dw[(((long long)(first + o) * a.channels + c) * a.kernel + i) * a.kernel + j] = total;
}

extern "C" __global__ __launch_bounds__(128) void wk_conv_dw_5(wk_conv_dw_args_t a)
{
    conv_dw<1, 5>(a);
}
extern "C" __global__ __launch_bounds__(128) void wk_conv_dw_3(wk_conv_dw_args_t a)
{
    conv_dw<2, 3>(a);
}
extern "C" __global__ __launch_bounds__(128) void wk_conv_dw_any(wk_conv_dw_args_t a)
{
    conv_dw_any<4>(a);
}

/* ---- max-pooling ---- */

/* SIZE is the window; 0 takes it from the arguments. */
template <int SIZE> GB_DEVICE void pool(const wk_pool_args_t &a)
{
    int n = threadIdx.x, row = blockIdx.y, c = blockIdx.z, size = SIZE ? SIZE : a.size;
    const float *x = a.x + (long long)c * a.x_c + (long long)row * size * a.x_row + n;
    float *y = a.y + (long long)c * a.y_c + (long long)row * a.y_row + n;
    unsigned char *which = a.which + ((long long)c * gridDim.y + row) * a.width * a.pitch + n;
    for (int q = 0; q < a.width; q++) {
        float best = x[0];
        int place = 0;
        for (int i = 0; i < size; i++) {
            for (int j = 0; j < size; j++) {
                float v = x[i * a.x_row + j * a.pitch];
                place = v > best ? i * size + j : place;
                best = fmaxf(v, best);
            }
        }
        *y = a.relu ? fmaxf(best, 0.0f) : best;
        *which = (unsigned char)place;
        x += size * a.pitch;
        y += a.pitch;
        which += a.pitch;
    }
}

template <int SIZE> GB_DEVICE void pool_dx(const wk_pool_dx_args_t &a)
{
    int n = threadIdx.x, row = blockIdx.y, c = blockIdx.z, size = SIZE ? SIZE : a.size;
    const float *dy = a.dy + (long long)c * a.dy_c + (long long)row * a.dy_row + n;
    const float *y = a.y + (long long)c * a.y_c + (long long)row * a.y_row + n;
    float *dx = a.dx + (long long)c * a.dx_c + (long long)row * size * a.dx_row + n;
    const unsigned char *which = a.which + ((long long)c * gridDim.y + row) * a.width * a.pitch + n;
    for (int q = 0; q < a.width; q++) {
        float g = *dy;
        int place = *which;
        if (a.mask)
            g = *y > 0.0f ? g : 0.0f;
        for (int i = 0; i < size; i++)
            for (int j = 0; j < size; j++)
                dx[i * a.dx_row + j * a.pitch] = place == i * size + j ? g : 0.0f;
        dx += size * a.pitch;
        dy += a.pitch;
        y += a.pitch;
        which += a.pitch;
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

template <int T> GB_DEVICE void linear_store(const wk_linear_args_t &a, int first, const float *sum)
{
    int n = threadIdx.x;
#pragma unroll
    for (int t = 0; t < T; t++) {
        if (first + t >= a.outs)
            break;
        long long at = (long long)(first + t) * a.pitch + n;
        float v = sum[t];
        if (a.bias)
            v += a.bias[first + t];
        if (a.relu)
            v = fmaxf(v, 0.0f);
        if (a.mask)
            v = a.mask[at] > 0.0f ? v : 0.0f;
        a.y[at] = v;
    }
}

template <int T> GB_DEVICE void linear(const wk_linear_args_t &a)
{
    int first = blockIdx.x * T;
    const float *x = a.x + threadIdx.x;
    const float *w[T];
    float sum[T];
#pragma unroll
    for (int t = 0; t < T; t++) {
        w[t] = a.w + (long long)min(first + t, a.outs - 1) * a.w_stride;
        sum[t] = 0.0f;
    }
#pragma unroll 4
    for (int b = 0; b < a.depth; b++) {
        float v = *x;
#pragma unroll
        for (int t = 0; t < T; t++)
            sum[t] = fmaf(w[t][b], v, sum[t]);
        x += a.pitch;
    }
    linear_store<T>(a, first, sum);
}

template <int T> GB_DEVICE void linear_dx(const wk_linear_args_t &a)
{
    int first = blockIdx.x * T;
    const float *x = a.x + threadIdx.x;
    const float *w = a.w + first;
    float sum[T];
#pragma unroll
    for (int t = 0; t < T; t++)
        sum[t] = 0.0f;
    if (first + T <= a.outs) {
#pragma unroll 4
        for (int b = 0; b < a.depth; b++) {
            float v = *x;
#pragma unroll
            for (int t = 0; t < T; t++)
                sum[t] = fmaf(w[t], v, sum[t]);
            x += a.pitch;
            w += a.w_stride;
        }
    } else {
        for (int b = 0; b < a.depth; b++) {
            float v = *x;
#pragma unroll
            for (int t = 0; t < T; t++)
                sum[t] = fmaf(w[min(t, a.outs - 1 - first)], v, sum[t]);
            x += a.pitch;
            w += a.w_stride;
        }
    }
    linear_store<T>(a, first, sum);
}

template <int T> GB_DEVICE void linear_dw(const wk_linear_dw_args_t &a)
{
    int i = blockIdx.x * 128 + threadIdx.x, first = blockIdx.y * T;
    if (i >= a.xt_row)
        return;
    const float *xt = a.xt + i;
    const float *dy[T];
    float sum[T];
#pragma unroll
    for (int t = 0; t < T; t++) {
        dy[t] = a.dy + (long long)min(first + t, a.outs - 1) * a.pitch;
        sum[t] = 0.0f;
    }
#pragma unroll 4
    for (int n = 0; n < a.samples; n++) {
        float v = *xt;
#pragma unroll
        for (int t = 0; t < T; t++)
            sum[t] = fmaf(dy[t][n], v, sum[t]);
        xt += a.xt_row;
    }
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

#define WK_LINEAR(T)                                                                               \
    extern "C" __global__ void wk_linear_##T(wk_linear_args_t a)                                   \
    {                                                                                              \
        linear<T>(a);                                                                              \
    }                                                                                              \
    extern "C" __global__ void wk_linear_dx_##T(wk_linear_args_t a)                                \
    {                                                                                              \
        linear_dx<T>(a);                                                                           \
    }                                                                                              \
    extern "C" __global__ __launch_bounds__(128) void wk_linear_dw_##T(wk_linear_dw_args_t a)      \
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
    __shared__ float tile[32][33];
    int lane = threadIdx.x, f0 = blockIdx.x * 32, n0 = blockIdx.y * 32;
    for (int k = threadIdx.y; k < 32; k += 8) {
        int f = min(f0 + k, a.features - 1);
        tile[k][lane] = a.x[(long long)f * a.pitch + n0 + lane];
    }
    __syncthreads();
    if (f0 + lane >= a.features)
        return;
    for (int k = threadIdx.y; k < 32; k += 8)
        a.y[(long long)(n0 + k) * a.y_row + f0 + lane] = tile[lane][k];
}

extern "C" __global__ void wk_copy(wk_copy_args_t a)
{
    int at = blockIdx.x * a.pitch + threadIdx.x;
    const float *x = a.x + (long long)blockIdx.z * a.x_c + (long long)blockIdx.y * a.x_row;
    float *y = a.y + (long long)blockIdx.z * a.y_c + (long long)blockIdx.y * a.y_row;
    y[at] = x[at];
}

/* ---- loss ---- */

extern "C" __global__ __launch_bounds__(128) void wk_softmax(wk_softmax_args_t a)
{
    float sums[2] = {0.0f, 0.0f};
    for (int n = threadIdx.x; n < a.pitch; n += 128) {
        const float *z = a.z + n;
        float *dz = a.dz + n;
        bool real = n < a.valid;
        int label = real ? a.labels[a.order[n]] : 0;
        float top = z[0], chosen = z[0];
        int best = 0;
        for (int c = 1; c < a.classes; c++) {
            float v = z[c * a.pitch];
            best = v > top ? c : best;
            top = fmaxf(v, top);
            chosen = c == label ? v : chosen;
        }
        float total = 0.0f;
        for (int c = 0; c < a.classes; c++)
            total += expf(z[c * a.pitch] - top);
        float scale = real ? a.scale : 0.0f, inverse = 1.0f / total;
        for (int c = 0; c < a.classes; c++) {
            float p = expf(z[c * a.pitch] - top) * inverse;
            dz[c * a.pitch] = (p - (c == label ? 1.0f : 0.0f)) * scale;
        }
        sums[0] += real ? logf(total) + top - chosen : 0.0f;
        sums[1] += real && best == label ? 1.0f : 0.0f;
    }
    float mine = block_totals<2>(sums);
    if (threadIdx.x < 2)
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
