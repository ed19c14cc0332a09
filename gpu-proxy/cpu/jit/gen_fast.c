/* Nodes with every lane of the group active. */
#include "gpu-proxy/cpu/jit/gen_ahead.h"

static void fast_jump(cpu_gen_t *gen, uint32_t from, uint32_t to)
{
    const gen_ahead_t *h = gen->ahead;
    if (h != NULL && to >= h->header && to <= h->end) {
        if (to == h->header) {
            gen_ahead_next(gen);
        } else {
            LLVMBuildBr(gen->b, h->quick[to]);
        }
        return;
    }
    if (to == CPU_NODE_EXIT) {
        gen_done(gen);
        return;
    }
    if (to <= from) {
        gen_poll_cancel(gen);
        gen_yield_fast(gen, to);
    }
    gen_leave_loop(gen, from, to);
    LLVMBuildBr(gen->b, gen_fast_block(gen, from, to));
}

static void fast_branch_uniform(cpu_gen_t *gen, uint32_t b, const cpu_node_t *n)
{
    block_t yes = gen_block(gen, ""), no = gen_block(gen, "");
    LLVMBuildCondBr(gen->b, gen_branch_predicate(gen, n, 0, false), yes, no);
    LLVMPositionBuilderAtEnd(gen->b, yes);
    fast_jump(gen, b, n->succ[0]);
    LLVMPositionBuilderAtEnd(gen->b, no);
    fast_jump(gen, b, n->succ[1]);
}

/* Where all lanes go the same way by their bound; else the predicate is made, and looked at. */
static void fast_branch_bound(cpu_gen_t *gen, const cpu_node_t *n, const gen_bound_t *bound,
                              block_t yes, block_t no)
{
    block_t rest = gen_block(gen, ""), each = gen_block(gen, "");
    val_t all, none;
    gen_bound_test(gen, bound, n->negated, &all, &none);
    LLVMBuildCondBr(gen->b, all, yes, rest);
    LLVMPositionBuilderAtEnd(gen->b, rest);
    LLVMBuildCondBr(gen->b, none, no, each);
    LLVMPositionBuilderAtEnd(gen->b, each);
    gen_instr(gen, bound->setp);
}

/* To `then` if it holds; `possible`: it can. */
static void branch_if(cpu_gen_t *gen, bool possible, val_t holds, block_t then, block_t otherwise)
{
    if (possible) {
        LLVMBuildCondBr(gen->b, holds, then, otherwise);
    } else {
        LLVMBuildBr(gen->b, otherwise);
    }
}

static void fast_branch_divergent(cpu_gen_t *gen, uint32_t b, const cpu_node_t *n,
                                  const gen_bound_t *bound)
{
    val_t p[GEN_MAX_STRIPS];
    bool vec = gen->a->values[n->guard].form.tag == CPU_FORM_VARYING;
    block_t yes = gen_block(gen, ""), rest = gen_block(gen, ""), no = gen_block(gen, ""),
            mixed = gen_block(gen, "part");
    if (bound != NULL) {
        fast_branch_bound(gen, n, bound, yes, no);
    }
    for (unsigned g = 0; g < gen->G; g++) {
        p[g] = gen_branch_predicate(gen, n, g, vec);
    }
    branch_if(gen, bound == NULL || gen_bound_can(bound, n->negated, true), gen_all_set(gen, p),
              yes, rest);
    LLVMPositionBuilderAtEnd(gen->b, yes);
    fast_jump(gen, b, n->succ[0]);
    LLVMPositionBuilderAtEnd(gen->b, rest);
    branch_if(gen, bound == NULL || gen_bound_can(bound, n->negated, false), gen_none_set(gen, p),
              no, mixed);
    LLVMPositionBuilderAtEnd(gen->b, no);
    fast_jump(gen, b, n->succ[1]);
    LLVMPositionBuilderAtEnd(gen->b, mixed);
    for (unsigned g = 0; g < gen->G; g++) {
        val_t lanes = gen_splat(gen, p[g]);
        gen_send(gen, n->succ[0], g, lanes);
        gen_send(gen, n->succ[1], g, LLVMBuildNot(gen->b, lanes, ""));
    }
    LLVMBuildBr(gen->b, gen->flow->after[b]);
}

static void whole_node(cpu_gen_t *gen, uint32_t b)
{
    const cpu_node_t *n = &gen->a->nodes[b];
    gen->node = b;
    gen->masked = false;
    gen_bound_t bound;
    bool bounded = gen_bound_find(gen, b, &bound);
    gen->later = bounded ? bound.setp : NULL;
    gen_node_body(gen, n);
    gen->later = NULL;
    switch (n->end) {
    case CPU_END_BRANCH:
        if (gen->a->divergent[b]) {
            fast_branch_divergent(gen, b, n, bounded ? &bound : NULL);
        } else {
            fast_branch_uniform(gen, b, n);
        }
        break;
    case CPU_END_BARRIER:
        gen_barrier_stop(gen, b, n);
        break;
    default:
        fast_jump(gen, b, n->succ[0]);
    }
}

void gen_fast_node(cpu_gen_t *gen, uint32_t b)
{
    LLVMPositionBuilderAtEnd(gen->b, gen->flow->fast[b]);
    gen->node = b;
    gen->masked = false;
    gen_enter_loop(gen, b);
    gen_ahead_t *h = gen_ahead_begin(gen, b);
    if (h == NULL || !gen_masked_instead(gen, b)) { /* which it rarely comes to: no third form */
        whole_node(gen, b);
    }
    gen->ahead = h;
    for (uint32_t x = b; h != NULL && x <= h->end && !gen->failed; x++) {
        LLVMPositionBuilderAtEnd(gen->b, h->quick[x]);
        whole_node(gen, x);
    }
    gen->ahead = NULL;
}
