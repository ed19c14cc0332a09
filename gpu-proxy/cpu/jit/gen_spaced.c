/* Loads of every second, third or fourth element: x[4 * lane], x[4 * lane + 1]... Loading the whole
 * stretch once and picking from it is much cheaper than W single loads, and the accesses through one
 * register share the stretch. Where the stretch as a whole is not fine, a helper makes a copy of what
 * the lanes really read. */
#include "gpu-proxy/cpu/jit/gen.h"

#define B gen->b

enum { MAX_BYTES = 1024 };

val_t gen_load_spaced(cpu_gen_t *gen, const gen_addr_t *a, type_t elem)
{
    unsigned spacing = gen_address_spacing(gen, a);
    if (spacing == 0 || gen->options->unchecked || spacing * gen->W * a->bytes > MAX_BYTES) {
        return NULL;
    }
    const gen_verified_t *v = gen_verify(gen, a);
    if (v == NULL || v->stretch == NULL || v->high - v->low >= a->stride) {
        return NULL;
    }
    unsigned elements = (unsigned)(v->high - v->low) / a->bytes + spacing * (gen->W - 1) + 1;
    type_t t = LLVMVectorType(elem, elements);
    val_t all = LLVMBuildLoad2(B, t, v->stretch, "");
    LLVMSetAlignment(all, gen_align(gen, a->bytes));
    uint32_t at[32], skip = (uint32_t)(ptx_operand_offset(a->o) - v->low) / a->bytes;
    for (unsigned l = 0; l < gen->W; l++) {
        at[l] = l * spacing + skip;
    }
    return LLVMBuildShuffleVector(B, all, LLVMGetPoison(t), gen_iota(gen, at, gen->W), "");
}
