/* rt_module.h - what nvcc-built programs register before main: fat binaries, kernels, variables.
 *
 * A binary is given to the driver when something of it is first needed, as one library for all
 * contexts. Kernels and variables are known by the address of their host-side shadow. Thread-safe. */
#ifndef RT_MODULE_H
#define RT_MODULE_H

#include "gpu-proxy/runtime/rt_types.h"

/* The kernel behind a host function, or `function` itself if it is a kernel handle already.
 * cudaErrorInvalidDeviceFunction: no kernel is registered there. Needs rt_init. */
int rt_kernel_of(const void *function, CUkernel *kernel);

/* Kernel handles that the program gets in other ways may be passed like host functions, too. */
void rt_kernel_note(CUkernel kernel);

/* What the program calls a kernel: its host function, else the handle. */
void *rt_kernel_name(CUkernel kernel);

/* The same as a function of the current context. Needs rt_enter. */
int rt_function_of(const void *function, CUfunction *out);

/* Device address and size of the variable whose host shadow is `symbol`, in the current context.
 * cudaErrorInvalidSymbol: none. Needs rt_enter. */
int rt_symbol_of(const void *symbol, CUdeviceptr *address, size_t *bytes);

#endif
