/* cpu_copy.h - copies and fills, of boxes of bytes.
 *
 * Addresses are host addresses, of device memory and host memory alike: whoever calls has checked
 * them. Large ones are cut into pieces for all threads. */
#ifndef CPU_COPY_H
#define CPU_COPY_H

#include "gpu-proxy/cpu/driver/cpu_sched.h"

/* width x height x depth bytes; a linear copy has height = depth = 1. */
typedef struct {
    uint64_t dst, src;
    uint64_t dst_pitch, src_pitch; /* bytes from row to row */
    uint64_t dst_slice, src_slice; /* bytes from layer to layer */
    uint64_t width, height, depth;
} cpu_box_t;

/* A fill writes `value`, 1, 2 or 4 bytes wide; width is a multiple of that, dst aligned to it. */
typedef struct {
    uint64_t dst, pitch, width, height;
    uint32_t value;
    unsigned element;
} cpu_fill_t;

typedef enum {
    CPU_COPY_ASYNC,  /* queue it; the memory stays valid until it is done */
    CPU_COPY_STAGED, /* queue it, but read the source before returning */
    CPU_COPY_WAIT,   /* return when it is done */
} cpu_copy_mode_t;

/* Copies in stream order. An empty box does nothing. A short copy into an idle stream is done by the
 * calling thread at once. */
CUresult cpu_copy(cpu_stream_t *stream, const cpu_box_t *box, cpu_copy_mode_t mode);

/* Fills in stream order, not waiting unless `wait`. */
CUresult cpu_fill(cpu_stream_t *stream, const cpu_fill_t *fill, bool wait);

#endif
