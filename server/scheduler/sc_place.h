/* sc_place.h - which devices serve a lease. Pure: no state, no locks.
 *
 * The present rule: the least loaded device first, counted in leases; among equals the one on the
 * least loaded machine, so that workers spread over machines before they share one. */
#ifndef SC_PLACE_H
#define SC_PLACE_H

#include <stdint.h>

#include "common/core/gb_status.h"

typedef struct {
    uint32_t gpus;      /* wanted */
    uint64_t memory;    /* bytes wanted on each; 0: whatever there is */
    const char *device; /* only this one ("PROXY/INDEX"), or NULL */
} sc_request_t;

typedef struct {
    const char *proxy; /* name of the machine */
    uint32_t index;    /* of the device on it */
    uint32_t leases, leases_max;
    uint64_t memory; /* bytes not yet promised to others */
} sc_device_t;

/* Writes the places (indices into `devices`, all different) of request->gpus devices to `out`.
 * GB_ERR_LIMIT: not enough are free, with numbers; GB_ERR_NOT_FOUND: the named device is not there. */
gb_status_t sc_place(const sc_request_t *request, const sc_device_t *devices, uint32_t count,
                     uint32_t *out);

#endif
