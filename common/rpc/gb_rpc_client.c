/* gb_rpc_client.c - channel, unary calls, bidirectional streams.
 *
 * Each call has a completion queue of its own that the calling thread plucks: no thread of ours runs
 * in a client, and a caller is woken directly. */
#include "common/rpc/gb_rpc_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>

struct gb_rpc_client {
    grpc_channel *channel;
    char target[160];
    atomic_int seeking; /* it has not reached the server yet */
};

struct gb_rpc_stream {
    grpc_completion_queue *cq;
    grpc_call *call;
    const ProtobufCMessageDescriptor *in;
    const char *method;
    grpc_metadata_array headers, trailers;
    grpc_status_code code;
    grpc_slice details;
    grpc_byte_buffer *received;
    pthread_mutex_t send_lock;
    int over; /* the receiver has collected the status */
};

/* Tags of a stream: addresses that name what completed. */
enum { TAG_SEND = 1, TAG_RECV, TAG_STATUS };

static void *tag(int which)
{
    return (void *)(intptr_t)which;
}

static grpc_channel_credentials *make_credentials(const gb_rpc_tls_t *tls)
{
    if (!tls)
        return grpc_insecure_credentials_create();
    grpc_ssl_pem_key_cert_pair pair = {gb_rpc_tls_key(tls), gb_rpc_tls_cert(tls)};
    return grpc_ssl_credentials_create_ex(gb_rpc_tls_ca(tls), &pair, NULL, NULL);
}

static void stop_seeking(gb_rpc_client_t *client)
{
    if (atomic_exchange(&client->seeking, 0))
        gb_rpc_library_seek(-1);
}

gb_status_t gb_rpc_client_open(const char *target, const gb_rpc_tls_t *tls, gb_rpc_client_t **out)
{
    const char *colon = strrchr(target, ':');
    if (!colon || !colon[1] || strlen(target) >= sizeof((gb_rpc_client_t *)0)->target)
        return gb_fail(GB_ERR_INVALID, "'%s' is not an address: write HOST:PORT", target);
    gb_rpc_client_t *client = calloc(1, sizeof *client);
    if (!client)
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for a client");
    snprintf(client->target, sizeof client->target, "%s", target);
    gb_rpc_library_open(0);
    gb_rpc_library_seek(1);
    atomic_store(&client->seeking, 1);
    char name[] = GB_RPC_SERVER_NAME;
    grpc_arg list[] = {
        {GRPC_ARG_INTEGER, GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, {.integer = GB_RPC_MAX_MESSAGE}},
        {GRPC_ARG_INTEGER, GRPC_ARG_KEEPALIVE_TIME_MS, {.integer = 3000}},
        {GRPC_ARG_INTEGER, GRPC_ARG_KEEPALIVE_TIMEOUT_MS, {.integer = 5000}},
        {GRPC_ARG_INTEGER, GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, {.integer = 0}},
        {GRPC_ARG_INTEGER, GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, {.integer = 100}},
        {GRPC_ARG_INTEGER, GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, {.integer = 1000}},
        {GRPC_ARG_INTEGER, GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, {.integer = 1000}},
        {GRPC_ARG_INTEGER, GRPC_ARG_ENABLE_HTTP_PROXY, {.integer = 0}},
        {GRPC_ARG_INTEGER, GRPC_ARG_ENABLE_RETRIES, {.integer = 0}},
        {GRPC_ARG_INTEGER, GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, {.integer = 1}},
        {GRPC_ARG_INTEGER, GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, {.integer = 1}},
        {GRPC_ARG_STRING, GRPC_SSL_TARGET_NAME_OVERRIDE_ARG, {.string = name}},
    };
    size_t count = sizeof list / sizeof list[0];
    grpc_channel_args args = {tls ? count : count - 1, list};
    grpc_channel_credentials *credentials = make_credentials(tls);
    client->channel = grpc_channel_create(client->target, credentials, &args);
    grpc_channel_credentials_release(credentials);
    *out = client;
    return GB_OK;
}

void gb_rpc_client_close(gb_rpc_client_t *client)
{
    if (!client)
        return;
    grpc_channel_destroy(client->channel);
    stop_seeking(client);
    gb_rpc_library_close(0);
    free(client);
}

static gb_status_t find_method(const ProtobufCServiceDescriptor *service, const char *name,
                               const ProtobufCMethodDescriptor **out)
{
    const ProtobufCMethodDescriptor *method =
        protobuf_c_service_descriptor_get_method_by_name(service, name);
    if (!method)
        return gb_fail(GB_ERR_INTERNAL, "%s has no method %s", service->name, name);
    *out = method;
    return GB_OK;
}

static grpc_call *make_call(gb_rpc_client_t *client, const ProtobufCServiceDescriptor *service,
                            const char *method, grpc_completion_queue *cq, gpr_timespec deadline)
{
    char path[160];
    snprintf(path, sizeof path, "/%s/%s", service->name, method);
    grpc_slice slice = grpc_slice_from_copied_string(path);
    grpc_call *call = grpc_channel_create_call(client->channel, NULL, GRPC_PROPAGATE_DEFAULTS, cq,
                                               slice, NULL, deadline, NULL);
    grpc_slice_unref(slice);
    return call;
}

/* Turns the end of a call into a status with a line for people. */
static gb_status_t explain(grpc_status_code code, grpc_slice details, const char *target)
{
    if (code == GRPC_STATUS_OK)
        return GB_OK;
    char *text = grpc_slice_to_c_string(details);
    gb_status_t status = gb_rpc_status_from_grpc(code);
    if (code == GRPC_STATUS_UNAVAILABLE)
        gb_fail(status, "no server answers at %s: is ps-server running there? (%.120s)", target,
                text);
    else if (code == GRPC_STATUS_DEADLINE_EXCEEDED)
        gb_fail(status, "the server at %s does not answer in time", target);
    else
        gb_fail(status, "%s", text);
    gpr_free(text);
    return status;
}

static void destroy_queue(grpc_completion_queue *cq)
{
    grpc_completion_queue_shutdown(cq);
    grpc_completion_queue_destroy(cq);
}

gb_status_t gb_rpc_client_call(gb_rpc_client_t *client, const ProtobufCServiceDescriptor *service,
                               const char *method, const ProtobufCMessage *in, int timeout_ms,
                               ProtobufCMessage **out)
{
    const ProtobufCMethodDescriptor *descriptor = NULL;
    gb_status_t status = find_method(service, method, &descriptor);
    if (status != GB_OK)
        return status;
    grpc_completion_queue *cq = grpc_completion_queue_create_for_pluck(NULL);
    grpc_call *call = make_call(client, service, method, cq, gb_rpc_deadline(timeout_ms));
    grpc_metadata_array headers, trailers;
    grpc_metadata_array_init(&headers);
    grpc_metadata_array_init(&trailers);
    grpc_byte_buffer *request = gb_rpc_pack(in), *response = NULL;
    grpc_status_code code = GRPC_STATUS_UNKNOWN;
    grpc_slice details = grpc_empty_slice();
    grpc_op ops[6];
    memset(ops, 0, sizeof ops);
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = request;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &headers;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &response;
    ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[5].data.recv_status_on_client.trailing_metadata = &trailers;
    ops[5].data.recv_status_on_client.status = &code;
    ops[5].data.recv_status_on_client.status_details = &details;
    grpc_call_error error = grpc_call_start_batch(call, ops, 6, tag(TAG_STATUS), NULL);
    if (error == GRPC_CALL_OK) {
        grpc_completion_queue_pluck(cq, tag(TAG_STATUS), gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
        status = explain(code, details, client->target);
        if (status == GB_OK)
            stop_seeking(client);
    } else {
        status = gb_fail(GB_ERR_INTERNAL, "grpc: %s", grpc_call_error_to_string(error));
    }
    if (status == GB_OK) {
        ProtobufCMessage *message = gb_rpc_unpack(descriptor->output, response);
        if (message)
            *out = message;
        else
            status = gb_fail(GB_ERR_PROTOCOL, "the answer to %s does not parse", method);
    }
    grpc_slice_unref(details);
    grpc_byte_buffer_destroy(request);
    if (response)
        grpc_byte_buffer_destroy(response);
    grpc_metadata_array_destroy(&headers);
    grpc_metadata_array_destroy(&trailers);
    grpc_call_unref(call);
    destroy_queue(cq);
    return status;
}

/* ---- streams ---- */

gb_status_t gb_rpc_client_wait(gb_rpc_client_t *client, int timeout_ms)
{
    gpr_timespec deadline = gb_rpc_deadline(timeout_ms);
    grpc_completion_queue *cq = grpc_completion_queue_create_for_pluck(NULL);
    grpc_connectivity_state state;
    int in_time = 1;
    while (in_time && (state = grpc_channel_check_connectivity_state(client->channel, 1)) !=
                          GRPC_CHANNEL_READY) {
        /* Who waits also drives the attempts: gRPC has no thread of its own for that. */
        grpc_channel_watch_connectivity_state(client->channel, state, deadline, cq,
                                              tag(TAG_STATUS));
        in_time = grpc_completion_queue_pluck(cq, tag(TAG_STATUS),
                                              gpr_inf_future(GPR_CLOCK_REALTIME), NULL)
                      .success;
    }
    destroy_queue(cq);
    if (in_time) {
        stop_seeking(client);
        return GB_OK;
    }
    return gb_fail(GB_ERR_UNREACHABLE, "no server answers at %s: is ps-server running there?",
                   client->target);
}

gb_status_t gb_rpc_stream_open(gb_rpc_client_t *client, const ProtobufCServiceDescriptor *service,
                               const char *method, int timeout_ms, gb_rpc_stream_t **out)
{
    const ProtobufCMethodDescriptor *descriptor = NULL;
    gb_status_t status = find_method(service, method, &descriptor);
    if (status == GB_OK)
        status = gb_rpc_client_wait(client, timeout_ms);
    if (status != GB_OK)
        return status;
    gb_rpc_stream_t *stream = calloc(1, sizeof *stream);
    if (!stream)
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for a stream");
    stream->in = descriptor->output;
    stream->method = method;
    stream->details = grpc_empty_slice();
    pthread_mutex_init(&stream->send_lock, NULL);
    grpc_metadata_array_init(&stream->headers);
    grpc_metadata_array_init(&stream->trailers);
    stream->cq = grpc_completion_queue_create_for_pluck(NULL);
    stream->call =
        make_call(client, service, method, stream->cq, gpr_inf_future(GPR_CLOCK_MONOTONIC));
    grpc_op ops[3];
    memset(ops, 0, sizeof ops);
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[1].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[1].data.recv_initial_metadata.recv_initial_metadata = &stream->headers;
    ops[2].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[2].data.recv_status_on_client.trailing_metadata = &stream->trailers;
    ops[2].data.recv_status_on_client.status = &stream->code;
    ops[2].data.recv_status_on_client.status_details = &stream->details;
    grpc_call_error error = grpc_call_start_batch(stream->call, ops, 3, tag(TAG_STATUS), NULL);
    if (error != GRPC_CALL_OK) {
        stream->over = 1;
        gb_rpc_stream_close(stream);
        return gb_fail(GB_ERR_INTERNAL, "grpc: %s", grpc_call_error_to_string(error));
    }
    *out = stream;
    return GB_OK;
}

gb_status_t gb_rpc_stream_send(gb_rpc_stream_t *stream, const ProtobufCMessage *message)
{
    grpc_byte_buffer *bytes = gb_rpc_pack(message);
    grpc_op op;
    memset(&op, 0, sizeof op);
    op.op = GRPC_OP_SEND_MESSAGE;
    op.data.send_message.send_message = bytes;
    pthread_mutex_lock(&stream->send_lock);
    int ok = grpc_call_start_batch(stream->call, &op, 1, tag(TAG_SEND), NULL) == GRPC_CALL_OK;
    if (ok)
        ok = grpc_completion_queue_pluck(stream->cq, tag(TAG_SEND),
                                         gpr_inf_future(GPR_CLOCK_REALTIME), NULL)
                 .success;
    pthread_mutex_unlock(&stream->send_lock);
    grpc_byte_buffer_destroy(bytes);
    return ok ? GB_OK : gb_fail(GB_ERR_LOST, "the stream %s is over", stream->method);
}

/* Collects the end of the stream and says why. */
static gb_status_t stream_end(gb_rpc_stream_t *stream)
{
    if (!stream->over) {
        grpc_completion_queue_pluck(stream->cq, tag(TAG_STATUS), gpr_inf_future(GPR_CLOCK_REALTIME),
                                    NULL);
        stream->over = 1;
    }
    if (stream->code == GRPC_STATUS_OK)
        return gb_fail(GB_ERR_CLOSED, "the server ended %s", stream->method);
    return explain(stream->code, stream->details, "the other end");
}

gb_status_t gb_rpc_stream_recv(gb_rpc_stream_t *stream, ProtobufCMessage **out)
{
    grpc_op op;
    memset(&op, 0, sizeof op);
    op.op = GRPC_OP_RECV_MESSAGE;
    op.data.recv_message.recv_message = &stream->received;
    if (grpc_call_start_batch(stream->call, &op, 1, tag(TAG_RECV), NULL) != GRPC_CALL_OK)
        return gb_fail(GB_ERR_INTERNAL, "cannot receive on %s", stream->method);
    grpc_completion_queue_pluck(stream->cq, tag(TAG_RECV), gpr_inf_future(GPR_CLOCK_REALTIME),
                                NULL);
    if (!stream->received)
        return stream_end(stream);
    ProtobufCMessage *message = gb_rpc_unpack(stream->in, stream->received);
    grpc_byte_buffer_destroy(stream->received);
    stream->received = NULL;
    if (!message)
        return gb_fail(GB_ERR_PROTOCOL, "a message of %s does not parse", stream->method);
    *out = message;
    return GB_OK;
}

void gb_rpc_stream_cancel(gb_rpc_stream_t *stream)
{
    grpc_call_cancel(stream->call, NULL);
}

void gb_rpc_stream_close(gb_rpc_stream_t *stream)
{
    if (!stream)
        return;
    grpc_call_cancel(stream->call, NULL);
    if (!stream->over)
        grpc_completion_queue_pluck(stream->cq, tag(TAG_STATUS), gpr_inf_future(GPR_CLOCK_REALTIME),
                                    NULL);
    grpc_slice_unref(stream->details);
    grpc_metadata_array_destroy(&stream->headers);
    grpc_metadata_array_destroy(&stream->trailers);
    grpc_call_unref(stream->call);
    destroy_queue(stream->cq);
    pthread_mutex_destroy(&stream->send_lock);
    free(stream);
}
