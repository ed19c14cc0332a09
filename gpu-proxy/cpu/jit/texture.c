/* The table of textures, surfaces and samplers. */
#include "gpu-proxy/cpu/jit/texture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

enum {
    CHUNK = 64,
    CHUNKS = 1 << 14, /* a million objects */
    GENERATION_SHIFT = 20,
    KIND_SHIFT = 36,
    INDEX_MASK = (1 << GENERATION_SHIFT) - 1,
    GENERATION_MASK = (1 << (KIND_SHIFT - GENERATION_SHIFT)) - 1
};

typedef struct {
    _Atomic uint64_t handle; /* 0: free */
    uint32_t generation;
    uint32_t next_free; /* index + 1 */
    void *owner;
    cpu_texture_t texture;
} entry_t;

static struct {
    pthread_mutex_t lock; /* of changes */
    _Atomic(entry_t *) chunks[CHUNKS];
    uint32_t used, free; /* free: index + 1 */
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static entry_t *entry_at(uint32_t index)
{
    entry_t *chunk = atomic_load_explicit(&table.chunks[index / CHUNK], memory_order_acquire);
    return chunk == NULL ? NULL : &chunk[index % CHUNK];
}

/* Under the lock: an unused entry's index + 1, or 0. */
static uint32_t take(void)
{
    if (table.free != 0) {
        uint32_t taken = table.free;
        table.free = entry_at(taken - 1)->next_free;
        return taken;
    }
    if (table.used == CHUNK * CHUNKS) {
        return 0;
    }
    if (entry_at(table.used) == NULL) {
        entry_t *chunk = calloc(CHUNK, sizeof *chunk);
        if (chunk == NULL) {
            return 0;
        }
        atomic_store_explicit(&table.chunks[table.used / CHUNK], chunk, memory_order_release);
    }
    return ++table.used;
}

uint64_t cpu_texture_add(cpu_texture_kind_t kind, const cpu_texture_t *texture, void *owner)
{
    uint64_t handle = 0;
    pthread_mutex_lock(&table.lock);
    uint32_t taken = take();
    if (taken != 0) {
        entry_t *e = entry_at(taken - 1);
        e->generation = (e->generation + 1) & GENERATION_MASK;
        e->texture = *texture;
        e->owner = owner;
        handle = (uint64_t)kind << KIND_SHIFT | (uint64_t)e->generation << GENERATION_SHIFT |
                 (taken - 1);
        atomic_store_explicit(&e->handle, handle, memory_order_release);
    }
    pthread_mutex_unlock(&table.lock);
    return handle;
}

static entry_t *live(cpu_texture_kind_t kind, uint64_t handle)
{
    if (handle >> KIND_SHIFT != (uint64_t)kind) {
        return NULL;
    }
    entry_t *e = entry_at((uint32_t)handle & INDEX_MASK);
    return e != NULL && atomic_load_explicit(&e->handle, memory_order_acquire) == handle ? e : NULL;
}

void cpu_texture_set(uint64_t handle, const cpu_texture_t *texture)
{
    pthread_mutex_lock(&table.lock);
    entry_t *e = live((cpu_texture_kind_t)(handle >> KIND_SHIFT), handle);
    if (e != NULL) {
        e->texture = *texture;
    }
    pthread_mutex_unlock(&table.lock);
}

void cpu_texture_remove(uint64_t handle)
{
    pthread_mutex_lock(&table.lock);
    entry_t *e = live((cpu_texture_kind_t)(handle >> KIND_SHIFT), handle);
    if (e != NULL) {
        atomic_store_explicit(&e->handle, 0, memory_order_release);
        e->owner = NULL;
        e->next_free = table.free;
        table.free = ((uint32_t)handle & INDEX_MASK) + 1;
    }
    pthread_mutex_unlock(&table.lock);
}

const cpu_texture_t *cpu_texture_at(cpu_texture_kind_t kind, uint64_t handle)
{
    const entry_t *e = live(kind, handle);
    return e == NULL ? NULL : &e->texture;
}

void *cpu_texture_owner(cpu_texture_kind_t kind, uint64_t handle)
{
    pthread_mutex_lock(&table.lock);
    const entry_t *e = live(kind, handle);
    void *owner = e == NULL ? NULL : e->owner;
    pthread_mutex_unlock(&table.lock);
    return owner;
}
