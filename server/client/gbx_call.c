#include "server/client/gbx_call.h"

#include <stdlib.h>
#include <string.h>

void gbx_call_begin(gb_writer_t *w, uint64_t id)
{
    gb_write_u32(w, GBX_CALL_VERSION);
    gb_write_u64(w, id);
}

uint64_t gbx_call_id(gb_reader_t *r)
{
    if (gb_read_u32(r) != GBX_CALL_VERSION)
        r->failed = 1;
    return gb_read_u64(r);
}

/* ---- configuration ---- */

void gbx_config_encode(gb_writer_t *w, const gbx_config_t *config)
{
    gb_write_u64(w, config->lease);
    gb_write_u32(w, (uint32_t)config->insecure);
    gb_write_u32(w, config->worker);
    gb_write_u32(w, config->generation);
    gb_write_u32(w, config->silence_ms);
    gb_write_u32(w, config->chunk_bytes);
    gb_write_text(w, config->job ? config->job : "");
    gb_write_u32(w, config->shard_count);
    for (uint32_t i = 0; i < config->shard_count; i++) {
        gb_write_text(w, config->shards[i].endpoint);
        gb_write_bytes(w, config->shards[i].key, GBX_KEY_BYTES);
    }
}

gb_status_t gbx_config_decode(gb_reader_t *r, gbx_config_copy_t *out)
{
    memset(out, 0, sizeof(*out));
    gbx_config_t *config = &out->config;
    config->lease = gb_read_u64(r);
    config->insecure = gb_read_u32(r) != 0;
    config->worker = gb_read_u32(r);
    config->generation = gb_read_u32(r);
    config->silence_ms = gb_read_u32(r);
    config->chunk_bytes = gb_read_u32(r);
    gb_read_text(r, out->job, sizeof(out->job));
    config->shard_count = gb_read_u32(r);
    if (config->shard_count > GBX_MAX_SHARDS)
        r->failed = 1;
    for (uint32_t i = 0; i < config->shard_count && !r->failed; i++) {
        gb_read_text(r, out->endpoints[i], sizeof(out->endpoints[i]));
        gb_read_into(r, out->shards[i].key, GBX_KEY_BYTES);
        out->shards[i].endpoint = out->endpoints[i];
    }
    config->job = out->job;
    config->shards = out->shards;
    return gb_reader_done(r, "the configuration of an exchange");
}

/* ---- tensors ---- */

void gbx_tensors_encode(gb_writer_t *w, const gbx_tensor_t *tensors, uint32_t count, uint32_t flags)
{
    gb_write_u32(w, count);
    gb_write_u32(w, flags);
    for (uint32_t i = 0; i < count; i++) {
        const gbx_tensor_t *t = &tensors[i];
        gb_write_text(w, t->name);
        gb_write_u32(w, t->dims);
        for (uint32_t d = 0; d < t->dims && d < GBX_MAX_DIMS; d++)
            gb_write_u64(w, t->shape[d]);
        gb_write_u64(w, t->weights);
        gb_write_u64(w, t->gradients);
    }
}

static void read_tensor(gb_reader_t *r, gbx_tensor_t *t, char name[GBX_MAX_NAME])
{
    gb_read_text(r, name, GBX_MAX_NAME);
    t->name = name;
    t->dims = gb_read_u32(r);
    if (t->dims > GBX_MAX_DIMS)
        r->failed = 1;
    for (uint32_t d = 0; d < t->dims && !r->failed; d++)
        t->shape[d] = gb_read_u64(r);
    t->weights = gb_read_u64(r);
    t->gradients = gb_read_u64(r);
}

gb_status_t gbx_tensors_decode(gb_reader_t *r, gbx_tensor_t **tensors, char **names,
                               uint32_t *count, uint32_t *flags)
{
    uint32_t n = gb_read_u32(r), f = gb_read_u32(r);
    if (r->failed || n == 0 || n > GBX_MAX_TENSORS)
        return gb_fail(GB_ERR_PROTOCOL, "a declaration of %u tensors", n);
    gbx_tensor_t *list = calloc(n, sizeof(*list));
    char *text = calloc(n, GBX_MAX_NAME);
    gb_status_t st = GB_OK;
    if (!list || !text) {
        st = gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    } else {
        for (uint32_t i = 0; i < n && !r->failed; i++)
            read_tensor(r, &list[i], text + (size_t)i * GBX_MAX_NAME);
        st = gb_reader_done(r, "a declaration of tensors");
    }
    if (st != GB_OK) {
        free(list);
        free(text);
        return st;
    }
    *tensors = list;
    *names = text;
    *count = n;
    *flags = f;
    return GB_OK;
}

/* ---- reports ---- */

void gbx_state_encode(gb_writer_t *w, const gbx_state_t *state)
{
    gb_write_u32(w, (uint32_t)state->poison);
    gb_write_text(w, state->why);
    gb_write_u64(w, state->clock);
    gb_write_u32(w, state->generation);
    gb_write_u32(w, state->in_flight);
}

void gbx_state_decode(gb_reader_t *r, gbx_state_t *out)
{
    out->poison = (gbx_poison_t)gb_read_u32(r);
    gb_read_text(r, out->why, sizeof(out->why));
    out->clock = gb_read_u64(r);
    out->generation = gb_read_u32(r);
    out->in_flight = gb_read_u32(r);
}

void gbx_counters_encode(gb_writer_t *w, const gbx_counters_t *c)
{
    const uint64_t values[] = {c->shard_sent, c->shard_received, c->pushed,
                               c->pulled,     c->pushes,         c->pulls};
    gb_write_bytes(w, values, sizeof(values));
}

void gbx_counters_decode(gb_reader_t *r, gbx_counters_t *out)
{
    out->shard_sent = gb_read_u64(r);
    out->shard_received = gb_read_u64(r);
    out->pushed = gb_read_u64(r);
    out->pulled = gb_read_u64(r);
    out->pushes = gb_read_u64(r);
    out->pulls = gb_read_u64(r);
}
