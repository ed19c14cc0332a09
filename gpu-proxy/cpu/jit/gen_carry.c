/* Carry chains: the condition code is a predicate of each lane, an operand like any other. */
#include "gpu-proxy/cpu/jit/gen.h"

#define B gen->b

static val_t below(cpu_gen_t *gen, val_t x, val_t y)
{
    return LLVMBuildICmp(B, LLVMIntULT, x, y, "");
}

/* x + y + carry (NULL: none); *out gets the carry out of it. */
static val_t add(cpu_gen_t *gen, val_t x, val_t y, val_t carry, val_t *out)
{
    val_t r = LLVMBuildAdd(B, x, y, "");
    *out = below(gen, r, x);
    if (carry != NULL) {
        val_t one = LLVMBuildZExt(B, carry, LLVMTypeOf(x), ""), all = LLVMBuildAdd(B, r, one, "");
        *out = LLVMBuildOr(B, *out, below(gen, all, r), "");
        r = all;
    }
    return r;
}

/* x - y - borrow */
static val_t subtract(cpu_gen_t *gen, val_t x, val_t y, val_t borrow, val_t *out)
{
    val_t r = LLVMBuildSub(B, x, y, "");
    *out = below(gen, x, y);
    if (borrow != NULL) {
        val_t one = LLVMBuildZExt(B, borrow, LLVMTypeOf(x), "");
        *out = LLVMBuildOr(B, *out, below(gen, r, one), "");
        r = LLVMBuildSub(B, r, one, "");
    }
    return r;
}

void gen_carry(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    bool multiplies = i->op == PTX_OP_MAD || i->op == PTX_OP_MADC;
    bool carries = i->op == PTX_OP_ADDC || i->op == PTX_OP_SUBC || i->op == PTX_OP_MADC;
    val_t x = gen_src(gen, 0, i->type, vec), y = gen_src(gen, 1, i->type, vec), out, r;
    val_t carry = carries ? gen_src(gen, i->src_count - 1u, PTX_PRED, vec) : NULL;
    if (multiplies) {
        r = add(gen, gen_multiply(gen, x, y), gen_src(gen, 2, i->type, vec), carry, &out);
    } else if (i->op == PTX_OP_SUB || i->op == PTX_OP_SUBC) {
        r = subtract(gen, x, y, carry, &out);
    } else {
        r = add(gen, x, y, carry, &out);
    }
    gen_write(gen, ptx_dst(gen->f, i, 0), r, i->type);
    if (i->dst_count > 1) {
        gen_write(gen, ptx_dst(gen->f, i, 1), out, PTX_PRED);
    }
}
