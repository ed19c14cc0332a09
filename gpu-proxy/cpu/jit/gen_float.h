/* gen_float.h - directed rounding, for gen_float.c and gen_cvt.c. */
#ifndef CPU_GEN_FLOAT_H
#define CPU_GEN_FLOAT_H

#include "gpu-proxy/cpu/jit/gen.h"

/* s + error (f64, error may be NULL: 0) to f32, rounded RZ, RM or RP. */
val_t gen_directed(cpu_gen_t *gen, val_t s, val_t error, unsigned round);

#endif
