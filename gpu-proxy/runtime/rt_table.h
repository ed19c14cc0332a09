/* rt_table.h - a hash table from host addresses to things. Not thread-safe; keys are never NULL. */
#ifndef RT_TABLE_H
#define RT_TABLE_H

#include <stddef.h>

typedef struct {
    const void **keys;
    void **values;
    size_t capacity; /* a power of two, or 0 */
    size_t count;    /* slots in use, emptied ones included */
} rt_table_t;

/* 0, or -1 without memory. Replaces what the key had. */
int rt_table_put(rt_table_t *table, const void *key, void *value);
void *rt_table_get(const rt_table_t *table, const void *key); /* or NULL */
/* Takes the key out if it leads to `value`. */
void rt_table_remove(rt_table_t *table, const void *key, const void *value);
void rt_table_free(rt_table_t *table);

#endif
