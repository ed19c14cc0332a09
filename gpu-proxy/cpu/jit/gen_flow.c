/* The function of a kernel: which lanes run which node.
 *
 *   entry -> setup -> dispatch: state 0: start; state k: behind barrier k, all lanes active;
 *                               further states: behind barriers or in spin loops
 *   fast[b]   node b with every lane of the group active
 *   test[b]   do lanes wait for node b? then run[b], else after[b]
 *   run[b]    node b for the waiting lanes
 *   after[b]  the next iteration of a loop that ends with b, else test[b + 1]
 *   rescan    lanes that were left in deferred loops go on, else done; after some rounds without an
 *             end the group gives way
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

val_t gen_state_value(cpu_gen_t *gen, int64_t state)
{
    return LLVMConstInt(gen->i32, (uint64_t)state, 1);
}

void gen_poll_cancel(cpu_gen_t *gen)
{
    val_t v = LLVMBuildLoad2(gen->b, gen->i32, gen->cancel, "");
    LLVMSetVolatile(v, 1);
    v = LLVMBuildICmp(gen->b, LLVMIntNE, v, gen_like(v, 0), "");
    gen_return_if(gen, v, gen_state_value(gen, CPU_STATE_CANCELLED));
}

val_t gen_waiting(cpu_gen_t *gen, uint32_t node, unsigned g)
{
    return gen->waiting[node * gen->G + g];
}

val_t gen_load_mask(cpu_gen_t *gen, val_t slot)
{
    return LLVMBuildLoad2(gen->b, gen_vector(gen, gen->i1), slot, "");
}

/* Adds lanes to a mask slot. */
static void add_lanes(cpu_gen_t *gen, val_t slot, val_t lanes)
{
    LLVMBuildStore(gen->b, LLVMBuildOr(gen->b, gen_load_mask(gen, slot), lanes, ""), slot);
}

void gen_send(cpu_gen_t *gen, uint32_t node, unsigned g, val_t lanes)
{
    if (node == CPU_NODE_EXIT) {
        gen_sync_end_lanes(gen, g, lanes);
    } else {
        add_lanes(gen, gen_waiting(gen, node, g), lanes);
    }
}

val_t gen_any_waiting(cpu_gen_t *gen, uint32_t node)
{
    val_t all = gen_load_mask(gen, gen_waiting(gen, node, 0));
    for (unsigned g = 1; g < gen->G; g++) {
        all = LLVMBuildOr(gen->b, all, gen_load_mask(gen, gen_waiting(gen, node, g)), "");
    }
    return gen_any(gen, all);
}

val_t gen_all_set(cpu_gen_t *gen, val_t const *masks)
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

val_t gen_none_set(cpu_gen_t *gen, val_t const *masks)
{
    val_t all = masks[0];
    for (unsigned g = 1; g < gen->G; g++) {
        all = LLVMBuildOr(gen->b, all, masks[g], "");
    }
    return LLVMBuildNot(gen->b, gen_any(gen, all), "");
}

/* The predicate of a branch for strip g, as a vector or (uniform) a scalar. */
val_t gen_branch_predicate(cpu_gen_t *gen, const cpu_node_t *n, unsigned g, bool vec)
{
    ptx_operand_t o = {.kind = PTX_OPERAND_REG, .index = n->guard, .negated = n->negated};
    gen->g = g;
    return gen_read(gen, &o, PTX_PRED, vec);
}

enum { MASK_BYTES = 8, MOST_MASK_VALUES = 64 };

/* As values, masks would be alive everywhere: each of them a phi wherever control joins, which is
 * quadratic. So the many of a large kernel stay in memory. */
static val_t masks_in_memory(cpu_gen_t *gen, uint32_t count)
{
    val_t memory = gen_alloca(gen, LLVMArrayType2(gen->i8, (uint64_t)count * MASK_BYTES), 64);
    gen_keep_in_memory(gen, memory);
    return memory;
}

static void make_masks(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    uint32_t n = gen->a->node_count * gen->G, k = w->barrier_count * gen->G;
    type_t t = gen_vector(gen, gen->i1);
    gen->waiting = cpu_arena_alloc(gen->arena, n + 1, sizeof *gen->waiting);
    gen->arrived = cpu_arena_alloc(gen->arena, k + 1, sizeof *gen->arrived);
    val_t memory = n + k > MOST_MASK_VALUES ? masks_in_memory(gen, n + k) : NULL;
    for (uint32_t j = 0; j < n + k; j++) {
        val_t slot =
            memory != NULL ? gen_offset(gen, memory, j * MASK_BYTES) : gen_alloca(gen, t, 8);
        LLVMBuildStore(gen->b, LLVMConstNull(t), slot);
        *(j < n ? &gen->waiting[j] : &gen->arrived[j - n]) = slot;
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
    }
    if (w->need_fast) {
        block_t part = gen_block(gen, "part");
        LLVMBuildCondBr(gen->b, gen_all_set(gen, masks), w->fast[0], part);
        LLVMPositionBuilderAtEnd(gen->b, part);
    }
    for (unsigned g = 0; g < gen->G; g++) {
        LLVMBuildStore(gen->b, masks[g], gen_waiting(gen, 0, g));
        gen_sync_end_lanes(gen, g, LLVMBuildNot(gen->b, masks[g], ""));
    }
    LLVMBuildBr(gen->b, w->test[0]);
}

static void add_state(cpu_gen_t *gen, val_t sw, uint32_t state)
{
    block_t resume = gen_block(gen, "resume");
    LLVMAddCase(sw, LLVMConstInt(gen->i32, state, 0), resume);
    LLVMPositionBuilderAtEnd(gen->b, resume);
}

static void dispatch(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    if (gen_state_count(gen) == 1) {
        start(gen);
        return;
    }
    block_t begin = gen_block(gen, "begin"), bad = gen_block(gen, "bad");
    gen_yield_start(gen);
    val_t sw = LLVMBuildSwitch(gen->b, gen->state, bad, gen_state_count(gen));
    LLVMPositionBuilderAtEnd(gen->b, bad);
    LLVMBuildUnreachable(gen->b);
    LLVMAddCase(sw, LLVMConstInt(gen->i32, 0, 0), begin);
    LLVMPositionBuilderAtEnd(gen->b, begin);
    gen_clear_homes(gen);
    start(gen);
    for (uint32_t k = 0; w->need_fast && k < w->barrier_count; k++) {
        add_state(gen, sw, k + 1);
        gen_barrier_resume(gen, k);
    }
    for (uint32_t j = 0; w->need_fast && j < w->spin_count; j++) {
        add_state(gen, sw, gen_state_spinning(gen, j));
        gen_yield_resume_fast(gen, j);
    }
    if (w->need_masks && w->any_parts) {
        add_state(gen, sw, gen_state_parted(gen));
        gen_yield_resume(gen);
    }
}

bool gen_function(cpu_gen_t *gen)
{
    gen->flow = cpu_arena_alloc(gen->arena, 1, sizeof *gen->flow);
    gen_flow_t *w = gen->flow;
    gen_find_stops(gen);
    w->need_masks = gen->W * gen->G > 1 && (gen->a->any_divergent || !gen_group_is_full(gen));
    w->need_fast = !w->need_masks || gen_group_may_be_full(gen);

    gen->entry = gen_block(gen, "entry");
    gen->setup = gen_block(gen, "setup");
    block_t go = gen_block(gen, "dispatch");
    gen_make_blocks(gen);
    LLVMPositionBuilderAtEnd(gen->b, gen->setup);
    gen_setup(gen);
    gen_find_homes(gen);
    gen_layout_context(gen);
    w->steps = gen_step_possible(gen);
    block_t group = gen_block(gen, "group"); /* where one begins, and the next of those in step */
    LLVMPositionBuilderAtEnd(gen->b, group);
    if (w->steps) {
        gen_step_begin(gen);
    }
    gen_place_strips(gen);
    gen_make_slots(gen);
    if (w->need_masks) {
        make_masks(gen);
        gen_sync_start(gen);
    }
    LLVMBuildBr(gen->b, go);
    LLVMPositionBuilderAtEnd(gen->b, go);
    dispatch(gen);
    for (uint32_t b = 0; b < gen->a->node_count && !gen->failed; b++) {
        if (w->need_fast) {
            gen_fast_node(gen, b);
        }
        if (w->need_masks) {
            gen_masked_node(gen, b);
        }
    }
    if (w->need_masks && !gen->failed) {
        gen_yield_rescan(gen);
        gen_yield_done(gen);
    }
    LLVMPositionBuilderAtEnd(gen->b, gen->entry);
    LLVMBuildBr(gen->b, gen->setup);
    LLVMPositionBuilderAtEnd(gen->b, gen->setup);
    gen_step_enter(gen, group);
    return !gen->failed;
}
