/* gb_travel_abi.h - handles of events for processes that do not find each other in /proc.
 *
 * An event of several processes (CU_EVENT_INTERPROCESS) of the software device lies in a file, which its
 * handle names as a descriptor of the process that made it. Where somebody carries that descriptor to the
 * other process, the handle is made to name it there. cuGetExportTable(&table, &gb_travel_uuid) gives a
 * gb_travel_table_t where the loaded libcuda is the software device, CUDA_ERROR_INVALID_VALUE anywhere else. */
#ifndef GB_TRAVEL_ABI_H
#define GB_TRAVEL_ABI_H

#include "common/cuda/gb_cuda.h"
#include "common/cuda/gb_identity.h"

typedef struct {
    uint32_t size;    /* of this structure in bytes */
    uint32_t version; /* 1 */
    /* The descriptor that a handle of this process names; it stays the device's. -1: it is no such
     * handle. */
    int (*descriptor)(const CUipcEventHandle *handle);
    /* The handle of another process names this process's descriptor from now on. It must stay open until
     * cuIpcOpenEventHandle has returned. */
    void (*adopt)(CUipcEventHandle *handle, int descriptor);
} gb_travel_table_t;

#endif
