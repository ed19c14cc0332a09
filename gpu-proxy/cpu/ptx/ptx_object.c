#include "gpu-proxy/cpu/ptx/ptx_object.h"

#include <ar.h>
#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/ptx/ptx_image.h"

enum { FATBIN_HEADER = 16, MEMBER_NAME = 256 };

typedef struct {
    ptx_object_visit_fn visit;
    void *arg;
    const char *member;
    size_t found;
} walk_t;

static gb_status_t damaged(const char *what)
{
    return gb_fail(GB_ERR_FORMAT, "object: damaged: %s", what);
}

static uint64_t load(const uint8_t *p, unsigned bytes)
{
    uint64_t value = 0;
    memcpy(&value, p, bytes);
    return value;
}

static gb_status_t visit(walk_t *w, const uint8_t *data, size_t size)
{
    w->found++;
    return w->visit(w->arg, w->member, data, size);
}

/* Fat binaries lie one after the other, with zeros up to the next multiple of 8 between them. */
static gb_status_t walk_section(walk_t *w, const uint8_t *data, size_t size)
{
    for (size_t at = 0; size - at >= FATBIN_HEADER;) {
        if (ptx_image_kind(data + at, size - at) != PTX_IMAGE_FATBIN) {
            at += size - at < 8 ? size - at : 8;
            continue;
        }
        uint64_t payload = load(data + at + 8, 8), header = load(data + at + 6, 2);
        if (header < FATBIN_HEADER || header > size - at || payload > size - at - header)
            return damaged("a fat binary reaches beyond its section");
        gb_status_t status = visit(w, data + at, header + payload);
        if (status != GB_OK)
            return status;
        size_t whole = (header + payload + 7) & ~(size_t)7;
        at = whole > size - at ? size : at + whole;
    }
    return GB_OK;
}

static bool is_ours(const char *name, size_t room)
{
    static const char *const names[] = {".nv_fatbin", "__nv_relfatbin"};
    for (int i = 0; i < 2; i++) {
        size_t length = strlen(names[i]) + 1;
        if (length <= room && memcmp(name, names[i], length) == 0)
            return true;
    }
    return false;
}

static bool read_section(const uint8_t *data, size_t size, const Elf64_Ehdr *header, unsigned i,
                         Elf64_Shdr *out)
{
    uint64_t at = header->e_shoff + (uint64_t)i * sizeof *out;
    if (header->e_shoff > size || at > size || size - at < sizeof *out)
        return false;
    memcpy(out, data + at, sizeof *out);
    return out->sh_type == SHT_NOBITS ||
           (out->sh_offset <= size && out->sh_size <= size - out->sh_offset);
}

static gb_status_t walk_elf(walk_t *w, const uint8_t *data, size_t size)
{
    Elf64_Ehdr header;
    Elf64_Shdr names, section;
    if (size < sizeof header)
        return damaged("the ELF header is cut");
    memcpy(&header, data, sizeof header);
    if (data[EI_CLASS] != ELFCLASS64 || header.e_shnum == 0)
        return GB_OK; /* nothing of ours is in it */
    if (header.e_shentsize != sizeof section || header.e_shstrndx >= header.e_shnum ||
        !read_section(data, size, &header, header.e_shstrndx, &names) ||
        names.sh_type == SHT_NOBITS)
        return damaged("the table of sections");
    for (unsigned i = 0; i < header.e_shnum; i++) {
        if (!read_section(data, size, &header, i, &section))
            return damaged("a section reaches beyond the file");
        if (section.sh_type == SHT_NOBITS || section.sh_name >= names.sh_size ||
            !is_ours((const char *)data + names.sh_offset + section.sh_name,
                     names.sh_size - section.sh_name))
            continue;
        gb_status_t status = walk_section(w, data + section.sh_offset, section.sh_size);
        if (status != GB_OK)
            return status;
    }
    return GB_OK;
}

/* One file: ELF or an image by itself. */
static gb_status_t walk_file(walk_t *w, const uint8_t *data, size_t size)
{
    switch (ptx_image_kind(data, size)) {
    case PTX_IMAGE_ELF:
        return walk_elf(w, data, size);
    case PTX_IMAGE_FATBIN:
        return visit(w, data, size);
    default:
        /* A text without .version is none of ours: an archive may hold anything. */
        return memmem(data, size, ".version", 8) ? visit(w, data, size) : GB_OK;
    }
}

typedef struct {
    const char *names; /* the member of long names */
    size_t names_size;
} archive_t;

static bool number(const char *field, size_t size, size_t *out)
{
    char copy[20] = "", *end;
    memcpy(copy, field, size < sizeof copy - 1 ? size : sizeof copy - 1);
    *out = strtoull(copy, &end, 10);
    return end != copy;
}

/* "name/", or "/123" into the table of long names. */
static void member_name(const archive_t *a, const struct ar_hdr *h, char out[MEMBER_NAME])
{
    size_t at = 0, length = 0;
    const char *from = h->ar_name;
    size_t room = sizeof h->ar_name;
    if (from[0] == '/' && number(from + 1, room - 1, &at) && at < a->names_size) {
        from = a->names + at;
        room = a->names_size - at;
    }
    while (length < room && length < MEMBER_NAME - 1 && from[length] != '/' && from[length] != '\n')
        length++;
    memcpy(out, from, length);
    out[length] = 0;
}

static gb_status_t walk_archive(walk_t *w, const uint8_t *data, size_t size)
{
    archive_t archive = {0};
    struct ar_hdr h;
    for (size_t at = SARMAG; at < size;) {
        char name[MEMBER_NAME];
        size_t bytes;
        if (size - at < sizeof h)
            return damaged("a member's header is cut");
        memcpy(&h, data + at, sizeof h);
        at += sizeof h;
        if (memcmp(h.ar_fmag, ARFMAG, 2) != 0 || !number(h.ar_size, sizeof h.ar_size, &bytes) ||
            bytes > size - at)
            return damaged("a member of the library");
        if (memcmp(h.ar_name, "// ", 3) == 0) {
            archive = (archive_t){(const char *)data + at, bytes};
        } else if (memcmp(h.ar_name, "/ ", 2) != 0 && memcmp(h.ar_name, "/SYM64/", 7) != 0) {
            member_name(&archive, &h, name);
            w->member = name;
            gb_status_t status = walk_file(w, data + at, bytes);
            if (status != GB_OK)
                return status;
        }
        at += bytes + (bytes & 1 && bytes < size - at);
    }
    return GB_OK;
}

gb_status_t ptx_object_visit(const void *data, size_t size, ptx_object_visit_fn fn, void *arg)
{
    walk_t w = {.visit = fn, .arg = arg, .member = ""};
    bool archive = size >= SARMAG && memcmp(data, ARMAG, SARMAG) == 0;
    gb_status_t status = archive ? walk_archive(&w, data, size) : walk_file(&w, data, size);
    if (status == GB_OK && w.found == 0)
        return gb_fail(GB_ERR_NOT_FOUND, "object: there is no device code in it");
    return status;
}
