/* Barriers: a group leaves its function with its registers in the context, and comes back later. */
#include "gpu-proxy/cpu/jit/exchange.h"
#include "gpu-proxy/cpu/jit/gen_state.h"

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

/* A field of the head's entry for the barrier. */
static val_t head_counter(cpu_gen_t *gen, size_t offset, val_t barrier)
{
    val_t at = LLVMBuildZExt(gen->b, barrier, gen->i64, "");
    at = LLVMBuildAnd(gen->b, at, gen_like(at, CPU_BARRIERS - 1), "");
    at = LLVMBuildShl(gen->b, at, gen_like(at, 3), "");
    at = LLVMBuildAdd(gen->b, at, gen_like(at, offset), "");
    return LLVMBuildGEP2(gen->b, gen->i8, gen->ctx, &at, 1, "");
}

static void count_up(cpu_gen_t *gen, val_t counter, val_t by)
{
    val_t v = LLVMBuildLoad2(gen->b, gen->i32, counter, "");
    LLVMBuildStore(gen->b, LLVMBuildAdd(gen->b, v, by, ""), counter);
}

static void head_store(cpu_gen_t *gen, size_t offset, val_t v)
{
    LLVMBuildStore(gen->b, v, gen_context_at(gen, offset));
}

static val_t head_load(cpu_gen_t *gen, size_t offset)
{
    return LLVMBuildLoad2(gen->b, gen->i32, gen_context_at(gen, offset), "");
}

static void select_instr(cpu_gen_t *gen, const ptx_instr_t *i, unsigned g)
{
    gen->i = i;
    gen->g = g;
}

/* An operand that all lanes of `mask` (NULL: every lane) must agree on, as a scalar. Kernels whose
 * barriers have numbers in registers are compiled with one warp per group. Lanes that do not agree are
 * an error of the program's at bar.sync, and refused for all. */
static val_t agreed(cpu_gen_t *gen, unsigned n, val_t mask)
{
    cpu_form_t form = cpu_operand_form(gen->a, ptx_src(gen->f, gen->i, n));
    if (cpu_form_uniform(&form) || gen->W == 1) {
        return gen_src(gen, n, PTX_U32, false);
    }
    val_t v = gen_src(gen, n, PTX_U32, true);
    val_t bits = mask == NULL ? LLVMConstInt(gen->i32, UINT32_MAX, 0) : gen_bits(gen, mask);
    val_t args[2] = {bits, LLVMConstInt(gen->i1, 0, 0)};
    val_t lane = gen_call(gen, "llvm.cttz", &gen->i32, 1, args, 2);
    lane = LLVMBuildAnd(gen->b, lane, gen_like(lane, 31), "");
    val_t first = LLVMBuildExtractElement(gen->b, v, lane, "");
    val_t other = LLVMBuildICmp(gen->b, LLVMIntNE, v, gen_splat(gen, first), "");
    other = LLVMBuildAnd(gen->b, gen_bits(gen, other), bits, "");
    block_t bad = gen_block(gen, "disagree"), on = gen_block(gen, "");
    val_t differs = LLVMBuildICmp(gen->b, LLVMIntNE, other, gen_like(other, 0), "");
    gen_unlikely(gen, LLVMBuildCondBr(gen->b, differs, bad, on));
    LLVMPositionBuilderAtEnd(gen->b, bad);
    val_t before = gen->mask;
    gen->mask = mask;
    gen_trap(gen);
    gen->mask = before;
    gen_goto(gen, on);
    return first;
}

/* How many threads the barrier waits for; counts the predicates of bar.red. Gives its number. */
static val_t announce(cpu_gen_t *gen, const ptx_instr_t *i)
{
    unsigned operands = i->src_count - (i->mode == PTX_BAR_RED ? 1 : 0);
    select_instr(gen, i, 0);
    val_t mask = gen->masked ? gen->masks[0] : NULL;
    val_t barrier = agreed(gen, 0, mask);
    barrier = LLVMBuildAnd(gen->b, barrier, gen_like(barrier, CPU_BARRIERS - 1), "");
    val_t expected = operands > 1 ? agreed(gen, 1, mask) : LLVMConstInt(gen->i32, 0, 0);
    LLVMBuildStore(gen->b, expected,
                   head_counter(gen, offsetof(cpu_context_head_t, barriers[0].expected), barrier));
    for (unsigned g = 0; i->mode == PTX_BAR_RED && g < gen->G; g++) {
        select_instr(gen, i, g);
        val_t p = gen_src(gen, operands, PTX_PRED, gen->W > 1);
        val_t lanes = gen->masked ? gen->masks[g] : gen_const(gen, gen->i1, gen->W > 1, 1);
        val_t yes = gen_bits(gen, LLVMBuildAnd(gen->b, p, lanes, ""));
        count_up(gen, launch_counter(gen, offsetof(cpu_launch_t, bar_red_popc), barrier),
                 gen_call1(gen, "llvm.ctpop", yes));
        count_up(gen, launch_counter(gen, offsetof(cpu_launch_t, bar_red_all), barrier),
                 gen_call1(gen, "llvm.ctpop", gen_bits(gen, lanes)));
    }
    return barrier;
}

/* The result of bar.red, read when the barrier is passed. */
static void take_result(cpu_gen_t *gen, const ptx_instr_t *i, val_t id, val_t const *lanes)
{
    if (i->mode != PTX_BAR_RED) {
        return;
    }
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

/* ---- every lane active ---- */

static void wait_at_barrier(cpu_gen_t *gen, const ptx_instr_t *i)
{
    val_t id = announce(gen, i);
    val_t threads = LLVMConstInt(gen->i32, gen->W * gen->G, 0);
    head_store(gen, offsetof(cpu_context_head_t, waits),
               LLVMBuildShl(gen->b, gen_like(id, 1), id, ""));
    head_store(gen, offsetof(cpu_context_head_t, living), threads);
    head_store(gen, offsetof(cpu_context_head_t, barrier), id);
    LLVMBuildStore(gen->b, threads,
                   head_counter(gen, offsetof(cpu_context_head_t, barriers[0].came), id));
}

void gen_barrier_stop(cpu_gen_t *gen, uint32_t b, const cpu_node_t *n)
{
    const ptx_instr_t *i = &gen->f->instrs[n->last];
    val_t state = LLVMConstInt(gen->i32, number_of(gen, b) + 1, 0);
    if (n->succ[0] != CPU_NODE_EXIT) {
        gen_copy_registers(gen, gen->a->live_in[n->succ[0]], true);
    }
    if (gen->flow->steps) {
        gen_step_stop(gen, state);
    }
    if (i->op == PTX_OP_BAR) {
        wait_at_barrier(gen, i);
    } else {
        head_store(gen, offsetof(cpu_context_head_t, waits),
                   LLVMConstInt(gen->i32, CPU_WAITS_EXCHANGE, 0));
        gen_exchange_stop(gen, i);
    }
    LLVMBuildRet(gen->b, state);
}

void gen_barrier_resume(cpu_gen_t *gen, uint32_t k)
{
    uint32_t b = gen->flow->barriers[k];
    const cpu_node_t *n = &gen->a->nodes[b];
    if (n->succ[0] == CPU_NODE_EXIT) {
        gen_done(gen);
        return;
    }
    gen_copy_registers(gen, gen->a->live_in[n->succ[0]], false);
    gen->node = b;
    if (gen->f->instrs[n->last].op == PTX_OP_BAR) {
        take_result(gen, &gen->f->instrs[n->last],
                    head_load(gen, offsetof(cpu_context_head_t, barrier)), NULL);
    } else {
        gen_exchange_take(gen, &gen->f->instrs[n->last]);
    }
    LLVMBuildBr(gen->b, gen->flow->fast[n->succ[0]]);
}

/* ---- with masks ---- */

void gen_barrier_arrive_masked(cpu_gen_t *gen, uint32_t b, const cpu_node_t *n)
{
    uint32_t k = number_of(gen, b);
    val_t id = announce(gen, &gen->f->instrs[n->last]);
    LLVMBuildStore(gen->b, id, gen_number_at(gen, k));
    for (unsigned g = 0; g < gen->G; g++) {
        val_t slot = gen->arrived[k * gen->G + g];
        LLVMBuildStore(gen->b, LLVMBuildOr(gen->b, gen_load_mask(gen, slot), gen->masks[g], ""),
                       slot);
    }
}

static val_t count_of(cpu_gen_t *gen, val_t lanes)
{
    return gen_call1(gen, "llvm.ctpop", gen_bits(gen, lanes));
}

void gen_barrier_save(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    val_t waits = LLVMConstInt(gen->i32, 0, 0), living = waits;
    for (uint32_t k = 0; k < w->barrier_count; k++) {
        if (!gen_barrier_parts(gen, k)) {
            continue;
        }
        val_t came = LLVMConstInt(gen->i32, 0, 0);
        for (unsigned g = 0; g < gen->G; g++) {
            val_t lanes = gen_load_mask(gen, gen->arrived[k * gen->G + g]);
            LLVMBuildStore(gen->b, gen_bits(gen, lanes), gen_arrived_at(gen, k, g));
            came = LLVMBuildAdd(gen->b, came, count_of(gen, lanes), "");
        }
        val_t id = LLVMBuildLoad2(gen->b, gen->i32, gen_number_at(gen, k), "");
        id = LLVMBuildAnd(gen->b, id, gen_like(id, CPU_BARRIERS - 1), "");
        val_t any = LLVMBuildICmp(gen->b, LLVMIntNE, came, gen_like(came, 0), "");
        val_t bit = LLVMBuildShl(gen->b, LLVMBuildZExt(gen->b, any, gen->i32, ""), id, "");
        waits = LLVMBuildOr(gen->b, waits, bit, "");
        living = LLVMBuildAdd(gen->b, living, came, "");
        count_up(gen, head_counter(gen, offsetof(cpu_context_head_t, barriers[0].came), id), came);
    }
    for (uint32_t j = 0; j < w->spin_count * gen->G; j++) {
        if (!w->waits[w->spins[j / gen->G]]) {
            continue;
        }
        val_t slot = gen_waiting(gen, w->spins[j / gen->G], j % gen->G);
        living = LLVMBuildAdd(gen->b, living, count_of(gen, gen_load_mask(gen, slot)), "");
    }
    head_store(gen, offsetof(cpu_context_head_t, waits), waits);
    head_store(gen, offsetof(cpu_context_head_t, living), living);
}

/* Lanes behind barrier k go on if it is among those released. */
static void release_one(cpu_gen_t *gen, uint32_t k, val_t released)
{
    uint32_t b = gen->flow->barriers[k];
    const cpu_node_t *n = &gen->a->nodes[b];
    val_t id = LLVMBuildLoad2(gen->b, gen->i32, gen_number_at(gen, k), "");
    id = LLVMBuildAnd(gen->b, id, gen_like(id, CPU_BARRIERS - 1), "");
    val_t go = LLVMBuildTrunc(gen->b, LLVMBuildLShr(gen->b, released, id, ""), gen->i1, "");
    val_t lanes[GEN_MAX_STRIPS];
    for (unsigned g = 0; g < gen->G; g++) {
        val_t bits = LLVMBuildLoad2(gen->b, gen->i32, gen_arrived_at(gen, k, g), "");
        val_t none = gen_like(bits, 0);
        lanes[g] = gen_from_bits(gen, LLVMBuildSelect(gen->b, go, bits, none, ""));
        val_t stay = gen_from_bits(gen, LLVMBuildSelect(gen->b, go, none, bits, ""));
        LLVMBuildStore(gen->b, stay, gen->arrived[k * gen->G + g]);
        gen_send(gen, n->succ[0], g, lanes[g]);
    }
    gen->node = b;
    take_result(gen, &gen->f->instrs[n->last], id, lanes);
}

void gen_barrier_release(cpu_gen_t *gen)
{
    val_t released = head_load(gen, offsetof(cpu_context_head_t, released));
    for (uint32_t k = 0; k < gen->flow->barrier_count; k++) {
        if (gen_barrier_parts(gen, k)) {
            release_one(gen, k, released);
        }
    }
}

/* What a thread counts for at bar.arrive, thread by thread: one, and the first of a warp what is
 * missing in it. */
static val_t thread_counts(cpu_gen_t *gen)
{
    val_t all = LLVMBuildMul(gen->b, gen->ntid[0], gen->ntid[1], "");
    all = LLVMBuildMul(gen->b, all, gen->ntid[2], "");
    val_t me = gen->linear[0], lane = LLVMBuildAnd(gen->b, me, gen_like(me, 31), "");
    val_t after =
        LLVMBuildSub(gen->b, all, me, ""); /* of the first: threads from the warp's begin */
    val_t full = LLVMBuildICmp(gen->b, LLVMIntUGE, after, gen_like(all, 32), "");
    val_t first = LLVMBuildSub(gen->b, gen_like(all, 33), after, "");
    val_t one = gen_like(all, 1);
    first = LLVMBuildSelect(gen->b, full, one, first, "");
    val_t is_first = LLVMBuildICmp(gen->b, LLVMIntEQ, lane, gen_like(lane, 0), "");
    return LLVMBuildSelect(gen->b, is_first, first, one, "");
}

/* bar.arrive: counts threads and goes on; all that live are a whole warp (and a group). */
void gen_barrier_arrive(cpu_gen_t *gen)
{
    val_t id = agreed(gen, 0, gen->mask), count = LLVMConstInt(gen->i32, 32, 0);
    if (gen->W == 1) {
        count = thread_counts(gen);
    } else if (gen->mask != NULL && gen->flow->living != NULL) {
        val_t here = gen_bits(gen, gen->mask);
        val_t whole = LLVMBuildICmp(gen->b, LLVMIntEQ, here, gen_sync_living(gen, 0), "");
        count = LLVMBuildSelect(gen->b, whole, count, gen_call1(gen, "llvm.ctpop", here), "");
    }
    count_up(gen, launch_counter(gen, offsetof(cpu_launch_t, bar_arrived), id), count);
}
