/* rc_mirror.h - registered host memory that kernels reach: it stays the program's own, and has a copy at the
 * session, whose address is its device address. The two are made alike at the same moments as shared
 * pages (rc_shared.h); a third copy here tells which side has changed what. Thread-safe. */
#ifndef RC_MIRROR_H
#define RC_MIRROR_H

#include "gpu-proxy/client/rc_call.h"

/* The device address of registered memory, which gets its copy with the first. */
CUresult rc_mirror_open(rc_call_t *call, const rc_block_t *block, CUdeviceptr *device);

/* Has it one? */
int rc_mirror_is_open(uint64_t host);

/* The memory is not registered any more: ends its copy, if it has one. */
CUresult rc_mirror_close(const rc_block_t *block);

/* What the program has changed goes to the session; what the device has changed comes from there. */
void rc_mirror_send(rc_session_t *session, rc_lane_t *lane);
void rc_mirror_fetch(rc_session_t *session, rc_lane_t *lane);

/* Forgets those of a context that ends. */
void rc_mirror_drop(const rc_object_t *context);

#endif
