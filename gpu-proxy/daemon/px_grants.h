/* px_grants.h - which leases a proxy serves: lease -> key, devices, memory quota, expiry.
 *
 * The control plane adds and revokes; the data port looks keys up; the daemon ends the sessions of
 * leases that are no longer there. Thread-safe throughout. */
#ifndef PX_GRANTS_H
#define PX_GRANTS_H

#include <stddef.h>
#include <stdint.h>

#include "common/core/gb_status.h"
#include "common/crypto/gb_crypto.h"

enum { PX_DEVICES = 64, PX_GRANTS = 4096, PX_HOLDER = 96 };

typedef struct {
    uint64_t lease; /* 0 is the anonymous lease of an insecure proxy */
    gb_key_t key;
    int devices[PX_DEVICES]; /* ordinals at this proxy */
    int device_count;        /* 0: all */
    uint64_t memory;         /* bytes on each device; 0 = no quota */
    uint64_t expires_ms;     /* gb_wall_ms(); 0 = never */
    char holder[PX_HOLDER];  /* whose lease it is, for lists */
    char tenant[PX_HOLDER];  /* the name that was authenticated; "" if none was */
} px_grant_t;

typedef struct px_grants px_grants_t;

gb_status_t px_grants_create(px_grants_t **out);
void px_grants_destroy(px_grants_t *grants); /* wipes the keys */

/* Adds, or replaces the grant of the same lease (extends, or narrows: running sessions keep what they
 * were started with, except for the expiry). GB_ERR_LIMIT beyond PX_GRANTS. */
gb_status_t px_grants_add(px_grants_t *grants, const px_grant_t *grant);

/* Takes the lease away; its sessions are ended within 2 s. GB_ERR_NOT_FOUND. */
gb_status_t px_grants_revoke(px_grants_t *grants, uint64_t lease);

/* Replaces all grants by `grants_in[count]`: what the server says after a reconnect. */
gb_status_t px_grants_replace(px_grants_t *grants, const px_grant_t *grants_in, size_t count);

/* A copy of the grant (wipe its key). GB_ERR_NOT_FOUND: unknown, or expired by now. */
gb_status_t px_grants_find(px_grants_t *grants, uint64_t lease, px_grant_t *out);

/* gb_key_lookup_t for gb_preamble_verify; `arg` is the px_grants_t. */
gb_status_t px_grants_key(void *arg, uint64_t lease, gb_key_t *key);

/* Number of grants that are valid now. */
size_t px_grants_count(px_grants_t *grants);

/* Becomes readable when a grant was revoked, replaced or changed; the daemon's loop drains it. */
int px_grants_changed_fd(const px_grants_t *grants);

/* Wall time (ms) at which the next grant expires; 0 = none does. */
uint64_t px_grants_next_expiry(px_grants_t *grants);

#endif
