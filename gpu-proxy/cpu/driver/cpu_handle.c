/* Slots live in chunks that are never moved or freed, so a look-up takes no lock but the slot's own
 * bit, held for a few instructions. A freed slot keeps its generation, raised by one. */
#include "gpu-proxy/cpu/driver/cpu_handle.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHUNK_SLOTS = 1024,
    CHUNKS = 4096,
    INDEX_SHIFT = 4, /* handles look aligned */
    GENERATION_SHIFT = 28,
    KIND_SHIFT = 42,
    LINE = 64,
    GENERATION_MASK = (1 << 14) - 1,
};

typedef struct {
    atomic_uint lock;
    uint32_t generation;
    uint32_t next_free; /* index + 1 */
    cpu_object_t *object;
} slot_t;

static struct {
    pthread_mutex_t lock; /* of the free list and of growing */
    _Atomic(slot_t *) chunks[CHUNKS];
    uint32_t used; /* slots ever handed out */
    uint32_t free; /* index + 1 */
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void slot_lock(slot_t *slot)
{
    while (atomic_exchange_explicit(&slot->lock, 1, memory_order_acquire))
        __builtin_ia32_pause();
}

static void slot_unlock(slot_t *slot)
{
    atomic_store_explicit(&slot->lock, 0, memory_order_release);
}

static slot_t *slot_at(uint32_t index)
{
    if (index / CHUNK_SLOTS >= CHUNKS)
        return NULL;
    slot_t *chunk = atomic_load_explicit(&table.chunks[index / CHUNK_SLOTS], memory_order_acquire);
    return chunk ? &chunk[index % CHUNK_SLOTS] : NULL;
}

void *cpu_object_memory(size_t bytes)
{
    void *memory = aligned_alloc(LINE, (bytes + LINE - 1) & ~(size_t)(LINE - 1));
    return memory ? memset(memory, 0, bytes) : NULL;
}

void cpu_object_init(cpu_object_t *object, cpu_kind_t kind, void (*destroy)(cpu_object_t *))
{
    atomic_init(&object->refs, 1);
    object->kind = kind;
    object->handle = 0;
    object->destroy = destroy;
}

void cpu_object_ref(cpu_object_t *object)
{
    atomic_fetch_add_explicit(&object->refs, 1, memory_order_relaxed);
}

void cpu_object_put(cpu_object_t *object)
{
    if (object && atomic_fetch_sub_explicit(&object->refs, 1, memory_order_acq_rel) == 1)
        object->destroy(object);
}

void cpu_object_put_many(cpu_object_t *object, int count)
{
    if (atomic_fetch_sub_explicit(&object->refs, count, memory_order_acq_rel) == count)
        object->destroy(object);
}

/* Under table.lock: an unused slot's index + 1, or 0. */
static uint32_t take_slot(void)
{
    uint32_t index;
    if (table.free) {
        index = table.free - 1;
        table.free = slot_at(index)->next_free;
        return index + 1;
    }
    index = table.used;
    if (index >= (uint32_t)CHUNK_SLOTS * CHUNKS)
        return 0;
    if (!slot_at(index)) {
        slot_t *chunk = calloc(CHUNK_SLOTS, sizeof(*chunk));
        if (!chunk)
            return 0;
        atomic_store_explicit(&table.chunks[index / CHUNK_SLOTS], chunk, memory_order_release);
    }
    table.used++;
    return index + 1;
}

uint64_t cpu_handle_add(cpu_object_t *object)
{
    pthread_mutex_lock(&table.lock);
    uint32_t taken = take_slot();
    pthread_mutex_unlock(&table.lock);
    if (!taken)
        return 0;
    uint32_t index = taken - 1;
    slot_t *slot = slot_at(index);
    cpu_object_ref(object);
    slot_lock(slot);
    slot->generation = (slot->generation + 1) & GENERATION_MASK;
    slot->object = object;
    object->handle = (uint64_t)object->kind << KIND_SHIFT |
                     (uint64_t)slot->generation << GENERATION_SHIFT |
                     (uint64_t)index << INDEX_SHIFT;
    slot_unlock(slot);
    return object->handle;
}

/* The slot, locked, if the handle is a live one of that kind. */
static slot_t *lock_live(cpu_kind_t kind, uint64_t handle)
{
    uint32_t index = (uint32_t)(handle >> INDEX_SHIFT) & ((1u << 24) - 1);
    slot_t *slot = handle >> KIND_SHIFT == (uint64_t)kind ? slot_at(index) : NULL;
    if (!slot)
        return NULL;
    slot_lock(slot);
    if (slot->object && slot->object->handle == handle)
        return slot;
    slot_unlock(slot);
    return NULL;
}

cpu_object_t *cpu_handle_get(cpu_kind_t kind, uint64_t handle)
{
    slot_t *slot = lock_live(kind, handle);
    if (!slot)
        return NULL;
    cpu_object_t *object = slot->object;
    cpu_object_ref(object);
    slot_unlock(slot);
    return object;
}

cpu_object_t *cpu_handle_remove(cpu_kind_t kind, uint64_t handle)
{
    slot_t *slot = lock_live(kind, handle);
    if (!slot)
        return NULL;
    cpu_object_t *object = slot->object;
    slot->object = NULL;
    slot_unlock(slot);
    uint32_t index = (uint32_t)(handle >> INDEX_SHIFT) & ((1u << 24) - 1);
    pthread_mutex_lock(&table.lock);
    slot->next_free = table.free;
    table.free = index + 1;
    pthread_mutex_unlock(&table.lock);
    return object;
}

void cpu_handle_sweep(int (*match)(const cpu_object_t *object, const void *argument),
                      const void *argument)
{
    pthread_mutex_lock(&table.lock);
    uint32_t used = table.used;
    pthread_mutex_unlock(&table.lock);
    for (uint32_t index = 0; index < used; index++) {
        slot_t *slot = slot_at(index);
        uint64_t handle = 0;
        cpu_kind_t kind = CPU_KIND_NONE;
        slot_lock(slot);
        if (slot->object && match(slot->object, argument)) {
            handle = slot->object->handle;
            kind = slot->object->kind;
        }
        slot_unlock(slot);
        if (handle)
            cpu_object_put(cpu_handle_remove(kind, handle));
    }
}
