/* cpu_host.h - functions of the program in stream order. They run one after the other on a thread of
 * their own and may not call CUDA. */
#ifndef CPU_HOST_H
#define CPU_HOST_H

#include "gpu-proxy/cpu/driver/cpu_sched.h"

/* cuLaunchHostFunc: not called once the context has failed. */
CUresult cpu_host_launch(cpu_stream_t *stream, CUhostFn function, void *data);

/* The same for one that may run while others do. */
CUresult cpu_host_beside(cpu_stream_t *stream, CUhostFn function, void *data);

/* cuStreamAddCallback: called with the context's state in any case. `handle` is what it is told as
 * the stream. */
CUresult cpu_host_callback(cpu_stream_t *stream, CUstream handle, CUstreamCallback function,
                           void *data);

#endif
