/* px_locker.h - what the sessions of a proxy leave for each other: descriptors of memory and events, under
 * tokens that nobody can guess.
 *
 * A session has a socket of its own to the daemon for it (SOCK_SEQPACKET, handed over with its client),
 * on which it asks and waits for the answer. The daemon keeps what a session has left until that takes it
 * back or ends, and gives it to sessions of the same tenant only. */
#ifndef PX_LOCKER_H
#define PX_LOCKER_H

#include <stdint.h>

#include "common/core/gb_status.h"

enum { PX_LOCKER_VERSION = 1, PX_LOCKER_DATA = 64, PX_LOCKER_ITEMS = 1024 /* of a session */ };

typedef struct {
    uint8_t bytes[16];
} px_token_t;

typedef enum { PX_LOCKER_PUT = 1, PX_LOCKER_GET, PX_LOCKER_DROP } px_locker_op_t;

typedef struct {
    uint32_t version;
    uint32_t op;
    px_token_t token;
    uint8_t data[PX_LOCKER_DATA];
} px_locker_request_t;

typedef struct {
    uint32_t version;
    uint32_t status; /* gb_status_t */
    uint8_t data[PX_LOCKER_DATA];
} px_locker_reply_t;

/* ---- for sessions: one caller at a time on a socket ---- */

/* Leaves `fd` (-1: none) and PX_LOCKER_DATA bytes; the caller keeps its descriptor. GB_ERR_LIMIT: too
 * many are left; GB_ERR_LOST. */
gb_status_t px_locker_put(int socket, const px_token_t *token, const void *data, int fd);

/* What is left under the token; *fd is the caller's, -1 if there is none. GB_ERR_NOT_FOUND. */
gb_status_t px_locker_get(int socket, const px_token_t *token, void *data, int *fd);

/* Takes back what the same session has left. GB_ERR_NOT_FOUND. */
gb_status_t px_locker_drop(int socket, const px_token_t *token);

/* ---- for the daemon ---- */

/* The next request without waiting; *fd is -1 if it brought none. GB_ERR_AGAIN, GB_ERR_LOST,
 * GB_ERR_PROTOCOL. */
gb_status_t px_locker_receive(int socket, px_locker_request_t *request, int *fd);

/* `data` may be NULL; fd -1: none. Never waits: a session that does not take its answers gets none. */
void px_locker_answer(int socket, gb_status_t status, const void *data, int fd);

#endif
