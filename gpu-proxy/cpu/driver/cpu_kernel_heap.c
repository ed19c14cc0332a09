#include "gpu-proxy/cpu/driver/cpu_kernel_heap.h"

#include <stdlib.h>

#include "gpu-proxy/cpu/driver/cpu_context.h"
#include "gpu-proxy/cpu/driver/cpu_memory.h"

enum { UNIT = 32 };

void cpu_kernel_heap_init(cpu_kernel_heap_t *heap)
{
    *heap = (cpu_kernel_heap_t){0};
    pthread_mutex_init(&heap->lock, NULL);
}

void cpu_kernel_heap_destroy(cpu_kernel_heap_t *heap)
{
    pthread_mutex_destroy(&heap->lock);
    free(heap->size);
    free(heap->order);
    free(heap->next);
    free(heap->prev);
}

/* ---- free blocks: 2^order units, at a multiple of that ---- */

static void link_block(cpu_kernel_heap_t *h, uint32_t at, unsigned order)
{
    uint32_t first = h->free[order];
    h->order[at] = (uint8_t)(order + 1);
    h->prev[at] = 0;
    h->next[at] = first;
    if (first)
        h->prev[first - 1] = at + 1;
    h->free[order] = at + 1;
}

static void unlink_block(cpu_kernel_heap_t *h, uint32_t at)
{
    unsigned order = h->order[at] - 1u;
    h->order[at] = 0;
    if (h->prev[at])
        h->next[h->prev[at] - 1] = h->next[at];
    else
        h->free[order] = h->next[at];
    if (h->next[at])
        h->prev[h->next[at] - 1] = h->prev[at];
}

static void free_block(cpu_kernel_heap_t *h, uint32_t at, unsigned order)
{
    while (order + 1 < CPU_KERNEL_HEAP_ORDERS) { /* joined with its buddy as long as that is free */
        uint64_t buddy = (uint64_t)at ^ ((uint64_t)1 << order);
        if (buddy >= h->units || h->order[buddy] != order + 1)
            break;
        unlink_block(h, (uint32_t)buddy);
        at = at < buddy ? at : (uint32_t)buddy;
        order++;
    }
    link_block(h, at, order);
}

/* Frees any run of units, as blocks. */
static void free_run(cpu_kernel_heap_t *h, uint32_t at, uint32_t units)
{
    while (units) {
        unsigned order = at ? (unsigned)__builtin_ctz(at) : CPU_KERNEL_HEAP_ORDERS - 1;
        unsigned most = 31u - (unsigned)__builtin_clz(units);
        order = order < most ? order : most;
        free_block(h, at, order);
        at += 1u << order;
        units -= 1u << order;
    }
}

static bool make(cpu_kernel_heap_t *h, cpu_context_t *context, uint64_t limit)
{
    uint64_t units = limit / UNIT * 2;
    h->tried = true;
    if (units == 0 || units > UINT32_MAX / 2 ||
        cpu_memory_alloc(CPU_MEMORY_GLOBAL, context->device->index, context, units * UNIT, 0,
                         &h->base))
        return false;
    h->size = calloc(units, sizeof(*h->size));
    h->order = calloc(units, sizeof(*h->order));
    h->next = calloc(units, sizeof(*h->next));
    h->prev = calloc(units, sizeof(*h->prev));
    if (!h->size || !h->order || !h->next || !h->prev) {
        (void)cpu_memory_free(CPU_MEMORY_GLOBAL, h->base);
        h->base = 0;
        return false;
    }
    h->units = (uint32_t)units;
    h->left = (uint32_t)(units / 2);
    free_run(h, 0, h->units);
    return true;
}

static uint64_t take(cpu_kernel_heap_t *h, uint32_t units)
{
    unsigned order = units > 1 ? 32u - (unsigned)__builtin_clz(units - 1) : 0;
    while (order < CPU_KERNEL_HEAP_ORDERS && !h->free[order])
        order++;
    if (order == CPU_KERNEL_HEAP_ORDERS)
        return 0;
    uint32_t at = h->free[order] - 1;
    unlink_block(h, at);
    h->size[at] = units;
    h->left -= units;
    free_run(h, at + units, (uint32_t)(((uint64_t)1 << order) - units));
    return h->base + (uint64_t)at * UNIT;
}

uint64_t cpu_kernel_heap_take(cpu_kernel_heap_t *heap, cpu_context_t *context, uint64_t bytes,
                              uint64_t limit)
{
    uint64_t address = 0;
    pthread_mutex_lock(&heap->lock);
    if (heap->base || (!heap->tried && make(heap, context, limit))) {
        if (bytes && bytes <= (uint64_t)heap->left * UNIT)
            address = take(heap, (uint32_t)((bytes + UNIT - 1) / UNIT));
    }
    pthread_mutex_unlock(&heap->lock);
    return address;
}

void cpu_kernel_heap_give(cpu_kernel_heap_t *heap, uint64_t address)
{
    pthread_mutex_lock(&heap->lock);
    uint64_t offset = address - heap->base;
    if (heap->base && offset % UNIT == 0 && offset / UNIT < heap->units &&
        heap->size[offset / UNIT]) {
        uint32_t at = (uint32_t)(offset / UNIT), units = heap->size[at];
        heap->size[at] = 0;
        heap->left += units;
        free_run(heap, at, units);
    }
    pthread_mutex_unlock(&heap->lock);
}

bool cpu_kernel_heap_in_use(cpu_kernel_heap_t *heap)
{
    pthread_mutex_lock(&heap->lock);
    bool in_use = heap->tried;
    pthread_mutex_unlock(&heap->lock);
    return in_use;
}
