/* gb_link_impl.h - inside of a link; for the link room only.
 *
 * A transport (plain socket, TLS) is an operation table of calls that never wait. Everything that
 * waits, times out, spins or buffers is written once, in gb_link.c, over that table. */
#ifndef GB_LINK_IMPL_H
#define GB_LINK_IMPL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "common/link/gb_link.h"
#include "common/link/gb_spin.h"

/* What is still to be sent of an iovec array that must not be changed. */
typedef struct {
    const struct iovec *iov;
    int count;
    int index;
    size_t offset; /* within iov[index] */
} gb_cursor_t;

/* Fills at most `cap` entries with what is next; returns their number. */
int gb_cursor_window(const gb_cursor_t *cursor, struct iovec *out, int cap);
void gb_cursor_advance(gb_cursor_t *cursor, size_t size);
int gb_cursor_done(gb_cursor_t *cursor);

typedef struct gb_tls gb_tls_t;
typedef struct gb_shm gb_shm_t;

typedef struct {
    const char *name;
    /* Takes bytes at the cursor and advances it. GB_ERR_AGAIN: none taken. */
    gb_status_t (*try_send)(gb_link_t *link, gb_cursor_t *cursor, size_t *sent);
    /* Hands taken bytes to the socket. GB_ERR_AGAIN: some stay. */
    gb_status_t (*try_flush)(gb_link_t *link);
    int (*unsent)(const gb_link_t *link);
    /* At least one byte, or GB_ERR_AGAIN, or GB_ERR_LOST. */
    gb_status_t (*try_recv)(gb_link_t *link, void *buffer, size_t cap, size_t *got);
    /* The same, sleeping until something comes; GB_ERR_AGAIN all the same if that makes no bytes for the
     * caller. One system call less than `wait`. NULL: use `wait`. Receiver's thread. */
    gb_status_t (*recv_wait)(gb_link_t *link, void *buffer, size_t cap, size_t *got);
    /* Received bytes wait inside the transport. */
    int (*pending)(gb_link_t *link);
    /* Something to receive, or the end, may be there: for the busy poll, where that is cheaper than
     * try_recv; else NULL. */
    int (*ready)(gb_link_t *link);
    /* A busy poll may pay: the peer does not need this very core. */
    int (*may_spin)(gb_link_t *link);
    /* Sleeps until one of `events` (GB_SOCKET_*) may be met; *ready = those. GB_ERR_TIMEOUT. A lost peer
     * is readable and writable. */
    gb_status_t (*wait)(gb_link_t *link, short events, uint64_t deadline, short *ready);
    /* Nothing more will be sent. */
    void (*finish)(gb_link_t *link);
    /* Wakes all that sleep in `wait`, after `final` was set. */
    void (*wake)(gb_link_t *link);
    void (*release)(gb_link_t *link);
} gb_link_ops_t;

struct gb_link {
    const gb_link_ops_t *ops;
    int fd;
    atomic_int final; /* the status that every further call gives; GB_OK while all is well */
    char peer[112];
    gb_tls_t *tls;
    gb_shm_t *shm;
    atomic_int watched; /* somebody else notices the peer's end and says so (gb_link_peer_gone) */
    /* sender's */
    gb_link_stall_t stall;
    void *stall_arg;
    /* receiver's: small receives come out of here */
    uint8_t *buffer;
    size_t head;
    size_t tail;
    gb_spin_t spin; /* the busy poll before sleeping */
    /* anyone's */
    atomic_uint silence_ms;
    atomic_uint_fast64_t heard;
    atomic_uint_fast64_t sent;
    atomic_uint_fast64_t received;
};

/* A link over a prepared socket, without transport-specific parts. Takes `fd` over in every case. */
gb_status_t gb_link_make(int fd, const char *kind, gb_link_t **out);

/* Records the line for a peer that is gone; error 0 = EOF. Returns GB_ERR_LOST. A failed write does not
 * end the receiving half: what the peer said last can still be read, up to the EOF. */
gb_status_t gb_link_lose(gb_link_t *link, int error, const char *doing);

/* Plain try_send of `size` bytes at `data` for transports that have encoded bytes to send. */
gb_status_t gb_plain_write(gb_link_t *link, const void *data, size_t size, size_t *sent);

/* Has OpenSSL set itself up for one side (0 dials) now, not in the first handshake. Thread-safe. */
void gb_tls_warm(int server);

/* The TLS 1.3 handshake with external PSK; afterwards the link uses TLS. */
gb_status_t gb_tls_handshake(gb_link_t *link, int server, const gb_preamble_t *facts,
                             const gb_key_t *key, uint64_t deadline);

/* Memory for a link; its way over the Unix socket; and the link over it. `side` is 0 for who dialled.
 * GB_ERR_UNSUPPORTED: no such memory here, use the socket. The caller closes the descriptor. */
gb_status_t gb_shm_create(int *memory);
gb_status_t gb_shm_send(int fd, int memory);
gb_status_t gb_shm_receive(int fd, uint64_t deadline, int *memory);
gb_status_t gb_shm_attach(gb_link_t *link, int memory, int side);
int gb_shm_has_input(gb_link_t *link); /* any thread */

/* For transports over a socket. */
gb_status_t gb_plain_wait(gb_link_t *link, short events, uint64_t deadline, short *ready);
gb_status_t gb_plain_recv(gb_link_t *link, void *buffer, size_t cap, int flags, size_t *got);
int gb_plain_may_spin(gb_link_t *link);
void gb_plain_finish(gb_link_t *link);
void gb_plain_wake(gb_link_t *link);

#endif
