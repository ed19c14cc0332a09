/* Liveness of registers. A guarded definition keeps the old value alive. */
#include "gpu-proxy/cpu/jit/analysis/analysis.h"

#include <string.h>

static void drop(void *bits, uint32_t reg)
{
    cpu_bits_drop(bits, reg);
}

static void add(void *bits, uint32_t reg)
{
    cpu_bits_add(bits, reg);
}

static void step_back(const cpu_analysis_t *a, const ptx_instr_t *i, cpu_bits_t live)
{
    if (i->guard == PTX_NONE) {
        cpu_visit_defs(a->f, i, drop, live);
    }
    cpu_visit_uses(a->f, i, add, live);
}

static void node_live_in(const cpu_analysis_t *a, const cpu_node_t *n, cpu_bits_t live)
{
    memset(live, 0, cpu_bits_words(a->f->reg_count) * 8);
    for (unsigned s = 0; s < (n->end == CPU_END_BRANCH ? 2 : 1); s++) {
        if (n->succ[s] != CPU_NODE_EXIT) {
            cpu_bits_or(live, a->live_in[n->succ[s]], a->f->reg_count);
        }
    }
    if (n->end == CPU_END_BARRIER) {
        step_back(a, &a->f->instrs[n->last], live);
    } else if (n->end == CPU_END_BRANCH) {
        cpu_bits_add(live, n->guard);
    }
    for (uint32_t k = n->count; k-- > 0;) {
        step_back(a, &a->f->instrs[n->first + k], live);
    }
}

void cpu_analyse_live(cpu_analysis_t *a)
{
    cpu_bits_t live = cpu_bits_new(a->arena, a->f->reg_count);
    a->live_in = cpu_arena_alloc(a->arena, a->node_count, sizeof *a->live_in);
    for (uint32_t b = 0; b < a->node_count; b++) {
        a->live_in[b] = cpu_bits_new(a->arena, a->f->reg_count);
    }
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t b = a->node_count; b-- > 0;) {
            node_live_in(a, &a->nodes[b], live);
            changed |= cpu_bits_or(a->live_in[b], live, a->f->reg_count);
        }
    }
    for (uint32_t r = 0; r < a->f->reg_count; r++) {
        for (uint32_t b = 0; a->given[r] != NULL && b < a->node_count; b++) {
            cpu_bits_drop(a->live_in[b], r);
        }
    }
}
