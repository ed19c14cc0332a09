/* gb_listener.h - a listening TCP or Unix socket.
 *
 * gb_listener_accept may be called from several threads; closing must be last. */
#ifndef GB_LISTENER_H
#define GB_LISTENER_H

#include "common/core/gb_status.h"
#include "common/link/gb_endpoint.h"

typedef struct gb_listener gb_listener_t;

/* Binds and listens. TCP port 0 takes a free port. A Unix socket file that nobody listens on any more
 * is replaced; it gets mode 0600 if `owner_only`, else 0666. GB_ERR_EXISTS: somebody listens there
 * ("... in use: choose another port ..."). */
gb_status_t gb_listener_open(const gb_endpoint_t *endpoint, int owner_only, gb_listener_t **out);

/* The endpoint really bound (with the port taken). Valid as long as the listener. */
const gb_endpoint_t *gb_listener_endpoint(const gb_listener_t *listener);

/* For a poll loop; non-blocking. */
int gb_listener_fd(const gb_listener_t *listener);

enum { GB_PEER_TEXT = 96 };

/* The next connection: non-blocking, close-on-exec, TCP_NODELAY; the caller owns it. `peer` gets
 * "10.0.0.7:40112" or "unix pid 4711 uid 1000". Waits until `deadline` (0: GB_ERR_AGAIN; passed:
 * GB_ERR_TIMEOUT). GB_ERR_LIMIT: out of descriptors: try again later. After gb_listener_shutdown:
 * GB_ERR_CANCELLED. */
gb_status_t gb_listener_accept(gb_listener_t *listener, uint64_t deadline, int *fd,
                               char peer[GB_PEER_TEXT]);

/* Ends waiting accepts, in other threads too. */
void gb_listener_shutdown(gb_listener_t *listener);

/* Closes and removes the Unix socket file. NULL is allowed. */
void gb_listener_close(gb_listener_t *listener);

#endif
