/* rc_cell.h - nodes of executable graphs whose work is the client's: host functions, and copies from and to
 * the program's memory. When the graph comes to such a node, the session calls the client (rc_host.h).
 *
 * What a node does is put into its cell's queue at each launch, because later launches may do something
 * else; runs come in the order of launches. Thread-safe, but where rc_graph_lock is asked for. */
#ifndef RC_CELL_H
#define RC_CELL_H

#include "gpu-proxy/client/rc_graph.h"

typedef struct rc_cell rc_cell_t;
typedef struct rc_cells rc_cells_t; /* of one executable graph */

/* Whether the work needs a cell. Works that have been checked only. */
int rc_cell_needed(const rc_work_t *work);

/* For the executable graph that `exec` is the handle of. NULL: out of memory. */
rc_cells_t *rc_cells_open(rc_session_t *session, rc_object_t *exec);
/* The graph is destroyed. The session is told, and the handle's slot freed, when the runs that are queued
 * are through; or neither, if the graph goes with its context. */
void rc_cells_close(rc_cells_t *cells, rc_lane_t *lane, int tell);

CUresult rc_cell_open(rc_cells_t *cells, rc_cell_t **cell);
void rc_cell_set_position(rc_cell_t *cell, uint32_t position);
/* Names the cell to the session. */
uint64_t rc_cell_token(const rc_cell_t *cell);
/* It goes when the runs that are queued are through. */
void rc_cell_close(rc_cell_t *cell);

/* One more run, as the work is now. With rc_graph_lock held. */
CUresult rc_cell_push(rc_cell_t *cell, const rc_work_t *work, int enabled);

#endif
