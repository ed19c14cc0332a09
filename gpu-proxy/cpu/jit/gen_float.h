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

/* ---- gen_round.c ---- */
/* add, sub, mul, div, fma, rcp or sqrt of f32 or f64, rounded RZ, RM or RP. */
val_t gen_rounded(cpu_gen_t *gen, unsigned op, unsigned round, val_t const *v);

/* min or max (gen->i) of two or three values, with .NaN and .xorsign.abs. */
val_t gen_extreme(cpu_gen_t *gen, val_t const *v, unsigned count);

/* ---- gen_quiet.c ---- */
/* Is source n of gen->i, an f32, certainly no signalling NaN? */
bool gen_source_is_quiet(cpu_gen_t *gen, unsigned n);

/* ---- gen_half.c: f16, bf16 and pairs of them ---- */
val_t gen_relu(cpu_gen_t *gen, val_t x); /* f32: negative to 0, NaN to the canonical one */
/* s + error (f64; error may be NULL: 0) to f32, rounded to odd: another rounding may follow. */
val_t gen_odd_f32(cpu_gen_t *gen, val_t s, val_t error);
bool gen_is_half(unsigned ptx_type);
void gen_half(cpu_gen_t *gen, bool vec);
/* Operands of a comparison as f32: *x and *y of the element that *count counts (2 for pairs). */
void gen_half_operands(cpu_gen_t *gen, unsigned ptx_type, bool vec, val_t x[2], val_t y[2]);

/* ---- gen_cvt.c ---- */
/* f32 to the bits of f16 or bf16; any rounding but RNA. */
val_t gen_round_half(cpu_gen_t *gen, val_t x, unsigned ptx_type, unsigned round);

/* ---- gen_tiny.c: packed formats of 8 bits and fewer ---- */
bool gen_is_tiny(unsigned ptx_type);
void gen_convert_tiny(cpu_gen_t *gen, bool vec);
void gen_pack(cpu_gen_t *gen, bool vec); /* cvt.pack */

#endif
