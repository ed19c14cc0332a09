/* Copies to the client.
 *
 * Pieces go through halves of staging buffers: some are on their way from the device while one is sent. On a
 * line that can be cut, what was sent is kept until the client acknowledges it. Of a large copy the staging
 * memory itself is what is kept: no byte is copied once more, and the buffers go back to the pool with the
 * offset up to which the client must have received. As much may be under way as the stream would keep. */
#include <string.h>

#include "gpu-proxy/session/px_state.h"

enum {
    FETCH_MOST = 64 << 10, /* bytes that the dispatcher copies to the client itself */
    REFER_FROM = 4 << 20,  /* bytes of a copy that are kept where they are */
    BUFFERS = GB_DURABLE_KEEP / (2 * PX_WIRE_PIECE), /* at most: as much as the stream would keep */
    AHEAD = 2,                                       /* pieces on their way from the device */
};

typedef struct {
    uint8_t *at;
    uint64_t until; /* the client has it when it has received up to there */
    int busy;       /* being filled, or not sent yet */
} half_t;

typedef struct {
    px_call_t *call;
    const px_wire_copy_t *copy;
    CUstream stream;
    uint8_t *buffers[BUFFERS];
    half_t halves[2 * BUFFERS];
    int count;             /* of halves */
    int refers;            /* pieces may stay in the staging memory */
    half_t *queued[AHEAD]; /* by number of the piece */
    CUevent events[AHEAD];
} fetch_t;

static uint32_t piece_at(const px_wire_copy_t *copy, uint64_t offset)
{
    uint64_t left = copy->size - offset;
    return left < PX_WIRE_PIECE ? (uint32_t)left : PX_WIRE_PIECE;
}

/* Halves that the client has not acknowledged, and up to where it must have received to free one. */
static int unconfirmed(const fetch_t *f, uint64_t *oldest)
{
    uint64_t confirmed = gb_durable_confirmed(f->call->session->stream);
    int count = 0;
    *oldest = UINT64_MAX;
    for (int i = 0; i < f->count; i++) {
        uint64_t until = f->halves[i].until;
        count += until > confirmed;
        *oldest = until > confirmed && until < *oldest ? until : *oldest;
    }
    return count;
}

/* There is one: see may_refer. */
static half_t *free_half(fetch_t *f)
{
    uint64_t confirmed = gb_durable_confirmed(f->call->session->stream);
    int i = 0;
    while (i < f->count - 1 && (f->halves[i].busy || f->halves[i].until > confirmed))
        i++;
    return &f->halves[i];
}

static CUresult borrow(fetch_t *f)
{
    uint8_t **buffer = &f->buffers[f->count / 2];
    CUresult result = px_staging_borrow(f->call->session->staging, buffer);
    for (int k = 0; k < 2 && !result; k++)
        f->halves[f->count++].at = *buffer + k * PX_WIRE_PIECE;
    return result;
}

/* A half may stay as it is until it is confirmed if that leaves one for what is under way from the device:
 * with one more buffer if need be, or after some waiting. */
static int may_refer(fetch_t *f)
{
    uint64_t oldest;
    if (!f->refers)
        return 0;
    while (unconfirmed(f, &oldest) + AHEAD >= f->count)
        if (f->count < 2 * BUFFERS
                ? borrow(f) != CUDA_SUCCESS
                : gb_durable_wait_confirmed(f->call->session->stream, oldest) != GB_OK)
            return 0;
    return 1;
}

static CUresult ask_piece(fetch_t *f, uint64_t offset)
{
    const gb_cuda_table_t *cuda = f->call->cuda;
    unsigned number = (unsigned)(offset / PX_WIRE_PIECE % AHEAD);
    half_t *half = free_half(f);
    half->busy = 1;
    half->until = 0;
    f->queued[number] = half;
    CUresult result = cuda->cuMemcpyDtoHAsync_v2(half->at, f->copy->src + offset,
                                                 piece_at(f->copy, offset), f->stream);
    return result ? result : cuda->cuEventRecord(f->events[number], f->stream);
}

static CUresult send_piece(fetch_t *f, uint64_t offset)
{
    px_call_t *call = f->call;
    unsigned number = (unsigned)(offset / PX_WIRE_PIECE % AHEAD);
    half_t *half = f->queued[number];
    uint32_t size = piece_at(f->copy, offset);
    uint64_t *until = may_refer(f) ? &half->until : NULL;
    CUresult result = call->cuda->cuEventSynchronize(f->events[number]);
    if (result)
        return result;
    px_moved(call->session);
    gb_status_t status = offset + size == f->copy->size
                             ? px_send_last_piece(call, offset, half->at, size, until)
                             : px_send_piece(call, offset, half->at, size, until);
    half->busy = 0;
    return status == GB_OK ? CUDA_SUCCESS
                           : CUDA_ERROR_UNKNOWN; /* nobody is there: the session ends */
}

/* Every copy is queued behind the stream's work and waited for. */
static CUresult stream_down(fetch_t *f)
{
    const gb_cuda_table_t *cuda = f->call->cuda;
    uint64_t asked = 0, sent = 0;
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < AHEAD && !result; i++)
        result = cuda->cuEventCreate(&f->events[i], CU_EVENT_DISABLE_TIMING);
    while (!result && sent < f->copy->size) {
        while (!result && asked < f->copy->size && asked - sent < AHEAD * PX_WIRE_PIECE) {
            result = ask_piece(f, asked);
            asked += piece_at(f->copy, asked);
        }
        uint32_t size = piece_at(f->copy, sent);
        if (!result)
            result = send_piece(f, sent);
        sent += size;
    }
    for (int i = 0; i < AHEAD; i++)
        if (f->events[i])
            cuda->cuEventDestroy_v2(f->events[i]);
    return result;
}

/* One piece of an idle stream: there is nothing to wait for but the copy itself, which takes less time
 * than to hand the dispatcher's role on. */
static CUresult fetch(fetch_t *f)
{
    px_call_t *call = f->call;
    uint8_t *at = f->buffers[0];
    CUresult result = call->cuda->cuMemcpyDtoHAsync_v2(at, f->copy->src, f->copy->size, f->stream);
    if (!result)
        result = call->cuda->cuStreamSynchronize(f->stream);
    px_moved(call->session);
    if (!result && px_send_last_piece(call, 0, at, (uint32_t)f->copy->size, NULL) != GB_OK)
        result = CUDA_ERROR_UNKNOWN;
    return result;
}

/* Memory of which this process is sure that nothing of before the copy is still to be done to it. */
static const uint8_t *reach(const px_call_t *call, const px_wire_copy_t *copy, CUstream stream)
{
    px_session_t *s = call->session;
    px_heap_t *heap = call->context ? s->devices[call->context->device].heap : NULL;
    if (!s->config->reachable || !heap || !px_heap_holds(heap, copy->src, copy->size) ||
        call->cuda->cuStreamQuery(stream) ||
        call->cuda->cuStreamQuery(NULL)) /* which stands for all that wait for each other */
        return NULL;
    return (const uint8_t *)(uintptr_t)copy->src;
}

/* A lane replies when it has read all: then another thread may be told to write there. */
static CUresult send_reached(px_call_t *call, const px_wire_copy_t *copy, const uint8_t *from)
{
    gb_status_t status = GB_OK;
    if (!call->may_block)
        status = px_send_last_piece(call, 0, from, (uint32_t)copy->size, NULL);
    for (uint64_t at = 0; call->may_block && at < copy->size && status == GB_OK;
         at += PX_WIRE_PIECE)
        status = px_send_piece(call, at, from + at, piece_at(copy, at), NULL);
    return status == GB_OK ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
}

static void give_back(fetch_t *f)
{
    for (int i = 0; i < f->count / 2; i++) {
        uint64_t a = f->halves[2 * i].until, b = f->halves[2 * i + 1].until;
        px_staging_return(f->call->session->staging, f->buffers[i], a > b ? a : b);
    }
}

CUresult px_copy_down(px_call_t *call, const px_wire_copy_t *copy, CUstream stream)
{
    int keeps = gb_durable_keeps(call->session->stream);
    fetch_t f = {
        .call = call, .copy = copy, .stream = stream, .refers = keeps && copy->size >= REFER_FROM};
    if (!call->may_block &&
        (copy->size > FETCH_MOST || call->cuda->cuStreamQuery(stream) == CUDA_ERROR_NOT_READY))
        return PX_WOULD_BLOCK;
    const uint8_t *reached = keeps ? NULL : reach(call, copy, stream);
    if (reached)
        return send_reached(call, copy, reached);
    CUresult result = borrow(&f);
    if (result)
        return result;
    result = call->may_block ? stream_down(&f) : fetch(&f);
    if (result)
        call->cuda->cuStreamSynchronize(stream); /* the other half may still be written */
    give_back(&f);
    return result;
}

/* px_wire_copy_t -> pieces */
CUresult px_do_cuMemcpyDtoHAsync_v2(px_call_t *call)
{
    const px_wire_copy_t *copy = (const void *)call->payload;
    CUstream stream = px_stream(call, copy->stream);
    return call->bad ? call->bad : px_copy_down(call, copy, stream);
}
