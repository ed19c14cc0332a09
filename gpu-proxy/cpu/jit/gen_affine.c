/* Instructions whose result is affine over the lanes: scalar arithmetic on base and index. */
#include "gpu-proxy/cpu/jit/gen.h"

typedef struct {
    val_t base, index; /* index NULL: none */
} pair_t;

/* Base in the integer type given (as wide as the operand), and the inner index if there is one. */
static pair_t read_pair(cpu_gen_t *gen, const ptx_operand_t *o, unsigned bits)
{
    cpu_form_t form = cpu_operand_form(gen->a, o);
    return (pair_t){gen_base(gen, o, gen_int(gen, bits)),
                    form.scale != 0 ? gen_index(gen, o) : NULL};
}

static pair_t source(cpu_gen_t *gen, unsigned n, unsigned bits)
{
    return read_pair(gen, ptx_src(gen->f, gen->i, n), bits);
}

static pair_t plus(cpu_gen_t *gen, pair_t x, pair_t y, bool minus)
{
    val_t base =
        minus ? LLVMBuildSub(gen->b, x.base, y.base, "") : LLVMBuildAdd(gen->b, x.base, y.base, "");
    return (pair_t){base, x.index != NULL ? x.index : y.index};
}

static pair_t times(cpu_gen_t *gen, pair_t x, uint64_t c)
{
    return (pair_t){LLVMBuildMul(gen->b, x.base, gen_like(x.base, c), ""), x.index};
}

/* To more bits. If the result has an inner sum, the number becomes its index. */
static pair_t widen(cpu_gen_t *gen, pair_t x, unsigned bits, const cpu_form_t *to, bool sign)
{
    if (to->scale != 0) {
        return (pair_t){LLVMConstInt(gen->i64, 0, 0), x.base};
    }
    type_t wide = gen_int(gen, bits);
    return (pair_t){sign ? LLVMBuildSExt(gen->b, x.base, wide, "")
                         : LLVMBuildZExt(gen->b, x.base, wide, ""),
                    NULL};
}

static pair_t multiply(cpu_gen_t *gen, const cpu_form_t *to)
{
    const ptx_instr_t *i = gen->i;
    unsigned bits = ptx_type_size((ptx_type_t)i->type) * 8, which = 0;
    uint64_t c = 0;
    cpu_form_t x = cpu_operand_form(gen->a, ptx_src(gen->f, i, 0));
    cpu_form_t y = cpu_operand_form(gen->a, ptx_src(gen->f, i, 1));
    if (cpu_form_uniform(&x) && cpu_form_uniform(&y)) { /* of a mad */
        val_t a = gen_base(gen, ptx_src(gen->f, i, 0), gen_int(gen, bits));
        val_t b = gen_base(gen, ptx_src(gen->f, i, 1), gen_int(gen, bits));
        if (i->mode == PTX_MUL_WIDE) {
            type_t t = gen_int(gen, bits * 2);
            bool sign = ptx_type_is_signed((ptx_type_t)i->type);
            a = sign ? LLVMBuildSExt(gen->b, a, t, "") : LLVMBuildZExt(gen->b, a, t, "");
            b = sign ? LLVMBuildSExt(gen->b, b, t, "") : LLVMBuildZExt(gen->b, b, t, "");
        }
        return (pair_t){LLVMBuildMul(gen->b, a, b, ""), NULL};
    }
    if (!cpu_operand_constant(gen->a, ptx_src(gen->f, i, 1), &c)) {
        cpu_operand_constant(gen->a, ptx_src(gen->f, i, 0), &c);
        which = 1;
    }
    pair_t p = source(gen, which, bits);
    if (i->mode == PTX_MUL_WIDE) {
        bool sign = ptx_type_is_signed((ptx_type_t)i->type);
        p = widen(gen, p, 64, to, sign);
        c = sign ? (uint64_t)(int64_t)(int32_t)(uint32_t)c : c & UINT32_MAX;
    }
    return times(gen, p, c);
}

static pair_t convert(cpu_gen_t *gen, const cpu_form_t *to)
{
    const ptx_instr_t *i = gen->i;
    unsigned from = ptx_type_size((ptx_type_t)i->type2) * 8;
    unsigned bits = ptx_type_size((ptx_type_t)i->type) * 8;
    pair_t p = source(gen, 0, from);
    if (bits > from) {
        return widen(gen, p, bits, to, ptx_type_is_signed((ptx_type_t)i->type2));
    }
    if (bits == from) {
        return p;
    }
    cpu_form_t form = cpu_operand_form(gen->a, ptx_src(gen->f, i, 0));
    val_t v = LLVMBuildTrunc(gen->b, p.base, gen_int(gen, bits), "");
    if (p.index != NULL) {
        val_t inner = bits < 32 ? LLVMBuildTrunc(gen->b, p.index, gen_int(gen, bits), "") : p.index;
        inner = LLVMBuildMul(gen->b, inner, gen_like(inner, (uint64_t)form.scale), "");
        v = LLVMBuildAdd(gen->b, v, inner, "");
    }
    return (pair_t){v, NULL};
}

static pair_t choose(cpu_gen_t *gen, unsigned bits)
{
    pair_t x = source(gen, 0, bits), y = source(gen, 1, bits);
    val_t p = gen_src(gen, 2, PTX_PRED, false);
    x.base = LLVMBuildSelect(gen->b, p, x.base, y.base, "");
    if (x.index != NULL) {
        x.index = LLVMBuildSelect(gen->b, p, x.index, y.index, "");
    }
    return x;
}

/* Between the generic space and the others: a constant distance, per thread for local memory. */
static pair_t cross(cpu_gen_t *gen)
{
    const ptx_instr_t *i = gen->i;
    pair_t p = source(gen, 0, 64);
    val_t window = NULL;
    if (i->space == PTX_SPACE_SHARED) {
        window = LLVMBuildPtrToInt(gen->b, gen->shared, gen->i64, "");
    } else if (i->space == PTX_SPACE_LOCAL) {
        uint64_t frame = (gen->f->local_size + 15) & ~(uint64_t)15;
        gen->uses_local = true;
        window = LLVMBuildZExt(gen->b, gen->linear[gen->g], gen->i64, "");
        window = LLVMBuildMul(gen->b, window, gen_like(window, frame), "");
        window =
            LLVMBuildAdd(gen->b, window, LLVMBuildPtrToInt(gen->b, gen->local, gen->i64, ""), "");
    }
    if (window != NULL) {
        p = plus(gen, p, (pair_t){window, NULL}, (i->flags & PTX_F_TO) != 0);
    }
    return p;
}

void gen_affine(cpu_gen_t *gen, const cpu_form_t *form)
{
    const ptx_instr_t *i = gen->i;
    unsigned bits = ptx_type_size((ptx_type_t)i->type) * 8;
    uint64_t c = 0;
    pair_t p = {NULL, NULL};
    switch (i->op) {
    case PTX_OP_MOV:
        p = source(gen, 0, cpu_reg_bits(gen->f, ptx_dst(gen->f, i, 0)->index));
        break;
    case PTX_OP_CVTA:
        p = cross(gen);
        break;
    case PTX_OP_ADD:
    case PTX_OP_SUB:
        p = plus(gen, source(gen, 0, bits), source(gen, 1, bits), i->op == PTX_OP_SUB);
        break;
    case PTX_OP_MUL:
        p = multiply(gen, form);
        break;
    case PTX_OP_MAD: {
        cpu_form_t third = cpu_operand_form(gen->a, ptx_src(gen->f, i, 2)), own = *form;
        own.scale = third.scale != 0 ? 0 : own.scale; /* the product's own */
        p = plus(gen, multiply(gen, &own),
                 source(gen, 2, i->mode == PTX_MUL_WIDE ? bits * 2 : bits), false);
        break;
    }
    case PTX_OP_SHL:
        cpu_operand_constant(gen->a, ptx_src(gen->f, i, 1), &c);
        p = times(gen, source(gen, 0, bits), (uint64_t)1 << c);
        break;
    case PTX_OP_SELP:
        p = choose(gen, bits);
        break;
    case PTX_OP_CVT:
        p = convert(gen, form);
        break;
    case PTX_OP_OR:
    case PTX_OP_AND:
    case PTX_OP_SHR: {
        /* the lanes do not reach across the bits that are cut: the base alone decides */
        val_t x = gen_base(gen, ptx_src(gen->f, i, 0), gen_int(gen, bits));
        bool known = cpu_operand_constant(gen->a, ptx_src(gen->f, i, 1), &c);
        val_t y = known ? gen_like(x, c) : gen_base(gen, ptx_src(gen->f, i, 1), gen_int(gen, bits));
        p.base = i->op == PTX_OP_OR    ? LLVMBuildOr(gen->b, x, y, "")
                 : i->op == PTX_OP_AND ? LLVMBuildAnd(gen->b, x, y, "")
                                       : LLVMBuildLShr(gen->b, x, y, "");
        break;
    }
    default:
        gen_fail(gen, "affine form");
        return;
    }
    gen_write_affine(gen, ptx_dst(gen->f, i, 0), form, p.base, p.index);
}
