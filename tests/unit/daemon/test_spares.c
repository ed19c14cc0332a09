/* Spare sessions: ready before a client comes, replaced afterwards, and not started in a loop where they
 * die. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/core/gb_clock.h"
#include "gpu-proxy/daemon/px_spares.h"

/* Fills until nothing is missing. */
static void fill(px_spares_t *spares)
{
    uint64_t end = gb_now_ns() + 5000000000ull;
    while (px_spares_due(spares) != UINT64_MAX && gb_now_ns() < end) {
        px_spares_fill(spares);
        poll(NULL, 0, 1);
    }
    assert_true(px_spares_due(spares) == UINT64_MAX);
}

static void kept_ready(void **state)
{
    px_spares_t *spares;
    pid_t pid[3];
    int control[3];
    (void)state;
    assert_int_equal(px_spares_create("null", 0, 2, &spares), GB_OK);
    assert_int_equal(px_spares_take(spares, &pid[0], &control[0]), GB_ERR_NOT_FOUND);
    fill(spares);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(px_spares_take(spares, &pid[i], &control[i]), GB_OK);
        assert_int_equal(kill(pid[i], 0), 0);
    }
    assert_int_not_equal(pid[0], pid[1]);
    assert_int_equal(px_spares_take(spares, &pid[2], &control[2]), GB_ERR_NOT_FOUND);
    /* not at once: the client that has just come goes first */
    px_spares_fill(spares);
    assert_int_equal(px_spares_take(spares, &pid[2], &control[2]), GB_ERR_NOT_FOUND);
    fill(spares);
    assert_int_equal(px_spares_take(spares, &pid[2], &control[2]), GB_OK);
    for (int i = 0; i < 3; i++) {
        close(control[i]); /* its daemon is gone: it ends */
        assert_int_equal(waitpid(pid[i], NULL, 0), pid[i]);
    }
    px_spares_destroy(spares);
}

/* The pid of the only child, found through /proc. */
static pid_t only_child(void)
{
    char path[64];
    int pid = 0;
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    FILE *f = fopen(path, "r");
    if (!f || fscanf(f, "%d", &pid) != 1)
        pid = 0;
    if (f)
        fclose(f);
    return pid;
}

static void a_dead_one_is_not_given_out(void **state)
{
    px_spares_t *spares;
    pid_t pid;
    int control;
    siginfo_t info;
    (void)state;
    assert_int_equal(px_spares_create("null", 0, 1, &spares), GB_OK);
    fill(spares);
    pid_t victim = only_child();
    assert_true(victim > 0);
    assert_int_equal(kill(victim, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)victim, &info, WEXITED | WNOWAIT), 0);
    assert_int_equal(px_spares_take(spares, &pid, &control), GB_ERR_NOT_FOUND);
    fill(spares);
    victim = only_child();
    assert_int_equal(kill(victim, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)victim, &info, WEXITED | WNOWAIT), 0);
    px_spares_fill(spares); /* notices it, and does not start the next at once */
    assert_true(px_spares_due(spares) > gb_now_ns() + 500000000ull);
    px_spares_destroy(spares);
}

/* A session that cannot run is tried again after a second, not at once and for ever. */
static void a_failure_is_not_repeated_at_once(void **state)
{
    px_spares_t *spares;
    (void)state;
    setenv("GABLE_HOME", "/nonexistent", 1);
    assert_int_equal(px_spares_create("null", 0, 1, &spares), GB_OK);
    px_spares_fill(spares);
    uint64_t due = px_spares_due(spares);
    assert_true(due > gb_now_ns() + 500000000ull && due != UINT64_MAX);
    px_spares_fill(spares);
    assert_true(px_spares_due(spares) == due);
    px_spares_destroy(spares);
    setenv("GABLE_HOME", GABLE_BUILD_DIR "/tests/fake-home", 1);
}

static void destroying_ends_them(void **state)
{
    px_spares_t *spares;
    (void)state;
    assert_int_equal(px_spares_create("null", 1, 3, &spares), GB_OK);
    fill(spares);
    px_spares_destroy(spares);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no child is left */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_ready),
        cmocka_unit_test(a_dead_one_is_not_given_out),
        cmocka_unit_test(a_failure_is_not_repeated_at_once),
        cmocka_unit_test(destroying_ends_them),
    };
    setenv("GABLE_HOME", GABLE_BUILD_DIR "/tests/fake-home", 1);
    return cmocka_run_group_tests_name("spares", tests, NULL, NULL);
}
