/* Barriers: a group leaves its function with its registers in the context, and comes back later.
 *
 * Context: cpu_context_head_t; per barrier and strip a 32-bit mask of the lanes behind it (with
 * masks only); then the registers that live across some barrier. */
#include "gpu-proxy/cpu/jit/gen_state.h"

enum { VECTOR_ALIGN = 64, SCALAR_ALIGN = 8 };

static bool is_varying(const cpu_gen_t *gen, uint32_t reg)
{
    return gen->a->values[reg].form.tag == CPU_FORM_VARYING;
}

static uint32_t unit_bytes(const cpu_gen_t *gen, uint32_t reg)
{
    uint32_t bits = cpu_reg_bits(gen->f, reg);
    if (!is_varying(gen, reg)) {
        return SCALAR_ALIGN;
    }
    uint32_t bytes = (bits * gen->W + 7) / 8;
    return (bytes + VECTOR_ALIGN - 1) / VECTOR_ALIGN * VECTOR_ALIGN;
}

void gen_layout_context(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    if (w->barrier_count == 0) {
        return;
    }
    uint32_t at = sizeof(cpu_context_head_t);
    at += w->need_masks ? w->barrier_count * gen->G * 4 : 0;
    w->at = cpu_arena_alloc(gen->arena, gen->f->reg_count + 1, sizeof *w->at);
    for (uint32_t r = 0; r < gen->f->reg_count; r++) {
        if (!cpu_bits_has(w->saved, r)) {
            continue;
        }
        uint32_t align = is_varying(gen, r) ? VECTOR_ALIGN : SCALAR_ALIGN;
        at = (at + align - 1) / align * align;
        w->at[r] = at;
        uint32_t strips = gen->a->values[r].per_strip ? gen->G : 1;
        at += unit_bytes(gen, r) * strips * (gen->a->values[r].form.scale != 0 ? 2 : 1);
    }
    w->context_bytes = (at + VECTOR_ALIGN - 1) / VECTOR_ALIGN * VECTOR_ALIGN;
}

uint32_t gen_state_count(const cpu_gen_t *gen)
{
    return gen->flow->barrier_count == 0 ? 1 : gen->flow->barrier_count + 2;
}

uint32_t gen_context_bytes(const cpu_gen_t *gen)
{
    return gen->flow->context_bytes;
}

static val_t context_at(cpu_gen_t *gen, uint64_t offset)
{
    val_t at = LLVMConstInt(gen->i64, offset, 0);
    return LLVMBuildGEP2(gen->b, gen->i8, gen->ctx, &at, 1, "");
}

static void copy_one(cpu_gen_t *gen, val_t slot, type_t t, uint32_t offset, bool save)
{
    val_t p = context_at(gen, offset);
    val_t v = LLVMBuildLoad2(gen->b, t, save ? slot : p, "");
    val_t s = LLVMBuildStore(gen->b, v, save ? p : slot);
    unsigned align = LLVMGetTypeKind(t) == LLVMVectorTypeKind ? VECTOR_ALIGN : SCALAR_ALIGN;
    LLVMSetAlignment(save ? s : v, align);
}

static void copy_registers(cpu_gen_t *gen, const uint64_t *which, bool save)
{
    for (uint32_t r = 0; r < gen->f->reg_count; r++) {
        if (!cpu_bits_has(which, r)) {
            continue;
        }
        uint32_t strips = gen->a->values[r].per_strip ? gen->G : 1;
        uint32_t unit = unit_bytes(gen, r);
        type_t t = gen_shape(gen, gen_reg_type(gen, r), is_varying(gen, r));
        for (uint32_t g = 0; g < strips; g++) {
            copy_one(gen, gen_slot(gen, r, g), t, gen->flow->at[r] + g * unit, save);
            if (gen->a->values[r].form.scale != 0) {
                copy_one(gen, gen_slot_index(gen, r, g), gen->i32,
                         gen->flow->at[r] + (strips + g) * unit, save);
            }
        }
    }
}

static uint32_t number_of(const cpu_gen_t *gen, uint32_t node)
{
    for (uint32_t k = 0; k < gen->flow->barrier_count; k++) {
        if (gen->flow->barriers[k] == node) {
            return k;
        }
    }
    return 0;
}

static val_t launch_counter(cpu_gen_t *gen, size_t offset, val_t barrier)
{
    val_t at = LLVMBuildZExt(gen->b, barrier, gen->i64, "");
    at = LLVMBuildAnd(gen->b, at, gen_like(at, CPU_BARRIERS - 1), "");
    at = LLVMBuildShl(gen->b, at, gen_like(at, 2), "");
    at = LLVMBuildAdd(gen->b, at, gen_like(at, offset), "");
    return LLVMBuildGEP2(gen->b, gen->i8, gen->launch, &at, 1, "");
}

static void count_up(cpu_gen_t *gen, val_t counter, val_t by)
{
    val_t v = LLVMBuildLoad2(gen->b, gen->i32, counter, "");
    LLVMBuildStore(gen->b, LLVMBuildAdd(gen->b, v, by, ""), counter);
}

static void select_instr(cpu_gen_t *gen, const ptx_instr_t *i, unsigned g)
{
    gen->i = i;
    gen->g = g;
}

/* Writes the head of the context; counts the predicates of bar.red. */
static void announce(cpu_gen_t *gen, const ptx_instr_t *i)
{
    unsigned operands = i->src_count - (i->mode == PTX_BAR_RED ? 1 : 0);
    select_instr(gen, i, 0);
    val_t barrier = gen_src(gen, 0, PTX_U32, false);
    val_t expected = operands > 1 ? gen_src(gen, 1, PTX_U32, false) : LLVMConstInt(gen->i32, 0, 0);
    LLVMBuildStore(gen->b, barrier, context_at(gen, offsetof(cpu_context_head_t, barrier)));
    LLVMBuildStore(gen->b, expected, context_at(gen, offsetof(cpu_context_head_t, expected)));
    if (i->mode != PTX_BAR_RED) {
        return;
    }
    for (unsigned g = 0; g < gen->G; g++) {
        select_instr(gen, i, g);
        val_t p = gen_src(gen, operands, PTX_PRED, gen->W > 1);
        val_t lanes = gen->masked ? gen->masks[g] : gen_const(gen, gen->i1, gen->W > 1, 1);
        val_t yes = gen_bits(gen, LLVMBuildAnd(gen->b, p, lanes, ""));
        count_up(gen, launch_counter(gen, offsetof(cpu_launch_t, bar_red_popc), barrier),
                 gen_call1(gen, "llvm.ctpop", yes));
        count_up(gen, launch_counter(gen, offsetof(cpu_launch_t, bar_red_all), barrier),
                 gen_call1(gen, "llvm.ctpop", gen_bits(gen, lanes)));
    }
}

/* The result of bar.red, read when the barrier is passed. */
static void take_result(cpu_gen_t *gen, const ptx_instr_t *i, val_t const *lanes)
{
    if (i->mode != PTX_BAR_RED) {
        return;
    }
    val_t id = LLVMBuildLoad2(gen->b, gen->i32,
                              context_at(gen, offsetof(cpu_context_head_t, barrier)), "");
    val_t popc = LLVMBuildLoad2(gen->b, gen->i32,
                                launch_counter(gen, offsetof(cpu_launch_t, bar_out_popc), id), "");
    val_t all = LLVMBuildLoad2(gen->b, gen->i32,
                               launch_counter(gen, offsetof(cpu_launch_t, bar_out_all), id), "");
    val_t v = i->reduce == PTX_ATOM_POPC ? popc
              : i->reduce == PTX_ATOM_AND
                  ? LLVMBuildICmp(gen->b, LLVMIntEQ, popc, all, "")
                  : LLVMBuildICmp(gen->b, LLVMIntNE, popc, gen_like(popc, 0), "");
    val_t any = NULL;
    for (unsigned g = 0; lanes != NULL && g < gen->G; g++) {
        any = any == NULL ? lanes[g] : LLVMBuildOr(gen->b, any, lanes[g], "");
    }
    /* not at this barrier: what an earlier one has given stays */
    gen->guard = any == NULL ? NULL : gen_any(gen, any);
    for (unsigned g = 0; g < gen->G; g++) {
        select_instr(gen, i, g);
        gen->mask = lanes == NULL ? NULL : lanes[g];
        gen_write(gen, ptx_dst(gen->f, i, 0), v, i->reduce == PTX_ATOM_POPC ? PTX_U32 : PTX_PRED);
    }
    gen->mask = gen->guard = NULL;
}

void gen_barrier_stop(cpu_gen_t *gen, uint32_t b, const cpu_node_t *n)
{
    announce(gen, &gen->f->instrs[n->last]);
    if (n->succ[0] != CPU_NODE_EXIT) {
        copy_registers(gen, gen->a->live_in[n->succ[0]], true);
    }
    LLVMBuildRet(gen->b, LLVMConstInt(gen->i32, number_of(gen, b) + 1, 0));
}

void gen_barrier_resume(cpu_gen_t *gen, uint32_t k)
{
    uint32_t b = gen->flow->barriers[k];
    const cpu_node_t *n = &gen->a->nodes[b];
    if (n->succ[0] == CPU_NODE_EXIT) {
        LLVMBuildRet(gen->b, LLVMConstInt(gen->i32, (uint64_t)CPU_STATE_DONE, 1));
        return;
    }
    copy_registers(gen, gen->a->live_in[n->succ[0]], false);
    gen->node = b;
    take_result(gen, &gen->f->instrs[n->last], NULL);
    LLVMBuildBr(gen->b, gen->flow->fast[n->succ[0]]);
}

void gen_barrier_arrive_masked(cpu_gen_t *gen, uint32_t b, const cpu_node_t *n)
{
    uint32_t k = number_of(gen, b);
    announce(gen, &gen->f->instrs[n->last]);
    for (unsigned g = 0; g < gen->G; g++) {
        val_t slot = gen->arrived[k * gen->G + g];
        val_t old = LLVMBuildLoad2(gen->b, gen_vector(gen, gen->i1), slot, "");
        LLVMBuildStore(gen->b, LLVMBuildOr(gen->b, old, gen->masks[g], ""), slot);
    }
}

static uint64_t mask_offset(const cpu_gen_t *gen, uint32_t k, unsigned g)
{
    return sizeof(cpu_context_head_t) + (k * gen->G + g) * 4;
}

void gen_barrier_resume_masked(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    uint32_t lowest = CPU_NODE_EXIT;
    copy_registers(gen, w->saved_parts, false);
    for (uint32_t k = 0; k < w->barrier_count; k++) {
        if (!gen_barrier_parts(gen, k)) {
            continue;
        }
        const cpu_node_t *n = &gen->a->nodes[w->barriers[k]];
        val_t lanes[GEN_MAX_STRIPS];
        for (unsigned g = 0; g < gen->G; g++) {
            val_t p = context_at(gen, mask_offset(gen, k, g));
            lanes[g] = gen_from_bits(gen, LLVMBuildLoad2(gen->b, gen->i32, p, ""));
            if (n->succ[0] != CPU_NODE_EXIT) {
                val_t slot = gen->waiting[n->succ[0] * gen->G + g];
                val_t old = LLVMBuildLoad2(gen->b, gen_vector(gen, gen->i1), slot, "");
                LLVMBuildStore(gen->b, LLVMBuildOr(gen->b, old, lanes[g], ""), slot);
            }
        }
        gen->node = w->barriers[k];
        take_result(gen, &gen->f->instrs[n->last], lanes);
        lowest = n->succ[0] < lowest ? n->succ[0] : lowest;
    }
    LLVMBuildBr(gen->b, lowest == CPU_NODE_EXIT ? w->done : gen_chain(gen, lowest));
}

void gen_barrier_done(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    val_t done = LLVMConstInt(gen->i32, (uint64_t)CPU_STATE_DONE, 1);
    if (!w->any_parts) {
        LLVMBuildRet(gen->b, done);
        return;
    }
    val_t any = NULL;
    for (uint32_t k = 0; k < w->barrier_count * gen->G; k++) {
        val_t lanes = LLVMBuildLoad2(gen->b, gen_vector(gen, gen->i1), gen->arrived[k], "");
        any = any == NULL ? lanes : LLVMBuildOr(gen->b, any, lanes, "");
        LLVMBuildStore(gen->b, gen_bits(gen, lanes),
                       context_at(gen, mask_offset(gen, k / gen->G, k % gen->G)));
    }
    block_t stop = gen_block(gen, "stop"), end = gen_block(gen, "end");
    LLVMBuildCondBr(gen->b, gen_any(gen, any), stop, end);
    LLVMPositionBuilderAtEnd(gen->b, end);
    LLVMBuildRet(gen->b, done);
    LLVMPositionBuilderAtEnd(gen->b, stop);
    copy_registers(gen, w->saved_parts, true);
    LLVMBuildRet(gen->b, LLVMConstInt(gen->i32, w->barrier_count + 1, 0));
}

/* bar.arrive: counts whole warps, and goes on. */
void gen_barrier_arrive(cpu_gen_t *gen)
{
    val_t id = gen_src(gen, 0, PTX_U32, false);
    count_up(gen, launch_counter(gen, offsetof(cpu_launch_t, bar_arrived), id),
             LLVMConstInt(gen->i32, 32, 0));
}
