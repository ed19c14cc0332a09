/* px_box.h - boxes as they travel: packed, in bands that fit a piece of staging memory. */
#ifndef PX_BOX_H
#define PX_BOX_H

#include "gpu-proxy/session/px_state.h"

typedef struct {
    uint64_t width, height, depth; /* bytes, rows, slices */
} px_extent_t;

/* Whole rows of one slice, or a part of one row where a row is longer than a piece. */
typedef struct {
    uint64_t x, row; /* rows count over all slices */
    uint64_t width, rows;
} px_band_t;

/* Bytes of a box, or UINT64_MAX where the sizes make no sense. */
uint64_t px_box_bytes(const px_extent_t *extent);

px_extent_t px_box_extent(const px_wire_box_t *box);

/* Copies a band of the box's source to memory of the session, packed, in the order of the stream. */
CUresult px_box_fetch(px_call_t *call, const px_wire_box_t *box, const px_band_t *band,
                      CUstream stream, uint8_t *to);

/* The band at a position (in packed bytes) where the one before ends. */
px_band_t px_box_band(const px_extent_t *extent, uint64_t position);

#endif
