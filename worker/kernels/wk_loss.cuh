/* wk_loss.cuh - the loss, and the optimizer of mode single. Part of wk_kernels.cu. */
#ifndef WK_LOSS_CUH
#define WK_LOSS_CUH

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

#endif
