#include "common/link/gb_socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/core/gb_clock.h"

enum { SOCKET_BUFFER = 1 << 20 };

int gb_socket_poll(struct pollfd *fds, int count, uint64_t deadline)
{
    for (;;) {
        struct timespec ts = {0, 0};
        if (deadline && deadline != UINT64_MAX) {
            uint64_t now = gb_now_ns();
            uint64_t left = deadline > now ? deadline - now : 0;
            ts.tv_sec = (time_t)(left / 1000000000u);
            ts.tv_nsec = (long)(left % 1000000000u);
        }
        int n = ppoll(fds, (nfds_t)count, deadline == UINT64_MAX ? NULL : &ts, NULL);
        if (n >= 0)
            return n;
        if (errno != EINTR)
            return -errno;
    }
}

gb_status_t gb_socket_wait(int fd, short events, uint64_t deadline)
{
    struct pollfd p = {fd, events, 0};
    int n = gb_socket_poll(&p, 1, deadline);
    if (n < 0)
        return gb_fail_errno(GB_ERR_IO, -n, "poll");
    return n ? GB_OK : gb_fail(GB_ERR_TIMEOUT, "no answer in time");
}

int gb_socket_is_unix(int fd)
{
    int domain = 0;
    socklen_t n = sizeof domain;
    return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &n) && domain == AF_UNIX;
}

gb_status_t gb_socket_prepare(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) || fcntl(fd, F_SETFD, FD_CLOEXEC))
        return gb_fail_errno(GB_ERR_IO, errno, "cannot set up a socket");
    if (gb_socket_is_unix(fd)) {
        /* The default makes a bulk sender and its receiver alternate; what the system caps is fine. */
        int size = SOCKET_BUFFER;
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
        return GB_OK;
    }
    int one = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one))
        return gb_fail_errno(GB_ERR_IO, errno, "cannot set TCP_NODELAY");
    return GB_OK;
}

gb_status_t gb_socket_set_blocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK))
        return gb_fail_errno(GB_ERR_IO, errno, "cannot set up a socket");
    return GB_OK;
}

void gb_socket_set_silence(int fd, uint32_t milliseconds)
{
    if (gb_socket_is_unix(fd))
        return;
    int one = 1;
    unsigned total = milliseconds;
    int step = (int)(milliseconds / 4000);
    if (step < 1)
        step = 1;
    int probes = 3;
    /* Kernels without one of these only notice later; the callers have deadlines of their own. */
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &step, sizeof step);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &step, sizeof step);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &total, sizeof total);
}

static void describe_inet(const struct sockaddr_storage *ss, char *out, int size)
{
    char host[INET6_ADDRSTRLEN] = "?";
    if (ss->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)ss;
        inet_ntop(AF_INET, &in->sin_addr, host, sizeof host);
        snprintf(out, (size_t)size, "%s:%u", host, ntohs(in->sin_port));
    } else {
        const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)ss;
        inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof host);
        snprintf(out, (size_t)size, "[%s]:%u", host, ntohs(in6->sin6_port));
    }
}

void gb_socket_describe_peer(int fd, char *out, int size)
{
    struct sockaddr_storage ss = {0};
    socklen_t n = sizeof ss;
    struct ucred cred;
    socklen_t cn = sizeof cred;
    if (gb_socket_is_unix(fd)) {
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &cn))
            snprintf(out, (size_t)size, "unix");
        else
            snprintf(out, (size_t)size, "unix pid %d uid %u", (int)cred.pid, (unsigned)cred.uid);
    } else if (getpeername(fd, (struct sockaddr *)&ss, &n)) {
        snprintf(out, (size_t)size, "unknown");
    } else {
        describe_inet(&ss, out, size);
    }
}

/* Waits for a connect in progress; 0 or an errno value. */
static int finish_connect(int fd, uint64_t deadline)
{
    struct pollfd p = {fd, POLLOUT, 0};
    int error = 0;
    socklen_t n = sizeof error;
    int ready = gb_socket_poll(&p, 1, deadline);
    if (ready < 0)
        return -ready;
    if (!ready)
        return ETIMEDOUT;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n))
        return errno;
    return error;
}

static int connect_one(int family, const struct sockaddr *sa, socklen_t size, uint64_t deadline,
                       int *out)
{
    int error;
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    for (;;) {
        error = connect(fd, sa, size) ? errno : 0;
        if (error == EINPROGRESS || error == EINTR)
            error = finish_connect(fd, deadline);
        /* A Unix socket whose backlog is full says EAGAIN and has nothing to wait on. */
        if (error != EAGAIN || gb_now_ns() >= deadline)
            break;
        struct timespec pause = {0, 1000000};
        nanosleep(&pause, NULL);
    }
    if (!error && gb_socket_prepare(fd) != GB_OK)
        error = EIO;
    if (error)
        close(fd);
    else
        *out = fd;
    return error;
}

static gb_status_t refuse(const gb_endpoint_t *endpoint, int error)
{
    char text[GB_ENDPOINT_TEXT];
    gb_endpoint_format(endpoint, text);
    if (error == ETIMEDOUT || error == EAGAIN)
        return gb_fail(GB_ERR_TIMEOUT, "no answer from %s: check the address and the network",
                       text);
    return gb_fail(GB_ERR_UNREACHABLE, "cannot reach %s: %s: check that it runs and the address",
                   text, strerror(error));
}

static gb_status_t connect_unix(const gb_endpoint_t *endpoint, uint64_t deadline, int *out)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    memcpy(un.sun_path, endpoint->name, strnlen(endpoint->name, sizeof un.sun_path - 1));
    int error = connect_one(AF_UNIX, (struct sockaddr *)&un, sizeof un, deadline, out);
    return error ? refuse(endpoint, error) : GB_OK;
}

gb_status_t gb_socket_connect(const gb_endpoint_t *endpoint, uint64_t deadline, int *out)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char port[8];
    int error = ECONNREFUSED;
    if (endpoint->kind == GB_ENDPOINT_UNIX)
        return connect_unix(endpoint, deadline, out);
    snprintf(port, sizeof port, "%u", endpoint->port);
    int gai = getaddrinfo(endpoint->name, port, &hints, &list);
    if (gai)
        return gb_fail(GB_ERR_UNREACHABLE, "cannot find host '%s': %s: check the name",
                       endpoint->name, gai_strerror(gai));
    for (struct addrinfo *a = list; a; a = a->ai_next) {
        error = connect_one(a->ai_family, a->ai_addr, a->ai_addrlen, deadline, out);
        if (!error)
            break;
    }
    freeaddrinfo(list);
    return error ? refuse(endpoint, error) : GB_OK;
}
