/* gb_rpc_core.c - gRPC's start and end, its log, packing, status codes. */
#include "common/rpc/gb_rpc_internal.h"

#include <stdlib.h>
#include <string.h>

#include <grpc/byte_buffer_reader.h>
#include <grpc/support/log.h>

#include "common/core/gb_log.h"

/* Servers in this process; gRPC's log is one per process, and so is this. */
static atomic_int servers;
/* Clients that have not reached their server yet: they report themselves what is in their way, and gRPC's
 * log does not tell whose handshake failed. */
static atomic_int seekers;

/* What OpenSSL's reasons mean to the person who reads the log. */
static const struct {
    const char *part, *meaning;
} REASONS[] = {
    {"certificate verify failed", "its certificate has expired or is from another CA: issue a new "
                                  "one with `gable ca issue`"},
    {"peer did not return a certificate", "it shows no certificate: give it a --tls-dir"},
    {"PEER_DID_NOT_RETURN", "it shows no certificate: give it a --tls-dir"},
    {"alert unknown ca", "it does not trust this server's certificate: both need one CA"},
    {"alert bad certificate", "it does not accept this server's certificate"},
    {"alert certificate expired", "this server's certificate has expired: issue a new one"},
    {"wrong version number", "what it sent is not TLS"},
    {"http request", "it speaks HTTP without TLS"},
    {"unexpected eof", "it closed the connection in the middle of the handshake"},
};

/* gRPC says only in its log why it refused a peer: pass that on, the rest is for debugging. */
static void log_from_grpc(gpr_log_func_args *args)
{
    const char *text = args->message, *meaning = text;
    if (!strstr(text, "Handshake failed") || !atomic_load(&servers) || atomic_load(&seekers)) {
        gb_log(GB_LOG_DEBUG, "grpc: %.200s", text);
        return;
    }
    for (size_t i = 0; i < sizeof REASONS / sizeof REASONS[0]; i++)
        if (strstr(text, REASONS[i].part)) {
            meaning = REASONS[i].meaning;
            break;
        }
    gb_log(GB_LOG_WARN, "gRPC port: refused a peer: %s", meaning);
}

static void set_up_once(void)
{
    /* The system's resolver knows /etc/hosts and mDNS names; gRPC's own knows DNS servers only. */
    setenv("GRPC_DNS_RESOLVER", "native", 0);
    /* A channel without calls is looked after only so often (5000): too seldom to notice within a
     * second that a server went away or came back. */
    setenv("GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS", "250", 0);
    gpr_set_log_function(log_from_grpc);
    gpr_set_log_verbosity(gb_log_enabled(GB_LOG_DEBUG) ? GPR_LOG_SEVERITY_INFO
                                                       : GPR_LOG_SEVERITY_ERROR);
}

void gb_rpc_library_open(int server)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_up_once);
    atomic_fetch_add(&servers, server != 0);
    grpc_init();
}

void gb_rpc_library_close(int server)
{
    atomic_fetch_sub(&servers, server != 0);
    grpc_shutdown_blocking();
}

void gb_rpc_library_seek(int change)
{
    atomic_fetch_add(&seekers, change);
}

gpr_timespec gb_rpc_deadline(int timeout_ms)
{
    return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                        gpr_time_from_millis(timeout_ms, GPR_TIMESPAN));
}

grpc_byte_buffer *gb_rpc_pack(const ProtobufCMessage *message)
{
    size_t size = protobuf_c_message_get_packed_size(message);
    grpc_slice slice = grpc_slice_malloc(size);
    protobuf_c_message_pack(message, GRPC_SLICE_START_PTR(slice));
    grpc_byte_buffer *bytes = grpc_raw_byte_buffer_create(&slice, 1);
    grpc_slice_unref(slice);
    return bytes;
}

ProtobufCMessage *gb_rpc_unpack(const ProtobufCMessageDescriptor *type, grpc_byte_buffer *bytes)
{
    grpc_byte_buffer_reader reader;
    if (!bytes || !grpc_byte_buffer_reader_init(&reader, bytes))
        return NULL;
    grpc_slice slice = grpc_byte_buffer_reader_readall(&reader);
    ProtobufCMessage *message = protobuf_c_message_unpack(type, NULL, GRPC_SLICE_LENGTH(slice),
                                                          GRPC_SLICE_START_PTR(slice));
    grpc_slice_unref(slice);
    grpc_byte_buffer_reader_destroy(&reader);
    return message;
}

void gb_rpc_message_free(ProtobufCMessage *message)
{
    if (message)
        protobuf_c_message_free_unpacked(message, NULL);
}

static const struct {
    gb_status_t status;
    grpc_status_code code;
} CODES[] = {
    {GB_OK, GRPC_STATUS_OK},
    {GB_ERR_INVALID, GRPC_STATUS_INVALID_ARGUMENT},
    {GB_ERR_NOT_FOUND, GRPC_STATUS_NOT_FOUND},
    {GB_ERR_LIMIT, GRPC_STATUS_RESOURCE_EXHAUSTED},
    {GB_ERR_EXISTS, GRPC_STATUS_ALREADY_EXISTS},
    {GB_ERR_BUSY, GRPC_STATUS_ABORTED},
    {GB_ERR_TIMEOUT, GRPC_STATUS_DEADLINE_EXCEEDED},
    {GB_ERR_UNREACHABLE, GRPC_STATUS_UNAVAILABLE},
    {GB_ERR_UNAUTHORISED, GRPC_STATUS_PERMISSION_DENIED},
    {GB_ERR_UNAUTHORISED, GRPC_STATUS_UNAUTHENTICATED},
    {GB_ERR_VERSION, GRPC_STATUS_FAILED_PRECONDITION},
    {GB_ERR_UNSUPPORTED, GRPC_STATUS_UNIMPLEMENTED},
    {GB_ERR_CANCELLED, GRPC_STATUS_CANCELLED},
    {GB_ERR_LOST, GRPC_STATUS_DATA_LOSS},
};

grpc_status_code gb_rpc_status_to_grpc(gb_status_t status)
{
    for (size_t i = 0; i < sizeof CODES / sizeof CODES[0]; i++)
        if (CODES[i].status == status)
            return CODES[i].code;
    return GRPC_STATUS_INTERNAL;
}

gb_status_t gb_rpc_status_from_grpc(grpc_status_code code)
{
    for (size_t i = 0; i < sizeof CODES / sizeof CODES[0]; i++)
        if (CODES[i].code == code)
            return CODES[i].status;
    return GB_ERR_INTERNAL;
}
