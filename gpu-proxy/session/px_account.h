/* px_account.h - device memory is counted by the daemon, over all sessions of a device and of a lease.
 *
 * A session asks how much it may hold before it holds more than it was granted, and says when it holds a
 * good deal less. Each session has a socket pair (SOCK_SEQPACKET) of its own for that, whose end comes with its
 * first connection (px_boot.h). What a session was granted is free again when its process is gone, however
 * it ended. */
#ifndef PX_ACCOUNT_H
#define PX_ACCOUNT_H

#include <stdint.h>

#include "common/core/gb_status.h"

typedef struct {
    uint32_t version;
    uint32_t ordinal; /* the driver's, of the device */
    uint64_t want;    /* bytes that the session wants to hold there */
} px_account_wish_t;

typedef struct {
    uint64_t
        granted;   /* bytes that it may hold from now on: `want`, or what it was granted before */
    uint64_t left; /* bytes that nobody was granted, as far as this session may use them */
} px_account_answer_t;

/* ---- the session's side: thread-safe ---- */
typedef struct px_account px_account_t;

/* Takes the descriptor over; -1 = nobody counts, every wish is granted. NULL: out of memory. */
px_account_t *px_account_open(int fd);
void px_account_close(px_account_t *account);

/* Asks and waits for the daemon; a wish for less is always granted. Without the daemon nothing is. */
px_account_answer_t px_account_want(px_account_t *account, int ordinal, uint64_t bytes);

/* ---- the daemon's side ---- */
/* Without waiting: GB_ERR_AGAIN, GB_ERR_LOST, GB_ERR_PROTOCOL. */
gb_status_t px_account_receive(int fd, px_account_wish_t *wish);
/* The session waits for it, so that there is room. */
void px_account_reply(int fd, const px_account_answer_t *answer);

#endif
