/* wk_cluster.h - the worker's place in a cluster: the connection, its lease, and the leased GPUs. */
#ifndef WK_CLUSTER_H
#define WK_CLUSTER_H

#include "common/cuda/gb_driver.h"
#include "common/rpc/gb_cluster.h"
#include "worker/train/wk_config.h"

typedef struct {
    gb_cluster_t *cluster;
    gb_cluster_lease_t *lease;
} wk_cluster_t;

/* Connects to config->server and leases `gpus` devices (0: only the parameter shards). */
gb_status_t wk_cluster_open(const wk_config_t *config, uint32_t gpus, wk_cluster_t *out);

/* Leaves the GPUs of `driver` (NULL: none was opened), gives the lease back and disconnects. Harmless on a
 * zeroed struct. */
void wk_cluster_close(wk_cluster_t *cluster, const gb_driver_t *driver);

/* Opens the driver of the configuration; for "remote" the lease's GPUs become devices 0..n-1 (through
 * GABLE_LEASE, a private file that is gone on return). Without a lease the environment decides. */
gb_status_t wk_cluster_driver(const wk_cluster_t *cluster, const char *driver,
                              const gb_driver_t **out);

#endif
