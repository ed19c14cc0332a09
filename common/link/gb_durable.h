/* gb_durable.h - a byte stream that outlives its connection: what was sent is kept until the peer has
 * acknowledged it, and after a cut both ends go on over a new link exactly where they were.
 *
 * Without keeping (the beginning, and for ever on one machine, where a connection ends only with a
 * process) it is the link itself and costs nothing.
 *
 * Acknowledgements are frames of the protocol above (GB_OP_ACK with gb_durable_received()): who receives
 * sends one when gb_durable_ack_due says so, and passes those that come to gb_durable_acked.
 *
 * Reconnecting: one end dials (`reconnect`), the other is offered a link (gb_durable_suspend, then
 * gb_durable_resume). Both tell the peer how much they have received (gb_durable_exchange).
 *
 * Threads: as for a link, one sender and one receiver at a time, serialised by the caller; everything
 * else is free for any thread. */
#ifndef GB_DURABLE_H
#define GB_DURABLE_H

#include "common/link/gb_link.h"

typedef struct gb_durable gb_durable_t;

enum {
    GB_DURABLE_KEEP = 8 << 20, /* bytes kept at most; what is only referred to does not count */
    GB_DURABLE_ACK_EVERY = 512 << 10 /* received bytes after which an acknowledgement is due */
};

/* Finds a new link after `why`, exchanges with the peer (gb_durable_exchange) and gives both out. Called
 * by the thread that met the end; others wait. Any failure is final. */
typedef gb_status_t (*gb_durable_reconnect_t)(void *arg, uint64_t received, gb_link_t **link,
                                              uint64_t *peer_received);

/* Takes the link over. `reconnect` may be NULL: then links are offered. */
gb_status_t gb_durable_create(gb_link_t *link, gb_durable_reconnect_t reconnect, void *arg,
                              gb_durable_t **out);
/* Closes the link; nobody uses it any more. */
void gb_durable_free(gb_durable_t *stream);

/* From here on everything sent is kept. Before the first byte that shall survive; the sender's. */
gb_status_t gb_durable_keep(gb_durable_t *stream);
int gb_durable_keeps(const gb_durable_t *stream);

/* The current link, for facts and settings; not while another thread may replace it. Its descriptor, for a
 * poll loop of any thread. */
gb_link_t *gb_durable_link(gb_durable_t *stream);
int gb_durable_fd(gb_durable_t *stream);
/* gb_link_heard of the current link; any thread, any time. */
uint64_t gb_durable_heard(gb_durable_t *stream);

/* Sends all. Bytes of `iov` are copied if they are kept, except those of entry `reference` (-1 = none),
 * which must stay until gb_durable_acked has seen their end. There must be room (gb_durable_room). Fails
 * only when the stream is lost. */
gb_status_t gb_durable_sendv(gb_durable_t *stream, const struct iovec *iov, int count,
                             int reference);
/* Sends a few bytes if that takes no waiting, for who reads and must not wait for room. GB_ERR_AGAIN: it
 * would have, or the connection is cut; nothing was sent then. May be called while another thread sends. */
gb_status_t gb_durable_try_send(gb_durable_t *stream, const void *bytes, size_t size);
/* Sends what a cut has left unsent; unsent = there is something. If there is another cut, it is mended if
 * `mends`, else left to the others: for who offers links. */
gb_status_t gb_durable_push(gb_durable_t *stream, int mends);
int gb_durable_unsent(gb_durable_t *stream);

/* Bytes that can be sent now; SIZE_MAX if nothing is kept. wait: until there is room for `size`, or the
 * stream is lost; for threads that need not receive. */
size_t gb_durable_room(gb_durable_t *stream);
gb_status_t gb_durable_wait_room(gb_durable_t *stream, size_t size);
/* The same until the peer has acknowledged all before `offset`. */
gb_status_t gb_durable_wait_confirmed(gb_durable_t *stream, uint64_t offset);

/* As gb_link_recv_some and gb_link_recv, over cuts. With deadline 0 a cut is GB_ERR_LOST and left to the
 * others (the sender may be the caller's caller). */
gb_status_t gb_durable_recv_some(gb_durable_t *stream, void *buffer, size_t cap, uint64_t deadline,
                                 size_t *got);
gb_status_t gb_durable_recv(gb_durable_t *stream, void *buffer, size_t size);

/* Stream offsets: bytes ever sent, received, and of the sent ones acknowledged. */
uint64_t gb_durable_sent(const gb_durable_t *stream);
uint64_t gb_durable_received(const gb_durable_t *stream);
uint64_t gb_durable_confirmed(const gb_durable_t *stream);

/* An acknowledgement is due, or could as well be sent with something else; `told` says that one for
 * `received` is on its way. */
int gb_durable_ack_due(const gb_durable_t *stream);
int gb_durable_ack_near(const gb_durable_t *stream);
void gb_durable_ack_told(gb_durable_t *stream, uint64_t received);
/* The peer has received that much. GB_ERR_PROTOCOL: it cannot have. */
gb_status_t gb_durable_acked(gb_durable_t *stream, uint64_t received);

/* Tells each other how much was received, over a fresh link until `deadline`. */
gb_status_t gb_durable_exchange(gb_link_t *link, uint64_t received, uint64_t deadline,
                                uint64_t *peer_received);

/* Stops the use of the current link, whatever its state, and waits until nobody is inside; *received is
 * then for the exchange. GB_ERR_UNSUPPORTED: nothing is kept; GB_ERR_LOST: too late. */
gb_status_t gb_durable_suspend(gb_durable_t *stream, uint64_t *received);
/* Goes on over `link`, which is taken over in any case. */
gb_status_t gb_durable_resume(gb_durable_t *stream, gb_link_t *link, uint64_t peer_received);

/* If the current connection has ended, finds another one now: for who watches it (POLLRDHUP) while nobody
 * sends or receives. What was on its way is unsent then. Fails only when the stream is lost. */
gb_status_t gb_durable_revive(gb_durable_t *stream);

/* Cuts the current connection, as a network does: for tests. */
void gb_durable_cut(gb_durable_t *stream);

/* The stream is over: all who wait come back with GB_ERR_LOST, now and later. */
void gb_durable_lose(gb_durable_t *stream);

/* In a child of fork(), with no other thread: gb_link_abandon of the link. */
void gb_durable_abandon(gb_durable_t *stream);

#endif
