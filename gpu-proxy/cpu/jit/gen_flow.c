/* The function of a kernel: which lanes run which node.
 *
 *   entry -> setup -> dispatch: state 0: start; state k: behind barrier k, all lanes active;
 *                               last state: behind barriers, with masks
 *   fast[b]   node b with every lane of the group active
 *   test[b]   do lanes wait for node b? then run[b], else after[b]
 *   run[b]    node b for the waiting lanes
 *   after[b]  the next iteration of a loop that ends with b, else test[b + 1]
 *   rescan    lanes that were left in deferred loops go on, else done
 *   done      no lane waits for a node: some may wait behind barriers, else the group has ended */
#include "gpu-proxy/cpu/jit/gen_state.h"

block_t gen_block(cpu_gen_t *gen, const char *name)
{
    return LLVMAppendBasicBlockInContext(gen->context, gen->fn, name);
}

void gen_goto(cpu_gen_t *gen, block_t block)
{
    LLVMBuildBr(gen->b, block);
    LLVMPositionBuilderAtEnd(gen->b, block);
}

val_t gen_alloca(cpu_gen_t *gen, type_t type, unsigned align)
{
    block_t now = LLVMGetInsertBlock(gen->b);
    LLVMPositionBuilderAtEnd(gen->b, gen->entry);
    val_t p = LLVMBuildAlloca(gen->b, type, "");
    LLVMSetAlignment(p, align);
    LLVMPositionBuilderAtEnd(gen->b, now);
    return p;
}

val_t gen_unlikely(cpu_gen_t *gen, val_t branch)
{
    LLVMMetadataRef weights[3] = {
        LLVMMDStringInContext2(gen->context, "branch_weights", 14),
        LLVMValueAsMetadata(LLVMConstInt(gen->i32, 1, 0)),
        LLVMValueAsMetadata(LLVMConstInt(gen->i32, 1 << 20, 0)),
    };
    LLVMMetadataRef node = LLVMMDNodeInContext2(gen->context, weights, 3);
    LLVMSetMetadata(branch, LLVMGetMDKindIDInContext(gen->context, "prof", 4),
                    LLVMMetadataAsValue(gen->context, node));
    return branch;
}

void gen_return_if(cpu_gen_t *gen, val_t failed, val_t state)
{
    block_t leave = gen_block(gen, "leave"), on = gen_block(gen, "");
    gen_unlikely(gen, LLVMBuildCondBr(gen->b, failed, leave, on));
    LLVMPositionBuilderAtEnd(gen->b, leave);
    LLVMBuildRet(gen->b, state);
    LLVMPositionBuilderAtEnd(gen->b, on);
}

static val_t state_value(cpu_gen_t *gen, int64_t state)
{
    return LLVMConstInt(gen->i32, (uint64_t)state, 1);
}

static void poll_cancel(cpu_gen_t *gen)
{
    val_t v = LLVMBuildLoad2(gen->b, gen->i32, gen->cancel, "");
    LLVMSetVolatile(v, 1);
    v = LLVMBuildICmp(gen->b, LLVMIntNE, v, gen_like(v, 0), "");
    gen_return_if(gen, v, state_value(gen, CPU_STATE_CANCELLED));
}

static val_t waiting(cpu_gen_t *gen, uint32_t node, unsigned g)
{
    return gen->waiting[node * gen->G + g];
}

static val_t load_mask(cpu_gen_t *gen, val_t slot)
{
    return LLVMBuildLoad2(gen->b, gen_vector(gen, gen->i1), slot, "");
}

/* Adds lanes to a mask slot. */
static void add_lanes(cpu_gen_t *gen, val_t slot, val_t lanes)
{
    LLVMBuildStore(gen->b, LLVMBuildOr(gen->b, load_mask(gen, slot), lanes, ""), slot);
}

static void send(cpu_gen_t *gen, uint32_t node, unsigned g, val_t lanes)
{
    if (node != CPU_NODE_EXIT) {
        add_lanes(gen, waiting(gen, node, g), lanes);
    }
}

static val_t any_waiting(cpu_gen_t *gen, uint32_t node)
{
    val_t all = load_mask(gen, waiting(gen, node, 0));
    for (unsigned g = 1; g < gen->G; g++) {
        all = LLVMBuildOr(gen->b, all, load_mask(gen, waiting(gen, node, g)), "");
    }
    return gen_any(gen, all);
}

static val_t all_set(cpu_gen_t *gen, val_t const *masks)
{
    val_t all = masks[0];
    for (unsigned g = 1; g < gen->G; g++) {
        all = LLVMBuildAnd(gen->b, all, masks[g], "");
    }
    if (!gen_is_vector(all)) {
        return all;
    }
    val_t bits = LLVMBuildBitCast(gen->b, all, gen_int(gen, gen->W), "");
    return LLVMBuildICmp(gen->b, LLVMIntEQ, bits, LLVMConstAllOnes(LLVMTypeOf(bits)), "");
}

static val_t none_set(cpu_gen_t *gen, val_t const *masks)
{
    val_t all = masks[0];
    for (unsigned g = 1; g < gen->G; g++) {
        all = LLVMBuildOr(gen->b, all, masks[g], "");
    }
    return LLVMBuildNot(gen->b, gen_any(gen, all), "");
}

/* The predicate of a branch for strip g, as a vector or (uniform) a scalar. */
static val_t branch_predicate(cpu_gen_t *gen, const cpu_node_t *n, unsigned g, bool vec)
{
    ptx_operand_t o = {.kind = PTX_OPERAND_REG, .index = n->guard, .negated = n->negated};
    gen->g = g;
    return gen_read(gen, &o, PTX_PRED, vec);
}

static void body(cpu_gen_t *gen, const cpu_node_t *n)
{
    gen_verify_reset(gen);
    for (uint32_t k = 0; k < n->count && !gen->failed; k++) {
        gen_instr(gen, &gen->f->instrs[n->first + k]);
    }
}

/* ---- every lane active ---- */

static void fast_jump(cpu_gen_t *gen, uint32_t from, uint32_t to)
{
    if (to == CPU_NODE_EXIT) {
        LLVMBuildRet(gen->b, state_value(gen, CPU_STATE_DONE));
        return;
    }
    if (to <= from) {
        poll_cancel(gen);
    }
    LLVMBuildBr(gen->b, gen->flow->fast[to]);
}

static void fast_branch_uniform(cpu_gen_t *gen, uint32_t b, const cpu_node_t *n)
{
    block_t yes = gen_block(gen, ""), no = gen_block(gen, "");
    LLVMBuildCondBr(gen->b, branch_predicate(gen, n, 0, false), yes, no);
    LLVMPositionBuilderAtEnd(gen->b, yes);
    fast_jump(gen, b, n->succ[0]);
    LLVMPositionBuilderAtEnd(gen->b, no);
    fast_jump(gen, b, n->succ[1]);
}

static void fast_branch_divergent(cpu_gen_t *gen, uint32_t b, const cpu_node_t *n)
{
    val_t p[GEN_MAX_STRIPS];
    bool vec = gen->a->values[n->guard].form.tag == CPU_FORM_VARYING;
    for (unsigned g = 0; g < gen->G; g++) {
        p[g] = branch_predicate(gen, n, g, vec);
    }
    block_t yes = gen_block(gen, ""), rest = gen_block(gen, ""), no = gen_block(gen, ""),
            mixed = gen_block(gen, "part");
    LLVMBuildCondBr(gen->b, all_set(gen, p), yes, rest);
    LLVMPositionBuilderAtEnd(gen->b, yes);
    fast_jump(gen, b, n->succ[0]);
    LLVMPositionBuilderAtEnd(gen->b, rest);
    LLVMBuildCondBr(gen->b, none_set(gen, p), no, mixed);
    LLVMPositionBuilderAtEnd(gen->b, no);
    fast_jump(gen, b, n->succ[1]);
    LLVMPositionBuilderAtEnd(gen->b, mixed);
    for (unsigned g = 0; g < gen->G; g++) {
        val_t lanes = gen_splat(gen, p[g]);
        send(gen, n->succ[0], g, lanes);
        send(gen, n->succ[1], g, LLVMBuildNot(gen->b, lanes, ""));
    }
    LLVMBuildBr(gen->b, gen->flow->after[b]);
}

static void fast_node(cpu_gen_t *gen, uint32_t b)
{
    const cpu_node_t *n = &gen->a->nodes[b];
    LLVMPositionBuilderAtEnd(gen->b, gen->flow->fast[b]);
    gen->node = b;
    gen->masked = false;
    body(gen, n);
    switch (n->end) {
    case CPU_END_BRANCH:
        if (gen->a->divergent[b]) {
            fast_branch_divergent(gen, b, n);
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

/* ---- with masks ---- */

/* Straight to a node, when nobody waits elsewhere. */
static void direct_jump(cpu_gen_t *gen, uint32_t from, uint32_t to)
{
    if (to == CPU_NODE_EXIT) {
        LLVMBuildBr(gen->b, gen->flow->done);
        return;
    }
    for (unsigned g = 0; g < gen->G; g++) {
        send(gen, to, g, gen->masks[g]);
    }
    if (to <= from) {
        poll_cancel(gen);
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
        send(gen, n->succ[0], g, gen->masks[g]);
    }
    LLVMBuildBr(gen->b, gen->flow->after[b]);
}

static void run_branch(cpu_gen_t *gen, uint32_t b, const cpu_node_t *n)
{
    if (!gen->a->divergent[b] && !gen->a->crowded[b]) {
        block_t yes = gen_block(gen, ""), no = gen_block(gen, "");
        LLVMBuildCondBr(gen->b, branch_predicate(gen, n, 0, false), yes, no);
        LLVMPositionBuilderAtEnd(gen->b, yes);
        direct_jump(gen, b, n->succ[0]);
        LLVMPositionBuilderAtEnd(gen->b, no);
        direct_jump(gen, b, n->succ[1]);
        return;
    }
    for (unsigned g = 0; g < gen->G; g++) {
        val_t p = branch_predicate(gen, n, g, true);
        send(gen, n->succ[0], g, LLVMBuildAnd(gen->b, gen->masks[g], p, ""));
        p = LLVMBuildNot(gen->b, p, "");
        send(gen, n->succ[1], g, LLVMBuildAnd(gen->b, gen->masks[g], p, ""));
    }
    LLVMBuildBr(gen->b, gen->flow->after[b]);
}

/* If lanes wait at the header of a loop they begin its next iteration. */
static void next_iteration(cpu_gen_t *gen, uint32_t h)
{
    block_t again = gen_block(gen, ""), on = gen_block(gen, "");
    LLVMBuildCondBr(gen->b, any_waiting(gen, h), again, on);
    LLVMPositionBuilderAtEnd(gen->b, again);
    poll_cancel(gen);
    LLVMBuildBr(gen->b, gen->flow->run[h]);
    LLVMPositionBuilderAtEnd(gen->b, on);
}

static void rescan(cpu_gen_t *gen)
{
    LLVMPositionBuilderAtEnd(gen->b, gen->flow->rescan);
    for (uint32_t l = 0; l < gen->a->loop_count; l++) {
        if (gen->a->loops[l].deferred && gen->flow->waits[gen->a->loops[l].header]) {
            next_iteration(gen, gen->a->loops[l].header);
        }
    }
    LLVMBuildBr(gen->b, gen->flow->done);
}

/* Every lane has come: on without masks. */
static void run_whole(cpu_gen_t *gen, uint32_t b)
{
    for (unsigned g = 0; g < gen->G; g++) {
        LLVMBuildStore(gen->b, LLVMConstNull(gen_vector(gen, gen->i1)), waiting(gen, b, g));
    }
    LLVMBuildBr(gen->b, gen->flow->fast[b]);
}

static void run_part(cpu_gen_t *gen, uint32_t b, const cpu_node_t *n)
{
    gen_flow_t *w = gen->flow;
    for (unsigned g = 0; g < gen->G; g++) {
        gen->masks[g] = load_mask(gen, waiting(gen, b, g));
        LLVMBuildStore(gen->b, LLVMConstNull(gen_vector(gen, gen->i1)), waiting(gen, b, g));
    }
    if (w->meets[b] && w->fast != NULL) {
        block_t part = gen_block(gen, "");
        LLVMBuildCondBr(gen->b, all_set(gen, gen->masks), w->fast[b], part);
        LLVMPositionBuilderAtEnd(gen->b, part);
    }
    gen->node = b;
    gen->masked = true;
    body(gen, n);
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

static void run_node(cpu_gen_t *gen, uint32_t b)
{
    const cpu_node_t *n = &gen->a->nodes[b];
    gen_flow_t *w = gen->flow;
    if (w->waits[b]) {
        LLVMPositionBuilderAtEnd(gen->b, w->test[b]);
        LLVMBuildCondBr(gen->b, any_waiting(gen, b), w->run[b], w->after[b]);
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

/* ---- the whole ---- */

static void make_slots(cpu_gen_t *gen)
{
    uint32_t regs = gen->f->reg_count, G = gen->G;
    gen->slots = cpu_arena_alloc(gen->arena, regs * G + 1, sizeof *gen->slots);
    gen->slots_index = cpu_arena_alloc(gen->arena, regs * G + 1, sizeof *gen->slots);
    for (uint32_t r = 0; r < regs; r++) {
        const cpu_value_t *v = &gen->a->values[r];
        type_t t = gen_shape(gen, gen_reg_type(gen, r), v->form.tag == CPU_FORM_VARYING);
        for (unsigned g = 0; g < (v->per_strip ? G : 1); g++) {
            val_t slot = gen_alloca(gen, t, 64);
            LLVMBuildStore(gen->b, LLVMConstNull(t), slot);
            gen->slots[r * G + g] = slot;
            if (v->form.scale != 0) {
                slot = gen_alloca(gen, gen->i32, 4);
                LLVMBuildStore(gen->b, LLVMConstNull(gen->i32), slot);
                gen->slots_index[r * G + g] = slot;
            }
        }
    }
}

static void make_masks(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    uint32_t n = gen->a->node_count * gen->G, k = w->barrier_count * gen->G;
    type_t t = gen_vector(gen, gen->i1);
    gen->waiting = cpu_arena_alloc(gen->arena, n + 1, sizeof *gen->waiting);
    gen->arrived = cpu_arena_alloc(gen->arena, k + 1, sizeof *gen->arrived);
    for (uint32_t j = 0; j < n + k; j++) {
        val_t slot = gen_alloca(gen, t, 8);
        LLVMBuildStore(gen->b, LLVMConstNull(t), slot);
        *(j < n ? &gen->waiting[j] : &gen->arrived[j - n]) = slot;
    }
}

/* Which nodes may run with a part of the lanes, and where lanes may wait. Groups that are full at the
 * start part only between a divergent branch and where its sides meet. */
static void find_parts(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    const cpu_analysis_t *a = gen->a;
    bool full = gen_group_is_full(gen);
    for (uint32_t k = 0; k < w->barrier_count; k++) {
        full = full && !a->crowded[w->barriers[k]]; /* some may wait there while others go on */
    }
    w->parts = cpu_arena_alloc(gen->arena, a->node_count, 1);
    w->waits = cpu_arena_alloc(gen->arena, a->node_count, 1);
    w->saved_parts = cpu_bits_new(gen->arena, gen->f->reg_count);
    w->waits[0] = !gen_group_is_full(gen);
    for (uint32_t b = 0; b < a->node_count; b++) {
        const cpu_node_t *n = &a->nodes[b];
        w->parts[b] = !full || a->crowded[b] || a->thinned[b];
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
    w->done = gen_block(gen, "done");
    for (uint32_t b = 0; b < n; b++) {
        const cpu_node_t *node = &gen->a->nodes[b];
        uint32_t p = node->end == CPU_END_BARRIER ? node->succ[0]
                     : gen->a->divergent[b]       ? node->ipdom
                                                  : CPU_NODE_EXIT;
        if (p != CPU_NODE_EXIT && !gen->a->crowded[p]) {
            w->meets[p] = true;
        }
    }
}

static void make_blocks(cpu_gen_t *gen)
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
    w->saved = cpu_bits_new(gen->arena, gen->f->reg_count);
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

static void start(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    if (!w->need_masks) {
        LLVMBuildBr(gen->b, w->fast[0]);
        return;
    }
    val_t masks[GEN_MAX_STRIPS];
    if (gen_group_is_full(gen)) {
        LLVMBuildBr(gen->b, w->fast[0]);
        return;
    }
    for (unsigned g = 0; g < gen->G; g++) {
        masks[g] = gen_valid_lanes(gen, g);
        LLVMBuildStore(gen->b, masks[g], waiting(gen, 0, g));
    }
    if (w->need_fast) {
        block_t part = gen_block(gen, "part");
        LLVMBuildCondBr(gen->b, all_set(gen, masks), w->fast[0], part);
        LLVMPositionBuilderAtEnd(gen->b, part);
    }
    LLVMBuildBr(gen->b, w->test[0]);
}

static void dispatch(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    if (w->barrier_count == 0) {
        start(gen);
        return;
    }
    block_t begin = gen_block(gen, "begin"), bad = gen_block(gen, "bad");
    val_t sw = LLVMBuildSwitch(gen->b, gen->state, bad, w->barrier_count + 2);
    LLVMPositionBuilderAtEnd(gen->b, bad);
    LLVMBuildUnreachable(gen->b);
    LLVMAddCase(sw, LLVMConstInt(gen->i32, 0, 0), begin);
    LLVMPositionBuilderAtEnd(gen->b, begin);
    start(gen);
    for (uint32_t k = 0; w->need_fast && k < w->barrier_count; k++) {
        block_t resume = gen_block(gen, "resume");
        LLVMAddCase(sw, LLVMConstInt(gen->i32, k + 1, 0), resume);
        LLVMPositionBuilderAtEnd(gen->b, resume);
        gen_barrier_resume(gen, k);
    }
    if (w->need_masks && w->any_parts) {
        block_t resume = gen_block(gen, "resume");
        LLVMAddCase(sw, LLVMConstInt(gen->i32, w->barrier_count + 1, 0), resume);
        LLVMPositionBuilderAtEnd(gen->b, resume);
        gen_barrier_resume_masked(gen);
    }
}

bool gen_function(cpu_gen_t *gen)
{
    gen->flow = cpu_arena_alloc(gen->arena, 1, sizeof *gen->flow);
    gen_flow_t *w = gen->flow;
    find_barriers(gen);
    w->need_masks = gen->W * gen->G > 1 && (gen->a->any_divergent || !gen_group_is_full(gen));
    w->need_fast = !w->need_masks || gen_group_may_be_full(gen);

    gen->entry = gen_block(gen, "entry");
    gen->setup = gen_block(gen, "setup");
    block_t go = gen_block(gen, "dispatch");
    make_blocks(gen);
    LLVMPositionBuilderAtEnd(gen->b, gen->setup);
    gen_setup(gen);
    block_t zero = gen_block(gen, "zero");
    LLVMPositionBuilderAtEnd(gen->b, zero);
    make_slots(gen);
    if (w->need_masks) {
        make_masks(gen);
    }
    gen_layout_context(gen);
    LLVMBuildBr(gen->b, go);
    LLVMPositionBuilderAtEnd(gen->b, go);
    dispatch(gen);
    for (uint32_t b = 0; b < gen->a->node_count && !gen->failed; b++) {
        if (w->need_fast) {
            fast_node(gen, b);
        }
        if (w->need_masks) {
            run_node(gen, b);
        }
    }
    if (w->need_masks && !gen->failed) {
        rescan(gen);
        LLVMPositionBuilderAtEnd(gen->b, w->done);
        gen_barrier_done(gen);
    }
    LLVMPositionBuilderAtEnd(gen->b, gen->entry);
    LLVMBuildBr(gen->b, gen->setup);
    LLVMPositionBuilderAtEnd(gen->b, gen->setup);
    LLVMBuildBr(gen->b, zero);
    return !gen->failed;
}
