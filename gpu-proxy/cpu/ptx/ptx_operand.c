#include <string.h>

#include "gpu-proxy/cpu/ptx/ptx_parser.h"

bool ptx_p_bad_operand(ptx_parser_t *p, const ptx_reading_t *r, const char *what)
{
    return ptx_p_fail(p, GB_ERR_FORMAT, r->in.line, "operand %u of '%s' %s", r->count + 1,
                      r->in.mnemonic, what);
}

/* The type that an immediate at this place is written for. */
static ptx_type_t operand_type(const ptx_reading_t *r)
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

static bool store_vector(ptx_parser_t *p, const ptx_operand_t *elements, unsigned n,
                         ptx_operand_t *out)
{
    *out = (ptx_operand_t){.kind = PTX_OPERAND_VECTOR, .count = (uint8_t)n};
    out->index = p->body.operands.count;
    ptx_operand_t *own = ptx_vec_push(&p->body.operands, sizeof *own, n);
    if (!own)
        return ptx_p_no_memory(p);
    if (n)
        memcpy(own, elements, n * sizeof *own);
    return true;
}

/* %tid as a whole: three components and a fourth that is 0. */
static bool special_vector(ptx_parser_t *p, const ptx_tok_t *tok, ptx_operand_t *out)
{
    ptx_operand_t elements[4] = {{0}};
    for (int i = 0; i < 3; i++) {
        ptx_sreg_t sreg = ptx_sreg_by_name(tok->text, tok->length, "xyz"[i], &elements[i].value);
        if (sreg == PTX_SREG_NONE)
            return unknown_name(p, tok);
        elements[i].kind = PTX_OPERAND_SREG;
        elements[i].index = sreg;
    }
    elements[3].kind = PTX_OPERAND_IMM;
    return store_vector(p, elements, 4, out);
}

/* %reserved_smem_offset_*: shared memory for system software, above all for what cooperative groups keep
 * of groups of several warps. Here it is a variable of its own in every kernel that asks for it. */
static bool reserved(ptx_parser_t *p, const ptx_tok_t *tok, ptx_operand_t *out)
{
    static const struct {
        const char *tail;
        uint64_t offset;
    } all[] = {
        {"begin", 0}, {"end", PTX_RESERVED_SHARED}, {"0", 0}, {"1", PTX_RESERVED_SHARED / 2}};
    static const char head[] = "%reserved_smem_offset_";
    const uint32_t length = sizeof head - 1;
    if (tok->length <= length || memcmp(tok->text, head, length) != 0)
        return unknown_name(p, tok);
    const char *tail = tok->text + length;
    uint32_t rest = tok->length - length;
    if (rest == 3 && memcmp(tail, "cap", 3) == 0) {
        *out = (ptx_operand_t){.kind = PTX_OPERAND_IMM, .value = PTX_RESERVED_SHARED};
        return true;
    }
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (rest == strlen(all[i].tail) && memcmp(tail, all[i].tail, rest) == 0) {
            *out = (ptx_operand_t){.kind = PTX_OPERAND_VAR, .value = all[i].offset};
            return ptx_p_reserved_shared(p, &out->index) && note_var(p, out->index);
        }
    }
    return unknown_name(p, tok);
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
    if (component == 'w' && ptx_sreg_by_name(tok->text, tok->length, 'z', &out->value)) {
        out->kind = PTX_OPERAND_IMM; /* the fourth component of %tid and its like is 0 */
        return true;
    }
    if (sreg == PTX_SREG_NONE)
        return component ? unknown_name(p, tok) : special_vector(p, tok, out);
    if (sreg == PTX_SREG_RESERVED_SMEM)
        return reserved(p, tok, out);
    out->kind = PTX_OPERAND_SREG;
    out->index = sreg;
    return true;
}

/* All of a vector register. */
static bool whole_vector(ptx_parser_t *p, uint32_t first, unsigned width, ptx_operand_t *out)
{
    ptx_operand_t elements[PTX_MAX_REG_VECTOR] = {{0}};
    for (unsigned i = 0; i < width; i++) {
        elements[i].kind = PTX_OPERAND_REG;
        elements[i].index = first + i;
    }
    return store_vector(p, elements, width, out);
}

/* ".y" or ".g" of a vector register: 1. */
static bool read_component(const ptx_tok_t *tok, unsigned width, unsigned *out)
{
    static const char letters[] = "xyzwrgba";
    const char *at = tok->length == 1 ? memchr(letters, tok->text[0], 8) : NULL;
    *out = at ? (unsigned)(at - letters) % 4 : width;
    return *out < width;
}

/* ".b0", ".h10", ".b7531": see ptx_operand_t. */
static bool read_part(const ptx_tok_t *tok, ptx_operand_t *out)
{
    unsigned most = tok->text[0] == 'b' ? 4 : 2, below = most * 2;
    if ((tok->text[0] != 'b' && tok->text[0] != 'h') || tok->length < 2 || tok->length > most + 1)
        return false;
    out->base = (uint8_t)tok->text[0];
    out->count = (uint8_t)(tok->length - 1);
    for (uint32_t i = 1; i < tok->length; i++) {
        unsigned digit = (unsigned)(tok->text[i] - '0');
        if (digit >= below)
            return false;
        out->value = out->value << 4 | digit;
    }
    return true;
}

/* Behind a register's name: all of it, a component of a vector, or a part. */
static bool registered(ptx_parser_t *p, const ptx_tok_t *name, uint32_t reg, unsigned width,
                       ptx_operand_t *out)
{
    const ptx_tok_t word = p->lex.tok;
    unsigned component = 0;
    out->kind = PTX_OPERAND_REG;
    out->index = reg;
    if (word.kind != PTX_TOK_DOT)
        return width == 1 || whole_vector(p, reg, width, out);
    ptx_lex_next(&p->lex);
    if (width > 1 ? read_component(&word, width, &component) : read_part(&word, out)) {
        out->index = reg + component;
        return true;
    }
    return ptx_p_fail(p, GB_ERR_FORMAT, word.line, "'%.*s' has no part '.%.*s'",
                      (int)(name->length < 80 ? name->length : 80), name->text,
                      (int)(word.length < 40 ? word.length : 40), word.text);
}

/* A register, variable, function, special register, _ or WARP_SZ. */
static bool named(ptx_parser_t *p, ptx_operand_t *out)
{
    const ptx_tok_t tok = p->lex.tok;
    bool ok = true;
    unsigned width;
    uint32_t reg = ptx_p_register(p, tok.text, tok.length, &width, &ok);
    if (!ok)
        return false;
    if (reg != PTX_NONE) {
        ptx_lex_next(&p->lex);
        return registered(p, &tok, reg, width, out);
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

/* Anything without brackets. */
static bool unbracketed(ptx_parser_t *p, ptx_type_t type, ptx_operand_t *out)
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

static bool is_part(const ptx_operand_t *o)
{
    return o->kind == PTX_OPERAND_REG && o->base != 0;
}

bool ptx_p_simple(ptx_parser_t *p, ptx_type_t type, ptx_operand_t *out)
{
    uint32_t line = p->lex.tok.line;
    return unbracketed(p, type, out) &&
           ((out->kind != PTX_OPERAND_VECTOR && !is_part(out)) ||
            ptx_p_fail(p, GB_ERR_FORMAT, line, "neither vectors nor parts of registers go here"));
}

/* Appends an element of a list; a vector register among a call's arguments stands for all of its
 * components. */
static bool add_element(ptx_parser_t *p, ptx_type_t type, bool flatten, unsigned limit,
                        ptx_operand_t *elements, unsigned *n)
{
    ptx_operand_t one;
    uint32_t line = p->lex.tok.line;
    if (!flatten ? !ptx_p_simple(p, type, &one) : !unbracketed(p, type, &one))
        return false;
    bool many = one.kind == PTX_OPERAND_VECTOR;
    unsigned count = many ? one.count : 1;
    if (is_part(&one))
        return ptx_p_fail(p, GB_ERR_FORMAT, line, "parts of registers are no arguments");
    if (*n + count > limit)
        return ptx_p_fail(p, GB_ERR_LIMIT, line, "more than %u elements", limit);
    for (unsigned i = 0; i < count; i++)
        elements[(*n)++] =
            many ? ((const ptx_operand_t *)p->body.operands.data)[one.index + i] : one;
    return true;
}

bool ptx_p_vector(ptx_parser_t *p, ptx_type_t type, int close, unsigned limit, ptx_operand_t *out)
{
    ptx_operand_t elements[255];
    unsigned n = 0;
    ptx_lex_next(&p->lex);
    while (!ptx_lex_is(&p->lex, close)) {
        if (!add_element(p, type, close == ')', limit, elements, &n))
            return false;
        if (!ptx_lex_is(&p->lex, ','))
            break;
        ptx_lex_next(&p->lex);
    }
    return store_vector(p, elements, n, out) && ptx_p_expect(p, close);
}

/* "[%rd1+4]", "[sym-8]", "[64]" */
static bool address(ptx_parser_t *p, const ptx_reading_t *r, ptx_operand_t *out)
{
    ptx_operand_t base;
    int64_t offset = 0;
    if (!ptx_p_expect(p, '['))
        return false;
    if (!ptx_p_simple(p, PTX_U64, &base))
        return false;
    offset = (int64_t)base.value;
    if (base.kind == PTX_OPERAND_REG) {
        unsigned size = ptx_type_size(((const ptx_reg_t *)p->body.regs.data)[base.index].type);
        if (size != 8 && size != 4)
            return ptx_p_bad_operand(p, r, "is an address in a register of neither 32 nor 64 bits");
        if (!ptx_p_offset(p, &offset))
            return false;
    } else if (base.kind != PTX_OPERAND_VAR && base.kind != PTX_OPERAND_IMM) {
        return ptx_p_bad_operand(p, r, "is not an address");
    }
    *out = (ptx_operand_t){.kind = PTX_OPERAND_ADDRESS,
                           .base = base.kind,
                           .index = base.index,
                           .value = (uint64_t)offset};
    return ptx_p_expect(p, ']');
}

bool ptx_p_push(ptx_parser_t *p, ptx_reading_t *r, const ptx_operand_t *operand)
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
static bool object_list(ptx_parser_t *p, ptx_reading_t *r)
{
    ptx_operand_t items[3] = {{0}};
    const ptx_operand_t none = {.kind = PTX_OPERAND_NONE};
    unsigned n = 0;
    ptx_type_t type = r->in.type2;
    if (!ptx_p_expect(p, '['))
        return false;
    for (;;) {
        bool ok = ptx_lex_is(&p->lex, '{') ? ptx_p_vector(p, type, '}', PTX_MAX_OPERANDS, &items[n])
                                           : unbracketed(p, type, &items[n]);
        if (!ok)
            return false;
        if (is_part(&items[n]))
            return ptx_p_bad_operand(p, r, "must be a whole register");
        n++;
        if (n >= 3 || !ptx_lex_is(&p->lex, ','))
            break;
        ptx_lex_next(&p->lex);
    }
    if (!ptx_p_expect(p, ']') || !ptx_p_push(p, r, &items[0]))
        return false;
    return n == 1 ||
           (ptx_p_push(p, r, n == 3 ? &items[1] : &none) && ptx_p_push(p, r, &items[n - 1]));
}

bool ptx_p_label_use(ptx_parser_t *p, ptx_operand_t *out)
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

bool ptx_p_is_pred(const ptx_parser_t *p, uint32_t reg)
{
    return ((const ptx_reg_t *)p->body.regs.data)[reg].type == PTX_PRED;
}

/* Does the register have the size that its place asks for? */
static bool size_fits(const ptx_parser_t *p, const ptx_reading_t *r, uint32_t reg, unsigned divisor)
{
    ptx_type_t type = operand_type(r);
    unsigned size = ptx_type_size(type), have = reg_size(p, reg);
    if (ptx_p_is_pred(p, reg) || type == PTX_PRED)
        return ptx_p_is_pred(p, reg) && type == PTX_PRED;
    if (r->shape == 'm' && r->in.mode == PTX_MUL_WIDE)
        size *= 2;
    size /= divisor;
    if (r->shape == 'r' || r->shape == 'R' || r->shape == 'v' || size == 1)
        return have >= size;
    return have == size;
}

static bool check_scalar(ptx_parser_t *p, const ptx_reading_t *r, const ptx_operand_t *o,
                         unsigned divisor)
{
    if (is_part(o) && r->in.op != PTX_OP_VIDEO)
        return ptx_p_bad_operand(p, r, "must be a whole register");
    if (r->shape == '*' || r->shape == 'V')
        return !(r->is_dst && o->kind != PTX_OPERAND_REG && o->kind != PTX_OPERAND_SINK) ||
               ptx_p_bad_operand(p, r, "is not a register");
    if (o->negated && r->shape != 'q')
        return ptx_p_bad_operand(p, r, "cannot be negated");
    switch (o->kind) {
    case PTX_OPERAND_REG:
        return size_fits(p, r, o->index, divisor) ||
               ptx_p_bad_operand(p, r, "is a register of the wrong type");
    case PTX_OPERAND_SINK:
        return r->is_dst || ptx_p_bad_operand(p, r, "is missing");
    case PTX_OPERAND_IMM:
    case PTX_OPERAND_SREG:
    case PTX_OPERAND_VAR:
    case PTX_OPERAND_FUNC:
        return !r->is_dst || ptx_p_bad_operand(p, r, "is not a register");
    default:
        return ptx_p_bad_operand(p, r, "is of the wrong kind");
    }
}

static bool check_vector(ptx_parser_t *p, const ptx_reading_t *r, const ptx_operand_t *o)
{
    bool packing = r->shape == 'M' && r->in.vec == 1;
    if (r->shape != 'M' && r->shape != 'v' && r->shape != 'V' && r->shape != '*')
        return ptx_p_bad_operand(p, r, "must not be a vector");
    if (packing && o->count != 2 && o->count != 4 && o->count != 8)
        return ptx_p_bad_operand(p, r, "must have 2, 4 or 8 elements");
    if ((r->shape == 'v' || (r->shape == 'M' && !packing)) && o->count != r->in.vec)
        return ptx_p_bad_operand(p, r, "has the wrong number of elements");
    if (o->negated)
        return ptx_p_bad_operand(p, r, "cannot be negated");
    for (unsigned i = 0; i < o->count; i++) {
        const ptx_operand_t e = ((const ptx_operand_t *)p->body.operands.data)[o->index + i];
        if (packing && e.kind == PTX_OPERAND_SREG)
            return ptx_p_bad_operand(p, r, "has the wrong number of elements");
        if (!check_scalar(p, r, &e, packing ? o->count : 1))
            return false;
    }
    return true;
}

static bool check(ptx_parser_t *p, const ptx_reading_t *r, const ptx_operand_t *o)
{
    if (o->kind == PTX_OPERAND_VECTOR)
        return check_vector(p, r, o);
    if ((r->shape == 'v' || r->shape == 'M') && r->in.vec > 1)
        return ptx_p_bad_operand(p, r, "must be a vector");
    if (o->kind == PTX_OPERAND_ADDRESS)
        return (!r->is_dst && r->shape == '*') || ptx_p_bad_operand(p, r, "must not be an address");
    return check_scalar(p, r, o, 1);
}

/* "mov d, a+4": an addition. */
static bool sum(ptx_parser_t *p, ptx_reading_t *r, const ptx_operand_t *a)
{
    ptx_operand_t b = {.kind = PTX_OPERAND_IMM};
    int64_t offset = 0;
    unsigned size = ptx_type_size(r->in.type);
    if (size < 2 || size > 8 || ptx_type_is_float(r->in.type))
        return ptx_p_bad_operand(p, r, "cannot have an offset");
    r->in.op = PTX_OP_ADD;
    r->in.type = size == 2 ? PTX_U16 : size == 4 ? PTX_U32 : PTX_U64;
    if (!ptx_p_offset(p, &offset))
        return false;
    b.value = (uint64_t)offset;
    return ptx_p_push(p, r, a) && ptx_p_push(p, r, &b);
}

/* The minus of vmad. */
static bool negated(ptx_parser_t *p, const ptx_reading_t *r)
{
    if (r->in.op != PTX_OP_VIDEO || !ptx_lex_is(&p->lex, '-'))
        return false;
    const ptx_lex_t before = p->lex;
    ptx_lex_next(&p->lex);
    if (p->lex.tok.kind == PTX_TOK_IDENT && !is_warp_size(&p->lex.tok))
        return true;
    p->lex = before;
    return false;
}

/* "!p" where an instruction has no negation of its own: through another register. */
static bool negate(ptx_parser_t *p, const ptx_reading_t *r, ptx_operand_t *o)
{
    const ptx_mnemonic_t *m = ptx_p_mnemonic(p, "not.pred", 8, r->in.line);
    uint32_t index = p->body.regs.count;
    ptx_reg_t *reg = m ? ptx_vec_push(&p->body.regs, sizeof *reg, 1) : NULL;
    if (!reg)
        return m && ptx_p_no_memory(p);
    *reg = (ptx_reg_t){.name = "%not", .number = PTX_NONE, .type = PTX_PRED};
    ptx_instr_t in = m->instr;
    in.line = r->in.line;
    in.dst_count = in.src_count = 1;
    const ptx_operand_t pair[2] = {{.kind = PTX_OPERAND_REG, .index = index},
                                   {.kind = PTX_OPERAND_REG, .index = o->index}};
    *o = pair[0];
    return ptx_p_emit(p, &in, pair);
}

static bool read_operand(ptx_parser_t *p, ptx_reading_t *r)
{
    ptx_operand_t o;
    bool tensor = r->in.op == PTX_OP_CP && strstr(r->in.mnemonic, ".tensor") != NULL;
    if (r->shape == 'x' || (tensor && ptx_lex_is(&p->lex, '[')))
        return object_list(p, r);
    if (r->shape == 'a')
        return address(p, r, &o) && ptx_p_push(p, r, &o);
    if (r->shape == 'l' || r->shape == 'b')
        return ptx_p_label_use(p, &o) && ptx_p_push(p, r, &o);
    ptx_type_t type = operand_type(r);
    bool minus = negated(p, r);
    bool ok = ptx_lex_is(&p->lex, '{')   ? ptx_p_vector(p, type, '}', PTX_MAX_OPERANDS, &o)
              : ptx_lex_is(&p->lex, '[') ? address(p, r, &o)
                                         : unbracketed(p, type, &o);
    if (ok && o.kind == PTX_OPERAND_REG && o.negated && !r->is_dst && type == PTX_PRED &&
        r->shape != 'q' && ptx_p_is_pred(p, o.index))
        ok = negate(p, r, &o);
    if (!ok || !check(p, r, &o))
        return false;
    if (minus)
        o.negated = 1;
    if (r->shape == 'M' && !r->is_dst && o.kind == PTX_OPERAND_REG && r->in.vec == 1 &&
        (ptx_lex_is(&p->lex, '+') || ptx_lex_is(&p->lex, '-')))
        return sum(p, r, &o);
    return ptx_p_push(p, r, &o);
}

/* "d|p": the second destination. */
static bool read_pair(ptx_parser_t *p, ptx_reading_t *r)
{
    if (!ptx_lex_is(&p->lex, '|'))
        return true;
    ptx_lex_next(&p->lex);
    r->shape = 'p';
    return read_operand(p, r);
}

bool ptx_p_operands(ptx_parser_t *p, ptx_reading_t *r, const char *shape)
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
            return optional || ptx_p_bad_operand(p, r, "is missing");
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
