/* ps_server.h - the context object of a shard; private to the room. */
#ifndef PS_SERVER_H
#define PS_SERVER_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/link/gb_endpoint.h"
#include "common/link/gb_listener.h"
#include "server/params/ps_grants.h"
#include "server/params/ps_job.h"
#include "server/params/ps_owner.h"
#include "server/params/ps_params.h"

enum { PS_MAX_OWNERS = 16, PS_MAX_HANDSHAKES = 64 };

struct ps_params {
    ps_params_config_t config; /* strings copied, defaults filled in */
    char endpoint[GB_ENDPOINT_TEXT];
    ps_grants_t *grants;
    gb_listener_t *listener;

    ps_owner_t owners[PS_MAX_OWNERS];
    uint32_t owner_count;

    pthread_mutex_t lock; /* jobs, handshakes */
    pthread_cond_t changed;
    ps_job_t *jobs;
    int stopping;
    int handshakes[PS_MAX_HANDSHAKES]; /* copies of sockets in their handshake, or -1 */
    uint64_t handshake_turn[PS_MAX_HANDSHAKES], next_turn; /* which is the oldest */
    uint32_t handshake_count;
    pthread_t acceptor;

    /* keeper: workers that vanished */
    pthread_mutex_t keeper_lock;
    pthread_cond_t keeper_wake;
    int keeper_kicked, keeper_stop;
    pthread_t keeper;

    /* writer of checkpoints */
    pthread_mutex_t writer_lock;
    pthread_cond_t writer_wake;
    struct ps_ckpt *writer_queue, **writer_end;
    int writer_stop;
    pthread_t writer;
};

/* The job with one more reference, or NULL. */
ps_job_t *ps_params_find_job(ps_params_t *ps, const char *name);

/* Accepts connections until ps_accept_stop. */
gb_status_t ps_accept_start(ps_params_t *ps);
void ps_accept_stop(ps_params_t *ps);

/* Makes workers leave whose connection went and did not come back within the grace. */
gb_status_t ps_keeper_start(ps_params_t *ps);
void ps_keeper_stop(ps_params_t *ps);
void ps_keeper_kick(ps_params_t *ps);

#endif
