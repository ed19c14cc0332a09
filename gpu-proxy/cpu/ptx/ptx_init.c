#include <stdlib.h>
#include <string.h>

#include "gpu-proxy/cpu/ptx/ptx_parser.h"

/* A variable's bytes while its value is read. */
typedef struct {
    ptx_var_t *var;
    uint8_t *bytes;
    uint64_t capacity;
    uint64_t reached; /* end of the last value: the size of an open array */
    bool open;
    unsigned item; /* bytes of an element */
} init_t;

static bool reserve(ptx_parser_t *p, init_t *in, uint64_t end)
{
    if (end > in->reached)
        in->reached = end;
    if (end <= in->capacity)
        return true;
    if (!in->open)
        return ptx_p_fail(p, GB_ERR_FORMAT, p->lex.tok.line, "too many initial values for '%s'",
                          in->var->name);
    if (end > PTX_MAX_INIT_BYTES)
        return ptx_p_fail(p, GB_ERR_LIMIT, p->lex.tok.line, "too large an initial value");
    uint64_t capacity = in->capacity ? in->capacity * 2 : 256;
    while (capacity < end)
        capacity *= 2;
    uint8_t *grown = realloc(in->bytes, capacity);
    if (!grown)
        return ptx_p_no_memory(p);
    memset(grown + in->capacity, 0, capacity - in->capacity);
    in->bytes = grown;
    in->capacity = capacity;
    return true;
}

static bool symbol_value(ptx_parser_t *p, init_t *in, uint64_t at, bool generic, int shift)
{
    const ptx_tok_t tok = p->lex.tok;
    const ptx_sym_t *sym =
        tok.kind == PTX_TOK_IDENT ? ptx_p_find(&p->names, tok.text, tok.length) : NULL;
    if (!sym || (sym->kind != PTX_SYM_VAR && sym->kind != PTX_SYM_FUNC))
        return ptx_p_unexpected(p, "a variable or function");
    bool masked = shift >= 0;
    if (masked ? in->item != 1 : in->item != 8 && in->item != 4)
        return ptx_p_fail(p, GB_ERR_FORMAT, tok.line, "an address does not fit into .%s",
                          ptx_type_name(in->var->type));
    ptx_reloc_t *reloc = ptx_vec_push(&p->relocs, sizeof *reloc, 1);
    if (!reloc)
        return ptx_p_no_memory(p);
    *reloc = (ptx_reloc_t){.offset = at,
                           .var = sym->kind == PTX_SYM_VAR ? sym->index : PTX_NONE,
                           .function = sym->kind == PTX_SYM_FUNC ? sym->index : PTX_NONE,
                           .size = (uint8_t)in->item,
                           .shift = (uint8_t)(masked ? shift : 0),
                           .generic = generic};
    in->var->reloc_count++;
    if (sym->kind == PTX_SYM_FUNC) {
        uint32_t *taken = ptx_vec_push(&p->taken, sizeof *taken, 1);
        if (!taken)
            return ptx_p_no_memory(p);
        *taken = sym->index;
    }
    ptx_lex_next(&p->lex);
    int64_t addend = 0;
    if (!ptx_p_offset(p, &addend))
        return false;
    reloc = (ptx_reloc_t *)p->relocs.data + p->relocs.count - 1;
    reloc->addend = addend;
    return true;
}

/* "generic(sym)" possibly followed by an offset. */
static bool generic_value(ptx_parser_t *p, init_t *in, uint64_t at, int shift)
{
    ptx_lex_next(&p->lex);
    if (!ptx_p_expect(p, '(') || !symbol_value(p, in, at, true, shift) || !ptx_p_expect(p, ')'))
        return false;
    ptx_reloc_t *reloc = (ptx_reloc_t *)p->relocs.data + p->relocs.count - 1;
    return ptx_p_offset(p, &reloc->addend);
}

static bool is_generic(const ptx_parser_t *p)
{
    const ptx_tok_t *tok = &p->lex.tok;
    return tok->kind == PTX_TOK_IDENT && tok->length == 7 && memcmp(tok->text, "generic", 7) == 0;
}

static bool address_value(ptx_parser_t *p, init_t *in, uint64_t at, int shift)
{
    return is_generic(p) ? generic_value(p, in, at, shift) : symbol_value(p, in, at, false, shift);
}

/* "0xFF00(sym)": one byte of an address. */
static bool mask_value(ptx_parser_t *p, init_t *in, uint64_t at)
{
    uint64_t mask = p->lex.tok.bits;
    int shift = mask ? __builtin_ctzll(mask) : -1;
    if (shift < 0 || shift % 8 || mask >> shift != 0xff)
        return ptx_p_fail(p, GB_ERR_FORMAT, p->lex.tok.line, "a mask must select one byte");
    ptx_lex_next(&p->lex);
    return ptx_p_expect(p, '(') && address_value(p, in, at, shift) && ptx_p_expect(p, ')');
}

static bool scalar(ptx_parser_t *p, init_t *in, uint64_t at)
{
    if (!reserve(p, in, at + in->item))
        return false;
    const ptx_tok_t *tok = &p->lex.tok;
    if (tok->kind == PTX_TOK_IDENT && !(tok->length == 7 && memcmp(tok->text, "WARP_SZ", 7) == 0))
        return address_value(p, in, at, -1);
    if (tok->kind == PTX_TOK_INT && ptx_lex_peek(&p->lex) == '(')
        return mask_value(p, in, at);
    ptx_const_t value;
    uint64_t bits;
    if (!ptx_p_const(p, false, &value) || !ptx_p_convert(p, &value, in->var->type, &bits))
        return false;
    memcpy(in->bytes + at, &bits, in->item < 8 ? in->item : 8);
    return true;
}

/* Values of dimension `d` and below, from byte `at` on; each brace fills one dimension. */
static bool values(ptx_parser_t *p, init_t *in, const uint64_t *dims, unsigned count, unsigned d,
                   uint64_t at)
{
    if (!ptx_lex_is(&p->lex, '{'))
        return scalar(p, in, at);
    if (d >= count)
        return ptx_p_unexpected(p, "a value");
    uint64_t stride = in->item;
    for (unsigned i = d + 1; i < count; i++)
        stride *= dims[i];
    bool open = in->open && d == 0;
    uint64_t end = open ? UINT64_MAX : at + stride * dims[d];
    uint64_t row = at;
    ptx_lex_next(&p->lex);
    while (!ptx_lex_is(&p->lex, '}')) {
        bool nested = ptx_lex_is(&p->lex, '{');
        if (row >= end)
            return ptx_p_fail(p, GB_ERR_FORMAT, p->lex.tok.line, "too many initial values for '%s'",
                              in->var->name);
        if (!values(p, in, dims, count, d + 1, row))
            return false;
        row += nested ? stride : in->item;
        if (!ptx_lex_is(&p->lex, ','))
            break;
        ptx_lex_next(&p->lex);
    }
    return ptx_p_expect(p, '}');
}

/* "name = value" of an opaque variable. Sizes and formats are the host's to say. */
static bool opaque_field(ptx_parser_t *p, ptx_opaque_t *to)
{
    static const struct {
        const char *name;
        uint8_t at;
    } fields[] = {{"addr_mode_0", offsetof(ptx_opaque_t, address)},
                  {"addr_mode_1", offsetof(ptx_opaque_t, address) + 1},
                  {"addr_mode_2", offsetof(ptx_opaque_t, address) + 2},
                  {"filter_mode", offsetof(ptx_opaque_t, filter)},
                  {"force_unnormalized_coords", offsetof(ptx_opaque_t, unnormalised)},
                  {"normalized_coords", offsetof(ptx_opaque_t, normalised)}};
    static const struct {
        const char *name;
        uint8_t value;
    } values_of[] = {{"wrap", PTX_ADDRESS_WRAP},
                     {"mirror", PTX_ADDRESS_MIRROR},
                     {"clamp_ogl", PTX_ADDRESS_CLAMP_OGL},
                     {"clamp_to_edge", PTX_ADDRESS_CLAMP_TO_EDGE},
                     {"clamp_to_border", PTX_ADDRESS_CLAMP_TO_BORDER},
                     {"nearest", 0},
                     {"linear", 1}};
    ptx_tok_t name = p->lex.tok, value;
    ptx_lex_next(&p->lex);
    if (name.kind != PTX_TOK_IDENT || !ptx_p_expect(p, '='))
        return ptx_p_unexpected(p, "a field of a reference");
    value = p->lex.tok;
    uint8_t number = value.kind == PTX_TOK_INT ? (uint8_t)(value.bits != 0) : PTX_OPAQUE_UNSET;
    for (size_t i = 0; i < sizeof values_of / sizeof values_of[0]; i++)
        if (value.kind == PTX_TOK_IDENT && strlen(values_of[i].name) == value.length &&
            memcmp(values_of[i].name, value.text, value.length) == 0)
            number = values_of[i].value;
    if (value.kind == PTX_TOK_IDENT && number == PTX_ADDRESS_CLAMP_OGL)
        return ptx_p_fail(p, GB_ERR_UNSUPPORTED, value.line, "clamp_ogl is not supported");
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (strlen(fields[i].name) == name.length &&
            memcmp(fields[i].name, name.text, name.length) == 0)
            ((uint8_t *)to)[fields[i].at] = number;
    if (value.kind != PTX_TOK_IDENT && value.kind != PTX_TOK_INT)
        return ptx_p_unexpected(p, "a value");
    ptx_lex_next(&p->lex);
    return true;
}

/* "{ filter_mode = linear, addr_mode_0 = wrap }" */
static bool opaque_value(ptx_parser_t *p, ptx_var_t *var)
{
    ptx_opaque_t value;
    memset(&value, PTX_OPAQUE_UNSET, sizeof value);
    if (!ptx_p_expect(p, '{'))
        return false;
    while (!ptx_lex_is(&p->lex, '}')) {
        if (!opaque_field(p, &value))
            return false;
        if (!ptx_lex_is(&p->lex, ','))
            break;
        ptx_lex_next(&p->lex);
    }
    if (!ptx_p_expect(p, '}'))
        return false;
    if (var->size != sizeof value)
        return ptx_p_fail(p, GB_ERR_UNSUPPORTED, var->line, "'%s' is an array of references",
                          var->name);
    var->init = ptx_arena_copy(p->arena, (const uint8_t *)&value, sizeof value);
    return var->init || ptx_p_no_memory(p);
}

bool ptx_p_initialiser(ptx_parser_t *p, ptx_var_t *var, uint64_t *dims, unsigned dim_count)
{
    if (var->type >= PTX_TEXREF && var->type <= PTX_SURFREF)
        return opaque_value(p, var);
    init_t in = {
        .var = var, .open = dim_count > 0 && dims[0] == 0, .item = ptx_type_size(var->type)};
    var->reloc_first = p->relocs.count;
    bool ok = true;
    if (!in.open) {
        in.capacity = var->size;
        p->init_bytes += var->size;
        if (p->init_bytes > PTX_MAX_INIT_BYTES)
            return ptx_p_fail(p, GB_ERR_LIMIT, var->line, "too many initial values");
        in.bytes = calloc(1, var->size ? var->size : 1);
        if (!in.bytes)
            return ptx_p_no_memory(p);
    }
    ok = values(p, &in, dims, dim_count, 0, 0);
    if (ok && in.open) {
        uint64_t row = in.item;
        for (unsigned i = 1; i < dim_count; i++)
            row *= dims[i];
        uint64_t size = row ? (in.reached + row - 1) / row * row : 0;
        ok = reserve(p, &in, size);
        var->size = size;
        p->init_bytes += size;
        if (ok && p->init_bytes > PTX_MAX_INIT_BYTES)
            ok = ptx_p_fail(p, GB_ERR_LIMIT, var->line, "too many initial values");
    }
    if (ok && var->size) {
        var->init = ptx_arena_copy(p->arena, in.bytes, var->size);
        ok = var->init || ptx_p_no_memory(p);
    }
    free(in.bytes);
    return ok;
}
