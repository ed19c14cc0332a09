/* px_locker.h - what the sessions of a proxy leave for each other: descriptors of memory and events, under
 * tokens that nobody can guess.
 *
 * A session has a socket of its own to the daemon for it (SOCK_SEQPACKET, handed over with its client),
 * on which it asks and waits for the answer. The daemon keeps what a session has left until that takes it
 * back or ends, and gives it to sessions of the same tenant only.
 *
 * Memory counts with the session that has made it; if that takes it back or ends while others have it, it
 * goes on to count with one of them, until all have given it up. */
#ifndef PX_LOCKER_H
#define PX_LOCKER_H

#include <stdint.h>

#include "common/core/gb_status.h"

enum { PX_LOCKER_VERSION = 2, PX_LOCKER_DATA = 64, PX_LOCKER_ITEMS = 1024 /* of a session */ };

typedef struct {
    uint8_t bytes[16];
} px_token_t;

typedef enum { PX_LOCKER_PUT = 1, PX_LOCKER_GET, PX_LOCKER_DROP, PX_LOCKER_RELEASE } px_locker_op_t;

/* What memory is left, if it is memory: it may be left under several tokens, or be found again when it was
 * taken back. */
typedef struct {
    uint64_t number; /* the daemon's; 0: it was not left before, or it is no memory */
    uint64_t size;
    uint32_t ordinal; /* the driver's, of the device */
    uint32_t reserved;
} px_locker_memory_t;

typedef struct {
    uint32_t version;
    uint32_t op;
    px_token_t token;
    px_locker_memory_t memory;
    uint8_t data[PX_LOCKER_DATA];
} px_locker_request_t;

typedef struct {
    uint32_t version;
    uint32_t status; /* gb_status_t */
    uint64_t number; /* of the memory */
    uint8_t data[PX_LOCKER_DATA];
} px_locker_reply_t;

/* ---- for sessions: one caller at a time on a socket ---- */

/* Leaves `fd` (-1: none) and PX_LOCKER_DATA bytes (NULL: zeros); the caller keeps its descriptor. `memory` is
 * NULL if it is none; its number is set. GB_ERR_LIMIT: too many are left; GB_ERR_LOST. */
gb_status_t px_locker_put(int socket, const px_token_t *token, const void *data, int fd,
                          px_locker_memory_t *memory);

/* What is left under the token; *fd is the caller's, -1 if there is none. *memory is the number of memory,
 * which is to be released as often as it was found; 0: it is none. GB_ERR_NOT_FOUND. */
gb_status_t px_locker_get(int socket, const px_token_t *token, void *data, int *fd,
                          uint64_t *memory);

/* The session does not have memory any more that it has found. GB_ERR_NOT_FOUND. */
gb_status_t px_locker_release(int socket, uint64_t memory);

/* Takes back what the same session has left. GB_ERR_NOT_FOUND. */
gb_status_t px_locker_drop(int socket, const px_token_t *token);

/* ---- for the daemon ---- */

/* The next request without waiting; *fd is -1 if it brought none. GB_ERR_AGAIN, GB_ERR_LOST,
 * GB_ERR_PROTOCOL. */
gb_status_t px_locker_receive(int socket, px_locker_request_t *request, int *fd);

/* fd -1: none. Never waits: a session that does not take its answers gets none. */
void px_locker_answer(int socket, const px_locker_reply_t *reply, int fd);

#endif
