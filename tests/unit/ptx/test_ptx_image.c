/* Fat binaries, wrappers, ELF and text: what is found, and damaged ones. The images are made here,
 * to the layout that CUDA's tools write. */
#include "tests/unit/ptx/parse_help.h"

#include <elf.h>
#include <lz4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "gpu-proxy/cpu/ptx/ptx_image.h"

enum { RAW = 0, LZ4 = 0x2000, ZSTD = 0x8000, ARCH_ONLY = 0x100000 };

static void put(uint8_t *p, uint64_t value, unsigned bytes)
{
    memcpy(p, &value, bytes);
}

static size_t pack(uint8_t *out, size_t room, const char *text, size_t size, uint32_t flags)
{
    if (flags & ZSTD)
        return ZSTD_compress(out, room, text, size, 3);
    if (flags & LZ4)
        return (size_t)LZ4_compress_default(text, (char *)out, (int)size, (int)room);
    memcpy(out, text, size);
    return size;
}

/* Appends an entry of kind 1 (PTX) or 2 (ELF); returns the fat binary's new size. */
static size_t add_entry(uint8_t *image, unsigned kind, uint32_t sm, const char *text,
                        uint32_t flags)
{
    size_t at = 16;
    uint64_t payload;
    memcpy(&payload, image + 8, 8);
    at += payload;
    uint8_t *e = image + at;
    size_t header = 80, size = strlen(text) + 1;
    size_t used = pack(e + header, 4096, text, size, flags), padded = (used + 7) & ~(size_t)7;
    memset(e, 0, header);
    put(e, kind, 2);
    put(e + 2, 0x0101, 2);
    put(e + 4, header, 4);
    put(e + 8, padded, 8);
    put(e + 16, flags & (LZ4 | ZSTD) ? used : 0, 4);
    put(e + 28, sm, 4);
    put(e + 40, flags | 0x11, 8);
    put(e + 56, flags & (LZ4 | ZSTD) ? size : 0, 8);
    put(image + 8, payload + header + padded, 8);
    return 16 + payload + header + padded;
}

static void start(uint8_t *image)
{
    memset(image, 0, 16);
    put(image, 0xBA55ED50u, 4);
    put(image + 4, 1, 2);
    put(image + 6, 16, 2);
}

static void expect_text(const uint8_t *image, size_t size, uint32_t sm, const char *want)
{
    char *text = NULL;
    size_t length = 0;
    gb_status_t status = ptx_image_text(image, size, sm, 0, &text, &length);
    if (status != GB_OK)
        fail_msg("%s", gb_why());
    assert_string_equal(text, want);
    assert_int_equal(length, strlen(want));
    free(text);
}

static void expect_error(const uint8_t *image, size_t size, gb_status_t want)
{
    char *text = NULL;
    size_t length = 0;
    assert_int_equal(ptx_image_text(image, size, 80, 0, &text, &length), want);
    assert_null(text);
}

static void test_entries(void **state)
{
    (void)state;
    static const uint32_t flags[] = {RAW, LZ4, ZSTD};
    const char *text = "// some text of some length, some text of some length, some text\n";
    for (int i = 0; i < 3; i++) {
        uint8_t image[8192];
        start(image);
        add_entry(image, 2, 80, "not a real ELF", RAW);
        size_t size = add_entry(image, 1, 75, text, flags[i]);
        expect_text(image, size, 80, text);
        ptx_image_t found;
        assert_int_equal(ptx_image_locate(image, &found), GB_OK);
        assert_int_equal(found.kind, PTX_IMAGE_FATBIN);
        assert_int_equal(found.size, size);
    }
}

static void test_choice(void **state)
{
    (void)state;
    uint8_t image[8192];
    start(image);
    add_entry(image, 1, 90, "ninety", RAW);
    add_entry(image, 1, 70, "seventy", ZSTD);
    add_entry(image, 1, 75, "seventy-five", LZ4);
    size_t size = add_entry(image, 1, 76, "bound", ARCH_ONLY);
    expect_text(image, size, 80, "seventy-five");
    expect_text(image, size, 74, "seventy");
    expect_text(image, size, 100, "ninety");
    expect_text(image, size, 50, "seventy");
    start(image);
    size = add_entry(image, 1, 76, "bound", ARCH_ONLY);
    expect_text(image, size, 80, "bound");
}

/* All texts of an image, from the best one on. */
static void test_ranks(void **state)
{
    static const char *const want[] = {"80", "75", "75 again", "50", "90", "100", "90 a"};
    uint8_t image[8192];
    char *text = NULL;
    size_t length, size;
    (void)state;
    start(image);
    add_entry(image, 1, 100, "100", RAW);
    add_entry(image, 1, 90, "90 a", ARCH_ONLY);
    add_entry(image, 1, 75, "75", LZ4);
    add_entry(image, 2, 75, "code", RAW);
    add_entry(image, 1, 90, "90", ZSTD);
    add_entry(image, 1, 75, "75 again", RAW);
    add_entry(image, 1, 50, "50", RAW);
    size = add_entry(image, 1, 80, "80", RAW);
    for (unsigned rank = 0; rank < 7; rank++) {
        assert_int_equal(ptx_image_text(image, size, 80, rank, &text, &length), GB_OK);
        assert_string_equal(text, want[rank]);
        free(text);
    }
    assert_int_equal(ptx_image_text(image, size, 80, 7, &text, &length), GB_ERR_NOT_FOUND);
    assert_int_equal(ptx_image_text("text", 4, 80, 1, &text, &length), GB_ERR_NOT_FOUND);
}

static void test_no_ptx(void **state)
{
    (void)state;
    uint8_t image[8192];
    start(image);
    expect_error(image, 16, GB_ERR_NOT_FOUND);
    size_t size = add_entry(image, 2, 80, "code", RAW);
    expect_error(image, size, GB_ERR_NOT_FOUND);
    Elf64_Ehdr elf = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64},
                      .e_shoff = sizeof elf,
                      .e_shnum = 1,
                      .e_shentsize = sizeof(Elf64_Shdr)};
    Elf64_Shdr section = {.sh_type = SHT_PROGBITS, .sh_offset = 100, .sh_size = 900};
    memcpy(image, &elf, sizeof elf);
    memcpy(image + sizeof elf, &section, sizeof section);
    expect_error(image, sizeof image, GB_ERR_NOT_FOUND);
    assert_non_null(strstr(gb_why(), "only code for a GPU"));
    ptx_image_t found;
    assert_int_equal(ptx_image_locate(image, &found), GB_OK);
    assert_int_equal(found.kind, PTX_IMAGE_ELF);
    assert_int_equal(found.size, 1000);
}

typedef struct {
    uint32_t magic, version;
    const void *data;
    const void *const *extra;
} wrapper_t;

static void test_wrapper(void **state)
{
    (void)state;
    uint8_t image[8192], empty[16];
    start(image);
    start(empty);
    size_t size = add_entry(image, 1, 75, "text", RAW);
    wrapper_t wrapper = {0x466243B1, 1, image, NULL};
    ptx_image_t found;
    assert_int_equal(ptx_image_locate(&wrapper, &found), GB_OK);
    assert_ptr_equal(found.data, image);
    assert_int_equal(found.size, size);
    assert_null(ptx_image_parts(&wrapper));
    /* What nvlink made of two parts: without PTX they are to be linked, with PTX they have been. */
    const void *two[] = {image, image, NULL}, *none[] = {NULL};
    wrapper = (wrapper_t){0x466243B1, 2, empty, two};
    assert_ptr_equal(ptx_image_parts(&wrapper), two);
    uint8_t code[8192];
    start(code);
    add_entry(code, 2, 80, "code", RAW);
    wrapper.data = code;
    assert_ptr_equal(ptx_image_parts(&wrapper), two);
    wrapper.data = image;
    assert_null(ptx_image_parts(&wrapper));
    wrapper = (wrapper_t){0x466243B1, 2, empty, none};
    assert_null(ptx_image_parts(&wrapper));
    assert_null(ptx_image_parts(".version 7.0"));
    assert_null(ptx_image_parts(NULL));
    wrapper = (wrapper_t){0x466243B1, 1, NULL, NULL};
    assert_int_equal(ptx_image_locate(&wrapper, &found), GB_ERR_INVALID);
    assert_int_equal(ptx_image_locate(NULL, &found), GB_ERR_INVALID);
}

static void test_text(void **state)
{
    (void)state;
    static const char text[] = ".version 7.0\n\0\0\0\0";
    ptx_image_t found;
    expect_text((const uint8_t *)text, sizeof text, 80, ".version 7.0\n");
    assert_int_equal(ptx_image_locate(text, &found), GB_OK);
    assert_int_equal(found.kind, PTX_IMAGE_TEXT);
    assert_int_equal(found.size, 13);
    assert_int_equal(ptx_image_locate("P", &found), GB_OK);
    assert_int_equal(found.size, 1);
    expect_text((const uint8_t *)"", 0, 80, "");
}

/* Sizes that lie, cut images and flipped bytes: an error or a text, never a read outside (the
 * image is copied to a block of just its size, so that sanitizers see one). */
static void test_damage(void **state)
{
    (void)state;
    uint8_t image[8192];
    start(image);
    add_entry(image, 1, 70, "a text that is compressed, a text that is compressed", ZSTD);
    size_t size = add_entry(image, 1, 75, "a text that is compressed, that is a text", LZ4);
    for (size_t n = 0; n < size; n++) {
        uint8_t *copy = malloc(n ? n : 1);
        memcpy(copy, image, n);
        char *text = NULL;
        size_t length;
        if (n >= 4)
            assert_int_equal(ptx_image_text(copy, n, 80, 0, &text, &length), GB_ERR_FORMAT);
        free(copy);
    }
    static const unsigned offsets[] = {6, 8, 16, 16 + 4, 16 + 8, 16 + 16, 16 + 40, 16 + 56};
    static const uint64_t lies[] = {0, 1, 0xff, 0x7fffffff, 0xffffffff, UINT64_MAX, INT64_MAX};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        for (size_t k = 0; k < sizeof lies / sizeof lies[0]; k++) {
            uint8_t *copy = malloc(size);
            char *text = NULL;
            size_t length;
            memcpy(copy, image, size);
            put(copy + offsets[i], lies[k], offsets[i] == 6 ? 2 : offsets[i] == 20 ? 4 : 8);
            (void)ptx_image_text(copy, size, 80, 0, &text, &length);
            free(text);
            free(copy);
        }
    }
    uint8_t *copy = malloc(size);
    for (size_t at = 0; at < size; at++) {
        char *text = NULL;
        size_t length;
        memcpy(copy, image, size);
        copy[at] ^= 0x40;
        (void)ptx_image_text(copy, size, 80, 0, &text, &length);
        free(text);
    }
    free(copy);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_entries), cmocka_unit_test(test_choice),
        cmocka_unit_test(test_ranks),   cmocka_unit_test(test_no_ptx),
        cmocka_unit_test(test_wrapper), cmocka_unit_test(test_text),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
