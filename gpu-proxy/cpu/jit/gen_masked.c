/* Nodes with masks: the lanes that wait for a node run it, lowest node first. */
#include "gpu-proxy/cpu/jit/gen_state.h"

/* Straight to a node, when nobody waits elsewhere. */
static void direct_jump(cpu_gen_t *gen, uint32_t from, uint32_t to)
{
    if (to == CPU_NODE_EXIT) {
        LLVMBuildBr(gen->b, gen->flow->done);
        return;
    }
    for (unsigned g = 0; g < gen->G; g++) {
        gen_send(gen, to, g, gen->masks[g]);
    }
    if (to <= from) {
        gen_poll_cancel(gen);
        if (gen_yield_spins(gen, to)) {
            LLVMBuildBr(gen->b, gen->flow->rescan);
            return;
        }
    }
    LLVMBuildBr(gen->b, gen->flow->run[to]);
}

static void run_jump(cpu_gen_t *gen, uint32_t b, const cpu_node_t *n)
{
    if (!gen->a->crowded[b]) {
        direct_jump(gen, b, n->succ[0]);
        return;
    }
    for (unsigned g = 0; g < gen->G; g++) {
        gen_send(gen, n->succ[0], g, gen->masks[g]);
    }
    LLVMBuildBr(gen->b, gen->flow->after[b]);
}

static void run_branch(cpu_gen_t *gen, uint32_t b, const cpu_node_t *n)
{
    if (!gen->a->divergent[b] && !gen->a->crowded[b]) {
        block_t yes = gen_block(gen, ""), no = gen_block(gen, "");
        LLVMBuildCondBr(gen->b, gen_branch_predicate(gen, n, 0, false), yes, no);
        LLVMPositionBuilderAtEnd(gen->b, yes);
        direct_jump(gen, b, n->succ[0]);
        LLVMPositionBuilderAtEnd(gen->b, no);
        direct_jump(gen, b, n->succ[1]);
        return;
    }
    for (unsigned g = 0; g < gen->G; g++) {
        val_t p = gen_branch_predicate(gen, n, g, true);
        gen_send(gen, n->succ[0], g, LLVMBuildAnd(gen->b, gen->masks[g], p, ""));
        p = LLVMBuildNot(gen->b, p, "");
        gen_send(gen, n->succ[1], g, LLVMBuildAnd(gen->b, gen->masks[g], p, ""));
    }
    LLVMBuildBr(gen->b, gen->flow->after[b]);
}

/* If lanes wait at the header of a loop they begin its next iteration. */
static void next_iteration(cpu_gen_t *gen, uint32_t h)
{
    block_t again = gen_block(gen, ""), on = gen_block(gen, "");
    LLVMBuildCondBr(gen->b, gen_any_waiting(gen, h), again, on);
    LLVMPositionBuilderAtEnd(gen->b, again);
    gen_poll_cancel(gen);
    LLVMBuildBr(gen->b, gen->flow->run[h]);
    LLVMPositionBuilderAtEnd(gen->b, on);
}

static void clear_waiting(cpu_gen_t *gen, uint32_t b)
{
    for (unsigned g = 0; g < gen->G; g++) {
        LLVMBuildStore(gen->b, LLVMConstNull(gen_vector(gen, gen->i1)), gen_waiting(gen, b, g));
    }
}

/* Every lane has come: on without masks. */
static void run_whole(cpu_gen_t *gen, uint32_t b)
{
    clear_waiting(gen, b);
    LLVMBuildBr(gen->b, gen->flow->fast[b]);
}

/* If every lane has come it goes on without masks, else to where the builder is left: in `part`, which
 * others enter too, or a block of its own (NULL). */
static void whole_or_part(cpu_gen_t *gen, uint32_t b, block_t part)
{
    const gen_flow_t *w = gen->flow;
    bool meets = w->meets[b] && w->fast != NULL;
    if (part == NULL && !meets) {
        return;
    }
    part = part != NULL ? part : gen_block(gen, "");
    if (meets) {
        val_t masks[GEN_MAX_STRIPS];
        block_t whole = gen_block(gen, "");
        for (unsigned g = 0; g < gen->G; g++) {
            masks[g] = gen_load_mask(gen, gen_waiting(gen, b, g));
        }
        LLVMBuildCondBr(gen->b, gen_all_set(gen, masks), whole, part);
        LLVMPositionBuilderAtEnd(gen->b, whole);
        run_whole(gen, b);
    } else {
        LLVMBuildBr(gen->b, part);
    }
    LLVMPositionBuilderAtEnd(gen->b, part);
}

static void run_part(cpu_gen_t *gen, uint32_t b, const cpu_node_t *n)
{
    gen_flow_t *w = gen->flow;
    whole_or_part(gen, b, w->part[b]);
    for (unsigned g = 0; g < gen->G; g++) {
        gen->masks[g] = gen_load_mask(gen, gen_waiting(gen, b, g));
    }
    clear_waiting(gen, b);
    gen->node = b;
    gen->masked = true;
    gen_sync_wait(gen, b);
    gen_node_body(gen, n);
    switch (n->end) {
    case CPU_END_BRANCH:
        run_branch(gen, b, n);
        break;
    case CPU_END_BARRIER:
        gen_barrier_arrive_masked(gen, b, n);
        LLVMBuildBr(gen->b, w->after[b]);
        break;
    default:
        run_jump(gen, b, n);
    }
}

/* Where to look for waiting lanes behind node b: the next iteration of the loops that end here,
 * innermost first, then the nodes that follow. */
static void look_on(cpu_gen_t *gen, uint32_t b, const cpu_node_t *n)
{
    gen_flow_t *w = gen->flow;
    LLVMPositionBuilderAtEnd(gen->b, w->after[b]);
    for (uint32_t l = n->loop; l != CPU_NO_LOOP; l = gen->a->loops[l].parent) {
        const cpu_loop_t *loop = &gen->a->loops[l];
        if (loop->last == b && !loop->deferred && w->waits[loop->header]) {
            next_iteration(gen, loop->header);
        }
    }
    LLVMBuildBr(gen->b, gen_chain(gen, b + 1));
}

/* The first test at or behind node b. */
block_t gen_chain(cpu_gen_t *gen, uint32_t b)
{
    while (b < gen->a->node_count && gen->flow->after[b] == NULL) {
        b++;
    }
    return b == gen->a->node_count ? gen->flow->rescan
           : gen->flow->waits[b]   ? gen->flow->test[b]
                                   : gen->flow->after[b];
}

bool gen_masked_instead(cpu_gen_t *gen, uint32_t b)
{
    gen_flow_t *w = gen->flow;
    if (!w->need_masks || !w->waits[b] || !w->parts[b]) {
        return false;
    }
    val_t all = LLVMConstAllOnes(gen_vector(gen, gen->i1));
    for (unsigned g = 0; g < gen->G; g++) {
        LLVMBuildStore(gen->b, all, gen_waiting(gen, b, g));
    }
    w->part[b] = gen_block(gen, "part");
    LLVMBuildBr(gen->b, w->part[b]);
    return true;
}

void gen_masked_node(cpu_gen_t *gen, uint32_t b)
{
    const cpu_node_t *n = &gen->a->nodes[b];
    gen_flow_t *w = gen->flow;
    if (w->waits[b]) {
        LLVMPositionBuilderAtEnd(gen->b, w->test[b]);
        LLVMBuildCondBr(gen->b, gen_any_waiting(gen, b), w->run[b], w->after[b]);
        LLVMPositionBuilderAtEnd(gen->b, w->run[b]);
        if (w->parts[b]) {
            run_part(gen, b, n);
        } else {
            run_whole(gen, b);
        }
    }
    if (w->after[b] != NULL) {
        look_on(gen, b, n);
    }
}
