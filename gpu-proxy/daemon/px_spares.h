/* px_spares.h - sessions started ahead of their clients, with the driver open and initialised, so that a
 * client does not wait for that. They hold no context and no client's data, and wait for their boot
 * message. The daemon's thread only. */
#ifndef PX_SPARES_H
#define PX_SPARES_H

#include <stdint.h>
#include <sys/types.h>

#include "common/core/gb_status.h"

enum { PX_SPARES_MAX = 64 };

typedef struct px_spares px_spares_t;

/* Keeps up to `count` sessions on `driver` ready, also for TLS if clients come with it; none are started
 * yet. */
gb_status_t px_spares_create(const char *driver, int tls, int count, px_spares_t **out);

/* Kills and reaps what is left. NULL is allowed. */
void px_spares_destroy(px_spares_t *spares);

/* Gives out a session that is ready; it belongs to the caller like one of px_process_session.
 * GB_ERR_NOT_FOUND: none is. */
gb_status_t px_spares_take(px_spares_t *spares, pid_t *pid, int *control);

/* gb_now_ns() at which px_spares_fill has something to do; UINT64_MAX = nothing is missing. */
uint64_t px_spares_due(const px_spares_t *spares);

/* Reaps spares that have died, and starts one that is missing if that is due: some time after the last
 * client came, so that the spare does not compete with it. One that dies is tried again later and later. */
void px_spares_fill(px_spares_t *spares);

#endif
