/* cpu_cells.h - memory for operations: pieces of a few sizes that one thread takes and another one gives
 * back, millions of times a second.
 *
 * Each thread keeps some pieces of each size; what is too much goes in batches to a common store, and
 * comes from there. Thread-safe. */
#ifndef CPU_CELLS_H
#define CPU_CELLS_H

#include <stddef.h>

/* Aligned to 64 bytes; NULL if memory is out. Not cleared. */
void *cpu_cells_take(size_t bytes);

/* `bytes` as when it was taken; NULL is allowed. */
void cpu_cells_give(void *cell, size_t bytes);

/* The calling thread ends: what it keeps goes to the store. */
void cpu_cells_flush(void);

#endif
