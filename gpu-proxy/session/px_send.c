#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/session/px_output.h"

enum { RESERVE = 2 << 20 }; /* bytes of what can be kept that pieces leave to replies */

static gb_status_t send_as(px_session_t *s, gb_frame_t frame, const struct iovec *parts, int count)
{
    static const uint8_t zeros[8];
    uint8_t header[GB_FRAME_HEADER];
    struct iovec iov[6];
    size_t length = 0;
    for (int i = 0; i < count; i++) {
        iov[i + 1] = parts[i];
        length += parts[i].iov_len;
    }
    iov[count + 1].iov_base = (void *)(uintptr_t)zeros;
    iov[count + 1].iov_len = px_wire_pad((uint32_t)length) - length;
    frame.length = px_wire_pad((uint32_t)length);
    gb_frame_encode(&frame, header);
    iov[0].iov_base = header;
    iov[0].iov_len = sizeof(header);
    pthread_mutex_lock(&s->send_lock);
    gb_status_t status = gb_durable_sendv(s->stream, iov, count + 2, -1);
    pthread_mutex_unlock(&s->send_lock);
    return status;
}

static gb_status_t send_frame(px_call_t *call, uint8_t flags, const struct iovec *parts, int count)
{
    gb_frame_t frame = {.operation = call->frame.operation,
                        .flags = flags,
                        .lane = call->frame.lane,
                        .sequence = call->frame.sequence};
    return send_as(call->session, frame, parts, count);
}

gb_status_t px_send_notice(px_session_t *session, uint16_t op, const struct iovec *parts, int count)
{
    return send_as(session, (gb_frame_t){.operation = op}, parts, count);
}

gb_status_t px_send_reply(px_call_t *call, CUresult result)
{
    uint8_t flags = GB_FRAME_REPLY;
    int late = call->context ? atomic_load(&call->context->late) : 0;
    if (late) {
        /* A queued call before this one failed: nothing after it can be trusted. */
        result = (CUresult)late;
        flags |= GB_FRAME_ERROR;
    }
    px_output_flush(call->session);
    px_wire_result_t head = {(uint32_t)result, 0};
    struct iovec parts[3] = {{&head, sizeof(head)}};
    int count = 1;
    if (result == CUDA_SUCCESS) {
        if (call->outs) {
            parts[count].iov_base = call->out;
            parts[count++].iov_len = (size_t)call->outs * sizeof(uint64_t);
        }
        if (call->extra_size) {
            parts[count].iov_base = call->extra;
            parts[count++].iov_len = call->extra_size;
        }
        head.more = (uint32_t)call->outs * 8u + call->extra_size;
    }
    gb_status_t status = send_frame(call, flags, parts, count);
    free(call->extra);
    call->extra = NULL;
    call->extra_size = 0;
    return status;
}

gb_status_t px_send_ack(px_session_t *s)
{
    uint8_t bytes[GB_FRAME_HEADER + sizeof(uint64_t)];
    struct iovec iov = {bytes, sizeof(bytes)};
    gb_frame_t frame = {.length = sizeof(uint64_t), .operation = GB_OP_ACK};
    if (!gb_durable_ack_due(s->stream))
        return GB_OK;
    uint64_t received = gb_durable_received(s->stream);
    gb_frame_encode(&frame, bytes);
    memcpy(bytes + GB_FRAME_HEADER, &received, sizeof(received));
    gb_durable_ack_told(s->stream, received);
    pthread_mutex_lock(&s->send_lock);
    gb_status_t status = gb_durable_sendv(s->stream, &iov, 1, -1);
    pthread_mutex_unlock(&s->send_lock);
    return status;
}

/* What the client acknowledges is taken by the dispatcher, so that one must not wait here: it sends small
 * copies only, for which there is a reserve. */
gb_status_t px_send_piece(px_call_t *call, uint64_t offset, const void *data, uint32_t size)
{
    if (call->may_block && gb_durable_wait_room(call->session->stream, RESERVE + size) != GB_OK)
        return GB_ERR_LOST;
    px_wire_piece_t piece = {offset, size};
    struct iovec parts[2] = {{&piece, sizeof(piece)}, {(void *)(uintptr_t)data, size}};
    return send_frame(call, GB_FRAME_REPLY | GB_FRAME_MORE, parts, 2);
}

gb_status_t px_send_down(px_session_t *session, uint32_t token, uint64_t offset, const void *data,
                         uint32_t size)
{
    if (gb_durable_wait_room(session->stream, RESERVE + size) != GB_OK)
        return GB_ERR_LOST;
    px_wire_piece_t piece = {offset, size};
    struct iovec parts[2] = {{&piece, sizeof(piece)}, {(void *)(uintptr_t)data, size}};
    gb_frame_t frame = {.operation = PX_OP_DOWN, .flags = GB_FRAME_MORE, .sequence = token};
    return send_as(session, frame, parts, 2);
}
