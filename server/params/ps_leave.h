/* ps_leave.h - between ps_keeper.c and ps_params.c. */
#ifndef PS_LEAVE_H
#define PS_LEAVE_H

#include "server/params/ps_job.h"

struct ps_params;

/* Takes the worker out of every sum not yet made. Never on an owner thread. */
void ps_leave_everywhere(struct ps_params *ps, ps_job_t *job, uint32_t worker);

#endif
