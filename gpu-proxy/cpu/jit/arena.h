/* arena.h - memory of one compilation: allocated piece by piece, freed at once. Running out of memory
 * leaves by longjmp to the place that the owner has set, so that passes need no error paths. */
#ifndef CPU_JIT_ARENA_H
#define CPU_JIT_ARENA_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct cpu_arena_chunk cpu_arena_chunk_t;

typedef struct {
    cpu_arena_chunk_t *chunks;
    size_t used;
    jmp_buf *failed; /* set by the owner before the first allocation */
} cpu_arena_t;

/* `count` zeroed elements, 16-byte aligned. Never NULL. */
void *cpu_arena_alloc(cpu_arena_t *arena, size_t count, size_t size);
void cpu_arena_free(cpu_arena_t *arena);

/* Sets of small numbers. */
typedef uint64_t *cpu_bits_t;

static inline size_t cpu_bits_words(size_t n)
{
    return n / 64 + 1;
}
static inline cpu_bits_t cpu_bits_new(cpu_arena_t *arena, size_t n)
{
    return cpu_arena_alloc(arena, cpu_bits_words(n), 8);
}
static inline bool cpu_bits_has(const uint64_t *b, size_t i)
{
    return b[i / 64] >> (i % 64) & 1;
}
static inline void cpu_bits_add(uint64_t *b, size_t i)
{
    b[i / 64] |= (uint64_t)1 << (i % 64);
}
static inline void cpu_bits_drop(uint64_t *b, size_t i)
{
    b[i / 64] &= ~((uint64_t)1 << (i % 64));
}
/* a |= b; true if a changed. */
bool cpu_bits_or(uint64_t *a, const uint64_t *b, size_t n);

#endif
