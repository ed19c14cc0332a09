/* cpu_kernel_heap.h - the heap that kernels have with malloc and free, one per context. Thread-safe.
 *
 * A buddy allocator over one piece of device memory, made when a kernel first asks. What it knows
 * lies outside of that memory, so that a kernel that writes past its allocation cannot confuse it,
 * and an address that is no allocation is ignored by free. Allocations live until they are freed or
 * the context ends. */
#ifndef CPU_KERNEL_HEAP_H
#define CPU_KERNEL_HEAP_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct cpu_context cpu_context_t;

enum { CPU_KERNEL_HEAP_ORDERS = 40 };

typedef struct {
    pthread_mutex_t lock; /* of the following */
    bool tried;           /* to get the memory */
    uint64_t base;        /* 0: none */
    uint32_t units;       /* of 32 bytes; twice what may be handed out, against fragmentation */
    uint32_t left;        /* units that may still be handed out */
    uint32_t *size;       /* per unit: of the allocation that begins here, in units; 0: none */
    uint8_t *order;       /* per unit: 1 + order of the free block that begins here; 0: none */
    uint32_t *next, *prev;
    uint32_t free[CPU_KERNEL_HEAP_ORDERS]; /* first free block of each order, + 1 */
} cpu_kernel_heap_t;

void cpu_kernel_heap_init(cpu_kernel_heap_t *heap);
void cpu_kernel_heap_destroy(cpu_kernel_heap_t *heap);

/* An address aligned to 32, or 0. `limit`: bytes of the heap, used when it is made in the context. */
uint64_t cpu_kernel_heap_take(cpu_kernel_heap_t *heap, cpu_context_t *context, uint64_t bytes,
                              uint64_t limit);
void cpu_kernel_heap_give(cpu_kernel_heap_t *heap, uint64_t address);

/* Whether the heap exists: then its size is settled. */
bool cpu_kernel_heap_in_use(cpu_kernel_heap_t *heap);

#endif
