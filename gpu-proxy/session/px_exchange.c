/* The exchange engine, hosted in the session: requests come opaque from the client's gbx library. */
#include <stdlib.h>

#include "gpu-proxy/session/px_state.h"
#include "server/client/gbx_host.h"

/* px_wire_exchange_t, then the request */
CUresult px_exchange(px_call_t *call)
{
    const px_wire_exchange_t *x = (const void *)call->payload;
    px_session_t *s = call->session;
    int queued = call->frame.operation == PX_OP_EXCHANGE_POST;
    if (!queued && !call->may_block)
        return PX_WOULD_BLOCK;
    CUstream stream = px_stream(call, x->stream);
    if (call->bad || x->size > call->frame.length - sizeof(*x))
        return call->bad ? call->bad : CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&s->lock);
    int there = s->exchange || gbx_host_create(s->cuda, &s->exchange) == GB_OK;
    pthread_mutex_unlock(&s->lock);
    if (!there)
        return CUDA_ERROR_OUT_OF_MEMORY;
    uint32_t got = 0;
    if (!queued) {
        call->extra = malloc(GBX_HOST_MAX_RESPONSE);
        if (!call->extra)
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    int result = gbx_host_call(s->exchange, x->op, stream, call->payload + sizeof(*x), x->size,
                               call->extra, queued ? 0 : GBX_HOST_MAX_RESPONSE, &got);
    call->extra_size = got;
    return (CUresult)result;
}

void px_exchange_end(px_session_t *s)
{
    gbx_host_destroy(s->exchange);
    s->exchange = NULL;
}
