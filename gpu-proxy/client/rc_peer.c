#include "gpu-proxy/client/rc_peer.h"

#include <stdlib.h>
#include <string.h>

#include "common/core/gb_log.h"
#include "common/crypto/gb_crypto.h"

typedef enum { UNKNOWN, LINKED, APART } pair_state_t;

/* Two sessions. Both ends are told of a transfer under its lock, so that they hear of transfers of one
 * stream in the same order. */
typedef struct {
    pthread_mutex_t lock;
    pair_state_t state;
    uint32_t attempt;
    _Atomic uint32_t lost; /* the last attempt whose link is lost */
    int said;              /* that they are apart */
} pair_t;

static pthread_mutex_t pairs_lock = PTHREAD_MUTEX_INITIALIZER;
static pair_t *pairs[RC_SESSIONS][RC_SESSIONS]; /* [lower number][higher number] */
static _Atomic uint64_t next_token = 1;

/* ---- pairs ---- */

static pair_t **slot_of(const rc_session_t *a, const rc_session_t *b)
{
    return a->number < b->number ? &pairs[a->number][b->number] : &pairs[b->number][a->number];
}

static pair_t *pair_of(const rc_session_t *a, const rc_session_t *b)
{
    pthread_mutex_lock(&pairs_lock);
    pair_t **slot = slot_of(a, b);
    if (!*slot) {
        *slot = calloc(1, sizeof(**slot));
        if (*slot)
            pthread_mutex_init(&(*slot)->lock, NULL);
    }
    pair_t *pair = *slot;
    pthread_mutex_unlock(&pairs_lock);
    return pair;
}

static int is_wanted(void)
{
    const char *text = getenv("GABLE_LINK_PEERS");
    return !text || strcmp(text, "0") != 0;
}

/* ---- having a link made ---- */

/* A question of no context. */
static CUresult ask(rc_session_t *session, uint16_t op, const px_wire_pair_t *pair,
                    rc_waiter_t *waiter)
{
    rc_lane_t *lane = rc_lane();
    return lane ? rc_send_and_wait(session, lane, NULL, op, pair, sizeof(*pair), NULL, 0, waiter)
                : CUDA_ERROR_OUT_OF_MEMORY;
}

static gb_status_t expect(rc_session_t *at, px_wire_pair_t *wire, rc_session_t *other)
{
    rc_waiter_t waiter = {0};
    wire->peer = (uint32_t)other->number;
    CUresult result = ask(at, PX_OP_PEER_EXPECT, wire, &waiter);
    rc_waiter_done(&waiter);
    return result ? gb_fail(GB_ERR_UNSUPPORTED, "%s takes no links of other sessions", at->where)
                  : GB_OK;
}

/* `from` dials `to`, where the client itself has dialled it. */
static gb_status_t dial(rc_session_t *from, px_wire_pair_t *wire, rc_session_t *to)
{
    uint64_t status = GB_ERR_LOST;
    rc_waiter_t waiter = {0};
    gb_key_t key;
    uint32_t number = (uint32_t)from->number;
    gb_status_t st = gb_peer_key(&to->credential.key, to->credential.lease, to->credential.session,
                                 number << 16, &key);
    if (st != GB_OK)
        return st;
    wire->peer = (uint32_t)to->number;
    wire->number = number;
    wire->lease = to->credential.lease;
    wire->session = to->credential.session;
    wire->insecure = (uint32_t)to->credential.insecure;
    wire->socket_only = !gb_link_is_shared(gb_durable_link(to->stream));
    memcpy(wire->key, key.bytes, sizeof(wire->key));
    gb_endpoint_format(&to->endpoint, wire->endpoint);
    CUresult result = ask(from, PX_OP_PEER_DIAL, wire, &waiter);
    const char *bytes = rc_waiter_bytes(&waiter);
    if (!result && waiter.more_size >= sizeof(status))
        memcpy(&status, bytes, sizeof(status));
    if (result || status)
        st = gb_fail(GB_ERR_UNREACHABLE, "%.*s",
                     result ? 0 : (int)(waiter.more_size - sizeof(status)), bytes + sizeof(status));
    rc_waiter_done(&waiter);
    gb_wipe(&key, sizeof(key));
    gb_wipe(wire->key, sizeof(wire->key));
    return st;
}

static gb_status_t try_link(pair_t *pair, rc_session_t *from, rc_session_t *to)
{
    px_wire_pair_t wire = {.attempt = ++pair->attempt};
    gb_status_t st = gb_random(wire.secret, sizeof(wire.secret));
    if (st == GB_OK)
        st = expect(to, &wire, from);
    if (st == GB_OK)
        st = dial(from, &wire, to);
    gb_wipe(&wire, sizeof(wire));
    return st;
}

/* With the pair's lock. */
static int is_linked(pair_t *pair, rc_session_t *a, rc_session_t *b)
{
    if (pair->state == LINKED && atomic_load(&pair->lost) == pair->attempt)
        pair->state = UNKNOWN;
    if (pair->state == UNKNOWN) {
        gb_status_t st =
            is_wanted() ? try_link(pair, a, b) : gb_fail(GB_ERR_CANCELLED, "GABLE_LINK_PEERS is 0");
        if (st != GB_OK && is_wanted())
            st = try_link(pair, b, a);
        pair->state = st == GB_OK ? LINKED : APART;
        int news = !pair->said && is_wanted() && !atomic_load(&a->lost) && !atomic_load(&b->lost);
        if (st != GB_OK && news) {
            gb_log(GB_LOG_WARN, "copies between %s and %s go through this program: %s", a->where,
                   b->where, gb_why());
            pair->said = 1;
        }
    }
    return pair->state == LINKED;
}

void rc_peer_lost(rc_session_t *session, const uint64_t words[2])
{
    if (words[0] >= (uint64_t)rc.session_count || words[0] == (uint64_t)session->number)
        return;
    /* Not with the lock: who has it may wait for this thread to read on. */
    pthread_mutex_lock(&pairs_lock);
    pair_t *pair = *slot_of(session, rc.sessions[words[0]]);
    pthread_mutex_unlock(&pairs_lock);
    if (pair)
        atomic_store(&pair->lost, (uint32_t)words[1]);
}

/* ---- transfers ---- */

/* Names the program's stream: a stream of its own by its handle, a default stream by its context's, and the
 * threads' own ones by the thread, too. */
static void name_order(const rc_call_t *call, px_wire_transfer_t *x)
{
    uint64_t value = (uint64_t)(uintptr_t)call->stream;
    x->order = value > 2 ? value : (uint64_t)(uintptr_t)rc_handle(call->stream_context);
    x->lane = value == 2 ? call->lane->id + 1 : 0;
}

/* One end is told. It leaves at once: the other end waits for it. */
static CUresult tell(rc_call_t *call, const rc_session_t *other, uint16_t op, px_wire_transfer_t *x)
{
    x->peer = (uint32_t)other->number;
    return rc_post_bulk(call, op, x, sizeof(*x), NULL, 0);
}

/* A call at a session, in a context there. */
static rc_call_t call_at(const rc_call_t *call, rc_object_t *context)
{
    return (rc_call_t){
        .lane = call->lane, .session = context->session, .context = context, .owner = context};
}

static int is_legacy(const rc_call_t *call)
{
    return (uint64_t)(uintptr_t)call->stream < 2;
}

/* The end that has the stream holds it; the legacy default stream comes with that of the other device. */
static void hold(const rc_call_t *call, uint64_t wire_stream, const rc_object_t *context,
                 px_wire_transfer_t *x)
{
    int mine = call->stream_context->session == context->session;
    int whole = is_legacy(call) && call->stream_context != context;
    x->hold = (mine ? PX_WIRE_HOLD_STREAM : 0) | (whole ? PX_WIRE_HOLD_LEGACY : 0);
    x->stream = mine ? wire_stream : 0;
    x->context = context->number;
}

static CUresult tell_side(const rc_call_t *call, uint64_t wire_stream, const rc_side_t *side,
                          const rc_side_t *other, uint16_t op, px_wire_transfer_t *x)
{
    int mine = call->stream_context->session == side->session;
    rc_call_t there = call_at(call, mine ? call->stream_context : side->context);
    hold(call, wire_stream, side->context, x);
    x->side = rc_box_wire(side);
    return tell(&there, other->session, op, x);
}

static CUresult move(const rc_call_t *call, uint64_t wire_stream, const rc_box_t *box)
{
    px_wire_transfer_t x = {.token = atomic_fetch_add(&next_token, 1),
                            .width = box->width,
                            .height = box->height,
                            .depth = box->depth};
    name_order(call, &x);
    CUresult result = tell_side(call, wire_stream, &box->dst, &box->src, PX_OP_PEER_RECV, &x);
    if (!result)
        result = tell_side(call, wire_stream, &box->src, &box->dst, PX_OP_PEER_SEND, &x);
    atomic_store(&box->dst.context->context_.moves, 1);
    atomic_store(&box->src.context->context_.moves, 1);
    atomic_store(&call->stream_context->context_.moves, 1);
    return result;
}

int rc_peer_copy(const rc_box_t *box, CUstream stream, CUresult *result)
{
    rc_call_t call;
    uint64_t wire;
    rc_session_t *from = box->src.session, *to = box->dst.session;
    *result = rc_begin(&call);
    if (!*result)
        *result = rc_use_stream(&call, stream, &wire);
    if (!*result && (atomic_load(&from->lost) || atomic_load(&to->lost)))
        *result = RC_LOST;
    if (*result)
        return 1;
    pair_t *pair = call.session == from || call.session == to ? pair_of(from, to) : NULL;
    if (!pair)
        return 0;
    pthread_mutex_lock(&pair->lock);
    int linked = is_linked(pair, from, to);
    if (linked)
        *result = move(&call, wire, box);
    pthread_mutex_unlock(&pair->lock);
    return linked;
}

int rc_peer_wait(rc_call_t *call, uint64_t wire_stream, rc_object_t *event, CUresult *result)
{
    rc_session_t *from = event->session, *to = call->session;
    px_wire_transfer_t x = {.token = atomic_fetch_add(&next_token, 1)};
    pair_t *pair = pair_of(from, to);
    *result = atomic_load(&from->lost) || atomic_load(&to->lost) ? RC_LOST : CUDA_SUCCESS;
    if (!pair || *result)
        return *result != CUDA_SUCCESS;
    pthread_mutex_lock(&pair->lock);
    int linked = is_linked(pair, from, to);
    if (linked) {
        rc_call_t waits = call_at(call, call->stream_context);
        rc_call_t signals = call_at(call, event->context);
        name_order(call, &x);
        x.hold = PX_WIRE_HOLD_STREAM;
        x.stream = wire_stream;
        x.context = call->stream_context->number;
        *result = tell(&waits, from, PX_OP_PEER_RECV, &x);
        x.hold = x.stream = 0;
        x.context = event->context->number;
        x.event = event->number;
        if (!*result)
            *result = tell(&signals, to, PX_OP_PEER_SEND, &x);
        atomic_store(&call->stream_context->context_.moves, 1);
        atomic_store(&event->context->context_.moves, 1);
    }
    pthread_mutex_unlock(&pair->lock);
    return linked;
}

void rc_peer_settle(const rc_object_t *context)
{
    rc_lane_t *lane = rc_lane();
    rc_waiter_t waiter = {0};
    uint64_t number = context->number;
    if (!lane || !atomic_load(&context->context_.moves))
        return;
    (void)rc_send_and_wait(context->session, lane, NULL, PX_OP_PEER_SETTLE, &number, sizeof(number),
                           NULL, 0, &waiter); /* a session that is gone is settled */
    rc_waiter_done(&waiter);
}
