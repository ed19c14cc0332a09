// Cooperative groups: tiles, coalesced groups, and a barrier over the whole grid.
#include "check.h"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

__global__ void tiles(const int *in, int *out)
{
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<16>(block);
    int sum = cg::reduce(tile, in[block.thread_rank()], cg::plus<int>());
    if (tile.thread_rank() == 0)
        out[block.thread_rank() / 16] = sum;
}

__global__ void odd_ones(int *count)
{
    if (threadIdx.x & 1) {
        cg::coalesced_group active = cg::coalesced_threads();
        if (active.thread_rank() == 0)
            atomicAdd(count, active.size());
    }
}

__global__ void hello() {}

__global__ void steps(int *x, int n, int rounds)
{
    cg::grid_group grid = cg::this_grid();
    for (int r = 0; r < rounds; r++) {
        int i = grid.thread_rank();
        int next = i < n ? x[(i + 1) % n] : 0;
        grid.sync();
        if (i < n)
            x[i] = next;
        grid.sync();
    }
}

// A cluster has one block on these devices: what is asked and what launches do must agree.
static void clusters(int sms)
{
    int found = -1, blocks;
    cudaLaunchAttribute shape = {};
    shape.id = cudaLaunchAttributeClusterDimension;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(4);
    config.blockDim = dim3(64);
    config.attrs = &shape;
    config.numAttrs = 1;
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, hello, 64, 0));
    for (unsigned size = 1; size <= 2; size++) {
        shape.val.clusterDim.x = size;
        shape.val.clusterDim.y = shape.val.clusterDim.z = 1;
        cudaError_t error = cudaOccupancyMaxActiveClusters(&found, hello, &config);
        EXPECT(cudaLaunchKernelExC(&config, (void *)hello, nullptr) == error);
        EXPECT(error == (size == 1 ? cudaSuccess : cudaErrorInvalidClusterSize));
        EXPECT(found == sms * blocks);
    }
    OK(cudaOccupancyMaxPotentialClusterSize(&found, hello, &config));
    EXPECT(found == 1);
    config.blockDim = dim3(4096);
    OK(cudaOccupancyMaxPotentialClusterSize(&found, hello, &config));
    EXPECT(found == 0); // not even one block of it
    EXPECT(cudaOccupancyMaxActiveClusters(nullptr, hello, &config) == cudaErrorInvalidValue);
    EXPECT(cudaOccupancyMaxActiveClusters<void()>(&found, nullptr, &config) ==
           cudaErrorInvalidDeviceFunction);
    (void)cudaGetLastError();
}

int main()
{
    int h[128], *in, *out, *count;
    for (int i = 0; i < 128; i++)
        h[i] = i;
    OK(cudaMalloc(&in, sizeof(h)));
    OK(cudaMalloc(&out, 8 * 4));
    OK(cudaMalloc(&count, 4));
    OK(cudaMemset(count, 0, 4));
    OK(cudaMemcpy(in, h, sizeof(h), cudaMemcpyHostToDevice));
    tiles<<<1, 128>>>(in, out);
    int sums[8];
    OK(cudaMemcpy(sums, out, sizeof(sums), cudaMemcpyDeviceToHost));
    for (int t = 0; t < 8; t++)
        EXPECT(sums[t] == 16 * (16 * t) + 120);
    odd_ones<<<4, 64>>>(count);
    int c;
    OK(cudaMemcpy(&c, count, 4, cudaMemcpyDeviceToHost));
    EXPECT(c == 128);

    int device, sms, blocks, can;
    OK(cudaGetDevice(&device));
    OK(cudaDeviceGetAttribute(&can, cudaDevAttrCooperativeLaunch, device));
    EXPECT(can == 1);
    OK(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device));
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, steps, 64, 0));
    EXPECT(blocks >= 1);
    clusters(sms);
    int n = sms * blocks * 64, rounds = 3;
    int *x, *host = new int[n];
    for (int i = 0; i < n; i++)
        host[i] = i;
    OK(cudaMalloc(&x, n * sizeof(int)));
    OK(cudaMemcpy(x, host, n * sizeof(int), cudaMemcpyHostToDevice));
    void *args[] = {&x, &n, &rounds};
    OK(cudaLaunchCooperativeKernel((void *)steps, dim3(sms * blocks), dim3(64), args, 0, 0));
    OK(cudaMemcpy(host, x, n * sizeof(int), cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++)
        EXPECT(host[i] == (i + 3) % n);
    EXPECT(cudaLaunchCooperativeKernel((void *)steps, dim3(sms * blocks + 1), dim3(64), args, 0,
                                       0) == cudaErrorCooperativeLaunchTooLarge);
    return 0;
}
