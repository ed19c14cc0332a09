/* Placement and the optimizer's text: pure functions. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "server/registry/ps_state.h"
#include "server/scheduler/sc_place.h"

#define GIB ((uint64_t)1 << 30)

static void test_spreads_over_machines(void **state)
{
    (void)state;
    const sc_device_t devices[] = {
        {"a", 0, 1, 2, GIB}, {"a", 1, 0, 2, GIB}, {"b", 0, 0, 2, GIB}, {"b", 1, 0, 2, GIB}};
    sc_request_t request = {.gpus = 1};
    uint32_t out[4];
    assert_int_equal(sc_place(&request, devices, 4, out), GB_OK);
    assert_int_equal(out[0], 2); /* a/1 is as idle, but its machine is not */
    request.gpus = 4;
    assert_int_equal(sc_place(&request, devices, 4, out), GB_OK);
    assert_int_equal(out[3], 0); /* the loaded one comes last */
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++)
            assert_int_not_equal(out[i], out[k]);
}

static void test_refuses_with_numbers(void **state)
{
    (void)state;
    const sc_device_t devices[] = {{"a", 0, 1, 1, GIB}, {"b", 0, 0, 1, GIB}};
    sc_request_t request = {.gpus = 2};
    uint32_t out[2] = {77, 77};
    assert_int_equal(sc_place(&request, devices, 2, out), GB_ERR_LIMIT);
    assert_non_null(strstr(gb_why(), "2 GPUs asked, 1 of 2 free"));
    request.gpus = 1;
    request.memory = 2 * GIB;
    assert_int_equal(sc_place(&request, devices, 2, out), GB_ERR_LIMIT);
    assert_non_null(strstr(gb_why(), "only 0 with that much memory"));
    request.gpus = 3;
    request.memory = 0;
    assert_int_equal(sc_place(&request, devices, 2, out), GB_ERR_LIMIT);
    assert_int_equal(sc_place(&request, devices, 0, out), GB_ERR_LIMIT);
    assert_non_null(strstr(gb_why(), "0 of 0 free"));
}

static void test_named_device(void **state)
{
    (void)state;
    const sc_device_t devices[] = {{"a", 0, 0, 1, GIB}, {"b", 3, 0, 1, GIB}};
    sc_request_t request = {.gpus = 1, .device = "b/3"};
    uint32_t out[1];
    assert_int_equal(sc_place(&request, devices, 2, out), GB_OK);
    assert_int_equal(out[0], 1);
    request.device = "b/0";
    assert_int_equal(sc_place(&request, devices, 2, out), GB_ERR_NOT_FOUND);
}

static void test_optimizer(void **state)
{
    (void)state;
    ps_optimizer_t o;
    assert_int_equal(
        ps_optimizer_parse("sgd lr=0.05 momentum=0.9 weight_decay=1e-4 nesterov=1 lr_step=500 "
                           "lr_gamma=0.5",
                           &o),
        GB_OK);
    assert_int_equal(o.kind, PS_SGD);
    assert_float_equal(o.lr, 0.05, 1e-9);
    assert_float_equal(o.momentum, 0.9, 1e-7);
    assert_float_equal(o.weight_decay, 1e-4, 1e-9);
    assert_true(o.nesterov);
    assert_int_equal(o.schedule, PS_LR_STEP);
    assert_int_equal(o.lr_step, 500);
    assert_float_equal(o.lr_gamma, 0.5, 1e-9);
    assert_int_equal(ps_optimizer_parse("sgd lr=0.1", &o), GB_OK);
    assert_int_equal(o.schedule, PS_LR_CONSTANT);
    static const char *const BAD[] = {"",           "adam lr=0.1",   "sgd",
                                      "sgd lr=",    "sgd lr=-1",     "sgd lr=0.1x",
                                      "sgd lr=nan", "sgd speed=0.1", "sgd lr"};
    for (size_t i = 0; i < sizeof BAD / sizeof BAD[0]; i++)
        assert_int_equal(ps_optimizer_parse(BAD[i], &o), GB_ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_spreads_over_machines),
        cmocka_unit_test(test_refuses_with_numbers),
        cmocka_unit_test(test_named_device),
        cmocka_unit_test(test_optimizer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
