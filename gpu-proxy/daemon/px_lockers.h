/* px_lockers.h - the daemon's side of px_locker.h: what sessions have left. Not thread-safe: the table of
 * sessions has a lock. */
#ifndef PX_LOCKERS_H
#define PX_LOCKERS_H

#include "gpu-proxy/daemon/px_kept.h"
#include "gpu-proxy/session/px_locker.h"

typedef struct px_lockers px_lockers_t;

/* Who asks. Two sessions belong together if their tenants have the same name, or if nobody is
 * authenticated and they have the same lease. */
typedef struct {
    px_keeper_t session;
    const char *tenant; /* "" if nobody is authenticated */
} px_lodger_t;

gb_status_t px_lockers_create(px_lockers_t **out);
void px_lockers_destroy(px_lockers_t *lockers);

/* Answers all requests that have come on a session's socket. GB_OK: that is all for now; GB_ERR_LOST,
 * GB_ERR_PROTOCOL. */
gb_status_t px_lockers_serve(px_lockers_t *lockers, int socket, const px_lodger_t *who);

/* The session has ended: what it has left goes. */
void px_lockers_leave(px_lockers_t *lockers, const px_lodger_t *who);

/* For px_kept_count. */
const px_kept_t *px_lockers_kept(const px_lockers_t *lockers);

#endif
