/* The zone is a file in memory, mapped twice: where the program sees it, with the protection that the
 * pages' states ask for, and a second time for this file, always readable and writable. So a page is
 * filled before the program can see it, and read after it cannot write it any more. Managed variables lie
 * outside the zone, where the device has put them, each in such a file of its own. */
#include "gpu-proxy/client/rc_zone.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/core/gb_log.h"
#include "gpu-proxy/client/rc_down.h"
#include "gpu-proxy/client/rc_fault.h"
#include "gpu-proxy/client/rc_mirror.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

enum {
    SMALL = 1 << 20,   /* allocations below this share segments */
    SEGMENT = 4 << 20, /* of those */
};

rc_zone_t rc_zone = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Where the zone may lie, best first. The first is large, but a thread-sanitized program would end at the
 * attempt; the others are parts of the places that windows take from their other ends (rc_memory.c). */
static const struct {
    uint64_t base, size;
} places[] = {{0x300000000000, 1ull << 40},
              {0x567c00000000, 16ull << 30},
              {0x7e9c00000000, 16ull << 30},
              {0x558c00000000, 16ull << 30}};

extern void __tsan_init(void) __attribute__((weak));

static uint64_t round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

/* ---- ranges of free addresses ---- */

static CUresult add_free(gb_ranges_t *map, uint64_t start, uint64_t size)
{
    gb_range_t *below = gb_ranges_below(map, start), *above = gb_ranges_above(map, start);
    if (below && below->start + below->size == start) {
        gb_ranges_remove(map, below);
        start = below->start;
        size += below->size;
        free(below);
    }
    if (above && start + size == above->start) {
        gb_ranges_remove(map, above);
        size += above->size;
        free(above);
    }
    gb_range_t *node = calloc(1, sizeof(*node));
    if (!node)
        return CUDA_ERROR_OUT_OF_MEMORY;
    node->start = start;
    node->size = size;
    gb_ranges_add(map, node);
    return CUDA_SUCCESS;
}

static uint64_t cut_free(gb_ranges_t *map, uint64_t size)
{
    gb_range_t *node = gb_ranges_fit(map, size);
    if (!node)
        return 0;
    uint64_t start = node->start;
    gb_ranges_remove(map, node);
    node->start += size;
    node->size -= size;
    if (node->size)
        gb_ranges_add(map, node);
    else
        free(node);
    return start;
}

static void free_ranges(gb_ranges_t *map)
{
    while (map->root) {
        gb_range_t *node = map->root;
        gb_ranges_remove(map, node);
        free(node);
    }
}

/* ---- the zone ---- */

static int map_zone(int fd, uint64_t base, uint64_t size)
{
    void *wish = (void *)(uintptr_t)base;
    void *got =
        mmap(wish, size, PROT_NONE, MAP_SHARED | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd, 0);
    if (got == wish) {
        void *alias = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
        if (alias != MAP_FAILED) {
            madvise(got, size, MADV_DONTDUMP);
            madvise(alias, size, MADV_DONTDUMP);
            rc_zone.alias = alias;
            rc_zone.base = base;
            rc_zone.size = size;
            return 1;
        }
    }
    if (got != MAP_FAILED)
        munmap(got, size);
    return 0;
}

/* With the lock held. */
static CUresult need_zone(void)
{
    if (rc_zone.size)
        return CUDA_SUCCESS;
    int fd = memfd_create("gable-shared", MFD_CLOEXEC);
    for (size_t p = __tsan_init ? 1 : 0;
         fd >= 0 && p < sizeof(places) / sizeof(places[0]) && !rc_zone.size; p++)
        if (ftruncate(fd, (off_t)places[p].size) == 0)
            map_zone(fd, places[p].base, places[p].size);
    if (fd >= 0)
        close(fd);
    if (!rc_zone.size)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return add_free(&rc_zone.space, rc_zone.base, rc_zone.size);
}

static void protect(uint64_t start, uint64_t pages, rc_page_state_t state)
{
    if (state != RC_PAGE_PROGRAM && rc_fault_watch())
        gb_log(GB_LOG_ERROR, "sigaction: %m: managed memory may end the program");
    int prot = state == RC_PAGE_DEVICE ? PROT_NONE
               : state == RC_PAGE_BOTH ? PROT_READ
                                       : PROT_READ | PROT_WRITE;
    if (mprotect((void *)(uintptr_t)start, pages * RC_PAGE, prot))
        gb_log(GB_LOG_ERROR, "mprotect: %m: managed memory may be out of date");
}

/* With the lock held: [first, end) of the block's pages get a state. */
void rc_zone_set_state(rc_paged_t *b, uint64_t first, uint64_t end, rc_page_state_t state)
{
    uint64_t before = 0;
    for (uint64_t i = first; i < end; i++)
        before += b->state[i] != RC_PAGE_DEVICE;
    memset(b->state + first, state, end - first);
    uint64_t after = state == RC_PAGE_DEVICE ? 0 : end - first;
    b->here += after - before;
    if (b->open)
        atomic_fetch_add(&rc_zone.here, after - before);
    protect(b->range.start + first * RC_PAGE, end - first, state);
}

/* ---- segments ---- */

static CUresult map_segment(rc_segment_t *s)
{
    rc_lane_t *lane = rc_lane();
    uint64_t args[3] = {s->base, s->size, s->context->number};
    rc_waiter_t waiter = {0};
    if (!lane)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = rc_send_and_wait(s->session, lane, s->context, PX_OP_SHARED_MAP, args,
                                       sizeof(args), NULL, 0, &waiter);
    rc_waiter_done(&waiter);
    s->mapped = !result;
    return result;
}

static rc_segment_t *new_segment(rc_object_t *context, uint64_t size, int shared)
{
    uint64_t grain = context->context_.device->info.granularity;
    rc_segment_t *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->size = round_up(size, grain > (2u << 20) ? grain : 2u << 20);
    s->base = cut_free(&rc_zone.space, s->size);
    if (!s->base || add_free(&s->holes, s->base, s->size)) {
        free(s);
        return NULL;
    }
    s->session = context->session;
    s->context = context;
    s->shared = shared;
    s->next = rc_zone.segments;
    rc_zone.segments = s;
    return s;
}

static void end_segment(rc_segment_t *s, int tell)
{
    rc_segment_t **at = &rc_zone.segments;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    rc_lane_t *lane = rc_lane();
    uint64_t args[2] = {s->base, s->size};
    if (tell && s->mapped && lane)
        rc_send(s->session, lane, s->context, PX_OP_SHARED_UNMAP, args, sizeof(args), NULL, 0);
    free_ranges(&s->holes);
    if (s->alias) {
        munmap((void *)(uintptr_t)s->base, s->size);
        munmap(s->alias, s->size);
        atomic_fetch_sub(&rc_zone.outside, 1);
    } else {
        (void)add_free(&rc_zone.space, s->base,
                       s->size); /* out of memory: its addresses are lost */
    }
    free(s);
}

static uint64_t take_pages(rc_object_t *context, uint64_t bytes, rc_segment_t **out)
{
    uint64_t start = 0;
    for (rc_segment_t *s = rc_zone.segments; s && !start && bytes < SMALL; s = s->next)
        if (s->shared && s->context == context) {
            start = cut_free(&s->holes, bytes);
            *out = s;
        }
    if (start)
        return start;
    *out = new_segment(context, bytes < SMALL ? SEGMENT : bytes, bytes < SMALL);
    return *out ? cut_free(&(*out)->holes, bytes) : 0;
}

/* ---- blocks ---- */

/* With the lock held. What the program has written so far goes with the next frame that needs it. */
static CUresult open_block(rc_paged_t *b)
{
    CUresult result = b->open ? CUDA_SUCCESS : rc_fault_watch();
    if (!result && !b->segment->mapped)
        result = map_segment(b->segment);
    if (result || b->open)
        return result;
    b->open = 1;
    atomic_fetch_sub(&rc_zone.closed, 1);
    atomic_fetch_add(&rc_zone.here, b->here);
    return CUDA_SUCCESS;
}

static void end_block(rc_paged_t *b, int tell)
{
    rc_segment_t *s = b->segment;
    gb_ranges_remove(&rc_zone.blocks, &b->range);
    if (b->open)
        atomic_fetch_sub(&rc_zone.here, b->here);
    else
        atomic_fetch_sub(&rc_zone.closed, 1);
    if (!s->alias) {
        madvise((void *)(uintptr_t)b->range.start, b->range.size, MADV_REMOVE);
        mprotect((void *)(uintptr_t)b->range.start, b->range.size, PROT_NONE);
        (void)add_free(&s->holes, b->range.start, b->range.size);
    }
    if (!s->shared)
        end_segment(s, tell);
    free(b);
}

CUresult rc_shared_alloc(rc_call_t *call, uint64_t bytes, int open, uint64_t *address)
{
    if (bytes > 1ull << 46)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t size = round_up(bytes, RC_PAGE);
    rc_paged_t *b = calloc(1, sizeof(*b) + size / RC_PAGE);
    if (!b)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&rc_zone.lock);
    CUresult result = need_zone();
    if (!result) {
        b->range.start = take_pages(call->context, size, &b->segment);
        b->range.size = b->device_size = size;
        b->alias = rc_zone.alias + (b->range.start - rc_zone.base);
        result = b->range.start ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!result) {
        gb_ranges_add(&rc_zone.blocks, &b->range);
        atomic_fetch_add(&rc_zone.closed, 1);
        atomic_store(&rc_zone.used, 1);
        uint64_t start = b->range.start;
        if (open)
            result = open_block(b);
        if (result) {
            end_block(b, 1);
            b = NULL;
        } else {
            /* Its contents are undefined: nothing needs to travel until somebody writes. */
            rc_zone_set_state(b, 0, rc_zone_pages(b), open ? RC_PAGE_BOTH : RC_PAGE_PROGRAM);
            *address = start;
        }
    } else {
        free(b);
    }
    pthread_mutex_unlock(&rc_zone.lock);
    return result;
}

void rc_shared_free(uint64_t address)
{
    pthread_mutex_lock(&rc_zone.lock);
    rc_paged_t *b = rc_zone_at(address);
    if (b && b->range.start == address)
        end_block(b, 1);
    pthread_mutex_unlock(&rc_zone.lock);
}

/* ---- memory that the device has put somewhere itself ---- */

static rc_segment_t *map_outside(rc_object_t *context, uint64_t base, uint64_t size)
{
    rc_segment_t *s = calloc(1, sizeof(*s));
    int fd = memfd_create("gable-variables", MFD_CLOEXEC);
    void *wish = (void *)(uintptr_t)base, *got = MAP_FAILED, *alias = MAP_FAILED;
    if (!s || fd < 0 || ftruncate(fd, (off_t)size))
        goto err_close;
    got = mmap(wish, size, PROT_NONE, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
    if (got != wish)
        goto err_unmap;
    alias = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (alias == MAP_FAILED)
        goto err_unmap;
    close(fd);
    *s = (rc_segment_t){.next = rc_zone.segments,
                        .base = base,
                        .size = size,
                        .session = context->session,
                        .context = context,
                        .mapped = 1,
                        .alias = alias};
    rc_zone.segments = s;
    atomic_fetch_add(&rc_zone.outside, 1);
    return s;
err_unmap:
    if (got != MAP_FAILED)
        munmap(got, size);
err_close:
    if (fd >= 0)
        close(fd);
    free(s);
    return NULL;
}

/* With the lock held. */
static CUresult adopt(rc_object_t *context, uint64_t start, uint64_t size)
{
    uint64_t first = start / RC_PAGE * RC_PAGE, pages = round_up(start + size, RC_PAGE) - first;
    rc_paged_t *b = rc_zone_at(start);
    if (b)
        return b->segment->context == context ? CUDA_SUCCESS : CUDA_ERROR_MAP_FAILED;
    CUresult result = rc_fault_watch();
    if (result)
        return result;
    b = calloc(1, sizeof(*b) + pages / RC_PAGE);
    if (!b)
        return CUDA_ERROR_OUT_OF_MEMORY;
    b->segment = map_outside(context, first, pages);
    if (!b->segment) {
        gb_log(GB_LOG_ERROR,
               "the device has managed variables at %#llx, where this program has other "
               "memory: allocate managed memory instead",
               (unsigned long long)start);
        free(b);
        return CUDA_ERROR_MAP_FAILED;
    }
    b->range.start = first;
    b->range.size = pages;
    b->alias = b->segment->alias;
    b->device_offset = start - first;
    b->device_size = size;
    b->open = 1; /* and all of it is the device's */
    gb_ranges_add(&rc_zone.blocks, &b->range);
    atomic_store(&rc_zone.used, 1);
    return CUDA_SUCCESS;
}

CUresult rc_shared_adopt(rc_object_t *context, uint64_t start, uint64_t size)
{
    pthread_mutex_lock(&rc_zone.lock);
    CUresult result = adopt(context, start, size);
    pthread_mutex_unlock(&rc_zone.lock);
    return result;
}

void rc_shared_disown(uint64_t address)
{
    pthread_mutex_lock(&rc_zone.lock);
    rc_paged_t *b = rc_zone_at(address);
    if (b && b->segment->alias)
        end_block(b, 0);
    pthread_mutex_unlock(&rc_zone.lock);
}

CUresult rc_shared_open(uint64_t address)
{
    CUresult result = CUDA_SUCCESS;
    if (address - rc_zone.base >= rc_zone.size)
        return CUDA_SUCCESS;
    rc_block_t block;
    if (rc_block_find(address, &block)) /* before its pages are protected */
        rc_down_settle(block.range.start, block.range.size);
    pthread_mutex_lock(&rc_zone.lock);
    rc_paged_t *b = rc_zone_at(address);
    if (b)
        result = open_block(b);
    pthread_mutex_unlock(&rc_zone.lock);
    return result;
}

CUresult rc_shared_open_all(const void *parameters, size_t bytes)
{
    if (atomic_load_explicit(&rc_zone.closed, memory_order_relaxed) == 0)
        return CUDA_SUCCESS;
    const uint8_t *end = (const uint8_t *)parameters + bytes;
    for (const uint8_t *at = parameters; (at = rc_zone_next(at, end)) != NULL; at += 8) {
        uint64_t word = rc_zone_word(at);
        CUresult result = rc_shared_is_open(word) ? CUDA_SUCCESS : rc_shared_open(word);
        if (result)
            return result;
    }
    return CUDA_SUCCESS;
}

CUresult rc_shared_open_copied(uint64_t dst, const void *bytes, size_t size)
{
    size_t skip = -dst & 7;
    return skip < size ? rc_shared_open_all((const uint8_t *)bytes + skip, size - skip)
                       : CUDA_SUCCESS;
}

int rc_shared_is_open(uint64_t address)
{
    if (!rc_zone_may_have(address))
        return 0;
    pthread_mutex_lock(&rc_zone.lock);
    rc_paged_t *b = rc_zone_at(address);
    int open = b && b->open;
    pthread_mutex_unlock(&rc_zone.lock);
    return open;
}

void rc_shared_drop(const rc_object_t *context)
{
    if (!atomic_load(&rc_zone.used))
        return;
    rc_mirror_drop(context);
    pthread_mutex_lock(&rc_zone.lock);
    for (gb_range_t *node = gb_ranges_above(&rc_zone.blocks, 0); node;) {
        uint64_t at = node->start;
        rc_paged_t *b = (rc_paged_t *)node;
        if (b->segment->context == context)
            end_block(b, 0);
        node = gb_ranges_above(&rc_zone.blocks, at);
    }
    for (rc_segment_t *s = rc_zone.segments, *next; s; s = next) {
        next = s->next;
        if (s->context == context)
            end_segment(s, 0);
    }
    pthread_mutex_unlock(&rc_zone.lock);
}
