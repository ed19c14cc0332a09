/* px_shared.h - memory that the client has at the same addresses. The dispatcher's, but for px_shared_down. */
#ifndef PX_SHARED_H
#define PX_SHARED_H

#include "gpu-proxy/session/px_state.h"

/* The context's memory is to go with it: what is orphaned is unmapped by the next sweep, once the driver
 * has ended the context and with it all work. */
void px_shared_orphan(px_session_t *session, const px_context_t *context);
void px_shared_sweep(px_session_t *session);
void px_shared_free(px_session_t *session);

#endif
