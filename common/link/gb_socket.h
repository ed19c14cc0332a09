/* gb_socket.h - small socket helpers of the link room; not for other rooms.
 *
 * Thread-safe: no state. Deadlines are gb_now_ns() values, UINT64_MAX = for ever, 0 = do not wait. */
#ifndef GB_SOCKET_H
#define GB_SOCKET_H

#include <poll.h>
#include <stdint.h>

#include "common/core/gb_status.h"
#include "common/link/gb_endpoint.h"

enum { GB_SOCKET_IN = POLLIN, GB_SOCKET_OUT = POLLOUT };

/* ppoll until `deadline`. Returns the number of ready descriptors, 0 when the time is over; goes on
 * after signals. Negative errno on failure. */
int gb_socket_poll(struct pollfd *fds, int count, uint64_t deadline);

/* Waits for `events` (or an error condition, which the next call on the socket will tell).
 * GB_ERR_TIMEOUT. */
gb_status_t gb_socket_wait(int fd, short events, uint64_t deadline);

/* Close-on-exec, non-blocking, NODELAY and buffer sizes, whichever apply. */
gb_status_t gb_socket_prepare(int fd);

/* Blocking again, for calls that say MSG_DONTWAIT themselves wherever they must not sleep. */
gb_status_t gb_socket_set_blocking(int fd);

/* Lets the kernel notice a peer machine that vanished; TCP only, else nothing happens. */
void gb_socket_set_silence(int fd, uint32_t milliseconds);

int gb_socket_is_unix(int fd);

/* "10.0.0.7:40112" or "unix pid 4711 uid 1000"; `out` takes `size` characters. */
void gb_socket_describe_peer(int fd, char *out, int size);

/* Connects until `deadline`; the result is prepared. GB_ERR_UNREACHABLE, GB_ERR_TIMEOUT. */
gb_status_t gb_socket_connect(const gb_endpoint_t *endpoint, uint64_t deadline, int *out);

#endif
