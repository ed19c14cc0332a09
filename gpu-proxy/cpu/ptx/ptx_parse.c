#include "gpu-proxy/cpu/ptx/ptx_parse.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/ptx/ptx_parser.h"

static void log_text(ptx_log_t *log, const char *text)
{
    size_t room = log->size - log->used - 1, length = strlen(text);
    if (length > room)
        length = room;
    memcpy(log->text + log->used, text, length);
    log->used += length;
    log->text[log->used] = 0;
}

void ptx_log_add(ptx_log_t *log, const char *format, ...)
{
    char line[512];
    va_list args;
    if (!log || log->size == 0)
        return;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    log_text(log, line);
    log_text(log, "\n");
}

bool ptx_p_fail(ptx_parser_t *p, gb_status_t status, uint32_t line, const char *format, ...)
{
    char what[200], full[240];
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    /* Bytes that a terminal could take as commands do not go to logs. */
    for (char *c = what; *c; c++) {
        if ((unsigned char)*c < 32 || (unsigned char)*c > 126)
            *c = '?';
    }
    if (p->status == GB_ERR_NO_MEMORY)
        return false;
    snprintf(full, sizeof full, "ptx: line %u: %s", line, what);
    ptx_log_add(p->log, "%s", full);
    if (p->errors++ == 0) {
        p->status = status;
        snprintf(p->first_error, sizeof p->first_error, "%s", full);
    }
    return false;
}

bool ptx_p_no_memory(ptx_parser_t *p)
{
    ptx_p_fail(p, GB_ERR_NO_MEMORY, p->lex.tok.line, "out of memory");
    p->status = GB_ERR_NO_MEMORY;
    return false;
}

bool ptx_p_unexpected(ptx_parser_t *p, const char *wanted)
{
    const ptx_tok_t *tok = &p->lex.tok;
    if (tok->kind == PTX_TOK_END)
        return ptx_p_fail(p, GB_ERR_FORMAT, tok->line, "expected %s before the end", wanted);
    uint32_t shown = tok->length < 40 ? tok->length : 40;
    return ptx_p_fail(p, GB_ERR_FORMAT, tok->line, "expected %s before '%s%.*s'", wanted,
                      tok->kind == PTX_TOK_DOT ? "." : "", (int)shown, tok->text);
}

bool ptx_p_expect(ptx_parser_t *p, int punct)
{
    if (!ptx_lex_is(&p->lex, punct)) {
        char wanted[4] = {'\'', (char)punct, '\'', 0};
        return ptx_p_unexpected(p, wanted);
    }
    ptx_lex_next(&p->lex);
    return true;
}

static bool tok_is(const ptx_tok_t *tok, const char *word)
{
    return strlen(word) == tok->length && memcmp(word, tok->text, tok->length) == 0;
}

bool ptx_p_is_dot(const ptx_parser_t *p, const char *word)
{
    return p->lex.tok.kind == PTX_TOK_DOT && tok_is(&p->lex.tok, word);
}

const char *ptx_p_keep(ptx_parser_t *p, const char *text, uint32_t length)
{
    const char *kept = ptx_arena_text(p->arena, text, length);
    if (!kept)
        ptx_p_no_memory(p);
    return kept;
}

bool ptx_p_number(ptx_parser_t *p, uint64_t max, uint64_t *out)
{
    ptx_const_t value;
    if (!ptx_p_const(p, false, &value))
        return false;
    if (value.kind != PTX_CONST_INT || value.bits > max)
        return ptx_p_fail(p, GB_ERR_FORMAT, p->lex.tok.line,
                          "expected a whole number of at most %llu", (unsigned long long)max);
    *out = value.bits;
    return true;
}

bool ptx_p_skip_brackets(ptx_parser_t *p, int open, int close)
{
    uint32_t line = p->lex.tok.line;
    uint32_t level = 0;
    do {
        if (ptx_lex_is(&p->lex, open))
            level++;
        else if (ptx_lex_is(&p->lex, close))
            level--;
        else if (p->lex.tok.kind == PTX_TOK_END)
            return ptx_p_fail(p, GB_ERR_FORMAT, line, "'%c' is never closed", open);
        ptx_lex_next(&p->lex);
    } while (level > 0);
    return true;
}

bool ptx_p_skip_debug(ptx_parser_t *p)
{
    if (ptx_p_is_dot(p, "loc") || ptx_p_is_dot(p, "file")) {
        ptx_lex_next_line(&p->lex);
        return true;
    }
    if (ptx_p_is_dot(p, "pragma")) {
        do {
            ptx_lex_next(&p->lex);
        } while (p->lex.tok.kind == PTX_TOK_STRING || ptx_lex_is(&p->lex, ','));
        return ptx_p_expect(p, ';');
    }
    if (ptx_p_is_dot(p, "section")) {
        while (p->lex.tok.kind != PTX_TOK_END && !ptx_lex_is(&p->lex, '{'))
            ptx_lex_next(&p->lex);
        return ptx_p_skip_brackets(p, '{', '}');
    }
    return false;
}

/* ".version 8.4": the lexer sees a decimal. */
static bool version(ptx_parser_t *p)
{
    char copy[16];
    unsigned major, minor;
    ptx_lex_next(&p->lex);
    const ptx_tok_t *tok = &p->lex.tok;
    if (tok->kind != PTX_TOK_F64 || tok->length >= sizeof copy)
        return ptx_p_unexpected(p, "a PTX version");
    memcpy(copy, tok->text, tok->length);
    copy[tok->length] = 0;
    if (sscanf(copy, "%3u.%3u", &major, &minor) != 2)
        return ptx_p_unexpected(p, "a PTX version");
    if (major < 1 || major > 9)
        return ptx_p_fail(p, GB_ERR_UNSUPPORTED, tok->line, "PTX version %u.%u is not known", major,
                          minor);
    p->store->module.isa_major = major;
    p->store->module.isa_minor = minor;
    ptx_lex_next(&p->lex);
    return true;
}

static bool target(ptx_parser_t *p)
{
    do {
        ptx_lex_next(&p->lex);
        const ptx_tok_t *tok = &p->lex.tok;
        if (tok->kind != PTX_TOK_IDENT)
            return ptx_p_unexpected(p, "a target");
        if (tok->length > 3 && memcmp(tok->text, "sm_", 3) == 0) {
            uint32_t sm = 0;
            for (uint32_t i = 3; i < tok->length && i < 8; i++) {
                if (tok->text[i] >= '0' && tok->text[i] <= '9')
                    sm = sm * 10 + (uint32_t)(tok->text[i] - '0');
            }
            p->store->module.sm = sm;
            if (!(p->store->module.target = ptx_p_keep(p, tok->text, tok->length)))
                return false;
        } else if (tok_is(tok, "debug")) {
            p->store->module.debug = true;
        }
        ptx_lex_next(&p->lex);
    } while (ptx_lex_is(&p->lex, ','));
    return true;
}

static bool address_size(ptx_parser_t *p)
{
    uint64_t bits;
    uint32_t line = p->lex.tok.line;
    ptx_lex_next(&p->lex);
    if (!ptx_p_number(p, 64, &bits))
        return false;
    if (bits != 64)
        return ptx_p_fail(p, GB_ERR_UNSUPPORTED, line, "only .address_size 64 is supported");
    return true;
}

static bool read_linkage(ptx_parser_t *p, ptx_linkage_t *out)
{
    static const struct {
        const char *word;
        ptx_linkage_t linkage;
    } table[] = {{"visible", PTX_LINK_VISIBLE},
                 {"extern", PTX_LINK_EXTERN},
                 {"weak", PTX_LINK_WEAK},
                 {"common", PTX_LINK_COMMON}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (ptx_p_is_dot(p, table[i].word)) {
            *out = table[i].linkage;
            ptx_lex_next(&p->lex);
            return true;
        }
    }
    return false;
}

static bool module_item(ptx_parser_t *p)
{
    ptx_linkage_t linkage = PTX_LINK_LOCAL;
    ptx_space_t space;
    if (ptx_p_is_dot(p, "loc") || ptx_p_is_dot(p, "file") || ptx_p_is_dot(p, "section") ||
        ptx_p_is_dot(p, "pragma"))
        return ptx_p_skip_debug(p);
    if (ptx_p_is_dot(p, "version"))
        return version(p);
    if (ptx_p_is_dot(p, "target"))
        return target(p);
    if (ptx_p_is_dot(p, "address_size"))
        return address_size(p);
    if (ptx_p_is_dot(p, "alias")) {
        ptx_lex_next(&p->lex);
        return ptx_p_alias(p);
    }
    if (ptx_lex_is(&p->lex, '@')) { /* @@DWARF of old compilers */
        ptx_lex_next_line(&p->lex);
        return true;
    }
    if (ptx_lex_is(&p->lex, ';')) {
        ptx_lex_next(&p->lex);
        return true;
    }
    while (read_linkage(p, &linkage)) {
    }
    if (ptx_p_is_dot(p, "entry") || ptx_p_is_dot(p, "func"))
        return ptx_p_function_decl(p, linkage);
    if (ptx_p_space(&p->lex.tok, &space) && space != PTX_SPACE_PARAM)
        return ptx_p_variables(p, linkage, space, PTX_NONE);
    return ptx_p_unexpected(p, "a directive");
}

static bool check_header(ptx_parser_t *p)
{
    const ptx_module_t *m = &p->store->module;
    if (m->isa_major == 0)
        return ptx_p_fail(p, GB_ERR_FORMAT, 1, "no .version: this is not PTX");
    if (!m->target)
        return ptx_p_fail(p, GB_ERR_FORMAT, 1, "no .target");
    if (m->address_size == 32)
        return ptx_p_fail(p, GB_ERR_UNSUPPORTED, 1, "only .address_size 64 is supported");
    return true;
}

static bool name_all(ptx_parser_t *p)
{
    ptx_module_store_t *s = p->store;
    for (uint32_t i = 0; i < p->functions.count; i++) {
        const char *name = ptx_p_function(p, i)->name;
        if (!ptx_map_set(&s->function_names, name, strlen(name), i))
            return ptx_p_no_memory(p);
    }
    for (uint32_t i = 0; i < p->vars.count; i++) {
        const ptx_var_t *var = ptx_p_var(p, i);
        if (var->owner == PTX_NONE && !ptx_map_set(&s->var_names, var->name, strlen(var->name), i))
            return ptx_p_no_memory(p);
    }
    return true;
}

static bool seal(ptx_parser_t *p)
{
    ptx_module_t *m = &p->store->module;
    if (!ptx_p_layout_shared(p) || !name_all(p))
        return false;
    m->address_size = 64;
    m->var_count = p->vars.count;
    m->vars = ptx_arena_copy(p->arena, p->vars.data, p->vars.count * sizeof(ptx_var_t));
    m->reloc_count = p->relocs.count;
    m->relocs = ptx_arena_copy(p->arena, p->relocs.data, p->relocs.count * sizeof(ptx_reloc_t));
    m->function_count = p->functions.count;
    m->functions =
        ptx_arena_copy(p->arena, p->functions.data, p->functions.count * sizeof(ptx_function_t));
    if ((m->var_count && !m->vars) || (m->reloc_count && !m->relocs) ||
        (m->function_count && !m->functions))
        return ptx_p_no_memory(p);
    return true;
}

static void parse_module(ptx_parser_t *p)
{
    bool ok = true;
    while (ok && p->lex.tok.kind != PTX_TOK_END)
        ok = module_item(p);
    if (ok && p->errors == 0 && check_header(p))
        seal(p);
}

static void release(ptx_parser_t *p)
{
    ptx_body_t *b = &p->body;
    ptx_vec_t *vecs[] = {&p->vars,       &p->relocs,         &p->functions, &p->shared_uses,
                         &p->var_marks,  &p->function_marks, &p->taken,     &p->regparams,
                         &p->names.syms, &p->labels.syms,    &p->mnemonics, &b->regs,
                         &b->instrs,     &b->operands,       &b->tables,    &b->table_entries,
                         &b->protos,     &b->callees,        &b->pendings,  &b->shared};
    for (size_t i = 0; i < sizeof vecs / sizeof vecs[0]; i++)
        ptx_vec_free(vecs[i]);
    ptx_map_free(&p->names.map);
    ptx_map_free(&p->labels.map);
    ptx_map_free(&p->mnemonic_names);
    ptx_nmap_free(&b->ranged);
}

static uint32_t identity_of(const char *text)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return (uint32_t)(h >> 32) | 1u << 31;
}

static gb_status_t parse_text(const char *text, ptx_log_t *log, locale_t c_locale,
                              ptx_module_t **out)
{
    ptx_parser_t *p = calloc(1, sizeof *p);
    ptx_module_store_t *store = calloc(1, sizeof *store);
    if (!p || !store) {
        free(p);
        free(store);
        return gb_fail(GB_ERR_NO_MEMORY, "ptx: out of memory");
    }
    p->log = log;
    p->store = store;
    p->arena = &store->arena;
    store->module.identity = identity_of(text);
    ptx_lex_start(&p->lex, text, c_locale);
    parse_module(p);
    gb_status_t status = p->errors ? p->status : GB_OK;
    if (status != GB_OK) {
        gb_fail(status, "%s", p->first_error);
        ptx_module_free(&store->module);
    } else {
        *out = &store->module;
    }
    release(p);
    free(p);
    return status;
}

gb_status_t ptx_parse(const char *text, size_t size, ptx_log_t *log, ptx_module_t **out)
{
    if (log) {
        log->used = 0;
        if (log->size)
            log->text[0] = 0;
    }
    size = strnlen(text, size);
    if (size > PTX_MAX_TEXT) {
        ptx_log_add(log, "ptx: the text is larger than 256 MiB");
        return gb_fail(GB_ERR_LIMIT, "ptx: the text is larger than 256 MiB");
    }
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    char *copy = malloc(size + 1);
    gb_status_t status;
    if (!copy || !c_locale) {
        ptx_log_add(log, "ptx: out of memory");
        status = gb_fail(GB_ERR_NO_MEMORY, "ptx: out of memory");
    } else {
        memcpy(copy, text, size);
        copy[size] = 0;
        status = parse_text(copy, log, c_locale, out);
    }
    free(copy);
    if (c_locale)
        freelocale(c_locale);
    return status;
}

void ptx_module_free(ptx_module_t *module)
{
    if (!module)
        return;
    ptx_module_store_t *store = (ptx_module_store_t *)module;
    ptx_map_free(&store->function_names);
    ptx_map_free(&store->var_names);
    ptx_arena_free(&store->arena);
    free(store);
}

uint32_t ptx_module_function(const ptx_module_t *m, const char *name)
{
    return ptx_map_get(&((const ptx_module_store_t *)m)->function_names, name, strlen(name));
}

uint32_t ptx_module_var(const ptx_module_t *m, const char *name)
{
    return ptx_map_get(&((const ptx_module_store_t *)m)->var_names, name, strlen(name));
}
