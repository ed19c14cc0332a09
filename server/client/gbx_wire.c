#include "server/client/gbx_wire.h"

#include <stdio.h>
#include <string.h>

void gbx_chunk_head_encode(const gbx_chunk_head_t *head, uint8_t out[GBX_CHUNK_HEAD])
{
    gb_writer_t w = gb_writer(out, GBX_CHUNK_HEAD);
    gb_write_u32(&w, head->chunk);
    gb_write_u32(&w, head->samples);
    gb_write_u64(&w, head->clock);
    gb_write_u32(&w, head->values);
    gb_write_u32(&w, head->repeat);
}

void gbx_chunk_head_decode(const uint8_t in[GBX_CHUNK_HEAD], gbx_chunk_head_t *out)
{
    gb_reader_t r = gb_reader(in, GBX_CHUNK_HEAD);
    out->chunk = gb_read_u32(&r);
    out->samples = gb_read_u32(&r);
    out->clock = gb_read_u64(&r);
    out->values = gb_read_u32(&r);
    out->repeat = gb_read_u32(&r);
}

uint32_t gbx_hello_encode(const gbx_hello_t *hello, uint8_t out[128])
{
    gb_writer_t w = gb_writer(out, 128);
    gb_write_u32(&w, GBX_WIRE_VERSION);
    gb_write_text(&w, hello->job);
    gb_write_u32(&w, hello->worker);
    gb_write_u32(&w, hello->generation);
    gb_write_u32(&w, hello->shard);
    gb_write_u32(&w, hello->shards);
    gb_write_u32(&w, hello->owner);
    return (uint32_t)gb_writer_size(&w);
}

gb_status_t gbx_hello_decode(const void *payload, uint32_t size, gbx_hello_t *out)
{
    gb_reader_t r = gb_reader(payload, size);
    uint32_t version = gb_read_u32(&r);
    if (!r.failed && version != GBX_WIRE_VERSION)
        return gb_fail(GB_ERR_VERSION,
                       "the worker speaks version %u of the exchange, this shard version %d",
                       version, GBX_WIRE_VERSION);
    gbx_hello_t hello;
    gb_read_text(&r, hello.job, sizeof(hello.job));
    hello.worker = gb_read_u32(&r);
    hello.generation = gb_read_u32(&r);
    hello.shard = gb_read_u32(&r);
    hello.shards = gb_read_u32(&r);
    hello.owner = gb_read_u32(&r);
    gb_status_t st = gb_reader_done(&r, "a worker's hello");
    if (st == GB_OK &&
        (hello.shards == 0 || hello.shards > GBX_MAX_SHARDS || hello.shard >= hello.shards))
        st = gb_fail(GB_ERR_PROTOCOL, "a worker's hello names shard %u of %u", hello.shard,
                     hello.shards);
    if (st == GB_OK)
        *out = hello;
    return st;
}

uint32_t gbx_error_encode(gbx_poison_t code, uint32_t generation, const char *text, uint8_t *out)
{
    /* By hand: GCC 12 takes gb_writer's checks for an overflow here. */
    uint32_t head[3] = {(uint32_t)code, generation, (uint32_t)strnlen(text, 223)};
    memcpy(out, head, sizeof(head));
    memcpy(out + sizeof(head), text, head[2]);
    return (uint32_t)sizeof(head) + head[2];
}

gbx_poison_t gbx_error_decode(const void *payload, uint32_t size, uint32_t *generation,
                              char text[224])
{
    gb_reader_t r = gb_reader(payload, size);
    uint32_t code = gb_read_u32(&r);
    *generation = gb_read_u32(&r);
    gb_read_text(&r, text, 224);
    if (r.failed || code == GBX_RUNNING || code > GBX_DEVICE) {
        snprintf(text, 224, "the shard sent a malformed error");
        return GBX_LOST;
    }
    return (gbx_poison_t)code;
}
