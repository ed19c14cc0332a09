/* The sender: gradients out of the device, to the shards, in the order of the requests. */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <unistd.h>

#include "common/core/gb_log.h"
#include "server/client/gbx_engine.h"

static void drain(int fd)
{
    uint64_t count;
    while (read(fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
}

/* Sleeps until there is a request, or poison, or the end. */
static void wait_request(gbx_engine_t *engine, unsigned sent)
{
    struct pollfd p = {.fd = engine->sender_wake, .events = POLLIN};
    /* The caller looks at the flag after it has published: one of us sees the other. */
    atomic_store(&engine->sender_sleeps, 1);
    if (atomic_load(&engine->head) == sent && !atomic_load(&engine->stop))
        poll(&p, 1, -1);
    atomic_store(&engine->sender_sleeps, 0);
    drain(engine->sender_wake);
}

/* Has the chunk's values copied into the stage. */
static int copy_out(gbx_engine_t *engine, uint32_t chunk, int weights, gbx_stage_t *stage)
{
    const gbx_chunk_t *c = &engine->chunks[chunk];
    for (uint32_t i = 0; i < c->segments; i++) {
        const gbx_segment_t *s = &engine->segments[c->first_segment + i];
        CUresult r = engine->cuda->cuMemcpyDtoHAsync_v2(stage->host + (size_t)s->chunk_at * 4,
                                                        weights ? s->weights : s->gradients,
                                                        (size_t)s->values * 4, engine->out_stream);
        if (!gbx_cuda_ok(engine, r, "copy from the device"))
            return 0;
    }
    return gbx_cuda_ok(engine, engine->cuda->cuEventRecord(stage->copied, engine->out_stream),
                       "event record");
}

static int send_chunk(gbx_engine_t *engine, const gbx_request_t *request, uint32_t sequence,
                      uint32_t chunk, const gbx_stage_t *stage)
{
    static const uint16_t operations[] = {[GBX_REQ_PUSH] = GBX_OP_PUSH,
                                          [GBX_REQ_PULL] = GBX_OP_PULL,
                                          [GBX_REQ_PUSH_PULL] = GBX_OP_PUSH_PULL,
                                          [GBX_REQ_INIT] = GBX_OP_INIT};
    const gbx_chunk_t *c = &engine->chunks[chunk];
    gbx_chunk_head_t head = {
        .chunk = chunk, .samples = request->samples, .clock = request->clock, .values = c->values};
    gb_status_t st = gbx_lane_send(&engine->lanes[c->lane], operations[request->kind], sequence,
                                   &head, stage ? stage->host : NULL, stage ? c->values * 4 : 0);
    if (st != GB_OK) {
        gbx_engine_poison(engine, GBX_LOST, gb_why());
        return 0;
    }
    if (stage)
        atomic_fetch_add_explicit(&engine->pushed, (uint64_t)c->values * 4, memory_order_relaxed);
    return 1;
}

/* Chunks go out last first; while one is sent, the next ones are copied. */
static void send_data(gbx_engine_t *engine, const gbx_request_t *request, uint32_t sequence)
{
    int weights = request->kind == GBX_REQ_INIT;
    uint32_t left = request->chunk_hi - request->chunk_lo, copied = 0, sent = 0;
    if (!gbx_cuda_ok(engine, engine->cuda->cuStreamWaitEvent(engine->out_stream, request->event, 0),
                     "stream wait"))
        return;
    while (sent < left && !gbx_engine_bad(engine)) {
        while (copied < left && copied - sent < GBX_STAGES) {
            gbx_stage_t *stage = &engine->out_stages[copied % GBX_STAGES];
            if (!copy_out(engine, request->chunk_hi - 1 - copied, weights, stage))
                return;
            copied++;
        }
        gbx_stage_t *stage = &engine->out_stages[sent % GBX_STAGES];
        if (!gbx_cuda_ok(engine, engine->cuda->cuEventSynchronize(stage->copied), "copy out") ||
            !send_chunk(engine, request, sequence, request->chunk_hi - 1 - sent, stage))
            return;
        sent++;
    }
}

static void send_pulls(gbx_engine_t *engine, const gbx_request_t *request, uint32_t sequence)
{
    uint32_t lo = request->chunk_lo;
    for (uint32_t c = request->chunk_hi; c > lo; c--) {
        if (!send_chunk(engine, request, sequence, c - 1, NULL))
            return;
    }
}

static void handle(gbx_engine_t *engine, uint32_t sequence)
{
    const gbx_request_t *request = &engine->ring[sequence % GBX_RING];
    if (gbx_engine_bad(engine) || request->chunk_lo == request->chunk_hi)
        return;
    if (request->kind == GBX_REQ_PULL)
        send_pulls(engine, request, sequence);
    else
        send_data(engine, request, sequence);
}

void *gbx_sender_run(void *arg)
{
    gbx_engine_t *engine = arg;
    gbx_cuda_ok(engine, engine->cuda->cuCtxSetCurrent(engine->context), "context");
    while (!atomic_load(&engine->stop)) {
        unsigned sent = atomic_load(&engine->sent);
        if (atomic_load(&engine->head) == sent) {
            wait_request(engine, sent);
            continue;
        }
        handle(engine, sent);
        /* The receiver completes nothing that we still look at. If it saw the last reply before this
         * store, it must be woken; it looks at `sent` after it has counted a reply, we look at the
         * count after the store: one of us sees the other. */
        atomic_store(&engine->sent, sent + 1);
        if (gbx_engine_bad(engine) || atomic_load(&engine->ring[sent % GBX_RING].remaining) == 0)
            gbx_wake(engine->receiver_wake);
    }
    return NULL;
}
