/* cpu_link.h - linking at run time: what is behind cuLink*, and programs of separately compiled parts.
 *
 * The output is PTX (see ptx_link.h): what a GPU's linker would make, a cubin, the device could not
 * run. Thread-safe. */
#ifndef CPU_LINK_H
#define CPU_LINK_H

#include "gpu-proxy/cpu/driver/cpu_handle.h"
#include "gpu-proxy/cpu/driver/cpu_options.h"

typedef struct cpu_linker cpu_linker_t;

/* Entered in the handle table. The values stay the program's and are written by each later step. */
CUresult cpu_linker_open(unsigned count, const CUjit_option *options, void **values,
                         CUlinkState *handle);

/* With a reference. CUDA_ERROR_INVALID_HANDLE. */
CUresult cpu_linker_get(CUlinkState handle, cpu_linker_t **linker);
void cpu_linker_put(cpu_linker_t *linker);

/* CUDA_ERROR_INVALID_HANDLE if it is gone. */
CUresult cpu_linker_close(CUlinkState handle);

/* Adds PTX, a fat binary, an object file or a library; `name` (may be NULL) is for messages.
 * CUDA_ERROR_INVALID_VALUE, _INVALID_IMAGE, _INVALID_PTX, _NO_BINARY_FOR_GPU (code for a GPU only),
 * _OUT_OF_MEMORY. */
CUresult cpu_linker_add(cpu_linker_t *linker, CUjitInputType type, const void *data, size_t size,
                        const char *name);

/* Links. The image stays the linker's; *size includes its NUL. CUDA_ERROR_INVALID_PTX: a name is
 * missing or there twice, or an instruction is not covered: the error log has the reasons. */
CUresult cpu_linker_finish(cpu_linker_t *linker, void **image, size_t *size);

/* Links the parts of a wrapper, see ptx_image_parts(). The caller frees *text. */
CUresult cpu_link_parts(const void *const *parts, cpu_image_log_t *log, char **text, size_t *size);

#endif
