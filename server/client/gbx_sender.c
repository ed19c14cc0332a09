/* The sender: gradients out of the device, to the shards, in the order of the requests.
 *
 * Nothing of a request is sent before the program's stream has come to it. So once a pull is under way
 * every earlier gate of that stream has been passed, and the receiver's stream never waits for an event
 * that waits for a gate behind it. */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <unistd.h>

#include "server/client/gbx_engine.h"

static void drain(int fd)
{
    uint64_t count;
    while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
}

/* Sleeps until there is a request, a cut, poison, or the end. */
static void wait_request(gbx_engine_t *engine, unsigned sent)
{
    struct pollfd p = {.fd = engine->sender_wake, .events = POLLIN};
    /* The caller looks at the flag after it has published: one of us sees the other. */
    atomic_store(&engine->sender_sleeps, 1);
    if (atomic_load(&engine->head) == sent && !atomic_load(&engine->stop) &&
        !atomic_load(&engine->cut))
        poll(&p, 1, -1);
    atomic_store(&engine->sender_sleeps, 0);
    drain(engine->sender_wake);
}

static int send_chunk(gbx_engine_t *engine, unsigned epoch, const gbx_request_t *request,
                      uint32_t sequence, uint32_t chunk, const gbx_stage_t *stage)
{
    const gbx_chunk_t *c = &engine->chunks[chunk];
    gbx_chunk_head_t head = gbx_request_head(engine, request, chunk);
    gb_status_t st =
        gbx_lane_send_in(engine, epoch, &engine->lanes[c->lane], gbx_request_operation(request),
                         sequence, &head, stage ? stage->host : NULL, stage ? c->values * 4 : 0);
    if (st == GB_ERR_LOST)
        gbx_engine_cut(engine);
    else if (st != GB_OK && st != GB_ERR_CANCELLED)
        gbx_engine_poison(engine, GBX_LOST, gb_why());
    if (st == GB_OK && stage)
        atomic_fetch_add_explicit(&engine->pushed, (uint64_t)c->values * 4, memory_order_relaxed);
    return st == GB_OK;
}

/* Chunks go out last first; while one is sent, the next ones are copied. */
static void send_data(gbx_engine_t *engine, unsigned epoch, const gbx_request_t *request,
                      uint32_t sequence)
{
    int weights = request->kind == GBX_REQ_INIT;
    uint32_t hi = request->chunk_hi, left = hi - request->chunk_lo, copied = 0, sent = 0;
    if (!gbx_cuda_ok(engine, engine->cuda->cuStreamWaitEvent(engine->out_stream, request->event, 0),
                     "stream wait"))
        return;
    while (sent < left && !gbx_engine_halted(engine)) {
        while (copied < left && copied - sent < GBX_STAGES) {
            gbx_stage_t *stage = &engine->out_stages[copied % GBX_STAGES];
            if (!gbx_copy_out(engine, engine->out_stream, hi - 1 - copied, weights, stage))
                return;
            copied++;
        }
        gbx_stage_t *stage = &engine->out_stages[sent % GBX_STAGES];
        if (!gbx_cuda_ok(engine, engine->cuda->cuEventSynchronize(stage->copied), "copy out") ||
            !send_chunk(engine, epoch, request, sequence, hi - 1 - sent, stage))
            return;
        sent++;
    }
}

static void send_pulls(gbx_engine_t *engine, unsigned epoch, const gbx_request_t *request,
                       uint32_t sequence)
{
    uint32_t lo = request->chunk_lo;
    if (!gbx_cuda_ok(engine, engine->cuda->cuEventSynchronize(request->event), "pull"))
        return;
    for (uint32_t c = request->chunk_hi; c > lo; c--) {
        if (!send_chunk(engine, epoch, request, sequence, c - 1, NULL))
            return;
    }
}

static void handle(gbx_engine_t *engine, unsigned epoch, uint32_t sequence)
{
    const gbx_request_t *request = &engine->ring[sequence % GBX_RING];
    if (gbx_engine_bad(engine) || request->chunk_lo == request->chunk_hi)
        return;
    if (request->kind == GBX_REQ_PULL)
        send_pulls(engine, epoch, request, sequence);
    else
        send_data(engine, epoch, request, sequence);
}

/* Out of the way while the receiver repairs the connections. */
static void wait_repair(gbx_engine_t *engine)
{
    pthread_mutex_lock(&engine->lock);
    while (atomic_load(&engine->cut) && !gbx_engine_bad(engine) && !atomic_load(&engine->stop))
        pthread_cond_wait(&engine->changed, &engine->lock);
    pthread_mutex_unlock(&engine->lock);
}

/* Counts the request as sent, unless it must be sent again. */
static void count_sent(gbx_engine_t *engine, unsigned epoch, unsigned sent)
{
    pthread_mutex_lock(&engine->lock);
    int whole = gbx_engine_bad(engine) ||
                (!atomic_load(&engine->cut) && atomic_load(&engine->epoch) == epoch);
    if (whole)
        atomic_store(&engine->sent, sent + 1);
    pthread_mutex_unlock(&engine->lock);
    /* The receiver completes nothing that we still look at. If it saw the last reply before this store,
     * it must be woken; it looks at `sent` after it has counted a reply, we look at the count after the
     * store: one of us sees the other. */
    if (whole &&
        (gbx_engine_bad(engine) || atomic_load(&engine->ring[sent % GBX_RING].remaining) == 0))
        gbx_wake(engine->receiver_wake);
}

void *gbx_sender_run(void *arg)
{
    gbx_engine_t *engine = arg;
    gbx_cuda_ok(engine, engine->cuda->cuCtxSetCurrent(engine->context), "context");
    while (!atomic_load(&engine->stop)) {
        unsigned sent = atomic_load(&engine->sent), epoch = atomic_load(&engine->epoch);
        if (atomic_load(&engine->cut) && !gbx_engine_bad(engine)) {
            wait_repair(engine);
        } else if (atomic_load(&engine->head) == sent) {
            wait_request(engine, sent);
        } else {
            handle(engine, epoch, sent);
            count_sent(engine, epoch, sent);
        }
    }
    return NULL;
}
