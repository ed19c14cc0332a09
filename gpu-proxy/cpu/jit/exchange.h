/* exchange.h - what the lanes of a warp do together, for code that runs thread by thread (W = 1).
 *
 * Such a thread leaves its function at the instruction, with what it brings in its context behind the
 * head, and comes back with what it gets. It is the plain reading of the manual, which the vector code
 * is compared with. */
#ifndef CPU_EXCHANGE_H
#define CPU_EXCHANGE_H

#include "gpu-proxy/cpu/jit/code.h"

/* Bit of cpu_context_head_t.waits and .released, beside those of the barriers. */
#define CPU_WAITS_EXCHANGE 0x80000000u

typedef struct {
    uint32_t node; /* of the kernel: where the thread is */
    uint32_t what; /* cpu_exchange_pack */
    uint32_t members;
    uint32_t b, c; /* of shfl */
    uint32_t flag; /* from here on the second result: in range, all the same, elected */
    uint64_t value;
    uint64_t result;
} cpu_exchange_t;

/* op: ptx_opcode_t; mode and type as in the instruction; sync: it waits for all members. */
static inline uint32_t cpu_exchange_pack(uint32_t op, uint32_t mode, uint32_t type, bool sync)
{
    return op | mode << 16 | type << 24 | (uint32_t)sync << 31;
}

/* Lets the threads go on that are complete: all living members of a warp have come to the same
 * operation with the same mask; for operations that wait for nobody, when no thread of the warp can
 * come any more. `force`: nothing else in the CTA can move: whoever has come goes on. False if nobody
 * does. */
bool cpu_exchange_advance(const cpu_code_t *code, cpu_launch_t *launch, uint32_t groups,
                          bool force);

#endif
