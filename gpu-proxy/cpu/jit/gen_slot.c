/* Where registers are kept while the function is generated.
 *
 * Most registers are written and read within one node: the generator hands their values on itself.
 * The others get allocas, which the compiler turns into values: that takes time for each of them, more
 * than in proportion to the size of the function. */
#include "gpu-proxy/cpu/jit/gen_state.h"

#include <string.h>

/* Slots lie at multiples of 64 only, whatever wide vectors would like. */
val_t gen_slot_load(cpu_gen_t *gen, type_t type, val_t slot)
{
    val_t v = LLVMBuildLoad2(gen->b, type, slot, "");
    if (LLVMGetAlignment(v) > 64 || LLVMGetTypeKind(type) == LLVMVectorTypeKind) {
        LLVMSetAlignment(v, 64);
    }
    return v;
}

void gen_slot_store(cpu_gen_t *gen, val_t v, val_t slot)
{
    val_t s = LLVMBuildStore(gen->b, v, slot);
    if (LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMVectorTypeKind) {
        LLVMSetAlignment(s, 64);
    }
}

val_t gen_slot(cpu_gen_t *gen, uint32_t reg, unsigned g)
{
    uint32_t at = reg * gen->G + (gen->a->values[reg].per_strip ? g : 0);
    return gen_uses_inner(gen, reg) ? gen->inner[at] : gen->slots[at];
}

val_t gen_slot_index(cpu_gen_t *gen, uint32_t reg, unsigned g)
{
    uint32_t at = reg * gen->G + (gen->a->values[reg].per_strip ? g : 0);
    return gen_uses_inner(gen, reg) ? gen->inner_index[at] : gen->slots_index[at];
}

/* The register as it is kept: from its slot, or what was written to it in this node. What is given is
 * read where it is needed. */
val_t gen_load_slot(cpu_gen_t *gen, uint32_t reg, type_t t)
{
    if (gen->a->given[reg] != NULL) {
        return gen_given(gen, reg);
    }
    val_t slot = gen_slot(gen, reg, gen->g);
    if (!gen->passing[reg]) {
        return gen_slot_load(gen, t, slot);
    }
    return slot != NULL ? slot : LLVMConstNull(t);
}

void gen_store_slot(cpu_gen_t *gen, uint32_t reg, val_t v)
{
    if (gen->passing[reg]) {
        gen->slots[reg * gen->G + (gen->a->values[reg].per_strip ? gen->g : 0)] = v;
    } else {
        gen_slot_store(gen, v, gen_slot(gen, reg, gen->g));
    }
}

val_t gen_load_index(cpu_gen_t *gen, uint32_t reg)
{
    val_t slot = gen_slot_index(gen, reg, gen->g);
    if (!gen->passing[reg]) {
        return gen_slot_load(gen, gen->i32, slot);
    }
    return slot != NULL ? slot : LLVMConstNull(gen->i32);
}

void gen_store_index(cpu_gen_t *gen, uint32_t reg, val_t v)
{
    if (gen->passing[reg]) {
        gen->slots_index[reg * gen->G + (gen->a->values[reg].per_strip ? gen->g : 0)] = v;
    } else {
        gen_slot_store(gen, v, gen_slot_index(gen, reg, gen->g));
    }
}

/* Above that, the registers of a kernel that live from node to node stay in memory. Each would be a phi
 * wherever control joins, and there are several joins to a node: compiling would take minutes. */
enum { MOST_NODES = 200 };

void gen_keep_in_memory(cpu_gen_t *gen, val_t slot)
{
    if (gen->seen == NULL) {
        gen->seen = gen_alloca(gen, gen->ptr, 8);
    }
    LLVMSetVolatile(LLVMBuildStore(gen->b, slot, gen->seen), 1);
}

static void stays(void *passing, uint32_t reg)
{
    ((bool *)passing)[reg] = false;
}

/* A guarded instruction may write in a block of its own, and leaves an old value. */
static void find_passing(cpu_gen_t *gen)
{
    const cpu_analysis_t *a = gen->a;
    uint32_t regs = gen->f->reg_count;
    gen->passing = cpu_arena_alloc(gen->arena, regs + 1, 1);
    memset(gen->passing, 1, regs);
    for (uint32_t b = 0; b < a->node_count; b++) {
        const cpu_node_t *n = &a->nodes[b];
        for (uint32_t r = 0; r < regs; r++) {
            if (cpu_bits_has(a->live_in[b], r)) {
                gen->passing[r] = false;
            }
        }
        for (uint32_t k = 0; k < n->count; k++) {
            const ptx_instr_t *i = &gen->f->instrs[n->first + k];
            if (i->guard != PTX_NONE) {
                cpu_visit_defs(gen->f, i, stays, gen->passing);
            }
        }
        if (n->last != PTX_NONE) {
            cpu_visit_defs(gen->f, &gen->f->instrs[n->last], stays, gen->passing);
        }
    }
}

static val_t zeroed(cpu_gen_t *gen, type_t t, unsigned align)
{
    val_t slot = gen_alloca(gen, t, align);
    gen_slot_store(gen, LLVMConstNull(t), slot);
    if (gen->a->node_count > MOST_NODES) {
        gen_keep_in_memory(gen, slot);
    }
    return slot;
}

void gen_make_slots(cpu_gen_t *gen)
{
    uint32_t regs = gen->f->reg_count, G = gen->G;
    gen->slots = cpu_arena_alloc(gen->arena, regs * G + 1, sizeof *gen->slots);
    gen->slots_index = cpu_arena_alloc(gen->arena, regs * G + 1, sizeof *gen->slots);
    gen->inner = cpu_arena_alloc(gen->arena, regs * G + 1, sizeof *gen->slots);
    gen->inner_index = cpu_arena_alloc(gen->arena, regs * G + 1, sizeof *gen->slots);
    find_passing(gen);
    for (uint32_t r = 0; r < regs; r++) {
        const cpu_value_t *v = &gen->a->values[r];
        type_t t = gen_shape(gen, gen_reg_type(gen, r), v->form.tag == CPU_FORM_VARYING);
        if (gen_is_homed(gen, r)) {
            gen->passing[r] = false;
            gen_make_home(gen, r);
            continue;
        }
        for (unsigned g = 0; !gen->passing[r] && g < (v->per_strip ? G : 1); g++) {
            gen->slots[r * G + g] = zeroed(gen, t, 64);
            if (v->form.scale != 0) {
                gen->slots_index[r * G + g] = zeroed(gen, gen->i32, 4);
            }
        }
    }
}
