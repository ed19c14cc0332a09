/* px_halfopen.h - connections that have not brought their preamble yet: few, and not for long.
 *
 * A flood can take the places of others that wait, never memory or time: the oldest connection makes
 * room, and an honest client sends its preamble at once. The daemon's thread only. */
#ifndef PX_HALFOPEN_H
#define PX_HALFOPEN_H

#include <poll.h>
#include <stdint.h>

#include "common/core/gb_status.h"
#include "common/link/gb_listener.h"
#include "common/link/gb_preamble.h"

typedef struct px_halfopen px_halfopen_t;

gb_status_t px_halfopen_create(int limit, uint32_t preamble_ms, px_halfopen_t **out);
void px_halfopen_destroy(px_halfopen_t *halfopen);

/* Takes `fd` over. */
void px_halfopen_add(px_halfopen_t *halfopen, int fd, const char *peer);

int px_halfopen_poll(const px_halfopen_t *halfopen, struct pollfd *out);

/* gb_now_ns() at which the next connection has used up its time; UINT64_MAX = there is none. */
uint64_t px_halfopen_deadline(const px_halfopen_t *halfopen);

/* What has come of one of them. */
typedef struct {
    int fd; /* the receiver's to close */
    char peer[GB_PEER_TEXT];
    uint8_t preamble[GB_PREAMBLE_SIZE];
} px_arrival_t;

/* Reads what is there, drops (with a log line) what is late or no Gable client, and gives out one
 * connection with a whole preamble at a time: call until GB_ERR_AGAIN. */
gb_status_t px_halfopen_next(px_halfopen_t *halfopen, px_arrival_t *out);

#endif
