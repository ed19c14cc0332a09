/* random_world.h - what the programs of random_program.py stand on: one source, compiled for the device
 * (one thread is one call) and for the host (a loop over the threads of a block, stage by stage).
 *
 * All that C leaves open is closed here: shift counts, divisors, conversions out of range, what a NaN's
 * bits are. So host and device must give the same bits. */
#ifndef RANDOM_WORLD_H
#define RANDOM_WORLD_H

#ifdef __CUDA__
#include "common/cuda/gb_device.cuh"
#define DEV static __device__
#ifdef __NVCC__
#define NOINLINE __noinline__
#define LOWEST_BIT(a) ((u32)__ffs((i32)(a)) - 1) /* the builtin is the host's alone there */
#else
#define NOINLINE __attribute__((noinline))
#endif
#else
#include <math.h>
#define DEV static
#define NOINLINE __attribute__((noinline))
#endif
#ifndef LOWEST_BIT
#define LOWEST_BIT(a) ((u32)__builtin_ctz(a))
#endif

typedef signed char i8;
typedef unsigned char u8;
typedef short i16;
typedef unsigned short u16;
typedef int i32;
typedef unsigned u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

/* What a thread carries from stage to stage. */
typedef struct {
    u32 r[4];
    u64 w;
    f32 f;
} State;

#define WORDS 8 /* of a thread in the output */
#define SLOTS 1024

/* ---- arithmetic without undefined behaviour ---- */

#define DIVISIONS(T, low)                                                                          \
    DEV inline T div_##T(T a, T b)                                                                 \
    {                                                                                              \
        return b == 0                                            ? (T)(a ^ 0x55)                   \
               : (T) - 1 < (T)0 && b == (T) - 1 && a == (T)(low) ? a                               \
                                                                 : (T)(a / b);                     \
    }                                                                                              \
    DEV inline T rem_##T(T a, T b)                                                                 \
    {                                                                                              \
        return b == 0 ? a : (T) - 1 < (T)0 && b == (T) - 1 ? (T)0 : (T)(a % b);                    \
    }
DIVISIONS(i8, -128)
DIVISIONS(u8, 0)
DIVISIONS(i16, -32768)
DIVISIONS(u16, 0)
DIVISIONS(i32, -2147483647 - 1)
DIVISIONS(u32, 0)
DIVISIONS(i64, -9223372036854775807ll - 1)
DIVISIONS(u64, 0)

DEV inline u32 mulhi_u32(u32 a, u32 b)
{
    return (u32)((u64)a * b >> 32);
}
DEV inline i32 mulhi_i32(i32 a, i32 b)
{
    return (i32)((i64)a * b >> 32);
}
DEV inline u64 mulhi_u64(u64 a, u64 b)
{
    return (u64)((unsigned __int128)a * b >> 64);
}
DEV inline i64 mulhi_i64(i64 a, i64 b)
{
    return (i64)((__int128)a * b >> 64);
}
DEV inline u32 rotate_u32(u32 a, u32 n)
{
    return a << (n & 31) | a >> (-n & 31);
}
DEV inline u64 rotate_u64(u64 a, u32 n)
{
    return a << (n & 63) | a >> (-n & 63);
}
DEV inline u32 funnel(u32 hi, u32 lo, u32 n)
{
    return (u32)(((u64)hi << 32 | lo) >> (n & 31));
}
DEV inline u32 popc_u32(u32 a)
{
    return (u32)__builtin_popcount(a);
}
DEV inline u32 popc_u64(u64 a)
{
    return (u32)__builtin_popcountll(a);
}
DEV inline u32 clz_u32(u32 a)
{
    return a ? (u32)__builtin_clz(a) : 32;
}
DEV inline u32 clz_u64(u64 a)
{
    return a ? (u32)__builtin_clzll(a) : 64;
}
DEV inline u32 ctz_u32(u32 a)
{
    return a ? LOWEST_BIT(a) : 32;
}
DEV inline u32 swap_u32(u32 a)
{
    return a << 24 | (a & 0xff00) << 8 | (a >> 8 & 0xff00) | a >> 24;
}

/* ---- floats ---- */

DEV inline u32 bits_f32(f32 x)
{
    union {
        f32 f;
        u32 u;
    } v;
    v.f = x;
    return x != x ? 0x7fc00000u : v.u;
}
DEV inline u64 bits_f64(f64 x)
{
    union {
        f64 f;
        u64 u;
    } v;
    v.f = x;
    return x != x ? 0x7ff8000000000000ull : v.u;
}
/* any sign, 2^-31 to 2^32 */
DEV inline f32 make_f32(u32 bits)
{
    union {
        u32 u;
        f32 f;
    } v;
    v.u = (bits & 0x9fffffffu) + 0x30000000u;
    return v.f;
}
/* The sign of a zero minimum is left open: made positive. */
DEV inline f32 min_f32(f32 a, f32 b)
{
    return __builtin_fminf(a, b) + 0.0f;
}
DEV inline f32 max_f32(f32 a, f32 b)
{
    return __builtin_fmaxf(a, b) + 0.0f;
}
DEV inline f64 min_f64(f64 a, f64 b)
{
    return __builtin_fmin(a, b) + 0.0;
}
DEV inline f64 max_f64(f64 a, f64 b)
{
    return __builtin_fmax(a, b) + 0.0;
}
DEV inline f32 div_f32(f32 a, f32 b)
{
    return a / b;
}
DEV inline f64 div_f64(f64 a, f64 b)
{
    return a / b;
}
DEV inline f32 sqrt_f32(f32 a)
{
    return __builtin_sqrtf(__builtin_fabsf(a));
}
DEV inline f64 sqrt_f64(f64 a)
{
    return __builtin_sqrt(__builtin_fabs(a));
}

#define CONVERSIONS(T, low, end)                                                                   \
    DEV inline T T##_of_f32(f32 x)                                                                 \
    {                                                                                              \
        return x >= (f32)(low) && x < (f32)(end) ? (T)x : (T)3;                                    \
    }                                                                                              \
    DEV inline T T##_of_f64(f64 x)                                                                 \
    {                                                                                              \
        return x >= (f64)(low) && x < (f64)(end) ? (T)x : (T)5;                                    \
    }
CONVERSIONS(i8, -128, 128)
CONVERSIONS(u8, 0, 256)
CONVERSIONS(i16, -32768, 32768)
CONVERSIONS(u16, 0, 65536)
CONVERSIONS(i32, -2147483648.0, 2147483648.0)
CONVERSIONS(u32, 0, 4294967296.0)
CONVERSIONS(i64, -9223372036854775808.0, 9223372036854775808.0)
CONVERSIONS(u64, 0, 18446744073709551616.0)

/* ---- threads ---- */

DEV inline void state_begin(State *s, u32 tid, const u32 *in)
{
    for (u32 k = 0; k < 4; k++)
        s->r[k] = in[(tid + 64 * k) & 255] ^ tid * (2 * k + 0x9e3779b1u);
    s->w = (u64)s->r[1] << 32 | s->r[2];
    s->f = (f32)(i32)(s->r[3] & 1023) * 0.25f - 100.0f;
}

DEV inline void state_end(const State *s, u32 *out, u32 tid)
{
    for (u32 k = 0; k < 4; k++)
        out[WORDS * tid + k] = s->r[k];
    out[WORDS * tid + 4] = (u32)s->w;
    out[WORDS * tid + 5] = (u32)(s->w >> 32);
    out[WORDS * tid + 6] = bits_f32(s->f);
    out[WORDS * tid + 7] = tid + 1;
}

/* The body of a program, with the stages between BEGIN and END. In a stage `s` is the thread's state,
 * `lin` its number in the block and `tid` in the grid; `blk` and `in` are the same for all threads. */
#ifdef __CUDA__

#define PROGRAM extern "C" __global__ void program(u32 *out, const u32 *in, u32 n)
#define BEGIN                                                                                      \
    __shared__ u32 sh[SLOTS];                                                                      \
    State state, *const s = &state;                                                                \
    const u32 blk = blockIdx.x;                                                                    \
    const u32 lin = threadIdx.x + blockDim.x * threadIdx.y, size = blockDim.x * blockDim.y;        \
    const u32 tid = blk * size + lin;                                                              \
    state_begin(s, tid, in);                                                                       \
    (void)sh, (void)n;
#define END state_end(s, out, tid);
#define EACH(f) f(s, tid, in);
#define EXIT_IF(p)                                                                                 \
    if (p)                                                                                         \
        return;
#define SHFL_XOR(v, m) v = __shfl_xor_sync(~0u, v, m);
#define SHFL_UP(v, d) v = __shfl_up_sync(~0u, v, d);
#define SHFL_DOWN(v, d) v = __shfl_down_sync(~0u, v, d);
#define SHFL(v, l) v = __shfl_sync(~0u, v, (i32)((l) & 31));
#define BALLOT(v, p) v ^= __ballot_sync(~0u, p);
#define ANY(v, p) v += (u32)(__any_sync(~0u, p) != 0);
#define ALL(v, p) v ^= (u32)(__all_sync(~0u, p) != 0) << 7;
/* Everybody writes one slot and reads another's. */
#define CLEAR                                                                                      \
    for (u32 k = lin; k < SLOTS; k += size)                                                        \
        sh[k] = k * 77;                                                                            \
    __syncthreads();
#define EXCHANGE(v, slot)                                                                          \
    sh[lin] = v;                                                                                   \
    __syncthreads();                                                                               \
    v += 3 * sh[(slot) % SLOTS];                                                                   \
    __syncthreads();
/* What is added up in any order. */
#define GATHER(op, v, slot, look)                                                                  \
    op(&sh[(slot) & 15], v);                                                                       \
    __syncthreads();                                                                               \
    v ^= sh[(look) & 15];                                                                          \
    __syncthreads();
#define ADD(p, v) atomicAdd((u32 *)(p), (u32)(v))
#define MAX(p, v) atomicMax((u32 *)(p), (u32)(v))
#define MIN(p, v) atomicMin((u32 *)(p), (u32)(v))
#define XOR(p, v) atomicXor((i32 *)(p), (i32)(v))

#else

#define PROGRAM static void block(u32 *out, const u32 *in, u32 n, u32 blk, u32 size)
#define FOR                                                                                        \
    for (u32 lin = 0; lin < size; lin++)                                                           \
        if (!gone[lin])                                                                            \
            for (State *s = &states[lin], *once = s; once; once = 0)                               \
                for (u32 tid = blk * size + lin, *turn = &tid; turn; turn = 0)
#define BEGIN                                                                                      \
    static State states[SLOTS];                                                                    \
    static u32 was[SLOTS], sh[SLOTS];                                                              \
    u8 gone[SLOTS] = {0};                                                                          \
    FOR state_begin(s, tid, in);                                                                   \
    (void)was, (void)sh, (void)n;
#define END FOR state_end(s, out, tid);
#define EACH(f) FOR f(s, tid, in);
#define EXIT_IF(p) FOR gone[lin] = (p) != 0;
#define WAS(v) FOR was[lin] = v;
#define SHFL_FROM(v, lane, ok)                                                                     \
    WAS(v)                                                                                         \
    FOR                                                                                            \
    {                                                                                              \
        u32 own = lin & 31, from = (lane);                                                         \
        v = (ok) ? was[(lin & ~31u) + from] : v;                                                   \
        (void)own;                                                                                 \
    }
#define SHFL_XOR(v, m) SHFL_FROM(v, own ^ (m), 1)
#define SHFL_UP(v, d) SHFL_FROM(v, own - (d), own >= (d))
#define SHFL_DOWN(v, d) SHFL_FROM(v, own + (d), from < 32)
/* `l` may say `v`: the lane comes from what was there before. */
#define SHFL(v, l)                                                                                 \
    WAS(v)                                                                                         \
    FOR v = was[(lin & ~31u) + ((l) & 31)];
#define WARPS(v, p, change)                                                                        \
    {                                                                                              \
        u32 votes[SLOTS / 32] = {0};                                                               \
        FOR votes[lin / 32] |= (u32)((p) != 0) << (lin & 31);                                      \
        FOR                                                                                        \
        {                                                                                          \
            u32 vote = votes[lin / 32];                                                            \
            v change;                                                                              \
        }                                                                                          \
    }
#define BALLOT(v, p) WARPS(v, p, ^= vote)
#define ANY(v, p) WARPS(v, p, += (u32)(vote != 0))
#define ALL(v, p) WARPS(v, p, ^= (u32)(vote == ~0u) << 7)
#define CLEAR                                                                                      \
    for (u32 k = 0; k < SLOTS; k++)                                                                \
        sh[k] = k * 77;
#define EXCHANGE(v, slot)                                                                          \
    FOR sh[lin] = v;                                                                               \
    FOR v += 3 * sh[(slot) % SLOTS];
#define GATHER(op, v, slot, look)                                                                  \
    FOR op(&sh[(slot) & 15], v);                                                                   \
    FOR v ^= sh[(look) & 15];
#define ADD(p, v) (*(p) += (u32)(v))
#define MAX(p, v) (*(p) = *(p) > (u32)(v) ? *(p) : (u32)(v))
#define MIN(p, v) (*(p) = *(p) < (u32)(v) ? *(p) : (u32)(v))
#define XOR(p, v) (*(p) ^= (u32)(v))

static void block(u32 *out, const u32 *in, u32 n, u32 blk, u32 size);
void program(u32 *out, const u32 *in, u32 n, u32 blocks, u32 size)
{
    for (u32 b = 0; b < blocks; b++)
        block(out, in, n, b, size);
}

#endif
#endif
