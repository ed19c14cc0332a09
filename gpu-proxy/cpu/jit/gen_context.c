/* A group's context: what it keeps while it is not running. The head, masks of lanes that wait, and
 * the registers that live across some barrier or back-edge at which it may stop. */
#include "gpu-proxy/cpu/jit/exchange.h"
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

/* Masks behind the head: per barrier one for each strip, and the barrier's number; per spin loop one
 * for each strip. */
static uint32_t mask_bytes(const cpu_gen_t *gen)
{
    const gen_flow_t *w = gen->flow;
    if (gen->a->exchanges) { /* no masks: one thread */
        return sizeof(cpu_exchange_t);
    }
    return w->need_masks ? (w->barrier_count * (gen->G + 1) + w->spin_count * gen->G) * 4 : 0;
}

void gen_layout_context(cpu_gen_t *gen)
{
    gen_flow_t *w = gen->flow;
    if (w->barrier_count + w->spin_count == 0) {
        return;
    }
    uint32_t at = sizeof(cpu_context_head_t) + mask_bytes(gen);
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
    const gen_flow_t *w = gen->flow;
    return w->barrier_count + w->spin_count == 0 ? 1 : gen_state_spinning(gen, w->spin_count);
}

uint32_t gen_state_parted(const cpu_gen_t *gen)
{
    return gen->flow->barrier_count + 1;
}

uint32_t gen_state_spinning(const cpu_gen_t *gen, uint32_t j)
{
    return gen->flow->barrier_count + 2 + j;
}

bool gen_spins(const cpu_gen_t *gen)
{
    return gen->flow->spin_count > 0;
}

uint32_t gen_context_bytes(const cpu_gen_t *gen)
{
    return gen->flow->context_bytes;
}

val_t gen_arrived_at(cpu_gen_t *gen, uint32_t k, unsigned g)
{
    return gen_context_at(gen, sizeof(cpu_context_head_t) + (k * gen->G + g) * 4);
}

val_t gen_number_at(cpu_gen_t *gen, uint32_t k)
{
    return gen_context_at(gen,
                          sizeof(cpu_context_head_t) + (gen->flow->barrier_count * gen->G + k) * 4);
}

val_t gen_spinning_at(cpu_gen_t *gen, uint32_t j, unsigned g)
{
    uint32_t before = gen->flow->barrier_count * (gen->G + 1);
    return gen_context_at(gen, sizeof(cpu_context_head_t) + (before + j * gen->G + g) * 4);
}

val_t gen_context_at(cpu_gen_t *gen, uint64_t offset)
{
    val_t at = LLVMConstInt(gen->i64, offset, 0);
    return LLVMBuildGEP2(gen->b, gen->i8, gen->ctx, &at, 1, "");
}

val_t gen_home_at(cpu_gen_t *gen, uint32_t reg, unsigned g, bool index)
{
    uint32_t strips = gen->a->values[reg].per_strip ? gen->G : 1;
    uint32_t unit = unit_bytes(gen, reg);
    return gen_context_at(gen, gen->flow->at[reg] + (g + (index ? strips : 0)) * unit);
}

static void copy_one(cpu_gen_t *gen, val_t slot, type_t t, uint32_t offset, bool save)
{
    val_t p = gen_context_at(gen, offset);
    val_t v = LLVMBuildLoad2(gen->b, t, save ? slot : p, "");
    val_t s = LLVMBuildStore(gen->b, v, save ? p : slot);
    unsigned align = LLVMGetTypeKind(t) == LLVMVectorTypeKind ? VECTOR_ALIGN : SCALAR_ALIGN;
    LLVMSetAlignment(save ? s : v, align);
}

void gen_copy_registers(cpu_gen_t *gen, const uint64_t *which, bool save)
{
    for (uint32_t r = 0; r < gen->f->reg_count; r++) {
        if (!cpu_bits_has(which, r) || gen_is_homed(gen, r)) {
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
