/* After a cut: new connections, then everything that is not done is sent again.
 *
 * That is exact as long as the gradients are still in their buffers, and they are: the program's stream
 * is held by the gate of the next pull or fence. What the shard has already, it acknowledges only. */
#include <stdlib.h>
#include <time.h>

#include "common/core/gb_log.h"
#include "server/client/gbx_engine.h"

enum {
    GBX_REPAIR_MS = 5000, /* the shard itself gives up on a worker much earlier */
    GBX_RETRY_MS = 20,
    GBX_MAX_BARREN = 16, /* cuts in a row without anything done in between */
};

/* Control calls and initial weights cannot be repaired: what they claimed went with the connection. */
static int repairable(gbx_engine_t *engine)
{
    pthread_mutex_lock(&engine->lock);
    int mail = engine->mail_left > 0;
    pthread_mutex_unlock(&engine->lock);
    unsigned done = atomic_load(&engine->done), sent = atomic_load(&engine->sent);
    /* the one being handled is not counted in `sent` yet */
    for (unsigned i = done; i != sent + 1 && i != atomic_load(&engine->head); i++) {
        if (engine->ring[i % GBX_RING].kind == GBX_REQ_INIT)
            return 0;
    }
    engine->barren = done == engine->cut_done ? engine->barren + 1 : 0;
    engine->cut_done = done;
    return engine->tensors && !mail && engine->barren < GBX_MAX_BARREN;
}

static gb_status_t redeclare(gbx_engine_t *engine, gbx_lane_t *lane, const uint8_t *plan,
                             uint32_t size, uint64_t deadline)
{
    uint8_t head[GB_FRAME_HEADER];
    gb_frame_t frame;
    gb_status_t st = gbx_lane_send(lane, GBX_OP_DECLARE, 0, NULL, plan, size);
    if (st == GB_OK)
        st = gb_link_recv(lane->link, head, sizeof(head), deadline);
    if (st == GB_OK)
        st = gb_frame_decode(head, GBX_MAX_ERROR, &frame);
    if (st == GB_OK && (frame.operation != GBX_OP_DECLARE || frame.flags & GB_FRAME_ERROR))
        st = gb_fail(GB_ERR_INVALID, "the shard does not take job %s up again", engine->config.job);
    return st;
}

static gb_status_t connect_again(gbx_engine_t *engine, uint64_t deadline)
{
    uint32_t lanes = engine->lane_count, size;
    uint8_t *plan;
    gbx_disconnect(engine);
    gb_status_t st = gbx_connect(engine, deadline);
    if (st == GB_OK && engine->lane_count != lanes && lanes > 0)
        st = gb_fail(GB_ERR_INVALID, "the shards have other owner threads than before");
    if (st == GB_OK)
        st = gbx_plan_encode(&engine->plan, &plan, &size);
    if (st != GB_OK)
        return st;
    for (uint32_t i = 0; i < engine->lane_count && st == GB_OK; i++)
        st = redeclare(engine, &engine->lanes[i], plan, size, deadline);
    free(plan);
    return st;
}

static int worth_a_retry(gb_status_t st)
{
    return st == GB_ERR_LOST || st == GB_ERR_BUSY || st == GB_ERR_LIMIT || st == GB_ERR_IO;
}

static gbx_poison_t poison_of(gb_status_t st)
{
    switch (st) {
    case GB_ERR_CANCELLED:
        return GBX_GENERATION;
    case GB_ERR_NOT_FOUND:
    case GB_ERR_UNAUTHORISED:
    case GB_ERR_INVALID:
        return GBX_REFUSED;
    default:
        return GBX_LOST;
    }
}

/* ---- sending again ---- */

/* The sender may be waiting for the program's stream, which waits for a gate of ours: so what was sent
 * before is sent again from here, by way of the receiver's stream and stage. */
static gb_status_t send_again(gbx_engine_t *engine, const gbx_request_t *request, uint32_t sequence,
                              uint32_t chunk)
{
    const gbx_chunk_t *c = &engine->chunks[chunk];
    gbx_chunk_head_t head = gbx_request_head(engine, request, chunk);
    gbx_stage_t *stage = &engine->in_stages[engine->in_next++ % GBX_STAGES];
    int data = request->kind != GBX_REQ_PULL;
    if (data) {
        if (stage->busy &&
            !gbx_cuda_ok(engine, engine->cuda->cuEventSynchronize(stage->copied), "copy in"))
            return GB_ERR_INTERNAL;
        stage->busy = 0;
        if (!gbx_copy_out(engine, engine->in_stream, chunk, 0, stage) ||
            !gbx_cuda_ok(engine, engine->cuda->cuEventSynchronize(stage->copied), "copy out"))
            return GB_ERR_INTERNAL;
    }
    return gbx_lane_send(&engine->lanes[c->lane], gbx_request_operation(request), sequence, &head,
                         data ? stage->host : NULL, data ? c->values * 4 : 0);
}

/* Everything that was sent and is not done. What the sender has in hand it begins again itself. */
static gb_status_t turn_back(gbx_engine_t *engine)
{
    unsigned done = atomic_load(&engine->done), sent = atomic_load(&engine->sent);
    unsigned head = atomic_load(&engine->head);
    gb_status_t st = GB_OK;
    for (unsigned i = done; i != head; i++) {
        gbx_request_t *request = &engine->ring[i % GBX_RING];
        atomic_store(&request->remaining, request->chunk_hi - request->chunk_lo);
    }
    for (unsigned i = done; i != sent && st == GB_OK; i++) {
        const gbx_request_t *request = &engine->ring[i % GBX_RING];
        for (uint32_t c = request->chunk_hi; c > request->chunk_lo && st == GB_OK; c--)
            st = send_again(engine, request, i, c - 1);
    }
    return st;
}

static void end_repair(gbx_engine_t *engine)
{
    pthread_mutex_lock(&engine->lock);
    atomic_fetch_add(&engine->epoch, 1);
    atomic_store(&engine->cut, 0);
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->lock);
}

static gb_status_t repair_once(gbx_engine_t *engine, uint64_t deadline)
{
    gb_status_t st = connect_again(engine, deadline);
    return st == GB_OK ? turn_back(engine) : st;
}

void gbx_repair(gbx_engine_t *engine)
{
    uint64_t deadline = gb_now_ns() + (uint64_t)GBX_REPAIR_MS * 1000000u;
    if (!repairable(engine)) {
        gbx_engine_poison(engine, GBX_LOST, "the connection to the parameter shard was lost");
        return;
    }
    gb_status_t st = repair_once(engine, deadline);
    while (worth_a_retry(st) && gb_now_ns() < deadline && !gbx_engine_bad(engine) &&
           !atomic_load(&engine->stop)) {
        struct timespec nap = {0, GBX_RETRY_MS * 1000000};
        nanosleep(&nap, NULL);
        st = repair_once(engine, deadline);
    }
    if (st != GB_OK) {
        gbx_engine_poison(engine, poison_of(st), gb_why());
        return;
    }
    gb_log(GB_LOG_INFO, "exchange of job %s: connected again after a cut", engine->config.job);
    end_repair(engine);
}
