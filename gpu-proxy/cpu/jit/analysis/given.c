/* Registers that are parameters of the kernel: written once, by a load of one. They need not be kept
 * anywhere, since they can be read again wherever they are used. So they are never alive: not where
 * control joins, and not behind barriers. */
#include "gpu-proxy/cpu/jit/analysis/analysis.h"

static bool is_parameter(const cpu_analysis_t *a, const ptx_instr_t *i)
{
    if (i->op != PTX_OP_LD || i->space != PTX_SPACE_PARAM || i->guard != PTX_NONE || i->vec > 1) {
        return false;
    }
    const ptx_operand_t *o = ptx_src(a->f, i, 0), *d = ptx_dst(a->f, i, 0);
    unsigned bytes = ptx_type_size((ptx_type_t)i->type);
    return o->base == PTX_OPERAND_VAR && d->kind == PTX_OPERAND_REG &&
           cpu_reg_bits(a->f, d->index) == bytes * 8 &&
           a->module->vars[o->index].offset + o->value + bytes <= a->f->param_size;
}

static void count(void *defs, uint32_t reg)
{
    ((uint32_t *)defs)[reg]++;
}

static void visit(const cpu_analysis_t *a, cpu_reg_visit_fn fn, void *context)
{
    for (uint32_t b = 0; b < a->node_count; b++) {
        const cpu_node_t *n = &a->nodes[b];
        for (uint32_t k = 0; k < n->count; k++) {
            cpu_visit_defs(a->f, &a->f->instrs[n->first + k], fn, context);
        }
        if (n->end == CPU_END_BARRIER) {
            cpu_visit_defs(a->f, &a->f->instrs[n->last], fn, context);
        }
    }
}

void cpu_analyse_given(cpu_analysis_t *a)
{
    uint32_t *defs = cpu_arena_alloc(a->arena, a->f->reg_count + 1, sizeof *defs);
    a->given = cpu_arena_alloc(a->arena, a->f->reg_count + 1, sizeof *a->given);
    visit(a, count, defs);
    for (uint32_t b = 0; b < a->node_count; b++) {
        const cpu_node_t *n = &a->nodes[b];
        for (uint32_t k = 0; k < n->count; k++) {
            const ptx_instr_t *i = &a->f->instrs[n->first + k];
            if (is_parameter(a, i) && defs[ptx_dst(a->f, i, 0)->index] == 1) {
                a->given[ptx_dst(a->f, i, 0)->index] = i;
            }
        }
    }
}
