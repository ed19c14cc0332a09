/* .param variables of device functions and of calls: which can live in registers.
 *
 * Variables that a call connects (argument with parameter, result with result) are of one class and
 * cut into the same pieces: what is stored whole. A load must lie inside of one piece. */
#include "gpu-proxy/cpu/lower/lower_state.h"

enum { MAX_PIECES = 96 };

bool lw_is_param(const lw_t *lw, uint32_t var)
{
    const ptx_function_t *k = lw->kernel;
    return lw->module->vars[var].space == PTX_SPACE_PARAM &&
           !(var >= k->param_first && var - k->param_first < k->param_count);
}

lw_param_t *lw_class(const lw_t *lw, uint32_t var)
{
    uint32_t root = var;
    while (lw->params[root].parent != root) {
        root = lw->params[root].parent;
    }
    while (lw->params[var].parent != root) {
        uint32_t next = lw->params[var].parent;
        lw->params[var].parent = root;
        var = next;
    }
    return &lw->params[root];
}

unsigned lw_piece_type(unsigned size)
{
    return size == 8 ? PTX_B64 : size == 4 ? PTX_B32 : PTX_B16;
}

static void know(lw_t *lw, const ptx_function_t *f, uint32_t var)
{
    lw_param_t *p = &lw->params[var];
    if (!p->known) {
        lw_fn_t *fn = &lw->fns[f - lw->module->functions];
        p->known = true;
        p->parent = var;
        p->ordinal = fn->param_vars++;
    }
}

static void join(lw_t *lw, uint32_t x, uint32_t y)
{
    lw_param_t *a = lw_class(lw, x), *b = lw_class(lw, y);
    if (a != b) {
        b->parent = (uint32_t)(a - lw->params);
    }
}

static void find_vars(lw_t *lw, const ptx_function_t *f)
{
    for (uint32_t n = 0; !f->is_kernel && n < f->param_count; n++) {
        know(lw, f, f->param_first + n);
    }
    for (uint32_t n = 0; n < f->result_count; n++) {
        know(lw, f, f->result_first + n);
    }
    for (uint32_t n = 0; n < f->operand_count; n++) {
        const ptx_operand_t *o = &f->operands[n];
        bool var = o->kind == PTX_OPERAND_VAR ||
                   (o->kind == PTX_OPERAND_ADDRESS && o->base == PTX_OPERAND_VAR);
        if (var && lw_is_param(lw, o->index)) {
            know(lw, f, o->index);
        }
    }
}

static void join_list(lw_t *lw, const ptx_function_t *f, const ptx_operand_t *list, uint32_t first,
                      uint32_t count)
{
    for (uint32_t n = 0; list->kind == PTX_OPERAND_VECTOR && n < list->count && n < count; n++) {
        const ptx_operand_t *o = ptx_element(f, list, n);
        if (o->kind == PTX_OPERAND_VAR) {
            join(lw, o->index, first + n);
        }
    }
}

static void join_call(lw_t *lw, const ptx_function_t *f, const ptx_instr_t *i)
{
    uint32_t count;
    const uint32_t *targets = lw_targets(lw, f, i, &count);
    for (uint32_t n = 0; n < count; n++) {
        const ptx_function_t *t = &lw->module->functions[targets[n]];
        join_list(lw, f, ptx_dst(f, i, 0), t->result_first, t->result_count);
        join_list(lw, f, ptx_src(f, i, 1), t->param_first, t->param_count);
    }
}

static bool overlap(const lw_piece_t *x, uint32_t offset, uint32_t size)
{
    return x->offset < offset + size && offset < x->offset + x->size;
}

static void add_piece(lw_t *lw, lw_param_t *c, uint32_t offset, unsigned size, bool store)
{
    lw_piece_t *pieces = c->pieces.data;
    for (uint32_t n = 0; n < c->pieces.count; n++) {
        lw_piece_t *p = &pieces[n];
        if (!overlap(p, offset, size)) {
            continue;
        }
        bool inside = offset >= p->offset && offset + size <= p->offset + p->size;
        c->memory |= !inside || (store && size != p->size);
        p->stored |= store;
        return;
    }
    if (c->pieces.count == MAX_PIECES) {
        c->memory = true;
        return;
    }
    lw_piece_t *p = lw_push(lw, &c->pieces, sizeof *p, 1);
    *p = (lw_piece_t){.offset = offset, .size = (uint8_t)size, .stored = store};
}

static void note_access(lw_t *lw, const ptx_instr_t *i, const ptx_operand_t *o, bool store)
{
    lw_param_t *c = lw_class(lw, o->index);
    unsigned size = ptx_type_size((ptx_type_t)i->type);
    uint64_t bytes = lw->module->vars[o->index].size;
    uint64_t all = (uint64_t)size * (i->vec > 1 ? i->vec : 1);
    if (size > 8 || o->value > bytes || all > bytes - o->value) {
        c->memory = true; /* beyond its end: found when it runs */
        return;
    }
    for (unsigned n = 0; n < (i->vec > 1 ? i->vec : 1); n++) {
        add_piece(lw, c, (uint32_t)o->value + n * size, size, store);
    }
}

/* Accesses of f, first what is stored, then what is loaded, so that loads find whole pieces. */
static void note_accesses(lw_t *lw, const ptx_function_t *f, bool stores)
{
    for (uint32_t n = 0; n < f->instr_count; n++) {
        const ptx_instr_t *i = &f->instrs[n];
        bool access = (i->op == PTX_OP_LD || i->op == PTX_OP_ST) && i->space == PTX_SPACE_PARAM;
        for (unsigned k = 0; k < i->src_count && i->op != PTX_OP_CALL; k++) {
            const ptx_operand_t *o = ptx_src(f, i, k);
            bool address = o->kind == PTX_OPERAND_ADDRESS && o->base == PTX_OPERAND_VAR;
            if ((o->kind != PTX_OPERAND_VAR && !address) || !lw_is_param(lw, o->index)) {
                continue;
            }
            if (!access || !address) {
                lw_class(lw, o->index)->memory = true;
            } else if ((i->op == PTX_OP_ST) == stores) {
                note_access(lw, i, o, stores);
            }
        }
    }
}

/* Register arguments of .param parameters are stored whole. */
static void note_register_arguments(lw_t *lw, const ptx_function_t *f, const ptx_instr_t *i)
{
    uint32_t count;
    const uint32_t *targets = lw_targets(lw, f, i, &count);
    for (uint32_t n = 0; n < count; n++) {
        const ptx_function_t *t = &lw->module->functions[targets[n]];
        for (unsigned side = 0; side < 2; side++) {
            const ptx_operand_t *list = side == 0 ? ptx_dst(f, i, 0) : ptx_src(f, i, 1);
            uint32_t first = side == 0 ? t->result_first : t->param_first;
            uint32_t most = side == 0 ? t->result_count : t->param_count;
            for (uint32_t k = 0; list->kind == PTX_OPERAND_VECTOR && k < list->count && k < most;
                 k++) {
                const ptx_var_t *v = &lw->module->vars[first + k];
                if (ptx_element(f, list, k)->kind == PTX_OPERAND_VAR) {
                    continue;
                }
                if (v->size > 8 || (v->size & (v->size - 1)) != 0) {
                    lw->line = i->line;
                    lw_trouble(lw, "a register is passed for a parameter of another size");
                    return;
                }
                add_piece(lw, lw_class(lw, first + k), 0, (unsigned)v->size, side == 1);
            }
        }
    }
}

static void for_calls(lw_t *lw, void (*visit)(lw_t *, const ptx_function_t *, const ptx_instr_t *))
{
    for (uint32_t n = 0; n < lw->order.count; n++) {
        const ptx_function_t *f = &lw->module->functions[((uint32_t *)lw->order.data)[n]];
        for (uint32_t k = 0; k < f->instr_count; k++) {
            if (f->instrs[k].op == PTX_OP_CALL) {
                visit(lw, f, &f->instrs[k]);
            }
        }
    }
}

/* Places in their function's frame for the variables that stay in memory. */
static void place(lw_t *lw)
{
    const ptx_module_t *m = lw->module;
    for (uint32_t v = 0; v < m->var_count; v++) {
        lw_param_t *p = &lw->params[v];
        if (!p->known || !lw_class(lw, v)->memory) {
            continue;
        }
        uint32_t owner = m->vars[v].owner;
        lw_fn_t *fn = &lw->fns[owner == PTX_NONE ? 0 : lw->canonical[owner]];
        uint64_t align = m->vars[v].align > 8 ? m->vars[v].align : 8;
        fn->frame = (fn->frame + align - 1) & ~(align - 1);
        p->place = fn->frame;
        fn->frame += m->vars[v].size;
    }
}

void lw_params(lw_t *lw)
{
    lw->params = cpu_arena_alloc(lw->arena, lw->module->var_count + 1, sizeof *lw->params);
    for (uint32_t n = 0; n < lw->order.count; n++) {
        uint32_t index = ((uint32_t *)lw->order.data)[n];
        find_vars(lw, &lw->module->functions[index]);
        lw->fns[index].frame = (lw->module->functions[index].local_size + 7) & ~(uint64_t)7;
    }
    for_calls(lw, join_call);
    for_calls(lw, note_register_arguments);
    for (unsigned loads = 0; loads < 2; loads++) {
        for (uint32_t n = 0; n < lw->order.count; n++) {
            uint32_t index = ((uint32_t *)lw->order.data)[n];
            note_accesses(lw, &lw->module->functions[index], loads == 0);
        }
    }
    place(lw);
    for (uint32_t n = 0; n < lw->order.count; n++) {
        lw_fn_t *fn = &lw->fns[((uint32_t *)lw->order.data)[n]];
        fn->frame = (fn->frame + 15) & ~(uint64_t)15;
    }
}
