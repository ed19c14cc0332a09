/* rt_state.h - the driver under the runtime, the device that each thread means, and the last error.
 *
 * Every function of the API begins with rt_init (needs the driver only) or rt_enter (needs a current
 * context, too) and ends with rt_result. Errors are plain numbers in here: driver and runtime number
 * those that they share alike. All functions are thread-safe. */
#ifndef RT_STATE_H
#define RT_STATE_H

#include "gb_cuda_table.h"
#include "gpu-proxy/runtime/rt_types.h"
#include "rt_api.h"

/* The driver's functions; valid after rt_init has succeeded once. */
extern const gb_cuda_table_t *rt_cu;

/* Loads libcuda.so.1 and initialises it, once per process; later calls give the first one's answer. */
int rt_init(void);

/* Makes the device's primary context current for the thread, unless the program has made a context of
 * its own current through the driver API: then that one is used. */
int rt_enter(void);

int rt_device_count(void); /* after rt_init */
int rt_device(void);       /* ordinal that the thread means */

/* The device's primary context, retained. */
int rt_primary_context(int device, CUcontext *context);

/* Records an error as the thread's last, and passes it on. */
cudaError_t rt_result(int error);

#endif
