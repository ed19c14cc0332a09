/* rc_box.h - copies of boxes: rows and slices, between any two of host memory, device memory and arrays, at
 * one session or at two. */
#ifndef RC_BOX_H
#define RC_BOX_H

#include "gpu-proxy/client/rc_call.h"

/* One side. Exactly one of host, device and array is set; the first two are of the box's first byte. */
typedef struct {
    uint8_t *host;
    uint64_t device;
    rc_object_t *array;
    uint64_t x, y, z;       /* of the first byte in the array: bytes, rows, slices */
    uint64_t pitch, height; /* bytes of a row, rows of a slice; not of arrays */
    rc_session_t *session;  /* where the memory or the array is; NULL for the host's */
    rc_object_t *context;   /* that copies of it run in */
} rc_side_t;

typedef struct {
    rc_side_t dst, src;
    uint64_t width, height, depth; /* bytes, rows, slices; one of them 0 = nothing to do */
} rc_box_t;

/* Checks a copy and its handles, as CUDA does at the call. */
CUresult rc_box_describe(const CUDA_MEMCPY3D *copy, rc_box_t *out);

/* The whole side as it travels. */
px_wire_side_t rc_box_wire(const rc_side_t *side);

/* A copy of one row. */
CUDA_MEMCPY3D rc_box_row(uint64_t bytes);

/* Issues it in the order of `stream`. When it returns, host memory may be used again, unless it is page-locked and
 * `may_queue`: then a copy to it may come later. */
CUresult rc_box_copy(const rc_box_t *box, CUstream stream, int may_queue);

#endif
