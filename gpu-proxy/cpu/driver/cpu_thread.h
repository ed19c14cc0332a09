/* cpu_thread.h - what CUDA keeps per thread: the stack of current contexts and the per-thread default
 * streams. */
#ifndef CPU_THREAD_H
#define CPU_THREAD_H

#include <stdbool.h>

#include "common/cuda/gb_cuda.h"

typedef struct cpu_context cpu_context_t;
typedef struct cpu_stream cpu_stream_t;

/* The start of nearly every entry point: the calling thread's current context, fit for use.
 * CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_NOT_PERMITTED (inside a host function),
 * CUDA_ERROR_INVALID_CONTEXT (none), CUDA_ERROR_CONTEXT_IS_DESTROYED, or the context's fault. The
 * thread's stack keeps the context alive while the call lasts. */
CUresult cpu_thread_context(cpu_context_t **context);

/* The current context whatever its state; NULL if there is none. */
CUresult cpu_thread_peek(cpu_context_t **context);

/* What to say to a bad argument: `error`, unless what comes first is wrong already, the state of the
 * driver (and, `here`, of the current context). */
CUresult cpu_thread_refuse(CUresult error);
CUresult cpu_thread_refuse_here(CUresult error);

CUresult cpu_thread_push(cpu_context_t *context);

/* Takes the top off the stack. CUDA_ERROR_INVALID_CONTEXT if the stack is empty. */
CUresult cpu_thread_pop(CUcontext *handle);

/* Replaces the top; NULL takes it off. */
CUresult cpu_thread_set(cpu_context_t *context);

/* The thread's own default stream of the context, made when first asked for; with a reference. */
CUresult cpu_thread_stream(cpu_context_t *context, cpu_stream_t **stream);

/* From now on the calling thread runs host functions, which may not call CUDA. */
void cpu_thread_enter_callback(void);

#endif
