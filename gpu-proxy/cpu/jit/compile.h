/* compile.h - between compile.c and config.c. */
#ifndef CPU_JIT_COMPILE_H
#define CPU_JIT_COMPILE_H

#include "gpu-proxy/cpu/jit/analysis/analysis.h"
#include "gpu-proxy/cpu/jit/jit.h"

/* Chooses a->config and leaves the forms analysed under it. */
gb_status_t cpu_config_choose(cpu_analysis_t *a, const cpu_jit_options_t *o, bool avx512);

#endif
