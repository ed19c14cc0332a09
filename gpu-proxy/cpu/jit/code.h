/* code.h - a loaded kernel, as this room sees it. */
#ifndef CPU_JIT_CODE_H
#define CPU_JIT_CODE_H

#include "gpu-proxy/cpu/jit/cpu_code.h"
#include "gpu-proxy/cpu/jit/helpers.h"

struct cpu_code {
    cpu_code_header_t header;
    cpu_entry_fn entry;
    uint8_t *image; /* header.image_bytes, executable */
    const char **symbols;
    char symbol_text[];
};

/* Checksum used in blobs. */
uint64_t cpu_code_checksum(const void *bytes, size_t size);

#endif
