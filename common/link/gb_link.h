/* gb_link.h - a reliable byte stream to a peer that has proved its key: shared memory, Unix socket,
 * plain TCP, or TLS 1.3 with the lease's key as external PSK over TCP. One interface for all of them.
 *
 * A session that is dialled over a Unix socket goes on in shared memory, unless GABLE_LINK_SHM=0 or an
 * emulated line is asked for.
 *
 * Life: gb_link_dial() on one side; on the other gb_preamble_accept() (in the process that listens)
 * and gb_link_adopt() (in the same process, or in the one that the socket was passed to). Shards do
 * both at once with gb_link_accept().
 *
 * Threads: one thread may send while another receives. Several senders, or several receivers, must be
 * serialised by the caller. Waiting, counters, gb_link_heard and gb_link_shutdown are free for any
 * thread; gb_link_close needs all other users gone.
 *
 * Failure: GB_ERR_LOST means EOF, reset or broken TLS record: the peer is gone without telling
 * (whoever is in order sends GB_OP_GOODBYE first, see gb_link_goodbye). It is final: every later call
 * fails the same way. gb_fail() has the line for people.
 *
 * Times are absolute deadlines of gb_now_ns(); 0 = do not wait (GB_ERR_AGAIN), GB_NEVER = for ever.
 *
 * GABLE_LINK_EMULATE="rtt=1ms,bw=1Gbit,drop=0.01,cut=10M" puts a line between the two ends of every
 * link that this process dials (never of those it accepts): both directions together get the round
 * trip, each the bandwidth; `drop` is the probability that a 1448-byte packet is lost once and comes
 * a round trip later; `cut` severs the line after that many bytes. */
#ifndef GB_LINK_H
#define GB_LINK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_status.h"
#include "common/crypto/gb_crypto.h"
#include "common/link/gb_endpoint.h"
#include "common/link/gb_preamble.h"

#define GB_NEVER UINT64_MAX

typedef struct gb_link gb_link_t;

/* What a client needs to be let in. */
typedef struct {
    gb_service_t service;
    uint64_t lease;
    gb_key_t key;        /* all zero and lease 0: only a listener that runs insecure accepts that */
    uint64_t session;    /* random (gb_random); the same for all connections of a session */
    uint32_t connection; /* 0, 1, ... within the session */
    int insecure;        /* TCP without TLS; the listener must allow it. Never set for real keys */
    int socket_only;     /* no shared memory in place of a Unix socket */
} gb_credential_t;

/* ---- making ---- */

/* Connects, proves the key, reads the answer, does the handshake, all until `deadline`.
 * GB_ERR_UNREACHABLE: nobody listens there (final at once). GB_ERR_UNAUTHORISED: key or lease
 * refused. GB_ERR_VERSION, GB_ERR_LIMIT, GB_ERR_BUSY: as answered. TLS is used on TCP unless the
 * credential is insecure or has the zero key. */
gb_status_t gb_link_dial(const gb_endpoint_t *endpoint, const gb_credential_t *credential,
                         uint64_t deadline, gb_link_t **out);

/* Makes a link of an accepted socket whose preamble said `facts`: the TLS handshake under `key` if
 * facts->security says so. The answer must have been sent. Takes `fd` over in every case. */
gb_status_t gb_link_adopt(int fd, const gb_preamble_t *facts, const gb_key_t *key,
                          uint64_t deadline, gb_link_t **out);

/* Has gb_link_adopt find ready what TLS needs (two milliseconds), once in a process. Thread-safe. */
void gb_link_warm(void);

/* gb_preamble_accept, the policy check, gb_preamble_answer and gb_link_adopt in one. Plain TCP is
 * refused unless `allow_plain`. Takes `fd` over in every case. */
gb_status_t gb_link_accept(int fd, uint64_t deadline, gb_service_t service, int allow_plain,
                           gb_key_lookup_t lookup, void *arg, gb_preamble_t *facts,
                           gb_link_t **out);

/* Two connected plain links within this process, for tests and for in-process peers. */
gb_status_t gb_link_pair(gb_link_t **a, gb_link_t **b);

/* ---- sending ---- */

/* Called by gb_link_sendv when the socket takes no more, so that two peers that both write never
 * dead-lock ("who cannot write must read"). It should receive what is there without waiting (and may
 * use gb_link_recv_some with deadline 0) and return GB_OK; GB_ERR_AGAIN = another thread receives,
 * wait for room only; any other status ends the send with it. */
typedef gb_status_t (*gb_link_stall_t)(void *arg);
void gb_link_set_stall(gb_link_t *link, gb_link_stall_t stall, void *arg);

/* Sends everything, or fails. Small pieces are gathered into one write or TLS record: pass a whole
 * batch. Fails with GB_ERR_TIMEOUT when the peer neither takes nor sends a byte for the silence time.
 * iov is not changed. After a failure the link is of no further use. */
gb_status_t gb_link_sendv(gb_link_t *link, const struct iovec *iov, int count);
gb_status_t gb_link_send(gb_link_t *link, const void *data, size_t size);

/* Takes as many bytes as fit without waiting. *sent = bytes taken (may be 0: GB_ERR_AGAIN). Taken
 * bytes may still wait in the link (TLS): while gb_link_unsent() says so, poll for POLLOUT and call
 * gb_link_flush(). */
gb_status_t gb_link_try_sendv(gb_link_t *link, const struct iovec *iov, int count, size_t *sent);
int gb_link_unsent(const gb_link_t *link);
gb_status_t gb_link_flush(gb_link_t *link, uint64_t deadline);

/* ---- receiving ---- */

/* At least 1 and at most `cap` bytes. Waits until `deadline`: GB_ERR_TIMEOUT then (GB_ERR_AGAIN with
 * deadline 0). Before it sleeps it may poll for some microseconds if that has paid off lately. */
gb_status_t gb_link_recv_some(gb_link_t *link, void *buffer, size_t cap, uint64_t deadline,
                              size_t *got);

/* Exactly `size` bytes, large ones straight into `buffer`. If the deadline passes in the middle the
 * bytes are gone and the link with them (GB_ERR_TIMEOUT). */
gb_status_t gb_link_recv(gb_link_t *link, void *buffer, size_t size, uint64_t deadline);

/* Bytes are already here: do not sleep in poll() before having received them. Receiver's thread. */
int gb_link_has_pending(gb_link_t *link);

/* Bytes wait to be received; for watchers of any thread. */
int gb_link_has_input(gb_link_t *link);

/* ---- waiting ---- */

enum { GB_LINK_READABLE = 1, GB_LINK_WRITABLE = 2, GB_LINK_WAKE = 4 };

/* Waits for any of `events`, or for `wake_fd` (-1 = none) to become readable, until `deadline`.
 * *ready = those that are. GB_ERR_TIMEOUT (GB_ERR_AGAIN with deadline 0) if none. A lost peer shows as
 * readable. With READABLE asked for, the receiver's thread only. */
gb_status_t gb_link_wait(gb_link_t *link, int events, int wake_fd, uint64_t deadline, int *ready);

/* The socket, for a poll loop of the caller's own; never read, write or close it. */
int gb_link_fd(const gb_link_t *link);

/* ---- facts and settings ---- */

/* How long the peer may be silent, milliseconds (default 15000): gb_link_sendv gives up after it, and
 * on TCP the kernel notices a vanished machine by it. */
void gb_link_set_silence(gb_link_t *link, uint32_t milliseconds);

/* gb_now_ns() of the last byte received (of the making, if none yet). */
uint64_t gb_link_heard(const gb_link_t *link);

/* Longest busy poll before sleeping in gb_link_recv*, microseconds; 0 = never. Default 100, or
 * GABLE_LINK_SPIN_US; always 0 where the process may use one CPU only. */
void gb_link_set_spin(gb_link_t *link, uint32_t microseconds);

typedef struct {
    uint64_t sent; /* bytes given to and taken from the caller, without TLS overhead */
    uint64_t received;
} gb_link_counters_t;
gb_link_counters_t gb_link_counters(const gb_link_t *link);

/* "tls 10.0.0.7:40112", "unix pid 4711", ...: for logs. Valid as long as the link. */
const char *gb_link_peer(const gb_link_t *link);
int gb_link_is_encrypted(const gb_link_t *link);
int gb_link_is_shared(const gb_link_t *link); /* in shared memory */

/* Who sleeps on shared memory looks at the socket from time to time, to notice the peer's death. It need
 * not if somebody else waits for the socket's end (POLLRDHUP on gb_link_fd) and then tells the link.
 * Both do nothing for other links. Thread-safe. */
void gb_link_set_watched(gb_link_t *link);
void gb_link_peer_gone(gb_link_t *link);

/* ---- ending ---- */

/* Sends a GB_OP_GOODBYE frame, then ends the sending direction: the peer knows that the EOF that
 * follows is no accident. The sender's thread, at most one second. */
gb_status_t gb_link_goodbye(gb_link_t *link);

/* Makes every call on the link, also those that wait in other threads, fail with GB_ERR_LOST. */
void gb_link_shutdown(gb_link_t *link);

/* Closes and frees; sends nothing. NULL is allowed. */
void gb_link_close(gb_link_t *link);

/* For a child after fork(): closes the child's copy of the socket, so that the parent's peer sees the
 * parent's end; touches nothing else and frees nothing. Async-signal-safe. */
void gb_link_abandon(gb_link_t *link);

#endif
