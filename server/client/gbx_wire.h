/* gbx_wire.h - the protocol between an exchange and a parameter shard.
 *
 * Frames of gb_frame.h over a gb_link. A worker has one connection per owner thread of each shard; a
 * connection carries only the chunks of its owner, so that nothing is passed between threads there.
 * The first frame is GBX_OP_HELLO. Requests are answered by frames of the same operation, lane and
 * sequence with GB_FRAME_REPLY, in any order. With GB_FRAME_ERROR the payload is u32 code
 * (gbx_poison_t), u32 generation, text. The shard may send GBX_OP_NOTICE with an error payload at any
 * time; the connection ends then.
 *
 *   operation       request payload                                   reply payload
 *   HELLO           u32 GBX_WIRE_VERSION, text job, u32 worker,       u32 generation, u32 owners
 *                   u32 generation, u32 shard, u32 shards, u32 owner
 *   DECLARE         the plan (gbx_plan_encode)                        -
 *   CLAIM           -  (first connection of shard 0 only)             u8 give, 7 x 0, u64 clock
 *   INIT            chunk head, data                                  chunk head
 *   READY           -  (first connection of shard 0 only)             -
 *   PUSH            chunk head, data (samples in the head)            chunk head
 *   PULL            chunk head (clock = least version)                chunk head, data
 *   PUSH_PULL       chunk head, data                                  chunk head (clock + 1), data
 *
 * CLAIM's answer waits until it is clear who gives the initial weights: give = 1 asks the worker to
 * send every chunk with INIT and then READY; give = 0 means that the weights are there. */
#ifndef GBX_WIRE_H
#define GBX_WIRE_H

#include <stdint.h>

#include "common/frame/gb_frame.h"
#include "server/client/gbx.h"

enum { GBX_WIRE_VERSION = 1, GBX_CHUNK_HEAD = 24, GBX_MAX_ERROR = 512 };

enum {
    GBX_OP_HELLO = 1,
    GBX_OP_DECLARE,
    GBX_OP_CLAIM,
    GBX_OP_INIT,
    GBX_OP_READY,
    GBX_OP_PUSH,
    GBX_OP_PULL,
    GBX_OP_PUSH_PULL,
    GBX_OP_NOTICE,
};

/* Precedes the data of a chunk. */
typedef struct {
    uint32_t chunk;
    uint32_t samples;
    uint64_t clock;
    uint32_t values; /* fp32 values of data that follow, or would */
    uint32_t repeat; /* reply to a push: it was known already */
} gbx_chunk_head_t;

void gbx_chunk_head_encode(const gbx_chunk_head_t *head, uint8_t out[GBX_CHUNK_HEAD]);
void gbx_chunk_head_decode(const uint8_t in[GBX_CHUNK_HEAD], gbx_chunk_head_t *out);

typedef struct {
    char job[64];
    uint32_t worker, generation, shard, shards, owner;
} gbx_hello_t;

/* Returns the number of payload bytes; `out` takes 128. */
uint32_t gbx_hello_encode(const gbx_hello_t *hello, uint8_t out[128]);

/* GB_ERR_PROTOCOL, GB_ERR_VERSION. */
gb_status_t gbx_hello_decode(const void *payload, uint32_t size, gbx_hello_t *out);

/* Error payload, at most GBX_MAX_ERROR bytes; returns its size. */
uint32_t gbx_error_encode(gbx_poison_t code, uint32_t generation, const char *text, uint8_t *out);
/* `text` takes 224 bytes. A malformed payload gives GBX_LOST. */
gbx_poison_t gbx_error_decode(const void *payload, uint32_t size, uint32_t *generation,
                              char text[224]);

#endif
