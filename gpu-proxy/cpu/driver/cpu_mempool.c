#include "gpu-proxy/cpu/driver/cpu_mempool.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "gpu-proxy/cpu/driver/cpu_cells.h"
#include "gpu-proxy/cpu/driver/cpu_memory.h"

/* One allocation. */
typedef struct {
    cpu_node_t node;     /* where it lies */
    cpu_mempool_t *pool; /* referenced */
    const cpu_context_t *context;
    bool freeing;
} piece_t;

static struct {
    pthread_mutex_t lock;
    cpu_tree_t pieces;
    cpu_mempool_t *of_device[CPU_MAX_DEVICES], *current[CPU_MAX_DEVICES]; /* referenced */
} pools = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void destroy(cpu_object_t *object)
{
    cpu_mempool_t *pool = (cpu_mempool_t *)object;
    if (pool->fd >= 0)
        close(pool->fd);
    free(pool);
}

CUresult cpu_mempool_get(CUmemoryPool handle, cpu_mempool_t **pool)
{
    if (!cpu_driver())
        return CUDA_ERROR_NOT_INITIALIZED;
    *pool = (cpu_mempool_t *)cpu_handle_get(CPU_KIND_MEMPOOL, (uint64_t)(uintptr_t)handle);
    return *pool ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

enum { CARD_BYTES = 4096, CARD_MAGIC = 0x314c5047 }; /* "GPL1" */

/* What names a pool: the contents of a file. */
typedef struct {
    uint32_t magic;
    uint32_t reserved;
    uint64_t most;
    uint8_t name[16];
    CUuuid device;
} card_t;

/* A name that no other pool on this machine has, and the file that says it. */
static bool name_pool(cpu_mempool_t *pool)
{
    card_t card = {.magic = CARD_MAGIC, .most = pool->most};
    card.device = cpu_driver()->devices[pool->device].uuid;
    if (getrandom(pool->name, sizeof(pool->name), 0) != (ssize_t)sizeof(pool->name))
        return false;
    memcpy(card.name, pool->name, sizeof(card.name));
    pool->fd = cpu_shared_file("gable-pool", CARD_BYTES);
    return pool->fd >= 0 && pwrite(pool->fd, &card, sizeof(card), 0) == (ssize_t)sizeof(card);
}

CUresult cpu_mempool_open(int device, uint64_t most, bool exported, cpu_mempool_t **pool)
{
    cpu_mempool_t *made = calloc(1, sizeof(*made));
    if (!made)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cpu_object_init(&made->object, CPU_KIND_MEMPOOL, destroy);
    made->fd = -1;
    made->device = device;
    made->most = most;
    made->reuse[0] = made->reuse[1] = made->reuse[2] = 1;
    if ((exported && !name_pool(made)) || !cpu_handle_add(&made->object)) {
        cpu_object_put(&made->object);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *pool = made;
    return CUDA_SUCCESS;
}

/* With the lock held. */
static CUresult find_default(int device, cpu_mempool_t **pool)
{
    CUresult result = CUDA_SUCCESS;
    if (!pools.of_device[device])
        result = cpu_mempool_open(device, 0, false, &pools.of_device[device]);
    if (result)
        return result;
    *pool = pools.of_device[device];
    (*pool)->is_default = true;
    return CUDA_SUCCESS;
}

CUresult cpu_mempool_default(int device, cpu_mempool_t **pool)
{
    pthread_mutex_lock(&pools.lock);
    CUresult result = find_default(device, pool);
    if (!result)
        cpu_object_ref(&(*pool)->object);
    pthread_mutex_unlock(&pools.lock);
    return result;
}

CUresult cpu_mempool_current(int device, cpu_mempool_t **pool)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&pools.lock);
    *pool = pools.current[device];
    if (!*pool)
        result = find_default(device, pool);
    if (!result)
        cpu_object_ref(&(*pool)->object);
    pthread_mutex_unlock(&pools.lock);
    return result;
}

CUresult cpu_mempool_set_current(int device, cpu_mempool_t *pool)
{
    if (pool->device != device)
        return CUDA_ERROR_INVALID_VALUE;
    cpu_object_ref(&pool->object);
    pthread_mutex_lock(&pools.lock);
    cpu_mempool_t *old = pools.current[device];
    pools.current[device] = pool;
    pthread_mutex_unlock(&pools.lock);
    if (old)
        cpu_object_put(&old->object);
    return CUDA_SUCCESS;
}

CUresult cpu_mempool_close(CUmemoryPool handle)
{
    cpu_mempool_t *pool;
    CUresult result = cpu_mempool_get(handle, &pool);
    if (result)
        return result;
    if (pool->is_default)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result) {
        pthread_mutex_lock(&pools.lock);
        cpu_mempool_t *current = pools.current[pool->device];
        if (current == pool) /* the device's own takes its place */
            pools.current[pool->device] = NULL;
        pthread_mutex_unlock(&pools.lock);
        if (current == pool)
            cpu_object_put(&pool->object);
        cpu_object_t *object = cpu_handle_remove(CPU_KIND_MEMPOOL, (uint64_t)(uintptr_t)handle);
        if (object)
            cpu_object_put(object);
    }
    cpu_object_put(&pool->object);
    return result;
}

/* ---- allocations ---- */

static void count(cpu_mempool_t *pool, uint64_t bytes)
{
    pool->used += bytes;
    pool->used_high = pool->used > pool->used_high ? pool->used : pool->used_high;
    pool->reserved_high = pool->used > pool->reserved_high ? pool->used : pool->reserved_high;
}

/* Counts bytes before they are there, so that two calls cannot both take the last ones. */
static bool take_room(cpu_mempool_t *pool, uint64_t bytes)
{
    pthread_mutex_lock(&pools.lock);
    bool room = !pool->most || (pool->used <= pool->most && bytes <= pool->most - pool->used);
    if (room)
        count(pool, bytes);
    pthread_mutex_unlock(&pools.lock);
    return room;
}

static void give_room(cpu_mempool_t *pool, uint64_t bytes)
{
    pthread_mutex_lock(&pools.lock);
    pool->used -= bytes;
    pthread_mutex_unlock(&pools.lock);
}

CUresult cpu_mempool_alloc(cpu_mempool_t *pool, cpu_context_t *context, uint64_t bytes,
                           uint64_t *base)
{
    uint64_t size = (bytes + CPU_MEMORY_GRAIN - 1) & ~(uint64_t)(CPU_MEMORY_GRAIN - 1);
    if (size < bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    piece_t *piece = calloc(1, sizeof(*piece));
    if (!piece || !take_room(pool, size)) {
        free(piece);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = cpu_memory_alloc(CPU_MEMORY_DEVICE, pool->device, context, bytes, 0, base);
    if (result) {
        give_room(pool, size);
        free(piece);
        return result;
    }
    piece->node.base = *base;
    piece->node.size = size;
    piece->pool = pool;
    piece->context = context;
    cpu_object_ref(&pool->object);
    pthread_mutex_lock(&pools.lock);
    cpu_tree_insert(&pools.pieces, &piece->node);
    pthread_mutex_unlock(&pools.lock);
    return CUDA_SUCCESS;
}

/* ---- other processes ---- */

CUresult cpu_mempool_export(const cpu_mempool_t *pool, int *fd)
{
    if (pool->fd < 0)
        return CUDA_ERROR_INVALID_VALUE;
    int copy = fcntl(pool->fd, F_DUPFD_CLOEXEC, 0);
    if (copy < 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *fd = copy;
    return CUDA_SUCCESS;
}

CUresult cpu_mempool_import(int fd, cpu_mempool_t **pool)
{
    card_t card;
    const cpu_driver_t *driver = cpu_driver();
    if (!cpu_shared_sound(fd, CARD_BYTES) ||
        pread(fd, &card, sizeof(card), 0) != (ssize_t)sizeof(card) || card.magic != CARD_MAGIC)
        return CUDA_ERROR_INVALID_VALUE;
    int device = 0;
    while (device < driver->device_count &&
           memcmp(&driver->devices[device].uuid, &card.device, sizeof(card.device)) != 0)
        device++;
    if (device == driver->device_count)
        return CUDA_ERROR_INVALID_DEVICE;
    CUresult result = cpu_mempool_open(device, card.most, false, pool);
    if (result)
        return result;
    (*pool)->imported = true;
    memcpy((*pool)->name, card.name, sizeof(card.name));
    return CUDA_SUCCESS;
}

CUresult cpu_mempool_export_pointer(uint64_t base, cpu_ipc_handle_t *handle)
{
    uint8_t name[16];
    pthread_mutex_lock(&pools.lock);
    const piece_t *piece = (const piece_t *)cpu_tree_find(&pools.pieces, base);
    bool good = piece && !piece->freeing && piece->pool->fd >= 0;
    if (good)
        memcpy(name, piece->pool->name, sizeof(name));
    pthread_mutex_unlock(&pools.lock);
    if (!good)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = cpu_ipc_export(base, CPU_IPC_POOL_POINTER, handle);
    if (!result)
        memcpy(handle->owner, name, sizeof(handle->owner));
    return result;
}

CUresult cpu_mempool_import_pointer(cpu_mempool_t *pool, cpu_context_t *context,
                                    const cpu_ipc_handle_t *handle, uint64_t *base)
{
    if (!pool->imported || memcmp(pool->name, handle->owner, sizeof(pool->name)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    piece_t *piece = calloc(1, sizeof(*piece));
    if (!piece)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = cpu_ipc_import(context, pool->device, handle, base);
    if (result) {
        free(piece);
        return result;
    }
    piece->node.base = *base;
    piece->node.size = (handle->bytes + CPU_MEMORY_GRAIN - 1) & ~(uint64_t)(CPU_MEMORY_GRAIN - 1);
    piece->pool = pool;
    piece->context = context;
    cpu_object_ref(&pool->object);
    pthread_mutex_lock(&pools.lock);
    cpu_tree_insert(&pools.pieces, &piece->node);
    count(pool, piece->node.size);
    pthread_mutex_unlock(&pools.lock);
    return CUDA_SUCCESS;
}

/* With the lock held. */
static piece_t *piece_at(uint64_t base)
{
    cpu_node_t *node = cpu_tree_find(&pools.pieces, base);
    return node && node->base == base ? (piece_t *)node : NULL;
}

static void drop_piece(piece_t *piece)
{
    cpu_tree_remove(&pools.pieces, &piece->node);
    piece->pool->used -= piece->node.size;
    cpu_object_put(&piece->pool->object);
    free(piece);
}

bool cpu_mempool_forget(uint64_t base)
{
    pthread_mutex_lock(&pools.lock);
    piece_t *piece = piece_at(base);
    bool fine = !piece || !piece->freeing;
    if (piece && fine)
        drop_piece(piece);
    pthread_mutex_unlock(&pools.lock);
    return fine;
}

void cpu_mempool_forget_context(const cpu_context_t *context)
{
    pthread_mutex_lock(&pools.lock);
    cpu_node_t *node = cpu_tree_ceiling(&pools.pieces, 0);
    while (node) {
        piece_t *piece = (piece_t *)node;
        node = cpu_tree_ceiling(&pools.pieces, node->base + 1);
        if (piece->context == context)
            drop_piece(piece);
    }
    pthread_mutex_unlock(&pools.lock);
}

uint64_t cpu_mempool_of(uint64_t address)
{
    pthread_mutex_lock(&pools.lock);
    const piece_t *piece = (const piece_t *)cpu_tree_find(&pools.pieces, address);
    uint64_t handle = piece ? piece->pool->object.handle : 0;
    pthread_mutex_unlock(&pools.lock);
    return handle;
}

/* ---- frees in stream order ---- */

typedef struct {
    cpu_op_t op;
    uint64_t base;
} free_op_t;

static void do_nothing(cpu_op_t *op)
{
    (void)op;
}

/* The context that ends may have freed everything by itself. */
static void free_claimed(uint64_t base)
{
    pthread_mutex_lock(&pools.lock);
    piece_t *piece = piece_at(base);
    bool mine = piece && piece->freeing;
    if (mine)
        drop_piece(piece);
    pthread_mutex_unlock(&pools.lock);
    if (mine)
        cpu_memory_free(CPU_MEMORY_DEVICE | CPU_MEMORY_IMPORTED, base);
}

/* Also when the stream was cancelled. */
static void release(cpu_op_t *op)
{
    free_op_t *f = (free_op_t *)op;
    free_claimed(f->base);
    cpu_cells_give(f, sizeof(*f));
}

static const cpu_op_ops_t free_ops = {
    .name = "free", .instant = do_nothing, .release = release, .after_fault = true};

/* Marks the piece at `base`. False: it is of no pool. */
static bool claim_piece(uint64_t base, CUresult *result)
{
    pthread_mutex_lock(&pools.lock);
    piece_t *piece = piece_at(base);
    if (piece) {
        *result = piece->freeing ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
        piece->freeing = true;
    }
    pthread_mutex_unlock(&pools.lock);
    return piece != NULL;
}

/* Memory that is of no pool becomes one of the device's own. */
static CUresult claim_other(cpu_context_t *context, uint64_t base)
{
    cpu_memory_t memory;
    cpu_mempool_t *pool;
    if (!cpu_memory_find(base, &memory) || memory.node.base != base ||
        memory.kind != CPU_MEMORY_DEVICE)
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = cpu_mempool_default(memory.device, &pool);
    piece_t *piece = result ? NULL : calloc(1, sizeof(*piece));
    if (!piece)
        return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&pools.lock);
    piece_t *known = piece_at(base);
    if (known) {
        result = known->freeing ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
        known->freeing = true;
        free(piece);
        cpu_object_put(&pool->object);
    } else {
        piece->node.base = base;
        piece->node.size = memory.node.size;
        piece->pool = pool;
        piece->context = context;
        piece->freeing = true;
        cpu_tree_insert(&pools.pieces, &piece->node);
        pool->used += piece->node.size;
    }
    pthread_mutex_unlock(&pools.lock);
    return result;
}

CUresult cpu_mempool_free_async(cpu_stream_t *stream, uint64_t base)
{
    uint64_t seq;
    CUresult result;
    free_op_t *f = cpu_cells_take(sizeof(*f));
    if (!f)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (!claim_piece(base, &result))
        result = claim_other(stream->context, base);
    if (!result && cpu_sched_idle(stream, &seq)) {
        free_claimed(base);
        cpu_cells_give(f, sizeof(*f));
        return CUDA_SUCCESS;
    }
    if (result) {
        cpu_cells_give(f, sizeof(*f));
        return result;
    }
    cpu_op_init(&f->op, &free_ops, 0, 0);
    f->base = base;
    return cpu_sched_submit(stream, &f->op, NULL);
}

/* ---- attributes ---- */

/* What is reserved is what is used: nothing is kept back. */
static uint64_t *counter(cpu_mempool_t *pool, CUmemPool_attribute attribute)
{
    switch (attribute) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return &pool->threshold;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
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

CUresult cpu_mempool_attribute(cpu_mempool_t *pool, CUmemPool_attribute attribute, void *value)
{
    pthread_mutex_lock(&pools.lock);
    const uint64_t *c = counter(pool, attribute);
    bool flag = attribute >= CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
                attribute <= CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES;
    if (c)
        *(uint64_t *)value = *c;
    else if (flag)
        *(int *)value = pool->reuse[attribute - 1];
    pthread_mutex_unlock(&pools.lock);
    return c || flag ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* The high-water marks can only be reset. */
static CUresult set_locked(cpu_mempool_t *pool, CUmemPool_attribute attribute, const void *value)
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
        *counter(pool, attribute) = pool->used;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cpu_mempool_set_attribute(cpu_mempool_t *pool, CUmemPool_attribute attribute,
                                   const void *value)
{
    pthread_mutex_lock(&pools.lock);
    CUresult result = set_locked(pool, attribute, value);
    pthread_mutex_unlock(&pools.lock);
    return result;
}
