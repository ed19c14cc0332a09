/* ptx_store.h - memory of the parser: an arena for what the module keeps, growing arrays and maps
 * for what it needs on the way. Not thread-safe; one owner each. */
#ifndef PTX_STORE_H
#define PTX_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ptx_arena_page ptx_arena_page_t;

typedef struct {
    ptx_arena_page_t *pages;
    char *next, *end;
} ptx_arena_t;

/* Zeroed memory aligned to 16, never moved; NULL when out of memory. */
void *ptx_arena_alloc(ptx_arena_t *arena, size_t size);
/* A NUL-terminated copy. */
char *ptx_arena_text(ptx_arena_t *arena, const char *text, size_t length);
/* A copy of `size` bytes; NULL if size is 0 or memory is out. */
void *ptx_arena_copy(ptx_arena_t *arena, const void *data, size_t size);
void ptx_arena_free(ptx_arena_t *arena);

/* A growing array of items of one size. */
typedef struct {
    void *data;
    uint32_t count, capacity;
} ptx_vec_t;

/* Appends `count` zeroed items of `item` bytes; NULL when out of memory or beyond 2^31 items. */
void *ptx_vec_push(ptx_vec_t *vec, size_t item, uint32_t count);
void ptx_vec_free(ptx_vec_t *vec);

/* Text to number. Keys are not copied: they must outlive the map. Hashing is keyed, so that a
 * hostile text cannot choose its collisions. */
typedef struct {
    const char *key;
    uint32_t length;
    uint32_t value;
    uint64_t hash;
} ptx_map_slot_t;

typedef struct {
    ptx_map_slot_t *slots;
    uint32_t capacity, count;
    uint64_t seed;
} ptx_map_t;

/* The key's value, UINT32_MAX if it has none. */
uint32_t ptx_map_get(const ptx_map_t *map, const char *key, size_t length);
/* Sets it (UINT32_MAX removes it); false when out of memory. */
bool ptx_map_set(ptx_map_t *map, const char *key, size_t length, uint32_t value);
void ptx_map_free(ptx_map_t *map);

/* Number to number. */
typedef struct {
    uint64_t key;
    uint32_t value;
    bool used;
} ptx_nmap_slot_t;

typedef struct {
    ptx_nmap_slot_t *slots;
    uint32_t capacity, count;
    uint64_t seed;
} ptx_nmap_t;

uint32_t ptx_nmap_get(const ptx_nmap_t *map, uint64_t key);
bool ptx_nmap_set(ptx_nmap_t *map, uint64_t key, uint32_t value);
void ptx_nmap_free(ptx_nmap_t *map);

#endif
