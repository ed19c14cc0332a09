/* cpu_heap.h - hands out pieces of a reserved window of address space.
 *
 * Pages are inaccessible until a piece lies on them, and go back to the system when the last piece
 * on their 64 KiB block is gone: a wild access faults, freed memory is free. One block, the last that
 * became empty by itself, stays open, so that a small piece that comes and goes costs no system call.
 * Locking is the caller's. */
#ifndef CPU_HEAP_H
#define CPU_HEAP_H

#include <stdint.h>

#include "common/core/gb_status.h"
#include "gpu-proxy/cpu/driver/cpu_tree.h"

enum { CPU_HEAP_ALIGN = 256, CPU_HEAP_BLOCK = 64 << 10 };

typedef struct {
    uint64_t base, size;
    cpu_tree_t free;   /* of extents */
    uint32_t *touches; /* per block of 64 KiB: pieces that lie on it */
    uint64_t kept;     /* a block that nothing lies on and that is open still, + 1; 0: none */
    void *spares;      /* an extent for each piece, so that giving it back needs no memory */
} cpu_heap_t;

/* Manages [base, base + size), which the caller has reserved with PROT_NONE; both multiples of 64
 * KiB. */
gb_status_t cpu_heap_init(cpu_heap_t *heap, uint64_t base, uint64_t size);

void cpu_heap_close(cpu_heap_t *heap);

/* A piece of `size` bytes (a multiple of CPU_HEAP_ALIGN, not 0) aligned to `align` (a power of two
 * >= CPU_HEAP_ALIGN), readable and writable. GB_ERR_NO_MEMORY if no hole is large enough. */
gb_status_t cpu_heap_take(cpu_heap_t *heap, uint64_t size, uint64_t align, uint64_t *base);

/* Gives a whole piece back; base and size as taken. */
void cpu_heap_give(cpu_heap_t *heap, uint64_t base, uint64_t size);

#endif
