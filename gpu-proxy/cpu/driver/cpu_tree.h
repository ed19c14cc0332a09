/* cpu_tree.h - an ordered map of disjoint address ranges, intrusive.
 *
 * A treap keyed by address; every node knows the largest size below it, so that the first range
 * that is large enough is found in O(log n). The caller owns the nodes and the locking. */
#ifndef CPU_TREE_H
#define CPU_TREE_H

#include <stdint.h>

typedef struct cpu_node {
    struct cpu_node *left, *right;
    uint64_t base; /* key: first address */
    uint64_t size; /* bytes, not 0 */
    uint64_t max;  /* largest size in this subtree */
    uint32_t priority;
} cpu_node_t;

typedef struct {
    cpu_node_t *root;
    uint64_t count;
    uint32_t seed;
} cpu_tree_t;

void cpu_tree_insert(cpu_tree_t *tree, cpu_node_t *node);
void cpu_tree_remove(cpu_tree_t *tree, cpu_node_t *node);

/* The node with the greatest base <= address, or NULL. */
cpu_node_t *cpu_tree_floor(const cpu_tree_t *tree, uint64_t address);

/* The node with the smallest base >= address, or NULL. */
cpu_node_t *cpu_tree_ceiling(const cpu_tree_t *tree, uint64_t address);

/* The node that contains the address, or NULL. */
cpu_node_t *cpu_tree_find(const cpu_tree_t *tree, uint64_t address);

/* The lowest node with size >= size, or NULL. */
cpu_node_t *cpu_tree_fit(const cpu_tree_t *tree, uint64_t size);

/* Whether any node overlaps [base, base + size). */
int cpu_tree_overlaps(const cpu_tree_t *tree, uint64_t base, uint64_t size);

#endif
