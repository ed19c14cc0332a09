/* HMAC and HKDF against published vectors, hexadecimal text, comparison. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "common/crypto/gb_crypto.h"

/* RFC 4231, test case 1, whose 20-byte key HMAC pads with zeros: the same as a 32-byte key that ends in
 * zeros. */
static void hmac_vector(void **state)
{
    (void)state;
    gb_key_t key = {{0}};
    uint8_t mac[GB_MAC_SIZE];
    char hex[2 * GB_MAC_SIZE + 1];
    memset(key.bytes, 0x0b, 20);
    assert_int_equal(gb_hmac(&key, "Hi There", 8, mac), GB_OK);
    gb_hex_encode(mac, sizeof mac, hex);
    assert_string_equal(hex, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
}

/* Extract and expand written out with HMAC: T(1) = HMAC(HMAC(salt, ikm), info | 1). */
static void hkdf_by_hand(void **state)
{
    (void)state;
    gb_key_t master = {{1, 2, 3}};
    gb_key_t salt = {{0}};
    gb_key_t prk;
    gb_key_t out;
    uint8_t expected[GB_MAC_SIZE];
    memcpy(salt.bytes, "salt", 4);
    assert_int_equal(gb_hmac(&salt, master.bytes, sizeof master, prk.bytes), GB_OK);
    assert_int_equal(gb_hmac(&prk, "info\001", 5, expected), GB_OK);
    assert_int_equal(gb_hkdf(&master, "salt", "info", &out), GB_OK);
    assert_memory_equal(out.bytes, expected, sizeof expected);
}

static void hexadecimal(void **state)
{
    (void)state;
    uint8_t bytes[4] = {0x00, 0xff, 0x1a, 0xb2};
    uint8_t back[4] = {7, 7, 7, 7};
    char text[9];
    gb_hex_encode(bytes, sizeof bytes, text);
    assert_string_equal(text, "00ff1ab2");
    assert_int_equal(gb_hex_decode("00ff1a", back, 4), GB_ERR_FORMAT);
    assert_int_equal(gb_hex_decode("00ff1ab", back, 4), GB_ERR_FORMAT);
    assert_int_equal(gb_hex_decode("00ff1ab21", back, 4), GB_ERR_FORMAT);
    assert_int_equal(gb_hex_decode("00ff1xb2", back, 4), GB_ERR_FORMAT);
    assert_int_equal(back[0], 7);
    assert_int_equal(gb_hex_decode("00FF1ab2 ", back, 4), GB_OK);
    assert_memory_equal(back, bytes, 4);
}

static void secrets(void **state)
{
    (void)state;
    gb_key_t a = {{0}};
    gb_key_t b = {{0}};
    assert_true(gb_key_is_zero(&a));
    assert_int_equal(gb_random(&a, sizeof a), GB_OK);
    assert_false(gb_key_is_zero(&a));
    assert_false(gb_secret_equal(&a, &b, sizeof a));
    b = a;
    assert_true(gb_secret_equal(&a, &b, sizeof a));
    b.bytes[31] ^= 0x80;
    assert_false(gb_secret_equal(&a, &b, sizeof a));
    gb_wipe(&a, sizeof a);
    assert_true(gb_key_is_zero(&a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hmac_vector),
        cmocka_unit_test(hkdf_by_hand),
        cmocka_unit_test(hexadecimal),
        cmocka_unit_test(secrets),
    };
    return cmocka_run_group_tests_name("crypto", tests, NULL, NULL);
}
