#include "gpu-proxy/cpu/driver/cpu_tree.h"

#include <stddef.h>

static uint64_t max_of(const cpu_node_t *node)
{
    return node ? node->max : 0;
}

static void update(cpu_node_t *node)
{
    uint64_t max = node->size;
    if (max_of(node->left) > max)
        max = node->left->max;
    if (max_of(node->right) > max)
        max = node->right->max;
    node->max = max;
}

/* Cuts the subtree into bases < base and >= base. Depth is logarithmic, so recursion is fine. */
static void split(cpu_node_t *node, uint64_t base, cpu_node_t **low, cpu_node_t **high)
{
    if (!node) {
        *low = *high = NULL;
        return;
    }
    if (node->base < base) {
        split(node->right, base, &node->right, high);
        *low = node;
    } else {
        split(node->left, base, low, &node->left);
        *high = node;
    }
    update(node);
}

static cpu_node_t *merge(cpu_node_t *low, cpu_node_t *high)
{
    if (!low)
        return high;
    if (!high)
        return low;
    if (low->priority > high->priority) {
        low->right = merge(low->right, high);
        update(low);
        return low;
    }
    high->left = merge(low, high->left);
    update(high);
    return high;
}

void cpu_tree_insert(cpu_tree_t *tree, cpu_node_t *node)
{
    cpu_node_t *low, *high;
    uint32_t x = tree->seed ? tree->seed : 2463534242u; /* xorshift32 */
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    tree->seed = x;
    node->priority = x;
    node->left = node->right = NULL;
    node->max = node->size;
    split(tree->root, node->base, &low, &high);
    tree->root = merge(merge(low, node), high);
    tree->count++;
}

void cpu_tree_remove(cpu_tree_t *tree, cpu_node_t *node)
{
    cpu_node_t *low, *rest, *self, *high;
    split(tree->root, node->base, &low, &rest);
    split(rest, node->base + 1, &self, &high);
    tree->root = merge(low, high);
    tree->count--;
}

cpu_node_t *cpu_tree_floor(const cpu_tree_t *tree, uint64_t address)
{
    cpu_node_t *found = NULL;
    for (cpu_node_t *node = tree->root; node;) {
        if (node->base <= address) {
            found = node;
            node = node->right;
        } else {
            node = node->left;
        }
    }
    return found;
}

cpu_node_t *cpu_tree_ceiling(const cpu_tree_t *tree, uint64_t address)
{
    cpu_node_t *found = NULL;
    for (cpu_node_t *node = tree->root; node;) {
        if (node->base >= address) {
            found = node;
            node = node->left;
        } else {
            node = node->right;
        }
    }
    return found;
}

cpu_node_t *cpu_tree_find(const cpu_tree_t *tree, uint64_t address)
{
    cpu_node_t *node = cpu_tree_floor(tree, address);
    return node && address - node->base < node->size ? node : NULL;
}

cpu_node_t *cpu_tree_fit(const cpu_tree_t *tree, uint64_t size)
{
    cpu_node_t *node = tree->root;
    if (max_of(node) < size)
        return NULL;
    for (;;) {
        if (max_of(node->left) >= size)
            node = node->left;
        else if (node->size >= size)
            return node;
        else
            node = node->right;
    }
}

int cpu_tree_overlaps(const cpu_tree_t *tree, uint64_t base, uint64_t size)
{
    const cpu_node_t *below = cpu_tree_floor(tree, base);
    if (below && base - below->base < below->size)
        return 1;
    const cpu_node_t *above = cpu_tree_ceiling(tree, base);
    return above && above->base - base < size;
}
