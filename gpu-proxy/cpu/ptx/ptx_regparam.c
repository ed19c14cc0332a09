/* Functions that take or give values in registers, as PTX before the ABI has them: the parser turns
 * them into functions with .param parameters, which are loaded at the start and stored before each
 * return, so that whoever reads the IR knows one kind of function only. A vector is as many
 * parameters as it has components. */
#include <stdio.h>

#include "gpu-proxy/cpu/ptx/ptx_parser.h"

bool ptx_p_regparam_add(ptx_parser_t *p, const ptx_regparam_t *param)
{
    ptx_regparam_t *own = ptx_vec_push(&p->regparams, sizeof *own, 1);
    if (!own)
        return ptx_p_no_memory(p);
    *own = *param;
    return true;
}

static ptx_regparam_t *param_at(const ptx_parser_t *p, uint32_t i)
{
    return (ptx_regparam_t *)p->regparams.data + i;
}

/* ld.param or st.param of every component. */
static bool move(ptx_parser_t *p, const ptx_regparam_t *param, bool load, const ptx_instr_t *guard)
{
    char text[32];
    int n = snprintf(text, sizeof text, "%s.param.b%u", load ? "ld" : "st",
                     8 * ptx_type_size(param->type));
    const ptx_mnemonic_t *m = ptx_p_mnemonic(p, text, (size_t)n, p->lex.tok.line);
    if (!m)
        return false;
    ptx_instr_t in = m->instr;
    in.line = p->lex.tok.line;
    in.guard = guard ? guard->guard : PTX_NONE;
    in.guard_negated = guard ? guard->guard_negated : 0;
    in.dst_count = load ? 1 : 0;
    in.src_count = load ? 1 : 2;
    for (unsigned i = 0; i < param->width; i++) {
        const ptx_operand_t value = {.kind = PTX_OPERAND_REG, .index = param->reg + i};
        const ptx_operand_t place = {
            .kind = PTX_OPERAND_ADDRESS, .base = PTX_OPERAND_VAR, .index = param->first_var + i};
        const ptx_operand_t operands[2] = {load ? value : place, load ? place : value};
        if (!ptx_p_emit(p, &in, operands))
            return false;
    }
    return true;
}

bool ptx_p_regparams_enter(ptx_parser_t *p)
{
    for (uint32_t i = 0; i < p->regparams.count; i++) {
        ptx_regparam_t *param = param_at(p, i);
        ptx_sym_t *sym = ptx_p_declare(p, &p->names, &param->name, PTX_SYM_REG, PTX_NONE);
        bool ok = true;
        unsigned width;
        if (!sym)
            return false;
        sym->type = (uint8_t)param->type;
        sym->width = (uint8_t)param->width;
        param->reg = ptx_p_register(p, param->name.text, param->name.length, &width, &ok);
        if (!ok || (!param->is_result && !move(p, param, true, NULL)))
            return false;
    }
    return true;
}

/* Whether control reaches what is appended now. */
static bool is_reached(const ptx_parser_t *p)
{
    uint32_t n = p->body.instrs.count;
    if (n == 0 || p->body.last_label == n)
        return true;
    const ptx_instr_t *last = (const ptx_instr_t *)p->body.instrs.data + n - 1;
    return last->op != PTX_OP_RET || last->guard != PTX_NONE;
}

bool ptx_p_regparams_leave(ptx_parser_t *p, const ptx_instr_t *ret)
{
    if (!ret && !is_reached(p))
        return true;
    for (uint32_t i = 0; i < p->regparams.count; i++) {
        const ptx_regparam_t *param = param_at(p, i);
        if (param->is_result && !move(p, param, false, ret))
            return false;
    }
    return true;
}
