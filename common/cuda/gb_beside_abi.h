/* gb_beside_abi.h - host functions that do not wait for each other.
 *
 * CUDA may run host functions one after the other, whatever streams they are in, and drivers do: one that
 * waits holds up all. cuGetExportTable(&table, &gb_beside_uuid) gives a gb_beside_table_t where the loaded
 * libcuda is the software device, CUDA_ERROR_INVALID_VALUE anywhere else. */
#ifndef GB_BESIDE_ABI_H
#define GB_BESIDE_ABI_H

#include "common/cuda/gb_cuda.h"
#include "common/cuda/gb_identity.h"

typedef struct {
    uint32_t size;    /* of this structure in bytes */
    uint32_t version; /* 1 */
    /* As cuLaunchHostFunc, but functions of different streams may run at the same time. Not in a stream
     * that is being captured (CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED). Thread-safe. */
    CUresult (*launch)(CUstream stream, CUhostFn function, void *data);
} gb_beside_table_t;

#endif
