/* What is simple because of what this device is: clusters of one CTA, caches without policies, address
 * windows within one address space; and special registers that have little to say. */
#include "gpu-proxy/cpu/jit/gen.h"

#define B gen->b

val_t gen_rare_register(cpu_gen_t *gen, uint32_t sreg)
{
    switch (sreg) {
    case PTX_SREG_CLUSTERID_X:
    case PTX_SREG_CLUSTERID_Y:
    case PTX_SREG_CLUSTERID_Z:
        return gen->ctaid[sreg - PTX_SREG_CLUSTERID_X];
    case PTX_SREG_NCLUSTERID_X:
    case PTX_SREG_NCLUSTERID_Y:
    case PTX_SREG_NCLUSTERID_Z:
        return gen->nctaid[sreg - PTX_SREG_NCLUSTERID_X];
    case PTX_SREG_CLUSTER_NCTAID_X:
    case PTX_SREG_CLUSTER_NCTAID_Y:
    case PTX_SREG_CLUSTER_NCTAID_Z:
    case PTX_SREG_CLUSTER_NCTARANK:
        return LLVMConstInt(gen->i32, 1, 0);
    case PTX_SREG_IS_EXPLICIT_CLUSTER:
        return LLVMConstInt(gen->i1, 0, 0);
    case PTX_SREG_PM64:
    case PTX_SREG_CURRENT_GRAPH_EXEC:
        return LLVMConstInt(gen->i64, 0, 0);
    default: /* a CTA's place in its cluster; counters that nobody has set up */
        return LLVMConstInt(gen->i32, 0, 0);
    }
}

/* ---- isspacep ---- */

static val_t within(cpu_gen_t *gen, val_t x, val_t base, val_t bytes)
{
    bool vec = gen_is_vector(x);
    base = vec ? gen_splat(gen, base) : base;
    bytes = vec ? gen_splat(gen, bytes) : bytes;
    return LLVMBuildICmp(B, LLVMIntULT, LLVMBuildSub(B, x, base, ""), bytes, "");
}

static val_t launch_bytes(cpu_gen_t *gen, size_t offset)
{
    return LLVMBuildLoad2(B, gen->i64, gen_offset(gen, gen->launch, offset), "");
}

static val_t in_shared(cpu_gen_t *gen, val_t x)
{
    return within(gen, x, LLVMBuildPtrToInt(B, gen->shared, gen->i64, ""), gen->shared_bytes);
}

static val_t in_local(cpu_gen_t *gen, val_t x)
{
    return within(gen, x, LLVMBuildPtrToInt(B, gen->local, gen->i64, ""),
                  launch_bytes(gen, offsetof(cpu_launch_t, local_bytes)));
}

static val_t in_params(cpu_gen_t *gen, val_t x)
{
    return within(gen, x, LLVMBuildPtrToInt(B, gen->params, gen->i64, ""),
                  launch_bytes(gen, offsetof(cpu_launch_t, param_bytes)));
}

/* Constant memory is the module's .const variables. */
static val_t in_const(cpu_gen_t *gen, val_t x)
{
    const ptx_module_t *m = gen->a->module;
    val_t any = gen_const(gen, gen->i1, gen_is_vector(x), 0);
    for (uint32_t v = 0; v < m->var_count; v++) {
        if (m->vars[v].space == PTX_SPACE_CONST && m->vars[v].owner == PTX_NONE) {
            val_t bytes = LLVMConstInt(gen->i64, m->vars[v].size, 0);
            any = LLVMBuildOr(B, any, within(gen, x, gen_var_address(gen, v), bytes), "");
        }
    }
    return any;
}

static val_t is_in_space(cpu_gen_t *gen, val_t x)
{
    switch (gen->i->space) {
    case PTX_SPACE_SHARED:
        return in_shared(gen, x);
    case PTX_SPACE_LOCAL:
        return in_local(gen, x);
    case PTX_SPACE_PARAM:
        return in_params(gen, x);
    case PTX_SPACE_CONST:
        return in_const(gen, x);
    default: { /* a generic address is global unless it is in one of the windows */
        val_t other = LLVMBuildOr(B, in_shared(gen, x), in_local(gen, x), "");
        other = LLVMBuildOr(B, other, in_params(gen, x), "");
        return LLVMBuildNot(B, LLVMBuildOr(B, other, in_const(gen, x), ""), "");
    }
    }
}

/* ---- instructions ---- */

void gen_special(cpu_gen_t *gen, bool vec)
{
    const ptx_instr_t *i = gen->i;
    const ptx_operand_t *d = ptx_dst(gen->f, i, 0);
    switch (i->op) {
    case PTX_OP_ISSPACEP:
        gen_write(gen, d, is_in_space(gen, gen_src(gen, 0, PTX_U64, vec)), PTX_PRED);
        break;
    case PTX_OP_MAPA: /* of the only CTA: itself */
        gen_write(gen, d, gen_src(gen, 0, i->type, vec), i->type);
        break;
    case PTX_OP_GETCTARANK:
        gen_write(gen, d, gen_const(gen, gen->i32, vec, 0), PTX_U32);
        break;
    default: /* createpolicy: opaque, and nothing looks at it */
        gen_write(gen, d, gen_const(gen, gen->i64, vec, 0), PTX_U64);
    }
}
