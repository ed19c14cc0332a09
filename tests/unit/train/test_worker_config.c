/* The worker's command line: defaults, and one clear line for everything that cannot be. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "worker/train/wk_config.h"

static wk_config_t config;

/* Parses a command line of at most ten words. */
static gb_status_t parse(const char *line)
{
    static char words[256];
    char *argv[12] = {"worker"}, *rest = words;
    int argc = 1;
    strncpy(words, line, sizeof(words) - 1);
    for (char *word; (word = strtok_r(rest, " ", &rest)) && argc < 11;)
        argv[argc++] = word;
    return wk_config_parse(argc, argv, &config);
}

static int set_up(void **state)
{
    (void)state;
    unsetenv("GABLE_DATA");
    unsetenv("GABLE_SERVER");
    unsetenv("GABLE_TLS_DIR");
    unsetenv("GABLE_LEASE");
    unsetenv("GABLE_PROXIES");
    return 0;
}

static void test_defaults(void **state)
{
    (void)state;
    assert_int_equal(parse("--data d"), GB_OK);
    assert_int_equal(config.mode, WK_MODE_SINGLE);
    assert_string_equal(config.model, "lenet5");
    assert_string_equal(config.driver, "auto");
    assert_int_equal(config.epochs, 3);
    assert_int_equal(config.batch, 128);
    assert_null(config.job);
}

static void test_server_makes_bsp(void **state)
{
    (void)state;
    assert_int_equal(parse("--data d --server h:1 --insecure"), GB_OK);
    assert_int_equal(config.mode, WK_MODE_BSP);
    assert_string_equal(config.driver, "remote");
    assert_int_equal(parse("--data d --server h:1 --insecure --driver cpu"), GB_OK);
    assert_string_equal(config.driver, "cpu");
    assert_int_equal(parse("--data d --server h:1 --tls-dir t --mode single"), GB_OK);
    assert_int_equal(config.mode, WK_MODE_SINGLE);
}

static void test_lease_makes_remote(void **state)
{
    (void)state;
    setenv("GABLE_PROXIES", "unix:/tmp/x", 1);
    assert_int_equal(parse("--data d"), GB_OK);
    assert_string_equal(config.driver, "remote");
    unsetenv("GABLE_PROXIES");
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *line, *says;
    } wrong[] = {
        {"--model mlp", "--data"},
        {"--data d --epochs 0", "--epochs 0"},
        {"--data d --batch 0", "--batch 0"},
        {"--data d --batch many", "batch"},
        {"--data d --lr 0", "--lr 0"},
        {"--data d --lr nan", "--lr nan"},
        {"--data d --lr-end 0", "--lr-end 0"},
        {"--data d --lr-end 1.5", "--lr-end 1.5"},
        {"--data d --momentum 1", "--momentum 1"},
        {"--data d --gpus 0", "--gpus 0"},
        {"--data d --gpus 2", "one GPU"},
        {"--data d --workers 0", "--workers 0"},
        {"--data d --server-wait -1", "--server-wait"},
        {"--data d --mode fast", "unknown mode 'fast'"},
        {"--data d --mode bsp", "needs a server"},
        {"--data d --server h:1", "--tls-dir"},
        {"--data d --server h:1 --tls-dir t --insecure", "exclude"},
        {"--data d --colour red", "colour"},
        {"--data d lenet5", "'lenet5'"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
        gb_status_t status = parse(wrong[i].line);
        if (status != GB_ERR_INVALID || !strstr(gb_why(), wrong[i].says) || strchr(gb_why(), '\n'))
            fail_msg("%s gives %s '%s' without '%s'", wrong[i].line, gb_status_name(status),
                     gb_why(), wrong[i].says);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_server_makes_bsp),
        cmocka_unit_test(test_lease_makes_remote),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
