/* Loops in which a lane may wait for what another thread does.
 *
 * A loop is one if it can end, or begin again early, by what it has read from memory that others write
 * in the meantime: by the result of an atomic operation, of a volatile or ordered load, or of any load
 * if the loop also has a fence (which makes it look at memory again). What depends on such a result, by
 * data or because a branch on it decides, is tainted; a loop with a tainted way out or back is deferred.
 * Counted loops around locks, and atomic operations whose results do not end the loop, stay ordinary. */
#include "gpu-proxy/cpu/jit/analysis/analysis.h"

typedef struct {
    cpu_analysis_t *a;
    const cpu_loop_t *loop;
    bool fenced; /* every load counts */
    cpu_bits_t tainted;
    bool hit, changed;
    bool again; /* a tainted branch decides whether the next iteration begins */
} spin_t;

static bool in_loop(const spin_t *w, uint32_t node)
{
    return node >= w->loop->header && node <= w->loop->last; /* CPU_NODE_EXIT is above */
}

static bool is_fence(const ptx_instr_t *i)
{
    return i->op == PTX_OP_MEMBAR || i->op == PTX_OP_BAR_WARP || i->op == PTX_OP_NANOSLEEP;
}

static bool reads_what_others_write(const spin_t *w, const ptx_instr_t *i)
{
    switch (i->op) {
    case PTX_OP_ATOM:
    case PTX_OP_MBARRIER:
        return i->dst_count > 0;
    case PTX_OP_LD:
        return i->sem != PTX_SEM_NONE ||
               (w->fenced && i->space != PTX_SPACE_PARAM && i->space != PTX_SPACE_CONST);
    default:
        return false;
    }
}

static void look(void *context, uint32_t reg)
{
    spin_t *w = context;
    w->hit |= cpu_bits_has(w->tainted, reg);
}

static void taint(void *context, uint32_t reg)
{
    spin_t *w = context;
    if (!cpu_bits_has(w->tainted, reg)) {
        cpu_bits_add(w->tainted, reg);
        w->changed = true;
    }
}

static void taint_by_data(spin_t *w, const cpu_node_t *n)
{
    for (uint32_t k = 0; k < n->count + (n->end == CPU_END_BARRIER); k++) {
        const ptx_instr_t *i = &w->a->f->instrs[n->first + k];
        w->hit = reads_what_others_write(w, i);
        cpu_visit_uses(w->a->f, i, look, w);
        if (w->hit) {
            cpu_visit_defs(w->a->f, i, taint, w);
        }
    }
}

/* What a tainted branch decides: all that is written before its sides meet. */
static void taint_by_branch(spin_t *w, const cpu_node_t *n)
{
    cpu_arena_t *arena = w->a->arena;
    uint32_t depth = 0, *stack = cpu_arena_alloc(arena, w->a->node_count * 2 + 2, sizeof *stack);
    cpu_bits_t seen = cpu_bits_new(arena, w->a->node_count);
    stack[depth++] = n->succ[0];
    stack[depth++] = n->succ[1];
    while (depth > 0) {
        uint32_t b = stack[--depth];
        if (b == n->ipdom || !in_loop(w, b) || cpu_bits_has(seen, b)) {
            continue;
        }
        cpu_bits_add(seen, b);
        w->again |= b == w->loop->header;
        const cpu_node_t *m = &w->a->nodes[b];
        for (uint32_t k = 0; k < m->count; k++) {
            cpu_visit_defs(w->a->f, &w->a->f->instrs[m->first + k], taint, w);
        }
        stack[depth++] = m->succ[0];
        if (m->end == CPU_END_BRANCH) {
            stack[depth++] = m->succ[1];
        }
    }
}

static bool has_source(spin_t *w)
{
    bool any = false;
    w->fenced = false;
    for (uint32_t b = w->loop->header; b <= w->loop->last; b++) {
        const cpu_node_t *n = &w->a->nodes[b];
        for (uint32_t k = 0; k < n->count; k++) {
            w->fenced |= is_fence(&w->a->f->instrs[n->first + k]);
        }
    }
    for (uint32_t b = w->loop->header; b <= w->loop->last && !any; b++) {
        const cpu_node_t *n = &w->a->nodes[b];
        for (uint32_t k = 0; k < n->count && !any; k++) {
            any = reads_what_others_write(w, &w->a->f->instrs[n->first + k]);
        }
    }
    return any;
}

static bool branch_tainted(const spin_t *w, const cpu_node_t *n)
{
    return n->end == CPU_END_BRANCH && cpu_bits_has(w->tainted, n->guard);
}

/* May another thread decide whether the loop ends? */
static bool waits_for_others(cpu_analysis_t *a, const cpu_loop_t *loop)
{
    spin_t w = {.a = a, .loop = loop};
    if (!has_source(&w)) {
        return false;
    }
    w.tainted = cpu_bits_new(a->arena, a->f->reg_count);
    do {
        w.changed = false;
        for (uint32_t b = loop->header; b <= loop->last; b++) {
            taint_by_data(&w, &a->nodes[b]);
        }
        for (uint32_t b = loop->header; b <= loop->last; b++) {
            if (branch_tainted(&w, &a->nodes[b])) {
                taint_by_branch(&w, &a->nodes[b]);
            }
        }
    } while (w.changed);
    for (uint32_t b = loop->header; b <= loop->last && !w.again; b++) {
        const cpu_node_t *n = &a->nodes[b];
        if (branch_tainted(&w, n) && !(in_loop(&w, n->succ[0]) && in_loop(&w, n->succ[1]))) {
            return true;
        }
    }
    return w.again;
}

bool cpu_analyse_spin(cpu_analysis_t *a)
{
    bool any = false;
    for (uint32_t l = 0; l < a->loop_count; l++) {
        a->loops[l].deferred = waits_for_others(a, &a->loops[l]);
        any |= a->loops[l].deferred;
    }
    return any;
}
