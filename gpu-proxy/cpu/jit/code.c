/* Blobs: checked, mapped, described. A blob's machine code needs no relocation: it is copied into
 * fresh pages, which then turn from writable to executable. */
#include "gpu-proxy/cpu/jit/code.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

uint64_t cpu_code_checksum(const void *bytes, size_t size)
{
    /* FNV-1a over 8-byte words: it guards against torn and bit-rotten files, not against people,
     * who cannot write into a user's own cache. */
    const unsigned char *p = bytes;
    uint64_t h = 0xcbf29ce484222325u;
    while (size >= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        h = (h ^ w) * 0x100000001b3u;
        h ^= h >> 32;
        p += 8;
        size -= 8;
    }
    while (size--) {
        h = (h ^ *p++) * 0x100000001b3u;
    }
    return h;
}

static const char V3[] = "x86-64-v3";
static const char V4[] = "x86-64-v4";

static bool host_has(const char *name)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
              __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2");
    if (name == V3) {
        return v3;
    }
    return v3 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
#else
    (void)name;
    return false;
#endif
}

gb_status_t cpu_target_name(const char *wanted, const char **name)
{
    const char *found = NULL;
    if (wanted == NULL || wanted[0] == '\0') {
        found = host_has(V4) ? V4 : V3;
    } else if (strcmp(wanted, V3) == 0) {
        found = V3;
    } else if (strcmp(wanted, V4) == 0) {
        found = V4;
    } else {
        return gb_fail(GB_ERR_UNSUPPORTED,
                       "unknown processor level '%s': use x86-64-v3 or x86-64-v4", wanted);
    }
    if (!host_has(found)) {
        return gb_fail(GB_ERR_UNSUPPORTED,
                       "this processor is no %s: the software device needs at least AVX2 and FMA",
                       found);
    }
    *name = found;
    return GB_OK;
}

uint64_t cpu_target_hash(const char *name)
{
    return cpu_code_checksum(name, strlen(name));
}

static gb_status_t check_blob(const cpu_code_header_t *h, const uint8_t *blob, size_t bytes)
{
    if (bytes < sizeof *h || h->magic != CPU_CODE_MAGIC) {
        return gb_fail(GB_ERR_FORMAT, "not a compiled kernel");
    }
    if (h->version != CPU_CODE_VERSION) {
        return gb_fail(GB_ERR_VERSION, "compiled kernel of version %u, need %u", h->version,
                       CPU_CODE_VERSION);
    }
    size_t from = offsetof(cpu_code_header_t, target_hash);
    if (h->blob_bytes != bytes || cpu_code_checksum(blob + from, bytes - from) != h->checksum) {
        return gb_fail(GB_ERR_FORMAT, "damaged compiled kernel");
    }
    bool v3 = h->target_hash == cpu_target_hash(V3) && host_has(V3);
    bool v4 = h->target_hash == cpu_target_hash(V4) && host_has(V4);
    if (!v3 && !v4) {
        return gb_fail(GB_ERR_VERSION, "compiled kernel for another processor");
    }
    if ((uint64_t)h->image_offset + h->image_bytes > bytes || h->entry_offset >= h->image_bytes ||
        (uint64_t)h->symbol_offset + h->symbol_bytes > bytes || h->width == 0 || h->width > 32 ||
        h->strips == 0 || h->strips > 32 ||
        (h->symbol_bytes != 0 && blob[h->symbol_offset + h->symbol_bytes - 1] != '\0')) {
        return gb_fail(GB_ERR_FORMAT, "damaged compiled kernel");
    }
    return GB_OK;
}

static gb_status_t index_symbols(cpu_code_t *code)
{
    unsigned n = code->header.symbol_count;
    const char *p = code->symbol_text, *end = p + code->header.symbol_bytes;
    if (n > code->header.symbol_bytes) {
        return gb_fail(GB_ERR_FORMAT, "damaged compiled kernel");
    }
    code->symbols = calloc(n + 1, sizeof *code->symbols);
    if (code->symbols == NULL) {
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    }
    for (unsigned i = 0; i < n; i++) {
        if (p >= end) {
            return gb_fail(GB_ERR_FORMAT, "damaged compiled kernel");
        }
        code->symbols[i] = p;
        p += strlen(p) + 1;
    }
    return GB_OK;
}

static gb_status_t map_image(cpu_code_t *code, const uint8_t *image)
{
    size_t bytes = code->header.image_bytes;
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        return gb_fail_errno(errno == ENOMEM ? GB_ERR_NO_MEMORY : GB_ERR_IO, errno,
                             "cannot map compiled code");
    }
    memcpy(p, image, bytes);
    if (mprotect(p, bytes, PROT_READ | PROT_EXEC) != 0) {
        int error = errno;
        munmap(p, bytes);
        return gb_fail_errno(GB_ERR_IO, error, "cannot make compiled code executable");
    }
    code->image = p;
    return GB_OK;
}

gb_status_t cpu_code_load(const void *blob, size_t bytes, cpu_code_t **out)
{
    cpu_code_header_t header = {0};
    if (bytes >= sizeof header) {
        memcpy(&header, blob, sizeof header);
    }
    gb_status_t st = check_blob(&header, blob, bytes);
    if (st != GB_OK) {
        return st;
    }
    cpu_code_t *code = calloc(1, sizeof *code + header.symbol_bytes);
    if (code == NULL) {
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    }
    code->header = header;
    memcpy(code->symbol_text, (const uint8_t *)blob + header.symbol_offset, header.symbol_bytes);
    st = index_symbols(code);
    if (st == GB_OK) {
        st = map_image(code, (const uint8_t *)blob + header.image_offset);
    }
    if (st != GB_OK) {
        cpu_code_free(code);
        return st;
    }
    void *entry = code->image + header.entry_offset;
    memcpy(&code->entry, &entry, sizeof entry);
    *out = code;
    return GB_OK;
}

void cpu_code_free(cpu_code_t *code)
{
    if (code == NULL) {
        return;
    }
    if (code->image != NULL) {
        munmap(code->image, code->header.image_bytes);
    }
    free(code->symbols);
    free(code);
}

const cpu_code_header_t *cpu_code_header(const cpu_code_t *code)
{
    return &code->header;
}

const char *cpu_code_symbol(const cpu_code_t *code, unsigned index)
{
    return index < code->header.symbol_count ? code->symbols[index] : NULL;
}

cpu_scratch_t cpu_code_scratch(const cpu_code_t *code, const uint32_t block[3],
                               uint32_t dynamic_shared_bytes)
{
    const cpu_code_header_t *h = &code->header;
    cpu_grouping_t g = cpu_grouping(h->layout, h->width, h->strips, block);
    size_t fixed = h->uses_dynamic || dynamic_shared_bytes ? h->dynamic_offset : h->shared_bytes;
    return (cpu_scratch_t){
        .shared_bytes = fixed + dynamic_shared_bytes,
        .local_bytes = (size_t)h->local_bytes * block[0] * block[1] * block[2],
        .context_bytes = (size_t)h->context_bytes * g.groups,
    };
}
