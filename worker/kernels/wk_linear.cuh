/* wk_linear.cuh - linear layers, forward and backward, and transposing. Part of wk_kernels.cu. */
#ifndef WK_LINEAR_CUH
#define WK_LINEAR_CUH

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

#endif
