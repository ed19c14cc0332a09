#include "gpu-proxy/cpu/jit/arena.h"

#include <stdlib.h>

enum { CHUNK = 256 * 1024, ALIGN = 16 };

struct cpu_arena_chunk {
    cpu_arena_chunk_t *next;
    size_t pad;
    unsigned char bytes[];
};

void *cpu_arena_alloc(cpu_arena_t *arena, size_t count, size_t size)
{
    size_t bytes = (count * size + ALIGN - 1) & ~(size_t)(ALIGN - 1);
    if (arena->chunks == NULL || bytes > CHUNK - arena->used) {
        size_t room = bytes > CHUNK ? bytes : CHUNK;
        cpu_arena_chunk_t *c = calloc(1, sizeof *c + room);
        if (c == NULL) {
            longjmp(*arena->failed, 1);
        }
        if (bytes > CHUNK && arena->chunks != NULL) { /* keep filling the present one */
            c->next = arena->chunks->next;
            arena->chunks->next = c;
            return c->bytes;
        }
        c->next = arena->chunks;
        arena->chunks = c;
        arena->used = bytes > CHUNK ? CHUNK : 0;
        if (bytes > CHUNK) {
            return c->bytes;
        }
    }
    void *p = arena->chunks->bytes + arena->used;
    arena->used += bytes;
    return p;
}

void cpu_arena_free(cpu_arena_t *arena)
{
    while (arena->chunks != NULL) {
        cpu_arena_chunk_t *next = arena->chunks->next;
        free(arena->chunks);
        arena->chunks = next;
    }
}

bool cpu_bits_or(uint64_t *a, const uint64_t *b, size_t n)
{
    uint64_t changed = 0;
    for (size_t i = 0; i < cpu_bits_words(n); i++) {
        changed |= b[i] & ~a[i];
        a[i] |= b[i];
    }
    return changed != 0;
}
