#include "server/params/ps_conn.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "common/core/gb_log.h"
#include "server/params/ps_server.h"
#include "server/params/ps_view.h"

enum {
    PS_READ_ROUND = 8 << 20, /* bytes read from one connection before the others get their turn */
    PS_TX_PAUSE = 4096,      /* queued answers at which a connection is not read any more */
    PS_TX_RESUME = 1024,
    PS_TX_BATCH = 16, /* frames in one write */
};

gb_status_t ps_conn_new(gb_link_t *link, uint64_t lease, const gbx_hello_t *hello, ps_job_t *job,
                        ps_conn_t **out)
{
    ps_conn_t *conn = calloc(1, sizeof(*conn));
    if (!conn) {
        gb_link_close(link);
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    }
    conn->link = link;
    conn->lease = lease;
    conn->hello = *hello;
    conn->job = ps_job_ref(job);
    *out = conn;
    return GB_OK;
}

static void tx_release(ps_tx_t *tx)
{
    ps_buf_unref(tx->buf);
    free(tx->owned);
}

void ps_conn_free(ps_conn_t *conn)
{
    for (uint32_t i = 0; i < conn->tx_count; i++)
        tx_release(&conn->tx[(conn->tx_first + i) % conn->tx_cap]);
    free(conn->tx);
    free(conn->payload);
    gb_link_close(conn->link);
    ps_job_unref(conn->job);
    free(conn);
}

static void watch(ps_conn_t *conn, uint32_t events)
{
    if (events == conn->events)
        return;
    struct epoll_event ev = {.events = events, .data.ptr = conn};
    epoll_ctl(conn->owner->epoll, conn->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD,
              gb_link_fd(conn->link), &ev);
    conn->events = events;
}

void ps_conn_kill(ps_conn_t *conn, ps_gone_t how, const char *why)
{
    if (conn->dead)
        return;
    conn->dead = 1;
    conn->gone = how;
    gb_log(how == PS_GONE_LOST ? GB_LOG_WARN : GB_LOG_DEBUG, "job %s: worker %u at %s: %s",
           conn->job->name, conn->hello.worker, gb_link_peer(conn->link), why);
    epoll_ctl(conn->owner->epoll, EPOLL_CTL_DEL, gb_link_fd(conn->link), NULL);
    if (conn->view)
        ps_view_conn_gone(conn->view, conn);
}

void ps_conn_adopt(ps_owner_t *owner, ps_conn_t *conn)
{
    conn->owner = owner;
    conn->next = owner->conns;
    owner->conns = conn;
    watch(conn, EPOLLIN);
    conn->view = ps_view_get(owner, conn->job);
    if (!conn->view) {
        ps_conn_kill(conn, PS_GONE_LOST, gb_why());
        return;
    }
    /* The worker is back before we saw its old connection end: what that was sending is void. */
    for (ps_conn_t *old = conn->next; old; old = old->next) {
        if (old->job == conn->job && old->hello.worker == conn->hello.worker)
            ps_conn_kill(old, PS_GONE_TOLD, "replaced by a new connection");
    }
    if (conn->hello.generation != atomic_load(&conn->job->generation))
        ps_conn_error(conn, GBX_OP_NOTICE, 0, GBX_GENERATION, "the job has a new generation");
    owner->more = 1;
}

/* ---- out ---- */

static ps_tx_t *tx_push(ps_conn_t *conn)
{
    if (conn->tx_count == conn->tx_cap) {
        uint32_t cap = conn->tx_cap ? conn->tx_cap * 2 : 32;
        ps_tx_t *grown = malloc(cap * sizeof(*grown));
        if (!grown) {
            conn->failed = 1;
            return NULL;
        }
        for (uint32_t i = 0; i < conn->tx_count; i++)
            grown[i] = conn->tx[(conn->tx_first + i) % conn->tx_cap];
        free(conn->tx);
        conn->tx = grown;
        conn->tx_cap = cap;
        conn->tx_first = 0;
    }
    ps_tx_t *tx = &conn->tx[(conn->tx_first + conn->tx_count++) % conn->tx_cap];
    memset(tx, 0, sizeof(*tx));
    return tx;
}

static ps_tx_t *tx_frame(ps_conn_t *conn, uint16_t operation, uint8_t flags, uint32_t sequence,
                         uint32_t length)
{
    ps_tx_t *tx = conn->dead || conn->ending ? NULL : tx_push(conn);
    if (!tx)
        return NULL;
    gb_frame_t frame = {
        .length = length, .operation = operation, .flags = flags, .sequence = sequence};
    gb_frame_encode(&frame, tx->head);
    tx->head_size = GB_FRAME_HEADER;
    return tx;
}

void ps_conn_reply_small(ps_conn_t *conn, uint16_t operation, uint32_t sequence,
                         const void *payload, uint32_t size)
{
    ps_tx_t *tx = tx_frame(conn, operation, GB_FRAME_REPLY, sequence, size);
    if (!tx)
        return;
    if (size > 0)
        memcpy(tx->head + GB_FRAME_HEADER, payload, size);
    tx->head_size += size;
}

void ps_conn_reply(ps_conn_t *conn, uint16_t operation, uint32_t sequence,
                   const gbx_chunk_head_t *head, ps_buf_t *buf)
{
    size_t bytes = buf ? (size_t)buf->elements * sizeof(float) : 0;
    ps_tx_t *tx =
        tx_frame(conn, operation, GB_FRAME_REPLY, sequence, (uint32_t)(GBX_CHUNK_HEAD + bytes));
    if (!tx)
        return;
    gbx_chunk_head_encode(head, tx->head + GB_FRAME_HEADER);
    tx->head_size += GBX_CHUNK_HEAD;
    if (buf) {
        tx->buf = ps_buf_ref(buf);
        tx->data = buf->data;
        tx->data_size = bytes;
    }
}

void ps_conn_error(ps_conn_t *conn, uint16_t operation, uint32_t sequence, gbx_poison_t code,
                   const char *text)
{
    uint8_t *payload = malloc(GBX_MAX_ERROR);
    if (!payload) {
        conn->failed = 1;
        return;
    }
    uint32_t size = gbx_error_encode(code, atomic_load(&conn->job->generation), text, payload);
    ps_tx_t *tx = tx_frame(conn, operation, GB_FRAME_REPLY | GB_FRAME_ERROR, sequence, size);
    if (!tx) {
        free(payload);
        return;
    }
    tx->data = tx->owned = payload;
    tx->data_size = size;
    if (operation == GBX_OP_NOTICE) {
        conn->ending = 1;
        conn->gone = PS_GONE_TOLD;
        conn->rx = PS_RX_STOPPED;
    }
}

/* Describes what is left of the first frames. */
static int gather(const ps_conn_t *conn, struct iovec *iov)
{
    int n = 0;
    size_t skip = conn->tx_sent;
    for (uint32_t i = 0; i < conn->tx_count && i < PS_TX_BATCH; i++) {
        ps_tx_t *tx = &conn->tx[(conn->tx_first + i) % conn->tx_cap];
        if (skip < tx->head_size)
            iov[n++] = (struct iovec){tx->head + skip, tx->head_size - skip};
        size_t data_skip = skip > tx->head_size ? skip - tx->head_size : 0;
        if (data_skip < tx->data_size)
            iov[n++] =
                (struct iovec){(char *)(uintptr_t)tx->data + data_skip, tx->data_size - data_skip};
        skip = 0;
    }
    return n;
}

static void tx_advance(ps_conn_t *conn, size_t sent)
{
    conn->tx_sent += sent;
    while (conn->tx_count > 0) {
        ps_tx_t *tx = &conn->tx[conn->tx_first];
        size_t size = tx->head_size + tx->data_size;
        if (conn->tx_sent < size)
            break;
        conn->tx_sent -= size;
        tx_release(tx);
        conn->tx_first = (conn->tx_first + 1) % conn->tx_cap;
        conn->tx_count--;
    }
}

/* GB_OK: all is with the kernel. */
static gb_status_t send_all(ps_conn_t *conn)
{
    while (conn->tx_count > 0) {
        struct iovec iov[2 * PS_TX_BATCH];
        size_t sent = 0;
        gb_status_t st = gb_link_try_sendv(conn->link, iov, gather(conn, iov), &sent);
        if (st != GB_OK)
            return st;
        tx_advance(conn, sent);
    }
    return gb_link_unsent(conn->link) ? gb_link_flush(conn->link, 0) : GB_OK;
}

void ps_conn_flush(ps_conn_t *conn)
{
    if (conn->dead)
        return;
    if (conn->failed) {
        ps_conn_kill(conn, PS_GONE_LOST, "out of memory");
        return;
    }
    gb_status_t st = send_all(conn);
    if (st == GB_OK && conn->ending) {
        ps_conn_kill(conn, conn->gone, "was told to go");
        return;
    }
    if (st != GB_OK && st != GB_ERR_AGAIN) {
        ps_conn_kill(conn, PS_GONE_LOST, gb_why());
        return;
    }
    if (conn->paused && conn->tx_count < PS_TX_RESUME) {
        conn->paused = 0;
        conn->owner->more = 1;
    } else if (conn->tx_count > PS_TX_PAUSE) {
        conn->paused = 1;
    }
    uint32_t in = conn->paused || conn->ending ? 0 : EPOLLIN;
    uint32_t out = st == GB_ERR_AGAIN ? EPOLLOUT : 0;
    watch(conn, in | out);
}

/* ---- in ---- */

/* Reads towards `need` bytes at `to`. GB_OK: complete. */
static gb_status_t fill(ps_conn_t *conn, uint8_t *to, uint32_t need, size_t *budget)
{
    while (conn->got < need) {
        size_t got = 0;
        gb_status_t st = gb_link_recv_some(conn->link, to + conn->got, need - conn->got, 0, &got);
        if (st != GB_OK)
            return st;
        conn->got += (uint32_t)got;
        *budget -= got < *budget ? got : *budget;
    }
    conn->got = 0;
    return GB_OK;
}

static gb_status_t begin_frame(ps_conn_t *conn)
{
    gb_status_t st = gb_frame_decode(conn->head, GBX_MAX_PLAN_BYTES, &conn->frame);
    if (st != GB_OK)
        return st;
    const gb_frame_t *frame = &conn->frame;
    switch (frame->operation) {
    case GBX_OP_PUSH:
    case GBX_OP_PULL:
    case GBX_OP_PUSH_PULL:
    case GBX_OP_INIT:
        conn->rx = PS_RX_CHUNK;
        return frame->length >= GBX_CHUNK_HEAD
                   ? GB_OK
                   : gb_fail(GB_ERR_PROTOCOL, "frame %u is too short", frame->operation);
    case GBX_OP_DECLARE:
        conn->payload = malloc(frame->length + 1);
        conn->rx = PS_RX_PAYLOAD;
        return conn->payload ? GB_OK : gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    default:
        break;
    }
    if (frame->length != 0)
        return gb_fail(GB_ERR_PROTOCOL, "frame %u with %u bytes of payload is not known",
                       frame->operation, frame->length);
    switch (frame->operation) {
    case GBX_OP_CLAIM:
    case GBX_OP_READY:
        ps_view_request(conn->view, conn, NULL);
        return GB_OK;
    case GB_OP_PING:
        ps_conn_reply_small(conn, GB_OP_PONG, frame->sequence, NULL, 0);
        return GB_OK;
    case GB_OP_GOODBYE:
        ps_conn_kill(conn, PS_GONE_GOODBYE, "said goodbye");
        return GB_OK;
    default:
        return gb_fail(GB_ERR_PROTOCOL, "operation %u is not known", frame->operation);
    }
}

static gb_status_t begin_chunk(ps_conn_t *conn)
{
    gbx_chunk_head_decode(conn->head, &conn->chunk);
    conn->chunk.repeat = 0;
    conn->refused = 0;
    conn->into = NULL;
    gb_status_t st = ps_view_chunk_begin(conn->view, conn, &conn->into);
    conn->data_left = conn->frame.length - GBX_CHUNK_HEAD;
    conn->rx = PS_RX_DATA;
    return st;
}

/* Data of a chunk, into their place or thrown away. GB_OK: complete. */
static gb_status_t take_data(ps_conn_t *conn, size_t *budget)
{
    static _Thread_local uint8_t bin[64 * 1024];
    while (conn->data_left > 0) {
        size_t cap = conn->into || conn->data_left < sizeof(bin) ? conn->data_left : sizeof(bin);
        size_t got = 0;
        gb_status_t st = gb_link_recv_some(conn->link, conn->into ? conn->into : bin, cap, 0, &got);
        if (st != GB_OK)
            return st;
        if (conn->into)
            conn->into += got;
        conn->data_left -= (uint32_t)got;
        *budget -= got < *budget ? got : *budget;
    }
    return GB_OK;
}

static gb_status_t advance(ps_conn_t *conn, size_t *budget)
{
    gb_status_t st;
    switch (conn->rx) {
    case PS_RX_HEADER:
        st = fill(conn, conn->head, GB_FRAME_HEADER, budget);
        return st == GB_OK ? begin_frame(conn) : st;
    case PS_RX_CHUNK:
        st = fill(conn, conn->head, GBX_CHUNK_HEAD, budget);
        return st == GB_OK ? begin_chunk(conn) : st;
    case PS_RX_DATA:
        st = take_data(conn, budget);
        if (st == GB_OK) {
            conn->rx = PS_RX_HEADER;
            ps_view_chunk_end(conn->view, conn);
        }
        return st;
    case PS_RX_PAYLOAD:
        st = fill(conn, conn->payload, conn->frame.length, budget);
        if (st == GB_OK) {
            conn->rx = PS_RX_HEADER;
            ps_view_request(conn->view, conn, conn->payload);
            free(conn->payload);
            conn->payload = NULL;
        }
        return st;
    case PS_RX_STOPPED:
        break;
    }
    return GB_ERR_AGAIN;
}

void ps_conn_read(ps_conn_t *conn)
{
    size_t budget = PS_READ_ROUND;
    gb_status_t st = GB_OK;
    while (st == GB_OK && budget > 0 && !conn->dead && !conn->ending &&
           conn->tx_count <= PS_TX_PAUSE)
        st = advance(conn, &budget);
    if (st == GB_OK)
        conn->owner->more = 1;
    else if (st != GB_ERR_AGAIN && !conn->ending)
        ps_conn_kill(conn, PS_GONE_LOST, gb_why());
}
