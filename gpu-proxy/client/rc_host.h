/* rc_host.h - host functions at the client: streams of a session call them here, on a thread of that
 * session, one after the other in the order in which the streams come to them. Thread-safe. */
#ifndef RC_HOST_H
#define RC_HOST_H

#include "gpu-proxy/client/rc_call.h"

typedef struct {
    CUhostFn function;         /* or */
    CUstreamCallback callback; /* with */
    CUstream stream;
    void *data;
    int once; /* forgotten when it has run */
} rc_host_t;

/* Remembers the function; *token names it to the session. */
CUresult rc_host_add(const rc_host_t *host, uint64_t *token);
void rc_host_remove(uint64_t token);

/* `runs` more calls will come from the session: its thread listens until they have. */
CUresult rc_host_expect(rc_session_t *session, unsigned runs);

/* The same for what comes by itself and may well come while another thread waits for it: the thread listens
 * when it is woken, until as many have come. */
CUresult rc_host_await(rc_session_t *session);
void rc_host_wake(rc_session_t *session);
void rc_host_came(rc_session_t *session);
/* Something is to come. */
int rc_host_busy(rc_session_t *session);

/* A session asks for a run (PX_OP_HOST_RUN); called by whoever reads. */
gb_status_t rc_host_asked(rc_session_t *session, const uint64_t words[3]);

#endif
