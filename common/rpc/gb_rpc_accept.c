/* gb_rpc_accept.c - one thread polls the listener and the connections whose first bytes are awaited.
 *
 * HTTP/2 clients open with a fixed preface. Once its beginning is there, a low-water mark on the socket
 * makes poll() tell when the whole is, so that a peer that trickles bytes costs nothing. */
#include "common/rpc/gb_rpc_accept.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"

enum { MAX_FRESH = 128, PATIENCE_MS = 5000 };

static const char PREFACE[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
enum { PREFACE_SIZE = sizeof PREFACE - 1 };

typedef struct {
    int fd;
    uint64_t until_ms;
    char peer[80];
} fresh_t;

struct gb_rpc_acceptor {
    int fd, quit;
    gb_rpc_accepted_t accepted;
    void *arg;
    pthread_t thread;
    fresh_t fresh[MAX_FRESH];
    int count;
};

/* ---- listening ---- */

static gb_status_t resolve(const char *address, struct addrinfo **out)
{
    char host[160];
    snprintf(host, sizeof host, "%s", address);
    char *colon = strrchr(host, ':'), *name = host;
    if (!colon)
        return gb_fail(GB_ERR_INVALID, "'%s' is not an address: write HOST:PORT", address);
    *colon = 0;
    if (name[0] == '[' && colon > host && colon[-1] == ']') {
        colon[-1] = 0;
        name++;
    }
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    int error = getaddrinfo(*name ? name : NULL, colon + 1, &hints, out);
    if (error)
        return gb_fail(GB_ERR_INVALID, "cannot listen on %s: %s", address, gai_strerror(error));
    return GB_OK;
}

static int bound_port(int fd)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    if (getsockname(fd, (struct sockaddr *)&address, &size))
        return 0;
    if (address.ss_family == AF_INET6)
        return ntohs(((struct sockaddr_in6 *)&address)->sin6_port);
    return ntohs(((struct sockaddr_in *)&address)->sin_port);
}

gb_status_t gb_rpc_listen(const char *address, int *out, int *port)
{
    struct addrinfo *list;
    gb_status_t status = resolve(address, &list);
    if (status != GB_OK)
        return status;
    int one = 1, type = list->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK;
    int fd = socket(list->ai_family, type, list->ai_protocol);
    if (fd >= 0)
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    int failed = fd < 0 || bind(fd, list->ai_addr, list->ai_addrlen) < 0 || listen(fd, 128) < 0;
    int why = errno;
    freeaddrinfo(list);
    if (!failed) {
        *out = fd;
        *port = bound_port(fd);
        return GB_OK;
    }
    if (fd >= 0)
        close(fd);
    if (why == EADDRINUSE)
        return gb_fail(GB_ERR_EXISTS,
                       "port %s is in use: stop the program that has it or choose another with "
                       "--listen",
                       address);
    return gb_fail_errno(why == EADDRNOTAVAIL ? GB_ERR_INVALID : GB_ERR_IO, why,
                         "cannot listen on %s", address);
}

/* ---- accepting ---- */

static uint64_t now_ms(void)
{
    return gb_now_ns() / 1000000u;
}

static void name_peer(const struct sockaddr_storage *address, socklen_t size, char *out,
                      size_t out_size)
{
    char host[60] = "?", port[12] = "?";
    getnameinfo((const struct sockaddr *)address, size, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(out, out_size, "%s:%s", host, port);
}

static void forget(gb_rpc_acceptor_t *acceptor, int place)
{
    acceptor->fresh[place] = acceptor->fresh[--acceptor->count];
}

static void refuse(gb_rpc_acceptor_t *acceptor, int place, const char *why)
{
    const fresh_t *fresh = &acceptor->fresh[place];
    gb_log(GB_LOG_WARN, "gRPC port: closed the connection from %s: %s", fresh->peer, why);
    close(fresh->fd);
    forget(acceptor, place);
}

/* Silent connections must not keep honest ones out, who speak at once. */
static int oldest(const gb_rpc_acceptor_t *acceptor)
{
    int found = 0;
    for (int i = 1; i < acceptor->count; i++)
        if (acceptor->fresh[i].until_ms < acceptor->fresh[found].until_ms)
            found = i;
    return found;
}

/* Out of descriptors: the connection stays in the queue, and asking again at once would only spin. */
static void wait_for_room(void)
{
    struct timespec nap = {0, 100000000};
    gb_log(GB_LOG_WARN, "gRPC port: cannot accept: %s", strerror(errno));
    nanosleep(&nap, NULL);
}

static void take_one(gb_rpc_acceptor_t *acceptor)
{
    struct sockaddr_storage address;
    socklen_t size = sizeof address;
    int fd =
        accept4(acceptor->fd, (struct sockaddr *)&address, &size, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
            wait_for_room();
        return;
    }
    if (acceptor->count == MAX_FRESH)
        refuse(acceptor, oldest(acceptor), "it is silent while others wait");
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    fresh_t *fresh = &acceptor->fresh[acceptor->count++];
    fresh->fd = fd;
    fresh->until_ms = now_ms() + PATIENCE_MS;
    name_peer(&address, size, fresh->peer, sizeof fresh->peer);
}

static void look_at(gb_rpc_acceptor_t *acceptor, int place)
{
    char bytes[PREFACE_SIZE];
    int fd = acceptor->fresh[place].fd, one = 1, whole = PREFACE_SIZE;
    ssize_t got = recv(fd, bytes, sizeof bytes, MSG_PEEK);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) { /* came and went, as a port scan does: nothing was asked */
        close(fd);
        forget(acceptor, place);
        return;
    }
    if (memcmp(bytes, PREFACE, (size_t)got)) {
        refuse(acceptor, place, "what it sent is not gRPC (if it is TLS: start with --tls-dir)");
        return;
    }
    if (got < PREFACE_SIZE) {
        setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &whole, sizeof whole);
        return;
    }
    setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &one, sizeof one);
    forget(acceptor, place);
    acceptor->accepted(acceptor->arg, fd);
}

/* Milliseconds until the first patience ends; -1: nobody is awaited. */
static int next_timeout(const gb_rpc_acceptor_t *acceptor)
{
    uint64_t now = now_ms(), first = UINT64_MAX;
    for (int i = 0; i < acceptor->count; i++)
        if (acceptor->fresh[i].until_ms < first)
            first = acceptor->fresh[i].until_ms;
    if (first == UINT64_MAX)
        return -1;
    return first > now ? (int)(first - now) : 0;
}

static void end_patience(gb_rpc_acceptor_t *acceptor)
{
    uint64_t now = now_ms();
    for (int i = acceptor->count - 1; i >= 0; i--)
        if (acceptor->fresh[i].until_ms <= now)
            refuse(acceptor, i, "it does not begin to speak gRPC");
}

static void *accept_main(void *arg)
{
    gb_rpc_acceptor_t *acceptor = arg;
    struct pollfd polled[MAX_FRESH + 2];
    for (;;) {
        int count = acceptor->count;
        polled[0] = (struct pollfd){.fd = acceptor->quit, .events = POLLIN};
        polled[1] = (struct pollfd){.fd = acceptor->fd, .events = POLLIN};
        for (int i = 0; i < count; i++)
            polled[i + 2] = (struct pollfd){.fd = acceptor->fresh[i].fd, .events = POLLIN};
        if (poll(polled, (nfds_t)count + 2, next_timeout(acceptor)) < 0 && errno != EINTR)
            return NULL;
        if (polled[0].revents)
            return NULL;
        for (int i = count - 1; i >= 0; i--) /* backwards: forgetting moves the last one */
            if (polled[i + 2].revents)
                look_at(acceptor, i);
        end_patience(acceptor);
        if (polled[1].revents)
            take_one(acceptor);
    }
}

gb_status_t gb_rpc_acceptor_start(int fd, gb_rpc_accepted_t accepted, void *arg,
                                  gb_rpc_acceptor_t **out)
{
    gb_rpc_acceptor_t *acceptor = calloc(1, sizeof *acceptor);
    if (!acceptor)
        return gb_fail(GB_ERR_NO_MEMORY, "no memory for a listener");
    acceptor->fd = fd;
    acceptor->accepted = accepted;
    acceptor->arg = arg;
    acceptor->quit = eventfd(0, EFD_CLOEXEC);
    if (acceptor->quit < 0 || pthread_create(&acceptor->thread, NULL, accept_main, acceptor)) {
        if (acceptor->quit >= 0)
            close(acceptor->quit);
        free(acceptor);
        return gb_fail(GB_ERR_LIMIT, "cannot start a thread");
    }
    *out = acceptor;
    return GB_OK;
}

void gb_rpc_acceptor_stop(gb_rpc_acceptor_t *acceptor)
{
    if (!acceptor)
        return;
    eventfd_write(acceptor->quit, 1);
    pthread_join(acceptor->thread, NULL);
    for (int i = 0; i < acceptor->count; i++)
        close(acceptor->fresh[i].fd);
    close(acceptor->fd);
    close(acceptor->quit);
    free(acceptor);
}
