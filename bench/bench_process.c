#include "bench/bench_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/core/gb_clock.h"

/* In the child: only calls that are safe between fork and exec. It ends with the benchmark, however
 * that ends. */
static void become(char *const argv[], int which, int out, pid_t parent)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == parent && dup2(out, which) >= 0)
        execv(argv[0], argv);
    _exit(127);
}

gb_status_t bench_process_start(char *const argv[], int which, bench_process_t *out)
{
    int ends[2];
    pid_t parent = getpid();
    if (access(argv[0], X_OK) != 0)
        return gb_fail_errno(GB_ERR_IO, errno, "%s does not start", argv[0]);
    if (pipe2(ends, O_CLOEXEC) != 0)
        return gb_fail_errno(GB_ERR_IO, errno, "no pipe for %s", argv[0]);
    pid_t pid = fork();
    if (pid == 0)
        become(argv, which, ends[1], parent);
    int error = errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return gb_fail_errno(GB_ERR_IO, error, "%s does not start", argv[0]);
    }
    *out = (bench_process_t){.pid = pid, .out = ends[0]};
    return GB_OK;
}

/* One byte, in time. Lines are few and short. */
static gb_status_t read_byte(bench_process_t *p, uint64_t deadline, char *out)
{
    struct pollfd poller = {.fd = p->out, .events = POLLIN};
    uint64_t now = gb_now_ns();
    int left = now < deadline ? (int)((deadline - now) / 1000000 + 1) : 0;
    if (poll(&poller, 1, left) <= 0)
        return gb_fail(GB_ERR_TIMEOUT, "a program that the benchmark started says nothing");
    if (read(p->out, out, 1) != 1)
        return gb_fail(GB_ERR_CLOSED, "a program that the benchmark started has ended");
    return GB_OK;
}

gb_status_t bench_process_line(bench_process_t *p, const char *text, int timeout_ms, char *line,
                               size_t size)
{
    uint64_t deadline = gb_now_ns() + (uint64_t)timeout_ms * 1000000;
    size_t used = 0;
    for (;;) {
        char c;
        gb_status_t status = read_byte(p, deadline, &c);
        if (status != GB_OK)
            return status;
        if (c != '\n') {
            if (used + 1 < size)
                line[used++] = c;
            continue;
        }
        line[used] = 0;
        if (strstr(line, text))
            return GB_OK;
        used = 0;
    }
}

void bench_process_stop(bench_process_t *p)
{
    if (p->pid <= 0)
        return;
    kill(p->pid, SIGTERM);
    while (waitpid(p->pid, NULL, 0) < 0 && errno == EINTR)
        continue;
    close(p->out);
    p->pid = 0;
}

int bench_process_field(const char *line, const char *key, char *out, size_t size)
{
    const char *at = strstr(line, key);
    if (!at)
        return 0;
    at += strlen(key);
    size_t length = strcspn(at, " ");
    if (length == 0 || length >= size)
        return 0;
    memcpy(out, at, length);
    out[length] = 0;
    return 1;
}
