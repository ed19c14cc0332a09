#include "gpu-proxy/cpu/driver/cpu_sha.h"

#include <string.h>

/* Fractions of the cube roots of the first 64 primes. */
static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

static uint32_t rotate(uint32_t value, int bits)
{
    return value >> bits | value << (32 - bits);
}

static void compress(uint32_t state[8], const uint8_t *block)
{
    uint32_t w[64], s[8];
    for (int i = 0; i < 16; i++) {
        memcpy(&w[i], block + 4 * i, 4);
        w[i] = __builtin_bswap32(w[i]);
    }
    for (int i = 16; i < 64; i++) {
        uint32_t a = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t b = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    memcpy(s, state, sizeof(s));
    for (int i = 0; i < 64; i++) {
        uint32_t e = rotate(s[4], 6) ^ rotate(s[4], 11) ^ rotate(s[4], 25);
        uint32_t choose = (s[4] & s[5]) ^ (~s[4] & s[6]);
        uint32_t t1 = s[7] + e + choose + k[i] + w[i];
        uint32_t a = rotate(s[0], 2) ^ rotate(s[0], 13) ^ rotate(s[0], 22);
        uint32_t majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        memmove(s + 1, s, 7 * sizeof(s[0]));
        s[4] += t1;
        s[0] = t1 + a + majority;
    }
    for (int i = 0; i < 8; i++)
        state[i] += s[i];
}

void cpu_sha_init(cpu_sha_t *sha)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(sha->state, start, sizeof(start));
    sha->bytes = 0;
}

void cpu_sha_add(cpu_sha_t *sha, const void *data, size_t size)
{
    const uint8_t *at = data;
    size_t filled = sha->bytes % 64;
    sha->bytes += size;
    if (filled) {
        size_t part = size < 64 - filled ? size : 64 - filled;
        memcpy(sha->block + filled, at, part);
        at += part;
        size -= part;
        if (filled + part < 64)
            return;
        compress(sha->state, sha->block);
    }
    for (; size >= 64; at += 64, size -= 64)
        compress(sha->state, at);
    if (size)
        memcpy(sha->block, at, size);
}

void cpu_sha_end(cpu_sha_t *sha, uint8_t digest[32])
{
    uint64_t bits = __builtin_bswap64(sha->bytes * 8);
    static const uint8_t padding[64] = {0x80};
    size_t filled = sha->bytes % 64;
    cpu_sha_add(sha, padding, filled < 56 ? 56 - filled : 120 - filled);
    cpu_sha_add(sha, &bits, 8);
    for (int i = 0; i < 8; i++) {
        uint32_t word = __builtin_bswap32(sha->state[i]);
        memcpy(digest + 4 * i, &word, 4);
    }
}

void cpu_sha(const void *data, size_t size, uint8_t digest[32])
{
    cpu_sha_t sha;
    cpu_sha_init(&sha);
    cpu_sha_add(&sha, data, size);
    cpu_sha_end(&sha, digest);
}
