#include <string.h>

#include "gpu-proxy/cpu/ptx/ptx_parser.h"

static bool read_count(ptx_parser_t *p, uint32_t *out)
{
    const ptx_tok_t *tok = &p->lex.tok;
    if (tok->kind != PTX_TOK_INT || tok->bits > UINT32_MAX)
        return ptx_p_unexpected(p, "a number of registers");
    *out = (uint32_t)tok->bits;
    ptx_lex_next(&p->lex);
    return ptx_p_expect(p, '>');
}

bool ptx_p_register_type(ptx_parser_t *p, ptx_type_t *type, unsigned *width)
{
    const ptx_tok_t *tok = &p->lex.tok;
    *width = 1;
    if (ptx_p_is_dot(p, "v2") || ptx_p_is_dot(p, "v4") || ptx_p_is_dot(p, "v8")) {
        *width = (unsigned)(tok->text[1] - '0');
        ptx_lex_next(&p->lex);
    }
    *type = tok->kind == PTX_TOK_DOT ? ptx_type_by_name(tok->text, tok->length) : PTX_TYPE_NONE;
    return (*type != PTX_TYPE_NONE && *type < PTX_TEXREF && !(*type == PTX_PRED && *width > 1)) ||
           ptx_p_unexpected(p, "the type of a register");
}

/* ".reg .b32 %r<5>, %x;" at the token behind .reg */
static bool registers(ptx_parser_t *p)
{
    const ptx_tok_t *tok = &p->lex.tok;
    ptx_type_t type;
    unsigned width;
    if (!ptx_p_register_type(p, &type, &width))
        return false;
    do {
        ptx_lex_next(&p->lex);
        const ptx_tok_t name = *tok;
        if (name.kind != PTX_TOK_IDENT)
            return ptx_p_unexpected(p, "a register's name");
        ptx_lex_next(&p->lex);
        bool range = ptx_lex_is(&p->lex, '<');
        uint32_t count = 0;
        if (range) {
            ptx_lex_next(&p->lex);
            if (!read_count(p, &count))
                return false;
        }
        ptx_sym_t *sym = ptx_p_declare(p, &p->names, &name, range ? PTX_SYM_RANGE : PTX_SYM_REG,
                                       range ? p->body.range_count++ : PTX_NONE);
        if (!sym)
            return false;
        sym->type = (uint8_t)type;
        sym->width = (uint8_t)width;
        sym->count = count;
    } while (ptx_lex_is(&p->lex, ','));
    return ptx_p_expect(p, ';');
}

static bool add_entry(ptx_parser_t *p, bool of_functions)
{
    const ptx_tok_t *tok = &p->lex.tok;
    if (tok->kind != PTX_TOK_IDENT)
        return ptx_p_unexpected(p, of_functions ? "a function" : "a label");
    uint32_t *entry = ptx_vec_push(&p->body.table_entries, sizeof *entry, 1);
    if (!entry)
        return ptx_p_no_memory(p);
    if (of_functions) {
        const ptx_sym_t *sym = ptx_p_find(&p->names, tok->text, tok->length);
        if (!sym || sym->kind != PTX_SYM_FUNC)
            return ptx_p_unexpected(p, "a function");
        *entry = sym->index;
        return ptx_p_note_callee(p, sym->index, false);
    }
    ptx_pending_t *use = ptx_vec_push(&p->body.pendings, sizeof *use, 1);
    if (!use)
        return ptx_p_no_memory(p);
    *use = (ptx_pending_t){.name = tok->text,
                           .length = tok->length,
                           .line = tok->line,
                           .in_table = true,
                           .index = p->body.table_entries.count - 1};
    return true;
}

/* ".branchtargets L1, L2;" and ".calltargets f, g;". While the body is read a table's `entries` is
 * the number of its first entry (see finish_tables). */
static bool table(ptx_parser_t *p, bool of_functions, uint32_t *index)
{
    uint32_t first = p->body.table_entries.count;
    do {
        ptx_lex_next(&p->lex);
        if (!add_entry(p, of_functions))
            return false;
        ptx_lex_next(&p->lex);
    } while (ptx_lex_is(&p->lex, ','));
    *index = p->body.tables.count;
    ptx_table_t *own = ptx_vec_push(&p->body.tables, sizeof *own, 1);
    if (!own)
        return ptx_p_no_memory(p);
    own->of_functions = of_functions;
    own->count = p->body.table_entries.count - first;
    return ptx_p_expect(p, ';');
}

/* At the colon behind `name`. */
static bool label(ptx_parser_t *p, const ptx_tok_t *name)
{
    ptx_sym_kind_t kind = PTX_SYM_LABEL;
    uint32_t index = p->body.instrs.count;
    ptx_lex_next(&p->lex);
    if (ptx_p_is_dot(p, "branchtargets") || ptx_p_is_dot(p, "calltargets")) {
        kind = PTX_SYM_TABLE;
        if (!table(p, ptx_p_is_dot(p, "calltargets"), &index))
            return false;
    } else if (ptx_p_is_dot(p, "callprototype")) {
        kind = PTX_SYM_PROTO;
        if (!ptx_p_call_prototype(p, &index))
            return false;
    } else {
        p->body.last_label = index;
    }
    return ptx_p_declare(p, &p->labels, name, kind, index) != NULL;
}

static bool directive(ptx_parser_t *p)
{
    ptx_space_t space;
    if (ptx_p_is_dot(p, "reg")) {
        ptx_lex_next(&p->lex);
        return registers(p);
    }
    if (ptx_p_is_dot(p, "loc") || ptx_p_is_dot(p, "file") || ptx_p_is_dot(p, "section") ||
        ptx_p_is_dot(p, "pragma"))
        return ptx_p_skip_debug(p);
    if (ptx_p_space(&p->lex.tok, &space) && space != PTX_SPACE_TEX)
        return ptx_p_variables(p, PTX_LINK_LOCAL, space, p->body.function);
    return ptx_p_unexpected(p, "an instruction");
}

static bool statement(ptx_parser_t *p)
{
    if (p->lex.tok.kind == PTX_TOK_DOT)
        return directive(p);
    if (ptx_lex_is(&p->lex, ';')) {
        ptx_lex_next(&p->lex);
        return true;
    }
    if (p->lex.tok.kind == PTX_TOK_IDENT) {
        const ptx_lex_t before = p->lex;
        const ptx_tok_t name = p->lex.tok;
        /* A single colon makes a label; two are part of an opcode's words. */
        ptx_lex_next(&p->lex);
        if (ptx_lex_is(&p->lex, ':') && ptx_lex_peek(&p->lex) != ':')
            return label(p, &name);
        p->lex = before;
    }
    return ptx_p_instruction(p);
}

/* After an error inside a statement: goes on behind its semicolon, so that one run shows several
 * errors. */
static bool recover(ptx_parser_t *p)
{
    if (p->status == GB_ERR_NO_MEMORY || p->status == GB_ERR_LIMIT || p->errors >= PTX_MAX_ERRORS)
        return false;
    while (p->lex.tok.kind != PTX_TOK_END && !ptx_lex_is(&p->lex, ';'))
        ptx_lex_next(&p->lex);
    ptx_lex_next(&p->lex);
    return p->lex.tok.kind != PTX_TOK_END;
}

static void clear(ptx_body_t *b)
{
    ptx_vec_t *vecs[] = {&b->regs,   &b->instrs,  &b->operands, &b->tables, &b->table_entries,
                         &b->protos, &b->callees, &b->pendings, &b->shared};
    for (size_t i = 0; i < sizeof vecs / sizeof vecs[0]; i++)
        vecs[i]->count = 0;
    ptx_nmap_free(&b->ranged);
    b->range_count = 0;
    b->last_label = PTX_NONE;
    b->carry = 0;
    b->local_size = b->args_size = 0;
    b->local_align = 1;
    b->calls_indirect = b->has_barrier = false;
}

bool ptx_p_body(ptx_parser_t *p, uint32_t function)
{
    uint32_t outer = p->depth, line = p->lex.tok.line;
    clear(&p->body);
    p->body.function = function;
    if (!ptx_p_regparams_enter(p))
        return false;
    do {
        bool ok = true;
        if (ptx_lex_is(&p->lex, '{')) {
            ptx_lex_next(&p->lex);
            ok = ptx_p_scope_open(p);
        } else if (ptx_lex_is(&p->lex, '}')) {
            if (p->depth == outer + 1 && !ptx_p_regparams_leave(p, NULL))
                return false;
            ptx_lex_next(&p->lex);
            if (!ptx_p_scope_close(p))
                return false;
        } else if (p->lex.tok.kind == PTX_TOK_END) {
            return ptx_p_fail(p, GB_ERR_FORMAT, line, "'{' is never closed");
        } else {
            ok = statement(p);
        }
        if (!ok && !recover(p))
            return false;
    } while (p->depth > outer);
    return p->errors == 0;
}

bool ptx_p_note_callee(ptx_parser_t *p, uint32_t function, bool called)
{
    uint32_t *marks = p->function_marks.data;
    if (!called) {
        uint32_t *taken = ptx_vec_push(&p->taken, sizeof *taken, 1);
        if (!taken)
            return ptx_p_no_memory(p);
        *taken = function;
    }
    if (marks[function] == p->body.function + 1)
        return true;
    marks[function] = p->body.function + 1;
    uint32_t *callee = ptx_vec_push(&p->body.callees, sizeof *callee, 1);
    if (!callee)
        return ptx_p_no_memory(p);
    *callee = function;
    return true;
}
