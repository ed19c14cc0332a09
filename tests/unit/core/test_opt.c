/* Options: precedence, values, operands, and the one-line complaint for everything wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/core/gb_opt.h"

typedef struct {
    bool quiet;
    int64_t size;
    double rate;
    const char *name;
    const char *config;
} fields_t;

static const gb_opt_t options[] = {
    {"quiet", GB_OPT_FLAG, offsetof(fields_t, quiet), "false", NULL, NULL, "say less"},
    {"size", GB_OPT_INT, offsetof(fields_t, size), "4K", "TEST_OPT_SIZE", "BYTES", "how much"},
    {"rate", GB_OPT_DOUBLE, offsetof(fields_t, rate), "0.5", NULL, "R", "how fast"},
    {"name", GB_OPT_STRING, offsetof(fields_t, name), "nobody", NULL, "NAME", "who"},
    {"config", GB_OPT_STRING, offsetof(fields_t, config), NULL, NULL, "FILE", "settings"},
    {0},
};
static const gb_opt_table_t table = {"demo", "demo [options]", "A test.", options};

static gb_status_t parse(int stop, fields_t *f, int *first, char **argv)
{
    int argc = 0;
    while (argv[argc])
        argc++;
    memset(f, 0, sizeof *f);
    return gb_opt_parse(&table, argc, argv, stop, f, first);
}

static void defaults_hold(void **state)
{
    (void)state;
    fields_t f;
    int first;
    assert_int_equal(parse(0, &f, &first, (char *[]){"demo", NULL}), GB_OK);
    assert_false(f.quiet);
    assert_int_equal(f.size, 4096);
    assert_true(f.rate == 0.5);
    assert_string_equal(f.name, "nobody");
    assert_int_equal(first, 1);
}

static void values_in_every_form(void **state)
{
    (void)state;
    fields_t f;
    int first;
    char *argv[] = {"demo", "--quiet", "--size=2G", "--rate", "1.25", "--name", "x", NULL};
    assert_int_equal(parse(0, &f, &first, argv), GB_OK);
    assert_true(f.quiet);
    assert_int_equal(f.size, 2LL << 30);
    assert_true(f.rate == 1.25);
    assert_string_equal(f.name, "x");
    char *no[] = {"demo", "--quiet", "--no-quiet", NULL};
    assert_int_equal(parse(0, &f, &first, no), GB_OK);
    assert_false(f.quiet);
}

static void operands_are_collected(void **state)
{
    (void)state;
    fields_t f;
    int first;
    char *argv[] = {"demo", "one", "--quiet", "two", "--", "--three", NULL};
    assert_int_equal(parse(0, &f, &first, argv), GB_OK);
    assert_int_equal(first, 3);
    assert_string_equal(argv[3], "one");
    assert_string_equal(argv[4], "two");
    assert_string_equal(argv[5], "--three");
}

static void the_first_operand_can_end_it(void **state)
{
    (void)state;
    fields_t f;
    int first;
    char *argv[] = {"demo", "--quiet", "app", "--size", "rubbish", NULL};
    assert_int_equal(parse(1, &f, &first, argv), GB_OK);
    assert_int_equal(first, 2);
    char *dashes[] = {"demo", "--quiet", "--", "--app", NULL};
    assert_int_equal(parse(1, &f, &first, dashes), GB_OK);
    assert_int_equal(first, 3);
}

static void precedence(void **state)
{
    (void)state;
    char path[] = "/tmp/test-opt-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    static const char text[] = "# settings\nsize = 1K\nname = from file # why\n\nrate=2\n";
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    setenv("TEST_OPT_SIZE", "2K", 1);
    fields_t f;
    int first;
    assert_int_equal(parse(0, &f, &first, (char *[]){"demo", "--config", path, NULL}), GB_OK);
    assert_int_equal(f.size, 2048); /* environment over file */
    assert_string_equal(f.name, "from file");
    assert_true(f.rate == 2);
    char *argv[] = {"demo", "--config", path, "--size", "3K", NULL};
    assert_int_equal(parse(0, &f, &first, argv), GB_OK);
    assert_int_equal(f.size, 3072); /* command line over environment */
    unsetenv("TEST_OPT_SIZE");
    unlink(path);
}

static void wrong_input_is_named(void **state)
{
    (void)state;
    static char *bad[][4] = {
        {"demo", "--sise=1", NULL},    {"demo", "--size", NULL},
        {"demo", "--size=1X", NULL},   {"demo", "--size=9999999T", NULL},
        {"demo", "--rate=fast", NULL}, {"demo", "--quiet=maybe", NULL},
        {"demo", "-x", NULL},          {"demo", "--config=/nonexistent/file", NULL},
        {"demo", "--size=", NULL},
    };
    static const char *named[] = {"--sise", "--size",  "--size", "--size",
                                  "--rate", "--quiet", "-x",     "/nonexistent/file",
                                  "--size"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fields_t f;
        int first;
        assert_int_equal(parse(0, &f, &first, bad[i]), GB_ERR_INVALID);
        assert_non_null(strstr(gb_why(), named[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_hold),
        cmocka_unit_test(values_in_every_form),
        cmocka_unit_test(operands_are_collected),
        cmocka_unit_test(the_first_operand_can_end_it),
        cmocka_unit_test(precedence),
        cmocka_unit_test(wrong_input_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
