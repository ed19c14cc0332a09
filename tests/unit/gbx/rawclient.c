#include "tests/unit/gbx/rawclient.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/client/gbx_plan.h"

enum { WAIT_S = 20 };

static void must(gb_status_t st, const char *what)
{
    if (st == GB_OK)
        return;
    fprintf(stderr, "rawclient: %s: %s: %s\n", what, gb_status_name(st), gb_why());
    abort();
}

static uint64_t soon(void)
{
    return gb_now_ns() + (uint64_t)WAIT_S * 1000000000u;
}

static void send_frame(raw_t *raw, uint16_t operation, const void *payload, uint32_t size)
{
    uint8_t head[GB_FRAME_HEADER];
    gb_frame_t frame = {.operation = operation, .length = size};
    gb_frame_encode(&frame, head);
    struct iovec iov[2] = {{head, sizeof(head)}, {(void *)(uintptr_t)payload, size}};
    must(gb_link_sendv(raw->link, iov, size ? 2 : 1), "send");
}

static gb_frame_t recv_frame(raw_t *raw, void *payload, uint32_t cap)
{
    uint8_t head[GB_FRAME_HEADER];
    gb_frame_t frame;
    must(gb_link_recv(raw->link, head, sizeof(head), soon()), "receive");
    must(gb_frame_decode(head, GB_FRAME_MAX, &frame), "frame");
    if (frame.length > cap)
        abort();
    must(gb_link_recv(raw->link, payload, frame.length, soon()), "receive");
    return frame;
}

void raw_open(raw_t *raw, const char *endpoint, uint64_t lease, const uint8_t key[32],
              uint32_t worker, uint32_t generation, uint32_t values)
{
    gb_endpoint_t where;
    gb_credential_t credential = {.service = GB_SERVICE_SHARD, .lease = lease, .session = worker};
    uint8_t payload[512];
    memcpy(credential.key.bytes, key, 32);
    must(gb_endpoint_parse(endpoint, 0, &where), "endpoint");
    must(gb_link_dial(&where, &credential, soon(), &raw->link), "dial");
    raw->values = values;
    gbx_hello_t hello = {.job = "job", .worker = worker, .generation = generation, .shards = 1};
    send_frame(raw, GBX_OP_HELLO, payload, gbx_hello_encode(&hello, payload));
    gb_frame_t frame = recv_frame(raw, payload, sizeof(payload));
    if (frame.flags & GB_FRAME_ERROR)
        abort();
    gbx_tensor_t tensor = {.name = "t0", .dims = 1, .shape = {values}};
    gbx_plan_t plan;
    uint8_t *bytes;
    uint32_t size;
    const uint32_t owners[] = {1};
    must(gbx_plan_make(&tensor, 1, 262144, owners, 1, &plan), "plan");
    must(gbx_plan_encode(&plan, &bytes, &size), "plan");
    send_frame(raw, GBX_OP_DECLARE, bytes, size);
    frame = recv_frame(raw, payload, sizeof(payload));
    if (frame.flags & GB_FRAME_ERROR)
        abort();
    free(bytes);
    gbx_plan_free(&plan);
}

static void send_chunk(raw_t *raw, uint16_t operation, const gbx_chunk_head_t *head,
                       const void *data, uint32_t size, uint32_t part)
{
    uint8_t out[GB_FRAME_HEADER + GBX_CHUNK_HEAD];
    gb_frame_t frame = {.operation = operation, .length = GBX_CHUNK_HEAD + size};
    gb_frame_encode(&frame, out);
    gbx_chunk_head_encode(head, out + GB_FRAME_HEADER);
    struct iovec iov[2] = {{out, sizeof(out)}, {(void *)(uintptr_t)data, part}};
    must(gb_link_sendv(raw->link, iov, part ? 2 : 1), "send");
}

int raw_give(raw_t *raw, const float *weights)
{
    uint8_t payload[512];
    send_frame(raw, GBX_OP_CLAIM, NULL, 0);
    recv_frame(raw, payload, sizeof(payload));
    if (!payload[0])
        return 0;
    gbx_chunk_head_t head = {.values = raw->values};
    send_chunk(raw, GBX_OP_INIT, &head, weights, raw->values * 4, raw->values * 4);
    recv_frame(raw, payload, sizeof(payload));
    send_frame(raw, GBX_OP_READY, NULL, 0);
    recv_frame(raw, payload, sizeof(payload));
    return 1;
}

void raw_push(raw_t *raw, uint16_t operation, uint64_t clock, uint32_t samples,
              const float *gradient, uint32_t part)
{
    gbx_chunk_head_t head = {.clock = clock, .samples = samples, .values = raw->values};
    send_chunk(raw, operation, &head, gradient, raw->values * 4, part * 4);
}

void raw_pull(raw_t *raw, uint64_t version)
{
    gbx_chunk_head_t head = {.clock = version, .values = raw->values};
    send_chunk(raw, GBX_OP_PULL, &head, NULL, 0, 0);
}

uint8_t raw_take(raw_t *raw, gbx_chunk_head_t *head, float *weights, gbx_poison_t *error)
{
    uint32_t cap = GBX_CHUNK_HEAD + raw->values * 4 + GBX_MAX_ERROR;
    uint8_t *payload = malloc(cap);
    gb_frame_t frame = recv_frame(raw, payload, cap);
    if (frame.flags & GB_FRAME_ERROR) {
        uint32_t generation;
        char text[224];
        *error = gbx_error_decode(payload, frame.length, &generation, text);
    } else {
        gbx_chunk_head_decode(payload, head);
        if (frame.length > GBX_CHUNK_HEAD)
            memcpy(weights, payload + GBX_CHUNK_HEAD, frame.length - GBX_CHUNK_HEAD);
    }
    free(payload);
    return frame.flags;
}

void raw_close(raw_t *raw)
{
    gb_link_close(raw->link);
    raw->link = NULL;
}
