// The kernels of bench/kernels, as programs write them; kernels.cl has the same in OpenCL C.
#include "common/cuda/gb_device.cuh"

#define KERNEL extern "C" __global__ void

// c = a b, all n by n
KERNEL naive(int n, const float *a, const float *b, float *c)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= n || col >= n)
        return;
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum += a[row * n + k] * b[k * n + col];
    c[row * n + col] = sum;
}

template <int T> __device__ void tiled(int n, const float *a, const float *b, float *c)
{
    __shared__ float sa[T][T], sb[T][T];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;
    float sum = 0;
    for (int t = 0; t < n; t += T) {
        sa[ty][tx] = a[row * n + t + tx];
        sb[ty][tx] = b[(t + ty) * n + col];
        __syncthreads();
        for (int k = 0; k < T; k++)
            sum += sa[ty][k] * sb[k][tx];
        __syncthreads();
    }
    c[row * n + col] = sum;
}

KERNEL tile16(int n, const float *a, const float *b, float *c)
{
    tiled<16>(n, a, b, c);
}

KERNEL tile32(int n, const float *a, const float *b, float *c)
{
    tiled<32>(n, a, b, c);
}

// 16 by 16 threads compute 64 by 64 results, 4 by 4 each
KERNEL reg4(int n, const float *a, const float *b, float *c)
{
    __shared__ float sa[64][17], sb[16][64];
    int tx = threadIdx.x, ty = threadIdx.y, tid = ty * 16 + tx;
    int row = blockIdx.y * 64, col = blockIdx.x * 64;
    float sum[4][4] = {};
    for (int t = 0; t < n; t += 16) {
        for (int i = tid; i < 64 * 16; i += 256) {
            sa[i / 16][i % 16] = a[(row + i / 16) * n + t + i % 16];
            sb[i / 64][i % 64] = b[(t + i / 64) * n + col + i % 64];
        }
        __syncthreads();
        for (int k = 0; k < 16; k++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    sum[i][j] += sa[ty * 4 + i][k] * sb[k][tx + 16 * j];
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            c[(row + ty * 4 + i) * n + col + tx + 16 * j] = sum[i][j];
}

// 256 threads compute 128 by 128 results, 8 by 8 neighbours each; the tile of a lies transposed
KERNEL reg8(int n, const float *a, const float *b, float *c)
{
    __shared__ float sa[8][128], sb[8][128];
    int tid = threadIdx.x, tx = tid % 16, ty = tid / 16;
    int row = blockIdx.y * 128, col = blockIdx.x * 128;
    int load_row = tid / 2, load_k = tid % 2 * 4, load_line = tid / 32, load_col = tid % 32 * 4;
    float sum[8][8] = {};
    for (int t = 0; t < n; t += 8) {
        float4 av = *(const float4 *)(a + (row + load_row) * n + t + load_k);
        float4 bv = *(const float4 *)(b + (t + load_line) * n + col + load_col);
        sa[load_k + 0][load_row] = av.x;
        sa[load_k + 1][load_row] = av.y;
        sa[load_k + 2][load_row] = av.z;
        sa[load_k + 3][load_row] = av.w;
        *(float4 *)&sb[load_line][load_col] = bv;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 8; k++) {
            float ra[8], rb[8];
#pragma unroll
            for (int i = 0; i < 8; i++)
                ra[i] = sa[k][ty * 8 + i];
#pragma unroll
            for (int j = 0; j < 8; j++)
                rb[j] = sb[k][tx * 8 + j];
#pragma unroll
            for (int i = 0; i < 8; i++)
#pragma unroll
                for (int j = 0; j < 8; j++)
                    sum[i][j] += ra[i] * rb[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; i++)
#pragma unroll
        for (int j = 0; j < 8; j += 4)
            *(float4 *)(c + (row + ty * 8 + i) * n + col + tx * 8 + j) =
                float4{sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]};
}

KERNEL saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = a * x[i] + y[i];
}

KERNEL copy(int n, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = x[i];
}

// The same with the hint that nobody reads the result soon
KERNEL copy_streaming(int n, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        asm volatile("st.global.cs.f32 [%0], %1;" : : "l"(y + i), "f"(x[i]) : "memory");
}

GB_DEVICE float warp_sum(float v)
{
    for (int o = 16; o > 0; o >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, o);
    return v;
}

GB_DEVICE float warp_max(float v)
{
    for (int o = 16; o > 0; o >>= 1)
        v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, o));
    return v;
}

// Grid-stride sums, then shuffles, then one atomic addition a block; blocks of 256
KERNEL reduction(int n, const float *x, float *total)
{
    __shared__ float s[8];
    int t = threadIdx.x;
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x)
        sum += x[i];
    sum = warp_sum(sum);
    if (t % 32 == 0)
        s[t / 32] = sum;
    __syncthreads();
    if (t < 32) {
        sum = warp_sum(t < 8 ? s[t] : 0.0f);
        if (t == 0)
            atomicAdd(total, sum);
    }
}

// One warp a row
KERNEL softmax(int rows, int columns, const float *x, float *out)
{
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    const float *in = x + row * columns;
    float *o = out + row * columns;
    float top = -1e30f, sum = 0;
    for (int i = lane; i < columns; i += 32)
        top = fmaxf(top, in[i]);
    top = warp_max(top);
    for (int i = lane; i < columns; i += 32) {
        float e = expf(in[i] - top);
        o[i] = e;
        sum += e;
    }
    float scale = 1.0f / warp_sum(sum);
    for (int i = lane; i < columns; i += 32)
        o[i] *= scale;
}

// One warp a row
KERNEL layernorm(int rows, int columns, const float *x, const float *weight, const float *bias,
                 float *out)
{
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows)
        return;
    const float *in = x + row * columns;
    float *o = out + row * columns;
    float sum = 0, square = 0;
    for (int i = lane; i < columns; i += 32)
        sum += in[i];
    float mean = warp_sum(sum) / columns;
    for (int i = lane; i < columns; i += 32) {
        float d = in[i] - mean;
        square += d * d;
    }
    float scale = rsqrtf(warp_sum(square) / columns + 1e-5f);
    for (int i = lane; i < columns; i += 32)
        o[i] = (in[i] - mean) * scale * weight[i] + bias[i];
}

KERNEL mandelbrot(int width, int height, int limit, int *out)
{
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height)
        return;
    float cx = -2.0f + 3.0f / width * px, cy = -1.5f + 3.0f / height * py, x = 0, y = 0;
    int i = 0;
    while (i < limit && x * x + y * y <= 4.0f) {
        float next = x * x - y * y + cx;
        y = 2.0f * x * y + cy;
        x = next;
        i++;
    }
    out[py * width + px] = i;
}

KERNEL histogram(int n, const unsigned char *x, unsigned *bins)
{
    __shared__ unsigned s[256];
    s[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&s[x[i]], 1u);
    __syncthreads();
    atomicAdd(&bins[threadIdx.x], s[threadIdx.x]);
}
