/* What lies where: windows, device allocations, page-locked host memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/core/gb_log.h"
#include "common/core/gb_opt.h"
#include "gpu-proxy/client/rc_state.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

/* Where windows may lie. The first three were seen free in plain, address- and thread-sanitized
 * programs alike, 64 GiB each; the last is large and free in plain ones. */
static const struct {
    uint64_t base, size;
} places[] = {{0x567000000000, 64ull << 30},
              {0x7e9000000000, 64ull << 30},
              {0x558000000000, 64ull << 30},
              {0x200000000000, 32ull << 40}};

static uint64_t round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

static int reserve(uint64_t base, uint64_t size)
{
    void *wish = (void *)(uintptr_t)base;
    void *got = mmap(wish, size, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED)
        return 0;
    if (got != wish) {
        munmap(got, size);
        return 0;
    }
    return 1;
}

/* Asks the session for the window; *base becomes what it has, 0 = none. */
static CUresult ask_window(rc_session_t *session, rc_lane_t *lane, uint32_t device, uint64_t size,
                           uint64_t *base)
{
    px_wire_window_t window = {device, *base, size};
    rc_waiter_t waiter = {0};
    CUresult result = rc_send_and_wait(session, lane, NULL, PX_OP_WINDOW, &window, sizeof(window),
                                       NULL, 0, &waiter);
    if (!result && waiter.more_size >= sizeof(window)) {
        memcpy(&window, rc_waiter_bytes(&waiter), sizeof(window));
        *base = window.base;
    }
    rc_waiter_done(&waiter);
    return result;
}

/* Reserves `base` here and asks the session for it; takes what the session offers instead if it is
 * free here too. *done = the window's base. */
static CUresult try_window(rc_session_t *session, rc_lane_t *lane, uint32_t device, uint64_t base,
                           uint64_t size, uint64_t *done)
{
    uint64_t got = base;
    if (!reserve(base, size))
        return CUDA_SUCCESS;
    CUresult result = ask_window(session, lane, device, size, &got);
    if (!result && got == base) {
        *done = base;
        return CUDA_SUCCESS;
    }
    munmap((void *)(uintptr_t)base, size);
    if (!result && got && reserve(got, size))
        *done = got;
    return result;
}

uint64_t rc_place(uint64_t size, uint64_t alignment, uint64_t *wish, uint64_t after)
{
    uint64_t wanted = *wish;
    *wish = 0;
    if (wanted && reserve(wanted, size))
        return wanted;
    for (size_t p = 0; p < sizeof(places) / sizeof(places[0]); p++) {
        uint64_t end = places[p].base + places[p].size;
        int later = after >= places[p].base && after < end;
        uint64_t at = round_up(later ? after + (1u << 30) : places[p].base, alignment);
        for (size_t k = 0; k < p && !later; k++) /* `after` is in a place before this one */
            later = after >= places[k].base && after < places[k].base + places[k].size;
        if (after && !later)
            continue;
        uint64_t step = round_up(size, alignment > 1u << 30 ? alignment : 1u << 30);
        for (int tries = 0; tries < 1024 && at + size <= end; tries++, at += step)
            if (reserve(at, size))
                return at;
    }
    return 0;
}

static uint64_t setting(const char *name)
{
    const char *text = getenv(name);
    int64_t value = 0;
    if (!text || !*text)
        return 0;
    if (strncmp(text, "0x", 2) == 0)
        return strtoull(text, NULL, 16);
    if (gb_parse_int(text, &value) || value < 0)
        gb_log(GB_LOG_WARN, "%s=%s is no size: ignored", name, text);
    return (uint64_t)value;
}

CUresult rc_window_agree(rc_session_t *session, rc_lane_t *lane, rc_device_t *device)
{
    uint64_t grain = device->info.granularity > (2u << 20) ? device->info.granularity : 2u << 20;
    /* More than twice the memory: every large allocation is rounded up to the granularity, and needs
     * room in one piece beside the others. */
    uint64_t size = setting("GABLE_WINDOW_SIZE");
    uint64_t base = setting("GABLE_WINDOW_BASE");
    size = round_up(size ? size : 2 * device->info.total_memory + (64u << 20), grain);
    uint64_t done = 0;
    CUresult result = CUDA_SUCCESS;
    if (base)
        result = try_window(session, lane, device->index, base, size, &done);
    for (size_t p = 0; p < sizeof(places) / sizeof(places[0]) && !done && !result; p++) {
        uint64_t end = places[p].base + places[p].size;
        uint64_t at = places[p].base;
        for (int tries = 0; tries < 64 && at + size <= end && !done && !result; tries++) {
            result = try_window(session, lane, device->index, at, size, &done);
            at += round_up(size, 1ull << 30);
        }
    }
    if (!result && !done)
        result = CUDA_ERROR_OUT_OF_MEMORY;
    device->window = done;
    device->window_size = size;
    return result;
}

static _Atomic uint64_t ids = 1;

static int on_host(rc_block_kind_t kind)
{
    return kind == RC_BLOCK_HOST || kind == RC_BLOCK_REGISTERED;
}

static CUresult add(rc_block_kind_t kind, uint64_t start, uint64_t size, rc_object_t *context,
                    unsigned flags, struct rc_arena *arena)
{
    rc_block_t *block = calloc(1, sizeof(*block));
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->range.start = start;
    block->range.size = size;
    block->kind = kind;
    block->context = context;
    block->device = on_host(kind) ? NULL : context->context_.device;
    block->flags = flags;
    block->arena = arena;
    block->id = atomic_fetch_add(&ids, 1);
    pthread_mutex_lock(&rc.memory_lock);
    gb_range_t *before = gb_ranges_find(&rc.memory, start);
    int known = before != NULL;
    if (!known)
        gb_ranges_add(&rc.memory, &block->range);
    pthread_mutex_unlock(&rc.memory_lock);
    if (known)
        free(block); /* a module's variable that was asked for before */
    return CUDA_SUCCESS;
}

CUresult rc_block_add(rc_block_kind_t kind, uint64_t start, uint64_t size, rc_object_t *context,
                      unsigned flags)
{
    return add(kind, start, size, context, flags, NULL);
}

CUresult rc_block_add_to(struct rc_arena *arena, uint64_t start, uint64_t size,
                         rc_object_t *context)
{
    return add(RC_BLOCK_DEVICE, start, size, context, 0, arena);
}

rc_object_t *rc_device_context(const rc_device_t *device)
{
    const rc_lane_t *lane = rc_lane();
    rc_object_t *current = lane ? rc_object_get(RC_CONTEXT, rc_lane_current(lane)) : NULL;
    return current && current->context_.device == device ? current : device->primary;
}

CUresult rc_block_add_virtual(uint64_t start, uint64_t size, rc_device_t *device)
{
    rc_block_t *block = calloc(1, sizeof(*block));
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    block->range.start = start;
    block->range.size = size;
    block->kind = RC_BLOCK_VIRTUAL;
    block->device = device;
    block->id = atomic_fetch_add(&ids, 1);
    pthread_mutex_lock(&rc.memory_lock);
    gb_ranges_add(&rc.memory, &block->range);
    pthread_mutex_unlock(&rc.memory_lock);
    return CUDA_SUCCESS;
}

uint64_t rc_block_reach(uint64_t address, uint64_t size)
{
    uint64_t reach = 0;
    const rc_device_t *device = NULL;
    pthread_mutex_lock(&rc.memory_lock);
    for (;;) {
        gb_range_t *node = gb_ranges_find(&rc.memory, address + reach);
        const rc_block_t *block = (const rc_block_t *)node;
        if (!node || !block->device ||
            (reach && (block->kind != RC_BLOCK_VIRTUAL || block->device != device)))
            break;
        device = block->device;
        reach += node->size - (address + reach - node->start);
        if (reach >= size || block->kind != RC_BLOCK_VIRTUAL)
            break;
    }
    pthread_mutex_unlock(&rc.memory_lock);
    return reach < size ? reach : size;
}

int rc_block_find(uint64_t address, rc_block_t *out)
{
    pthread_mutex_lock(&rc.memory_lock);
    gb_range_t *node = gb_ranges_find(&rc.memory, address);
    if (node)
        *out = *(rc_block_t *)node;
    pthread_mutex_unlock(&rc.memory_lock);
    return node != NULL;
}

int rc_block_overlaps(uint64_t start, uint64_t size)
{
    pthread_mutex_lock(&rc.memory_lock);
    gb_range_t *below = gb_ranges_below(&rc.memory, start);
    gb_range_t *above = gb_ranges_above(&rc.memory, start);
    int overlaps =
        (below && start - below->start < below->size) || (above && above->start - start < size);
    pthread_mutex_unlock(&rc.memory_lock);
    return overlaps;
}

int rc_block_take(rc_block_kind_t kind, uint64_t start, rc_block_t *out)
{
    pthread_mutex_lock(&rc.memory_lock);
    gb_range_t *node = gb_ranges_find(&rc.memory, start);
    rc_block_t *block = (rc_block_t *)node;
    int found = node && node->start == start && block->kind == kind;
    if (found) {
        gb_ranges_remove(&rc.memory, node);
        *out = *block;
    }
    pthread_mutex_unlock(&rc.memory_lock);
    if (found)
        free(block);
    return found;
}

void rc_blocks_drop(rc_object_t *context)
{
    pthread_mutex_lock(&rc.memory_lock);
    for (gb_range_t *node = gb_ranges_above(&rc.memory, 0); node;) {
        uint64_t at = node->start;
        rc_block_t *block = (rc_block_t *)node;
        if (block->context == context) {
            gb_ranges_remove(&rc.memory, node);
            free(block);
        }
        node = gb_ranges_above(&rc.memory, at);
    }
    pthread_mutex_unlock(&rc.memory_lock);
}

int rc_is_device_address(uint64_t address)
{
    rc_block_t block;
    for (int i = 0; i < rc.device_count; i++)
        if (address - rc.devices[i].window < rc.devices[i].window_size)
            return 1;
    return rc_block_find(address, &block) && !on_host(block.kind);
}
