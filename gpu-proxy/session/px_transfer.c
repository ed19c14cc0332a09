/* Transfers: what the client says, what the other end says, and when they are over. */
#include "gpu-proxy/session/px_transfer.h"

#include <stdlib.h>
#include <string.h>

/* ---- the table of a link; with the lock ---- */

static px_transfer_t **place_of(px_peer_t *p, uint64_t token)
{
    px_transfer_t **at = &p->table[token % PX_PEER_BUCKETS];
    while (*at && (*at)->token != token)
        at = &(*at)->next_told;
    return at;
}

static px_transfer_t *new_transfer(uint64_t token)
{
    px_transfer_t *t = calloc(1, sizeof(*t));
    if (t) {
        t->token = token;
        pthread_cond_init(&t->changed, NULL);
    }
    return t;
}

static void drop(px_transfer_t *t)
{
    pthread_cond_destroy(&t->changed);
    free(t);
}

/* Of a link that is up: what the other end says about a transfer is noted before the client has told of it.
 * NULL: it says too much. */
static px_transfer_t *known_or_noted(px_peer_t *p, uint64_t token)
{
    px_transfer_t **at = place_of(p, token);
    if (*at || p->unknown >= PX_PEER_UNKNOWN)
        return *at;
    *at = new_transfer(token);
    p->unknown += *at != NULL;
    return *at;
}

/* Takes it out of the table once both ends are done with it, or nothing more can come. */
static void forget_if_done(px_peer_t *p, px_transfer_t *t)
{
    if (!t->over || !(t->ended || p->state == PX_PEER_LOST))
        return;
    px_transfer_t **at = place_of(p, t->token);
    if (*at == t)
        *at = t->next_told;
    drop(t);
}

static void add_to_all(px_transfer_t *t)
{
    px_peers_t *peers = t->peer->peers;
    t->next_all = peers->transfers;
    t->at_all = &peers->transfers;
    if (t->next_all)
        t->next_all->at_all = &t->next_all;
    peers->transfers = t;
}

static void take_from_all(px_transfer_t *t)
{
    *t->at_all = t->next_all;
    if (t->next_all)
        t->next_all->at_all = t->at_all;
}

void px_transfer_fail(px_transfer_t *t, CUresult result)
{
    if (!t->result)
        t->result = result;
    pthread_cond_broadcast(&t->changed);
}

/* Those that the client has not told of go; of the others it is the worker that lets them go. */
void px_transfers_lost(px_peer_t *p)
{
    for (int i = 0; i < PX_PEER_BUCKETS; i++) {
        px_transfer_t **at = &p->table[i];
        while (*at) {
            px_transfer_t *t = *at;
            if (t->known && !t->over) {
                if (!t->ended)
                    px_transfer_fail(t, CUDA_ERROR_DEVICE_UNAVAILABLE);
                at = &t->next_told;
            } else {
                *at = t->next_told;
                drop(t);
            }
        }
    }
    p->unknown = 0;
}

/* ---- from the other end ---- */

/* NULL, or what is wrong with the word. */
static const char *check_word(const px_transfer_t *t, uint16_t operation)
{
    if (!t)
        return "of too many transfers";
    if (operation == PX_PEER_ASK ? t->asked : t->ended)
        return "of a transfer twice";
    if (t->known && t->sends != (operation != PX_PEER_END))
        return "as if it were at this end of a transfer";
    return NULL;
}

gb_status_t px_transfer_told(px_peer_t *p, uint16_t operation, const px_peer_word_t *word)
{
    pthread_mutex_lock(&p->peers->lock);
    px_transfer_t *t = p->state == PX_PEER_UP ? known_or_noted(p, word->token) : NULL;
    const char *wrong = check_word(t, operation);
    if (!wrong) {
        t->asked |= operation == PX_PEER_ASK;
        t->ended |= operation != PX_PEER_ASK;
        if (word->result)
            px_transfer_fail(t, word->result <= CUDA_ERROR_UNKNOWN ? (CUresult)word->result
                                                                   : CUDA_ERROR_UNKNOWN);
        pthread_cond_broadcast(&t->changed);
        if (t->known)
            forget_if_done(p, t);
    }
    pthread_mutex_unlock(&p->peers->lock);
    return wrong ? gb_fail(GB_ERR_PROTOCOL, "the other session speaks %s", wrong) : GB_OK;
}

gb_status_t px_transfer_data(px_peer_t *p, uint64_t token, uint64_t size)
{
    gb_status_t st = GB_OK;
    pthread_mutex_lock(&p->peers->lock);
    px_transfer_t *t = *place_of(p, token);
    int wanted = t && !t->over && !t->result;
    if (!t || !t->open || t->ended)
        st = gb_fail(GB_ERR_PROTOCOL, "bytes that nobody has asked for");
    else if (wanted && size > t->total - t->moved)
        st = gb_fail(GB_ERR_PROTOCOL, "more bytes than the transfer has");
    if (st == GB_OK && wanted)
        t->reading = 1;
    pthread_mutex_unlock(&p->peers->lock);
    if (st != GB_OK || !wanted)
        return st == GB_OK ? px_peer_discard(p, size) : st;
    st = px_transfer_take(t, size);
    pthread_mutex_lock(&p->peers->lock);
    t->reading = 0;
    if (t->result) /* the worker waits for that only where it has given up */
        pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&p->peers->lock);
    return st;
}

/* ---- from the client ---- */

/* The context current here, for a while. */
static CUresult enter(px_call_t *call, const px_context_t *context)
{
    CUcontext handle = atomic_load(&context->handle);
    return handle ? call->cuda->cuCtxPushCurrent_v2(handle) : CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

static void leave(px_call_t *call)
{
    CUcontext popped;
    (void)call->cuda->cuCtxPopCurrent_v2(&popped);
}

static CUresult gates_of(px_call_t *call, px_context_t *context, px_gates_t **out)
{
    CUresult result = CUDA_SUCCESS;
    if (!context->gates) {
        result = enter(call, context);
        if (!result) {
            result = px_gates_create(call->cuda, &context->gates);
            leave(call);
        }
    }
    *out = context->gates;
    return result;
}

/* Adds a stream that waits for the transfer; *come is recorded behind what it has to do before. */
static CUresult hold(px_call_t *call, px_transfer_t *t, px_context_t *context, CUstream stream,
                     int visible, CUevent *come)
{
    px_hold_t *h = &t->holds[t->hold_count];
    px_gates_t *gates;
    CUevent event = NULL;
    CUresult result = gates_of(call, context, &gates);
    if (!result && visible)
        result = (CUresult)atomic_load(&context->late);
    if (!result)
        result = enter(call, context);
    if (result)
        return result;
    if (visible)
        result = px_gates_event(gates, &event);
    if (!result && visible)
        result = call->cuda->cuEventRecord(event, stream);
    if (!result)
        result = px_gate_close(gates, stream, &h->gate);
    leave(call);
    if (!result) {
        h->context = context;
        h->visible = visible;
        t->hold_count++;
        *come = event;
    } else if (event) {
        px_gates_event_done(gates, event);
    }
    return result;
}

/* The transfer's own event comes behind all of `events`. */
static CUresult join(px_call_t *call, px_transfer_t *t, const CUevent *events, int count)
{
    CUresult result = px_gates_waiter(t->gates, &t->waiter);
    for (int i = 0; i < count && !result; i++)
        result = call->cuda->cuStreamWaitEvent(t->waiter, events[i], 0);
    if (!result)
        result = px_gates_event(t->gates, &t->ready);
    if (!result)
        result = call->cuda->cuEventRecord(t->ready, t->waiter);
    return result;
}

static CUresult hold_streams(px_call_t *call, px_transfer_t *t, const px_wire_transfer_t *x)
{
    CUstream stream = x->hold & PX_WIRE_HOLD_STREAM ? px_stream(call, x->stream) : NULL;
    CUevent come[PX_TRANSFER_HOLDS] = {NULL, NULL};
    CUresult result = call->bad;
    if (!result && x->hold & PX_WIRE_HOLD_STREAM)
        result = call->context ? hold(call, t, call->context, stream, 1, &come[0])
                               : CUDA_ERROR_INVALID_CONTEXT;
    if (!result && x->hold & PX_WIRE_HOLD_LEGACY)
        result = hold(call, t, t->context, CU_STREAM_LEGACY, 1, &come[t->hold_count]);
    if (!result && t->hold_count == 0)
        return hold(call, t, t->context, px_gates_hold(t->gates), 0, &come[0]);
    if (!result && t->hold_count == 1 && t->holds[0].context == t->context) {
        t->ready = come[0];
        return CUDA_SUCCESS;
    }
    if (!result) {
        result = enter(call, t->context);
        if (!result) {
            result = join(call, t, come, t->hold_count);
            leave(call);
        }
    }
    for (int i = 0; i < PX_TRANSFER_HOLDS; i++)
        if (come[i])
            px_gates_event_done(t->holds[i].gate.gates, come[i]);
    return result;
}

/* A signal waits for an event as it was recorded last. */
static CUresult note_event(px_call_t *call, px_transfer_t *t, const px_wire_transfer_t *x)
{
    CUevent event = px_event(call, x->event);
    CUresult result = call->bad ? call->bad : enter(call, t->context);
    if (result)
        return result;
    result = join(call, t, &event, 1);
    leave(call);
    return result;
}

/* Memory that this process may read or write itself. */
static uint8_t *reach(px_call_t *call, const px_transfer_t *t)
{
    px_session_t *s = call->session;
    px_heap_t *heap = s->devices[t->context->device].heap;
    int row = t->extent.height == 1 && t->extent.depth == 1 && !t->array;
    return row && s->config->reachable && heap &&
                   px_heap_holds(heap, t->side.address, t->extent.width)
               ? (uint8_t *)(uintptr_t)t->side.address
               : NULL;
}

static CUresult describe(px_call_t *call, px_transfer_t *t, const px_wire_transfer_t *x)
{
    t->context = px_object_get(call->session, PX_CONTEXT, x->context);
    if (!t->context)
        return CUDA_ERROR_INVALID_CONTEXT;
    CUresult result = gates_of(call, t->context, &t->gates);
    t->side = x->side;
    t->array = x->side.array ? px_array(call, x->side.array) : NULL;
    t->extent = (px_extent_t){x->width, x->height, x->depth};
    t->signals = !x->width;
    t->total = t->signals ? 0 : px_box_bytes(&t->extent);
    if (!result && (call->bad || t->total == UINT64_MAX || (!t->signals && !t->total)))
        result = call->bad ? call->bad : CUDA_ERROR_INVALID_VALUE;
    if (!result && !t->signals)
        t->direct = reach(call, t);
    return result;
}

/* Lets a worker have it. What the other end has said already counts. */
static CUresult publish(px_transfer_t *t, CUresult failed)
{
    px_peer_t *p = t->peer;
    pthread_mutex_lock(&p->peers->lock);
    px_transfer_t **at = place_of(p, t->token), *noted = *at;
    CUresult result = noted && noted->known ? CUDA_ERROR_INVALID_VALUE : px_order_add(t);
    if (!result) {
        t->result = failed;
        if (noted) {
            t->asked = noted->asked;
            t->ended = noted->ended;
            t->result = failed ? failed : noted->result;
            t->next_told = noted->next_told;
            drop(noted);
            p->unknown--;
        }
        *at = t;
        t->known = 1;
        add_to_all(t);
        if (p->state == PX_PEER_LOST && !t->ended)
            px_transfer_fail(t, CUDA_ERROR_DEVICE_UNAVAILABLE);
    }
    pthread_mutex_unlock(&p->peers->lock);
    return result;
}

/* Opens the gates; the failure shows to the program first. */
static void open_gates(px_transfer_t *t, CUresult result)
{
    px_session_t *s = t->peer->peers->session;
    for (int i = 0; i < t->hold_count; i++) {
        px_hold_t *h = &t->holds[i];
        CUcontext handle = atomic_load(&h->context->handle), popped;
        if (result && h->visible)
            px_context_stick(h->context, result, "copy between proxies");
        if (!handle || s->cuda->cuCtxPushCurrent_v2(handle))
            continue;
        px_gate_open(&h->gate);
        (void)s->cuda->cuCtxPopCurrent_v2(&popped);
    }
}

static void give_back(px_transfer_t *t)
{
    if (t->ready)
        px_gates_event_done(t->gates, t->ready);
    if (t->waiter)
        px_gates_waiter_done(t->gates, t->waiter);
}

void px_transfer_over(px_transfer_t *t)
{
    px_peer_t *p = t->peer;
    pthread_mutex_lock(&p->peers->lock);
    CUresult result = t->result;
    pthread_mutex_unlock(&p->peers->lock);
    px_moved(p->peers->session);
    open_gates(t, result);
    give_back(t);
    if (!t->sends || t->signals) { /* the last word; of a copy the sender has said it before */
        uint16_t word = t->sends ? PX_PEER_END : PX_PEER_DONE;
        (void)px_peer_say(p, word, t->token, result);
    }
    pthread_mutex_lock(&p->peers->lock);
    t->over = 1;
    take_from_all(t);
    forget_if_done(p, t);
    pthread_cond_broadcast(&p->peers->gone);
    pthread_mutex_unlock(&p->peers->lock);
    px_peer_put(p);
}

/* Nobody will carry it out. */
static void abandon(px_call_t *call, px_transfer_t *t, CUresult result)
{
    open_gates(t, result);
    if (t->ready)
        px_gates_event_done(t->gates, t->ready);
    if (t->waiter)
        call->cuda->cuStreamDestroy_v2(t->waiter);
    px_peer_put(t->peer);
    drop(t);
}

/* px_wire_transfer_t */
CUresult px_peer_move(px_call_t *call)
{
    const px_wire_transfer_t *x = (const void *)call->payload;
    px_peers_t *peers = call->session->config->peers;
    px_peer_t *p = peers ? px_peer_get(peers, x->peer) : NULL;
    px_transfer_t *t = p ? new_transfer(x->token) : NULL;
    if (!t) {
        if (p)
            px_peer_put(p);
        return p ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_INVALID_VALUE;
    }
    t->peer = p;
    t->order = x->order;
    t->lane = x->lane;
    t->sends = call->frame.operation == PX_OP_PEER_SEND;
    CUresult result = describe(call, t, x);
    if (!result && t->signals && t->sends)
        result = note_event(call, t, x);
    else if (!result)
        result = hold_streams(call, t, x);
    CUresult queued = publish(t, result);
    if (queued)
        abandon(call, t, queued);
    return result ? result : queued;
}

/* ---- before a context ends ---- */

static int uses(const px_transfer_t *t, const px_context_t *context)
{
    int found = t->context == context;
    for (int i = 0; i < t->hold_count; i++)
        found |= t->holds[i].context == context;
    return found;
}

/* With the lock: how many use it. */
static int count_users(px_peers_t *peers, const px_context_t *context, int give_up)
{
    int count = 0;
    for (px_transfer_t *t = peers->transfers; t; t = t->next_all)
        if (uses(t, context)) {
            count++;
            if (give_up)
                px_transfer_fail(t, CUDA_ERROR_CONTEXT_IS_DESTROYED);
        }
    return count;
}

void px_transfers_settle(px_peers_t *peers, const px_context_t *context, int now)
{
    pthread_mutex_lock(&peers->lock);
    while (count_users(peers, context, now) > 0 && !peers->over)
        pthread_cond_wait(&peers->gone, &peers->lock);
    pthread_mutex_unlock(&peers->lock);
}

/* u64 context */
CUresult px_peer_settle(px_call_t *call)
{
    px_context_t *context = px_object_get(call->session, PX_CONTEXT, call->args[0]);
    if (!call->may_block)
        return PX_WOULD_BLOCK;
    if (context && call->session->config->peers)
        px_transfers_settle(call->session->config->peers, context, 0);
    return context ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

void px_peer_leave(px_session_t *s, px_context_t *context)
{
    CUcontext handle = atomic_load(&context->handle), popped;
    if (!context->gates)
        return;
    px_transfers_settle(s->config->peers, context, 1);
    if (handle && s->cuda->cuCtxPushCurrent_v2(handle) == CUDA_SUCCESS) {
        px_gates_destroy(context->gates);
        (void)s->cuda->cuCtxPopCurrent_v2(&popped);
    }
    context->gates = NULL;
}
