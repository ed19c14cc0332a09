/* A linker for one small x86-64 object: only references relative to the program counter occur. */
#include "gpu-proxy/cpu/jit/object.h"

#include <elf.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SECTIONS = 256, NOWHERE = -1 };

typedef struct {
    const uint8_t *bytes;
    size_t size;
    const Elf64_Ehdr *header;
    const Elf64_Shdr *sections;
    const char *names;
    int64_t place[MAX_SECTIONS]; /* offset in the image, or NOWHERE */
    cpu_image_t image;
} link_t;

static gb_status_t bad(const char *what)
{
    return gb_fail(GB_ERR_INTERNAL, "compiled object: %s", what);
}

static bool is_loaded(const link_t *l, const Elf64_Shdr *s)
{
    const char *name = l->names + s->sh_name;
    return (s->sh_flags & SHF_ALLOC) != 0 && s->sh_type == SHT_PROGBITS && s->sh_size != 0 &&
           strcmp(name, ".eh_frame") != 0;
}

static gb_status_t open_object(link_t *l)
{
    l->header = (const void *)l->bytes;
    if (l->size < sizeof *l->header || memcmp(l->header->e_ident, ELFMAG, SELFMAG) != 0 ||
        l->header->e_shnum > MAX_SECTIONS ||
        l->header->e_shoff + (size_t)l->header->e_shnum * sizeof(Elf64_Shdr) > l->size) {
        return bad("not an ELF object");
    }
    l->sections = (const void *)(l->bytes + l->header->e_shoff);
    l->names = (const char *)l->bytes + l->sections[l->header->e_shstrndx].sh_offset;
    return GB_OK;
}

/* Code first, then constants. */
static gb_status_t place_sections(link_t *l)
{
    size_t at = 0;
    for (unsigned pass = 0; pass < 2; pass++) {
        for (unsigned n = 0; n < l->header->e_shnum; n++) {
            const Elf64_Shdr *s = &l->sections[n];
            bool code = (s->sh_flags & SHF_EXECINSTR) != 0;
            if (pass == 0) {
                l->place[n] = NOWHERE;
            }
            if (!is_loaded(l, s) || code != (pass == 0)) {
                continue;
            }
            size_t align = s->sh_addralign < 64 ? 64 : s->sh_addralign;
            at = (at + align - 1) / align * align;
            l->place[n] = (int64_t)at;
            at += s->sh_size;
        }
    }
    l->image.size = at;
    l->image.bytes = calloc(1, at + 1);
    if (l->image.bytes == NULL) {
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    }
    for (unsigned n = 0; n < l->header->e_shnum; n++) {
        if (l->place[n] != NOWHERE) {
            memcpy(l->image.bytes + l->place[n], l->bytes + l->sections[n].sh_offset,
                   l->sections[n].sh_size);
        }
    }
    return GB_OK;
}

/* Offset of a symbol in the image. */
static gb_status_t symbol_place(const link_t *l, const Elf64_Shdr *table, size_t index,
                                int64_t *place)
{
    const Elf64_Sym *s = (const Elf64_Sym *)(l->bytes + table->sh_offset) + index;
    const char *strings = (const char *)l->bytes + l->sections[table->sh_link].sh_offset;
    if (s->st_shndx >= l->header->e_shnum || l->place[s->st_shndx] == NOWHERE) {
        return gb_fail(GB_ERR_UNSUPPORTED, "compiled code needs '%s', which does not exist",
                       strings + s->st_name);
    }
    *place = l->place[s->st_shndx] + (int64_t)s->st_value;
    return GB_OK;
}

static gb_status_t relocate(link_t *l, const Elf64_Shdr *table, const Elf64_Rela *r, int64_t base)
{
    int64_t target = 0, at = base + (int64_t)r->r_offset;
    gb_status_t st = symbol_place(l, &l->sections[table->sh_link], ELF64_R_SYM(r->r_info), &target);
    if (st != GB_OK) {
        return st;
    }
    int64_t value = target + r->r_addend - at;
    int32_t word = (int32_t)value;
    switch (ELF64_R_TYPE(r->r_info)) {
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
        if (value != word || at < 0 || (size_t)at + 4 > l->image.size) {
            return bad("a reference is out of range");
        }
        memcpy(l->image.bytes + at, &word, 4);
        return GB_OK;
    case R_X86_64_PC64:
        if (at < 0 || (size_t)at + 8 > l->image.size) {
            return bad("a reference is out of range");
        }
        memcpy(l->image.bytes + at, &value, 8);
        return GB_OK;
    default:
        return bad("an absolute reference");
    }
}

static gb_status_t relocate_all(link_t *l)
{
    for (unsigned n = 0; n < l->header->e_shnum; n++) {
        const Elf64_Shdr *s = &l->sections[n];
        if (s->sh_type != SHT_RELA || s->sh_info >= l->header->e_shnum ||
            l->place[s->sh_info] == NOWHERE) {
            continue;
        }
        const Elf64_Rela *r = (const void *)(l->bytes + s->sh_offset);
        for (size_t k = 0; k < s->sh_size / sizeof *r; k++) {
            gb_status_t st = relocate(l, s, &r[k], l->place[s->sh_info]);
            if (st != GB_OK) {
                return st;
            }
        }
    }
    return GB_OK;
}

static gb_status_t find_entry(link_t *l, const char *name)
{
    for (unsigned n = 0; n < l->header->e_shnum; n++) {
        const Elf64_Shdr *s = &l->sections[n];
        if (s->sh_type != SHT_SYMTAB) {
            continue;
        }
        const Elf64_Sym *symbols = (const void *)(l->bytes + s->sh_offset);
        const char *strings = (const char *)l->bytes + l->sections[s->sh_link].sh_offset;
        for (size_t k = 0; k < s->sh_size / sizeof *symbols; k++) {
            int64_t place;
            if (strcmp(strings + symbols[k].st_name, name) == 0 &&
                symbol_place(l, s, k, &place) == GB_OK) {
                l->image.entry = (uint32_t)place;
                return GB_OK;
            }
        }
    }
    return bad("no entry");
}

gb_status_t cpu_object_link(const void *object, size_t size, const char *entry, cpu_image_t *image)
{
    link_t l = {.bytes = object, .size = size};
    gb_status_t st = open_object(&l);
    if (st == GB_OK) {
        st = place_sections(&l);
    }
    if (st == GB_OK) {
        st = relocate_all(&l);
    }
    if (st == GB_OK) {
        st = find_entry(&l, entry);
    }
    if (st != GB_OK) {
        free(l.image.bytes);
        return st;
    }
    *image = l.image;
    return GB_OK;
}
