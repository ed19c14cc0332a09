#include "gpu-proxy/client/rc_cell.h"

#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/client/rc_host.h"
#include "gpu-proxy/client/rc_shared.h"

/* What one run does. */
typedef struct run {
    struct run *next;
    int enabled;
    CUDA_HOST_NODE_PARAMS host; /* fn NULL: a copy */
    rc_copy_sides_t copy;
} run_t;

struct rc_cells {
    rc_session_t *session;
    rc_object_t *exec;
    uint32_t number; /* of it on the wire */
    uint64_t uses;   /* runs that are queued or under way; 1 for the graph */
    int closed, tell;
};

struct rc_cell {
    rc_cells_t *cells;
    uint32_t position;
    uint64_t token;
    run_t *first, **last;
    int closed;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all cells */

int rc_cell_needed(const rc_work_t *work)
{
    rc_copy_sides_t sides;
    if (work->type == CU_GRAPH_NODE_TYPE_HOST)
        return 1;
    return work->type == CU_GRAPH_NODE_TYPE_MEMCPY && rc_work_sides(work, &sides) == CUDA_SUCCESS &&
           (sides.dst_host || sides.src_host);
}

/* ---- all cells of a graph ---- */

rc_cells_t *rc_cells_open(rc_session_t *session, rc_object_t *exec)
{
    rc_cells_t *cells = calloc(1, sizeof(*cells));
    if (cells)
        *cells = (rc_cells_t){session, exec, exec->number, 1, 0, 0};
    return cells;
}

static void put_cells(rc_cells_t *cells, rc_lane_t *lane)
{
    pthread_mutex_lock(&lock);
    int last = --cells->uses == 0;
    pthread_mutex_unlock(&lock);
    if (!last)
        return;
    if (cells->tell) {
        rc_call_t call = {.lane = lane, .session = cells->session, .dropped = cells->exec};
        uint64_t number = cells->number;
        rc_post(&call, GB_OP_cuGraphExecDestroy, &number, 1); /* a lost session has none */
    }
    free(cells);
}

void rc_cells_close(rc_cells_t *cells, rc_lane_t *lane, int tell)
{
    pthread_mutex_lock(&lock);
    cells->closed = 1;
    cells->tell = tell;
    pthread_mutex_unlock(&lock);
    put_cells(cells, lane);
}

static int is_closed(rc_cells_t *cells)
{
    pthread_mutex_lock(&lock);
    int closed = cells->closed && !cells->tell;
    pthread_mutex_unlock(&lock);
    return closed;
}

static void free_cell(rc_cell_t *cell)
{
    rc_host_remove(cell->token);
    free(cell);
}

/* ---- copies ---- */

/* Calls `row` for each row of the box on the host side, with its place in the packed bytes. */
static void each_row(const rc_copy_sides_t *c, uint64_t first, uint64_t pitch, uint64_t height,
                     uint8_t *packed, int to_host)
{
    for (uint64_t z = 0; z < c->depth; z++) {
        for (uint64_t y = 0; y < c->height; y++) {
            uint8_t *host = (uint8_t *)(uintptr_t)(first + (z * height + y) * pitch);
            uint8_t *at = packed + (z * c->height + y) * c->width;
            memcpy(to_host ? host : at, to_host ? at : host, c->width);
        }
    }
}

static int is_packed(const rc_copy_sides_t *c, uint64_t pitch, uint64_t height)
{
    return (c->height == 1 || pitch == c->width) && (c->depth == 1 || height == c->height);
}

static void copy_here(const rc_copy_sides_t *c)
{
    for (uint64_t z = 0; z < c->depth; z++)
        for (uint64_t y = 0; y < c->height; y++)
            memmove((void *)(uintptr_t)(c->dst + (z * c->dst_height + y) * c->dst_pitch),
                    (const void *)(uintptr_t)(c->src + (z * c->src_height + y) * c->src_pitch),
                    c->width);
}

/* The bytes have left before the session is told that the run is done. */
static CUresult send(rc_call_t *call, const rc_cell_t *cell, const uint8_t *bytes, uint64_t size)
{
    CUresult result = CUDA_SUCCESS;
    for (uint64_t done = 0; done < size && !result;) {
        uint64_t piece = size - done < PX_WIRE_PIECE ? size - done : PX_WIRE_PIECE;
        uint64_t head[4] = {cell->cells->number, cell->position, done, piece};
        result = rc_post_bulk(call, PX_OP_GRAPH_BYTES, head, sizeof(head), bytes + done, piece);
        done += piece;
    }
    return result;
}

static CUresult fetch(rc_call_t *call, const rc_cell_t *cell, uint8_t *bytes, uint64_t size)
{
    uint64_t args[3] = {cell->cells->number, cell->position, size};
    rc_waiter_t waiter = {.dst = bytes, .dst_size = size};
    CUresult result = rc_ask_bytes(call, PX_OP_GRAPH_FETCH, args, sizeof(args), NULL, 0, &waiter);
    rc_waiter_done(&waiter);
    return result;
}

/* Without memory for rows that lie apart, or without the session, the bytes cannot be moved: the session is
 * given up, so that nobody computes with wrong ones. */
static void copy(const rc_cell_t *cell, const rc_copy_sides_t *c)
{
    rc_call_t call = {.lane = rc_lane(), .session = cell->cells->session};
    uint64_t size = c->width * c->height * c->depth;
    if (!size)
        return;
    if (c->dst_host && c->src_host) {
        copy_here(c);
        return;
    }
    uint64_t first = c->dst_host ? c->dst : c->src;
    uint64_t pitch = c->dst_host ? c->dst_pitch : c->src_pitch;
    uint64_t height = c->dst_host ? c->dst_height : c->src_height;
    /* Memory that is shared with the device must not be touched while a session's lock is held. */
    int packed = is_packed(c, pitch, height) && !rc_shared_is_open(first);
    uint8_t *bytes = packed ? (uint8_t *)(uintptr_t)first : malloc(size);
    CUresult result = bytes && call.lane ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result && c->src_host) {
        if (!packed)
            each_row(c, first, pitch, height, bytes, 0);
        result = send(&call, cell, bytes, size);
    } else if (!result) {
        result = fetch(&call, cell, bytes, size);
        if (!result && !packed)
            each_row(c, first, pitch, height, bytes, 1);
    }
    if (!packed)
        free(bytes);
    if (result && result != RC_LOST && !is_closed(cell->cells))
        rc_session_lose(call.session, "a graph's copy cannot be carried out");
}

/* ---- runs ---- */

/* Called when a graph has come to the node. */
static void run_next(void *arg)
{
    rc_cell_t *cell = arg;
    pthread_mutex_lock(&lock);
    run_t *run = cell->first;
    if (run) {
        cell->first = run->next;
        if (!cell->first)
            cell->last = &cell->first;
    }
    pthread_mutex_unlock(&lock);
    if (run && run->enabled) {
        if (run->host.fn)
            run->host.fn(run->host.userData);
        else
            copy(cell, &run->copy);
    }
    rc_cells_t *cells = cell->cells;
    pthread_mutex_lock(&lock);
    int over = cell->closed && !cell->first;
    pthread_mutex_unlock(&lock);
    if (over)
        free_cell(cell);
    if (run)
        put_cells(cells, rc_lane());
    free(run);
}

CUresult rc_cell_open(rc_cells_t *cells, rc_cell_t **out)
{
    rc_cell_t *cell = calloc(1, sizeof(*cell));
    if (!cell)
        return CUDA_ERROR_OUT_OF_MEMORY;
    cell->cells = cells;
    cell->last = &cell->first;
    rc_host_t host = {.function = run_next, .data = cell};
    CUresult result = rc_host_add(&host, &cell->token);
    if (result)
        free(cell);
    else
        *out = cell;
    return result;
}

void rc_cell_set_position(rc_cell_t *cell, uint32_t position)
{
    cell->position = position;
}

uint64_t rc_cell_token(const rc_cell_t *cell)
{
    return cell->token;
}

void rc_cell_close(rc_cell_t *cell)
{
    pthread_mutex_lock(&lock);
    cell->closed = 1;
    int over = !cell->first;
    pthread_mutex_unlock(&lock);
    if (over)
        free_cell(cell);
}

CUresult rc_cell_push(rc_cell_t *cell, const rc_work_t *work, int enabled)
{
    run_t *run = calloc(1, sizeof(*run));
    CUresult result = run ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    if (!result && work->type == CU_GRAPH_NODE_TYPE_HOST)
        run->host = work->host;
    else if (!result)
        result = rc_work_sides(work, &run->copy);
    if (result) {
        free(run);
        return result;
    }
    run->enabled = enabled;
    pthread_mutex_lock(&lock);
    *cell->last = run;
    cell->last = &run->next;
    cell->cells->uses++;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}
