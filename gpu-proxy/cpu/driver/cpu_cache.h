/* cpu_cache.h - compiled kernels on disk.
 *
 * Entries are native code, so they are used only if they belong to this user, nobody else can write
 * them, and their contents have the digest that they claim. Anything else is treated as missing and
 * replaced. Folder: GABLE_CPU_CACHE ("off": none), else the user's cache folder + "/kernels". Writes are atomic
 * (a file aside, then rename), so any number of processes may share it. When it has more than
 * GABLE_CPU_CACHE_BYTES the entries used longest ago go. Failing to write is not an
 * error: the kernel is compiled again next time. Thread-safe. */
#ifndef CPU_CACHE_H
#define CPU_CACHE_H

#include <stddef.h>
#include <stdint.h>

#include "common/core/gb_status.h"

typedef struct {
    uint8_t bytes[32];
} cpu_cache_key_t;

enum { CPU_CACHE_LIMIT_MIB = 256 }; /* if GABLE_CPU_CACHE_BYTES is not set */

/* GB_ERR_NOT_FOUND if there is no sound entry. The caller frees *blob. */
gb_status_t cpu_cache_read(const cpu_cache_key_t *key, void **blob, size_t *bytes);

void cpu_cache_write(const cpu_cache_key_t *key, const void *blob, size_t bytes);

#endif
