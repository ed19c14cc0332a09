/* The zone is a file in memory, mapped twice: where the program sees it, with the protection that the
 * pages' states ask for, and a second time for this file, always readable and writable. So a page is
 * filled before the program can see it, and read after it cannot write it any more. Managed variables lie
 * outside the zone, where the device has put them, each in such a file of its own. */
#include "gpu-proxy/client/rc_shared.h"

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
    PAGE = 4096,
    FETCH = 64,        /* pages that one touch brings */
    SMALL = 1 << 20,   /* allocations below this share segments */
    SEGMENT = 4 << 20, /* of those */
};

typedef enum { PAGE_DEVICE, PAGE_BOTH, PAGE_PROGRAM } page_state_t;

/* A part of the zone that the session maps as a whole. */
typedef struct segment {
    struct segment *next;
    uint64_t base, size;
    rc_session_t *session;
    rc_object_t *context;
    int mapped;     /* at the session */
    int shared;     /* by small blocks */
    uint8_t *alias; /* of memory outside the zone */
    gb_ranges_t holes;
} segment_t;

typedef struct {
    gb_range_t range; /* whole pages */
    segment_t *segment;
    uint8_t *alias;         /* of its first byte */
    uint64_t device_offset; /* what of it is the device's memory: nothing else travels */
    uint64_t device_size;
    int open;
    int lost;        /* the session is: plain memory from now on */
    uint64_t here;   /* pages that are not the device's */
    uint8_t state[]; /* of each page */
} block_t;

static struct {
    pthread_mutex_t lock;
    uint64_t base, size; /* of the zone; 0 = not made yet */
    uint8_t *alias;
    gb_ranges_t space; /* without a segment */
    gb_ranges_t blocks;
    segment_t *segments;
    atomic_ulong here;    /* pages of open blocks that are not the device's */
    atomic_ulong closed;  /* blocks that are not open */
    atomic_ulong outside; /* blocks outside the zone */
    atomic_int used;      /* there is or was any block */
} zone = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

/* May a block have the address? */
static int may_have(uint64_t address)
{
    return address - zone.base < zone.size || atomic_load(&zone.outside) != 0;
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
            zone.alias = alias;
            zone.base = base;
            zone.size = size;
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
    if (zone.size)
        return CUDA_SUCCESS;
    int fd = memfd_create("gable-shared", MFD_CLOEXEC);
    for (size_t p = __tsan_init ? 1 : 0;
         fd >= 0 && p < sizeof(places) / sizeof(places[0]) && !zone.size; p++)
        if (ftruncate(fd, (off_t)places[p].size) == 0)
            map_zone(fd, places[p].base, places[p].size);
    if (fd >= 0)
        close(fd);
    if (!zone.size)
        return CUDA_ERROR_OUT_OF_MEMORY;
    return add_free(&zone.space, zone.base, zone.size);
}

static void protect(uint64_t start, uint64_t pages, page_state_t state)
{
    if (state != PAGE_PROGRAM && rc_fault_watch())
        gb_log(GB_LOG_ERROR, "sigaction: %m: managed memory may end the program");
    int prot = state == PAGE_DEVICE ? PROT_NONE
               : state == PAGE_BOTH ? PROT_READ
                                    : PROT_READ | PROT_WRITE;
    if (mprotect((void *)(uintptr_t)start, pages * PAGE, prot))
        gb_log(GB_LOG_ERROR, "mprotect: %m: managed memory may be out of date");
}

/* With the lock held: [first, end) of the block's pages get a state. */
static void set_state(block_t *b, uint64_t first, uint64_t end, page_state_t state)
{
    uint64_t before = 0;
    for (uint64_t i = first; i < end; i++)
        before += b->state[i] != PAGE_DEVICE;
    memset(b->state + first, state, end - first);
    uint64_t after = state == PAGE_DEVICE ? 0 : end - first;
    b->here += after - before;
    if (b->open)
        atomic_fetch_add(&zone.here, after - before);
    protect(b->range.start + first * PAGE, end - first, state);
}

static uint64_t pages_of(const block_t *b)
{
    return b->range.size / PAGE;
}

static block_t *block_at(uint64_t address)
{
    return (block_t *)gb_ranges_find(&zone.blocks, address);
}

/* ---- segments ---- */

static CUresult map_segment(segment_t *s)
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

static segment_t *new_segment(rc_object_t *context, uint64_t size, int shared)
{
    uint64_t grain = context->context_.device->info.granularity;
    segment_t *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    s->size = round_up(size, grain > (2u << 20) ? grain : 2u << 20);
    s->base = cut_free(&zone.space, s->size);
    if (!s->base || add_free(&s->holes, s->base, s->size)) {
        free(s);
        return NULL;
    }
    s->session = context->session;
    s->context = context;
    s->shared = shared;
    s->next = zone.segments;
    zone.segments = s;
    return s;
}

static void end_segment(segment_t *s, int tell)
{
    segment_t **at = &zone.segments;
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
        atomic_fetch_sub(&zone.outside, 1);
    } else {
        (void)add_free(&zone.space, s->base, s->size); /* out of memory: its addresses are lost */
    }
    free(s);
}

static uint64_t take_pages(rc_object_t *context, uint64_t bytes, segment_t **out)
{
    uint64_t start = 0;
    for (segment_t *s = zone.segments; s && !start && bytes < SMALL; s = s->next)
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
static CUresult open_block(block_t *b)
{
    CUresult result = b->open ? CUDA_SUCCESS : rc_fault_watch();
    if (!result && !b->segment->mapped)
        result = map_segment(b->segment);
    if (result || b->open)
        return result;
    b->open = 1;
    atomic_fetch_sub(&zone.closed, 1);
    atomic_fetch_add(&zone.here, b->here);
    return CUDA_SUCCESS;
}

static void end_block(block_t *b, int tell)
{
    segment_t *s = b->segment;
    gb_ranges_remove(&zone.blocks, &b->range);
    if (b->open)
        atomic_fetch_sub(&zone.here, b->here);
    else
        atomic_fetch_sub(&zone.closed, 1);
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
    uint64_t size = round_up(bytes, PAGE);
    block_t *b = calloc(1, sizeof(*b) + size / PAGE);
    if (!b)
        return CUDA_ERROR_OUT_OF_MEMORY;
    pthread_mutex_lock(&zone.lock);
    CUresult result = need_zone();
    if (!result) {
        b->range.start = take_pages(call->context, size, &b->segment);
        b->range.size = b->device_size = size;
        b->alias = zone.alias + (b->range.start - zone.base);
        result = b->range.start ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!result) {
        gb_ranges_add(&zone.blocks, &b->range);
        atomic_fetch_add(&zone.closed, 1);
        atomic_store(&zone.used, 1);
        uint64_t start = b->range.start;
        if (open)
            result = open_block(b);
        if (result) {
            end_block(b, 1);
            b = NULL;
        } else {
            /* Its contents are undefined: nothing needs to travel until somebody writes. */
            set_state(b, 0, pages_of(b), open ? PAGE_BOTH : PAGE_PROGRAM);
            *address = start;
        }
    } else {
        free(b);
    }
    pthread_mutex_unlock(&zone.lock);
    return result;
}

void rc_shared_free(uint64_t address)
{
    pthread_mutex_lock(&zone.lock);
    block_t *b = block_at(address);
    if (b && b->range.start == address)
        end_block(b, 1);
    pthread_mutex_unlock(&zone.lock);
}

/* ---- memory that the device has put somewhere itself ---- */

static segment_t *map_outside(rc_object_t *context, uint64_t base, uint64_t size)
{
    segment_t *s = calloc(1, sizeof(*s));
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
    *s = (segment_t){.next = zone.segments,
                     .base = base,
                     .size = size,
                     .session = context->session,
                     .context = context,
                     .mapped = 1,
                     .alias = alias};
    zone.segments = s;
    atomic_fetch_add(&zone.outside, 1);
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
    uint64_t first = start / PAGE * PAGE, pages = round_up(start + size, PAGE) - first;
    block_t *b = block_at(start);
    if (b)
        return b->segment->context == context ? CUDA_SUCCESS : CUDA_ERROR_MAP_FAILED;
    CUresult result = rc_fault_watch();
    if (result)
        return result;
    b = calloc(1, sizeof(*b) + pages / PAGE);
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
    gb_ranges_add(&zone.blocks, &b->range);
    atomic_store(&zone.used, 1);
    return CUDA_SUCCESS;
}

CUresult rc_shared_adopt(rc_object_t *context, uint64_t start, uint64_t size)
{
    pthread_mutex_lock(&zone.lock);
    CUresult result = adopt(context, start, size);
    pthread_mutex_unlock(&zone.lock);
    return result;
}

void rc_shared_disown(uint64_t address)
{
    pthread_mutex_lock(&zone.lock);
    block_t *b = block_at(address);
    if (b && b->segment->alias)
        end_block(b, 0);
    pthread_mutex_unlock(&zone.lock);
}

static uint64_t word_at(const uint8_t *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof(word));
    return word;
}

/* The next word in [at, end) that is an address of the zone; NULL: there is none. */
static const uint8_t *next_address(const uint8_t *at, const uint8_t *end)
{
    uint64_t base = zone.base, size = zone.size;
    for (; end - at >= 8; at += 8)
        if (word_at(at) - base < size)
            return at;
    return NULL;
}

CUresult rc_shared_open(uint64_t address)
{
    CUresult result = CUDA_SUCCESS;
    if (address - zone.base >= zone.size)
        return CUDA_SUCCESS;
    rc_block_t block;
    if (rc_block_find(address, &block)) /* before its pages are protected */
        rc_down_settle(block.range.start, block.range.size);
    pthread_mutex_lock(&zone.lock);
    block_t *b = block_at(address);
    if (b)
        result = open_block(b);
    pthread_mutex_unlock(&zone.lock);
    return result;
}

CUresult rc_shared_open_all(const void *parameters, size_t bytes)
{
    if (atomic_load_explicit(&zone.closed, memory_order_relaxed) == 0)
        return CUDA_SUCCESS;
    const uint8_t *end = (const uint8_t *)parameters + bytes;
    for (const uint8_t *at = parameters; (at = next_address(at, end)) != NULL; at += 8) {
        uint64_t word = word_at(at);
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
    if (!may_have(address))
        return 0;
    pthread_mutex_lock(&zone.lock);
    block_t *b = block_at(address);
    int open = b && b->open;
    pthread_mutex_unlock(&zone.lock);
    return open;
}

void rc_shared_drop(const rc_object_t *context)
{
    if (!atomic_load(&zone.used))
        return;
    rc_mirror_drop(context);
    pthread_mutex_lock(&zone.lock);
    for (gb_range_t *node = gb_ranges_above(&zone.blocks, 0); node;) {
        uint64_t at = node->start;
        block_t *b = (block_t *)node;
        if (b->segment->context == context)
            end_block(b, 0);
        node = gb_ranges_above(&zone.blocks, at);
    }
    for (segment_t *s = zone.segments, *next; s; s = next) {
        next = s->next;
        if (s->context == context)
            end_segment(s, 0);
    }
    pthread_mutex_unlock(&zone.lock);
}

/* ---- travelling, with the lock held ---- */

static void lose(block_t *b)
{
    if (!b->lost)
        gb_log(GB_LOG_WARN, "managed memory at %#llx is not kept up to date any more",
               (unsigned long long)b->range.start);
    b->lost = 1;
    set_state(b, 0, pages_of(b), PAGE_PROGRAM);
}

/* What of the pages [first, end) is memory of the device, and the same through the alias. */
static uint8_t *part_of(const block_t *b, uint64_t first, uint64_t end, uint64_t *at,
                        uint64_t *size)
{
    uint64_t from = first * PAGE, to = end * PAGE, last = b->device_offset + b->device_size;
    from = from > b->device_offset ? from : b->device_offset;
    to = to < last ? to : last;
    *at = b->range.start + from;
    *size = to > from ? to - from : 0;
    return b->alias + from;
}

/* Sends pages that the program has written. They are the device's already: nobody writes them. */
static CUresult send_pages(block_t *b, rc_lane_t *lane, uint64_t first, uint64_t end)
{
    uint64_t at, left;
    const uint8_t *bytes = part_of(b, first, end, &at, &left);
    CUresult result = CUDA_SUCCESS;
    while (left > 0 && !result) {
        px_wire_copy_t copy = {.dst = at, .size = left < PX_WIRE_PIECE ? left : PX_WIRE_PIECE};
        result = rc_send_bulk(b->segment->session, lane, b->segment->context, PX_OP_SHARED_UP,
                              &copy, sizeof(copy), bytes, copy.size);
        at += copy.size;
        bytes += copy.size;
        left -= copy.size;
    }
    return result;
}

static uint64_t run_end(const block_t *b, uint64_t first)
{
    uint64_t end = first + 1;
    while (end < pages_of(b) && b->state[end] == b->state[first])
        end++;
    return end;
}

static void give_to_device(block_t *b, rc_lane_t *lane)
{
    CUresult result = CUDA_SUCCESS;
    for (uint64_t i = 0, end; i < pages_of(b) && b->here && !result; i = end) {
        end = run_end(b, i);
        page_state_t state = (page_state_t)b->state[i];
        if (state == PAGE_DEVICE)
            continue;
        set_state(b, i, end, PAGE_DEVICE);
        if (state == PAGE_PROGRAM)
            result = send_pages(b, lane, i, end);
    }
    if (result)
        lose(b);
}

static void give_all(rc_session_t *session, rc_lane_t *lane)
{
    pthread_mutex_lock(&zone.lock);
    for (gb_range_t *node = gb_ranges_above(&zone.blocks, 0); node;
         node = gb_ranges_above(&zone.blocks, node->start)) {
        block_t *b = (block_t *)node;
        if (b->open && b->here && !b->lost && b->segment->session == session)
            give_to_device(b, lane);
    }
    pthread_mutex_unlock(&zone.lock);
}

/* ---- addresses that the program has written into shared pages ---- */

enum { FOUND = 32 }; /* blocks that are opened at a time */

typedef struct {
    uint64_t at[FOUND];
    unsigned count;
} found_t;

static void note_closed(found_t *found, const rc_session_t *session, uint64_t address)
{
    const block_t *b = block_at(address);
    if (!b || b->open || b->segment->session != session || found->count == FOUND)
        return;
    for (unsigned i = 0; i < found->count; i++)
        if (found->at[i] == b->range.start)
            return;
    found->at[found->count++] = b->range.start;
}

/* With the lock held: closed blocks that the program's pages of the block name. */
static void look_through(const block_t *b, found_t *found)
{
    for (uint64_t i = 0, next; i < pages_of(b) && found->count < FOUND; i = next) {
        next = run_end(b, i);
        if (b->state[i] != PAGE_PROGRAM)
            continue;
        uint64_t address, size;
        const uint8_t *at = part_of(b, i, next, &address, &size), *end = at + size;
        while ((at = next_address(at, end)) != NULL) {
            note_closed(found, b->segment->session, word_at(at));
            at += 8;
        }
    }
}

/* Page-locked memory that kernels can find from pages that are about to travel is opened, and what can be found
 * from there. A failure leaves it closed, which the kernel's fault tells. */
static void open_named(rc_session_t *session)
{
    for (found_t found = {.count = 1}; found.count && atomic_load(&zone.closed);) {
        found.count = 0;
        pthread_mutex_lock(&zone.lock);
        for (gb_range_t *node = gb_ranges_above(&zone.blocks, 0); node;
             node = gb_ranges_above(&zone.blocks, node->start)) {
            block_t *b = (block_t *)node;
            if (b->open && b->here && !b->lost && b->segment->session == session)
                look_through(b, &found);
        }
        pthread_mutex_unlock(&zone.lock);
        for (unsigned i = 0; i < found.count; i++)
            if (rc_shared_open(found.at[i]))
                return;
    }
}

static CUresult fetch(block_t *b, uint64_t first)
{
    rc_lane_t *lane = rc_lane();
    uint64_t end = run_end(b, first);
    if (end > first + FETCH)
        end = first + FETCH;
    px_wire_copy_t copy = {0};
    uint8_t *bytes = part_of(b, first, end, (uint64_t *)&copy.src, (uint64_t *)&copy.size);
    rc_waiter_t waiter = {.dst = bytes, .dst_size = copy.size};
    if (!lane)
        return CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = rc_send_and_wait(b->segment->session, lane, b->segment->context,
                                       PX_OP_SHARED_DOWN, &copy, sizeof(copy), NULL, 0, &waiter);
    rc_waiter_done(&waiter);
    if (!result)
        set_state(b, first, end, PAGE_BOTH);
    return result;
}

int rc_shared_touched(uint64_t address, int write)
{
    if (!may_have(address))
        return 0;
    pthread_mutex_lock(&zone.lock);
    block_t *b = block_at(address);
    if (b) {
        uint64_t page = (address - b->range.start) / PAGE;
        int was_here = b->state[page] != PAGE_DEVICE;
        if (!was_here && fetch(b, page))
            lose(b);
        if (b->state[page] == PAGE_BOTH && (write > 0 || (write < 0 && was_here)))
            set_state(b, page, page + 1, PAGE_PROGRAM);
    }
    pthread_mutex_unlock(&zone.lock);
    return b != NULL;
}

/* ---- when ---- */

typedef enum { OP_OTHER, OP_WORK, OP_WAIT } op_kind_t;

static op_kind_t kind_of(uint16_t op)
{
    switch (op) {
    case GB_OP_cuLaunchKernel:
    case GB_OP_cuGraphLaunch:
    case GB_OP_cuMemcpyHtoDAsync_v2:
    case GB_OP_cuMemcpyDtoDAsync_v2:
    case GB_OP_cuMemcpyDtoHAsync_v2:
    case GB_OP_cuMemcpy3DAsync_v2:
    case GB_OP_cuMemsetD8Async:
    case GB_OP_cuMemsetD16Async:
    case GB_OP_cuMemsetD32Async:
    case GB_OP_cuMemsetD2D8Async:
    case GB_OP_cuMemsetD2D16Async:
    case GB_OP_cuMemsetD2D32Async:
    case GB_OP_cuStreamWaitValue32_v2:
    case GB_OP_cuStreamWriteValue32_v2:
    case GB_OP_cuStreamWaitValue64_v2:
    case GB_OP_cuStreamWriteValue64_v2:
    case GB_OP_cuLaunchHostFunc:
    case GB_OP_cuStreamAddCallback:
    case PX_OP_HOST_DONE:
    case PX_OP_BOX_UP:
    case PX_OP_BOX_DOWN:
    case PX_OP_DOWN:
    case PX_OP_DOWN_BOX:
    case PX_OP_EXCHANGE_CALL:
    case PX_OP_EXCHANGE_POST:
    case PX_OP_PEER_SEND:
    case PX_OP_PEER_RECV:
        return OP_WORK;
    case GB_OP_cuCtxSynchronize:
    case GB_OP_cuStreamSynchronize:
    case GB_OP_cuStreamQuery:
    case GB_OP_cuEventSynchronize:
    case GB_OP_cuEventQuery:
        return OP_WAIT;
    default:
        return OP_OTHER;
    }
}

void rc_shared_before(rc_session_t *session, rc_lane_t *lane, uint16_t op)
{
    if (!atomic_load_explicit(&zone.used, memory_order_relaxed))
        return;
    op_kind_t kind = kind_of(op);
    if (kind == OP_WORK)
        atomic_fetch_add(&session->work, 1);
    /* What the program has written must reach a device that waits for it. */
    if (atomic_load(&zone.here) && kind != OP_OTHER &&
        atomic_load(&session->work) != atomic_load(&session->work_done)) {
        open_named(session);
        give_all(session, lane);
    }
    if (kind != OP_OTHER && atomic_load(&session->work) != atomic_load(&session->work_done))
        rc_mirror_send(session, lane);
}

void rc_shared_after(rc_session_t *session, uint16_t op, CUresult result)
{
    if (!atomic_load_explicit(&zone.used, memory_order_relaxed) || kind_of(op) != OP_WAIT || result)
        return;
    uint64_t work = atomic_load(&session->work);
    if (work == atomic_load(&session->work_done))
        return;
    /* What was touched meanwhile may be older than what the device has written since. */
    if (atomic_load(&zone.here))
        give_all(session, rc_lane());
    rc_mirror_fetch(session, rc_lane());
    if (op == GB_OP_cuCtxSynchronize)
        atomic_store(&session->work_done, work);
}
