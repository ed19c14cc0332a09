/* Registers that instructions read and write. */
#include "gpu-proxy/cpu/jit/analysis/analysis.h"

static void visit_operand(const ptx_function_t *f, const ptx_operand_t *o, cpu_reg_visit_fn visit,
                          void *context)
{
    switch (o->kind) {
    case PTX_OPERAND_REG:
        visit(context, o->index);
        break;
    case PTX_OPERAND_ADDRESS:
        if (o->base == PTX_OPERAND_REG) {
            visit(context, o->index);
        }
        break;
    case PTX_OPERAND_VECTOR:
        for (unsigned n = 0; n < o->count; n++) {
            visit_operand(f, ptx_element(f, o, n), visit, context);
        }
        break;
    default:
        break;
    }
}

void cpu_visit_defs(const ptx_function_t *f, const ptx_instr_t *i, cpu_reg_visit_fn visit,
                    void *context)
{
    for (unsigned n = 0; n < i->dst_count; n++) {
        visit_operand(f, ptx_dst(f, i, n), visit, context);
    }
}

void cpu_visit_uses(const ptx_function_t *f, const ptx_instr_t *i, cpu_reg_visit_fn visit,
                    void *context)
{
    if (i->guard != PTX_NONE) {
        visit(context, i->guard);
    }
    for (unsigned n = 0; n < i->src_count; n++) {
        visit_operand(f, ptx_src(f, i, n), visit, context);
    }
}

bool cpu_sreg_needs_warp(uint32_t sreg)
{
    switch (sreg) {
    case PTX_SREG_LANEID:
    case PTX_SREG_WARPID:
    case PTX_SREG_LANEMASK_EQ:
    case PTX_SREG_LANEMASK_LE:
    case PTX_SREG_LANEMASK_LT:
    case PTX_SREG_LANEMASK_GE:
    case PTX_SREG_LANEMASK_GT:
        return true;
    default:
        return false;
    }
}

bool cpu_instr_syncs_warp(const ptx_instr_t *i, unsigned *members)
{
    switch (i->op) {
    case PTX_OP_BAR_WARP:
    case PTX_OP_ELECT:
        *members = 0;
        return true;
    case PTX_OP_SHFL:
        *members = 3;
        return (i->flags & PTX_F_SYNC) != 0;
    case PTX_OP_VOTE:
        *members = 1;
        return (i->flags & PTX_F_SYNC) != 0;
    case PTX_OP_MATCH:
    case PTX_OP_REDUX:
        *members = 1;
        return true;
    default:
        return false;
    }
}

bool cpu_instr_exchanges(const ptx_instr_t *i)
{
    unsigned members;
    return cpu_instr_syncs_warp(i, &members) || i->op == PTX_OP_SHFL || i->op == PTX_OP_VOTE ||
           i->op == PTX_OP_ACTIVEMASK;
}

bool cpu_instr_needs_warp(const ptx_instr_t *i)
{
    switch (i->op) {
    case PTX_OP_BAR_WARP:
    case PTX_OP_SHFL:
    case PTX_OP_VOTE:
    case PTX_OP_MATCH:
    case PTX_OP_REDUX:
    case PTX_OP_ACTIVEMASK:
    case PTX_OP_ELECT:
    case PTX_OP_WMMA:
    case PTX_OP_MMA:
    case PTX_OP_LDMATRIX:
    case PTX_OP_STMATRIX:
    case PTX_OP_MOVMATRIX:
        return true;
    case PTX_OP_BAR: /* counts are in warps */
        return i->mode == PTX_BAR_ARRIVE || i->src_count > (i->mode == PTX_BAR_RED ? 2 : 1);
    default:
        return false;
    }
}
