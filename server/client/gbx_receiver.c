/* The receiver: replies from the shards, weights into the device, completion in the order of issue,
 * pings, and the release of the streams when the exchange is poisoned. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/core/gb_log.h"
#include "server/client/gbx_engine.h"

enum { GBX_SPIN_MAX_NS = 40000, GBX_SPIN_MIN_NS = 2500 };

typedef struct {
    gbx_engine_t *engine;
    uint64_t spin_ns;
    uint64_t next_ping;
} receiver_t;

/* ---- completion ---- */

/* Completes the oldest requests as far as they are done; all of them once there is poison. */
static void complete(gbx_engine_t *engine)
{
    unsigned done = atomic_load(&engine->done), before = done;
    while (done != atomic_load(&engine->sent)) { /* beyond that, the sender looks at them */
        gbx_request_t *request = &engine->ring[done % GBX_RING];
        int bad = gbx_engine_bad(engine);
        if (!bad && atomic_load(&request->remaining) > 0)
            break;
        /* Releasing a stream must not fail silently: with the context gone its streams are too. */
        if (request->gate)
            gbx_cuda_ok(engine,
                        engine->cuda->cuStreamWriteValue32_v2(engine->in_stream, engine->gate,
                                                              request->gate,
                                                              CU_STREAM_WRITE_VALUE_DEFAULT),
                        "stream write");
        if (!bad) {
            int push = request->kind == GBX_REQ_PUSH || request->kind == GBX_REQ_PUSH_PULL;
            int pull = request->kind == GBX_REQ_PULL || request->kind == GBX_REQ_PUSH_PULL;
            atomic_fetch_add(&engine->pushes, (unsigned)push);
            atomic_fetch_add(&engine->pulls, (unsigned)pull);
            uint64_t version = request->clock + (request->kind == GBX_REQ_PUSH_PULL);
            if (pull && version > atomic_load(&engine->clock))
                atomic_store(&engine->clock, version);
        }
        atomic_store(&engine->done, ++done);
    }
    if (done != before && atomic_load(&engine->waiters) > 0) {
        pthread_mutex_lock(&engine->lock);
        pthread_cond_broadcast(&engine->changed);
        pthread_mutex_unlock(&engine->lock);
    }
}

/* ---- replies ---- */

static gb_status_t recv_all(gbx_engine_t *engine, gbx_lane_t *lane, void *to, size_t size)
{
    return gb_link_recv(lane->link, to, size,
                        gb_now_ns() + (uint64_t)engine->config.silence_ms * 1000000u);
}

static gb_status_t take_error(gbx_engine_t *engine, gbx_lane_t *lane, const gb_frame_t *frame)
{
    uint8_t payload[GBX_MAX_ERROR];
    char text[224];
    uint32_t generation;
    if (frame->length > sizeof(payload))
        return gb_fail(GB_ERR_PROTOCOL, "the shard sent an error of %u bytes", frame->length);
    gb_status_t st = recv_all(engine, lane, payload, frame->length);
    if (st != GB_OK)
        return st;
    gbx_poison_t code = gbx_error_decode(payload, frame->length, &generation, text);
    if (code != GBX_LOST)
        atomic_store(&engine->generation, generation);
    gbx_engine_poison(engine, code, text);
    return GB_OK;
}

static gb_status_t take_mail(gbx_engine_t *engine, gbx_lane_t *lane, const gb_frame_t *frame)
{
    uint8_t payload[sizeof(engine->mail)] = {0};
    if (frame->length > sizeof(payload))
        return gb_fail(GB_ERR_PROTOCOL, "the shard sent a reply of %u bytes", frame->length);
    gb_status_t st = recv_all(engine, lane, payload, frame->length);
    if (st != GB_OK)
        return st;
    pthread_mutex_lock(&engine->lock);
    if (engine->mail_operation == frame->operation && engine->mail_left > 0) {
        memcpy(engine->mail, payload, sizeof(payload));
        engine->mail_left--;
        pthread_cond_broadcast(&engine->changed);
    }
    pthread_mutex_unlock(&engine->lock);
    return GB_OK;
}

/* Has the stage's values copied into the device, after the request's event. */
static gb_status_t copy_in(gbx_engine_t *engine, gbx_request_t *request, uint32_t chunk,
                           gbx_stage_t *stage)
{
    const gb_cuda_table_t *cuda = engine->cuda;
    const gbx_chunk_t *c = &engine->chunks[chunk];
    int ok = 1;
    if (!request->entered)
        ok = gbx_cuda_ok(engine, cuda->cuStreamWaitEvent(engine->in_stream, request->event, 0),
                         "stream wait");
    request->entered = 1;
    for (uint32_t i = 0; i < c->segments && ok; i++) {
        const gbx_segment_t *s = &engine->segments[c->first_segment + i];
        ok = gbx_cuda_ok(engine,
                         cuda->cuMemcpyHtoDAsync_v2(s->weights,
                                                    stage->host + (size_t)s->chunk_at * 4,
                                                    (size_t)s->values * 4, engine->in_stream),
                         "copy to the device");
    }
    if (ok)
        ok = gbx_cuda_ok(engine, cuda->cuEventRecord(stage->copied, engine->in_stream),
                         "event record");
    stage->busy = 1;
    return GB_OK;
}

static gb_status_t take_weights(gbx_engine_t *engine, gbx_lane_t *lane, gbx_request_t *request,
                                const gbx_chunk_head_t *head)
{
    gbx_stage_t *stage = &engine->in_stages[engine->in_next++ % GBX_STAGES];
    if (stage->busy &&
        !gbx_cuda_ok(engine, engine->cuda->cuEventSynchronize(stage->copied), "copy in"))
        return GB_OK;
    stage->busy = 0;
    uint32_t bytes = engine->chunks[head->chunk].values * 4;
    gb_status_t st = recv_all(engine, lane, stage->host, bytes);
    if (st != GB_OK)
        return st;
    atomic_fetch_add_explicit(&engine->pulled, bytes, memory_order_relaxed);
    return copy_in(engine, request, head->chunk, stage);
}

/* The request that a reply belongs to, or NULL. */
static gbx_request_t *find_request(gbx_engine_t *engine, const gb_frame_t *frame,
                                   const gbx_chunk_head_t *head)
{
    unsigned done = atomic_load(&engine->done), head_count = atomic_load(&engine->head);
    if (frame->sequence - done >= head_count - done)
        return NULL;
    gbx_request_t *request = &engine->ring[frame->sequence % GBX_RING];
    if (gbx_request_operation(request) != frame->operation || head->chunk < request->chunk_lo ||
        head->chunk >= request->chunk_hi || atomic_load(&request->remaining) == 0)
        return NULL;
    return request;
}

static gb_status_t take_chunk(gbx_engine_t *engine, gbx_lane_t *lane, const gb_frame_t *frame)
{
    uint8_t bytes[GBX_CHUNK_HEAD];
    gbx_chunk_head_t head;
    if (frame->length < sizeof(bytes))
        return gb_fail(GB_ERR_PROTOCOL, "the shard sent a reply that is too short");
    gb_status_t st = recv_all(engine, lane, bytes, sizeof(bytes));
    if (st != GB_OK)
        return st;
    gbx_chunk_head_decode(bytes, &head);
    gbx_request_t *request = find_request(engine, frame, &head);
    if (!request)
        return gb_fail(GB_ERR_PROTOCOL, "the shard answered what nobody asked");
    int data = request->kind == GBX_REQ_PULL || request->kind == GBX_REQ_PUSH_PULL;
    uint32_t expected = data ? engine->chunks[head.chunk].values * 4 : 0;
    if (frame->length - sizeof(bytes) != expected)
        return gb_fail(GB_ERR_PROTOCOL, "the shard sent a chunk of the wrong size");
    if (data)
        st = take_weights(engine, lane, request, &head);
    if (st == GB_OK)
        atomic_fetch_sub(&request->remaining, 1);
    return st;
}

static gb_status_t take_frame(gbx_engine_t *engine, gbx_lane_t *lane)
{
    uint8_t bytes[GB_FRAME_HEADER];
    gb_frame_t frame;
    gb_status_t st = recv_all(engine, lane, bytes, sizeof(bytes));
    if (st == GB_OK)
        st = gb_frame_decode(bytes, GBX_MAX_PLAN_BYTES, &frame);
    if (st != GB_OK)
        return st;
    if (frame.flags & GB_FRAME_ERROR)
        return take_error(engine, lane, &frame);
    switch (frame.operation) {
    case GBX_OP_DECLARE:
    case GBX_OP_CLAIM:
    case GBX_OP_READY:
        return take_mail(engine, lane, &frame);
    case GBX_OP_PUSH:
    case GBX_OP_PULL:
    case GBX_OP_PUSH_PULL:
    case GBX_OP_INIT:
        return take_chunk(engine, lane, &frame);
    case GB_OP_PONG:
        return GB_OK;
    case GB_OP_GOODBYE:
        return gb_fail(GB_ERR_CLOSED, "the shard closed the connection");
    default:
        return gb_fail(GB_ERR_PROTOCOL, "the shard sent operation %u", frame.operation);
    }
}

/* ---- waiting ---- */

static void keep_alive(receiver_t *r)
{
    gbx_engine_t *engine = r->engine;
    uint64_t now = gb_now_ns(), silence = (uint64_t)engine->config.silence_ms * 1000000u;
    if (now < r->next_ping)
        return;
    r->next_ping = now + silence / 4;
    for (uint32_t i = 0; i < engine->lane_count; i++) {
        gbx_lane_t *lane = &engine->lanes[i];
        if (gb_link_heard(lane->link) + silence < now) {
            gbx_engine_poison(engine, GBX_LOST, "the parameter shard was silent for too long");
            return;
        }
        /* If the sender has the lane, the shard hears from it anyway. */
        if (pthread_mutex_trylock(&lane->send_lock) != 0)
            continue;
        uint8_t ping[GB_FRAME_HEADER];
        gb_frame_t frame = {.operation = GB_OP_PING};
        gb_frame_encode(&frame, ping);
        gb_status_t st = gb_link_send(lane->link, ping, sizeof(ping));
        pthread_mutex_unlock(&lane->send_lock);
        if (st != GB_OK) {
            gbx_engine_cut(engine);
            return;
        }
    }
}

/* Number of ready descriptors; polls for a while before it sleeps, as long as that pays off. */
static int wait_ready(receiver_t *r, struct pollfd *fds, nfds_t count)
{
    gbx_engine_t *engine = r->engine;
    int n = poll(fds, count, 0);
    if (n != 0)
        return n;
    int busy = atomic_load(&engine->done) != atomic_load(&engine->head);
    uint64_t end = gb_now_ns() + r->spin_ns;
    while (busy && r->spin_ns > 0 && gb_now_ns() < end) {
        n = poll(fds, count, 0);
        if (n != 0) {
            r->spin_ns = r->spin_ns * 2 < GBX_SPIN_MAX_NS ? r->spin_ns * 2 : GBX_SPIN_MAX_NS;
            return n;
        }
    }
    if (busy && r->spin_ns > GBX_SPIN_MIN_NS)
        r->spin_ns /= 2;
    return poll(fds, count, (int)(engine->config.silence_ms / 4 + 1));
}

static void take_lane(gbx_engine_t *engine, gbx_lane_t *lane)
{
    do {
        gb_status_t st = take_frame(engine, lane);
        if (st == GB_ERR_LOST && !atomic_load(&engine->closing)) {
            gbx_engine_cut(engine);
            return;
        }
        if (st != GB_OK) {
            gbx_engine_poison(engine, GBX_LOST, gb_why());
            return;
        }
        complete(engine);
    } while (!gbx_engine_halted(engine) && gb_link_has_pending(lane->link));
}

static void round_of_lanes(receiver_t *r)
{
    gbx_engine_t *engine = r->engine;
    struct pollfd fds[GBX_MAX_LANES + 1];
    uint32_t count = engine->lane_count;
    fds[0] = (struct pollfd){.fd = engine->receiver_wake, .events = POLLIN};
    for (uint32_t i = 0; i < count; i++)
        fds[i + 1] = (struct pollfd){.fd = gb_link_fd(engine->lanes[i].link), .events = POLLIN};
    if (wait_ready(r, fds, count + 1) > 0) {
        uint64_t wakes;
        if (fds[0].revents && read(engine->receiver_wake, &wakes, sizeof(wakes)) < 0 &&
            errno != EAGAIN)
            gb_log(GB_LOG_WARN, "exchange: eventfd: %d", errno);
        for (uint32_t i = 0; i < count && !gbx_engine_halted(engine); i++) {
            if (fds[i + 1].revents)
                take_lane(engine, &engine->lanes[i]);
        }
    }
    keep_alive(r);
    complete(engine);
}

/* Poisoned: streams that wait are released, also those of requests that slip in late. */
static void wait_poisoned(gbx_engine_t *engine)
{
    struct pollfd p = {.fd = engine->receiver_wake, .events = POLLIN};
    uint64_t wakes;
    complete(engine);
    if (poll(&p, 1, -1) > 0 && read(engine->receiver_wake, &wakes, sizeof(wakes)) < 0)
        return;
}

void *gbx_receiver_run(void *arg)
{
    gbx_engine_t *engine = arg;
    receiver_t r = {.engine = engine,
                    .spin_ns = sysconf(_SC_NPROCESSORS_ONLN) > 1 ? GBX_SPIN_MAX_NS : 0};
    gbx_cuda_ok(engine, engine->cuda->cuCtxSetCurrent(engine->context), "context");
    while (atomic_load(&engine->stop) < 2) {
        if (gbx_engine_bad(engine))
            wait_poisoned(engine);
        else if (atomic_load(&engine->cut))
            gbx_repair(engine);
        else
            round_of_lanes(&r);
    }
    complete(engine);
    return NULL;
}
