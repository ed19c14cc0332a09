/* gb_rpc.h - reusable gRPC client and server over gRPC's C core and protobuf-c.
 *
 * Server: create, add services (a protobuf-c service descriptor and a table of handlers), start, stop,
 * destroy. Handlers run on a pool of threads and may block for a short while; one that has to wait
 * for others keeps the call (gb_rpc_call_hold) and answers later from any thread.
 * Client: open, call (unary, blocking, bounded), or open a stream.
 *
 * Thread-safe: everything, except that a server is set up by one thread, and that one stream is
 * received by one thread at a time (others may send). */
#ifndef GB_RPC_H
#define GB_RPC_H

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "common/core/gb_status.h"
#include "common/rpc/gb_rpc_tls.h"

#define GB_RPC_MAX_MESSAGE (4 << 20) /* bytes */

/* ---- server ---- */

typedef struct gb_rpc_server gb_rpc_server_t;
typedef struct gb_rpc_call gb_rpc_call_t;

/* A request of a unary method, or one message of a stream (NULL: the client sends no more). Messages
 * of one call come one after the other. `in` is released when the handler returns. A unary handler
 * calls reply or fail exactly once, now or later. */
typedef void (*gb_rpc_handler_t)(void *ctx, gb_rpc_call_t *call, const ProtobufCMessage *in);

/* The call is over, whoever ended it; no handler of it runs now or later. */
typedef void (*gb_rpc_closed_t)(void *ctx, gb_rpc_call_t *call);

typedef struct {
    const char *name; /* of the method in its service; NULL ends the table */
    uint32_t roles;   /* mask of gb_role_t that may call it */
    int stream;       /* bidirectional stream */
    gb_rpc_handler_t handle;
    gb_rpc_closed_t closed; /* or NULL */
} gb_rpc_method_t;

typedef struct {
    const char *listen;      /* "HOST:PORT"; port 0: any free one */
    const gb_rpc_tls_t *tls; /* NULL: plain, every caller has every role */
    uint32_t threads;        /* of the handlers' pool; 0: 4 */
} gb_rpc_server_config_t;

gb_status_t gb_rpc_server_create(const gb_rpc_server_config_t *config, gb_rpc_server_t **out);

/* Methods that the descriptor has and the table has not answer UNIMPLEMENTED, as unknown ones do.
 * The table and ctx must outlive the server. Before start only. */
gb_status_t gb_rpc_server_add(gb_rpc_server_t *server, const ProtobufCServiceDescriptor *service,
                              const gb_rpc_method_t *methods, void *ctx);

/* GB_ERR_EXISTS: the port is in use; GB_ERR_INVALID: not an address of this machine. */
gb_status_t gb_rpc_server_start(gb_rpc_server_t *server);

/* The port that was bound. */
int gb_rpc_server_port(const gb_rpc_server_t *server);

/* Names of the services that were added, for reflection; owned by the server. */
const char *gb_rpc_server_service(const gb_rpc_server_t *server, uint32_t index);

/* Takes no new calls, waits up to grace_ms for those that run, then cancels them. Calls that were
 * kept must still be released by their keepers; `closed` tells them. */
void gb_rpc_server_stop(gb_rpc_server_t *server, int grace_ms);

/* After stop (or instead of start). NULL is fine. */
void gb_rpc_server_destroy(gb_rpc_server_t *server);

/* Answers a unary call. */
void gb_rpc_call_reply(gb_rpc_call_t *call, const ProtobufCMessage *out);

/* Ends a call with an error; the text goes to the caller's gb_why(). */
void gb_rpc_call_fail(gb_rpc_call_t *call, gb_status_t status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Queues one message of a stream. GB_ERR_CLOSED: the call is over; GB_ERR_LIMIT: the peer does not
 * read (its queue is full): the call is cancelled. */
gb_status_t gb_rpc_call_send(gb_rpc_call_t *call, const ProtobufCMessage *out);

/* Ends a stream in good order after what was queued. */
void gb_rpc_call_finish(gb_rpc_call_t *call);

/* Keeps a call beyond its handler; each hold needs one release. */
void gb_rpc_call_hold(gb_rpc_call_t *call);
void gb_rpc_call_release(gb_rpc_call_t *call);

/* One pointer of the handlers' own on each call. */
void gb_rpc_call_set_user(gb_rpc_call_t *call, void *user);
void *gb_rpc_call_user(const gb_rpc_call_t *call);

uint32_t gb_rpc_call_roles(const gb_rpc_call_t *call); /* of the caller; all without TLS */
const char *
gb_rpc_call_name(const gb_rpc_call_t *call); /* certificate's common name; "" without TLS */
const char *gb_rpc_call_peer(const gb_rpc_call_t *call); /* "ipv4:127.0.0.1:4711" */
int gb_rpc_call_closed(const gb_rpc_call_t *call);       /* the caller is gone */

/* ---- standard services ---- */

/* grpc.health.v1.Health/Check: SERVING for "" and every service added, until set_serving(0). */
gb_status_t gb_rpc_health_add(gb_rpc_server_t *server);
void gb_rpc_health_set_serving(gb_rpc_server_t *server, int serving);

/* grpc.reflection.v1alpha and v1 over the files that the tree's own services come from. */
gb_status_t gb_rpc_reflection_add(gb_rpc_server_t *server);

/* ---- client ---- */

typedef struct gb_rpc_client gb_rpc_client_t;
typedef struct gb_rpc_stream gb_rpc_stream_t;

/* Opens a channel; nothing is sent before the first call. GB_ERR_INVALID: target. The tls object is
 * copied as far as needed. */
gb_status_t gb_rpc_client_open(const char *target, const gb_rpc_tls_t *tls, gb_rpc_client_t **out);

/* After all calls and streams. NULL is fine. */
void gb_rpc_client_close(gb_rpc_client_t *client);

/* One unary call. On success *out is the reply, released with gb_rpc_message_free().
 * GB_ERR_UNREACHABLE: no connection; GB_ERR_TIMEOUT: no answer in time; else the server's status. */
gb_status_t gb_rpc_client_call(gb_rpc_client_t *client, const ProtobufCServiceDescriptor *service,
                               const char *method, const ProtobufCMessage *in, int timeout_ms,
                               ProtobufCMessage **out);

/* Waits until the channel is connected, at most timeout_ms, trying all the time. UNREACHABLE. */
gb_status_t gb_rpc_client_wait(gb_rpc_client_t *client, int timeout_ms);

void gb_rpc_message_free(ProtobufCMessage *message);

/* Opens a bidirectional stream; fails when the server cannot be reached within timeout_ms. */
gb_status_t gb_rpc_stream_open(gb_rpc_client_t *client, const ProtobufCServiceDescriptor *service,
                               const char *method, int timeout_ms, gb_rpc_stream_t **out);

/* Waits until the message is on its way. GB_ERR_LOST: the stream is over. */
gb_status_t gb_rpc_stream_send(gb_rpc_stream_t *stream, const ProtobufCMessage *message);

/* Waits for one message. GB_ERR_CLOSED: ended in good order; otherwise why it ended. */
gb_status_t gb_rpc_stream_recv(gb_rpc_stream_t *stream, ProtobufCMessage **out);

/* Ends the stream from any thread: recv returns. */
void gb_rpc_stream_cancel(gb_rpc_stream_t *stream);

/* Cancels and frees; no other thread uses it any more. NULL is fine. */
void gb_rpc_stream_close(gb_rpc_stream_t *stream);

#endif
