#include "server/params/ps_buf.h"

#include <stdlib.h>
#include <string.h>

ps_buf_t *ps_buf_new(uint32_t elements)
{
    size_t bytes = offsetof(ps_buf_t, data) + (size_t)elements * sizeof(float);
    bytes = (bytes + 63) / 64 * 64;
    ps_buf_t *buf = aligned_alloc(64, bytes);
    if (!buf)
        return NULL;
    memset(buf, 0, bytes);
    atomic_init(&buf->refs, 1);
    buf->elements = elements;
    return buf;
}

ps_buf_t *ps_buf_ref(ps_buf_t *buf)
{
    atomic_fetch_add_explicit(&buf->refs, 1, memory_order_relaxed);
    return buf;
}

void ps_buf_unref(ps_buf_t *buf)
{
    if (buf && atomic_fetch_sub_explicit(&buf->refs, 1, memory_order_acq_rel) == 1)
        free(buf);
}

int ps_buf_mine(const ps_buf_t *buf)
{
    /* acquire: what a former holder read happens before our next write */
    return atomic_load_explicit(&buf->refs, memory_order_acquire) == 1;
}
