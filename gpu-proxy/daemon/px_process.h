/* px_process.h - starting gpu-session processes. Used by the daemon's thread only: a session dies with
 * the thread that started it (PR_SET_PDEATHSIG). */
#ifndef PX_PROCESS_H
#define PX_PROCESS_H

#include <sys/types.h>

#include "common/core/gb_status.h"
#include "gpu-proxy/daemon/px_inventory.h"

/* Starts a session on `driver`; with `tls` it readies itself for a TLS handshake before it looks for its
 * client. *control is the daemon's end of the control socket: non-blocking,
 * close-on-exec, owned by the caller. The child has descriptors 0 to 3 and no others, and no blocked
 * signals. */
gb_status_t px_process_session(const char *driver, int tls, pid_t *pid, int *control);

/* Runs a probe session to its end (at most `seconds`) and parses its report. */
gb_status_t px_process_probe(const char *driver, int seconds, px_inventory_t *out);

#endif
