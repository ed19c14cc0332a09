/* rc_fault.h - page faults of the program in memory that it shares with kernels. */
#ifndef RC_FAULT_H
#define RC_FAULT_H

#include <stdint.h>

#include "common/cuda/gb_cuda.h"

/* Our handler for SIGSEGV is in place, in front of the program's own, which gets what is not ours. To be
 * called again when pages are protected: the program may have put its own in front. */
CUresult rc_fault_watch(void);

/* In rc_shared.c: makes the page usable; 0 if the address is none of shared memory. */
int rc_shared_touched(uint64_t address, int write);

#endif
