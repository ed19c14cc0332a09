/* px_confine.h - what a session process gives up before it serves its client.
 *
 * Checked device code cannot leave its memory, but it is native code in this process: whatever gets past
 * the checks should find nothing to do with it. */
#ifndef PX_CONFINE_H
#define PX_CONFINE_H

#include "common/core/gb_status.h"

/* Closes every descriptor above `last_fd`; dies with the daemon; no new privileges; no core dump with
 * keys in it, no attaching from outside. */
gb_status_t px_confine_process(int last_fd);

/* For the whole process, threads that run already included: no new programs, no look into or signals to
 * other processes, no change of identity, mounts, kernel state or name spaces (EPERM). Not with NVIDIA's
 * driver, which starts helpers. Nothing happens where the kernel has no seccomp: the log says so. */
void px_confine_calls(void);

#endif
