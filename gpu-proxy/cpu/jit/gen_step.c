/* Groups in step: all groups of a CTA run in one call of the function, one after the other up to the same
 * barrier, then each up to the next one, until all have ended. So a barrier costs a jump for each group,
 * and nobody looks at the contexts.
 *
 * Which group it is, and in which states groups begin and end the round, stands in cpu_launch_t. So the way
 * to the next group has two beginnings, of which one is that of the function: for the compiler this is
 * no loop, and it does not bring what cold code needs to the function's beginning, where the registers
 * would be full with it.
 *
 * A group that stops elsewhere than those before it, or with a part of its lanes, ends that: the function
 * is left, and cta.c goes on from there. Only kernels whose barriers are all the CTA's first, uncounted,
 * run so, since then all waits are for the same. */
#include "gpu-proxy/cpu/jit/gen_state.h"

static bool is_plain(const cpu_gen_t *gen, const ptx_instr_t *i)
{
    const ptx_operand_t *o = ptx_src(gen->f, i, 0);
    return i->op == PTX_OP_BAR && i->mode == PTX_BAR_SYNC && i->dst_count == 0 &&
           i->src_count == 1 && o->kind == PTX_OPERAND_IMM && o->value == 0;
}

bool gen_step_possible(const cpu_gen_t *gen)
{
    const gen_flow_t *w = gen->flow;
    bool again = false; /* few rounds are not worth the time to compile it */
    for (uint32_t k = 0; k < w->barrier_count; k++) {
        again |= gen->a->nodes[w->barriers[k]].loop != CPU_NO_LOOP;
        if (!is_plain(gen, &gen->f->instrs[gen->a->nodes[w->barriers[k]].last])) {
            return false;
        }
    }
    return gen->W > 1 && again && w->spin_count == 0 && !gen->a->exchanges;
}

bool gen_steps(const cpu_gen_t *gen)
{
    return gen->flow->steps;
}

static val_t field_at(cpu_gen_t *gen, size_t offset)
{
    val_t at = LLVMConstInt(gen->i64, offset, 0);
    return LLVMBuildGEP2(gen->b, gen->i8, gen->launch, &at, 1, "");
}

static val_t read_field(cpu_gen_t *gen, size_t offset)
{
    return LLVMBuildLoad2(gen->b, gen->i32, field_at(gen, offset), "");
}

static void tell(cpu_gen_t *gen, size_t offset, val_t v)
{
    LLVMBuildStore(gen->b, v, field_at(gen, offset));
}

static val_t choose(cpu_gen_t *gen, val_t alone, val_t next)
{
    val_t v = LLVMBuildPhi(gen->b, LLVMTypeOf(alone), "");
    LLVMAddIncoming(v, &alone, &gen->setup, 1);
    LLVMAddIncoming(v, &next, &gen->flow->step.next, 1);
    return v;
}

void gen_step_begin(cpu_gen_t *gen)
{
    gen_step_t *s = &gen->flow->step;
    block_t begin = LLVMGetInsertBlock(gen->b);
    s->next = gen_block(gen, "next");
    LLVMPositionBuilderAtEnd(gen->b, gen->setup);
    val_t groups = read_field(gen, offsetof(cpu_launch_t, step_groups));
    s->stays = LLVMBuildICmp(gen->b, LLVMIntNE, groups, gen_like(groups, 0), "");
    LLVMPositionBuilderAtEnd(gen->b, s->next);
    val_t group = read_field(gen, offsetof(cpu_launch_t, step_group));
    val_t state = read_field(gen, offsetof(cpu_launch_t, step_before));
    val_t at = LLVMBuildZExt(gen->b, group, gen->i64, "");
    at = LLVMBuildMul(gen->b, at, gen_like(at, gen_context_bytes(gen)), "");
    at = LLVMBuildGEP2(gen->b, gen->i8, gen->ctx, &at, 1, "");
    LLVMBuildBr(gen->b, begin);
    LLVMPositionBuilderAtEnd(gen->b, begin);
    gen->group = choose(gen, gen->group, group);
    gen->state = choose(gen, gen->state, state);
    gen->ctx = choose(gen, gen->ctx, at);
}

void gen_step_enter(cpu_gen_t *gen, block_t begin)
{
    const gen_step_t *s = &gen->flow->step;
    if (gen->flow->steps) {
        LLVMBuildCondBr(gen->b, s->stays, s->next, begin);
    } else {
        LLVMBuildBr(gen->b, begin);
    }
}

/* The next round begins, if this CTA may have one more without looking up; else goes to `leave`. */
static void next_round(cpu_gen_t *gen, val_t state, block_t leave)
{
    val_t left = read_field(gen, offsetof(cpu_launch_t, step_rounds));
    left = LLVMBuildSub(gen->b, left, gen_like(left, 1), "");
    tell(gen, offsetof(cpu_launch_t, step_rounds), left);
    val_t none = LLVMBuildICmp(gen->b, LLVMIntEQ, left, gen_like(left, 0), "");
    block_t on = gen_block(gen, "round");
    gen_unlikely(gen, LLVMBuildCondBr(gen->b, none, leave, on));
    LLVMPositionBuilderAtEnd(gen->b, on);
    tell(gen, offsetof(cpu_launch_t, step_group), gen_like(gen->group, 0));
    tell(gen, offsetof(cpu_launch_t, step_before), state);
    LLVMBuildBr(gen->b, gen->flow->step.next);
}

/* i1: groups run in step, and those before this one have stopped in the same state. */
static val_t is_in_step(cpu_gen_t *gen, val_t groups, val_t state)
{
    val_t after = read_field(gen, offsetof(cpu_launch_t, step_after));
    val_t is_first = LLVMBuildICmp(gen->b, LLVMIntEQ, gen->group, gen_like(gen->group, 0), "");
    val_t same = LLVMBuildICmp(gen->b, LLVMIntEQ, after, state, "");
    val_t stays = LLVMBuildICmp(gen->b, LLVMIntNE, groups, gen_like(groups, 0), "");
    return LLVMBuildAnd(gen->b, LLVMBuildOr(gen->b, is_first, same, ""), stays, "");
}

void gen_step_stop(cpu_gen_t *gen, val_t state)
{
    bool ends = LLVMConstIntGetSExtValue(state) == CPU_STATE_DONE;
    block_t leave = gen_block(gen, "leave"), on = gen_block(gen, "step"), last = gen_block(gen, ""),
            more = gen_block(gen, "");
    val_t groups = read_field(gen, offsetof(cpu_launch_t, step_groups));
    val_t apart = LLVMBuildNot(gen->b, is_in_step(gen, groups, state), "");
    gen_unlikely(gen, LLVMBuildCondBr(gen->b, apart, leave, on));
    LLVMPositionBuilderAtEnd(gen->b, on);
    val_t group = LLVMBuildAdd(gen->b, gen->group, gen_like(gen->group, 1), "");
    LLVMBuildCondBr(gen->b, LLVMBuildICmp(gen->b, LLVMIntEQ, group, groups, ""), last, more);
    LLVMPositionBuilderAtEnd(gen->b, more);
    tell(gen, offsetof(cpu_launch_t, step_group), group);
    tell(gen, offsetof(cpu_launch_t, step_after), state);
    LLVMBuildBr(gen->b, gen->flow->step.next);
    LLVMPositionBuilderAtEnd(gen->b, last);
    if (ends) {
        tell(gen, offsetof(cpu_launch_t, step_group), groups);
        LLVMBuildRet(gen->b, state);
    } else {
        next_round(gen, state, leave);
    }
    LLVMPositionBuilderAtEnd(gen->b, leave);
}

void gen_done(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    if (!w->steps) {
        LLVMBuildRet(gen->b, gen_state_value(gen, CPU_STATE_DONE));
        return;
    }
    if (w->step.ended != NULL) {
        LLVMBuildBr(gen->b, w->step.ended);
        return;
    }
    w->step.ended = gen_block(gen, "ended");
    gen_goto(gen, w->step.ended);
    gen_step_stop(gen, gen_state_value(gen, CPU_STATE_DONE));
    LLVMBuildRet(gen->b, gen_state_value(gen, CPU_STATE_DONE));
}
