/* px_peers.h - what the process of a session keeps for its links to other sessions (px_peer.h). */
#ifndef PX_PEERS_H
#define PX_PEERS_H

#include <stdint.h>

#include "common/core/gb_status.h"
#include "common/crypto/gb_crypto.h"
#include "common/link/gb_preamble.h"

typedef struct px_peers px_peers_t;

/* `timeout_ms`: silence after which another session counts as gone. */
gb_status_t px_peers_create(uint32_t timeout_ms, px_peers_t **out);

/* After px_session_run, if that has ended all their threads (it does, unless they wait for a device). */
void px_peers_free(px_peers_t *peers);

/* Another session has dialled, and proved `key`. Takes `fd` over; does not wait. Any thread. */
void px_peers_offer(px_peers_t *peers, int fd, const gb_preamble_t *facts, const gb_key_t *key);

#endif
