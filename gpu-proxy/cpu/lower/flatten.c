/* A function with all that is spliced into it, as one list of instructions. */
#include "gpu-proxy/cpu/lower/lower_state.h"

#include <string.h>

static uint32_t index_of(const lw_t *lw, const ptx_function_t *f)
{
    return (uint32_t)(f - lw->module->functions);
}

/* Registers for the variable's pieces, once. */
static void give_registers(lw_t *lw, lw_body_t *body, uint32_t var)
{
    uint32_t ordinal = lw->params[var].ordinal;
    const lw_param_t *c = lw_class(lw, var);
    if (body->pieces[ordinal] != PTX_NONE || c->memory) {
        return;
    }
    body->pieces[ordinal] = lw->regs.count;
    for (uint32_t n = 0; n < c->pieces.count; n++) {
        unsigned size = ((const lw_piece_t *)c->pieces.data)[n].size;
        lw_reg(lw, lw_piece_type(size), "%param");
    }
}

lw_body_t *lw_body(lw_t *lw, const ptx_function_t *f, lw_root_t *root, uint64_t frame,
                   uint32_t depth)
{
    lw_body_t *body = cpu_arena_alloc(lw->arena, 1, sizeof *body);
    uint32_t vars = lw->fns[index_of(lw, f)].param_vars;
    *body = (lw_body_t){.f = f,
                        .root = root,
                        .reg_base = lw->regs.count,
                        .frame = frame,
                        .label_base = lw->labels,
                        .ret_label = PTX_NONE,
                        .depth = depth};
    if (f->reg_count != 0) {
        memcpy(lw_push(lw, &lw->regs, sizeof(ptx_reg_t), f->reg_count), f->regs,
               f->reg_count * sizeof(ptx_reg_t));
    }
    lw->labels += f->block_count;
    body->pieces = cpu_arena_alloc(lw->arena, vars + 1, sizeof *body->pieces);
    memset(body->pieces, 0xff, vars * sizeof *body->pieces);
    for (uint32_t n = 0; !f->is_kernel && n < f->param_count; n++) {
        give_registers(lw, body, f->param_first + n);
    }
    for (uint32_t n = 0; n < f->result_count; n++) {
        give_registers(lw, body, f->result_first + n);
    }
    for (uint32_t n = 0; n < f->operand_count; n++) {
        const ptx_operand_t *o = &f->operands[n];
        bool var = o->kind == PTX_OPERAND_VAR ||
                   (o->kind == PTX_OPERAND_ADDRESS && o->base == PTX_OPERAND_VAR);
        if (var && lw_is_param(lw, o->index)) {
            give_registers(lw, body, o->index);
        }
    }
    uint64_t end = frame + lw->fns[index_of(lw, f)].frame;
    root->frame = end > root->frame ? end : root->frame;
    return body;
}

static void copy_guard(const lw_body_t *body, const ptx_instr_t *from, ptx_instr_t *to)
{
    to->guard = from->guard == PTX_NONE ? PTX_NONE : body->reg_base + from->guard;
    to->guard_negated = from->guard_negated;
}

static void plain(lw_t *lw, lw_body_t *body, const ptx_instr_t *i)
{
    ptx_operand_t all[255];
    unsigned count = i->dst_count + i->src_count;
    for (unsigned n = 0; n < count && n < 255; n++) {
        all[n] = lw_remap(lw, body, &body->f->operands[i->operand_first + n]);
    }
    ptx_instr_t *own = lw_emit(lw, i->op, i->type, all, i->dst_count, i->src_count);
    uint32_t first = own->operand_first;
    *own = *i;
    own->operand_first = first;
    copy_guard(body, i, own);
}

uint32_t lw_skip_unless(lw_t *lw, lw_body_t *body, const ptx_instr_t *i)
{
    if (i->guard == PTX_NONE) {
        return PTX_NONE;
    }
    uint32_t skip = lw_label(lw);
    lw_bra_if(lw, body->reg_base + i->guard, !i->guard_negated, skip);
    return skip;
}

static void branch(lw_t *lw, lw_body_t *body, const ptx_instr_t *i, uint32_t label)
{
    lw_bra(lw, label);
    ptx_instr_t *own = lw_at(lw->out, lw->out->count - 1);
    own->flags = i->flags;
    copy_guard(body, i, own);
}

static void branch_indexed(lw_t *lw, lw_body_t *body, const ptx_instr_t *i)
{
    const ptx_table_t *t = &body->f->tables[ptx_src(body->f, i, 1)->index];
    uint64_t *keys = cpu_arena_alloc(lw->arena, t->count + 1, sizeof *keys);
    uint32_t *labels = cpu_arena_alloc(lw->arena, t->count + 1, sizeof *labels), count = 0;
    for (uint32_t n = 0; n < t->count; n++) { /* runs of one target are one leaf */
        if (count == 0 || labels[count - 1] != body->label_base + t->entries[n]) {
            keys[count] = n;
            labels[count++] = body->label_base + t->entries[n];
        }
    }
    uint32_t skip = lw_skip_unless(lw, body, i);
    uint32_t index = lw_reg(lw, PTX_B32, "%index");
    lw_mov(lw, PTX_B32, index, lw_remap(lw, body, ptx_src(body->f, i, 0)));
    if (count == 0) {
        lw_trouble(lw, "brx.idx without targets");
        return;
    }
    lw_tree(lw, index, keys, labels, count);
    if (skip != PTX_NONE) {
        lw_here(lw, skip);
    }
}

/* ---- calls ---- */

static void call_runtime(lw_t *lw, lw_body_t *body, const ptx_instr_t *i, const ptx_function_t *t)
{
    static const uint8_t counts[] = {
        [PTX_RT_VPRINTF] = 2, [PTX_RT_ASSERTFAIL] = 5, [PTX_RT_MALLOC] = 1, [PTX_RT_FREE] = 1};
    ptx_runtime_t which = ptx_runtime_by_name(t->name);
    const ptx_operand_t *list = ptx_src(body->f, i, 1), *results = ptx_dst(body->f, i, 0);
    unsigned given = list->kind == PTX_OPERAND_VECTOR ? list->count : 0;
    if (which == PTX_RT_NONE) {
        lw_trouble(lw, "a call of a function that is defined nowhere");
        return;
    }
    if (given != counts[which]) {
        lw_trouble(lw, "a function of the runtime with the wrong number of arguments");
        return;
    }
    ptx_operand_t o[6];
    uint32_t result = lw_reg(lw, PTX_B64, "%result");
    o[0] = lw_of_reg(result);
    for (unsigned n = 0; n < given; n++) {
        o[n + 1] = lw_of_reg(lw_argument(lw, body, ptx_element(body->f, list, n)));
    }
    lw_emit(lw, PTX_OP_RUNTIME, PTX_U64, o, 1, given)->mode = (uint8_t)which;
    if (results->kind == PTX_OPERAND_VECTOR && results->count != 0) {
        lw_give(lw, body, ptx_element(body->f, results, 0), result);
    }
}

static void splice(lw_t *lw, lw_body_t *body, const ptx_instr_t *i, const ptx_function_t *t)
{
    uint64_t frame = body->frame + lw->fns[index_of(lw, body->f)].frame;
    lw_body_t *own = lw_body(lw, t, body->root, frame, body->depth + 1);
    const ptx_operand_t *results = ptx_dst(body->f, i, 0), *list = ptx_src(body->f, i, 1);
    own->ret_label = lw_label(lw);
    for (unsigned n = 0; list->kind == PTX_OPERAND_VECTOR && n < list->count; n++) {
        lw_pass(lw, body, ptx_element(body->f, list, n), own, n, 0);
    }
    uint32_t note = lw_alloca_enter(lw, own);
    lw_flatten(lw, own);
    lw_here(lw, own->ret_label);
    lw->line = i->line;
    lw_alloca_leave(lw, note);
    for (unsigned n = 0; results->kind == PTX_OPERAND_VECTOR && n < results->count; n++) {
        lw_fetch(lw, body, ptx_element(body->f, results, n), own, n, 0);
    }
}

static bool counts_fit(const ptx_function_t *f, const ptx_instr_t *i, const ptx_function_t *t)
{
    const ptx_operand_t *results = ptx_dst(f, i, 0), *list = ptx_src(f, i, 1);
    uint32_t r = results->kind == PTX_OPERAND_VECTOR ? results->count : 0;
    uint32_t p = list->kind == PTX_OPERAND_VECTOR ? list->count : 0;
    return r == t->result_count && p == t->param_count;
}

static void call(lw_t *lw, lw_body_t *body, const ptx_instr_t *i)
{
    uint32_t skip = lw_skip_unless(lw, body, i);
    const ptx_operand_t *callee = ptx_src(body->f, i, 0);
    if (callee->kind == PTX_OPERAND_FUNC) {
        uint32_t index = lw->canonical[callee->index];
        const ptx_function_t *t = &lw->module->functions[index];
        if (!t->defined) {
            call_runtime(lw, body, i, t);
        } else if (!counts_fit(body->f, i, t)) {
            lw_trouble(lw, "a call with the wrong number of arguments");
        } else if (lw->fns[index].inlined) {
            splice(lw, body, i, t);
        } else {
            lw_site(lw, body, i);
        }
    } else {
        lw_site(lw, body, i);
    }
    if (skip != PTX_NONE) {
        lw_here(lw, skip);
    }
}

static bool is_param_access(const lw_t *lw, const lw_body_t *body, const ptx_instr_t *i)
{
    if ((i->op != PTX_OP_LD && i->op != PTX_OP_ST) || i->space != PTX_SPACE_PARAM) {
        return false;
    }
    const ptx_operand_t *o = ptx_src(body->f, i, 0);
    return o->base == PTX_OPERAND_VAR ? lw_is_param(lw, o->index) : !body->f->is_kernel;
}

static void copy(lw_t *lw, lw_body_t *body, const ptx_instr_t *i)
{
    lw->line = i->line;
    switch (i->op) {
    case PTX_OP_BRA:
        branch(lw, body, i, body->label_base + ptx_src(body->f, i, 0)->index);
        break;
    case PTX_OP_BRX:
        branch_indexed(lw, body, i);
        break;
    case PTX_OP_RET:
        if (body->ret_label != PTX_NONE) {
            branch(lw, body, i, body->ret_label);
        } else {
            plain(lw, body, i);
        }
        break;
    case PTX_OP_CALL:
        call(lw, body, i);
        break;
    default:
        if (is_param_access(lw, body, i)) {
            lw_param_access(lw, body, i);
        } else if (!lw_alloca(lw, body, i)) {
            plain(lw, body, i);
        }
    }
}

void lw_flatten(lw_t *lw, lw_body_t *body)
{
    const ptx_function_t *f = body->f;
    for (uint32_t b = 0; b < f->block_count && lw->trouble == NULL; b++) {
        lw_here(lw, body->label_base + b);
        for (uint32_t n = 0; n < f->blocks[b].count && lw->trouble == NULL; n++) {
            copy(lw, body, &f->instrs[f->blocks[b].first + n]);
        }
    }
}
