/* How values vary over the lanes of a strip. */
#include "gpu-proxy/cpu/jit/analysis/analysis.h"

static const cpu_form_t NONE = {.tag = CPU_FORM_NONE};
static const cpu_form_t VARYING = {.tag = CPU_FORM_VARYING};
static const cpu_form_t UNIFORM = {.tag = CPU_FORM_AFFINE};

bool cpu_form_uniform(const cpu_form_t *form)
{
    return form->tag == CPU_FORM_AFFINE && form->stride == 0 && form->scale == 0;
}

bool cpu_form_equal(const cpu_form_t *x, const cpu_form_t *y)
{
    return x->tag == y->tag && x->stride == y->stride && x->scale == y->scale &&
           (x->scale == 0 || (x->step == y->step && x->sign == y->sign));
}

static int64_t wrap(uint64_t v, unsigned bits)
{
    return bits >= 64 ? (int64_t)v : (int64_t)(v << (64 - bits)) >> (64 - bits);
}

static cpu_form_t affine(uint64_t stride, unsigned bits)
{
    return (cpu_form_t){.tag = CPU_FORM_AFFINE, .stride = wrap(stride, bits)};
}

static cpu_form_t sreg_form(const cpu_analysis_t *a, uint32_t sreg)
{
    bool warps = a->config.layout == CPU_LAYOUT_WARPS;
    switch (sreg) {
    case PTX_SREG_TID_X:
        return warps ? VARYING : affine(1, 32);
    case PTX_SREG_TID_Y:
    case PTX_SREG_TID_Z:
        return warps ? VARYING : UNIFORM;
    case PTX_SREG_LANEID:
        return affine(1, 32);
    case PTX_SREG_LANEMASK_EQ:
    case PTX_SREG_LANEMASK_LE:
    case PTX_SREG_LANEMASK_LT:
    case PTX_SREG_LANEMASK_GE:
    case PTX_SREG_LANEMASK_GT:
        return VARYING;
    default:
        return UNIFORM;
    }
}

static bool sreg_per_strip(const cpu_analysis_t *a, uint32_t sreg)
{
    const cpu_config_t *c = &a->config;
    bool exact = c->shape.kind == CPU_SHAPE_EXACT;
    if (c->strips == 1) {
        return false;
    }
    switch (sreg) {
    case PTX_SREG_TID_X:
        return c->layout != CPU_LAYOUT_ROWS;
    case PTX_SREG_TID_Y:
        return c->layout != CPU_LAYOUT_COLUMNS || !exact ||
               c->shape.block[1] * c->shape.block[2] != 1;
    case PTX_SREG_TID_Z:
        if (c->layout == CPU_LAYOUT_ROWS && exact) {
            return c->shape.block[1] % c->strips != 0;
        }
        return c->layout != CPU_LAYOUT_COLUMNS || !exact ||
               c->shape.block[1] * c->shape.block[2] != 1;
    case PTX_SREG_WARPID:
    case PTX_SREG_LANEID: /* W = 1 only: else the same in every warp */
        return true;
    default:
        return false;
    }
}

cpu_form_t cpu_operand_form(const cpu_analysis_t *a, const ptx_operand_t *o)
{
    switch (o->kind) {
    case PTX_OPERAND_REG:
        return a->values[o->index].form;
    case PTX_OPERAND_SREG:
        return a->config.width == 1 ? UNIFORM : sreg_form(a, o->index);
    case PTX_OPERAND_ADDRESS:
        return o->base == PTX_OPERAND_REG ? a->values[o->index].form : UNIFORM;
    case PTX_OPERAND_VECTOR: {
        cpu_form_t all = UNIFORM;
        for (unsigned n = 0; n < o->count; n++) {
            cpu_form_t e = cpu_operand_form(a, ptx_element(a->f, o, n));
            if (e.tag == CPU_FORM_NONE) {
                return NONE;
            }
            if (!cpu_form_uniform(&e)) {
                all = VARYING;
            }
        }
        return all;
    }
    default:
        return UNIFORM;
    }
}

bool cpu_operand_per_strip(const cpu_analysis_t *a, const ptx_operand_t *o)
{
    switch (o->kind) {
    case PTX_OPERAND_REG:
        return a->values[o->index].per_strip;
    case PTX_OPERAND_SREG:
        return sreg_per_strip(a, o->index);
    case PTX_OPERAND_ADDRESS:
        return o->base == PTX_OPERAND_REG && a->values[o->index].per_strip;
    case PTX_OPERAND_VECTOR:
        for (unsigned n = 0; n < o->count; n++) {
            if (cpu_operand_per_strip(a, ptx_element(a->f, o, n))) {
                return true;
            }
        }
        return false;
    default:
        return false;
    }
}

static bool is_integer(unsigned type)
{
    return (type >= PTX_B8 && type <= PTX_B64) || (type >= PTX_U8 && type <= PTX_U64) ||
           (type >= PTX_S8 && type <= PTX_S64);
}

static unsigned type_bits(unsigned type)
{
    return ptx_type_size((ptx_type_t)type) * 8;
}

static cpu_form_t src_form(const cpu_analysis_t *a, const ptx_instr_t *i, unsigned n)
{
    return cpu_operand_form(a, ptx_src(a->f, i, n));
}

/* A register read as a narrower type loses its form, unless it is uniform. */
static cpu_form_t read_form(const cpu_analysis_t *a, const ptx_instr_t *i, unsigned n,
                            unsigned bits)
{
    const ptx_operand_t *o = ptx_src(a->f, i, n);
    cpu_form_t form = cpu_operand_form(a, o);
    if (form.tag == CPU_FORM_AFFINE && !cpu_form_uniform(&form) && o->kind == PTX_OPERAND_REG &&
        cpu_reg_bits(a->f, o->index) != bits) {
        return VARYING;
    }
    return form;
}

static cpu_form_t sum(cpu_form_t x, cpu_form_t y, bool minus, unsigned bits)
{
    if (x.tag != CPU_FORM_AFFINE || y.tag != CPU_FORM_AFFINE || (x.scale != 0 && y.scale != 0)) {
        return VARYING;
    }
    cpu_form_t r = x.scale != 0 ? x : y;
    if (x.scale == 0 && minus) {
        r.scale = (int64_t)(0 - (uint64_t)y.scale);
    }
    uint64_t other = (uint64_t)y.stride;
    r.stride = wrap((uint64_t)x.stride + (minus ? 0 - other : other), bits);
    return r;
}

static cpu_form_t times(cpu_form_t x, uint64_t c, unsigned bits)
{
    if (x.tag == CPU_FORM_AFFINE) {
        x.stride = wrap((uint64_t)x.stride * c, bits);
        x.scale = (int64_t)((uint64_t)x.scale * c);
    }
    return x;
}

/* 32 to 64 bits. */
static cpu_form_t widen(const cpu_analysis_t *a, const ptx_operand_t *o, cpu_form_t x, bool sign)
{
    if (x.tag != CPU_FORM_AFFINE || cpu_form_uniform(&x)) {
        return x;
    }
    if (cpu_operand_high(a, o) <= INT32_MAX) {
        return affine((uint64_t)x.stride, 64);
    }
    return (cpu_form_t){
        .tag = CPU_FORM_AFFINE, .sign = sign, .scale = 1, .step = (int32_t)x.stride};
}

static cpu_form_t mul_form(const cpu_analysis_t *a, const ptx_instr_t *i)
{
    unsigned bits = type_bits(i->type);
    bool sign = ptx_type_is_signed((ptx_type_t)i->type);
    cpu_form_t x = read_form(a, i, 0, bits), y = read_form(a, i, 1, bits);
    uint64_t c;
    unsigned which = 0;
    if (cpu_form_uniform(&x) && cpu_form_uniform(&y)) {
        return UNIFORM;
    }
    if (!cpu_operand_constant(a, ptx_src(a->f, i, 1), &c)) {
        if (!cpu_operand_constant(a, ptx_src(a->f, i, 0), &c)) {
            return VARYING;
        }
        which = 1;
        x = y;
    }
    if (i->mode == PTX_MUL_LO) {
        return times(x, c, bits);
    }
    if (i->mode == PTX_MUL_WIDE && bits == 32) {
        c = sign ? (uint64_t)wrap(c, 32) : c & UINT32_MAX;
        return times(widen(a, ptx_src(a->f, i, which), x, sign), c, 64);
    }
    return VARYING;
}

static cpu_form_t cvt_form(const cpu_analysis_t *a, const ptx_instr_t *i)
{
    const ptx_operand_t *o = ptx_src(a->f, i, 0);
    unsigned to = type_bits(i->type), from = type_bits(i->type2);
    cpu_form_t x = read_form(a, i, 0, from);
    if (x.tag != CPU_FORM_AFFINE || cpu_form_uniform(&x)) {
        return x;
    }
    if (!is_integer(i->type) || !is_integer(i->type2) || (i->flags & PTX_F_SAT) != 0) {
        return VARYING;
    }
    const ptx_operand_t *d = ptx_dst(a->f, i, 0);
    if (d->kind == PTX_OPERAND_REG && cpu_reg_bits(a->f, d->index) != to) {
        return VARYING; /* a narrow result extended into a wider register */
    }
    if (to <= from) {
        return affine((uint64_t)x.stride + (uint64_t)x.scale * (uint64_t)(int64_t)x.step, to);
    }
    if (from == 16 && x.scale == 0 && cpu_operand_high(a, o) <= INT16_MAX) {
        return affine((uint64_t)x.stride, to);
    }
    if (to == 64 && from == 32) {
        return widen(a, o, x, ptx_type_is_signed((ptx_type_t)i->type2));
    }
    return VARYING;
}

/* The power of two that divides an operand in every lane. */
static uint64_t lane_align(const cpu_analysis_t *a, const ptx_operand_t *o, const cpu_form_t *form)
{
    uint64_t align = cpu_operand_align(a, o), stride = (uint64_t)form->stride;
    uint64_t low = stride & (0 - stride);
    return stride != 0 && low < align ? low : align;
}

bool cpu_or_is_add(const cpu_analysis_t *a, const ptx_instr_t *i)
{
    const ptx_operand_t *x = ptx_src(a->f, i, 0), *y = ptx_src(a->f, i, 1);
    cpu_form_t p = cpu_operand_form(a, x), q = cpu_operand_form(a, y);
    if (p.tag != CPU_FORM_AFFINE || p.scale != 0 || q.tag != CPU_FORM_AFFINE || q.scale != 0) {
        return false;
    }
    return cpu_operand_high(a, y) < lane_align(a, x, &p) ||
           cpu_operand_high(a, x) < lane_align(a, y, &q);
}

/* x & c and x >> c: the bits in which lanes differ are all kept, or all cut. */
static cpu_form_t mask_form(const cpu_analysis_t *a, const ptx_instr_t *i, unsigned bits)
{
    const ptx_operand_t *x = ptx_src(a->f, i, 0);
    cpu_form_t form = read_form(a, i, 0, bits);
    uint64_t c, block = cpu_lanes_block(a, x, &form);
    if (form.tag != CPU_FORM_AFFINE || form.scale != 0 ||
        !cpu_operand_constant(a, ptx_src(a->f, i, 1), &c)) {
        return VARYING;
    }
    if (i->op == PTX_OP_AND) { /* the stride's low zeros are bits that all lanes have alike */
        uint64_t stride = (uint64_t)form.stride;
        uint64_t differ = (block - 1) & ~((stride & (0 - stride)) - 1);
        return block == 0               ? VARYING
               : (c & differ) == differ ? form
               : (c & differ) == 0      ? UNIFORM
                                        : VARYING;
    }
    if (c >= 32) {
        return VARYING;
    }
    uint64_t unit = (uint64_t)1 << c;
    if (block != 0 && block <= unit) {
        return UNIFORM;
    }
    if (form.stride > 0 && (uint64_t)form.stride % unit == 0 && cpu_operand_align(a, x) >= unit &&
        cpu_operand_high(a, x) <= INT32_MAX) {
        return affine((uint64_t)form.stride >> c, bits);
    }
    return VARYING;
}

static cpu_form_t load_form(const cpu_analysis_t *a, const ptx_instr_t *i)
{
    cpu_form_t x = src_form(a, i, 0);
    if (i->space == PTX_SPACE_LOCAL && cpu_form_uniform(&x)) {
        return VARYING;
    }
    return x.tag == CPU_FORM_NONE ? NONE : cpu_form_uniform(&x) ? UNIFORM : VARYING;
}

static cpu_form_t cvta_form(const cpu_analysis_t *a, const ptx_instr_t *i)
{
    cpu_form_t x = src_form(a, i, 0);
    if (i->space == PTX_SPACE_LOCAL && x.tag == CPU_FORM_AFFINE) {
        uint64_t frame = (a->f->local_size + 15) & ~(uint64_t)15;
        return sum(x, affine(frame, 64), (i->flags & PTX_F_TO) != 0, 64);
    }
    return x;
}

static cpu_form_t selp_form(const cpu_analysis_t *a, const ptx_instr_t *i)
{
    cpu_form_t x = src_form(a, i, 0), y = src_form(a, i, 1), p = src_form(a, i, 2);
    if (x.tag == CPU_FORM_NONE || y.tag == CPU_FORM_NONE || p.tag == CPU_FORM_NONE) {
        return NONE;
    }
    return cpu_form_uniform(&p) && cpu_form_equal(&x, &y) ? x : VARYING;
}

/* What the members of a warp find out is one thing for all lanes, if they are one set. */
static cpu_form_t meeting_form(const cpu_analysis_t *a, const ptx_instr_t *i)
{
    unsigned members;
    if (!cpu_instr_syncs_warp(i, &members)) {
        return UNIFORM;
    }
    cpu_form_t form = src_form(a, i, members);
    return cpu_form_uniform(&form) ? UNIFORM : VARYING;
}

static cpu_form_t default_form(const cpu_analysis_t *a, const ptx_instr_t *i)
{
    cpu_form_t all = UNIFORM;
    for (unsigned n = 0; n < i->src_count; n++) {
        cpu_form_t x = src_form(a, i, n);
        if (x.tag == CPU_FORM_NONE) {
            return NONE;
        }
        if (!cpu_form_uniform(&x)) {
            all = VARYING;
        }
    }
    return all;
}

cpu_form_t cpu_instr_form(const cpu_analysis_t *a, const ptx_instr_t *i)
{
    cpu_form_t plain = default_form(a, i);
    unsigned bits = type_bits(i->type);
    if (plain.tag == CPU_FORM_NONE) {
        return NONE;
    }
    if (a->config.width == 1) {
        return UNIFORM;
    }
    switch (i->op) {
    case PTX_OP_ATOM:
    case PTX_OP_SHFL:
    case PTX_OP_RUNTIME:
    case PTX_OP_MBARRIER:
    case PTX_OP_WMMA:
    case PTX_OP_MMA:
    case PTX_OP_LDMATRIX:
    case PTX_OP_MOVMATRIX:
        return VARYING;
    case PTX_OP_MATCH:
        return i->mode == PTX_VOTE_ALL ? meeting_form(a, i) : VARYING;
    case PTX_OP_VOTE:
    case PTX_OP_REDUX:
        return meeting_form(a, i);
    case PTX_OP_ACTIVEMASK:
    case PTX_OP_BAR:
        return UNIFORM;
    case PTX_OP_ELECT:
        return VARYING;
    case PTX_OP_LD:
    case PTX_OP_LDU:
        return load_form(a, i);
    case PTX_OP_CVTA:
        return cvta_form(a, i);
    default:
        break;
    }
    if (cpu_form_uniform(&plain)) {
        return plain;
    }
    if (i->op == PTX_OP_SETP) {
        return cpu_compare_is_uniform(a, i) ? UNIFORM : VARYING;
    }
    if (i->dst_count != 1 || i->type == PTX_PRED) {
        return VARYING;
    }
    if (i->op == PTX_OP_MOV) {
        const ptx_operand_t *d = ptx_dst(a->f, i, 0), *s = ptx_src(a->f, i, 0);
        bool same = d->kind == PTX_OPERAND_REG &&
                    (s->kind == PTX_OPERAND_SREG
                         ? cpu_reg_bits(a->f, d->index) == 32
                         : s->kind == PTX_OPERAND_REG &&
                               cpu_reg_bits(a->f, d->index) == cpu_reg_bits(a->f, s->index));
        return same ? src_form(a, i, 0) : VARYING;
    }
    if (i->op == PTX_OP_SELP) {
        return selp_form(a, i);
    }
    if (i->op == PTX_OP_MAX) {
        return cpu_max_is_bound(a, i) ? UNIFORM : VARYING;
    }
    if (i->op == PTX_OP_CVT) { /* of two values: never affine */
        return i->src_count > 1 ? VARYING : cvt_form(a, i);
    }
    if (!is_integer(i->type) || bits < 16 || (i->flags & (PTX_F_SAT | PTX_F_CC)) != 0) {
        return VARYING;
    }
    uint64_t c;
    switch (i->op) {
    case PTX_OP_ADD:
    case PTX_OP_SUB:
        return sum(read_form(a, i, 0, bits), read_form(a, i, 1, bits), i->op == PTX_OP_SUB, bits);
    case PTX_OP_MUL:
        return mul_form(a, i);
    case PTX_OP_MAD: {
        unsigned out = i->mode == PTX_MUL_WIDE ? bits * 2 : bits;
        return i->mode == PTX_MUL_HI ? VARYING
                                     : sum(mul_form(a, i), read_form(a, i, 2, out), false, out);
    }
    case PTX_OP_SHL:
        return cpu_operand_constant(a, ptx_src(a->f, i, 1), &c) && c < bits
                   ? times(read_form(a, i, 0, bits), (uint64_t)1 << c, bits)
                   : VARYING;
    case PTX_OP_OR:
        return cpu_or_is_add(a, i)
                   ? sum(read_form(a, i, 0, bits), read_form(a, i, 1, bits), false, bits)
                   : VARYING;
    case PTX_OP_AND:
    case PTX_OP_SHR:
        return mask_form(a, i, bits);
    default:
        return VARYING;
    }
}

static bool instr_per_strip(const cpu_analysis_t *a, const ptx_instr_t *i)
{
    if (i->guard != PTX_NONE && a->values[i->guard].per_strip) {
        return true;
    }
    for (unsigned n = 0; n < i->src_count; n++) {
        if (cpu_operand_per_strip(a, ptx_src(a->f, i, n))) {
            return true;
        }
    }
    switch (i->op) {
    case PTX_OP_ATOM:
    case PTX_OP_SHFL:
    case PTX_OP_VOTE:
    case PTX_OP_MATCH:
    case PTX_OP_REDUX:
    case PTX_OP_ACTIVEMASK:
    case PTX_OP_ELECT:
    case PTX_OP_RUNTIME:
    case PTX_OP_MBARRIER:
    case PTX_OP_WMMA:
    case PTX_OP_MMA:
    case PTX_OP_LDMATRIX:
    case PTX_OP_MOVMATRIX:
        return true;
    default:
        return i->space == PTX_SPACE_LOCAL;
    }
}

typedef struct {
    cpu_analysis_t *a;
    const ptx_instr_t *i;
    cpu_form_t form;
    bool per_strip;
    bool changed;
} update_t;

static void update(void *context, uint32_t reg)
{
    update_t *u = context;
    cpu_value_t *v = &u->a->values[reg];
    cpu_form_t form = u->form;
    if (u->i->guard != PTX_NONE && form.tag == CPU_FORM_AFFINE) {
        /* The old value stays in some lanes. */
        const cpu_form_t *guard = &u->a->values[u->i->guard].form;
        if (guard->tag == CPU_FORM_NONE) {
            return;
        }
        if (!cpu_form_uniform(guard)) {
            form = VARYING;
        }
    }
    if (v->forced) {
        form = VARYING;
    }
    if (v->form.tag != CPU_FORM_NONE && !cpu_form_equal(&v->form, &form)) {
        form = VARYING;
    }
    if (!cpu_form_equal(&v->form, &form) || (u->per_strip && !v->per_strip)) {
        v->form = form;
        v->per_strip |= u->per_strip;
        u->changed = true;
    }
}

void cpu_forms_propagate(cpu_analysis_t *a)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t b = 0; b < a->node_count; b++) {
            const cpu_node_t *n = &a->nodes[b];
            uint32_t count = n->count + (n->end == CPU_END_BARRIER);
            for (uint32_t k = 0; k < count; k++) {
                const ptx_instr_t *i = &a->f->instrs[k < n->count ? n->first + k : n->last];
                update_t u = {.a = a, .i = i, .form = cpu_instr_form(a, i)};
                if (i->dst_count == 0 || u.form.tag == CPU_FORM_NONE) {
                    continue;
                }
                u.per_strip = a->config.strips > 1 && instr_per_strip(a, i);
                cpu_visit_defs(a->f, i, update, &u);
                changed |= u.changed;
            }
        }
    }
}

static void count_def(void *context, uint32_t reg)
{
    ((cpu_value_t *)context)[reg].defs++;
}

unsigned cpu_live_vectors(const cpu_analysis_t *a, uint32_t b)
{
    unsigned n = 0;
    for (uint32_t r = 0; r < a->f->reg_count; r++) {
        const cpu_value_t *v = &a->values[r];
        if (v->form.tag == CPU_FORM_VARYING && a->f->regs[r].type != PTX_PRED &&
            cpu_bits_has(a->live_in[b], r)) {
            n += cpu_reg_bits(a->f, r) > 32 ? 2 : 1;
        }
    }
    return n;
}

static unsigned widest(const cpu_analysis_t *a)
{
    unsigned most = 0;
    for (uint32_t b = 0; b < a->node_count; b++) {
        unsigned n = cpu_live_vectors(a, b);
        most = n > most ? n : most;
    }
    return most;
}

/* Registers that nothing writes, and what depends on them: zero, which has a form. True if there were
 * such: then others may depend on them. */
static bool form_the_rest(cpu_analysis_t *a)
{
    bool any = false;
    for (uint32_t r = 0; r < a->f->reg_count; r++) {
        if (a->values[r].form.tag == CPU_FORM_NONE) {
            a->values[r].form = UNIFORM;
            any = true;
        }
    }
    return any;
}

void cpu_analyse_forms(cpu_analysis_t *a)
{
    a->values = cpu_arena_alloc(a->arena, a->f->reg_count + 1, sizeof *a->values);
    a->divergent = cpu_arena_alloc(a->arena, a->node_count, 1);
    a->crowded = cpu_arena_alloc(a->arena, a->node_count, 1);
    a->thinned = cpu_arena_alloc(a->arena, a->node_count, 1);
    a->held = cpu_arena_alloc(a->arena, a->node_count, 1);
    a->any_divergent = false;
    for (uint32_t b = 0; b < a->node_count; b++) {
        const cpu_node_t *n = &a->nodes[b];
        for (uint32_t k = 0; k < n->count; k++) {
            cpu_visit_defs(a->f, &a->f->instrs[n->first + k], count_def, a->values);
        }
        if (n->end == CPU_END_BARRIER) {
            cpu_visit_defs(a->f, &a->f->instrs[n->last], count_def, a->values);
        }
    }
    cpu_facts_compute(a);
    do {
        do {
            cpu_forms_propagate(a);
        } while (cpu_regions_update(a));
    } while (form_the_rest(a));
    a->max_live = widest(a);
}
