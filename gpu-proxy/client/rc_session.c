/* A session's connection at the client.
 *
 * Sending: frames gather in the batch under send_lock, so their order is the order of the calls of all
 * threads; a batch goes out when it is full, old, or when somebody waits.
 * Receiving: whoever waits for a reply receives, one at a time; replies for others are delivered to
 * them. When the socket takes no more the sender receives too (stalled()). */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/core/gb_log.h"
#include "gpu-proxy/client/rc_down.h"
#include "gpu-proxy/client/rc_host.h"
#include "gpu-proxy/client/rc_peer.h"

enum {
    BUFFER = 2 << 20,
    GULP = 16 << 10, /* received at a time; pieces of copies go past the buffer */
    DIAL_MS = 10000,
};

static const uint8_t zeros[8];

void rc_session_lose(rc_session_t *session, const char *why)
{
    if (atomic_exchange(&session->lost, 1) == 0 && atomic_load(&rc.phase) != RC_OVER)
        gb_log(GB_LOG_ERROR, "the session at %s is lost: %s: its devices answer with errors",
               session->where, why);
    gb_durable_lose(session->stream);
    pthread_mutex_lock(&session->recv_lock);
    for (rc_waiter_t *w = session->waiters; w; w = w->next)
        pthread_cond_signal(&w->wake);
    pthread_cond_broadcast(&session->acked);
    pthread_mutex_unlock(&session->recv_lock);
}

/* ---- receiving ---- */

/* With recv_lock held. A frame that answers nobody is a broken peer. */
static rc_waiter_t *waiter_for(rc_session_t *s, const gb_frame_t *frame)
{
    rc_waiter_t *w = s->waiters;
    while (w && (w->listens || w->sequence != frame->sequence))
        w = w->next;
    return frame->flags & GB_FRAME_REPLY ? w : NULL;
}

/* Where a piece of a copy to the host goes. The waiter waits until its reply proper, so the place is
 * good without the lock. */
static gb_status_t place_piece(rc_session_t *s, const gb_frame_t *frame, const uint8_t *payload,
                               uint8_t **at, size_t *size)
{
    px_wire_piece_t piece;
    memcpy(&piece, payload, sizeof(piece));
    pthread_mutex_lock(&s->recv_lock);
    int good = piece.size <= frame->length - sizeof(piece);
    if (good && (frame->flags & GB_FRAME_REPLY)) {
        rc_waiter_t *w = waiter_for(s, frame);
        good = w && piece.offset <= w->dst_size && piece.size <= w->dst_size - piece.offset;
        *at = good ? w->dst + piece.offset : NULL;
    } else if (good) {
        *at = rc_down_place(s, frame->sequence, piece.offset, piece.size);
        good = *at != NULL;
    }
    pthread_mutex_unlock(&s->recv_lock);
    *size = good ? piece.size : 0;
    return good ? GB_OK : gb_fail(GB_ERR_PROTOCOL, "a piece outside of its copy");
}

/* Takes a piece whose first `here` payload bytes are in the buffer; take_rest receives the others. */
static gb_status_t take_piece(rc_session_t *s, const gb_frame_t *frame, const uint8_t *payload,
                              size_t here)
{
    uint8_t *at = NULL;
    size_t size = 0, head = sizeof(px_wire_piece_t);
    gb_status_t status = place_piece(s, frame, payload, &at, &size);
    if (status)
        return status;
    size_t first = here - head < size ? here - head : size;
    memcpy(at, payload + head, first);
    s->rest_at = at + first;
    s->rest = size - first;
    s->rest_pad = frame->length - (here > head + size ? here : head + size);
    if (s->rest == 0)
        rc_down_came(s);
    return s->rest_pad > 8
               ? gb_fail(GB_ERR_PROTOCOL, "a piece with %zu bytes too many", s->rest_pad)
               : GB_OK;
}

/* Receives the rest of a piece straight to where it belongs. What is left when this fails is received
 * next time: the sender that reads for want of room must not wait for a new connection here. */
static gb_status_t take_rest(rc_session_t *s, uint64_t deadline)
{
    uint8_t pad[8];
    gb_status_t status = GB_OK;
    while (s->rest + s->rest_pad > 0 && !status) {
        size_t got = 0;
        status = s->rest ? gb_durable_recv_some(s->stream, s->rest_at, s->rest, deadline, &got)
                         : gb_durable_recv_some(s->stream, pad, s->rest_pad, deadline, &got);
        if (!status && s->rest) {
            s->rest_at += got;
            s->rest -= got;
            if (s->rest == 0)
                rc_down_came(s);
        } else if (!status) {
            s->rest_pad -= got;
        }
    }
    return status;
}

/* With recv_lock held: a reply proper. */
static gb_status_t deliver(rc_session_t *s, const gb_frame_t *frame, const uint8_t *payload)
{
    px_wire_result_t head;
    rc_waiter_t *w = waiter_for(s, frame);
    if (!w || frame->length < sizeof(head))
        return gb_fail(GB_ERR_PROTOCOL, "frame %u answers no call", frame->sequence);
    memcpy(&head, payload, sizeof(head));
    if (head.more > frame->length - sizeof(head))
        return gb_fail(GB_ERR_PROTOCOL, "a reply that is cut off");
    w->more_size = head.more;
    if (head.more > sizeof(w->small))
        w->more = malloc(head.more);
    w->result =
        head.more > sizeof(w->small) && !w->more ? CUDA_ERROR_OUT_OF_MEMORY : (CUresult)head.result;
    if (head.more && w->result == CUDA_SUCCESS)
        memcpy(w->more ? w->more : w->small, payload + sizeof(head), head.more);
    w->late = (frame->flags & GB_FRAME_ERROR) != 0;
    w->done = 1;
    pthread_cond_signal(&w->wake);
    return GB_OK;
}

static gb_status_t take_ack(rc_session_t *s, const gb_frame_t *frame, const uint8_t *payload)
{
    uint64_t received;
    if (frame->length != sizeof(received))
        return gb_fail(GB_ERR_PROTOCOL, "an acknowledgement of %u bytes", frame->length);
    memcpy(&received, payload, sizeof(received));
    gb_status_t status = gb_durable_acked(s->stream, received);
    pthread_mutex_lock(&s->recv_lock);
    pthread_cond_broadcast(&s->acked);
    pthread_mutex_unlock(&s->recv_lock);
    return status;
}

/* What kernels have printed. */
static gb_status_t print(const gb_frame_t *frame, const uint8_t *payload)
{
    px_wire_output_t head = {0};
    if (frame->length >= sizeof(head))
        memcpy(&head, payload, sizeof(head));
    if (frame->length < sizeof(head) || head.size > frame->length - sizeof(head))
        return gb_fail(GB_ERR_PROTOCOL, "output that is cut off");
    FILE *to = head.fd == 2 ? stderr : stdout;
    fwrite(payload + sizeof(head), 1, head.size, to);
    fflush(to);
    return GB_OK;
}

/* A frame that answers no call. */
static gb_status_t take_notice(rc_session_t *s, const gb_frame_t *frame, const uint8_t *payload)
{
    uint64_t words[3];
    if (frame->operation == GB_OP_PING)
        return GB_OK; /* the link has noted when it came */
    if (frame->operation == GB_OP_ACK)
        return take_ack(s, frame, payload);
    if (frame->operation == PX_OP_OUTPUT)
        return print(frame, payload);
    if (frame->operation == PX_OP_DOWN_DONE && frame->length >= sizeof(words[0])) {
        memcpy(words, payload, sizeof(words[0]));
        return rc_down_done(s, words[0]);
    }
    if (frame->operation == PX_OP_PEER_LOST && frame->length >= 2 * sizeof(words[0])) {
        memcpy(words, payload, 2 * sizeof(words[0]));
        rc_peer_lost(s, words);
        return GB_OK;
    }
    if (frame->operation != PX_OP_HOST_RUN || frame->length < sizeof(words))
        return gb_fail(GB_ERR_PROTOCOL, "frame %u answers no call", frame->sequence);
    memcpy(words, payload, sizeof(words));
    return rc_host_asked(s, words);
}

/* The acknowledgement that is due; 0 = none is. *received: what it says. */
static size_t make_ack(rc_session_t *s, uint8_t *out, uint64_t *received)
{
    gb_frame_t frame = {.length = sizeof(uint64_t), .operation = GB_OP_ACK};
    if (!gb_durable_ack_due(s->stream))
        return 0;
    *received = gb_durable_received(s->stream);
    gb_frame_encode(&frame, out);
    memcpy(out + GB_FRAME_HEADER, received, sizeof(*received));
    return GB_FRAME_HEADER + sizeof(*received);
}

/* Acknowledges, for the reader, who must not wait for room to send: if it would have to, or somebody sends
 * just now, another thread does it. */
static void acknowledge(rc_session_t *s)
{
    uint8_t ack[GB_FRAME_HEADER + sizeof(uint64_t)];
    uint64_t received;
    int told = 0;
    if (!gb_durable_ack_due(s->stream))
        return;
    if (pthread_mutex_trylock(&s->send_lock) == 0) {
        size_t size = make_ack(s, ack, &received);
        told = size == 0 || gb_durable_try_send(s->stream, ack, size) == GB_OK;
        if (told && size)
            gb_durable_ack_told(s->stream, received);
        pthread_mutex_unlock(&s->send_lock);
    }
    if (!told)
        rc_progress_arm();
}

/* Receives what is there, waiting for it until `deadline`, and delivers what is complete. The caller
 * is the one who reads. */
static gb_status_t pump(rc_session_t *s, uint64_t deadline)
{
    size_t got = 0;
    acknowledge(s);
    if (s->rest + s->rest_pad > 0)
        return take_rest(s, deadline);
    if (s->start > 0) {
        memmove(s->buffer, s->buffer + s->start, s->end - s->start);
        s->end -= s->start;
        s->start = 0;
    }
    gb_status_t status = gb_durable_recv_some(s->stream, s->buffer + s->end, GULP, deadline, &got);
    if (status)
        return status;
    s->end += got;
    while (status == GB_OK && s->end - s->start >= GB_FRAME_HEADER) {
        gb_frame_t frame;
        const uint8_t *payload = s->buffer + s->start + GB_FRAME_HEADER;
        size_t here = s->end - s->start - GB_FRAME_HEADER;
        status = gb_frame_decode(s->buffer + s->start, PX_WIRE_MAX, &frame);
        if (status)
            break;
        if (frame.operation == GB_OP_GOODBYE)
            return gb_fail(GB_ERR_LOST, "the session said goodbye");
        if (here > frame.length)
            here = frame.length;
        int piece = (frame.flags & GB_FRAME_MORE) != 0 &&
                    (frame.operation == PX_OP_DOWN || (frame.flags & GB_FRAME_REPLY));
        if (here < (piece ? sizeof(px_wire_piece_t) : frame.length)) {
            if (piece && frame.length < sizeof(px_wire_piece_t))
                status = gb_fail(GB_ERR_PROTOCOL, "a piece of %u bytes", frame.length);
            break;
        }
        if (!(frame.flags & GB_FRAME_REPLY) && !piece) {
            status = take_notice(s, &frame, payload);
        } else if (piece) {
            status = take_piece(s, &frame, payload, here);
        } else {
            pthread_mutex_lock(&s->recv_lock);
            status = deliver(s, &frame, payload);
            pthread_mutex_unlock(&s->recv_lock);
        }
        s->start += GB_FRAME_HEADER + here;
    }
    return status;
}

/* With recv_lock held, when the caller stops reading: another waiter takes over. */
static void hand_on(rc_session_t *s)
{
    s->reading = 0;
    pthread_cond_broadcast(&s->acked); /* who waits for that reads if nobody else does */
    for (rc_waiter_t *w = s->waiters; w; w = w->next)
        if (!w->done) {
            pthread_cond_signal(&w->wake);
            break;
        }
}

/* The link cannot send: receive meanwhile, so that the peer can go on. */
static gb_status_t stalled(void *arg)
{
    rc_session_t *s = arg;
    pthread_mutex_lock(&s->recv_lock);
    int mine = !s->reading;
    if (mine)
        s->reading = 1;
    pthread_mutex_unlock(&s->recv_lock);
    if (!mine)
        return GB_ERR_AGAIN;
    gb_status_t status = pump(s, 0);
    pthread_mutex_lock(&s->recv_lock);
    hand_on(s);
    pthread_mutex_unlock(&s->recv_lock);
    return status == GB_ERR_AGAIN || status == GB_ERR_TIMEOUT ? GB_OK : status;
}

static void await(rc_session_t *s, rc_waiter_t *me)
{
    pthread_mutex_lock(&s->recv_lock);
    while (!me->done && !atomic_load(&s->lost)) {
        if (s->reading) {
            pthread_cond_wait(&me->wake, &s->recv_lock);
            continue;
        }
        s->reading = 1;
        pthread_mutex_unlock(&s->recv_lock);
        gb_status_t status = pump(s, GB_NEVER);
        if (status)
            rc_session_lose(s, gb_why());
        pthread_mutex_lock(&s->recv_lock);
        s->reading = 0;
    }
    rc_waiter_t **at = &s->waiters;
    while (*at && *at != me)
        at = &(*at)->next;
    if (*at)
        *at = me->next;
    if (!s->reading)
        hand_on(s);
    if (!me->done)
        me->result = RC_LOST;
    pthread_mutex_unlock(&s->recv_lock);
}

void rc_session_listen(rc_session_t *s, rc_waiter_t *listener)
{
    pthread_cond_init(&listener->wake, NULL);
    listener->listens = 1;
    pthread_mutex_lock(&s->recv_lock);
    listener->next = s->waiters;
    s->waiters = listener;
    pthread_mutex_unlock(&s->recv_lock);
    await(s, listener);
    pthread_cond_destroy(&listener->wake);
}

void rc_session_stop_listening(rc_session_t *s, rc_waiter_t *listener)
{
    pthread_mutex_lock(&s->recv_lock);
    listener->done = 1;
    pthread_cond_signal(&listener->wake);
    pthread_mutex_unlock(&s->recv_lock);
}

/* ---- sending: with send_lock held ---- */

/* Receives until `done`, or leaves that to who does it already. Returns when the session is lost, too. */
static void read_until(rc_session_t *s, int (*done)(rc_session_t *s, uint64_t arg), uint64_t arg)
{
    pthread_mutex_lock(&s->recv_lock);
    while (!done(s, arg) && !atomic_load(&s->lost)) {
        if (s->reading) {
            pthread_cond_wait(&s->acked, &s->recv_lock);
            continue;
        }
        s->reading = 1;
        pthread_mutex_unlock(&s->recv_lock);
        gb_status_t status = pump(s, GB_NEVER);
        if (status)
            rc_session_lose(s, gb_why());
        pthread_mutex_lock(&s->recv_lock);
        hand_on(s);
    }
    pthread_mutex_unlock(&s->recv_lock);
}

static int has_room(rc_session_t *s, uint64_t size)
{
    return gb_durable_room(s->stream) >= size;
}

static int is_confirmed(rc_session_t *s, uint64_t offset)
{
    return gb_durable_confirmed(s->stream) >= offset;
}

/* The acknowledgement that is due, to be sent for sure. */
static size_t put_ack(rc_session_t *s, uint8_t *out)
{
    uint64_t received;
    size_t size = make_ack(s, out, &received);
    if (size)
        gb_durable_ack_told(s->stream, received);
    return size;
}

/* Sends the batch and what belongs behind it; `refer`: the tail stays where it is until it is confirmed. */
static CUresult flush(rc_session_t *s, const void *tail, size_t tail_size, size_t pad, int refer)
{
    uint8_t ack[GB_FRAME_HEADER + sizeof(uint64_t)];
    struct iovec iov[4] = {{ack, put_ack(s, ack)},
                           {s->batch, atomic_load_explicit(&s->used, memory_order_relaxed)},
                           {(void *)(uintptr_t)tail, tail_size},
                           {(void *)(uintptr_t)zeros, pad}};
    size_t size = iov[0].iov_len + iov[1].iov_len + pad + (refer ? 0 : tail_size);
    if (atomic_load_explicit(&s->lost, memory_order_relaxed)) {
        atomic_store_explicit(&s->used, 0, memory_order_relaxed);
        return RC_LOST;
    }
    if (size == 0)
        return CUDA_SUCCESS;
    rc_progress_sent(s);
    if (!has_room(s, size))
        read_until(s, has_room, size);
    atomic_store_explicit(&s->used, 0, memory_order_relaxed);
    atomic_store_explicit(&s->flushed, gb_now_ns(), memory_order_relaxed);
    int skip = iov[0].iov_len == 0;
    gb_status_t status =
        gb_durable_sendv(s->stream, iov + skip, (tail_size ? 4 : 2) - skip, refer ? 2 - skip : -1);
    if (status == GB_OK)
        return CUDA_SUCCESS;
    rc_session_lose(s, gb_why());
    return RC_LOST;
}

static void put_header(rc_session_t *s, rc_lane_t *lane, uint16_t op, size_t length)
{
    unsigned used = atomic_load_explicit(&s->used, memory_order_relaxed);
    gb_frame_t frame = {
        .length = (uint32_t)length, .operation = op, .lane = lane->id, .sequence = s->sequence++};
    gb_frame_encode(&frame, s->batch + used);
    atomic_store_explicit(&s->used, used + GB_FRAME_HEADER, memory_order_release);
    lane->used[s->number] = 1;
}

static void put_bytes(rc_session_t *s, const void *bytes, size_t size)
{
    unsigned used = atomic_load_explicit(&s->used, memory_order_relaxed);
    if (size)
        memcpy(s->batch + used, bytes, size);
    atomic_store_explicit(&s->used, used + (unsigned)size, memory_order_release);
}

/* Header and the parts that ride in the batch; makes room first. */
static CUresult put_frame(rc_session_t *s, rc_lane_t *lane, const rc_object_t *context, uint16_t op,
                          const void *a, size_t a_size, const void *b, size_t b_size, size_t tail)
{
    size_t all = a_size + b_size + tail;
    if (all > PX_WIRE_MAX - 8 || all - tail > RC_BATCH / 2 + PX_WIRE_PARAMS / 2)
        return CUDA_ERROR_INVALID_VALUE;
    size_t length = px_wire_pad((uint32_t)all);
    size_t room = 2 * GB_FRAME_HEADER + 8 + length - (tail ? px_wire_pad((uint32_t)tail) : 0) + 8;
    CUresult result = CUDA_SUCCESS;
    if (atomic_load_explicit(&s->used, memory_order_relaxed) + room > RC_BATCH)
        result = flush(s, NULL, 0, 0, 0);
    if (result)
        return result;
    uint64_t handle = context ? (uint64_t)(uintptr_t)rc_handle(context) : 0;
    if (context && lane->sent[s->number] != handle) {
        uint64_t number = context->number;
        put_header(s, lane, PX_OP_SET_CONTEXT, sizeof(number));
        put_bytes(s, &number, sizeof(number));
        lane->sent[s->number] = handle;
    }
    put_header(s, lane, op, length);
    put_bytes(s, a, a_size);
    put_bytes(s, b, b_size);
    if (!tail)
        put_bytes(s, zeros, length - a_size - b_size);
    return CUDA_SUCCESS;
}

/* ---- for callers ---- */

CUresult rc_send(rc_session_t *s, rc_lane_t *lane, const rc_object_t *context, uint16_t op,
                 const void *a, size_t a_size, const void *b, size_t b_size)
{
    if (atomic_load_explicit(&s->lost, memory_order_relaxed))
        return RC_LOST;
    pthread_mutex_lock(&s->send_lock);
    CUresult result = put_frame(s, lane, context, op, a, a_size, b, b_size, 0);
    if (!result && atomic_load_explicit(&s->used, memory_order_relaxed) >= RC_FLUSH_AT)
        result = flush(s, NULL, 0, 0, 0);
    else if (!result)
        rc_progress_queued(s);
    pthread_mutex_unlock(&s->send_lock);
    return result;
}

static CUresult send_bulk(rc_session_t *s, rc_lane_t *lane, const rc_object_t *context, uint16_t op,
                          const void *a, size_t a_size, const void *b, size_t b_size, int refer,
                          uint64_t *until)
{
    size_t length = a_size + b_size;
    if (atomic_load_explicit(&s->lost, memory_order_relaxed))
        return RC_LOST;
    pthread_mutex_lock(&s->send_lock);
    CUresult result = put_frame(s, lane, context, op, a, a_size, NULL, 0, b_size);
    if (!result)
        result = flush(s, b, b_size, px_wire_pad((uint32_t)length) - length, refer);
    *until = gb_durable_sent(s->stream);
    pthread_mutex_unlock(&s->send_lock);
    return result;
}

CUresult rc_send_bulk(rc_session_t *s, rc_lane_t *lane, const rc_object_t *context, uint16_t op,
                      const void *a, size_t a_size, const void *b, size_t b_size)
{
    uint64_t until;
    return send_bulk(s, lane, context, op, a, a_size, b, b_size, 0, &until);
}

CUresult rc_send_reference(rc_session_t *s, rc_lane_t *lane, const rc_object_t *context,
                           uint16_t op, const void *a, size_t a_size, const void *b, size_t b_size,
                           uint64_t *until)
{
    return send_bulk(s, lane, context, op, a, a_size, b, b_size, 1, until);
}

CUresult rc_settle(rc_session_t *s, uint64_t until)
{
    if (gb_durable_keeps(s->stream))
        read_until(s, is_confirmed, until);
    return atomic_load(&s->lost) ? RC_LOST : CUDA_SUCCESS;
}

CUresult rc_send_and_wait(rc_session_t *s, rc_lane_t *lane, const rc_object_t *context, uint16_t op,
                          const void *a, size_t a_size, const void *b, size_t b_size,
                          rc_waiter_t *waiter)
{
    if (atomic_load_explicit(&s->lost, memory_order_relaxed))
        return RC_LOST;
    size_t tail = b_size > PX_WIRE_INLINE ? b_size : 0;
    size_t pad = px_wire_pad((uint32_t)(a_size + b_size)) - a_size - b_size;
    pthread_cond_init(&waiter->wake, NULL);
    pthread_mutex_lock(&s->send_lock);
    CUresult result =
        put_frame(s, lane, context, op, a, a_size, tail ? NULL : b, tail ? 0 : b_size, tail);
    if (!result) {
        waiter->sequence = s->sequence - 1;
        pthread_mutex_lock(&s->recv_lock);
        waiter->next = s->waiters;
        s->waiters = waiter;
        pthread_mutex_unlock(&s->recv_lock);
        flush(s, b, tail, pad, 0); /* its failure is found by await() */
    }
    pthread_mutex_unlock(&s->send_lock);
    if (!result) {
        await(s, waiter);
        result = waiter->result;
    }
    pthread_cond_destroy(&waiter->wake);
    return result;
}

void rc_waiter_done(rc_waiter_t *waiter)
{
    free(waiter->more);
    waiter->more = NULL;
}

void rc_session_ping(rc_session_t *s)
{
    uint8_t header[GB_FRAME_HEADER];
    struct iovec iov = {header, sizeof(header)};
    const gb_frame_t ping = {.operation = GB_OP_PING};
    uint64_t third = s->timeout_ms * 1000000ull / 3, now = gb_now_ns();
    if (atomic_load(&s->lost) || now - atomic_load(&s->flushed) < third ||
        pthread_mutex_trylock(&s->send_lock) != 0)
        return; /* who holds the lock sends */
    gb_frame_encode(&ping, header);
    atomic_store(&s->flushed, now);
    if (has_room(s, sizeof(header)) && gb_durable_sendv(s->stream, &iov, 1, -1) != GB_OK)
        rc_session_lose(s, gb_why());
    pthread_mutex_unlock(&s->send_lock);
}

void rc_session_check_silence(rc_session_t *s)
{
    uint64_t now = gb_now_ns(), oldest = now;
    if (atomic_load(&s->lost))
        return;
    pthread_mutex_lock(&s->recv_lock);
    for (rc_waiter_t *w = s->waiters; w; w = w->next) {
        if (w->listens || w->done)
            continue;
        w->noticed = w->noticed ? w->noticed : now;
        oldest = w->noticed < oldest ? w->noticed : oldest;
    }
    pthread_mutex_unlock(&s->recv_lock);
    uint64_t heard = gb_durable_heard(s->stream);
    heard = heard > oldest ? heard : oldest;
    if (now > heard && now - heard > s->timeout_ms * 1000000ull)
        rc_session_lose(s, "it gives no sign of life");
}

void rc_session_flush(rc_session_t *s)
{
    if (gb_durable_unsent(s->stream) && gb_durable_push(s->stream, 1) != GB_OK)
        rc_session_lose(s, gb_why());
    flush(s, NULL, 0, 0, 0);
}

/* ---- beginning and end ---- */

/* Dials again until the session has surely given this client up. */
static gb_status_t reconnect(void *arg, uint64_t received, gb_link_t **out, uint64_t *peer_received)
{
    rc_session_t *s = arg;
    gb_link_t *old = gb_durable_link(s->stream);
    uint64_t now = gb_now_ns(), end = gb_link_heard(old) + s->timeout_ms * 1000000ull;
    gb_status_t status =
        gb_fail(GB_ERR_TIMEOUT, "nothing was heard of it for %u ms", s->timeout_ms);
    if (atomic_load(&s->lost) || atomic_load(&rc.phase) == RC_OVER)
        return gb_fail(GB_ERR_LOST, "the session is over");
    gb_log(GB_LOG_WARN, "the connection to %s is cut: dialling again", s->where);
    for (int pause = 5; now < end; pause = pause * 2 < 200 ? pause * 2 : 200) {
        gb_link_t *link;
        s->credential.connection++;
        status = gb_link_dial(&s->endpoint, &s->credential, end, &link);
        if (status == GB_OK) {
            gb_link_set_stall(link, stalled, s);
            status = gb_durable_exchange(link, received, end, peer_received);
            if (status == GB_OK) {
                gb_log(GB_LOG_INFO, "the connection to %s is there again", s->where);
                rc_progress_arm(); /* what the session has not got yet */
                *out = link;
                return GB_OK;
            }
            gb_link_close(link);
        }
        if ((status != GB_ERR_LOST && status != GB_ERR_TIMEOUT) ||
            atomic_load(&rc.phase) == RC_OVER)
            break; /* the proxy, or the session, is gone for good */
        poll(NULL, 0, pause);
        now = gb_now_ns();
    }
    return status;
}

gb_status_t rc_session_open(const gb_endpoint_t *endpoint, const gb_credential_t *credential,
                            int number, rc_session_t **out)
{
    rc_session_t *s = calloc(1, sizeof(*s));
    gb_link_t *link = NULL;
    gb_status_t status = GB_ERR_NO_MEMORY;
    if (!s)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    s->number = number;
    s->timer = -1;
    s->timeout_ms = DIAL_MS;
    s->endpoint = *endpoint;
    s->credential = *credential;
    gb_endpoint_format(endpoint, s->where);
    s->batch = malloc(RC_BATCH);
    s->buffer = mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!s->batch || s->buffer == MAP_FAILED)
        goto err_free;
    status = gb_link_dial(endpoint, credential, gb_now_ns() + DIAL_MS * 1000000ull, &link);
    if (status)
        goto err_free;
    status = gb_durable_create(link, reconnect, s, &s->stream);
    /* On one machine a connection ends with a process only: there is nothing to resume. */
    const char *line = getenv("GABLE_LINK_EMULATE");
    if (!status && (endpoint->kind == GB_ENDPOINT_TCP || (line && *line)))
        status = gb_durable_keep(s->stream);
    if (status)
        goto err_link;
    pthread_mutex_init(&s->send_lock, NULL);
    pthread_mutex_init(&s->recv_lock, NULL);
    pthread_mutex_init(&s->hash_lock, NULL);
    pthread_cond_init(&s->acked, NULL);
    gb_link_set_stall(link, stalled, s);
    *out = s;
    return GB_OK;
err_link:
    if (s->stream)
        gb_durable_free(s->stream);
    else
        gb_link_close(link);
err_free:
    if (s->buffer && s->buffer != MAP_FAILED)
        munmap(s->buffer, BUFFER);
    free(s->batch);
    gb_wipe(s, sizeof(*s));
    free(s);
    return status;
}

void rc_session_end(rc_session_t *s)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec++;
    if (!atomic_load(&s->lost) && pthread_mutex_timedlock(&s->send_lock, &until) == 0) {
        if (flush(s, NULL, 0, 0, 0) == CUDA_SUCCESS)
            gb_link_goodbye(gb_durable_link(s->stream));
        atomic_store(&s->lost, 1);
        pthread_mutex_unlock(&s->send_lock);
    }
    gb_durable_lose(s->stream);
}

void rc_session_free(rc_session_t *s)
{
    gb_durable_free(s->stream);
    pthread_cond_destroy(&s->acked);
    pthread_mutex_destroy(&s->send_lock);
    pthread_mutex_destroy(&s->recv_lock);
    pthread_mutex_destroy(&s->hash_lock);
    munmap(s->buffer, BUFFER);
    rc_down_free(s);
    if (s->timer >= 0)
        close(s->timer);
    free(s->hashes);
    free(s->batch);
    gb_wipe(s, sizeof(*s));
    free(s);
}
