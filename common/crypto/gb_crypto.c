#include "common/crypto/gb_crypto.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/kdf.h>

gb_status_t gb_random(void *out, size_t size)
{
    uint8_t *p = out;
    while (size) {
        ssize_t n = getrandom(p, size, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return gb_fail_errno(GB_ERR_IO, errno, "no random bytes");
        p += n;
        size -= (size_t)n;
    }
    return GB_OK;
}

gb_status_t gb_hmac(const gb_key_t *key, const void *data, size_t size, uint8_t out[GB_MAC_SIZE])
{
    uint8_t mac[GB_MAC_SIZE];
    unsigned n = 0;
    if (!HMAC(EVP_sha256(), key->bytes, GB_KEY_SIZE, data, size, mac, &n) || n != GB_MAC_SIZE)
        return gb_fail(GB_ERR_INTERNAL, "HMAC-SHA256 failed in libcrypto");
    memcpy(out, mac, sizeof mac);
    return GB_OK;
}

void gb_crypto_thread_end(void)
{
    OPENSSL_thread_stop();
}

void gb_crypto_outlive_exit(void)
{
    OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
}

gb_status_t gb_hkdf(const gb_key_t *master, const char *salt, const char *info, gb_key_t *out)
{
    gb_key_t key;
    size_t n = GB_KEY_SIZE;
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_id(EVP_PKEY_HKDF, NULL);
    int ok = ctx && EVP_PKEY_derive_init(ctx) > 0 &&
             EVP_PKEY_CTX_set_hkdf_md(ctx, EVP_sha256()) > 0 &&
             EVP_PKEY_CTX_set1_hkdf_salt(ctx, (const uint8_t *)salt, (int)strlen(salt)) > 0 &&
             EVP_PKEY_CTX_set1_hkdf_key(ctx, master->bytes, GB_KEY_SIZE) > 0 &&
             EVP_PKEY_CTX_add1_hkdf_info(ctx, (const uint8_t *)info, (int)strlen(info)) > 0 &&
             EVP_PKEY_derive(ctx, key.bytes, &n) > 0 && n == GB_KEY_SIZE;
    EVP_PKEY_CTX_free(ctx);
    if (!ok)
        return gb_fail(GB_ERR_INTERNAL, "HKDF-SHA256 failed in libcrypto");
    *out = key;
    gb_wipe(&key, sizeof key);
    return GB_OK;
}

void gb_crypto_warm(void)
{
    static const gb_key_t key;
    uint8_t mac[GB_MAC_SIZE];
    (void)gb_hmac(&key, "", 0, mac);
}

int gb_secret_equal(const void *a, const void *b, size_t size)
{
    return CRYPTO_memcmp(a, b, size) == 0;
}

void gb_wipe(void *secret, size_t size)
{
    OPENSSL_cleanse(secret, size);
}

int gb_key_is_zero(const gb_key_t *key)
{
    static const gb_key_t zero;
    return gb_secret_equal(key, &zero, sizeof zero);
}

void gb_hex_encode(const void *bytes, size_t size, char *out)
{
    static const char digit[] = "0123456789abcdef";
    const uint8_t *p = bytes;
    for (size_t i = 0; i < size; i++) {
        out[2 * i] = digit[p[i] >> 4];
        out[2 * i + 1] = digit[p[i] & 15];
    }
    out[2 * size] = 0;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

gb_status_t gb_hex_decode(const char *text, void *out, size_t size)
{
    /* First a pass that only looks: the output is written on success only. */
    for (size_t i = 0; i < 2 * size; i++)
        if (hex_value(text[i]) < 0)
            return gb_fail(GB_ERR_FORMAT, "not %zu hexadecimal digits", 2 * size);
    if (hex_value(text[2 * size]) >= 0)
        return gb_fail(GB_ERR_FORMAT, "more than %zu hexadecimal digits", 2 * size);
    uint8_t *p = out;
    for (size_t i = 0; i < size; i++)
        p[i] = (uint8_t)(hex_value(text[2 * i]) << 4 | hex_value(text[2 * i + 1]));
    return GB_OK;
}
