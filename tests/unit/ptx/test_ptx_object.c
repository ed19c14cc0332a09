/* Object files and libraries: the images in them, and damaged ones. The files are made here, to the
 * layout of ELF and ar. */
#include "tests/unit/ptx/parse_help.h"

#include <ar.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/ptx/ptx_object.h"

static void put(uint8_t *p, uint64_t value, unsigned bytes)
{
    memcpy(p, &value, bytes);
}

/* A fat binary whose only contents is a number. */
static size_t make_image(uint8_t *out, uint8_t number, size_t payload)
{
    memset(out, 0, 16 + payload);
    put(out, 0xBA55ED50u, 4);
    put(out + 4, 1, 2);
    put(out + 6, 16, 2);
    put(out + 8, payload, 8);
    out[16] = number;
    return 16 + payload;
}

/* An object file: images 1 and 2 in .nv_fatbin, 3 in __nv_relfatbin. */
static size_t make_object(uint8_t *out)
{
    static const char names[] = "\0.text\0.nv_fatbin\0__nv_relfatbin\0.shstrtab";
    static const unsigned name_at[] = {0, 1, 7, 18, 33};
    Elf64_Shdr sections[5] = {{0}};
    Elf64_Ehdr header = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64},
                         .e_shnum = 5,
                         .e_shentsize = sizeof(Elf64_Shdr),
                         .e_shstrndx = 4};
    size_t at = sizeof header;
    memset(out, 0, 4096);
    for (int i = 1; i < 5; i++) {
        sections[i].sh_name = name_at[i];
        sections[i].sh_type = SHT_PROGBITS;
        sections[i].sh_offset = at;
        if (i == 1) {
            at += 16;
        } else if (i == 2) {
            at += make_image(out + at, 1, 21);
            at = (at + 7) & ~(size_t)7;
            at += make_image(out + at, 2, 8);
        } else if (i == 3) {
            at = (at + 7) & ~(size_t)7;
            sections[i].sh_offset = at;
            at += make_image(out + at, 3, 40);
        } else {
            memcpy(out + at, names, sizeof names);
            at += sizeof names;
        }
        sections[i].sh_size = at - sections[i].sh_offset;
    }
    header.e_shoff = at;
    memcpy(out, &header, sizeof header);
    memcpy(out + at, sections, sizeof sections);
    return at + sizeof sections;
}

static size_t add_member(uint8_t *out, const char *name, const void *data, size_t size)
{
    char head[64];
    snprintf(head, sizeof head, "%-16s%-12d%-6d%-6d%-8d%-10zu`\n", name, 0, 0, 0, 644, size);
    memcpy(out, head, sizeof(struct ar_hdr));
    memcpy(out + sizeof(struct ar_hdr), data, size);
    out[sizeof(struct ar_hdr) + size] = '\n';
    return sizeof(struct ar_hdr) + size + (size & 1);
}

static size_t make_library(uint8_t *out, const void *object, size_t size)
{
    static const char long_names[] = "a_member_with_a_long_name.o/\nanother/\n";
    uint8_t image[64];
    size_t at = SARMAG;
    memcpy(out, ARMAG, SARMAG);
    at += add_member(out + at, "/", "\0\0\0\0", 4);
    at += add_member(out + at, "//", long_names, sizeof long_names - 1);
    at += add_member(out + at, "/0", object, size);
    at += add_member(out + at, "notes.txt/", "nothing", 7);
    at += add_member(out + at, "x.ptx/", ".version 7.0", 12);
    return at + add_member(out + at, "img.fatbin/", image, make_image(image, 9, 1));
}

typedef struct {
    char text[512];
    int stop_at; /* -1: never */
} seen_t;

static gb_status_t see(void *arg, const char *member, const void *data, size_t size)
{
    seen_t *seen = arg;
    size_t used = strlen(seen->text);
    if (seen->stop_at-- == 0)
        return gb_fail(GB_ERR_LIMIT, "enough");
    snprintf(seen->text + used, sizeof seen->text - used, "%s:%d:%zu ", member,
             ((const uint8_t *)data)[size > 16 ? 16 : 0], size);
    return GB_OK;
}

static void test_finds(void **state)
{
    uint8_t object[4096], library[16384];
    seen_t seen = {.stop_at = -1};
    (void)state;
    size_t size = make_object(object);
    assert_int_equal(ptx_object_visit(object, size, see, &seen), GB_OK);
    assert_string_equal(seen.text, ":1:37 :2:24 :3:56 ");
    seen = (seen_t){.stop_at = -1};
    size_t whole = make_library(library, object, size);
    assert_int_equal(ptx_object_visit(library, whole, see, &seen), GB_OK);
    assert_string_equal(seen.text,
                        "a_member_with_a_long_name.o:1:37 a_member_with_a_long_name.o:2:24 "
                        "a_member_with_a_long_name.o:3:56 x.ptx:46:12 img.fatbin:9:17 ");
    seen = (seen_t){.stop_at = 2};
    assert_int_equal(ptx_object_visit(library, whole, see, &seen), GB_ERR_LIMIT);
    assert_string_equal(seen.text,
                        "a_member_with_a_long_name.o:1:37 a_member_with_a_long_name.o:2:24 ");
}

static void test_nothing(void **state)
{
    seen_t seen = {.stop_at = -1};
    uint8_t object[4096];
    (void)state;
    size_t size = make_object(object);
    for (size_t i = 0; i + 10 < size; i++) {
        if (memcmp(object + i, ".nv_fatbin", 10) == 0 || memcmp(object + i, "__nv_relfa", 10) == 0)
            object[i] = 'x';
    }
    assert_int_equal(ptx_object_visit(object, size, see, &seen), GB_ERR_NOT_FOUND);
    assert_int_equal(ptx_object_visit(ARMAG, SARMAG, see, &seen), GB_ERR_NOT_FOUND);
    assert_int_equal(ptx_object_visit("", 0, see, &seen), GB_ERR_NOT_FOUND);
    assert_int_equal(ptx_object_visit("what", 4, see, &seen), GB_ERR_NOT_FOUND);
    assert_string_equal(seen.text, "");
}

/* Reads every byte of what it is shown, so that sanitizers see what is outside. */
static gb_status_t touch(void *arg, const char *member, const void *data, size_t size)
{
    unsigned *sum = arg;
    for (size_t i = 0; i < size; i++)
        *sum += ((const uint8_t *)data)[i];
    *sum += (unsigned)strlen(member);
    return GB_OK;
}

/* Cut anywhere and with any byte changed: an error or fewer images, never a read outside. */
static void test_damage(void **state)
{
    uint8_t object[4096], library[16384];
    unsigned sum = 0;
    (void)state;
    size_t size = make_object(object), whole = make_library(library, object, size);
    for (int which = 0; which < 2; which++) {
        const uint8_t *from = which ? library : object;
        size_t bytes = which ? whole : size;
        for (size_t n = 0; n < bytes; n++) {
            uint8_t *copy = malloc(n ? n : 1);
            memcpy(copy, from, n);
            (void)ptx_object_visit(copy, n, touch, &sum);
            free(copy);
        }
        static const uint8_t flips[] = {1, 0x40, 0x80, 0xff};
        uint8_t *copy = malloc(bytes);
        for (size_t at = 0; at < bytes; at++) {
            for (size_t i = 0; i < sizeof flips; i++) {
                memcpy(copy, from, bytes);
                copy[at] ^= flips[i];
                (void)ptx_object_visit(copy, bytes, touch, &sum);
            }
        }
        free(copy);
    }
    put(object + offsetof(Elf64_Ehdr, e_shoff), UINT64_MAX - 8, 8);
    assert_int_equal(ptx_object_visit(object, size, touch, &sum), GB_ERR_FORMAT);
    library[SARMAG + offsetof(struct ar_hdr, ar_size)] = '6'; /* the next header is elsewhere */
    assert_int_equal(ptx_object_visit(library, whole, touch, &sum), GB_ERR_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_finds),
        cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
