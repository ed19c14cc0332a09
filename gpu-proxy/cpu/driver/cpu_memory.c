#include "gpu-proxy/cpu/driver/cpu_memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>

#include "common/core/gb_log.h"
#include "gpu-proxy/cpu/driver/cpu_driver.h"
#include "gpu-proxy/cpu/driver/cpu_heap.h"

#define WINDOW_ALIGN ((uint64_t)2 << 20)
#define WINDOW_MIN ((uint64_t)1 << 30)
#define MAIN_RANGE ((uint64_t)64 << 20) /* what a session reserves is larger */

typedef struct {
    pthread_mutex_t lock;
    cpu_heap_t heap;
} window_t;

typedef struct {
    cpu_node_t node;
} range_node_t;

static struct {
    pthread_rwlock_t lock; /* of the map and the ranges */
    cpu_tree_t map;        /* of cpu_memory_t */
    cpu_tree_t opened;     /* of range_node_t */
    cpu_ranges_t *ranges;
    _Atomic uint64_t version; /* of ranges */
    uint64_t arena, arena_bytes;
    window_t windows[CPU_MAX_DEVICES + 1]; /* the last one in use is the host's */
    int devices;
    uint64_t limit;
    _Atomic uint64_t used[CPU_MAX_DEVICES];
    _Atomic uint64_t ids;
} memory = {.lock = PTHREAD_RWLOCK_INITIALIZER};

static uint64_t round_up(uint64_t value, uint64_t align)
{
    return (value + align - 1) & ~(align - 1);
}

/* Under the write lock: makes the table of ranges anew. */
static CUresult publish_ranges(void)
{
    uint64_t count = 1 + memory.opened.count;
    for (const cpu_node_t *node = cpu_tree_ceiling(&memory.map, 0); node;
         node = cpu_tree_ceiling(&memory.map, node->base + 1))
        count += ((const cpu_memory_t *)node)->kind == CPU_MEMORY_REGISTERED;
    cpu_ranges_t *table = malloc(sizeof(*table) + count * sizeof(table->ranges[0]));
    if (!table)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t used = 0, at = 0;
    cpu_range_t window = {0, 0};
    for (;;) { /* merges the three sorted sources */
        const cpu_node_t *opened = cpu_tree_ceiling(&memory.opened, at);
        const cpu_node_t *entry = cpu_tree_ceiling(&memory.map, at);
        while (entry && ((const cpu_memory_t *)entry)->kind != CPU_MEMORY_REGISTERED)
            entry = cpu_tree_ceiling(&memory.map, entry->base + 1);
        cpu_range_t next = {UINT64_MAX, 0};
        if (memory.arena >= at)
            next = (cpu_range_t){memory.arena, memory.arena_bytes};
        if (opened && opened->base < next.base) {
            next = (cpu_range_t){opened->base, opened->size};
            if (next.bytes > window.bytes && next.bytes >= MAIN_RANGE)
                window = next;
        }
        if (entry && entry->base < next.base)
            next = (cpu_range_t){entry->base, entry->size};
        if (next.bytes == 0)
            break;
        table->ranges[used++] = next;
        at = next.base + next.bytes;
    }
    atomic_init(&table->refs, 1);
    table->count = used;
    table->window = window.bytes ? window : (cpu_range_t){memory.arena, memory.arena_bytes};
    table->version = atomic_load(&memory.version) + 1;
    cpu_ranges_t *old = memory.ranges;
    memory.ranges = table;
    atomic_store_explicit(&memory.version, table->version, memory_order_release);
    if (old && atomic_fetch_sub(&old->refs, 1) == 1)
        free(old);
    return CUDA_SUCCESS;
}

static CUresult reserve_arena(uint64_t device_bytes, uint64_t host_bytes)
{
    for (;;) {
        uint64_t bytes = device_bytes * (uint64_t)memory.devices + host_bytes;
        void *at = mmap(NULL, bytes + WINDOW_ALIGN, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at != MAP_FAILED) {
            madvise(at, bytes + WINDOW_ALIGN, MADV_HUGEPAGE);
            madvise(at, bytes + WINDOW_ALIGN, MADV_DONTDUMP);
            memory.arena = round_up((uint64_t)at, WINDOW_ALIGN);
            memory.arena_bytes = bytes;
            break;
        }
        if (device_bytes / 2 < memory.limit) {
            gb_log(GB_LOG_ERROR,
                   "cannot reserve address space for %llu bytes of device memory: "
                   "lower GABLE_CPU_MEMORY or raise the limit of address space",
                   (unsigned long long)memory.limit);
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        device_bytes = round_up(device_bytes / 2, WINDOW_ALIGN);
        host_bytes = round_up(host_bytes / 2, WINDOW_ALIGN);
    }
    uint64_t base = memory.arena;
    for (int i = 0; i <= memory.devices; i++) {
        uint64_t size = i < memory.devices ? device_bytes : host_bytes;
        pthread_mutex_init(&memory.windows[i].lock, NULL);
        if (cpu_heap_init(&memory.windows[i].heap, base, size) != GB_OK)
            return CUDA_ERROR_OUT_OF_MEMORY;
        base += size;
    }
    return CUDA_SUCCESS;
}

CUresult cpu_memory_open(int devices, uint64_t limit)
{
    struct sysinfo info;
    sysinfo(&info);
    uint64_t host = round_up((uint64_t)info.totalram * info.mem_unit * 2, WINDOW_ALIGN);
    memory.devices = devices;
    memory.limit = limit;
    /* Addresses cost nothing: room enough that fragmentation never eats into the limit. */
    uint64_t device = round_up(limit * 4, WINDOW_ALIGN);
    CUresult result = reserve_arena(device < WINDOW_MIN ? WINDOW_MIN : device, host);
    return result ? result : publish_ranges();
}

void cpu_memory_usage(int device, uint64_t *used, uint64_t *limit)
{
    *used = atomic_load(&memory.used[device]);
    *limit = memory.limit;
}

CUresult cpu_memory_charge(int device, uint64_t bytes)
{
    uint64_t used = atomic_load(&memory.used[device]);
    do {
        if (bytes > memory.limit || used > memory.limit - bytes)
            return CUDA_ERROR_OUT_OF_MEMORY;
    } while (!atomic_compare_exchange_weak(&memory.used[device], &used, used + bytes));
    return CUDA_SUCCESS;
}

void cpu_memory_uncharge(int device, uint64_t bytes)
{
    atomic_fetch_sub(&memory.used[device], bytes);
}

static window_t *window_of(cpu_memory_kind_t kind, int device)
{
    return &memory.windows[kind == CPU_MEMORY_HOST ? memory.devices : device];
}

/* What a piece takes of its window. */
typedef struct {
    uint64_t size, align;
} room_t;

/* Pieces can move into files one by one, so none shares blocks of the heap with others if it is large,
 * and none that is small lies on two. Managed memory never shares any: the host may write to it at any
 * time. Large pieces begin on a huge page, host memory on a page. */
static room_t room_of(cpu_memory_kind_t kind, uint64_t size)
{
    uint64_t align = CPU_HEAP_ALIGN;
    if (kind == CPU_MEMORY_HOST)
        return (room_t){size, size >= WINDOW_ALIGN ? WINDOW_ALIGN : 4096};
    if (size >= CPU_HEAP_BLOCK || kind == CPU_MEMORY_MANAGED) {
        size = round_up(size, CPU_HEAP_BLOCK);
        return (room_t){size, size >= WINDOW_ALIGN ? WINDOW_ALIGN : CPU_HEAP_BLOCK};
    }
    while (align < size)
        align *= 2;
    return (room_t){size, align};
}

/* Enters an entry into the map. */
static CUresult enter(cpu_memory_t *entry)
{
    CUresult result = CUDA_SUCCESS;
    entry->id = atomic_fetch_add(&memory.ids, 1) + 1;
    pthread_rwlock_wrlock(&memory.lock);
    if (cpu_tree_overlaps(&memory.map, entry->node.base, entry->node.size)) {
        result = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    } else {
        cpu_tree_insert(&memory.map, &entry->node);
        if (entry->kind == CPU_MEMORY_REGISTERED && publish_ranges() != CUDA_SUCCESS) {
            cpu_tree_remove(&memory.map, &entry->node);
            result = CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    pthread_rwlock_unlock(&memory.lock);
    return result;
}

CUresult cpu_memory_alloc(cpu_memory_kind_t kind, int device, cpu_context_t *context,
                          uint64_t bytes, unsigned flags, uint64_t *base)
{
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    if (bytes > memory.arena_bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t size = round_up(bytes, CPU_MEMORY_GRAIN), at;
    bool charged = kind != CPU_MEMORY_HOST;
    if (charged && cpu_memory_charge(device, size) != CUDA_SUCCESS)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cpu_memory_t *entry = calloc(1, sizeof(*entry));
    if (!entry)
        goto err_uncharge;
    window_t *window = window_of(kind, device);
    room_t room = room_of(kind, size);
    pthread_mutex_lock(&window->lock);
    gb_status_t status = cpu_heap_take(&window->heap, room.size, room.align, &at);
    pthread_mutex_unlock(&window->lock);
    if (status != GB_OK)
        goto err_entry;
    entry->node.base = at;
    entry->node.size = size;
    entry->kind = kind;
    entry->device = device;
    entry->context = context;
    entry->flags = flags;
    entry->asked = bytes;
    (void)enter(entry); /* the window's own addresses cannot overlap */
    *base = at;
    return CUDA_SUCCESS;

err_entry:
    free(entry);
err_uncharge:
    if (charged)
        cpu_memory_uncharge(device, size);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

/* Takes an entry out of the map; NULL if there is none of these kinds. */
static cpu_memory_t *leave(unsigned kinds, uint64_t base)
{
    pthread_rwlock_wrlock(&memory.lock);
    cpu_memory_t *entry = (cpu_memory_t *)cpu_tree_find(&memory.map, base);
    if (entry && (entry->node.base != base || !(entry->kind & kinds)))
        entry = NULL;
    if (entry) {
        cpu_tree_remove(&memory.map, &entry->node);
        /* Without memory for a new table the old one stays: it allows too much, never too little. */
        if (entry->kind == CPU_MEMORY_REGISTERED)
            (void)publish_ranges();
    }
    pthread_rwlock_unlock(&memory.lock);
    return entry;
}

static void give_room(const cpu_memory_t *entry, uint64_t base, uint64_t size)
{
    window_t *window = window_of(entry->kind, entry->device);
    pthread_mutex_lock(&window->lock);
    cpu_heap_give(&window->heap, base, size);
    pthread_mutex_unlock(&window->lock);
}

/* The blocks that the entry's pages are in. */
static void blocks_of(const cpu_memory_t *entry, uint64_t *base, uint64_t *bytes)
{
    uint64_t end = round_up(entry->node.base + entry->node.size, CPU_HEAP_BLOCK);
    *base = entry->node.base & ~(uint64_t)(CPU_HEAP_BLOCK - 1);
    *bytes = end - *base;
}

static void give_back(cpu_memory_t *entry)
{
    uint64_t base, bytes;
    if (entry->kind & (CPU_MEMORY_DEVICE | CPU_MEMORY_MANAGED | CPU_MEMORY_GLOBAL |
                       CPU_MEMORY_HOST | CPU_MEMORY_ARRAY)) {
        give_room(entry, entry->node.base, room_of(entry->kind, entry->node.size).size);
        if (entry->kind != CPU_MEMORY_HOST)
            cpu_memory_uncharge(entry->device, entry->node.size);
    } else if (entry->kind == CPU_MEMORY_IMPORTED) {
        blocks_of(entry, &base, &bytes);
        give_room(entry, base, bytes);
    }
    free(entry);
}

CUresult cpu_memory_free(unsigned kinds, uint64_t base)
{
    cpu_memory_t *entry = leave(kinds, base);
    if (!entry)
        return CUDA_ERROR_INVALID_VALUE;
    give_back(entry);
    return CUDA_SUCCESS;
}

CUresult cpu_memory_add(cpu_memory_kind_t kind, int device, cpu_context_t *context, uint64_t base,
                        uint64_t bytes, unsigned flags)
{
    if (base == 0 || bytes == 0 || base + bytes < base)
        return CUDA_ERROR_INVALID_VALUE;
    cpu_memory_t *entry = calloc(1, sizeof(*entry));
    if (!entry)
        return CUDA_ERROR_OUT_OF_MEMORY;
    entry->node.base = base;
    entry->node.size = bytes;
    entry->kind = kind;
    entry->device = device;
    entry->context = context;
    entry->flags = flags;
    entry->asked = bytes;
    CUresult result = enter(entry);
    if (result)
        free(entry);
    return result;
}

CUresult cpu_memory_remove(unsigned kinds, uint64_t base)
{
    return cpu_memory_free(kinds, base);
}

/* ---- memory of several processes ---- */

/* With the window's lock held, so that nothing on these blocks is freed meanwhile. */
static CUresult share(const cpu_memory_t *entry, cpu_segment_t *segment)
{
    cpu_memory_t now;
    uint64_t base, bytes;
    if (!cpu_memory_find(entry->node.base, &now) || now.id != entry->id)
        return CUDA_ERROR_INVALID_VALUE;
    if (cpu_shared_find(entry->node.base, segment))
        return segment->imported ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
    blocks_of(entry, &base, &bytes);
    return cpu_shared_move(base, bytes, segment);
}

CUresult cpu_memory_share(uint64_t address, cpu_memory_t *entry, cpu_segment_t *segment)
{
    if (!cpu_memory_find(address, entry) || entry->kind != CPU_MEMORY_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    window_t *window = window_of(entry->kind, entry->device);
    pthread_mutex_lock(&window->lock);
    CUresult result = share(entry, segment);
    pthread_mutex_unlock(&window->lock);
    return result;
}

CUresult cpu_memory_import(int device, cpu_context_t *context, int fd, const cpu_file_t *file,
                           uint64_t offset, uint64_t bytes, uint64_t *base)
{
    uint64_t size = round_up(bytes, CPU_MEMORY_GRAIN), at;
    if (bytes == 0 || size < bytes || offset >= CPU_HEAP_BLOCK || offset % CPU_MEMORY_GRAIN ||
        size > memory.arena_bytes || round_up(offset + size, CPU_HEAP_BLOCK) != file->bytes)
        return CUDA_ERROR_INVALID_HANDLE;
    cpu_memory_t *entry = calloc(1, sizeof(*entry));
    if (!entry)
        return CUDA_ERROR_OUT_OF_MEMORY;
    window_t *window = window_of(CPU_MEMORY_IMPORTED, device);
    uint64_t align = file->bytes >= WINDOW_ALIGN ? WINDOW_ALIGN : CPU_HEAP_BLOCK;
    pthread_mutex_lock(&window->lock);
    CUresult result = cpu_heap_take(&window->heap, file->bytes, align, &at) == GB_OK
                          ? CUDA_SUCCESS
                          : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result && (result = cpu_shared_map(fd, file, at)) != CUDA_SUCCESS)
        cpu_heap_give(&window->heap, at, file->bytes);
    pthread_mutex_unlock(&window->lock);
    if (result) {
        free(entry);
        return result;
    }
    entry->node.base = at + offset;
    entry->node.size = size;
    entry->kind = CPU_MEMORY_IMPORTED;
    entry->device = device;
    entry->context = context;
    entry->asked = bytes;
    (void)enter(entry); /* the window's own addresses cannot overlap */
    *base = at + offset;
    return CUDA_SUCCESS;
}

bool cpu_memory_find(uint64_t address, cpu_memory_t *out)
{
    pthread_rwlock_rdlock(&memory.lock);
    const cpu_node_t *node = cpu_tree_find(&memory.map, address);
    if (node)
        *out = *(const cpu_memory_t *)node;
    pthread_rwlock_unlock(&memory.lock);
    return node != NULL;
}

bool cpu_memory_covers(unsigned kinds, uint64_t address, uint64_t bytes)
{
    bool covered = address + bytes >= address;
    uint64_t end = address + bytes;
    pthread_rwlock_rdlock(&memory.lock);
    while (covered && address < end) {
        const cpu_memory_t *entry = (const cpu_memory_t *)cpu_tree_find(&memory.map, address);
        covered = entry && (entry->kind & kinds);
        if (covered)
            address = entry->node.base + entry->node.size;
    }
    pthread_rwlock_unlock(&memory.lock);
    return covered;
}

/* The first entry at or above `from` that belongs to the context; its base, or 0. */
static uint64_t next_of_context(const cpu_context_t *context, uint64_t from)
{
    uint64_t base = 0;
    pthread_rwlock_rdlock(&memory.lock);
    for (const cpu_node_t *node = cpu_tree_ceiling(&memory.map, from); node && !base;
         node = cpu_tree_ceiling(&memory.map, node->base + 1))
        if (((const cpu_memory_t *)node)->context == context)
            base = node->base;
    pthread_rwlock_unlock(&memory.lock);
    return base;
}

void cpu_memory_free_context(const cpu_context_t *context)
{
    uint64_t base = 0;
    while ((base = next_of_context(context, base)) != 0)
        (void)cpu_memory_free(CPU_MEMORY_ANY & ~(unsigned)CPU_MEMORY_VIRTUAL, base++);
}

CUresult cpu_memory_open_range(uint64_t base, uint64_t bytes)
{
    range_node_t *range = calloc(1, sizeof(*range));
    if (!range)
        return CUDA_ERROR_OUT_OF_MEMORY;
    range->node.base = base;
    range->node.size = bytes;
    pthread_rwlock_wrlock(&memory.lock);
    cpu_tree_insert(&memory.opened, &range->node);
    CUresult result = publish_ranges();
    if (result)
        cpu_tree_remove(&memory.opened, &range->node);
    pthread_rwlock_unlock(&memory.lock);
    if (result)
        free(range);
    return result;
}

void cpu_memory_close_range(uint64_t base)
{
    pthread_rwlock_wrlock(&memory.lock);
    cpu_node_t *node = cpu_tree_find(&memory.opened, base);
    if (node) {
        cpu_tree_remove(&memory.opened, node);
        (void)publish_ranges();
    }
    pthread_rwlock_unlock(&memory.lock);
    free(node);
}

void cpu_memory_arena(uint64_t *base, uint64_t *bytes)
{
    *base = memory.arena;
    *bytes = memory.arena_bytes;
}

void cpu_memory_drop_ranges(cpu_ranges_t *held)
{
    if (held && atomic_fetch_sub(&held->refs, 1) == 1)
        free(held);
}

void cpu_memory_refresh_ranges(cpu_ranges_t **held)
{
    if (*held && (*held)->version == atomic_load_explicit(&memory.version, memory_order_acquire))
        return;
    pthread_rwlock_rdlock(&memory.lock);
    cpu_ranges_t *fresh = memory.ranges;
    atomic_fetch_add(&fresh->refs, 1);
    pthread_rwlock_unlock(&memory.lock);
    cpu_memory_drop_ranges(*held);
    *held = fresh;
}
