/* ps_store.h - what must outlive a restart, in SQLite: leases, jobs, members, the generation.
 *
 * Writes are immediate (write-ahead log). Not thread-safe: the registry's lock guards it. A write that
 * fails is logged and reported; the cluster goes on with what it has in memory. */
#ifndef PS_STORE_H
#define PS_STORE_H

#include <stdint.h>

#include "common/core/gb_status.h"

typedef struct ps_store ps_store_t;
struct ps_lease;
struct ps_job;
struct ps_member;

/* Opens DIR/leases.db, making both. *generation = number of times it has been opened, from 1. */
gb_status_t ps_store_open(const char *dir, ps_store_t **out, uint32_t *generation);
void ps_store_close(ps_store_t *store);

gb_status_t ps_store_lease_put(ps_store_t *store, const struct ps_lease *lease);
gb_status_t ps_store_lease_delete(ps_store_t *store, uint64_t id);
gb_status_t ps_store_job_put(ps_store_t *store, const struct ps_job *job);
gb_status_t ps_store_member_put(ps_store_t *store, uint64_t job, const struct ps_member *member);
gb_status_t ps_store_member_delete(ps_store_t *store, uint64_t job, uint32_t worker);

/* Each row as an object made with calloc that `take` owns from then on. */
gb_status_t ps_store_leases(ps_store_t *store, void (*take)(void *arg, struct ps_lease *lease),
                            void *arg);
gb_status_t ps_store_jobs(ps_store_t *store, void (*take)(void *arg, struct ps_job *job),
                          void *arg);
gb_status_t ps_store_members(ps_store_t *store, uint64_t job,
                             void (*take)(void *arg, struct ps_member *member), void *arg);

#endif
