/* rc_shared.h - memory that program and kernels use at the same addresses: managed memory, and page-locked
 * memory that kernels are given.
 *
 * It lies in one zone of this process and, at the same addresses, in a session. A page is either the
 * program's (it has written it: newer here), or both's (read here, the same there), or the device's (it
 * cannot be touched here). Before a frame that makes the device work, pages of the program's travel and all
 * become the device's; a touch brings one back, with its neighbours. So it is coherent at launches and at
 * calls that wait, and only what is used travels.
 *
 * Page-locked memory is the program's alone until its device address is asked for or seen where kernels may find
 * it: among their parameters, in bytes that are copied to the device, in shared pages that the program has
 * written. Then it is "opened", and is kept as above.
 *
 * Thread-safe. The lock of this file comes before those of sessions; who holds one of the latter does not
 * touch the program's memory. */
#ifndef RC_SHARED_H
#define RC_SHARED_H

#include "gpu-proxy/client/rc_call.h"

/* `bytes` in pages of their own in the context of `call`. With `open` the session has them from the
 * beginning. CUDA_ERROR_OUT_OF_MEMORY. */
CUresult rc_shared_alloc(rc_call_t *call, uint64_t bytes, int open, uint64_t *address);

/* Ends the allocation that starts at `address`; what uses it at the session has been waited for. */
void rc_shared_free(uint64_t address);

/* The same for a block that was taken out of the table: waits for what may use it first. */
CUresult rc_shared_release(const rc_block_t *block);

/* Device memory of the context that lies outside the zone, where the device has put it: the program reaches
 * it at the same addresses from now on. CUDA_ERROR_MAP_FAILED: something else lies there. */
CUresult rc_shared_adopt(rc_object_t *context, uint64_t start, uint64_t size);
/* Ends that for the memory that the address lies in. */
void rc_shared_disown(uint64_t address);

/* Memory of the zone is opened if it is not; anything else is left alone. */
CUresult rc_shared_open(uint64_t address);
/* The same for every address among the words of a kernel's parameters. */
CUresult rc_shared_open_all(const void *parameters, size_t bytes);
/* The same for bytes that go to device memory at `dst`, where words lie at multiples of 8. A copy of more than
 * RC_SHARED_SEEN bytes in all need not be looked through. */
enum { RC_SHARED_SEEN = 64 << 10 };
CUresult rc_shared_open_copied(uint64_t dst, const void *bytes, size_t size);

/* 1 if the address lies in opened memory. */
int rc_shared_is_open(uint64_t address);

/* What the context has ends with it. */
void rc_shared_drop(const rc_object_t *context);

/* Around the frames of a session; both cost one load while no page is here. */
void rc_shared_before(rc_session_t *session, rc_lane_t *lane, uint16_t op);
void rc_shared_after(rc_session_t *session, uint16_t op, CUresult result);

#endif
