/* px_ledger.h - who holds how much device memory: arithmetic on the sessions' shares, no locks. */
#ifndef PX_LEDGER_H
#define PX_LEDGER_H

#include <stdint.h>

#include "gpu-proxy/daemon/px_inventory.h"
#include "gpu-proxy/session/px_account.h"

/* A session's share. */
typedef struct {
    uint64_t lease;
    uint64_t quota; /* bytes on each device, for all sessions of the lease; 0 = none */
    uint64_t held[PX_DEVICES];
    uint64_t kept[PX_DEVICES]; /* what others have made, and it alone has now (px_kept.h) */
} px_share_t;

/* Decides on a wish of `mine`, one of `shares` (NULL: skipped). `memory` is what the device has for all, by ordinal; 0 = the
 * driver sees to that itself. A wish for a device that there is not gets nothing. */
px_account_answer_t px_ledger_decide(px_share_t *const *shares, size_t count, px_share_t *mine,
                                     const uint64_t memory[PX_DEVICES],
                                     const px_account_wish_t *wish);

#endif
