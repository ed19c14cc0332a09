/* rc_config.h - what the environment says about remote devices. */
#ifndef RC_CONFIG_H
#define RC_CONFIG_H

#include "gpu-proxy/client/rc_state.h"

typedef struct {
    gb_endpoint_t endpoint;
    gb_credential_t credential;
} rc_target_t;

typedef struct {
    rc_target_t list[RC_SESSIONS];
    int count;
} rc_targets_t;

/* The proxies of GABLE_LEASE, else of GABLE_PROXIES, in order. The caller wipes the keys. */
gb_status_t rc_config_targets(rc_targets_t *out);

/* Applies CUDA_VISIBLE_DEVICES: order[0..result) are the indices of the devices that the program sees,
 * in its order. `order` takes `count` entries. */
int rc_config_visible(const rc_device_t *all, int count, int *order);

#endif
