/* px_transfer.h - one end of a transfer between two sessions.
 *
 * The dispatcher makes it (px_peer_move): it notes when the streams that order it have come there, stops them
 * behind a gate each, and queues it. A worker carries it out, waiting for the event, the other end and
 * the device; then it opens the gates. Transfers that the program has put into one of its streams come one
 * after the other; each such order has a worker of its own while it has transfers, so that none waits
 * for one that CUDA would not have it wait for. The reader puts what arrives where it belongs.
 *
 * If a transfer fails, its error sticks to the contexts of the program's streams that wait for it, before their
 * gates are opened. */
#ifndef PX_TRANSFER_H
#define PX_TRANSFER_H

#include "gpu-proxy/session/px_box.h"
#include "gpu-proxy/session/px_gate.h"
#include "gpu-proxy/session/px_peer.h"

enum {
    PX_TRANSFER_HOLDS = 2,
    PX_TRANSFER_SLOTS = 4, /* staging places of PX_WIRE_PIECE bytes */
    PX_TRANSFER_STAGED = 8 /* transfers of one direction that have such places at a time */
};

/* A stream that waits for the transfer. */
typedef struct {
    px_context_t *context;
    px_gate_t gate;
    int visible; /* the program's: it learns of a failure */
} px_hold_t;

/* Where packed bytes go through page-locked memory, on their way from or to the device. */
typedef struct {
    uint8_t *buffers[2];
    CUevent events[PX_TRANSFER_SLOTS];
    px_band_t bands[PX_TRANSFER_SLOTS];
    unsigned begun; /* slots ever filled */
} px_stage_t;

struct px_transfer {
    px_transfer_t *next_told; /* in the link's table */
    px_transfer_t *next;      /* of its order */
    px_transfer_t *next_all, **at_all;
    px_peer_t *peer;
    uint64_t token;
    int known; /* the client has told us of it: there is more than the other end's words */
    /* under the lock of the peers */
    int asked;       /* by the other end */
    int open;        /* this end has asked */
    int over, ended; /* this end, the other end has said its last word */
    int reading;     /* the reader puts bytes in place */
    CUresult result; /* why it fails; the first reason */
    pthread_cond_t changed;

    px_context_t *context;
    px_gates_t *gates; /* of the context */
    int sends, signals;
    uint64_t order;
    uint32_t lane;
    CUevent ready;   /* NULL: nothing is before it */
    CUstream waiter; /* that the event was recorded in, if it is ours */
    px_hold_t holds[PX_TRANSFER_HOLDS];
    int hold_count;
    px_wire_side_t side;
    CUarray array;
    px_extent_t extent;
    uint64_t total, moved; /* bytes; counted by the receiver's reader, or the sender's worker */
    uint8_t *direct;       /* the memory itself, where this process reaches it */
    px_stage_t stage;
    px_band_t band; /* that the reader fills */
    uint64_t band_got;
};

/* ---- px_transfer.c ---- */
/* What the other end says. GB_ERR_PROTOCOL. The reader's. */
gb_status_t px_transfer_told(px_peer_t *peer, uint16_t operation, const px_peer_word_t *word);
/* Bytes of a transfer come next on the link. The reader's. */
gb_status_t px_transfer_data(px_peer_t *peer, uint64_t token, uint64_t size);
/* With the lock: the link is lost. */
void px_transfers_lost(px_peer_t *peer);
/* With the lock: the first reason stays. */
void px_transfer_fail(px_transfer_t *t, CUresult result);
/* No transfer uses the context any more; those that do are given up first if `now`. Without the lock. */
void px_transfers_settle(px_peers_t *peers, const px_context_t *context, int now);
/* This end is done with it. */
void px_transfer_over(px_transfer_t *t);

/* ---- px_transfer_run.c ---- */
void px_transfer_run(px_transfer_t *t);
/* Receives the next `size` bytes of it from the link. */
gb_status_t px_transfer_take(px_transfer_t *t, uint64_t size);

/* ---- px_order.c ---- */
/* With the lock: queues it behind the others of its order. */
CUresult px_order_add(px_transfer_t *t);

#endif
