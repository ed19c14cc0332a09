/* packet.h - instructions that a helper does for a whole strip: how they are described.
 *
 * Generated code puts the operands into slots, calls the helper with a constant that says what to do,
 * and takes the results from slots. Which instructions there are is decided here without LLVM, once
 * for the check at load, the code generator and the helper. Every description consists of uint32_t. */
#ifndef CPU_PACKET_H
#define CPU_PACKET_H

#include "gpu-proxy/cpu/ptx/ptx_ir.h"

#include <stdbool.h>
#include <stdint.h>

/* A slot has room for 8 bytes of each of 32 lanes; lane l's value is at l times its own size. */
enum { CPU_PACKET_SLOT = 256, CPU_PACKET_SLOTS = 40 };
/* Bytes behind the slots that helpers_mma.c keeps from one product to the next. */
enum { CPU_PACKET_KEPT = 2 * 4096 + 4 * 2048 };

static inline void *cpu_packet_slot(uint8_t *slots, unsigned n)
{
    return slots + (size_t)n * CPU_PACKET_SLOT;
}

/* ---- atomic operations that are not one integer, f32 or f64: small floats, vectors, 128 bits.
 * Slots: 0 addresses; 1 + 2n, 2 + 2n the halves (b128) or just 1 + n the elements of the source; from
 * CPU_RARE_B on the second source of cas; from CPU_RARE_OLD on the old values. ---- */
enum { CPU_RARE_A = 1, CPU_RARE_B = 9, CPU_RARE_OLD = 17 };

typedef struct {
    uint32_t mode;  /* ptx_atom_mode_t */
    uint32_t type;  /* ptx_type_t of an element */
    uint32_t count; /* elements */
    uint32_t space; /* ptx_space_t */
} cpu_rare_t;

/* Is it such an operation, and covered? */
bool cpu_atomic_rare(const ptx_instr_t *i, cpu_rare_t *out);
/* Any covered atomic operation. */
bool cpu_atomic_covered(const ptx_instr_t *i);

/* ---- the device's runtime: arguments in slots 0 and up, 64 bits each; the result behind them ---- */
enum { CPU_RUNTIME_RESULT = 8 };

typedef struct {
    uint32_t which; /* ptx_runtime_t */
} cpu_runtime_call_t;

/* ---- asynchronous copies and mbarriers. Copies are done when they are issued: commit and wait have
 * nothing to do. Slots: see cpu_async_slot_t. ---- */
typedef enum {
    CPU_ASYNC_NOTHING = 0, /* no code: commit, wait, prefetch */
    CPU_ASYNC_COPY,        /* cp.async: each lane `bytes` */
    CPU_ASYNC_BULK,        /* cp.async.bulk: each lane as many as slot SIZE says */
    CPU_ASYNC_REDUCE,      /* cp.reduce.async.bulk: `mode` on elements of `type` */
    CPU_MBARRIER_INIT,
    CPU_MBARRIER_INVAL,
    CPU_MBARRIER_ARRIVE, /* flag DROP: arrive_drop; EXPECT: slot SIZE has a transaction count */
    CPU_MBARRIER_EXPECT,
    CPU_MBARRIER_COMPLETE,
    CPU_MBARRIER_TEST, /* flag PARITY: slot SIZE has a phase's parity, else slot STATE a state */
    CPU_MBARRIER_PENDING
} cpu_async_op_t;

typedef enum {
    CPU_ASYNC_SLOT_A = 0,  /* destination, or the mbarrier */
    CPU_ASYNC_SLOT_B,      /* source */
    CPU_ASYNC_SLOT_SIZE,   /* 32 bits: source size, count, parity */
    CPU_ASYNC_SLOT_IGNORE, /* predicate */
    CPU_ASYNC_SLOT_BARRIER,
    CPU_ASYNC_SLOT_STATE, /* 64 bits: given or to be tested */
    CPU_ASYNC_SLOT_RESULT /* predicate, 32 bits */
} cpu_async_slot_t;

enum {
    CPU_ASYNC_HAS_SIZE = 1,
    CPU_ASYNC_HAS_IGNORE = 2,
    CPU_ASYNC_HAS_BARRIER = 4,
    CPU_ASYNC_DROP = 8,
    CPU_ASYNC_EXPECT = 16,
    CPU_ASYNC_PARITY = 32
};

typedef struct {
    uint32_t op;           /* cpu_async_op_t */
    uint32_t to, from;     /* ptx_space_t of A and B */
    uint32_t bytes, flags; /* CPU_ASYNC_HAS_... */
    uint32_t mode, type;
} cpu_async_t;

/* Describes a cp or mbarrier instruction; false: not covered. */
bool cpu_async_parse(const ptx_function_t *f, const ptx_instr_t *i, cpu_async_t *out);

/* Is `word` one of the mnemonic's dot words? */
bool cpu_has_word(const ptx_instr_t *i, const char *word);

#endif
