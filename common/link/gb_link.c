/* Waiting, spinning, buffering: the part of a link that all transports share.
 *
 * Nothing here holds a lock while it waits. The sender's and the receiver's halves share only atomics;
 * the transport protects what it shares itself. */
#include "common/link/gb_link_impl.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/frame/gb_frame.h"
#include "common/link/gb_socket.h"

enum {
    RECEIVE_BUFFER = 64 * 1024,
    DIRECT_RECEIVE = 16 * 1024, /* from this size on bytes go straight to the caller */
    SEND_WINDOW = 64,           /* iovec entries per write */
    DEFAULT_SILENCE_MS = 15000,
    DEFAULT_SPIN_US = 100,
    MAX_SPIN_US = 1000,
    STALL_RETRY_MS = 10,
};

/* ---- cursor ---- */

int gb_cursor_window(const gb_cursor_t *c, struct iovec *out, int cap)
{
    int n = 0;
    size_t skip = c->offset;
    for (int i = c->index; i < c->count && n < cap; i++) {
        if (c->iov[i].iov_len > skip) {
            out[n].iov_base = (uint8_t *)c->iov[i].iov_base + skip;
            out[n++].iov_len = c->iov[i].iov_len - skip;
        }
        skip = 0;
    }
    return n;
}

void gb_cursor_advance(gb_cursor_t *c, size_t size)
{
    while (size) {
        size_t left = c->iov[c->index].iov_len - c->offset;
        size_t step = size < left ? size : left;
        c->offset += step;
        size -= step;
        if (c->offset == c->iov[c->index].iov_len) {
            c->index++;
            c->offset = 0;
        }
    }
}

int gb_cursor_done(gb_cursor_t *c)
{
    while (c->index < c->count && c->offset == c->iov[c->index].iov_len) {
        c->index++;
        c->offset = 0;
    }
    return c->index == c->count;
}

/* ---- failure ---- */

gb_status_t gb_link_lose(gb_link_t *link, int error, const char *doing)
{
    if (error)
        return gb_fail(GB_ERR_LOST, "the connection to %s is lost while %s: %s", link->peer, doing,
                       strerror(error));
    return gb_fail(GB_ERR_LOST, "the connection to %s is lost: it was closed by the peer",
                   link->peer);
}

static gb_status_t check_alive(gb_link_t *link)
{
    int final = atomic_load(&link->final);
    if (final == GB_OK)
        return GB_OK;
    return gb_fail((gb_status_t) final, "the connection to %s is lost", link->peer);
}

static gb_status_t give_up(gb_link_t *link)
{
    atomic_store(&link->final, GB_ERR_LOST);
    return gb_fail(GB_ERR_TIMEOUT, "%s has been silent for %u ms", link->peer,
                   atomic_load(&link->silence_ms));
}

/* ---- the plain transport ---- */

static gb_status_t plain_sendmsg(gb_link_t *link, struct iovec *iov, int count, size_t *sent)
{
    struct msghdr m = {.msg_iov = iov, .msg_iovlen = (size_t)count};
    ssize_t n;
    do {
        n = sendmsg(link->fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN ? GB_ERR_AGAIN : gb_link_lose(link, errno, "sending");
    *sent = (size_t)n;
    return GB_OK;
}

gb_status_t gb_plain_write(gb_link_t *link, const void *data, size_t size, size_t *sent)
{
    struct iovec v = {(void *)(uintptr_t)data, size};
    return plain_sendmsg(link, &v, 1, sent);
}

static gb_status_t plain_try_send(gb_link_t *link, gb_cursor_t *cursor, size_t *sent)
{
    struct iovec window[SEND_WINDOW];
    size_t n;
    int count = gb_cursor_window(cursor, window, SEND_WINDOW);
    gb_status_t st = plain_sendmsg(link, window, count, &n);
    if (st != GB_OK)
        return st;
    gb_cursor_advance(cursor, n);
    *sent = n;
    return GB_OK;
}

static gb_status_t plain_try_flush(gb_link_t *link)
{
    (void)link;
    return GB_OK;
}

static int plain_nothing(const gb_link_t *link)
{
    (void)link;
    return 0;
}

static int plain_pending(gb_link_t *link)
{
    (void)link;
    return 0;
}

/* With `flags` 0 it sleeps: the socket is a blocking one, and every other call says MSG_DONTWAIT. */
gb_status_t gb_plain_recv(gb_link_t *link, void *buffer, size_t cap, int flags, size_t *got)
{
    ssize_t n;
    do {
        n = recv(link->fd, buffer, cap, flags);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN ? GB_ERR_AGAIN : gb_link_lose(link, errno, "receiving");
    if (n == 0)
        return gb_link_lose(link, 0, "receiving");
    *got = (size_t)n;
    return GB_OK;
}

static gb_status_t plain_try_recv(gb_link_t *link, void *buffer, size_t cap, size_t *got)
{
    return gb_plain_recv(link, buffer, cap, MSG_DONTWAIT, got);
}

static gb_status_t plain_recv_wait(gb_link_t *link, void *buffer, size_t cap, size_t *got)
{
    return gb_plain_recv(link, buffer, cap, 0, got);
}

int gb_plain_may_spin(gb_link_t *link)
{
    (void)link;
    return 1; /* where the peer runs is not known: the budget learns it */
}

gb_status_t gb_plain_wait(gb_link_t *link, short events, uint64_t deadline, short *ready)
{
    struct pollfd p = {link->fd, events, 0};
    int n = gb_socket_poll(&p, 1, deadline);
    if (n < 0)
        return gb_fail_errno(GB_ERR_IO, -n, "poll");
    if (n == 0)
        return gb_fail(GB_ERR_TIMEOUT, "no answer in time");
    /* After an error the next call on the socket tells what it is. */
    *ready = p.revents & (POLLERR | POLLHUP | POLLNVAL) ? events : p.revents;
    return GB_OK;
}

void gb_plain_finish(gb_link_t *link)
{
    shutdown(link->fd, SHUT_WR);
}

void gb_plain_wake(gb_link_t *link)
{
    (void)link; /* the shutdown of the socket does it */
}

static void plain_release(gb_link_t *link)
{
    (void)link;
}

static const gb_link_ops_t plain_ops = {
    .name = "tcp",
    .try_send = plain_try_send,
    .try_flush = plain_try_flush,
    .unsent = plain_nothing,
    .try_recv = plain_try_recv,
    .recv_wait = plain_recv_wait,
    .pending = plain_pending,
    .may_spin = gb_plain_may_spin,
    .wait = gb_plain_wait,
    .finish = gb_plain_finish,
    .wake = gb_plain_wake,
    .release = plain_release,
};

/* ---- making and ending ---- */

static uint32_t default_spin_us(void)
{
    const char *text = getenv("GABLE_LINK_SPIN_US");
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
        return 0;
    int64_t us = DEFAULT_SPIN_US;
    if (text && *text && (sscanf(text, "%ld", &us) != 1 || us < 0))
        us = DEFAULT_SPIN_US;
    return us > MAX_SPIN_US ? MAX_SPIN_US : (uint32_t)us;
}

gb_status_t gb_link_make(int fd, const char *kind, gb_link_t **out)
{
    char peer[GB_ENDPOINT_TEXT];
    gb_status_t st = gb_socket_prepare(fd);
    if (st == GB_OK)
        st = gb_socket_set_blocking(fd);
    gb_link_t *link = st == GB_OK ? calloc(1, sizeof *link) : NULL;
    uint8_t *buffer = link ? malloc(RECEIVE_BUFFER) : NULL;
    if (!buffer) {
        free(link);
        close(fd);
        return st != GB_OK ? st : gb_fail(GB_ERR_NO_MEMORY, "out of memory for a connection");
    }
    link->ops = &plain_ops;
    link->fd = fd;
    link->buffer = buffer;
    atomic_init(&link->final, GB_OK);
    atomic_init(&link->heard, gb_now_ns());
    gb_socket_describe_peer(fd, peer, (int)sizeof peer);
    if (gb_socket_is_unix(fd))
        snprintf(link->peer, sizeof link->peer, "%.100s", peer);
    else
        snprintf(link->peer, sizeof link->peer, "%s %.100s", kind, peer);
    gb_link_set_spin(link, default_spin_us());
    gb_link_set_silence(link, DEFAULT_SILENCE_MS);
    *out = link;
    return GB_OK;
}

gb_status_t gb_link_pair(gb_link_t **a, gb_link_t **b)
{
    int sv[2];
    gb_link_t *first;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sv))
        return gb_fail_errno(GB_ERR_IO, errno, "cannot make a socket pair");
    gb_status_t st = gb_link_make(sv[0], "pair", &first);
    if (st != GB_OK) {
        close(sv[1]);
        return st;
    }
    st = gb_link_make(sv[1], "pair", b);
    if (st != GB_OK) {
        gb_link_close(first);
        return st;
    }
    *a = first;
    return GB_OK;
}

void gb_link_shutdown(gb_link_t *link)
{
    atomic_store(&link->final, GB_ERR_LOST);
    shutdown(link->fd, SHUT_RDWR);
    link->ops->wake(link);
}

void gb_link_set_watched(gb_link_t *link)
{
    atomic_store(&link->watched, 1);
}

void gb_link_close(gb_link_t *link)
{
    if (!link)
        return;
    link->ops->release(link);
    if (link->fd >= 0)
        close(link->fd);
    free(link->buffer);
    free(link);
}

void gb_link_abandon(gb_link_t *link)
{
    close(link->fd);
    link->fd = -1;
}

gb_status_t gb_link_goodbye(gb_link_t *link)
{
    uint8_t header[GB_FRAME_HEADER];
    const gb_frame_t goodbye = {.operation = GB_OP_GOODBYE};
    uint32_t silence = atomic_load(&link->silence_ms);
    gb_frame_encode(&goodbye, header);
    atomic_store(&link->silence_ms, 1000);
    gb_status_t st = gb_link_send(link, header, sizeof header);
    atomic_store(&link->silence_ms, silence);
    if (st == GB_OK)
        link->ops->finish(link);
    return st;
}

/* ---- sending ---- */

void gb_link_set_stall(gb_link_t *link, gb_link_stall_t stall, void *arg)
{
    link->stall = stall;
    link->stall_arg = arg;
}

/* Waits for room in the socket, reading through the stall call meanwhile. `since` is when this send
 * last made progress. */
static gb_status_t wait_for_room(gb_link_t *link, uint64_t since)
{
    int reading = link->stall != NULL;
    for (;;) {
        uint64_t heard = atomic_load_explicit(&link->heard, memory_order_relaxed);
        uint64_t silent_since = heard > since ? heard : since;
        uint64_t end = silent_since + (uint64_t)atomic_load(&link->silence_ms) * 1000000u;
        uint64_t now = gb_now_ns();
        if (now >= end)
            return give_up(link);
        /* With another receiver at work its reading moves `heard`: look again from time to time. */
        uint64_t slice = now + STALL_RETRY_MS * 1000000ull;
        short ready = 0;
        gb_status_t st =
            link->ops->wait(link, (short)(GB_SOCKET_OUT | (reading ? GB_SOCKET_IN : 0)),
                            reading || slice > end ? end : slice, &ready);
        if (st != GB_OK && st != GB_ERR_TIMEOUT)
            return st;
        if (ready & GB_SOCKET_OUT)
            return GB_OK; /* the next write tells what is wrong, if anything */
        if (ready & GB_SOCKET_IN) {
            st = link->stall(link->stall_arg);
            if (st != GB_OK && st != GB_ERR_AGAIN)
                return st;
            reading = st == GB_OK;
        } else if (link->stall) {
            reading = 1;
        }
    }
}

gb_status_t gb_link_sendv(gb_link_t *link, const struct iovec *iov, int count)
{
    gb_cursor_t cursor = {iov, count, 0, 0};
    gb_status_t st = check_alive(link);
    uint64_t since = 0; /* read the clock only when the socket is full */
    while (st == GB_OK && (!gb_cursor_done(&cursor) || link->ops->unsent(link))) {
        size_t n = 0;
        if (gb_cursor_done(&cursor))
            st = link->ops->try_flush(link);
        else
            st = link->ops->try_send(link, &cursor, &n);
        if (n) {
            atomic_fetch_add_explicit(&link->sent, n, memory_order_relaxed);
            since = 0;
        }
        if (st == GB_ERR_AGAIN) {
            if (!since)
                since = gb_now_ns();
            st = wait_for_room(link, since);
        }
    }
    return st;
}

gb_status_t gb_link_send(gb_link_t *link, const void *data, size_t size)
{
    struct iovec v = {(void *)(uintptr_t)data, size};
    return gb_link_sendv(link, &v, 1);
}

gb_status_t gb_link_try_sendv(gb_link_t *link, const struct iovec *iov, int count, size_t *sent)
{
    gb_cursor_t cursor = {iov, count, 0, 0};
    size_t total = 0;
    gb_status_t st = check_alive(link);
    while (st == GB_OK && !gb_cursor_done(&cursor)) {
        size_t n = 0;
        st = link->ops->try_send(link, &cursor, &n);
        total += n;
    }
    atomic_fetch_add_explicit(&link->sent, total, memory_order_relaxed);
    *sent = total;
    return st == GB_ERR_AGAIN && total ? GB_OK : st;
}

int gb_link_unsent(const gb_link_t *link)
{
    return link->ops->unsent(link);
}

gb_status_t gb_link_flush(gb_link_t *link, uint64_t deadline)
{
    gb_status_t st = check_alive(link);
    while (st == GB_OK && link->ops->unsent(link)) {
        short ready;
        st = link->ops->try_flush(link);
        if (st != GB_ERR_AGAIN || !deadline)
            continue;
        st = link->ops->wait(link, GB_SOCKET_OUT, deadline, &ready);
    }
    return st;
}

/* ---- receiving ---- */

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* Polls until `end`. GB_ERR_AGAIN: nothing came. A transport with a lock is asked only when its socket has
 * something. */
static gb_status_t poll_for(gb_link_t *link, uint64_t began, uint64_t end, void *buffer, size_t cap,
                            size_t *got)
{
    uint64_t now;
    do {
        gb_status_t st = GB_ERR_AGAIN;
        if (!link->ops->ready || link->ops->ready(link))
            st = link->ops->try_recv(link, buffer, cap, got);
        now = gb_now_ns();
        if (st != GB_ERR_AGAIN) {
            gb_spin_hit(&link->spin, now - began);
            return st;
        }
        relax();
    } while (now < end);
    gb_spin_miss(&link->spin);
    return GB_ERR_AGAIN;
}

/* Sleeps until something comes. */
static gb_status_t sleep_for(gb_link_t *link, uint64_t deadline, void *buffer, size_t cap,
                             size_t *got)
{
    gb_status_t st;
    do {
        short ready;
        st = check_alive(link);
        if (st == GB_OK && deadline == GB_NEVER && link->ops->recv_wait) {
            st = link->ops->recv_wait(link, buffer, cap, got);
            continue;
        }
        if (st == GB_OK)
            st = link->ops->wait(link, GB_SOCKET_IN, deadline, &ready);
        if (st == GB_ERR_TIMEOUT)
            return gb_fail(GB_ERR_TIMEOUT, "%s has not answered in time", link->peer);
        if (st == GB_OK)
            st = check_alive(link);
        if (st == GB_OK)
            st = link->ops->try_recv(link, buffer, cap, got);
    } while (st == GB_ERR_AGAIN);
    return st;
}

/* One receive into `buffer`, waiting until `deadline`. Who will not poll, and would wait for ever, need not
 * look before he sleeps: the transport does. */
static gb_status_t receive(gb_link_t *link, void *buffer, size_t cap, uint64_t deadline,
                           size_t *got)
{
    size_t n = 0;
    gb_status_t st = check_alive(link);
    uint32_t budget = deadline && link->ops->may_spin(link) ? gb_spin_budget(&link->spin) : 0;
    uint64_t began = gb_now_ns(), end = began + budget;
    if (st == GB_OK && (budget || deadline != GB_NEVER || !link->ops->recv_wait))
        st = link->ops->try_recv(link, buffer, cap, &n);
    else if (st == GB_OK)
        st = GB_ERR_AGAIN;
    if (st == GB_ERR_AGAIN && budget && end <= deadline)
        st = poll_for(link, began, end, buffer, cap, &n);
    int slept = st == GB_ERR_AGAIN && deadline;
    if (slept)
        st = sleep_for(link, deadline, buffer, cap, &n);
    if (st != GB_OK)
        return st;
    uint64_t now = gb_now_ns();
    if (slept)
        gb_spin_slept(&link->spin, now - began);
    atomic_store_explicit(&link->heard, now, memory_order_relaxed);
    atomic_fetch_add_explicit(&link->received, n, memory_order_relaxed);
    *got = n;
    return GB_OK;
}

static size_t take_buffered(gb_link_t *link, void *out, size_t cap)
{
    size_t n = link->tail - link->head;
    if (n > cap)
        n = cap;
    memcpy(out, link->buffer + link->head, n);
    link->head += n;
    return n;
}

gb_status_t gb_link_recv_some(gb_link_t *link, void *buffer, size_t cap, uint64_t deadline,
                              size_t *got)
{
    if (link->head == link->tail) {
        if (cap >= DIRECT_RECEIVE)
            return receive(link, buffer, cap, deadline, got);
        size_t n;
        gb_status_t st = receive(link, link->buffer, RECEIVE_BUFFER, deadline, &n);
        if (st != GB_OK)
            return st;
        link->head = 0;
        link->tail = n;
    }
    *got = take_buffered(link, buffer, cap);
    return GB_OK;
}

gb_status_t gb_link_recv(gb_link_t *link, void *buffer, size_t size, uint64_t deadline)
{
    uint8_t *p = buffer;
    size_t have = 0;
    while (have < size) {
        size_t n;
        short ready;
        gb_status_t st = gb_link_recv_some(link, p + have, size - have, deadline, &n);
        if (st == GB_ERR_TIMEOUT && have)
            atomic_store(&link->final, GB_ERR_LOST); /* in the middle of a unit: out of step */
        if (st == GB_ERR_AGAIN && have)
            st = link->ops->wait(link, GB_SOCKET_IN,
                                 gb_now_ns() + (uint64_t)atomic_load(&link->silence_ms) * 1000000u,
                                 &ready);
        else if (st == GB_OK)
            have += n;
        if (st != GB_OK)
            return st;
    }
    return GB_OK;
}

int gb_link_has_pending(gb_link_t *link)
{
    return link->head != link->tail || link->ops->pending(link);
}

int gb_link_has_input(gb_link_t *link)
{
    uint8_t byte;
    if (link->shm)
        return gb_shm_has_input(link);
    return recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

/* ---- waiting ---- */

/* Shared memory has no descriptor that could be waited for beside another one. */
static gb_status_t wait_shared(gb_link_t *link, int events, int wake_fd, uint64_t deadline,
                               int *ready)
{
    short wanted = (short)((events & GB_LINK_READABLE ? GB_SOCKET_IN : 0) |
                           (events & GB_LINK_WRITABLE ? GB_SOCKET_OUT : 0));
    short found = 0;
    if (wake_fd >= 0)
        return gb_fail(GB_ERR_UNSUPPORTED, "shared memory cannot be waited for beside a file");
    if (link->head != link->tail && (events & GB_LINK_READABLE))
        found = GB_SOCKET_IN;
    gb_status_t st = found ? GB_OK : link->ops->wait(link, wanted, deadline, &found);
    if (st != GB_OK)
        return st == GB_ERR_TIMEOUT && !deadline ? GB_ERR_AGAIN : st;
    *ready = (found & GB_SOCKET_IN ? GB_LINK_READABLE : 0) |
             (found & GB_SOCKET_OUT ? GB_LINK_WRITABLE : 0);
    return GB_OK;
}

gb_status_t gb_link_wait(gb_link_t *link, int events, int wake_fd, uint64_t deadline, int *ready)
{
    struct pollfd p[2] = {{link->fd, 0, 0}, {wake_fd, POLLIN, 0}};
    int pending = (events & GB_LINK_READABLE) && gb_link_has_pending(link);
    if (link->shm)
        return wait_shared(link, events, wake_fd, pending ? 0 : deadline, ready);
    if (events & GB_LINK_READABLE)
        p[0].events |= POLLIN;
    if (events & GB_LINK_WRITABLE)
        p[0].events |= POLLOUT;
    int n = gb_socket_poll(p, wake_fd >= 0 ? 2 : 1, pending ? 0 : deadline);
    if (n < 0)
        return gb_fail_errno(GB_ERR_IO, -n, "poll");
    int found = pending ? GB_LINK_READABLE : 0;
    if (p[0].revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL))
        found |= events & GB_LINK_READABLE;
    if (p[0].revents & (POLLOUT | POLLERR | POLLNVAL))
        found |= events & GB_LINK_WRITABLE;
    if (wake_fd >= 0 && p[1].revents)
        found |= GB_LINK_WAKE;
    if (!found)
        return deadline ? GB_ERR_TIMEOUT : GB_ERR_AGAIN;
    *ready = found;
    return GB_OK;
}

int gb_link_fd(const gb_link_t *link)
{
    return link->fd;
}

/* ---- facts and settings ---- */

void gb_link_set_silence(gb_link_t *link, uint32_t milliseconds)
{
    atomic_store(&link->silence_ms, milliseconds);
    gb_socket_set_silence(link->fd, milliseconds);
}

uint64_t gb_link_heard(const gb_link_t *link)
{
    return atomic_load_explicit(&link->heard, memory_order_relaxed);
}

void gb_link_set_spin(gb_link_t *link, uint32_t microseconds)
{
    gb_spin_init(&link->spin, (microseconds > MAX_SPIN_US ? MAX_SPIN_US : microseconds) * 1000);
}

gb_link_counters_t gb_link_counters(const gb_link_t *link)
{
    gb_link_counters_t c = {atomic_load_explicit(&link->sent, memory_order_relaxed),
                            atomic_load_explicit(&link->received, memory_order_relaxed)};
    return c;
}

const char *gb_link_peer(const gb_link_t *link)
{
    return link->peer;
}

int gb_link_is_shared(const gb_link_t *link)
{
    return link->shm != NULL;
}

int gb_link_is_encrypted(const gb_link_t *link)
{
    return link->tls != NULL;
}
