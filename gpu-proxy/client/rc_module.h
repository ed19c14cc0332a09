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
typedef struct {
    CUdeviceptr address;
    size_t size;
    int managed; /* the program reaches it, too */
} rc_global_t;

/* The variable of that name. CUDA_ERROR_NOT_FOUND, CUDA_ERROR_MAP_FAILED (rc_shared_adopt). */
CUresult rc_module_global(rc_call_t *call, rc_object_t *module, const char *name,
                          rc_global_t *global);

/* *linked (malloc'ed) is what the parts of a wrapper give when they are linked in the current context; NULL
 * if the image is no wrapper of parts. Of the options the error log is used. */
CUresult rc_module_link(const void *image, unsigned count, const CUjit_option *names,
                        void *const *values, void **linked);
/* Sends bytes in pieces, for the call of this lane that comes next and needs them. */
CUresult rc_image_send(rc_call_t *call, const void *image, uint64_t size);
/* The whole file with a zero behind it, because PTX files have none; free() it.
 * CUDA_ERROR_FILE_NOT_FOUND. */
CUresult rc_module_read_file(const char *name, char **out, size_t *size);

/* The function that a kernel stands for in the current context, loading its library there. */
CUresult rc_kernel_function(rc_call_t *call, rc_object_t *kernel, rc_object_t **out);

#endif
