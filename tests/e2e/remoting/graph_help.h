/* graph_help.h - what the tests of graphs, pools and mappings over two proxies share: a relay in front of
 * the first one that counts bytes. */
#ifndef TEST_GRAPH_HELP_H
#define TEST_GRAPH_HELP_H

#include <stdio.h>

#include "tests/e2e/remoting/proxy.h"
#include "tests/e2e/remoting/relay.h"
#include "tests/unit/device/device_kernels.h"

static proxy_t proxies[2];
static relay_t *relay;

/* Runs the tests with the remote client as driver; the program's exit code. */
#define OVER_TWO_PROXIES(tests)                                                                    \
    (proxies_begin(), proxies_end(cmocka_run_group_tests(tests, device_setup, NULL)))

static inline void proxies_begin(void)
{
    char path[128], both[256];
    need_compiler("cpu");
    setenv("GABLE_CPU_THREADS", "2", 0);
    setenv("GABLE_CPU_MEMORY", "256M", 0);
    for (int i = 0; i < 2; i++)
        proxy_start(&proxies[i], "cpu");
    snprintf(path, sizeof(path), "%s/relay", proxies[0].folder);
    snprintf(both, sizeof(both), "unix:%s,%s", path, proxies[1].endpoint);
    relay = relay_start(path, proxies[0].endpoint + strlen("unix:"));
    setenv("GABLE_LINK_SHM", "0", 1); /* the relay counts the bytes of a socket */
    setenv("GABLE_PROXIES", both, 1);
    setenv("GABLE_TEST_DRIVER", GABLE_BUILD_DIR "/lib/gable/remote/libcuda.so.1",
           0); /* a sanitized one may be named */
}

static inline int proxies_end(int failed)
{
    relay_stop(relay);
    for (int i = 0; i < 2; i++)
        proxy_stop(&proxies[i]);
    return failed;
}

#endif
