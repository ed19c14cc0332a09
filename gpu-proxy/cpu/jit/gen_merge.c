/* Bits put into a register in some of the lanes only: select(m, (old & C) | (x & ~C), old).
 *
 * For AVX-512, LLVM 19 makes one vpternlog with merging of it. Where its operands have to go round for
 * that, so that the old value comes first and what is read from memory (x, or C) comes last, they go
 * round one way and the truth table the other: wrong bits (LLVM's issue 157929; right from release 23
 * on). So such a sum passes a fence, which is no instruction, but nobody looks through it: then the
 * vpternlog has no mask, and a masked move follows. Other masked operations stay what they are. */
#include "gpu-proxy/cpu/jit/gen.h"

#include <string.h>

enum { DEEPEST = 4 };

static bool is(val_t v, LLVMOpcode op)
{
    return LLVMIsAInstruction(v) != NULL && LLVMGetInstructionOpcode(v) == op;
}

static val_t strip(val_t v)
{
    while (is(v, LLVMBitCast)) {
        v = LLVMGetOperand(v, 0);
    }
    return v;
}

/* The same value, or what the code generator may find to be the same. */
static bool is_same(val_t x, val_t y)
{
    x = strip(x);
    y = strip(y);
    return x == y ||
           (is(x, LLVMLoad) && is(y, LLVMLoad) && LLVMGetOperand(x, 0) == LLVMGetOperand(y, 0));
}

/* What a known set of bits is taken of; NULL if this is no such thing. */
static val_t masked_of(val_t v)
{
    if (is(v, LLVMZExt) || is(v, LLVMTrunc)) {
        return LLVMGetOperand(v, 0);
    }
    if (!is(v, LLVMAnd) && !is(v, LLVMShl) && !is(v, LLVMLShr)) {
        return NULL;
    }
    if (LLVMIsConstant(LLVMGetOperand(v, 1))) {
        return LLVMGetOperand(v, 0);
    }
    return is(v, LLVMAnd) && LLVMIsConstant(LLVMGetOperand(v, 0)) ? LLVMGetOperand(v, 1) : NULL;
}

static bool is_part_of(val_t v, val_t old)
{
    val_t from = masked_of(strip(v));
    for (unsigned k = 0; from != NULL && k < DEEPEST; k++) {
        if (is_same(from, old)) {
            return true;
        }
        from = masked_of(strip(from));
    }
    return false;
}

static bool is_copysign(val_t v)
{
    static const char NAME[] = "llvm.copysign";
    size_t n;
    val_t f = is(v, LLVMCall) ? LLVMIsAFunction(LLVMGetCalledValue(v)) : NULL;
    return f != NULL && strncmp(LLVMGetValueName2(f, &n), NAME, sizeof NAME - 1) == 0;
}

/* Is v made of some bits of old, and other bits of something else? */
static bool merges(val_t v, val_t old)
{
    v = strip(v);
    if (is_copysign(v)) {
        return is_same(LLVMGetOperand(v, 0), old) || is_same(LLVMGetOperand(v, 1), old);
    }
    if (!is(v, LLVMOr) && !is(v, LLVMAdd) && !is(v, LLVMXor)) {
        return false;
    }
    val_t x = LLVMGetOperand(v, 0), y = LLVMGetOperand(v, 1);
    return (is_part_of(x, old) && masked_of(strip(y)) != NULL) ||
           (is_part_of(y, old) && masked_of(strip(x)) != NULL);
}

/* As elements of 32 or 64 bits: the others have no masked vpternlog. NULL: not one of these. */
static type_t fenced_type(cpu_gen_t *gen, val_t v)
{
    type_t t = gen_element(v);
    if (LLVMGetTypeKind(t) == LLVMIntegerTypeKind) {
        unsigned bits = LLVMGetIntTypeWidth(t);
        return bits == 32 ? gen->f32 : bits == 64 ? gen->f64 : NULL;
    }
    return t == gen->f32 || t == gen->f64 ? t : NULL;
}

static void part(cpu_gen_t *gen, val_t select, unsigned arm)
{
    val_t v = LLVMGetOperand(select, arm);
    LLVMPositionBuilderBefore(gen->b, select);
    val_t fenced = gen_bitcast(gen, v, fenced_type(gen, v));
    fenced = gen_call1(gen, "llvm.arithmetic.fence", fenced);
    LLVMSetOperand(select, arm, gen_bitcast(gen, fenced, gen_element(v)));
}

static void look_at(cpu_gen_t *gen, val_t v)
{
    if (!is(v, LLVMSelect) || !gen_is_vector(LLVMGetOperand(v, 0)) || fenced_type(gen, v) == NULL) {
        return;
    }
    val_t yes = LLVMGetOperand(v, 1), no = LLVMGetOperand(v, 2);
    if (merges(yes, no)) {
        part(gen, v, 1);
    } else if (merges(no, yes)) {
        part(gen, v, 2);
    }
}

void gen_part_merges(cpu_gen_t *gen)
{
    for (block_t b = LLVMGetFirstBasicBlock(gen->fn); b != NULL; b = LLVMGetNextBasicBlock(b)) {
        for (val_t v = LLVMGetFirstInstruction(b); v != NULL; v = LLVMGetNextInstruction(v)) {
            look_at(gen, v);
        }
    }
}
