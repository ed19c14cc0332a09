/* gb_cluster_internal.h - what the files of the cluster client share. */
#ifndef GB_CLUSTER_INTERNAL_H
#define GB_CLUSTER_INTERNAL_H

#include "common/rpc/gb_cluster.h"
#include "common/rpc/gb_rpc.h"
#include "gable.pb-c.h"

struct gb_cluster {
    gb_rpc_client_t *client;
    gb_rpc_tls_t *tls; /* NULL: plain */
    char server[160];
    char name[160];
    int timeout_ms;
};

/* One unary call; silence counts as UNREACHABLE. */
gb_status_t gb_cluster_call(gb_cluster_t *cluster, const ProtobufCServiceDescriptor *service,
                            const char *method, const void *in, int timeout_ms, void *out);

/* Boot id of this machine, "" if unknown: who has the same may use Unix sockets. */
void gb_cluster_machine(char *out, size_t size);

/* Copies text, shortened to fit. */
void gb_cluster_copy(char *out, size_t size, const char *text);

/* calloc for lists; at least one element, so that NULL means GB_ERR_NO_MEMORY. */
void *gb_cluster_list(size_t count, size_t size);

#endif
