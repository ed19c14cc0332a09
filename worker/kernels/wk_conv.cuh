/* wk_conv.cuh - convolution, forward and backward. Part of wk_kernels.cu. */
#ifndef WK_CONV_CUH
#define WK_CONV_CUH

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

#endif
