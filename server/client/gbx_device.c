/* The engine's device objects, and where the chunks' values are in device memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"
#include "server/client/gbx_engine.h"

enum { GBX_CLOSE_MS = 1000 };

static gb_status_t cuda_status(CUresult result, const char *what)
{
    if (result == CUDA_SUCCESS)
        return GB_OK;
    return gb_fail(result == CUDA_ERROR_OUT_OF_MEMORY ? GB_ERR_NO_MEMORY : GB_ERR_INTERNAL,
                   "CUDA error %d in the exchange: %s", (int)result, what);
}

static gb_status_t make_events(gbx_engine_t *engine, gbx_request_t *request)
{
    const gb_cuda_table_t *cuda = engine->cuda;
    gb_status_t st =
        cuda_status(cuda->cuEventCreate(&request->event, CU_EVENT_DISABLE_TIMING), "event");
    if (st == GB_OK)
        st = cuda_status(cuda->cuEventCreate(&request->passed, CU_EVENT_DISABLE_TIMING), "event");
    return st;
}

gb_status_t gbx_device_open(gbx_engine_t *engine)
{
    const gb_cuda_table_t *cuda = engine->cuda;
    gb_status_t st = cuda_status(cuda->cuCtxGetCurrent(&engine->context), "current context");
    if (st == GB_OK && !engine->context)
        st = gb_fail(GB_ERR_INVALID, "an exchange needs a current CUDA context");
    if (st == GB_OK)
        st = cuda_status(cuda->cuStreamCreate(&engine->out_stream, CU_STREAM_NON_BLOCKING),
                         "stream");
    if (st == GB_OK)
        st =
            cuda_status(cuda->cuStreamCreate(&engine->in_stream, CU_STREAM_NON_BLOCKING), "stream");
    if (st == GB_OK)
        st = cuda_status(cuda->cuMemAlloc_v2(&engine->gate, 4), "gate");
    if (st == GB_OK)
        st = cuda_status(cuda->cuMemsetD32_v2(engine->gate, 0, 1), "gate");
    for (uint32_t i = 0; i < GBX_RING && st == GB_OK; i++)
        st = make_events(engine, &engine->ring[i]);
    if (st != GB_OK)
        gbx_device_close(engine);
    return st;
}

static gb_status_t make_stage(gbx_engine_t *engine, gbx_stage_t *stage, size_t bytes)
{
    void *host = NULL;
    gb_status_t st = cuda_status(
        engine->cuda->cuMemHostAlloc(&host, bytes, CU_MEMHOSTALLOC_PORTABLE), "staging");
    if (st != GB_OK)
        return st;
    memset(host, 0, bytes);
    stage->host = host;
    return cuda_status(engine->cuda->cuEventCreate(&stage->copied, CU_EVENT_DISABLE_TIMING),
                       "event");
}

gb_status_t gbx_device_stage(gbx_engine_t *engine)
{
    gb_status_t st = GB_OK;
    size_t bytes = (size_t)engine->chunk_values * 4;
    for (int i = 0; i < GBX_STAGES && st == GB_OK; i++) {
        st = make_stage(engine, &engine->out_stages[i], bytes);
        if (st == GB_OK)
            st = make_stage(engine, &engine->in_stages[i], bytes);
    }
    return st;
}

static void free_stage(gbx_engine_t *engine, gbx_stage_t *stage)
{
    if (stage->copied)
        engine->cuda->cuEventDestroy_v2(stage->copied);
    if (stage->host)
        engine->cuda->cuMemFreeHost(stage->host);
    memset(stage, 0, sizeof(*stage));
}

/* 1 if nothing on the device looks at our objects any more. */
static int idle(const gbx_engine_t *engine)
{
    const gb_cuda_table_t *cuda = engine->cuda;
    if (engine->in_stream && cuda->cuStreamQuery(engine->in_stream) == CUDA_ERROR_NOT_READY)
        return 0;
    if (engine->out_stream && cuda->cuStreamQuery(engine->out_stream) == CUDA_ERROR_NOT_READY)
        return 0;
    for (uint32_t i = 0; i < GBX_RING; i++) {
        /* A stream that has not seen the open gate yet still reads it. */
        if (engine->ring[i].passed &&
            cuda->cuEventQuery(engine->ring[i].passed) == CUDA_ERROR_NOT_READY)
            return 0;
    }
    return 1;
}

/* A kernel of the program may run for ever: that must not keep the session from ending. */
static int wait_idle(const gbx_engine_t *engine)
{
    const struct timespec nap = {0, 200000};
    uint64_t end = gb_now_ns() + (uint64_t)GBX_CLOSE_MS * 1000000u;
    while (!idle(engine)) {
        if (gb_now_ns() > end)
            return 0;
        nanosleep(&nap, NULL);
    }
    return 1;
}

static void free_events(gbx_engine_t *engine, gbx_request_t *request)
{
    if (request->event)
        engine->cuda->cuEventDestroy_v2(request->event);
    if (request->passed)
        engine->cuda->cuEventDestroy_v2(request->passed);
    request->event = request->passed = NULL;
}

void gbx_device_close(gbx_engine_t *engine)
{
    const gb_cuda_table_t *cuda = engine->cuda;
    if (!wait_idle(engine)) {
        gb_log(GB_LOG_WARN, "exchange of job %s: the device is still busy with its buffers",
               engine->config.job);
        return;
    }
    for (int i = 0; i < GBX_STAGES; i++) {
        free_stage(engine, &engine->out_stages[i]);
        free_stage(engine, &engine->in_stages[i]);
    }
    for (uint32_t i = 0; i < GBX_RING; i++)
        free_events(engine, &engine->ring[i]);
    if (engine->gate)
        cuda->cuMemFree_v2(engine->gate);
    if (engine->in_stream)
        cuda->cuStreamDestroy_v2(engine->in_stream);
    if (engine->out_stream)
        cuda->cuStreamDestroy_v2(engine->out_stream);
    engine->gate = 0;
    engine->in_stream = engine->out_stream = NULL;
}

/* ---- requests and chunks ---- */

int gbx_copy_out(gbx_engine_t *engine, CUstream stream, uint32_t chunk, int weights,
                 gbx_stage_t *stage)
{
    const gbx_chunk_t *c = &engine->chunks[chunk];
    for (uint32_t i = 0; i < c->segments; i++) {
        const gbx_segment_t *s = &engine->segments[c->first_segment + i];
        CUresult r = engine->cuda->cuMemcpyDtoHAsync_v2(stage->host + (size_t)s->chunk_at * 4,
                                                        weights ? s->weights : s->gradients,
                                                        (size_t)s->values * 4, stream);
        if (!gbx_cuda_ok(engine, r, "copy from the device"))
            return 0;
    }
    return gbx_cuda_ok(engine, engine->cuda->cuEventRecord(stage->copied, stream), "event record");
}

uint16_t gbx_request_operation(const gbx_request_t *request)
{
    static const uint16_t operations[] = {[GBX_REQ_PUSH] = GBX_OP_PUSH,
                                          [GBX_REQ_PULL] = GBX_OP_PULL,
                                          [GBX_REQ_PUSH_PULL] = GBX_OP_PUSH_PULL,
                                          [GBX_REQ_FENCE] = 0,
                                          [GBX_REQ_INIT] = GBX_OP_INIT};
    return operations[request->kind];
}

gbx_chunk_head_t gbx_request_head(const gbx_engine_t *engine, const gbx_request_t *request,
                                  uint32_t chunk)
{
    return (gbx_chunk_head_t){.chunk = chunk,
                              .samples = request->samples,
                              .clock = request->clock,
                              .values = engine->chunks[chunk].values};
}

/* ---- segments ---- */

/* 1 if the piece follows the segment in device memory as in the chunk, so that one copy does both. */
static int joins(const gbx_segment_t *last, const gbx_segment_t *next, uint32_t flags)
{
    uint32_t end = last->chunk_at + last->values;
    uint64_t distance = (uint64_t)(next->chunk_at - last->chunk_at) * 4;
    if (end != next->chunk_at && !(flags & GBX_SLAB))
        return 0;
    return last->weights + distance == next->weights &&
           last->gradients + distance == next->gradients;
}

static uint32_t lane_of(const gbx_engine_t *engine, const gbx_plan_chunk_t *chunk)
{
    for (uint32_t i = 0; i < engine->lane_count; i++) {
        if (engine->lanes[i].shard == chunk->shard && engine->lanes[i].owner == chunk->owner)
            return i;
    }
    return 0; /* the plan was made from these very lanes */
}

gb_status_t gbx_device_map(gbx_engine_t *engine)
{
    const gbx_plan_t *plan = &engine->plan;
    gbx_chunk_t *chunks = calloc(plan->chunk_count, sizeof(*chunks));
    gbx_segment_t *segments = calloc(plan->piece_count, sizeof(*segments));
    uint32_t *left = calloc(plan->chunk_count, sizeof(*left));
    if (!chunks || !segments || !left) {
        free(chunks);
        free(segments);
        free(left);
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    }
    uint32_t n = 0, largest = 0;
    for (uint32_t c = 0; c < plan->chunk_count; c++) {
        const gbx_plan_chunk_t *from = &plan->chunks[c];
        chunks[c] = (gbx_chunk_t){
            .lane = lane_of(engine, from), .values = from->values, .first_segment = n};
        largest = from->values > largest ? from->values : largest;
        for (uint32_t p = from->first_piece; p < from->first_piece + from->pieces; p++) {
            const gbx_piece_t *piece = &plan->pieces[p];
            const gbx_tensor_t *tensor = &engine->tensors[piece->tensor];
            gbx_segment_t next = {tensor->weights + piece->tensor_at * 4,
                                  tensor->gradients + piece->tensor_at * 4, piece->chunk_at,
                                  piece->values};
            if (chunks[c].segments > 0 && joins(&segments[n - 1], &next, engine->declare_flags)) {
                segments[n - 1].values = next.chunk_at + next.values - segments[n - 1].chunk_at;
            } else {
                segments[n++] = next;
                chunks[c].segments++;
            }
        }
    }
    free(engine->chunks);
    free(engine->segments);
    free(engine->chunk_left);
    engine->chunks = chunks;
    engine->segments = segments;
    engine->chunk_left = left;
    engine->chunk_values = largest;
    return GB_OK;
}
