/* What a worker's requests do to an owner's chunks. */
#include "server/params/ps_requests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_log.h"

enum { PS_MAX_WAITERS = 4 * PS_MAX_WORKERS };

static ps_chunk_t *find_chunk(ps_view_t *view, uint32_t id)
{
    if (!view->index || id >= view->job->plan.chunk_count || view->index[id] == UINT32_MAX)
        return NULL;
    return &view->chunks[view->index[id]];
}

/* ---- serving ---- */

static void send_weights(ps_conn_t *conn, uint16_t operation, uint32_t sequence,
                         const ps_chunk_t *chunk)
{
    gbx_chunk_head_t head = {
        .chunk = chunk->id, .clock = chunk->version, .values = chunk->elements};
    ps_conn_reply(conn, operation, sequence, &head, chunk->weights);
    atomic_fetch_add_explicit(&conn->job->bytes_pulled, (uint64_t)chunk->elements * sizeof(float),
                              memory_order_relaxed);
}

static void serve(ps_chunk_t *chunk)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < chunk->waiter_count; i++) {
        const ps_waiter_t *waiter = &chunk->waiters[i];
        if (chunk->ready && waiter->version <= chunk->version)
            send_weights(waiter->who, waiter->operation, waiter->sequence, chunk);
        else
            chunk->waiters[kept++] = *waiter;
    }
    chunk->waiter_count = kept;
}

static void step(ps_view_t *view, ps_chunk_t *chunk)
{
    int stepped = ps_chunk_step(chunk, &view->members, &view->job->optimizer);
    if (stepped < 0) {
        gb_log(GB_LOG_ERROR, "job %s: out of memory for a new version of chunk %u", view->job->name,
               chunk->id);
        ps_view_notify_all(view, GBX_LOST, "the shard is out of memory");
    } else if (stepped > 0) {
        ps_view_stepped(view, chunk);
        serve(chunk);
    }
}

/* Nobody is left who could make the version that these wait for. */
static void refuse_orphans(ps_view_t *view, ps_chunk_t *chunk)
{
    const ps_segment_t *segment = ps_members_at(&view->members, chunk->version);
    if (!chunk->ready || (segment && segment->count > 0))
        return;
    for (uint32_t i = 0; i < chunk->waiter_count; i++)
        ps_conn_error(chunk->waiters[i].who, chunk->waiters[i].operation,
                      chunk->waiters[i].sequence, GBX_EVICTED,
                      "no worker is left in the job to make the weights that were asked for");
    chunk->waiter_count = 0;
}

void ps_view_step_all(ps_view_t *view)
{
    for (uint32_t c = 0; c < view->chunk_count; c++) {
        step(view, &view->chunks[c]);
        refuse_orphans(view, &view->chunks[c]);
    }
}

/* ---- pulls ---- */

/* 1 if the worker waits for a version that needs a push which it has not made: in a barrier it would
 * wait for ever. */
static int waits_for_itself(const ps_view_t *view, const ps_chunk_t *chunk, uint32_t worker,
                            uint64_t version)
{
    if (!chunk->ready || version <= chunk->version)
        return 0;
    if (!ps_segment_has(ps_members_at(&view->members, version - 1), worker))
        return 0;
    if (version > chunk->version + 1)
        return 1;
    for (uint32_t i = 0; i < chunk->slot_count; i++) {
        if (chunk->slots[i].worker == worker)
            return chunk->slots[i].state == PS_SLOT_EMPTY;
    }
    return 1;
}

static void pull(ps_view_t *view, ps_conn_t *conn, ps_chunk_t *chunk, uint64_t version)
{
    uint16_t operation = conn->frame.operation;
    uint32_t sequence = conn->frame.sequence;
    char why[160];
    if (chunk->ready && version <= chunk->version) {
        send_weights(conn, operation, sequence, chunk);
        return;
    }
    if (waits_for_itself(view, chunk, conn->hello.worker, version)) {
        snprintf(why, sizeof(why),
                 "weights of clock %llu were asked for before a gradient of clock %llu was pushed",
                 (unsigned long long)version, (unsigned long long)version - 1);
        ps_conn_error(conn, operation, sequence, GBX_REFUSED, why);
        return;
    }
    ps_waiter_t waiter = {.who = conn,
                          .version = version,
                          .sequence = sequence,
                          .worker = conn->hello.worker,
                          .operation = operation};
    if (chunk->waiter_count >= PS_MAX_WAITERS || ps_chunk_wait(chunk, &waiter) != GB_OK)
        ps_conn_error(conn, operation, sequence, GBX_LOST, "too many pulls wait at the shard");
    else
        refuse_orphans(view, chunk);
}

/* ---- pushes ---- */

static void refuse_push(ps_conn_t *conn, const ps_chunk_t *chunk, ps_push_verdict_t verdict)
{
    char why[160];
    gbx_poison_t code = GBX_REFUSED;
    conn->refused = 1;
    switch (verdict) {
    case PS_PUSH_STRANGER:
        code = GBX_EVICTED;
        snprintf(why, sizeof(why), "this worker is no member of the job at clock %llu",
                 (unsigned long long)conn->chunk.clock);
        break;
    case PS_PUSH_AHEAD:
        snprintf(why, sizeof(why), "a gradient of clock %llu was pushed, the weights are at %llu",
                 (unsigned long long)conn->chunk.clock, (unsigned long long)chunk->version);
        break;
    case PS_PUSH_UNREADY:
        snprintf(why, sizeof(why), "a gradient was pushed before the weights had initial values");
        break;
    default:
        code = GBX_LOST;
        snprintf(why, sizeof(why), "the shard is out of memory");
        break;
    }
    ps_conn_error(conn, conn->frame.operation, conn->frame.sequence, code, why);
}

static void begin_push(ps_view_t *view, ps_conn_t *conn, ps_chunk_t *chunk, uint8_t **into)
{
    float *data = NULL;
    ps_push_verdict_t verdict =
        ps_chunk_push_begin(chunk, &view->members, conn->hello.worker, conn->chunk.clock, &data);
    switch (verdict) {
    case PS_PUSH_TAKE:
        conn->receiving = 1;
        *into = (uint8_t *)data;
        break;
    case PS_PUSH_REPEAT:
        conn->chunk.repeat = 1;
        atomic_fetch_add_explicit(&view->job->repeats, 1, memory_order_relaxed);
        break;
    default:
        refuse_push(conn, chunk, verdict);
        break;
    }
}

static void end_push(ps_view_t *view, ps_conn_t *conn, ps_chunk_t *chunk)
{
    ps_job_t *job = view->job;
    int fresh = conn->receiving;
    uint64_t clock = conn->chunk.clock;
    if (fresh) {
        conn->receiving = 0;
        ps_chunk_push_end(chunk, conn->hello.worker, conn->chunk.samples);
        atomic_fetch_add_explicit(&job->pushes, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&job->bytes_pushed, (uint64_t)chunk->elements * sizeof(float),
                                  memory_order_relaxed);
    }
    if (conn->frame.operation == GBX_OP_PUSH_PULL) {
        pull(view, conn, chunk, clock + 1);
    } else {
        gbx_chunk_head_t head = conn->chunk;
        ps_conn_reply(conn, GBX_OP_PUSH, conn->frame.sequence, &head, NULL);
    }
    if (fresh)
        step(view, chunk);
}

/* ---- initial weights ---- */

/* Weights that were given stay once anybody has computed with them. */
static int init_open(const ps_chunk_t *chunk)
{
    return chunk->version == 0 && chunk->slot_count == 0;
}

static void begin_init(ps_view_t *view, ps_conn_t *conn, ps_chunk_t *chunk, uint8_t **into)
{
    if (view->ready || !init_open(chunk))
        return;
    if (!ps_buf_mine(chunk->weights)) {
        ps_buf_t *fresh = ps_buf_new(chunk->elements);
        if (!fresh) {
            refuse_push(conn, chunk, PS_PUSH_NO_MEMORY);
            return;
        }
        ps_buf_unref(chunk->weights);
        chunk->weights = fresh;
    }
    chunk->ready = 0;
    conn->receiving = 1;
    *into = (uint8_t *)chunk->weights->data;
}

static void end_init(ps_conn_t *conn, ps_chunk_t *chunk)
{
    if (conn->receiving) {
        conn->receiving = 0;
        chunk->ready = 1;
    }
    gbx_chunk_head_t head = conn->chunk;
    ps_conn_reply(conn, GBX_OP_INIT, conn->frame.sequence, &head, NULL);
    serve(chunk);
}

/* ---- frames with a chunk head ---- */

gb_status_t ps_view_chunk_begin(ps_view_t *view, ps_conn_t *conn, uint8_t **into)
{
    ps_chunk_t *chunk = find_chunk(view, conn->chunk.chunk);
    uint32_t data = conn->frame.length - GBX_CHUNK_HEAD;
    if (!chunk)
        return gb_fail(GB_ERR_PROTOCOL, "chunk %u is not held by this thread", conn->chunk.chunk);
    uint32_t expected = conn->frame.operation == GBX_OP_PULL ? 0 : chunk->elements * 4;
    if (data != expected)
        return gb_fail(GB_ERR_PROTOCOL, "chunk %u came with %u bytes instead of %u", chunk->id,
                       data, expected);
    if (conn->frame.operation == GBX_OP_INIT)
        begin_init(view, conn, chunk, into);
    else if (conn->frame.operation != GBX_OP_PULL)
        begin_push(view, conn, chunk, into);
    return GB_OK;
}

void ps_view_chunk_end(ps_view_t *view, ps_conn_t *conn)
{
    ps_chunk_t *chunk = find_chunk(view, conn->chunk.chunk);
    if (conn->refused || !chunk)
        return;
    if (conn->frame.operation == GBX_OP_INIT)
        end_init(conn, chunk);
    else if (conn->frame.operation == GBX_OP_PULL)
        pull(view, conn, chunk, conn->chunk.clock);
    else
        end_push(view, conn, chunk);
}

/* ---- model and claims ---- */

static int mine(const ps_view_t *view, uint32_t c)
{
    const gbx_plan_chunk_t *chunk = &view->job->plan.chunks[c];
    return chunk->shard == view->job->shard && chunk->owner == view->owner->index;
}

static gb_status_t make_chunks(ps_view_t *view)
{
    const gbx_plan_t *plan = &view->job->plan;
    uint32_t count = 0;
    for (uint32_t c = 0; c < plan->chunk_count; c++)
        count += (uint32_t)mine(view, c);
    uint32_t *index = malloc(plan->chunk_count * sizeof(*index));
    view->chunks = calloc(count + 1, sizeof(*view->chunks));
    if (!index || !view->chunks) {
        free(index);
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    }
    gb_status_t st = GB_OK;
    for (uint32_t c = 0; c < plan->chunk_count && st == GB_OK; c++) {
        index[c] = UINT32_MAX;
        if (!mine(view, c))
            continue;
        ps_chunk_t *chunk = &view->chunks[view->chunk_count];
        st = ps_chunk_init(chunk, c, plan->chunks[c].values);
        if (st != GB_OK)
            break;
        index[c] = view->chunk_count++;
        if (view->job->restore)
            st = ps_ckpt_load_chunk(view->job, chunk);
    }
    if (st != GB_OK) {
        while (view->chunk_count > 0)
            ps_chunk_clear(&view->chunks[--view->chunk_count]);
        free(view->chunks);
        view->chunks = NULL;
        free(index);
        return st;
    }
    view->index = index;
    view->ready = view->job->restore != NULL;
    ps_view_declared(view);
    return GB_OK;
}

static void declare(ps_view_t *view, ps_conn_t *conn, const void *payload)
{
    gb_status_t st = ps_job_declare(view->job, payload, conn->frame.length, conn->hello.shard,
                                    conn->hello.shards);
    if (st == GB_OK && !view->index)
        st = make_chunks(view);
    if (st != GB_OK)
        ps_conn_error(conn, GBX_OP_DECLARE, conn->frame.sequence, GBX_REFUSED, gb_why());
    else
        ps_conn_reply_small(conn, GBX_OP_DECLARE, conn->frame.sequence, NULL, 0);
}

static void answer_claim(ps_view_t *view, ps_conn_t *conn, uint32_t sequence, int give)
{
    uint8_t payload[16] = {(uint8_t)give};
    uint64_t clock = view->chunk_count ? view->chunks[0].version : 0;
    memcpy(payload + 8, &clock, sizeof(clock));
    if (give)
        view->claimer = conn;
    ps_conn_reply_small(conn, GBX_OP_CLAIM, sequence, payload, sizeof(payload));
}

static void claim(ps_view_t *view, ps_conn_t *conn)
{
    if (view->ready || !view->claimer || view->claimer == conn) {
        answer_claim(view, conn, conn->frame.sequence, !view->ready);
        return;
    }
    if (view->claim_count == view->claim_cap) {
        uint32_t cap = view->claim_cap ? view->claim_cap * 2 : 8;
        ps_waiter_t *grown = realloc(view->claims, cap * sizeof(*grown));
        if (!grown) {
            ps_conn_error(conn, GBX_OP_CLAIM, conn->frame.sequence, GBX_LOST, "out of memory");
            return;
        }
        view->claims = grown;
        view->claim_cap = cap;
    }
    view->claims[view->claim_count++] =
        (ps_waiter_t){.who = conn, .sequence = conn->frame.sequence};
}

static void ready(ps_view_t *view, ps_conn_t *conn)
{
    if (view->claimer == conn) {
        view->claimer = NULL;
        view->ready = 1;
        for (uint32_t i = 0; i < view->claim_count; i++)
            answer_claim(view, view->claims[i].who, view->claims[i].sequence, 0);
        view->claim_count = 0;
    }
    ps_conn_reply_small(conn, GBX_OP_READY, conn->frame.sequence, NULL, 0);
}

void ps_view_request(ps_view_t *view, ps_conn_t *conn, const void *payload)
{
    if (conn->frame.operation == GBX_OP_DECLARE)
        declare(view, conn, payload);
    else if (!view->index || view->owner->index != 0 || view->job->shard != 0)
        ps_conn_kill(conn, PS_GONE_LOST, "claimed the initial weights where it cannot");
    else if (conn->frame.operation == GBX_OP_CLAIM)
        claim(view, conn);
    else
        ready(view, conn);
}

/* ---- the end of a connection ---- */

static void drop_claims(ps_view_t *view, const ps_conn_t *conn)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < view->claim_count; i++) {
        if (view->claims[i].who != conn)
            view->claims[kept++] = view->claims[i];
    }
    view->claim_count = kept;
    if (view->claimer != conn)
        return;
    view->claimer = NULL;
    if (view->claim_count > 0) {
        ps_waiter_t next = view->claims[0];
        memmove(view->claims, view->claims + 1, --view->claim_count * sizeof(next));
        answer_claim(view, next.who, next.sequence, 1);
    }
}

void ps_view_conn_gone(ps_view_t *view, ps_conn_t *conn)
{
    if (conn->receiving) {
        ps_chunk_t *chunk = find_chunk(view, conn->chunk.chunk);
        conn->receiving = 0;
        if (conn->frame.operation != GBX_OP_INIT && chunk &&
            ps_chunk_push_abort(chunk, conn->hello.worker))
            atomic_fetch_add_explicit(&view->job->dropped_halves, 1, memory_order_relaxed);
    }
    for (uint32_t c = 0; c < view->chunk_count; c++) {
        ps_chunk_t *chunk = &view->chunks[c];
        uint32_t kept = 0;
        for (uint32_t i = 0; i < chunk->waiter_count; i++) {
            if (chunk->waiters[i].who != conn)
                chunk->waiters[kept++] = chunk->waiters[i];
        }
        chunk->waiter_count = kept;
    }
    drop_claims(view, conn);
}
