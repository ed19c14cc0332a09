#include "common/cuda/gb_ranges.h"

static void update(gb_range_t *n)
{
    n->largest = n->size;
    if (n->left && n->left->largest > n->largest)
        n->largest = n->left->largest;
    if (n->right && n->right->largest > n->largest)
        n->largest = n->right->largest;
}

/* Ranges that start below `key` go to *low, the others to *high. */
static void split(gb_range_t *n, uint64_t key, gb_range_t **low, gb_range_t **high)
{
    if (!n) {
        *low = *high = NULL;
    } else if (n->start < key) {
        split(n->right, key, &n->right, high);
        *low = n;
        update(n);
    } else {
        split(n->left, key, low, &n->left);
        *high = n;
        update(n);
    }
}

static gb_range_t *merge(gb_range_t *low, gb_range_t *high)
{
    if (!low || !high)
        return low ? low : high;
    if (low->priority >= high->priority) {
        low->right = merge(low->right, high);
        update(low);
        return low;
    }
    high->left = merge(low, high->left);
    update(high);
    return high;
}

void gb_ranges_add(gb_ranges_t *map, gb_range_t *node)
{
    gb_range_t *low, *high;
    map->seed = map->seed * 1664525u + 1013904223u;
    node->priority = map->seed ^ (map->seed >> 15);
    node->left = node->right = NULL;
    update(node);
    split(map->root, node->start, &low, &high);
    map->root = merge(merge(low, node), high);
    map->count++;
}

static gb_range_t *removed(gb_range_t *n, gb_range_t *node)
{
    if (n == node)
        return merge(n->left, n->right);
    if (node->start < n->start)
        n->left = removed(n->left, node);
    else
        n->right = removed(n->right, node);
    update(n);
    return n;
}

void gb_ranges_remove(gb_ranges_t *map, gb_range_t *node)
{
    map->root = removed(map->root, node);
    map->count--;
}

gb_range_t *gb_ranges_below(const gb_ranges_t *map, uint64_t address)
{
    gb_range_t *best = NULL;
    for (gb_range_t *n = map->root; n;) {
        if (n->start <= address) {
            best = n;
            n = n->right;
        } else {
            n = n->left;
        }
    }
    return best;
}

gb_range_t *gb_ranges_above(const gb_ranges_t *map, uint64_t address)
{
    gb_range_t *best = NULL;
    for (gb_range_t *n = map->root; n;) {
        if (n->start > address) {
            best = n;
            n = n->left;
        } else {
            n = n->right;
        }
    }
    return best;
}

gb_range_t *gb_ranges_find(const gb_ranges_t *map, uint64_t address)
{
    gb_range_t *n = gb_ranges_below(map, address);
    return n && address - n->start < n->size ? n : NULL;
}

gb_range_t *gb_ranges_fit(const gb_ranges_t *map, uint64_t size)
{
    gb_range_t *n = map->root;
    if (!n || n->largest < size)
        return NULL;
    for (;;) {
        if (n->left && n->left->largest >= size)
            n = n->left;
        else if (n->size >= size)
            return n;
        else
            n = n->right;
    }
}
