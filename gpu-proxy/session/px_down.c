/* Copies to the client's page-locked memory that no call waits for. A host function in the stream sends the
 * bytes, so that what follows in the stream is done only after they are on their way, and the answer to
 * whoever waits for it comes behind them. It sends device memory itself where this process reaches that;
 * else pieces are copied to a buffer, each sent before the next one is copied. */
#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/session/px_box.h"

enum {
    BUFFER = 2 * PX_WIRE_PIECE,
    MOST = 64, /* under way; a client keeps to less */
};

typedef struct down {
    struct down *next;
    px_session_t *session;
    const px_context_t *context;
    uint32_t token;
    int lost; /* the link is: the rest is not sent */
    uint64_t size, sent;
    px_extent_t extent;  /* of a box; width 0: it is none */
    const uint8_t *from; /* device memory, or */
    uint8_t *buffer;
} down_t;

typedef struct px_downs {
    pthread_mutex_t lock;
    down_t *under_way;
    unsigned count;
    uint8_t
        *buffers[MOST]; /* of copies that are done: a host function may not give them back itself */
    unsigned spare;
} downs_t;

static downs_t *downs_of(px_session_t *s)
{
    if (!s->downs && (s->downs = calloc(1, sizeof(*s->downs))) != NULL)
        pthread_mutex_init(&s->downs->lock, NULL);
    return s->downs;
}

static down_t *begin(px_session_t *s, const px_context_t *context, uint64_t token, uint64_t size)
{
    downs_t *all = downs_of(s);
    down_t *down = all ? calloc(1, sizeof(*down)) : NULL;
    if (!down)
        return NULL;
    *down = (down_t){.session = s, .context = context, .token = (uint32_t)token, .size = size};
    pthread_mutex_lock(&all->lock);
    int room = all->count < MOST;
    if (room) {
        down->next = all->under_way;
        all->under_way = down;
        all->count++;
    }
    pthread_mutex_unlock(&all->lock);
    if (!room) {
        free(down);
        return NULL;
    }
    return down;
}

static void end(down_t *down)
{
    downs_t *all = down->session->downs;
    pthread_mutex_lock(&all->lock);
    down_t **at = &all->under_way;
    while (*at != down)
        at = &(*at)->next;
    *at = down->next;
    all->count--;
    if (down->buffer)
        all->buffers[all->spare++] = down->buffer;
    pthread_mutex_unlock(&all->lock);
    free(down);
}

static void send_some(down_t *down, const uint8_t *data, uint64_t size)
{
    down->lost = down->lost || px_send_down(down->session, down->token, down->sent, data,
                                            (uint32_t)size) != GB_OK;
    down->sent += size;
}

static void tell(px_session_t *s, uint64_t token)
{
    struct iovec part = {&token, sizeof(token)};
    (void)px_send_notice(s, PX_OP_DOWN_DONE, &part, 1); /* or nobody is there */
}

static void finish(down_t *down)
{
    if (!down->lost)
        tell(down->session, down->token);
    end(down);
}

/* ---- host functions ---- */

static void send_memory(void *arg)
{
    down_t *down = arg;
    while (down->sent < down->size) {
        uint64_t left = down->size - down->sent;
        send_some(down, down->from + down->sent, left < PX_WIRE_PIECE ? left : PX_WIRE_PIECE);
    }
    finish(down);
}

/* The bytes that are in the buffer when it is the turn of those at a position. */
static uint64_t piece_at(const down_t *down, uint64_t position)
{
    if (down->extent.width) {
        px_band_t band = px_box_band(&down->extent, position);
        return band.width * band.rows;
    }
    return down->size - position < BUFFER ? down->size - position : BUFFER;
}

static void send_buffer(void *arg)
{
    down_t *down = arg;
    send_some(down, down->buffer, piece_at(down, down->sent));
    if (down->sent == down->size)
        finish(down);
}

/* ---- the dispatcher's ---- */

static CUresult take_buffer(down_t *down)
{
    downs_t *all = down->session->downs;
    pthread_mutex_lock(&all->lock);
    if (all->spare > 0)
        down->buffer = all->buffers[--all->spare];
    pthread_mutex_unlock(&all->lock);
    return down->buffer ? CUDA_SUCCESS : px_staging_borrow(down->session->staging, &down->buffer);
}

/* Copies the bytes at a position to the buffer. */
static CUresult fetch(px_call_t *call, const px_wire_box_t *box, uint64_t position, uint64_t bytes,
                      CUstream stream, uint8_t *to)
{
    if (!box->width)
        return call->cuda->cuMemcpyDtoHAsync_v2(to, box->src.address + position, bytes, stream);
    px_extent_t extent = px_box_extent(box);
    px_band_t band = px_box_band(&extent, position);
    return px_box_fetch(call, box, &band, stream, to);
}

/* The pieces share the buffer, in the stream's own order. What is queued with the last piece may be over, and
 * `down` gone. */
static CUresult queue_pieces(px_call_t *call, down_t *down, const px_wire_box_t *box,
                             CUstream stream)
{
    uint64_t size = down->size, done = 0;
    CUresult result = take_buffer(down);
    while (!result && done < size) {
        uint64_t part = piece_at(down, done);
        result = fetch(call, box, done, part, stream, down->buffer);
        if (!result)
            result = call->session->launch_host(stream, send_buffer, down);
        if (!result)
            done += part;
    }
    if (result && done == 0)
        finish(down); /* else what is queued refers to it still: it ends with its context */
    return result;
}

/* px_wire_down_t. After a fault nothing is copied, but the client hears of the end. */
CUresult px_down(px_call_t *call)
{
    const px_wire_down_t *wire = (const void *)call->payload;
    px_session_t *s = call->session;
    CUstream stream = px_stream(call, wire->copy.stream);
    CUresult result = call->context ? call->bad : CUDA_ERROR_INVALID_CONTEXT;
    if (!result && (wire->copy.size == 0 || wire->token > UINT32_MAX))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = (CUresult)atomic_load(&call->context->late);
    down_t *down = result ? NULL : begin(s, call->context, wire->token, wire->copy.size);
    if (!down) {
        tell(s, wire->token);
        return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
    }
    px_heap_t *heap = s->devices[call->context->device].heap;
    if (!s->config->reachable || !heap || !px_heap_holds(heap, wire->copy.src, wire->copy.size)) {
        px_wire_box_t row = {.src.address = wire->copy.src};
        return queue_pieces(call, down, &row, stream);
    }
    down->from = (const uint8_t *)(uintptr_t)wire->copy.src;
    result = s->launch_host(stream, send_memory, down);
    if (result)
        finish(down);
    return result;
}

/* px_wire_down_box_t: the same for a box. */
CUresult px_down_box(px_call_t *call)
{
    const px_wire_down_box_t *wire = (const void *)call->payload;
    px_session_t *s = call->session;
    CUstream stream = px_stream(call, wire->box.stream);
    px_extent_t extent = px_box_extent(&wire->box);
    uint64_t bytes = px_box_bytes(&extent);
    if (wire->box.src.array)
        (void)px_array(call, wire->box.src.array);
    CUresult result = call->context ? call->bad : CUDA_ERROR_INVALID_CONTEXT;
    if (!result && (bytes == 0 || bytes == UINT64_MAX || wire->token > UINT32_MAX))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = (CUresult)atomic_load(&call->context->late);
    down_t *down = result ? NULL : begin(s, call->context, wire->token, bytes);
    if (!down) {
        tell(s, wire->token);
        return result ? result : CUDA_ERROR_OUT_OF_MEMORY;
    }
    down->extent = extent;
    return queue_pieces(call, down, &wire->box, stream);
}

static down_t *of_ended_context(downs_t *all)
{
    pthread_mutex_lock(&all->lock);
    down_t *down = all->under_way;
    while (down && atomic_load(&down->context->handle))
        down = down->next;
    pthread_mutex_unlock(&all->lock);
    return down;
}

void px_downs_sweep(px_session_t *s)
{
    down_t *down;
    while (s->downs && (down = of_ended_context(s->downs)) != NULL)
        finish(down); /* so that the client does not wait for it */
}

void px_downs_free(px_session_t *s)
{
    downs_t *all = s->downs;
    if (!all)
        return;
    while (all->under_way) { /* a fault has ended its stream */
        down_t *down = all->under_way;
        end(down);
    }
    while (all->spare > 0)
        px_staging_return(s->staging, all->buffers[--all->spare], 0);
    pthread_mutex_destroy(&all->lock);
    free(all);
    s->downs = NULL;
}
