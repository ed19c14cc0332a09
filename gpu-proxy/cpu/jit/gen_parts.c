/* Which nodes may run with a part of the lanes, where lanes may wait, and the blocks that this needs. */
#include "gpu-proxy/cpu/jit/gen_state.h"

/* Which nodes may run with a part of the lanes, and where lanes may wait. Groups that are full at the
 * start part only between a divergent branch and where its sides meet. */
static void find_parts(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    const cpu_analysis_t *a = gen->a;
    bool full = gen_group_is_full(gen);
    for (uint32_t k = 0; k < w->barrier_count; k++) {
        uint32_t next = a->nodes[w->barriers[k]].succ[0];
        full = full && (next == CPU_NODE_EXIT ||
                        !a->crowded[next]); /* some may wait there while others go on */
    }
    w->parts = cpu_arena_alloc(gen->arena, a->node_count, 1);
    w->waits = cpu_arena_alloc(gen->arena, a->node_count, 1);
    w->saved_parts = cpu_bits_new(gen->arena, gen->f->reg_count);
    w->waits[0] = !gen_group_is_full(gen);
    for (uint32_t b = 0; b < a->node_count; b++) {
        const cpu_node_t *n = &a->nodes[b];
        w->parts[b] = !full || a->crowded[b] || a->thinned[b] || a->held[b];
        for (unsigned s = 0; s < (n->end == CPU_END_BRANCH ? 2 : 1); s++) {
            if (n->succ[s] != CPU_NODE_EXIT && (w->parts[b] || a->divergent[b])) {
                w->waits[n->succ[s]] = true;
            }
        }
        if (w->parts[b] && n->end == CPU_END_BARRIER) {
            w->any_parts = true;
            if (n->succ[0] != CPU_NODE_EXIT) {
                cpu_bits_or(w->saved_parts, a->live_in[n->succ[0]], gen->f->reg_count);
            }
        }
    }
    for (uint32_t j = 0; j < w->spin_count; j++) {
        if (w->waits[w->spins[j]]) {
            w->any_parts = true;
            cpu_bits_or(w->saved_parts, a->live_in[w->spins[j]], gen->f->reg_count);
        }
    }
}

bool gen_barrier_parts(const cpu_gen_t *gen, uint32_t k)
{
    return gen->flow->need_masks && gen->flow->parts[gen->flow->barriers[k]];
}

static void make_masked_blocks(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    uint32_t n = gen->a->node_count;
    w->test = cpu_arena_alloc(gen->arena, n, sizeof *w->test);
    w->run = cpu_arena_alloc(gen->arena, n, sizeof *w->run);
    w->part = cpu_arena_alloc(gen->arena, n, sizeof *w->part);
    w->after = cpu_arena_alloc(gen->arena, n, sizeof *w->after);
    find_parts(gen);
    for (uint32_t b = 0; b < n; b++) {
        if (w->waits[b]) {
            w->test[b] = gen_block(gen, "test");
            w->run[b] = gen_block(gen, "run");
        }
        if (w->waits[b] || gen->a->divergent[b]) {
            w->after[b] = gen_block(gen, "after");
        }
    }
    w->rescan = gen_block(gen, "rescan");
    w->give_way = gen_block(gen, "give_way");
    w->done = gen_block(gen, "done");
    for (uint32_t b = 0; b < n; b++) {
        const cpu_node_t *node = &gen->a->nodes[b];
        w->meets[b] |= gen->a->held[b] && node->sync == CPU_SYNC_ALL && !gen->a->crowded[b];
        uint32_t p = node->end == CPU_END_BARRIER ? node->succ[0]
                     : gen->a->divergent[b]       ? node->ipdom
                                                  : CPU_NODE_EXIT;
        if (p != CPU_NODE_EXIT && !gen->a->crowded[p]) {
            w->meets[p] = true;
        }
    }
}

void gen_make_blocks(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    uint32_t n = gen->a->node_count;
    w->meets = cpu_arena_alloc(gen->arena, n, 1);
    if (w->need_fast) {
        w->fast = cpu_arena_alloc(gen->arena, n, sizeof *w->fast);
        for (uint32_t b = 0; b < n; b++) {
            w->fast[b] = gen_block(gen, "fast");
        }
    }
    if (w->need_masks) {
        make_masked_blocks(gen);
    }
}

static void find_barriers(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    w->barriers = cpu_arena_alloc(gen->arena, gen->a->node_count + 1, sizeof *w->barriers);
    for (uint32_t b = 0; b < gen->a->node_count; b++) {
        const cpu_node_t *n = &gen->a->nodes[b];
        if (n->end == CPU_END_BARRIER) {
            w->barriers[w->barrier_count++] = b;
            if (n->succ[0] != CPU_NODE_EXIT) {
                cpu_bits_or(w->saved, gen->a->live_in[n->succ[0]], gen->f->reg_count);
            }
        }
    }
}

static void find_spins(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    w->spins = cpu_arena_alloc(gen->arena, gen->a->node_count + 1, sizeof *w->spins);
    for (uint32_t b = 0; b < gen->a->node_count; b++) {
        if (gen_yield_spins(gen, b) || gen->a->held[b]) {
            w->spins[w->spin_count++] = b;
            cpu_bits_or(w->saved, gen->a->live_in[b], gen->f->reg_count);
        }
    }
}

void gen_find_stops(cpu_gen_t *gen)
{
    gen->flow->saved = cpu_bits_new(gen->arena, gen->f->reg_count);
    find_barriers(gen);
    find_spins(gen);
}
