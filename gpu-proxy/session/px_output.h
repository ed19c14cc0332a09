/* px_output.h - what kernels print, on its way to the client's standard output and error.
 *
 * A driver prints at calls that wait, from inside the process, to stdio's streams. They become streams
 * whose bytes gather here, so that asking whether there are any costs one load; the reply to the call takes
 * them along, in front of it. One session per process. Thread-safe. */
#ifndef PX_OUTPUT_H
#define PX_OUTPUT_H

#include "gpu-proxy/session/px_state.h"

/* From now on what is printed gathers, at most 1 MiB; what does not fit is dropped. */
gb_status_t px_output_capture(void);

/* Sends what has gathered. */
void px_output_flush(px_session_t *session);

#endif
