/* wk_pool.cuh - max-pooling, forward and backward. Part of wk_kernels.cu. */
#ifndef WK_POOL_CUH
#define WK_POOL_CUH

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

#endif
