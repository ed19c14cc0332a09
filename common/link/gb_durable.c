/* The kept bytes are a list of parts in the order of the stream: parts of a ring, or memory of the caller.
 * [confirmed, sent) is covered by them, and [next, sent) is still to be written to the current link.
 *
 * `lock` protects state and list. Nobody holds it inside a link: who enters counts itself in `users`, and
 * a link is replaced when there are none. `writing` is held by who moves `next`. */
#include "common/link/gb_durable.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    PARTS = 2048,
    WINDOW = 64,      /* parts written at a time */
    SHORT = 64 << 10, /* a ring part ends there: acknowledged bytes free it soon */
};

typedef enum { UP, CUT, LOST } state_t;

typedef struct {
    uint64_t at; /* offset in the stream */
    uint64_t size;
    uint64_t place;       /* in the ring, counted for ever */
    const uint8_t *bytes; /* NULL: in the ring */
} part_t;

struct gb_durable {
    gb_link_t *link;
    gb_durable_reconnect_t reconnect;
    void *arg;
    atomic_int keeps;
    atomic_uint_fast64_t sent, received, confirmed, told;

    pthread_mutex_t writing;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    state_t state;
    int users;
    int mending; /* a thread is at it */
    unsigned generation;
    uint64_t next;
    uint8_t *ring;
    uint64_t head, tail; /* of the ring */
    part_t *parts;
    unsigned first, count;
};

/* What the ends tell each other on a new link. */
typedef struct {
    char magic[8];
    uint64_t received;
} resume_t;

static const char RESUME_MAGIC[8] = "GABLERES";

gb_status_t gb_durable_create(gb_link_t *link, gb_durable_reconnect_t reconnect, void *arg,
                              gb_durable_t **out)
{
    gb_durable_t *d = calloc(1, sizeof(*d));
    if (!d)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory for a connection");
    d->link = link;
    d->reconnect = reconnect;
    d->arg = arg;
    pthread_mutex_init(&d->writing, NULL);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    *out = d;
    return GB_OK;
}

void gb_durable_free(gb_durable_t *d)
{
    if (!d)
        return;
    gb_link_close(d->link);
    if (d->ring)
        munmap(d->ring, GB_DURABLE_KEEP);
    free(d->parts);
    pthread_mutex_destroy(&d->writing);
    pthread_mutex_destroy(&d->lock);
    pthread_cond_destroy(&d->changed);
    free(d);
}

gb_status_t gb_durable_keep(gb_durable_t *d)
{
    if (d->ring)
        return GB_OK;
    void *ring = mmap(NULL, GB_DURABLE_KEEP, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    part_t *parts = calloc(PARTS, sizeof(*parts));
    if (ring == MAP_FAILED || !parts) {
        if (ring != MAP_FAILED)
            munmap(ring, GB_DURABLE_KEEP);
        free(parts);
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory for a connection that can be resumed");
    }
    pthread_mutex_lock(&d->lock);
    d->ring = ring;
    d->parts = parts;
    d->next = atomic_load(&d->sent);
    atomic_store(&d->confirmed, d->next);
    atomic_store(&d->keeps, 1);
    pthread_mutex_unlock(&d->lock);
    return GB_OK;
}

int gb_durable_keeps(const gb_durable_t *d)
{
    return atomic_load_explicit(&d->keeps, memory_order_acquire);
}

gb_link_t *gb_durable_link(gb_durable_t *d)
{
    if (!gb_durable_keeps(d))
        return d->link;
    pthread_mutex_lock(&d->lock);
    gb_link_t *link = d->link;
    pthread_mutex_unlock(&d->lock);
    return link;
}

int gb_durable_fd(gb_durable_t *d)
{
    pthread_mutex_lock(&d->lock);
    int fd = gb_link_fd(d->link);
    pthread_mutex_unlock(&d->lock);
    return fd;
}

uint64_t gb_durable_heard(gb_durable_t *d)
{
    pthread_mutex_lock(&d->lock);
    uint64_t heard = gb_link_heard(d->link);
    pthread_mutex_unlock(&d->lock);
    return heard;
}

/* ---- the use of the link ---- */

static gb_status_t lost(void)
{
    return gb_fail(GB_ERR_LOST, "the connection is lost and was not resumed in time");
}

/* The link to use, and which one it is. GB_ERR_AGAIN: there is none now. */
static gb_status_t enter(gb_durable_t *d, int wait, gb_link_t **link, unsigned *generation)
{
    pthread_mutex_lock(&d->lock);
    while (wait && d->state == CUT && d->mending)
        pthread_cond_wait(&d->changed, &d->lock);
    state_t state = d->state;
    d->users += state == UP;
    *link = d->link;
    *generation = d->generation;
    pthread_mutex_unlock(&d->lock);
    return state == LOST ? lost() : state == CUT ? GB_ERR_AGAIN : GB_OK;
}

static void leave(gb_durable_t *d)
{
    pthread_mutex_lock(&d->lock);
    if (--d->users == 0)
        pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

/* With the lock held: takes a link that the peer has received that much of. */
static gb_status_t adopt(gb_durable_t *d, gb_link_t *link, uint64_t peer_received)
{
    uint64_t from = atomic_load(&d->confirmed), to = atomic_load(&d->sent);
    if (d->state == LOST || peer_received < from || peer_received > to) {
        gb_link_close(link);
        return d->state == LOST ? lost()
                                : gb_fail(GB_ERR_PROTOCOL,
                                          "the peer resumes at byte %llu, which "
                                          "is not among those kept",
                                          (unsigned long long)peer_received);
    }
    gb_link_close(d->link);
    d->link = link;
    d->next = peer_received;
    d->generation++;
    d->state = UP;
    return GB_OK;
}

/* With the lock held: nobody uses the link any more. */
static void cut(gb_durable_t *d)
{
    if (d->state == UP)
        d->state = CUT;
    gb_link_shutdown(d->link);
    while (d->users > 0)
        pthread_cond_wait(&d->changed, &d->lock);
}

/* After a failure with link `generation`: comes back when another one is there, or with the reason why
 * there will be none. */
static gb_status_t mend(gb_durable_t *d, unsigned generation)
{
    gb_status_t st = GB_OK;
    pthread_mutex_lock(&d->lock);
    if (d->state == UP && d->generation == generation) {
        d->state = CUT;
        gb_link_shutdown(d->link);
    }
    while (d->state == CUT && (d->mending || !d->reconnect))
        pthread_cond_wait(&d->changed, &d->lock);
    if (d->state == CUT) {
        gb_link_t *link = NULL;
        uint64_t peer_received = 0;
        d->mending = 1;
        cut(d);
        uint64_t received = atomic_load(&d->received);
        pthread_mutex_unlock(&d->lock);
        st = d->reconnect(d->arg, received, &link, &peer_received);
        pthread_mutex_lock(&d->lock);
        if (st == GB_OK)
            st = adopt(d, link, peer_received);
        if (st != GB_OK)
            d->state = LOST;
        d->mending = 0;
        pthread_cond_broadcast(&d->changed);
    } else if (d->state == LOST) {
        st = lost();
    }
    pthread_mutex_unlock(&d->lock);
    return st;
}

gb_status_t gb_durable_revive(gb_durable_t *d)
{
    if (!gb_durable_keeps(d))
        return GB_OK;
    pthread_mutex_lock(&d->lock);
    struct pollfd p = {gb_link_fd(d->link), POLLRDHUP, 0};
    int ended = d->state == UP && poll(&p, 1, 0) == 1;
    unsigned generation = d->generation;
    pthread_mutex_unlock(&d->lock);
    return ended ? mend(d, generation) : GB_OK;
}

gb_status_t gb_durable_suspend(gb_durable_t *d, uint64_t *received)
{
    if (!gb_durable_keeps(d))
        return gb_fail(GB_ERR_UNSUPPORTED,
                       "the client did not ask for a session that it can resume");
    pthread_mutex_lock(&d->lock);
    cut(d);
    gb_status_t st = d->state == LOST ? lost() : GB_OK;
    if (st == GB_OK)
        *received = atomic_load(&d->received);
    pthread_mutex_unlock(&d->lock);
    return st;
}

gb_status_t gb_durable_resume(gb_durable_t *d, gb_link_t *link, uint64_t peer_received)
{
    pthread_mutex_lock(&d->lock);
    gb_status_t st = adopt(d, link, peer_received);
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
    return st;
}

void gb_durable_cut(gb_durable_t *d)
{
    pthread_mutex_lock(&d->lock);
    gb_link_shutdown(d->link);
    pthread_mutex_unlock(&d->lock);
}

void gb_durable_lose(gb_durable_t *d)
{
    pthread_mutex_lock(&d->lock);
    d->state = LOST;
    gb_link_shutdown(d->link);
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

gb_status_t gb_durable_exchange(gb_link_t *link, uint64_t received, uint64_t deadline,
                                uint64_t *peer_received)
{
    resume_t mine = {.received = received}, its;
    memcpy(mine.magic, RESUME_MAGIC, sizeof(mine.magic));
    gb_status_t st = gb_link_send(link, &mine, sizeof(mine));
    if (st == GB_OK)
        st = gb_link_recv(link, &its, sizeof(its), deadline);
    if (st == GB_OK && memcmp(its.magic, RESUME_MAGIC, sizeof(its.magic)))
        st = gb_fail(GB_ERR_PROTOCOL, "the peer does not resume");
    if (st == GB_OK)
        *peer_received = its.received;
    return st;
}

/* ---- what is kept; with the lock held ---- */

static part_t *part_at(gb_durable_t *d, unsigned index)
{
    return &d->parts[(d->first + index) % PARTS];
}

static void add_part(gb_durable_t *d, uint64_t size, uint64_t place, const uint8_t *bytes)
{
    uint64_t at = atomic_load(&d->sent);
    part_t *last = d->count ? part_at(d, d->count - 1) : NULL;
    if (last && !last->bytes && !bytes && last->place + last->size == place &&
        place % GB_DURABLE_KEEP != 0 && last->size + size <= SHORT)
        last->size += size;
    else
        *part_at(d, d->count++) = (part_t){at, size, place, bytes};
    atomic_store(&d->sent, at + size);
}

static void keep_copy(gb_durable_t *d, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        uint64_t at = d->head % GB_DURABLE_KEEP, n = GB_DURABLE_KEEP - at;
        n = n < size ? n : size;
        memcpy(d->ring + at, bytes, n);
        add_part(d, n, d->head, NULL);
        d->head += n;
        bytes += n;
        size -= n;
    }
}

static void drop_until(gb_durable_t *d, uint64_t offset)
{
    while (d->count > 0 && part_at(d, 0)->at + part_at(d, 0)->size <= offset) {
        d->first = (d->first + 1) % PARTS;
        d->count--;
    }
    part_t *part = d->count ? part_at(d, 0) : NULL;
    if (part && part->at < offset) {
        uint64_t done = offset - part->at;
        part->at += done;
        part->size -= done;
        part->place += done;
        part->bytes = part->bytes ? part->bytes + done : NULL;
    }
    unsigned i = 0;
    while (i < d->count && part_at(d, i)->bytes)
        i++;
    d->tail = i < d->count ? part_at(d, i)->place : d->head;
    /* The beginning of the ring is still in the processor's cache. */
    if (d->tail == d->head)
        d->head = d->tail = (d->head + GB_DURABLE_KEEP - 1) / GB_DURABLE_KEEP * GB_DURABLE_KEEP;
}

static size_t room(const gb_durable_t *d)
{
    /* A copy may need two parts, and a call has a handful of pieces. */
    return d->count + 16 > PARTS ? 0 : GB_DURABLE_KEEP - (size_t)(d->head - d->tail);
}

/* What is to be written next: at most WINDOW pieces. Returns their number. */
static int next_window(gb_durable_t *d, struct iovec *out, uint64_t *bytes)
{
    int n = 0;
    *bytes = 0;
    for (unsigned i = 0; i < d->count && n < WINDOW; i++) {
        part_t *part = part_at(d, i);
        uint64_t skip = d->next > part->at ? d->next - part->at : 0;
        if (skip >= part->size)
            continue;
        const uint8_t *from = part->bytes ? part->bytes : d->ring + part->place % GB_DURABLE_KEEP;
        out[n].iov_base = (void *)(uintptr_t)(from + skip);
        out[n++].iov_len = part->size - skip;
        *bytes += part->size - skip;
    }
    return n;
}

/* ---- sending ---- */

/* With `writing` held. */
static gb_status_t push(gb_durable_t *d, int mends)
{
    for (;;) {
        struct iovec window[WINDOW];
        uint64_t bytes = 0;
        gb_link_t *link;
        unsigned generation;
        gb_status_t st = enter(d, 1, &link, &generation);
        if (st == GB_OK) {
            pthread_mutex_lock(&d->lock);
            int n = next_window(d, window, &bytes);
            pthread_mutex_unlock(&d->lock);
            st = n ? gb_link_sendv(link, window, n) : GB_OK;
            pthread_mutex_lock(&d->lock);
            if (st == GB_OK && n)
                d->next += bytes;
            pthread_mutex_unlock(&d->lock);
            leave(d);
            if (st == GB_OK && !n)
                return GB_OK;
        }
        if (st == GB_ERR_TIMEOUT)
            gb_durable_lose(d); /* the peer was silent for as long as it may be */
        if (st != GB_OK && mends)
            st = mend(d, generation);
        if (st != GB_OK)
            return st;
    }
}

gb_status_t gb_durable_sendv(gb_durable_t *d, const struct iovec *iov, int count, int reference)
{
    if (!gb_durable_keeps(d)) {
        uint64_t bytes = 0;
        gb_status_t st = gb_link_sendv(d->link, iov, count);
        for (int i = 0; i < count; i++)
            bytes += iov[i].iov_len;
        atomic_fetch_add_explicit(&d->sent, bytes, memory_order_relaxed);
        return st;
    }
    pthread_mutex_lock(&d->writing);
    pthread_mutex_lock(&d->lock);
    size_t need = 0;
    for (int i = 0; i < count; i++)
        need += i == reference ? 0 : iov[i].iov_len;
    int fits = need <= room(d) && room(d) > 0;
    for (int i = 0; i < count && fits; i++) {
        if (i == reference && iov[i].iov_len)
            add_part(d, iov[i].iov_len, 0, iov[i].iov_base);
        else
            keep_copy(d, iov[i].iov_base, iov[i].iov_len);
    }
    pthread_mutex_unlock(&d->lock);
    gb_status_t st = fits ? push(d, 1) : gb_fail(GB_ERR_LIMIT, "the peer acknowledges nothing");
    pthread_mutex_unlock(&d->writing);
    return st;
}

/* With both locks. A socket that is writable has room for some kilobytes. */
static int takes_more(gb_durable_t *d, size_t size)
{
    struct pollfd p = {gb_link_fd(d->link), POLLOUT, 0};
    return d->state == UP && d->next == atomic_load(&d->sent) && room(d) >= size &&
           !gb_link_unsent(d->link) && poll(&p, 1, 0) == 1 && (p.revents & POLLOUT);
}

gb_status_t gb_durable_try_send(gb_durable_t *d, const void *bytes, size_t size)
{
    struct iovec v = {(void *)(uintptr_t)bytes, size};
    size_t sent = 0;
    if (!gb_durable_keeps(d) || pthread_mutex_trylock(&d->writing) != 0)
        return GB_ERR_AGAIN;
    pthread_mutex_lock(&d->lock);
    int go = takes_more(d, size);
    if (go) {
        keep_copy(d, bytes, size);
        d->users++;
    }
    gb_link_t *link = d->link;
    pthread_mutex_unlock(&d->lock);
    if (go) {
        /* Of a cut the reader will hear; then it is sent with all that was not received. */
        (void)gb_link_try_sendv(link, &v, 1, &sent);
        pthread_mutex_lock(&d->lock);
        d->next += sent;
        pthread_mutex_unlock(&d->lock);
        leave(d);
    }
    pthread_mutex_unlock(&d->writing);
    return go ? GB_OK : GB_ERR_AGAIN;
}

static int is_up(gb_durable_t *d)
{
    pthread_mutex_lock(&d->lock);
    int up = d->state == UP;
    pthread_mutex_unlock(&d->lock);
    return up;
}

/* Who is writing pushes everything himself, unless he has just looked for the last time. */
gb_status_t gb_durable_push(gb_durable_t *d, int mends)
{
    gb_status_t st = GB_OK;
    while (gb_durable_unsent(d)) {
        if (pthread_mutex_trylock(&d->writing) == 0) {
            st = push(d, mends);
            pthread_mutex_unlock(&d->writing);
            break;
        }
        if (!is_up(d))
            break;
        poll(NULL, 0, 1);
    }
    return st;
}

int gb_durable_unsent(gb_durable_t *d)
{
    if (!gb_durable_keeps(d))
        return 0;
    pthread_mutex_lock(&d->lock);
    int some = d->next < atomic_load(&d->sent) && d->state != LOST;
    pthread_mutex_unlock(&d->lock);
    return some;
}

size_t gb_durable_room(gb_durable_t *d)
{
    if (!gb_durable_keeps(d))
        return SIZE_MAX;
    pthread_mutex_lock(&d->lock);
    size_t bytes = d->state == LOST ? SIZE_MAX : room(d);
    pthread_mutex_unlock(&d->lock);
    return bytes;
}

gb_status_t gb_durable_wait_room(gb_durable_t *d, size_t size)
{
    gb_status_t st = GB_OK;
    if (!gb_durable_keeps(d))
        return GB_OK;
    pthread_mutex_lock(&d->lock);
    while (d->state != LOST && room(d) < size)
        pthread_cond_wait(&d->changed, &d->lock);
    if (d->state == LOST)
        st = lost();
    pthread_mutex_unlock(&d->lock);
    return st;
}

gb_status_t gb_durable_wait_confirmed(gb_durable_t *d, uint64_t offset)
{
    gb_status_t st = GB_OK;
    if (!gb_durable_keeps(d))
        return GB_OK;
    pthread_mutex_lock(&d->lock);
    while (d->state != LOST && atomic_load(&d->confirmed) < offset)
        pthread_cond_wait(&d->changed, &d->lock);
    if (d->state == LOST)
        st = lost();
    pthread_mutex_unlock(&d->lock);
    return st;
}

/* ---- receiving ---- */

gb_status_t gb_durable_recv_some(gb_durable_t *d, void *buffer, size_t cap, uint64_t deadline,
                                 size_t *got)
{
    if (!gb_durable_keeps(d)) {
        gb_status_t st = gb_link_recv_some(d->link, buffer, cap, deadline, got);
        if (st == GB_OK)
            atomic_fetch_add_explicit(&d->received, *got, memory_order_relaxed);
        return st;
    }
    for (;;) {
        gb_link_t *link;
        unsigned generation;
        gb_status_t st = enter(d, deadline != 0, &link, &generation);
        if (st == GB_OK) {
            st = gb_link_recv_some(link, buffer, cap, deadline, got);
            if (st == GB_OK)
                atomic_fetch_add(&d->received, *got);
            leave(d);
            if (st == GB_OK || st == GB_ERR_AGAIN || (st == GB_ERR_TIMEOUT && deadline))
                return st;
        } else if (st == GB_ERR_LOST) {
            return st;
        }
        if (deadline == 0)
            return lost();
        st = mend(d, generation);
        if (st != GB_OK)
            return st;
    }
}

gb_status_t gb_durable_recv(gb_durable_t *d, void *buffer, size_t size)
{
    uint8_t *at = buffer;
    gb_status_t st = GB_OK;
    while (size > 0 && st == GB_OK) {
        size_t got = 0;
        st = gb_durable_recv_some(d, at, size, GB_NEVER, &got);
        at += got;
        size -= got;
    }
    return st;
}

void gb_durable_abandon(gb_durable_t *d)
{
    gb_link_abandon(d->link);
}

/* ---- offsets ---- */

uint64_t gb_durable_sent(const gb_durable_t *d)
{
    return atomic_load(&d->sent);
}

uint64_t gb_durable_received(const gb_durable_t *d)
{
    return atomic_load(&d->received);
}

uint64_t gb_durable_confirmed(const gb_durable_t *d)
{
    return atomic_load(&d->confirmed);
}

static uint64_t untold(const gb_durable_t *d)
{
    return gb_durable_keeps(d) ? atomic_load_explicit(&d->received, memory_order_relaxed) -
                                     atomic_load_explicit(&d->told, memory_order_relaxed)
                               : 0;
}

int gb_durable_ack_due(const gb_durable_t *d)
{
    return untold(d) >= GB_DURABLE_ACK_EVERY;
}

int gb_durable_ack_near(const gb_durable_t *d)
{
    return untold(d) >= GB_DURABLE_ACK_EVERY / 8;
}

void gb_durable_ack_told(gb_durable_t *d, uint64_t received)
{
    atomic_store(&d->told, received);
}

gb_status_t gb_durable_acked(gb_durable_t *d, uint64_t received)
{
    if (!gb_durable_keeps(d))
        return gb_fail(GB_ERR_PROTOCOL, "an acknowledgement that nobody asked for");
    pthread_mutex_lock(&d->lock);
    int good = received <= atomic_load(&d->sent) && received >= atomic_load(&d->confirmed);
    if (good) {
        drop_until(d, received);
        atomic_store(&d->confirmed, received);
        pthread_cond_broadcast(&d->changed);
    }
    pthread_mutex_unlock(&d->lock);
    return good ? GB_OK
                : gb_fail(GB_ERR_PROTOCOL, "an acknowledgement of byte %llu makes no sense",
                          (unsigned long long)received);
}
