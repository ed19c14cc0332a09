/* gen_float.h - pieces of floating-point arithmetic. */
#ifndef CPU_GEN_FLOAT_H
#define CPU_GEN_FLOAT_H

#include "gpu-proxy/cpu/jit/gen.h"

/* s + error (f64, error may be NULL: 0) to f32, rounded RZ, RM or RP. */
val_t gen_directed(cpu_gen_t *gen, val_t s, val_t error, unsigned round);

/* Instructions of AVX-512 that LLVM has only for whole registers of f32: is x a vector of them, and `f`
 * for each of them. */
enum { GEN_ZMM = 16 };
bool gen_has_zmm(const cpu_gen_t *gen, val_t x);
val_t gen_by_zmm(cpu_gen_t *gen, val_t (*f)(cpu_gen_t *, val_t, val_t), val_t x, val_t y);

/* min or max (gen->i) of two or three values, with .NaN and .xorsign.abs. */
val_t gen_extreme(cpu_gen_t *gen, val_t const *v, unsigned count);

/* ---- gen_half.c: f16, bf16 and pairs of them ---- */
bool gen_is_half(unsigned ptx_type);
void gen_half(cpu_gen_t *gen, bool vec);
/* Operands of a comparison as f32: *x and *y of the element that *count counts (2 for pairs). */
void gen_half_operands(cpu_gen_t *gen, unsigned ptx_type, bool vec, val_t x[2], val_t y[2]);

#endif
