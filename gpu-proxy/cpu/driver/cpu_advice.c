#include "gpu-proxy/cpu/driver/cpu_advice.h"

#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/driver/cpu_tree.h"

typedef struct {
    bool read_mostly;
    uint32_t accessed_by;                /* bit per device; the host is the highest */
    CUmemLocation preferred, prefetched; /* type 0: none */
} advice_t;

/* A range with the same advice all over. */
typedef struct {
    cpu_node_t node;
    advice_t advice;
} span_t;

enum { HOST_BIT = 31 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cpu_tree_t spans;

static span_t *add_span(uint64_t base, uint64_t bytes, const advice_t *advice)
{
    span_t *span = calloc(1, sizeof(*span));
    if (!span)
        return NULL;
    span->node.base = base;
    span->node.size = bytes;
    if (advice)
        span->advice = *advice;
    cpu_tree_insert(&spans, &span->node);
    return span;
}

/* Makes a span begin at this address if one contains it. */
static bool split_at(uint64_t address)
{
    span_t *span = (span_t *)cpu_tree_find(&spans, address);
    if (!span || span->node.base == address)
        return true;
    uint64_t base = span->node.base, end = base + span->node.size;
    cpu_tree_remove(&spans, &span->node);
    span->node.size = address - base;
    cpu_tree_insert(&spans, &span->node);
    return add_span(address, end - address, &span->advice) != NULL;
}

/* Spans cover the whole range afterwards, and none reaches out of it. */
static bool cover(uint64_t base, uint64_t end)
{
    if (!split_at(base) || !split_at(end))
        return false;
    for (uint64_t at = base; at < end;) {
        cpu_node_t *next = cpu_tree_ceiling(&spans, at);
        uint64_t until = next && next->base < end ? next->base : end;
        if (until > at && !add_span(at, until - at, NULL))
            return false;
        at = until == end ? end : next->base + next->size;
    }
    return true;
}

typedef void (*change_t)(advice_t *advice, const void *argument);

static CUresult change(uint64_t base, uint64_t bytes, change_t apply, const void *argument)
{
    pthread_mutex_lock(&lock);
    bool fine = cover(base, base + bytes);
    cpu_node_t *node = fine ? cpu_tree_ceiling(&spans, base) : NULL;
    while (node && node->base < base + bytes) {
        apply(&((span_t *)node)->advice, argument);
        node = cpu_tree_ceiling(&spans, node->base + 1);
    }
    pthread_mutex_unlock(&lock);
    return fine ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult check_location(const CUmemLocation *l)
{
    cpu_device_t *device;
    switch (l->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
        return cpu_device_get(l->id, &device);
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

typedef struct {
    CUmem_advise advice;
    CUmemLocation location;
} said_t;

static void apply_advice(advice_t *a, const void *argument)
{
    const said_t *said = argument;
    unsigned bit =
        said->location.type == CU_MEM_LOCATION_TYPE_DEVICE ? (unsigned)said->location.id : HOST_BIT;
    switch (said->advice) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
        a->read_mostly = said->advice == CU_MEM_ADVISE_SET_READ_MOSTLY;
        break;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
        a->preferred = said->location;
        break;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
        a->preferred = (CUmemLocation){0};
        break;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
        a->accessed_by |= 1u << bit;
        break;
    default:
        a->accessed_by &= ~(1u << bit);
    }
}

CUresult cpu_advice_set(uint64_t base, uint64_t bytes, CUmem_advise advice,
                        const CUmemLocation *location)
{
    said_t said = {advice, *location};
    bool placed = advice == CU_MEM_ADVISE_SET_PREFERRED_LOCATION ||
                  advice == CU_MEM_ADVISE_SET_ACCESSED_BY ||
                  advice == CU_MEM_ADVISE_UNSET_ACCESSED_BY;
    CUresult result = placed ? check_location(location) : CUDA_SUCCESS;
    return result ? result : change(base, bytes, apply_advice, &said);
}

static void apply_prefetch(advice_t *a, const void *location)
{
    a->prefetched = *(const CUmemLocation *)location;
}

CUresult cpu_advice_prefetched(uint64_t base, uint64_t bytes, const CUmemLocation *location)
{
    CUresult result = check_location(location);
    return result ? result : change(base, bytes, apply_prefetch, location);
}

void cpu_advice_forget(uint64_t base, uint64_t bytes)
{
    pthread_mutex_lock(&lock);
    cpu_node_t *node = cpu_tree_ceiling(&spans, base);
    while (node && node->base < base + bytes) {
        cpu_node_t *next = cpu_tree_ceiling(&spans, node->base + 1);
        cpu_tree_remove(&spans, node);
        free(node);
        node = next;
    }
    pthread_mutex_unlock(&lock);
}

/* ---- asking ---- */

static bool same_location(const CUmemLocation *a, const CUmemLocation *b)
{
    return a->type == b->type && a->id == b->id;
}

/* What holds everywhere in the range: differing answers become "none". */
static advice_t common(uint64_t base, uint64_t end)
{
    static const advice_t none;
    advice_t all = none;
    uint64_t at = base;
    cpu_node_t *node = cpu_tree_find(&spans, base);
    if (!node)
        return none;
    all = ((span_t *)node)->advice;
    while (node && at < end) {
        const advice_t *a = &((span_t *)node)->advice;
        all.read_mostly &= a->read_mostly;
        all.accessed_by &= a->accessed_by;
        if (!same_location(&all.preferred, &a->preferred))
            all.preferred = none.preferred;
        if (!same_location(&all.prefetched, &a->prefetched))
            all.prefetched = none.prefetched;
        at = node->base + node->size;
        node = at < end ? cpu_tree_find(&spans, at) : node;
    }
    return at >= end ? all : none;
}

/* As the older attributes have it: a device's ordinal, the host, or nothing. */
static int ordinal(const CUmemLocation *l)
{
    return l->type == CU_MEM_LOCATION_TYPE_DEVICE ? l->id
           : l->type                              ? CU_DEVICE_CPU
                                                  : CU_DEVICE_INVALID;
}

static CUresult list_accessed(const advice_t *a, int *data, size_t size)
{
    size_t room = size / sizeof(*data), n = 0;
    if (!room || size % sizeof(*data))
        return CUDA_ERROR_INVALID_VALUE;
    for (int bit = 0; bit < 32 && n < room; bit++)
        if (a->accessed_by >> bit & 1)
            data[n++] = bit == HOST_BIT ? CU_DEVICE_CPU : bit;
    while (n < room)
        data[n++] = CU_DEVICE_INVALID;
    return CUDA_SUCCESS;
}

CUresult cpu_advice_get(uint64_t base, uint64_t bytes, CUmem_range_attribute attribute, void *data,
                        size_t size)
{
    pthread_mutex_lock(&lock);
    advice_t a = common(base, base + bytes);
    pthread_mutex_unlock(&lock);
    if (attribute == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY)
        return list_accessed(&a, data, size);
    if (size != sizeof(int))
        return CUDA_ERROR_INVALID_VALUE;
    int *out = data;
    switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
        *out = a.read_mostly;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
        *out = ordinal(&a.preferred);
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
        *out = ordinal(&a.prefetched);
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
        *out = (int)a.preferred.type;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
        *out = a.preferred.id;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
        *out = (int)a.prefetched.type;
        return CUDA_SUCCESS;
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
        *out = a.prefetched.id;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}
