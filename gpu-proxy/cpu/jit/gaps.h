/* gaps.h - coverage of one function, shared by the check at load and the compiler. No LLVM. */
#ifndef CPU_JIT_GAPS_H
#define CPU_JIT_GAPS_H

#include "gpu-proxy/cpu/jit/jit.h"

/* Number of instructions that are not covered; the first few are logged. */
unsigned cpu_function_gaps(const ptx_module_t *module, const ptx_function_t *f, cpu_jit_log_t *log);

/* ---- covers_call.c ---- */
/* Per function: 1 if a kernel is or may call it. The caller frees it; NULL: out of memory. */
uint8_t *cpu_reached_functions(const ptx_module_t *module);
/* Stores of arguments and results, which lowering takes away. */
bool cpu_is_argument(const ptx_function_t *f, const ptx_instr_t *i);
bool cpu_alloca_covered(const ptx_function_t *f, const ptx_instr_t *i);
/* Of calls, brx and what cpu_is_argument says. */
bool cpu_call_covered(const ptx_module_t *module, const ptx_function_t *f, const ptx_instr_t *i);

/* Families of instructions, one file each. */
/* Textures and surfaces (covers_tex.c). */
bool cpu_covers_texture(const ptx_function_t *f, const ptx_instr_t *i);
bool cpu_covers_arithmetic(const ptx_instr_t *i);
bool cpu_is_directed(const ptx_instr_t *i);       /* rounds RZ, RM or RP */
bool cpu_covers_conversion(const ptx_instr_t *i); /* cvt */
bool cpu_covers_pack(const ptx_instr_t *i);       /* cvt.pack */
bool cpu_covers_half(const ptx_instr_t *i);       /* f16, bf16 and pairs of them, not cvt */

void cpu_jit_log(cpu_jit_log_t *log, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
