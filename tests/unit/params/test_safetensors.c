/* Safetensors files: what is written is read back; hostile files are refused, never believed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/tensor/gb_safetensors.h"

static char folder[] = "/tmp/gable-st-XXXXXX";
static char path[64];

static int setup(void **state)
{
    (void)state;
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof(path), "%s/m.safetensors", folder);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder); /* fails if scrap was left behind */
}

static const gb_st_tensor_t model[] = {
    {.name = "fc.weight", .dtype = GB_ST_F32, .dims = 2, .shape = {2, 3}},
    {.name = "fc.\"bias\"", .dtype = GB_ST_F32, .dims = 1, .shape = {3}},
    {.name = "step", .dtype = GB_ST_I64, .dims = 0},
    {.name = "empty", .dtype = GB_ST_U8, .dims = 1, .shape = {0}},
};

static void write_model(void)
{
    const float w[9] = {1, -2, 3.5f, 4, 5, 6, 7, 8, 9};
    const int64_t step = 77;
    const gb_st_meta_t meta[] = {{"clock", "12"}, {"job", "a \"quoted\" name"}};
    gb_st_writer_t *writer;
    assert_int_equal(gb_st_writer_open(path, model, 4, meta, 2, &writer), GB_OK);
    assert_int_equal(gb_st_write(writer, w, 5), GB_OK); /* any pieces */
    assert_int_equal(gb_st_write(writer, (const char *)w + 5, sizeof(w) - 5), GB_OK);
    assert_int_equal(gb_st_write(writer, &step, sizeof(step)), GB_OK);
    assert_int_equal(gb_st_writer_commit(writer), GB_OK);
}

static void test_roundtrip(void **state)
{
    (void)state;
    write_model();
    gb_st_reader_t *reader;
    assert_int_equal(gb_st_reader_open(path, &reader), GB_OK);
    assert_int_equal(gb_st_reader_count(reader), 4);
    int32_t i = gb_st_reader_find(reader, "fc.\"bias\"");
    assert_true(i >= 0);
    float bias[3];
    assert_int_equal(gb_st_reader_read(reader, (uint32_t)i, 0, bias, sizeof(bias)), GB_OK);
    assert_true(bias[0] == 7 && bias[1] == 8 && bias[2] == 9);
    i = gb_st_reader_find(reader, "fc.weight");
    const gb_st_tensor_t *t = gb_st_reader_tensor(reader, (uint32_t)i);
    assert_int_equal(t->dims, 2);
    assert_int_equal(t->shape[1], 3);
    assert_int_equal(gb_st_reader_read(reader, (uint32_t)i, 8, bias, 4), GB_OK);
    assert_true(bias[0] == 3.5f);
    assert_int_equal(gb_st_reader_read(reader, (uint32_t)i, 20, bias, 8), GB_ERR_INVALID);
    assert_int_equal(gb_st_reader_read(reader, 9, 0, bias, 1), GB_ERR_NOT_FOUND);
    assert_string_equal(gb_st_reader_meta(reader, "clock"), "12");
    assert_string_equal(gb_st_reader_meta(reader, "job"), "a \"quoted\" name");
    assert_null(gb_st_reader_meta(reader, "none"));
    assert_int_equal(gb_st_reader_find(reader, "none"), -1);
    gb_st_reader_close(reader);
}

static void test_data_are_aligned(void **state)
{
    (void)state;
    write_model();
    FILE *f = fopen(path, "rb");
    uint64_t length;
    assert_int_equal(fread(&length, 1, 8, f), 8);
    fclose(f);
    assert_int_equal(length % 8, 0);
}

static void test_unfinished_file_never_appears(void **state)
{
    (void)state;
    unlink(path);
    gb_st_writer_t *writer;
    assert_int_equal(gb_st_writer_open(path, model, 4, NULL, 0, &writer), GB_OK);
    assert_int_equal(gb_st_write(writer, "abc", 3), GB_OK);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(gb_st_writer_commit(writer), GB_ERR_INVALID); /* data are missing */
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(gb_st_writer_open(path, model, 4, NULL, 0, &writer), GB_OK);
    char big[64] = {0};
    assert_int_equal(gb_st_write(writer, big, 64), GB_ERR_INVALID); /* 44 were declared */
    assert_int_equal(gb_st_write(writer, big, 1), GB_ERR_INVALID);  /* sticks */
    gb_st_writer_abort(writer);
    assert_int_equal(gb_st_writer_open("/nonexistent/x", model, 4, NULL, 0, &writer),
                     GB_ERR_NOT_FOUND);
}

static void test_writer_refuses_bad_models(void **state)
{
    (void)state;
    gb_st_writer_t *writer;
    const gb_st_tensor_t twice[] = {model[0], model[0]};
    assert_int_equal(gb_st_writer_open(path, twice, 2, NULL, 0, &writer), GB_ERR_INVALID);
    const gb_st_tensor_t huge = {.name = "h", .dims = 2, .shape = {1ull << 40, 1ull << 40}};
    assert_int_equal(gb_st_writer_open(path, &huge, 1, NULL, 0, &writer), GB_ERR_INVALID);
    const gb_st_tensor_t reserved = {.name = "__metadata__", .dims = 0};
    assert_int_equal(gb_st_writer_open(path, &reserved, 1, NULL, 0, &writer), GB_ERR_INVALID);
    const gb_st_tensor_t binary = {.name = "\xff\xfe", .dims = 0};
    assert_int_equal(gb_st_writer_open(path, &binary, 1, NULL, 0, &writer), GB_ERR_INVALID);
}

static gb_status_t open_raw(uint64_t length, const char *header, size_t data)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(&length, 1, 8, f);
    fwrite(header, 1, strlen(header), f);
    for (size_t i = 0; i < data; i++)
        fputc(0, f);
    fclose(f);
    gb_st_reader_t *reader;
    gb_status_t st = gb_st_reader_open(path, &reader);
    if (st == GB_OK)
        gb_st_reader_close(reader);
    else
        assert_true(strlen(gb_why()) > 0);
    return st;
}

static gb_status_t open_header(const char *header, size_t data)
{
    return open_raw(strlen(header), header, data);
}

static void test_hostile_files(void **state)
{
    (void)state;
    const char *good = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
    assert_int_equal(open_header(good, 8), GB_OK);
    assert_int_equal(open_header(good, 7), GB_ERR_FORMAT); /* cut short */
    assert_int_equal(open_header(good, 9), GB_ERR_FORMAT); /* a rest */
    assert_int_equal(open_raw(UINT64_MAX, good, 8), GB_ERR_FORMAT);
    assert_int_equal(open_raw(strlen(good) + 9, good, 8), GB_ERR_FORMAT);
    assert_int_equal(open_raw(strlen(good) - 1, good, 8), GB_ERR_FORMAT);
    static const char *bad[] = {
        "[]",
        "{\"a\":1}",
        "{\"a\":{\"dtype\":\"F31\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[-2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":2,\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[-8,0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,4],\"data_offsets\":[0,0]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
        "\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
        "{\"__metadata__\":{\"k\":1},\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}"
        "}",
        "{\"__metadata__\":[],\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(open_header(bad[i], 8), GB_ERR_FORMAT);
}

static void test_random_bytes_never_crash(void **state)
{
    (void)state;
    uint64_t x = 88172645463325252ull;
    for (int round = 0; round < 200; round++) {
        write_model();
        FILE *f = fopen(path, "r+b");
        fseek(f, 0, SEEK_END);
        long size = ftell(f);
        for (int k = 0; k < 4; k++) {
            x ^= x << 13, x ^= x >> 7, x ^= x << 17;
            fseek(f, (long)(x % (uint64_t)size), SEEK_SET);
            fputc((int)(x >> 40 & 255), f);
        }
        fclose(f);
        gb_st_reader_t *reader;
        if (gb_st_reader_open(path, &reader) == GB_OK)
            gb_st_reader_close(reader);
    }
}

static void test_not_a_regular_file(void **state)
{
    (void)state;
    gb_st_reader_t *reader;
    assert_int_equal(gb_st_reader_open(folder, &reader), GB_ERR_FORMAT);
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(gb_st_reader_open(path, &reader), GB_ERR_FORMAT);
    unlink(path);
    assert_int_equal(gb_st_reader_open(path, &reader), GB_ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_roundtrip),
        cmocka_unit_test(test_data_are_aligned),
        cmocka_unit_test(test_unfinished_file_never_appears),
        cmocka_unit_test(test_writer_refuses_bad_models),
        cmocka_unit_test(test_hostile_files),
        cmocka_unit_test(test_random_bytes_never_crash),
        cmocka_unit_test(test_not_a_regular_file),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
