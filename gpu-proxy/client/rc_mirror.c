#include "gpu-proxy/client/rc_mirror.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/gb_log.h"
#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_shared.h"

enum { GRAIN = 4096, BAND = 1 << 20 };

typedef struct mirror {
    struct mirror *next;
    uint8_t *host;
    uint64_t size;
    uint64_t device;
    rc_object_t *context;
    uint8_t *twin; /* what both sides had when they were last alike */
    int fresh;     /* they never were */
} mirror_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mirror_t *mirrors;
static atomic_int count;

static mirror_t *find(const void *host)
{
    mirror_t *m = mirrors;
    while (m && m->host != host)
        m = m->next;
    return m;
}

int rc_mirror_is_open(uint64_t host)
{
    if (atomic_load(&count) == 0)
        return 0;
    pthread_mutex_lock(&lock);
    int open = find((const void *)(uintptr_t)host) != NULL;
    pthread_mutex_unlock(&lock);
    return open;
}

static CUresult make(rc_call_t *call, const rc_block_t *block, mirror_t **out)
{
    mirror_t *m = calloc(1, sizeof(*m));
    uint8_t *twin = malloc(block->range.size);
    CUresult result = m && twin ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result)
        result = rc_shared_alloc(call, block->range.size, 1, &m->device);
    if (result)
        goto err_free;
    result = rc_block_add(RC_BLOCK_GLOBAL, m->device, block->range.size, call->context, 0);
    if (result)
        goto err_shared;
    m->host = (uint8_t *)(uintptr_t)block->range.start;
    m->size = block->range.size;
    m->context = call->context;
    m->twin = twin;
    m->fresh = 1;
    m->next = mirrors;
    mirrors = m;
    atomic_fetch_add(&count, 1);
    *out = m;
    return CUDA_SUCCESS;
err_shared:
    rc_shared_free(m->device);
err_free:
    free(twin);
    free(m);
    return result;
}

CUresult rc_mirror_open(rc_call_t *call, const rc_block_t *block, CUdeviceptr *device)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    mirror_t *m = find((const void *)(uintptr_t)block->range.start);
    if (!m)
        result = make(call, block, &m);
    if (!result)
        *device = m->device;
    pthread_mutex_unlock(&lock);
    return result;
}

/* With the lock held. */
static void end(mirror_t **at)
{
    mirror_t *m = *at;
    *at = m->next;
    atomic_fetch_sub(&count, 1);
    free(m->twin);
    free(m);
}

CUresult rc_mirror_close(const rc_block_t *block)
{
    if (atomic_load(&count) == 0)
        return CUDA_SUCCESS;
    /* What kernels still do to it comes back first. */
    CUresult result = cuCtxSynchronize_v2(rc_handle(block->context));
    uint64_t device = 0;
    pthread_mutex_lock(&lock);
    for (mirror_t **at = &mirrors; *at; at = &(*at)->next)
        if ((uint64_t)(uintptr_t)(*at)->host == block->range.start) {
            device = (*at)->device;
            end(at);
            break;
        }
    pthread_mutex_unlock(&lock);
    rc_block_t copy;
    if (device && rc_block_take(RC_BLOCK_GLOBAL, device, &copy))
        rc_shared_free(device);
    return device ? result : CUDA_SUCCESS;
}

void rc_mirror_drop(const rc_object_t *context)
{
    pthread_mutex_lock(&lock);
    for (mirror_t **at = &mirrors; *at;)
        if ((*at)->context == context)
            end(at);
        else
            at = &(*at)->next;
    pthread_mutex_unlock(&lock);
}

static uint64_t grain_at(const mirror_t *m, uint64_t at)
{
    return m->size - at < GRAIN ? m->size - at : GRAIN;
}

static int has_changed(const mirror_t *m, uint64_t at)
{
    return m->fresh || memcmp(m->host + at, m->twin + at, grain_at(m, at)) != 0;
}

/* With the lock held. */
static CUresult send(mirror_t *m, rc_lane_t *lane)
{
    CUresult result = CUDA_SUCCESS;
    for (uint64_t at = 0; at < m->size && !result;) {
        if (!has_changed(m, at)) {
            at += GRAIN;
            continue;
        }
        uint64_t first = at;
        for (; at < m->size && at - first < PX_WIRE_PIECE && has_changed(m, at); at += GRAIN)
            memcpy(m->twin + at, m->host + at, grain_at(m, at));
        uint64_t last = at < m->size ? at : m->size;
        px_wire_copy_t copy = {.dst = m->device + first, .size = last - first};
        result = rc_send_bulk(m->context->session, lane, m->context, PX_OP_SHARED_UP, &copy,
                              sizeof(copy), m->twin + first, copy.size);
    }
    m->fresh = 0;
    return result;
}

static void take(mirror_t *m, uint64_t first, const uint8_t *bytes, uint64_t size)
{
    for (uint64_t at = first; at < first + size; at += GRAIN) {
        uint64_t grain = grain_at(m, at);
        if (memcmp(m->twin + at, bytes + (at - first), grain) == 0)
            continue;
        memcpy(m->twin + at, bytes + (at - first), grain);
        memcpy(m->host + at, bytes + (at - first), grain);
    }
}

/* With the lock held. */
static CUresult fetch(mirror_t *m, rc_lane_t *lane, uint8_t *scratch)
{
    CUresult result = CUDA_SUCCESS;
    for (uint64_t at = 0; at < m->size && !result; at += BAND) {
        uint64_t size = m->size - at < BAND ? m->size - at : BAND;
        px_wire_copy_t copy = {.src = m->device + at, .size = size};
        rc_waiter_t waiter = {.dst = scratch, .dst_size = size};
        result = rc_send_and_wait(m->context->session, lane, m->context, PX_OP_SHARED_DOWN, &copy,
                                  sizeof(copy), NULL, 0, &waiter);
        rc_waiter_done(&waiter);
        if (!result)
            take(m, at, scratch, size);
    }
    return result;
}

static void complain(const mirror_t *m, CUresult result)
{
    if (result)
        gb_log(GB_LOG_WARN, "registered memory at %p is not kept up to date any more: error %d",
               (void *)m->host, (int)result);
}

void rc_mirror_send(rc_session_t *session, rc_lane_t *lane)
{
    if (atomic_load_explicit(&count, memory_order_relaxed) == 0)
        return;
    pthread_mutex_lock(&lock);
    for (mirror_t *m = mirrors; m; m = m->next)
        if (m->context->session == session)
            complain(m, send(m, lane));
    pthread_mutex_unlock(&lock);
}

void rc_mirror_fetch(rc_session_t *session, rc_lane_t *lane)
{
    if (atomic_load_explicit(&count, memory_order_relaxed) == 0)
        return;
    uint8_t *scratch = malloc(BAND);
    pthread_mutex_lock(&lock);
    for (mirror_t *m = mirrors; m; m = m->next)
        if (m->context->session == session && !m->fresh)
            complain(m, scratch ? fetch(m, lane, scratch) : CUDA_ERROR_OUT_OF_MEMORY);
    pthread_mutex_unlock(&lock);
    free(scratch);
}
