/* ps_grants.h - which leases may connect, and with which key. Thread-safe. */
#ifndef PS_GRANTS_H
#define PS_GRANTS_H

#include <stdint.h>

#include "common/core/gb_status.h"
#include "common/crypto/gb_crypto.h"

typedef struct ps_grants ps_grants_t;

/* With `insecure`, lease 0 with the zero key is known from the start. */
gb_status_t ps_grants_create(int insecure, ps_grants_t **out);
void ps_grants_destroy(ps_grants_t *grants);

/* expires_ms: wall clock, 0 = never. Replaces an earlier grant of the lease. */
gb_status_t ps_grants_add(ps_grants_t *grants, uint64_t lease, const uint8_t key[GB_KEY_SIZE],
                          uint64_t expires_ms);
gb_status_t ps_grants_remove(ps_grants_t *grants, uint64_t lease);

/* A gb_key_lookup_t; `arg` is the ps_grants_t. */
gb_status_t ps_grants_lookup(void *arg, uint64_t lease, gb_key_t *key);

#endif
