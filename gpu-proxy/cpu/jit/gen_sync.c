/* Where the lanes of a warp wait for each other, in kernels with spin loops: lanes may have left such
 * a loop while others are still in it. They wait at the node until every living lane that they name
 * has come. */
#include "gpu-proxy/cpu/jit/gen_state.h"

/* bar.arrive of the last living lanes counts as a whole warp. */
static bool arrives(const cpu_gen_t *gen)
{
    for (uint32_t k = 0; k < gen->f->instr_count; k++) {
        const ptx_instr_t *i = &gen->f->instrs[k];
        if (i->op == PTX_OP_BAR && i->mode == PTX_BAR_ARRIVE) {
            return true;
        }
    }
    return false;
}

void gen_sync_start(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    for (uint32_t j = 0; j < w->spin_count; j++) {
        w->any_sync |= gen->a->held[w->spins[j]];
    }
    if (!w->any_sync && !arrives(gen)) {
        return;
    }
    w->living = cpu_arena_alloc(gen->arena, gen->G, sizeof *w->living);
    for (unsigned g = 0; g < gen->G; g++) {
        w->living[g] = gen_alloca(gen, gen->i32, 4);
        LLVMBuildStore(gen->b, LLVMConstInt(gen->i32, UINT32_MAX, 0), w->living[g]);
    }
    w->forced = gen_alloca(gen, gen->i32, 4);
    LLVMBuildStore(gen->b, LLVMConstInt(gen->i32, 0, 0), w->forced);
}

val_t gen_sync_living(cpu_gen_t *gen, unsigned g)
{
    return LLVMBuildLoad2(gen->b, gen->i32, gen->flow->living[g], "");
}

void gen_sync_end_lanes(cpu_gen_t *gen, unsigned g, val_t lanes)
{
    if (gen->flow->living != NULL) {
        val_t slot = gen->flow->living[g], old = gen_sync_living(gen, g);
        val_t left = LLVMBuildNot(gen->b, gen_bits(gen, lanes), "");
        LLVMBuildStore(gen->b, LLVMBuildAnd(gen->b, old, left, ""), slot);
    }
}

/* Whoever has come back is alive. */
void gen_sync_resume(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    for (unsigned g = 0; w->living != NULL && g < gen->G; g++) {
        val_t all = LLVMConstNull(gen_vector(gen, gen->i1));
        for (uint32_t k = 0; k < w->barrier_count; k++) {
            uint32_t next = gen->a->nodes[w->barriers[k]].succ[0];
            all = LLVMBuildOr(gen->b, all, gen_load_mask(gen, gen->arrived[k * gen->G + g]), "");
            if (next != CPU_NODE_EXIT) {
                all = LLVMBuildOr(gen->b, all, gen_load_mask(gen, gen_waiting(gen, next, g)), "");
            }
        }
        for (uint32_t j = 0; j < w->spin_count; j++) {
            val_t slot = gen_waiting(gen, w->spins[j], g);
            all = LLVMBuildOr(gen->b, all, gen_load_mask(gen, slot), "");
        }
        LLVMBuildStore(gen->b, gen_bits(gen, all), w->living[g]);
    }
}

/* The lanes of gen->masks[g] that need not wait any longer; `waited`: bits of lanes worth waiting for. */
static val_t ready_lanes(cpu_gen_t *gen, const ptx_operand_t *members, val_t waited, unsigned g)
{
    cpu_form_t form = cpu_operand_form(gen->a, members);
    bool vec = !cpu_form_uniform(&form);
    val_t here = gen_bits(gen, gen->masks[g]);
    val_t missing =
        LLVMBuildAnd(gen->b, gen_sync_living(gen, g), LLVMBuildNot(gen->b, here, ""), "");
    missing = LLVMBuildAnd(gen->b, missing, waited, "");
    gen->g = g;
    val_t named = gen_read(gen, members, PTX_U32, vec);
    named = LLVMBuildAnd(gen->b, named, vec ? gen_splat(gen, missing) : missing, "");
    val_t ready = LLVMBuildICmp(gen->b, LLVMIntEQ, named, gen_like(named, 0), "");
    return vec ? ready : gen_splat(gen, ready);
}

void gen_sync_wait(cpu_gen_t *gen, uint32_t b)
{
    gen_flow_t *w = gen->flow;
    const ptx_instr_t *i = &gen->f->instrs[gen->a->nodes[b].first];
    unsigned members = 0;
    if (!w->any_sync || !gen->a->held[b] || !cpu_instr_syncs_warp(i, &members)) {
        return;
    }
    val_t forced = LLVMBuildLoad2(gen->b, gen->i32, w->forced, ""), any = NULL;
    LLVMBuildStore(gen->b, gen_like(forced, 0), w->forced);
    forced = LLVMBuildNot(gen->b, forced, ""); /* all ones: not forced */
    gen->i = i;
    for (unsigned g = 0; g < gen->G; g++) {
        val_t ready = ready_lanes(gen, ptx_src(gen->f, i, members), forced, g);
        val_t stay = LLVMBuildAnd(gen->b, gen->masks[g], LLVMBuildNot(gen->b, ready, ""), "");
        gen->masks[g] = LLVMBuildAnd(gen->b, gen->masks[g], ready, "");
        LLVMBuildStore(gen->b, stay, gen_waiting(gen, b, g));
        any = any == NULL ? gen->masks[g] : LLVMBuildOr(gen->b, any, gen->masks[g], "");
    }
    block_t on = gen_block(gen, "together");
    LLVMBuildCondBr(gen->b, gen_any(gen, any), on, w->after[b]);
    LLVMPositionBuilderAtEnd(gen->b, on);
}

/* If no lane can come any more, because all others wait in the same way, the first go on alone: PTX
 * leaves open what such a program does. Those at barriers may come when others of the CTA do. */
void gen_sync_rescan(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    val_t any = NULL;
    uint32_t lowest = 0;
    for (uint32_t j = w->spin_count; w->any_sync && j-- > 0;) {
        uint32_t b = w->spins[j];
        if (gen->a->held[b] && w->waits[b]) {
            val_t some = gen_any_waiting(gen, b);
            any = any == NULL ? some : LLVMBuildOr(gen->b, any, some, "");
            lowest = b;
        }
    }
    if (any == NULL) {
        LLVMBuildBr(gen->b, w->done);
        return;
    }
    val_t arrived = gen_yield_arrived(gen);
    if (arrived != NULL) {
        any = LLVMBuildAnd(gen->b, any, LLVMBuildNot(gen->b, arrived, ""), "");
    }
    block_t force = gen_block(gen, "force");
    LLVMBuildCondBr(gen->b, any, force, w->done);
    LLVMPositionBuilderAtEnd(gen->b, force);
    LLVMBuildStore(gen->b, LLVMConstInt(gen->i32, UINT32_MAX, 0), w->forced);
    LLVMBuildBr(gen->b, gen_chain(gen, lowest));
}
