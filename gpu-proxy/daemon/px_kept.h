/* px_kept.h - memory that sessions have left in lockers: who has made it, and who has it besides. Arithmetic on
 * tables, no locks.
 *
 * It counts with its maker. When that has taken it back, or has ended, and others have it still, it counts
 * with the first of them. */
#ifndef PX_KEPT_H
#define PX_KEPT_H

#include <stddef.h>
#include <stdint.h>

#include "gpu-proxy/session/px_locker.h"

typedef struct {
    uint64_t session, lease;
} px_keeper_t;

typedef struct px_kept px_kept_t;

px_kept_t *px_kept_create(void); /* NULL: out of memory */
void px_kept_destroy(px_kept_t *kept);

/* `maker` leaves memory under a token more: the number of that memory, a new one if it does not name one that it
 * has made. 0: out of memory, or there is no such device. */
uint64_t px_kept_leave(px_kept_t *kept, const px_keeper_t *maker, const px_locker_memory_t *memory);

/* It is left under a token less. */
void px_kept_take(px_kept_t *kept, uint64_t number);

/* Somebody has found it. 0: out of memory. */
int px_kept_find(px_kept_t *kept, uint64_t number, const px_keeper_t *who);

/* Somebody has it once less. 0: that does not have it. */
int px_kept_release(px_kept_t *kept, uint64_t number, const px_keeper_t *who);

/* A session has ended: it has nothing. What it has left is taken token by token, before or after. */
void px_kept_end(px_kept_t *kept, const px_keeper_t *who);

/* Calls `fn` for all memory that counts with others than its maker. */
void px_kept_count(const px_kept_t *kept,
                   void (*fn)(void *arg, const px_keeper_t *who, uint32_t ordinal, uint64_t bytes),
                   void *arg);

#endif
