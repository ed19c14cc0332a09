/* Registers that outlast a barrier, and where they live.
 *
 * Such a register's slot is its place in the context: then nothing has to be saved at a barrier and
 * restored behind it, and code between two barriers that leaves a register alone does not touch it.
 * Loops without barriers would read and write memory in every iteration, so they have slots of their
 * own (inner ones), filled on the way in and written back on the way out. Where such a loop may run
 * with a part of the lanes that is not worth it: registers that it touches are saved and restored. */
#include "gpu-proxy/cpu/jit/gen_state.h"

static bool has_barrier(const cpu_analysis_t *a, const cpu_loop_t *l)
{
    for (uint32_t b = l->header; b <= l->last; b++) {
        if (a->nodes[b].end == CPU_END_BARRIER) {
            return true;
        }
    }
    return false;
}

/* The outermost loop around the node that has no barrier. */
static uint32_t free_loop(const cpu_analysis_t *a, uint32_t b)
{
    uint32_t best = CPU_NO_LOOP;
    for (uint32_t l = a->nodes[b].loop; l != CPU_NO_LOOP; l = a->loops[l].parent) {
        if (has_barrier(a, &a->loops[l])) {
            break;
        }
        best = l;
    }
    return best;
}

/* Every lane takes the same way through the loop, and stays in it. */
static bool is_calm(const cpu_gen_t *gen, const cpu_loop_t *l)
{
    const gen_flow_t *w = gen->flow;
    for (uint32_t b = l->header; b <= l->last; b++) {
        uint32_t own = gen->a->nodes[b].loop;
        if (gen->a->divergent[b] || (w->need_masks && w->parts[b]) ||
            (own != CPU_NO_LOOP && gen->a->loops[own].deferred)) {
            return false;
        }
    }
    return true;
}

static void add_bit(void *bits, uint32_t reg)
{
    cpu_bits_add(bits, reg);
}

/* Registers that nodes of the loop read or write, and write. */
static void look_at_loop(const cpu_gen_t *gen, const cpu_loop_t *l, cpu_bits_t touched,
                         cpu_bits_t written)
{
    for (uint32_t b = l->header; b <= l->last; b++) {
        const cpu_node_t *n = &gen->a->nodes[b];
        if (n->end == CPU_END_BRANCH) {
            cpu_bits_add(touched, n->guard);
        }
        for (uint32_t k = 0; k < n->count; k++) {
            const ptx_instr_t *i = &gen->f->instrs[n->first + k];
            cpu_visit_uses(gen->f, i, add_bit, touched);
            cpu_visit_defs(gen->f, i, add_bit, touched);
            cpu_visit_defs(gen->f, i, add_bit, written);
        }
    }
}

static void remove_all(cpu_bits_t from, const uint64_t *what, size_t n)
{
    for (size_t k = 0; k < cpu_bits_words(n); k++) {
        from[k] &= ~what[k];
    }
}

void gen_find_homes(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    const cpu_analysis_t *a = gen->a;
    uint32_t regs = gen->f->reg_count;
    w->homed = cpu_bits_new(gen->arena, regs);
    w->calm = cpu_arena_alloc(gen->arena, a->node_count, sizeof *w->calm);
    w->inside = cpu_arena_alloc(gen->arena, a->node_count, sizeof *w->inside);
    w->touched = cpu_arena_alloc(gen->arena, a->loop_count + 1, sizeof *w->touched);
    w->written = cpu_arena_alloc(gen->arena, a->loop_count + 1, sizeof *w->written);
    for (uint32_t b = 0; b < a->node_count; b++) {
        w->calm[b] = CPU_NO_LOOP;
    }
    if (gen->W * gen->G == 1 || w->barrier_count == 0) {
        return;
    }
    cpu_bits_or(w->homed, w->saved, regs);
    for (uint32_t b = 0; b < a->node_count; b++) {
        uint32_t l = free_loop(a, b);
        if (l == CPU_NO_LOOP || a->loops[l].header != b) {
            w->calm[b] = l == CPU_NO_LOOP ? l : w->calm[a->loops[l].header];
            continue;
        }
        w->touched[l] = cpu_bits_new(gen->arena, regs);
        w->written[l] = cpu_bits_new(gen->arena, regs);
        look_at_loop(gen, &a->loops[l], w->touched[l], w->written[l]);
        if (is_calm(gen, &a->loops[l])) {
            w->calm[b] = l;
        } else {
            remove_all(w->homed, w->touched[l], regs);
        }
    }
}

bool gen_is_homed(const cpu_gen_t *gen, uint32_t reg)
{
    return gen->flow->homed != NULL && cpu_bits_has(gen->flow->homed, reg);
}

bool gen_uses_inner(const cpu_gen_t *gen, uint32_t reg)
{
    return gen_is_homed(gen, reg) && gen->flow->calm[gen->node] != CPU_NO_LOOP;
}

static type_t slot_type(cpu_gen_t *gen, uint32_t reg)
{
    bool varying = gen->a->values[reg].form.tag == CPU_FORM_VARYING;
    return gen_shape(gen, gen_reg_type(gen, reg), varying);
}

static bool touched_in_calm_loop(const cpu_gen_t *gen, uint32_t reg)
{
    const gen_flow_t *w = gen->flow;
    for (uint32_t b = 0; b < gen->a->node_count; b++) {
        if (w->calm[b] != CPU_NO_LOOP && cpu_bits_has(w->touched[w->calm[b]], reg)) {
            return true;
        }
    }
    return false;
}

void gen_make_home(cpu_gen_t *gen, uint32_t reg)
{
    uint32_t strips = gen->a->values[reg].per_strip ? gen->G : 1;
    bool pair = gen->a->values[reg].form.scale != 0, inner = touched_in_calm_loop(gen, reg);
    for (unsigned g = 0; g < strips; g++) {
        uint32_t at = reg * gen->G + g;
        gen->slots[at] = gen_home_at(gen, reg, g, false);
        gen->inner[at] = inner ? gen_alloca(gen, slot_type(gen, reg), 64) : NULL;
        if (pair) {
            gen->slots_index[at] = gen_home_at(gen, reg, g, true);
            gen->inner_index[at] = inner ? gen_alloca(gen, gen->i32, 4) : NULL;
        }
    }
}

static void copy(cpu_gen_t *gen, val_t from, val_t to, type_t t)
{
    gen_slot_store(gen, gen_slot_load(gen, t, from), to);
}

/* Homed registers of both sets, to (or from) the inner slots. */
static void copy_homed(cpu_gen_t *gen, const uint64_t *some, const uint64_t *live, bool in)
{
    for (uint32_t r = 0; r < gen->f->reg_count; r++) {
        if (!gen_is_homed(gen, r) || !cpu_bits_has(some, r) || !cpu_bits_has(live, r)) {
            continue;
        }
        uint32_t strips = gen->a->values[r].per_strip ? gen->G : 1;
        for (unsigned g = 0; g < strips; g++) {
            uint32_t at = r * gen->G + g;
            val_t home = gen->slots[at], inner = gen->inner[at];
            copy(gen, in ? home : inner, in ? inner : home, slot_type(gen, r));
            if (gen->a->values[r].form.scale != 0) {
                home = gen->slots_index[at];
                inner = gen->inner_index[at];
                copy(gen, in ? home : inner, in ? inner : home, gen->i32);
            }
        }
    }
}

/* Registers that are read before they are written, if the program has such, read as zero. */
void gen_clear_homes(cpu_gen_t *gen)
{
    for (uint32_t r = 0; r < gen->f->reg_count; r++) {
        if (!gen_is_homed(gen, r) || !cpu_bits_has(gen->a->live_in[0], r)) {
            continue;
        }
        uint32_t strips = gen->a->values[r].per_strip ? gen->G : 1;
        for (unsigned g = 0; g < strips; g++) {
            gen_slot_store(gen, LLVMConstNull(slot_type(gen, r)), gen->slots[r * gen->G + g]);
            if (gen->a->values[r].form.scale != 0) {
                LLVMBuildStore(gen->b, LLVMConstNull(gen->i32), gen->slots_index[r * gen->G + g]);
            }
        }
    }
}

void gen_enter_loop(cpu_gen_t *gen, uint32_t b)
{
    gen_flow_t *w = gen->flow;
    uint32_t l = w->calm[b];
    if (l == CPU_NO_LOOP || gen->a->loops[l].header != b) {
        return;
    }
    copy_homed(gen, w->touched[l], gen->a->live_in[b], true);
    w->inside[b] = gen_block(gen, "inside");
    gen_goto(gen, w->inside[b]);
}

void gen_leave_loop(cpu_gen_t *gen, uint32_t from, uint32_t to)
{
    const gen_flow_t *w = gen->flow;
    uint32_t l = w->calm[from];
    if (l != CPU_NO_LOOP && to != CPU_NODE_EXIT && w->calm[to] != l) {
        copy_homed(gen, w->written[l], gen->a->live_in[to], false);
    }
}

block_t gen_fast_block(const cpu_gen_t *gen, uint32_t from, uint32_t to)
{
    const gen_flow_t *w = gen->flow;
    bool within = w->inside[to] != NULL && w->calm[from] == w->calm[to];
    return within ? w->inside[to] : w->fast[to];
}
