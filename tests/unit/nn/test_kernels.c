/* Every kernel against the plain C reference, on the software device: whole training steps of models
 * that between them use every layer, tile and border. The build runs it with vector code and with the
 * scalar oracle (GABLE_CPU_WIDTH=1). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/nn/wk_compare.h"

static wk_device_t device;
static wk_model_t model;

static int set_up(void **state)
{
    const gb_driver_t *driver;
    (void)state;
    if (gb_driver_choose("cpu", &driver) == GB_OK && wk_device_open(driver, 0, &device) == GB_OK)
        return 0;
    print_error("%s\n", gb_why());
    return -1;
}

static int tear_down(void **state)
{
    (void)state;
    wk_device_close(&device);
    return 0;
}

static void compare_builtin(const char *name, uint32_t batch, uint32_t last, uint32_t steps)
{
    assert_int_equal(wk_model_load(name, &model), GB_OK);
    assert_int_equal(wk_compare_steps(&device, &model, batch, last, steps), 0);
}

static void compare_layers(const char *input, const char *layers, uint32_t batch, uint32_t last)
{
    char json[1024];
    int size = snprintf(json, sizeof(json),
                        "{\"name\":\"t\",\"input\":[%s],\"layers\":[%s,"
                        "{\"type\":\"linear\",\"units\":4},{\"type\":\"softmax_cross_entropy\"}]}",
                        input, layers);
    assert_in_range(size, 1, sizeof(json) - 1);
    if (wk_model_parse(json, (size_t)size, "test", &model) != GB_OK)
        fail_msg("%s", gb_why());
    assert_int_equal(wk_compare_steps(&device, &model, batch, last, 2), 0);
}

static void test_lenet5(void **state)
{
    (void)state;
    compare_builtin("lenet5", 40, 33, 2);
}

static void test_mlp(void **state)
{
    (void)state;
    compare_builtin("mlp", 40, 33, 2);
}

static void test_odd_sizes(void **state)
{
    (void)state;
    compare_layers("1,13,11",
                   "{\"type\":\"conv2d\",\"filters\":5,\"kernel\":3,\"pad\":1},"
                   "{\"type\":\"maxpool\",\"size\":2},{\"type\":\"relu\"},"
                   "{\"type\":\"conv2d\",\"filters\":7,\"kernel\":3,\"pad\":2},{\"type\":\"relu\"},"
                   "{\"type\":\"conv2d\",\"filters\":3,\"kernel\":2},{\"type\":\"relu\"},"
                   "{\"type\":\"linear\",\"units\":9},{\"type\":\"linear\",\"units\":13},"
                   "{\"type\":\"relu\"}",
                   33, 1);
}

static void test_large_kernel_and_window(void **state)
{
    (void)state;
    compare_layers("1,16,16",
                   "{\"type\":\"conv2d\",\"filters\":6,\"kernel\":7,\"pad\":3},{\"type\":\"relu\"},"
                   "{\"type\":\"conv2d\",\"filters\":2,\"kernel\":1},"
                   "{\"type\":\"maxpool\",\"size\":3},{\"type\":\"relu\"},"
                   "{\"type\":\"linear\",\"units\":21},{\"type\":\"relu\"}",
                   31, 31);
}

static void test_pool_first_and_narrow(void **state)
{
    (void)state;
    compare_layers("1,9,3",
                   "{\"type\":\"maxpool\",\"size\":1},"
                   "{\"type\":\"conv2d\",\"filters\":4,\"kernel\":2},"
                   "{\"type\":\"maxpool\",\"size\":2}",
                   3, 2);
}

/* More than 128 samples: the reductions over a block take several rounds. */
static void test_large_batch(void **state)
{
    (void)state;
    compare_layers("1,8,8",
                   "{\"type\":\"conv2d\",\"filters\":3,\"kernel\":5,\"pad\":2},{\"type\":\"relu\"},"
                   "{\"type\":\"maxpool\",\"size\":2},"
                   "{\"type\":\"conv2d\",\"filters\":3,\"kernel\":3},{\"type\":\"relu\"}",
                   200, 170);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lenet5),
        cmocka_unit_test(test_mlp),
        cmocka_unit_test(test_odd_sizes),
        cmocka_unit_test(test_large_kernel_and_window),
        cmocka_unit_test(test_pool_first_and_narrow),
        cmocka_unit_test(test_large_batch),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
