/* Weights leave as a safetensors file with the model's names, shapes and values. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "common/tensor/gb_safetensors.h"
#include "worker/train/wk_weights.h"

static void test_round_trip(void **state)
{
    (void)state;
    static wk_model_t model;
    char dir[] = "/tmp/test_weights.XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof(path), "%s/w.safetensors", dir);
    assert_int_equal(wk_model_load("lenet5", &model), GB_OK);
    float *flat = malloc(model.floats * sizeof(float)), *back = malloc(48000 * sizeof(float));
    wk_model_init(&model, 3, flat);
    assert_int_equal(wk_weights_save(path, &model, flat), GB_OK);
    gb_st_reader_t *reader;
    assert_int_equal(gb_st_reader_open(path, &reader), GB_OK);
    assert_int_equal(gb_st_reader_count(reader), model.tensor_count);
    for (uint32_t t = 0; t < model.tensor_count; t++) {
        const wk_tensor_t *want = &model.tensors[t];
        int32_t index = gb_st_reader_find(reader, want->name);
        assert_true(index >= 0);
        const gb_st_tensor_t *got = gb_st_reader_tensor(reader, (uint32_t)index);
        assert_int_equal(got->dims, want->rank);
        for (uint32_t i = 0; i < want->rank; i++)
            assert_int_equal(got->shape[i], want->shape[i]);
        assert_int_equal(gb_st_reader_read(reader, (uint32_t)index, 0, back, want->count * 4),
                         GB_OK);
        assert_memory_equal(back, flat + want->offset, want->count * 4);
    }
    assert_string_equal(gb_st_reader_meta(reader, "model"), "lenet5");
    gb_st_reader_close(reader);
    unlink(path);
    assert_int_equal(rmdir(dir), 0);
    free(flat);
    free(back);
}

static void test_bad_path(void **state)
{
    (void)state;
    static wk_model_t model;
    assert_int_equal(wk_model_load("lenet5", &model), GB_OK);
    float *flat = calloc(model.floats, sizeof(float));
    assert_int_not_equal(wk_weights_save("/nonexistent/w.safetensors", &model, flat), GB_OK);
    assert_non_null(strstr(gb_why(), "/nonexistent/w.safetensors"));
    free(flat);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip),
                                       cmocka_unit_test(test_bad_path)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
