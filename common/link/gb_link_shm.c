/* Shared memory between two processes of one machine, beside the Unix socket over which they met.
 *
 * The dialling side makes a memfd of fixed size (sealed, so that neither side can pull pages away from
 * under the other), passes it over the socket, and both map it: a ring for each direction, and for each
 * side a bell. The socket carries nothing more: its end tells that the peer's process is gone.
 *
 * The peer is not trusted. Each side counts what it has put and taken in memory of its own; the peer's
 * counter is read once per call and refused if it cannot be right; bytes are copied out of the ring
 * before anybody looks at them.
 *
 * Sleeping: a side sets the bit of what it waits for, looks again, and sleeps on its bell (a futex). Who
 * moves a counter looks at the other side's bits, after a full fence, and rings only if somebody
 * sleeps: two ends that are awake make no system call. */
#include "common/link/gb_link_impl.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/link/gb_socket.h"

enum {
    RING = 1 << 20,
    STRIDE = 64 << 10,  /* bytes after which a long transfer is shown to the peer */
    ROOM_AT = RING / 4, /* free bytes from which on a sleeping sender is rung */
    LOOK_MS = 100,      /* how often a sleeper looks at the socket that nobody watches */
    WAITS_DATA = 1,
    WAITS_ROOM = 2,
};

typedef struct {
    _Alignas(64) _Atomic uint64_t head; /* bytes ever put; the sender's */
    _Alignas(64) _Atomic uint64_t tail; /* bytes ever taken; the receiver's */
} lane_t;

/* Lines that change with every message are few: each costs the way from one core to the other. */
typedef struct {
    _Alignas(64) atomic_uint bell; /* futex: counts rings */
    atomic_uint waits;             /* WAITS_* of sleepers; set by the side, cleared by who rings */
    _Alignas(64) atomic_int cpu;   /* where the side ran when it last looked */
    atomic_int closed;             /* it puts nothing more */
} side_t;

/* What both see. Side 0 dialled; lane i goes away from side i. */
typedef struct {
    lane_t lanes[2];
    side_t sides[2];
    _Alignas(4096) uint8_t bytes[2][RING];
} shared_t;

struct gb_shm {
    shared_t *shared;
    int side;
    uint64_t put; /* sender's */
    uint64_t
        room; /* sender's: bytes that fit behind `put` for all that was last seen of the tail */
    uint64_t taken;  /* receiver's */
    atomic_int gone; /* the peer's process has ended */
};

static side_t *own(const gb_shm_t *m)
{
    return &m->shared->sides[m->side];
}

static side_t *peer(const gb_shm_t *m)
{
    return &m->shared->sides[!m->side];
}

static void ring(side_t *side, unsigned why)
{
    if (!(atomic_load(&side->waits) & why))
        return;
    atomic_fetch_and(&side->waits, ~why);
    atomic_fetch_add(&side->bell, 1);
    syscall(SYS_futex, &side->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static gb_status_t broken(gb_link_t *link)
{
    atomic_store(&link->final, GB_ERR_LOST);
    return gb_fail(GB_ERR_PROTOCOL, "%s has written nonsense into the shared memory", link->peer);
}

/* ---- the operation table ---- */

/* What the receiver has taken by now; 0 if that cannot be. */
static int look_for_room(gb_shm_t *m)
{
    lane_t *lane = &m->shared->lanes[m->side];
    uint64_t used = m->put - atomic_load_explicit(&lane->tail, memory_order_acquire);
    m->room = used <= RING ? RING - used : 0;
    return used <= RING;
}

/* Shows the peer on which core this side runs. */
static int say_where(gb_shm_t *m)
{
    int here = sched_getcpu();
    if (atomic_load_explicit(&own(m)->cpu, memory_order_relaxed) != here)
        atomic_store_explicit(&own(m)->cpu, here, memory_order_relaxed);
    return here;
}

/* A receiver that sleeps on another core is rung as soon as it finds something, so that both copy at the
 * same time; one on this core only when all is put, or no more fits: to be interrupted by it after every
 * stride takes longer than the copying. Callers come back until the cursor is done or nothing fits. */
static gb_status_t shm_try_send(gb_link_t *link, gb_cursor_t *cursor, size_t *sent)
{
    gb_shm_t *m = link->shm;
    lane_t *lane = &m->shared->lanes[m->side];
    uint8_t *bytes = m->shared->bytes[m->side];
    struct iovec next;
    size_t total = 0;
    if (atomic_load_explicit(&m->gone, memory_order_relaxed))
        return gb_link_lose(link, 0, "sending");
    while (total < STRIDE && gb_cursor_window(cursor, &next, 1)) {
        if (next.iov_len > m->room && m->room < STRIDE && !look_for_room(m))
            return broken(link);
        if (m->room == 0)
            break;
        size_t at = m->put % RING, n = m->room;
        n = next.iov_len < n ? next.iov_len : n;
        n = RING - at < n ? RING - at : n;
        n = STRIDE - total < n ? STRIDE - total : n;
        memcpy(bytes + at, next.iov_base, n);
        gb_cursor_advance(cursor, n);
        m->put += n;
        m->room -= n;
        total += n;
    }
    if (total)
        atomic_store(&lane->head, m->put); /* and a full fence: before looking for sleepers */
    int more = total > 0 && m->room > 0 && !gb_cursor_done(cursor);
    int apart = say_where(m) != atomic_load_explicit(&peer(m)->cpu, memory_order_relaxed);
    if (apart || !more)
        ring(peer(m), WAITS_DATA);
    *sent = total;
    return total ? GB_OK : GB_ERR_AGAIN;
}

static gb_status_t shm_try_flush(gb_link_t *link)
{
    (void)link;
    return GB_OK;
}

static int shm_unsent(const gb_link_t *link)
{
    (void)link;
    return 0;
}

/* Bytes that wait; UINT64_MAX if the counter cannot be right. */
static uint64_t waiting(const gb_shm_t *m)
{
    uint64_t n =
        atomic_load_explicit(&m->shared->lanes[!m->side].head, memory_order_acquire) - m->taken;
    return n > RING ? UINT64_MAX : n;
}

static int at_end(const gb_shm_t *m)
{
    return atomic_load(&peer(m)->closed) || atomic_load(&m->gone);
}

static gb_status_t shm_try_recv(gb_link_t *link, void *buffer, size_t cap, size_t *got)
{
    gb_shm_t *m = link->shm;
    lane_t *lane = &m->shared->lanes[!m->side];
    const uint8_t *bytes = m->shared->bytes[!m->side];
    int end = at_end(m); /* before looking: what was put before the end is still there */
    uint64_t here = waiting(m), total = 0;
    if (here == UINT64_MAX)
        return broken(link);
    if (here == 0)
        return end ? gb_link_lose(link, 0, "receiving") : GB_ERR_AGAIN;
    while (total < cap && total < here) {
        size_t at = m->taken % RING, n = here - total;
        n = n < cap - total ? n : cap - total;
        n = n < RING - at ? n : RING - at;
        n = n < STRIDE ? n : STRIDE;
        memcpy((uint8_t *)buffer + total, bytes + at, n);
        m->taken += n;
        total += n;
        atomic_store(&lane->tail, m->taken); /* and a full fence */
        if (here - total <= RING - ROOM_AT)
            ring(peer(m), WAITS_ROOM);
    }
    *got = total;
    return GB_OK;
}

static int shm_pending(gb_link_t *link)
{
    (void)link;
    return 0; /* nothing waits inside the transport: shm_ready sees all */
}

static int shm_ready(gb_link_t *link)
{
    return waiting(link->shm) != 0 || at_end(link->shm);
}

static int shm_has_room(const gb_link_t *link)
{
    const gb_shm_t *m = link->shm;
    uint64_t used =
        m->put - atomic_load_explicit(&m->shared->lanes[m->side].tail, memory_order_acquire);
    return used != RING || atomic_load(&m->gone);
}

int gb_shm_has_input(gb_link_t *link)
{
    lane_t *lane = &link->shm->shared->lanes[!link->shm->side];
    return atomic_load(&lane->head) != atomic_load(&lane->tail);
}

/* Two ends on one core must not wait for each other by looking. */
static int shm_may_spin(gb_link_t *link)
{
    return say_where(link->shm) !=
           atomic_load_explicit(&peer(link->shm)->cpu, memory_order_relaxed);
}

/* The other process has ended: its end of the socket is closed. */
static int socket_ended(const gb_link_t *link)
{
    uint8_t byte;
    ssize_t n = recv(link->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static short state_of(gb_link_t *link, short events)
{
    short ready = 0;
    if ((events & GB_SOCKET_IN) && shm_ready(link))
        ready |= GB_SOCKET_IN;
    if ((events & GB_SOCKET_OUT) && shm_has_room(link))
        ready |= GB_SOCKET_OUT;
    if (atomic_load(&link->final) != GB_OK)
        ready |= events; /* the next call tells */
    return ready;
}

static gb_status_t shm_wait(gb_link_t *link, short events, uint64_t deadline, short *ready)
{
    side_t *side = own(link->shm);
    unsigned why =
        (events & GB_SOCKET_IN ? WAITS_DATA : 0u) | (events & GB_SOCKET_OUT ? WAITS_ROOM : 0u);
    for (;;) {
        unsigned seen = atomic_load(&side->bell);
        atomic_fetch_or(&side->waits, why); /* a full fence, before looking again */
        *ready = state_of(link, events);
        uint64_t now = gb_now_ns();
        if (*ready)
            return GB_OK;
        if (now >= deadline)
            return gb_fail(GB_ERR_TIMEOUT, "no answer in time");
        uint64_t left = deadline == GB_NEVER ? GB_NEVER : deadline - now;
        if (!atomic_load(&link->watched) && left > LOOK_MS * 1000000ull)
            left = LOOK_MS * 1000000ull;
        struct timespec ts = {(time_t)(left / 1000000000u), (long)(left % 1000000000u)};
        syscall(SYS_futex, &side->bell, FUTEX_WAIT, seen, left == GB_NEVER ? NULL : &ts, NULL, 0);
        if (!atomic_load(&link->watched) && socket_ended(link))
            gb_link_peer_gone(link);
    }
}

static void shm_finish(gb_link_t *link)
{
    atomic_store(&own(link->shm)->closed, 1);
    ring(peer(link->shm), WAITS_DATA);
}

/* Wakes the sleepers of this side. */
static void shm_wake(gb_link_t *link)
{
    side_t *side = own(link->shm);
    atomic_fetch_add(&side->bell, 1);
    syscall(SYS_futex, &side->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void gb_link_peer_gone(gb_link_t *link)
{
    if (!link->shm)
        return; /* a socket says it itself */
    atomic_store(&link->shm->gone, 1);
    shm_wake(link);
}

static void shm_release(gb_link_t *link)
{
    shm_finish(link);
    munmap(link->shm->shared, sizeof(shared_t));
    free(link->shm);
    link->shm = NULL;
}

static const gb_link_ops_t shm_ops = {
    .name = "shm",
    .try_send = shm_try_send,
    .try_flush = shm_try_flush,
    .unsent = shm_unsent,
    .try_recv = shm_try_recv,
    .pending = shm_pending,
    .ready = shm_ready,
    .may_spin = shm_may_spin,
    .wait = shm_wait,
    .finish = shm_finish,
    .wake = shm_wake,
    .release = shm_release,
};

/* ---- making ---- */

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

gb_status_t gb_shm_create(int *fd)
{
    int memory = memfd_create("gable-link", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (memory < 0)
        return gb_fail_errno(GB_ERR_UNSUPPORTED, errno, "no shared memory");
    if (ftruncate(memory, sizeof(shared_t)) || fcntl(memory, F_ADD_SEALS, SEALS)) {
        close(memory);
        return gb_fail_errno(GB_ERR_UNSUPPORTED, errno, "no sealed shared memory");
    }
    *fd = memory;
    return GB_OK;
}

/* Seals that keep the size, and the size itself: the peer could kill us with SIGBUS otherwise. */
static gb_status_t check(int memory)
{
    int seals = fcntl(memory, F_GET_SEALS);
    off_t size = lseek(memory, 0, SEEK_END);
    if (seals < 0 || (seals & SEALS) != SEALS || size != (off_t)sizeof(shared_t))
        return gb_fail(GB_ERR_PROTOCOL, "what the peer wants to share is no link's memory");
    return GB_OK;
}

gb_status_t gb_shm_attach(gb_link_t *link, int memory, int side)
{
    gb_status_t st = check(memory);
    gb_shm_t *m = st == GB_OK ? calloc(1, sizeof(*m)) : NULL;
    void *shared = m ? mmap(NULL, sizeof(shared_t), PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0)
                     : MAP_FAILED;
    if (shared == MAP_FAILED) {
        free(m);
        return st ? st : gb_fail(GB_ERR_NO_MEMORY, "out of memory for a connection");
    }
    /* A child of fork() must not move the parent's counters. */
    (void)madvise(shared, sizeof(shared_t), MADV_DONTFORK);
    m->shared = shared;
    m->side = side;
    m->room = RING;
    atomic_store(&own(m)->cpu, sched_getcpu());
    link->shm = m;
    link->ops = &shm_ops;
    return GB_OK;
}

/* ---- the memory's way over the socket ---- */

gb_status_t gb_shm_send(int fd, int memory)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } ancillary = {0};
    char byte = 'm';
    struct iovec v = {&byte, 1};
    struct msghdr m = {.msg_iov = &v,
                       .msg_iovlen = 1,
                       .msg_control = ancillary.bytes,
                       .msg_controllen = sizeof(ancillary.bytes)};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &memory, sizeof(memory));
    if (sendmsg(fd, &m, MSG_NOSIGNAL) != 1)
        return gb_fail_errno(GB_ERR_LOST, errno, "cannot share memory with the peer");
    return GB_OK;
}

/* The first descriptor of a message; surplus ones are closed. */
static int take_descriptor(struct msghdr *m)
{
    int fd = -1;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int got;
            memcpy(&got, CMSG_DATA(c) + i * sizeof(got), sizeof(got));
            if (fd < 0)
                fd = got;
            else
                close(got);
        }
    }
    return fd;
}

gb_status_t gb_shm_receive(int fd, uint64_t deadline, int *memory)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } ancillary;
    char byte;
    struct iovec v = {&byte, 1};
    for (;;) {
        struct msghdr m = {.msg_iov = &v,
                           .msg_iovlen = 1,
                           .msg_control = ancillary.bytes,
                           .msg_controllen = sizeof(ancillary.bytes)};
        ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (n == 1) {
            *memory = take_descriptor(&m);
            return *memory >= 0 ? GB_OK : gb_fail(GB_ERR_PROTOCOL, "the peer shares no memory");
        }
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            return gb_fail(GB_ERR_LOST, "the peer closed before it had shared its memory");
        gb_status_t st = gb_socket_wait(fd, GB_SOCKET_IN, deadline);
        if (st != GB_OK)
            return st;
    }
}
