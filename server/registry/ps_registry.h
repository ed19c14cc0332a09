/* ps_registry.h - who is in the cluster: proxies and their devices, leases, jobs and their members.
 *
 * It serves the gRPC services Cluster, Leases and Jobs, tells the parameter shard of this process
 * which leases and members there are, and keeps what must outlive a restart in SQLite. */
#ifndef PS_REGISTRY_H
#define PS_REGISTRY_H

#include <stdint.h>

#include "common/core/gb_status.h"
#include "common/rpc/gb_rpc.h"
#include "server/params/ps_params.h"

typedef struct ps_registry ps_registry_t;

typedef struct {
    const char *state_dir; /* leases.db is kept there; made if missing */
    uint32_t share;        /* leases that one device takes; at least 1 */
    uint32_t ttl_ms;       /* of a lease that asks for none */
    uint32_t heartbeat_ms; /* of the proxies; one silent for five is lost */
    uint32_t lost_ms;      /* a proxy that lost its stream may come back within this */
    uint32_t return_ms; /* after a restart, a job's member may come back within this; 0 = 30000 */
} ps_registry_config_t;

/* Opens the state. GB_ERR_IO, GB_ERR_FORMAT (not our database), GB_ERR_BUSY (another server has it). */
gb_status_t ps_registry_create(const ps_registry_config_t *config, ps_registry_t **out);

/* Callbacks for ps_params_config_t; the context is the registry. */
void ps_registry_on_leave(void *registry, const char *job, uint32_t worker, const char *why);
void ps_registry_on_checkpoint(void *registry, const char *job, uint64_t clock, uint32_t epoch,
                               const char *path);

/* Hands over the shard (its callbacks may have come before), grants it the leases that were kept,
 * takes up the jobs that were running, and starts the clock. `endpoint`: what clients are told. */
gb_status_t ps_registry_start(ps_registry_t *registry, ps_params_t *params, const char *endpoint);

/* Adds its services to the server. */
gb_status_t ps_registry_serve(ps_registry_t *registry, gb_rpc_server_t *server);

/* Answers everybody who waits and stops the clock; before the gRPC server and the shard stop. */
void ps_registry_stop(ps_registry_t *registry);
void ps_registry_destroy(ps_registry_t *registry);

#endif
