/* Links to other sessions: opening, losing, watching. */
#include "gpu-proxy/session/px_peer.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/core/gb_clock.h"
#include "common/core/gb_log.h"
#include "gpu-proxy/session/px_transfer.h"

enum {
    OPEN_MS = 5000,  /* to dial, and to be introduced */
    GRACE_MS = 3000, /* a cut link may come again; no memory waits for it */
    LOOK_MS = 250,   /* how often links are looked at that nobody need dial again */
    CUT_TRIES = 3,   /* of connections that end in the middle of resuming */
    LEAVE_MS = 200,  /* to say goodbye */
    PORCH = 16,      /* connections that are being recognised at a time */
};

/* ---- making and ending ---- */

static struct timespec in_ms(int ms)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += ms * 1000000l;
    t.tv_sec += t.tv_nsec / 1000000000;
    t.tv_nsec %= 1000000000;
    return t;
}

gb_status_t px_peers_create(uint32_t timeout_ms, px_peers_t **out)
{
    px_peers_t *peers = calloc(1, sizeof(*peers));
    if (!peers)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    peers->timeout_ms = timeout_ms;
    pthread_mutex_init(&peers->lock, NULL);
    pthread_cond_init(&peers->gone, NULL);
    pthread_cond_init(&peers->ending, NULL);
    pthread_cond_init(&peers->work, NULL);
    pthread_cond_init(&peers->room, NULL);
    *out = peers;
    return GB_OK;
}

void px_peers_free(px_peers_t *peers)
{
    pthread_mutex_destroy(&peers->lock);
    pthread_cond_destroy(&peers->gone);
    pthread_cond_destroy(&peers->ending);
    pthread_cond_destroy(&peers->work);
    pthread_cond_destroy(&peers->room);
    free(peers);
}

gb_status_t px_peers_thread(px_peers_t *peers, void *(*run)(void *), void *arg)
{
    pthread_mutex_lock(&peers->lock);
    gb_status_t st = px_peers_thread_locked(peers, run, arg);
    pthread_mutex_unlock(&peers->lock);
    return st;
}

gb_status_t px_peers_thread_locked(px_peers_t *peers, void *(*run)(void *), void *arg)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    int error = peers->over ? ECANCELED : pthread_create(&thread, &attributes, run, arg);
    peers->threads += !error;
    pthread_attr_destroy(&attributes);
    return error ? gb_fail_errno(GB_ERR_IO, error, "cannot start a thread") : GB_OK;
}

void px_peers_thread_end(px_peers_t *peers)
{
    pthread_mutex_lock(&peers->lock);
    peers->threads--;
    pthread_cond_broadcast(&peers->gone);
    pthread_mutex_unlock(&peers->lock);
}

px_peer_t *px_peer_get(px_peers_t *peers, uint32_t number)
{
    pthread_mutex_lock(&peers->lock);
    px_peer_t *p = number < PX_WIRE_PEERS ? peers->list[number] : NULL;
    if (p)
        p->refs++;
    pthread_mutex_unlock(&peers->lock);
    return p;
}

static void ref(px_peer_t *p)
{
    pthread_mutex_lock(&p->peers->lock);
    p->refs++;
    pthread_mutex_unlock(&p->peers->lock);
}

void px_peer_put(px_peer_t *p)
{
    pthread_mutex_lock(&p->peers->lock);
    int last = --p->refs == 0;
    pthread_mutex_unlock(&p->peers->lock);
    if (!last)
        return;
    gb_durable_free(p->stream);
    pthread_mutex_destroy(&p->send_lock);
    pthread_cond_destroy(&p->opened);
    pthread_cond_destroy(&p->wake);
    gb_wipe(p, sizeof(*p));
    free(p);
}

void px_peer_lose(px_peer_t *p, const char *why)
{
    pthread_mutex_lock(&p->peers->lock);
    int first = p->state != PX_PEER_LOST;
    int busy = 0;
    for (int i = 0; i < PX_PEER_BUCKETS && first; i++)
        busy |= p->table[i] != NULL;
    if (first) {
        gb_log(busy ? GB_LOG_WARN : GB_LOG_INFO, "the link to session %u of the client is lost: %s",
               p->number, why);
        p->state = PX_PEER_LOST;
        px_transfers_lost(p);
        pthread_cond_broadcast(&p->opened);
        pthread_cond_broadcast(&p->wake);
    }
    gb_durable_t *stream = p->stream;
    pthread_mutex_unlock(&p->peers->lock);
    if (first && stream)
        gb_durable_lose(stream);
}

/* Takes the place of an older link. The caller has a reference. */
static px_peer_t *enter(px_call_t *call, const px_wire_pair_t *pair, px_peer_state_t state)
{
    px_peers_t *peers = call->session->config->peers;
    px_peer_t *p = pair->peer < PX_WIRE_PEERS ? calloc(1, sizeof(*p)) : NULL;
    if (!p)
        return NULL;
    p->peers = peers;
    p->number = pair->peer;
    p->attempt = pair->attempt;
    p->refs = 2;
    p->state = state;
    memcpy(p->secret.bytes, pair->secret, sizeof(p->secret.bytes));
    pthread_mutex_init(&p->send_lock, NULL);
    pthread_cond_init(&p->opened, NULL);
    pthread_cond_init(&p->wake, NULL);
    pthread_mutex_lock(&peers->lock);
    peers->session = call->session;
    px_peer_t *old = peers->list[p->number];
    peers->list[p->number] = p;
    pthread_mutex_unlock(&peers->lock);
    if (old) {
        px_peer_lose(old, "the client has another one made");
        px_peer_put(old);
    }
    return p;
}

/* The clerks say goodbye, so that the other sessions do not take the end for a cut, and dial again. Not for long:
 * a link may be full, or cut. */
static void take_leave(px_peers_t *peers)
{
    struct timespec until = in_ms(LEAVE_MS);
    int error = 0;
    pthread_mutex_lock(&peers->lock);
    for (int i = 0; i < PX_WIRE_PEERS; i++)
        if (peers->list[i] && peers->list[i]->state == PX_PEER_UP) {
            peers->list[i]->leaves = 1;
            pthread_cond_signal(&peers->list[i]->wake);
        }
    for (int i = 0; i < PX_WIRE_PEERS && !error; i++)
        while (peers->list[i] && peers->list[i]->state == PX_PEER_UP && peers->list[i]->leaves &&
               !error)
            error = pthread_cond_timedwait(&peers->gone, &peers->lock, &until);
    pthread_mutex_unlock(&peers->lock);
}

int px_peers_end(px_peers_t *peers, int ms)
{
    pthread_mutex_lock(&peers->lock);
    peers->over = 1;
    pthread_cond_broadcast(&peers->ending);
    pthread_cond_broadcast(&peers->work);
    pthread_cond_broadcast(&peers->room);
    pthread_mutex_unlock(&peers->lock);
    take_leave(peers);
    for (uint32_t i = 0; i < PX_WIRE_PEERS; i++) {
        px_peer_t *p = px_peer_get(peers, i);
        if (p) {
            px_peer_lose(p, "the session ends");
            px_peer_put(p);
        }
    }
    struct timespec until = in_ms(ms);
    pthread_mutex_lock(&peers->lock);
    while (peers->threads > 0 && pthread_cond_timedwait(&peers->gone, &peers->lock, &until) == 0)
        continue;
    int gone = peers->threads == 0;
    pthread_mutex_unlock(&peers->lock);
    for (int i = 0; i < PX_WIRE_PEERS && gone; i++) {
        if (peers->list[i])
            px_peer_put(peers->list[i]);
        peers->list[i] = NULL;
    }
    return gone;
}

/* ---- a link that is cut ---- */

/* Dials again until the other session has surely given this one up. */
static gb_status_t reconnect(void *arg, uint64_t received, gb_link_t **out, uint64_t *peer_received)
{
    px_peer_t *p = arg;
    uint64_t end = atomic_load(&p->heard) + p->peers->timeout_ms * 1000000ull, now = gb_now_ns();
    gb_status_t st = gb_fail(GB_ERR_TIMEOUT, "nothing was heard of it");
    int cuts = 0;
    gb_log(GB_LOG_INFO, "the link to session %u of the client is cut: dialling again", p->number);
    for (int pause = 5; now < end; pause = pause * 2 < 200 ? pause * 2 : 200) {
        gb_link_t *link;
        p->credential.connection++;
        st = gb_link_dial(&p->endpoint, &p->credential, end, &link);
        if (st == GB_OK) {
            gb_link_set_silence(link, p->peers->timeout_ms);
            st = gb_durable_exchange(link, received, end, peer_received);
            if (st == GB_OK) {
                atomic_store(&p->heard, gb_now_ns());
                *out = link;
                return GB_OK;
            }
            gb_link_close(link);
            cuts++;
        }
        if ((st != GB_ERR_LOST && st != GB_ERR_TIMEOUT) || cuts == CUT_TRIES)
            break; /* the other session, or its proxy, is gone for good */
        poll(NULL, 0, pause);
        now = gb_now_ns();
    }
    return st;
}

/* The other session has dialled again. */
static gb_status_t resume(px_peer_t *p, gb_link_t *link, uint32_t connection, uint64_t deadline)
{
    uint64_t received, peer_received;
    pthread_mutex_lock(&p->peers->lock);
    int good = p->state == PX_PEER_UP && connection > p->taken;
    if (good)
        p->taken = connection;
    pthread_mutex_unlock(&p->peers->lock);
    gb_status_t st = good ? gb_durable_suspend(p->stream, &received)
                          : gb_fail(GB_ERR_CANCELLED, "the link to it has been given up");
    if (st == GB_OK)
        st = gb_durable_exchange(link, received, deadline, &peer_received);
    if (st != GB_OK) {
        static const uint8_t no[16] = {0}; /* it need not try again */
        if (!good)
            (void)gb_link_send(link, no, sizeof(no));
        gb_link_close(link);
        return st;
    }
    atomic_store(&p->heard, gb_now_ns());
    st = gb_durable_resume(p->stream, link, peer_received);
    if (st == GB_OK)
        (void)gb_durable_push(p->stream, 0); /* another cut shows to the reader */
    return st;
}

/* ---- watching: one thread for all links, which never sends ---- */

typedef struct {
    px_peer_t *peer;
    uint64_t ended; /* when its socket was first seen to have ended; 0 = it has not */
} seen_t;

static void look_at(px_peer_t *p, seen_t *seen, uint64_t now)
{
    uint64_t timeout = p->peers->timeout_ms * 1000000ull, heard = atomic_load(&p->heard);
    int waits = gb_durable_keeps(p->stream) && p->endpoint.name[0] == 0;
    struct pollfd end = {gb_durable_fd(p->stream), POLLRDHUP, 0};
    if (seen->peer != p)
        *seen = (seen_t){.peer = p};
    if (!waits || poll(&end, 1, 0) != 1)
        seen->ended = 0;
    else if (!seen->ended)
        seen->ended = now;
    uint64_t grace = timeout / 2 < GRACE_MS * 1000000ull ? timeout / 2 : GRACE_MS * 1000000ull;
    if (seen->ended && now - seen->ended > grace)
        px_peer_lose(p, "its connection has ended");
    else if (!atomic_load(&p->busy) && now > heard && now - heard > timeout)
        px_peer_lose(p, "it has been silent for too long");
}

static int is_watched(px_peers_t *peers, px_peer_t *p)
{
    pthread_mutex_lock(&peers->lock);
    int up = p->state == PX_PEER_UP;
    pthread_mutex_unlock(&peers->lock);
    return up;
}

/* 1 = the session ends. */
static int nap(px_peers_t *peers)
{
    struct timespec until = in_ms(LOOK_MS);
    pthread_mutex_lock(&peers->lock);
    while (!peers->over && pthread_cond_timedwait(&peers->ending, &peers->lock, &until) == 0)
        continue;
    int over = peers->over;
    pthread_mutex_unlock(&peers->lock);
    return over;
}

static void *watch(void *arg)
{
    px_peers_t *peers = arg;
    seen_t seen[PX_WIRE_PEERS] = {{NULL, 0}};
    for (int over = 0; !over;) {
        over = nap(peers);
        for (uint32_t i = 0; i < PX_WIRE_PEERS; i++) {
            px_peer_t *p = px_peer_get(peers, i);
            if (!p)
                continue;
            if (is_watched(peers, p))
                look_at(p, &seen[i], gb_now_ns());
            px_peer_put(p);
        }
    }
    px_peers_thread_end(peers);
    return NULL;
}

/* ---- opening ---- */

/* The reader's end: tells the client, whose next copy has another link made. */
static void end_reading(px_peer_t *p)
{
    uint64_t words[2] = {p->number, p->attempt};
    struct iovec part = {words, sizeof(words)};
    px_peers_t *peers = p->peers;
    pthread_mutex_lock(&peers->lock);
    px_session_t *s = peers->over ? NULL : peers->session;
    pthread_mutex_unlock(&peers->lock);
    if (s)
        (void)px_send_notice(s, PX_OP_PEER_LOST, &part, 1);
    px_peer_put(p);
    px_peers_thread_end(peers);
}

static void *reader(void *arg)
{
    px_peer_read(arg);
    end_reading(arg);
    return NULL;
}

/* Both ends know each other: takes the link over. */
static gb_status_t start(px_peer_t *p, gb_link_t *link, int keeps, int dialled)
{
    px_peers_t *peers = p->peers;
    gb_durable_t *stream;
    gb_link_set_silence(link, peers->timeout_ms);
    gb_status_t st = gb_durable_create(link, dialled ? reconnect : NULL, p, &stream);
    if (st != GB_OK) {
        gb_link_close(link);
        return st;
    }
    if (keeps)
        st = gb_durable_keep(stream);
    atomic_store(&p->heard, gb_now_ns());
    atomic_store(&p->sent, gb_now_ns());
    pthread_mutex_lock(&peers->lock);
    p->stream = stream;
    if (p->state != PX_PEER_OPENING && st == GB_OK)
        st = gb_fail(GB_ERR_CANCELLED, "the client has another link made");
    if (st == GB_OK)
        p->state = PX_PEER_UP;
    int watched = peers->watched;
    peers->watched = 1;
    pthread_cond_broadcast(&p->opened);
    pthread_mutex_unlock(&peers->lock);
    if (st == GB_OK && !watched)
        st = px_peers_thread(peers, watch, peers);
    ref(p);
    if (st == GB_OK)
        st = px_peers_thread(peers, px_peer_clerk, p);
    if (st != GB_OK)
        px_peer_put(p);
    ref(p);
    if (st == GB_OK)
        st = px_peers_thread(peers, reader, p);
    if (st != GB_OK)
        px_peer_put(p);
    return st;
}

/* What the client said about the other session. */
static gb_status_t read_pair(px_peer_t *p, const px_wire_pair_t *pair)
{
    if (!memchr(pair->endpoint, 0, sizeof(pair->endpoint)) || pair->number >= PX_WIRE_PEERS)
        return gb_fail(GB_ERR_PROTOCOL, "the client names no endpoint");
    p->credential = (gb_credential_t){.service = GB_SERVICE_PEER,
                                      .lease = pair->lease,
                                      .session = pair->session,
                                      .connection = pair->number << 16,
                                      .insecure = pair->insecure != 0,
                                      .socket_only = pair->socket_only != 0};
    memcpy(p->credential.key.bytes, pair->key, sizeof(pair->key));
    return gb_endpoint_parse(pair->endpoint, 7072, &p->endpoint);
}

static gb_status_t dial(px_peer_t *p, const px_wire_pair_t *pair)
{
    gb_link_t *link;
    uint64_t deadline = gb_now_ns() + OPEN_MS * 1000000ull;
    gb_status_t st = read_pair(p, pair);
    if (st != GB_OK)
        return st;
    /* On one machine a connection ends with a process only: there is nothing to resume. */
    const char *line = getenv("GABLE_LINK_EMULATE");
    int keeps = p->endpoint.kind == GB_ENDPOINT_TCP || (line && *line);
    st = gb_link_dial(&p->endpoint, &p->credential, deadline, &link);
    if (st != GB_OK)
        return st;
    st = px_peer_introduce(link, &p->secret, keeps, deadline);
    if (st != GB_OK) {
        gb_link_close(link);
        return st;
    }
    return start(p, link, keeps, 1);
}

/* px_wire_pair_t -> u64 gb_status_t, text */
CUresult px_peer_dial(px_call_t *call)
{
    const px_wire_pair_t *pair = (const void *)call->payload;
    px_peers_t *peers = call->session->config->peers;
    if (!call->may_block)
        return PX_WOULD_BLOCK;
    if (!peers)
        return CUDA_ERROR_NOT_SUPPORTED;
    px_peer_t *p = enter(call, pair, PX_PEER_OPENING);
    if (!p)
        return pair->peer < PX_WIRE_PEERS ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    gb_status_t st = dial(p, pair);
    call->out[0] = st;
    call->outs = 1;
    if (st != GB_OK) {
        call->extra = strdup(gb_why());
        call->extra_size = call->extra ? (uint32_t)strlen(call->extra) : 0;
        px_peer_lose(p, gb_why());
    } else {
        gb_log(GB_LOG_INFO, "linked to session %u of the client, at %s", p->number, pair->endpoint);
    }
    px_peer_put(p);
    return CUDA_SUCCESS;
}

/* px_wire_pair_t */
CUresult px_peer_expect(px_call_t *call)
{
    const px_wire_pair_t *pair = (const void *)call->payload;
    px_peers_t *peers = call->session->config->peers;
    if (!peers)
        return CUDA_ERROR_NOT_SUPPORTED;
    px_peer_t *p = enter(call, pair, PX_PEER_EXPECTED);
    if (!p)
        return pair->peer < PX_WIRE_PEERS ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    px_peer_put(p);
    return CUDA_SUCCESS;
}

/* ---- being dialled ---- */

typedef struct {
    px_peers_t *peers;
    int fd;
    gb_preamble_t facts;
    gb_key_t key;
} offer_t;

/* Only one comes. Who knows the secret is not kept out by others that are being asked for it: the first one
 * that proves it is the one. */
static gb_status_t claim(px_peer_t *p, px_peer_state_t state)
{
    pthread_mutex_lock(&p->peers->lock);
    int expected = p->state == PX_PEER_EXPECTED;
    if (expected)
        p->state = state;
    pthread_mutex_unlock(&p->peers->lock);
    return expected ? GB_OK : gb_fail(GB_ERR_UNAUTHORISED, "nobody is expected from there");
}

static gb_status_t welcome(px_peer_t *p, gb_link_t *link, uint64_t deadline)
{
    int keeps;
    gb_status_t st = claim(p, PX_PEER_EXPECTED);
    if (st == GB_OK)
        st = px_peer_recognise(link, &p->secret, deadline, &keeps);
    if (st == GB_OK)
        st = claim(p, PX_PEER_OPENING);
    if (st != GB_OK) {
        gb_link_close(link);
        return st;
    }
    st = px_peer_ready(link);
    if (st == GB_OK)
        st = start(p, link, keeps, 0);
    else
        gb_link_close(link);
    if (st != GB_OK)
        px_peer_lose(p, gb_why());
    return st;
}

/* Those that have not proved anything are few. */
static int enter_porch(px_peers_t *peers, int by)
{
    pthread_mutex_lock(&peers->lock);
    int room = by < 0 || peers->porch < PORCH;
    peers->porch += room ? by : 0;
    pthread_mutex_unlock(&peers->lock);
    return room;
}

static void *accept_one(void *arg)
{
    offer_t *o = arg;
    gb_link_t *link;
    uint32_t number = o->facts.connection >> 16, connection = o->facts.connection & 0xffff;
    uint64_t deadline = gb_now_ns() + OPEN_MS * 1000000ull;
    px_peers_t *peers = o->peers;
    px_peer_t *p = px_peer_get(peers, number);
    gb_status_t st = gb_link_adopt(o->fd, &o->facts, &o->key, deadline, &link);
    if (st == GB_OK && !p) {
        gb_link_close(link);
        st = gb_fail(GB_ERR_UNAUTHORISED, "nobody is expected from there");
    } else if (st == GB_OK) {
        st = connection ? resume(p, link, connection, deadline) : welcome(p, link, deadline);
    }
    if (st != GB_OK)
        gb_log(GB_LOG_WARN, "a connection that says to be session %u of the client is refused: %s",
               number, gb_why());
    if (p)
        px_peer_put(p);
    gb_wipe(o, sizeof(*o));
    free(o);
    (void)enter_porch(peers, -1);
    px_peers_thread_end(peers);
    return NULL;
}

void px_peers_offer(px_peers_t *peers, int fd, const gb_preamble_t *facts, const gb_key_t *key)
{
    offer_t *o = malloc(sizeof(*o));
    gb_status_t st = GB_ERR_LIMIT;
    if (o && enter_porch(peers, 1)) {
        *o = (offer_t){peers, fd, *facts, *key};
        st = px_peers_thread(peers, accept_one, o);
        if (st == GB_OK)
            return;
        (void)enter_porch(peers, -1);
    }
    gb_log(GB_LOG_WARN, "a connection of another session is refused: too many are on their way");
    close(fd);
    if (o)
        gb_wipe(o, sizeof(*o));
    free(o);
}
