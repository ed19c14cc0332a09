/* gbx_queue.h - enqueueing of initial weights; between gbx_queue.c and gbx_engine.c. */
#ifndef GBX_QUEUE_H
#define GBX_QUEUE_H

#include "server/client/gbx_engine.h"

/* Sends all weights as initial values. */
gb_status_t gbx_engine_give(gbx_engine_t *engine, CUstream stream);

#endif
