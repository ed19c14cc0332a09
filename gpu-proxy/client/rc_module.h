/* rc_module.h - modules at the client: what the session told about their functions. */
#ifndef RC_MODULE_H
#define RC_MODULE_H

#include "gpu-proxy/client/rc_call.h"

enum { RC_JIT_OPTIONS = 64 }; /* most that a load may bring */

/* Loads an image into the current context. The JIT options are CUDA's. */
CUresult rc_module_load(rc_call_t *call, const void *image, unsigned count, CUjit_option *names,
                        void **values, rc_object_t **out);
/* Unloads it: every function of it goes too. */
CUresult rc_module_unload(rc_call_t *call, rc_object_t *module);
/* The function of that name, asking the session if it did not tell all. CUDA_ERROR_NOT_FOUND. */
CUresult rc_module_function(rc_call_t *call, rc_object_t *module, const char *name,
                            rc_function_t **out);
/* Address and size of a variable. */
CUresult rc_module_global(rc_call_t *call, rc_object_t *module, const char *name,
                          CUdeviceptr *address, size_t *size);

/* The function that a kernel stands for in the current context, loading its library there. */
CUresult rc_kernel_function(rc_call_t *call, rc_object_t *kernel, rc_object_t **out);

#endif
