/* gb_rpc_internal.h - what the files of this room share. */
#ifndef GB_RPC_INTERNAL_H
#define GB_RPC_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>
#include <grpc/support/time.h>

#include "common/rpc/gb_rpc.h"
#include "common/rpc/gb_rpc_accept.h"

/* Counted start and end of gRPC in this process; also directs its log into ours. `server`: a server is
 * opened or closed; refused peers are worth a warning only where there is one. */
void gb_rpc_library_open(int server);
void gb_rpc_library_close(int server);
/* +1: a client begins to look for its server, -1: it has found it or gives up. */
void gb_rpc_library_seek(int change);

/* A deadline that many milliseconds from now. */
gpr_timespec gb_rpc_deadline(int timeout_ms);

grpc_byte_buffer *gb_rpc_pack(const ProtobufCMessage *message);
/* NULL if the bytes do not parse. */
ProtobufCMessage *gb_rpc_unpack(const ProtobufCMessageDescriptor *type, grpc_byte_buffer *bytes);

grpc_status_code gb_rpc_status_to_grpc(gb_status_t status);
gb_status_t gb_rpc_status_from_grpc(grpc_status_code code);

/* ---- server side ---- */

/* What a completion means: fn(call, ok), then the reference that the tag held is dropped. `handed`
 * orders what was written before a batch with what its completion reads, in our own terms: gRPC does
 * so too, but inside itself, where tools that check for races do not see it. */
typedef struct {
    atomic_int handed;
    void (*fn)(gb_rpc_call_t *call, int ok);
    gb_rpc_call_t *call;
} gb_rpc_tag_t;

/* A piece of work for the pool; holds a reference on its call. */
typedef struct gb_rpc_job {
    struct gb_rpc_job *next;
    void (*fn)(gb_rpc_call_t *call);
    gb_rpc_call_t *call;
} gb_rpc_job_t;

typedef struct {
    char path[128]; /* "/package.Service/Method" */
    const ProtobufCMessageDescriptor *in, *out;
    const gb_rpc_method_t *method;
    void *ctx;
    void *registered; /* gRPC's handle */
} gb_rpc_entry_t;

typedef struct gb_rpc_out {
    struct gb_rpc_out *next;
    grpc_byte_buffer *bytes;
} gb_rpc_out_t;

struct gb_rpc_call {
    gb_rpc_server_t *server;
    const gb_rpc_entry_t *entry; /* NULL: a method that nobody knows */
    grpc_call *call;
    grpc_metadata_array metadata;
    grpc_call_details details; /* of unknown methods only */
    gpr_timespec deadline;
    grpc_byte_buffer *request;
    gb_rpc_tag_t on_new, on_close, on_recv, on_send;
    gb_rpc_job_t job_message, job_closed;
    atomic_int refs;
    int cancelled; /* written by gRPC */
    atomic_int closed;
    int accepted;

    pthread_mutex_t serial; /* handlers of this call, one at a time */
    int closed_told;        /* under serial */

    pthread_mutex_t lock; /* all below */
    gb_rpc_out_t *out_head, *out_tail;
    uint32_t queued;
    int sending, ended, status_queued;
    grpc_status_code end_code;
    char end_text[256];

    atomic_uintptr_t user;
    uint32_t roles;
    char name[64];
    char peer[96];
};

#define GB_RPC_MAX_SERVICES 16
#define GB_RPC_MAX_METHODS 64
#define GB_RPC_QUEUE_LIMIT 1024 /* messages that a stream's reader may lag behind */

struct gb_rpc_server {
    grpc_server *server;
    grpc_completion_queue *cq;
    char listen[160];
    int port;
    const gb_rpc_tls_t *tls;
    const char *services[GB_RPC_MAX_SERVICES + 1];
    uint32_t service_count;
    gb_rpc_entry_t entries[GB_RPC_MAX_METHODS];
    uint32_t entry_count;
    uint32_t thread_count;
    pthread_t cq_threads[2];
    pthread_t *threads;
    gb_rpc_acceptor_t *acceptor; /* without TLS */
    int started, stopped;
    atomic_int serving;
    ProtobufCServiceDescriptor reflection_v1;

    pthread_mutex_t lock; /* pool and live */
    pthread_cond_t wake;
    gb_rpc_job_t *job_head, *job_tail;
    int quit;
    int live; /* accepted calls that still exist */
    pthread_cond_t idle;
    int shutdown_done;
};

/* gb_rpc_call.c */
gb_status_t gb_rpc_call_arm(gb_rpc_server_t *server, const gb_rpc_entry_t *entry);
void gb_rpc_call_unref(gb_rpc_call_t *call);

/* gb_rpc_server.c */
void gb_rpc_server_submit(gb_rpc_server_t *server, gb_rpc_job_t *job);
void gb_rpc_server_live(gb_rpc_server_t *server, int delta);

#endif
