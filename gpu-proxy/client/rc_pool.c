#include "gpu-proxy/client/rc_pool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "gb_cuda_api.h"

enum {
    GRAIN = 512,
    SLAB_LEAST = 4 << 20,
    SLAB_MOST = 32 << 20, /* but for allocations that are larger */
    SLAB_GRAIN = 2 << 20,
    KEPT = 32 << 20, /* reserved whatever the release threshold says: a slab costs a round trip */
};

/* A stream as pools know it: the lane tells the threads' own default streams apart. */
typedef struct {
    uint64_t handle; /* NOBODY: freed for all streams */
    const rc_lane_t *lane;
} place_t;

#define NOBODY UINT64_MAX

/* Memory that was freed in a stream. */
typedef struct freed {
    struct freed *next;
    place_t place;
    gb_ranges_t holes;
    uint64_t bytes;
    uint64_t last; /* mark of the newest free */
} freed_t;

/* What a pool has in a context. */
typedef struct rc_arena {
    struct rc_arena *next;
    rc_pool_t *pool;
    rc_object_t *context;
    gb_ranges_t slabs;
    gb_ranges_t holes; /* free for every stream */
    freed_t *freed;
} arena_t;

struct rc_pool {
    rc_pool_t *next;
    rc_object_t *object; /* NULL: closed */
    rc_device_t *device;
    uint64_t most; /* bytes that it may hand out; 0: as many as there are */
    uint64_t used, used_high, reserved, reserved_high;
    uint64_t threshold;
    int reuse[3]; /* the attributes 1 to 3 */
    rc_pool_sort_t sort;
    uint64_t name[2]; /* among processes; of private pools none */
    arena_t *arenas;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static rc_pool_t *pools;
static struct {
    rc_pool_t *own, *current;
} of_device[RC_DEVICES];
static _Atomic uint64_t marks = 1;
static atomic_int any; /* there are arenas */

/* ---- ranges ---- */

static uint64_t round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

/* Adds free memory, joined with its neighbours in the same slab. */
static void add_hole(const arena_t *arena, gb_ranges_t *map, uint64_t start, uint64_t size)
{
    const gb_range_t *slab = gb_ranges_find(&arena->slabs, start);
    gb_range_t *below = gb_ranges_below(map, start), *above = gb_ranges_above(map, start);
    gb_range_t *node = NULL;
    if (below && below->start + below->size == start && below->start >= slab->start) {
        gb_ranges_remove(map, below);
        start = below->start;
        size += below->size;
        node = below;
    }
    if (above && start + size == above->start && above->start < slab->start + slab->size) {
        gb_ranges_remove(map, above);
        size += above->size;
        if (node)
            free(above);
        else
            node = above;
    }
    if (!node)
        node = malloc(sizeof(*node));
    if (!node)
        return; /* the memory is lost to the pool until its slab goes: nothing breaks */
    node->start = start;
    node->size = size;
    gb_ranges_add(map, node);
}

/* The lowest `size` bytes that fit; 0 if none do. */
static uint64_t cut_hole(gb_ranges_t *map, uint64_t size)
{
    gb_range_t *node = gb_ranges_fit(map, size);
    if (!node)
        return 0;
    uint64_t start = node->start;
    gb_ranges_remove(map, node);
    if (node->size == size) {
        free(node);
    } else {
        node->start += size;
        node->size -= size;
        gb_ranges_add(map, node);
    }
    return start;
}

static void empty(gb_ranges_t *map)
{
    while (map->root) {
        gb_range_t *node = map->root;
        gb_ranges_remove(map, node);
        free(node);
    }
}

/* ---- pools; with the lock held where they do not say otherwise ---- */

static rc_pool_t *new_pool(rc_device_t *device, uint64_t most)
{
    rc_pool_t *pool = calloc(1, sizeof(*pool));
    rc_object_t *object = pool ? rc_object_new(RC_POOL, device->session, NULL) : NULL;
    if (!object) {
        free(pool);
        return NULL;
    }
    pool->object = object;
    pool->device = device;
    pool->most = most;
    pool->reuse[0] = pool->reuse[1] = pool->reuse[2] = 1;
    pool->next = pools;
    pools = pool;
    object->pool = pool;
    return pool;
}

CUresult rc_pool_get(CUmemoryPool handle, rc_pool_t **pool)
{
    rc_object_t *object = rc_object_get(RC_POOL, handle);
    *pool = object ? object->pool : NULL;
    return object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult open_pool(rc_device_t *device, uint64_t most, rc_pool_sort_t sort,
                          const uint64_t name[2], rc_pool_t **pool)
{
    pthread_mutex_lock(&lock);
    *pool = new_pool(device, most);
    if (*pool) {
        (*pool)->sort = sort;
        memcpy((*pool)->name, name, sizeof((*pool)->name));
    }
    pthread_mutex_unlock(&lock);
    return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult rc_pool_open(rc_device_t *device, uint64_t most, int shareable, rc_pool_t **pool)
{
    uint64_t name[2] = {0};
    if (shareable && getrandom(name, sizeof(name), 0) != sizeof(name))
        return CUDA_ERROR_OPERATING_SYSTEM;
    return open_pool(device, most, shareable ? RC_POOL_SHAREABLE : RC_POOL_PRIVATE, name, pool);
}

CUresult rc_pool_import(rc_device_t *device, const uint64_t name[2], rc_pool_t **pool)
{
    return open_pool(device, 0, RC_POOL_IMPORTED, name, pool);
}

CUresult rc_pool_name(const rc_pool_t *pool, rc_pool_sort_t sort, uint64_t name[2])
{
    if (pool->sort != sort)
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(name, pool->name, sizeof(pool->name));
    return CUDA_SUCCESS;
}

static rc_pool_t *own_pool(rc_device_t *device)
{
    rc_pool_t **own = &of_device[device - rc.devices].own;
    if (!*own)
        *own = new_pool(device, 0);
    return *own;
}

CUresult rc_pool_default(rc_device_t *device, rc_pool_t **pool)
{
    pthread_mutex_lock(&lock);
    *pool = own_pool(device);
    pthread_mutex_unlock(&lock);
    return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult rc_pool_current(rc_device_t *device, rc_pool_t **pool)
{
    pthread_mutex_lock(&lock);
    *pool = of_device[device - rc.devices].current;
    if (!*pool)
        *pool = own_pool(device);
    pthread_mutex_unlock(&lock);
    return *pool ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult rc_pool_set_current(rc_device_t *device, rc_pool_t *pool)
{
    if (pool->device != device)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    of_device[device - rc.devices].current = pool;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

rc_device_t *rc_pool_device(const rc_pool_t *pool)
{
    return pool->device;
}

CUmemoryPool rc_pool_handle(const rc_pool_t *pool)
{
    return pool->object ? rc_handle(pool->object) : NULL;
}

uint64_t rc_pool_slab(const rc_block_t *block)
{
    pthread_mutex_lock(&lock);
    const gb_range_t *slab = gb_ranges_find(&block->arena->slabs, block->range.start);
    uint64_t start = slab ? slab->start : 0;
    pthread_mutex_unlock(&lock);
    return start;
}

static void count(rc_pool_t *pool, uint64_t bytes)
{
    pool->used += bytes;
    pool->used_high = pool->used > pool->used_high ? pool->used : pool->used_high;
}

/* ---- arenas ---- */

static arena_t *arena_of(rc_pool_t *pool, rc_object_t *context)
{
    arena_t *arena = pool->arenas;
    while (arena && arena->context != context)
        arena = arena->next;
    if (arena)
        return arena;
    arena = calloc(1, sizeof(*arena));
    if (!arena)
        return NULL;
    arena->pool = pool;
    arena->context = context;
    arena->next = pool->arenas;
    pool->arenas = arena;
    atomic_store(&any, 1);
    return arena;
}

static void arena_free(arena_t *arena)
{
    while (arena->freed) {
        freed_t *freed = arena->freed;
        arena->freed = freed->next;
        empty(&freed->holes);
        free(freed);
    }
    empty(&arena->holes);
    empty(&arena->slabs);
    free(arena);
}

/* A closed pool whose memory is gone. */
static void bury(rc_pool_t *pool)
{
    if (pool->object || pool->reserved)
        return;
    for (rc_pool_t **at = &pools; *at; at = &(*at)->next) {
        if (*at == pool) {
            *at = pool->next;
            break;
        }
    }
    while (pool->arenas) {
        arena_t *arena = pool->arenas;
        pool->arenas = arena->next;
        arena_free(arena);
    }
    free(pool);
}

static place_t place_of(const rc_call_t *call)
{
    uint64_t handle = (uint64_t)(uintptr_t)call->stream;
    if (!call->on_stream)
        return (place_t){NOBODY, NULL};
    return (place_t){handle ? handle : 1, call->stream == CU_STREAM_PER_THREAD ? call->lane : NULL};
}

static int same(place_t a, place_t b)
{
    return a.handle == b.handle && a.lane == b.lane;
}

static freed_t *freed_in(const arena_t *arena, place_t place)
{
    freed_t *freed = arena->freed;
    while (freed && !same(freed->place, place))
        freed = freed->next;
    return freed;
}

/* Every stream may have it now. */
static void settle(arena_t *arena, freed_t *freed)
{
    if (freed->place.handle != NOBODY)
        arena->pool->used -= freed->bytes;
    while (freed->holes.root) {
        gb_range_t *node = freed->holes.root;
        gb_ranges_remove(&freed->holes, node);
        add_hole(arena, &arena->holes, node->start, node->size);
        free(node);
    }
    freed->bytes = 0;
}

/* A call for the context alone, which sends what belongs to no stream. */
static rc_call_t call_in(const rc_call_t *call, rc_object_t *context)
{
    return (rc_call_t){
        .lane = call->lane, .context = context, .owner = context, .session = context->session};
}

static void give_slab(const rc_call_t *call, arena_t *arena, gb_range_t *slab)
{
    rc_call_t there = call_in(call, arena->context);
    uint64_t args[2] = {slab->start, arena->pool->device->index};
    rc_post(&there, GB_OP_cuMemFree_v2, args, 2); /* a lost session has no memory */
    arena->pool->reserved -= slab->size;
    gb_ranges_remove(&arena->slabs, slab);
    free(slab);
}

static void trim(const rc_call_t *call, rc_pool_t *pool, uint64_t keep)
{
    for (arena_t *arena = pool->arenas; arena; arena = arena->next) {
        gb_range_t *slab = gb_ranges_above(&arena->slabs, 0);
        while (slab && pool->reserved > keep) {
            uint64_t at = slab->start;
            gb_range_t *hole = gb_ranges_find(&arena->holes, at);
            if (hole && hole->start == at && hole->size == slab->size) {
                gb_ranges_remove(&arena->holes, hole);
                free(hole);
                give_slab(call, arena, slab);
            }
            slab = gb_ranges_above(&arena->slabs, at);
        }
    }
}

CUresult rc_pool_trim(rc_call_t *call, rc_pool_t *pool, uint64_t keep)
{
    pthread_mutex_lock(&lock);
    trim(call, pool, keep);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult rc_pool_close(CUmemoryPool handle)
{
    rc_pool_t *pool;
    rc_call_t call;
    CUresult result = rc_begin(&call);
    pthread_mutex_lock(&lock);
    if (!result)
        result = rc_pool_get(handle, &pool);
    if (!result &&
        (pool == of_device[pool->device - rc.devices].own || !rc_object_kill(pool->object)))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        rc_pool_t **current = &of_device[pool->device - rc.devices].current;
        if (*current == pool) /* the device's own takes its place */
            *current = NULL;
        rc_object_free(pool->object);
        pool->object = NULL;
        trim(&call, pool, 0);
        bury(pool);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- allocating ---- */

/* What is queued in S from now on comes after what is queued in the other stream. */
static CUresult order(const rc_call_t *call, rc_object_t *context, place_t before)
{
    rc_call_t there = call_in(call, context);
    uint64_t first = before.handle, second = (uint64_t)(uintptr_t)call->stream;
    const rc_object_t *a = rc_object_get(RC_STREAM, (void *)(uintptr_t)first);
    const rc_object_t *b = rc_object_get(RC_STREAM, call->stream);
    rc_object_t *event = rc_object_new(RC_EVENT, context->session, context);
    if (!event)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t make[2] = {event->number, CU_EVENT_DISABLE_TIMING};
    uint64_t record[2] = {event->number, a ? a->number : first};
    uint64_t wait[3] = {b ? b->number : second, event->number, 0};
    CUresult result = rc_post(&there, GB_OP_cuEventCreate, make, 2);
    if (!result)
        result = rc_post(&there, GB_OP_cuEventRecord, record, 2);
    if (!result)
        result = rc_post(&there, GB_OP_cuStreamWaitEvent, wait, 3);
    if (rc_object_kill(event)) {
        there.dropped = event;
        CUresult gone = rc_post(&there, GB_OP_cuEventDestroy_v2, make, 1);
        result = result ? result : gone;
    }
    return result;
}

/* Streams of other threads' own cannot be named from here, those that are destroyed not at all. */
static int can_wait_for(const freed_t *freed)
{
    return freed->place.handle == 1 ||
           rc_object_get(RC_STREAM, (void *)(uintptr_t)freed->place.handle) != NULL;
}

/* From what the pool has; 0: nothing fits. */
static CUresult take(rc_call_t *call, arena_t *arena, uint64_t bytes, uint64_t *address)
{
    rc_pool_t *pool = arena->pool;
    place_t here = place_of(call);
    freed_t *own = freed_in(arena, here);
    *address = own ? cut_hole(&own->holes, bytes) : 0;
    if (*address) {
        own->bytes -= bytes;
        return CUDA_SUCCESS;
    }
    if (!pool->most || (pool->used <= pool->most && bytes <= pool->most - pool->used))
        *address = cut_hole(&arena->holes, bytes);
    if (*address) {
        count(pool, bytes);
        return CUDA_SUCCESS;
    }
    for (freed_t *f = arena->freed; f && pool->reuse[2]; f = f->next) {
        if (f == own || f->place.handle == NOBODY || !can_wait_for(f))
            continue;
        uint64_t found = cut_hole(&f->holes, bytes);
        if (!found)
            continue;
        f->bytes -= bytes;
        *address = found;
        return order(call, arena->context, f->place);
    }
    return CUDA_SUCCESS;
}

static CUresult ask_slab(const rc_call_t *call, arena_t *arena, uint64_t size)
{
    rc_call_t there = call_in(call, arena->context);
    uint64_t address = 0;
    gb_range_t *slab = malloc(sizeof(*slab));
    if (!slab)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_unlock(&lock);
    CUresult result = rc_ask(&there, GB_OP_cuMemAlloc_v2, &size, 1, &address, 1);
    pthread_mutex_lock(&lock);
    if (result) {
        free(slab);
        return result;
    }
    slab->start = address;
    slab->size = size;
    gb_ranges_add(&arena->slabs, slab);
    arena->pool->reserved += size;
    if (arena->pool->reserved > arena->pool->reserved_high)
        arena->pool->reserved_high = arena->pool->reserved;
    add_hole(arena, &arena->holes, address, size);
    return CUDA_SUCCESS;
}

/* Larger than asked for while there is room, so that the next ones cost nothing. */
static CUresult grow(const rc_call_t *call, arena_t *arena, uint64_t bytes)
{
    uint64_t size = arena->pool->reserved < SLAB_LEAST  ? SLAB_LEAST
                    : arena->pool->reserved > SLAB_MOST ? SLAB_MOST
                                                        : arena->pool->reserved;
    size = round_up(size > bytes ? size : bytes, SLAB_GRAIN);
    CUresult result = ask_slab(call, arena, size);
    return result == CUDA_ERROR_OUT_OF_MEMORY && size > bytes ? ask_slab(call, arena, bytes)
                                                              : result;
}

/* Waits until all that was freed is free, and gives back what no pool of the device needs. */
static CUresult scrape(const rc_call_t *call, arena_t *arena)
{
    rc_call_t there = call_in(call, arena->context);
    pthread_mutex_unlock(&lock);
    CUresult result = rc_ask(&there, GB_OP_cuCtxSynchronize, NULL, 0, NULL, 0);
    pthread_mutex_lock(&lock);
    for (rc_pool_t *pool = pools; pool; pool = pool->next)
        if (pool->device == arena->pool->device && pool != arena->pool)
            trim(call, pool, 0);
    return result;
}

static CUresult alloc(rc_call_t *call, rc_pool_t *pool, uint64_t bytes, uint64_t *address)
{
    arena_t *arena = arena_of(pool, call->stream_context);
    CUresult result = arena ? take(call, arena, bytes, address) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result || *address)
        return result;
    if (pool->most && (pool->used > pool->most || bytes > pool->most - pool->used))
        return CUDA_ERROR_OUT_OF_MEMORY;
    result = grow(call, arena, bytes);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && scrape(call, arena) == CUDA_SUCCESS) {
        result = take(call, arena, bytes, address);
        if (result || *address)
            return result;
        trim(call, pool, 0);
        result = grow(call, arena, bytes);
    }
    if (!result)
        result = take(call, arena, bytes, address);
    return !result && !*address ? CUDA_ERROR_OUT_OF_MEMORY : result;
}

CUresult rc_pool_alloc(rc_call_t *call, rc_pool_t *pool, uint64_t bytes, uint64_t *address)
{
    uint64_t rounded = round_up(bytes, GRAIN);
    if (rounded < bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&lock);
    *address = 0;
    CUresult result = alloc(call, pool, rounded, address);
    arena_t *arena = result ? NULL : arena_of(pool, call->stream_context);
    pthread_mutex_unlock(&lock);
    if (!result)
        result = rc_block_add_to(arena, *address, bytes, call->stream_context);
    return result;
}

/* ---- freeing ---- */

static arena_t *find_arena(const void *wanted)
{
    for (rc_pool_t *pool = pools; pool; pool = pool->next)
        for (arena_t *arena = pool->arenas; arena; arena = arena->next)
            if (arena == wanted)
                return arena;
    return NULL;
}

CUmemoryPool rc_pool_of(const rc_block_t *block)
{
    pthread_mutex_lock(&lock);
    const arena_t *arena = find_arena(block->arena);
    CUmemoryPool handle = arena ? rc_pool_handle(arena->pool) : NULL;
    pthread_mutex_unlock(&lock);
    return handle;
}

void rc_pool_free(rc_call_t *call, const rc_block_t *block)
{
    uint64_t bytes = round_up(block->range.size, GRAIN);
    pthread_mutex_lock(&lock);
    arena_t *arena = find_arena(block->arena);
    place_t place = place_of(call);
    freed_t *freed = arena ? freed_in(arena, place) : NULL;
    if (arena && !freed) {
        freed = calloc(1, sizeof(*freed));
        if (freed) {
            freed->place = place;
            freed->next = arena->freed;
            arena->freed = freed;
        }
    }
    if (freed) {
        add_hole(arena, &freed->holes, block->range.start, bytes);
        freed->bytes += bytes;
        freed->last = atomic_fetch_add(&marks, 1);
        if (place.handle == NOBODY)
            arena->pool->used -= bytes;
    }
    pthread_mutex_unlock(&lock);
}

uint64_t rc_pool_mark(void)
{
    return atomic_load(&any) ? atomic_fetch_add(&marks, 1) : 0;
}

/* What was freed in that stream, or in all of the context, before the mark. */
static void pass(const rc_call_t *call, const rc_object_t *context, const place_t *place,
                 uint64_t mark)
{
    pthread_mutex_lock(&lock);
    for (rc_pool_t *pool = pools, *next; pool; pool = next) {
        next = pool->next;
        for (arena_t *arena = pool->arenas; arena; arena = arena->next) {
            if (arena->context != context)
                continue;
            for (freed_t **at = &arena->freed; *at;) {
                freed_t *freed = *at;
                if ((place && !same(freed->place, *place)) || freed->last >= mark) {
                    at = &freed->next;
                    continue;
                }
                settle(arena, freed);
                *at = freed->next;
                free(freed);
            }
        }
        uint64_t keep = pool->threshold > KEPT ? pool->threshold : KEPT;
        if (!pool->object || pool->reserved > keep)
            trim(call, pool, pool->object ? keep : 0);
        bury(pool);
    }
    pthread_mutex_unlock(&lock);
}

void rc_pool_passed(const rc_call_t *call, uint16_t op, uint64_t mark)
{
    place_t place = place_of(call);
    if (!mark)
        return;
    switch (op) {
    case GB_OP_cuCtxSynchronize:
        pass(call, call->context, NULL, mark);
        break;
    case GB_OP_cuStreamSynchronize:
    case GB_OP_cuStreamQuery:
    case GB_OP_cuMemcpyDtoHAsync_v2:
        pass(call, call->stream_context, &place, mark);
        break;
    case GB_OP_cuEventSynchronize:
    case GB_OP_cuEventQuery:
        place = (place_t){atomic_load(&call->event->event.stream), NULL};
        mark = atomic_load(&call->event->event.mark);
        if (mark)
            pass(call, call->event->context, &place, mark);
        break;
    default:
        break;
    }
}

void rc_pool_forget_context(const rc_object_t *context)
{
    if (!atomic_load(&any))
        return;
    pthread_mutex_lock(&lock);
    for (rc_pool_t *pool = pools, *next; pool; pool = next) {
        next = pool->next;
        for (arena_t **at = &pool->arenas; *at;) {
            arena_t *arena = *at;
            if (arena->context != context) {
                at = &arena->next;
                continue;
            }
            uint64_t slabs = 0, free_bytes = 0;
            for (gb_range_t *n = gb_ranges_above(&arena->slabs, 0); n;
                 n = gb_ranges_above(&arena->slabs, n->start))
                slabs += n->size;
            for (gb_range_t *n = gb_ranges_above(&arena->holes, 0); n;
                 n = gb_ranges_above(&arena->holes, n->start))
                free_bytes += n->size;
            for (freed_t *f = arena->freed; f; f = f->next)
                free_bytes += f->place.handle == NOBODY ? f->bytes : 0;
            pool->reserved -= slabs;
            pool->used -= slabs - free_bytes;
            *at = arena->next;
            arena_free(arena);
        }
        bury(pool);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- attributes ---- */

static uint64_t *counter(rc_pool_t *pool, CUmemPool_attribute attribute)
{
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return &pool->threshold;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return &pool->reserved;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return &pool->used;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return &pool->reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return &pool->used_high;
    default:
        return NULL;
    }
}

CUresult rc_pool_attribute(rc_pool_t *pool, CUmemPool_attribute attribute, void *value)
{
    pthread_mutex_lock(&lock);
    const uint64_t *c = counter(pool, attribute);
    int flag = attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
               attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
    if (c)
        *(uint64_t *)value = *c;
    else if (flag)
        *(int *)value = pool->reuse[attribute - 1];
    pthread_mutex_unlock(&lock);
    return c || flag ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The high-water marks can only be reset. */
static CUresult set_locked(rc_pool_t *pool, CUmemPool_attribute attribute, const void *value)
{
    switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
        pool->reuse[attribute - 1] = *(const int *)value != 0;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        pool->threshold = *(const uint64_t *)value;
        return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        if (*(const uint64_t *)value != 0)
            return CUDA_ERROR_INVALID_VALUE;
        *counter(pool, attribute) =
            attribute == CU_MEMPOOL_ATTR_USED_MEM_HIGH ? pool->used : pool->reserved;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult rc_pool_set_attribute(rc_pool_t *pool, CUmemPool_attribute attribute, const void *value)
{
    pthread_mutex_lock(&lock);
    CUresult result = set_locked(pool, attribute, value);
    pthread_mutex_unlock(&lock);
    return result;
}
