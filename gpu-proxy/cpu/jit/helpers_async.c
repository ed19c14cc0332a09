/* Asynchronous copies and mbarriers.
 *
 * A copy is done when it is issued. That is one of the orders that PTX allows, as nobody may look at
 * the destination, or change the source, before the copy has been waited for.
 *
 * An mbarrier lies in its CTA's shared memory, and one thread runs a CTA: plain loads and stores do.
 * Its 64 bits: the number of the phase modulo 2; the count of arrivals that a phase expects; how many
 * of them are pending; and the transactions that have been announced and not completed. */
#include "gpu-proxy/cpu/jit/helpers_lane.h"
#include "gpu-proxy/cpu/jit/packet.h"

#include <string.h>

enum { COUNT_BITS = 20, TX_BITS = 23 };

static const uint64_t COUNT_MASK = ((uint64_t)1 << COUNT_BITS) - 1;
static const uint64_t TX_MASK = ((uint64_t)1 << TX_BITS) - 1;

typedef struct {
    uint32_t phase, expected, pending;
    int32_t transactions;
} barrier_t;

static barrier_t unpack(uint64_t v)
{
    uint32_t tx = (uint32_t)(v >> (1 + 2 * COUNT_BITS) & TX_MASK);
    return (barrier_t){.phase = v & 1,
                       .expected = (uint32_t)(v >> 1 & COUNT_MASK),
                       .pending = (uint32_t)(v >> (1 + COUNT_BITS) & COUNT_MASK),
                       .transactions = (int32_t)(tx << (32 - TX_BITS)) >> (32 - TX_BITS)};
}

static uint64_t pack(const barrier_t *b)
{
    return b->phase | (b->expected & COUNT_MASK) << 1 |
           (b->pending & COUNT_MASK) << (1 + COUNT_BITS) |
           ((uint64_t)(uint32_t)b->transactions & TX_MASK) << (1 + 2 * COUNT_BITS);
}

/* A phase is over when nothing is pending; the next one begins at once. */
static void settle(barrier_t *b)
{
    if (b->pending == 0 && b->transactions == 0) {
        b->phase ^= 1;
        b->pending = b->expected;
    }
}

typedef struct {
    cpu_launch_t *launch;
    const cpu_async_t *what;
    uint32_t strip;
    unsigned lane;
    uint8_t *slots;
} call_t;

static uint64_t wide(const call_t *c, unsigned slot)
{
    return ((const uint64_t *)cpu_packet_slot(c->slots, slot))[c->lane];
}

static uint32_t narrow(const call_t *c, unsigned slot)
{
    return ((const uint32_t *)cpu_packet_slot(c->slots, slot))[c->lane];
}

static uint64_t *barrier_pointer(const call_t *c, unsigned slot, unsigned space)
{
    return cpu_lane_stretch(c->launch, wide(c, slot), 8, 8, space, true, c->strip, c->lane);
}

static bool complete_tx(const call_t *c, uint32_t bytes)
{
    uint64_t *p = barrier_pointer(c, CPU_ASYNC_SLOT_BARRIER, PTX_SPACE_SHARED);
    if (p == NULL) {
        return false;
    }
    barrier_t b = unpack(*p);
    b.transactions -= (int32_t)bytes;
    settle(&b);
    *p = pack(&b);
    return true;
}

/* ---- copies ---- */

/* The usual case: everything is where it should be, and all of it is copied. */
static inline bool copy_quickly(const call_t *c)
{
    const cpu_async_t *w = c->what;
    uint8_t *to =
        cpu_lane_quick(c->launch, wide(c, CPU_ASYNC_SLOT_A), w->bytes, w->bytes, PTX_SPACE_SHARED);
    const uint8_t *from =
        cpu_lane_quick(c->launch, wide(c, CPU_ASYNC_SLOT_B), w->bytes, w->bytes, PTX_SPACE_GLOBAL);
    if (to == NULL || from == NULL || w->flags != 0) {
        return false;
    }
    if (w->bytes == 16) {
        memcpy(to, from, 16);
    } else {
        memcpy(to, from, w->bytes == 8 ? 8 : 4);
    }
    return true;
}

static bool copy(const call_t *c)
{
    const cpu_async_t *w = c->what;
    uint32_t bytes = w->bytes;
    if (copy_quickly(c)) {
        return true;
    }
    if (w->flags & CPU_ASYNC_HAS_SIZE) {
        uint32_t size = narrow(c, CPU_ASYNC_SLOT_SIZE);
        bytes = size < bytes ? size : bytes;
    }
    if (w->flags & CPU_ASYNC_HAS_IGNORE && narrow(c, CPU_ASYNC_SLOT_IGNORE) != 0) {
        bytes = 0;
    }
    uint8_t *to = cpu_lane_stretch(c->launch, wide(c, CPU_ASYNC_SLOT_A), w->bytes, w->bytes, w->to,
                                   true, c->strip, c->lane);
    if (to == NULL) {
        return false;
    }
    if (bytes > 0) {
        const uint8_t *from = cpu_lane_stretch(c->launch, wide(c, CPU_ASYNC_SLOT_B), bytes,
                                               w->bytes, w->from, false, c->strip, c->lane);
        if (from == NULL) {
            return false;
        }
        memcpy(to, from, bytes);
    }
    memset(to + bytes, 0, w->bytes - bytes);
    return true;
}

static void reduce(const cpu_async_t *w, uint8_t *to, const uint8_t *from, uint32_t bytes)
{
    unsigned size = ptx_type_size((ptx_type_t)w->type);
    for (uint32_t at = 0; at + size <= bytes; at += size) {
        uint64_t v = 0;
        memcpy(&v, from + at, size);
        if (w->type == PTX_F16 || w->type == PTX_BF16) {
            cpu_atomic_half(to + at, w->mode, w->type == PTX_BF16, (uint16_t)v);
        } else {
            cpu_atomic_cell(to + at, w->mode, w->type, v, 0);
        }
    }
}

static bool bulk(const call_t *c)
{
    enum { ALIGN = 16 };
    const cpu_async_t *w = c->what;
    uint32_t bytes = narrow(c, CPU_ASYNC_SLOT_SIZE);
    uint8_t *to = cpu_lane_stretch(c->launch, wide(c, CPU_ASYNC_SLOT_A), bytes, ALIGN, w->to, true,
                                   c->strip, c->lane);
    if (to == NULL) {
        return false;
    }
    const uint8_t *from = cpu_lane_stretch(c->launch, wide(c, CPU_ASYNC_SLOT_B), bytes, ALIGN,
                                           w->from, false, c->strip, c->lane);
    if (from == NULL) {
        return false;
    }
    if (w->op == CPU_ASYNC_REDUCE) {
        reduce(w, to, from, bytes);
    } else {
        memmove(to, from, bytes);
    }
    return (w->flags & CPU_ASYNC_HAS_BARRIER) == 0 || complete_tx(c, bytes);
}

/* ---- mbarriers ---- */

static void give_state(const call_t *c, uint64_t state)
{
    ((uint64_t *)cpu_packet_slot(c->slots, CPU_ASYNC_SLOT_STATE))[c->lane] = state;
}

static void give_result(const call_t *c, uint32_t result)
{
    ((uint32_t *)cpu_packet_slot(c->slots, CPU_ASYNC_SLOT_RESULT))[c->lane] = result;
}

/* The state that an arrival gives is the barrier as it was before. */
static void arrive(const call_t *c, barrier_t *b)
{
    bool has = c->what->flags & CPU_ASYNC_HAS_SIZE, expect = c->what->flags & CPU_ASYNC_EXPECT;
    uint32_t operand = has ? narrow(c, CPU_ASYNC_SLOT_SIZE) : 1, count = expect ? 1 : operand;
    give_state(c, pack(b));
    if (expect) {
        b->transactions += (int32_t)operand;
    }
    if (c->what->flags & CPU_ASYNC_DROP) {
        b->expected -= count;
    }
    b->pending -= count;
    settle(b);
}

static bool is_over(const call_t *c, const barrier_t *b)
{
    uint32_t phase = c->what->flags & CPU_ASYNC_PARITY ? narrow(c, CPU_ASYNC_SLOT_SIZE) & 1
                                                       : wide(c, CPU_ASYNC_SLOT_STATE) & 1;
    return b->phase != phase;
}

static bool mbarrier(const call_t *c)
{
    if (c->what->op == CPU_MBARRIER_PENDING) {
        give_result(c, unpack(wide(c, CPU_ASYNC_SLOT_STATE)).pending);
        return true;
    }
    uint64_t *p = barrier_pointer(c, CPU_ASYNC_SLOT_A, c->what->to);
    if (p == NULL) {
        return false;
    }
    barrier_t b = unpack(*p);
    switch (c->what->op) {
    case CPU_MBARRIER_INIT:
        b = (barrier_t){.expected = narrow(c, CPU_ASYNC_SLOT_SIZE)};
        b.pending = b.expected;
        break;
    case CPU_MBARRIER_INVAL:
        return true; /* the bytes are free for other uses */
    case CPU_MBARRIER_ARRIVE:
        arrive(c, &b);
        break;
    case CPU_MBARRIER_EXPECT:
        b.transactions += (int32_t)narrow(c, CPU_ASYNC_SLOT_SIZE);
        break;
    case CPU_MBARRIER_COMPLETE:
        b.transactions -= (int32_t)narrow(c, CPU_ASYNC_SLOT_SIZE);
        settle(&b);
        break;
    default:
        give_result(c, is_over(c, &b));
        return true;
    }
    *p = pack(&b);
    return true;
}

int32_t cpu_help_async(cpu_launch_t *l, const void *what, uint32_t mask, uint32_t strip,
                       uint8_t *slots)
{
    call_t c = {.launch = l, .what = what, .strip = strip, .slots = slots};
    for (uint32_t m = mask; m != 0; m &= m - 1) {
        c.lane = (unsigned)__builtin_ctz(m);
        bool fine;
        switch (c.what->op) {
        case CPU_ASYNC_COPY:
            fine = copy(&c);
            break;
        case CPU_ASYNC_BULK:
        case CPU_ASYNC_REDUCE:
            fine = bulk(&c);
            break;
        default:
            fine = mbarrier(&c);
        }
        if (!fine) {
            return CPU_STATE_FAULT;
        }
    }
    return 0;
}
