/* gen_packet.h - instructions that a helper does for a strip (see packet.h). */
#ifndef CPU_GEN_PACKET_H
#define CPU_GEN_PACKET_H

#include "gpu-proxy/cpu/jit/gen.h"
#include "gpu-proxy/cpu/jit/packet.h"

/* An operand as W lanes of its type in slot n; predicates as 32 bits. */
void gen_packet_put(cpu_gen_t *gen, unsigned n, const ptx_operand_t *o, unsigned ptx_type);
/* b128: two halves in slots n and n + 1. */
void gen_packet_put_wide(cpu_gen_t *gen, unsigned n, const ptx_operand_t *o);
/* The addresses of an ADDRESS operand, within their space. */
void gen_packet_put_address(cpu_gen_t *gen, unsigned n, const ptx_operand_t *o);
/* Calls the helper at this offset of the table with a description made of uint32_t (256 bytes at
 * most); leaves the function if it reports a fault. */
void gen_packet_call(cpu_gen_t *gen, size_t helper, const void *what, size_t bytes);
/* Results: lanes of 16, 32 or 64 bits; a predicate from 32; b128 from two slots. */
void gen_packet_get(cpu_gen_t *gen, unsigned n, const ptx_operand_t *dst, unsigned bits);
void gen_packet_get_pred(cpu_gen_t *gen, unsigned n, const ptx_operand_t *dst);
void gen_packet_get_wide(cpu_gen_t *gen, unsigned n, const ptx_operand_t *dst);
/* Element n of a vector; a single register is its own element 0. */
const ptx_operand_t *gen_packet_element(cpu_gen_t *gen, const ptx_operand_t *o, unsigned n);

void gen_atomic_rare(cpu_gen_t *gen, const cpu_rare_t *what);

#endif
