/* helpers_lane.h - what the files with helpers share: one lane's access, checked. */
#ifndef CPU_HELPERS_LANE_H
#define CPU_HELPERS_LANE_H

#include "gpu-proxy/cpu/jit/helpers.h"
#include "gpu-proxy/cpu/ptx/ptx_ir.h"

/* Host pointer of a lane's access; NULL after the fault is recorded in launch->fault. */
void *cpu_lane_pointer(cpu_launch_t *launch, uint64_t address, cpu_access_t access, uint32_t strip,
                       unsigned lane);

/* The same for a stretch of `bytes` that need not be a power of two, aligned to `align`. */
void *cpu_lane_stretch(cpu_launch_t *launch, uint64_t address, uint64_t bytes, uint64_t align,
                       unsigned space, bool write, uint32_t strip, unsigned lane);

/* The same without a word on failure, for the places where most accesses are: NULL means look again. */
static inline void *cpu_lane_quick(const cpu_launch_t *launch, uint64_t address, uint64_t bytes,
                                   uint64_t align, unsigned space)
{
    uint64_t at = address, room = launch->window_bytes;
    if (space == PTX_SPACE_SHARED) {
        room = launch->shared_bytes;
        address += (uintptr_t)launch->shared;
    } else {
        at -= launch->window_base;
    }
    bool fine = room >= bytes && at <= room - bytes && (address & (align - 1)) == 0;
    return fine ? (void *)(uintptr_t)address : NULL;
}

/* One atomic operation on a cell of 2, 4 or 8 bytes; gives the old value. */
uint64_t cpu_atomic_cell(void *cell, uint32_t mode, uint32_t type, uint64_t a, uint64_t b);
/* The same on an f16 (bf16): add, min, max. */
uint16_t cpu_atomic_half(void *cell, uint32_t mode, bool bf16, uint16_t v);

/* helpers_atomic.c, helpers_async.c, helpers_mma.c */
int32_t cpu_help_atomic_rare(cpu_launch_t *launch, const void *what, uint32_t mask, uint32_t strip,
                             uint8_t *slots);
int32_t cpu_help_async(cpu_launch_t *launch, const void *what, uint32_t mask, uint32_t strip,
                       uint8_t *slots);
int32_t cpu_help_matrix(cpu_launch_t *launch, const void *what, uint32_t mask, uint32_t strip,
                        uint8_t *slots);

/* helpers_runtime.c */
int32_t cpu_help_runtime(cpu_launch_t *launch, const void *what, uint32_t mask, uint32_t strip,
                         uint8_t *slots);

#endif
