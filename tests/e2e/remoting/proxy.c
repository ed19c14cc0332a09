#include "tests/e2e/remoting/proxy.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/core/gb_clock.h"

enum { READY_MS = 20000 };

static void give_up(const char *what)
{
    fprintf(stderr, "test: %s\n", what);
    exit(1);
}

static void run_proxy(const proxy_t *proxy, const char *driver, proxy_link_t link,
                      const char *option, const char *value, int out)
{
    int log = open(proxy->log, O_WRONLY | O_CREAT | O_APPEND, 0600), n = 0;
    const char *argv[16] = {"gpu-proxy", "--driver", driver, "--data-listen"};
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* also when a test fails half-way */
    dup2(out, 1);
    dup2(log, 2);
    setenv("GABLE_LOG", "info", 1);
    n = 4;
    argv[n++] = link == PROXY_UNIX ? "none" : "127.0.0.1:0";
    argv[n++] = link == PROXY_TLS ? "--key-file" : "--insecure";
    if (link == PROXY_TLS)
        argv[n++] = proxy->key;
    if (link == PROXY_UNIX) {
        argv[n++] = "--unix";
        argv[n++] = proxy->endpoint + 5;
    }
    if (option) {
        argv[n++] = option;
        argv[n++] = value;
    }
    execv(GABLE_BUILD_DIR "/bin/gpu-proxy", (char *const *)(uintptr_t)argv);
    _exit(127);
}

/* Waits for the line that says that it serves. */
static void await_ready(int fd, char text[512])
{
    size_t used = 0, size = 512;
    uint64_t end = gb_now_ns() + READY_MS * 1000000ull;
    while (gb_now_ns() < end && used < size - 1) {
        struct pollfd p = {fd, POLLIN, 0};
        if (poll(&p, 1, 100) <= 0)
            continue;
        ssize_t n = read(fd, text + used, size - 1 - used);
        if (n <= 0)
            break;
        used += (size_t)n;
        text[used] = 0;
        if (strstr(text, "gpu-proxy: ready") && strchr(text, '\n'))
            return;
    }
    give_up("gpu-proxy does not get ready");
}

static void write_key(proxy_t *proxy)
{
    snprintf(proxy->key, sizeof(proxy->key), "%s/key", proxy->folder);
    int file = open(proxy->key, O_WRONLY | O_CREAT, 0600);
    for (int i = 0; i < 32; i++)
        dprintf(file, "%02x", i + 1);
    close(file);
}

void proxy_start_on(proxy_t *proxy, const char *driver, proxy_link_t link, const char *option,
                    const char *value)
{
    int out[2];
    char text[512] = "";
    memset(proxy, 0, sizeof(*proxy));
    snprintf(proxy->folder, sizeof(proxy->folder), "/tmp/gable-test-XXXXXX");
    if (!mkdtemp(proxy->folder) || pipe(out))
        give_up("no folder in /tmp");
    snprintf(proxy->endpoint, sizeof(proxy->endpoint), "unix:%s/s", proxy->folder);
    snprintf(proxy->log, sizeof(proxy->log), "%s/log", proxy->folder);
    if (link == PROXY_TLS)
        write_key(proxy);
    proxy->pid = fork();
    if (proxy->pid == 0)
        run_proxy(proxy, driver, link, option, value, out[1]);
    close(out[1]);
    await_ready(out[0], text);
    close(out[0]);
    if (link != PROXY_UNIX && sscanf(strstr(text, "data="), "data=%95s", proxy->endpoint) != 1)
        give_up("the proxy does not tell its endpoint");
}

void proxy_start(proxy_t *proxy, const char *driver)
{
    proxy_start_on(proxy, driver, PROXY_UNIX, NULL, NULL);
}

/* What a sanitizer has to say about the proxy or its sessions stands in their log. */
static void look_for_reports(const proxy_t *proxy)
{
    char line[512];
    int found = 0;
    FILE *log = fopen(proxy->log, "r");
    while (log && fgets(line, sizeof(line), log)) {
        found |= strstr(line, "Sanitizer") != NULL || strstr(line, "runtime error") != NULL;
        if (found)
            fputs(line, stderr);
    }
    if (log)
        fclose(log);
    if (found)
        give_up("a sanitizer reports on the proxy or a session");
}

void proxy_stop(proxy_t *proxy)
{
    kill(proxy->pid, SIGTERM);
    waitpid(proxy->pid, NULL, 0);
    look_for_reports(proxy);
    if (strncmp(proxy->endpoint, "unix:", 5) == 0)
        unlink(proxy->endpoint + 5);
    if (*proxy->key)
        unlink(proxy->key);
    unlink(proxy->log);
    rmdir(proxy->folder);
}

pid_t proxy_session(const proxy_t *proxy, int n)
{
    uint64_t end = gb_now_ns() + READY_MS * 1000000ull;
    while (gb_now_ns() < end) {
        char line[512];
        int seen = 0;
        FILE *log = fopen(proxy->log, "r");
        while (log && fgets(line, sizeof(line), log)) {
            char *at = strstr(line, "is process ");
            if (at && seen++ == n) {
                fclose(log);
                return (pid_t)atoi(at + strlen("is process "));
            }
        }
        if (log)
            fclose(log);
        poll(NULL, 0, 5);
    }
    give_up("the proxy has not started that session");
    return -1;
}

int process_gone(pid_t pid, int ms)
{
    uint64_t end = gb_now_ns() + (uint64_t)ms * 1000000u;
    do {
        if (kill(pid, 0) != 0 && errno == ESRCH)
            return 1;
        poll(NULL, 0, 5);
    } while (gb_now_ns() < end);
    return 0;
}

void need_compiler(const char *driver)
{
    if (strcmp(driver, "cpu") == 0 &&
        access(GABLE_BUILD_DIR "/lib/gable/cpu/libgable-jit.so", R_OK) != 0) {
        printf("skipped: the compiler of the software device is not built\n");
        exit(77);
    }
}
