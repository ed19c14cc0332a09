#include "gpu-proxy/cpu/ptx/ptx_image.h"

#include <elf.h>
#include <lz4.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "gpu-proxy/cpu/ptx/ptx_parse.h"

enum {
    FATBIN_HEADER = 16,
    ENTRY_HEADER = 64, /* the part of an entry's header that is always there */
    KIND_PTX = 1,
    FLAG_LZ4 = 0x2000,
    FLAG_ZSTD = 0x8000,
    FLAG_ARCH_ONLY = 0x100000,   /* 'a': runs on this one only */
    FLAG_FAMILY_ONLY = 0x200000, /* 'f' */
};
#define FATBIN_MAGIC 0xBA55ED50u

/* A wrapper as nvcc lays it out in .nvFatBinSegment. */
typedef struct {
    uint32_t magic;
    uint32_t version; /* 1: data is a fat binary; 2: extra lists relocatable ones */
    const void *data;
    const void *const *extra;
} wrapper_t;

typedef struct {
    uint16_t kind;
    uint32_t header_size, compressed, sm, options;
    uint64_t payload, flags, uncompressed;
    const uint8_t *bytes; /* the payload */
} entry_t;

static uint64_t load(const uint8_t *p, unsigned bytes)
{
    uint64_t value = 0;
    memcpy(&value, p, bytes);
    return value;
}

ptx_image_kind_t ptx_image_kind(const void *data, size_t size)
{
    if (size >= 4 && load(data, 4) == FATBIN_MAGIC)
        return PTX_IMAGE_FATBIN;
    if (size >= SELFMAG && memcmp(data, ELFMAG, SELFMAG) == 0)
        return PTX_IMAGE_ELF;
    return PTX_IMAGE_TEXT;
}

static void extend(uint64_t *end, uint64_t offset, uint64_t size)
{
    uint64_t to;
    if (!__builtin_add_overflow(offset, size, &to) && to > *end)
        *end = to;
}

/* An ELF is as long as what its tables reach to. */
static gb_status_t elf_size(const uint8_t *data, size_t *out)
{
    if (data[EI_CLASS] != ELFCLASS64)
        return gb_fail(GB_ERR_FORMAT, "image: a 32-bit ELF cannot be loaded");
    Elf64_Ehdr header;
    memcpy(&header, data, sizeof header);
    uint64_t end = sizeof header;
    extend(&end, header.e_phoff, (uint64_t)header.e_phnum * header.e_phentsize);
    extend(&end, header.e_shoff, (uint64_t)header.e_shnum * header.e_shentsize);
    for (unsigned i = 0; header.e_shentsize == sizeof(Elf64_Shdr) && i < header.e_shnum; i++) {
        Elf64_Shdr section;
        memcpy(&section, data + header.e_shoff + i * sizeof section, sizeof section);
        if (section.sh_type != SHT_NOBITS)
            extend(&end, section.sh_offset, section.sh_size);
    }
    *out = end;
    return GB_OK;
}

/* The entry at `at` of a fat binary whose entries end at `end`; *next is behind it. */
static gb_status_t read_entry(const uint8_t *data, size_t at, size_t end, entry_t *out,
                              size_t *next)
{
    if (end - at < ENTRY_HEADER)
        return gb_fail(GB_ERR_FORMAT, "image: damaged fat binary: an entry is cut");
    const uint8_t *p = data + at;
    *out = (entry_t){.kind = (uint16_t)load(p, 2),
                     .header_size = (uint32_t)load(p + 4, 4),
                     .payload = load(p + 8, 8),
                     .compressed = (uint32_t)load(p + 16, 4),
                     .sm = (uint32_t)load(p + 28, 4),
                     .flags = load(p + 40, 8),
                     .uncompressed = load(p + 56, 8)};
    if (out->header_size < ENTRY_HEADER || out->header_size > end - at ||
        out->payload > end - at - out->header_size || out->compressed > out->payload)
        return gb_fail(GB_ERR_FORMAT, "image: damaged fat binary: an entry reaches beyond it");
    out->bytes = p + out->header_size;
    *next = at + out->header_size + out->payload;
    return GB_OK;
}

static bool is_wrapper(const void *image)
{
    /* A text may be shorter than four bytes: compare byte by byte. */
    return strncmp(image, "\xb1\x43\x62\x46", 4) == 0;
}

static bool has_ptx(const void *data)
{
    size_t size, at;
    entry_t entry;
    if (!data || ptx_image_kind(data, 4) != PTX_IMAGE_FATBIN ||
        __builtin_add_overflow(load((const uint8_t *)data + 8, 8), FATBIN_HEADER, &size))
        return data != NULL;
    for (at = load((const uint8_t *)data + 6, 2); at < size;) {
        if (read_entry(data, at, size, &entry, &at) != GB_OK || entry.kind == KIND_PTX)
            return true;
    }
    return false;
}

const void *const *ptx_image_parts(const void *image)
{
    wrapper_t wrapper;
    if (!image || !is_wrapper(image))
        return NULL;
    memcpy(&wrapper, image, sizeof wrapper);
    bool parts = wrapper.version >= 2 && wrapper.extra && wrapper.extra[0];
    return parts && !has_ptx(wrapper.data) ? wrapper.extra : NULL;
}

gb_status_t ptx_image_locate(const void *image, ptx_image_t *out)
{
    if (!image)
        return gb_fail(GB_ERR_INVALID, "image: no image");
    if (is_wrapper(image)) {
        wrapper_t wrapper;
        memcpy(&wrapper, image, sizeof wrapper);
        if (!wrapper.data)
            return gb_fail(GB_ERR_INVALID, "image: the fat binary's wrapper is empty");
        image = wrapper.data;
    }
    ptx_image_t found = {.data = image};
    if (strncmp(image, "\x50\xed\x55\xba", 4) == 0) {
        found.kind = PTX_IMAGE_FATBIN;
        if (__builtin_add_overflow(load((const uint8_t *)image + 8, 8), FATBIN_HEADER, &found.size))
            return gb_fail(GB_ERR_FORMAT, "image: damaged fat binary: bad size");
    } else if (strncmp(image, ELFMAG, SELFMAG) == 0) {
        found.kind = PTX_IMAGE_ELF;
        gb_status_t status = elf_size(image, &found.size);
        if (status != GB_OK)
            return status;
    } else {
        found.kind = PTX_IMAGE_TEXT;
        found.size = strlen(image);
    }
    *out = found;
    return GB_OK;
}

/* Is `a` the better choice for a device of capability `sm`? */
static bool better(const entry_t *a, const entry_t *b, uint32_t sm)
{
    bool a_bound = a->flags & (FLAG_ARCH_ONLY | FLAG_FAMILY_ONLY);
    bool b_bound = b->flags & (FLAG_ARCH_ONLY | FLAG_FAMILY_ONLY);
    if (a_bound != b_bound)
        return b_bound;
    bool a_fits = a->sm <= sm, b_fits = b->sm <= sm;
    if (a_fits != b_fits)
        return a_fits;
    return a_fits ? a->sm > b->sm : a->sm < b->sm;
}

/* Goes through the entries with PTX; *out is the best of those that are worse than `limit` (NULL: of
 * all), of equals the first one in the image. */
static gb_status_t best_below(const uint8_t *data, uint32_t sm, const entry_t *limit, entry_t *out,
                              bool *found)
{
    size_t at = load(data + 6, 2);
    size_t end = at + load(data + 8, 8);
    *found = false;
    while (at < end) {
        entry_t entry = {0};
        gb_status_t status = read_entry(data, at, end, &entry, &at);
        if (status != GB_OK)
            return status;
        if (entry.kind != KIND_PTX)
            continue;
        bool later = !limit || better(limit, &entry, sm) ||
                     (!better(&entry, limit, sm) && entry.bytes > limit->bytes);
        if (later && (!*found || better(&entry, out, sm))) {
            *out = entry;
            *found = true;
        }
    }
    return GB_OK;
}

static gb_status_t choose(const uint8_t *data, size_t size, uint32_t sm, unsigned rank,
                          entry_t *out)
{
    if (size < FATBIN_HEADER)
        return gb_fail(GB_ERR_FORMAT, "image: damaged fat binary: the header is cut");
    size_t at = load(data + 6, 2);
    uint64_t payload = load(data + 8, 8);
    if (at < FATBIN_HEADER || at > size || payload > size - at)
        return gb_fail(GB_ERR_FORMAT, "image: damaged fat binary: shorter than its header says");
    bool found;
    gb_status_t status = best_below(data, sm, NULL, out, &found);
    for (unsigned i = 0; status == GB_OK && found && i < rank; i++) {
        const entry_t limit = *out;
        status = best_below(data, sm, &limit, out, &found);
    }
    if (status == GB_OK && !found)
        return gb_fail(GB_ERR_NOT_FOUND, "image: no PTX, only code for a GPU: build with -gencode "
                                         "arch=compute_XX,code=compute_XX");
    return status;
}

static bool unpack_zstd(const entry_t *entry, char *text, size_t room)
{
    size_t n = ZSTD_decompress(text, room, entry->bytes, entry->compressed);
    return !ZSTD_isError(n) && n == room;
}

static bool unpack_lz4(const entry_t *entry, char *text, size_t room)
{
    int n =
        LZ4_decompress_safe((const char *)entry->bytes, text, (int)entry->compressed, (int)room);
    return n >= 0 && (size_t)n == room;
}

static gb_status_t copy_text(const void *bytes, size_t size, char **text, size_t *length)
{
    if (size > PTX_MAX_TEXT)
        return gb_fail(GB_ERR_LIMIT, "image: more than 256 MiB of PTX");
    size = strnlen(bytes, size);
    char *copy = malloc(size + 1);
    if (!copy)
        return gb_fail(GB_ERR_NO_MEMORY, "image: out of memory");
    memcpy(copy, bytes, size);
    copy[size] = 0;
    *text = copy;
    *length = size;
    return GB_OK;
}

static gb_status_t unpack(const entry_t *entry, char **text, size_t *length)
{
    if (entry->compressed == 0)
        return copy_text(entry->bytes, entry->payload, text, length);
    if (entry->uncompressed > PTX_MAX_TEXT || entry->compressed > PTX_MAX_TEXT)
        return gb_fail(GB_ERR_LIMIT, "image: more than 256 MiB of PTX");
    if (!(entry->flags & (FLAG_ZSTD | FLAG_LZ4)))
        return gb_fail(GB_ERR_FORMAT, "image: an entry is compressed in an unknown way");
    size_t room = entry->uncompressed;
    char *copy = malloc(room + 1);
    if (!copy)
        return gb_fail(GB_ERR_NO_MEMORY, "image: out of memory");
    bool ok =
        entry->flags & FLAG_ZSTD ? unpack_zstd(entry, copy, room) : unpack_lz4(entry, copy, room);
    if (!ok) {
        free(copy);
        return gb_fail(GB_ERR_FORMAT, "image: damaged fat binary: an entry does not unpack");
    }
    copy[room] = 0;
    *text = copy;
    *length = strlen(copy);
    return GB_OK;
}

gb_status_t ptx_image_text(const void *data, size_t size, uint32_t sm, unsigned rank, char **text,
                           size_t *length)
{
    entry_t entry = {0};
    gb_status_t status;
    switch (ptx_image_kind(data, size)) {
    case PTX_IMAGE_ELF:
        return gb_fail(GB_ERR_NOT_FOUND, "image: an ELF has no PTX, only code for a GPU: load the "
                                         "PTX or a fat binary that has it");
    case PTX_IMAGE_FATBIN:
        status = choose(data, size, sm, rank, &entry);
        return status == GB_OK ? unpack(&entry, text, length) : status;
    default:
        return rank ? gb_fail(GB_ERR_NOT_FOUND, "image: a text is one module")
                    : copy_text(data, size, text, length);
    }
}
