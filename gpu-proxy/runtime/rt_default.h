/* rt_default.h - what the generated definitions (rt_defaults.c) use. */
#ifndef RT_DEFAULT_H
#define RT_DEFAULT_H

#include "gpu-proxy/runtime/rt_types.h"

/* cudaErrorNotSupported; the name is logged once per process. */
cudaError_t rt_not_supported(int *told, const char *name);

/* The NULL stream as a program compiled with per-thread default streams means it. */
static inline cudaStream_t rt_thread_stream(cudaStream_t stream)
{
    return stream ? stream : cudaStreamPerThread;
}

/* The same for a launch; `own` holds the changed copy. NULL stays NULL. */
const cudaLaunchConfig_t *rt_thread_config(const cudaLaunchConfig_t *config,
                                           cudaLaunchConfig_t *own);

#endif
