/* cpu_guard.h - the second net under generated code: page faults while a thread runs device work.
 *
 * The first net is the checks in the generated code. What slips through (checks switched off, a page
 * given back while a kernel runs) raises a signal on the thread that runs the work; the handler
 * leaves the work and the operation fails as CUDA says. Signals anywhere else go to the handlers
 * that were installed before, so the program's own keep working. */
#ifndef CPU_GUARD_H
#define CPU_GUARD_H

#include <setjmp.h>
#include <stdbool.h>

#include "common/cuda/gb_cuda.h"

typedef struct cpu_guard {
    sigjmp_buf jump;
    volatile int signal; /* that ended the work */
    void *volatile address;
} cpu_guard_t;

/* Installs the handlers where they are not in place: at first, and again when the program has put its
 * own over them, which are then called for what is the program's. Unless told to look `now`, it looks
 * every few milliseconds at most, so it may be called on every launch. Thread-safe. */
void cpu_guard_install(bool now);

/* Gives the calling thread (one of the device's own) an alternate signal stack. */
void cpu_guard_thread_start(void);
void cpu_guard_thread_end(void);

/* The guard that the calling thread runs under, or NULL; set it after sigsetjmp(guard->jump, 0). */
void cpu_guard_set(cpu_guard_t *guard);

/* The CUDA error for a guard that was jumped to. */
CUresult cpu_guard_result(const cpu_guard_t *guard);

#endif
