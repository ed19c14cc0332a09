/* Any bytes as a compiled kernel, as they may lie in a cache: refused, or described without reading
 * outside. What the checksum would stop is made right in half of the inputs, so that what lies behind
 * it is reached. Nothing is run. */
#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/jit/code.h"
#include "gpu-proxy/cpu/jit/cpu_code.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try(const uint8_t *blob, size_t size)
{
    static const uint32_t block[3] = {32, 2, 1};
    cpu_code_t *code = NULL;
    gb_status_t status = cpu_code_load(blob, size, &code);
    if (status != GB_OK) {
        if (code)
            abort();
        return;
    }
    const cpu_code_header_t *h = cpu_code_header(code);
    for (uint32_t i = 0; i < h->symbol_count; i++) {
        const char *name = cpu_code_symbol(code, i);
        if (!name || strlen(name) > h->symbol_bytes)
            abort();
    }
    if (cpu_code_symbol(code, h->symbol_count))
        abort();
    (void)cpu_code_scratch(code, block, 1024);
    cpu_code_free(code);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *target;
    uint8_t *copy = malloc(size + 1);
    if (!copy)
        return 0;
    memcpy(copy, data, size);
    try(copy, size);
    if (size >= sizeof(cpu_code_header_t) && cpu_target_name(NULL, &target) == GB_OK) {
        cpu_code_header_t h;
        size_t from = offsetof(cpu_code_header_t, target_hash);
        memcpy(&h, copy, sizeof h);
        h.magic = CPU_CODE_MAGIC;
        h.version = CPU_CODE_VERSION;
        h.target_hash = cpu_target_hash(target);
        h.blob_bytes = size;
        memcpy(copy, &h, sizeof h);
        h.checksum = cpu_code_checksum(copy + from, size - from);
        memcpy(copy, &h, sizeof h);
        try(copy, size);
    }
    free(copy);
    return 0;
}
