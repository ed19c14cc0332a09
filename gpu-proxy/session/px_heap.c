#include "gpu-proxy/session/px_heap.h"

#include <pthread.h>
#include <stdlib.h>

#include "common/cuda/gb_ranges.h"

enum {
    GRAIN = 512,
    SHARED_SEGMENT = 4 << 20,
    LARGE = 1 << 20,
    ALLOW_STEP = 4 << 20,     /* what is allowed is a multiple of it, if possible */
    ALLOW_SLACK = 32 << 20,   /* more than that is not kept unused */
    PENDING_SMALL = 16 << 20, /* freed bytes that may wait before an allocation waits for them */
};
#define PENDING_LARGE (256ull << 20)
#define SPARE_LARGE (256ull << 20) /* free mappings that are kept for the next allocation */

/* A mapping; while a large one is free it is in `spare`. */
typedef struct segment {
    gb_range_t range;
    CUmemGenericAllocationHandle memory;
    uint64_t number; /* the daemon's, once a piece of it was shared */
    struct segment *next_spare;
} segment_t;

/* What was handed out, or freed and waiting. */
typedef struct piece {
    gb_range_t range;
    uint32_t owner;
    segment_t *segment; /* of a large piece */
    uint64_t stamp;     /* when freed */
    int shared;         /* other sessions find it under the token */
    px_token_t token;
    struct piece *next;
} piece_t;

struct px_heap {
    pthread_mutex_t lock;
    const gb_cuda_table_t *cuda;
    CUdevice device;
    int exports; /* mappings can be exported */
    void (*gone)(void *arg, const px_token_t *token);
    void *gone_arg;
    uint64_t base, size, granularity, quota;
    gb_ranges_t space;    /* addresses without a mapping */
    gb_ranges_t segments; /* mappings */
    gb_ranges_t holes;    /* free parts of shared segments */
    gb_ranges_t pieces;   /* handed out */
    segment_t *spare;
    uint64_t spare_bytes, hole_bytes;
    piece_t *pending, **pending_tail; /* oldest first */
    uint64_t pending_small, pending_large;
    uint64_t pending_mapped; /* mappings of the large ones, which are rounded up */
    uint64_t used;
    uint64_t charged; /* that is not from here */
    px_heap_allow_t allow;
    void *allow_arg;
    uint64_t allowed; /* bytes that may be held without asking */
    uint64_t now;
};

static uint64_t round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) / to * to;
}

static void add_range(gb_ranges_t *map, gb_range_t *node, uint64_t start, uint64_t size)
{
    node->start = start;
    node->size = size;
    gb_ranges_add(map, node);
}

/* Adds free addresses, joined with their neighbours. Memory for the node may be lacking: the range is
 * then lost, which wastes addresses and breaks nothing. */
static void add_free(gb_ranges_t *map, uint64_t start, uint64_t size)
{
    gb_range_t *below = gb_ranges_below(map, start);
    gb_range_t *above = gb_ranges_above(map, start);
    gb_range_t *node = NULL;
    if (below && below->start + below->size == start) {
        gb_ranges_remove(map, below);
        start = below->start;
        size += below->size;
        node = below;
    }
    if (above && start + size == above->start) {
        gb_ranges_remove(map, above);
        size += above->size;
        if (node)
            free(above);
        else
            node = above;
    }
    if (!node)
        node = malloc(sizeof(*node));
    if (node)
        add_range(map, node, start, size);
}

/* Takes the lowest `size` bytes that fit out of a map of free ranges; 0 if none do. */
static uint64_t cut_free(gb_ranges_t *map, uint64_t size)
{
    gb_range_t *node = gb_ranges_fit(map, size);
    if (!node)
        return 0;
    uint64_t start = node->start;
    gb_ranges_remove(map, node);
    if (node->size == size)
        free(node);
    else
        add_range(map, node, start + size, node->size - size);
    return start;
}

static CUmemAllocationProp properties(CUdevice device, int exports)
{
    CUmemAllocationProp prop = {0};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    if (exports)
        prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = device;
    return prop;
}

CUresult px_heap_create(const gb_cuda_table_t *cuda, CUdevice device, uint64_t *base, uint64_t size,
                        uint64_t quota, px_heap_t **out)
{
    px_heap_t *heap = calloc(1, sizeof(*heap));
    size_t granularity = 0;
    CUdeviceptr address = 0;
    if (!heap)
        return CUDA_ERROR_OUT_OF_MEMORY;
    int exports = 0;
    if (cuda->cuDeviceGetAttribute(
            &exports, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device))
        exports = 0;
    CUmemAllocationProp prop = properties(device, exports);
    CUresult result = cuda->cuMemGetAllocationGranularity(&granularity, &prop,
                                                          CU_MEM_ALLOC_GRANULARITY_RECOMMENDED);
    if (result || !granularity)
        goto err_free;
    result = cuda->cuMemAddressReserve(&address, size, 0, *base, 0);
    if (result)
        goto err_free;
    pthread_mutex_init(&heap->lock, NULL);
    heap->cuda = cuda;
    heap->device = device;
    heap->exports = exports;
    heap->base = address;
    heap->size = size;
    heap->granularity = granularity;
    heap->quota = quota ? quota : UINT64_MAX;
    heap->pending_tail = &heap->pending;
    heap->allowed = UINT64_MAX;
    add_free(&heap->space, address, size);
    *base = address;
    *out = heap;
    return CUDA_SUCCESS;
err_free:
    free(heap);
    return result ? result : CUDA_ERROR_NOT_SUPPORTED;
}

void px_heap_set_allow(px_heap_t *heap, px_heap_allow_t allow, void *arg)
{
    pthread_mutex_lock(&heap->lock);
    heap->allow = allow;
    heap->allow_arg = arg;
    heap->allowed = 0;
    pthread_mutex_unlock(&heap->lock);
}

static uint64_t held(const px_heap_t *heap)
{
    return heap->used + heap->charged + heap->pending_small + heap->pending_large;
}

static uint64_t ask(px_heap_t *heap, uint64_t bytes)
{
    uint64_t left;
    heap->allowed = heap->allow(heap->allow_arg, bytes, &left);
    return left;
}

/* Whether so many bytes more may be held. Asks for a bit more than that, so that it does not ask often. */
static int may_hold(px_heap_t *heap, uint64_t more)
{
    uint64_t bytes = held(heap) + more;
    if (bytes > heap->allowed)
        ask(heap, round_up(bytes, ALLOW_STEP));
    if (bytes > heap->allowed)
        ask(heap, bytes);
    return bytes <= heap->allowed;
}

/* Others may have what is not held here any more, but for a rest that may be used again soon. */
static void allow_less(px_heap_t *heap)
{
    uint64_t enough = round_up(held(heap), ALLOW_STEP);
    if (heap->allow && heap->allowed > enough + ALLOW_SLACK)
        ask(heap, enough);
}

uint64_t px_heap_left(px_heap_t *heap)
{
    pthread_mutex_lock(&heap->lock);
    uint64_t left = UINT64_MAX;
    if (heap->allow)
        left = ask(heap, heap->allowed) + heap->allowed - heap->used - heap->charged;
    pthread_mutex_unlock(&heap->lock);
    return left;
}

static void segment_free(px_heap_t *heap, segment_t *segment)
{
    gb_ranges_remove(&heap->segments, &segment->range);
    heap->cuda->cuMemUnmap(segment->range.start, segment->range.size);
    heap->cuda->cuMemRelease(segment->memory);
    add_free(&heap->space, segment->range.start, segment->range.size);
    free(segment);
}

static CUresult segment_make(px_heap_t *heap, uint64_t size, segment_t **out)
{
    const gb_cuda_table_t *cuda = heap->cuda;
    CUmemAllocationProp prop = properties(heap->device, heap->exports);
    segment_t *segment = calloc(1, sizeof(*segment));
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    uint64_t start = segment ? cut_free(&heap->space, size) : 0;
    if (!start)
        goto err_free;
    result = cuda->cuMemCreate(&segment->memory, size, &prop, 0);
    if (result)
        goto err_space;
    result = cuda->cuMemMap(start, size, 0, segment->memory, 0);
    if (result)
        goto err_release;
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    result = cuda->cuMemSetAccess(start, size, &access, 1);
    if (result)
        goto err_unmap;
    add_range(&heap->segments, &segment->range, start, size);
    *out = segment;
    return CUDA_SUCCESS;
err_unmap:
    cuda->cuMemUnmap(start, size);
err_release:
    cuda->cuMemRelease(segment->memory);
err_space:
    add_free(&heap->space, start, size);
err_free:
    free(segment);
    return result;
}

/* Takes [start, start + size) out of the hole that it lies in. */
static void fill_hole(px_heap_t *heap, gb_range_t *hole, uint64_t start, uint64_t size)
{
    uint64_t first = hole->start, end = first + hole->size;
    gb_ranges_remove(&heap->holes, hole);
    free(hole);
    heap->hole_bytes -= size;
    if (start > first)
        add_free(&heap->holes, first, start - first);
    if (end > start + size)
        add_free(&heap->holes, start + size, end - start - size);
}

/* Mappings of small pieces of which none is left. */
static void release_empty(px_heap_t *heap)
{
    gb_range_t *node = gb_ranges_above(&heap->segments, 0);
    while (node) {
        segment_t *segment = (segment_t *)node;
        uint64_t start = node->start, size = node->size;
        gb_range_t *hole = gb_ranges_find(&heap->holes, start);
        if (hole && start + size <= hole->start + hole->size) {
            fill_hole(heap, hole, start, size);
            segment_free(heap, segment);
        }
        node = gb_ranges_above(&heap->segments, start);
    }
}

static void trim(px_heap_t *heap, uint64_t keep)
{
    if (keep == 0)
        release_empty(heap);
    while (heap->spare && heap->spare_bytes > keep) {
        segment_t *segment = heap->spare;
        heap->spare = segment->next_spare;
        heap->spare_bytes -= segment->range.size;
        segment_free(heap, segment);
    }
}

void px_heap_destroy(px_heap_t *heap)
{
    if (!heap)
        return;
    heap->gone = NULL; /* all that the session has left goes with it */
    while (heap->pieces.root) {
        gb_range_t *node = heap->pieces.root;
        gb_ranges_remove(&heap->pieces, node);
        free(node);
    }
    while (heap->pending) {
        piece_t *piece = heap->pending;
        heap->pending = piece->next;
        free(piece);
    }
    while (heap->segments.root)
        segment_free(heap, (segment_t *)heap->segments.root);
    gb_ranges_t *maps[] = {&heap->holes, &heap->space};
    for (int i = 0; i < 2; i++)
        while (maps[i]->root) {
            gb_range_t *node = maps[i]->root;
            gb_ranges_remove(maps[i], node);
            free(node);
        }
    heap->cuda->cuMemAddressFree(heap->base, heap->size);
    pthread_mutex_destroy(&heap->lock);
    free(heap);
}

/* Result of an allocation that found no memory: worth another try once pending frees are through? */
static CUresult no_room(const px_heap_t *heap, CUresult result)
{
    return heap->pending ? CUDA_ERROR_NOT_READY : result;
}

static CUresult take_small(px_heap_t *heap, piece_t *piece, uint64_t bytes)
{
    uint64_t start = cut_free(&heap->holes, bytes);
    if (!start) {
        segment_t *segment;
        if (heap->pending_small > PENDING_SMALL)
            return CUDA_ERROR_NOT_READY;
        uint64_t size = round_up(SHARED_SEGMENT, heap->granularity);
        CUresult result = segment_make(heap, size, &segment);
        if (result) {
            trim(heap, 0);
            result = segment_make(heap, size, &segment);
        }
        if (result)
            return no_room(heap, result);
        add_free(&heap->holes, segment->range.start, size);
        heap->hole_bytes += size;
        start = cut_free(&heap->holes, bytes);
        if (!start)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    heap->hole_bytes -= bytes;
    piece->range.start = start;
    return CUDA_SUCCESS;
}

/* The smallest spare mapping that fits without wasting more than a quarter. */
static segment_t *reuse(px_heap_t *heap, uint64_t size)
{
    segment_t **best = NULL;
    for (segment_t **at = &heap->spare; *at; at = &(*at)->next_spare)
        if ((*at)->range.size >= size && (*at)->range.size - size <= size / 4 &&
            (!best || (*at)->range.size < (*best)->range.size))
            best = at;
    if (!best)
        return NULL;
    segment_t *segment = *best;
    *best = segment->next_spare;
    heap->spare_bytes -= segment->range.size;
    return segment;
}

static CUresult take_large(px_heap_t *heap, piece_t *piece, uint64_t bytes)
{
    uint64_t size = round_up(bytes, heap->granularity);
    segment_t *segment = reuse(heap, size);
    if (!segment) {
        if (heap->pending_large > PENDING_LARGE)
            return CUDA_ERROR_NOT_READY;
        CUresult result = segment_make(heap, size, &segment);
        if (result) {
            trim(heap, 0);
            result = segment_make(heap, size, &segment);
        }
        if (result)
            return no_room(heap, result);
    }
    piece->segment = segment;
    piece->range.start = segment->range.start;
    return CUDA_SUCCESS;
}

CUresult px_heap_take(px_heap_t *heap, uint64_t bytes, uint32_t owner, uint64_t *address)
{
    if (bytes == 0 || bytes > heap->size)
        return bytes ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    piece_t *piece = calloc(1, sizeof(*piece));
    if (!piece)
        return CUDA_ERROR_OUT_OF_MEMORY;
    bytes = round_up(bytes, GRAIN);
    pthread_mutex_lock(&heap->lock);
    uint64_t used = heap->used + heap->charged;
    CUresult result;
    if (bytes > heap->quota || held(heap) > heap->quota - bytes)
        result = bytes <= heap->quota && used <= heap->quota - bytes
                     ? no_room(heap, CUDA_ERROR_OUT_OF_MEMORY)
                     : CUDA_ERROR_OUT_OF_MEMORY;
    else if (!may_hold(heap, bytes))
        result = no_room(heap, CUDA_ERROR_OUT_OF_MEMORY);
    else if (bytes < LARGE)
        result = take_small(heap, piece, bytes);
    else
        result = take_large(heap, piece, bytes);
    if (result == CUDA_SUCCESS) {
        piece->owner = owner;
        add_range(&heap->pieces, &piece->range, piece->range.start, bytes);
        heap->used += bytes;
        *address = piece->range.start;
    }
    pthread_mutex_unlock(&heap->lock);
    if (result)
        free(piece);
    return result;
}

static void give(px_heap_t *heap, piece_t *piece)
{
    if (piece->shared && heap->gone)
        heap->gone(heap->gone_arg, &piece->token);
    gb_ranges_remove(&heap->pieces, &piece->range);
    heap->used -= piece->range.size;
    *(piece->segment ? &heap->pending_large : &heap->pending_small) += piece->range.size;
    if (piece->segment)
        heap->pending_mapped += piece->segment->range.size;
    piece->stamp = heap->now;
    piece->next = NULL;
    *heap->pending_tail = piece;
    heap->pending_tail = &piece->next;
}

int px_heap_holds(px_heap_t *heap, uint64_t address, uint64_t bytes)
{
    pthread_mutex_lock(&heap->lock);
    gb_range_t *piece = gb_ranges_find(&heap->pieces, address);
    int holds = piece && bytes <= piece->size - (address - piece->start);
    pthread_mutex_unlock(&heap->lock);
    return holds;
}

int px_heap_mapping(px_heap_t *heap, uint64_t address, px_heap_mapping_t *out)
{
    pthread_mutex_lock(&heap->lock);
    const piece_t *piece = (piece_t *)gb_ranges_find(&heap->pieces, address);
    const segment_t *segment = (segment_t *)gb_ranges_find(&heap->segments, address);
    int found = piece && piece->range.start == address && segment;
    if (found)
        *out = (px_heap_mapping_t){segment->range.start, segment->range.size, segment->memory,
                                   piece->token,         piece->shared,       segment->number};
    pthread_mutex_unlock(&heap->lock);
    return found;
}

int px_heap_note_shared(px_heap_t *heap, uint64_t address, const px_token_t *token, uint64_t number)
{
    pthread_mutex_lock(&heap->lock);
    piece_t *piece = (piece_t *)gb_ranges_find(&heap->pieces, address);
    segment_t *segment = (segment_t *)gb_ranges_find(&heap->segments, address);
    int fine = piece && piece->range.start == address && !piece->shared && segment;
    if (fine) {
        segment->number = number;
        piece->token = *token;
        piece->shared = 1;
    }
    pthread_mutex_unlock(&heap->lock);
    return fine;
}

void px_heap_on_gone(px_heap_t *heap, void (*gone)(void *arg, const px_token_t *token), void *arg)
{
    pthread_mutex_lock(&heap->lock);
    heap->gone = gone;
    heap->gone_arg = arg;
    pthread_mutex_unlock(&heap->lock);
}

CUresult px_heap_give(px_heap_t *heap, uint64_t address)
{
    pthread_mutex_lock(&heap->lock);
    gb_range_t *node = gb_ranges_find(&heap->pieces, address);
    int found = node && node->start == address;
    if (found)
        give(heap, (piece_t *)node);
    pthread_mutex_unlock(&heap->lock);
    return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void px_heap_give_all(px_heap_t *heap, uint32_t owner)
{
    pthread_mutex_lock(&heap->lock);
    for (gb_range_t *node = gb_ranges_above(&heap->pieces, 0); node;) {
        uint64_t at = node->start;
        if (((piece_t *)node)->owner == owner)
            give(heap, (piece_t *)node);
        node = gb_ranges_above(&heap->pieces, at);
    }
    pthread_mutex_unlock(&heap->lock);
}

CUresult px_heap_charge(px_heap_t *heap, uint64_t bytes)
{
    pthread_mutex_lock(&heap->lock);
    uint64_t used = heap->used + heap->charged;
    int fits = used <= heap->quota && bytes <= heap->quota - used && may_hold(heap, bytes);
    heap->charged += fits ? bytes : 0;
    CUresult result = fits ? CUDA_SUCCESS : no_room(heap, CUDA_ERROR_OUT_OF_MEMORY);
    pthread_mutex_unlock(&heap->lock);
    return result;
}

void px_heap_uncharge(px_heap_t *heap, uint64_t bytes)
{
    pthread_mutex_lock(&heap->lock);
    heap->charged -= bytes;
    allow_less(heap);
    pthread_mutex_unlock(&heap->lock);
}

uint64_t px_heap_mark(px_heap_t *heap)
{
    pthread_mutex_lock(&heap->lock);
    uint64_t mark = ++heap->now;
    pthread_mutex_unlock(&heap->lock);
    return mark;
}

void px_heap_passed(px_heap_t *heap, uint64_t mark)
{
    pthread_mutex_lock(&heap->lock);
    while (heap->pending && heap->pending->stamp < mark) {
        piece_t *piece = heap->pending;
        heap->pending = piece->next;
        if (!heap->pending)
            heap->pending_tail = &heap->pending;
        uint64_t size = piece->range.size;
        if (piece->segment) {
            heap->pending_large -= size;
            heap->pending_mapped -= piece->segment->range.size;
            piece->segment->next_spare = heap->spare;
            heap->spare = piece->segment;
            heap->spare_bytes += piece->segment->range.size;
        } else {
            heap->pending_small -= size;
            heap->hole_bytes += size;
            add_free(&heap->holes, piece->range.start, size);
        }
        free(piece);
    }
    trim(heap, SPARE_LARGE);
    allow_less(heap);
    pthread_mutex_unlock(&heap->lock);
}

void px_heap_trim(px_heap_t *heap)
{
    pthread_mutex_lock(&heap->lock);
    trim(heap, 0);
    pthread_mutex_unlock(&heap->lock);
}

uint64_t px_heap_used(px_heap_t *heap)
{
    pthread_mutex_lock(&heap->lock);
    uint64_t used = heap->used + heap->charged;
    pthread_mutex_unlock(&heap->lock);
    return used;
}

uint64_t px_heap_spare(px_heap_t *heap)
{
    pthread_mutex_lock(&heap->lock);
    uint64_t spare =
        heap->spare_bytes + heap->hole_bytes + heap->pending_small + heap->pending_mapped;
    pthread_mutex_unlock(&heap->lock);
    return spare;
}
