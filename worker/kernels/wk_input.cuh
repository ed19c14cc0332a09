/* wk_input.cuh - taking samples out of the data set. Part of wk_kernels.cu. */
#ifndef WK_INPUT_CUH
#define WK_INPUT_CUH

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

#endif
