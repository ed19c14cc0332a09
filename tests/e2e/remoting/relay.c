#include "tests/e2e/remoting/relay.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { CALLERS = 256, BUFFER = 64 << 10 };

/* What one side has sent and the other has not taken yet: nobody is read from before. */
typedef struct {
    char bytes[BUFFER];
    size_t start, end;
} way_t;

struct relay {
    char path[108], target[108];
    int listener;
    int fds[CALLERS][2];  /* caller, target */
    way_t *ways[CALLERS]; /* two each: from the caller, from the target */
    int count;
    int stop[2];
    int wake[2];
    atomic_int held, refused;
    _Atomic uint64_t bytes[2]; /* up, down */
    pthread_t thread;
};

static void give_up(const char *what)
{
    perror(what);
    exit(1);
}

static struct sockaddr_un address_of(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    return address;
}

static void take_caller(relay_t *relay)
{
    struct sockaddr_un address = address_of(relay->target);
    int *pair = relay->fds[relay->count];
    if (relay->count == CALLERS)
        give_up("relay: too many callers");
    pair[0] = accept(relay->listener, NULL, NULL);
    if (atomic_load(&relay->refused)) {
        close(pair[0]);
        return;
    }
    pair[1] = socket(AF_UNIX, SOCK_STREAM, 0);
    if (pair[0] < 0 || connect(pair[1], (struct sockaddr *)&address, sizeof(address)) != 0)
        give_up("relay: connect");
    relay->ways[relay->count] = calloc(2, sizeof(way_t));
    relay->count++;
}

/* As much as goes; 0 when the other side has ended. */
static int pass_on(const int *pair, way_t *way, int from)
{
    ssize_t n = send(pair[!from], way->bytes + way->start, way->end - way->start,
                     MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN;
    way->start += (size_t)n;
    if (way->start == way->end)
        way->start = way->end = 0;
    return 1;
}

/* 0 when that side has ended. */
static int forward(relay_t *relay, const int *pair, way_t *way, int from)
{
    ssize_t n = read(pair[from], way->bytes, BUFFER);
    if (n <= 0)
        return 0;
    atomic_fetch_add(&relay->bytes[from], (uint64_t)n); /* before anybody can have seen them */
    way->end = (size_t)n;
    return pass_on(pair, way, from);
}

static struct pollfd interest(const relay_t *relay, int i, int side)
{
    const way_t *ways = relay->ways[i];
    short events = (short)((ways[side].end ? 0 : POLLIN) | (ways[!side].end ? POLLOUT : 0));
    return (struct pollfd){events ? relay->fds[i][side] : -1, events, 0};
}

/* 0 when a side has ended. */
static int serve(relay_t *relay, int i, int side, short ready)
{
    way_t *ways = relay->ways[i];
    int good = 1;
    if ((ready & POLLOUT) && ways[!side].end)
        good = pass_on(relay->fds[i], &ways[!side], !side);
    if (good && (ready & ~POLLOUT) && !ways[side].end)
        good = forward(relay, relay->fds[i], &ways[side], side);
    return good;
}

static void close_pair(int *pair)
{
    if (pair[0] < 0)
        return;
    close(pair[0]);
    close(pair[1]);
    pair[0] = pair[1] = -1; /* poll() passes over it */
}

static void *run(void *arg)
{
    relay_t *relay = arg;
    for (;;) {
        struct pollfd polled[3 + 2 * CALLERS];
        int n = 0, callers = relay->count, held = atomic_load(&relay->held);
        char byte;
        polled[n++] = (struct pollfd){relay->stop[0], POLLIN, 0};
        polled[n++] = (struct pollfd){relay->wake[0], POLLIN, 0};
        polled[n++] = (struct pollfd){relay->listener, POLLIN, 0};
        for (int i = 0; i < callers; i++)
            for (int k = 0; k < 2; k++)
                polled[n++] = held ? (struct pollfd){-1, 0, 0} : interest(relay, i, k);
        if (poll(polled, (nfds_t)n, -1) < 0 || polled[0].revents)
            return NULL;
        if (polled[1].revents && read(relay->wake[0], &byte, 1) != 1)
            return NULL;
        for (int i = 0; i < callers && atomic_load(&relay->refused); i++)
            close_pair(relay->fds[i]);
        if (polled[2].revents)
            take_caller(relay);
        for (int i = 0; i < 2 * callers; i++) {
            int *pair = relay->fds[i / 2];
            if (polled[3 + i].revents && pair[0] >= 0 &&
                !serve(relay, i / 2, i % 2, polled[3 + i].revents))
                close_pair(pair);
        }
    }
}

relay_t *relay_start(const char *path, const char *target)
{
    relay_t *relay = calloc(1, sizeof(*relay));
    struct sockaddr_un address = address_of(path);
    snprintf(relay->path, sizeof(relay->path), "%s", path);
    snprintf(relay->target, sizeof(relay->target), "%s", target);
    relay->listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(relay->listener, (struct sockaddr *)&address, sizeof(address)) ||
        listen(relay->listener, CALLERS) || pipe(relay->stop) || pipe(relay->wake) ||
        pthread_create(&relay->thread, NULL, run, relay))
        give_up("relay: start");
    return relay;
}

uint64_t relay_up(const relay_t *relay)
{
    return atomic_load(&relay->bytes[0]);
}

uint64_t relay_down(const relay_t *relay)
{
    return atomic_load(&relay->bytes[1]);
}

static void tell(relay_t *relay)
{
    if (write(relay->wake[1], "", 1) != 1)
        give_up("relay: wake");
}

void relay_hold(relay_t *relay, int on)
{
    atomic_store(&relay->held, on);
    tell(relay);
}

void relay_refuse(relay_t *relay, int on)
{
    atomic_store(&relay->refused, on);
    tell(relay);
}

void relay_stop(relay_t *relay)
{
    close(relay->stop[1]);
    pthread_join(relay->thread, NULL);
    for (int i = 0; i < relay->count; i++) {
        free(relay->ways[i]);
        if (relay->fds[i][0] < 0)
            continue;
        close(relay->fds[i][0]);
        close(relay->fds[i][1]);
    }
    close(relay->stop[0]);
    close(relay->wake[0]);
    close(relay->wake[1]);
    close(relay->listener);
    unlink(relay->path);
    free(relay);
}
