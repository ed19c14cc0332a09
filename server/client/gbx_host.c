#include "server/client/gbx_host.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_log.h"
#include "server/client/gbx_call.h"
#include "server/client/gbx_engine.h"

enum { GBX_HOST_MAX = 64 }; /* exchanges of a session */

/* An exchange in the table. `users` counts the calls in it, so that it is not closed under them. */
typedef struct {
    uint64_t id; /* 0: free */
    gbx_engine_t *engine;
    unsigned users;
} entry_t;

struct gbx_host {
    const gb_cuda_table_t *cuda;
    pthread_mutex_t lock; /* held for the look-up only */
    pthread_cond_t idle;
    uint64_t next_id;
    entry_t entries[GBX_HOST_MAX];
};

gb_status_t gbx_host_create(const gb_cuda_table_t *cuda, gbx_host_t **out)
{
    gbx_host_t *host = calloc(1, sizeof(*host));
    if (!host)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    host->cuda = cuda;
    host->next_id = 1;
    pthread_mutex_init(&host->lock, NULL);
    pthread_cond_init(&host->idle, NULL);
    *out = host;
    return GB_OK;
}

int gbx_host_op_blocks(uint32_t op)
{
    return op != GBX_CALL_PUSH && op != GBX_CALL_PULL && op != GBX_CALL_PUSH_PULL &&
           op != GBX_CALL_FENCE;
}

/* ---- the table ---- */

static entry_t *find(gbx_host_t *host, uint64_t id)
{
    for (int i = 0; i < GBX_HOST_MAX && id != 0; i++) {
        if (host->entries[i].id == id)
            return &host->entries[i];
    }
    return NULL;
}

static entry_t *enter(gbx_host_t *host, uint64_t id)
{
    pthread_mutex_lock(&host->lock);
    entry_t *entry = find(host, id);
    if (entry)
        entry->users++;
    pthread_mutex_unlock(&host->lock);
    return entry;
}

static void leave(gbx_host_t *host, entry_t *entry)
{
    pthread_mutex_lock(&host->lock);
    if (--entry->users == 0)
        pthread_cond_broadcast(&host->idle);
    pthread_mutex_unlock(&host->lock);
}

static gb_status_t add(gbx_host_t *host, gbx_engine_t *engine, uint64_t *id)
{
    gb_status_t st = GB_ERR_LIMIT;
    pthread_mutex_lock(&host->lock);
    for (int i = 0; i < GBX_HOST_MAX && st != GB_OK; i++) {
        if (host->entries[i].id == 0 && host->entries[i].users == 0) {
            host->entries[i] = (entry_t){host->next_id, engine, 0};
            *id = host->next_id++;
            st = GB_OK;
        }
    }
    pthread_mutex_unlock(&host->lock);
    return st == GB_OK ? GB_OK
                       : gb_fail(st, "a session has at most %d exchanges open", GBX_HOST_MAX);
}

/* Takes it out of the table once no other call is in it. Blocking calls in it end by the poison. */
static gbx_engine_t *take(gbx_host_t *host, uint64_t id)
{
    gbx_engine_t *engine = NULL;
    pthread_mutex_lock(&host->lock);
    entry_t *entry = find(host, id);
    if (entry) {
        engine = entry->engine;
        entry->id = 0;
        if (entry->users > 0)
            gbx_engine_poison(engine, GBX_LOST, "the exchange was closed");
        while (entry->users > 0)
            pthread_cond_wait(&host->idle, &host->lock);
        entry->engine = NULL;
    }
    pthread_mutex_unlock(&host->lock);
    return engine;
}

void gbx_host_destroy(gbx_host_t *host)
{
    if (!host)
        return;
    for (int i = 0; i < GBX_HOST_MAX; i++)
        gbx_engine_close(take(host, host->entries[i].id));
    pthread_cond_destroy(&host->idle);
    pthread_mutex_destroy(&host->lock);
    free(host);
}

/* ---- calls that block ---- */

static gb_status_t call_open(gbx_host_t *host, gb_reader_t *r, gb_writer_t *out)
{
    gbx_config_copy_t *copy = malloc(sizeof(*copy));
    if (!copy)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    gbx_engine_t *engine = NULL;
    uint64_t id = 0;
    gb_status_t st = gbx_config_decode(r, copy);
    if (st == GB_OK)
        st = gbx_engine_open(host->cuda, &copy->config, &engine);
    if (st == GB_OK) {
        st = add(host, engine, &id);
        if (st != GB_OK)
            gbx_engine_close(engine);
    }
    free(copy);
    if (st == GB_OK)
        gb_write_u64(out, id);
    return st;
}

static gb_status_t call_reopen(gbx_engine_t *engine, gb_reader_t *r)
{
    gbx_config_copy_t *copy = malloc(sizeof(*copy));
    if (!copy)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    gb_status_t st = gbx_config_decode(r, copy);
    if (st == GB_OK)
        st = gbx_engine_reopen(engine, &copy->config);
    free(copy);
    return st;
}

static gb_status_t call_declare(gbx_engine_t *engine, gb_reader_t *r)
{
    gbx_tensor_t *tensors;
    char *names;
    uint32_t count, flags;
    gb_status_t st = gbx_tensors_decode(r, &tensors, &names, &count, &flags);
    if (st != GB_OK)
        return st;
    st = gbx_engine_declare(engine, tensors, count, flags);
    free(tensors);
    free(names);
    return st;
}

static gb_status_t call_reports(gbx_engine_t *engine, uint32_t op, gb_writer_t *out)
{
    gbx_state_t state;
    gbx_counters_t counters;
    gb_status_t st;
    if (op == GBX_CALL_STATUS) {
        st = gbx_engine_status(engine, &state);
        if (st == GB_OK)
            gbx_state_encode(out, &state);
    } else {
        st = gbx_engine_counters(engine, &counters);
        if (st == GB_OK)
            gbx_counters_encode(out, &counters);
    }
    return st;
}

static gb_status_t call_blocking(gbx_engine_t *engine, uint32_t op, CUstream stream, gb_reader_t *r,
                                 gb_writer_t *out)
{
    uint64_t clock;
    gb_status_t st;
    switch (op) {
    case GBX_CALL_DECLARE:
        return call_declare(engine, r);
    case GBX_CALL_INIT:
        st = gbx_engine_init(engine, stream, &clock);
        if (st == GB_OK)
            gb_write_u64(out, clock);
        return st;
    case GBX_CALL_WAIT:
        return gbx_engine_wait(engine, gb_read_u32(r));
    case GBX_CALL_STATUS:
    case GBX_CALL_COUNTERS:
        return call_reports(engine, op, out);
    case GBX_CALL_REOPEN:
        return call_reopen(engine, r);
    default:
        return gb_fail(GB_ERR_PROTOCOL, "exchange call %u is not known", op);
    }
}

/* Status and text go before the results, so the results are made aside. */
static int respond(gb_status_t st, const gb_writer_t *results, void *rsp, uint32_t rsp_cap,
                   uint32_t *rsp_len)
{
    gb_writer_t w = gb_writer(rsp, rsp_cap);
    gb_write_u32(&w, (uint32_t)st);
    gb_write_text(&w, st == GB_OK ? "" : gb_why());
    if (st == GB_OK)
        gb_write_bytes(&w, results->base, gb_writer_size(results));
    if (w.failed || results->failed)
        return CUDA_ERROR_INVALID_VALUE;
    *rsp_len = (uint32_t)gb_writer_size(&w);
    return CUDA_SUCCESS;
}

/* ---- calls in the stream ---- */

static gb_status_t call_async(gbx_engine_t *engine, uint32_t op, CUstream stream, gb_reader_t *r)
{
    uint64_t clock = op == GBX_CALL_FENCE ? 0 : gb_read_u64(r);
    uint32_t samples = op == GBX_CALL_PUSH || op == GBX_CALL_PUSH_PULL ? gb_read_u32(r) : 0;
    int ranged = op == GBX_CALL_PUSH || op == GBX_CALL_PULL;
    uint32_t first = ranged ? gb_read_u32(r) : 0, count = ranged ? gb_read_u32(r) : 0;
    gb_status_t st = gb_reader_done(r, "an exchange call");
    if (st != GB_OK)
        return st;
    switch (op) {
    case GBX_CALL_PUSH:
        return gbx_engine_push(engine, stream, clock, samples, first, count);
    case GBX_CALL_PULL:
        return gbx_engine_pull(engine, stream, clock, first, count);
    case GBX_CALL_PUSH_PULL:
        return gbx_engine_push_pull(engine, stream, clock, samples);
    default:
        return gbx_engine_fence(engine, stream);
    }
}

static int run_async(gbx_host_t *host, uint32_t op, CUstream stream, gb_reader_t *r)
{
    entry_t *entry = enter(host, gbx_call_id(r));
    if (!entry)
        return CUDA_ERROR_INVALID_HANDLE;
    gb_status_t st = call_async(entry->engine, op, stream, r);
    /* The caller has gone on: it learns by the poison. */
    if (st != GB_OK && !gbx_engine_bad(entry->engine))
        gbx_engine_poison(entry->engine, GBX_REFUSED, gb_why());
    leave(host, entry);
    return st == GB_ERR_PROTOCOL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

int gbx_host_call(gbx_host_t *host, uint32_t op, CUstream stream, const void *req, uint32_t req_len,
                  void *rsp, uint32_t rsp_cap, uint32_t *rsp_len)
{
    gb_reader_t r = gb_reader(req, req_len);
    if (req_len > GBX_HOST_MAX_REQUEST)
        return CUDA_ERROR_INVALID_VALUE;
    if (!gbx_host_op_blocks(op))
        return run_async(host, op, stream, &r);
    if (!rsp || !rsp_len)
        return CUDA_ERROR_INVALID_VALUE;
    uint8_t bytes[512];
    gb_writer_t results = gb_writer(bytes, sizeof(bytes));
    uint64_t id = gbx_call_id(&r);
    gb_status_t st;
    if (r.failed)
        return CUDA_ERROR_INVALID_VALUE;
    if (op == GBX_CALL_OPEN) {
        st = call_open(host, &r, &results);
    } else if (op == GBX_CALL_CLOSE) {
        gbx_engine_t *engine = take(host, id);
        gbx_engine_close(engine);
        st = engine ? GB_OK : gb_fail(GB_ERR_NOT_FOUND, "no such exchange");
    } else {
        entry_t *entry = enter(host, id);
        if (!entry)
            return CUDA_ERROR_INVALID_HANDLE;
        st = call_blocking(entry->engine, op, stream, &r, &results);
        leave(host, entry);
    }
    return respond(st, &results, rsp, rsp_cap, rsp_len);
}
