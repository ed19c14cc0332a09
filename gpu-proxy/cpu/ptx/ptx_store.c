#include "gpu-proxy/cpu/ptx/ptx_store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

enum { ARENA_PAGE = 64 << 10 };

struct ptx_arena_page {
    ptx_arena_page_t *next;
    uint64_t pad; /* keeps what follows aligned to 16 */
};

void *ptx_arena_alloc(ptx_arena_t *arena, size_t size)
{
    if (size > SIZE_MAX / 2)
        return NULL;
    size = (size + 15) & ~(size_t)15;
    if (size > (size_t)(arena->end - arena->next)) {
        size_t room = size > ARENA_PAGE ? size : ARENA_PAGE;
        ptx_arena_page_t *page = calloc(1, sizeof *page + room);
        if (!page)
            return NULL;
        page->next = arena->pages;
        arena->pages = page;
        char *start = (char *)(page + 1);
        if (size > ARENA_PAGE / 4)
            return start; /* a page of its own: what is left of the current one stays in use */
        arena->next = start;
        arena->end = start + room;
    }
    void *out = arena->next;
    arena->next += size;
    return out;
}

void *ptx_arena_copy(ptx_arena_t *arena, const void *data, size_t size)
{
    if (size == 0)
        return NULL;
    void *out = ptx_arena_alloc(arena, size);
    if (out)
        memcpy(out, data, size);
    return out;
}

char *ptx_arena_text(ptx_arena_t *arena, const char *text, size_t length)
{
    char *out = ptx_arena_alloc(arena, length + 1);
    if (out && length)
        memcpy(out, text, length);
    return out;
}

void ptx_arena_free(ptx_arena_t *arena)
{
    ptx_arena_page_t *page = arena->pages;
    while (page) {
        ptx_arena_page_t *next = page->next;
        free(page);
        page = next;
    }
    *arena = (ptx_arena_t){0};
}

void *ptx_vec_push(ptx_vec_t *vec, size_t item, uint32_t count)
{
    if (count > INT32_MAX - vec->count)
        return NULL;
    uint32_t need = vec->count + count;
    if (need >= vec->capacity) { /* one to spare, so that no items have a place too */
        uint32_t capacity = vec->capacity ? vec->capacity : 32;
        while (capacity <= need)
            capacity *= 2;
        void *grown = realloc(vec->data, capacity * item);
        if (!grown)
            return NULL;
        vec->data = grown;
        vec->capacity = capacity;
    }
    char *first = (char *)vec->data + vec->count * item;
    memset(first, 0, count * item);
    vec->count = need;
    return first;
}

void ptx_vec_free(ptx_vec_t *vec)
{
    free(vec->data);
    *vec = (ptx_vec_t){0};
}

static uint64_t new_seed(void)
{
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, GRND_NONBLOCK) == (ssize_t)sizeof seed)
        return seed | 1;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return ((uint64_t)t.tv_nsec << 20 ^ (uint64_t)(uintptr_t)&t) | 1;
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    __uint128_t product = (__uint128_t)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_text(uint64_t seed, const char *key, size_t length)
{
    uint64_t h = seed ^ 0x9e3779b97f4a7c15u ^ length;
    while (length) {
        uint64_t word = 0;
        size_t n = length < 8 ? length : 8;
        memcpy(&word, key, n);
        h = mix(h ^ word, seed ^ 0xd6e8feb86659fd93u);
        key += n;
        length -= n;
    }
    return mix(h, 0xa0761d6478bd642fu);
}

static ptx_map_slot_t *map_slot(const ptx_map_t *map, uint64_t hash, const char *key, size_t length)
{
    uint32_t i = (uint32_t)hash & (map->capacity - 1);
    for (;; i = (i + 1) & (map->capacity - 1)) {
        ptx_map_slot_t *slot = &map->slots[i];
        if (!slot->key ||
            (slot->hash == hash && slot->length == length && memcmp(slot->key, key, length) == 0))
            return slot;
    }
}

uint32_t ptx_map_get(const ptx_map_t *map, const char *key, size_t length)
{
    if (map->capacity == 0)
        return UINT32_MAX;
    const ptx_map_slot_t *slot = map_slot(map, hash_text(map->seed, key, length), key, length);
    return slot->key ? slot->value : UINT32_MAX;
}

static bool map_grow(ptx_map_t *map)
{
    ptx_map_t grown = {.capacity = map->capacity ? map->capacity * 2 : 64, .count = map->count};
    grown.seed = map->capacity ? map->seed : new_seed();
    if (grown.capacity > 1u << 30)
        return false;
    grown.slots = calloc(grown.capacity, sizeof *grown.slots);
    if (!grown.slots)
        return false;
    for (uint32_t i = 0; i < map->capacity; i++) {
        const ptx_map_slot_t *old = &map->slots[i];
        if (old->key)
            *map_slot(&grown, old->hash, old->key, old->length) = *old;
    }
    free(map->slots);
    *map = grown;
    return true;
}

bool ptx_map_set(ptx_map_t *map, const char *key, size_t length, uint32_t value)
{
    if (map->capacity) {
        ptx_map_slot_t *known = map_slot(map, hash_text(map->seed, key, length), key, length);
        if (known->key) { /* setting a known key never needs memory */
            known->value = value;
            return true;
        }
    }
    if (map->count * 2 >= map->capacity && !map_grow(map))
        return false;
    uint64_t hash = hash_text(map->seed, key, length);
    ptx_map_slot_t *slot = map_slot(map, hash, key, length);
    if (!slot->key) {
        *slot = (ptx_map_slot_t){.key = key, .length = (uint32_t)length, .hash = hash};
        map->count++;
    }
    slot->value = value;
    return true;
}

void ptx_map_free(ptx_map_t *map)
{
    free(map->slots);
    *map = (ptx_map_t){0};
}

static ptx_nmap_slot_t *nmap_slot(const ptx_nmap_t *map, uint64_t key)
{
    uint32_t i = (uint32_t)mix(key ^ map->seed, 0x9e3779b97f4a7c15u) & (map->capacity - 1);
    while (map->slots[i].used && map->slots[i].key != key)
        i = (i + 1) & (map->capacity - 1);
    return &map->slots[i];
}

uint32_t ptx_nmap_get(const ptx_nmap_t *map, uint64_t key)
{
    if (map->capacity == 0)
        return UINT32_MAX;
    const ptx_nmap_slot_t *slot = nmap_slot(map, key);
    return slot->used ? slot->value : UINT32_MAX;
}

static bool nmap_grow(ptx_nmap_t *map)
{
    ptx_nmap_t grown = {.capacity = map->capacity ? map->capacity * 2 : 64, .count = map->count};
    grown.seed = map->capacity ? map->seed : new_seed();
    if (grown.capacity > 1u << 30)
        return false;
    grown.slots = calloc(grown.capacity, sizeof *grown.slots);
    if (!grown.slots)
        return false;
    for (uint32_t i = 0; i < map->capacity; i++) {
        if (map->slots[i].used)
            *nmap_slot(&grown, map->slots[i].key) = map->slots[i];
    }
    free(map->slots);
    *map = grown;
    return true;
}

bool ptx_nmap_set(ptx_nmap_t *map, uint64_t key, uint32_t value)
{
    if (map->count * 2 >= map->capacity && !nmap_grow(map))
        return false;
    ptx_nmap_slot_t *slot = nmap_slot(map, key);
    if (!slot->used) {
        *slot = (ptx_nmap_slot_t){.key = key, .used = true};
        map->count++;
    }
    slot->value = value;
    return true;
}

void ptx_nmap_free(ptx_nmap_t *map)
{
    free(map->slots);
    *map = (ptx_nmap_t){0};
}
