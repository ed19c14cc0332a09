// The kernels of kernels.cu in OpenCL C, for the peer. Without shuffles, which OpenCL C 1.2 lacks:
// rows are reduced in local memory.
#define KERNEL __kernel void
#define BARRIER barrier(CLK_LOCAL_MEM_FENCE)

KERNEL naive(int n, __global const float *a, __global const float *b, __global float *c)
{
    int col = get_global_id(0), row = get_global_id(1);
    if (row >= n || col >= n)
        return;
    float sum = 0;
    for (int k = 0; k < n; k++)
        sum += a[row * n + k] * b[k * n + col];
    c[row * n + col] = sum;
}

#define TILED(name, T)                                                                             \
    KERNEL name(int n, __global const float *a, __global const float *b, __global float *c)        \
    {                                                                                              \
        __local float sa[T][T], sb[T][T];                                                          \
        int tx = get_local_id(0), ty = get_local_id(1);                                            \
        int row = get_group_id(1) * T + ty, col = get_group_id(0) * T + tx;                        \
        float sum = 0;                                                                             \
        for (int t = 0; t < n; t += T) {                                                           \
            sa[ty][tx] = a[row * n + t + tx];                                                      \
            sb[ty][tx] = b[(t + ty) * n + col];                                                    \
            BARRIER;                                                                               \
            for (int k = 0; k < T; k++)                                                            \
                sum += sa[ty][k] * sb[k][tx];                                                      \
            BARRIER;                                                                               \
        }                                                                                          \
        c[row * n + col] = sum;                                                                    \
    }
TILED(tile16, 16)
TILED(tile32, 32)

KERNEL reg4(int n, __global const float *a, __global const float *b, __global float *c)
{
    __local float sa[64][17], sb[16][64];
    int tx = get_local_id(0), ty = get_local_id(1), tid = ty * 16 + tx;
    int row = get_group_id(1) * 64, col = get_group_id(0) * 64;
    float sum[4][4] = {{0}};
    for (int t = 0; t < n; t += 16) {
        for (int i = tid; i < 64 * 16; i += 256) {
            sa[i / 16][i % 16] = a[(row + i / 16) * n + t + i % 16];
            sb[i / 64][i % 64] = b[(t + i / 64) * n + col + i % 64];
        }
        BARRIER;
        for (int k = 0; k < 16; k++)
            for (int i = 0; i < 4; i++)
                for (int j = 0; j < 4; j++)
                    sum[i][j] += sa[ty * 4 + i][k] * sb[k][tx + 16 * j];
        BARRIER;
    }
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            c[(row + ty * 4 + i) * n + col + tx + 16 * j] = sum[i][j];
}

KERNEL reg8(int n, __global const float *a, __global const float *b, __global float *c)
{
    __local float sa[8][128];
    __local float4 sb[8][32];
    int tid = get_local_id(0), tx = tid % 16, ty = tid / 16;
    int row = get_group_id(1) * 128, col = get_group_id(0) * 128;
    int load_row = tid / 2, load_k = tid % 2 * 4, load_line = tid / 32, load_col = tid % 32 * 4;
    float sum[8][8] = {{0}};
    for (int t = 0; t < n; t += 8) {
        float4 av = *(__global const float4 *)(a + (row + load_row) * n + t + load_k);
        sb[load_line][load_col / 4] =
            *(__global const float4 *)(b + (t + load_line) * n + col + load_col);
        sa[load_k + 0][load_row] = av.x;
        sa[load_k + 1][load_row] = av.y;
        sa[load_k + 2][load_row] = av.z;
        sa[load_k + 3][load_row] = av.w;
        BARRIER;
        for (int k = 0; k < 8; k++) {
            float ra[8], rb[8];
            for (int i = 0; i < 8; i++)
                ra[i] = sa[k][ty * 8 + i];
            for (int j = 0; j < 8; j++)
                rb[j] = ((__local float *)sb[k])[tx * 8 + j];
            for (int i = 0; i < 8; i++)
                for (int j = 0; j < 8; j++)
                    sum[i][j] += ra[i] * rb[j];
        }
        BARRIER;
    }
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            c[(row + ty * 8 + i) * n + col + tx * 8 + j] = sum[i][j];
}

KERNEL saxpy(int n, float a, __global const float *x, __global float *y)
{
    int i = get_global_id(0);
    if (i < n)
        y[i] = a * x[i] + y[i];
}

KERNEL copy(int n, __global const float *x, __global float *y)
{
    int i = get_global_id(0);
    if (i < n)
        y[i] = x[i];
}

KERNEL copy_streaming(int n, __global const float *x, __global float *y)
{
    int i = get_global_id(0);
    if (i < n)
        y[i] = x[i];
}

void add_float(volatile __global float *p, float v)
{
    union {
        unsigned bits;
        float value;
    } old, new;
    do {
        old.value = *p;
        new.value = old.value + v;
    } while (atomic_cmpxchg((volatile __global unsigned *)p, old.bits, new.bits) != old.bits);
}

KERNEL reduction(int n, __global const float *x, __global float *total)
{
    __local float s[256];
    int t = get_local_id(0);
    float sum = 0;
    for (int i = get_global_id(0); i < n; i += get_global_size(0))
        sum += x[i];
    s[t] = sum;
    for (int reach = 128; reach > 0; reach >>= 1) {
        BARRIER;
        if (t < reach)
            s[t] += s[t + reach];
    }
    if (t == 0)
        add_float(total, s[0]);
}

// A row by each 32 neighbours of a group of 128
float row_sum(__local float *s, float v)
{
    int t = get_local_id(0);
    BARRIER;
    s[t] = v;
    for (int reach = 16; reach > 0; reach >>= 1) {
        BARRIER;
        if (t % 32 < reach)
            s[t] += s[t + reach];
    }
    BARRIER;
    return s[t / 32 * 32];
}

float row_max(__local float *s, float v)
{
    int t = get_local_id(0);
    BARRIER;
    s[t] = v;
    for (int reach = 16; reach > 0; reach >>= 1) {
        BARRIER;
        if (t % 32 < reach)
            s[t] = fmax(s[t], s[t + reach]);
    }
    BARRIER;
    return s[t / 32 * 32];
}

KERNEL softmax(int rows, int columns, __global const float *x, __global float *out)
{
    __local float s[128];
    int row = get_global_id(0) / 32, lane = get_local_id(0) % 32;
    __global const float *in = x + row * columns;
    __global float *o = out + row * columns;
    float top = -1e30f, sum = 0;
    for (int i = lane; i < columns; i += 32)
        top = fmax(top, in[i]);
    top = row_max(s, top);
    for (int i = lane; i < columns; i += 32) {
        float e = exp(in[i] - top);
        o[i] = e;
        sum += e;
    }
    float scale = 1.0f / row_sum(s, sum);
    for (int i = lane; i < columns; i += 32)
        o[i] *= scale;
}

KERNEL layernorm(int rows, int columns, __global const float *x, __global const float *weight,
                 __global const float *bias, __global float *out)
{
    __local float s[128];
    int row = get_global_id(0) / 32, lane = get_local_id(0) % 32;
    __global const float *in = x + row * columns;
    __global float *o = out + row * columns;
    float sum = 0, square = 0;
    for (int i = lane; i < columns; i += 32)
        sum += in[i];
    float mean = row_sum(s, sum) / columns;
    for (int i = lane; i < columns; i += 32) {
        float d = in[i] - mean;
        square += d * d;
    }
    float scale = rsqrt(row_sum(s, square) / columns + 1e-5f);
    for (int i = lane; i < columns; i += 32)
        o[i] = (in[i] - mean) * scale * weight[i] + bias[i];
}

KERNEL mandelbrot(int width, int height, int limit, __global int *out)
{
    int px = get_global_id(0), py = get_global_id(1);
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

KERNEL histogram(int n, __global const uchar *x, __global unsigned *bins)
{
    __local unsigned s[256];
    s[get_local_id(0)] = 0;
    BARRIER;
    for (int i = get_global_id(0); i < n; i += get_global_size(0))
        atomic_inc(&s[x[i]]);
    BARRIER;
    atomic_add(&bins[get_local_id(0)], s[get_local_id(0)]);
}

KERNEL nothing()
{
}

// A weighted sum, a norm and the largest value of each group's share: the kernel of the first launch
KERNEL first(int n, float a, __global const float *x, __global const float *w, __global float *out)
{
    __local float s[256], q[256], m[256];
    int t = get_local_id(0);
    float sum = 0, square = 0, top = 0;
    for (int i = get_global_id(0); i < n; i += get_global_size(0)) {
        float v = x[i] * a;
        sum += v * w[i];
        square += v * v;
        top = fmax(top, fabs(v));
    }
    s[t] = sum;
    q[t] = square;
    m[t] = top;
    for (int reach = 128; reach > 0; reach >>= 1) {
        BARRIER;
        if (t < reach) {
            s[t] += s[t + reach];
            q[t] += q[t + reach];
            m[t] = fmax(m[t], m[t + reach]);
        }
    }
    if (t == 0) {
        out[3 * get_group_id(0)] = s[0];
        out[3 * get_group_id(0) + 1] = sqrt(q[0] / n);
        out[3 * get_group_id(0) + 2] = m[0];
    }
}
