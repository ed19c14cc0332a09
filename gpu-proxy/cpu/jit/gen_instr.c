/* Which generator an instruction belongs to, for which strips it runs, and its guard. */
#include "gpu-proxy/cpu/jit/gen_float.h"

typedef enum {
    KIND_NOTHING,
    KIND_PURE,   /* only writes registers: a guard becomes a select */
    KIND_EFFECT, /* touches memory or depends on who takes part: a guard becomes a branch */
} kind_t;

static kind_t kind_of(const ptx_instr_t *i)
{
    switch (i->op) {
    case PTX_OP_LD:
    case PTX_OP_LDU:
    case PTX_OP_ST:
    case PTX_OP_ATOM:
    case PTX_OP_RED:
    case PTX_OP_TEX:
    case PTX_OP_TLD4:
    case PTX_OP_TXQ:
    case PTX_OP_SULD:
    case PTX_OP_SUST:
    case PTX_OP_SURED:
    case PTX_OP_SUQ:
    case PTX_OP_ISTYPEP:
    case PTX_OP_TRAP:
    case PTX_OP_MEMBAR:
    case PTX_OP_BAR_CLUSTER:
    case PTX_OP_BAR:
    case PTX_OP_SHFL:
    case PTX_OP_VOTE:
    case PTX_OP_MATCH:
    case PTX_OP_REDUX:
    case PTX_OP_ACTIVEMASK:
    case PTX_OP_ELECT:
    case PTX_OP_RUNTIME:
    case PTX_OP_CP:
    case PTX_OP_MBARRIER:
    case PTX_OP_WMMA:
    case PTX_OP_MMA:
    case PTX_OP_LDMATRIX:
    case PTX_OP_STMATRIX:
    case PTX_OP_MOVMATRIX:
        return KIND_EFFECT;
    case PTX_OP_PREFETCH:
    case PTX_OP_PREFETCHU:
    case PTX_OP_DISCARD:
    case PTX_OP_APPLYPRIORITY:
    case PTX_OP_PMEVENT:
    case PTX_OP_NANOSLEEP:
    case PTX_OP_BAR_WARP: /* lanes of a warp run in lockstep, and memory is coherent */
    case PTX_OP_SETMAXNREG:
    case PTX_OP_GRIDDEPCONTROL:
        return KIND_NOTHING;
    default:
        return KIND_PURE;
    }
}

static void effect(cpu_gen_t *gen)
{
    switch (gen->i->op) {
    case PTX_OP_LD:
    case PTX_OP_LDU:
        gen_load(gen);
        break;
    case PTX_OP_ST:
        gen_store(gen);
        break;
    case PTX_OP_ATOM:
    case PTX_OP_RED:
        gen_atomic(gen);
        break;
    case PTX_OP_CP:
    case PTX_OP_MBARRIER:
        gen_asynchronous(gen);
        break;
    case PTX_OP_WMMA:
    case PTX_OP_MMA:
    case PTX_OP_LDMATRIX:
    case PTX_OP_STMATRIX:
    case PTX_OP_MOVMATRIX:
        gen_matrix(gen);
        break;
    case PTX_OP_TEX:
    case PTX_OP_TLD4:
    case PTX_OP_TXQ:
    case PTX_OP_SULD:
    case PTX_OP_SUST:
    case PTX_OP_SURED:
    case PTX_OP_SUQ:
    case PTX_OP_ISTYPEP:
        gen_texture(gen);
        break;
    case PTX_OP_TRAP:
        gen_trap(gen);
        break;
    case PTX_OP_MEMBAR:
    case PTX_OP_BAR_CLUSTER: /* to arrive is to let others see what was done */
        gen_fence(gen);
        break;
    case PTX_OP_RUNTIME:
        gen_runtime(gen);
        break;
    case PTX_OP_BAR:
        gen_barrier_arrive(gen);
        break;
    default:
        gen_warp(gen);
    }
}

static void pure(cpu_gen_t *gen)
{
    const ptx_instr_t *i = gen->i;
    cpu_form_t form = cpu_instr_form(gen->a, i);
    bool vec = form.tag == CPU_FORM_VARYING;
    if (form.tag == CPU_FORM_AFFINE && !cpu_form_uniform(&form)) {
        gen_affine(gen, &form);
        return;
    }
    switch (i->op) {
    case PTX_OP_MOV:
    case PTX_OP_CVTA:
        gen_move(gen, vec);
        break;
    case PTX_OP_ISSPACEP:
    case PTX_OP_MAPA:
    case PTX_OP_GETCTARANK:
    case PTX_OP_CREATEPOLICY:
        gen_special(gen, vec);
        break;
    case PTX_OP_SETP:
    case PTX_OP_SET:
    case PTX_OP_SELP:
    case PTX_OP_SLCT:
    case PTX_OP_TESTP:
        gen_compare(gen, vec);
        break;
    case PTX_OP_CVT:
        gen_convert(gen, vec);
        break;
    case PTX_OP_VIDEO:
        gen_video(gen, vec);
        break;
    case PTX_OP_PACK:
        gen_pack(gen, vec);
        break;
    default:
        if (gen_is_half(i->type)) {
            gen_half(gen, vec);
        } else if (ptx_type_is_float((ptx_type_t)i->type)) {
            gen_floating(gen, vec);
        } else {
            gen_integer(gen, vec);
        }
    }
}

static bool guard_is_vector(const cpu_gen_t *gen)
{
    return gen->a->values[gen->i->guard].form.tag == CPU_FORM_VARYING;
}

static val_t read_guard(cpu_gen_t *gen, bool vec)
{
    ptx_operand_t o = {
        .kind = PTX_OPERAND_REG, .index = gen->i->guard, .negated = gen->i->guard_negated};
    return gen_read(gen, &o, PTX_PRED, vec);
}

/* Runs the instruction only if some lane takes part. */
static void guarded_effect(cpu_gen_t *gen)
{
    val_t before = gen->mask, p = read_guard(gen, guard_is_vector(gen)), any = p;
    if (gen_is_vector(p)) {
        gen->mask = before == NULL ? p : LLVMBuildAnd(gen->b, before, p, "");
        any = gen_any(gen, gen->mask);
    }
    block_t then = gen_block(gen, "then"), join = gen_block(gen, "");
    LLVMBuildCondBr(gen->b, any, then, join);
    LLVMPositionBuilderAtEnd(gen->b, then);
    effect(gen);
    gen_goto(gen, join);
    gen->mask = before;
}

bool gen_instr_is_pure(const ptx_instr_t *i)
{
    return kind_of(i) == KIND_PURE;
}

static void one_strip(cpu_gen_t *gen)
{
    if (kind_of(gen->i) == KIND_PURE) {
        gen->guard = gen->i->guard == PTX_NONE ? NULL : read_guard(gen, guard_is_vector(gen));
        pure(gen);
        gen->guard = NULL;
    } else if (gen->i->guard != PTX_NONE) {
        guarded_effect(gen);
    } else {
        effect(gen);
    }
}

typedef struct {
    const cpu_gen_t *gen;
    bool any, per_strip;
} defs_t;

static void look_at_def(void *context, uint32_t reg)
{
    defs_t *d = context;
    d->any = true;
    d->per_strip |= d->gen->a->values[reg].per_strip;
}

/* Results that are the same in every strip are computed once, for whoever is active. */
static bool once_for_all(const cpu_gen_t *gen, const ptx_instr_t *i)
{
    defs_t d = {.gen = gen};
    cpu_visit_defs(gen->f, i, look_at_def, &d);
    return (d.any && !d.per_strip) || i->op == PTX_OP_MEMBAR || i->op == PTX_OP_BAR_CLUSTER ||
           (i->op == PTX_OP_BAR && i->mode == PTX_BAR_ARRIVE);
}

static val_t union_of_masks(cpu_gen_t *gen)
{
    val_t all = gen->masks[0];
    for (unsigned g = 1; g < gen->G; g++) {
        all = LLVMBuildOr(gen->b, all, gen->masks[g], "");
    }
    return all;
}

static void forget(void *context, uint32_t reg)
{
    gen_verify_forget(context, reg);
}

void gen_instr(cpu_gen_t *gen, const ptx_instr_t *i)
{
    if (i->op == PTX_OP_NANOSLEEP) {
        gen_yield_hint(gen);
    }
    if (kind_of(i) == KIND_NOTHING || i == gen->later) {
        return;
    }
    gen->i = i;
    gen->once = once_for_all(gen, i);
    if (gen->once) {
        gen->g = 0;
        gen->mask = gen->masked ? union_of_masks(gen) : NULL;
        one_strip(gen);
    } else {
        for (unsigned g = 0; g < gen->G && !gen->failed; g++) {
            gen->g = g;
            gen->mask = gen->masked ? gen->masks[g] : NULL;
            one_strip(gen);
        }
    }
    gen->mask = NULL;
    cpu_visit_defs(gen->f, i, forget, gen);
}

void gen_fence(cpu_gen_t *gen)
{
    LLVMBuildFence(gen->b, LLVMAtomicOrderingSequentiallyConsistent, 0, "");
}

static uint32_t trap_code(const ptx_instr_t *i)
{
    return i->mode == PTX_TRAP_PC      ? CPU_FAULT_PC
           : i->mode == PTX_TRAP_STACK ? CPU_FAULT_STACK
                                       : CPU_FAULT_TRAP;
}

void gen_trap(cpu_gen_t *gen)
{
    type_t params[4] = {gen->ptr, gen->i32, gen->i32, gen->i32};
    type_t type = LLVMFunctionType(gen->i32, params, 4, 0);
    val_t args[4] = {gen->launch, LLVMConstInt(gen->i32, trap_code(gen->i), 0), gen_mask_i32(gen),
                     gen_strip_number(gen, gen->g)};
    val_t st = gen_helper(gen, offsetof(cpu_helpers_t, fault), &type, args, 4);
    val_t always = gen_any(gen, gen->mask == NULL ? LLVMConstInt(gen->i1, 1, 0) : gen->mask);
    gen_return_if(gen, always, st);
}
