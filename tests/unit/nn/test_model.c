/* Models: the built-in ones have the right sizes; wrong descriptions are refused with one clear line. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "worker/nn/wk_model.h"

static wk_model_t model;

static void test_lenet5(void **state)
{
    (void)state;
    assert_int_equal(wk_model_load("lenet5", &model), GB_OK);
    assert_int_equal(model.parameters, 61706);
    assert_int_equal(model.classes, 10);
    assert_int_equal(model.tensor_count, 10);
    assert_int_equal(model.layers[0].out.h, 28);
    assert_int_equal(model.layers[3].out.h, 10);
    assert_int_equal(wk_shape_count(model.layers[5].out), 400);
    assert_string_equal(model.tensors[0].name, "conv1.weight");
    assert_string_equal(model.tensors[9].name, "fc3.bias");
    for (uint32_t i = 0; i < model.tensor_count; i++)
        assert_int_equal(model.tensors[i].offset % WK_TENSOR_ALIGN, 0);
}

static void test_mlp(void **state)
{
    (void)state;
    assert_int_equal(wk_model_load("mlp", &model), GB_OK);
    assert_int_equal(model.parameters, 784 * 512 + 512 + 512 * 512 + 512 + 512 * 10 + 10);
    assert_int_equal(model.tensors[0].shape[0], 512);
    assert_int_equal(model.tensors[0].shape[1], 784);
}

static void test_initial_weights(void **state)
{
    (void)state;
    assert_int_equal(wk_model_load("lenet5", &model), GB_OK);
    float *a = malloc(model.floats * sizeof(float)), *b = malloc(model.floats * sizeof(float));
    double sum = 0;
    wk_model_init(&model, 7, a);
    wk_model_init(&model, 7, b);
    assert_memory_equal(a, b, model.floats * sizeof(float));
    for (size_t i = 0; i < model.tensors[4].count; i++) {
        float w = a[model.tensors[4].offset + i];
        assert_true(w >= -0.05f && w < 0.05f); /* 1/sqrt(400) */
        sum += w;
    }
    assert_true(sum / (double)model.tensors[4].count < 0.001);
    assert_true(sum / (double)model.tensors[4].count > -0.001);
    wk_model_init(&model, 8, b);
    assert_memory_not_equal(a, b, model.floats * sizeof(float));
    free(a);
    free(b);
}

/* Each wrong description, and what its message must say. */
static const struct {
    const char *json, *says;
} wrong[] = {
    {"{", "line"},
    {"{}", "\"name\""},
    {"{\"name\":\"x\"}", "\"input\""},
    {"{\"name\":\"x\",\"input\":[1,28]}", "\"input\""},
    {"{\"name\":\"x\",\"input\":[3,28,28],\"layers\":[]}", "channels"},
    {"{\"name\":\"x\",\"input\":[1,28,28],\"layers\":[]}", "layers"},
    {"{\"name\":\"x\",\"input\":[1,28,28],\"layers\":[{\"type\":\"foo\"},{}]}",
     "unknown layer 'foo' in model.json: known are conv2d"},
    {"{\"name\":\"x\",\"input\":[1,28,28],\"layers\":[{},{}]}", "no \"type\""},
    {"{\"name\":\"x\",\"input\":[1,28,28],\"layers\":[{\"type\":\"linear\"},{}]}", "\"units\""},
    {"{\"name\":\"x\",\"input\":[1,28,28],\"layers\":[{\"type\":\"linear\",\"units\":0},{}]}",
     "\"units\""},
    {"{\"name\":\"x\",\"input\":[1,28,28],\"layers\":[{\"type\":\"linear\",\"units\":-1},{}]}",
     "\"units\""},
    {"{\"name\":\"x\",\"input\":[1,28,28],\"layers\":[{\"type\":\"linear\",\"unit\":5},{}]}",
     "'unit'"},
    {"{\"name\":\"x\",\"input\":[1,28,28],\"layers\":[{\"type\":\"linear\",\"units\":5},"
     "{\"type\":\"relu\"}]}",
     "softmax_cross_entropy"},
    {"{\"name\":\"x\",\"input\":[1,28,28],\"layers\":[{\"type\":\"relu\"},{}]}",
     "relu must follow"},
    {"{\"name\":\"x\",\"input\":[1,4,4],\"layers\":[{\"type\":\"conv2d\",\"filters\":2,"
     "\"kernel\":5},{}]}",
     "does not fit"},
    {"{\"name\":\"x\",\"input\":[1,4,4],\"layers\":[{\"type\":\"maxpool\",\"size\":5},{}]}",
     "does not fit"},
    {"{\"name\":\"x\",\"input\":[1,4,4],\"layers\":[{\"type\":\"linear\",\"units\":300},"
     "{\"type\":\"softmax_cross_entropy\"}]}",
     "256"},
    {"{\"name\":\"x\",\"input\":[1,4,4],\"layers\":[{\"type\":\"linear\",\"units\":3},"
     "{\"type\":\"softmax_cross_entropy\"},{\"type\":\"linear\",\"units\":3}]}",
     "last"},
    {"{\"name\":\"x\",\"input\":[1,60000,60000],\"layers\":[{\"type\":\"linear\",\"units\":60000},"
     "{\"type\":\"softmax_cross_entropy\"}]}",
     "2^30"},
};

static void test_wrong_descriptions(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        gb_status_t status =
            wk_model_parse(wrong[i].json, strlen(wrong[i].json), "model.json", &model);
        assert_int_not_equal(status, GB_OK);
        if (!strstr(gb_why(), wrong[i].says) || strchr(gb_why(), '\n'))
            fail_msg("%s\ngives '%s' without '%s'", wrong[i].json, gb_why(), wrong[i].says);
    }
}

static void test_missing_file(void **state)
{
    (void)state;
    assert_int_equal(wk_model_load("/nonexistent/model.json", &model), GB_ERR_NOT_FOUND);
    assert_non_null(strstr(gb_why(), "/nonexistent/model.json"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lenet5),          cmocka_unit_test(test_mlp),
        cmocka_unit_test(test_initial_weights), cmocka_unit_test(test_wrong_descriptions),
        cmocka_unit_test(test_missing_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
