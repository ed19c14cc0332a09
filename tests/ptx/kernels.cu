// Kernels of the kinds that programs have; test_ptx_kernels.c has a plain C reference for each.
#include "common/cuda/gb_device.cuh"

#define KERNEL extern "C" __global__ void

KERNEL saxpy(int n, float a, const float *x, float *y)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        y[i] = fmaf(a, x[i], y[i]);
}

KERNEL grid_stride(int n, const float *x, float *y)
{
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = x[i] * 2.0f + 1.0f;
}

// c = a b, all n by n
KERNEL matmul_naive(int n, const float *a, const float *b, float *c)
{
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= n || col >= n)
        return;
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum = fmaf(a[row * n + k], b[k * n + col], sum);
    c[row * n + col] = sum;
}

template <int T> __device__ void matmul_tiled(int n, const float *a, const float *b, float *c)
{
    __shared__ float sa[T][T], sb[T][T];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;
    float sum = 0;
    for (int t = 0; t < n; t += T) {
        sa[ty][tx] = row < n && t + tx < n ? a[row * n + t + tx] : 0;
        sb[ty][tx] = col < n && t + ty < n ? b[(t + ty) * n + col] : 0;
        __syncthreads();
        for (int k = 0; k < T; k++)
            sum = fmaf(sa[ty][k], sb[k][tx], sum);
        __syncthreads();
    }
    if (row < n && col < n)
        c[row * n + col] = sum;
}

KERNEL matmul_tile16(int n, const float *a, const float *b, float *c)
{
    matmul_tiled<16>(n, a, b, c);
}

KERNEL matmul_tile32(int n, const float *a, const float *b, float *c)
{
    matmul_tiled<32>(n, a, b, c);
}

// 16 by 16 threads compute 64 by 64 results, 4 by 4 each; n is a multiple of 64
KERNEL matmul_reg4(int n, const float *a, const float *b, float *c)
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
                    sum[i][j] = fmaf(sa[ty * 4 + i][k], sb[k][tx + 16 * j], sum[i][j]);
        __syncthreads();
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            c[(row + ty * 4 + i) * n + col + tx + 16 * j] = sum[i][j];
}

// The sum of all x, as integers so that the order does not matter; blocks of any size up to 1024
KERNEL reduce_shared(int n, const int *x, int *sum)
{
    __shared__ int s[1024];
    int t = threadIdx.x, size = blockDim.x, own = 0;
    for (int i = blockIdx.x * size + t; i < n; i += gridDim.x * size)
        own += x[i];
    s[t] = own;
    __syncthreads();
    for (int count = size; count > 1;) {
        int half = (count + 1) / 2;
        if (t + half < count)
            s[t] += s[t + half];
        __syncthreads();
        count = half;
    }
    if (t == 0)
        atomicAdd(sum, s[0]);
}

// Blocks of a multiple of 32
KERNEL reduce_shuffle(int n, const float *x, float *sum)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0;
    for (int o = 16; o > 0; o >>= 1)
        v += __shfl_xor_sync(0xffffffffu, v, o);
    if ((threadIdx.x & 31) == 0)
        sum[i / 32] = v;
}

KERNEL scan_warp(const int *x, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, v = x[i];
    for (int o = 1; o < 32; o <<= 1) {
        int below = __shfl_up_sync(0xffffffffu, v, o);
        if (lane >= o)
            v += below;
    }
    out[i] = v;
}

// Keeps the positive values of each warp, in order
KERNEL compact_warp(const int *x, int *out, int *counts)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31;
    unsigned keep = __ballot_sync(0xffffffffu, x[i] > 0);
    if (x[i] > 0)
        out[i - lane + __popc(keep & ((1u << lane) - 1))] = x[i];
    if (lane == 0)
        counts[i / 32] = __popc(keep);
}

KERNEL histogram(int n, const unsigned char *x, unsigned *bins)
{
    __shared__ unsigned s[256];
    for (int b = threadIdx.x; b < 256; b += blockDim.x)
        s[b] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&s[x[i]], 1u);
    __syncthreads();
    for (int b = threadIdx.x; b < 256; b += blockDim.x)
        atomicAdd(&bins[b], s[b]);
}

KERNEL mandelbrot(int width, int height, int limit, int *out)
{
    int px = blockIdx.x * blockDim.x + threadIdx.x, py = blockIdx.y * blockDim.y + threadIdx.y;
    if (px >= width || py >= height)
        return;
    float cx = -2.0f + 3.0f * px / width, cy = -1.5f + 3.0f * py / height, x = 0, y = 0;
    int i = 0;
    while (i < limit) {
        float xx = x * x, yy = y * y;
        if (xx + yy > 4.0f)
            break;
        y = fmaf(2.0f * x, y, cy);
        x = xx - yy + cx;
        i++;
    }
    out[py * width + px] = i;
}

// Threads from n on leave before the barriers; the others pass values round
KERNEL early_exit(int n, int rounds, int *out)
{
    __shared__ int s[1024];
    int t = threadIdx.x;
    if (t >= n)
        return;
    s[t] = t + 1;
    for (int r = 0; r < rounds; r++) {
        __syncthreads();
        int v = s[(t + 1) % n];
        __syncthreads();
        s[t] = v + r;
    }
    out[blockIdx.x * n + t] = s[t];
}

// Barriers in a loop, and in an if that all threads take alike
KERNEL loop_barriers(int rounds, int *out)
{
    extern __shared__ int s[];
    int t = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    int size = blockDim.x * blockDim.y * blockDim.z;
    s[t] = t * 3;
    __syncthreads();
    for (int r = 0; r < rounds; r++) {
        int v = s[t];
        if (r & 1) {
            __syncthreads();
            s[(t + 1) % size] = v + 1;
            __syncthreads();
        } else {
            int w = s[size - 1 - t];
            __syncthreads();
            s[t] = v ^ w;
            __syncthreads();
        }
    }
    out[blockIdx.x * size + t] = s[t];
}

// Rows of the block take different ways, with loops of different lengths, and meet again
KERNEL rows_disagree(int *out)
{
    int x = threadIdx.x, y = threadIdx.y, v = 0;
    if (y & 1) {
        for (int i = 0; i < y + 3; i++)
            v += i * x;
    } else if (y % 3 == 0) {
        for (int i = 0; i < (x & 7); i++)
            v = v * 3 + i;
    } else {
        v = -x;
    }
    if ((x + y) & 1)
        v ^= 0x55;
    out[(blockIdx.x * blockDim.y + y) * blockDim.x + x] = v;
}

KERNEL collatz(int n, int *steps)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    long long v = i + 1;
    int count = 0;
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
    steps[i] = count;
}

KERNEL choose(int n, const int *x, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    int v = x[i];
    switch (v & 15) {
    case 0:
        v += 100;
        break;
    case 1:
        v *= 7;
        break;
    case 2:
        v -= i; // falls through
    case 3:
        v ^= 0xff;
        break;
    case 4:
        v = -v;
        break;
    case 5:
        for (int k = 0; k < (v >> 4 & 7); k++)
            v += k;
        break;
    case 6:
        v <<= 2;
        break;
    case 9:
        v = v / 3;
        break;
    case 12:
        v %= 11;
        break;
    default:
        v = ~v;
        break;
    }
    out[i] = v;
}

// Every index of every thread
KERNEL indices(unsigned *out)
{
    unsigned threads = blockDim.x * blockDim.y * blockDim.z;
    unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    unsigned *o = out + 4 * (block * threads + thread);
    o[0] = threadIdx.x | threadIdx.y << 10 | threadIdx.z << 20;
    o[1] = blockIdx.x | blockIdx.y << 10 | blockIdx.z << 20;
    o[2] = blockDim.x | blockDim.y << 10 | blockDim.z << 20;
    o[3] = gridDim.x | gridDim.y << 10 | gridDim.z << 20;
}

KERNEL spin_lock(int *lock, int *counter)
{
    while (atomicCAS(lock, 0, 1) != 0) {
    }
    *(volatile int *)counter = *(volatile int *)counter + 1;
    __threadfence();
    atomicExch(lock, 0);
}

KERNEL local_array(int n, const int *x, int *out)
{
    int a[16], i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    for (int k = 0; k < 16; k++)
        a[k] = x[i + k < n ? i + k : i + k - n];
#pragma unroll 1
    for (int k = 0; k < 15; k++) // bubble sort: data-dependent order
#pragma unroll 1
        for (int j = 0; j < 15 - k; j++)
            if (a[j] > a[j + 1]) {
                int t = a[j];
                a[j] = a[j + 1];
                a[j + 1] = t;
            }
    out[i] = a[x[i] & 15];
}

// The last block to finish adds up what the blocks left
KERNEL last_block(int n, const int *x, int *partial, unsigned *arrived, int *sum)
{
    __shared__ int s[256];
    __shared__ unsigned ticket;
    int t = threadIdx.x, i = blockIdx.x * 256 + t;
    s[t] = i < n ? x[i] : 0;
    for (int o = 128; o > 0; o >>= 1) {
        __syncthreads();
        if (t < o)
            s[t] += s[t + o];
    }
    if (t == 0) {
        partial[blockIdx.x] = s[0];
        __threadfence();
        ticket = atomicAdd(arrived, 1u);
    }
    __syncthreads();
    if (ticket == gridDim.x - 1 && t == 0) {
        int total = 0;
        for (unsigned b = 0; b < gridDim.x; b++)
            total += ((volatile int *)partial)[b];
        *sum = total;
    }
}

KERNEL block_votes(const int *x, int *out)
{
    int t = threadIdx.x, p = x[blockIdx.x * blockDim.x + t];
    int count = __syncthreads_count(p), all = __syncthreads_and(p), any = __syncthreads_or(p);
    int *o = out + 3 * (blockIdx.x * blockDim.x + t);
    o[0] = count;
    o[1] = all != 0;
    o[2] = any != 0;
}

// 32 by 8 threads move a 32 by 32 tile
KERNEL transpose(int width, int height, const float *x, float *out)
{
    __shared__ float tile[32][33];
    int c = blockIdx.x * 32 + threadIdx.x, r0 = blockIdx.y * 32;
    for (int j = threadIdx.y; j < 32; j += 8)
        if (c < width && r0 + j < height)
            tile[j][threadIdx.x] = x[(r0 + j) * width + c];
    __syncthreads();
    int r = r0 + threadIdx.x, c0 = blockIdx.x * 32;
    for (int j = threadIdx.y; j < 32; j += 8)
        if (r < height && c0 + j < width)
            out[(c0 + j) * height + r] = tile[threadIdx.x][j];
}

// One warp a row
KERNEL softmax_rows(int rows, int columns, const float *x, float *out)
{
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x & 31;
    if (row >= rows)
        return;
    const float *in = x + row * columns;
    float top = -1e30f, sum = 0;
    for (int i = lane; i < columns; i += 32)
        top = fmaxf(top, in[i]);
    for (int o = 16; o > 0; o >>= 1)
        top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, o));
    for (int i = lane; i < columns; i += 32)
        sum += expf(in[i] - top);
    for (int o = 16; o > 0; o >>= 1)
        sum += __shfl_xor_sync(0xffffffffu, sum, o);
    for (int i = lane; i < columns; i += 32)
        out[row * columns + i] = expf(in[i] - top) / sum;
}

// Half of the lanes shuffle among themselves, the other half does something else
KERNEL divergent_warp(const int *x, int *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, v = x[i];
    if (lane < 16) {
        v += __shfl_xor_sync(0x0000ffffu, v, 5);
        v += (int)__ballot_sync(0x0000ffffu, v & 1);
    } else if (lane & 1) {
        v = (int)__activemask();
    }
    out[i] = v;
}

// All threads of a warp have one address, or a few
KERNEL same_address(int *cells)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    atomicAdd(&cells[0], i);
    atomicMax(&cells[1], i);
    atomicMin(&cells[2], -i);
    atomicOr(&cells[3], 1 << (i & 31));
    atomicAdd(&cells[4 + (i & 3)], 1);
    if (i & 1)
        atomicXor(&cells[8], i);
}
