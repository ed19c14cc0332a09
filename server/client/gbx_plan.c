#include "server/client/gbx_plan.h"

#include <stdlib.h>
#include <string.h>

#include "common/frame/gb_frame.h"

void gbx_plan_free(gbx_plan_t *plan)
{
    free(plan->tensors);
    free(plan->chunks);
    free(plan->pieces);
    memset(plan, 0, sizeof(*plan));
}

/* ---- making ---- */

static gb_status_t check_tensor(const gbx_tensor_t *tensors, uint32_t i, uint64_t *values)
{
    const gbx_tensor_t *t = &tensors[i];
    if (!t->name || t->name[0] == 0 || strlen(t->name) >= GBX_MAX_NAME)
        return gb_fail(GB_ERR_INVALID, "tensor %u needs a name of 1 to %d bytes", i,
                       GBX_MAX_NAME - 1);
    for (uint32_t k = 0; k < i; k++) {
        if (strcmp(tensors[k].name, t->name) == 0)
            return gb_fail(GB_ERR_INVALID, "tensor name %s is used twice", t->name);
    }
    if (t->dims > GBX_MAX_DIMS)
        return gb_fail(GB_ERR_INVALID, "tensor %s has more than %d dimensions", t->name,
                       GBX_MAX_DIMS);
    uint64_t n = 1;
    for (uint32_t d = 0; d < t->dims; d++) {
        if (t->shape[d] == 0 || __builtin_mul_overflow(n, t->shape[d], &n) || n > 1ull << 40)
            return gb_fail(GB_ERR_INVALID, "tensor %s is empty or too large", t->name);
    }
    *values = n;
    return GB_OK;
}

static uint32_t align_up(uint32_t values)
{
    return (values + GBX_ALIGN - 1) / GBX_ALIGN * GBX_ALIGN;
}

typedef struct {
    gbx_plan_t *plan;
    uint32_t chunk_cap, piece_cap, limit;
    int open; /* the last chunk still takes tensors */
} builder_t;

static gb_status_t add_chunk(builder_t *b)
{
    gbx_plan_t *plan = b->plan;
    if (plan->chunk_count == GBX_MAX_CHUNKS)
        return gb_fail(GB_ERR_LIMIT, "the model needs more than %u chunks: raise the chunk size",
                       GBX_MAX_CHUNKS);
    if (plan->chunk_count == b->chunk_cap) {
        b->chunk_cap = b->chunk_cap ? b->chunk_cap * 2 : 16;
        gbx_plan_chunk_t *grown = realloc(plan->chunks, b->chunk_cap * sizeof(*grown));
        if (!grown)
            return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
        plan->chunks = grown;
    }
    plan->chunks[plan->chunk_count++] = (gbx_plan_chunk_t){.first_piece = plan->piece_count};
    b->open = 1;
    return GB_OK;
}

static gb_status_t add_piece(builder_t *b, uint32_t tensor, uint64_t at, uint32_t values)
{
    gbx_plan_t *plan = b->plan;
    gbx_plan_chunk_t *chunk = &plan->chunks[plan->chunk_count - 1];
    if (plan->piece_count == b->piece_cap) {
        b->piece_cap = b->piece_cap ? b->piece_cap * 2 : 16;
        gbx_piece_t *grown = realloc(plan->pieces, b->piece_cap * sizeof(*grown));
        if (!grown)
            return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
        plan->pieces = grown;
    }
    uint32_t place = align_up(chunk->values);
    plan->pieces[plan->piece_count++] = (gbx_piece_t){tensor, values, at, place};
    chunk->pieces++;
    chunk->values = place + values;
    gbx_plan_tensor_t *t = &plan->tensors[tensor];
    t->last_chunk = plan->chunk_count - 1;
    if (at == 0)
        t->first_chunk = t->last_chunk;
    return GB_OK;
}

static gb_status_t place_tensor(builder_t *b, uint32_t tensor)
{
    gbx_plan_t *plan = b->plan;
    uint64_t values = plan->tensors[tensor].values, at = 0;
    if (b->open) {
        uint32_t used = align_up(plan->chunks[plan->chunk_count - 1].values);
        if (values > b->limit || used + values > b->limit)
            b->open = 0;
    }
    while (at < values) {
        gb_status_t st = b->open ? GB_OK : add_chunk(b);
        uint32_t n = values - at < b->limit ? (uint32_t)(values - at) : b->limit;
        if (st == GB_OK)
            st = add_piece(b, tensor, at, n);
        if (st != GB_OK)
            return st;
        at += n;
        b->open = at == values && n < b->limit;
    }
    return GB_OK;
}

/* Gives each chunk to the owner thread that has the least so far. */
static void spread(gbx_plan_t *plan, const uint32_t *owners, uint32_t shards)
{
    uint64_t load[GBX_MAX_LANES] = {0};
    for (uint32_t c = 0; c < plan->chunk_count; c++) {
        uint32_t best = 0, lane = 0;
        gbx_plan_chunk_t *chunk = &plan->chunks[c];
        chunk->shard = chunk->owner = 0;
        for (uint32_t s = 0; s < shards; s++) {
            for (uint32_t o = 0; o < owners[s]; o++, lane++) {
                if (load[lane] < load[best]) {
                    best = lane;
                    chunk->shard = s;
                    chunk->owner = o;
                }
            }
        }
        load[best] += chunk->values;
    }
}

gb_status_t gbx_plan_make(const gbx_tensor_t *tensors, uint32_t count, uint32_t chunk_values,
                          const uint32_t *owners, uint32_t shards, gbx_plan_t *out)
{
    uint32_t lanes = 0;
    for (uint32_t s = 0; s < shards; s++)
        lanes += owners[s];
    if (count == 0 || count > GBX_MAX_TENSORS || lanes == 0 || lanes > GBX_MAX_LANES ||
        chunk_values == 0 || chunk_values > GBX_MAX_CHUNK_VALUES || chunk_values % GBX_ALIGN)
        return gb_fail(GB_ERR_INVALID, "%u tensors, %u lanes and chunks of %u values cannot be",
                       count, lanes, chunk_values);
    gbx_plan_t plan = {.tensor_count = count, .tensors = calloc(count, sizeof(*plan.tensors))};
    if (!plan.tensors)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    builder_t b = {.plan = &plan, .limit = chunk_values};
    for (uint32_t i = 0; i < count; i++) {
        gbx_plan_tensor_t *t = &plan.tensors[i];
        gb_status_t st = check_tensor(tensors, i, &t->values);
        if (st == GB_OK) {
            memcpy(t->name, tensors[i].name, strlen(tensors[i].name));
            t->dims = tensors[i].dims;
            memcpy(t->shape, tensors[i].shape, t->dims * sizeof(t->shape[0]));
            st = place_tensor(&b, i);
        }
        if (st != GB_OK) {
            gbx_plan_free(&plan);
            return st;
        }
    }
    spread(&plan, owners, shards);
    *out = plan;
    return GB_OK;
}

/* ---- travelling ---- */

enum { TENSOR_BYTES = 4 + GBX_MAX_NAME + 4 + 8 * GBX_MAX_DIMS, CHUNK_BYTES = 16, PIECE_BYTES = 20 };

gb_status_t gbx_plan_encode(const gbx_plan_t *plan, uint8_t **out, uint32_t *size)
{
    size_t cap = 12 + (size_t)plan->tensor_count * TENSOR_BYTES +
                 (size_t)plan->chunk_count * CHUNK_BYTES + (size_t)plan->piece_count * PIECE_BYTES;
    uint8_t *bytes = malloc(cap);
    if (!bytes)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    gb_writer_t w = gb_writer(bytes, cap);
    gb_write_u32(&w, plan->tensor_count);
    gb_write_u32(&w, plan->chunk_count);
    gb_write_u32(&w, plan->piece_count);
    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        gb_write_text(&w, plan->tensors[i].name);
        gb_write_u32(&w, plan->tensors[i].dims);
        for (uint32_t d = 0; d < plan->tensors[i].dims; d++)
            gb_write_u64(&w, plan->tensors[i].shape[d]);
    }
    for (uint32_t i = 0; i < plan->chunk_count; i++) {
        gb_write_u32(&w, plan->chunks[i].shard);
        gb_write_u32(&w, plan->chunks[i].owner);
        gb_write_u32(&w, plan->chunks[i].values);
        gb_write_u32(&w, plan->chunks[i].pieces);
    }
    for (uint32_t i = 0; i < plan->piece_count; i++) {
        gb_write_u32(&w, plan->pieces[i].tensor);
        gb_write_u32(&w, plan->pieces[i].values);
        gb_write_u64(&w, plan->pieces[i].tensor_at);
        gb_write_u32(&w, plan->pieces[i].chunk_at);
    }
    gb_status_t st = gb_writer_done(&w, "the model's plan");
    if (st == GB_OK && gb_writer_size(&w) > GBX_MAX_PLAN_BYTES)
        st = gb_fail(GB_ERR_LIMIT, "the model has too many tensors and chunks");
    if (st != GB_OK) {
        free(bytes);
        return st;
    }
    *size = (uint32_t)gb_writer_size(&w);
    *out = bytes;
    return GB_OK;
}

static int read_tensor(gb_reader_t *r, gbx_plan_tensor_t *t)
{
    gb_read_text(r, t->name, sizeof(t->name));
    t->dims = gb_read_u32(r);
    if (r->failed || t->name[0] == 0 || t->dims > GBX_MAX_DIMS)
        return -1;
    t->values = 1;
    for (uint32_t d = 0; d < t->dims; d++) {
        t->shape[d] = gb_read_u64(r);
        if (t->shape[d] == 0 || __builtin_mul_overflow(t->values, t->shape[d], &t->values) ||
            t->values > 1ull << 40)
            return -1;
    }
    return r->failed ? -1 : 0;
}

static int read_chunk(gb_reader_t *r, gbx_plan_chunk_t *c, uint32_t *piece)
{
    c->shard = gb_read_u32(r);
    c->owner = gb_read_u32(r);
    c->values = gb_read_u32(r);
    c->pieces = gb_read_u32(r);
    c->first_piece = *piece;
    if (r->failed || c->values == 0 || c->values > GBX_MAX_CHUNK_VALUES || c->pieces == 0 ||
        c->shard >= GBX_MAX_SHARDS || c->owner >= GBX_MAX_LANES ||
        __builtin_add_overflow(*piece, c->pieces, piece))
        return -1;
    return 0;
}

/* Pieces follow each other: through the tensors without holes, through their chunks forwards. */
static int read_pieces(gb_reader_t *r, gbx_plan_t *plan)
{
    uint32_t tensor = 0;
    uint64_t at = 0;
    for (uint32_t c = 0; c < plan->chunk_count; c++) {
        const gbx_plan_chunk_t *chunk = &plan->chunks[c];
        uint32_t chunk_end = 0;
        for (uint32_t p = chunk->first_piece; p < chunk->first_piece + chunk->pieces; p++) {
            gbx_piece_t *piece = &plan->pieces[p];
            piece->tensor = gb_read_u32(r);
            piece->values = gb_read_u32(r);
            piece->tensor_at = gb_read_u64(r);
            piece->chunk_at = gb_read_u32(r);
            if (r->failed || tensor >= plan->tensor_count || piece->tensor != tensor ||
                piece->tensor_at != at || piece->values == 0 || piece->chunk_at < chunk_end ||
                piece->chunk_at > chunk->values ||
                piece->values > chunk->values - piece->chunk_at ||
                piece->values > plan->tensors[tensor].values - at)
                return -1;
            gbx_plan_tensor_t *t = &plan->tensors[tensor];
            t->last_chunk = c;
            if (at == 0)
                t->first_chunk = c;
            chunk_end = piece->chunk_at + piece->values;
            at += piece->values;
            if (at == t->values)
                tensor++, at = 0;
        }
    }
    return tensor == plan->tensor_count ? 0 : -1;
}

static int read_plan(gb_reader_t *r, gbx_plan_t *plan)
{
    for (uint32_t i = 0; i < plan->tensor_count; i++) {
        if (read_tensor(r, &plan->tensors[i]) != 0)
            return -1;
    }
    uint32_t pieces = 0;
    for (uint32_t i = 0; i < plan->chunk_count; i++) {
        if (read_chunk(r, &plan->chunks[i], &pieces) != 0)
            return -1;
    }
    if (pieces != plan->piece_count)
        return -1;
    return read_pieces(r, plan);
}

gb_status_t gbx_plan_decode(const void *bytes, uint32_t size, gbx_plan_t *out)
{
    gb_reader_t r = gb_reader(bytes, size);
    gbx_plan_t plan = {0};
    plan.tensor_count = gb_read_u32(&r);
    plan.chunk_count = gb_read_u32(&r);
    plan.piece_count = gb_read_u32(&r);
    if (r.failed || plan.tensor_count == 0 || plan.tensor_count > GBX_MAX_TENSORS ||
        plan.chunk_count == 0 || plan.chunk_count > GBX_MAX_CHUNKS ||
        plan.piece_count > gb_reader_left(&r) / PIECE_BYTES)
        return gb_fail(GB_ERR_PROTOCOL, "the plan of the model is malformed");
    plan.tensors = calloc(plan.tensor_count, sizeof(*plan.tensors));
    plan.chunks = calloc(plan.chunk_count, sizeof(*plan.chunks));
    plan.pieces = calloc(plan.piece_count + 1, sizeof(*plan.pieces));
    gb_status_t st = GB_OK;
    if (!plan.tensors || !plan.chunks || !plan.pieces)
        st = gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    else if (read_plan(&r, &plan) != 0)
        st = gb_fail(GB_ERR_PROTOCOL, "the plan of the model is malformed");
    else
        st = gb_reader_done(&r, "the plan of the model");
    if (st != GB_OK) {
        gbx_plan_free(&plan);
        return st;
    }
    *out = plan;
    return GB_OK;
}
