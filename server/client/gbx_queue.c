/* What the caller's thread does: fill a slot of the ring, make its stream wait. It is a dispatcher's
 * thread: no lock, no allocation, no waiting. */
#include <string.h>

#include "server/client/gbx_engine.h"
#include "server/client/gbx_queue.h"

static gb_status_t begin(gbx_engine_t *engine, CUstream stream, gbx_request_t **out)
{
    if (gbx_engine_bad(engine))
        return gbx_engine_poisoned(engine);
    if (!engine->tensors)
        return gb_fail(GB_ERR_INVALID, "declare the tensors first");
    unsigned head = atomic_load_explicit(&engine->head, memory_order_relaxed);
    if (head - atomic_load(&engine->done) >= GBX_RING)
        return gb_fail(GB_ERR_BUSY, "%d exchanges are in flight: wait for some of them", GBX_RING);
    gbx_request_t *request = &engine->ring[head % GBX_RING];
    if (!gbx_cuda_ok(engine, engine->cuda->cuEventRecord(request->event, stream), "event record"))
        return gbx_engine_poisoned(engine);
    request->samples = 0;
    request->chunk_lo = request->chunk_hi = 0;
    request->gate = 0;
    request->entered = 0;
    *out = request;
    return GB_OK;
}

/* Publishes the request; a gated one holds the stream until it is complete. */
static gb_status_t publish(gbx_engine_t *engine, CUstream stream, gbx_request_t *request, int gated)
{
    if (gated) {
        if (++engine->gate_issued == 0) /* 0 means "no gate" */
            engine->gate_issued = 1;
        request->gate = engine->gate_issued;
    }
    uint32_t gate = request->gate; /* the slot may be reused once it is published */
    CUevent passed = request->passed;
    atomic_store(&request->remaining, request->chunk_hi - request->chunk_lo);
    atomic_fetch_add(&engine->head, 1);
    if (atomic_load(&engine->sender_sleeps))
        gbx_wake(engine->sender_wake);
    if (gated) {
        const gb_cuda_table_t *cuda = engine->cuda;
        CUresult r =
            cuda->cuStreamWaitValue32_v2(stream, engine->gate, gate, CU_STREAM_WAIT_VALUE_GEQ);
        if (gbx_cuda_ok(engine, r, "stream wait"))
            r = cuda->cuEventRecord(passed, stream);
        if (!gbx_cuda_ok(engine, r, "event record"))
            return gbx_engine_poisoned(engine);
    }
    return GB_OK;
}

static gb_status_t check_range(const gbx_engine_t *engine, uint32_t first, uint32_t count)
{
    if (count == 0 || first >= engine->tensor_count || count > engine->tensor_count - first)
        return gb_fail(GB_ERR_INVALID, "tensors %u to %llu of %u were named", first,
                       (unsigned long long)first + count - 1, engine->tensor_count);
    return GB_OK;
}

/* ---- which chunks a push completes ---- */

static gb_status_t begin_clock(gbx_engine_t *engine, uint64_t clock)
{
    if (engine->push_open > 0 && engine->push_clock == clock)
        return GB_OK;
    if (engine->push_open > 0)
        return gb_fail(GB_ERR_INVALID, "%u tensors were not pushed at clock %llu",
                       engine->push_open, (unsigned long long)engine->push_clock);
    engine->push_clock = clock;
    engine->push_open = engine->tensor_count;
    memset(engine->tensor_pushed, 0, engine->tensor_count);
    for (uint32_t c = 0; c < engine->plan.chunk_count; c++)
        engine->chunk_left[c] = engine->plan.chunks[c].pieces;
    return GB_OK;
}

static void count_tensor(gbx_engine_t *engine, uint32_t tensor, gbx_request_t *request)
{
    const gbx_plan_tensor_t *t = &engine->plan.tensors[tensor];
    engine->tensor_pushed[tensor] = 1;
    engine->push_open--;
    for (uint32_t c = t->first_chunk; c <= t->last_chunk; c++) {
        if (--engine->chunk_left[c] > 0)
            continue;
        if (request->chunk_lo == request->chunk_hi)
            request->chunk_lo = request->chunk_hi = c;
        request->chunk_lo = c < request->chunk_lo ? c : request->chunk_lo;
        request->chunk_hi = c + 1 > request->chunk_hi ? c + 1 : request->chunk_hi;
    }
}

static gb_status_t check_push(gbx_engine_t *engine, uint64_t clock, uint32_t first, uint32_t count)
{
    gb_status_t st = check_range(engine, first, count);
    if (st == GB_OK)
        st = begin_clock(engine, clock);
    for (uint32_t i = first; i < first + count && st == GB_OK; i++) {
        if (engine->tensor_pushed[i])
            st = gb_fail(GB_ERR_INVALID, "tensor %s was pushed twice at clock %llu",
                         engine->tensors[i].name, (unsigned long long)clock);
    }
    return st;
}

/* ---- the calls ---- */

gb_status_t gbx_engine_push(gbx_engine_t *engine, CUstream stream, uint64_t clock, uint32_t samples,
                            uint32_t first, uint32_t count)
{
    gbx_request_t *request;
    gb_status_t st = begin(engine, stream, &request);
    if (st == GB_OK)
        st = check_push(engine, clock, first, count);
    if (st != GB_OK)
        return st;
    for (uint32_t i = first; i < first + count; i++)
        count_tensor(engine, i, request);
    request->kind = GBX_REQ_PUSH;
    request->clock = clock;
    request->samples = samples;
    return publish(engine, stream, request, 0);
}

gb_status_t gbx_engine_pull(gbx_engine_t *engine, CUstream stream, uint64_t version, uint32_t first,
                            uint32_t count)
{
    gbx_request_t *request;
    gb_status_t st = begin(engine, stream, &request);
    if (st == GB_OK)
        st = check_range(engine, first, count);
    if (st != GB_OK)
        return st;
    request->kind = GBX_REQ_PULL;
    request->clock = version;
    request->chunk_lo = engine->plan.tensors[first].first_chunk;
    request->chunk_hi = engine->plan.tensors[first + count - 1].last_chunk + 1;
    return publish(engine, stream, request, 1);
}

gb_status_t gbx_engine_push_pull(gbx_engine_t *engine, CUstream stream, uint64_t clock,
                                 uint32_t samples)
{
    gbx_request_t *request;
    gb_status_t st = begin(engine, stream, &request);
    if (st == GB_OK && engine->push_open > 0)
        st = gb_fail(GB_ERR_INVALID, "%u tensors were not pushed at clock %llu", engine->push_open,
                     (unsigned long long)engine->push_clock);
    if (st != GB_OK)
        return st;
    request->kind = GBX_REQ_PUSH_PULL;
    request->clock = clock;
    request->samples = samples;
    request->chunk_hi = engine->plan.chunk_count;
    return publish(engine, stream, request, 1);
}

gb_status_t gbx_engine_fence(gbx_engine_t *engine, CUstream stream)
{
    gbx_request_t *request;
    gb_status_t st = begin(engine, stream, &request);
    if (st != GB_OK)
        return st;
    request->kind = GBX_REQ_FENCE;
    return publish(engine, stream, request, 1);
}

gb_status_t gbx_engine_give(gbx_engine_t *engine, CUstream stream)
{
    gbx_request_t *request;
    gb_status_t st = begin(engine, stream, &request);
    if (st != GB_OK)
        return st;
    request->kind = GBX_REQ_INIT;
    request->clock = 0;
    request->chunk_hi = engine->plan.chunk_count;
    return publish(engine, stream, request, 0);
}
