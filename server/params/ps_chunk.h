/* ps_chunk.h - one chunk of the model: its weights, optimizer state, version, and the gradients that
 * have come for its current clock.
 *
 * A gradient is received into a slot of its worker and counts once it is whole. When every member of
 * the clock has a whole slot, the weighted mean is taken in worker order (whatever the order of
 * arrival: the bits do not depend on it), the optimizer steps, and the version goes up by one.
 * Keeping the slots apart until then is also what makes a half-received or a leaver's gradient vanish
 * without a trace. Belongs to its owner thread. */
#ifndef PS_CHUNK_H
#define PS_CHUNK_H

#include <stdint.h>

#include "common/core/gb_status.h"
#include "server/params/ps_buf.h"
#include "server/params/ps_kernels.h"
#include "server/params/ps_members.h"

typedef enum { PS_SLOT_EMPTY, PS_SLOT_RECEIVING, PS_SLOT_WHOLE } ps_slot_state_t;

typedef struct {
    uint32_t worker, samples;
    ps_slot_state_t state;
    ps_buf_t *gradient; /* kept from clock to clock */
} ps_slot_t;

/* Somebody who waits for a version. */
typedef struct {
    void *who;
    uint64_t version;
    uint32_t sequence, worker;
    uint16_t operation;
} ps_waiter_t;

typedef struct {
    uint32_t id, elements;
    int ready; /* weights are there (initial, or restored) */
    uint64_t version;
    ps_buf_t *weights, *velocity;
    ps_slot_t *slots; /* ascending worker */
    uint32_t slot_count, slot_cap;
    ps_waiter_t *waiters;
    uint32_t waiter_count, waiter_cap;
} ps_chunk_t;

typedef enum {
    PS_PUSH_TAKE,     /* receive it into the slot's buffer */
    PS_PUSH_REPEAT,   /* known already: throw the bytes away, acknowledge */
    PS_PUSH_STRANGER, /* not a member at that clock */
    PS_PUSH_AHEAD,    /* a clock that the weights have not reached */
    PS_PUSH_UNREADY,  /* no weights yet */
    PS_PUSH_NO_MEMORY,
} ps_push_verdict_t;

gb_status_t ps_chunk_init(ps_chunk_t *chunk, uint32_t id, uint32_t elements);
void ps_chunk_clear(ps_chunk_t *chunk);

/* Begins a push. With PS_PUSH_TAKE, *slot is its place and stays so until the push ends or aborts. */
ps_push_verdict_t ps_chunk_push_begin(ps_chunk_t *chunk, const ps_members_t *members,
                                      uint32_t worker, uint64_t clock, float **data);
/* The bytes are all there. */
void ps_chunk_push_end(ps_chunk_t *chunk, uint32_t worker, uint32_t samples);
/* The bytes will never be all there. Returns 1 if something was dropped. */
int ps_chunk_push_abort(ps_chunk_t *chunk, uint32_t worker);

/* Forgets the worker's gradient of this clock, whole or not. */
void ps_chunk_drop(ps_chunk_t *chunk, uint32_t worker);

/* If the sum is complete: steps and returns 1. 0: somebody is missing. -1: out of memory (nothing was
 * changed). */
int ps_chunk_step(ps_chunk_t *chunk, const ps_members_t *members, const ps_optimizer_t *optimizer);

gb_status_t ps_chunk_wait(ps_chunk_t *chunk, const ps_waiter_t *waiter);

#endif
