/* gb_lease.h - a lease as its holder sees it, and its file (GABLE_LEASE).
 *
 *   gable-lease 1
 *   lease <16 hex digits>
 *   expires <unix ms>
 *   proxy <endpoint> key <64 hex> devices 0,1 [memory BYTES]
 *   shard <endpoint> key <64 hex>
 *
 * One statement a line; empty lines and lines that begin with # are skipped. The file holds keys: it
 * is written with mode 0600, and one that others can read is refused.
 *
 * A lease belongs to one thread at a time; it owns its arrays. */
#ifndef GB_LEASE_H
#define GB_LEASE_H

#include <stddef.h>
#include <stdint.h>

#include "common/core/gb_status.h"
#include "common/crypto/gb_crypto.h"
#include "common/link/gb_endpoint.h"

enum { GB_LEASE_DEVICES = 64, GB_LEASE_ENDPOINTS = 1024 };

typedef struct {
    gb_endpoint_t endpoint;
    gb_key_t key;
    int devices[GB_LEASE_DEVICES]; /* ordinals at that proxy, in the order the program sees them */
    int device_count;              /* 0: all devices of the proxy */
    uint64_t memory;               /* bytes the session may hold on each device; 0 = no quota */
} gb_lease_proxy_t;

typedef struct {
    gb_endpoint_t endpoint;
    gb_key_t key;
} gb_lease_shard_t;

typedef struct {
    uint64_t id;
    uint64_t expires_ms; /* gb_wall_ms(); 0 = never */
    gb_lease_proxy_t *proxies;
    size_t proxy_count;
    gb_lease_shard_t *shards;
    size_t shard_count;
} gb_lease_t;

/* Parses a text of `size` bytes. GB_ERR_FORMAT names the line. The result is freed by
 * gb_lease_free. */
gb_status_t gb_lease_parse(const char *text, size_t size, gb_lease_t *out);

/* Reads the file. GB_ERR_NOT_FOUND, GB_ERR_UNAUTHORISED (others can read it), GB_ERR_FORMAT. */
gb_status_t gb_lease_load(const char *path, gb_lease_t *out);

/* Writes the file, mode 0600, in one step (aside, then renamed). */
gb_status_t gb_lease_save(const gb_lease_t *lease, const char *path);

/* Appends a copy. */
gb_status_t gb_lease_add_proxy(gb_lease_t *lease, const gb_lease_proxy_t *proxy);
gb_status_t gb_lease_add_shard(gb_lease_t *lease, const gb_lease_shard_t *shard);

/* 1 if the lease has ended at wall time `now_ms`. */
int gb_lease_expired(const gb_lease_t *lease, uint64_t now_ms);

/* Wipes the keys, frees the arrays, zeroes the struct. A zeroed struct is allowed. */
void gb_lease_free(gb_lease_t *lease);

/* A random master key; and from it the key that the lease has at one proxy or shard. `role` is
 * "proxy" or "shard", `name` the stable name of that proxy or shard in the registry. */
gb_status_t gb_lease_master_key(gb_key_t *out);
gb_status_t gb_lease_derive_key(const gb_key_t *master, uint64_t lease, const char *role,
                                const char *name, gb_key_t *out);

/* Reads a key file (64 hex digits, optional white space around; GABLE_KEY_FILE). Same rules as for
 * lease files. */
gb_status_t gb_key_load(const char *path, gb_key_t *out);

#endif
