/* The probe's report: what is right is taken, what is cut short or rubbish is refused. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "gpu-proxy/daemon/px_inventory.h"

static const char GOOD[] =
    "noise of a driver\n"
    "gable-probe 1\n"
    "driver nvidia 13000 /usr/lib/libcuda.so.1\n"
    "device 0 cc 9.0 sm 132 clock 1980000 memory 151397597184 name NVIDIA H200\n"
    "device 1 cc 7.5 sm 40 clock 1590000 memory 16000000000 name Tesla T4\n"
    "something newer\n"
    "measured 1 h2d_bytes_per_s 1.2e10\n"
    "measured 1 unheard_of 3\n"
    "end\n";

static void good_report(void **state)
{
    (void)state;
    px_inventory_t v;
    assert_int_equal(px_inventory_parse(GOOD, strlen(GOOD), &v), GB_OK);
    assert_string_equal(v.driver_kind, "nvidia");
    assert_string_equal(v.driver_path, "/usr/lib/libcuda.so.1");
    assert_int_equal(v.driver_version, 13000);
    assert_int_equal(v.device_count, 2);
    assert_string_equal(v.devices[0].name, "NVIDIA H200");
    assert_int_equal(v.devices[0].sm_count, 132);
    assert_true(v.devices[0].memory == 151397597184ull);
    assert_int_equal(v.devices[1].cc_minor, 5);
    assert_true(v.devices[1].h2d_bytes_per_s == 1.2e10);
}

static void every_cut_is_refused(void **state)
{
    (void)state;
    px_inventory_t v;
    for (size_t n = 0; n < strlen(GOOD); n++)
        assert_int_equal(px_inventory_parse(GOOD, n, &v), GB_ERR_FORMAT);
}

static void rubbish_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "gable-probe 1\ndriver nvidia\nend\n",
        "gable-probe 1\ndevice 0 cc 9 sm 1 clock 1 memory 1 name x\nend\n",
        "gable-probe 1\ndevice -1 cc 9.0 sm 1 clock 1 memory 1 name x\nend\n",
        "gable-probe 1\ndevice 4000 cc 9.0 sm 1 clock 1 memory 1 name x\nend\n",
        "gable-probe 1\nmeasured one two three\nend\n",
        "gable-probe 2\nend\n",
    };
    px_inventory_t v;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(px_inventory_parse(bad[i], strlen(bad[i]), &v), GB_ERR_FORMAT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_report),
        cmocka_unit_test(every_cut_is_refused),
        cmocka_unit_test(rubbish_is_refused),
    };
    return cmocka_run_group_tests_name("inventory", tests, NULL, NULL);
}
