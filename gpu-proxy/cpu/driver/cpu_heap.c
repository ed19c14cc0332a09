#include "gpu-proxy/cpu/driver/cpu_heap.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "gpu-proxy/cpu/driver/cpu_shared.h"

enum { BLOCK_SHIFT = 16 };

typedef struct extent {
    cpu_node_t node;
    struct extent *next; /* of the spares */
} extent_t;

static int add_spare(cpu_heap_t *heap)
{
    extent_t *extent = calloc(1, sizeof(*extent));
    if (!extent)
        return 0;
    extent->next = heap->spares;
    heap->spares = extent;
    return 1;
}

static extent_t *take_spare(cpu_heap_t *heap)
{
    extent_t *extent = heap->spares;
    heap->spares = extent->next;
    return extent;
}

static void add_extent(cpu_heap_t *heap, uint64_t base, uint64_t size)
{
    extent_t *extent = take_spare(heap);
    extent->node.base = base;
    extent->node.size = size;
    cpu_tree_insert(&heap->free, &extent->node);
}

static void drop_extent(cpu_heap_t *heap, cpu_node_t *node)
{
    cpu_tree_remove(&heap->free, node);
    free(node);
}

gb_status_t cpu_heap_init(cpu_heap_t *heap, uint64_t base, uint64_t size)
{
    *heap = (cpu_heap_t){.base = base, .size = size};
    /* Mapped lazily by the system: costs nothing until used. */
    heap->touches = calloc(size >> BLOCK_SHIFT, sizeof(*heap->touches));
    if (!heap->touches || !add_spare(heap)) {
        free(heap->touches);
        return gb_fail(GB_ERR_NO_MEMORY, "no memory to manage a device window");
    }
    add_extent(heap, base, size);
    return GB_OK;
}

void cpu_heap_close(cpu_heap_t *heap)
{
    while (heap->free.root)
        drop_extent(heap, heap->free.root);
    while (heap->spares)
        free(take_spare(heap));
    free(heap->touches);
    heap->touches = NULL;
}

static int open_blocks(const cpu_heap_t *heap, uint64_t first, uint64_t count)
{
    return mprotect((void *)(heap->base + (first << BLOCK_SHIFT)), count << BLOCK_SHIFT,
                    PROT_READ | PROT_WRITE);
}

static void close_blocks(const cpu_heap_t *heap, uint64_t first, uint64_t count)
{
    void *at = (void *)(heap->base + (first << BLOCK_SHIFT));
    if (cpu_shared_drop((uint64_t)at, count << BLOCK_SHIFT))
        return;
    madvise(at, count << BLOCK_SHIFT, MADV_DONTNEED);
    mprotect(at, count << BLOCK_SHIFT, PROT_NONE);
}

/* A single block stays open in place of the one that did before. */
static void close_run(cpu_heap_t *heap, uint64_t first, uint64_t count)
{
    uint64_t old = heap->kept;
    if (count > 1 || cpu_shared_drop(heap->base + (first << BLOCK_SHIFT), CPU_HEAP_BLOCK)) {
        close_blocks(heap, first, count);
        return;
    }
    heap->kept = first + 1;
    if (old)
        close_blocks(heap, old - 1, 1);
}

/* Drops a touch of the blocks [first, end); those that nothing lies on any more are closed, in runs. */
static void untouch(cpu_heap_t *heap, uint64_t first, uint64_t end)
{
    uint64_t run = 0;
    for (uint64_t block = first; block < end; block++) {
        if (--heap->touches[block] == 0) {
            run++;
        } else if (run) {
            close_run(heap, block - run, run);
            run = 0;
        }
    }
    if (run)
        close_run(heap, end - run, run);
}

static int touch(cpu_heap_t *heap, uint64_t first, uint64_t end)
{
    uint64_t run = 0;
    int error = 0;
    for (uint64_t block = first; block < end; block++) {
        bool open = heap->touches[block]++ != 0 || heap->kept == block + 1;
        if (heap->kept == block + 1)
            heap->kept = 0;
        if (!open) {
            run++;
        } else if (run) {
            error |= open_blocks(heap, block - run, run);
            run = 0;
        }
    }
    if (run)
        error |= open_blocks(heap, end - run, run);
    if (error)
        untouch(heap, first, end);
    return error;
}

static uint64_t block_of(const cpu_heap_t *heap, uint64_t address)
{
    return (address - heap->base) >> BLOCK_SHIFT;
}

/* A hole may be large enough and yet not hold an aligned piece: then one of size + align does. */
static cpu_node_t *find_hole(const cpu_heap_t *heap, uint64_t size, uint64_t align, uint64_t *at)
{
    cpu_node_t *hole = cpu_tree_fit(&heap->free, size);
    if (!hole)
        return NULL;
    *at = (hole->base + align - 1) & ~(align - 1);
    if (*at - hole->base <= hole->size - size)
        return hole;
    hole = cpu_tree_fit(&heap->free, size + align - CPU_HEAP_ALIGN);
    if (hole)
        *at = (hole->base + align - 1) & ~(align - 1);
    return hole;
}

gb_status_t cpu_heap_take(cpu_heap_t *heap, uint64_t size, uint64_t align, uint64_t *base)
{
    uint64_t at;
    if (size > heap->size)
        return GB_ERR_NO_MEMORY;
    cpu_node_t *hole = find_hole(heap, size, align, &at);
    if (!hole)
        return GB_ERR_NO_MEMORY;
    uint64_t hole_base = hole->base, hole_size = hole->size;
    extent_t *tail = NULL;
    uint64_t tail_size = hole_base + hole_size - (at + size);
    if (tail_size && at > hole_base) {
        tail = calloc(1, sizeof(*tail));
        if (!tail)
            return GB_ERR_NO_MEMORY;
    }
    if (!add_spare(heap)) {
        free(tail);
        return GB_ERR_NO_MEMORY;
    }
    if (touch(heap, block_of(heap, at), block_of(heap, at + size - 1) + 1)) {
        free(take_spare(heap));
        free(tail);
        return GB_ERR_NO_MEMORY;
    }
    cpu_tree_remove(&heap->free, hole);
    if (at > hole_base) { /* what stays in front keeps the node */
        hole->size = at - hole_base;
        cpu_tree_insert(&heap->free, hole);
        hole = tail ? &tail->node : NULL;
    } else if (!tail_size) {
        free(hole);
        hole = NULL;
    }
    if (hole) {
        hole->base = at + size;
        hole->size = tail_size;
        cpu_tree_insert(&heap->free, hole);
    }
    *base = at;
    return GB_OK;
}

void cpu_heap_give(cpu_heap_t *heap, uint64_t base, uint64_t size)
{
    untouch(heap, block_of(heap, base), block_of(heap, base + size - 1) + 1);
    cpu_node_t *below = cpu_tree_floor(&heap->free, base);
    cpu_node_t *above = cpu_tree_ceiling(&heap->free, base);
    if (above && above->base == base + size) {
        size += above->size;
        drop_extent(heap, above);
    }
    if (below && below->base + below->size == base) {
        cpu_tree_remove(&heap->free, below);
        below->size += size;
        cpu_tree_insert(&heap->free, below);
        free(take_spare(heap));
    } else {
        add_extent(heap, base, size);
    }
}
