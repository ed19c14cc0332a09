/* Tables in shared memory that small numbers index, as histograms have them: bins[byte]. An address is
 * followed back, within its node, to the number that makes the lanes differ. Where no sum on the way can
 * wrap and the largest number stays inside of the kernel's own variables, the addresses of 64 bits need
 * not be made at all: bytes or halves say all that there is to say, and nothing is to be checked. */
#include "gpu-proxy/cpu/jit/gen.h"

#define B gen->b

enum { MOST_STEPS = 8 };

/* address = base + scale * reg */
typedef struct {
    uint32_t reg, use; /* the instruction that reads reg */
    uint64_t scale, align;
    val_t base; /* NULL: 0 so far */
} walk_t;

static void is_it(void *context, uint32_t reg)
{
    uint32_t *wanted = context;
    *wanted = reg == *wanted ? PTX_NONE : *wanted;
}

/* The first instruction from `first` on, before `end`, that writes the register; or PTX_NONE. */
static uint32_t def_between(const cpu_gen_t *gen, uint32_t reg, uint32_t first, uint32_t end)
{
    for (uint32_t k = first; k < end; k++) {
        uint32_t wanted = reg;
        cpu_visit_defs(gen->f, &gen->f->instrs[k], is_it, &wanted);
        if (wanted == PTX_NONE) {
            return k;
        }
    }
    return PTX_NONE;
}

/* Has the operand, which instruction `use` read, the same value now? */
static bool lasts(const cpu_gen_t *gen, const ptx_operand_t *o, uint32_t use)
{
    uint32_t now = (uint32_t)(gen->i - gen->f->instrs);
    return o->kind != PTX_OPERAND_REG || def_between(gen, o->index, use, now) == PTX_NONE;
}

/* Adds scale * o, which is alike in all lanes. */
static bool add(cpu_gen_t *gen, walk_t *w, const ptx_operand_t *o, unsigned bits)
{
    cpu_form_t form = cpu_operand_form(gen->a, o);
    if (!cpu_form_uniform(&form) || !lasts(gen, o, w->use) ||
        (o->kind == PTX_OPERAND_REG && cpu_reg_bits(gen->f, o->index) != bits)) {
        return false;
    }
    val_t v = gen_base(gen, o, gen_int(gen, bits));
    v = bits < 64 ? LLVMBuildZExt(B, v, gen->i64, "") : v;
    v = LLVMBuildMul(B, v, gen_like(v, w->scale), "");
    w->base = w->base == NULL ? v : LLVMBuildAdd(B, w->base, v, "");
    uint64_t align = cpu_operand_align(gen->a, o) * w->scale;
    w->align = align < w->align ? align : w->align;
    return true;
}

static bool go_on(walk_t *w, const ptx_operand_t *o, uint64_t factor)
{
    w->reg = o->index;
    w->scale *= factor;
    return o->kind == PTX_OPERAND_REG && factor != 0 && w->scale <= 8;
}

/* Is the number the same in this type? */
static bool fits(const cpu_gen_t *gen, const ptx_operand_t *o, unsigned type)
{
    unsigned bits = ptx_type_size((ptx_type_t)type) * 8 - ptx_type_is_signed((ptx_type_t)type);
    return !ptx_type_is_float((ptx_type_t)type) &&
           (bits >= 64 || cpu_operand_high(gen->a, o) >> bits == 0);
}

/* From the register to what it is made of. */
static bool back(cpu_gen_t *gen, walk_t *w)
{
    uint32_t at = def_between(gen, w->reg, gen->a->nodes[gen->node].first, w->use);
    const ptx_instr_t *i = at != PTX_NONE ? &gen->f->instrs[at] : NULL;
    if (i == NULL || gen->a->values[w->reg].defs != 1 || i->guard != PTX_NONE ||
        i->dst_count != 1 || ptx_type_is_float((ptx_type_t)i->type) ||
        (i->flags & (PTX_F_SAT | PTX_F_CC)) != 0) {
        return false;
    }
    unsigned bits = ptx_type_size((ptx_type_t)i->type) * 8;
    const ptx_operand_t *x = ptx_src(gen->f, i, 0),
                        *y = i->src_count > 1 ? ptx_src(gen->f, i, 1) : x;
    cpu_form_t form = cpu_operand_form(gen->a, x);
    uint64_t c;
    w->use = at;
    switch (i->op) {
    case PTX_OP_ADD:
        return cpu_form_uniform(&form) ? add(gen, w, x, bits) && go_on(w, y, 1)
                                       : add(gen, w, y, bits) && go_on(w, x, 1);
    case PTX_OP_SHL:
        return cpu_operand_constant(gen->a, y, &c) && c <= 3 && go_on(w, x, (uint64_t)1 << c);
    case PTX_OP_MUL:
        return i->mode != PTX_MUL_HI && cpu_operand_constant(gen->a, y, &c) && c <= 8 &&
               go_on(w, x, c);
    case PTX_OP_MAD:
        return i->mode != PTX_MUL_HI && cpu_operand_constant(gen->a, y, &c) && c <= 8 &&
               add(gen, w, ptx_src(gen->f, i, 2), i->mode == PTX_MUL_WIDE ? bits * 2 : bits) &&
               go_on(w, x, c);
    case PTX_OP_MOV:
        return go_on(w, x, 1);
    case PTX_OP_CVT:
        return i->src_count == 1 && fits(gen, x, i->type) && fits(gen, x, i->type2) &&
               go_on(w, x, 1);
    default:
        return false;
    }
}

static uint64_t high_of(const cpu_gen_t *gen, uint32_t reg)
{
    ptx_operand_t o = {.kind = PTX_OPERAND_REG, .index = reg};
    return cpu_operand_high(gen->a, &o);
}

bool gen_narrow_find(cpu_gen_t *gen, const gen_addr_t *a, gen_narrow_t *n)
{
    enum { BYTE = 255, HALF = 65535 };
    int64_t offset = ptx_operand_offset(a->o);
    walk_t w = {.reg = a->o->index,
                .use = (uint32_t)(gen->i - gen->f->instrs),
                .scale = 1,
                .align = a->bytes};
    if (a->space != PTX_SPACE_SHARED || a->o->base != PTX_OPERAND_REG || offset < 0 ||
        offset > INT32_MAX || a->form.tag != CPU_FORM_VARYING || gen->W < 8) {
        return false;
    }
    uint64_t high = high_of(gen, w.reg); /* known: no sum wraps on the way */
    if (high > INT32_MAX || high + (uint64_t)offset + a->bytes > gen->f->shared_size) {
        return false;
    }
    for (unsigned k = 0; high_of(gen, w.reg) > BYTE && k < MOST_STEPS; k++) {
        walk_t before = w;
        if (!back(gen, &w)) {
            w = before;
            break;
        }
    }
    ptx_operand_t number = {.kind = PTX_OPERAND_REG, .index = w.reg};
    unsigned bits = cpu_reg_bits(gen->f, w.reg);
    uint64_t most = high_of(gen, w.reg);
    if (most > HALF || bits < 16 || !lasts(gen, &number, w.use) || w.scale % a->bytes != 0 ||
        w.align % a->bytes != 0 || (uint64_t)offset % a->bytes != 0) {
        return false;
    }
    n->bits = most > BYTE ? 16 : 8;
    n->scale = w.scale;
    n->base = LLVMConstInt(gen->i64, (uint64_t)offset, 0);
    n->base = w.base != NULL ? LLVMBuildAdd(B, w.base, n->base, "") : n->base;
    n->places = gen_read(gen, &number, bits == 16 ? PTX_U16 : bits == 32 ? PTX_U32 : PTX_U64, true);
    if (bits > n->bits) {
        n->places = LLVMBuildTrunc(B, n->places, gen_vector(gen, gen_int(gen, n->bits)), "");
    }
    return true;
}
