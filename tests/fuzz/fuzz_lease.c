/* Lease texts and endpoints. */
#include <stdlib.h>
#include <string.h>

#include "common/lease/gb_lease.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gb_lease_t lease;
    gb_endpoint_t first;
    gb_endpoint_t second;
    char text[GB_ENDPOINT_TEXT];
    if (gb_lease_parse((const char *)data, size, &lease) == GB_OK)
        gb_lease_free(&lease);
    char *copy = malloc(size + 1);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    copy[size] = 0;
    if (gb_endpoint_parse(copy, 7072, &first) == GB_OK) {
        /* what is accepted is understood the same way when it is written and read again */
        if (gb_endpoint_parse(gb_endpoint_format(&first, text), 0, &second) != GB_OK ||
            strcmp(first.name, second.name) || first.port != second.port ||
            first.device != second.device)
            abort();
    }
    free(copy);
    return 0;
}
