/* The workers of a session and the dispatcher's role.
 *
 * A worker that holds the role receives frames and executes them in order. When a call would have to
 * wait for the device, the worker gives the role to another one (an idle one, else a new thread),
 * executes the call as its lane, sends the reply, and becomes idle or takes the role back. So waiting
 * costs the call no thread switch, and other lanes go on meanwhile. */
#include "gpu-proxy/session/px_session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/core/gb_log.h"
#include "common/cuda/gb_beside_abi.h"
#include "common/cuda/gb_cuda_error.h"
#include "gpu-proxy/session/px_host.h"
#include "proto/px_wire_graph.h"

enum {
    BUFFER = 2 << 20,
    GULP = 16 << 10, /* received at a time while frames are small; bulk goes past the buffer */
    WORKERS = 1024,
    LINGER_MS = 200, /* for threads to end with the session */
};

static const px_entry_t hello = {px_hello, sizeof(px_wire_hello_t) / 8, 0, 0};
static const px_entry_t others[PX_OP_END - PX_OP_HELLO] = {
    [PX_OP_WINDOW - PX_OP_HELLO] = {px_window, 3, 0, 0},
    [PX_OP_SET_CONTEXT - PX_OP_HELLO] = {NULL, 1, 1, 0},
    [PX_OP_LANE_END - PX_OP_HELLO] = {NULL, 0, 1, 0},
    [PX_OP_IMAGE - PX_OP_HELLO] = {px_image_piece, 2, 1, 0},
    [PX_OP_FUNCTION - PX_OP_HELLO] = {px_function_by_name, 1, 0, 0},
    [PX_OP_EXCHANGE_CALL - PX_OP_HELLO] = {px_exchange, 2, 0, 1},
    [PX_OP_EXCHANGE_POST - PX_OP_HELLO] = {px_exchange, 2, 1, 0},
    [PX_OP_GRAPH_BYTES - PX_OP_HELLO] = {px_graph_bytes, 4, 1, 0},
    [PX_OP_GRAPH_FETCH - PX_OP_HELLO] = {px_graph_fetch, 3, 0, 0},
    [PX_OP_LINK_READ - PX_OP_HELLO] = {px_link_read, 3, 0, 0},
    [PX_OP_GRAPH_NODE - PX_OP_HELLO] = {px_graph_node, sizeof(px_wire_node_t) / 8, 1, 0},
    [PX_OP_SHARED_MAP - PX_OP_HELLO] = {px_shared_map, 3, 0, 1},
    [PX_OP_SHARED_UNMAP - PX_OP_HELLO] = {px_shared_unmap, 2, 1, 0},
    [PX_OP_SHARED_UP - PX_OP_HELLO] = {px_shared_up, sizeof(px_wire_copy_t) / 8, 1, 0},
    [PX_OP_SHARED_DOWN - PX_OP_HELLO] = {px_shared_down, sizeof(px_wire_copy_t) / 8, 0, 1},
    [PX_OP_HOST_DONE - PX_OP_HELLO] = {px_host_done, 1, 1, 0},
    [PX_OP_DOWN - PX_OP_HELLO] = {px_down, sizeof(px_wire_down_t) / 8, 1, 0},
    [PX_OP_DOWN_BOX - PX_OP_HELLO] = {px_down_box, sizeof(px_wire_down_box_t) / 8, 1, 0},
    [PX_OP_BOX_UP - PX_OP_HELLO] = {px_box_up, sizeof(px_wire_box_t) / 8, 1, 0},
    [PX_OP_BOX_DOWN - PX_OP_HELLO] = {px_box_down, sizeof(px_wire_box_t) / 8, 0, 1},
    [PX_OP_PEER_EXPECT - PX_OP_HELLO] = {px_peer_expect, sizeof(px_wire_pair_t) / 8, 0, 0},
    [PX_OP_PEER_DIAL - PX_OP_HELLO] = {px_peer_dial, sizeof(px_wire_pair_t) / 8, 0, 1},
    [PX_OP_PEER_SEND - PX_OP_HELLO] = {px_peer_move, sizeof(px_wire_transfer_t) / 8, 1, 0},
    [PX_OP_PEER_RECV - PX_OP_HELLO] = {px_peer_move, sizeof(px_wire_transfer_t) / 8, 1, 0},
    [PX_OP_PEER_SETTLE - PX_OP_HELLO] = {px_peer_settle, 1, 0, 1},
};

static gb_status_t spawn(px_session_t *session);

static const px_entry_t *entry_of(uint16_t operation)
{
    if (operation < GB_OP_CALL_END)
        return px_calls[operation].run ? &px_calls[operation] : NULL;
    if (operation == PX_OP_HELLO)
        return &hello;
    return operation > PX_OP_HELLO && operation < PX_OP_END ? &others[operation - PX_OP_HELLO]
                                                            : NULL;
}

/* A piece of a copy to the device need not be complete: its rest goes to the staging memory directly. */
static int may_begin(const gb_frame_t *frame, size_t here)
{
    return frame->operation == GB_OP_cuMemcpyHtoDAsync_v2 && frame->length > GULP / 2 &&
           here >= sizeof(px_wire_copy_t);
}

/* Makes the next frame complete in the buffer, or so far that it may begin; *payload points into it,
 * *here bytes of it are there. */
static gb_status_t next_frame(px_session_t *s, gb_frame_t *frame, const uint8_t **payload,
                              size_t *here)
{
    size_t need = GB_FRAME_HEADER;
    for (int header = 0;;) {
        if (s->end - s->start >= need && !header) {
            gb_status_t status = gb_frame_decode(s->buffer + s->start, PX_WIRE_MAX, frame);
            if (status)
                return status;
            header = 1;
            need += frame->length;
        }
        size_t got = s->end - s->start;
        if (got >= need || (header && may_begin(frame, got - GB_FRAME_HEADER))) {
            *payload = s->buffer + s->start + GB_FRAME_HEADER;
            *here = (got < need ? got : need) - GB_FRAME_HEADER;
            s->start += GB_FRAME_HEADER + *here;
            return GB_OK;
        }
        if (s->start + need > BUFFER || s->end + GULP > BUFFER || s->start == s->end) {
            memmove(s->buffer, s->buffer + s->start, s->end - s->start);
            s->end -= s->start;
            s->start = 0;
        }
        size_t room = need > GULP ? BUFFER - s->end : GULP;
        gb_status_t status = px_send_ack(s);
        if (status == GB_OK)
            status = gb_durable_recv_some(s->stream, s->buffer + s->end, room, GB_NEVER, &got);
        if (status)
            return status;
        s->end += got;
    }
}

/* Receives and drops what a call has left of its frame. */
static gb_status_t skip_rest(px_session_t *s, const px_call_t *call)
{
    uint8_t rest[4096];
    gb_status_t status = GB_OK;
    for (size_t left = call->frame.length - call->here; left > 0 && !status;) {
        size_t size = left < sizeof(rest) ? left : sizeof(rest);
        status = gb_durable_recv(s->stream, rest, size);
        left -= size;
    }
    return status;
}

/* A queued call failed: nobody waits for its result, so it sticks to the context. What the client
 * can find out at the call it does; only a gap there, or a fault of the device, ends here. */
void px_context_stick(px_context_t *context, CUresult result, const char *what)
{
    int none = 0;
    if (atomic_compare_exchange_strong(&context->late, &none, (int)result)) {
        const char *name = gb_cuda_error_name(result);
        gb_log(GB_LOG_WARN, "a queued %s failed: %s: it sticks to the context", what,
               name ? name : "?");
    }
}

static void note_late(px_call_t *call, CUresult result)
{
    const char *op = gb_op_name(call->frame.operation);
    if (call->context && result != CUDA_SUCCESS)
        px_context_stick(call->context, result, op ? op : "operation");
}

/* After a late error none of the context's work runs any more: its results would be wrong, and an
 * exchange would spread them to other workers. Releases, events and stream values still do, so that
 * what waits for them comes to its end. */
static int is_void(const px_call_t *call)
{
    if (!call->context || !atomic_load(&call->context->late))
        return 0;
    switch (call->frame.operation) {
    case GB_OP_cuLaunchKernel:
    case GB_OP_cuGraphLaunch:
    case GB_OP_cuMemcpyDtoDAsync_v2:
    case GB_OP_cuMemcpyHtoDAsync_v2:
    case GB_OP_cuMemcpy3DAsync_v2:
    case PX_OP_BOX_UP:
    case GB_OP_cuLaunchHostFunc:
    case GB_OP_cuMemsetD2D8Async:
    case GB_OP_cuMemsetD2D16Async:
    case GB_OP_cuMemsetD2D32Async:
    case GB_OP_cuMemsetD8Async:
    case GB_OP_cuMemsetD16Async:
    case GB_OP_cuMemsetD32Async:
    case PX_OP_EXCHANGE_POST:
        return 1;
    default:
        return 0;
    }
}

static gb_status_t finish(px_call_t *call, const px_entry_t *entry, CUresult result)
{
    if (call->bad)
        result = call->bad;
    if (!entry->queued) {
        px_moved(call->session);
        return px_send_reply(call, result);
    }
    note_late(call, result);
    return GB_OK;
}

static gb_status_t set_context(px_session_t *s, px_lane_t *lane, uint64_t number)
{
    px_context_t *context = number ? px_object_get(s, PX_CONTEXT, number) : NULL;
    if (number && !context)
        return gb_fail(GB_ERR_PROTOCOL, "lane %u names context %llu, which does not exist",
                       lane->id, (unsigned long long)number);
    lane->context = context;
    return GB_OK;
}

/* Gives the role to another worker. Without the role held there is always one that takes it. */
static gb_status_t pass_role(px_session_t *s)
{
    gb_status_t status = GB_OK;
    pthread_mutex_lock(&s->role_lock);
    s->dispatching = 0;
    if (s->idle > 0)
        pthread_cond_signal(&s->role_free);
    else
        status = spawn(s);
    if (status)
        s->dispatching = 1;
    pthread_mutex_unlock(&s->role_lock);
    return status;
}

/* Runs a call as its lane: the frame's payload is copied, because the next dispatcher goes on with
 * the buffer. The role is gone afterwards (*kept = 0). */
static gb_status_t run_as_lane(px_call_t *call, const px_entry_t *entry, int *kept)
{
    px_session_t *s = call->session;
    uint8_t *copy = malloc(call->frame.length ? call->frame.length : 1);
    if (!copy)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    memcpy(copy, call->payload, call->frame.length);
    call->payload = copy;
    call->args = (const uint64_t *)(const void *)copy;
    call->may_block = 1;
    call->outs = 0;
    call->bad = CUDA_SUCCESS;
    atomic_store(&call->lane->busy, 1);
    atomic_fetch_add(&s->lanes_inside, 1);
    gb_status_t status = pass_role(s);
    if (status == GB_OK) {
        *kept = 0;
        px_lane_t *lane = call->lane;
        CUresult result = px_make_current(call);
        if (!result)
            result = entry->run(call);
        /* Not busy before the reply is out: the client's thread goes on as soon as it has it. */
        atomic_store(&lane->busy, 0);
        status = finish(call, entry, result);
    }
    atomic_fetch_sub(&s->lanes_inside, 1);
    free(copy);
    return status;
}

static gb_status_t execute(px_session_t *s, const gb_frame_t *frame, const uint8_t *payload,
                           size_t here, int *kept)
{
    const px_entry_t *entry = entry_of(frame->operation);
    px_call_t call = {
        .session = s, .cuda = s->cuda, .frame = *frame, .payload = payload, .here = here};
    if (!entry || frame->length < entry->args * 8u || (frame->length & 7))
        return gb_fail(GB_ERR_PROTOCOL, "operation %u with %u bytes is none", frame->operation,
                       frame->length);
    if (!s->greeted && frame->operation != PX_OP_HELLO)
        return gb_fail(GB_ERR_PROTOCOL, "the client did not say hello");
    px_lane_t *lane = px_lane(s, frame->lane);
    if (!lane)
        return gb_fail(GB_ERR_PROTOCOL, "lane %u is out of range", frame->lane);
    if (atomic_load(&lane->busy))
        return gb_fail(GB_ERR_PROTOCOL, "lane %u sends while it waits", frame->lane);
    call.args = (const uint64_t *)(const void *)payload;
    call.lane = lane;
    call.context = lane->context;
    if (frame->operation == PX_OP_SET_CONTEXT)
        return set_context(s, lane, call.args[0]);
    if (frame->operation == PX_OP_LANE_END) {
        px_lane_end(s, lane);
        return GB_OK;
    }
    if (!entry->run)
        return gb_fail(GB_ERR_PROTOCOL, "operation %u is not for sessions", frame->operation);
    if (is_void(&call))
        return skip_rest(s, &call);
    px_see_moved(s);
    CUresult result = px_make_current(&call);
    if (!result)
        result = entry->run(&call);
    if (result == PX_WOULD_BLOCK)
        return run_as_lane(&call, entry, kept);
    gb_status_t status = skip_rest(s, &call);
    return status ? status : finish(&call, entry, result);
}

/* By the thread that met the end. Lanes may wait for room, which only what a dispatcher receives would make:
 * the stream is over for them too, whatever the client goes on to do. */
static void end_session(px_session_t *s, gb_status_t status)
{
    pthread_mutex_lock(&s->role_lock);
    if (!s->over) {
        s->over = 1;
        s->status = status;
        snprintf(s->why, sizeof(s->why), "%s", gb_why());
    }
    pthread_cond_broadcast(&s->role_free);
    pthread_cond_broadcast(&s->finished);
    pthread_mutex_unlock(&s->role_lock);
    gb_durable_lose(s->stream);
}

static gb_status_t take_ack(px_session_t *s, const gb_frame_t *frame, const uint8_t *payload)
{
    uint64_t received;
    if (frame->length != sizeof(received))
        return gb_fail(GB_ERR_PROTOCOL, "an acknowledgement of %u bytes", frame->length);
    memcpy(&received, payload, sizeof(received));
    return gb_durable_acked(s->stream, received);
}

/* Dispatches until the role is passed on (GB_OK) or the session is over. */
static gb_status_t dispatch(px_session_t *s)
{
    atomic_store_explicit(&s->executing, 0, memory_order_relaxed);
    for (int kept = 1; kept;) {
        gb_frame_t frame;
        const uint8_t *payload;
        size_t here;
        gb_status_t status = next_frame(s, &frame, &payload, &here);
        if (status == GB_OK && frame.operation == GB_OP_GOODBYE)
            status = GB_ERR_CLOSED;
        if (status == GB_OK && frame.operation == GB_OP_PING && frame.length == 0)
            continue; /* it lives: the link has noted when it was heard */
        if (status == GB_OK && frame.operation == GB_OP_ACK) {
            status = take_ack(s, &frame, payload);
            if (status == GB_OK)
                continue;
        }
        if (status == GB_OK) {
            atomic_store_explicit(&s->executing, 1, memory_order_relaxed);
            status = execute(s, &frame, payload, here, &kept);
            if (kept) /* else another worker is the dispatcher by now */
                atomic_store_explicit(&s->executing, 0, memory_order_relaxed);
        }
        if (status)
            return status;
    }
    return GB_OK;
}

static pthread_mutex_t current_lock = PTHREAD_MUTEX_INITIALIZER;
static px_session_t *current; /* the process has one */

void px_session_alive(void)
{
    pthread_mutex_lock(&current_lock);
    px_session_t *s = current;
    if (s && (atomic_load(&s->executing) || atomic_load(&s->lanes_inside)))
        px_send_ping(s);
    pthread_mutex_unlock(&current_lock);
}

static void set_current(px_session_t *session)
{
    pthread_mutex_lock(&current_lock);
    current = session;
    pthread_mutex_unlock(&current_lock);
}

/* Waits for the role; 0 = the session is over. */
static int take_role(px_session_t *s)
{
    pthread_mutex_lock(&s->role_lock);
    s->idle++;
    while (s->dispatching && !s->over)
        pthread_cond_wait(&s->role_free, &s->role_lock);
    s->idle--;
    int go = !s->over;
    if (go)
        s->dispatching = 1;
    pthread_mutex_unlock(&s->role_lock);
    return go;
}

static void *work(void *arg)
{
    px_session_t *s = arg;
    gb_status_t status = GB_OK;
    while (status == GB_OK && take_role(s))
        status = dispatch(s);
    if (status)
        end_session(s, status);
    pthread_mutex_lock(&s->role_lock);
    s->workers--;
    pthread_cond_broadcast(&s->finished);
    pthread_mutex_unlock(&s->role_lock);
    return NULL;
}

/* With role_lock held. */
static gb_status_t spawn(px_session_t *s)
{
    pthread_t thread;
    pthread_attr_t attr;
    if (s->workers >= WORKERS)
        return gb_fail(GB_ERR_LIMIT, "more than %d calls wait at once", WORKERS);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    int error = pthread_create(&thread, &attr, work, s);
    pthread_attr_destroy(&attr);
    if (error)
        return gb_fail_errno(GB_ERR_IO, error, "cannot start a thread");
    s->workers++;
    return GB_OK;
}

static void choose_host_calls(px_session_t *s)
{
    const void *table = NULL;
    s->launch_host = s->cuda->cuLaunchHostFunc;
    if (s->cuda->cuGetExportTable(&table, &gb_beside_uuid) == CUDA_SUCCESS && table)
        s->launch_host = ((const gb_beside_table_t *)table)->launch;
}

static gb_status_t choose_devices(px_session_t *s)
{
    int count = 0;
    /* Lazy loading may wait for a busy device in the middle of a queued launch. */
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    CUresult result = s->cuda->cuInit(0);
    if (!result)
        result = s->cuda->cuDeviceGetCount(&count);
    if (result || count == 0)
        return gb_fail(GB_ERR_NOT_FOUND, "the driver %s has no device: %s", s->config->driver_name,
                       result ? gb_cuda_error_text(result) : "none found");
    int all = s->config->device_count == 0;
    s->device_count = all ? count : s->config->device_count;
    s->devices = calloc((size_t)s->device_count, sizeof(*s->devices));
    if (!s->devices)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    for (int i = 0; i < s->device_count; i++) {
        int wanted = all ? i : s->config->devices[i];
        if (wanted < 0 || s->cuda->cuDeviceGet(&s->devices[i].ordinal, wanted))
            return gb_fail(GB_ERR_NOT_FOUND, "the driver %s has no device %d",
                           s->config->driver_name, wanted);
    }
    return GB_OK;
}

static gb_status_t create(const px_session_config_t *config, gb_durable_t *stream,
                          px_session_t **out)
{
    px_session_t *s = calloc(1, sizeof(*s));
    if (!s)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    s->config = config;
    s->cuda = config->driver;
    s->stream = stream;
    s->next_function = PX_WIRE_FIRST_OBJECT;
    pthread_mutex_init(&s->send_lock, NULL);
    pthread_mutex_init(&s->role_lock, NULL);
    pthread_mutex_init(&s->host_lock, NULL);
    pthread_cond_init(&s->host_done, NULL);
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->locker_lock, NULL);
    pthread_cond_init(&s->role_free, NULL);
    pthread_cond_init(&s->finished, NULL);
    s->buffer = aligned_alloc(4096, BUFFER);
    s->staging = px_staging_create(s->cuda, s->stream);
    s->vmm = px_vmm_create();
    s->lanes = calloc(PX_LANES, sizeof(*s->lanes));
    gb_status_t status = GB_OK;
    if (!s->buffer || !s->staging || !s->vmm || !s->lanes)
        status = gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    if (status == GB_OK)
        status = choose_devices(s);
    if (status == GB_OK)
        choose_host_calls(s);
    if (status)
        px_session_free(s);
    else
        *out = s;
    return status;
}

/* Waits a moment for the other workers to leave; 1 if they have. Lanes may wait for the device for as
 * long as their kernels run. */
static int all_gone(px_session_t *s, int ms)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000l;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&s->role_lock);
    while (s->workers > 0 && pthread_cond_timedwait(&s->finished, &s->role_lock, &until) == 0)
        ;
    int gone = s->workers == 0;
    pthread_mutex_unlock(&s->role_lock);
    return gone;
}

gb_status_t px_session_run(const px_session_config_t *config, gb_durable_t *stream)
{
    px_session_t *s = NULL;
    gb_status_t status = create(config, stream, &s);
    if (status)
        return status;
    s->workers = 1;
    set_current(s);
    work(s); /* this thread is the first worker */
    set_current(NULL);
    px_host_end(s);
    int ms = config->linger_ms ? config->linger_ms : LINGER_MS;
    int gone = (!config->peers || px_peers_end(config->peers, ms)) && all_gone(s, ms);
    status = s->status == GB_ERR_CLOSED ? GB_OK : gb_fail(s->status, "%s", s->why);
    /* Otherwise the process ends under the lanes that still wait, and takes the memory along. */
    if (gone)
        px_session_free(s);
    return status;
}
