#include <string.h>

#include "gpu-proxy/cpu/ptx/ptx_parser.h"

typedef enum { ROLE_RESULT, ROLE_PARAM } role_t;

/* A function's head while it is read. */
typedef struct {
    ptx_function_t f;
    ptx_tok_t name;
    uint32_t reg_params; /* .reg parameters seen, of either role */
} head_t;

/* Gives the parameter its place behind the ones before it. */
static bool place_param(ptx_parser_t *p, head_t *head, ptx_var_t *var, role_t role, uint32_t *index)
{
    uint64_t limit = head->f.is_kernel ? PTX_MAX_PARAM_BYTES : 512 << 10;
    uint64_t result_size = 0;
    uint64_t *frame = role == ROLE_RESULT ? &result_size : &head->f.param_size;
    if (!ptx_p_layout(frame, NULL, var->size, var->align, limit, &var->offset))
        return ptx_p_fail(p, GB_ERR_LIMIT, var->line, "more than %llu bytes of parameters",
                          (unsigned long long)limit);
    if (!ptx_p_add_var(p, var, index))
        return false;
    if (role == ROLE_RESULT) {
        if (head->f.result_count++ == 0)
            head->f.result_first = *index;
    } else if (head->f.param_count++ == 0) {
        head->f.param_first = *index;
    }
    return true;
}

/* ".reg .v2 .f32 a": one parameter for each component, see ptx_regparam.c. */
static bool add_reg_param(ptx_parser_t *p, head_t *head, uint32_t owner, role_t role)
{
    ptx_regparam_t param = {.is_result = role == ROLE_RESULT};
    ptx_type_t type;
    ptx_lex_next(&p->lex);
    if (!ptx_p_register_type(p, &type, &param.width))
        return false;
    if (type == PTX_PRED)
        return ptx_p_fail(p, GB_ERR_UNSUPPORTED, p->lex.tok.line,
                          "predicates as parameters of functions are not supported");
    ptx_lex_next(&p->lex);
    param.name = p->lex.tok;
    if (param.name.kind != PTX_TOK_IDENT)
        return ptx_p_unexpected(p, "a name");
    ptx_lex_next(&p->lex);
    ptx_var_t var = {.space = PTX_SPACE_PARAM,
                     .type = (uint8_t)type,
                     .align = ptx_type_size(type),
                     .size = ptx_type_size(type),
                     .owner = owner,
                     .line = param.name.line};
    var.name = ptx_p_keep(p, param.name.text, param.name.length);
    for (unsigned i = 0; i < param.width; i++) {
        uint32_t index;
        if (!var.name || !place_param(p, head, &var, role, &index))
            return false;
        if (i == 0)
            param.first_var = index;
    }
    param.type = type;
    return ptx_p_regparam_add(p, &param);
}

static bool add_param(ptx_parser_t *p, head_t *head, uint32_t owner, role_t role)
{
    ptx_var_t var;
    ptx_tok_t name;
    uint32_t index;
    if (ptx_p_is_dot(p, "reg") && !head->f.is_kernel)
        return add_reg_param(p, head, owner, role);
    if (!ptx_p_is_dot(p, "param"))
        return ptx_p_unexpected(p, ".param");
    ptx_lex_next(&p->lex);
    return ptx_p_param(p, owner, &var, &name) && place_param(p, head, &var, role, &index) &&
           ptx_p_declare(p, &p->names, &name, PTX_SYM_VAR, index);
}

/* "( .param ..., .param ... )" */
static bool read_params(ptx_parser_t *p, head_t *head, uint32_t owner, role_t role)
{
    if (!ptx_p_expect(p, '('))
        return false;
    while (!ptx_lex_is(&p->lex, ')')) {
        if (!add_param(p, head, owner, role))
            return false;
        if (!ptx_lex_is(&p->lex, ','))
            break;
        ptx_lex_next(&p->lex);
    }
    return ptx_p_expect(p, ')');
}

static bool read_triple(ptx_parser_t *p, uint32_t out[3])
{
    uint64_t n;
    ptx_lex_next(&p->lex);
    for (int i = 0; i < 3; i++) {
        if (!ptx_p_number(p, UINT32_MAX, &n))
            return false;
        out[i] = (uint32_t)n;
        if (!ptx_lex_is(&p->lex, ',')) {
            while (++i < 3)
                out[i] = 1;
            return true;
        }
        ptx_lex_next(&p->lex);
    }
    return ptx_p_unexpected(p, "at most three dimensions");
}

static bool read_single(ptx_parser_t *p, uint32_t *out)
{
    uint64_t n;
    ptx_lex_next(&p->lex);
    if (!ptx_p_number(p, UINT32_MAX, &n))
        return false;
    *out = (uint32_t)n;
    return true;
}

/* .maxntid 256, 1, 1 .minnctapersm 2 .pragma "nounroll"; .noreturn ... before the body */
static bool read_directives(ptx_parser_t *p, ptx_function_t *f)
{
    uint32_t ignored;
    while (p->lex.tok.kind == PTX_TOK_DOT) {
        bool ok = true;
        if (ptx_p_is_dot(p, "maxntid"))
            ok = read_triple(p, f->max_ntid);
        else if (ptx_p_is_dot(p, "reqntid"))
            ok = read_triple(p, f->req_ntid);
        else if (ptx_p_is_dot(p, "reqnctapercluster"))
            ok = read_triple(p, f->req_cluster);
        else if (ptx_p_is_dot(p, "minnctapersm") || ptx_p_is_dot(p, "maxnctapersm"))
            ok = read_single(p, &f->min_cta_per_sm);
        else if (ptx_p_is_dot(p, "maxnreg"))
            ok = read_single(p, &f->max_nreg);
        else if (ptx_p_is_dot(p, "maxclusterrank") || ptx_p_is_dot(p, "abi_preserve") ||
                 ptx_p_is_dot(p, "abi_preserve_control"))
            ok = read_single(p, &ignored);
        else if (ptx_p_is_dot(p, "noreturn")) {
            f->noreturn = true;
            ptx_lex_next(&p->lex);
        } else if (ptx_p_is_dot(p, "explicitcluster") || ptx_p_is_dot(p, "blocksareclusters") ||
                   ptx_p_is_dot(p, "unique")) {
            ptx_lex_next(&p->lex);
        } else if (ptx_p_is_dot(p, "pragma") || ptx_p_is_dot(p, "loc") || ptx_p_is_dot(p, "file")) {
            ok = ptx_p_skip_debug(p);
        } else {
            ok = ptx_p_unexpected(p, "'{' or ';'");
        }
        if (!ok)
            return false;
    }
    return true;
}

static bool read_head(ptx_parser_t *p, head_t *head, uint32_t owner)
{
    head->f.is_kernel = ptx_p_is_dot(p, "entry");
    ptx_lex_next(&p->lex);
    if (ptx_p_is_dot(p, "attribute")) {
        ptx_lex_next(&p->lex);
        if (!ptx_lex_is(&p->lex, '('))
            return ptx_p_unexpected(p, "'('");
        if (!ptx_p_skip_brackets(p, '(', ')'))
            return false;
    }
    if (!head->f.is_kernel && ptx_lex_is(&p->lex, '(')) {
        if (!read_params(p, head, owner, ROLE_RESULT))
            return false;
    }
    if (p->lex.tok.kind != PTX_TOK_IDENT)
        return ptx_p_unexpected(p, "a function's name");
    head->name = p->lex.tok;
    head->f.line = p->lex.tok.line;
    if (!(head->f.name = ptx_p_keep(p, head->name.text, head->name.length)))
        return false;
    ptx_lex_next(&p->lex);
    if (ptx_lex_is(&p->lex, '(') && !read_params(p, head, owner, ROLE_PARAM))
        return false;
    return read_directives(p, &head->f);
}

static bool new_function(ptx_parser_t *p, uint32_t *index)
{
    *index = p->functions.count;
    return (ptx_vec_push(&p->functions, sizeof(ptx_function_t), 1) &&
            ptx_vec_push(&p->shared_uses, sizeof(ptx_shared_use_t), 1) &&
            ptx_vec_push(&p->function_marks, sizeof(uint32_t), 1)) ||
           ptx_p_no_memory(p);
}

/* The function's number: that of an earlier declaration, or a new one, at module scope. */
static bool function_number(ptx_parser_t *p, const head_t *head, uint32_t *index)
{
    ptx_sym_t *known = ptx_p_find(&p->names, head->name.text, head->name.length);
    if (!known) {
        return new_function(p, index) &&
               ptx_p_declare(p, &p->names, &head->name, PTX_SYM_FUNC, *index);
    }
    const ptx_function_t *old =
        known->kind == PTX_SYM_FUNC ? ptx_p_function(p, known->index) : NULL;
    if (!old || old->is_kernel != head->f.is_kernel)
        return ptx_p_fail(p, GB_ERR_FORMAT, head->name.line, "'%s' is declared twice",
                          head->f.name);
    *index = known->index;
    return true;
}

static void set_owner(ptx_parser_t *p, uint32_t first_var, uint32_t function)
{
    for (uint32_t i = first_var; i < p->vars.count; i++)
        ptx_p_var(p, i)->owner = function;
}

/* Names declared in the parameters' scope stand before the function's own name in the table, so
 * the name is declared after that scope, and the scope opened again for the body. */
static bool reopen_params(ptx_parser_t *p, uint32_t count, const ptx_sym_t *syms)
{
    if (!ptx_p_scope_open(p))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        const ptx_tok_t name = {.text = syms[i].name, .length = syms[i].length};
        if (!ptx_p_declare(p, &p->names, &name, PTX_SYM_VAR, syms[i].index))
            return false;
    }
    return true;
}

static bool define(ptx_parser_t *p, const head_t *head, uint32_t index, uint32_t count,
                   const ptx_sym_t *syms)
{
    ptx_function_t *f = ptx_p_function(p, index);
    if (f->defined)
        return ptx_p_fail(p, GB_ERR_FORMAT, head->name.line, "'%s' is defined twice", f->name);
    const char *name = head->f.name;
    *f = head->f;
    f->name = name;
    f->defined = true;
    return reopen_params(p, count, syms) && ptx_p_body(p, index) && ptx_p_scope_close(p) &&
           ptx_p_finish_body(p);
}

static bool declare_or_define(ptx_parser_t *p, head_t *head, uint32_t first_var, uint32_t count,
                              const ptx_sym_t *syms)
{
    uint32_t index = 0;
    if (!function_number(p, head, &index))
        return false;
    set_owner(p, first_var, index);
    if (ptx_lex_is(&p->lex, '{'))
        return define(p, head, index, count, syms);
    ptx_function_t *f = ptx_p_function(p, index);
    if (!f->defined)
        *f = head->f;
    return ptx_p_expect(p, ';');
}

bool ptx_p_function_decl(ptx_parser_t *p, ptx_linkage_t linkage)
{
    head_t head = {.f = {.linkage = (uint8_t)linkage}};
    uint32_t first_var = p->vars.count, first_sym = p->names.syms.count;
    p->regparams.count = 0;
    if (!ptx_p_scope_open(p) || !read_head(p, &head, PTX_NONE))
        return false;
    uint32_t count = p->names.syms.count - first_sym;
    ptx_sym_t *syms = NULL;
    if (count) {
        const ptx_sym_t *own = (const ptx_sym_t *)p->names.syms.data + first_sym;
        syms = ptx_arena_copy(p->arena, own, count * sizeof *own);
        if (!syms)
            return ptx_p_no_memory(p);
    }
    return ptx_p_scope_close(p) && declare_or_define(p, &head, first_var, count, syms);
}

bool ptx_p_alias(ptx_parser_t *p)
{
    ptx_tok_t names[2];
    uint32_t index[2] = {0};
    for (int i = 0; i < 2; i++) {
        names[i] = p->lex.tok;
        const ptx_sym_t *sym = names[i].kind == PTX_TOK_IDENT
                                   ? ptx_p_find(&p->names, names[i].text, names[i].length)
                                   : NULL;
        if (!sym || sym->kind != PTX_SYM_FUNC)
            return ptx_p_unexpected(p, "a function's name");
        index[i] = sym->index;
        ptx_lex_next(&p->lex);
        if (!ptx_p_expect(p, i == 0 ? ',' : ';'))
            return false;
    }
    ptx_function_t *alias = ptx_p_function(p, index[0]);
    const ptx_function_t *aliasee = ptx_p_function(p, index[1]);
    if (alias->defined || !aliasee->defined)
        return ptx_p_fail(p, GB_ERR_FORMAT, names[0].line,
                          "an alias needs a name without a body and a function with one");
    const char *name = alias->name;
    uint8_t linkage = alias->linkage;
    *alias = *aliasee;
    alias->name = name;
    alias->linkage = linkage;
    alias->aliased = aliasee->aliased != 0 ? aliasee->aliased : index[1] + 1;
    ptx_shared_use_t *uses = p->shared_uses.data;
    uses[index[0]] = uses[index[1]];
    return true;
}

static bool proto_param(ptx_parser_t *p, ptx_vec_t *params, uint64_t *frame)
{
    ptx_var_t var;
    ptx_tok_t name;
    if (!ptx_p_is_dot(p, "param"))
        return ptx_p_unexpected(p, ".param");
    ptx_lex_next(&p->lex);
    if (!ptx_p_param(p, PTX_NONE, &var, &name))
        return false;
    if (!ptx_p_layout(frame, NULL, var.size, var.align, 512 << 10, &var.offset))
        return ptx_p_fail(p, GB_ERR_LIMIT, name.line, "too many parameters");
    ptx_var_t *own = ptx_vec_push(params, sizeof *own, 1);
    if (!own)
        return ptx_p_no_memory(p);
    *own = var;
    return true;
}

static bool proto_list(ptx_parser_t *p, ptx_vec_t *params)
{
    uint64_t frame = 0;
    if (!ptx_p_expect(p, '('))
        return false;
    while (!ptx_lex_is(&p->lex, ')')) {
        if (!proto_param(p, params, &frame))
            return false;
        if (!ptx_lex_is(&p->lex, ','))
            break;
        ptx_lex_next(&p->lex);
    }
    return ptx_p_expect(p, ')');
}

static bool proto_signature(ptx_parser_t *p, ptx_proto_t *proto, ptx_vec_t *params)
{
    ptx_lex_next(&p->lex);
    if (ptx_lex_is(&p->lex, '(') && !proto_list(p, params))
        return false;
    proto->result_count = params->count;
    if (proto->result_count > 1)
        return ptx_p_unexpected(p, "at most one result");
    if (p->lex.tok.kind != PTX_TOK_IDENT)
        return ptx_p_unexpected(p, "_");
    ptx_lex_next(&p->lex);
    if (ptx_lex_is(&p->lex, '(') && !proto_list(p, params))
        return false;
    proto->param_count = params->count - proto->result_count;
    ptx_function_t directives = {0};
    if (!read_directives(p, &directives))
        return false;
    proto->noreturn = directives.noreturn;
    return ptx_p_expect(p, ';');
}

bool ptx_p_call_prototype(ptx_parser_t *p, uint32_t *index)
{
    ptx_vec_t params = {0};
    ptx_proto_t proto = {0};
    bool ok = proto_signature(p, &proto, &params);
    if (ok && params.count) {
        proto.params = ptx_arena_copy(p->arena, params.data, params.count * sizeof(ptx_var_t));
        ok = proto.params || ptx_p_no_memory(p);
    }
    ptx_vec_free(&params);
    if (!ok)
        return false;
    *index = p->body.protos.count;
    ptx_proto_t *own = ptx_vec_push(&p->body.protos, sizeof *own, 1);
    if (!own)
        return ptx_p_no_memory(p);
    *own = proto;
    return true;
}
