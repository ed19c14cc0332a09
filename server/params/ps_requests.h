/* ps_requests.h - between ps_view.c and ps_requests.c. */
#ifndef PS_REQUESTS_H
#define PS_REQUESTS_H

#include "server/params/ps_view.h"

/* Makes every sum that is complete (members have changed) and serves who waits for it. */
void ps_view_step_all(ps_view_t *view);

/* A chunk has a new version: captures it for the checkpoints that wait for that. */
void ps_view_stepped(ps_view_t *view, const ps_chunk_t *chunk);

/* The model is known now: checkpoints that waited for it are entered. */
void ps_view_declared(ps_view_t *view);

#endif
