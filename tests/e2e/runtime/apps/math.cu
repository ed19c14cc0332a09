// Half precision, math functions, bit operations and vectors against the host.
#include "check.h"
#include <cmath>
#include <cuda_fp16.h>
#include <cuda_bf16.h>

__global__ void functions(const float *x, float *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float v = x[i];
    out[i] = sinf(v) + cosf(v) + expf(-v) + logf(v + 1) + sqrtf(v) + powf(v, 1.5f) + tanhf(v) +
             erff(v) + atan2f(v, 2) + cbrtf(v) + fmodf(v, 0.7f) + rsqrtf(v + 1);
}

__global__ void doubles(const double *x, double *out, int n)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = sin(x[i]) * exp(-x[i]) + log1p(x[i]) + pow(x[i], 0.3) + lgamma(x[i] + 1);
}

__global__ void halves(const float *x, float *out)
{
    int i = threadIdx.x;
    __half2 a = __floats2half2_rn(x[i], x[i + 1]), b = __hmul2(a, __float2half2_rn(0.5f));
    __half2 c = __hfma2(a, b, __float2half2_rn(1.0f));
    __nv_bfloat16 d = __hadd(__float2bfloat16(x[i]), __float2bfloat16(1.0f));
    out[i] = __low2float(c) + __high2float(c) + __bfloat162float(d);
}

__global__ void bits(unsigned *out)
{
    unsigned i = threadIdx.x * 2654435761u;
    out[threadIdx.x] = __popc(i) + __clz(i) + __ffs(i) + (__brev(i) >> 20) +
                       __byte_perm(i, ~i, 0x3715) % 97 + __funnelshift_l(i, i + 1, 7) % 89 +
                       __vadd4(i, 0x01010101) % 83 + __sad(i, 5, 1) % 79 + __umulhi(i, i);
}

static unsigned host_bits(unsigned t)
{
    unsigned i = t * 2654435761u, r = 0, perm = 0, add = 0;
    for (int k = 0; k < 32; k++)
        r |= (i >> k & 1) << (31 - k);
    unsigned char b[8];
    for (int k = 0; k < 4; k++)
        b[k] = i >> 8 * k, b[k + 4] = ~i >> 8 * k;
    const int select[4] = {5, 1, 7, 3};
    for (int k = 0; k < 4; k++)
        perm |= (unsigned)b[select[k]] << 8 * k;
    for (int k = 0; k < 4; k++)
        add |= (((i >> 8 * k) + 1) & 255) << 8 * k;
    unsigned funnel = (i + 1) << 7 | i >> 25;
    int d = (int)i - 5;
    unsigned sad = (i == 0x80000000u + 4
                        ? 0
                        : (unsigned)(d < 0 && (int)i < 5 ? -(long long)d : (long long)(int)i - 5)) +
                   1;
    if ((int)i < 5)
        sad = (unsigned)(5ll - (int)i) + 1;
    return __builtin_popcount(i) + (i ? __builtin_clz(i) : 32) + __builtin_ffs((int)i) + (r >> 20) +
           perm % 97 + funnel % 89 + add % 83 + sad % 79 +
           (unsigned)((unsigned long long)i * i >> 32);
}

int main()
{
    const int n = 1000;
    float hx[n], ho[n], *x, *o;
    for (int i = 0; i < n; i++)
        hx[i] = 0.01f + 0.005f * i;
    OK(cudaMalloc(&x, sizeof(hx)));
    OK(cudaMalloc(&o, sizeof(ho)));
    OK(cudaMemcpy(x, hx, sizeof(hx), cudaMemcpyHostToDevice));
    functions<<<4, 256>>>(x, o, n);
    OK(cudaMemcpy(ho, o, sizeof(ho), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) {
        double v = hx[i];
        double want = sin(v) + cos(v) + exp(-v) + log(v + 1) + sqrt(v) + pow(v, 1.5) + tanh(v) +
                      erf(v) + atan2(v, 2) + cbrt(v) + fmodf(hx[i], 0.7f) + 1 / sqrt(v + 1);
        EXPECT(std::fabs(ho[i] - want) < 2e-5);
    }
    double hd[n], wd[n], *dx, *dy;
    for (int i = 0; i < n; i++)
        hd[i] = 0.01 + 0.005 * i;
    OK(cudaMalloc(&dx, sizeof(hd)));
    OK(cudaMalloc(&dy, sizeof(wd)));
    OK(cudaMemcpy(dx, hd, sizeof(hd), cudaMemcpyHostToDevice));
    doubles<<<4, 256>>>(dx, dy, n);
    OK(cudaMemcpy(wd, dy, sizeof(wd), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++)
        EXPECT(std::fabs(wd[i] - (std::sin(hd[i]) * std::exp(-hd[i]) + std::log1p(hd[i]) +
                                  std::pow(hd[i], 0.3) + std::lgamma(hd[i] + 1))) < 1e-12);
    halves<<<1, 64>>>(x, o);
    OK(cudaMemcpy(ho, o, 64 * 4, cudaMemcpyDeviceToHost));
    for (int i = 0; i < 64; i++) {
        float a = hx[i], b = hx[i + 1];
        EXPECT(std::fabs(ho[i] - (a * a / 2 + 1 + b * b / 2 + 1 + a + 1)) < 0.02f);
    }
    unsigned *u, hu[256];
    OK(cudaMalloc(&u, sizeof(hu)));
    bits<<<1, 256>>>(u);
    OK(cudaMemcpy(hu, u, sizeof(hu), cudaMemcpyDeviceToHost));
    for (int i = 0; i < 256; i++)
        EXPECT(hu[i] == host_bits(i));
    return 0;
}
