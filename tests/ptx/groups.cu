// Kernels that use the toolkit's libraries of groups, barriers and semaphores; nvcc only.
// test_ptx_grid.c drives them.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>
#include <cuda/barrier>
#include <cuda/latch>
#include <cuda/semaphore>
#include <cub/block/block_scan.cuh>
#include <cub/warp/warp_reduce.cuh>

namespace cg = cooperative_groups;
#define KERNEL extern "C" __global__ void

// Sums over tiles of eight, of the coalesced odd threads, and of threads with the same label.
KERNEL tiles(int *out)
{
    cg::thread_block block = cg::this_thread_block();
    int me = block.thread_rank();
    auto eight = cg::tiled_partition<8>(block);
    int sum = cg::reduce(eight, me, cg::plus<int>());
    int before = cg::exclusive_scan(eight, me, cg::plus<int>());
    int odd = -1;
    if (me & 1) {
        cg::coalesced_group g = cg::coalesced_threads();
        odd = g.size() * 1000 + g.thread_rank() * 10 + (g.shfl(me, 0) == (me / 32 * 32 + 1));
    }
    auto same = cg::labeled_partition(cg::tiled_partition<32>(block), me % 3);
    int label = cg::reduce(same, 1, cg::plus<int>());
    int *mine = out + (blockIdx.x * blockDim.x + me) * 4;
    mine[0] = sum;
    mine[1] = before;
    mine[2] = odd;
    mine[3] = label;
}

KERNEL grid_steps(int steps, int *values)
{
    cg::grid_group grid = cg::this_grid();
    int n = (int)grid.size(), me = (int)grid.thread_rank();
    for (int s = 0; s < steps; s++) {
        values[((s + 1) & 1) * n + me] = values[(s & 1) * n + (me + 37) % n] + 1;
        grid.sync();
    }
}

KERNEL split_arrive(int steps, int *values)
{
    cg::grid_group grid = cg::this_grid();
    int n = (int)grid.size(), me = (int)grid.thread_rank();
    for (int s = 0; s < steps; s++) {
        values[((s + 1) & 1) * n + me] = values[(s & 1) * n + (me + 37) % n] + 1;
        auto token = grid.barrier_arrive();
        grid.barrier_wait(std::move(token));
    }
}

__device__ cuda::binary_semaphore<cuda::thread_scope_device> mutex{1};
__device__ cuda::counting_semaphore<cuda::thread_scope_device, 3> three{3};

KERNEL semaphores(int *count)
{
    three.acquire();
    mutex.acquire();
    *(volatile int *)count = *(volatile int *)count + 1;
    mutex.release();
    three.release();
}

// Each round every thread passes a value on to its neighbour, with a barrier in shared memory.
KERNEL block_barrier(int rounds, int *out)
{
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    __shared__ int values[2][1024];
    int me = threadIdx.x, n = blockDim.x;
    if (me == 0)
        init(&bar, n);
    values[0][me] = me;
    __syncthreads();
    for (int r = 0; r < rounds; r++) {
        values[(r + 1) & 1][me] = values[r & 1][(me + 1) % n] + 1;
        bar.arrive_and_wait();
    }
    out[blockIdx.x * n + me] = values[rounds & 1][me];
}

// The first half makes, the second half takes.
KERNEL latch_and_wait(int *out)
{
    __shared__ cuda::latch<cuda::thread_scope_block> *latch;
    __shared__ alignas(16) char room[sizeof(cuda::latch<cuda::thread_scope_block>)];
    __shared__ int value[512];
    int me = threadIdx.x, half = blockDim.x / 2;
    if (me == 0)
        latch = new (room) cuda::latch<cuda::thread_scope_block>(half);
    __syncthreads();
    if (me < half) {
        value[me] = me * me;
        latch->count_down();
    } else {
        latch->wait();
        out[blockIdx.x * half + me - half] = value[blockDim.x - 1 - me];
    }
}

KERNEL atomics(int *out, double *sum)
{
    cuda::atomic_ref<int, cuda::thread_scope_device> n(out[0]);
    cuda::atomic_ref<double, cuda::thread_scope_device> d(*sum);
    int old = n.load(cuda::memory_order_relaxed);
    while (!n.compare_exchange_weak(old, old + 2, cuda::memory_order_acq_rel))
        ;
    d.fetch_add(0.5);
    cuda::atomic_ref<int, cuda::thread_scope_device> flag(out[1]);
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) {
        flag.store(1, cuda::memory_order_release);
        flag.notify_all();
    } else {
        flag.wait(0);
    }
    out[2 + blockIdx.x * blockDim.x + threadIdx.x] = flag.load();
}

KERNEL block_algorithms(const int *in, int *scan, int *sums)
{
    using scan_t = cub::BlockScan<int, 128>;
    using warp_t = cub::WarpReduce<int>;
    __shared__ union {
        scan_t::TempStorage scan;
        warp_t::TempStorage warp[4];
    } room;
    int me = threadIdx.x, base = blockIdx.x * 512, items[4], total[4];
    for (int k = 0; k < 4; k++)
        items[k] = in[base + me * 4 + k];
    scan_t(room.scan).InclusiveSum(items, total);
    for (int k = 0; k < 4; k++)
        scan[base + me * 4 + k] = total[k];
    __syncthreads();
    int sum = warp_t(room.warp[me / 32]).Sum(items[0]);
    if (me % 32 == 0)
        sums[blockIdx.x * 4 + me / 32] = sum;
}
