/* Giving way: a group in whose spin loops nothing has moved for a while leaves its function, so that
 * other groups, or other CTAs, can do what it waits for; and comes back there.
 *
 * With masks a group stops either because its lanes wait behind barriers, or to give way; lanes may
 * then be at the headers of spin loops and behind barriers, both. One state serves both. */
#include "gpu-proxy/cpu/jit/gen_state.h"

static val_t patience_at(cpu_gen_t *gen)
{
    return gen_context_at(gen, offsetof(cpu_context_head_t, patience));
}

void gen_yield_start(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    if (w->spin_count > 0) {
        w->patience = gen_alloca(gen, gen->i32, 4);
        val_t v = LLVMBuildLoad2(gen->b, gen->i32, patience_at(gen), "");
        LLVMBuildStore(gen->b, v, w->patience);
    }
}

bool gen_yield_spins(const cpu_gen_t *gen, uint32_t node)
{
    for (uint32_t l = 0; l < gen->a->loop_count; l++) {
        if (gen->a->loops[l].deferred && gen->a->loops[l].header == node) {
            return true;
        }
    }
    return false;
}

void gen_yield_hint(cpu_gen_t *gen)
{
    if (gen->flow->spin_count > 0) {
        LLVMBuildStore(gen->b, LLVMConstInt(gen->i32, 1, 0), gen->flow->patience);
    }
}

/* One back-edge less; goes to `out` with none left, else on in a new block. */
static void lose_patience(cpu_gen_t *gen, block_t out)
{
    val_t slot = gen->flow->patience, v = LLVMBuildLoad2(gen->b, gen->i32, slot, "");
    v = LLVMBuildSub(gen->b, v, gen_like(v, 1), "");
    LLVMBuildStore(gen->b, v, slot);
    block_t on = gen_block(gen, "");
    val_t none = LLVMBuildICmp(gen->b, LLVMIntSLE, v, gen_like(v, 0), "");
    gen_unlikely(gen, LLVMBuildCondBr(gen->b, none, out, on));
    LLVMPositionBuilderAtEnd(gen->b, on);
}

/* ---- every lane active ---- */

void gen_yield_fast(cpu_gen_t *gen, uint32_t to)
{
    gen_flow_t *w = gen->flow;
    for (uint32_t j = 0; j < w->spin_count; j++) {
        if (w->spins[j] != to || !gen_yield_spins(gen, to)) {
            continue;
        }
        block_t leave = gen_block(gen, "give_way");
        lose_patience(gen, leave);
        block_t on = LLVMGetInsertBlock(gen->b);
        LLVMPositionBuilderAtEnd(gen->b, leave);
        gen_copy_registers(gen, gen->a->live_in[to], true);
        LLVMBuildRet(gen->b, gen_state_value(gen, gen_state_spinning(gen, j) | CPU_STATE_YIELD));
        LLVMPositionBuilderAtEnd(gen->b, on);
    }
}

void gen_yield_resume_fast(cpu_gen_t *gen, uint32_t j)
{
    uint32_t header = gen->flow->spins[j];
    gen_copy_registers(gen, gen->a->live_in[header], false);
    LLVMBuildBr(gen->b, gen->flow->fast[header]);
}

/* ---- with masks ---- */

/* Leaves with all that waits, at nodes and behind barriers. */
static void leave_parted(cpu_gen_t *gen, int64_t flags)
{
    gen_flow_t *w = gen->flow;
    gen_barrier_save(gen);
    for (uint32_t j = 0; j < w->spin_count * gen->G; j++) {
        val_t slot = gen_waiting(gen, w->spins[j / gen->G], j % gen->G);
        LLVMBuildStore(gen->b, gen_bits(gen, gen_load_mask(gen, slot)),
                       gen_spinning_at(gen, j / gen->G, j % gen->G));
    }
    gen_copy_registers(gen, w->saved_parts, true);
    LLVMBuildRet(gen->b, gen_state_value(gen, gen_state_parted(gen) | flags));
}

static void give_way(cpu_gen_t *gen)
{
    LLVMPositionBuilderAtEnd(gen->b, gen->flow->give_way);
    if (gen->flow->any_parts) {
        leave_parted(gen, CPU_STATE_YIELD);
    } else {
        LLVMBuildUnreachable(gen->b);
    }
}

/* The next iteration of all spin loops in which lanes wait. The search begins with the first node at
 * which any may wait: those that have come together go on as well. */
void gen_yield_rescan(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    val_t any = NULL;
    uint32_t lowest = 0;
    LLVMPositionBuilderAtEnd(gen->b, w->rescan);
    for (uint32_t j = w->spin_count; j-- > 0;) {
        uint32_t b = w->spins[j];
        lowest = w->waits[b] ? b : lowest;
        if (w->waits[b] && gen_yield_spins(gen, b)) {
            val_t some = gen_any_waiting(gen, b);
            any = any == NULL ? some : LLVMBuildOr(gen->b, any, some, "");
        }
    }
    if (any != NULL) {
        block_t again = gen_block(gen, ""), none = gen_block(gen, "");
        LLVMBuildCondBr(gen->b, any, again, none);
        LLVMPositionBuilderAtEnd(gen->b, again);
        gen_poll_cancel(gen);
        lose_patience(gen, w->give_way);
        LLVMBuildBr(gen->b, gen_chain(gen, lowest));
        LLVMPositionBuilderAtEnd(gen->b, none);
    }
    gen_sync_rescan(gen);
    give_way(gen);
}

val_t gen_yield_arrived(cpu_gen_t *gen)
{
    val_t any = NULL;
    for (uint32_t k = 0; k < gen->flow->barrier_count * gen->G; k++) {
        if (gen_barrier_parts(gen, k / gen->G)) {
            val_t lanes = gen_load_mask(gen, gen->arrived[k]);
            any = any == NULL ? lanes : LLVMBuildOr(gen->b, any, lanes, "");
        }
    }
    return any == NULL ? NULL : gen_any(gen, any);
}

void gen_yield_done(cpu_gen_t *gen)
{
    LLVMPositionBuilderAtEnd(gen->b, gen->flow->done);
    val_t any = gen_yield_arrived(gen);
    block_t end = gen_block(gen, "end");
    if (any == NULL) {
        LLVMBuildBr(gen->b, end);
    } else {
        block_t stop = gen_block(gen, "stop");
        LLVMBuildCondBr(gen->b, any, stop, end);
        LLVMPositionBuilderAtEnd(gen->b, stop);
        leave_parted(gen, 0);
    }
    LLVMPositionBuilderAtEnd(gen->b, end);
    gen_done(gen);
}

void gen_yield_resume(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    uint32_t lowest = CPU_NODE_EXIT;
    gen_copy_registers(gen, w->saved_parts, false);
    gen_barrier_release(gen);
    for (uint32_t k = 0; k < w->barrier_count; k++) {
        uint32_t next = gen->a->nodes[w->barriers[k]].succ[0];
        if (gen_barrier_parts(gen, k) && next < lowest) {
            lowest = next;
        }
    }
    for (uint32_t j = 0; j < w->spin_count; j++) {
        uint32_t header = w->spins[j];
        if (!w->waits[header]) {
            continue;
        }
        for (unsigned g = 0; g < gen->G; g++) {
            val_t bits = LLVMBuildLoad2(gen->b, gen->i32, gen_spinning_at(gen, j, g), "");
            gen_send(gen, header, g, gen_from_bits(gen, bits));
        }
        lowest = header < lowest ? header : lowest;
    }
    gen_sync_resume(gen);
    LLVMBuildBr(gen->b, lowest == CPU_NODE_EXIT ? w->done : gen_chain(gen, lowest));
}
