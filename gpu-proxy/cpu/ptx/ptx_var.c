#include <string.h>

#include "gpu-proxy/cpu/ptx/ptx_parser.h"

bool ptx_p_space(const ptx_tok_t *tok, ptx_space_t *out)
{
    static const struct {
        const char *word;
        ptx_space_t space;
    } table[] = {{"global", PTX_SPACE_GLOBAL}, {"const", PTX_SPACE_CONST},
                 {"shared", PTX_SPACE_SHARED}, {"local", PTX_SPACE_LOCAL},
                 {"param", PTX_SPACE_PARAM},   {"tex", PTX_SPACE_TEX}};
    if (tok->kind != PTX_TOK_DOT)
        return false;
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        if (strlen(table[i].word) == tok->length &&
            memcmp(table[i].word, tok->text, tok->length) == 0) {
            *out = table[i].space;
            return true;
        }
    }
    return false;
}

ptx_var_t *ptx_p_add_var(ptx_parser_t *p, const ptx_var_t *var, uint32_t *index)
{
    *index = p->vars.count;
    ptx_var_t *own = ptx_vec_push(&p->vars, sizeof *own, 1);
    if (!own || !ptx_vec_push(&p->var_marks, sizeof(uint32_t), 1)) {
        ptx_p_no_memory(p);
        return NULL;
    }
    *own = *var;
    return own;
}

bool ptx_p_reserved_shared(ptx_parser_t *p, uint32_t *index)
{
    enum { ALIGN = 128 };
    ptx_var_t var = {.name = PTX_RESERVED_NAME,
                     .space = PTX_SPACE_SHARED,
                     .type = PTX_B8,
                     .align = ALIGN,
                     .size = PTX_RESERVED_SHARED,
                     .owner = PTX_NONE};
    if (p->reserved == 0) {
        if (!ptx_p_add_var(p, &var, index))
            return false;
        p->reserved = *index + 1;
    }
    *index = p->reserved - 1;
    return true;
}

bool ptx_p_layout(uint64_t *frame, uint32_t *frame_align, uint64_t size, uint32_t align,
                  uint64_t limit, uint64_t *offset)
{
    uint64_t at = (*frame + align - 1) & ~(uint64_t)(align - 1);
    if (size > limit || at > limit - size)
        return false;
    *offset = at;
    *frame = at + size;
    if (frame_align && *frame_align < align)
        *frame_align = align;
    return true;
}

typedef struct {
    ptx_var_t var;   /* type, align, space */
    unsigned vector; /* elements of a vector type, else 1 */
    bool align_given;
} shape_t;

static bool read_align(ptx_parser_t *p, shape_t *shape)
{
    uint64_t align;
    uint32_t line = p->lex.tok.line;
    ptx_lex_next(&p->lex);
    if (!ptx_p_number(p, 1 << 20, &align))
        return false;
    if (align == 0 || align & (align - 1))
        return ptx_p_fail(p, GB_ERR_FORMAT, line, "an alignment must be a power of two");
    shape->var.align = (uint32_t)align;
    shape->align_given = true;
    return true;
}

/* ".ptr .global .align 4": what a pointer parameter points at. */
static bool read_ptr(ptx_parser_t *p, shape_t *shape)
{
    ptx_space_t space;
    uint64_t align;
    shape->var.pointer = true;
    ptx_lex_next(&p->lex);
    if (ptx_p_space(&p->lex.tok, &space)) {
        shape->var.pointee = (uint8_t)space;
        ptx_lex_next(&p->lex);
    }
    if (!ptx_p_is_dot(p, "align"))
        return true;
    ptx_lex_next(&p->lex);
    return ptx_p_number(p, 1 << 20, &align);
}

static bool read_attribute(ptx_parser_t *p, shape_t *shape)
{
    ptx_lex_next(&p->lex);
    if (!ptx_lex_is(&p->lex, '('))
        return ptx_p_unexpected(p, "'('");
    ptx_lex_next(&p->lex);
    if (ptx_p_is_dot(p, "managed"))
        shape->var.managed = true;
    while (!ptx_lex_is(&p->lex, ')')) {
        if (ptx_lex_is(&p->lex, '(')) {
            if (!ptx_p_skip_brackets(p, '(', ')'))
                return false;
        } else if (p->lex.tok.kind == PTX_TOK_END) {
            return ptx_p_unexpected(p, "')'");
        } else {
            ptx_lex_next(&p->lex);
        }
    }
    ptx_lex_next(&p->lex);
    return true;
}

static bool read_vector(ptx_parser_t *p, shape_t *shape)
{
    static const char *const words[] = {"v2", "v4", "v8"};
    for (unsigned i = 0; i < 3; i++) {
        if (ptx_p_is_dot(p, words[i])) {
            shape->vector = 2u << i;
            ptx_lex_next(&p->lex);
            return true;
        }
    }
    return false;
}

/* ".align 4 .attribute(.managed) .v2 .f32 .ptr .global" in any order, up to the name. */
static bool read_shape(ptx_parser_t *p, shape_t *shape)
{
    while (p->lex.tok.kind == PTX_TOK_DOT) {
        ptx_type_t type = ptx_type_by_name(p->lex.tok.text, p->lex.tok.length);
        bool ok = true;
        if (type != PTX_TYPE_NONE) {
            shape->var.type = (uint8_t)type;
            ptx_lex_next(&p->lex);
        } else if (ptx_p_is_dot(p, "align")) {
            ok = read_align(p, shape);
        } else if (ptx_p_is_dot(p, "ptr")) {
            ok = read_ptr(p, shape);
        } else if (ptx_p_is_dot(p, "attribute")) {
            ok = read_attribute(p, shape);
        } else if (!read_vector(p, shape)) {
            ok = ptx_p_unexpected(p, "a type");
        }
        if (!ok)
            return false;
    }
    if (shape->var.type == PTX_TYPE_NONE || shape->var.type == PTX_PRED)
        return ptx_p_unexpected(p, "the type of a variable");
    return true;
}

static bool read_dims(ptx_parser_t *p, uint64_t *dims, unsigned *count)
{
    while (ptx_lex_is(&p->lex, '[')) {
        if (*count >= PTX_MAX_DIMS - 1)
            return ptx_p_fail(p, GB_ERR_LIMIT, p->lex.tok.line, "more than %d dimensions",
                              PTX_MAX_DIMS - 1);
        uint64_t n = 0;
        ptx_lex_next(&p->lex);
        if (!ptx_lex_is(&p->lex, ']')) {
            if (!ptx_p_number(p, PTX_MAX_VAR_BYTES, &n))
                return false;
        } else if (*count > 0) {
            return ptx_p_unexpected(p, "a size");
        }
        if (!ptx_p_expect(p, ']'))
            return false;
        dims[(*count)++] = n;
    }
    return true;
}

static bool total_size(ptx_parser_t *p, ptx_var_t *var, const uint64_t *dims, unsigned count)
{
    uint64_t size = ptx_type_size(var->type);
    for (unsigned i = 0; i < count; i++) {
        if (dims[i] && size > PTX_MAX_VAR_BYTES / dims[i])
            return ptx_p_fail(p, GB_ERR_LIMIT, var->line, "'%s' is larger than 1 GiB", var->name);
        size *= dims[i];
    }
    var->size = size;
    return true;
}

/* One name with its dimensions and value. */
static bool read_declarator(ptx_parser_t *p, const shape_t *shape, ptx_var_t *var, ptx_tok_t *name)
{
    uint64_t dims[PTX_MAX_DIMS];
    unsigned count = 0;
    if (p->lex.tok.kind != PTX_TOK_IDENT)
        return ptx_p_unexpected(p, "a name");
    *name = p->lex.tok;
    *var = shape->var;
    var->line = name->line;
    var->name = ptx_p_keep(p, name->text, name->length);
    if (!var->name)
        return false;
    ptx_lex_next(&p->lex);
    if (!read_dims(p, dims, &count))
        return false;
    bool open = count > 0 && dims[0] == 0;
    if (shape->vector > 1)
        dims[count++] = shape->vector;
    if (!shape->align_given)
        var->align = ptx_type_size(var->type) * shape->vector;
    if (!total_size(p, var, dims, count))
        return false;
    if (ptx_lex_is(&p->lex, '=')) {
        ptx_lex_next(&p->lex);
        return (var->space == PTX_SPACE_GLOBAL || var->space == PTX_SPACE_CONST)
                   ? ptx_p_initialiser(p, var, dims, count)
                   : ptx_p_fail(p, GB_ERR_FORMAT, name->line,
                                "only .global and .const variables have initial values");
    }
    if (open)
        var->size = 0;
    if (open && var->space == PTX_SPACE_SHARED)
        var->dynamic = true;
    return true;
}

bool ptx_p_param(ptx_parser_t *p, uint32_t owner, ptx_var_t *out, ptx_tok_t *name)
{
    shape_t shape = {.vector = 1, .var = {.space = PTX_SPACE_PARAM, .owner = owner}};
    return read_shape(p, &shape) && read_declarator(p, &shape, out, name);
}

/* Where a variable of a function's body goes. */
static bool place(ptx_parser_t *p, ptx_var_t *var)
{
    ptx_body_t *b = &p->body;
    bool fits = true;
    if (var->space == PTX_SPACE_LOCAL)
        fits = ptx_p_layout(&b->local_size, &b->local_align, var->size, var->align, 512 << 10,
                            &var->offset);
    else if (var->space == PTX_SPACE_PARAM)
        fits = ptx_p_layout(&b->args_size, NULL, var->size, var->align, 512 << 10, &var->offset);
    return fits || ptx_p_fail(p, GB_ERR_LIMIT, var->line, "more than 512 KiB of .%s variables",
                              ptx_space_name(var->space));
}

/* Several .common definitions may differ in size, and so may declarations of them. */
static bool sizes_agree(const ptx_var_t *a, const ptx_var_t *b)
{
    return a->size == b->size || a->size == 0 || b->size == 0 || a->linkage == PTX_LINK_COMMON ||
           b->linkage == PTX_LINK_COMMON ||
           (a->linkage == PTX_LINK_EXTERN && b->linkage == PTX_LINK_EXTERN);
}

/* Same name, space and size: an .extern and its definition, in any order. Compilers declare what they
 * define as .u64 as .b64 or as bytes. */
static bool merge(ptx_parser_t *p, ptx_sym_t *sym, const ptx_var_t *var)
{
    ptx_var_t *old = sym->kind == PTX_SYM_VAR ? ptx_p_var(p, sym->index) : NULL;
    bool compatible = old && old->space == var->space && sizes_agree(old, var) &&
                      (old->linkage == PTX_LINK_EXTERN || var->linkage == PTX_LINK_EXTERN ||
                       old->linkage == PTX_LINK_WEAK || old->linkage == PTX_LINK_COMMON);
    if (!compatible)
        return ptx_p_fail(p, GB_ERR_FORMAT, var->line, "'%s' is declared twice", var->name);
    if (old->linkage == PTX_LINK_EXTERN)
        *old = *var;
    return true;
}

static bool add_named(ptx_parser_t *p, const ptx_var_t *var, const ptx_tok_t *name)
{
    uint32_t index;
    ptx_sym_t *known = ptx_p_find(&p->names, name->text, name->length);
    if (known && known->depth == p->depth)
        return merge(p, known, var);
    return ptx_p_add_var(p, var, &index) &&
           ptx_p_declare(p, &p->names, name, PTX_SYM_VAR, index) != NULL;
}

bool ptx_p_variables(ptx_parser_t *p, ptx_linkage_t linkage, ptx_space_t space, uint32_t owner)
{
    shape_t shape = {.vector = 1,
                     .var = {.space = (uint8_t)space, .linkage = (uint8_t)linkage, .owner = owner}};
    ptx_lex_next(&p->lex);
    if (space == PTX_SPACE_CONST && ptx_lex_is(&p->lex, '[')) { /* .const[2]: banks of old PTX */
        if (!ptx_p_skip_brackets(p, '[', ']'))
            return false;
    }
    if (!read_shape(p, &shape))
        return false;
    for (;;) {
        ptx_var_t var;
        ptx_tok_t name;
        if (!read_declarator(p, &shape, &var, &name) || !place(p, &var) ||
            !add_named(p, &var, &name))
            return false;
        if (!ptx_lex_is(&p->lex, ','))
            break;
        ptx_lex_next(&p->lex);
    }
    return ptx_p_expect(p, ';');
}
