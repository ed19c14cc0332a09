/* cpu_stream.h - making, finding and ending streams. */
#ifndef CPU_STREAM_H
#define CPU_STREAM_H

#include "gpu-proxy/cpu/driver/cpu_context.h"

enum { CPU_PRIORITY_LEAST = 0, CPU_PRIORITY_GREATEST = -5 };

/* A new stream of the context; the caller has the only reference. It has a handle only after
 * cpu_handle_add. */
CUresult cpu_stream_open(cpu_context_t *context, unsigned flags, int priority,
                         cpu_stream_t **stream);

/* Accepts nothing more and drops the caller's reference; what is queued still runs. */
void cpu_stream_close(cpu_stream_t *stream);

/* The stream that a handle means to a call in `context` (NULL and CU_STREAM_LEGACY: its default
 * stream, CU_STREAM_PER_THREAD: the calling thread's), with a reference. A stream of another context
 * is found too. CUDA_ERROR_INVALID_HANDLE, or the state of the stream's context. */
CUresult cpu_stream_get(cpu_context_t *context, CUstream handle, cpu_stream_t **stream);

#endif
