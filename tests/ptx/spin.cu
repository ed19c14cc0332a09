// Kernels whose threads wait for each other, in the forms that programs have. test_ptx_spin.c drives
// them; each must end, and count right.
#include "common/cuda/gb_device.cuh"

#define KERNEL extern "C" __global__ void

__device__ __forceinline__ void sleep_some()
{
    asm volatile("nanosleep.u32 100;" ::: "memory");
}

__device__ __forceinline__ int load_acquire(const int *p)
{
    int v;
    asm volatile("ld.acquire.gpu.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

__device__ __forceinline__ void store_release(int *p, int v)
{
    asm volatile("st.release.gpu.s32 [%0], %1;" ::"l"(p), "r"(v) : "memory");
}

__device__ __forceinline__ int exchange_acquire(int *p, int v)
{
    int old;
    asm volatile("atom.acquire.gpu.exch.b32 %0, [%1], %2;" : "=r"(old) : "l"(p), "r"(v) : "memory");
    return old;
}

// A plain increment, which only a lock makes right.
__device__ __forceinline__ void bump(volatile int *count)
{
    int v = *count;
    *count = v + 1;
}

/* ---- locks: every thread bumps count[0] once ---- */

KERNEL lock_before(int *lock, int *count)
{
    while (atomicCAS(lock, 0, 1) != 0)
        ;
    bump(count);
    __threadfence();
    atomicExch(lock, 0);
}

KERNEL lock_inside(int *lock, int *count)
{
    bool done = false;
    while (!done) {
        if (atomicCAS(lock, 0, 1) == 0) {
            bump(count);
            __threadfence();
            atomicExch(lock, 0);
            done = true;
        }
    }
}

KERNEL lock_goto(int *lock, int *count)
{
again:
    if (exchange_acquire(lock, 1) != 0) {
        sleep_some();
        goto again;
    }
    bump(count);
    store_release(lock, 0);
}

KERNEL lock_or(int *lock, int *count)
{
    while (atomicOr(lock, 4) & 4) {
        while (*(volatile int *)lock & 4)
            ;
    }
    bump(count);
    __threadfence();
    atomicAnd(lock, ~4);
}

KERNEL lock_ticket(int *lock, int *count)
{
    int mine = atomicAdd(lock, 1);
    while (*(volatile int *)(lock + 1) != mine)
        ;
    bump(count);
    __threadfence();
    *(volatile int *)(lock + 1) = mine + 1;
}

KERNEL lock_backoff(int *lock, int *count)
{
    int wait = 1;
    for (;;) {
        bool got = false;
        for (int tries = 0; tries < 3 && !got; tries++)
            got = atomicCAS(lock, 0, 1) == 0;
        if (got)
            break;
        for (int i = 0; i < wait; i++)
            sleep_some();
        wait = wait < 8 ? wait * 2 : 8;
    }
    bump(count);
    __threadfence();
    atomicExch(lock, 0);
}

KERNEL lock_nested(int *lock, int *count)
{
    while (atomicCAS(lock, 0, 1) != 0)
        ;
    while (atomicCAS(lock + 1, 0, 1) != 0)
        ;
    bump(count);
    __threadfence();
    atomicExch(lock + 1, 0);
    atomicExch(lock, 0);
}

// A semaphore that lets two in, around a lock.
KERNEL lock_semaphore(int *lock, int *count)
{
    int inside;
    do {
        inside = *(volatile int *)lock;
    } while (inside >= 2 || atomicCAS(lock, inside, inside + 1) != inside);
    while (atomicCAS(lock + 1, 0, 1) != 0)
        ;
    bump(count);
    __threadfence();
    atomicExch(lock + 1, 0);
    atomicAdd(lock, -1);
}

// A loop of rounds around a lock; the last round decides what is written.
KERNEL lock_rounds(int *lock, int *count, int *out)
{
    int me = blockIdx.x * blockDim.x + threadIdx.x, sum = 0;
    for (int round = 0; round < 1 + me % 3; round++) {
        while (atomicCAS(lock, 0, 1) != 0)
            ;
        bump(count);
        __threadfence();
        atomicExch(lock, 0);
        sum += round * me;
    }
    out[me] = sum + 3 * me;
}

// Fine locks: one of seven, then two of seven in order (as in bank accounts).
KERNEL lock_many(int *lock, int *count)
{
    int me = blockIdx.x * blockDim.x + threadIdx.x, a = me % 7, b = (a + 1 + me % 5) % 7;
    int low = a < b ? a : b, high = a < b ? b : a;
    bool done = false;
    while (!done) {
        if (atomicCAS(lock + low, 0, 1) == 0) {
            if (atomicCAS(lock + high, 0, 1) == 0) {
                bump(count + low);
                bump(count + high);
                __threadfence();
                atomicExch(lock + high, 0);
                done = true;
            }
            __threadfence();
            atomicExch(lock + low, 0);
        }
    }
}

// What a lane has loaded behind one loop it still has behind the next, though others load meanwhile.
KERNEL lock_then_wait(int *lock, int *count, int *out)
{
    int me = blockIdx.x * blockDim.x + threadIdx.x, all = gridDim.x * blockDim.x;
    while (atomicCAS(lock, 0, 1) != 0)
        ;
    int before = *(volatile int *)count, cell = *(volatile int *)(out + all + me);
    *(volatile int *)count = before + 1;
    int *mine = out + (before & 0) + me;
    __threadfence();
    atomicExch(lock, 0);
    while (*(volatile int *)count != all)
        ;
    *mine = cell;
    out[2 * all + before] = 1;
}

// The warp comes together behind the lock: what a lane reads then is from before.
KERNEL lock_then_warp(int *lock, int *count, int *out)
{
    int me = blockIdx.x * blockDim.x + threadIdx.x, v = me * 3;
    while (atomicCAS(lock, 0, 1) != 0)
        ;
    bump(count);
    v += 1000;
    __threadfence();
    atomicExch(lock, 0);
    __syncwarp();
    int from = __shfl_xor_sync(0xffffffff, v, 5);
    int all = __ballot_sync(0xffffffff, v >= 1000);
    out[me] = from + (all == -1 ? 1 : 0);
}

// One lane waits, the warp comes together, and all use what was waited for.
KERNEL leader_waits(int *flag, int *data, int *out)
{
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    if (warp == warps - 1) {
        data[lane] = lane * 7 + 1;
        __threadfence();
        __syncwarp();
        if (lane == 0)
            *(volatile int *)flag = 1;
        return;
    }
    if (lane == warp % 32) {
        while (*(volatile int *)flag == 0)
            ;
        __threadfence();
    }
    __syncwarp();
    out[threadIdx.x] = *(volatile int *)(data + (lane + warp) % 32);
}

/* ---- warps of a block that wait for each other ---- */

// Warp w waits for warp w + 1; the last one begins.
KERNEL warps_chain(int *out)
{
    __shared__ volatile int flags[33];
    int warp = threadIdx.x / 32, warps = (blockDim.x + 31) / 32;
    if (threadIdx.x < 33)
        flags[threadIdx.x] = 0;
    __syncthreads();
    if (warp != warps - 1)
        while (flags[warp + 1] == 0)
            ;
    int before = warp != warps - 1 ? flags[warp + 1] : 0;
    __threadfence_block();
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        flags[warp] = before + 1;
    out[blockIdx.x * blockDim.x + threadIdx.x] = before;
}

// The same in global memory, no barrier anywhere, thread by thread.
KERNEL threads_chain(int *flags, int *out)
{
    int me = threadIdx.x, base = blockIdx.x * (blockDim.x + 1);
    if (me != (int)blockDim.x - 1)
        while (load_acquire(flags + base + me + 1) == 0)
            ;
    out[blockIdx.x * blockDim.x + me] =
        me != (int)blockDim.x - 1 ? load_acquire(flags + base + me + 1) : 0;
    store_release(flags + base + me, (int)blockDim.x - me);
}

// Warps 0 and 1 throw a ball; the others wait at the barrier.
KERNEL ping_pong(int rounds, int *out)
{
    __shared__ volatile int ball;
    if (threadIdx.x == 0)
        ball = 0;
    __syncthreads();
    if (threadIdx.x == 0 || threadIdx.x == 32) {
        int side = threadIdx.x / 32;
        for (int i = 0; i < rounds; i++) {
            while ((ball & 1) != side)
                ;
            ball = ball + 1;
        }
    }
    __syncthreads();
    out[blockIdx.x * blockDim.x + threadIdx.x] = ball;
}

/* ---- blocks that wait for each other ---- */

__device__ __forceinline__ void grid_barrier(int *arrived, int goal)
{
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(arrived, 1);
        while (*(volatile int *)arrived < goal)
            ;
        __threadfence();
    }
    __syncthreads();
}

// A barrier of the grid by hand, several times: sums over all threads, each from the round before.
KERNEL grid_rounds(int rounds, int *arrived, int *values)
{
    int n = gridDim.x * blockDim.x, me = blockIdx.x * blockDim.x + threadIdx.x;
    for (int r = 0; r < rounds; r++) {
        const volatile int *from = values + (r & 1) * n;
        int next = from[(me + blockDim.x) % n] + 1;
        values[((r + 1) & 1) * n + me] = next;
        grid_barrier(arrived, (r + 1) * gridDim.x);
    }
}

// Each block waits for its successor; the last one begins.
KERNEL blocks_backwards(int *flags, int *out)
{
    if (threadIdx.x == 0 && blockIdx.x != gridDim.x - 1)
        while (*(volatile int *)(flags + blockIdx.x + 1) == 0)
            sleep_some();
    __syncthreads();
    int before = blockIdx.x != gridDim.x - 1 ? *(volatile int *)(flags + blockIdx.x + 1) : 0;
    out[blockIdx.x * blockDim.x + threadIdx.x] = before;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        *(volatile int *)(flags + blockIdx.x) = before + 1;
}

// All threads of a block look together whether the next block is through, barrier by barrier.
KERNEL blocks_poll(int *flags, int *out)
{
    __shared__ int seen;
    if (blockIdx.x != gridDim.x - 1) {
        for (;;) {
            if (threadIdx.x == 0)
                seen = *(volatile int *)(flags + blockIdx.x + 1);
            __syncthreads();
            if (seen != 0)
                break;
            __syncthreads();
        }
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = blockIdx.x != gridDim.x - 1 ? seen : 0;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        *(volatile int *)(flags + blockIdx.x) = gridDim.x - blockIdx.x;
}

// Single-pass inclusive scan with decoupled look-back: a block publishes its sum, then its prefix.
// state: bits 30 and 31 say what the low bits are.
KERNEL look_back(int n, const int *in, int *out, unsigned *state, int *tickets)
{
    __shared__ int part[32], block, prefix;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    if (threadIdx.x == 0)
        block = atomicAdd(tickets, 1);
    __syncthreads();
    int at = block * blockDim.x + threadIdx.x, v = at < n ? in[at] : 0;
    for (int d = 1; d < 32; d *= 2) {
        int up = __shfl_up_sync(0xffffffff, v, d);
        if (lane >= d)
            v += up;
    }
    if (lane == 31)
        part[warp] = v;
    __syncthreads();
    int sum = 0, own = 0;
    for (int w = 0; w < warps; w++) {
        own += w < warp ? part[w] : 0;
        sum += part[w];
    }
    volatile unsigned *status = state;
    if (warp == 0) {
        if (lane == 0)
            status[block] = (block == 0 ? 0x80000000u : 0x40000000u) | (unsigned)sum;
        int before = 0;
        for (int last = block - 1; last >= 0; last -= 32) {
            int other = last - lane;
            unsigned s = 0x80000000u;
            if (other >= 0) {
                do {
                    s = status[other];
                } while (s == 0);
            }
            __syncwarp();
            unsigned whole = __ballot_sync(0xffffffff, (s & 0x80000000u) != 0);
            int stop = __ffs((int)whole) - 1;
            int add = stop < 0 || lane <= stop ? (int)(s & 0x3fffffffu) : 0;
            for (int d = 16; d > 0; d /= 2)
                add += __shfl_xor_sync(0xffffffff, add, d);
            before += add;
            if (stop >= 0)
                break;
        }
        if (lane == 0) {
            status[block] = 0x80000000u | (unsigned)(before + sum);
            prefix = before;
        }
    }
    __syncthreads();
    if (at < n)
        out[at] = prefix + own + v;
}

// The last block to finish adds up what all have left.
KERNEL last_block(int *left, unsigned *tickets, int *out)
{
    __shared__ bool last;
    if (threadIdx.x == 0) {
        ((volatile int *)left)[blockIdx.x] = blockIdx.x * 3 + 1;
        __threadfence();
        last = atomicAdd(tickets, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int sum = 0;
        for (unsigned b = 0; b < gridDim.x; b++)
            sum += ((volatile int *)left)[b];
        *out = sum;
    }
}

// Even blocks make, odd blocks take, through a ring of two places.
KERNEL ring(int items, int *places, int *out)
{
    int pair = blockIdx.x / 2, *full = places + pair * 4, *value = full + 2;
    if (threadIdx.x != 0)
        return;
    int sum = 0;
    for (int i = 0; i < items; i++) {
        int at = i & 1;
        if (blockIdx.x % 2 == 1) { /* the taker comes second in the grid, but may start first */
            while (load_acquire(full + at) == 1)
                ;
            *(volatile int *)(value + at) = i * i;
            store_release(full + at, 1);
        } else {
            while (load_acquire(full + at) == 0)
                ;
            sum += *(volatile int *)(value + at);
            store_release(full + at, 0);
        }
    }
    if (blockIdx.x % 2 == 0)
        out[pair] = sum;
}

// Waits for what the host or another stream writes.
KERNEL wait_for(int *flag, int value, int *out)
{
    while (*(volatile int *)flag != value)
        ;
    out[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

KERNEL set_flag(int *flag, int value)
{
    *(volatile int *)flag = value;
}

// Work from a queue until it is empty.
KERNEL queue(int n, int *next, int *out)
{
    for (;;) {
        int i = atomicAdd(next, 1);
        if (i >= n)
            break;
        out[i] = i * 2 + 1;
    }
}

// Plain loads, which the fence makes look again.
KERNEL fence_poll(int *flag, int *out)
{
    if (threadIdx.x < 32) {
        while (flag[0] == 0)
            __threadfence();
    } else if (threadIdx.x == 32) {
        *(volatile int *)flag = 1;
    }
    out[threadIdx.x] = 1;
}
