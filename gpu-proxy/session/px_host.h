/* px_host.h - host functions: the driver calls them here, in the order of a stream, and the client's
 * process runs them; the stream goes on when it says that they are done. Thread-safe. */
#ifndef PX_HOST_H
#define PX_HOST_H

#include "gpu-proxy/session/px_state.h"

/* What a driver calls: fn(userData). `token` names the function at the client. It may be called many times,
 * as long as it lives: px_host_node_free. CUDA_ERROR_OUT_OF_MEMORY. */
CUresult px_host_node(px_session_t *session, uint64_t token, CUDA_HOST_NODE_PARAMS *out);
void px_host_node_free(const CUDA_HOST_NODE_PARAMS *node);

/* The session is over: nobody waits for the client any more. */
void px_host_end(px_session_t *session);

#endif
