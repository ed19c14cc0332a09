/* Whatever a stranger sends as a preamble, or a false server as its answer. The proof is repaired in half
 * of the inputs, so that what lies behind it is reached. */
#include <stdlib.h>
#include <string.h>

#include "common/link/gb_preamble.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const gb_key_t KEY = {{42}};

static gb_status_t lookup(void *arg, uint64_t lease, gb_key_t *key)
{
    (void)arg;
    if (lease & 1)
        return gb_fail(GB_ERR_NOT_FOUND, "no such lease");
    *key = KEY;
    return GB_OK;
}

static void check_preamble(const uint8_t *bytes, int repaired)
{
    gb_preamble_t facts;
    gb_key_t key;
    if (gb_preamble_verify(bytes, GB_SERVICE_SESSION, lookup, NULL, &facts, &key) != GB_OK)
        return;
    if (!repaired || facts.service != GB_SERVICE_SESSION || facts.security > GB_SECURITY_SHARED)
        abort(); /* nobody guesses a proof, and what is accepted makes sense */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t bytes[GB_PREAMBLE_SIZE] = {0};
    if (!size)
        return 0;
    (void)gb_preamble_check(data, size < GB_PREAMBLE_SIZE ? size : GB_PREAMBLE_SIZE);
    memcpy(bytes, data, size < sizeof bytes ? size : sizeof bytes);
    check_preamble(bytes, 0);
    memcpy(bytes, "GABLELNK\1", 9);
    if (gb_hmac(&KEY, bytes, GB_PREAMBLE_SIZE - GB_MAC_SIZE,
                bytes + GB_PREAMBLE_SIZE - GB_MAC_SIZE) == GB_OK)
        check_preamble(bytes, 1);
    (void)gb_answer_decode(bytes, "there");
    memcpy(bytes, "GABLEANS", 8);
    (void)gb_answer_decode(bytes, "there");
    return 0;
}
