/* ps_buf.h - a counted array of floats: weights, optimizer state or one worker's gradient of a chunk.
 *
 * Weights are replaced, not changed, while anybody else holds them: a sender or a checkpoint keeps a
 * reference and sees one version to the end. References may be taken and dropped by any thread; the
 * content is written only by the chunk's owner thread while it holds the one reference. */
#ifndef PS_BUF_H
#define PS_BUF_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    atomic_uint refs;
    uint32_t elements;
    _Alignas(64) float data[];
} ps_buf_t;

/* Zeroed, one reference, data aligned to 64 bytes. NULL: out of memory. */
ps_buf_t *ps_buf_new(uint32_t elements);
ps_buf_t *ps_buf_ref(ps_buf_t *buf);

/* NULL is fine. */
void ps_buf_unref(ps_buf_t *buf);

/* 1 if the caller's reference is the only one: the content may be changed in place. */
int ps_buf_mine(const ps_buf_t *buf);

#endif
