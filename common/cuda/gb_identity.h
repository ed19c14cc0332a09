/* gb_identity.h - how a libcuda.so.1 of ours says what it is.
 *
 * cuGetExportTable with GB_IDENTITY_UUID gives a gb_identity_t, from the software device and from the
 * shim alike, before and after cuInit. NVIDIA's export tables are neither offered nor relayed: every
 * other id answers CUDA_ERROR_INVALID_VALUE. */
#ifndef GB_IDENTITY_H
#define GB_IDENTITY_H

#include "common/cuda/gb_cuda.h"

typedef struct {
    uint32_t size;       /* of this structure in bytes */
    uint32_t version;    /* 2 */
    const char *kind;    /* "gable-cpu" or "gable-remote" */
    const char *release; /* version of the tree it was built from */
    /* Version 2: ends the connections to all proxies now, as the end of the process does; every later
     * call answers CUDA_ERROR_DEINITIALIZED. NULL where there are none. */
    void (*leave)(void);
} gb_identity_t;

extern const CUuuid gb_identity_uuid;
extern const CUuuid gb_exchange_uuid;
extern const CUuuid gb_beside_uuid;
extern const CUuuid gb_travel_uuid;

#endif
