/* The text of one module as a part of the whole: items of module scope are found by their brackets
 * (the module has been parsed, so that they match) and copied, dropped or cut to a declaration. */
#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/ptx/ptx_lex.h"
#include "gpu-proxy/cpu/ptx/ptx_linker.h"

void ptx_out_add(ptx_out_t *out, const char *text, size_t size)
{
    if (out->failed || size == 0)
        return;
    if (size >= out->room - out->used) {
        size_t room = out->room ? out->room : 4096;
        while (room - out->used <= size && room < SIZE_MAX / 2)
            room *= 2;
        char *grown = realloc(out->text, room);
        if (!grown) {
            out->failed = true;
            return;
        }
        out->text = grown;
        out->room = room;
    }
    memcpy(out->text + out->used, text, size);
    out->used += size;
    out->text[out->used] = 0;
}

static void add_word(ptx_out_t *out, const char *word)
{
    ptx_out_add(out, word, strlen(word));
}

typedef struct {
    const ptx_link_t *link;
    const ptx_input_t *input;
    uint32_t number;
    ptx_lex_t lex;
    ptx_out_t *out;
} merge_t;

static bool dot(const merge_t *m, const char *word)
{
    const ptx_tok_t *tok = &m->lex.tok;
    return tok->kind == PTX_TOK_DOT && tok->length == strlen(word) &&
           memcmp(tok->text, word, tok->length) == 0;
}

/* Where the current token begins. */
static const char *here(const merge_t *m)
{
    const ptx_tok_t *tok = &m->lex.tok;
    return tok->kind == PTX_TOK_DOT || tok->kind == PTX_TOK_STRING ? tok->text - 1 : tok->text;
}

static bool at_end(const merge_t *m)
{
    return m->lex.tok.kind == PTX_TOK_END;
}

/* The change of nesting that a token makes. */
static int nesting(const ptx_tok_t *tok)
{
    if (tok->kind != PTX_TOK_PUNCT)
        return 0;
    if (tok->code == '(' || tok->code == '[' || tok->code == '{')
        return 1;
    return tok->code == ')' || tok->code == ']' || tok->code == '}' ? -1 : 0;
}

/* From an open bracket to behind its partner. */
static void skip_nest(merge_t *m)
{
    int depth = 0;
    do {
        depth += nesting(&m->lex.tok);
        ptx_lex_next(&m->lex);
    } while (depth > 0 && !at_end(m));
}

static void skip_past(merge_t *m, int punct)
{
    while (!at_end(m) && !ptx_lex_is(&m->lex, punct)) {
        if (nesting(&m->lex.tok) > 0)
            skip_nest(m);
        else
            ptx_lex_next(&m->lex);
    }
    ptx_lex_next(&m->lex);
}

static const char *new_name(const merge_t *m, const ptx_tok_t *tok)
{
    uint32_t index = ptx_map_get(&m->input->renamed, tok->text, tok->length);
    return index == PTX_NONE ? NULL : ((char **)m->link->names.data)[index];
}

/* What comes next in a body: opcodes are words like any name, and must stay as they are. */
typedef struct {
    bool in_body;
    bool at_start; /* of a statement */
    bool in_braces;
    bool guard;
} place_t;

static void step(place_t *place, const ptx_tok_t *tok)
{
    bool start = false;
    if (tok->kind == PTX_TOK_PUNCT) {
        switch (tok->code) {
        case ';':
        case ':':
            start = true;
            break;
        case '{':
            start = place->at_start;
            place->in_braces = !start;
            break;
        case '}':
            start = !place->in_braces;
            place->in_braces = false;
            break;
        case '@':
            place->guard = true;
            break;
        case '!':
            break;
        default:
            place->guard = false;
            break;
        }
    } else if (tok->kind == PTX_TOK_IDENT && place->guard) {
        place->guard = false;
        start = true;
    }
    place->at_start = start;
}

/* Copies [from, to), which begins a token, with new names. */
static void copy(const merge_t *m, const char *from, const char *to, bool body)
{
    ptx_lex_t lex;
    place_t place = {.in_body = body, .at_start = body};
    const char *done = from;
    ptx_lex_start(&lex, from, m->lex.c_locale);
    while (lex.tok.kind != PTX_TOK_END && lex.tok.text < to) {
        const ptx_tok_t tok = lex.tok;
        bool may_be_opcode = place.in_body && place.at_start && !place.guard;
        step(&place, &tok);
        ptx_lex_next(&lex);
        bool label = ptx_lex_is(&lex, ':') && ptx_lex_peek(&lex) != ':';
        const char *name =
            tok.kind == PTX_TOK_IDENT && (!may_be_opcode || label) ? new_name(m, &tok) : NULL;
        if (name) {
            ptx_out_add(m->out, done, (size_t)(tok.text - done));
            add_word(m->out, name);
            done = tok.text + tok.length;
        }
    }
    ptx_out_add(m->out, done, (size_t)(to - done));
}

/* Is the definition of this name here another module's affair? */
static bool is_elsewhere(const merge_t *m, const ptx_tok_t *name, bool function)
{
    const ptx_shared_name_t *shared = ptx_link_shared(m->link, name->text, name->length);
    return shared && shared->is_function == function && shared->def != PTX_DEF_NONE &&
           shared->input != m->number;
}

/* "[linkage] .func (...) name (...) directives { ... }" or with ; in place of the body. */
static void function(merge_t *m, const char *start)
{
    const char *head = here(m), *body = NULL;
    ptx_tok_t name = {0};
    ptx_lex_next(&m->lex);
    while (!at_end(m) && !ptx_lex_is(&m->lex, ';')) {
        if (ptx_lex_is(&m->lex, '{')) {
            body = here(m);
            break;
        }
        if (m->lex.tok.kind == PTX_TOK_IDENT && !name.text)
            name = m->lex.tok;
        if (nesting(&m->lex.tok) > 0)
            skip_nest(m);
        else
            ptx_lex_next(&m->lex);
    }
    const char *end = here(m);
    if (body)
        skip_nest(m);
    else
        ptx_lex_next(&m->lex);
    if (body && name.text && is_elsewhere(m, &name, true)) {
        add_word(m->out, ".extern ");
        copy(m, head, end, false);
        add_word(m->out, ";\n");
        return;
    }
    copy(m, start, end, false);
    if (body)
        copy(m, body, here(m), true);
    else
        add_word(m->out, ";");
    add_word(m->out, "\n");
}

/* One declarator; the prefix in front of it says what it is. */
static void variable(merge_t *m, const char *start, const char *space, const char *names)
{
    const ptx_tok_t name = m->lex.tok;
    const char *value = NULL;
    while (!at_end(m) && !ptx_lex_is(&m->lex, ';') && !ptx_lex_is(&m->lex, ',')) {
        if (ptx_lex_is(&m->lex, '='))
            value = here(m);
        if (nesting(&m->lex.tok) > 0)
            skip_nest(m);
        else
            ptx_lex_next(&m->lex);
    }
    const char *end = here(m);
    bool elsewhere = name.kind == PTX_TOK_IDENT && is_elsewhere(m, &name, false);
    if (elsewhere)
        add_word(m->out, ".extern ");
    copy(m, elsewhere ? space : start, names, false);
    copy(m, name.text, elsewhere && value ? value : end, false);
    add_word(m->out, ";\n");
}

static void variables(merge_t *m, const char *start)
{
    const char *space = here(m);
    while (!at_end(m) && m->lex.tok.kind != PTX_TOK_IDENT) {
        if (nesting(&m->lex.tok) > 0)
            skip_nest(m);
        else
            ptx_lex_next(&m->lex);
    }
    const char *names = here(m);
    while (!at_end(m)) {
        variable(m, start, space, names);
        bool more = ptx_lex_is(&m->lex, ',');
        ptx_lex_next(&m->lex);
        if (!more)
            break;
    }
}

static void alias(merge_t *m)
{
    const char *start = here(m);
    ptx_lex_next(&m->lex);
    bool elsewhere = m->lex.tok.kind == PTX_TOK_IDENT && is_elsewhere(m, &m->lex.tok, true);
    skip_past(m, ';');
    if (!elsewhere) {
        copy(m, start, here(m), false);
        add_word(m->out, "\n");
    }
}

/* What does not go into the whole; false if it is something else. */
static bool skip(merge_t *m)
{
    if (dot(m, "version") || dot(m, "address_size")) {
        ptx_lex_next(&m->lex);
        ptx_lex_next(&m->lex);
    } else if (dot(m, "target")) {
        do {
            ptx_lex_next(&m->lex);
            ptx_lex_next(&m->lex);
        } while (ptx_lex_is(&m->lex, ','));
    } else if (dot(m, "file") || dot(m, "loc") || ptx_lex_is(&m->lex, '@')) {
        ptx_lex_next_line(&m->lex);
    } else if (dot(m, "section")) {
        while (!at_end(m) && !ptx_lex_is(&m->lex, '{'))
            ptx_lex_next(&m->lex);
        skip_nest(m);
    } else if (dot(m, "pragma")) {
        skip_past(m, ';');
    } else if (ptx_lex_is(&m->lex, ';')) {
        ptx_lex_next(&m->lex);
    } else {
        return false;
    }
    return true;
}

static void item(merge_t *m)
{
    if (skip(m))
        return;
    if (dot(m, "alias")) {
        alias(m);
        return;
    }
    const char *start = here(m);
    while (dot(m, "visible") || dot(m, "extern") || dot(m, "weak") || dot(m, "common"))
        ptx_lex_next(&m->lex);
    if (dot(m, "entry") || dot(m, "func"))
        function(m, start);
    else
        variables(m, start);
}

void ptx_merge_module(const ptx_link_t *link, uint32_t number, ptx_out_t *out)
{
    merge_t m = {.link = link, .input = &link->inputs[number], .number = number, .out = out};
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c_locale) {
        out->failed = true;
        return;
    }
    ptx_lex_start(&m.lex, m.input->text, c_locale);
    while (!at_end(&m))
        item(&m);
    freelocale(c_locale);
}
