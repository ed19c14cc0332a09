/* ps_owner.h - an owner thread: it alone touches its chunks and its connections.
 *
 * One epoll loop per owner. Other threads reach it through tasks only. A worker has a connection per
 * owner, so nothing is handed between threads from the socket to the weights. */
#ifndef PS_OWNER_H
#define PS_OWNER_H

#include <pthread.h>
#include <stdint.h>

#include "common/core/gb_status.h"

struct ps_params;
struct ps_conn;
struct ps_view;

typedef struct ps_owner ps_owner_t;

/* Runs on the owner's thread. */
typedef struct ps_task {
    struct ps_task *next;
    void (*run)(ps_owner_t *owner, struct ps_task *task);
} ps_task_t;

struct ps_owner {
    struct ps_params *ps;
    uint32_t index;
    pthread_t thread;
    int epoll, wake;
    /* inbox */
    pthread_mutex_t lock;
    ps_task_t *inbox, **inbox_end;
    int stopping;
    /* of the thread */
    struct ps_conn *conns; /* all, linked by `next` */
    struct ps_view *views; /* one per job */
    int more;              /* some connection has bytes that epoll does not know of */
    uint64_t next_check;   /* gb_now_ns() of the next look for silent peers */
    uint64_t spin_ns;      /* how long to poll before sleeping; adapts */
};

gb_status_t ps_owner_start(struct ps_params *ps, uint32_t index, ps_owner_t *owner);

/* Ends the thread after the tasks posted before; closes its connections and views. */
void ps_owner_stop(ps_owner_t *owner);

/* The task must stay valid until it has run. */
void ps_owner_post(ps_owner_t *owner, ps_task_t *task);

/* Runs `fn` on every owner thread and waits for all. Never call it from an owner thread. */
void ps_owners_call(struct ps_params *ps, void (*fn)(ps_owner_t *owner, void *arg), void *arg);

#endif
