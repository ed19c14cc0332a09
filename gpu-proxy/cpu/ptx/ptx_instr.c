#include <string.h>

#include "gpu-proxy/cpu/ptx/ptx_parser.h"

/* A destination in registers is no call's: results go to .param variables or registers. */
static bool read_callee(ptx_parser_t *p, ptx_reading_t *r)
{
    ptx_operand_t o;
    if (p->lex.tok.kind != PTX_TOK_IDENT)
        return ptx_p_unexpected(p, "a function");
    const ptx_sym_t *sym = ptx_p_find(&p->names, p->lex.tok.text, p->lex.tok.length);
    if (sym && sym->kind == PTX_SYM_FUNC) {
        o = (ptx_operand_t){.kind = PTX_OPERAND_FUNC, .index = sym->index};
        ptx_lex_next(&p->lex);
        return ptx_p_note_callee(p, o.index, true) && ptx_p_push(p, r, &o);
    }
    if (!ptx_p_simple(p, PTX_U64, &o))
        return false;
    if (o.kind != PTX_OPERAND_REG)
        return ptx_p_bad_operand(p, r, "is not a function");
    p->body.calls_indirect = true;
    return ptx_p_push(p, r, &o);
}

static bool check_arguments(ptx_parser_t *p, const ptx_reading_t *r, const ptx_operand_t *list,
                            bool results)
{
    for (unsigned i = 0; i < list->count; i++) {
        const ptx_operand_t *e = (const ptx_operand_t *)p->body.operands.data + list->index + i;
        bool param = e->kind == PTX_OPERAND_VAR && e->value == 0 &&
                     ptx_p_var(p, e->index)->space == PTX_SPACE_PARAM;
        if (!param && e->kind != PTX_OPERAND_REG && (results || e->kind != PTX_OPERAND_IMM))
            return ptx_p_bad_operand(p, r, "has an argument that is neither .param nor a register");
    }
    return true;
}

/* As many results and arguments as the function has; a result may be left. */
static bool check_counts(ptx_parser_t *p, const ptx_reading_t *r, unsigned results,
                         unsigned arguments)
{
    const ptx_operand_t *callee = &r->operands[1];
    if (callee->kind != PTX_OPERAND_FUNC)
        return results <= 1 || ptx_p_bad_operand(p, r, "has more than one result");
    const ptx_function_t *f = ptx_p_function(p, callee->index);
    if (arguments == f->param_count && (results == f->result_count || results == 0))
        return true;
    return ptx_p_fail(p, GB_ERR_FORMAT, r->in.line,
                      "'%s' has %u parameters and %u results, not %u and %u", f->name,
                      f->param_count, f->result_count, arguments, results);
}

/* "(ret), callee, (a, b), prototype" with all but the callee optional */
static bool read_call(ptx_parser_t *p, ptx_reading_t *r)
{
    ptx_operand_t results = {0}, arguments = {0}, label;
    r->is_dst = true;
    if (ptx_lex_is(&p->lex, '(') &&
        (!ptx_p_vector(p, PTX_TYPE_NONE, ')', 255, &results) || !ptx_p_expect(p, ',')))
        return false;
    if (!check_arguments(p, r, &results, true) || !ptx_p_push(p, r, &results))
        return false;
    r->is_dst = false;
    if (!read_callee(p, r))
        return false;
    bool comma = ptx_lex_is(&p->lex, ',');
    if (comma)
        ptx_lex_next(&p->lex);
    if (comma && ptx_lex_is(&p->lex, '(')) {
        if (!ptx_p_vector(p, PTX_TYPE_NONE, ')', 255, &arguments) ||
            !check_arguments(p, r, &arguments, false))
            return false;
        comma = ptx_lex_is(&p->lex, ',');
        if (comma)
            ptx_lex_next(&p->lex);
    }
    if (!ptx_p_push(p, r, &arguments) || !check_counts(p, r, results.count, arguments.count))
        return false;
    return !comma || (ptx_p_label_use(p, &label) && ptx_p_push(p, r, &label));
}

static bool read_guard(ptx_parser_t *p, ptx_instr_t *guard)
{
    bool ok = true;
    guard->guard = PTX_NONE;
    if (!ptx_lex_is(&p->lex, '@'))
        return true;
    ptx_lex_next(&p->lex);
    if (ptx_lex_is(&p->lex, '!')) {
        guard->guard_negated = 1;
        ptx_lex_next(&p->lex);
    }
    if (p->lex.tok.kind != PTX_TOK_IDENT)
        return ptx_p_unexpected(p, "a predicate");
    unsigned width;
    guard->guard = ptx_p_register(p, p->lex.tok.text, p->lex.tok.length, &width, &ok);
    if (!ok)
        return false;
    if (guard->guard == PTX_NONE || !ptx_p_is_pred(p, guard->guard))
        return ptx_p_unexpected(p, "a predicate");
    ptx_lex_next(&p->lex);
    return true;
}

static bool decode_error(ptx_parser_t *p, ptx_decode_t why, uint32_t line, const char *mnemonic,
                         const char *word)
{
    switch (why) {
    case PTX_UNKNOWN_OPCODE:
        return ptx_p_fail(p, GB_ERR_UNSUPPORTED, line, "unknown opcode '%s'", mnemonic);
    case PTX_UNKNOWN_MODIFIER:
        return ptx_p_fail(p, GB_ERR_UNSUPPORTED, line, "unknown modifier '.%s' of '%s'", word,
                          mnemonic);
    default:
        return ptx_p_fail(p, GB_ERR_FORMAT, line, "'%s' lacks a type or a mode", mnemonic);
    }
}

const ptx_mnemonic_t *ptx_p_mnemonic(ptx_parser_t *p, const char *text, size_t length,
                                     uint32_t line)
{
    char word[64];
    uint32_t known = ptx_map_get(&p->mnemonic_names, text, length);
    if (known != PTX_NONE)
        return (const ptx_mnemonic_t *)p->mnemonics.data + known;
    ptx_mnemonic_t decoded;
    ptx_decode_t result = ptx_decode(text, &decoded, word, sizeof word);
    if (result != PTX_DECODED) {
        decode_error(p, result, line, text, word);
        return NULL;
    }
    decoded.instr.mnemonic = ptx_p_keep(p, text, (uint32_t)length);
    ptx_mnemonic_t *own = ptx_vec_push(&p->mnemonics, sizeof *own, 1);
    if (!decoded.instr.mnemonic || !own ||
        !ptx_map_set(&p->mnemonic_names, decoded.instr.mnemonic, length, p->mnemonics.count - 1)) {
        ptx_p_no_memory(p);
        return NULL;
    }
    *own = decoded;
    return own;
}

static const ptx_mnemonic_t *read_mnemonic(ptx_parser_t *p)
{
    char text[128];
    uint32_t line = p->lex.tok.line;
    if (p->lex.tok.kind != PTX_TOK_IDENT) {
        ptx_p_unexpected(p, "an instruction");
        return NULL;
    }
    size_t length = ptx_lex_mnemonic(&p->lex, text, sizeof text);
    if (length == 0) {
        ptx_p_fail(p, GB_ERR_FORMAT, line, "'%.60s...' is too long for an opcode", text);
        return NULL;
    }
    return ptx_p_mnemonic(p, text, length, line);
}

bool ptx_p_emit(ptx_parser_t *p, const ptx_instr_t *in, const ptx_operand_t *operands)
{
    unsigned count = in->dst_count + in->src_count;
    uint32_t first = p->body.operands.count;
    ptx_operand_t *own = ptx_vec_push(&p->body.operands, sizeof *own, count);
    ptx_instr_t *instr = ptx_vec_push(&p->body.instrs, sizeof *instr, 1);
    if (!own || !instr)
        return ptx_p_no_memory(p);
    if (count)
        memcpy(own, operands, count * sizeof *own);
    *instr = *in;
    instr->operand_first = first;
    return true;
}

/* mov.v2 and mov.v4: first all sources, then all destinations, which may be the same registers. */
static bool split_move(ptx_parser_t *p, const ptx_reading_t *r)
{
    ptx_operand_t pair[2], temps[PTX_MAX_REG_VECTOR];
    ptx_instr_t one = r->in;
    uint32_t first = p->body.regs.count;
    ptx_reg_t *regs = ptx_vec_push(&p->body.regs, sizeof *regs, r->in.vec);
    if (!regs)
        return ptx_p_no_memory(p);
    one.vec = 1;
    for (unsigned i = 0; i < r->in.vec; i++) {
        regs[i] = (ptx_reg_t){.name = "%moved", .number = i, .type = r->in.type};
        temps[i] = (ptx_operand_t){.kind = PTX_OPERAND_REG, .index = first + i};
    }
    for (unsigned i = 0; i < 2u * r->in.vec; i++) {
        unsigned n = i % r->in.vec;
        bool out = i >= r->in.vec;
        pair[0] = temps[n];
        pair[1] = ((ptx_operand_t *)p->body.operands.data)[r->operands[out ? 0 : 1].index + n];
        if (out) {
            pair[0] = pair[1];
            pair[1] = temps[n];
        }
        if (pair[0].kind != PTX_OPERAND_SINK && !ptx_p_emit(p, &one, pair))
            return false;
    }
    return true;
}

/* The condition code becomes an operand like any other. */
static bool add_carry(ptx_parser_t *p, ptx_reading_t *r)
{
    bool in = r->in.op == PTX_OP_ADDC || r->in.op == PTX_OP_SUBC || r->in.op == PTX_OP_MADC;
    bool out = (r->in.flags & PTX_F_CC) != 0;
    if (!in && !out)
        return true;
    if (p->body.carry == 0) {
        ptx_reg_t *reg = ptx_vec_push(&p->body.regs, sizeof *reg, 1);
        if (!reg)
            return ptx_p_no_memory(p);
        *reg = (ptx_reg_t){.name = "%carry", .number = PTX_NONE, .type = PTX_PRED};
        p->body.carry = p->body.regs.count;
    }
    const ptx_operand_t carry = {.kind = PTX_OPERAND_REG, .index = p->body.carry - 1};
    if (r->count + 2 > PTX_MAX_OPERANDS || r->in.dst_count != 1)
        return ptx_p_bad_operand(p, r, "is missing");
    if (in) {
        r->operands[r->count++] = carry;
        r->in.src_count++;
    }
    if (out) {
        memmove(&r->operands[2], &r->operands[1], (r->count++ - 1) * sizeof r->operands[0]);
        r->operands[1] = carry;
        r->in.dst_count++;
    }
    return true;
}

static bool store(ptx_parser_t *p, ptx_reading_t *r, uint32_t first_pending)
{
    if (!add_carry(p, r))
        return false;
    if (r->in.op == PTX_OP_MOV && r->in.vec > 1)
        return split_move(p, r);
    if (r->in.op == PTX_OP_BAR_CLUSTER && r->in.mode == PTX_BAR_WAIT) {
        r->in.op = PTX_OP_BAR;
        r->in.mode = PTX_BAR_SYNC;
        r->in.src_count = 1;
        r->operands[0] = (ptx_operand_t){.kind = PTX_OPERAND_IMM, .value = PTX_BARRIER_CLUSTER};
        r->count = 1;
    }
    if (r->in.op == PTX_OP_RET && !ptx_p_regparams_leave(p, &r->in))
        return false;
    if (!ptx_p_emit(p, &r->in, r->operands))
        return false;
    if (r->in.op == PTX_OP_BAR)
        p->body.has_barrier = true;
    /* A use of a label is always an instruction's last operand. */
    if (p->body.pendings.count > first_pending)
        ((ptx_pending_t *)p->body.pendings.data)[first_pending].index = p->body.operands.count - 1;
    return true;
}

/* A kernel's parameter may be read by parts, but nothing outside the parameters. */
static bool param_in_range(ptx_parser_t *p, const ptx_reading_t *r)
{
    const ptx_function_t *f = ptx_p_function(p, p->body.function);
    const ptx_operand_t *o = &r->operands[r->in.dst_count];
    if (!f->is_kernel || r->in.space != PTX_SPACE_PARAM || o->kind != PTX_OPERAND_ADDRESS ||
        o->base != PTX_OPERAND_VAR || o->index - f->param_first >= f->param_count)
        return true;
    uint64_t at = ptx_p_var(p, o->index)->offset + o->value; /* may be below 0: then it is large */
    uint64_t bytes = (uint64_t)ptx_type_size(r->in.type) * r->in.vec;
    return (at <= f->param_size && bytes <= f->param_size - at) ||
           ptx_p_fail(p, GB_ERR_FORMAT, r->in.line, "'%s' reads outside the parameters",
                      r->in.mnemonic);
}

static bool is_entry_param(const ptx_parser_t *p, uint32_t var)
{
    const ptx_function_t *f = ptx_p_function(p, p->body.function);
    return f->is_kernel && var - f->param_first < f->param_count;
}

/* A named variable lies in the space that the instruction says, and constants and a kernel's parameters
 * are not written. */
static bool space_fits(ptx_parser_t *p, const ptx_reading_t *r)
{
    const ptx_instr_t *in = &r->in;
    bool reads = in->op == PTX_OP_LD || in->op == PTX_OP_LDU;
    bool writes = in->op == PTX_OP_ST || in->op == PTX_OP_ATOM || in->op == PTX_OP_RED;
    const ptx_operand_t *o = &r->operands[in->dst_count];
    if (!reads && !writes)
        return true;
    if (writes && in->space == PTX_SPACE_CONST)
        return ptx_p_fail(p, GB_ERR_FORMAT, in->line, "'%s' writes constants", in->mnemonic);
    if (in->src_count == 0 || o->kind != PTX_OPERAND_ADDRESS || o->base != PTX_OPERAND_VAR)
        return true;
    const ptx_var_t *v = ptx_p_var(p, o->index);
    if (in->space != PTX_SPACE_GENERIC && in->space != v->space)
        return ptx_p_fail(p, GB_ERR_FORMAT, in->line, "'%s' of '%s', which is in .%s", in->mnemonic,
                          v->name, ptx_space_name(v->space));
    return !(writes && in->space == PTX_SPACE_PARAM && is_entry_param(p, o->index)) ||
           ptx_p_fail(p, GB_ERR_FORMAT, in->line, "'%s' writes a kernel's parameter", in->mnemonic);
}

static bool complete(ptx_parser_t *p, const ptx_reading_t *r)
{
    const ptx_instr_t *in = &r->in;
    const ptx_operand_t *o = r->operands;
    if (!space_fits(p, r) || (in->op == PTX_OP_LD && !param_in_range(p, r)))
        return false;
    if (in->op == PTX_OP_BAR && o[in->dst_count].kind == PTX_OPERAND_IMM &&
        o[in->dst_count].value > 15)
        return ptx_p_bad_operand(p, r, "is no barrier: there are 16");
    if (in->op == PTX_OP_SETP || in->op == PTX_OP_SET) {
        if ((in->src_count == 3) != (in->boolop != PTX_BOOL_NONE))
            return ptx_p_bad_operand(p, r, in->boolop ? "is missing" : "is one too many");
    }
    if (in->flags & PTX_F_SYNC && (in->op == PTX_OP_SHFL || in->op == PTX_OP_VOTE)) {
        if (in->src_count != (in->op == PTX_OP_SHFL ? 4 : 2))
            return ptx_p_bad_operand(p, r, "is missing: the member mask");
    }
    if (in->op == PTX_OP_ATOM || in->op == PTX_OP_RED) {
        unsigned want = in->mode == PTX_ATOM_CAS ? 3 : 2;
        if (in->src_count < want)
            return ptx_p_bad_operand(p, r, "is missing");
    }
    if (in->op == PTX_OP_MOV && in->vec == 1 && o[0].kind == PTX_OPERAND_VECTOR &&
        o[1].kind == PTX_OPERAND_VECTOR)
        return ptx_p_bad_operand(p, r, "must not be a vector too");
    return true;
}

bool ptx_p_instruction(ptx_parser_t *p)
{
    ptx_reading_t r;
    ptx_instr_t guard = {0};
    r.count = 0;
    uint32_t first_pending = p->body.pendings.count;
    if (!read_guard(p, &guard))
        return false;
    uint32_t line = p->lex.tok.line;
    const ptx_mnemonic_t *m = read_mnemonic(p);
    if (!m)
        return false;
    r.in = m->instr;
    r.in.line = line;
    r.in.guard = guard.guard;
    r.in.guard_negated = guard.guard_negated;
    const char *shape = m->shape;
    bool ok = (shape[0] == 'c' ? read_call(p, &r) : ptx_p_operands(p, &r, shape)) &&
              complete(p, &r) && ptx_p_expect(p, ';') && store(p, &r, first_pending);
    if (!ok)
        p->body.pendings.count = first_pending; /* no operand is there for its label */
    return ok;
}
