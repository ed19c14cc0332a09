/* gaps.h - coverage of one function, shared by the check at load and the compiler. No LLVM. */
#ifndef CPU_JIT_GAPS_H
#define CPU_JIT_GAPS_H

#include "gpu-proxy/cpu/jit/jit.h"

/* Number of instructions that are not covered; the first few are logged. */
unsigned cpu_function_gaps(const ptx_function_t *f, cpu_jit_log_t *log);

/* Families of instructions, one file each. */
bool cpu_covers_half(const ptx_instr_t *i); /* f16, bf16 and pairs of them, not cvt */

void cpu_jit_log(cpu_jit_log_t *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
