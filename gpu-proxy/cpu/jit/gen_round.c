/* Arithmetic rounded toward zero, down or up. With AVX-512 the instructions say how they round. With
 * AVX2 the rounding mode is changed for one instruction, within one piece of assembly that nothing
 * else can move into. LLVM's own constrained operations do neither. */
#include "gpu-proxy/cpu/jit/gen_float.h"

#include <stdio.h>
#include <string.h>

#define B gen->b

/* MXCSR with every exception masked, and its two bits of rounding. */
enum { MXCSR = 0x1f80, MXCSR_DOWN = 1 << 13, MXCSR_UP = 2 << 13, MXCSR_ZERO = 3 << 13 };

static unsigned count_of(val_t v)
{
    return gen_is_vector(v) ? LLVMGetVectorSize(LLVMTypeOf(v)) : 1;
}

/* Elements [at, at + count) of a vector; zeros behind its end. */
static val_t slice(cpu_gen_t *gen, val_t v, unsigned at, unsigned count)
{
    uint32_t from[64];
    unsigned n = count_of(v);
    for (unsigned k = 0; k < count; k++) {
        from[k] = at + k < n ? at + k : n;
    }
    return LLVMBuildShuffleVector(B, v, LLVMConstNull(LLVMTypeOf(v)), gen_iota(gen, from, count),
                                  "");
}

static val_t join(cpu_gen_t *gen, val_t const *parts, unsigned count)
{
    uint32_t from[64];
    if (count == 1) {
        return parts[0];
    }
    val_t x = join(gen, parts, count / 2), y = join(gen, parts + count / 2, count / 2);
    unsigned n = 2 * count_of(x);
    for (unsigned k = 0; k < n; k++) {
        from[k] = k;
    }
    return LLVMBuildShuffleVector(B, x, y, gen_iota(gen, from, n), "");
}

static const char *name_of(unsigned op)
{
    switch (op) {
    case PTX_OP_ADD:
        return "add";
    case PTX_OP_SUB:
        return "sub";
    case PTX_OP_MUL:
        return "mul";
    case PTX_OP_DIV:
        return "div";
    case PTX_OP_SQRT:
        return "sqrt";
    default:
        return "vfmadd";
    }
}

static val_t by_instruction(cpu_gen_t *gen, unsigned op, unsigned round, val_t *v, unsigned count)
{
    char name[40];
    /* 8: no exceptions, and the mode is in the low bits */
    unsigned mode = round == PTX_ROUND_RM ? 9 : round == PTX_ROUND_RP ? 10 : 11;
    snprintf(name, sizeof name, "llvm.x86.avx512.%s.p%c.512", name_of(op),
             gen_element(v[0]) == gen->f32 ? 's' : 'd');
    v[count] = LLVMConstInt(gen->i32, mode, 0);
    return gen_call(gen, name, NULL, 0, v, count + 1);
}

/* Where the assembly finds both values of MXCSR. */
static val_t control_words(cpu_gen_t *gen, unsigned round)
{
    unsigned mode = round == PTX_ROUND_RM   ? MXCSR_DOWN
                    : round == PTX_ROUND_RP ? MXCSR_UP
                                            : MXCSR_ZERO;
    char name[16];
    snprintf(name, sizeof name, "round%u", round);
    val_t global = LLVMGetNamedGlobal(gen->module, name);
    if (global == NULL) {
        val_t words[2] = {LLVMConstInt(gen->i32, MXCSR | mode, 0),
                          LLVMConstInt(gen->i32, MXCSR, 0)};
        val_t both = LLVMConstArray2(gen->i32, words, 2);
        global = LLVMAddGlobal(gen->module, LLVMTypeOf(both), name);
        LLVMSetInitializer(global, both);
        LLVMSetLinkage(global, LLVMPrivateLinkage);
        LLVMSetGlobalConstant(global, 1);
    }
    return global;
}

static val_t by_mode(cpu_gen_t *gen, unsigned op, unsigned round, val_t *v, unsigned count)
{
    static const char *const constraints[] = {"=x,x,r", "=x,x,x,r", "=x,x,x,0,r"};
    static const char *const operands[] = {"$1, $0", "$2, $1, $0", "$2, $1, $0"};
    char text[128];
    type_t types[4], t = LLVMTypeOf(v[0]);
    unsigned at = count + 1; /* number of the pointer among the operands */
    snprintf(text, sizeof text, "vldmxcsr ($%u)\nv%sp%c %s\nvldmxcsr 4($%u)", at,
             count == 3 ? "fmadd231" : name_of(op), gen_element(v[0]) == gen->f32 ? 's' : 'd',
             operands[count - 1], at);
    for (unsigned k = 0; k < count; k++) {
        types[k] = t;
    }
    types[count] = gen->ptr;
    v[count] = control_words(gen, round);
    type_t type = LLVMFunctionType(t, types, count + 1, 0);
    const char *c = constraints[count - 1];
    val_t code =
        LLVMGetInlineAsm(type, text, strlen(text), c, strlen(c), 0, 0, LLVMInlineAsmDialectATT, 0);
    return LLVMBuildCall2(B, type, code, v, count + 1, "");
}

val_t gen_rounded(cpu_gen_t *gen, unsigned op, unsigned round, val_t const *v)
{
    unsigned bits = gen_element(v[0]) == gen->f32 ? 32 : 64;
    unsigned chunk = (gen->avx512 ? 512 : 256) / bits, n = count_of(v[0]);
    bool scalar = !gen_is_vector(v[0]);
    val_t in[3] = {v[0], v[1], v[2]}, parts[16];
    unsigned count = op == PTX_OP_FMA || op == PTX_OP_MAD ? 3 : op == PTX_OP_SQRT ? 1 : 2;
    if (op == PTX_OP_RCP) {
        in[0] = gen_flike(v[0], 1.0);
        in[1] = v[0];
        op = PTX_OP_DIV;
    }
    val_t zero = LLVMConstInt(gen->i64, 0, 0);
    for (unsigned k = 0; scalar && k < count; k++) {
        val_t none = LLVMConstNull(LLVMVectorType(gen_element(in[k]), chunk));
        in[k] = LLVMBuildInsertElement(B, none, in[k], zero, "");
    }
    for (unsigned at = 0; at < n; at += chunk) {
        val_t args[4];
        for (unsigned k = 0; k < count; k++) {
            args[k] = scalar || n == chunk ? in[k] : slice(gen, in[k], at, chunk);
        }
        parts[at / chunk] = gen->avx512 ? by_instruction(gen, op, round, args, count)
                                        : by_mode(gen, op, round, args, count);
    }
    if (scalar) {
        return LLVMBuildExtractElement(B, parts[0], zero, "");
    }
    return n < chunk ? slice(gen, parts[0], 0, n) : join(gen, parts, n / chunk);
}
