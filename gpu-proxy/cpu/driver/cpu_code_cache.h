/* cpu_code_cache.h - how much compiled code a process keeps in memory.
 *
 * Every variant of every kernel is listed here. Beyond the limit (cpu_config_t.code_bytes) those that no
 * launch holds go, the least recently used first; a kernel that is wanted again comes from the disk
 * cache or the compiler. Thread-safe. */
#ifndef CPU_CODE_CACHE_H
#define CPU_CODE_CACHE_H

#include "gpu-proxy/cpu/driver/cpu_module.h"

/* The function's code for the block, held for the caller; NULL if there is none. Takes no lock. */
cpu_variant_t *cpu_code_cache_find(cpu_function_t *function, const uint32_t block[3]);

/* Lists a new variant, held for the caller, with its function, whose lock the caller has. */
void cpu_code_cache_add(cpu_function_t *function, cpu_variant_t *variant);

/* Frees unused variants while there are too many bytes. The caller has no function's lock. */
void cpu_code_cache_trim(void);

/* Ends all variants of a function that nobody can launch any more. */
void cpu_code_cache_drop(cpu_function_t *function);

/* Bytes of code in memory now. */
uint64_t cpu_code_cache_bytes(void);

#endif
