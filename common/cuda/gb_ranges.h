/* gb_ranges.h - an ordered map of disjoint address ranges (a treap with the largest size per subtree).
 *
 * Nodes are the caller's, usually the first member of a larger struct; a node is in one map at a time.
 * Every operation is O(log n). Not thread-safe: the owner locks. */
#ifndef GB_RANGES_H
#define GB_RANGES_H

#include <stddef.h>
#include <stdint.h>

typedef struct gb_range {
    uint64_t start;
    uint64_t size; /* bytes, at least 1 */
    /* private */
    struct gb_range *left;
    struct gb_range *right;
    uint64_t largest; /* size in this subtree */
    uint32_t priority;
} gb_range_t;

typedef struct {
    gb_range_t *root;
    uint32_t seed;
    size_t count;
} gb_ranges_t;

/* Adds a node whose start and size are set; it must overlap none in the map. */
void gb_ranges_add(gb_ranges_t *map, gb_range_t *node);

/* Takes a node out that is in the map. */
void gb_ranges_remove(gb_ranges_t *map, gb_range_t *node);

/* The range that holds `address`, or NULL. */
gb_range_t *gb_ranges_find(const gb_ranges_t *map, uint64_t address);

/* The range with the highest start <= address, or NULL; with the lowest start > address, or NULL. */
gb_range_t *gb_ranges_below(const gb_ranges_t *map, uint64_t address);
gb_range_t *gb_ranges_above(const gb_ranges_t *map, uint64_t address);

/* The range of lowest address with at least `size` bytes, or NULL. */
gb_range_t *gb_ranges_fit(const gb_ranges_t *map, uint64_t size);

#endif
