/* cpu_managed.h - memory of managed variables: of one library or module, the same for all devices.
 *
 * It lies outside the arena, each time at another place of a part of the address space that nothing else
 * is likely to use: a program whose device is elsewhere has its variables at the very same addresses, and
 * may have those of several devices. Thread-safe. */
#ifndef CPU_MANAGED_H
#define CPU_MANAGED_H

#include <stdint.h>

#include "common/cuda/gb_cuda.h"

typedef struct {
    _Atomic uint32_t refs;
    uint64_t base;
} cpu_managed_t;

/* `bytes` of zeros, of the kind CPU_MEMORY_MANAGED_VARIABLE, which count against the device's limit; the
 * caller has the only reference. CUDA_ERROR_OUT_OF_MEMORY. */
CUresult cpu_managed_open(int device, uint64_t bytes, cpu_managed_t **managed);

void cpu_managed_ref(cpu_managed_t *managed);

/* The last one gives the memory back. NULL is fine. */
void cpu_managed_put(cpu_managed_t *managed);

#endif
