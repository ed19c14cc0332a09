#include <string.h>

#include "gpu-proxy/cpu/ptx/ptx_parser.h"

static ptx_sym_t *sym_at(const ptx_names_t *names, uint32_t index)
{
    return (ptx_sym_t *)names->syms.data + index;
}

ptx_sym_t *ptx_p_find(const ptx_names_t *names, const char *name, uint32_t length)
{
    uint32_t index = ptx_map_get(&names->map, name, length);
    return index == PTX_NONE ? NULL : sym_at(names, index);
}

ptx_sym_t *ptx_p_declare(ptx_parser_t *p, ptx_names_t *names, const ptx_tok_t *name,
                         ptx_sym_kind_t kind, uint32_t index)
{
    uint32_t outer = ptx_map_get(&names->map, name->text, name->length);
    if (outer != PTX_NONE && sym_at(names, outer)->depth == p->depth) {
        ptx_p_fail(p, GB_ERR_FORMAT, name->line, "'%.*s' is declared twice", (int)name->length,
                   name->text);
        return NULL;
    }
    uint32_t own = names->syms.count;
    ptx_sym_t *sym = ptx_vec_push(&names->syms, sizeof *sym, 1);
    if (!sym || !ptx_map_set(&names->map, name->text, name->length, own)) {
        ptx_p_no_memory(p);
        return NULL;
    }
    *sym = (ptx_sym_t){.name = name->text,
                       .length = name->length,
                       .kind = kind,
                       .index = index,
                       .depth = p->depth,
                       .shadowed = outer};
    return sym;
}

static void forget(ptx_names_t *names, uint32_t count)
{
    while (names->syms.count > count) {
        const ptx_sym_t *sym = sym_at(names, names->syms.count - 1);
        /* The key is there already, so that this needs no memory. */
        (void)ptx_map_set(&names->map, sym->name, sym->length, sym->shadowed);
        names->syms.count--;
    }
}

bool ptx_p_scope_open(ptx_parser_t *p)
{
    if (p->depth + 1 >= PTX_MAX_SCOPES)
        return ptx_p_fail(p, GB_ERR_LIMIT, p->lex.tok.line, "more than %d nested scopes",
                          PTX_MAX_SCOPES);
    p->depth++;
    p->scopes[p->depth] = (ptx_level_t){.names = p->names.syms.count,
                                        .labels = p->labels.syms.count,
                                        .pendings = p->body.pendings.count};
    return true;
}

static void resolve(ptx_parser_t *p, const ptx_pending_t *use, const ptx_sym_t *label)
{
    if (use->in_table) {
        ((uint32_t *)p->body.table_entries.data)[use->index] = label->index;
        return;
    }
    ptx_operand_t *operand = (ptx_operand_t *)p->body.operands.data + use->index;
    operand->index = label->index;
    operand->kind = label->kind == PTX_SYM_TABLE   ? PTX_OPERAND_TABLE
                    : label->kind == PTX_SYM_PROTO ? PTX_OPERAND_PROTO
                                                   : PTX_OPERAND_BLOCK;
}

/* Uses of labels of this scope are settled; the others are left to the scope around it. */
static bool resolve_labels(ptx_parser_t *p, const ptx_level_t *scope)
{
    ptx_pending_t *uses = p->body.pendings.data;
    uint32_t kept = scope->pendings;
    for (uint32_t i = scope->pendings; i < p->body.pendings.count; i++) {
        const ptx_sym_t *label = ptx_p_find(&p->labels, uses[i].name, uses[i].length);
        if (label && label->depth == p->depth)
            resolve(p, &uses[i], label);
        else if (p->depth == 1)
            return ptx_p_fail(p, GB_ERR_FORMAT, uses[i].line, "unknown label '%.*s'",
                              (int)uses[i].length, uses[i].name);
        else
            uses[kept++] = uses[i];
    }
    p->body.pendings.count = kept;
    return true;
}

bool ptx_p_scope_close(ptx_parser_t *p)
{
    const ptx_level_t *scope = &p->scopes[p->depth];
    bool ok = resolve_labels(p, scope);
    forget(&p->names, scope->names);
    forget(&p->labels, scope->labels);
    p->depth--;
    return ok;
}

static uint32_t new_register(ptx_parser_t *p, const ptx_sym_t *sym, uint32_t number)
{
    uint32_t index = p->body.regs.count;
    ptx_reg_t *reg = ptx_vec_push(&p->body.regs, sizeof *reg, sym->width);
    if (!reg)
        return PTX_NONE;
    for (unsigned i = 0; i < sym->width; i++)
        reg[i] = (ptx_reg_t){.name = sym->kept, .number = number, .type = sym->type};
    return index;
}

/* Splits "%r12" into "%r" and 12; false for names without a number, or with leading zeros. */
static bool split_number(const char *name, uint32_t length, uint32_t *prefix, uint32_t *number)
{
    uint32_t n = length;
    while (n > 1 && name[n - 1] >= '0' && name[n - 1] <= '9')
        n--;
    if (n == length || length - n > 9 || (name[n] == '0' && length - n > 1))
        return false;
    *prefix = n;
    *number = 0;
    for (uint32_t i = n; i < length; i++)
        *number = *number * 10 + (uint32_t)(name[i] - '0');
    return true;
}

static ptx_sym_t *find_range(const ptx_parser_t *p, const char *name, uint32_t length,
                             uint32_t *number)
{
    uint32_t prefix;
    if (!split_number(name, length, &prefix, number))
        return NULL;
    ptx_sym_t *sym = ptx_p_find(&p->names, name, prefix);
    /* An inner %r<3> does not hide the outer %r5. */
    while (sym && (sym->kind != PTX_SYM_RANGE || *number >= sym->count))
        sym = sym->shadowed == PTX_NONE ? NULL : sym_at(&p->names, sym->shadowed);
    return sym;
}

uint32_t ptx_p_register(ptx_parser_t *p, const char *name, uint32_t length, unsigned *width,
                        bool *ok)
{
    uint32_t number = 0;
    ptx_sym_t *range = find_range(p, name, length, &number);
    ptx_sym_t *sym = ptx_p_find(&p->names, name, length);
    if (sym && range && range->depth > sym->depth)
        sym = NULL; /* the nearer declaration wins */
    if (sym && sym->kind != PTX_SYM_REG)
        return PTX_NONE;
    if (!sym && !range)
        return PTX_NONE;
    ptx_sym_t *from = sym ? sym : range;
    *width = from->width;
    if (!from->kept && !(from->kept = ptx_p_keep(p, from->name, from->length))) {
        *ok = false;
        return PTX_NONE;
    }
    if (sym) {
        if (sym->index == PTX_NONE) {
            sym->index = new_register(p, sym, PTX_NONE);
            *ok = *ok && (sym->index != PTX_NONE || ptx_p_no_memory(p));
        }
        return sym->index;
    }
    uint64_t key = (uint64_t)range->index << 32 | number;
    uint32_t reg = ptx_nmap_get(&p->body.ranged, key);
    if (reg == PTX_NONE) {
        reg = new_register(p, range, number);
        if (reg == PTX_NONE || !ptx_nmap_set(&p->body.ranged, key, reg))
            *ok = ptx_p_no_memory(p);
    }
    return reg;
}
