/* px_peer.h - a session's links to other sessions of its client, over which device memory goes from one
 * proxy to another.
 *
 * The client tells both sessions of a pair a secret; one of them waits (px_peer_expect), the other one
 * dials (px_peer_dial) the data port of the first one's proxy, which passes the connection on like one that is
 * resumed (px_peers_offer). Each proves the secret to the other. Over TCP a cut link is dialled again and
 * goes on where it was (gb_durable.h).
 *
 * Each link has two threads: the reader, which never sends, so that two ends that both send do not wait
 * for each other; and the clerk, which acknowledges, gives signs of life and notices a silent peer. A link that is
 * lost stays lost: its transfers fail, and the client has another one made.
 *
 * px_peer_wire.h has the protocol, px_transfer.h what goes over the links. */
#ifndef PX_PEER_H
#define PX_PEER_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/link/gb_durable.h"
#include "gpu-proxy/session/px_peers.h"
#include "gpu-proxy/session/px_state.h"
#include "proto/px_peer_wire.h"

enum { PX_PEER_BUCKETS = 256 };

typedef enum { PX_PEER_EXPECTED, PX_PEER_OPENING, PX_PEER_UP, PX_PEER_LOST } px_peer_state_t;

typedef struct px_transfer px_transfer_t;
typedef struct px_order px_order_t;

typedef struct px_peer {
    px_peers_t *peers;
    uint32_t number; /* of the other session, at the client */
    uint32_t attempt;
    unsigned refs; /* under the lock of the peers, like all that follows but what is atomic */
    px_peer_state_t state; /* only forward */
    gb_key_t secret;
    gb_durable_t *stream; /* once it is up */
    pthread_mutex_t send_lock;
    pthread_cond_t opened; /* the state has changed */
    pthread_cond_t wake;   /* of the clerk */
    _Atomic uint64_t heard, sent;
    atomic_int busy; /* the reader waits for the device, not for the peer */
    int leaves;      /* the clerk is to say goodbye; 0 once it has */
    /* for dialling again; the connection's number counts on in `credential` */
    gb_endpoint_t endpoint;
    gb_credential_t credential;
    uint32_t taken; /* connection that was taken last, of who waits */
    px_transfer_t *table[PX_PEER_BUCKETS];
    unsigned unknown; /* in the table, but not told by the client yet */
} px_peer_t;

struct px_peers {
    px_session_t *session; /* NULL before the session runs */
    uint32_t timeout_ms;
    pthread_mutex_t lock;
    px_peer_t *list[PX_WIRE_PEERS]; /* by number */
    int over, watched;
    pthread_cond_t ending;
    pthread_cond_t gone;        /* a thread has ended, or a transfer */
    int threads, porch;         /* porch: connections that are being recognised */
    px_transfer_t *transfers;   /* all that are under way */
    px_order_t *orders;         /* that have some */
    int waiting, idle, workers; /* orders without a worker, workers without an order, workers */
    unsigned staged[2];         /* transfers that have staging memory: receivers, senders */
    pthread_cond_t work, room;
};

/* ---- px_peer.c ---- */
/* The link to the session with that number, referenced; NULL if there never was one. */
px_peer_t *px_peer_get(px_peers_t *peers, uint32_t number);
void px_peer_put(px_peer_t *peer);
/* The link's transfers fail with CUDA_ERROR_DEVICE_UNAVAILABLE. Any thread. */
void px_peer_lose(px_peer_t *peer, const char *why);
/* A thread of the peers' own; `run` ends with px_peers_thread_end. */
gb_status_t px_peers_thread(px_peers_t *peers, void *(*run)(void *), void *arg);
gb_status_t px_peers_thread_locked(px_peers_t *peers, void *(*run)(void *), void *arg);
void px_peers_thread_end(px_peers_t *peers);

/* ---- px_peer_link.c ---- */
/* The two sides of the introduction, over a fresh link. */
gb_status_t px_peer_introduce(gb_link_t *link, const gb_key_t *secret, int keeps,
                              uint64_t deadline);
gb_status_t px_peer_recognise(gb_link_t *link, const gb_key_t *secret, uint64_t deadline,
                              int *keeps);
/* The end of it, for who was recognised. */
gb_status_t px_peer_ready(gb_link_t *link);
/* Receives all of it. The reader's. */
gb_status_t px_peer_receive(px_peer_t *peer, void *buffer, size_t size);
/* Receives bytes that nobody wants any more. The reader's. */
gb_status_t px_peer_discard(px_peer_t *peer, uint64_t size);
/* Reads until the link is lost; the caller's thread. */
void px_peer_read(px_peer_t *peer);
void *px_peer_clerk(void *peer);
/* Sends a frame. GB_ERR_LOST: the link is lost (now). `reference`: the entry of `parts` that stays where it is
 * until the other end has said that it has it; -1 = none. */
gb_status_t px_peer_send(px_peer_t *peer, uint16_t operation, const struct iovec *parts, int count,
                         int reference);
/* The result says why a transfer fails, or CUDA_SUCCESS. */
gb_status_t px_peer_say(px_peer_t *peer, uint16_t operation, uint64_t token, CUresult result);

#endif
