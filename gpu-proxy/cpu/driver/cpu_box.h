/* cpu_box.h - where the sides of a copy lie: memory with a pitch, or a CUDA array. */
#ifndef CPU_BOX_H
#define CPU_BOX_H

#include "gpu-proxy/cpu/driver/cpu_array.h"
#include "gpu-proxy/cpu/driver/cpu_copy.h"

typedef struct {
    CUmemorytype type;
    uint64_t host, device;
    size_t x, y, z, pitch, height; /* bytes, rows, layers; of the whole memory */
    CUarray handle;
    cpu_array_t *array; /* referenced from placing to cpu_side_drop */
} cpu_side_t;

/* Memory of the program's that nobody told the device about. */
bool cpu_is_pageable(uint64_t address);

/* Checks both sides and finds the addresses. CUDA_ERROR_INVALID_VALUE, _INVALID_HANDLE; then both sides
 * have been dropped. Empty boxes have no addresses. */
CUresult cpu_box_place(cpu_side_t *dst, cpu_side_t *src, size_t width, size_t height, size_t depth,
                       cpu_box_t *box);

/* The same for a description of the driver API. */
CUresult cpu_box_describe(const CUDA_MEMCPY3D *copy, cpu_side_t *dst, cpu_side_t *src,
                          cpu_box_t *box);

void cpu_side_drop(cpu_side_t *side);

#endif
