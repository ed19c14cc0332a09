/* wk_idx.h - reads IDX files (the format of MNIST), plain or gzip.
 *
 * An IDX file is: two zero bytes, a type byte (8 = unsigned bytes, the only one read here), the number
 * of dimensions, each dimension as a big-endian u32, then the elements in row-major order. */
#ifndef WK_IDX_H
#define WK_IDX_H

#include <stddef.h>
#include <stdint.h>

#include "common/core/gb_status.h"

#define WK_IDX_MAX_RANK 4

typedef struct {
    uint32_t rank;
    uint32_t dims[WK_IDX_MAX_RANK];
    uint8_t *bytes; /* owned; product of the dimensions */
    size_t size;    /* bytes */
} wk_idx_t;

/* Loads the whole file and checks type, dimensions and exact length. Errors name the file and what
 * to do: GB_ERR_NOT_FOUND, GB_ERR_FORMAT (wrong magic, truncated, trailing bytes, damaged gzip),
 * GB_ERR_LIMIT (more than 2 GiB), GB_ERR_NO_MEMORY. */
gb_status_t wk_idx_load(const char *path, wk_idx_t *out);

/* Frees the bytes; harmless on a zeroed struct. */
void wk_idx_free(wk_idx_t *idx);

#endif
