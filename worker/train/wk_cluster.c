#include "worker/train/wk_cluster.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/nn/wk_device.h"

gb_status_t wk_cluster_open(const wk_config_t *config, uint32_t gpus, wk_cluster_t *out)
{
    wk_cluster_t c = {0};
    gb_cluster_config_t connection = {.server = config->server, .tls_dir = config->tls_dir};
    gb_status_t status = gb_cluster_connect(&connection, &c.cluster);
    if (status != GB_OK)
        return status;
    gb_lease_request_t request = {.gpus = gpus, .job = config->job};
    status = gb_cluster_lease_acquire(c.cluster, &request, &c.lease);
    if (status == GB_OK)
        *out = c;
    else
        wk_cluster_close(&c, NULL);
    return status;
}

void wk_cluster_close(wk_cluster_t *c, const gb_driver_t *driver)
{
    gb_driver_leave(driver); /* the proxy ends what still uses a lease */
    gb_cluster_lease_release(c->lease);
    gb_cluster_close(c->cluster);
    memset(c, 0, sizeof(*c));
}

/* Opens the shim and has it read the lease from a file that only lives meanwhile. */
static gb_status_t open_leased(const wk_cluster_t *c, const char *driver, const gb_driver_t **out)
{
    char dir[] = "/tmp/gable-lease.XXXXXX", path[sizeof(dir) + 8];
    int count;
    if (!mkdtemp(dir))
        return gb_fail_errno(GB_ERR_IO, errno, "no folder for the lease in /tmp: free some space");
    snprintf(path, sizeof(path), "%s/lease", dir);
    gb_status_t status = gb_cluster_lease_write(c->lease, path);
    if (status == GB_OK && setenv("GABLE_LEASE", path, 1) != 0)
        status = gb_fail_errno(GB_ERR_NO_MEMORY, errno, "GABLE_LEASE cannot be set: free memory");
    const gb_driver_t *opened;
    if (status == GB_OK)
        status = gb_driver_choose(driver, &opened);
    if (status == GB_OK)
        status = wk_device_count(opened, &count);
    unlink(path);
    rmdir(dir);
    if (status == GB_OK)
        *out = opened;
    return status;
}

gb_status_t wk_cluster_driver(const wk_cluster_t *c, const char *driver, const gb_driver_t **out)
{
    if (c->lease && gb_cluster_lease_gpus(c->lease) > 0)
        return open_leased(c, driver, out);
    const gb_driver_t *opened;
    int count;
    gb_status_t status = gb_driver_choose(driver, &opened);
    if (status == GB_OK)
        status = wk_device_count(opened, &count);
    if (status == GB_OK)
        *out = opened;
    return status;
}
