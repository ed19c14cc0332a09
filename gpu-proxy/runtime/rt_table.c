#include "gpu-proxy/runtime/rt_table.h"

#include <stdint.h>
#include <stdlib.h>

static size_t slot_of(const rt_table_t *table, const void *key)
{
    size_t mask = table->capacity - 1;
    size_t at = (size_t)(((uintptr_t)key >> 3) * 0x9e3779b97f4a7c15u >> 20) & mask;
    while (table->keys[at] && table->keys[at] != key)
        at = (at + 1) & mask;
    return at;
}

static int grow(rt_table_t *table)
{
    rt_table_t wider = {.capacity = table->capacity ? table->capacity * 2 : 64};
    wider.keys = calloc(wider.capacity, sizeof(*wider.keys));
    wider.values = calloc(wider.capacity, sizeof(*wider.values));
    if (!wider.keys || !wider.values) {
        rt_table_free(&wider);
        return -1;
    }
    for (size_t i = 0; i < table->capacity; i++) {
        if (table->keys[i] && table->values[i]) {
            size_t at = slot_of(&wider, table->keys[i]);
            wider.keys[at] = table->keys[i];
            wider.values[at] = table->values[i];
            wider.count++;
        }
    }
    rt_table_free(table);
    *table = wider;
    return 0;
}

int rt_table_put(rt_table_t *table, const void *key, void *value)
{
    if (table->count * 2 >= table->capacity && grow(table))
        return -1;
    size_t at = slot_of(table, key);
    table->count += table->keys[at] == NULL;
    table->keys[at] = key;
    table->values[at] = value;
    return 0;
}

void *rt_table_get(const rt_table_t *table, const void *key)
{
    return table->capacity ? table->values[slot_of(table, key)] : NULL;
}

void rt_table_remove(rt_table_t *table, const void *key, const void *value)
{
    if (rt_table_get(table, key) == value && table->capacity)
        table->values[slot_of(table, key)] = NULL;
}

void rt_table_free(rt_table_t *table)
{
    free(table->keys);
    free(table->values);
    *table = (rt_table_t){0};
}
