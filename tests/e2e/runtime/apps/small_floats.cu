// Numbers of 4, 6 and 8 bits: conversions there and back are those of the toolkit's host code, for all
// kinds of values; half and bfloat16 arithmetic is right to the last bit where it is exact by definition.
#include "check.h"
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp4.h>
#include <cuda_fp6.h>
#include <cuda_fp8.h>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

enum { COUNT = 4096, THREADS = 256 };

static bool same(float a, float b)
{
    return a == b || (std::isnan(a) && std::isnan(b));
}

template <class Small>
__global__ void there_and_back(const float *in, unsigned char *bits, float *back)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    Small v(in[i]);
    memcpy(bits + i, &v, 1);
    back[i] = (float)v;
}

template <class Small> void check_small(const float *device, const std::vector<float> &host)
{
    unsigned char *bits;
    float *back;
    OK(cudaMalloc(&bits, COUNT));
    OK(cudaMalloc(&back, COUNT * sizeof(float)));
    there_and_back<Small><<<COUNT / THREADS, THREADS>>>(device, bits, back);
    std::vector<unsigned char> got(COUNT);
    std::vector<float> value(COUNT);
    OK(cudaMemcpy(got.data(), bits, COUNT, cudaMemcpyDeviceToHost));
    OK(cudaMemcpy(value.data(), back, COUNT * sizeof(float), cudaMemcpyDeviceToHost));
    for (int i = 0; i < COUNT; i++) {
        Small v(host[i]);
        unsigned char want;
        std::memcpy(&want, &v, 1);
        EXPECT(got[i] == want);
        EXPECT(same(value[i], (float)v));
    }
    OK(cudaFree(bits));
    OK(cudaFree(back));
}

enum { RESULTS = 8 };

__global__ void arithmetic(const float *in, float *out)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    __half a = __float2half_rn(in[i]), b = __float2half_rn(0.75f);
    __nv_bfloat16 c = __float2bfloat16_rn(in[i]), d = __float2bfloat16_rn(0.75f);
    float *o = out + i * RESULTS;
    o[0] = __half2float(__hadd(a, b));
    o[1] = __half2float(__hmul(a, b));
    o[2] = __half2float(__hfma(a, b, b));
    o[3] = __half2float(__hdiv(a, b));
    o[4] = __low2float(__hmax2(__halves2half2(a, b), __halves2half2(b, a)));
    o[5] = __bfloat162float(__hadd(c, d));
    o[6] = __bfloat162float(__hmul(c, d));
    o[7] = __bfloat162float(__hsub(c, d));
}

static float rounded_half(double x)
{
    return __half2float(__double2half(x));
}

static float rounded_bfloat(double x)
{
    return __bfloat162float(__double2bfloat16(x));
}

static void check_arithmetic(const float *device, const std::vector<float> &host)
{
    float *out;
    OK(cudaMalloc(&out, COUNT * RESULTS * sizeof *out));
    arithmetic<<<COUNT / THREADS, THREADS>>>(device, out);
    std::vector<float> got(COUNT * RESULTS);
    OK(cudaMemcpy(got.data(), out, COUNT * RESULTS * sizeof *out, cudaMemcpyDeviceToHost));
    for (int i = 0; i < COUNT; i++) {
        // exact in double: one rounding is left
        double a = __half2float(__float2half_rn(host[i])), b = 0.75;
        double c = __bfloat162float(__float2bfloat16_rn(host[i]));
        const float *g = &got[i * RESULTS];
        EXPECT(same(g[0], rounded_half(a + b)));
        EXPECT(same(g[1], rounded_half(a * b)));
        EXPECT(same(g[2], rounded_half(a * b + b)));
        EXPECT(same(g[4], (float)(std::isnan(a) ? b : std::fmax(a, b))));
        EXPECT(same(g[5], rounded_bfloat(c + b)));
        EXPECT(same(g[6], rounded_bfloat(c * b)));
        EXPECT(same(g[7], rounded_bfloat(c - b)));
        // the division is right within one unit of the last place
        double q = rounded_half(a / b);
        EXPECT(same(g[3], (float)q) || std::fabs(g[3] - q) <= std::fabs(q) / 1024 + 6e-8);
    }
    OK(cudaFree(out));
}

int main()
{
    std::vector<float> host = {INFINITY, -INFINITY, NAN,   0.0f,  -0.0f,    448.0f,
                               464.0f,   480.0f,    57344, 61440, 1e-9f,    6.0f,
                               7.5f,     28.0f,     65504, 65520, 0.00195f, 6e-8f};
    std::mt19937 random(3);
    while (host.size() < COUNT)
        host.push_back(std::ldexp((random() % 4096) / 2048.0f - 1, (int)(random() % 24) - 12));
    float *device;
    OK(cudaMalloc(&device, COUNT * sizeof *device));
    OK(cudaMemcpy(device, host.data(), COUNT * sizeof *device, cudaMemcpyHostToDevice));
    check_small<__nv_fp8_e4m3>(device, host);
    check_small<__nv_fp8_e5m2>(device, host);
    check_small<__nv_fp6_e2m3>(device, host);
    check_small<__nv_fp6_e3m2>(device, host);
    check_small<__nv_fp4_e2m1>(device, host);
    check_arithmetic(device, host);
    return 0;
}
