/* ps_conn.h - a worker's connection to an owner thread: frames in, frames out, never waiting.
 *
 * Gradient bytes go from the socket straight into the chunk's slot, weights from the chunk's buffer
 * (kept alive by a reference) to the socket. What a frame means is the view's business. */
#ifndef PS_CONN_H
#define PS_CONN_H

#include <stdint.h>

#include "common/frame/gb_frame.h"
#include "common/link/gb_link.h"
#include "server/client/gbx_wire.h"
#include "server/params/ps_buf.h"
#include "server/params/ps_job.h"
#include "server/params/ps_owner.h"

typedef enum { PS_RX_HEADER, PS_RX_CHUNK, PS_RX_DATA, PS_RX_PAYLOAD, PS_RX_STOPPED } ps_rx_state_t;

/* A frame on its way out. */
typedef struct {
    uint8_t head[GB_FRAME_HEADER + GBX_CHUNK_HEAD];
    uint32_t head_size;
    const void *data;
    size_t data_size;
    ps_buf_t *buf; /* holds `data`, or NULL */
    void *owned;   /* freed when sent, or NULL */
} ps_tx_t;

typedef struct ps_conn {
    struct ps_conn *next;
    ps_owner_t *owner;
    ps_job_t *job;
    struct ps_view *view;
    gb_link_t *link;
    uint64_t lease;
    gbx_hello_t hello;
    int dead;       /* to be freed at the end of the round */
    int failed;     /* out of memory: killed at the end of the round */
    int ending;     /* reads no more; dies once everything is sent */
    ps_gone_t gone; /* how, once it is dead */
    int paused;     /* its answers pile up: does not read until they are sent */
    uint32_t events;

    ps_rx_state_t rx;
    uint8_t head[GB_FRAME_HEADER + GBX_CHUNK_HEAD];
    uint32_t got; /* of the part being read */
    gb_frame_t frame;
    gbx_chunk_head_t chunk;
    uint8_t *payload;   /* of a DECLARE */
    uint8_t *into;      /* where data go; NULL: thrown away */
    uint32_t data_left; /* bytes */
    int receiving;      /* a push into `chunk` is under way */
    int refused;        /* what comes was answered with an error: no reply at its end */

    ps_tx_t *tx; /* ring */
    uint32_t tx_first, tx_count, tx_cap;
    size_t tx_sent; /* bytes of the first that are sent */
} ps_conn_t;

/* Takes the link over. */
gb_status_t ps_conn_new(gb_link_t *link, uint64_t lease, const gbx_hello_t *hello, ps_job_t *job,
                        ps_conn_t **out);
void ps_conn_free(ps_conn_t *conn);

/* Enters the connection into its owner's epoll set and lists. Owner's thread, as all below. */
void ps_conn_adopt(ps_owner_t *owner, ps_conn_t *conn);

/* Reads and handles what is there, a bounded amount of it. Sets owner->more if there may be more. */
void ps_conn_read(ps_conn_t *conn);

/* Sends what can be sent now. */
void ps_conn_flush(ps_conn_t *conn);

/* Queues a reply: chunk head (or none), data of `buf` (a reference is taken; or none). */
void ps_conn_reply(ps_conn_t *conn, uint16_t operation, uint32_t sequence,
                   const gbx_chunk_head_t *head, ps_buf_t *buf);
/* Queues a reply with a payload of up to GBX_CHUNK_HEAD bytes. */
void ps_conn_reply_small(ps_conn_t *conn, uint16_t operation, uint32_t sequence,
                         const void *payload, uint32_t size);
/* Queues an error reply; or a notice (operation GBX_OP_NOTICE), after which the connection ends. */
void ps_conn_error(ps_conn_t *conn, uint16_t operation, uint32_t sequence, gbx_poison_t code,
                   const char *text);

/* Ends it: nothing is read or sent any more. It is freed at the end of the round. */
void ps_conn_kill(ps_conn_t *conn, ps_gone_t how, const char *why);

#endif
