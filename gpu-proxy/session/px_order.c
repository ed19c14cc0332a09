/* Who carries transfers out: a worker for each order that has some. */
#include <stdlib.h>

#include "gpu-proxy/session/px_transfer.h"

enum { WORKERS = 1024 }; /* beyond so many, orders wait for each other */

struct px_order {
    px_order_t *next;
    uint64_t order;
    uint32_t lane;
    int taken; /* by a worker */
    px_transfer_t *first, **last;
};

/* ---- with the lock of the peers ---- */

static px_order_t *order_of(px_peers_t *peers, const px_transfer_t *t)
{
    px_order_t **at = &peers->orders;
    while (*at && ((*at)->order != t->order || (*at)->lane != t->lane))
        at = &(*at)->next;
    if (!*at) {
        *at = calloc(1, sizeof(**at));
        if (*at) {
            (*at)->order = t->order;
            (*at)->lane = t->lane;
            (*at)->last = &(*at)->first;
            peers->waiting++;
        }
    }
    return *at;
}

static px_order_t *next_order(px_peers_t *peers)
{
    px_order_t *o = peers->orders;
    while (o && o->taken)
        o = o->next;
    return o;
}

static void end_order(px_peers_t *peers, px_order_t *o)
{
    px_order_t **at = &peers->orders;
    while (*at != o)
        at = &(*at)->next;
    *at = o->next;
    free(o);
}

/* A worker's turn: all that the order has, and gets meanwhile. */
static void serve(px_peers_t *peers, px_order_t *o)
{
    o->taken = 1;
    peers->waiting--;
    while (o->first) {
        px_transfer_t *t = o->first;
        o->first = t->next;
        if (!o->first)
            o->last = &o->first;
        pthread_mutex_unlock(&peers->lock);
        px_transfer_run(t);
        pthread_mutex_lock(&peers->lock);
    }
    end_order(peers, o);
}

static void *work(void *arg)
{
    px_peers_t *peers = arg;
    pthread_mutex_lock(&peers->lock);
    peers->idle--; /* as long as it had not begun it was there for who needs one */
    for (;;) {
        px_order_t *o = next_order(peers);
        if (o) {
            serve(peers, o);
        } else if (peers->over) {
            break;
        } else {
            peers->idle++;
            pthread_cond_wait(&peers->work, &peers->lock);
            peers->idle--;
        }
    }
    peers->workers--;
    pthread_mutex_unlock(&peers->lock);
    px_peers_thread_end(peers);
    return NULL;
}

CUresult px_order_add(px_transfer_t *t)
{
    px_peers_t *peers = t->peer->peers;
    px_order_t *o = order_of(peers, t);
    if (!o)
        return CUDA_ERROR_OUT_OF_MEMORY;
    t->next = NULL;
    *o->last = t;
    o->last = &t->next;
    if (peers->waiting > 0 && peers->idle < peers->waiting && peers->workers < WORKERS) {
        int started = px_peers_thread_locked(peers, work, peers) == GB_OK;
        peers->workers += started;
        peers->idle += started;
    }
    if (peers->workers == 0) { /* so nothing else is in it */
        peers->waiting--;
        end_order(peers, o);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    pthread_cond_signal(&peers->work);
    return CUDA_SUCCESS;
}
