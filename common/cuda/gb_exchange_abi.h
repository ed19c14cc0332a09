/* gb_exchange_abi.h - how the exchange library hands its calls to the session through the shim.
 *
 * cuGetExportTable(&table, &gb_exchange_uuid) gives a gb_exchange_table_t where the loaded libcuda is
 * the shim, CUDA_ERROR_INVALID_VALUE anywhere else. The request's bytes are opaque to the shim; device
 * addresses in them are the same numbers at the session. */
#ifndef GB_EXCHANGE_ABI_H
#define GB_EXCHANGE_ABI_H

#include "common/cuda/gb_cuda.h"
#include "common/cuda/gb_identity.h"

/* Wait for the reply on the calling thread's lane; without it the call is queued in program order like
 * a launch, rsp must be NULL, and an error sticks to the context. */
#define GB_EXCHANGE_BLOCKING 1

/* Most bytes of a request and of a reply. */
#define GB_EXCHANGE_MAX_REQUEST (1u << 20)
#define GB_EXCHANGE_MAX_REPLY (64u << 10)

typedef struct {
    uint32_t size;    /* of this structure in bytes */
    uint32_t version; /* 1 */
    /* Hands `req` for operation `op` to the exchange engine of the session that owns the calling
     * thread's current context; `stream` is a stream of that context (or a default stream).
     * *rsp_len is the length of the answer, at most rsp_cap. Thread-safe. */
    CUresult (*call)(uint32_t op, CUstream stream, const void *req, uint32_t req_len, void *rsp,
                     uint32_t rsp_cap, uint32_t *rsp_len, int flags);
} gb_exchange_table_t;

#endif
