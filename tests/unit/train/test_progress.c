/* What people see while it trains: the bar's text, and the choice of style. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "worker/train/wk_progress.h"

static void test_bar_has_everything(void **state)
{
    (void)state;
    char line[200];
    wk_progress_at_t at = {.epoch = 1, .done = 0.5, .rate = 7421.4, .loss = 0.12345, .left = 75.2};
    wk_progress_format(&at, 3, line, sizeof(line));
    assert_string_equal(line, "epoch 2/3 [============>           ]  50%  7421 samples/s  "
                              "loss 0.1235  left 1:15");
}

static void test_bar_at_the_ends(void **state)
{
    (void)state;
    char line[200];
    wk_progress_at_t at = {.done = 1.5, .left = -3};
    wk_progress_format(&at, 1, line, sizeof(line));
    assert_non_null(strstr(line, "[========================] 100%"));
    assert_non_null(strstr(line, "left 0:00"));
    at.done = -1;
    wk_progress_format(&at, 1, line, sizeof(line));
    assert_non_null(strstr(line, "[>                       ]   0%"));
}

static void test_style_follows_the_environment(void **state)
{
    (void)state;
    wk_progress_t progress;
    setenv("GABLE_PROGRESS", "bar", 1);
    wk_progress_init(&progress, 1);
    assert_int_equal(progress.style, WK_PROGRESS_BAR);
    setenv("GABLE_PROGRESS", "lines", 1);
    wk_progress_init(&progress, 1);
    assert_int_equal(progress.style, WK_PROGRESS_LINES);
    setenv("GABLE_PROGRESS", "none", 1);
    wk_progress_init(&progress, 1);
    assert_int_equal(progress.style, WK_PROGRESS_NONE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bar_has_everything),
        cmocka_unit_test(test_bar_at_the_ends),
        cmocka_unit_test(test_style_follows_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
