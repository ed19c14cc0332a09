#include "gpu-proxy/client/rc_down.h"

#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/client/rc_host.h"
#include "gpu-proxy/client/rc_mirror.h"
#include "gpu-proxy/client/rc_shared.h"

enum { MOST = 16 }; /* of a session at once: each may take a buffer there */

/* In a session's list, under its recv_lock. */
typedef struct rc_down {
    struct rc_down *next;
    uint32_t token;
    const rc_object_t *owner;
    uint64_t stream; /* on the wire */
    uint8_t *dst;    /* NULL: the bytes are dropped */
    uint64_t size;   /* as it travels */
    uint64_t span;   /* of memory, from the first byte to the last */
    rc_rows_t rows;  /* with gaps; width 0: without */
} down_t;

static atomic_uint under_way; /* of all sessions */

/* ---- the list; with recv_lock held ---- */

static down_t **find(rc_session_t *s, uint64_t token)
{
    down_t **at = &s->downs;
    while (*at && (*at)->token != token)
        at = &(*at)->next;
    return at;
}

static void end(rc_session_t *s, down_t **at)
{
    down_t *down = *at;
    *at = down->next;
    s->down_count--;
    atomic_fetch_sub(&under_way, 1);
    free(down);
}

static int overlaps(const down_t *down, uint64_t address, uint64_t size)
{
    uint64_t start = (uint64_t)(uintptr_t)down->dst;
    return down->dst && address < start + down->span && start < address + size;
}

static down_t *overlapping(rc_session_t *s, uint64_t address, uint64_t size)
{
    down_t *down = s->downs;
    while (down && !overlaps(down, address, size))
        down = down->next;
    return down;
}

/* Bytes that are still sent have a place to go to, until the session ends. */
static void cancel(rc_session_t *s, down_t *down)
{
    if (!s->down_sink)
        s->down_sink = malloc(PX_WIRE_MAX);
    if (s->down_sink)
        down->dst = NULL;
}

uint8_t *rc_down_place(rc_session_t *s, uint32_t token, uint64_t offset, uint64_t size)
{
    const down_t *down = *find(s, token);
    if (!down || offset > down->size || size > down->size - offset || size > PX_WIRE_MAX)
        return NULL;
    if (!down->dst || !down->rows.width)
        return down->dst ? down->dst + offset : s->down_sink;
    s->row_token = token;
    s->row_offset = offset;
    s->row_size = size;
    return s->rows;
}

/* Puts packed bytes of a box, from an offset on, where they belong. */
static void scatter(const rc_rows_t *r, uint64_t offset, const uint8_t *packed, uint64_t size)
{
    while (size > 0) {
        uint64_t x = offset % r->width, row = offset / r->width;
        uint64_t n = r->width - x < size ? r->width - x : size;
        memcpy(r->to + row / r->height * r->slice + row % r->height * r->pitch + x, packed, n);
        offset += n;
        packed += n;
        size -= n;
    }
}

void rc_down_came(rc_session_t *s)
{
    if (!s->row_size) /* most pieces are where they belong */
        return;
    pthread_mutex_lock(&s->recv_lock);
    const down_t *down = *find(s, s->row_token);
    if (down && down->dst) /* else it was given up meanwhile */
        scatter(&down->rows, s->row_offset, s->rows, s->row_size);
    s->row_size = 0;
    pthread_mutex_unlock(&s->recv_lock);
}

/* ---- beginning and end of one ---- */

/* Page-locked memory that only copies touch. */
static int is_locked(uint64_t address, uint64_t size)
{
    rc_block_t block;
    return rc_block_find(address, &block) &&
           size <= block.range.size - (address - block.range.start) &&
           ((block.kind == RC_BLOCK_HOST && !rc_shared_is_open(address)) ||
            (block.kind == RC_BLOCK_REGISTERED && !rc_mirror_is_open(block.range.start)));
}

static CUresult add(const rc_call_t *call, const down_t *what, uint64_t *token)
{
    rc_session_t *s = call->session;
    down_t *down = malloc(sizeof(*down));
    if (!down)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *down = *what;
    down->owner = call->stream_context ? call->stream_context : call->context;
    pthread_mutex_lock(&s->recv_lock);
    if (down->rows.width && !s->rows)
        s->rows = malloc(PX_WIRE_MAX);
    int room = s->down_count < MOST && (!down->rows.width || s->rows);
    if (room) {
        *token = down->token = ++s->down_token;
        down->next = s->downs;
        s->downs = down;
        s->down_count++;
        atomic_fetch_add(&under_way, 1);
    }
    pthread_mutex_unlock(&s->recv_lock);
    if (!room)
        free(down);
    return room ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

gb_status_t rc_down_done(rc_session_t *s, uint64_t token)
{
    pthread_mutex_lock(&s->recv_lock);
    down_t **at = find(s, token);
    int known = *at != NULL;
    if (known)
        end(s, at);
    pthread_cond_broadcast(&s->acked);
    pthread_mutex_unlock(&s->recv_lock);
    if (!known)
        return gb_fail(GB_ERR_PROTOCOL, "the session ends a copy that was not asked for");
    rc_host_came(s);
    return GB_OK;
}

/* Enters the copy if it can be queued, which *queued says; then the session is to be told. */
static CUresult begin(rc_call_t *call, const down_t *what, uint64_t *token, int *queued)
{
    *queued = 0;
    if (!call->session || !call->session->late_copies ||
        !is_locked((uint64_t)(uintptr_t)what->dst, what->span))
        return CUDA_SUCCESS;
    CUresult result = add(call, what, token);
    if (result)
        return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
    *queued = 1;
    result = rc_host_await(call->session);
    if (result) {
        pthread_mutex_lock(&call->session->recv_lock);
        end(call->session, find(call->session, *token));
        pthread_mutex_unlock(&call->session->recv_lock);
    }
    return result;
}

CUresult rc_down_post(rc_call_t *call, const px_wire_copy_t *copy, void *dst, int *queued)
{
    px_wire_down_t wire = {*copy, 0};
    const down_t what = {
        .stream = copy->stream, .dst = dst, .size = copy->size, .span = copy->size};
    CUresult result = begin(call, &what, &wire.token, queued);
    if (result || !*queued)
        return result;
    return rc_post_bytes(call, PX_OP_DOWN, &wire, sizeof(wire), NULL, 0);
}

static int has_gaps(const rc_rows_t *r)
{
    return (r->height > 1 && r->pitch != r->width) ||
           (r->depth > 1 && r->slice != r->width * r->height);
}

CUresult rc_down_post_box(rc_call_t *call, const px_wire_box_t *box, const rc_rows_t *rows,
                          int *queued)
{
    px_wire_down_box_t wire = {*box, 0};
    down_t what = {.stream = box->stream,
                   .dst = rows->to,
                   .size = rows->width * rows->height * rows->depth,
                   .span = (rows->depth - 1) * rows->slice + (rows->height - 1) * rows->pitch +
                           rows->width};
    if (has_gaps(rows))
        what.rows = *rows;
    CUresult result = begin(call, &what, &wire.token, queued);
    if (result || !*queued)
        return result;
    return rc_post_bytes(call, PX_OP_DOWN_BOX, &wire, sizeof(wire), NULL, 0);
}

/* ---- waiting ---- */

void rc_down_watch(rc_session_t *s)
{
    if (atomic_load(&s->down_count) > 0)
        rc_host_wake(s);
}

/* Waits for the stream, and if that has ended meanwhile for its whole context. */
static void wait_for(rc_session_t *s, const down_t *down)
{
    rc_lane_t *lane = rc_lane();
    CUresult result = lane ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    for (int whole = 0; whole < 2 && !result; whole++) {
        rc_waiter_t waiter = {0};
        result = rc_send_and_wait(
            s, lane, down->owner, whole ? GB_OP_cuCtxSynchronize : GB_OP_cuStreamSynchronize,
            &down->stream, whole ? 0 : sizeof(down->stream), NULL, 0, &waiter);
        rc_waiter_done(&waiter);
        if (!result)
            return;
        result = whole ? result : CUDA_SUCCESS;
    }
}

static void settle(rc_session_t *s, uint64_t address, uint64_t size)
{
    pthread_mutex_lock(&s->recv_lock);
    for (down_t *found; (found = overlapping(s, address, size)) != NULL;) {
        down_t down = *found;
        pthread_mutex_unlock(&s->recv_lock);
        wait_for(s, &down);
        pthread_mutex_lock(&s->recv_lock);
        down_t **at = find(s, down.token);
        if (*at && (*at)->dst) /* a fault, or a link that is gone: nothing comes any more */
            cancel(s, *at);
        if (*at && (*at)->dst)
            break; /* out of memory */
    }
    pthread_mutex_unlock(&s->recv_lock);
}

void rc_down_settle(uint64_t address, uint64_t size)
{
    if (atomic_load_explicit(&under_way, memory_order_relaxed) == 0)
        return;
    for (int i = 0; i < rc.session_count; i++)
        settle(rc.sessions[i], address, size);
}

void rc_down_forget_context(const rc_object_t *context)
{
    rc_session_t *s = context->session;
    pthread_mutex_lock(&s->recv_lock);
    for (down_t *down = s->downs; down; down = down->next)
        if (down->owner == context)
            cancel(s, down);
    pthread_mutex_unlock(&s->recv_lock);
}

void rc_down_free(rc_session_t *s)
{
    while (s->downs)
        end(s, &s->downs);
    free(s->down_sink);
    free(s->rows);
}
