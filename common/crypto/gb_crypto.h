/* gb_crypto.h - keys, random bytes, HMAC, HKDF and hexadecimal text, over libcrypto.
 *
 * Thread-safe; no state. A key is 32 bytes of secret: wipe it when it is no longer needed, never log
 * it, and compare secrets with gb_secret_equal only. */
#ifndef GB_CRYPTO_H
#define GB_CRYPTO_H

#include <stddef.h>
#include <stdint.h>

#include "common/core/gb_status.h"

enum { GB_KEY_SIZE = 32, GB_MAC_SIZE = 32 };

typedef struct {
    uint8_t bytes[GB_KEY_SIZE];
} gb_key_t;

/* Fills `out` from the operating system's generator. GB_ERR_IO if it refuses. */
gb_status_t gb_random(void *out, size_t size);

/* HMAC-SHA256 of `size` bytes under `key`. GB_ERR_INTERNAL if libcrypto fails. */
gb_status_t gb_hmac(const gb_key_t *key, const void *data, size_t size, uint8_t out[GB_MAC_SIZE]);

/* Has libcrypto set itself up now (a millisecond or two), not at the first use. Thread-safe. */
void gb_crypto_warm(void);

/* Frees what libcrypto keeps for the calling thread: for threads that live until the process ends, when
 * libcrypto itself has gone before. It makes it anew when used again. */
void gb_crypto_thread_end(void);

/* libcrypto stays usable until the process is gone, for who ends connections in a destructor. Must come
 * before anything else uses libcrypto; without effect later. */
void gb_crypto_outlive_exit(void);

/* HKDF-SHA256: a key that is bound to `salt` and `info` (both text); nobody who knows it learns the
 * master key or the key of another info. */
gb_status_t gb_hkdf(const gb_key_t *master, const char *salt, const char *info, gb_key_t *out);

/* 1 if equal, 0 if not, in a time that does not depend on the bytes. */
int gb_secret_equal(const void *a, const void *b, size_t size);

/* Overwrites a secret; the compiler cannot drop it. */
void gb_wipe(void *secret, size_t size);

/* 1 if every byte is zero: the "no key" of insecure endpoints. Constant time. */
int gb_key_is_zero(const gb_key_t *key);

/* Lower-case hexadecimal; `out` takes 2 * size + 1 characters. */
void gb_hex_encode(const void *bytes, size_t size, char *out);

/* Exactly 2 * size hexadecimal digits at `text`, then no further hexadecimal digit. GB_ERR_FORMAT
 * otherwise (nothing of the text is repeated in the message: it may be a secret). */
gb_status_t gb_hex_decode(const char *text, void *out, size_t size);

#endif
