/* px_staging.h - page-locked memory that copies pass through.
 *
 * Towards the device: a ring; the dispatcher puts the client's bytes in and issues an asynchronous
 * copy, so it never waits for the device unless the ring is full of copies under way. Towards the
 * host: pairs of buffers, one pair for each lane that copies at the same time. */
#ifndef PX_STAGING_H
#define PX_STAGING_H

#include <stdint.h>

#include "common/link/gb_durable.h"
#include "gb_cuda_table.h"

typedef struct px_staging px_staging_t;

/* Lazily: memory comes from the driver when a context is first current. `stream` tells what the client has
 * confirmed. */
px_staging_t *px_staging_create(const gb_cuda_table_t *cuda, const gb_durable_t *stream);
void px_staging_destroy(px_staging_t *staging);

/* Room for `size` (at most PX_WIRE_PIECE) bytes that are to go to the device in the order of `stream`;
 * waits if the ring is full of copies under way. `context` tells contexts apart. The dispatcher only;
 * what was begun and not committed is begun again by the next. */
CUresult px_staging_begin(px_staging_t *staging, const void *context, CUstream stream,
                          uint64_t size, uint8_t **out);

/* Issues the copy of what was put there to `dst`. */
CUresult px_staging_commit(px_staging_t *staging, const void *context, CUstream stream,
                           CUdeviceptr dst, uint64_t size);

/* Puts `size` (at most PX_WIRE_PIECE) bytes there and issues `copy`, whose source they become: rows without
 * gaps. The dispatcher only. */
CUresult px_staging_box(px_staging_t *staging, const void *context, CUstream stream,
                        CUDA_MEMCPY3D *copy, const void *bytes, uint64_t size);

/* Before `stream` is destroyed. The dispatcher only. */
void px_staging_stream_gone(px_staging_t *staging, CUstream stream);

/* Waits for what goes through `context` and forgets its events: before it is destroyed. */
void px_staging_leave(px_staging_t *staging, const void *context);

/* A buffer of 2 * PX_WIRE_PIECE bytes for one lane's copy to the host. Returned, it stays as it is until the
 * stream has confirmed offset `until` (0: nobody needs it any more). Thread-safe. */
CUresult px_staging_borrow(px_staging_t *staging, uint8_t **out);
void px_staging_return(px_staging_t *staging, uint8_t *buffer, uint64_t until);

#endif
