/* What is alike in all lanes of a strip though it comes from numbers that are not. */
#include "gpu-proxy/cpu/jit/analysis/analysis.h"

static bool is_integer(unsigned type)
{
    return (type >= PTX_B8 && type <= PTX_B64) || (type >= PTX_U8 && type <= PTX_U64) ||
           (type >= PTX_S8 && type <= PTX_S64);
}

/* The smallest power of two such that all lanes lie between two neighbouring multiples of it; 0: not
 * known. */
uint64_t cpu_lanes_block(const cpu_analysis_t *a, const ptx_operand_t *x, const cpu_form_t *form)
{
    cpu_rest_t rest = cpu_operand_rest(a, x);
    int64_t reach = form->stride * (int64_t)(a->config.width - 1);
    if (form->tag != CPU_FORM_AFFINE || form->scale != 0 || form->stride > INT32_MAX ||
        form->stride < INT32_MIN) {
        return 0;
    }
    for (uint64_t block = 1; block <= rest.modulus; block *= 2) {
        int64_t first = (int64_t)(rest.rest & (block - 1)), last = first + reach;
        if (last >= 0 && last < (int64_t)block) {
            return block;
        }
    }
    return 0;
}

/* Does x < c (or: x <= c) hold in all lanes or in none? All are on one side of every multiple of their
 * block. */
static bool on_one_side(const cpu_analysis_t *a, const ptx_operand_t *x, const ptx_operand_t *c,
                        bool or_equal)
{
    cpu_form_t form = cpu_operand_form(a, x), other = cpu_operand_form(a, c);
    uint64_t value, block = cpu_lanes_block(a, x, &form);
    if (block == 0 || !cpu_form_uniform(&other)) {
        return false;
    }
    if (cpu_operand_constant(a, c, &value)) {
        return (value + or_equal) % block == 0;
    }
    return !or_equal && cpu_operand_align(a, c) >= block;
}

/* Is the comparison decided by how large its operands can be at most? */
static bool decided(const cpu_analysis_t *a, const ptx_instr_t *i)
{
    uint64_t c, high = cpu_operand_high(a, ptx_src(a->f, i, 0));
    return cpu_operand_constant(a, ptx_src(a->f, i, 1), &c) && c <= INT32_MAX &&
           high <= INT32_MAX &&
           (i->cmp == PTX_CMP_LT || i->cmp == PTX_CMP_GE || i->cmp == PTX_CMP_LO ||
                    i->cmp == PTX_CMP_HS
                ? high < c
                : i->cmp != PTX_CMP_EQ && i->cmp != PTX_CMP_NE && high <= c);
}

/* max(x, c) is c if no lane is above it. */
bool cpu_max_is_bound(const cpu_analysis_t *a, const ptx_instr_t *i)
{
    uint64_t c;
    cpu_form_t form = cpu_operand_form(a, ptx_src(a->f, i, 0));
    bool small = is_integer(i->type) && form.tag == CPU_FORM_AFFINE && form.scale == 0 &&
                 cpu_operand_constant(a, ptx_src(a->f, i, 1), &c) && c <= INT32_MAX &&
                 cpu_operand_high(a, ptx_src(a->f, i, 0)) <= c && i->src_count == 2;
    return small;
}

static bool compares_integers(const cpu_analysis_t *a, const ptx_instr_t *i)
{
    unsigned bits = ptx_type_size((ptx_type_t)i->type) * 8;
    for (unsigned n = 0; n < 2; n++) {
        const ptx_operand_t *o = ptx_src(a->f, i, n);
        if (o->kind == PTX_OPERAND_REG && cpu_reg_bits(a->f, o->index) != bits) {
            return false;
        }
    }
    return i->op == PTX_OP_SETP && i->boolop == PTX_BOOL_NONE && is_integer(i->type) && bits >= 32;
}

/* Uniform comparisons of what is not: the base tells for all lanes. */
bool cpu_compare_is_uniform(const cpu_analysis_t *a, const ptx_instr_t *i)
{
    const ptx_operand_t *x = ptx_src(a->f, i, 0), *y = ptx_src(a->f, i, 1);
    if (!compares_integers(a, i)) {
        return false;
    }
    cpu_form_t form = cpu_operand_form(a, x);
    if (form.tag == CPU_FORM_AFFINE && form.scale == 0 && decided(a, i)) {
        return true;
    }
    switch (i->cmp) {
    case PTX_CMP_LT:
    case PTX_CMP_GE:
    case PTX_CMP_LO:
    case PTX_CMP_HS:
        return on_one_side(a, x, y, false) || on_one_side(a, y, x, true);
    case PTX_CMP_LE:
    case PTX_CMP_GT:
    case PTX_CMP_LS:
    case PTX_CMP_HI:
        return on_one_side(a, x, y, true) || on_one_side(a, y, x, false);
    default:
        return false;
    }
}
