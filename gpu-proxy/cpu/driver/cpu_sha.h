/* cpu_sha.h - SHA-256 (FIPS 180-4), for names and checks of cache entries.
 *
 * Own code because libcuda.so.1 is loaded into other people's programs: it must bring no libcrypto. */
#ifndef CPU_SHA_H
#define CPU_SHA_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
} cpu_sha_t;

void cpu_sha_init(cpu_sha_t *sha);
void cpu_sha_add(cpu_sha_t *sha, const void *data, size_t size);
void cpu_sha_end(cpu_sha_t *sha, uint8_t digest[32]);

/* All at once. */
void cpu_sha(const void *data, size_t size, uint8_t digest[32]);

#endif
