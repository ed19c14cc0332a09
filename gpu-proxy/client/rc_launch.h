/* rc_launch.h - what CUDA reports when a kernel is launched, found at the client. */
#ifndef RC_LAUNCH_H
#define RC_LAUNCH_H

#include "gpu-proxy/client/rc_call.h"

/* Grid and block against the limits of the context's device and the function's. */
CUresult rc_launch_check(const rc_object_t *context, const px_wire_launch_t *launch,
                         rc_function_t *function);

/* The parameters' bytes, from kernelParams or from `extra`: *bytes is `buffer`, which holds
 * function->param_bytes, or the program's own. Holes between parameters are zeroed: nothing of this
 * process leaks through them. */
CUresult rc_launch_pack(const rc_function_t *function, void **values, void **extra, void *buffer,
                        const void **bytes, uint32_t *size);

#endif
