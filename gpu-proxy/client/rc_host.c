#include "gpu-proxy/client/rc_host.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "gb_cuda_api.h"
#include "gpu-proxy/client/rc_capture.h"
#include "gpu-proxy/client/rc_shared.h"

/* A call that a session has asked for. */
typedef struct rc_host_call {
    struct rc_host_call *next;
    uint64_t token, ticket;
    CUresult status;
} call_t;

/* Of a session; made with its first host function, there for ever. */
typedef struct rc_hosts {
    rc_session_t *session;
    call_t *first, **last;
    uint64_t expected; /* calls to come, those in the queue included */
    rc_waiter_t listener;
    int listening;
    int running; /* the session has not been told the end of it yet */
    pthread_cond_t more;
} hosts_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static rc_host_t *known; /* by token - 1; unused ones have neither function nor callback */
static uint64_t known_count, known_room;
static hosts_t *hosts[RC_SESSIONS];

static int is_used(const rc_host_t *host)
{
    return host->function || host->callback;
}

CUresult rc_host_add(const rc_host_t *host, uint64_t *token)
{
    CUresult result = CUDA_SUCCESS;
    pthread_mutex_lock(&lock);
    uint64_t at = 0;
    while (at < known_count && is_used(&known[at]))
        at++;
    if (at == known_room) {
        uint64_t room = known_room * 2 + 64;
        rc_host_t *grown = realloc(known, room * sizeof(*grown));
        known = grown ? grown : known;
        known_room = grown ? room : known_room;
        result = grown ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (!result) {
        known_count = at == known_count ? at + 1 : known_count;
        known[at] = *host;
        *token = at + 1;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

void rc_host_remove(uint64_t token)
{
    pthread_mutex_lock(&lock);
    if (token - 1 < known_count)
        memset(&known[token - 1], 0, sizeof(*known));
    pthread_mutex_unlock(&lock);
}

gb_status_t rc_host_asked(rc_session_t *session, const uint64_t words[3])
{
    call_t *call = malloc(sizeof(*call));
    if (!call)
        return gb_fail(GB_ERR_NO_MEMORY, "out of memory");
    *call = (call_t){NULL, words[0], words[1], (CUresult)words[2]};
    pthread_mutex_lock(&lock);
    hosts_t *h = hosts[session->number];
    int good = h && words[0] - 1 < known_count && is_used(&known[words[0] - 1]);
    if (good) {
        *h->last = call;
        h->last = &call->next;
        pthread_cond_signal(&h->more);
        if (h->listening)
            rc_session_stop_listening(session, &h->listener);
    }
    pthread_mutex_unlock(&lock);
    if (!good)
        free(call);
    return good ? GB_OK : gb_fail(GB_ERR_PROTOCOL, "the session calls no host function of ours");
}

/* With the lock held, which is left meanwhile: the next call, or NULL if the session is lost. While calls
 * are to come and nobody else does, this thread reads. */
static call_t *next_call(hosts_t *h)
{
    while (!h->first) {
        if (atomic_load(&h->session->lost))
            return NULL;
        if (h->expected == 0) {
            pthread_cond_wait(&h->more, &lock);
            continue;
        }
        memset(&h->listener, 0, sizeof(h->listener));
        h->listening = 1;
        pthread_mutex_unlock(&lock);
        rc_session_listen(h->session, &h->listener);
        pthread_mutex_lock(&lock);
        h->listening = 0;
    }
    call_t *call = h->first;
    h->first = call->next;
    if (!h->first)
        h->last = &h->first;
    return call;
}

/* CUDA's rule: no CUDA call of a host function is carried out. */
static void run(hosts_t *h, rc_lane_t *lane, const rc_host_t *host, const call_t *call)
{
    rc_shared_before(h->session, lane,
                     PX_OP_HOST_DONE); /* what the stream has written shows here */
    lane->in_host = 1;
    if (host->function && !call->status)
        host->function(host->data);
    if (host->callback)
        host->callback(host->stream, call->status, host->data);
    lane->in_host = 0;
    rc_shared_before(h->session, lane, PX_OP_HOST_DONE); /* and what it has written there */
    rc_send_bulk(h->session, lane, NULL, PX_OP_HOST_DONE, &call->ticket, sizeof(call->ticket), NULL,
                 0);
}

static void *serve(void *arg)
{
    hosts_t *h = arg;
    rc_lane_t *lane = rc_lane();
    prctl(PR_SET_NAME, "gable-host");
    pthread_mutex_lock(&lock);
    for (call_t *call = lane ? next_call(h) : NULL; call; call = next_call(h)) {
        rc_host_t host = known[call->token - 1];
        h->expected -= h->expected > 0;
        h->running = 1;
        if (host.once)
            memset(&known[call->token - 1], 0, sizeof(*known));
        pthread_mutex_unlock(&lock);
        run(h, lane, &host, call);
        free(call);
        pthread_mutex_lock(&lock);
        h->running = 0;
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* With the lock held. */
static CUresult start(rc_session_t *session)
{
    hosts_t *h = calloc(1, sizeof(*h));
    sigset_t all, before;
    pthread_t thread;
    if (!h)
        return CUDA_ERROR_OUT_OF_MEMORY;
    h->session = session;
    h->last = &h->first;
    pthread_cond_init(&h->more, NULL);
    /* Faults in shared memory must come through. */
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, serve, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error) {
        free(h);
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    pthread_detach(thread);
    hosts[session->number] = h;
    return CUDA_SUCCESS;
}

static CUresult expect(rc_session_t *session, unsigned runs, int wake)
{
    pthread_mutex_lock(&lock);
    CUresult result = hosts[session->number] ? CUDA_SUCCESS : start(session);
    if (!result) {
        hosts[session->number]->expected += runs;
        if (wake)
            pthread_cond_signal(&hosts[session->number]->more);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult rc_host_expect(rc_session_t *session, unsigned runs)
{
    return expect(session, runs, 1);
}

CUresult rc_host_await(rc_session_t *session)
{
    return expect(session, 1, 0);
}

void rc_host_wake(rc_session_t *session)
{
    pthread_mutex_lock(&lock);
    hosts_t *h = hosts[session->number];
    if (h && h->expected)
        pthread_cond_signal(&h->more);
    pthread_mutex_unlock(&lock);
}

int rc_host_busy(rc_session_t *session)
{
    pthread_mutex_lock(&lock);
    const hosts_t *h = hosts[session->number];
    int busy = h && (h->expected > 0 || h->running);
    pthread_mutex_unlock(&lock);
    return busy;
}

void rc_host_came(rc_session_t *session)
{
    pthread_mutex_lock(&lock);
    hosts_t *h = hosts[session->number];
    if (h && h->expected > 0 && --h->expected == 0 && h->listening)
        rc_session_stop_listening(session, &h->listener);
    pthread_mutex_unlock(&lock);
}

/* ---- entry points ---- */

static CUresult enter(rc_call_t *call, CUstream stream, uint64_t *wire)
{
    CUresult result = rc_begin_in_context(call);
    return result ? result : rc_use_stream(call, stream, wire);
}

static CUresult post(rc_call_t *call, uint16_t op, uint64_t stream, const rc_host_t *host)
{
    uint64_t args[2] = {stream, 0};
    CUresult result = rc_host_add(host, &args[1]);
    if (!result)
        result = rc_host_expect(call->session, 1);
    if (!result)
        result = rc_post(call, op, args, 2);
    return result;
}

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
    rc_call_t call;
    uint64_t stream;
    int captured = 0;
    CUresult result = enter(&call, hStream, &stream);
    if (!result && !fn)
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = rc_capture_enter(&call, &captured);
    if (result)
        return result;
    if (captured) {
        rc_work_t work;
        result = rc_work_host(&(CUDA_HOST_NODE_PARAMS){fn, userData}, &work);
        return result ? result : rc_capture_work(&call, &work);
    }
    rc_host_t host = {.function = fn, .data = userData, .once = 1};
    return post(&call, GB_OP_cuLaunchHostFunc, stream, &host);
}

CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData,
                             unsigned int flags)
{
    rc_call_t call;
    uint64_t stream;
    int captured = 0;
    CUresult result = enter(&call, hStream, &stream);
    if (!result && (!callback || flags))
        result = CUDA_ERROR_INVALID_VALUE;
    if (!result)
        result = rc_capture_enter(&call, &captured);
    if (!result && captured) /* graphs have host functions, but no callbacks */
        result = rc_capture_refuse(&call);
    if (result)
        return result;
    rc_host_t host = {.callback = callback, .stream = hStream, .data = userData, .once = 1};
    return post(&call, GB_OP_cuStreamAddCallback, stream, &host);
}
