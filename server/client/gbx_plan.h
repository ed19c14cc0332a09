/* gbx_plan.h - how a model's tensors are cut into chunks and spread over the shards.
 *
 * A pure function of the tensors, the chunk size and the shards' owner threads, so that every worker
 * of a job makes the same plan; the shard compares their encoded bytes. Small tensors share a chunk,
 * large ones are cut. Within a chunk tensors begin at multiples of 64 values (256 bytes); the values
 * between them are zero. */
#ifndef GBX_PLAN_H
#define GBX_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "common/core/gb_status.h"
#include "server/client/gbx.h"

enum {
    GBX_ALIGN = 64,                  /* values */
    GBX_MAX_CHUNK_VALUES = 1u << 20, /* 4 MiB */
    GBX_MAX_CHUNKS = 1u << 16,
    GBX_MAX_LANES = 256,
    GBX_MAX_PLAN_BYTES = 8u << 20,
};

typedef struct {
    char name[GBX_MAX_NAME];
    uint32_t dims;
    uint64_t shape[GBX_MAX_DIMS];
    uint64_t values;                  /* product of the shape */
    uint32_t first_chunk, last_chunk; /* the chunks that hold it */
} gbx_plan_tensor_t;

/* A run of a tensor's values within a chunk. */
typedef struct {
    uint32_t tensor, values;
    uint64_t tensor_at; /* first value within the tensor */
    uint32_t chunk_at;  /* first value within the chunk */
} gbx_piece_t;

typedef struct {
    uint32_t shard, owner; /* owner = thread of that shard */
    uint32_t values;       /* gaps included */
    uint32_t first_piece, pieces;
} gbx_plan_chunk_t;

typedef struct {
    gbx_plan_tensor_t *tensors;
    uint32_t tensor_count;
    gbx_plan_chunk_t *chunks; /* in the order of the tensors */
    uint32_t chunk_count;
    gbx_piece_t *pieces;
    uint32_t piece_count;
} gbx_plan_t;

/* `owners[s]` is the number of owner threads of shard s. */
gb_status_t gbx_plan_make(const gbx_tensor_t *tensors, uint32_t count, uint32_t chunk_values,
                          const uint32_t *owners, uint32_t shards, gbx_plan_t *out);
void gbx_plan_free(gbx_plan_t *plan);

/* The bytes that travel; *out is freed by the caller. */
gb_status_t gbx_plan_encode(const gbx_plan_t *plan, uint8_t **out, uint32_t *size);

/* Reads and checks everything: every value of every tensor in exactly one piece, pieces in order and
 * inside their chunks. GB_ERR_PROTOCOL. */
gb_status_t gbx_plan_decode(const void *bytes, uint32_t size, gbx_plan_t *out);

#endif
