#include <stdio.h>
#include <string.h>

#include "gpu-proxy/cpu/ptx/ptx_parser.h"

/* An instruction while its operands are read. */
typedef struct {
    ptx_instr_t in;
    char shape; /* of the operand being read */
    bool is_dst;
    unsigned count;
    ptx_operand_t operands[PTX_MAX_OPERANDS];
} reading_t;

static bool bad_operand(ptx_parser_t *p, const reading_t *r, const char *what)
{
    return ptx_p_fail(p, GB_ERR_FORMAT, r->in.line, "operand %u of '%s' %s", r->count + 1,
                      r->in.mnemonic, what);
}

/* The type that an immediate at this place is written for. */
static ptx_type_t operand_type(const reading_t *r)
{
    switch (r->shape) {
    case 't':
    case 'm':
    case 'r':
    case 'v':
    case 'M':
        return r->in.type;
    case 'T':
    case 'R':
        return r->in.type2;
    case 'p':
    case 'q':
        return PTX_PRED;
    case 'u':
        return PTX_U32;
    default:
        return PTX_TYPE_NONE;
    }
}

static bool note_var(ptx_parser_t *p, uint32_t var)
{
    uint32_t *mark = (uint32_t *)p->var_marks.data + var;
    if (ptx_p_var(p, var)->space != PTX_SPACE_SHARED || *mark == p->body.function + 1)
        return true;
    *mark = p->body.function + 1;
    uint32_t *use = ptx_vec_push(&p->body.shared, sizeof *use, 1);
    if (!use)
        return ptx_p_no_memory(p);
    *use = var;
    return true;
}

static bool unknown_name(ptx_parser_t *p, const ptx_tok_t *tok)
{
    return ptx_p_fail(p, GB_ERR_FORMAT, tok->line, "unknown name '%.*s'",
                      (int)(tok->length < 80 ? tok->length : 80), tok->text);
}

/* A special register, with its component: %tid.x */
static bool special(ptx_parser_t *p, const ptx_tok_t *tok, ptx_operand_t *out)
{
    char component = 0;
    ptx_lex_next(&p->lex);
    if (p->lex.tok.kind == PTX_TOK_DOT && p->lex.tok.length == 1) {
        component = p->lex.tok.text[0];
        ptx_lex_next(&p->lex);
    }
    ptx_sreg_t sreg = ptx_sreg_by_name(tok->text, tok->length, component, &out->value);
    if (sreg == PTX_SREG_NONE)
        return unknown_name(p, tok);
    out->kind = PTX_OPERAND_SREG;
    out->index = sreg;
    return true;
}

/* A register, variable, function, special register, _ or WARP_SZ. */
static bool named(ptx_parser_t *p, ptx_operand_t *out)
{
    const ptx_tok_t tok = p->lex.tok;
    bool ok = true;
    uint32_t reg = ptx_p_register(p, tok.text, tok.length, &ok);
    if (!ok)
        return false;
    if (reg != PTX_NONE) {
        out->kind = PTX_OPERAND_REG;
        out->index = reg;
        ptx_lex_next(&p->lex);
        return p->lex.tok.kind != PTX_TOK_DOT ||
               ptx_p_fail(p, GB_ERR_UNSUPPORTED, tok.line,
                          "parts of registers ('.%.*s') are not supported", (int)p->lex.tok.length,
                          p->lex.tok.text);
    }
    const ptx_sym_t *sym = ptx_p_find(&p->names, tok.text, tok.length);
    if (sym && sym->kind == PTX_SYM_VAR) {
        int64_t offset = 0;
        out->kind = PTX_OPERAND_VAR;
        out->index = sym->index;
        ptx_lex_next(&p->lex);
        if (!ptx_p_offset(p, &offset))
            return false;
        out->value = (uint64_t)offset;
        return note_var(p, out->index);
    }
    if (sym && sym->kind == PTX_SYM_FUNC) {
        out->kind = PTX_OPERAND_FUNC;
        out->index = sym->index;
        ptx_lex_next(&p->lex);
        return ptx_p_note_callee(p, out->index, false);
    }
    if (tok.length == 1 && tok.text[0] == '_') {
        out->kind = PTX_OPERAND_SINK;
        ptx_lex_next(&p->lex);
        return true;
    }
    return tok.text[0] == '%' ? special(p, &tok, out) : unknown_name(p, &tok);
}

static bool immediate(ptx_parser_t *p, ptx_type_t type, ptx_operand_t *out)
{
    ptx_const_t value;
    out->kind = PTX_OPERAND_IMM;
    return ptx_p_const(p, false, &value) && ptx_p_convert(p, &value, type, &out->value);
}

static bool is_warp_size(const ptx_tok_t *tok)
{
    return tok->kind == PTX_TOK_IDENT && tok->length == 7 && memcmp(tok->text, "WARP_SZ", 7) == 0;
}

/* Anything but a vector or an address. */
static bool simple(ptx_parser_t *p, ptx_type_t type, ptx_operand_t *out)
{
    *out = (ptx_operand_t){0};
    if (p->lex.tok.kind == PTX_TOK_IDENT && !is_warp_size(&p->lex.tok))
        return named(p, out);
    if (ptx_lex_is(&p->lex, '!')) {
        const ptx_lex_t before = p->lex;
        ptx_lex_next(&p->lex);
        if (p->lex.tok.kind == PTX_TOK_IDENT && !is_warp_size(&p->lex.tok)) {
            out->negated = 1;
            return named(p, out);
        }
        p->lex = before; /* the ! of a constant */
    }
    return immediate(p, type, out);
}

/* "{a, b, c, d}", or "(a, b)" of a call. Elements are stored together. */
static bool vector(ptx_parser_t *p, ptx_type_t type, int close, unsigned limit, ptx_operand_t *out)
{
    ptx_operand_t elements[255];
    unsigned n = 0;
    uint32_t line = p->lex.tok.line;
    ptx_lex_next(&p->lex);
    while (!ptx_lex_is(&p->lex, close)) {
        if (n >= limit)
            return ptx_p_fail(p, GB_ERR_LIMIT, line, "more than %u elements", limit);
        if (!simple(p, type, &elements[n++]))
            return false;
        if (!ptx_lex_is(&p->lex, ','))
            break;
        ptx_lex_next(&p->lex);
    }
    *out = (ptx_operand_t){.kind = PTX_OPERAND_VECTOR, .count = (uint8_t)n};
    out->index = p->body.operands.count;
    ptx_operand_t *own = ptx_vec_push(&p->body.operands, sizeof *own, n);
    if (!own)
        return ptx_p_no_memory(p);
    memcpy(own, elements, n * sizeof *own);
    return ptx_p_expect(p, close);
}

/* "[%rd1+4]", "[sym-8]", "[64]" */
static bool address(ptx_parser_t *p, const reading_t *r, ptx_operand_t *out)
{
    ptx_operand_t base;
    int64_t offset = 0;
    if (!ptx_p_expect(p, '['))
        return false;
    if (!simple(p, PTX_U64, &base))
        return false;
    offset = (int64_t)base.value;
    if (base.kind == PTX_OPERAND_REG) {
        unsigned size = ptx_type_size(((const ptx_reg_t *)p->body.regs.data)[base.index].type);
        if (size != 8 && size != 4)
            return bad_operand(p, r, "is an address in a register of neither 32 nor 64 bits");
        if (!ptx_p_offset(p, &offset))
            return false;
    } else if (base.kind != PTX_OPERAND_VAR && base.kind != PTX_OPERAND_IMM) {
        return bad_operand(p, r, "is not an address");
    }
    *out = (ptx_operand_t){.kind = PTX_OPERAND_ADDRESS,
                           .base = base.kind,
                           .index = base.index,
                           .value = (uint64_t)offset};
    return ptx_p_expect(p, ']');
}

static bool push(ptx_parser_t *p, reading_t *r, const ptx_operand_t *operand)
{
    if (r->count >= PTX_MAX_OPERANDS)
        return ptx_p_fail(p, GB_ERR_LIMIT, r->in.line, "more than %d operands", PTX_MAX_OPERANDS);
    r->operands[r->count++] = *operand;
    if (r->is_dst)
        r->in.dst_count++;
    else
        r->in.src_count++;
    return true;
}

/* "[tex, sampler, {x, y}]": texture, sampler or NONE, coordinates; or just "[tex]". */
static bool object_list(ptx_parser_t *p, reading_t *r)
{
    ptx_operand_t items[3] = {{0}};
    const ptx_operand_t none = {.kind = PTX_OPERAND_NONE};
    unsigned n = 0;
    ptx_type_t type = r->in.type2;
    if (!ptx_p_expect(p, '['))
        return false;
    for (;;) {
        bool ok = ptx_lex_is(&p->lex, '{') ? vector(p, type, '}', PTX_MAX_OPERANDS, &items[n])
                                           : simple(p, type, &items[n]);
        if (!ok)
            return false;
        n++;
        if (n >= 3 || !ptx_lex_is(&p->lex, ','))
            break;
        ptx_lex_next(&p->lex);
    }
    if (!ptx_p_expect(p, ']') || !push(p, r, &items[0]))
        return false;
    return n == 1 || (push(p, r, n == 3 ? &items[1] : &none) && push(p, r, &items[n - 1]));
}

static bool label_use(ptx_parser_t *p, ptx_operand_t *out)
{
    const ptx_tok_t *tok = &p->lex.tok;
    if (tok->kind != PTX_TOK_IDENT)
        return ptx_p_unexpected(p, "a label");
    ptx_pending_t *use = ptx_vec_push(&p->body.pendings, sizeof *use, 1);
    if (!use)
        return ptx_p_no_memory(p);
    /* The number of the operand is set once the instruction is stored. */
    *use = (ptx_pending_t){
        .name = tok->text, .length = tok->length, .line = tok->line, .index = PTX_NONE};
    *out = (ptx_operand_t){.kind = PTX_OPERAND_BLOCK, .index = PTX_NONE};
    ptx_lex_next(&p->lex);
    return true;
}

static unsigned reg_size(const ptx_parser_t *p, uint32_t reg)
{
    return ptx_type_size(((const ptx_reg_t *)p->body.regs.data)[reg].type);
}

static bool is_pred(const ptx_parser_t *p, uint32_t reg)
{
    return ((const ptx_reg_t *)p->body.regs.data)[reg].type == PTX_PRED;
}

/* Does the register have the size that its place asks for? */
static bool size_fits(const ptx_parser_t *p, const reading_t *r, uint32_t reg, unsigned divisor)
{
    ptx_type_t type = operand_type(r);
    unsigned size = ptx_type_size(type), have = reg_size(p, reg);
    if (is_pred(p, reg) || type == PTX_PRED)
        return is_pred(p, reg) && type == PTX_PRED;
    if (r->shape == 'm' && r->in.mode == PTX_MUL_WIDE)
        size *= 2;
    size /= divisor;
    if (r->shape == 'r' || r->shape == 'R' || r->shape == 'v' || size == 1)
        return have >= size;
    return have == size;
}

static bool check_scalar(ptx_parser_t *p, const reading_t *r, const ptx_operand_t *o,
                         unsigned divisor)
{
    if (r->shape == '*' || r->shape == 'V')
        return !(r->is_dst && o->kind != PTX_OPERAND_REG && o->kind != PTX_OPERAND_SINK) ||
               bad_operand(p, r, "is not a register");
    if (o->negated && r->shape != 'q')
        return bad_operand(p, r, "cannot be negated");
    switch (o->kind) {
    case PTX_OPERAND_REG:
        return size_fits(p, r, o->index, divisor) ||
               bad_operand(p, r, "is a register of the wrong type");
    case PTX_OPERAND_SINK:
        return r->is_dst || bad_operand(p, r, "is missing");
    case PTX_OPERAND_IMM:
    case PTX_OPERAND_SREG:
    case PTX_OPERAND_VAR:
    case PTX_OPERAND_FUNC:
        return !r->is_dst || bad_operand(p, r, "is not a register");
    default:
        return bad_operand(p, r, "is of the wrong kind");
    }
}

static bool check_vector(ptx_parser_t *p, const reading_t *r, const ptx_operand_t *o)
{
    bool packing = r->shape == 'M';
    if (!packing && r->shape != 'v' && r->shape != 'V' && r->shape != '*')
        return bad_operand(p, r, "must not be a vector");
    if (packing && o->count != 2 && o->count != 4 && o->count != 8)
        return bad_operand(p, r, "must have 2, 4 or 8 elements");
    if (r->shape == 'v' && o->count != r->in.vec)
        return bad_operand(p, r, "has the wrong number of elements");
    if (o->negated)
        return bad_operand(p, r, "cannot be negated");
    for (unsigned i = 0; i < o->count; i++) {
        const ptx_operand_t e = ((const ptx_operand_t *)p->body.operands.data)[o->index + i];
        if (!check_scalar(p, r, &e, packing ? o->count : 1))
            return false;
    }
    return true;
}

static bool check(ptx_parser_t *p, const reading_t *r, const ptx_operand_t *o)
{
    if (o->kind == PTX_OPERAND_VECTOR)
        return check_vector(p, r, o);
    if (r->shape == 'v' && r->in.vec > 1)
        return bad_operand(p, r, "must be a vector");
    if (o->kind == PTX_OPERAND_ADDRESS)
        return (!r->is_dst && r->shape == '*') || bad_operand(p, r, "must not be an address");
    return check_scalar(p, r, o, 1);
}

static bool read_operand(ptx_parser_t *p, reading_t *r)
{
    ptx_operand_t o;
    if (r->shape == 'x' || (r->shape == '*' && ptx_lex_is(&p->lex, '[') && r->in.op == PTX_OP_CP))
        return object_list(p, r);
    if (r->shape == 'a')
        return address(p, r, &o) && push(p, r, &o);
    if (r->shape == 'l' || r->shape == 'b')
        return label_use(p, &o) && push(p, r, &o);
    ptx_type_t type = operand_type(r);
    bool ok = ptx_lex_is(&p->lex, '{')   ? vector(p, type, '}', PTX_MAX_OPERANDS, &o)
              : ptx_lex_is(&p->lex, '[') ? address(p, r, &o)
                                         : simple(p, type, &o);
    return ok && check(p, r, &o) && push(p, r, &o);
}

/* "d|p": the second destination. */
static bool read_pair(ptx_parser_t *p, reading_t *r)
{
    if (!ptx_lex_is(&p->lex, '|'))
        return true;
    ptx_lex_next(&p->lex);
    r->shape = 'p';
    return read_operand(p, r);
}

static bool read_operands(ptx_parser_t *p, reading_t *r, const char *shape)
{
    bool first = true, optional = false;
    r->is_dst = true;
    for (; *shape; shape++) {
        if (*shape == '=') {
            r->is_dst = false;
        } else if (*shape == '?') {
            optional = true;
        } else if (*shape == 'P') {
            if (!read_pair(p, r))
                return false;
        } else if (ptx_lex_is(&p->lex, ';')) {
            return optional || bad_operand(p, r, "is missing");
        } else {
            if (!first && !ptx_p_expect(p, ','))
                return false;
            first = false;
            r->shape = *shape;
            if (!read_operand(p, r))
                return false;
        }
    }
    return true;
}

/* A destination in registers is no call's: results go to .param variables or registers. */
static bool read_callee(ptx_parser_t *p, reading_t *r)
{
    ptx_operand_t o;
    if (p->lex.tok.kind != PTX_TOK_IDENT)
        return ptx_p_unexpected(p, "a function");
    const ptx_sym_t *sym = ptx_p_find(&p->names, p->lex.tok.text, p->lex.tok.length);
    if (sym && sym->kind == PTX_SYM_FUNC) {
        o = (ptx_operand_t){.kind = PTX_OPERAND_FUNC, .index = sym->index};
        ptx_lex_next(&p->lex);
        return ptx_p_note_callee(p, o.index, true) && push(p, r, &o);
    }
    if (!simple(p, PTX_U64, &o))
        return false;
    if (o.kind != PTX_OPERAND_REG)
        return bad_operand(p, r, "is not a function");
    p->body.calls_indirect = true;
    return push(p, r, &o);
}

static bool check_arguments(ptx_parser_t *p, const reading_t *r, const ptx_operand_t *list,
                            bool results)
{
    for (unsigned i = 0; i < list->count; i++) {
        const ptx_operand_t *e = (const ptx_operand_t *)p->body.operands.data + list->index + i;
        bool param = e->kind == PTX_OPERAND_VAR && e->value == 0 &&
                     ptx_p_var(p, e->index)->space == PTX_SPACE_PARAM;
        if (!param && e->kind != PTX_OPERAND_REG && (results || e->kind != PTX_OPERAND_IMM))
            return bad_operand(p, r, "has an argument that is neither .param nor a register");
    }
    return !results || list->count <= 1 || bad_operand(p, r, "has more than one result");
}

/* "(ret), callee, (a, b), prototype" with all but the callee optional */
static bool read_call(ptx_parser_t *p, reading_t *r)
{
    ptx_operand_t results = {0}, arguments = {0}, label;
    r->is_dst = true;
    if (ptx_lex_is(&p->lex, '(') &&
        (!vector(p, PTX_TYPE_NONE, ')', 255, &results) || !ptx_p_expect(p, ',')))
        return false;
    if (!check_arguments(p, r, &results, true) || !push(p, r, &results))
        return false;
    r->is_dst = false;
    if (!read_callee(p, r))
        return false;
    bool comma = ptx_lex_is(&p->lex, ',');
    if (comma)
        ptx_lex_next(&p->lex);
    if (comma && ptx_lex_is(&p->lex, '(')) {
        if (!vector(p, PTX_TYPE_NONE, ')', 255, &arguments) ||
            !check_arguments(p, r, &arguments, false))
            return false;
        comma = ptx_lex_is(&p->lex, ',');
        if (comma)
            ptx_lex_next(&p->lex);
    }
    if (!push(p, r, &arguments))
        return false;
    return !comma || (label_use(p, &label) && push(p, r, &label));
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
    guard->guard = ptx_p_register(p, p->lex.tok.text, p->lex.tok.length, &ok);
    if (!ok)
        return false;
    if (guard->guard == PTX_NONE || !is_pred(p, guard->guard))
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

/* The mnemonic's fields, decoded once per module. */
static const ptx_mnemonic_t *mnemonic(ptx_parser_t *p)
{
    char text[128], word[64];
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

static bool store(ptx_parser_t *p, reading_t *r, uint32_t first_pending)
{
    r->in.operand_first = p->body.operands.count;
    ptx_operand_t *own = ptx_vec_push(&p->body.operands, sizeof *own, r->count);
    ptx_instr_t *instr = ptx_vec_push(&p->body.instrs, sizeof *instr, 1);
    if (!own || !instr)
        return ptx_p_no_memory(p);
    if (r->count)
        memcpy(own, r->operands, r->count * sizeof *own);
    *instr = r->in;
    if (r->in.op == PTX_OP_BAR)
        p->body.has_barrier = true;
    /* A use of a label is always an instruction's last operand. */
    if (p->body.pendings.count > first_pending)
        ((ptx_pending_t *)p->body.pendings.data)[first_pending].index = p->body.operands.count - 1;
    return true;
}

static bool complete(ptx_parser_t *p, const reading_t *r)
{
    const ptx_instr_t *in = &r->in;
    const ptx_operand_t *o = r->operands;
    if (in->op == PTX_OP_SETP || in->op == PTX_OP_SET) {
        if ((in->src_count == 3) != (in->boolop != PTX_BOOL_NONE))
            return bad_operand(p, r, in->boolop ? "is missing" : "is one too many");
    }
    if (in->flags & PTX_F_SYNC && (in->op == PTX_OP_SHFL || in->op == PTX_OP_VOTE)) {
        if (in->src_count != (in->op == PTX_OP_SHFL ? 4 : 2))
            return bad_operand(p, r, "is missing: the member mask");
    }
    if (in->op == PTX_OP_ATOM || in->op == PTX_OP_RED) {
        unsigned want = in->mode == PTX_ATOM_CAS ? 3 : 2;
        if (in->src_count < want)
            return bad_operand(p, r, "is missing");
    }
    if (in->op == PTX_OP_MOV && o[0].kind == PTX_OPERAND_VECTOR && o[1].kind == PTX_OPERAND_VECTOR)
        return bad_operand(p, r, "must not be a vector too");
    return true;
}

bool ptx_p_instruction(ptx_parser_t *p)
{
    reading_t r;
    ptx_instr_t guard = {0};
    r.count = 0;
    uint32_t first_pending = p->body.pendings.count;
    if (!read_guard(p, &guard))
        return false;
    uint32_t line = p->lex.tok.line;
    const ptx_mnemonic_t *m = mnemonic(p);
    if (!m)
        return false;
    r.in = m->instr;
    r.in.line = line;
    r.in.guard = guard.guard;
    r.in.guard_negated = guard.guard_negated;
    const char *shape = m->shape;
    bool ok = (shape[0] == 'c' ? read_call(p, &r) : read_operands(p, &r, shape)) &&
              complete(p, &r) && ptx_p_expect(p, ';') && store(p, &r, first_pending);
    if (!ok)
        p->body.pendings.count = first_pending; /* no operand is there for its label */
    return ok;
}
