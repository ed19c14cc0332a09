/* cluster_help.h - a whole server in this process, and proxies that only speak the control plane. */
#ifndef CLUSTER_HELP_H
#define CLUSTER_HELP_H

#include <pthread.h>

#include "common/rpc/gb_cluster.h"
#include "common/rpc/gb_rpc.h"
#include "server/params/ps_params.h"
#include "server/registry/ps_registry.h"

typedef struct {
    char folder[64], target[64];
    const gb_rpc_tls_t *tls; /* set before start; NULL: plain */
    ps_registry_t *registry;
    ps_params_t *params;
    gb_rpc_server_t *server;
} help_server_t;

/* Makes the state folder; start and stop may be repeated on it. */
void help_server_create(help_server_t *server);
void help_server_start(help_server_t *server);
void help_server_stop(help_server_t *server);
void help_server_destroy(help_server_t *server);

gb_cluster_t *help_connect(const help_server_t *server, const char *name);

/* What a fake proxy does with a grant. */
typedef enum { HELP_ACCEPT, HELP_REFUSE, HELP_SILENT } help_answer_t;

typedef struct {
    const char *name;
    help_answer_t answer;
    gb_rpc_client_t *client;
    gb_rpc_stream_t *stream;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int welcomed, welcome_grants, grants, revokes, kills, ended;
    uint64_t lease; /* of the last grant */
    uint8_t key[32];
    gb_status_t end;
} help_proxy_t;

/* Connects with so many devices; waits for the welcome unless the server refuses (ended is set). */
help_proxy_t *help_proxy_start(const help_server_t *server, const char *name, int devices,
                               help_answer_t answer);
/* From now on. */
void help_proxy_answer(help_proxy_t *proxy, help_answer_t what);
/* Reports one session. */
void help_proxy_session(help_proxy_t *proxy, uint64_t session, uint64_t lease);
/* Waits (10 s) until *counter reaches value. */
void help_proxy_wait(help_proxy_t *proxy, const int *counter, int value);
/* Goes without a word. */
void help_proxy_vanish(help_proxy_t *proxy);

#endif
