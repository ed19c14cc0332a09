/* jit.h - compiles one kernel of a PTX module to a blob (cpu_code.h).
 *
 * cpu_jit_compile lives in lib/gable/cpu/libgable-jit.so, the only library that needs LLVM; open it
 * with cpu_jit_open when a kernel must be compiled. cpu_jit_covers needs no LLVM and is linked
 * directly. For developers: GABLE_JIT_DUMP=1 prints the intermediate code of every kernel on stderr,
 * GABLE_JIT_ASM=FILE writes the assembly of the last one. All functions are thread-safe: every compilation has an LLVM context of its own. */
#ifndef CPU_JIT_H
#define CPU_JIT_H

#include "common/core/gb_status.h"
#include "gpu-proxy/cpu/jit/cpu_code.h"
#include "gpu-proxy/cpu/ptx/ptx_ir.h"

#include <stddef.h>

/* Text for people: lines such as `line 12: not covered: tex.2d.v4.f32.f32`. Always NUL-terminated,
 * cut if it does not fit. */
typedef struct {
    char *text;
    size_t capacity;
    size_t used;
} cpu_jit_log_t;

typedef struct {
    cpu_shape_t shape;
    const char *target;   /* cpu_target_name */
    unsigned width;       /* W: 0 = choose; 1 = scalar oracle; 4, 8, 16, 32 */
    unsigned strips;      /* G: 0 = choose; 1, 2, 4, 8, 16 */
    uint64_t stack_bytes; /* of a thread, for kernels that recurse */
    bool unchecked;       /* leave address checks out (GABLE_CPU_CHECKS=off) */
} cpu_jit_options_t;

/* GB_OK if every instruction of every kernel (and of what it calls) is covered; else
 * GB_ERR_UNSUPPORTED, with a line in the log for each of the first few. `log` may be NULL. */
gb_status_t cpu_jit_covers(const ptx_module_t *module, cpu_jit_log_t *log);

/* The blob is the caller's: free() it. GB_ERR_UNSUPPORTED: an instruction is not covered, or the
 * forced width does not fit the kernel (W = 1 with shfl, vote, match, redux). `log` may be NULL. */
gb_status_t cpu_jit_compile(const ptx_module_t *module, uint32_t function,
                            const cpu_jit_options_t *options, cpu_jit_log_t *log, void **blob,
                            size_t *bytes);

typedef gb_status_t (*cpu_jit_compile_fn)(const ptx_module_t *, uint32_t, const cpu_jit_options_t *,
                                          cpu_jit_log_t *, void **, size_t *);

/* Opens the compiler's library once per process and gives cpu_jit_compile. `path` NULL:
 * gb_path_installed("lib/gable/cpu/libgable-jit.so"). */
gb_status_t cpu_jit_open(const char *path, cpu_jit_compile_fn *compile);

#endif
