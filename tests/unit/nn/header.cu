/* Uses one thing of every group of gb_device.cuh, so that the header is compiled by every build. */
#include "common/cuda/gb_device.cuh"

extern "C" __global__ __launch_bounds__(128) void header_all(float *out, const float4 *in,
                                                             int *cell)
{
    __shared__ float shared[128];
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    float4 quad = in[i];
    shared[threadIdx.x] = expf(quad.x) + logf(quad.y) + tanhf(quad.z) + powf(quad.w, 2.0f);
    __syncthreads();
    float v = shared[127 - threadIdx.x];
    v += __shfl_xor_sync(0xffffffffu, v, 1) + __shfl_down_sync(0xffffffffu, v, 2);
    if (__ballot_sync(0xffffffffu, v > 0.0f) == __activemask())
        atomicAdd(cell, __popc(__float_as_uint(v)));
    out[i] = fmaf(sqrtf(fabsf(v)), rsqrtf(fmaxf(v, 1.0f)), floorf(v));
}
