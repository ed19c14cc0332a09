/* How wide strips are and how many make a group. What decides is that the registers of a group, each
 * W * G lanes wide, fit the vector registers. */
#include "gpu-proxy/cpu/jit/compile.h"
#include "gpu-proxy/cpu/jit/helpers.h"

enum {
    V3_LANES = 8,
    V4_LANES = 16,
    V3_REGISTERS = 13,
    V4_REGISTERS = 28,
    MOST_INSTRUCTIONS = 2400,
    FEW_INSTRUCTIONS = 720
};

static bool needs_warps(const ptx_function_t *f)
{
    for (uint32_t n = 0; n < f->instr_count; n++) {
        const ptx_instr_t *i = &f->instrs[n];
        if (cpu_instr_needs_warp(i)) {
            return true;
        }
        for (unsigned s = 0; s < i->src_count; s++) {
            const ptx_operand_t *o = ptx_src(f, i, s);
            if (o->kind == PTX_OPERAND_SREG && cpu_sreg_needs_warp(o->index)) {
                return true;
            }
        }
    }
    return false;
}

/* Thread by thread, lanes can meet at barriers and at what exchange.h does. */
static bool has_scalar_form(const ptx_function_t *f)
{
    for (uint32_t n = 0; n < f->instr_count; n++) {
        const ptx_instr_t *i = &f->instrs[n];
        if (cpu_instr_needs_warp(i) && i->op != PTX_OP_BAR && !cpu_instr_exchanges(i)) {
            return false;
        }
    }
    return true;
}

static bool counts_warps(const ptx_function_t *f)
{
    for (uint32_t n = 0; n < f->instr_count; n++) {
        const ptx_instr_t *i = &f->instrs[n];
        const ptx_operand_t *o = i->op == PTX_OP_BAR ? ptx_src(f, i, 0) : NULL;
        bool whole = o != NULL && o->kind == PTX_OPERAND_IMM &&
                     (o->value == 0 || o->value == PTX_BARRIER_CLUSTER);
        if (o != NULL && (cpu_instr_needs_warp(i) || !whole)) {
            return true;
        }
    }
    return false;
}

static uint32_t layout_of(const cpu_shape_t *s, unsigned width, bool warps)
{
    bool flat = s->kind == CPU_SHAPE_LINEAR ||
                (s->kind == CPU_SHAPE_EXACT && s->block[1] == 1 && s->block[2] == 1);
    if (flat) {
        return CPU_LAYOUT_COLUMNS;
    }
    if (warps && (s->kind != CPU_SHAPE_EXACT || s->block[0] % width != 0)) {
        return CPU_LAYOUT_WARPS;
    }
    return s->kind == CPU_SHAPE_EXACT ? CPU_LAYOUT_ROWS
           : warps                    ? CPU_LAYOUT_WARPS
                                      : CPU_LAYOUT_ROWS;
}

/* The width with the fewest vector operations per row; the widest of equals, but not twice the row. */
static unsigned width_for(const cpu_shape_t *s, unsigned lanes)
{
    unsigned best = 2 * lanes, cost = UINT32_MAX;
    if (s->kind != CPU_SHAPE_EXACT) {
        return best;
    }
    for (unsigned w = 2 * lanes; w >= 4; w /= 2) {
        unsigned c = (s->block[0] + w - 1) / w * (w > lanes ? w / lanes : 1);
        if (c < cost || (c == cost && best >= 2 * s->block[0])) {
            best = w;
            cost = c;
        }
    }
    return best;
}

/* Strips that a group may have without running past the rows (or the row's strips). */
static bool strips_fit(const cpu_config_t *c, unsigned strips)
{
    const cpu_shape_t *s = &c->shape;
    if (s->kind != CPU_SHAPE_EXACT) {
        return strips == 1;
    }
    uint32_t rows = s->block[1] * s->block[2];
    uint32_t all = c->layout == CPU_LAYOUT_ROWS ? rows
                   : c->layout == CPU_LAYOUT_COLUMNS
                       ? (s->block[0] + c->width - 1) / c->width * rows
                       : (s->block[0] * rows + 31) / 32;
    return all % strips == 0;
}

static bool has_barriers(const cpu_analysis_t *a)
{
    for (uint32_t b = 0; b < a->node_count; b++) {
        if (a->nodes[b].end == CPU_END_BARRIER) {
            return true;
        }
    }
    return false;
}

/* Do the loops rather move data than compute? Then one strip keeps the memory busy, and is compiled in
 * half of the time. */
static bool streams(const cpu_analysis_t *a)
{
    unsigned moved = 0, computed = 0;
    for (uint32_t b = 0; b < a->node_count; b++) {
        const cpu_node_t *n = &a->nodes[b];
        for (uint32_t k = 0; n->loop != CPU_NO_LOOP && k < n->count; k++) {
            const ptx_instr_t *i = &a->f->instrs[n->first + k];
            bool moves = i->op == PTX_OP_LD || i->op == PTX_OP_ST;
            moved += moves;
            computed += !moves && ptx_type_is_float((ptx_type_t)i->type);
        }
    }
    return computed < 2 * moved;
}

/* Loops that stride over the grid jump through memory: the more of a page is read at once the better. What
 * counts are the registers alive in loops. 0: there are no such loops, or they compute more than they move. */
static unsigned live_in_strides(const cpu_analysis_t *a)
{
    unsigned most = 1;
    bool strides = false;
    for (uint32_t l = 0; l < a->loop_count; l++) {
        strides = strides || cpu_loop_strides_grid(a, l);
    }
    for (uint32_t b = 0; strides && b < a->node_count; b++) {
        unsigned n = a->nodes[b].loop != CPU_NO_LOOP ? cpu_live_vectors(a, b) : 0;
        most = n > most ? n : most;
    }
    return strides && streams(a) ? most : 0;
}

static unsigned strips_for(const cpu_analysis_t *a, unsigned lanes, unsigned registers)
{
    const cpu_config_t *c = &a->config;
    unsigned units = c->width > lanes ? c->width / lanes : 1, strides = live_in_strides(a);
    unsigned live = strides > 0 ? strides : a->max_live > 0 ? a->max_live : 1;
    bool stops = has_barriers(a); /* each group's registers go to memory there, and come back */
    for (unsigned g = 8; g > 1; g /= 2) {
        bool small = g * a->f->instr_count <= FEW_INSTRUCTIONS; /* soon compiled */
        unsigned most = c->layout == CPU_LAYOUT_ROWS ? (small || stops ? 16 : 8)
                        : strides > 0 && small       ? 8
                                                     : 4;
        if (g * units <= most && g * units * live <= registers &&
            g * a->f->instr_count <= MOST_INSTRUCTIONS && strips_fit(c, g)) {
            return g;
        }
    }
    return 1;
}

/* Strips of the whole block: in one group they need not stop at barriers. 0: unknown. */
static unsigned all_strips(const cpu_config_t *c)
{
    const cpu_shape_t *s = &c->shape;
    if (s->kind != CPU_SHAPE_EXACT) {
        return 0;
    }
    cpu_grouping_t one = cpu_grouping(c->layout, c->width, 1, s->block);
    return one.groups;
}

static bool worth_one_group(const cpu_analysis_t *a, unsigned lanes, unsigned registers)
{
    const cpu_config_t *c = &a->config;
    unsigned units = c->width > lanes ? c->width / lanes : 1, g = all_strips(c);
    return has_barriers(a) && g > 1 && g <= CPU_MAX_STRIPS && (g & (g - 1)) == 0 &&
           g * units * (a->max_live > 0 ? a->max_live : 1) <= registers &&
           g * a->f->instr_count <= MOST_INSTRUCTIONS && strips_fit(c, g);
}

/* Where a group is the whole block and all of its lanes come together, they need not wait. */
static void drop_barriers(cpu_analysis_t *a)
{
    const cpu_config_t *c = &a->config;
    const cpu_shape_t *s = &c->shape;
    if (s->kind != CPU_SHAPE_EXACT ||
        cpu_grouping(c->layout, c->width, c->strips, s->block).groups != 1) {
        return;
    }
    for (uint32_t b = 0; b < a->node_count; b++) {
        cpu_node_t *n = &a->nodes[b];
        const ptx_instr_t *i = n->end == CPU_END_BARRIER ? &a->f->instrs[n->last] : NULL;
        if (i != NULL && !a->crowded[b] && i->dst_count == 0 && i->src_count == 1) {
            n->end = CPU_END_JUMP;
            n->last = PTX_NONE;
        }
    }
}

/* Does a loop load vectors that all strips of a group use? */
static bool shares_loads(const cpu_analysis_t *a)
{
    for (uint32_t b = 0; b < a->node_count; b++) {
        const cpu_node_t *n = &a->nodes[b];
        for (uint32_t k = 0; n->loop != CPU_NO_LOOP && k < n->count; k++) {
            const ptx_instr_t *i = &a->f->instrs[n->first + k];
            const ptx_operand_t *d = i->op == PTX_OP_LD ? ptx_dst(a->f, i, 0) : NULL;
            if (d != NULL && d->kind == PTX_OPERAND_REG && !a->values[d->index].per_strip &&
                a->values[d->index].form.tag == CPU_FORM_VARYING) {
                return true;
            }
        }
    }
    return false;
}

/* Warps that wait for their own lanes, and only for these, are groups of their own. */
static bool has_syncs(const cpu_analysis_t *a)
{
    for (uint32_t b = 0; b < a->node_count; b++) {
        if (a->nodes[b].sync != CPU_SYNC_NONE) {
            return true;
        }
    }
    return false;
}

static bool has_spins(const cpu_analysis_t *a)
{
    for (uint32_t l = 0; l < a->loop_count; l++) {
        if (a->loops[l].deferred) {
            return true;
        }
    }
    return false;
}

gb_status_t cpu_config_choose(cpu_analysis_t *a, const cpu_jit_options_t *o, bool avx512)
{
    unsigned lanes = avx512 ? V4_LANES : V3_LANES;
    bool warps = needs_warps(a->f), counted = counts_warps(a->f);
    cpu_config_t *c = &a->config;
    if (o->width == 1 && !has_scalar_form(a->f)) {
        return gb_fail(GB_ERR_UNSUPPORTED, "%s needs whole warps: it has no scalar form",
                       a->f->name);
    }
    c->shape = o->shape;
    c->width = o->width == 1      ? 1
               : warps || counted ? 32
               : o->width         ? o->width
                                  : width_for(&o->shape, lanes);
    c->layout = layout_of(&o->shape, c->width, warps || counted);
    c->strips = 1;
    cpu_analyse_forms(a);
    cpu_analyse_paces(a);
    unsigned registers = avx512 ? V4_REGISTERS : V3_REGISTERS;
    if (!warps && !counted && o->width == 0 && c->width == 2 * lanes &&
        2 * a->max_live > registers) { /* half as wide: one register each */
        c->width = lanes;
        cpu_analyse_forms(a);
    }
    unsigned strips = counted || c->width == 1 || has_syncs(a) ? 1
                      : o->strips                              ? o->strips
                                                               : strips_for(a, lanes, registers);
    bool one_group = o->strips == 0 && !counted && c->width > 1 && !has_spins(a) &&
                     worth_one_group(a, lanes, registers);
    strips = one_group ? all_strips(c) : strips;
    if (strips != 1) {
        c->strips = strips;
        cpu_analyse_forms(a);
    }
    unsigned enough = streams(a) ? 1 : 2;
    if (o->strips == 0 && !one_group && strips > enough && !shares_loads(a) &&
        live_in_strides(a) != 1) { /* little to gain, longer to compile; with one it is soon done */
        c->strips = enough;
        cpu_analyse_forms(a);
    }
    drop_barriers(a);
    return GB_OK;
}
