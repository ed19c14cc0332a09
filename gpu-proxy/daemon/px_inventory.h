/* px_inventory.h - the devices of a proxy, as the probe session (gpu-session --probe) reports them.
 *
 * The probe prints a block of lines, read by the daemon and by people:
 *
 *   gable-probe 1
 *   driver <kind> <version> <path to the end of the line>
 *   device <ordinal> cc <major>.<minor> sm <count> clock <kHz> memory <bytes> name <to the end>
 *   measured <ordinal> <quantity> <value>      any number; the quantities are px_device_t's
 *   end
 *
 * Unknown lines are skipped, so that a newer probe can say more. Plain data. */
#ifndef PX_INVENTORY_H
#define PX_INVENTORY_H

#include <stddef.h>
#include <stdint.h>

#include "common/core/gb_status.h"
#include "gpu-proxy/daemon/px_grants.h"

typedef struct {
    int ordinal;
    char name[128];
    int cc_major;
    int cc_minor;
    int sm_count;
    int clock_khz;
    uint64_t memory; /* bytes */
    /* 0 = not measured */
    double h2d_bytes_per_s;
    double d2h_bytes_per_s;
    double memory_bytes_per_s;
    double fp32_flops;
    double launch_s;
} px_device_t;

typedef struct {
    char driver_kind[24]; /* "nvidia", "gable-cpu", "null" */
    char driver_path[512];
    int driver_version; /* as cuDriverGetVersion: 13000 = 13.0 */
    int device_count;
    px_device_t devices[PX_DEVICES];
} px_inventory_t;

/* GB_ERR_FORMAT: not a probe block, or cut short. */
gb_status_t px_inventory_parse(const char *text, size_t size, px_inventory_t *out);

#endif
