/* ptx_opcode.h - what is known about each opcode: its dot words and the shape of its operands. */
#ifndef PTX_OPCODE_H
#define PTX_OPCODE_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu-proxy/cpu/ptx/ptx_ir.h"

/* The shape of an instruction's operands, one character each: destinations, '=', sources.
 *   t T  value of .type, of the second type      v  value or vector of .type, register may be wider
 *   r R  the same, but the register may be wider V  vector of .vec elements, unchecked
 *   m    .type, or twice as wide with .wide      a  address in [ ]
 *   p    predicate                               x  texture or surface list in [ ], flattened
 *   q    predicate, may be negated               l  label
 *   u    32 bits (16 for 16-bit shift counts)    b  label of a table
 *   P    optional second destination, d|p        M  operand of mov: anything
 *   c    call: parsed by itself                  *  anything
 *   ?    the ones behind it may be missing */
typedef struct {
    ptx_instr_t instr; /* with the mnemonic's fields set, no operands */
    const char *shape;
} ptx_mnemonic_t;

typedef enum { PTX_DECODED, PTX_UNKNOWN_OPCODE, PTX_UNKNOWN_MODIFIER, PTX_BAD_TYPES } ptx_decode_t;

/* Decodes "ld.global.v4.f32". On PTX_UNKNOWN_MODIFIER, `word` gets the dot word not understood. */
ptx_decode_t ptx_decode(const char *mnemonic, ptx_mnemonic_t *out, char *word, size_t word_size);

/* The type named `word` (without the dot); PTX_TYPE_NONE if it names none. */
ptx_type_t ptx_type_by_name(const char *word, size_t length);

/* Special register by name and component (0, 'x', 'y', 'z'); PTX_SREG_NONE if it is none. `number`
 * gets the n of %envreg<n> and %pm<n>. */
ptx_sreg_t ptx_sreg_by_name(const char *name, size_t length, char component, uint64_t *number);

#endif
