/* How affine registers go on from iteration to iteration of a loop.
 *
 * A register that every iteration adds the same to goes up in a line, and so does what is computed
 * from it by sums, and by products with what does not change. The arithmetic wraps as the
 * instructions do; where 32 bits are widened to 64 a wrap would break the line, so it becomes a
 * condition that none occurs. */
#include "gpu-proxy/cpu/jit/gen_ahead.h"

#define B gen->b

enum { MAX_DEPTH = 16 };

static const gen_line_t UNKNOWN = {.known = false};

static gen_line_t line_of(cpu_gen_t *gen, gen_ahead_t *h, const ptx_operand_t *o, uint64_t place,
                          unsigned bits, unsigned depth);

void gen_line_need(cpu_gen_t *gen, gen_ahead_t *h, val_t condition)
{
    h->fine = h->fine == NULL ? condition : LLVMBuildAnd(B, h->fine, condition, "");
}

static bool is_zero(val_t v)
{
    return v == NULL || (LLVMIsConstant(v) && LLVMIsNull(v));
}

bool gen_line_still(const gen_line_t *line)
{
    return is_zero(line->base_step) && is_zero(line->index_step);
}

static gen_line_t still(val_t base)
{
    return (gen_line_t){.known = true, .base = base, .base_step = LLVMConstNull(LLVMTypeOf(base))};
}

static val_t zero32(cpu_gen_t *gen)
{
    return LLVMConstInt(gen->i32, 0, 0);
}

static bool is_carried(const cpu_gen_t *gen, const gen_ahead_t *h, uint32_t reg)
{
    return cpu_bits_has(gen->a->live_in[h->header], reg);
}

static const ptx_instr_t *def_of(const cpu_gen_t *gen, const gen_ahead_t *h, uint32_t reg)
{
    const ptx_instr_t *i = &gen->f->instrs[(uint32_t)h->def[reg]];
    return h->defs[reg] == 1 && i->guard == PTX_NONE ? i : NULL;
}

/* Integers that are added, multiplied and so on as wholes. */
static bool is_whole_number(const ptx_instr_t *i)
{
    unsigned bytes = ptx_type_size((ptx_type_t)i->type);
    return (bytes == 4 || bytes == 8) && !ptx_type_is_float((ptx_type_t)i->type) &&
           (i->flags & (PTX_F_SAT | PTX_F_CC)) == 0;
}

/* ---- registers that carry a value from one iteration to the next ---- */

/* A uniform operand that the loop does not change, or NULL. */
static val_t invariant(cpu_gen_t *gen, const gen_ahead_t *h, const ptx_operand_t *o, unsigned bits)
{
    cpu_form_t form = cpu_operand_form(gen->a, o);
    bool fixed = o->kind == PTX_OPERAND_IMM ||
                 (o->kind == PTX_OPERAND_REG && h->defs[o->index] == 0 &&
                  cpu_reg_bits(gen->f, o->index) == bits && cpu_form_uniform(&form));
    return fixed ? gen_base(gen, o, gen_int(gen, bits)) : NULL;
}

/* The register that sum `i` adds something fixed to, and what. */
static uint32_t summand(cpu_gen_t *gen, const gen_ahead_t *h, const ptx_instr_t *i, unsigned bits,
                        val_t *more)
{
    const ptx_operand_t *x = ptx_src(gen->f, i, 0), *y = ptx_src(gen->f, i, 1);
    if (!is_whole_number(i) || ptx_type_size((ptx_type_t)i->type) * 8 != bits) {
        return PTX_NONE;
    }
    *more = x->kind == PTX_OPERAND_REG ? invariant(gen, h, y, bits) : NULL;
    if (*more == NULL && i->op == PTX_OP_ADD && y->kind == PTX_OPERAND_REG) {
        *more = invariant(gen, h, x, bits);
        x = y;
    }
    if (*more == NULL) {
        return PTX_NONE;
    }
    *more = i->op == PTX_OP_SUB ? LLVMBuildNeg(B, *more, "") : *more;
    return x->index;
}

/* What an iteration adds to a carried register, or NULL. */
static val_t step_of(cpu_gen_t *gen, const gen_ahead_t *h, uint32_t reg)
{
    unsigned bits = cpu_reg_bits(gen->f, reg);
    uint32_t node = (uint32_t)(h->def[reg] >> 32), r = reg;
    val_t step = LLVMConstInt(gen_int(gen, bits), 0, 0);
    if (node != h->header && node != h->latch) {
        return NULL; /* not in every iteration */
    }
    for (unsigned n = 0; n < MAX_DEPTH; n++) {
        const ptx_instr_t *i = def_of(gen, h, r);
        if (i == NULL || (r != reg && (is_carried(gen, h, r) || h->def[r] > h->def[reg]))) {
            return NULL;
        }
        val_t more = NULL;
        if (i->op == PTX_OP_MOV) {
            const ptx_operand_t *o = ptx_src(gen->f, i, 0);
            r = o->kind == PTX_OPERAND_REG && cpu_reg_bits(gen->f, o->index) == bits ? o->index
                                                                                     : PTX_NONE;
        } else if (i->op == PTX_OP_ADD || i->op == PTX_OP_SUB) {
            r = summand(gen, h, i, bits, &more);
        } else {
            return NULL;
        }
        if (r == PTX_NONE) {
            return NULL;
        }
        step = more == NULL ? step : LLVMBuildAdd(B, step, more, "");
        if (r == reg) {
            return step;
        }
    }
    return NULL;
}

static gen_line_t current(cpu_gen_t *gen, uint32_t reg)
{
    ptx_operand_t o = {.kind = PTX_OPERAND_REG, .index = reg};
    gen_line_t l = still(gen_base(gen, &o, gen_int(gen, cpu_reg_bits(gen->f, reg))));
    if (gen->a->values[reg].form.scale != 0) {
        l.index = gen_index(gen, &o);
        l.index_step = zero32(gen);
    }
    return l;
}

static gen_line_t carried(cpu_gen_t *gen, gen_ahead_t *h, uint32_t reg, uint64_t place)
{
    val_t step = h->defs[reg] == 1 ? step_of(gen, h, reg) : NULL;
    if (step == NULL) {
        return UNKNOWN;
    }
    gen_line_t l = current(gen, reg);
    l.base_step = step;
    l.base = place > h->def[reg] ? LLVMBuildAdd(B, l.base, step, "") : l.base;
    return l;
}

/* ---- what is computed from others ---- */

static gen_line_t plus(cpu_gen_t *gen, gen_line_t x, gen_line_t y, bool minus)
{
    if (!x.known || !y.known || (y.index != NULL && (x.index != NULL || minus))) {
        return UNKNOWN;
    }
    gen_line_t r = x.index != NULL ? x : y;
    r.base = minus ? LLVMBuildSub(B, x.base, y.base, "") : LLVMBuildAdd(B, x.base, y.base, "");
    r.base_step = minus ? LLVMBuildSub(B, x.base_step, y.base_step, "")
                        : LLVMBuildAdd(B, x.base_step, y.base_step, "");
    return r;
}

static gen_line_t times(cpu_gen_t *gen, gen_line_t x, val_t factor)
{
    x.base = LLVMBuildMul(B, x.base, factor, "");
    x.base_step = LLVMBuildMul(B, x.base_step, factor, "");
    return x;
}

static val_t extend(cpu_gen_t *gen, val_t v, bool sign)
{
    return sign ? LLVMBuildSExt(B, v, gen->i64, "") : LLVMBuildZExt(B, v, gen->i64, "");
}

void gen_line_widen(cpu_gen_t *gen, gen_ahead_t *h, val_t v, val_t step, bool sign, int64_t reach,
                    val_t *first, val_t *wide_step)
{
    int64_t low = sign ? INT32_MIN : 0, high = sign ? INT32_MAX : UINT32_MAX;
    low -= reach < 0 ? reach : 0;
    high -= reach > 0 ? reach : 0;
    *first = extend(gen, v, sign);
    *wide_step = LLVMBuildSExt(B, step, gen->i64, "");
    val_t ends[2] = {*first, LLVMBuildAdd(B, *first, LLVMBuildMul(B, h->last, *wide_step, ""), "")};
    for (unsigned n = reach == 0 ? 1 : 0; n < (is_zero(step) ? 1 : 2); n++) {
        val_t t = LLVMBuildSub(B, ends[n], gen_like(ends[n], (uint64_t)low), "");
        gen_line_need(gen, h,
                      LLVMBuildICmp(B, LLVMIntULE, t, gen_like(t, (uint64_t)(high - low)), ""));
    }
}

/* 32 to 64 bits: the sum of an operand that may wrap becomes the inner sum of the result. */
static gen_line_t widen(cpu_gen_t *gen, gen_ahead_t *h, const ptx_operand_t *o, gen_line_t x,
                        const cpu_form_t *to, bool sign)
{
    if (!x.known || x.index != NULL) {
        return UNKNOWN;
    }
    if (to->scale != 0) {
        gen_line_t r = still(LLVMConstInt(gen->i64, 0, 0));
        r.index = x.base;
        r.index_step = x.base_step;
        return r;
    }
    gen_line_t r = {.known = true};
    if (cpu_operand_high(gen->a, o) <= INT32_MAX) { /* it never wraps */
        r.base = extend(gen, x.base, sign);
        r.base_step = LLVMBuildSExt(B, x.base_step, gen->i64, "");
    } else {
        gen_line_widen(gen, h, x.base, x.base_step, sign, 0, &r.base, &r.base_step);
    }
    return r;
}

static gen_line_t product(cpu_gen_t *gen, gen_ahead_t *h, const ptx_instr_t *i,
                          const cpu_form_t *to, uint64_t place, unsigned depth)
{
    unsigned bits = ptx_type_size((ptx_type_t)i->type) * 8;
    bool sign = ptx_type_is_signed((ptx_type_t)i->type), wide = i->mode == PTX_MUL_WIDE;
    const ptx_operand_t *a = ptx_src(gen->f, i, 0), *b = ptx_src(gen->f, i, 1);
    gen_line_t x = line_of(gen, h, a, place, bits, depth),
               y = line_of(gen, h, b, place, bits, depth);
    if (!x.known || !y.known || i->mode == PTX_MUL_HI || (wide && bits != 32)) {
        return UNKNOWN;
    }
    cpu_form_t form = cpu_operand_form(gen->a, b);
    if (!gen_line_still(&y) || y.index != NULL || !cpu_form_uniform(&form)) {
        gen_line_t swap = x;
        x = y;
        y = swap;
        form = cpu_operand_form(gen->a, a);
        a = b;
    }
    if (!gen_line_still(&y) || y.index != NULL || !cpu_form_uniform(&form)) {
        return UNKNOWN;
    }
    if (wide) {
        x = widen(gen, h, a, x, to, sign);
        y.base = extend(gen, y.base, sign);
    }
    return x.known ? times(gen, x, y.base) : UNKNOWN;
}

static gen_line_t converted(cpu_gen_t *gen, gen_ahead_t *h, const ptx_instr_t *i,
                            const cpu_form_t *to, uint64_t place, unsigned depth)
{
    unsigned from = ptx_type_size((ptx_type_t)i->type2) * 8;
    unsigned bits = ptx_type_size((ptx_type_t)i->type) * 8;
    gen_line_t x = line_of(gen, h, ptx_src(gen->f, i, 0), place, from, depth);
    if (!x.known || ptx_type_is_float((ptx_type_t)i->type2) || bits < 32 || from < 32) {
        return UNKNOWN;
    }
    if (bits > from) {
        return widen(gen, h, ptx_src(gen->f, i, 0), x, to,
                     ptx_type_is_signed((ptx_type_t)i->type2));
    }
    if (bits < from && x.index != NULL) {
        return UNKNOWN;
    }
    x.base = LLVMBuildTrunc(B, x.base, gen_int(gen, bits), "");
    x.base_step = LLVMBuildTrunc(B, x.base_step, gen_int(gen, bits), "");
    return x;
}

static gen_line_t moved(cpu_gen_t *gen, const ptx_instr_t *i, gen_line_t x)
{
    if (!x.known || i->op == PTX_OP_MOV || i->space != PTX_SPACE_SHARED) {
        return i->space == PTX_SPACE_LOCAL ? UNKNOWN : x;
    }
    gen_line_t window = still(LLVMBuildPtrToInt(B, gen->shared, gen->i64, ""));
    return plus(gen, x, window, (i->flags & PTX_F_TO) != 0);
}

static gen_line_t computed(cpu_gen_t *gen, gen_ahead_t *h, const ptx_instr_t *i, uint64_t place,
                           unsigned depth)
{
    cpu_form_t form = cpu_instr_form(gen->a, i);
    const ptx_operand_t *s = i->src_count > 0 ? ptx_src(gen->f, i, 0) : NULL;
    unsigned bits = ptx_type_size((ptx_type_t)i->type) * 8;
    uint64_t c;
    if (s == NULL || depth == 0 || form.tag != CPU_FORM_AFFINE || !is_whole_number(i)) {
        return UNKNOWN;
    }
    switch (i->op) {
    case PTX_OP_MOV:
    case PTX_OP_CVTA:
        return moved(gen, i, line_of(gen, h, s, place, bits, depth));
    case PTX_OP_ADD:
    case PTX_OP_SUB:
        return plus(gen, line_of(gen, h, s, place, bits, depth),
                    line_of(gen, h, ptx_src(gen->f, i, 1), place, bits, depth),
                    i->op == PTX_OP_SUB);
    case PTX_OP_MUL:
        return product(gen, h, i, &form, place, depth);
    case PTX_OP_MAD: {
        cpu_form_t third = cpu_operand_form(gen->a, ptx_src(gen->f, i, 2));
        form.scale = third.scale != 0 ? 0 : form.scale; /* the product's own */
        return plus(gen, product(gen, h, i, &form, place, depth),
                    line_of(gen, h, ptx_src(gen->f, i, 2), place,
                            i->mode == PTX_MUL_WIDE ? bits * 2 : bits, depth),
                    false);
    }
    case PTX_OP_OR:
        return cpu_or_is_add(gen->a, i)
                   ? plus(gen, line_of(gen, h, s, place, bits, depth),
                          line_of(gen, h, ptx_src(gen->f, i, 1), place, bits, depth), false)
                   : UNKNOWN;
    case PTX_OP_SHL: {
        gen_line_t x = line_of(gen, h, s, place, bits, depth);
        return x.known && cpu_operand_constant(gen->a, ptx_src(gen->f, i, 1), &c) && c < bits
                   ? times(gen, x, gen_like(x.base, (uint64_t)1 << c))
                   : UNKNOWN;
    }
    case PTX_OP_CVT:
        return converted(gen, h, i, &form, place, depth);
    default:
        return UNKNOWN;
    }
}

static gen_line_t line_of_register(cpu_gen_t *gen, gen_ahead_t *h, uint32_t reg, uint64_t place,
                                   unsigned depth)
{
    type_t own = gen_reg_type(gen, reg);
    if (gen->a->values[reg].form.tag != CPU_FORM_AFFINE || (own != gen->i32 && own != gen->i64)) {
        return UNKNOWN;
    }
    if (h->defs[reg] == 0) {
        return current(gen, reg);
    }
    if (is_carried(gen, h, reg)) {
        return carried(gen, h, reg, place);
    }
    const ptx_instr_t *i = def_of(gen, h, reg);
    return i != NULL && h->def[reg] < place ? computed(gen, h, i, h->def[reg], depth - 1) : UNKNOWN;
}

static gen_line_t line_of(cpu_gen_t *gen, gen_ahead_t *h, const ptx_operand_t *o, uint64_t place,
                          unsigned bits, unsigned depth)
{
    switch (o->kind) {
    case PTX_OPERAND_REG:
        return cpu_reg_bits(gen->f, o->index) == bits && depth > 0
                   ? line_of_register(gen, h, o->index, place, depth)
                   : UNKNOWN;
    case PTX_OPERAND_SREG:
        return bits == 32 && o->index <= PTX_SREG_NCTAID_Z &&
                       cpu_operand_form(gen->a, o).tag == CPU_FORM_AFFINE
                   ? still(gen_base(gen, o, gen->i32))
                   : UNKNOWN;
    case PTX_OPERAND_IMM:
    case PTX_OPERAND_VAR:
        return still(gen_base(gen, o, gen_int(gen, bits)));
    default:
        return UNKNOWN;
    }
}

gen_line_t gen_line(cpu_gen_t *gen, gen_ahead_t *h, const ptx_operand_t *o, uint64_t place,
                    unsigned bits)
{
    return line_of(gen, h, o, place, bits, MAX_DEPTH);
}

val_t gen_line_address(cpu_gen_t *gen, gen_ahead_t *h, const ptx_operand_t *o, uint64_t place,
                       const cpu_form_t *form, val_t *first)
{
    ptx_operand_t base = {.kind = o->base, .index = o->index};
    unsigned bits = gen_address_bits(gen, o);
    gen_line_t l = gen_line(gen, h, &base, place, bits);
    if (!l.known) {
        return NULL;
    }
    *first = l.base;
    val_t step = l.base_step;
    if (bits == 32) {
        gen_line_widen(gen, h, l.base, l.base_step, false, 0, first, &step);
    }
    if (l.index != NULL) {
        val_t index, more, scale = LLVMConstInt(gen->i64, (uint64_t)form->scale, 1);
        gen_line_widen(gen, h, l.index, l.index_step, form->sign,
                       (int64_t)form->step * (gen->W - 1), &index, &more);
        *first = LLVMBuildAdd(B, *first, LLVMBuildMul(B, index, scale, ""), "");
        step = LLVMBuildAdd(B, step, LLVMBuildMul(B, more, scale, ""), "");
    }
    return step;
}
