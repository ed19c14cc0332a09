/* gb_rpc_accept.h - the listening socket of a plain gRPC server.
 *
 * gRPC drops a peer that does not speak HTTP/2 without a word. Without TLS we therefore accept
 * connections ourselves, look at their first bytes, log and close what is not gRPC, and hand the rest
 * over. (With TLS the failed handshake is logged.) */
#ifndef GB_RPC_ACCEPT_H
#define GB_RPC_ACCEPT_H

#include "common/core/gb_status.h"

typedef struct gb_rpc_acceptor gb_rpc_acceptor_t;

/* Takes a connected, non-blocking socket over. */
typedef void (*gb_rpc_accepted_t)(void *arg, int fd);

/* Binds and listens on "HOST:PORT". GB_ERR_EXISTS: in use; GB_ERR_INVALID: not an address of this
 * machine. */
gb_status_t gb_rpc_listen(const char *address, int *fd, int *port);

/* Starts a thread that accepts on `fd`, which it takes over if it succeeds. */
gb_status_t gb_rpc_acceptor_start(int fd, gb_rpc_accepted_t accepted, void *arg,
                                  gb_rpc_acceptor_t **out);

/* Closes the socket and joins the thread. NULL is fine. */
void gb_rpc_acceptor_stop(gb_rpc_acceptor_t *acceptor);

#endif
