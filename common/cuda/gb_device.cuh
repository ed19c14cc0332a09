/* gb_device.cuh - the device side of CUDA C for clang, without a CUDA toolkit.
 *
 * Include it first in a .cu file that gable_add_ptx() compiles. It gives what a kernel needs: the
 * qualifiers, threadIdx and friends, barriers, warp shuffles and votes, atomics, vector types and
 * float maths. Where nvcc compiles the file (__NVCC__), the toolkit's own definitions are used.
 *
 * Maths: sqrtf, fabsf, fmaf, fminf, fmaxf, floorf, ceilf, rintf and division are correctly rounded
 * as PTX defines them. expf, logf, tanhf, powf are built on ex2.approx and lg2.approx: expf within
 * 2 ulp over the whole range, logf within 2^-21 absolute near 1 and 2 ulp elsewhere. */
#ifndef GB_DEVICE_CUH
#define GB_DEVICE_CUH

#if defined(__clang__) && defined(__CUDA__) && !defined(__NVCC__)

#define __host__ __attribute__((host))
#define __device__ __attribute__((device))
#define __global__ __attribute__((global))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define GB_DEVICE static __device__ __forceinline__

typedef __SIZE_TYPE__ size_t;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;

/* A special register triple reads as a struct with x, y and z, but is a register, not memory. */
#define GB_DEVICE_TRIPLE(name, sreg)                                                               \
    struct gb_##name##_t {                                                                         \
        __declspec(property(get = get_x)) unsigned x;                                              \
        __declspec(property(get = get_y)) unsigned y;                                              \
        __declspec(property(get = get_z)) unsigned z;                                              \
        GB_DEVICE unsigned get_x()                                                                 \
        {                                                                                          \
            return __nvvm_read_ptx_sreg_##sreg##_x();                                              \
        }                                                                                          \
        GB_DEVICE unsigned get_y()                                                                 \
        {                                                                                          \
            return __nvvm_read_ptx_sreg_##sreg##_y();                                              \
        }                                                                                          \
        GB_DEVICE unsigned get_z()                                                                 \
        {                                                                                          \
            return __nvvm_read_ptx_sreg_##sreg##_z();                                              \
        }                                                                                          \
    };                                                                                             \
    extern const __device__ gb_##name##_t name;
GB_DEVICE_TRIPLE(threadIdx, tid)
GB_DEVICE_TRIPLE(blockIdx, ctaid)
GB_DEVICE_TRIPLE(blockDim, ntid)
GB_DEVICE_TRIPLE(gridDim, nctaid)
#undef GB_DEVICE_TRIPLE
#define warpSize 32

/* ---- barriers and fences ---- */
extern "C" __device__ void __syncthreads(void); /* known to the compiler: bar.sync 0 */
GB_DEVICE void __syncwarp(unsigned mask = 0xffffffffu)
{
    __nvvm_bar_warp_sync(mask);
}
GB_DEVICE void __threadfence_block()
{
    __nvvm_membar_cta();
}
GB_DEVICE void __threadfence()
{
    __nvvm_membar_gl();
}
GB_DEVICE void __threadfence_system()
{
    __nvvm_membar_sys();
}
GB_DEVICE int __syncthreads_count(int p)
{
    return __nvvm_bar0_popc(p);
}
GB_DEVICE int __syncthreads_and(int p)
{
    return __nvvm_bar0_and(p);
}
GB_DEVICE int __syncthreads_or(int p)
{
    return __nvvm_bar0_or(p);
}

/* ---- bits ---- */
GB_DEVICE unsigned __float_as_uint(float v)
{
    return __builtin_bit_cast(unsigned, v);
}
GB_DEVICE int __float_as_int(float v)
{
    return __builtin_bit_cast(int, v);
}
GB_DEVICE float __uint_as_float(unsigned v)
{
    return __builtin_bit_cast(float, v);
}
GB_DEVICE float __int_as_float(int v)
{
    return __builtin_bit_cast(float, v);
}
GB_DEVICE int __popc(unsigned v)
{
    return __builtin_popcount(v);
}
GB_DEVICE int __popcll(uint64_t v)
{
    return __builtin_popcountll(v);
}
GB_DEVICE int __clz(int v)
{
    return v ? __builtin_clz((unsigned)v) : 32;
}
GB_DEVICE int __ffs(int v)
{
    return v ? __builtin_ctz((unsigned)v) + 1 : 0;
}
GB_DEVICE unsigned __brev(unsigned v)
{
    return __builtin_bitreverse32(v);
}
GB_DEVICE unsigned __umulhi(unsigned a, unsigned b)
{
    return (unsigned)(((uint64_t)a * b) >> 32);
}

/* ---- warp shuffles and votes; width is a power of two up to 32 ---- */
GB_DEVICE int gb_shuffle_clamp(int width, int clamp)
{
    return ((32 - width) << 8) | clamp;
}
#define GB_DEVICE_SHUFFLE(type, suffix)                                                            \
    GB_DEVICE type __shfl_sync(unsigned mask, type v, int lane, int width = 32)                    \
    {                                                                                              \
        return __nvvm_shfl_sync_idx_##suffix(mask, v, lane, gb_shuffle_clamp(width, 31));          \
    }                                                                                              \
    GB_DEVICE type __shfl_up_sync(unsigned mask, type v, unsigned delta, int width = 32)           \
    {                                                                                              \
        return __nvvm_shfl_sync_up_##suffix(mask, v, delta, gb_shuffle_clamp(width, 0));           \
    }                                                                                              \
    GB_DEVICE type __shfl_down_sync(unsigned mask, type v, unsigned delta, int width = 32)         \
    {                                                                                              \
        return __nvvm_shfl_sync_down_##suffix(mask, v, delta, gb_shuffle_clamp(width, 31));        \
    }                                                                                              \
    GB_DEVICE type __shfl_xor_sync(unsigned mask, type v, int lanes, int width = 32)               \
    {                                                                                              \
        return __nvvm_shfl_sync_bfly_##suffix(mask, v, lanes, gb_shuffle_clamp(width, 31));        \
    }
GB_DEVICE_SHUFFLE(float, f32)
GB_DEVICE_SHUFFLE(int, i32)
#undef GB_DEVICE_SHUFFLE
GB_DEVICE unsigned __shfl_up_sync(unsigned mask, unsigned v, unsigned delta, int width = 32)
{
    return (unsigned)__shfl_up_sync(mask, (int)v, delta, width);
}
GB_DEVICE unsigned __shfl_down_sync(unsigned mask, unsigned v, unsigned delta, int width = 32)
{
    return (unsigned)__shfl_down_sync(mask, (int)v, delta, width);
}
GB_DEVICE unsigned __shfl_sync(unsigned mask, unsigned v, int lane, int width = 32)
{
    return (unsigned)__shfl_sync(mask, (int)v, lane, width);
}
GB_DEVICE unsigned __shfl_xor_sync(unsigned mask, unsigned v, int lanes, int width = 32)
{
    return (unsigned)__shfl_xor_sync(mask, (int)v, lanes, width);
}
GB_DEVICE unsigned __ballot_sync(unsigned mask, int p)
{
    return __nvvm_vote_ballot_sync(mask, p);
}
GB_DEVICE int __any_sync(unsigned mask, int p)
{
    return __nvvm_vote_any_sync(mask, p);
}
GB_DEVICE int __all_sync(unsigned mask, int p)
{
    return __nvvm_vote_all_sync(mask, p);
}
GB_DEVICE unsigned __match_any_sync(unsigned mask, unsigned v)
{
    return __nvvm_match_any_sync_i32(mask, v);
}
GB_DEVICE unsigned __activemask()
{
    unsigned mask;
    asm volatile("activemask.b32 %0;" : "=r"(mask));
    return mask;
}

/* ---- atomics, device scope; each returns the old value ---- */
GB_DEVICE float atomicAdd(float *p, float v)
{
    return __nvvm_atom_add_gen_f(p, v);
}
GB_DEVICE int atomicAdd(int *p, int v)
{
    return __nvvm_atom_add_gen_i(p, v);
}
GB_DEVICE unsigned atomicAdd(unsigned *p, unsigned v)
{
    return (unsigned)__nvvm_atom_add_gen_i((int *)p, (int)v);
}
GB_DEVICE uint64_t atomicAdd(uint64_t *p, uint64_t v)
{
    return (uint64_t)__nvvm_atom_add_gen_ll((long long *)p, (long long)v);
}
GB_DEVICE int atomicMax(int *p, int v)
{
    return __nvvm_atom_max_gen_i(p, v);
}
GB_DEVICE unsigned atomicMax(unsigned *p, unsigned v)
{
    return __nvvm_atom_max_gen_ui(p, v);
}
GB_DEVICE int atomicMin(int *p, int v)
{
    return __nvvm_atom_min_gen_i(p, v);
}
GB_DEVICE unsigned atomicMin(unsigned *p, unsigned v)
{
    return __nvvm_atom_min_gen_ui(p, v);
}
GB_DEVICE int atomicAnd(int *p, int v)
{
    return __nvvm_atom_and_gen_i(p, v);
}
GB_DEVICE int atomicOr(int *p, int v)
{
    return __nvvm_atom_or_gen_i(p, v);
}
GB_DEVICE int atomicXor(int *p, int v)
{
    return __nvvm_atom_xor_gen_i(p, v);
}
GB_DEVICE int atomicExch(int *p, int v)
{
    return __nvvm_atom_xchg_gen_i(p, v);
}
GB_DEVICE int atomicCAS(int *p, int expected, int v)
{
    return __nvvm_atom_cas_gen_i(p, expected, v);
}
GB_DEVICE unsigned atomicCAS(unsigned *p, unsigned expected, unsigned v)
{
    return (unsigned)__nvvm_atom_cas_gen_i((int *)p, (int)expected, (int)v);
}

/* ---- float maths ---- */
GB_DEVICE float sqrtf(float x)
{
    return __builtin_sqrtf(x);
}
GB_DEVICE float rsqrtf(float x)
{
    return __nvvm_rsqrt_approx_f(x);
}
GB_DEVICE float fabsf(float x)
{
    return __builtin_fabsf(x);
}
GB_DEVICE float floorf(float x)
{
    return __builtin_floorf(x);
}
GB_DEVICE float ceilf(float x)
{
    return __builtin_ceilf(x);
}
GB_DEVICE float truncf(float x)
{
    return __builtin_truncf(x);
}
GB_DEVICE float rintf(float x)
{
    return __builtin_rintf(x);
}
GB_DEVICE float fminf(float a, float b)
{
    return __builtin_fminf(a, b);
}
GB_DEVICE float fmaxf(float a, float b)
{
    return __builtin_fmaxf(a, b);
}
GB_DEVICE float fmaf(float a, float b, float c)
{
    return __builtin_fmaf(a, b, c);
}
GB_DEVICE float copysignf(float a, float b)
{
    return __builtin_copysignf(a, b);
}
GB_DEVICE float __expf(float x)
{
    return __nvvm_ex2_approx_f(x * 1.4426950408889634f);
}
GB_DEVICE float __logf(float x)
{
    return __nvvm_lg2_approx_f(x) * 0.6931471805599453f;
}
GB_DEVICE float __sinf(float x)
{
    return __nvvm_sin_approx_f(x);
}
GB_DEVICE float __cosf(float x)
{
    return __nvvm_cos_approx_f(x);
}
GB_DEVICE float exp2f(float x)
{
    return __nvvm_ex2_approx_f(x);
}
GB_DEVICE float log2f(float x)
{
    return __nvvm_lg2_approx_f(x);
}

/* 2^n * 2^part, where the product x * log2(e) is split so that its rounding does not grow with x. Only
 * n is kept in the range of normal numbers; ex2 takes what is beyond, infinities and NaN. Adding
 * 1.5 * 2^23 + 127 leaves n, biased as an exponent, in the low bits. */
GB_DEVICE float expf(float x)
{
    const float magic = 12583039.0f;
    float near = __builtin_fminf(__builtin_fmaxf(x, -87.0f), 88.0f);
    float n = __builtin_fmaf(near, 1.4426950408889634f, magic);
    float part = __builtin_fmaf(x, 1.4426950216293335f, magic - n);
    part = __builtin_fmaf(x, 1.9259629911266175e-8f, part);
    return __nvvm_ex2_approx_f(part) * __int_as_float(__float_as_int(n) << 23);
}
GB_DEVICE float logf(float x)
{
    return __nvvm_lg2_approx_f(x) * 0.6931471805599453f;
}
GB_DEVICE float powf(float x, float y)
{
    return __nvvm_ex2_approx_f(y * __nvvm_lg2_approx_f(x));
}
GB_DEVICE float tanhf(float x)
{
    float e = expf(-2.0f * __builtin_fabsf(x));
    return __builtin_copysignf((1.0f - e) / (1.0f + e), x);
}

/* ---- integer maths ---- */
GB_DEVICE int min(int a, int b)
{
    return a < b ? a : b;
}
GB_DEVICE int max(int a, int b)
{
    return a > b ? a : b;
}
GB_DEVICE unsigned min(unsigned a, unsigned b)
{
    return a < b ? a : b;
}
GB_DEVICE unsigned max(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

/* ---- vectors: one access of 8 or 16 bytes ---- */
struct __attribute__((aligned(8))) float2 {
    float x, y;
};
struct __attribute__((aligned(16))) float4 {
    float x, y, z, w;
};
struct __attribute__((aligned(8))) int2 {
    int x, y;
};
struct __attribute__((aligned(16))) int4 {
    int x, y, z, w;
};
struct __attribute__((aligned(4))) uchar4 {
    unsigned char x, y, z, w;
};
GB_DEVICE float2 make_float2(float x, float y)
{
    return float2{x, y};
}
GB_DEVICE float4 make_float4(float x, float y, float z, float w)
{
    return float4{x, y, z, w};
}

#endif
#endif
