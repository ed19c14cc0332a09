/* Programs that call CUDA at their end: from atexit handlers, from destructors of the program and of libraries,
 * also after the CUDA libraries' own end, from a plugin that is closed, and while other threads are inside. They
 * end in time, with the results that CUDA gives. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/e2e/remoting/proxy.h"

#define PROGRAM GABLE_BUILD_DIR "/tests/exit_program"
#define PLUGIN GABLE_BUILD_DIR "/tests/libexit_plugin.so"

static int run(const proxy_t *proxy, const char *api, const char *way)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        setenv("GABLE_PROXIES", proxy->endpoint, 1);
        setenv("LD_LIBRARY_PATH", GABLE_BUILD_DIR "/lib/gable/remote", 1);
        execl(PROGRAM, PROGRAM, api, way, PLUGIN, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status))
        fail_msg("%s %s ends with signal %d", api, way, WTERMSIG(status));
    return WEXITSTATUS(status);
}

static void endings(void **state)
{
    /* The library behind the CUDA libraries calls last of all, and too late. */
    static const struct {
        const char *way;
        int status;
    } ways[] = {
        {"last", 10 + 1 + 10},   {"atexit", 10 + 3 + 10}, {"destructor", 10 + 2 + 10},
        {"plugin", 10 + 2 + 10}, {"thread", 10 + 2 + 10},
    };
    static const char *const apis[] = {"driver", "runtime"};
    static const proxy_link_t links[] = {PROXY_UNIX, PROXY_TCP};
    (void)state;
    for (int l = 0; l < 2; l++) {
        proxy_t proxy;
        int session = 0;
        proxy_start_on(&proxy, "cpu", links[l], NULL, NULL);
        for (int a = 0; a < 2; a++)
            for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
                print_message("%s, %s, %s\n", l ? "tcp" : "unix", apis[a], ways[i].way);
                assert_int_equal(run(&proxy, apis[a], ways[i].way), ways[i].status);
                assert_true(process_gone(proxy_session(&proxy, session++), 5000));
            }
        proxy_stop(&proxy);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(endings)};
    need_compiler("cpu");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
