/* cpu_options.h - JIT options of cuModuleLoadDataEx, cuLibraryLoad* and cuLink*.
 *
 * Logs and the time are filled in; what asks for a kind of GPU code (registers, cache modes, debug
 * information, a target) has no meaning here and is accepted if its value is one of CUDA's.
 * A value outside the documented ones, or an unknown option, is CUDA_ERROR_INVALID_VALUE. */
#ifndef CPU_OPTIONS_H
#define CPU_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cuda/gb_cuda.h"

/* Where messages go. Both buffers may be NULL. */
typedef struct {
    char *error;
    size_t error_size;
    size_t error_used; /* out, without the NUL */
    char *info;
    size_t info_size;
    size_t info_used;
} cpu_image_log_t;

typedef enum {
    CPU_OPTIONS_LOAD, /* of a module or library */
    CPU_OPTIONS_LINK, /* cuLinkCreate: no fallback strategy */
    CPU_OPTIONS_INPUT /* cuLinkAdd*: no logs, no time, no target */
} cpu_options_use_t;

typedef struct {
    cpu_image_log_t log;
    bool verbose;
    uint64_t spent_ns; /* in the compiler and linker: for CU_JIT_WALL_TIME */
} cpu_options_t;

/* The values are those of `count` options. CUDA_ERROR_INVALID_VALUE; CUDA_ERROR_NOT_SUPPORTED for
 * symbols at addresses of the host's. */
CUresult cpu_options_read(unsigned count, const CUjit_option *options, void *const *values,
                          cpu_options_use_t use, cpu_options_t *out);

/* Writes back what CUDA does: bytes of the logs used, the time in milliseconds. */
void cpu_options_write(unsigned count, const CUjit_option *options, void **values,
                       const cpu_options_t *in);

/* Appends text, cutting what does not fit. `log` may be NULL. */
void cpu_log_error(cpu_image_log_t *log, const char *text);
void cpu_log_info(cpu_image_log_t *log, const char *text);

#endif
