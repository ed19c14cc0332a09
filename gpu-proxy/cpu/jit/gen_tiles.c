/* Loops that stop at barriers: threads load a part of their input, meet, compute with it, meet again. Nothing
 * of the next part is asked for before the present one is done, so every iteration begins by waiting for
 * memory. Where the addresses go on in lines (gen_lines.c), a load fetches what the next iteration will
 * load: it comes while this one computes. */
#include "gpu-proxy/cpu/jit/gen_ahead.h"

#define B gen->b

enum { LINE = 64 };

static bool stops(const cpu_analysis_t *a, uint32_t l)
{
    for (uint32_t b = a->loops[l].header; b <= a->loops[l].last; b++) {
        if (a->nodes[b].loop == l && a->nodes[b].end == CPU_END_BARRIER) {
            return true;
        }
    }
    return false;
}

/* The loop that the present node is in, if it is such a one; else NULL. */
static gen_ahead_t *present_loop(cpu_gen_t *gen)
{
    uint32_t l = gen->a->nodes[gen->node].loop;
    if (l == CPU_NO_LOOP || gen->a->loops[l].deferred || !stops(gen->a, l)) {
        return NULL;
    }
    if (gen->tiles == NULL) {
        gen->tiles = cpu_arena_alloc(gen->arena, gen->a->loop_count, sizeof *gen->tiles);
    }
    if (gen->tiles[l] == NULL) {
        gen->tiles[l] = gen_ahead_describe(gen, l);
        gen->tiles[l]->last = LLVMConstInt(gen->i64, 1, 0);
    }
    return gen->tiles[l];
}

/* Short steps the processor follows by itself. */
static bool is_short(val_t step)
{
    enum { SHORT = 1024 };
    int64_t s = LLVMIsAConstantInt(step) != NULL ? LLVMConstIntGetSExtValue(step) : SHORT;
    return s > -SHORT && s < SHORT;
}

/* What an iteration adds to the address of the load, i64; NULL: unknown, or nothing. */
static val_t step_of(cpu_gen_t *gen, gen_ahead_t *h, const ptx_instr_t *i)
{
    const ptx_operand_t *o = ptx_src(gen->f, i, 0);
    cpu_form_t form = cpu_operand_form(gen->a, o);
    uint64_t place = gen_place(gen->node, (uint32_t)(i - gen->f->instrs));
    val_t first;
    if (o->base != PTX_OPERAND_REG || gen_address_bits(gen, o) != 64 || !cpu_form_affine(&form)) {
        return NULL;
    }
    val_t step = gen_line_address(gen, h, o, place, &form, &first);
    h->fine = NULL; /* it need not be right */
    return step == NULL || is_short(step) ? NULL : step;
}

/* Has another load of the node fetched these lines? If not, this one does. */
static bool is_fetched(cpu_gen_t *gen, const ptx_instr_t *i)
{
    const ptx_operand_t *o = ptx_src(gen->f, i, 0);
    int64_t at = ptx_operand_offset(o);
    for (unsigned n = 0; n < GEN_TILE_NOTES; n++) {
        gen_tile_note_t *t = &gen->tile_notes[n];
        if (t->used && t->node == gen->node && t->g == gen->g && t->reg == o->index &&
            at - t->offset < LINE && t->offset - at < LINE) {
            return true;
        }
    }
    gen->tile_notes[gen->tile_note++ % GEN_TILE_NOTES] =
        (gen_tile_note_t){true, gen->node, gen->g, o->index, at};
    return false;
}

val_t gen_tiles_next(cpu_gen_t *gen, const ptx_instr_t *i)
{
    bool plain = i->op == PTX_OP_LD && i->space == PTX_SPACE_GLOBAL && i->sem == PTX_SEM_NONE &&
                 i->guard == PTX_NONE;
    gen_ahead_t *h =
        plain && gen->W > 1 && !gen->masked && gen->ahead == NULL ? present_loop(gen) : NULL;
    val_t step = h != NULL ? step_of(gen, h, i) : NULL;
    return step == NULL || is_fetched(gen, i) ? NULL : step;
}

void gen_tiles_fetch(cpu_gen_t *gen, val_t at, val_t next, uint64_t bytes)
{
    val_t p = LLVMBuildGEP2(B, gen->i8, at, &next, 1, "");
    for (uint64_t k = 0; k < bytes; k += LINE) {
        gen_prefetch(gen, gen_offset(gen, p, k), GEN_ALL_CACHES);
    }
}
