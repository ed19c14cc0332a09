/* The data set loader reads MNIST and names the file and the remedy when files do not fit. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "worker/data/wk_dataset.h"

static char dir[] = "/tmp/test_dataset.XXXXXX";
static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                    "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

static void file_path(int which, char *out, size_t size)
{
    snprintf(out, size, "%s/%s", dir, names[which]);
}

static void write_images(int which, uint8_t count, uint8_t rows)
{
    char path[128];
    uint8_t bytes[16 + 255 * 4] = {0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, rows, 0, 0, 0, 2};
    file_path(which, path, sizeof(path));
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(bytes, 1, 16 + (size_t)count * rows * 2, file);
    fclose(file);
}

static void write_labels(int which, uint8_t count, uint8_t last)
{
    char path[128];
    uint8_t bytes[8 + 255] = {0, 0, 8, 1, 0, 0, 0, count};
    bytes[8 + count - 1] = last;
    file_path(which, path, sizeof(path));
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fwrite(bytes, 1, 8 + (size_t)count, file);
    fclose(file);
}

static int set_up_folder(void **state)
{
    (void)state;
    return mkdtemp(dir) ? 0 : -1;
}

static int set_up(void **state)
{
    (void)state;
    write_images(0, 5, 2);
    write_labels(1, 5, 9);
    write_images(2, 3, 2);
    write_labels(3, 3, 0);
    return 0;
}

static int tear_down_folder(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        char path[128];
        file_path(i, path, sizeof(path));
        unlink(path);
    }
    return rmdir(dir);
}

static void expect_refused(gb_status_t status, const char *file, const char *text)
{
    wk_dataset_t set;
    assert_int_equal(wk_dataset_load(dir, 10, &set), status);
    if (!strstr(gb_why(), file) || !strstr(gb_why(), text) || strchr(gb_why(), '\n'))
        fail_msg("message '%s' should name '%s' and '%s'", gb_why(), file, text);
}

static void test_small_set(void **state)
{
    (void)state;
    wk_dataset_t set;
    assert_int_equal(wk_dataset_load(dir, 10, &set), GB_OK);
    assert_int_equal(set.train.count, 5);
    assert_int_equal(set.train.rows, 2);
    assert_int_equal(set.train.cols, 2);
    assert_int_equal(set.train.labels[4], 9);
    assert_int_equal(set.test.count, 3);
    wk_dataset_free(&set);
}

static void test_mnist(void **state)
{
    (void)state;
    wk_dataset_t set;
    uint32_t histogram[10] = {0};
    assert_int_equal(wk_dataset_load(GABLE_SOURCE_DIR "/tests/data/mnist", 10, &set), GB_OK);
    assert_int_equal(set.train.count, 60000);
    assert_int_equal(set.test.count, 10000);
    assert_int_equal(set.train.rows * set.train.cols, 784);
    for (uint32_t i = 0; i < set.train.count; i++)
        histogram[set.train.labels[i]]++;
    assert_int_equal(histogram[0], 5923);
    assert_int_equal(histogram[1], 6742);
    assert_int_equal(set.train.labels[0], 5);
    wk_dataset_free(&set);
}

static void test_missing_file(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        char path[128];
        set_up(NULL);
        file_path(i, path, sizeof(path));
        unlink(path);
        expect_refused(GB_ERR_NOT_FOUND, names[i], "--data");
    }
}

static void test_swapped_files(void **state)
{
    (void)state;
    write_labels(0, 5, 0);
    write_images(1, 5, 2);
    expect_refused(GB_ERR_FORMAT, names[0], "swap");
}

static void test_counts_disagree(void **state)
{
    (void)state;
    write_labels(1, 4, 0);
    expect_refused(GB_ERR_FORMAT, names[1], "5 images");
}

static void test_label_out_of_range(void **state)
{
    (void)state;
    write_labels(3, 3, 10);
    expect_refused(GB_ERR_FORMAT, names[3], "label 10 of sample 2");
}

static void test_sizes_disagree(void **state)
{
    (void)state;
    write_images(2, 3, 3);
    expect_refused(GB_ERR_FORMAT, dir, "2x2");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_small_set, set_up),
        cmocka_unit_test(test_missing_file),
        cmocka_unit_test_setup(test_swapped_files, set_up),
        cmocka_unit_test_setup(test_counts_disagree, set_up),
        cmocka_unit_test_setup(test_label_out_of_range, set_up),
        cmocka_unit_test_setup(test_sizes_disagree, set_up),
    };
    const struct CMUnitTest real[] = {cmocka_unit_test(test_mnist)};
    int failed = cmocka_run_group_tests(tests, set_up_folder, tear_down_folder);
    return failed + cmocka_run_group_tests(real, NULL, NULL);
}
