/* cpu_advice.h - what programs have said about ranges of managed memory.
 *
 * Advice changes nothing here, since managed memory lies where everyone reaches it; but a program may
 * ask for what it has said. Thread-safe. */
#ifndef CPU_ADVICE_H
#define CPU_ADVICE_H

#include <stddef.h>

#include "gpu-proxy/cpu/driver/cpu_driver.h"

/* The range is managed memory. CUDA_ERROR_INVALID_VALUE, _INVALID_DEVICE. */
CUresult cpu_advice_set(uint64_t base, uint64_t bytes, CUmem_advise advice,
                        const CUmemLocation *location);
CUresult cpu_advice_prefetched(uint64_t base, uint64_t bytes, const CUmemLocation *location);

/* One attribute of the range: what holds for all of it. */
CUresult cpu_advice_get(uint64_t base, uint64_t bytes, CUmem_range_attribute attribute, void *data,
                        size_t size);

/* The memory is freed. */
void cpu_advice_forget(uint64_t base, uint64_t bytes);

#endif
