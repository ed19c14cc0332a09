/* helpers.h - what generated code calls, and what it leaves in a group's context.
 *
 * The code generator and the runner of CTAs share this page. A change here changes CPU_CODE_VERSION.
 * Every function that checks addresses returns 0, or CPU_STATE_FAULT after it has filled
 * launch->fault; generated code returns that at once. */
#ifndef CPU_HELPERS_H
#define CPU_HELPERS_H

#include "gpu-proxy/cpu/jit/cpu_code.h"

/* What a kernel's entry returns: the next state (>= 0: waits at a barrier, or gave way), or: */
enum {
    CPU_STATE_DONE = -1, /* every thread of the group has ended */
    CPU_STATE_FAULT = -2,
    CPU_STATE_CANCELLED = -3
};
#define CPU_STATE_YIELD 0x40000000 /* bit of a state: not at a barrier, just gave way */

typedef int32_t (*cpu_entry_fn)(cpu_launch_t *launch, uint8_t *context, uint32_t group,
                                uint32_t state);

/* First bytes of a group's context, the talk between the code and cta.c. Threads of a group may wait
 * at different barriers, while others of it still run or have given way. */
typedef struct {
    int32_t state;     /* cta.c's own: where the group goes on, or how it ended */
    uint32_t yielded;  /* cta.c's own */
    uint32_t patience; /* to the code: back-edges of spin loops until the group gives way */
    uint32_t released; /* to the code: bit per barrier whose waiters go on */
    uint32_t waits;    /* from the code: bit per barrier at which threads wait */
    uint32_t living;   /* from the code: threads that have not ended, whether they wait or not */
    uint32_t barrier;  /* the code's own: where all lanes wait */
    uint32_t reserved;
    struct {
        uint32_t came;     /* threads that wait here */
        uint32_t expected; /* threads, or 0: all of the CTA */
    } barriers[CPU_BARRIERS];
    uint32_t reserved2[8];
} cpu_context_head_t;

/* One access of a strip, packed so that generated code passes one constant. */
typedef struct {
    uint8_t bytes; /* of an element */
    uint8_t count; /* elements */
    uint8_t space; /* ptx_space_t */
    uint8_t write;
} cpu_access_t;

static inline uint32_t cpu_access_pack(cpu_access_t a)
{
    return a.bytes | (uint32_t)a.count << 8 | (uint32_t)a.space << 16 | (uint32_t)a.write << 24;
}

static inline cpu_access_t cpu_access_unpack(uint32_t v)
{
    return (cpu_access_t){(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16), (uint8_t)(v >> 24)};
}

/* Affine accesses of a strip, a constant of the generated code. Lane l's address is
 *   base + l * stride + scale * extend(index + l * step) + offset,
 * where the first sum wraps at `bits` and the inner one at 32 bits. */
typedef struct {
    int64_t stride, scale;
    int32_t step;
    uint32_t sign; /* extend by sign */
    uint32_t bits; /* of the base register: 32 or 64 */
    uint32_t access;
    uint32_t pitch; /* gather, scatter: bytes from lane to lane in the copy */
    uint32_t one;   /* all lanes have the same address: look at one only */
    uint32_t count;
    int64_t offsets[];
} cpu_strip_access_t;

/* Which atomic operation on what, for helpers->atomic. */
static inline uint32_t cpu_atomic_pack(uint32_t mode, uint32_t type)
{
    return mode | type << 8;
}

struct cpu_tex_what;
struct cpu_tex_args;

/* `addresses`: one per lane. Spaces: shared addresses count from the CTA's shared memory, local ones
 * from the thread's frame, all others are host addresses. `mask`: bit per active lane. `strip`: number
 * of the strip, group * strips + g. */
struct cpu_helpers {
    /* Are these addresses fine? */
    int32_t (*check)(cpu_launch_t *launch, const uint64_t *addresses, uint32_t mask,
                     uint32_t access, uint32_t strip);
    /* The same for affine addresses, at each of the offsets. */
    int32_t (*check_strip)(cpu_launch_t *launch, const cpu_strip_access_t *what, uint64_t base,
                           uint32_t index, uint32_t mask, uint32_t strip);
    /* Checks and loads; what lane l reads at an offset goes to out + l * pitch + (offset - lowest
     * offset); inactive lanes are left alone. */
    int32_t (*gather)(cpu_launch_t *launch, const cpu_strip_access_t *what, uint64_t base,
                      uint32_t index, uint32_t mask, uint32_t strip, void *out);
    int32_t (*scatter)(cpu_launch_t *launch, const cpu_strip_access_t *what, uint64_t base,
                       uint32_t index, uint32_t mask, uint32_t strip, const void *values);
    /* Atomic operations lane by lane; a, b and old have 8 bytes per lane (old may equal a). */
    int32_t (*atomic)(cpu_launch_t *launch, const uint64_t *addresses, uint32_t mask,
                      uint32_t access, uint32_t strip, uint32_t what, const uint64_t *a,
                      const uint64_t *b, uint64_t *old);
    /* Records a fault that needs no address. */
    int32_t (*fault)(cpu_launch_t *launch, uint32_t code, uint32_t mask, uint32_t strip);
    uint64_t (*nanoseconds)(void);
    /* Instructions that packet.h describes: `what` is a description, `slots` the operands. */
    int32_t (*atomic_rare)(cpu_launch_t *launch, const void *what, uint32_t mask, uint32_t strip,
                           uint8_t *slots);
    int32_t (*runtime)(cpu_launch_t *launch, const void *what, uint32_t mask, uint32_t strip,
                       uint8_t *slots);
    int32_t (*async)(cpu_launch_t *launch, const void *what, uint32_t mask, uint32_t strip,
                     uint8_t *slots);
    int32_t (*matrix)(cpu_launch_t *launch, const void *what, uint32_t mask, uint32_t strip,
                      uint8_t *slots);
    /* Textures and surfaces (helpers_tex.c): arguments and results are in the buffer. */
    int32_t (*texture)(cpu_launch_t *launch, const struct cpu_tex_what *what, uint32_t mask,
                       uint32_t strip, struct cpu_tex_args *buffer);
    /* 1 if each of `count` pairs of addresses, first and behind the last byte, lies in one valid
     * range of global memory. */
    int32_t (*spans)(const cpu_launch_t *launch, const uint64_t *pairs, uint32_t count);
};

/* Coordinates of a lane's thread, and whether there is such a thread. */
bool cpu_thread_of(const cpu_code_header_t *header, const uint32_t block[3], uint32_t strip,
                   unsigned lane, uint32_t tid[3]);

/* Groups and strips of a CTA. */
typedef struct {
    uint32_t strips_per_row; /* WARPS: of the whole block */
    uint32_t groups;
} cpu_grouping_t;
cpu_grouping_t cpu_grouping(uint32_t layout, uint32_t width, uint32_t strips,
                            const uint32_t block[3]);

/* Strip number of (group, g) as column index and row; see cpu_layout_t. */
typedef struct {
    uint32_t column; /* of the strip's first lane; WARPS: its linear thread number */
    uint32_t row;    /* y + z * block.y */
} cpu_strip_t;
cpu_strip_t cpu_strip_at(uint32_t layout, uint32_t width, uint32_t strips, uint32_t strips_per_row,
                         uint32_t strip);

#endif
