// Cooperative groups of every kind, also those that part a warp in sets of lanes; reductions and scans of them.
#include "check.h"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;

__global__ void partition(const int *in, int *sum, int *rank, int *size, int *scan)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int v = in[i];
    auto g = cg::labeled_partition(warp, v % 5);
    sum[i] = cg::reduce(g, v, cg::plus<int>());
    rank[i] = g.thread_rank();
    size[i] = g.size();
    scan[i] = cg::inclusive_scan(g, v);
}
__global__ void binary(const int *in, int *sum, int *most)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    int v = in[i];
    auto g = cg::binary_partition(tile, (v & 1) != 0);
    sum[i] = cg::reduce(g, v, cg::plus<int>());
    most[i] = cg::reduce(g, v, cg::greater<int>());
}
__global__ void coalesced(const int *in, int *count, int *slots)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    slots[i] = -1;
    if (in[i] % 3 == 0) {
        auto g = cg::coalesced_threads();
        int base = 0;
        if (g.thread_rank() == 0)
            base = atomicAdd(count, (int)g.size());
        slots[i] = g.shfl(base, 0) + g.thread_rank();
    }
}
__global__ void tiles(const int *in, int *out)
{
    __shared__ cg::block_tile_memory<256> memory;
    auto block = cg::this_thread_block(memory);
    auto big = cg::tiled_partition<64>(block);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int s = cg::reduce(big, in[i], cg::plus<int>()); // through reserved shared memory
    out[i] = s;
}
int main()
{
    const int n = 1024;
    int *in, *a, *b, *c, *d;
    for (int **p : {&in, &a, &b, &c, &d})
        OK(cudaMallocManaged(p, n * sizeof(int)));
    for (int i = 0; i < n; i++)
        in[i] = (i * 7919 + i / 3) % 101;
    partition<<<4, 256>>>(in, a, b, c, d);
    OK(cudaDeviceSynchronize());
    for (int w = 0; w < n; w += 32)
        for (int l = 0; l < 32; l++) {
            int sum = 0, size = 0, rank = 0, scan = 0;
            for (int k = 0; k < 32; k++)
                if (in[w + k] % 5 == in[w + l] % 5) {
                    sum += in[w + k];
                    size++;
                    rank += k < l;
                    scan += k <= l ? in[w + k] : 0;
                }
            EXPECT(a[w + l] == sum && b[w + l] == rank && c[w + l] == size && d[w + l] == scan);
        }
    binary<<<4, 256>>>(in, a, b);
    OK(cudaDeviceSynchronize());
    for (int w = 0; w < n; w += 16)
        for (int l = 0; l < 16; l++) {
            int sum = 0, most = -1;
            for (int k = 0; k < 16; k++)
                if (in[w + k] % 2 == in[w + l] % 2) {
                    sum += in[w + k];
                    most = in[w + k] > most ? in[w + k] : most;
                }
            EXPECT(a[w + l] == sum && b[w + l] == most);
        }
    a[0] = 0;
    coalesced<<<4, 256>>>(in, a, b);
    OK(cudaDeviceSynchronize());
    int wanted = 0;
    static bool seen[n];
    for (int i = 0; i < n; i++)
        if (in[i] % 3 == 0) {
            wanted++;
            EXPECT(b[i] >= 0 && b[i] < n && !seen[b[i]]);
            seen[b[i]] = true;
        } else
            EXPECT(b[i] == -1);
    EXPECT(a[0] == wanted);
    tiles<<<4, 256>>>(in, a);
    OK(cudaDeviceSynchronize());
    for (int t = 0; t < n; t += 64) {
        int sum = 0;
        for (int k = 0; k < 64; k++)
            sum += in[t + k];
        for (int k = 0; k < 64; k++)
            EXPECT(a[t + k] == sum);
    }
    return 0;
}
