/* The IDX reader takes plain and gzip files and refuses every kind of damage with one clear line. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <cmocka.h>

#include "worker/data/wk_idx.h"

static char dir[] = "/tmp/test_idx.XXXXXX";
static char path[64];

static const uint8_t good[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 10, 11, 12, 13, 14, 15};

static int set_up(void **state)
{
    (void)state;
    if (!mkdtemp(dir))
        return -1;
    snprintf(path, sizeof(path), "%s/file", dir);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(dir);
}

static void write_plain(const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

static void write_gzip(const void *bytes, size_t size)
{
    gzFile file = gzopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(gzwrite(file, bytes, (unsigned)size), size);
    gzclose(file);
}

static void expect_good(void)
{
    wk_idx_t idx;
    assert_int_equal(wk_idx_load(path, &idx), GB_OK);
    assert_int_equal(idx.rank, 2);
    assert_int_equal(idx.dims[0], 2);
    assert_int_equal(idx.dims[1], 3);
    assert_int_equal(idx.size, 6);
    assert_memory_equal(idx.bytes, good + 12, 6);
    wk_idx_free(&idx);
}

static void expect_refused(gb_status_t status, const char *text)
{
    wk_idx_t idx;
    assert_int_equal(wk_idx_load(path, &idx), status);
    if (!strstr(gb_why(), text) || !strstr(gb_why(), path) || strchr(gb_why(), '\n'))
        fail_msg("message '%s' should name the file and '%s'", gb_why(), text);
}

static void test_plain_and_gzip(void **state)
{
    (void)state;
    write_plain(good, sizeof(good));
    expect_good();
    write_gzip(good, sizeof(good));
    expect_good();
}

static void test_missing(void **state)
{
    (void)state;
    unlink(path);
    expect_refused(GB_ERR_NOT_FOUND, "--data");
}

static void test_every_truncation(void **state)
{
    (void)state;
    for (size_t size = 0; size < sizeof(good); size++) {
        write_plain(good, size);
        expect_refused(GB_ERR_FORMAT, "truncated");
    }
}

static void test_truncated_and_damaged_gzip(void **state)
{
    (void)state;
    uint8_t packed[256];
    write_gzip(good, sizeof(good));
    FILE *file = fopen(path, "rb");
    size_t size = fread(packed, 1, sizeof(packed), file);
    fclose(file);
    write_plain(packed, size - 9); /* the checksum and the last bytes */
    expect_refused(GB_ERR_FORMAT, path);
    packed[size - 8] ^= 0xff; /* checksum */
    write_plain(packed, size);
    expect_refused(GB_ERR_FORMAT, "damaged gzip");
}

static void test_too_long(void **state)
{
    (void)state;
    uint8_t longer[sizeof(good) + 1] = {0};
    memcpy(longer, good, sizeof(good));
    write_plain(longer, sizeof(longer));
    expect_refused(GB_ERR_FORMAT, "longer");
}

static void test_wrong_magic(void **state)
{
    (void)state;
    for (size_t i = 0; i < 4; i++) {
        uint8_t bad[sizeof(good)];
        memcpy(bad, good, sizeof(good));
        bad[i] = 0x77;
        write_plain(bad, sizeof(bad));
        expect_refused(GB_ERR_FORMAT, "wrong magic");
    }
}

static void test_absurd_dimensions(void **state)
{
    (void)state;
    uint8_t bad[sizeof(good)];
    memcpy(bad, good, sizeof(good));
    bad[4] = bad[8] = 0xff; /* the product would overflow 2 GiB */
    write_plain(bad, sizeof(bad));
    expect_refused(GB_ERR_LIMIT, "2 GiB");
    memcpy(bad, good, sizeof(good));
    bad[7] = 0;
    write_plain(bad, sizeof(bad));
    expect_refused(GB_ERR_FORMAT, "zero");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_plain_and_gzip),    cmocka_unit_test(test_missing),
        cmocka_unit_test(test_every_truncation),  cmocka_unit_test(test_truncated_and_damaged_gzip),
        cmocka_unit_test(test_too_long),          cmocka_unit_test(test_wrong_magic),
        cmocka_unit_test(test_absurd_dimensions),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
