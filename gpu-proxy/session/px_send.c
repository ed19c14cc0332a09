#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/session/px_output.h"

enum { RESERVE = 2 << 20 }; /* bytes of what can be kept that pieces leave to replies */

enum { PARTS = 4 }; /* of a frame */

/* A frame on its way, as pieces of memory. */
typedef struct {
    gb_frame_t frame;
    uint8_t header[GB_FRAME_HEADER];
    struct iovec parts[PARTS];
    int count;
} outgoing_t;

/* Header, parts, padding; *n pieces are in `out` already. */
static void lay_out(outgoing_t *o, struct iovec *out, int *n)
{
    static const uint8_t zeros[8];
    size_t length = 0;
    struct iovec *header = &out[(*n)++];
    for (int i = 0; i < o->count; i++) {
        out[(*n)++] = o->parts[i];
        length += o->parts[i].iov_len;
    }
    out[*n].iov_base = (void *)(uintptr_t)zeros;
    out[(*n)++].iov_len = px_wire_pad((uint32_t)length) - length;
    o->frame.length = px_wire_pad((uint32_t)length);
    gb_frame_encode(&o->frame, o->header);
    header->iov_base = o->header;
    header->iov_len = sizeof(o->header);
}

/* With send_lock held, so that they go out in the order of what they say. */
static void make_ack(px_session_t *s, uint64_t *received, outgoing_t *out)
{
    *received = gb_durable_received(s->stream);
    gb_durable_ack_told(s->stream, *received);
    *out = (outgoing_t){
        .frame = {.operation = GB_OP_ACK}, .parts = {{received, sizeof(*received)}}, .count = 1};
}

/* Sends both at once; the second may be NULL. With `until` the last part of the first is not copied. An acknowledgement that will be due soon rides along with a
 * reply. */
static gb_status_t send_two(px_session_t *s, outgoing_t *one, outgoing_t *two, uint64_t *until)
{
    struct iovec iov[3 * (PARTS + 2)];
    outgoing_t ack;
    uint64_t received;
    int n = 0, refer = until && gb_durable_keeps(s->stream);
    pthread_mutex_lock(&s->send_lock);
    if ((one->frame.flags & GB_FRAME_REPLY) && gb_durable_ack_near(s->stream)) {
        make_ack(s, &received, &ack);
        lay_out(&ack, iov, &n);
    }
    lay_out(one, iov, &n);
    int data = n - 2; /* before the padding */
    if (two)
        lay_out(two, iov, &n);
    gb_status_t status = gb_durable_sendv(s->stream, iov, n, refer ? data : -1);
    if (until)
        *until = refer ? gb_durable_sent(s->stream) : 0;
    pthread_mutex_unlock(&s->send_lock);
    return status;
}

static outgoing_t answer(const px_call_t *call, uint8_t flags)
{
    return (outgoing_t){.frame = {.operation = call->frame.operation,
                                  .flags = flags,
                                  .lane = call->frame.lane,
                                  .sequence = call->frame.sequence}};
}

static void add(outgoing_t *out, const void *bytes, size_t size)
{
    out->parts[out->count].iov_base = (void *)(uintptr_t)bytes;
    out->parts[out->count++].iov_len = size;
}

gb_status_t px_send_notice(px_session_t *session, uint16_t op, const struct iovec *parts, int count)
{
    outgoing_t out = {.frame = {.operation = op}, .count = count};
    memcpy(out.parts, parts, (size_t)count * sizeof(*parts));
    return send_two(session, &out, NULL, NULL);
}

/* A queued call before this one failed: nothing after it can be trusted. */
static CUresult late_result(const px_call_t *call)
{
    return call->context ? (CUresult)atomic_load(&call->context->late) : CUDA_SUCCESS;
}

gb_status_t px_send_reply(px_call_t *call, CUresult result)
{
    CUresult late = late_result(call);
    outgoing_t out = answer(call, GB_FRAME_REPLY | (late ? GB_FRAME_ERROR : 0));
    px_wire_result_t head = {(uint32_t)(late ? late : result), 0};
    px_output_flush(call->session);
    add(&out, &head, sizeof(head));
    if (head.result == CUDA_SUCCESS) {
        if (call->outs)
            add(&out, call->out, (size_t)call->outs * sizeof(uint64_t));
        if (call->extra_size)
            add(&out, call->extra, call->extra_size);
        head.more = (uint32_t)call->outs * 8u + call->extra_size;
    }
    gb_status_t status = call->replied ? GB_OK : send_two(call->session, &out, NULL, NULL);
    free(call->extra);
    call->extra = NULL;
    call->extra_size = 0;
    return status;
}

gb_status_t px_send_ack(px_session_t *s)
{
    outgoing_t ack;
    uint64_t received;
    struct iovec iov[PARTS + 2];
    int n = 0;
    if (!gb_durable_ack_due(s->stream))
        return GB_OK;
    pthread_mutex_lock(&s->send_lock);
    make_ack(s, &received, &ack);
    lay_out(&ack, iov, &n);
    gb_status_t status = gb_durable_sendv(s->stream, iov, n, -1);
    pthread_mutex_unlock(&s->send_lock);
    return status;
}

/* What the client acknowledges is taken by the dispatcher, so that one must not wait here: it sends small
 * copies only, for which there is a reserve. */
static gb_status_t wait_room(const px_call_t *call, uint32_t size)
{
    return call->may_block ? gb_durable_wait_room(call->session->stream, RESERVE + size) : GB_OK;
}

gb_status_t px_send_piece(px_call_t *call, uint64_t offset, const void *data, uint32_t size,
                          uint64_t *until)
{
    px_wire_piece_t piece = {offset, size};
    outgoing_t out = answer(call, GB_FRAME_REPLY | GB_FRAME_MORE);
    add(&out, &piece, sizeof(piece));
    add(&out, data, size);
    return wait_room(call, size) == GB_OK ? send_two(call->session, &out, NULL, until)
                                          : GB_ERR_LOST;
}

gb_status_t px_send_last_piece(px_call_t *call, uint64_t offset, const void *data, uint32_t size,
                               uint64_t *until)
{
    if (late_result(call))
        return GB_OK; /* which the reply says */
    px_wire_piece_t piece = {offset, size};
    px_wire_result_t head = {CUDA_SUCCESS, 0};
    outgoing_t out = answer(call, GB_FRAME_REPLY | GB_FRAME_MORE);
    outgoing_t reply = answer(call, GB_FRAME_REPLY);
    add(&out, &piece, sizeof(piece));
    add(&out, data, size);
    add(&reply, &head, sizeof(head));
    px_output_flush(call->session);
    if (wait_room(call, size) != GB_OK)
        return GB_ERR_LOST;
    call->replied = 1;
    atomic_store(&call->lane->busy, 0); /* the client's thread goes on as soon as it has it */
    return send_two(call->session, &out, &reply, until);
}

gb_status_t px_send_down(px_session_t *session, uint32_t token, uint64_t offset, const void *data,
                         uint32_t size)
{
    px_wire_piece_t piece = {offset, size};
    outgoing_t out = {
        .frame = {.operation = PX_OP_DOWN, .flags = GB_FRAME_MORE, .sequence = token}};
    add(&out, &piece, sizeof(piece));
    add(&out, data, size);
    if (gb_durable_wait_room(session->stream, RESERVE + size) != GB_OK)
        return GB_ERR_LOST;
    return send_two(session, &out, NULL, NULL);
}

void px_send_ping(px_session_t *session)
{
    outgoing_t out = {.frame = {.operation = GB_OP_PING}};
    struct iovec iov[PARTS + 2];
    int n = 0;
    if (pthread_mutex_trylock(&session->send_lock) != 0)
        return;
    lay_out(&out, iov, &n);
    if (gb_durable_room(session->stream) >= RESERVE)
        (void)gb_durable_sendv(session->stream, iov, n, -1); /* the next sender meets its failure */
    pthread_mutex_unlock(&session->send_lock);
}
