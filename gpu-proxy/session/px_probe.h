/* px_probe.h - lists and measures the devices of a driver; runs in a process of its own, because it
 * makes CUDA contexts. */
#ifndef PX_PROBE_H
#define PX_PROBE_H

#include <stdio.h>

#include "common/core/gb_status.h"
#include "gb_cuda_table.h"

/* Writes the block that gpu-proxy/daemon/px_inventory.h describes. GB_ERR_NOT_FOUND: no device. */
gb_status_t px_probe_run(const gb_cuda_table_t *driver, const char *kind, const char *path,
                         FILE *out);

#endif
