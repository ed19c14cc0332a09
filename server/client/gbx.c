/* The worker's calls: to the engine in this process, or through the shim to the one in the session. */
#include "server/client/gbx.h"

#include <stdlib.h>
#include <string.h>

#include "common/cuda/gb_exchange_abi.h"
#include "server/client/gbx_call.h"
#include "server/client/gbx_engine.h"

struct gbx {
    gbx_engine_t *engine;              /* NULL: remote */
    const gb_exchange_table_t *remote; /* NULL: local */
    uint64_t id;
};

/* ---- remote ---- */

static const gb_exchange_table_t *find_shim(const gb_cuda_table_t *cuda)
{
    const void *table = NULL;
    if (cuda->cuGetExportTable(&table, &gb_exchange_uuid) != CUDA_SUCCESS || !table)
        return NULL;
    const gb_exchange_table_t *exchange = table;
    return exchange->size >= sizeof(*exchange) && exchange->version == 1 ? exchange : NULL;
}

/* A call that waits. `results` gets what follows status and text. */
static gb_status_t call(gbx_t *gbx, uint32_t op, CUstream stream, const gb_writer_t *request,
                        uint8_t *rsp, uint32_t rsp_cap, gb_reader_t *results)
{
    uint32_t length = 0;
    if (request->failed)
        return gb_fail(GB_ERR_LIMIT, "the exchange call is too long");
    CUresult result =
        gbx->remote->call(op, stream, request->base, (uint32_t)gb_writer_size(request), rsp,
                          rsp_cap, &length, GB_EXCHANGE_BLOCKING);
    if (result != CUDA_SUCCESS)
        return gb_fail(GB_ERR_LOST, "CUDA error %d: the exchange in the GPU's session failed",
                       (int)result);
    gb_reader_t r = gb_reader(rsp, length);
    char text[256];
    uint32_t st = gb_read_u32(&r);
    gb_read_text(&r, text, sizeof(text));
    if (r.failed || st >= GB_STATUS_COUNT)
        return gb_fail(GB_ERR_PROTOCOL, "the session's answer about the exchange is malformed");
    if (st != GB_OK)
        return gb_fail((gb_status_t)st, "%s", text);
    if (results)
        *results = r;
    return GB_OK;
}

static gb_status_t call_async(gbx_t *gbx, uint32_t op, CUstream stream, const gb_writer_t *request)
{
    CUresult result = gbx->remote->call(op, stream, request->base,
                                        (uint32_t)gb_writer_size(request), NULL, 0, NULL, 0);
    return result == CUDA_SUCCESS
               ? GB_OK
               : gb_fail(GB_ERR_LOST, "CUDA error %d: the exchange call was not taken",
                         (int)result);
}

static gb_status_t remote_config(gbx_t *gbx, uint32_t op, const gbx_config_t *config)
{
    enum { CAP = 64 * 1024 };
    uint8_t *bytes = malloc(CAP), rsp[512];
    if (!bytes)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    gb_writer_t w = gb_writer(bytes, CAP);
    gb_reader_t results;
    gbx_call_begin(&w, gbx->id);
    gbx_config_encode(&w, config);
    gb_status_t st = call(gbx, op, NULL, &w, rsp, sizeof(rsp), &results);
    if (st == GB_OK && op == GBX_CALL_OPEN)
        gbx->id = gb_read_u64(&results);
    gb_wipe(bytes, CAP);
    free(bytes);
    return st;
}

static gb_status_t remote_declare(gbx_t *gbx, const gbx_tensor_t *tensors, uint32_t count,
                                  uint32_t flags)
{
    uint8_t *bytes = malloc(GB_EXCHANGE_MAX_REQUEST), rsp[512];
    if (!bytes)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    gb_writer_t w = gb_writer(bytes, GB_EXCHANGE_MAX_REQUEST);
    gbx_call_begin(&w, gbx->id);
    gbx_tensors_encode(&w, tensors, count, flags);
    gb_status_t st = call(gbx, GBX_CALL_DECLARE, NULL, &w, rsp, sizeof(rsp), NULL);
    free(bytes);
    return st;
}

/* ---- the calls ---- */

gb_status_t gbx_open(const gb_cuda_table_t *cuda, const gbx_config_t *config, gbx_t **out)
{
    gbx_t *gbx = calloc(1, sizeof(*gbx));
    if (!gbx)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    gbx->remote = find_shim(cuda);
    gb_status_t st;
    if (config->shard_count > GBX_MAX_SHARDS || (config->shard_count > 0 && !config->shards))
        st = gb_fail(GB_ERR_INVALID, "an exchange needs 1 to %d shards", GBX_MAX_SHARDS);
    else if (gbx->remote)
        st = remote_config(gbx, GBX_CALL_OPEN, config);
    else
        st = gbx_engine_open(cuda, config, &gbx->engine);
    if (st != GB_OK) {
        free(gbx);
        return st;
    }
    *out = gbx;
    return GB_OK;
}

gb_status_t gbx_declare(gbx_t *gbx, const gbx_tensor_t *tensors, uint32_t count, uint32_t flags)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!tensors[i].name || tensors[i].dims > GBX_MAX_DIMS)
            return gb_fail(GB_ERR_INVALID, "tensor %u has no name or too many dimensions", i);
    }
    return gbx->remote ? remote_declare(gbx, tensors, count, flags)
                       : gbx_engine_declare(gbx->engine, tensors, count, flags);
}

gb_status_t gbx_init(gbx_t *gbx, CUstream stream, uint64_t *clock)
{
    if (!gbx->remote)
        return gbx_engine_init(gbx->engine, stream, clock);
    uint8_t bytes[16], rsp[512];
    gb_writer_t w = gb_writer(bytes, sizeof(bytes));
    gb_reader_t results;
    gbx_call_begin(&w, gbx->id);
    gb_status_t st = call(gbx, GBX_CALL_INIT, stream, &w, rsp, sizeof(rsp), &results);
    if (st == GB_OK)
        *clock = gb_read_u64(&results);
    return st;
}

gb_status_t gbx_push(gbx_t *gbx, CUstream stream, uint64_t clock, uint32_t samples, uint32_t first,
                     uint32_t count)
{
    if (!gbx->remote)
        return gbx_engine_push(gbx->engine, stream, clock, samples, first, count);
    uint8_t bytes[64];
    gb_writer_t w = gb_writer(bytes, sizeof(bytes));
    gbx_call_begin(&w, gbx->id);
    gb_write_u64(&w, clock);
    gb_write_u32(&w, samples);
    gb_write_u32(&w, first);
    gb_write_u32(&w, count);
    return call_async(gbx, GBX_CALL_PUSH, stream, &w);
}

gb_status_t gbx_pull(gbx_t *gbx, CUstream stream, uint64_t version, uint32_t first, uint32_t count)
{
    if (!gbx->remote)
        return gbx_engine_pull(gbx->engine, stream, version, first, count);
    uint8_t bytes[64];
    gb_writer_t w = gb_writer(bytes, sizeof(bytes));
    gbx_call_begin(&w, gbx->id);
    gb_write_u64(&w, version);
    gb_write_u32(&w, first);
    gb_write_u32(&w, count);
    return call_async(gbx, GBX_CALL_PULL, stream, &w);
}

gb_status_t gbx_push_pull(gbx_t *gbx, CUstream stream, uint64_t clock, uint32_t samples)
{
    if (!gbx->remote)
        return gbx_engine_push_pull(gbx->engine, stream, clock, samples);
    uint8_t bytes[64];
    gb_writer_t w = gb_writer(bytes, sizeof(bytes));
    gbx_call_begin(&w, gbx->id);
    gb_write_u64(&w, clock);
    gb_write_u32(&w, samples);
    return call_async(gbx, GBX_CALL_PUSH_PULL, stream, &w);
}

gb_status_t gbx_fence(gbx_t *gbx, CUstream stream)
{
    if (!gbx->remote)
        return gbx_engine_fence(gbx->engine, stream);
    uint8_t bytes[16];
    gb_writer_t w = gb_writer(bytes, sizeof(bytes));
    gbx_call_begin(&w, gbx->id);
    return call_async(gbx, GBX_CALL_FENCE, stream, &w);
}

gb_status_t gbx_wait(gbx_t *gbx, uint32_t timeout_ms)
{
    if (!gbx->remote)
        return gbx_engine_wait(gbx->engine, timeout_ms);
    uint8_t bytes[32], rsp[512];
    gb_writer_t w = gb_writer(bytes, sizeof(bytes));
    gbx_call_begin(&w, gbx->id);
    gb_write_u32(&w, timeout_ms);
    return call(gbx, GBX_CALL_WAIT, NULL, &w, rsp, sizeof(rsp), NULL);
}

gb_status_t gbx_status(gbx_t *gbx, gbx_state_t *out)
{
    if (!gbx->remote)
        return gbx_engine_status(gbx->engine, out);
    uint8_t bytes[16], rsp[512];
    gb_writer_t w = gb_writer(bytes, sizeof(bytes));
    gb_reader_t results;
    gbx_call_begin(&w, gbx->id);
    gb_status_t st = call(gbx, GBX_CALL_STATUS, NULL, &w, rsp, sizeof(rsp), &results);
    if (st == GB_OK)
        gbx_state_decode(&results, out);
    return st;
}

gb_status_t gbx_counters(gbx_t *gbx, gbx_counters_t *out)
{
    if (!gbx->remote)
        return gbx_engine_counters(gbx->engine, out);
    uint8_t bytes[16], rsp[512];
    gb_writer_t w = gb_writer(bytes, sizeof(bytes));
    gb_reader_t results;
    gbx_call_begin(&w, gbx->id);
    gb_status_t st = call(gbx, GBX_CALL_COUNTERS, NULL, &w, rsp, sizeof(rsp), &results);
    if (st == GB_OK) {
        gbx_counters_decode(&results, out);
        out->remote = 1;
    }
    return st;
}

gb_status_t gbx_reopen(gbx_t *gbx, const gbx_config_t *config)
{
    if (config->shard_count > GBX_MAX_SHARDS || (config->shard_count > 0 && !config->shards))
        return gb_fail(GB_ERR_INVALID, "an exchange needs 1 to %d shards", GBX_MAX_SHARDS);
    return gbx->remote ? remote_config(gbx, GBX_CALL_REOPEN, config)
                       : gbx_engine_reopen(gbx->engine, config);
}

void gbx_close(gbx_t *gbx)
{
    if (!gbx)
        return;
    if (gbx->remote) {
        uint8_t bytes[16], rsp[512];
        gb_writer_t w = gb_writer(bytes, sizeof(bytes));
        gbx_call_begin(&w, gbx->id);
        call(gbx, GBX_CALL_CLOSE, NULL, &w, rsp, sizeof(rsp), NULL);
    } else {
        gbx_engine_close(gbx->engine);
    }
    free(gbx);
}
