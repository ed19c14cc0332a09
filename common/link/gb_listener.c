#include "common/link/gb_listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/link/gb_socket.h"

struct gb_listener {
    int fd;
    atomic_int stopped;
    gb_endpoint_t endpoint;
    dev_t dev; /* of the socket file, so that only our own is removed */
    ino_t ino;
};

static gb_status_t in_use(const gb_endpoint_t *e)
{
    char text[GB_ENDPOINT_TEXT];
    return gb_fail(GB_ERR_EXISTS, "%s is in use by another program: stop it or choose another %s",
                   gb_endpoint_format(e, text), e->kind == GB_ENDPOINT_UNIX ? "path" : "port");
}

static gb_status_t cannot(const gb_endpoint_t *e, int error)
{
    char text[GB_ENDPOINT_TEXT];
    if (error == EADDRINUSE)
        return in_use(e);
    return gb_fail(GB_ERR_IO, "cannot listen on %s: %s: choose another address",
                   gb_endpoint_format(e, text), strerror(error));
}

/* A socket file that a killed process left behind refuses connections; a live one takes them. */
static gb_status_t remove_stale(const gb_endpoint_t *e, const struct sockaddr_un *un)
{
    struct stat sb;
    if (lstat(un->sun_path, &sb))
        return GB_OK;
    if (!S_ISSOCK(sb.st_mode))
        return gb_fail(GB_ERR_EXISTS, "%s exists and is no socket: choose another path",
                       un->sun_path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return cannot(e, errno);
    int refused = connect(fd, (const struct sockaddr *)un, sizeof *un) && errno == ECONNREFUSED;
    close(fd);
    if (!refused)
        return in_use(e);
    unlink(un->sun_path);
    return GB_OK;
}

static gb_status_t open_unix(gb_listener_t *l, int owner_only)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct stat sb;
    memcpy(un.sun_path, l->endpoint.name, strnlen(l->endpoint.name, sizeof un.sun_path - 1));
    gb_status_t st = remove_stale(&l->endpoint, &un);
    if (st != GB_OK)
        return st;
    l->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd < 0)
        return cannot(&l->endpoint, errno);
    /* chmod before listen: nobody can connect in between */
    if (bind(l->fd, (struct sockaddr *)&un, sizeof un) ||
        chmod(un.sun_path, owner_only ? 0600 : 0666) || stat(un.sun_path, &sb) ||
        listen(l->fd, 128)) {
        st = cannot(&l->endpoint, errno);
        close(l->fd);
        return st;
    }
    l->dev = sb.st_dev;
    l->ino = sb.st_ino;
    return GB_OK;
}

static int bind_inet(const struct addrinfo *a, int *out)
{
    int one = 1;
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return errno;
    /* a restarted server must not wait for the old connections' TIME_WAIT */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
        bind(fd, a->ai_addr, a->ai_addrlen) || listen(fd, 128)) {
        int error = errno;
        close(fd);
        return error;
    }
    *out = fd;
    return 0;
}

static uint16_t bound_port(int fd)
{
    struct sockaddr_storage ss = {0};
    socklen_t n = sizeof ss;
    if (getsockname(fd, (struct sockaddr *)&ss, &n))
        return 0;
    return ntohs(ss.ss_family == AF_INET ? ((struct sockaddr_in *)&ss)->sin_port
                                         : ((struct sockaddr_in6 *)&ss)->sin6_port);
}

static gb_status_t open_inet(gb_listener_t *l)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
    struct addrinfo *list = NULL;
    char port[8];
    int error = EADDRNOTAVAIL;
    snprintf(port, sizeof port, "%u", l->endpoint.port);
    int gai = getaddrinfo(l->endpoint.name, port, &hints, &list);
    if (gai)
        return gb_fail(GB_ERR_INVALID, "cannot listen on '%s': %s: give an address of this machine",
                       l->endpoint.name, gai_strerror(gai));
    for (struct addrinfo *a = list; a && error; a = a->ai_next)
        error = bind_inet(a, &l->fd);
    freeaddrinfo(list);
    if (error)
        return cannot(&l->endpoint, error);
    l->endpoint.port = bound_port(l->fd);
    return GB_OK;
}

gb_status_t gb_listener_open(const gb_endpoint_t *endpoint, int owner_only, gb_listener_t **out)
{
    gb_listener_t *l = calloc(1, sizeof *l);
    if (!l)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    l->endpoint = *endpoint;
    gb_status_t st = endpoint->kind == GB_ENDPOINT_UNIX ? open_unix(l, owner_only) : open_inet(l);
    if (st != GB_OK)
        free(l);
    else
        *out = l;
    return st;
}

const gb_endpoint_t *gb_listener_endpoint(const gb_listener_t *l)
{
    return &l->endpoint;
}

int gb_listener_fd(const gb_listener_t *l)
{
    return l->fd;
}

/* One accept4; GB_ERR_AGAIN when nobody waits. */
static gb_status_t accept_now(gb_listener_t *l, int *fd, char peer[GB_PEER_TEXT])
{
    int s = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (s < 0) {
        int error = errno;
        if (atomic_load(&l->stopped))
            return gb_fail(GB_ERR_CANCELLED, "the listener was shut down");
        if (error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM)
            return gb_fail_errno(GB_ERR_LIMIT, error, "cannot accept a connection");
        if (error == EAGAIN || error == EINTR || error == ECONNABORTED || error == EPROTO)
            return GB_ERR_AGAIN;
        return gb_fail_errno(GB_ERR_IO, error, "cannot accept a connection");
    }
    gb_status_t st = gb_socket_prepare(s);
    if (st != GB_OK) {
        close(s);
        return GB_ERR_AGAIN; /* the peer has gone in the meantime */
    }
    gb_socket_describe_peer(s, peer, GB_PEER_TEXT);
    *fd = s;
    return GB_OK;
}

gb_status_t gb_listener_accept(gb_listener_t *l, uint64_t deadline, int *fd,
                               char peer[GB_PEER_TEXT])
{
    for (;;) {
        if (atomic_load(&l->stopped))
            return gb_fail(GB_ERR_CANCELLED, "the listener was shut down");
        gb_status_t st = accept_now(l, fd, peer);
        if (st != GB_ERR_AGAIN || deadline == 0)
            return st;
        st = gb_socket_wait(l->fd, GB_SOCKET_IN, deadline);
        if (st != GB_OK)
            return st;
    }
}

void gb_listener_shutdown(gb_listener_t *l)
{
    atomic_store(&l->stopped, 1);
    shutdown(l->fd, SHUT_RDWR);
}

void gb_listener_close(gb_listener_t *l)
{
    struct stat sb;
    if (!l)
        return;
    if (l->endpoint.kind == GB_ENDPOINT_UNIX && !stat(l->endpoint.name, &sb) &&
        sb.st_dev == l->dev && sb.st_ino == l->ino)
        unlink(l->endpoint.name);
    close(l->fd);
    free(l);
}
