/* Atomic operations on small floats, vectors and 128 bits, lane by lane. A vector is atomic element by
 * element, as PTX has it. */
#include "gpu-proxy/cpu/jit/helpers_lane.h"
#include "gpu-proxy/cpu/jit/packet.h"
#include "gpu-proxy/cpu/jit/small_float.h"

#include <math.h>

/* PTX's min and max: a number beats a NaN, and -0 is below +0. */
static float extreme(float x, float y, bool want_max)
{
    if (isnan(x) || isnan(y)) {
        return isnan(x) ? y : x;
    }
    bool less = x < y || (x == y && signbit(x) && !signbit(y));
    return less != want_max ? x : y;
}

static float combine(uint32_t mode, float old, float v)
{
    return mode == PTX_ATOM_ADD ? old + v : extreme(old, v, mode == PTX_ATOM_MAX);
}

static uint16_t combine16(uint32_t mode, bool bf16, uint16_t old, uint16_t v)
{
    return bf16 ? cpu_to_bf16(combine(mode, cpu_from_bf16(old), cpu_from_bf16(v)))
                : cpu_to_f16(combine(mode, cpu_from_f16(old), cpu_from_f16(v)));
}

uint16_t cpu_atomic_half(void *cell, uint32_t mode, bool bf16, uint16_t v)
{
    uint16_t *p = cell;
    uint16_t old = __atomic_load_n(p, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(p, &old, combine16(mode, bf16, old, v), true,
                                        __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
    }
    return old;
}

static uint32_t pair_atomic(uint32_t *p, uint32_t mode, bool bf16, uint32_t v)
{
    uint32_t old = __atomic_load_n(p, __ATOMIC_RELAXED), next;
    do {
        next = combine16(mode, bf16, (uint16_t)old, (uint16_t)v);
        next |= (uint32_t)combine16(mode, bf16, (uint16_t)(old >> 16), (uint16_t)(v >> 16)) << 16;
    } while (!__atomic_compare_exchange_n(p, &old, next, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    return old;
}

static uint32_t f32_atomic(uint32_t *p, uint32_t v)
{
    uint32_t old = __atomic_load_n(p, __ATOMIC_RELAXED), next;
    do {
        next = cpu_bits_of_float(cpu_float_of_bits(old) + cpu_float_of_bits(v));
    } while (!__atomic_compare_exchange_n(p, &old, next, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    return old;
}

/* Compares 16 bytes with `old` and, if they are equal, stores `next`; `old` gets what was there. */
static bool swap_16(uint64_t *p, uint64_t old[2], const uint64_t next[2])
{
    bool equal;
    __asm__ volatile("lock cmpxchg16b %1"
                     : "=@ccz"(equal), "+m"(*(unsigned __int128 *)(void *)p), "+a"(old[0]),
                       "+d"(old[1])
                     : "b"(next[0]), "c"(next[1])
                     : "memory");
    return equal;
}

static void wide_atomic(uint64_t *p, uint32_t mode, const uint64_t a[2], const uint64_t b[2],
                        uint64_t old[2])
{
    if (mode == PTX_ATOM_CAS) {
        old[0] = a[0];
        old[1] = a[1];
        swap_16(p, old, b);
        return;
    }
    old[0] = old[1] = 0;
    while (!swap_16(p, old, a)) {
    }
}

static void lane_of(uint8_t *slots, unsigned first, unsigned lane, uint64_t out[2])
{
    for (unsigned n = 0; n < 2; n++) {
        out[n] = ((const uint64_t *)cpu_packet_slot(slots, first + n))[lane];
    }
}

static void do_lane(const cpu_rare_t *w, uint8_t *p, uint8_t *slots, unsigned lane)
{
    bool bf16 = w->type == PTX_BF16 || w->type == PTX_BF16X2;
    if (w->type == PTX_B128) {
        uint64_t a[2], b[2], old[2];
        lane_of(slots, CPU_RARE_A, lane, a);
        lane_of(slots, CPU_RARE_B, lane, b);
        wide_atomic((uint64_t *)(void *)p, w->mode, a, b, old);
        for (unsigned n = 0; n < 2; n++) {
            ((uint64_t *)cpu_packet_slot(slots, CPU_RARE_OLD + n))[lane] = old[n];
        }
        return;
    }
    for (unsigned n = 0; n < w->count; n++) {
        void *a = cpu_packet_slot(slots, CPU_RARE_A + n);
        void *old = cpu_packet_slot(slots, CPU_RARE_OLD + n);
        if (w->type == PTX_F16 || w->type == PTX_BF16) {
            uint16_t *at = (uint16_t *)(void *)p + n;
            ((uint16_t *)old)[lane] = cpu_atomic_half(at, w->mode, bf16, ((uint16_t *)a)[lane]);
        } else {
            uint32_t *at = (uint32_t *)(void *)p + n, v = ((uint32_t *)a)[lane];
            ((uint32_t *)old)[lane] =
                w->type == PTX_F32 ? f32_atomic(at, v) : pair_atomic(at, w->mode, bf16, v);
        }
    }
}

int32_t cpu_help_atomic_rare(cpu_launch_t *l, const void *what, uint32_t mask, uint32_t strip,
                             uint8_t *slots)
{
    const cpu_rare_t *w = what;
    const uint64_t *addresses = cpu_packet_slot(slots, 0);
    cpu_access_t access = {.bytes = (uint8_t)ptx_type_size((ptx_type_t)w->type),
                           .count = (uint8_t)w->count,
                           .space = (uint8_t)w->space,
                           .write = 1};
    for (uint32_t m = mask; m != 0; m &= m - 1) {
        unsigned lane = (unsigned)__builtin_ctz(m);
        uint8_t *p = cpu_lane_pointer(l, addresses[lane], access, strip, lane);
        if (p == NULL) {
            return CPU_STATE_FAULT;
        }
        do_lane(w, p, slots, lane);
    }
    return 0;
}
