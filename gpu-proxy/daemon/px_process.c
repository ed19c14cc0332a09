#include "gpu-proxy/daemon/px_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_path.h"
#include "gpu-proxy/session/px_boot.h"

enum { PROBE_REPORT_MAX = 64 * 1024 };

extern char **environ;

/* posix_spawn, so that a daemon with gRPC's threads never runs code between fork and exec. `fd` becomes
 * descriptor `target`; all others of the daemon are close-on-exec. */
static gb_status_t spawn(char *const argv[], int fd, int target, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigset_t usual;
    sigemptyset(&none);
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGTERM);
    sigaddset(&usual, SIGINT);
    sigaddset(&usual, SIGCHLD);

    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setpgroup(&attributes,
                              0); /* Ctrl-C is for the daemon, which ends its sessions */
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (target != STDOUT_FILENO)
        posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, fd, target);
    int error = posix_spawn(pid, argv[0], &actions, &attributes, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    if (error)
        return gb_fail_errno(GB_ERR_IO, error, "cannot start %s", argv[0]);
    return GB_OK;
}

gb_status_t px_process_session(const char *driver, int tls, pid_t *pid, int *control)
{
    char path[4096];
    int sv[2];
    gb_status_t st = gb_path_installed("bin/gpu-session", path, sizeof path);
    if (st != GB_OK)
        return st;
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sv))
        return gb_fail_errno(GB_ERR_IO, errno, "cannot make a control socket");
    char *argv[] = {path, "--driver", (char *)(uintptr_t)driver, tls ? "--tls" : NULL, NULL};
    st = spawn(argv, sv[1], PX_BOOT_FD, pid);
    close(sv[1]);
    if (st != GB_OK) {
        close(sv[0]);
        return st;
    }
    /* The child's end stays blocking: the flag belongs to one end of the pair. */
    (void)fcntl(sv[0], F_SETFL, O_NONBLOCK);
    *control = sv[0];
    return GB_OK;
}

/* Reads until EOF or the deadline. Returns the number of bytes, -1 when the time was over. */
static ssize_t read_report(int fd, char *out, size_t cap, uint64_t deadline)
{
    size_t have = 0;
    while (have < cap) {
        uint64_t now = gb_now_ns();
        struct pollfd p = {fd, POLLIN, 0};
        if (now >= deadline)
            return -1;
        int ready = poll(&p, 1, (int)((deadline - now) / 1000000u) + 1);
        if (ready == 0)
            return -1;
        if (ready < 0)
            continue; /* a signal */
        ssize_t n = read(fd, out + have, cap - have);
        if (n == 0 || (n < 0 && errno != EINTR))
            break;
        have += n > 0 ? (size_t)n : 0;
    }
    return (ssize_t)have;
}

static void reap(pid_t pid, int *status)
{
    while (waitpid(pid, status, 0) < 0 && errno == EINTR)
        ;
}

gb_status_t px_process_probe(const char *driver, int seconds, px_inventory_t *out)
{
    char path[4096];
    int fds[2];
    int status = 0;
    pid_t pid;
    gb_status_t st = gb_path_installed("bin/gpu-session", path, sizeof path);
    if (st != GB_OK)
        return st;
    char *text = malloc(PROBE_REPORT_MAX);
    if (!text)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory for the probe");
    if (pipe2(fds, O_CLOEXEC)) {
        free(text);
        return gb_fail_errno(GB_ERR_IO, errno, "cannot make a pipe");
    }
    char *argv[] = {path, "--probe", "--driver", (char *)(uintptr_t)driver, NULL};
    st = spawn(argv, fds[1], STDOUT_FILENO, &pid);
    close(fds[1]);
    if (st == GB_OK) {
        ssize_t n = read_report(fds[0], text, PROBE_REPORT_MAX,
                                gb_now_ns() + (uint64_t)seconds * 1000000000u);
        if (n < 0)
            kill(pid, SIGKILL);
        reap(pid, &status);
        if (n < 0)
            st = gb_fail(GB_ERR_TIMEOUT,
                         "the devices did not answer the probe within %d s: check "
                         "the driver",
                         seconds);
        else if (!WIFEXITED(status) || WEXITSTATUS(status))
            st = gb_fail(GB_ERR_NOT_FOUND,
                         "no device can be used through driver '%s': the reason "
                         "is above; try --driver cpu",
                         driver);
        else
            st = px_inventory_parse(text, (size_t)n, out);
    }
    close(fds[0]);
    free(text);
    return st;
}
