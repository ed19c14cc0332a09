/* rc_down.h - copies to page-locked memory that no call waits for: the session sends the bytes when the stream
 * has come to the copy (PX_OP_DOWN), and whoever reads puts them where they belong. What follows in the stream
 * is done only after they have been sent, so that a call that waits for it finds them here. Thread-safe. */
#ifndef RC_DOWN_H
#define RC_DOWN_H

#include "gpu-proxy/client/rc_call.h"

/* Queues the copy if `dst` is page-locked and not too many are under way; *queued = 0: it was not, the caller
 * copies and waits. */
CUresult rc_down_post(rc_call_t *call, const px_wire_copy_t *copy, void *dst, int *queued);

/* The same for a box, whose rows lie in `to` (of its first byte) with gaps, or without. */
typedef struct {
    uint8_t *to;
    uint64_t width, height, depth; /* bytes, rows, slices */
    uint64_t pitch, slice;         /* bytes from row to row, from slice to slice */
} rc_rows_t;
CUresult rc_down_post_box(rc_call_t *call, const px_wire_box_t *box, const rc_rows_t *rows,
                          int *queued);

/* Nothing is on its way to these bytes any more when it returns. Before they are read, given back, or
 * protected. */
void rc_down_settle(uint64_t address, uint64_t size);

/* The context ends, and its page-locked memory with it. */
void rc_down_forget_context(const rc_object_t *context);
/* Of a session that nobody uses any more. */
void rc_down_free(rc_session_t *session);

/* Some are under way: somebody has to read. */
void rc_down_watch(rc_session_t *session);

/* ---- for whoever reads ---- */
/* Where bytes of a copy belong; NULL if the session may not send them. With recv_lock held. */
uint8_t *rc_down_place(rc_session_t *session, uint32_t token, uint64_t offset, uint64_t size);
/* All bytes of the piece that was placed last are there. */
void rc_down_came(rc_session_t *session);
/* PX_OP_DOWN_DONE: all bytes of the copy are there. */
gb_status_t rc_down_done(rc_session_t *session, uint64_t token);

#endif
