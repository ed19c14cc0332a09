#include "gpu-proxy/session/px_host.h"

#include <stdlib.h>

#include "gpu-proxy/session/px_output.h"

typedef struct {
    px_session_t *session;
    uint64_t token;
    int once; /* freed when it has run */
} host_t;

/* One run that the client has been asked for; on the stack of the driver's thread. */
typedef struct px_host_run {
    struct px_host_run *next;
    uint64_t ticket;
    int done;
} run_t;

/* Asks the client and waits until it has run the function. */
static void run_at_client(host_t *host, CUresult status)
{
    px_session_t *s = host->session;
    uint64_t words[3] = {host->token, 0, status};
    struct iovec part = {words, sizeof(words)};
    run_t run = {0};
    pthread_mutex_lock(&s->host_lock);
    run.ticket = words[1] = ++s->host_tickets;
    run.next = s->host_runs;
    s->host_runs = &run;
    pthread_mutex_unlock(&s->host_lock);
    px_output_flush(s); /* what was printed before it */
    int lost = px_send_notice(s, PX_OP_HOST_RUN, &part, 1) != GB_OK;
    pthread_mutex_lock(&s->host_lock);
    while (!run.done && !s->host_over && !lost)
        pthread_cond_wait(&s->host_done, &s->host_lock);
    run_t **at = &s->host_runs;
    while (*at != &run)
        at = &(*at)->next;
    *at = run.next;
    pthread_mutex_unlock(&s->host_lock);
    if (host->once)
        free(host);
}

static void on_function(void *arg)
{
    run_at_client(arg, CUDA_SUCCESS);
}

static void on_callback(CUstream stream, CUresult status, void *arg)
{
    (void)stream;
    run_at_client(arg, status);
}

static host_t *new_host(px_session_t *session, uint64_t token, int once)
{
    host_t *host = malloc(sizeof(*host));
    if (host)
        *host = (host_t){session, token, once};
    return host;
}

/* u64 stream, u64 token */
CUresult px_do_cuLaunchHostFunc(px_call_t *call)
{
    CUstream stream = px_stream(call, call->args[0]);
    host_t *host = call->bad ? NULL : new_host(call->session, call->args[1], 1);
    if (!host)
        return call->bad ? call->bad : CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = call->session->launch_host(stream, on_function, host);
    if (result)
        free(host);
    return result;
}

/* u64 stream, u64 token */
CUresult px_do_cuStreamAddCallback(px_call_t *call)
{
    CUstream stream = px_stream(call, call->args[0]);
    host_t *host = call->bad ? NULL : new_host(call->session, call->args[1], 1);
    if (!host)
        return call->bad ? call->bad : CUDA_ERROR_OUT_OF_MEMORY;
    CUresult result = call->cuda->cuStreamAddCallback(stream, on_callback, host, 0);
    if (result)
        free(host);
    return result;
}

/* u64 ticket */
CUresult px_host_done(px_call_t *call)
{
    px_session_t *s = call->session;
    pthread_mutex_lock(&s->host_lock);
    for (run_t *run = s->host_runs; run; run = run->next)
        if (run->ticket == call->args[0])
            run->done = 1;
    pthread_cond_broadcast(&s->host_done);
    pthread_mutex_unlock(&s->host_lock);
    return CUDA_SUCCESS;
}

CUresult px_host_node(px_session_t *session, uint64_t token, CUDA_HOST_NODE_PARAMS *out)
{
    host_t *host = new_host(session, token, 0);
    if (!host)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *out = (CUDA_HOST_NODE_PARAMS){on_function, host};
    return CUDA_SUCCESS;
}

void px_host_node_free(const CUDA_HOST_NODE_PARAMS *node)
{
    free(node->userData);
}

void px_host_end(px_session_t *s)
{
    pthread_mutex_lock(&s->host_lock);
    s->host_over = 1;
    pthread_cond_broadcast(&s->host_done);
    pthread_mutex_unlock(&s->host_lock);
}
