/* The introduction, frames, the reader and the clerk of a link between two sessions. */
#include <string.h>
#include <time.h>

#include "common/core/gb_clock.h"
#include "gpu-proxy/session/px_transfer.h"

static const char MAGIC[8] = "GABLEP2P", READY[8] = "GABLERDY";

/* ---- the introduction ---- */

static gb_status_t prove(const gb_key_t *secret, const char *who, const uint8_t *first,
                         const uint8_t *second, uint8_t *out)
{
    uint8_t text[4 + 2 * PX_PEER_NONCE];
    memcpy(text, who, 4);
    memcpy(text + 4, first, PX_PEER_NONCE);
    memcpy(text + 4 + PX_PEER_NONCE, second, PX_PEER_NONCE);
    return gb_hmac(secret, text, sizeof(text), out);
}

static gb_status_t check(const gb_key_t *secret, const char *who, const uint8_t *first,
                         const uint8_t *second, const uint8_t *proof)
{
    uint8_t good[PX_PEER_PROOF];
    gb_status_t st = prove(secret, who, first, second, good);
    if (st == GB_OK && !gb_secret_equal(good, proof, sizeof(good)))
        st = gb_fail(GB_ERR_UNAUTHORISED, "it does not know the secret of the two sessions");
    gb_wipe(good, sizeof(good));
    return st;
}

static gb_status_t check_magic(const char *magic, uint32_t version)
{
    if (memcmp(magic, MAGIC, sizeof(MAGIC)))
        return gb_fail(GB_ERR_PROTOCOL, "it is no session");
    if (version != PX_PEER_VERSION)
        return gb_fail(GB_ERR_VERSION,
                       "the other session speaks version %u of the protocol between sessions, this "
                       "is version %d: install the same release on both machines",
                       version, PX_PEER_VERSION);
    return GB_OK;
}

gb_status_t px_peer_introduce(gb_link_t *link, const gb_key_t *secret, int keeps, uint64_t deadline)
{
    px_peer_hello_t hello = {.version = PX_PEER_VERSION, .keeps = (uint32_t)keeps};
    px_peer_answer_t answer;
    uint8_t proof[PX_PEER_PROOF];
    char ready[sizeof(READY)];
    memcpy(hello.magic, MAGIC, sizeof(MAGIC));
    gb_status_t st = gb_random(hello.nonce, sizeof(hello.nonce));
    if (st == GB_OK)
        st = gb_link_send(link, &hello, sizeof(hello));
    if (st == GB_OK)
        st = gb_link_recv(link, &answer, sizeof(answer), deadline);
    if (st == GB_OK)
        st = check_magic(answer.magic, answer.version);
    if (st == GB_OK)
        st = check(secret, "wait", hello.nonce, answer.nonce, answer.proof);
    if (st == GB_OK)
        st = prove(secret, "dial", hello.nonce, answer.nonce, proof);
    if (st == GB_OK)
        st = gb_link_send(link, proof, sizeof(proof));
    if (st == GB_OK)
        st = gb_link_recv(link, ready, sizeof(ready), deadline);
    if (st == GB_OK && memcmp(ready, READY, sizeof(READY)))
        st = gb_fail(GB_ERR_PROTOCOL, "the other session does not get ready");
    return st;
}

gb_status_t px_peer_recognise(gb_link_t *link, const gb_key_t *secret, uint64_t deadline,
                              int *keeps)
{
    px_peer_hello_t hello;
    px_peer_answer_t answer = {.version = PX_PEER_VERSION};
    uint8_t proof[PX_PEER_PROOF];
    memcpy(answer.magic, MAGIC, sizeof(MAGIC));
    gb_status_t st = gb_link_recv(link, &hello, sizeof(hello), deadline);
    if (st == GB_OK)
        st = check_magic(hello.magic, hello.version);
    if (st == GB_OK)
        st = gb_random(answer.nonce, sizeof(answer.nonce));
    if (st == GB_OK)
        st = prove(secret, "wait", hello.nonce, answer.nonce, answer.proof);
    if (st == GB_OK)
        st = gb_link_send(link, &answer, sizeof(answer));
    if (st == GB_OK)
        st = gb_link_recv(link, proof, sizeof(proof), deadline);
    if (st == GB_OK)
        st = check(secret, "dial", hello.nonce, answer.nonce, proof);
    if (st == GB_OK)
        *keeps = hello.keeps != 0;
    return st;
}

gb_status_t px_peer_ready(gb_link_t *link)
{
    return gb_link_send(link, READY, sizeof(READY));
}

/* ---- sending ---- */

/* The link while it is up; a transfer may be here before the other end has finished the introduction. */
static gb_durable_t *await_up(px_peer_t *p)
{
    pthread_mutex_lock(&p->peers->lock);
    while (p->state == PX_PEER_EXPECTED || p->state == PX_PEER_OPENING)
        pthread_cond_wait(&p->opened, &p->peers->lock);
    gb_durable_t *stream = p->state == PX_PEER_UP ? p->stream : NULL;
    pthread_mutex_unlock(&p->peers->lock);
    return stream;
}

gb_status_t px_peer_send(px_peer_t *p, uint16_t operation, const struct iovec *parts, int count,
                         int reference)
{
    uint8_t header[GB_FRAME_HEADER];
    struct iovec iov[4] = {{header, sizeof(header)}};
    gb_frame_t frame = {.operation = operation};
    size_t kept = sizeof(header);
    gb_durable_t *stream = await_up(p);
    if (!stream)
        return gb_fail(GB_ERR_LOST, "the link to the other session is lost");
    for (int i = 0; i < count; i++) {
        iov[i + 1] = parts[i];
        frame.length += (uint32_t)parts[i].iov_len;
        kept += i == reference ? 0 : parts[i].iov_len;
    }
    gb_frame_encode(&frame, header);
    pthread_mutex_lock(&p->send_lock);
    gb_status_t st = gb_durable_wait_room(stream, kept);
    if (st == GB_OK)
        st = gb_durable_sendv(stream, iov, count + 1, reference < 0 ? -1 : reference + 1);
    atomic_store(&p->sent, gb_now_ns());
    pthread_mutex_unlock(&p->send_lock);
    if (st == GB_OK)
        return GB_OK;
    px_peer_lose(p, gb_why());
    return GB_ERR_LOST;
}

gb_status_t px_peer_say(px_peer_t *p, uint16_t operation, uint64_t token, CUresult result)
{
    px_peer_word_t word = {token, result};
    struct iovec part = {&word, sizeof(word)};
    return px_peer_send(p, operation, &part, 1, -1);
}

/* ---- the reader ---- */

gb_status_t px_peer_receive(px_peer_t *p, void *buffer, size_t size)
{
    uint8_t *at = buffer;
    gb_status_t st = GB_OK;
    while (size > 0 && st == GB_OK) {
        size_t got = 0;
        st = gb_durable_recv_some(p->stream, at, size, GB_NEVER, &got);
        atomic_store(&p->heard, gb_now_ns());
        at += got;
        size -= got;
    }
    return st;
}

gb_status_t px_peer_discard(px_peer_t *p, uint64_t size)
{
    uint8_t bytes[4096];
    gb_status_t st = GB_OK;
    for (uint64_t n; size > 0 && st == GB_OK; size -= n) {
        n = size < sizeof(bytes) ? size : sizeof(bytes);
        st = px_peer_receive(p, bytes, n);
    }
    return st;
}

static gb_status_t take_word(px_peer_t *p, const gb_frame_t *frame)
{
    px_peer_word_t word;
    if (frame->length != sizeof(word))
        return gb_fail(GB_ERR_PROTOCOL, "a word of %u bytes", frame->length);
    gb_status_t st = px_peer_receive(p, &word, sizeof(word));
    return st == GB_OK ? px_transfer_told(p, frame->operation, &word) : st;
}

static gb_status_t take_data(px_peer_t *p, const gb_frame_t *frame)
{
    uint64_t token;
    if (frame->length <= sizeof(token))
        return gb_fail(GB_ERR_PROTOCOL, "data of %u bytes", frame->length);
    gb_status_t st = px_peer_receive(p, &token, sizeof(token));
    return st == GB_OK ? px_transfer_data(p, token, frame->length - sizeof(token)) : st;
}

static gb_status_t take_ack(px_peer_t *p, const gb_frame_t *frame)
{
    uint64_t received;
    if (frame->length != sizeof(received))
        return gb_fail(GB_ERR_PROTOCOL, "an acknowledgement of %u bytes", frame->length);
    gb_status_t st = px_peer_receive(p, &received, sizeof(received));
    return st == GB_OK ? gb_durable_acked(p->stream, received) : st;
}

static gb_status_t take_frame(px_peer_t *p)
{
    uint8_t header[GB_FRAME_HEADER];
    gb_frame_t frame;
    gb_status_t st = px_peer_receive(p, header, sizeof(header));
    if (st == GB_OK)
        st = gb_frame_decode(header, PX_PEER_PIECE + sizeof(uint64_t), &frame);
    if (st != GB_OK)
        return st;
    switch (frame.operation) {
    case PX_PEER_ASK:
    case PX_PEER_END:
    case PX_PEER_DONE:
        return take_word(p, &frame);
    case PX_PEER_DATA:
        return take_data(p, &frame);
    case GB_OP_ACK:
        return take_ack(p, &frame);
    case GB_OP_PING:
        return frame.length ? gb_fail(GB_ERR_PROTOCOL, "a ping with a payload") : GB_OK;
    case GB_OP_GOODBYE:
        return gb_fail(GB_ERR_CLOSED, "the other session has ended");
    default:
        return gb_fail(GB_ERR_PROTOCOL, "the other session sends operation %u", frame.operation);
    }
}

void px_peer_read(px_peer_t *p)
{
    gb_status_t st;
    while ((st = take_frame(p)) == GB_OK)
        if (gb_durable_ack_due(p->stream)) {
            pthread_mutex_lock(&p->peers->lock);
            pthread_cond_signal(&p->wake);
            pthread_mutex_unlock(&p->peers->lock);
        }
    px_peer_lose(p, gb_why());
}

/* ---- the clerk ---- */

static gb_status_t send_short(px_peer_t *p, uint16_t operation, const void *payload, size_t size)
{
    struct iovec part = {(void *)(uintptr_t)payload, size};
    return px_peer_send(p, operation, &part, size ? 1 : 0, -1);
}

static gb_status_t write_due(px_peer_t *p)
{
    uint64_t third = p->peers->timeout_ms * 1000000ull / 3;
    pthread_mutex_lock(&p->peers->lock);
    int leaves = p->leaves;
    pthread_mutex_unlock(&p->peers->lock);
    if (leaves) {
        (void)send_short(p, GB_OP_GOODBYE, NULL, 0);
        return GB_ERR_CLOSED;
    }
    gb_status_t st = GB_OK;
    if (gb_durable_ack_due(p->stream)) {
        uint64_t received = gb_durable_received(p->stream);
        gb_durable_ack_told(p->stream, received);
        st = send_short(p, GB_OP_ACK, &received, sizeof(received));
    }
    if (st == GB_OK && gb_now_ns() - atomic_load(&p->sent) >= third)
        st = send_short(p, GB_OP_PING, NULL, 0);
    return st;
}

/* Until something may be due, or the link is lost; 0 = it is. */
static int await_due(px_peer_t *p)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    uint64_t at = (uint64_t)until.tv_nsec + p->peers->timeout_ms * 1000000ull / 6;
    until.tv_sec += (time_t)(at / 1000000000u);
    until.tv_nsec = (long)(at % 1000000000u);
    pthread_mutex_lock(&p->peers->lock);
    if (p->state == PX_PEER_UP && !p->leaves && !gb_durable_ack_due(p->stream))
        pthread_cond_timedwait(&p->wake, &p->peers->lock, &until);
    int up = p->state == PX_PEER_UP;
    pthread_mutex_unlock(&p->peers->lock);
    return up;
}

void *px_peer_clerk(void *arg)
{
    px_peer_t *p = arg;
    px_peers_t *peers = p->peers;
    while (await_due(p) && write_due(p) == GB_OK)
        continue;
    pthread_mutex_lock(&peers->lock);
    p->leaves = 0;
    pthread_cond_broadcast(&peers->gone);
    pthread_mutex_unlock(&peers->lock);
    px_peer_put(p);
    px_peers_thread_end(peers);
    return NULL;
}
