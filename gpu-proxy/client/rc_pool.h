/* rc_pool.h - memory pools and stream-ordered allocation at the client.
 *
 * A pool takes memory from the session in slabs, which costs a round trip, and hands out parts of them,
 * which costs none and sends nothing. Memory that is freed in a stream can be had again by the same stream
 * at once, because its work comes after the free anyway; by others when the client has learnt that the
 * stream has passed the free (a call that waited for it has returned), or behind an event that makes them
 * wait. A free sends nothing either.
 *
 * Slabs belong to the context that was current; a pool belongs to a device. Thread-safe. */
#ifndef RC_POOL_H
#define RC_POOL_H

#include "gpu-proxy/client/rc_call.h"

typedef struct rc_pool rc_pool_t;

/* The pool behind a handle. CUDA_ERROR_INVALID_VALUE if it is none. */
CUresult rc_pool_get(CUmemoryPool handle, rc_pool_t **pool);

typedef enum { RC_POOL_PRIVATE, RC_POOL_SHAREABLE, RC_POOL_IMPORTED } rc_pool_sort_t;

CUresult rc_pool_open(rc_device_t *device, uint64_t most, int shareable, rc_pool_t **pool);
/* A pool of another process: it gives no memory, and has what that process names to this one. */
CUresult rc_pool_import(rc_device_t *device, const uint64_t name[2], rc_pool_t **pool);
/* What processes call the pool among each other. CUDA_ERROR_INVALID_VALUE: it is not of that sort. */
CUresult rc_pool_name(const rc_pool_t *pool, rc_pool_sort_t sort, uint64_t name[2]);
/* The handle goes; memory that is allocated stays until it is freed. */
CUresult rc_pool_close(CUmemoryPool handle);
/* The device's own pool, and the one that allocations without a pool take from. */
CUresult rc_pool_default(rc_device_t *device, rc_pool_t **pool);
CUresult rc_pool_current(rc_device_t *device, rc_pool_t **pool);
CUresult rc_pool_set_current(rc_device_t *device, rc_pool_t *pool);
rc_device_t *rc_pool_device(const rc_pool_t *pool);
/* Of the pool that the block is from, or NULL. */
CUmemoryPool rc_pool_of(const rc_block_t *block);
CUmemoryPool rc_pool_handle(const rc_pool_t *pool);
/* What the session knows of a block of a pool: where its slab begins. */
uint64_t rc_pool_slab(const rc_block_t *block);

/* In the order of the call's stream. */
CUresult rc_pool_alloc(rc_call_t *call, rc_pool_t *pool, uint64_t bytes, uint64_t *address);
/* A block that is of a pool and has been taken out of the map of memory. `call` has a stream, or frees
 * for all streams. */
void rc_pool_free(rc_call_t *call, const rc_block_t *block);

/* Called around calls that wait: the mark before they are sent, and what it means when they are done. */
uint64_t rc_pool_mark(void);
void rc_pool_passed(const rc_call_t *call, uint16_t op, uint64_t mark);

/* The context's slabs are gone with it. */
void rc_pool_forget_context(const rc_object_t *context);

/* Gives free slabs back until no more than `keep` bytes are reserved. */
CUresult rc_pool_trim(rc_call_t *call, rc_pool_t *pool, uint64_t keep);

CUresult rc_pool_attribute(rc_pool_t *pool, CUmemPool_attribute attribute, void *value);
CUresult rc_pool_set_attribute(rc_pool_t *pool, CUmemPool_attribute attribute, const void *value);

#endif
