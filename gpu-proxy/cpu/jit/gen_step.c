/* Groups in step: all groups of a CTA run in one call of the function, one after the other up to the same
 * barrier, then each up to the next one, until all have ended. So a barrier costs a jump for each group,
 * and nobody looks at the contexts.
 *
 * A group that stops elsewhere than those before it, or with a part of its lanes, ends that: the function
 * is left, and says in cpu_launch_t where the groups are. cta.c goes on from there. Only kernels whose
 * barriers are all the CTA's first, uncounted, run so, since then all waits are for the same. */
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

static void tell(cpu_gen_t *gen, size_t offset, val_t v)
{
    LLVMBuildStore(gen->b, v, field_at(gen, offset));
}

static val_t phi(cpu_gen_t *gen, val_t first)
{
    val_t v = LLVMBuildPhi(gen->b, LLVMTypeOf(first), "");
    LLVMAddIncoming(v, &first, &gen->setup, 1);
    return v;
}

void gen_step_begin(cpu_gen_t *gen)
{
    gen_step_t *s = &gen->flow->step;
    s->again = LLVMGetInsertBlock(gen->b);
    LLVMPositionBuilderAtEnd(gen->b, gen->setup);
    s->groups =
        LLVMBuildLoad2(gen->b, gen->i32, field_at(gen, offsetof(cpu_launch_t, step_groups)), "");
    LLVMPositionBuilderAtEnd(gen->b, s->again);
    gen->group = phi(gen, gen->group);
    gen->state = s->before = phi(gen, gen->state);
    s->after = phi(gen, LLVMConstInt(gen->i32, 0, 0));
    s->offset = phi(gen, LLVMConstInt(gen->i64, 0, 0));
    gen->ctx = LLVMBuildGEP2(gen->b, gen->i8, gen->ctx, &s->offset, 1, "");
}

static void go_again(cpu_gen_t *gen, val_t group, val_t offset, val_t before, val_t after)
{
    gen_step_t *s = &gen->flow->step;
    block_t from = LLVMGetInsertBlock(gen->b);
    LLVMAddIncoming(gen->group, &group, &from, 1);
    LLVMAddIncoming(s->offset, &offset, &from, 1);
    LLVMAddIncoming(s->before, &before, &from, 1);
    LLVMAddIncoming(s->after, &after, &from, 1);
    LLVMBuildBr(gen->b, s->again);
}

void gen_step_leave(cpu_gen_t *gen)
{
    gen_step_t *s = &gen->flow->step;
    if (gen->flow->steps) {
        tell(gen, offsetof(cpu_launch_t, step_group), gen->group);
        tell(gen, offsetof(cpu_launch_t, step_before), s->before);
        tell(gen, offsetof(cpu_launch_t, step_after), s->after);
    }
}

/* The next round begins, if this CTA may have one more without looking up; else goes to `leave`. */
static void next_round(cpu_gen_t *gen, val_t state, block_t leave)
{
    val_t slot = field_at(gen, offsetof(cpu_launch_t, step_rounds));
    val_t left = LLVMBuildLoad2(gen->b, gen->i32, slot, "");
    left = LLVMBuildSub(gen->b, left, gen_like(left, 1), "");
    LLVMBuildStore(gen->b, left, slot);
    val_t none = LLVMBuildICmp(gen->b, LLVMIntEQ, left, gen_like(left, 0), "");
    block_t on = gen_block(gen, "round");
    gen_unlikely(gen, LLVMBuildCondBr(gen->b, none, leave, on));
    LLVMPositionBuilderAtEnd(gen->b, on);
    go_again(gen, gen_like(gen->group, 0), LLVMConstInt(gen->i64, 0, 0), state, gen_like(state, 0));
}

void gen_step_stop(cpu_gen_t *gen, val_t state)
{
    gen_step_t *s = &gen->flow->step;
    bool ends = LLVMConstIntGetSExtValue(state) == CPU_STATE_DONE;
    block_t leave = gen_block(gen, "leave"), on = gen_block(gen, "step"), last = gen_block(gen, ""),
            next = gen_block(gen, "next");
    val_t is_first = LLVMBuildICmp(gen->b, LLVMIntEQ, gen->group, gen_like(gen->group, 0), "");
    val_t same = LLVMBuildICmp(gen->b, LLVMIntEQ, s->after, state, "");
    val_t in_step = LLVMBuildICmp(gen->b, LLVMIntNE, s->groups, gen_like(s->groups, 0), "");
    same = LLVMBuildAnd(gen->b, LLVMBuildOr(gen->b, is_first, same, ""), in_step, "");
    LLVMBuildCondBr(gen->b, same, on, leave);
    LLVMPositionBuilderAtEnd(gen->b, on);
    val_t group = LLVMBuildAdd(gen->b, gen->group, gen_like(gen->group, 1), "");
    LLVMBuildCondBr(gen->b, LLVMBuildICmp(gen->b, LLVMIntEQ, group, s->groups, ""), last, next);
    LLVMPositionBuilderAtEnd(gen->b, next);
    val_t bytes = LLVMConstInt(gen->i64, gen_context_bytes(gen), 0);
    go_again(gen, group, LLVMBuildAdd(gen->b, s->offset, bytes, ""), s->before, state);
    LLVMPositionBuilderAtEnd(gen->b, last);
    if (ends) {
        tell(gen, offsetof(cpu_launch_t, step_group), s->groups);
        LLVMBuildRet(gen->b, state);
    } else {
        next_round(gen, state, leave);
    }
    LLVMPositionBuilderAtEnd(gen->b, leave);
    gen_step_leave(gen);
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
